"""Bodies whose mass lies in an ellipsoid: one linear inequality, against clouds of particles."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from heft.certainty import strict_bounds
from heft.errors import InvalidSetting, SolverFailure
from heft.estimators import Limits, PhysicallyConsistent
from heft.estimators.feasible_set import Ellipsoid
from heft.fit import limits_of
from heft.information import inertia
from heft.models import Options, Robot, bounding_extent, with_shapes
from heft.models.shapes import Surface
from tests.test_bounds import LINK
from tests.test_consistency import case, perturbed, shares

Array = np.ndarray[Any, np.dtype[np.float64]]
EXTENT = ((-0.1, 0.3), (-0.2, 0.1), (0.0, 0.5))
SHAPE = Ellipsoid.within(EXTENT)
SMALL = ((-0.06, 0.06), (-0.06, 0.06), (0.05, 0.35))
either_prior = pytest.mark.parametrize("prior", ["quadratic", "logdet"])


def cloud(places: Array, masses: Array) -> Array:
    """Return ten parameters of particles, by sums over them."""
    beside = np.column_stack([places, np.ones(len(places))])
    return inertia.from_pseudo_inertia((masses[:, None] * beside).T @ beside)


def places_in(shape: Ellipsoid, count: int, rng: np.random.Generator) -> Array:
    directions = rng.normal(size=(count, 3))
    directions *= (rng.uniform(size=(count, 1)) ** (1 / 3)) / np.linalg.norm(
        directions, axis=1, keepdims=True
    )
    return np.asarray(shape.centre + directions * shape.axes)


@pytest.mark.parametrize("seed", range(10))
def test_the_inequality_is_the_mean_depth_of_particles(seed: int) -> None:
    rng = np.random.default_rng(seed)
    places, masses = rng.normal(size=(12, 3)), rng.uniform(0.1, 1.0, 12)
    depth = 1.0 - np.sum(((places - SHAPE.centre) / SHAPE.axes) ** 2, axis=1)
    assert SHAPE.row() @ cloud(places, masses) == pytest.approx(float(masses @ depth))
    inside = cloud(places_in(SHAPE, 12, rng), masses)
    assert SHAPE.row() @ inside > 0.0


def test_any_body_that_keeps_it_is_made_of_particles_on_the_ellipsoid() -> None:
    """Of a body with tr(Q S) = 0: S = V Vᵀ turned until each column of V lies on it."""
    rng = np.random.default_rng(2)
    body = SHAPE.contracted(cloud(rng.normal(size=(8, 3)), np.ones(8)))
    assert SHAPE.row() @ body == pytest.approx(0.0, abs=1e-12)
    to_sphere = np.eye(4)
    to_sphere[:3, :3] = np.diag(1.0 / SHAPE.axes)
    to_sphere[:3, 3] = -SHAPE.centre / SHAPE.axes
    S = to_sphere @ inertia.pseudo_inertia(body) @ to_sphere.T
    Q = np.diag([-1.0, -1.0, -1.0, 1.0])
    V = np.linalg.cholesky(S)
    for k in range(3):  # turn two columns of opposite sign until one is zero
        depth = np.diag(V.T @ Q @ V)
        rest = range(k, 4)
        low, high = min(rest, key=lambda j: depth[j]), max(rest, key=lambda j: depth[j])
        across = V[:, low] @ Q @ V[:, high]
        roots = np.roots([depth[high], 2.0 * across, depth[low]])
        turn = np.arctan(float(np.real(roots[0])))
        c, s = np.cos(turn), np.sin(turn)
        one, two = c * V[:, low] + s * V[:, high], c * V[:, high] - s * V[:, low]
        V[:, low], V[:, high] = two, one
        V[:, [k, high]] = V[:, [high, k]]
    places, masses = V[:3] / V[3], V[3] ** 2
    assert np.linalg.norm(places, axis=0) == pytest.approx(np.ones(4), rel=1e-6)
    there = SHAPE.centre + places.T * SHAPE.axes
    assert cloud(there, masses) == pytest.approx(body, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("room", [0.0, 0.1])
@pytest.mark.parametrize("seed", range(6))
def test_mass_is_pulled_inside_and_no_farther(seed: int, room: float) -> None:
    rng = np.random.default_rng(seed)
    body = cloud(0.3 * rng.normal(size=(8, 3)), rng.uniform(0.1, 1.0, 8))
    found = SHAPE.contracted(body, room)
    mass, com, _ = inertia.to_body(found)
    assert mass == pytest.approx(body[0])
    assert SHAPE.row() @ found >= room * mass - 1e-12
    assert np.linalg.eigvalsh(inertia.pseudo_inertia(found))[0] >= -1e-12
    if np.sum(((body[1:4] / body[0] - SHAPE.centre) / SHAPE.axes) ** 2) <= 1.0 - 2.0 * room:
        assert com == pytest.approx(body[1:4] / body[0])
    assert SHAPE.contracted(found, room) == pytest.approx(found, rel=1e-9, abs=1e-12)


def test_a_body_inside_is_left_alone() -> None:
    rng = np.random.default_rng(0)
    body = cloud(places_in(SHAPE, 9, rng), np.ones(9))
    assert SHAPE.contracted(body) is body


@either_prior
def test_an_estimate_keeps_it_and_nothing_within_fits_better(
    prior: Literal["quadratic", "logdet"],
) -> None:
    c = case("ur10")
    rows = c.triangle(noise=0.02, sigma=0.02)
    limits = Limits(ellipsoid={LINK: SMALL})
    solver = PhysicallyConsistent(1e-3, limits=limits, prior=prior)
    found = solver.fit(rows, c.believed)
    x, first = found.parameters.values, c.believed.labels.index(f"{LINK}.m")
    ten = slice(first, first + 10)
    small = Ellipsoid.within(SMALL)
    assert f"{LINK}.ellipsoid" in found.active
    assert small.row() @ x[ten] == pytest.approx(0.0, abs=1e-7 * float(x[first]))
    assert shares(c.believed, x).min() > 0.0
    free = PhysicallyConsistent(1e-3, prior=prior).fit(rows, c.believed).parameters.values
    assert small.row() @ free[ten] < -0.1 * free[first]

    def misfit(at: Array) -> float:
        return float(np.sum((rows.R @ (c.believed.matrix @ at) - rows.z) ** 2))

    rng = np.random.default_rng(0)
    for _ in range(30):
        other = c.truth.copy()
        for k in c.believed.groups:
            other[k : k + 10] = perturbed(other[k : k + 10], rng, 0.3)
        other[ten] = limits.moved_inside(LINK, other[ten])
        for step in (1.0, 0.1, 0.01):
            # The prior's thousandth of a row is in the objective, too.
            assert misfit(x + step * (other - x)) >= misfit(x) - 0.1


@either_prior
def test_one_that_holds_anyway_changes_nothing(prior: Literal["quadratic", "logdet"]) -> None:
    c = case("ur10")
    rows = c.triangle(noise=1e-4, sigma=1e-2)
    wide = Limits(ellipsoid={LINK: ((-9.0, 9.0),) * 3})
    free = PhysicallyConsistent(prior=prior).fit(rows, c.believed)
    held = PhysicallyConsistent(prior=prior, limits=wide).fit(rows, c.believed)
    assert held.parameters.values == pytest.approx(free.parameters.values, rel=1e-6, abs=1e-9)
    assert held.active == ()


def test_it_narrows_strict_bounds_to_its_extent() -> None:
    c = case("ur10")
    rows = c.triangle(noise=0.02, sigma=0.02)
    held = strict_bounds(rows, c.believed, limits=Limits(ellipsoid={LINK: EXTENT}))
    free = strict_bounds(rows, c.believed)
    k = held.links.index(LINK)
    for ends, (least, most) in zip(held.com[k], EXTENT, strict=True):
        assert least - 1e-6 <= ends[0] <= ends[1] <= most + 1e-6
    assert np.diff(held.com[k]).sum() < np.nan_to_num(np.diff(free.com[k]), posinf=1e9).sum()


def test_limits_that_contradict_one_another_are_named() -> None:
    c = case("ur10")
    limits = Limits(com={LINK: ((0.5, 0.6), (-1, 1), (-1, 1))}, ellipsoid={LINK: SMALL})
    with pytest.raises(SolverFailure, match="no body keeps the limits") as failed:
        PhysicallyConsistent(limits=limits).fit(c.triangle(noise=0.02, sigma=0.02), c.believed)
    assert "ellipsoid" in str(failed.value)


def test_it_is_read_from_options_and_written_back() -> None:
    options = Options.from_dict({"limits": {"wrist": {"ellipsoid": [list(e) for e in EXTENT]}}})
    assert limits_of(options) == Limits(ellipsoid={"wrist": EXTENT})
    assert Options.from_dict(options.to_dict()) == options


@pytest.mark.parametrize(
    ("extent", "says"),
    [
        ([[0, 1], [0, 1]], "x, y and z"),
        ([[0, 1], [0, 1], [1, 1]], "not flat"),
        ([[0, 1], [0, 1], [1, 0]], "above the most"),
    ],
)
def test_what_is_no_ellipsoid_is_refused(extent: Any, says: str) -> None:
    with pytest.raises(InvalidSetting, match=says):
        Options.from_dict({"limits": {"wrist": {"ellipsoid": extent}}})
    with pytest.raises(InvalidSetting, match=says):
        Limits(ellipsoid={"wrist": extent})


def test_an_ellipsoid_of_a_link_that_is_not_there_is_refused() -> None:
    c = case("ur10")
    with pytest.raises(InvalidSetting, match="forearm_link"):
        PhysicallyConsistent(limits=Limits(ellipsoid={"forearm": SMALL})).fit(
            c.triangle(sigma=0.02), c.believed
        )


# ---- about a link's shapes ------------------------------------------------------------------

BAR = """<robot name="bar">
  <link name="base"/>
  <joint name="hinge" type="revolute">
    <parent link="base"/><child link="rod"/><axis xyz="0 1 0"/>
    <limit lower="-2" upper="2" velocity="3" effort="50"/>
  </joint>
  <link name="rod"><inertial><origin xyz="0 0 0.2"/><mass value="2"/>
    <inertia ixx="0.06" iyy="0.06" izz="0.002" ixy="0" ixz="0" iyz="0"/></inertial>
    <collision><origin xyz="0 0 0.2"/><geometry>SHAPE</geometry></collision></link>
