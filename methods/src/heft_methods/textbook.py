"""Textbook forms of the linear regression `Y π = u` for a robot, from one equation of motion.

Use it to compare identification methods on the same data; `identify` is for results.

    differentiated   Y = regressor(q, v, a)              u = τ
    windowed         Y = −∫ φ̇ W₂ dt − ∫ φ F dt           u = ∫ φ τ dt       (`weak`)
    growing          Y = W₂ − W₂(0) − ∫₀ᵗ F dt           u = ∫₀ᵗ τ dt

W₂ π is the generalised momentum, and F π its rate of change without τ: C(q, v)ᵀ v − g(q) less
friction. The growing form has a window φ that is 1 from the start to the current time. It needs
neither acceleration nor differentiated velocity, but its integrals accumulate any offset, whereas
the integrals over finite windows do not.
"""

from __future__ import annotations

import warnings
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
from heft.recordings import Recording
from heft.signals import Integrals, Windows, weak_form

STENCIL = 4  # samples from one side that say when a speed was zero


class HeldEffort(UserWarning):
    """Warning that efforts seem held between samples but are interpolated, or vice versa."""


class Moved(Protocol):
    """Motion and effort: arrays of shape (N, channels) at times of shape (N,)."""

    @property
    def time(self) -> Array:
        """Times, strictly increasing, shape (N,) [s]."""

    @property
    def position(self) -> Array:
        """Positions q, shape (N, channels) [rad or m]."""

    @property
    def velocity(self) -> Array:
        """Velocities v, shape (N, channels) [rad/s or m/s]."""

    @property
    def acceleration(self) -> Array:
        """Accelerations a, shape (N, channels) [rad/s² or m/s²].

        Only the differentiated form uses them.
        """

    @property
    def effort(self) -> Array:
        """Actuator efforts τ, shape (N, channels) [N·m or N]."""

    @property
    def held(self) -> bool:
        """Whether each effort holds until the next sample (zero-order hold)."""


@dataclass(frozen=True, eq=False)
class Differenced:
    """A motion with velocity and acceleration by central differences of the measured positions."""

    time: Array  # times, strictly increasing, shape (N,) [s]
    position: Array  # positions q, shape (N, channels) [rad or m]
    effort: Array  # efforts τ, shape (N, channels) [N·m or N]
    # whether each effort holds until the next sample (zero-order hold), as what a digital
    # controller puts out
    held: bool = False

    @staticmethod
    def of(recording: Recording, joints: Sequence[str]) -> Differenced:
        """Return the motion of a log; its efforts are held if its column map says so.

        Args:
            joints: Channels, in the robot's order.

        Raises:
            MissingSignal: If the log lacks one of them.
        """
        names = [f"{kind}.{j}" for kind in ("q", "tau") for j in joints]
        recording.require(names, "is what the integral form is made of")
        whole = recording.whole(names)
        position, effort = np.split(whole.values, 2, axis=1)
        held = recording.held.issuperset(names[len(joints) :])
        return Differenced(whole.time, position, effort, held)

    @property
    def velocity(self) -> Array:
        """Velocities v, shape (N, channels) [rad/s or m/s]."""
        return np.asarray(np.gradient(self.position, self.time, axis=0, edge_order=2))

    @property
    def acceleration(self) -> Array:
        """Accelerations a, shape (N, channels) [rad/s² or m/s²]."""
        return np.asarray(np.gradient(self.velocity, self.time, axis=0, edge_order=2))


def _drive_state(robot: Robot, moved: Moved, acceleration: Array) -> DriveState:
    """Return the drives' state, without presliding and load."""
    stops = np.zeros((len(robot.drives.stops), len(moved.time)))
    position, velocity = moved.position.T, moved.velocity.T
    return DriveState(position, velocity, acceleration.T, stops, np.zeros_like(velocity))


def sides(robot: Robot, moved: Moved) -> weak_form.Samples:
    """Return W₂ and F, shape (N, channels, p), and τ, (N, channels) [N·m or N], at N samples."""
    still = np.zeros_like(moved.velocity)
    motion = kernels.motion_of(robot.tree, robot.gravity, moved.position, moved.velocity, still)
    momentum, remainder = plants.both_sides(robot, motion, _drive_state(robot, moved, still))
    return weak_form.Samples(moved.time, momentum, remainder, moved.effort)


