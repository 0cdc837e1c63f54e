"""Messages of devices, over a network or from a log, and their alignment by stamps."""

from .messages import Piece, Reader
from .network import ADDRESS, Certificates, Connection, Link, connected
from .team_link import TeamConnection, TeamLink, joined
from .sources import Arrival, received, replayed, until_failure
from .repetition import Changes, Standstill, repeated, unchanged_since
from .alignment import COUNTS, Aligned, AlignedSamples, Alignment, AlignmentState, Device, Notice
from .page import served
