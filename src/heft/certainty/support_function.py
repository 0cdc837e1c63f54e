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

from .support_cone import FitsCone, FitsScaling, SupportStep, depth

START = 0.1  # multipliers at the start, as a share of the barrier's
PROVEN = 1e-5  # of an end's distance from the centre: the method stops
RAY = 1e-8  # what slacks may lack along a ray, relative to the fall
LOOSE = 1e-3  # pull of the model file's bodies at the centre, beside the barrier's of 1


@dataclass(frozen=True)
class _Iterate:
    """An iterate, or its change: v, ν, slacks s, multipliers z, the homogenising τ, and κ."""

    v: Array
    bound: float
    slack: Array
    push: Array
    whole: float
    lack: float

    def moved(self, share: float, change: _Iterate) -> _Iterate:
        pairs = zip(vars(self).values(), vars(change).values(), strict=True)
        return _Iterate(*(x + share * dx for x, dx in pairs))


@dataclass(frozen=True)
class SupportFunction:
    """Minimum of linear functions over possible fits, with what all of them share."""

    cone: FitsCone  # of the fits
    centre: Array  # a point y well inside, shape (n,)
    hessian: Array  # Cholesky factor of the barrier's there, shape (n, n)
    slope: float  # the barrier's second derivative along e
    start: tuple[_Iterate, SupportStep]  # where all steps begin, and Newton's equations there

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

    def least(self, c: Array, a: Array) -> float | None:
        """Return a proven lower bound of c·v for a·v = 1, tight to `PROVEN` if rounding allows.

        Args:
            c: Coefficients of the function, shape (n + 2,).
            a: Coefficients of the normalisation, 1 at the centre too, shape (n + 2,).

        Returns:
            −inf where there is none; None if the steps come to no proof.
        """
        width = self.width(c)
        if width == 0.0:
            return None
        # The latter where rounding lets it come no further.
        for refined, enough in ((False, PROVEN), (True, 1e-4)):
            least = _Search(self.cone, c / width, a, refined, enough).run(*self.start)
            if least is not None:
                return width * least
        return None


@dataclass(frozen=True)
class _Search:
    cone: FitsCone  # of the fits
    c: Array  # what is to be least
    a: Array  # what is 1
    refined: bool  # whether correctors are, once
    enough: float  # of an end's distance from the centre, at most, where steps end before `PROVEN`

    def run(self, at: _Iterate, step: SupportStep) -> float | None:
        """Return the proven minimum, −inf along a ray, or None without a proof."""
        best = (np.inf, 0.0)
        for k in range(60):
            lacking = self.lacking(at)
            off, bound = self.proof(at, lacking)
            best = min(best, (off, bound))
            if off < PROVEN:
                break
            if self.falls(at, lacking):
                return -np.inf
            try:
                if k > 0:
                    step = SupportStep.of(FitsScaling.of(self.cone, at.slack, at.push))
                at, taken = self.stepped(at, step, lacking)
            except np.linalg.LinAlgError:  # rounding, beside the boundary
                break
            if taken < 1e-4:  # nothing more is gained
                break
        return best[1] if best[0] < self.enough else None

    def lacking(self, at: _Iterate) -> _Lacking:
        pulled = self.cone.pulled(at.push) + at.bound * self.a - at.whole * self.c
        slack = self.cone.slack(at.v) - at.slack
        value = float(self.c @ at.v)
        return _Lacking(pulled, slack, float(self.a @ at.v) - at.whole, value - at.bound + at.lack)

    def proof(self, at: _Iterate, lacking: _Lacking) -> tuple[float, float]:
        """Return the largest relative error that a proven bound may have, and the bound."""
        value, bound = float(self.c @ at.v) / at.whole, at.bound / at.whole
        bound = min(value, bound) - float(np.abs(lacking.pulled) @ np.abs(at.v)) / at.whole**2
        outside = np.abs(lacking.slack).max() / max(np.abs(at.v).max(), at.whole)
        return max((value - bound) / max(abs(bound), RAY), outside), bound

    def falls(self, at: _Iterate, lacking: _Lacking) -> bool:
        """Return whether v is a ray along which c·v falls."""
        fall, outside = -float(self.c @ at.v), float(np.abs(lacking.slack).max())
        return max(outside, abs(float(self.a @ at.v))) < RAY * fall

    def stepped(self, at: _Iterate, step: SupportStep, lacking: _Lacking) -> tuple[_Iterate, float]:
        """Return the iterate after a predictor and a corrector, and the share of it taken."""
        scaling = step.scaling
        equations, first = _Equations.of(self, step, at, lacking)
        mean = (float(at.slack @ at.push) + at.whole * at.lack) / (self.cone.degree + 1)
        scaled = scaling.into(first.slack), scaling.push_into(first.push)
        target = (1.0 - min(1.0, equations.share(first, *scaled))) ** 3
        change = equations.corrector(target, mean, first, *scaled)
        scaled = scaling.into(change.slack), scaling.push_into(change.push)
        taken = min(1.0, 0.95 * equations.share(change, *scaled))  # not quite to the boundary
        return at.moved(taken, change), taken


