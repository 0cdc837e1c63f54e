"""Reading logs of ROS messages: memory of a whole process, and speed against other readers.

    python -m benchmarks.logs [--size 200MB] [--store]

Makes an MCAP file of joint states of that size in a temporary folder, reads it with heft in a
process of its own for its peak memory, and a file of at most 100 MB with heft and with what a
user would otherwise run, all in this process.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from mcap.reader import make_reader
from mcap.writer import CompressionType
from mcap.writer import Writer as McapWriter
from rosbags.highlevel import AnyReader
from rosbags.rosbag1 import Writer as BagWriter
from rosbags.typesys import Stores, get_typestore

from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_least, at_most
from heft.recordings.recording import Recording

UNITS = {"MB": 10**6, "GB": 10**9}
JOINTS = [f"joint_{k}" for k in range(1, 8)]
KIND = "sensor_msgs/msg/JointState"
START = 1_700_000_000_000_000_000  # [ns]
STEP = 1_000_000  # [ns]
COMPARED = 100_000_000  # bytes of the file that all readers read
MEMORY = """
import sys, time
from pathlib import Path
from heft import Recording
begin = time.perf_counter()
recording = Recording.open(sys.argv[1])
rows = sum(len(b.time) for b in recording.blocks(recording.signals))
elapsed = time.perf_counter() - begin
status = Path("/proc/self/status").read_text()  # of this program, not of what started it
print(rows, elapsed, int(status.split("VmHWM:")[1].split()[0]) / 1024)
"""


def states(store_: object, ros1: bool = False) -> tuple[bytearray, int]:
    """Return a joint state's bytes, and where its stamp stands."""
    types = store_.types  # type: ignore[attr-defined]
    rng = np.random.default_rng(0)
    header = types["std_msgs/msg/Header"](
        stamp=types["builtin_interfaces/msg/Time"](sec=0x01020304, nanosec=0x05060708),
        frame_id="base",
        **({"seq": 0} if ros1 else {}),
    )
    values = {n: rng.normal(size=len(JOINTS)) for n in ("position", "velocity", "effort")}
    message = types[KIND](header=header, name=JOINTS, **values)
    made = store_.serialize_ros1 if ros1 else store_.serialize_cdr  # type: ignore[attr-defined]
    data = bytearray(made(message, KIND))
    return data, data.index(bytes([4, 3, 2, 1, 8, 7, 6, 5]))


def write_mcap(path: Path, size: int) -> int:
    """Write joint states at 1 kHz until a file has some size; return how many."""
    types = get_typestore(Stores.ROS2_HUMBLE)
    data, at = states(types)
    text, _ = types.generate_msgdef(KIND, ros_version=2)
    count = size // (len(data) + 31 + 16)  # with the head of each message, and its index
    with path.open("wb") as file:
        writer = McapWriter(file, compression=CompressionType.NONE)
        writer.start("ros2")
        schema = writer.register_schema(KIND, "ros2msg", text.encode())
        channel = writer.register_channel("/joint_states", "cdr", schema)
        for k in range(count):
            stamp = START + STEP * k
            data[at : at + 4] = (stamp // 10**9).to_bytes(4, "little")
            data[at + 4 : at + 8] = (stamp % 10**9).to_bytes(4, "little")
            data[-8:-2] = k.to_bytes(6, "little")  # no two messages are the same
            writer.add_message(channel, stamp, bytes(data), stamp)
        writer.finish()
    return count


def write_bag(path: Path, count: int) -> None:
    """Write joint states as a ROS 1 bag."""
    types = get_typestore(Stores.ROS1_NOETIC)
    data, at = states(types, ros1=True)
    with BagWriter(path) as writer:
        to = writer.add_connection("/joint_states", KIND, typestore=types)
        for k in range(count):
            stamp = START + STEP * k
            data[at : at + 4] = (stamp // 10**9).to_bytes(4, "little")
            data[at + 4 : at + 8] = (stamp % 10**9).to_bytes(4, "little")
            writer.write(to, stamp, bytes(data))


def with_heft(path: Path) -> int:
    """Read all columns with heft."""
    recording = Recording.open(path)
    return sum(len(b.time) for b in recording.blocks(recording.signals))


def with_rosbags(path: Path) -> int:
    """Read all columns as the documentation of rosbags shows it."""
    rows = []
    with AnyReader([path]) as reader:
        for connection, _, data in reader.messages():
            m = reader.deserialize(data, connection.msgtype)
            stamp = m.header.stamp.sec + m.header.stamp.nanosec * 1e-9
            rows.append(np.concatenate([[stamp], m.position, m.velocity, m.effort]))
    return len(np.array(rows))


def with_mcap(path: Path) -> int:
    """Read all columns with the reader of the library mcap, its checksums off as by default."""
    types = get_typestore(Stores.ROS2_HUMBLE)
    rows = []
    with path.open("rb") as file:
        for _, _, message in make_reader(file).iter_messages():
            m = types.deserialize_cdr(message.data, KIND)
            stamp = m.header.stamp.sec + m.header.stamp.nanosec * 1e-9
            rows.append(np.concatenate([[stamp], m.position, m.velocity, m.effort]))
    return len(np.array(rows))


def timed(work: Callable[[Path], int], path: Path, count: int, repeats: int = 3) -> float:
    """Return the median time of reading a file [s]."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        assert work(path) == count
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def memory(folder: Path, size: int) -> Iterator[Row]:
    """Peak memory and speed of a process that reads a file of some size."""
    path = folder / "large.mcap"
    count = write_mcap(path, size)
    bytes_ = path.stat().st_size
    answer = subprocess.run(
        [sys.executable, "-c", MEMORY, str(path)], capture_output=True, text=True, check=True
    )
    rows, elapsed, peak = map(float, answer.stdout.split())
    path.unlink()
    assert rows == count
    what = f"MCAP of {bytes_ / 1e6:.0f} MB, {count} joint states of 7 joints"
    yield at_most(f"{what}: peak memory of the process", peak, "MiB", 500.0)
    yield Row(f"{what}: read", bytes_ / 1e6 / elapsed, "MB/s")
    yield Row(f"{what}: read", count / elapsed, "messages/s")


def speed(folder: Path, size: int) -> Iterator[Row]:
    """Time of reading a file against other readers, all in this process."""
    path, bag = folder / "run.mcap", folder / "run.bag"
    count = write_mcap(path, size)
    write_bag(bag, count)
    own = timed(with_heft, path, count)
    for name, work in (("rosbags", with_rosbags), ("mcap", with_mcap)):
        ratio = timed(work, path, count) / own
        yield at_least(f"MCAP, {count} messages: times as fast as {name}", ratio, "×", 1.0)
    ratio = timed(with_rosbags, bag, count) / timed(with_heft, bag, count)
    yield at_least(f"ROS 1 bag, {count} messages: times as fast as rosbags", ratio, "×", 1.0)


@benchmark({"size": "0.2MB"})
def main(*, size: str = "200MB") -> Iterator[Row]:
    """Yield the rows.

    Args:
        size: Of the largest file, in MB or GB.
    """
    bytes_ = int(float(size[:-2]) * UNITS[size[-2:].upper()])
    with tempfile.TemporaryDirectory() as folder:
        yield from speed(Path(folder), min(bytes_, COMPARED))
        yield from memory(Path(folder), bytes_)


if __name__ == "__main__":
    main()
