"""Messages of devices, over a network or from a log, and their alignment by stamps."""

from typing import TYPE_CHECKING

from heft.loading import lazy

if TYPE_CHECKING:
    from .messages import Piece, Reader
    from .network import ADDRESS, Certificates, Connection, Link, connected
    from .team_link import TeamConnection, TeamLink, joined
    from .live import SOURCE, Arrival, Event, Update, received, replayed, run, until_failure
    from .repetition import Changes, jumping, longest_accepted, repeated, unchanged_since
    from .alignment import COUNTS, Aligned, AlignedSamples, Alignment, AlignmentState, Device
    from .alignment import Notice
    from .page import served
else:
    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
