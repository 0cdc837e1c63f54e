"""Laws of the compiled kernels: against pinocchio on every robot, and against explicit rows."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import numpy as np
import pinocchio as pin
import pytest

from heft.dynamics import drive_columns, kernels, walk
from heft.dynamics.tree import PRISMATIC, REVOLUTE
from heft.errors import InvalidModel
from heft.information import folding, inertia
from heft.information.square_root import Information, Triangle
from heft.models.options import Options
from heft.models.robot import Robot
from heft.plants import RobotPlant, random_drive_state, random_states, standard_rows
from heft.plants.problem import Problem
from heft.recordings.recording import Recording
from heft.signals.settings import Smoothing
from tests import robots
from tests.robots import Oracle

EPS = float(np.finfo(float).eps)
# Central differences of eighth order, for offsets 1 to 4.
FIRST_DERIVATIVE = (4 / 5, -1 / 5, 4 / 105, -1 / 280)
SAMPLES = 67  # one block of 64 and a part of the next

FIXED = [(f, "fixed") for f in robots.loadable()]
FREE = [(f, "free") for f in robots.floating()]
ROBOTS = FIXED + FREE
every_robot = pytest.mark.parametrize(("file", "base"), ROBOTS, ids=[f"{f}-{b}" for f, b in ROBOTS])


def states(robot: Robot, count: int = SAMPLES, seed: int = 1) -> tuple[np.ndarray, ...]:
    return random_states(robot, count, np.random.default_rng(seed))


def motion_of(robot: Robot, count: int = SAMPLES, seed: int = 1) -> kernels.Motion:
    return kernels.motion_of(robot.tree, robot.gravity, *states(robot, count, seed))


def depth(robot: Robot) -> int:
    deep = np.zeros(len(robot.tree.names), dtype=int)
    for b, parent in enumerate(robot.tree.parent):
        deep[b] = 1 if parent < 0 else deep[parent] + 1
    return int(deep.max())


def rounding(robot: Robot) -> float:
    # Each joint on the way out turns a vector (six roundings a component), each on the way back
    # adds a force; pinocchio does as much. Errors add up along the deepest chain.
    return 32.0 * depth(robot) * EPS


def same_gram(triangle: np.ndarray, rows: np.ndarray) -> bool:
    """Whether RᵀR = AᵀA column by column, which leaves the signs of R's rows free.

    Householder's QR has a backward error of a few m·eps of each column's own length
    [Higham2002, th. 19.4]; the reference AᵀA rounds as often.
    """
    length = np.linalg.norm(rows, axis=0)
    bound = 4.0 * sum(rows.shape) * EPS * np.outer(length, length)
    return bool((np.abs(triangle.T @ triangle - rows.T @ rows) <= bound).all())


def is_triangle(matrix: np.ndarray) -> bool:
    return not np.tril(matrix, -1).any()


# ---- which robots ---------------------------------------------------------------------------


@pytest.mark.parametrize("file", robots.REFUSED)
@pytest.mark.parametrize("base", ["fixed", "free"])
def test_a_file_that_contradicts_itself_is_refused_and_told_why(file: str, base: str) -> None:
    with pytest.raises(InvalidModel, match=robots.REFUSED[file]):
        robots.load(file, base)


@pytest.mark.parametrize("file", robots.IMMOBILE)
def test_a_single_body_is_refused_unless_it_floats(file: str) -> None:
    with pytest.raises(InvalidModel, match="no moving joint"):
        robots.load(file)
    assert robots.load(file, "free").tree.channels == 6


def test_the_robots_have_joints_of_every_kind() -> None:
    found = set()
    for file, base in ROBOTS:
        robot = robots.load(file, base)
        joints = Oracle.of(robot).model.joints
        found |= {("kind", int(k)) for k in robot.tree.kind}
        found |= {"continuous" for j in joints if (j.nq, j.nv) == (2, 1)}
        found |= {"mimic" for m in robot.tree.multiplier if m != 1.0}
        found |= {"offset" for m in robot.tree.offset if m != 0.0}
        found |= {"branch" for a, b in pairwise(robot.tree.parent) if b != a + 1}
    kinds = {("kind", k) for k in (REVOLUTE, PRISMATIC, 2)}
    assert found >= kinds | {"continuous", "mimic", "branch"}


# ---- against pinocchio ----------------------------------------------------------------------


@every_robot
def test_the_regressor_is_the_inverse_dynamics_of_pinocchio(file: str, base: str) -> None:
    robot = robots.load(file, base)
    oracle, (q, v, a) = Oracle.of(robot), states(robot)
    rows = kernels.regressor(robot.tree, kernels.motion_of(robot.tree, robot.gravity, q, v, a))
    expected = oracle.inverse_dynamics(q, v, a)
    error = np.linalg.norm(rows @ oracle.parameters() - expected)
    assert error <= rounding(robot) * np.linalg.norm(expected)


@pytest.mark.parametrize("base", ["fixed", "free"])
def test_joints_slide_and_turn_about_any_axis(base: Literal["fixed", "free"]) -> None:
    """The robots of files have axes along those of their frames, but for few."""
    robot = robots.oblique_arm(base)
    oracle, (q, v, a) = Oracle.of(robot), states(robot)
    motion = kernels.motion_of(robot.tree, robot.gravity, q, v, a)
    rows, expected = kernels.regressor(robot.tree, motion), oracle.inverse_dynamics(q, v, a)
    error = np.linalg.norm(rows @ oracle.parameters() - expected, axis=0)
    assert (error <= rounding(robot) * np.linalg.norm(expected, axis=0)).all()
    momenta_are_those_of_pinocchio(robot)


@every_robot
def test_rows_times_parameters_is_inverse_dynamics(file: str, base: str) -> None:
    robot, parameters = robots.load(file, base), Oracle.of(robots.load(file, base)).parameters()
    motion = motion_of(robot)
    effort = kernels.inverse_dynamics(robot.tree, motion, parameters)
    rows = kernels.regressor(robot.tree, motion)
    # The same numbers, added up in another order: ten a body.
    bound = 10.0 * len(robot.tree.names) * EPS * (np.abs(rows) @ np.abs(parameters))
    assert (np.abs(rows @ parameters - effort.T) <= bound).all()


@pytest.mark.parametrize("file", robots.CHOSEN)
def test_gravity_may_point_anywhere(file: str) -> None:
    gravity = (1.3, -4.0, 2.5)
    robot = Robot.from_urdf(robots.path_of(file), Options(gravity=gravity))
    oracle, (q, v, a) = Oracle.of(robot), states(robot)
    rows = kernels.regressor(robot.tree, kernels.motion_of(robot.tree, robot.gravity, q, v, a))
    expected = oracle.inverse_dynamics(q, v, a)
    error = np.linalg.norm(rows @ oracle.parameters() - expected)
    assert error <= rounding(robot) * np.linalg.norm(expected)


@every_robot
def test_each_body_is_called_after_the_link_that_its_joint_moves(file: str, base: str) -> None:
    robot = robots.load(file, base)
    child = {
        joint.attrib["name"]: joint.find("child").attrib["link"]  # type: ignore[union-attr]
        for joint in robots.ET.fromstring(robot.source).findall("joint")
    }
    floating = base == "free"
    joints = list(Oracle.of(robot).model.names)[2 if floating else 1 :]
    assert robot.tree.names[1 if floating else 0 :] == tuple(child[j] for j in joints)
    if floating:
        (root,) = {k.name for k in robot.links} - set(child.values())
        assert robot.tree.names[0] == root


# ---- momentum -------------------------------------------------------------------------------


def momenta_are_those_of_pinocchio(robot: Robot) -> None:
    oracle, (q, v, a) = Oracle.of(robot), states(robot)
    found = robots.momentum(robot.tree, kernels.motion_of(robot.tree, robot.gravity, q, v, a))
    parameters = oracle.parameters()
    # Terms may cancel: balanced rotors have no remainder at all, but for pinocchio's rounding.
    # Velocities are about 1/s, so that momenta and remainders are of one size.
    size = sum(np.linalg.norm(np.abs(rows) @ np.abs(parameters)) for rows in found)
    for rows, expected in zip(found, oracle.momentum(q, v), strict=True):
        assert rows.shape == (SAMPLES, len(robot.channels), len(parameters))
        assert np.linalg.norm(rows @ parameters - expected) <= rounding(robot) * size


@every_robot
def test_momentum_and_remainder_are_those_of_pinocchio(file: str, base: str) -> None:
    momenta_are_those_of_pinocchio(robots.load(file, base))


@pytest.mark.parametrize("base", ["fixed", "free"])
@pytest.mark.parametrize("file", robots.CHOSEN)
def test_the_remainder_holds_gravity_from_anywhere(file: str, base: str) -> None:
    options = Options(base="free" if base == "free" else "fixed", gravity=(1.3, -4.0, 2.5))
    momenta_are_those_of_pinocchio(Robot.from_urdf(robots.path_of(file), options))


def along(robot: Robot, q: np.ndarray, v: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Return positions a time t (N,) later at constant velocity; a base moves on a screw."""
    base, joints = (7, 6) if robot.tree.free_base else (0, 0)
    moved = q.copy()
    moved[:, base:] += t[:, None] * v[:, joints:]
    if base:
        for k in range(len(q)):
            quaternion = q[k, 3:7] / np.linalg.norm(q[k, 3:7])
            start = pin.XYZQUATToSE3(np.concatenate([q[k, :3], quaternion]))
            moved[k, :7] = pin.SE3ToXYZQUAT(start * pin.exp6(t[k] * v[k, :6]))
    return moved


