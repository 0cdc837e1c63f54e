"""Laws of nodes of a team: alone, and in a network of virtual time."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heft.applications.cooperation import (
    ContactSignals,
    CooperativeMethod,
    CooperativeNode,
    OriginSensors,
    Replica,
    TeamFile,
    TeamRobot,
    WindowMessage,
    WindowStream,
    results_of,
)
from heft.applications.cooperation.live import Journal
from heft.applications.cooperation.replication import ABSENT, ReplicaSettings
from heft.applications.cooperation.watch import STATE
from heft.applications.cooperation.window_stream import WindowSettings, covariances, windows_of
from heft.applications.cooperation.wire import (
    HEADER,
    LARGEST,
    ORIGIN,
    BadMessage,
    decoded,
    encoded,
    team_key,
)
from heft.errors import InvalidSetting
from heft.files import require_schema
from heft.information import Graph
from heft.simulation import SimulatedTeam, Team, TeamNoise
from heft.streams.ros import transforms, transforms_key
from tests.messages import ROS2
from tests.network import NetworkFaults, SimulatedNetwork

Array = np.ndarray[Any, np.dtype[np.float64]]
SETTINGS = WindowSettings()
NOISE = TeamNoise(0.02, 0.02, 0.1, 0.2, 0.02)
SHORT = Team(robots=3, duration=7.0, changes=(), masses=(2.0,), noise=NOISE)
TEAM = b"12345678"


@pytest.fixture(scope="module")
def team() -> SimulatedTeam:
    return SHORT.run(7)


def signals(team: SimulatedTeam) -> list[ContactSignals]:
    """Return what robots read, a window's middle between samples as in windows of a log."""
    logs = (ContactSignals.of_columns(team.columns(k), "grasp") for k in range(team.count))
    return [replace(s, time=s.time + 0.005) for s in logs]


def stated(count: int, graph: Graph | None = None) -> TeamFile:
    robots = tuple(TeamRobot(f"r{k}") for k in range(count))
    return TeamFile(robots, graph or Graph.ring(count))


@pytest.mark.parametrize("cuts", [(700,), (1, 2, 90, 333), tuple(range(0, 700, 7))])
def test_windows_that_come_are_those_of_the_whole_log(
    team: SimulatedTeam, cuts: tuple[int, ...]
) -> None:
    whole = signals(team)[0]
    (batch,) = windows_of([whole], SETTINGS, NOISE)
    stream = WindowStream(SETTINGS, OriginSensors(NOISE, 0.01))
    epoch = 1_800_000_000_000_000_000
    made = []
    for first, last in zip((0, *cuts), (*cuts, None), strict=True):
        made += stream.add(whole.part(slice(first, last)), epoch)
    begin = epoch // 60_000_000
    assert [number - begin for number, _ in made] == list(range(len(batch.time)))
    rows = np.array([row for _, row in made])
    both = np.hstack([batch.motion, batch.wrench])
    assert np.abs(rows - both).max() < 1e-12 * np.abs(both).max()


def test_how_sure_windows_are_is_known_from_noise_and_rate(team: SimulatedTeam) -> None:
    whole = signals(team)[0]
    (batch,) = windows_of([whole], SETTINGS, NOISE)
    omega = whole.angular_velocity
    second = omega.T @ omega / len(omega) - NOISE.angular_velocity**2 * np.eye(3)
    alone = covariances(OriginSensors(NOISE, 0.01), SETTINGS, second)
    assert np.allclose(alone.spread, batch.spread, rtol=1e-4)
    assert np.allclose(alone.wrench_spread, batch.wrench_spread, rtol=1e-12)
    assert alone.overlap == pytest.approx(batch.overlap)


def test_what_is_still_has_no_slope_whatever_the_jitter() -> None:
    rng = np.random.default_rng(0)
    time = np.arange(100) * 0.01 + rng.uniform(0.0, 4e-3, 100)
    held = [np.tile(k, (100, 1)) for k in rng.normal(size=(5, 3))]
    stream = WindowStream(SETTINGS, OriginSensors(NOISE, 0.01))
    made = stream.add(ContactSignals(time, *held))
    assert len(made) > 8
    for _, row in made:
        assert np.abs(row[6:9]).max() < 1e-12
        assert np.allclose(row[:3], held[0][0], rtol=1e-12)


