"""What a flight can tell at best: the Cramér-Rao bound by the actuators' noise."""

from __future__ import annotations

import numpy as np

from heft.arrays import Array
from heft.information import inertia
from heft.models import FreeFlyer

from .flyer_model import SPIN, FlyerModel
from .free_flight import FlightTruth


def information_of(flyer: FreeFlyer, truth: FlightTruth) -> Array:
    """Return the information M = Σ Yᵀ (A S Aᵀ)⁻¹ Y of a flight's true motion, shape (10, 10).

    The motion is taken as known, so that its inverse is the least covariance that an unbiased
    estimate of the ten parameters can have, however good the sensors are.

    Args:
        flyer: Its actuators' noise must act in all six directions.
    """
    model = FlyerModel(truth.parameters, flyer.mixing, flyer.gravity)
    x = np.hstack((truth.position, truth.quaternion, truth.velocity, truth.turning))
    pushed = model.accelerations(x[:, SPIN], truth.commands + truth.thrust_noise)
    Y = inertia.wrench_regressor(pushed[:, :3], truth.turning, pushed[:, 3:])
    factor = np.linalg.inv(np.linalg.cholesky(flyer.actuators.wrench_noise))
    rows = (factor @ Y).reshape(-1, inertia.PARAMETER_COUNT)
    return np.asarray(rows.T @ rows)


def stated_errors(covariance: Array, parameters: Array) -> Array:
    """Return standard deviations of mass, inertia and centre of mass, (3,) [kg, kg·m², m].

    Mass, rms of the six entries of the inertia about the frame's origin, and length of the error of
    the centre of mass, to first order.

    Args:
        covariance: Of the ten inertial parameters, shape (10, 10).
        parameters: The ten inertial parameters, shape (10,).
    """
    com = parameters[1:4] / parameters[0]
    slope = np.zeros((3, 10))
    slope[:, 0], slope[:, 1:4] = -com / parameters[0], np.eye(3) / parameters[0]
    spread = np.trace(slope @ covariance @ slope.T)
    inertias = np.mean(np.diag(covariance)[4:])
    return np.asarray(np.sqrt(np.array([covariance[0, 0], inertias, spread])))
