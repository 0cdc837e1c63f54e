"""Laws of the search for a delay: what is evidence of one, and what is not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from heft.arrays import Array
from heft.certainty import DelaySearch
from heft.certainty.settings import _View
from heft.information import Information, Labels
from heft.plants import Problem, RobotPlant
from heft.recordings import Recording
from heft.signals import Smoothing
from tests.robots import FloatArray
from tests.test_friction import robot_of
from tests.test_identification import late

CORNER = 16.0  # [Hz]


@dataclass(frozen=True)
class Curves:
    """A problem whose channels' residuals are parabolas over the delay, at each cutoff its own.

    Attributes:
        least: Of each channel, by cutoff relative to the first [s].
        depth: By how much the residual falls from a delay of 0 to the least.
    """

    least: dict[float, Sequence[float]]
    depth: float
    delay: float = 0.0
    factor: float = 1.0
    threads: int = 1

    @property
    def corner(self) -> float:
        return CORNER * self.factor

    def blurred(self, factor: float) -> Curves:
        return replace(self, factor=factor)

    def shortened(self, rows: int) -> Curves:
        return self

    def sliding(self, speed: float, settle: float) -> Curves:
        return self

    def sharpened(self, factor: float) -> None:
        return None

    def delayed(self, delay: float) -> Curves:
        return replace(self, delay=delay)

    def later(self, by: Sequence[float]) -> None:
        return None

    def information(self) -> Information:
        count = len(self.least[0.5])
        names = tuple(f"c{k}" for k in range(count))
        rows = np.random.default_rng(1).normal(size=(50, count, 2))
        return Information.from_rows(Labels(("x",), ("1",), ""), names, rows[..., :1], rows[..., 1])

    def residual_energy(self, values: Array) -> FloatArray:
        own = np.array(self.least[self.factor])
        size = np.maximum(np.abs(own), 1e-3)
        return 1.0 - self.depth + self.depth * ((self.delay - own) / size) ** 2


def found(both: Sequence[float], depth: float = 0.2, **changes: object) -> float:
    """Return the delay that is taken where both cutoffs show the same [ms]."""
    least = {factor: [1e-3 * d for d in both] for factor in (0.5, 0.25)}
    search = DelaySearch(**changes)  # type: ignore[arg-type]
    return 1e3 * search.fit(Curves(least, depth)).delay  # type: ignore[arg-type]


@pytest.mark.parametrize("delay", [1.5, 3.0, 9.0, 22.0, -3.0, -9.0])
def test_a_delay_that_all_channels_show_is_taken(delay: float) -> None:
    spread = np.array([0.95, 1.0, 1.02, 1.03])
    assert found((delay * spread).tolist()) == pytest.approx(delay, rel=0.06)


@pytest.mark.parametrize("delay", [3.0, 9.0, -9.0])
def test_no_delay_is_taken_without_a_fall_of_the_residual(delay: float) -> None:
    assert found([delay] * 4, depth=0.01) == 0.0


def test_no_delay_is_taken_on_which_channels_disagree() -> None:
    assert found([9.0, -6.0, 4.0, 1.0]) == 0.0


def test_a_long_delay_needs_channels_that_show_the_same() -> None:
    """Misfit that lasts makes long delays, of another length in each joint."""
    apart = np.array([0.8, 0.9, 1.1, 1.2])
    assert found((4.0 * apart).tolist()) == pytest.approx(4.0, rel=0.3)
    assert found((20.0 * apart).tolist()) == 0.0


def test_torque_that_comes_early_needs_more_agreement() -> None:
    apart = np.array([0.5, 0.9, 1.1, 1.5])  # their mean is four of its deviations from zero
    assert found((4.0 * apart).tolist()) == pytest.approx(4.0, rel=0.3)
    assert found((-4.0 * apart).tolist()) == 0.0


def test_torque_that_comes_early_must_do_so_at_all_cutoffs() -> None:
    """The lead that elastic drives make shrinks with the cutoff."""
    shown = [-3e-3, -3.1e-3, -2.9e-3]
    for other, delay in (([-1e-3, -1.6e-3, -0.2e-3], 0.0), (shown, -3e-3)):
        curves = Curves({0.5: shown, 0.25: other}, 0.2)
        assert DelaySearch().fit(curves).delay == pytest.approx(delay, rel=0.05)  # type: ignore[arg-type]


def test_one_cutoff_may_miss_what_another_shows() -> None:
    shown, missed = [3e-3, 3.1e-3, 2.9e-3], [3e-3, -5e-3, 1e-3]
    for least in ({0.5: shown, 0.25: missed}, {0.5: missed, 0.25: shown}):
        curves = Curves(least, 0.2)  # type: ignore[arg-type]
        assert DelaySearch().fit(curves).delay == pytest.approx(3e-3, rel=0.05)  # type: ignore[arg-type]


def test_a_cutoff_that_speaks_for_no_delay_denies_what_another_shows() -> None:
    shown = [9e-3, 9.5e-3, 8.5e-3]
    for other, delay in (([1e-3, -1e-3, 0.5e-3], 0.0), ([5e-3, 6e-3, 7e-3], 9e-3)):
        for least in ({0.5: shown, 0.25: other}, {0.5: other, 0.25: shown}):
            found = DelaySearch().fit(Curves(least, 0.2)).delay  # type: ignore[arg-type]
            assert found == pytest.approx(delay, rel=0.3)


def test_fewer_than_three_channels_need_a_deep_fall() -> None:
    assert found([4.0, 4.0], depth=0.3) == pytest.approx(4.0, rel=0.05)
    assert found([4.0, 4.0], depth=0.05) == 0.0


def test_a_delay_beyond_reach_is_not_taken() -> None:
    assert found([50.0] * 4) == 0.0


def test_the_second_look_stays_within_reach() -> None:
    """Where residuals fall towards ever greater delays, none is tried that settings refuse."""
    tried: list[float] = []

    class Falling(Curves):
        def delayed(self, delay: float) -> Curves:
            tried.append(delay)
            return Falling(self.least, self.depth, delay, self.factor)

    own = [34e-3, 34.5e-3, 33.5e-3]
    DelaySearch().fit(Falling({0.5: own, 0.25: own}, 0.2))  # type: ignore[arg-type]
    assert max(tried) == pytest.approx(0.03, abs=0.006)
    assert max(tried) <= DelaySearch().reach


def led(ahead: float, where: Callable[[FloatArray], FloatArray]) -> tuple[RobotPlant, Recording]:
    """Return the arm of `late` with torque that comes early where joints' speeds say so."""
    guess, now = late(0.0)
    _, early = late(-ahead)
    logs = []
    for log in (now, early):
        problem = Problem(RobotPlant(guess), (log,), Smoothing(delay=0.0, trim=0.0), 1)
        (samples,) = problem.samples()
        logs.append(samples)
    speed = logs[0].motion.velocity.T
    share = where(np.abs(speed))
    tau = share * logs[1].measured + (1.0 - share) * logs[0].measured
    named = [dict(zip(guess.joints, x.T, strict=True)) for x in (logs[0].motion.position.T, tau)]
    return RobotPlant(guess), Recording.from_arrays(logs[0].time, "led", q=named[0], tau=named[1])


