"""Experiments: their design, their closed loop, and an independent simulator."""

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
    from .arms import Arm, Inertial
    from .bounded_motions import BoundedMotion, HarmonicMotion, SplineMotion
    from .certificates import Certificate, Loads, Proof, certify_clearance, certify_efforts
    from .certificates import certify_joints
    from .clearance import Clearance, PairChoice
    from .closed_loop import ClosedLoop, FollowedMotion
    from .simulated_robot import Numbers, SimulatedRobot
    from .motions import Knots, Limits, Motion, MotionKind, Moves, Sines, draw_motion
    from .sensors import Calibration, Sensors
    from .simulated_drives import Coulomb, Dahl, Drive, DriveRanges, Load, LuGre, Offset, Ripple
    from .simulated_drives import Spring, Viscous, Warming
    from .simulated_models import whole_robot
    from .simulator import Condition, Controller, ExactMotion, Passive
    from .simulator import SimulatedExperiment, Simulator
    from .flight_design import design_flight
    from .flyer_model import FlyerModel
    from .flight_reference import FlightReference
    from .predictive_tracking import Plan, PredictiveTracking, TrackingSettings
    from .flight_filter import FilterSettings, FlightFilter
    from .free_flyer_world import FlightState, FreeFlyerWorld, Thruster
    from .free_flight import Flight, FlightFaults, FlightSettings, FlightTruth, fly
    from .free_flight import information_of, stated_errors
    from .team import SharedBody, SimulatedTeam, Team, TeamMotion, TeamNoise
else:
    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
