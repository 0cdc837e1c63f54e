"""Whether another corner, prior or kind of rows would have done better on measured robots.

Each is one default against what could have been set. All are scored alike, on the rows and with
the filter of `benchmarks.real_data`. Where the corner is swept, motion for the *prediction* is
smoothed at one fixed corner, that of the score's filter, so that only what was learnt differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from benchmarks.arms import Case
from benchmarks.results_file import Row, at_most
from benchmarks.scoring import Error, Left, error, pieces
from heft.applications.identification.identification import Identification, identify
from heft.fit.settings import Settings
from heft.plants.problem import Problem
from heft.signals.bandwidth import LARGEST_CORNER
from heft.signals.settings import Smoothing

HAMPEL = "rows that do not belong left out (hampel)"
FACTORS = (0.5, 0.7, 1.0, 1.4, 2.0)  # of the chosen corner
STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0)  # of the prior, in effective samples
OTHERS = ("differentiated", "rows and torque filtered", "splines", HAMPEL)
CORNER_WORSE, PRIOR_WORSE = 1.02, 1.05  # than the best swept, at most


def scored(case: Case, found: Identification, problem: Problem) -> Error:
    """Return the error with full friction, motion smoothed as a problem says."""
    whole = list(pieces(problem, case.score))
    predicted = Left.by(found).predicted(problem, whole, "full")
    return error([p.cut() for p in whole], predicted, case.corner)


def corners(case: Case, found: Identification, factors: Sequence[float] = FACTORS) -> Iterator[Row]:
    """Yield the errors over training corners, and how far the chosen one is from the best."""
    fixed = replace(found.problem.resolved, corner=case.corner)
    errors = {}
    for factor in factors:
        corner = factor * found.problem.corner
        if corner > LARGEST_CORNER / found.problem.timelines[0].step:
            continue
        other = found
        if factor != 1.0:
            smoothing = replace(found.problem.resolved, corner=corner)
            other = identify(case.robot, case.fit, settings=Settings(smoothing))
        errors[factor] = scored(case, other, other.problem.with_settings(smoothing=fixed)).total
        name = f"{case.name}: trained at {corner:.3g} Hz ({factor:g} of the chosen corner), total"
        yield Row(name, errors[factor], "")
    best = min(errors, key=lambda k: errors[k])
    worse = errors[1.0] / errors[best]
    name = f"{case.name}: chosen corner, error against the best swept"
    yield at_most(name, worse, "times", CORNER_WORSE, f"{best:g} of it")


def strengths(
    case: Case, found: Identification, tried: Sequence[float] = STRENGTHS
) -> Iterator[Row]:
    """Yield the errors over strengths of the prior, and how far the default is from the best."""
    own = found.settings.consistent
    errors = {}
    for strength in sorted({own.strength, *tried}):
        other = found
        if strength != own.strength:
            settings = Settings(found.problem.resolved, consistent=replace(own, strength=strength))
            other = identify(case.robot, case.fit, settings=settings)
        errors[strength] = scored(case, other, other.problem).total
        yield Row(f"{case.name}: prior of {strength:g} samples, total", errors[strength], "")
    best = min(errors, key=lambda k: errors[k])
    name = f"{case.name}: default prior, error against the best swept"
    worse = errors[own.strength] / errors[best]
    yield at_most(name, worse, "times", PRIOR_WORSE, f"{best:g} samples")


def others(case: Case, found: Identification, tried: Sequence[str] = OTHERS) -> Iterator[Row]:
    """Yield the errors of other rows and of another smoother, and of a robust fit."""
    same = found.problem.resolved
    default = scored(case, found, found.problem)
    yield Row(f"{case.name}: as it is by default, total", default.total, "")
    settings = {
        "differentiated": Settings(same, rows="differentiated"),
        "rows and torque filtered": Settings(replace(same, torque="filtered")),
        "splines": Settings(Smoothing(method="spline", delay=same.delay)),
        HAMPEL: Settings(same, robust="hampel"),
    }
    for name in tried:
        other = identify(case.robot, case.fit, settings=settings[name])
        plain = other.problem.resolved.torque != "raw"
        problem = other.problem.with_settings(smoothing=same) if plain else other.problem
        own = scored(case, other, problem)
        left_out = sum(other.left_out.values())
        against = f"{left_out} rows of {sum(t.rows for t in other.problem.timelines)}"
        yield Row(
            f"{case.name}: {name}, total", own.total, "", against=against if left_out else None
        )
        yield Row(f"{case.name}: {name}, over the default's", own.total / default.total, "")
        yield Row(f"{case.name}: {name}, mean of joints", own.mean, "")


def run(
    case: Case,
    found: Identification,
    factors: Sequence[float] = FACTORS,
    tried: Sequence[float] = STRENGTHS,
    kinds: Sequence[str] = OTHERS,
) -> Iterator[Row]:
    """Yield all sweeps of one robot and split.

    Args:
        case: Which.
        found: What was found by default.
        factors: Of the chosen corner.
        tried: Strengths of the prior.
        kinds: Of rows, smoothers and robust fits.
    """
    yield from corners(case, found, factors)
    yield from strengths(case, found, tried)
    yield from others(case, found, kinds)