@every_robot
def test_momentum_changes_by_its_remainder_and_the_effort(file: str, base: str) -> None:
    robot = robots.load(file, base)
    q, v, a = states(robot)
    # The fastest that anything turns, and twice that since two rotations are multiplied.
    rates = np.abs(v) @ robot.tree.ancestry * np.abs(robot.tree.multiplier).max()
    # Steps so short that the eighth-order stencil errs by (1/50)⁸/630: rounding is all there is.
    step = 1.0 / (50.0 * (1.0 + 2.0 * rates.max(axis=1)))

    def at(t: np.ndarray) -> np.ndarray:
        motion = kernels.motion_of(
            robot.tree, robot.gravity, along(robot, q, v, t), v + t[:, None] * a, a
        )
        return robots.momentum(robot.tree, motion)[0]

    change = np.zeros((SAMPLES, len(robot.channels), 10 * len(robot.tree.names)))
    for k, weight in enumerate(FIRST_DERIVATIVE, 1):
        change += weight * (at(k * step) - at(-k * step))
    change /= step[:, None, None]
    motion = kernels.motion_of(robot.tree, robot.gravity, q, v, a)
    momentum, remainder = robots.momentum(robot.tree, motion)
    rows = kernels.regressor(robot.tree, motion)
    # Body by body: the momentum's rounding over the step, the stencil's weights added up.
    stencil = 2.0 * sum(abs(w) for w in FIRST_DERIVATIVE)
    size, error = (
        np.sqrt((x.reshape(SAMPLES, -1, len(robot.tree.names), 10) ** 2).sum(axis=(0, 1, 3)))
        for x in (momentum / step[:, None, None], change - remainder - rows)
    )
    assert (error <= stencil * rounding(robot) * size).all()


