"""Plants with known truth, a line each, and experiments with them that other software made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, wraps
from typing import Any

import numpy as np
import pinocchio as pin
from scipy.signal import lfilter
from scipy.spatial.transform import Rotation

from heft.information import inertia
from heft.information.parameter_space import ParameterSpace
from heft.information.parameters import Labels
from heft.models import ContactOptions, SensorOptions
from heft.models.free_flyer import shipped_free_flyer
from heft.models.own_columns import JointValues, OwnColumns, RegressorColumn
from heft.models.robot import Robot
from heft.plants import (
    Channel,
    FreeFlyerPlant,
    GraspingPoint,
    HeldBody,
    Inputs,
    Measured,
    MotionSignal,
    Plant,
    Point,
    Rows,
    Samples,
    ServoPlant,
    Unknowns,
    UnsureGains,
    UnsureGainsPlant,
)
from heft.plants.elastic_robot import ElasticRobotPlant
from heft.plants.floating_robot import FloatingRobotPlant
from heft.plants.free_body import FreeBody
from heft.plants.robot import RobotPlant, SensedRobotPlant
from heft.recordings.recording import Recording
from heft.signals.filters import Smoothed
from tests import robots
from tests.rotorcraft import RotorBody

Array = np.ndarray[Any, np.dtype[np.float64]]
Signals = dict[str, dict[str, Array]]
GRAVITY = np.array([0.0, 0.0, -9.81])


@dataclass(frozen=True)
class CartMotion:
    velocity: Array
    acceleration: Array

    def part(self, rows: Any) -> CartMotion:
        return CartMotion(self.velocity[rows], self.acceleration[rows])


@dataclass(frozen=True)
class Cart(Plant[CartMotion]):
    """A cart pushed along a rail: mass, viscous friction, drag of the air."""

    @property
    def labels(self) -> Labels:
        return Labels(("mass", "viscous", "drag"), ("kg", "N·s/m", "N·s²/m²"), "cart")

    @property
    def space(self) -> ParameterSpace:
        return ParameterSpace(self.labels, np.eye(3), np.array([1.0, 0.0, 0.0]), (), (0, 1, 2))

    @property
    def channels(self) -> tuple[Channel, ...]:
        return (Channel("push", "N"),)

    def inputs(self, recording: Recording, measured: bool = True) -> Inputs:
        recording.require("q.cart", "says where the cart is")
        motion = (MotionSignal("q.cart"),)
        if not measured:
            return Inputs(motion)
        recording.require("tau.cart", "is what the cart is pushed by")
        return Inputs(motion, (Measured(0, (("tau.cart", 1.0),)),))

    def motion(self, smoothed: Smoothed) -> CartMotion:
        return CartMotion(smoothed.velocity[:, 0], smoothed.acceleration[:, 0])

    def rows(self, samples: Samples[CartMotion], columns: Sequence[int]) -> Rows:
        v, a = samples.motion.velocity, samples.motion.acceleration
        return Rows(np.stack([a, v, np.abs(v) * v], axis=1)[:, None, list(columns)])

    def random_samples(self, count: int, rng: np.random.Generator) -> Samples[CartMotion]:
        v, a = rng.normal(size=(2, count))
        return Samples.of_motion(CartMotion(v, a), count, 1)


Experiment = Callable[[Array], tuple[Signals, Smoothed]]


def made_once(experiment: Experiment) -> Experiment:
    """Make an experiment of the same times once; its signals can be changed."""
    known: dict[bytes, tuple[Signals, Smoothed]] = {}

    @wraps(experiment)
    def of(time: Array) -> tuple[Signals, Smoothed]:
        key = time.tobytes()
        if key not in known:
            known[key] = experiment(time)
        signals, exact = known[key]
        return {kind: dict(named) for kind, named in signals.items()}, exact

    return of


@dataclass(frozen=True)
class Case:
    """A plant, its true parameters, and an experiment with it that other software made.

    Attributes:
        plant: With a poor guess of its parameters.
        truth: Of the standard columns.
        experiment: Makes signals (kind → name → values) of times, noise-free; and the motion's
            signals with their exact derivatives.
    """

    plant: Plant[Any]
    truth: Array
    experiment: Experiment

    def recording(
        self, time: Array, noise: float = 0.0, seed: int = 0, name: str = "run"
    ) -> Recording:
        """Return a log; noise is AR(1) with a correlation of .8, as a share of each channel."""
        signals, _ = self.experiment(time)
        rng = np.random.default_rng(seed)
        for kind in ("tau", "force", "torque"):
            for signal, values in signals.get(kind, {}).items():
                white = rng.normal(size=len(time)) * noise * np.std(values)
                signals[kind][signal] = values + lfilter([1.0], [1.0, -0.8], white)
        return Recording.from_arrays(time, name, **signals)


def _cart() -> Case:
    truth = np.array([2.5, 3.0, 0.8])

    @made_once
    def experiment(time: Array) -> tuple[Signals, Smoothed]:
        size, pace = np.array([0.5, 0.2, 0.1]), np.array([1.7, 4.1, 7.3])
        angle = pace * time[:, None] + np.arange(3.0)
        x, v = np.sin(angle) @ size, np.cos(angle) @ (size * pace)
        a = -np.sin(angle) @ (size * pace**2)
        push = truth[0] * a + truth[1] * v + truth[2] * np.abs(v) * v
        exact = Smoothed(x[:, None], v[:, None], a[:, None])
        return {"q": {"cart": x}, "tau": {"cart": push}}, exact

    return Case(Cart(), truth, experiment)


def _turns(time: Array, pace: tuple[float, float]) -> tuple[Array, Array, Array]:
    """Return positions, velocities and accelerations of two joints, each shape (N, 2)."""
    rate, phase = np.array(pace), np.array([0.3, 1.2])
    angle = rate * time[:, None] + phase
    size = np.array([0.9, 1.2])
    return size * np.sin(angle), size * rate * np.cos(angle), -size * rate**2 * np.sin(angle)


def _of_joints(robot: Robot, q: Array, tau: Array) -> Signals:
    joints = robot.joints
    return {
        "q": dict(zip(joints, q.T, strict=True)),
        "tau": dict(zip(joints, tau.T, strict=True)),
    }


def _arm() -> Case:
    """The planar arm without friction, by pinocchio."""
    robot = robots.planar_arm()
    oracle = robots.Oracle.of(robot)

    @made_once
    def experiment(time: Array) -> tuple[Signals, Smoothed]:
        q, v, a = _turns(time, (1.3, 2.1))
        return _of_joints(robot, q, oracle.inverse_dynamics(q, v, a)), Smoothed(q, v, a)

    return Case(RobotPlant(robot), oracle.parameters(), experiment)


def cut_wrenches(q: Array, v: Array, a: Array) -> dict[str, Array]:
    """Return what moves all beyond each joint of `robots.SENSED_ARM`, in its child's frame.

    By pinocchio, which reads fixed joints as floating ones that stay where they are. Those that
    move have their effort beside, by the name of the joint and `.effort`.
    """
    text = robots.SENSED_ARM.decode().replace('type="fixed"', 'type="floating"')
    model = pin.buildModelFromXML(text)
    data = model.createData()
    names = ("turn", "bend", "slide")
    joints = [model.joints[model.getJointId(n)] for n in names]
    found: dict[str, list[Array]] = {n: [] for n in model.names[1:]}
    efforts: dict[str, list[float]] = {f"{n}.effort": [] for n in names}
    for x, y, z in zip(q, v, a, strict=True):
        full, rate, rise = pin.neutral(model), np.zeros(model.nv), np.zeros(model.nv)
        for joint, place, speed, growth in zip(joints, x, y, z, strict=True):
            full[joint.idx_q], rate[joint.idx_v], rise[joint.idx_v] = place, speed, growth
        tau = pin.rnea(model, data, full, rate, rise)
        for j in range(1, model.njoints):
            found[model.names[j]].append(data.f[j].vector.copy())
        for name, joint in zip(names, joints, strict=True):
            efforts[f"{name}.effort"].append(tau[joint.idx_v])
    return {n: np.array(w) for n, w in (*found.items(), *efforts.items())}


def _sensed_arm() -> Case:
    """An arm bolted together at a wrench sensor that has a bias, its torques measured, too."""
    robot = robots.sensed_arm(sensor={"bolts": SensorOptions("beyond", reports="on_sensor")})
    bias = np.array([5.0, -3.0, 2.0, 0.4, 0.3, -0.2])

    @made_once
    def experiment(time: Array) -> tuple[Signals, Smoothed]:
        rate, phase = np.array([2.9, 4.7, 3.7]), np.array([0.3, 1.2, 2.1])
        size, angle = np.array([1.2, 1.4, 0.4]), rate * time[:, None] + phase
        q, v, a = size * np.sin(angle), size * rate * np.cos(angle), -size * rate**2 * np.sin(angle)
        made = cut_wrenches(q, v, a)
        tau = np.stack([made[f"{j}.effort"] for j in robot.joints], 1)
        signals = _of_joints(robot, q, tau)
        for first, kind in ((0, "force"), (3, "torque")):
            told = -(made["bolts"] + bias)[:, first : first + 3]
            signals[kind] = {f"bolts.{x}": told[:, k] for k, x in enumerate("xyz")}
        return signals, Smoothed(q, v, a)

    return Case(SensedRobotPlant(robot), np.concatenate([robot.written_bodies(), bias]), experiment)


GEARS = np.array([900.0, 6.0, 4.0, 1.5, 500.0, 2.0, -3.0, 0.8])  # as of `GEAR`
ROTORS = np.array([0.7, 0.2])


def _elastic_arm() -> Case:
    """The planar arm behind springs and dampers: link by pinocchio, motor by Fourier's lines.

    The torque s that its links take is periodic: k δ + d δ̇ + p − l q̇ = s is solved line by line.
    """
    robot = robots.elastic_arm()
    oracle = robots.Oracle.of(robot)
    slowest, count = 1.5, 512
    over = 2.0 * np.pi / slowest * np.arange(count) / count
    links = _turns(over, (2 * slowest, 3 * slowest))
    taken = oracle.inverse_dynamics(*links)
    rate = 1j * slowest * np.arange(count // 2 + 1)
    k, d, p, late = GEARS.reshape(2, 4).T
    lines = np.fft.rfft(taken - p + late * links[1], axis=0) / count / (k + rate[:, None] * d)
    lines[1:] *= 2.0
    last = 100  # what is beyond is rounding

    @made_once
    def experiment(time: Array) -> tuple[Signals, Smoothed]:
        links = _turns(time, (2 * slowest, 3 * slowest))
        waves = np.exp(time[:, None] * rate[None, :last])
        bent = [np.real(waves @ (lines[:last] * rate[:last, None] ** n)) for n in range(3)]
        motors = [link + part for link, part in zip(links, bent, strict=True)]
        signals = _of_joints(robot, links[0], oracle.inverse_dynamics(*links) + ROTORS * motors[2])
        signals["q_motor"] = dict(zip(robot.joints, motors[0].T, strict=True))
        return signals, Smoothed(*(np.hstack(pair) for pair in zip(links, motors, strict=True)))

    truth = np.concatenate([oracle.parameters(), ROTORS, GEARS])
    return Case(ElasticRobotPlant(robot), truth, experiment)


def springs(q: JointValues, v: JointValues, a: JointValues) -> list[RegressorColumn]:
    """An elastic band between a point of the upper and one of the lower arm; rough air."""
    del a
    angle = 2.0 - q["elbow"]
    length = np.sqrt(0.1**2 + 0.5**2 - 2.0 * 0.1 * 0.5 * np.cos(angle))
    lever = -0.1 * 0.5 * np.sin(angle) / length
    drag = {j: np.abs(w) * w for j, w in v.items()}
    return [
        RegressorColumn("band", "N/m", {"elbow": lever * (length - 0.3)}, nonnegative=True),
        RegressorColumn("air", "N·m·s²/rad²", drag),
    ]


def sprung(drives: bool = False) -> Robot:
    """Return the planar arm with `springs`, and with friction or without."""
    robot = robots.planar_arm(drives=drives)
    return replace(robot, own_columns=OwnColumns(springs, robot.joints))


def _arm_with_springs() -> Case:
    """The planar arm by pinocchio, with a band by the derivative of its energy."""
    robot = robots.planar_arm()
    oracle = robots.Oracle.of(robot)
    own = np.array([40.0, 0.5])

    def stored(elbow: Array) -> Array:
        ends = np.stack([0.5 * np.cos(elbow - 2.0), 0.5 * np.sin(elbow - 2.0)], 1)
        length = np.linalg.norm(ends - np.array([0.1, 0.0]), axis=1)
        return np.asarray(0.5 * own[0] * (length - 0.3) ** 2)

    @made_once
    def experiment(time: Array) -> tuple[Signals, Smoothed]:
        # Further columns need more periods, for intervals to hold by the noise of one log.
        q, v, a = _turns(time, (2.9, 4.7))
        tau = oracle.inverse_dynamics(q, v, a) + own[1] * np.abs(v) * v
        h = 1e-4
        ends = [stored(q[:, 1] + k * h) for k in (-2, -1, 1, 2)]
        tau[:, 1] += (ends[0] - 8.0 * ends[1] + 8.0 * ends[2] - ends[3]) / (12.0 * h)
        return _of_joints(robot, q, tau), Smoothed(q, v, a)

    return Case(RobotPlant(sprung()), np.append(oracle.parameters(), own), experiment)


@cache
def _flight(begin: float, step: float, count: int) -> tuple[Array, ...]:
    """Place, quaternion, velocity, acceleration, ω, α and rotation of a flight.

    ω and α by fourth-order differences of the rotation vector: of what motion they are is of no
    concern, as long as all signals are of the same one.
    """

    def attitude(t: Array) -> Rotation:
        angles = [1.2 * np.sin(0.9 * t), 1.1 * np.sin(1.3 * t + 1.0), 0.8 * np.cos(1.7 * t)]
        return Rotation.from_euler("xyz", np.stack(angles, 1))

    h = 1e-3
    weights = zip((-2, -1, 1, 2), np.array([1.0, -8.0, 8.0, -1.0]) / (12.0 * h), strict=True)
    difference = tuple(weights)

    def spin(t: Array) -> Array:
        now = attitude(t).inv()
        return np.asarray(sum(c * (now * attitude(t + k * h)).as_rotvec() for k, c in difference))

    t = begin + step * np.arange(count)
    pace, phase = np.array([2.3, 2.5, 2.7]), np.arange(3.0)
    slow, fast = 1.1 * t[:, None] + phase, pace * t[:, None]
    place = 0.4 * np.sin(slow) + 0.2 * np.cos(fast)
    speed = 0.44 * np.cos(slow) - 0.2 * pace * np.sin(fast)
    pull = -0.484 * np.sin(slow) - 0.2 * pace**2 * np.cos(fast)
    omega = spin(t)
    alpha = np.asarray(sum(c * spin(t + k * h) for k, c in difference))
    R = attitude(t)
    return place, R.as_quat()[:, [3, 0, 1, 2]], speed, pull, omega, alpha, R.as_matrix()


def product(quaternion: Array, vector: Array) -> Array:
    """Return q ⊗ (0, v), wxyz."""
    w, xyz = quaternion[:, :1], quaternion[:, 1:]
    scalar = -np.sum(xyz * vector, axis=1, keepdims=True)
    return np.hstack([scalar, w * vector + np.cross(xyz, vector)])


def _free_body(motion_from: str) -> Case:
    """A body in flight; its wrench by pinocchio's free-flyer joint."""
    ten = inertia.from_body(
        2.3,
        np.array([0.03, -0.02, 0.05]),
        np.array([[0.02, 0.002, 0.0], [0.002, 0.03, -0.001], [0.0, -0.001, 0.025]]),
    )
    model = pin.Model()
    model.gravity.linear = GRAVITY
    joint = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "free")
    model.appendBodyToJoint(joint, pin.Inertia.FromDynamicParameters(ten), pin.SE3.Identity())
    data = model.createData()

    @made_once
    def experiment(time: Array) -> tuple[Signals, Smoothed]:
        step = float(time[1] - time[0])
        place, quat, speed, pull, omega, alpha, R = _flight(float(time[0]), step, len(time))
        wrench = np.empty((len(time), 6))
        specific = np.einsum("nji,nj->ni", R, pull - GRAVITY)
        for n in range(len(time)):
            v = R[n].T @ speed[n]
            # The joint's acceleration is spatial: less ω × v than that of the moving point.
            a = R[n].T @ pull[n] - np.cross(omega[n], v)
            q = np.concatenate([place[n], quat[n, 1:], quat[n, :1]])
            wrench[n] = pin.rnea(
                model, data, q, np.concatenate([v, omega[n]]), np.concatenate([a, alpha[n]])
            )
        flips = np.where(np.arange(len(time)) // 777 % 2, -1.0, 1.0)[:, None]

        def named(values: Array, axes: str = "xyz") -> dict[str, Array]:
            return {f"body.{a}": values[:, k] for k, a in enumerate(axes)}

        signals = {
            "pos": named(place),
            "quat": named(flips * quat, "wxyz"),
            "omega": named(omega),
            "acc": named(specific),
            "force": named(wrench[:, :3]),
            "torque": named(wrench[:, 3:]),
        }
        if motion_from == "imu":
            sensed = np.hstack([omega, specific])
            unknown = np.full_like(specific, np.nan)
            return signals, Smoothed(sensed, np.hstack([alpha, unknown]), np.hstack([unknown] * 2))
        rate = 0.5 * product(quat, omega)
        change = 0.5 * (product(rate, omega) + product(quat, alpha))
        poses = (np.hstack(pair) for pair in ((place, quat), (speed, rate), (pull, change)))
        return signals, Smoothed(*poses)

    gravity = (0.0, 0.0, -9.81)
    return Case(FreeBody("body", motion_from, gravity), ten, experiment)  # type: ignore[arg-type]


def _floating_robot(motion_from: str, ground: str = "measured", equations: str = "all") -> Case:
    """A robot of two joints in the air, pushed at its foot and held at its trunk; by pinocchio.

    What holds the trunk is what the base needs beside the push, so that base rows vanish.

    Args:
        motion_from: `pose` or `imu`.
        ground: The push at the foot: `measured` or `unknown`.
        equations: `all`, `base` or `joints`.
    """
    place = (0.05, 0.02, -0.2)
    contact = {
        "hook": ContactOptions("trunk", wrench="measured"),
        "ground": ContactOptions("foot", "point", place, ground, "logged"),  # type: ignore[arg-type]
    }
    robot = robots.walker(contact=contact, equations=equations)
    oracle = robots.Oracle.of(robot)
    model, data = oracle.model, oracle.model.createData()
    frame = model.getFrameId("foot")

    @made_once
    def experiment(time: Array) -> tuple[Signals, Smoothed]:
        step = float(time[1] - time[0])
        where, quat, speed, pull, omega, alpha, R = _flight(float(time[0]), step, len(time))
        q, v, a = _turns(time, (3.1, 2.3))
        pace = np.array([1.9, 2.7, 3.4])
        # A contact that is open half of the time, and closes softly.
        closing = np.maximum(np.sin(1.7 * time), 0.0)[:, None] ** 3
        push = closing * np.array([30.0, 20.0, 60.0]) * np.sin(pace * time[:, None] + 1.0)
        efforts = np.empty((len(time), 8))
        for n in range(len(time)):
            inside = R[n].T @ speed[n]
            along = R[n].T @ pull[n] - np.cross(omega[n], inside)
            whole = oracle.expand(np.concatenate([where[n], quat[n, 1:], quat[n, :1], q[n]]))
            rates = np.concatenate([inside, omega[n], v[n]])
            changes = np.concatenate([along, alpha[n], a[n]])
            J = pin.computeFrameJacobian(model, data, whole, frame, pin.LOCAL)
            at_place = J[:3] - inertia.skew(np.array(place)) @ J[3:]
            efforts[n] = pin.rnea(model, data, whole, rates, changes) - at_place.T @ push[n]
        specific = np.einsum("nji,nj->ni", R, pull - GRAVITY)
        signals = _of_joints(robot, q, efforts[:, 6:])
        signals["force"] = {f"hook.{x}": efforts[:, k] for k, x in enumerate("xyz")}
        signals["torque"] = {f"hook.{x}": efforts[:, 3 + k] for k, x in enumerate("xyz")}
        signals["force"] |= {f"ground.{x}": push[:, k] for k, x in enumerate("xyz")}
        flag = (closing > 0.0).astype(float)
        signals["contact"] = {"ground": flag[:, 0]}
        base = {"pos": where, "quat": quat, "omega": omega, "acc": specific}
        for kind in ("pos", "quat") if motion_from == "pose" else ("omega", "acc"):
            axes = "wxyz" if kind == "quat" else "xyz"
            signals[kind] = {f"trunk.{x}": base[kind][:, k] for k, x in enumerate(axes)}
        flags = flag if ground == "unknown" else flag[:, :0]
        if motion_from == "imu":
            unknown = np.full_like(specific, np.nan)
            return signals, Smoothed(
                np.hstack([omega, specific, q, flags]),
                np.hstack([alpha, unknown, v, flags]),
                np.hstack([unknown, unknown, a, flags]),
            )
        rate = 0.5 * product(quat, omega)
        change = 0.5 * (product(rate, omega) + product(quat, alpha))
        return signals, Smoothed(
            np.hstack([where, quat, q, flags]),
            np.hstack([speed, rate, v, flags]),
            np.hstack([pull, change, a, flags]),
        )

    plant = FloatingRobotPlant(robot, motion_from=motion_from)  # type: ignore[arg-type]
    return Case(plant, oracle.parameters(), experiment)


@cache
def case(name: str) -> Case:
    """Return a plant of the table."""
    return (PLANTS | CHOICES)[name]()


PLANTS: dict[str, Callable[[], Case]] = {
    "cart": _cart,
    "planar arm": _arm,
    "planar arm with springs": _arm_with_springs,
    "planar arm with elastic gears": _elastic_arm,
    "free body by its pose": lambda: _free_body("pose"),
    "free body by an inertial sensor": lambda: _free_body("imu"),
    "arm with a wrench sensor inside": _sensed_arm,
    "floating robot by its pose": lambda: _floating_robot("pose"),
    "floating robot by an inertial sensor": lambda: _floating_robot("imu", "unknown"),
}
# The same otherwise, whose rows are looked at.
CHOICES: dict[str, Callable[[], Case]] = {
    "floating robot, a contact unknown": lambda: _floating_robot("pose", "unknown"),
    "floating robot, base alone": lambda: _floating_robot("pose", equations="base"),
    "floating robot, joints alone": lambda: _floating_robot("pose", equations="joints"),
}


def _held(resting: bool = False, others: bool = False, **unknowns: Any) -> HeldBody:
    """A body at wrench sensors; its dynamics are compared with pinocchio's in `test_wrench`."""
    world = "tilt" in unknowns
    point = Point.of(GRAVITY if world else np.zeros(0))
    rotation = Rotation.from_rotvec([0.3, -0.8, 1.1]).as_matrix()
    further = (GraspingPoint(rotation, np.array([0.4, 0.1, -0.2]), (3.0, 0.5)),)
    return HeldBody(
        Unknowns(**unknowns), point, resting, world, 0.01, further * others, (0.2, 0.01)
    )


def _flyer(name: str) -> FreeFlyerPlant:
    """A body under actuators; its dynamics are compared with MuJoCo's in `test_flyer_dynamics`."""
    return FreeFlyerPlant.of(shipped_free_flyer(name))


def _unsure_gains() -> UnsureGainsPlant:
    """The floating robot, whose torques are by gains that are a tenth off."""
    plain = case("floating robot, a contact unknown").plant
    assert isinstance(plain, FloatingRobotPlant)
    noise = tuple(np.linspace(0.2, 2.0, len(plain.channels)).tolist())
    gains = UnsureGains({"hip": 1.1, "knee": 0.9}, plain.robot.nominal(), noise)
    return UnsureGainsPlant.of(plain, gains)


# Plants whose rows alone are looked at: no other software makes their experiments, or none that
# can be differentiated.
BARE: dict[str, Callable[[], Plant[Any]]] = {
    "servo on a bench": lambda: ServoPlant(0.5, 0.005, released=True, warms=True),
    "held body": lambda: _held(drift=1, cuts=(0.3,), delay=True),
    "held body at rest": lambda: _held(resting=True, drift=2),
    "held body at two sensors": lambda: _held(others=True),
    "held body, all of its sensor unknown": lambda: _held(
        tilt=True, mounting=True, gains=True, delay=True
    ),
    "free flyer of six rotors": lambda: _flyer("space_cobot"),
    "free flyer of twelve nozzles": lambda: _flyer("astrobee"),
    "free flyer that pushes up only": lambda: _flyer("quadrotor"),
    "rotorcraft": RotorBody,
    "rotorcraft by an inertial sensor": lambda: RotorBody(motion_from="imu"),
    "rotorcraft without its thrust constant": lambda: RotorBody(thrust_known=False),
    **{name: lambda name=name: case(name).plant for name in CHOICES},  # type: ignore[misc]
    "arm with friction's dictionary": lambda: RobotPlant(robots.planar_arm(drives=True)),
    "arm with springs and friction's dictionary": lambda: RobotPlant(sprung(drives=True)),
    "arm with wrench sensors and friction's dictionary": lambda: SensedRobotPlant(
        robots.sensed_arm(
            joint={},
            sensor={
                "plate": SensorOptions("foot"),
                "wrist": SensorOptions("fore", position=(0.1, 0.2, 0.3), bias="none"),
            },
        )
    ),
    "floating robot with wrench sensors inside": lambda: FloatingRobotPlant(
        robots.walker(
            contact={
                "foot": ContactOptions("foot"),
                "hand": ContactOptions("trunk", wrench="measured"),
            },
            sensor={"shin": SensorOptions("foot"), "hip": SensorOptions("thigh")},
            equations="base",
        )
    ),
    "floating robot with unsure gains": _unsure_gains,
    "floating robot with friction's dictionary": lambda: FloatingRobotPlant(
        robots.walker(
            joint={},
            contact={"foot": ContactOptions("foot"), "hand": ContactOptions("trunk")},
        )
    ),
    "elastic arm with springs and friction's dictionary": lambda: ElasticRobotPlant(
        replace(robots.elastic_arm("full"), own_columns=sprung().own_columns)
    ),
    "arm of one elastic gear": lambda: ElasticRobotPlant(robots.elastic_arm("full", False)),
}
