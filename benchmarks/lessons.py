"""The textbook's robots, their torques, and their parameters as columns of heft's rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from heft.applications.textbook import Differenced, chosen
from heft.models.options import JointOptions, Options
from heft.models.robot import Robot
from heft.signals.weak_form import Integrals
from heft.simulation import Dynamics, Simulate, Trajectory

Array = NDArray[np.float64]
Make = Callable[[Robot], Integrals]

FOLDER = Path(__file__).parents[1] / "examples"
DRIVE = {"armature": 0.05, "viscous": 0.1, "coulomb": 0.1}
STEP = 0.002  # [s]
LENGTH = 0.5  # of a link [m]
ENCODER = 1e-4  # [rad]
SENSOR = 0.01  # of the rms torque


def example(name: str, gravity: tuple[float, float, float] | None = None) -> Robot:
    """Return a robot with simple friction."""
    bare = Robot.from_file(FOLDER / f"{name}.toml")
    joints = dict.fromkeys(bare.joints, JointOptions(friction="simple"))
    return Robot.from_file(FOLDER / f"{name}.toml", Options(joint=joints, gravity=gravity))


def rubbing(robot: Robot, **drive: float) -> Dynamics:
    """Return its dynamics, each joint with the same drive."""
    numbers = drive or DRIVE
    return Dynamics.of(robot, {f"{j}.{k}": v for j in robot.joints for k, v in numbers.items()})


@dataclass(frozen=True, eq=False)
class Lesson:
    """A textbook's robot.

    Attributes:
        robot: Its file's name.
        torque: Of time.
        truth: θ.
        columns: Returns the columns of θ, of what makes a robot's rows.
    """

    robot: str
    torque: Callable[[float], list[float]]
    truth: Array
    columns: Callable[[Make], Integrals]

    def dynamics(self) -> Dynamics:
        """Return its dynamics."""
        return rubbing(example(self.robot))

    @cache  # noqa: B019
    def moved(self, hold: float | None = None, seconds: float = 5.0) -> Trajectory:
        """Return the motion, the torque held from step to step or not."""
        time = STEP * np.arange(round(seconds / STEP) + 2)
        settings = Simulate("RK45", 1e-6, 1e-8, hold=hold) if hold else Simulate()
        return settings.run(self.dynamics(), time, lambda t, q, v: np.array(self.torque(t)))


def one_link(make: Make) -> Integrals:
    """Return the columns of [I + I_m, m r, F_s, F_v]."""
    robot = example("one_link")
    names = ("link1@joint1.I.zz", "link1@joint1.h.x", "joint1.coulomb", "joint1.viscous")
    return chosen(make(robot), [robot.labels.index(n) for n in names])


def two_link(make: Make) -> Integrals:
    """Return the columns of the homework's ten parameters.

    The textbook counts m₂r₂ twice, with the length l₁ in the inertia and without it in the weight:
    what its column is without gravity belongs to the one, the rest to the other.
    """
    robot = example("two_link_homework")
    rows, weightless = make(robot), make(example("two_link_homework", (0.0, 0.0, 0.0)))

    def column(rows: Integrals, name: str) -> Array:
        return rows.regressor[..., robot.labels.index(name)]

    coupled = column(weightless, "link2@joint2.h.x")
    columns = [
        column(rows, "joint1.armature"),
        column(rows, "link2@joint2.I.zz"),
        coupled / LENGTH,
        column(rows, "link1@joint1.h.x"),
        column(rows, "link2@joint2.h.x") - coupled,
        column(rows, "joint2.armature"),
        *(column(rows, f"joint{k}.{n}") for n in ("coulomb", "viscous") for k in (1, 2)),
    ]
    return replace(rows, regressor=np.stack(columns, axis=-1))


LESSONS = {
    "one link": Lesson(
        "one_link", lambda t: [np.sin(t) + np.cos(10 * t)], np.full(4, 0.1), one_link
    ),
    "two links": Lesson(
        "two_link_homework",
        lambda t: [
            np.sin(1.1 * t) + np.cos(6 * t) + np.cos(17 * t),
            np.cos(2.3 * t) + np.sin(9 * t) + np.sin(23 * t),
        ],
        np.array([0.15, 0.05, 0.01, 0.12, 0.02, 0.05, *[DRIVE["coulomb"]] * 4]),
        two_link,
    ),
}


def noisy(moved: Trajectory, seed: int) -> Differenced:
    """Return what an encoder of 1e-4 rad and a torque sensor of 1 % see."""
    rng = np.random.default_rng(seed)
    size = 0.01 * np.sqrt(np.mean(moved.effort**2, axis=0))
    return Differenced(
        moved.time,
        moved.position + 1e-4 * rng.normal(size=moved.position.shape),
        moved.effort + size * rng.normal(size=moved.effort.shape),
    )
