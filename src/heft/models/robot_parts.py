"""Parts of a robot by its URDF and options: joints, moving bodies, links as believed, drives.

Links that fixed joints hold together are one moving body. Joints are counted as urdfdom and
pinocchio count them: from the root down, a branch to its end before the next, branches by the names
of their joints. Poses are multiplied in the order of pinocchio's sums, too, so that robots keep
their `structure_hash` to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from heft.arrays import Array, read_only
from heft.dynamics import (
    FREE,
    FRICTION,
    PRISMATIC,
    REVOLUTE,
    Armature,
    Drive,
    Drives,
    Link,
    Tree,
    friction_terms,
)
from heft.errors import InvalidModel, InvalidSetting, did_you_mean, require_one_of
from heft.files import Element, numbers
from heft.information import inertia, matrix_of_quaternion, matrix_of_rpy

from . import urdf
from .options import Options

DEFAULT_FRICTION = "full"  # of a joint of which nothing is said


def mimics(root: Element, path: str) -> dict[str, tuple[str, float, float]]:
    """Return for each mimicking joint its master, multiplier and offset, chains resolved.

    The position of a mimicking joint is multiplier · q + offset, with q its master's; fixed joints
    are left out. The file is one that `urdf_check.check` has passed; masters mimic none.

    Raises:
        InvalidModel: If joints mimic one another in a circle.
    """
    direct = {}
    for joint in root.all("joint"):
        mimic = joint.find("mimic")
        if mimic is not None and joint.attributes["type"] != "fixed":
            get = mimic.attributes.get
            direct[joint.attributes["name"]] = (
                mimic.attributes["joint"],
                float(get("multiplier", "1")),
                float(get("offset", "0")),
            )
    resolved = {}
    for name in direct:
        master, multiplier, offset = direct[name]
        hops = 0
        while master in direct:
            hops += 1
            if hops > len(direct):
                raise InvalidModel(
                    "joints mimic one another in a circle", argument=f"{path}, joint '{name}'"
                )
            above, factor, shift = direct[master]
            master, multiplier, offset = above, multiplier * factor, offset + multiplier * shift
        resolved[name] = (master, multiplier, offset)
    return resolved


def refuse_unknown(
    options: Options,
    joints: tuple[str, ...],
    mimics: Mapping[str, tuple[str, float, float]],
    fixed: Collection[str],
    path: str,
) -> None:
    """Refuse mimicry of joints that do not move, and options of joints that are not there.

    That a joint is fixed may be said of one that the file has fixed already, or floating.

    Args:
        joints: Names of the joints that move by themselves.
        mimics: Those that follow others, as `mimics` returns them.
        fixed: Names of the joints that the file fixes, or that are held still.

    Raises:
        InvalidModel: If a joint mimics one that does not move.
        InvalidSetting: If options name a joint that does not exist or that mimics another.
    """
    for follower, (master, *_) in mimics.items():
        if master not in joints:
            raise InvalidModel(
                "a joint mimics a joint that does not move",
                argument=f"{path}, joint '{follower}'",
                got=master,
                valid=joints,
            )
    for wanted in options.joint or {}:
        if wanted in joints or (wanted in options.still and wanted in fixed):
            continue
        cure = did_you_mean(wanted, joints)
        says = f"the robot has no joint '{wanted}'"
        if wanted in mimics:
            says = f"joint '{wanted}' mimics another, and has no options of its own"
            cure = f"speak of the joint that it follows: [joint.{mimics[wanted][0]}]"
        raise InvalidSetting(says, argument=f"[joint.{wanted}]", valid=joints, cure=cure)


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

    A base that is free is a body of its own, and so are both sides of fixed joints at `cuts`.
    """
    below: dict[str, list[tuple[str, Element]]] = {}
    hanging = set()
    for joint in sorted(root.all("joint"), key=lambda j: j.attributes["name"], reverse=True):
        parent, child = urdf.ends(joint)
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
            carrier = place.link if fixed else None
            ahead.append((Place(child, joint, place.body, turn, move, carrier), not fixed))
    return moving, links