def test_windows_across_a_hole_are_left_out_and_the_next_have_their_numbers(
    team: SimulatedTeam,
) -> None:
    whole = signals(team)[0]
    stream = WindowStream(SETTINGS, OriginSensors(NOISE, 0.01))
    there = dict(stream.add(whole))
    keep = (whole.time < 2.0) | (whole.time > 2.4)
    holed = WindowStream(SETTINGS, OriginSensors(NOISE, 0.01))
    made = dict(holed.add(whole.part(keep)))
    begins = {n: n * SETTINGS.stride for n in there}
    outside = {n for n, b in begins.items() if b + 0.3 < 2.02 or b > 2.39}
    assert set(made) == outside and len(there) - len(made) > 10
    assert all(np.allclose(made[n], there[n], rtol=1e-9, atol=1e-9) for n in made)


def test_noise_and_rate_are_found_first(team: SimulatedTeam) -> None:
    stream = WindowStream(SETTINGS, calibration=2.0)
    assert stream.add(signals(team)[0].part(slice(0, 150))) == []
    made = stream.add(signals(team)[0].part(slice(150, None)))
    assert made[0][0] == 0  # nothing of the beginning is lost
    told = [row[24:] for _, row in made if len(row) > 24]
    assert len(told) == 3  # of 7 s, by 2 s each
    assert np.all(np.abs(np.array(told) / OriginSensors(NOISE, 0.01).numbers - 1.0) < 0.25)


def a_message(rng: np.random.Generator) -> WindowMessage:
    rows = [(int(rng.integers(3)), int(rng.integers(2**40)), rng.normal(size=24)) for _ in range(5)]
    says = np.concatenate([rng.normal(size=24), rng.uniform(0.01, 0.1, 6)])
    have = {0: 70, 1: 5, 2: 2**50}
    rows = [(1, 6, says), *rows, (1, 7, ABSENT)]
    return WindowMessage(have, tuple(rows), {2: 9}, {0: 3, 1: 0, 2: 1}, 99)


def test_a_message_is_the_same_on_the_other_side() -> None:
    message = a_message(np.random.default_rng(1))
    back = decoded(encoded(message, 2, TEAM), 2, TEAM, 3)
    assert (back.have, back.ended, back.first) == (message.have, message.ended, message.first)
    assert back.session == 99
    for (o, n, row), (p, m, other) in zip(message.windows, back.windows, strict=True):
        assert (o, n) == (p, m) and np.array_equal(row, other, equal_nan=True)


def changed(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


FIRST_ORIGIN = HEADER.size
FIRST_WINDOW = HEADER.size + 3 * ORIGIN.size
NAN, HUGE, ONE, BELOW = (np.float64(n).tobytes() for n in (np.nan, 1e30, 1.0, -0.1))
BAD_MESSAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut": lambda data: data[:-1],
    "longer": lambda data: data + b"\0",
    "too large": lambda data: data + bytes(LARGEST),
    "another version": lambda data: changed(data, 4, b"\x63"),
    "another team": lambda data: changed(data, 8, b"xxxxxxxx"),
    "another sender": lambda data: changed(data, 6, b"\1\0"),
    "more origins than robots": lambda data: changed(data, 24, b"\xff\xff"),
    "more windows than may be": lambda data: changed(data, 26, b"\xff\xff"),
    "an origin that is none": lambda data: changed(data, FIRST_ORIGIN, b"\7\0"),
    "origins twice": lambda data: changed(data, FIRST_ORIGIN + ORIGIN.size, b"\0\0"),
    "flags that are none": lambda data: changed(data, FIRST_ORIGIN + 2, b"\x80\0"),
    "a number below zero": lambda data: changed(data, FIRST_ORIGIN + 4, b"\xff" * 8),
    "noise that is none": lambda data: changed(data, FIRST_WINDOW + 12 + 8 * 24, NAN),
    "noise below zero": lambda data: changed(data, FIRST_WINDOW + 12 + 8 * 24, BELOW),
    "a rate that is none": lambda data: changed(data, FIRST_WINDOW + 12 + 8 * 29, ONE),
    "a window of nobody": lambda data: changed(data, FIRST_WINDOW, b"\x09\0"),
    "a window that is no number": lambda data: changed(data, FIRST_WINDOW + 12, NAN),
    "a window beyond all bounds": lambda data: changed(data, FIRST_WINDOW + 20, HUGE),
}


