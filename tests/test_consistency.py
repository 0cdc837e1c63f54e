"""Laws of the physically consistent estimate: least squares with a prior, over a cone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pinocchio as pin
import pytest
import scipy.linalg

from heft.estimators.consistent import (
    WORST_DIRECTION,
    ConsistentEstimate,
    PhysicallyConsistent,
    stated_numbers,
)
from heft.estimators.feasible_set import cone_metric
from heft.information import ParameterSpace, inertia
from heft.information.parameters import Labels
from heft.information.square_root import Information, Triangle
from heft.models.robot import Robot
from heft.plants import RobotPlant, random_drive_state, random_states, standard_rows
from heft.plants.problem import Problem
from tests import robots

EPS = float(np.finfo(float).eps)


def arm(file: str) -> Robot:
    """A robot with simple friction: the dictionary's terms hardly differ from one another."""
    return robots.load(file, friction="simple")


ROBOTS = {
    "planar": lambda: robots.planar_arm(drives=True, friction="simple"),
    "planar, full friction": lambda: robots.planar_arm(drives=True),
    "ur10": lambda: arm("ur_description/urdf/ur10_robot.urdf"),
    "finger": lambda: arm("finger_edu_description/robots/finger_edu.urdf"),
    "panda": lambda: arm("panda_description/urdf/panda.urdf"),
    "flyer": lambda: robots.load("hector_description/robots/quadrotor_base.urdf", "free"),
}
every_robot = pytest.mark.parametrize("name", ROBOTS)


@dataclass(frozen=True)
class Case:
    """A robot whose truth is known, and rows of it.

    Attributes:
        robot: The plant.
        believed: What its file says.
        truth: The parameters x that the rows are of.
        rows: Y on the base parameters times `believed.matrix`, shape (N, channels, n).
    """

    robot: Robot
    believed: ParameterSpace
    labels: Labels
    truth: np.ndarray
    regressor: np.ndarray

    def triangle(self, noise: float = 0.0, seed: int = 1, sigma: float = 1.0) -> Triangle:
        """The triangle of rows with noise, each divided by σ; both as shares of the torques."""
        rng = np.random.default_rng(seed)
        effort = self.regressor @ (self.believed.matrix @ self.truth)
        loud = float(np.sqrt(np.mean(effort**2)))
        effort = effort + noise * loud * rng.normal(size=effort.shape)
        item = Information.from_rows(self.labels, self.robot.channels, self.regressor, effort)
        return item.combined(dict.fromkeys(self.robot.channels, 1.0 / (sigma * loud)))


def perturbed(body: np.ndarray, rng: np.random.Generator, by: float = 0.15) -> np.ndarray:
    """Another body that can exist, near the given one: L exp(E) Lᵀ with E small."""
    factor = np.linalg.cholesky(inertia.pseudo_inertia(body))
    step = by * rng.normal(size=(4, 4))
    return inertia.from_pseudo_inertia(factor @ scipy.linalg.expm(step + step.T) @ factor.T)


@cache
def case(name: str, samples: int = 200) -> Case:
    robot = ROBOTS[name]()
    problem = Problem(RobotPlant(robot), ())
    believed, rng = replace(problem.space, gyration=()), np.random.default_rng(11)
    truth = believed.nominal.copy()
    for first in believed.groups:
        truth[first : first + 10] = perturbed(truth[first : first + 10], rng)
    drives = slice(10 * len(believed.groups), None)
    truth[drives] = rng.uniform(0.1, 0.5, len(truth[drives]))
    q, v, a = random_states(robot, samples, rng)
    state = random_drive_state(robot, q, v, a, rng) if robot.drives.stops else None
    regressor = standard_rows(robot, q, v, a, state)[:, :, list(problem.base.kept)]
    return Case(robot, believed, problem.labels, truth, regressor)


