"""URDF files: what their elements say, what their digits mean, and the URDF of other files' robots.

A file that prints π/2 as 1.5708 tilts an axis by 4e-6 rad, and columns that depend on one another
no longer do, to the last digit. An angle that is a multiple of 15° to its printed digits is taken
for it; all others (a calibration's) are taken as they are written.
"""

from __future__ import annotations

import html
import math
import shlex
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidModel
from heft.files import Edit, Element, apply, insert_child, numbers, set_attributes, walk, xml
from heft.information import frame_change, inertia, matrix_of_rpy, rpy_of_matrix

LARGEST_GYRATION = 30.0  # [m], of a body with a mass; more is in another unit
FREE_TYPES = ("floating", "planar")
MOMENTS = ("ixx", "ixy", "iyy", "ixz", "iyz", "izz")  # attributes of `<inertia>`
SIZES = {"sphere": 1, "capsule": 2, "cylinder": 2, "ellipsoid": 3, "box": 3}  # numbers, by solid
NICE = math.pi / 12.0  # [rad]: multiples of it are what angles of drawings are
FEWEST_DECIMALS = 2


def _quoted(text: str) -> str:
    return '"' + html.escape(text).translate({ord(c): f"&#{ord(c)};" for c in "\n\r\t"}) + '"'


def ends(joint: Element) -> tuple[str, str]:
    """Return the names of the parent and child link of a checked joint."""
    parent, child = joint.find("parent"), joint.find("child")
    assert parent is not None and child is not None
    return parent.attributes["link"], child.attributes["link"]


def with_joints_fixed(data: bytes, path: str, joints: Collection[str] | None = None) -> bytes:
    """Return a URDF whose floating and planar joints, all or those of some names, are fixed."""
    edits = []
    for joint in xml.parse(data, path).all("joint"):
        given = joint.attributes
        if given.get("type") in FREE_TYPES and (joints is None or given.get("name") in joints):
            edits.append(Edit(*joint.spans(data)["type"], "fixed"))
    return apply(data, edits)


def set_dynamics(
    data: bytes, joint: Element, damping: str, friction: str, exact: bool = False
) -> list[Edit]:
    """Return edits that state a joint's damping and dry friction; see `set_attributes`."""
    values, dynamics = {"damping": damping, "friction": friction}, joint.find("dynamics")
    if dynamics is not None:
        return set_attributes(data, dynamics, values, exact)
    line = f'<dynamics damping="{damping}" friction="{friction}"/>'
    return insert_child(data, joint, "joint", [line])


def pose(element: Element, where: str = "") -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return xyz [m] and rpy [rad] of an element's `<origin>`; zeros where it states none."""
    origin = element.find("origin")
    stated = origin.attributes if origin is not None else {}
    xyz, rpy = (
        numbers(stated.get(key, "0 0 0"), 3, f"origin {key}", where or element.tag)
        for key in ("xyz", "rpy")
    )
    return tuple(xyz), tuple(rpy)


@dataclass(frozen=True)
class Inertial:
    """A link's `<inertial>`: mass [kg], pose of the inertial frame, inertia in it [kg·m²]."""

    mass: float
    xyz: tuple[float, ...]
    rpy: tuple[float, ...]
    moments: tuple[float, ...]


def inertial(link: Element) -> Inertial | None:
    """Return the `<inertial>` of a checked link, moments `xx xy yy xz yz zz`."""
    element = link.find("inertial")
    if element is None:
        return None
    mass, tensor = element.find("mass"), element.find("inertia")
    assert mass is not None and tensor is not None
    moments = tuple(float(tensor.attributes[k]) for k in MOMENTS)
    return Inertial(float(mass.attributes["value"]), *pose(element), moments)


def solid(link: Element, mass: float) -> Array | None:
    """Return the ten inertial parameters of a link that fills its shape with uniform density.

    The first box, cylinder, capsule or ball of its collision or visual counts; None if it has none.
    They are in the link's frame, shape (10,) [kg, kg·m, kg·m²], of a mass [kg].
    """
    for element in (*link.all("collision"), *link.all("visual")):
        geometry = element.find("geometry")
        for shape in geometry.children if geometry is not None else ():
            size = size_of(shape)
            if size is None:
                continue
            xyz, rpy = pose(element, "geometry")
            own = uniform_solid(shape.tag, size, mass)
            return np.asarray(frame_change(matrix_of_rpy(*rpy), np.array(xyz)) @ own)
    return None