</robot>"""
ASKED = Options.from_dict({"limits": {"rod": {"ellipsoid": "shape"}}})


@pytest.mark.parametrize(
    ("shape", "half"),
    [
        ('<box size="0.2 0.1 0.4"/>', np.sqrt(3.0) * np.array([0.1, 0.05, 0.2])),
        ('<sphere radius="0.1"/>', np.full(3, 0.1)),
        ('<cylinder radius="0.1" length="0.4"/>', np.sqrt(2.0) * np.array([0.1, 0.1, 0.2])),
    ],
)
def test_an_ellipsoid_is_as_wide_as_a_shape_takes(shape: str, half: Array, tmp_path: Path) -> None:
    robot = with_shapes(Robot.from_urdf_text(BAR.replace("SHAPE", shape).encode(), ASKED), tmp_path)
    assert robot.options.limits is not None
    extent = robot.options.limits["rod"].ellipsoid
    assert extent is not None and extent != "shape"
    found = Ellipsoid.within(extent)
    assert found.centre == pytest.approx([0.0, 0.0, 0.2], abs=1e-9)
    assert (found.axes >= half * (1.0 - 1e-9)).all()
    assert (found.axes <= 1.02 * half).all()  # round shapes by their corners
    assert limits_of(robot.options) == Limits(ellipsoid={"rod": extent})


@pytest.mark.parametrize("seed", range(5))
def test_all_of_a_surface_is_inside(seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(30, 3)) * [1.0, 0.2, 0.0 if seed == 0 else 0.5]
    balls = np.column_stack([rng.normal(size=(4, 3)), rng.uniform(0.01, 0.5, 4)])
    surface = Surface(points.reshape(-1, 3, 3), balls)
    found = Ellipsoid.within(bounding_extent(surface))
    directions = rng.normal(size=(200, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    around = (balls[:, None, :3] + balls[:, None, 3:] * directions).reshape(-1, 3)
    depth = (np.concatenate([points, around]) - found.centre) / found.axes
    assert np.linalg.norm(depth, axis=1).max() <= 1.0 + 1e-9


def test_a_link_whose_shape_is_not_known_needs_numbers(tmp_path: Path) -> None:
    lost = BAR.replace("SHAPE", '<mesh filename="gone.stl"/>').encode()
    with pytest.raises(InvalidSetting, match="no collision shape of link 'rod'") as failed:
        with_shapes(Robot.from_urdf_text(lost, ASKED), tmp_path)
    assert "gone.stl" in str(failed.value)
    with pytest.raises(InvalidSetting, match="ellipsoid"):
        limits_of(ASKED)
    plain = Robot.from_urdf_text(lost)
    assert with_shapes(plain, tmp_path) is plain
