"""Designed motions verified by other code than heft's: 200 designs, ten robots, random limits.

    python -m benchmarks.excitation_verified [--designs 20] [--robots ur10 panda] [--store]

`verify` shares nothing with the design: the motion is evaluated from the written coefficients by
the law that stands beside them, limits are read from the URDF and from the table [motion] that the
design was given, torque is pinocchio's, distances are coal's between the meshes themselves (the
design knows capsules only), on a grid ten times finer than the solver's densest.
"""

from __future__ import annotations

import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import coal
import numpy as np
import pinocchio as pin
from numpy.typing import NDArray
from scipy.interpolate import BSpline
from scipy.spatial import ConvexHull, QhullError

from benchmarks.core import robots
from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_most
from heft.applications.excite import ExciteSettings, PlannedExperiment, excite, open_experiment
from heft.errors import HeftError
from heft.excitation import Clearance, DesignSettings, Grids, SolverSettings
from heft.models import Options, Robot, motion_limits

Array = NDArray[np.float64]
FINER = 10  # than the solver's densest grid
SAMPLES = FINER * 320  # of that grid
SCORED = 1  # seed of the limits of what is stored; others are for development
TOLERANCE = 1e-9  # of rounding, as a share of a limit
DEPTH = 1e-6  # [m], of coal's distances
ROBOTS = {
    "ur3": "ur_description/urdf/ur3_robot.urdf",
    "ur5 with gripper": "ur_description/urdf/ur5_gripper.urdf",
    "ur10": "ur_description/urdf/ur10_robot.urdf",
    "panda": "panda_description/urdf/panda.urdf",
    "kinova": "kinova_description/robots/kinova.urdf",
    "talos arm": "talos_data/robots/talos_left_arm.urdf",
    "xarm7": "xarm_description/urdf/xarm7.urdf",
    "z1": "z1_description/urdf/z1.urdf",
    "so101": "so_arm_description/urdf/so101.urdf",
    "finger": "finger_edu_description/robots/finger_edu.urdf",
}
HELD = {"panda": ("panda_finger_joint1",)}


# ---- the verifier ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Violation:
    """A limit that a motion breaks.

    Attributes:
        limit: Which, and of what.
        excess: By how much, as a share of the limit, or in metres of a distance.
        time: When [s].
    """

    limit: str
    excess: float
    time: float


def evaluated(written: Mapping[str, Any], time: Array, order: int) -> Array:
    """Return a derivative of a written motion, shape (N, d).

    Args:
        written: As `ExcitationTrajectory.to_dict` makes it.
        time: Shape (N,) [s].
        order: Of the derivative.
    """
    basis, C = written["basis"], np.array(written["coefficients"])
    if basis["kind"] == "fourier":
        lowest = basis["frequency"] or 1.0 / basis["duration"]
        found = np.zeros((len(time), C.shape[1]), dtype=complex)
        for k in range(1, basis["harmonics"] + 1):
            rate = 2j * np.pi * k * lowest
            wave = rate**order * np.exp(rate * time) / k  # of cos + i sin
            found += np.outer(wave, C[2 * k] - 1j * C[2 * k - 1])
        return found.real + (C[0] if order == 0 else 0.0)
    degree, inner = basis["degree"], np.linspace(0.0, basis["duration"], basis["intervals"] + 1)
    knots = np.r_[[0.0] * degree, inner, [basis["duration"]] * degree]
    return np.asarray(BSpline(knots, C, degree)(time, nu=order))


