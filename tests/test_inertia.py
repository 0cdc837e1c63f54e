"""Laws of the ten inertial parameters of a body, against pinocchio and clouds of points."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from heft.information import inertia
from tests import robots

EPS = float(np.finfo(float).eps)
SEEDS = range(12)


def rng_of(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def rotation(rng: np.random.Generator) -> np.ndarray:
    return np.asarray(pin.Quaternion(*(q := rng.normal(size=4)) / np.linalg.norm(q)).matrix())


def cloud(rng: np.random.Generator, points: int = 9) -> tuple[np.ndarray, np.ndarray]:
    """Masses (n,) and places (n, 3) of points: any such cloud is a body that can exist."""
    size = 10.0 ** rng.uniform(-2, 1)
    masses = rng.uniform(0.1, 3.0, points)
    return masses, size * rng.normal(size=(points, 3)) + rng.normal(size=3)


def of_points(masses: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The ten parameters by their definition: sums over points."""
    xx, yy, zz = (masses * places.T**2).sum(axis=1)
    xy, xz, yz = ((masses * places[:, i] * places[:, j]).sum() for i, j in ((0, 1), (0, 2), (1, 2)))
    moments = [yy + zz, -xy, xx + zz, -xz, -yz, xx + yy]
    return np.array([masses.sum(), *(masses @ places), *moments])


def close(found: np.ndarray, expected: np.ndarray, roundings: float = 64.0) -> bool:
    """Whether two results differ by rounding only, measured at the largest number."""
    scale = max(np.abs(expected).max(), np.abs(found).max())
    return bool(np.abs(found - expected).max() <= roundings * EPS * scale)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_body_is_the_sum_of_its_points(seed: int) -> None:
    masses, places = cloud(rng_of(seed))
    com = masses @ places / masses.sum()
    away = places - com
    about = (
        masses[:, None, None] * np.array([x @ x * np.eye(3) - np.outer(x, x) for x in away])
    ).sum(axis=0)
    assert close(inertia.from_body(masses.sum(), com, about), of_points(masses, places))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_order_is_that_of_pinocchio(seed: int) -> None:
    pin.seed(seed)
    body = pin.Inertia.Random()
    expected = np.array(body.toDynamicParameters())
    found = inertia.from_body(body.mass, np.array(body.lever), np.array(body.inertia))
    assert close(found, expected)
    mass, com, about = inertia.to_body(expected)
    assert mass == body.mass
    assert close(com, np.array(body.lever))
    # About the origin the inertia holds m·c² more, which comes off again.
    scale = np.abs(expected).max()
    assert np.abs(about - np.array(body.inertia)).max() <= 64 * EPS * scale


@pytest.mark.parametrize("seed", SEEDS)
def test_a_body_as_files_state_it_comes_back(seed: int) -> None:
    parameters = of_points(*cloud(rng_of(seed)))
    assert close(inertia.from_body(*inertia.to_body(parameters)), parameters)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_pseudo_inertia_is_the_second_moment_of_the_points(seed: int) -> None:
    masses, places = cloud(rng_of(seed))
    homogeneous = np.column_stack([places, np.ones(len(places))])
    expected = (masses[:, None] * homogeneous).T @ homogeneous
    assert close(inertia.pseudo_inertia(of_points(masses, places)), expected)


@pytest.mark.parametrize("shape", [(), (5,), (2, 3)])
def test_pseudo_inertias_come_back_in_any_shape(shape: tuple[int, ...]) -> None:
    parameters = rng_of(1).normal(size=(*shape, 10))  # linear, so consistent or not
    matrices = inertia.pseudo_inertia(parameters)
    assert matrices.shape == (*shape, 4, 4)
    assert np.array_equal(matrices, np.swapaxes(matrices, -1, -2))
    assert close(inertia.from_pseudo_inertia(matrices), parameters)


