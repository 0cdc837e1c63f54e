"""Subset of the logs on which hypotheses are compared, as regressor rows under any correction.

The unknowns of a hypothesis are bodies near the model file's, friction, and own columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft import signals
from heft.arrays import Array
from heft.dynamics import (
    LINEAR_SCALE,
    REVOLUTE,
    Armature,
    Drive,
    Drives,
    DriveState,
    Offset,
    Sigmoid,
    Stop,
    Term,
    Viscous,
    drive_columns,
    kernels,
)
from heft.estimators import IDENTITY, cone_metric
from heft.information import PARAMETER_COUNT, ChannelRows, DataRank, Information, data_rank, inertia
from heft.models import Robot
from heft.plants import RobotPlant, structural_base
from heft.recordings import Recording

from .corrections import IN_TIME, Correction, Timing
from .reweighted_fit import Channels, Order
from .settings import DEFAULTS, DEGREE, TURN, EvidenceSettings
from .stretches import Stretch, stretches_of

# share of the heaviest body's mass, and radius of gyration [m], of one without mass
LIGHT, LIGHT_GYRATION = 1e-3, 0.05


@dataclass(frozen=True)
class Unknowns:
    """Unknowns u of a hypothesis: normalised pseudo-inertia of each body, then friction.

    Behind these stand the parameters of the user's own columns, of which nothing is believed.
    """

    robot: Robot  # robot model
    settings: EvidenceSettings  # friction model, and the relative deviation of the model file

    @cached_property
    def metric(self) -> Array:
        """Matrix of each body from unknowns to its inertial parameters, shape (bodies, 10, 10)."""
        tens = self.robot.nominal()[: self.bodies].reshape(-1, PARAMETER_COUNT)
        # between two joints of one body is another without mass
        light = LIGHT * float(tens[:, 0].max(initial=0.0)) or LIGHT
        solid = (t if t[0] > 0.0 else inertia.sphere(light, LIGHT_GYRATION) for t in tens)
        return np.stack([cone_metric(inertia.nearest_consistent(ten)) for ten in solid])

    @cached_property
    def bodies(self) -> int:
        """Number of unknowns of the bodies."""
        return PARAMETER_COUNT * len(self.robot.tree.names)

    @cached_property
    def start(self) -> Array:
        """Unknowns at the model file's values, shape (p,)."""
        own = np.tile(IDENTITY, len(self.robot.tree.names))
        others = self.terms * len(self.robot.drives) + len(self.robot.own_names)
        return np.concatenate([own, np.zeros(others)])

    @cached_property
    def own(self) -> slice:
        """Slice of the user's own columns."""
        first = self.bodies + self.terms * len(self.robot.drives)
        return slice(first, first + len(self.robot.own_names))

    def own_columns(self, q: Array, v: Array, a: Array) -> Array:
        """Return the user's own columns of a corrected motion, shape (joints, columns, n)."""
        own = self.robot.own_columns
        if own is None:
            return np.zeros((len(self.robot.joints), 0, len(q)))
        return own.rows(q.T, v.T, a.T)

    @cached_property
    def rubbing(self) -> Drives:
        """Drives with few friction terms, enough to identify the sign of a joint.

        Load-dependent friction is left out: it needs the rigid-body torque, which is unknown here.
        """
        return Drives(tuple(self._rubbing(d) for d in self.robot.drives))

    def _rubbing(self, drive: Drive) -> Drive:
        unit = LINEAR_SCALE if drive.linear else 1.0
        terms = (
            Armature(),
            Viscous(),
            *(Sigmoid(unit * s) for s in sorted(self.settings.sigmoid_speeds_rad_s)),
            *(Stop(unit * b) for b in sorted(self.settings.stop_widths_rad)),
            Offset(),
        )
        return replace(drive, terms=terms)

    @cached_property
    def terms(self) -> int:
        """Number of friction terms of each drive."""
        return 3 + len(self.settings.sigmoid_speeds_rad_s) + len(self.settings.stop_widths_rad)

    def nonnegative(self, driven: Sequence[int] = ()) -> NDArray[np.bool_]:
        """Return which unknowns are constrained to be nonnegative, shape (p,).

        Friction dissipates; only where a drive compensates it, what slides may push.
        """
        signed = self._nonnegative.copy()
        terms = signed[self.bodies : self.own.start].reshape(-1, self.terms)
        for d in driven:
            terms[d] &= [not isinstance(t, Sigmoid) for t in self.rubbing[d].terms]
        return signed

    @cached_property
    def _nonnegative(self) -> NDArray[np.bool_]:
        own = [t.nonnegative for drive in self.rubbing for t in drive.terms]
        columns = self.robot.own_columns
        own += columns.nonnegative if columns is not None else ()
        return np.concatenate([np.zeros(self.bodies, dtype=bool), np.array(own, dtype=bool)])

    def sliding(self, values: Array, drive: int, speed: float) -> float:
        """Return a drive's friction at a steady speed [rad/s or m/s], of unknowns, (p,)."""
        own = zip(self.by_drive(values)[drive], self.rubbing[drive].terms, strict=True)
        return float(sum(c * _steady(t, speed) for c, t in own))

    def parameters(self, values: Array) -> Array:
        """Return the inertial parameters of all bodies from unknowns, shape (10 bodies,)."""
        tens = values[: self.bodies].reshape(-1, PARAMETER_COUNT)
        return np.concatenate([g @ u for g, u in zip(self.metric, tens, strict=True)])

    @cached_property
    def ratios(self) -> Array:
        """Ratio of each drive to each joint, shape (drives, joints)."""
        ratios = [d.ratio for d in self.robot.drives]
        return np.array(ratios).reshape(len(ratios), len(self.robot.joints))

    @cached_property
    def moved(self) -> tuple[NDArray[np.intp], ...]:
        """Indices of the joints that each drive moves."""
        return tuple(np.flatnonzero(ratio) for ratio in self.ratios)

    def by_drive(self, of_all: NDArray[Any]) -> NDArray[Any]:
        """Return a view of all unknowns, shape (p,): the drives' terms, shape (drives, terms)."""
        return of_all[self.bodies : self.own.start].reshape(-1, self.terms)

    @cached_property
    def columns(self) -> tuple[tuple[NDArray[np.intp], ...], ...]:
        """Bodies and drives that each joint's torque depends on, and indices of their unknowns."""
        every, places = np.arange(self.own.start), []
        for carried, ratio in zip(self.robot.tree.ancestry, self.ratios.T, strict=True):
            seen, turned = np.flatnonzero(carried), np.flatnonzero(ratio)
            of_bodies = every[: self.bodies].reshape(-1, PARAMETER_COUNT)[seen]
            at = np.concatenate([of_bodies.ravel(), self.by_drive(every)[turned].ravel()])
            places.append((seen, turned, at))
        return tuple(places)

    def moved_by(self, one: Correction, other: Correction) -> NDArray[np.bool_]:
        """Return the unknowns whose columns differ between two corrections' motions, (p,)."""
        first, second = (np.array([c.q_source, c.q_scale, c.q_offset]) for c in (one, other))
        joints = np.any(first != second, axis=0) | (one.gravity != other.gravity)
        changed = np.ones(len(self.start), dtype=bool)
        bodies = self.robot.tree.ancestry[joints].any(axis=0)
        changed[: self.bodies] = np.repeat(bodies, PARAMETER_COUNT)
        self.by_drive(changed)[:] = self.ratios[:, joints].any(axis=1, keepdims=True)
        return changed

    @cached_property
    def alone(self) -> tuple[Drives, ...]:
        """Each drive of `rubbing` by itself, on the joints that it moves alone."""
        ratios = (d.ratio[d.ratio != 0.0] for d in self.rubbing)
        return tuple(
            Drives((replace(d, ratio=r),)) for d, r in zip(self.rubbing, ratios, strict=True)
        )

    def drive_columns(
        self, drive: int, scale: Array, stretches: Sequence[Stretch], moved: Sequence[int]
    ) -> Array:
        """Return a drive's friction columns, (terms, n), by joints moved and their k factors."""
        # The course of friction over speed is not known well enough to tell a scale.
        units = np.array([1.0, DEGREE])  # a motor's turns are nearer to the second
        ratios = np.abs(np.log(np.abs(scale)) - np.log(units[:, None]))
        factor = (scale / (np.abs(scale) / units[np.argmin(ratios, axis=0)]))[:, None]
        stops, rates = [], []
        for s in stretches:
            path = s.position.T[list(moved)] * factor
            all_stops = drive_columns.presliding(self.alone[drive], s.time, path).values
            stops.append(all_stops[:, s.chosen])
            rates.append(
                [x[s.chosen[:, None], moved].T * factor for x in (s.velocity, s.acceleration)]
            )
        slipped, (velocity, acceleration) = np.hstack(stops), np.concatenate(rates, axis=2)
        no_load = np.zeros_like(velocity)
        # Of these terms none is a function of the position alone.
        state = DriveState(no_load, velocity, acceleration, slipped, no_load)
        alone = self.alone[drive]
        return drive_columns.columns(alone, alone.columns, state).values


