"""Elimination of what acts unmeasured on each sample, such as contact wrenches λ.

    Y x = measured − ε + N λ,        ε of standard deviation σ

Whatever λ is, it is what generalized least squares makes of it, so that rows become

    P Y x = P (measured − ε),        P = 1 − N (Nᵀ Σ⁻¹ N)⁺ Nᵀ Σ⁻¹,   Σ = diag σ²

as many as before, each in the unit of its channel. P N = 0 for any σ. Weighted by 1/σ they are all
that the rows say of x: `Σ^-½ P Σ^½` is the orthogonal projector M onto the null space of
`(Σ^-½ N)ᵀ`, so `Σ_c ‖(P Y)_c‖²/σ_c²` is that of the null space's own rows [Mistry2009].

P changes as N does, with B = Σ^-½ N and Π = B B⁺ [Golub1973, Lemma 4.1]:

    Ṗ = −Σ^½ (D + Dᵀ) Σ^-½,        D = (1 − Π) Ḃ B⁺

Of ε, channel c keeps the share `√M_cc`, its redundancy: none where the channel only tells λ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array

RANK = 1e-9  # of N's singular values, as a share of the largest, that are none
SPENT = 1e-6  # redundancy below which a channel tells nothing but λ


@dataclass(frozen=True, eq=False)
class Elimination:
    """Projection P that eliminates λ from the equations of N samples of c channels."""

    basis: Array  # orthonormal columns that span Σ^-½ N, or zeros, shape (N, c, k)
    noise: Array  # σ, shape (c,) [channel's unit]

    @staticmethod
    def of(unknowns: Array, noise: Array) -> Elimination:
        """Return the projection that eliminates λ.

        Args:
            unknowns: N, shape (N, c, k) [channel's unit per unit of λ].
            noise: σ, shape (c,) [channel's unit].
        """
        white = unknowns / noise[:, None]
        length = np.linalg.norm(white, axis=1, keepdims=True)
        white = white / np.where(length > 0.0, length, 1.0)
        basis, triangle = np.linalg.qr(white)
        # σ_min ≥ |det R| / σ_max^(k−1), and σ_max ≤ √k for columns of length one.
        least = np.abs(np.prod(np.diagonal(triangle, axis1=1, axis2=2), axis=1))
        columns = white.shape[2]
        unclear = least <= RANK * columns ** (0.5 * columns)
        left, size, _ = np.linalg.svd(white[unclear], full_matrices=False)
        spans = size > RANK * np.maximum(size[:, :1], 1e-300)
        basis[unclear] = left * spans[:, None]
        return Elimination(basis, noise)

    def part(self, rows: slice | NDArray[np.intp] | NDArray[np.bool_]) -> Elimination:
        """Return the projection of some of the samples."""
        return Elimination(self.basis[rows], self.noise)

    def __call__(self, values: Array) -> Array:
        """Return P times rows, shape (N, c, columns), or measurements, shape (N, c).

        Channels that only tell λ have rows of zeros, not of rounding.
        """
        counts = self.redundancy > 0.0
        left = values - self.taken_up(values)
        return np.where(counts.reshape(counts.shape + (1,) * (values.ndim - 2)), left, 0.0)

    def taken_up(self, values: Array) -> Array:
        """Return (1 − P) times rows or measurements: the part that λ explains, same shape."""
        plain = values.ndim == 2
        white = (values[:, :, None] if plain else values) / self.noise[:, None]
        found = self.noise[:, None] * (self.basis @ (np.swapaxes(self.basis, 1, 2) @ white))
        return np.asarray(found[:, :, 0] if plain else found)

    def change(self, unknowns: Array, rates: Array) -> Array:
        """Return Ṗ, shape (N, c, c) [per unit of time].

        Args:
            unknowns: N, shape (N, c, k), of constant rank.
            rates: Ṅ, shape (N, c, k).
        """
        B, dB = unknowns / self.noise[:, None], rates / self.noise[:, None]
        length = np.linalg.norm(B, axis=1, keepdims=True)
        scale = np.where(length > 0.0, length, 1.0)  # units of λ make no difference
        B, dB = B / scale, dB / scale
        free = dB - self.basis @ (np.swapaxes(self.basis, 1, 2) @ dB)
        D = free @ np.linalg.pinv(B, rcond=RANK)
        whole = D + np.swapaxes(D, 1, 2)
        return np.asarray(-self.noise[:, None] * whole / self.noise)

    @property
    def redundancy(self) -> Array:
        """Redundancy M_cc, shape (N, c), 0 where a channel determines nothing but λ."""
        left = 1.0 - np.sum(self.basis**2, axis=2)
        return np.where(left > SPENT, left, 0.0)

    def squares(self) -> Array:
        """Return Σ M_cd² over the samples, shape (c, c): how noise of d shows in channel c."""
        count, channels, _ = self.basis.shape
        total = np.zeros((channels, channels))
        for first in range(0, count, 1024):
            basis = self.basis[first : first + 1024]
            M = np.eye(channels) - basis @ np.swapaxes(basis, 1, 2)
            total += np.sum(M**2, axis=0)
        return total
