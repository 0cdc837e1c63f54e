"""Laws of capsules and of clearance: what contains what, distances, gradients, and what is proven.

The oracle of distances is coal: its own capsules, boxes and half spaces, and the meshes of the
model file, read and placed by pinocchio.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import coal
import numpy as np
import pinocchio as pin
import pytest
from scipy.spatial.transform import Rotation

from heft.arrays import Array
from heft.dynamics import body_poses
from heft.errors import InvalidModel, InvalidSetting
from heft.excitation import Clearance
from heft.excitation.clearance_kernels import _turn
from heft.models import (
    Capsules,
    LinkShape,
    MeshSearch,
    MotionLimits,
    Options,
    Robot,
    cannot_touch,
    carried_reach,
    fit_capsules,
    motion_limits,
)
from heft.models.capsules import _stand_in

from .robots import ROOT, path_of

UR10 = "ur_description/urdf/ur10_robot.urdf"
PANDA = "panda_description/urdf/panda.urdf"
ARMS = (UR10, PANDA)
ROOM = {
    "floor": -0.1,
    "clearance": 0.0,
    "keep_out": [[[0.4, 0.6], [-0.3, 0.3], [-0.1, 0.4]], [[-0.6, -0.2], [-0.1, 0.6], [0.5, 0.52]]],
    "keep_in": [[-1.5, 1.5], [-1.5, 1.5], [-1.0, 1.6]],
    "planes": [{"normal": [1.0, 1.0, 0.0], "offset": -1.4}],
}


@cache
def arm(file: str) -> tuple[Robot, Capsules, MotionLimits, Clearance]:
    options = Options.from_dict({"motion": ROOM})
    if file == PANDA:
        held = {"panda_finger_joint1": {"fixed": True}}
        options = Options.from_dict({"motion": ROOM, "joint": held})
    robot = Robot.from_file(path_of(file), options)
    capsules, limits = fit_capsules(robot, path_of(file).parent), motion_limits(robot)
    return robot, capsules, limits, Clearance.of(robot, capsules, limits)


def postures(file: str, count: int, seed: int = 5) -> Array:
    _, _, limits, _ = arm(file)
    rng = np.random.default_rng(seed)
    return rng.uniform(limits.lower, limits.upper, (count, len(limits.joints)))


def placed(a: Array, b: Array, radius: float) -> tuple[coal.Capsule, coal.Transform3s]:
    """Return coal's capsule with its axis from a to b."""
    way = b - a
    length = float(np.linalg.norm(way))
    turn = pin.Quaternion.FromTwoVectors(np.array([0.0, 0.0, 1.0]), way / max(length, 1e-12))
    return coal.Capsule(radius, length), coal.Transform3s(turn.matrix(), (a + b) / 2.0)


def coal_distance(*shapes: object) -> float:
    return float(coal.distance(*shapes, coal.DistanceRequest(), coal.DistanceResult()))


@pytest.mark.parametrize("file", ARMS)
def test_distances_are_those_of_coal(file: str) -> None:
    robot, capsules, _, clearance = arm(file)
    q = postures(file, 15)
    values, poses = clearance.values(q), body_poses(robot.tree, q)
    worst = 0.0
    for n in range(len(q)):
        T = np.concatenate([poses[n], np.eye(4)[None]])
        ends = [
            [T[b, :3, :3] @ x + T[b, :3, 3] for x in (capsules.start[i], capsules.end[i])]
            for i, b in enumerate(capsules.body)
        ]
        for m, (kind, i, j) in enumerate(clearance.pairs):
            one = placed(*map(np.array, ends[i]), capsules.radius[i])
            if kind == 0:
                other = placed(*map(np.array, ends[j]), capsules.radius[j])
            elif kind == 1:
                space = clearance.spaces[j]
                other = (coal.Halfspace(space[:3], space[3]), coal.Transform3s.Identity())
            else:
                box = clearance.boxes[j]
                other = (coal.Box(*(2.0 * box[3:])), coal.Transform3s(np.eye(3), box[:3]))
            # coal's search for the depth ends within 1e-6 of it, and needs not be as good deep in
            tolerance = 1e-5 if values[n, m] > 0.0 else 1e-3
            worst = max(worst, abs(coal_distance(*one, *other) - values[n, m]) / tolerance)
    assert worst < 1.0


