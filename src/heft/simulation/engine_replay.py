"""A log again in MuJoCo: the torque of its motion, and the motion of its torque."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from typing import Any

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidModel
from heft.models import Robot

from .bodies import load_mujoco
from .simulated_links import Joints
from .simulated_robot import Actuation, SimulatedRobot

LONGEST = 1e-3  # step of MuJoCo's [s]
STANDSTILL = 0.018  # speed s of heft's Coulomb friction F tanh(v/s) [rad/s]
SHOWN = ("asset", "actuator", "sensor", "contact", "keyframe", "tendon", "visual", "deformable")


@dataclass(frozen=True, eq=False)
class MujocoReplay:
    """A model file in MuJoCo, without contacts, limits and actuators.

    Raises:
        InvalidSetting: If MuJoCo is not installed.
        InvalidModel: If it cannot read the file, or a joint is missing in it.
    """

    model: Any
    joints: Joints  # all of the file that follow no other
    rows: Array  # where the log's joints stand among them, shape (joints,)

    @staticmethod
    def of(file: str, joints: tuple[str, ...]) -> MujocoReplay:
        """Return the replay of an MJCF file, for a log's joints."""
        mujoco = load_mujoco()
        try:
            model = mujoco.MjModel.from_xml_string(_bare(file))
        except ValueError as problem:
            raise InvalidModel("MuJoCo cannot read the file", got=str(problem)) from problem
        off = mujoco.mjtDisableBit
        model.opt.disableflags |= off.mjDSBL_CONTACT | off.mjDSBL_LIMIT | off.mjDSBL_ACTUATION
        own_joints = Joints.of(model)
        missing = sorted(set(joints) - set(own_joints.names))
        if missing:
            raise InvalidModel(
                "MuJoCo has no such joint", argument=missing[0], valid=own_joints.names
            )
        return MujocoReplay(
            model, own_joints, np.array([own_joints.names.index(j) for j in joints])
        )

    @property
    def name(self) -> str:
        """MuJoCo and its version."""
        return f"MuJoCo {load_mujoco().__version__}"

    def inverse_dynamics(self, q: Array, v: Array, a: Array, dry: bool = True) -> Array:
        """Return the torque of a motion by `mj_inverse`, shape (N, joints) [N·m or N].

        Args:
            q: Positions, shape (N, joints) [rad or m]; velocities and accelerations likewise.
            dry: Whether dry friction counts.
        """
        mujoco, model, G = load_mujoco(), self.model, self.joints.matrix
        kept, data = model.dof_frictionloss.copy(), mujoco.MjData(model)
        equality = mujoco.mjtDisableBit.mjDSBL_EQUALITY
        model.opt.disableflags |= equality
        if not dry:
            model.dof_frictionloss[:] = 0.0
        torque = np.empty((len(q), model.nv))
        wide = np.zeros((3, len(self.joints.own)))
        for k in range(len(q)):
            wide[:, self.rows] = q[k], v[k], a[k]
            data.qpos[:] = G @ wide[0] + self.joints.offset
            data.qvel[:], data.qacc[:] = wide[1:] @ G.T
            mujoco.mj_inverse(model, data)
            torque[k] = data.qfrc_inverse
        model.dof_frictionloss[:] = kept
        model.opt.disableflags &= ~int(equality)
        return np.asarray((torque @ G)[:, self.rows])

    def moved(self, start: Array, actuation: Actuation) -> Array:
        """Return positions when steps begin, shape (N, joints) [rad or m].

        Args:
            start: Positions and velocities, shape (2, joints).
            actuation: What moves them, by the equations of `dynamics.held_steps.follow`.
        """
        mujoco, model, h = load_mujoco(), self.model, actuation.step
        times = math.ceil(h / LONGEST - 1e-6)
        model.opt.timestep = h / times
        model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        data = mujoco.MjData(model)
        wide = np.zeros((2, len(self.joints.own)))
        wide[:, self.rows] = start
        data.qpos[:] = self.joints.matrix @ wide[0] + self.joints.offset
        data.qvel[:] = self.joints.matrix @ wide[1]
        own = self.joints.own[self.rows]
        places, (stiff, slow, summed) = np.empty_like(actuation.wanted[:, 0]), actuation.gains
        total, seen = np.zeros(places.shape[1]), start[1]
        for k, (q, v, ahead) in enumerate(actuation.wanted):
            places[k] = data.qpos[own]
            if actuation.keep < 0.0:
                seen = data.qvel[own]
            elif k:
                seen = seen + actuation.keep * ((places[k] - places[k - 1]) / h - seen)
            total += h * (q - places[k])
            held = ahead + stiff * (q - places[k]) + slow * (v - seen) + summed * total
            data.qfrc_applied[own] = held
            mujoco.mj_step(model, data, times)
        return places


def moved_to_goals(file: str, start: Array, goals: Array, step: float) -> Array:
    """Return positions of an MJCF file's only joint, whose actuator is given goals.

    Args:
        file: Its own time step divides the goals'; a delay begins with the first goal.
        start: Position and speed of each stretch, shape (2, stretches) [rad, rad/s].
        goals: Each held for a step, shape (stretches, N) [rad].
        step: Their time step [s].

    Returns:
        Positions when the steps begin, shape (stretches, N) [rad].
    """
    mujoco = load_mujoco()
    model = mujoco.MjModel.from_xml_string(file)
    places, times = np.empty_like(goals), round(step / model.opt.timestep)
    for k, row in enumerate(goals):
        data = mujoco.MjData(model)
        data.qpos[0], data.qvel[0] = start[:, k]
        if model.actuator_delay[0] > 0.0:
            before = np.full((model.actuator_history[0, 0], 1), row[0])
            mujoco.mj_initCtrlHistory(model, data, 0, None, before)
        for n, data.ctrl[0] in enumerate(row):
            places[k, n] = data.qpos[0]
            mujoco.mj_step(model, data, times)
    return places


def _bare(file: str) -> str:
    """Return an MJCF file without what does not move its joints: assets, meshes, actuators."""
    root = ET.fromstring(file)
    for parent in list(root.iter()):
        for child in list(parent):
            child.attrib.pop("material", None)
            mesh = child.get("mesh") or child.get("type") in ("mesh", "hfield", "sdf")
            held = parent.tag == "equality" and child.tag != "joint"
            if child.tag in SHOWN or held or (child.tag == "geom" and mesh):
                parent.remove(child)
    return ET.tostring(root, encoding="unicode")


def moved_by_heft(robot: Robot, values: Array, start: Array, actuation: Actuation) -> Array | None:
    """Return positions by heft's own forward dynamics; see `MujocoReplay.moved`.

    Args:
        robot: With simple friction.
        values: Standard parameters, shape (p,).

    Returns:
        None if a step was not found.
    """
    simulated, begin = SimulatedRobot(robot, STANDSTILL), np.ascontiguousarray(start)
    numbers = simulated.numbers(values)
    log, done = simulated.driven(
        numbers, actuation.gains, begin, actuation.wanted, actuation.step, actuation.keep
    )
    return log[0] if done == len(actuation.wanted) and np.isfinite(log[0]).all() else None