def differentiated(robot: Robot, moved: Moved) -> Integrals:
    """Return the rows Y(q, v, a) π = τ: Y, (N, channels, p), τ, (N, channels) [N·m or N]."""
    a = moved.acceleration
    state = _drive_state(robot, moved, a)
    rows = plants.standard_rows(robot, moved.position, moved.velocity, a, state)
    return Integrals(moved.time, rows, moved.effort)


def windowed(robot: Robot, moved: Moved, windows: Windows) -> Integrals:
    """Return the rows of the weak form: the equation of motion integrated over windows.

    Use it where velocity is too noisy to be differentiated [Shinbrot1957]; see `weak_form`.

    Args:
        windows: Window functions φ, of unit area.

    Returns:
        Y, shape (windows, channels, p), and ∫ φ τ dt, shape (windows, channels) [N·m or N].
    """
    return weak_form.integrate(windows, sides(robot, moved))


@dataclass(frozen=True)
class Growing:
    """Rows of the momentum equation integrated from the start of a window to each sample.

    The friction of a sticking drive is not modelled. So a window ends where a drive sticks, and a
    new one begins when all drives move again.
    """

    # quadrature: `rectangles`, the usual discrete sum, with effort at the beginning of each step
    # and motion at its end; or `exact`, by cubic splines, with Coulomb friction split at the zero
    # crossings of the velocity
    sums: Literal["rectangles", "exact"] = "exact"
    # whether effort is piecewise constant between samples (zero-order hold); rectangles are then
    # its exact integral. As the motion says if not given
    held: bool | None = None
    # share of the residual's energy that the other reading of the efforts, held or joined, may
    # leave before a warning says so
    doubt: float = 0.5

    def rows(self, robot: Robot, moved: Moved) -> Integrals:
        """Return one row for each sample after a window's first: Y and ∫ τ dt [N·m·s or N·s].

        Returns:
            Y, shape (rows, channels, p), and ∫ τ dt, shape (rows, channels) [N·m·s or N·s].

        Warns:
            HeldEffort: If the motion fits efforts that are held much better while they are joined
                by curves, or the other way round.
        """
        held = moved.held if self.held is None else self.held
        found = sides(robot, moved)
        speeds = moved.velocity @ np.array([d.ratio for d in robot.drives]).T
        pieces = [p for p in _moving(robot, speeds) if p.stop - p.start > STENCIL]
        parts = [self._piece(robot, found.part(p), speeds[p], held) for p in pieces]
        if self.sums == "exact":
            others = [_effort_integral(found.part(p), not held) for p in pieces]
            self._doubt(parts, others, held)
        columns = zip(*(vars(p).values() for p in parts), strict=True)
        return Integrals(*(np.concatenate(c) for c in columns))

    def _doubt(self, parts: Sequence[Integrals], others: Sequence[Array], held: bool) -> None:
        """Warn if the other reading of efforts, held or interpolated, fits steps far better."""
        rows = np.concatenate([np.diff(p.regressor, axis=0) for p in parts])
        steps = [
            np.concatenate([np.diff(u, axis=0) for u in efforts])
            for efforts in ([p.effort for p in parts], others)
        ]
        left = np.zeros(2)
        for k in range(rows.shape[1]):  # each channel by itself, with all columns that it has
            own = rows[:, k, rows[:, k].any(axis=0)]
            both = np.column_stack([own, *(s[:, k] for s in steps)])
            if len(both) > both.shape[1]:
                triangle = np.asarray(np.linalg.qr(both, mode="r"))
                left += np.sum(triangle[own.shape[1] :, own.shape[1] :] ** 2, axis=0)
        share = float(left[1] / max(left[0], np.finfo(float).tiny))
        if share < self.doubt:
            now, then = ("held", "joined") if held else ("joined", "held")
            warnings.warn(
                f"efforts are {now} between samples, and {then} they would leave {100 * share:.2g} "
                f"% of the residual's energy: say held={not held}, "
                f"or held = {str(not held).lower()} in the table [tau] of the column map",
                HeldEffort,
                stacklevel=3,
            )

    def _piece(
        self, robot: Robot, found: weak_form.Samples, speeds: Array, held: bool
    ) -> Integrals:
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
        effort = _effort_integral(found, held or self.sums == "rectangles")
        momentum = found.momentum[1:] - found.momentum[0]
        return Integrals(time[1:], momentum - change, effort)


