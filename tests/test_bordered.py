"""Sums of triangles with what one channel alone holds eliminated first, against dense matrices."""

from dataclasses import replace

import numpy as np
import pytest

from heft.certainty.blocks import Left
from heft.estimators import LeastSquares
from heft.information import (
    Bordered,
    BorderedInverse,
    ChannelRows,
    Information,
    Labels,
    folding,
    inverses,
    shortest,
    triangle_of,
)
from heft.information.bordered import Corner

RNG = np.random.default_rng(7)
CHANNELS, OWN, SHARED = 6, 9, 14  # columns of each channel alone, and of all
SIZE = CHANNELS * OWN + SHARED
LABELS = Labels(tuple(f"x{k}" for k in range(SIZE)), ("1",) * SIZE)
NAMES = tuple(f"c{k}" for k in range(CHANNELS))
WEIGHTS = dict(zip(NAMES, np.linspace(0.5, 3.0, CHANNELS).tolist(), strict=True))


def information(samples: int = 60, seed: int = 1, own_scale: float = 1.0) -> Information:
    """Shared columns first, as bodies are, then each channel's own."""
    rng = np.random.default_rng(seed)
    Y = np.zeros((samples, CHANNELS, SIZE))
    for c in range(CHANNELS):
        seen = SHARED - 2 * max(c - 1, 0)  # channels further out see fewer
        Y[:, c, SHARED - seen : SHARED] = rng.standard_normal((samples, seen))
        own = slice(SHARED + c * OWN, SHARED + (c + 1) * OWN)
        Y[:, c, own] = own_scale * rng.standard_normal((samples, OWN))
    return Information.from_rows(LABELS, NAMES, Y, rng.standard_normal((samples, CHANNELS)))


def dense(found: Information) -> np.ndarray:
    """All rows, weighted, right-hand side last."""
    spread = [WEIGHTS[n] * t.spread(SIZE) for n, t in zip(NAMES, found.triangles, strict=True)]
    return np.vstack(spread)


def whole(total: Bordered) -> np.ndarray:
    """The inverse as a dense matrix, in its own order of coordinates."""
    inverse = total.inverse
    assert inverse is not None
    return np.column_stack([inverse.back(unit) for unit in np.eye(SIZE)])


def test_sum_is_that_of_stacked_rows() -> None:
    found = information()
    (total,) = found.summed(WEIGHTS).parts
    assert len(total.corners) == CHANNELS and len(total.shared) == SHARED
    rows = dense(found)
    own = total.rows()
    np.testing.assert_allclose(own.T @ own[:, :-1], rows.T @ rows[:, :-1], atol=1e-11)
    np.testing.assert_allclose(found.combined(WEIGHTS).factor, triangle_of(rows), atol=1e-11)
    np.testing.assert_allclose(total.lengths, np.linalg.norm(rows[:, :-1], axis=0))


def test_solution_and_inverse_are_those_of_dense_rows() -> None:
    found = information()
    rows = dense(found)
    expected = np.linalg.lstsq(rows[:, :-1], rows[:, -1], rcond=None)[0]
    np.testing.assert_allclose(shortest(found, WEIGHTS), expected, atol=1e-12)
    (total,) = found.summed(WEIGHTS).parts
    G, J = whole(total), rows[:, :-1].T @ rows[:, :-1]
    np.testing.assert_allclose(G @ G.T, np.linalg.inv(J), atol=1e-13)
    inverse = total.inverse
    assert inverse is not None
    np.testing.assert_allclose(inverse.deviations, np.linalg.norm(G, axis=1))
    x, Y = RNG.standard_normal(SIZE), RNG.standard_normal((5, SIZE))
    np.testing.assert_allclose(inverse.times(x), G.T @ x, atol=1e-12)
    np.testing.assert_allclose(inverse.times(Y), Y @ G, atol=1e-12)