def size_of(shape: Element) -> tuple[float, ...] | None:
    """Return radii and half lengths of a shape [m]; None if it is none of positive size."""
    kinds = {
        "box": (("size",), (0.5, 0.5, 0.5)),
        "sphere": (("radius",), (1.0,)),
        **dict.fromkeys(("cylinder", "capsule"), (("radius", "length"), (1.0, 0.5))),
    }
    try:
        keys, factors = kinds[shape.tag]
        written = [float(x) for k in keys for x in shape.attributes[k].split()]
        size = tuple(x * factor for x, factor in zip(written, factors, strict=True))
    except (KeyError, ValueError):
        return None
    return size if all(0.0 < x < LARGEST_GYRATION for x in size) else None


@dataclass(frozen=True)
class Translation:
    """A robot of another file format, as a URDF."""

    text: bytes  # the URDF
    # names of auxiliary links that only the URDF has, to place joints
    aids: frozenset[str] = frozenset()
    # names of links that have a mass which the file does not state
    solid: frozenset[str] = frozenset()
    gravity: tuple[float, float, float] | None = None  # gravity that the file states [m/s²]
    notes: tuple[str, ...] = ()  # messages to the user on the file
    fixed: frozenset[str] = frozenset()  # names of joints of the file that do not move
    angle_error: float = 0.0  # largest rounding error of the angles that the file prints [rad]


def angle_error(root: Element) -> float:
    """Return the largest rounding error of the angles of joints in a URDF [rad]."""
    errors = [0.0]
    for joint in root.all("joint"):
        origin, axis = joint.find("origin"), joint.find("axis")
        if origin is not None and "rpy" in origin.attributes:
            errors.append(printed_angle_error(numbers(origin.attributes["rpy"], 3, "rpy", "")))
        if axis is not None:
            errors.append(
                printed_direction_error(numbers(axis.attributes.get("xyz"), 3, "axis", ""))
            )
    return max(errors)


def _triple(vector: Array) -> str:
    return " ".join(repr(float(x) + 0.0) for x in vector)


def link_text(name: str, parameters: Array | None = None) -> str:
    """Return the text of a `<link>`, with an `<inertial>` of ten parameters (10,) if given."""
    if parameters is None:
        return f"  <link name={_quoted(name)}/>\n"
    mass, com, tensor = inertia.to_body(parameters)
    moments = " ".join(
        f'{k}="{float(tensor[i, j])!r}"'
        for k, (i, j) in zip(MOMENTS, inertia.INERTIA_INDEX, strict=True)
    )
    return (
        f"  <link name={_quoted(name)}>\n    <inertial>\n"
        f'      <origin xyz="{_triple(com)}" rpy="0 0 0"/>\n      <mass value="{mass!r}"/>\n'
        f"      <inertia {moments}/>\n    </inertial>\n  </link>\n"
    )


@dataclass(frozen=True)
class Joint:
    """A joint of a URDF."""

    name: str  # its name
    kind: str  # one of `JOINT_TYPES`
    parent: str  # name of a link
    child: str  # name of a link, whose frame is the joint's
    rotation: Array  # of the joint in its parent, shape (3, 3)
    translation: Array  # of the joint in its parent, shape (3,) [m]
    axis: Array | None = None  # in the joint's frame, shape (3,)
    # name of the joint that it follows, multiplier and offset [rad or m]
    mimic: tuple[str, float, float] | None = None

    @property
    def text(self) -> str:
        """Return the text of its `<joint>`."""
        rpy = rpy_of_matrix(self.rotation)
        lines = [
            f"<joint name={_quoted(self.name)} type={_quoted(self.kind)}>",
            f'  <origin xyz="{_triple(self.translation)}" rpy="{_triple(rpy)}"/>',
            f"  <parent link={_quoted(self.parent)}/>",
            f"  <child link={_quoted(self.child)}/>",
        ]
        if self.axis is not None:
            lines.append(f'  <axis xyz="{_triple(self.axis)}"/>')
        if self.kind == "prismatic":  # the format wants limits
            lines.append('  <limit lower="-1000" upper="1000" effort="1e6" velocity="1e3"/>')
        if self.mimic is not None:
            master, multiplier, offset = self.mimic
            lines.append(
                f"  <mimic joint={_quoted(master)} "
                f'multiplier="{multiplier!r}" offset="{offset!r}"/>'
            )
        return "".join(f"  {line}\n" for line in [*lines, "</joint>"])


def robot_text(name: str, links: list[str], joints: list[Joint]) -> bytes:
    """Return a URDF of links, as `link_text` writes them, and joints in any order, as bytes."""
    body = "".join([*links, *(j.text for j in joints)])
    return f"<robot name={_quoted(name)}>\n{body}</robot>\n".encode()


