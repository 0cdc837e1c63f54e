"""Laws of the log-determinant prior: the estimate lies inside, and nothing near is better."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
import scipy.linalg

from heft.errors import InvalidSetting
from heft.estimators.consistent import PhysicallyConsistent
from heft.estimators.feasible_set import Limits, cone_metric
from heft.information import ParameterSpace, inertia
from heft.information.square_root import Information, Triangle
from tests.test_consistency import ROBOTS, case, every_robot, in_metric, shares


def divergence(body: np.ndarray, nominal: np.ndarray) -> float:
    """tr(S₀⁻¹ S) − log det(S₀⁻¹ S) − 4, by the eigenvalues of the pencil."""
    ratios = scipy.linalg.eigh(
        inertia.pseudo_inertia(body), inertia.pseudo_inertia(nominal), eigvals_only=True
    )
    return float(np.sum(ratios - 1.0 - np.log(ratios)))


def objective(
    x: np.ndarray, triangle: Triangle, believed: ParameterSpace, strength: float
) -> float:
    misfit = triangle.R @ (believed.matrix @ x) - triangle.z
    apart = sum(divergence(x[k : k + 10], believed.nominal[k : k + 10]) for k in believed.groups)
    return float(misfit @ misfit) + 2.0 * strength * apart


def test_an_unknown_prior_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="prior"):
        PhysicallyConsistent(prior="flat")  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [1e-2, 1e-3])
def test_to_second_order_both_priors_are_the_same(size: float) -> None:
    c = case("flyer")
    rng = np.random.default_rng(0)
    factor = np.linalg.cholesky(inertia.pseudo_inertia(c.believed.nominal))
    step = rng.normal(size=(4, 4))
    step = size * (step + step.T) / np.linalg.norm(step + step.T)
    body = inertia.from_pseudo_inertia(factor @ (np.eye(4) + step) @ factor.T)
    # Σ (λ − log(1 + λ)) = Σ (λ²/2 − λ³/3 + …), |λ| ≤ size: the next term is ⅔ size of this one.
    assert 2.0 * divergence(body, c.believed.nominal) == pytest.approx(size**2, rel=size)


@every_robot
def test_without_rows_everything_stays_as_the_file_says(name: str) -> None:
    c = case(name)
    nothing = Information.neutral(c.labels, c.robot.channels).combined()
    found = PhysicallyConsistent(prior="logdet").fit(nothing, c.believed).parameters.values
    gap = in_metric(c.believed, found - c.believed.nominal)[: 10 * len(c.believed.groups)]
    assert np.abs(gap).max() <= 1e-8


@every_robot
def test_strong_data_wash_either_prior_out(name: str) -> None:
    c = case(name)
    triangle = c.triangle(sigma=1e-6)
    one, two = (
        PhysicallyConsistent(1.0, prior=p).fit(triangle, c.believed).parameters.values  # type: ignore[arg-type]
        for p in ("quadratic", "logdet")
    )
    gap = triangle.R @ (c.believed.matrix @ (one - two))
    # Both pull by n₀ in units of which the data hold 1e12 rows' worth.
    assert np.linalg.norm(gap) <= 1e-6 * np.linalg.norm(triangle.z)


def test_a_file_that_is_nearly_right_gives_both_priors_the_same_estimate() -> None:
    c = case("ur10")
    apart = []
    for size in (1e-2, 1e-3):
        truth = c.truth.copy()  # its drives, far from zero
        for k in c.believed.groups:
            truth[k : k + 10] = (1.0 + size) * c.believed.nominal[k : k + 10]
        effort = c.regressor @ (c.believed.matrix @ truth)
        rows = Information.from_rows(c.labels, c.robot.channels, c.regressor, effort)
        triangle = rows.combined(dict.fromkeys(c.robot.channels, 1.0))
        found = [
            PhysicallyConsistent(prior=p).fit(triangle, c.believed).parameters.values  # type: ignore[arg-type]
            for p in ("quadratic", "logdet")
        ]
        apart.append(np.abs(in_metric(c.believed, found[0] - found[1])).max())
    # They differ by the third order of what the file is off, so the estimates by the second.
    assert apart[0] <= 1e-2
    assert apart[1] <= 0.02 * apart[0]


@pytest.mark.parametrize("strength", [0.1, 10.0])
@pytest.mark.parametrize("name", ROBOTS)
def test_noise_leaves_a_body_and_nothing_near_is_better(name: str, strength: float) -> None:
    c = case(name, 12)
    triangle = c.triangle(noise=2.0, seed=1)
    estimate = PhysicallyConsistent(strength, prior="logdet").fit(triangle, c.believed)
    x = estimate.parameters.values
    assert shares(c.believed, x).min() > 0.0
    assert (x[list(c.believed.nonnegative)] >= 0.0).all()
    best = objective(x, triangle, c.believed, strength)
    rng = np.random.default_rng(2)
    for other in (c.truth, c.believed.nominal, *(c.truth * rng.uniform(0, 2) for _ in range(8))):
        for step in (1.0, 1e-1, 1e-2, 1e-3):  # convex: a better one would show from the start
            there = objective(x + step * (other - x), triangle, c.believed, strength)
            assert there >= best - 1e-9 * float(triangle.z @ triangle.z)


@pytest.mark.parametrize("name", ["planar", "ur10"])
def test_the_slopes_are_those_of_an_optimum(name: str) -> None:
    """Karush, Kuhn and Tucker, by differences of the objective: zero, or pushing outwards."""
    c, strength = case(name, 12), 1.0
    triangle = c.triangle(noise=2.0, seed=4)
    estimate = PhysicallyConsistent(strength, prior="logdet").fit(triangle, c.believed)
    x = estimate.parameters.values
    bodies = 10 * len(c.believed.groups)
    lengths = np.linalg.norm(triangle.R @ c.believed.matrix, axis=0)
    names, bound = c.believed.labels.names, 0
    metric = scipy.linalg.block_diag(
        *(cone_metric(c.believed.nominal[k : k + 10]) for k in c.believed.groups)
    )
    for k in range(len(x)):
        move = np.zeros(len(x))
        move[:bodies] = metric[:, k] if k < bodies else 0.0
        if k >= bodies:
            move[k] = 1.0 / max(lengths[k], 1e-300)
        step = 1e-4
        up, down = (objective(x + s * move, triangle, c.believed, strength) for s in (step, -step))
        slope = (up - down) / (2.0 * step)
        # Differences: third derivative times step², and rounding of the objective over step.
        if names[k] in estimate.active:
            assert slope > -1e-4
            assert x[k] == 0.0
            bound += 1
        else:
            assert abs(slope) <= 1e-4 * (1.0 + objective(x, triangle, c.believed, strength))
    assert bound > 0


def test_limits_bind_under_this_prior_too() -> None:
    c = case("ur10")
    triangle = c.triangle(noise=1e-2, sigma=1e-2)
    link = c.believed.labels.names[20].rpartition(".")[0]
    true = float(c.truth[20])
    limits = Limits({link: (0.5 * true, 0.8 * true)}, {link: ((0.0, 0.0), (-1.0, 1.0), (0.3, 0.4))})
    free = PhysicallyConsistent(1.0, prior="logdet").fit(triangle, c.believed)
    held = PhysicallyConsistent(1.0, prior="logdet", limits=limits).fit(triangle, c.believed)
    mass, com, _ = inertia.to_body(held.parameters.values[20:30])
    assert 0.5 * true <= mass <= 0.8 * true * (1.0 + 1e-12)
    assert com[0] == pytest.approx(0.0, abs=1e-12)
    assert 0.3 - 1e-12 <= com[2] <= 0.4 + 1e-12
    assert shares(c.believed, held.parameters.values).min() > 0.0
    # Fewer choices: no better fit. It is the best of those, by moves that keep the limits.
    values = [objective(e.parameters.values, triangle, c.believed, 1.0) for e in (free, held)]
    assert values[1] >= values[0]
    assert any(n.startswith(f"{link}.") for n in held.active)
    x = held.parameters.values
    other = c.truth.copy()
    other[20:30] = limits.moved_inside(link, other[20:30])
    for step in (1.0, 1e-1, 1e-2, 1e-3):
        there = objective(x + step * (other - x), triangle, c.believed, 1.0)
        assert there >= values[1] * (1.0 - 1e-9)


# ---- laws of either prior -------------------------------------------------------------------

either_prior = pytest.mark.parametrize("prior", ["quadratic", "logdet"])


@either_prior
def test_where_the_data_tell_all_a_vanishing_prior_leaves_a_truth_on_the_inside(
    prior: Literal["quadratic", "logdet"],
) -> None:
    c = case("flyer")
    found = PhysicallyConsistent(strength=1e-6, prior=prior).fit(c.triangle(sigma=1e-5), c.believed)
    # What a prior of 1e-6 rows pulls of 1e10 rows' worth, and where a search's steps end.
    gap = in_metric(c.believed, found.parameters.values - c.truth)
    assert np.abs(gap).max() <= 1e-7


@either_prior
def test_units_of_length_and_mass_do_not_matter(prior: Literal["quadratic", "logdet"]) -> None:
    c = case("ur10")
    triangle, fit = c.triangle(noise=1e-4, sigma=1e-2), PhysicallyConsistent(prior=prior).fit
    ten = np.diag([10.0, *(10.0 * 1e3,) * 3, *(10.0 * 1e6,) * 6])
    count = len(c.believed.groups)
    forward = scipy.linalg.block_diag(*[ten] * count, np.eye(len(c.believed.labels) - 10 * count))
    other = replace(
        c.believed,
        matrix=np.linalg.solve(forward.T, c.believed.matrix.T).T,
        nominal=forward @ c.believed.nominal,
    )
    one = fit(triangle, c.believed).parameters.values
    two = np.linalg.solve(forward, fit(triangle, other).parameters.values)
    gap = in_metric(c.believed, two - one)
    assert np.abs(gap).max() <= 1e-6 * np.abs(in_metric(c.believed, one)).max()


def test_a_prior_of_no_strength_is_least_squares_where_the_data_tell_all() -> None:
    c = case("flyer")
    triangle = c.triangle(noise=1e-3, sigma=1e-3)
    found = PhysicallyConsistent(strength=0.0).fit(triangle, c.believed)
    wanted = np.linalg.lstsq(triangle.R @ c.believed.matrix, triangle.z, rcond=None)[0]
    gap = in_metric(c.believed, found.parameters.values - wanted)
    assert found.iterations == 0
    assert np.abs(gap).max() <= 1e-9
