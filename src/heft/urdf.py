"""A URDF as bytes with positions: what stands where, checked before any engine sees it.

Engines forgive: pinocchio reads a mass of `nan`, `1,5` or `heavy` as 0 and goes on. So the
file is read here first, without entities, network or mesh files, and refused by name where
it is wrong. Positions of elements and attributes are kept, so that numbers can be replaced
and every other byte left as it is.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from .errors import InvalidModel, nearest
from .files import LARGEST_TEXT

JOINT_TYPES = ("revolute", "continuous", "prismatic", "fixed")
DEEPEST, MOST_ELEMENTS, MOST_LINKS = 200, 50_000, 1000
LARGEST_NUMBER = 1e9  # no robot is heavier, longer or turned further; it would only overflow
LARGEST_GYRATION = 30.0  # [m], of a body with a mass; more is in another unit
SOLID = 1e-3  # [kg]; lighter links stand for frames, and their inertia for nothing
ATTRIBUTE = re.compile(rb"""\s([A-Za-z_:][\w:.-]*)\s*=\s*("[^"]*"|'[^']*')""")
NUMBERS = re.compile(r"[-+.0-9eE\s]*")  # float() also takes underscores and other scripts' digits


@dataclass(eq=False)
class Element:
    """One XML element with its place in the file.

    Attributes:
        tag: Its name.
        attributes: Values by name.
        start: Offset of its `<`.
        opened: Offset behind the `>` of its start tag.
        ended: Offset behind its end tag.
        line: Line of its `<`, from 1.
    """

    tag: str
    attributes: dict[str, str]
    start: int
    opened: int
    line: int
    ended: int = -1
    children: list[Element] = field(default_factory=list)

    def find(self, tag: str) -> Element | None:
        """Return the first child of this tag."""
        return next((c for c in self.children if c.tag == tag), None)

    def all(self, tag: str) -> list[Element]:
        """Return the children of this tag."""
        return [c for c in self.children if c.tag == tag]

    def spans(self, data: bytes) -> dict[str, tuple[int, int]]:
        """Return where each attribute's value stands, without its quotes."""
        tag = data[self.start : self.opened]
        return {
            m.group(1).decode(): (self.start + m.start(2) + 1, self.start + m.end(2) - 1)
            for m in ATTRIBUTE.finditer(tag)
        }


def _tag_end(data: bytes, start: int) -> int:
    """Return the offset behind the `>` that closes the tag starting at `start`."""
    quote = 0
    for position in range(start, len(data)):
        byte = data[position]
        if quote:
            quote = 0 if byte == quote else quote
        elif byte in b"\"'":
            quote = byte
        elif byte == 0x3E:
            return position + 1
    return len(data)


