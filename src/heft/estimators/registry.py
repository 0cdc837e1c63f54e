"""Every estimator of base parameters by name: what `--method` and `--robust` choose from.

A further estimator is a file of this room, a line here and a line in the table of laws
(`tests/test_estimator_laws.py`); the command line's choices are compared with this table by a test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from .bayesian import BayesianRegression
from .essential import Essential
from .estimate import Estimate
from .kalman import KalmanFilter
from .least_squares import LeastSquares
from .maximum_likelihood import MaximumLikelihood
from .problem import Problem
from .regressor_noise import ErrorsInVariables
from .robust import Hampel, Huber
from .segments import BlockMedian, Ransac
from .simulated_rows import InstrumentalVariables, OutputError
from .total_least_squares import TotalLeastSquares


class Estimator(Protocol):
    """An estimator of base parameters: frozen settings with one verb."""

    def fit(self, problem: Problem, /) -> Estimate:
        """Return base parameters β with their covariance, from a problem's rows."""
        ...


@dataclass(frozen=True)
class Method:
    """An estimator with its default settings, as `heft identify --method` offers it."""

    make: Callable[[], Estimator]  # makes it
    summary: str  # what it does, for help
    robust: bool = False  # whether it finds rows that are no part of the experiment
    # of the physically consistent estimate that follows; see `PhysicallyConsistent`
    solver: Literal["conic", "log-cholesky"] = "conic"
    # whether it needs a simulation of the experiment, its field `simulate`, and hence the
    # controller that the experiment was made with
    simulates: bool = False
    # whether it moves the robot by the torque that was measured, its field `simulate`, and hence
    # needs friction without a memory, but no controller
    driven: bool = False
    # whether rows of the weak form suit it; others look at the noise of each sample, or make up for
    # what the motion's noise does
    windows: bool = False

    def __call__(self) -> Estimator:
        """Return the estimator."""
        return self.make()


def ordinary() -> LeastSquares:
    """Return ordinary least squares, `argmin Σ_c ‖Y_c β − τ_c‖²`, with honest covariance."""
    return LeastSquares(weighting="none")


def by_ratio() -> Essential:
    """Return essential parameters until relative deviations are alike [Gautier2013]."""
    return Essential("ratio")


def by_f_test() -> Essential:
    """Return essential parameters until what is dropped is significant [Janot2014]."""
    return Essential("f-statistic")


def by_fit() -> Essential:
    """Return essential parameters until the residual's mean square rises."""
    return Essential("lack-of-fit")


def by_range() -> Essential:
    """Return essential parameters until a joint loses a share of its torque's range."""
    return Essential("torque-range")


def by_periods() -> MaximumLikelihood:
    """Return maximum likelihood with the noise that periods do not repeat [Swevers1997]."""
    return MaximumLikelihood("periods")


def by_effective_variance() -> ErrorsInVariables:
    """Return maximum likelihood by the effective variance [Orear1982]."""
    return ErrorsInVariables("effective-variance")


def by_position() -> OutputError:
    """Return output error of the position, CLOE [Landau1997]."""
    return OutputError(output="position")


def by_sigma_points() -> KalmanFilter:
    """Return the unscented Kalman filter of state and parameters [Julier2004]."""
    return KalmanFilter("unscented")


def by_square_root() -> KalmanFilter:
    """Return the square-root unscented Kalman filter of state and parameters [Merwe2001]."""
    return KalmanFilter("square-root")


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
    "total-least-squares": Method(
        TotalLeastSquares, "all columns off by as much as the torque; for comparison"
    ),
    "errors-in-variables": Method(
        ErrorsInVariables, "corrected for the regressor's noise that periods of the motion show"
    ),
    "effective-variance": Method(
        by_effective_variance, "maximum likelihood with that noise; for comparison"
    ),
    "log-cholesky": Method(
        LeastSquares,
        "least squares; log-Cholesky steps to consistent bodies",
        solver="log-cholesky",
        windows=True,
    ),
    "huber": Method(Huber, "rows weigh less the farther off they are", robust=True),
    "hampel": Method(Hampel, "rows that stand out from their neighbours are left out", robust=True),
    "blocks": Method(BlockMedian, "the median of what blocks of the log say", robust=True),
    "ransac": Method(Ransac, "the pieces of the log that agree with one another", robust=True),
    "essential": Method(
        Essential, "few parameters, the residual within 1 % of that of all", windows=True
    ),
    "essential-ratio": Method(by_ratio, "few parameters, relative deviations alike", windows=True),
    "essential-f": Method(by_f_test, "few parameters, by F-tests", windows=True),
    "essential-fit": Method(by_fit, "few parameters, by the residual's mean square", windows=True),
    "essential-range": Method(
        by_range, "few parameters, by the range of each joint's torque", windows=True
    ),
    "instrumental": Method(
        InstrumentalVariables, "instruments from the motion simulated", simulates=True
    ),
    "didim": Method(OutputError, "output error of the torque simulated", simulates=True),
    "output-error": Method(by_position, "output error of the position simulated", simulates=True),
    "kalman": Method(
        KalmanFilter, "extended Kalman filter of state and parameters; for comparison", driven=True
    ),
    "kalman-unscented": Method(by_sigma_points, "the same, unscented", driven=True),
    "kalman-square-root": Method(by_square_root, "the same, square-root unscented", driven=True),
}


def robust_methods() -> dict[str, Method]:
    """Return the estimators that find rows that are no part of the experiment, by name."""
    return {name: method for name, method in ESTIMATORS.items() if method.robust}
