"""Devices aligned by their stamps: interpolation, slopes, counts, whatever comes in between."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from heft.streams import COUNTS, Aligned, Alignment, AlignmentState, Device, Piece
from tests.robots import FloatArray

START = 1_700_000_000_123_456_789  # [ns]
HALF_STEP = 0.01  # [s]
ARM = Device("arm", ("q.a", "q.b"), noisy=False)
OTHER = Device("other", ("q.c",), noisy=False, delay=0.004, half_step=HALF_STEP)
THIRD = Device("third", tuple(f"quat.tool.{k}" for k in "wxyz"), noisy=False)
ALIGNMENT = Alignment((ARM, OTHER, THIRD))
SPEED = np.array([0.3, -0.2, 0.5])  # [rad/s]
ROUNDING = 1e-9  # [s] of stamps, which are whole nanoseconds; speeds are below 1


def piece(device: Device, time: FloatArray, values: FloatArray) -> Piece:
    return Piece(device.names, START + np.round(time * 1e9).astype(np.int64), values)


def quaternion(time: FloatArray) -> FloatArray:
    half = 0.5 * time[:, None]
    return np.concatenate([np.cos(half), np.sin(half) * [[0.0, 0.6, 0.8]]], axis=1)


def moving(seconds: float = 2.0) -> list[Piece]:
    """Return straight motions as three devices tell them, of different rates, in slices of time."""
    made = []
    ends = np.arange(0.0, seconds, 0.05)
    for begin in ends:
        t = begin + np.arange(0.0, 0.05, 0.002)
        made.append(piece(ARM, t, t[:, None] * SPEED[:2]))
        t = begin + np.arange(0.001, 0.05, 0.005)
        made.append(piece(OTHER, t + OTHER.delay, t[:, None] * SPEED[2:]))
        t = begin + np.arange(0.0005, 0.05, 0.01)
        signs = np.where(np.arange(len(t)) % 2, -1.0, 1.0)[:, None]
        made.append(piece(THIRD, t, signs * quaternion(t)))
    return made


def stepped(
    pieces: list[Piece], alignment: Alignment = ALIGNMENT, at_once: int = 1
) -> tuple[AlignmentState, list[Aligned], Counter[str]]:
    state, results, counts = alignment.start(), [], Counter[str]()
    for k in range(0, len(pieces), at_once):
        some = pieces[k : k + at_once]
        now = max(float(p.stamps[-1] - START) / 1e9 for p in some)
        state, aligned = alignment.step(state, now, some)
        counts.update(aligned.counts)
        results.append(aligned)
    return state, results, counts


def gathered(results: list[Aligned]) -> list[FloatArray]:
    """Return time, values of each device, and slopes of each device."""
    samples = [a.samples for a in results if a.samples is not None]
    assert samples
    time = np.concatenate([s.time for s in samples])
    values = [np.concatenate(v) for v in zip(*(s.values for s in samples), strict=True)]
    slopes = [np.concatenate(v) for v in zip(*(s.slopes for s in samples), strict=True)]
    return [time, *values, *slopes]


@pytest.mark.parametrize("at_once", [1, 3, 10])
def test_straight_motions_are_interpolated_exactly_at_the_first_devices_times(
    at_once: int,
) -> None:
    state, results, counts = stepped(moving(), at_once=at_once)
    time, arm, other, third, none, slope, _ = gathered(results)
    assert state.epoch is not None
    t = time + (state.epoch - START) / 1e9
    np.testing.assert_allclose(np.diff(time), 0.002, atol=ROUNDING)
    np.testing.assert_allclose(arm, t[:, None] * SPEED[:2], atol=ROUNDING)
    np.testing.assert_allclose(other, t[:, None] * SPEED[2:], atol=ROUNDING)
    np.testing.assert_allclose(slope, np.full((len(t), 1), SPEED[2]), atol=ROUNDING / HALF_STEP)
    assert none.shape == (len(t), 0)
    # Interpolated over h, a sine of 1/2 rad/s is off by h²/8 of its second derivative.
    off = np.abs(np.abs((third * quaternion(t)).sum(axis=1)) - 1.0)
    assert off.max() <= 0.01**2 / 8 * 0.25 + ROUNDING
    # Those before the other devices' first samples are alone.
    assert counts["alone"] == round((t[0] + ROUNDING) / 0.002)
    assert {k for k, n in counts.items() if n} <= {"alone"} < set(COUNTS)


def test_what_comes_is_the_same_in_whatever_parcels() -> None:
    whole = gathered(stepped(moving())[1])
    for at_once in (2, 7, 30):
        parts = gathered(stepped(moving(), at_once=at_once)[1])
        for one, other in zip(whole, parts, strict=True):
            # Seconds are counted from the oldest sample in a buffer, and round there; so is a
            # quaternion's sign.
            tolerance = 4 * np.finfo(float).eps / HALF_STEP
            np.testing.assert_allclose(np.abs(one), np.abs(other), rtol=0, atol=tolerance)


def test_a_step_changes_no_state_that_it_was_given() -> None:
    pieces = moving()
    state, _, _ = stepped(pieces[:60])
    first = [ALIGNMENT.step(state, 1.0, pieces[60:90])[1] for _ in range(2)]
    assert first[0].counts == first[1].counts
    for one, other in zip(gathered(first[:1]), gathered(first[1:]), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_gap_wider_than_the_bridge_leaves_samples_alone() -> None:
    pieces = [
        p
        for p in moving()
        if p.names != THIRD.names or not 0.95 < (p.stamps[0] - START) / 1e9 < 1.15
    ]
    _, results, counts = stepped(pieces)
    before = stepped(moving())[2]["alone"]
    gap = 0.2 + 0.01  # of four slices, and a step
    assert counts["alone"] - before == pytest.approx(gap / 0.002, abs=1)
    wide = Alignment(ALIGNMENT.devices, bridge=0.3)
    assert stepped(pieces, wide)[2]["alone"] == before
    assert not any(a.notices for a in results)


def test_samples_wait_no_longer_than_they_are_told_to() -> None:
    alone = [p for p in moving(4.0) if p.names == ARM.names]
    for hold in (0.5, 1.0, 2.0):
        state, results, counts = stepped(alone, Alignment(ALIGNMENT.devices, hold=hold))
        newest = alone[-1].stamps[-1]
        assert state.aligned_until is not None
        waited = hold + ALIGNMENT.reorder
        assert (newest - state.aligned_until) / 1e9 == pytest.approx(waited, abs=0.002 + ROUNDING)
        assert counts["alone"] == pytest.approx((4.0 - waited) / 0.002, abs=1)
        assert {n.message for a in results for n in a.notices} == {
            "nothing new comes from 'other'",
            "nothing new comes from 'third'",
        }


def test_signals_of_nobody_are_named_and_counted() -> None:
    stranger = Piece(("q.x", "q.y"), np.arange(3) + START, np.zeros((3, 2)))
    _, aligned = ALIGNMENT.step(ALIGNMENT.start(), 0.0, [stranger])
    assert aligned.foreign == ("q.x", "q.y") and aligned.counts["foreign"] == 3
    assert aligned.samples is None and not aligned.notices


def test_one_message_may_hold_several_devices_signals() -> None:
    time = np.arange(0.0, 1.0, 0.002)
    two = Alignment((ARM, Device("b", ("q.c",), noisy=False)), reorder=0.0)
    values = time[:, None] * SPEED
    both = Piece((*ARM.names, "q.c"), START + np.round(time * 1e9).astype(np.int64), values)
    _, results, counts = stepped([both], two)
    _, arm, other, _, _ = gathered(results)
    np.testing.assert_array_equal(np.concatenate([arm, other], axis=1), values)
    assert not any(counts.values())


SENSOR = Device("sensor", ("force.x",))
ONE = Alignment((SENSOR,))
STEP = 0.001  # [s]


def noisy(count: int) -> tuple[FloatArray, FloatArray]:
    return np.arange(count) * STEP, np.random.default_rng(1).normal(size=(count, 1))


def parcels(order: FloatArray, time: FloatArray, values: FloatArray, size: int) -> list[Piece]:
    return [
        piece(SENSOR, time[rows], values[rows])
        for rows in (order[k : k + size] for k in range(0, len(order), size))
    ]


@pytest.mark.parametrize("size", [1, 7, 40])
@pytest.mark.parametrize("late", [0.002, 0.004])
def test_samples_a_little_late_are_sorted_in(size: int, late: float) -> None:
    time, values = noisy(1000)
    delays = np.random.default_rng(2).uniform(0.0, late, len(time))
    order = np.argsort(time + delays, kind="stable")
    assert (np.diff(order) < 0).any()
    _, results, counts = stepped(parcels(order, time, values, size), ONE)
    expected = gathered(stepped(parcels(np.arange(1000), time, values, size), ONE)[1])
    got = gathered(results)
    ends = min(len(got[0]), len(expected[0]))
    assert ends >= 1000 - round((ONE.reorder + late) / STEP) - 1 and not any(counts.values())
    begin = round((got[0][0] - expected[0][0]) / STEP)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one[:ends], other[begin : begin + ends], atol=ROUNDING)


def test_samples_later_than_that_are_counted() -> None:
    time, values = noisy(1000)
    order = np.arange(1000)
    order[300:320] = np.r_[301:320, 300]  # one comes 20 ms late
    _, results, counts = stepped(parcels(order, time, values, 1), ONE)
    assert counts == Counter(late=1)
    assert 300 not in np.round(gathered(results)[0] / STEP)


def told(results: list[Aligned]) -> list[str]:
    return [n.name for a in results for n in a.notices]


@pytest.mark.parametrize("by", [0.7, 30.0, 86_400.0])
def test_a_clock_set_forward_is_no_outage(by: float) -> None:
    time, values = noisy(1000)
    ahead = time + np.where(time >= 0.5, by, 0.0)
    for name, arrivals in (("clock set forward", time), ("", ahead)):
        state, results, counts = ONE.start(), [], Counter[str]()
        for k in range(0, 1000, 25):
            rows = slice(k, k + 25)
            state, aligned = ONE.step(
                state, float(arrivals[k + 24]), [piece(SENSOR, ahead[rows], values[rows])]
            )
            results.append(aligned)
            counts.update(aligned.counts)
        assert [n for n in told(results) if n != "stalled"] == ([name] if name else [])
        assert counts["clock set forward"] == (1 if name else 0)
        assert sum(len(a.samples.time) for a in results if a.samples is not None) >= 990


def test_what_is_held_up_and_lost_in_part_is_no_other_clock() -> None:
    """A listener that was kept from listening for 3 s, whose queue holds 1 s."""
    time, values = noisy(6000)
    state, names = ONE.start(), list[str]()
    for begin in range(0, 6000, 50):
        rows = slice(begin, begin + 50)
        arrival = float(time[rows][-1])
        if 2000 <= begin < 3000:
            arrival = 5.0  # those that were held up
        elif 3000 <= begin < 5000:
            continue  # those for which there was no room
        state, aligned = ONE.step(state, arrival, [piece(SENSOR, time[rows], values[rows])])
        names += [n.name for n in aligned.notices]
    assert "clock set forward" not in names


@pytest.mark.parametrize("by", [0.2, 5.0, 86_400.0])
def test_a_clock_set_back_is_told_and_followed(by: float) -> None:
    time, values = noisy(1000)
    stamps = time - np.where(time >= 0.5, by, 0.0)
    pieces = parcels(np.arange(1000), stamps, values, 25)
    state, results, counts = ONE.start(), [], Counter[str]()
    for k, one in enumerate(pieces):
        state, aligned = ONE.step(state, 0.025 * k, [one])
        results.append(aligned)
        counts.update(aligned.counts)
    assert told(results) == ["clock set back"]
    message = next(n.message for a in results for n in a.notices)
    behind = float(message.partition(" are ")[2].partition(" s ")[0])
    assert 0.0 <= by - behind <= (100 + 25) * STEP
    assert counts["clock set back"] == 1 and counts["late"] <= 100 + 25
    newest = [a.samples.time[-1] for a in results if a.samples is not None][-1]
    assert newest == pytest.approx(stamps[-1], abs=0.01)


@pytest.mark.parametrize("size", [1, 7, 30, 200])
def test_a_frozen_stretch_is_left_out_from_its_first_sample(size: int) -> None:
    """Whatever it froze at: a sensor that jumps and then freezes has not felt the jump."""
    time, values = noisy(1000)
    values[400:600] = 7.0
    _, results, counts = stepped(parcels(np.arange(1000), time, values, size), ONE)
    assert counts == Counter(frozen=200)
    clean = gathered(results)[1]
    assert np.abs(clean).max() < 7.0 and len(clean) >= 790


@pytest.mark.parametrize("size", [1, 7, 30])
def test_short_repeats_are_no_freeze(size: int) -> None:
    """A sensor that is read more often than it measures."""
    time, values = noisy(1000)
    values = np.repeat(values[::20], 20, axis=0)
    _, results, counts = stepped(parcels(np.arange(1000), time, values, size), ONE)
    assert not any(counts.values())
    np.testing.assert_array_equal(gathered(results)[1], values[: len(gathered(results)[0])])


# What no noise tells: it may stand still, and is frozen if it stops as nothing with mass does.

JOINTS = Device("joints", ("q.a", "q.b"), noisy=False)
STILL = Alignment((JOINTS,))
TICK = 0.002  # [s]


def angles(way: FloatArray, quantum: float = 0.0) -> FloatArray:
    """Return two joints' angles on a way; of an encoder of so many radians."""
    both = np.stack([np.sin(1.3 * way), 0.4 * np.cos(2.1 * way)], axis=1)
    return np.round(both / quantum) * quantum if quantum else both


