"""Simulated fleets on disk: robots of a type, whose friction is their own and scatters by day."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet

from heft.applications.fleet import Catalog, reading
from heft.applications.fleet.catalog import TYPES
from heft.files import OpenedFile
from heft.recordings import Recording
from heft.simulation import Arm, Condition, DriveRanges, Sensors, Simulator

from .experiments import ARMS, ROBOTS

FILES: Mapping[str, tuple[Path, float]] = {
    "double": (ARMS["two joints"], 8.0),
    "ur5": (ARMS["six joints"], 2.5),
    "z1": (ROBOTS / "z1_description/urdf/z1.urdf", 2.5),
}


@dataclass(frozen=True)
class SimulatedType:
    """A type of robot that is simulated: friction outside heft's dictionary, by LuGre."""

    name: str  # one of `FILES`
    seconds: float = 20.0  # length of a log [s]
    rate: float = 250.0  # [Hz]
    reach: float = 1.0  # length of the file's links, per stated

    @property
    def title(self) -> str:
        """Name of its folder."""
        return self.name if self.reach == 1.0 else f"{self.name} {self.reach:g}"

    @property
    def simulator(self) -> Simulator:
        path, fastest = FILES[self.name]
        last = "joint6" if self.name == "z1" else None
        drives = DriveRanges(friction="lugre", bend=(0.5, 2.0))
        condition = Condition(drives=drives, sensors=Sensors(rate=self.rate), duration=self.seconds)
        arm = Arm.of(path, self.name, None, last, fastest)
        return Simulator(replace(arm, urdf=self._stretched(arm.urdf)), condition)

    def _stretched(self, urdf: bytes) -> bytes:
        root = ET.fromstring(urdf)
        for origin in root.findall("joint/origin"):
            place = [self.reach * float(x) for x in origin.get("xyz", "0 0 0").split()]
            origin.set("xyz", " ".join(map(repr, place)))
        return ET.tostring(root)

    def write(
        self,
        place: Path,
        robots: Sequence[str],
        days: Sequence[str],
        first_seed: int = 0,
    ) -> None:
        """Write `NAME/ROBOT/DAY.parquet` and the type's model file, a guess."""
        simulator = self.simulator
        (place / self.title).mkdir(parents=True, exist_ok=True)
        (place / self.title / "arm.urdf").write_bytes(simulator.believed(0))
        for seed, robot in enumerate(robots, first_seed):
            folder = place / self.title / robot
            folder.mkdir(exist_ok=True)
            for number, day in enumerate(days):
                write_run(simulator.run(seed, number=number).recording, folder / f"{day}.parquet")


def write_run(recording: Recording, path: Path) -> None:
    """Write a simulated log as a Parquet file."""
    block = recording.whole(recording.signals)
    columns = dict(zip(recording.signals, block.values.T, strict=True))
    write_table(path, {"t": block.time, **columns})


def write_table(path: Path, columns: Mapping[str, np.ndarray]) -> None:
    """Write columns as a Parquet file."""
    pyarrow.parquet.write_table(pyarrow.table(dict(columns)), path)


def multiply(place: Path, out: Path, robots: int, days: int) -> tuple[Path, Path]:
    """Forge folders of a large fleet that was read already, and of its results, beside a small one.

    Its logs are empty, and what is kept of each is a link to what is kept of one of the small one.

    Args:
        place: Folder of the small fleet, of one type.
        out: Its results.
    """
    small = reading.read(Catalog.open(place, out), out, reading.FleetSettings("threads", 1))
    [(name, its)] = small.types.items()
    known = [reading.kept_of(out / reading.KEPT, its, d) for d in sorted(small.digests.values())]
    large, results = (p.with_name(f"{p.name}-{robots}") for p in (place, out))
    shutil.copytree(place / name, large / name, ignore=shutil.ignore_patterns("SN*"))
    shutil.copytree(out / TYPES, results / TYPES)
    seen = {}
    for k in range(robots * days):
        robot, day = divmod(k, days)
        log = large / name / f"SN{robot}" / f"{date(2026, 1, 1) + timedelta(day)}.parquet"
        log.parent.mkdir(exist_ok=True)
        log.touch()
        digest = hashlib.sha256(str(k).encode()).hexdigest()
        kept = reading.kept_of(results / reading.KEPT, its, digest)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.hardlink_to(known[(robot + 7 * day) % len(known)])
        stamps = [list(s) if s else None for s in OpenedFile.at(log).stamps]
        entry = json.dumps([stamps, digest, None])
        seen[f"{name}/SN{robot}/{log.name}"] = entry
    lines = ",\n".join(f"{json.dumps(log)}: {entry}" for log, entry in seen.items())
    (results / reading.SEEN).write_text(f"{{\n{lines}\n}}\n")
    return large, results


def peak_memory(place: Path, out: Path, jobs: int) -> float:
    """Identify a fleet by a process of its own, and return the most memory that it held [MB]."""
    code = """if True:
        import sys
        from pathlib import Path
        from heft.applications.fleet import FleetSettings, identify
        from heft.engine import keep_freed_memory
        keep_freed_memory()
        identify(Path(sys.argv[1]), Path(sys.argv[2]), FleetSettings("processes", int(sys.argv[3])))
        print(next(s.split()[1] for s in open("/proc/self/status") if s.startswith("VmHWM")))
        """
    command = [sys.executable, "-c", code, str(place), str(out), str(jobs)]
    return int(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout) / 1024.0


def scaled_torque(path: Path, joint: str, factor: float, out: Path) -> None:
    """Write a log whose torque of a joint is another."""
    table = pyarrow.parquet.read_table(path)
    columns = {n: table[n].to_numpy() for n in table.column_names}
    columns[f"tau.{joint}"] = factor * columns[f"tau.{joint}"]
    write_table(out, columns)
