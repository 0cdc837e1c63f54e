"""Identified robots in the files of simulators, and logs replayed by them."""

from typing import TYPE_CHECKING

from heft.loading import lazy

if TYPE_CHECKING:
    from .replay import Replay, fields_of, replay_log
    from .simulator_files import export_files
else:
    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
