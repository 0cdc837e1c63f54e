"""The motion that a free-flying body is to fly: its design within bounds, and where it is when.

The motion is at rest at its start. A period's end is its start: rest stated at both ends, as in
[Ekal2018, eq. 19], repeats three conditions on each coordinate (or, stated one sample before the
period's end, all but determines the series), so that it is stated once.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidSetting
from heft.excitation import (
    Design,
    DesignLimits,
    DesignSettings,
    EffortLimits,
    ExcitationTrajectory,
    JointLimits,
    design,
)
from heft.information import continuous_quaternions
from heft.models import FlightBounds, FreeFlyer
from heft.plants import FLAT_ORDERS, FreeFlyerPlant, Turning, flat_attitude


def design_flight(
    flyer: FreeFlyer,
    bounds: FlightBounds,
    criterion: Literal["J1", "J2"] = "J2",
    settings: DesignSettings = DesignSettings(random=100, starts=2),
    stop: threading.Event | None = None,
) -> Design:
    """Return the flight that tells most about a body that has grasped something.

    Args:
        criterion: `J2`, the log-determinant of the information, or `J1`, the condition number of
            the whitened regressor in SI units, which depends on them and says little of errors.
        settings: Of the solver; duration, harmonics and criterion are those of the bounds.

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
        # as [Ekal2018, section IV-A] calls them
        criterion={"J1": "condition", "J2": "D"}[criterion],
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


@dataclass(frozen=True, eq=False)
class FlightReference:
    """A periodic motion as states to be tracked."""

    # of position, roll, pitch and yaw, or of position and yaw alone [m, rad]; then the body tilts
    # as what pushes along its own z only must
    trajectory: ExcitationTrajectory
    gravity: Array  # in the world, shape (3,) [m/s²]

    def __post_init__(self) -> None:
        if len(self.trajectory.names) not in (4, 6):
            raise InvalidSetting(
                "a flight is designed in position and attitude, or in position and yaw",
                argument="trajectory",
                got=", ".join(self.trajectory.names),
                expected="x, y, z, roll, pitch, yaw, or x, y, z, yaw",
            )

    @property
    def duration(self) -> float:
        """Duration of one cycle [s]."""
        return self.trajectory.duration

    def states(self, time: Array) -> tuple[Array, Array]:
        """Return desired states p, q, v, ω, shape (N, 13), and ω in the world, (N, 3) [rad/s]."""
        p, R, v, turning, _, _ = self._moved(time)
        from scipy.spatial.transform import Rotation

        quaternions = np.roll(Rotation.from_matrix(R).as_quat(), 1, axis=1)
        x = np.hstack((p, continuous_quaternions(quaternions), v, turning))
        return x, np.asarray(np.einsum("nij,nj->ni", R, turning))

    def accelerations(self, time: Array) -> tuple[Array, Array]:
        """Return p̈ in the world [m/s²] and α in the body's axes [rad/s²], shape (N, 3) each."""
        *_, a, alpha = self._moved(time)
        return a, alpha

    def _moved(self, time: Array) -> tuple[Array, Array, Array, Array, Array, Array]:
        """Return p, R, v, ω, p̈ and α."""
        within = np.mod(time, self.duration)
        if len(self.trajectory.names) == 4:
            made = [self.trajectory.derivative(within, k) for k in range(FLAT_ORDERS)]
            R, omega, alpha = flat_attitude(made, self.gravity)
            p, v, a = (x[:, :3] for x in made[:3])
            return p, R, v, omega, a, alpha
        q, v, a = self.trajectory(within)
        turned = Turning.of(q[:, 3:], v[:, 3:], a[:, 3:])
        moved = turned.velocity, a[:, :3], turned.acceleration
        return q[:, :3], turned.rotation, v[:, :3], *moved
