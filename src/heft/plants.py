"""Plants turn signals into rows; a `Problem` is a plant with the logs of an experiment.

A problem can be walked as often as a method needs, each time in bounded memory:

    problem.samples()      smooth motion and effort, window by window
    problem.rows()         Y and τ of each window, on the base parameters
    problem.information()  the sum of all rows, fused: rows never leave the cache

Plants know nothing of estimators.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeVar

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from . import friction, kernel, signals, tables
from .errors import InvalidSetting, MissingSignal, TooLittleData
from .identifiability import BaseParameters, base_parameters, column_order
from .inertia import PARAMETER_COUNT, SYMBOLS, UNITS, Array
from .information import Information, Triangle, triangle_of
from .parameters import Labels
from .recording import Recording
from .robot import PRISMATIC, Robot
from .signals import Smoothing, Timeline, Window

Item = TypeVar("Item")
Result = TypeVar("Result")
DENSE_BYTES = 64 << 20  # of rows that are spelt out, for estimators that need them
STRUCTURE_SEED = 20_260  # any will do: the base parameters do not depend on the draw


def random_states(robot: Robot, count: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Return random positions, velocities and accelerations, joints held still at rest.

    Returns:
        q (count, positions), v (count, channels), a (count, channels).
    """
    tree = robot.tree
    first = tree.channels - len(robot.joints)
    v, a = rng.normal(size=(2, count, tree.channels))
    q = rng.uniform(-np.pi, np.pi, size=(count, tree.positions))
    shift = tree.positions - tree.channels
    for c in set(tree.channel[tree.kind == PRISMATIC].tolist()):
        q[:, c + shift] /= np.pi
    if tree.free_base:
        q[:, 3:7] = rng.normal(size=(count, 4))
    for k, joint in enumerate(robot.joints):
        held = robot.options.of(joint).position
        if held is not None:
            q[:, first + shift + k] = held
            v[:, first + k] = a[:, first + k] = 0.0
    return q, v, a


def standard_rows(robot: Robot, q: Array, v: Array, a: Array) -> Array:
    """Return rows of all standard parameters, shape (N, channels, p), as `robot.labels`."""
    return rows_of(robot, kernel.motion_of(robot.tree, robot.gravity, q, v, a))


def rows_of(robot: Robot, motion: kernel.Motion, threads: int = 1) -> Array:
    """Return the rows of all standard parameters at a motion, shape (N, channels, p)."""
    own = PARAMETER_COUNT * len(robot.tree.names)
    out = np.zeros((robot.tree.channels, len(robot.labels), motion.sin.shape[1]))
    kernel.regressor(robot.tree, motion, out, threads)
    scatter = friction.columns(robot, motion.velocity, motion.acceleration)
    for (channel, column), weight in zip(scatter.acts, scatter.weights, strict=True):
        out[channel, own + column] += weight * scatter.values[column]
    return np.moveaxis(out, 2, 0)


