"""Limits: of joints' motion by model file, [motion] and defaults; of links by their shapes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path

import numpy as np

from heft.arrays import read_only
from heft.errors import InvalidSetting, require_one_of
from heft.files import Element, numbers, xml

from . import mjcf
from .mjcf_values import Compiler, Defaults, defaults_of, vector
from .motion_options import MotionLimits, MotionOptions
from .options import SHAPE, LinkOptions
from .robot import Robot
from .robot_parts import mimics
from .shapes import Surface, bounding_extent, hull_planes, shapes_of

# Where neither the model file nor `[motion]` says any limit:
RISE = 0.25  # time from rest to the largest speed: an acceleration limit [s]
ONSET = 0.05  # time from no acceleration to the largest: a jerk limit [s]


@dataclass
class _Stated:
    """Stated limits of one joint; where nobody states any, positions are infinite, others NaN."""

    lower: float = -math.inf
    upper: float = math.inf
    velocity: float = math.nan
    acceleration: float = math.nan
    jerk: float = math.nan
    effort: float = math.nan
    power: float = math.nan
    defaults: list[str] = field(default_factory=list)


def motion_limits(robot: Robot, options: MotionOptions | None = None) -> MotionLimits:
    """Return the limits of a robot's joints, with the margins of `[motion.margin]` taken off.

    Position, velocity and effort are those of the URDF where `[motion]` states none, position and
    effort those of the MJCF; a limit of 0 says nothing. A joint that others mimic keeps their
    limits, too.

    Args:
        options: Limits to be used in place of the robot's own options.

    Raises:
        InvalidSetting: If a joint has no velocity limit, or no room between its positions; or if
            `[motion]` names one that does not exist.
    """
    motion = options or robot.options.motion
    for name in motion.joint:
        message = f"the robot has no joint '{name}' that moves by itself"
        require_one_of(name, robot.joints, message, f"[motion.joint.{name}]")
    written = _WRITTEN[robot.form](robot) if robot.form in _WRITTEN else {}
    limits = []
    for name in robot.joints:
        own = written.get(name, _Stated())
        for key, value in vars(motion.of(name)).items():
            if key == "position" and value is not None:
                own.lower, own.upper = value
            elif value is not None:
                setattr(own, key, value)
        rest = robot.options.of(name).position
        if rest is None:
            limits.append(_completed(own, name))
        else:
            limits.append(_Stated(rest, rest, 0.0, 0.0, 0.0, math.inf, math.inf))
    columns = {
        k: np.array([getattr(s, k) for s in limits])
        for k in ("velocity", "acceleration", "jerk", "effort", "power")
    }
    margin = vars(motion.margin)
    lower, upper = np.array([[s.lower, s.upper] for s in limits]).reshape(-1, 2).T
    room = motion.margin.position * (upper - lower)
    return MotionLimits(
        joints=robot.joints,
        lower=read_only(lower + room),
        upper=read_only(upper - room),
        **{k: read_only(v * (1.0 - margin[k])) for k, v in columns.items()},
        frequency=math.inf if motion.frequency is None else motion.frequency,
        held=np.array([robot.options.of(j).position is not None for j in robot.joints]),
        notes=_notes({j: s.defaults for j, s in zip(robot.joints, limits, strict=True)}),
    )


def _of_urdf(robot: Robot) -> dict[str, _Stated]:
    root = xml.parse(robot.source, "URDF")
    limits = {j.attributes["name"]: _Stated() for j in root.all("joint")}
    for joint in root.all("joint"):
        own, limit = limits[joint.attributes["name"]], joint.find("limit")
        if limit is None:
            continue
        given = limit.attributes
        if joint.attributes["type"] != "continuous":
            own.lower, own.upper = (float(given.get(k, "0")) for k in ("lower", "upper"))
        for key in ("velocity", "effort"):
            value = float(given.get(key, "0"))
            if 0.0 < value < math.inf:
                setattr(own, key, value)
    return _folded(limits, mimics(root, "URDF"))


def _of_mjcf(robot: Robot) -> dict[str, _Stated]:
    """Return the joint limits that an MJCF file states; the format has none of velocity.

    A joint's force is limited by `actuatorfrcrange`, and by what its actuators can do together.

    Raises:
        InvalidModel: If a range is malformed.
    """
    root, path = xml.parse(robot.source, "MJCF"), robot.name
    model = mjcf.read(root, path)
    compiler = model.compiler
    driven = _driven(root, compiler, defaults_of(root, path), path)
    limits = {}
    for joint in (j for b in model.bodies for j in b.joints):
        where = f"{path}, joint '{joint.name}'"
        low, high = _range(joint.given, "range", "limited", compiler, where)
        if not joint.slides:
            low, high = compiler.angle(low), compiler.angle(high)
        least, most = _range(joint.given, "actuatorfrcrange", "actuatorfrclimited", compiler, where)
        effort = min(-least, most, driven.get(joint.name, math.inf))
        effort = effort if 0.0 < effort < math.inf else math.nan
        limits[joint.name] = _Stated(low, high, effort=effort)
    return _folded(limits, model.mimics)


_WRITTEN: Mapping[str, Callable[[Robot], dict[str, _Stated]]] = {"urdf": _of_urdf, "mjcf": _of_mjcf}


def _folded(
    limits: dict[str, _Stated], mimicking: Mapping[str, tuple[str, float, float]]
) -> dict[str, _Stated]:
    """Return the limits, each master's narrowed to those of the joints that mimic it."""
    for name, (master, multiplier, offset) in mimicking.items():
        own, follower = limits[master], limits[name]
        if multiplier == 0.0:
            continue
        ends = sorted((x - offset) / multiplier for x in (follower.lower, follower.upper))
        own.lower, own.upper = max(own.lower, ends[0]), min(own.upper, ends[1])
        own.velocity = float(np.fmin(own.velocity, follower.velocity / abs(multiplier)))
    return limits


