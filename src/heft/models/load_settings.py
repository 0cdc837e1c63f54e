"""Payload settings of robot controllers: mass, centre of mass and inertia as lines to paste.

Controllers differ in units, order and frames; the input is the same `Load` for all.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidSetting
from heft.files import format_number

# Smallest eigenvalue of the pseudo-inertia, as a share of the largest, that is rounding's.
ROUNDING = 1e-9
LARGEST_MOMENT = 133.0  # [kg·m²], the most that URScript takes


@dataclass(frozen=True, eq=False)
class Load:
    """A rigid body carried at a robot's flange.

    Raises:
        InvalidSetting: If no rigid body has these numbers.
    """

    mass: float  # [kg]
    com: Array  # centre of mass in the flange's frame, shape (3,) [m]
    # about the centre of mass in the flange's axes, shape (3, 3) [kg·m²]; zeros for a point
    inertia: Array

    def __post_init__(self) -> None:
        com, tensor = np.asarray(self.com, dtype=float), np.asarray(self.inertia, dtype=float)
        if com.shape != (3,) or tensor.shape != (3, 3):
            raise InvalidSetting(
                "a load's numbers have the wrong shape",
                argument="com, inertia",
                got=f"{com.shape}, {tensor.shape}",
                expected="(3,), (3, 3)",
            )
        if not (np.isfinite(self.mass) and np.isfinite(com).all() and np.isfinite(tensor).all()):
            raise InvalidSetting("a load's numbers are not finite", argument="mass, com, inertia")
        if self.mass <= 0.0:
            raise InvalidSetting("a load has no mass", argument="mass", got=self.mass)
        size = float(np.abs(tensor).max())
        if float(np.abs(tensor - tensor.T).max()) > ROUNDING * size:
            raise InvalidSetting(
                "the inertia is not symmetric", argument="inertia", got=tensor.tolist()
            )
        moments = np.linalg.eigvalsh(tensor)
        # That they are not negative follows.
        if moments[0] + moments[1] - moments[2] < -ROUNDING * size:
            raise InvalidSetting(
                "no rigid body has this inertia",
                argument="inertia",
                got=f"principal moments {', '.join(map(format_number, moments))}",
                expected="none negative, none larger than the sum of the two others",
                cure="is it about the centre of mass? If not, shift it there",
            )


def _list(values: Array, opening: str = "[", closing: str = "]") -> str:
    return opening + ", ".join(map(format_number, np.ravel(values))) + closing


def urscript(load: Load) -> str:
    """Return the line of a Universal Robots program that sets the payload.

    `set_target_payload(m, cog, inertia)`: mass [kg], centre of gravity from the tool mount [m],
    and `[Ixx, Iyy, Izz, Ixy, Ixz, Iyz]` [kg·m²] about the centre of gravity, axes aligned with
    the tool flange's [Universal Robots, script manual of software 10.6, set_target_payload].

    Raises:
        InvalidSetting: If a moment is beyond what the robot takes.
    """
    six = np.array(list(_moments(load).values()))
    return f"set_target_payload({format_number(load.mass)}, {_list(load.com)}, {_list(six)})"


def _moments(load: Load) -> dict[str, float]:
    """Return Ixx, Iyy, Izz, Ixy, Ixz, Iyz by name, in URScript's order [kg·m²]."""
    places = {"xx": (0, 0), "yy": (1, 1), "zz": (2, 2), "xy": (0, 1), "xz": (0, 2), "yz": (1, 2)}
    made = {f"i{name}": float(load.inertia[i][j]) for name, (i, j) in places.items()}
    largest = max(map(abs, made.values()))
    if largest > LARGEST_MOMENT:
        raise InvalidSetting(
            "URScript does not take moments of inertia so large",
            argument="inertia",
            got=largest,
            expected=f"at most {LARGEST_MOMENT:g} kg·m²",
        )
    return made


def universal_robots_ros(load: Load, nested: bool = False) -> str:
    """Return the command that sets the payload through Universal Robots' ROS 2 driver.

    A call of `/io_and_status_controller/set_payload`, `ur_msgs/srv/SetPayload`, whose numbers are
    those of `urscript`: the driver hands them to `set_target_payload`. Up to Lyrical the request
    has `mass`, `center_of_gravity` and the six moments; from Makoa on these are a
    `geometry_msgs/Inertia` called `payload` [Universal Robots, ROS 2 driver, set_payload].

    The load is in the tool flange's frame; `nested` says that the driver is of Makoa or later.

    Raises:
        InvalidSetting: If a moment is beyond what the robot takes.
    """
    x, y, z = map(format_number, np.ravel(load.com))
    centre = f"{{x: {x}, y: {y}, z: {z}}}"
    moments = ", ".join(f"{name}: {format_number(value)}" for name, value in _moments(load).items())
    mass = format_number(load.mass)
    request = f"{{mass: {mass}, center_of_gravity: {centre}, {moments}}}"
    if nested:
        request = f"{{payload: {{m: {mass}, com: {centre}, {moments}}}}}"
    call = "ros2 service call /io_and_status_controller/set_payload ur_msgs/srv/SetPayload"
    return f'{call} "{request}"'


def libfranka(load: Load, robot: str = "robot") -> str:
    """Return the line of a C++ program that sets a Franka robot's load.

    `setLoad(load_mass, F_x_Cload, load_inertia)`: mass [kg], from the flange to the centre of
    mass [m], and the inertia about the centre of mass [kg·m²], nine numbers, column-major
    [libfranka, `franka::Robot::setLoad`, `franka::RobotState::I_load`]. It is for what the
    gripper holds; the gripper itself is set in Desk (`franka_desk`). `robot` is the name of the
    `franka::Robot`.
    """
    columns = np.asarray(load.inertia).ravel(order="F")
    numbers = (_list(load.com, "{", "}"), _list(columns, "{", "}"))
    return f"{robot}.setLoad({format_number(load.mass)}, {numbers[0]}, {numbers[1]});"


def franka_desk(load: Load, transformation: Array | None = None) -> str:
    """Return the JSON with which Franka's Desk is told of an end effector.

    `mass` [kg], `centerOfMass` in the flange's frame [m], `inertia` [kg·m²] of nine and
    `transformation` from flange to end effector of sixteen numbers, both column-major
    [Franka Robotics, end effector commissioning, `endeffector-config.json`].

    Args:
        load: The end effector as a load of the flange.
        transformation: Of the end effector's frame in the flange's, shape (4, 4); the flange's
            own if not given.

    Raises:
        InvalidSetting: If the transformation is not rigid.
    """
    place = np.eye(4) if transformation is None else np.asarray(transformation, dtype=float)
    if place.shape != (4, 4) or not np.allclose(
        [*(place[:3, :3] @ place[:3, :3].T).ravel(), *place[3]],
        [*np.eye(3).ravel(), 0.0, 0.0, 0.0, 1.0],
        atol=1e-6,
    ):
        raise InvalidSetting(
            "this is no rigid transformation",
            argument="transformation",
            got=repr(place.tolist())[:80],
        )

    def column_major(matrix: Array) -> list[float]:
        return [float(format_number(x)) for x in np.asarray(matrix).ravel(order="F")]

    content = {
        "mass": float(format_number(load.mass)),
        "centerOfMass": column_major(np.asarray(load.com)),
        "inertia": column_major(load.inertia),
        "transformation": column_major(place),
    }
    return json.dumps(content, indent=2)