@pytest.mark.parametrize("file", ARMS)
def test_the_gradient_is_that_of_central_differences(file: str) -> None:
    clearance = arm(file)[3]
    q = postures(file, 200)
    seeds = np.random.default_rng(1).normal(size=(len(q), len(clearance.pairs)))
    gradient, step = clearance.pull_back(q, seeds), 1e-5
    for j in range(q.shape[1]):
        shift = step * np.eye(q.shape[1])[j]
        rise = (clearance.values(q + shift) - clearance.values(q - shift)) / (2.0 * step)
        # where the nearest points jump, or a segment lies along a face, there is no derivative
        curved = np.abs(
            clearance.values(q + shift) + clearance.values(q - shift) - 2.0 * clearance.values(q)
        )
        smooth = np.where(curved < 1e-8, rise * seeds, 0.0)
        jumps = np.where(curved < 1e-8, 0.0, seeds)
        rest = clearance.pull_back(q, jumps)[:, j]
        assert np.abs(gradient[:, j] - rest - smooth.sum(axis=1)).max() < 1e-6
        assert (curved < 1e-8).mean() > 0.98


def test_planes_and_boxes_push_out_however_deep() -> None:
    """A step along the gradient raises the clearance, also of a plate that a link pierces."""
    _, _, _, clearance = arm(UR10)
    q = postures(UR10, 400)
    values = clearance.values(q)
    deep = 0
    for m, (kind, *_) in enumerate(clearance.pairs):
        chosen = np.flatnonzero((values[:, m] < -0.05) & (kind > 0))
        seeds = np.zeros((len(chosen), len(clearance.pairs)))
        seeds[:, m] = 1.0
        way = clearance.pull_back(q[chosen], seeds)
        slope = (way**2).sum(axis=1)
        moved = clearance.values(q[chosen] + 1e-4 * way)[:, m]
        assert (moved >= values[chosen, m] + 0.5e-4 * slope).all()
        deep += len(chosen)
    assert deep > 500
    # Deeper into the floor is worse, without end.
    floor = [m for m, pair in enumerate(clearance.names) if pair[1] == "floor"]
    lower = replace(clearance, spaces=clearance.spaces + np.array([0.0, 0.0, 0.0, 5.0]))
    assert np.allclose(lower.values(q)[:, floor], values[:, floor] - 5.0)


@pytest.mark.parametrize("file", ARMS)
def test_capsules_contain_the_meshes(file: str) -> None:
    capsules = arm(file)[1]
    model = pin.buildModelFromUrdf(str(path_of(file)))
    shapes = pin.buildGeomFromUrdf(
        model, str(path_of(file)), pin.GeometryType.COLLISION, None, [str(ROOT.parent)]
    )
    looked = 0
    for shape in shapes.geometryObjects:
        link = model.frames[shape.parentFrame].name
        if not hasattr(shape.geometry, "vertices"):
            continue
        local = np.array(shape.geometry.vertices())
        points = local @ shape.placement.rotation.T + shape.placement.translation
        mine = [k for k, name in enumerate(capsules.links) if name == link]
        gaps = np.array([_gap(capsules, k, points) for k in mine])
        whole = capsules.whole[mine]
        assert gaps[whole].max() <= 0.0
        if not whole.all():
            assert gaps[~whole].min(axis=0).max() <= 0.0
        looked += len(points)
    assert looked > 500


def _gap(capsules: Capsules, k: int, points: Array) -> Array:
    """Return how far points are outside a capsule [m]."""
    a, way = capsules.start[k], capsules.end[k] - capsules.start[k]
    share = np.clip((points - a) @ way / max(float(way @ way), 1e-30), 0.0, 1.0)
    return np.linalg.norm(points - a - share[:, None] * way, axis=1) - capsules.radius[k]