def prior_rows(believed: ParameterSpace) -> tuple[np.ndarray, np.ndarray]:
    """The prior's rows as the module's formula has them: L⁻¹ S(x) L⁻ᵀ against the file's."""
    parts, goals = [], []
    for first, body in zip(believed.groups, believed.typical, strict=True):
        back = np.linalg.inv(np.linalg.cholesky(inertia.pseudo_inertia(body)))
        moved = back @ inertia.pseudo_inertia(np.eye(10)) @ back.T
        parts.append(moved.reshape(10, 16).T)  # Frobenius: all sixteen entries
        nominal = inertia.pseudo_inertia(believed.nominal[first : first + 10])
        goals.append((back @ nominal @ back.T).reshape(16))
    bodies = 10 * len(believed.groups)
    rows = np.zeros((16 * len(believed.groups), len(believed.labels)))
    rows[:, :bodies] = scipy.linalg.block_diag(*parts)
    return rows, np.concatenate(goals)


def objective(
    x: np.ndarray, triangle: Triangle, believed: ParameterSpace, strength: float
) -> float:
    rows, goal = prior_rows(believed)
    misfit = triangle.R @ believed.matrix @ x - triangle.z
    return float(misfit @ misfit + strength * np.sum((rows @ x - goal) ** 2))


def in_metric(believed: ParameterSpace, x: np.ndarray) -> np.ndarray:
    """The parameters measured at their typical values, where the typical body is the identity."""
    out = np.array(x, dtype=float)
    for first, body in zip(believed.groups, believed.typical, strict=True):
        ten = slice(first, first + 10)
        out[ten] = np.linalg.solve(cone_metric(body), out[ten])
    return out


def shares(believed: ParameterSpace, x: np.ndarray) -> np.ndarray:
    """Smallest eigenvalue of each body's pseudo-inertia, in its nominal one."""
    return np.array(
        [
            scipy.linalg.eigh(
                inertia.pseudo_inertia(x[k : k + 10]),
                inertia.pseudo_inertia(believed.nominal[k : k + 10]),
                eigvals_only=True,
            )[0]
            for k in believed.groups
        ]
    )


# ---- the metric -----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_the_metric_measures_a_body_at_its_nominal_value(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nominal = perturbed(inertia.sphere(2.0, 0.1), rng)
    body = perturbed(nominal, rng)
    u = np.linalg.solve(cone_metric(nominal), body)
    moments = scipy.linalg.eigh(
        inertia.pseudo_inertia(body), inertia.pseudo_inertia(nominal), eigvals_only=True
    )
    # ‖u‖ is the Frobenius norm of L⁻¹ S L⁻ᵀ, whose eigenvalues these are.
    assert u @ u == pytest.approx(moments @ moments, rel=1e-12)
    same = np.linalg.solve(cone_metric(nominal), nominal)
    assert same @ same == pytest.approx(4.0, rel=1e-12)


# ---- inside the cone ------------------------------------------------------------------------


# Terms of friction's dictionary hardly differ: what a strong prior takes from the bodies' torque
# is enough to push one to zero, and rounding is as large as what a weak one takes.
every_plain_robot = pytest.mark.parametrize("name", [n for n in ROBOTS if "full" not in n])


@every_plain_robot
@pytest.mark.parametrize(("strength", "raised"), [(0.1, 0.0), (10.0, 0.0), (1e3, 0.0), (10, 1.2)])
def test_inside_the_cone_it_is_least_squares_with_the_prior_as_rows(
    name: str, strength: float, raised: float
) -> None:
    c = case(name)
    # Above the least radius of gyration that the file states of each body.
    tens = [inertia.to_body(c.believed.nominal[k : k + 10]) for k in c.believed.groups]
    least = [0.5 * np.trace(tensor) - np.linalg.eigvalsh(tensor)[-1] for _, _, tensor in tens]
    sizes = tuple(raised * np.sqrt(s / m) for s, (m, _, _) in zip(least, tens, strict=True))
    c = replace(c, believed=replace(c.believed, gyration=sizes))
    triangle = c.triangle(noise=1e-4, sigma=1e-2)
    estimate = PhysicallyConsistent(strength=strength).fit(triangle, c.believed)
    assert estimate.iterations == 0
    assert estimate.active == ()
    rows, goal = prior_rows(c.believed)
    metric = np.eye(len(c.truth))
    for k, body in zip(c.believed.groups, c.believed.typical, strict=True):
        metric[k : k + 10, k : k + 10] = cone_metric(body)
    root = np.sqrt(strength)
    stacked = np.vstack([triangle.R @ c.believed.matrix, root * rows]) @ metric
    lengths = np.linalg.norm(stacked, axis=0)
    answer = scipy.linalg.lstsq(stacked / lengths, np.append(triangle.z, root * goal))[0]
    # Least squares to 1e-8: drives' own ridge of 1e-6 moves them by its square, 1e-12, times the
    # condition of the columns, at most 1e3.
    found = in_metric(c.believed, estimate.parameters.values)
    np.testing.assert_allclose(found, answer / lengths, rtol=0, atol=1e-8 * np.abs(found).max())


