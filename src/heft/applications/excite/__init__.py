"""`heft excite`: design of the motion that tells most about a robot."""

from typing import TYPE_CHECKING

from heft.loading import lazy

if TYPE_CHECKING:
    from .experiment_design import Excited, ExciteSettings, excite
    from .planned import CarriedLoad, PlannedExperiment, open_experiment
    from .report import excite_files, text_of
else:
    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
