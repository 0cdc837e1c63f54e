"""Laws of ends by steps of our own: what solves, what proves, and the conic solver beside it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import numpy as np
import pytest

from heft.certainty import PossibleFits, possible_fits
from heft.certainty.support_cone import (
    Equations,
    FitsCone,
    beyond,
    complement,
    depth,
    pulls,
    scaled,
    solve,
)
from heft.certainty.support_function import PROVEN, SupportFunction
from heft.estimators.feasible_set import Limits, stack, unstack
from tests.test_consistency import case

every_seed = pytest.mark.parametrize("seed", range(4))
every_limit = pytest.mark.parametrize("limits", [0, 2])


def drawn_cone(seed: int, limits: int = 2, links: int = 3, terms: int = 2) -> FitsCone:
    """Rows of very different size on bodies and terms, and limits of bodies alone."""
    rng = np.random.default_rng([seed, limits, 3])
    size = 10 * links + terms
    rows = rng.normal(size=(size // 2, size)) * 10.0 ** rng.uniform(-3.0, 4.0, (size // 2, 1))
    held = rng.normal(size=(limits, size))
    held[:, 10 * links :] = 0.0
    bodies = np.append(np.tile(stack(np.eye(4)), links), np.ones(terms))
    right = np.append(rows @ bodies + rng.normal(size=len(rows)) / size, held @ bodies - 1.0)
    return FitsCone(links, np.vstack([rows, held]), right, limits, 2.0)


def inner(cone: FitsCone, rng: np.random.Generator) -> np.ndarray:
    """A vector inside all cones, some of it near their boundary."""
    out = np.empty(cone.slots)
    wide = rng.normal(size=(cone.links, 4, 4))
    narrow = np.diag([1.0, 1.0, 1e-2, 1e-3])
    out[cone.bodies] = stack(wide @ narrow @ np.swapaxes(wide, 1, 2)).ravel()
    out[cone.linear] = 10.0 ** rng.uniform(-3.0, 1.0, cone.linear.stop - cone.linear.start)
    out[cone.ball] = rng.normal(size=cone.ball.stop - cone.ball.start)
    out[cone.ball.start] = 1.001 * np.linalg.norm(out[cone.ball][1:])
    return out


def equations(cone: FitsCone, slack: np.ndarray, push: np.ndarray) -> Equations:
    found = cone.equations(slack, push)
    assert found is not None
    return found


def filled(kernel: Callable[..., None], *arguments: object, size: int) -> np.ndarray:
    """What a kernel fills."""
    out = np.empty(size)
    kernel(*arguments, out)
    return out


# ---- scalings -------------------------------------------------------------------------------


@every_seed
def test_scaled_slack_and_multiplier_are_the_same(seed: int) -> None:
    cone, rng = drawn_cone(seed), np.random.default_rng(seed)
    slack, push = inner(cone, rng), inner(cone, rng)
    scaling, _ = equations(cone, slack, push)
    into, out, push_into = (partial(filled, scaled, cone.plain, scaling, k) for k in range(3))
    size = cone.slots
    both = into(slack, size=size)
    np.testing.assert_allclose(push_into(push, size=size), both, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(both @ both, slack @ push, rtol=1e-9)
    np.testing.assert_allclose(out(both, size=size), slack, rtol=1e-9, atol=1e-12)
    # λ is what both are, in each cone's own entries.
    nothing = np.zeros(size)
    own = filled(complement, cone.plain, scaling, 0.0, nothing, nothing, size=size)
    np.testing.assert_allclose(-own, both, rtol=1e-6, atol=1e-8)
    # A scaled step to the boundary ends at the boundary.
    change = rng.normal(size=size)
    there = slack + change / beyond(cone.plain, scaling, into(change, size=size))
    edge = min(
        float(np.linalg.eigvalsh(unstack(there[cone.bodies].reshape(-1, 10))).min()),
        float(there[cone.linear].min()),
        depth(there[cone.ball]),
    )
    assert abs(edge) < 1e-7


@every_seed
def test_a_complement_gives_the_product_that_is_wanted(seed: int) -> None:
    """`λ ∘ x + λ ∘ λ + first ∘ second` is the target's multiple of the unit, in each cone."""
    cone, rng = drawn_cone(seed), np.random.default_rng(seed)
    slack, push = inner(cone, rng), inner(cone, rng)
    scaling, _ = equations(cone, slack, push)
    own = filled(scaled, cone.plain, scaling, 0, slack, size=cone.slots)
    first, second = rng.normal(size=(2, cone.slots))
    x = filled(complement, cone.plain, scaling, 0.7, first, second, size=cone.slots)
    total = product(cone, own, x) + product(cone, own, own) + product(cone, first, second)
    unit = cone.slack(np.zeros(cone.unknowns + 2))
    unit[cone.bodies] = np.tile(stack(np.eye(4)), cone.links)
    unit[cone.linear], unit[cone.ball.start] = 1.0, 1.0
    np.testing.assert_allclose(total, 0.7 * unit, atol=1e-6 * np.abs(own).max() ** 2)


