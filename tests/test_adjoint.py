"""Laws of the adjoint: against central differences, and against pinocchio's derivatives."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from scipy.spatial.transform import Rotation

from heft.dynamics import adjoint, kernels
from heft.errors import InvalidSetting
from heft.information import inertia
from heft.models.options import Coupling, JointOptions, Options
from heft.models.robot import Robot
from heft.plants import (
    Excitable,
    ExcitableLoad,
    ExcitableRobot,
    FreeBody,
    last_frame,
    random_states,
    standard_rows,
)
from tests import robots
from tests.robots import Oracle

Array = np.ndarray[Any, np.dtype[np.float64]]
COUNT = 67  # one block of 64 and a part of the next
STEP = 1e-3
TREES = (
    "double_pendulum_description/urdf/double_pendulum_continuous.urdf",
    "kinova_description/robots/kinova.urdf",
    "panda_description/urdf/panda.urdf",  # a prismatic pair that mimics
    "pr2_description/urdf/pr2.urdf",  # branches, prismatic torso, mimics with offsets
    "talos_data/robots/talos_full_v2.urdf",
    "tiago_description/robots/tiago_no_hand.urdf",
)
every_tree = pytest.mark.parametrize("file", TREES)


def central(function: Callable[[float], Array]) -> Array:
    """Return the derivative at 0 by differences of sixth order."""
    weights = ((1, 0.75), (2, -0.15), (3, 1.0 / 60.0))
    total = sum(w * (function(k * STEP) - function(-k * STEP)) for k, w in weights)
    return np.asarray(total / STEP)


def along(at: Callable[..., Array], point: tuple[Array, ...], k: int, way: Array) -> Array:
    """Return the derivative of a function of arrays along a way of the k-th."""

    def moved(step: float) -> Array:
        return at(*(x + step * way if i == k else x for i, x in enumerate(point)))

    return central(moved)


@pytest.mark.parametrize("file", [*TREES, "axes of any direction"])
def test_gradients_of_rows_are_those_of_central_differences(file: str) -> None:
    robot = robots.load(file) if file in TREES else robots.oblique_arm()
    rng = np.random.default_rng(3)
    state = random_states(robot, COUNT, rng)
    seeds = rng.normal(size=(COUNT, robot.tree.channels, 10 * len(robot.tree.names)))

    def motion(*state: Array) -> kernels.Motion:
        return kernels.motion_of(robot.tree, robot.gravity, *state)

    def total(*state: Array) -> Array:
        return np.sum(seeds * kernels.regressor(robot.tree, motion(*state)), axis=(1, 2))

    gradients = adjoint.pull_back(robot.tree, motion(*state), seeds)
    for k, gradient in enumerate(gradients):
        way = rng.normal(size=state[k].shape)
        expected = along(total, state, k, way)
        found = np.sum(gradient.T * way, axis=1)
        assert np.abs(found - expected).max() <= 1e-9 * np.abs(expected).max()


@every_tree
def test_pulled_through_the_parameters_it_is_the_derivative_of_inverse_dynamics(file: str) -> None:
    """λᵀ ∂τ/∂(q, v, a) by pinocchio, mimicking joints folded by virtual work."""
    robot = robots.load(file, drives=False)
    oracle, rng = Oracle.of(robot), np.random.default_rng(4)
    q, v, a = random_states(robot, 5, rng)
    pi = robot.written_bodies()
    weights = rng.normal(size=(5, robot.tree.channels))
    motion = kernels.motion_of(robot.tree, robot.gravity, q, v, a)
    found = adjoint.pull_back(robot.tree, motion, weights[:, :, None] * pi)
    data = oracle.model.createData()
    for n in range(5):
        spread = oracle.spread
        parts = pin.computeRNEADerivatives(
            oracle.model, data, oracle.expand(q[n]), spread @ v[n], spread @ a[n]
        )
        full = np.array(parts[2])  # pinocchio fills the upper triangle of M alone
        parts = (*parts[:2], np.triu(full) + np.triu(full, 1).T)
        for gradient, part in zip(found, parts, strict=True):
            expected = weights[n] @ spread.T @ part @ spread
            size = np.abs(weights[n] @ spread.T) @ np.abs(part) @ np.abs(spread)
            assert np.all(np.abs(gradient[:, n] - expected) <= 1e-9 * size.max())


def test_seeds_where_rows_are_zero_by_structure_do_nothing() -> None:
    robot, rng = robots.load(TREES[3]), np.random.default_rng(6)
    motion = kernels.motion_of(robot.tree, robot.gravity, *random_states(robot, 70, rng))
    seeds = rng.normal(size=(70, robot.tree.channels, 10 * len(robot.tree.names)))
    sparse = seeds * np.repeat(robot.tree.ancestry, 10, axis=1)
    one, two = (adjoint.pull_back(robot.tree, motion, s) for s in (seeds, sparse))
    assert all(np.array_equal(x, y) for x, y in zip(one, two, strict=True))


def test_a_floating_base_is_refused() -> None:
    robot = robots.load(TREES[2], "free")
    state = random_states(robot, 2, np.random.default_rng(0))
    motion = kernels.motion_of(robot.tree, robot.gravity, *state)
    with pytest.raises(InvalidSetting, match="floating"):
        adjoint.pull_back(robot.tree, motion, np.zeros((2, robot.tree.channels, 10)))


# ---- plants


def _coupled() -> ExcitableRobot:
    path = robots.path_of("kinova_description/robots/kinova.urdf")
    bare = Robot.from_urdf(path)
    matrix = ((50.0, 0.0), (20.0, 40.0))
    coupling = Coupling(bare.joints[3:5], ("left", "right"), matrix)
    joints = {bare.joints[1]: JointOptions(measured=False)}
    return ExcitableRobot.of(Robot.from_urdf(path, Options(joint=joints, coupling=coupling)))


PLANTS: dict[str, Callable[[], Any]] = {
    "panda": lambda: ExcitableRobot.of(robots.load(TREES[2])),
    "panda, friction's dictionary": lambda: ExcitableRobot.of(robots.load(TREES[2]), True),
    "coupled motors, a joint unmeasured": _coupled,
    "sliding joint": lambda: ExcitableRobot.of(robots.load(TREES[5])),
    "load": lambda: _load("panda_description/urdf/panda.urdf"),
    "free body": FreeBody,
    "free body under gravity": lambda: FreeBody(gravity=(0.3, -0.2, -9.81)),
}
every_plant = pytest.mark.parametrize("name", PLANTS)


def _load(file: str) -> ExcitableLoad:
    robot = robots.load(file)
    return ExcitableLoad(ExcitableRobot.of(robot), last_frame(robot))


def drawn(plant: Any, rng: np.random.Generator, count: int = 20) -> tuple[Array, ...]:
    q, v, a = rng.normal(size=(3, count, len(plant.coordinates)))
    return q, 0.05 * v, a  # slow, so that Coulomb friction has a slope


@every_plant
def test_gradients_of_a_plants_rows_are_those_of_central_differences(name: str) -> None:
    plant, rng = PLANTS[name](), np.random.default_rng(7)
    assert isinstance(plant, Excitable)
    point = drawn(plant, rng)
    columns = np.sort(rng.permutation(len(plant.labels))[: -(-2 * len(plant.labels) // 3)]).tolist()
    shape = plant.rows(plant.samples_at(*point), columns).regressor.shape
    seeds = rng.normal(size=shape)

    def total(*point: Array) -> Array:
        rows = plant.rows(plant.samples_at(*point), columns).regressor
        return np.sum(seeds * rows, axis=(1, 2))

    gradients = plant.pull_back(plant.samples_at(*point), columns, seeds)
    for k, gradient in enumerate(gradients):
        way = rng.normal(size=point[k].shape) * (0.02 if k == 1 else 1.0)
        expected = along(total, point, k, way)
        found = np.sum(gradient * way, axis=1)
        assert np.abs(found - expected).max() <= 1e-8 * np.abs(expected).max()


@every_plant
def test_rows_of_some_columns_are_those_of_all(name: str) -> None:
    plant, rng = PLANTS[name](), np.random.default_rng(8)
    samples = plant.samples_at(*drawn(plant, rng))
    whole = plant.rows(samples, range(len(plant.labels))).regressor
    some = rng.permutation(len(plant.labels))[: len(plant.labels) // 2].tolist()
    assert np.array_equal(plant.rows(samples, some).regressor, whole[:, :, some])


def test_a_designed_robot_has_the_rows_of_the_robot_that_is_estimated() -> None:
    """Bodies, rotors, viscous friction and offset; Coulomb friction where it has saturated."""
    plant = ExcitableRobot.of(robots.load(TREES[2]))
    simple = robots.load(TREES[2], friction="simple")
    rng = np.random.default_rng(9)
    q, v, a = random_states(simple, 30, rng)
    v = v + np.sign(v)  # fast
    rows = plant.rows(plant.samples_at(q, v, a), range(len(plant.labels))).regressor
    expected = standard_rows(simple, q, v, a)
    names = [re.sub(r"sigmoid\[.*\]", "coulomb", n) for n in plant.labels.names]
    expected = expected[:, :, [simple.labels.names.index(n) for n in names]]
    assert np.abs(rows - expected).max() <= 1e-12 * np.abs(expected).max()


def test_body_rates_are_those_of_scipys_rotation() -> None:
    """Euler rates are not body rates: by finite differences of the attitude."""
    rng, body = np.random.default_rng(10), FreeBody(gravity=(0.0, 0.0, -9.81))
    q, v, a = rng.normal(size=(3, 6, 6))

    def attitude(t: float) -> Rotation:
        return Rotation.from_euler("xyz", (q + t * v + 0.5 * t**2 * a)[:, 3:])

    def rate(t: float) -> Array:
        h = 1e-5
        between = attitude(t - h).inv() * attitude(t + h)
        return np.asarray(between.as_rotvec() / (2.0 * h))

    motion = body.samples_at(q, v, a).motion
    assert np.allclose(motion.angular_velocity, rate(0.0), atol=1e-8)
    change = (rate(1e-3) - rate(-1e-3)) / 2e-3
    assert np.allclose(motion.angular_acceleration, change, atol=1e-4)
    felt = attitude(0.0).inv().apply(a[:, :3] + np.array([0.0, 0.0, 9.81]))
    assert np.allclose(motion.specific, felt)
    # d/dt of the velocity in the body's frame, and what counts as it is.
    h = 1e-6
    ahead = attitude(h).inv().apply((v + h * a)[:, :3])
    slope = (ahead - motion.velocity) / h
    assert np.allclose(slope + motion.rest, motion.specific, atol=1e-4)


def test_a_loads_rows_are_those_of_its_weight_in_the_robot() -> None:
    plant = _load("ur_description/urdf/ur5_robot.urdf")
    rng = np.random.default_rng(11)
    samples = plant.samples_at(*drawn(plant, rng))
    load = inertia.from_body(1.3, np.array([0.1, -0.05, 0.2]), np.diag([0.01, 0.02, 0.015]))
    model = pin.buildModelFromXML(plant.carrier.robot.source.decode())
    q, v, a = drawn(plant, np.random.default_rng(11))
    frame = model.frames[model.getFrameId(plant.frame)]

    def torque() -> Array:
        data = model.createData()
        return np.array([pin.rnea(model, data, *row) for row in zip(q, v, a, strict=True)])

    before = torque()
    model.inertias[frame.parentJoint] += frame.placement.act(
        pin.Inertia.FromDynamicParameters(load)
    )
    expected = torque() - before
    found = plant.rows(samples, range(10)).regressor @ load
    assert np.abs(found - expected).max() <= 1e-11 * np.abs(expected).max()


def test_joints_that_are_held_still_are_where_they_are_held() -> None:
    robot = Robot.from_urdf_text(
        robots.PLANAR_ARM, Options(joint={"elbow": JointOptions(position=0.4)})
    )
    plant = ExcitableRobot(robot)
    rng = np.random.default_rng(4)
    q, v, a = rng.normal(size=(3, 9, 1))
    samples = plant.samples_at(q, v, a)
    at = robot.joints.index("elbow")
    moving = 1 - at
    whole = np.zeros((3, 9, 2))
    whole[:, :, moving] = np.stack([q, v, a])[:, :, 0]
    whole[0, :, at] = 0.4
    expected = kernels.motion_of(robot.tree, robot.gravity, *whole)
    np.testing.assert_array_equal(samples.motion.position, whole[0].T)
    np.testing.assert_allclose(samples.motion.velocity, expected.velocity, atol=1e-14)
