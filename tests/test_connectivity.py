"""Laws of components: limb by limb is the whole, to rounding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse.csgraph import connected_components

from heft.arrays import Array
from heft.certainty import PossibleFits, strict_bounds
from heft.estimators import LeastSquares, PhysicallyConsistent
from heft.estimators.scaled_rows import limbs
from heft.information import (
    Directions,
    Information,
    Labels,
    components,
    connectivity,
    decomposition,
    first_connected,
    triangle_of,
)
from heft.models import JointOptions, Options, Robot
from heft.plants import Problem, RobotPlant, random_states, standard_rows

SIZES = ((90, 30), (40, 45), (120, 33))  # rows and columns of parts


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """All matrices taken as a whole, once it is asked for."""
    yield monkeypatch


def as_a_whole(patch: pytest.MonkeyPatch) -> None:
    """Look for no components from now on."""
    patch.setattr(connectivity, "FEWEST", 10**9)


def shuffled(rng: np.random.Generator, zero: int = 3) -> Array:
    """Return rows of several parts, in any order, with some columns and rows that are zero."""
    m, n = (sum(sizes) for sizes in zip(*SIZES, strict=True))
    out = np.zeros((m + 2, n + zero))
    rows, columns = rng.permutation(m + 2), rng.permutation(n + zero)
    for k, (i, j) in enumerate(SIZES):
        first = [sum(s[axis] for s in SIZES[:k]) for axis in (0, 1)]
        own = np.ix_(rows[first[0] : first[0] + i], columns[first[1] : first[1] + j])
        out[own] = rng.normal(size=(i, j))
    return out


@pytest.mark.parametrize("share", [0.001, 0.003, 0.006])
def test_connected_columns_are_those_of_a_graph_search(share: float) -> None:
    held = np.random.default_rng(1).random((150, 200)) < share
    rows, columns = np.nonzero(held)
    graph = scipy.sparse.csr_array(held)
    _, wanted = connected_components(scipy.sparse.block_array([[None, graph], [graph.T, None]]))
    _, first, inverse = np.unique(wanted[150:], return_index=True, return_inverse=True)
    assert np.array_equal(first_connected(rows, columns, 200), first[inverse])
    assert len(first) > 1


def test_components_share_neither_rows_nor_columns() -> None:
    rng = np.random.default_rng(0)
    matrix = shuffled(rng)
    parts = components(matrix)
    assert sorted(len(p.columns) for p in parts) == sorted([3, *(n for _, n in SIZES)])
    assert sorted(np.concatenate([p.columns for p in parts])) == list(range(matrix.shape[1]))
    rest = matrix.copy()
    for part in parts:
        rest[np.ix_(part.rows, part.columns)] = 0.0
    assert not rest.any()


@pytest.mark.parametrize("zero", [0, 3])
def test_sweeps_find_what_a_graph_finds(zero: int, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = shuffled(np.random.default_rng(4), zero)
    by_sweeps = components(matrix)
    monkeypatch.setattr(connectivity, "MOST_SWEPT", 0)
    by_graph = components(matrix)
    assert len(by_sweeps) == len(by_graph) == len(SIZES) + (zero > 0)
    for one, other in zip(by_sweeps, by_graph, strict=True):
        np.testing.assert_array_equal(one.rows, other.rows)
        np.testing.assert_array_equal(one.columns, other.columns)


def test_a_ridge_connects_no_columns() -> None:
    rng = np.random.default_rng(5)
    rows = np.column_stack([shuffled(rng), rng.normal(size=sum(m for m, _ in SIZES) + 2)])
    size = rows.shape[1] - 1
    ridge = np.column_stack([np.diag(rng.uniform(0.1, 2.0, size)), rng.normal(size=size)])
    labels = Labels(tuple(f"x{k}" for k in range(size)), ("1",) * size, "")
    whole = Information.neutral(labels, ()).beside("rows", rows).beside("ridge", ridge)
    found = whole.combined({"rows": 2.0, "ridge": 0.5}).factor
    expected = 4.0 * rows.T @ rows + 0.25 * ridge.T @ ridge
    np.testing.assert_allclose(found.T @ found, expected, atol=1e-10)
    assert not np.tril(found, -1).any()
    own = [part.columns for part in components(shuffled(np.random.default_rng(5)))[:2]]
    assert not found[np.ix_(own[0], own[1])].any() and not found[np.ix_(own[1], own[0])].any()


def test_a_row_of_everything_connects_all() -> None:
    matrix = shuffled(np.random.default_rng(1))
    matrix[5] = 1.0
    assert len(components(matrix)) == 1


def test_the_triangle_of_parts_is_that_of_all_rows(whole: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    rows = np.column_stack([shuffled(rng), rng.normal(size=sum(m for m, _ in SIZES) + 2)])
    by_parts = triangle_of(rows)
    as_a_whole(whole)
    one = triangle_of(rows)
    np.testing.assert_allclose(by_parts.T @ by_parts, one.T @ one, atol=1e-11)
    np.testing.assert_allclose(by_parts.T @ by_parts, rows.T @ rows, atol=1e-11)
    assert not np.tril(by_parts, -1).any() and (np.diag(by_parts) >= 0.0).all()
    best = np.linalg.lstsq(rows[:, :-1], rows[:, -1])[0]
    left = np.linalg.norm(rows[:, :-1] @ best - rows[:, -1])
    assert by_parts[-1, -1] == pytest.approx(left, rel=1e-12)


def test_singular_values_of_parts_are_those_of_the_whole() -> None:
    matrix = shuffled(np.random.default_rng(3))
    left, singular, right = decomposition(matrix)
    np.testing.assert_allclose(singular, np.linalg.svd(matrix)[1], atol=1e-12)
    np.testing.assert_allclose(left * singular @ right[: len(singular)], matrix, atol=1e-12)
    np.testing.assert_allclose(right @ right.T, np.eye(len(right)), atol=1e-12)


@pytest.mark.parametrize("dependent", [False, True])
def test_directions_of_parts_are_those_of_the_whole(
    dependent: bool, whole: pytest.MonkeyPatch
) -> None:
    """With a rank that is certain, and with a column that depends on others."""
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(90, 30)), rng.normal(size=(120, 45))
    if dependent:
        rows[0][:, 7] = rows[0][:, 3] - 2.0 * rows[0][:, 11]
    matrix = np.zeros((210, 75))
    matrix[:90, ::5], matrix[:90, 1::5] = rows[0][:, :15], rows[0][:, 15:]
    matrix[90:, 2::5], matrix[90:, 3::5], matrix[90:, 4::5] = np.split(rows[1], 3, axis=1)
    R, z = triangle_of(matrix), rng.normal(size=75)
    by_parts = Directions.of(R, len(matrix))
    assert len(components(R)) == 2
    found = _of(by_parts, z)
    as_a_whole(whole)
    wanted = _of(Directions.of(R, len(matrix)), z)
    U, s, V = np.linalg.svd(R / np.linalg.norm(R, axis=0))
    rank = 75 - dependent
    inverse = V[:rank].T / s[:rank] / np.linalg.norm(R, axis=0)[:, None]
    exact = (rank, inverse @ inverse.T, inverse @ (U[:, :rank].T @ z))
    for one, other, third in zip(found, wanted, exact, strict=False):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(one, third, rtol=1e-8, atol=1e-11)
    np.testing.assert_allclose(found[3], wanted[3], atol=1e-10)


def _of(seen: Directions, z: Array) -> tuple[object, ...]:
    factor = seen.covariance_factor
    return seen.rank, factor @ factor.T, seen.shortest(z), np.where(seen.blind, 1.0, 0.0)


ARMS = """<robot name="arms"><link name="base"/>
{links}
</robot>"""


def _arm(side: str, place: float) -> str:
    """Return an arm of three joints on a base, as elements of a URDF."""
    text, above = "", "base"
    for k, (axis, mass) in enumerate((("0 0 1", 3.0), ("0 1 0", 2.0), ("1 0 0", 1.0))):
        link, at = f"{side}{k}", f"0 {place} 0" if k == 0 else "0.05 0.02 0.3"
        text += (
            f'<link name="{link}"><inertial><origin xyz="0.02 0.03 0.12"/><mass value="{mass}"/>'
            '<inertia ixx="0.02" iyy="0.02" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial></link>'
            f'<joint name="{link}_joint" type="revolute"><parent link="{above}"/>'
            f'<child link="{link}"/><origin xyz="{at}"/><axis xyz="{axis}"/>'
            '<limit lower="-3" upper="3" effort="99" velocity="9"/></joint>'
        )
        above = link
    return text


def arms(*sides: str, friction: Literal["simple", "full"] = "full") -> Robot:
    """Return a robot of so many arms on one base."""
    text = ARMS.format(links="".join(_arm(s, 0.3 * k) for k, s in enumerate(sides)))
    bare = Robot.from_text(text.encode(), Options(), "arms.urdf")
    joints = {j: JointOptions(friction=friction) for j in bare.joints}
    return Robot.from_text(text.encode(), Options(joint=joints), "arms.urdf")


def informed(robot: Robot, seed: int) -> tuple[Problem[RobotPlant], Information]:
    """Return a robot and what random states say of it, with torques that no robot has."""
    problem = Problem(RobotPlant(robot), ())
    rng = np.random.default_rng(seed)
    q, v, a = random_states(robot, 300, rng)
    rows = standard_rows(robot, q, 0.2 * v, a)[:, :, list(problem.base.kept)]
    truth = problem.space.matrix @ (problem.space.nominal * rng.uniform(0.6, 1.4, 1))
    effort = rows @ truth + 2.0 * rng.normal(size=rows.shape[:2])
    return problem, Information.from_rows(problem.labels, problem.channels, rows, effort)


def test_consistent_parameters_of_limbs_are_those_of_the_whole(whole: pytest.MonkeyPatch) -> None:
    """Where the cone binds, to the solver's tolerance; and no limb moves another."""
    problem, information = informed(arms("left", "right", friction="simple"), 1)
    estimate = LeastSquares(coloured=False).solve(information)
    triangle = information.combined(estimate.weights())
    parts = limbs(triangle, problem.space)
    assert [len(p.space.groups) for p in parts if p.space.groups] == [3, 3]
    found = PhysicallyConsistent().fit(triangle, problem.space)
    bounds = strict_bounds(triangle, problem.space)
    as_a_whole(whole)
    wanted = PhysicallyConsistent().fit(triangle, problem.space)
    assert found.active == wanted.active and found.active
    scale = wanted.parameters.std
    np.testing.assert_allclose(
        found.parameters.values / scale, wanted.parameters.values / scale, atol=1e-3
    )
    assert found.parameters.covariance is not None and wanted.parameters.covariance is not None
    unit = np.outer(wanted.parameters.std, wanted.parameters.std)
    np.testing.assert_allclose(
        found.parameters.covariance / unit, wanted.parameters.covariance / unit, atol=1e-8
    )
    np.testing.assert_allclose(found.seen, wanted.seen, atol=1e-8)
    other = strict_bounds(triangle, problem.space)
    np.testing.assert_array_equal(np.isfinite(bounds.mass), np.isfinite(other.mass))
    mine, theirs = (b.mass[np.isfinite(other.mass)] for b in (bounds, other))
    # An end that the solver leaves almost solved is set further out, by 5 %, of either.
    np.testing.assert_allclose(mine, theirs, rtol=0.06, atol=1e-4)
    assert np.mean(np.isclose(mine, theirs, rtol=1e-4, atol=1e-4)) > 0.8


