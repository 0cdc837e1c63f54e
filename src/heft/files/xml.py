"""XML model files parsed with byte positions of elements and attributes, and edits of their bytes.

Parsed without entities, network access or mesh files. With the positions numbers can be replaced
and every other byte left unchanged.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from xml.parsers import expat

from heft.errors import InvalidModel, visible

from .reading import LARGEST_TEXT
from .toml import LARGEST_NUMBER

ATTRIBUTE = re.compile(rb"""\s([A-Za-z_:][\w:.-]*)\s*=\s*("[^"]*"|'[^']*')""")
TAG = re.compile(rb"""(?:[^"'>]++|"[^"]*+"|'[^']*+')*+>""")
NUMBERS = re.compile(r"[-+.0-9eE\s]*")  # float() also takes underscores and other scripts' digits
USD = (b"#usda", b"PXR-USDC")  # first bytes of its text and binary files
DEEPEST, MOST_ELEMENTS = 200, 50_000
DIGITS = 10  # significant; far beyond what any log tells, far above rounding
MOST_ATTRIBUTES = 100  # of an element; parsers compare each with all others


@dataclass(eq=False)
class Element:
    """One XML element with its position in the file."""

    tag: str  # its name
    attributes: dict[str, str]  # values by name
    start: int  # offset of its `<` [bytes]
    opened: int  # offset behind the `>` of its start tag [bytes]
    line: int  # line of its `<`, from 1
    ended: int = -1  # offset behind its end tag [bytes]
    children: list[Element] = field(default_factory=list)  # child elements, in the file's order

    def find(self, tag: str) -> Element | None:
        """Return the first child with this tag, or None."""
        return next((c for c in self.children if c.tag == tag), None)

    def all(self, tag: str) -> list[Element]:
        """Return the children with this tag."""
        return [c for c in self.children if c.tag == tag]

    def spans(self, data: bytes) -> dict[str, tuple[int, int]]:
        """Return the byte range of each attribute's value, without its quotes."""
        matches = ATTRIBUTE.finditer(data, self.start, self.opened)
        return {m[1].decode(): (m.start(2) + 1, m.end(2) - 1) for m in matches}

    def attribute_spans(self, data: bytes) -> dict[str, tuple[int, int]]:
        """Return the byte range of each attribute, from its name to its closing quote."""
        matches = ATTRIBUTE.finditer(data, self.start, self.opened)
        return {m[1].decode(): (m.start(1), m.end(2)) for m in matches}


def _tag_end(data: bytes, start: int) -> int:
    """Return the offset behind the `>` that closes the tag starting at `start`."""
    match = TAG.match(data, start)
    return match.end() if match else len(data)


def parse(data: bytes, path: str) -> Element:
    """Return the root element of a model file.

    Raises:
        InvalidModel: If it is not well-formed XML in UTF-8, or defines entities.
    """
    _require_text(data, path)
    builder = _Builder(data, path)
    try:
        builder.parser.Parse(data, True)
    except expat.ExpatError as problem:
        raise InvalidModel(
            "the model file is not well-formed XML",
            argument=f"{path}, line {problem.lineno}",
            got=expat.errors.messages[problem.code],
            cure="mend the file at that line; `xmllint --noout FILE` shows more",
        ) from None
    except (ValueError, LookupError) as problem:
        raise InvalidModel(
            "the model file cannot be read", argument=path, got=str(problem)
        ) from None
    return builder.roots[0]


def _require_text(data: bytes, path: str) -> None:
    if len(data) > LARGEST_TEXT:
        raise InvalidModel(
            "the model file is too large",
            argument=path,
            got=f"{len(data)} bytes",
            expected=f"at most {LARGEST_TEXT}",
        )
    if data.startswith(USD):
        raise InvalidModel(
            "USD files are not read",
            argument=path,
            got=data[:8].decode(),
            expected="URDF or MJCF",
            cure="give the URDF or MJCF that it was made from, or export one (Isaac Sim's USD to "
            "URDF exporter writes it)",
        )
    encoding = "UTF-16" if b"\0" in data[:4] else None
    try:
        data.decode()
    except UnicodeDecodeError as problem:
        encoding = str(problem)
    if encoding is not None:
        raise InvalidModel(
            "the model file is not UTF-8", argument=path, got=encoding, cure="save it as UTF-8"
        )