@pytest.mark.parametrize("kind", BAD_MESSAGES)
def test_what_is_no_message_is_refused_and_counted(kind: str) -> None:
    good = encoded(a_message(np.random.default_rng(2)), 2, TEAM)
    assert decoded(good, 2, TEAM, 3)
    with pytest.raises(BadMessage):
        decoded(BAD_MESSAGES[kind](good), 2, TEAM, 3)
    node = CooperativeNode(stated(3), 0)
    assert not node.take(2, BAD_MESSAGES[kind](good))
    assert sum(node.refused.values()) == 1 and node.replica.windows == {0: {}}


def test_whatever_bytes_come_are_a_message_or_none() -> None:
    rng = np.random.default_rng(3)
    read = 0
    for _ in range(400):
        data = bytearray(encoded(a_message(rng), 2, TEAM))
        for _ in range(int(rng.integers(4))):
            data[int(rng.integers(28, len(data)))] = int(rng.integers(256))
        try:
            message = decoded(bytes(data), 2, TEAM, 3)
        except BadMessage:
            continue
        read += 1
        for _, _, row in message.windows:
            assert np.isfinite(row).all() or np.isnan(row).all()
    assert read > 50


def test_messages_are_bounded_whatever_is_to_be_told() -> None:
    settings = ReplicaSettings(repeat=5)
    replica = Replica(0, 1, settings)
    for k in range(3000):
        replica.add(np.full(24, 1.0), k + 29_000_000_000)
    names = [f"r{k}" for k in range(100)]
    team = team_key(names, Graph.ring(100), SETTINGS)
    message = replica.message(1)
    many = dict.fromkeys(range(100), 29_000_000_000)
    says = [(o, n, np.append(row, np.full(6, 0.1))) for o, n, row in message.windows]
    full = replace(message, have=many, first=many, windows=tuple(says))
    assert len(encoded(full, 0, team)) < LARGEST


def test_memory_is_bounded_and_who_lags_is_told_where_windows_begin() -> None:
    settings = ReplicaSettings(history=50)
    one, other = Replica(0, 1, settings), Replica(1, 1, settings)
    for k in range(200):
        one.add(np.full(24, float(k)), k)
    assert len(one.windows[0]) == 50 and one.first[0] == 150
    other.receive(0, one.message(1))
    assert other.count(0) == 200 and sorted(other.windows[0]) == list(range(150, 200))


def test_a_neighbour_that_began_anew_is_told_all_again() -> None:
    one = Replica(0, 1)
    for k in range(20):
        one.add(np.full(24, float(k)))
    one.receive(1, WindowMessage({0: 20}, session=5))
    assert one.message(1).windows == ()
    one.receive(1, WindowMessage({}, session=6))
    assert len(one.message(1).windows) == 20
    one.receive(1, WindowMessage({0: 20}, session=5))  # late, of its former life
    assert len(one.message(1).windows) == 20


def test_windows_that_a_robot_could_not_make_are_absent_everywhere() -> None:
    one, other = Replica(0, 1), Replica(1, 1)
    one.add(np.zeros(24), 100)
    one.add(np.ones(24), 103)
    other.receive(0, one.message(1))
    assert other.count(0) == 104 and other.first[0] == 100
    assert np.isnan(other.windows[0][102]).all() and np.isfinite(other.windows[0][103]).all()


