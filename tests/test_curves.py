"""What is drawn of a log keeps its peaks, its power and its friction, in bounded room."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heft.display.curves import CURVE_POINTS, SCATTER_POINTS, Stretch, Tracer, moments, peaks
from heft.display.scene import bones, ellipsoid
from heft.dynamics.kinematics import body_poses
from heft.information import inertia
from heft.information.rotation import matrix_of_rpy
from heft.models.robot import Robot
from tests.experiments import ARMS, ROBOTS, configuration


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4000), st.integers(4, 400), st.integers(0, 2**32 - 1))
def test_a_thinned_curve_keeps_the_least_and_the_greatest(
    rows: int, points: int, seed: int
) -> None:
    curves = np.random.default_rng(seed).normal(size=(3, rows)).cumsum(axis=1)
    kept = peaks(curves, points)
    assert (np.diff(kept) > 0).all() and len(kept) <= max(points, 0) + 2 * 3 + 2
    assert kept[0] == 0 and kept[-1] == rows - 1
    every = 1 if rows <= points else -(-6 * rows // points)
    for start in range(0, rows, every):  # of the whole, and so of each stretch
        stretch = curves[:, start : start + every]
        chosen = curves[:, kept[(kept >= start) & (kept < start + every)]]
        np.testing.assert_array_equal(chosen.max(axis=1), stretch.max(axis=1))
        np.testing.assert_array_equal(chosen.min(axis=1), stretch.min(axis=1))


def test_a_thinned_curve_keeps_its_gaps() -> None:
    curves = np.arange(1000.0)[None, :].copy()
    curves[0, [300, 301, 700]] = np.nan
    assert {300, 301, 700} <= set(peaks(curves, 50).tolist())


def stretch(rng: np.random.Generator, start: float, rows: int, step: float) -> Stretch:
    """Return a stretch of one joint that rubs with 2 N·m·s/rad, and white noise of 0.3 N·m."""
    time = start + step * np.arange(rows)
    velocity = np.sin(time)[:, None]
    noise = 0.3 * rng.normal(size=(rows, 1))
    rest = np.cos(time)[:, None]
    predicted = rest + 2.0 * velocity
    return Stretch(
        time, velocity, velocity, rest[:, :0], rest[moments(np.arange(rows), 2 * rows), :0],
        0, np.arange(rows), predicted + noise, predicted[None], rest,
    )  # fmt: skip


@pytest.mark.parametrize("rows", [200, 5000, 300_000])
def test_a_trace_holds_power_and_friction_in_bounded_room(rows: int) -> None:
    rng, step = np.random.default_rng(rows), 0.002
    tracer = Tracer("log", ["elbow"], [("elbow", 0, 0)], step, 2 * rows)
    for start in (0.0, rows * step + 1.0):
        tracer.add(stretch(rng, start, rows, step))
    kept = [a for (s,) in tracer._sliding for a in (s.velocity, s.effort)]
    assert all(a.base is None for a in kept)  # views would hold all rows
    trace = tracer.trace()
    assert trace is not None
    (curve,), (sliding,) = trace.curves, trace.sliding
    assert len(curve.time) <= CURVE_POINTS + 20 and len(sliding.velocity) <= SCATTER_POINTS + 2
    assert np.isnan(curve.time).sum() == 1  # the gap
    power = trace.residual[:, 0].sum() * (trace.frequency[1] - trace.frequency[0])
    assert power == pytest.approx(0.09, rel=5.0 * np.sqrt(2.0 / (2 * rows)) + 0.05)  # Parseval
    assert trace.rms_residual[0] == pytest.approx(0.3, rel=5.0 / np.sqrt(4 * rows))
    left = sliding.effort - 2.0 * sliding.velocity
    assert np.sqrt(np.mean(left**2)) == pytest.approx(0.3, rel=4.0 / np.sqrt(len(left)))
    assert sliding.fastest == pytest.approx(
        (np.sin(np.r_[0 : rows * step : step]).min(), np.sin(np.r_[0 : rows * step : step]).max()),
        abs=1.1,
    )


def test_a_log_without_rows_has_no_trace() -> None:
    assert Tracer("log", ["elbow"], [], 0.01, 0).trace() is None


PLACED = {**ARMS, "sliding fingers": ROBOTS / "panda_description" / "urdf" / "panda.urdf"}


@pytest.mark.parametrize("name", PLACED)
def test_bodies_are_where_pinocchio_puts_them(name: str) -> None:
    robot = Robot.from_urdf(PLACED[name])
    tree = robot.tree
    model = pin.buildModelFromXML(robot.source.decode())
    position = np.random.default_rng(7).uniform(-2.0, 2.0, len(robot.channels))
    # Pinocchio moves a joint that mimics another by itself.
    moved = tree.multiplier * position[tree.channel] + tree.offset
    data = model.createData()
    pin.forwardKinematics(model, data, configuration(model, moved))
    poses = body_poses(tree, position)
    for k in range(len(tree.names)):
        np.testing.assert_allclose(poses[k], data.oMi[k + 1].homogeneous, atol=1e-12)


@pytest.mark.parametrize("name", PLACED)
def test_a_line_leads_to_each_body_from_the_one_that_carries_it(name: str) -> None:
    robot = Robot.from_urdf(PLACED[name])
    tree = robot.tree
    position = np.random.default_rng(8).uniform(-2.0, 2.0, len(robot.channels))
    places = np.vstack([body_poses(tree, position)[:, :3, 3], np.zeros(3)])  # the world's last
    lines, looked = bones(robot, body_poses(tree, position)), 0
    for body, parent in enumerate(tree.parent):
        line = np.concatenate([places[parent], places[body]])
        if np.linalg.norm(line[:3] - line[3:]) > 1e-3:
            looked += 1
            assert np.abs(lines - line).max(axis=1).min() < 1e-12, tree.names[body]
    assert looked > 0


def test_an_ellipsoid_has_the_inertia_that_it_was_drawn_from() -> None:
    mass, com, axes = 3.0, np.array([0.1, -0.2, 0.3]), np.array([0.4, 0.1, 0.25])
    turn = matrix_of_rpy(0.3, -1.1, 2.0)
    # A solid ellipsoid: Ixx = m (b² + c²) / 5.
    own = mass / 5.0 * np.diag(np.sum(axes**2) - axes**2)
    shape = ellipsoid(inertia.from_body(mass, com, turn @ own @ turn.T))
    assert shape is not None
    centre, found = shape
    np.testing.assert_allclose(centre, com, atol=1e-12)
    np.testing.assert_allclose(sorted(np.linalg.norm(found, axis=1)), sorted(axes), rtol=1e-9)
    np.testing.assert_allclose(
        found.T @ found, turn @ np.diag(axes**2) @ turn.T, atol=1e-12
    )  # the same ellipsoid, whatever the order and signs of its axes


def test_nothing_is_drawn_of_a_link_without_mass() -> None:
    assert ellipsoid(np.zeros(10)) is None
