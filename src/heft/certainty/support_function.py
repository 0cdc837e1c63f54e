"""The support function of possible fits: the least of a linear function, with a certificate.

A homogeneous self-dual interior-point method [Andersen2003] in Nesterov and Todd's coordinates
[Todd1998]. Of the cone {v: P v ∈ K} of `FitsCone` it takes `a·v = 1`, and finds

    the least of c·v, which is the largest ν with c − ν a = Pᵀ z, z ∈ K,

or a ray of the cone along which c·v falls without end and a·v stays 0. What ends are is ν, which is
below the least, less what c − ν a − Pᵀ z lacks to be 0, counted at the v found: however early the
steps stop, an interval is not too narrow for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from heft.arrays import Array
from heft.estimators import BASIS, IDENTITY, stack, unstack

from .support_cone import Equations, FitsCone, Point, depth, judge, step

START = 1.0  # multipliers at the start, as a share of the barrier's
PROVEN = 1e-4  # of an end's distance from the centre: the method stops
ENOUGH = 1e-3  # of it, where rounding lets steps come no further
LOOSE = 1e-3  # pull of the model file's bodies at the centre, beside the barrier's of 1


@dataclass(frozen=True)
class SupportFunction:
    """Minimum of linear functions over possible fits, with what all of them share."""

    cone: FitsCone  # of the fits
    centre: Array  # a point y well inside, shape (n,)
    hessian: Array  # Cholesky factor of the barrier's there, shape (n, n)
    slope: float  # the barrier's second derivative along e
    start: tuple[Point, Equations]  # where all steps begin, and Newton's equations there

    @staticmethod
    def of(cone: FitsCone, fit: Array) -> SupportFunction | None:
        """Return the support function, None if nothing is found inside.

        Args:
            fit: A possible fit y, on the boundary or inside, shape (n,).
        """
        start = _inside(cone, fit)
        if start is None:
            return None
        try:
            return _centred(cone, start)
        except np.linalg.LinAlgError:
            return None

    def width(self, c: Array) -> float:
        """Return how far c·v changes within the barrier's ellipsoid about the centre."""
        n = self.cone.unknowns
        along = scipy.linalg.solve_triangular(self.hessian, c[:n], trans="T", check_finite=False)
        return float(np.sqrt(along @ along + c[n] ** 2 / self.slope))

    def least(self, c: Array, a: Array, middle: float = 0.0, unit: float = np.inf) -> float | None:
        """Return a proven lower bound of c·v for a·v = 1, tight to `PROVEN` if rounding allows.

        Args:
            c: Coefficients of the function, shape (n + 2,).
            a: Coefficients of the normalisation, 1 at the centre too, shape (n + 2,).
            middle: What the quantity itself is at the centre, of which c·v is the difference.
            unit: A usual size of it: where the centre is far out, the bound is as tight for that.

        Returns:
            −inf where there is none; None if the steps come to no proof.
        """
        width = self.width(c)
        if width == 0.0:
            return None
        best, bound, problem = np.inf, 0.0, np.array([c / width, a])
        lacking = np.empty(self.cone.slots), np.empty(len(c)), np.empty(2)
        (v, slack, push, ends), equations = self.start
        at, cone = (v.copy(), slack.copy(), push.copy(), ends.copy()), self.cone.plain
        for k in range(60):
            off, proven, falls = judge(cone, problem, at, lacking)
            near = unit + abs(middle + width * proven)  # NaN is no proof
            off *= max(1.0, width * abs(proven) / near)
            if off < PROVEN:
                return float(width * proven)
            if falls:
                return -np.inf
            if off < best:
                best, bound = off, proven
            new = self.cone.equations(*at[1:3]) if k else equations
            # Rounding beside the boundary, or nothing more is gained.
            if new is None or not step(cone, *new, problem, at, lacking) > 1e-4:
                break
        return width * bound if best < ENOUGH else None


def _inside(cone: FitsCone, fit: Array) -> Array | None:
    """Return a point inside, mixed from a fit on the boundary and the model file's bodies."""
    middle = fit.copy()
    middle[cone.bodies] = np.tile(IDENTITY, cone.links)
    middle[cone.signs] = np.maximum(fit[cone.signs], 1.0)
    share = 1e-2  # of the bodies that the fit is mixed with
    while share > np.finfo(float).eps:
        mixed = fit + share * (middle - fit)
        if _holds(cone, mixed):
            return mixed
        share *= 0.5
    return None


def _holds(cone: FitsCone, y: Array) -> bool:
    slack = cone.slack(np.append(y, [0.0, 1.0]))
    least = np.linalg.eigvalsh(unstack(slack[cone.bodies].reshape(-1, 10)))
    linear = slack[cone.linear].min(initial=1.0)
    return bool(least.min() > 0.0 and linear > 0.0 and depth(slack[cone.ball]) > 0.0)


def _centred(cone: FitsCone, y: Array) -> SupportFunction | None:
    """Return the support function about the least of barrier and bodies' and terms' size.

    The barrier alone has none where data leave a body open.
    """
    n, count = cone.unknowns, len(cone.rows) - cone.limits
    misfits, limits = cone.rows[:count], cone.rows[count:]
    square = misfits.T @ misfits
    size = np.zeros(n)
    size[cone.bodies], size[cone.signs] = np.tile(LOOSE * IDENTITY, cone.links), LOOSE
    for _ in range(100):  # most steps to it
        slack = cone.slack(np.append(y, [0.0, 1.0]))
        ball = slack[cone.ball]
        room = depth(ball)
        push = cone.inverse(slack)
        pull = 2.0 / room * (misfits.T @ ball[2:])
        slope = size - push[:n] - limits.T @ push[n : n + cone.limits] + pull
        hessian = 2.0 / room * square + np.outer(pull, pull)
        hessian += (limits.T * push[n : n + cone.limits] ** 2) @ limits
        inverses = unstack(push[cone.bodies].reshape(-1, 10))[:, None]
        for k, block in enumerate(stack(inverses @ BASIS @ inverses)):
            ten = slice(10 * k, 10 * k + 10)
            hessian[ten, ten] += block
        hessian[cone.signs, cone.signs] += np.diag(push[cone.signs] ** 2)
        factor = scipy.linalg.cholesky(hessian, check_finite=False, overwrite_a=True)
        move = -scipy.linalg.cho_solve((factor, False), slope, check_finite=False)
        decrement = float(np.sqrt(max(-slope @ move, 0.0)))
        if decrement < 1e-2:  # it need not be exact
            break
        share = 1.0 if decrement < 0.25 else 1.0 / (1.0 + decrement)
        y = y + share * move
    v = np.append(y, [0.0, 1.0])
    slack = cone.slack(v)
    at = v, slack, START * cone.inverse(slack), np.array([0.0, 1.0, START])
    equations = cone.equations(*at[1:3])
    return equations and SupportFunction(cone, y, factor, 2.0 / room, (at, equations))
