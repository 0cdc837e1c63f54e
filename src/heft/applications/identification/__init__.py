"""Identification of inertial and friction parameters from logs of motion and torque."""

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
from .identify import Judged, identify, identify_files, with_told_friction
from .any_plant import PlantIdentification, identify_plant
from .results import refuse_foreign, schema, write
from .identified import Identified, identified_model
from .next_motion import next_motion
from .compare import compare
