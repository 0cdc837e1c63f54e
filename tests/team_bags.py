"""Two UR5e that hold a box, as bags record them: a simulator that shares no code with heft.

Arms are chains of Denavit and Hartenberg's parameters, as their maker publishes them. The box
moves on sums of sines; the chain is closed, the arms' joints follow it by Newton's method, and
their wrenches are Newton's and Euler's, divided as they please, with a squeeze.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rosbags.rosbag2 import StoragePlugin
from scipy.spatial.transform import Rotation

from tests.messages import ROS2, START, Messages, made, save_mcap, vector

Array = NDArray[np.float64]
LENGTHS = (
    (0.0, 0.1625),
    (-0.425, 0.0),
    (-0.3922, 0.0),
    (0.0, 0.1333),
    (0.0, 0.0997),
    (0.0, 0.0996),
)
TWISTS = (np.pi / 2, 0.0, 0.0, np.pi / 2, -np.pi / 2, 0.0)
JOINTS = ("shoulder_pan", "shoulder_lift", "elbow", "wrist_1", "wrist_2", "wrist_3")
MIDDLES = ((0.3, -1.4, 1.7, -1.6, -1.4, 0.4), (-0.5, -1.2, 1.5, -1.9, -1.6, -0.7))
MASS, CENTRE = 3.0, np.array([0.02, -0.03, 0.05])  # in the box's frame
INERTIA = Rotation.from_rotvec([0.2, -0.1, 0.3]).as_matrix()
INERTIA = INERTIA @ np.diag([0.06, 0.055, 0.04]) @ INERTIA.T
GRASPS = (np.array([-0.2, 0.0, 0.04]), np.array([0.2, 0.03, 0.0]))  # on the box
GRAVITY = np.array([0.0, 0.0, -9.81])
SENSOR = (Rotation.from_euler("z", 0.5).as_matrix(), np.array([0.0, 0.0, -0.03]))  # on the tool
NAMES = ("left", "right")


@dataclass(frozen=True)
class Record:
    """How the pair is recorded; the defaults are ideal sensors."""

    duration: float = 60.0  # [s]
    rate: float = 125.0  # [Hz]
    late: float = 0.0  # when the right bag begins [s]
    one_bag: bool = False
    storage: str = "mcap"
    frame: str = "tool0"  # of the wrenches
    offsets: tuple[Array, ...] = (np.zeros(6), np.zeros(6))  # force and moment of each [N, N·m]
    steps: tuple[float, float, float, float] = (0.0,) * 4  # of q, v, force and moment
    sign: float = 1.0  # of all wrenches
    jitter: float = 0.0  # of true stamps, uniform on both sides [s]
    reception: float = 0.0  # one-sided latency of stamps, at most, in bursts [s]
    behind: float = 0.0  # by which wrenches are of the past [s]
    holes: tuple[tuple[float, float], ...] = ()  # of the right arm's log [s]
    silent: tuple[tuple[float, float], ...] = ()  # when nothing tells wrenches [s]


def transforms(q: Array) -> Array:
    """Return the frames before each joint, and the tool's, shape (N, 7, 4, 4)."""
    frames = [np.broadcast_to(np.eye(4), (len(q), 4, 4))]
    for k, ((a, d), twist) in enumerate(zip(LENGTHS, TWISTS, strict=True)):
        c, s, ca, sa = np.cos(q[:, k]), np.sin(q[:, k]), np.cos(twist), np.sin(twist)
        step = np.zeros((len(q), 4, 4))
        step[:, 0] = np.stack([c, -s * ca, s * sa, a * c], 1)
        step[:, 1] = np.stack([s, c * ca, -c * sa, a * s], 1)
        step[:, 2], step[:, 3] = [0.0, sa, ca, d], [0.0, 0.0, 0.0, 1.0]
        frames.append(frames[-1] @ step)
    return np.stack(frames, 1)


def jacobian(frames: Array) -> Array:
    """Return the tool's Jacobian in the base's axes, linear velocity first, shape (N, 6, 6)."""
    axes, reach = frames[:, :6, :3, 2], frames[:, 6:, :3, 3] - frames[:, :6, :3, 3]
    return np.concatenate([np.cross(axes, reach), axes], 2).swapaxes(1, 2)


