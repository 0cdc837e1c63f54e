"""Readers and writers of log formats: columns of numbers in blocks of bounded memory.

One module a format. Nothing is unpickled; all checksums are verified; damaged files are refused
with the defect named, or salvaged on request.
"""

from .table import BLOCK_ROWS, Damaged, Table, Topics, damaged_file, join, library, refuse
from .registry import (
    FORMATS,
    Format,
    by_ending,
    channels_of,
    is_log,
    read_table,
    require_log,
    writable,
    write_table,
)
