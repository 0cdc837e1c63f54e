"""A robot as a table of Denavit-Hartenberg parameters: a TOML that stands for a model file.

Rows are `[a, alpha, d, theta, kind]`; lengths in m, angles in rad. With the *modified*
convention [Craig1986; KhalilKleinfinger1986] row i goes from frame i−1 to frame i by
`Rx(alpha) Tx(a) Rz(theta) Tz(d)` and joint i turns about z of frame i; with the *standard* one
[DenavitHartenberg1955; Paul1981] by `Rz(theta) Tz(d) Tx(a) Rx(alpha)` and joint i turns about z
of frame i−1. A revolute joint's position is added to theta, a prismatic one's to d. Link i is
what frame i is fixed to, and its inertial is stated in frame i.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidModel, InvalidSetting, nearest
from heft.files import LARGEST_NUMBER, Scalar, list_of, name_list, number, refuse_unknown, rows_of
from heft.information import inertia, matrix_of_rpy

from . import urdf

CONVENTIONS = ("modified", "standard")
KINDS = ("revolute", "prismatic")
BASE = "base"
LARGEST_ANGLE = 6.5  # [rad]: more is a table in degrees


@dataclass(frozen=True)
class Row(Generic[Scalar]):
    """One row of the table.

    Attributes:
        a: Along x [m].
        alpha: About x [rad].
        d: Along z [m].
        theta: About z [rad].
        prismatic: Whether the joint slides along z; it turns about z if not.
    """

    a: Scalar
    alpha: Scalar
    d: Scalar
    theta: Scalar
    prismatic: bool


@dataclass(frozen=True)
class Body(Generic[Scalar]):
    """What a link holds, in its own frame.

    Attributes:
        mass: [kg].
        com: Centre of mass [m].
        inertia: About the centre of mass [kg·m²].
    """

    mass: Scalar
    com: tuple[Scalar, Scalar, Scalar]
    inertia: tuple[tuple[Scalar, ...], ...]


@dataclass(frozen=True)
class Outline(Generic[Scalar]):
    """What the file says, its scalars as they were read: as numbers, or as expressions.

    Attributes:
        name: The robot's name.
        modified: Whether rows follow the modified convention; the standard one if not.
        rows: From the base outwards.
        joints: Their names.
        links: Names of what they move.
        bodies: By link, as far as the file has them.
        gravity: In the base's frame [m/s²].
    """

    name: str
    modified: bool
    rows: tuple[Row[Scalar], ...]
    joints: tuple[str, ...]
    links: tuple[str, ...]
    bodies: Mapping[str, Body[Scalar]]
    gravity: tuple[Scalar, Scalar, Scalar] | None


@dataclass(frozen=True)
class Table:
    """A robot of Denavit-Hartenberg rows, in numbers.

    Attributes:
        said: What the file says.
        nominal: Ten parameters by link, in the link's frame.
    """

    said: Outline[float]
    nominal: Mapping[str, Array]

    def translate(self, free: bool, path: str) -> urdf.Translation:
        """Return the robot said as a URDF; with `free`, refuse.

        In the standard convention a joint stands in the frame before its link's; links called
        `<link>@<joint>` stand there.
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
        return urdf.Translation(text, frozenset(aids), gravity=said.gravity)