def joints(poses: Array, middle: Sequence[float]) -> Array:
    """Return the angles at which the tool is at these poses, near others, shape (N, 6)."""
    q = np.tile(np.array(middle), (len(poses), 1))
    for _ in range(30):
        frames = transforms(q)
        away = poses[:, :3, 3] - frames[:, 6, :3, 3]
        turn = Rotation.from_matrix(poses[:, :3, :3] @ frames[:, 6, :3, :3].swapaxes(1, 2))
        error = np.hstack([away, turn.as_rotvec()])
        q += np.clip(np.linalg.solve(jacobian(frames), error[..., None])[..., 0], -0.2, 0.2)
        if np.abs(error).max() < 1e-10:  # before this step: behind it, as its square
            return q
    raise AssertionError("no angles near these reach all poses")


def urdf() -> str:
    """Return the arm's model, with the link that the wrench sensor is on."""
    text, places = '<link name="base"/>', [(0.0, 0.0, 0.0)]
    places += [(a, d, t) for (a, d), t in zip(LENGTHS, TWISTS, strict=True)]
    for k, name in enumerate((*JOINTS, "tool0")):
        above = ("base", *JOINTS)[k] + ("_link" if k else "")
        link = name if name == "tool0" else f"{name}_link"
        a, d, twist = places[k]
        kind = "fixed" if name == "tool0" else "revolute"
        text += (
            f'<link name="{link}"/><joint name="{name}_joint" type="{kind}">'
            f'<parent link="{above}"/><child link="{link}"/><axis xyz="0 0 1"/>'
            f'<origin xyz="{a} 0 {d}" rpy="{twist!r} 0 0"/>'
            '<limit lower="-6.3" upper="6.3" effort="150" velocity="3.2"/></joint>'
        )
    x, y, z = SENSOR[1]
    turned = float(Rotation.from_matrix(SENSOR[0]).as_euler("xyz")[2])
    return (
        f'<robot name="ur5e">{text}<link name="ft_sensor"/><joint name="ft" type="fixed">'
        f'<parent link="tool0"/><child link="ft_sensor"/><origin xyz="{x} {y} {z}" '
        f'rpy="0 0 {turned!r}"/></joint></robot>'
    )


