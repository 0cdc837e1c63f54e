"""The search for the cutoff of the motion's low-pass, on residuals whose least is known."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from heft.arrays import Array
from heft.certainty import BandwidthSearch
from heft.certainty.settings import _exchanged
from heft.errors import TooLittleData
from heft.information import Information, Labels

ROWS = 400
CHANNELS = ("shoulder", "elbow")
SEARCH = BandwidthSearch()


def noise(x: Array) -> Array:
    """Return how much encoder noise adds [energy], by octaves above the initial cutoff."""
    return 4.0**x


def blur(x: Array) -> Array:
    """Return how much blurred motion adds, likewise."""
    return 4.0**-x


@dataclass(frozen=True)
class Tilted:
    """A problem whose residual energy is any function of the cutoff.

    Attributes:
        energies: Energy of each channel over octaves above the initial cutoff.
        octaves: Where this one is.
        highest: What the sampling allows [octaves].
        unsolvable: Below what no rows are left [octaves].
        scale: Unit of the torque.
        asked: What was looked at.
    """

    energies: tuple[object, ...]
    octaves: float = 0.0
    highest: float = np.inf
    unsolvable: float = -np.inf
    scale: float = 1.0
    threads: int = 1
    asked: list[float] = field(default_factory=list)

    @property
    def sensed(self) -> np.ndarray:
        return np.ones(len(CHANNELS), dtype=bool)

    def information(self) -> Information:
        if self.octaves < self.unsolvable:
            raise TooLittleData("no rows are left of these logs")
        rng = np.random.default_rng(0)
        rows = rng.standard_normal((ROWS, len(CHANNELS), 2))
        effort = self.scale * rng.standard_normal((ROWS, len(CHANNELS)))
        labels = Labels(("a", "b"), ("kg", "kg"), "base")
        return Information.from_rows(labels, CHANNELS, rows, effort)

    def residual_energy(self, values: Array) -> Array:
        self.asked.append(self.octaves)
        return self.scale**2 * np.array([float(e(self.octaves)) for e in self.energies])  # type: ignore[operator]

    def shortened(self, rows: int) -> Tilted:
        return self

    def sharpened(self, factor: float) -> Tilted | None:
        octaves = round(self.octaves + float(np.log2(factor)), 9)
        return None if octaves > self.highest else replace(self, octaves=octaves)

    def delayed(self, delay: float) -> Tilted:
        return self


def both(energy: object, **others: object) -> Tilted:
    return Tilted((energy, energy), **others)  # type: ignore[arg-type]


def chosen(problem: Tilted, search: BandwidthSearch = SEARCH) -> float:
    """Return the octaves by which the cutoff is moved."""
    return round(float(np.log2(search.fit(problem))), 9)


@pytest.mark.parametrize("least", np.arange(-4.75, 1.75, 0.25).tolist())
def test_the_least_is_found_wherever_it_is(least: float) -> None:
    """Noise above and blur below it, with rows enough of other causes to hide neither."""
    found = chosen(both(lambda x: noise(x - least) + blur(x - least)))
    expected = 0.0 if abs(least) < 0.25 else least
    # A quarter of an octave off it the score is up to 6 % larger.
    assert found == pytest.approx(expected, abs=1e-9 if abs(least) != 0.25 else 0.25)


@pytest.mark.parametrize("depth", [2.0, 2.75, 3.75])
def test_a_plateau_at_the_top_does_not_hide_what_is_below_it(depth: float) -> None:
    """As on an arm that swings almost freely: all is noise at the top, and a step gains little."""

    def energy(x: float) -> float:
        x = float(x) + depth
        return float(0.1 + 1.0 / (1.0 + 4.0 ** (6.0 * (1.3 - x))) + blur(x + 1.0))

    problem = both(energy)
    assert energy(-0.25) > 0.95 * energy(0.0)  # the first step of a walk
    found = chosen(problem)
    grid = np.arange(-5.0, 1.6, 0.25)
    best = min(energy(x) for x in grid)
    assert energy(found) <= (1.0 + SEARCH.tied) * best
    assert best < 0.4 * energy(0.0)


def test_a_log_whose_best_is_flat_stays() -> None:
    gain = 0.9 * SEARCH.worth_lowering
    assert chosen(both(lambda x: 1.0 - gain * np.exp(-((x + 2.0) ** 2)))) == 0.0
    gain = 1.5 * SEARCH.worth_lowering
    assert chosen(both(lambda x: 1.0 - gain * np.exp(-((8.0 * (x + 2.0)) ** 2)))) == -2.0


def test_raising_asks_for_less_than_lowering() -> None:
    gain = 0.5 * SEARCH.worth_lowering
    assert chosen(both(lambda x: 1.0 + gain * (-x + 8.0 * max(x - 1.0, 0.0)))) == 1.0
    gain = 0.5 * SEARCH.worth_raising
    assert chosen(both(lambda x: 1.0 - gain * float(x))) == 0.0


def test_of_cutoffs_as_good_the_nearest_is_taken() -> None:
    def energy(x: float) -> float:
        return 0.5 + 0.5 / (1.0 + 4.0 ** (-8.0 * (x + 1.1))) + 1e-4 * (x + 5.0)

    found = chosen(both(energy))
    assert found == -2.0
    assert energy(found) > energy(-3.0) > energy(-5.0)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_the_unit_of_the_torque_does_not_matter(scale: float) -> None:
    found = chosen(both(lambda x: noise(x + 2.3) + blur(x + 2.3), scale=scale))
    assert found == chosen(both(lambda x: noise(x + 2.3) + blur(x + 2.3)))


def test_channels_count_alike_whatever_their_size() -> None:
    def energies(size: float) -> Tilted:
        return Tilted(
            (
                lambda x: noise(x + 3.0) + blur(x + 3.0),
                lambda x: size * (noise(x + 1) + blur(x + 1)),
            )
        )

    assert chosen(energies(1.0)) == chosen(energies(1e6)) == pytest.approx(-2.0, abs=0.5)


def test_a_channel_without_residual_says_nothing() -> None:
    assert chosen(Tilted((lambda x: 0.0, lambda x: noise(x + 2.0) + blur(x + 2.0)))) == -2.0
    assert chosen(both(lambda x: 0.0)) == 0.0


def test_what_cannot_be_sampled_or_solved_is_not_taken() -> None:
    rising = both(lambda x: 4.0 ** -float(x), highest=0.3)
    assert chosen(rising) == 0.25
    falling = both(lambda x: 4.0 ** float(x), unsolvable=-2.6)
    assert chosen(falling) == -2.5
    assert chosen(both(lambda x: np.inf if x < -1.2 else 4.0 ** float(x))) == -1.0


def test_lower_cutoffs_are_left_out_only_where_motion_is_blurred() -> None:
    problem = both(lambda x: 1.0 + blur(x + 0.5))
    assert chosen(problem) == 1.5
    assert min(problem.asked) > -5.0
    problem = both(lambda x: 2.0 + float(x) / 5.0)
    assert chosen(problem) == -5.0


@pytest.mark.parametrize("threads", [2, 5])
def test_the_number_of_threads_does_not_matter(threads: int) -> None:
    def looked_at(threads: int) -> list[float]:
        problem = both(lambda x: noise(x + 1.3) + blur(x + 1.3), threads=threads)
        chosen(problem)
        return sorted(problem.asked)

    assert looked_at(threads) == looked_at(1)


@pytest.mark.parametrize("least", [-3.0, 1.4])
def test_once_a_delay_is_known_the_cutoff_moves_an_octave_at_most(least: float) -> None:
    problem = both(lambda x: noise(x - least) + blur(x - least))
    assert np.log2(SEARCH.refine(problem)) == np.sign(least) * SEARCH.after_delay
    assert max(np.abs(problem.asked)) <= SEARCH.after_delay


@pytest.mark.parametrize("best", [0.0, -0.75, -2.0, -3.25])
def test_a_score_with_one_least_value_is_found_within_its_quarter_octave(best: float) -> None:
    factor = BandwidthSearch().searched(lambda k: (1.0 + (k - best) ** 2) / (1.0 + best**2))
    assert factor == pytest.approx(2.0**best)


@pytest.mark.parametrize("count", [3, 30])
def test_rows_are_exchanged_as_by_the_whole_matrix(count: int) -> None:
    """Few rows against 40 unknowns, and as many as they are."""
    rng = np.random.default_rng(count)
    before, after = rng.normal(size=(2, count, 40)) / np.sqrt(60.0)
    before *= 0.9 / np.linalg.norm(before, 2)  # rows that are among those summed to the identity
    right = rng.normal(size=40)
    left = np.eye(40) - before.T @ before + after.T @ after
    np.testing.assert_allclose(_exchanged(before, after, right), np.linalg.solve(left, right))
