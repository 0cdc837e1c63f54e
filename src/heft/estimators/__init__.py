"""Estimators: base and physically consistent parameters from a problem's information."""

from typing import TYPE_CHECKING

from heft.loading import lazy

if TYPE_CHECKING:
    from . import noise, robust, segments
    from .noise import autocorrelation_time, autocovariance
    from .estimate import Estimate, Estimator, FromInformation, Method, Noise, Polish
    from .problem import Problem, Residuals, Rows, mixes_channels
    from .least_squares import LeastSquares, VarianceComponents, estimate_at
    from .term_sizes import evident_variances, with_term_sizes
    from .essential import BackwardElimination, Essential, ModelDifference, StandardEstimate
    from .essential import TruncatedRegressor, back_projection, backward_elimination
    from .essential import essential_standard
    from .robust import Hampel, Huber
    from .segments import Ransac
    from .maximum_likelihood import MaximumLikelihood, decorrelation
    from .errors_in_variables import measured_regressor_covariance, signal_projection, whitening
    from .errors_in_variables import whitening_slopes
    from .bayesian import BayesianRegression
    from .simulated_rows import InstrumentalVariables, OutputError, Passes, SimulatedPiece
    from .simulated_rows import Simulation, unknown_controller
    from .registry import ESTIMATORS, robust_methods
    from .feasible_set import BASIS, IDENTITY, UPPER, KnownMass, Limits, LinearConstraints
    from .feasible_set import MirrorImages, cone_metric, linear_constraints, scaled_metric, stack
    from .feasible_set import unstack
    from .consistent import ConsistentEstimate, PhysicallyConsistent, Stated, stated_numbers
    from .semidefinite import FALLING, NearestRobot, conic_settings, margin_of, nearest_robot
    from .semidefinite import nonnegative
    from .drive_gains import ConsistentFit, DriveGains, inverse_root
    from .hierarchy import TypeLaw
    from .recursive import CovarianceRecursion, Filter, State
    from .harmonic_least_squares import HarmonicEstimate, HarmonicLeastSquares
    from .state_smoother import FilterError, Innovations, IteratedSmoother, LinearisedLog
    from .state_smoother import SmoothedLog, StateFilter, System
    from .dual_quaternions import TwistInformation
    from .problem import MovableProblem
    from .scaled_rows import Scaled, inverse_of, limbs
else:
    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
