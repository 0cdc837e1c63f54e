"""Robot model: kinematic tree, links, drives, and nominal (a priori) inertial parameters.

A URDF is read after `urdf_check` has validated every number in it; robots of other files (`mjcf`,
`denavit_hartenberg`) are translated to a URDF first. Links fixed to one another form one *body*,
named after the link that its joint moves; the *links* of the file are kept too, each with its pose
in its body. A TOML holds what a model file cannot state (see `options`).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from heft.arrays import Array, read_only
from heft.dynamics import BASE_CHANNELS, Column, Drives, Link, Tree
from heft.errors import InvalidModel, require_one_of
from heft.files import read_text, xml
from heft.information import Labels, ParameterSpace, inertia
from heft.recordings import is_log

from . import denavit_hartenberg, mjcf, mjcf_values, urdf, urdf_check
from .options import STANDARD_GRAVITY, JointOptions, Options
from .own_columns import OwnColumns
from .robot_parts import (
    cut_joints,
    drives_of,
    is_mended,
    links_of,
    mimics,
    places_of,
    refuse_unknown,
    tree_of,
)

LEAST_GYRATION = 0.2  # of a link, as a share of its length
# Of that, below which a file's largest radius of gyration is a template's. So is one above 1 / TINY
# of it, of two equal moments: a formula's, of another body. What was identified may be as large.
TINY = 0.2
# Links of the same moments of which a template is the only explanation, and how far their masses
# are apart at least.
COPIES, COPIED = 3, 1.05
SHOWN = 6  # links that a note names


@dataclass(frozen=True, eq=False)
class Robot:
    """A robot whose inertial and friction parameters can be identified; made by `from_file`.

    Compared by identity, so that derived arrays can be cached.
    """

    name: str  # the model's name
    tree: Tree  # its moving bodies
    links: tuple[Link, ...]  # the links of the file, in its order
    joints: tuple[str, ...]  # names of the channels that are joints, in model order
    drives: Drives  # joints and coupled motors with their friction and rotor inertia
    options: Options  # what the model file cannot state
    source: bytes  # the model file's bytes
    notes: tuple[str, ...] = ()  # messages to the user on the model file: stand-ins, repairs
    form: Literal["urdf", "mjcf", "toml"] = "urdf"  # format of the model file
    angle_error: float = 0.0  # largest rounding error of the angles that the file prints [rad]
    own_columns: OwnColumns | None = None  # the user's own columns of the regressor; None for none
    endless: tuple[str, ...] = ()  # joints that a URDF lets turn without end: `continuous`

    def __new__(cls, *args: object, **fields: object) -> Robot:
        """Refuse a file, which `from_file` reads."""
        if len(args) == 1 and not fields:
            raise InvalidModel(
                "a robot is read from its model file",
                argument=str(args[0]),
                cure=f"Robot.from_file({str(args[0])!r}), or Robot.from_urdf",
            )
        return object.__new__(cls)

    def __repr__(self) -> str:
        return f"<robot {self.name[:80]!r}: {len(self.joints)} joints, {len(self.links)} links>"

    @staticmethod
    def from_file(path: str | Path, options: Options | None = None) -> Robot:
        """Read a URDF, an MJCF file, or a TOML of Denavit-Hartenberg rows.

        Args:
            path: The file; its format follows from the suffix `.toml`, else by its root element. No
                other file is opened, not even meshes.

        Raises:
            InvalidModel: If it is malformed, or describes no tree of rigid bodies.
            InvalidSetting: If the options name joints that do not exist.
        """
        if is_log(path):
            raise InvalidModel(
                "a log is given in place of the model file",
                argument=str(path),
                expected="a URDF or MJCF file, or a TOML of Denavit-Hartenberg rows",
                cure="name the model file first, then the logs",
            )
        data = read_text(Path(path), "model file", InvalidModel)
        return Robot.from_text(data, options, str(path))

    @staticmethod
    def from_text(data: bytes, options: Options | None = None, path: str = "URDF") -> Robot:
        """Return the robot of a model file's bytes; see `from_file`.

        The file's name is for messages; its ending `.toml` says that the bytes are rows of
        Denavit-Hartenberg parameters.
        """
        options = options or Options()
        free = options.base == "free"
        if path.lower().endswith(".toml"):
            translation = denavit_hartenberg.read(data, path).translate(free, path)
            return _build(translation, data, options, path, "toml")
        root = xml.parse(data, path)
        if root.tag == "mujoco":
            model = mjcf.read(root, path)
            error = mjcf_values.angle_error(root, mjcf_values.compiler_of(root, path))
            translation = mjcf.translate(model, free, path, options.still)
            translation = replace(translation, angle_error=error)
            return _build(translation, data, options, path, "mjcf")
        return Robot.from_urdf_text(data, options, path)

    @staticmethod
    def from_urdf(path: str | Path, options: Options | None = None) -> Robot:
        """Read a URDF file; see `from_file`."""
        data = read_text(Path(path), "model file", InvalidModel)
        return Robot.from_urdf_text(data, options, str(path))

    @staticmethod
    def from_urdf_text(data: bytes, options: Options | None = None, path: str = "URDF") -> Robot:
        """Return the robot of a URDF file's bytes; see `from_file`."""
        options = options or Options()
        text = urdf.with_joints_fixed(data, path, options.still)
        return _build(urdf.Translation(text), data, options, path, "urdf")

    def with_joints(self, options: Mapping[str, JointOptions]) -> Robot:
        """Return the robot with other options of some joints, by name."""
        changed = replace(self.options, joint={**(self.options.joint or {}), **options})
        other = Robot.from_text(self.source, changed, f"model.{self.form}")
        return replace(other, own_columns=self.own_columns)

    @property
    def own_names(self) -> tuple[str, ...]:
        """Names of the parameters of the user's own columns."""
        return self.own_columns.names if self.own_columns is not None else ()

    def with_own_columns(self, path: Path | None) -> Robot:
        """Return the robot with the columns of a Python file, which is run; None adds none.

        Raises:
            InputError: If the file holds no columns of this robot.
        """
        if path is None:
            return self
        other = replace(self, own_columns=OwnColumns.load(path, self.channels))
        _ = other.labels  # names that the robot has are refused here
        return other

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of the rows of τ, the base's wrench first where it floats."""
        return (*(BASE_CHANNELS if self.tree.free_base else ()), *self.joints)

    @cached_property
    def measured(self) -> NDArray[np.intp]:
        """Indices of the channels whose effort is known: measured, or zero on a floating base."""
        first = len(self.channels) - len(self.joints)
        used = self.options.equations
        joints = [
            first + i
            for i, j in enumerate(self.joints)
            if self.options.of(j).measured and self.options.of(j).position is None
        ]
        base = range(first) if used in ("all", "base") else ()
        channels = np.array([*base, *(joints if used in ("all", "joints") else ())], dtype=np.intp)
        channels.setflags(write=False)
        return channels

    @property
    def gravity(self) -> Array:
        """Gravity vector in the base's frame, shape (3,) [m/s²]."""
        return np.array(self.options.gravity or STANDARD_GRAVITY)

    @property
    def drive_columns(self) -> tuple[Column, ...]:
        """Columns of the drives' terms, after the bodies': (drive, term), rotor inertias first."""
        return self.drives.columns

    def drive_labels(self, columns: tuple[Column, ...]) -> Labels:
        """Return names and units of drives' columns."""
        return self.drives.labels(columns, f"{self.name}:{self.structure_hash()}")

    @property
    def labels(self) -> Labels:
        """Names and units of the standard parameters: ten a body, drives', own columns', biases."""
        names: list[str] = []
        units: list[str] = []
        for body in self.tree.names:
            names += [f"{body}.{s}" for s in inertia.SYMBOLS]
            units += inertia.UNITS
        drives = self.drive_labels(self.drive_columns)
        labels = Labels((*names, *drives.names), (*units, *drives.units), drives.frame)
        if self.own_columns is not None:
            labels = self.own_columns.beside(labels)
        if not self.bias_names:
            return labels
        units = [u for _ in self.biased for u in (("N",) * 3 + ("N·m",) * 3)]
        return Labels((*labels.names, *self.bias_names), (*labels.units, *units), labels.frame)

    @property
    def biased(self) -> tuple[str, ...]:
        """Names of the wrench sensors whose bias is a parameter."""
        sensors = (self.options.sensor or {}).items()
        return tuple(name for name, sensor in sensors if sensor.bias == "estimate")

    @property
    def bias_names(self) -> tuple[str, ...]:
        """Names of the wrench sensors' bias parameters, six each; they are the last of all."""
        return tuple(
            f"{name}.bias.{axis}"
            for name in self.biased
            for axis in tuple(
                f"{kind}.{axis}" for kind in ("force", "torque") for axis in inertia.AXES
            )
        )

    @property
    def bodies_links(self) -> tuple[Link, ...]:
        """The links that have mass and move."""
        return tuple(k for k in self.links if k.body >= 0 and not k.frame_only)

    def link(self, name: str) -> Link:
        """Return the link of a name.

        Raises:
            InvalidSetting: If there is no such link.
        """
        links = {k.name: k for k in self.links}
        require_one_of(name, links, f"the robot has no link '{name}'", "frame")
        return links[name]

    def link_matrix(self) -> Array:
        """Return the matrix from links' to bodies' parameters, shape (10 bodies, 10 links).

        `π_bodies = link_matrix() @ π_links`, links as in `bodies_links`, each in its own frame. Use
        it where what is known of a body is to be stated link by link.
        """
        links = self.bodies_links
        matrix = np.zeros((10 * len(self.tree.names), 10 * len(links)))
        for k, link in enumerate(links):
            rows = slice(10 * link.body, 10 * link.body + 10)
            matrix[rows, 10 * k : 10 * k + 10] = inertia.frame_change(
                link.rotation, link.translation
            )
        return matrix

    def least_gyrations(self) -> tuple[float, ...]:
        """Return the radius of gyration that a link of its size has at least, per moving link [m].

        A uniform rod has .29 of its length. How long a link is, is told by its joints and its shape
        where they are there, by twice the distance of its centre of mass from its joint, and by
        what joints of this robot are apart. A centre of mass at the very origin is a template's.
        """
        tree = self.tree
        steps = np.where(tree.parent >= 0, np.linalg.norm(tree.translation, axis=1), 0.0)
        reach = np.zeros(len(tree.names))
        np.maximum.at(reach, tree.parent[tree.parent >= 0], steps[tree.parent >= 0])
        reaches = reach[reach > 0.0]
        usual = 0.5 * float(reaches.mean()) if len(reaches) else 0.0
        heaviest: dict[int, float] = {}  # of a body's links is as long as to the next joint
        for link in self.bodies_links:
            heaviest[link.body] = max(heaviest.get(link.body, 0.0), link.nominal[0])
        radii = []
        for link in self.bodies_links:
            center = inertia.to_body(link.nominal)[1]
            if link.nominal[0] == heaviest[link.body]:
                arm = float(np.linalg.norm(link.translation + link.rotation @ center))
                size = max(usual, link.extent, 2.0 * arm, float(reach[link.body]))
                # A centre of mass that is not stated may be anywhere along the link.
                radii.append((LEAST_GYRATION if center.any() else 0.5) * size)
            else:  # what is fixed to a link may be small, and far from the joint
                own = LEAST_GYRATION * max(link.extent, 2.0 * float(np.linalg.norm(center)))
                radii.append(max(own, _ball(link.nominal[0])))
        return tuple(radii)

    def nominal(self) -> Array:
        """Return the nominal standard parameters of the model file, as of `labels`, shape (p,).

        Bodies are the sums of their links' `Link.nominal`; drives' are zero.
        """
        values = np.zeros(len(self.labels))
        parts = [k.nominal for k in self.bodies_links]
        if parts:
            values[: 10 * len(self.tree.names)] = self.link_matrix() @ np.concatenate(parts)
        return values

    def written_bodies(self) -> Array:
        """Return the bodies' ten parameters as the file states them, shape (10 bodies,)."""
        total = np.zeros(10 * len(self.tree.names))
        for link in self.links:
            if link.body >= 0:
                change = inertia.frame_change(link.rotation, link.translation)
                total[10 * link.body : 10 * link.body + 10] += change @ link.written
        return total

    @cached_property
    def space(self) -> ParameterSpace:
        """Parameters as a model file states them, ten per link and the drives' terms; then own.

        All plants of a robot share it, a large matrix.
        """
        links, labels = self.bodies_links, self.labels
        names = [f"{k.name}.{s}" for k in links for s in inertia.SYMBOLS]
        drives = labels.select(range(inertia.PARAMETER_COUNT * len(self.tree.names), len(labels)))
        first = inertia.PARAMETER_COUNT * len(links)
        signs = [term.nonnegative for _, term in self.drive_columns]
        signs += self.own_columns.nonnegative if self.own_columns is not None else ()
        units = (*inertia.UNITS * len(links), *drives.units)
        return ParameterSpace(
            Labels((*names, *drives.names), units, labels.frame),
            scipy.linalg.block_diag(self.link_matrix(), np.eye(len(drives))),
            np.concatenate([*(k.believed for k in links), np.zeros(len(drives))]),
            tuple(range(0, first, inertia.PARAMETER_COUNT)),
            tuple(first + k for k, nonnegative in enumerate(signs) if nonnegative),
            self.least_gyrations(),
        )

    @cached_property
    def written_drives(self) -> Array:
        """What the file states of each channel's drive: damping, dry friction and rotor inertia.

        Shape (3, channels) [N·m·s/rad, N·m, kg·m²; N·s/m, N, kg if prismatic], zero where it states
        nothing. What joints that follow others state is left out.
        """
        keys = ("damping", "friction", "armature")
        stated: dict[str, Mapping[str, str]] = {}
        if self.form == "urdf":
            for joint in xml.parse(self.source, self.name).all("joint"):
                dynamics = joint.find("dynamics")
                stated[joint.attributes["name"]] = {} if dynamics is None else dynamics.attributes
        elif self.form == "mjcf":
            keys = ("damping", "frictionloss", "armature")
            bodies = mjcf.read(xml.parse(self.source, self.name), self.name).bodies
            stated = {joint.name: joint.given for body in bodies for joint in body.joints}
        given = (stated.get(channel, {}) for channel in self.channels)
        # MuJoCo takes up to three coefficients of damping, the first that of the velocity.
        rows = [[float(g.get(key, "0").split()[0]) for key in keys] for g in given]
        return read_only(np.array(rows).T)

    def structure_hash(self) -> str:
        """Return a hash of all that determines the regressor, without the inertial values.

        Robots of the same hash have the same columns in the same frames.
        """
        digest = hashlib.sha256()
        tree = self.tree
        for array in (
            tree.parent,
            tree.kind,
            tree.rotation,
            tree.translation,
            tree.axis,
            tree.channel,
            tree.multiplier,
            tree.offset,
            self.gravity,
        ):
            digest.update(np.ascontiguousarray(array).tobytes())
        for text in (*tree.names, *self.joints):
            digest.update(text.encode() + b"\0")
        for drive in self.drives:
            digest.update(drive.name.encode() + ",".join(t.name for t in drive.terms).encode())
            digest.update(drive.ratio.tobytes())
        if self.own_columns is not None:
            digest.update("\0".join(self.own_columns.names).encode())
        for name, sensor in (self.options.sensor or {}).items():
            where = (name, sensor.link, sensor.position, sensor.rotation, sensor.bias)
            digest.update(repr(where).encode())
        for joint in (j for j in self.joints if self.options.of(j).elastic):
            digest.update(f"elastic {joint}".encode())
        return digest.hexdigest()[:12]


