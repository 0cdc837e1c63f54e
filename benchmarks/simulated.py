"""Simulated experiments with known truth, to count how far off and how sure estimates are.

    python -m benchmarks.simulated [--seeds 3]

A seven-joint arm (Panda's links without the hand) runs under a controller that knows only a
wrong model. Mass matrix and bias forces come from MuJoCo; drives and friction are added at every
step and integrated here. `experiment` returns what a user would have, and the truth beside it.

Run as a program, it checks that what was simulated is the equation of motion that it claims to
be, and how long it takes.

The integration is a leapfrog of second order: velocities live between the positions, `v` at a
step is predicted from the acceleration of the step before, and with it

    τ = rnea(q, v, a) + armature · a + friction(v, slip, rnea(q, v, a))

holds at every step to rounding, while q, v and a are derivatives of each other to O(step²).
The controller acts at every step and its torque is centred on it, so no half step of a
zero-order hold hides in the log: the delay of the logged torque is `delay` and nothing else.
"""

from __future__ import annotations

import itertools
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import mujoco
import numba
import numpy as np
import pinocchio as pin
import scipy.signal
from numpy.typing import NDArray
from tests.experiments import ROBOTS, wrong_prior

from benchmarks.program import benchmark
from benchmarks.results_file import Row
from heft.dynamics import kernels
from heft.information import inertia
from heft.models.export import write_urdf
from heft.models.options import JointOptions, Options
from heft.models.robot import Robot
from heft.plants import RobotPlant, standard_rows
from heft.plants.base import structural_base
from heft.recordings.recording import Recording

Array = NDArray[np.float64]
MotionKind = Literal["periodic", "free"]
FrictionKind = Literal["full", "simple", "viscous"]

PANDA = ROBOTS / "panda_description" / "urdf" / "panda.urdf"
LAST_LINK = 8  # the flange; what is behind it is left out
SOUND = 0.02  # smallest eigenvalue of a true pseudo-inertia, as a share of the largest
PRIOR_ERROR = 0.3
RUN_IN = 2.0  # from rest to the full motion, before the log begins [s]
FADE = 1.5  # of it, in which the motion grows [s]
FUNDAMENTAL = 0.1  # of the periodic motion [Hz]
HARMONICS = 6
REACH = 0.85  # of the joints' ranges
KINDS: tuple[MotionKind, ...] = ("periodic", "free")
FRICTIONS: tuple[FrictionKind, ...] = ("full", "simple")
SECONDS = 30.0  # of what is checked
SPEED = 0.6  # of the joints' velocity limits
EFFORT = 0.7  # of the joints' torque limits
DRAWS = 40  # of which the best motion is taken
VELOCITY_CORNER = 15.0  # of the controller's measured velocity error [Hz]
LOAD_SCALE = 0.02  # of the friction that grows with the load [rad/s]
SETS = 20_262  # of the random numbers

# Shoulder to wrist. Sizes are those found on arms of this class; see docs and evidence on arms.
ARMATURE = (0.60, 0.60, 0.45, 0.45, 0.20, 0.20, 0.15)  # [kg·m²]
VISCOUS = (2.0, 2.5, 1.4, 1.5, 0.45, 0.40, 0.30)  # [N·m·s/rad]
COULOMB = (1.6, 2.0, 1.1, 1.2, 0.50, 0.45, 0.35)  # [N·m]
SCALE = (0.05, 0.04, 0.03, 0.035, 0.04, 0.03, 0.025)  # [rad/s]
PRESLIDING = (0.9, 1.1, 0.6, 0.7, 0.25, 0.25, 0.20)  # [N·m]
WIDTH = (0.008, 0.010, 0.012, 0.009, 0.011, 0.010, 0.012)  # [rad]
LOAD = (0.02, 0.04, 0.03, 0.04, 0.03, 0.035, 0.02)
OFFSET = (0.4, -0.6, 0.2, 0.5, -0.15, 0.1, 0.05)  # [N·m]
BANDWIDTH = 25.0  # of the controller [rad/s]
INERTIA = (1.8, 2.2, 1.2, 1.1, 0.30, 0.26, 0.17)  # that the gains are set for [kg·m²]


