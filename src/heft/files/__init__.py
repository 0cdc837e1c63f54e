"""File access: validated reading of untrusted files, and atomic writing of results."""

from typing import TYPE_CHECKING

from heft.loading import lazy

if TYPE_CHECKING:
    from . import xml
    from .reading import UNREADABLE, is_bomb, read_arrays, read_text, refuse_bomb, require_regular
    from .reading import visible_texts
    from .opened import OpenedFile, file_hash, hash_of_all
    from .schema import require_schema
    from .writing import locked, new_folder, put, require_own, require_writable, workshop
    from .writing import write_arrays, write_text
    from .toml import LARGEST_NUMBER, Keys, Number, Reader, Scalar, Section, Text, box, check_fields
    from .toml import interval, list_of, located, name_list, named, number, read_toml
    from .declared import json_text, plain, section, stated
    from .toml import planes, positive, rotation_rows, rows_of, solid_box, truth
    from .xml import Element, numbers, walk
    from .xml import Edit, apply, format_number, insert_child, set_attributes
else:
    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