def _build(
    translation: urdf.Translation,
    data: bytes,
    options: Options,
    path: str,
    form: Literal["urdf", "mjcf", "toml"],
) -> Robot:
    """Return the robot of a translated URDF; `data` are the bytes of the original file."""
    root = xml.parse(translation.text, path)
    urdf_check.check(root, path)
    free = options.base == "free"
    options = replace(options, gravity=options.gravity or translation.gravity or STANDARD_GRAVITY)
    cuts = cut_joints(root, options)
    moving, places = places_of(root, free, cuts)
    followers = mimics(root, path)
    first = 6 if free else 0
    names = [n for n in (place.joint_name for place in moving) if n is not None and n not in cuts]
    if not (names or free):
        raise InvalidModel(
            "the model has no moving joint",
            argument=path,
            cure="give at least one joint a type other than fixed",
        )
    joints = tuple(n for n in names if n not in followers)
    kinds = {j.attributes["name"]: j.attributes["type"] for j in root.all("joint")}
    fixed = {j for j, kind in kinds.items() if kind == "fixed"}
    refuse_unknown(options, joints, followers, fixed | translation.fixed, path)
    tree = tree_of(moving, joints, followers, cuts, first)
    links, notes = links_of(root, moving, places, translation, cuts)
    moved = [k.name for k in links if k.body >= 0]
    for name, contact in (options.contact or {}).items():
        message = f"a contact is one of '{contact.link}', which is no link of the robot"
        require_one_of(contact.link, moved, message, f"[contact.{name}], link")
    drives = drives_of(joints, tree, options, first)
    rounded = translation.angle_error if form != "urdf" else urdf.angle_error(root)
    if rounded > 1e-5:  # [rad] of angles; at five digits, 1.5708, nothing that a log tells changes
        notes.append(
            f"angles of the file are off multiples of 15° by up to {rounded:.1g} rad, as rounding "
            "does: base parameters are those of exact multiples"
        )
    robot = Robot(
        root.attributes.get("name") or "robot",
        tree,
        links,
        joints,
        drives,
        options,
        data,
        (*translation.notes, *notes),
        form,
        rounded,
        endless=tuple(j for j in joints if form == "urdf" and kinds[j] == "continuous"),
    )
    return _with_stand_ins(robot)