def test_momenta_leave_further_columns_alone() -> None:
    robot = robots.load("panda_description/urdf/panda.urdf")
    motion, bodies = motion_of(robot), 10 * len(robot.tree.names)
    shape = (robot.tree.channels, bodies + 3, SAMPLES)
    out = np.zeros(shape), np.zeros(shape)
    for array in out:
        array[:, bodies:] = 7.0
    wide = robots.momentum(robot.tree, motion, out)
    for rows, alone in zip(wide, robots.momentum(robot.tree, motion), strict=True):
        assert np.array_equal(rows[:, :, :bodies], alone)
        assert (rows[:, :, bodies:] == 7.0).all()


# ---- links add up to bodies -----------------------------------------------------------------


@every_robot
def test_written_links_add_up_to_the_bodies_of_pinocchio(file: str, base: str) -> None:
    robot = robots.load(file, base)
    written = robots.written_inertias(robot.source)
    links = robot.bodies_links
    parameters = [written.get(k.name, np.zeros(10)) for k in links]
    total = robot.link_matrix() @ np.concatenate(parameters)
    for link in robot.links:  # all but massless ones count as frames, yet pinocchio adds them
        if link.body >= 0 and link.frame_only and link.name in written:
            frame = inertia.frame_change(link.rotation, link.translation)
            total[10 * link.body : 10 * link.body + 10] += frame @ written[link.name]
    expected = Oracle.of(robot).parameters()
    # pinocchio keeps inertias about the centre of mass: m·c² comes and goes, once a fixed link.
    tolerance = 16.0 * len(robot.links) * EPS
    scale = np.abs(expected.reshape(-1, 10)).max(axis=1).repeat(10)
    assert (np.abs(total - expected) <= tolerance * scale).all()


