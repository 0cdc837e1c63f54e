"""What an experiment would look like: forward dynamics."""

from .forward_dynamics import Dynamics, Simulate, Trajectory
