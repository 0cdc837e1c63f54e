"""What the numbers of an MJCF file mean: units, orientations, inertials, defaults, geoms.

The inertial of a body without `<inertial>` is the sum of its solid geoms. Solids of uniform density
have moments in closed form. Meshes do not: their files are never opened.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidModel
from heft.files import Element, numbers, walk
from heft.information import inertia, matrix_of_axis_angle, matrix_of_quaternion

from .urdf import SIZES, printed_angle_error, printed_direction_error

ORIENTATIONS = {"quat": 4, "axisangle": 4, "euler": 3, "xyaxes": 6, "zaxis": 3}
# Where the six numbers of `fullinertia` stand in the matrix.
FULL_INDEX = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
Defaults = Mapping[str, Mapping[str, Mapping[str, str]]]  # class, tag, attribute


@dataclass(frozen=True)
class Compiler:
    """Settings of `<compiler>` that determine the meaning of numbers."""

    degrees: bool = True  # whether angles are in degrees; in radians if not
    # axes of Euler angles; capitals are fixed axes, small letters turn with the body
    sequence: str = "xyz"
    from_geoms: bool = True  # whether bodies without `<inertial>` have that of their geoms
    groups: tuple[float, float] = (0.0, 5.0)  # first and last group of geoms that count then
    least_mass: float = 0.0  # lower bound to which MuJoCo raises masses [kg]
    least_moment: float = 0.0  # lower bound to which MuJoCo raises principal moments [kg·m²]
    limits_by_range: bool = True  # whether what has a range is limited to it
    meshes: str = ""  # folder of mesh files, from that of the model file

    def angle(self, value: float) -> float:
        """Return an angle of the file in rad."""
        return math.radians(value) if self.degrees else value


def unit(direction: Array, what: str, where: str) -> Array:
    """Return a vector of length 1, or raise `InvalidModel` if it has no direction."""
    length = float(np.linalg.norm(direction))
    if not 1e-10 < length < 1e10:
        raise InvalidModel(f"{what} has no direction", argument=where, got=direction.tolist())
    return np.asarray(direction / length)


def vector(
    attributes: Mapping[str, str], key: str, count: int, where: str, default: tuple[float, ...]
) -> Array:
    """Return the numbers of an attribute in the file's unit, shape (count,); else the default."""
    if key not in attributes:
        return np.array(default)
    return np.array(numbers(attributes[key], count, key, where))


def number(attributes: Mapping[str, str], key: str, where: str, default: float) -> float:
    """Return the number of an attribute in the file's unit; else the default."""
    return float(vector(attributes, key, 1, where, (default,))[0])


def angle_error(root: Element, compiler: Compiler) -> float:
    """Return the largest rounding error of the angles of bodies and joint axes [rad].

    Quaternions and axes are looked at, and Euler angles where they are in radians.
    """
    errors = [0.0]
    for element in walk(root):
        given = element.attributes
        if element.tag == "body" and "euler" in given and not compiler.degrees:
            errors.append(printed_angle_error(numbers(given["euler"], 3, "euler", "")))
        for key, count in (("quat", 4), ("axis", 3)):
            if element.tag in ("body", "joint") and key in given:
                errors.append(printed_direction_error(numbers(given[key], count, key, "")))
    return max(errors)