@every_robot
def test_without_noise_a_vanishing_prior_leaves_the_truth(name: str) -> None:
    c = case(name)
    triangle = c.triangle(sigma=1e-3)
    estimate = PhysicallyConsistent(strength=1e-6).fit(triangle, c.believed)
    gap = triangle.R @ (c.believed.matrix @ (estimate.parameters.values - c.truth))
    # A prior of strength n₀ has √n₀ for each number's row, rows of the log σ⁻¹: what it can pull
    # is n₀σ² = 1e-12 of the torques, times what the weakest combination is weaker, below 1e4.
    assert np.linalg.norm(gap) <= 1e-8 * np.linalg.norm(triangle.z)


def test_without_noise_all_ten_of_a_flying_body_are_found() -> None:
    c = case("flyer")
    estimate = PhysicallyConsistent(strength=1e-6).fit(c.triangle(sigma=1e-5), c.believed)
    found, truth = (in_metric(c.believed, x) for x in (estimate.parameters.values, c.truth))
    np.testing.assert_allclose(found, truth, rtol=0, atol=1e-9)


# The finger's links weigh grams: their inertia is 1e-7 of its friction, and no number of rows
# tested here outweighs the prior in what is so weak.
every_strong_robot = pytest.mark.parametrize("name", [n for n in ROBOTS if n != "finger"])


@pytest.mark.parametrize("name", [n for n in ROBOTS if n != "finger" and "full" not in n])
def test_more_rows_wash_the_prior_out(name: str) -> None:
    c = case(name)
    pull = []
    for sigma in (1e-4, 1e-5, 1e-6):  # rows of weight 1/σ² count as 1/σ² rows
        estimate = PhysicallyConsistent(strength=1.0).fit(c.triangle(sigma=sigma), c.believed)
        gap = c.believed.matrix @ (estimate.parameters.values - c.truth)
        pull.append(np.linalg.norm(c.triangle().R @ gap))
    # Bias falls as strength per information: to a hundredth each time, once the data lead.
    assert pull[2] <= 0.02 * pull[1]
    assert pull[1] <= 0.2 * pull[0]


# ---- what the data do not tell --------------------------------------------------------------


@every_robot
def test_without_rows_everything_stays_as_the_file_says(name: str) -> None:
    c = case(name)
    nothing = Information.neutral(c.labels, c.robot.channels).combined()
    estimate = PhysicallyConsistent().fit(nothing, c.believed)
    for first in c.believed.groups:
        ten = slice(first, first + 10)
        nominal, found = c.believed.nominal[ten], estimate.parameters.values[ten]
        np.testing.assert_allclose(found, nominal, rtol=0, atol=64 * EPS * np.abs(nominal).max())
    assert not estimate.parameters.values[10 * len(c.believed.groups) :].any()
    assert estimate.seen.max() <= 64 * EPS
    assert not estimate.noise.any()


@pytest.mark.parametrize("name", [n for n in ROBOTS if n != "planar, full friction"])
def test_directions_that_the_data_do_not_tell_stay_nominal(name: str) -> None:
    c = case(name)
    estimate = PhysicallyConsistent().fit(c.triangle(noise=1e-4, sigma=1e-2), c.believed)
    assert estimate.iterations == 0
    bodies = 10 * len(c.believed.groups)
    metric = scipy.linalg.block_diag(
        *(cone_metric(c.believed.nominal[k : k + 10]) for k in c.believed.groups)
    )
    blind = scipy.linalg.null_space(c.believed.matrix[:, :bodies] @ metric, rcond=1e-10)
    assert blind.shape[1] > 0 or name == "flyer"
    moved = in_metric(c.believed, estimate.parameters.values - c.believed.nominal)[:bodies]
    # Orthogonal in the prior's metric to what the data see: rounding of the moves that they make.
    assert np.abs(blind.T @ moved).max(initial=0.0) <= 1e-9 * np.linalg.norm(moved)