def _range(
    given: Mapping[str, str], key: str, switch: str, compiler: Compiler, where: str
) -> tuple[float, float]:
    """Return the two ends of an MJCF's range where it is in force, else −∞ and ∞."""
    on = given.get(switch, "auto")
    if key not in given or on == "false" or (on == "auto" and not compiler.limits_by_range):
        return -math.inf, math.inf
    low, high = vector(given, key, 2, where, ())
    return float(low), float(high)


def _driven(root: Element, compiler: Compiler, defaults: Defaults, path: str) -> dict[str, float]:
    """Return the largest effort of each joint's actuators together; infinite without a limit."""
    efforts: dict[str, float] = {}
    for element in (e for group in root.all("actuator") for e in group.children):
        joint = element.attributes.get("joint")
        if joint is None:
            continue
        chosen = defaults.get(element.attributes.get("class", "main"), {})
        given = {**chosen.get("general", {}), **chosen.get(element.tag, {}), **element.attributes}
        where = f"{path}, <{element.tag}>, line {element.line}"
        low, high = _range(given, "forcerange", "forcelimited", compiler, where)
        if element.tag == "motor":  # whose force is its control
            least, most = _range(given, "ctrlrange", "ctrllimited", compiler, where)
            low, high = max(low, least), min(high, most)
        gear = given.get("gear", "1").split()
        ratio = abs(numbers(" ".join(gear), max(1, min(len(gear), 6)), "gear", where)[0])
        efforts[joint] = efforts.get(joint, 0.0) + (ratio * min(-low, high) if ratio else 0.0)
    return efforts


