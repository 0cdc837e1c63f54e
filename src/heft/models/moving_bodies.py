"""Moving bodies of a URDF: links that fixed joints hold together, in the field's order of joints.

Joints are counted as urdfdom and pinocchio count them: from the root down, a branch to its end
before the next, branches by the names of their joints. Poses are multiplied in the order of
pinocchio's sums, too, so that robots keep their `structure_hash` to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from heft.arrays import Array, read_only
from heft.dynamics import FREE, PRISMATIC, REVOLUTE, Tree
from heft.errors import InvalidModel
from heft.files import Element, numbers
from heft.information import matrix_of_quaternion

from .urdf import ends

SAME_AXIS = 1e-12  # an axis this near to one of the frame's is that one


@dataclass(frozen=True, eq=False)
class Place:
    """Pose of a link, or of the joint that moves one, in a body."""

    link: str  # name of the link
    joint: Element | None  # the `<joint>` that it hangs on; None for the root
    body: int  # index of the body that it is part of, or that its joint hangs on; −1 the base
    rotation: Array  # of its frame in that of the body, shape (3, 3)
    translation: Array  # of its frame in that of the body, shape (3,) [m]
    fixed_to: str | None = None  # name of the link that a fixed joint holds it to; None for none

    @property
    def joint_name(self) -> str | None:
        """Name of the joint that it hangs on; None for the root."""
        return None if self.joint is None else self.joint.attributes["name"]


def places_of(
    root: Element, free: bool, cuts: Collection[str]
) -> tuple[list[Place], dict[str, Place]]:
    """Return the joints that move a body, in their order, and the links by name.

    Args:
        root: Root element of a URDF that `urdf.check` has passed.
        free: Whether the base floats, as a body of its own.
        cuts: Names of the fixed joints whose two sides are bodies of their own.
    """
    below: dict[str, list[tuple[str, Element]]] = {}
    hanging = set()
    for joint in sorted(root.all("joint"), key=lambda j: j.attributes["name"], reverse=True):
        parent, child = ends(joint)
        below.setdefault(parent, []).append((child, joint))
        hanging.add(child)
    names = [k.attributes["name"] for k in root.all("link")]
    still, here = read_only(np.eye(3)), read_only(np.zeros(3))
    moving: list[Place] = []
    links: dict[str, Place] = {}
    ahead: list[tuple[Place, bool]] = [
        (Place(n, None, -1, still, here), free) for n in names if n not in hanging
    ]
    while ahead:
        place, moves = ahead.pop()
        if moves:
            moving.append(place)
            place = Place(place.link, place.joint, len(moving) - 1, still, here)
        links[place.link] = place
        for child, joint in below.get(place.link, []):
            turn, move = _origin(joint)
            move = place.translation + _product(place.rotation, move[:, None])[:, 0]
            turn = _product(place.rotation, turn)
            fixed = joint.attributes["type"] == "fixed" and joint.attributes["name"] not in cuts
            held = place.link if fixed else None
            ahead.append((Place(child, joint, place.body, turn, move, held), not fixed))
    return moving, links


def _origin(joint: Element) -> tuple[Array, Array]:
    """Return rotation (3, 3) and translation (3,) [m] of a joint in its parent link."""
    origin = joint.find("origin")
    said = origin.attributes if origin is not None else {}
    half = [x / 2.0 for x in numbers(said.get("rpy", "0 0 0"), 3, "origin rpy", "joint")]
    (sr, sp, sy), (cr, cp, cy) = map(math.sin, half), map(math.cos, half)
    quaternion = np.array(
        [
            cr * cp * cy + sr * sp * sy,
            sr * cp * cy - cr * sp * sy,
            cr * sp * cy + sr * cp * sy,
            cr * cp * sy - sr * sp * cy,
        ]
    )
    move = np.array(numbers(said.get("xyz", "0 0 0"), 3, "origin xyz", "joint"))
    return matrix_of_quaternion(quaternion), move


def _product(left: Array, right: Array) -> Array:
    """Return the product of (3, 3) and (3, n), summed in the order in which Eigen does."""
    terms = left[:, :, None] * right
    total = (terms[:, 0] + terms[:, 1]) + terms[:, 2]
    total[2] = terms[2, 0] + (terms[2, 1] + terms[2, 2])
    return np.asarray(total)


def _axis(joint: Element) -> Array:
    """Return the unit vector along a joint's axis, shape (3,); x if the file says none."""
    found = joint.find("axis")
    said = found.attributes["xyz"] if found is not None else "1 0 0"
    axis = np.array(numbers(said, 3, "axis xyz", "joint"))
    near = [unit for unit in np.eye(3) if np.linalg.norm(axis - unit) <= SAME_AXIS]
    return near[0] if near else np.asarray(axis / np.linalg.norm(axis))


def refuse_immobile(path: str) -> NoReturn:
    """Raise `InvalidModel`: no joint of the file moves."""
    raise InvalidModel(
        "the model has no moving joint",
        argument=path,
        cure="give at least one joint a type other than fixed",
    )


def tree_of(
    moving: list[Place],
    joints: tuple[str, ...],
    followers: dict[str, tuple[str, float, float]],
    cuts: frozenset[str],
    first: int,
) -> Tree:
    """Return the tree of moving bodies; a body beyond a cut gets a joint of multiplier 0."""
    count = len(moving)
    kind = np.zeros(count, dtype=np.int64)
    axis = np.zeros((count, 3))
    channel = np.zeros(count, dtype=np.int64)
    multiplier, offset = np.ones(count), np.zeros(count)
    for b, place in enumerate(moving):
        name, joint = place.joint_name, place.joint
        if name is None or joint is None:
            kind[b] = FREE
            continue
        if name in cuts:
            axis[b, 2], multiplier[b] = 1.0, 0.0
            channel[b] = channel[place.body] if place.body >= 0 else 0
            continue
        kind[b] = PRISMATIC if joint.attributes["type"] == "prismatic" else REVOLUTE
        axis[b] = _axis(joint)
        master, multiplier[b], offset[b] = followers.get(name, (name, 1.0, 0.0))
        channel[b] = first + joints.index(master)
    return Tree(
        names=tuple(place.link for place in moving),
        parent=np.array([place.body for place in moving], dtype=np.int64),
        kind=kind,
        rotation=read_only(np.array([place.rotation for place in moving])),
        translation=read_only(np.array([place.translation for place in moving])),
        axis=read_only(axis),
        channel=channel,
        multiplier=read_only(multiplier),
        offset=read_only(offset),
    )
