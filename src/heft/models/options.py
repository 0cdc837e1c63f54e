"""What a model file cannot say: the TOML of `--with`, all of it optional.

Unknown keys are refused with the nearest known one; so is everything that is not the number
it should be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np

from heft.dynamics import FRICTION
from heft.errors import InvalidSetting, shown
from heft.files import (
    box,
    interval,
    matrix_rows,
    name_list,
    number,
    read_toml,
    refuse_unknown,
    vector,
)

STANDARD_GRAVITY = (0.0, 0.0, -9.81)
LARGEST_GRAVITY = 100.0  # [m/s²]; more is in another unit


@dataclass(frozen=True)
class JointOptions:
    """What the file of `--with` says of one joint.

    Attributes:
        friction: A model of `FRICTION`: `full` (the dictionary), `simple` (viscous, Coulomb,
            offset) or `none`.
        armature: Whether to look for rotor inertia.
        gain: Torque per current [N·m/A], to use `current.<joint>` where no torque is logged.
        gain_std: How sure that is [N·m/A]; the gain is then estimated too. Exact if not given.
        reduction: Motor turns per joint turn, to state rotor inertia on the motor's side.
        measured: Whether its torque is to be used.
        position: Where it is held still [rad or m], for joints that are not in the log.
    """

    friction: str = "full"
    armature: bool = True
    gain: float | None = None
    gain_std: float | None = None
    reduction: float | None = None
    measured: bool = True
    position: float | None = None


@dataclass(frozen=True)
class Coupling:
    """Motors that move several joints: `joint torque = matrix @ motor torque`.

    By virtual work `motor speed = matrixᵀ @ joint speed`. Reductions are part of it.

    Attributes:
        joints: Names of the rows.
        motors: Names of the columns.
        matrix: Shape (joints, motors).
    """

    joints: tuple[str, ...]
    motors: tuple[str, ...]
    matrix: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class LinkOptions:
    """What is known of one link for sure: `[limits.NAME]`.

    Attributes:
        mass: Least and most [kg].
        com: Least and most of x, y and z of the centre of mass, in the link's frame [m].
    """

    mass: tuple[float, float] | None = None
    com: tuple[tuple[float, float], ...] | None = None


@dataclass(frozen=True)
class Options:
    """What a model file cannot say: the TOML of `--with`; all of it optional.

    Attributes:
        base: `fixed`, or `free` for a floating base.
        gravity: Vector in the base's frame [m/s²]; what the model file says if not given, and
            9.81 downwards where that says nothing.
        joint: By joint name.
        coupling: Motors that move several joints.
        limits: Of mass and centre of mass, by link name.
    """

    base: Literal["fixed", "free"] = "fixed"
    gravity: tuple[float, float, float] | None = None
    joint: Mapping[str, JointOptions] | None = None
    coupling: Coupling | None = None
    limits: Mapping[str, LinkOptions] | None = None

    @staticmethod
    def from_toml(path: Path) -> Options:
        """Read a TOML file.

        Raises:
            InvalidSetting: If it is malformed, or holds unknown keys.
        """
        return Options.from_dict(read_toml(path), str(path))

    @staticmethod
    def from_dict(table: Mapping[str, Any], where: str = "options") -> Options:
        """Return the options of a parsed TOML table; see `from_toml`."""
        if "link" in table:
            raise InvalidSetting(
                "rows of Denavit-Hartenberg parameters are a model file of their own",
                argument=f"{where}, [link]",
                cure="give the TOML that holds [link] in the place of the URDF",
            )
        refuse_unknown(table, ("base", "gravity", "joint", "coupling", "limits"), where)
        base = table.get("base", "fixed")
        if base not in ("fixed", "free"):
            raise InvalidSetting(
                "base is neither fixed nor free",
                argument=f"{where}, base",
                got=shown(base),
                valid=("fixed", "free"),
            )
        gravity = None
        if "gravity" in table:
            x, y, z = vector(table["gravity"], f"{where}, gravity", 3)
            gravity = (x, y, z)
            if math.hypot(x, y, z) > LARGEST_GRAVITY:
                raise InvalidSetting(
                    "gravity is not in m/s²",
                    argument=f"{where}, gravity",
                    got=[x, y, z],
                    expected="about 9.81 in size on Earth",
                )
        joints = {}
        entries = table.get("joint", {})
        if not isinstance(entries, Mapping):
            raise InvalidSetting("[joint.NAME] tables are expected", argument=f"{where}, joint")
        for name, entry in entries.items():
            joints[name] = _joint_options(entry, f"{where}, [joint.{name}]")
        coupling = None
        if "coupling" in table:
            coupling = _coupling(table["coupling"], f"{where}, [coupling]")
        limits = _limits(table.get("limits", {}), where)
        return Options(base, gravity, joints, coupling, limits)

    def of(self, joint: str) -> JointOptions:
        """Return what is said of a joint, defaults if nothing."""
        return (self.joint or {}).get(joint, JointOptions())

    def to_dict(self) -> dict[str, Any]:
        """Return a table from which `from_dict` makes the same options."""
        table: dict[str, Any] = {"base": self.base}
        if self.gravity is not None:
            table["gravity"] = list(self.gravity)
        if self.joint:
            table["joint"] = {
                name: {k: v for k, v in vars(entry).items() if v is not None}
                for name, entry in self.joint.items()
            }
        if self.coupling is not None:
            table["coupling"] = {
                "joints": list(self.coupling.joints),
                "motors": list(self.coupling.motors),
                "matrix": [list(row) for row in self.coupling.matrix],
            }
        if self.limits:
            table["limits"] = {
                name: {k: np.array(v).tolist() for k, v in vars(entry).items() if v is not None}
                for name, entry in self.limits.items()
            }
        return table


def _joint_options(entry: object, where: str) -> JointOptions:
    if not isinstance(entry, Mapping):
        raise InvalidSetting("a table is expected", argument=where, got=shown(entry))
    refuse_unknown(entry, tuple(f.name for f in fields(JointOptions)), where)
    friction = entry.get("friction", "full")
    if not isinstance(friction, str) or friction not in FRICTION:
        raise InvalidSetting(
            "this friction model is not known",
            argument=f"{where}, friction",
            got=shown(friction),
            valid=tuple(FRICTION),
        )
    flags = {}
    for key in ("armature", "measured"):
        flags[key] = entry.get(key, True)
        if not isinstance(flags[key], bool):
            raise InvalidSetting(
                "true or false is expected", argument=f"{where}, {key}", got=shown(flags[key])
            )
    numbers = {
        key: number(entry[key], f"{where}, {key}") if key in entry else None
        for key in ("gain", "gain_std", "reduction", "position")
    }
    for key in ("gain", "reduction"):
        value = numbers[key]
        if value is not None and value <= 0.0:
            raise InvalidSetting(
                f"a {key} is a positive number",
                argument=f"{where}, {key}",
                got=value,
                cure="turn a column round with sign = [-1] in the column map (--map)",
            )
    spread, gain = numbers["gain_std"], numbers["gain"]
    if spread is not None and (gain is None or not 0.0 <= spread < gain):
        raise InvalidSetting(
            "gain_std says how sure a gain is: a gain, and 0 or more but less than it are expected",
            argument=f"{where}, gain_std",
            got=spread,
        )
    given: dict[str, Any] = {**flags, **numbers}
    return JointOptions(friction=friction, **given)


def _limits(entries: object, where: str) -> dict[str, LinkOptions]:
    if not isinstance(entries, Mapping):
        raise InvalidSetting("[limits.NAME] tables are expected", argument=f"{where}, limits")
    found = {}
    for name, entry in entries.items():
        here = f"{where}, [limits.{name}]"
        if not isinstance(entry, Mapping):
            raise InvalidSetting("a table is expected", argument=here, got=shown(entry))
        refuse_unknown(entry, ("mass", "com"), here)
        mass = interval(entry["mass"], f"{here}, mass") if "mass" in entry else None
        if mass is not None and mass[1] <= 0.0:
            raise InvalidSetting(
                "a mass is positive", argument=f"{here}, mass", got=list(mass), expected="kg"
            )
        com = box(entry["com"], f"{here}, com") if "com" in entry else None
        found[name] = LinkOptions(mass, com)
    return found


def _coupling(entry: object, where: str) -> Coupling:
    if not isinstance(entry, Mapping):
        raise InvalidSetting("a table is expected", argument=where, got=shown(entry))
    refuse_unknown(entry, ("joints", "motors", "matrix"), where)
    matrix = matrix_rows(entry.get("matrix"), f"{where}, matrix")
    motors = name_list(entry.get("motors", []), f"{where}, motors")
    joints = name_list(entry.get("joints", []), f"{where}, joints")
    if matrix.shape[0] != matrix.shape[1] or matrix.shape[1] != len(motors):
        raise InvalidSetting(
            "the matrix is not square with one column a motor",
            argument=f"{where}, matrix",
            got=f"{matrix.shape[0]}×{matrix.shape[1]}, {len(motors)} motors",
        )
    if np.linalg.matrix_rank(matrix) < len(motors):
        raise InvalidSetting("the matrix is singular", argument=f"{where}, matrix")
    return Coupling(joints, motors, tuple(tuple(map(float, row)) for row in matrix))
