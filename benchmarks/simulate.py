"""`heft simulate`: how fast against real time, and whether the same seed leaves the same bytes.

    python -m benchmarks.simulate [--store]

Whole commands, in processes of their own, by their processor time, on robots of
`example-robot-data`: reading the model, the simulation in MuJoCo in steps of 0.5 ms, log and truth.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet

from benchmarks.core import robots
from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_least, at_most
from heft.simulation import Limits, draw_motion, whole_robot

SECONDS = 30.0
HUMANOID = "talos_data/robots/talos_reduced.urdf"
ARM = "arm, 6 joints"
SMALL = "double_pendulum_description/urdf/double_pendulum_simple.urdf"  # of a smoke run
CONTROLLERS = ("computed-torque", "pd")
ROBOTS = {
    "humanoid, 32 joints, held at its hip": HUMANOID,
    "humanoid, 43 joints with hands": "g1_description/urdf/g1_29dof_with_hand_rev_1_0.urdf",
    ARM: "ur_description/urdf/ur10_robot.urdf",
}
EVERYTHING = """
[simulation]
seed = 3
[simulation.drives]
friction = "lugre"
bend = [0.5, 2.0]
load = 0.04
warming = 0.2
ripple = 0.05
resonance = [15, 30]
[simulation.sensors]
bits = 17
torque_noise = 0.01
correlation = 0.9
torque_step = 0.002
delay = 0.003
encoder_delay = 0.001
jitter = 0.03
bias = 0.02
gain_error = 0.05
current_ripple = 0.01
lost = 0.01
burst = 3
repeated = 0.01
"""


def write_motion(path: Path, file: str) -> int:
    """Write sines within 40 % of the joints' ranges, from rest; return the number of joints."""
    arm = whole_robot(robots() / file)
    limits = Limits(reach=0.4, speed=0.3)
    finite = type(arm)(
        arm.name,
        arm.urdf,
        arm.joints,
        np.maximum(arm.lower, -np.pi),
        np.minimum(arm.upper, np.pi),
        np.minimum(arm.speed, 3.0),
        arm.effort,
    )
    motion = draw_motion("sines", finite, np.random.default_rng(0), 0.0, SECONDS, limits)
    t = np.arange(0.0, SECONDS + 1e-9, 0.01)
    columns = {"t": t}
    for kind, values in zip("qva", motion(t), strict=True):
        columns |= {f"{kind}.{j}": values[:, k] for k, j in enumerate(arm.joints)}
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return len(arm.joints)


def simulate(file: str, motion: Path, out: Path, *more: str) -> float:
    """Run the command and return its processor time [s], which other work does not lengthen."""
    begin = processor_time()
    call = [sys.executable, "-m", "heft", "simulate", str(robots() / file), str(motion)]
    subprocess.run([*call, "--out", str(out), *more], check=True, capture_output=True)
    return processor_time() - begin


def processor_time() -> float:
    """Return the processor time of all processes that were started and have ended [s]."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def contents(out: Path) -> dict[str, bytes]:
    """Return the bytes of a log and of the truth beside it."""
    files = [out, *sorted(out.with_suffix(".truth").iterdir())]
    return {p.name: p.read_bytes() for p in files}


def measured(place: Path) -> Iterator[Row]:
    """Yield speeds and whether bytes are the same."""
    (place / "everything.toml").write_text(EVERYTHING)
    for number, (name, file) in enumerate(ROBOTS.items()):
        motion = place / f"motion{number}.parquet"
        write_motion(motion, file)
        chosen = ("--with", str(place / "everything.toml"))
        walls = [simulate(file, motion, place / f"{k}.mcap", *chosen) for k in range(2)]
        yield at_least(f"{name}, all faults at once", SECONDS / min(walls), "times real time", 1.0)
        one, two = (contents(place / f"{k}.mcap") for k in range(2))
        unlike = sum(a != b for a, b in zip(one.values(), two.values(), strict=True))
        yield at_most(f"{name}, files that differ between two runs", unlike, "of 3", 0.0)
        for controller in CONTROLLERS:
            chosen = ("--controller", controller)
            wall = simulate(file, motion, place / "log.mcap", *chosen)
            label = f"{name}, {controller}, the whole command"
            yield at_least(label, SECONDS / wall, "times real time", 1.0)


@benchmark({"SECONDS": 0.2, "ROBOTS": {ARM: SMALL}, "CONTROLLERS": ("pd",)})
def main() -> Iterator[Row]:
    """Yield the rows."""
    with tempfile.TemporaryDirectory() as folder:
        yield from measured(Path(folder))


if __name__ == "__main__":
    main()