def test_bounds_of_all_limbs_together_are_still_those_of_one_set() -> None:
    """The sum of two limbs' masses: its bounds are within the sum of theirs, not wider."""
    problem, information = informed(arms("left", "right"), 2)
    estimate = LeastSquares(coloured=False).solve(information)
    triangle = information.combined(estimate.weights())
    fits = PossibleFits.of(triangle, problem.space)
    unit = np.eye(problem.space.size)
    places = [problem.space.groups[k] for k in (2, 5)]
    both = np.array(fits.bound(unit[places[0]] + unit[places[1]]))
    own = strict_bounds(triangle, problem.space).mass[[2, 5]].sum(axis=0)
    assert own[0] - 1e-6 <= both[0] <= both[1] <= own[1] + 1e-6


def test_rows_of_channels_are_the_plants_rows() -> None:
    robot = arms("left", "right")
    problem = Problem(RobotPlant(robot), ())
    plant, kept = problem.plant, problem.base.kept
    samples = plant.random_samples(40, np.random.default_rng(0))
    dense = plant.rows(samples, kept).regressor
    for c, rows in enumerate(plant.channel_rows(samples, kept)):
        np.testing.assert_array_equal(rows.spread(len(kept)), dense[:, c])
        assert len(rows.columns) < len(kept)
    some = plant.channel_rows(samples, kept, [4, 1])
    np.testing.assert_array_equal(some[0].spread(len(kept)), dense[:, 4])


