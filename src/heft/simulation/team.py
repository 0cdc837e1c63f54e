"""A team of robots that holds one rigid body, simulated in MuJoCo: sensors at every contact.

The body is carried along a smooth motion. MuJoCo says by inverse dynamics which wrench that takes
and what gyroscopes, velocity sensors and accelerometers at the contacts read; the robots share the
wrench, and squeeze the body beside. Nothing here knows heft's equations of motion.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import InvalidSetting

from .bodies import Inertial, free_body, load_mujoco, rotation, text

KINDS = ("omega", "vel", "acc", "force", "torque")  # of columns, as logs of a frame name them
SINES = 4  # of each coordinate of the motion
LOWEST, HIGHEST = 0.1, 0.6  # their frequencies [Hz]
IN_SPACE = (np.ones(3), np.ones(3))  # what is free to move, and to turn
IN_PLANE = (np.array([1.0, 1.0, 0.0]), np.array([0.0, 0.0, 1.0]))
SUBSTEPS = 8  # of the attitude's integration, a sample


@dataclass(frozen=True)
class TeamMotion:
    """Size of the motion that a team carries its body along: sums of sines, drawn by a seed."""

    speed: float = 0.7  # root mean square of the body's velocity, all axes together [m/s]
    turning: float = 1.8  # root mean square of its angular velocity, each axis [rad/s]
    squeeze: float = 5.0  # root mean square of the forces that cancel one another, each axis [N]


@dataclass(frozen=True)
class TeamNoise:
    """White noise of the sensors, each axis; as logs have it, in every sample anew."""

    angular_velocity: float = 0.4  # [rad/s]
    velocity: float = 0.4  # [m/s]
    acceleration: float = 0.4  # [m/s²]
    force: float = 0.4  # [N]
    torque: float = 0.4  # [N·m]

    @property
    def each(self) -> tuple[float, ...]:
        """Standard deviations in the order of the columns' kinds."""
        return tuple(vars(self).values())


@dataclass(frozen=True, eq=False)
class SimulatedTeam:
    """Readings of a team's sensors, and the truth."""

    time: Array  # shape (N,) [s]
    rotations: Array  # of the contacts' frames in the body's, shape (n, 3, 3)
    origins: Array  # of the contacts' frames in the body's, shape (n, 3) [m]
    bodies: tuple[Inertial, ...]  # held ones in order, in a frame in which contacts are, too
    changes: tuple[float, ...]  # times at which the next body is held [s], one less than bodies
    # readings without noise by kind, each of shape (n, N, 3), in the contacts' frames
    exact: Mapping[str, Array]
    read: Mapping[str, Array] = field(repr=False)  # the same with noise

    @property
    def count(self) -> int:
        """Number of robots n."""
        return len(self.origins)

    def pose(self, to: int, of: int) -> tuple[Array, Array]:
        """Return R and t that take coordinates in the contact frame `of` to those in frame `to`."""
        to_body = self.rotations[to].T
        return (to_body @ self.rotations[of], to_body @ (self.origins[of] - self.origins[to]))

    def columns(self, robot: int, frame: str = "grasp", exact: bool = False) -> dict[str, Array]:
        """Return the columns of one robot's log, `t`, `omega.FRAME.x` and so on."""
        columns = {"t": self.time}
        for kind, values in (self.exact if exact else self.read).items():
            columns |= {f"{kind}.{frame}.{a}": values[robot][:, k] for k, a in enumerate("xyz")}
        return columns


