"""`heft servo`: one servo on a bench, or an arm of them: torque, back-EMF, friction, rotor."""

from typing import TYPE_CHECKING

from heft.loading import lazy

if TYPE_CHECKING:
    from . import hidden
    from .bench import Bench, ServoLog, open_logs
    from .firmware import Firmware
    from .episodes import ArmBench, Episode, open_episodes
    from .identified_arm import IdentifiedArm, identify_arm, identify_arm_files
    from .identified import IdentifiedServo, identify_bench, identify_files
else:
    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
