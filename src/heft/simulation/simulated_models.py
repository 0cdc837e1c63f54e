"""Model files of robots to be simulated whole: any URDF or MJCF on a fixed base.

What a simulation of masses and joints does not need is left out (shapes that other files hold,
contacts, sensors), a floating base is held where the file has it, and inertias that no body can
have are mended; what changes numbers is said in the robot's notes.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from heft.errors import InvalidModel
from heft.files import read_text, xml

from .arms import LOST, Arm, read_inertial, write_inertial
from .simulated_links import Joints, compiled, load_mujoco

LEAST = 1e-6  # smallest second moment of mass of a body about its centre, over the largest
POINT = 1e-12  # [kg·m²] of a point mass, which MuJoCo does not know
OF_OTHER_FILES = ("mesh", "hfield", "texture", "skin")
NOT_NEEDED = ("keyframe", "sensor", "contact", "deformable", "visual", "statistic", "custom")


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
        speed = {j.get("name"): _speed(j) for j in root.findall("joint")}
        limits = {j.get("name"): _limits(j) for j in root.findall("joint")}
    elif root.tag == "mujoco":
        notes, speed, limits = _held(root, path), {}, {}
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
    lower, upper, effort = np.array([limits[j] for j in joints.names]).T
    fastest = np.array([speed.get(j, np.inf) for j in joints.names])
    return Arm(path.stem, file, joints.names, lower, upper, fastest, effort, notes)


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
        values, axes = np.linalg.eigh(inertial.spread)
        least = max(LEAST * values.max(), POINT)
        if values.min() < least:
            spread = (axes * np.maximum(values, least)) @ axes.T
            write_inertial(link, replace(inertial, spread=spread))
            if values.min() < -LEAST * abs(values).max():
                mended.append(link.attrib["name"])
    if not mended:
        return ()
    return (f"inertias that no body has are mended: {', '.join(mended)}",)


def _held(root: ET.Element, path: Path) -> tuple[str, ...]:
    """Remove what is not simulated from an MJCF and fix its base; return notes on bodies fixed."""
    if root.find(".//include") is not None:
        raise InvalidModel(
            "the file includes others, which are not opened",
            argument=str(path),
            cure="save it as one file: mujoco.mj_saveLastXML",
        )
    for tag in NOT_NEEDED:
        for element in root.findall(tag):
            root.remove(element)
    for assets in root.findall("asset"):
        for element in [e for e in assets if e.tag in OF_OTHER_FILES]:
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


def _limit(joint: ET.Element, name: str) -> float:
    """Return a number of a URDF's `<limit>`, zero where it is not stated."""
    found = joint.find("limit")
    return 0.0 if found is None else float(found.get(name, "0"))


def _speed(joint: ET.Element) -> float:
    """Return a URDF's speed limit, infinite where it is zero or not stated."""
    return _limit(joint, "velocity") or np.inf


def _limits(joint: ET.Element) -> tuple[float, float, float]:
    """Return a URDF's limits of position and torque, infinite where it has none."""
    effort = _limit(joint, "effort") or np.inf
    lower, upper = _limit(joint, "lower"), _limit(joint, "upper")
    if joint.get("type") == "continuous" or not lower < upper:
        return -np.inf, np.inf, effort
    return lower, upper, effort


def _limits_of(model: Any, joints: Joints) -> list[tuple[float, float, float]]:
    """Return limits of position and torque as MuJoCo has them, infinite where it has none."""
    mujoco, effort = load_mujoco(), np.full(model.njnt, np.inf)
    for k in np.flatnonzero(model.jnt_actfrclimited):
        effort[k] = np.abs(model.jnt_actfrcrange[k]).max()
    for k in np.flatnonzero(model.actuator_trntype == mujoco.mjtTrn.mjTRN_JOINT):
        joint, gear = model.actuator_trnid[k, 0], abs(model.actuator_gear[k, 0])
        if model.actuator_forcelimited[k]:
            effort[joint] = min(effort[joint], gear * np.abs(model.actuator_forcerange[k]).max())
    ranges = np.where(model.jnt_limited[:, None], model.jnt_range, [-np.inf, np.inf])
    return [(float(ranges[k, 0]), float(ranges[k, 1]), float(effort[k])) for k in joints.own]