def test_dependent_columns_have_no_inverse_and_the_shortest_solution() -> None:
    twin = np.eye(SIZE)
    twin[SHARED, SHARED + 1] = 2.0  # a column of the first channel is twice its neighbour
    twin[SHARED + 1, SHARED + 1] = 0.0
    found = information().transformed(twin, LABELS)
    assert inverses(found.summed(WEIGHTS)) is None
    rows = dense(found)
    lengths = np.linalg.norm(rows[:, :-1], axis=0)
    expected = np.linalg.lstsq(rows[:, :-1] / lengths, rows[:, -1], rcond=1e-12)[0] / lengths
    np.testing.assert_allclose(shortest(found, WEIGHTS), expected, atol=1e-10)


def test_columns_of_zeros_connect_nothing_and_have_no_inverse_to_miss() -> None:
    """A channel that sees nothing of a column of its own, and of one that others see."""
    found = information()
    bare = found.triangles[0]
    rows = bare.factor.copy()
    rows[:, [0, len(bare.columns) - 1]] = 0.0
    zeros = replace(bare, factor=triangle_of(rows))
    found = replace(found, triangles=(zeros, *found.triangles[1:]))
    parts = [part for part in found.summed(WEIGHTS).parts if part.lengths.any()]
    assert all((part.lengths > 0.0).all() for part in parts)
    assert inverses(found.summed(WEIGHTS)) is not None
    whole = dense(found)
    lengths = np.linalg.norm(whole[:, :-1], axis=0)
    scale = np.where(lengths > 0.0, lengths, 1.0)
    expected = np.linalg.lstsq(whole[:, :-1] / scale, whole[:, -1], rcond=1e-12)[0] / scale
    np.testing.assert_allclose(shortest(found, WEIGHTS), expected, atol=1e-10)


@pytest.mark.parametrize("worth", [0.1, 12.0, 1e6])
def test_of_what_is_left_without_a_block_small_eigenvalues_are_raised(worth: float) -> None:
    """Without the last block next to nothing is left in some directions, or in most."""
    others, block = information(seed=1), information(seed=2, samples=13)
    scaled = worth * block
    (total,) = (others + scaled).summed(WEIGHTS).parts
    (own,) = scaled.summed(WEIGHTS).parts
    inverse = total.inverse
    assert inverse is not None
    white, y, least = inverse.times(own.rows()[:-1, :-1]), RNG.standard_normal(SIZE), 0.1
    M = np.eye(SIZE) - white.T @ white
    values, vectors = np.linalg.eigh(M)
    raised = (vectors * np.maximum(values, least)) @ vectors.T
    left = Left.of(inverse.gram([rows for rows, _ in own.sets()]), least)
    assert (len(left.values) > 0) == (worth > 1.0)
    assert len(left.values) == int(np.sum(values < least))
    np.testing.assert_allclose(left.times(np.eye(SIZE)), raised, atol=1e-12)
    np.testing.assert_allclose(raised @ left.solution(y), y, rtol=1e-9, atol=1e-11)


def test_covariance_is_that_of_dense_matrices() -> None:
    """Scores of each channel, one that mixes what others see alone, and errors of all channels."""
    found = information()
    sigma = 1.0 / np.array(list(WEIGHTS.values()))
    common = tuple(
        ChannelRows.held(RNG.standard_normal((3, SIZE)) * (t.spread(SIZE)[0, :-1] != 0.0))
        for t in found.triangles
    )
    own = [s * t.spread(SIZE)[:-1, :-1] for s, t in zip(sigma, found.triangles, strict=True)]
    for each in (own, [*own[:-1], RNG.standard_normal((2, SIZE))]):
        coloured = [ChannelRows.held(factor) for factor in each]
        times = np.linspace(1.0, 2.0, CHANNELS)
        got = LeastSquares().conclude(found, sigma, times, 1, tuple(coloured), common)
        rows = dense(found)[:, :-1]
        change = np.linalg.inv(rows.T @ rows)
        score = got.noise.score_factor(found, 1.0 / sigma)
        expected = change @ score.T @ score @ change
        np.testing.assert_allclose(got.parameters.covariance, expected, rtol=1e-9, atol=1e-13)


