"""Laws of the design of excitation: gradients of all that counts, limits kept, who fights whom."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pinocchio as pin
import pytest

from heft.errors import InfeasibleLimits, InvalidSetting
from heft.excitation import (
    Design,
    DesignLimits,
    DesignSettings,
    EffortLimits,
    Excitation,
    Grids,
    JointLimits,
    Progress,
    SolverSettings,
    criteria,
    design,
    excitation_of,
    link_deviations,
    task_error,
)
from heft.excitation.excitation import scaled
from heft.excitation.optimal_design import base_positions, judged
from heft.excitation.starts import draw, largest_share, resting_posture
from heft.information import Information, triangle_of
from heft.plants import ExcitableLoad, ExcitableRobot, FreeBody, Plant, last_frame
from tests import robots

Array = np.ndarray[Any, np.dtype[np.float64]]
TWO = "double_pendulum_description/urdf/double_pendulum.urdf"
SIX = "ur_description/urdf/ur5_robot.urdf"
QUICK = DesignSettings(
    duration=5.0,
    harmonics=4,
    random=20,
    starts=2,
    workers=1,
    grids=Grids(60, 48, 24),
    solver=SolverSettings(rounds=6, iterations=20, more=10),
)


@cache
def plant_of(file: str) -> ExcitableRobot:
    return ExcitableRobot.of(robots.load(file))


def joint_limits(count: int, velocity: float = 2.0, acceleration: float = 6.0) -> JointLimits:
    size = np.ones(count)
    return JointLimits(-2.0 * size, 2.5 * size, velocity * size, acceleration * size, 60.0 * size)


def nominal(plant: ExcitableRobot) -> Array:
    """Return the model file's parameters, with some friction."""
    values = np.full(len(plant.labels), 0.3)
    values[: plant.bodies_size] = plant.robot.nominal()[: plant.bodies_size]
    return values


@dataclass(frozen=True)
class Sphere:
    """Keeps a smooth function of the posture apart from zero, for want of bodies."""

    names: tuple[str, ...] = ("sum of squares", "first joint")

    def values(self, q: Array) -> Array:
        return np.stack([3.0 - np.sum(q**2, axis=1), 1.0 + np.sin(q[:, 0])], axis=1)

    def pull_back(self, q: Array, seeds: Array) -> Array:
        out = -2.0 * q * seeds[:, :1]
        out[:, 0] += np.cos(q[:, 0]) * seeds[:, 1]
        return out


def efforts_of(plant: ExcitableRobot, kind: str) -> EffortLimits:
    values, count = nominal(plant), len(plant.channels)
    deviations = link_deviations(values, len(plant.robot.tree.names), 0.1, 0.2)
    torque, power = np.full(count, 30.0), np.full(count, 40.0)
    if kind == "actuators":
        mixing = np.random.default_rng(0).normal(size=(count + 1, count))
        return EffortLimits(values, np.full(count + 1, 30.0), mixing=mixing)
    spread: Any = "vertices" if kind == "vertices" else "deviations"
    return EffortLimits(values, torque, power, deviations, spread)


PROBLEMS = {
    "vertices": ("D", "vertices", (), "both"),
    "deviations and clearance": ("A", "deviations", (Sphere(),), "start"),
    "actuators, correlated noise": ("E", "actuators", (), "both"),
    "scaled condition": ("condition", "vertices", (Sphere(),), "none"),
}


def problem_of(name: str) -> Excitation:
    criterion, kind, clearance, rest = PROBLEMS[name]
    plant, rng = plant_of(SIX), np.random.default_rng(1)
    noise = rng.uniform(0.5, 2.0, 6)
    if kind == "actuators":
        mixed = rng.normal(size=(6, 6))
        noise = mixed @ mixed.T + np.eye(6)
    limits = DesignLimits(joint_limits(6), efforts_of(plant, kind), clearance)
    family = replace(QUICK, rest=rest).family  # type: ignore[arg-type]
    chosen = criteria.named(criterion)
    problem = excitation_of(plant, family, limits, chosen, noise, replace(QUICK.grids, spare=0.01))
    return scaled(problem, list(draw(problem, limits.joints, 3, rng)))