def test_a_link_that_no_row_speaks_of_stays_nominal() -> None:
    c = case("planar")
    matrix = c.believed.matrix.copy()
    matrix[:, 10:20] = 0.0
    blind = replace(c.believed, matrix=matrix)
    triangle = replace(c, believed=blind).triangle(sigma=0.1)
    estimate = PhysicallyConsistent().fit(triangle, blind)
    nominal = c.believed.nominal[10:20]
    np.testing.assert_allclose(
        estimate.parameters.values[10:20], nominal, rtol=0, atol=1e-12 * np.abs(nominal).max()
    )
    assert estimate.seen[10:20].max() <= 64 * EPS


# ---- on the boundary ------------------------------------------------------------------------

NOISY = [(name, seed) for name in ROBOTS for seed in range(3)]


@cache
def noisy(name: str, seed: int) -> tuple[Case, Triangle, ConsistentEstimate]:
    """Few rows with noise as large as the torques: unconstrained, no body would be possible."""
    few = case(name, 12)
    triangle = few.triangle(noise=2.0, seed=seed)
    return few, triangle, PhysicallyConsistent(strength=1e-3).fit(triangle, few.believed)


@pytest.mark.parametrize(("name", "seed"), NOISY)
def test_noise_cannot_make_an_impossible_robot(name: str, seed: int) -> None:
    c, _, estimate = noisy(name, seed)
    x = estimate.parameters.values
    assert estimate.iterations > 0
    margin = PhysicallyConsistent().margin
    for first in c.believed.groups:
        assert inertia.consistency_margin(x[first : first + 10]) > 0.0
    # Eigenvalues of a pencil are right to eps times its condition, here below 1e6.
    assert shares(c.believed, x).min() >= margin * (1.0 - 1e-6)
    assert (x[list(c.believed.nonnegative)] >= 0.0).all()


@pytest.mark.parametrize(("name", "seed"), NOISY)
def test_what_binds_is_named(name: str, seed: int) -> None:
    c, _, estimate = noisy(name, seed)
    x, names = estimate.parameters.values, c.believed.labels.names
    lowest = shares(c.believed, x)
    bodies = [names[k].rpartition(".")[0] for k in c.believed.groups]
    margin = PhysicallyConsistent().margin
    for body, least in zip(bodies, lowest, strict=True):
        if least < 1.5 * margin:
            assert body in estimate.active
        if least > 3.0 * margin:
            assert body not in estimate.active
    zero = {names[k] for k in c.believed.nonnegative if x[k] == 0.0}
    assert zero <= set(estimate.active)


@pytest.mark.parametrize(("name", "seed"), NOISY)
def test_no_possible_robot_fits_better(name: str, seed: int) -> None:
    c, triangle, estimate = noisy(name, seed)
    best = objective(estimate.parameters.values, triangle, c.believed, 1e-3)
    rng = np.random.default_rng(seed)
    others = [c.truth, c.believed.nominal]
    for _ in range(20):
        other = c.truth.copy()
        for first in c.believed.groups:
            other[first : first + 10] = perturbed(other[first : first + 10], rng, 0.5)
        others.append(other)
    x = estimate.parameters.values
    scale = float(triangle.z @ triangle.z)
    for other in others:
        # The problem is convex: were any better, the way there would go down from the start.
        for step in (1.0, 1e-1, 1e-2, 1e-3):
            there = objective(x + step * (other - x), triangle, c.believed, 1e-3)
            # The solver stops at a gap of 1e-8 of the objective.
            assert there >= best - 1e-7 * scale


