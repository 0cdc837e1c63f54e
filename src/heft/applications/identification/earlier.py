"""Earlier experiments with the same plant: their information, and the noise in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidRecording
from heft.estimators import Noise
from heft.files import UNREADABLE, read_arrays
from heft.information import Information, triangle_of

from .misfit_moments import MisfitMoments


@dataclass(frozen=True)
class Earlier:
    """Information of earlier experiments, with what is known of the noise in it.

    Information adds; so does the covariance of its noise. Counted with the new experiment's rows
    alone, noise would be smaller than it is by the share of the rows that are earlier ones.

    Attributes:
        information: About the base parameters β.
        coloured: For each channel S with `SᵀS` the covariance of `Yᵀε`, shape (any, b).
        common: For each channel the moments `Yᵀe` of errors that channels share, shape (errors, b).
        moments: For each channel the moments `Yᵀ(τ − Y β)` of blocks, shape (blocks, b).
        misfit: Moments of like conditions; None if they are not known.
    """

    information: Information
    coloured: tuple[Array, ...]
    common: tuple[Array, ...]
    moments: tuple[Array, ...]
    misfit: MisfitMoments | None = None

    @property
    def noise(self) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        """Coloured factors, shape (any, b), and common errors, shape (errors, b), by channel."""
        return self.coloured, self.common

    @staticmethod
    def like(information: Information, noise: Noise) -> Earlier:
        """Return information of which no noise is known, taken for noise like an estimate's.

        Args:
            information: About β.
            noise: Of an estimate with it.
        """
        size = len(information.labels)
        none = tuple(np.zeros((0, size)) for _ in information.channels)
        spread = noise.sigma * np.sqrt(noise.autocorrelation_time)
        parts = zip(spread, information.triangles, strict=True)
        factors = (s * t.spread(size)[:-1, :-1] for s, t in parts)
        return Earlier(information, tuple(factors), none, none)

    @staticmethod
    def load(path: Path) -> Earlier | Information:
        """Read `information.npz` of a folder of results; information alone if it has no noise.

        Raises:
            InvalidRecording: If it is missing, damaged or of another format.
        """
        information = Information.load(path)
        try:
            data = read_arrays(path)
            count = len(information.channels)
            if "noise_0" not in data:
                return information
            kinds = ("noise", "common", "moments")
            found = [
                tuple(np.asarray(data[f"{kind}_{c}"], dtype=float) for c in range(count))
                for kind in kinds
            ]
            widths = {part.shape[1:] for parts in found for part in parts}
            lengths = [{len(part) for part in parts} for parts in found[1:]]
            if len(widths) > 1 or any(len(n) > 1 for n in lengths):
                raise ValueError("the channels' noise is not of one shape")
            if not all(np.isfinite(part).all() for parts in found for part in parts):
                raise ValueError("noise that is not finite")
            misfit = MisfitMoments.load(data, count, len(information.labels))
        except UNREADABLE as problem:
            raise InvalidRecording(
                "this is not a file of information", argument=str(path), got=str(problem)[:200]
            ) from problem
        coloured, common, moments = found
        return Earlier(information, coloured, common, moments, misfit)


def stored(noise: Noise, moments: Sequence[Array]) -> dict[str, Array]:
    """Return an experiment's noise as the arrays that `Earlier.load` reads.

    Args:
        noise: Of the estimate.
        moments: For each channel the moments of blocks, shape (blocks, b).

    Returns:
        Arrays by name: `noise_0`, `common_0`, `moments_0` and so on, a number a channel; none
        where residuals are treated as white, or the estimator is another than least squares.
    """
    if noise.coloured is None or not moments:
        return {}
    size = noise.coloured[0].shape[1]
    common = noise.common_errors or tuple(np.zeros((0, size)) for _ in noise.coloured)
    arrays = {}
    for c, parts in enumerate(zip(noise.coloured, common, moments, strict=True)):
        factor = parts[0] if len(parts[0]) <= size else triangle_of(parts[0])
        for kind, part in zip(("noise", "common", "moments"), (factor, *parts[1:]), strict=True):
            arrays[f"{kind}_{c}"] = part
    return arrays
