"""What heft is compared with, and lessons: further estimators, `heft bench`, textbook forms."""

from typing import TYPE_CHECKING

from heft.loading import lazy

if TYPE_CHECKING:
    from . import bench, textbook
    from .block_median import BlockMedian
    from .driven_robot import DrivenRobot, RobotLog
    from .equation_of_motion import Dynamics
    from .essential_tests import ByLackOfFit, BySignificance
    from .forward_dynamics import Simulate, Trajectory
    from .kalman import KalmanFilter
    from .log_cholesky import LogCholesky
    from .re_estimation import ReEstimate, ReEstimation
    from .regressor_noise import ErrorsInVariables
    from .total_least_squares import TotalLeastSquares
else:
    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
