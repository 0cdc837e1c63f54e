"""The published method: mean cycle, Fourier fit, least squares, harmonics by energy balance.

As published [Ekal2018], so that it can be compared with; `IdentifyFreeFlyer` is what to use.
Corrected where the print cannot be meant, each at its place below:

- (7) has p_c where its second derivative belongs;
- (21) takes the inertia about the centre of mass, (12) estimates that about the frame's origin;
- what stands right and left of (25) is called the other way round;
- the sentence after (25) takes the acceleration of the frame's origin for that of the centre of
  mass;
- rates of Euler angles are not the angular velocity that (9) takes.

Kept as published: attitude by Euler angles z-y-x, which fails at a pitch of ±90°; rows of force and
moment that weigh the same; commands paired with the motion at the start of the sample over which
they are held; one number of harmonics for all. And the energy balance is no independent check: it
is the residual of (17) projected on the twist,

    P − Ṫ(π̂) = [Rᵀv_c; ω]ᵀ (τ − γ π̂)

blind to residuals orthogonal to the twist, and at rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

from heft.arrays import Array
from heft.errors import InvalidSetting, TooLittleData
from heft.files import Number, check_fields
from heft.information import inertia

from .cycles import Cycles, series


@dataclass(frozen=True, eq=False)
class BodyPath:
    """Motion of the frame's origin and attitude over a cycle, in the body's axes."""

    velocity: Array  # Rᵀ ṗ_c, shape (n, 3) [m/s]
    acceleration: Array  # Rᵀ p̈_c, shape (n, 3) [m/s²]
    angular_velocity: Array  # ω, shape (n, 3) [rad/s]
    angular_acceleration: Array  # ω̇, shape (n, 3) [rad/s²]

    @property
    def regressor(self) -> Array:
        """γ of (9), shape (n, 6, 10), columns in heft's order of the ten parameters."""
        return inertia.wrench_regressor(
            self.acceleration, self.angular_velocity, self.angular_acceleration
        )


def path_of_angles(pose: Array, period: float, harmonics: int) -> BodyPath:
    """Return the motion by truncated Fourier series of position and Euler angles (18).

    Args:
        pose: Position, then roll φ, pitch θ and yaw ψ (z-y-x), over a period, (n, 6) [m, rad].
    """
    x, v, a = series(pose, period, harmonics)
    back = np.swapaxes(Rotation.from_euler("ZYX", x[:, :2:-1]).as_matrix(), 1, 2)
    # Erratum: (9) takes ω in the body's axes, ω = E(φ, θ) Θ̇, where the text has the rates Θ̇.
    (sr, sp), (cr, cp) = np.sin(x[:, 3:5].T), np.cos(x[:, 3:5].T)
    (dr, dp, dy), (ar, ap, ay) = v[:, 3:].T, a[:, 3:].T
    w = np.stack([dr - sp * dy, cr * dp + sr * cp * dy, -sr * dp + cr * cp * dy], axis=1)
    alpha = np.stack(
        [
            ar - sp * ay - cp * dp * dy,
            cr * ap + sr * cp * ay - sr * dr * dp + (cr * cp * dr - sr * sp * dp) * dy,
            -sr * ap + cr * cp * ay - cr * dr * dp - (sr * cp * dr + cr * sp * dp) * dy,
        ],
        axis=1,
    )
    inside = [np.einsum("nij,nj->ni", back, y[:, :3]) for y in (v, a)]
    return BodyPath(inside[0], inside[1], w, alpha)


def least_squares(regressor: Array, wrench: Array) -> Array:
    """Return π̂ = (WᵀW)⁻¹Wᵀb of stacked, unweighted rows (17), shape (10,).

    Args:
        regressor: γ, shape (n, 6, 10).
        wrench: τ, shape (n, 6) [N, N·m].

    Raises:
        TooLittleData: If W has not full rank.
    """
    W = regressor.reshape(-1, regressor.shape[2])
    values, _, rank, _ = np.linalg.lstsq(W, wrench.ravel(), rcond=None)
    if rank < W.shape[1]:
        raise TooLittleData(
            "the motion does not determine all parameters",
            got=f"rank {rank} of {W.shape[1]}",
            cure="use a motion that excites all axes",
        )
    return np.asarray(values)