def test_of_many_columns_directions_that_a_block_alone_shows_are_found() -> None:
    """Where the matrix is large they are sought in a Krylov space, next to nothing being left."""
    rng = np.random.default_rng(11)
    size, corners = 420, 10
    order = rng.permutation(size)
    own = tuple(order[30 * c : 30 * c + 30] for c in range(corners))
    every = np.arange(size - 300)
    inverse = BorderedInverse(
        np.arange(size),
        tuple(Corner(o, every, np.eye(30), np.zeros((30, len(every))), np.zeros(0)) for o in own),
        order[300:],
        np.eye(len(every)),
    )
    sets = [
        ChannelRows(np.append(o, order[300:]), 0.05 * rng.standard_normal((9, 30 + len(every))))
        for o in own
    ]
    alone = rng.standard_normal((2, 30 + len(every)))
    scale = np.array([[0.96], [0.9999]])
    sets.append(ChannelRows(np.append(own[3], order[300:]), scale * np.linalg.qr(alone.T)[0].T))
    W = np.vstack([s.spread(size) for s in sets])
    W /= 1.0001 * np.linalg.norm(W, 2)
    each = zip(sets, np.split(W, 9 * np.arange(1, corners + 1)), strict=True)
    sets = [ChannelRows(s.columns, w[:, s.columns]) for s, w in each]
    M = np.eye(size) - W.T @ W
    values, vectors = np.linalg.eigh(M)
    left = Left.of(inverse.gram(sets), 0.1)
    assert len(left.values) == np.sum(values < 0.1) > 0
    raised = (vectors * np.maximum(values, 0.1)) @ vectors.T
    np.testing.assert_allclose(left.times(np.eye(size)), raised, atol=1e-10)
    y = rng.standard_normal(size)
    np.testing.assert_allclose(raised @ left.solution(y), y, atol=1e-9)


@pytest.mark.parametrize("kept", [0.3, 0.8])
def test_some_of_the_columns_are_the_sum_of_their_rows(kept: float) -> None:
    (total,) = information().summed(WEIGHTS).parts
    some = np.flatnonzero(np.random.default_rng(3).random(SIZE) < kept)
    mine, rows = total.only(some).rows(), total.rows()[:, [*some, SIZE]]
    np.testing.assert_allclose(mine.T @ mine, rows.T @ rows, atol=1e-10)


def test_rows_of_two_corners_fill_the_matrix() -> None:
    (total,) = information().summed(WEIGHTS).parts
    first, second = (corner.own for corner in total.corners[:2])
    rows = ChannelRows(np.append(first, second), RNG.standard_normal((3, 2 * OWN)))
    inverse = total.inverse
    assert inverse is not None
    white = inverse.times(rows.spread(SIZE))
    found = inverse.gram([rows]).times(np.eye(SIZE))
    np.testing.assert_allclose(found, white.T @ white, atol=1e-12)


@pytest.mark.parametrize(("rows", "size", "first"), [(7, 7, 3), (700, 90, 30), (90, 90, 0)])
def test_columns_are_eliminated_and_rows_are_left_with_the_same_products(
    rows: int, size: int, first: int
) -> None:
    """`AᵀA = TᵀT + BᵀB`, T triangular, B without the first columns; zero columns stay zero."""
    matrix = np.random.default_rng(0).standard_normal((rows, size))
    matrix[:, first:] = np.triu(matrix[:, first:])
    matrix[:, [first // 2, size - 2]] = 0.0
    top, others = folding.eliminate(matrix, first)
    whole = np.vstack([top, np.hstack([np.zeros((rows, first)), others])])
    np.testing.assert_allclose(whole.T @ whole, matrix.T @ matrix, atol=1e-11)
    assert not np.tril(top, -1).any()
    assert not whole[:, [size - 2]].any()
    triangle = folding.stack(np.eye(size), matrix)
    np.testing.assert_allclose(triangle.T @ triangle, np.eye(size) + matrix.T @ matrix, atol=1e-11)
    assert not np.tril(triangle, -1).any()
    assert (np.diag(triangle) > 0.0).all()
