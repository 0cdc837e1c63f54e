"""From logged positions to smooth motion: clean, resample, smooth without phase, differentiate.

A log is walked in windows of bounded size, each with margins wide enough that the smoothing
filter has forgotten where they end. Positions are low-passed by a zero-phase Butterworth
filter on a uniform grid and differentiated by central differences of eighth order; motion is
then evaluated at the log's *own* times, so torque is never resampled. Penalised splines (see
`splines`) do the same without a grid; of a motion that repeats a Fourier series can be fitted
(see `periodic`). `smoother` chooses between the three. Torque stays raw, or is filtered together
with the rows by the same filter (`Smoothing.torque`), never alone: filtering one side only costs
4 to 50 times the reachable accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidSetting
from heft.recordings import Recording

from . import periodic, splines
from .clock import survey, windows
from .filters import Smoothed, require_rows, settling, smooth
from .settings import Smoothing


class Smoother(Protocol):
    """Protocol of a method that smooths and differentiates the positions of one recording."""

    @property
    def margin(self) -> float:
        """Time beyond its core that a window must reach [s], for its ends not to matter there."""
        ...

    def smooth(self, time: Array, positions: Array, at: Array | None = None) -> Smoothed:
        """Return position, velocity and acceleration of a window; see `filters.smooth`.

        Args:
            time: Strictly increasing, shape (rows,) [s].
            positions: Shape (rows, joints) [rad or m].
            at: Times to evaluate at, shape (times,) [s]; `time` itself if not given.

        Raises:
            InvalidRecording: If there are too few rows.
        """
        ...


@dataclass(frozen=True)
class Butterworth:
    """Zero-phase Butterworth low-pass and central differences; see `filters.smooth`."""

    step: float  # sampling step of the recording [s]
    corner: float  # cutoff frequency [Hz]
    order: int = 4  # of the low-pass

    @property
    def margin(self) -> float:
        """Settling time of the low-pass [s]."""
        return settling(self.corner, self.step, self.order)

    def smooth(self, time: Array, positions: Array, at: Array | None = None) -> Smoothed:
        """Return position, velocity and acceleration of a window; see `Smoother.smooth`."""
        return smooth(time, positions, self.step, self.corner, self.order, at)


@dataclass(frozen=True)
class PenalisedSpline:
    """Penalised spline of each joint and its exact derivatives; see `splines`."""

    step: float  # sampling step of the recording [s]
    corners: tuple[float, ...]  # of each joint [Hz]

    @property
    def margin(self) -> float:
        """Time over which the influence of a row decays [s]."""
        return splines.memory(min(self.corners))

    def smooth(self, time: Array, positions: Array, at: Array | None = None) -> Smoothed:
        """Return position, velocity and acceleration of a window; see `Smoother.smooth`."""
        require_rows(time)
        wanted = time if at is None else at
        out = np.empty((3, len(wanted), positions.shape[1]))
        for corner in sorted(set(self.corners)):
            joints = np.flatnonzero(np.array(self.corners) == corner)
            spline = splines.fit(time, positions[:, joints], self.step, corner)
            for derivative in range(3):
                out[derivative][:, joints] = splines.evaluate(*spline, wanted, derivative)
        return Smoothed(*out)


@dataclass(frozen=True)
class Fourier:
    """Fourier series of a whole recording, for periodic motion; see `periodic`."""

    series: periodic.FourierSeries  # as `periodic.fit_series` returns it

    @property
    def margin(self) -> float:
        """Zero [s]: the series is the same in every window."""
        return 0.0

    def smooth(self, time: Array, positions: Array, at: Array | None = None) -> Smoothed:
        """Return position, velocity and acceleration of the series; see `Smoother.smooth`.

        The window's positions are not used: they are part of the fit already.
        """
        wanted = time if at is None else at
        return Smoothed(*(self.series.at(wanted, derivative) for derivative in range(3)))


def smoother(
    smoothing: Smoothing, recording: Recording, names: Sequence[str], step: float | None = None
) -> Smoother:
    """Return the smoother of one recording, by the method set.

    Args:
        smoothing: As `resolve` returns it; for `fourier` the log is read once or twice.
        step: Median time step of the recording [s], if known from `survey`.

    Raises:
        InvalidSetting: If the corner is not chosen yet, the corners are not one a joint, or a
            Fourier series is required and the motion does not repeat.
        TooLittleData: If a Fourier series is required and the log is shorter than a period.
    """
    step = survey(recording, names).step if step is None else step
    corner = smoothing.corner
    if corner is None:
        raise InvalidSetting(
            "the smoothing has no corner yet", argument="corner", cure="resolve it"
        )
    if smoothing.method == "butterworth":
        return Butterworth(step, corner, smoothing.order)
    if smoothing.method == "spline":
        corners = smoothing.corners or (corner,) * len(names)
        if len(corners) != len(names):
            raise InvalidSetting(
                "there are not as many corners as joints that move",
                argument="corners",
                got=f"{len(corners)} corners",
                expected=f"{len(names)}: " + ", ".join(names),
            )
        return PenalisedSpline(step, corners)
    period = smoothing.period or period_of(recording, names, step)
    # No more than the corner lets through, and no more than a third of what the rows can tell.
    harmonics = math.floor(period * min(corner, 0.33 / step))
    limited = max(1, min(harmonics, 200))
    pieces = ((w.time, w.values) for w in windows(recording, names, step, 0.0))
    series = periodic.fit_series(pieces, period, limited)
    periodic.require_periodic(series)
    return Fourier(series)


def period_of(recording: Recording, names: Sequence[str], step: float) -> float:
    """Return the period of a recording's motion [s], in bounded memory; see `find_period`.

    Args:
        names: Position signals.
        step: Median time step of the recording [s].
    """
    rows = sum(w.core.stop - w.core.start for w in windows(recording, names, step, 0.0))
    stride = max(1, rows // (2 * periodic.SEARCH_POINTS))
    time, values = [], []
    for window in windows(recording, names, step, 0.0):
        chosen = window.index % stride == 0
        time.append(window.time[chosen])
        values.append(window.values[chosen])
    return periodic.find_period(np.concatenate(time), np.concatenate(values))
