"""A load weighed live: whatever comes is used as it should be, or counted, and told."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from heft.applications.payload import checkpoint
from heft.applications.payload.live import publish
from heft.applications.payload.node import Node, NodeState, load_estimate
from heft.applications.payload.sensors import Sensors
from heft.dynamics.kinematics import frame_motion
from heft.errors import InvalidSetting
from heft.information import inertia
from heft.plants.wrench_sensor import Held
from heft.signals import weak_form
from heft.streams import Arrival, Event, Update, run
from heft.streams.messages import Piece
from tests.robots import FloatArray, load
from tests.test_payload import quaternions
from tests.wrists import BIAS, BODY, GRAVITY, moving, sensed

WRIST = {"kind": "wrench", "frame": "tool0", "noise": {"force": 0.1, "torque": 0.005}}
WITH_IMU = Sensors.from_dict({"sensor": {"wrist": WRIST, "imu": {"kind": "imu"}}})
NODE = Node(WITH_IMU)
START = 1_700_000_000_123_456_789  # [ns]


def stamps_of(time: FloatArray) -> np.ndarray:
    return START + np.round(np.asarray(time) * 1e9).astype(np.int64)


def as_piece(held: Held, rows: slice = slice(None)) -> Piece:
    columns = [held.wrench, held.specific, held.angular_velocity]
    return Piece(NODE.names, stamps_of(held.time[rows]), np.concatenate(columns, axis=1)[rows])


def cut(piece: Piece, size: int = 25) -> list[Piece]:
    return [
        Piece(piece.names, piece.stamps[k : k + size], piece.values[k : k + size])
        for k in range(0, len(piece.stamps), size)
    ]


def fed(
    pieces: Iterable[Piece], node: Node = NODE, state: NodeState | None = None
) -> tuple[NodeState, list[Event]]:
    """Feed pieces, on a clock that their stamps follow."""
    state, events = state or node.start(), []
    for piece in pieces:
        state, more = node.step(state, float(piece.stamps[-1] - START) / 1e9, [piece])
        events += more
    return state, events


def same(one: NodeState, other: NodeState) -> bool:
    assert one.load is not None and other.load is not None
    return bool(np.array_equal(one.load.filter.factor, other.load.filter.factor))


@pytest.mark.parametrize("size", [1, 7, 25, 900])
def test_a_load_is_weighed_however_its_samples_are_parcelled(size: int) -> None:
    state, events = fed(cut(as_piece(sensed(3000)), size))
    found = load_estimate(state)
    np.testing.assert_array_less(np.abs(found.ten - BODY)[:4], [0.02, 0.002, 0.002, 0.002])
    assert [e.name for e in events] == ["weighed"]
    # A window's stride behind, and what is waited for samples that are late.
    assert found.stamp == pytest.approx(START / 1e9 + 2.999, abs=0.025 + 0.006)
    assert found.held is True
    assert state.counts["alone"] == state.counts["lost"] == state.counts["gaps"] == 0
    assert state.alignment.buffers["wrist"].taken == 3000


@pytest.mark.parametrize("stated", [BIAS.tolist(), "constant"])
def test_the_files_word_on_the_bias_holds_live(stated: object) -> None:
    imu = {"kind": "imu"}
    node = Node(Sensors.from_dict({"sensor": {"wrist": WRIST | {"bias": stated}, "imu": imu}}))
    state, _ = fed(cut(as_piece(sensed(1500))), node)
    usual, _ = fed(cut(as_piece(sensed(1500))))
    assert state.load is not None and usual.load is not None
    np.testing.assert_array_less(
        np.abs(load_estimate(state).ten - BODY)[:4], [0.02, 0.002, 0.002, 0.002]
    )
    assert state.load.std[0] < (0.5 if stated != "constant" else 1.0) * usual.load.std[0]


def bad(held: Held, k: int, value: float) -> Piece:
    one = as_piece(held, slice(k, k + 1))
    values = one.values.copy()
    values[0, 3] = value
    return Piece(one.names, one.stamps + 500_000, values)


HELD = sensed(2500)
OTHER_FRAME = tuple(n.replace("tool0", "elsewhere").replace("imu", "other") for n in NODE.names)
BAD = {
    "nan": (bad(HELD, 1999, np.nan), "implausible"),
    "inf": (bad(HELD, 1999, -np.inf), "implausible"),
    "huge": (bad(HELD, 1999, 1e300), "implausible"),
    "older": (as_piece(HELD, slice(1500, 1600, 2)), "late"),
    "again": (as_piece(HELD, slice(1999, 2000)), "repeated"),
    "another frame": (replace(as_piece(HELD, slice(2000, 2025)), names=OTHER_FRAME), "foreign"),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_cannot_be_used_is_counted_and_changes_nothing(kind: str) -> None:
    piece, count = BAD[kind]
    pieces = cut(as_piece(HELD))
    clean, _ = fed(pieces)
    state, events = fed([*pieces[:80], piece, *pieces[80:]])
    assert same(state, clean)
    assert state.counts[count] > clean.counts[count] == 0
    assert [e.name for e in events] == ["weighed"]


def test_windows_span_enough_samples_at_any_rate() -> None:
    for rate in (10.0, 33.0, 100.0, 1000.0):
        assert NODE.online((0.1, 0.01), rate).window * rate >= weak_form.SHORTEST


def test_what_nobody_asked_for_is_named() -> None:
    state, _ = fed([BAD["another frame"][0]])
    assert "force.elsewhere.x" in state.foreign


def test_garbage_is_counted() -> None:
    state, _ = NODE.step(NODE.start(), 0.0, [], garbage=3)
    assert state.counts["garbage"] == 3


def test_behind_a_long_silence_it_goes_on() -> None:
    held = sensed(4000)
    time = held.time + np.where(held.time >= 2.0, 30.0, 0.0)
    pieces = cut(as_piece(replace(held, time=time)))
    state, events = fed(pieces[:80])
    state, more = NODE.step(state, 4.0, [])
    events += more
    state, more = fed(pieces[80:], state=state)
    events += more
    names = [e.name for e in events]
    assert names == ["weighed", "stalled", "stalled", "resumed", "resumed"]
    assert state.counts["gaps"] == 1 and state.counts["lost"] == 0
    assert load_estimate(state).body[0] == pytest.approx(BODY[0], rel=0.01)


def test_another_rate_is_told_and_followed() -> None:
    held = sensed(8000)
    rows = np.r_[0:3000, 3000:8000:4]
    fewer = Held(*(a[rows] for a in vars(held).values()))
    state, events = fed(cut(as_piece(fewer)))
    assert [e.name for e in events] == ["weighed", "rate changed"]
    assert state.online is not None and state.online.rate == pytest.approx(250.0, rel=1e-3)
    assert load_estimate(state).body[0] == pytest.approx(BODY[0], rel=0.01)


def test_samples_too_far_apart_are_not_used() -> None:
    rows = slice(0, 4000, 40)
    held = Held(*(a[rows] for a in vars(sensed(4000)).values()))
    state, events = fed(cut(as_piece(held)))
    assert state.load is None and state.counts["slow"] > 0
    assert np.isnan(load_estimate(state).body).all() and not events


STUCK = {
    "frozen": lambda w: w[:1],
    "forces frozen": lambda w: np.concatenate([np.repeat(w[:1, :3], len(w), 0), w[:, 3:]], 1),
    "zero": np.zeros_like,
    "gyro frozen": None,
}


@pytest.mark.parametrize(("fault", "size"), [*((fault, 25) for fault in STUCK), ("frozen", 1)])
def test_a_frozen_sensor_is_no_load(fault: str, size: int) -> None:
    """Not one sample of the frozen stretch is taken, in whatever parcels it comes."""
    held, change = sensed(3600), STUCK[fault]
    name = "wrench" if change else "angular_velocity"
    stuck = getattr(held, name).copy()
    stuck[2000:3200] = change(stuck[2000:3200]) if change else stuck[2000]
    state, events = fed(cut(as_piece(replace(held, **{name: stuck})), size))
    assert state.counts["frozen"] == 1200 and state.counts["lost"] == 0
    assert [e.name for e in events] == ["weighed", "stalled", "resumed"]
    assert load_estimate(state).body[0] == pytest.approx(BODY[0], rel=0.01)
    rest = np.r_[0:2000, 3200:3600]
    gap, _ = fed(cut(as_piece(held.part(rest))))
    assert gap.load is not None and state.load is not None
    assert gap.load.windows == state.load.windows
    np.testing.assert_allclose(state.load.ten, gap.load.ten, rtol=1e-9)


@pytest.mark.parametrize("size", [10, 25])
def test_a_jump_and_then_a_freeze_is_no_other_load(size: int) -> None:
    held = sensed(5000)
    stuck = held.wrench.copy()
    stuck[2000:3000] = stuck[2000] + np.array([3.0, -2.0, 5.0, 0.1, 0.2, -0.1])
    state, events = fed(cut(as_piece(replace(held, wrench=stuck)), size))
    assert [e.name for e in events if e.name not in ("stalled", "resumed")] == ["weighed"]
    assert load_estimate(state).body[0] == pytest.approx(BODY[0], rel=0.01)


@pytest.mark.parametrize("hole", [0.003, 0.03, 0.5, 20.0])
def test_wrenches_are_lost_in_holes_and_missing_in_outages(hole: float) -> None:
    held = sensed(4000)
    step = held.time[1] - held.time[0]
    time = held.time + np.where(held.time >= 2.0, hole, 0.0)
    state, _ = fed(cut(as_piece(replace(held, time=time))))
    assert state.counts["lost"] == (round(hole / step) if hole < 0.05 else 0)
    assert state.counts["gaps"] == 1


def test_a_clock_that_is_set_back_is_followed() -> None:
    held = sensed(5000)
    time = held.time - np.where(held.time >= 2.5, 1000.0, 0.0)
    state, events = fed(cut(as_piece(replace(held, time=time))))
    assert state.counts["clock set back"] == 2  # both devices'
    assert [e.name for e in events if e.name not in ("stalled", "resumed")] == [
        *("weighed", "clock set back", "clock set back")
    ]
    assert load_estimate(state).stamp == pytest.approx(START / 1e9 - 995.001, abs=0.032)
    assert load_estimate(state).body[0] == pytest.approx(BODY[0], rel=0.01)


def test_what_came_before_a_clock_was_set_back_tells_no_rate() -> None:
    held = sensed(1000)
    state = NODE.start()
    for part in (held.part(slice(500, 600)), held.part(slice(0, 100)), held.part(slice(100, 200))):
        state, _ = NODE._gathered(state, part)
    assert state.waiting is not None and not state.rate_known
    np.testing.assert_array_equal(state.waiting.time, held.time[:200])


def test_streams_of_their_own_are_aligned_by_their_stamps() -> None:
    held = sensed(3000)
    whole = as_piece(held)
    pieces = []
    for k in range(0, 3000, 25):
        rows = slice(k, k + 25)
        wrench = Piece(NODE.names[:6], whole.stamps[rows], whole.values[rows, :6])
        imu = Piece(NODE.names[6:], whole.stamps[rows][::5], whole.values[rows, 6:][::5])
        pieces += [wrench, imu] if k % 50 else [imu, wrench]
    state, _ = fed(pieces)
    assert load_estimate(state).body[0] == pytest.approx(BODY[0], rel=0.01)
    assert state.alignment.buffers["imu"].rate == pytest.approx(200.0)
    assert state.counts["alone"] == 0


def test_wrenches_without_motion_are_counted() -> None:
    whole = as_piece(sensed(4000))
    pieces = [
        Piece(NODE.names[:6], whole.stamps[k : k + 25], whole.values[k : k + 25, :6])
        for k in range(0, 4000, 25)
    ]
    state, events = fed(pieces)
    assert state.counts["alone"] == pytest.approx(3000, abs=50)
    assert [e.message for e in events] == ["nothing new comes from 'imu'"]


@pytest.mark.parametrize("apart", [-5.0, 5.0])
def test_clocks_that_are_apart_are_told(apart: float) -> None:
    whole = as_piece(sensed(4000))
    pieces = []
    for k in range(0, 4000, 25):
        rows, late = slice(k, k + 25), whole.stamps[k : k + 25] + round(apart * 1e9)
        pieces += [Piece(NODE.names[6:], late, whole.values[rows, 6:])]
        pieces += [Piece(NODE.names[:6], whole.stamps[rows], whole.values[rows, :6])]
    state, events = NODE.start(), []
    for k, piece in enumerate(pieces):
        state, more = NODE.step(state, 0.0125 * k, [piece])
        events += more
    assert [e.name for e in events] == ["clocks apart"]
    assert f"{abs(apart):.1f}" in events[0].message
    assert state.load is None and state.counts["alone"] > 2000


def test_standing_still_asks_for_motion() -> None:
    held = sensed(12_000)
    rng = np.random.default_rng(3)
    still = Held(*(np.repeat(a[:1], 12_000, axis=0) for a in vars(held).values()))
    noise = 1e-3 * rng.normal(size=(12_000, 3))
    wrench = still.wrench + rng.normal(size=(12_000, 6)) * np.repeat([0.1, 0.005], 3)
    turning = still.angular_velocity + 1e-4 * rng.normal(size=(12_000, 3))
    specific = still.specific + noise
    still = replace(
        still, time=held.time, wrench=wrench, specific=specific, angular_velocity=turning
    )
    state, events = fed(cut(as_piece(still), 100))
    assert [e.name for e in events] == ["not enough motion"]
    assert "mass, com, inertia" in events[0].message
    assert np.isnan(load_estimate(state).body).all()


WRONG = {
    "on the sensor": (lambda w: -w, "may be that on the sensor"),
    "N·mm": (lambda w: w * np.repeat([1.0, 1000.0], 3), "units"),
    "turned": (lambda w: np.concatenate([w[:, :3] @ QUARTER, w[:, 3:] @ QUARTER], 1), "frame"),
    "saturated": (
        lambda w: np.clip(w, [-3.0, -99.0, -3.0, -9, -9, -9], 3.0),
        "not one body's weight",
    ),
}
QUARTER = np.array([[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_no_weight_is_never_shown_as_one(kind: str) -> None:
    wrong, message = WRONG[kind]
    held = sensed(2500)
    state, events = fed(cut(as_piece(replace(held, wrench=wrong(held.wrench)))))
    assert [e.name for e in events] == ["no body"] and message in events[0].message
    assert np.isnan(load_estimate(state).body).all()


def test_an_empty_hand_has_no_centre_of_mass() -> None:
    held = sensed(6000)
    clean = sensed(6000, noise=(0.0, 0.0)).wrench - BIAS
    wrench = held.wrench - np.where(held.time[:, None] >= 3.0, clean, 0.0)
    state, events = fed(cut(as_piece(replace(held, wrench=wrench))))
    assert [e.name for e in events] == ["weighed", "changed", "released"]
    found = load_estimate(state)
    assert found.held is False
    # Zero is what a subscriber reckons with from then on, and not the load before.
    np.testing.assert_array_equal(found.published[0], np.zeros(10))
    assert 0.0 < found.published[1][0] < 0.05 and not found.published[1][1:].any()
    assert abs(load_estimate(state).body[0]) < 0.02
    assert (
        np.isnan(load_estimate(state).body[1:]).all()
        and np.isinf(load_estimate(state).std[1:]).all()
    )


def test_what_is_nothing_stays_nothing() -> None:
    """However the noise of an empty sensor would be made a body."""
    held = sensed(10_000)
    wrench = held.wrench - (sensed(10_000, noise=(0.0, 0.0)).wrench - BIAS)
    pieces = cut(as_piece(replace(held, wrench=wrench)), 100)
    state, told = NODE.start(), []
    for piece in pieces:
        state, _ = NODE.step(state, float(piece.stamps[-1] - START) / 1e9, [piece])
        told.append(load_estimate(state))
    known = [found for found in told if found.held is not None]
    assert len(known) > 80 and not any(found.held for found in known)
    assert max(found.body[0] for found in known) < 0.05


def test_poses_tell_the_motion_by_their_slopes() -> None:
    count = 3000
    time, rotation, _, _, _, _ = moving(count)
    place = np.array([0.3, 0.2, 0.25]) * np.sin(np.array([2.1, 1.3, 1.7]) * time[:, None])
    node = Node(Sensors.from_dict({"sensor": {"wrist": WRIST}}))
    # Signs of quaternions may jump: they are the same rotations.
    turn = quaternions(rotation) * np.where(np.arange(count) % 70 < 35, 1.0, -1.0)[:, None]
    values = np.concatenate([sensed(count).wrench, turn, place], axis=1)
    state, _ = fed(cut(Piece(node.names, stamps_of(time), values)), node)
    assert load_estimate(state).body[0] == pytest.approx(BODY[0], rel=0.01)


@pytest.mark.parametrize("lasts", [800, 2000])
@pytest.mark.parametrize("what", ["pose", "orientation", "position"])
def test_a_pose_that_freezes_is_no_motion(what: str, lasts: int) -> None:
    """A tracker that holds its last pose: wrenches have no motion then, and are not used."""
    count, stuck = 6000, slice(2000, 2000 + lasts)
    time, rotation, *_ = moving(count)
    place = np.array([0.3, 0.2, 0.25]) * np.sin(np.array([2.1, 1.3, 1.7]) * time[:, None])
    node = Node(Sensors.from_dict({"sensor": {"wrist": WRIST}}))
    turn = quaternions(rotation) * np.where(np.arange(count) % 70 < 35, 1.0, -1.0)[:, None]
    values = np.concatenate([sensed(count).wrench, turn, place], axis=1)
    held = {"pose": slice(6, 13), "orientation": slice(6, 10), "position": slice(10, 13)}[what]
    values[stuck, held] = values[2000, held]
    state, events = fed(cut(Piece(node.names, stamps_of(time), values)), node)
    assert state.counts["frozen"] == lasts and state.counts["alone"] >= lasts
    silent = ["stalled", "resumed"] if lasts > 1000 else []
    assert [e.name for e in events] == ["weighed", *silent]
    assert state.load is not None
    assert abs(load_estimate(state).body[0] - BODY[0]) < 4.0 * state.load.std[0]


def test_joints_tell_the_motion_through_the_robot() -> None:
    robot = load("ur_description/urdf/ur10_robot.urdf")
    node = Node(Sensors.from_dict({"sensor": {"wrist": WRIST}}), robot)
    time = np.arange(0.0, 4.0, 0.002)
    speeds = np.linspace(0.7, 1.9, len(robot.joints))
    q, rate = (
        0.5 * np.sin(speeds * time[:, None]) + 0.3,
        0.5 * speeds * np.cos(speeds * time[:, None]),
    )
    motion = frame_motion(robot.tree, robot.link("tool0"), q, rate)
    alpha = np.gradient(motion.angular_velocity, time, axis=0, edge_order=2)
    acceleration = np.gradient(motion.velocity, time, axis=0, edge_order=2)
    acceleration += np.cross(motion.angular_velocity, motion.velocity)
    specific = acceleration - np.einsum("nji,j->ni", motion.rotation, GRAVITY)
    wrench = inertia.wrench_regressor(specific, motion.angular_velocity, alpha) @ BODY
    wrench += np.random.default_rng(0).normal(size=wrench.shape) * np.repeat([0.1, 0.005], 3)
    piece = Piece(node.names, stamps_of(time), np.concatenate([wrench, q], axis=1))
    state, _ = fed(cut(piece), node)
    assert load_estimate(state).body[0] == pytest.approx(BODY[0], rel=0.01)


def test_what_is_known_is_gone_on_from(tmp_path: Path) -> None:
    pieces = cut(as_piece(sensed(6000)))
    before, _ = fed(pieces[:120])
    path = tmp_path / "kept"
    checkpoint.save(path, NODE, before)
    resumed = checkpoint.load(path, NODE)
    assert same(resumed, before)
    np.testing.assert_array_equal(load_estimate(resumed).body, load_estimate(before).body)
    after, events = fed(pieces[120:], state=resumed)
    assert events == []  # it was weighed before
    assert load_estimate(after).std[0] < load_estimate(before).std[0]
    assert [p.name for p in tmp_path.iterdir()] == ["kept"]


def test_the_names_in_the_file_stay(tmp_path: Path) -> None:
    """A node of another version goes on from it, whatever its code calls things."""
    state, _ = fed(cut(as_piece(sensed(1500))))
    checkpoint.save(tmp_path / "kept", NODE, state)
    content = json.loads((tmp_path / "kept").read_text().split("\n")[1])
    assert set(content) == {
        *("heft", "schema", "settings", "epoch", "noise", "rate", "following", "filter")
    }
    assert set(content["following"]) == {
        *("time", "since", "known", "settled", "rested", "restless", "begged", "windows", "spikes")
    }
    assert state.load is not None
    assert content["following"]["known"] == state.load.announced_mass
    assert content["following"]["since"] == state.load.changed_at


def test_nothing_is_gone_on_from_what_was_not_written_so(tmp_path: Path) -> None:
    state, _ = fed(cut(as_piece(sensed(1500))))
    path = tmp_path / "kept"
    assert checkpoint.load(path, NODE).load is None
    checkpoint.save(path, NODE, state)
    content = path.read_bytes()
    other = Node(
        Sensors.from_dict({"sensor": {"wrist": WRIST | {"frame": "x"}, "i": {"kind": "imu"}}})
    )
    with pytest.raises(InvalidSetting, match="other sensors"):
        checkpoint.load(path, other)
    for wrong in (b"", content[:-40], content.replace(b"1", b"2"), b"\xff\x00"):
        path.write_bytes(wrong)
        with pytest.raises(InvalidSetting, match="nothing can be resumed"):
            checkpoint.load(path, NODE)


@pytest.mark.parametrize("rate", [1.0, 10.0, 16.0, 40.0])
def test_the_rate_is_the_rate(rate: float) -> None:
    """However long each look takes; 10 Hz once were 8.9."""
    rng = np.random.default_rng(0)
    times = np.cumsum(min(0.05, 0.5 / rate) + rng.uniform(0.0, 0.2 / rate, 4000))
    due: list[Update[NodeState]] = []
    source = (Arrival(float(now), []) for now in times)
    run(NODE.step, NODE.start(), source, {"test": lambda u: due.append(u) if u.due else None}, rate)
    assert len(due) == pytest.approx(rate * (times[-1] - times[0]), abs=2)


@dataclass
class Heard:
    """A connection that keeps what is published over it."""

    texts: list[tuple[str, object]] = field(default_factory=list)
    inertias: list[tuple[float, FloatArray, FloatArray]] = field(default_factory=list)

    def publish(self, what: str, content: object) -> None:
        json.dumps(content, allow_nan=False)  # as it goes out
        self.texts.append((what, content))

    def publish_inertia(self, stamp: float, frame: str, body: FloatArray, std: FloatArray) -> None:
        assert frame == "tool0"
        self.inertias.append((stamp, body.copy(), std.copy()))


def test_no_subscriber_keeps_an_old_load() -> None:
    """From the first look on it is told what is known, and at last that nothing is held."""
    held = sensed(6000)
    clean = sensed(6000, noise=(0.0, 0.0)).wrench - BIAS
    wrench = held.wrench - np.where(held.time[:, None] >= 3.0, clean, 0.0)

    def source() -> Iterator[Arrival]:
        yield Arrival(0.0, [])
        for piece in cut(as_piece(replace(held, wrench=wrench)), 50):
            yield Arrival(float(piece.stamps[-1] - START) / 1e9, [piece])

    heard = Heard()
    before = time.time()
    state, _ = run(
        NODE.step, NODE.start(), source(), {"test": lambda u: publish(NODE, u, heard)}, 20.0
    )
    assert state.counts["untold"] == 0
    (stamp, body, std), *later = heard.inertias
    assert before <= stamp <= time.time() and np.isnan(body).all() and np.isinf(std).all()
    for stamp, body, std in later:
        # What is no number has no finite deviation, and the other way round.
        np.testing.assert_array_equal(np.isnan(body), np.isinf(std))
        since = stamp - START / 1e9
        if np.isfinite(body[0]):
            assert (body[0] == 0.0) == (since > 3.1), since
    assert later[-1][1].tolist() == [0.0] * 10
    told = [content["held"] for what, content in heard.texts if what == "estimate"]
    assert len(told) == len(heard.inertias)
    assert list(dict.fromkeys(told)) == [None, True, False]


def test_behind_a_long_pause_nothing_is_made_up_for() -> None:
    times = np.r_[np.arange(0.0, 1.0, 0.05), np.arange(100.0, 101.0, 0.05)]
    due: list[bool] = []
    source = (Arrival(float(now), []) for now in times)
    run(NODE.step, NODE.start(), source, {"test": lambda update: due.append(update.due)}, 10.0)
    assert sum(due) == pytest.approx(20, abs=2)


def test_before_the_first_sample_nothing_is_stamped() -> None:
    """What is not known is not of 1970."""
    told: list[dict[str, object]] = []
    source = (Arrival(now, []) for now in np.arange(0.0, 3.0, 0.05).tolist())
    listener = told.extend
    run(NODE.step, NODE.start(), source, {"test": lambda update: listener(update.stamped())})
    assert [e["name"] for e in told] == ["stalled", "stalled"]
    assert all(e["stamp"] is None for e in told)


def test_several_sensors_need_their_noise() -> None:
    bare = {"kind": "wrench"}
    with pytest.raises(InvalidSetting, match="by their noise"):
        Node(Sensors.from_dict({"sensor": {"left": bare, "right": bare}}))
