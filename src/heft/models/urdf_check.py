"""Validation of URDF files before anything of them is used.

Other readers are lenient: pinocchio takes a mass of `nan`, `1,5` or `heavy` for 0 and goes on. Here
a file is refused with the name of the faulty element.
"""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Collection

from heft.errors import InvalidModel, did_you_mean, require_one_of
from heft.files import Element, numbers, walk

from .options import joint_lines
from .urdf import FREE_TYPES, MOMENTS, ends, refuse_xacro
from .urdf import inertial as inertial_of

MOST_LINKS = 1000
VERSIONS = ("1.0", "1.1", "1.2")
JOINT_TYPES = ("revolute", "continuous", "prismatic", "fixed")
# How many numbers attributes hold, by element.
NUMBERS = {
    "origin": {"xyz": 3, "rpy": 3},
    "mass": {"value": 1},
    "inertia": dict.fromkeys(MOMENTS, 1),
    "axis": {"xyz": 3},
    "limit": {"lower": 1, "upper": 1, "effort": 1, "velocity": 1},
    "dynamics": {"damping": 1, "friction": 1},
    "mimic": {"multiplier": 1, "offset": 1},
}


def _named(root: Element, tag: str, path: str) -> dict[str, Element]:
    elements: dict[str, Element] = {}
    for element in root.all(tag):
        name = element.attributes.get("name", "")
        if not name.strip():
            raise InvalidModel(f"a {tag} has no name", argument=f"{path}, line {element.line}")
        if name in elements:
            raise InvalidModel(
                f"two {tag}s are called '{name}'",
                argument=f"{path}, lines {elements[name].line} and {element.line}",
                cure="give each its own name",
            )
        elements[name] = element
    return elements


def _check_numbers(
    parent: Element, tag: str, where: str, needed: Collection[str] = (), largest: float = 1e12
) -> Element | None:
    """Return the child of a tag, its numbers checked; those that are not needed may be missing."""
    element = parent.find(tag)
    for key, count in NUMBERS[tag].items():
        if element is not None and (key in element.attributes or key in needed):
            place = f"{where}, line {element.line}"
            numbers(element.attributes.get(key), count, f"{tag} {key}", place, largest)
    return element


def _check_inertial(link: Element, where: str) -> None:
    if len(link.all("inertial")) > 1:
        raise InvalidModel("a link has two <inertial> elements", argument=where)
    for inertial in link.all("inertial"):
        _refuse_two(inertial, ("mass", "inertia"), where)
        _check_numbers(inertial, "origin", where)
        for tag in ("mass", "inertia"):
            if _check_numbers(inertial, tag, where, NUMBERS[tag]) is None:
                raise InvalidModel(f"<inertial> has no <{tag}>", argument=where)
    stated = inertial_of(link)
    if stated is not None and stated.mass < 0.0:
        raise InvalidModel(
            "a mass is negative", argument=where, got=stated.mass, expected="0 or more, in kg"
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
    for end in ("parent", "child"):
        element = joint.find(end)
        name = element.attributes.get("link", "") if element is not None else ""
        message = f"the {end} of a joint is no link of the file"
        require_one_of(name, links, message, where, InvalidModel, repr(name))
    _check_numbers(joint, "origin", where)
    axis = _check_numbers(joint, "axis", where, ("xyz",))
    if axis is not None and kind != "fixed":
        length = math.hypot(*map(float, axis.attributes["xyz"].split()))
        if not 1e-9 < length < 1e9:
            raise InvalidModel(
                "a joint axis has no direction", argument=where, got=axis.attributes["xyz"]
            )
    limit = _check_numbers(joint, "limit", where, ("effort", "velocity"), math.inf)
    if limit is None and kind in ("revolute", "prismatic"):
        raise InvalidModel(
            f"a {kind} joint has no <limit>",
            argument=where,
            cure='give it one (lower="-3.1" upper="3.1" effort="100" velocity="3")'
            + ("; or make its type continuous" if kind == "revolute" else ""),
        )
    _check_numbers(joint, "dynamics", where)
    mimic = _check_numbers(joint, "mimic", where)
    if mimic is not None:
        others = [j for j in joints if joints[j] is not joint]
        master = mimic.attributes.get("joint", "")
        message = "a joint mimics a joint that is not there"
        require_one_of(master, others, message, where, InvalidModel, repr(master))


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
    # What no other reader of URDFs takes, and poses that not all read alike.
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
