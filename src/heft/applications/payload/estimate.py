"""A body as a wrench sensor weighed it: its numbers, what was seen of them, what else was found."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.information import PARAMETER_COUNT, Finding, Labels, inertia


@dataclass(frozen=True, eq=False)
class Weighed:
    """A body as it was weighed.

    Attributes:
        labels: Of the values.
        values: The body's ten parameters about the sensor's origin, bias, drift, delay; the
            body's are NaN where nothing shows them.
        covariance: Of the values.
        seen: Which of the body's ten the data show, shape (10,).
        consistent: Whether the plain solution was a body; else it is the nearest in the
            data's own metric.
        noise: Standard deviation of force [N] and moment [N·m] of one sample.
        left: Residual over wrench, of force and moment.
        rows: Windows or poses.
        rotation: From the sensor's axes as logged to those of the motion, shape (3, 3).
        gravity: In the world, if its direction was looked for, shape (3,) [m/s²].
        gravity_std: Its standard deviations, shape (3,).
        findings: What the user should know.
    """

    labels: Labels
    values: Array
    covariance: Array
    seen: NDArray[np.bool_]
    consistent: bool
    noise: tuple[float, float]
    left: tuple[float, float]
    rows: int
    rotation: Array
    gravity: Array | None
    gravity_std: Array | None
    findings: tuple[Finding, ...]

    def of_sensor(self, kind: str) -> tuple[Array, Array] | None:
        """Return what was found of the sensor and its deviations, if it was looked for.

        Args:
            kind: `bias` (in the middle of the log, if it drifts; log after log, if each has its
                own), `tilt`, `mounting`, `gain`, `delay`.
        """
        names = self.labels.names
        places = [k for k, n in enumerate(names) if n.startswith(f"sensor.{kind}")]
        if not places:
            return None
        return self.values[places], np.sqrt(np.diag(self.covariance))[places]

    @property
    def mass(self) -> float:
        """Mass [kg]."""
        return float(self.values[0])

    @property
    def com(self) -> Array:
        """Centre of mass in the sensor's frame, shape (3,) [m]."""
        return np.asarray(self.values[1:4] / self.values[0])

    @property
    def inertia(self) -> Array:
        """Inertia about the centre of mass, shape (3, 3) [kg·m²]; NaN where it is not seen."""
        return inertia.to_body(self.values[:PARAMETER_COUNT])[2]

    @cached_property
    def body(self) -> Array:
        """Mass, centre of mass, and Ixx, Ixy, Iyy, Ixz, Iyz, Izz about it, shape (10,)."""
        return inertia.stated_body(self.values[:PARAMETER_COUNT])[0]

    @cached_property
    def body_std(self) -> Array:
        """Standard deviations of `body`, shape (10,); by the delta rule."""
        here = np.where(np.isnan(self.values[:PARAMETER_COUNT]), 0.0, self.values[:10])
        std = numbers(here, self.covariance[:10, :10])[1]
        return np.where(np.isnan(self.body), np.inf, std)

    @property
    def bias(self) -> Array | None:
        """Bias of the sensor in the last log, in its middle if it drifts, shape (6,) [N, N·m]."""
        found = self.of_sensor("bias")
        return found[0][-6:] if found else None

    @property
    def delay(self) -> float | None:
        """By how much the wrench comes behind motion [s], if it was looked for."""
        found = self.of_sensor("delay")
        return float(found[0][0]) if found else None


def numbers(ten: Array, covariance: Array) -> tuple[Array, Array]:
    """Return mass, centre of mass and inertia about it, and their deviations by the delta rule.

    Args:
        ten: Parameters of a body about its frame's origin, shape (10,).
        covariance: Of them, shape (10, 10).

    Returns:
        Two arrays of shape (10,), ordered as `Weighed.body`.
    """
    values, jacobian = inertia.stated_body(ten)
    return values, np.sqrt(np.diag(jacobian @ covariance @ jacobian.T))
