"""Possible fits as a cone, and Newton's equations of their ends in coordinates that suit both.

Possible fits as a cone. With s = 1, or what normalises a ratio, and e what eliminated parameters
add to the misfit, v = (y, e, s) holds a possible fit y/s if these slacks P v are in their cones:

- the bodies of y, positive semidefinite, and its terms with a sign, at least 0;
- `L y − s l`, at least 0: hard limits;
- `(ρ s, e, R y − s r)`, a ball: the misfit.

All slacks, and multipliers likewise, stand in one vector in this order, bodies as `stack` has them.

A cone is its own dual. The scaling W of a slack s and a multiplier z inside it is the linear map
with `W⁻¹ s = Wᵀ z = λ` that leaves the cone as it is [Todd1998]: in its coordinates both are one.
Newton's equations take bodies one by one and then the rows of the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import scipy.linalg
from scipy.linalg.blas import dsyr
from scipy.linalg.lapack import dpotrf, dpotrs

from heft.arrays import Array
from heft.estimators import BASIS, stack, unstack


@dataclass(frozen=True)
class BodyScaling:
    """Coordinates of each body in which slack and multiplier are one diagonal matrix."""

    values: Array  # its entries λ, shape (links, 4)
    back: Array  # R⁻¹, with `R⁻¹ S R⁻ᵀ = Rᵀ Z R = diag(λ)`, shape (links, 4, 4)
    map: Array  # the same of stacked slacks, shape (links, 10, 10)

    @staticmethod
    def of(bodies: Array, wrench: Array) -> BodyScaling:
        """Return the scaling; raises `LinAlgError` where a body has reached the boundary."""
        first, second = np.linalg.cholesky(bodies), np.linalg.cholesky(wrench)
        second = np.swapaxes(second, 1, 2)
        # Of a square, in half of the time: λ is of like size where steps stay near the path.
        both = second @ first
        squares, axes = np.linalg.eigh(both @ np.swapaxes(both, 1, 2))
        if squares.min(initial=1.0) <= 0.0:
            raise np.linalg.LinAlgError
        values = np.sqrt(squares)
        back = np.swapaxes(axes, 1, 2) @ second / np.sqrt(values)[:, :, None]
        moved = back[:, None] @ BASIS @ np.swapaxes(back, 1, 2)[:, None]
        return BodyScaling(values, back, np.swapaxes(stack(moved), 1, 2))

    def scaled(self, slack: Array) -> Array:
        """Return R⁻¹ S R⁻ᵀ."""
        return np.asarray(self.back @ slack @ np.swapaxes(self.back, 1, 2))

    def wrench(self, scaled: Array) -> Array:
        """Return the multiplier `Z = R⁻ᵀ X R⁻¹` of a scaled one X."""
        return np.asarray(np.swapaxes(self.back, 1, 2) @ scaled @ self.back)

    def share(self, scaled: Array) -> float:
        """Return 1/α, α the step along a scaled change to the boundary; ≤ 0 if it has none."""
        if not len(scaled):
            return 0.0
        root = np.sqrt(self.values)
        relative = scaled / (root[:, :, None] * root[:, None, :])
        return float(-np.linalg.eigvalsh(relative)[:, 0].min())

    def complement(self, target: float, product: Array) -> Array:
        """Return X with `½ (λ X + X λ) = target − λ² − product`, its symmetric part."""
        right = -0.5 * (product + np.swapaxes(product, 1, 2))
        right[:, range(4), range(4)] += target - self.values**2
        return 2.0 * right / (self.values[:, :, None] + self.values[:, None, :])


@dataclass(frozen=True)
class BallScaling:
    """Scaling of `s_0 ≥ ‖s_1, s_2, ...‖`, a ball of radius s_0: W = η (−J + 2 w wᵀ)^½.

    J is diag(1, −1, −1, ...), and W its own transpose.
    """

    size: float  # η
    axis: Array  # w, with `wᵀ J w = 1`, shape (k,)
    both: Array  # λ, shape (k,)

    @staticmethod
    def of(slack: Array, push: Array) -> BallScaling:
        """Return the scaling; raises `LinAlgError` where one has reached the boundary."""
        first, second = depth(slack), depth(push)
        if not (first > 0.0 and second > 0.0 and slack[0] > 0.0 and push[0] > 0.0):
            raise np.linalg.LinAlgError
        own, other = slack / np.sqrt(first), push / np.sqrt(second)
        axis = own - other
        axis[0] = own[0] + other[0]
        axis /= np.sqrt(2.0 * (1.0 + own @ other))
        size = float((first / second) ** 0.25)
        return BallScaling(size, axis, BallScaling(size, axis, own).times(push))

    def times(self, v: Array) -> Array:
        """Return W v, shape (..., k)."""
        w = self.axis
        along = v[..., 1:] @ w[1:]
        out = v + w * (v[..., 0] + along / (1.0 + w[0]))[..., None]
        out[..., 0] = w[0] * v[..., 0] + along
        return np.asarray(self.size * out)

    def solved(self, v: Array) -> Array:
        """Return W⁻¹ v."""
        w = self.axis
        along = w[1:] @ v[1:]
        out = v + w * (along / (1.0 + w[0]) - v[0])
        out[0] = w[0] * v[0] - along
        return np.asarray(out / self.size)

    def share(self, scaled: Array) -> float:
        """Return 1/α, α the step along a scaled change to the boundary; ≤ 0 if it has none."""
        root = np.sqrt(depth(self.both))
        own = self.both / root
        along = own[0] * scaled[0] - own[1:] @ scaled[1:]
        across = scaled[1:] - (along + scaled[0]) / (1.0 + own[0]) * own[1:]
        return float((np.linalg.norm(across) - along) / root)

    def complement(self, target: float, product: Array) -> Array:
        """Return x with `λ ∘ x = target − λ ∘ λ − product`, ∘ the product of `ball_product`."""
        own = self.both
        right = -ball_product(own, own) - product
        right[0] += target
        first = (own[0] * right[0] - own[1:] @ right[1:]) / depth(own)
        out = (right - first * own) / own[0]
        out[0] = first
        return np.asarray(out)


def depth(v: Array) -> float:
    """Return `v_0² − ‖v_1, v_2, ...‖²`, without a difference of squares."""
    length = float(np.linalg.norm(v[1:]))
    return (float(v[0]) - length) * (float(v[0]) + length)


def ball_product(first: Array, second: Array) -> Array:
    """Return `(u·v, u_0 v_1 + v_0 u_1, ...)`, of which (1, 0, ...) is the unit."""
    out = first[0] * second + second[0] * first
    out[0] = first @ second
    return np.asarray(out)


STAIR = 50  # unknowns that rows begin to hold together


def stairs(rows: Array, right: Array) -> tuple[Array, Array]:
    """Return rows rotated into staircase form, each run zero before unknowns of its own.

    Their squares, and so all that they say, are the same; sums of products of rows have a third of
    the terms.

    Args:
        rows: Shape (r, n).
        right: Right-hand side, shape (r,).
    """
    out, done = np.column_stack([rows, right]), 0
    nothing = max(rows.shape) * float(np.finfo(float).eps) * float(np.linalg.norm(rows))
    for first in range(0, rows.shape[1], STAIR):
        own = slice(first, min(first + STAIR, rows.shape[1]))
        turn, stair, _ = scipy.linalg.qr(out[done:, own], pivoting=True)
        count = int(np.sum(np.linalg.norm(stair, axis=1) > nothing))
        out[done:] = turn.T @ out[done:]
        done += count
        out[done:, own] = 0.0
        if done == len(out):
            break
    return out[:, :-1], out[:, -1]


@dataclass(frozen=True)
class FitsCone:
    """Possible fits as a cone of v = (y, e, s)."""

    links: int  # number of bodies, whose ten stand first in y
    rows: Array  # R and below it L, shape (r + k, n)
    right: Array  # r and l, shape (r + k,)
    limits: int  # number k of limits
    radius: float  # ρ

    @cached_property
    def tens(self) -> Array:
        """Transposed columns of each body, shape (links, 10, r + k)."""
        return np.ascontiguousarray(self.rows[:, self.bodies].T).reshape(self.links, 10, -1)

    @cached_property
    def stairs(self) -> tuple[tuple[slice, int], ...]:
        """Runs of rows, and the unknown before which each is zero; see `stairs`."""
        first = np.argmax(self.rows != 0.0, axis=1) // STAIR * STAIR
        edges = [0, *(np.flatnonzero(np.diff(first)) + 1).tolist(), len(first)]
        return tuple((slice(a, b), int(first[a])) for a, b in pairwise(edges) if b > a)

    @cached_property
    def unknowns(self) -> int:
        """Number n of unknowns y."""
        return int(self.rows.shape[1])

    @cached_property
    def bodies(self) -> slice:
        """Slots of the bodies' slacks."""
        return slice(0, 10 * self.links)

    @cached_property
    def signs(self) -> slice:
        """Slots of the slacks of terms, which are their places in y as well."""
        return slice(10 * self.links, self.unknowns)

    @cached_property
    def linear(self) -> slice:
        """Slots of the slacks of terms and of limits."""
        return slice(10 * self.links, self.unknowns + self.limits)

    @cached_property
    def ball(self) -> slice:
        """Slots of the misfit's slacks."""
        return slice(self.linear.stop, self.linear.stop + len(self.rows) - self.limits + 2)

    @cached_property
    def degree(self) -> int:
        """Degree of the barrier: s·z of the unit element."""
        return 4 * self.links + self.unknowns - 10 * self.links + self.limits + 1

    def slack(self, v: Array) -> Array:
        """Return the slacks P v."""
        n, count = self.unknowns, len(self.rows) - self.limits
        rest = self.rows @ v[:n] - v[n + 1] * self.right
        return np.concatenate([v[:n], rest[count:], [self.radius * v[n + 1], v[n]], rest[:count]])

    def pulled(self, push: Array) -> Array:
        """Return Pᵀ z."""
        first, along, on_rows = self.on_rows(push)
        return np.concatenate(
            [
                push[: self.unknowns] + self.rows.T @ on_rows,
                [along, self.radius * first - self.right @ on_rows],
            ]
        )

    def on_rows(self, push: Array) -> tuple[Array, Array, Array]:
        """Return the ball's first two multipliers, and those of all rows, shape (..., r + k)."""
        ball = push[..., self.ball]
        limits = push[..., self.unknowns : self.linear.stop]
        return ball[..., 0], ball[..., 1], np.concatenate([ball[..., 2:], limits], axis=-1)

    def inverse(self, slack: Array) -> Array:
        """Return z with `s ∘ z` the unit element: the barrier's negative gradient."""
        out = np.empty_like(slack)
        matrices = np.asarray(np.linalg.inv(unstack(slack[self.bodies].reshape(-1, 10))), float)
        out[self.bodies] = stack(0.5 * (matrices + np.swapaxes(matrices, 1, 2))).ravel()
        out[self.linear] = 1.0 / slack[self.linear]
        ball = slack[self.ball]
        out[self.ball] = -ball / depth(ball)
        out[self.ball.start] *= -1.0
        return out