@dataclass(frozen=True, eq=False)
class Friction:
    """What rubs in the joints, an entry a joint: all that is neither rigid nor rotor inertia.

        viscous·v + coulomb·tanh(v/scale) + offset
          + presliding·slip + load·tanh(v/0.02)·|τ_rigid|

    `slip` is the stop operator: it follows the position with slope 1/width and stays within ±1.

    Attributes:
        viscous: In N·m·s/rad.
        coulomb: In N·m.
        scale: Of the Coulomb torque's sigmoid [rad/s].
        offset: In N·m.
        presliding: In N·m.
        width: Way to full presliding torque, from none [rad].
        load: Share of the rigid torque.
    """

    viscous: Array
    coulomb: Array
    scale: Array
    offset: Array
    presliding: Array
    width: Array
    load: Array

    def columns(self, v: Array, slip: Array, rigid: Array) -> dict[str, Array]:
        """Return each term's column by the name of its coefficient, each shape (N, joints)."""
        return {
            "viscous": v,
            "coulomb": np.tanh(v / self.scale),
            "offset": np.ones_like(v),
            "presliding": slip,
            "load": np.tanh(v / LOAD_SCALE) * np.abs(rigid),
        }

    def torque(self, v: Array, slip: Array, rigid: Array) -> Array:
        """Return the friction torque, shape (N, joints) [N·m]."""
        return np.asarray(
            sum(getattr(self, k) * c for k, c in self.columns(v, slip, rigid).items())
        )

    def slip(self, q: Array) -> Array:
        """Return the stop operator's states along positions, from rest at the first; (N, joints).

        Positions must be close to each other against the width where the motion turns.
        """
        return _slips(np.ascontiguousarray(q), self.width)


@dataclass(frozen=True, eq=False)
class Exact:
    """What really happens, without any sensor, a row a time.

    Attributes:
        t: Shape (N,) [s].
        q: Shape (N, joints) [rad].
        v: [rad/s].
        a: [rad/s²].
        tau: What the motors give: rigid, rotor inertia and friction [N·m].
        tau_rigid: `rnea(q, v, a)` of the links alone [N·m].
        friction: [N·m].
        slip: State of the stop operator, −1 to 1.
    """

    t: Array
    q: Array
    v: Array
    a: Array
    tau: Array
    tau_rigid: Array
    friction: Array
    slip: Array

    def part(self, rows: Any) -> Exact:
        """Return some of the rows, copied."""
        return Exact(*(np.array(getattr(self, k)[rows]) for k in self.__dataclass_fields__))


@dataclass(frozen=True, eq=False)
class Truth:
    """The numbers that an identification should find.

    Attributes:
        links: Ten parameters of each moving link, in its own frame.
        friction: Of the joints.
        armature: Rotor inertia, shape (joints,) [kg·m²].
        gain: Logged torque per true torque, shape (joints,); not known to the estimator.
    """

    links: dict[str, Array]
    friction: Friction
    armature: Array
    gain: Array

    def standard(self, robot: Robot) -> Array:
        """Return the true values of `robot.labels`; NaN for what is no number of the truth.

        Friction terms have a true value where the estimator's term is the true one: the viscous
        and Coulomb terms and the offset, in so far as nothing else rubs.
        """
        labels = robot.labels
        values = np.full(len(labels), np.nan)
        own = 10 * len(robot.tree.names)
        parts = [self.links[k.name] for k in robot.bodies_links]
        values[:own] = robot.link_matrix() @ np.concatenate(parts)
        for k, name in enumerate(labels.names[own:]):
            joint, _, term = name.rpartition(".")
            source = self.armature if term == "armature" else getattr(self.friction, term, None)
            if source is not None and joint in robot.joints:
                values[own + k] = source[robot.joints.index(joint)]
        return values


@dataclass(frozen=True, eq=False)
class Experiment:
    """A simulated experiment: what a user has, and what is true.

    Attributes:
        seed: Of its random numbers.
        urdf_true: The arm as it is.
        urdf_prior: The arm as it is believed to be.
        recording: The log, canonical names `q.<joint>` and `tau.<joint>`.
        truth: The true numbers.
        torque_noise_std: Of the torque sensors, shape (joints,) [N·m].
        correlation: Of a torque sensor's noise from row to row of the log.
        delay: Of the logged torque behind the motion [s].
        exact: What happened at the log's times (without jitter); `tau` without delay, gain error
            and noise.
        validation: Another motion, exact and analytic, for intervals of predicted torque.
    """

    seed: int
    urdf_true: bytes
    urdf_prior: bytes
    recording: Recording
    truth: Truth
    torque_noise_std: Array
    correlation: float
    delay: float
    exact: Exact
    validation: Exact

    @property
    def robot(self) -> Robot:
        """The arm as it is believed to be."""
        return Robot.from_urdf_text(self.urdf_prior)