def test_columns_in_any_order_are_the_same_rows() -> None:
    robot = arms("left")
    plant = RobotPlant(robot)
    samples = plant.random_samples(20, np.random.default_rng(0))
    columns = [7, 3, 12, 30, 4]
    whole = plant.rows(samples, range(len(plant.labels))).regressor
    np.testing.assert_array_equal(plant.rows(samples, columns).regressor, whole[:, :, columns])


def test_sums_in_any_order_of_columns_are_those_of_all_rows() -> None:
    """Channels of unlike columns, added: one triangle of rows behind one another."""
    rng = np.random.default_rng(6)
    labels = Labels(tuple(f"p{k}" for k in range(9)), ("1",) * 9, "x")
    rows, effort = rng.normal(size=(60, 2, 9)), rng.normal(size=(60, 2))
    rows[:30, 0, 4:] = 0.0
    rows[30:, 1, :5] = 0.0
    parts = [
        Information.from_rows(labels, ("a", "b"), rows[cut], effort[cut])
        for cut in (slice(0, 30), slice(30, 60))
    ]
    total = (parts[0] + parts[1]).combined().factor
    every = np.column_stack([rows.reshape(-1, 9), effort.reshape(-1)])
    np.testing.assert_allclose(total, triangle_of(every), atol=1e-12)
