"""Robot models as tables of Denavit-Hartenberg parameters, in a TOML file.

Rows are `[a, alpha, d, theta, kind]`; lengths in m, angles in rad. With the *modified*
convention [Craig1986; Khalil1986] row i goes from frame i−1 to frame i by
`Rx(alpha) Tx(a) Rz(theta) Tz(d)` and joint i turns about z of frame i; with the *standard* one
[Denavit1955; Paul1981] by `Rz(theta) Tz(d) Tx(a) Rx(alpha)` and joint i turns about z
of frame i−1. A revolute joint's position is added to theta, a prismatic one's to d. Link i is
what frame i is fixed to, and its inertial is stated in frame i.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidModel, InvalidSetting, did_you_mean, shown
from heft.files import (
    LARGEST_NUMBER,
    Keys,
    Reader,
    Scalar,
    Section,
    Text,
    list_of,
    located,
    name_list,
    named,
    number,
    rows_of,
    visible_texts,
)
from heft.information import inertia, matrix_of_rpy

from . import rounding, urdf

CONVENTIONS = ("modified", "standard")
KINDS = ("revolute", "prismatic")
BASE = "base"
NOT_A_TENSOR = "the inertia is not a symmetric 3×3 matrix"
LARGEST_ANGLE = 6.5  # [rad]: more is a table in degrees


@dataclass(frozen=True)
class Row(Generic[Scalar]):
    """Denavit-Hartenberg parameters of one joint."""

    a: Scalar  # translation along x [m]
    alpha: Scalar  # rotation about x [rad]
    d: Scalar  # translation along z [m]
    theta: Scalar  # rotation about z [rad]
    prismatic: bool  # whether the joint slides along z; it turns about z if not


@dataclass(frozen=True)
class Body(Generic[Scalar]):
    """Mass, centre of mass and inertia of a link, in its own frame."""

    mass: Scalar  # [kg]
    com: tuple[Scalar, Scalar, Scalar]  # centre of mass [m]
    inertia: tuple[tuple[Scalar, ...], ...]  # about the centre of mass [kg·m²]


@dataclass(frozen=True)
class Outline(Generic[Scalar]):
    """Content of a Denavit-Hartenberg file, its scalars either numbers or expressions."""

    name: str  # the robot's name
    modified: bool  # whether rows follow the modified convention; the standard one if not
    rows: tuple[Row[Scalar], ...]  # from the base outwards
    joints: tuple[str, ...]  # their names
    links: tuple[str, ...]  # names of the links that they move
    bodies: Mapping[str, Body[Scalar]]  # inertials by link, where the file states them
    gravity: tuple[Scalar, Scalar, Scalar] | None  # in the base's frame [m/s²]


@dataclass(frozen=True)
class Table:
    """Robot of Denavit-Hartenberg rows with numeric parameters."""

    said: Outline[float]  # content of the file
    # ten inertial parameters by link, in the link's frame, shape (10,)
    nominal: Mapping[str, Array]

    def translate(self, free: bool, path: str) -> urdf.Translation:
        """Return the robot as a URDF.

        In the standard convention a joint's frame is the one before its link's; auxiliary links
        called `<link>@<joint>` are placed there.

        Args:
            free: Whether a floating base is requested, which a table cannot have.

        Raises:
            InvalidModel: If `free`.
        """
        if free:
            raise InvalidModel(
                "a table of Denavit-Hartenberg rows has no floating base",
                argument=path,
                cure="describe the robot in a URDF",
            )
        said = self.said
        links = [urdf.link_text(BASE)]
        joints, aids = [], []
        above = BASE
        for row, joint, link in zip(said.rows, said.joints, said.links, strict=True):
            about_z = matrix_of_rpy(0.0, 0.0, row.theta)
            about_x = matrix_of_rpy(row.alpha, 0.0, 0.0)
            along_x, along_z = np.array([row.a, 0.0, 0.0]), np.array([0.0, 0.0, row.d])
            kind = "prismatic" if row.prismatic else "continuous"
            z = np.array([0.0, 0.0, 1.0])
            links.append(urdf.link_text(link, self.nominal.get(link)))
            if said.modified:
                place = along_x + about_x @ along_z
                joints.append(urdf.Joint(joint, kind, above, link, about_x @ about_z, place, z))
            else:
                aid = f"{link}@{joint}"
                aids.append(aid)
                links.append(urdf.link_text(aid))
                joints += [
                    urdf.Joint(joint, kind, above, aid, about_z, along_z, z),
                    urdf.Joint(f"{link}@{aid}", "fixed", aid, link, about_x, along_x),
                ]
            above = link
        text = urdf.robot_text(said.name, links, joints)
        printed = [angle for row in said.rows for angle in (row.alpha, row.theta)]
        error = rounding.angle_error(printed)
        return urdf.Translation(text, frozenset(aids), gravity=said.gravity, angle_error=error)


def read(data: bytes, path: str) -> Table:
    """Return the robot that a TOML file's bytes state by Denavit-Hartenberg rows.

    Raises:
        InvalidModel: If it is no TOML, or no such table; naming the key and the row.
    """
    said = outline(data, path, number, require_possible)
    nominal = {
        name: inertia.from_body(body.mass, np.array(body.com), np.array(body.inertia))
        for name, body in said.bodies.items()
    }
    return Table(said, nominal)


def outline(
    data: bytes,
    path: str,
    scalar: Reader[Scalar],
    require: Callable[[Row[Scalar] | Body[Scalar]], None],
) -> Outline[Scalar]:
    """Return the content of a TOML file's bytes, its scalars read by a given function.

    Args:
        scalar: Reads an entry that stands for a number; it may raise `InvalidSetting`.
        require: Checks a row or a body that was read; it may raise `InvalidSetting`.

    Raises:
        InvalidModel: If it is no TOML, or no such table; naming the key and the row.
    """
    try:
        table = dict(visible_texts(tomllib.loads(data.decode("utf-8-sig"))))
        return _outline(table, path, scalar, require)
    except InvalidSetting as problem:
        raise problem.retold(InvalidModel, problem.argument) from None
    except (ValueError, RecursionError) as problem:  # also TOMLDecodeError, UnicodeDecodeError
        raise InvalidModel("this is not a TOML file", argument=path, got=str(problem)) from None


def require_possible(part: Row[float] | Body[float]) -> None:
    """Raise `InvalidSetting` if a row or an inertial has implausible numbers.

    Raises:
        InvalidSetting: If an angle exceeds a turn, a number is beyond what moving things have, a
            mass is negative, or an inertia is no symmetric tensor.
    """
    if isinstance(part, Row):
        if max(abs(part.alpha), abs(part.theta)) > LARGEST_ANGLE:
            raise InvalidSetting(
                "an angle is more than a turn",
                got=max(part.alpha, part.theta, key=abs),
                expected="radians",
                cure="write 1.5707963267948966 for 90 degrees",
            )
        _require_bounded(np.array([part.a, part.d]))
        return
    if part.mass < 0.0:
        raise InvalidSetting("a mass is negative", argument="mass", got=part.mass)
    tensor = np.array(part.inertia)
    _require_bounded(np.array([part.mass, *part.com, *tensor.flat]))
    scale = float(np.abs(tensor).max())
    if not math.isclose(float(np.abs(tensor - tensor.T).max()), 0.0, abs_tol=1e-9 * scale):
        raise InvalidSetting(NOT_A_TENSOR, argument="inertia", got=shown(tensor.tolist()))


def _require_bounded(values: Array) -> None:
    if np.abs(values).max() > LARGEST_NUMBER:
        raise InvalidSetting(
            "a number is beyond anything that moves",
            got=float(np.abs(values).max()),
            expected=f"at most {LARGEST_NUMBER:g}",
        )


def _outline(
    table: Mapping[str, Any],
    path: str,
    scalar: Reader[Scalar],
    require: Callable[[Row[Scalar] | Body[Scalar]], None],
) -> Outline[Scalar]:
    if "link" not in table and ("joint" in table or "coupling" in table or "limits" in table):
        raise InvalidSetting(
            "this TOML holds options, not a robot",
            argument=path,
            cure="give a model file first, and this one behind --with",
        )
    if not isinstance(table.get("link"), Mapping):
        raise InvalidSetting(
            "a robot in a TOML is a [link] table of Denavit-Hartenberg rows",
            argument=path,
            expected="[link] with convention and table",
        )
    row = partial(_row, scalar, require)
    body: Keys = {"mass": scalar, "com": list_of(scalar, 3), "inertia": rows_of(scalar)}
    bodies = named(Section(partial(_body, require), body), "[inertial.NAME] tables are expected")
    link: Keys = {
        "convention": _convention,
        "table": list_of(row, of="rows", entry=", row "),
        "joints": name_list,
        "names": name_list,
    }
    robot: Keys = {
        "name": Text("a name is expected"),
        "gravity": list_of(scalar, 3),
        "link": Section(_links, link, required=("convention", "table")),
        "inertial": bodies,
    }
    return Section(_robot, robot)(table, path)


def _robot(
    link: Mapping[str, Any],
    name: str = "robot",
    gravity: tuple[Any, Any, Any] | None = None,
    inertial: Mapping[str, Body[Any]] | None = None,
) -> Outline[Any]:
    bodies = inertial or {}
    for body in bodies:
        if body not in link["links"]:
            raise InvalidSetting(
                f"the robot has no link '{body}'",
                argument=f"[inertial.{body}]",
                valid=link["links"],
                cure=did_you_mean(body, link["links"]),
            )
    return Outline(name=name, gravity=gravity, bodies=bodies, **link)


def _links(
    convention: str,
    table: tuple[Row[Any], ...],
    joints: tuple[str, ...] | None = None,
    names: tuple[str, ...] | None = None,
) -> dict[str, Any]:
    if not table:
        raise InvalidSetting("a list of rows is expected", argument="table")
    for key, given in (("joints", joints), ("names", names)):
        if given is not None and (len(given) != len(table) or not all(n.strip() for n in given)):
            raise InvalidSetting(
                "one name a row is expected",
                argument=key,
                got=f"{len(given)} for {len(table)} rows",
            )
    numbers = range(1, len(table) + 1)
    joints = joints or tuple(f"joint{k}" for k in numbers)
    links = names or tuple(f"link{k}" for k in numbers)
    if BASE in links:
        raise InvalidSetting(f"'{BASE}' is what the first joint stands on", argument="names")
    return {"modified": convention == "modified", "rows": table, "joints": joints, "links": links}


def _convention(value: object, where: str) -> str:
    says = "the convention of the rows is not said" if value is None else "unknown convention"
    cure = "modified (Craig): joint i turns about z of frame i; standard: of frame i-1"
    return Text(says, CONVENTIONS, cure=cure)(value, where)


def _row(
    scalar: Reader[Scalar], require: Callable[[Row[Scalar]], None], value: object, where: str
) -> Row[Scalar]:
    if not isinstance(value, list) or len(value) != 5:
        raise InvalidSetting(
            "a row is not [a, alpha, d, theta, kind]", argument=where, got=shown(value)
        )
    a, alpha, d, theta = list_of(scalar)(value[:4], where)
    kind = Text("a joint is neither revolute nor prismatic", KINDS)(value[4], where)
    row = Row(a, alpha, d, theta, kind == "prismatic")
    with located(where):
        require(row)
    return row


def _body(require: Callable[[Body[Any]], None], **said: Any) -> Body[Any]:
    for key in ("mass", "com", "inertia"):
        if key not in said:
            raise InvalidSetting(f"{key} is missing", valid=("mass", "com", "inertia"))
    if [len(row) for row in said["inertia"]] != [3, 3, 3]:
        raise InvalidSetting(NOT_A_TENSOR, argument="inertia", got=shown(said["inertia"]))
    body = Body(**said)
    require(body)
    return body