# --- the arm


@lru_cache(maxsize=1)
def arm() -> bytes:
    """Return the model file of the arm with sound numbers: Panda, its hand taken off."""
    root = ET.fromstring(PANDA.read_bytes())
    kept = {f"panda_link{k}" for k in range(LAST_LINK + 1)}
    for element in list(root):
        child = element.find("child")
        name = element.get("name") if child is None else child.get("link")
        if element.tag not in ("link", "joint") or name not in kept:
            root.remove(element)
            continue
        for part in ("visual", "collision", "safety_controller", "dynamics"):
            for found in element.findall(part):
                element.remove(found)
        if name == f"panda_link{LAST_LINK}" and element.tag == "link":
            element.remove(element.find("inertial"))  # type: ignore[arg-type]
    written = Robot.from_urdf_text(ET.tostring(root))
    sound = {
        k.name: inertia.nearest_consistent(k.written, SOUND)
        for k in written.bodies_links
        if k.body >= 0
    }
    return write_urdf(written.source, sound, {})


@lru_cache(maxsize=8)
def _model(urdf: bytes) -> pin.Model:
    return pin.buildModelFromXML(urdf.decode())


@lru_cache(maxsize=8)
def _bare(urdf: bytes) -> Robot:
    """Return the robot with rotor inertias and no friction."""
    plain = Robot.from_urdf_text(urdf)
    return Robot.from_urdf_text(
        urdf, Options(joint={j: JointOptions(friction="none") for j in plain.joints})
    )


def rigid_torque(urdf: bytes, q: Array, v: Array, a: Array) -> Array:
    """Return pinocchio's rnea of a model file, shape (N, joints) [N·m]."""
    model = _model(urdf)
    data = model.createData()
    return np.array([pin.rnea(model, data, *row) for row in zip(q, v, a, strict=True)])


def true_friction(kind: FrictionKind, scale: float | None = None) -> Friction:
    """Return the friction of the arm.

    Args:
        kind: `full`; `simple`, viscous, Coulomb and offset only; or `viscous`, without Coulomb.
        scale: Of the Coulomb sigmoid of all joints [rad/s], if not each its own.
    """
    rest = 1.0 if kind == "full" else 0.0
    # What presliding does not take of the Coulomb torque is the sigmoid's.
    coulomb = np.array(COULOMB) + (1.0 - rest) * np.array(PRESLIDING)
    coulomb = coulomb if kind != "viscous" else 0.0 * coulomb
    return Friction(
        np.array(VISCOUS),
        coulomb,
        np.array(SCALE) if scale is None else np.full(len(SCALE), float(scale)),
        np.array(OFFSET),
        rest * np.array(PRESLIDING),
        np.array(WIDTH),
        rest * np.array(LOAD),
    )


def mjcf(urdf: bytes, armature: Array) -> str:
    """Return the MuJoCo model of a chain of revolute joints."""
    model = _model(urdf)
    root = ET.Element("mujoco")
    ET.SubElement(root, "compiler", angle="radian", balanceinertia="false")
    option = ET.SubElement(root, "option", gravity=_text(model.gravity.linear))
    ET.SubElement(option, "flag", contact="disable", constraint="disable")
    here = {0: ET.SubElement(root, "worldbody")}
    axes = {"JointModelRX": "1 0 0", "JointModelRY": "0 1 0", "JointModelRZ": "0 0 1"}
    for k in range(1, model.njoints):
        place, body = model.jointPlacements[k], model.inertias[k]
        x, y, z, w = pin.Quaternion(place.rotation).coeffs()
        element = ET.SubElement(
            here[model.parents[k]],
            "body",
            name=f"body{k}",
            pos=_text(place.translation),
            quat=_text((w, x, y, z)),
        )
        ET.SubElement(
            element,
            "inertial",
            mass=repr(float(body.mass)),
            pos=_text(body.lever),
            fullinertia=_text(body.inertia[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]),
        )
        axis = axes[model.joints[k].shortname()]
        ET.SubElement(
            element,
            "joint",
            name=model.names[k],
            axis=axis,
            armature=repr(float(armature[k - 1])),
        )
        here[k] = element
    return ET.tostring(root, encoding="unicode")


