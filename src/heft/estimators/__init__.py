"""Estimators: base and physically consistent parameters from a problem's information."""

from typing import TYPE_CHECKING

from heft.loading import lazy

if TYPE_CHECKING:
    from . import noise, robust, segments
    from .noise import Noise, autocovariance, autocorrelation_time
    from .estimate import Estimate, FromInformation
    from .problem import Problem, Residuals, Rows, mixes_channels
    from .variance_components import VarianceComponents
    from .moved_optimum import estimate_at
    from .least_squares import LeastSquares
    from .essential import BackwardElimination, Essential, backward_elimination, essential_standard
    from .delay_search import DelaySearch, DelayFound
    from .bandwidth_search import BandwidthSearch
    from .robust import Hampel, Huber
    from .segments import Ransac
    from .maximum_likelihood import MaximumLikelihood, decorrelation
    from .errors_in_variables import measured_regressor_covariance, signal_projection
    from .errors_in_variables import whitening, whitening_slopes
    from .bayesian import BayesianRegression
    from .simulated_rows import Passes, SimulatedPiece, Simulation, unknown_controller
    from .instrumental import InstrumentalVariables
    from .output_error import OutputError
    from .method import Estimator, Method, Polish
    from .registry import ESTIMATORS, robust_methods
    from .feasible_set import IDENTITY, Limits, cone_metric, stack, unstack
    from .known_bodies import KnownMass, MirrorImages
    from .consistent import ConsistentEstimate, PhysicallyConsistent, Stated, stated_numbers
    from .consistent_samples import ConsistentSampler, ConsistentSamples
    from .standard import ModelDifference, StandardEstimate, TruncatedRegressor, back_projection
    from .existence import NearestRobot, margin_of, nearest_robot
    from .drive_gains import ConsistentFit, DriveGains
    from .blocks import Block, Jackknife, block_moments
    from .jackknife import JackknifeFit, fit_jackknife
    from .bounds import PossibleFits, StrictBounds, strict_bounds
    from .recursive import CovarianceRecursion, Filter, State
    from .harmonic_least_squares import HarmonicEstimate, HarmonicLeastSquares
    from .state_smoother import Innovations, IteratedSmoother, LinearisedLog, SmoothedLog, System
    from .dual_quaternions import TwistInformation
    from .state_filter import FilterError, StateFilter
else:
    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