def _origin(joint: Element) -> tuple[Array, Array]:
    """Return rotation (3, 3) and translation (3,) [m] of a joint in its parent link."""
    xyz, rpy = urdf.pose(joint)
    half = [x / 2.0 for x in rpy]
    (sr, sp, sy), (cr, cp, cy) = map(math.sin, half), map(math.cos, half)
    quaternion = np.array(
        [
            cr * cp * cy + sr * sp * sy,
            sr * cp * cy - cr * sp * sy,
            cr * sp * cy + sr * cp * sy,
            cr * cp * sy - sr * sp * cy,
        ]
    )
    return matrix_of_quaternion(quaternion), np.array(xyz)


def _product(first: Array, right: Array) -> Array:
    """Return the product of (3, 3) and (3, n), summed in the order in which Eigen does."""
    terms = first[:, :, None] * right
    total = (terms[:, 0] + terms[:, 1]) + terms[:, 2]
    total[2] = terms[2, 0] + (terms[2, 1] + terms[2, 2])
    return np.asarray(total)


def _axis(joint: Element) -> Array:
    """Return the unit vector along a joint's axis, shape (3,); x if the file says none."""
    axis_element = joint.find("axis")
    written = axis_element.attributes["xyz"] if axis_element is not None else "1 0 0"
    axis = np.array(numbers(written, 3, "axis xyz", "joint"))
    # An axis this near to one of the frame's is that one.
    near = [unit for unit in np.eye(3) if np.linalg.norm(axis - unit) <= 1e-12]
    return near[0] if near else np.asarray(axis / np.linalg.norm(axis))


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


def cut_joints(root: Element, options: Options) -> frozenset[str]:
    """Return the names of the fixed joints at which wrench sensors sit: there two bodies meet.

    A sensor sits at the joint by which a link hangs on the one before it. Where that joint moves,
    it is where two bodies meet anyhow. Where it is fixed, what is before and what is beyond would
    be one body, of which joints' torques see the sum alone, and the sensor the part beyond it.

    Raises:
        InvalidSetting: If a sensor's link is none of the robot's, or nothing is before it.
    """
    above = {urdf.ends(j)[1]: j for j in root.all("joint")}
    links = [k.attributes["name"] for k in root.all("link")]
    joints = set()
    for name, sensor in (options.sensor or {}).items():
        where = f"[sensor.{name}], link"
        message = f"a wrench sensor sits before '{sensor.link}', which is no link of the robot"
        require_one_of(sensor.link, links, message, where)
        if sensor.link not in above:
            raise InvalidSetting(
                f"nothing is before '{sensor.link}' that a sensor could hold it by",
                argument=where,
                valid=above,
                cure="name the first link beyond the sensor; of a sensor below the base, give the "
                "model file a link before it and a joint of type fixed between the two",
            )
        joint = above[sensor.link]
        if joint.attributes["type"] == "fixed":
            joints.add(joint.attributes["name"])
    return frozenset(joints)


