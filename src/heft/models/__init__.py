"""Robot models from URDF, MJCF and Denavit-Hartenberg tables, and their export."""

from typing import TYPE_CHECKING

from heft.loading import lazy

if TYPE_CHECKING:
    from . import export, load_settings, urdf
    from .options import STANDARD_GRAVITY, JointOptions, Coupling, LinkOptions, Options, joint_lines
    from .options import GainsOptions
    from .options import ContactOptions, ControllerOptions, JointGains, SensorOptions
    from .motion_options import Box, HalfSpace, JointMotionOptions, Margins, MotionOptions
    from .motion_options import ToolCapsule
    from .denavit_hartenberg import Body, Outline, Row, outline
    from .denavit_hartenberg import expression, load_sympy, require_sensible, right_angle
    from .own_columns import OwnColumns, RegressorColumn, own_effort
    from .robot import Robot
    from .motion_options import MotionLimits
    from .limits import motion_limits, with_shapes
    from .simulators import SIMULATORS, Fields, JointFields, Simulator, mjcf_joint, shown
    from .friction_code import c_source, python_source
    from .link_shapes import LinkShape, approach, cannot_touch, carried_reach
    from .shapes import MeshFiles, MeshSearch, bounding_extent, meshes_of
    from .capsules import Capsules, fit_capsules
    from .actuators import Actuators
    from .free_flyer import FreeFlyer, InertialSensor, Load, PoseSensor, load_of
    from .free_flyer import FlightBounds, PayloadRange, flight_bounds_from_toml
    from .free_flyer import SHIPPED, free_flyer_from_toml, shipped_free_flyer
else:
    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
