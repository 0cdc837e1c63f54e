"""How far a file's printed angles are from what they were meant to be.

A file that prints π/2 as 1.5708 tilts an axis by 4e-6 rad, and columns that depend on one another
no longer do, to the last digit. An angle that is a multiple of 15° to its printed digits is taken
for it; all others (a calibration's) are taken as they are written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import combinations

import numpy as np

NICE = math.pi / 12.0  # [rad]: multiples of it are what angles of drawings are
FEWEST_DECIMALS = 2
SINGLE_PRECISION = 5e-7  # [rad]: an angle that was once stored so, and printed with more digits


def angle_error(printed: Iterable[float]) -> float:
    """Return the largest rounding error of angles that are meant to be multiples of 15° [rad].

    Args:
        printed: Angles as a file has them [rad].

    Returns:
        0 if none was rounded, but for the rounding of floating-point numbers.
    """
    return max((_error(angle) for angle in printed), default=0.0)


def direction_error(printed: Iterable[float]) -> float:
    """Return the rounding error of a printed direction that is meant to be a simple one [rad].

    Args:
        printed: Components of an axis or a quaternion, of any length.
    """
    vector = np.array(list(printed))
    angles = [math.atan2(y, x) for x, y in combinations(vector.tolist(), 2)]
    decimals = max((_decimals(float(x)) for x in vector), default=0)
    if decimals < FEWEST_DECIMALS:
        return 0.0
    unit = 10.0**-decimals / max(float(np.linalg.norm(vector)), 1e-300)
    errors = (abs(a - NICE * round(a / NICE)) for a in angles)
    # Half a unit in each of two components.
    return max((e for e in errors if e <= math.sqrt(0.5) * unit), default=0.0)


def _error(angle: float) -> float:
    decimals = _decimals(angle)
    if decimals < FEWEST_DECIMALS:
        return 0.0
    meant, unit = NICE * round(angle / NICE), 10.0**-decimals
    printed = (unit * round(meant / unit), unit * math.trunc(meant / unit))  # rounded, or cut off
    same = any(abs(angle - p) < 1e-3 * unit for p in printed)
    apart = abs(angle - meant)
    return apart if same or apart < SINGLE_PRECISION else 0.0


def _decimals(number: float) -> int:
    """Return how many decimals the shortest text of a number has."""
    mantissa, _, exponent = f"{number!r}".partition("e")
    fraction = mantissa.partition(".")[2].rstrip("0")
    return max(len(fraction) - int(exponent or 0), 0)
