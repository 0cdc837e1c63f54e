"""Simulated experiments with known truth: robots, motions and logs for the tests of recovery.

Torque comes from pinocchio, on the analytic motion; heft sees only what sensors would show.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pinocchio as pin

from heft.information import inertia
from heft.models.export import write_urdf
from heft.models.options import JointOptions, Options
from heft.models.robot import Robot
from heft.recordings.recording import Recording

ROBOTS = Path(pin.__file__).parents[4] / "share" / "example-robot-data" / "robots"
ARMS = {
    "two joints": ROBOTS / "double_pendulum_description" / "urdf" / "double_pendulum.urdf",
    "six joints": ROBOTS / "ur_description" / "urdf" / "ur5_robot.urdf",
    "seven joints": ROBOTS / "kinova_description" / "robots" / "kinova.urdf",
}
HUMANOID = ROBOTS / "talos_data" / "robots" / "talos_reduced.urdf"


@dataclass(frozen=True)
class Truth:
    """What a simulated robot really is.

    Attributes:
        robot: With the true numbers as its model file has them.
        drives: Terms by name.
    """

    robot: Robot
    drives: dict[str, float]


def wrong_prior(robot: Robot, rng: np.random.Generator, size: float = 0.3) -> bytes:
    """Return a model file whose masses, centres and inertias are off by about `size`."""
    guess = {}
    for link in robot.bodies_links:
        mass, com, tensor = inertia.to_body(link.nominal)
        gyration = np.sqrt(np.trace(tensor) / (2.0 * mass))
        stretch = np.eye(4)
        stretch[:3, :3] += size / 2.0 * rng.normal(size=(3, 3))
        factor = stretch @ inertia.pseudo_inertia(link.nominal) @ stretch.T
        moved = inertia.from_pseudo_inertia(factor * np.exp(size * rng.normal()))
        mass, com, tensor = inertia.to_body(moved)
        shifted = com + 0.5 * size * gyration * rng.normal(size=3)
        guess[link.name] = inertia.from_body(mass, shifted, tensor)
    return write_urdf(robot.source, guess, {})


def simple_options(path: Path) -> Options:
    """Return options for viscous, Coulomb friction and an offset in every joint."""
    joints = Robot.from_urdf(path).joints
    return Options(joint=dict.fromkeys(joints, JointOptions(friction="simple")))


def true_robot(
    path: Path, rng: np.random.Generator, friction: Literal["full", "simple"] = "full"
) -> Truth:
    """Return a robot with sound numbers, rotors, and simple friction as large as of real arms.

    Args:
        path: Its model file.
        rng: For the numbers.
        friction: What the robot is to be identified with.
    """
    options = simple_options(path) if friction == "simple" else None
    written = Robot.from_urdf(path, options)
    sound = write_urdf(written.source, {k.name: k.nominal for k in written.bodies_links}, {})
    robot = Robot.from_urdf_text(sound, options)
    sizes = {"armature": 0.05, "viscous": 1.0, "coulomb": 1.5, "offset": 0.3}
    drives = {
        f"{joint}.{t}": float(size * rng.uniform(0.5, 1.5))
        for t, size in sizes.items()
        for joint in robot.joints
    }
    return Truth(robot, drives)


def fourier(
    count: int,
    time: np.ndarray,
    rng: np.random.Generator,
    harmonics: int = 5,
    base: float = 0.1,
    reach: float = 0.8,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return positions, velocities and accelerations of a periodic motion, each (N, count)."""
    q = np.zeros((3, len(time), count))
    for h in range(1, harmonics + 1):
        w = 2.0 * np.pi * base * h
        a, b = rng.normal(size=(2, count)) * reach / np.sqrt(harmonics)
        s, c = np.sin(w * time)[:, None], np.cos(w * time)[:, None]
        q[0] += a * s + b * c
        q[1] += w * (a * c - b * s)
        q[2] -= w * w * (a * s + b * c)
    q[0] += rng.uniform(-1.0, 1.0, size=count)
    return q[0], q[1], q[2]


def torque(truth: Truth, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Return the true torque, rigid body by pinocchio and drives by their formula."""
    model = pin.buildModelFromXML(truth.robot.source.decode())
    data = model.createData()
    get = truth.drives.get
    tau = np.array(
        [
            pin.rnea(model, data, configuration(model, x), y, z)
            for x, y, z in zip(q, v, a, strict=True)
        ]
    )
    for k, joint in enumerate(truth.robot.joints):
        tau[:, k] += get(f"{joint}.armature", 0.0) * a[:, k]
        tau[:, k] += get(f"{joint}.viscous", 0.0) * v[:, k]
        tau[:, k] += get(f"{joint}.coulomb", 0.0) * np.sign(v[:, k])
        tau[:, k] += get(f"{joint}.offset", 0.0)
    return tau


def configuration(model: pin.Model, q: np.ndarray) -> np.ndarray:
    """Return pinocchio's configuration of one position a joint."""
    full = pin.neutral(model)
    for k in range(1, model.njoints):
        joint = model.joints[k]
        angle = q[joint.idx_v]
        full[joint.idx_q : joint.idx_q + joint.nq] = (
            angle if joint.nq == 1 else [np.cos(angle), np.sin(angle)]
        )
    return full


def log(
    truth: Truth,
    duration: float,
    rate: float,
    rng: np.random.Generator,
    noise: float = 0.02,
    encoder: float = 1e-5,
    name: str = "simulated",
    delay: float = 0.0,
    motion: int | None = None,
) -> Recording:
    """Return a log of a motion: encoder noise [rad], torque noise as a share of its rms.

    Torque comes `delay` [s] behind the motion. The motion is drawn anew unless its seed is given.
    """
    time = np.arange(round(duration * rate)) / rate
    drawn = int(rng.integers(2**32))
    same = np.random.default_rng(drawn if motion is None else motion)  # motion, drawn twice
    state = same.bit_generator.state
    q, _, _ = fourier(len(truth.robot.joints), time, same)
    same.bit_generator.state = state
    tau = torque(truth, *fourier(len(truth.robot.joints), time - delay, same))
    tau = tau + noise * np.sqrt(np.mean(tau**2, axis=0)) * rng.normal(size=tau.shape)
    seen = q + encoder * rng.normal(size=q.shape)
    joints = truth.robot.joints
    return Recording.from_arrays(
        time,
        name,
        q={j: seen[:, k] for k, j in enumerate(joints)},
        tau={j: tau[:, k] for k, j in enumerate(joints)},
    )
