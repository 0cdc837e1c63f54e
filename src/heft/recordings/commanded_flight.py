"""Commanded motion of a free-flying body, as messages that its autopilot takes, in MCAP.

PX4 takes `px4_msgs/msg/TrajectorySetpoint6dof` of a body that turns as it likes, and
`TrajectorySetpoint` (position and yaw) of one that must tilt to be pushed aside, one message a
sample, in a world of north, east, down (docs.px4.io, message definitions). Astrobee takes a
`ff_msgs/msg/Segment`: control states, whose velocities and accelerations are in the world where
they are linear and in the body's axes where they are angular (github.com/nasa/astrobee, `ff_msgs`;
`CMD_V_B_ISS_ISS` and `CMD_Omega_B_ISS_B` of its controller).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from heft.arrays import Array

from .formats.mcap_writer import write_messages
from .formats.px4 import forward_right_down, north_east_down, turned_to_ned

PX4_MESSAGES = {
    "px4_msgs/msg/TrajectorySetpoint6dof": "uint64 timestamp\nfloat32[3] position\n"
    "float32[3] velocity\nfloat32[3] acceleration\nfloat32[3] jerk\nfloat32[4] quaternion\n"
    "float32[3] angular_velocity\n",
    "px4_msgs/msg/TrajectorySetpoint": "uint32 MESSAGE_VERSION=0\nuint64 timestamp\n"
    "float32[3] position\nfloat32[3] velocity\nfloat32[3] acceleration\nfloat32[3] jerk\n"
    "float32 yaw\nfloat32 yawspeed\n",
}
FREE, FLAT = PX4_MESSAGES
PX4_TOPICS = {FREE: "/fmu/in/trajectory_setpoint6dof", FLAT: "/fmu/in/trajectory_setpoint"}
STATE, SEGMENT = "ff_msgs/msg/ControlState", "ff_msgs/msg/Segment"
ASTROBEE_MESSAGES = {
    STATE: "builtin_interfaces/Time when\ngeometry_msgs/Pose pose\ngeometry_msgs/Twist twist\n"
    "geometry_msgs/Twist accel\n",
    SEGMENT: "ff_msgs/ControlState[] segment\n",
}
ASTROBEE_TOPIC = "/gnc/ctl/segment"
BILLION = 10**9


def messages_can_be_written() -> bool:
    """Return whether the libraries of the extra `ros` are installed."""
    return find_spec("rosbags") is not None and find_spec("mcap") is not None


@dataclass(frozen=True, eq=False)
class CommandedFlight:
    """A motion that a free-flying body is commanded, at N times."""

    frame: str  # name of the body
    time: Array  # from the motion's begin, increasing, shape (N,) [s]
    position: Array  # of the body's frame in the world (east, north, up), shape (N, 3) [m]
    quaternion: Array  # its attitude w, x, y, z, shape (N, 4)
    velocity: Array  # in the world, shape (N, 3) [m/s]
    acceleration: Array  # in the world, shape (N, 3) [m/s²]
    angular_velocity: Array  # in the body's axes, shape (N, 3) [rad/s]
    angular_acceleration: Array  # in the body's axes, shape (N, 3) [rad/s²]
    # whether the attitude is part of the command; else it follows from position and yaw
    turns_freely: bool = True

    def columns(self) -> dict[str, Array]:
        """Return the columns of a canonical log: `t`, pose, and twist in the body's axes."""
        turned = self._axes
        kinds = {
            "pos": ("xyz", self.position),
            "quat": ("wxyz", self.quaternion),
            "vel": ("xyz", np.einsum("nji,nj->ni", turned, self.velocity)),
            "omega": ("xyz", self.angular_velocity),
        }
        return {"t": self.time} | {
            f"{kind}.{self.frame}.{a}": values[:, k]
            for kind, (letters, values) in kinds.items()
            for k, a in enumerate(letters)
        }

    @property
    def _axes(self) -> Array:
        """The body's axes in the world as columns, shape (N, 3, 3)."""
        from scipy.spatial.transform import Rotation

        return np.asarray(Rotation.from_quat(np.roll(self.quaternion, -1, axis=1)).as_matrix())

    def write_px4(self, path: Path) -> None:
        """Write an MCAP file with a setpoint a sample, in PX4's axes.

        Raises:
            InvalidRecording: If the libraries of the extra `ros` are not installed.
        """
        kind = FREE if self.turns_freely else FLAT
        fields = self._setpoints()
        messages = (
            (1000 * t, {"timestamp": t, **{k: _single(x[n]) for k, x in fields.items()}})
            for n, t in enumerate(round(1e6 * t) for t in self.time)
        )
        write_messages(path, kind, PX4_TOPICS[kind], messages, PX4_MESSAGES)

    def _setpoints(self) -> Mapping[str, Array]:
        common = {
            "position": north_east_down(self.position),
            "velocity": north_east_down(self.velocity),
            "acceleration": north_east_down(self.acceleration),
            "jerk": np.full_like(self.position, np.nan),  # for logs only; NaN says nothing
        }
        if self.turns_freely:
            rate = forward_right_down(self.angular_velocity)
            turned = turned_to_ned(self.quaternion)
            return {**common, "quaternion": turned, "angular_velocity": rate}
        turned = self._axes
        east, north = turned[:, 0, 0], turned[:, 1, 0]  # of the body's forward axis
        w = self.angular_velocity
        # ẋ = R (ω × e_x)
        moved = np.einsum("nij,nj->ni", turned, np.stack([0.0 * w[:, 0], w[:, 2], -w[:, 1]], 1))
        speed = (north * moved[:, 0] - east * moved[:, 1]) / (east**2 + north**2)
        return {**common, "yaw": np.arctan2(east, north), "yawspeed": speed}

    def write_astrobee(self, path: Path) -> None:
        """Write an MCAP file with one segment of control states, its times from zero on.

        Raises:
            InvalidRecording: If the libraries of the extra `ros` are not installed.
        """
        made = [
            {
                "when": _stamp(round(t * BILLION)),
                "pose": {"position": _xyz(p), "orientation": _xyz(q[1:]) | {"w": float(q[0])}},
                "twist": {"linear": _xyz(v), "angular": _xyz(w)},
                "accel": {"linear": _xyz(a), "angular": _xyz(alpha)},
            }
            for t, p, q, v, w, a, alpha in zip(
                self.time,
                self.position,
                self.quaternion,
                self.velocity,
                self.angular_velocity,
                self.acceleration,
                self.angular_acceleration,
                strict=True,
            )
        ]
        segment = [(0, {"segment": made})]
        write_messages(path, SEGMENT, ASTROBEE_TOPIC, segment, ASTROBEE_MESSAGES)


def _stamp(nanoseconds: int) -> dict[str, int]:
    return {"sec": nanoseconds // BILLION, "nanosec": nanoseconds % BILLION}


def _single(value: Any) -> Any:
    return value.astype(np.float32) if np.ndim(value) else float(value)


def _xyz(v: Array) -> dict[str, float]:
    return dict(zip("xyz", map(float, v), strict=True))
