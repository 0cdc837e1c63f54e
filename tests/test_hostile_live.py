"""The live node where something around it fails or harms: it goes on, tells, leaves its result."""

from __future__ import annotations

import contextlib
import errno
import http.client
import json
import resource
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import cbor2
import pytest

from heft.applications.payload import checkpoint
from heft.applications.payload.live import PAGE
from heft.applications.payload.node import Node, NodeState, load_estimate
from heft.display.templates import policy_of, render
from heft.plants.wrench_sensor import Held
from heft.streams import Arrival, Link, Update, live, run
from heft.streams.page import MOST_CONNECTIONS, Page, served
from tests.browser import browser, opened
from tests.test_cli import ENVIRONMENT, HEFT, is_clean
from tests.test_live import NODE, START, as_piece, cut, fed, same
from tests.test_network import free_port, robot
from tests.test_payload import written
from tests.test_running import PATIENCE, mass, setup
from tests.wrists import BODY, sensed

PIECES = cut(as_piece(sensed(2500)))


def arrivals() -> Iterator[Arrival]:
    for piece in PIECES:
        yield Arrival(float(piece.stamps[-1] - START) / 1e9, [piece])


@pytest.fixture(scope="module")
def clean() -> NodeState:
    return fed(PIECES)[0]


def test_a_listener_that_fails_is_told_once_and_changes_nothing(clean: NodeState) -> None:
    told: list[str] = []
    calls = 0

    def dead(update: Update[NodeState]) -> None:
        nonlocal calls
        calls += 1
        if calls != 5:  # once it works again
            raise BrokenPipeError(errno.EPIPE, "nobody\x1b reads")

    def terminal(update: Update[NodeState]) -> None:
        told.extend(f"{e.name}: {e.message}" for e in update.events)

    state, _ = run(NODE.step, NODE.start(), arrivals(), {"page": dead, "terminal": terminal})
    assert same(state, clean)
    assert state.counts["untold"] == calls - 1 > 15
    assert [t for t in told if "weighed" not in t] == [
        "page failed: [Errno 32] nobody\\x1b reads"
    ] * 2


