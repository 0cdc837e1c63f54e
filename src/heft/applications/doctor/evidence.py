"""How well a robot explains a log under a correction of it: what the doctor compares.

A hypothesis about a log is a `Correction`: joints swapped, signs flipped, scales, offsets, gravity,
a delay. Under each one the torque is fitted freely, with a model file that may be far off as a
weak prior and the nonnegative terms of friction, which tell a joint's direction: friction never
drives. Hypotheses differ by

    J = Σ_j n_j log σ_j² + Σ_b (ν + 10) log(1 + ‖u_b − 1‖² / ν s²),

the second sum a Student prior of each body, which forgives single bodies that are far off; n_j
being the rows of joint j that add something new (over the residual's memory) and σ_j what is left
of its torque *as logged*. J is twice a negative log likelihood, so differences of J are evidence:
2 ln of the odds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from heft import signals
from heft.arrays import Array
from heft.dynamics import Tree, kernels, presliding
from heft.estimators import IDENTITY, cone_metric, noise
from heft.information import PARAMETER_COUNT, DataRank, data_rank, inertia, triangle_of
from heft.models import Robot
from heft.plants import Problem, RobotPlant, structural_base
from heft.recordings import Recording
from heft.signals import Smoothing

LOOKED_AT = 60_000  # rows of the logs that physics looks at, at most about
SPREAD_WINDOWS = 4  # pieces of a longer log that they are taken from
COMPARED = 400  # instants at which torque is compared
LONGEST_DELAY = 0.2  # [s]
BODY_DOUBT = 0.5  # by how much a model file may be off, one standard deviation
TAIL = 4.0  # degrees of freedom ν of the prior: single bodies may be off by far more
SLIDING_SPEEDS = (0.02, 0.15)  # of the friction that stands for the dictionary [rad/s]
PRESLIDING = (0.006, 0.03)  # its widths [rad]
DEAD = 1e-9  # of the largest deviation of a torque, below which a sensor says nothing
FLOOR = 1e-3  # of a joint's torque that no model explains, at least
ROUNDS = 3  # of weights by what is left over


@dataclass(frozen=True)
class Correction:
    """What must be done to a log before a robot explains it.

    `q_j = q_scale_j · logged q_{q_source_j} + q_offset_j`, likewise for torque.

    Attributes:
        q_source: From which joint's column each joint's position is to be taken.
        q_scale: Factor of each joint's position.
        q_offset: Added to each joint's position [rad or m].
        tau_source: From which joint's column each joint's torque is to be taken.
        tau_scale: Factor of each joint's torque.
        gravity: Vector in the base's frame [m/s²].
        delay: By how much torque comes behind motion [s].
    """

    q_source: tuple[int, ...]
    q_scale: tuple[float, ...]
    q_offset: tuple[float, ...]
    tau_source: tuple[int, ...]
    tau_scale: tuple[float, ...]
    gravity: tuple[float, float, float]
    delay: float = 0.0

    @staticmethod
    def none(robot: Robot) -> Correction:
        """Return the correction that changes nothing."""
        count = len(robot.joints)
        same, one, zero = tuple(range(count)), (1.0,) * count, (0.0,) * count
        x, y, z = map(float, robot.gravity)
        return Correction(same, one, zero, same, one, (x, y, z))

    def positions(
        self,
        source: Sequence[int] | None = None,
        scale: Sequence[float] | None = None,
        offset: Sequence[float] | None = None,
    ) -> Correction:
        """Return this correction followed by another one of the positions."""
        count = len(self.q_source)
        p = list(range(count)) if source is None else source
        s = [1.0] * count if scale is None else scale
        o = [0.0] * count if offset is None else offset
        return replace(
            self,
            q_source=tuple(self.q_source[k] for k in p),
            q_scale=tuple(s[j] * self.q_scale[k] for j, k in enumerate(p)),
            q_offset=tuple(s[j] * self.q_offset[k] + o[j] for j, k in enumerate(p)),
        )

    def torques(
        self, source: Sequence[int] | None = None, scale: Sequence[float] | None = None
    ) -> Correction:
        """Return this correction followed by another one of the torques."""
        count = len(self.tau_source)
        p = list(range(count)) if source is None else source
        s = [1.0] * count if scale is None else scale
        return replace(
            self,
            tau_source=tuple(self.tau_source[k] for k in p),
            tau_scale=tuple(s[j] * self.tau_scale[k] for j, k in enumerate(p)),
        )

    @property
    def motion(self) -> tuple[object, ...]:
        """What decides the rows, for hypotheses that share them."""
        return (self.q_source, self.q_scale, self.q_offset, self.gravity)


@dataclass(frozen=True)
class Stretch:
    """A piece of a log without gaps: smooth motion and torque as low as the motion's band.

    Attributes:
        time: Shape (N,) [s].
        position, velocity, acceleration: Shape (N, joints).
        effort: Shape (N, joints); zero where it is not measured.
        chosen: The instants that are compared, shape (n,).
    """

    time: Array
    position: Array
    velocity: Array
    acceleration: Array
    effort: Array
    chosen: NDArray[np.intp]


@dataclass(frozen=True)
class Rows:
    """Sums over the instants compared, from which any torque part of a correction is judged.

    Attributes:
        columns: For each channel, which unknowns its torque depends on.
        squares: For each channel, YᵀY of those.
        products: For each channel, Yᵀτ with every joint's torque, shape (columns, joints).
        regressors: For each channel, Y, shape (columns, n).
        ridge: Prior's precision of the unknowns, shape (p,).
    """

    columns: tuple[NDArray[np.intp], ...]
    squares: tuple[Array, ...]
    products: tuple[Array, ...]
    regressors: tuple[Array, ...]
    ridge: Array


@dataclass(frozen=True)
class Fit:
    """What is left of the torque under one correction.

    Attributes:
        correction: The correction.
        objective: J, with the memory given.
        sigma: What is left of each channel's torque as logged, rms [N·m].
        values: The unknowns u.
        settled: Whether a number that was looked for has been found.
    """

    correction: Correction
    objective: float
    sigma: Array
    values: Array
    settled: bool = True


@dataclass(frozen=True)
class Evidence:
    """The part of logs that physics looks at, and the robot that is to explain it.

    Attributes:
        robot: The robot.
        stretches: Pieces of the logs.
        corner: Of the low-pass on motion and torque [Hz].
    """

    robot: Robot
    stretches: tuple[Stretch, ...]
    corner: float

    @staticmethod
    def of(robot: Robot, recordings: Sequence[Recording]) -> Evidence:
        """Return the evidence of logs, read in bounded memory.

        Raises:
            HeftError: If the logs lack signals, or nothing moves in them.
        """
        bare = _without_drives(robot)
        chosen = [w for r in recordings for w in _windows(r, LOOKED_AT // len(recordings))]
        problem = Problem(RobotPlant(bare), tuple(chosen), Smoothing(), threads=1)
        problem = problem.with_settings(smoothing=replace(problem.resolved, delay=0.0))
        parts = list(_stretches(problem))
        duration = sum(s.time[-1] - s.time[0] for s in parts)
        made = []
        for s in parts:
            share = max(2, round(COMPARED * (s.time[-1] - s.time[0]) / max(duration, 1e-9)))
            inner = (s.time >= s.time[0] + LONGEST_DELAY) & (s.time <= s.time[-1] - LONGEST_DELAY)
            rows = np.flatnonzero(inner)
            if len(rows) >= 2:
                pick = np.unique(np.linspace(0, len(rows) - 1, share).round().astype(np.intp))
                made.append(replace(s, chosen=rows[pick]))
        return Evidence(robot, tuple(made), problem.corner)

    @property
    def count(self) -> int:
        """How many instants are compared."""
        return sum(len(s.chosen) for s in self.stretches)

    @cached_property
    def channels(self) -> tuple[int, ...]:
        """Positions of the joints whose torque is measured, and says something."""
        least = DEAD * float(self.effort_size.max(initial=0.0))
        return tuple(int(k) for k in self.robot.measured if self.effort_size[k] > least)

    @cached_property
    def effort_size(self) -> Array:
        """Deviation of each joint's torque from its mean, as logged, shape (joints,)."""
        tau = np.concatenate([s.effort[s.chosen] for s in self.stretches])
        return np.asarray(tau.std(axis=0))

    @cached_property
    def effort_rms(self) -> Array:
        """Root mean square of each joint's torque as logged, shape (joints,)."""
        tau = np.concatenate([s.effort[s.chosen] for s in self.stretches])
        return np.asarray(np.sqrt(np.mean(tau**2, axis=0)))

    @cached_property
    def metric(self) -> tuple[Array, ...]:
        """Of each body the matrix from unknowns, 1 at the model file's value, to parameters."""
        nominal = self.robot.nominal()
        found = []
        for b in range(len(self.robot.tree.names)):
            ten = nominal[PARAMETER_COUNT * b : PARAMETER_COUNT * (b + 1)]
            found.append(cone_metric(inertia.nearest_consistent(ten)))
        return tuple(found)

    @property
    def bodies(self) -> int:
        """How many unknowns are the bodies'."""
        return PARAMETER_COUNT * len(self.robot.tree.names)

    @cached_property
    def start(self) -> Array:
        """The unknowns as the model file has them, shape (p,)."""
        own = np.tile(IDENTITY, len(self.robot.tree.names))
        return np.concatenate([own, np.zeros(self._terms * len(self.robot.drives))])

    @property
    def _terms(self) -> int:
        return 3 + len(SLIDING_SPEEDS) + len(PRESLIDING)

    @cached_property
    def nonnegative(self) -> NDArray[np.bool_]:
        """Which unknowns must not be negative: drives' terms, the offset apart."""
        drive = np.array([True] * (self._terms - 1) + [False])
        return np.concatenate([np.zeros(self.bodies, bool), np.tile(drive, len(self.robot.drives))])

    def parameters(self, values: Array) -> Array:
        """Return ten parameters a body of unknowns, shape (10 bodies,)."""
        tens = values[: self.bodies].reshape(-1, PARAMETER_COUNT)
        return np.concatenate([g @ u for g, u in zip(self.metric, tens, strict=True)])

    def motion(self, correction: Correction) -> tuple[Array, Array, Array]:
        """Return corrected positions, velocities, accelerations compared, each (n, joints)."""
        source, scale = list(correction.q_source), np.array(correction.q_scale)
        q, v, a = (
            np.concatenate([getattr(s, k)[s.chosen] for s in self.stretches])[:, source] * scale
            for k in ("position", "velocity", "acceleration")
        )
        return q + np.array(correction.q_offset), v, a

    def effort(self, delay: float = 0.0) -> Array:
        """Return torque as logged, that much later than the motion, shape (n, joints)."""
        if delay == 0.0:
            return np.concatenate([s.effort[s.chosen] for s in self.stretches])
        parts = []
        for s in self.stretches:
            at = s.time[s.chosen] + delay
            parts.append(np.stack([np.interp(at, s.time, x) for x in s.effort.T], 1))
        return np.concatenate(parts)

    def _drive_columns(self, correction: Correction, v: Array, a: Array) -> Array:
        """Return each drive's terms, shape (drives, terms, n)."""
        source, scale = list(correction.q_source), np.array(correction.q_scale)
        # The course of friction over speed is not known well enough to tell a scale.
        units = np.array([1.0, np.pi / 180.0])  # a motor's turns are nearer to the second
        apart = np.abs(np.log(np.abs(scale)) - np.log(units[:, None]))
        plain = np.abs(scale) / units[np.argmin(apart, axis=0)]
        v, a, scale = v / plain, a / plain, scale / plain
        found = np.empty((len(self.robot.drives), self._terms, len(v)))
        for d, drive in enumerate(self.robot.drives):
            rate = v @ drive.ratio
            unit = 0.1 if drive.linear else 1.0
            found[d, 0], found[d, 1] = a @ drive.ratio, rate
            for k, speed in enumerate(SLIDING_SPEEDS):
                found[d, 2 + k] = np.tanh(rate / (unit * speed))
            widths = unit * np.array(PRESLIDING)
            slips = []
            for s in self.stretches:
                moved = s.position[:, source] @ (scale * drive.ratio)
                path = np.repeat(moved[None], len(widths), axis=0)
                held = presliding.stops(path, widths, path[:, 0].copy(), np.zeros(len(widths)))
                slips.append(held[:, s.chosen])
            found[d, 2 + len(SLIDING_SPEEDS) : -1] = np.concatenate(slips, axis=1)
            found[d, -1] = 1.0
        return found

    def rows(self, correction: Correction) -> Rows:
        """Return the sums of a correction's motion."""
        q, v, a = self.motion(correction)
        tree = self.robot.tree
        gravity = np.array(correction.gravity)
        made = _regressor(tree, kernels.motion_of(tree, gravity, q, v, a))
        drives = self._drive_columns(correction, v, a)
        effort = self.effort(correction.delay)
        moved = tree.ancestry()
        weight = np.full(len(self.start), 1.0 / BODY_DOUBT**2)
        columns, squares, products, regressors = [], [], [], []
        for c in self.channels:
            parts, places = [], []
            for b in np.flatnonzero(moved[c]):
                ten = slice(PARAMETER_COUNT * b, PARAMETER_COUNT * (b + 1))
                parts.append(self.metric[b].T @ made[c, ten])
                places.append(np.arange(ten.start, ten.stop))
            for d, drive in enumerate(self.robot.drives):
                if drive.ratio[c] != 0.0:
                    parts.append(drive.ratio[c] * drives[d])
                    first = self.bodies + self._terms * d
                    places.append(np.arange(first, first + self._terms))
            y, at = np.concatenate(parts), np.concatenate(places)
            columns.append(at)
            regressors.append(y)
            squares.append(y @ y.T)
            products.append(y @ effort)
        for d, drive in enumerate(self.robot.drives):
            strong = np.max(np.abs(drive.ratio) * self.effort_rms, initial=0.0)
            size = np.abs(drive.ratio).max() * np.sqrt(np.mean(drives[d] ** 2, axis=1))
            first = self.bodies + self._terms * d
            # A term that never acts keeps its prior; one that does is worth the torque at most.
            weight[first : first + self._terms] = (size / max(strong, 1e-9) + 1e-9) ** 2
        return Rows(tuple(columns), tuple(squares), tuple(products), tuple(regressors), weight)

    def torque_size(self, correction: Correction) -> float:
        """Return by how much the corrected torque is larger than holding the model file's masses.

        At rest, since a wrong scale of positions makes any speed; moving, where nothing falls.
        """
        q, v, a = self.motion(correction)
        tree, gravity = self.robot.tree, np.array(correction.gravity)
        rest = 0.0 if gravity.any() else 1.0
        motion = kernels.motion_of(tree, gravity, q, rest * v, rest * a)
        believed = kernels.inverse_dynamics(tree, motion, self.parameters(self.start))
        source, scale = self.channels, np.array(correction.tau_scale)
        tau = scale * self.effort(correction.delay)[:, list(correction.tau_source)]
        held = np.sum(believed[list(source)] ** 2)
        return float(np.sqrt(np.sum(tau[:, list(source)] ** 2) / max(float(held), 1e-12)))

    def energies(self, delay: float) -> Array:
        """Return the energy of each joint's torque as logged, shape (joints,)."""
        return np.asarray(np.sum(self.effort(delay) ** 2, axis=0))

    def fit(
        self,
        rows: Rows,
        correction: Correction,
        memory: Array,
        energies: Array,
        sigma: Array | None = None,
    ) -> Fit:
        """Return what is left of the torque under a correction.

        Args:
            rows: Of the correction's motion and delay.
            correction: The correction.
            memory: How many rows of a channel add as much as one, shape (channels,).
            energies: Of the torques as logged.
            sigma: What is left of each channel's torque as logged, where to begin.
        """
        channels, count = list(self.channels), self.count
        source = [correction.tau_source[c] for c in channels]
        scale = np.array([correction.tau_scale[c] for c in channels])
        energy = scale**2 * energies[source]
        floor = FLOOR * np.abs(scale) * self.effort_rms[source] + 1e-12
        left = floor + np.sqrt(energy / count) if sigma is None else np.abs(scale) * sigma
        right = [scale[k] * p[:, source[k]] for k, p in enumerate(rows.products)]
        values, ridge = self.start, rows.ridge
        for _ in range(ROUNDS):
            weights = 1.0 / (np.maximum(left, floor) ** 2 * memory)
            values = self._solve(rows, ridge, right, weights)
            ridge = self.tempered(rows, values)
            rest = np.array(
                [
                    energy[k] - 2.0 * values[at] @ right[k] + values[at] @ square @ values[at]
                    for k, (at, square) in enumerate(zip(rows.columns, rows.squares, strict=True))
                ]
            )
            left = np.sqrt(np.maximum(rest, 0.0) / count + floor**2)
        logged = left / np.abs(scale)
        far = self._far(rows, values)
        distance = (TAIL + PARAMETER_COUNT) * float(np.sum(np.log1p(far / TAIL)))
        drives = slice(self.bodies, None)
        distance += float(np.sum(rows.ridge[drives] * values[drives] ** 2))
        objective = float(np.sum(count / memory * 2.0 * np.log(logged))) + distance
        return Fit(correction, objective, logged, values)

    def _far(self, rows: Rows, values: Array) -> Array:
        """Return how far each body is from the model file's, squared [standard deviations²]."""
        apart = rows.ridge * (values - self.start) ** 2
        return np.asarray(apart[: self.bodies].reshape(-1, PARAMETER_COUNT).sum(axis=1))

    def tempered(self, rows: Rows, values: Array) -> Array:
        """Return the precisions at which a Gaussian prior pulls as the Student one does."""
        weight = (TAIL + PARAMETER_COUNT) / (TAIL + self._far(rows, values))
        weights = np.ones(len(self.start))
        weights[: self.bodies] = np.repeat(np.minimum(weight, 1.0), PARAMETER_COUNT)
        return np.asarray(rows.ridge * weights)

    def _solve(self, rows: Rows, ridge: Array, right: Sequence[Array], weights: Array) -> Array:
        size = len(self.start)
        square, product = np.diag(ridge), ridge * self.start
        for at, own, r, w in zip(rows.columns, rows.squares, right, weights, strict=True):
            square[np.ix_(at, at)] += w * own
            product[at] += w * r
        length = 1.0 / np.sqrt(np.diag(square))
        square = square * length * length[:, None]
        square[np.diag_indices(size)] += 1e-12  # rounding, where columns all but depend
        product = product * length
        free = np.ones(size, dtype=bool)
        values = np.zeros(size)
        for _ in range(4):  # nonnegative terms that come out negative are zero
            kept = np.flatnonzero(free)
            values = np.zeros(size)
            factor = scipy.linalg.cho_factor(square[np.ix_(kept, kept)], check_finite=False)
            values[kept] = scipy.linalg.cho_solve(factor, product[kept], check_finite=False)
            negative = self.nonnegative & (values < 0.0)
            if not negative.any():
                break
            free &= ~negative
        return length * np.where(self.nonnegative, np.maximum(values, 0.0), values)

    def residuals(self, rows: Rows, fit: Fit) -> Array:
        """Return what is left of the torque as logged, shape (n, channels)."""
        effort, correction = self.effort(fit.correction.delay), fit.correction
        found = []
        for k, c in enumerate(self.channels):
            scale = correction.tau_scale[c]
            tau = effort[:, correction.tau_source[c]]
            found.append(tau - fit.values[rows.columns[k]] @ rows.regressors[k] / scale)
        return np.stack(found, axis=1)

    def memory(self, rows: Rows, fit: Fit) -> Array:
        """Return how many rows of what is left add as much as one, shape (channels,)."""
        left = self.residuals(rows, fit)
        cuts = np.cumsum([len(s.chosen) for s in self.stretches])[:-1]
        covariance = noise.autocovariance(np.split(left, cuts), COMPARED // 4)
        return noise.memory(covariance)

    def shown(self, correction: Correction) -> DataRank:
        """Return what the motion shows of the bodies' base parameters."""
        q, v, a = self.motion(correction)
        bare = _without_drives(self.robot)
        base = structural_base(RobotPlant(bare))
        tree = self.robot.tree
        motion = kernels.motion_of(tree, np.array(correction.gravity), q, v, a)
        made = _regressor(tree, motion)[list(self.channels)]
        chosen = np.moveaxis(made, 2, 0)[:, :, list(base.kept)].reshape(-1, len(base.kept))
        return data_rank(triangle_of(chosen), base.labels, len(chosen))


def _without_drives(robot: Robot) -> Robot:
    """Return a robot of which nothing rubs and no rotor turns."""
    drives = tuple(replace(d, terms=(), simpler=()) for d in robot.drives)
    return replace(robot, drives=drives)


def _windows(recording: Recording, rows: int) -> Iterator[Recording]:
    """Yield at most about so many rows of a recording, from all over it."""
    total = recording.table.rows
    if total is None:
        total = sum(len(b.time) for b in recording.blocks([]))
    if total <= rows:
        yield recording
        return
    share = rows // SPREAD_WINDOWS
    for k in range(SPREAD_WINDOWS):
        first = (total - share) * k // (SPREAD_WINDOWS - 1)
        yield recording.window(first, first + share)


def _stretches(problem: Problem[RobotPlant]) -> Iterator[Stretch]:
    """Yield the problem's pieces without gaps, their torque through the motion's low-pass."""
    held: list[tuple[Array, Array, Array, Array, Array]] = []
    recording, last = -1, -np.inf

    def joined() -> Iterator[Stretch]:
        if not held:
            return
        time, q, v, a, tau = (np.concatenate([h[k] for h in held]) for k in range(5))
        step = problem.timelines[recording].step
        if len(time) < 64 or time[-1] - time[0] <= 2.5 * LONGEST_DELAY:
            return
        grid = time[0] + step * np.arange(int((time[-1] - time[0]) / step + 1e-9) + 1)
        even = np.stack([np.interp(grid, time, x) for x in tau.T], 1)
        smooth = signals.low_pass(even, step, min(problem.corner, signals.LARGEST_CORNER / step))
        tau = np.stack([np.interp(time, grid, x) for x in smooth.T], 1)
        yield Stretch(time, q, v, a, tau, np.empty(0, dtype=np.intp))

    for s in problem.samples():
        gap = signals.GAP_STEPS * problem.timelines[s.recording].step
        if s.recording != recording or not 0.0 < s.time[0] - last <= gap:
            yield from joined()
            held = []
        recording, last = s.recording, float(s.time[-1])
        effort = np.zeros((len(s.time), problem.plant.robot.tree.channels))
        effort[:, problem.plant.robot.measured] = s.measured
        inside = np.flatnonzero(np.diff(s.time, prepend=s.time[0]) > gap)
        for part in np.split(np.arange(len(s.time)), inside):
            if held and len(part) and s.time[part[0]] - held[-1][0][-1] > gap:
                yield from joined()
                held = []
            held.append(
                (
                    s.time[part],
                    s.motion.position.T[part],
                    s.motion.velocity.T[part],
                    s.motion.bodies.acceleration.T[part],
                    effort[part],
                )
            )
    yield from joined()


def _regressor(tree: Tree, motion: kernels.Motion) -> Array:
    """Return the bodies' rows, shape (channels, 10 bodies, n)."""
    out = np.zeros((tree.channels, PARAMETER_COUNT * len(tree.names), motion.sin.shape[1]))
    kernels.regressor(tree, motion, out)
    return out
