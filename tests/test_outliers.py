"""Running medians, what stands out from them, and the pieces of a clock between gaps."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from heft.signals.clock import between_gaps, follows, median_of_medians
from heft.signals.outliers import replace_outliers, running_median


@pytest.mark.parametrize("window", [3, 5, 11])
def test_a_running_median_is_that_of_each_window_mirrored_at_the_ends(window: int) -> None:
    values = np.random.default_rng(window).normal(size=(50, 3))
    half = window // 2
    padded = np.pad(values, ((half, half), (0, 0)), mode="reflect")
    wanted = [np.median(padded[k : k + window], axis=0) for k in range(50)]
    assert np.array_equal(running_median(values, window), wanted)


def test_a_window_with_a_hole_has_no_median() -> None:
    values = np.arange(7.0)[:, None]
    values[3] = np.nan
    for window in (3, 5):
        holes = np.flatnonzero(np.isnan(running_median(values, window)[:, 0]))
        assert holes.tolist() == list(range(3 - window // 2, 4 + window // 2))


def test_only_what_is_far_from_its_median_is_replaced() -> None:
    values = np.linspace(0.0, 1.0, 20)[:, None] * np.ones(2)
    values[7, 1] += 5.0
    calm, far = replace_outliers(values, 5, np.array([1.0, 1.0]))
    assert np.argwhere(far).tolist() == [[7, 1]]
    assert calm[7, 1] == np.median(values[5:10, 1])
    assert np.array_equal(np.delete(calm[:, 1], 7), np.delete(values[:, 1], 7))
    short, none = replace_outliers(values[:4], 5, 1e-9)
    assert np.array_equal(short, values[:4]) and not none.any()


def test_pieces_end_at_silences_and_where_a_clock_does_not_advance() -> None:
    time = np.array([0.0, 1.0, 2.0, 12.0, 13.0, 13.0, 14.0, 5.0])
    pieces = list(between_gaps(time, 2.0))
    assert pieces == [slice(0, 3), slice(3, 5), slice(5, 7), slice(7, 8)]
    assert list(between_gaps(time[:0], 2.0)) == []
    assert list(between_gaps(time[:3], 1.0)) == [slice(0, 3)]  # a step of the longest is none
    for first, second in pairwise(pieces):
        assert not follows(time[second.start], time[first.stop - 1], 2.0)


def test_the_median_of_medians_counts_each_block_by_its_size() -> None:
    assert median_of_medians([(3.0, 1), (1.0, 5), (2.0, 1)]) == 1.0
    assert median_of_medians([(3.0, 9), (1.0, 2), (2.0, 3)]) == 3.0
