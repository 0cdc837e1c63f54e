"""Linear equations Y β = τ of a problem's samples, without what acts unmeasured, and residuals.

What acts on each sample unmeasured, such as contact wrenches λ, is eliminated:

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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.information import ChannelRows, Information, Labels

RANK = 1e-9  # of N's singular values, as a share of the largest, that are none


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
        directions, size, _ = np.linalg.svd(white[unclear], full_matrices=False)
        spans = size > RANK * np.maximum(size[:, :1], 1e-300)
        basis[unclear] = directions * spans[:, None]
        return Elimination(basis, noise)

    def part(self, rows: slice | NDArray[np.intp] | NDArray[np.bool_]) -> Elimination:
        """Return the projection of some of the samples."""
        return Elimination(self.basis[rows], self.noise)

    def __call__(self, values: Array) -> Array:
        """Return P times rows, shape (N, c, columns), or measurements, shape (N, c).

        Channels that only tell λ have rows of zeros, not of rounding.
        """
        counts = self.redundancy > 0.0
        rest = values - self.taken_up(values)
        return np.where(counts.reshape(counts.shape + (1,) * (values.ndim - 2)), rest, 0.0)

    def taken_up(self, values: Array) -> Array:
        """Return (1 − P) times rows or measurements: the part that λ explains, same shape."""
        plain = values.ndim == 2
        white = (values[:, :, None] if plain else values) / self.noise[:, None]
        explained = self.noise[:, None] * (self.basis @ (np.swapaxes(self.basis, 1, 2) @ white))
        return np.asarray(explained[:, :, 0] if plain else explained)

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
        both = D + np.swapaxes(D, 1, 2)
        return np.asarray(-self.noise[:, None] * both / self.noise)

    @property
    def redundancy(self) -> Array:
        """Redundancy M_cc, shape (N, c), 0 where a channel determines nothing but λ."""
        share = 1.0 - np.sum(self.basis**2, axis=2)
        return np.where(share > 1e-6, share, 0.0)  # less tells nothing but λ

    def squares(self) -> Array:
        """Return Σ M_cd² over the samples, shape (c, c): how noise of d shows in channel c."""
        count, channels, _ = self.basis.shape
        total = np.zeros((channels, channels))
        for first in range(0, count, 1024):
            basis = self.basis[first : first + 1024]
            M = np.eye(channels) - basis @ np.swapaxes(basis, 1, 2)
            total += np.sum(M**2, axis=0)
        return total


@dataclass(frozen=True, eq=False)
class Equations:
    """Rows `Y β = τ` of one window, unknowns of its samples eliminated."""

    by_channel: tuple[ChannelRows, ...]  # Y, channel by channel, without known zeros
    size: int  # number b of columns
    effort: Array  # measured τ, shape (N, m) [channel's unit]
    time: Array  # shape (N,) [s]
    recording: int  # position of the recording in the problem
    # what took unknowns of the samples out of both; None where there are none
    elimination: Elimination | None = None

    @staticmethod
    def of(
        regressor: Array,
        effort: Array,
        time: Array,
        recording: int,
        elimination: Elimination | None = None,
    ) -> Equations:
        """Return equations of a regressor Y of all channels and columns, shape (N, m, b)."""
        rows = ChannelRows.of_each(regressor)
        made = Equations(rows, regressor.shape[2], effort, time, recording, elimination)
        vars(made)["regressor"] = regressor  # which need not be put together again
        return made

    @cached_property
    def regressor(self) -> Array:
        """Y of all channels and columns, shape (N, m, b)."""
        return np.stack([rows.spread(self.size) for rows in self.by_channel], axis=1)

    @staticmethod
    def joined(parts: Sequence[Equations]) -> Equations:
        """Concatenate equations of one recording that have no eliminated unknowns."""
        if len(parts) == 1:
            return parts[0]
        each = zip(*(p.by_channel for p in parts), strict=True)
        return replace(
            parts[0],
            by_channel=tuple(ChannelRows.joined(rows) for rows in each),
            effort=np.concatenate([p.effort for p in parts]),
            time=np.concatenate([p.time for p in parts]),
        )

    def exchanged(self, others: Equations, places: Sequence[int]) -> Equations:
        """Return others, which hold the columns at ascending places, with all others of these."""
        by_channel = []
        for own, other in zip(self.by_channel, others.by_channel, strict=True):
            values = own.values.copy()
            at = np.searchsorted(own.columns, np.array(places, dtype=np.intp)[other.columns])
            values[:, at] = other.values
            by_channel.append(ChannelRows(own.columns, values))
        return replace(others, by_channel=tuple(by_channel), size=self.size)

    def at(self, rows: NDArray[np.intp]) -> Array:
        """Return Y of some of the rows, shape (n, m, b)."""
        return self.regressor[rows]

    def channels_at(self, rows: slice | NDArray[np.intp]) -> tuple[ChannelRows, ...]:
        """Return Y of some of the rows, channel by channel."""
        return tuple(ChannelRows(r.columns, r.values[rows]) for r in self.by_channel)

    def residuals(self, values: Array) -> Array:
        """Return τ − Y β, shape (N, m), of values β, shape (b,)."""
        predicted = [rows.values @ values[rows.columns] for rows in self.by_channel]
        return np.asarray(self.effort - np.stack(predicted, axis=1))

    def information(self, labels: Labels, channels: Sequence[str], cut: slice) -> Information:
        """Return the information of some of the rows.

        Raises:
            InvalidRecording: If a number is not finite.
        """
        rows, effort = self.channels_at(cut), self.effort[cut]
        return Information.from_channel_rows(labels, channels, rows, effort)


@dataclass(frozen=True)
class Residuals:
    """Residuals τ − Y β of a contiguous piece of rows."""

    values: Array  # τ − Y β, shape (N, m) [channel's unit]
    # function of n positions in the piece; returns Y there, shape (n, m, b)
    regressor: Callable[[NDArray[np.intp]], Array]
    recording: int  # position of the recording in the problem
    # sample index of each row, shape (N,); None where a row combines many samples
    index: NDArray[np.int64] | None
    # what took unknowns of the samples out; None where there are none
    elimination: Elimination | None = None
    # the same as `regressor`, channel by channel; of that if not given
    by_channel: Callable[[NDArray[np.intp]], tuple[ChannelRows, ...]] | None = None

    def channel_rows(self, at: NDArray[np.intp]) -> tuple[ChannelRows, ...]:
        """Return Y at n positions in the piece, channel by channel, without known zeros."""
        if self.by_channel is None:
            return ChannelRows.of_each(self.regressor(at))
        return self.by_channel(at)

    @property
    def noise(self) -> Array:
        """Residuals scaled to the size of the channels' noise ε, shape (N, m) [channel's unit].

        The elimination of unknowns leaves `√M_cc` of it; 0 where it leaves nothing.
        """
        if self.elimination is None:
            return self.values
        share = self.elimination.redundancy
        return np.where(share > 0.0, self.values / np.sqrt(np.where(share > 0.0, share, 1.0)), 0.0)
