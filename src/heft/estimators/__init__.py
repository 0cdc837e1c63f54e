"""Estimators: base and physically consistent parameters from a problem's information."""

from typing import TYPE_CHECKING

from heft.loading import lazy

if TYPE_CHECKING:
    from . import noise, robust
    from .noise import Noise, autocovariance, autocorrelation_time
    from .estimate import Estimate, FromInformation
    from .least_squares import VarianceComponents
    from .least_squares import LeastSquares
    from .essential import BackwardElimination, Essential, backward_elimination, essential_standard
    from .settings import BandwidthSearch, DelayFound, DelaySearch
    from .robust import Hampel, Huber
    from .segments import BlockMedian, Ransac
    from .maximum_likelihood import MaximumLikelihood, decorrelation
    from .errors_in_variables import measured_regressor_covariance, signal_projection
    from .errors_in_variables import whitening, whitening_slopes
    from .total_least_squares import TotalLeastSquares
    from .bayesian import BayesianRegression
    from .regressor_noise import ErrorsInVariables
    from .simulated_rows import Passes, SimulatedPiece, Simulation, unknown_controller
    from .simulated_rows import InstrumentalVariables
    from .simulated_rows import OutputError
    from .kalman import KalmanFilter
    from .registry import ESTIMATORS, Estimator, Method, robust_methods
    from .feasible_set import IDENTITY, Limits, cone_metric
    from .feasible_set import KnownMass, MirrorImages
    from .consistent import ConsistentEstimate, PhysicallyConsistent, Stated, stated_numbers
    from .consistent_samples import ConsistentSampler, ConsistentSamples
    from .re_estimation import ReEstimate, ReEstimation
    from .essential import ModelDifference, StandardEstimate, TruncatedRegressor, back_projection
    from .semidefinite import NearestRobot, margin_of, nearest_robot
    from .drive_gains import ConsistentFit, DriveGains
    from .blocks import Block, Jackknife, block_moments
    from .jackknife import JackknifeFit, fit_jackknife
    from .bounds import PossibleFits, StrictBounds, strict_bounds
    from .recursive import CovarianceRecursion, Filter, State
    from .harmonic_least_squares import HarmonicEstimate, HarmonicLeastSquares
    from .state_smoother import Innovations, IteratedSmoother, LinearisedLog, SmoothedLog, System
    from .dual_quaternions import TwistInformation
    from .state_smoother import FilterError, StateFilter
else:
    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
