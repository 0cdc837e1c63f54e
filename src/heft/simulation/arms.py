"""Robots to be simulated: model files, whole or cut down to a chain, and files that are wrong.

Any URDF or MJCF on a fixed base. What a simulation of masses and joints does not need is left out
(shapes that other files hold, contacts, sensors), a floating base is held where the file has it,
and inertias that no body can have are mended; what changes numbers is said in the robot's notes.
Nothing here knows how heft reads a model file, and limits are taken as the file states them.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidModel, InvalidSetting
from heft.files import read_text, xml

from .bodies import Inertial, load_mujoco, read_inertial, write_inertial
from .simulated_links import Joints, compiled

LEAST = 1e-6  # likewise, of robots that are simulated whole
POINT = 1e-12  # [kg·m²] of a point mass, which MuJoCo does not know
LOST = ("visual", "collision", "safety_controller", "dynamics", "calibration", "mimic")


@dataclass(frozen=True, eq=False)
class Arm:
    """A chain or tree of joints on a fixed base."""

    name: str  # of the robot
    # its model file, URDF or MJCF, without shapes; the numbers in it are those simulated
    urdf: bytes
    joints: tuple[str, ...]  # names of the joints that follow no other, in the file's order
    lower: Array  # lower limits of position, shape (joints,) [rad]
    upper: Array  # upper limits of position, shape (joints,) [rad]
    speed: Array  # largest speeds, shape (joints,) [rad/s]
    effort: Array  # largest torques, shape (joints,) [N·m]
    notes: tuple[str, ...] = ()  # what of the file is simulated otherwise, in sentences

    @staticmethod
    def of(
        path: Path,
        name: str | None = None,
        first: str | None = None,
        last: str | None = None,
        fastest: float = 2.5,
    ) -> Arm:
        """Return the arm of a URDF.

        Args:
            name: Of the arm; the file's if not given.
            first: The first joint that is kept, on a base that stands still; that next to the
                file's own base if not given.
            last: The last joint that is kept; what it does not carry, or moves behind it, is cut
                off. The last revolute one if not given.
            fastest: Bound on the speeds, where the file's are higher [rad/s].

        Raises:
            InvalidModel: If a joint of the chain does not turn.
        """
        root = ET.fromstring(path.read_bytes())
        chain = _chain(root, first, last)
        kept = _cut(root, chain)
        for link in root.findall("link"):
            inertial = read_inertial(link)
            if inertial is not None:
                write_inertial(link, inertial.sound(0.02))
        lower, upper, speed, effort = np.array([_limits(j) for j in kept]).T
        turns = upper - lower > 2.0 * np.pi
        lower, upper = np.where(turns, -np.pi, lower), np.where(turns, np.pi, upper)
        return Arm(
            name or path.stem,
            ET.tostring(root),
            tuple(j.attrib["name"] for j in kept),
            lower,
            upper,
            np.minimum(speed, fastest),
            effort,
        )

    @cached_property
    def links(self) -> Mapping[str, Inertial]:
        """Mass properties of every link that the file gives some."""
        stated = (
            (k.attrib["name"], read_inertial(k)) for k in ET.fromstring(self.urdf).findall("link")
        )
        return {name: inertial for name, inertial in stated if inertial is not None}

    def believed(self, rng: np.random.Generator, share: float = 0.3, shift: float = 0.03) -> bytes:
        """Return a model file with perturbed mass properties of all links; see `Inertial.wrong`.

        Args:
            share: Standard deviation of ln(mass) and of the bodies' stretch.
            shift: Rms shift of the centres of mass [m].

        Raises:
            InvalidSetting: If it is no URDF.
        """
        if share == 0.0 == shift:
            return self.urdf
        root = ET.fromstring(self.urdf)
        if root.tag != "robot":
            raise InvalidSetting(
                "only a URDF is made wrong for the controller", argument=self.name, cure="wrong = 0"
            )
        for link in root.findall("link"):
            inertial = read_inertial(link)
            if inertial is not None:
                write_inertial(link, inertial.wrong(rng, share, shift))
        return ET.tostring(root)


def _child(element: ET.Element, tag: str) -> str:
    end = element.find(tag)
    return "" if end is None else end.attrib["link"]


def _chain(root: ET.Element, first: str | None, last: str | None) -> list[ET.Element]:
    """Return the joints from the first to the last one, fixed ones among them."""
    joints = root.findall("joint")
    of_child = {_child(j, "child"): j for j in joints}
    turning = [j for j in joints if j.get("type") in ("revolute", "continuous")]
    chains = []
    for end in turning if last is None else [j for j in joints if j.get("name") == last]:
        chain = [end]
        while chain[0].get("name") != first and _child(chain[0], "parent") in of_child:
            chain.insert(0, of_child[_child(chain[0], "parent")])
        chains.append(chain)
    if not chains:
        names = [j.attrib["name"] for j in turning]
        raise InvalidModel("there is no such joint that turns", argument="last", valid=names)
    return max(chains, key=lambda c: sum(j.get("type") != "fixed" for j in c))


def _cut(root: ET.Element, chain: Sequence[ET.Element]) -> list[ET.Element]:
    """Remove all but a chain and what is fixed to it; return the chain's joints that turn."""
    links = {_child(chain[0], "parent")} | {_child(j, "child") for j in chain}
    joints = list(chain)
    rest = [j for j in root.findall("joint") if j.get("type") == "fixed"]
    while more := [j for j in rest if _child(j, "parent") in links and j not in joints]:
        joints += more
        links |= {_child(j, "child") for j in more}
    for element in list(root):
        kept = element.tag == "joint" and element in joints
        if not kept and not (element.tag == "link" and element.get("name") in links):
            root.remove(element)
            continue
        for part in [p for p in element if p.tag in LOST]:
            element.remove(part)
    turning = [j for j in chain if j.get("type") != "fixed"]
    for joint in turning:
        if joint.get("type") not in ("revolute", "continuous"):
            raise InvalidModel("a joint that turns is expected", argument=joint.get("name"))
    return turning


