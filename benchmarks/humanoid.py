"""A humanoid of 30 joints in MuJoCo, with feet on the ground or hung by its trunk.

Independent of heft's dynamics: motion, torques, contact wrenches and which feet touch the ground
are MuJoCo's. heft sees what sensors would: joint positions, the base's pose, joint torques.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from heft.information import skew
from heft.models import ContactOptions, JointOptions, Options, Robot
from heft.recordings import Recording

Array = np.ndarray[Any, np.dtype[np.float64]]

STEP = 5e-4  # of the simulation [s]
EVERY = 4  # steps between samples of the log: 500 Hz
DAMPING, ARMATURE = 0.8, 0.03
SOLE = (0.02, 0.0, -0.08)  # of a foot, the contact's point in its frame [m]
SOLE_SIZE = (0.14, 0.07, 0.01)
PELVIS = 0.83  # height of the pelvis where all joints are straight [m]
LEAN = 3.0  # of the ankles, for each metre that the centre of mass is off [rad/m]
HOOK = (0.0, 0.0, 0.35)  # of the trunk, where it hangs [m]

# Joint, parent, child, origin in the parent, axis. Mass and half lengths of the child's box.
LEG = (
    ("hip_yaw", "pelvis", "hip_1", (0.0, 0.1, -0.05), "z", 1.2, (0.05, 0.05, 0.04), 0.0),
    ("hip_roll", "hip_1", "hip_2", (0.0, 0.0, -0.05), "x", 1.5, (0.05, 0.05, 0.05), 0.0),
    ("hip_pitch", "hip_2", "thigh", (0.0, 0.02, 0.0), "y", 6.0, (0.06, 0.06, 0.17), -0.16),
    ("knee", "thigh", "shank", (0.0, 0.0, -0.32), "y", 3.5, (0.05, 0.05, 0.16), -0.15),
    ("ankle_pitch", "shank", "ankle", (0.0, 0.0, -0.32), "y", 0.6, (0.03, 0.03, 0.03), 0.0),
    ("ankle_roll", "ankle", "foot", (0.0, 0.0, -0.01), "x", 1.3, (0.1, 0.05, 0.02), -0.05),
)
ARM = (
    ("shoulder_pitch", "trunk", "shoulder_1", (0.0, 0.18, 0.3), "y", 1.0, (0.05, 0.05, 0.05), 0.0),
    ("shoulder_roll", "shoulder_1", "shoulder_2", (0.0, 0.05, 0.0), "x", 1.0, (0.05,) * 3, 0.0),
    ("shoulder_yaw", "shoulder_2", "upper", (0.0, 0.0, -0.05), "z", 1.8, (0.04, 0.04, 0.11), -0.1),
    ("elbow", "upper", "lower", (0.0, 0.0, -0.22), "y", 1.2, (0.04, 0.04, 0.09), -0.08),
    ("wrist_yaw", "lower", "wrist_1", (0.0, 0.0, -0.18), "z", 0.5, (0.03, 0.03, 0.03), -0.02),
    ("wrist_roll", "wrist_1", "wrist_2", (0.0, 0.0, -0.04), "x", 0.4, (0.03, 0.03, 0.03), 0.0),
    ("wrist_pitch", "wrist_2", "hand", (0.0, 0.0, -0.02), "y", 0.6, (0.03, 0.05, 0.08), -0.07),
)
TORSO = (
    ("waist_yaw", "pelvis", "waist_1", (0.0, 0.0, 0.08), "z", 2.0, (0.08, 0.1, 0.04), 0.03),
    ("waist_roll", "waist_1", "waist_2", (0.0, 0.0, 0.06), "x", 1.5, (0.06, 0.08, 0.04), 0.0),
    ("waist_pitch", "waist_2", "trunk", (0.0, 0.0, 0.03), "y", 14.0, (0.1, 0.15, 0.2), 0.18),
    ("neck", "trunk", "head", (0.0, 0.0, 0.42), "z", 3.0, (0.09, 0.08, 0.11), 0.1),
)
SUNK = 0.012  # how much lower than straight legs it hangs [m]
FEET = ("left_foot", "right_foot")


@dataclass(frozen=True)
class Body:
    """A link's inertia: mass, centre of mass and half lengths of a box, turned."""

    mass: float
    com: Array
    half: Array
    turn: Array

    @staticmethod
    def drawn(mass: float, half: tuple[float, ...], drop: float, rng: np.random.Generator) -> Body:
        """Return a body whose centre of mass and axes are nobody's guess."""
        off = rng.uniform(-0.15, 0.15, 3) * np.array(half)
        scale = rng.uniform(0.7, 1.1, 3) * np.array(half)
        turn = Rotation.from_rotvec(rng.uniform(-0.3, 0.3, 3)).as_matrix()
        return Body(mass * rng.uniform(0.8, 1.2), off + np.array([0.0, 0.0, drop]), scale, turn)

    def wrong(self, rng: np.random.Generator) -> Body:
        """Return what a file says of it: mass and lengths off by some 15 %, its axes straight."""
        shift = 0.15 * self.half * rng.normal(size=3)
        scale = np.exp(0.1 * rng.normal(size=3))
        return Body(
            self.mass * np.exp(0.15 * rng.normal()), self.com + shift, scale * self.half, np.eye(3)
        )

    def xml(self) -> str:
        """Return the element of a URDF."""
        x, y, z = self.half**2 * self.mass / 3.0
        tensor = self.turn @ np.diag([y + z, x + z, x + y]) @ self.turn.T
        names = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
        places = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
        moments = " ".join(
            f'{n}="{float(tensor[p])!r}"' for n, p in zip(names, places, strict=True)
        )
        com = " ".join(repr(float(c)) for c in self.com)
        return (
            f'<inertial><origin xyz="{com}"/><mass value="{float(self.mass)!r}"/>'
            f"<inertia {moments}/></inertial>"
        )