def power_gap(path: BodyPath, wrench: Array, values: Array) -> Array:
    """Return P − Ṫ, power of the actuators less the rate of the kinetic energy (25), (n,) [W]."""
    # Erratum: T of (21) has J_s about the centre of mass; (12) estimates J_c, from which (6) gives
    # it. `to_body` does.
    mass, offset, J_s = inertia.to_body(values)
    w, alpha = path.angular_velocity, path.angular_acceleration
    # Erratum: P is the left side of (25), Ṫ the right one.
    power = np.sum(wrench[:, :3] * path.velocity + wrench[:, 3:] * w, axis=1)
    # Erratum: p̈_s is that of the centre of mass, by the braces of (4), not p̈_c.
    v_s = path.velocity + np.cross(w, offset)
    a_s = path.acceleration + np.cross(alpha, offset) + np.cross(w, np.cross(w, offset))
    spin = alpha @ J_s + np.cross(w, w @ J_s)
    return np.asarray(power - np.sum(mass * a_s * v_s + w * spin, axis=1))


@dataclass(frozen=True, eq=False)
class EnergyBalanceEstimate:
    """Parameters by the published method."""

    values: Array  # π̂ at n*, shape (10,)
    harmonics: int  # n*, of the smallest mean |P − Ṫ|
    tried: Array  # numbers of harmonics tried, shape (k,)
    gap: Array  # mean |P − Ṫ| of each, shape (k,) [W]
    by_harmonics: Array  # π̂ of each, shape (k, 10)


@dataclass(frozen=True)
class EnergyBalance:
    """The published method: harmonics n* chosen where power and kinetic energy agree best.

    Raises:
        InvalidSetting: If these are out of range or order.
    """

    # least, most: numbers of harmonics tried; 3 to 15 as published (its figures go to 20)
    least: int = 3
    most: int = 15

    def __post_init__(self) -> None:
        count = Number("the number of harmonics is no whole number", 1, 10_000, whole=True)
        check_fields(self, {"least": count, "most": count})
        if self.most < self.least:
            raise InvalidSetting(
                "the most harmonics are fewer than the least", argument="most", got=self.most
            )

    def fit(self, cycles: Cycles) -> EnergyBalanceEstimate:
        """Return the parameters of body and load, without gravity.

        Args:
            cycles: All are averaged.

        Raises:
            InvalidSetting: If a cycle has too few samples for the harmonics.
            TooLittleData: If the motion does not determine the parameters.
        """
        if 2 * self.most + 1 > cycles.phases:
            raise InvalidSetting(
                "a cycle has too few samples for so many harmonics",
                argument="most",
                got=f"{self.most} of {cycles.phases} samples",
            )
        pose, wrench = mean_angles(cycles), cycles.wrench.mean(axis=0)
        tried = np.arange(self.least, self.most + 1)
        estimates, gap = [], []
        for n in tried:
            path = path_of_angles(pose, cycles.period, int(n))
            estimates.append(least_squares(path.regressor, wrench))
            gap.append(float(np.mean(np.abs(power_gap(path, wrench, estimates[-1])))))
        best = int(np.argmin(gap))
        return EnergyBalanceEstimate(
            estimates[best],
            int(tried[best]),
            tried.astype(float),
            np.array(gap),
            np.array(estimates),
        )


def mean_angles(cycles: Cycles) -> Array:
    """Return position and Euler angles z-y-x averaged over the cycles, shape (n, 6) [m, rad]."""
    q = cycles.quaternion.reshape(-1, 4)
    angles = Rotation.from_quat(q[:, [1, 2, 3, 0]]).as_euler("ZYX")[:, ::-1]
    folded = np.unwrap(angles, axis=0).reshape(cycles.count, cycles.phases, 3)
    return np.hstack([cycles.position.mean(axis=0), folded.mean(axis=0)])