@dataclass(frozen=True)
class _Lacking:
    """Residuals of an iterate's four equations: those of v, of slacks, of a·v, and of c·v."""

    pulled: Array
    slack: Array
    whole: float
    value: float

    def part(self, share: float) -> _Lacking:
        return _Lacking(*(share * x for x in vars(self).values()))


@dataclass(frozen=True)
class _Equations:
    """Newton's equations of an iterate, with ν and τ: two columns beside those of v and z."""

    search: _Search
    step: SupportStep
    at: _Iterate
    lacking: _Lacking
    columns: tuple[Array, Array]
    corner: Array

    @staticmethod
    def of(
        search: _Search, step: SupportStep, at: _Iterate, lacking: _Lacking
    ) -> tuple[_Equations, _Iterate]:
        a, c, scaling, nothing = search.a, search.c, step.scaling, np.zeros_like(at.slack)
        scaled = -scaling.middle - scaling.into(lacking.slack)
        moves, pushes = step.solve(
            np.stack([-a, c, -lacking.pulled]), np.stack([nothing, nothing, scaled])
        )
        corner = np.array([a, c]) @ moves[:2].T - [[0.0, 1.0], [1.0, at.lack / at.whole]]
        equations = _Equations(search, step, at, lacking, (moves[:2], pushes[:2]), corner)
        product = -at.whole * at.lack
        pair = np.array([-lacking.whole, -lacking.value - product / at.whole])
        solution = equations.joined(moves[2], pushes[2], pair)
        return equations, equations.changed(solution, lacking, product)

    def corrector(
        self, kept: float, mean: float, first: _Iterate, slack: Array, push: Array
    ) -> _Iterate:
        """Return the change that keeps a share of the residuals and of the gap.

        Args:
            mean: Mean gap by degree of the barrier.
            slack: The predictor's slacks in the scaling's coordinates.
            push: The predictor's multipliers in them.
        """
        at, scaling, lacking = self.at, self.step.scaling, self.lacking.part(1.0 - kept)
        product = kept * mean - at.whole * at.lack - first.whole * first.lack
        right = (
            -lacking.pulled,
            scaling.complement(kept * mean, slack, push) - scaling.into(lacking.slack),
            np.array([-lacking.whole, -lacking.value - product / at.whole]),
        )
        solution = self.solved(*right)
        if self.search.refined:
            more = self.solved(*self.left(right, solution))
            solution = tuple(x + y for x, y in zip(solution, more, strict=True))
        return self.changed(solution, lacking, product)

    def changed(self, found: tuple[Array, ...], lacking: _Lacking, product: float) -> _Iterate:
        """Return the change of an iterate from a solution, given the change of τ κ."""
        (move, push, ends), at = found, self.at
        return _Iterate(
            move,
            float(ends[0]),
            self.search.cone.slack(move) + lacking.slack,
            push,
            float(ends[1]),
            float(product - at.lack * ends[1]) / at.whole,
        )

    def share(self, change: _Iterate, slack: Array, push: Array) -> float:
        scaling, at = self.step.scaling, self.at
        beyond = max(
            scaling.share(slack),
            scaling.share(push),
            -change.whole / at.whole,
            -change.lack / at.lack,
        )
        return 1.0 / max(beyond, 1e-300)

    def solved(self, g: Array, b: Array, pair: Array) -> tuple[Array, ...]:
        """Return Δv, Δz, and Δν with Δτ."""
        return self.joined(*self.step.solve(g, b), pair)

    def joined(self, move: Array, push: Array, pair: Array) -> tuple[Array, ...]:
        """Return a solution with the columns of ν and τ added."""
        (moves, pushes), search = self.columns, self.search
        values = np.array([search.a @ move, search.c @ move])
        ends = np.asarray(np.linalg.solve(self.corner, pair - values), float)
        return move + ends @ moves, push + ends @ pushes, ends

    def left(
        self, right: tuple[Array, Array, Array], found: tuple[Array, ...]
    ) -> tuple[Array, Array, Array]:
        (g, b, pair), (move, push, ends) = right, found
        search, scaling, at = self.search, self.step.scaling, self.at
        bound, whole = ends
        told = [search.a @ move - whole, search.c @ move - bound - at.lack / at.whole * whole]
        return (
            g - search.cone.pulled(push) - bound * search.a + whole * search.c,
            b - scaling.into(search.cone.slack(move)) - scaling.push_into(push),
            np.asarray(pair - told, float),
        )


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


def _centred(cone: FitsCone, y: Array) -> SupportFunction:
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
    return SupportFunction(cone, y, factor, 2.0 / room, _start(cone, y))


def _start(cone: FitsCone, centre: Array) -> tuple[_Iterate, SupportStep]:
    """Return where steps begin, and Newton's equations there, which all ends share."""
    v = np.append(centre, [0.0, 1.0])
    slack = cone.slack(v)
    at = _Iterate(v, 0.0, slack, START * cone.inverse(slack), 1.0, START)
    return at, SupportStep.of(FitsScaling.of(cone, at.slack, at.push))
