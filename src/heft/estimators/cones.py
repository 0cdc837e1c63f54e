"""Nesterov and Todd's scaling of the two cones of identification: bodies, and balls of misfit.

A cone is its own dual. The scaling W of a slack s and a multiplier z inside it is the linear map
with `W⁻¹ s = Wᵀ z = λ` that leaves the cone as it is [Todd1998]: in its coordinates both are one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heft.arrays import Array

from .feasible_set import stack, unstack

BASIS = unstack(np.eye(10))


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
        squares, left = np.linalg.eigh(both @ np.swapaxes(both, 1, 2))
        if squares.min(initial=1.0) <= 0.0:
            raise np.linalg.LinAlgError
        values = np.sqrt(squares)
        back = np.swapaxes(left, 1, 2) @ second / np.sqrt(values)[:, :, None]
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
