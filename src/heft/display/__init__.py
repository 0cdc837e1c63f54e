"""Pages, curves, tables and scenes, in bounded memory."""

from . import animation, page, verdict
from .text import count_terms, rounded, split_sum, table
from .curves import Stretch, Trace, Tracer
from .scene import bones, ellipsoid, ends
from .templates import policy_of, render
from .page import Body, Plot, Scene, Series, Table
