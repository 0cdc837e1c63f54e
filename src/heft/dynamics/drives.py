"""Drives: joint friction, rotor inertia and offset, as terms that are linear in coefficients.

A drive of position x, speed `w` and acceleration `ẇ` takes the effort

    armature · ẇ + viscous · w + coulomb · sign(w) + offset
        + Σ_s sigmoid_s · tanh(w/s) + Σ_b stop_b · z_b/b
        + Σ_g stribeck_g · z_b/b · exp(−(w/g)²) + load · tanh(w/s) |τ_rigid|

which acts on the channels by the drive's ratios r (virtual work). A joint is a drive of its
own; a motor coupled to several joints is one more. The *stop* operator has a state: `z_b` follows
the position, `z ← clip(z + Δx, ±b)`, as a spring that slips at the width b (presliding, the
element of the Maxwell-slip model [AlBender2005]); it is 0 at a log's first row. τ_rigid is the
rigid-body torque on the drive's joint: load-dependent gear friction grows with it.

The effort is linear in the coefficients, and all but the offset are nonnegative. So a few fixed
scales approximate any friction curve that rises with speed and travel, falls from standstill to
slow sliding as a Gaussian does [Stribeck1902; ArmstrongHelouvry1994], or both; the fitted
curve is passive (in steady sliding every term takes power) and stays bounded outside the data, as
polynomials in the speed do not.

What a term is stands here and nowhere else: a class that follows `Term`, entered in `TERMS`.
Rows, units, sign constraints, the presliding state, steady curves, exported code, the schema of
results, simulation and comparison read the registry; `FRICTION` lists the terms of each friction
model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import ClassVar, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import InvalidSetting, did_you_mean
from heft.information import Labels

# Coefficients are not negative, so that sums of a few fixed scales stand for any course between
# them: one convex problem. Scales are less than a factor of two apart.
SIGMOID_SPEEDS = (0.003, 0.01, 0.018, 0.031, 0.055, 0.097, 0.17, 0.3)  # [rad/s]
STOP_WIDTHS = (
    *(0.0003, 0.00055, 0.001, 0.0018),
    *(0.003, 0.0054, 0.0096, 0.017, 0.031, 0.055, 0.1),
)  # [rad]
STRIBECK_SPEEDS = (0.02, 0.04, 0.07, 0.12, 0.2)  # [rad/s]
STRIBECK_TIME = 0.015  # [s], width over speed: widths of 0.3 to 3 mrad
# (w/scale)² from which exp(−(w/scale)²) is below a double's rounding, and taken for 0: no column of
# next to nothing, whose squares would underflow in the triangles.
FAR = 36.0
LOAD_SPEED = 0.02  # [rad/s]
STANDSTILL_SPEED = 0.018  # [rad/s], below which Coulomb friction fades in predictions
LINEAR_SCALE = 0.1  # [m/rad], of sliding joints' speeds and widths


@dataclass(frozen=True)
class DriveMotion:
    """Motion of one drive at N samples, of which its terms are functions."""

    position: Array  # x, shape (N,) [rad or m]
    velocity: Array  # w, shape (N,) [rad/s or m/s]
    acceleration: Array  # ẇ, shape (N,) [rad/s² or m/s²]
    rigid: Array  # rigid-body torque τ_rigid on the drive's joint, shape (N,) [N·m or N]
    stops: Mapping[float, Array]  # presliding z/b by width b, in [−1, 1], shape (N,) each


class Term(Protocol):
    """One term of a drive's effort: a coefficient times a function of the drive's motion.

    A frozen dataclass that inherits from it defines `kind`, `law`, `scale` and `column`, and what
    differs from the defaults: `python` and `c` if it is friction, `steady` unless it is zero.
    """

    kind: ClassVar[str]  # its name in files and labels
    law: ClassVar[str]  # the function in readable ASCII, of w, x, z and scale
    # python, c: the function in exported code: an expression of the doubles `x`, `w`, `scale`, `z`
    # and `width` (presliding, where `remembers`) and `rigid` (where `loaded`)
    python: ClassVar[str] = ""
    c: ClassVar[str] = ""
    scale: float | None  # speed of a sigmoid or load [rad/s or m/s], width of a stop [rad or m]
    # of the scale of a revolute joint's drive; None where there is no scale
    scale_unit: ClassVar[str | None] = None
    nonnegative: ClassVar[bool] = True  # whether its coefficient is constrained to be nonnegative
    # whether its columns are a dictionary of scales that together approximate a friction curve and
    # are nearly collinear: each is a base parameter of its own, and none counts in the condition
    # number
    dictionary: ClassVar[bool] = False
    # whether it is proportional to the acceleration: rotor inertia, no friction
    inertial: ClassVar[bool] = False
    # whether it depends on the rigid-body torque: load-dependent gear friction
    loaded: ClassVar[bool] = False
    # whether it depends on the presliding state z/b of the width b
    remembers: ClassVar[bool] = False
    width_over_scale: ClassVar[float] = 1.0  # of a term that remembers: b over scale [1 or s]
    # whether only joints have it, not motors coupled to several
    joints_only: ClassVar[bool] = False
    # whether it is a differentiable function of speed and acceleration alone, so that motions can
    # be designed by gradients; see `speed_slope`
    smooth: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """Name with the scale, such as `viscous` or `sigmoid[0.03]`."""
        return self.kind if self.scale is None else f"{self.kind}[{self.scale:g}]"

    @property
    def width(self) -> float:
        """Width b of the presliding state that it depends on [rad or m]; NaN without one."""
        if not self.remembers or self.scale is None:
            return math.nan
        return self.width_over_scale * self.scale

    @classmethod
    def unit(cls, linear: bool) -> str:
        """Return the unit of the coefficient, that of effort by default.

        Args:
            linear: Whether the drive's joint is prismatic.
        """
        return "N" if linear else "N·m"

    def column(self, motion: DriveMotion) -> Array:
        """Return the function at N samples, shape (N,); its unit times that of `unit` is effort.

        A sample's value depends on that sample alone: the presliding state is part of the motion.
        By default it is that of steady sliding.
        """
        return self.steady(motion.velocity)

    def steady(self, velocity: Array) -> Array:
        """Return the function in steady sliding without load, shape (N,), of speeds (N,).

        Stops have slipped, the acceleration is zero, and a function of the position is replaced by
        its mean.

        Args:
            velocity: w, shape (N,) [rad/s or m/s].
        """
        return np.zeros(len(velocity))

    def write(self, motion: DriveMotion, out: Array) -> None:
        """Write the column, shape (N,), into `out`, without allocation where possible."""
        out[:] = self.column(motion)

    def slope(self, motion: DriveMotion) -> Array:
        """Return ∂column/∂τ_rigid, shape (N,); zero unless `loaded`."""
        return np.zeros(len(motion.velocity))

    def speed_slope(self, velocity: Array) -> Array:
        """Return ∂column/∂w at speeds w, shape (N,), of a term that is `smooth`."""
        return np.zeros(len(velocity))


@dataclass(frozen=True)
class Armature(Term):
    """Rotor inertia, reflected to the joint: proportional to the acceleration ẇ."""

    kind = "armature"
    law = "dw/dt"
    inertial = True
    smooth = True
    scale: None = None

    @classmethod
    def unit(cls, linear: bool) -> str:
        """Return the unit of inertia, of mass where linear."""
        return "kg" if linear else "kg·m²"

    def column(self, motion: DriveMotion) -> Array:
        """Return the acceleration ẇ [rad/s² or m/s²]."""
        return motion.acceleration


@dataclass(frozen=True)
class Viscous(Term):
    """Viscous friction, proportional to the speed w."""

    kind = "viscous"
    law = "w"
    python = "w"
    c = "w"
    smooth = True
    scale: None = None

    @classmethod
    def unit(cls, linear: bool) -> str:
        """Return the unit of effort over speed."""
        return "N·s/m" if linear else "N·m·s/rad"

    def steady(self, velocity: Array) -> Array:
        """Return the speed w [rad/s or m/s]."""
        return velocity

    def speed_slope(self, velocity: Array) -> Array:
        """Return 1."""
        return np.ones(len(velocity))


@dataclass(frozen=True)
class Coulomb(Term):
    """Coulomb friction sign(w), zero at rest; simulated experiments add sticking."""

    kind = "coulomb"
    law = "sign(w), sign(0) = 0"
    python = "1.0 if w > 0.0 else -1.0 if w < 0.0 else w"
    c = "w > 0.0 ? 1.0 : w < 0.0 ? -1.0 : w"
    scale: None = None

    def steady(self, velocity: Array) -> Array:
        """Return sign(w)."""
        return np.asarray(np.sign(velocity))


@dataclass(frozen=True)
class Sigmoid(Term):
    """Friction tanh(w/s) that saturates at the speed s; several scales approximate the curve."""

    kind = "sigmoid"
    law = "tanh(w / scale)"
    python = "math.tanh(w / scale)"
    c = "tanh(w / scale)"
    scale_unit = "rad/s"
    dictionary = True
    smooth = True
    scale: float

    def write(self, motion: DriveMotion, out: Array) -> None:
        """Write tanh(w/s)."""
        np.divide(motion.velocity, self.scale, out=out)
        np.tanh(out, out=out)

    def steady(self, velocity: Array) -> Array:
        """Return tanh(w/s)."""
        return np.asarray(np.tanh(velocity / self.scale))

    def speed_slope(self, velocity: Array) -> Array:
        """Return (1 − tanh²(w/s))/s."""
        return (1.0 - np.tanh(velocity / self.scale) ** 2) / self.scale


@dataclass(frozen=True)
class Stop(Term):
    """Presliding friction z/b: an elastic element that slips at the width b.

    It is the element of the Maxwell-slip model [AlBender2005].
    """

    kind = "stop"
    law = "z / width, width = scale"
    python = "z / width"
    c = "z / width"
    scale_unit = "rad"
    dictionary = True
    remembers = True
    scale: float

    def column(self, motion: DriveMotion) -> Array:
        """Return the presliding z/b, in [−1, 1]."""
        return motion.stops[self.width]

    def steady(self, velocity: Array) -> Array:
        """Return sign(w): in steady sliding the element has slipped."""
        return np.asarray(np.sign(velocity))


@dataclass(frozen=True)
class Load(Term):
    """Load-dependent gear friction tanh(w/s) |τ_rigid|."""

    kind = "load"
    law = "tanh(w / scale) * |rigid effort|"
    python = "math.tanh(w / scale) * abs(rigid)"
    c = "tanh(w / scale) * fabs(rigid)"
    scale_unit = "rad/s"
    dictionary = True
    loaded = True
    joints_only = True  # a motor that moves several joints has no rigid effort of its own
    scale: float

    @classmethod
    def unit(cls, linear: bool) -> str:
        """Return the unit of friction torque over load torque."""
        return "1"

    def column(self, motion: DriveMotion) -> Array:
        """Return tanh(w/s) |τ_rigid| [N·m or N]."""
        return np.asarray(np.tanh(motion.velocity / self.scale) * np.abs(motion.rigid))

    def slope(self, motion: DriveMotion) -> Array:
        """Return ∂column/∂τ_rigid = tanh(w/s) sign(τ_rigid)."""
        return np.asarray(np.tanh(motion.velocity / self.scale) * np.sign(motion.rigid))


@dataclass(frozen=True)
class Offset(Term):
    """Constant effort: the bias of a torque sensor, or of a spring that hardly moves."""

    kind = "offset"
    law = "1"
    python = "1.0"
    c = "1.0"
    nonnegative = False
    smooth = True
    joints_only = True  # a motor's would be a combination of its joints'
    scale: None = None

    def steady(self, velocity: Array) -> Array:
        """Return ones."""
        return np.ones(len(velocity))


@dataclass(frozen=True)
class Stribeck(Term):
    """Friction z/b · exp(−(w/g)²) that falls with the speed w over the speed g [Stribeck1902].

    It takes the state of a stop, not the speed's sign: after a reversal the friction that falls is
    carried by the same elastic contact, and turns with it [CanudasDeWit1995].
    """

    kind = "stribeck"
    law = f"z / width * exp(-(w / scale)^2), width = {STRIBECK_TIME:g} s * scale"
    python = "z / width * math.exp(-(w / scale) * (w / scale))"
    c = "z / width * exp(-(w / scale) * (w / scale))"
    scale_unit = "rad/s"
    dictionary = True
    remembers = True
    width_over_scale = STRIBECK_TIME
    scale: float

    def column(self, motion: DriveMotion) -> Array:
        """Return the presliding z/b times exp(−(w/g)²)."""
        return motion.stops[self.width] * self._fall(motion.velocity)

    def write(self, motion: DriveMotion, out: Array) -> None:
        """Write the presliding z/b times exp(−(w/g)²)."""
        np.divide(motion.velocity, self.scale, out=out)
        np.square(out, out=out)
        far = ~(out < FAR)
        np.negative(out, out=out)
        np.exp(out, out=out)
        out[far] = 0.0
        out *= motion.stops[self.width]

    def steady(self, velocity: Array) -> Array:
        """Return sign(w) exp(−(w/g)²): in steady sliding the element has slipped."""
        return np.sign(velocity) * self._fall(velocity)

    def _fall(self, velocity: Array) -> Array:
        square = (velocity / self.scale) ** 2
        return np.where(square < FAR, np.exp(-square), 0.0)


# All kinds, in the order of a robot's columns; a new one comes last.
TERMS: dict[str, type[Term]] = {
    t.kind: t for t in (Armature, Viscous, Coulomb, Sigmoid, Stop, Load, Offset, Stribeck)
}
# What friction is made of by the model's name, poorest first: the term classes at the scales of a
# revolute joint. `simple` is what a URDF takes; it is fitted to every drive with friction,
# whatever else describes it.
FRICTION: dict[str, tuple[Term, ...]] = {
    "none": (),
    "simple": (Viscous(), Coulomb(), Offset()),
    "full": (
        Viscous(),
        *(Sigmoid(s) for s in SIGMOID_SPEEDS),
        *(Stop(w) for w in STOP_WIDTHS),
        *(Stribeck(g) for g in STRIBECK_SPEEDS),
        Load(LOAD_SPEED),
        Offset(),
    ),
}


def make_term(kind: str, scale: float | None = None) -> Term:
    """Return the term of a kind and a scale.

    Args:
        kind: One of `TERMS`.
        scale: Positive where the kind has one [rad/s or rad; m/s or m if prismatic], else None.

    Raises:
        InvalidSetting: If the kind is unknown, a scale is missing, superfluous, or not positive
            and finite.
    """
    if kind not in TERMS:
        raise InvalidSetting(
            "this term of friction is not known",
            argument="term",
            got=kind,
            valid=tuple(TERMS),
            cure=did_you_mean(kind, TERMS),
        )
    made: Callable[..., Term] = TERMS[kind]
    scaled = TERMS[kind].scale_unit is not None
    if scaled != (scale is not None) or (scale is not None and not 0.0 < scale < math.inf):
        raise InvalidSetting(
            f"the scale of '{kind}' is not one",
            argument="scale",
            got=scale,
            expected="a number above 0" if scaled else "none",
        )
    return made() if scale is None else made(scale)


def term_named(name: str) -> Term:
    """Return the term of a name, such as `viscous` or `sigmoid[0.03]`; see `Term.name`.

    Raises:
        InvalidSetting: If the kind is unknown or the scale is not one of that kind.
    """
    kind, bracket, scale = name.removesuffix("]").partition("[")
    try:
        return make_term(kind, float(scale) if bracket else None)
    except ValueError:
        return make_term(kind, math.nan)  # which says what is wrong with the scale


def friction_terms(model: str, linear: bool = False) -> tuple[Term, ...]:
    """Return the terms of a friction model.

    Args:
        model: One of `FRICTION`: `none`, `simple` or `full`.
        linear: Whether the drive's joint is prismatic: scales are then in m/s and m,
            `LINEAR_SCALE` times those in rad/s and rad.

    Raises:
        InvalidSetting: If there is no such model.
    """
    if model not in FRICTION:
        raise InvalidSetting(
            "this friction model is not known",
            argument="friction",
            got=model,
            valid=tuple(FRICTION),
        )
    factor = LINEAR_SCALE if linear else 1.0
    return tuple(
        t if t.scale is None else make_term(t.kind, factor * t.scale) for t in FRICTION[model]
    )


@dataclass(frozen=True)
class Drive:
    """Friction, rotor inertia and offset of a joint, or of a motor coupled to several joints."""

    name: str  # of the joint or motor
    # ∂w/∂v, the drive's speed per speed of each channel, shape (channels,); its effort acts on the
    # channels by the same ratios (virtual work)
    ratio: Array
    terms: tuple[Term, ...]  # terms of its effort
    linear: bool  # whether its speed is in m/s, not rad/s

    @cached_property
    def moved(self) -> NDArray[np.intp]:
        """Positions of the channels that move it, ascending."""
        return np.flatnonzero(self.ratio)

    @property
    def friction(self) -> tuple[Term, ...]:
        """The terms of friction and offset: all but rotor inertia."""
        return tuple(t for t in self.terms if not t.inertial)

    @property
    def simple_terms(self) -> tuple[Term, ...]:
        """The terms of its simple friction, whatever else describes it; none without friction."""
        if not self.friction:
            return ()
        joint = np.count_nonzero(self.ratio) == 1
        return tuple(t for t in FRICTION["simple"] if joint or not t.joints_only)

    @property
    def rubs(self) -> bool:
        """Whether it has dissipative friction, and so may stick."""
        return any(t.nonnegative for t in self.friction)


Column = tuple[int, Term]  # position of the drive, and which of its terms


@dataclass(frozen=True, eq=False)
class Drives(Sequence[Drive]):
    """The drives of a robot, joints first, and the columns of their terms."""

    members: tuple[Drive, ...]  # the drives, which are also its items

    @overload
    def __getitem__(self, index: int) -> Drive: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Drive, ...]: ...
    def __getitem__(self, index: int | slice) -> Drive | tuple[Drive, ...]:
        """Return a drive, or some."""
        return self.members[index]

    def __len__(self) -> int:
        """Return the number of drives."""
        return len(self.members)

    @cached_property
    def ratios(self) -> Array:
        """What takes channels' motion to the drives', shape (channels, drives); (0, 0) of none."""
        return np.array([d.ratio for d in self], dtype=float).reshape(len(self), -1).T

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """All columns of the drives: (drive, term), in the order of `TERMS`, scales and drives."""
        return _by_kind((d, t) for d, drive in enumerate(self) for t in drive.terms)

    @cached_property
    def simple_columns(self) -> tuple[Column, ...]:
        """Columns of simple friction, which may be among `columns` too: (drive, term)."""
        return _by_kind((d, t) for d, drive in enumerate(self) for t in drive.simple_terms)

    @cached_property
    def stops(self) -> tuple[tuple[int, float], ...]:
        """Stop operators, (drive, width b) each, in the order of `DriveState.stops`.

        Terms of a drive that depend on the same width share one.
        """
        widths = {(term.width, d) for d, term in self.columns if term.remembers}
        return tuple((d, width) for width, d in sorted(widths))

    @cached_property
    def stops_of(self) -> tuple[dict[float, int], ...]:
        """For each drive its stop operators: the position among `stops` by width b."""
        operators: tuple[dict[float, int], ...] = tuple({} for _ in self)
        for k, (d, width) in enumerate(self.stops):
            operators[d][width] = k
        return operators

    @cached_property
    def runs(self) -> tuple[tuple[slice, Term, tuple[int, ...]], ...]:
        """`runs_of` all columns."""
        return runs_of(self.columns)

    @cached_property
    def _actions(self) -> tuple[NDArray[np.int64], Array]:
        return self._actions_of(self.columns)

    def actions(self, columns: Sequence[Column]) -> tuple[NDArray[np.int64], Array]:
        """Return channel and column of each action of columns, (actions, 2), and its ratio.

        A column acts on every channel whose ratio to its drive is not zero.
        """
        return self._actions if columns is self.columns else self._actions_of(columns)

    def _actions_of(self, columns: Sequence[Column]) -> tuple[NDArray[np.int64], Array]:
        channels = [np.flatnonzero(drive.ratio).tolist() for drive in self]
        acts = [(channel, k) for k, (d, _) in enumerate(columns) for channel in channels[d]]
        weights = [self.members[columns[k][0]].ratio[channel] for channel, k in acts]
        return np.array(acts, dtype=np.int64).reshape(-1, 2), np.array(weights)

    def name(self, column: Column) -> str:
        """Return a column's name: that of its drive and its term, such as `elbow.viscous`."""
        return f"{self[column[0]].name}.{column[1].name}"

    def labels(self, columns: Sequence[Column], frame: str = "") -> Labels:
        """Return names and units of columns' coefficients.

        Args:
            frame: Identifies the robot that they belong to, so that only equal ones combine.
        """
        units = tuple(t.unit(self[d].linear) for d, t in columns)
        return Labels(tuple(self.name(c) for c in columns), units, frame)

    def names_where(self, chosen: Callable[[Term], bool]) -> frozenset[str]:
        """Return the names of all columns whose term satisfies a predicate."""
        return frozenset(self.name(c) for c in self.columns if chosen(c[1]))


def runs_of(columns: Sequence[Column]) -> tuple[tuple[slice, Term, tuple[int, ...]], ...]:
    """Return runs of columns of one term: where they stand, the term, and its drives."""
    runs = (list(run) for _, run in groupby(range(len(columns)), key=lambda k: columns[k][1]))
    return tuple(
        (slice(run[0], run[-1] + 1), columns[run[0]][1], tuple(columns[k][0] for k in run))
        for run in runs
    )


def _by_kind(columns: Iterable[Column]) -> tuple[Column, ...]:
    order = {kind: k for k, kind in enumerate(TERMS)}
    return tuple(sorted(columns, key=lambda c: (order[c[1].kind], c[1].scale or 0.0, c[0])))
