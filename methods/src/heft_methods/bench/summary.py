"""What many trials say of a candidate: bias, error over the bound, coverage, torque, time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from heft.arrays import Array
from heft.files import plain

from .experiments import Case, Truth
from .trials import Outcome

NORMAL = 1.959964  # deviations of a 95 % interval


@dataclass(frozen=True)
class Summary:
    """Statistics of a candidate over all trials of a case.

    Errors of parameters are in units of the Cramér-Rao bound of each; of these, the median and the
    90th percentile over the parameters.
    """

    case: Case  # what was simulated
    name: str  # of the candidate
    ended: int  # trials that gave an estimate
    trials: int  # all trials
    bias: tuple[float, float]  # |mean of the estimates − truth|, median and 90th percentile
    bias_known_to: float  # standard error of these means, median: bias below twice that may be none
    rmse: tuple[float, float]  # root of the mean square error, median and 90th percentile
    # ‖τ − τ̂‖/‖τ‖ of another motion, exact: median and 90th percentile over trials
    torque: tuple[float, float]
    coverage: float  # share of parameters within 95 % intervals
    consistent: float  # share of estimates of which a robot can exist
    seconds: float  # of a processor's time, median
    why: str  # why trials gave none, the commonest reason; empty if all did

    @property
    def row(self) -> dict[str, Any]:
        """All but times as JSON values, reproducible from run to run."""
        case = self.case
        own = {k: v for k, v in vars(self).items() if k not in ("case", "seconds")}
        told = {"robot": case.robot, "friction": case.friction, "noise": case.noise}
        return {**told, "seed": case.seed, **plain(own)}


def summaries(
    case: Case, truth: Truth, names: Sequence[str], outcomes: Sequence[Outcome]
) -> Iterator[Summary]:
    """Yield each candidate's statistics over the trials of a case."""
    for name in names:
        results = [o.results[name] for o in outcomes if name in o.results]
        good = [r for r in results if "failed" not in r]
        reasons = [r["failed"] for r in results if "failed" in r]
        why = max(sorted(set(reasons)), key=reasons.count) if reasons else ""
        seconds = [o.seconds[name] for o in outcomes if name in o.seconds]
        time = float(np.median(seconds)) if seconds else float("nan")
        yield _summary(case, truth, name, good, len(results), time, why)


def _summary(
    case: Case,
    truth: Truth,
    name: str,
    good: Sequence[dict[str, Any]],
    trials: int,
    seconds: float,
    why: str,
) -> Summary:
    none = float("nan")
    if not good:
        pair = (none, none)
        return Summary(case, name, 0, trials, pair, none, pair, pair, none, none, seconds, why)
    values, std = (np.array([r[k] for r in good], dtype=float) for k in ("values", "std"))
    known = np.isfinite(values).all(axis=0)
    off = ((values - truth.values) / truth.bound)[:, known]
    inside = np.abs(off) <= NORMAL * (std / truth.bound)[:, known]
    scatter = np.std(off, axis=0, ddof=1) if len(off) > 1 else np.full(off.shape[1], none)
    errors = np.array([r["error"] for r in good])
    return Summary(
        case,
        name,
        len(good),
        trials,
        _spread(np.abs(np.mean(off, axis=0))),
        float(np.median(scatter / np.sqrt(len(off)))),
        _spread(np.sqrt(np.mean(off**2, axis=0))),
        _spread(errors),
        float(np.mean(inside)),
        float(np.mean([r["physical"] for r in good])),
        seconds,
        why,
    )


def _spread(values: Array) -> tuple[float, float]:
    """Return median and 90th percentile."""
    return float(np.median(values)), float(np.quantile(values, 0.9))
