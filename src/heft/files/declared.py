"""Settings declared once: beside the type of a field stands how a value of it is read.

@dataclass(frozen=True)
class Contact:
link: Annotated[str, "the name of a link is expected"]
closed: Annotated[Literal["always", "logged"], "when it is closed is not known"] = "always"
speed: Annotated[float, Number("a speed is positive", above=0.0, unit="m/s")] = 0.3

CONTACT = section(Contact)
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from .toml import Reader, Section, Text, list_of, name_list, named, number, truth

Made = TypeVar("Made")


def section(
    made: type[Made],
    make: Callable[..., Made] | None = None,
    says: str = "a table is expected",
    **others: Reader[Any],
) -> Section[Made]:
    """Return the reader of a table as the fields of a dataclass declare it.

    A field of `Annotated[type, reader]` is read by that reader. Without one its type says what is
    read: numbers, truths, texts, `Literal`s, names, other such dataclasses, tuples of them, or
    mappings from any name; of `Annotated[type, text]` the text is what is expected, for messages,
    where that is not `[field.NAME] tables` of a mapping, or `[[field]] tables` of a tuple.
    Fields without a default are required; those of `Annotated[type, None]` are no keys.

    Args:
        make: Constructs the result; the dataclass itself by default.
        others: Readers of keys that are no fields, for `make`.
    """
    hints = get_type_hints(made, include_extras=True)
    own = [f for f in fields(made) if _is_key(hints[f.name])]  # type: ignore[arg-type]
    readers = {f.name: _reader(hints[f.name], f.name) for f in own}
    required = [f.name for f in own if f.default is MISSING and f.default_factory is MISSING]
    return Section(make or made, readers | others, required, says)


def _is_key(hint: Any) -> bool:
    return get_origin(hint) is not Annotated or get_args(hint)[1] is not None


def _reader(hint: Any, name: str) -> Reader[Any]:
    says = ""
    if get_origin(hint) is Annotated:
        hint, beside = get_args(hint)[:2]
        if callable(beside):
            return beside  # type: ignore[no-any-return]
        says = beside
    kind = next((k for k in get_args(hint) if NoneType in get_args(hint)), hint)
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Mapping:
        return named(_reader(inner[1], name), says or f"[{name}.NAME] tables are expected")
    if origin is tuple and is_dataclass(inner[0]):
        return list_of(_reader(inner[0], name), of=says or f"[[{name}]] tables", entry=" ")
    if origin is tuple and set(inner) == {float}:
        return list_of(number, len(inner))
    if origin is Literal or kind is str:
        return Text(says, inner)
    simple: dict[Any, Reader[Any]] = {float: number, bool: truth, tuple[str, ...]: name_list}
    return simple[kind] if kind in simple else section(kind)


def plain(value: object) -> Any:
    """Return a value as JSON has it: None for a number that is not finite.

    Of a dataclass fields that are None are left out, and texts that are empty by default.
    """
    if type(value) is float:  # most values are leaves
        return value if math.isfinite(value) else None
    if value is None or type(value) in (str, int, bool):
        return value
    if is_dataclass(value):
        own = {f: getattr(value, f.name) for f in fields(value)}
        return {
            f.name: plain(v)
            for f, v in own.items()
            if not (v is None or (f.default == "" and v == ""))
        }
    if isinstance(value, Mapping):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value


def json_text(value: object) -> str:
    """Return a value as the text of a JSON file; see `plain`."""
    return json.dumps(plain(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def stated(settings: Any) -> dict[str, Any]:
    """Return the fields of settings that differ from their defaults, as JSON has them."""
    standard = type(settings)()
    own = {f.name: getattr(settings, f.name) for f in fields(settings)}
    return {k: plain(v) for k, v in own.items() if v != getattr(standard, k) and v not in ({}, ())}
