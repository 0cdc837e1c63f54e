"""Values of JSON checked against a JSON Schema (draft 2020-12), as far as heft's schemas use it.

A number is finite. Keywords that are not known here are an error of the schema: none is passed
over.

Why no library: `jsonschema` brings four packages, one of them compiled, and with its import takes
eight times as long for a folder of results; `fastjsonschema` executes code that it makes of the
schema, which takes longer still. Both take NaN for a number, so the values would have to be walked
through beside them. Tests compare what is accepted with `jsonschema`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

Schema = Mapping[str, Any]

KINDS: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}


def require_schema(value: Any, schema: Schema) -> None:
    """Check a parsed JSON value against a schema.

    Raises:
        ValueError: If the value is otherwise, with its place.
    """
    _Check(schema).value(value, schema, "")


class _Check:
    def __init__(self, root: Schema) -> None:
        self.root = root

    def value(self, value: Any, schema: Schema, where: str) -> None:
        for keyword, wanted in schema.items():
            if keyword in {"$schema", "$id", "$defs", "title", "description", "then", "else"}:
                continue
            if keyword == "$ref":
                self.value(value, self.root["$defs"][wanted.removeprefix("#/$defs/")], where)
            elif keyword == "allOf":
                for part in wanted:
                    self.value(value, part, where)
            elif keyword == "if":
                self.value(value, schema.get(self.branch(value, wanted), {}), where)
            elif keyword in ("additionalProperties", "properties", "items"):
                self.inside(value, schema, keyword, where)
            elif not RULES[keyword](value, wanted):
                given = f"{value:.60}" if isinstance(value, str) else type(value).__name__
                if isinstance(value, int | float):
                    given = f"{float(value):g}" if abs(value) < 10**300 else "too large a number"
                raise ValueError(f"{where or 'it'}: {given} where {keyword} is {str(wanted)[:80]}")

    def branch(self, value: Any, condition: Schema) -> str:
        try:
            self.value(value, condition, "")
        except ValueError:
            return "else"
        return "then"

    def inside(self, value: Any, schema: Schema, keyword: str, where: str) -> None:
        if keyword == "items" and isinstance(value, list):
            for k, item in enumerate(value):
                self.value(item, schema["items"], f"{where}[{k}]")
        if keyword == "items" or not isinstance(value, dict):
            return
        own = schema.get("properties", {})
        for name, item in value.items():
            place = f"{where}.{name}".lstrip(".")
            if keyword == "properties" and name in own:
                self.value(item, own[name], place)
            elif keyword == "additionalProperties" and name not in own:
                if schema[keyword] is False:
                    raise ValueError(f"{place[:80]} is not known")
                if schema[keyword] is not True:
                    self.value(item, schema[keyword], place)


def _is_kind(value: Any, wanted: str | list[str]) -> bool:
    kinds = [wanted] if isinstance(wanted, str) else wanted
    if isinstance(value, bool):
        return "boolean" in kinds
    if isinstance(value, int | float) and not _is_finite(value):
        return False
    return any(isinstance(value, KINDS[kind]) for kind in kinds)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond all floating-point numbers
        return False


def _sized(kind: type[Any], holds: Callable[[int, int], bool]) -> Callable[[Any, Any], bool]:
    return lambda value, wanted: not isinstance(value, kind) or holds(len(value), wanted)


def _bounded(holds: Callable[[float, float], bool]) -> Callable[[Any, Any], bool]:
    return lambda value, wanted: (
        not isinstance(value, int | float) or isinstance(value, bool) or holds(value, wanted)
    )


# Whether a value obeys a keyword; what is of another kind is no matter of the keyword's.
RULES: dict[str, Callable[[Any, Any], bool]] = {
    "type": _is_kind,
    "const": lambda value, wanted: type(value) is type(wanted) and value == wanted,
    "enum": lambda value, wanted: any(type(value) is type(w) and value == w for w in wanted),
    "required": lambda value, wanted: not isinstance(value, dict) or value.keys() >= set(wanted),
    "pattern": lambda value, wanted: not isinstance(value, str) or bool(re.search(wanted, value)),
    "minimum": _bounded(lambda value, wanted: value >= wanted),
    "maximum": _bounded(lambda value, wanted: value <= wanted),
    "exclusiveMinimum": _bounded(lambda value, wanted: value > wanted),
    "minLength": _sized(str, lambda size, wanted: size >= wanted),
    "minItems": _sized(list, lambda size, wanted: size >= wanted),
    "maxItems": _sized(list, lambda size, wanted: size <= wanted),
    "minProperties": _sized(dict, lambda size, wanted: size >= wanted),
}