def whole_robot(path: Path) -> Arm:
    """Return the robot of a model file with all of its joints.

    Args:
        path: URDF or MJCF; no other file is opened.

    Raises:
        InvalidModel: If it is neither, asks for other files, or has joints that neither turn nor
            slide.
        InvalidSetting: If MuJoCo is not installed.
    """
    data = read_text(path, "model file", InvalidModel)
    xml.parse(data, str(path))  # refuses what is no tree of elements, with its place
    root = ET.fromstring(data)
    if root.tag == "robot":
        notes = _without_shapes(root)
        limits = {j.get("name"): _limits(j) for j in root.findall("joint")}
    elif root.tag == "mujoco":
        notes, limits = _grounded(root, path), {}
    else:
        raise InvalidModel(
            "this is neither a URDF nor an MJCF file", argument=str(path), got=f"<{root.tag}>"
        )
    file = ET.tostring(root)
    try:
        model = compiled(file)
        joints = Joints.of(model)
    except InvalidModel as problem:
        raise problem.retold(InvalidModel, f"{path}, {problem.argument or root.tag}") from problem
    if not joints.names:
        raise InvalidModel("the robot has no joint that could move", argument=str(path))
    if not limits:
        limits = dict(zip(joints.names, _limits_of(model, joints), strict=True))
    lower, upper, speed, effort = np.array([limits[j] for j in joints.names]).T
    return Arm(path.stem, file, joints.names, lower, upper, speed, effort, notes)


def _without_shapes(root: ET.Element) -> tuple[str, ...]:
    """Remove what is not simulated from a URDF and mend its inertias; return notes on these."""
    for element in list(root):
        if element.tag not in ("link", "joint"):
            root.remove(element)
        for part in [p for p in element if p.tag in LOST and p.tag not in ("mimic", "dynamics")]:
            element.remove(part)
    mended = []
    for link in root.findall("link"):
        inertial = read_inertial(link)
        if inertial is None:
            continue
        values = np.linalg.eigvalsh(inertial.spread)
        if values.min() < max(LEAST * values.max(), POINT):
            write_inertial(link, inertial.sound(LEAST, POINT))
            if values.min() < -LEAST * abs(values).max():
                mended.append(link.attrib["name"])
    if not mended:
        return ()
    return (f"inertias that no body has are mended: {', '.join(mended)}",)


def _grounded(root: ET.Element, path: Path) -> tuple[str, ...]:
    """Remove what is not simulated from an MJCF and fix its base; return notes on bodies fixed."""
    if root.find(".//include") is not None:
        raise InvalidModel(
            "the file includes others, which are not opened",
            argument=str(path),
            cure="save it as one file: mujoco.mj_saveLastXML",
        )
    for tag in ("keyframe", "sensor", "contact", "deformable", "visual", "statistic", "custom"):
        for element in root.findall(tag):
            root.remove(element)
    for assets in root.findall("asset"):
        for element in [e for e in assets if e.tag in ("mesh", "hfield", "texture", "skin")]:
            assets.remove(element)
        for material in assets.findall("material"):
            material.attrib.pop("texture", None)
    notes = []
    for body in (*root.iter("body"), *root.iter("worldbody")):
        shapes = [g for g in body.findall("geom") if "mesh" in g.attrib or "hfield" in g.attrib]
        if shapes and body.tag == "body" and body.find("inertial") is None:
            raise InvalidModel(
                "the inertia of a body would be that of a mesh, which is not opened",
                argument=f"{path}, body '{body.get('name')}'",
                cure="give it an <inertial>",
            )
        for shape in shapes:
            body.remove(shape)
        free = [j for j in body.findall("joint") if j.get("type") == "free"]
        for joint in (*body.findall("freejoint"), *free):
            body.remove(joint)
            notes.append(f"the floating body '{body.get('name')}' is held where the file has it")
    return tuple(notes)


def _limits(joint: ET.Element) -> tuple[float, float, float, float]:
    """Return a URDF's limits of position, speed and torque, infinite where it has none."""
    limit = joint.find("limit")
    stated = {} if limit is None else limit.attrib
    names = ("lower", "upper", "velocity", "effort")
    lower, upper, speed, effort = (float(stated.get(k, "0")) for k in names)
    if joint.get("type") == "continuous" or not lower < upper:
        lower, upper = -np.inf, np.inf
    # A limit of zero is none that was thought of.
    return lower, upper, speed or np.inf, effort or np.inf


def _limits_of(model: Any, joints: Joints) -> list[tuple[float, float, float, float]]:
    """Return such limits as MuJoCo has them, which knows none of speed."""
    mujoco, effort = load_mujoco(), np.full(model.njnt, np.inf)
    for k in np.flatnonzero(model.jnt_actfrclimited):
        effort[k] = np.abs(model.jnt_actfrcrange[k]).max()
    for k in np.flatnonzero(model.actuator_trntype == mujoco.mjtTrn.mjTRN_JOINT):
        joint, gear = model.actuator_trnid[k, 0], abs(model.actuator_gear[k, 0])
        if model.actuator_forcelimited[k]:
            effort[joint] = min(effort[joint], gear * np.abs(model.actuator_forcerange[k]).max())
    ranges = np.where(model.jnt_limited[:, None], model.jnt_range, [-np.inf, np.inf])
    lower, upper = ranges.T.tolist()
    return [(lower[k], upper[k], np.inf, float(effort[k])) for k in joints.own]