def read(data: bytes, path: str) -> Table:
    """Return the robot of a TOML file's bytes.

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
    scalar: Callable[[object, str], Scalar],
    require: Callable[[Row[Scalar] | Body[Scalar], str], None],
) -> Outline[Scalar]:
    """Return what a TOML file's bytes say.

    Args:
        data: The bytes.
        path: Where they are from.
        scalar: What reads an entry that stands for a number; it may raise `InvalidSetting`.
        require: What looks at a row or a body that was read; it may raise `InvalidSetting`.

    Raises:
        InvalidModel: If it is no TOML, or no such table; naming the key and the row.
    """
    try:
        table = tomllib.loads(data.decode("utf-8-sig"))
        return _outline(table, path, scalar, require)
    except InvalidSetting as problem:
        raise InvalidModel(
            problem.message,
            argument=problem.argument,
            got=problem.got,
            expected=problem.expected,
            valid=problem.valid,
            cure=problem.cure,
        ) from None
    except (ValueError, RecursionError) as problem:  # also TOMLDecodeError, UnicodeDecodeError
        raise InvalidModel("this is not a TOML file", argument=path, got=str(problem)) from None


def require_possible(part: Row[float] | Body[float], where: str) -> None:
    """Raise `InvalidSetting` for numbers that no row, or no body, can have."""
    if isinstance(part, Row):
        if max(abs(part.alpha), abs(part.theta)) > LARGEST_ANGLE:
            raise InvalidSetting(
                "an angle is more than a turn",
                argument=where,
                got=max(part.alpha, part.theta, key=abs),
                expected="radians",
                cure="write 1.5707963267948966 for 90 degrees",
            )
        _require_bounded(np.array([part.a, part.d]), where)
        return
    if part.mass < 0.0:
        raise InvalidSetting("a mass is negative", argument=f"{where}, mass", got=part.mass)
    tensor = np.array(part.inertia)
    _require_bounded(np.array([part.mass, *part.com, *tensor.flat]), where)
    scale = float(np.abs(tensor).max())
    if not math.isclose(float(np.abs(tensor - tensor.T).max()), 0.0, abs_tol=1e-9 * scale):
        raise InvalidSetting(
            "the inertia is not a symmetric 3×3 matrix",
            argument=f"{where}, inertia",
            got=repr(tensor.tolist())[:80],
        )


def _require_bounded(values: Array, where: str) -> None:
    """Raise `InvalidSetting` for numbers larger than anything that moves has."""
    if np.abs(values).max() > LARGEST_NUMBER:
        raise InvalidSetting(
            "a number is beyond anything that moves",
            argument=where,
            got=float(np.abs(values).max()),
            expected=f"at most {LARGEST_NUMBER:g}",
        )


def _outline(
    table: Mapping[str, Any],
    path: str,
    scalar: Callable[[object, str], Scalar],
    require: Callable[[Row[Scalar] | Body[Scalar], str], None],
) -> Outline[Scalar]:
    link = table.get("link")
    if "link" not in table and ("joint" in table or "coupling" in table or "limits" in table):
        raise InvalidSetting(
            "this TOML holds options, not a robot",
            argument=path,
            cure="give a model file first, and this one behind --with",
        )
    if not isinstance(link, Mapping):
        raise InvalidSetting(
            "a robot in a TOML is a [link] table of Denavit-Hartenberg rows",
            argument=path,
            expected="[link] with convention and table",
        )
    refuse_unknown(table, ("name", "gravity", "link", "inertial"), path)
    where = f"{path}, [link]"
    refuse_unknown(link, ("convention", "table", "joints", "names"), where)
    convention = link.get("convention")
    if convention not in CONVENTIONS:
        raise InvalidSetting(
            "the convention of the rows is not said"
            if convention is None
            else "unknown convention",
            argument=f"{where}, convention",
            got=None if convention is None else repr(convention),
            valid=CONVENTIONS,
            cure="modified (Craig): joint i turns about z of frame i; standard: of frame i-1",
        )
    entries = link.get("table")
    if not isinstance(entries, list) or not entries:
        raise InvalidSetting("a list of rows is expected", argument=f"{where}, table")
    rows = []
    for k, entry in enumerate(entries, 1):
        here = f"{where}, table, row {k}"
        rows.append(_row(entry, here, scalar))
        require(rows[-1], here)
    joints = _names(link.get("joints"), "joint", len(rows), f"{where}, joints")
    links = _names(link.get("names"), "link", len(rows), f"{where}, names")
    if BASE in links:
        raise InvalidSetting(f"'{BASE}' is what the first joint stands on", argument=where)
    name = table.get("name", "robot")
    if not isinstance(name, str):
        raise InvalidSetting("a name is expected", argument=f"{path}, name", got=repr(name))
    gravity = None
    if "gravity" in table:
        x, y, z = list_of(scalar, table["gravity"], f"{path}, gravity", 3)
        gravity = (x, y, z)
    entries = table.get("inertial", {})
    if not isinstance(entries, Mapping):
        raise InvalidSetting("[inertial.NAME] tables are expected", argument=f"{path}, inertial")
    bodies = {}
    for link_name, entry in entries.items():
        here = f"{path}, [inertial.{link_name}]"
        if link_name not in links:
            near = nearest(link_name, links)
            raise InvalidSetting(
                f"the robot has no link '{link_name}'",
                argument=here,
                valid=links,
                cure=f"did you mean '{near}'?" if near else None,
            )
        bodies[link_name] = _body(entry, here, scalar)
        require(bodies[link_name], here)
    modified = convention == "modified"
    return Outline(name, modified, tuple(rows), joints, links, bodies, gravity)


def _row(entry: object, where: str, scalar: Callable[[object, str], Scalar]) -> Row[Scalar]:
    if not isinstance(entry, list) or len(entry) != 5:
        raise InvalidSetting(
            "a row is not [a, alpha, d, theta, kind]", argument=where, got=repr(entry)[:80]
        )
    a, alpha, d, theta = (scalar(v, where) for v in entry[:4])
    kind = entry[4]
    if kind not in KINDS:
        near = nearest(kind, KINDS) if isinstance(kind, str) else None
        raise InvalidSetting(
            "a joint is neither revolute nor prismatic",
            argument=where,
            got=repr(kind),
            valid=KINDS,
            cure=f"did you mean '{near}'?" if near else None,
        )
    return Row(a, alpha, d, theta, kind == "prismatic")


def _names(value: object, stem: str, count: int, where: str) -> tuple[str, ...]:
    if value is None:
        return tuple(f"{stem}{k}" for k in range(1, count + 1))
    names = name_list(value, where)
    if len(names) != count or not all(n.strip() for n in names):
        raise InvalidSetting(
            "one name a row is expected", argument=where, got=f"{len(names)} for {count} rows"
        )
    return names


def _body(entry: object, where: str, scalar: Callable[[object, str], Scalar]) -> Body[Scalar]:
    if not isinstance(entry, Mapping):
        raise InvalidSetting("a table is expected", argument=where, got=repr(entry)[:60])
    refuse_unknown(entry, ("mass", "com", "inertia"), where)
    missing = [k for k in ("mass", "com", "inertia") if k not in entry]
    if missing:
        raise InvalidSetting(
            f"{missing[0]} is missing", argument=where, valid=("mass", "com", "inertia")
        )
    mass = scalar(entry["mass"], f"{where}, mass")
    x, y, z = list_of(scalar, entry["com"], f"{where}, com", 3)
    tensor = rows_of(scalar, entry["inertia"], f"{where}, inertia")
    if len(tensor) != 3 or len(tensor[0]) != 3:
        raise InvalidSetting(
            "the inertia is not a symmetric 3×3 matrix",
            argument=f"{where}, inertia",
            got=repr(entry["inertia"])[:80],
        )
    return Body(mass, (x, y, z), tuple(map(tuple, tensor)))