@dataclass(frozen=True)
class FitsScaling:
    """Coordinates in which slacks and multipliers are one vector λ: `W⁻¹ s = Wᵀ z`."""

    cone: FitsCone  # of the fits
    bodies: BodyScaling  # scaling of bodies
    inverse: Array  # inverse of its map, shape (links, 10, 10)
    lengths: Array  # √(s/z) of terms and limits
    both: Array  # √(s z) of these
    ball: BallScaling  # scaling of the misfit

    @staticmethod
    def of(cone: FitsCone, slack: Array, push: Array) -> FitsScaling:
        """Return the scaling; raises `LinAlgError` where one has reached the boundary."""
        first, second = (unstack(x[cone.bodies].reshape(-1, 10)) for x in (slack, push))
        bodies = BodyScaling.of(first, second)
        own, other = slack[cone.linear], push[cone.linear]
        if min(own.min(initial=1.0), other.min(initial=1.0)) <= 0.0:
            raise np.linalg.LinAlgError
        ball = BallScaling.of(slack[cone.ball], push[cone.ball])
        inverse = np.asarray(np.linalg.inv(bodies.map), float)
        return FitsScaling(cone, bodies, inverse, np.sqrt(own / other), np.sqrt(own * other), ball)

    @cached_property
    def middle(self) -> Array:
        """λ, which scaled slacks and multipliers both are."""
        bodies = np.zeros((self.cone.links, 4, 4))
        bodies[:, range(4), range(4)] = self.bodies.values
        return np.concatenate([stack(bodies).ravel(), self.both, self.ball.both])

    def into(self, slack: Array) -> Array:
        """Return W⁻¹ s."""
        ball = self.ball.solved(slack[self.cone.ball])
        return self._joined(self.bodies.map, slack, 1.0 / self.lengths, ball)

    def out(self, scaled: Array) -> Array:
        """Return W x, the slack of a scaled one, shape (..., slots)."""
        ball = self.ball.times(scaled[..., self.cone.ball])
        return self._joined(self.inverse, scaled, self.lengths, ball)

    def push_into(self, push: Array) -> Array:
        """Return Wᵀ z."""
        ball = self.ball.times(push[self.cone.ball])
        return self._joined(np.swapaxes(self.inverse, 1, 2), push, self.lengths, ball)

    def _joined(self, maps: Array, v: Array, lengths: Array, ball: Array) -> Array:
        cone, parts = self.cone, (*v.shape[:-1], self.cone.links, 10, 1)
        bodies = (maps @ v[..., cone.bodies].reshape(parts)).reshape(*v.shape[:-1], -1)
        return np.concatenate([bodies, lengths * v[..., cone.linear], ball], axis=-1)

    def share(self, scaled: Array) -> float:
        """Return 1/α, α the step along a scaled vector to the boundary; 0 if it has none."""
        cone = self.cone
        return max(
            self.bodies.share(unstack(scaled[cone.bodies].reshape(-1, 10))),
            float(np.max(-scaled[cone.linear] / self.both, initial=0.0)),
            self.ball.share(scaled[cone.ball]),
        )

    def complement(self, target: float, first: Array, second: Array) -> Array:
        """Return x with `λ ∘ x = target − λ ∘ λ − first ∘ second`, ∘ the product of each cone."""
        cone = self.cone
        one, other = (unstack(x[cone.bodies].reshape(-1, 10)) for x in (first, second))
        linear = target - first[cone.linear] * second[cone.linear]
        return np.concatenate(
            [
                stack(self.bodies.complement(target, one @ other)).ravel(),
                linear / self.both - self.both,
                self.ball.complement(target, ball_product(first[cone.ball], second[cone.ball])),
            ]
        )


