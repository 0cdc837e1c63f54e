"""Design of the motion that tells most, the limits it keeps, and the proofs that it does."""

from typing import TYPE_CHECKING

from heft.loading import lazy

if TYPE_CHECKING:
    from . import criteria
    from .trajectories import BASES, ExcitationTrajectory, Family, Fourier, Spline
    from .criteria import Conditions, Criterion, PredictedError
    from .limits import Broken, EffortLimits, DesignLimits, JointLimits
    from .limits import link_deviations
    from .design_settings import DesignSettings, Grids, SolverSettings
    from .excitation import Excitation, excitation_of, task_error
    from .starts import Progress, Start
    from .optimal_design import Design, base_positions, default_noise, design, noise_of
    from .certificates import BoundedMotion, bounded_motion
    from .certificates import Certificate, Proof, certify_clearance, certify_joints
    from .effort_proofs import Loads, certify_efforts
    from .clearance import Clearance
else:
    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
