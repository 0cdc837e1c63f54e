"""Five nodes as processes over Zenoh on this machine, against the same nodes in virtual time.

    python -m benchmarks.cooperation_nodes [--seconds 60] [--store]

Each node plays its own robot's log at 100 Hz on the wall clock. Three runs: in the clear; under
mutual TLS, where intruders try to get in; under mutual TLS, where a node is killed and started
anew.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tests.network import NetworkFaults, SimulatedNetwork
from tests.rmw_zenoh import intruder

from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_most
from heft.applications.cooperation import (
    ContactSignals,
    CooperativeNode,
    TeamFile,
    results_of,
    simulate_team_files,
)
from heft.recordings import Recording
from heft.streams import Certificates, TeamLink, joined

ROBOTS = 5
SEED = 1000
RATE = 100.0  # [Hz]
SETTLED = 5.0  # [s] after which the share of a core is counted
STARTED = (30.0,)  # [s] for all processes to be there, and then for others in their place
NOISE = 0.4  # of every sensor, each in its unit
FORGED = 20  # messages by each intruder
PORTS = range(20_000, 30_000)
RUNS = ("clear", "secret", "killed")
KILLED = 3  # the node that is
GONE = 1.0  # [s] for which the killed node is
PATIENCE = 60.0  # [s] after the logs' end
TICKS = os.sysconf("SC_CLK_TCK")


def free_ports(count: int) -> list[int]:
    """Return ports of this machine that nobody listens at, none that a connection may take."""
    found: list[int] = []
    for port in np.random.default_rng().permutation(PORTS).tolist():
        with socket.socket() as one, suppress(OSError):
            one.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            break
    return found


def certify(folder: Path, name: str, authority: str | None) -> None:
    """Write a key and its certificate, signed by an authority or by itself."""
    call = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    call += ["-nodes", "-days", "2", "-subj", f"/CN={name}"]
    call += ["-keyout", f"{name}.key", "-out", f"{name}.pem"]
    if authority is None:
        call += ["-addext", "basicConstraints=critical,CA:TRUE"]
    else:
        call += ["-CA", f"{authority}.pem", "-CAkey", f"{authority}.key", "-addext"]
        call += ["subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run(call, cwd=folder, check=True, capture_output=True)
    (folder / f"{name}.key").chmod(0o600)


def write_team(folder: Path, secret: bool) -> Path:
    """Write the team's file with ports that are free; return it."""
    kind = "tls" if secret else "tcp"
    lines = ['graph = "ring"', *(['keys = "keys"'] if secret else [])]
    for k, port in enumerate(free_ports(ROBOTS)):
        lines.append(f'[[robot]]\nname = "robot{k}"\naddress = "{kind}/127.0.0.1:{port}"')
    path = folder / f"{kind}.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


