"""Bytes in with care, files out whole or not at all."""

from . import edits, xml
from .reading import UNREADABLE, read_arrays, read_text, refuse_bomb, require_regular
from .opened import OpenedFile, file_hash, hash_of_all
from .writing import put, require_own, require_writable, workshop
from .toml import LARGEST_NUMBER, Scalar, box, interval, list_of, matrix_rows, name_list, number
from .toml import read_toml, refuse_unknown, rows_of, vector
from .xml import Element, numbers, walk
from .edits import Edit, apply, format_number, insert_child, set_attributes