def _text(values: Any) -> str:
    return " ".join(repr(float(x)) for x in values)


# --- the motion


@dataclass(frozen=True, eq=False)
class Motion:
    """A sum of sines for each joint, about a middle.

    Attributes:
        middle: Shape (joints,) [rad].
        frequency: Shape (sines, joints) [Hz].
        sine: Amplitudes, shape (sines, joints) [rad].
        cosine: Amplitudes, shape (sines, joints) [rad].
    """

    middle: Array
    frequency: Array
    sine: Array
    cosine: Array

    def __call__(self, t: Array) -> tuple[Array, Array, Array]:
        """Return positions, velocities and accelerations, each shape (N, joints)."""
        omega = 2.0 * np.pi * self.frequency
        q, v, a = np.zeros((3, len(t), len(self.middle)))
        q += self.middle
        for w, s, c in zip(omega, self.sine, self.cosine, strict=True):
            sin, cos = np.sin(t[:, None] * w), np.cos(t[:, None] * w)
            q += s * sin + c * cos
            v += w * (s * cos - c * sin)
            a -= w * w * (s * sin + c * cos)
        return q, v, a

    def started(self, t: Array) -> tuple[Array, Array, Array]:
        """Return the same, grown from rest in the middle within the run-in before zero."""
        q, v, a = self(t)
        q -= self.middle
        x = np.clip((t + RUN_IN) / FADE, 0.0, 1.0)[:, None]
        w = x**3 * (10 - 15 * x + 6 * x**2)
        dw = 30 * x**2 * (1 - x) ** 2 / FADE
        ddw = 60 * x * (1 - x) * (1 - 2 * x) / FADE**2
        return self.middle + w * q, w * v + dw * q, w * a + 2 * dw * v + ddw * q


@lru_cache(maxsize=16)
def choose_motion(kind: MotionKind, duration: float, seed: int) -> Motion:
    """Return the best of some random motions within the limits of the model file.

    The best has the largest determinant of the information about the base parameters. Nothing
    is done about the floor or the arm itself: a simulation cannot collide.

    Args:
        kind: `periodic`, harmonics of 0.1 Hz; `free`, for each joint frequencies of its own.
        duration: For which it must stay within the limits [s].
        seed: Of its random numbers.
    """
    rng = np.random.default_rng([SETS, 1, seed])
    model, robot = _model(arm()), _bare(arm())
    kept = list(structural_base(RobotPlant(robot)).kept)
    lower, upper = model.lowerPositionLimit, model.upperPositionLimit
    joints = model.nv
    period = 1.0 / FUNDAMENTAL if kind == "periodic" else duration
    fine, coarse = np.arange(0.0, period, 0.01), np.arange(0.0, period, period / 120)
    best, best_score = None, -np.inf
    while best is None:
        for _ in range(DRAWS):
            order = np.arange(1, HARMONICS + 1)
            if kind == "periodic":
                frequency = np.outer(FUNDAMENTAL * order, np.ones(joints))
            else:
                frequency = FUNDAMENTAL * (order[:, None] + rng.uniform(-0.5, 0.5, (6, joints)))
            sine, cosine = rng.normal(size=(2, HARMONICS, joints)) / np.sqrt(order)[:, None]
            motion = Motion(np.zeros(joints), frequency, sine, cosine)
            q, v, _ = motion(fine)
            span = (q.max(axis=0) - q.min(axis=0)) / 2.0
            scale = np.minimum(
                REACH * (upper - lower) / 2.0 / span,
                SPEED * model.velocityLimit / np.abs(v).max(axis=0),
            )
            middle = (upper + lower) / 2.0 - scale * (q.max(axis=0) + q.min(axis=0)) / 2.0
            motion = Motion(middle, frequency, scale * sine, scale * cosine)
            q, v, a = motion(coarse)
            tau = rigid_torque(arm(), q, v, a) + a * np.array(ARMATURE)
            if (np.abs(tau) > EFFORT * model.effortLimit).any():
                continue
            rows = standard_rows(robot, q, v, a)[:, :, kept] / model.effortLimit[:, None]
            score = np.linalg.slogdet(rows.reshape(-1, len(kept)).T @ rows.reshape(-1, len(kept)))
            if score[1] > best_score:
                best, best_score = motion, float(score[1])
    return best


