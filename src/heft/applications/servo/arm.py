"""An arm of servos told by positions and goals alone: its loop is closed in simulation, and fitted.

Each joint is a servo: a spring `A·V·gain` between goal and position, back-EMF and viscous friction
as one, Coulomb friction, a rotor. Each body is the model file's, its mass off by a factor and all
of it by a shift. All scaled alike move alike, so that one mass that is known is the scale; without
one only ratios are told. Numbers are found as logarithms: they stay positive, and a ratio is a
difference.

The arm follows an episode's goals from its first state on (`dynamics.held_steps`); sensitivities
are those of the very steps. Goals are held from frame to frame, and come late by an unknown time.
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
        """Split numbers, the last axis: joints', masses, shifts [m], zeros, falls, the delay."""
        n, bodies = len(self.robot.joints), len(self.robot.tree.names)
        ends = np.cumsum([len(OF_JOINT) * n, bodies, 3 * bodies, n, n])
        return np.split(values, ends, axis=-1)

    def standard(self, values: Array) -> Array:
        """Return the standard parameters of numbers."""
        made = np.zeros(len(self.robot.labels))
        joints, masses, shifts, _, falls, _ = self.parts(values)
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
        stiff, zero, delay = np.exp(values[:n]), self.parts(values)[3], values[-1]
        goal = self.goals(episode, clock, h, delay)
        later = self.goals(episode, clock, h, delay + 0.1 * h)
        wanted = np.zeros((len(clock), 3, n))
        wanted[:, 0] = goal + zero
        wanted[:, 2] = stiff * self.damps * np.gradient(goal, h, axis=0)
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
        ahead = (later - goal) / (0.1 * h)
        ahead = ahead + self.damps * np.gradient(ahead, h, axis=0)
        ahead = stiff * (ahead + self.sums * h * np.cumsum(later - goal, axis=0) / (0.1 * h))
        by_delay = -ahead[:, :, None]
        by_gain = -tau[:, :, None] * np.eye(n)
        parts = [by_gain, *(Y[:, :, self._places[kind]] for kind in list(OF_JOINT)[1:])]
        parts += [by_mass, by_shift.reshape(-1, n, 3 * bodies), K, -dry, by_delay]
        columns = np.concatenate(parts, axis=2)
        moved, efforts = np.empty_like(columns), np.empty_like(columns)
        held_steps.carry(M, K, D, columns, (gains, -1.0), h, (moved, efforts))
        share = (t - clock[0]) / h
        first = np.clip(share.astype(int), 0, len(clock) - 2)
        share = np.clip(share - first, 0.0, 1.0)[:, None, None]
        return places, (1.0 - share) * moved[first] + share * moved[first + 1]


@dataclass(frozen=True, eq=False)
class LoopFit:
    """Numbers of a loop, as episodes tell them."""

    loop: Loop
    values: Array  # shape (k,)
    covariance: Array  # shape (k, k)
    missed: Array  # root mean square errors of positions, shape (joints,) [rad]


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
    fast = [
        np.abs(np.gradient(e.position, e.time, axis=0))[own]
        for e, own in zip(episodes, scored, strict=True)
    ]
    values, spread = guess, [np.full_like(v, 0.01) for v in fast]  # [rad]
    for _ in range(3):  # with the errors' size of the fit before
        values = _descended(loop, episodes, scored, values, (guess, wide), spread)
        slopes, errors = _compared(loop, episodes, scored, values)
        spread = _spread(np.concatenate(errors), fast)
    scaled = [s / x[:, :, None] for s, x in zip(slopes, spread, strict=True)]
    hessian = sum(np.einsum("njp,njq->pq", s, s) for s in scaled) + np.diag(wide**-2.0)
    covariance = np.linalg.solve(hessian, np.linalg.solve(hessian, np.diag(wide**-2.0)).T)
    for s, e, x, block, own in zip(scaled, errors, spread, blocks, scored, strict=True):
        relative = e / x
        for b in np.unique(block[own]):
            part, missing = s[block[own] == b], relative[block[own] == b]
            score = np.einsum("njp,nj->p", part, missing)
            moved = np.linalg.solve(hessian - np.einsum("njp,njq->pq", part, part), score)
            covariance += MISFIT * np.outer(moved, moved)
    missed = np.sqrt(np.mean(np.concatenate(errors) ** 2, axis=0))
    return LoopFit(loop, values, covariance, missed)


def _spread(errors: Array, fast: Sequence[Array]) -> list[Array]:
    """Return the size of errors, which grows with the speed, since frames jitter.

    Args:
        errors: Of all episodes, shape (N, joints) [rad].
        fast: Speeds of each, shape (n, joints) [rad/s].
    """
    squares, speeds = errors**2, np.concatenate(fast) ** 2
    parts = [
        nnls(np.stack([np.ones(len(v)), v], axis=1), e)[0]
        for e, v in zip(squares.T, speeds.T, strict=True)
    ]
    still, moving = np.array(parts).T
    return [np.sqrt(np.maximum(still, LEAST_ERROR**2) + moving * v**2) for v in fast]


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
    guess = np.concatenate([guess, np.zeros(4 * bodies + n), np.full(n, FALL[0]), [LATE[0]]])
    counts = [n] * len(OF_JOINT) + [bodies, 3 * bodies, n, n, 1]
    wide = np.repeat([*OF_JOINT.values(), MASS, loop.shift, ZERO, FALL[1], LATE[1]], counts)
    return guess, wide


def _descended(
    loop: Loop,
    episodes: Sequence[Episode],
    scored: Sequence[Any],
    values: Array,
    belief: tuple[Array, Array],
    spread: Sequence[Array],
) -> Array:
    """Return the most likely numbers, by least squares from given ones on."""
    guess, wide = belief

    @lru_cache(maxsize=1)  # least squares asks for errors and derivatives one after another
    def compared(x: bytes) -> tuple[list[Array], list[Array]]:
        return _compared(loop, episodes, scored, np.frombuffer(x))

    def errors(x: Array) -> Array:
        try:
            missed = compared(x.tobytes())[1]
        except SolverFailure:
            if np.array_equal(x, values):
                raise
            return np.full(count, np.inf)  # so that a shorter step is tried
        scaled = [(-e / size).ravel() for e, size in zip(missed, spread, strict=True)]
        return np.concatenate([*scaled, (x - guess) / wide])

    def slopes(x: Array) -> Array:
        moved = compared(x.tobytes())[0]
        scaled = [s / size[:, :, None] for s, size in zip(moved, spread, strict=True)]
        return np.concatenate([*(s.reshape(-1, len(x)) for s in scaled), np.diag(1.0 / wide)])

    count = len(values) + sum(size.size for size in spread)
    return np.asarray(least_squares(errors, values, slopes, x_scale=wide, ftol=1e-4).x)
