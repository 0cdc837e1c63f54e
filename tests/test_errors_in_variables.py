"""Fits whose regressors are measured, against simulated draws and exact cases."""

from __future__ import annotations

import numpy as np
import pytest

from heft.estimators import measured_regressor_covariance, signal_projection, whitening

SLOPE = np.array([0.7, -1.2])


def draw(rng: np.random.Generator, signal: float, rows: int = 300) -> tuple[np.ndarray, ...]:
    """Return regressors with noise of variance one, and what they explain, noise of one on it."""
    truth = signal * rng.normal(size=(rows, 2))
    return truth + rng.normal(size=(rows, 2)), truth @ SLOPE + rng.normal(size=rows)


@pytest.mark.parametrize("signal", [1.0, 3.0, 30.0])
def test_the_covariance_is_that_of_total_least_squares(signal: float) -> None:
    """Maximum likelihood where noise is the same in all columns: the least singular vector."""
    rng = np.random.default_rng(1)
    off, stated = [], []
    for _ in range(400):
        A, b = draw(rng, signal)
        least = np.linalg.svd(np.column_stack([A, b]), full_matrices=False)[2][-1]
        x = -least[:2] / least[2]
        spread = 1.0 + x @ x
        likely = A + np.outer(b - A @ x, x) / spread
        noise = np.eye(2) - np.outer(x, x) / spread
        found = measured_regressor_covariance(
            likely.T @ likely / spread, len(A) * noise / spread, len(A)
        )
        assert found is not None
        off.append(x - SLOPE)
        stated.append(found)
    assert np.allclose(np.cov(np.transpose(off)), np.mean(stated, axis=0), rtol=0.3, atol=1e-3)


def test_noise_alone_tells_nothing_however_long() -> None:
    rng = np.random.default_rng(2)
    for rows in (30, 300, 3000, 30000):
        for _ in range(50):
            A, _ = draw(rng, 0.0, rows)
            assert measured_regressor_covariance(A.T @ A, rows * np.eye(2), rows) is None


def test_one_direction_without_information_is_enough() -> None:
    A, _ = draw(np.random.default_rng(3), 5.0)
    A[:, 1] = A[:, 0]
    assert measured_regressor_covariance(A.T @ A, 0.0 * np.eye(2), len(A)) is None
    A[:, 1] = 0.0
    assert measured_regressor_covariance(A.T @ A, 0.0 * np.eye(2), len(A)) is None


def test_without_noise_it_is_the_inverse_information_in_any_unit() -> None:
    A, _ = draw(np.random.default_rng(4), 5.0)
    G, units = A.T @ A, np.diag([1e-6, 1e4])
    found = measured_regressor_covariance(units @ G @ units, 0.0 * G, len(A))
    assert found is not None
    assert np.allclose(units @ found @ units, np.linalg.inv(G), rtol=1e-9)


def test_what_is_more_than_noise_is_left_in_any_unit() -> None:
    rng = np.random.default_rng(5)
    units = np.diag([1e-3, 1.0, 1e3])
    along = np.array([1.0, 2.0, 0.0]) / np.sqrt(5.0)
    measured = 4.0 * rng.normal(size=(500, 1)) * along + rng.normal(size=(500, 3))
    P = signal_projection(units @ (measured.T @ measured / 500) @ units, units**2, 500)
    assert np.allclose(P @ P, P, atol=1e-9) and np.linalg.matrix_rank(P) == 1
    kept = np.linalg.solve(units, P @ units)
    assert np.allclose(kept, np.outer(along, along), atol=0.1)
    noise = rng.normal(size=(500, 3))
    assert np.all(signal_projection(noise.T @ noise / 500, np.eye(3), 500) == 0.0)


@pytest.mark.parametrize(("deviations", "rank"), [(4.9, 0), (5.1, 1)])
def test_what_noise_makes_by_five_deviations_is_a_signal(deviations: float, rank: int) -> None:
    """The mean square of n normal numbers of variance one scatters by √(2/n)."""
    moments = np.diag([1.0, 1.0 + deviations * np.sqrt(2.0 / 50.0), 1.0])
    assert np.linalg.matrix_rank(signal_projection(moments, np.eye(3), 50.0)) == rank


def test_whitening_makes_noise_one_and_survives_what_rounding_makes_singular() -> None:
    rng = np.random.default_rng(6)
    root = np.diag([1e-4, 1.0, 1e5]) @ rng.normal(size=(3, 3))
    W = whitening(root @ root.T)
    assert np.allclose(W @ root @ root.T @ W.T, np.eye(3), atol=1e-6)
    flat = np.diag([1.0, 1e6, 1.0]) @ np.outer([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    W = whitening(flat @ np.diag([1.0, 1e6, 1.0]))
    assert np.isfinite(W).all() and np.linalg.matrix_rank(W) == 3