# --- the simulation


@numba.njit(cache=True)
def _slips(q, width):  # type: ignore[no-untyped-def]
    out = np.zeros_like(q)
    for k in range(1, q.shape[0]):
        for j in range(q.shape[1]):
            moved = out[k - 1, j] + (q[k, j] - q[k - 1, j]) / width[j]
            out[k, j] = min(max(moved, -1.0), 1.0)
    return out


@numba.njit(cache=True)
def _advance(k, h, mass, bias, now, speed, state, drive, gains, wanted, ahead, noise, log):  # type: ignore[no-untyped-def]
    """One step: controller, friction, accelerations, leapfrog.

    mass and bias are MuJoCo's at `now` (q) and `speed` (v), which are moved on. state has the
    rows: velocity half a step ago, slip, position error, filtered velocity error. log has, for
    all steps, q, v, a, tau, rigid, friction, slip, reading.
    """
    n = now.shape[0]
    quantum, keep = gains[2, 0], gains[3, 0]
    armature, viscous, coulomb, scale, offset, presliding, width, load = drive
    tau, still, factor = np.empty(n), np.empty(n), np.empty(n)
    for j in range(n):
        reading = now[j] + noise[j]
        if quantum > 0.0:
            reading = quantum * np.round(reading / quantum)
        late = wanted[j] - reading
        if k == 0:
            state[2, j] = late
        state[3, j] += keep * ((late - state[2, j]) / h - state[3, j])
        state[2, j] = late
        tau[j] = ahead[j] + gains[0, j] * late + gains[1, j] * state[3, j]
        if k > 0:
            moved = state[1, j] + (now[j] - log[0, k - 1, j]) / width[j]
            state[1, j] = min(max(moved, -1.0), 1.0)
        still[j] = (
            viscous[j] * speed[j]
            + coulomb[j] * np.tanh(speed[j] / scale[j])
            + offset[j]
            + presliding[j] * state[1, j]
        )
        factor[j] = load[j] * np.tanh(speed[j] / 0.02)
    # Friction that grows with the rigid torque needs the acceleration it changes; contracts
    # by the load's share each time.
    rigid = tau - still if k == 0 else log[4, k - 1].copy()
    acceleration = np.empty(n)
    for _ in range(12):
        acceleration = np.linalg.solve(mass, tau - still - factor * np.abs(rigid) - bias)
        found = tau - still - factor * np.abs(rigid) - armature * acceleration
        change = np.abs(found - rigid).max()
        rigid = found
        if change < 1e-12:
            break
    for j in range(n):
        log[0, k, j] = now[j]
        log[1, k, j] = speed[j]
        log[2, k, j] = acceleration[j]
        log[3, k, j] = tau[j]
        log[4, k, j] = rigid[j]
        log[5, k, j] = still[j] + factor[j] * abs(rigid[j])
        log[6, k, j] = state[1, j]
        log[7, k, j] = wanted[j] - state[2, j]
        state[0, j] += h * acceleration[j]
        now[j] += h * state[0, j]
        speed[j] = state[0, j] + 0.5 * h * acceleration[j]


