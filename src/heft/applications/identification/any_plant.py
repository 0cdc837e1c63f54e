"""Complete identification of a plant of any kind; no model file is written.

Cutoff, delay, linearisation point, outliers and least squares are those of `fit`. The physically
consistent estimate, intervals, checks and report for plants other than robots are here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from heft import __version__
from heft.display import Plot, Series, Table, Trace, page, rounded, table
from heft.display import verdict as shown_verdict
from heft.engine import one_blas_thread
from heft.errors import FitError, InvalidRecording
from heft.estimators import ConsistentEstimate, DriveGains, Estimate, stated_numbers
from heft.information import Check, Information, Verdict, verdict
from heft.plants import Plant, Problem
from heft.recordings import Recording

from . import checks
from .earlier import Earlier
from .fit import ExperimentFit, fit_experiment
from .gains import refuse_gains_of_any_plant
from .opening import windows_for
from .predicted_error import PredictedError, predicted_error_alike
from .preparation import Progress, averaged, silent
from .scores import Score, held_out, plant_scores
from .settings import Settings

P = TypeVar("P", bound="Plant[Any]")
NORMAL = 1.96  # deviations of a 95 % interval
DRAWN_POINTS = 20_000  # of all curves over time
TEMPLATE = "applications/identification/plant_report.html.jinja"


@dataclass(frozen=True)
class Number:
    """A reported parameter with its standard error."""

    name: str  # name, such as `body.com.x`
    # value, std: value and standard error [unit]
    value: float
    std: float
    unit: str  # unit of both
    seen: float  # reduction of the prior variance by the data [0 to 1]

    @property
    def interval(self) -> tuple[float, float]:
        """Lower and upper end of the 95 % interval [unit], value ± 1.96 standard errors."""
        return self.value - NORMAL * self.std, self.value + NORMAL * self.std


@dataclass(frozen=True)
class PlantIdentification(Generic[P]):
    """Result of identifying a plant: estimates, scores, checks; for robots see `Identification`."""

    # fit of the experiment: cutoff, delay, outliers, base parameters β
    experiment: ExperimentFit[P]
    consistent: ConsistentEstimate  # physically consistent standard parameters π
    fit: tuple[Score, ...]  # prediction errors on the fitted logs
    validation: tuple[Score, ...]  # prediction errors on the held-out logs
    predicted_error: PredictedError  # of what the channels measure, on motion alike
    checks: tuple[Check, ...]  # results of all checks
    traces: tuple[Trace, ...]  # measured and predicted signals over time, for the report
    settings: Settings  # settings of the identification
    notes: tuple[str, ...] = ()  # remarks on the logs, beside those on the plant

    @property
    def problem(self) -> Problem[P]:
        """Plant, logs and signal settings that were fitted."""
        return self.experiment.problem

    @property
    def estimate(self) -> Estimate:
        """Base parameters β with covariance and residual noise."""
        return self.experiment.estimate

    @property
    def verdict(self) -> Verdict:
        """Overall verdict of the checks."""
        return verdict(self.checks)

    @property
    def numbers(self) -> tuple[Number, ...]:
        """Reported parameters: first the bodies', then all others.

        Of each body mass [kg], centre of mass [m] and inertia about it [kg·m²].
        """
        space, found = self.problem.space, self.consistent
        units = {"mass": "kg", "com": "m", "inertia": "kg·m²"}
        numbers: list[Number] = []
        tens = {k for first in space.groups for k in range(first, first + 10)}
        for body, first in zip(space.bodies, space.groups, strict=True):
            for name, one in stated_numbers(found, first).items():
                unit = units[name.partition(".")[0]]
                numbers.append(Number(f"{body}.{name}", one.value, one.std, unit, one.share))
        values, std = found.parameters.values, found.parameters.std
        for k, (name, unit) in enumerate(zip(space.labels.names, space.labels.units, strict=True)):
            if k not in tens:
                seen = float(found.seen[k])
                numbers.append(Number(name, float(values[k]), float(std[k]), unit, seen))
        return tuple(numbers)


def identify_plant(
    plant: P,
    logs: Sequence[Recording],
    validate: Sequence[Recording] = (),
    settings: Settings = Settings(),
    given: Earlier | Information | None = None,
    progress: Progress = silent,
) -> PlantIdentification[P]:
    """Identify the parameters of a plant of any kind from its logs.

    Use it for systems other than robots; `identify` also writes a robot's model file.

    Args:
        plant: Plant whose equations are linear in the parameters; see `heft.plants.Plant`.
        logs: Logs of one experiment, in any order.
        validate: Held-out logs, used for scores only.
        given: Information of earlier experiments on the same base parameters, to be added.

    Returns:
        The result, with parameters, scores and checks.

    Raises:
        InputError: If a log or setting is invalid, or no log is given.
        FitError: If the fit explains too little of the measurements (`Limits.unexplained`), or a
            solver fails.
    """
    if not logs:
        raise InvalidRecording("no log is given", cure="give at least one log")
    with one_blas_thread():
        return _identified(plant, logs, validate, settings, given, progress)


def _identified(
    plant: P,
    logs: Sequence[Recording],
    validate: Sequence[Recording],
    settings: Settings,
    given: Earlier | Information | None,
    progress: Progress,
) -> PlantIdentification[P]:
    weak = windows_for(plant, settings)
    problem = Problem(plant, tuple(logs), settings.smoothing, settings.threads, weak=weak)
    refuse_gains_of_any_plant(problem)
    if settings.average:
        problem = averaged(problem)
    corner = problem.corner
    found = fit_experiment(problem, settings, given, progress)
    problem, estimate = found.problem, found.estimate
    progress("solving for physically consistent parameters")
    known, consistent = _consistent(settings, found)
    progress("scoring")
    values = problem.plant.space.matrix @ consistent.parameters.values
    traces: list[Trace] = []
    fitted = plant_scores(problem, values, corner, traces)
    if fitted.unexplained > settings.limits.unexplained:
        raise FitError(
            "no parameters explain these measurements",
            got=f"{fitted.unexplained:.0%} of their variation is left over on the logs fitted "
            "themselves",
            cure=checks.CHANNELS.cure,
        )
    others = list(held_out(problem, validate, corner))
    held = tuple(
        s for h in others for s in plant_scores(h.problem, values, h.filter_hz, traces).list
    )
    information = estimate.information
    predicted = predicted_error_alike(information, known, problem.space, fitted.list)
    judged = checks.judge_plant(
        problem, estimate, fitted.list, held, predicted, consistent, fitted.span, settings.limits
    )
    return PlantIdentification(
        found,
        consistent,
        fitted.list,
        held,
        predicted,
        tuple(judged),
        tuple(traces),
        settings,
        tuple(h.note for h in others if h.note),
    )


def _consistent(
    settings: Settings, found: ExperimentFit[Any]
) -> tuple[ConsistentEstimate, ConsistentEstimate]:
    """Return the consistent estimate as fitted, then with its covariance by the jackknife."""
    solver = settings.consistent
    fitted = DriveGains(solver).fit([found.estimate], found.problem.space, {})
    widened, _ = found.widened(solver, settings.jackknife, fitted)
    return fitted.consistent, widened.consistent


def text(found: PlantIdentification[Any]) -> str:
    """Return parameters, verdict and failed checks as text for a terminal."""
    head = ("", "value", "± 95 %", "unit", "seen")
    lines = [
        table(head, _rows(found)),
        "",
        f"verdict: {found.verdict}, predicted error {found.predicted_error.total:.1%}",
    ]
    lines += shown_verdict.not_passed(found.checks)
    if found.problem.delay:
        lines.append(f"measurements come {1e3 * found.problem.delay:.3g} ms behind motion")
    lines += [f"note: {note}" for note in found.notes]
    return "\n".join(lines)


def _rows(found: PlantIdentification[Any]) -> list[list[str]]:
    return [
        [n.name, rounded(n.value, n.std), rounded(NORMAL * n.std), n.unit, f"{n.seen:.0%}"]
        for n in found.numbers
    ]


def html(found: PlantIdentification[Any]) -> str:
    """Return the report as a self-contained HTML page, which loads nothing from elsewhere."""
    plant = type(found.problem.plant).__name__
    base, settings = found.estimate.parameters, found.settings
    expressions = found.problem.base.expressions()
    described = zip(expressions, base.values, base.std, base.labels.units, strict=True)
    units = {c.name: c.unit for c in found.problem.plant.channels}
    return page.page(
        TEMPLATE,
        title=f"{plant}: what was identified",
        verdict=found.verdict,
        **shown_verdict.for_page(found.checks),
        notes=(*found.problem.plant.notes, *found.notes),
        numbers=Table("Parameters", ("", "value", "± 95 %", "unit", "seen"), _rows(found)),
        scores=Table("Not explained", ("log", "filter", "total", "mean"), _scores(found)),
        base=Table(
            "Base parameters",
            ("combination", "value", "±", "unit"),
            [[e, rounded(float(v), float(s)), rounded(float(s)), u] for e, v, s, u in described],
        ),
        plots=[p for t in found.traces for p in _plots(t, units, len(found.traces))],
        spectra=[p for t in found.traces for p in _spectra(t, units)],
        delay=found.problem.delay,
        cutoff=found.problem.corner,
        strength=settings.consistent.strength,
        version=__version__,
    )


def _scores(found: PlantIdentification[Any]) -> Iterator[list[str]]:
    for score in (*found.fit, *found.validation):
        hz = "raw" if score.filter_hz is None else f"{score.filter_hz:.3g} Hz"
        yield [score.path, hz, f"{score.total:.2%}", f"{score.mean:.2%}"]


def _plots(trace: Trace, units: Mapping[str, str], logs: int) -> Iterator[Plot]:
    """Yield measured and predicted signal and residual of each channel over time."""
    for whole in trace.curves:
        curve = whole.thinned(DRAWN_POINTS // max(logs * len(trace.curves), 1))
        time = curve.time - np.nanmin(curve.time)
        series = (
            Series("residual", "residual", time, curve.measured, minus=curve.predicted),
            Series("predicted", "predicted", time, curve.predicted, "broad"),
            Series("measured", "measured", time, curve.measured),
        )
        title = f"{trace.path}: {curve.name} [{units[curve.name]}]"
        yield Plot(title, "time [s]", series, f"time {trace.path}")


def _spectra(trace: Trace, units: Mapping[str, str]) -> Iterator[Plot]:
    for c, curve in enumerate(trace.curves):
        series = (
            Series("measured", "measured", trace.frequency, trace.measured[:, c]),
            Series("residual", "residual", trace.frequency, trace.residual[:, c]),
        )
        title = f"{trace.path}: {curve.name} [({units[curve.name]})²/Hz]"
        group = f"frequency {trace.path}"
        yield Plot(title, "frequency [Hz]", series, group, log_x=True, log_y=True)
