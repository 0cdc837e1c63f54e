"""Commanded motion as messages: of a robot's joints in MCAP and JSON, of a free flyer in MCAP.

A controller of ROS 2 interpolates between the points of a `trajectory_msgs/msg/JointTrajectory` by
splines through position, velocity and acceleration, so that all three are written. PX4 takes
`px4_msgs/msg/TrajectorySetpoint6dof` of a body that turns as it likes, and `TrajectorySetpoint`
(position and yaw) of one that must tilt to be pushed aside, one message a sample, in a world of
north, east, down (docs.px4.io, message definitions). Astrobee takes a `ff_msgs/msg/Segment`:
control states, whose velocities and accelerations are in the world where they are linear and in the
body's axes where they are angular (github.com/nasa/astrobee, `ff_msgs`; `CMD_V_B_ISS_ISS` and
`CMD_Omega_B_ISS_B` of its controller).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidRecording
from heft.files import read_text

from .formats import library, refuse
from .formats.mcap import mcap_log
from .formats.mcap_writer import write_messages
from .formats.ulog import forward_right_down, north_east_down, turned_to_ned

TRAJECTORY, TRAJECTORY_TOPIC = "trajectory_msgs/msg/JointTrajectory", "/joint_trajectory"
DERIVATIVES = ("positions", "velocities", "accelerations")  # of a point
BILLION = 10**9
PX4_MESSAGES = {
    "px4_msgs/msg/TrajectorySetpoint6dof": "uint64 timestamp\nfloat32[3] position\n"
    "float32[3] velocity\nfloat32[3] acceleration\nfloat32[3] jerk\nfloat32[4] quaternion\n"
    "float32[3] angular_velocity\n",
    "px4_msgs/msg/TrajectorySetpoint": "uint32 MESSAGE_VERSION=0\nuint64 timestamp\n"
    "float32[3] position\nfloat32[3] velocity\nfloat32[3] acceleration\nfloat32[3] jerk\n"
    "float32 yaw\nfloat32 yawspeed\n",
}
FREE, FLAT = PX4_MESSAGES
STATE, SEGMENT = "ff_msgs/msg/ControlState", "ff_msgs/msg/Segment"
ASTROBEE_MESSAGES = {
    STATE: "builtin_interfaces/Time when\ngeometry_msgs/Pose pose\ngeometry_msgs/Twist twist\n"
    "geometry_msgs/Twist accel\n",
    SEGMENT: "ff_msgs/ControlState[] segment\n",
}


def messages_can_be_written() -> bool:
    """Return whether the libraries of the extra `ros` are installed."""
    return find_spec("rosbags") is not None and find_spec("mcap") is not None


@dataclass(frozen=True, eq=False)
class JointTrajectory:
    """A motion that a robot is commanded."""

    joints: tuple[str, ...]  # their names, n of them
    time: Array  # from the motion's begin, increasing, shape (N,) [s]
    position: Array  # shape (N, n) [rad or m]
    velocity: Array | None = None  # shape (N, n) [rad/s or m/s]; None if not stated
    acceleration: Array | None = None  # shape (N, n) [rad/s² or m/s²]; None if not stated

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
        head = {"stamp": {"sec": 0, "nanosec": 0}, "frame_id": ""}
        points = [
            {key: x.tolist() if isinstance(x, np.ndarray) else x for key, x in point.items()}
            for point in self._points()
        ]
        content = {"header": head, "joint_names": list(self.joints), "points": points}
        return json.dumps(content) + "\n"

    def write_mcap(self, path: Path) -> None:
        """Write an MCAP file that holds the one message.

        Raises:
            InputError: If the libraries of the extra `ros` are not installed.
        """
        points = [{**point, "effort": np.empty(0)} for point in self._points()]
        message = {"joint_names": list(self.joints), "points": points}
        write_messages(path, TRAJECTORY, TRAJECTORY_TOPIC, [(0, message)])

    def _points(self) -> list[dict[str, Any]]:
        none = np.empty((len(self.time), 0))
        kinds = [self.position, self.velocity, self.acceleration]
        rows = [none if values is None else np.ascontiguousarray(values) for values in kinds]
        times = np.rint(self.time * BILLION).astype(np.int64).tolist()
        return [
            {
                **{key: x[k] for key, x in zip(DERIVATIVES, rows, strict=True)},
                "time_from_start": _stamp(t),
            }
            for k, t in enumerate(times)
        ]

    @staticmethod
    def read_json(path: Path) -> JointTrajectory:
        """Read a message that was written as JSON, its times as ROS 2, ROS 1 or a number has them.

        Raises:
            InvalidRecording: If it is none.
        """
        try:
            content = json.loads(read_text(path, "motion", InvalidRecording))
            return JointTrajectory._of(content["joint_names"], content["points"])
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
        log = mcap_log(path, refuse)
        wanted = [k for k, c in enumerate(log.channels) if c.kind == TRAJECTORY]
        if not wanted:
            return None
        messages = [(k, m) for k, _, some in log.batches(wanted) for m in some]
        if len(messages) != 1:
            raise InvalidRecording(
                "the file does not hold one motion",
                argument=str(path),
                got=f"{len(messages)} messages of {TRAJECTORY}",
                expected="one",
            )
        ((channel, data),) = messages
        typesys = library("rosbags.typesys", path)
        ros1 = log.channels[channel].encoding == "ros1"
        stores = typesys.Stores
        store = typesys.get_typestore(stores.ROS1_NOETIC if ros1 else stores.ROS2_HUMBLE)
        read = store.deserialize_ros1 if ros1 else store.deserialize_cdr
        try:
            message = read(data, TRAJECTORY)
            return JointTrajectory._of(message.joint_names, [asdict(p) for p in message.points])
        except Exception as problem:  # what a file says: anything may be in there
            raise InvalidRecording(
                "the motion's message cannot be read",
                argument=str(path),
                got=f"{type(problem).__name__}: {str(problem)[:80]}",
            ) from problem

    @staticmethod
    def _of(names: Sequence[str], points: Sequence[Mapping[str, Any]]) -> JointTrajectory:
        """Return the motion of a message's fields; derivatives where all points have them.

        Raises:
            ValueError: If a point lacks a joint's position.
        """
        time = np.array([_seconds(p["time_from_start"]) for p in points], dtype=float)
        kinds = []
        for key in DERIVATIVES:
            rows = [() if p.get(key) is None else p[key] for p in points]
            given = all(len(row) == len(names) for row in rows)
            kinds.append(np.array(rows, dtype=float) if given else None)
        if kinds[0] is None:
            raise ValueError("points without a position of each joint")
        return JointTrajectory(tuple(names), time, kinds[0], *kinds[1:])


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
        fields = {
            "position": north_east_down(self.position),
            "velocity": north_east_down(self.velocity),
            "acceleration": north_east_down(self.acceleration),
            "jerk": np.full_like(self.position, np.nan),  # for logs only; NaN says nothing
        }
        w = self.angular_velocity
        if self.turns_freely:
            fields["quaternion"] = turned_to_ned(self.quaternion)
            fields["angular_velocity"] = forward_right_down(w)
        else:
            turned = self._axes
            east, north = turned[:, 0, 0], turned[:, 1, 0]  # of the body's forward axis
            # ẋ = R (ω × e_x)
            moved = np.einsum("nij,nj->ni", turned, np.stack([0.0 * w[:, 0], w[:, 2], -w[:, 1]], 1))
            fields["yaw"] = np.arctan2(east, north)
            turning = north * moved[:, 0] - east * moved[:, 1]
            fields["yawspeed"] = turning / (east**2 + north**2)
        messages = (
            (1000 * t, {"timestamp": t, **{k: _single(x[n]) for k, x in fields.items()}})
            for n, t in enumerate(round(1e6 * t) for t in self.time)
        )
        topic = "/fmu/in/trajectory_setpoint" + "6dof" * self.turns_freely
        write_messages(path, kind, topic, messages, PX4_MESSAGES)

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
        write_messages(path, SEGMENT, "/gnc/ctl/segment", segment, ASTROBEE_MESSAGES)


def _stamp(nanoseconds: int) -> dict[str, int]:
    return {"sec": nanoseconds // BILLION, "nanosec": nanoseconds % BILLION}


def _single(value: Any) -> Any:
    return value.astype(np.float32) if np.ndim(value) else float(value)


def _xyz(v: Array) -> dict[str, float]:
    return dict(zip("xyz", map(float, v), strict=True))


def _seconds(stamp: Any) -> float:
    if isinstance(stamp, Mapping):
        seconds = float(stamp.get("sec", stamp.get("secs", 0)))
        return seconds + float(stamp.get("nanosec", stamp.get("nsecs", 0))) / BILLION
    return float(stamp)
