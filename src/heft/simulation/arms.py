"""Robots to be simulated: model files, whole or cut down to a chain, and files that are wrong.

Nothing here knows how heft reads a model file: inertials are read, corrected and written by code
of their own, and limits are taken as the file states them.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidModel, InvalidSetting

SOUND = 0.02  # smallest second moment of mass of a body about its centre, over the largest
LOST = ("visual", "collision", "safety_controller", "dynamics", "calibration", "mimic")


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

    def sound(self) -> Inertial:
        """Return the mass properties with eigenvalues of Σ raised to a small positive floor."""
        values, axes = np.linalg.eigh(self.spread)
        kept = np.maximum(values, SOUND * values.max())
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


@dataclass(frozen=True, eq=False)
class Arm:
    """A chain or tree of joints on a fixed base."""

    name: str  # of the robot
    # its model file, URDF or MJCF, without shapes; the numbers in it are those simulated
    urdf: bytes
    joints: tuple[str, ...]  # names of the joints that follow no other, in the file's order
    lower: Array  # lower limits of position, shape (joints,) [rad]
    upper: Array  # upper limits of position, shape (joints,) [rad]
    speed: Array  # largest speeds, shape (joints,) [rad/s]
    effort: Array  # largest torques, shape (joints,) [N·m]
    notes: tuple[str, ...] = ()  # what of the file is simulated otherwise, in sentences

    @staticmethod
    def of(
        path: Path,
        name: str | None = None,
        first: str | None = None,
        last: str | None = None,
        fastest: float = 2.5,
    ) -> Arm:
        """Return the arm of a URDF.

        Args:
            name: Of the arm; the file's if not given.
            first: The first joint that is kept, on a base that stands still; that next to the
                file's own base if not given.
            last: The last joint that is kept; what it does not carry, or moves behind it, is cut
                off. The last revolute one if not given.
            fastest: Bound on the speeds, where the file's are higher [rad/s].

        Raises:
            InvalidModel: If a joint of the chain does not turn.
        """
        root = ET.fromstring(path.read_bytes())
        chain = _chain(root, first, last)
        kept = _cut(root, chain)
        for link in root.findall("link"):
            inertial = read_inertial(link)
            if inertial is not None:
                write_inertial(link, inertial.sound())
        limits = [_limits(j) for j in kept]
        lower, upper, speed, effort = np.array(limits, dtype=float).T
        return Arm(
            name or path.stem,
            ET.tostring(root),
            tuple(j.attrib["name"] for j in kept),
            lower,
            upper,
            np.minimum(speed, fastest),
            effort,
        )

    @cached_property
    def links(self) -> Mapping[str, Inertial]:
        """Mass properties of every link that the file gives some."""
        found = (
            (k.attrib["name"], read_inertial(k)) for k in ET.fromstring(self.urdf).findall("link")
        )
        return {name: inertial for name, inertial in found if inertial is not None}

    def believed(self, rng: np.random.Generator, share: float = 0.3, shift: float = 0.03) -> bytes:
        """Return a model file with perturbed mass properties of all links; see `Inertial.wrong`.

        Args:
            share: Standard deviation of ln(mass) and of the bodies' stretch.
            shift: Rms shift of the centres of mass [m].

        Raises:
            InvalidSetting: If it is no URDF.
        """
        if share == 0.0 == shift:
            return self.urdf
        if ET.fromstring(self.urdf).tag != "robot":
            raise InvalidSetting(
                "only a URDF is made wrong for the controller", argument=self.name, cure="wrong = 0"
            )
        return self._rewritten(lambda inertial: inertial.wrong(rng, share, shift))

    def _rewritten(self, change: Callable[[Inertial], Inertial]) -> bytes:
        root = ET.fromstring(self.urdf)
        for link in root.findall("link"):
            inertial = read_inertial(link)
            if inertial is not None:
                write_inertial(link, change(inertial))
        return ET.tostring(root)


def numbers(text: str | None) -> Array:
    """Return the numbers of an XML attribute, three zeros where there is none, shape (n,)."""
    return np.array([float(x) for x in (text or "0 0 0").split()])


def _child(element: ET.Element, tag: str) -> str:
    found = element.find(tag)
    return "" if found is None else found.attrib["link"]


def _chain(root: ET.Element, first: str | None, last: str | None) -> list[ET.Element]:
    """Return the joints from the first to the last one, fixed ones among them."""
    joints = root.findall("joint")
    of_child = {_child(j, "child"): j for j in joints}
    turning = [j for j in joints if j.get("type") in ("revolute", "continuous")]
    chains = []
    for end in turning if last is None else [j for j in joints if j.get("name") == last]:
        chain = [end]
        while chain[0].get("name") != first and _child(chain[0], "parent") in of_child:
            chain.insert(0, of_child[_child(chain[0], "parent")])
        chains.append(chain)
    if not chains:
        names = [j.attrib["name"] for j in turning]
        raise InvalidModel("there is no such joint that turns", argument="last", valid=names)
    return max(chains, key=lambda c: sum(j.get("type") != "fixed" for j in c))


def _cut(root: ET.Element, chain: Sequence[ET.Element]) -> list[ET.Element]:
    """Remove all but a chain and what is fixed to it; return the chain's joints that turn."""
    links = {_child(chain[0], "parent")} | {_child(j, "child") for j in chain}
    joints = list(chain)
    rest = [j for j in root.findall("joint") if j.get("type") == "fixed"]
    while more := [j for j in rest if _child(j, "parent") in links and j not in joints]:
        joints += more
        links |= {_child(j, "child") for j in more}
    for element in list(root):
        known = element.tag == "joint" and element in joints
        if not known and not (element.tag == "link" and element.get("name") in links):
            root.remove(element)
            continue
        for part in [p for p in element if p.tag in LOST]:
            element.remove(part)
    turning = [j for j in chain if j.get("type") != "fixed"]
    for joint in turning:
        if joint.get("type") not in ("revolute", "continuous"):
            raise InvalidModel("a joint that turns is expected", argument=joint.get("name"))
    return turning


def _limits(joint: ET.Element) -> tuple[float, float, float, float]:
    """Return a joint's limits: position, lower and upper, speed, torque."""
    found = joint.find("limit")
    said = {} if found is None else found.attrib
    lower, upper, speed, effort = (
        float(said.get(k, "0")) for k in ("lower", "upper", "velocity", "effort")
    )
    if joint.get("type") == "continuous" or not 0.0 < upper - lower <= 2.0 * np.pi:
        lower, upper = -np.pi, np.pi
    # A limit of zero is none that was thought of.
    return lower, upper, speed or np.inf, effort or np.inf


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


def write_inertial(link: ET.Element, found: Inertial) -> None:
    """Put mass properties into a link, in place of those it has."""
    old = link.find("inertial")
    if old is not None:
        link.remove(old)
    inertial = ET.SubElement(link, "inertial")
    xyz = " ".join(repr(float(x)) for x in found.center)
    ET.SubElement(inertial, "origin", xyz=xyz, rpy="0 0 0")
    ET.SubElement(inertial, "mass", value=repr(float(found.mass)))
    names = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
    values = found.inertia[[0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]
    ET.SubElement(
        inertial, "inertia", {k: repr(float(v)) for k, v in zip(names, values, strict=True)}
    )
