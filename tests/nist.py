"""NIST Statistical Reference Datasets for linear regression, and exact least squares to judge by.

The data and the certified values are NIST's (public domain), kept in `data/nist/` as the decimal
strings that NIST prints. `exact_solution` solves the least-squares problem that the *float64*
design and response pose, without rounding. It differs from the certified values by what rounding
the data to float64 costs, which no float64 solver can win back: two digits at most in seven of
the sets (Wampler2 and Pontius keep 13), but half of them in Filip, which keeps 8.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

NAMES: tuple[str, ...] = (
    "Longley",
    "Filip",
    "Wampler1",
    "Wampler2",
    "Wampler3",
    "Wampler4",
    "Wampler5",
    "Pontius",
)

MOST_DIGITS = 15.0  # NIST certifies fifteen digits

_DATA = Path(__file__).resolve().parent / "data" / "nist"

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Dataset:
    """A regression problem with NIST's certified solution; the intercept is column 0 of `X`."""

    name: str
    X: FloatArray
    y: FloatArray
    coefficients: FloatArray
    std: FloatArray
    residual_std: float


def load(name: str) -> Dataset:
    """Read a dataset; the powers of a polynomial are float64 products, x^j = x^(j-1) · x."""
    if name not in NAMES:
        raise ValueError(f"no NIST dataset {name!r}; there are {', '.join(NAMES)}")
    record = json.loads((_DATA / f"{name}.json").read_text(encoding="utf-8"))
    predictors = np.array([[float(v) for v in row] for row in record["x"]], dtype=np.float64)
    columns = [np.ones(len(predictors))]
    if record["degree"] is None:
        columns.extend(predictors.T)
    else:
        for _ in range(record["degree"]):
            columns.append(columns[-1] * predictors[:, 0])
    certified = record["certified"]
    return Dataset(
        name=name,
        X=np.column_stack(columns),
        y=np.array([float(v) for v in record["y"]]),
        coefficients=np.array([float(v) for v in certified["coefficients"]]),
        std=np.array([float(v) for v in certified["std"]]),
        residual_std=float(certified["residual_std"]),
    )


def exact_solution(X: FloatArray, y: FloatArray) -> list[Fraction]:
    """Solve min ‖Xβ − y‖ for the numbers as they are stored, in rational arithmetic."""
    design = np.asarray(X, dtype=np.float64)
    response = np.asarray(y, dtype=np.float64)
    if design.ndim != 2 or response.shape != design.shape[:1]:
        raise ValueError(f"X is {design.shape} and y {response.shape}: expected (n, p) and (n,)")
    columns = [[Fraction(v) for v in column] for column in (*design.T.tolist(), response.tolist())]
    p = design.shape[1]
    rows = [[_dot(columns[i], column) for column in columns] for i in range(p)]  # XᵀX | Xᵀy
    # XᵀX is positive definite unless the rank is deficient, so each pivot is its own diagonal.
    for k in range(p):
        if rows[k][k] == 0:
            raise ValueError(f"column {k} of X depends linearly on those before it")
        for i in range(k + 1, p):
            factor = rows[i][k] / rows[k][k]
            for j in range(k, p + 1):
                rows[i][j] -= factor * rows[k][j]
    solution = [Fraction(0)] * p
    for k in reversed(range(p)):
        rest = _dot(rows[k][k + 1 : p], solution[k + 1 :])
        solution[k] = (rows[k][p] - rest) / rows[k][k]
    return solution


def digits(
    estimate: Sequence[float | Fraction] | FloatArray,
    reference: Sequence[float | Fraction] | FloatArray,
) -> float:
    """Count the correct digits of the worst coefficient: the log relative error, at most 15.

    The error is absolute where the reference is zero. An estimate that is not finite has −∞ digits.
    """
    if len(estimate) != len(reference):
        raise ValueError(f"{len(estimate)} estimates for {len(reference)} references")
    return min(
        (_digits(e, r) for e, r in zip(estimate, reference, strict=True)), default=MOST_DIGITS
    )


def _digits(estimate: float | Fraction, reference: float | Fraction) -> float:
    if not math.isfinite(estimate):
        return -math.inf
    exact = _fraction(reference)
    error = abs(_fraction(estimate) - exact)
    if exact != 0:
        error /= abs(exact)
    if error == 0:
        return MOST_DIGITS
    # The logarithms are of integers of any size: no quotient to overflow or to underflow.
    return min(MOST_DIGITS, math.log10(error.denominator) - math.log10(error.numerator))


def _fraction(value: float | Fraction) -> Fraction:
    return value if isinstance(value, Fraction) else Fraction(float(value))


def _dot(a: Sequence[Fraction], b: Sequence[Fraction]) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))
