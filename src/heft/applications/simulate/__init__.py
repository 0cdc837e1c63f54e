"""Simulation of an experiment: a motion run on a model in MuJoCo, its log and the truth."""

from typing import TYPE_CHECKING

from heft.loading import lazy

if TYPE_CHECKING:
    from .motion_files import Demanded, read_motion
    from .settings import CORNER, RATE, SEED, ControllerName, SimulationSettings
    from .simulate import Simulated, simulate_files
else:
    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