class _Builder:
    def __init__(self, data: bytes, path: str) -> None:
        self.data, self.path = data, path
        self.roots: list[Element] = []
        self.open: list[Element] = []  # from the root down
        self.count = 0
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = self._refuse_doctype
        self.parser.EntityDeclHandler = self._refuse_doctype
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end

    def _refuse_doctype(self, *_: object) -> None:
        raise InvalidModel(
            "a model file must not define a document type or entities",
            argument=f"{self.path}, line {self.parser.CurrentLineNumber}",
            got="<!DOCTYPE",
            cure="remove the <!DOCTYPE …> declaration",
        )

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        begin, line = self.parser.CurrentByteIndex, self.parser.CurrentLineNumber
        element = Element(tag, attributes, begin, _tag_end(self.data, begin), line)
        self.count += 1
        hidden = [
            f"{name} = {visible(value)!r}"
            for name, value in attributes.items()
            if visible(value) != value and not NUMBERS.fullmatch(value)
        ]
        if hidden:
            raise InvalidModel(
                "a name or value holds characters that cannot be seen",
                argument=f"{self.path}, line {line}",
                got=hidden[0],
                cure="write it without line ends, control characters and marks of direction",
            )
        if len(attributes) > MOST_ATTRIBUTES:
            raise InvalidModel(
                "an element has too many attributes",
                argument=f"{self.path}, line {line}",
                got=len(attributes),
                expected=f"at most {MOST_ATTRIBUTES}",
            )
        many = self.count > MOST_ELEMENTS
        if many or len(self.open) > DEEPEST:
            raise InvalidModel(
                "too many elements" if many else "elements are nested too deeply",
                argument=self.path,
            )
        (self.open[-1].children if self.open else self.roots).append(element)
        self.open.append(element)

    def _end(self, _: str) -> None:
        element = self.open.pop()
        begin = self.parser.CurrentByteIndex
        element.ended = max(element.opened, _tag_end(self.data, begin))


def numbers(
    text: str | None, count: int, what: str, where: str, largest: float = LARGEST_NUMBER
) -> list[float]:
    """Return the finite numbers in an attribute's value.

    Args:
        text: The value, None where the attribute is missing.

    Raises:
        InvalidModel: If count, syntax or magnitude is otherwise.
    """
    parts = (text or "").split()
    try:
        values = [float(p) for p in parts]
    except ValueError:
        values = []
    if (
        len(values) != count
        or not all(map(math.isfinite, values))
        or not NUMBERS.fullmatch(text or "")
    ):
        comma = " with a decimal point, not a comma" if text and "," in text else ""
        raise InvalidModel(
            f"{what} is not {'a finite number' if count == 1 else f'{count} finite numbers'}",
            argument=where,
            got=repr(text),
            expected=("a number" if count == 1 else f"{count} numbers") + comma,
        )
    if max(map(abs, values)) > largest:
        raise InvalidModel(
            f"{what} is beyond anything that moves",
            argument=where,
            got=repr(text),
            expected=f"at most {largest:g}",
        )
    return values


def walk(element: Element) -> Iterator[Element]:
    """Yield an element and all its descendants, in the file's order."""
    yield element
    for child in element.children:
        yield from walk(child)


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
    """Return the bytes with non-overlapping edits made."""
    out, position = [], 0
    for edit in sorted(edits, key=lambda e: (e.start, e.stop)):
        if edit.start < position:
            raise AssertionError("edits overlap")
        out += [data[position : edit.start], edit.text.encode()]
        position = edit.stop
    return b"".join([*out, data[position:]])


def set_attributes(
    data: bytes, element: Element, values: Mapping[str, str], exact: bool = False
) -> list[Edit]:
    """Return edits that set some attributes of an element and leave the others unchanged.

    Args:
        exact: Whether to set numbers to all digits, also where the file has the first `DIGITS`.
    """
    spans = element.spans(data)
    edits = [
        Edit(*spans[k], v)
        for k, v in values.items()
        if k in spans and (exact or not _same(element.attributes[k], v))
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