@pytest.mark.parametrize("name", PROBLEMS)
def test_one_pass_gives_the_gradient_of_all_that_counts(name: str) -> None:
    """Information, torque with margins, power, clearance and joint limits, whatever the noise."""
    problem, rng = problem_of(name), np.random.default_rng(2)
    (X,) = draw(problem, joint_limits(6), 1, rng)
    at = problem.at(X)
    multipliers = rng.uniform(size=at.constraints.shape) * (at.constraints > -0.95)
    gradient = problem.gradient(at, multipliers)

    def total(step: float) -> float:
        here = problem.at(X + step * way)
        return float(multipliers @ here.constraints) - here.value

    for _ in range(3):
        way = rng.normal(size=X.shape)
        h = 1e-5
        found = (8.0 * (total(h) - total(-h)) - total(2 * h) + total(-2 * h)) / (12.0 * h)
        assert float(np.sum(gradient * way)) == pytest.approx(found, rel=1e-7)


def test_the_gradient_of_the_log_determinant_alone_is_exact_to_seven_digits() -> None:
    problem, rng = problem_of("vertices"), np.random.default_rng(3)
    (X,) = draw(problem, joint_limits(6), 1, rng)
    at = problem.at(X)
    gradient = problem.gradient(at, np.zeros_like(at.constraints))
    way = rng.normal(size=X.shape)
    h = 2e-5  # Coulomb friction turns its sign within .03 rad/s

    def value(k: int) -> float:
        return -problem.at(X + k * h * way).value

    weights = ((1, 0.8), (2, -0.2), (3, 4.0 / 105.0), (4, -1.0 / 280.0))
    found = sum(w * (value(k) - value(-k)) for k, w in weights) / h
    assert float(np.sum(gradient * way)) == pytest.approx(found, rel=1e-7)


def test_the_information_is_that_of_all_rows() -> None:
    problem = problem_of("actuators, correlated noise")
    (X,) = draw(problem, joint_limits(6), 1, np.random.default_rng(4))
    rows = problem.rows
    q, v, a = problem.sampled @ X
    plain = rows.plant.rows(rows.plant.samples_at(q, v, a), rows.columns).regressor
    whole = np.tensordot(plain / rows.scale, rows.whitening.T, ([1], [0]))
    M = np.einsum("nkc,nlc->kl", whole, whole)
    blocks = rows.blocks(rows.laid(rows.plant.samples_at(q, v, a)))
    assert np.allclose(rows.information(blocks), M)
    R = triangle_of(rows.stacked(blocks))
    assert criteria.Determinant()(R.T @ R)[0] == pytest.approx(criteria.Determinant()(M)[0])


# ---- limits


@cache
def designed(kind: str = "vertices") -> Design:
    plant = plant_of(SIX)
    effort = replace(efforts_of(plant, kind), torque=np.full(6, 60.0))
    limits = DesignLimits(joint_limits(6), effort)
    return design(plant, limits, QUICK)


def fine(found: Design, factor: int = 23) -> Array:
    return np.linspace(0.0, found.trajectory.duration, factor * found.settings.grids.samples)


def test_a_design_tells_more_than_any_random_motion() -> None:
    found = designed()
    assert found.gain > 10.0 and found.gain_over_median > found.gain
    assert found.log_determinant > found.log_determinant_of(random_motion(found)) + 10.0
    rows = found.rows_of(found.trajectory) / found.noise[:, None]
    M = np.einsum("nci,ncj->ij", rows, rows)
    assert found.log_determinant == pytest.approx(np.linalg.slogdet(M)[1])
    assert np.allclose(found.std**2, np.diag(np.linalg.inv(M)), rtol=1e-6)
    assert found.std.shape == (found.base.rank,) and np.isfinite(found.std).all()


def random_motion(found: Design) -> Any:
    (X,) = draw(found.problem, joint_limits(6), 1, np.random.default_rng(0))
    return found.settings.family.trajectory(X, found.trajectory.names, found.trajectory.units)


