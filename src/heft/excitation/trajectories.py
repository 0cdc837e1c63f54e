"""Trajectories that are linear in their unknowns: Fourier series and splines, at rest by algebra.

    q(t) = B(t) C,    C = Z X + 1 q₀ᵀ

B holds the basis functions and Z spans the coefficients that obey all linear conditions (at rest at
the start, at both ends, periodic), so that a solver with the unknowns X can break none. Conditions
that repeat one another, as those at both ends of a period do, lose their effect by rank.

A Fourier series with one base frequency is the field's excitation [Swevers1997]: it repeats,
so that periods can be averaged, and its highest frequency is known. Splines have local support and
an end that need not be the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
from scipy.interpolate import BSpline

from heft.arrays import Array, read_only
from heft.errors import InvalidRecording, InvalidSetting

FORMAT = "heft-trajectory-1"
SMALL = 1e-10  # singular values of conditions below this share of the largest are zero
Rest = Literal["both", "start", "none"]


@dataclass(frozen=True)
class Fourier:
    """Fourier series `c + Σ_l a_l sin(lωt)/l + b_l cos(lωt)/l`, l = 1 … H, ω = 2π f.

    The factor 1/l makes coefficients of one size stand for velocities of one size.
    """

    kind: ClassVar[str] = "fourier"  # its name in files
    # the function of the coefficients, in readable ASCII
    law: ClassVar[str] = "q = C[0] + sum_l C[2l-1] sin(2 pi l f t) / l + C[2l] cos(2 pi l f t) / l"
    duration: float  # of the trajectory [s]
    harmonics: int = 5  # H
    frequency: float | None = None  # f, the lowest [Hz]; one period in the duration if not given

    def __post_init__(self) -> None:
        _require_positive(self.duration, "duration", "s")
        _require_positive(self.lowest, "frequency", "Hz")
        if self.harmonics < 1:
            raise InvalidSetting("a series has harmonics", argument="harmonics", got=self.harmonics)

    @property
    def lowest(self) -> float:
        """Base frequency f [Hz]."""
        return 1.0 / self.duration if self.frequency is None else self.frequency

    @property
    def highest(self) -> float:
        """Highest frequency H f [Hz]."""
        return self.harmonics * self.lowest

    @property
    def size(self) -> int:
        """Number K = 2H + 1 of functions."""
        return 2 * self.harmonics + 1

    @property
    def constant(self) -> Array:
        """Coefficients of the function 1, shape (K,)."""
        return np.asarray(np.eye(self.size)[0])

    @property
    def span(self) -> float:
        """Length of time from 0 within which all extremes are reached: the period 1/f [s]."""
        return 1.0 / self.lowest

    def matrix(self, time: Array, order: int = 0) -> Array:
        """Return the functions' derivatives at times, shape (N, K) [1/s^order].

        Args:
            order: Of the derivative, up to snap.
        """
        harmonic = np.arange(1, self.harmonics + 1)
        rate = 2.0 * np.pi * self.lowest * harmonic
        angle = np.asarray(time)[:, None] * rate + order * np.pi / 2.0
        out = np.empty((len(angle), self.size))
        out[:, 0], *amplitudes = self.amplitudes(order)
        scale = np.array(amplitudes[::2])
        out[:, 1::2], out[:, 2::2] = scale * np.sin(angle), scale * np.cos(angle)
        return out

    def amplitudes(self, order: int) -> Array:
        """Return the largest value of each function's derivative, shape (K,) [1/s^order]."""
        harmonic = np.arange(1, self.harmonics + 1)
        scale = (2.0 * np.pi * self.lowest * harmonic) ** order / harmonic
        return np.append(0.0**order, np.repeat(scale, 2))

    def overshoot(self, count: int) -> float:
        """Return a bound on extremes over all t per those on a uniform grid of `span`.

        It is 1/cos(π H/N), exact for trigonometric polynomials [Ehlich1964]; infinite where the
        grid has fewer than 2H + 1 points, without its end.
        """
        if count <= 2 * self.harmonics:
            return float("inf")
        return float(1.0 / np.cos(np.pi * self.harmonics / count))