def orientation(attributes: Mapping[str, str], compiler: Compiler, where: str) -> Array:
    """Return the rotation matrix R that an element's attributes state, shape (3, 3).

    Columns are the element's axes in its parent's frame; the identity where nothing is stated.

    Raises:
        InvalidModel: If it is stated twice, or a vector has no direction.
    """
    stated = [k for k in ORIENTATIONS if k in attributes]
    if not stated:
        return np.eye(3)
    if len(stated) > 1:
        raise InvalidModel(
            "an orientation is stated twice", argument=where, got=", ".join(stated), cure="keep one"
        )
    kind = stated[0]
    given = vector(attributes, kind, ORIENTATIONS[kind], where, ())
    if kind == "quat":
        return matrix_of_quaternion(unit(given, "a quaternion", where))
    if kind == "axisangle":
        return matrix_of_axis_angle(unit(given[:3], "an axis", where), compiler.angle(given[3]))
    if kind == "xyaxes":
        x = unit(given[:3], "the x axis", where)
        y = unit(given[3:] - (x @ given[3:]) * x, "the y axis", where)
        return np.column_stack([x, y, np.cross(x, y)])
    if kind == "zaxis":
        z = unit(given, "the z axis", where)
        across = np.cross([0.0, 0.0, 1.0], z)
        sine = float(np.linalg.norm(across))
        axis = across / sine if sine > 1e-10 else np.array([1.0, 0.0, 0.0])
        return matrix_of_axis_angle(axis, math.atan2(sine, z[2]))
    rotation = np.eye(3)
    for letter, angle in zip(compiler.sequence, given, strict=True):
        step = matrix_of_axis_angle(np.eye(3)["xyz".index(letter.lower())], compiler.angle(angle))
        # A small letter is an axis that turns with the body, a capital one that does not.
        rotation = rotation @ step if letter.islower() else step @ rotation
    return rotation


def placed(
    attributes: Mapping[str, str],
    compiler: Compiler,
    where: str,
    rotation: Array,
    translation: Array,
) -> tuple[Array, Array]:
    """Return the pose of an element that stands in a frame of a pose, both in a body's frame."""
    move = vector(attributes, "pos", 3, where, (0.0, 0.0, 0.0))
    turn = orientation(attributes, compiler, where)
    return rotation @ turn, translation + rotation @ move


def compiler_of(root: Element, path: str) -> Compiler:
    """Return the combined settings of all `<compiler>` elements, the later over the earlier.

    Raises:
        InvalidModel: If they make MuJoCo use other masses than those of the file, or what they say
            of angles or coordinates is not known.
    """
    compiler = Compiler()
    for element in root.all("compiler"):
        get = element.attributes.get
        where = f"{path}, <compiler>, line {element.line}"
        if (
            get("inertiafromgeom") == "true"
            or number(element.attributes, "settotalmass", where, -1.0) > 0.0
        ):
            key = "settotalmass" if get("settotalmass") else "inertiafromgeom"
            raise InvalidModel(
                f"with {key}, MuJoCo does not use the file's masses, nor those that are found",
                argument=where,
                got=f"{key}={get(key)!r}",
                cure=f"take {key} out of <compiler>",
            )
        if get("coordinate", "local") != "local":
            raise InvalidModel(
                "global coordinates are not read, by MuJoCo neither",
                argument=where,
                got=f"coordinate={get('coordinate')!r}",
            )
        sequence = get("eulerseq", compiler.sequence)
        if len(sequence) != 3 or not set(sequence.lower()) <= set("xyz"):
            raise InvalidModel(
                "eulerseq is not three axes", argument=where, got=repr(sequence), expected="xyz"
            )
        angle = get("angle", "degree" if compiler.degrees else "radian")
        if angle not in ("degree", "radian"):
            raise InvalidModel(
                "this unit of angles is not known",
                argument=where,
                got=repr(angle),
                valid=("degree", "radian"),
            )
        low, high = vector(element.attributes, "inertiagrouprange", 2, where, compiler.groups)
        compiler = Compiler(
            angle == "degree",
            sequence,
            get("inertiafromgeom", "auto" if compiler.from_geoms else "false") == "auto",
            (float(low), float(high)),
            number(element.attributes, "boundmass", where, compiler.least_mass),
            number(element.attributes, "boundinertia", where, compiler.least_moment),
            get("autolimits", "true" if compiler.limits_by_range else "false") == "true",
            get("meshdir", get("assetdir", compiler.meshes)),
        )
    return compiler


def defaults_of(root: Element, path: str) -> Defaults:
    """Return the default attributes of each class, with those of the classes around it.

    They are by class, tag and name; the outermost class is also found as `main`.

    Raises:
        InvalidModel: If a class of defaults has no name of its own.
    """
    classes: dict[str, dict[str, dict[str, str]]] = {"main": {}}

    def enter(element: Element, above: str | None) -> None:
        name = element.attributes.get("class", "main" if above is None else "")
        if not name or (above is not None and name in classes):
            raise InvalidModel(
                "a class of defaults has no name of its own",
                argument=f"{path}, line {element.line}",
                got=repr(name),
            )
        tags = {t: dict(a) for t, a in classes[above or "main"].items()}
        for child in element.children:
            if child.tag != "default":
                tags[child.tag] = tags.get(child.tag, {}) | child.attributes
        classes[name] = tags
        if above is None:
            classes["main"] = tags  # the outermost class is the main one, whatever its name
        for child in element.all("default"):
            enter(child, name)

    for element in root.all("default"):
        enter(element, None)
    return classes