@dataclass(frozen=True)
class Team:
    """A team that holds a body, and how it is simulated."""

    robots: int = 5  # their number n
    radius: float = 0.25  # of the ring on which they hold the body [m]
    rate: float = 100.0  # of samples [Hz]
    duration: float = 50.0  # [s]
    # times at which the body changes [s]; one body more than changes is drawn or given
    changes: tuple[float, ...] = (35.0,)
    motion: TeamMotion = TeamMotion()  # its size
    noise: TeamNoise = TeamNoise()  # of sensors
    bodies: tuple[Inertial, ...] | None = None  # the bodies held; drawn by the seed if not given
    masses: tuple[float, ...] = (2.0, 1.2)  # of the bodies that are drawn [kg]
    # whether contacts are points, through which robots apply forces and no torques
    points: bool = False
    # whether the body slides on a level floor, which carries it: all moves in a plane, with the
    # contacts' z axes up, and robots apply nothing across it
    planar: bool = False

    def __post_init__(self) -> None:
        given = len(self.masses if self.bodies is None else self.bodies)
        if self.robots < 1 or given != len(self.changes) + 1:
            raise InvalidSetting(
                "a team is of one robot or more, and holds one body more than it has changes",
                argument="robots, changes",
                got=f"{self.robots} robots, {len(self.changes)} changes, {given} bodies",
            )
        if self.points and self.robots < 3:
            raise InvalidSetting(
                "forces at points turn a body every way from three of them on",
                argument="robots",
                got=self.robots,
            )

    def run(self, seed: int) -> SimulatedTeam:
        """Return the readings of the team's sensors, and the truth.

        Args:
            seed: Of contacts, bodies, motion and noise.

        Raises:
            InvalidSetting: If MuJoCo is not installed.
        """
        rng = np.random.default_rng(seed)
        rotations, origins = _ring(self.robots, self.radius, rng, self.planar)
        bodies = self.bodies or tuple(_drawn_body(m, self.radius, rng) for m in self.masses)
        time = np.arange(round(self.duration * self.rate)) / self.rate
        motion = _motion(time, self.motion, rng, IN_PLANE if self.planar else IN_SPACE)
        which = np.searchsorted(np.array(self.changes), time, side="right")
        exact = _readings(bodies, (rotations, origins), motion, which)
        squeeze = np.stack(
            [_sines(time, np.full(3, self.motion.squeeze), rng)[0] for _ in range(self.robots)]
        )
        if self.planar:
            exact["total"][:, [0, 1, 5]] = 0.0  # by the floor
            squeeze[..., 2] = 0.0
        share = _shared_by_points if self.points else _shared_by_grasps
        exact |= share(exact.pop("total"), rotations, origins, squeeze)
        read = {
            kind: exact[kind] + s * rng.standard_normal(exact[kind].shape)
            for kind, s in zip(KINDS, self.noise.each, strict=True)
        }
        if self.points:
            read["torque"] = exact["torque"]  # nobody measures what is known to be zero
        ordered = {kind: exact[kind] for kind in KINDS}
        return SimulatedTeam(time, rotations, origins, bodies, self.changes, ordered, read)


def _ring(count: int, radius: float, rng: np.random.Generator, level: bool) -> tuple[Array, Array]:
    """Return rotations and origins of contacts near a ring.

    It is tilted, and each turned at random, or level, and each turned about the vertical.
    """
    angle = 2.0 * np.pi * (np.arange(count) + 0.1 * rng.standard_normal(count)) / count
    flat = np.stack([np.cos(angle), np.sin(angle), np.zeros(count)], axis=1)
    if not level:
        origins = radius * (flat @ _random_rotation(rng).T + 0.1 * rng.standard_normal((count, 3)))
        return np.array([_random_rotation(rng) for _ in range(count)]), origins
    off = 0.1 * rng.standard_normal((count, 3)) * [1.0, 1.0, 0.0]
    headings = rng.uniform(-np.pi, np.pi, count)
    rotations = [rotation(np.array([0.0, 0.0, a])) for a in headings]
    return np.array(rotations), radius * (flat + off)


def _random_rotation(rng: np.random.Generator) -> Array:
    q, r = np.linalg.qr(rng.standard_normal((3, 3)))
    q = q * np.sign(np.diag(r))
    return np.asarray(q * np.linalg.det(q))


def _drawn_body(mass: float, size: float, rng: np.random.Generator) -> Inertial:
    """Return a body of about 1 kg·m², whatever its mass, somewhere within the ring."""
    moments = rng.uniform(0.85, 1.15, 3)
    axes = _random_rotation(rng)
    return Inertial.of_inertia(
        mass, 0.4 * size * rng.uniform(-1.0, 1.0, 3), axes @ np.diag(moments) @ axes.T
    )


