"""Laws of the nearest consistent robot, and of the triangle in whose norm it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from heft.arrays import Array
from heft.estimators import semidefinite
from heft.estimators.feasible_set import IDENTITY, LinearConstraints, stack, unstack
from heft.estimators.scaled_rows import inverse_of, mean_squared_error
from heft.information import Bordered, ChannelRows

MARGIN = 1e-4
every_seed = pytest.mark.parametrize("seed", range(6))


@dataclass(frozen=True)
class Case:
    """A triangle of rows of a made-up robot, and where it would like to be.

    Attributes:
        data: Rows, bodies first, then terms of drives, right-hand side last.
        weights: Of the prior.
        triangle: Of both; the first term of each drive has no sign, and is eliminated first.
        R: Its rows.
        free: Its optimum without constraints.
        constraints: On some terms, and on some bodies' numbers.
    """

    data: Array
    weights: Array
    triangle: Bordered
    R: Array
    free: Array
    constraints: LinearConstraints

    @staticmethod
    def drawn(seed: int, links: int = 4, drives: int = 4, terms: int = 5) -> Case:
        """Each drive's rows hold its own terms and the bodies beyond it."""
        rng = np.random.default_rng([seed, 7])
        bodies, size = 10 * links, 10 * links + drives * terms
        rows = []
        for k in range(drives):
            of_drive = np.zeros((40, size))
            moved = slice(10 * min(k, links), bodies)
            of_drive[:, moved] = rng.normal(size=of_drive[:, moved].shape)
            own = slice(bodies + k * terms, bodies + (k + 1) * terms)
            of_drive[:, own] = rng.normal(size=(40, terms))
            rows.append(rng.uniform(1.0, 100.0) * of_drive)
        weights = np.append(np.full(bodies, 3.0), np.full(size - bodies, 1e-6))
        wanted = 2.0 * rng.normal(size=size)
        data = np.vstack(rows)
        data = np.column_stack([data, data @ wanted])
        of_drives = np.arange(bodies, size).reshape(drives, terms)
        order = np.concatenate([of_drives[:, 0], of_drives[:, 1:].ravel()])
        seen = Bordered.by_drives(data, weights[order], order)
        triangle = seen.with_prior(weights[:bodies], np.zeros(bodies))
        held = np.zeros((drives * (terms - 1) + 2, size))
        signed = [bodies + k * terms + i for k in range(drives) for i in range(1, terms)]
        held[np.arange(len(signed)), signed] = 1.0
        held[-2, 3:6], held[-1, 5] = 1.0, -1.0
        least = np.append(np.zeros(len(signed)), [0.5, -3.0])
        names = tuple(f"c{k}" for k in range(len(held)))
        constraints = LinearConstraints(names, held, least, np.zeros(len(held), dtype=bool))
        R = triangle.placed()[:-1, :-1]
        return Case(data, weights, triangle, R, triangle.solution(), constraints)

    def length(self, unknown: Array) -> float:
        """‖R (u − free)‖."""
        return float(np.linalg.norm(self.R @ (unknown - self.free)))

    def least_eigenvalue(self, unknown: Array) -> float:
        """Of all bodies."""
        bodies = unstack(unknown[: len(self.triangle.R)].reshape(-1, 10))
        return float(np.linalg.eigvalsh(bodies).min())


@every_seed
def test_drives_first_are_the_same_sums_of_squares(seed: int) -> None:
    case = Case.drawn(seed)
    prior = np.column_stack([np.diag(case.weights), np.zeros(len(case.weights))])
    stacked = np.vstack([case.data, prior])
    square, rows = stacked.T @ stacked, case.triangle.placed()
    np.testing.assert_allclose(rows.T @ rows, square, rtol=0.0, atol=1e-13 * square.max())
    terms = np.concatenate([drive.own for drive in case.triangle.corners])
    assert sorted(terms) == list(range(len(case.triangle.R), len(case.R)))
    assert all(drive.own[0] % 5 == 0 for drive in case.triangle.corners)


@every_seed
def test_solving_undoes_the_rows(seed: int) -> None:
    case = Case.drawn(seed)
    inverse = inverse_of(case.triangle)
    many = np.random.default_rng(seed).normal(size=(3, len(case.R)))
    np.testing.assert_allclose(inverse.times(many) @ case.R, many, atol=1e-9)
    np.testing.assert_allclose(inverse.back(many) @ case.R.T, many, atol=1e-9)
    np.testing.assert_allclose(case.R @ inverse.back(many[0]), many[0], atol=1e-9)
    np.testing.assert_allclose(case.R.T @ inverse.times(many[0]), many[0], atol=1e-9)
    np.testing.assert_allclose(inverse.matrix @ case.R, np.eye(len(case.R)), atol=1e-9)


