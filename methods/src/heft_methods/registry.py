"""Estimators to compare heft's with, as `heft identify --method` and `heft bench` name them.

Each stands among the entry points of `methods/pyproject.toml` under its name.
"""

from __future__ import annotations

from heft.estimators import LeastSquares, Method
from heft.loading import on_demand
from heft.models import Robot

from .log_cholesky import LogCholesky

on_demand("heft_methods", "block_median", "driven_robot", "essential_tests", "kalman")
on_demand("heft_methods", "regressor_noise", "total_least_squares")

from . import block_median, driven_robot, essential_tests, regressor_noise  # noqa: E402
from . import kalman as filters  # noqa: E402
from . import total_least_squares as total  # noqa: E402


def _driven(robot: Robot) -> object:
    return driven_robot.DrivenRobot(robot)


total_least_squares = Method(
    lambda: total.TotalLeastSquares(), "all columns off by as much as the torque; for comparison"
)
errors_in_variables = Method(
    lambda: regressor_noise.ErrorsInVariables(),
    "corrected for the regressor's noise that periods of the motion show",
)
effective_variance = Method(
    lambda: regressor_noise.ErrorsInVariables("effective-variance"),
    "maximum likelihood with that noise; for comparison",
)
log_cholesky = Method(
    LeastSquares,
    "least squares; log-Cholesky steps to consistent bodies",
    polish=LogCholesky(),
    windows=True,
)
blocks = Method(
    lambda: block_median.BlockMedian(), "the median of what blocks of the log say", robust=True
)
essential_f = Method(
    lambda: essential_tests.BySignificance(), "few parameters, by F-tests", windows=True
)
essential_fit = Method(
    lambda: essential_tests.ByLackOfFit(),
    "few parameters, by the residual's mean square",
    windows=True,
)
kalman = Method(
    lambda: filters.KalmanFilter(),
    "extended Kalman filter of state and parameters; for comparison",
    require=_driven,
)
kalman_unscented = Method(
    lambda: filters.KalmanFilter("unscented"), "the same, unscented", require=_driven
)
kalman_square_root = Method(
    lambda: filters.KalmanFilter("square-root"), "the same, square-root unscented", require=_driven
)
