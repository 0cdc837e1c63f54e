"""Recordings as samples of a plant: signals aligned, made smooth, cut and chosen.

What smoothing, delays, selections and gaps do to samples is here, once for all plants; and which
rows are of what slides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft import signals
from heft.arrays import Array
from heft.recordings import BLOCK_ROWS, Recording
from heft.signals import Smoothed, Smoothing, Timeline, Window

from .plant import Inputs, Plant, Samples

# Which rows count, for each recording by index of the sample, shape (samples, c).
Counted = tuple[NDArray[np.bool_], ...]


@dataclass(frozen=True)
class Survey:
    """Signals, clocks and smoothing of the recordings, found in one pass."""

    inputs: tuple[Inputs, ...]  # the signals that the plant takes of each
    timelines: tuple[Timeline, ...]  # what the clock of each shows
    smoothing: Smoothing  # with its cutoff chosen

    @property
    def cutoff(self) -> float:
        """Cutoff of the low-pass [Hz]."""
        assert self.smoothing.corner is not None
        return self.smoothing.corner

    @staticmethod
    def of(
        plant: Plant[Any], recordings: Sequence[Recording], smoothing: Smoothing, measured: bool
    ) -> Survey:
        """Survey recordings: signals that are there, clocks, and the cutoff for their motion.

        Raises:
            MissingSignal: If one is not there.
            InvalidRecording: If a clock is none, or nothing moves.
        """
        inputs = tuple(plant.inputs(r, measured) for r in recordings)
        both = [*zip(recordings, inputs, strict=True)]
        for recording, taken in both:
            recording.require(taken.names, "the plant takes")
        timelines = tuple(signals.survey(r, i.names) for r, i in both)
        smoothed = inputs[0].smoothed if inputs else ()
        if smoothed:
            smoothing = signals.resolve(smoothing, recordings, smoothed)
        elif timelines:  # nothing is smoothed, and nothing filtered
            smoothing = signals.unsmoothed(smoothing, min(t.rate for t in timelines))
        return Survey(inputs, timelines, smoothing)


@dataclass(frozen=True)
class Sampler:
    """Makes samples of a plant's recordings, window by window; k is a recording's position."""

    plant: Plant[Any]  # what the samples are for
    recordings: tuple[Recording, ...]  # the logs
    survey: Survey  # what they are like
    # how many samples one stands for, with the mean of their measurements and the motion of the
    # middle one
    decimation: int = 1

    @cached_property
    def smoothers(self) -> tuple[signals.Smoother | None, ...]:
        """Smoother of each recording's motion; None where nothing is smoothed."""
        made: list[signals.Smoother | None] = []
        for k, recording in enumerate(self.recordings):
            names, step = self.survey.inputs[k].smoothed, self.survey.timelines[k].step
            smoothing = self.survey.smoothing
            made.append(signals.smoother(smoothing, recording, names, step) if names else None)
        return tuple(made)

    def windows(
        self, core_rows: int = BLOCK_ROWS // 2, filtered: bool = False
    ) -> Iterator[tuple[int, Window]]:
        """Yield position and windows of each recording, of `core_rows` without their margins.

        Rows that are `filtered` pass a low-pass of their own, which needs wider margins.
        """
        for k, recording in enumerate(self.recordings):
            step, smoother = self.survey.timelines[k].step, self.smoothers[k]
            margin = smoother.margin if smoother else abs(self.survey.smoothing.delay or 0.0)
            if filtered:
                margin += signals.settling(self.survey.cutoff, step, self.survey.smoothing.order)
            names = self.survey.inputs[k].names
            for window in signals.windows(recording, names, step, margin, core_rows):
                yield k, window

    def motion(
        self, k: int, window: Window, at: Array | None, cut: slice = slice(None)
    ) -> tuple[Any, int]:
        """Return the plant's motion in a cut of a window, at other times [s] than its own if given.

        Its number of samples is returned, too.
        """
        chosen = self.survey.inputs[k].motion
        values = window.values[:, : len(chosen)]
        smooth = np.array([s.derivatives > 0 for s in chosen], dtype=bool)
        smoother = self.smoothers[k]
        if smoother is not None and smooth.all():
            made = smoother.smooth(window.time, values, at)
        else:
            late = np.array([s.late for s in chosen], dtype=bool)
            made = self._mixed(smoother, window.time, values, smooth, late, at)
        parts = Smoothed(made.position[cut], made.velocity[cut], made.acceleration[cut])
        return self.plant.motion(parts), len(parts.position)

    def _mixed(
        self,
        smoother: signals.Smoother | None,
        time: Array,
        values: Array,
        smooth: NDArray[np.bool_],
        late: NDArray[np.bool_],
        at: Array | None,
    ) -> Smoothed:
        """Smooth some signals, and interpolate the others, whose derivatives are NaN."""
        wanted = time if at is None else at
        behind = wanted + (self.survey.smoothing.delay or 0.0)
        out = np.full((3, len(wanted), values.shape[1]), np.nan)
        for j in np.flatnonzero(~smooth):
            own = behind if late[j] else wanted
            out[0, :, j] = values[:, j] if at is None else np.interp(own, time, values[:, j])
        if smoother is not None:
            made = smoother.smooth(time, values[:, smooth], at)
            out[0][:, smooth] = made.position
            out[1][:, smooth] = made.velocity
            out[2][:, smooth] = made.acceleration
        return Smoothed(*out)

    def measured(self, k: int, values: Array) -> Array:
        """Return what channels measured, (rows, c), of signals, shape (rows, signals) [SI]."""
        inputs = self.survey.inputs[k]
        places = {name: j for j, name in enumerate(inputs.names)}
        efforts = np.zeros((len(values), len(self.plant.channels)))
        for m in inputs.measured:
            first, *others = m.terms
            total = first[1] * values[:, places[first[0]]]
            for name, factor in others:
                total = total + factor * values[:, places[name]]
            efforts[:, m.channel] = total
        return efforts

    def chosen(
        self, k: int, window: Window, time: Array, index: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return which rows are within the trimmed log and the selection, shape (rows,).

        Rows are told by their time [s] and their number in the log.
        """
        trim = self.survey.smoothing.trim
        inside = (time >= window.begin + trim) & (time <= window.end - trim)
        selection = self.recordings[k].selection
        return inside if selection is None else inside & selection(index)

    def sample(self, k: int, window: Window) -> Samples[Any] | None:
        """Return the samples of a window's core, without presliding memory yet.

        There are none where the window is too short to be smoothed. Blocks of `decimation` samples,
        counted from the log's begin, are left out if they are not whole.
        """
        if self.smoothers[k] is not None and len(window.time) < 2 * signals.REACH + 2:
            return None
        cut, delay, every = window.core, self.survey.smoothing.delay or 0.0, self.decimation
        time, index = window.time[cut], window.index[cut]
        measured = self.measured(k, window.values[cut])
        chosen = self.chosen(k, window, time, index)
        at = None
        if every > 1:
            index, first, sizes = np.unique(index // every, return_index=True, return_counts=True)
            index, first = index[sizes == every], first[sizes == every]
            block = first[:, None] + np.arange(every)
            measured, chosen = measured[block].mean(axis=1), chosen[block].all(axis=1)
            time = time[first + every // 2]
        if every > 1 or delay != 0.0:
            at, cut = time - delay, slice(None)
        motion, count = self.motion(k, window, at, cut)
        return Samples(k, time, motion, np.empty((count, 0)), measured, index, chosen)

    def even(self, k: int, window: Window) -> Samples[Any] | None:
        """Return a window with margins on an even grid, measurements shifted by the delay.

        Chosen are as many as a low-pass at the cutoff leaves something of; there are none where the
        window is too short.
        """
        step, time = self.survey.timelines[k].step, window.time
        if len(time) < 2 * signals.REACH + 2:
            return None
        grid = step * np.arange(np.ceil(time[0] / step), np.floor(time[-1] / step) + 1)
        motion, count = self.motion(k, window, grid)
        delay = self.survey.smoothing.delay or 0.0
        measured = signals.linear(time, self.measured(k, window.values), grid + delay)
        core = time[window.core]
        after = time[window.core.stop] if window.core.stop < len(time) else np.inf
        index = window.index[np.searchsorted(time, grid - 0.5 * step)]
        chosen = (grid >= core[0]) & (grid < after) & self.chosen(k, window, grid, index)
        thin = max(1, int(1.0 / (4.0 * self.survey.cutoff * step)))
        chosen &= np.round(grid / step) % thin == 0
        return Samples(k, grid, motion, np.empty((count, 0)), measured, index, chosen)

    def remembered(self, parts: Iterable[Samples[Any] | None]) -> Iterator[Samples[Any]]:
        """Yield samples with their memory, which depends on all earlier rows."""
        recording, state = -1, None
        for s in parts:
            if s is None:
                continue
            if s.recording != recording:
                recording, state = s.recording, None
            s, state = self.plant.remember(s, state)
            yield s


def sliding_rows(
    samples: Iterable[Samples[Any]],
    plant: Plant[Any],
    speed: float,
    settle: float,
    gaps: Sequence[float],
) -> Counted:
    """Return which rows of each channel lie within sustained sliding in one direction.

    Near standstill friction is not what simple terms say; use this to leave such rows out.

    Args:
        samples: Of all recordings, in order.
        speed: Speed above which a revolute drive slides [rad/s]; see `Plant.sliding`.
        settle: How long before and after a row it must slide the same way [s].
        gaps: Longest time between samples that is no gap, for each recording [s].

    Returns:
        For each recording, by index of the sample, shape (samples, c).
    """
    by_recording: list[list[tuple[Samples[Any], NDArray[np.int64]]]] = [[] for _ in gaps]
    for s in samples:
        by_recording[s.recording].append((s, plant.sliding(s, speed)))
    counted = []
    for parts, gap in zip(by_recording, gaps, strict=True):
        index = np.concatenate([s.index for s, _ in parts] or [np.empty(0, dtype=np.int64)])
        rows = np.zeros((int(index.max(initial=-1)) + 1, len(plant.channels)), dtype=bool)
        if len(index):
            time = np.concatenate([s.time for s, _ in parts])
            ways = np.concatenate([way for _, way in parts])
            for c, way in enumerate(ways.T):
                rows[index, c] = _lasting(time, way, settle, gap)
        counted.append(rows)
    return tuple(counted)


def _lasting(time: Array, way: NDArray[np.int64], settle: float, gap: float) -> NDArray[np.bool_]:
    """Return samples whose `way` is not 0 and stays the same for `settle` to either side [s]."""
    cuts = (np.flatnonzero((np.diff(way) != 0) | (np.diff(time) > gap)) + 1).tolist()
    lasting = np.zeros(len(time), dtype=bool)
    for begin, end in zip([0, *cuts], [*cuts, len(time)], strict=True):
        if way[begin] == 0:
            continue
        # A recording's ends are no reversals.
        since = time[begin] + settle if begin else -np.inf
        until = time[end - 1] - settle if end < len(time) else np.inf
        lasting[begin:end] = (time[begin:end] >= since) & (time[begin:end] <= until)
    return lasting
