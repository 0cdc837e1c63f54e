"""A flight that repeats: its cycles, their mean, and the body's parameters from its lines.

Attitude is averaged as sign-continuous quaternions and fitted by harmonics of their four
components, `ω |q|² = 2 vec(q* q̇)`: no angle is singular. Commands are held over each sample, so
their lines are multiplied by the hold, (1 − e^{−iωh})/(iωh): half a sample of delay, which left out
costs more than all noise. What pose noise does to the wrench of line k is (kω)² times the mass
matrix times it; thrust noise is white.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from heft.arrays import Array
from heft.dynamics.rigid_body import mass_matrix
from heft.errors import TooLittleData
from heft.estimators import HarmonicEstimate, HarmonicLeastSquares
from heft.files import Keys, Number, check_fields
from heft.information import angular_velocity, inertia, matrix_of_quaternion
from heft.models import FreeFlyer
from heft.signals import periodic

from .flight_log import FlightLog, filled

ON_GRID = 0.05  # of a step, by which samples may miss the phases of the first cycle
MOST_BRIDGED = 0.1  # of the phases, which may be measured in no cycle
BRIDGED = 15.0  # see `FirstPath.outlier`
CHECKS: Keys = {
    "skipped": Number("the number of cycles left out is no whole number", 0, 1000, whole=True),
    "outlier": Number("the distance of outliers is no positive number", above=0.0),
}


@dataclass(frozen=True, eq=False)
class Cycles:
    """C cycles of a periodic flight, at n even phases.

    Attributes:
        period: T [s].
        position: Shape (C, n, 3) [m], NaN where missing.
        quaternion: Sign-continuous, shape (C, n, 4), NaN where missing.
        wrench: Mean over each step, shape (C, n, 6) [N, N·m].
    """

    period: float
    position: Array
    quaternion: Array
    wrench: Array

    @staticmethod
    def of(flight: FlightLog, period: float | None = None) -> Cycles:
        """Return the whole cycles of a flight.

        Args:
            flight: The log.
            period: [s]; found in the log if not given.

        Raises:
            InvalidSetting: If the motion is not periodic.
            TooLittleData: If there is less than a cycle.
        """
        p, q = filled(flight, BRIDGED)
        if period is None:
            period = periodic.find_period(flight.time, np.hstack([p, q]))
        step = float(np.median(flight.steps))
        size = round(period / step)
        count = int((flight.time[-1] - flight.time[0] + 1.5 * step) // period)
        if size < 8 or count < 1:
            raise TooLittleData(
                "the log holds no whole cycle",
                argument=f"period = {period:.6g} s",
                got=f"{flight.time[-1] - flight.time[0]:.4g} s",
                cure="give the period of the motion, or fly longer",
            )
        wanted = flight.time[0] + period / size * np.arange(count * size)
        if abs(wanted[-1] - flight.time[-1]) > 1.5 * step and wanted[-1] > flight.time[-1]:
            wanted = np.minimum(wanted, flight.time[-1])
        near = np.clip(np.searchsorted(flight.time, wanted - 0.5 * step), 0, len(flight) - 1)
        away = np.abs(flight.time[near] - wanted) > ON_GRID * step
        # The sign of each quaternion is that of the bridged path, which is continuous.
        sign = np.where(np.sum(flight.quaternion * q, axis=1) < 0.0, -1.0, 1.0)
        pose = np.hstack([flight.position, flight.quaternion * sign[:, None]])[near]
        pose[away] = np.stack([np.interp(wanted[away], flight.time, x) for x in np.hstack([p, q]).T], 1)  # fmt: skip
        folded = pose.reshape(count, size, 7)
        wrench = flight.wrench[near].reshape(count, size, 6)
        return Cycles(period, folded[:, :, :3], folded[:, :, 3:], wrench)

    @property
    def count(self) -> int:
        """Number of cycles."""
        return len(self.position)

    @property
    def phases(self) -> int:
        """Number of phases a cycle."""
        return self.position.shape[1]

    @property
    def step(self) -> float:
        """Time from phase to phase [s]."""
        return self.period / self.phases

    def after(self, skipped: int) -> Cycles:
        """Return the cycles without the first ones, which do not repeat yet.

        Args:
            skipped: How many.
        """
        return replace(
            self, position=self.position[skipped:], quaternion=self.quaternion[skipped:],
            wrench=self.wrench[skipped:],
        )  # fmt: skip

    def mean_pose(self, outlier: float) -> Array:
        """Return position and quaternion averaged over the cycles, shape (n, 7).

        Args:
            outlier: Distance from the median of the cycles, in robust standard deviations of all
                such distances, from which on a pose does not count.

        Raises:
            TooLittleData: If too many phases were measured in no cycle.
        """
        pose = np.concatenate([self.position, self.quaternion], axis=2)
        if self.count > 2:
            with np.errstate(all="ignore"):
                away = np.abs(pose - np.nanmedian(pose, axis=0))
            scale = 1.4826 * np.nanmedian(away, axis=(0, 1)) + 1e-12
            pose = np.where(np.any(away > outlier * scale, axis=2)[..., None], np.nan, pose)
        return mean_of_phases(pose)


def mean_of_phases(values: Array) -> Array:
    """Return signals averaged over cycles, shape (n, any), phases never measured bridged.

    Args:
        values: Shape (C, n, any), NaN where missing.

    Raises:
        TooLittleData: If too many phases were measured in no cycle.
    """
    seen = np.isfinite(values).all(axis=2)
    count = seen.sum(axis=0)
    phases = np.arange(len(count), dtype=float)
    there = count > 0
    if there.mean() < 1.0 - MOST_BRIDGED:
        raise TooLittleData(
            "some phases of the motion were measured in no cycle",
            got=f"{int(np.sum(~there))} of {len(there)} phases",
            expected=f"{MOST_BRIDGED:.0%} at most",
            cure="fly more cycles",
        )
    mean = np.where(seen[..., None], values, 0.0).sum(axis=0) / np.maximum(count, 1)[:, None]
    for column in mean.T:
        column[~there] = np.interp(
            phases[~there], phases[there], column[there], period=float(len(phases))
        )
    return np.asarray(mean)


def series(values: Array, period: float, harmonics: int) -> tuple[Array, Array, Array]:
    """Return a truncated Fourier series of even samples and its first two derivatives.

    Keeping lines of the discrete Fourier transform is the least-squares fit of the series
    [Ekal2018, sect. V-C]; it is differentiated exactly.

    Args:
        values: Over one period, shape (n, any).
        period: [s].
        harmonics: Lines kept, beside the mean.

    Returns:
        Three arrays of shape (n, any).
    """
    lines = np.fft.rfft(values, axis=0)
    lines[harmonics + 1 :] = 0.0
    rate = 2j * np.pi / period * np.arange(len(lines))[:, None]
    x, v, a = (np.fft.irfft(lines * rate**k, len(values), axis=0) for k in range(3))
    return x, v, a


def rows_on_so3(pose: Array, period: float, harmonics: int, gravity: Array) -> Array:
    """Return the body's rows Y of a periodic pose, shape (n, 6, 10), by harmonics on SO(3).

    Args:
        pose: Position and quaternion over one period, shape (n, 7).
        period: [s].
        harmonics: Kept of each component.
        gravity: In the world, shape (3,) [m/s²].
    """
    x, v, a = series(pose, period, harmonics)
    q, rate, second = x[:, 3:], v[:, 3:], a[:, 3:]
    square = np.sum(q**2, axis=1, keepdims=True)
    w = angular_velocity(q, rate)
    growth = 2.0 * np.sum(q * rate, axis=1, keepdims=True) / square
    alpha = angular_velocity(q, second) - growth * w
    back = np.swapaxes(matrix_of_quaternion(q), 1, 2)
    specific = np.einsum("nij,nj->ni", back, a[:, :3] - gravity)
    return inertia.wrench_regressor(specific, w, alpha)


@dataclass(frozen=True)
class IdentifyFromCycles:
    """A free flyer's parameters from a periodic flight, in the frequency domain on SO(3).

    Attributes:
        estimator: Which lines, and how often weights are updated.
        skipped: First cycles left out: they lead from rest to the periodic motion.
        outlier: See `Cycles.mean_pose` [robust standard deviations].

    Raises:
        InvalidSetting: If a setting is out of range.
    """

    estimator: HarmonicLeastSquares = HarmonicLeastSquares()
    skipped: int = 1
    outlier: float = 6.0

    def __post_init__(self) -> None:
        check_fields(self, CHECKS)

    def fit(self, cycles: Cycles, flyer: FreeFlyer) -> HarmonicEstimate:
        """Return the ten parameters of body and load.

        Args:
            cycles: Of the flight.
            flyer: Its actuators, sensors and nominal parameters.

        Raises:
            TooLittleData: If there are no cycles left, or they do not determine the parameters.
        """
        if cycles.count <= self.skipped:
            raise TooLittleData(
                "no cycle is left behind those that are left out",
                argument="skipped",
                got=f"{cycles.count} cycles, {self.skipped} left out",
                cure="fly more cycles",
            )
        cycles = cycles.after(self.skipped)
        most = (cycles.phases - 2) // 2
        estimator = self.estimator
        if estimator.harmonics > most:
            estimator = replace(estimator, harmonics=most)
        pose = cycles.mean_pose(self.outlier)
        Y = rows_on_so3(pose, cycles.period, estimator.harmonics, flyer.gravity)
        angle = 2.0 * np.pi / cycles.phases * np.arange(estimator.harmonics + 1)
        held = np.exp(-0.5j * angle) * np.sinc(0.5 * angle / np.pi)
        mean = cycles.wrench.mean(axis=0)
        lines = np.fft.rfft(mean, axis=0)[: len(angle)] / cycles.phases * held[:, None]
        pace = (angle / cycles.step) ** 4
        sensor = np.square([flyer.pose.position] * 3 + [flyer.pose.angle] * 3)
        thrust = flyer.actuators.wrench_noise
        samples = cycles.count * cycles.phases

        def noise(values: Array) -> Array:
            M = mass_matrix(values)
            moved = (M * sensor) @ M.T
            own = np.abs(held[:, None, None]) ** 2 * thrust + pace[:, None, None] * moved
            # Weights only: a mean, or a body that lacks a direction, would have no noise at all.
            least = 1e-9 * np.trace(own, axis1=1, axis2=2)[:, None, None] + 1e-30
            return np.asarray((own + least * np.eye(6)) / samples)

        return estimator.fit(Y, lines, noise, flyer.nominal)
