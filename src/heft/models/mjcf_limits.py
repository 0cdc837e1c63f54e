"""Limits of joints as an MJCF file states them: ranges, and the forces of actuators."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from heft.files import Element, numbers

from .mjcf import Model
from .mjcf_defaults import Compiler, Defaults, defaults_of, vector

WORLD_CLASS = "main"


@dataclass(frozen=True)
class StatedLimits:
    """Limits of one joint as the file states them."""

    # lower, upper: least and largest position [rad or m]; infinite where there is none
    lower: float
    upper: float
    effort: float  # largest torque or force either way [N·m or N]; NaN where the file says none


def stated_limits(model: Model, root: Element, path: str) -> dict[str, StatedLimits]:
    """Return the limits of all joints by name.

    A joint's force is limited by `actuatorfrcrange`, and by what its actuators can do together.

    Raises:
        InvalidModel: If a range is malformed.
    """
    compiler = model.compiler
    driven = _driven(root, compiler, defaults_of(root, path), path)
    found = {}
    for joint in (j for b in model.bodies for j in b.joints):
        where = f"{path}, joint '{joint.name}'"
        low, high = _range(joint.said, "range", "limited", compiler, where)
        if not joint.slides:
            low, high = compiler.angle(low), compiler.angle(high)
        least, most = _range(joint.said, "actuatorfrcrange", "actuatorfrclimited", compiler, where)
        effort = min(-least, most, driven.get(joint.name, math.inf))
        found[joint.name] = StatedLimits(low, high, effort if 0.0 < effort < math.inf else math.nan)
    return found


def _range(
    said: Mapping[str, str], key: str, switch: str, compiler: Compiler, where: str
) -> tuple[float, float]:
    """Return the two ends of a range where it is in force, else −∞ and ∞."""
    on = said.get(switch, "auto")
    if key not in said or on == "false" or (on == "auto" and not compiler.limits_by_range):
        return -math.inf, math.inf
    low, high = vector(said, key, 2, where, ())
    return float(low), float(high)


def _driven(root: Element, compiler: Compiler, defaults: Defaults, path: str) -> dict[str, float]:
    """Return the largest effort of each joint's actuators together; infinite without a limit."""
    found: dict[str, float] = {}
    for element in _actuators(root):
        joint = element.attributes.get("joint")
        if joint is None:
            continue
        chosen = defaults.get(element.attributes.get("class", WORLD_CLASS), {})
        said = {**chosen.get("general", {}), **chosen.get(element.tag, {}), **element.attributes}
        where = f"{path}, <{element.tag}>, line {element.line}"
        low, high = _range(said, "forcerange", "forcelimited", compiler, where)
        if element.tag == "motor":  # whose force is its control
            least, most = _range(said, "ctrlrange", "ctrllimited", compiler, where)
            low, high = max(low, least), min(high, most)
        gear = said.get("gear", "1").split()
        ratio = abs(numbers(" ".join(gear), max(1, min(len(gear), 6)), "gear", where)[0])
        found[joint] = found.get(joint, 0.0) + (ratio * min(-low, high) if ratio else 0.0)
    return found


def _actuators(root: Element) -> Iterator[Element]:
    for group in root.all("actuator"):
        yield from group.children