@dataclass(frozen=True, eq=False)
class Verifier:
    """A robot's limits and shapes as pinocchio, coal and a plain reading of its URDF have them.

    Attributes:
        path: The URDF.
        table: Options of `--with`, parsed; what its table [motion] says counts.
        samples: Of the grid.
    """

    path: Path
    table: Mapping[str, Any]
    samples: int = SAMPLES

    def violations(self, written: Mapping[str, Any]) -> Iterator[Violation]:
        """Yield what a written motion breaks.

        Args:
            written: As `ExcitationTrajectory.to_dict` makes it.
        """
        times = np.linspace(0.0, written["basis"]["duration"], self.samples + 1)
        names = written["names"]
        motion = [evaluated(written, times, k) for k in range(4)]
        yield from self._joints(names, motion, times)
        model = self._model(names)
        q, v, a = (self._configurations(model, names, x) for x in motion[:3])
        yield from self._efforts(model, names, times, q, v, a)
        yield from self._distances(model, times, q)

    def _said(self, joint: str) -> dict[str, Any]:
        found: dict[str, Any] = self.table["motion"].get("joint", {}).get(joint, {})
        return found

    def _margin(self, name: str) -> float:
        standard = 0.05 if name in ("effort", "power") else 0.0
        return float(self.table["motion"].get("margin", {}).get(name, standard))

    def _limit(self, joint: str) -> dict[str, Any]:
        """Return the limits of a joint: what the table says, else the URDF, else the defaults."""
        element = ET.parse(self.path).getroot().find(f"joint[@name='{joint}']")
        assert element is not None
        limit = element.find("limit")
        read = {} if limit is None else {k: float(v) for k, v in limit.attrib.items()}
        turning = element.get("type") == "continuous"
        ends = [-np.pi, np.pi] if turning else [read["lower"], read["upper"]]
        found = {"position": ends, "velocity": read.get("velocity"), "effort": read.get("effort")}
        found |= self._said(joint)
        found.setdefault("acceleration", found["velocity"] / 0.25)
        found.setdefault("jerk", found["acceleration"] / 0.05)
        return found

    def _joints(self, names: list[str], motion: list[Array], times: Array) -> Iterator[Violation]:
        for j, name in enumerate(names):
            limit = self._limit(name)
            low, high = limit["position"]
            room = self._margin("position") * (high - low)
            q = motion[0][:, j]
            over = np.maximum(low + room - q, q - high + room) / (high - low)
            yield from _broken(f"position of {name}", over, times)
            for order, kind in enumerate(("velocity", "acceleration", "jerk"), 1):
                most = limit[kind] * (1.0 - self._margin(kind))
                over = np.abs(motion[order][:, j]) / most - 1.0
                yield from _broken(f"{kind} of {name}", over, times)

    def _model(self, names: list[str]) -> Any:
        """Return pinocchio's model, with joints that stand still locked where they are held."""
        whole = pin.buildModelFromUrdf(str(self.path), mimic=True)
        locked = [k for k, n in enumerate(whole.names) if k and n not in names]
        locked = [k for k in locked if not isinstance(whole.joints[k], pin.JointModelMimic)]
        held = pin.neutral(whole)
        shapes = pin.buildGeomFromUrdf(
            whole, str(self.path), pin.GeometryType.COLLISION, None, [str(robots().parents[1])]
        )
        if not locked:
            return whole, shapes
        model, (shapes,) = pin.buildReducedModel(whole, [shapes], locked, held)
        return model, shapes

    def _configurations(self, model: Any, names: list[str], values: Array) -> Array:
        """Return values of named joints in pinocchio's order, shape (N, joints)."""
        own = [n for n in model[0].names if n in names]
        return values[:, [names.index(n) for n in own]]

    def _efforts(
        self, model: Any, names: list[str], times: Array, q: Array, v: Array, a: Array
    ) -> Iterator[Violation]:
        robot = model[0]
        own = [n for n in robot.names if n in names]
        data = robot.createData()
        torque = np.array(
            [pin.rnea(robot, data, _full(robot, x), y, z) for x, y, z in zip(q, v, a, strict=True)]
        )
        for j, name in enumerate(own):
            limit = self._limit(name)
            if limit["effort"]:
                most = limit["effort"] * (1.0 - self._margin("effort"))
                yield from _broken(f"effort of {name}", np.abs(torque[:, j]) / most - 1.0, times)
            if limit.get("power"):
                most = limit["power"] * (1.0 - self._margin("power"))
                yield from _broken(f"power of {name}", torque[:, j] * v[:, j] / most - 1.0, times)

    def _distances(self, model: Any, times: Array, q: Array) -> Iterator[Violation]:
        robot, shapes = model
        required = float(self.table["motion"].get("clearance", 0.01))
        pairs = self._pairs(robot, shapes, required)
        shapes.removeAllCollisionPairs()
        for i, j, _ in pairs:
            shapes.addCollisionPair(pin.CollisionPair(i, j))
        data, found = robot.createData(), shapes.createData()
        for request, (_, _, margin) in zip(found.collisionRequests, pairs, strict=True):
            request.security_margin = max(margin - DEPTH, 0.0)
        hulls = {k: _corners(g) for k, g in enumerate(shapes.geometryObjects) if g.parentJoint}
        worst: dict[str, tuple[float, float]] = {}
        free = self._free_spaces(robot, shapes, hulls, required)
        for time_, x in zip(times, q, strict=True):
            whole = _full(robot, x)
            pin.updateGeometryPlacements(robot, data, shapes, found, whole)
            if pin.computeCollisions(shapes, found, False):
                for (i, j, margin), result in zip(pairs, found.collisionResults, strict=True):
                    if result.isCollision():
                        gap = min(c.penetration_depth for c in result.getContacts())
                        names = (shapes.geometryObjects[k].name for k in (i, j))
                        _note(worst, " and ".join(names), max(margin - gap, 0.0), time_)
            for name, k, normal, offset in free:
                placement = found.oMg[k]
                points, radius = hulls[k]
                height = points @ (placement.rotation.T @ normal)
                gap = height.min() + normal @ placement.translation - radius - offset - required
                if gap < -DEPTH:
                    _note(worst, name, -gap, time_)
        for name, (excess, when) in worst.items():
            yield Violation(f"clearance of {name}", excess, when)

    def _pairs(self, robot: Any, shapes: Any, required: float) -> list[tuple[int, int, float]]:
        """Return pairs of shapes two joints apart or more, with what is required of them [m].

        Without those that touch at every one of 200 random postures: they are built so.
        """
        found = []
        objects = shapes.geometryObjects
        supports = [_support(robot, g.parentJoint) for g in objects]
        for i in range(len(objects)):
            for j in range(i + 1, len(objects)):
                apart = len(supports[i] ^ supports[j])
                if apart > 1:
                    found.append((i, j, 0.0 if apart == 2 else required))
        shapes.removeAllCollisionPairs()
        for i, j, _ in found:
            shapes.addCollisionPair(pin.CollisionPair(i, j))
        data, state = robot.createData(), shapes.createData()
        always = np.ones(len(found), dtype=bool)
        rng = np.random.default_rng(0)
        for _ in range(200):
            x = _full(robot, rng.uniform(-np.pi, np.pi, robot.nv))
            pin.computeCollisions(robot, data, shapes, state, x, False)
            always &= [r.isCollision() for r in state.collisionResults]
        return [pair for pair, built in zip(found, always, strict=True) if not built]

    def _free_spaces(
        self, robot: Any, shapes: Any, hulls: Mapping[int, Any], required: float
    ) -> list[tuple[str, int, Array, float]]:
        """Return shapes and half spaces that they stay in, but those that never do."""
        motion, found = self.table["motion"], []
        spaces: list[tuple[str, Array, float]] = []
        if "floor" in motion:
            spaces.append(("floor", np.array([0.0, 0.0, 1.0]), motion["floor"]))
        for k, (low, high) in enumerate(motion.get("keep_in", ())):
            axis = np.eye(3)[k]
            spaces += [(f"keep_in {k} low", axis, low), (f"keep_in {k} high", -axis, -high)]
        data, state = robot.createData(), shapes.createData()
        rng = np.random.default_rng(1)
        near = np.zeros((len(spaces), len(shapes.geometryObjects)))
        for _ in range(200):
            x = _full(robot, rng.uniform(-np.pi, np.pi, robot.nv))
            pin.updateGeometryPlacements(robot, data, shapes, state, x)
            for s, (_, normal, offset) in enumerate(spaces):
                for k, (points, radius) in hulls.items():
                    place = state.oMg[k]
                    low = (points @ (place.rotation.T @ normal)).min() - radius
                    near[s, k] += low + normal @ place.translation - offset < required
        for s, (name, normal, offset) in enumerate(spaces):
            for k in hulls:
                if near[s, k] < 200:
                    link = shapes.geometryObjects[k].name
                    found.append((f"{link} and {name}", k, normal, offset))
        return found


