"""What an experiment would look like: forward dynamics, and an independent simulator."""

from .arms import Arm, Inertial
from .bounded_motions import BoundedMotion, HarmonicMotion, SplineMotion
from .certificates import Certificate, Loads, Proof, certify_clearance, certify_efforts
from .certificates import certify_joints
from .clearance import Clearance, PairChoice
from .equation_of_motion import Dynamics
from .forward_dynamics import Simulate, Trajectory
from .motions import Limits, Motion, MotionKind, Moves, Sines, draw_motion
from .sensors import Sensors
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
from .simulator import Condition, Controller, ExactMotion, SimulatedExperiment, Simulator