def is_sound(parameters: np.ndarray) -> bool:
    """Whether a body is consistent and no flat one either, so that it is not to be repaired."""
    mass, _, about = inertia.to_body(parameters)
    if mass <= 0.0:
        return False
    moments = np.linalg.eigvalsh(about)
    return bool(moments[0] > 0.0 and moments[0] + moments[1] > 1.01 * moments[2])


@every_robot
def test_a_link_is_believed_as_the_file_writes_it(file: str, base: str) -> None:
    robot = robots.load(file, base)
    written = robots.written_inertias(robot.source)
    total = sum(p[0] for p in written.values())
    for link in robot.bodies_links:
        parameters = written.get(link.name, np.zeros(10))
        if is_sound(parameters) and parameters[0] > 1e-5 * total:
            np.testing.assert_allclose(
                link.nominal,
                parameters,
                rtol=0,
                atol=64 * EPS * np.abs(parameters).max(),
                err_msg=link.name,
            )
            assert link.given


@every_robot
def test_the_nominal_robot_is_the_robot_of_pinocchio_where_the_file_is_sound(
    file: str, base: str
) -> None:
    robot, expected = robots.load(file, base), Oracle.of(robots.load(file, base)).parameters()
    written = robots.written_inertias(robot.source)
    nominal = robot.nominal()[: len(expected)]
    for b, body in enumerate(robot.tree.names):
        links = [k for k in robot.links if k.body == b]
        massive = [written[k.name] for k in links if k.name in written]
        if massive and all(is_sound(p) for p in massive):
            ten = slice(10 * b, 10 * b + 10)
            # Frames of less than 1e-6 of the whole robot's mass are left out.
            atol = 1e-5 * np.abs(expected[ten]).max()
            np.testing.assert_allclose(nominal[ten], expected[ten], rtol=0, atol=atol, err_msg=body)


@every_robot
def test_the_bodies_as_written_are_those_of_pinocchio(file: str, base: str) -> None:
    robot = robots.load(file, base)
    expected = Oracle.of(robot).parameters()
    scale = np.abs(expected.reshape(-1, 10)).max(axis=1).repeat(10)
    tolerance = 16.0 * len(robot.links) * EPS
    assert (np.abs(robot.written_bodies() - expected) <= tolerance * scale).all()


# ---- angles ---------------------------------------------------------------------------------


@pytest.mark.parametrize("reach", [1e-300, 1e-9, 0.8, 4.0, 100.0, 1e4, walk.LARGEST_ANGLE])
def test_sine_and_cosine_are_right_to_the_last_places(reach: float) -> None:
    angle = np.random.default_rng(1).uniform(-reach, reach, 20_001)
    octants = np.arange(-20, 21) * np.pi / 4
    near = np.concatenate([octants, np.nextafter(octants, np.inf), np.nextafter(octants, -np.inf)])
    angle = np.concatenate([angle, near[np.abs(near) <= reach], [0.0, reach, -reach]])
    sine, cosine = np.empty_like(angle), np.empty_like(angle)
    walk.sine_cosine(angle, sine, cosine)
    exact = angle.astype(np.longdouble)  # eleven bits more, enough to judge the last ones
    assert np.abs(sine - np.sin(exact)).max() <= 2.0 * EPS
    assert np.abs(cosine - np.cos(exact)).max() <= 2.0 * EPS
    assert np.abs(sine**2 + cosine**2 - 1.0).max() <= 4.0 * EPS


@pytest.mark.parametrize("angle", [2e5, -1e9, 1e15])
def test_angles_of_many_turns_are_right_too(angle: float) -> None:
    robot = robots.planar_arm()
    q = np.array([[angle, 0.3], [0.1, -angle]])
    motion = kernels.motion_of(robot.tree, robot.gravity, q, 0.0 * q, 0.0 * q)
    exact = q.T.astype(np.longdouble)
    assert np.abs(motion.sin - np.sin(exact)).max() <= 2.0 * EPS
    assert np.abs(motion.cos - np.cos(exact)).max() <= 2.0 * EPS


