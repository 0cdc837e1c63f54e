"""A free-flying body in MuJoCo: what a flight would be like, by equations that heft does not have.

Bodies that are fixed to one another fly as one; thrusters push with a lag and noise of their own.
Nothing here knows heft's dynamics, plants or models: mass properties and thrusters are plain
numbers, added up by MuJoCo.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from heft.arrays import Array

from .bodies import Inertial, free_body, load_mujoco, text

SHORTEST_LAG = 1e-4  # lags below are none: they would only make the integration stiff [s]


@dataclass(frozen=True, eq=False)
class Thruster:
    """What pushes the body, at a point and along a direction of its frame, or by a wrench."""

    wrench: Array  # force and moment about the frame's origin of a unit command, shape (6,)
    lag: float = 0.0  # time constant from command to thrust [s]


@dataclass(frozen=True, eq=False)
class FlightState:
    """State of the body's frame."""

    position: Array  # of its origin in the world, shape (3,) [m]
    quaternion: Array  # w, x, y, z, to the world, shape (4,)
    velocity: Array  # of its origin in the world, shape (3,) [m/s]
    turning: Array  # angular velocity in the body's axes, shape (3,) [rad/s]

    @staticmethod
    def at_rest() -> FlightState:
        """Return rest at the world's origin."""
        still = np.zeros(3)
        return FlightState(still, np.array([1.0, 0.0, 0.0, 0.0]), still, still)


class FreeFlyerWorld:
    """MuJoCo's model of bodies that fly as one, and its state.

    It is the one object here that changes: `advance` moves it on.
    """

    def __init__(
        self,
        bodies: Sequence[Inertial],
        thrusters: Sequence[Thruster],
        gravity: Array,
        step: float = 0.0025,
    ) -> None:
        """Make a world at rest.

        Args:
            bodies: All given in the frame of the first, fixed to one another.
            thrusters: n of them, in that frame.
            gravity: In the world, shape (3,) [m/s²].
            step: Of the integration, by Runge and Kutta's method of fourth order [s].
        """
        self._mujoco = load_mujoco("flight")
        root, body = free_body(bodies, gravity, integrator="RK4", timestep=repr(step))
        ET.SubElement(body, "site", name="origin")
        actuators = ET.SubElement(root, "actuator")
        for lagging in (True, False):  # thrusts behind their lags, and what is added to them
            for thruster in thrusters:
                stated = {"site": "origin", "gear": text(thruster.wrench)}
                if lagging and thruster.lag > SHORTEST_LAG:
                    # In stages of a step the exact filter decays twice, and lags half a step more;
                    # the plain one does not, but is unstable where the step is long.
                    stated["dyntype"] = "filter" if thruster.lag > step else "filterexact"
                    stated["dynprm"] = repr(float(thruster.lag))
                ET.SubElement(actuators, "general", stated)
        model = ET.tostring(root, encoding="unicode")
        self._model = self._mujoco.MjModel.from_xml_string(model)
        self._data = self._mujoco.MjData(self._model)
        self._count = len(thrusters)

    @property
    def state(self) -> FlightState:
        """The present state."""
        q, v = self._data.qpos, self._data.qvel
        return FlightState(*(np.array(part) for part in (q[:3], q[3:7], v[:3], v[3:6])))

    @state.setter
    def state(self, state: FlightState) -> None:
        self._data.qpos[:] = np.concatenate((state.position, state.quaternion))
        self._data.qvel[:] = np.concatenate((state.velocity, state.turning))

    @property
    def step(self) -> float:
        """Step of the integration [s]."""
        return float(self._model.opt.timestep)

    def spin_up(self, commands: Array) -> None:
        """Set thrusts to their steady state under commands, shape (n,)."""
        if self._model.na:
            lagging = self._model.actuator_actadr[: self._count] >= 0
            self._data.act[:] = np.asarray(commands)[lagging]

    def acceleration(self, thrusts: Array) -> tuple[Array, Array]:
        """Return the acceleration of the frame's origin and α under thrusts, without lag.

        Args:
            thrusts: Shape (n,).

        Returns:
            In the world [m/s²] and in the body's axes [rad/s²], shape (3,) each.
        """
        self._data.ctrl[:] = np.concatenate((np.zeros(self._count), thrusts))
        thrust = np.array(self._data.act)
        self._data.act[:] = 0.0
        self._mujoco.mj_forward(self._model, self._data)
        self._data.act[:] = thrust
        return np.array(self._data.qacc[:3]), np.array(self._data.qacc[3:6])

    def specific_force_under(self, commands: Array, noise: Array) -> Array:
        """Return what an accelerometer at the frame's origin reads when commands begin to act.

        Args:
            commands: Shape (n,).
            noise: Of the thrusts, shape (n,).

        Returns:
            Shape (3,) [m/s²].
        """
        self._data.ctrl[:] = np.concatenate((commands, noise))
        self._mujoco.mj_forward(self._model, self._data)
        rotation = np.empty(9)
        self._mujoco.mju_quat2Mat(rotation, self._data.qpos[3:7])
        felt = self._data.qacc[:3] - self._model.opt.gravity
        return np.asarray(rotation.reshape(3, 3).T @ felt)

    def advance(self, commands: Array, noise: Array, duration: float) -> None:
        """Advance the simulation, with commands and noise of the thrusts held.

        Args:
            commands: Shape (n,).
            noise: Added to the thrusts behind their lag, shape (n,).
            duration: A multiple of the step [s].
        """
        self._data.ctrl[:] = np.concatenate((commands, noise))
        count = round(duration / self.step)
        self._mujoco.mj_step(self._model, self._data, nstep=max(1, count))
