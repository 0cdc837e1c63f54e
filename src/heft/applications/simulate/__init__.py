"""Simulation of an experiment: a motion run on a model in MuJoCo, its log and the truth."""

from .motion_files import Demanded, read_motion
from .settings import ControllerName, SimulationSettings
from .simulate import Simulated, simulate_files