def links_of(
    root: Element,
    moving: Sequence[Place],
    places: Mapping[str, Place],
    translation: urdf.Translation,
    cuts: frozenset[str],
) -> tuple[tuple[Link, ...], list[str]]:
    """Return the links that the file itself has, with priors, and notes to the user."""
    own = [k for k in root.all("link") if k.attributes["name"] not in translation.aids]
    elements = {k.attributes["name"]: k for k in own}
    tens = {name: _written(k) for name, k in elements.items()}
    beyond = {b: place.body for b, place in enumerate(moving) if place.joint_name in cuts}
    masses = {n: float(ten[0]) for n, ten in tens.items() if ten is not None}
    in_motion = [m for n, m in masses.items() if places[n].body >= 0 and m > 0.0]
    # A link fixed to another with less than this share of the whole is a frame, not a body.
    negligible = 1e-7 * sum(in_motion)
    # A link with all but no mass (a camera, a flange) says nothing of what a link weighs.
    solid = [m for m in in_motion if m > negligible]
    # Where the file gives no moving link a mass, one of 2 kg and 0.1 m stands for each.
    usual = inertia.sphere(float(np.median(solid)) if solid else 2.0, 0.1)
    of_bodies: dict[int, float] = {}  # −1 the base [kg]
    for name, mass in masses.items():
        body = places[name].body
        of_bodies[body] = of_bodies.get(body, 0.0) + mass
    for cut in sorted(beyond, reverse=True):  # what is before a cut carries what is beyond it
        of_bodies[beyond[cut]] = of_bodies.get(beyond[cut], 0.0) + of_bodies.get(cut, 0.0)
    links, notes = [], []
    for name, ten in tens.items():
        place = places[name]
        fixed = place.fixed_to is not None and place.fixed_to not in translation.aids
        # A link without mass is only a frame if it is fixed to another, or another to it.
        carried = fixed or of_bodies.get(place.body, 0.0) > negligible
        massless = ten is None or float(ten[0]) <= negligible
        frame_only = place.body >= 0 and carried and massless and name not in translation.solid
        link = Link(
            name=name,
            body=place.body,
            rotation=read_only(place.rotation),
            translation=read_only(place.translation),
            nominal=np.zeros(10),
            written=read_only(np.zeros(10) if ten is None else ten),
            given=not massless,
            frame_only=frame_only,
        )
        shape = urdf.solid(elements[name], float(usual[0]))
        stand_in = usual if shape is None else shape
        nominal, note = _prior(link, elements[name], stand_in, shape is not None)
        links.append(replace(link, nominal=read_only(nominal), extent=_length(shape)))
        notes += [note] if note else []
    return tuple(links), notes


def _length(solid: Array | None) -> float:
    """Return the length of a rod with a solid's largest second moment [m]."""
    if solid is None:
        return 0.0
    mass, _, tensor = inertia.to_body(solid)
    second = 0.5 * np.trace(tensor) - np.linalg.eigvalsh(tensor)[0]
    return float(np.sqrt(12.0 * second / mass))


def is_mended(link: Link) -> bool:
    """Return whether a link's prior is not what the file states, since that is no body."""
    off = float(np.abs(link.nominal - link.written).max())
    return link.given and off > 1e-9 * float(np.abs(link.written).max())


def _why_none(link: Link, element: Element) -> str:
    """Return why a link's inertia is that of no body, or of none in these units."""
    stated = urdf.inertial(element)
    assert stated is not None
    xx, xy, yy, xz, yz, zz = stated.moments
    if yy == xy and yz > 0.0:  # which then is the iyy
        return (
            f"its iyy repeats ixy, {xy:g} kg·m²: two rows of the matrix seem written one after "
            f"another; the URDF asks for ixx ixy ixz iyy iyz izz, which would be {xx:g} {xy:g} "
            f"{xz:g} {yz:g} {zz:g} and the izz that is not there"
        )
    mass, _, tensor = inertia.to_body(link.written)
    low, middle, high = np.linalg.eigvalsh(tensor).tolist()
    gyration = float(np.sqrt(np.abs(tensor).max() / mass))
    if gyration > urdf.LARGEST_GYRATION:
        return (
            f"a radius of gyration of {gyration:.3g} m; divide the moments by 1e6 if they are in "
            "kg·mm², by 1e9 if in g·mm²"
        )
    if low < 0.0:
        return f"a principal moment of inertia is {low:.3g} kg·m²"
    if low + middle <= 0.0:
        return f"its principal moments of inertia are {low:.3g}, {middle:.3g}, {high:.3g} kg·m²"
    return (
        f"the largest principal moment of inertia, {high:.3g} kg·m², is "
        f"{high / (low + middle):.6g} times the sum of the two others"
    )


