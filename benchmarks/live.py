"""The live node at 1 kHz, fed over Zenoh by another process: loss, share of a core, latency.

python -m benchmarks.live [--seconds 20] [--store]
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from benchmarks.results_file import Row, at_most, store, table
from heft.applications.payload.live import Update, weigh
from heft.applications.payload.node import Node, load_estimate
from heft.applications.payload.sensors import Sensors
from heft.information import inertia
from heft.streams import Link, connected, received

RATE = 1000.0  # [Hz]
NOISE = {"force": 0.2, "torque": 0.01}
GYRO, ACCELEROMETER = 0.002, 0.02  # [rad/s, m/s²]
SENSORS = {"wrist": {"kind": "wrench", "noise": NOISE}, "imu": {"kind": "imu"}}
BODY = inertia.from_body(1.5, np.array([0.04, 0.0, 0.05]), np.diag([4e-3, 4e-3, 2e-3]))


def messages(count: int) -> list[dict[str, float]]:
    """Return what the sensors say of a body that is turned, without times, of a whole cycle."""
    rng = np.random.default_rng(0)
    cycle = 2.0 * np.pi * np.arange(count) / count
    turns, sizes = np.array([5, 3, 4]), np.array([0.3, 0.4, 0.25])
    w = sizes * np.sin(turns * cycle[:, None])
    alpha = sizes * turns * np.cos(turns * cycle[:, None]) * 2.0 * np.pi * RATE / count
    down = np.stack([np.sin(2 * cycle), np.cos(2 * cycle) * np.sin(cycle), np.cos(cycle)], axis=1)
    f = 9.81 * down / np.linalg.norm(down, axis=1, keepdims=True)
    wrench = inertia.wrench_regressor(f, w, alpha) @ BODY
    wrench += rng.normal(size=wrench.shape) * np.repeat([NOISE["force"], NOISE["torque"]], 3)
    f = f + ACCELEROMETER * rng.normal(size=f.shape)
    w = w + GYRO * rng.normal(size=w.shape)
    names = Node(Sensors.from_dict({"sensor": SENSORS})).names
    rows = np.concatenate([wrench, f, w], axis=1).tolist()
    return [dict(zip(names, row, strict=True)) for row in rows]


def feed(port: int, seconds: float) -> None:
    """Send samples at their time, as another process."""
    import zenoh

    config = zenoh.Config()
    config.insert_json5("mode", '"peer"')
    config.insert_json5("listen/endpoints", f'["tcp/127.0.0.1:{port}"]')
    config.insert_json5("scouting/multicast/enabled", "false")
    cycle = messages(10_000)
    with zenoh.open(config) as session:
        blocking = zenoh.CongestionControl.BLOCK
        publisher = session.declare_publisher("heft/samples/x", congestion_control=blocking)
        while not publisher.matching_status.matching:
            time.sleep(0.01)
        begin = time.time() + 0.5
        for k in range(round(seconds * RATE)):
            due = begin + k / RATE
            while (ahead := due - time.time()) > 0.0:
                time.sleep(ahead)
            publisher.put(json.dumps({"t": due, **cycle[k % len(cycle)]}))
        time.sleep(1.0)


def live(seconds: float) -> list[Row]:
    """Run the node, and return what it took."""
    node = Node(Sensors.from_dict({"sensor": SENSORS}))
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    call = [sys.executable, "-m", "benchmarks.live", "--feed", str(port)]
    feeder = subprocess.Popen([*call, "--seconds", str(seconds)])
    stop, late = threading.Event(), []
    used = begun = 0.0

    def measure(update: Update) -> None:
        nonlocal used, begun
        stamp = load_estimate(update.state).stamp
        if np.isfinite(stamp):
            late.append(time.time() - stamp)
        if not begun and update.state.online is not None:
            used, begun = time.process_time(), time.monotonic()
        if feeder.poll() is not None:
            stop.set()

    with tempfile.TemporaryDirectory() as folder:
        link = Link.from_dict({"connect": [f"tcp/127.0.0.1:{port}"]}, Path(folder) / "link.toml")
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.2)
        with connected(link) as connection:
            source = received(connection, stop)
            state = weigh(
                node, node.start(), source, {"measure": measure}, 10.0, Path(folder) / "kept"
            )
            share = (time.process_time() - used) / (time.monotonic() - begun)
    sent, taken = round(seconds * RATE), state.alignment.buffers["wrist"].taken
    mass = load_estimate(state).body[0]
    ms = 1e3 * np.array(late[20:-15])  # behind the start, before the feeder's end
    name = f"{seconds:g} s at 1 kHz: "
    return [
        at_most(name + "samples lost", sent - taken + state.counts["lost"], "", 0.0),
        at_most(name + "share of one core", share, "", 0.2),
        Row(name + "newest estimate behind its samples, median", float(np.median(ms)), "ms"),
        Row(name + "the same, 99th percentile", float(np.quantile(ms, 0.99)), "ms"),
        at_most(name + "mass off the truth", abs(mass / BODY[0] - 1.0), "", 0.005),
    ]


def main() -> None:
    """Print the table; store it if asked."""
    parser = argparse.ArgumentParser(description="The live node.")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--feed", type=int)
    parser.add_argument("--store", action="store_true")
    arguments = parser.parse_args()
    if arguments.feed:
        feed(arguments.feed, arguments.seconds)
        return
    rows = live(arguments.seconds)
    print(table(rows))
    if arguments.store:
        print(store("live", rows))


if __name__ == "__main__":
    main()
