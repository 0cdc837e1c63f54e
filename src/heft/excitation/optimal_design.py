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
from heft.engine import one_blas_thread
from heft.errors import InvalidSetting, did_you_mean
from heft.information import BaseParameters, Directions, Information, Labels, triangle_of
from heft.plants import Excitable, Plant, structural_base

from . import criteria
from .criteria import Conditions, Criterion
from .design_settings import DesignSettings
from .excitation import Excitation, excitation_of, scaled
from .limits import Broken, DesignLimits
from .starts import Levels, Progress, Start, feasible_motions, improved, nothing_kept
from .trajectories import ExcitationTrajectory


@dataclass(frozen=True, eq=False)
class Design:
    """The designed motion and the information that it will give."""

    trajectory: ExcitationTrajectory  # the motion
    settings: DesignSettings  # by which it was made
    base: BaseParameters  # base parameters of the plant
    noise: Array  # σ of each channel, or their covariance [channel's unit, or its square]
    known: Array  # factor K of the information in hand about base parameters, shape (any, k)
    about: tuple[int, ...] | None  # positions of the base parameters that count; all if None
    # φ; of columns scaled by the random motions, so that only differences within one design mean
    # anything
    value: float
    random: Array  # φ of the random motions, descending, shape (any,)
    starts: tuple[Start, ...]  # what became of each
    # most broken value of each limit on the fine grid, worst first; none above 0
    margins: tuple[Broken, ...]
    interrupted: bool  # whether it was stopped before its end
    problem: Excitation = field(repr=False)
    plant: Any = field(repr=False)

    @property
    def gain(self) -> float:
        """Increase of φ over the best random motion: nats of a log-determinant."""
        return self.value - float(self.random[0]) if len(self.random) else np.inf

    @property
    def gain_over_median(self) -> float:
        """Increase of φ over the median random motion."""
        return self.value - float(np.median(self.random)) if len(self.random) else np.inf

    def rows_of(self, trajectory: ExcitationTrajectory) -> Array:
        """Return the base regressor of a motion at the design's samples, shape (N, c, k)."""
        time = np.linspace(0.0, trajectory.duration, self.settings.grids.samples)
        samples = self._samples(trajectory, time)
        return np.asarray(self.plant.rows(samples, self.base.kept).regressor)

    def _samples(self, trajectory: ExcitationTrajectory, time: Array) -> Any:
        orders = range(self.plant.derivatives + 1)
        return self.plant.samples_at(*(trajectory.derivative(time, k) for k in orders))

    def triangle_of(self, trajectory: ExcitationTrajectory, last: Sequence[int] = ()) -> Array:
        """Return the triangular factor R of a motion's and the known information RᵀR, (k, k).

        Args:
            trajectory: Sampled as often as the design was.
            last: Base parameters whose columns come last: their block is the information about them
                with the others unknown.
        """
        time = np.linspace(0.0, trajectory.duration, self.settings.grids.samples)
        rows = replace(self.problem.rows, scale=np.ones(self.base.rank))
        blocks = rows.blocks(rows.laid(self._samples(trajectory, time)))
        stacked = np.vstack([np.sqrt(self.problem.share) * rows.stacked(blocks), self.known])
        first = np.setdiff1d(np.arange(self.base.rank), last)
        return triangle_of(stacked[:, [*first, *last]])

    def log_determinant_of(self, trajectory: ExcitationTrajectory) -> float:
        """Return the log-determinant of a motion's information, in SI units [nats].

        It is that of the base parameters that count, with the others unknown; differences between
        motions do not depend on units.
        """
        R = self.triangle_of(trajectory, self.about or ())
        size = self.base.rank if self.about is None else len(self.about)
        with np.errstate(divide="ignore"):
            return 2.0 * float(np.log(np.abs(np.diag(R)[-size:])).sum())

    @cached_property
    def log_determinant(self) -> float:
        """Log-determinant of the design's information; see `log_determinant_of`."""
        return self.log_determinant_of(self.trajectory)

    @cached_property
    def std(self) -> Array:
        """Predicted standard deviation of each base parameter, shape (k,), in its unit."""
        return Directions.of(self.triangle_of(self.trajectory), self.base.rank).deviations

    @cached_property
    def known_std(self) -> Array:
        """Standard deviation of each base parameter before the motion, infinite if not known."""
        return Directions.of(triangle_of(self.known), self.base.rank).deviations

    def with_trajectory(self, trajectory: ExcitationTrajectory) -> Design:
        """Return the design with another trajectory of its family, and its φ."""
        unknowns = self.settings.family.unknowns_of(trajectory.coefficients)
        value = self.problem.at(unknowns).value
        return replace(self, trajectory=trajectory, value=value)

    @cached_property
    def conditions(self) -> Conditions:
        """Condition numbers of the regressor, raw and scaled, without redundant columns."""
        sigma = self.noise if self.noise.ndim == 1 else np.sqrt(np.diag(self.noise))
        columns = judged(self.plant, self.base, self.about)
        return criteria.conditions(self.rows_of(self.trajectory), sigma, columns)


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
            raise InvalidSetting(
                "no base parameter is called after this link or joint",
                argument="about",
                got=name,
                valid=sorted({n.partition(".")[0] for n in labels.names}),
                cure=did_you_mean(name, valid),
            )
    return tuple(k for k, o in enumerate(owners) if any(name in o for name in about))


