"""Every estimator of base parameters by name: what `--method` and `--robust` choose from.

A further estimator is a file of this room, a line here and a line in the table of laws
(`tests/test_estimator_laws.py`); the command line's choices are compared with this table by a test.
Other distributions add theirs by entry points `heft.methods`, each a `Method` under its name; a
robust one is named among `heft.robust` too, so that the command line need not load it.
"""

from __future__ import annotations

from functools import partial

from heft.loading import extensions, on_demand

from .essential import Essential
from .estimate import Method
from .least_squares import LeastSquares
from .robust import Hampel, Huber
from .simulated_rows import InstrumentalVariables, OutputError

on_demand("heft.estimators", "bayesian", "maximum_likelihood", "segments")

from . import bayesian, maximum_likelihood, segments  # noqa: E402

ESTIMATORS: dict[str, Method] = {
    "least-squares": Method(LeastSquares, "rows weighted by their channel's noise", windows=True),
    "ordinary": Method(
        partial(LeastSquares, weighting="none"), "all rows weigh the same", windows=True
    ),
    "maximum-likelihood": Method(
        lambda: maximum_likelihood.MaximumLikelihood(),
        "rows weighted by the noise covariance between channels",
    ),
    "maximum-likelihood-periods": Method(
        # [Swevers1997]
        lambda: maximum_likelihood.MaximumLikelihood("periods"),
        "the same, of the noise that periods of the motion do not repeat",
    ),
    "bayesian": Method(
        lambda: bayesian.BayesianRegression(),
        "noise supposed in every column, by a joint factor analysis",
    ),
    "huber": Method(Huber, "rows weigh less the farther off they are", robust=True),
    "hampel": Method(Hampel, "rows that stand out from their neighbours are left out", robust=True),
    "ransac": Method(
        lambda: segments.Ransac(), "the pieces of the log that agree with one another", robust=True
    ),
    "essential": Method(
        Essential, "few parameters, the residual within 1 % of that of all", windows=True
    ),
    "essential-ratio": Method(  # [Gautier2013]
        partial(Essential, "ratio"), "few parameters, relative deviations alike", windows=True
    ),
    "essential-range": Method(
        partial(Essential, "torque-range"),
        "few parameters, by the range of each joint's torque",
        windows=True,
    ),
    "instrumental": Method(
        InstrumentalVariables, "instruments from the motion simulated", simulates=True
    ),
    "didim": Method(OutputError, "output error of the torque simulated", simulates=True),
    "output-error": Method(  # CLOE [Landau1997]
        partial(OutputError, output="position"),
        "output error of the position simulated",
        simulates=True,
    ),
}
ESTIMATORS |= {name: entry.load() for name, entry in extensions("heft.methods").items()}


def robust_methods() -> dict[str, Method]:
    """Return the estimators that find rows that are no part of the experiment, by name."""
    return {name: method for name, method in ESTIMATORS.items() if method.robust}
