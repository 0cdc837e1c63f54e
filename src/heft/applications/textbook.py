"""One equation of motion, three forms of its rows `Y π = u`, for any robot and from the same sides.

    differentiated   Y = regressor(q, v, a)              u = τ
    windowed         Y = −∫ φ̇ W₂ dt − ∫ φ F dt           u = ∫ φ τ dt       (`weak`)
    growing          Y = W₂ − W₂(0) − ∫₀ᵗ F dt           u = ∫₀ᵗ τ dt

W₂ π is the momentum, F π what changes it besides τ: C(q, v)ᵀ v − g(q) less friction. The growing
form is the window that is 1 from the start to now. It needs no acceleration, and no differentiated
velocity; but its integrals never forget an offset, where windows end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
import scipy.interpolate
import scipy.linalg

from heft import plants
from heft.arrays import Array
from heft.dynamics import Coulomb, DriveState, kernels
from heft.errors import InvalidSetting, TooLittleData
from heft.estimators import CovarianceRecursion, LeastSquares
from heft.information import PARAMETER_COUNT, Information, Labels, Parameters
from heft.models import Robot
from heft.signals import Integrals, Windows, weak_form

STENCIL = 4  # samples from one side that say when a speed was zero


class Moved(Protocol):
    """A motion and its effort: arrays of shape (N, channels) at times of shape (N,)."""

    @property
    def time(self) -> Array:
        """Strictly increasing [s]."""

    @property
    def position(self) -> Array:
        """Of each channel [rad or m]."""

    @property
    def velocity(self) -> Array:
        """Likewise, per s."""

    @property
    def acceleration(self) -> Array:
        """Likewise, per s²; only the differentiated form looks at it."""

    @property
    def effort(self) -> Array:
        """Of the actuators on each channel [N·m or N]."""


@dataclass(frozen=True, eq=False)
class Differenced:
    """A motion of which only positions were measured, by central differences.

    Attributes:
        time: Strictly increasing, shape (N,) [s].
        position: q, shape (N, channels) [rad or m].
        effort: τ, shape (N, channels) [N·m or N].
    """

    time: Array
    position: Array
    effort: Array

    @property
    def velocity(self) -> Array:
        """Shape (N, channels)."""
        return np.asarray(np.gradient(self.position, self.time, axis=0, edge_order=2))

    @property
    def acceleration(self) -> Array:
        """Shape (N, channels)."""
        return np.asarray(np.gradient(self.velocity, self.time, axis=0, edge_order=2))


def _drive_state(robot: Robot, moved: Moved, acceleration: Array) -> DriveState:
    """Return the drives' state, without memory and without load."""
    stops = np.zeros((len(robot.drives.stop_columns), len(moved.time)))
    position, velocity = moved.position.T, moved.velocity.T
    return DriveState(position, velocity, acceleration.T, stops, np.zeros_like(velocity))


def sides(robot: Robot, moved: Moved) -> weak_form.Samples:
    """Return both sides of the equation of motion, on the columns of `robot.labels`."""
    still = np.zeros_like(moved.velocity)
    motion = kernels.motion_of(robot.tree, robot.gravity, moved.position, moved.velocity, still)
    momentum, remainder = plants.both_sides(robot, motion, _drive_state(robot, moved, still))
    return weak_form.Samples(moved.time, momentum, remainder, moved.effort)


def differentiated(robot: Robot, moved: Moved) -> Integrals:
    """Return the rows at every sample, on the columns of `robot.labels`."""
    a = moved.acceleration
    state = _drive_state(robot, moved, a)
    rows = plants.standard_rows(robot, moved.position, moved.velocity, a, state)
    return Integrals(moved.time, rows, moved.effort)


def windowed(robot: Robot, moved: Moved, windows: Windows) -> Integrals:
    """Return the rows over windows, on the columns of `robot.labels`."""
    return weak_form.integrate(windows, sides(robot, moved))


@dataclass(frozen=True)
class Growing:
    """Rows over one window that grows from the start to now.

    A drive that sticks takes a friction that no column says. There the window ends, and another
    one begins when all move again.

    Attributes:
        sums: `rectangles` as the textbook's loop has them, torque taken at each step's beginning
            and motion at its end; or `exact`, by splines, and for the sign of a speed by the
            times at which it changes.
        held: Whether an effort was held from each sample to the next, as by a controller;
            rectangles then are its exact integral.
    """

    sums: Literal["rectangles", "exact"] = "exact"
    held: bool = False

    def rows(self, robot: Robot, moved: Moved) -> Integrals:
        """Return the rows, one a sample behind a window's first, on `robot.labels`' columns."""
        found = sides(robot, moved)
        speeds = moved.velocity @ np.array([d.ratio for d in robot.drives]).T
        parts = [
            self._piece(robot, found.part(piece), speeds[piece])
            for piece in _moving(robot, speeds)
            if piece.stop - piece.start > STENCIL
        ]
        columns = zip(*(vars(p).values() for p in parts), strict=True)
        return Integrals(*(np.concatenate(c) for c in columns))

    def _piece(self, robot: Robot, found: weak_form.Samples, speeds: Array) -> Integrals:
        time, remainder, step = found.time, found.remainder, np.diff(found.time)
        if self.sums == "rectangles":
            change = np.cumsum(step[:, None, None] * remainder[1:], axis=0)
        else:
            change = _integral(time, remainder)
            own = PARAMETER_COUNT * len(robot.tree.names)
            for k, (d, term) in enumerate(robot.drive_columns):
                if isinstance(term, Coulomb):
                    turned = sign_integral(time, speeds[:, d])[1:]
                    change[:, :, own + k] = -turned[:, None] * robot.drives[d].ratio
        if self.held or self.sums == "rectangles":
            effort = np.cumsum(step[:, None] * found.effort[:-1], axis=0)
        else:
            effort = _integral(time, found.effort)
        momentum = found.momentum[1:] - found.momentum[0]
        return Integrals(time[1:], momentum - change, effort)


