"""Generalised least squares in the frequency domain, for motion that repeats.

The rows of a periodic motion and what was measured of it have lines at the multiples of one
frequency, and noise that is stationary is independent from line to line. So each line k is
weighted by its own noise: `C_k^-½ Y_k x = C_k^-½ y_k`, real and imaginary parts apart
[Pintelon2012, sect. 9]. C_k may depend on x, as where noise of the motion enters by the inertia;
it is then updated a few times.

Noise of the motion is in Y, too, and makes x too small where fast lines hold next to nothing else:
the lines of the equations are those that the motion has.

A motion that noise moves does not end where it began. What that does to derivatives is a pulse at
the seam, whose lines are a polynomial in the frequency: free unknowns, eliminated [Pintelon2012,
sect. 6.3].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import InvalidSetting, TooLittleData
from heft.files import Keys, Number, check_fields
from heft.information import Directions, Triangle, triangle_of


@dataclass(frozen=True)
class HarmonicEstimate:
    """Parameters from lines, each weighted by its noise."""

    values: Array  # x, shape (p,)
    triangle: Triangle  # information about x in independent rows of unit variance
    chi_square: float  # of what is left over, by degree of freedom: 1 where the noise is as stated
    freedom: int  # degrees of freedom

    @property
    def covariance(self) -> Array:
        """Covariance of x by the stated noise, shape (p, p); infinite where nothing is known."""
        inverse = Directions.of(self.triangle.R, self.triangle.rows).inverse
        return np.asarray(inverse @ inverse.T)


@dataclass(frozen=True)
class HarmonicLeastSquares:
    """Frequency-domain generalised least squares: every harmonic weighted by its own noise.

    Raises:
        InvalidSetting: If a number is out of range.
    """

    harmonics: int = 16  # number of lines used, beside the mean
    updates: int = 3  # number of fits, each with the noise at the one before
    # number of terms of the polynomial of the seam: 2 for rows with two derivatives, 0 for a motion
    # that repeats exactly
    seam: int = 2

    def __post_init__(self) -> None:
        checks: Keys = {
            "harmonics": Number(
                "the number of harmonics is no whole number", 1, 100_000, whole=True
            ),
            "updates": Number("the number of updates is no whole number", 1, 100, whole=True),
            "seam": Number("the number of terms is no whole number", 0, 10, whole=True),
        }
        check_fields(self, checks)

    def fit(
        self,
        regressor: Array,
        lines: NDArray[np.complex128],
        noise: Callable[[Array], Array],
        start: Array,
    ) -> HarmonicEstimate:
        """Return the parameters x of `Y x = y − noise` over cycles.

        Args:
            regressor: Y at even phases of a period, averaged over periods, shape (n, m, p).
            lines: Of y likewise, `np.fft.rfft(y, axis=0) / n` where y is known by samples, shape
                (harmonics + 1 or more, m).
            noise: Takes x and returns the covariance E[ε ε*] of each line's noise, of which either
                part has half, shape (harmonics + 1, m, m).
            start: x at which the noise is taken first, shape (p,).

        Raises:
            InvalidSetting: If the period has too few samples for the harmonics.
            TooLittleData: If the lines do not determine x.
        """
        count, m, p = regressor.shape
        size = self.harmonics + 1
        if count < 2 * size:
            raise InvalidSetting(
                "the period has too few samples for so many harmonics",
                argument="harmonics",
                got=f"{self.harmonics} of {count} samples",
                expected=f"{count // 2 - 1} at most",
            )
        rows = np.fft.rfft(regressor.reshape(count, -1), axis=0)[:size] / count
        seam = self._seam(m)
        both = [seam, rows.reshape(size, m, p), lines[:size, :, None]]
        wide = np.concatenate(both, axis=2)
        free, equations = seam.shape[2], (2 * size - 1) * m
        values = np.asarray(start, dtype=float)
        for _ in range(self.updates):
            white = np.linalg.solve(np.linalg.cholesky(noise(values)), wide)
            white[1:] *= np.sqrt(2.0)  # real and imaginary parts have half the variance each
            real = np.concatenate([white[:1].real, white[1:].real, white[1:].imag])
            factor = triangle_of(real.reshape(equations, -1))[free:, free:]
            seen = Directions.of(factor[:p, :p], equations)
            if seen.rank < p:
                raise TooLittleData(
                    "the lines of the motion do not determine all parameters",
                    got=f"rank {seen.rank} of {p} from {size} lines",
                    cure="use a motion that excites all axes, or more harmonics",
                )
            values = seen.shortest(factor[:p, p])
        freedom = equations - free - p
        return HarmonicEstimate(
            values,
            Triangle(np.arange(p), factor, equations - free),
            float(factor[p, p] ** 2) / freedom,
            freedom,
        )

    def _seam(self, channels: int) -> NDArray[np.complex128]:
        """Return the columns of the seam: powers of i k of each channel, scaled to one."""
        pace = 1j * np.arange(self.harmonics + 1) / self.harmonics
        powers = pace[:, None] ** np.arange(self.seam)
        unit = np.eye(channels)
        columns = unit[None, :, :, None] * powers[:, None, None, :]
        return np.asarray(columns.reshape(len(pace), channels, -1))
