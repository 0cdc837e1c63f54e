"""Motions that a simulated controller is to follow: sines, moves with dwells, ordinary work.

All are drawn anew from random numbers within the joints' limits of position and speed, begin at
rest where the log begins to be prepared, and are smooth enough for a controller to follow. Others
are given (`Knots`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from scipy.interpolate import CubicSpline

from heft.arrays import Array

from .arms import Arm

MotionKind = Literal["sines", "point to point", "slow", "slow point to point", "ordinary work"]


REST = 1.0  # from rest to a given motion, and from it to rest [s]


class Motion(Protocol):
    """Wanted positions over time."""

    def __call__(self, time: Array) -> tuple[Array, Array, Array]:
        """Return q, v and a at some times, each of shape (N, joints) [rad, rad/s, rad/s²]."""


@dataclass(frozen=True)
class Limits:
    """Shares of the joints' limits that motions use."""

    reach: float = 0.8  # share of the range of position
    widest: float = 1.9  # bound on the half range [rad]
    speed: float = 0.6  # share of the speed limits
    slow: float = 0.2  # bound on the speeds of slow motions [rad/s]
    lowest: float = 0.05  # frequency of a sine, in cycles a second at a speed limit of 1 rad/s
    highest: float = 0.5  # likewise
    sines: int = 5  # number of sines a joint
    dwell: tuple[float, float] = (0.3, 1.0)  # shortest and longest rest between two moves [s]
    fade: float = 1.5  # time in which sines grow from rest [s]


@dataclass(frozen=True, eq=False)
class Sines:
    """A sum of sines about a middle, faded in from rest before time 0."""

    middle: Array  # shape (joints,) [rad]
    frequency: Array  # shape (sines, joints) [Hz]
    amplitude: Array  # shape (sines, joints) [rad]
    phase: Array  # shape (sines, joints) [rad]
    start: float  # when it begins to grow [s]
    fade: float  # how long it grows [s]

    def full(self, time: Array) -> tuple[Array, Array, Array]:
        """Return q − middle, v and a of the motion without its fade-in, shapes (N, joints)."""
        omega = 2.0 * np.pi * self.frequency
        angle = time[:, None, None] * omega + self.phase
        sin, cos = np.sin(angle), np.cos(angle)
        q = np.sum(self.amplitude * sin, axis=1)
        v = np.sum(self.amplitude * omega * cos, axis=1)
        return q, v, -np.sum(self.amplitude * omega**2 * sin, axis=1)

    def __call__(self, time: Array) -> tuple[Array, Array, Array]:
        """Return q, v and a; see `Motion`."""
        q, v, a = self.full(time)
        w, dw, ddw = (x[:, None] for x in _quintic((time - self.start) / self.fade))
        dw, ddw = dw / self.fade, ddw / self.fade**2
        return self.middle + w * q, w * v + dw * q, w * a + 2.0 * dw * v + ddw * q


@dataclass(frozen=True, eq=False)
class Moves:
    """Moves from point to point, all joints at once, with rests between."""

    points: Array  # shape (moves + 1, joints) [rad]
    begin: Array  # when each move begins, shape (moves,) [s]
    length: Array  # how long each takes, shape (moves,) [s]

    def __call__(self, time: Array) -> tuple[Array, Array, Array]:
        """Return q, v and a; see `Motion`."""
        k = np.clip(np.searchsorted(self.begin, time, side="right") - 1, 0, len(self.begin) - 1)
        length = self.length[k]
        w, dw, ddw = _quintic((time - self.begin[k]) / length)
        way = self.points[k + 1] - self.points[k]
        return (
            self.points[k] + w[:, None] * way,
            (dw / length)[:, None] * way,
            (ddw / length**2)[:, None] * way,
        )