@dataclass(frozen=True)
class Humanoid:
    """A humanoid drawn by a seed: what it is, and what its model file says.

    Attributes:
        urdf: Its model file as it should be.
        guess: The same, wrong.
    """

    urdf: str
    guess: str

    @staticmethod
    def drawn(seed: int, arms: bool = True) -> Humanoid:
        """Return the humanoid of a seed, with arms or without."""
        rng = np.random.default_rng([seed, 1])
        links = {"pelvis": Body.drawn(8.0, (0.08, 0.12, 0.08), 0.0, rng)}
        joints = []
        for side, mirror in (("left_", 1.0), ("right_", -1.0)):
            for name, parent, child, place, axis, mass, half, drop in (
                *LEG,
                *(ARM if arms else ()),
            ):
                above = parent if parent in ("pelvis", "trunk") else side + parent
                at = (place[0], mirror * place[1], place[2])
                links[side + child] = Body.drawn(mass, half, drop, rng)
                joints.append((side + name, above, side + child, at, axis))
        for name, parent, child, place, axis, mass, half, drop in TORSO:
            links[child] = Body.drawn(mass, half, drop, rng)
            joints.append((name, parent, child, place, axis))
        said = {name: body.wrong(rng) for name, body in links.items()}
        return Humanoid(urdf(links, joints), urdf(said, joints))


def urdf(links: dict[str, Body], joints: list[tuple[Any, ...]]) -> str:
    """Return the text of a model file of links and joints."""
    axes = {"x": "1 0 0", "y": "0 1 0", "z": "0 0 1"}
    parts = [f'<link name="{n}">{b.xml()}</link>' for n, b in links.items()]
    parts += [
        f'<joint name="{name}" type="revolute"><parent link="{above}"/><child link="{child}"/>'
        f'<origin xyz="{" ".join(map(str, place))}"/><axis xyz="{axes[axis]}"/>'
        '<limit lower="-3" upper="3" effort="500" velocity="20"/></joint>'
        for name, above, child, place, axis in joints
    ]
    return '<robot name="humanoid">' + "\n".join(parts) + "</robot>"


