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
from functools import cached_property, partial
from typing import Any, Literal, TypeVar

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from heft import signals
from heft.arrays import Array
from heft.dynamics import drive_columns, kernels
from heft.errors import InvalidSetting, MissingSignal, TooLittleData
from heft.information import (
    PARAMETER_COUNT,
    SYMBOLS,
    UNITS,
    BaseParameters,
    Information,
    Labels,
    Triangle,
)
from heft.models import Robot
from heft.recordings import BLOCK_ROWS, Recording
from heft.signals import Smoothing, Timeline, Weak, Window, weak_form

from .robot import both_sides, rows_of, structural_base
from .rows import Believed, Residuals, Rows, Samples

Item = TypeVar("Item")
Result = TypeVar("Result")
DENSE_BYTES = 64 << 20  # of rows that are spelt out, for estimators that need them
SHARED_ROWS = 8_192  # rows that one thread reduces at a time
SHORTEST_FILTERED = 32  # rows of a piece that can be filtered


def _some(rows: Array, chosen: NDArray[np.intp]) -> Array:
    return rows[chosen]


@dataclass(frozen=True)
class Problem:
    """A robot and the logs of an experiment with it, ready to be walked.

    Attributes:
        robot: The plant.
        recordings: Logs that can be read again.
        smoothing: How motion is made smooth.
        threads: How many threads share the work; the result does not depend on it.
        purpose: `fit` needs torques; `predict` does without.
        bodies: Ten parameters a body, whose torque the load term of friction is to take,
            shape (10 bodies,); without them it is zero in rows, and that of the bodies given
            in predictions.
        band: Upper end of the motion's band [Hz], where it is not the corner.
        weak: Windows of the weak form, whose rows need no acceleration; rows are differentiated
            if not given.
        every: How many samples' efforts are averaged into one row, odd; motion is that of the
            middle one.
        held: Whether smooth motion stays in memory between one walk and the next, as that of
            short logs may.
    """

    robot: Robot
    recordings: tuple[Recording, ...]
    smoothing: Smoothing = Smoothing()
    threads: int = 2
    purpose: Literal["fit", "predict"] = "fit"
    bodies: Array | None = None
    band: float | None = None
    weak: Weak | None = None
    every: int = 1
    held: bool = False

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
            first + k for k, (_, term) in enumerate(robot.drive_columns) if term.nonnegative
        ]
        return Believed(
            Labels((*names, *drives.names), (*UNITS * len(links), *drives.units), labels.frame),
            self.base.matrix @ spread,
            nominal,
            tuple(range(0, first, PARAMETER_COUNT)),
            tuple(positive),
        )

    def bodies_of(self, values: Array) -> Array:
        """Return ten parameters a body, shape (10 bodies,), of the exported parameters."""
        return self.robot.link_matrix() @ values[: 10 * len(self.believed.groups)]

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
        found: list[tuple[str, int, float]] = []
        without_gain: list[str] = []
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
                without_gain.append(joint)
            else:
                recording.require(
                    f"tau.{joint}",
                    f"is needed to identify joint '{joint}' (or current.{joint} and its gain; if "
                    f"neither is measured, say [joint.{joint}] measured = false)",
                )
        if without_gain:
            raise MissingSignal(
                "currents are logged in place of torques, and no gains are given",
                argument=recording.name,
                got=f"a current of {', '.join(without_gain)}",
                cure="give the gain of each in N·m/A in the file of --with, such as "
                f"[joint.{without_gain[0]}] gain = 10.6",
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
    def delay(self) -> float:
        """By how much torque comes behind motion [s]."""
        return self.resolved.delay or 0.0

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
        return int(np.clip(DENSE_BYTES // size, 256, BLOCK_ROWS // 2))

    def _windows(
        self, margins: float, core_rows: int = BLOCK_ROWS // 2
    ) -> Iterator[tuple[int, Window]]:
        for k, recording in enumerate(self.recordings):
            step = self.timelines[k].step
            margin = self.smoothers[k].margin
            if margins > 1.0:  # rows pass a low-pass of their own
                margin += signals.settling(self.corner, step, self.resolved.order)
            names = self._names(recording)
            for window in signals.windows(recording, names, step, margin, core_rows):
                yield k, window

    @cached_property
    def smoothers(self) -> tuple[signals.Smoother, ...]:
        """What makes the motion of each recording smooth."""
        names = self.position_signals
        pairs = zip(self.recordings, self.timelines, strict=True)
        return tuple(signals.smoother(self.resolved, r, names, t.step) for r, t in pairs)

    def _positions(self, window: Window, at: Array | None, k: int) -> signals.Smoothed:
        moving = len(self.position_signals)
        return self.smoothers[k].smooth(window.time, window.values[:, :moving], at)

    def _motion(
        self, smoothed: signals.Smoothed, cut: slice = slice(None)
    ) -> tuple[Array, kernels.Motion]:
        """Return positions, shape (channels, N), and what the kernels read."""
        robot = self.robot
        moving = [robot.options.of(j).position is None for j in robot.joints]
        q, v, a = (np.zeros((len(smoothed.position[cut]), len(moving))) for _ in range(3))
        q[:, moving] = smoothed.position[cut]
        v[:, moving] = smoothed.velocity[cut]
        a[:, moving] = smoothed.acceleration[cut]
        for k, joint in enumerate(robot.joints):
            held = robot.options.of(joint).position
            if held is not None:
                q[:, k] = held
        motion = kernels.motion_of(robot.tree, robot.gravity, q, v, a)
        kernels.require_finite(motion)
        return q.T, motion

    def _effort(self, values: Array, recording: Recording) -> Array:
        """Return τ, shape (channels, rows), of a window's values."""
        effort = np.zeros((self.robot.tree.channels, len(values)))
        if self.purpose == "fit":
            moving = len(self.position_signals)
            for k, (_, channel, factor) in enumerate(self.effort_signals(recording)):
                effort[channel] = factor * values[:, moving + k]
        return effort

    def _chosen(
        self, k: int, window: Window, time: Array, index: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return which rows are neither cut off at an end nor left out by a selection."""
        trim = self.resolved.trim
        inside = (time >= window.begin + trim) & (time <= window.end - trim)
        selection = self.recordings[k].selection
        return inside if selection is None else inside & selection(index)

    def _sample(self, k: int, window: Window) -> Samples | None:
        """Return all rows that a window answers for, friction's memory still to come."""
        if len(window.time) < 2 * signals.REACH + 2:
            return None
        cut, delay = window.core, self.delay
        at = None if delay == 0.0 else window.time - delay
        position, motion = self._motion(self._positions(window, at, k), cut)
        time, index = window.time[cut], window.index[cut]
        effort = self._effort(window.values[cut], self.recordings[k])
        chosen = self._chosen(k, window, time, index)
        return Samples(k, time, position, motion, np.empty((0, len(time))), effort, index, chosen)

    def _remembering(self, parts: Iterator[Samples | None]) -> Iterator[Samples]:
        """Yield samples with the memory of friction, on which every row leaves its mark."""
        recording, before = -1, None
        for s in parts:
            if s is None:
                continue
            if s.recording != recording:
                recording, before = s.recording, None
            before = drive_columns.presliding(self.robot.drives, s.time, s.position, before)
            yield replace(s, stops=before.values)

    def samples(self) -> Iterator[Samples]:
        """Yield smooth motion and raw effort, window by window, at the log's own times."""
        return iter(self._samples_held) if self.held else self._walked()

    @cached_property
    def _samples_held(self) -> tuple[Samples, ...]:
        return tuple(self._walked())

    def _walked(self) -> Iterator[Samples]:
        work = self._in_order(lambda item: self._sample(*item), self._windows(1.0))
        for s in self._remembering(work):
            rows = np.flatnonzero(s.chosen)
            if len(rows) < len(s.time):
                s = s.part(rows)
            if self.every > 1:
                s = s.averaged(self.every)
            if len(s.time):
                yield s

    def loads(self, motion: kernels.Motion) -> Array:
        """Return the rigid torque that friction's load term is to take, shape (channels, N)."""
        if self.bodies is None:
            return np.zeros_like(motion.velocity)
        return kernels.inverse_dynamics(self.robot.tree, motion, self.bodies)

    def load_moments(self, values: Array, spread: Array) -> tuple[Array, ...]:
        """Return what errors of the bodies do to the estimate by load-dependent gear friction.

        The load term takes the rigid torque of bodies that are themselves an estimate; what part
        of a rotor's inertia they hold, say, no motion tells.

        Args:
            values: β, shape (b,), for the load terms' coefficients.
            spread: Errors of the bodies of one standard deviation, shape (10 bodies, errors).

        Returns:
            For each measured channel the mean of `Yᵀe` over rows, e being what each error does
            to the torque; shape (errors, b). See `uncertainty.Noise`.
        """
        robot, kept = self.robot, list(self.base.kept)
        own, measured = PARAMETER_COUNT * len(robot.tree.names), robot.measured
        total = np.zeros((len(measured), spread.shape[1], len(kept)))
        rows = 0
        for s in self.samples():
            every = max(1, int(1.0 / (8.0 * self.corner * self.timelines[s.recording].step)))
            part = s.part(slice(every // 2, None, every))
            rigid = self.loads(part.motion)
            full = rows_of(robot, part.motion, part.drive_state(rigid))
            moved = full[:, :, :own] @ spread
            errors = np.zeros_like(moved)
            for k, (d, term) in enumerate(robot.drive_columns):
                place = own + k
                if not term.loaded or place not in kept:
                    continue
                ratio = robot.drives[d].ratio
                motion = drive_columns.motion_of(robot.drives, d, part.drive_state(rigid))
                slope = values[kept.index(place)] * term.slope(motion)
                errors += (
                    slope[:, None, None]
                    * np.einsum("c,nck->nk", ratio, moved)[:, None]
                    * (ratio[:, None])
                )
            chosen = full[:, :, kept]
            for c, channel in enumerate(measured):
                total[c] += errors[:, channel].T @ chosen[:, channel]
            rows += len(part.time)
        return tuple(total / max(rows, 1))

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

    def _even(self, k: int, window: Window) -> Samples | None:
        """Return a window with its margins on an even grid, the effort shifted by the delay."""
        step, time = self.timelines[k].step, window.time
        if len(time) < 2 * signals.REACH + 2:
            return None
        grid = step * np.arange(np.ceil(time[0] / step), np.floor(time[-1] / step) + 1)
        position, motion = self._motion(self._positions(window, grid, k))
        effort = self._effort(window.values, self.recordings[k])
        even = np.stack([np.interp(grid + self.delay, time, row) for row in effort])
        core = time[window.core]
        after = time[window.core.stop] if window.core.stop < len(time) else np.inf
        index = window.index[np.searchsorted(time, grid - 0.5 * step)]
        chosen = (grid >= core[0]) & (grid < after) & self._chosen(k, window, grid, index)
        thin = max(1, int(1.0 / (4.0 * self.corner * step)))
        chosen &= np.round(grid / step) % thin == 0
        return Samples(k, grid, position, motion, np.empty((0, len(grid))), even, index, chosen)

    def _filtered(self, s: Samples) -> Rows | None:
        """Rows and torque of a window through one low-pass, thinned out to what it leaves."""
        if not s.chosen.any():
            return None
        step = self.timelines[s.recording].step
        rows = rows_of(self.robot, s.motion, s.drive_state(self.loads(s.motion)), 1, True)
        both = np.concatenate([rows[:, :, self._gathered], s.effort.T[:, :, None]], axis=2)
        smooth = signals.low_pass(both, step, self.corner, self.resolved.order)[s.chosen]
        return Rows(smooth[:, :, :-1], smooth[:, :, -1], s.time[s.chosen], s.recording)

    def _filtered_rows(self) -> Iterator[Rows]:
        windows = self._windows(2.0, self._dense_rows)
        parts = self._remembering(self._in_order(lambda item: self._even(*item), windows))
        yield from (r for r in self._in_order(self._filtered, parts) if r is not None)

    def _weak_rows(self) -> Iterator[Rows]:
        """Rows of the weak form, a window each, on the gathered columns."""
        assert self.weak is not None
        held: weak_form.Held | None = None
        recording, last = -1, -np.inf
        parts = self._in_order(lambda item: self._sample(*item), self._windows(1.0))
        for s in self._remembering(parts):
            step = self.timelines[s.recording].step
            windows, gap = self.weak.windows(self.corner, step), signals.GAP_STEPS * step
            for first in range(0, len(s.time), self._dense_rows):
                part = s.part(slice(first, first + self._dense_rows))
                apart = np.diff(part.time)
                breaks = (apart <= 0.0) | (apart > gap) | np.diff(part.chosen)
                for run in np.split(np.arange(len(part.time)), np.flatnonzero(breaks) + 1):
                    piece = part.part(run)
                    if s.recording != recording or not 0.0 < piece.time[0] - last <= gap:
                        held = None
                    recording = s.recording
                    last = float(piece.time[-1]) if piece.chosen[0] else -np.inf
                    if not piece.chosen[0]:
                        continue
                    state = piece.drive_state(self.loads(piece.motion))
                    sides = both_sides(self.robot, piece.motion, state, simple=True)
                    momentum, remainder = (side[:, :, self._gathered] for side in sides)
                    held, found = weak_form.advance(
                        windows,
                        held,
                        weak_form.Samples(piece.time, momentum, remainder, piece.effort.T),
                    )
                    if len(found.time):
                        yield Rows(found.regressor, found.effort, found.time, s.recording)

    @property
    def _spelt_out(self) -> bool:
        """Whether rows are made of many samples each, and not reduced as they come."""
        return self.weak is not None or self.resolved.torque == "filtered"

    def _made_rows(self) -> Iterator[Rows]:
        return self._weak_rows() if self.weak is not None else self._filtered_rows()

    def rows(self) -> Iterator[Rows]:
        """Yield the rows of each window, on the base parameters; channels in model order."""
        kept = list(self.base.kept)
        if self._spelt_out:
            for r in self._made_rows():
                yield replace(r, regressor=r.regressor[:, :, : len(kept)])
            return
        for s in self.samples():
            for first in range(0, len(s.time), self._dense_rows):
                part = s.part(slice(first, first + self._dense_rows))
                state = part.drive_state(self.loads(part.motion))
                chosen = rows_of(self.robot, part.motion, state, self.threads)[:, :, kept]
                yield Rows(chosen, part.effort.T, part.time, s.recording)

    @property
    def measured(self) -> NDArray[np.intp]:
        """Positions of `channels` among the channels of rows."""
        return self.robot.measured

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of the measured channels, in model order."""
        return tuple(self.robot.channels[c] for c in self.robot.measured)

    @cached_property
    def gathered_labels(self) -> Labels:
        """Labels of the base parameters, then of simple friction beside the drives' own."""
        simple = self.robot.drive_labels(self.robot.simple_columns)
        base = self.labels
        return Labels((*base.names, *simple.names), (*base.units, *simple.units), base.frame)

    @property
    def _gathered(self) -> list[int]:
        """Positions of the gathered columns among the standard ones and simple friction's."""
        count = len(self.robot.labels)
        return [*self.base.kept, *range(count, count + len(self.robot.simple_columns))]

    def information(self) -> Information:
        """Return what all rows say of the base parameters.

        Raises:
            TooLittleData: If no rows are left.
        """
        return self.gathered().only(range(len(self.labels)))

    def gathered(self) -> Information:
        """Return what all rows say of the base parameters and of simple friction.

        Terms of simple friction that a drive lacks (Coulomb) are columns beside its own, so that
        the simple model is fitted without walking the rows once more.

        Raises:
            TooLittleData: If no rows are left.
        """
        measured = self.robot.measured
        if self._spelt_out:
            total = Information.neutral(self.gathered_labels, self.channels)
            for rows in self._made_rows():
                total = total + Information.from_rows(
                    self.gathered_labels,
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
        columns = (*robot.drive_columns, *robot.simple_columns)
        chosen = np.array(self._gathered, dtype=np.intp)
        plan = kernels.plan(robot.tree, chosen, drive_columns.acts(robot.drives, columns), measured)

        def work(s: Samples) -> Information:
            state = s.drive_state(self.loads(s.motion))
            made = drive_columns.columns(robot.drives, columns, state)
            factors = kernels.reduce(plan, s.motion, made, s.effort)
            triangles = tuple(Triangle(plan.columns[c], factors[c], len(s.time)) for c in measured)
            return Information(self.gathered_labels, self.channels, triangles)

        total = Information.neutral(self.gathered_labels, self.channels)
        parts = (
            s.part(slice(first, first + SHARED_ROWS))
            for s in self.samples()
            for first in range(0, len(s.time), SHARED_ROWS)
        )
        for part in self._in_order(work, parts):
            total = total + part
        return total

    def residuals(self, values: Array) -> Iterator[Residuals]:
        """Yield τ − Y β by pieces without gaps.

        Args:
            values: β, shape (b,).
        """
        measured, kept = self.robot.measured, list(self.base.kept)
        if self._spelt_out:
            for r in self.rows():
                left = r.effort[:, measured] - r.regressor[:, measured] @ values
                regressors = r.regressor[:, measured]
                yield Residuals(left, partial(_some, regressors), r.recording, None)
            return
        own = PARAMETER_COUNT * len(self.robot.tree.names)
        standard = np.zeros(len(self.robot.labels))
        standard[kept] = values
        names = self.robot.labels.names
        drives = dict(zip(names[own:], standard[own:].tolist(), strict=True))

        def regressor(s: Samples, piece: NDArray[np.intp], rows: NDArray[np.intp]) -> Array:
            part = s.part(piece[rows])
            state = part.drive_state(self.loads(part.motion))
            return rows_of(self.robot, part.motion, state)[:, measured][:, :, kept]

        for s, rigid in self.rigid(standard[:own]):
            state = s.drive_state(self.loads(s.motion))
            rest = drive_columns.effort(self.robot.drives, drives, state)
            left = (s.effort - rigid - rest)[measured].T
            cuts = np.flatnonzero(np.diff(s.index) > 1) + 1
            for rows in np.split(np.arange(len(left)), cuts):
                made = partial(regressor, s, rows)
                yield Residuals(left[rows], made, s.recording, s.index[rows])

    def residual_energy(self, values: Array) -> Array:
        """Return the energy of τ − Y β in the motion's band, shape (measured channels,).

        Args:
            values: β, shape (b,).
        """
        total = np.zeros(len(self.robot.measured))
        step = self.every * min(t.step for t in self.timelines)
        for piece in self.residuals(values):
            if self._spelt_out:  # rows that hold nothing above the band
                total += np.sum(piece.values**2, axis=0)
            elif len(piece.values) > SHORTEST_FILTERED:
                smooth = signals.low_pass(piece.values, step, self.band_corner)
                total += np.sum(smooth**2, axis=0)
        return total

    @property
    def spacing(self) -> int:
        """How many rows may stand for one: motion hardly changes within an eighth of a period."""
        if self._spelt_out:
            return 1
        return max(1, int(min(1.0 / (8.0 * self.corner * t.step) for t in self.timelines)))

    @property
    def repeats(self) -> float | None:
        """After how many rows the motion repeats, if it does and rows are evenly spaced."""
        line = self.timelines[0]
        if self._spelt_out or len(self.recordings) > 1 or line.segments > 1 or line.gaps:
            return None
        if self.smoothing.period is not None:
            return self.smoothing.period / line.step
        try:
            period = signals.period_of(self.recordings[0], self.position_signals, line.step)
        except InvalidSetting:
            return None
        return period / line.step

    def rigid(self, bodies: Array) -> Iterator[tuple[Samples, Array]]:
        """Yield samples with the rigid body's torque, shape (channels, N).

        Args:
            bodies: Ten parameters a body, shape (10 bodies,).
        """

        def work(s: Samples) -> tuple[Samples, Array]:
            return s, kernels.inverse_dynamics(self.robot.tree, s.motion, bodies)

        yield from self._in_order(work, self.samples())

    def like(self, **changes: Any) -> Problem:
        """Return a problem with the same recordings, whose clocks need not be surveyed again."""
        other = replace(self, **({"smoothing": self.resolved} | changes))
        other.__dict__["timelines"] = self.timelines  # what `cached_property` would find out
        other.__dict__["resolved"] = other.smoothing
        return other

    def delayed(self, delay: float) -> Problem:
        """Return the same problem with torque that much behind motion [s]."""
        return self.like(smoothing=replace(self.resolved, delay=delay))

    def sharpened(self, factor: float) -> Problem | None:
        """Return the same problem with a higher corner, None if the sampling leaves no room.

        Residuals are still compared in the band of the corner chosen before.
        """
        corner = factor * self.corner
        if corner > signals.LARGEST_CORNER / max(t.step for t in self.timelines):
            return None
        return self.like(smoothing=replace(self.resolved, corner=corner), band=self.band_corner)

    @property
    def band_corner(self) -> float:
        """Upper end of the motion's band [Hz]."""
        return self.band or self.corner

    def shortened(self, rows: int) -> Problem:
        """Return the same problem from the logs' beginnings, for a quick look.

        Motion and friction hardly change within a thirtieth of a period of the corner.

        Args:
            rows: At most about how many samples.
        """
        share = rows // len(self.recordings)
        step = max(t.step for t in self.timelines)
        every = 2 * int(0.5 / (32.0 * self.corner * step)) + 1
        return self.of([r.window(0, share) for r in self.recordings], held=True, every=every)

    def of(self, recordings: Sequence[Recording], **changes: object) -> Problem:
        """Return the same problem with other recordings, at the corner chosen here."""
        return replace(self, recordings=tuple(recordings), smoothing=self.resolved, **changes)  # type: ignore[arg-type]