@pytest.mark.parametrize("seed", SEEDS)
def test_frame_change_is_the_action_of_pinocchio(seed: int) -> None:
    rng = rng_of(seed)
    turn, move = rotation(rng), rng.normal(size=3)
    pin.seed(seed)
    body = pin.Inertia.Random()
    expected = np.array(pin.SE3(turn, move).act(body).toDynamicParameters())
    found = inertia.frame_change(turn, move) @ np.array(body.toDynamicParameters())
    assert close(found, expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_frame_change_moves_the_points(seed: int) -> None:
    rng = rng_of(seed)
    masses, places = cloud(rng)
    turn, move = rotation(rng), rng.normal(size=3)
    found = inertia.frame_change(turn, move) @ of_points(masses, places)
    assert close(found, of_points(masses, places @ turn.T + move))


@pytest.mark.parametrize("seed", SEEDS)
def test_frame_changes_follow_one_another(seed: int) -> None:
    rng = rng_of(seed)
    R, S = rotation(rng), rotation(rng)
    p, q = rng.normal(size=(2, 3))
    both = inertia.frame_change(S, q) @ inertia.frame_change(R, p)
    assert close(both, inertia.frame_change(S @ R, S @ p + q))
    back = inertia.frame_change(R.T, -R.T @ p) @ inertia.frame_change(R, p)
    assert close(back, np.eye(10), roundings=64.0 * (1.0 + p @ p))  # I holds lengths squared


@pytest.mark.parametrize("seed", range(60))
def test_a_margin_above_zero_is_mass_moments_and_the_triangle_inequality(seed: int) -> None:
    rng = rng_of(seed)
    moments = rng.uniform(-0.2, 1.0, 3)
    mass = rng.choice([-1.0, 0.5, 2.0], p=[0.15, 0.45, 0.4])
    turn = rotation(rng)
    parameters = inertia.from_body(mass, rng.normal(size=3), turn @ np.diag(moments) @ turn.T)
    small, middle, large = np.sort(moments)
    possible = mass > 0.0 and small > 0.0 and small + middle > large
    assert (inertia.consistency_margin(parameters) > 0.0) == possible


def test_the_table_of_bodies_holds_both_possible_and_impossible_ones() -> None:
    margins = []
    for seed in range(60):
        rng = rng_of(seed)
        moments = rng.uniform(-0.2, 1.0, 3)
        rng.choice([-1.0, 0.5, 2.0], p=[0.15, 0.45, 0.4])
        margins.append(2.0 * moments.max() < moments.sum())
    assert 10 < sum(margins) < 50


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("points", [1, 2, 3])
def test_points_rods_and_plates_have_no_margin(seed: int, points: int) -> None:
    parameters = of_points(*cloud(rng_of(seed), points))
    # Four points that are not in one plane are the least that fills space.
    scale = np.abs(inertia.pseudo_inertia(parameters)).max()
    assert abs(inertia.consistency_margin(parameters)) <= 32 * EPS * scale


def impossible(rng: np.random.Generator) -> np.ndarray:
    """A body of positive mass whose moments violate the triangle inequality or are negative."""
    moments = np.array([rng.uniform(-0.5, 0.4), rng.uniform(0.0, 0.5), 1.0])
    turn = rotation(rng)
    size = 10.0 ** rng.uniform(-1, 1)
    about = size**2 * turn @ np.diag(moments) @ turn.T
    return inertia.from_body(rng.uniform(0.1, 5.0), size * rng.normal(size=3), about)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_repaired_body_is_consistent_and_keeps_mass_and_centre(seed: int) -> None:
    parameters = impossible(rng_of(seed))
    assert inertia.consistency_margin(parameters) < 0.0
    repaired = inertia.nearest_consistent(parameters)
    assert inertia.consistency_margin(repaired) > 0.0
    assert close(repaired[:4], parameters[:4])


@pytest.mark.parametrize("seed", SEEDS)
def test_a_consistent_body_is_left_as_it_is(seed: int) -> None:
    parameters = of_points(*cloud(rng_of(seed), 40))  # forty points are no plate
    assert close(inertia.nearest_consistent(parameters), parameters)


@pytest.mark.parametrize("seed", SEEDS)
def test_repairing_twice_is_repairing_once(seed: int) -> None:
    once = inertia.nearest_consistent(impossible(rng_of(seed)))
    # Measured in its new radius of gyration, the floor moves by the floor's own share of it.
    twice = inertia.nearest_consistent(once, floor=0.5e-3)
    assert close(twice, once)


@pytest.mark.parametrize("seed", SEEDS)
def test_repair_does_not_depend_on_the_frame(seed: int) -> None:
    rng = rng_of(seed)
    parameters = impossible(rng)
    frame = inertia.frame_change(rotation(rng), rng.normal(size=3))
    found = inertia.nearest_consistent(frame @ parameters)
    assert close(found, frame @ inertia.nearest_consistent(parameters), roundings=1024.0)


@pytest.mark.parametrize("unit", [1e-3, 0.1, 10.0, 1e3])
@pytest.mark.parametrize("seed", SEEDS)
def test_repair_does_not_depend_on_the_unit_of_length(seed: int, unit: float) -> None:
    parameters = impossible(rng_of(seed))
    change = np.array([1.0, *(unit,) * 3, *(unit**2,) * 6])
    found = inertia.nearest_consistent(change * parameters) / change
    assert close(found, inertia.nearest_consistent(parameters), roundings=1024.0)


@pytest.mark.parametrize("mass", [1e-3, 1.0, 40.0])
def test_a_point_mass_is_given_some_extent(mass: float) -> None:
    point = inertia.from_body(mass, np.array([0.1, -0.2, 0.3]), np.zeros((3, 3)))
    repaired = inertia.nearest_consistent(point)
    assert inertia.to_body(repaired)[0] == pytest.approx(mass, rel=1e-14)
    about = inertia.to_body(repaired)[2]
    assert np.linalg.eigvalsh(about)[0] > 0.0


@pytest.mark.parametrize("seed", SEEDS)
def test_a_sphere_turns_alike_about_every_axis(seed: int) -> None:
    rng = rng_of(seed)
    mass, gyration = rng.uniform(0.1, 5.0, 2)
    body = inertia.sphere(mass, gyration)
    expected = mass * gyration**2 * np.eye(3)
    np.testing.assert_allclose(inertia.inertia_matrix(body), expected, rtol=4 * EPS)
    turned = inertia.frame_change(rotation(rng), np.zeros(3)) @ body
    assert close(turned, body)


@pytest.mark.parametrize("file", robots.CHOSEN)
def test_inertials_of_real_files_are_those_of_pinocchio(file: str) -> None:
    source = robots.path_of(file).read_bytes()
    model = pin.buildModelFromXML(source.decode(), pin.JointModelFreeFlyer())
    written = robots.written_inertias(source)
    total = sum(p[0] for p in written.values())
    assert total == pytest.approx(sum(i.mass for i in model.inertias), rel=1e-13)


@pytest.mark.parametrize("seed", SEEDS)
def test_numbers_of_files_and_their_jacobian(seed: int) -> None:
    ten = of_points(*cloud(rng_of(seed)))
    numbers, jacobian = inertia.stated_body(ten)
    mass, com, about = inertia.to_body(ten)
    assert numbers.tolist() == [mass, *com, *(about[i, j] for i, j in inertia.INERTIA_INDEX)]
    # Central differences: h²/6 of the third derivative against rounding of eps/h.
    for k, h in enumerate(1e-4 * np.abs(ten).clip(1e-3 * np.abs(ten).max())):
        move = h * np.eye(10)[k]
        ahead, back = (inertia.stated_body(ten + s * move)[0] for s in (1.0, -1.0))
        scale = np.abs(numbers).max() / h
        assert np.abs((ahead - back) / (2.0 * h) - jacobian[:, k]).max() <= 1e-6 * scale


def test_without_mass_the_inertia_is_that_about_the_origin() -> None:
    ten = np.array([0.0, 0.0, 0.0, 0.0, 1.0, 0.1, 2.0, 0.2, 0.3, 3.0])
    numbers, jacobian = inertia.stated_body(ten)
    assert np.array_equal(numbers, ten) and np.isfinite(jacobian).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_raised_moments_keep_mass_and_centre_and_reach_their_least(seed: int) -> None:
    rng = rng_of(seed)
    body = inertia.from_body(2.0, rng.normal(size=3), np.diag([3.0, 2.0, 1.5]) * 1e-3)
    for gyration in (1e-3, 0.02, 0.5):
        raised = inertia.raised_to(body, gyration)
        mass, com, tensor = inertia.to_body(raised)
        assert close(raised[:4], body[:4], roundings=1024.0)
        second = 0.5 * np.trace(tensor) * np.eye(3) - tensor
        own = np.diag([0.25, 1.25, 1.75]) * 1e-3  # half the trace less each moment
        least = np.maximum(np.diag(own), mass * gyration**2)
        np.testing.assert_allclose(np.linalg.eigvalsh(second), np.sort(least), rtol=1e-6)
        assert com == pytest.approx(body[1:4] / 2.0)
