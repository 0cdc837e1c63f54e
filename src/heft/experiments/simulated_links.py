"""The links of a simulated arm: mass matrix, Coriolis and gravity torque, as MuJoCo has them.

MuJoCo reads the model file by a parser of its own. The only file that asks for MuJoCo, and only
when a simulation begins.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidModel, InvalidSetting

from .arms import rotation


class Links:
    """The links of an arm in MuJoCo: mass matrix and bias torque.

    Attributes:
        model: MuJoCo's model.
        data: MuJoCo's data.
    """

    def __init__(self, model: Any, data: Any) -> None:
        self.model, self.data = model, data
        self._mass = np.zeros((model.nv, model.nv))
        self._bias = np.zeros(model.nv)

    @staticmethod
    def of(urdf: bytes, joints: tuple[str, ...]) -> Links:
        """Return the links of a URDF, as MuJoCo reads it.

        Args:
            urdf: The file's bytes.
            joints: Names of its joints, base to tip.

        Raises:
            InvalidSetting: If MuJoCo is not installed.
            InvalidModel: If MuJoCo finds other joints.
        """
        try:
            import mujoco
        except ImportError as problem:
            raise InvalidSetting(
                "simulated experiments need MuJoCo",
                argument="Simulator",
                cure="pip install 'heft[simulation]'",
            ) from problem
        root = ET.fromstring(urdf)
        for joint in root.findall("joint"):
            for limit in joint.findall("limit"):
                joint.remove(limit)  # nothing stops a simulated joint
        said = ET.SubElement(root, "mujoco")
        ET.SubElement(said, "compiler", balanceinertia="false", fusestatic="true")
        model = mujoco.MjModel.from_xml_string(ET.tostring(root, encoding="unicode"))
        names = tuple(
            mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_JOINT, k) for k in range(model.njnt)
        )
        if names != joints:
            raise InvalidModel("MuJoCo has other joints", argument="urdf", got=names)
        return Links(model, mujoco.MjData(model))

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
        return np.array(self.model.dof_armature)

    @armature.setter
    def armature(self, value: Array) -> None:
        self.model.dof_armature[:] = value

    def state(self, q: Array) -> tuple[Array, Array]:
        """Return MuJoCo's own arrays of q and v, at rest in a position; writing to them moves it.

        Args:
            q: Position, shape (joints,) [rad].
        """
        self.data.qpos[:], self.data.qvel[:] = q, 0.0
        return self.data.qpos, self.data.qvel

    def equation(self) -> tuple[Array, Array]:
        """Return mass matrix M and bias torque h = C v + g at MuJoCo's state.

        Both are arrays that the next call fills anew, shapes (joints, joints) [kg·m²] and (joints,)
        [N·m].
        """
        import mujoco

        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_comPos(self.model, self.data)
        mujoco.mj_makeM(self.model, self.data)
        mujoco.mj_fullM(self.model, self.data, self._mass)
        mujoco.mj_comVel(self.model, self.data)
        mujoco.mj_rne(self.model, self.data, 0, self._bias)
        return self._mass, self._bias

    def mass(self, q: Array) -> Array:
        """Return the mass matrix M(q), rotors among it, shape (joints, joints) [kg·m²].

        Args:
            q: Position, shape (joints,) [rad].
        """
        self.state(q)
        return self.equation()[0].copy()

    def inverse_dynamics(self, q: Array, v: Array, a: Array) -> Array:
        """Return the links' torque τ(q, v, a) without rotors and friction, shape (N, joints) [N·m].

        Args:
            q: Positions, shape (N, joints) [rad].
            v: Velocities, shape (N, joints) [rad/s].
            a: Accelerations, shape (N, joints) [rad/s²].
        """
        import mujoco

        out = np.zeros(q.shape)
        for k in range(len(q)):
            self.data.qpos[:], self.data.qvel[:], self.data.qacc[:] = q[k], v[k], a[k]
            mujoco.mj_kinematics(self.model, self.data)
            mujoco.mj_comPos(self.model, self.data)
            mujoco.mj_comVel(self.model, self.data)
            mujoco.mj_rne(self.model, self.data, 1, out[k])
        return out
