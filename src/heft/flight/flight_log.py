"""A flight of a free flyer: its log as arrays, with what acted on it between the samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_banded

from heft.arrays import Array
from heft.errors import InvalidRecording
from heft.information import angular_velocity, continuous_quaternions, inertia, matrix_of_quaternion
from heft.models import FreeFlyer
from heft.recordings import Recording

LEAST_SAMPLES = 32


@dataclass(frozen=True, eq=False)
class FlightLog:
    """Log of a free flyer: poses at N times, and the wrench that acted from each to the next."""

    time: Array  # strictly increasing, shape (N,) [s]
    position: Array  # of the body's frame in the world, NaN where missing, shape (N, 3) [m]
    quaternion: Array  # its attitude w, x, y, z, of unit length, NaN where missing, shape (N, 4)
    # mean over [t_n, t_n+1) of what the actuators exert about the frame's origin, in its axes,
    # shape (N, 6) [N, N·m]; the last one is beyond the log and not used
    wrench: Array
    commands: Array  # as logged, or between those, shape (N, n)
    # variance of commands that were not logged but lie between those that were, shape (N, n)
    unsure: Array
    # whether something else held or pushed the body, as ground or hand, shape (N,)
    held: NDArray[np.bool_]

    @staticmethod
    def of(recording: Recording, flyer: FreeFlyer) -> FlightLog:
        """Return the flight of a log.

        A pose that repeats the one before in every bit is no measurement: it is left out.

        Raises:
            MissingSignal: If a signal is not there.
            InvalidRecording: If it is too short, lacks most commands, or time stands still.
        """
        commands, pose = flyer.actuators.signals, flyer.frame_signals
        recording.require(commands, f"is what '{flyer.name}' was told to exert")
        recording.require(pose, f"says how '{flyer.name}' moves")
        complete = recording.whole((*pose, *commands))
        time, values = complete.time, complete.values
        if len(time) < LEAST_SAMPLES or not np.all(np.diff(time) > 0.0):
            raise InvalidRecording(
                "the log is too short, or its times do not increase",
                argument=recording.name,
                got=f"{len(time)} samples",
                expected=f"{LEAST_SAMPLES} at least, each later than the one before",
            )
        return FlightLog.of_arrays(time, values[:, :3], values[:, 3:7], values[:, 7:], flyer)

    @staticmethod
    def of_arrays(
        time: Array, position: Array, quaternion: Array, commands: Array, flyer: FreeFlyer
    ) -> FlightLog:
        """Return the flight of arrays, shape (N,), (N, 3), (N, 4) and (N, actuators).

        Raises:
            InvalidRecording: If most commands are missing.
        """
        logged = np.asarray(np.isfinite(commands).all(axis=1))
        if np.mean(logged) < 0.5:
            raise InvalidRecording(
                "commands are missing",
                got=f"{int(np.sum(~logged))} of {len(logged)} samples",
                cure="cut the log to where actuators were logged",
            )
        p, q = np.array(position, dtype=float), np.array(quaternion, dtype=float)
        for array in (p, q):
            stale = np.all(array[1:] == array[:-1], axis=1)
            array[1:][stale] = np.nan
        with np.errstate(invalid="ignore"):
            q /= np.linalg.norm(q, axis=1, keepdims=True)
        time, (p, q, u) = _with_lost(time, p, q, np.where(logged[:, None], commands, np.nan))
        u, unsure = _between(time, u)
        wrench = flyer.actuators.wrench(mean_thrust(u, hold_times(time), flyer.actuators.lag))
        return FlightLog(time, p, q, wrench, u, unsure, np.zeros(len(time), dtype=bool))

    @property
    def most(self) -> Array:
        """Wrench that is as good as any: ten times the usual one, of each kind, shape (6,)."""
        usual = np.sqrt(np.mean(self.wrench.reshape(-1, 2, 3) ** 2, axis=(0, 2)))
        return np.repeat(10.0 * usual, 3)

    def __len__(self) -> int:
        return len(self.time)

    @property
    def steps(self) -> Array:
        """Time from each sample to the next, shape (N − 1,) [s]."""
        return np.diff(self.time)

    def part(self, rows: slice) -> FlightLog:
        """Return some of the samples."""
        return FlightLog(*(array[rows] for array in vars(self).values()))


def _with_lost(time: Array, *signals: Array) -> tuple[Array, list[Array]]:
    """Return samples with those that were lost between them, NaN, where the rest is even."""
    steps = np.diff(time) / np.median(np.diff(time))
    counts = np.rint(steps).astype(int)
    lost = counts - 1
    uneven = np.mean(np.abs(steps - counts) > 0.25) > 0.1
    if uneven or not 0 < lost[lost > 0].sum() <= len(time):
        return time, list(signals)
    after = np.repeat(np.arange(len(lost)), lost)
    order = np.concatenate([np.arange(n) for n in lost[lost > 0]]) + 1
    between = time[after] + np.diff(time)[after] * order / counts[after]
    made = [np.insert(x, after + 1, np.full(x.shape[1], np.nan), axis=0) for x in signals]
    return np.insert(time, after + 1, between), made


def _between(time: Array, commands: Array) -> tuple[Array, Array]:
    """Return commands without gaps, by straight lines, and the variance of those in gaps.

    It is that of what was logged about straight lines over as long a gap, by as many samples as
    the gap has, which err together.
    """
    gone = np.isnan(commands[:, 0])
    u, unsure = commands.copy(), np.zeros(commands.shape)
    if not gone.any():
        return u, unsure
    for k in range(u.shape[1]):
        u[gone, k] = np.interp(time[gone], time[~gone], commands[~gone, k])
    edges = np.flatnonzero(np.diff(gone, prepend=False, append=False)).reshape(-1, 2)
    for first, last in edges:
        half = min((last - first) // 2 + 1, len(u) // 4)
        off = u[half:-half] - 0.5 * (u[2 * half :] + u[: -2 * half])
        counts = ~(gone[half:-half] | gone[2 * half :] | gone[: -2 * half])
        some = off[counts] if counts.any() else off
        unsure[first:last] = (last - first) * np.mean(some**2, axis=0)
    return u, unsure


def hold_times(time: Array) -> Array:
    """Return how long each command is held [s], the last as long as the one before, (N,)."""
    return np.diff(time, append=2.0 * time[-1] - time[-2])


def mean_thrust(commands: Array, steps: Array, lag: Array) -> Array:
    """Return the mean thrust over each step, shape (N, n); see `late_thrust`."""
    return late_thrust(commands, steps, lag, np.zeros(len(lag)))[0] if np.any(lag) else commands


def late_thrust(commands: Array, steps: Array, lag: Array, delay: Array) -> tuple[Array, Array]:
    """Return the thrust over each step: its mean, and what displacement it adds to the mean's.

    The commands u, shape (N, n), are held over the steps and are followed as `lag · ẏ = u − y`,
    a delay later; a lag of zero is none, a negative delay a lead. With the same mean from t to
    t + h, thrusts move a unit mass by `∫∫ y − ½ h² ȳ` further or less far, shape (N, n) [N·s²].
    """
    ends = np.append(0.0, np.cumsum(steps))
    mean, moved = np.empty(commands.shape), np.empty(commands.shape)
    for k, (tau, late) in enumerate(zip(lag, delay, strict=True)):
        u, follows = commands[:, k], max(tau, 1e-9)
        decay = np.exp(-steps / follows)
        band = np.stack([np.ones(len(u)), -decay])
        y = solve_banded((1, 0), band, np.append(u[0], ((1.0 - decay) * u)[:-1]))

        def integrals(n: NDArray[np.int_], x: Array) -> tuple[Array, Array]:
            """Return ∫ y and ∫∫ y from each command n on until x later."""
            settled = follows * -np.expm1(-np.maximum(x, 0.0) / follows)  # noqa: B023
            one = u[n] * x + (y[n] - u[n]) * settled  # noqa: B023
            two = 0.5 * u[n] * x**2 + (y[n] - u[n]) * follows * (x - settled)  # noqa: B023
            return one, two

        one, two = integrals(np.arange(len(u)), steps)
        once = np.append(0.0, np.cumsum(one))
        twice = np.append(0.0, np.cumsum(two + once[:-1] * steps))
        n = np.clip(np.searchsorted(ends, ends - late, side="right") - 1, 0, len(u) - 1)
        x = ends - late - ends[n]
        one, two = integrals(n, x)
        two += twice[n] + once[n] * x
        one += once[n]
        mean[:, k] = np.diff(one) / steps
        moved[:, k] = np.diff(two) - one[:-1] * steps - 0.5 * mean[:, k] * steps**2
    return mean, moved


def lagging(thrust: Array, command: Array, step: float, lag: Array) -> tuple[Array, Array]:
    """Return the thrust of such actuators over one step: its mean, and what it is at the end."""
    share, rest = _gap(step, lag)
    return command + (thrust - command) * share, command + (thrust - command) * rest


def _gap(step: Array | float, lag: Array) -> tuple[Array, Array]:
    """Return what there is of the first gap between thrust and command: in the mean, at the end."""
    slow = lag > 0.0
    safe = np.where(slow, lag, 1.0)
    rest = np.where(slow, np.exp(-step / safe), 0.0)
    return np.where(slow, safe / step * (1.0 - rest), 0.0), rest


def pose_regressor(x: Array, v: Array, a: Array, gravity: Array) -> Array:
    """Return the regressor of a body along poses and their two derivatives, shape (N, 6, 10).

    Poses are position and quaternion, of any length, shape (N, 7).
    """
    q, rate = x[:, 3:], v[:, 3:]
    w = angular_velocity(q, rate)
    growth = 2.0 * np.sum(q * rate, axis=1, keepdims=True) / np.sum(q**2, axis=1, keepdims=True)
    alpha = angular_velocity(q, a[:, 3:]) - growth * w
    specific = np.einsum("nji,nj->ni", matrix_of_quaternion(q), a[:, :3] - gravity)
    return inertia.wrench_regressor(specific, w, alpha)


def filled(flight: FlightLog, worst: float) -> tuple[Array, Array]:
    """Return position and sign-continuous quaternion with gaps and gross outliers bridged.

    For a first path only: what is far from where its neighbours lead to is bridged by straight
    lines, which no estimate rests on.

    Args:
        worst: Distance from the median of the neighbours' extrapolations beyond which a sample is
            an outlier, in multiples of the median distance.

    Raises:
        InvalidRecording: If there are next to no poses.
    """
    complete = np.isfinite(np.hstack([flight.position, flight.quaternion]))
    usable: NDArray[np.bool_] = np.asarray(complete.all(axis=1))
    if usable.sum() < LEAST_SAMPLES:
        raise InvalidRecording(
            "there are next to no poses",
            got=f"{int(usable.sum())} of {len(usable)} samples",
            expected=f"{LEAST_SAMPLES} at least",
        )
    time = flight.time[usable]
    q = flight.quaternion[usable]
    p = flight.position[usable]
    kept = np.ones(len(time), dtype=bool)
    # Sign by sign, an outlier turns the rest round: signs are those of what is kept.
    for _ in range(2):
        both = np.hstack([p[kept], continuous_quaternions(q[kept])])
        away = np.abs(both - _from_neighbours(both))
        away[:2] = away[-2:] = 0.0
        # About the median of the median distance a log without noise has none: any is allowed.
        limit = worst * np.maximum(np.median(away, axis=0), 1e-4 * np.std(both, axis=0) + 1e-9)
        bad = np.any(away > limit, axis=1)
        if not bad.any():
            break
        kept[np.flatnonzero(kept)[bad]] = False
    both = np.hstack([p[kept], continuous_quaternions(q[kept])])
    complete = np.stack([np.interp(flight.time, time[kept], x) for x in both.T], axis=1)
    return complete[:, :3], complete[:, 3:]


def _from_neighbours(values: Array) -> Array:
    """Return the median of the extrapolations from either side and the neighbours' mean."""
    back, ahead = np.roll(values, 1, axis=0), np.roll(values, -1, axis=0)
    from_back = 2.0 * back - np.roll(values, 2, axis=0)
    from_ahead = 2.0 * ahead - np.roll(values, -2, axis=0)
    middle = 0.5 * (back + ahead)
    low, high = np.minimum(from_back, from_ahead), np.maximum(from_back, from_ahead)
    return np.asarray(np.maximum(low, np.minimum(high, middle)))  # the median of three