def rest(time: FloatArray, begin: float, end: float, slowing: float) -> FloatArray:
    """Return a way that is travelled at speed 1, with a rest between smooth stop and start."""
    speed = np.clip(np.maximum(begin - time, time - end) / slowing, 0.0, 1.0)
    return np.cumsum(speed) * TICK


def joints(time: FloatArray, values: FloatArray, size: int) -> list[Piece]:
    return [piece(JOINTS, time[k : k + size], values[k : k + size]) for k in range(0, 2000, size)]


STOPS: dict[str, tuple[FloatArray, int]] = {}
CLOCK = np.arange(2000) * TICK
for _lasts in (0.1, 0.5, 1.8):
    _stuck = (CLOCK >= 1.0) & (1.0 + _lasts > CLOCK)
    _held_back = np.where(_stuck, 1.0, CLOCK)
    STOPS[f"frozen for {_lasts} s in motion"] = (angles(_held_back), int(_stuck.sum()))
    _wild = angles(CLOCK)
    _wild[_stuck] = _wild[500] + 0.3
    STOPS[f"a jump, then frozen for {_lasts} s"] = (_wild, int(_stuck.sum()))
for _slowing in (0.05, 0.3):
    for _quantum in (0.0, 1e-4, 1e-3):
        _way = rest(CLOCK, 1.2, 2.5, _slowing)
        STOPS[f"a rest behind {_slowing} s, {_quantum} rad"] = (angles(_way, _quantum), 0)
_tremble = np.random.default_rng(0).random((2000, 2)) < 0.05
STOPS["an encoder that trembles"] = (1e-4 * np.cumsum(_tremble, 0) % 2e-4, 0)
STOPS["nothing moves"] = (np.zeros((2000, 2)), 0)


@pytest.mark.parametrize(
    ("name", "size"),
    [(n, size) for n in STOPS for size in (20, 150)] + [(n, 1) for n in list(STOPS)[::4]],
)
def test_joints_that_stop_at_once_are_frozen_and_rests_are_not(name: str, size: int) -> None:
    values, expected = STOPS[name]
    _, results, counts = stepped(joints(CLOCK, values, size), STILL)
    assert counts["frozen"] == expected
    taken = gathered(results)[0]
    assert len(taken) == pytest.approx(2000 - expected, abs=0.06 / TICK)
    within = (taken > 1.0 - TICK / 2) & (taken < 1.0 + (expected - 0.5) * TICK)
    assert not expected or not within.any()
