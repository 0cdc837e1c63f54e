"""The live node at 1 kHz, fed over Zenoh by another process: loss, share of a core, latency.

python -m benchmarks.live [--seconds 20] [--store]

With `--strained` no byte can be written to a file, as on a full disk, few file handles are left,
and another process holds 1200 idle connections to the page open, again and again:

python -m benchmarks.live --strained --seconds 600 --store
"""

from __future__ import annotations

import json
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_least, at_most
from heft.applications.payload import checkpoint
from heft.applications.payload.live import PAGE
from heft.applications.payload.node import Node, NodeState, load_estimate
from heft.applications.payload.sensors import Sensors
from heft.display import policy_of, render
from heft.information import inertia
from heft.streams import Link, Update, connected, received, run, served

RATE = 1000.0  # [Hz]
CYCLE = 10_000  # samples, which come again and again
AFTER = 1.0  # how long the sender stays behind the last [s]
EDGES = 20, 15  # updates behind the start and before the end whose delay does not count
IDLE = 1200  # connections
HANDLES = 128  # of the node when it is strained
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


@contextmanager
def strain(seconds: float, made: list[int]) -> Iterator[dict[str, object]]:
    """Let no file be written and few be opened, and have a page that idle connections fill.

    Args:
        seconds: How long connections are held.
        made: Appended to: how many there were.
    """
    names = (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE)
    before = {name: resource.getrlimit(name) for name in names}
    html = render(PAGE)
    with served(0, html, policy_of(html)) as page:
        at = f"{page.address.split(':')[2][:-1]}, {seconds}, {IDLE}"
        program = f"from benchmarks.senders import stay_idle; stay_idle({at})"
        call = [sys.executable, "-c", program]
        process = subprocess.Popen(call, stdout=subprocess.PIPE, text=True)
        for name, most in zip(names, (0, HANDLES), strict=True):
            resource.setrlimit(name, (most, before[name][1]))
        try:
            yield {"page": lambda update: page.show(update.estimate())}
        finally:
            for name, limits in before.items():
                resource.setrlimit(name, limits)
            with suppress(subprocess.TimeoutExpired):
                made.append(int(process.communicate(timeout=30.0)[0] or 0))
            process.kill()
            process.wait()


def live(seconds: float, strained: bool = False) -> list[Row]:
    """Run the node, and return what it took."""
    node = Node(Sensors.from_dict({"sensor": SENSORS}))
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    stop, late = threading.Event(), []
    used = begun = 0.0

    def measure(update: Update[NodeState]) -> None:
        nonlocal used, begun
        stamp = load_estimate(update.state).stamp
        if np.isfinite(stamp):
            late.append(time.time() - stamp)
        if not begun and update.state.online is not None:
            used, begun = time.process_time(), time.monotonic()
        if feeder.poll() is not None:
            stop.set()

    made: list[int] = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        cycle = Path(folder) / "cycle.json"
        cycle.write_text(json.dumps(messages(CYCLE)))
        program = "from pathlib import Path; from benchmarks.senders import feed; "
        program += f"feed({port}, Path({str(cycle)!r}), {seconds}, {RATE}, {AFTER})"
        feeder = subprocess.Popen([sys.executable, "-c", program])
        link = Link.from_dict({"connect": [f"tcp/127.0.0.1:{port}"]}, Path(folder) / "link.toml")
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.2)
        with connected(link) as connection:
            source = received(connection, stop)
            listeners: dict[str, Any] = {"measure": measure}
            if strained:
                listeners |= stack.enter_context(strain(seconds, made))
            save = partial(checkpoint.save, Path(folder) / "kept", node)
            state, _ = run(node.step, node.start(), source, listeners, 10.0, save)
            share = (time.process_time() - used) / (time.monotonic() - begun)
    sent, taken = round(seconds * RATE), state.alignment.buffers["wrist"].taken
    mass = load_estimate(state).body[0]
    ms = 1e3 * np.array(late[EDGES[0] : -EDGES[1]])
    name = f"{seconds:g} s at 1 kHz: "
    more = []
    if strained:
        name = f"{seconds:g} s at 1 kHz, disk full, {IDLE} idle connections: "
        more = [
            at_least(
                name + "checkpoints that could not be written", state.counts["unsaved"], "", 1
            ),
            at_least(name + "connections", made[0] if made else 0, "", IDLE),
        ]
    return [
        *more,
        at_most(name + "samples lost", sent - taken + state.counts["lost"], "", 0.0),
        at_most(name + "share of one core", share, "", 0.2),
        Row(name + "newest estimate behind its samples, median", float(np.median(ms)), "ms"),
        Row(name + "the same, 99th percentile", float(np.quantile(ms, 0.99)), "ms"),
        at_most(name + "mass off the truth", abs(mass / BODY[0] - 1.0), "", 0.005),
    ]


@benchmark(
    {"seconds": 1.2, "CYCLE": 1200, "EDGES": (1, 1), "AFTER": 0.2},
    {"seconds": 1.2, "strained": True, "IDLE": 20, "CYCLE": 1200, "EDGES": (1, 1), "AFTER": 0.2},
    variants=("strained",),
)
def main(*, seconds: float = 20.0, strained: bool = False) -> Iterator[Row]:
    """Yield the rows.

    Args:
        seconds: How long samples are sent.
        strained: Without room for files, with few handles and many idle connections.
    """
    yield from live(seconds, strained)


if __name__ == "__main__":
    main()
