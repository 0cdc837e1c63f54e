"""Symbolic dynamics of small robots."""

from .lagrange import Derivation, derive, derive_file
from .printing import latex, numpy_source, rendered, text
