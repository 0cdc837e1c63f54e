"""Simulated bodies: read from a URDF, made wrong, written for MuJoCo, and free to fly there.

By code of their own, which shares nothing with how heft reads a model file, nor with its dynamics.
The only file that asks for MuJoCo, and only when a simulation begins.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidSetting, install


@dataclass(frozen=True, eq=False)
class Inertial:
    """Mass properties of a link."""

    mass: float  # m [kg]
    center: Array  # c, centre of mass in the link's frame, shape (3,) [m]
    # Σ = ∫ (x − c)(x − c)ᵀ dm, shape (3, 3) [kg·m²]; the inertia about the centre of mass is tr Σ ·
    # 1 − Σ
    spread: Array

    @staticmethod
    def of_inertia(mass: float, center: Array, inertia: Array) -> Inertial:
        """Return the mass properties of a link from its inertia about the centre of mass.

        Args:
            inertia: I about the centre of mass, in the link's axes, shape (3, 3) [kg·m²].
        """
        return Inertial(mass, center, 0.5 * np.trace(inertia) * np.eye(3) - inertia)

    @property
    def inertia(self) -> Array:
        """Inertia about the centre of mass, shape (3, 3) [kg·m²]."""
        return np.asarray(np.trace(self.spread) * np.eye(3) - self.spread)

    @property
    def parameters(self) -> Array:
        """Ten parameters m, m c, Ixx, Ixy, Iyy, Ixz, Iyz, Izz about the link's origin.

        Shape (10,) [kg, kg·m, kg·m²].
        """
        c = self.center
        about = self.inertia + self.mass * (c @ c * np.eye(3) - np.outer(c, c))
        return np.array(
            [self.mass, *(self.mass * c), *about[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]]
        )

    def seen_from(self, rotation: Array, origin: Array) -> tuple[float, Array, Array]:
        """Return mass, centre of mass and inertia about it in another frame.

        Args:
            rotation: Of the frame in this one, shape (3, 3).
            origin: Of the frame in this one, shape (3,) [m].
        """
        center = rotation.T @ (self.center - origin)
        return self.mass, center, rotation.T @ self.inertia @ rotation

    def sound(self, share: float, least: float = 0.0) -> Inertial:
        """Return the mass properties with eigenvalues of Σ raised to a floor.

        Args:
            share: Of the largest eigenvalue.
            least: The floor at least [kg·m²].
        """
        values, axes = np.linalg.eigh(self.spread)
        kept = np.maximum(values, max(share * values.max(), least))
        return replace(self, spread=(axes * kept) @ axes.T)

    def wrong(self, rng: np.random.Generator, share: float, shift: float) -> Inertial:
        """Return perturbed mass properties that some body could still have.

        Args:
            share: Standard deviation of ln(mass) and of the body's stretch.
            shift: Rms shift of the centre of mass [m], not more than half the radius of gyration.
        """
        factor = float(np.exp(share * rng.normal()))
        stretch = np.eye(3) + 0.5 * share * rng.normal(size=(3, 3))
        radius = float(np.sqrt(np.trace(self.spread) / self.mass))
        moved = min(shift, 0.5 * radius) * rng.normal(size=3) / np.sqrt(3.0)
        spread = factor * stretch @ self.spread @ stretch.T
        return Inertial(factor * self.mass, self.center + moved, spread)


def numbers(text: str | None) -> Array:
    """Return the numbers of an XML attribute, three zeros where there is none, shape (n,)."""
    return np.array([float(x) for x in (text or "0 0 0").split()])


def rotation(rpy: Array) -> Array:
    """Return R = Rz(yaw) Ry(pitch) Rx(roll) of roll, pitch and yaw [rad], shape (3, 3)."""
    (cr, cp, cy), (sr, sp, sy) = np.cos(rpy), np.sin(rpy)
    x = np.array([[1, 0, 0], [0, cr, -sr], [0, sr, cr]])
    y = np.array([[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]])
    z = np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]])
    return np.asarray(z @ y @ x)


def read_inertial(link: ET.Element) -> Inertial | None:
    """Return the mass properties of a URDF's link, None if it has no mass."""
    inertial = link.find("inertial")
    if inertial is None:
        return None
    mass, tensor, origin = (inertial.find(tag) for tag in ("mass", "inertia", "origin"))
    if mass is None or tensor is None or float(mass.attrib["value"]) <= 0.0:
        return None
    place = {} if origin is None else origin.attrib
    turn = rotation(numbers(place.get("rpy")))
    xx, xy, xz, yy, yz, zz = (
        float(tensor.attrib[k]) for k in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
    )
    inertia = turn @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ turn.T
    return Inertial.of_inertia(float(mass.attrib["value"]), numbers(place.get("xyz")), inertia)


