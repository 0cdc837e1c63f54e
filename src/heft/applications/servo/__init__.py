"""`heft servo`: torque constant, back-EMF, friction and rotor of one servo on a bench."""

from typing import TYPE_CHECKING

from heft.loading import lazy

if TYPE_CHECKING:
    from . import hidden
    from .bench import Bench, ServoLog, open_logs
    from .firmware import Firmware
    from .identified import IdentifiedServo, identify_bench, identify_files
else:
    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
