"""The measured robots of the real-data benchmark: where each log is and what it means.

Only what a user would write is said here: names of columns, gear and coupling of motors, drive
gains, which piece is for fitting and which for scoring. No setting of heft is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from heft.arrays import Array
from heft.models.options import Coupling, JointOptions, Options
from heft.models.robot import Robot
from heft.recordings.recording import Recording

DE_LUCA = (14.87, 13.26, 11.13, 10.62, 11.03, 11.47)  # N·m/A
TX40_DELAY = -0.0023  # [s]; torque is ahead of motion
AnyCase = TypeVar("AnyCase", bound=Any)  # one of these, or of `benchmarks.sprung_arms`
LOGS = ("fit", "score", "fit_both", "score_both")
TX40_RATIO = (32.0, 32.0, 45.0, -48.0, 45.0, 32.0)


def data_folder() -> Path:
    """Return the folder of measured data, named by the environment variable HEFT_DATA."""
    folder = os.environ.get("HEFT_DATA")
    if not folder:
        raise SystemExit("set HEFT_DATA to the folder with the measured data")
    return Path(folder)


@dataclass(frozen=True)
class Case:
    """One line of the table: fit on some logs, score on others.

    Attributes:
        name: Of the robot and split.
        robot: Made from its model file.
        urdf: That file's bytes.
        fit: Logs to fit.
        score: Logs to score, never seen by the fit.
        corner: Filter of the score [Hz].
        bound: Largest total error asked for with full friction, filtered.
        mean: Largest mean of the joints' own errors asked for, likewise.
        aim: Total error that is aimed at.
        delay: By how much torque comes behind motion [s], as far as is known.
    """

    name: str
    robot: Robot
    urdf: bytes
    fit: tuple[Recording, ...]
    score: tuple[Recording, ...]
    corner: float
    bound: float
    mean: float | None = None
    aim: float | None = None
    delay: float = 0.0


def arrays(
    path: Path,
    fields: dict[str, str],
    joints: Sequence[str],
    time: Array,
    keep: slice | None = None,
) -> Recording:
    """Return a recording of an NPZ file's 2-D arrays, `fields` giving kind → key."""
    with np.load(path) as data:
        stored = {k: np.asarray(data[key], dtype=float) for k, key in fields.items()}
    chosen = keep or slice(None)
    return Recording.from_arrays(
        time[chosen],
        path.stem,
        **{
            kind: {j: values[chosen, k] for k, j in enumerate(joints)}
            for kind, values in stored.items()
        },
    )


def length(recording: Recording) -> int:
    """Return how many rows a recording has."""
    return (recording.stop or recording.table.rows or 0) - recording.start


def split(recording: Recording, share: float) -> tuple[Recording, Recording]:
    """Return the first share of a recording's rows, and the rest."""
    cut = int(share * length(recording))
    return recording.window(0, cut), recording.window(cut, None)


def shortened(case: AnyCase, rows: int | None) -> AnyCase:
    """Return a case with some rows in the middle of each of its logs, all of them if None."""
    if rows is None:
        return case

    def cut(log: Recording) -> Recording:
        first = max(length(log) - rows, 0) // 2
        return log.window(first, first + rows)

    logs = {k: v for k, v in vars(case).items() if k in LOGS}
    return replace(case, **{k: tuple(map(cut, v)) for k, v in logs.items()})


def with_friction(robot: Robot, kind: str) -> Robot:
    """Return a robot whose joints have one kind of friction."""
    joints = {j: robot.options.of(j) for j in robot.joints}
    return robot.with_joints(
        {j: replace(o, friction=kind) for j, o in joints.items()}  # type: ignore[arg-type]
    )


def panda(folder: Path) -> Iterator[Case]:
    """Franka Panda, joint torque sensors, about 1 kHz with jitter."""
    place = folder / "panda_gaz2019"
    urdf = (place / "panda_arm.urdf").read_bytes()
    robot = Robot.from_urdf_text(urdf)
    with np.load(place / "exciting_traj.npz") as data:
        time = data["t"]
    log = arrays(place / "exciting_traj.npz", {"q": "q", "tau": "tau"}, robot.joints, time)
    first, rest = split(log, 0.7)
    yield Case(
        "Panda, first 70 % → last 30 %", robot, urdf, (first,), (rest,), 10.0, 0.0132, 0.040, 0.012
    )


def lwr4(folder: Path) -> Iterator[Case]:
    """KUKA LWR4+, joint torque sensors, 200 Hz."""
    place = folder / "kuka_lwr4"
    urdf = (place / "kuka_lwr4.urdf").read_bytes()
    robot = Robot.from_urdf_text(urdf)
    runs = []
    for number in (1, 2):
        path = place / f"measurements_{number}.npz"
        with np.load(path) as data:
            time = data["times"]
        runs.append(
            arrays(path, {"q": "positions", "tau": "torques"}, robot.joints, time, slice(500, -100))
        )
    yield Case("LWR4+, run 1 → run 2", robot, urdf, (runs[0],), (runs[1],), 8.0, 0.024)
    yield Case("LWR4+, run 2 → run 1", robot, urdf, (runs[1],), (runs[0],), 8.0, 0.024)


