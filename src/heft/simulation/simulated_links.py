"""The links of a simulated robot: mass matrix, Coriolis and gravity torque, as MuJoCo has them.

MuJoCo reads the model file by a parser of its own.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass
from typing import Any

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidModel

from .bodies import load_mujoco, read_inertial, rotation


@dataclass(frozen=True, eq=False)
class Joints:
    """The joints of a compiled model, and how those that mimic others follow them.

    With p the joints that are moved, q = G p + o are all that the model has.
    """

    names: tuple[str, ...]  # of the joints that are moved, in MuJoCo's order
    own: Array  # where each of them stands among all, shape (joints,)
    matrix: Array  # G, shape (all, joints)
    offset: Array  # o, shape (all,) [rad or m]
    sliding: Array  # which of them slide, shape (joints,)

    @staticmethod
    def of(model: Any) -> Joints:
        """Return the joints of a compiled model.

        Raises:
            InvalidModel: If a joint neither turns nor slides, or follows others by a curve.
        """
        mujoco = load_mujoco()
        names = [mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_JOINT, k) for k in range(model.njnt)]
        kinds = [mujoco.mjtJoint(k) for k in model.jnt_type]
        for number, (name, kind) in enumerate(zip(names, kinds, strict=True)):
            if not name:
                raise InvalidModel("a joint has no name", got=f"joint {number + 1} of the file")
            if kind.name not in ("mjJNT_HINGE", "mjJNT_SLIDE"):
                raise InvalidModel(
                    "a joint is expected to turn about an axis or to slide along one",
                    argument=name,
                    got=kind.name.removeprefix("mjJNT_").lower(),
                )
        follows: dict[int, tuple[int, float, float]] = {}
        for k in np.flatnonzero(model.eq_type == mujoco.mjtEq.mjEQ_JOINT):
            follower, master, curve = model.eq_obj1id[k], model.eq_obj2id[k], model.eq_data[k]
            if curve[2:5].any():
                raise InvalidModel("a joint follows another by a curve", argument=names[follower])
            start = float(model.qpos0[follower] + curve[0])
            if master >= 0:
                start -= float(curve[1] * model.qpos0[master])
            follows[int(follower)] = (int(master), float(curve[1]), start)
        matrix, offset = np.eye(model.njnt), np.zeros(model.njnt)
        for _ in follows:  # chains of followers end after as many rounds as there are followers
            for follower, (master, factor, constant) in follows.items():
                fixed = master < 0
                matrix[follower] = 0.0 if fixed else factor * matrix[master]
                offset[follower] = constant + (0.0 if fixed else factor * offset[master])
        own = np.array([k for k in range(model.njnt) if k not in follows], dtype=int)
        sliding = np.array([kinds[k].name == "mjJNT_SLIDE" for k in own], dtype=bool)
        return Joints(tuple(names[k] for k in own), own, matrix[:, own], offset, sliding)


def compiled(file: bytes) -> Any:
    """Return MuJoCo's model of a URDF or MJCF.

    Raises:
        InvalidSetting: If MuJoCo is not installed.
        InvalidModel: If MuJoCo cannot read it.
    """
    mujoco, root = load_mujoco(), ET.fromstring(file)
    if root.tag == "robot":
        for joint in root.findall("joint"):
            for limit in joint.findall("limit"):
                joint.remove(limit)  # nothing stops a simulated joint
        element = ET.SubElement(root, "mujoco")
        least = repr(1e-9) if _massless(root) else "0"  # [kg, kg·m²]
        compiler = {"balanceinertia": "false", "fusestatic": "true"}
        ET.SubElement(element, "compiler", compiler | {"boundmass": least, "boundinertia": least})
    try:
        return mujoco.MjModel.from_xml_string(ET.tostring(root, encoding="unicode"))
    except ValueError as problem:
        raise InvalidModel("MuJoCo cannot read the model", got=str(problem)) from problem


def _massless(root: ET.Element) -> bool:
    """Whether a link of a URDF that a joint moves has no mass."""
    links = {k.get("name"): k for k in root.findall("link")}
    moved = [j.find("child") for j in root.findall("joint") if j.get("type") != "fixed"]
    names = [child.get("link") for child in moved if child is not None]
    return any(read_inertial(links[n]) is None for n in names if n in links)


class Links:
    """The links of a robot in MuJoCo: mass matrix and bias torque.

    Attributes:
        model: MuJoCo's model.
        data: MuJoCo's data.
        joints: Those that are moved, and those that follow.
    """

    def __init__(self, model: Any, data: Any, joints: Joints) -> None:
        self.model, self.data, self.joints = model, data, joints
        self._mass = np.zeros((model.nv, model.nv))
        self._bias = np.zeros(model.nv)
        self._follow = len(joints.own) < model.nv
        self._q, self._v = np.zeros((2, len(joints.own)))
        if not self._follow:
            self._q, self._v = data.qpos, data.qvel

    @staticmethod
    def of(urdf: bytes, joints: tuple[str, ...]) -> Links:
        """Return the links of a URDF or MJCF, as MuJoCo reads it.

        Args:
            joints: Names of its joints that follow no other, in the file's order.

        Raises:
            InvalidSetting: If MuJoCo is not installed.
            InvalidModel: If MuJoCo cannot read it, or finds other joints.
        """
        model = compiled(urdf)
        own = Joints.of(model)
        if own.names != joints:
            raise InvalidModel("MuJoCo has other joints", argument="urdf", got=own.names)
        return Links(model, load_mujoco().MjData(model), own)

    def point_gravity(self, gravity: Array) -> None:
        """Set the gravity vector in the base's frame, shape (3,) [m/s²]."""
        self.model.opt.gravity[:] = gravity

    def tilt(self, angle: float, heading: float) -> None:
        """Tilt the base about a level axis: gravity turns in its frame.

        Args:
            angle: Of the tilt [rad].
            heading: Of the level axis, from the base's x axis [rad].
        """
        about = rotation(np.array([0.0, 0.0, heading]))
        turn = about @ rotation(np.array([angle, 0.0, 0.0])) @ about.T
        self.model.opt.gravity[:] = turn.T @ self.model.opt.gravity

    @property
    def armature(self) -> Array:
        """Rotor inertia in the mass matrix, shape (joints,) [kg·m²]."""
        return np.array(self.model.dof_armature[self.joints.own])

    @armature.setter
    def armature(self, value: Array) -> None:
        self.model.dof_armature[:] = 0.0
        self.model.dof_armature[self.joints.own] = value

    def state(self, q: Array) -> tuple[Array, Array]:
        """Return arrays of q and v, set to rest at a position; writing to them moves the links.

        Args:
            q: Position, shape (joints,) [rad].
        """
        self._q[:], self._v[:] = q, 0.0
        return self._q, self._v

    def _place(self) -> None:
        if self._follow:
            self.data.qpos[:] = self.joints.matrix @ self._q + self.joints.offset
            self.data.qvel[:] = self.joints.matrix @ self._v

    def equation(self) -> tuple[Array, Array]:
        """Return mass matrix M and bias torque h = C v + g at the present state.

        Both are arrays that the next call fills anew, shapes (joints, joints) [kg·m²] and (joints,)
        [N·m].
        """
        import mujoco

        self._place()
        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_comPos(self.model, self.data)
        mujoco.mj_makeM(self.model, self.data)
        mujoco.mj_fullM(self.model, self.data, self._mass)
        mujoco.mj_comVel(self.model, self.data)
        mujoco.mj_rne(self.model, self.data, 0, self._bias)
        if self._follow:
            G = self.joints.matrix
            return np.ascontiguousarray(G.T @ self._mass @ G), G.T @ self._bias
        return self._mass, self._bias

    def mass(self, q: Array) -> Array:
        """Return the mass matrix M(q), rotors among it, shape (joints, joints) [kg·m²]."""
        self.state(q)
        return self.equation()[0].copy()

    def inverse_dynamics(self, q: Array, v: Array, a: Array) -> Array:
        """Return the links' torque τ(q, v, a), no rotors nor friction, shape (N, joints) [N·m]."""
        import mujoco

        torque, G = np.zeros((len(q), self.model.nv)), self.joints.matrix
        for k in range(len(q)):
            self._q[:], self._v[:] = q[k], v[k]
            self._place()
            self.data.qacc[:] = G @ a[k] if self._follow else a[k]
            mujoco.mj_kinematics(self.model, self.data)
            mujoco.mj_comPos(self.model, self.data)
            mujoco.mj_comVel(self.model, self.data)
            mujoco.mj_rne(self.model, self.data, 1, torque[k])
        return torque @ G if self._follow else torque
