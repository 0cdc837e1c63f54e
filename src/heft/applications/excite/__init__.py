"""`heft excite`: design of the motion that tells most about a robot."""

from .excite import Excited, ExciteSettings, excite
from .planned import CarriedLoad, Doubt, PlannedExperiment, open_experiment
from .report import text_of
from .results import excite_files