@dataclass(frozen=True, eq=False)
class Pair:
    """What two arms' sensors read at a time, without noise."""

    grips: tuple[Array, ...]  # poses of the tools on the box, shape (4, 4) each
    middle: Array  # pose of the box about which it moves, shape (4, 4)
    rates: Array  # of its motion, shape (3, 6) [rad/s]
    phases: Array  # shape (3, 6)

    @staticmethod
    def of(seed: int) -> Pair:
        """Return a pair whose box moves as a seed says."""
        rng = np.random.default_rng(seed)
        first = transforms(np.array([MIDDLES[0]]))[0, 6]
        grips = []
        for k, (grasp, middle) in enumerate(zip(GRASPS, MIDDLES, strict=True)):
            grip = np.eye(4)
            yaw = Rotation.from_euler("z", 2.0 * k).as_matrix()  # of this arm's base
            grip[:3, :3] = yaw @ transforms(np.array([middle]))[0, 6, :3, :3]
            grip[:3, 3] = grasp
            grips.append(grip)
        box = np.eye(4)
        box[:3, 3] = first[:3, 3] - GRASPS[0]
        rates = 2.0 * np.pi * rng.uniform(0.1, 0.5, (3, 6))
        return Pair(tuple(grips), box, rates, rng.uniform(0.0, 2.0 * np.pi, (3, 6)))

    def box(self, time: Array) -> Array:
        """Return the box's poses, shape (N, 4, 4)."""
        way = np.sum(np.sin(time[:, None, None] * self.rates + self.phases), axis=1)
        poses = np.tile(self.middle, (len(time), 1, 1))
        poses[:, :3, 3] += 0.035 * way[:, :3]
        poses[:, :3, :3] = Rotation.from_rotvec(0.15 * way[:, 3:]).as_matrix() @ poses[:, :3, :3]
        return poses

    def arms(self, time: Array, k: int) -> tuple[Array, Array]:
        """Return an arm's angles and rates, shape (N, 6) each."""
        step = 1e-4

        def angles(when: Array) -> Array:
            base = np.eye(4)
            base[:3, :3] = Rotation.from_euler("z", 2.0 * k).as_matrix()
            tool = transforms(np.array([MIDDLES[k]]))[0, 6]
            base[:3, 3] = (self.middle @ self.grips[k])[:3, 3] - base[:3, :3] @ tool[:3, 3]
            return joints(np.linalg.inv(base) @ self.box(when) @ self.grips[k], MIDDLES[k])

        return angles(time), (angles(time + step) - angles(time - step)) / (2.0 * step)

    def wrenches(self, time: Array) -> list[Array]:
        """Return force and moment of each arm on the box in its tool's frame, shape (N, 6)."""
        step = 1e-3
        before, now, after = (self.box(time + s) for s in (-step, 0.0, step))
        R = now[:, :3, :3]

        def turns(one: Array, other: Array) -> Array:
            turn = other[:, :3, :3] @ one[:, :3, :3].swapaxes(1, 2)
            return np.asarray(Rotation.from_matrix(turn).as_rotvec() / step)

        w = 0.5 * (turns(before, now) + turns(now, after))
        alpha = (turns(now, after) - turns(before, now)) / step
        centre = [p[:, :3, 3] + p[:, :3, :3] @ CENTRE for p in (before, now, after)]
        force = MASS * ((centre[0] - 2.0 * centre[1] + centre[2]) / step**2 - GRAVITY)
        about = R @ INERTIA @ R.swapaxes(1, 2)
        spin = np.einsum("nij,nj->ni", about, w)
        moment = np.einsum("nij,nj->ni", about, alpha) + np.cross(w, spin)
        arms = [np.einsum("nij,j->ni", R, g[:3, 3] - CENTRE) for g in self.grips]
        at = time[:, None]
        squeeze = 8.0 * np.sin(at * [1.1, 0.7, 1.7] + [0.3, 1.2, 2.2])
        forces = [0.6 * force + squeeze, 0.4 * force - squeeze]
        rest = moment - sum(np.cross(r, f) for r, f in zip(arms, forces, strict=True))
        twist = 0.5 * np.cos(at * [0.9, 1.3, 0.5])
        moments = [0.3 * rest + twist, 0.7 * rest - twist]
        tools = [R @ g[:3, :3] for g in self.grips]
        return [
            np.hstack([np.einsum("nji,nj->ni", T, v) for v in (f, m)])
            for T, f, m in zip(tools, forces, moments, strict=True)
        ]

    def truth(self, frame: str) -> tuple[Array, Array, float]:
        """Return centre and inertia in the first contact's frame, and the contacts' distance."""
        grips = [g @ _pose(*SENSOR) if frame == "ft_sensor" else g for g in self.grips]
        R, p = grips[0][:3, :3], grips[0][:3, 3]
        between = float(np.linalg.norm(grips[1][:3, 3] - p))
        return R.T @ (CENTRE - p), R.T @ INERTIA @ R, between


def _pose(R: Array, t: Array) -> Array:
    made_of = np.eye(4)
    made_of[:3, :3], made_of[:3, 3] = R, t
    return made_of


def _stepped(values: Array, step: float) -> Array:
    return step * np.round(values / step) if step else values


