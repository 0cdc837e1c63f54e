"""`heft payload --live` as a user runs it: over Zenoh, from a log, in the browser, to its end."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest

from heft.applications.payload.live import PAGE, LiveWeighing
from heft.display.templates import policy_of, render
from heft.errors import InvalidSetting, MissingSignal
from heft.streams.page import served
from tests.test_cli import ENVIRONMENT, HEFT, called, is_clean
from tests.test_live import NODE
from tests.test_network import free_port, robot
from tests.test_payload import IMU, WRIST, save, with_imu, written
from tests.wrists import BODY, sensed

PATIENCE = 60.0  # [s]


def setup(folder: Path, samples: int) -> tuple[Path, Path]:
    log = with_imu(folder / "grasp.npz", sensed(samples))
    return log, written(folder / "wrist.toml", WRIST + IMU)


def mass(folder: Path) -> float:
    told = json.loads((folder / "estimate.json").read_text())["parameters"][0]
    assert told["name"] == "payload.mass"
    return float(told["value"])


def run(**settings: Any) -> tuple[Any, list[str]]:
    said: list[str] = []
    return LiveWeighing(**settings).run(threading.Event(), said.append), said


def test_a_log_is_weighed_as_it_happens(tmp_path: Path) -> None:
    log, sensor = setup(tmp_path, 3000)
    begin = time.monotonic()
    found, said = run(sensors=sensor, replay=log, speed=5.0)
    assert time.monotonic() - begin >= 0.5  # 3 s of it, five times as fast
    assert found.body[0] == pytest.approx(BODY[0], rel=0.01)
    assert found.verdict == "good" and found.frame == "tool0"
    assert len(said) == 1 and " weighed: " in said[0]
    assert found.sensor["health"]["devices"]["wrist"]["samples"] == 3000
    assert abs(found.sensor["bias"]["force.x"]["value"] - 2.0) < 0.1


def test_a_second_run_goes_on_from_the_first(tmp_path: Path) -> None:
    log, sensor = setup(tmp_path, 2000)
    settings = {
        "sensors": sensor,
        "replay": log,
        "speed": float("inf"),
        "checkpoint": tmp_path / "kept",
    }
    first, _ = run(**settings)
    second, said = run(**settings)
    assert said == [] and second.std[0] < first.std[0]


def test_a_log_without_the_signals_is_refused(tmp_path: Path) -> None:
    _, sensor = setup(tmp_path, 100)
    log = save(tmp_path / "other.npz", np.arange(10.0), {"force.tool0.x": np.zeros(10)})
    with pytest.raises(MissingSignal, match=r"force\.tool0\.y"):
        run(sensors=sensor, replay=log)


BAD_RUNS = {
    "no source": ({}, "either over the network or from a log"),
    "both": ({"on": "zenoh", "replay": Path("x.csv")}, "either over the network or from a log"),
    "no rate": ({"on": "zenoh", "rate": 0.0}, "no rate"),
    "backwards": ({"replay": Path("x.csv"), "speed": -1.0}, "forwards"),
}


@pytest.mark.parametrize("kind", BAD_RUNS)
def test_runs_that_cannot_be_are_refused(kind: str) -> None:
    settings, message = BAD_RUNS[kind]
    with pytest.raises(InvalidSetting, match=message):
        LiveWeighing(Path("wrist.toml"), **settings)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_from_outside_it_leaves_what_it_knows(tmp_path: Path, number: int) -> None:
    log, sensor = setup(tmp_path, 20_000)
    call = [*HEFT, "payload", "--live", "--sensor", sensor, "--replay", log, "--out", "out"]
    call += ["--speed", "4"]
    process = subprocess.Popen(
        [*map(str, call), "--checkpoint", "kept"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert "weighed" in process.stdout.readline()
        process.send_signal(number)
        said, told = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 0, told
    assert "set_target_payload(" in said
    assert mass(tmp_path / "out") == pytest.approx(BODY[0], rel=0.1)
    left = {p.name for p in tmp_path.iterdir()}
    assert left == {"grasp.npz", "wrist.toml", "out", "kept"}


def test_a_log_that_breaks_off_leaves_its_result_a_word_and_a_status(tmp_path: Path) -> None:
    _, sensor = setup(tmp_path, 100)
    held, log = sensed(6000), tmp_path / "grasp.parquet"
    values = np.concatenate([held.wrench, held.specific, held.angular_velocity], axis=1)
    columns = {"t": held.time} | dict(zip(NODE.names, values.T, strict=True))
    table = pyarrow.table(columns)
    pyarrow.parquet.write_table(table, log, row_group_size=1000, write_page_checksum=True)
    data = bytearray(log.read_bytes())
    data[len(data) * 3 // 4] ^= 1
    log.write_bytes(data)
    call = ["payload", "--live", "--sensor", sensor, "--replay", log, "--speed", "inf"]
    ended = called(*call, "--out", "out", cwd=tmp_path)
    assert ended.code == 3 and is_clean(ended.told)
    assert "heft: source failed: the result is of what came before" in ended.told
    assert "s  source failed: " in ended.said and "note: source failed: " in ended.said
    assert mass(tmp_path / "out") == pytest.approx(BODY[0], rel=0.05)
    notes = json.loads((tmp_path / "out" / "estimate.json").read_text())["notes"]
    assert len(notes) == 1 and notes[0].startswith("source failed: ")


def test_samples_over_zenoh_become_estimates(tmp_path: Path) -> None:
    held, port = sensed(2500), free_port()
    setup(tmp_path, 10)
    link = f'connect = ["tcp/127.0.0.1:{port}"]\npublish = "robot/load"\n'
    written(tmp_path / "link.toml", link)
    call = [*HEFT, "payload", "--live", "--sensor", "wrist.toml", "--on", "link.toml"]
    values = np.concatenate([held.wrench, held.specific, held.angular_velocity], axis=1)
    with robot(port) as session:
        told = session.declare_subscriber("robot/load/*")
        process = subprocess.Popen(
            [*call, "--out", "out"],
            cwd=tmp_path,
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stderr is not None and process.stdout is not None
            assert "listening" in process.stderr.readline()
            told.recv()  # it is there
            session.put("heft/samples/wrist", b"garbage")
            for k, row in enumerate(values):
                message = {"t": 100.0 + held.time[k]} | dict(zip(NODE.names, row, strict=True))
                session.put("heft/samples/wrist", json.dumps(message))
                time.sleep(2e-4)
            assert "weighed" in process.stdout.readline()
            events = []
            while not events:
                sample = told.recv()
                if str(sample.key_expr) == "robot/load/event":
                    events.append(json.loads(bytes(sample.payload))["name"])
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert process.returncode == 0, said
    assert events == ["weighed"]
    assert mass(tmp_path / "out") == pytest.approx(BODY[0], rel=0.05)
    health = json.loads((tmp_path / "out" / "estimate.json").read_text())["sensor"]["health"]
    assert health["counts"]["garbage"] == 1


def test_the_command_refuses_what_is_open_and_what_is_not_live(tmp_path: Path) -> None:
    setup(tmp_path, 10)
    written(tmp_path / "link.toml", 'listen = ["tcp/0.0.0.0:7447"]\n')
    live = ("payload", "--live", "--sensor", "wrist.toml")
    ended = called(*live, "--on", "link.toml", cwd=tmp_path)
    assert ended.code == 2 and "anybody on that network" in ended.told
    asked = ("grasp.npz", "--sensor", "wrist.toml", "--on", "zenoh")
    ended = called("payload", *asked, cwd=tmp_path)
    assert ended.code == 2 and "add --live" in ended.told


def answer(port: int, path: str, host: str | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("GET", path, headers={} if host is None else {"Host": host})
    response = connection.getresponse()
    if path == "/told" and response.status == 200:
        return 200, response.fp.readline()
    return response.status, response.read()


def test_the_page_shows_what_comes_to_be_known() -> None:
    with served(0, render(PAGE), policy_of(render(PAGE))) as page:
        port = int(page.address.rstrip("/").rpartition(":")[2])
        status, body = answer(port, "/")
        assert status == 200 and b"EventSource" in body
        assert b"http://" not in body and b"https://" not in body  # it holds all that it needs
        page.show({"estimate": {"mass": 1.5}})
        assert answer(port, "/told") == (200, b'data: {"estimate": {"mass": 1.5}}\n')
        assert answer(port, "/elsewhere")[0] == 404
        assert answer(port, "/told", f"evil.example:{port}")[0] == 403
        with (
            pytest.raises(InvalidSetting, match="cannot be served"),
            served(port, render(PAGE), policy_of(render(PAGE))),
        ):
            pass