def test_torque_that_comes_early_near_reversals_alone_is_no_delay() -> None:
    """As presliding makes it: a joint that sticks lets the torque change its sign first."""
    plant, log = led(0.01, lambda speed: np.exp(-((speed / 0.03) ** 4)))
    taken = DelaySearch().fit(Problem(plant, (log,), Smoothing(), 1))
    assert taken.delay == 0.0
    plant, log = led(0.01, np.ones_like)
    taken = DelaySearch().fit(Problem(plant, (log,), Smoothing(), 1))
    assert taken.delay == pytest.approx(-0.01, abs=0.0005)


def test_a_joint_that_never_slides_has_no_say() -> None:
    time = 0.005 * np.arange(3000)
    q = {"shoulder": 1e-4 * np.sin(3.0 * time), "elbow": 1e-4 * np.sin(2.0 * time)}
    tau = {name: np.random.default_rng(2).normal(size=len(time)) for name in q}
    log = Recording.from_arrays(time, "still", q=q, tau=tau)
    problem = Problem(RobotPlant(robot_of("planar")), (log,), Smoothing(corner=10.0), 1)
    taken = DelaySearch().fit(problem)
    assert (taken.delay, taken.ratio, taken.std) == (0.0, 1.0, 0.0)


def test_channels_without_a_least_do_not_count_among_those_that_agree() -> None:
    """A channel whose residual bends down everywhere shows no delay; slow motion makes such."""

    class Bent(Curves):
        def residual_energy(self, values: Array) -> FloatArray:
            energy = super().residual_energy(values)
            return np.where([False, False, True, True], 2.0 - energy, energy)

        def delayed(self, delay: float) -> Curves:
            return Bent(self.least, self.depth, delay, self.factor)

    both = {factor: [0.02, 0.02, 1.0, 1.0] for factor in (0.5, 0.25)}
    view = DelaySearch()._view(Bent(both, 0.2), 0.5)  # type: ignore[arg-type]
    assert view.channels == 2


@pytest.mark.parametrize("delay", [2e-3, -2e-3])
def test_views_of_three_channels_speak_by_agreement_and_of_fewer_by_the_residual(
    delay: float,
) -> None:
    search = DelaySearch()
    clear = _View(delay, 0.1e-3, 0.95, 3)
    assert search._speaks(clear)
    assert not search._speaks(replace(clear, channels=2))  # two channels' agreement is no evidence
    assert search._speaks(replace(clear, channels=2, ratio=0.8))
    assert not search._speaks(replace(clear, std=1e-3))
    assert not search._speaks(replace(clear, ratio=0.99))
    assert not search._speaks(replace(clear, mean=search.reach))
