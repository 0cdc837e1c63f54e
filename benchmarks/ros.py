"""Live weighing under rmw_zenoh's default settings: what is heard, behind a lost router too.

A router, a sensor of 1 kHz and a listener as ROS 2 has them, each a process of its own; heft
weighs in this one. What is held is let go of in the end. Then the same again for half a minute, in
which the router is killed and started anew.

python -m benchmarks.ros [--seconds 300] [--store]
"""

from __future__ import annotations

import pickle
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zenoh
from tests.messages import ROS2
from tests.rmw_zenoh import free_port, router

from benchmarks.live import BODY, NOISE, RATE, messages
from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_least, at_most
from benchmarks.senders import files
from heft.applications.payload import LiveWeighing
from heft.streams.ros import inertia_key

KILLED, RESTARTED, WHOLE = 10.0, 12.0, 30.0  # [s] of the run in which the router is lost
EMPTY = 0.2  # share of a run behind which nothing is held
CYCLE = 10_000  # messages
PUBLISHED = 10.0  # [Hz]
FRAME = "tool0"
SENSORS = f"""
[sensor.wrist]
kind = "wrench"
frame = "{FRAME}"
noise = {{force = {NOISE["force"]}, torque = {NOISE["torque"]}}}
[sensor.{FRAME}]
kind = "imu"
"""
KINDS = ("geometry_msgs/msg/WrenchStamped", "sensor_msgs/msg/Imu")
AFTER = 2.0  # how long the sensor stays behind its last message [s]


@dataclass(frozen=True)
class Told:
    """A message that the listener heard.

    Attributes:
        arrival: [s].
        sequence: As its attachment numbers it.
        stamp: Of the newest sample in it [s].
        mass: [kg].
    """

    arrival: float
    sequence: int
    stamp: float
    mass: float


def serialized(kind: str, values: Sequence[float]) -> bytearray:
    """Return a wrench, or a specific force and an angular velocity, in CDR."""
    types = ROS2.types
    vector = types["geometry_msgs/msg/Vector3"]
    header = types["std_msgs/msg/Header"](types["builtin_interfaces/msg/Time"](0, 0), FRAME)
    first, second = vector(*values[:3]), vector(*values[3:])
    if kind == KINDS[0]:
        message = types[kind](header, types["geometry_msgs/msg/Wrench"](first, second))
    else:
        none, turn = np.zeros(9), types["geometry_msgs/msg/Quaternion"](0.0, 0.0, 0.0, 1.0)
        message = types[kind](header, turn, none, second, none, first, none)
    return bytearray(ROS2.serialize_cdr(message, kind))


def sent() -> bytes:
    """Return what the sensor sends, pickled: topics, a cycle of each, with and without a load."""
    rng = np.random.default_rng(1)
    rows = [list(one.values()) for one in messages(CYCLE)]
    noise = rng.normal(size=(CYCLE, 6)) * np.repeat([NOISE["force"], NOISE["torque"]], 3)
    loaded = [serialized(KINDS[0], row[:6]) for row in rows]
    empty = [serialized(KINDS[0], row) for row in noise.tolist()]
    motion = [serialized(KINDS[1], row[6:]) for row in rows]
    keys = []
    for kind, topic in zip(KINDS, ("ft/wrench", "ft/imu"), strict=True):
        package, _, name = kind.split("/")
        keys.append(f"0/{topic}/{package}::msg::dds_::{name}_/{ROS2.hash_rihs01(kind)}")
    return pickle.dumps((keys, (loaded, motion, empty), 1.0 - EMPTY))


def heard(path: Path) -> list[Told]:
    """Return what a listener kept."""
    told = []
    for arrival, attachment, payload in pickle.loads(path.read_bytes()):
        (number,) = struct.unpack_from("<q", attachment)
        inertia = ROS2.deserialize_cdr(payload, "geometry_msgs/msg/InertiaStamped")
        stamp = inertia.header.stamp.sec + 1e-9 * inertia.header.stamp.nanosec
        told.append(Told(arrival, number, stamp, inertia.inertia.m))
    return told


