"""Symbolic dynamics of small robots."""

from typing import TYPE_CHECKING

from heft.loading import lazy

if TYPE_CHECKING:
    from .lagrange import Derivation
    from .from_table import derive, derive_file
    from .printing import latex, numpy_source, rendered, text
else:
    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