def _effort_integral(found: weak_form.Samples, held: bool) -> Array:
    """Return ∫ τ dt from the first sample to each of the others, τ held between them or joined."""
    if held:
        return np.asarray(np.cumsum(np.diff(found.time)[:, None] * found.effort[:-1], axis=0))
    return _integral(found.time, found.effort)


def _moving(robot: Robot, speeds: Array) -> list[slice]:
    """Return the intervals in which no drive with Coulomb friction sticks."""
    rubbing = sorted({d for d, term in robot.drive_columns if isinstance(term, Coulomb)})
    still = speeds[:, rubbing] == 0.0
    sticks = np.any(still[1:] & still[:-1], axis=1)
    # It came to rest, and broke away, somewhere between samples.
    whole = ~np.convolve(sticks, [True, True, True], "same").astype(bool)
    edges = np.diff(np.concatenate([[0], whole.astype(int), [0]]))
    starts, stops = np.flatnonzero(edges > 0), np.flatnonzero(edges < 0)
    return [slice(int(a), int(b) + 1) for a, b in zip(starts, stops, strict=True)]


def _integral(time: Array, values: Array) -> Array:
    """Return ∫ dt of a cubic spline from the first sample to each of the others."""
    spline = scipy.interpolate.CubicSpline(time, values)
    return np.asarray(spline.antiderivative()(time)[1:])


def sign_integral(time: Array, speed: Array) -> Array:
    """Return the integral `∫ sign(w) dt` from the first sample to each, shape (N,) [s].

    Coulomb friction jumps, and w has a kink, where w changes sign. So each zero crossing is located
    by polynomials, at most cubic, through up to four samples on one side of it. Times increase.
    """
    sign = np.sign(speed)
    steps = np.diff(time) * np.where(sign[1:] != 0.0, sign[1:], sign[:-1])
    for k in np.flatnonzero(sign[1:] * sign[:-1] < 0.0).tolist():
        share = np.mean([_zero(time, speed, k, -1), _zero(time, speed, k, 1)])
        steps[k] = sign[k] * (2.0 * share - 1.0) * (time[k + 1] - time[k])
    return np.concatenate([[0.0], np.cumsum(steps)])


def _zero(time: Array, speed: Array, k: int, side: int) -> float:
    """Return where within step k the velocity is zero [0 to 1], extrapolated from one side."""
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
    """Return combinations of window rows in which white effort noise is white again.

    Use it before least squares on overlapping windows, whose rows share noise; see
    `weak_form.whitened`.

    Args:
        step: Sampling interval of the log [s].

    Raises:
        InvalidSetting: If a window between others is missing.
    """
    if len(rows.time) > 1 and np.ptp(np.diff(rows.time)) > 0.5 * windows.stride:
        raise InvalidSetting("windows are missing between others", argument="rows")
    return weak_form.whitened(weak_form.shared_noise(windows, step), rows)[0]


def chosen(rows: Integrals, columns: Sequence[int]) -> Integrals:
    """Return rows restricted to some columns of the regressor, by index."""
    return replace(rows, regressor=rows.regressor[:, :, list(columns)])


def least_squares(rows: Integrals) -> Parameters:
    """Return the weighted least-squares estimate of rows, with white noise assumed in each channel.

    Each channel is weighted by its own residual; the labels are `1`, `2` and so on.

    Raises:
        TooLittleData: If the rows do not have full column rank.
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
    """Return the recursive estimates after every row, from an initial value of zero, (N, n).

    Args:
        rows: Y, shape (N, channels, n), and u, shape (N, channels).
        std: Standard deviation of each parameter before the first row: P = std² 1.
    """
    state = recursion.regularised(rows.regressor.shape[2], std)
    course = np.empty((len(rows.time), rows.regressor.shape[2]))
    for k, (regressor, effort) in enumerate(zip(rows.regressor, rows.effort, strict=True)):
        state = recursion.step(state, regressor, effort)
        course[k] = state.values
    return course