def product(cone: FitsCone, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The product of each cone: symmetrised, of each entry, and `(u·v, u_0 v_i + v_0 u_i)`."""
    u, v = one[cone.ball], other[cone.ball]
    ball = u[0] * v + v[0] * u
    ball[0] = u @ v
    first, second = (unstack(x[cone.bodies].reshape(-1, 10)) for x in (one, other))
    bodies = 0.5 * stack(first @ second + second @ first)
    return np.concatenate([bodies.ravel(), one[cone.linear] * other[cone.linear], ball])


@pytest.mark.parametrize("outside", ["body", "term", "ball"])
def test_outside_nothing_is_scaled(outside: str) -> None:
    cone, rng = drawn_cone(0), np.random.default_rng(0)
    slack, push = inner(cone, rng), inner(cone, rng)
    part = {"body": cone.bodies, "term": cone.signs, "ball": cone.ball}[outside]
    for k in range(2):
        both = [slack.copy(), push.copy()]
        both[k][part] *= -1.0
        assert cone.equations(*both) is None


# ---- equations ------------------------------------------------------------------------------


@every_seed
@every_limit
def test_slacks_and_what_multipliers_pull_are_adjoint(seed: int, limits: int) -> None:
    cone, rng = drawn_cone(seed, limits), np.random.default_rng(seed)
    v, push = rng.normal(size=cone.unknowns + 2), rng.normal(size=cone.slots)
    pulled = filled(pulls, cone.plain, push, size=len(v))
    np.testing.assert_allclose(cone.slack(v) @ push, v @ pulled, rtol=1e-9)
    slack = inner(cone, rng)
    # The barrier's degree: four a body, one a term or limit, and one of the ball.
    degree = 4 * cone.links + (cone.unknowns - 10 * cone.links) + cone.limits + 1
    assert cone.inverse(slack) @ slack == pytest.approx(degree)


@every_seed
@every_limit
def test_a_step_solves_its_equations(seed: int, limits: int) -> None:
    cone, rng = drawn_cone(seed, limits), np.random.default_rng(seed)
    scaling, factor = equations(cone, inner(cone, rng), inner(cone, rng))
    g, b = rng.normal(size=cone.unknowns + 2), rng.normal(size=cone.slots)
    move, push = np.empty_like(g), np.empty_like(b)
    solve(cone.plain, scaling, factor, g, b, move, push)
    scale = np.abs(cone.rows).max() * np.abs(push).max()
    pulled = filled(pulls, cone.plain, push, size=len(g))
    np.testing.assert_allclose(pulled, g, atol=1e-12 * scale)
    into = filled(scaled, cone.plain, scaling, 0, cone.slack(move), size=cone.slots)
    across = filled(scaled, cone.plain, scaling, 2, push, size=cone.slots)
    np.testing.assert_allclose(into + across, b, atol=1e-9 * np.abs(across).max())


# ---- ends -----------------------------------------------------------------------------------


@cache
def quantities(name: str, noise: float) -> tuple[PossibleFits, PossibleFits, np.ndarray]:
    """The same fits by steps and by the conic solver; masses, moments and what is identified."""
    c = case(name)
    rows = c.triangle(noise=noise, sigma=noise, seed=3)
    unit = np.eye(len(c.believed.labels))
    asked = np.vstack([unit[k : k + 2] for k in c.believed.groups] + [c.believed.matrix[:4]])
    with pytest.MonkeyPatch.context() as patch:
        found = []
        for few in (0, 1000):
            patch.setattr(possible_fits, "FEW_LINKS", few)
            found.append(PossibleFits.of(rows, c.believed))
    return found[0], found[1], asked


every_case = pytest.mark.parametrize(
    ("name", "noise"), [("planar", 0.02), ("planar", 2.0), ("panda", 0.02), ("ur10", 2.0)]
)


@every_case
def test_ends_are_those_of_the_conic_solver(name: str, noise: float) -> None:
    steps, conic, asked = quantities(name, noise)
    assert steps.support is not None
    assert conic.support is None
    first, second = steps.bounds(asked), conic.bounds(asked)
    assert np.array_equal(np.isfinite(first), np.isfinite(second))
    # The conic solver's are 5 % wider, from a centre, where it "almost" solved them, and so are
    # ours where they came to no proof and it decided, from another centre.
    seen = np.isfinite(second).all(axis=1)
    width = np.diff(second[seen], axis=1)
    wider = (first[seen] - second[seen]) * [1.0, -1.0] / width
    assert (np.abs(wider) < 0.06).all()
    assert np.mean(wider > -1e-4) > 0.75
    assert (np.abs(wider) < 1e-4).any()


@every_case
def test_an_end_is_proven_from_both_sides(name: str, noise: float) -> None:
    """Points of the set come as near to an end as is said, and none lies beyond."""
    support = quantities(name, noise)[0].support
    assert support is not None
    n = support.cone.unknowns
    whole = np.append(np.zeros(n + 1), 1.0)
    rng = np.random.default_rng(1)
    for direction in rng.normal(size=(5, n)):
        c = np.concatenate([direction, [0.0, -direction @ support.centre]])
        least = support.least(c, whole)
        assert least is not None
        if not np.isfinite(least):
            continue
        reached = _farthest(support, -direction)
        assert least <= c @ reached
        assert c @ reached <= 0.5 * least  # half of the way to the end along one line alone


def _farthest(support: SupportFunction, direction: np.ndarray) -> np.ndarray:
    """Along the direction that a barrier takes, the last point inside, as v."""
    step = np.linalg.solve(support.hessian.T @ support.hessian, direction)
    low, high = 0.0, 1e3
    for _ in range(60):
        middle = 0.5 * (low + high)
        v = np.concatenate([support.centre + middle * step, [0.0, 1.0]])
        slack = support.cone.slack(v)
        inside = (
            np.linalg.eigvalsh(unstack(slack[support.cone.bodies].reshape(-1, 10))).min() > 0.0
            and slack[support.cone.linear].min(initial=1.0) > 0.0
            and depth(slack[support.cone.ball]) > 0.0
        )
        low, high = (middle, high) if inside else (low, middle)
    return np.concatenate([support.centre + low * step, [0.0, 1.0]])


def test_centres_of_mass_within_limits_agree() -> None:
    c = case("planar")
    rows = c.triangle(noise=0.5, sigma=0.5, seed=4)
    link = c.believed.bodies[0]
    limits = Limits(com={link: ((-0.05, 0.4), (-0.2, 0.2), (-0.2, 0.2))})
    unit = np.eye(len(c.believed.labels))
    first = c.believed.groups[0]
    found = []
    for few in (0, 1000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(possible_fits, "FEW_LINKS", few)
            fits = PossibleFits.of(rows, c.believed, limits=limits)
        assert (fits.support is None) == (few > 0)
        found.append(fits.ratios(unit[first + 1 : first + 4], unit[first]))
    # Limits bind; the conic solver adds 5 % where it "almost" solved a problem.
    wanted = [[-0.05, 0.4], [-0.2, 0.2], [-0.2, 0.2]]
    np.testing.assert_allclose(found[0], wanted, rtol=5e-4)
    assert (found[1][:, 0] < found[0][:, 0] + 1e-4).all()
    assert (found[1][:, 1] > found[0][:, 1] - 1e-4).all()


def test_constraints_of_another_kind_are_left_to_the_conic_solver() -> None:
    c = case("planar")
    rows = c.triangle(noise=0.5, sigma=0.5, seed=4)
    mass = float(c.believed.nominal[c.believed.groups[0]])
    limits = Limits(mass={c.believed.bodies[0]: (mass, mass)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(possible_fits, "FEW_LINKS", 0)
        fits = PossibleFits.of(rows, c.believed, limits=limits)
    assert fits.support is None
    unit = np.eye(len(c.believed.labels))
    np.testing.assert_allclose(fits.bound(unit[c.believed.groups[0]]), mass, rtol=1e-5)


def test_what_nothing_bounds_is_open() -> None:
    """One body, of which one moment is seen: its mass has no most, other moments no end."""
    cone = FitsCone(1, np.eye(10)[3:4], np.array([1.0]), 0, 2.0)
    support = SupportFunction.of(cone, stack(np.eye(4)))
    assert support is not None
    whole = np.append(np.zeros(11), 1.0)
    for k, sign, open_end in ((0, 1.0, False), (0, -1.0, True), (5, 1.0, False), (5, -1.0, True)):
        found = support.least(sign * np.eye(12)[k], whole)
        assert found is not None
        if open_end:
            assert found == -np.inf
        else:
            # Numbers on the diagonal of a body are at least 0.
            assert -10.0 * PROVEN <= found <= 0.0
