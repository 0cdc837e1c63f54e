"""heft: what a robot weighs, how much friction it has, and how sure that is, from its logs.

The names that most programs need, each loaded when it is first used.
"""

import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

FACE = {
    "heft.errors": ("HeftError",),
    "heft.information": ("Information", "Labels", "Parameters"),
    "heft.recordings": ("ColumnMap", "Recording"),
    "heft.models": ("Coupling", "JointOptions", "Options", "RegressorColumn", "Robot"),
    "heft.signals": ("Smoothing", "Weak"),
    "heft.plants": ("FreeBody", "Problem", "RobotPlant"),
    "heft.estimators": ("Estimate", "LeastSquares", "PhysicallyConsistent"),
    "heft.experiments": ("Dynamics", "Simulate"),
    "heft.applications.identification": (
        *("Identification", "Identified", "Settings", "compare", "identify", "identify_files"),
        *("PlantIdentification", "identify_plant", "write"),
    ),
    "heft.applications.predict": ("predict_files",),
    "heft.applications.payload": ("Weigh", "WeighCarried"),
}
ROOM_OF = {name: room for room, names in FACE.items() for name in names}
__all__ = ["__version__", *sorted(ROOM_OF)]
# What must come from where it is installed: Python's own modules, heft's and their dependencies.
LIBRARIES = sys.stdlib_module_names - {"test", "this", "antigravity", "idlelib"} | {
    *("numpy", "scipy", "numba", "llvmlite", "clarabel", "pyarrow", "pandas", "threadpoolctl"),
    *("cyclopts", "rich", "rich_rst", "docutils", "docstring_parser", "attr", "attrs", "tomlkit"),
    *("jinja2", "markupsafe", "yaml", "cffi", "coal", "mujoco", "daqp", "viser", "trimesh"),
    *("mcap", "rosbags", "pyulog", "zenoh", "sympy"),
}

if TYPE_CHECKING:
    from heft.applications.identification import (
        PlantIdentification,
        identify_plant,
        Identification,
        Identified,
        Settings,
        write,
    )
    from heft.applications.identification.compare import compare
    from heft.applications.identification.identify import identify, identify_files
    from heft.applications.payload import Weigh, WeighCarried
    from heft.applications.predict import predict_files
    from heft.errors import HeftError
    from heft.estimators import Estimate, LeastSquares, PhysicallyConsistent
    from heft.experiments import Dynamics, Simulate
    from heft.information import Information, Labels, Parameters
    from heft.models import Coupling, JointOptions, Options, RegressorColumn, Robot
    from heft.plants import FreeBody, Problem, RobotPlant
    from heft.recordings import ColumnMap, Recording
    from heft.signals import Smoothing, Weak


def _refuse_shadows() -> None:
    """Refuse to start where the current folder holds a module that heft would run unasked.

    `python -c`, `python -m` and notebooks look for modules in the current folder first, where
    people have their logs.

    Raises:
        ImportError: If a file there has the name of a library that is not loaded yet.
    """
    with suppress(OSError):  # there is no current folder, or nobody may look into it
        here = os.getcwd()
        if not any(os.path.abspath(p) == here for p in sys.path):
            return
        for entry in os.scandir(here):
            name = entry.name.partition(".")[0]
            runs = entry.name.endswith((".py", ".pyc", ".so", ".pyd")) or os.path.isfile(
                os.path.join(entry.path, "__init__.py")
            )
            if runs and name not in sys.modules and name in LIBRARIES:
                raise ImportError(
                    f"'{entry.name}' in the current folder would be run in place of the library "
                    f"'{name}': rename it, or start Python with -P"
                )


_refuse_shadows()


def __getattr__(name: str) -> object:
    """Load a public name from its room [PEP 562]."""
    if name not in ROOM_OF:
        raise AttributeError(f"module 'heft' has no attribute '{name}'")
    return getattr(import_module(ROOM_OF[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *ROOM_OF]