# ---- blocks, chunks, threads ----------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 200])
def test_samples_do_not_know_of_one_another(count: int) -> None:
    robot = robots.load("panda_description/urdf/panda.urdf")
    q, v, a = states(robot, count)
    whole = kernels.regressor(robot.tree, kernels.motion_of(robot.tree, robot.gravity, q, v, a))
    assert whole.shape == (count, len(robot.channels), 10 * len(robot.tree.names))
    for k in range(0, count, 13):
        one = kernels.motion_of(robot.tree, robot.gravity, *(x[k : k + 1] for x in (q, v, a)))
        # The compiler may contract sums otherwise for the last few samples than for a block.
        single = kernels.regressor(robot.tree, one)[0]
        np.testing.assert_allclose(whole[k], single, rtol=0, atol=64 * EPS * np.abs(single).max())


def recordings(robot: Robot, lengths: tuple[int, ...]) -> tuple[Recording, ...]:
    """Motions of three sines a joint, with torques of the file's own bodies."""
    rng = np.random.default_rng(5)
    found = []
    for k, count in enumerate(lengths):
        time = 0.002 * np.arange(count)
        phase = rng.uniform(0, 2 * np.pi, (3, len(robot.joints)))
        pace = np.array([2.0, 5.0, 9.0])
        angle = pace[:, None, None] * time[:, None] + phase[:, None]
        q = np.sum(np.sin(angle) / pace[:, None, None], axis=0)
        tau = rng.normal(size=q.shape)
        found.append(
            Recording.from_arrays(
                time,
                f"log{k}",
                q=dict(zip(robot.joints, q.T, strict=True)),
                tau=dict(zip(robot.joints, tau.T, strict=True)),
            )
        )
    return tuple(found)


# 70 000 rows are more than one block of a recording.
LOGS = {"planar": (70_000, 3_000), "ur10": (1_500, 4_001, 2_000, 900)}


def arm(name: str) -> Robot:
    if name == "planar":
        return robots.planar_arm(drives=True)
    return robots.load("ur_description/urdf/ur10_robot.urdf")


def bodies_of(robot: Robot) -> np.ndarray:
    """Ten parameters a body, so that the gears are under load."""
    return robot.nominal()[: 10 * len(robot.tree.names)]


@pytest.mark.parametrize("torque", ["raw", "filtered"])
@pytest.mark.parametrize("name", LOGS)
def test_information_does_not_depend_on_threads(name: str, torque: str) -> None:
    robot = arm(name)
    logs = recordings(robot, LOGS[name])
    smoothing = Smoothing(corner=20.0, torque="filtered" if torque == "filtered" else "raw")
    one, two = (
        Problem(RobotPlant(robot, bodies_of(robot)), logs, smoothing, threads).information()
        for threads in (1, 2)
    )
    for a, b in zip(one.triangles, two.triangles, strict=True):
        assert np.array_equal(a.factor, b.factor)
        assert np.array_equal(a.columns, b.columns)
        assert a.rows == b.rows > 0


@pytest.mark.parametrize("name", LOGS)
def test_fused_information_is_that_of_the_rows(name: str) -> None:
    robot = arm(name)
    logs = recordings(robot, LOGS[name])
    problem = Problem(RobotPlant(robot, bodies_of(robot)), logs, Smoothing(corner=20.0))
    information = problem.information()
    rows = list(problem.rows())
    count = sum(len(r.time) for r in rows)
    size = len(problem.labels)
    for c, (channel, triangle) in enumerate(
        zip(information.channels, information.triangles, strict=True)
    ):
        block = np.vstack([np.column_stack([r.regressor[:, c], r.effort[:, c]]) for r in rows])
        length = np.linalg.norm(block, axis=0)
        wide = triangle.spread(size)
        # Folding k blocks of rows into one triangle costs k roundings of each column's length.
        bound = 4.0 * (count / walk.BLOCK + size) * EPS * np.outer(length, length)
        assert (np.abs(wide.T @ wide - block.T @ block) <= bound).all(), channel
        assert triangle.rows == count


def part_of(state: drive_columns.DriveState, part: slice) -> drive_columns.DriveState:
    found = {k: None if x is None else x[..., part] for k, x in vars(state).items()}
    return drive_columns.DriveState(**found)


# ---- reduce ---------------------------------------------------------------------------------