@pytest.mark.parametrize("problem", [OSError(errno.ENOSPC, "No space left"), ValueError("NaN")])
def test_a_checkpoint_that_cannot_be_written_is_told_and_changes_nothing(
    problem: Exception, clean: NodeState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise problem

    monkeypatch.setattr(checkpoint, "save", full)
    names: list[str] = []
    listeners = {"terminal": lambda update: names.extend(e.name for e in update.events)}
    state, _ = run(
        NODE.step,
        NODE.start(),
        arrivals(),
        listeners,
        save=partial(checkpoint.save, tmp_path / "kept", NODE),
    )
    assert same(state, clean) and state.counts["unsaved"] >= 3
    assert names.count("checkpoint failed") == 1


def test_a_step_without_memory_loses_its_samples_alone(
    clean: NodeState, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, calls = Node.step, 0

    def step(node: Node, *given: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 60:
            raise MemoryError
        return whole(node, *given, **more)

    monkeypatch.setattr(Node, "step", step)
    names: list[str] = []
    listeners = {"terminal": lambda update: names.extend(e.name for e in update.events)}
    state, _ = run(NODE.step, NODE.start(), arrivals(), listeners)
    assert names.count("step failed") == 1 and state.counts["unread"] == 25
    assert load_estimate(state).body[0] == pytest.approx(BODY[0], rel=0.01)


def test_a_source_that_fails_leaves_what_is_known() -> None:
    def failing(after: int) -> Iterator[Arrival]:
        for k, arrival in enumerate(arrivals()):
            if k == after:
                raise OSError(errno.EIO, "Input/output error")
            yield arrival

    messages: list[str] = []
    listeners = {"terminal": lambda update: messages.extend(e.message for e in update.events)}
    state, _ = run(NODE.step, NODE.start(), failing(80), listeners)
    assert load_estimate(state).body[0] == pytest.approx(BODY[0], rel=0.02)
    assert messages[-1] == "[Errno 5] Input/output error"
    with pytest.raises(OSError, match="Input/output"):
        run(NODE.step, NODE.start(), failing(0), listeners)


@pytest.fixture(scope="module")
def held() -> Held:
    return sensed(20_000, noise=(0.02, 0.001))


@pytest.mark.parametrize("every", [6, 16])
def test_a_slow_sensor_is_weighed_and_does_not_end_the_node(every: int, held: Held) -> None:
    slow = Held(*(a[::every] for a in vars(held).values()))
    state, _ = fed(cut(as_piece(slow)))
    assert state.online is not None
    assert state.online.rate == pytest.approx(1000.0 / every, rel=0.01)
    assert load_estimate(state).body[0] == pytest.approx(BODY[0], rel=0.02)


class Silent:
    """A connection over which nothing comes."""

    link = Link()

    def receive(self) -> list[tuple[str, bytes]]:
        return []


def test_where_the_clock_goes_back_no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([100.0, 100.1, 100.2, -5000.0, -4999.9, -4999.8])
    monkeypatch.setattr(live.time, "monotonic", lambda: next(times))
    monkeypatch.setattr(live.Reader, "read", lambda *_: ([], 0))
    source = live.received(Silent(), threading.Event())  # type: ignore[arg-type]
    assert [next(source).now for _ in range(5)] == pytest.approx([0.1, 0.2, 0.2, 0.3, 0.4])


# The page


@contextlib.contextmanager
def page() -> Iterator[tuple[Page, int]]:
    html = render(PAGE)
    with served(0, html, policy_of(html)) as one:
        yield one, int(one.address.rsplit(":", 1)[1].strip("/"))


def asked(port: int, path: str = "/", host: str | None = None) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10.0)
    connection.request("GET", path, headers={"Host": host or f"127.0.0.1:{port}"})
    return connection.getresponse()


@pytest.mark.parametrize(
    ("path", "host", "status"),
    [("/", None, 200), ("/told", None, 200), ("/x", None, 404), ("/", "evil.example:80", 403)],
)
def test_every_answer_forbids_frames_guesses_and_foreign_scripts(
    path: str, host: str | None, status: int
) -> None:
    with page() as (_, port):
        answer = asked(port, path, host)
        assert answer.status == status
        policy = answer.headers["Content-Security-Policy"]
        assert policy == policy_of(render(PAGE)) + "; frame-ancestors 'none'"
        assert "unsafe" not in policy and "*" not in policy and "'sha256-" in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert "Python" not in answer.headers["Server"]


def test_a_browser_shows_the_page_and_no_frame_around_it(tmp_path: Path) -> None:
    with browser() as running, page() as (one, _):
        one.show({"estimate": {"frame": "tool0", "parameters": [
            {"name": "payload.mass", "value": 1.5, "std": 0.1, "unit": "kg"}]},
            "events": [], "health": {"counts": {}, "devices": {}}})  # fmt: skip
        with opened(running, one.address) as seen:
            seen.page.locator("#state:has-text('live')").wait_for()
            assert seen.said + seen.warned == []
            inserted = "document.body.insertAdjacentHTML('beforeend', '<p id=p style=\"color:red\">"
            seen.page.evaluate(inserted + '<img src=x onerror="window.run=1">\')')
            script = "var s = document.createElement('script'); s.text = 'window.run = 2';"
            seen.page.evaluate(script + "document.body.append(s)")
            assert seen.page.evaluate("window.run") is None
            color = "getComputedStyle(document.getElementById('p')).color"
            assert seen.page.evaluate(color) != "rgb(255, 0, 0)"
            assert sum("Content Security Policy" in text for text in seen.said) >= 2
        around = tmp_path / "around.html"
        around.write_text(f'<iframe src="{one.address}"></iframe>')
        with opened(running, around.as_uri()) as seen:
            seen.page.wait_for_timeout(500)
            assert any("frame-ancestors" in text for text in seen.said)


def test_idle_connections_are_few_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heft.streams.page.DEADLINE", 0.6)
    with page() as (_, port), contextlib.ExitStack() as held:
        idle = [
            held.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(200)
        ]
        threads = threading.active_count()
        assert threads < MOST_CONNECTIONS + 30
        dripping = idle[0]
        begin = time.monotonic()
        with contextlib.suppress(OSError):
            while time.monotonic() - begin < 5.0:  # a letter at a time is one request
                dripping.sendall(b"G")
                time.sleep(0.1)
        assert time.monotonic() - begin < 3.0
        status = 0
        while status != 200 and time.monotonic() - begin < 5.0:  # until the others are cut
            with contextlib.suppress(OSError, http.client.HTTPException):
                status = asked(port).status
        assert status == 200


# Real processes


@contextlib.contextmanager
def running(folder: Path, *more: str, handles: int = 0, **options: Any) -> Iterator[Any]:
    """Yield a live node that weighs a log of 20 s, four times as fast, in a process of its own."""
    log, sensor = setup(folder, 20_000)
    call = [*HEFT, "payload", "--live", "--sensor", sensor, "--replay", log, "--speed", "4", *more]

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (handles, handles))

    process = subprocess.Popen(
        [*map(str, call)], cwd=folder, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, preexec_fn=limit if handles else None, **options,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def line_with(stream: Any, word: str) -> str:
    for line in stream:
        if word in line:
            return str(line)
    raise AssertionError(f"nothing was said of '{word}'")


def ended(process: Any) -> tuple[str, str, float]:
    """Interrupt a node; return what it said, what it told, and how long it took [s]."""
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    said, told = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0 and is_clean(told), told
    return said, told, time.monotonic() - begin


@contextlib.contextmanager
def small_disk(place: Path) -> Iterator[Path]:
    """Yield a folder on a disk without room; skip the test where none may be mounted."""
    place.mkdir()
    call = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if subprocess.run(call, capture_output=True, check=False).returncode:
        pytest.skip("NO DISK could be mounted: a full one stays untested")
    try:
        with contextlib.suppress(OSError), (place / "filling").open("wb", 0) as file:
            while True:
                file.write(bytes(1024))
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_costs_the_checkpoint_alone(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "disk") as disk,
        running(tmp_path, "--out", "out", "--checkpoint", str(disk / "kept")) as process,
    ):
        assert "No space left" in line_with(process.stdout, "checkpoint failed")
        ended(process)
        assert mass(tmp_path / "out") == pytest.approx(BODY[0], rel=0.1)
        health = json.loads((tmp_path / "out" / "estimate.json").read_text())["sensor"]["health"]
        assert health["counts"]["unsaved"] > 0 and health["counts"]["lost"] == 0
        assert [p.name for p in disk.iterdir()] == ["filling"]


def test_a_result_that_cannot_be_written_is_still_said(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "disk") as disk,
        running(tmp_path, "--out", str(disk / "out")) as node,
    ):
        line_with(node.stdout, "weighed")
        node.send_signal(signal.SIGINT)
        said, told = node.communicate(timeout=PATIENCE)
        assert node.returncode == 2 and is_clean(told)
        assert "no space left" in told and "set_target_payload(" in said
        assert [p.name for p in disk.iterdir()] == ["filling"]


