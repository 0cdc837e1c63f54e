"""What a free flyer grasped, estimated while it flies, until it is known well enough.

An extended Kalman filter that starts from a wrong body linearises its first samples about it and is
then too sure. So the samples are kept for a while, smoothed, and filtered once more from the first
one on, about the parameters that the smoother finds; from then on that point stays, and the filter
is linear in the parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from heft.arrays import Array
from heft.dynamics import rigid_body
from heft.errors import FitError, InputError
from heft.estimators import FilterError, IteratedSmoother, StateFilter
from heft.files import Keys, Number, check_fields
from heft.information import inertia
from heft.models import FreeFlyer

from .flight_log import FlightLog, lagging
from .path import FirstPath, FlightSystem

POSITIVE = Number("the number is not positive", above=0.0)
CHECKS: Keys = dict.fromkeys(("mass", "reach", "position", "angle", "velocity", "rate"), POSITIVE)
ENOUGH: Keys = dict.fromkeys(("mass", "offset", "inertia"), POSITIVE)


@dataclass(frozen=True)
class WellEnough:
    """Standard deviations, given exact thrust, at which body and load are known well enough.

    Raises:
        InvalidSetting: If one is not positive.
    """

    mass: float = 0.005  # share of the body's mass
    offset: float = 0.002  # of the centre of mass, along any axis [m]
    inertia: float = 0.05  # share of the largest moment of inertia, of any entry

    def __post_init__(self) -> None:
        check_fields(self, ENOUGH)

    def reached(self, values: Array, covariance: Array) -> bool:
        """Return whether parameters are known well enough."""
        numbers, jacobian = inertia.stated_body(values)
        std = np.sqrt(np.diag(jacobian @ covariance @ jacobian.T))
        largest = float(np.linalg.eigvalsh(inertia.to_body(values)[2])[-1])
        return bool(
            std[0] <= self.mass * numbers[0]
            and np.all(std[1:4] <= self.offset)
            and np.all(std[4:] <= self.inertia * largest)
        )


@dataclass(frozen=True, eq=False)
class FollowedFlight:
    """State of the estimation of a flight so far."""

    time: float  # of the last sample [s]
    state: Array | None  # of the body's frame then, shape (13,); no sample yet if None
    values: Array  # ten parameters of body and load, shape (10,)
    error: FilterError  # what is known about both
    thrust: Array  # of the actuators at that time, shape (n,); of use where they lag
    # time, pose and held commands so far, until the last replay
    samples: tuple[tuple[float, Array, Array], ...] = ()
    replays: int = 0  # number of replays done
    # time from which on the parameters are known well enough [s]; None before
    known_since: float | None = None
    scale_std: float = 0.0  # deviation of what acts over what commands say, as the flyer states it

    @property
    def covariance(self) -> Array:
        """Covariance of the parameters, thrust's scale included, shape (10, 10).

        Twice the thrust is twice the body: no flight tells one from the other.
        """
        values = self.scale_std * (self.values + self.error.parameters)
        return np.asarray(self.error.covariance + np.outer(values, values))

    @property
    def known(self) -> bool:
        """Whether the parameters are known well enough."""
        return self.known_since is not None


@dataclass(frozen=True)
class FollowFreeFlyer:
    """Body and load estimated while flying, from each pose and command as it comes.

    Raises:
        InvalidSetting: If one is not positive.
    """

    enough: WellEnough = WellEnough()  # when they are known
    filter: StateFilter = StateFilter()  # the filter
    mass: float = 2.0  # standard deviation of the load's mass before anything is measured [kg]
    reach: float = 0.3  # of its place about the frame's origin [m]
    position: float = 0.1  # of the first position about the first measured one [m]
    angle: float = 0.1  # of the first attitude, likewise [rad]
    velocity: float = 0.3  # of the first velocity about rest [m/s]
    rate: float = 0.3  # of the first angular velocity about rest [rad/s]
    # times after the first sample at which all samples are filtered anew [s]
    replays: tuple[float, ...] = (4.0, 12.0)
    smoother: IteratedSmoother = IteratedSmoother()  # the smoother
    first: FirstPath = FirstPath()  # its first path

    def __post_init__(self) -> None:
        check_fields(self, CHECKS)

    def start(self, flyer: FreeFlyer) -> FollowedFlight:
        """Return the flight before its first sample.

        Args:
            flyer: The body without its load.
        """
        spread = np.repeat(np.square((self.position, self.angle, self.velocity, self.rate)), 3)
        scale = self.mass * np.repeat([1.0, self.reach, self.reach**2], [1, 3, 6])
        error = self.filter.start(np.diag(spread), np.diag(scale**2))
        still = np.zeros(len(flyer.actuators))
        nominal, scale_std = np.array(flyer.nominal), flyer.scale_std
        return FollowedFlight(np.nan, None, nominal, error, still, scale_std=scale_std)

    def step(
        self, flight: FollowedFlight, flyer: FreeFlyer, time: float, pose: Array, applied: Array
    ) -> FollowedFlight:
        """Return the flight after a sample.

        Args:
            time: Of the sample [s].
            pose: Position and quaternion, NaN where missing, shape (7,).
            applied: Commands that were held since the last sample, shape (n,).
        """
        after = self._sampled(flight, flyer, time, pose, applied)
        if flight.replays < len(self.replays) and after.state is not None:
            after = replace(after, samples=(*flight.samples, (time, pose, applied)))
            if time - after.samples[0][0] >= self.replays[flight.replays]:
                after = self._replayed(after, flyer)
        if after.state is None:
            return after
        # Before the first replay it is too sure.
        sober = after.replays > 0 or not self.replays
        reached = sober and self.enough.reached(self.estimate(after), after.error.covariance)
        since = (flight.known_since if flight.known else time) if reached else None
        return replace(after, known_since=since)

    def _replayed(self, flight: FollowedFlight, flyer: FreeFlyer) -> FollowedFlight:
        """Return the flight filtered anew, linearised about the parameters of its smoother."""
        time, pose, applied = (np.array(part) for part in zip(*flight.samples, strict=True))
        # What a sample says was held until then is what a log says holds from the one before.
        commands = np.vstack([applied[1:], applied[-1:]])
        values = self.estimate(flight)
        try:
            log = FlightLog.of_arrays(time, pose[:, :3], pose[:, 3:], commands, flyer)
            system = FlightSystem.of(log, flyer, self.first.covariance)
            start = self.first.parameters(log, flyer)
            path, variance = self.first.states(log), system.variance
            smoothed = self.smoother.fit(system, path, start, variance).values
        except (FitError, InputError):
            smoothed = values
        if inertia.consistency_margin(smoothed) > 0.0:
            values = smoothed
        elif inertia.consistency_margin(values) <= 0.0:
            values = flight.values
        begin = self.start(flyer)
        error = begin.error.moved(values - begin.values)
        done = flight.replays + 1
        again = replace(begin, values=values, error=error, replays=done)
        for sample in flight.samples:
            again = self._sampled(again, flyer, *sample)
        return replace(again, samples=flight.samples if done < len(self.replays) else ())

    def _sampled(
        self, flight: FollowedFlight, flyer: FreeFlyer, time: float, pose: Array, applied: Array
    ) -> FollowedFlight:
        quaternion = pose[3:] / np.linalg.norm(pose[3:])
        if flight.state is None:
            if not np.isfinite(pose).all():
                return flight
            still = np.zeros(3)
            state = np.concatenate([pose[:3], quaternion, still, still])
            return replace(flight, time=time, state=state, thrust=np.array(applied))
        length = time - flight.time
        mean, thrust = lagging(flight.thrust, applied, length, flyer.actuators.lag)
        t = rigid_body.transitions(
            flight.state[None], flyer.actuators.wrench(mean[None]), np.array([length]),
            flight.values, flyer.gravity,
        )  # fmt: skip
        noise = t.by_wrench[0] @ flyer.actuators.wrench_noise @ t.by_wrench[0].T
        error = self.filter.predicted(flight.error, t.by_error[0], t.by_parameters[0], noise)
        turned = rigid_body.turned(t.after[:, rigid_body.TURN], quaternion[None])[0]
        residual = np.concatenate([pose[:3] - t.after[0, :3], turned])
        sensor = np.square([flyer.pose.position] * 3 + [flyer.pose.angle] * 3)
        variance = np.where(np.isfinite(residual), sensor, np.inf)
        error = self.filter.updated(error, residual, variance)
        values = flight.values
        if flight.replays:
            shift, error = error.columns[:, -1], error.centred()
        else:
            shift = error.states
            moved = values + error.parameters
            if inertia.consistency_margin(moved) > 0.0:  # rows need a body that can exist
                values = moved
            error = error.moved(values - flight.values)
        state = rigid_body.retract(t.after, shift[None])[0]
        return replace(flight, time=time, state=state, values=values, error=error, thrust=thrust)

    def estimate(self, flight: FollowedFlight) -> Array:
        """Return the ten parameters of body and load, shape (10,)."""
        return np.asarray(flight.values + flight.error.parameters)
