"""Result of identifying a payload from a wrench sensor: parameters, identifiability, findings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.information import PARAMETER_COUNT, Finding, Labels, inertia


@dataclass(frozen=True, eq=False)
class Weighed:
    """Inertial parameters of a payload and parameters of the sensor, with p values in all."""

    labels: Labels  # names and units of the values
    # the payload's ten inertial parameters about the sensor's origin [kg, kg·m, kg·m²], then the
    # sensor's bias, drift and delay, shape (p,); the payload's are NaN where the data do not
    # identify them
    values: Array
    covariance: Array  # covariance of the values, shape (p, p)
    seen: NDArray[np.bool_]  # which of the payload's ten parameters are identified, shape (10,)
    # whether the unconstrained solution was physically consistent; if not, `values` is the nearest
    # consistent one in the metric of the data
    consistent: bool
    noise: tuple[float, float]  # standard deviation of one sample's force [N] and moment [N·m]
    left: tuple[float, float]  # relative residuals of force and moment
    rows: int  # number of windows or static poses
    rotation: Array  # from the sensor's axes as logged to those of the motion, shape (3, 3)
    # estimated gravity in the world's frame, shape (3,) [m/s²]; None if it was fixed
    gravity: Array | None
    gravity_std: Array | None  # its standard deviations, shape (3,) [m/s²]; None if it was fixed
    findings: tuple[Finding, ...]  # warnings and notices for the user

    def of_sensor(self, kind: str) -> tuple[Array, Array] | None:
        """Return the estimated parameters of one kind of the sensor, and their standard deviations.

        Args:
            kind: `bias` [N, N·m] (at the middle of the log, if it drifts; log after log, if each
                has its own), `tilt` [rad], `mounting` [rad], `gain` [1], `delay` [s].

        Returns:
            Two arrays of one shape (k,); None if that kind was not estimated.
        """
        names = self.labels.names
        places = [k for k, n in enumerate(names) if n.startswith(f"sensor.{kind}")]
        if not places:
            return None
        return self.values[places], np.sqrt(np.diag(self.covariance))[places]

    @property
    def mass(self) -> float:
        """Mass m [kg]."""
        return float(self.values[0])

    @property
    def com(self) -> Array:
        """Centre of mass c in the sensor's frame, shape (3,) [m]."""
        return np.asarray(self.values[1:4] / self.values[0])

    @property
    def inertia(self) -> Array:
        """Inertia about the centre of mass, shape (3, 3) [kg·m²]; NaN where not identified."""
        return inertia.to_body(self.values[:PARAMETER_COUNT])[2]

    @cached_property
    def body(self) -> Array:
        """Mass [kg], centre of mass [m] and inertia about it [kg·m²], shape (10,).

        The inertia is ordered Ixx, Ixy, Iyy, Ixz, Iyz, Izz.
        """
        return inertia.stated_body(self.values[:PARAMETER_COUNT])[0]

    @cached_property
    def body_std(self) -> Array:
        """Standard deviations of `body`, shape (10,); infinite where `body` is NaN.

        By first-order propagation of the covariance.
        """
        here = np.where(np.isnan(self.values[:PARAMETER_COUNT]), 0.0, self.values[:10])
        std = numbers(here, self.covariance[:10, :10])[1]
        return np.where(np.isnan(self.body), np.inf, std)

    @property
    def bias(self) -> Array | None:
        """Bias of the sensor in the last log, at its middle if it drifts, shape (6,) [N, N·m]."""
        found = self.of_sensor("bias")
        return found[0][-6:] if found else None

    @property
    def delay(self) -> float | None:
        """Delay of the wrench behind the motion [s]; None if it was not estimated."""
        found = self.of_sensor("delay")
        return float(found[0][0]) if found else None


def numbers(ten: Array, covariance: Array) -> tuple[Array, Array]:
    """Mass, centre of mass and central inertia of a body, with first-order standard deviations.

    Args:
        ten: Inertial parameters π about the frame's origin, shape (10,) [kg, kg·m, kg·m²].
        covariance: Covariance of them, shape (10, 10).

    Returns:
        Values and standard deviations, each shape (10,) [kg, m, kg·m²], ordered as
        `Weighed.body`.
    """
    values, jacobian = inertia.stated_body(ten)
    return values, np.sqrt(np.diag(jacobian @ covariance @ jacobian.T))
