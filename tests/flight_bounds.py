"""How well the best estimate could tell what flies, from what a simulated flight truly was."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from heft.arrays import Array
from heft.dynamics import SPIN
from heft.flight import FirstPath, FlightLog, FlightSystem, FlightTruth, FlyerModel
from heft.information import Directions, inertia
from heft.models import FreeFlyer


def information_of(flyer: FreeFlyer, truth: FlightTruth) -> Array:
    """Return the information M = Σ Yᵀ (A S Aᵀ)⁻¹ Y of a flight's true motion, shape (10, 10).

    The motion is taken as known, so that its inverse is the least covariance that an unbiased
    estimate of the ten parameters can have, however good the sensors are: the Cramér-Rao bound by
    the actuators' noise, which must act in all six directions.
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
    """
    com = parameters[1:4] / parameters[0]
    slope = np.zeros((3, 10))
    slope[:, 0], slope[:, 1:4] = -com / parameters[0], np.eye(3) / parameters[0]
    spread = np.trace(slope @ covariance @ slope.T)
    inertias = np.mean(np.diag(covariance)[4:])
    return np.asarray(np.sqrt(np.array([covariance[0, 0], inertias, spread])))


def true_bound(
    flight: FlightLog,
    flyer: FreeFlyer,
    states: Array,
    parameters: Array,
    response: tuple[float, float] = (0.0, 0.0),
    colour: float | None = None,
) -> Array:
    """Return the Cramér-Rao bound along a flight's true states, the smoother's, shape (10, 10).

    `response` is that of the actuators, beyond what is stated of them (see `FlightSystem`), and
    `colour` that of the poses' noise, as the flyer states it if None.
    """
    system = FlightSystem.of(flight, flyer, FirstPath().covariance)
    if colour is not None:
        system = replace(system, noise=replace(system.noise, colour=(colour, colour)))
    values = np.append(parameters, response)
    t = system.linearised(states, values, system.variance).innovations().triangle
    inverse = Directions.of(t.R, t.rows).inverse
    count = inertia.PARAMETER_COUNT
    return np.asarray(inverse @ inverse.T)[:count, :count]
