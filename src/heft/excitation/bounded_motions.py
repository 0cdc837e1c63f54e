"""Motions whose every derivative is bounded for all times, not only where it is looked at.

A trigonometric polynomial of degree H that is known at N > 2H equally spaced points of its period
is nowhere larger than its largest value there over cos(π H / N) [Ehlich1964]. A spline lies in the
convex hull of the Bernstein coefficients of its pieces. Both are proofs, at no cost: of the
derivatives, too, which are again trigonometric polynomials and splines.

On a short interval a function is at most what it is at the ends, and an eighth of the length's
square times its largest second derivative: what certificates of torque and clearance start from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import InvalidSetting

from .trajectories import ExcitationTrajectory, Fourier, Spline

ROUNDING = 1e-12  # of the sum of all terms' sizes, by which a bound is set wider


class BoundedMotion(Protocol):
    """A motion of d channels with proven bounds of its derivatives, from 0 to `duration`."""

    @property
    def duration(self) -> float:
        """Length of the motion [s]."""

    @property
    def smoothness(self) -> int:
        """Order of the highest derivative that is bounded, those below being continuous."""

    def derivative(self, order: int, time: Array) -> Array:
        """Return a derivative at N times [s], shape (N, d); of order 0 the positions."""

    def extremes(self, order: int) -> tuple[Array, Array]:
        """Return proven bounds of a derivative over all times: least and most, each (d,)."""

    def largest(self, order: int, begin: Array, end: Array) -> Array:
        """Return proven bounds of a derivative's size on n intervals [s], shape (n, d)."""


@dataclass(frozen=True, eq=False)
class HarmonicMotion:
    """Trigonometric polynomials q(t) = c + Σ aₖ cos(k ω t) + bₖ sin(k ω t), one a channel."""

    base: float  # base frequency ω [rad/s]
    constant: Array  # c, shape (d,) [rad or m]
    cosine: Array  # aₖ of k = 1 … H, shape (H, d) [rad or m]
    sine: Array  # bₖ, shape (H, d) [rad or m]
    duration: float  # until when it is looked at [s]
    looks: int = 256  # points of a period at which it is evaluated, per harmonic

    @property
    def smoothness(self) -> int:
        """All derivatives are bounded."""
        return 99

    @property
    def degree(self) -> int:
        """Number of harmonics H."""
        return len(self.cosine)

    def derivative(self, order: int, time: Array) -> Array:
        """Return a derivative at N times [s], shape (N, d); see `BoundedMotion`."""
        frequency = self.base * np.arange(1, self.degree + 1)
        phase = np.outer(time, frequency)
        cosine, sine = self.cosine, self.sine
        for _ in range(order):
            cosine, sine = frequency[:, None] * sine, -frequency[:, None] * cosine
        value = np.cos(phase) @ cosine + np.sin(phase) @ sine
        return np.asarray(value if order else value + self.constant)

    def extremes(self, order: int) -> tuple[Array, Array]:
        """Return least and most of a derivative over all times, each (d,); see `BoundedMotion`.

        The bound is applied to the polynomial less the middle of what is seen.
        """
        count = self.looks * max(self.degree, 1)
        time = 2.0 * math.pi / self.base * np.arange(count) / count
        values = self.derivative(order, time)
        least, most = values.min(axis=0), values.max(axis=0)
        half = (most - least) / 2.0 / math.cos(math.pi * self.degree / count)
        half = half + ROUNDING * self._terms(order)
        return (least + most) / 2.0 - half, (least + most) / 2.0 + half

    def largest(self, order: int, begin: Array, end: Array) -> Array:
        """Return bounds of a derivative's size on n intervals [s], (n, d); see `BoundedMotion`."""
        curve = np.abs(self.extremes(order + 2)).max(axis=0)
        return _from_ends(self, order, begin, end, curve) + ROUNDING * self._terms(order)

    def _terms(self, order: int) -> Array:
        """Return the sum of all terms' amplitudes in a derivative, which bounds it, shape (d,)."""
        frequency = self.base * np.arange(1, self.degree + 1)
        size = np.abs(self.cosine) + np.abs(self.sine)
        return np.asarray(frequency**order @ size + np.abs(self.constant) * (order == 0))