def _completed(limits: _Stated, name: str) -> _Stated:
    """Return the limits completed by defaults, which the field `defaults` then names."""
    if math.isnan(limits.velocity):
        raise InvalidSetting(
            f"joint '{name}' has no velocity limit",
            argument=f"[motion.joint.{name}], velocity",
            cure=f"state it in the file of --with:\n[motion.joint.{name}]\nvelocity = 1.0",
        )
    if math.isinf(limits.lower) or math.isinf(limits.upper):
        # One that turns without end stays within half a turn of zero [rad].
        limits.lower = max(limits.lower, -math.pi)
        limits.upper = min(limits.upper, math.pi)
        limits.defaults.append("position")
    if limits.lower >= limits.upper:
        raise InvalidSetting(
            f"joint '{name}' has no room to move in",
            argument=f"[motion.joint.{name}], position",
            got=[limits.lower, limits.upper],
            cure=f"hold it still in the file of --with:\n[joint.{name}]\nfixed = true",
        )
    if math.isnan(limits.acceleration):
        limits.acceleration = limits.velocity / RISE
        limits.defaults.append("acceleration")
    if math.isnan(limits.jerk):
        limits.jerk = limits.acceleration / ONSET
        limits.defaults.append("jerk")
    for key in ("effort", "power"):
        if math.isnan(getattr(limits, key)):
            setattr(limits, key, math.inf)
            if key == "effort":
                limits.defaults.append(key)
    return limits


def _notes(lacking: Mapping[str, list[str]]) -> tuple[str, ...]:
    says = {
        "position": "they turn without end; motion stays within half a turn of zero",
        "acceleration": f"that which reaches the velocity limit within {RISE:g} s is used",
        "jerk": f"that which reaches the acceleration limit within {ONSET:g} s is used",
        "effort": "torque is not limited",
    }
    notes = []
    for key, consequence in says.items():
        names = [joint for joint, kinds in lacking.items() if key in kinds]
        if names:
            which = "all joints" if len(names) == len(lacking) else ", ".join(names)
            notes.append(f"no {key} limit of {which}: {consequence}; [motion.joint.NAME] states it")
    return tuple(notes)


def with_shapes(robot: Robot, folder: Path) -> Robot:
    """Return the robot with limits that say `shape` replaced by those of its collision shapes.

    Where `com_in_hull` is said, links without a shape are left alone, and noted. Meshes are looked
    for in the folder of the model file, and where `[motion]` of the options says that packages lie.

    Raises:
        InvalidSetting: If a link's collision shapes are asked for and not known.
    """
    limits = dict(robot.options.limits or {})
    asked = [n for n, entry in limits.items() if SHAPE in (entry.ellipsoid, entry.hull)]
    if not asked and not robot.options.com_in_hull:
        return robot
    shapes, notes = shapes_of(robot.form, robot.source, folder, robot.options.motion.packages)
    for name in asked:
        if not shapes.get(name):
            key, cure = "hull", "state planes [[x, y, z, most], …] about it, in metres"
            if limits[name].ellipsoid == SHAPE:
                key, cure = (
                    "ellipsoid",
                    "state its extent: [[least, most] of x, of y, of z] in metres",
                )
            raise InvalidSetting(
                f"no collision shape of link '{name}' is known",
                argument=f"[limits.{name}], {key}",
                got="; ".join(notes) or None,
                cure=cure,
            )
        entry, surface = limits[name], reduce(Surface.with_that, shapes[name])
        if entry.ellipsoid == SHAPE:
            entry = replace(entry, ellipsoid=bounding_extent(surface))
        if entry.hull == SHAPE:
            entry = replace(entry, hull=hull_planes(surface))
        limits[name] = entry
    notes_on_hulls: tuple[str, ...] = ()
    if robot.options.com_in_hull:
        moving = [k.name for k in robot.bodies_links]
        for name in (n for n in moving if shapes.get(n)):
            entry = limits.get(name, LinkOptions())
            if entry.hull is None:
                hull = hull_planes(reduce(Surface.with_that, shapes[name]))
                limits[name] = replace(entry, hull=hull)
        bare = [n for n in moving if limits.get(n, LinkOptions()).hull is None]
        if bare:
            several = f" and {len(bare) - 4} more" if len(bare) > 4 else ""
            notes = [
                "centres of mass are not bounded where no collision shape is known: "
                f"{', '.join(bare[:4])}{several}",
                *notes,
            ]
        notes_on_hulls = tuple(notes)
    options = replace(robot.options, limits=limits)
    return replace(robot, options=options, notes=(*robot.notes, *notes_on_hulls))
