"""Identification of payloads: from a wrench sensor, from joint torques, or live."""

from typing import TYPE_CHECKING

from heft.loading import lazy

if TYPE_CHECKING:
    from . import payload, report
    from .payload import Payload
    from .by_wrench import Weigh
    from .online import Online
    from .by_torques import WeighCarried
    from .from_files import carried, carry_files, weigh_files, weighed
    from .live import LiveWeighing
else:
    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