def judged(
    plant: Plant[Any], base: BaseParameters, about: tuple[int, ...] | None
) -> tuple[int, ...] | None:
    """Return the base parameters that condition and largest variance count; None for all.

    Redundant columns of a plant, such as a dictionary's, all but hold one another: they would rule
    whatever looks at single numbers.
    """
    redundant = set(plant.redundant)
    counted = range(base.rank) if about is None else about
    kept = tuple(k for k in counted if base.kept[k] not in redundant)
    return about if len(kept) in (0, len(counted)) else kept


def default_noise(plant: Plant[Any], limits: DesignLimits) -> Array:
    """Return the default σ of each channel, shape (c,); see `noise_of`."""
    if limits.effort is None or limits.effort.mixing is not None:
        return noise_of(np.full(len(plant.channels), np.inf))
    return noise_of(limits.effort.torque)


def noise_of(effort: Array) -> Array:
    """Return the default σ of actuators: 1 % of their largest efforts, 0.1 without a limit.

    Args:
        effort: Largest efforts, infinite where there is no limit, shape (m,) [N·m or N].
    """
    return np.where(np.isfinite(effort), 0.01 * effort, 0.1)


def design(
    plant: Plant[Any],
    limits: DesignLimits,
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
        noise: σ of each channel, shape (c,), or their covariance (c, c) [channel's unit, or its
            square]; `default_noise` if not given.
        known: Information in hand, its channels' weights 1/σ of `noise` where names agree.
        criterion: In place of that of the settings, of unscaled columns: `excitation.task_error`.
        stop: Once set, the best design so far is returned; see
            `heft.interrupts.stopped_by_signals`.

    Raises:
        InvalidSetting: If the plant's motion cannot be designed, or a setting is not one.
        InfeasibleLimits: If no motion keeps all limits, with those that fight.
    """
    if not isinstance(plant, Excitable):
        raise InvalidSetting(
            "the motion of this plant cannot be designed", argument="plant", got=type(plant)
        )
    limits.require_slow(getattr(settings.family.basis, "highest", 0.0))
    base = structural_base(plant)
    about = base_positions(base.labels, settings.about)
    noise = default_noise(plant, limits) if noise is None else np.asarray(noise, dtype=float)
    factor = _in_hand(plant, base, noise, known)
    worth = criterion
    if worth is None:
        volume = settings.criterion == "D"  # which does not depend on how columns are combined
        counted = about if volume else judged(plant, base, about)
        worth = criteria.named(settings.criterion, counted, settings.scale_columns)
    with one_blas_thread():
        levels = _levels(plant, limits, settings, worth, noise, factor.T @ factor)
        drawn, posture = feasible_motions(levels.coarse, limits, settings, stop)
        if settings.scale_columns:
            levels = _scaled(levels, drawn)
        values = np.array([levels.coarse.at(X).value for X in drawn])
        order = np.argsort(-values)
        chosen = [drawn[k] for k in order[: settings.starts]]
        made = improved(levels, limits, settings, chosen, posture, progress, stop)
        X, start = max(made, key=lambda m: m[1].value)
        if not np.isfinite(start.value):
            raise nothing_kept(levels.fine, made)
        margins = levels.fine.broken(levels.fine.at(X))
    names, units = (tuple(getattr(c, k) for c in plant.coordinates) for k in ("name", "unit"))
    return Design(
        settings.family.trajectory(X, names, units),
        settings,
        base,
        noise,
        factor,
        about,
        start.value,
        values[order],
        tuple(s for _, s in made),
        tuple(margins),
        bool(stop is not None and stop.is_set()),
        levels.coarse,
        plant,
    )


def _levels(
    plant: Plant[Any],
    limits: DesignLimits,
    settings: DesignSettings,
    worth: Criterion,
    noise: Array,
    known: Array,
) -> Levels:
    weights = noise if settings.weigh_rows else np.ones(len(plant.channels))
    rate = settings.row_rate or settings.grids.samples / settings.duration

    def on(finer: int, part: float) -> Excitation:
        spare, gap = part * settings.spare, part * settings.gap
        grids = replace(settings.grids.finer(finer), spare=spare, gap=gap)
        made = excitation_of(plant, settings.family, limits, worth, weights, grids, rate)
        return replace(made, known=known)

    return Levels(on(1, 1.0), on(4, 1.0), on(10, 0.25))


def _scaled(levels: Levels, motions: list[Array]) -> Levels:
    coarse = scaled(levels.coarse, motions)

    def like(problem: Excitation) -> Excitation:
        rows = replace(problem.rows, scale=coarse.rows.scale)
        return replace(problem, rows=rows, known=coarse.known, criterion=coarse.criterion)

    return Levels(coarse, like(levels.middle), like(levels.fine))


def _in_hand(
    plant: Plant[Any], base: BaseParameters, noise: Array, known: Information | None
) -> Array:
    """Return a factor of the information in hand about base parameters, shape (any, k)."""
    if known is None:
        return np.zeros((0, base.rank))
    sigma = noise if noise.ndim == 1 else np.sqrt(np.diag(noise))
    by_name = {c.name: 1.0 / s for c, s in zip(plant.channels, sigma, strict=True)}
    weights = {name: by_name.get(name, 1.0) for name in known.channels}
    return criteria.in_hand(known, base.labels, weights)