def parse(data: bytes, path: str) -> Element:
    """Return the root element of a URDF file.

    Args:
        data: The file's bytes.
        path: Its name, for messages.

    Raises:
        InvalidModel: If it is not well-formed XML in UTF-8, defines entities, or is no URDF.
    """
    if len(data) > LARGEST_TEXT:
        raise InvalidModel(
            "the model file is too large",
            argument=path,
            got=f"{len(data)} bytes",
            expected=f"at most {LARGEST_TEXT}",
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
    parser = expat.ParserCreate()
    parser.buffer_text = True
    count = 0
    stack: list[Element] = []
    roots: list[Element] = []

    def refuse_doctype(*_: object) -> None:
        raise InvalidModel(
            "a model file must not define a document type or entities",
            argument=f"{path}, line {parser.CurrentLineNumber}",
            got="<!DOCTYPE",
            cure="remove the <!DOCTYPE …> declaration",
        )

    def start(tag: str, attributes: dict[str, str]) -> None:
        begin = parser.CurrentByteIndex
        element = Element(tag, attributes, begin, _tag_end(data, begin), parser.CurrentLineNumber)
        nonlocal count
        count += 1
        if len(stack) > DEEPEST or count > MOST_ELEMENTS:
            raise InvalidModel(
                "elements are nested too deeply" if count <= MOST_ELEMENTS else "too many elements",
                argument=path,
            )
        (stack[-1].children if stack else roots).append(element)
        stack.append(element)

    def end(_: str) -> None:
        element = stack.pop()
        begin = parser.CurrentByteIndex
        element.ended = max(element.opened, _tag_end(data, begin))

    parser.StartDoctypeDeclHandler = refuse_doctype
    parser.EntityDeclHandler = refuse_doctype
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    try:
        parser.Parse(data, True)
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
    return roots[0]


def _numbers(text: str | None, count: int, what: str, where: str) -> list[float]:
    parts = (text or "").split()
    try:
        values = [float(p) for p in parts]
    except ValueError:
        values = []
    if (
        len(values) != count
        or not all(abs(v) <= LARGEST_NUMBER for v in values)
        or not NUMBERS.fullmatch(text or "")
    ):
        comma = " with a decimal point, not a comma" if text and "," in text else ""
        raise InvalidModel(
            f"{what} is not {'a finite number' if count == 1 else f'{count} finite numbers'}",
            argument=where,
            got=repr(text),
            expected=("a number" if count == 1 else f"{count} numbers") + comma,
        )
    return values


def _limit(text: str | None, what: str, where: str) -> None:
    """Refuse what is no number; limits may be as large as anyone likes."""
    try:
        good = not math.isnan(float(text or "")) and bool(NUMBERS.fullmatch(text or ""))
    except ValueError:
        good = False
    if not good:
        raise InvalidModel(
            f"{what} is not a number", argument=where, got=repr(text), expected="a number"
        )


def _walk(element: Element) -> Iterator[Element]:
    yield element
    for child in element.children:
        yield from _walk(child)


def _named(root: Element, tag: str, path: str) -> dict[str, Element]:
    found: dict[str, Element] = {}
    for element in root.all(tag):
        name = element.attributes.get("name", "").strip()
        if not name:
            raise InvalidModel(f"a {tag} has no name", argument=f"{path}, line {element.line}")
        if name in found:
            raise InvalidModel(
                f"two {tag}s are called '{name}'",
                argument=f"{path}, lines {found[name].line} and {element.line}",
                cure="give each its own name",
            )
        found[name] = element
    return found


def _check_origin(element: Element, where: str) -> None:
    origin = element.find("origin")
    if origin is None:
        return
    for key in ("xyz", "rpy"):
        if key in origin.attributes:
            _numbers(origin.attributes[key], 3, f"origin {key}", f"{where}, line {origin.line}")


def _check_inertial(link: Element, where: str) -> None:
    inertials = link.all("inertial")
    if not inertials:
        return
    if len(inertials) > 1:
        raise InvalidModel("a link has two <inertial> elements", argument=where)
    inertial = inertials[0]
    _check_origin(inertial, where)
    _refuse_two(inertial, ("mass", "inertia"), where)
    read: dict[str, float] = {}
    for tag, keys in (
        ("mass", ("value",)),
        ("inertia", ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")),
    ):
        found = inertial.find(tag)
        if found is None:
            raise InvalidModel(f"<inertial> has no <{tag}>", argument=where)
        for key in keys:
            read[key] = _numbers(found.attributes.get(key), 1, f"{tag} {key}", where)[0]
    mass = read.pop("value")
    if mass < 0.0:
        raise InvalidModel(
            "a mass is negative", argument=where, got=mass, expected="0 or more, in kg"
        )
    gyration = math.sqrt(max(map(abs, read.values())) / max(mass, SOLID))
    if mass >= SOLID and gyration > LARGEST_GYRATION:
        raise InvalidModel(
            "an inertia is not in kg·m²",
            argument=where,
            got=f"a radius of gyration of {gyration:.3g} m",
            expected=f"at most {LARGEST_GYRATION:g} m",
            cure="divide the moments by 1e6 if they are in kg·mm², by 1e9 if in g·mm²",
        )


def _refuse_two(element: Element, tags: tuple[str, ...], where: str) -> None:
    for tag in tags:
        if len(element.all(tag)) > 1:
            raise InvalidModel(f"there are two <{tag}> elements where one belongs", argument=where)


def _check_joint(
    joint: Element, links: dict[str, Element], joints: dict[str, Element], path: str
) -> None:
    where = f"{path}, joint '{joint.attributes['name']}', line {joint.line}"
    kind = joint.attributes.get("type", "")
    if kind not in JOINT_TYPES:
        near = nearest(kind, JOINT_TYPES)
        raise InvalidModel(
            f"joints of type '{kind}' cannot be identified",
            argument=where,
            valid=JOINT_TYPES,
            cure=f"did you mean '{near}'?"
            if near
            else 'make a floating base with base = "free" in the file of --with',
        )
    _refuse_two(joint, ("parent", "child", "limit", "mimic"), where)
    for end in ("parent", "child"):
        element = joint.find(end)
        name = element.attributes.get("link", "") if element is not None else ""
        if name not in links:
            near = nearest(name, links)
            raise InvalidModel(
                f"the {end} of a joint is no link of the file",
                argument=where,
                got=repr(name),
                valid=links,
                cure=f"did you mean '{near}'?" if near else None,
            )
    _check_origin(joint, where)
    axis = joint.find("axis")
    if axis is not None:
        direction = _numbers(axis.attributes.get("xyz"), 3, "axis xyz", where)
        if kind != "fixed" and not 1e-9 < math.hypot(*direction) < 1e9:
            raise InvalidModel(
                "a joint axis has no direction", argument=where, got=axis.attributes["xyz"]
            )
    limit = joint.find("limit")
    if limit is None and kind in ("revolute", "prismatic"):
        raise InvalidModel(
            f"a {kind} joint has no <limit>",
            argument=where,
            cure='add <limit lower="…" upper="…" effort="…" velocity="…"/>'
            + (', or make its type "continuous"' if kind == "revolute" else ""),
        )
    for tag, needed, optional in (
        ("limit", ("effort", "velocity"), ("lower", "upper")),
        ("dynamics", (), ("damping", "friction")),
    ):
        found = joint.find(tag)
        if found is None or kind == "fixed":
            continue
        for key in (*needed, *optional):
            if key in found.attributes or key in needed:
                _limit(found.attributes.get(key), f"{tag} {key}", where)
    mimic = joint.find("mimic")
    if mimic is not None:
        master = mimic.attributes.get("joint", "")
        if master not in joints or joints[master] is joint:
            raise InvalidModel(
                "a joint mimics a joint that is not there",
                argument=where,
                got=repr(master),
                valid=[j for j in joints if joints[j] is not joint],
            )
        for key in ("multiplier", "offset"):
            if key in mimic.attributes:
                _numbers(mimic.attributes[key], 1, f"mimic {key}", where)


def _check_tree(links: dict[str, Element], joints: dict[str, Element], path: str) -> None:
    parents = {j.find("child").attributes["link"]: j for j in joints.values()}  # type: ignore[union-attr]
    children = Counter(j.find("child").attributes["link"] for j in joints.values())  # type: ignore[union-attr]
    for name, count in children.items():
        if count > 1:
            raise InvalidModel(
                "a link hangs on two joints: closed loops are not supported",
                argument=f"{path}, link '{name}'",
                cure="cut each loop at one joint",
            )
    roots = [name for name in links if name not in parents]
    if len(roots) != 1:
        raise InvalidModel(
            "the links do not form one tree",
            argument=path,
            got=f"{len(roots)} root links"
            + (f": {', '.join(roots[:8])}" if roots else " (a cycle)"),
            expected="one",
            cure="connect them with joints of type fixed" if roots else "cut the cycle",
        )
    for name in links:
        seen = {name}
        while name in parents:
            name = parents[name].find("parent").attributes["link"]  # type: ignore[union-attr]
            if name in seen:
                raise InvalidModel(
                    "the joints form a cycle",
                    argument=f"{path}, link '{name}'",
                    cure="cut the cycle at one joint",
                )
            seen.add(name)


def check(root: Element, path: str) -> None:
    """Refuse a file that is no URDF of a tree of rigid bodies with finite numbers.

    Raises:
        InvalidModel: Naming the element and its line.
    """
    if any(":" in e.tag and e.tag.startswith("xacro") for e in _walk(root)) or any(
        "${" in v for e in _walk(root) for v in e.attributes.values()
    ):
        raise InvalidModel(
            "this is a xacro file, not yet a URDF",
            argument=path,
            cure=f"expand it: xacro {path} > robot.urdf",
        )
    included = next((e for e in _walk(root) if e.tag.endswith(":include")), None)
    if included is not None:
        raise InvalidModel(
            "a model file must not include others",
            argument=f"{path}, line {included.line}",
            got=f"<{included.tag}>",
            cure="put what it includes in its place",
        )
    if root.tag != "robot":
        raise InvalidModel(
            "this is not a URDF", argument=path, got=f"<{root.tag}>", expected="<robot>"
        )
    links = _named(root, "link", path)
    joints = _named(root, "joint", path)
    if not 0 < len(links) <= MOST_LINKS:
        raise InvalidModel(
            "the model has too many links" if links else "the model has no links",
            argument=path,
            got=len(links) or None,
            expected=f"at most {MOST_LINKS}" if links else None,
        )
    for name, link in links.items():
        _check_inertial(link, f"{path}, link '{name}', line {link.line}")
    for joint in joints.values():
        _check_joint(joint, links, joints, path)
    _check_tree(links, joints, path)


@dataclass(frozen=True)
class Inertial:
    """What a link's `<inertial>` says: mass [kg], place and axes of the inertia [kg·m²]."""

    mass: float
    xyz: tuple[float, float, float]
    rpy: tuple[float, float, float]
    moments: tuple[float, float, float, float, float, float]


def inertial(link: Element) -> Inertial | None:
    """Return the `<inertial>` of a link that `check` has passed, moments `xx xy yy xz yz zz`."""
    found = link.find("inertial")
    if found is None:
        return None
    origin, mass, tensor = found.find("origin"), found.find("mass"), found.find("inertia")
    assert mass is not None and tensor is not None
    place = origin.attributes if origin is not None else {}
    x, y, z = _numbers(place.get("xyz", "0 0 0"), 3, "origin xyz", "inertial")
    roll, pitch, yaw = _numbers(place.get("rpy", "0 0 0"), 3, "origin rpy", "inertial")
    xx, xy, yy, xz, yz, zz = (
        float(tensor.attributes[k]) for k in ("ixx", "ixy", "iyy", "ixz", "iyz", "izz")
    )
    return Inertial(
        float(mass.attributes["value"]), (x, y, z), (roll, pitch, yaw), (xx, xy, yy, xz, yz, zz)
    )
