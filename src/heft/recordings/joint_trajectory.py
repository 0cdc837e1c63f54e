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

from .formats.mcap import mcap_log
from .formats.mcap_writer import write_messages
from .formats.table import library

KIND = "trajectory_msgs/msg/JointTrajectory"
TOPIC = "/joint_trajectory"
NANOSECONDS = 10**9
KINDS = ("positions", "velocities", "accelerations")  # of a point


@dataclass(frozen=True, eq=False)
class JointTrajectory:
    """A motion that a robot is commanded."""

    joints: tuple[str, ...]  # their names, n of them
    time: Array  # from the motion's begin, increasing, shape (N,) [s]
    position: Array  # shape (N, n) [rad or m]
    velocity: Array | None = None  # shape (N, n) [rad/s or m/s]; None if not stated
    acceleration: Array | None = None  # shape (N, n) [rad/s² or m/s²]; None if not stated

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
        """Return positions, velocities and accelerations; shape (N, 0) where not stated."""
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

    @staticmethod
    def read_mcap(path: Path) -> JointTrajectory | None:
        """Read the one message of this kind in an MCAP file; None if it holds other messages only.

        Raises:
            InputError: If the libraries of the extra `ros` are not installed.
            InvalidRecording: If it is no MCAP file, is damaged, or holds several such messages.
        """

        def refuse(problem: InvalidRecording) -> None:
            raise problem

        log = mcap_log(path, refuse)
        wanted = [k for k, c in enumerate(log.channels) if c.kind == KIND]
        if not wanted:
            return None
        found = [(k, m) for k, _, messages in log.batches(wanted) for m in messages]
        if len(found) != 1:
            raise InvalidRecording(
                "the file does not hold one motion",
                argument=str(path),
                got=f"{len(found)} messages of {KIND}",
                expected="one",
            )
        ((channel, data),) = found
        typesys = library("rosbags.typesys", path)
        ros1 = log.channels[channel].encoding == "ros1"
        stores = typesys.Stores
        store = typesys.get_typestore(stores.ROS1_NOETIC if ros1 else stores.ROS2_HUMBLE)
        read = store.deserialize_ros1 if ros1 else store.deserialize_cdr
        try:
            return _of_message(read(data, KIND))
        except Exception as problem:  # what a file says: anything may be in there
            raise InvalidRecording(
                "the motion's message cannot be read",
                argument=str(path),
                got=f"{type(problem).__name__}: {str(problem)[:80]}",
            ) from problem

    def write_mcap(self, path: Path) -> None:
        """Write an MCAP file that holds the one message.

        Raises:
            InputError: If the libraries of the extra `ros` are not installed.
        """
        write_messages(path, KIND, TOPIC, [(0, self._message())])

    def _message(self) -> Mapping[str, Any]:
        points = [
            {
                **{n: np.ascontiguousarray(row) for n, row in zip(KINDS, rows, strict=True)},
                "effort": np.empty(0),
                "time_from_start": {"sec": sec, "nanosec": nanosec},
            }
            for (sec, nanosec), *rows in zip(self.stamps, *self._kinds(), strict=True)
        ]
        header = {"stamp": {"sec": 0, "nanosec": 0}, "frame_id": ""}
        return {"header": header, "joint_names": list(self.joints), "points": points}


def _of_message(message: Any) -> JointTrajectory:
    """Return the motion of a message as rosbags decodes it; derivatives where all points have them.

    Raises:
        ValueError: If a point lacks a joint's position.
    """
    names, points = message.joint_names, message.points
    stamps = [p.time_from_start for p in points]
    kinds = []
    for key in KINDS:
        rows = [np.asarray(getattr(p, key), dtype=float) for p in points]
        given = all(len(row) == len(names) for row in rows)
        kinds.append(np.array(rows).reshape(len(rows), len(names)) if given else None)
    if kinds[0] is None:
        raise ValueError("points without a position of each joint")
    time = np.array([s.sec + s.nanosec / NANOSECONDS for s in stamps])
    return JointTrajectory(tuple(names), time, kinds[0], *kinds[1:])


def _seconds(stamp: Any) -> float:
    if isinstance(stamp, Mapping):
        return float(stamp.get("sec", stamp.get("secs", 0))) + 1e-9 * float(
            stamp.get("nanosec", stamp.get("nsecs", 0))
        )
    return float(stamp)
