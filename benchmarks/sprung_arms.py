"""Measured arms with springs, counterbalances and parallelograms, for `benchmarks.own_columns`.

Only what a user would write is said here: kinematics, gears, coupling, the file of own columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from benchmarks.arms import split
from heft.arrays import Array
from heft.models import Coupling, Options, Robot
from heft.recordings.recording import Recording

STEEL = 7850.0  # [kg/m³]
ELASTIC = 3  # axes of the KR300 that have two encoders, the first ones
OWN = Path(__file__).parent / "columns"


@dataclass(frozen=True)
class SprungCase:
    """An arm with the file of its own columns, fitted on some logs and scored on others.

    Attributes:
        name: Of the robot and split.
        robot: Without own columns.
        own: Their file.
        fit: Logs to fit.
        score: Logs to score.
        corner: Filter of the score, where one is needed for all estimates [Hz].
        fit_both, score_both: The same logs with both encoders of elastic gears, if there are.
    """

    name: str
    robot: Robot
    own: Path
    fit: tuple[Recording, ...]
    score: tuple[Recording, ...]
    corner: float = 10.0
    fit_both: tuple[Recording, ...] = ()
    score_both: tuple[Recording, ...] = ()

    @property
    def sprung(self) -> Robot:
        """The robot with its own columns."""
        return self.robot.with_own_columns(self.own)


def logged(
    path: str,
    time: Array,
    q: Array,
    tau: Array,
    joints: tuple[str, ...],
    **others: dict[str, Array],
) -> Recording:
    """Return a recording of positions and torques, each of shape (N, joints), and other signals."""
    return Recording.from_arrays(
        time,
        path,
        q=dict(zip(joints, q.T, strict=True)),
        tau=dict(zip(joints, tau.T, strict=True)),
        **others,
    )


def kr300_model(stated: dict[str, Any]) -> str:
    """Return the KR300 as a TOML of Denavit-Hartenberg rows, with the published guess of masses.

    The load on the last flange counts as its link's; its inertia is taken for a cube's of steel.
    """
    rows = [f"  [{a}, {alpha}, {d}, {theta}, 'revolute']," for d, a, alpha, theta in stated["dh"]]
    lines = ["[link]", 'convention = "standard"', "table = [", *rows, "]"]
    masses, coms = list(stated["nominal_link_mass_kg"]), list(stated["nominal_link_com_m"])
    sixes = list(stated["nominal_link_inertia_com_[xx,yy,zz,xy,yz,xz]"])
    load = stated["payload_on_axis6_in_model"]
    own, its = masses[-1], load["mass_kg"]
    coms[-1] = [0.0, 0.0, (own * coms[-1][2] + its * load["com_z_m"]) / (own + its)]
    masses[-1] = own + its
    sixes[-1] = 3 * [masses[-1] * (masses[-1] / STEEL) ** (2.0 / 3.0) / 6.0] + [0.0, 0.0, 0.0]
    for k, (mass, com, six) in enumerate(zip(masses, coms, sixes, strict=True), 1):
        xx, yy, zz, xy, yz, xz = six
        tensor = [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]
        lines += [f"[inertial.link{k}]", f"mass = {mass}", f"com = {com}", f"inertia = {tensor}"]
    return "\n".join(lines)


def kr300(folder: Path) -> Iterator[SprungCase]:
    """KUKA KR300 R2500, 250 Hz, two runs of 10 s; axes 1 to 3 have a second encoder at the link."""
    place = folder / "kuka_kr300"
    stated = json.loads((place / "model_reference.json").read_text())
    # The table's base is turned upside down.
    options = Options(gravity=(0.0, 0.0, 9.81))
    robot = Robot.from_text(kr300_model(stated).encode(), options, "kr300.toml")
    home = np.array(stated["home_deg_guess"])
    runs, both = [], []
    for name in ("FF_A", "FF_B"):
        with np.load(place / f"{name}.npz") as data:
            q = np.radians(data["q_motor_deg"] + home)
            tau = data["tau_motor_nm"] * np.array(stated["gear_ratio"])
            runs.append(logged(name, data["t"], q, tau, robot.joints))
            link = np.hstack([np.radians(data["q_secenc_deg"] + home)[:, :ELASTIC], q[:, ELASTIC:]])
            motor = dict(zip(robot.joints[:ELASTIC], q.T, strict=False))
            both.append(logged(name, data["t"], link, tau, robot.joints, q_motor=motor))
    for name, fit, score in (("A → run B", 0, 1), ("B → run A", 1, 0)):
        yield SprungCase(
            f"KR300, run {name}",
            robot,
            OWN / "kr300.py",
            (runs[fit],),
            (runs[score],),
            fit_both=(both[fit],),
            score_both=(both[score],),
        )


DVRK_JOINTS = ("L1", "L2", "L30", "L4", "L5", "L6", "L7")  # whose rows turn by one coordinate
DVRK_MOTORS = ((1.0, 1.0, 0.0), (0.0, 1.0, 0.6697), (0.0, 0.0, 1.0))  # of joints 2, 3, 4


def dvrk_model(stated: dict[str, Any]) -> str:
    """Return the URDF of a da Vinci master arm, its parallelogram as a second branch.

    Its second branch turns by sums of coordinates: a joint that mimics each, on one axis.
    """
    lines = ['<robot name="mtm">', '<link name="base"/>']
    for name, parent, a, alpha, d, theta, turns in stated["joints"]:
        own = DVRK_JOINTS.index(name) if name in DVRK_JOINTS else None
        turn = Rotation.from_euler("x", alpha) * Rotation.from_euler("z", theta)
        place = Rotation.from_euler("x", alpha).apply([a, 0.0, d])
        for k, by in enumerate(turns):
            if not by:
                continue
            last = not any(turns[k + 1 :])
            child = name if last else f"{name}.{k + 1}"
            joint = f"joint{k + 1}" if own == k else f"{child}.by.joint{k + 1}"
            mimic = "" if own == k else f'<mimic joint="joint{k + 1}" multiplier="{by!r}"/>'
            lines += [
                f'<link name="{child}"/>',
                f'<joint name="{joint}" type="revolute">',
                f'<parent link="{parent}"/><child link="{child}"/>',
                f'<origin xyz="{numbers(place)}" rpy="{numbers(turn.as_euler("xyz"))}"/>',
                f'<axis xyz="0 0 1"/>{mimic}',
                '<limit lower="-9" upper="9" effort="2" velocity="30"/></joint>',
            ]
            parent, turn, place = child, Rotation.identity(), np.zeros(3)
    return "\n".join([*lines, "</robot>"])


def numbers(values: Array) -> str:
    """Return numbers for an attribute."""
    return " ".join(repr(float(v)) for v in values)


def dvrk(folder: Path) -> Iterator[SprungCase]:
    """Return the da Vinci master arm: torques from currents, 200 Hz, 30 s."""
    place = folder / "dvrk"
    stated = json.loads((place / "model_mtm_tree.json").read_text())
    moved = ("joint2", "joint3", "joint4")
    coupling = Coupling(moved, ("motor2", "motor3", "motor4"), DVRK_MOTORS)
    robot = Robot.from_urdf_text(dvrk_model(stated).encode(), Options(coupling=coupling))
    with np.load(place / "mtm__one_results.npz") as data:
        time = np.arange(len(data["q"])) / float(data["fs"])
        # What is logged is of the motors, three of which move more than a joint.
        transmission = np.eye(len(robot.joints))
        transmission[1:4, 1:4] = DVRK_MOTORS
        q = data["q"] @ np.linalg.inv(transmission)
        log = logged("mtm", time, q, data["tau"] @ transmission.T, robot.joints)
    first, rest = split(log, 0.7)
    name = "dVRK MTM, first 70 % → last 30 %"
    yield SprungCase(name, robot, OWN / "dvrk_mtm.py", (first,), (rest,))