@dataclass(frozen=True)
class SupportStep:
    """Newton's equations `Pᵀ Δz = g, P Δv + W Wᵀ Δz = W b`, factored.

    What is eliminated first are bodies and terms, each by itself. Of multipliers p on rows of the
    data, those of ρ s and of e follow from the equations of s and e, and leave
    `R D⁻¹ Rᵀ + Fᵀ W Wᵀ F`, as large as rows are many, in which all differences are resolved: rows
    of very different size, and misfits near the ball's boundary, harm nothing.
    """

    scaling: FitsScaling  # W
    # Cholesky factor of all but a rank-one term, its upper triangle, shape (r + k, r + k)
    factor: Array
    # the vector g of that term, with `1/size + gᵀ N⁻¹ g`, and N⁻¹ g
    along: tuple[Array, float, Array]

    @staticmethod
    def of(scaling: FitsScaling) -> SupportStep:
        """Return the equations; raises `LinAlgError` if rounding leaves them indefinite."""
        cone, ball = scaling.cone, scaling.ball
        count, limits = len(cone.rows), cone.limits
        terms = len(scaling.lengths) - limits
        halved = np.empty((cone.unknowns, count))  # D^-1/2 R^T
        tens = halved[cone.bodies].reshape(-1, 10, count)
        np.matmul(np.swapaxes(scaling.inverse, 1, 2), cone.tens, out=tens)
        halved[cone.signs] = scaling.lengths[:terms, None] * cone.rows[:, cone.signs].T
        # FᵀWWᵀF is η² (1 − 2/h w wᵀ + h g gᵀ) on rows of the misfit, with h = 2 w_0² − 1.
        sure = 2.0 * ball.axis[0] ** 2 - 1.0
        axis = np.append(ball.axis[2:], np.zeros(limits))
        normal = np.empty((count, count), order="F")  # the upper triangle alone is told
        for own, start in cone.stairs:
            seen = halved[start:]
            np.matmul(seen[:, own].T, seen[:, : own.stop], out=normal.T[own, : own.stop])
        normal = dsyr(-2.0 * ball.size**2 / sure, axis, a=normal, overwrite_a=True)
        added = np.full(count, ball.size**2)
        added[count - limits :] = scaling.lengths[terms:] ** 2
        normal[range(count), range(count)] += added
        factor, failed = dpotrf(normal, clean=False, overwrite_a=True)
        if failed:
            raise np.linalg.LinAlgError
        along = cone.right / cone.radius + (2.0 * ball.axis[0] / sure) * axis
        solved = dpotrs(factor, along)[0]
        size = 1.0 / (ball.size**2 * sure) + float(along @ solved)
        return SupportStep(scaling, factor, (along, size, solved))

    def solve(self, g: Array, b: Array) -> tuple[Array, Array]:
        """Return Δv and Δz of one right side or several, shapes (..., n + 2) and (..., slots)."""
        scaling, cone = self.scaling, self.scaling.cone
        n, ratio = cone.unknowns, cone.right / cone.radius
        slack = scaling.out(b)
        free = slack[..., :n] - self._softened(g[..., :n])
        ball = np.zeros_like(slack[..., cone.ball])
        ball[..., 0], ball[..., 1] = -g[..., n + 1] / cone.radius, -g[..., n]
        slacks = slack.copy()
        slacks[..., cone.ball] += self._ball(ball)
        first, _, lacking = cone.on_rows(slacks)
        pull = self._solved(free @ cone.rows.T - lacking - first[..., None] * ratio)
        on_y = pull @ cone.rows
        rows = pull.shape[-1] - cone.limits
        ball[..., 0] += pull @ ratio
        ball[..., 2:] = pull[..., :rows]
        last = self._ball(ball)[..., :2] + slack[..., cone.ball][..., :2]
        last = last[..., ::-1] / [1.0, cone.radius]
        move = np.concatenate([free - self._softened(on_y), last], axis=-1)
        push = np.concatenate([g[..., :n] + on_y, -pull[..., rows:], -ball], axis=-1)
        return move, push

    def _softened(self, g: Array) -> Array:
        """Return D⁻¹ g of bodies and terms, shape (..., n)."""
        scaling, cone = self.scaling, self.scaling.cone
        maps, bodies = scaling.inverse, g[..., cone.bodies]
        tens = bodies.reshape(*g.shape[:-1], cone.links, 10, 1)
        soft = (maps @ (np.swapaxes(maps, 1, 2) @ tens)).reshape(bodies.shape)
        squares = scaling.lengths[: cone.unknowns - 10 * cone.links] ** 2
        return np.concatenate([soft, squares * g[..., cone.signs]], axis=-1)

    def _ball(self, v: Array) -> Array:
        return self.scaling.ball.times(self.scaling.ball.times(v))

    def _solved(self, g: Array) -> Array:
        along, size, solved = self.along
        solution = dpotrs(self.factor, g.T)[0].T
        return np.asarray(solution - solved * ((solution @ along) / size)[..., None])