def simulate(
    motion: Motion,
    prior: bytes,
    truth_urdf: bytes,
    friction: Friction,
    armature: Array,
    duration: float,
    step: float,
    quantum: float,
    noise: Array | None,
) -> tuple[Exact, Array]:
    """Return what happens from the run-in to the end, and the encoders' readings, at every step.

    Feed-forward of the wrong model along the wanted motion, rotor inertia and viscous friction
    known to 20 %, plus proportional-derivative control on the encoders.

    Args:
        motion: The one wanted.
        prior: What the controller believes.
        truth_urdf: What is simulated.
        friction: In the joints.
        armature: Rotor inertia [kg·m²].
        duration: After the run-in [s].
        step: Of integration, control and encoders [s].
        quantum: Of the encoders [rad]; 0 for none.
        noise: Of the encoders, shape (steps, joints) [rad], or None.

    Raises:
        ValueError: If the step is too long for the friction's slope.
    """
    steps = round((RUN_IN + duration) / step) + 1
    t = step * (np.arange(steps) - round(RUN_IN / step))
    wanted = motion.started(t)
    ahead = _inverse_dynamics(prior, *wanted)
    ahead += 0.8 * (armature * wanted[2] + friction.viscous * wanted[1])

    slope = friction.viscous + friction.coulomb / friction.scale
    slope = slope + friction.load * np.abs(ahead).max(axis=0) / LOAD_SCALE
    if (worst := float((slope * step / armature).max())) > 0.8:
        raise ValueError(f"the friction is too steep for this step: {worst:.2g} of 0.8")

    model = mujoco.MjModel.from_xml_string(mjcf(truth_urdf, armature))
    data = mujoco.MjData(model)
    n = model.nv
    stiffness = BANDWIDTH**2 * np.array(INERTIA)
    damping = 2.0 * BANDWIDTH * np.array(INERTIA)
    keep = 1.0 - np.exp(-2.0 * np.pi * VELOCITY_CORNER * step)
    gains = np.array([stiffness, damping, np.full(n, quantum), np.full(n, keep)])
    drive = np.array(
        [armature, *(getattr(friction, name) for name in Friction.__dataclass_fields__)]
    )
    readings = np.zeros((steps, n)) if noise is None else noise
    log = np.zeros((8, steps, n))
    state, dense, bias = np.zeros((4, n)), np.zeros((n, n)), np.zeros(n)
    q, v = data.qpos, data.qvel  # views: moved on in `_advance`
    q[:], v[:] = wanted[0][0], 0.0
    for k in range(steps):
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_makeM(model, data)
        mujoco.mj_fullM(model, data, dense)
        mujoco.mj_comVel(model, data)
        mujoco.mj_rne(model, data, 0, bias)
        _advance(
            k,
            step,
            dense,
            bias,
            q,
            v,
            state,
            drive,
            gains,
            wanted[0][k],
            ahead[k],
            readings[k],
            log,
        )
    if not np.isfinite(log).all():
        raise ValueError("the simulation does not stay finite")
    return Exact(t, *log[:7]), log[7]


def _inverse_dynamics(urdf: bytes, q: Array, v: Array, a: Array) -> Array:
    robot = _bare(urdf)
    motion = kernels.motion_of(robot.tree, robot.gravity, q, v, a)
    own = 10 * len(robot.tree.names)
    return np.ascontiguousarray(
        kernels.inverse_dynamics(robot.tree, motion, robot.nominal()[:own]).T
    )


@lru_cache(maxsize=4)
def _undisturbed(
    motion: MotionKind,
    motion_seed: int,
    duration: float,
    step: float,
    truth_urdf: bytes,
    friction: FrictionKind,
    scale: float | None,
) -> Exact:
    """Return a run without encoder noise, its controller's wrong model the motion's own."""
    belief = wrong_prior(
        Robot.from_urdf_text(truth_urdf), np.random.default_rng([SETS, 2, motion_seed]), PRIOR_ERROR
    )
    return simulate(
        choose_motion(motion, duration, motion_seed),
        belief,
        truth_urdf,
        true_friction(friction, scale),
        np.array(ARMATURE),
        duration,
        step,
        0.0,
        None,
    )[0]


@lru_cache(maxsize=4)
def validation(
    motion: MotionKind,
    motion_seed: int,
    duration: float,
    rate: float,
    truth_urdf: bytes,
    friction: FrictionKind,
    scale: float | None,
) -> Exact:
    """Return another motion with its true torque, both analytic; the slip from its start."""
    chosen = choose_motion(motion, duration, 10_000 + motion_seed)
    every = max(1, round(1000.0 / rate))
    t = np.arange(round(duration * rate) * every) / (rate * every)
    q, v, a = chosen(t)
    rubs = true_friction(friction, scale)
    rows = slice(None, None, every)
    slip = rubs.slip(q)[rows]
    t, q, v, a = t[rows], q[rows], v[rows], a[rows]
    rigid = rigid_torque(truth_urdf, q, v, a)
    lost = rubs.torque(v, slip, rigid)
    return Exact(t, q, v, a, rigid + np.array(ARMATURE) * a + lost, rigid, lost, slip)


