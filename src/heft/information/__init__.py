"""Information about parameters: labels, inertial parameters, square-root form, identifiability."""

from typing import TYPE_CHECKING

from heft.loading import lazy

if TYPE_CHECKING:
    from . import folding, inertia
    from .parameters import Labels, Parameters
    from .inertia import AXES, INERTIA_INDEX, PARAMETER_COUNT, SYMBOLS, UNITS
    from .inertia import frame_change
    from .rotation import angular_velocity, continuous_quaternions, matrix_of_axis_angle
    from .rotation import matrix_of_quaternion, matrix_of_rotation_vector, matrix_of_rpy
    from .rotation import quaternion_of_matrix, rotation_vector_between, rotation_vector_of_matrix
    from .rotation import cross, rpy_of_matrix, skew
    from .channel_rows import ChannelRows
    from .connectivity import Component, components, connected, first_connected, gram
    from .bordered import Arrow, Bordered, BorderedInverse, orthogonal_sets, sandwich, triangle_of
    from .square_root import Information, Summed, Triangle
    from .identifiability import BaseParameters, DataRank, Directions, base_parameters
    from .identifiability import channel_ranks, column_order, data_rank, decomposition, solve
    from .identifiability import inverses, shortest, visible_share
    from .selection import SegmentSelection, Selected
    from .parameter_space import ParameterSpace, sparse
    from .consensus import Graph, Spectrum, averaged, chebyshev, consensus_maps
    from .checks import SEVERITIES, Check, Finding, Severity, Verdict, verdict
else:
    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