@dataclass(frozen=True, eq=False)
class SplineMotion:
    """B-splines q(t) = Σ cₖ Bₖ(t), one a channel."""

    # shape (n + degree + 1,) [s]; motion is from knot `degree` to the last but `degree`
    knots: Array
    coefficients: Array  # cₖ, control points, shape (n, d) [rad or m]
    degree: int  # of the pieces
    cuts: int = 4  # pieces into which each span is cut for its bound

    @property
    def duration(self) -> float:
        """Length of the motion [s]."""
        return float(self.knots[-1 - self.degree])

    @property
    def smoothness(self) -> int:
        """Its degree, where no inner knot is repeated."""
        inner = self.knots[self.degree : -self.degree]
        _, count = np.unique(inner, return_counts=True)
        return self.degree + 1 - int(count.max())

    def derivative(self, order: int, time: Array) -> Array:
        """Return a derivative at N times [s], shape (N, d); see `BoundedMotion`."""
        from scipy.interpolate import BSpline

        if order > self.degree:
            return np.zeros((len(time), self.coefficients.shape[1]))
        return np.asarray(BSpline(self.knots, self.coefficients, self.degree)(time, nu=order))

    def extremes(self, order: int) -> tuple[Array, Array]:
        """Return least and most of a derivative over all times, each (d,); see `BoundedMotion`."""
        if order > self.degree:
            zero = np.zeros(self.coefficients.shape[1])
            return zero, zero
        hull = self._hull(order)
        slack = ROUNDING * np.abs(hull).max(axis=(0, 1))
        return hull.min(axis=(0, 1)) - slack, hull.max(axis=(0, 1)) + slack

    def largest(self, order: int, begin: Array, end: Array) -> Array:
        """Return bounds of a derivative's size on n intervals [s], (n, d); see `BoundedMotion`."""
        widest = np.abs(self.extremes(order)).max(axis=0)
        if order + 2 > self.smoothness:
            return np.tile(widest, (len(begin), 1))
        curve = np.abs(self.extremes(order + 2)).max(axis=0)
        return np.asarray(np.minimum(_from_ends(self, order, begin, end, curve), widest))

    def _hull(self, order: int) -> Array:
        """Return Bernstein coefficients of a derivative, shape (degree + 1, pieces, d)."""
        from scipy.interpolate import BPoly, PPoly

        inner = np.unique(self.knots[self.degree : len(self.knots) - self.degree])
        share = np.arange(self.cuts) / self.cuts
        breaks = np.append((inner[:-1, None] + np.outer(np.diff(inner), share)).ravel(), inner[-1])
        # The Taylor coefficients of each piece at its beginning, highest power first.
        taylor = [
            self.derivative(order + k, breaks[:-1]) / math.factorial(k)
            for k in range(self.degree - order, -1, -1)
        ]
        return np.asarray(BPoly.from_power_basis(PPoly(np.array(taylor), breaks)).c)


def bounded_motion(
    trajectory: ExcitationTrajectory, posture: Array, moving: NDArray[np.intp]
) -> BoundedMotion:
    """Return a trajectory of the channels that move as one of all channels, with proven bounds.

    Args:
        posture: At which the others stand, shape (channels,) [rad or m].
        moving: Channels that move, in the trajectory's order.
    """
    basis = trajectory.basis
    coefficients = np.outer(basis.constant, posture)
    coefficients[:, moving] = trajectory.coefficients
    if isinstance(basis, Fourier):
        sine, cosine = (coefficients[k::2] for k in (1, 2))
        harmonic = np.arange(1, basis.harmonics + 1)[:, None]
        parts = coefficients[0], cosine / harmonic, sine / harmonic
        return HarmonicMotion(2.0 * np.pi * basis.lowest, *parts, basis.duration)
    assert isinstance(basis, Spline)
    return SplineMotion(basis.knots, coefficients, basis.degree)


def _from_ends(motion: BoundedMotion, order: int, begin: Array, end: Array, curve: Array) -> Array:
    """Return bounds over h: the larger end plus h²/8 times `curve`, of the second derivative."""
    ends = np.maximum(
        np.abs(motion.derivative(order, begin)), np.abs(motion.derivative(order, end))
    )
    return np.asarray(ends + (end - begin)[:, None] ** 2 / 8.0 * curve)


def require_bounded(motion: BoundedMotion, order: int, what: str) -> None:
    """Raise `InvalidSetting` if a derivative of a motion need not be bounded.

    Args:
        what: What shall be certified, for the error's message.

    Raises:
        InvalidSetting: If it is not smooth enough.
    """
    if motion.smoothness < order:
        raise InvalidSetting(
            f"the motion is not smooth enough for a certificate of {what}",
            got=f"derivatives up to order {motion.smoothness} are bounded",
            expected=f"up to order {order}",
            cure=f"use splines of degree {order} or more without repeated knots",
        )
