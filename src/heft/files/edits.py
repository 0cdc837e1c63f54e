"""Edits of a file's bytes: numbers replaced, every other byte unchanged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from .xml import Element

DIGITS = 10  # significant; far beyond what any log tells, far above rounding


@dataclass(frozen=True)
class Edit:
    """Replacement of the bytes start..stop of a file by a text."""

    start: int  # offset of the first byte replaced
    stop: int  # offset behind the last byte replaced
    text: str  # the new text


def format_number(value: float) -> str:
    """Return a number as text for a file, with `DIGITS` significant digits."""
    text = f"{value:.{DIGITS}g}"
    return "0" if text == "-0" else text


def apply(data: bytes, edits: list[Edit]) -> bytes:
    """Return the bytes with non-overlapping edits made.

    Args:
        edits: In any order.
    """
    out, position = [], 0
    for edit in sorted(edits, key=lambda e: (e.start, e.stop)):
        if edit.start < position:
            raise AssertionError("edits overlap")
        out += [data[position : edit.start], edit.text.encode()]
        position = edit.stop
    return b"".join([*out, data[position:]])


def set_attributes(data: bytes, element: Element, values: Mapping[str, str]) -> list[Edit]:
    """Return edits that set some attributes of an element and leave the others unchanged."""
    spans = element.spans(data)
    edits = [
        Edit(*spans[k], v)
        for k, v in values.items()
        if k in spans and not _same(element.attributes[k], v)
    ]
    missing = "".join(f' {k}="{v}"' for k, v in values.items() if k not in spans)
    if missing:
        closing = 2 if data[element.opened - 2 : element.opened - 1] == b"/" else 1
        end = element.opened - closing
        while data[end - 1 : end].isspace():
            end -= 1
        edits.append(Edit(end, end, missing))
    return edits


def _same(old: str, new: str) -> bool:
    """Return whether a text already says these numbers, to the digits that are written."""
    try:
        before, after = ([float(x) for x in text.split()] for text in (old, new))
    except ValueError:
        return False
    return len(before) == len(after) and all(
        math.isclose(a, b, rel_tol=10.0 ** (1 - DIGITS)) for a, b in zip(before, after, strict=True)
    )


def _indent(data: bytes, element: Element) -> str:
    line = data[data.rfind(b"\n", 0, element.start) + 1 : element.start]
    return line.decode() if line.strip() == b"" else ""


def insert_child(data: bytes, parent: Element, tag: str, lines: list[str]) -> list[Edit]:
    """Return edits that insert lines of XML as the first child of an element.

    Args:
        tag: Name of the parent, to open it where it was empty.
        lines: The child, a line each, without indentation.
    """
    outer = _indent(data, parent)
    first = next((_indent(data, c) for c in parent.children if _indent(data, c)), outer + "  ")
    newline = "\r\n" if b"\r\n" in data[:4096] else "\n"
    body = "".join(f"{newline}{first}{line}" for line in lines)
    if data[parent.opened - 2 : parent.opened] == b"/>":
        return [Edit(parent.opened - 2, parent.opened, f">{body}{newline}{outer}</{tag}>")]
    return [Edit(parent.opened, parent.opened, body)]