def test_joint_limits_hold_on_a_finer_grid_than_any_that_was_looked_at() -> None:
    found, limits = designed(), joint_limits(6)
    time = fine(found)
    q = found.trajectory.derivative(time)
    assert np.all(q >= limits.lower) and np.all(q <= limits.upper)
    for order, size in ((1, limits.velocity), (2, limits.acceleration), (3, limits.jerk)):
        assert np.all(np.abs(found.trajectory.derivative(time, order)) <= size)
    assert max(b.excess for b in found.margins) <= 0.0
    assert {b.limit for b in found.margins} >= {"position", "velocity", "torque", "power"}


def test_torque_and_power_hold_for_every_body_within_the_prior_by_pinocchio() -> None:
    found = designed()
    plant, limits = found.plant, efforts_of(found.plant, "vertices")
    model = pin.buildModelFromXML(plant.robot.source.decode())
    data = model.createData()
    q, v, a = found.trajectory(fine(found, 3))
    inertias, rng = [pin.Inertia(i) for i in model.inertias], np.random.default_rng(5)
    for _ in range(4):
        shares = rng.choice([-0.1, 0.1], len(inertias) - 1)
        for k, share in enumerate(shares, 1):
            scaled_body = (1.0 + share) * inertias[k].toDynamicParameters()
            model.inertias[k] = pin.Inertia.FromDynamicParameters(scaled_body)
        tau = np.array([pin.rnea(model, data, *row) for row in zip(q, v, a, strict=True)])
        shares = rng.choice([0.8, 1.2], (4, 6))  # rotor, viscous, Coulomb, offset: .3 ± 20 % each
        terms = (a, v, np.tanh(v / 0.031), np.ones_like(v))
        friction = sum(0.3 * s * t for s, t in zip(shares, terms, strict=True))
        assert np.all(np.abs(tau + friction) <= 60.0)
        assert limits.power is not None
        assert np.all(np.abs((tau + friction) * v) <= limits.power)


def test_the_same_seed_gives_the_same_motion_whatever_the_workers() -> None:
    plant, limits = plant_of(TWO), DesignLimits(joint_limits(2))
    one, two = (design(plant, limits, replace(QUICK, workers=k)) for k in (1, 2))
    assert np.array_equal(one.trajectory.coefficients, two.trajectory.coefficients)
    other = design(plant, limits, replace(QUICK, seed=1))
    assert not np.array_equal(one.trajectory.coefficients, other.trajectory.coefficients)


def test_clearance_is_kept() -> None:
    plant = plant_of(TWO)
    free = design(plant, DesignLimits(joint_limits(2)), QUICK)
    kept = design(plant, DesignLimits(joint_limits(2), clearance=(Sphere(),)), QUICK)
    clearance = [Sphere().values(d.trajectory.derivative(fine(d))).min() for d in (free, kept)]
    assert clearance[0] < -0.1 and clearance[1] >= -1e-3
    assert kept.gain > 0.0
    assert any(b.limit == "clearance" and b.of == "first joint" for b in kept.margins)


def test_a_spline_is_designed_too() -> None:
    found = design(plant_of(TWO), DesignLimits(joint_limits(2)), replace(QUICK, basis="spline"))
    q, v, _ = found.trajectory(fine(found))
    assert np.all(np.abs(v) <= 2.0) and np.abs(v[[0, -1]]).max() <= 1e-10
    assert found.gain > 0.0 and np.all(q <= 2.5)


def test_a_start_is_kept() -> None:
    start = (0.4, -0.3)
    found = design(plant_of(TWO), DesignLimits(joint_limits(2)), replace(QUICK, start=start))
    assert np.allclose(found.trajectory.derivative(np.zeros(1)), [start], atol=1e-12)
    assert found.gain > 0.0


# ---- infeasible


def test_gravity_that_the_drives_cannot_hold_is_named() -> None:
    plant = plant_of(SIX)
    values = nominal(plant)
    deviations = link_deviations(values, len(plant.robot.tree.names), 0.1, 0.2)
    torque = np.array([60.0, 0.001, 60.0, 60.0, 60.0, 60.0])
    weak = EffortLimits(values, torque, deviations=deviations)
    with pytest.raises(InfeasibleLimits, match=f"torque of {plant.channels[1].name}"):
        design(plant, DesignLimits(joint_limits(6), weak), QUICK)


