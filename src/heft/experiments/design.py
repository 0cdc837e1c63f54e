"""Design of excitation: the motion within all limits that tells most about a plant's parameters.

Random motions that break no limit come first; the best few of them are improved each by itself, by
an augmented Lagrangian with exact gradients. What is handed out breaks no limit on a grid ten times
finer than the solver's: what a solver leaves broken is taken back by shrinking the motion.

The information's determinant is the criterion unless another is asked for [Swevers1997]: a low
condition number is no evidence of information.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from heft.arrays import Array
from heft.engine import one_blas_thread, side_by_side
from heft.errors import InfeasibleLimits, InvalidSetting, nearest
from heft.information import BaseParameters, Information, Labels, triangle_of
from heft.plants import Excitable, Plant, structural_base

from . import criteria
from .augmented_lagrangian import Progress, Solution, SolverSettings, solve
from .criteria import Conditions, Criterion
from .excitation import Excitation, Grids, excitation_of, scaled
from .limits import Broken, MotionLimits
from .random_motions import RandomMotions, draw, resting_posture, shrunk
from .trajectories import BASES, ExcitationTrajectory, Family, Fourier, Rest, Spline

NOISE_SHARE = 0.01  # of an actuator's largest effort, where nothing is known of its noise

TRIALS = (1.0, 0.999, 0.996, 0.984, 0.94, 0.75, 0.5, 0.25, 0.1, 0.03)  # shares of a motion


@dataclass(frozen=True)
class DesignSettings:
    """Settings of a design.

    Attributes:
        duration: Of the motion [s].
        basis: `fourier` or `spline`.
        harmonics: Of a Fourier series.
        frequency: Its lowest [Hz]; one period in the duration if not given.
        intervals: Of a spline.
        rest: Where the motion is at rest.
        start: Posture at the start, shape (d,) [rad or m]; free if not given.
        criterion: `D`, `A`, `E` or `condition`.
        about: Links or joints whose parameters count, by name; the others are nuisance. All if
            empty.
        scale_columns: Whether columns are brought to their usual lengths, so that criteria that
            depend on units count a parameter by what it does; else they are taken in SI units.
        weigh_rows: Whether rows are divided by the channels' noise. Condition numbers are commonly
            published of rows neither weighed nor scaled.
        row_rate: Independent rows a second that will be recorded [Hz]; that of the samples if not
            given. It says what the new run weighs beside what is known already.
        random: Number of random motions to begin with.
        starts: Number of the best of them that are improved.
        workers: How many at a time.
        seed: Of the random numbers.
        spare: Share of each limit that the solver leaves free, for what it cannot meet exactly.
        finer: How much finer the grid is on which limits hold in the end.
        grids: On which the solver looks at the motion.
        draws: How random motions are drawn.
        solver: Of each start.
    """

    duration: float = 10.0
    basis: str = "fourier"
    harmonics: int = 5
    frequency: float | None = None
    intervals: int = 12
    rest: Rest = "both"
    start: tuple[float, ...] | None = None
    criterion: str = "D"
    about: tuple[str, ...] = ()
    scale_columns: bool = True
    weigh_rows: bool = True
    row_rate: float | None = None
    random: int = 300
    starts: int = 3
    workers: int = 2
    seed: int = 0
    spare: float = 0.002
    finer: int = 10
    grids: Grids = Grids()
    draws: RandomMotions = RandomMotions()
    solver: SolverSettings = SolverSettings()

    @property
    def family(self) -> Family:
        """The trajectories that are looked at.

        Raises:
            InvalidSetting: If there is no such basis.
        """
        if self.basis not in BASES:
            raise InvalidSetting(
                "this basis is not known", argument="basis", got=self.basis, valid=tuple(BASES)
            )
        basis = (
            Fourier(self.duration, self.harmonics, self.frequency)
            if self.basis == Fourier.kind
            else Spline(self.duration, self.intervals)
        )
        return Family(basis, self.rest, start=self.start)


@dataclass(frozen=True)
class Start:
    """What became of one start.

    Attributes:
        first: φ of the random motion.
        value: φ at the end, limits kept on the fine grid; −∞ if they could not be.
        violation: Largest share of a limit by which the solver's end was broken.
        shrunk: Share of the motion that was kept.
        rounds: Of the solver.
        evaluations: Of value and gradient.
    """

    first: float
    value: float
    violation: float
    shrunk: float
    rounds: int
    evaluations: int


@dataclass(frozen=True, eq=False)
class Design:
    """The designed motion and what it will tell.

    Attributes:
        trajectory: The motion.
        settings: By which it was made.
        base: Base parameters of the plant.
        noise: σ of each channel, or their covariance [channel's unit, or its square].
        known: Information in hand about base parameters, shape (k, k).
        about: Positions of the base parameters that count; all if None.
        value: φ; of columns scaled by the random motions, so that only differences within one
            design mean anything.
        random: φ of the random motions, descending, shape (any,).
        starts: What became of each.
        margins: Most broken value of each limit on the fine grid, worst first; none above 0.
        interrupted: Whether it was stopped before its end.
    """

    trajectory: ExcitationTrajectory
    settings: DesignSettings
    base: BaseParameters
    noise: Array
    known: Array
    about: tuple[int, ...] | None
    value: float
    random: Array
    starts: tuple[Start, ...]
    margins: tuple[Broken, ...]
    interrupted: bool
    problem: Excitation = field(repr=False)
    plant: Any = field(repr=False)

    @property
    def gain(self) -> float:
        """What the design adds to the best random motion, in φ: nats of a log-determinant."""
        return self.value - float(self.random[0]) if len(self.random) else np.inf

    @property
    def gain_over_median(self) -> float:
        """What the design adds to the usual random motion, in φ."""
        return self.value - float(np.median(self.random)) if len(self.random) else np.inf

    def rows_of(self, trajectory: ExcitationTrajectory) -> Array:
        """Return the base regressor of a motion at the design's samples, shape (N, c, k)."""
        time = np.linspace(0.0, trajectory.duration, self.settings.grids.samples)
        samples = self.plant.samples_at(*trajectory(time))
        return np.asarray(self.plant.rows(samples, self.base.kept).regressor)

    def information_of(self, trajectory: ExcitationTrajectory) -> Array:
        """Return the information matrix about base parameters, shape (k, k), known included."""
        laid = np.moveaxis(self.rows_of(trajectory), 0, 2)
        rows = replace(self.problem.rows, scale=np.ones(self.base.rank))
        return self.problem.share * rows.information(rows.blocks(laid)) + self.known

    @cached_property
    def log_determinant(self) -> float:
        """Log-determinant of the information about base parameters, in SI units [nats]."""
        return float(criteria.Determinant(self.about)(self.information_of(self.trajectory))[0])

    @cached_property
    def std(self) -> Array:
        """Predicted standard deviation of each base parameter, shape (k,), in its unit."""
        inverse = criteria.inverse(self.information_of(self.trajectory))
        if inverse is None:
            return np.full(self.base.rank, np.inf)
        return np.asarray(np.sqrt(np.diag(inverse)))

    @cached_property
    def conditions(self) -> Conditions:
        """Condition numbers of the regressor, raw and scaled."""
        sigma = self.noise if self.noise.ndim == 1 else np.sqrt(np.diag(self.noise))
        return criteria.conditions(self.rows_of(self.trajectory), sigma, self.about)


def base_positions(labels: Labels, about: Sequence[str]) -> tuple[int, ...] | None:
    """Return the positions of links' and joints' parameters among base parameters.

    Args:
        labels: Of the base parameters: `forearm.I.xx`, `elbow.viscous`.
        about: Names of links or joints, or of single parameters; all if empty.

    Raises:
        InvalidSetting: If one is not there.
    """
    if not about:
        return None
    owners = [{n, *(n[:k] for k, c in enumerate(n) if c == ".")} for n in labels.names]
    for name in about:
        if not any(name in o for o in owners):
            valid = sorted({n for o in owners for n in o})
            near = nearest(name, valid)
            raise InvalidSetting(
                "no base parameter is called after this link or joint",
                argument="about",
                got=name,
                valid=sorted({n.partition(".")[0] for n in labels.names}),
                cure=f"did you mean '{near}'?" if near else None,
            )
    return tuple(k for k, o in enumerate(owners) if any(name in o for name in about))


def default_noise(plant: Plant[Any], limits: MotionLimits) -> Array:
    """Return σ of each channel where nothing is known: a share of what its actuator can do, or 1.

    Shape (c,) [channel's unit].
    """
    count = len(plant.channels)
    if limits.effort is None or limits.effort.mixing is not None:
        return np.ones(count)
    torque = limits.effort.torque
    return np.where(np.isfinite(torque), NOISE_SHARE * torque, 1.0)


def design(
    plant: Plant[Any],
    limits: MotionLimits,
    settings: DesignSettings = DesignSettings(),
    noise: Array | None = None,
    known: Information | None = None,
    criterion: Criterion | None = None,
    progress: Callable[[Progress], None] | None = None,
    stop: threading.Event | None = None,
) -> Design:
    """Return the motion that tells most about a plant's parameters within all limits.

    The same arguments give the same motion, whatever the number of workers.

    Args:
        plant: An excitable plant.
        limits: Of the motion.
        settings: Of the design.
        noise: σ of each channel, shape (c,), or their covariance (c, c) [channel's unit, or its
            square]; `default_noise` if not given.
        known: Information in hand, its channels' weights 1/σ of `noise` where names agree.
        criterion: In place of that of the settings, of unscaled columns: `excitation.task_error`.
        progress: Called after each round of each start.
        stop: Set it for the best so far; see `heft.interrupts.stopped_by_signals`.

    Raises:
        InvalidSetting: If the plant's motion cannot be designed, or a setting is not one.
        InfeasibleLimits: If no motion keeps all limits, with those that fight.
    """
    if not isinstance(plant, Excitable):
        raise InvalidSetting(
            "the motion of this plant cannot be designed", argument="plant", got=type(plant)
        )
    family = settings.family
    limits.require_slow(getattr(family.basis, "highest", 0.0))
    base = structural_base(plant)
    about = base_positions(base.labels, settings.about)
    noise = default_noise(plant, limits) if noise is None else np.asarray(noise, dtype=float)
    known_matrix = _known(plant, base, noise, known)
    worth = criterion or criteria.named(settings.criterion, about, settings.scale_columns)
    weights = noise if settings.weigh_rows else np.ones(len(plant.channels))

    def problem_on(grids: Grids, spare: float) -> Excitation:
        rate = settings.row_rate or settings.grids.samples / settings.duration
        return excitation_of(
            plant, family, limits, worth, weights, grids, spare, known_matrix, rate
        )

    with one_blas_thread():
        coarse = problem_on(settings.grids, settings.spare)
        fine = problem_on(settings.grids.finer(settings.finer), settings.spare / 4.0)
        drawn, posture = _feasible_motions(coarse, limits, settings, stop)
        if settings.scale_columns:
            coarse = scaled(coarse, drawn)
        values = np.array([coarse.at(X).value for X in drawn])
        order = np.argsort(-values)
        chosen = [drawn[k] for k in order[: settings.starts]]
        made = _improved(coarse, fine, limits, settings, chosen, posture, progress, stop)
    best = max(range(len(made)), key=lambda k: made[k][1].value)
    X, start = made[best]
    if not np.isfinite(start.value):
        raise _nowhere(fine, made)
    coordinates = plant.coordinates
    names, units = (tuple(getattr(c, k) for c in coordinates) for k in ("name", "unit"))
    return Design(
        family.trajectory(X, names, units),
        settings,
        base,
        noise,
        known_matrix,
        about,
        start.value,
        values[order],
        tuple(s for _, s in made),
        tuple(fine.broken(fine.at(X))),
        bool(stop is not None and stop.is_set()),
        coarse,
        plant,
    )


def _known(
    plant: Plant[Any], base: BaseParameters, noise: Array, known: Information | None
) -> Array:
    """Return the information in hand about base parameters, shape (k, k)."""
    if known is None:
        return np.zeros((base.rank, base.rank))
    sigma = noise if noise.ndim == 1 else np.sqrt(np.diag(noise))
    by_name = {c.name: 1.0 / s for c, s in zip(plant.channels, sigma, strict=True)}
    weights = {name: by_name.get(name, 1.0) for name in known.channels}
    return criteria.in_hand(known, base.labels, weights)


def _feasible_motions(
    problem: Excitation,
    limits: MotionLimits,
    settings: DesignSettings,
    stop: threading.Event | None,
) -> tuple[list[Array], Array]:
    """Return random motions that keep all limits, and a posture to shrink motions about.

    They are shrunk until they do; where not even rest does, or no random posture is one to rest in,
    some are bent until they do.

    Raises:
        InfeasibleLimits: If none can be.
    """
    rng = np.random.default_rng(settings.seed)
    posture, excess = resting_posture(problem, limits.joints, rng)
    drawn = draw(problem, limits.joints, settings.random, rng, settings.draws)
    if excess > 0.0:
        first = [X for _, X in zip(range(settings.starts), drawn, strict=False)]
        return _bent(problem, limits, settings, first), posture
    found: list[Array] = []
    for X in drawn:
        kept = shrunk(problem, X, posture)
        found += [] if kept is None else [kept]
        if stop is not None and stop.is_set() and found:
            break
    return found, posture


def _bent(
    problem: Excitation, limits: MotionLimits, settings: DesignSettings, motions: list[Array]
) -> list[Array]:
    """Return those of some motions that keep all limits once they are changed to break them least.

    Raises:
        InfeasibleLimits: If none does. The motion that breaks limits least is stationary:
            multipliers of those that fight hold one another up, and all others are zero.
    """
    unit = _unit(limits)
    ends = [solve(problem, X, unit, settings.solver, worth=0.0) for X in motions]
    kept = [e.X for e in ends if e.violation <= 0.0]
    if kept:
        return kept
    least = min(ends, key=lambda e: e.violation)
    at = problem.at(least.X)
    pushed = replace(at, parts=_split(least.multipliers, at.parts))
    strong = {str(b) for b in problem.broken(pushed) if b.excess > 0.0}
    broken = problem.broken(at)
    fighting = [b for b in broken if str(b) in strong] or broken[:3]
    shown = ", ".join(f"{b} ({b.excess:+.1%})" for b in fighting[:8])
    raise InfeasibleLimits(
        "no motion was found that keeps all limits; these fight",
        argument="limits",
        got=shown,
        expected="values at most 0 %: those of the motion that breaks limits least",
        cure=f"relax one of them, first {fighting[0]}",
    )


def _nowhere(fine: Excitation, made: list[tuple[Array, Start]]) -> InfeasibleLimits:
    """Return the error of a design whose starts all break limits between the solver's samples."""
    at = min((fine.at(X) for X, _ in made), key=lambda at: float(at.constraints.max()))
    shown = ", ".join(f"{b} ({b.excess:+.1%})" for b in fine.broken(at)[:3])
    return InfeasibleLimits(
        "no motion was found that keeps all limits and tells anything",
        argument="limits",
        got=f"nearest to its limit: {shown}",
        cure="relax that limit, ask for a longer motion, or for more random motions to begin with",
    )


def _split(flat: Array, parts: tuple[Array, ...]) -> tuple[Array, ...]:
    ends = np.cumsum([p.size for p in parts])[:-1]
    pieces = np.split(flat, ends)
    return tuple(x.reshape(p.shape) for x, p in zip(pieces, parts, strict=True))


def _unit(limits: MotionLimits) -> Array:
    """Return the usual size of each coordinate's unknowns, shape (d,) [rad or m]."""
    return np.asarray(np.minimum(limits.joints.reach, np.pi))


def _improved(
    coarse: Excitation,
    fine: Excitation,
    limits: MotionLimits,
    settings: DesignSettings,
    chosen: list[Array],
    posture: Array,
    progress: Callable[[Progress], None] | None,
    stop: threading.Event | None,
) -> list[tuple[Array, Start]]:
    """Return each start's motion on the fine grid, and what became of it."""

    def work(k: int) -> tuple[Array, Start]:
        def report(rounds: int, evaluations: int, value: float, violation: float) -> None:
            if progress is not None:
                progress(Progress(k, rounds, evaluations, value, violation))

        first = chosen[k]
        found = solve(coarse, first, _unit(limits), settings.solver, stop, report)
        return _kept(coarse, fine, first, found, posture)

    return side_by_side(work, range(len(chosen)), settings.workers)


def _kept(
    coarse: Excitation, fine: Excitation, first: Array, found: Solution, posture: Array
) -> tuple[Array, Start]:
    """Return the largest share of a solution that keeps all limits on the fine grid.

    The random motion that it began with, if that is better: a start that was stopped early.
    """
    value = coarse.at(first).value

    def of(X: Array) -> tuple[Array, float, float]:
        share = largest_share(fine, X, posture)
        still = coarse.family.still(posture)
        kept = still + share * (X - still)
        return kept, share, coarse.at(kept).value if share else -np.inf

    trials = [of(found.X), of(first)]
    X, share, worth = max(trials, key=lambda t: t[2])
    return X, Start(value, worth, found.violation, share, found.rounds, found.evaluations)


def largest_share(problem: Excitation, X: Array, posture: Array, steps: int = 12) -> float:
    """Return the largest share of a motion about a posture that keeps all limits; 0 if none.

    By bisection: what is broken little is kept by a motion that is little smaller.

    Args:
        problem: On a fine grid.
        X: Unknowns, shape (u, d).
        posture: Shape (d,) [rad or m].
        steps: Of the bisection.
    """
    still = problem.family.still(posture)

    def keeps(share: float) -> bool:
        return bool(problem.at(still + share * (X - still)).constraints.max() <= 0.0)

    low, high = 0.0, 1.0
    for share in TRIALS:  # from the whole down: distances are not monotonic
        if keeps(share):
            low = share
            break
        high = share
    if low in (0.0, 1.0):
        return low
    for _ in range(steps):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return low


def triangle_at(problem: Excitation, X: Array) -> Array:
    """Return the triangle R of a motion's whitened, scaled rows, shape (k, k).

    Args:
        problem: Whose rows count.
        X: Unknowns, shape (u, d).
    """
    q, v, a = problem.sampled @ X
    laid = problem.rows.laid(problem.rows.plant.samples_at(q + problem.start, v, a))
    blocks = problem.rows.blocks(laid)
    whole = np.zeros((sum(b.shape[1] for b in blocks), len(problem.rows.columns)))
    first = 0
    for at, block in zip(problem.rows.seen, blocks, strict=True):
        whole[first : first + block.shape[1], at] = block.T
        first += block.shape[1]
    return triangle_of(whole)