def _note(worst: dict[str, tuple[float, float]], name: str, excess: float, when: float) -> None:
    if excess > worst.get(name, (-np.inf, 0.0))[0]:
        worst[name] = (float(excess), float(when))


def _broken(limit: str, over: Array, times: Array) -> Iterator[Violation]:
    k = int(np.argmax(over))
    if over[k] > TOLERANCE:
        yield Violation(limit, float(over[k]), float(times[k]))


def _support(robot: Any, joint: int) -> frozenset[int]:
    return frozenset(k for k in robot.supports[joint] if k)


def _full(robot: Any, values: Array) -> Array:
    """Return pinocchio's configuration: joints without end are cosine and sine there."""
    if robot.nq == len(values):
        return np.ascontiguousarray(values)
    return np.asarray(pin.integrate(robot, pin.neutral(robot), np.ascontiguousarray(values)))


def _corners(shape: Any) -> tuple[Array, float]:
    """Return corners and a radius of a shape, in its own frame [m]."""
    geometry = shape.geometry
    if isinstance(geometry, coal.Sphere):
        return np.zeros((1, 3)), geometry.radius
    if isinstance(geometry, coal.Box):
        signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, -1).T
        return signs * geometry.halfSide, 0.0
    if isinstance(geometry, coal.Cylinder | coal.Capsule):
        half, radius = geometry.halfLength, geometry.radius
        angle = np.linspace(0.0, 2.0 * np.pi, 33)[:-1]
        round_ = isinstance(geometry, coal.Capsule)
        size = 0.0 if round_ else radius
        rim = size * np.array([np.cos(angle), np.sin(angle), 0.0 * angle]).T
        top = np.array([0.0, 0.0, half])
        ends = np.vstack([rim + top, rim - top])
        return ends, radius if round_ else 0.0
    points = np.array(geometry.vertices())
    try:
        return points[ConvexHull(points).vertices], 0.0
    except QhullError:
        return points, 0.0


