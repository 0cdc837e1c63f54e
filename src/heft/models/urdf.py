"""Validation of URDF files before anything of them is used; and the URDF of robots of other files.

Other readers are lenient: pinocchio takes a mass of `nan`, `1,5` or `heavy` for 0 and goes on. Here
a file is refused with the name of the faulty element.
"""

from __future__ import annotations

import html
import math
import shlex
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidModel, did_you_mean
from heft.files import Edit, Element, apply, numbers, walk, xml
from heft.information import frame_change, inertia, matrix_of_rpy, rpy_of_matrix

from . import mjcf_shapes, rounding
from .options import joint_lines

MOST_LINKS = 1000
LARGEST_GYRATION = 30.0  # [m], of a body with a mass; more is in another unit
SOLID = 1e-3  # [kg]; lighter links stand for frames, and their inertia for nothing
VERSIONS = ("1.0", "1.1", "1.2")
JOINT_TYPES = ("revolute", "continuous", "prismatic", "fixed")
FREE_TYPES = ("floating", "planar")


def _quoted(text: str) -> str:
    return '"' + html.escape(text).translate({ord(c): f"&#{ord(c)};" for c in "\n\r\t"}) + '"'


def _named(root: Element, tag: str, path: str) -> dict[str, Element]:
    found: dict[str, Element] = {}
    for element in root.all(tag):
        name = element.attributes.get("name", "")
        if not name.strip():
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
            numbers(origin.attributes[key], 3, f"origin {key}", f"{where}, line {origin.line}")


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
            read[key] = numbers(found.attributes.get(key), 1, f"{tag} {key}", where)[0]
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
        raise InvalidModel(
            f"joints of type '{kind}' cannot be identified",
            argument=where,
            valid=JOINT_TYPES,
            cure="if it stands still, say so in the file of --with:\n"
            + joint_lines([joint.attributes["name"]], "fixed = true")
            if kind in FREE_TYPES
            else did_you_mean(kind, JOINT_TYPES),
        )
    _refuse_two(joint, ("parent", "child", "limit", "mimic"), where)
    _check_ends(joint, links, where)
    _check_origin(joint, where)
    _check_axis(joint, kind, where)
    _check_limit(joint, kind, where)
    dynamics = joint.find("dynamics")
    for key in ("damping", "friction"):
        if dynamics is not None and key in dynamics.attributes:
            numbers(dynamics.attributes[key], 1, f"dynamics {key}", where)
    _check_mimic(joint, joints, where)


def _check_ends(joint: Element, links: dict[str, Element], where: str) -> None:
    for end in ("parent", "child"):
        element = joint.find(end)
        name = element.attributes.get("link", "") if element is not None else ""
        if name not in links:
            raise InvalidModel(
                f"the {end} of a joint is no link of the file",
                argument=where,
                got=repr(name),
                valid=links,
                cure=did_you_mean(name, links),
            )


def _check_axis(joint: Element, kind: str, where: str) -> None:
    axis = joint.find("axis")
    if axis is not None:
        direction = numbers(axis.attributes.get("xyz"), 3, "axis xyz", where)
        if kind != "fixed" and not 1e-9 < math.hypot(*direction) < 1e9:
            raise InvalidModel(
                "a joint axis has no direction", argument=where, got=axis.attributes["xyz"]
            )


def _check_mimic(joint: Element, joints: dict[str, Element], where: str) -> None:
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
                numbers(mimic.attributes[key], 1, f"mimic {key}", where)


def _check_limit(joint: Element, kind: str, where: str) -> None:
    limit = joint.find("limit")
    if limit is None:
        if kind in ("revolute", "prismatic"):
            raise InvalidModel(
                f"a {kind} joint has no <limit>",
                argument=where,
                cure='give it one (lower="-3.1" upper="3.1" effort="100" velocity="3")'
                + ("; or make its type continuous" if kind == "revolute" else ""),
            )
        return
    for key in ("lower", "upper", "effort", "velocity"):
        if key in limit.attributes or key in ("effort", "velocity"):
            numbers(limit.attributes.get(key), 1, f"limit {key}", where, math.inf)