def _prior(
    link: Link, element: Element, stand_in: Array, is_shape: bool
) -> tuple[Array, str | None]:
    """Return a link's prior inertial parameters, shape (10,), and a note to the user or None."""
    moves = link.body >= 0
    if link.given:
        mass, center, tensor = inertia.to_body(link.written)
        nominal = inertia.nearest_consistent(link.written)
        # Links lighter than a gram stand for frames, and their inertia for nothing.
        if mass >= 1e-3 and np.abs(tensor).max() > mass * urdf.LARGEST_GYRATION**2:
            own = mass / stand_in[0] * inertia.to_body(stand_in)[2]
            nominal = inertia.from_body(mass, center, own)
        if moves and is_mended(replace(link, nominal=nominal)):
            return nominal, (
                f"link '{link.name}': the file's inertia is that of no rigid body, or of a flat "
                f"one: {_why_none(link, element)}; that of a body of the link's size is used as "
                "the prior"
            )
        return nominal, None
    if moves and not link.frame_only:
        return stand_in, (
            f"link '{link.name}': the file gives it no mass; "
            f"{'its own shape' if is_shape else 'a sphere'} of {stand_in[0]:.3g} kg is used as the "
            "prior"
        )
    return np.zeros(10), None


def _written(link: Element) -> Array | None:
    """Return the ten parameters that a link's `<inertial>` states, in the link's frame."""
    inertial = urdf.inertial(link)
    if inertial is None:
        return None
    axes = matrix_of_rpy(*inertial.rpy)
    tensor = np.zeros((3, 3))
    for (i, j), value in zip(inertia.INERTIA_INDEX, inertial.moments, strict=True):
        tensor[i, j] = tensor[j, i] = value
    return inertia.from_body(inertial.mass, np.array(inertial.xyz), axes @ tensor @ axes.T)


def drives_of(joints: tuple[str, ...], tree: Tree, options: Options, first: int) -> Drives:
    """Return the drives of joints, from channel `first` on, then of motors that move several.

    Raises:
        InvalidSetting: If the coupling is not one of these joints.
    """
    unit = np.eye(tree.channels)
    linear = {int(c) for c, k in zip(tree.channel, tree.kind, strict=True) if k == PRISMATIC}
    drives = []
    for i, name in enumerate(joints):
        option = options.of(name)
        is_still = option.position is not None  # a joint held still shows nothing of its drive
        slides = first + i in linear
        friction = "none" if is_still else option.friction or DEFAULT_FRICTION
        terms = friction_terms(friction, slides)
        if option.armature and not is_still:
            terms = (Armature(), *terms)
        drives.append(Drive(name, read_only(unit[first + i]), terms, slides))
    coupling = options.coupling
    if coupling is None:
        return Drives(tuple(drives))
    rows = coupling.joints or joints
    unknown = [j for j in rows if j not in joints]
    if unknown or len(rows) != len(coupling.matrix):
        raise InvalidSetting(
            "the rows of the coupling matrix are not joints of the robot",
            argument="[coupling], joints",
            got=", ".join(unknown) or f"{len(coupling.matrix)} rows",
            valid=joints,
        )
    matrix = np.array(coupling.matrix)
    for k, motor in enumerate(coupling.motors):
        column = matrix[:, k]
        if np.count_nonzero(column) < 2:
            continue  # moves one joint alone: the joint's own drive says it all
        ratio = np.zeros(tree.channels)
        for row, joint in enumerate(rows):
            ratio[first + joints.index(joint)] = column[row]
        # Stated at the joint that has the motor's place, so that numbers compare with a joint's.
        ratio /= column[k] if column[k] != 0.0 else column[np.flatnonzero(column)[0]]
        name = motor if motor not in joints else f"{motor}_motor"
        moved = [
            options.of(j).friction or DEFAULT_FRICTION
            for j, r in zip(rows, column, strict=True)
            if r
        ]
        friction = max(moved, key=tuple(FRICTION).index)
        # An offset is the joints' own, and so is load-dependent gear friction.
        own = tuple(t for t in friction_terms(friction) if not t.joints_only)
        drives.append(Drive(name, read_only(ratio), (Armature(), *own), False))
    return Drives(tuple(drives))
