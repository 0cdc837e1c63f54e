"""Bytes in with care, files out whole or not at all."""

from . import edits, xml
from .reading import UNREADABLE, read_arrays, read_text, refuse_bomb, require_regular, stamp
from .writing import put, require_own, require_writable, workshop, write_text
from .toml import LARGEST_NUMBER, Scalar, box, interval, list_of, matrix_rows, name_list, number
from .toml import read_toml, refuse_unknown, rows_of, vector
from .xml import Element, numbers, walk
from .edits import Edit, apply, format_number, insert_child, set_attributes