def test_a_truth_on_the_inside_binds_nothing_when_rows_are_good() -> None:
    # But for friction's dictionary: noise asks for less than zero of one of two like terms.
    for name in set(ROBOTS) - {"planar, full friction"}:
        c = case(name)
        estimate = PhysicallyConsistent().fit(c.triangle(noise=1e-4, sigma=1e-3), c.believed)
        assert (estimate.iterations, estimate.active) == (0, ()), name


@pytest.mark.parametrize("term", ["shoulder.viscous", "elbow.coulomb", "elbow.armature"])
def test_friction_that_would_push_is_held_at_zero(term: str) -> None:
    c = case("planar")
    k = c.believed.labels.index(term)
    truth = c.truth.copy()
    truth[k] = -0.3
    estimate = PhysicallyConsistent().fit(replace(c, truth=truth).triangle(sigma=0.01), c.believed)
    # The solver's gap of 1e-8 of the objective leaves some of a column's 1e-6 of the torques.
    assert 0.0 <= estimate.parameters.values[k] <= 1e-6
    assert term in estimate.active


@pytest.mark.parametrize("name", ["planar", "ur10", "panda"])
def test_friction_that_the_data_push_below_zero_is_named(name: str) -> None:
    believed, triangle, strength, estimate = problem_of(name, True)
    x = estimate.parameters.values
    rows, goal = prior_rows(believed)
    columns = triangle.R @ believed.matrix
    slope = columns.T @ (columns @ x - triangle.z) + strength * rows.T @ (rows @ x - goal)
    lengths, loud = np.linalg.norm(columns, axis=0), np.linalg.norm(triangle.z)
    pushed = [k for k in believed.nonnegative if slope[k] > 1e-3 * lengths[k] * loud]
    assert pushed
    for k in pushed:  # complementary slackness: where the objective falls below zero, x is zero
        assert x[k] * lengths[k] <= 1e-5 * loud
        assert believed.labels.names[k] in estimate.active


def test_an_offset_may_be_negative() -> None:
    c = case("planar")
    k = c.believed.labels.index("elbow.offset")
    truth = c.truth.copy()
    truth[k] = -0.3
    estimate = PhysicallyConsistent().fit(replace(c, truth=truth).triangle(sigma=1e-4), c.believed)
    assert estimate.parameters.values[k] == pytest.approx(-0.3, abs=1e-4)
    assert estimate.iterations == 0


# ---- what must not matter -------------------------------------------------------------------

BOUND = [(name, binding) for name in ("planar", "ur10", "panda") for binding in (False, True)]
either_side = pytest.mark.parametrize(
    ("name", "binding"), BOUND, ids=[f"{n}-{'bound' if b else 'free'}" for n, b in BOUND]
)


def problem_of(
    name: str, binding: bool
) -> tuple[ParameterSpace, Triangle, float, ConsistentEstimate]:
    """ParameterSpace, triangle, strength and estimate, on the boundary or inside."""
    if binding:
        c, triangle, _ = noisy(name, 0)
        strength = 1.0
    else:
        c = case(name)
        triangle, strength = c.triangle(noise=1e-4, sigma=1e-2), 10.0
    estimate = PhysicallyConsistent(strength=strength).fit(triangle, c.believed)
    assert (estimate.iterations > 0) == binding
    return c.believed, triangle, strength, estimate


def agree(believed: ParameterSpace, found: np.ndarray, expected: np.ndarray, binding: bool) -> None:
    """Compare in the metric of the cone: exactly inside, to the solver's gap on the boundary."""
    one, two = in_metric(believed, found), in_metric(believed, expected)
    # The conic solver stops at a gap of 1e-8, and a quadratic is flat at its least: √1e-8.
    atol = (1e-4 if binding else 1e-8) * np.abs(two).max()
    np.testing.assert_allclose(one, two, rtol=0, atol=atol)


def mapped(believed: ParameterSpace, forward: np.ndarray) -> ParameterSpace:
    """The same plant in other coordinates, x' = forward @ x."""
    return replace(
        believed,
        matrix=np.linalg.solve(forward.T, believed.matrix.T).T,
        nominal=forward @ believed.nominal,
    )


