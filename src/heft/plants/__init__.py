"""Plants, which turn signals into regressor rows, and the estimation problem with recordings."""

from typing import TYPE_CHECKING

from heft.loading import lazy

if TYPE_CHECKING:
    from .plant import Channel, ChannelSides, Coordinate, Excitable, Fused, Inputs, Integrable
    from .plant import Limbed, Measured, MotionSignal, Plant, PointSensitive
    from .plant import Predicting, Rows, Samples, Sides, WithUnknowns
    from .rows import Elimination, Equations, Residuals
    from .base import extended_base, structural_base
    from .parts import WrenchSensor, both_sides
    from .robot import RobotMotion, RobotPlant, SensedRobotPlant
    from .robot_rows import random_drive_state, random_states, rows_of, standard_rows
    from .robot_signals import effort_signals, position_signals
    from .attitude import FLAT_ORDERS, Turning, flat_attitude
    from .free_body import FreeBody
    from .free_flyer import Combinations, FlatFlyerPlant, FreeFlyerPlant
    from .floating_robot import ContactEfforts, FloatingMotion, FloatingRobotPlant
    from .unsure_gains import GAIN, UnsureGains, UnsureGainsPlant, without_gains
    from .elastic_robot import GEAR, ElasticMotion, ElasticRobotPlant
    from .elastic_robot import plant_of, with_logged_gears
    from .problem import Problem, point_moments
    from .payload_on_robot import GUESS, NAME, carrying, currents, last_frame, load_columns
    from .payload_on_robot import with_load
    from .excitable_robot import ExcitableLoad, ExcitableRobot, with_smooth_friction
    from .segments import Segments
    from .wrench_sensor import CHANNEL_UNITS, CHANNELS, GAP_STEPS, GraspingPoint, Held, Point
    from .wrench_sensor import Unknowns, at_first, linearised, noise_covariance, sides, whitened
    from .servo import ServoPlant
    from .held_body import HeldBody, HeldMotion, recording_of
else:
    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