def run_network(
    nodes: Sequence[CooperativeNode],
    whole: Sequence[ContactSignals],
    faults: NetworkFaults,
    each: Callable[[int], None] = lambda now: None,
    rounds: int = 110,
    silent: dict[int, int] | None = None,
    holding: Callable[[CooperativeNode, ContactSignals], bool] = lambda node, part: True,
    idle: int | None = None,
) -> None:
    """Let nodes of a team run for 10 samples a round, every message as bytes.

    One that is idle estimates seldom: windows wait.
    """

    def sampled(now: int) -> None:
        for node, own in zip(nodes, whole, strict=True):
            part = own.part(slice(10 * now, 10 * now + 10))
            told = len(part.time) > 0 and now < (silent or {}).get(node.own, rounds)
            if told and holding(node, part):
                node.add_samples(part)
            if node.own != idle or now % 45 == 44:
                node.solve()
        each(now)

    class AsBytes:
        def __init__(self, node: CooperativeNode) -> None:
            self.node = node

        def message(self, neighbour: int) -> bytes:
            return self.node.encoded(neighbour)

        def receive(self, neighbour: int, message: bytes) -> None:
            assert self.node.take(neighbour, message)

    graph = nodes[0].stated.graph
    network = SimulatedNetwork(graph.neighbours, faults, 0)
    network.run([AsBytes(n) for n in nodes], rounds, sampled, silent)
    for node in nodes:
        node.solve()


def test_nodes_agree_to_the_bit_and_with_the_logs_on_one_machine(team: SimulatedTeam) -> None:
    whole = signals(team)
    nodes = [CooperativeNode(stated(3), k, 1) for k in range(3)]
    run_network(nodes, whole, NetworkFaults(lost=0.3, doubled=0.1, latest=3))
    found = [results_of(node) for node in nodes]
    first = found[0].load(0)
    assert first is not None
    history = [k.time for k in nodes[0].solver.history()]
    due = nodes[0].settings.method.every * SETTINGS.stride
    assert max(np.diff(history)) <= due + 1e-9  # no window is passed over
    assert whole[0].time[-1] - SETTINGS.stride - 0.01 <= history[-1] <= whole[0].time[-1] + 0.01
    for other in found[1:]:
        load = other.load(0)
        assert load is not None and load.mass == first.mass
        assert np.array_equal(load.inertia, first.inertia)
    central = (
        CooperativeMethod(belief=stated(3).belief).identify(whole, Graph.ring(3)).known[-1].load(0)
    )
    assert central is not None and central.covariance is not None
    std = np.sqrt(np.diag(central.covariance))
    assert abs(first.mass - central.mass) < 0.1 * std[0]
    assert np.abs(first.com - central.com).max() < 0.1 * std[1:4].max() / central.mass
    mass, com, _ = team.bodies[0].seen_from(team.rotations[1], team.origins[1])
    own = nodes[1].load()
    assert own is not None and own.covariance is not None
    assert abs(own.mass - mass) < 4.0 * np.sqrt(own.covariance[0, 0])
    assert np.linalg.norm(own.com - com) < 0.02
    known = nodes[1].known
    assert known is not None
    pose = known.between(1, 0)
    assert pose is not None
    R, t = team.pose(1, 0)
    assert np.linalg.norm(pose[1] - t) < 0.02 and np.abs(pose[0] - R).max() < 0.02
    state = json.dumps(nodes[1].state(), allow_nan=False)
    assert json.loads(state)["load"]["mass_kg"] == own.mass


def test_nodes_name_the_axes_of_a_wrench_that_is_in_others(team: SimulatedTeam) -> None:
    read = signals(team)
    read[1] = read[1].turned(np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]))
    nodes = [CooperativeNode(stated(3), k, 1) for k in range(3)]
    run_network(nodes, read, NetworkFaults(lost=0.2), rounds=90)
    for node in (nodes[0], nodes[2]):
        found = results_of(node)
        (told,) = [f for f in found.findings() if f.severity == "spoils"]
        assert told.cure == 'in the [[robot]] of r1: axes = ["y", "-x", "z"]'
        assert "of 2.00" in told.message or "of 1.99" in told.message
        assert found.stated_load(0) is None