@dataclass(frozen=True, eq=False)
class Knots:
    """A motion through given positions, velocities and accelerations, quintic in between.

    It begins and ends at rest, outside of the times that are given.
    """

    time: Array  # increasing, shape (N,) [s]
    q: Array  # shape (N, joints) [rad]
    v: Array  # likewise [rad/s]
    a: Array  # likewise [rad/s²]

    @staticmethod
    def through(
        time: Array,
        q: Array,
        v: Array | None = None,
        a: Array | None = None,
        within: tuple[Array, Array] = (np.array(-np.inf), np.array(np.inf)),
    ) -> Knots:
        """Return the motion through samples; what is not given is that of a cubic spline.

        It comes from rest to the first sample, and from the last to rest, in `REST`.

        Args:
            within: Limits of position, between which it rests, each of shape (joints,) [rad].
        """
        if v is None:
            spline = CubicSpline(time, q)
            v, a = spline(time, 1), spline(time, 2) if a is None else a
        elif a is None:
            a = CubicSpline(time, v)(time, 1)
        still = np.zeros((1, q.shape[1]))
        first = np.clip(q[:1] - 0.5 * REST * v[:1], *within)
        last = np.clip(q[-1:] + 0.5 * REST * v[-1:], *within)
        return Knots(
            np.concatenate([[time[0] - REST], time, [time[-1] + REST]]),
            np.concatenate([first, q, last]),
            np.concatenate([still, v, still]),
            np.concatenate([still, np.asarray(a), still]),
        )

    def __call__(self, time: Array) -> tuple[Array, Array, Array]:
        """Return q, v and a; see `Motion`."""
        inside = np.clip(time, self.time[0], self.time[-1])
        k = np.clip(np.searchsorted(self.time, inside, side="right") - 1, 0, len(self.time) - 2)
        h = np.diff(self.time)[k][:, None]
        x = (inside - self.time[k])[:, None] / h
        q, v, a = self.q[k], h * self.v[k], h**2 * self.a[k]
        # What remains at the end of the piece, for the third to the fifth power of x.
        dq = self.q[k + 1] - q - v - 0.5 * a
        dv, da = h * self.v[k + 1] - v - a, h**2 * self.a[k + 1] - a
        c3 = 10.0 * dq - 4.0 * dv + 0.5 * da
        c4 = -15.0 * dq + 7.0 * dv - da
        c5 = 6.0 * dq - 3.0 * dv + 0.5 * da
        return (
            q + x * (v + x * (0.5 * a + x * (c3 + x * (c4 + x * c5)))),
            (v + x * (a + x * (3.0 * c3 + x * (4.0 * c4 + x * 5.0 * c5)))) / h,
            (a + x * (6.0 * c3 + x * (12.0 * c4 + x * 20.0 * c5))) / h**2,
        )


def _quintic(x: Array) -> tuple[Array, Array, Array]:
    """Return the step from 0 to 1 of least jerk, and its derivatives."""
    x = np.clip(x, 0.0, 1.0)
    return (
        x**3 * (10.0 - 15.0 * x + 6.0 * x**2),
        30.0 * x**2 * (1.0 - x) ** 2,
        60.0 * x * (1.0 - x) * (1.0 - 2.0 * x),
    )


STEEPEST = 1.875  # of `_quintic`


def _middle(arm: Arm, limits: Limits) -> tuple[Array, Array]:
    """Return the middle of the range that is used, and its half width."""
    half = np.minimum(limits.reach * (arm.upper - arm.lower) / 2.0, limits.widest)
    return (arm.upper + arm.lower) / 2.0, half


