"""What a robot weighs, and how much friction it has."""

from . import checks, compare_report, report, results
from .settings import Settings
from .preparation import Progress, silent
from .fit import ExperimentFit, fit_experiment, gain_spread, open_experiment
from .identification import Identification
from .identify import describe, identify, identify_files
from .results import Identified, refuse_foreign, write
from .compare import compare