def _moving(robot: Robot, speeds: Array) -> list[slice]:
    """Return the stretches in which no drive with Coulomb friction sticks."""
    rubbing = sorted({d for d, term in robot.drive_columns if isinstance(term, Coulomb)})
    still = speeds[:, rubbing] == 0.0
    sticks = np.any(still[1:] & still[:-1], axis=1)
    # It came to rest, and broke away, somewhere between samples.
    whole = ~np.convolve(sticks, [True, True, True], "same").astype(bool)
    edges = np.diff(np.concatenate([[0], whole.astype(int), [0]]))
    starts, stops = np.flatnonzero(edges > 0), np.flatnonzero(edges < 0)
    return [slice(int(a), int(b) + 1) for a, b in zip(starts, stops, strict=True)]


def _integral(time: Array, values: Array) -> Array:
    """Return ∫ dt from the first sample to each other one, joined by a cubic spline."""
    spline = scipy.interpolate.CubicSpline(time, values)
    return np.asarray(spline.antiderivative()(time)[1:])


def sign_integral(time: Array, speed: Array) -> Array:
    """Return `∫ sign(w) dt` from the first sample to each, shape (N,) [s].

    Friction jumps as w changes its sign, and w has a kink there. So when it does is found from
    samples on either side alone, by a cubic through the last four of them.

    Args:
        time: Strictly increasing, shape (N,) [s].
        speed: w, shape (N,).
    """
    sign = np.sign(speed)
    steps = np.diff(time) * np.where(sign[1:] != 0.0, sign[1:], sign[:-1])
    for k in np.flatnonzero(sign[1:] * sign[:-1] < 0.0).tolist():
        share = np.mean([_zero(time, speed, k, -1), _zero(time, speed, k, 1)])
        steps[k] = sign[k] * (2.0 * share - 1.0) * (time[k + 1] - time[k])
    return np.concatenate([[0.0], np.cumsum(steps)])


def _zero(time: Array, speed: Array, k: int, side: int) -> float:
    """Return at which share of the step behind sample k a speed is zero, seen from one side."""
    near = k if side < 0 else k + 1
    count = 1
    while (
        count < STENCIL
        and 0 <= near + side * count < len(time)
        and speed[near + side * count] * speed[near] > 0.0
    ):
        count += 1
    chosen = near + side * np.arange(count)
    step = time[k + 1] - time[k]
    straight = float(speed[k] / (speed[k] - speed[k + 1]))
    if count < 2:
        return straight
    curve = np.polynomial.Polynomial.fit((time[chosen] - time[k]) / step, speed[chosen], count - 1)
    roots = curve.roots()
    inside = roots[np.isreal(roots)].real
    inside = inside[(inside >= 0.0) & (inside <= 1.0)]
    return float(inside[0]) if len(inside) == 1 else straight


def whitened(rows: Integrals, windows: Windows, step: float) -> Integrals:
    """Return rows over windows combined so that white noise of the effort stays white.

    See `weak_form.whitened`.

    Args:
        rows: Over windows that follow one another, none left out.
        windows: Which they are.
        step: Of the log [s].

    Raises:
        InvalidSetting: If a window is missing.
    """
    if len(rows.time) > 1 and np.ptp(np.diff(rows.time)) > 0.5 * windows.stride:
        raise InvalidSetting("windows are missing between others", argument="rows")
    return weak_form.whitened(weak_form.shared_noise(windows, step), rows)[0]


def chosen(rows: Integrals, columns: Sequence[int]) -> Integrals:
    """Return the rows of some columns."""
    return replace(rows, regressor=rows.regressor[:, :, list(columns)])


def least_squares(rows: Integrals) -> Parameters:
    """Return the least squares of rows, each channel weighed by its own noise, taken for white.

    Its values, covariance and deviations are those of columns `1`, `2` and so on.

    Raises:
        TooLittleData: If the rows do not determine the parameters.
    """
    count, channels, size = rows.regressor.shape
    labels = Labels(tuple(str(k + 1) for k in range(size)), ("",) * size, "rows")
    names = tuple(f"channel {k + 1}" for k in range(channels))
    found = LeastSquares().solve(Information.from_rows(labels, names, rows.regressor, rows.effort))
    if found.rank.rank < size:
        raise TooLittleData(
            "these rows do not determine the parameters",
            argument="rows",
            got=f"rank {found.rank.rank} of {size} parameters, {count * channels} rows",
            cure="choose columns that the motion can tell apart",
        )
    return found.parameters


def followed(recursion: CovarianceRecursion, rows: Integrals, std: float = 1.0) -> Array:
    """Return the estimate behind every row's time, shape (N, n); it starts from zero.

    Args:
        recursion: How.
        rows: With as many columns as there are parameters.
        std: Of each parameter before the first row: P = std² 1.
    """
    state = recursion.regularised(rows.regressor.shape[2], std)
    course = np.empty((len(rows.time), rows.regressor.shape[2]))
    for k, (regressor, effort) in enumerate(zip(rows.regressor, rows.effort, strict=True)):
        state = recursion.step(state, regressor, effort)
        course[k] = state.values
    return course
