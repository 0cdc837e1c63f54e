"""Estimators to compare heft's with, as `heft identify --method` and `heft bench` name them.

Each stands among the entry points of `methods/pyproject.toml` under its name.
"""

from __future__ import annotations

from heft.estimators import LeastSquares, Method

from .block_median import BlockMedian
from .driven_robot import DrivenRobot
from .essential_tests import ByLackOfFit, BySignificance
from .kalman import KalmanFilter
from .log_cholesky import LogCholesky
from .regressor_noise import ErrorsInVariables
from .total_least_squares import TotalLeastSquares

total_least_squares = Method(
    TotalLeastSquares, "all columns off by as much as the torque; for comparison"
)
errors_in_variables = Method(
    ErrorsInVariables, "corrected for the regressor's noise that periods of the motion show"
)
effective_variance = Method(
    lambda: ErrorsInVariables("effective-variance"),
    "maximum likelihood with that noise; for comparison",
)
log_cholesky = Method(
    LeastSquares,
    "least squares; log-Cholesky steps to consistent bodies",
    polish=LogCholesky(),
    windows=True,
)
blocks = Method(BlockMedian, "the median of what blocks of the log say", robust=True)
essential_f = Method(BySignificance, "few parameters, by F-tests", windows=True)
essential_fit = Method(ByLackOfFit, "few parameters, by the residual's mean square", windows=True)
kalman = Method(
    KalmanFilter,
    "extended Kalman filter of state and parameters; for comparison",
    require=DrivenRobot,
)
kalman_unscented = Method(
    lambda: KalmanFilter("unscented"), "the same, unscented", require=DrivenRobot
)
kalman_square_root = Method(
    lambda: KalmanFilter("square-root"), "the same, square-root unscented", require=DrivenRobot
)