@dataclass(frozen=True)
class Run:
    """What happened, by MuJoCo, at N samples.

    Attributes:
        time: Shape (N,) [s].
        joints: Names of the joints.
        q, v, a: Of base and joints: place, quaternion wxyz and joint angles, shape (N, 7 + n);
            their rates, the base's linear ones in the world and angular ones in its own axes.
        tau: Of the joints, shape (N, n) [N·m].
        wrenches: Of feet and hook: force and moment on the link, about the contact's point, in the
            link's axes, shape (N, 6) each.
        touching: Which feet touch the ground, and whether it hangs, shape (N,) each.
    """

    time: Array
    joints: tuple[str, ...]
    q: Array
    v: Array
    a: Array
    tau: Array
    wrenches: dict[str, Array]
    touching: dict[str, Array]


@dataclass(frozen=True)
class Motion:
    """Squats and arm swings with both feet planted; or the trunk hung, with one foot lifted.

    Attributes:
        hung: Whether the trunk hangs.
        lifted: A foot that is lifted, then.
        duration: [s].
        swing: Size of what arms, head and waist do [rad].
        squat: Depth of squats, as an angle of the hips [rad].
    """

    hung: bool = False
    lifted: str = ""
    duration: float = 20.0
    swing: float = 0.4
    squat: float = 0.35

    def target(self, joints: tuple[str, ...], time: Array, rng: np.random.Generator) -> Array:
        """Return what joints are told, shape (N, joints) [rad]."""
        rise = np.clip(time / 2.0, 0.0, 1.0)
        rise = rise**2 * (3.0 - 2.0 * rise)
        rates, phases = (
            rng.uniform(0.15, 0.5, (len(joints), 3)),
            rng.uniform(0, 6.3, (len(joints), 3)),
        )
        waves = np.sin(2 * np.pi * rates * time[:, None, None] + phases).sum(axis=2) / 1.7
        depth = self.squat * (0.6 + 0.4 * np.sin(2 * np.pi * 0.3 * time + phases[0, 0]))
        sway = 0.03 * waves[:, 1]
        out = np.zeros((len(time), len(joints)))
        for k, name in enumerate(joints):
            leg = any(f"_{j[0]}" in name for j in LEG)
            if not leg:
                size = 0.3 * self.swing if name.startswith("waist") else self.swing
                out[:, k] = size * waves[:, k]
                if "elbow" in name:
                    out[:, k] -= 0.8
                if "shoulder_roll" in name:
                    out[:, k] = 0.3 * out[:, k] + (0.3 if name.startswith("left") else -0.3)
                continue
            share = {"hip_pitch": -1.0, "knee": 2.0, "ankle_pitch": -1.0}
            kind = name.partition("_")[2]
            out[:, k] = depth * share.get(kind, 0.0)
            if kind in ("hip_roll", "ankle_roll"):
                out[:, k] = sway if kind == "hip_roll" else -sway
            if self.lifted and name.startswith(self.lifted.partition("_")[0]):
                bias = {"hip_pitch": -1.0, "knee": 1.6}.get(kind, 0.0)
                out[:, k] = 0.6 * self.swing * waves[:, k] + bias
        return out * rise[:, None]


def simulated(robot: Humanoid, motion: Motion, seed: int) -> Run:
    """Return what MuJoCo makes of a motion."""
    model = _model(robot, motion)
    data = mujoco.MjData(model)
    joints = tuple(
        mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_JOINT, k) for k in range(1, model.njnt)
    )
    count = int(motion.duration / STEP)
    time = STEP * np.arange(count)
    target = motion.target(joints, time, np.random.default_rng([seed, 2]))
    rate = np.gradient(target, STEP, axis=0)
    stiff = np.array([_stiffness(n) for n in joints])
    pitch, roll = (
        [k for k, n in enumerate(joints) if f"ankle_{x}" in n] for x in ("pitch", "roll")
    )
    data.qpos[2] = PELVIS + 0.001
    if motion.hung:
        data.qpos[2] = PELVIS - SUNK
    rows = []
    for k in range(count):
        error = target[k] - data.qpos[7:]
        if not motion.hung and k:
            # Ankles lean the body back over the middle of its feet.
            middle = 0.5 * (data.body(FEET[0]).xpos + data.body(FEET[1]).xpos) + SOLE
            off = data.subtree_com[0] - middle
            error[pitch] += LEAN * off[0]
            error[roll] -= LEAN * off[1]
        data.qfrc_applied[6:] = stiff * error + 0.06 * stiff * (rate[k] - data.qvel[6:])
        mujoco.mj_forward(model, data)
        if k % EVERY == 0:
            rows.append(_sample(model, data, motion))
        mujoco.mj_Euler(model, data)
    q, v, a, tau, wrenches, touching = (np.array(x) for x in zip(*rows, strict=True))
    names = (*FEET, "hook")
    return Run(
        time[::EVERY],
        joints,
        q,
        v,
        a,
        tau,
        {n: wrenches[:, k] for k, n in enumerate(names)},
        {n: touching[:, k] for k, n in enumerate(names)},
    )