@dataclass
class Nodes:
    """Processes of a team.

    Attributes:
        folder: With its logs.
        team: Its file.
        name: Of the run.
        begin: When the logs' time is zero [s].
        processes: By robot.
        states: What each told last.
        shares: Of a core, by robot.
    """

    folder: Path
    team: Path
    name: str
    begin: float
    processes: dict[int, subprocess.Popen[str]] = field(default_factory=dict)
    states: dict[str, dict[str, Any]] = field(default_factory=dict)
    shares: dict[int, float] = field(default_factory=dict)

    def start(self, robot: int) -> None:
        """Start a robot's node."""
        call = [sys.executable, "-m", "heft", "coop", "node", "--id", str(robot), "--quiet"]
        call += ["--config", self.team.name, "--replay", f"run/robot{robot}.parquet"]
        call += ["--begin", f"{self.begin:.3f}", "--out", f"{self.name}-{robot}"]
        self.processes[robot] = subprocess.Popen(
            [*call, "--checkpoint", f"{self.name}-{robot}.kept"],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def spent(self, robot: int) -> float:
        """Return the time of a core that a process took [s]; NaN where it is over."""
        with suppress(OSError):
            text = Path(f"/proc/{self.processes[robot].pid}/stat").read_text()
            fields = text.rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / TICKS
        return float("nan")

    def watch(self, stop: threading.Event) -> None:
        """Keep what nodes tell whoever watches, until stopped."""
        with joined(watching(self.folder, self.team)) as connection:
            while not stop.wait(0.2):
                for name, data in connection.receive():
                    self.states[name] = json.loads(data)

    def wait(self, until: float) -> None:
        """Sleep until so long after the begin [s]."""
        time.sleep(max(self.begin + until - time.time(), 0.0))

    def end(self) -> dict[int, str]:
        """Wait for all nodes to end by themselves; return what each said."""
        said = {}
        for robot, process in self.processes.items():
            try:
                said[robot] = process.communicate(timeout=PATIENCE)[0]
            except subprocess.TimeoutExpired:
                process.kill()
                said[robot] = process.communicate()[0]
        return said

    def found(self, robot: int) -> dict[str, Any]:
        """Return a node's result."""
        path = self.folder / f"{self.name}-{robot}" / "team.json"
        return dict(json.loads(path.read_text())) if path.exists() else {}


def watching(folder: Path, team: Path) -> TeamLink:
    """Return the link of whoever watches."""
    stated = TeamFile.from_toml(team)
    addresses = tuple(str(r.address) for r in stated.robots)
    keys = folder / "keys"
    own = Certificates(keys / "ca.pem", keys / "watch.pem", keys / "watch.key")
    names = tuple(r.name for r in stated.robots)
    return TeamLink(stated.name, None, None, names, addresses, own if stated.keys else None)


def run(folder: Path, name: str, secret: bool, seconds: float, killed: int | None = None) -> Nodes:
    """Let the nodes run; one may be killed half way and started anew."""
    for started in STARTED:
        begin = round(time.time() + started, 3)
        nodes = Nodes(folder, write_team(folder, secret), f"{name}-{started:g}", begin)
        with running(nodes):
            nodes.wait(0.0)
            if len(nodes.states) == ROBOTS:
                return watched(nodes, secret, seconds, killed)
            ended = [p.communicate()[0] for p in nodes.processes.values() if p.poll() is not None]
    raise SystemExit(f"after {started:g} s only {sorted(nodes.states)} were there\n{ended}")


@contextmanager
def running(nodes: Nodes) -> Iterator[None]:
    """Start all nodes and whoever watches them, and end them."""
    stop = threading.Event()
    watcher = threading.Thread(target=nodes.watch, args=(stop,), daemon=True)
    try:
        for robot in range(ROBOTS):
            nodes.start(robot)
        watcher.start()
        yield
    finally:
        stop.set()
        watcher.join()
        for process in nodes.processes.values():
            process.kill()


def watched(nodes: Nodes, secret: bool, seconds: float, killed: int | None) -> Nodes:
    """Wait until the nodes have ended; one may be killed half way and started anew."""
    nodes.wait(SETTLED)
    before = {k: nodes.spent(k) for k in nodes.processes}
    since = time.time()
    if killed is not None:
        nodes.wait(0.5 * seconds)
        nodes.processes[killed].send_signal(signal.SIGKILL)
        nodes.processes[killed].communicate()
        time.sleep(GONE)
        nodes.start(killed)
    if secret and killed is None:
        intrude(nodes)
    nodes.wait(seconds)
    took = time.time() - since
    nodes.shares = {k: (nodes.spent(k) - before[k]) / took for k in before}
    for robot, said in nodes.end().items():
        if not nodes.found(robot):
            raise SystemExit(f"robot{robot} left no result:\n{said}")
    return nodes


@dataclass
class Intruder:
    """What those without a certificate of the team got.

    Attributes:
        opened: Sessions without a certificate of the team's authority.
        forged: Sessions with that of a robot that is no neighbour: it connects.
        heard: Messages.
    """

    opened: int = 0
    forged: int = 0
    heard: int = 0


INTRUDED = Intruder()


def intrude(nodes: Nodes) -> None:
    """Try to speak and listen: without a certificate, with a stranger's, and as another robot."""
    import zenoh

    stated, keys = TeamFile.from_toml(nodes.team), nodes.folder / "keys"
    address = str(stated.robots[0].address)
    for name in (None, "stranger", "robot2"):  # robot2 is no neighbour of robot0
        try:
            session = intruder(address, keys, name)
        except zenoh.ZError:
            continue
        INTRUDED.opened += name != "robot2"
        INTRUDED.forged += name == "robot2"
        heard = session.declare_subscriber("heft/**", zenoh.handlers.FifoChannel(1000))
        for _ in range(FORGED):
            session.put("heft/coop/team/robot1/to/robot0", b"forged")
            session.put("heft/coop/team/robot4/to/robot0", b"forged")
            time.sleep(0.1)
        while (sample := heard.try_recv()) is not None:
            INTRUDED.heard += bytes(sample.payload) != b"forged"  # it hears itself
        session.close()


def simulated(folder: Path, team: Path, begin: float) -> dict[str, Any]:
    """Return what the same nodes find in virtual time."""
    stated = TeamFile.from_toml(team)
    nodes = [CooperativeNode(stated, k, 1) for k in range(ROBOTS)]
    logs = [signals_of(folder / "run" / f"robot{k}.parquet") for k in range(ROBOTS)]
    epoch = round(begin * 1e9)

    def each(now: int) -> None:
        for node, own in zip(nodes, logs, strict=True):
            part = own.part(slice(10 * now, 10 * now + 10))
            if len(part.time):
                node.add_samples(part, epoch)
        nodes[0].solve()

    rounds = len(logs[0].time) // 10 + 20
    SimulatedNetwork(stated.graph.neighbours, NetworkFaults(), 0).run(nodes, rounds, each)
    out = folder / "simulated"
    results_of(nodes[0]).write(out)
    return dict(json.loads((out / "team.json").read_text()))


def signals_of(log: Path) -> ContactSignals:
    """Return a log's signals."""
    recording = Recording.open(log)
    names = [f"{k}.grasp.{a}" for k in ("omega", "vel", "acc", "force", "torque") for a in "xyz"]
    blocks = list(recording.blocks(names))
    values = np.concatenate([b.values for b in blocks])
    time = np.concatenate([b.time for b in blocks])
    columns = {name: values[:, k] for k, name in enumerate(names)}
    return ContactSignals.of_columns({"t": time, **columns}, "grasp")


def apart(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """Return the largest difference of loads of all robots, relative to each quantity's size."""
    most = 0.0
    for a, b in zip(one["robots"], other["robots"], strict=True):
        if not a["load"] or not b["load"]:
            return float("inf")
        for name, size in (("mass_kg", 1.0), ("com_m", 0.1), ("inertia_kgm2", 1.0)):
            x, y = (np.array(k["load"][name], dtype=float) for k in (a, b))
            most = max(most, float(np.abs(x - y).max()) / max(float(np.abs(y).max()), size))
    return most


def links(nodes: Nodes, seconds: float) -> list[float]:
    """Return what went over each link both ways [kB/s]."""
    stated = TeamFile.from_toml(nodes.team)
    names = [r.name for r in stated.robots]
    sent = {name: state["sent_bytes"] for name, state in nodes.states.items()}
    return [
        (sent[names[a]][names[b]] + sent[names[b]][names[a]]) / seconds / 1e3
        for a, b in stated.graph.edges
    ]


def rows_of(nodes: Nodes, asked: float, what: str) -> Iterator[Row]:
    """Yield the rows of a run."""
    against = simulated(nodes.folder, nodes.team, nodes.begin)
    founds = [nodes.found(k) for k in range(ROBOTS)]
    yield at_most(
        f"{what}: result over that in virtual time, less one",
        max(apart(f, against) for f in founds),
        "",
        1e-3,
    )
    yield at_most(
        f"{what}: results of robots apart", max(apart(f, founds[0]) for f in founds), "", 1e-3
    )
    yield at_most(f"{what}: largest share of a core", max(nodes.shares.values()), "", 0.25)
    yield at_most(
        f"{what}: largest traffic of a link, both ways", max(links(nodes, asked)), "kB/s", 60.0
    )
    refused = sum(state["refused"] for state in nodes.states.values())
    yield at_most(f"{what}: messages refused", refused, "", 0)


def measure(seconds: float) -> Iterator[Row]:
    """Yield the rows of the benchmark."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "made.toml").write_text(
            f"robots = {ROBOTS}\n[simulation]\nduration = {seconds:g}\nrate = {RATE:g}\n"
            f"masses = [2.0]\nchanges = []\nnoise = {[NOISE] * 5}\n"
        )
        simulate_team_files(folder / "made.toml", folder / "run", SEED)
        if "clear" in RUNS:
            yield from rows_of(run(folder, "clear", False, seconds), seconds, "in the clear")
        if shutil.which("openssl") is None:
            return
        keys = folder / "keys"
        keys.mkdir()
        for authority in ("ca", "other"):
            certify(keys, authority, None)
        for k in range(ROBOTS):
            certify(keys, f"robot{k}", "ca")
        certify(keys, "watch", "ca")
        certify(keys, "stranger", "other")
        yield from rows_of(run(folder, "secret", True, seconds), seconds, "mutual TLS")
        yield at_most("intruders: sessions opened without a certificate", INTRUDED.opened, "", 0)
        yield Row("intruders: sessions opened as another robot", INTRUDED.forged, "")
        yield at_most("intruders: messages heard", INTRUDED.heard, "", 0)
        if "killed" in RUNS:
            yield from killed_rows(run(folder, "killed", True, seconds, killed=KILLED))


def killed_rows(nodes: Nodes) -> Iterator[Row]:
    """Yield the rows of a run in which a node is killed and started anew."""
    founds = [nodes.found(k) for k in range(ROBOTS)]
    worst = max(apart(f, founds[0]) for f in founds)
    yield at_most("killed and started anew: results of robots apart", worst, "", 1e-3)
    counts = [nodes.states[f"robot{k}"]["windows"] for k in range(ROBOTS)]
    lacking = max(max(c[o] for c in counts) - counts[KILLED][o] for o in counts[0])
    yield at_most("killed and started anew: windows that it lacks in the end", lacking, "", 0)


@benchmark(
    {
        **{"seconds": 3.0, "ROBOTS": 3, "NOISE": 0.1, "STARTED": (8.0, 25.0), "SETTLED": 0.5},
        **{"FORGED": 2, "RUNS": ("secret",)},
    }
)
def main(*, seconds: float = 60.0) -> Iterator[Row]:
    """Yield the rows.

    Args:
        seconds: Of each run.
    """
    yield from measure(seconds)


if __name__ == "__main__":
    main()