@pytest.mark.parametrize("file", ARMS)
def test_links_are_no_nearer_than_their_capsules(file: str) -> None:
    """Where pairs that remain are clear, the meshes are: of all that are no neighbours."""
    robot, _, _, clearance = arm(file)
    model = pin.buildModelFromUrdf(str(path_of(file)))
    shapes = pin.buildGeomFromUrdf(
        model, str(path_of(file)), pin.GeometryType.COLLISION, None, [str(ROOT.parent)]
    )
    shapes.addAllCollisionPairs()
    data, found = model.createData(), shapes.createData()
    q = postures(file, 4000)
    clear = [m for m, (kind, *_) in enumerate(clearance.pairs) if kind == 0]
    free = q[(clearance.values(q)[:, clear] > 0.0).all(axis=1)][:60]
    assert len(free) == 60

    def above(body: int) -> list[int]:
        return [] if body < 0 else [int(robot.tree.parent[body])]

    near = {
        frozenset((a.name, b.name))
        for a in robot.links
        for b in robot.links
        if a.body == b.body or a.body in above(b.body) or b.body in above(a.body)
    }
    names = [model.frames[g.parentFrame].name for g in shapes.geometryObjects]
    for posture in free:
        whole = pin.neutral(model)
        whole[: len(posture)] = posture
        pin.computeCollisions(model, data, shapes, found, whole, False)
        for pair, result in zip(shapes.collisionPairs, found.collisionResults, strict=True):
            links = frozenset((names[pair.first], names[pair.second]))
            if links not in near and "finger" not in "".join(links):
                assert not result.isCollision(), links


def test_what_cannot_touch_is_proven_and_what_can_is_not() -> None:
    robot, capsules, limits, clearance = arm(UR10)
    shapes = {k: capsules.shapes[capsules.links.index(k)] for k in capsules.links}
    assert cannot_touch(robot.tree, shapes["base_link"], shapes["upper_arm_link"], limits)
    assert ("base_link", "upper_arm_link") not in clearance.names
    assert not cannot_touch(robot.tree, shapes["forearm_link"], shapes["wrist_2_link"], limits)
    # A ball that is just out of reach, and one that is just within.
    forearm = shapes["forearm_link"]
    far = float(np.linalg.norm(forearm.points, axis=1).max())
    body = int(robot.tree.parent[forearm.body])
    elbow = robot.tree.translation[forearm.body]
    centre = elbow + np.array([0.0, 0.0, far + 0.06])
    for radius, apart in ((0.05, True), (far + 0.06, False)):
        ball = LinkShape(body, np.array([centre, centre]), np.zeros((0, 3, 3)), radius)
        assert cannot_touch(robot.tree, ball, forearm, limits) == apart


def test_parts_are_named_and_ignored_pairs_are_left_out() -> None:
    _, capsules, limits, clearance = arm(UR10)
    pair = ("forearm_link", "wrist_2_link")
    assert clearance.names.count(pair) > 1
    ignore = [list(pair), ["forearm_link", "floor"]]
    options = Options.from_dict({"motion": {"floor": 0.0, "ignore": ignore}})
    other = Robot.from_file(path_of(UR10), options)
    kept = Clearance.of(other, capsules, limits).names
    assert pair not in kept and ("forearm_link", "floor") not in kept
    wrong = Options.from_dict({"motion": {"ignore": [["forearm", "wrist_2_link"]]}})
    with pytest.raises(InvalidSetting, match="forearm"):
        Clearance.of(Robot.from_file(path_of(UR10), wrong), capsules, limits)


def test_a_mesh_that_is_not_found_is_told_and_stood_in_for() -> None:
    robot, _, limits, _ = arm(UR10)
    capsules = fit_capsules(robot)
    assert any("not found" in note for note in capsules.notes)
    assert any("segments" in note for note in capsules.notes)
    assert set(capsules.body) == set(range(6))
    assert len(Clearance.of(robot, capsules, limits).pairs) > 5


