"""What an experiment would look like: forward dynamics."""

from .equation_of_motion import Dynamics
from .forward_dynamics import Simulate, Trajectory