@dataclass(frozen=True)
class Spline:
    """B-splines with clamped, uniform knots."""

    kind: ClassVar[str] = "spline"
    law: ClassVar[str] = "q = sum_k C[k] N_k(t), clamped uniform B-splines N_k"
    duration: float  # of the trajectory [s]
    intervals: int = 12  # between knots
    degree: int = 5  # of the polynomials; 5 gives continuous snap

    def __post_init__(self) -> None:
        _require_positive(self.duration, "duration", "s")
        if self.intervals < 1 or self.degree < 3:
            raise InvalidSetting(
                "a motion's spline has intervals, and a continuous acceleration",
                argument="intervals, degree",
                got=f"{self.intervals}, {self.degree}",
                expected="at least 1, at least 3",
            )

    @property
    def size(self) -> int:
        """Number K of functions."""
        return self.intervals + self.degree

    @property
    def constant(self) -> Array:
        """Ones: the functions add up to one, shape (K,)."""
        return np.ones(self.size)

    @property
    def span(self) -> float:
        """The duration [s]."""
        return self.duration

    @cached_property
    def knots(self) -> Array:
        """Knots, those at the ends repeated, shape (K + degree + 1,) [s]."""
        inner = np.linspace(0.0, self.duration, self.intervals + 1)
        ends = np.zeros(self.degree), np.full(self.degree, self.duration)
        return np.concatenate([ends[0], inner, ends[1]])

    @cached_property
    def _functions(self) -> BSpline:
        return BSpline(self.knots, np.eye(self.size), self.degree)

    def matrix(self, time: Array, order: int = 0) -> Array:
        """Return the functions' derivatives at times, shape (N, K); see `Fourier.matrix`.

        Outside of the duration the spline stays where it begins or ends.
        """
        if order > self.degree:
            return np.zeros((len(time), self.size))
        inside = np.clip(time, 0.0, self.duration)
        made = np.asarray(self._functions(inside, nu=order))
        if order:
            made[(time < 0.0) | (time > self.duration)] = 0.0
        return made

    def overshoot(self, count: int) -> float:
        """Return 1: no bound is known between the points."""
        del count
        return 1.0


Basis: TypeAlias = Fourier | Spline
BASES: dict[str, type[Basis]] = {b.kind: b for b in (Fourier, Spline)}


def _require_positive(value: float, argument: str, unit: str) -> None:
    if not 0.0 < value < np.inf:
        raise InvalidSetting(
            f"a {argument} is positive", argument=argument, got=value, expected=f"above 0 {unit}"
        )


@dataclass(frozen=True, eq=False)
class ExcitationTrajectory:
    """A motion of d coordinates: basis functions times coefficients."""

    basis: Basis  # functions of time
    coefficients: Array  # C, shape (K, d) [unit of the coordinate]
    names: tuple[str, ...]  # of the coordinates
    units: tuple[str, ...]  # of the coordinates

    @property
    def duration(self) -> float:
        """Length of time [s]."""
        return self.basis.duration

    def derivative(self, time: Array, order: int = 0) -> Array:
        """Return the motion's derivative at times, shape (N, d) [rad/s^order or m/s^order].

        Args:
            order: 0 for positions, up to 4 for snap.
        """
        return self.basis.matrix(time, order) @ self.coefficients

    def __call__(self, time: Array) -> tuple[Array, Array, Array]:
        """Return q, v and a at times, each of shape (N, d)."""
        q, v, a = (self.derivative(time, k) for k in range(3))
        return q, v, a

    def times(self, rate: float) -> Array:
        """Return times from 0 to the end at a rate [Hz], both included, shape (N,) [s]."""
        return np.linspace(0.0, self.duration, round(self.duration * rate) + 1)

    def shrunk(self, share: float, about: Array) -> Self:
        """Return the motion scaled about a posture, (d,): `about + share (q − about)`."""
        still = np.outer(self.basis.constant, about)
        return replace(self, coefficients=read_only(still + share * (self.coefficients - still)))

    def to_dict(self) -> dict[str, Any]:
        """Return a table of JSON's types from which `from_dict` makes an equal trajectory."""
        return {
            "format": FORMAT,
            "basis": {"kind": self.basis.kind, "law": self.basis.law, **asdict(self.basis)},
            "names": list(self.names),
            "units": list(self.units),
            "coefficients": self.coefficients.tolist(),
        }

    @staticmethod
    def from_dict(table: Mapping[str, Any]) -> ExcitationTrajectory:
        """Return the trajectory of a parsed JSON file.

        Raises:
            InvalidRecording: If it is not one.
        """
        try:
            if table["format"] != FORMAT:
                raise ValueError(f"format {table['format']}")
            stated = {k: v for k, v in table["basis"].items() if k not in ("kind", "law")}
            basis = BASES[table["basis"]["kind"]](**stated)
            names, units = (tuple(map(str, table[k])) for k in ("names", "units"))
            coefficients = np.array(table["coefficients"], dtype=float)
            if coefficients.shape != (basis.size, len(names)) or len(names) != len(units):
                raise ValueError(f"coefficients of shape {coefficients.shape}")
            if not np.isfinite(coefficients).all():
                raise ValueError("coefficients that are not finite")
        except (KeyError, TypeError, ValueError, AttributeError, InvalidSetting) as problem:
            raise InvalidRecording(
                "this is not a trajectory", got=str(problem)[:200], expected=FORMAT
            ) from problem
        return ExcitationTrajectory(basis, read_only(coefficients), names, units)