def test_segments_of_unknown_shapes_reach_from_joint_to_joint() -> None:
    robot, _, _, _ = arm(UR10)
    capsules, tree = fit_capsules(robot), robot.tree
    for body in range(len(tree.names) - 1):  # a chain: each carries the next
        (k,) = np.flatnonzero(np.array(capsules.body) == body)
        assert capsules.start[k] == pytest.approx(np.zeros(3))
        assert capsules.end[k] == pytest.approx(tree.translation[body + 1])


@pytest.mark.parametrize("file", ARMS)
def test_no_joint_moves_a_point_faster_than_its_carried_reach(file: str) -> None:
    robot, _, limits, _ = arm(file)
    tree, q = robot.tree, postures(file, 50)
    largest = np.maximum(np.abs(limits.lower), np.abs(limits.upper))
    point = np.array([0.1, -0.2, 0.1])
    steps = 1e-6 * np.eye(tree.channels)
    there, back = (
        np.array([body_poses(tree, q + d)[..., :3, :] @ [*point, 1.0] for d in ways])
        for ways in (steps, -steps)
    )
    fastest = np.linalg.norm(there - back, axis=3).max(axis=1) / 2e-6
    for body in range(len(tree.names)):
        reach = carried_reach(tree, body, float(np.linalg.norm(point)), largest)
        for channel in range(tree.channels):
            movers = np.flatnonzero(tree.channel == channel)
            assert fastest[channel, body] <= sum(reach.get(int(b), 0.0) for b in movers) + 1e-6


def test_meshes_are_found_by_their_place_or_by_their_package(tmp_path: Path) -> None:
    for place in ("arm_description/a.stl", "others/arm_description/b.stl"):
        (tmp_path / place).parent.mkdir(parents=True)
        (tmp_path / place).touch()
    home, there = tmp_path / "arm_description", tmp_path / "others/arm_description/b.stl"
    search = MeshSearch(home, (str(tmp_path / "others"),))
    for uri in ("a.stl", f"file://{home / 'a.stl'}", "package://arm_description/a.stl"):
        assert search.file(uri).samefile(home / "a.stl"), uri
    assert search.file("package://arm_description/b.stl") == there
    with pytest.raises(InvalidModel, match="not found"):
        search.file("b.stl")


def test_of_a_bare_capsule_no_surface_is_known() -> None:
    *_, shape = _stand_in("a", 0, np.array([[0.0, 0.0, 0.1], [0.0, 0.0, 0.3]]), 0.05)
    assert not len(shape.triangles) and shape.extent == pytest.approx(0.35)


def test_a_tool_is_a_capsule_of_its_own() -> None:
    tool = {"link": "tool0", "start": [0, 0, 0], "end": [0, 0, 0.2], "radius": 0.03}
    robot = Robot.from_file(path_of(UR10), Options.from_dict({"motion": {"tool": [tool]}}))
    capsules = fit_capsules(robot)
    k = capsules.links.index("tool of tool0")
    assert np.linalg.norm(capsules.end[k] - capsules.start[k]) == pytest.approx(0.2)
    astray = Options.from_dict({"motion": {"tool": [tool | {"link": "tool1"}]}})
    with pytest.raises(InvalidSetting, match="tool0"):
        fit_capsules(Robot.from_file(path_of(UR10), astray))


def test_a_joint_turns_its_link_about_any_axis() -> None:
    rng = np.random.default_rng(8)
    for _ in range(20):
        axis = rng.normal(size=3)
        axis, angle = axis / np.linalg.norm(axis), float(rng.uniform(-3.0, 3.0))
        out = np.full((3, 3), np.nan)
        _turn.py_func(axis, angle, out)
        assert np.allclose(out, Rotation.from_rotvec(angle * axis).as_matrix(), atol=1e-14)
