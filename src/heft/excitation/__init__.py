"""Design of the motion that tells most, the limits it keeps, and the proofs that it does."""

from typing import TYPE_CHECKING

from heft.loading import lazy

if TYPE_CHECKING:
    from . import criteria
    from .trajectories import BASES, ExcitationTrajectory, Family, Fourier, Spline
    from .criteria import Conditions, Criterion, PredictedError
    from .limits import Broken, EffortLimits, DesignLimits, JointLimits
    from .limits import link_deviations
    from .excitation import Excitation, Grids, excitation_of, task_error
    from .augmented_lagrangian import Progress, SolverSettings
    from .design_settings import DesignSettings
    from .starts import Start
    from .optimal_design import Design, base_positions, default_noise, design, noise_of
    from .bounded_motions import BoundedMotion, HarmonicMotion, SplineMotion
    from .certificates import Certificate, Loads, Proof, certify_clearance, certify_efforts
    from .certificates import certify_joints
    from .clearance import Clearance, PairChoice
else:
    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