def experiment(
    seed: int,
    motion: MotionKind = "periodic",
    noise: Literal["white", "ar1"] = "white",
    rho: float = 0.9,
    duration: float = 30.0,
    rate: float = 1000.0,
    friction: FrictionKind = "full",
    delay: float = 0.002,
    *,
    truth: Literal["fixed", "drawn"] = "fixed",
    motion_seed: int | None = 0,
    torque_noise: float = 0.01,
    encoder_bits: int = 20,
    encoder_noise: float = 2e-6,
    jitter: float = 0.0,
    gain_error: float = 0.0,
    scale: float | None = None,
    step: float = 0.001,
    reuse: bool = False,
) -> Experiment:
    """Return a simulated experiment, the same for the same arguments.

    Args:
        seed: Of the noise, of the wrong model, and of what else is drawn.
        motion: `periodic`, whole periods of 10 s if the duration is; or `free`.
        noise: Of the torque sensors: `white`, or `ar1` from row to row of the log.
        rho: Of `ar1`.
        duration: Of the log [s].
        rate: Of the log [Hz]; a whole number of steps a row.
        friction: `full`, `simple` or `viscous`; see `true_friction`.
        delay: Of the logged torque [s]; a whole number of steps.
        truth: `fixed`, the same arm for all seeds; or `drawn`, from the seed.
        motion_seed: Of the motion; None takes the seed.
        torque_noise: Of the sensors, as a share of the joint's rms torque.
        encoder_bits: Of a turn, for quantisation; 0 for none.
        encoder_noise: Before quantisation, rms [rad].
        jitter: Of the log's time stamps, rms [s].
        gain_error: Of the logged torque, rms over joints.
        scale: Of the Coulomb sigmoid [rad/s], if not each joint its own.
        step: Of integration, control and encoders [s].
        reuse: Whether to take one undisturbed run for all seeds of a motion, and add to it only
            what the sensors do. The run costs nothing then, but it is not what a loop does:
            encoder noise shakes no motor, so q, v, a and τ are the same for all seeds, the
            torque holds no ripple and no correlation with the encoders' noise; and the
            controller's wrong model is the motion's, not the `urdf_prior` of the seed. That
            takes away a bias of closed loops where encoders are noisy; at 19 bits and more the
            ripple is below the torque sensors' noise (`python -m benchmarks.simulated` says by
            how much).

    Raises:
        ValueError: If rate or delay is no whole number of steps.
    """
    every, late = round(1.0 / (rate * step)), round(delay / step)
    if abs(every * rate * step - 1.0) > 1e-9 or every < 1:
        raise ValueError(f"a row every {1.0 / rate} s is no whole number of steps of {step} s")
    if abs(late * step - delay) > 1e-9 or not 0 <= late < round(RUN_IN / step):
        raise ValueError(f"a delay of {delay} s is no whole number of steps of {step} s")
    place = seed if motion_seed is None else motion_seed
    of_truth, of_prior, of_encoders, of_torque, of_clock, of_gain = (
        np.random.default_rng(k) for k in np.random.SeedSequence([SETS, 0, seed]).spawn(6)
    )
    true = arm()
    if truth == "drawn":
        true = wrong_prior(Robot.from_urdf_text(true), of_truth, PRIOR_ERROR)
    robot = Robot.from_urdf_text(true)
    prior = wrong_prior(robot, of_prior, PRIOR_ERROR)
    rubs, armature, n = true_friction(friction, scale), np.array(ARMATURE), len(robot.joints)
    quantum = 2.0 * np.pi / 2**encoder_bits if encoder_bits else 0.0

    steps = round((RUN_IN + duration) / step) + 1
    first = round(RUN_IN / step)
    rows = first + every * np.arange(round(duration * rate))
    shaken = encoder_noise * of_encoders.normal(size=(steps, n))
    if reuse:
        whole = _undisturbed(motion, place, duration, step, true, friction, scale)
        readings = whole.q + shaken
        readings = quantum * np.round(readings / quantum) if quantum else readings
    else:
        chosen = choose_motion(motion, duration, place)
        whole, readings = simulate(
            chosen, prior, true, rubs, armature, duration, step, quantum, shaken
        )
    exact = whole.part(rows)

    tau = whole.tau[rows - late]
    # Of the noise-free torque, and no seed's: of the motion alone.
    std = torque_noise * np.sqrt(np.mean(exact.tau**2, axis=0))
    rho = rho if noise == "ar1" else 0.0
    innovations = np.sqrt(1.0 - rho**2) * of_torque.normal(size=tau.shape)
    innovations[0] /= np.sqrt(1.0 - rho**2)
    coloured = scipy.signal.lfilter([1.0], [1.0, -rho], innovations, axis=0)
    gain = 1.0 + gain_error * of_gain.normal(size=n)
    logged = gain * tau + std * coloured
    stamps = exact.t + jitter * of_clock.normal(size=len(rows))
    recording = Recording.from_arrays(
        stamps,
        f"simulated {seed}",
        q={j: readings[rows, k] for k, j in enumerate(robot.joints)},
        tau={j: logged[:, k] for k, j in enumerate(robot.joints)},
    )
    links = {k.name: k.nominal for k in robot.bodies_links}
    other = validation(motion, place, 10.0, min(rate, 250.0), true, friction, scale)
    return Experiment(
        seed,
        true,
        prior,
        recording,
        Truth(links, rubs, armature, gain),
        std,
        rho,
        late * step,
        exact,
        other,
    )