def structural_base(robot: Robot) -> BaseParameters:
    """Return the base parameters of a robot: what any motion could tell at best.

    From rows at random states, of the channels that are measured. The same robot always gives
    the same base parameters.
    """
    labels = robot.labels
    measured = robot.measured
    count = max(32, -(-4 * len(labels) // max(len(measured), 1)))
    states = random_states(robot, count, np.random.default_rng(STRUCTURE_SEED))
    rows = standard_rows(robot, *states)[:, measured].reshape(-1, len(labels))
    order = column_order(len(robot.tree.names), len(labels))
    return base_parameters(triangle_of(rows), labels, order)


@dataclass(frozen=True)
class Believed:
    """What estimators must know of a plant's parameters besides its rows.

    Attributes:
        labels: The n parameters x that are exported: ten a link, then the drives'.
        matrix: `β = matrix @ x`, shape (b, n).
        nominal: What the model file believes of x, shape (n,).
        groups: First positions of tens that must be the parameters of a body.
        nonnegative: Positions that must not be negative.
    """

    labels: Labels
    matrix: Array
    nominal: Array
    groups: tuple[int, ...]
    nonnegative: tuple[int, ...]


@dataclass(frozen=True)
class Samples:
    """Smooth motion and effort at the log's own times.

    Attributes:
        recording: Position of the recording in the problem.
        time: Shape (N,) [s].
        motion: What the kernels read.
        effort: τ, shape (channels, N) [N·m or N]; zero where not measured.
        index: Rows' positions in the recording, shape (N,).
    """

    recording: int
    time: Array
    motion: kernel.Motion
    effort: Array
    index: NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """Rows `Y β = τ` of one window.

    Attributes:
        regressor: Y, shape (N, channels, b).
        effort: τ, shape (N, channels).
        time: Shape (N,) [s].
        recording: Position of the recording in the problem.
    """

    regressor: Array
    effort: Array
    time: Array
    recording: int


@dataclass(frozen=True)
class Problem:
    """A robot and the logs of an experiment with it, ready to be walked.

    Attributes:
        robot: The plant.
        recordings: Logs that can be read again.
        smoothing: How motion is made smooth.
        threads: How many threads share the work; the result does not depend on it.
        purpose: `fit` needs torques; `predict` does without.
    """

    robot: Robot
    recordings: tuple[Recording, ...]
    smoothing: Smoothing = Smoothing()
    threads: int = 2
    purpose: Literal["fit", "predict"] = "fit"

    @cached_property
    def base(self) -> BaseParameters:
        """The robot's base parameters."""
        return structural_base(self.robot)

    @property
    def labels(self) -> Labels:
        """Labels of the base parameters."""
        return self.base.labels

    @cached_property
    def believed(self) -> Believed:
        """What the robot's model file says of the parameters."""
        robot, own = self.robot, PARAMETER_COUNT * len(self.robot.tree.names)
        links = robot.bodies_links
        names = [f"{k.name}.{s}" for k in links for s in SYMBOLS]
        labels = robot.labels
        drives = labels.select(range(own, len(labels)))
        spread = scipy.linalg.block_diag(robot.link_matrix(), np.eye(len(drives)))
        nominal = np.concatenate([*(k.nominal for k in links), np.zeros(len(drives))])
        first = PARAMETER_COUNT * len(links)
        positive = [
            first + k
            for k, (_, term) in enumerate(robot.drive_columns)
            if term in friction.POSITIVE_TERMS
        ]
        return Believed(
            Labels((*names, *drives.names), (*UNITS * len(links), *drives.units), labels.frame),
            self.base.matrix @ spread,
            nominal,
            tuple(range(0, first, PARAMETER_COUNT)),
            tuple(positive),
        )

    @cached_property
    def position_signals(self) -> tuple[str, ...]:
        """Signals of the joints that move.

        Raises:
            InvalidSetting: If the base floats: logs hold no pose yet.
        """
        if self.robot.tree.free_base:
            raise InvalidSetting(
                "a free base needs its pose, which logs do not hold yet",
                argument='base = "free"',
                cure="fix the base, and identify its limbs",
            )
        moving = [j for j in self.robot.joints if self.robot.options.of(j).position is None]
        return tuple(f"q.{j}" for j in moving)

    def effort_signals(self, recording: Recording) -> tuple[tuple[str, int, float], ...]:
        """Return signal, channel and factor of each measured effort in a recording.

        Raises:
            MissingSignal: If neither torque nor a current with a gain is there.
        """
        first = len(self.robot.channels) - len(self.robot.joints)
        found = []
        for channel in self.robot.measured:
            if channel < first:
                continue
            joint = self.robot.joints[channel - first]
            gain = self.robot.options.of(joint).gain
            if f"tau.{joint}" in recording.sources:
                found.append((f"tau.{joint}", int(channel), 1.0))
            elif f"current.{joint}" in recording.sources and gain is not None:
                found.append((f"current.{joint}", int(channel), gain))
            elif f"current.{joint}" in recording.sources:
                raise MissingSignal(
                    f"joint '{joint}' has a current but no torque",
                    argument=recording.name,
                    cure=f"give its gain in N·m/A: [joint.{joint}] gain = … in the file of --with",
                )
            else:
                recording.require(
                    f"tau.{joint}",
                    f"is needed to identify joint '{joint}' (if it is not "
                    f"measured, say [joint.{joint}] measured = false)",
                )
        return tuple(found)

    @cached_property
    def timelines(self) -> tuple[Timeline, ...]:
        """What the clock of each recording shows."""
        return tuple(signals.survey(r, self._names(r)) for r in self.recordings)

    @cached_property
    def resolved(self) -> Smoothing:
        """The smoothing with its corner chosen."""
        for recording in self.recordings:
            self._names(recording)
        return signals.resolve(self.smoothing, self.recordings, self.position_signals)

    @property
    def corner(self) -> float:
        """Corner of the low-pass [Hz]."""
        corner = self.resolved.corner
        assert corner is not None
        return corner

    def _names(self, recording: Recording) -> tuple[str, ...]:
        for name in self.position_signals:
            joint = name.partition(".")[2]
            recording.require(
                name,
                f"says where joint '{joint}' is (if it was held still, say "
                f"[joint.{joint}] position = …)",
            )
        if self.purpose == "predict":
            return self.position_signals
        return (*self.position_signals, *(n for n, *_ in self.effort_signals(recording)))

    @property
    def _dense_rows(self) -> int:
        """How many samples' rows may be spelt out at once."""
        size = 8 * self.robot.tree.channels * max(len(self.robot.labels), 1)
        return int(np.clip(DENSE_BYTES // size, 256, tables.BLOCK_ROWS // 2))

    def _windows(
        self, margins: float, core_rows: int = tables.BLOCK_ROWS // 2
    ) -> Iterator[tuple[int, Window]]:
        for k, recording in enumerate(self.recordings):
            step = self.timelines[k].step
            margin = margins * signals.settling(self.corner, step, self.resolved.order)
            names = self._names(recording)
            for window in signals.windows(recording, names, step, margin, core_rows):
                yield k, window

    def _positions(self, window: Window, at: Array | None, k: int) -> signals.Smoothed:
        moving = len(self.position_signals)
        return signals.smooth(
            window.time,
            window.values[:, :moving],
            self.timelines[k].step,
            self.corner,
            self.resolved.order,
            at,
        )

    def _motion(
        self, smoothed: signals.Smoothed, chosen: NDArray[np.bool_] | slice
    ) -> kernel.Motion:
        robot = self.robot
        moving = [robot.options.of(j).position is None for j in robot.joints]
        q, v, a = (np.zeros((len(smoothed.position[chosen]), len(moving))) for _ in range(3))
        q[:, moving] = smoothed.position[chosen]
        v[:, moving] = smoothed.velocity[chosen]
        a[:, moving] = smoothed.acceleration[chosen]
        for k, joint in enumerate(robot.joints):
            held = robot.options.of(joint).position
            if held is not None:
                q[:, k] = held
        return kernel.motion_of(robot.tree, robot.gravity, q, v, a)

    def _effort(self, values: Array, recording: Recording) -> Array:
        """Return τ, shape (channels, rows), of a window's values."""
        effort = np.zeros((self.robot.tree.channels, len(values)))
        if self.purpose == "fit":
            moving = len(self.position_signals)
            for k, (_, channel, factor) in enumerate(self.effort_signals(recording)):
                effort[channel] = factor * values[:, moving + k]
        return effort

    def _sample(self, k: int, window: Window) -> Samples | None:
        trim = self.resolved.trim
        time = window.time
        inside = np.zeros(len(time), dtype=bool)
        inside[window.core] = True
        inside &= (time >= window.begin + trim) & (time <= window.end - trim)
        selection = self.recordings[k].selection
        if selection is not None:
            inside &= selection(window.index)
        if not inside.any() or len(time) < 2 * signals.REACH + 2:
            return None
        motion = self._motion(self._positions(window, None, k), inside)
        kernel.require_finite(motion)
        effort = self._effort(window.values[inside], self.recordings[k])
        return Samples(k, time[inside], motion, effort, window.index[inside])

    def samples(self) -> Iterator[Samples]:
        """Yield smooth motion and raw effort, window by window, at the log's own times."""
        work = self._in_order(lambda item: self._sample(*item), self._windows(1.0))
        yield from (s for s in work if s is not None)

    def _in_order(self, work: Callable[[Item], Result], items: Iterator[Item]) -> Iterator[Result]:
        """Yield work(item) in the items' order, a few of them at a time in threads."""
        if self.threads <= 1:
            yield from map(work, items)
            return
        pending: deque[Future[Result]] = deque()
        with ThreadPoolExecutor(self.threads) as pool:
            for item in items:
                pending.append(pool.submit(work, item))
                if len(pending) > self.threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()

    def _filtered(self, k: int, window: Window) -> Rows | None:
        """Rows and torque of a window through one low-pass, thinned out to what it leaves."""
        step, trim = self.timelines[k].step, self.resolved.trim
        time = window.time
        if len(time) < 2 * signals.REACH + 2:
            return None
        grid = step * np.arange(np.ceil(time[0] / step), np.floor(time[-1] / step) + 1)
        motion = self._motion(self._positions(window, grid, k), slice(None))
        kernel.require_finite(motion)
        effort = self._effort(window.values, self.recordings[k])
        even = np.stack([np.interp(grid, time, row) for row in effort])
        rows = rows_of(self.robot, motion)[:, :, list(self.base.kept)]
        both = np.concatenate([rows, even.T[:, :, None]], axis=2)
        smooth = signals.low_pass(both, step, self.corner, self.resolved.order)
        thin = max(1, int(1.0 / (4.0 * self.corner * step)))
        core = time[window.core]
        after = time[window.core.stop] if window.core.stop < len(time) else np.inf
        inside = (grid >= core[0]) & (grid < after) & (np.round(grid / step) % thin == 0)
        inside &= (grid >= window.begin + trim) & (grid <= window.end - trim)
        selection = self.recordings[k].selection
        if selection is not None:
            inside &= selection(window.index)[np.searchsorted(time, grid - 0.5 * step)]
        if not inside.any():
            return None
        return Rows(smooth[inside][:, :, :-1], smooth[inside][:, :, -1], grid[inside], k)

    def rows(self) -> Iterator[Rows]:
        """Yield the rows of each window, on the base parameters; channels in model order."""
        kept = list(self.base.kept)
        if self.resolved.torque == "filtered":
            windows = self._windows(2.0, self._dense_rows)
            work = self._in_order(lambda item: self._filtered(*item), windows)
            yield from (r for r in work if r is not None)
            return
        for s in self.samples():
            for first in range(0, len(s.time), self._dense_rows):
                cut = slice(first, first + self._dense_rows)
                chosen = rows_of(self.robot, s.motion.part(cut), self.threads)[:, :, kept]
                yield Rows(chosen, s.effort[:, cut].T, s.time[cut], s.recording)

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of the measured channels, in model order."""
        return tuple(self.robot.channels[c] for c in self.robot.measured)

    def information(self) -> Information:
        """Return what all rows say of the base parameters.

        Raises:
            TooLittleData: If no rows are left.
        """
        measured = self.robot.measured
        if self.resolved.torque == "filtered":
            total = Information.neutral(self.labels, self.channels)
            for rows in self.rows():
                total = total + Information.from_rows(
                    self.labels,
                    self.channels,
                    rows.regressor[:, measured],
                    rows.effort[:, measured],
                )
        else:
            total = self._fused()
        if total.rows == 0:
            raise TooLittleData(
                "no rows are left of these logs",
                argument=", ".join(r.name for r in self.recordings),
                got=f"{sum(t.used for t in self.timelines)} usable rows in "
                f"{sum(t.segments for t in self.timelines)} pieces, "
                f"{self.resolved.trim:g} s cut at each end of a piece",
                cure="give longer logs, or cut less (--trim)",
            )
        return total

    def _fused(self) -> Information:
        robot, measured = self.robot, self.robot.measured
        chosen = np.array(self.base.kept, dtype=np.intp)
        plan = kernel.plan(robot.tree, chosen, friction.acts(robot), measured)

        def work(item: tuple[int, Window]) -> Information | None:
            s = self._sample(*item)
            if s is None:
                return None
            scatter = friction.columns(robot, s.motion.velocity, s.motion.acceleration)
            factors = kernel.reduce(plan, s.motion, scatter, s.effort)
            triangles = tuple(Triangle(plan.columns[c], factors[c], len(s.time)) for c in measured)
            return Information(self.labels, self.channels, triangles)

        total = Information.neutral(self.labels, self.channels)
        for part in self._in_order(work, self._windows(1.0)):
            total = total if part is None else total + part
        return total

    def residuals(self, values: Array) -> Iterator[Array]:
        """Yield τ − Y β by pieces without gaps, shape (N, measured channels).

        Args:
            values: β, shape (b,).
        """
        measured = self.robot.measured
        if self.resolved.torque == "filtered":
            for rows in self.rows():
                yield rows.effort[:, measured] - rows.regressor[:, measured] @ values
            return
        own = PARAMETER_COUNT * len(self.robot.tree.names)
        standard = np.zeros(len(self.robot.labels))
        standard[list(self.base.kept)] = values
        names = self.robot.labels.names
        drives = dict(zip(names[own:], standard[own:].tolist(), strict=True))
        for s, predicted, _ in self.predictions(standard[:own], drives):
            yield (s.effort - predicted)[measured].T

    def predictions(
        self, bodies: Array, drives: dict[str, float]
    ) -> Iterator[tuple[Samples, Array, Array]]:
        """Yield samples with predicted effort and its rigid part, each (channels, N).

        Args:
            bodies: Ten parameters a body, shape (10 bodies,).
            drives: Values of the drives' terms by name.
        """
        for s in self.samples():
            rigid = kernel.inverse_dynamics(self.robot.tree, s.motion, bodies)
            rest = friction.effort(self.robot, drives, s.motion.velocity, s.motion.acceleration)
            yield s, rigid + rest, rigid

    def of(self, recordings: Sequence[Recording], **changes: object) -> Problem:
        """Return the same problem with other recordings, at the corner chosen here."""
        return replace(self, recordings=tuple(recordings), smoothing=self.resolved, **changes)  # type: ignore[arg-type]
