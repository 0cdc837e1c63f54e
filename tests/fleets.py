"""Simulated fleets on disk: robots of a type, whose friction is their own and scatters by day."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet

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


def scaled_torque(path: Path, joint: str, factor: float, out: Path) -> None:
    """Write a log whose torque of a joint is another."""
    table = pyarrow.parquet.read_table(path)
    columns = {n: table[n].to_numpy() for n in table.column_names}
    columns[f"tau.{joint}"] = factor * columns[f"tau.{joint}"]
    write_table(out, columns)