def reduced(
    robot: Robot, chosen: np.ndarray, count: int, measured: np.ndarray
) -> tuple[kernels.Plan, list[np.ndarray], np.ndarray, np.ndarray]:
    """Plan, triangles, explicit rows (N, channels, chosen) and effort (channels, N)."""
    q, v, a = states(robot, count, seed=count)
    motion = kernels.motion_of(robot.tree, robot.gravity, q, v, a)
    effort = np.random.default_rng(2).normal(size=(robot.tree.channels, count))
    state = random_drive_state(robot, q, v, a, np.random.default_rng(3))
    columns = robot.drive_columns
    plan = kernels.plan(robot.tree, chosen, robot.drives.actions(columns)[0], measured)
    made = drive_columns.columns(robot.drives, columns, state)
    triangles = kernels.reduce(plan, motion, made, effort)
    return plan, triangles, standard_rows(robot, q, v, a, state)[:, :, chosen], effort


REDUCED = {
    "planar rigid": lambda: robots.planar_arm(),
    "planar": lambda: robots.planar_arm(drives=True),
    "ur10": lambda: robots.load("ur_description/urdf/ur10_robot.urdf"),
    "panda with mimic": lambda: robots.load("panda_description/urdf/panda.urdf"),
    "kinova continuous": lambda: robots.load("kinova_description/robots/kinova.urdf"),
    "free a1": lambda: robots.load("a1_description/urdf/a1.urdf", "free"),
}
COUNTS = (1, 5, 63, 64, 65, 130, 512, 513, 601, 1100)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", REDUCED)
def test_reduce_is_the_triangle_of_explicit_rows(name: str, count: int) -> None:
    robot = REDUCED[name]()
    rng = np.random.default_rng(count)
    size = len(robot.labels)
    whole = np.arange(size)
    for chosen in (whole, whole[:-1], np.flatnonzero(rng.random(size) < 0.5)):
        plan, triangles, rows, effort = reduced(robot, chosen, count, robot.measured)
        for c in robot.measured:
            columns = plan.columns[c]
            unseen = np.setdiff1d(np.arange(len(chosen)), columns)
            assert not rows[:, c, unseen].any()
            block = np.column_stack([rows[:, c, columns], effort[c]])
            assert is_triangle(triangles[c])
            assert same_gram(triangles[c], block)


def test_reduce_leaves_channels_that_are_not_measured_empty() -> None:
    robot = robots.load("ur_description/urdf/ur10_robot.urdf")
    measured = np.array([1, 4], dtype=np.intp)
    chosen = np.arange(len(robot.labels))
    _, some, *_ = reduced(robot, chosen, 100, measured)
    _, every, *_ = reduced(robot, chosen, 100, robot.measured)
    for c in range(len(robot.channels)):
        if c in measured:
            assert np.array_equal(some[c], every[c])
        else:
            assert not some[c].any()


@pytest.mark.parametrize("cut", [1, 64, 100, 300, 599])
@pytest.mark.parametrize("name", REDUCED)
def test_two_chunks_add_up_to_the_whole(name: str, cut: int) -> None:
    robot = REDUCED[name]()
    count, labels = 600, robot.labels
    chosen, columns = np.arange(len(labels)), robot.drive_columns
    plan = kernels.plan(robot.tree, chosen, robot.drives.actions(columns)[0], robot.measured)
    q, v, a = states(robot, count)
    state = random_drive_state(robot, q, v, a, np.random.default_rng(3))
    effort = np.random.default_rng(2).normal(size=(robot.tree.channels, count))

    def information(part: slice) -> Information:
        motion = kernels.motion_of(robot.tree, robot.gravity, q[part], v[part], a[part])
        made = drive_columns.columns(robot.drives, columns, part_of(state, part))
        factors = kernels.reduce(plan, motion, made, effort[:, part])
        rows = motion.velocity.shape[1]
        triangles = tuple(Triangle(plan.columns[c], factors[c], rows) for c in robot.measured)
        return Information(labels, robot.channels, triangles)

    whole = information(slice(0, count))
    halves = information(slice(0, cut)) + information(slice(cut, count))
    assert halves.rows == whole.rows
    for a_half, b_whole in zip(halves.triangles, whole.triangles, strict=True):
        assert np.array_equal(a_half.columns, b_whole.columns)
        assert same_gram(a_half.factor, b_whole.factor)


# ---- fold -----------------------------------------------------------------------------------

SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 31)


def folded(matrix: np.ndarray, start: np.ndarray | None = None) -> np.ndarray:
    """Return the triangle of `start` stacked on the matrix, by `folding.fold`."""
    m, n = matrix.shape
    triangle = np.zeros((n, n)) if start is None else start.copy()
    rows = np.full((n + 1, m), 7.0)  # room to work in may hold anything
    rows[:n] = matrix.T
    folding.fold(triangle, rows, n, m, n)
    return triangle


