"""Terms that are eliminated drive by drive, against one decomposition of all columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heft.certainty.possible_fits import TermDirections
from heft.certainty.support_cone import stairs
from heft.information import Directions

Array = np.ndarray[Any, np.dtype[np.float64]]
DRIVES, TERMS, BODIES, ROWS = 3, 5, 12, 400


def columns(rng: np.random.Generator) -> tuple[Array, Array]:
    """Return columns of bodies and of terms as a triangle has them, no longer apart by rows.

    Two bodies' numbers are told together only, one drive's rotor is told with a body's inertia, and
    one term of another drive is not seen.
    """
    bodies = rng.normal(size=(DRIVES * ROWS, BODIES))
    bodies[:, 1] = 2.0 * bodies[:, 0]
    terms = np.zeros((DRIVES * ROWS, DRIVES * TERMS))
    for d in range(DRIVES):
        own = slice(d * ROWS, (d + 1) * ROWS)
        terms[own, d * TERMS : (d + 1) * TERMS] = rng.normal(size=(ROWS, TERMS))
    bodies[:, 2] = terms[:, 1]
    terms[:, 2 * TERMS + 3] = 0.0
    turn = np.linalg.qr(rng.normal(size=(DRIVES * ROWS, 60)))[0]
    whole = np.linalg.qr(np.hstack([bodies, terms, turn]))[1][: BODIES + DRIVES * TERMS]
    return whole[:, :BODIES], whole[:, BODIES : BODIES + DRIVES * TERMS]


@pytest.mark.parametrize("seed", range(5))
def test_terms_surely_above_zero_are_those_of_all_columns_at_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    bodies, terms = columns(rng)
    terms /= np.maximum(np.linalg.norm(terms, axis=0), 1.0)
    rows, both = DRIVES * ROWS, np.hstack([bodies, terms])
    right = both @ rng.uniform(-5.0, 40.0, size=both.shape[1]) + rng.normal(size=len(both))
    shown = Directions.of(both, rows)
    left = shown.left[:, : shown.rank]
    rest = right - left @ (left.T @ right)
    energy = float(rest @ rest) + 100.0
    values = shown.inverse @ (left.T @ right)
    expected = (values - 1.01 * 10.0 * shown.deviations > 0.0)[BODIES:]
    found = TermDirections.of(terms, rows).surely_positive(bodies, right, rows, energy, 1.01)
    assert np.array_equal(found, expected)
    assert 0 < found.sum() < len(found)
    assert not found[1]
    assert not found[2 * TERMS + 3]


def test_what_is_left_without_terms_is_orthogonal_to_them() -> None:
    rng = np.random.default_rng(7)
    bodies, terms = columns(rng)
    found = TermDirections.of(terms, DRIVES * ROWS)
    left = found.without(bodies)
    assert np.abs(terms.T @ left).max() < 1e-10 * np.abs(terms.T @ bodies).max()
    assert found.blind.nonzero()[0].tolist() == [2 * TERMS + 3]
    again = found.inverse @ (found.seen.T @ terms)
    assert np.abs(again - np.diag(~found.blind)).max() < 1e-12
    dense = np.linalg.pinv(terms)
    assert np.abs(found.inverse @ found.seen.T - dense).max() < 1e-10 * np.abs(dense).max()


def test_stairs_say_the_same_and_hold_no_unknowns_before_their_own() -> None:
    rng = np.random.default_rng(3)
    base = rng.normal(size=(130, 90)) * np.logspace(4.0, -2.0, 130)[:, None]
    rows = base @ rng.normal(size=(90, 180))  # of rank 90, as 180 unknowns in groups
    rows[:, 100:150] = rows[:, :50] @ rng.normal(size=(50, 50))  # tells nothing new
    right = rng.normal(size=130)
    turned, pull = stairs(rows, right)
    square = rows.T @ rows
    assert np.abs(turned.T @ turned - square).max() < 1e-13 * np.abs(square).max()
    assert np.abs(turned.T @ pull - rows.T @ right).max() < 1e-12 * np.abs(rows.T @ right).max()
    assert pull @ pull == pytest.approx(right @ right)
    first = np.argmax(turned != 0.0, axis=1)[np.any(turned != 0.0, axis=1)]
    assert (np.diff(first // 50) >= 0).all()
    assert np.unique(first // 50).tolist() == [0, 1]
    assert not turned[90:].any()
