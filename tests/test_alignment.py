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
        assert (newest - state.aligned_until) / 1e9 == pytest.approx(hold, abs=0.002 + ROUNDING)
        assert counts["alone"] == pytest.approx((4.0 - hold) / 0.002, abs=1)
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
    two = Alignment((ARM, Device("b", ("q.c",), noisy=False)))
    values = time[:, None] * SPEED
    both = Piece((*ARM.names, "q.c"), START + np.round(time * 1e9).astype(np.int64), values)
    _, results, counts = stepped([both], two)
    _, arm, other, _, _ = gathered(results)
    np.testing.assert_array_equal(np.concatenate([arm, other], axis=1), values)
    assert not any(counts.values())
