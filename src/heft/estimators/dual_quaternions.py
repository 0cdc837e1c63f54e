"""Pose of one contact relative to another from both their twists, by unit dual quaternions.

With x = q_r + ε q_d of the pose that takes coordinates in frame i to those in frame j, twists obey
ξ_j ⊗ x = x ⊗ ξ_i, which is linear in x:

    [ H(ω_i, ω_j)             0 ] [q_r]
    [ H(v_i, v_j)   H(ω_i, ω_j) ] [q_d] = 0        [Fan2017, (14)]

Rotation is the eigenvector of the least eigenvalue of Σ HᵀH (38), translation a least-squares
problem with q_dᵀ q_r = 0 (39), (40).

The paper weights rows by the covariance of its Proposition 2. That is exactly singular here, for
H q is orthogonal to q for every noise (H is skew), and its inverse pins the estimate to the one
before; its projection on what is not singular is a multiple of the identity, which is used. In
(39) and (40) the weight is that of sample l, not of k. Noise in ω_i, ω_j attenuates the
translation (noise in the regressors), however much data there is: see `EdgePose` for the cure.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from heft.arrays import Array
from heft.information import matrix_of_quaternion, skew

NEAR = 1e-9  # of the largest eigenvalue: closer ones are one eigenvalue, several times


def product(p: Array, q: Array) -> Array:
    """Return the product of two quaternions w, x, y, z, shape (4,); [Fan2017, (1)]."""
    vector = p[0] * q[1:] + q[0] * p[1:] + np.cross(p[1:], q[1:])
    return np.array([p[0] * q[0] - p[1:] @ q[1:], *vector])


def conjugate(q: Array) -> Array:
    """Return the conjugate of a quaternion, shape (4,)."""
    return np.array([q[0], *-q[1:]])


def pose_of(rotational: Array, dual: Array) -> tuple[Array, Array]:
    """Return R, shape (3, 3), and t = 2 q_d q_r*, shape (3,), of a unit dual quaternion."""
    return matrix_of_quaternion(rotational), 2.0 * product(dual, conjugate(rotational))[1:]


def difference_matrix(a: Array, b: Array) -> Array:
    """Return H, shape (N, 4, 4), with H q = 0 for the q that turns vectors a, (N, 3), into b."""
    matrix = np.zeros((len(a), 4, 4))
    matrix[:, 0, 1:] = a - b
    matrix[:, 1:, 0] = b - a
    matrix[:, 1:, 1:] = skew(a + b)
    return matrix


@dataclass(frozen=True, eq=False)
class TwistInformation:
    """Information about a pose from pairs of twists; that of more pairs adds."""

    turning: Array = field(default_factory=lambda: np.zeros((4, 4)))  # Σ H(ω)ᵀ H(ω), shape (4, 4)
    moving: Array = field(default_factory=lambda: np.zeros((4, 4)))  # −Σ H(ω)ᵀ H(v), shape (4, 4)
    # rotation believed before, which decides what twists leave open, shape (4,)
    before: Array = field(default_factory=lambda: np.array([1.0, 0.0, 0.0, 0.0]))

    @staticmethod
    def of(omega_i: Array, v_i: Array, omega_j: Array, v_j: Array) -> TwistInformation:
        """Return the information from pairs of twists, each shape (N, 3) [rad/s and m/s]."""
        turning = difference_matrix(omega_i, omega_j)
        moving = difference_matrix(v_i, v_j)
        return TwistInformation(
            np.einsum("nki,nkj->ij", turning, turning), -np.einsum("nki,nkj->ij", turning, moving)
        )

    def __add__(self, other: TwistInformation) -> TwistInformation:
        return TwistInformation(
            self.turning + other.turning, self.moving + other.moving, self.before
        )

    @property
    def rotational(self) -> Array:
        """q_r, shape (4,), its first element not negative; (38b).

        Where the least eigenvalue is there several times, the nearest to what was believed before.
        """
        values, vectors = np.linalg.eigh(self.turning)
        least = vectors[:, values <= values[0] + NEAR * max(values[-1], 1e-300)]
        quaternion = least @ (least.T @ self.before) if least.shape[1] > 1 else least[:, 0]
        size = np.linalg.norm(quaternion)
        quaternion = quaternion / size if size > NEAR else least[:, 0]
        return np.asarray(-quaternion if quaternion[0] < 0.0 else quaternion)

    def pose(self) -> tuple[Array, Array]:
        """Return R, shape (3, 3), and t, shape (3,) [m]: coordinates in frame i to those in j.

        Translation along a direction that no twist tells is zero.
        """
        q = self.rotational
        matrix = np.zeros((5, 5))
        matrix[:4, :4] = self.turning
        matrix[:4, 4] = matrix[4, :4] = q * max(np.trace(self.turning), 1.0)
        dual = np.linalg.lstsq(matrix, np.array([*(self.moving @ q), 0.0]), rcond=1e-12)[0][:4]
        return pose_of(q, dual)
