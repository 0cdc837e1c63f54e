"""Robots of the benchmark: arms like a Stäubli TX40, a KUKA LWR4+ and a Universal Robots UR5.

Lengths and masses are about theirs; inertias are those of ellipsoids about plausible centres. They
are no one's robot: what is to be found is known exactly, and other files may take their place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from heft.errors import InvalidSetting, did_you_mean
from heft.simulation import Arm

Triple = tuple[float, float, float]


@dataclass(frozen=True)
class Segment:
    """A joint of an arm with the link that it moves."""

    place: Triple  # of the joint in the link before [m]
    axis: str  # it turns about: `y` or `z`
    reach: float  # least and largest position, ± [rad]
    effort: float  # largest torque [N·m]
    mass: float  # of the link [kg]
    center: Triple  # of its mass [m]
    radii: Triple  # semi-axes of the ellipsoid that its mass fills [m]
    turn: float = 0.0  # of the joint about the y axis of the link before [rad]


QUARTER = float(np.pi / 2.0)
ARMS: Mapping[str, tuple[Segment, ...]] = {
    "tx40": (
        Segment((0, 0, 0.32), "z", 3.0, 300.0, 4.5, (0.0, 0.02, -0.04), (0.08, 0.09, 0.11)),
        Segment((0, 0, 0), "y", 2.1, 300.0, 6.2, (0.01, 0.06, 0.10), (0.07, 0.06, 0.15)),
        Segment((0, 0.035, 0.225), "y", 2.2, 150.0, 3.6, (0.01, 0.02, 0.05), (0.06, 0.06, 0.09)),
        Segment((0, 0, 0), "z", 3.0, 80.0, 2.1, (0.005, 0.0, 0.14), (0.05, 0.04, 0.08)),
        Segment((0, 0, 0.225), "y", 2.0, 60.0, 0.7, (0.0, 0.005, 0.02), (0.03, 0.03, 0.04)),
        Segment((0, 0, 0.065), "z", 3.0, 40.0, 0.9, (0.02, 0.01, 0.06), (0.03, 0.04, 0.05)),
    ),
    "lwr4": (
        Segment((0, 0, 0.11), "z", 2.9, 400.0, 2.7, (0.0, -0.03, 0.13), (0.06, 0.06, 0.11)),
        Segment((0, 0, 0.20), "y", 2.0, 400.0, 2.7, (0.0, 0.03, 0.07), (0.06, 0.06, 0.10)),
        Segment((0, 0, 0.20), "z", 2.9, 200.0, 2.7, (0.0, 0.03, 0.13), (0.06, 0.06, 0.10)),
        Segment((0, 0, 0.20), "y", 2.0, 200.0, 2.7, (0.0, -0.03, 0.07), (0.06, 0.06, 0.10)),
        Segment((0, 0, 0.20), "z", 2.9, 150.0, 1.7, (0.0, -0.02, 0.13), (0.05, 0.05, 0.08)),
        Segment((0, 0, 0.19), "y", 2.0, 80.0, 1.6, (0.0, 0.01, 0.0), (0.04, 0.05, 0.05)),
        Segment((0, 0, 0.078), "z", 2.9, 50.0, 1.2, (0.02, 0.01, 0.05), (0.03, 0.04, 0.05)),
    ),
    "ur": (
        Segment((0, 0, 0.089), "z", 3.1, 400.0, 3.7, (0.0, -0.02, 0.0), (0.07, 0.07, 0.08)),
        Segment((0, 0.136, 0), "y", 3.1, 400.0, 8.4, (0.0, 0.0, 0.28), (0.06, 0.06, 0.25), QUARTER),
        Segment((0, -0.12, 0.425), "y", 2.6, 300.0, 2.3, (0.0, 0.01, 0.25), (0.05, 0.05, 0.20)),
        Segment((0, 0, 0.392), "y", 3.1, 100.0, 1.2, (0.0, 0.02, 0.0), (0.04, 0.05, 0.05), QUARTER),
        Segment((0, 0.093, 0), "z", 3.1, 80.0, 1.2, (0.0, 0.0, 0.02), (0.04, 0.04, 0.05)),
        Segment((0, 0, 0.095), "y", 3.1, 60.0, 1.0, (0.02, 0.06, 0.01), (0.04, 0.05, 0.04)),
    ),
}
SPEED = 2.5  # largest of all joints [rad/s]
AXES = {"y": "0 1 0", "z": "0 0 1"}


def arm_of(name: str) -> Arm:
    """Return an arm of the benchmark, or that of a URDF.

    Args:
        name: One of `ARMS`, or the path of a model file.

    Raises:
        InvalidSetting: If it is neither.
        InvalidModel: If a joint of the file does not turn.
    """
    if name in ARMS:
        return _made(name)
    if Path(name).is_file():
        return Arm.of(Path(name))
    raise InvalidSetting(
        "this is neither a robot of the benchmark nor a model file",
        argument="--robot",
        got=name,
        valid=tuple(ARMS),
        cure=did_you_mean(name, ARMS),
    )


def _made(name: str) -> Arm:
    parts, above = ['<link name="base"/>'], "base"
    segments = ARMS[name]
    for k, s in enumerate(segments, 1):
        a, b, c = s.radii
        ixx, iyy, izz = (s.mass / 5.0 * t for t in (b * b + c * c, a * a + c * c, a * a + b * b))
        parts.append(
            f'<joint name="joint{k}" type="revolute"><parent link="{above}"/>'
            f'<child link="link{k}"/><origin xyz="{_text(s.place)}" rpy="0 {s.turn!r} 0"/>'
            f'<axis xyz="{AXES[s.axis]}"/><limit lower="{-s.reach}" upper="{s.reach}" '
            f'velocity="{SPEED}" effort="{s.effort}"/></joint>'
            f'<link name="link{k}"><inertial><origin xyz="{_text(s.center)}"/>'
            f'<mass value="{s.mass}"/><inertia ixx="{ixx!r}" iyy="{iyy!r}" izz="{izz!r}" '
            f'ixy="0" ixz="0" iyz="0"/></inertial></link>'
        )
        above = f"link{k}"
    reach = np.array([s.reach for s in segments])
    return Arm(
        name,
        f'<robot name="{name}">{"".join(parts)}</robot>'.encode(),
        tuple(f"joint{k}" for k in range(1, len(segments) + 1)),
        -reach,
        reach,
        np.full(len(segments), SPEED),
        np.array([s.effort for s in segments]),
    )


def _text(values: Triple) -> str:
    return " ".join(repr(float(x)) for x in values)
