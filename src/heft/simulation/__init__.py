"""Simulated experiments: independent of heft's models in MuJoCo, and of a log in closed loop."""

from typing import TYPE_CHECKING

from heft.loading import lazy

if TYPE_CHECKING:
    from .bodies import FlightState, FreeFlyerWorld, Inertial, Thruster
    from .arms import Arm, whole_robot
    from .closed_loop import ClosedLoop, FollowedMotion
    from .simulated_robot import Numbers, Actuation, SimulatedRobot
    from .engine_replay import STANDSTILL, MujocoReplay, moved_by_heft, moved_to_goals
    from .other_engines import MODULES, OtherEngine, other_engine, python_of
    from .motions import Knots, Limits, Motion, MotionKind, Moves, Sines, draw_motion
    from .sensors import Calibration, Sensors, coloured
    from .simulated_drives import Coulomb, Dahl, Drive, DriveRanges, FrictionKind, Load, LuGre
    from .simulated_drives import Offset, Ripple, Size, Spring, Viscous, Warming
    from .simulator import Condition, Controller, ExactMotion, Passive
    from .simulator import SimulatedExperiment, Simulator
    from .team import SimulatedTeam, Team, TeamMotion, TeamNoise
else:
    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