# ---- random limits and designs ---------------------------------------------------------------

QUICK = DesignSettings(
    duration=8.0,
    random=30,
    starts=1,
    workers=1,
    grids=Grids(160, 96, 64),
    solver=SolverSettings(rounds=8, iterations=30, more=10),
)


def random_limits(robot: Robot, rng: np.random.Generator, held: tuple[str, ...]) -> dict[str, Any]:
    """Return options of `--with` with random limits of joints and room.

    Args:
        robot: The robot.
        rng: Random numbers.
        held: Names of joints that do not move.
    """
    stated = motion_limits(robot)
    joints = {}
    for j, name in enumerate(stated.joints):
        if name in held:
            continue
        low, high = float(stated.lower[j]), float(stated.upper[j])
        low, high = max(low, -np.pi), min(high, np.pi) if min(high, np.pi) > low else high
        width = high - low
        velocity = float(stated.velocity[j] * rng.uniform(0.3, 1.0))
        acceleration = float(velocity * rng.uniform(2.0, 8.0))
        joints[name] = {
            "position": [low + 0.15 * width * rng.uniform(), high - 0.15 * width * rng.uniform()],
            "velocity": velocity,
            "acceleration": acceleration,
            "jerk": float(acceleration * rng.uniform(10.0, 40.0)),
        }
    motion: dict[str, Any] = {"joint": joints, "clearance": float(rng.uniform(0.0, 0.02))}
    if rng.uniform() < 0.7:
        motion["floor"] = float(-rng.uniform(0.0, 0.3))
    if rng.uniform() < 0.3:
        motion["keep_in"] = [[-2.0, 2.0], [-2.0, float(rng.uniform(0.5, 1.5))], [-2.0, 2.0]]
    return {"motion": motion, "joint": {name: {"fixed": True} for name in held}}