@dataclass(frozen=True)
class Family:
    """All trajectories of a basis that obey conditions; u unknowns a coordinate."""

    basis: Basis  # functions of time
    # where velocity and acceleration are zero: at both ends, at the start, nowhere
    rest: Rest = "both"
    # posture at the start, shape (d,) [rad or m]; free if not given
    start: tuple[float, ...] | None = None

    @cached_property
    def null_space(self) -> Array:
        """Z, orthonormal: coefficients that obey the conditions without a start, shape (K, u).

        Raises:
            InvalidSetting: If nothing is left that moves.
        """
        ends = {"both": (0.0, self.basis.duration), "start": (0.0,), "none": ()}[self.rest]
        rows = [self.basis.matrix(np.array([t]), k) for t in ends for k in (1, 2)]
        if self.start is not None:
            rows.append(self.basis.matrix(np.array([0.0])))
        lengths = [np.linalg.norm(r) for r in rows]
        # A row that is zero to rounding is no condition: the ends of a whole period.
        conditions = [r / n for r, n in zip(rows, lengths, strict=True) if n > SMALL * max(lengths)]
        if not conditions:
            return np.eye(self.basis.size)
        _, singular, right = np.linalg.svd(np.vstack(conditions))
        rank = int(np.sum(singular > SMALL * singular[0]))
        if rank + (self.start is None) >= self.basis.size:
            raise InvalidSetting(
                "nothing moves that obeys all conditions at the ends",
                argument="harmonics or intervals",
                got=f"{self.basis.size} functions, {rank} conditions",
                cure="give it more harmonics",
            )
        return np.asarray(right[rank:].T)

    @property
    def unknowns(self) -> int:
        """Number u of unknowns a coordinate."""
        return int(self.null_space.shape[1])

    def matrix(self, time: Array, order: int = 0) -> Array:
        """Return B Z at times, shape (N, u); the start's posture adds to it at order 0."""
        return self.basis.matrix(time, order) @ self.null_space

    def coefficients(self, X: Array) -> Array:
        """Return C of unknowns X, shape (u, d) to (K, d)."""
        made = self.null_space @ X
        if self.start is not None:
            made += np.outer(self.basis.constant, self.start)
        return np.asarray(made)

    def unknowns_of(self, coefficients: Array) -> Array:
        """Return unknowns X of coefficients that obey the conditions, shape (K, d) to (u, d)."""
        rest = coefficients
        if self.start is not None:
            rest = rest - np.outer(self.basis.constant, self.start)
        return np.asarray(self.null_space.T @ rest)

    def still(self, posture: Array) -> Array:
        """Return unknowns X of rest at a posture, (d,), as (u, d); zero where a start is given."""
        if self.start is not None:
            return np.zeros((self.unknowns, len(posture)))
        return np.outer(self.null_space.T @ self.basis.constant, posture)

    def trajectory(
        self, X: Array, names: tuple[str, ...], units: tuple[str, ...]
    ) -> ExcitationTrajectory:
        """Return the trajectory of unknowns X, shape (u, d), with the coordinates' names."""
        return ExcitationTrajectory(self.basis, read_only(self.coefficients(X)), names, units)
