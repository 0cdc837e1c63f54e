"""What comments say of fields, as the section `Attributes` of their class in the reference.

A field's meaning stands behind it, or above it where that is too long:

    mass: float  # of the link [kg]

Of several at once it names them first (`# begin, end: …`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any

import griffe

HEADING = "Attributes:"
BEHIND = re.compile(r"^\s+\w+: .*?  # (?P<text>.+)$")
ABOVE = re.compile(r"^\s+# (?P<text>.+)$")
SEVERAL = re.compile(r"^\w+(, \w+)+: ")
NEXT = re.compile(r"^(?:Args|Raises|Returns|Yields):$", re.MULTILINE)


def entries(lines: list[str], fields: Mapping[str, int]) -> Iterator[str]:
    """Yield what comments say of fields, as lines of a docstring.

    Args:
        lines: Of the file.
        fields: Number of the line that each stands in, by name.
    """
    for name, number in fields.items():
        before = takewhile(ABOVE.match, reversed(lines[: number - 1]))
        above = " ".join(line.strip().removeprefix("# ") for line in reversed(list(before)))
        behind = BEHIND.match(lines[number - 1])
        text = behind["text"] if behind else above
        if text:
            names, text = text.split(": ", 1) if SEVERAL.match(text) else (name, text)
            yield from (f"    {each}: {sentence(text)}" for each in names.split(", "))


def sentence(text: str) -> str:
    """Return a comment as a sentence; a symbol at its beginning stays as it is."""
    first = text[0].upper() if re.match(r"([a-z][a-z]|a )", text) else text[0]
    return first + text[1:] + ("" if text[-1] in ".…" else ".")


class Fields(griffe.Extension):
    """Adds the section to the docstrings of classes."""

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Add it to one, before the errors that it raises."""
        if cls.docstring is None:
            return
        lines = cls.lines_collection[cls.filepath]
        numbers = {name: m.lineno for name, m in cls.members.items() if m.is_attribute}
        fields = {k: n for k, n in numbers.items() if n and re.match(rf"\s+{k}: ", lines[n - 1])}
        made = list(entries(lines, fields))
        text = cls.docstring.value
        if made and HEADING in text:
            cls.docstring.value = text.replace(HEADING, "\n".join([HEADING, *made]), 1)
        elif made:
            before, after = NEXT.split(text, 1)[0].rstrip(), NEXT.search(text)
            section = "\n".join([HEADING, *made])
            rest = text[after.start() :] if after else ""
            cls.docstring.value = f"{before}\n\n{section}\n\n{rest}".rstrip()
