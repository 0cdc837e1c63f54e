"""Plot data of a log: decimated curves that keep every peak, spectra, friction over velocity.

A log may hold millions of rows and a page only so many: of each stretch of rows the least and
the greatest value stay, so that no peak is lost, however far the curve is thinned out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft import signals
from heft.arrays import Array

CURVE_POINTS = 24_000  # kept of one channel of one log
SCATTER_POINTS = 1500  # kept of friction's data of one joint
MOMENTS = 600  # of one log, at which it is known where the robot was and how sure its torque is


@dataclass(frozen=True)
class Curve:
    """One channel of a log over time."""

    name: str  # of the channel
    time: Array  # shape (n,) [s], with NaN where the log has a gap
    # measured, predicted: shape (n,) [N·m or N]
    measured: Array
    predicted: Array
    before: Array | None = None  # predicted by the model file as it came, shape (n,) [N·m or N]

    def thinned(self, points: int) -> Curve:
        """Return the curve with about that many points, its peaks among them."""
        drawn = [v for k, v in self.arrays.items() if k != "time"]
        kept = peaks(np.stack([*drawn, self.measured - self.predicted]), points)
        return replace(self, **{k: v[kept] for k, v in self.arrays.items()})

    @property
    def arrays(self) -> dict[str, Any]:
        """The arrays that are there, by field."""
        names = ("time", "measured", "predicted", "before")
        return {k: v for k in names if (v := getattr(self, k)) is not None}


@dataclass(frozen=True)
class Sliding:
    """Friction over velocity: a joint's effort less that of bodies and rotor."""

    name: str  # of the joint
    velocity: Array  # shape (n,) [rad/s or m/s]
    effort: Array  # measured less that of bodies and rotor, shape (n,) [N·m or N]
    # largest velocity backwards and forwards, of all rows [rad/s or m/s]
    fastest: tuple[float, float]


@dataclass(frozen=True)
class Moments:
    """Motion and doubt at some of a log's rows."""

    time: Array  # shape (n,) [s]
    # position, velocity: of every channel of the robot, shape (n, channels) [rad or m, and per s]
    position: Array
    velocity: Array
    # since each drive's last reversal, shape (n, drives) [rad or m]; (n, 0) where nobody asks
    distance: Array
    # of predicted effort by what parameters leave open, shape (n, channels) [(N·m)² or N²];
    # (n, 0) where it is not known
    variance: Array


@dataclass(frozen=True)
class Trace:
    """Plot data of one log."""

    path: str  # the log
    curves: tuple[Curve, ...]  # of each channel
    frequency: Array  # of the spectra, shape (f,) [Hz]
    # measured, residual: power spectral densities, shape (f, channels) [(N·m)²/Hz or N²/Hz]
    measured: Array
    residual: Array
    # rms_measured, rms_residual: root mean squares over all rows, shape (channels,) [N·m or N]
    rms_measured: Array
    rms_residual: Array
    sliding: tuple[Sliding, ...]  # of each joint that has friction of its own
    moments: Moments  # of rows evenly spaced
    fitted: bool = True  # whether the fit saw the log


@dataclass(frozen=True)
class Stretch(Moments):
    """Rows of one log without a gap; their variance is of those that `moments` names."""

    recording: int  # position of the log in the problem
    index: NDArray[np.int64]  # rows' positions in the log, shape (N,)
    measured: Array  # of the measured channels, shape (N, channels)
    predicted: Array  # by each kind of friction, shape (kinds, N, channels)
    without_friction: Array  # effort of bodies and rotors, shape (N, channels)


