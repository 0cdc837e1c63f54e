"""Files of numbers in columns, read in blocks of bounded memory: one module a format.

Nothing is unpickled; all checksums are verified; damage is refused by name, or salvaged where
that is asked for.
"""

from .table import BLOCK_ROWS, Damaged, Table, Topics, damaged_file, library, refuse
from .join import join
from .format import Format
from .registry import FORMATS, by_ending, is_log, read_table, writable
