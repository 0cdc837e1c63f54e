"""Mass properties of simulated bodies: read from a URDF, made wrong, written for MuJoCo.

By code of their own, which shares nothing with how heft reads a model file. The only file that asks
for MuJoCo, and only when a simulation begins.
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
            mass: m [kg].
            center: c, centre of mass in the link's frame, shape (3,) [m].
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
    """Return R = Rz(yaw) Ry(pitch) Rx(roll), shape (3, 3).

    Args:
        rpy: Roll, pitch and yaw, shape (3,) [rad].
    """
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

    Args:
        extra: Optional dependencies that the error's message advises to install.

    Raises:
        InvalidSetting: If it is not installed.
    """
    try:
        import mujoco
    except ImportError as problem:
        raise InvalidSetting(
            "simulated experiments need MuJoCo",
            argument="Simulator",
            cure=install(extra),
        ) from problem
    return mujoco


def free_body(
    bodies: Sequence[Inertial], gravity: Array, **option: str
) -> tuple[ET.Element, ET.Element]:
    """Return MuJoCo's model of bodies that fly as one, and its element of the first of them.

    Args:
        bodies: All given in the frame of the first, fixed to one another.
        gravity: In the world, shape (3,) [m/s²].
        option: Of the integration.
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