def _steady(term: Term, speed: float) -> float:
    """Return a term's column at a steady speed; 0 of terms that are no friction."""
    if isinstance(term, Viscous):
        return speed
    if isinstance(term, Sigmoid):
        return float(np.tanh(speed / term.scale))
    return float(isinstance(term, Stop))


@dataclass(frozen=True, eq=False)
class Rows:
    """Regressor of a corrected motion, n instants, and its sums of squares."""

    # for each channel, indices of the k unknowns that its torque depends on
    columns: tuple[NDArray[np.intp], ...]
    order: Order  # in which unknowns are fitted
    ridge: Array  # precision of the prior on the p unknowns, shape (p,)
    moved: NDArray[np.bool_]  # of which unknowns columns are anew, shape (p,)
    anew: Mapping[int, Array]  # these columns of each channel that has some, shape (k, n)
    like: Rows | None = None  # complete ones of another motion, which has the other columns

    @cached_property
    def at(self) -> Mapping[int, NDArray[np.intp]]:
        """Which of its columns are anew, by channel that has some."""
        return {k: np.flatnonzero(self.moved[self.columns[k]]) for k in self.anew}

    @cached_property
    def regressors(self) -> tuple[Array, ...]:
        """For each channel, Yᵀ, shape (k, n)."""
        if self.like is None:
            return tuple(self.anew.values())
        made = list(self.like.regressors)
        for k, y in self.anew.items():
            made[k] = made[k].copy()
            made[k][self.at[k]] = y
        return tuple(made)

    @cached_property
    def complete(self) -> Rows:
        """The same rows, of which no other motion's have a part."""
        if self.like is None:
            return self
        return replace(
            self, moved=self.moved | True, anew=dict(enumerate(self.regressors)), like=None
        )

    @cached_property
    def sums(self) -> Array:
        """Of each channel `YᵀY`, one behind the other."""
        sums, first = np.empty(sum(len(own) ** 2 for own in self.columns)), 0
        for y in self.regressors:
            np.matmul(y, y.T, out=sums[first : first + len(y) ** 2].reshape(len(y), len(y)))
            first += len(y) ** 2
        return sums

    @cached_property
    def sums_anew(self) -> Array:
        """Rows of those squares that are of columns anew, one channel's behind the other."""
        made = [np.empty(0)]
        if self.like is not None:
            for k, y in self.anew.items():
                across = y @ self.like.regressors[k].T
                across[:, self.at[k]] = y @ y.T
                made.append(across.ravel())
        return np.concatenate(made)

    @cached_property
    def _across(self) -> dict[object, dict[tuple[int, int], Array]]:
        return {}

    def right(self, source: Sequence[int], effort: Array, timing: object) -> Array:
        """Return Yᵀτ of each channel and the logged torque that is its own, padded, (m, K).

        Args:
            source: Position of that torque.
            effort: Torques as logged, shape (n, joints).
            timing: Under which these are kept.
        """
        if self.like is not None:
            every = self.like.right(source, effort, timing)
            for k, y in self.anew.items():
                every[k, self.at[k]] = y @ effort[:, source[k]]
            return every
        every, across = np.zeros(self.order.columns.shape), self._across.setdefault(timing, {})
        for k, s in enumerate(source):
            if (k, s) not in across:
                across[k, s] = self.anew[k] @ effort[:, s]
            every[k, : len(self.columns[k])] = across[k, s]
        return every

    def channels(
        self, right: Array, energy: Array, scale: Array, memory: Array, floor: Array
    ) -> Channels:
        """Return least squares of all channels; see `Channels`."""
        moved = self.moved[self.order.unknowns] & (self.like is not None)
        like = self.like or self
        rows = float(like.regressors[0].shape[1])
        return Channels(like.sums, self.sums_anew, moved, right, energy, scale, memory, floor, rows)