def ends(joint: Element) -> tuple[str, str]:
    """Return the names of the parent and child link of a joint that `check` has passed."""
    parent, child = joint.find("parent"), joint.find("child")
    assert parent is not None and child is not None
    return parent.attributes["link"], child.attributes["link"]


def _check_tree(links: dict[str, Element], joints: dict[str, Element], path: str) -> None:
    pairs = [ends(j) for j in joints.values()]
    parents = {child: parent for parent, child in pairs}
    for name, count in Counter(child for _, child in pairs).items():
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
    rooted: set[str] = set()
    for name in links:
        seen: set[str] = set()
        while name in parents and name not in rooted:
            if name in seen:
                raise InvalidModel(
                    "the joints form a cycle",
                    argument=f"{path}, link '{name}'",
                    cure="cut the cycle at one joint",
                )
            seen.add(name)
            name = parents[name]
        rooted |= seen


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


def _check_format(root: Element, path: str) -> None:
    """Refuse what no other reader of URDFs takes, and poses that not all read alike."""
    if "name" not in root.attributes:
        raise InvalidModel(
            "the robot has no name",
            argument=f"{path}, line {root.line}",
            got="<robot>",
            cure='give it one: <robot name="arm">; other readers refuse the file without',
        )
    version = root.attributes.get("version", VERSIONS[0])
    if version not in VERSIONS:
        raise InvalidModel(
            "the URDF is of an unknown version",
            argument=f"{path}, line {root.line}",
            got=repr(version),
            valid=VERSIONS,
        )
    turned = next((e for e in walk(root) if "quat_xyzw" in e.attributes), None)
    if turned is not None:
        raise InvalidModel(
            "poses are read by their angles, not by quaternions",
            argument=f"{path}, line {turned.line}",
            got=f"quat_xyzw={turned.attributes['quat_xyzw']!r}",
            expected="rpy",
            cure="write the same rotation as rpy, about fixed axes x, y, then z [rad]",
        )