def sines(
    arm: Arm, rng: np.random.Generator, start: float, duration: float, limits: Limits, slow: bool
) -> Motion:
    """Return sines of frequencies of each joint's own, as far and fast as the limits allow."""
    shape = (limits.sines, len(arm.joints))
    top = limits.speed * arm.speed
    top = np.minimum(top, limits.slow) if slow else top
    low, high = (np.log(x * np.maximum(top, 0.3)) for x in (limits.lowest, limits.highest))
    frequency = np.exp(low + (high - low) * rng.uniform(size=shape))
    amplitude = rng.uniform(0.3, 1.0, shape) / frequency**0.7
    plain = Sines(
        np.zeros(shape[1]),
        frequency,
        amplitude,
        rng.uniform(0, 2 * np.pi, shape),
        start,
        limits.fade,
    )
    q, v, _ = plain.full(np.arange(start, duration, 0.01))
    middle, half = _middle(arm, limits)
    size = np.minimum(half / np.abs(q).max(axis=0), top / np.abs(v).max(axis=0))
    room = np.maximum(half - size * np.abs(q).max(axis=0), 0.0)
    middle = middle + room * rng.uniform(-1.0, 1.0, shape[1])
    return Sines(middle, frequency, size * amplitude, plain.phase, start, limits.fade)


def point_to_point(
    arm: Arm, rng: np.random.Generator, start: float, duration: float, limits: Limits, slow: bool
) -> Motion:
    """Return moves to random points, each as fast as drawn, with dwells."""
    top = limits.speed * arm.speed
    top = np.minimum(top, limits.slow) if slow else top
    middle, half = _middle(arm, limits)
    far = np.minimum(half, 2.0 * top) if slow else half
    here, time = middle + 0.5 * half * rng.uniform(-1.0, 1.0, len(half)), start + 0.3
    points, begin, length = [here], [], []
    while time < duration:
        aim = here + far * rng.uniform(-1.0, 1.0, len(half))
        aim = np.clip(aim, middle - half, middle + half)
        least = STEEPEST * float(np.max(np.abs(aim - here) / top))
        length.append(max(least / rng.uniform(0.5, 1.0), 0.4))
        begin.append(time)
        points.append(aim)
        time, here = time + length[-1] + rng.uniform(*limits.dwell), aim
    return Moves(np.array(points), np.array(begin), np.array(length))


def ordinary_work(
    arm: Arm, rng: np.random.Generator, start: float, duration: float, limits: Limits, slow: bool
) -> Motion:
    """Return a cycle of a few points, run again and again at speeds that vary, with dwells."""
    middle, half = _middle(arm, limits)
    home = middle + 0.4 * half * rng.uniform(-1.0, 1.0, len(half))
    reach = 0.5 * half * (rng.uniform(size=len(half)) < 0.8)
    stations = home + reach * rng.uniform(-1.0, 1.0, (4, len(half)))
    near = 0.1 * half * rng.uniform(-1.0, 1.0, (4, len(half)))
    cycle = np.array([x for s, d in zip(stations, near, strict=True) for x in (s + d, s, s + d)])
    points, begin, length, time = [cycle[0]], [], [], start + 0.3
    while time < duration:
        aim = cycle[len(points) % len(cycle)]
        least = STEEPEST * float(np.max(np.abs(aim - points[-1]) / (limits.speed * arm.speed)))
        length.append(max(least / rng.uniform(0.5, 1.0), 0.4))
        begin.append(time)
        points.append(aim)
        time += length[-1] + rng.uniform(*limits.dwell) * rng.uniform(0.2, 1.0)
    return Moves(np.array(points), np.array(begin), np.array(length))


# Of an arm within limits, from rest at a start [s] on until an end [s], and whether speeds are
# bounded by `Limits.slow` (work has its own).
Draw = Callable[[Arm, np.random.Generator, float, float, Limits, bool], Motion]
KINDS: Mapping[MotionKind, tuple[Draw, bool]] = {
    "sines": (sines, False),
    "point to point": (point_to_point, False),
    "slow": (sines, True),
    "slow point to point": (point_to_point, True),
    "ordinary work": (ordinary_work, False),
}


def draw_motion(
    kind: MotionKind,
    arm: Arm,
    rng: np.random.Generator,
    start: float,
    duration: float,
    limits: Limits = Limits(),
) -> Motion:
    """Return a motion of a kind, at rest at its start.

    Args:
        start: When motion may begin [s].
        duration: Until when it is asked for [s].
    """
    draw, slow = KINDS[kind]
    return draw(arm, rng, start, duration, limits, slow)
