"""Noise of channels whose equations share unknowns of each sample, by their residuals.

What is left of residuals once unknowns are eliminated mixes the noise of all channels: with M the
projector of `plants.Elimination` and s_d the factor on channel d's variance,

    E[(e_c/σ_c)²] = Σ_d M_cd² s_d

so that s solves `H s = q`, H and q summed over the samples: unbiased for any σ, and at σ itself the
best of all quadratic forms [Rao1972]. Channels of one name share a factor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from heft.arrays import Array
from heft.information import shortest

from .problem import MixedProblem

X = TypeVar("X", bound=MixedProblem)


@dataclass(frozen=True)
class VarianceComponents:
    """Standard deviations of channels' noise where unknowns of each sample mix it."""

    # how often rows are made again with the standard deviations found; two come within some percent
    # of the last
    rounds: int = 2
    # smallest variance, as a share of what the channel's own residual would say: what is found to
    # be none would be taken for exact
    least: float = 0.01

    def settled(self, problem: X) -> X:
        """Return the problem with unknowns eliminated by the noise that its residuals show."""
        for _ in range(self.rounds):
            known = problem.known_noise
            weights = {c: 1.0 / known[c] for c in problem.channels}
            values = shortest(problem.information(), weights)
            problem = problem.with_noise(self.of(problem, values).tolist())
        return problem

    def of(self, problem: MixedProblem, values: Array) -> Array:
        """Return σ of each channel, shape (channels,) [channel's unit].

        Args:
            values: β of a fit, shape (b,).
        """
        from scipy.optimize import nnls

        before = np.array([problem.known_noise[c] for c in problem.channels])
        size = len(before)
        H, q, share = np.zeros((size, size)), np.zeros(size), np.zeros(size)
        for piece in problem.residuals(values):
            assert piece.elimination is not None
            H += piece.elimination.squares()
            share += piece.elimination.redundancy.sum(axis=0)
            q += np.sum((piece.values / before) ** 2, axis=0)
        # Parameters take their share of the residuals' freedom.
        q *= 1.0 / max(1.0 - len(values) / max(share.sum(), 1.0), 0.5)
        names = list(dict.fromkeys(problem.noise_names))
        group = np.array([[n == own for own in problem.noise_names] for n in names], dtype=float)
        H, q, share = group @ H @ group.T, group @ q, group @ share
        alone = q / np.maximum(share, 1e-300)
        told = share > 0.0
        found = np.ones(len(names))
        scale = np.maximum(alone[told], 1e-300)
        if (alone[told] > 0.0).all():
            # In units of what each residual says alone, and each equation likewise.
            matrix = H[np.ix_(told, told)] * scale / q[told, None]
            factors, _ = nnls(matrix, np.ones(int(told.sum())))
            found[told] = np.maximum(factors, self.least) * scale
        return np.asarray(before * np.sqrt(group.T @ found))
