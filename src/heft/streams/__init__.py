"""Messages of devices, as they come over a network."""

from .messages import Piece, Reader
from .network import Connection, Link, connected
from .page import served