def over_links(believed: ParameterSpace, block: list[np.ndarray]) -> np.ndarray:
    return scipy.linalg.block_diag(*block, np.eye(len(believed.labels) - 10 * len(block)))


@either_side
def test_frames_of_links_do_not_matter(name: str, binding: bool) -> None:
    believed, triangle, strength, expected = problem_of(name, binding)
    rng = np.random.default_rng(3)
    frames = []
    for _ in believed.groups:
        turn = pin.Quaternion(*(q := rng.normal(size=4)) / np.linalg.norm(q)).matrix()
        frames.append(inertia.frame_change(turn, 0.2 * rng.normal(size=3)))
    forward = over_links(believed, frames)
    found = PhysicallyConsistent(strength=strength).fit(triangle, mapped(believed, forward))
    back = np.linalg.solve(forward, found.parameters.values)
    agree(believed, back, expected.parameters.values, binding)


@either_side
@pytest.mark.parametrize("metre", [1e3, 0.1])
def test_the_unit_of_length_does_not_matter(name: str, binding: bool, metre: float) -> None:
    believed, triangle, strength, expected = problem_of(name, binding)
    change = np.diag([1.0, *(metre,) * 3, *(metre**2,) * 6])
    forward = over_links(believed, [change] * len(believed.groups))
    found = PhysicallyConsistent(strength=strength).fit(triangle, mapped(believed, forward))
    back = np.linalg.solve(forward, found.parameters.values)
    agree(believed, back, expected.parameters.values, binding)


@either_side
@pytest.mark.parametrize("kilogram", [1e3, 1e-2])
def test_the_unit_of_mass_does_not_matter(name: str, binding: bool, kilogram: float) -> None:
    believed, triangle, strength, expected = problem_of(name, binding)
    forward = kilogram * np.eye(len(believed.labels))
    found = PhysicallyConsistent(strength=strength).fit(triangle, mapped(believed, forward))
    agree(believed, found.parameters.values / kilogram, expected.parameters.values, binding)


@either_side
def test_the_order_of_links_does_not_matter(name: str, binding: bool) -> None:
    believed, triangle, strength, expected = problem_of(name, binding)
    links, size = len(believed.groups), len(believed.labels)
    rng = np.random.default_rng(5)
    order = np.concatenate(
        [
            (10 * rng.permutation(links)[:, None] + np.arange(10)).ravel(),
            10 * links + rng.permutation(size - 10 * links),
        ]
    )
    where = {int(k): i for i, k in enumerate(order)}
    other = replace(
        believed,
        labels=believed.labels.select(order),
        matrix=believed.matrix[:, order],
        nominal=believed.nominal[order],
        nonnegative=tuple(sorted(where[k] for k in believed.nonnegative)),
    )
    found = PhysicallyConsistent(strength=strength).fit(triangle, other)
    back = np.empty(size)
    back[order] = found.parameters.values
    agree(believed, back, expected.parameters.values, binding)


@pytest.mark.parametrize("channel", range(2))
@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_the_unit_of_one_channel_does_not_matter(channel: int, factor: float) -> None:
    c = case("planar")
    names = c.robot.channels
    effort = c.regressor @ (c.believed.matrix @ c.truth)
    weights = dict.fromkeys(names, 10.0)
    scale = np.ones(len(names))
    scale[channel] = factor
    rows = Information.from_rows(c.labels, names, c.regressor, effort)
    scaled = Information.from_rows(c.labels, names, scale[:, None] * c.regressor, scale * effort)
    lighter = {**weights, names[channel]: 10.0 / factor}
    one = PhysicallyConsistent().fit(rows.combined(weights), c.believed)
    two = PhysicallyConsistent().fit(scaled.combined(lighter), c.believed)
    agree(c.believed, two.parameters.values, one.parameters.values, binding=False)


@either_side
def test_the_same_input_gives_the_same_bytes(name: str, binding: bool) -> None:
    believed, triangle, strength, expected = problem_of(name, binding)
    again = PhysicallyConsistent(strength=strength).fit(triangle, believed)
    assert np.array_equal(again.parameters.values, expected.parameters.values)