def _sines(time: Array, size: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Return three sums of sines, their integral and derivative, shapes (N, 3)."""
    rate = 2.0 * np.pi * rng.uniform(LOWEST, HIGHEST, (SINES, 3))
    phase = rng.uniform(0.0, 2.0 * np.pi, (SINES, 3))
    share = rng.uniform(0.5, 1.0, (SINES, 3))
    share *= size * np.sqrt(2.0) / np.linalg.norm(share, axis=0)
    at = time[:, None, None] * rate + phase
    integral = np.sum(-share / rate * np.cos(at), axis=1)
    return np.sum(share * np.sin(at), axis=1), integral, np.sum(share * rate * np.cos(at), axis=1)


def _motion(
    time: Array, size: TeamMotion, rng: np.random.Generator, free: tuple[Array, Array]
) -> tuple[Array, Array, Array]:
    """Return place, velocity and acceleration of the body's frame, (N, 7), (N, 6), (N, 6).

    Linear ones are in the world, angular ones in the body, as MuJoCo's free joints have them.

    Args:
        free: 1 on axes of translation and rotation that move, 0 on others.
    """
    moving, turning = free[0] * size.speed / np.sqrt(free[0].sum()), free[1] * size.turning
    velocity, position, acceleration = _sines(time, moving, rng)
    state = rng.bit_generator.state
    omega, _, alpha = _sines(time, turning, rng)
    fine = time[0] + (time[1] - time[0]) / SUBSTEPS * (np.arange(SUBSTEPS * len(time)) + 0.5)
    again = np.random.default_rng()
    again.bit_generator.state = state
    middle, _, _ = _sines(fine, turning, again)
    step = (time[1] - time[0]) / SUBSTEPS
    attitude = _turned(step * middle[: SUBSTEPS * (len(time) - 1)])[::SUBSTEPS]
    derivatives = np.hstack((velocity, omega)), np.hstack((acceleration, alpha))
    return np.hstack((position, attitude)), *derivatives


def _turned(angles: Array) -> Array:
    """Return quaternions, (K + 1, 4), turned by one rotation vector after another, (K, 3)."""
    half = 0.5 * np.sqrt(np.sum(angles**2, axis=1, keepdims=True))
    turns = np.hstack([np.cos(half), 0.5 * np.sinc(half / np.pi) * angles])
    a, b, c, d = now = 1.0, 0.0, 0.0, 0.0
    turned = [now]
    for w, x, y, z in turns.tolist():
        a, b, c, d = now = (
            a * w - b * x - c * y - d * z,
            a * x + b * w + c * z - d * y,
            a * y - b * z + c * w + d * x,
            a * z + b * y - c * x + d * w,
        )
        turned.append(now)
    return np.array(turned)


def _readings(
    bodies: Sequence[Inertial], grasps: tuple[Array, Array], motion: tuple[Array, ...],
    which: NDArray[np.intp],
) -> dict[str, Array]:  # fmt: skip
    """Return readings by kind, shapes (n, N, 3), and the `total` wrench, shape (N, 6).

    The wrench is moment about the body's origin, then force, in the body's frame.
    """
    mujoco: Any = load_mujoco()
    models = [mujoco.MjModel.from_xml_string(_model(b, *grasps)) for b in bodies]
    data = [mujoco.MjData(m) for m in models]
    count, robots = len(which), len(grasps[1])
    readings, total = np.empty((count, robots, 3, 3)), np.empty((count, 6))
    for k in range(count):
        model, now = models[which[k]], data[which[k]]
        now.qpos[:], now.qvel[:], now.qacc[:] = (x[k] for x in motion)
        mujoco.mj_inverse(model, now)
        readings[k] = now.sensordata.reshape(robots, 3, 3)
        R = now.xmat[1].reshape(3, 3)
        total[k] = (*now.qfrc_inverse[3:], *(R.T @ now.qfrc_inverse[:3]))
    by_kind = np.moveaxis(readings, (2, 1), (0, 1))
    return dict(zip(KINDS, by_kind, strict=False)) | {"total": total}


def _model(body: Inertial, rotations: Array, origins: Array) -> str:
    root, first = free_body([body], np.array((0.0, 0.0, -9.81)))
    sensors = ET.SubElement(root, "sensor")
    for k, (R, o) in enumerate(zip(rotations, origins, strict=True)):
        axes = f"{text(R[:, 0])} {text(R[:, 1])}"
        ET.SubElement(first, "site", name=f"s{k}", pos=text(o), xyaxes=axes)
        for kind in ("gyro", "velocimeter", "accelerometer"):
            ET.SubElement(sensors, kind, site=f"s{k}")
    return ET.tostring(root, encoding="unicode")


def _shared_by_grasps(
    total: Array, rotations: Array, origins: Array, squeeze: Array
) -> dict[str, Array]:
    """Return force and torque of each robot in its own frame, which sum to the wrench."""
    count = len(origins)
    force = total[:, 3:] / count + squeeze - squeeze.mean(axis=0)
    lever = np.cross(origins[:, None, :], force).sum(axis=0)
    torque = np.broadcast_to((total[:, :3] - lever) / count, force.shape)
    return _in_contacts(force, torque, rotations)


def _shared_by_points(
    total: Array, rotations: Array, origins: Array, squeeze: Array
) -> dict[str, Array]:
    """Return forces that sum to the wrench, nearest to forces that squeeze the body; no torques."""
    count = len(origins)
    grasp = np.zeros((6, 3 * count))
    for k, (x, y, z) in enumerate(origins):
        grasp[:3, 3 * k : 3 * k + 3] = [[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]]
        grasp[3:, 3 * k : 3 * k + 3] = np.eye(3)
    wanted = np.moveaxis(squeeze, 0, 1).reshape(len(total), -1)
    flat = wanted + (total - wanted @ grasp.T) @ np.linalg.pinv(grasp).T
    force = np.moveaxis(flat.reshape(len(total), count, 3), 1, 0)
    return _in_contacts(force, np.zeros_like(force), rotations)


def _in_contacts(force: Array, torque: Array, rotations: Array) -> dict[str, Array]:
    return {
        "force": np.einsum("nki,ntk->nti", rotations, force),
        "torque": np.einsum("nki,ntk->nti", rotations, torque),
    }