def check(root: Element, path: str) -> None:
    """Raise `InvalidModel` if a file is no URDF of a tree of rigid bodies with finite numbers.

    Raises:
        InvalidModel: Naming the element and its line.
    """
    refuse_xacro(root, path)
    if root.tag in ("sdf", "gazebo"):
        raise InvalidModel(
            "SDF files are not read",
            argument=path,
            got=f"<{root.tag}>",
            expected="URDF or MJCF",
            cure="give the URDF that it was made from, or convert it: "
            f"`sdf2mjcf {shlex.quote(path)} arm.xml` (package sdformat-mjcf)",
        )
    included = next((e for e in walk(root) if e.tag.endswith(":include")), None)
    if included is not None:
        raise InvalidModel(
            "a model file must not include others",
            argument=f"{path}, line {included.line}",
            got=f"<{included.tag}>",
            cure="put what it includes in its place",
        )
    if root.tag != "robot":
        raise InvalidModel(
            "this is not a URDF",
            argument=path,
            got=f"<{root.tag}>",
            expected="<robot> (URDF) or <mujoco> (MJCF)",
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
    _check_format(root, path)


def held_still(data: bytes, path: str, joints: Collection[str] | None = None) -> bytes:
    """Return a URDF whose floating and planar joints, all or some, are of type fixed.

    Args:
        joints: Names of the joints to fix, of those that float or are planar; all if not given.
    """
    edits = []
    for joint in xml.parse(data, path).all("joint"):
        said = joint.attributes
        if said.get("type") in FREE_TYPES and (joints is None or said.get("name") in joints):
            edits.append(Edit(*joint.spans(data)["type"], "fixed"))
    return apply(data, edits)


@dataclass(frozen=True)
class Inertial:
    """A link's `<inertial>`: mass [kg], pose of the inertial frame, inertia in it [kg·m²]."""

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
    x, y, z = numbers(place.get("xyz", "0 0 0"), 3, "origin xyz", "inertial")
    roll, pitch, yaw = numbers(place.get("rpy", "0 0 0"), 3, "origin rpy", "inertial")
    xx, xy, yy, xz, yz, zz = (
        float(tensor.attributes[k]) for k in ("ixx", "ixy", "iyy", "ixz", "iyz", "izz")
    )
    return Inertial(
        float(mass.attributes["value"]), (x, y, z), (roll, pitch, yaw), (xx, xy, yy, xz, yz, zz)
    )


def solid(link: Element, mass: float) -> Array | None:
    """Return the ten inertial parameters of a link that fills its shape with uniform density.

    Args:
        link: Its element; the first box, cylinder or ball of its collision or visual counts.
        mass: Its mass [kg].

    Returns:
        Shape (10,) [kg, kg·m, kg·m²], in the link's frame; None if it has no such shape.
    """
    for element in (*link.all("collision"), *link.all("visual")):
        geometry, origin = element.find("geometry"), element.find("origin")
        for shape in geometry.children if geometry is not None else ():
            size = _size(shape)
            if size is None:
                continue
            place = origin.attributes if origin is not None else {}
            xyz = numbers(place.get("xyz", "0 0 0"), 3, "origin xyz", "geometry")
            rpy = numbers(place.get("rpy", "0 0 0"), 3, "origin rpy", "geometry")
            own = mjcf_shapes.solid(shape.tag, size, mass)
            return np.asarray(frame_change(matrix_of_rpy(*rpy), np.array(xyz)) @ own)
    return None


def _size(shape: Element) -> tuple[float, ...] | None:
    """Return radii and half lengths of a shape [m]; None if it is none of positive size."""
    keys = {"box": ("size",), "cylinder": ("radius", "length"), "sphere": ("radius",)}
    try:
        said = [float(x) for k in keys[shape.tag] for x in shape.attributes[k].split()]
    except (KeyError, ValueError):
        return None
    if len(said) != {"box": 3, "cylinder": 2, "sphere": 1}[shape.tag]:
        return None
    half = {"box": (0.5, 0.5, 0.5), "cylinder": (1.0, 0.5), "sphere": (1.0,)}[shape.tag]
    size = tuple(x * h for x, h in zip(said, half, strict=True))
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
    held: frozenset[str] = frozenset()  # names of joints of the file that do not move
    angle_error: float = 0.0  # largest rounding error of the angles that the file prints [rad]


def angle_error(root: Element) -> float:
    """Return the largest rounding error of the angles of joints in a URDF [rad]."""
    errors = [0.0]
    for joint in root.all("joint"):
        origin, axis = joint.find("origin"), joint.find("axis")
        if origin is not None and "rpy" in origin.attributes:
            errors.append(rounding.angle_error(numbers(origin.attributes["rpy"], 3, "rpy", "")))
        if axis is not None:
            errors.append(
                rounding.direction_error(numbers(axis.attributes.get("xyz"), 3, "axis", ""))
            )
    return max(errors)


def _triple(vector: Array) -> str:
    return " ".join(repr(float(x) + 0.0) for x in vector)


def link_text(name: str, parameters: Array | None = None) -> str:
    """Return the text of a `<link>`.

    Args:
        parameters: Ten inertial parameters in its frame, shape (10,) [kg, kg·m, kg·m²]; without
            them it gets no `<inertial>`.
    """
    if parameters is None:
        return f"  <link name={_quoted(name)}/>\n"
    mass, com, tensor = inertia.to_body(parameters)
    keys = ("ixx", "ixy", "iyy", "ixz", "iyz", "izz")
    moments = " ".join(
        f'{k}="{float(tensor[i, j])!r}"'
        for k, (i, j) in zip(keys, inertia.INERTIA_INDEX, strict=True)
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
    """Return a URDF of links and joints, as bytes.

    Args:
        links: Each as `link_text` writes it.
        joints: In any order.
    """
    body = "".join([*links, *(j.text for j in joints)])
    return f"<robot name={_quoted(name)}>\n{body}</robot>\n".encode()
