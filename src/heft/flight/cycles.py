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
from heft.dynamics import rigid_body
from heft.errors import TooLittleData
from heft.estimators import HarmonicEstimate, HarmonicLeastSquares
from heft.models import FreeFlyer
from heft.signals import periodic

from .flight_log import FlightLog, filled, pose_regressor


@dataclass(frozen=True, eq=False)
class Cycles:
    """C cycles of a periodic flight, at n even phases."""

    period: float  # T [s]
    position: Array  # shape (C, n, 3) [m]; what was missing, or gross, is bridged
    quaternion: Array  # sign-continuous, shape (C, n, 4), likewise
    wrench: Array  # mean over each step, shape (C, n, 6) [N, N·m]

    @staticmethod
    def of(flight: FlightLog, period: float | None = None) -> Cycles:
        """Return the whole cycles of a flight.

        Args:
            period: [s]; found in the log if not given.

        Raises:
            InvalidSetting: If the motion is not periodic.
            TooLittleData: If there is less than a cycle.
        """
        p, q = filled(flight, 15.0)  # as `FirstPath.outlier`
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
        away = np.abs(flight.time[near] - wanted) > 0.05 * step
        bridged = np.hstack([p, q])
        pose = bridged[near]
        pose[away] = np.stack([np.interp(wanted[away], flight.time, x) for x in bridged.T], axis=1)
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
        return int(self.position.shape[1])

    @property
    def step(self) -> float:
        """Time from phase to phase [s]."""
        return self.period / self.phases

    def after(self, skipped: int) -> Cycles:
        """Return the cycles without the first ones, which do not repeat yet."""
        return replace(
            self, position=self.position[skipped:], quaternion=self.quaternion[skipped:],
            wrench=self.wrench[skipped:],
        )  # fmt: skip

    @property
    def pose(self) -> Array:
        """Position and quaternion of each cycle, shape (C, n, 7)."""
        return np.concatenate([self.position, self.quaternion], axis=2)


def series(values: Array, period: float, harmonics: int) -> tuple[Array, Array, Array]:
    """Return a truncated Fourier series of a period's even samples and its first two derivatives.

    Keeping lines of the discrete Fourier transform is the least-squares fit of the series
    [Ekal2018, sect. V-C]; it is differentiated exactly.

    Args:
        harmonics: Number of harmonics kept, beside the mean.
    """
    lines = np.fft.rfft(values, axis=0)
    lines[harmonics + 1 :] = 0.0
    rate = 2j * np.pi / period * np.arange(len(lines))[:, None]
    x, v, a = (np.fft.irfft(lines * rate**k, len(values), axis=0) for k in range(3))
    return x, v, a


@dataclass(frozen=True)
class IdentifyFromCycles:
    """A free flyer's parameters from a periodic flight, in the frequency domain on SO(3).

    Raises:
        InvalidSetting: If a setting is out of range.
    """

    # which lines, and how often weights are updated
    estimator: HarmonicLeastSquares = HarmonicLeastSquares()
    # harmonics of the motion that rows are made of. Products of fast lines reach slow ones, so
    # these are more than the lines of the equations
    motion: int = 50

    def fit(self, cycles: Cycles, flyer: FreeFlyer) -> HarmonicEstimate:
        """Return the ten parameters of body and load.

        Raises:
            TooLittleData: If there are no cycles left, or they do not determine the parameters.
        """
        if cycles.count < 2:
            raise TooLittleData(
                "no cycle is left behind those that are left out",
                argument="skipped",
                got="one cycle, which is left out",
                cure="fly more cycles",
            )
        cycles = cycles.after(1)  # the first leads from rest to the periodic motion
        most = (cycles.phases - 2) // 2
        estimator = self.estimator
        if estimator.harmonics > most:
            estimator = replace(estimator, harmonics=most)
        count, phases, lines = cycles.count, cycles.phases, estimator.harmonics + 1
        # Rows of every cycle by the whole log's lines: cycles need not be alike, nor end where
        # they began. Their mean is exact where the mean pose would not be.
        pose = cycles.pose.reshape(-1, 7)
        highest = count * min(self.motion, (phases - 1) // 2)
        Y = pose_regressor(*series(pose, count * cycles.period, highest), flyer.gravity)
        angle = 2.0 * np.pi / phases * np.arange(lines)
        hold = np.exp(-0.5j * angle) * np.sinc(0.5 * angle / np.pi)
        mean = np.fft.rfft(cycles.wrench.mean(axis=0), axis=0)[:lines]
        wrench = mean / phases * hold[:, None]
        pace = (angle / cycles.step) ** 4
        sensor = np.square([flyer.pose.position] * 3 + [flyer.pose.angle] * 3)
        thrust = flyer.actuators.wrench_noise
        samples = count * phases

        def noise(values: Array) -> Array:
            M = rigid_body.mass_matrix(values)
            moved = (M * sensor) @ M.T
            own = np.abs(hold[:, None, None]) ** 2 * thrust + pace[:, None, None] * moved
            # Weights only: a mean, or a body that lacks a direction, would have no noise at all.
            least = 1e-9 * np.trace(own, axis1=1, axis2=2)[:, None, None] + 1e-30
            return np.asarray((own + least * np.eye(6)) / samples)

        return estimator.fit(
            Y.reshape(count, phases, 6, -1).mean(axis=0), wrench, noise, flyer.nominal
        )