def record(pair: Pair, how: Record, folder: Path, seed: int) -> list[Path]:
    """Write the pair's bags, of both arms or one of each, and their model; return the bags."""
    rng, logs = np.random.default_rng(seed), []
    folder.mkdir(exist_ok=True)
    (folder / "ur5e.urdf").write_text(urdf())
    for k, name in enumerate(NAMES):
        time = k * (how.late + 1.3e-3) + np.arange(round(how.duration * how.rate)) / how.rate
        time = time + rng.uniform(-how.jitter, how.jitter, len(time)) if how.jitter else time
        time = np.sort(time)
        for begin, end in how.holes if k else ():
            time = time[(time < begin) | (time > end)]
        q, v = pair.arms(time, k)
        wrench = how.sign * pair.wrenches(time - how.behind)[k]
        if how.frame == "ft_sensor":
            R, p = SENSOR
            force = wrench[:, :3]
            wrench = np.hstack([force @ R, (wrench[:, 3:] - np.cross(p, force)) @ R])
        noise = rng.standard_normal((len(time), 18))
        q = _stepped(q + 2e-5 * noise[:, :6], how.steps[0])
        v = _stepped(v + 2e-3 * noise[:, 6:12], how.steps[1])
        wrench += how.offsets[k] + noise[:, 12:] * ([0.2] * 3 + [0.01] * 3)
        wrench[:, :3] = _stepped(wrench[:, :3], how.steps[2])
        wrench[:, 3:] = _stepped(wrench[:, 3:], how.steps[3])
        if how.reception:  # each message waits for the last one of its burst
            waits = np.maximum.accumulate(
                time + how.reception * rng.uniform(0.0, 1.0, len(time)) ** 3
            )
            place = np.arange(len(time))
            begun = np.where(np.diff(waits, prepend=-1.0) > 0.0, place, 0)  # of its burst
            time = waits + 1e-6 * (place - np.maximum.accumulate(begun))
        log = Messages()
        space = f"/{name}" if how.one_bag else ""
        for n, stamp in enumerate((START + np.round(1e9 * time).astype(int)).tolist()):
            values: dict[str, Any] = {"position": q[n], "velocity": v[n], "effort": np.zeros(6)}
            names = [f"{j}_joint" for j in JOINTS]
            log.add(
                f"{space}/joint_states", "sensor_msgs/msg/JointState", stamp, name=names, **values
            )
            if any(begin <= 1e-9 * (stamp - START) < end for begin, end in how.silent):
                continue
            parts = {"force": vector(*wrench[n, :3]), "torque": vector(*wrench[n, 3:])}
            kind = "geometry_msgs/msg/Wrench"
            log.add(f"{space}/wrench", f"{kind}Stamped", stamp, how.frame, wrench=(kind, parts))
        logs.append(log)
    if how.one_bag:
        both = sorted((m for log in logs for m in log.messages), key=lambda m: m.logged)
        return [_saved(Messages(both), folder / "both", how.storage)]
    return [_saved(log, folder / n, how.storage) for n, log in zip(NAMES, logs, strict=True)]


def _saved(log: Messages, path: Path, storage: str) -> Path:
    if storage == "mcap":
        return save_mcap(path.with_suffix(".mcap"), log, chunk_size=1 << 20)
    from rosbags.rosbag2 import Writer

    with Writer(path, version=9, storage_plugin=StoragePlugin.SQLITE3) as writer:
        connections = {
            t: writer.add_connection(t, k, typestore=ROS2) for t, k in log.topics.items()
        }
        for m in log.messages:
            writer.write(
                connections[m.topic], m.logged, bytes(ROS2.serialize_cdr(made(ROS2, m), m.kind))
            )
    return path


def variants(seed: int) -> dict[str, Record]:
    """Return the pair's records by name: the ideal one, and each with a fault."""
    rng = np.random.default_rng(seed)
    tare = tuple(
        np.concatenate([rng.uniform(-1, 1, 3), 0.05 * rng.uniform(-1, 1, 3)]) for _ in NAMES
    )
    tare = tuple(o * rng.uniform(2.0, 4.0) / np.linalg.norm(o[:3]) for o in tare)
    ideal = Record()
    return {
        "ideal": ideal,
        "starts apart": replace(ideal, late=float(rng.uniform(2.0, 30.0))),
        "starts 60 s apart": replace(ideal, late=60.0),
        "one bag": replace(ideal, one_bag=True),
        "foreign frame": replace(ideal, frame="ft_sensor"),
        "tare": replace(ideal, offsets=tare),
        "quantised": replace(ideal, steps=(1e-4, 0.01, 1.0, 0.02)),
        "negated": replace(ideal, sign=-1.0),
        "jitter": replace(ideal, jitter=1e-3),
        "SQLite": replace(ideal, storage="sqlite3"),
    }