def _ball(mass: float) -> float:
    """Return the radius of gyration of a ball of water, for a link that says no size [m]."""
    return math.sqrt(0.4) * float(np.cbrt(0.75 / math.pi * mass / 1e3))


def _with_stand_ins(robot: Robot) -> Robot:
    """Return a robot whose prior has moments of the links' size where the file's are no body's.

    They are a template's (far too small or large, copied, or a power of ten for several links) or
    what cannot be. Notes name the links.
    """
    moments: dict[tuple[float, ...], list[tuple[str, float]]] = {}
    why: dict[str, str] = {}  # by name of a link
    gyrations = robot.least_gyrations()
    for link, least in zip(robot.bodies_links, gyrations, strict=True):
        mass, _, tensor = inertia.to_body(link.written)
        if not link.given or is_mended(link):
            continue
        low, middle, high = np.linalg.eigvalsh(tensor).tolist()
        most = max(least, float(np.mean(gyrations)), _ball(mass)) / TINY
        if high < mass * (TINY * least) ** 2:
            why[link.name] = "are those of a body far smaller than the link"
        elif high > mass * most**2 and np.isclose(middle, [low, high], atol=0.0).any():
            why[link.name] = "are those of a body far larger than the link"
        # Mirrored twins have moments of other signs, and the same mass.
        key = tuple(np.round(tensor[np.triu_indices(3)], 12).tolist())
        moments.setdefault(key, []).append((link.name, mass))
    for (value, *rest), alike in moments.items():
        masses = [mass for _, mass in alike]
        if len(alike) >= COPIES and max(masses) > COPIED * min(masses):
            why = {k: "are the same for links of other masses" for k, _ in alike} | why
        elif len(alike) > 1 and f"{value:e}"[:8] == "1.000000" and rest == [0, 0, value, 0, value]:
            why = {k: "are one power of ten in all axes of several links" for k, _ in alike} | why
    notes, raised = [], {}
    for reason in sorted(set(why.values())):
        names = [k.name for k in robot.links if why.get(k.name) == reason]
        few = ", ".join(names[:SHOWN]) + f" and {len(names) - SHOWN} more" * (len(names) > SHOWN)
        notes.append(
            f"moments of inertia in the model file {reason}, as a template's: {few}; those of a "
            "body of the link's size are used as the prior"
        )
    for link, least in zip(robot.bodies_links, gyrations, strict=True):
        reason = why.get(link.name, "")
        if reason or is_mended(link):
            mass, center, tensor = inertia.to_body(link.nominal)
            body = inertia.from_body(mass, center, tensor * ("larger" not in reason))
            raised[link.name] = replace(link, resized=read_only(inertia.raised_to(body, least)))
    links = tuple(raised.get(link.name, link) for link in robot.links)
    return replace(robot, links=links, notes=(*robot.notes, *notes))
