"""What is known of parameters: names, ten of a body, triangles that add, what can be known."""

from . import folding, inertia
from .parameters import Labels, Parameters
from .inertia import AXES, INERTIA_INDEX, PARAMETER_COUNT, SYMBOLS, UNITS
from .inertia import frame_change, rotation_rpy, skew
from .square_root import Information, Triangle, solve, solve_refined, triangle_of
from .identifiability import BaseParameters, DataRank, Directions, base_parameters, channel_ranks
from .identifiability import column_order, data_rank, visible_share
from .checks import Check, Verdict, verdict
