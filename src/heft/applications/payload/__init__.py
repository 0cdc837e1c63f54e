"""Identification of payloads: from a wrench sensor, from joint torques, or live."""

from . import payload
from .payload import Payload
from .by_wrench import Weigh
from .online import Online
from .by_torques import WeighCarried
from .live import LiveWeighing