# --- the checks


def identity(found: Experiment) -> dict[str, float]:
    """Return how well the equation of motion holds, for a log at full rate.

    Returns:
        `dynamics`: largest |τ − pinocchio's rnea − armature·a − friction| at the simulated q, v
        and a, friction from its formula [N·m]. `slip`: largest difference of the stop operator
        from that along the positions. `kinematics`: rms of the same as `dynamics`, but with v and
        a from eighth-order differences of the exact positions, as a share of the torque sensors'
        noise, of the joint where it is largest. `ripple`: what is fast in the torque itself, by
        its second difference, likewise.
    """
    e, truth = found.exact, found.truth
    rubs = truth.friction
    rigid = rigid_torque(found.urdf_true, e.q, e.v, e.a)
    slip = rubs.slip(e.q)
    # Where it begins is not known from the log: only from the first full slip on.
    settled = np.abs(slip - e.slip)[len(slip) // 10 :]
    left = e.tau - rigid - truth.armature * e.a - rubs.torque(e.v, e.slip, rigid)

    step = float(e.t[1] - e.t[0])
    one, two = (4 / 5, -1 / 5, 4 / 105, -1 / 280), (8 / 5, -1 / 5, 8 / 315, -1 / 560)
    at = slice(4, len(e.t) - 4)
    q = [e.q[4 + k : len(e.q) - 4 + k] for k in range(-4, 5)]
    v = sum(c * (q[4 + k] - q[4 - k]) for k, c in enumerate(one, 1)) / step
    a = sum(c * (q[4 + k] + q[4 - k]) for k, c in enumerate(two, 1)) - 205 / 72 * q[4]
    a = a / step**2
    again = rigid_torque(found.urdf_true, e.q[at], v, a)
    apart = e.tau[at] - again - truth.armature * a - rubs.torque(v, e.slip[at], again)
    share = np.sqrt(np.mean(apart**2, axis=0)) / found.torque_noise_std
    jerk = np.diff(e.tau, 2, axis=0) / np.sqrt(6.0)
    return {
        "dynamics": float(np.abs(left).max()),
        "slip": float(settled.max(initial=0.0)),
        "kinematics": float(share.max()),
        "ripple": float((np.sqrt(np.mean(jerk**2, axis=0)) / found.torque_noise_std).max()),
    }


@benchmark({"seeds": 1, "SECONDS": 2.0, "KINDS": ("periodic",), "FRICTIONS": ("simple",)})
def main(*, seeds: int = 2) -> Iterator[Row]:
    """Check the simulation and time it.

    Args:
        seeds: How many of each kind.
    """
    identity(experiment(0, duration=1.0))  # compiles
    for kind, friction in itertools.product(KINDS, FRICTIONS):
        choose_motion(kind, SECONDS, 0)
        for seed in range(seeds + 1):
            undisturbed = seed == seeds
            begin = time.process_time()
            found = experiment(seed, kind, duration=SECONDS, friction=friction, reuse=undisturbed)
            spent = time.process_time() - begin
            name = f"{kind} {friction}, {'undisturbed' if undisturbed else f'seed {seed}'}"
            yield Row(f"{name}: processor time", spent, "s")
            for figure, value in identity(found).items():
                yield Row(f"{name}: {figure}", value, "")
        e = found.exact
        error = np.abs(e.q - choose_motion(kind, SECONDS, 0)(e.t)[0]).max()
        yield Row(f"{kind} {friction}: followed within", float(error), "rad")


if __name__ == "__main__":
    main()