def test_nodes_of_a_planar_team_tell_what_there_is_in_the_plane() -> None:
    flat = replace(SHORT, planar=True).run(7)
    nodes = [CooperativeNode(replace(stated(3), planar=True), k, 1) for k in range(3)]
    run_network(nodes, signals(flat), NetworkFaults(lost=0.2))
    mass, com, _ = flat.bodies[0].seen_from(flat.rotations[1], flat.origins[1])
    for node in nodes:
        load = node.load(1)
        assert load is not None and load.std is not None
        assert abs(load.mass - mass) < 4.0 * load.std[0] < 0.2
        assert np.all(np.abs(load.com - com)[:2] < 4.0 * load.std[1:3])
        assert np.isnan(load.com[2])
    told = json.loads(json.dumps(nodes[1].state(), allow_nan=False))
    assert told["load"]["com_m"][2] is None and told["load"]["inertia_kgm2"][0][0] is None
    require_schema(told, STATE)


def test_a_node_that_knows_nothing_says_so(tmp_path: Path) -> None:
    node = CooperativeNode(stated(3), 1)
    assert node.solve() == 0 and node.load() is None
    found = results_of(node)
    assert "not told" in found.text()
    found.write(tmp_path / "out")
    content = json.loads((tmp_path / "out" / "team.json").read_text())
    assert [r["load"] for r in content["robots"]] == [None] * 3 and content["poses"] == []
    json.dumps(node.state(), allow_nan=False)


def test_who_lets_go_ends_and_the_others_keep_what_they_know() -> None:
    """The load goes on as it was: what the fourth robot's wrench was is not needed any more."""
    four = replace(SHORT, robots=4, duration=8.0).run(3)
    three = signals(four)
    # From 5.1 s on three robots alone hold it: the wrench of the last is given to the first.
    late = three[0].time >= 5.1
    given_to(four, three, 3, 0, late)
    nodes = [CooperativeNode(stated(4, Graph.regular(4, 2)), k, 1) for k in range(4)]
    masses = []

    def each(now: int) -> None:
        if now == 50:
            nodes[3].let_go()
        load = nodes[0].load()
        if load is not None and load.covariance is not None:
            masses.append((now, load.mass, float(np.sqrt(load.covariance[0, 0]))))

    run_network(nodes, three, NetworkFaults(lost=0.2), each, 120, {3: 60}, idle=2)
    known = nodes[0].known
    assert known is not None and known.origins == (0, 1, 2)
    assert [e.name for e in nodes[0].events] == ["let go"]
    assert nodes[0].solver.changes == []
    told = [m for m in masses if m[0] > 20]
    assert len(told) > 60  # never without an estimate again
    assert max(abs(m - 2.0) for _, m, _ in told) < 0.05
    assert told[-1][2] < told[20][2]
    loads = [node.load(0) for node in nodes[:3]]
    assert all(load is not None and load.mass == told[-1][1] for load in loads)


def given_to(
    team: SimulatedTeam, read: list[ContactSignals], of: int, to: int, when: Array
) -> None:
    """Let one robot apply what another does, at some samples."""
    R, t = team.pose(to, of)
    force, torque = read[of].force @ R.T, read[of].torque @ R.T
    torque = torque + np.cross(t, force)
    read[to] = replace(
        read[to],
        force=read[to].force + when[:, None] * force,
        torque=read[to].torque + when[:, None] * torque,
    )