def planned_with(first: PlannedExperiment, robot: Robot) -> PlannedExperiment:
    """Return the experiment with other options of the same robot, its capsules fitted already."""
    assert first.clearance is not None
    stated = motion_limits(robot)
    clearance = Clearance.of(robot, first.clearance.capsules, stated)
    return replace(first, robot=robot, stated=stated, clearance=clearance)


@dataclass
class Tally:
    """What became of one robot's designs."""

    designed: int = 0
    refused: int = 0
    broken: int = 0
    seconds: float = 0.0


def run(name: str, designs: int, seed: int) -> tuple[Tally, list[Violation]]:
    """Return what became of a robot's designs, and what they break.

    Args:
        name: Of the robot.
        designs: How many.
        seed: Of the random limits.
    """
    path = robots() / ROBOTS[name]
    held = HELD.get(name, ())
    first = open_experiment(path)
    tally, found = Tally(), []
    for k in range(designs):
        rng = np.random.default_rng([seed, list(ROBOTS).index(name), k])
        options = random_limits(Robot.from_file(path), rng, held)
        robot = Robot.from_file(path, Options.from_dict(options))
        begin = time.perf_counter()
        try:
            planned = planned_with(first, robot)
            settings = ExciteSettings(design=replace(QUICK, seed=k), compared=False)
            made = excite(planned, settings)
        except HeftError as problem:
            tally.refused += 1
            print(f"  {name}, {k}: refused: {' '.join(str(problem).split())}", flush=True)
            continue
        tally.seconds += time.perf_counter() - begin
        tally.designed += 1
        broken = list(Verifier(path, options, SAMPLES).violations(made.trajectory.to_dict()))
        tally.broken += bool(broken)
        found += broken
        for v in broken:
            print(f"  {name}, {k}: {v.limit} by {v.excess:.3g} at {v.time:.3f} s", flush=True)
        print(
            f"  {name}, {k}: {len(broken)} limits broken, {made.design.gain:.0f} nats", flush=True
        )
    return tally, found


@benchmark(
    {
        **{"designs": 1, "robots": ("finger",), "SAMPLES": 40},
        "QUICK": replace(QUICK, random=4, solver=SolverSettings(rounds=1, iterations=2, more=1)),
    },
    unstored=("robots", "seed"),
)
def main(
    *, designs: int = 20, robots: tuple[str, ...] = tuple(ROBOTS), seed: int = SCORED
) -> Iterator[Row]:
    """Design, verify, and yield the rows.

    Args:
        designs: A robot.
        robots: Some of them.
        seed: Of the limits.
    """
    total = Tally()
    for name in robots:
        tally, _ = run(name, designs, seed)
        yield at_most(f"{name}, designs with a limit broken", tally.broken, "", 0.0)
        yield Row(f"{name}, designs", tally.designed, "", against=f"{tally.refused} refused")
        total.designed += tally.designed
        total.refused += tally.refused
        total.broken += tally.broken
        total.seconds += tally.seconds
    yield at_most("designs with a limit broken", total.broken, "", 0.0)
    yield Row("designs", total.designed, "", against=f"{total.refused} refused")
    yield Row("time a design", total.seconds / max(total.designed, 1), "s")


if __name__ == "__main__":
    main()
