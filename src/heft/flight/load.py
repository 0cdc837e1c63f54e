"""What a free flyer carries: the identified body less the nominal one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from heft.arrays import Array
from heft.estimators import ConsistentEstimate, PhysicallyConsistent, Stated, stated_numbers
from heft.information import (
    SYMBOLS,
    UNITS,
    Directions,
    Labels,
    Parameters,
    ParameterSpace,
    Triangle,
    inertia,
    triangle_of,
)

LEAST_SHARE = 1e-3  # of the nominal mass: size of a load of which nothing is seen


@dataclass(frozen=True, eq=False)
class BodyEstimate:
    """Ten parameters of a body with their uncertainty, unconstrained and physically consistent."""

    parameters: Parameters  # by least squares alone, with their covariance; may be no possible body
    # the nearest body that can exist, in the metric of the information
    consistent: ConsistentEstimate

    @property
    def numbers(self) -> Mapping[str, Stated]:
        """Mass [kg], centre [m] and inertia [kg·m²] of the physically consistent body, by name."""
        return stated_numbers(self.consistent, 0)

    @property
    def possible(self) -> bool:
        """Whether the measured parameters are of a body that can exist."""
        return inertia.consistency_margin(self.parameters.values) > 0.0


def body_estimate(name: str, triangle: Triangle, nominal: Array) -> BodyEstimate:
    """Return a body from the information about its ten parameters.

    Args:
        triangle: Independent rows of unit variance, over the ten.
        nominal: Physically consistent body that sets scales and is no prior, shape (10,).

    Raises:
        SolverFailure: If the solver of the cone ends without a solution.
    """
    labels = Labels(tuple(f"{name}.{s}" for s in SYMBOLS), UNITS, name)
    seen = Directions.of(triangle.R, triangle.rows)
    values = seen.shortest(triangle.z)
    parameters = Parameters(labels, values, seen.inverse @ seen.inverse.T)
    space = ParameterSpace.of_one_body(labels, nominal)
    consistent = PhysicallyConsistent(unknown=(name,)).fit(triangle, space)
    return BodyEstimate(parameters, consistent)


def load_estimate(triangle: Triangle, nominal: Array, doubt: Array | None = None) -> BodyEstimate:
    """Return the load: the identified parameters less the nominal body's.

    Args:
        triangle: Information about body and load together.
        nominal: Parameters of the body alone, shape (10,).
        doubt: Covariance of the nominal parameters, shape (10, 10); zero if None.

    Raises:
        SolverFailure: If the solver of the cone ends without a solution.
    """
    moved = triangle.factor.copy()
    moved[:-1, -1] -= triangle.R @ nominal
    if doubt is not None:
        # Rows R (load) = z − R (nominal): noise of unit variance, and what the nominal ones lack.
        spread = np.eye(len(nominal)) + triangle.R @ doubt @ triangle.R.T
        white = np.linalg.solve(np.linalg.cholesky(spread), moved[:-1])
        moved = triangle_of(np.vstack([white, moved[-1:]]))
    about = Triangle(triangle.columns, moved, triangle.rows)
    mass = max(Directions.of(moved[:-1, :-1], triangle.rows).shortest(moved[:-1, -1])[0], 0.0)
    mass = max(mass, LEAST_SHARE * nominal[0])
    body = inertia.to_body(nominal)
    radius = float(np.sqrt(np.trace(body[2]) / (2.0 * body[0])))
    return body_estimate("load", about, inertia.sphere(mass, radius))