def inertial_parameters(element: Element, compiler: Compiler, where: str) -> Array:
    """Return the ten parameters π that an `<inertial>` states, in the body's frame, shape (10,).

    Raises:
        InvalidModel: If position, mass or inertia is not stated, or the mass is negative.
    """
    given = element.attributes
    for key in ("pos", "mass"):
        if key not in given:
            raise InvalidModel(f"<inertial> has no {key}", argument=where)
    mass = number(given, "mass", where, 0.0)
    if mass < 0.0:
        raise InvalidModel(
            "a mass is negative", argument=where, got=mass, expected="0 or more, in kg"
        )
    com = vector(given, "pos", 3, where, ())
    turn = orientation(given, compiler, where)
    if ("diaginertia" in given) == ("fullinertia" in given):
        raise InvalidModel(
            "<inertial> needs either diaginertia or fullinertia",
            argument=where,
            got="both" if "diaginertia" in given else "neither",
        )
    if "diaginertia" in given:
        tensor = np.diag(vector(given, "diaginertia", 3, where, ()))
    else:
        if any(k in given for k in ORIENTATIONS):
            raise InvalidModel(
                "fullinertia is in the body's axes: it takes no orientation beside it",
                argument=where,
                cure="state diaginertia, or take the orientation out",
            )
        tensor = np.zeros((3, 3))
        full = vector(given, "fullinertia", 6, where, ())
        for (i, j), value in zip(FULL_INDEX, full, strict=True):
            tensor[i, j] = tensor[j, i] = value
    return inertia.from_body(mass, com, turn @ tensor @ turn.T)


@dataclass(frozen=True)
class Geom:
    """A geom as the file states it."""

    given: Mapping[str, str]  # its attributes, those of its class included
    where: str  # its place in the file, for messages
    rotation: Array  # of the frame that it stands in, in its body's frame, shape (3, 3)
    translation: Array  # likewise, shape (3,) [m]

    @property
    def kind(self) -> str:
        """Its type, such as `box`."""
        return self.given.get("type", "mesh" if "mesh" in self.given else "sphere")

    @property
    def collides(self) -> bool:
        """Whether it takes part in collisions; else it is only visual."""
        return any(self.given.get(k, "1").strip() != "0" for k in ("contype", "conaffinity"))

    def solid(self, compiler: Compiler) -> tuple[tuple[float, ...], Array, Array]:
        """Return size [m], rotation and translation [m] of a solid in its body's frame.

        Raises:
            InvalidModel: If it has no size, or its place is malformed.
        """
        given, where, kind = self.given, self.where, self.kind
        written = given.get("size")
        size = numbers(written, max(1, min(len((written or "").split()), 3)), "size", where)
        turn = orientation(given, compiler, where)
        move = vector(given, "pos", 3, where, (0.0, 0.0, 0.0))
        if "fromto" in given:
            ends = vector(given, "fromto", 6, where, ())
            along = ends[:3] - ends[3:]  # MuJoCo's z axis points to the first end
            turn = orientation({"zaxis": " ".join(map(repr, along.tolist()))}, compiler, where)
            move = 0.5 * (ends[:3] + ends[3:])
            half = 0.5 * float(np.linalg.norm(along))
            across = 1 if kind in ("capsule", "cylinder") else 2
            size = [*(size[0],) * across, half]
        count = SIZES[kind]
        if len(size) < count or min(size[:count], default=0.0) <= 0.0:
            raise InvalidModel(
                f"a {kind} has no size", argument=where, got=given.get("size"), cure="give it one"
            )
        return tuple(size[:count]), self.rotation @ turn, self.translation + self.rotation @ move