def write_inertial(link: ET.Element, wanted: Inertial) -> None:
    """Put mass properties into a link, in place of those it has."""
    old = link.find("inertial")
    if old is not None:
        link.remove(old)
    inertial = ET.SubElement(link, "inertial")
    ET.SubElement(inertial, "origin", xyz=text(wanted.center), rpy="0 0 0")
    ET.SubElement(inertial, "mass", value=repr(float(wanted.mass)))
    names = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
    values = wanted.inertia[[0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]
    ET.SubElement(
        inertial, "inertia", {k: repr(float(v)) for k, v in zip(names, values, strict=True)}
    )


def text(values: Array) -> str:
    """Return numbers as an XML attribute that gives back their every bit."""
    return " ".join(repr(float(x)) for x in np.ravel(values))


def load_mujoco(extra: str = "simulation") -> Any:
    """Return the module `mujoco`.

    Raises:
        InvalidSetting: If it is not installed.
    """
    try:
        import mujoco
    except ImportError as problem:
        raise InvalidSetting(
            "simulated experiments need MuJoCo", argument="Simulator", cure=install(extra)
        ) from problem
    return mujoco


def free_body(
    bodies: Sequence[Inertial], gravity: Array, **option: str
) -> tuple[ET.Element, ET.Element]:
    """Return MuJoCo's model of bodies that fly as one, and its element of the first of them.

    Args:
        bodies: All given in the frame of the first, fixed to one another.
        gravity: In the world, shape (3,) [m/s²].
    """
    root = ET.Element("mujoco")
    # Inertias are taken as they are, light ones too.
    ET.SubElement(root, "compiler", balanceinertia="false", boundmass="0", boundinertia="0")
    ET.SubElement(root, "size", memory="1M")
    options = ET.SubElement(root, "option", {"gravity": text(gravity), **option})
    ET.SubElement(options, "flag", contact="disable", constraint="disable")
    first = ET.SubElement(ET.SubElement(root, "worldbody"), "body")
    ET.SubElement(first, "freejoint")
    for k, body in enumerate(bodies):
        place = ET.SubElement(first, "body") if k else first
        six = text(body.inertia[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]])
        where, mass = text(body.center), repr(float(body.mass))
        ET.SubElement(place, "inertial", pos=where, mass=mass, fullinertia=six)
    return root, first


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


class FreeFlyerWorld:
    """MuJoCo's model of bodies that fly as one, and its state.

    Thrusters push with a lag and noise of their own. It is the one object here that changes:
    `advance` moves it on.
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
                if lagging and thruster.lag > 1e-4:  # [s]; less would only make it stiff
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

        In the world [m/s²] and in the body's axes [rad/s²], shape (3,) each.
        """
        self._data.ctrl[:] = np.concatenate((np.zeros(self._count), thrusts))
        thrust = np.array(self._data.act)
        self._data.act[:] = 0.0
        self._mujoco.mj_forward(self._model, self._data)
        self._data.act[:] = thrust
        return np.array(self._data.qacc[:3]), np.array(self._data.qacc[3:6])

    def specific_force_under(self, commands: Array, noise: Array) -> Array:
        """Return what an accelerometer at the origin reads as commands set in, (3,) [m/s²]."""
        self._data.ctrl[:] = np.concatenate((commands, noise))
        self._mujoco.mj_forward(self._model, self._data)
        rotation = np.empty(9)
        self._mujoco.mju_quat2Mat(rotation, self._data.qpos[3:7])
        felt = self._data.qacc[:3] - self._model.opt.gravity
        return np.asarray(rotation.reshape(3, 3).T @ felt)

    def advance(self, commands: Array, noise: Array, duration: float) -> None:
        """Advance the simulation, with commands and noise of the thrusts held.

        Args:
            duration: A multiple of the step [s].
        """
        self._data.ctrl[:] = np.concatenate((commands, noise))
        count = round(duration / self.step)
        self._mujoco.mj_step(self._model, self._data, nstep=max(1, count))
