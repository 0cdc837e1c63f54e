"""heft: what a robot weighs, how much friction it has, and how sure that is, from its logs.

The names that most programs need, each loaded when it is first used.
"""

from .loading import lazy, refuse_shadows

refuse_shadows()

from typing import TYPE_CHECKING  # noqa: E402 - of Python's own library, by now

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .applications.identification import Identification, Identified
    from .applications.identification import compare, identify, identify_files, write
    from .applications.payload import Weigh, WeighCarried
    from .applications.predict import predict_files
    from .errors import HeftError
    from .estimators import Estimate, LeastSquares, PhysicallyConsistent
    from .fit import PlantIdentification, Settings, identify_plant
    from .information import Information, Labels, Parameters
    from .models import Coupling, JointOptions, Options, RegressorColumn, Robot
    from .plants import FreeBody, Problem, RobotPlant
    from .recordings import ColumnMap, Recording
    from .signals import Smoothing, Weak
else:
    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
