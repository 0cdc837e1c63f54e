"""Recordings: log files as named signals over time in SI units, and their conversion."""

from typing import TYPE_CHECKING

from heft.loading import lazy

if TYPE_CHECKING:
    from .formats import BLOCK_ROWS, Format, Table, Topics, channels_of, is_log, read_table
    from .formats import require_log, write_table
    from .formats.table import unwrapped
    from .formats.json_lines import json_rows
    from .formats.layouts import Decoder, Group, Malformed
    from .formats.message_log import KINDS, Channel, full_name
    from .formats.messages import read_group, stamps_of, types_of
    from .columns import JOINT_KINDS, UNITS, ColumnMap, SignalMap
    from .recording import Recording, convert
    from .map_draft import draft_map, quoted, toml_list
    from .commanded import CommandedFlight, JointTrajectory, messages_can_be_written
else:
    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