@pytest.mark.parametrize("joins", [0, 2])
def test_who_joins_late_is_told_all_and_nobody_forgets(joins: int) -> None:
    """Robots hear of it late, too, and take the windows again that lacked its wrench."""
    four = replace(SHORT, robots=4, duration=8.0).run(5)
    read = signals(four)
    given_to(four, read, joins, 3, read[0].time < 4.1)
    robots = tuple(TeamRobot(f"r{k}", late=k == joins) for k in range(4))
    nodes = [CooperativeNode(TeamFile(robots, Graph.ring(4)), k, 1) for k in range(4)]
    masses = []

    def sampled(node: CooperativeNode, part: ContactSignals) -> bool:
        return node.own != joins or bool(part.time[0] >= 4.1)

    def each(now: int) -> None:
        load = nodes[1].load(1)
        if load is not None and load.covariance is not None:
            masses.append((now, load.mass, float(np.sqrt(load.covariance[0, 0]))))

    faults = NetworkFaults(lost=0.3, latest=3)
    run_network(nodes, read, faults, each, 120, holding=sampled, idle=3)
    known = [node.known for node in nodes]
    assert all(k is not None and k.origins == (0, 1, 2, 3) for k in known)
    assert all(node.solver.changes == [] for node in nodes)
    told = [m for m in masses if m[0] > 25]
    assert len(told) > 60 and max(abs(m - 2.0) for _, m, _ in told) < 0.05
    assert told[-1][2] < 0.8 * told[10][2]
    loads = [node.load(k) for node in nodes for k in range(4)]
    for k in range(4):
        of_one = [load.mass for load in loads[k::4] if load is not None]
        assert len(of_one) == 4 and np.ptp(of_one) == 0.0
    assert any(e.name == "joined" for e in nodes[1].events)


def test_nodes_leave_out_who_lies_and_say_so() -> None:
    read = signals(replace(SHORT, robots=4, duration=5.0).run(6))
    read[1] = replace(read[1], velocity=read[1].velocity[:, [1, 0, 2]])
    nodes = [CooperativeNode(stated(4), k, 1) for k in range(4)]
    run_network(nodes, read, NetworkFaults(lost=0.2), rounds=60)
    for node in nodes:
        (event,) = [e for e in node.events if e.name == "doubtful"]
        assert event.message.startswith("The velocity of r1 does not go with") and event.time < 5.0
        load = node.load(1)
        assert load is not None and load.std is not None
        assert abs(load.mass - 2.0) < 4.0 * load.std[0] < 0.1
        assert "does not go with" in results_of(node).text()


def test_a_robot_that_is_silent_holds_the_estimate_where_it_is(team: SimulatedTeam) -> None:
    nodes = [CooperativeNode(stated(3), k, 1) for k in range(3)]
    run_network(nodes, signals(team), NetworkFaults(), rounds=70, silent={2: 40})
    assert nodes[0].replica.count(0) > nodes[0].replica.count(2)
    assert nodes[0].solver.next == nodes[0].replica.count(2)
    assert nodes[0].load() is not None


@pytest.mark.parametrize("kept", [True, False], ids=["with a journal", "without"])
def test_a_node_that_was_killed_catches_up(team: SimulatedTeam, tmp_path: Path, kept: bool) -> None:
    whole = signals(team)
    nodes = [CooperativeNode(stated(3), k, 1) for k in range(3)]
    journal = Journal(tmp_path / "kept", nodes[2])

    def each(now: int) -> None:
        journal.write()
        if now == 40:  # killed, and back half a second later
            (tmp_path / "kept").open("ab").write(b"\xff\0\0\0cut")
            again = CooperativeNode(stated(3), 2, 2)
            if kept:
                assert Journal(tmp_path / "kept", again).go_on() > 100
            nodes[2].__dict__.update(again.__dict__)
        if 40 <= now < 45:
            nodes[2]._stream._stamps = nodes[2]._stream._stamps[:0]
            nodes[2]._stream._values = nodes[2]._stream._values[:0]

    run_network(nodes, whole, NetworkFaults(lost=0.2), each, 130)
    counts = [{o: node.replica.count(o) for o in range(3)} for node in nodes]
    assert counts[0] == counts[2] and counts[0][2] > 100
    for o in range(3):
        for n in range(nodes[0].replica.begin((0, 1, 2)), counts[0][o]):
            one, other = (nodes[k].replica.windows[o][n] for k in (0, 2))
            assert np.array_equal(one, other, equal_nan=True)
    assert nodes[0].solver.left_out > 5
    loads = [results_of(node).load(0) for node in nodes]
    assert loads[0] is not None and loads[2] is not None
    assert loads[2].mass == pytest.approx(loads[0].mass, rel=1e-4)


