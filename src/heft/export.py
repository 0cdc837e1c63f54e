"""The model file with new numbers, and every other byte as it was."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from . import inertia, urdf
from .errors import FitError
from .inertia import Array
from .urdf import Element

DIGITS = 10  # significant; far beyond what any log tells, far above rounding
INERTIA_KEYS = ("ixx", "ixy", "iyy", "ixz", "iyz", "izz")


@dataclass(frozen=True)
class Edit:
    """Bytes start..stop of a file replaced by a text."""

    start: int
    stop: int
    text: str


def number(value: float) -> str:
    """Return a number as files have it."""
    text = f"{value:.{DIGITS}g}"
    return "0" if text == "-0" else text


def apply(data: bytes, edits: list[Edit]) -> bytes:
    """Return the bytes with edits made, none of which overlap."""
    out, position = [], 0
    for edit in sorted(edits, key=lambda e: (e.start, e.stop)):
        if edit.start < position:
            raise AssertionError("edits overlap")
        out += [data[position : edit.start], edit.text.encode()]
        position = edit.stop
    return b"".join([*out, data[position:]])


def _attributes(data: bytes, element: Element, values: Mapping[str, str]) -> list[Edit]:
    """Return edits that give an element these attributes, the others untouched."""
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
    """Return the whitespace that an element's line begins with."""
    line = data[data.rfind(b"\n", 0, element.start) + 1 : element.start]
    return line.decode() if line.strip() == b"" else ""


def _child(data: bytes, parent: Element, tag: str, lines: list[str]) -> list[Edit]:
    """Return edits that insert lines of XML as the first thing in an element."""
    outer = _indent(data, parent)
    first = next((_indent(data, c) for c in parent.children if _indent(data, c)), outer + "  ")
    newline = "\r\n" if b"\r\n" in data[:4096] else "\n"
    body = "".join(f"{newline}{first}{line}" for line in lines)
    if data[parent.opened - 2 : parent.opened] == b"/>":
        return [Edit(parent.opened - 2, parent.opened, f">{body}{newline}{outer}</{tag}>")]
    return [Edit(parent.opened, parent.opened, body)]


def _inertial(data: bytes, link: Element, parameters: Array) -> list[Edit]:
    mass, com, tensor = inertia.to_body(parameters)
    largest = float(np.abs(parameters[4:]).max())
    if largest > 0.0:  # moving to the centre of mass leaves rounding of this size, not numbers
        tensor = np.round(tensor, 13 - math.floor(math.log10(largest)))
    place = {"xyz": " ".join(map(number, com)), "rpy": "0 0 0"}
    moments = {
        k: number(tensor[i, j])
        for k, (i, j) in zip(INERTIA_KEYS, inertia.INERTIA_INDEX, strict=True)
    }
    found = link.find("inertial")
    if found is None:
        written = " ".join(f'{k}="{v}"' for k, v in moments.items())
        return _child(
            data,
            link,
            "link",
            [
                "<inertial>",
                f'  <origin xyz="{place["xyz"]}" rpy="{place["rpy"]}"/>',
                f'  <mass value="{number(mass)}"/>',
                f"  <inertia {written}/>",
                "</inertial>",
            ],
        )
    edits: list[Edit] = []
    origin = found.find("origin")
    if origin is None:
        line = f'<origin xyz="{place["xyz"]}" rpy="{place["rpy"]}"/>'
        edits += _child(data, found, "inertial", [line])
    else:
        edits += _attributes(data, origin, place)
    for tag, values in (("mass", {"value": number(mass)}), ("inertia", moments)):
        element = found.find(tag)
        assert element is not None  # urdf.check has seen to it
        edits += _attributes(data, element, values)
    return edits


def write_urdf(
    data: bytes,
    links: Mapping[str, Array],
    friction: Mapping[str, tuple[float, float]],
) -> bytes:
    """Return a URDF with new inertials and joint friction, all else byte for byte.

    Args:
        data: The file's bytes.
        links: Ten parameters of each link to change, in its own frame.
        friction: Damping [N·m·s/rad] and friction [N·m] of each joint to change.

    Raises:
        FitError: If the numbers as written are not those of rigid bodies.
    """
    root = urdf.parse(data, "the model file")
    for name, parameters in links.items():
        if not (np.isfinite(parameters).all() and inertia.consistency_margin(parameters) > 0.0):
            raise FitError(
                "the numbers for a link are those of no rigid body",
                argument=name,
                got=np.asarray(parameters).tolist(),
            )
    edits: list[Edit] = []
    for element in root.all("link"):
        name = element.attributes["name"]
        if name in links:
            edits += _inertial(data, element, links[name])
    for element in root.all("joint"):
        name = element.attributes["name"]
        if name not in friction:
            continue
        damping, dry = friction[name]
        values = {"damping": number(damping), "friction": number(dry)}
        found = element.find("dynamics")
        if found is not None:
            edits += _attributes(data, found, values)
        else:
            line = " ".join(["<dynamics", *(f'{k}="{v}"' for k, v in values.items())]) + "/>"
            edits += _child(data, element, "joint", [line])
    written = apply(data, edits)
    check_written(written, set(links))
    return written


def check_written(data: bytes, names: set[str]) -> None:
    """Raise `FitError` if a link of these names is, as written, no rigid body."""
    root = urdf.parse(data, "the written model")
    urdf.check(root, "the written model")
    for element in root.all("link"):
        if element.attributes["name"] not in names:
            continue
        found = element.find("inertial")
        assert found is not None
        mass, tensor = found.find("mass"), found.find("inertia")
        assert mass is not None and tensor is not None
        matrix = np.zeros((3, 3))
        for key, (i, j) in zip(INERTIA_KEYS, inertia.INERTIA_INDEX, strict=True):
            matrix[i, j] = matrix[j, i] = float(tensor.attributes[key])
        central = inertia.from_body(float(mass.attributes["value"]), np.zeros(3), matrix)
        if inertia.consistency_margin(central) <= 0.0:
            raise FitError(
                "the numbers written for a link are those of no rigid body",
                argument=element.attributes["name"],
                got=inertia.consistency_margin(central),
                cure="raise the estimator's margin",
            )