@every_seed
def test_shared_columns_seen_through_a_map_are_those_of_its_unknowns(seed: int) -> None:
    case = Case.drawn(seed)
    bodies = len(case.triangle.R)
    matrix = np.random.default_rng(seed).normal(size=(bodies, 7))
    mapped = case.triangle.seen_through(matrix).placed()
    rows = case.triangle.placed()
    expected = np.column_stack([rows[:, :bodies] @ matrix, rows[:, bodies:]])
    square = expected.T @ expected
    np.testing.assert_allclose(mapped.T @ mapped, square, rtol=0.0, atol=1e-12 * square.max())


def test_what_a_drive_does_not_move_is_not_in_its_rows() -> None:
    triangle = Case.drawn(0).triangle
    first = sorted(int(drive.shared[0]) for drive in triangle.corners)
    assert first == [0, 10, 20, 30]


@every_seed
def test_errors_are_those_of_dense_matrices(seed: int) -> None:
    case = Case.drawn(seed)
    size = len(case.R)
    data, prior = case.data[:, :-1], np.diag(case.weights)
    factor = np.random.default_rng(seed).normal(size=(7, size))
    A = np.linalg.pinv(np.vstack([data, prior]))
    of_data, of_prior = A[:, : len(data)], A[:, len(data) :]
    for spread in (None, factor):
        scores = [ChannelRows.held(data if spread is None else spread)]
        mine = mean_squared_error(case.triangle, [np.arange(size)], case.weights, 1.5, scores)
        half = of_data if spread is None else A @ A.T @ spread.T
        noise = half @ half.T
        for one, two in zip(mine, (noise + 1.5**2 * of_prior @ of_prior.T, noise), strict=True):
            np.testing.assert_allclose(one, two, atol=1e-9 * np.abs(two).max())


@every_seed
def test_the_nearest_keeps_all_constraints(seed: int) -> None:
    case = Case.drawn(seed)
    found = semidefinite.nearest_body(case.triangle, case.free, case.constraints, MARGIN)
    assert found is not None
    rounding = 2e-8 * np.abs(case.free).max()  # which the solver leaves, and processors differ in
    assert case.least_eigenvalue(found[0]) >= MARGIN - rounding
    slack = case.constraints.rows @ found[0] - case.constraints.least
    assert slack.min() >= -rounding
    np.testing.assert_allclose(slack[found[2]], 0.0, atol=1e-6)


@every_seed
def test_no_other_consistent_robot_is_nearer(seed: int) -> None:
    """Slopes towards feasible points are not negative: the optimality of a convex problem."""
    case = Case.drawn(seed)
    found = semidefinite.nearest_body(case.triangle, case.free, case.constraints, MARGIN)
    assert found is not None
    slope = case.R.T @ (case.R @ (found[0] - case.free))
    rng = np.random.default_rng([seed, 8])
    points = np.abs(rng.normal(size=(200, len(case.R))))
    roots = rng.normal(size=(200, 4, 4, 4))
    bodies = roots @ np.swapaxes(roots, -1, -2) + MARGIN * np.eye(4)
    points[:, : len(case.triangle.R)] = stack(bodies).reshape(200, -1)
    keep = (points @ case.constraints.rows.T >= case.constraints.least).all(axis=1)
    assert keep.sum() > 10
    gains = (points[keep] - found[0]) @ slope
    assert gains.min() >= -1e-6 * np.abs(gains).max()


def test_no_drives_and_no_constraints() -> None:
    """A body alone: its projection in the plain norm raises its eigenvalues."""
    free = IDENTITY - 3.0 * np.eye(10)[2]
    bare = Bordered.by_drives(np.zeros((0, 11)), np.zeros(0), np.arange(0))
    triangle = bare.with_prior(np.ones(10), free)
    none = LinearConstraints((), np.zeros((0, 10)), np.zeros(0), np.zeros(0, dtype=bool))
    found = semidefinite.nearest_body(triangle, free, none, 0.0)
    assert found is not None
    values, vectors = np.linalg.eigh(unstack(free))
    raised = (vectors * np.maximum(values, 0.0)) @ vectors.T
    np.testing.assert_allclose(unstack(found[0]), raised, atol=1e-4)


def test_equations_are_kept() -> None:
    case = Case.drawn(1)
    held = case.constraints
    equal = held.equal.copy()
    equal[-2] = True
    constraints = LinearConstraints(held.names, held.rows, held.least, equal)
    found = semidefinite.nearest_body(case.triangle, case.free, constraints, MARGIN)
    assert found is not None
    assert abs(held.rows[-2] @ found[0] - held.least[-2]) < 1e-7


def test_where_nothing_is_inside_there_is_no_nearest() -> None:
    case = Case.drawn(2)
    row = np.zeros((1, len(case.R)))
    row[0, 0] = -1.0  # an entry of a diagonal, below zero
    constraints = LinearConstraints(("no",), row, np.ones(1), np.zeros(1, dtype=bool))
    found = semidefinite.nearest_body(case.triangle, case.free, constraints, MARGIN)
    assert found is None
