"""Excitation of a free-flying body: its bounds, its actuators and what it may carry, as a design.

The motion is at rest at its start. A period's end is its start: rest stated at both ends, as in
[Ekal2018, eq. 19], repeats three conditions on each coordinate (or, stated one sample before the
period's end, all but determines the series), so that it is stated once.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Literal

import numpy as np

from heft.arrays import Array
from heft.excitation import Design, DesignLimits, DesignSettings, EffortLimits, JointLimits, design
from heft.models import FlightBounds, FreeFlyer
from heft.plants import FreeFlyerPlant

CRITERIA = {"J1": "condition", "J2": "D"}  # as [Ekal2018, section IV-A] calls them


def design_flight(
    flyer: FreeFlyer,
    bounds: FlightBounds,
    criterion: Literal["J1", "J2"] = "J2",
    settings: DesignSettings = DesignSettings(random=100, starts=2),
    stop: threading.Event | None = None,
) -> Design:
    """Return the flight that tells most about a body that has grasped something.

    Args:
        flyer: The body, without what it grasped.
        criterion: `J2`, the log-determinant of the information, or `J1`, the condition number of
            the whitened regressor in SI units, which depends on them and says little of errors.
        settings: Of the solver; duration, harmonics and criterion are those of the bounds.
        stop: Once set, the best design so far is returned.

    Raises:
        InfeasibleLimits: If no motion keeps all limits.
    """
    plant = FreeFlyerPlant.of(flyer)
    still = tuple(np.zeros(len(plant.coordinates)))
    chosen = replace(
        settings,
        duration=bounds.period,
        harmonics=bounds.harmonics,
        basis="fourier",
        rest="start",
        start=still,
        criterion=CRITERIA[criterion],
        scale_columns=criterion == "J2",
        row_rate=flyer.pose.rate * bounds.cycles,
    )
    return design(
        plant, flight_limits(flyer, bounds, plant), chosen, command_noise(plant), stop=stop
    )


def command_noise(plant: FreeFlyerPlant) -> Array:
    """Return σ of each channel by the actuators' noise, shape (6,) [N].

    Where it is not stated it is one; where nothing pushes it is that of the usual actuator.
    """
    assert plant.actuators is not None
    noise = plant.actuators.noise
    if not noise.all():
        return np.ones(len(plant.channels))
    by = plant.combinations.measured * noise
    size = np.sqrt(np.sum(by**2, axis=1))
    return np.where(size > 0.0, size, float(np.exp(np.mean(np.log(noise)))))


def flight_limits(flyer: FreeFlyer, bounds: FlightBounds, plant: FreeFlyerPlant) -> DesignLimits:
    """Return the limits of a design: of coordinates and, with a payload's range, of commands."""
    at = [0, 1, 2, 5] if len(plant.coordinates) == 4 else slice(None)
    reach, velocity, acceleration = (bounds.limits(order)[at] for order in range(3))
    joints = JointLimits(-reach, reach, velocity, acceleration)
    return DesignLimits(joints, command_limits(flyer, bounds, plant))


def command_limits(
    flyer: FreeFlyer, bounds: FlightBounds, plant: FreeFlyerPlant
) -> EffortLimits | None:
    """Return the actuators' limits, for every load of the payload's range; None without one.

    Wrenches must stay in the polytope of those that commands within limits make: where there are
    as many actuators as they can do, that limits each command.
    """
    payload = bounds.payload
    if payload is None:
        return None
    can = flyer.actuators.attainable
    loads = np.array([load.parameters for load in payload.vertices]).T
    return EffortLimits(
        values=flyer.nominal,
        torque=payload.effort * can.reach,
        deviations=loads,
        spread="alternatives",
        mixing=can.normals @ np.linalg.inv(plant.combinations.matrix),
        middle=can.middle,
        names=flyer.actuators.names
        if can.commands
        else tuple(f"facet {k + 1}" for k in range(len(can.reach))),
    )
