"""What is in the gripper."""

from . import payload
from .payload import Payload
from .by_wrench import Weigh
from .online import Follow
from .by_torques import WeighCarried
from .live import Run, stopped_by_signals