def test_where_no_random_motion_has_room_some_are_bent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heft.excitation.starts.shrunk", lambda problem, X, posture: None)
    limits = DesignLimits(joint_limits(2), clearance=(Sphere(),))
    found = design(plant_of(TWO), limits, QUICK)
    assert np.isfinite(found.value)
    assert Sphere().values(found.trajectory(fine(found))[0]).min() >= 0.0


def test_single_numbers_are_judged_without_a_dictionarys_columns() -> None:
    plant = ExcitableRobot.of(robots.load(TWO), dictionary=True)
    settings = replace(QUICK, criterion="E", random=10, starts=1)
    found = design(plant, DesignLimits(joint_limits(2)), settings)
    kept = judged(plant, found.base, None)
    assert kept is not None and len(found.base.labels) - len(kept) == len(plant.redundant) > 0
    # The columns that are left are as well conditioned as without the dictionary, about.
    alone = design(plant_of(TWO), DesignLimits(joint_limits(2)), settings)
    assert judged(alone.plant, alone.base, None) is None
    assert found.conditions.scaled < 10.0 * alone.conditions.scaled
    everything = criteria.conditions(found.rows_of(found.trajectory), found.noise)
    assert found.conditions.scaled < 0.1 * everything.scaled


def test_limits_that_fight_are_both_named() -> None:
    """A sphere about a posture that the positions exclude."""
    limits = joint_limits(2)
    limits = replace(limits, lower=np.array([1.9, -2.0]), upper=np.array([2.5, 2.5]))
    with pytest.raises(InfeasibleLimits) as caught:
        design(plant_of(TWO), DesignLimits(limits, clearance=(Sphere(),)), QUICK)
    text = str(caught.value)
    assert "clearance of sum of squares" in text and "position of joint1" in text
    assert "velocity" not in text


def test_a_resonance_is_not_excited() -> None:
    limits = DesignLimits(joint_limits(2), highest=0.5)
    with pytest.raises(InvalidSetting, match="resonance"):
        design(plant_of(TWO), limits, QUICK)
    design(plant_of(TWO), limits, replace(QUICK, harmonics=2, random=5, starts=1))


@pytest.mark.parametrize("change", [{"lower": 3.0}, {"velocity": 0.0}, {"jerk": -1.0}])
def test_limits_that_are_none_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(InvalidSetting):
        replace(joint_limits(2), **{k: np.full(2, x) for k, x in change.items()})


def test_a_plant_that_cannot_be_designed_is_refused() -> None:
    class Other(Plant[Any]):
        pass

    with pytest.raises(InvalidSetting, match="cannot be designed"):
        design(Other(), DesignLimits(joint_limits(2)), QUICK)  # type: ignore[abstract]


# ---- what counts


def test_an_interrupt_keeps_the_best_so_far() -> None:
    stop, heard = threading.Event(), []

    def progress(said: Progress) -> None:
        heard.append(said)
        stop.set()

    limits = DesignLimits(joint_limits(2))
    found = design(plant_of(TWO), limits, QUICK, progress=progress, stop=stop)
    assert found.interrupted and len(heard) <= QUICK.starts
    assert max(b.excess for b in found.margins) <= 0.0
    assert found.value >= found.random[0]


def test_chosen_links_are_told_better_than_by_a_design_for_all() -> None:
    plant, limits = plant_of(TWO), DesignLimits(joint_limits(2))
    about = ("joint2", "link2")
    quick = replace(QUICK, solver=SolverSettings(rounds=8, iterations=30))
    whole = design(plant, limits, quick)
    some = design(plant, limits, replace(quick, about=about))
    places = base_positions(whole.base.labels, about)
    assert places is not None and 3 <= len(places) < whole.base.rank
    assert some.log_determinant > some.log_determinant_of(whole.trajectory)
    with pytest.raises(InvalidSetting, match="link2"):
        base_positions(whole.base.labels, ("lnk2",))