def _stiffness(joint: str) -> float:
    """Return the stiffness of a joint's controller [N·m/rad]."""
    if "ankle" in joint:
        return 900.0
    return 700.0 if any(f"_{j[0]}" in joint for j in LEG) or "waist" in joint else 80.0


def _model(robot: Humanoid, motion: Motion) -> Any:
    """Return the compiled model, on a plane, its trunk hung if asked for."""
    text = robot.urdf.replace(
        '<robot name="humanoid">',
        '<robot name="humanoid"><mujoco><compiler fusestatic="false" balanceinertia="false" '
        'discardvisual="false"/></mujoco>',
    )
    spec = mujoco.MjSpec.from_string(text)
    spec.option.timestep = STEP
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_EULER
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_EULERDAMP
    root = spec.body("pelvis")
    root.add_freejoint(name="floating")
    for joint in spec.joints:
        if joint.type == mujoco.mjtJoint.mjJNT_HINGE:
            joint.damping = [DAMPING, 0.0, 0.0]
            joint.armature, joint.limited = ARMATURE, 0
    spec.worldbody.add_geom(
        name="ground", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[5, 5, 0.1], friction=[1.5, 0.1, 0.01]
    )
    for foot in FEET:
        place = np.array(SOLE) + np.array([0.0, 0.0, SOLE_SIZE[2]])
        spec.body(foot).add_geom(
            name=foot,
            type=mujoco.mjtGeom.mjGEOM_BOX,
            size=SOLE_SIZE,
            pos=place,
            friction=[1.5, 0.1, 0.01],
            mass=0.0,
        )
    if motion.hung:
        spec.body("trunk").add_site(name="hook", pos=HOOK)
        above = np.array([0.0, 0.0, PELVIS - SUNK + 0.17]) + HOOK
        spec.worldbody.add_site(name="frame", pos=above)
        spec.add_equality(
            name="hang",
            type=mujoco.mjtEq.mjEQ_CONNECT,
            objtype=mujoco.mjtObj.mjOBJ_SITE,
            name1="hook",
            name2="frame",
        )
    return spec.compile()


def _sample(model: Any, data: Any, motion: Motion) -> tuple[Any, ...]:
    """Return motion, torques, wrenches and flags of a state."""
    own = {f: np.zeros(6) for f in FEET}
    touching = dict.fromkeys(FEET, False)
    force = np.zeros(6)
    for k in range(data.ncon):
        contact = data.contact[k]
        names = [model.geom(g).name for g in contact.geom]
        foot = next(n for n in names if n in FEET)
        mujoco.mj_contactForce(model, data, k, force)
        sign = (
            1.0 if names[1] == foot else -1.0
        )  # the frame's axis points from the first to the second
        axes = contact.frame.reshape(3, 3)
        push, turn = sign * axes.T @ force[:3], sign * axes.T @ force[3:]
        body = model.body(foot).id
        R, place = data.xmat[body].reshape(3, 3), data.xpos[body]
        arm = contact.pos - place - R @ np.array(SOLE)
        own[foot] += np.concatenate([R.T @ push, R.T @ (turn + skew(arm) @ push)])
        touching[foot] |= bool(force[0] > 0.0)
    hook = np.zeros(6)
    if motion.hung:
        rows = np.flatnonzero(data.efc_type[: data.nefc] == mujoco.mjtConstraint.mjCNSTR_EQUALITY)
        R = data.xmat[model.body("trunk").id].reshape(3, 3)
        hook[:3] = R.T @ data.efc_force[rows]
    q, v, a = data.qpos.copy(), data.qvel.copy(), data.qacc.copy()
    tau = data.qfrc_applied[6:].copy()
    return q, v, a, tau, [*own.values(), hook], [*(touching[f] for f in FEET), motion.hung]


