"""An arm of servos told by positions and goals alone: its loop is closed in simulation, and fitted.

Each joint is a servo: a spring `A·V·gain` between goal and position, back-EMF and viscous friction
as one, Coulomb friction, a rotor. Each body is the model file's, its mass off by a factor and all
of it by a shift. All scaled alike move alike, so that one mass that is known is the scale; without
one only ratios are told. Numbers are found as logarithms: they stay positive, and a ratio is a
difference.

The arm follows an episode's goals from its first state on (`dynamics.held_steps`); sensitivities
are those of the very steps. Goals are held from frame to frame, and come late by an unknown time.

What a drive may lack of a spring's torque (`LACKS`) is a share of it by what was measured, so that
positions are linear in its numbers nearly: each kind is tested by a step of least squares, and
fitted where that is far from none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares, nnls

from heft.arrays import Array
from heft.dynamics import Armature, Coulomb, Drives, Sigmoid, Viscous, held_steps
from heft.errors import FitError, SolverFailure
from heft.information import inertia
from heft.models import Robot
from heft.simulation import SimulatedRobot

from .episodes import Episode

STEP = 0.005  # longest of the simulation [s]
STANDSTILL = 0.004  # speed s of Coulomb friction F tanh(w/s) [rad/s]
SETTLE = 0.4  # [s] of an episode's begin, in which it may come to what its first state was not
BLOCK = 2.0  # [s], whose errors count as one where intervals are found
LEAST_BLOCKS = 8
# Of a position, a step of an encoder of 4096 [rad]: within it servos rest where they like.
LEAST_ERROR = 0.0015
# By which the variance of blocks left out is too small, since friction of another law than the
# simulated one makes errors alike for longer than a block; chosen on simulated arms.
MISFIT = 2.0
# Numbers of a joint, and how far their logarithms may be from the guess (standard deviations).
OF_JOINT = {"stiffness": 1.0, "viscous": 1.0, "coulomb": 1.5, "armature": 1.0}
MASS = 0.7  # likewise, of a body's mass from the file's
ZERO = 0.05  # how far a joint's zero may be from the model file's [rad]
FALL = (0.2, 0.3)  # of Coulomb friction, by which it falls over `FALLEN`, and how far from that
FALLEN = 0.15  # [rad/s]
LATE = (0.01, 0.03)  # delay of goals, and how far it may be from that [s]
# Of the share of a spring's torque that drives lack, how far it may be from none: by what all pull,
# their mean error of position [1/rad]; by the time since an episode began [1/s]; and near the goal,
# at `NEAR` from it, by straight lines between, and none from the last on.
LACKS = {"sag": (5.0,), "warmth": (0.01,), "near goal": (1.0,) * 3}
NEAR = 0.003 * np.arange(1, 5)  # [rad]; nearer as at the first one, at the last one none
ASKED = 5.0  # standard deviations from none, from which on a kind of them is fitted
# Derivatives of a change of frame by each axis; it is a square of the shift, differenced exactly.
SHIFTS = np.stack(
    [
        (inertia.frame_change(np.eye(3), e) - inertia.frame_change(np.eye(3), -e)) / 2.0
        for e in np.eye(3)
    ]
)


def with_servos(robot: Robot) -> Robot:
    """Return a robot whose drives have the terms of servos, whatever they had."""
    terms = (Armature(), Viscous(), Coulomb(), Sigmoid(FALLEN))
    return replace(robot, drives=Drives(tuple(replace(d, terms=terms) for d in robot.drives)))


@dataclass(frozen=True, eq=False)
class Loop:
    """An arm of servos that follows goals; numbers are `names`, shape (k,)."""

    robot: Robot  # with the drives of `with_servos`
    damps: float = 0.0  # firmware's D over P [s]
    sums: float = 0.0  # firmware's I over P [1/s]
    reach: float = np.inf  # position error at which the duty is 100 % [rad]
    speed: float = np.inf  # at which the firmware's own goal follows, at most [rad/s]
    shift: float = 0.003  # standard deviation of centres of mass from the file's [m]

    @property
    def names(self) -> tuple[str, ...]:
        """Logarithms of the joints' numbers and bodies' masses, then what is none."""
        joints, bodies = self.robot.joints, self.robot.tree.names
        return (
            *(f"{j}.{kind}" for kind in OF_JOINT for j in joints),
            *(f"{b}.mass" for b in bodies),
            *(f"{b}.{axis}" for b in bodies for axis in "xyz"),
            *(f"{j}.zero" for j in joints),
            *(f"{j}.fall" for j in joints),
            "delay",
            *(f"{kind} {k}" for kind, wide in LACKS.items() for k in range(len(wide))),
        )

    @cached_property
    def _simulated(self) -> SimulatedRobot:
        return SimulatedRobot(self.robot, STANDSTILL)

    @cached_property
    def _file(self) -> Array:
        return self.robot.written_bodies().reshape(-1, 10)

    @cached_property
    def _places(self) -> Mapping[str, list[int]]:
        """Where each joint's number stands among the standard parameters, by kind."""
        own = 10 * len(self.robot.tree.names)
        kinds = {"viscous": Viscous, "coulomb": Coulomb, "armature": Armature, "fall": Sigmoid}
        columns = list(enumerate(self.robot.drive_columns, own))
        made = {
            kind: {d: k for k, (d, term) in columns if isinstance(term, wanted)}
            for kind, wanted in kinds.items()
        }
        return {kind: [at[d] for d in range(len(self.robot.joints))] for kind, at in made.items()}

    def parts(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """Split numbers, the last axis: joints', masses, shifts [m], zeros, falls, delay, lacks."""
        n, bodies = len(self.robot.joints), len(self.robot.tree.names)
        ends = np.cumsum([len(OF_JOINT) * n, bodies, 3 * bodies, n, n, 1])
        return np.split(values, ends, axis=-1)

    def standard(self, values: Array) -> Array:
        """Return the standard parameters of numbers."""
        made = np.zeros(len(self.robot.labels))
        joints, masses, shifts, _, falls, *_ = self.parts(values)
        own = dict(zip(OF_JOINT, np.exp(joints).reshape(len(OF_JOINT), -1), strict=True))
        for kind in self._places.keys() & own:
            made[self._places[kind]] = own[kind]
        moved = zip(np.exp(masses), shifts.reshape(-1, 3), self._file, strict=True)
        bodies = [m * inertia.frame_change(np.eye(3), d) @ body for m, d, body in moved]
        made[: self._file.size] = np.concatenate(bodies)
        made[self._places["fall"]] = -falls * own["coulomb"]
        return made

    def torque(self, position: Array, acceleration: Array) -> Array:
        """Return the torque of the file's bodies from standstill, shape (N, joints) [N·m]."""
        made, chosen = np.zeros(len(self.robot.labels)), tuple(range(self._file.size))
        still = np.zeros_like(position)
        Y = self._simulated.linearised(position, still, acceleration, made, chosen)[3]
        return np.asarray(Y @ self._file.ravel())

    def goals(self, episode: Episode, clock: Array, step: float, delay: float) -> Array:
        """Return the mean goal of each step, as late as it comes, shape (N, joints) [rad]."""
        t, held = episode.time, episode.goal
        if np.isfinite(self.reach):  # a duty of 100 % is that of a nearer goal
            held = np.clip(held, episode.position - self.reach, episode.position + self.reach)
        early = t[0] - 1.0  # [s], the first goal was there before
        knots = np.concatenate([[early], t, [t[-1] + 1.0]])
        heights = np.concatenate([held[:1], held])
        total = np.zeros((len(knots), held.shape[1]))
        total[1:] = np.cumsum(np.diff(knots)[:, None] * heights, axis=0)
        begins = np.append(clock, clock[-1] + step) - delay
        summed = np.stack([np.interp(begins, knots, x) for x in total.T], axis=1)
        return self.limited(np.diff(summed, axis=0) / step, np.full(len(clock), step))

    def limited(self, goal: Array, steps: Array) -> Array:
        """Return goals of steps [s], (N, joints) [rad], as a limit of speed lets them follow.

        They are means of the steps, in which one that moves on ends later than it is on the mean.
        """
        if not np.isfinite(self.speed):
            return goal
        made, now = np.empty_like(goal), goal[0]
        for k, most in enumerate(self.speed * steps):
            moved = np.clip(goal[k] - now, -most, most)
            made[k] = now + moved - moved * np.abs(moved) / (2.0 * most)
            now = now + moved
        return made

    def lacks(self, values: Array, error: Array, since: Array) -> tuple[Array, Array]:
        """Return the shares of its springs' torque that an arm lacks, and by which numbers.

        Args:
            error: Goal less position, shape (N, joints) [rad].
            since: Time since the episode began, shape (N,) [s].

        Returns:
            Shapes (N, joints) and (N, joints, numbers).
        """
        stiff = np.exp(values[: error.shape[1]])
        all_pull = np.abs(error) @ stiff / stiff.sum()
        shares = [np.broadcast_to(x[:, None], error.shape) for x in (all_pull, since)]
        shares += [np.interp(np.abs(error), NEAR, own) for own in np.eye(len(NEAR))[:-1]]
        columns = np.stack(shares, axis=2)
        return columns @ self.parts(values)[-1], columns

    def followed(self, values: Array, episode: Episode, slopes: bool = True) -> tuple[Array, Array]:
        """Return positions at an episode's times, and their derivatives by the numbers.

        Returns:
            Positions, shape (N, joints) [rad], and derivatives, shape (N, joints, k).

        Raises:
            SolverFailure: If the simulated arm does not stay finite.
        """
        n, t = len(self.robot.joints), episode.time
        frame = float(np.median(np.diff(t)))
        h = frame / np.ceil(frame / STEP - 1e-6)
        clock = t[0] + h * np.arange(int(np.ceil((t[-1] - t[0]) / h)) + 1)
        *_, zero, _, (delay,), lack = self.parts(values)
        stiff = np.exp(values[:n])
        goal = self.goals(episode, clock, h, delay)
        moment = 1e-3 * h  # by which the delay is differenced, hardly across a corner of the goal
        later = self.goals(episode, clock, h, delay + moment)
        wanted = np.zeros((len(clock), 3, n))
        wanted[:, 0] = goal + zero
        seen = np.stack([np.interp(clock + 0.5 * h, t, x) for x in episode.position.T], axis=1)
        spring, since = stiff * (goal - seen), clock - t[0]
        share, shares = self.lacks(values, goal - seen, since)
        lacking = spring * share
        wanted[:, 2] = stiff * self.damps * np.gradient(goal, h, axis=0) - lacking
        # The position is held over a step, too: half of one is taken back.
        gains = np.stack([stiff, stiff * (self.damps + 0.5 * h), stiff * self.sums])
        standard, model = self.standard(values), self._simulated
        start = np.stack([episode.start[0] + zero, episode.start[1]])
        log, done = model.driven(model.numbers(standard), gains, start, wanted, h, -1.0)
        if done < len(clock) or not np.isfinite(log).all():
            raise SolverFailure(
                "the simulated arm does not stay finite",
                argument=episode.name,
                got=f"at {clock[min(done, len(clock) - 1)]:.3f} s",
                cure="look at the model file's masses, and at the joints' signs and zeros",
            )
        q, v, a, tau = log
        places = np.stack([np.interp(t, clock, x) for x in (q - zero).T], axis=1)
        if not slopes:
            return places, np.empty((0, n, 0))
        bodies = len(self._file)
        chosen = tuple(range(len(standard)))
        M, K, D, Y = model.linearised(q + 0.5 * h * v, v + 0.5 * h * a, a, standard, chosen)
        dry = Y[:, :, self._places["fall"]] * standard[self._places["coulomb"]]
        # A shift changes a body by the derivative of a change of its frame.
        by_body = Y[:, :, : 10 * bodies].reshape(-1, n, bodies, 10)
        own = standard[: 10 * bodies].reshape(bodies, 10)
        by_mass = np.einsum("tjbp,bp->tjb", by_body, own)
        by_shift = np.einsum("tjbp,bpk->tjbk", by_body, np.einsum("kpq,bq->bpk", SHIFTS, own))
        Y = Y * standard  # by logarithms
        Y[:, :, self._places["coulomb"]] += Y[:, :, self._places["fall"]]
        ahead = (later - goal) / moment
        ahead = ahead + self.damps * np.gradient(ahead, h, axis=0)
        ahead = stiff * (ahead + self.sums * h * np.cumsum(later - goal, axis=0) / moment)
        lacking_later = stiff * (later - seen) * self.lacks(values, later - seen, since)[0]
        by_delay = ((lacking_later - lacking) / moment - ahead)[:, :, None]
        by_gain = -tau[:, :, None] * np.eye(n)
        pulls = np.abs(spring) - stiff * shares[:, :, 0]  # the mean's derivative, with all of them
        by_gain += lack[0] / stiff.sum() * spring[:, :, None] * pulls[:, None, :]
        parts = [by_gain, *(Y[:, :, self._places[kind]] for kind in list(OF_JOINT)[1:])]
        parts += [by_mass, by_shift.reshape(-1, n, 3 * bodies), K, -dry, by_delay]
        parts.append(spring[:, :, None] * shares)
        columns = np.concatenate(parts, axis=2)
        moved, efforts = np.empty_like(columns), np.empty_like(columns)
        held_steps.carry(M, K, D, columns, (gains, -1.0), h, (moved, efforts))
        after = (t - clock[0]) / h
        first = np.clip(after.astype(int), 0, len(clock) - 2)
        after = np.clip(after - first, 0.0, 1.0)[:, None, None]
        return places, (1.0 - after) * moved[first] + after * moved[first + 1]


@dataclass(frozen=True, eq=False)
class LoopFit:
    """Numbers of a loop, as episodes tell them."""

    loop: Loop
    values: Array  # shape (k,)
    covariance: Array  # shape (k, k)
    missed: Array  # root mean square errors of positions, shape (joints,) [rad]
    unexplained: Array  # of them, what frames that all joints see late or early do not explain


def fitted(loop: Loop, episodes: Sequence[Episode]) -> LoopFit:
    """Return the most likely numbers about guesses that are wide.

    The covariance is that of leaving blocks of `BLOCK` out, whatever makes neighbouring errors
    alike, with what the guesses leave open.

    Raises:
        FitError: If the episodes are too short, or the simulated arm does not stay finite.
    """
    scored = [e.time >= e.time[0] + SETTLE for e in episodes]
    blocks = [np.floor((e.time - e.time[0]) / BLOCK) for e in episodes]
    count = sum(len(np.unique(b[s])) for b, s in zip(blocks, scored, strict=True))
    if count < LEAST_BLOCKS:
        raise FitError(
            "the episodes are too short",
            got=f"{count} pieces of {BLOCK:g} s",
            expected=f"{LEAST_BLOCKS}",
            cure="give more episodes",
        )
    guess, wide = _guessed(loop, episodes)
    speeds = [
        np.gradient(e.position, e.time, axis=0)[at] for e, at in zip(episodes, scored, strict=True)
    ]
    blocks = [b[at] for b, at in zip(blocks, scored, strict=True)]
    values, one = guess, 100.0 * np.eye(len(loop.robot.joints))  # [1/rad]
    weights = [np.broadcast_to(one, (len(v), *one.shape)) for v in speeds]
    kinds = np.array([name.rpartition(" ")[0] for name in loop.names])
    free, passes = ~np.isin(kinds, list(LACKS)), 0
    while passes < 3:  # with the errors' size of the fit before
        belief = guess, np.where(free, wide, 0.0)
        values = _descended(loop, episodes, scored, values, belief, weights)
        slopes, errors = _compared(loop, episodes, scored, values)
        weights, unexplained = _weights(np.concatenate(errors), speeds)
        scaled = [w @ s for w, s in zip(weights, slopes, strict=True)]
        relative = [np.einsum("njk,nk->nj", w, e) for w, e in zip(weights, errors, strict=True)]
        passes += 1
        sure = {}
        for kind in LACKS.keys() - set(kinds[free]):
            also = free | (kinds == kind)
            moved, spread = _step(values - guess, wide, also, scaled, relative, blocks)
            new = kinds[also] == kind
            square = moved[new] @ np.linalg.solve(spread[np.ix_(new, new)], moved[new])
            sure[kind] = float(np.sqrt(square / np.count_nonzero(new)))
        kind = max(sure, key=sure.__getitem__, default="")
        if kind and sure[kind] > ASKED:
            free, passes = free | (kinds == kind), min(passes, 2)
    covariance = np.zeros((len(values), len(values)))
    spread = _step(values - guess, wide, free, scaled, relative, blocks)[1]
    # What an encoder's step does not explain, no block of the same law contradicts.
    wider = max(1.0, float(np.mean(unexplained**2)) / LEAST_ERROR**2)
    covariance[np.ix_(free, free)] = wider * spread
    missed = np.sqrt(np.mean(np.concatenate(errors) ** 2, axis=0))
    return LoopFit(loop, values, covariance, missed, unexplained)


def _step(
    off: Array,
    wide: Array,
    free: NDArray[np.bool_],
    scaled: Sequence[Array],
    relative: Sequence[Array],
    blocks: Sequence[Array],
) -> tuple[Array, Array]:
    """Return a step of least squares of some numbers, and their covariance about its end.

    Args:
        off: How far the numbers are from the guess, shape (k,), and `wide` how far they may be.
        scaled: Derivatives of each episode, over the errors' size, (N, joints, k) each.
        relative: Errors over their size, (N, joints) each.
        blocks: Block of each row, (N,) each.
    """
    prior = np.diag(wide[free] ** -2.0)
    own = [s[:, :, free] for s in scaled]
    hessian = prior + sum(np.einsum("njp,njq->pq", s, s) for s in own)
    score = sum(np.einsum("njp,nj->p", s, e) for s, e in zip(own, relative, strict=True))
    moved = np.linalg.solve(hessian, score - prior @ off[free])
    covariance = np.linalg.solve(hessian, np.linalg.solve(hessian, prior).T)
    for s, e, block in zip(own, relative, blocks, strict=True):
        for b in np.unique(block):
            part, missing = s[block == b], (e - s @ moved)[block == b]
            without = hessian - np.einsum("njp,njq->pq", part, part)
            change = np.linalg.solve(without, np.einsum("njp,nj->p", part, missing))
            covariance += MISFIT * np.outer(change, change)
    return moved, covariance


def _weights(errors: Array, speeds: Sequence[Array]) -> tuple[list[Array], Array]:
    """Return inverse roots of the errors' covariance at each time [1/rad], and what they leave.

    Frames jitter, all joints' alike, which is an error of each along with its speed. What of the
    errors is left without has a size that grows with the speed.

    Args:
        errors: Of all episodes, shape (N, joints) [rad].
        speeds: Of each, shape (n, joints) [rad/s].

    Returns:
        Shapes (n, joints, joints), and root mean squares of what is left, (joints,) [rad].
    """
    v = np.concatenate(speeds)
    # Products of different joints' errors have nothing else in common.
    pairs = np.sum((v * v).sum(axis=1) ** 2 - (v**4).sum(axis=1))
    alike = np.sum((v * errors).sum(axis=1) ** 2 - ((v * errors) ** 2).sum(axis=1))
    jitter = max(float(alike / max(pairs, 1e-12)), 0.0)  # [s²]
    size = np.full_like(v, LEAST_ERROR**2)
    for _ in range(5):
        unsure = jitter / (1.0 + jitter * np.sum(v * v / size, axis=1, keepdims=True))
        rest = errors - v * unsure * np.sum(v * errors / size, axis=1, keepdims=True)
        own = zip((rest**2 + v * v * unsure).T, (v * v).T, strict=True)
        parts = [nnls(np.stack([np.ones(len(x)), x], axis=1), e)[0] for e, x in own]
        still, moving = np.array(parts).T
        size = np.maximum(still, LEAST_ERROR**2) + moving * v * v
    both = size[:, :, None] * np.eye(v.shape[1]) + jitter * v[:, :, None] * v[:, None, :]
    weights = np.linalg.inv(np.linalg.cholesky(both))
    ends = np.cumsum([len(x) for x in speeds])[:-1]
    return np.split(weights, ends), np.sqrt(np.mean(rest**2, axis=0))


def _compared(
    loop: Loop, episodes: Sequence[Episode], scored: Sequence[Any], values: Array
) -> tuple[list[Array], list[Array]]:
    """Return derivatives and errors of positions of each episode, where they are scored."""
    made = [loop.followed(values, e) for e in episodes]
    slopes = [s[own] for (_, s), own in zip(made, scored, strict=True)]
    errors = [(e.position - q)[own] for (q, _), e, own in zip(made, episodes, scored, strict=True)]
    return slopes, errors


def _guessed(loop: Loop, episodes: Sequence[Episode]) -> tuple[Array, Array]:
    """Return the numbers to begin with, and how far they may be from them.

    A goal is ahead of a position by what gravity pulls of a spring, and by what speed drags.
    """
    n, bodies = len(loop.robot.joints), len(loop.robot.tree.names)
    pulls, speeds, errors = [], [], []
    for e in episodes:
        still = np.zeros_like(e.position)
        pulls.append(loop.torque(e.position, still))
        speeds.append(np.gradient(e.position, e.time, axis=0))
        errors.append(loop.limited(e.goal, np.gradient(e.time)) - e.position)
    pull, speed, error = (np.concatenate(x).ravel() for x in (pulls, speeds, errors))
    bends, lags = np.linalg.lstsq(np.stack([pull, speed], axis=1), error, rcond=None)[0]
    bends = max(bends, 0.01 / max(float(np.abs(pull).max()), 1e-6))  # [rad] by all of gravity
    stiff = np.log(1.0 / bends)
    slow = stiff + np.log(max(lags, 0.005))  # [s]
    dry, rotor = stiff + np.log(0.003), stiff - np.log(25.0**2)  # [rad], [(rad/s)²]
    guess = np.repeat([stiff, slow, dry, rotor], n)
    lacks = np.concatenate(list(LACKS.values()))
    guess = np.concatenate([guess, np.zeros(4 * bodies + n), np.full(n, FALL[0]), [LATE[0]]])
    counts = [n] * len(OF_JOINT) + [bodies, 3 * bodies, n, n, 1]
    wide = np.repeat([*OF_JOINT.values(), MASS, loop.shift, ZERO, FALL[1], LATE[1]], counts)
    return np.append(guess, 0.0 * lacks), np.append(wide, lacks)


def _descended(
    loop: Loop,
    episodes: Sequence[Episode],
    scored: Sequence[Any],
    values: Array,
    belief: tuple[Array, Array],
    weights: Sequence[Array],
) -> Array:
    """Return the most likely numbers, by least squares from given ones on."""
    guess, wide = belief
    free = wide > 0.0

    def full(x: Array) -> Array:
        made = guess.copy()
        made[free] = x
        return made

    @lru_cache(maxsize=1)  # least squares asks for errors and derivatives one after another
    def compared(x: bytes) -> tuple[list[Array], list[Array]]:
        return _compared(loop, episodes, scored, full(np.frombuffer(x)))

    def errors(x: Array) -> Array:
        try:
            missed = compared(x.tobytes())[1]
        except SolverFailure:
            if np.array_equal(x, values[free]):
                raise
            return np.full(count, np.inf)  # so that a shorter step is tried
        scaled = [
            -np.einsum("njk,nk->nj", w, e).ravel() for w, e in zip(weights, missed, strict=True)
        ]
        return np.concatenate([*scaled, (x - guess[free]) / wide[free]])

    def slopes(x: Array) -> Array:
        moved = compared(x.tobytes())[0]
        scaled = [w @ s[:, :, free] for w, s in zip(weights, moved, strict=True)]
        return np.concatenate([*(s.reshape(-1, len(x)) for s in scaled), np.diag(1.0 / wide[free])])

    count = np.count_nonzero(free) + sum(w.shape[0] * w.shape[1] for w in weights)
    solved = least_squares(errors, values[free], slopes, x_scale=wide[free], ftol=1e-4)
    return full(solved.x)