def printed_angle_error(printed: Iterable[float]) -> float:
    """Return the largest rounding error of angles that are meant to be multiples of 15° [rad].

    Angles are as a file has them [rad]. It is 0 if none was rounded, but for the rounding of
    floating-point numbers.
    """
    return max((_angle_error(angle) for angle in printed), default=0.0)


def printed_direction_error(printed: Iterable[float]) -> float:
    """Return the rounding error of an axis or quaternion that is meant to be a simple one [rad]."""
    vector = np.array(list(printed))
    angles = [math.atan2(y, x) for x, y in combinations(vector.tolist(), 2)]
    decimals = max((_decimals(float(x)) for x in vector), default=0)
    if decimals < FEWEST_DECIMALS:
        return 0.0
    unit = 10.0**-decimals / max(float(np.linalg.norm(vector)), 1e-300)
    errors = (abs(a - NICE * round(a / NICE)) for a in angles)
    # Half a unit in each of two components.
    return max((e for e in errors if e <= math.sqrt(0.5) * unit), default=0.0)


def _angle_error(angle: float) -> float:
    decimals = _decimals(angle)
    if decimals < FEWEST_DECIMALS:
        return 0.0
    meant, unit = NICE * round(angle / NICE), 10.0**-decimals
    printed = (unit * round(meant / unit), unit * math.trunc(meant / unit))  # rounded, or cut off
    same = any(abs(angle - p) < 1e-3 * unit for p in printed)
    error = abs(angle - meant)
    # An angle may once have been stored in single precision, and printed with more digits.
    return error if same or error < 5e-7 else 0.0


def _decimals(number: float) -> int:
    """Return how many decimals the shortest text of a number has."""
    mantissa, _, exponent = f"{number!r}".partition("e")
    fraction = mantissa.partition(".")[2].rstrip("0")
    return max(len(fraction) - int(exponent or 0), 0)


def volume(kind: str, size: tuple[float, ...]) -> float:
    """Return the volume of a solid [m³], one of `SIZES`, with radii and half lengths [m]."""
    if kind == "sphere":
        return 4.0 / 3.0 * math.pi * size[0] ** 3
    if kind == "capsule":
        radius, half = size
        return math.pi * radius**2 * (2.0 * half + 4.0 / 3.0 * radius)
    if kind == "cylinder":
        return 2.0 * math.pi * size[0] ** 2 * size[1]
    product = math.prod(size)
    return 8.0 * product if kind == "box" else 4.0 / 3.0 * math.pi * product


def uniform_solid(kind: str, size: tuple[float, ...], mass: float) -> Array:
    """Return the ten inertial parameters of a solid about its centre, shape (10,), of a mass [kg].

    Kind and size are as of `volume`; cylinders and capsules stand along z.
    """
    if kind in ("box", "ellipsoid"):
        share = 1.0 / 3.0 if kind == "box" else 1.0 / 5.0
        squares = np.square(size)
        moments = share * mass * (squares.sum() - squares)
    elif kind == "sphere":
        moments = np.full(3, 0.4 * mass * size[0] ** 2)
    else:
        radius, half = size
        round_ends = 0.0
        if kind == "capsule":  # two half balls, each half a radius' 3/8 beyond the cylinder
            round_ends = mass * (4.0 / 3.0 * radius) / (2.0 * half + 4.0 / 3.0 * radius)
        middle = mass - round_ends
        across = middle * (3.0 * radius**2 + 4.0 * half**2) / 12.0
        across += round_ends * (0.4 * radius**2 + half**2 + 0.75 * half * radius)
        along = 0.5 * middle * radius**2 + 0.4 * round_ends * radius**2
        moments = np.array([across, across, along])
    return inertia.from_body(mass, np.zeros(3), np.diag(moments))


def refuse_xacro(root: Element, path: str) -> None:
    """Raise `InvalidModel` if a file still holds macros of xacro."""
    for element in walk(root):
        macro = element.tag.startswith("xacro:")
        inside = [v for v in element.attributes.values() if "${" in v or "$(" in v]
        if macro or inside:
            raise InvalidModel(
                "this is a xacro file, not yet a URDF",
                argument=f"{path}, line {element.line}",
                got=f"<{element.tag}>" if macro else repr(inside[0]),
                cure=f"expand it: `xacro {shlex.quote(path)} > arm.urdf`, "
                f"or `ros2 run xacro xacro {shlex.quote(path)} > arm.urdf`",
            )
