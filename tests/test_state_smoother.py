"""Innovations as information, smoothed states and the filter: against one large least squares."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

from heft.arrays import Array
from heft.estimators import LinearisedLog, StateFilter

N, S, P, M = 9, 4, 2, 3


def log(seed: int, missing: bool) -> LinearisedLog:
    """Return a random time-varying linear system with its measurements."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(N - 1, S, S - 1))  # a singular covariance: some states are exact
    variance = rng.uniform(0.5, 2.0, size=(N, M))
    if missing:
        variance[3, 1] = variance[5] = variance[0, 0] = np.inf
    residual = np.where(np.isfinite(variance), rng.normal(size=(N, M)), np.nan)
    return LinearisedLog(
        rng.normal(size=(N - 1, S, S)), rng.normal(size=(N - 1, S, P)),
        rng.normal(size=(N - 1, S)), root @ np.swapaxes(root, 1, 2), residual, variance,
        2.0 * np.eye(S),
    )  # fmt: skip


def solved(problem: LinearisedLog) -> tuple[Array, Array, Array, float]:
    """Return θ, its covariance, the states and what is left over, by least squares at once.

    The unknowns are θ, the first error and the steps' noise, so that a singular covariance is no
    matter.
    """
    roots = [np.linalg.svd(Q) for Q in problem.process]
    noise = [U * np.sqrt(s) for U, s, _ in roots]
    size = P + S + (N - 1) * S
    states = np.zeros((N, S, size + 1))
    states[0, :, P : P + S] = np.eye(S)
    for n in range(N - 1):
        states[n + 1] = problem.by_error[n] @ states[n]
        states[n + 1, :, :P] += problem.by_parameters[n]
        states[n + 1, :, P + S * (n + 1) : P + S * (n + 2)] += noise[n]
        states[n + 1, :, -1] += problem.defect[n]
    rows = [np.eye(size)[P : P + S] / np.sqrt(2.0), np.eye(size)[P + S :]]
    right = [np.zeros(S), np.zeros((N - 1) * S)]
    for n in range(N):
        seen = np.isfinite(problem.variance[n])
        scale = np.sqrt(problem.variance[n][seen])[:, None]
        rows.append(states[n, :M, :-1][seen] / scale)
        right.append((problem.residual[n] - states[n, :M, -1])[seen] / scale[:, 0])
    A, b = np.vstack(rows), np.concatenate(right)
    x = np.linalg.lstsq(A, b, rcond=None)[0]
    covariance = np.linalg.inv(A.T @ A)[:P, :P]
    return (
        x[:P],
        covariance,
        states[:, :, :-1] @ x + states[:, :, -1],
        float(np.sum((A @ x - b) ** 2)),
    )


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_smoother_is_least_squares_of_all_unknowns(seed: int, missing: bool) -> None:
    problem = log(seed, missing)
    values, covariance, states, energy = solved(problem)
    innovations = problem.innovations()
    t = innovations.triangle
    found = np.linalg.solve(t.R, t.z)
    assert np.allclose(found, values, atol=1e-9)
    assert np.allclose(np.linalg.inv(t.R.T @ t.R), covariance, rtol=1e-8)
    assert np.isclose(t.energy, energy, rtol=1e-8)
    assert np.allclose(innovations.smoothed(found), states, atol=1e-8)


def test_innovations_end_with_the_last_that_asks_of_them() -> None:
    """A search makes hundreds of them, of megabytes: none waits for a search for cycles."""
    problem = log(0, False)
    innovations = problem.innovations()
    assert innovations.triangle.rows
    there = weakref.ref(innovations)
    del innovations
    assert there() is None


def test_information_of_the_innovations_adds_sample_by_sample_in_the_filter() -> None:
    problem = log(7, True)
    prior = np.diag([3.0, 5.0])
    filter_ = StateFilter(outlier=0.0, groups=(1,) * M)
    error = filter_.start(problem.start, prior)
    for n in range(N):
        if n:
            error = filter_.predicted(
                error, problem.by_error[n - 1], problem.by_parameters[n - 1], problem.process[n - 1]
            )
            # The defect is a known shift of the states, which the point carries.
            error.columns[:, -1] += problem.defect[n - 1]
        error = filter_.updated(error, problem.residual[n], problem.variance[n])
    t = problem.innovations().triangle
    information = t.R.T @ t.R + np.linalg.inv(prior)
    assert np.allclose(error.covariance, np.linalg.inv(information), rtol=1e-9)
    assert np.allclose(error.parameters, np.linalg.solve(information, t.R.T @ t.z), atol=1e-9)


def test_moving_the_point_changes_no_estimate() -> None:
    problem = log(2, False)
    filter_ = StateFilter(outlier=0.0, groups=(1,) * M)
    error = filter_.updated(
        filter_.start(problem.start, np.eye(P)), problem.residual[0], problem.variance[0]
    )
    error = filter_.predicted(
        error, problem.by_error[0], problem.by_parameters[0], problem.process[0]
    )
    error = filter_.updated(error, problem.residual[1], problem.variance[1])
    shift = np.array([0.3, -0.2])
    moved = error.moved(shift)
    assert np.allclose(moved.parameters + shift, error.parameters)
    assert np.allclose(moved.states, 0.0, atol=1e-12)
    assert np.allclose(moved.covariance, error.covariance)