def weighed(
    seconds: float, folder: Path, lost: Sequence[float] = ()
) -> tuple[dict[str, Any], list[Told], list[float]]:
    """Run all processes once.

    Args:
        seconds: How long samples are sent.
        folder: For files.
        lost: When the router is killed, and when it is started again [s]; or never.

    Returns:
        The node's health, what the listener heard, and when the router was up again [s].
    """
    port, stop = free_port(), threading.Event()
    (folder / "wrist.toml").write_text(SENSORS)
    (folder / "link.toml").write_text(f'connect = ["tcp/127.0.0.1:{port}"]\n')
    (folder / "cycle").write_bytes(sent())
    restarts: list[float] = []
    program = "from pathlib import Path; from benchmarks.senders import feed_ros, listen; "
    own = f"listen({port}, {inertia_key(0, 'heft/payload')!r}, Path({str(folder / 'heard')!r}))"
    ears = [sys.executable, "-c", program + own]
    own = f"feed_ros({port}, Path({str(folder / 'cycle')!r}), {seconds}, {RATE}, {AFTER})"
    mouth = [sys.executable, "-c", program + own]
    with ExitStack() as stack:
        first = stack.enter_context(router(port, files()))
        ear = subprocess.Popen(ears, stdin=subprocess.PIPE)
        feeder = subprocess.Popen(mouth)

        def watch() -> None:
            if lost:
                time.sleep(lost[0])
                first.kill()
                time.sleep(lost[1] - lost[0])
                stack.enter_context(router(port, files()))
                restarts.append(time.time())
            feeder.wait()
            stop.set()

        threading.Thread(target=watch, daemon=True).start()
        live = LiveWeighing(folder / "wrist.toml", on=str(folder / "link.toml"), rate=PUBLISHED)
        found = live.run(stop, lambda line: print(line, flush=True))
        time.sleep(0.5 * AFTER)
        ear.communicate()
    return dict(found.sensor["health"]), heard(folder / "heard"), restarts


def rows_of(seconds: float, health: dict[str, Any], told: list[Told]) -> Iterator[Row]:
    """Yield what a run without a loss showed."""
    name, sent = f"{seconds:g} s at 1 kHz: ", round(seconds * RATE)
    unheard = sent - health["devices"]["wrist"]["samples"]
    yield at_most(name + "wrenches that heft did not hear", unheard, "", 0.0)
    numbers = [t.sequence for t in told]
    missed = max(numbers) + 1 - len(numbers) - min(numbers)
    yield at_most(name + "estimates that the listener did not hear", missed, "", 0.0)
    long = told[-1].arrival - told[0].arrival
    off = abs((len(told) - 1) / long / PUBLISHED - 1.0)
    yield at_most(name + "publishing rate off the one asked for", off, "", 0.01)
    # From the stamp of the first sample without a load, which the feeder counts from the last.
    let_go = told[-1].stamp - EMPTY * seconds
    known = [t.mass for t in told if np.isfinite(t.mass) and let_go - 5.0 < t.stamp < let_go]
    mass = known[-1] if known else np.nan
    none = None if known else f"no mass in the {len(told)} estimates heard"
    yield at_most(name + "mass off the truth", abs(mass / BODY[0] - 1.0), "", 0.005, none)
    empty = next((t.stamp for t in told if t.stamp > let_go and t.mass == 0.0), np.inf)
    never = None if np.isfinite(empty) else "not told before the end"
    yield at_most(name + "nothing is held: told after", empty - let_go, "s", 2.0, never)
    later = [t for t in told if t.stamp > empty]
    share = sum(t.mass == 0.0 for t in later) / max(len(later), 1)
    yield at_least(name + "share of what is told after that it is so", share, "", 1.0)


@benchmark(
    {
        **{"seconds": 5.0, "EMPTY": 0.4, "CYCLE": 1000, "AFTER": 0.3},
        **{"KILLED": 0.3, "RESTARTED": 0.4, "WHOLE": 2.0},
    }
)
def main(*, seconds: float = 300.0) -> Iterator[Row]:
    """Yield the rows.

    Args:
        seconds: How long samples are sent.
    """
    zenoh.init_log_from_env_or("error")
    with tempfile.TemporaryDirectory() as folder:
        health, told, _ = weighed(seconds, Path(folder))
    yield from rows_of(seconds, health, told)
    with tempfile.TemporaryDirectory() as folder:
        _, told, restarts = weighed(WHOLE, Path(folder), (KILLED, RESTARTED))
    again = min((t.arrival for t in told if t.stamp > restarts[0]), default=np.inf)
    name = "the router killed and started anew: a new sample's estimate is heard after"
    never = None if np.isfinite(again) else "none was heard before the end"
    yield at_most(name, again - restarts[0], "s", 5.0, never)


if __name__ == "__main__":
    main()
