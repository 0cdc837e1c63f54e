"""Laws of strict bounds of moments of inertia about the centre of mass."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize

from heft.certainty import ConsistentSampler, bounds, strict_bounds
from heft.estimators import Limits, PhysicallyConsistent
from heft.information import ParameterSpace, Triangle, inertia
from tests.test_bounds import CHI, INERTIA, SIGMAS, UNIT, body, central, on_the_boundary
from tests.test_consistency import Case, case


def ball(middle: np.ndarray, deviations: np.ndarray) -> tuple[Triangle, ParameterSpace]:
    """Mass, first moments and I_xx of one body, each measured by itself; the others are not."""
    seen = UNIT[[0, 1, 2, 3, 4]] / deviations[:, None]
    return body(seen, middle / deviations)


def extremes(middle: np.ndarray, deviations: np.ndarray) -> tuple[float, float]:
    """Least and most of I_xx about the centre over the ball, from many starts."""

    def moment(y: np.ndarray, sign: float) -> float:
        m, _, hy, hz, xx = middle + deviations * y
        return sign * float(xx - (hy * hy + hz * hz) / m)

    within = {"type": "ineq", "fun": lambda y: CHI - y @ y}
    rng = np.random.default_rng(0)
    found = []
    for sign in (1.0, -1.0):
        starts = rng.normal(size=(8, 5))
        starts *= SIGMAS / np.linalg.norm(starts, axis=1)[:, None]
        ends = [
            scipy.optimize.minimize(
                moment, s, (sign,), method="SLSQP", constraints=within, options={"ftol": 1e-14}
            ).fun
            for s in starts
        ]
        found.append(sign * min(ends))
    return found[0], found[1]


@pytest.mark.parametrize(
    ("middle", "deviations"),
    [
        ([2.0, 0.0, 0.3, -0.1, 0.2], [0.1, 0.1, 0.02, 0.03, 0.01]),
        ([2.0, 0.1, 0.0, 0.0, 0.2], [0.4, 0.1, 0.05, 0.1, 0.01]),  # a least on either side
        ([1.0, 0.0, 0.3, 0.2, 0.4], [0.3, 0.1, 0.01, 0.05, 0.01]),  # the lightest is farthest out
    ],
)
def test_ends_are_attained_and_not_passed(middle: list[float], deviations: list[float]) -> None:
    """Against a local search from many starts, which knows no cone and no branching."""
    wanted = extremes(np.array(middle), np.array(deviations))
    bounds = strict_bounds(*ball(np.array(middle), np.array(deviations)))
    low, high = bounds.inertia[0, 0]
    width = wanted[1] - wanted[0]
    assert wanted[0] > 0.0  # so that no body that cannot exist is among them
    assert high == pytest.approx(wanted[1], abs=1e-4 * width)
    assert wanted[0] - 0.011 * width <= low <= wanted[0] + 1e-4 * width
    # Nothing was said of the others: they are as large as one likes.
    assert np.isinf(bounds.inertia[0, 1:, 1]).all()


@pytest.mark.parametrize("noise", [1e-3, 0.05])
def test_draws_that_fit_lie_within_and_reach_far(noise: float) -> None:
    """At the edge of the cone too; draws are of a narrower distribution, so that many fit."""
    c = case("flyer") if noise < 0.01 else on_the_boundary(case("flyer", 30))
    rows = c.triangle(noise=noise, sigma=noise, seed=4)
    low, high = strict_bounds(rows, c.believed).inertia[0].T
    sharper = Triangle(rows.columns, 3.0 * rows.factor, rows.rows)
    prior = PhysicallyConsistent(strength=1e-4, margin=0.0)
    draws = ConsistentSampler(chains=4, directions=200).posterior(
        sharper, c.believed, prior, 2000, 1
    )
    best = PhysicallyConsistent(strength=1e-6, margin=0.0).values(rows, c.believed)
    seen = rows.R @ c.believed.matrix
    misfit = np.sum((draws.values @ seen.T - rows.z) ** 2, axis=1)
    fits = misfit <= float(np.sum((seen @ best - rows.z) ** 2)) + CHI
    assert np.sum(fits) > 500
    found = central(draws.values[fits])
    assert (low <= found).all() and (found <= high).all()
    assert (np.ptp(found, axis=0) > 0.4 * (high - low)).all()


def test_far_from_the_edge_they_are_the_value_and_its_deviations() -> None:
    c = case("flyer")
    rows = c.triangle(noise=1e-3, sigma=1e-3, seed=3)
    seen = rows.R @ c.believed.matrix
    spread = np.linalg.inv(seen)
    numbers, slopes = inertia.stated_body(spread @ rows.z)
    for k, ends in zip(INERTIA, strict_bounds(rows, c.believed).inertia[0], strict=True):
        reach = SIGMAS * float(np.linalg.norm(slopes[k] @ spread))
        np.testing.assert_allclose(ends, numbers[k] + reach * np.array([-1, 1]), atol=0.03 * reach)


def moved(c: Case, rows: Triangle, shift: np.ndarray) -> tuple[Triangle, ParameterSpace]:
    """The same problem with the links' frames shifted."""
    there = inertia.frame_change(np.eye(3), shift)
    change = np.eye(c.believed.size)
    for first in c.believed.groups:
        change[first : first + 10, first : first + 10] = there
    matrix = c.believed.matrix @ np.linalg.inv(change)
    return rows, replace(c.believed, matrix=matrix, nominal=change @ c.believed.nominal)


@pytest.mark.parametrize("name", ["flyer", "planar"])
def test_where_the_frame_is_does_not_matter(name: str) -> None:
    c = case(name, 30)
    rows = c.triangle(noise=0.02, sigma=0.02, seed=3)
    shift = np.array([0.3, -0.2, 0.5])
    here, there = strict_bounds(rows, c.believed), strict_bounds(*moved(c, rows, shift))
    # 5 % are added where the solver ends early, which rounding decides.
    np.testing.assert_allclose(there.inertia, here.inertia, rtol=0.055, atol=1e-5)
    if name == "flyer":
        np.testing.assert_allclose(there.inertia, here.inertia, rtol=1e-3)
        np.testing.assert_allclose(there.com - shift[:, None], here.com, rtol=0, atol=1e-6)


def test_what_nobody_sees_is_open_from_zero() -> None:
    bounds = strict_bounds(*body(UNIT[:1], np.array([10.0])))
    assert bounds.inertia.tolist() == [[[0.0, np.inf]] * 3]


def test_a_centre_that_is_known_leaves_the_steiner_term_of_the_mass() -> None:
    """I_xx about the origin and the centre by limits: the least is at the largest mass."""
    rows, space = body(UNIT[[0, 4]] / [[0.1], [0.01]], np.array([10.0, 20.0]))
    at = Limits(com={space.bodies[0]: ((0.0, 0.0), (0.3, 0.3), (0.0, 0.0))})
    low, high = strict_bounds(rows, space, limits=at).inertia[0, 0]
    # I_xx − c² m, linear in both: its deviation is that of the sum.
    reach = SIGMAS * np.hypot(0.01, 0.09 * 0.1)
    assert [low, high] == pytest.approx([0.11 - reach, 0.11 + reach], abs=1e-5)


def test_where_many_links_hang_together_moments_are_not_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    c = case("planar", 30)
    rows = c.triangle(noise=0.02, sigma=0.02, seed=3)
    monkeypatch.setattr(bounds, "MOST_LINKS", 1)
    found = strict_bounds(rows, c.believed)
    assert np.isnan(found.inertia).all() and not np.isnan(found.mass).any()
