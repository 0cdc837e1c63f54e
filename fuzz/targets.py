"""What is fuzzed: every reader of files from outside, each as a function of one file.

Whatever a file holds, a reader returns something or raises a `HeftError`; nothing else, in
bounded time and memory. A reader is added by one line in `TARGETS` and a folder of seeds.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from heft.applications.demo import FOLDER as DEMO
from heft.applications.derive.from_table import derive_file
from heft.applications.free_flyer import commanded_flight
from heft.applications.free_flyer.flights import read_motion
from heft.applications.free_flyer.study import loads_of
from heft.applications.identification import Identified
from heft.applications.payload.sensors import Sensors
from heft.errors import HeftError, InvalidRecording
from heft.flight import FirstPath, FlightLog, FlightReference
from heft.information.square_root import Information
from heft.models import (
    flight_bounds_from_toml,
    free_flyer_from_toml,
    shipped_free_flyer,
)
from heft.models.options import Options
from heft.models.robot import Robot
from heft.recordings.columns import ColumnMap
from heft.recordings.recording import Recording
from heft.signals.clock import survey
from heft.streams.messages import Piece, Reader

CORPUS = Path(__file__).parent / "corpus"
ARM = (DEMO / "arm.urdf").read_bytes()


@dataclass(frozen=True)
class Target:
    """A reader.

    Attributes:
        file: Name of the file that it is given.
        read: Reads it.
        wrap: Makes the file's bytes of the fuzzer's, for formats whose checksums would let
            no change through.
    """

    file: str
    read: Callable[[Path], object]
    wrap: Callable[[bytes], bytes] = bytes

    def run(self, data: bytes, folder: Path) -> bool:
        """Return whether a file is accepted; raise nothing, whatever it holds."""
        path = folder / self.file
        path.write_bytes(self.wrap(data))
        try:
            self.read(path)
        except HeftError:
            return False
        return True


def log(path: Path) -> None:
    """Read all that a log holds."""
    recording = Recording.open(path)
    survey(recording, recording.signals)
    for _ in recording.blocks(recording.signals):
        pass


def experiment(path: Path) -> None:
    """Read an experiment of two small files."""
    (path.parent / "joints.csv").write_text("t,q.a\n0,1\n1,2\n2,4\n")
    (path.parent / "efforts.csv").write_text("ms,x\n5000,1\n6000,2\n7000,4\n")
    (path.parent / "efforts.toml").write_text(
        '[time]\ncolumn = "ms"\nunit = "ms"\n[tau]\ncolumns = ["x"]\njoints = ["a"]\n'
    )
    log(path)


def options(path: Path) -> Robot:
    """Read options and make a robot with them."""
    return Robot.from_urdf_text(ARM, Options.from_toml(path))


def results(path: Path) -> Identified:
    """Read a folder of results whose `estimate.json` is given."""
    (path.parent / "robot.urdf").write_bytes(ARM)
    return Identified.load(path.parent)


def message(path: Path) -> list[Piece]:
    """Decode a message that came over the network, as a map of signals and as one of ROS 2."""
    data = path.read_bytes()
    pieces, _ = Reader({"/wrench": "geometry_msgs/msg/WrenchStamped"}).read(
        [("signals", data), ("wrench", data)]
    )
    if not pieces:
        raise InvalidRecording("this is no message")
    return pieces


def flight(path: Path) -> FlightLog:
    """Read a flight of the quadrotor, and bridge its gaps."""
    made = FlightLog.of(Recording.open(path), shipped_free_flyer("quadrotor"))
    FirstPath().states(made)
    return made


def motion(path: Path) -> None:
    """Read a designed flight whose series is given, and command it."""
    (path.parent / "design.json").write_text('{"cycles": 2}')
    trajectory, _ = read_motion(path.parent)
    commanded_flight(FlightReference(trajectory, np.zeros(3)), shipped_free_flyer("quadrotor"))


def archive(data: bytes) -> bytes:
    """Return an NPZ file that is sound but for its one array."""
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as file:
        file.writestr("t.npy", data)
    return memory.getvalue()


TARGETS = {
    "csv": Target("run.csv", log),
    "parquet": Target("run.parquet", log),
    "npz": Target("run.npz", log),
    "npy": Target("run.npz", log, archive),
    "hdf5": Target("run.hdf5", log),
    "mat": Target("run.mat", log),
    "mcap": Target("run.mcap", log),
    "packed": Target("run.mcap.zst", log),
    "bag": Target("run.bag", log),
    "db3": Target("run.db3", log),
    "experiment": Target("run.toml", experiment),
    "urdf": Target("arm.urdf", Robot.from_urdf),
    "mjcf": Target("arm.xml", Robot.from_file),
    "dh": Target("arm.toml", Robot.from_file),
    "options": Target("with.toml", options),
    "map": Target("map.toml", ColumnMap.from_toml),
    "information": Target("information.npz", Information.load),
    "results": Target("estimate.json", results),
    "sensors": Target("wrist.toml", Sensors.from_toml),
    "message": Target("message.bin", message),
    "derive": Target("arm.toml", derive_file),
    "ulog": Target("run.ulg", log),
    "body": Target("body.toml", free_flyer_from_toml),
    "bounds": Target("bounds.toml", flight_bounds_from_toml),
    "loads": Target("loads.toml", loads_of),
    "flight": Target("run.csv", flight),
    "motion": Target("series.json", motion),
}