def test_a_journal_that_is_none_is_refused(team: SimulatedTeam, tmp_path: Path) -> None:
    node = CooperativeNode(stated(3), 0, 1)
    node.add_samples(signals(team)[0])
    path = tmp_path / "kept"
    Journal(path, node).write()
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    with pytest.raises(InvalidSetting, match="not what was written"):
        Journal(path, CooperativeNode(stated(3), 0, 2)).go_on()
    data[100] ^= 1
    path.write_bytes(data)
    with pytest.raises(InvalidSetting, match="another team"):
        Journal(path, CooperativeNode(stated(4), 0, 2)).go_on()
    with pytest.raises(InvalidSetting, match="not of its sender"):
        Journal(path, CooperativeNode(stated(3), 1, 2)).go_on()


@pytest.fixture(scope="module")
def nodes(team: SimulatedTeam) -> list[CooperativeNode]:
    """Return nodes that learnt the load of one another."""
    nodes = [CooperativeNode(stated(3), k, 1) for k in range(3)]
    run_network(nodes, signals(team), NetworkFaults(lost=0.2), rounds=90)
    return nodes


@pytest.mark.parametrize("late", [0.006, -0.17])
def test_a_clock_that_differs_is_set(
    team: SimulatedTeam, nodes: list[CooperativeNode], late: float
) -> None:
    whole = [replace(s, time=s.time + 0.6) for s in signals(team)]  # no window is before zero
    apart = [*whole[:1], replace(whole[1], time=whole[1].time + late), whole[2]]
    others = [CooperativeNode(stated(3), k, 1) for k in range(3)]
    run_network(others, apart, NetworkFaults(lost=0.2), rounds=90)
    clocks = others[2].clocks()
    assert set(clocks) == {1} and nodes[2].clocks() == {}
    assert clocks[1].offset == pytest.approx(late, abs=max(5e-4, 4.0 * clocks[1].std))
    assert "clock" in [e.name for e in others[2].events] and others[2].solver.changes == []
    one, other = results_of(nodes[0]), results_of(others[0])
    assert "The clock of r1 is" in other.text()
    a, b = one.load(1), other.load(1)
    assert a is not None and b is not None and a.covariance is not None
    std = np.sqrt(np.diag(a.covariance))
    assert abs(a.mass - b.mass) < 2.0 * std[0]
    assert np.abs(a.com - b.com).max() < 2.0 * std[1:4].max() / a.mass
    assert np.abs(a.inertia - b.inertia).max() < 4.0 * std[4:].max()


def test_transforms_are_what_ros_reads() -> None:
    """Byte for byte, whatever the lengths of names do to alignment."""
    for names in ((), ("a",), ("left/grasp", "b" * 9, "right_arm/tool0")):
        rng = np.random.default_rng(len(names))
        children = {}
        for name in names:
            quaternion = rng.normal(size=4)
            children[name] = (quaternion / np.linalg.norm(quaternion), rng.normal(size=3))
        data = transforms(1_700_000_000_000_000_007, "grasp", children)
        told = ROS2.deserialize_cdr(data, "tf2_msgs/msg/TFMessage")
        assert [t.child_frame_id for t in told.transforms] == list(names)
        for t, (quaternion, origin) in zip(told.transforms, children.values(), strict=True):
            q, at = t.transform.rotation, t.transform.translation
            assert [q.w, q.x, q.y, q.z] == quaternion.tolist()
            assert [at.x, at.y, at.z] == origin.tolist()
            assert t.header.stamp.nanosec == 7 and t.header.frame_id == "grasp"
        assert bytes(ROS2.serialize_cdr(told, "tf2_msgs/msg/TFMessage")) == data
    assert ROS2.hash_rihs01("tf2_msgs/msg/TFMessage") in transforms_key(0, "x")