# ---- how sure -------------------------------------------------------------------------------


def test_a_doubt_of_one_effective_sample_each_is_the_bayesian_posterior() -> None:
    c = case("flyer")
    triangle, strength = c.triangle(sigma=5.0), 10.0
    # 1.96 standard deviations hold the worst direction of the doubt: its usual one is smaller.
    method = PhysicallyConsistent(strength=strength, prior_error=strength**-0.5 / WORST_DIRECTION)
    found = method.fit(triangle, c.believed).parameters.covariance
    rows, _ = prior_rows(c.believed)
    stacked = np.vstack([triangle.R @ c.believed.matrix, np.sqrt(strength) * rows])
    # A J A + A Λ A = A with A = (J + Λ)⁻¹; inverses lose the condition of the columns' Gram.
    lengths = np.linalg.norm(stacked, axis=0)
    even = stacked / lengths
    expected = np.linalg.inv(even.T @ even) / np.outer(lengths, lengths)
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert np.abs((found - expected) / scale).max() <= 1e-9


@every_strong_robot
def test_the_noise_part_of_the_covariance_scales_with_the_noise(name: str) -> None:
    c = case(name)
    method = PhysicallyConsistent(strength=1e-9)
    small, large = (method.fit(c.triangle(sigma=s), c.believed) for s in (1e-3, 1e-2))
    seen = [c.believed.matrix @ e.noise @ c.believed.matrix.T for e in (small, large)]
    # σ² where data lead: against rows of weight 1e4 and more the prior of 1e-9 is nothing.
    np.testing.assert_allclose(np.diag(seen[1]), 100.0 * np.diag(seen[0]), rtol=1e-5)


@every_robot
def test_shares_lie_between_none_and_all(name: str) -> None:
    c = case(name)
    estimate = PhysicallyConsistent().fit(c.triangle(sigma=1e-3), c.believed)
    assert ((estimate.seen >= 0.0) & (estimate.seen <= 1.0)).all()
    if name == "flyer":  # all ten are told, by 1200 rows of weight 1e6 each
        assert estimate.seen.min() > 0.9


def test_the_noise_covariance_is_that_of_repeated_experiments() -> None:
    c = case("flyer", 12)
    method, sigma = PhysicallyConsistent(strength=1.0), 0.05
    triangles = (c.triangle(noise=sigma, seed=k, sigma=sigma) for k in range(400))
    runs = [method.fit(t, c.believed) for t in triangles]
    spread = np.var([in_metric(c.believed, e.parameters.values) for e in runs], axis=0, ddof=1)
    back = np.linalg.inv(cone_metric(c.believed.nominal))
    stated = np.diag(back @ runs[0].noise @ back.T)
    # A variance of 400 draws is stated/399·χ²(399): within ±0.29 of one, ten times in 10⁴ draws.
    assert np.abs(spread / stated - 1.0).max() <= 0.29


@every_robot
def test_numbers_of_a_link_are_those_that_files_state(name: str) -> None:
    c = case(name)
    estimate = PhysicallyConsistent().fit(c.triangle(sigma=0.1), c.believed)
    for first in c.believed.groups:
        ten = slice(first, first + 10)
        mass, com, about = inertia.to_body(estimate.parameters.values[ten])
        said = stated_numbers(estimate, first)
        assert said["mass"].value == mass
        assert [said[f"com.{x}"].value for x in "xyz"] == com.tolist()
        for i, j in inertia.INERTIA_INDEX:
            assert said[f"inertia.{'xyz'[i]}{'xyz'[j]}"].value == about[i, j]
        # The mass is a parameter itself, so its deviation is.
        assert said["mass"].std == pytest.approx(estimate.parameters.std[first], rel=1e-12)