Near = tuple[Correction, Rows]  # a correction and its rows, of which others share much


@dataclass(frozen=True)
class Evidence:
    """Subset of the logs on which hypotheses are compared, with the robot model."""

    unknowns: Unknowns  # what every hypothesis fits
    stretches: tuple[Stretch, ...]  # segments of the logs
    corner: float  # cutoff frequency of the low-pass on motion and torque [Hz]

    @staticmethod
    def of(
        robot: Robot,
        recordings: Sequence[Recording],
        settings: EvidenceSettings = DEFAULTS.evidence,
    ) -> Evidence:
        """Select the data of logs, in bounded memory.

        Raises:
            HeftError: If the logs lack signals, or nothing moves in them.
        """
        stretches, corner = stretches_of(_without_drives(robot), recordings, settings)
        return Evidence(Unknowns(robot, settings), stretches, corner)

    def blurred(self, corner: float, torque: bool = True) -> Evidence:
        """Return the evidence with motion, and torque, low-passed at a cutoff frequency [Hz]."""
        stretches = tuple(s.blurred(corner, torque) for s in self.stretches)
        return replace(self, stretches=stretches, corner=corner)

    def halves(self) -> tuple[Evidence, Evidence]:
        """Return the first and the second half of the instants."""
        ends = np.cumsum([len(s.chosen) for s in self.stretches])
        middle, made = self.count // 2, []
        for is_first in (True, False):
            parts = []
            for s, end in zip(self.stretches, ends, strict=True):
                cut = int(np.clip(middle - (end - len(s.chosen)), 0, len(s.chosen)))
                chosen = s.chosen[:cut] if is_first else s.chosen[cut:]
                if len(chosen):
                    parts.append(replace(s, chosen=chosen))
            made.append(replace(self, stretches=tuple(parts)))
        return made[0], made[1]

    @property
    def count(self) -> int:
        """Number n of instants compared."""
        return sum(len(s.chosen) for s in self.stretches)

    @cached_property
    def channels(self) -> tuple[int, ...]:
        """Indices of the joints whose torque is measured and varies."""
        least = self.settings.dead_share * float(self.effort_size.max(initial=0.0))
        return tuple(int(k) for k in self.robot.measured if self.effort_size[k] > least)

    @cached_property
    def effort_size(self) -> Array:
        """Standard deviation of each joint's torque as logged, shape (joints,) [N·m or N]."""
        return np.asarray(self.effort().std(axis=0))

    @cached_property
    def effort_rms(self) -> Array:
        """Root mean square of each joint's torque as logged, shape (joints,) [N·m or N]."""
        return np.asarray(np.sqrt(np.mean(self.effort() ** 2, axis=0)))

    @property
    def robot(self) -> Robot:
        """Robot model."""
        return self.unknowns.robot

    @property
    def settings(self) -> EvidenceSettings:
        """Amount of data, and the model by which hypotheses are compared."""
        return self.unknowns.settings

    def motion(self, correction: Correction) -> tuple[Array, Array, Array]:
        """Return corrected position, velocity, acceleration, (n, joints) [rad or m, per s, s²]."""
        source, scale = list(correction.q_source), np.array(correction.q_scale)
        q, v, a = (
            np.concatenate([getattr(s, k)[s.chosen] for s in self.stretches])[:, source] * scale
            for k in ("position", "velocity", "acceleration")
        )
        return q + np.array(correction.q_offset), v, a

    def effort(self, timing: Timing = IN_TIME) -> Array:
        """Return torque as logged, aligned in time with the motion, (n, joints) [N·m or N]."""
        if timing == IN_TIME:
            return np.concatenate([s.effort[s.chosen] for s in self.stretches])
        middle = 0.5 * (self.stretches[0].time[0] + self.stretches[-1].time[-1])
        parts = []
        for s in self.stretches:
            effort = unfiltered(s.time, s.effort, timing.order, timing.corner)
            at = s.time[s.chosen]
            at = at + timing.delay + timing.drift * (at - middle)
            parts.append(signals.linear(s.time, effort, at))
        return np.concatenate(parts)

    def motion_of(self, drive: int, correction: Correction) -> tuple[tuple[int, ...], Array]:
        """Return the log's joints that a drive moves, and the factors of their motion, (k,)."""
        at = self.unknowns.moved[drive]
        source = tuple(correction.q_source[k] for k in at)
        return source, np.array(correction.q_scale)[at]

    def rows(
        self, correction: Correction, drive: Callable[[int], Array], near: Near | None = None
    ) -> Rows:
        """Return a motion's regressor; `drive` returns one's friction columns, shape (terms, n).

        What its correction shares with another, `near`, is taken from that one's.
        """
        unknowns, (q, v, a) = self.unknowns, self.motion(correction)
        own, size = unknowns.own_columns(q, v, a), len(unknowns.start)
        if near is not None and not own.size:
            moved = unknowns.moved_by(correction, near[0])
            columns, order = near[1].columns, near[1].order
            like = None if moved.all() else near[1]
        else:
            moved, like = np.ones(size, dtype=bool), None
            acts = (unknowns.own.start + np.flatnonzero(own[c].any(axis=1)) for c in self.channels)
            at_each = (unknowns.columns[c][2] for c in self.channels)
            columns = tuple(map(np.append, at_each, acts))
            order = Order.of(columns, size, unknowns.bodies)
        parts = self._of_bodies(correction, np.flatnonzero(moved[: unknowns.bodies]))
        drives = {int(d): drive(int(d)) for d in np.flatnonzero(unknowns.by_drive(moved)[:, 0])}
        anew = {}
        for k in np.flatnonzero(moved[order.unknowns][order.columns].any(axis=1)).tolist():
            c = self.channels[k]
            anew[k] = self._channel(c, parts[c], drives, own[c], moved)
        ridge = self._ridge(correction, drives, own, None if like is None else like.ridge)
        return Rows(columns, order, ridge, moved, anew, like)

    def _channel(
        self,
        channel: int,
        solid: Array,
        drives: dict[int, Array],
        own: Array,
        moved: NDArray[np.bool_],
    ) -> Array:
        """Return Yᵀ of those unknowns that moved, (p,), of which a channel's torque depends.

        Args:
            solid: Columns of the bodies among these, shape (10 of them, n).
        """
        seen, turned, _ = self.unknowns.columns[channel]
        ratios = self.unknowns.ratios[:, channel]
        friction = [ratios[d] * drives[d] for d in turned.tolist() if d in drives]
        seen = seen[moved[PARAMETER_COUNT * seen]]
        bodies = solid.reshape(len(seen), PARAMETER_COUNT, solid.shape[1])
        scaled = self.unknowns.metric[seen].transpose(0, 2, 1) @ bodies
        return np.concatenate((scaled.reshape(solid.shape), *friction, own[own.any(axis=1)]))

    def _ridge(
        self, correction: Correction, drives: dict[int, Array], own: Array, near: Array | None
    ) -> Array:
        """Return the prior's precision of each unknown, shape (p,); `near` is other drives'."""
        ridge = np.full(len(self.unknowns.start), 1.0 / self.settings.body_deviation**2)
        if correction.carrying is not None:
            first = PARAMETER_COUNT * correction.carrying
            ridge[first : first + PARAMETER_COUNT] /= self.settings.unknown_body**2
        if near is not None:
            ridge[self.unknowns.bodies :] = near[self.unknowns.bodies :]
        for d, columns in drives.items():
            ratios = np.abs(self.unknowns.ratios[d])
            strong = max(float(np.max(ratios * self.effort_rms, initial=0.0)), 1e-9)
            size = ratios.max(initial=0.0) * np.sqrt(np.mean(columns**2, axis=1))
            # A term that never acts keeps its prior; one that does is worth the torque at most.
            self.unknowns.by_drive(ridge)[d] = (size / strong + 1e-9) ** 2
        shares = np.sqrt(np.mean(own**2, axis=2)) / np.maximum(self.effort_rms, 1e-9)[:, None]
        ridge[self.unknowns.own] = (shares.max(axis=0, initial=0.0) + 1e-9) ** 2
        return ridge

    def _of_bodies(self, correction: Correction, chosen: NDArray[np.intp]) -> list[Array]:
        """Return for each joint those of some of the bodies' columns that its torque depends on.

        Args:
            chosen: Their positions among all, ascending.

        Returns:
            Of each joint shape (k, n); nothing where its torque is not compared.
        """
        tree, (q, v, a) = self.robot.tree, self.motion(correction)
        wanted = np.zeros((tree.channels, PARAMETER_COUNT * len(tree.names)), dtype=bool)
        wanted[np.array(self.channels)[:, None], chosen] = True
        wanted &= kernels.full_slots(tree) >= 0
        lines = np.where(wanted, np.cumsum(wanted).reshape(wanted.shape) - 1, -1)
        out = np.empty((int(wanted.sum()), len(q)))
        gravity = np.array(correction.gravity)
        kernels.rows_into(tree, kernels.motion_of(tree, gravity, q, v, a), lines, out)
        return np.split(out, np.cumsum(wanted.sum(axis=1))[:-1])

    def shown(self, correction: Correction) -> DataRank:
        """Return the rank of the base parameters that the corrected motion excites."""
        base = structural_base(RobotPlant(replace(_without_drives(self.robot), own_columns=None)))
        kept = np.array(base.kept)
        parts = self._of_bodies(correction, kept)
        acts = np.repeat(self.robot.tree.ancestry, PARAMETER_COUNT, axis=1)[:, kept]
        rows = [ChannelRows(np.flatnonzero(acts[c]), parts[c].T) for c in self.channels]
        names = [self.robot.joints[c] for c in self.channels]
        effort = np.zeros((self.count, len(rows)))
        shown = Information.from_channel_rows(base.labels, names, rows, effort).combined()
        return data_rank(shown.R, base.labels, shown.rows)

    def revolute_joints(self) -> tuple[list[int], list[int]]:
        """Return the indices of the joints that are not locked, and of those that are revolute."""
        robot, tree = self.robot, self.robot.tree
        moving = [k for k, j in enumerate(robot.joints) if robot.options.of(j).position is None]
        body = {k: int(np.flatnonzero(tree.channel == k)[0]) for k in moving}
        return moving, [k for k in moving if tree.kind[body[k]] == REVOLUTE]


def unfiltered(time: Array, effort: Array, order: int, corner: float) -> Array:
    """Return the input of a Butterworth low-pass from its output, shape (N, joints).

    Args:
        time: Shape (N,) [s].
        effort: Output of the low-pass, without what is above the motion's band, shape (N, joints).
        order: Order of the low-pass: 0 (none), 1 or 2.
        corner: Cutoff frequency [Hz].
    """
    if not order:
        return effort
    rate, omega = np.gradient(effort, time, axis=0), TURN * corner
    if order == 1:
        return np.asarray(effort + rate / omega)
    bend = np.gradient(rate, time, axis=0)
    return np.asarray(effort + np.sqrt(2.0) * rate / omega + bend / omega**2)


def _without_drives(robot: Robot) -> Robot:
    """Return a robot without friction and rotor inertia."""
    bare = tuple(replace(d, terms=()) for d in robot.drives)
    return replace(robot, drives=Drives(bare))
