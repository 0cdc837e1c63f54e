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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import inertia, urdf
from .errors import InvalidModel, InvalidSetting, nearest
from .inertia import Array
from .markup import LARGEST_NUMBER
from .options import matrix_rows, name_list, number, refuse_unknown, vector

CONVENTIONS = ("modified", "standard")
KINDS = ("revolute", "prismatic")
BASE = "base"
LARGEST_ANGLE = 6.5  # [rad]: more is a table in degrees


@dataclass(frozen=True)
class Row:
    """One row of the table.

    Attributes:
        a: Along x [m].
        alpha: About x [rad].
        d: Along z [m].
        theta: About z [rad].
        prismatic: Whether the joint slides along z; it turns about z if not.
    """

    a: float
    alpha: float
    d: float
    theta: float
    prismatic: bool


@dataclass(frozen=True)
class Table:
    """A robot of Denavit-Hartenberg rows.

    Attributes:
        name: The robot's name.
        modified: Whether rows follow the modified convention; the standard one if not.
        rows: From the base outwards.
        joints: Their names.
        links: Names of what they move.
        nominal: Ten parameters by link, in the link's frame.
        gravity: In the base's frame [m/s²].
    """

    name: str
    modified: bool
    rows: tuple[Row, ...]
    joints: tuple[str, ...]
    links: tuple[str, ...]
    nominal: Mapping[str, Array]
    gravity: tuple[float, float, float] | None

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
        links = [urdf.link_text(BASE)]
        joints, aids = [], []
        above = BASE
        for row, joint, link in zip(self.rows, self.joints, self.links, strict=True):
            about_z = inertia.rotation_rpy(0.0, 0.0, row.theta)
            about_x = inertia.rotation_rpy(row.alpha, 0.0, 0.0)
            along_x, along_z = np.array([row.a, 0.0, 0.0]), np.array([0.0, 0.0, row.d])
            kind = "prismatic" if row.prismatic else "continuous"
            z = np.array([0.0, 0.0, 1.0])
            links.append(urdf.link_text(link, self.nominal.get(link)))
            if self.modified:
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
        text = urdf.robot_text(self.name, links, joints)
        return urdf.Translation(text, frozenset(aids), gravity=self.gravity)


def read(data: bytes, path: str) -> Table:
    """Return the robot of a TOML file's bytes.

    Raises:
        InvalidModel: If it is no TOML, or no such table; naming the key and the row.
    """
    try:
        return _table(tomllib.loads(data.decode("utf-8-sig")), path)
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


def _table(table: Mapping[str, Any], path: str) -> Table:
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
    rows = tuple(_row(e, f"{where}, table, row {k}") for k, e in enumerate(entries, 1))
    joints = _names(link.get("joints"), "joint", len(rows), f"{where}, joints")
    links = _names(link.get("names"), "link", len(rows), f"{where}, names")
    if BASE in links:
        raise InvalidSetting(f"'{BASE}' is what the first joint stands on", argument=where)
    name = table.get("name", "robot")
    if not isinstance(name, str):
        raise InvalidSetting("a name is expected", argument=f"{path}, name", got=repr(name))
    gravity = None
    if "gravity" in table:
        x, y, z = vector(table["gravity"], f"{path}, gravity", 3)
        gravity = (x, y, z)
    entries = table.get("inertial", {})
    if not isinstance(entries, Mapping):
        raise InvalidSetting("[inertial.NAME] tables are expected", argument=f"{path}, inertial")
    nominal = {}
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
        nominal[link_name] = _inertial(entry, here)
    return Table(name, convention == "modified", rows, joints, links, nominal, gravity)


def _bounded(values: Array, where: str) -> Array:
    """Return numbers no larger than anything that moves has, or raise `InvalidSetting`."""
    if np.abs(values).max() > LARGEST_NUMBER:
        raise InvalidSetting(
            "a number is beyond anything that moves",
            argument=where,
            got=float(np.abs(values).max()),
            expected=f"at most {LARGEST_NUMBER:g}",
        )
    return values


def _row(entry: object, where: str) -> Row:
    if not isinstance(entry, list) or len(entry) != 5:
        raise InvalidSetting(
            "a row is not [a, alpha, d, theta, kind]", argument=where, got=repr(entry)[:80]
        )
    a, alpha, d, theta = (number(v, where) for v in entry[:4])
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
    if max(abs(alpha), abs(theta)) > LARGEST_ANGLE:
        raise InvalidSetting(
            "an angle is more than a turn",
            argument=where,
            got=max(alpha, theta, key=abs),
            expected="radians",
            cure="write 1.5707963267948966 for 90 degrees",
        )
    _bounded(np.array([a, d]), where)
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


def _inertial(entry: object, where: str) -> Array:
    if not isinstance(entry, Mapping):
        raise InvalidSetting("a table is expected", argument=where, got=repr(entry)[:60])
    refuse_unknown(entry, ("mass", "com", "inertia"), where)
    missing = [k for k in ("mass", "com", "inertia") if k not in entry]
    if missing:
        raise InvalidSetting(
            f"{missing[0]} is missing", argument=where, valid=("mass", "com", "inertia")
        )
    mass = number(entry["mass"], f"{where}, mass")
    if mass < 0.0:
        raise InvalidSetting("a mass is negative", argument=f"{where}, mass", got=mass)
    com = np.array(vector(entry["com"], f"{where}, com", 3))
    _bounded(np.append(com, mass), where)
    tensor = matrix_rows(entry["inertia"], f"{where}, inertia")
    scale = float(np.abs(_bounded(tensor, where)).max())
    if tensor.shape != (3, 3) or not math.isclose(
        float(np.abs(tensor - tensor.T).max()), 0.0, abs_tol=1e-9 * scale
    ):
        raise InvalidSetting(
            "the inertia is not a symmetric 3×3 matrix",
            argument=f"{where}, inertia",
            got=repr(tensor.tolist())[:80],
        )
    return inertia.from_body(mass, com, tensor)