def test_deviations_of_stated_numbers_are_those_of_a_sample() -> None:
    c = case("flyer")
    estimate = PhysicallyConsistent(strength=1e-3).fit(c.triangle(sigma=0.02), c.believed)
    assert estimate.parameters.covariance is not None
    rng = np.random.default_rng(1)
    draws = rng.multivariate_normal(
        estimate.parameters.values, estimate.parameters.covariance, 20_000, method="eigh"
    )
    stated = np.array(
        [
            [m, *c_, *(t[i, j] for i, j in inertia.INERTIA_INDEX)]
            for m, c_, t in map(inertia.to_body, draws)
        ]
    )
    found = np.array([s.std for s in stated_numbers(estimate, 0).values()])
    # The deviation of 20 000 draws is right to 1/√40 000 = 0.5 %: four of these, and 1 % for
    # what a linear map leaves out at deviations of under a hundredth.
    np.testing.assert_allclose(stated.std(axis=0), found, rtol=0.03)


@pytest.mark.parametrize("name", ["planar", "ur10", "flyer"])
def test_the_pull_is_how_far_a_stronger_prior_would_move_the_numbers(name: str) -> None:
    """The derivative by the logarithm of the strength, of parameters and of stated numbers."""
    c, strength, step = case(name), 10.0, 1e-3
    triangle = c.triangle(noise=1e-4, sigma=1e-2)
    estimate, less, more = (
        PhysicallyConsistent(strength=s).fit(triangle, c.believed)
        for s in (strength, strength * np.exp(-step), strength * np.exp(step))
    )
    assert estimate.iterations == less.iterations == more.iterations == 0
    slope = (more.parameters.values - less.parameters.values) / (2.0 * step)
    found, wanted = (in_metric(c.believed, x) for x in (estimate.pull, slope))
    # A central difference leaves step²/6 of the third derivative, and rounding over the step.
    size = np.abs(wanted).max()
    assert size > 1e-6
    values = np.abs(in_metric(c.believed, estimate.parameters.values)).max()
    assert np.abs(found - wanted).max() <= 1e-5 * size + 1e-11 * values / step
    for first in c.believed.groups:
        here, low, high = (stated_numbers(e, first) for e in (estimate, less, more))
        for n in here:
            moved = (high[n].value - low[n].value) / (2.0 * step)
            scale = max(abs(k.value) for m, k in here.items() if m[:3] == n[:3])
            assert here[n].pull == pytest.approx(moved, rel=1e-3, abs=1e-7 * scale)


def test_without_rows_nothing_is_pulled() -> None:
    c = case("planar")
    nothing = Information.neutral(c.labels, c.robot.channels).combined()
    estimate = PhysicallyConsistent().fit(nothing, c.believed)
    # The prior holds everything where it is already: rounding is left.
    assert np.abs(in_metric(c.believed, estimate.pull)).max() <= 1e-12


# ---- a file of template moments --------------------------------------------------------------


def template(believed: ParameterSpace, moment: float) -> ParameterSpace:
    """The space of a file whose every link has the same moments about its centre of mass."""
    nominal = believed.nominal.copy()
    for k in believed.groups:
        mass, com, _ = inertia.to_body(nominal[k : k + 10])
        nominal[k : k + 10] = inertia.from_body(mass, com, moment * np.eye(3))
    return replace(believed, nominal=nominal)


@pytest.mark.parametrize("moment", [1e-6, 1e-5, 1e-4])
def test_a_template_does_not_nail_masses(moment: float) -> None:
    """Stated masses are within three deviations where moments are raised, and far off if not."""
    c = case("planar", 400)
    furthest = []
    for gyration in (c.robot.least_gyrations(), ()):
        space = replace(template(c.believed, moment), gyration=gyration)
        apart = []
        for seed in range(5):
            found = PhysicallyConsistent().fit(c.triangle(0.02, seed, 0.02), space)
            std = np.sqrt(np.diag(found.parameters.covariance))
            off = np.abs(found.parameters.values - c.truth) / std
            apart += [off[k] for k in space.groups if found.seen[k] > 0.25]
        furthest.append(max(apart, default=0.0))
    assert furthest[0] <= 3.0 < furthest[1]


def test_a_template_that_no_row_speaks_of_is_not_named_as_bound() -> None:
    c = case("planar")
    space = replace(template(c.believed, 1e-6), gyration=c.robot.least_gyrations())
    nothing = Information.neutral(c.labels, c.robot.channels).combined()
    assert PhysicallyConsistent().fit(nothing, space).active == ()
