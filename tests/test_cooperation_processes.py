"""Nodes of a team as a user runs them: processes over Zenoh, closed to strangers."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
import zenoh

from heft.applications.cooperation import LiveNode, simulate_team_files
from heft.errors import InvalidSetting
from heft.streams.ros import inertia_key, transforms_key
from tests.messages import ROS2
from tests.rmw_zenoh import free_port
from tests.test_cli import ENVIRONMENT, HEFT
from tests.test_network import robot, signed

PATIENCE = 60.0  # [s]


def files(folder: Path, seconds: float, extra: str = "") -> tuple[Path, list[str]]:
    """Return a team of two with logs, and their names; ports are free ones."""
    (folder / "made.toml").write_text(
        "robots = 2\n[simulation]\nchanges = []\nmasses = [2.0]\n"
        f"duration = {seconds}\nradius = 0.3\n"
    )
    simulate_team_files(folder / "made.toml", folder / "run", 3)
    lines = ['edges = [["robot0", "robot1"]]', extra]
    kind = "tls" if "keys" in extra else "tcp"
    for k in range(2):
        lines.append(f'[[robot]]\nname = "robot{k}"\naddress = "{kind}/127.0.0.1:{free_port()}"\n')
    (folder / "team.toml").write_text("\n".join(lines))
    return folder / "team.toml", [f"run/robot{k}.parquet" for k in range(2)]


def started(folder: Path, robot: int, *more: str) -> subprocess.Popen[str]:
    call = [*HEFT, "coop", "node", "--id", f"robot{robot}", "--config", "team.toml"]
    return subprocess.Popen(
        [*map(str, call), "--out", f"out{robot}", *more],
        cwd=folder,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def feed(session: zenoh.Session, table: pyarrow.Table, begin: float, known: Any) -> Any:
    """Say what a log says, in JSON, at its time, until the node says what it knows; return that."""
    for row in table.to_pylist():
        t = row.pop("t")
        time.sleep(max(begin + t - time.time(), 0.0))
        session.put("heft/samples/arm", json.dumps({"t": begin + t, **row}))
        data = newest(known) if t > 5.0 else b""
        if data:
            told = ROS2.deserialize_cdr(data, "geometry_msgs/msg/InertiaStamped")
            if np.isfinite(told.inertia.m):
                return told
    raise AssertionError("it never knew")


def newest(subscriber: Any) -> bytes:
    """Return the last message that came."""
    data = b""
    while (sample := subscriber.try_recv()) is not None:
        data = bytes(sample.payload)
    return data


def awaited(subscriber: Any) -> bytes:
    """Return the last message, once there is one."""
    end = time.monotonic() + PATIENCE
    while not (data := newest(subscriber)) and time.monotonic() < end:
        time.sleep(0.1)
    return data


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_two_processes_learn_the_load_from_one_another(tmp_path: Path) -> None:
    """With certificates; one has topics, is stopped by hand, and leaves a result at once."""
    _, logs = files(tmp_path, 15.0, 'keys = "keys"')
    keys = tmp_path / "keys"
    keys.mkdir()
    for name, authority in (("ca", None), ("robot0", "ca"), ("robot1", "ca")):
        signed(keys, name, authority)
    port = free_port()
    (tmp_path / "link.toml").write_text(f'connect = ["tcp/127.0.0.1:{port}"]\n')
    nodes: list[subprocess.Popen[str]] = []
    try:
        with robot(port) as session:
            inertias = session.declare_subscriber(inertia_key(0, "heft/coop"))
            frames = session.declare_subscriber(transforms_key(0, "heft/coop/transforms"))
            nodes.append(started(tmp_path, 0, "--on", "link.toml"))
            assert awaited(inertias)  # it is there
            begin = round(time.time() + 3.0, 3)
            more = ("--replay", logs[1], "--begin", f"{begin:.3f}")
            nodes.append(started(tmp_path, 1, *more))
            log = pyarrow.parquet.read_table(tmp_path / logs[0])
            inertia = feed(session, log, begin, inertias)
            moved = ROS2.deserialize_cdr(awaited(frames), "tf2_msgs/msg/TFMessage").transforms
        nodes[0].send_signal(signal.SIGINT)
        since = time.monotonic()
        stopped, of_first = nodes[0].communicate(timeout=PATIENCE)
        assert time.monotonic() - since < 5.0
        assert nodes[1].stdout is not None
        assert any("robot0 says nothing" in line for line in nodes[1].stdout)
        nodes[1].send_signal(signal.SIGINT)
        _, of_second = nodes[1].communicate(timeout=PATIENCE)
    finally:
        for process in nodes:
            process.kill()
    assert nodes[0].returncode == 0, of_first
    assert nodes[1].returncode == 0, of_second
    assert "kg" in stopped
    assert inertia.header.frame_id == "grasp" and inertia.inertia.m == pytest.approx(2.0, rel=0.05)
    assert [t.child_frame_id for t in moved] == ["robot1/grasp"]
    at = moved[0].transform.translation
    truth = json.loads((tmp_path / "run" / "truth.json").read_text())
    pose = next(p for p in truth["poses"])  # of robot0 in robot1's frame: the other way round
    R, t = np.array(pose["rotation"]), np.array(pose["translation_m"])
    assert np.allclose([at.x, at.y, at.z], -R.T @ t, atol=0.03)
    for number in range(2):
        found = json.loads((tmp_path / f"out{number}" / "team.json").read_text())
        for k, (entry, true) in enumerate(zip(found["robots"], truth["loads"], strict=True)):
            assert entry["name"] == f"robot{k}"
            assert entry["load"]["mass_kg"] == pytest.approx(true["mass_kg"], rel=0.02)
            assert np.allclose(entry["load"]["com_m"], true["com_m"], atol=0.02)


OPEN_TEAMS = {
    "in the clear": ('address = "tcp/192.168.1.7:7461"', "", "anybody on that network"),
    "without certificates": ('address = "tls/192.168.1.7:7461"', "", "no certificates are given"),
    "certificates that are not there": (
        'address = "tls/192.168.1.7:7461"',
        'keys = "nowhere"',
        "no such file",
    ),
    "a name that is a pattern": ('name = "**"', "", "letters, digits"),
    "another address": ('address = "udp/127.0.0.1:7461"', "", "no address"),
}


@pytest.mark.parametrize("kind", OPEN_TEAMS)
def test_a_node_refuses_to_start_open(tmp_path: Path, kind: str) -> None:
    line, extra, words = OPEN_TEAMS[kind]
    name = "" if line.startswith("name") else 'name = "a"\n'
    text = f'{extra}\ngraph = "ring"\n[[robot]]\n{name}{line}\n[[robot]]\nname = "b"\n'
    (tmp_path / "team.toml").write_text(text)
    log = tmp_path / "none.parquet"
    with pytest.raises(InvalidSetting, match=words):
        settings = {"team": tmp_path / "team.toml", "robot": "0", "replay": log, "columns": log}
        LiveNode(**settings).run(threading.Event(), print, print)
