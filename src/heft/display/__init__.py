"""Pages, curves, tables and scenes, in bounded memory."""

from typing import TYPE_CHECKING

from heft.loading import lazy

if TYPE_CHECKING:
    from . import animation, page, verdict
    from .text import rounded, split_sum, table
    from .curves import Curve, Stretch, Trace, Tracer, moments
    from .scene import ASIDE, Body, Sticks, bones, ellipsoid, ends, placed, seen_from, solids
    from .templates import parts, policy_of, render
    from .page import Plot, Series, Table, over_time
else:
    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