@pytest.mark.parametrize("m", [1, 3, 8, 64, 65, 511, 512])
@pytest.mark.parametrize("n", SIZES)
def test_fold_is_the_triangle_of_numpy(n: int, m: int) -> None:
    rng = np.random.default_rng(100 * n + m)
    # Lengths of columns from 1e-6 to 1e6: each column must be right to its own length.
    matrix = rng.normal(size=(m, n)) * 10.0 ** rng.uniform(-6, 6, n)
    start = np.triu(rng.normal(size=(n, n)))
    for before in (None, start):
        stacked = matrix if before is None else np.vstack([before, matrix])
        triangle = folded(matrix, before)
        assert is_triangle(triangle)
        assert same_gram(triangle, stacked)
        if stacked.shape[0] >= n:
            expected = np.linalg.qr(stacked, mode="r")
            # R is as well determined as the columns are independent [Higham2002, sect. 19.9].
            length = np.linalg.norm(stacked, axis=0)
            singular = np.linalg.svd(stacked / length, compute_uv=False)
            bound = 8.0 * (n + m) * EPS * singular[0] / singular[-1] * length
            assert (np.abs(np.abs(triangle) - np.abs(expected)) <= bound).all()


@pytest.mark.parametrize("n", [3, 4, 6, 9, 16])
@pytest.mark.parametrize("worst", [1e-4, 1e-8, 1e-12])
def test_fold_keeps_singular_values_that_normal_equations_lose(n: int, worst: float) -> None:
    rng = np.random.default_rng(n)
    left = np.linalg.qr(rng.normal(size=(300, n)))[0]
    right = np.linalg.qr(rng.normal(size=(n, n)))[0]
    matrix = (left * np.geomspace(1.0, worst, n)) @ right.T
    found = np.linalg.svd(folded(matrix), compute_uv=False)
    expected = np.linalg.svd(matrix, compute_uv=False)
    # Weyl: singular values move by no more than the backward error, a few n·eps of the largest;
    # through RᵀR the smallest would move by eps/worst.
    assert np.abs(found - expected).max() <= 8.0 * n * EPS


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("nought", ["first", "middle", "last", "two", "all"])
def test_fold_takes_columns_of_zeros(n: int, nought: str) -> None:
    matrix = np.random.default_rng(n).normal(size=(90, n))
    where = {
        "first": [0],
        "middle": [n // 2],
        "last": [n - 1],
        "two": [0, n - 1],
        "all": list(range(n)),
    }[nought]
    matrix[:, where] = 0.0
    triangle = folded(matrix)
    assert np.isfinite(triangle).all()
    assert not triangle[:, where].any()
    assert is_triangle(triangle)
    assert same_gram(triangle, matrix)


@pytest.mark.parametrize("n", SIZES)
def test_fold_of_rows_of_zeros_changes_nothing(n: int) -> None:
    rng = np.random.default_rng(n)
    start = np.triu(rng.normal(size=(n, n)))
    assert np.array_equal(folded(np.zeros((50, n)), start), start)
    assert np.array_equal(folded(np.zeros((0, n)), start), start)
    matrix = rng.normal(size=(40, n))
    padded = np.vstack([np.zeros((3, n)), matrix, np.zeros((20, n))])
    assert same_gram(folded(padded), matrix)


@pytest.mark.parametrize("size", [1e-150, 1e-160, 1e-162])
def test_fold_takes_columns_whose_squares_underflow(size: float) -> None:
    matrix = np.random.default_rng(0).normal(size=(90, 9))
    matrix[:, 4] *= size
    matrix[:, 6] *= size
    assert same_gram(folded(matrix)[:, [7, 8]], matrix[:, [7, 8]])


@pytest.mark.parametrize("n", [4, 7, 12])
def test_fold_takes_columns_that_repeat(n: int) -> None:
    matrix = np.random.default_rng(n).normal(size=(100, n))
    matrix[:, n - 1] = matrix[:, 0]
    matrix[:, n // 2] = 2.0 * matrix[:, 1]
    triangle = folded(matrix)
    assert same_gram(triangle, matrix)
    # What is left of a column after projection on its copy is rounding.
    assert abs(triangle[n - 1, n - 1]) <= 400 * EPS * np.linalg.norm(matrix[:, 0])
