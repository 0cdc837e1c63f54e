"""Commanded motion as ROS takes it: `trajectory_msgs/msg/JointTrajectory`, in MCAP and JSON.

A controller of ROS 2 interpolates between the points of such a message by splines through position,
velocity and acceleration, so that all three are written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidRecording
from heft.files import read_text

from .formats.table import library

KIND = "trajectory_msgs/msg/JointTrajectory"
TOPIC = "/joint_trajectory"
NANOSECONDS = 10**9
KINDS = ("positions", "velocities", "accelerations")  # of a point


@dataclass(frozen=True, eq=False)
class JointTrajectory:
    """A motion that a robot is commanded.

    Attributes:
        joints: Their names, n of them.
        time: From the motion's begin, increasing, shape (N,) [s].
        position: Shape (N, n) [rad or m].
        velocity: Shape (N, n) [rad/s or m/s]; None if not stated.
        acceleration: Shape (N, n) [rad/s² or m/s²]; None if not stated.
    """

    joints: tuple[str, ...]
    time: Array
    position: Array
    velocity: Array | None = None
    acceleration: Array | None = None

    @property
    def stamps(self) -> list[tuple[int, int]]:
        """Seconds and nanoseconds of each point."""
        whole = np.rint(self.time * NANOSECONDS).astype(np.int64)
        return [divmod(int(t), NANOSECONDS) for t in whole]

    def columns(self) -> dict[str, Array]:
        """Return the columns of a canonical log: `t`, `q.<joint>`, `v.<joint>`, `a.<joint>`."""
        kinds = {"q": self.position, "v": self.velocity, "a": self.acceleration}
        return {"t": self.time} | {
            f"{kind}.{joint}": values[:, k]
            for kind, values in kinds.items()
            if values is not None
            for k, joint in enumerate(self.joints)
        }

    def to_json(self) -> str:
        """Return the message as JSON, its fields named as in ROS's own definition."""
        points = [
            {
                **{name: row.tolist() for name, row in zip(KINDS, rows, strict=True)},
                "time_from_start": {"sec": sec, "nanosec": nanosec},
            }
            for (sec, nanosec), *rows in zip(self.stamps, *self._kinds(), strict=True)
        ]
        head = {"stamp": {"sec": 0, "nanosec": 0}, "frame_id": ""}
        content = {"header": head, "joint_names": list(self.joints), "points": points}
        return json.dumps(content) + "\n"

    def _kinds(self) -> list[Array]:
        """Return positions, velocities and accelerations, of no columns where not stated."""
        none = np.empty((len(self.time), 0))
        kinds = (self.position, self.velocity, self.acceleration)
        return [none if values is None else values for values in kinds]

    @staticmethod
    def read_json(path: Path) -> JointTrajectory:
        """Read a message that was written as JSON, its times as ROS 2, ROS 1 or a number has them.

        Args:
            path: The file; velocities and accelerations count where all points have them.

        Raises:
            InvalidRecording: If it is none.
        """
        try:
            content = json.loads(read_text(path, "motion", InvalidRecording))
            names, points = content["joint_names"], content["points"]
            time = np.array([_seconds(p["time_from_start"]) for p in points], dtype=float)
            kinds = []
            for key in KINDS:
                given = all(len(p.get(key) or ()) == len(names) for p in points)
                kinds.append(np.array([p[key] for p in points], dtype=float) if given else None)
            if kinds[0] is None:
                raise ValueError("points without a position of each joint")
            return JointTrajectory(tuple(names), time, kinds[0], *kinds[1:])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
            raise InvalidRecording(
                "this is no JointTrajectory",
                argument=str(path),
                got=f"{type(problem).__name__}: {problem}",
                expected="joint_names, and points with positions and time_from_start",
            ) from problem

    def write_mcap(self, path: Path) -> None:
        """Write an MCAP file that holds the one message.

        Args:
            path: The file.

        Raises:
            InputError: If the libraries of the extra `ros` are not installed.
        """
        typesys = library("rosbags.typesys", path)
        writer_module = library("mcap.writer", path)
        store = typesys.get_typestore(typesys.Stores.ROS2_HUMBLE)
        data = bytes(store.serialize_cdr(self._message(store.types), KIND))
        text, _ = store.generate_msgdef(KIND, ros_version=2)
        with path.open("wb") as file:
            writer = writer_module.Writer(file, enable_data_crcs=True)
            writer.start(profile="ros2", library="heft")
            schema = writer.register_schema(KIND, "ros2msg", text.encode())
            channel = writer.register_channel(TOPIC, "cdr", schema)
            writer.add_message(channel, 0, data, 0)
            writer.finish()

    def _message(self, types: Any) -> Any:
        duration = types["builtin_interfaces/msg/Duration"]
        point = types["trajectory_msgs/msg/JointTrajectoryPoint"]
        points = [
            point(
                **{n: np.ascontiguousarray(row) for n, row in zip(KINDS, rows, strict=True)},
                effort=np.empty(0),
                time_from_start=duration(sec=sec, nanosec=nanosec),
            )
            for (sec, nanosec), *rows in zip(self.stamps, *self._kinds(), strict=True)
        ]
        zero = types["builtin_interfaces/msg/Time"](sec=0, nanosec=0)
        header = types["std_msgs/msg/Header"](stamp=zero, frame_id="")
        return types[KIND](header=header, joint_names=list(self.joints), points=points)


def _seconds(stamp: Any) -> float:
    if isinstance(stamp, Mapping):
        return float(stamp.get("sec", stamp.get("secs", 0))) + 1e-9 * float(
            stamp.get("nanosec", stamp.get("nsecs", 0))
        )
    return float(stamp)
