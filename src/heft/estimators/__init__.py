"""Problems and information as estimates."""

from . import noise, robust
from .noise import autocovariance, memory
from .estimate import Estimate
from .least_squares import LeastSquares
from .searches import Delay, DelayFound, Sharpness
from .robust import Hampel, Huber
from .segments import BlockMedian, Ransac
from .registry import ESTIMATORS, Estimator, Method, robust_methods
from .feasible_set import IDENTITY, Limits, cone_metric
from .consistent import ConsistentEstimate, PhysicallyConsistent, Stated
from .consistent import body_statistics, stated_numbers
from .drive_gains import Calibrated, DriveGains
from .conditional import fit_held
from .bounds import StrictBounds, strict_bounds
from .recursive import CovarianceRecursion, Filter, State
