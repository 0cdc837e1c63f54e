"""Generalised least squares in the frequency domain, for motion that repeats.

The rows of a periodic motion and what was measured of it have lines at the multiples of one
frequency, and noise that is stationary is independent from line to line. So each line k is
weighted by its own noise: `C_k^-½ Y_k x = C_k^-½ y_k`, real and imaginary parts apart
[Pintelon2012, sect. 9]. C_k may depend on x, as where noise of the motion enters by the inertia;
it is then updated a few times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidSetting, TooLittleData
from heft.files import Keys, Number, check_fields
from heft.information import Directions, Triangle, triangle_of

CHECKS: Keys = {
    "harmonics": Number("the number of harmonics is no whole number", 1, 100_000, whole=True),
    "updates": Number("the number of updates is no whole number", 1, 100, whole=True),
}


@dataclass(frozen=True)
class HarmonicEstimate:
    """Parameters from lines, each weighted by its noise.

    Attributes:
        values: x, shape (p,).
        triangle: Information about x in independent rows of unit variance.
        chi_square: Of what is left over, by degree of freedom: 1 where the noise is as stated.
        freedom: Degrees of freedom.
        by_harmonic: The same of each line, shape (harmonics + 1,): 1 on average.
    """

    values: Array
    triangle: Triangle
    chi_square: float
    freedom: int
    by_harmonic: Array

    @property
    def covariance(self) -> Array:
        """Covariance of x by the stated noise, shape (p, p); infinite where nothing is known."""
        inverse = Directions.of(self.triangle.R, self.triangle.rows).inverse
        return np.asarray(inverse @ inverse.T)


@dataclass(frozen=True)
class HarmonicLeastSquares:
    """Frequency-domain generalised least squares: every harmonic weighted by its own noise.

    Attributes:
        harmonics: Number of lines used, beside the mean.
        updates: Number of fits, each with the noise at the one before.

    Raises:
        InvalidSetting: If a number is out of range.
    """

    harmonics: int = 25
    updates: int = 4

    def __post_init__(self) -> None:
        check_fields(self, CHECKS)

    def fit(
        self,
        regressor: Array,
        measured: Array,
        noise: Callable[[Array], Array],
        start: Array,
    ) -> HarmonicEstimate:
        """Return the parameters x of `Y x = y − noise` over one period.

        Args:
            regressor: Y at even phases of the period, shape (n, m, p).
            measured: y likewise, shape (n, m); or its lines by `np.fft.rfft(y, axis=0) / n`,
                complex, where they are known better than by samples.
            noise: Takes x and returns the covariance E[ε ε*] of each line's noise, real and of
                either part the half, shape (harmonics + 1, m, m).
            start: x at which the noise is taken first, shape (p,).

        Raises:
            InvalidSetting: If the period has too few samples for the harmonics.
            TooLittleData: If the lines do not determine x.
        """
        count, m, p = regressor.shape
        lines = self.harmonics + 1
        if count < 2 * lines:
            raise InvalidSetting(
                "the period has too few samples for so many harmonics",
                argument="harmonics",
                got=f"{self.harmonics} of {count} samples",
                expected=f"{count // 2 - 1} at most",
            )
        rows = np.fft.rfft(regressor.reshape(count, -1), axis=0)[:lines].reshape(lines, m, p)
        right = measured if np.iscomplexobj(measured) else np.fft.rfft(measured, axis=0) / count
        both = np.concatenate([rows / count, right[:lines, :, None]], axis=2)
        values = np.asarray(start, dtype=float)
        for _ in range(self.updates):
            white = np.linalg.solve(np.linalg.cholesky(noise(values)), both)
            white[1:] *= np.sqrt(2.0)  # real and imaginary parts have half the variance each
            real = np.concatenate([white[:1].real, white[1:].real, white[1:].imag])
            factor = triangle_of(real.reshape(-1, p + 1))
            seen = Directions.of(factor[:p, :p], len(real) * m)
            if seen.rank < p:
                raise TooLittleData(
                    "the lines of the motion do not determine all parameters",
                    got=f"rank {seen.rank} of {p} from {lines} lines",
                    cure="use a motion that excites all axes, or more harmonics",
                )
            values = seen.shortest(factor[:p, p])
        rest = (white[:, :, p] - white[:, :, :p] @ values)[:, :, None]
        energy = np.sum(np.abs(rest) ** 2, axis=(1, 2))
        equations = (2 * lines - 1) * m
        each = m * np.append(1.0, np.full(lines - 1, 2.0))
        return HarmonicEstimate(
            values,
            Triangle(np.arange(p), factor, equations),
            float(energy.sum() / (equations - p)),
            equations - p,
            energy / each * (equations / (equations - p)),
        )