def test_more_connections_than_handles_cost_nothing(tmp_path: Path) -> None:
    options = ("--out", "out", "--checkpoint", "kept", "--serve")
    with running(tmp_path, *options, handles=128) as process, contextlib.ExitStack() as held:
        port = int(line_with(process.stderr, "showing at").rsplit(":", 1)[1].strip("/\n"))
        for _ in range(400):
            held.enter_context(socket.create_connection(("127.0.0.1", port), 10.0))
        line_with(process.stdout, "weighed")
        ended(process)
    assert mass(tmp_path / "out") == pytest.approx(BODY[0], rel=0.1)
    health = json.loads((tmp_path / "out" / "estimate.json").read_text())["sensor"]["health"]
    assert health["counts"]["unsaved"] == health["counts"]["lost"] == 0
    assert (tmp_path / "kept").exists()


def test_a_reader_that_goes_away_ends_no_node(tmp_path: Path) -> None:
    with running(tmp_path, "--out", "out", "--checkpoint", "kept") as process:
        process.stdout.close()
        process.stdout = None
        begin = time.monotonic()
        while not (tmp_path / "kept").exists() and time.monotonic() - begin < PATIENCE:
            time.sleep(0.02)
        time.sleep(1.0)  # four seconds of the log, of which something is said
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        process.wait(timeout=PATIENCE)
        assert is_clean(process.stderr.read())
    assert mass(tmp_path / "out") == pytest.approx(BODY[0], rel=0.1)


FLOODS: dict[str, Callable[[], bytes]] = {
    "CBOR of equal hashes": lambda: cbor2.dumps(
        {"t": 1.0, "a": {1 + k * (2**61 - 1) for k in range(5000)}}
    )[:65_000],
    "JSON that is deep": lambda: b'{"t": 1.0, "a": ' + b"[" * 60_000,
    "JSON of digits": lambda: json.dumps(
        {"t": 1.0, **{str(k): 10**4000 for k in range(15)}}
    ).encode(),
}


@pytest.mark.parametrize("kind", FLOODS)
def test_an_interrupt_is_answered_within_a_second_of_a_flood(kind: str, tmp_path: Path) -> None:
    port = free_port()
    setup(tmp_path, 10)
    written(tmp_path / "link.toml", f'connect = ["tcp/127.0.0.1:{port}"]\n')
    call = [*HEFT, "payload", "--live", "--sensor", "wrist.toml", "--on", "link.toml"]
    message, stop = FLOODS[kind](), threading.Event()
    with robot(port) as session:
        process = subprocess.Popen(
            [*map(str, call), "--out", "out"], cwd=tmp_path, env=ENVIRONMENT, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

        def flood() -> None:
            while not stop.is_set():
                for k in range(50):
                    session.put(f"heft/samples/{k}", message)
                time.sleep(0.002)

        thread = threading.Thread(target=flood)
        try:
            line_with(process.stderr, "listening")
            thread.start()
            time.sleep(1.0)
            took = ended(process)[2]
        finally:
            stop.set()
            thread.join()
            process.kill()
    assert took < 2.0  # a second, and as much for the interpreter's end on a busy machine
    health = json.loads((tmp_path / "out" / "estimate.json").read_text())["sensor"]["health"]
    assert health["counts"]["garbage"] > 100
