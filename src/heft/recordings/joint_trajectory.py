"""Commanded motion as ROS takes it: `trajectory_msgs/msg/JointTrajectory`, in MCAP and JSON.

A controller of ROS 2 interpolates between the points of such a message by splines through position,
velocity and acceleration, so that all three are written.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from heft.arrays import Array

from .formats.table import library

KIND = "trajectory_msgs/msg/JointTrajectory"
TOPIC = "/joint_trajectory"
NANOSECONDS = 10**9


@dataclass(frozen=True, eq=False)
class JointTrajectory:
    """A motion that a robot is commanded.

    Attributes:
        joints: Their names, n of them.
        time: From the motion's begin, increasing, shape (N,) [s].
        position: Shape (N, n) [rad or m].
        velocity: Shape (N, n) [rad/s or m/s].
        acceleration: Shape (N, n) [rad/s² or m/s²].
    """

    joints: tuple[str, ...]
    time: Array
    position: Array
    velocity: Array
    acceleration: Array

    @property
    def stamps(self) -> list[tuple[int, int]]:
        """Seconds and nanoseconds of each point."""
        whole = np.rint(self.time * NANOSECONDS).astype(np.int64)
        return [divmod(int(t), NANOSECONDS) for t in whole]

    def columns(self) -> dict[str, Array]:
        """Return the columns of a canonical log: `t`, `q.<joint>`, `v.<joint>`, `a.<joint>`."""
        kinds = {"q": self.position, "v": self.velocity, "a": self.acceleration}
        found = {f"{k}.{j}": x[:, i] for k, x in kinds.items() for i, j in enumerate(self.joints)}
        return {"t": self.time, **found}

    def to_json(self) -> str:
        """Return the message as JSON, its fields named as in ROS's own definition."""
        rows = zip(self.stamps, self.position, self.velocity, self.acceleration, strict=True)
        points = [
            {
                "positions": q.tolist(),
                "velocities": v.tolist(),
                "accelerations": a.tolist(),
                "time_from_start": {"sec": sec, "nanosec": nanosec},
            }
            for (sec, nanosec), q, v, a in rows
        ]
        head = {"stamp": {"sec": 0, "nanosec": 0}, "frame_id": ""}
        content = {"header": head, "joint_names": list(self.joints), "points": points}
        return json.dumps(content) + "\n"

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
        none = np.empty(0)
        duration = types["builtin_interfaces/msg/Duration"]
        point = types["trajectory_msgs/msg/JointTrajectoryPoint"]
        rows = zip(self.stamps, self.position, self.velocity, self.acceleration, strict=True)
        points = [
            point(
                positions=np.ascontiguousarray(q),
                velocities=np.ascontiguousarray(v),
                accelerations=np.ascontiguousarray(a),
                effort=none,
                time_from_start=duration(sec=sec, nanosec=nanosec),
            )
            for (sec, nanosec), q, v, a in rows
        ]
        zero = types["builtin_interfaces/msg/Time"](sec=0, nanosec=0)
        header = types["std_msgs/msg/Header"](stamp=zero, frame_id="")
        return types[KIND](header=header, joint_names=list(self.joints), points=points)
