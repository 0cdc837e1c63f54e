"""Every estimator of base parameters by name: what `--method` and `--robust` choose from.

A further estimator is a file of this room, a line here and a line in the table of laws
(`tests/test_estimator_laws.py`); the command line's choices are compared with this table by a test.
Other distributions add theirs by entry points `heft.methods`, each a `Method` under its name; a
robust one is named among `heft.robust` too, so that the command line need not load it.
"""

from __future__ import annotations

from heft.loading import extensions

from .bayesian import BayesianRegression
from .essential import Essential
from .estimate import Method
from .least_squares import LeastSquares
from .maximum_likelihood import MaximumLikelihood
from .robust import Hampel, Huber
from .segments import Ransac
from .simulated_rows import InstrumentalVariables, OutputError


def ordinary() -> LeastSquares:
    """Return ordinary least squares, `argmin Σ_c ‖Y_c β − τ_c‖²`, with honest covariance."""
    return LeastSquares(weighting="none")


def by_ratio() -> Essential:
    """Return essential parameters until relative deviations are alike [Gautier2013]."""
    return Essential("ratio")


def by_range() -> Essential:
    """Return essential parameters until a joint loses a share of its torque's range."""
    return Essential("torque-range")


def by_periods() -> MaximumLikelihood:
    """Return maximum likelihood with the noise that periods do not repeat [Swevers1997]."""
    return MaximumLikelihood("periods")


def by_position() -> OutputError:
    """Return output error of the position, CLOE [Landau1997]."""
    return OutputError(output="position")


ESTIMATORS: dict[str, Method] = {
    "least-squares": Method(LeastSquares, "rows weighted by their channel's noise", windows=True),
    "ordinary": Method(ordinary, "all rows weigh the same", windows=True),
    "maximum-likelihood": Method(
        MaximumLikelihood, "rows weighted by the noise covariance between channels"
    ),
    "maximum-likelihood-periods": Method(
        by_periods, "the same, of the noise that periods of the motion do not repeat"
    ),
    "bayesian": Method(
        BayesianRegression, "noise supposed in every column, by a joint factor analysis"
    ),
    "huber": Method(Huber, "rows weigh less the farther off they are", robust=True),
    "hampel": Method(Hampel, "rows that stand out from their neighbours are left out", robust=True),
    "ransac": Method(Ransac, "the pieces of the log that agree with one another", robust=True),
    "essential": Method(
        Essential, "few parameters, the residual within 1 % of that of all", windows=True
    ),
    "essential-ratio": Method(by_ratio, "few parameters, relative deviations alike", windows=True),
    "essential-range": Method(
        by_range, "few parameters, by the range of each joint's torque", windows=True
    ),
    "instrumental": Method(
        InstrumentalVariables, "instruments from the motion simulated", simulates=True
    ),
    "didim": Method(OutputError, "output error of the torque simulated", simulates=True),
    "output-error": Method(by_position, "output error of the position simulated", simulates=True),
}
ESTIMATORS |= {name: entry.load() for name, entry in extensions("heft.methods").items()}


def robust_methods() -> dict[str, Method]:
    """Return the estimators that find rows that are no part of the experiment, by name."""
    return {name: method for name, method in ESTIMATORS.items() if method.robust}
