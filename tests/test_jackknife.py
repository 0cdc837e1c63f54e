"""Least squares with deviations by leaving out groups of rows: laws and coverage."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import scipy.optimize
import scipy.signal

from heft.certainty import JackknifeFit, fit_jackknife
from heft.information import Triangle, triangle_of
from tests.robots import FloatArray

ANY = (False, False)
NOTHING = np.zeros((2, 2))


def parts(X: FloatArray, y: FloatArray, group: FloatArray) -> list[Triangle]:
    """Return the triangles of groups of rows."""
    size = X.shape[1]
    rows = [np.column_stack([X, y])[group == k] for k in np.unique(group)]
    return [Triangle(np.arange(size), triangle_of(r), len(r)) for r in rows]


def blocks(rows: int, count: int = 12) -> FloatArray:
    """Return the number of each row's contiguous group."""
    return np.arange(rows) * count // rows


def fitted(
    X: FloatArray,
    y: FloatArray,
    groups: Sequence[FloatArray],
    positive: Sequence[bool] = ANY,
    moments: FloatArray | None = None,
) -> JackknifeFit:
    known = np.zeros((X.shape[1],) * 2) if moments is None else moments @ moments.T
    return fit_jackknife([parts(X, y, g) for g in groups], positive, known)


def rows_of(seed: int, rows: int = 1200) -> tuple[FloatArray, FloatArray]:
    """Return rows and the noise of deviation one of what is measured."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, 2)) * np.array([3.0, 0.2]), rng.normal(size=rows)


@pytest.mark.parametrize("positive", [(False, False), (True, True)])
def test_values_are_those_of_bounded_least_squares(positive: tuple[bool, bool]) -> None:
    X, noise = rows_of(0)
    y = X @ np.array([0.7, -2.0]) + noise
    found = fitted(X, y, [blocks(len(y))], positive)
    lower = np.where(positive, 0.0, -np.inf)
    wanted = scipy.optimize.lsq_linear(X, y, (lower, np.inf), method="bvls").x
    np.testing.assert_allclose(found.values, wanted, rtol=0, atol=1e-10)
    assert found.std.shape == (2,) and (found.std > 0.0).all()


def test_deviations_are_those_of_the_formula_and_of_repeated_fits() -> None:
    X, noise = rows_of(1, 300)
    y = X @ np.array([0.7, -2.0]) + noise
    found = fitted(X, y, [blocks(300, 10), np.arange(300) % 5])
    full = np.linalg.lstsq(X, y, rcond=None)[0]
    variance = np.sum((y - X @ full) ** 2) / 298 * np.diag(np.linalg.inv(X.T @ X))
    for group, count in ((blocks(300, 10), 10), (np.arange(300) % 5, 5)):
        for k in range(count):
            rest = np.linalg.lstsq(X[group != k], y[group != k], rcond=None)[0]
            variance += (count - 1) / count * (rest - full) ** 2
    np.testing.assert_allclose(found.std, np.sqrt(variance), rtol=1e-9)


def test_scaling_what_is_measured_or_a_column_scales_values_and_deviations() -> None:
    X, noise = rows_of(2)
    y, group = X @ np.array([0.7, 2.0]) + noise, [blocks(len(noise))]
    one = fitted(X, y, group)
    two = fitted(X * np.array([1e3, 1.0]), 5.0 * y, group)
    for name in ("values", "std"):
        scaled = getattr(two, name) / 5.0 * np.array([1e3, 1.0])
        np.testing.assert_allclose(scaled, getattr(one, name), rtol=1e-9)


def test_noise_with_a_memory_is_counted() -> None:
    z = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        X = np.column_stack([np.sin(np.arange(2400) / 50.0), np.ones(2400)])
        noise = scipy.signal.lfilter([1.0], [1.0, -0.95], rng.normal(size=2400))
        found = fitted(X, X @ np.array([0.7, -2.0]) + noise, [blocks(2400)])
        z.append((found.values - np.array([0.7, -2.0])) / found.std)
    # White noise's formula alone would give 6: √((1 + .95)/(1 − .95)).
    rms = np.sqrt(np.mean(np.square(z), axis=0))
    assert (rms > 0.7).all() and (rms < 1.4).all()


def test_misfit_that_depends_on_the_condition_is_counted() -> None:
    v = np.linspace(0.1, 1.0, 3000)
    X, y = np.column_stack([v, np.ones_like(v)]), v + 0.3 * v**2  # no line
    by_speed = fitted(X, y, [blocks(len(v), 6)])
    by_chance = fitted(X, y, [np.arange(len(v)) % 6])
    # Of which conditions there were more, the line depends on.
    often = np.where(v < 0.5, 3.0, 1.0)
    other = np.linalg.lstsq(often[:, None] * X, often * y, rcond=None)[0]
    assert (np.abs(other - by_speed.values) < 2.0 * by_speed.std).all()
    assert (np.abs(other - by_speed.values) > 10.0 * by_chance.std).all()


def test_known_errors_of_what_is_measured_are_counted() -> None:
    X, _ = rows_of(3)
    rng = np.random.default_rng(3)
    errors = 0.1 * rng.normal(size=(len(X), 3))
    found = fitted(X, X @ np.array([1.0, 2.0]), [blocks(len(X))], moments=X.T @ errors)
    moved = np.linalg.lstsq(X, errors, rcond=None)[0]
    np.testing.assert_allclose(found.std, np.linalg.norm(moved, axis=1), rtol=1e-6)


def test_what_no_row_shows_gets_zero_and_no_certainty() -> None:
    X, noise = rows_of(4)
    X[:, 1] = 0.0
    found = fitted(X, X @ np.ones(2) + noise, [blocks(len(noise))])
    assert found.values[1] == 0.0 and np.isinf(found.std[1]) and np.isfinite(found.std[0])
    empty = fit_jackknife([[]], ANY, NOTHING)
    assert empty.values.tolist() == [0.0, 0.0] and np.isinf(empty.std).all()


def test_what_rows_cannot_tell_apart_gets_no_certainty() -> None:
    X, noise = rows_of(5)
    X = np.column_stack([X, -2.0 * X[:, 0]])
    found = fitted(X, X @ np.ones(3) + noise, [blocks(len(noise))], (False,) * 3)
    assert np.isinf(found.std).tolist() == [True, False, True]


def test_columns_that_rows_cannot_tell_apart_get_no_absurd_values() -> None:
    """A joint that slides one way has Coulomb friction that is an offset as well."""
    X, noise = rows_of(6)
    X = np.column_stack([X, X[:, 0]])
    found = fitted(X, X @ np.ones(3) + noise, [blocks(len(noise))], (False, True, True))
    assert np.abs(found.values).max() < 3.0 and found.values[0] + found.values[2] > 1.5
    assert np.isinf(found.std).tolist() == [True, False, True]


def test_one_group_alone_gives_no_certainty() -> None:
    X, noise = rows_of(6)
    assert np.isinf(fitted(X, noise, [np.zeros(len(noise))]).std).all()