def test_information_in_hand_is_added_and_turns_the_design() -> None:
    plant, limits = plant_of(TWO), DesignLimits(joint_limits(2))
    noise = np.ones(len(plant.channels))
    # Optima are local
    searching = replace(QUICK, random=40, starts=4)
    first = design(plant, limits, searching, noise)
    rows = 1e3 * first.rows_of(first.trajectory)[:, :1]
    channels = [plant.channels[0].name]
    known = Information.from_rows(first.base.labels, channels, rows, np.zeros(rows.shape[:2]))
    second = design(plant, limits, searching, noise, known)
    own = second.rows_of(second.trajectory)
    both = [*own.reshape(-1, second.base.rank), *rows.reshape(-1, second.base.rank)]
    expected = 2.0 * np.log(np.linalg.svd(np.array(both), compute_uv=False)).sum()
    assert second.log_determinant == pytest.approx(expected)
    assert second.log_determinant > first.log_determinant
    converged = 0.1  # nats: local optima
    assert second.log_determinant > second.log_determinant_of(first.trajectory) - converged


def test_a_task_of_the_users_own_is_a_criterion() -> None:
    plant, limits = plant_of(TWO), DesignLimits(joint_limits(2))
    general = design(plant, limits, QUICK)
    task = general.trajectory.shrunk(0.2, np.array([1.0, 1.0]))
    motion = task(np.linspace(0.0, task.duration, 50))
    error = task_error(plant, motion, np.ones(2))
    rows = general.rows_of(task)
    assert error.task.shape == (rows.shape[2],) * 2
    found = design(plant, limits, QUICK, criterion=error)
    triangles = [general.triangle_of(d.trajectory) for d in (found, general)]
    one, two = (error(R.T @ R)[0] for R in triangles)
    assert one > two


def test_a_load_is_designed_for_by_its_own_columns() -> None:
    robot = robots.load(SIX)
    plant = ExcitableLoad(ExcitableRobot.of(robot), last_frame(robot))
    found = design(plant, DesignLimits(joint_limits(6)), replace(QUICK, starts=1))
    assert found.base.rank == 10 and found.gain > 0.0
    assert found.conditions.scaled < 40.0


def test_a_free_body_is_designed_for() -> None:
    reach = np.array([0.8] * 3 + [1.0] * 3)
    limits = JointLimits(-reach, reach, np.ones(6), 2.0 * np.ones(6))
    settings = replace(QUICK, harmonics=3, duration=10.0)
    found = design(FreeBody(), DesignLimits(limits), settings)
    assert found.base.rank == 10 and found.gain > 1.0
    criterion = replace(settings, criterion="condition", scale_columns=False)
    level = design(FreeBody(), DesignLimits(limits), criterion)
    assert level.conditions.raw < found.conditions.raw


def test_scaled_columns_do_not_change_a_tasks_error() -> None:
    plant, limits = plant_of(TWO), DesignLimits(joint_limits(2))
    rng = np.random.default_rng(2)
    task = task_error(plant, tuple(rng.normal(size=(3, 20, 2))), np.array([0.5, 2.0]))
    problem = excitation_of(plant, QUICK.family, limits, task, np.ones(2), QUICK.grids)
    motions = list(draw(problem, limits.joints, 3, rng))
    plain, other = problem.at(motions[0]), scaled(problem, motions).at(motions[0])
    assert other.value == pytest.approx(plain.value)
    assert not np.allclose(other.slope, plain.slope)


def test_what_is_broken_is_taken_back_by_shrinking() -> None:
    problem = problem_of("vertices")
    (X,) = draw(problem, joint_limits(6), 1, np.random.default_rng(6))
    posture, _ = resting_posture(problem, joint_limits(6), np.random.default_rng(7))
    share = largest_share(problem, 4.0 * X, posture)
    still = problem.family.still(posture)
    kept = still + share * (4.0 * X - still)
    assert 0.0 < share < 1.0 and problem.at(kept).constraints.max() <= 0.0
    little_more = still + 1.02 * share * (4.0 * X - still)
    assert problem.at(little_more).constraints.max() > 0.0


@pytest.mark.parametrize(("share", "kept"), [(0.5, True), (1.0, True), (1.01, False)])
def test_motions_below_the_first_resonance_are_allowed(share: float, kept: bool) -> None:
    limits = DesignLimits(joint_limits(2), highest=3.0)
    if kept:
        limits.require_slow(3.0 * share)
    else:
        with pytest.raises(InvalidSetting, match="first resonance"):
            limits.require_slow(3.0 * share)