def moments(index: NDArray[np.int64], rows: int) -> NDArray[np.intp]:
    """Return which rows' `Moments` are kept.

    Args:
        index: Rows' positions in their log, shape (N,).
        rows: How many the log has.
    """
    return np.flatnonzero(index % -(-max(rows, 1) // MOMENTS) == 0)


def peaks(curves: Array, points: int) -> NDArray[np.intp]:
    """Return indices of points to keep: the least and greatest of each curve in each stretch.

    Args:
        curves: Shape (k, N), drawn over one axis. NaN breaks a curve and is kept.
        points: About how many to keep; all are if there are no more.
    """
    count, rows = curves.shape
    if rows <= points:
        return np.arange(rows)
    every = -(-2 * count * rows // points)
    padded = np.pad(curves, ((0, 0), (0, -rows % every)), constant_values=np.nan)
    blocks = padded.reshape(count, -1, every)
    void = np.isnan(blocks)
    inside = [
        np.argmin(np.where(void, np.inf, blocks), axis=2),
        np.argmax(np.where(void, -np.inf, blocks), axis=2),
    ]
    ends = np.arange(0, rows, every) + np.concatenate(inside)
    broken = np.flatnonzero(np.isnan(curves).any(axis=0))
    return np.unique(np.concatenate([[0, rows - 1], broken, ends.ravel()]))


class Tracer:
    """Gathers the plot data of one log, stretch by stretch, in bounded memory."""

    def __init__(
        self,
        path: str,
        channels: Sequence[str],
        own: Sequence[tuple[str, int, int]],
        step: float,
        rows: int,
        before: int | None = None,
    ) -> None:
        """Begin without data.

        Args:
            before: Which of a stretch's kinds of prediction is the model file's, if one is.
            own: Of each joint with friction of its own: name, index among the measured channels,
                index among all channels.
            step: Time between rows [s].
        """
        self._path, self._channels, self._own, self._step = path, channels, own, step
        self._rows, self._before = max(rows, 1), before
        self._curves: list[list[Curve]] = []
        self._sliding: list[list[Sliding]] = []
        self._length = min(2048, 2 ** max(int(np.log2(self._rows / 8.0)), 4))
        # of what was measured, then of the residual
        self._density = np.zeros((self._length // 2 + 1, 2 * len(channels)))
        self._dense = 0
        self._squares = np.zeros(2 * len(channels))
        self._count = 0
        self._moments: list[tuple[Array, ...]] = []

    def add(self, s: Stretch) -> None:
        """Add the next stretch."""
        points = max(CURVE_POINTS * len(s.time) // self._rows, 8)
        kinds = [0] if self._before is None else [0, self._before]
        self._curves.append(
            [
                Curve(name, s.time, s.measured[:, c], *s.predicted[kinds, :, c]).thinned(points)
                for c, name in enumerate(self._channels)
            ]
        )
        every = -(-self._rows // SCATTER_POINTS)
        self._sliding.append(
            [
                Sliding(
                    name,
                    s.velocity[::every, position].copy(),  # a view would hold all rows
                    s.measured[::every, channel] - s.without_friction[::every, channel],
                    (float(s.velocity[:, position].min()), float(s.velocity[:, position].max())),
                )
                for name, channel, position in self._own
            ]
        )
        both = np.hstack([s.measured, s.measured - s.predicted[0]])
        self._squares += np.sum(both**2, axis=0)
        self._count += len(s.time)
        if len(s.time) >= self._length:
            self._density += len(s.time) * signals.density(s.time, both, self._step, self._length)
            self._dense += len(s.time)
        of_all = (s.time, s.position, s.velocity, s.distance)
        kept = moments(s.index, self._rows)
        self._moments.append((*(values[kept] for values in of_all), s.variance))

    def trace(self) -> Trace | None:
        """Return the plot data of all stretches, or None if there were none."""
        if not self._moments:
            return None
        measured, residual = np.hsplit(self._density[1:] / max(self._dense, 1), 2)
        rms_measured, rms_residual = np.split(np.sqrt(self._squares / max(self._count, 1)), 2)
        frequency: Array = np.fft.rfftfreq(self._length, self._step)[1:].astype(float)
        return Trace(
            self._path,
            tuple(_joined(parts) for parts in zip(*self._curves, strict=True)),
            frequency,
            measured,
            residual,
            rms_measured,
            rms_residual,
            tuple(_together(parts) for parts in zip(*self._sliding, strict=True)),
            Moments(*map(np.concatenate, zip(*self._moments, strict=True))),
        )


def _joined(parts: Sequence[Curve]) -> Curve:
    """Return one curve, with NaN between its parts."""
    joined: dict[str, Any] = {
        name: np.concatenate([v for p in parts for v in (p.arrays[name], [np.nan])][:-1])
        for name in parts[0].arrays
    }
    return replace(parts[0], **joined)


def _together(parts: Sequence[Sliding]) -> Sliding:
    return Sliding(
        parts[0].name,
        np.concatenate([p.velocity for p in parts]),
        np.concatenate([p.effort for p in parts]),
        (min(p.fastest[0] for p in parts), max(p.fastest[1] for p in parts)),
    )