@dataclass(frozen=True)
class SensorNoise:
    """Standard deviations of sensors' white noise.

    Attributes:
        joint: Of encoders [rad].
        place: Of the base's position [m].
        attitude: Of its attitude [rad].
        torque: Of joint torques [N·m].
        force, moment: Of wrench sensors [N, N·m].
    """

    joint: float = 1e-5
    place: float = 2e-5
    attitude: float = 2e-5
    torque: float = 0.5
    force: float = 2.0
    moment: float = 0.1


def recording(
    run: Run,
    noise: SensorNoise,
    seed: int,
    name: str = "run",
    gains: Mapping[str, float] | None = None,
) -> Recording:
    """Return what is logged of a run: positions, the base's pose, torques, wrenches and flags.

    Args:
        run: What happened.
        noise: Of the sensors.
        seed: Of the noise.
        name: Of the log.
        gains: Of drives whose current is logged in place of their torque, by joint [N·m/A].
    """
    rng = np.random.default_rng([seed, 3])

    def noisy(values: Array, size: float) -> Array:
        return values + size * rng.normal(size=values.shape)

    turned = Rotation.from_quat(run.q[:, [4, 5, 6, 3]])
    turned = turned * Rotation.from_rotvec(noise.attitude * rng.normal(size=(len(run.time), 3)))
    quat, place = turned.as_quat()[:, [3, 0, 1, 2]], noisy(run.q[:, :3], noise.place)
    signals = {
        "q": dict(zip(run.joints, noisy(run.q[:, 7:], noise.joint).T, strict=True)),
        "tau": dict(zip(run.joints, noisy(run.tau, noise.torque).T, strict=True)),
        "pos": {f"pelvis.{x}": place[:, k] for k, x in enumerate("xyz")},
        "quat": {f"pelvis.{x}": quat[:, k] for k, x in enumerate("wxyz")},
        "contact": {name: flag.astype(float) for name, flag in run.touching.items()},
        "force": {},
        "torque": {},
    }
    for joint, gain in (gains or {}).items():
        signals.setdefault("current", {})[joint] = signals["tau"].pop(joint) / gain
    for contact, wrench in run.wrenches.items():
        force, moment = noisy(wrench[:, :3], noise.force), noisy(wrench[:, 3:], noise.moment)
        signals["force"] |= {f"{contact}.{x}": force[:, k] for k, x in enumerate("xyz")}
        signals["torque"] |= {f"{contact}.{x}": moment[:, k] for k, x in enumerate("xyz")}
    return Recording.from_arrays(run.time, name, **signals)


def options(joints: tuple[str, ...], way: str, friction: str = "simple") -> Options:
    """Return heft's options for a way of treating contacts.

    Args:
        joints: Their names.
        way: Of the feet's wrenches: `measured`; or `always`, `logged` or `detected`, unknown, as
            the hook's is; `base` and `joints`, measured, as a choice of equations.
        friction: Of all joints.
    """
    measured = way in ("measured", "base", "joints")
    said = {"wrench": "measured"} if measured else {"closed": way}
    hook = {"wrench": "measured"} if measured else {"closed": "logged"}
    contact = {foot: ContactOptions(foot, "surface", SOLE, **said) for foot in FEET}
    contact["hook"] = ContactOptions("trunk", "point", HOOK, **hook)
    joint = {name: JointOptions(friction=friction) for name in joints}
    equations = way if way in ("base", "joints") else "all"
    return Options(base="free", joint=joint, contact=contact, equations=equations)


def truth(robot: Robot, exact: Robot) -> Array:
    """Return the true standard parameters of a robot, of the model file that is right."""
    values = exact.nominal()
    for k, name in enumerate(robot.labels.names):
        if name.endswith(".armature"):
            values[k] = ARMATURE
        elif name.endswith(".viscous"):
            values[k] = DAMPING
    return values
