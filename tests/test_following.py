"""Following a load: the batch solution in motion, changes, spikes, drift, gaps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from heft.applications.payload.by_wrench import Weigh
from heft.applications.payload.estimate import Weighed
from heft.applications.payload.online import Online, OnlineState, without_spikes
from heft.applications.payload.sensors import Bias
from heft.errors import InvalidSetting
from heft.information import inertia
from heft.plants.wrench_sensor import Held
from heft.signals import WhiteWeak
from heft.streams import Event
from tests.wrists import BIAS, BODY, sensed

NOISE = (0.1, 0.005)
CHANGE = 8.0  # [s]


def followed(held: Held, online: Online, chunk: int = 25) -> tuple[OnlineState, list[Event]]:
    state, events = online.start(), []
    for k in range(0, len(held.time), chunk):
        state, more = online.step(state, held.part(slice(k, k + chunk)))
        events += more
    return state, events


def with_change(held: Held, share: float) -> Held:
    """Return the same with another load from CHANGE on, the bias as it was."""
    clean = sensed(len(held.time), noise=(0.0, 0.0))
    more = np.where(held.time[:, None] >= CHANGE, (share - 1.0) * (clean.wrench - BIAS), 0.0)
    return replace(held, wrench=held.wrench + more)


def in_one(held: Held, online: Online, bias: Bias) -> Weighed:
    """Return the least squares of the same windows, each counted as when it is followed."""
    weigh = Weigh(noise=NOISE, bias=bias, overlap=online.overlap)
    problem = weigh.problem(held)
    assert isinstance(problem.weak, WhiteWeak)
    return weigh.solve(replace(problem, weak=replace(problem.weak, whitened=False)))


@pytest.mark.parametrize("chunk", [1, 25, 400])
def test_what_is_followed_is_what_is_weighed(chunk: int) -> None:
    held = sensed(3000)
    online = Online(NOISE, 1000.0, memory=None, bias_walk=(1e-9, 1e-9))
    state, _ = followed(held, online, chunk)
    found = online.filter.settled(state.filter).values
    batch = in_one(held, online, "constant")
    np.testing.assert_allclose(found[:10], batch.solution[:10], rtol=0, atol=1e-5)
    # What whitening makes better is little: the spectrum of so slow a motion is flat.
    whitened = Weigh(noise=NOISE, bias="constant", delay=False).fit(held)
    off = np.abs(found[:10] - whitened.solution[:10]) / np.sqrt(np.diag(whitened.covariance)[:10])
    assert off.max() < 0.5


@pytest.mark.parametrize("bias", ["none", "constant"])
def test_a_bias_that_is_known_or_stays_is_one_of_the_batch(bias: Bias) -> None:
    held = sensed(3000)
    if bias == "none":
        held = replace(held, wrench=held.wrench - BIAS)
    online = Online(NOISE, 1000.0, memory=None, bias=bias)
    state, _ = followed(held, online)
    found = online.filter.settled(state.filter).values
    batch = in_one(held, online, bias)
    np.testing.assert_allclose(found, batch.solution, rtol=0, atol=1e-5)


def test_one_pose_weighs_a_load_where_the_bias_is_known() -> None:
    rng = np.random.default_rng(0)
    still = np.zeros((3000, 3))
    specific = np.tile([0.0, 3.0, np.sqrt(9.81**2 - 9.0)], (3000, 1))
    wrench = inertia.wrench_regressor(specific, still, still) @ BODY
    wrench += rng.normal(size=wrench.shape) * np.repeat(NOISE, 3)
    held = Held.with_accelerometer(np.arange(3000) / 1000.0, wrench, specific, still)
    state, events = followed(held, Online(NOISE, 1000.0, bias="none"))
    assert [e.name for e in events] == ["weighed"]
    assert state.ten[0] == pytest.approx(BODY[0], rel=0.005)
    _, events = followed(held, Online(NOISE, 1000.0, patience=2.0))
    assert [e.name for e in events] == ["not enough motion"]


@pytest.mark.parametrize("share", [0.6, 0.9, 1.1, 1.4])
def test_a_changed_load_is_announced_once_and_weighed_anew(share: float) -> None:
    state, events = followed(with_change(sensed(13_000), share), Online(NOISE, 1000.0))
    changes = [e.time for e in events if e.name == "changed"]
    assert len(changes) == 1 and CHANGE <= changes[0] <= CHANGE + 0.1
    assert state.ten[0] == pytest.approx(share * BODY[0], rel=0.005)
    assert inertia.consistency_margin(state.body) > 0.0


def test_letting_go_and_taking_up_are_told_by_name() -> None:
    held = sensed(13_000)
    _, events = followed(with_change(held, 0.0), Online(NOISE, 1000.0))
    assert [e.name for e in events] == ["weighed", "changed", "released"]
    # The other way round: nothing until CHANGE, then the load.
    load = held.wrench - with_change(held, 0.0).wrench
    clean = sensed(13_000, noise=(0.0, 0.0)).wrench - BIAS
    taken = replace(held, wrench=held.wrench - clean + load)
    _, events = followed(taken, Online(NOISE, 1000.0))
    assert [e.name for e in events] == ["weighed", "changed", "grasped"]


def test_spikes_are_not_changes() -> None:
    held = sensed(8000)
    wrench, rng = held.wrench.copy(), np.random.default_rng(0)
    at = rng.integers(0, 8000, 25)
    wrench[at, rng.integers(0, 6, 25)] += rng.choice([-40.0, 40.0], 25)
    state, events = followed(replace(held, wrench=wrench), Online(NOISE, 1000.0))
    assert [e.name for e in events] == ["weighed"]
    assert state.spikes >= 20
    assert state.ten[0] == pytest.approx(BODY[0], rel=0.01)


def test_a_drifting_bias_is_not_a_change() -> None:
    held = sensed(20_000)
    ramp = np.linspace(0.0, 0.2, 20_000)[:, None] * np.array([1, 1, 1, 0.05, 0.05, 0.05])
    _, events = followed(replace(held, wrench=held.wrench + ramp), Online(NOISE, 1000.0))
    assert [e.name for e in events] == ["weighed"]


def test_noise_alone_has_no_spikes() -> None:
    noise = np.repeat(NOISE, 3)
    wrench = np.random.default_rng(1).normal(size=(20_000, 6)) * noise
    same, count = without_spikes(wrench, noise)
    assert count == 0 and np.array_equal(same, wrench)


def test_behind_a_gap_windows_begin_anew() -> None:
    held = sensed(6000)
    cut = Held(*(np.delete(a, slice(2000, 2500), axis=0) for a in vars(held).values()))
    state, events = followed(cut, Online(NOISE, 1000.0))
    assert [e.name for e in events] == ["weighed"]
    assert state.ten[0] == pytest.approx(BODY[0], rel=0.01)


def test_a_window_of_too_few_samples_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="too few samples"):
        Online(NOISE, 100.0)
