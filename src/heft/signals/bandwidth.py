"""Bandwidth f99 of the motion, and the cutoff frequency of the low-pass that follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidRecording, InvalidSetting
from heft.recordings import Recording

from . import splines
from .clock import survey, usual_step, windows
from .filters import REACH, linear
from .settings import Smoothing

LARGEST_CORNER = 0.4  # of the sampling rate
# Corners tried for a spline, in units of 20 · f99. Cross-validation takes the encoder's noise for
# white. On none of five measured arms it was, and the highest corner allowed was always asked for:
# at 40 · f99 that costs 79 % of the score on one and 15 % on another, at 20 · f99 nothing on any.
SPLINE_CORNERS = tuple(2.0 ** (k / 2.0) for k in range(-6, 1))


def _highest_f99(edges: Array, power: Array, bins: Array, top: float) -> float:
    """Return the largest f99 of any joint [Hz], from band sums of the positions' spectrum.

    The median of the bands in the upper half below a limit estimates the encoder's noise, and
    twice that is subtracted. Noise differs from motion in having its velocity's energy at the top
    of the band: while f99 lies above a quarter of the limit, the limit is halved.
    """
    centre = np.sqrt(edges[1:] * edges[:-1])
    full = bins > 0
    mean = np.where(full[:, None], power / np.maximum(bins, 1)[:, None], 0.0)
    limit, best = top, top
    while limit > 64.0 * centre[full][0]:
        upper = full & (centre > 0.5 * limit) & (centre < 0.9 * limit)
        floor = 2.0 * np.median(mean[upper], axis=0) if upper.any() else 0.0
        below = full & (centre < limit)
        energy = np.maximum(mean - floor, 0.0) * (bins * below * centre**2)[:, None]
        total = energy.sum(axis=0)
        moving = total >= 0.01 * total.max()
        if not total.max() > 0.0:
            return 0.0
        shares = np.cumsum(energy[:, moving], axis=0) / total[moving]
        places = [int(np.searchsorted(column, 0.99)) for column in shares.T]
        best = float(edges[max(places) + 1])
        if best < 0.25 * limit:
            break
        limit *= 0.5
    return best


def choose_corner(recordings: Sequence[Recording], names: Sequence[str]) -> float:
    """Return the cutoff frequency [Hz] of the low-pass for these logs: f_c = 20 · f99.

    f99 is the frequency below which 99 % of the energy of a joint's velocity lies, the largest
    of the joints that carry at least 1 % of the fastest's energy. The encoder's noise is
    subtracted first (see `_highest_f99`). Every log measured so far scores within 3 % of its best
    cutoff at 10 to 20 times f99. Never above 0.4 of the sampling rate.

    Args:
        recordings: The logs of one experiment.
        names: Their position signals.

    Raises:
        InvalidRecording: If the logs are too short for a spectrum, or nothing moves.
    """
    edges = np.geomspace(1e-3, 1e5, 8 * 133 + 1)
    power = np.zeros((len(edges) - 1, len(names)))
    bins = np.zeros(len(edges) - 1)
    rate = np.inf
    for recording in recordings:
        step = survey(recording, names).step
        rate = min(rate, 1.0 / step)
        for window in windows(recording, names, step, 0.0):
            count = int((window.time[-1] - window.time[0]) / step) + 1
            if count < 64:
                continue
            grid = window.time[0] + step * np.arange(count)
            even = linear(window.time, window.values, grid)
            taper = np.hanning(count)[:, None]
            spectrum = np.abs(np.fft.rfft(taper * (even - even.mean(axis=0)), axis=0)) ** 2
            frequency = np.fft.rfftfreq(count, step)[1:]
            place = np.clip(np.searchsorted(edges, frequency) - 1, 0, len(power) - 1)
            np.add.at(power, place, spectrum[1:] / count)
            np.add.at(bins, place, 1.0)
    if not bins.any():
        raise InvalidRecording(
            "the logs are too short to see what moves",
            argument=", ".join(r.name for r in recordings),
            expected="64 rows without a gap at least",
            cure="give longer logs, or a corner",
        )
    f99 = _highest_f99(edges, power, bins, 0.5 * rate)
    if f99 == 0.0:
        raise InvalidRecording(
            "no joint moves in these logs",
            argument=", ".join(r.name for r in recordings),
            cure="record a motion, or check which columns hold the positions",
        )
    return float(min(20.0 * f99, LARGEST_CORNER * rate))


def choose_corners(
    recordings: Sequence[Recording], names: Sequence[str], corner: float, trim: float = 0.5
) -> tuple[float, ...]:
    """Return the corner of each joint's spline [Hz] by generalised cross-validation.

    The score is `(RSS/n) / (1 − d)²` [Craven1979], with d the trace of the smoother's matrix per
    row: the mean of its response `1/(1 + (f/f_c)⁶)` over all frequencies up to Nyquist's.
    Candidates are corners from an eighth of the common one up to it, half an octave apart; no
    higher ones, which the score would favour where the encoder's noise is not white. The lowest
    candidate is chosen whose score exceeds the least by no more than a tenth of the noise that
    the spline of least score lets through.

    Args:
        corner: The common corner, 20 · f99 [Hz].
        trim: Time at each end of a segment left out of the score [s]: there a spline is no more
            than a parabola, which biases the score towards higher corners.

    Raises:
        InvalidRecording: If a log has too few usable rows.
    """
    rate = min(survey(recording, names).rate for recording in recordings)
    tried = [min(corner * k, LARGEST_CORNER * rate) for k in SPLINE_CORNERS]
    energy = np.zeros((len(tried), len(names)))
    rows, freedom = 0, np.zeros(len(tried))
    for recording in recordings:
        step = survey(recording, names).step
        margin = splines.memory(tried[0])
        frequency = (np.arange(1024) + 0.5) / 2048.0 / step
        for window in windows(recording, names, step, margin):
            if len(window.time) < 2 * REACH + 2:
                continue
            time, values = window.time[window.core], window.values[window.core]
            inside = (time >= window.begin + trim) & (time <= window.end - trim)
            count = int(np.sum(inside))
            rows += count
            for k, f in enumerate(tried):
                spline = splines.fit(window.time, window.values, step, f)
                fitted = splines.evaluate(*spline, time[inside])
                energy[k] += np.sum((values[inside] - fitted) ** 2, axis=0)
                freedom[k] += count * np.mean(1.0 / (1.0 + (frequency / f) ** 6))
    if rows == 0:
        return (corner,) * len(names)
    share = freedom / rows
    score = energy / rows / (1.0 - share[:, None]) ** 2
    floor = 1e-24 * (energy.max(axis=0) / rows) + np.finfo(float).tiny
    limit = score.min(axis=0) * (1.0 + 0.1 * share[np.argmin(score, axis=0)]) + floor
    best = np.argmax(score <= limit, axis=0)
    return tuple(float(tried[k]) for k in best)


def resolve(
    smoothing: Smoothing, recordings: Sequence[Recording], names: Sequence[str]
) -> Smoothing:
    """Return the smoothing with its corner chosen from the data, or checked if it is given.

    Call it once for the logs of an experiment and their position signals, before `smoother`.

    Raises:
        InvalidSetting: If a corner is not below half the sampling rate.
        InvalidRecording: If the logs are too short, or nothing moves, to choose one.
    """
    if smoothing.corner is None:
        corner, corners = choose_corner(recordings, names), smoothing.corners
        if smoothing.method == "spline" and corners is None:
            corners = choose_corners(recordings, names, corner, smoothing.trim)
        return replace(smoothing, corner=corner, corners=corners)
    for recording in recordings:
        rate = 1.0 / usual_step(recording)
        highest = max(smoothing.corner, *(smoothing.corners or (0.0,)))
        if highest >= 0.5 * rate:
            raise InvalidSetting(
                "the corner of the low-pass is not below half the sampling rate",
                argument="corner",
                got=f"{highest:g} Hz",
                expected=f"below {0.5 * rate:.4g} Hz, half the rate of {recording.name}",
            )
    return smoothing


def limited(smoothing: Smoothing, recording: Recording) -> Smoothing:
    """Return the smoothing with no cutoff above what a recording's sampling rate allows.

    Use it for a recording other than those for which `resolve` chose the cutoff. The limit is 0.4
    of its rate.
    """
    if smoothing.corner is None:
        return smoothing
    highest = LARGEST_CORNER / usual_step(recording)
    if max(smoothing.corner, *(smoothing.corners or (0.0,))) <= highest:
        return smoothing
    corners = smoothing.corners and tuple(min(c, highest) for c in smoothing.corners)
    return replace(smoothing, corner=min(smoothing.corner, highest), corners=corners)


def unsmoothed(smoothing: Smoothing, rate: float) -> Smoothing:
    """Return the settings of signals that are used without a filter.

    Their corner is 0.4 of the sampling rate [Hz] unless given.
    """
    if smoothing.corner is not None:
        return smoothing
    return replace(smoothing, corner=LARGEST_CORNER * rate)
