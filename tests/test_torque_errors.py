"""Torque errors of the model file before and after: by other programs, and by laws."""

from __future__ import annotations

import mujoco
import numpy as np
import pinocchio as pin
import pytest

from heft import identify
from heft.applications.demo import FOLDER as DEMO
from heft.applications.identification.identification import Identification
from heft.fit.judged import _baselines
from heft.fit.scores import Model, filtered, stretches
from heft.models.robot import Robot
from heft.plants import RobotPlant
from heft.plants.problem import Problem
from heft.recordings.recording import Recording
from tests.mjcfs import NAMES, source
from tests.robots import FloatArray

pytestmark = pytest.mark.usefixtures("without_doctor")

RUN1, RUN2 = DEMO / "run1.parquet", DEMO / "run2.parquet"


def with_friction() -> bytes:
    """Return the demo's model file with damping and dry friction in every joint but the last."""
    *heads, end = (DEMO / "arm.urdf").read_text(encoding="utf-8").split("</joint>")
    for k in range(len(heads) - 1):
        heads[k] += f'<dynamics damping="{0.7 + k}" friction="{1.3 + k}"/>'
    return "</joint>".join([*heads, end]).encode()


def by_pinocchio(data: bytes, problem: Problem[RobotPlant]) -> FloatArray:
    """Return the torque that a model file states for the motion of a problem, (rows, joints)."""
    model = pin.buildModelFromXML(data.decode())
    state, joints = model.createData(), problem.plant.robot.joints
    order = [model.joints[model.getJointId(j)].idx_v for j in joints]
    back = np.argsort(order)
    damping, dry = model.damping[order], model.friction[order]
    found = []
    for s in problem.samples():
        motion = s.motion
        rows = (motion.position.T, motion.velocity.T, motion.bodies.acceleration.T)
        for q, v, a in zip(*rows, strict=True):
            rigid = pin.rnea(model, state, q[back], v[back], a[back])[order]
            found.append(rigid + damping * v + dry * np.sign(v))
    return np.array(found)


@pytest.fixture(scope="module")
def rubbing() -> bytes:
    return with_friction()


@pytest.fixture(scope="module")
def found(rubbing: bytes) -> Identification:
    """Return the demo's arm, whose model file states friction, identified."""
    robot = Robot.from_urdf_text(rubbing)
    return identify(robot, [Recording.open(RUN1)], [Recording.open(RUN2)])


def held_out(found: Identification) -> Problem[RobotPlant]:
    return found.calibrated_problem.held_out(Recording.open(RUN2)).with_settings(decimation=1)


def test_the_model_file_as_it_came_is_what_pinocchio_makes_of_it(
    rubbing: bytes, found: Identification
) -> None:
    problem = held_out(found)
    robot = problem.plant.robot
    pieces = list(stretches(problem, {"written": Model(robot.written_bodies(), {})}))
    got = np.concatenate([p.predicted[0] for p in pieces])
    expected = by_pinocchio(rubbing, problem)
    assert len(got) > 1000 and robot.written_drives[:2].any()
    assert np.abs(got - expected).max() <= 1e-12 * np.abs(expected).max()


def test_its_error_is_that_of_the_same_filtered_rows(rubbing: bytes, found: Identification) -> None:
    problem, errors = held_out(found), found.torque_errors
    assert errors is not None and errors.held_out and errors.written.filter_hz is not None
    predicted, first, left, size = by_pinocchio(rubbing, problem), 0, 0.0, 0.0
    for piece in stretches(problem, {"written": Model(problem.plant.robot.written_bodies(), {})}):
        rows = slice(first, first + len(piece.time))
        step, first = problem.timelines[0].step, rows.stop
        both = (piece.measured - predicted[rows], piece.measured)
        parts = [filtered(piece.time, x, step, errors.written.filter_hz) for x in both]
        left, size = left + np.sum(parts[0] ** 2, 0), size + np.sum(parts[1] ** 2, 0)
    joints = np.sqrt(left / size)
    assert errors.written.total == pytest.approx(np.sqrt(left.sum() / size.sum()), rel=1e-9)
    assert [*errors.written.per_joint.values()] == pytest.approx(joints.tolist(), rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_what_a_model_file_states_of_drives_is_what_mujoco_reads(name: str) -> None:
    robot = Robot.from_text(source(name), path="robot.xml")
    model = mujoco.MjModel.from_xml_string(source(name).decode())
    damping = model.dof_damping.reshape(model.nv, -1)[:, 0]
    stated = np.array([damping, model.dof_frictionloss, model.dof_armature])
    names = [model.joint(k).name or f"joint_{k + 1}" for k in range(model.njnt)]
    dofs = [model.jnt_dofadr[names.index(joint)] for joint in robot.joints]
    np.testing.assert_allclose(robot.written_drives, stated[:, dofs], rtol=1e-12, atol=0.0)


def test_drives_are_fitted_to_the_file_as_well_as_they_can_be(found: Identification) -> None:
    """No other terms, of the signs that friction has, leave less of the fitted rows."""
    space, first = found.calibrated.space, 10 * len(found.problem.space.groups)
    _, drives = _baselines(found.problem, found.calibrated).values()
    values = found.consistent.parameters.values.copy()
    values[:first] = np.concatenate([k.written for k in found.problem.plant.robot.bodies_links])
    names = space.labels.names[first:]
    values[first:] = [drives.drives[n] for n in names]
    R, z = found.calibrated.total.rows_of_all()

    def energy(x: FloatArray) -> float:
        return float(np.sum((R @ (space.matrix @ x) - z) ** 2))

    least = energy(values)
    assert energy(found.consistent.parameters.values) < least
    assert np.count_nonzero(values[first:]) >= 4 * len(found.problem.plant.robot.joints)
    for k in range(first, len(values)):
        column = R @ space.matrix[:, k]
        step = 1e-2 * np.sqrt(least) / max(float(np.linalg.norm(column)), 1e-9)
        for sign in (-1.0, 1.0):
            other = values.copy()
            other[k] += sign * step
            if k not in space.nonnegative or other[k] >= 0.0:
                assert energy(other) >= least * (1.0 - 1e-7)


def test_a_file_of_the_true_masses_needs_only_its_drives(found: Identification) -> None:
    robot = Robot.from_urdf_text(found.files["robot.urdf"])
    again = identify(robot, [Recording.open(RUN1)], [Recording.open(RUN2)]).torque_errors
    before = found.torque_errors
    assert again is not None and before is not None
    assert before.written.total > 2.0 * before.drives.total > 8.0 * before.identified.total
    assert again.drives.total < 1.1 * again.identified.total
    # Damping and dry friction are those found; rotors and offsets the file cannot state.
    assert again.drives.total < 0.5 * again.written.total < 0.25 * before.written.total


def test_without_a_held_out_log_they_are_those_of_the_fit_and_say_so() -> None:
    errors = identify(DEMO / "arm.urdf", [RUN1]).torque_errors
    assert errors is not None and not errors.held_out
    assert errors.identified.path == str(RUN1)
    assert errors.written.total > errors.drives.total > errors.identified.total
