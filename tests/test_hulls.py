"""Centres of mass inside the convex hull of links' collision shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from scipy.spatial import Delaunay

from heft.certainty import strict_bounds
from heft.errors import InvalidSetting, SolverFailure
from heft.estimators import Limits, PhysicallyConsistent
from heft.estimators.feasible_set import HalfSpaces
from heft.fit import limits_of
from heft.information import inertia
from heft.models import Options, Robot, with_shapes
from heft.models.shapes import Surface, hull_planes
from tests.test_bounds import LINK
from tests.test_consistency import case
from tests.test_ellipsoid import BAR, cloud

Array = np.ndarray[Any, np.dtype[np.float64]]
either_prior = pytest.mark.parametrize("prior", ["quadratic", "logdet"])
# A skew pyramid, its corners and the planes through its faces.
CORNERS = np.array([[-0.1, -0.1, 0.0], [0.2, -0.1, 0.0], [0.0, 0.2, 0.0], [0.0, 0.0, 0.4]])
HULL = hull_planes(Surface.around(CORNERS))
SMALL = tuple((*n, 0.05) for n in (*np.eye(3), *-np.eye(3)))


def inside(planes: Any, points: Array) -> Array:
    """Return how deep points are inside of all planes, shape (N,) [m]."""
    found = HalfSpaces.of(planes)
    return np.asarray((found.most - points @ found.normals.T).min(axis=1))


# ---- planes ----------------------------------------------------------------------------------


def test_planes_of_few_faces_are_the_hull_itself() -> None:
    """Depth inside the planes and membership of the tetrahedron agree, by another algorithm."""
    points = np.random.default_rng(0).uniform(-0.3, 0.5, size=(4000, 3))
    member = Delaunay(CORNERS).find_simplex(points) >= 0
    assert member.any() and not member.all()
    assert np.array_equal(inside(HULL, points) >= 0.0, member)


def test_a_box_has_six_planes() -> None:
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, -1).T
    planes = hull_planes(Surface.around(signs * [0.1, 0.2, 0.3]))
    assert len(planes) == 6
    assert sorted(p[3] for p in planes) == pytest.approx([0.1, 0.1, 0.2, 0.2, 0.3, 0.3])


@pytest.mark.parametrize("seed", range(6))
def test_no_point_of_any_shape_is_cut_off(seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(3 * 200, 3)) * [1.0, 0.2, 0.0 if seed == 0 else 0.5]
    balls = np.column_stack([rng.normal(size=(4, 3)), rng.uniform(0.01, 0.5, 4)])
    surface = Surface(points.reshape(-1, 3, 3), balls if seed % 2 else balls[:0])
    planes = hull_planes(surface)
    assert len(planes) <= 64
    corners, radii = surface.corners()
    directions = rng.normal(size=(100, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    around = (corners[:, None] + radii[:, None, None] * directions).reshape(-1, 3)
    mixed = rng.dirichlet(0.3 * np.ones(len(around)), size=500) @ around
    assert inside(planes, np.vstack([around, mixed])).min() >= -1e-12


def test_many_faces_are_followed_closely() -> None:
    """64 planes about a ball reach beyond it by no more than 15 % of its radius."""
    rng = np.random.default_rng(1)
    ball = rng.normal(size=(2000, 3))
    ball /= np.linalg.norm(ball, axis=1, keepdims=True)
    for surface in (Surface.around(ball), Surface.of_balls(np.zeros((1, 3)), 1.0)):
        planes = hull_planes(surface)
        outside = ball * 1.15
        assert inside(planes, outside).max() < 0.0


# ---- half-spaces of a body -------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_the_inequality_is_the_mean_depth_of_particles(seed: int) -> None:
    rng = np.random.default_rng(seed)
    places, masses = rng.normal(size=(12, 3)), rng.uniform(0.1, 1.0, 12)
    found = HalfSpaces.of(HULL)
    depth = found.most - places @ found.normals.T
    assert found.rows @ cloud(places, masses) == pytest.approx(masses @ depth)


@pytest.mark.parametrize("room", [0.0, 0.1])
@pytest.mark.parametrize("seed", range(6))
def test_a_body_is_shifted_inside_and_stays_a_body(seed: int, room: float) -> None:
    rng = np.random.default_rng(seed)
    body = cloud(0.5 * rng.normal(size=(8, 3)) + 0.3, rng.uniform(0.1, 1.0, 8))
    found = HalfSpaces.of(HULL).pulled_inside(body, room)
    deepest, depth = HalfSpaces.of(HULL).deepest()
    assert inside(HULL, deepest[None])[0] == pytest.approx(depth) and depth > 0.0
    assert (HalfSpaces.of(HULL).rows @ found >= -1e-12).all()
    mass, com, spread = inertia.to_body(found)
    before = inertia.to_body(body)
    assert mass == pytest.approx(before[0]) and spread == pytest.approx(before[2])
    if room:
        assert inside(HULL, com[None])[0] > 0.0
    elif inside(HULL, before[1][None])[0] >= 0.0:
        assert found is body
    else:
        assert inside(HULL, com[None])[0] == pytest.approx(0.0, abs=1e-12)


# ---- estimates -------------------------------------------------------------------------------


def com_of(values: Array, first: int) -> Array:
    return np.asarray(values[first + 1 : first + 4] / values[first])


@either_prior
def test_what_lies_outside_is_held_at_the_hull(prior: Literal["quadratic", "logdet"]) -> None:
    c = case("ur10")
    rows = c.triangle(noise=0.02, sigma=0.02)
    first = c.believed.labels.index(f"{LINK}.m")
    free = PhysicallyConsistent(prior=prior).fit(rows, c.believed).parameters.values
    assert inside(SMALL, com_of(free, first)[None])[0] < -0.01
    found = PhysicallyConsistent(prior=prior, limits=Limits(hull={LINK: SMALL})).fit(
        rows, c.believed
    )
    assert found.active.count(f"{LINK}.hull") == 1
    held = com_of(found.parameters.values, first)
    assert inside(SMALL, held[None])[0] == pytest.approx(0.0, abs=1e-7)


def test_a_hull_of_a_box_is_limits_of_the_com() -> None:
    c = case("ur10")
    rows = c.triangle(noise=0.02, sigma=0.02)
    ends = Limits(com={LINK: ((-0.05, 0.05),) * 3})
    one, two = (
        PhysicallyConsistent(limits=limits).fit(rows, c.believed).parameters.values
        for limits in (ends, Limits(hull={LINK: SMALL}))
    )
    assert one == pytest.approx(two, rel=1e-6, abs=1e-8)


@either_prior
@pytest.mark.parametrize("seed", range(5))
def test_a_truth_inside_is_never_cut_off(prior: Literal["quadratic", "logdet"], seed: int) -> None:
    """Planes close about the true centre: what the data tell is fitted as without them."""
    c = case("ur10")
    rng = np.random.default_rng(seed)
    first = c.believed.labels.index(f"{LINK}.m")
    true = com_of(c.truth, first)
    corners = true + 0.02 * rng.normal(size=(12, 3))
    corners = np.vstack([corners, 2.0 * true - corners])  # the truth is their middle
    limits = Limits(hull={LINK: hull_planes(Surface.around(corners))})
    assert (HalfSpaces.of(limits.hull[LINK]).rows @ c.truth[first : first + 10] > 0.0).all()
    rows = c.triangle(noise=1e-4, sigma=1e-2)
    held = PhysicallyConsistent(prior=prior, limits=limits).fit(rows, c.believed).parameters
    assert inside(limits.hull[LINK], com_of(held.values, first)[None])[0] >= -1e-7
    left = rows.R @ c.believed.matrix @ (held.values - c.truth)
    # The prior pulls a little, and the noise; planes that cut the truth off would by far more.
    away = true + np.array([1.0, 0.0, 0.0])
    wrong = Limits(hull={LINK: hull_planes(Surface.around(corners - true + away))})
    cut = PhysicallyConsistent(prior=prior, limits=wrong).fit(rows, c.believed).parameters
    off = rows.R @ c.believed.matrix @ (cut.values - c.truth)
    assert np.linalg.norm(left) < 0.2 * np.linalg.norm(off)


def test_strict_bounds_stay_within() -> None:
    c = case("ur10")
    rows = c.triangle(noise=0.02, sigma=0.02)
    held = strict_bounds(rows, c.believed, limits=Limits(hull={LINK: HULL}))
    k = held.links.index(LINK)
    low, high = CORNERS.min(axis=0), CORNERS.max(axis=0)
    for ends, least, most in zip(held.com[k], low, high, strict=True):
        assert least - 1e-6 <= ends[0] <= ends[1] <= most + 1e-6


def test_limits_that_contradict_one_another_are_named() -> None:
    c = case("ur10")
    limits = Limits(com={LINK: ((0.5, 0.6), (-1, 1), (-1, 1))}, hull={LINK: SMALL})
    with pytest.raises(SolverFailure, match="no body keeps the limits") as failed:
        PhysicallyConsistent(limits=limits).fit(c.triangle(noise=0.02, sigma=0.02), c.believed)
    assert "hull of 6 planes" in str(failed.value)


# ---- options ---------------------------------------------------------------------------------

ASKED = Options.from_dict({"limits": {"rod": {"hull": "shape"}}})
EVERY = Options.from_dict({"com_in_hull": True})


@pytest.mark.parametrize("options", [ASKED, EVERY])
def test_a_hull_is_that_of_the_shape(options: Options, tmp_path: Path) -> None:
    box = BAR.replace("SHAPE", '<box size="0.2 0.1 0.4"/>').encode()
    robot = with_shapes(Robot.from_urdf_text(box, options), tmp_path)
    planes = limits_of(robot.options).hull["rod"]
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, -1).T
    corners = signs * [0.1, 0.05, 0.2] + [0.0, 0.0, 0.2]
    assert len(planes) == 6
    assert inside(planes, corners) == pytest.approx(np.zeros(8), abs=1e-12)
    assert Options.from_dict(robot.options.to_dict()) == robot.options
    again = with_shapes(robot, tmp_path)
    assert again.options == robot.options


def test_links_without_a_shape_are_noted_or_refused(tmp_path: Path) -> None:
    lost = BAR.replace("SHAPE", '<mesh filename="gone.stl"/>').encode()
    with pytest.raises(InvalidSetting, match="no collision shape of link 'rod'") as failed:
        with_shapes(Robot.from_urdf_text(lost, ASKED), tmp_path)
    assert "gone.stl" in str(failed.value) and "planes" in str(failed.value)
    robot = with_shapes(Robot.from_urdf_text(lost, EVERY), tmp_path)
    assert not limits_of(robot.options).hull
    said = " ".join(robot.notes)
    assert "rod" in said and "gone.stl" in said and "not bounded" in said


@pytest.mark.parametrize(
    ("planes", "says"),
    [
        ([], "a plane at least"),
        ([[0, 0, 0, 1]], "has a normal"),
        ([[1, 0, 0]], "4 numbers"),
        ("hull", "list"),
    ],
)
def test_what_is_no_hull_is_refused(planes: Any, says: str) -> None:
    with pytest.raises(InvalidSetting, match=says):
        Options.from_dict({"limits": {"rod": {"hull": planes}}})


def test_planes_that_leave_nothing_are_refused() -> None:
    with pytest.raises(InvalidSetting, match="nothing is inside"):
        Limits(hull={LINK: ((1.0, 0.0, 0.0, -1.0), (-1.0, 0.0, 0.0, -1.0))})
