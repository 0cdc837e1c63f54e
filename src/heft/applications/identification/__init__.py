"""Identification of inertial and friction parameters from logs of motion and torque."""

from typing import TYPE_CHECKING

from heft.loading import lazy

if TYPE_CHECKING:
    from . import any_plant, compare_report, report, results
    from .limits import Limit, Limits
    from .settings import RowKind, Settings
    from .preparation import Progress, about_first_fit, sharpened_and_delayed, silent
    from .earlier import Earlier
    from .selection import Kept, Selection
    from .gains import gain_spread
    from .opening import limits_of, open_experiment
    from .fit import ExperimentFit, fit_experiment
    from .identification import Identification
    from .inputs import Inputs
    from .robots import Judged, identify, identify_files, with_told_friction
    from .any_plant import PlantIdentification, identify_plant
    from .results import refuse_foreign, schema, write
    from .identified import Identified, identified_model
    from .further_motion import next_motion
    from .comparison import compare
else:
    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