def ur10e(folder: Path) -> Iterator[Case]:
    """UR10e, motor currents with De Luca's gains, about 100 Hz with jitter."""
    place = folder / "ur10e"
    urdf = (place / "ur10e.urdf").read_bytes()
    bare = Robot.from_urdf_text(urdf)
    gains = {j: JointOptions(gain=g) for j, g in zip(bare.joints, DE_LUCA, strict=True)}
    robot = Robot.from_urdf_text(urdf, Options(joint=gains))

    def run(name: str, first: int, last: int) -> Recording:
        path = place / "identification_data" / f"ur-{name}.npz"
        with np.load(path) as data:
            time = data["t"]
        return arrays(
            path, {"q": "q", "current": "current"}, robot.joints, time, slice(first - 1, last)
        )

    score = (run("20_02_05-20sec_8harm", 320, 2310),)
    yield Case(
        "UR10e, 50 s → 20 s",
        robot,
        urdf,
        (run("20_02_12-50sec_12harm", 355, 5090),),
        score,
        8.0,
        0.046,
        0.068,
        0.041,
    )
    yield Case(
        "UR10e, 30 s → 20 s",
        robot,
        urdf,
        (run("20_02_10-30sec_12harm", 635, 3510),),
        score,
        8.0,
        0.044,
        0.065,
        0.040,
    )


def tx40(folder: Path) -> Iterator[Case]:
    """Staubli TX40, motor side, 5 kHz, wrist 5-6 coupled."""
    place = folder / "staubli_tx40"
    urdf = (place / "tx40_mdh_modified.urdf").read_bytes()
    bare = Robot.from_urdf_text(urdf)
    matrix = np.diag(TX40_RATIO)
    matrix[4, 5] = TX40_RATIO[5]  # joint torque = matrix @ motor torque
    motors = tuple(f"motor{k + 1}" for k in range(6))
    coupling = Coupling(bare.joints, motors, tuple(tuple(map(float, row)) for row in matrix))
    robot = Robot.from_urdf_text(urdf, Options(coupling=coupling))
    with np.load(place / "log.npz") as data:
        position, torque = np.asarray(data["motor_pos"]), np.asarray(data["motor_torque"])
        step = float(data["ts"])
    offset = np.array([0.0, -np.pi / 2, np.pi / 2, 0.0, 0.0, 0.0])
    q = position @ np.linalg.inv(matrix) + offset  # motor position = matrixᵀ @ joint position
    tau = torque @ matrix.T
    time = step * np.arange(len(q))
    log = Recording.from_arrays(
        time,
        "tx40",
        q={j: q[:, k] for k, j in enumerate(robot.joints)},
        tau={j: tau[:, k] for k, j in enumerate(robot.joints)},
    )
    block = round(0.2 / step)
    yield Case(
        "TX40, blocks of 0.2 s",
        robot,
        urdf,
        (log.selecting(lambda row: row // block % 10 < 7),),
        (log.selecting(lambda row: row // block % 10 >= 7),),
        100.0,
        0.095,
        aim=0.086,
        delay=TX40_DELAY,
    )
    first, rest = split(log, 0.7)
    yield Case(
        "TX40, first 70 % → last 30 %",
        robot,
        urdf,
        (first,),
        (rest,),
        100.0,
        0.26,
        delay=TX40_DELAY,
    )


def rokae_urdf(folder: Path) -> bytes:
    """Return a URDF of the Rokae from its modified Denavit-Hartenberg rows, without inertials."""
    model = json.loads((folder / "rokae_xmate3pro" / "model.json").read_text())
    lines = ['<robot name="xmate3pro">', '  <link name="link0"/>']
    for k, (d, a, alpha, theta) in enumerate(model["mdh"], 1):
        # Rot_x(α) Trans_x(a) Trans_z(d), then the joint about z with its offset.
        xyz = (a, -np.sin(alpha) * d, np.cos(alpha) * d)
        lines += [
            f'  <link name="link{k}"/>',
            f'  <joint name="joint{k}" type="revolute">',
            f'    <parent link="link{k - 1}"/><child link="link{k}"/>',
            f'    <origin xyz="{xyz[0]!r} {float(xyz[1])!r} {float(xyz[2])!r}"'
            f' rpy="{alpha!r} 0 {theta!r}"/>',
            '    <axis xyz="0 0 1"/><limit lower="-3" upper="3" effort="100" velocity="3"/>',
            "  </joint>",
        ]
        if theta != 0.0 and alpha != 0.0:
            raise SystemExit("an offset with a twist needs a rotation matrix here")
    return "\n".join([*lines, "</robot>"]).encode()


def rokae(folder: Path) -> Iterator[Case]:
    """Rokae xMate3 Pro, joint torque sensors, 1 kHz, no model file but DH rows."""
    place = folder / "rokae_xmate3pro"
    urdf = rokae_urdf(folder)
    robot = Robot.from_urdf_text(urdf, Options(gravity=(0.0, 0.0, -9.802)))
    path = place / "excitation.npz"
    with np.load(path) as data:
        time = float(data["ts"]) * np.arange(len(data["q"]))
    log = arrays(path, {"q": "q", "tau": "tau_sensor"}, robot.joints, time)
    first, rest = split(log, 0.7)
    yield Case(
        "Rokae, first 70 % → last 30 %", robot, urdf, (first,), (rest,), 8.0, 0.070, 0.180, 0.066
    )


ROBOTS: dict[str, Callable[[Path], Iterator[Case]]] = {
    "panda": panda,
    "lwr4": lwr4,
    "ur10e": ur10e,
    "tx40": tx40,
    "rokae": rokae,
}
