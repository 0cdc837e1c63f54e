"""What an experiment would look like: forward dynamics, and an independent simulator."""

from .arms import Arm, Inertial
from .equation_of_motion import Dynamics
from .forward_dynamics import Simulate, Trajectory
from .motions import Knots, Limits, Motion, MotionKind, Moves, Sines, draw_motion
from .sensors import Calibration, Sensors
from .simulated_drives import (
    Coulomb,
    Dahl,
    Drive,
    DriveRanges,
    Load,
    LuGre,
    Offset,
    Ripple,
    Spring,
    Viscous,
    Warming,
)
from .simulated_models import whole_robot
from .simulator import Condition, Controller, ExactMotion, SimulatedExperiment, Simulator
