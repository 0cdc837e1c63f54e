"""A log replayed by MuJoCo from the file that `heft export` writes, on measured and simulated arms.

    HEFT_DATA=… python -m benchmarks.simulators [--store]

Each arm is identified from one log and another one is replayed: torque of its motion by
`mj_inverse`, and its torque over stretches of 1 s by `mj_step`, beside heft's own models and the
model file's masses, whose friction, rotors and offsets are fitted to the same log.
Simulated arms have wrong model files and drives of LuGre friction that bends with the speed, all
of it drawn (`heft.simulation.Simulator`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tests.robots import path_of

from benchmarks.arms import ROBOTS, data_folder
from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_most
from benchmarks.truth import LUGRE
from heft.applications.export import Replay, fields_of, replay_log
from heft.applications.identification import Identified, identify, write
from heft.models import SIMULATORS, Robot
from heft.recordings import Recording
from heft.simulation import Arm, Condition, MujocoReplay, Simulator

MEASURED = {"panda": 0, "lwr4": 0, "ur10e": 0, "rokae": 0, "tx40": 1}  # which case of each
SIMULATED = {
    "Panda": "panda_description/urdf/panda.urdf",
    "UR10": "ur_description/urdf/ur10_robot.urdf",
    "UR3": "ur_description/urdf/ur3_robot.urdf",
    "Kinova": "kinova_description/robots/kinova.urdf",
    "Z1": "z1_description/urdf/z1.urdf",
}
SEED = 7
DURATION = 25.0  # of a simulated log [s]
MASSES, SIMPLE = "its masses, fitted friction", "heft, simple"


def cases() -> Iterator[tuple[str, Robot, tuple[Recording, ...], Recording]]:
    """Yield name, robot of the model file, logs to fit and the log to replay."""
    for name, number in MEASURED.items():
        case = list(ROBOTS[name](data_folder()))[number]
        yield f"measured {case.name.partition(',')[0]}", case.robot, case.fit, case.score[0]
    for name, file in SIMULATED.items():
        condition = Condition(drives=LUGRE, duration=DURATION)
        simulator = Simulator(Arm.of(path_of(file)), condition)
        fit, other = (simulator.run(SEED, number=k) for k in (0, 1))
        robot = Robot.from_urdf_text(fit.prior)
        yield f"simulated {name}", robot, (fit.recording,), other.recording


def replayed(robot: Robot, fit: tuple[Recording, ...], log: Recording) -> Replay:
    """Return the replay of a log by MuJoCo, of a robot that is identified from others."""
    target = SIMULATORS["mujoco"]
    with tempfile.TemporaryDirectory() as folder:
        write(identify(robot, fit), Path(folder) / "out")
        found = Identified.load(Path(folder) / "out")
        fields = target.taken(found.robot, fields_of(found))
        text = target.write(found.robot, fields)
        run = MujocoReplay.of(text, found.robot.joints)
        return replay_log(found, run, fields, log, before=robot, fit=fit[0])


def rows_of(name: str, replay: Replay) -> Iterator[Row]:
    """Yield the rows of an arm."""
    engine = str(replay.engine)
    title = f"{name}: difference of bodies, rotors, viscous friction, offsets"
    yield at_most(title, replay.smooth, "of the torque", 1e-9)
    yield at_most(f"{name}: difference of dry friction", replay.dry, "of it", 0.01)
    for model, called in (
        (engine, "MuJoCo"),
        (SIMPLE, "heft's simple friction"),
        ("heft, full", "heft's full friction"),
        (MASSES, "the file's masses"),
    ):
        yield Row(f"{name}: torque missed by {called}", float(replay.errors[model][-1]), "")
    here = replay.moved[engine]
    for model, called, bound in ((SIMPLE, "heft's own", 1.2), (MASSES, "the file's masses'", 0.5)):
        with np.errstate(invalid="ignore"):
            ratio = float(np.nanmedian(here / replay.moved[model]))
        yield at_most(f"{name}: position error over {called}", ratio, "", bound)


@benchmark({"MEASURED": {}, "SIMULATED": {"UR3": SIMULATED["UR3"]}, "DURATION": 12.0})
def main() -> Iterator[Row]:
    """Yield the rows."""
    for name, robot, fit, log in cases():
        yield from rows_of(name, replayed(robot, fit, log))


if __name__ == "__main__":
    main()
