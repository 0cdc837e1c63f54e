"""What robots of a type have in common, and how they scatter: a hierarchical normal law.

    x_i = μ + u_i,  u_i ~ N(0, Λ),      x̂_i = x_i + e_i,  e_i ~ N(0, C_i)

of robots i with estimates x̂_i of covariance C_i, which is what their triangles tell. μ and the
diagonal Λ are found by expectation maximisation of the restricted likelihood [Dempster1977], all
steps in closed form. Where robots tell little, the law tells the rest; how strongly is learnt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from heft.arrays import Array

FEWEST = 3  # robots, from which on their scatter is known
LEAST = 1e-6  # scatter, as a share of what is seen at first, so that it never is exactly 0
MOST_ODD = 20.0  # of squared deviations, three deviations of a normal number
USUAL = 1.8  # deviations from the mean, beyond which a robot is odd and its prior weaker


@dataclass(frozen=True, eq=False)
class TypeLaw:
    """The law of a type's numbers."""

    most: ClassVar[int] = 100  # robots, which are enough to learn from
    mean: Array  # μ, shape (q,)
    mean_std: Array  # its standard deviation, shape (q,)
    scatter: Array  # standard deviation between robots, the root of Λ, shape (q,)
    robots: int  # how many it was learnt from

    @staticmethod
    def of(values: Sequence[Array], covariances: Sequence[Array]) -> TypeLaw | None:
        """Return the law of n robots, of q values and covariances each; None of below `FEWEST`."""
        if len(values) < FEWEST:
            return None
        every = -(-len(values) // TypeLaw.most)
        x = np.array(values[::every])
        C = np.array(covariances[::every])
        del covariances  # of many robots they are large
        errors = np.diagonal(C, axis1=1, axis2=2).copy()
        # Units of what is seen at first: numbers are of many sizes.
        seen = np.median(np.abs(x - np.median(x, axis=0)), axis=0) / 0.6745
        unit = np.maximum(seen, np.sqrt(np.median(errors, axis=0)))
        unit = np.maximum(unit, 1e-12 * np.maximum(np.abs(x).max(axis=0), 1e-300))
        x /= unit
        C /= unit[:, None]
        C /= unit
        diagonal = np.maximum(np.mean(_clipped(x - np.median(x, axis=0)), axis=0), LEAST)
        identity, gain = np.eye(x.shape[1]), np.empty_like(C)
        parts = [slice(k, k + 50) for k in range(0, len(x), 50)]  # in memory at a time
        for _ in range(80):  # of the expectation maximisation
            for part in parts:
                gain[part] = np.linalg.inv(C[part] + diagonal * identity)
            spread = np.linalg.inv(gain.sum(axis=0))
            mean = spread @ np.einsum("nij,nj->i", gain, x)
            pull = np.einsum("nij,nj->ni", gain, x - mean)
            # Of u given all: mean Λ V⁻¹ (x̂ − μ), variance Λ − Λ V⁻¹ Λ + Λ V⁻¹ S V⁻¹ Λ.
            of_mean = [np.sum((gain[part] @ spread) * gain[part], axis=-1) for part in parts]
            precision = np.einsum("nii->ni", gain) - np.concatenate(of_mean)
            expected = _clipped(diagonal * pull) + diagonal - diagonal**2 * precision
            diagonal = np.maximum(expected.mean(axis=0), LEAST)
        deviations = np.sqrt(np.diag(spread)) * unit
        return TypeLaw(mean * unit, deviations, np.sqrt(diagonal) * unit, len(x))

    def given(self, value: Array, covariance: Array) -> tuple[Array, Array]:
        """Return what is believed of one robot of the type, and its covariance.

        Of what is odd by more than `USUAL` deviations the prior is wider in proportion, so that an
        odd robot is not pulled to the type.

        Args:
            value: Its own estimate, shape (q,).
            covariance: Shape (q, q).
        """
        few = (self.robots - 1) / max(self.robots - 3, 1)  # of Student's variance
        prior = few * self.scatter**2 + self.mean_std**2
        away = (value - self.mean) ** 2 / (prior + np.diag(covariance))
        prior = prior * np.maximum(1.0, away / USUAL**2) ** 2
        unit = np.sqrt(prior)
        V = covariance / unit[:, None] / unit + np.eye(len(value))
        gain = np.linalg.inv(V)
        shift = gain @ ((value - self.mean) / unit)
        posterior = (np.eye(len(value)) - gain) * unit[:, None] * unit
        return np.asarray(value - (covariance / unit) @ shift), (posterior + posterior.T) / 2.0


def _clipped(deviations: Array) -> Array:
    """Return squares of deviations, those of odd robots at most `MOST_ODD` times the median."""
    squares = deviations**2
    return np.minimum(squares, np.maximum(MOST_ODD * np.median(squares, axis=0), LEAST))
