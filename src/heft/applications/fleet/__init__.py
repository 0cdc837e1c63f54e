"""`heft fleet`: what many robots tell, day by day, each and together."""

from typing import TYPE_CHECKING

from heft.loading import lazy

if TYPE_CHECKING:
    from .catalog import Catalog, Log, RobotType, day_in
    from .folding import Answer, Folded, Preparation, Prepared, Quantity, fold, prepared, together
    from .reading import Engine, FleetSettings, Refused, RobotAnswer, read
    from .filing import Foreign, Misfiled
    from .fleet import Due, Fleet, RobotFindings, TypeFindings, identify, text
else:
    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
