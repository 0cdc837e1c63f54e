"""The ten inertial parameters of one rigid body.

Order and frame, here and everywhere: `m, m·cx, m·cy, m·cz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz`,
the inertia about the *origin* of the body's frame, in that frame's axes (pinocchio's
`Inertia.toDynamicParameters()`). A body is physically consistent when its 4×4
pseudo-inertia

    S = [[Σ, h], [hᵀ, m]],   Σ = ½ tr(I) 1 − I

is positive definite: that is positive mass, positive definite inertia about the centre of
mass and the triangle inequality at once [Wensing2018, eq. 12].
"""

from __future__ import annotations

from functools import cache

import numpy as np

from heft.arrays import Array

from .rotation import skew

PARAMETER_COUNT = 10
SYMBOLS = ("m", "h.x", "h.y", "h.z", "I.xx", "I.xy", "I.yy", "I.xz", "I.yz", "I.zz")
UNITS = ("kg", "kg·m", "kg·m", "kg·m", *("kg·m²",) * 6)
INERTIA_INDEX = ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2))
AXES = "xyz"


def inertia_matrix(parameters: Array) -> Array:
    """Return the inertia matrix (..., 3, 3) about the frame's origin, of parameters (..., 10)."""
    return matrix_of_six(np.asarray(parameters, dtype=float)[..., 4:])


def from_body(mass: float, com: Array, inertia: Array) -> Array:
    """Return the ten parameters of a body given by mass [kg], centre of mass and inertia.

    This is the form of model files. See `to_body` for the inverse.

    Args:
        com: In the body's frame, shape (3,) [m].
        inertia: About the centre of mass in the body's axes, shape (3, 3) [kg·m²].
    """
    c = np.asarray(com, dtype=float)
    # Parallel axes [Featherstone2008, eq. 2.63]: I_origin = I_com + m c× c×ᵀ.
    about_origin = np.asarray(inertia, dtype=float) + mass * skew(c) @ skew(c).T
    return np.array([mass, *(mass * c), *(about_origin[i, j] for i, j in INERTIA_INDEX)])


def to_body(parameters: Array) -> tuple[float, Array, Array]:
    """Return mass [kg], centre of mass (3,) [m] and inertia about it (3, 3) [kg·m²].

    The inverse of `from_body`. The centre of mass of a body of zero mass is set to the origin.
    """
    mass = float(parameters[0])
    com = parameters[1:4] / mass if mass != 0.0 else np.zeros(3)
    return mass, com, inertia_matrix(parameters) - mass * skew(com) @ skew(com).T


def stated_body(parameters: Array) -> tuple[Array, Array]:
    """Return mass, centre of mass and central inertia, with their Jacobian by the ten parameters.

    For error propagation to the numbers of a model file: their covariance is
    `J @ covariance @ J.T`. The Jacobian is that of c = h/m and I_c = I + (h hᵀ − hᵀh 1)/m. For a
    body of zero mass the centre of mass is set to the origin and its derivatives to zero.

    Returns:
        Mass [kg], centre of mass [m], and Ixx, Ixy, Iyy, Ixz, Iyz, Izz about it [kg·m²], shape
        (10,); their Jacobian, shape (10, 10).
    """
    mass, com, central = to_body(parameters)
    numbers = np.array([mass, *com, *(central[i, j] for i, j in INERTIA_INDEX)])
    jacobian = np.eye(PARAMETER_COUNT)
    per_mass = 1.0 / mass if mass != 0.0 else 0.0
    jacobian[1:4, 0] = -com * per_mass
    jacobian[1:4, 1:4] = per_mass * np.eye(3)
    unit = np.eye(3)
    for row, (i, j) in enumerate(INERTIA_INDEX, 4):
        jacobian[row, 0] = unit[i, j] * (com @ com) - com[i] * com[j]
        jacobian[row, 1:4] = com[i] * unit[j] + com[j] * unit[i] - 2.0 * unit[i, j] * com
    return numbers, jacobian


def matrix_of_six(six: Array) -> Array:
    """Return the symmetric matrices (..., 3, 3) of entries (..., 6) that `INERTIA_INDEX` orders."""
    matrix = np.empty((*six.shape[:-1], 3, 3))
    for k, (i, j) in enumerate(INERTIA_INDEX):
        matrix[..., i, j] = matrix[..., j, i] = six[..., k]
    return matrix


def stated_with_std(parameters: Array, covariance: Array) -> tuple[Array, Array]:
    """Return mass, centre of mass and central inertia, with first-order standard deviations.

    Args:
        parameters: Ten inertial parameters, shape (10,) [kg, kg·m, kg·m²].
        covariance: Covariance of them, shape (10, 10).

    Returns:
        The numbers of `stated_body` and their standard deviations, shape (10,) each.
    """
    numbers, jacobian = stated_body(parameters)
    return numbers, np.sqrt(np.diag(jacobian @ covariance @ jacobian.T))


def wrench_regressor(
    specific_force: Array,
    angular_velocity: Array,
    angular_acceleration: Array,
    products: Array | None = None,
) -> Array:
    """Return the rigid-body regressor Y with `Y @ π` the wrench exerted on a body.

    Force, then moment about the frame's origin, in the frame's axes: the force on the body is
    `m (a − g) + (α× + ω×ω×) h` and the moment `I α + ω×Iω + h × (a − g)`. This is Φ of the load
    identification chapter; the equations of force and moment there have gravity's sign wrong.

    Y is linear in its arguments, with ωωᵀ as one of them. Weighted means of the arguments over a
    window therefore give the weighted mean of Y.

    Args:
        specific_force: Acceleration of the frame's origin less gravity, a − g, shape (N, 3)
            [m/s²]: the reading of an accelerometer there.
        angular_velocity: ω, shape (N, 3) [rad/s]; unused where products are given.
        angular_acceleration: α, shape (N, 3) [rad/s²].
        products: ωωᵀ, shape (N, 3, 3) [rad²/s²]; by default that of ω. Give it for windowed
            means, where mean(ωωᵀ) differs from the product of the means.

    Returns:
        Shape (N, 6, 10); times π [kg, kg·m, kg·m²] it gives [N, N·m].
    """
    a, w, alpha = (
        np.asarray(x, dtype=float) for x in (specific_force, angular_velocity, angular_acceleration)
    )
    W = w[:, :, None] * w[:, None, :] if products is None else np.asarray(products, dtype=float)
    out = np.zeros((len(a), 6, PARAMETER_COUNT))
    square = np.trace(W, axis1=1, axis2=2)
    out[:, :3, 0] = a
    out[:, :3, 1:4] = skew(alpha) + W - square[:, None, None] * np.eye(3)  # ω×ω× = ωωᵀ − ω²1
    out[:, 3:, 1:4] = -skew(a)
    accelerated, turning = _moment_of_inertia()
    out[:, 3:, 4:] = (alpha @ accelerated + W.reshape(-1, 9) @ turning).reshape(-1, 3, 6)
    return out


@cache
def _moment_of_inertia() -> tuple[Array, Array]:
    """Return the maps of α and of ωωᵀ to the columns of the moment I α + ω×Iω, (3 or 9, 18)."""
    accelerated, turning = np.zeros((3, 3, 6)), np.zeros((3, 3, 3, 6))
    for k, (i, j) in enumerate(INERTIA_INDEX):
        unit = np.zeros((3, 3))
        unit[i, j] = unit[j, i] = 1.0
        accelerated[:, :, k] = unit
        for x in range(3):  # (ω × Iω)_x = (I ωωᵀ)_zy − (I ωωᵀ)_yz, and so on around
            y, z = (x + 1) % 3, (x + 2) % 3
            turning[:, y, x, k] += unit[z]
            turning[:, z, x, k] -= unit[y]
    return accelerated.reshape(3, 18), turning.reshape(9, 18)


def pseudo_inertia(parameters: Array) -> Array:
    """Return the pseudo-inertia S (..., 4, 4) [kg·m², kg·m, kg] of ten parameters (..., 10)."""
    pi = np.asarray(parameters, dtype=float)
    inertia = inertia_matrix(pi)
    matrix = np.empty((*pi.shape[:-1], 4, 4))
    half_trace = 0.5 * np.trace(inertia, axis1=-2, axis2=-1)
    matrix[..., :3, :3] = half_trace[..., None, None] * np.eye(3) - inertia
    matrix[..., :3, 3] = matrix[..., 3, :3] = pi[..., 1:4]
    matrix[..., 3, 3] = pi[..., 0]
    return matrix


def from_pseudo_inertia(matrix: Array) -> Array:
    """Return the ten parameters (..., 10) of S (..., 4, 4); the inverse of `pseudo_inertia`."""
    second_moment = matrix[..., :3, :3]
    trace = np.trace(second_moment, axis1=-2, axis2=-1)
    inertia = trace[..., None, None] * np.eye(3) - second_moment
    parts = [matrix[..., 3, 3], *(matrix[..., k, 3] for k in range(3))]
    parts += [inertia[..., i, j] for i, j in INERTIA_INDEX]
    return np.stack(parts, axis=-1)


def consistency_margin(parameters: Array) -> float:
    """Return the smallest eigenvalue of the pseudo-inertia; positive if physically consistent.

    Args:
        parameters: Ten inertial parameters, shape (..., 10); of several bodies the least counts.
    """
    return float(np.linalg.eigvalsh(pseudo_inertia(parameters))[..., 0].min())


def nearest_consistent(parameters: Array, floor: float = 1e-3) -> Array:
    """Return physically consistent parameters: the pseudo-inertia's eigenvalues raised to a floor.

    The eigenvalues are those about the centre of mass, with the body's radius of gyration as unit
    of length, so that the floor is dimensionless.

    Args:
        parameters: Of positive mass, shape (10,).
        floor: Smallest eigenvalue allowed, as a share of the largest.
    """
    mass, com, inertia = to_body(parameters)
    gyration = float(np.sqrt(max(np.trace(inertia), 0.0) / max(2.0 * mass, 1e-300)))
    # A point mass has no radius of its own: it gets one of a hundredth of its distance.
    radius = max(gyration, 1e-2 * float(np.linalg.norm(com))) or 1e-3
    scale = np.diag([*(1.0 / radius,) * 3, 1.0]) / np.sqrt(mass)
    central = pseudo_inertia(from_body(mass, np.zeros(3), inertia))
    values, vectors = np.linalg.eigh(scale @ central @ scale)
    raised = (vectors * np.maximum(values, floor * values[-1])) @ vectors.T
    unscale = np.linalg.inv(scale)
    shift = np.eye(4)
    shift[:3, 3] = com  # moves the centre of mass back: S = T S_c Tᵀ
    return from_pseudo_inertia(shift @ unscale @ raised @ unscale @ shift.T)


def raised_to(parameters: Array, gyration: float) -> Array:
    """Return a body with second moments of at least `m k²` along every axis, shape (10,).

    Mass and centre of mass stay; moments are about the centre of mass, in their own axes.

    Args:
        parameters: Of positive mass, shape (10,).
        gyration: k [m].
    """
    mass, com, _ = to_body(parameters)
    shift = np.eye(4)
    shift[:3, 3] = com
    back = np.eye(4)
    back[:3, 3] = -com
    central = back @ pseudo_inertia(parameters) @ back.T
    values, vectors = np.linalg.eigh(central[:3, :3])
    central[:3, :3] = (vectors * np.maximum(values, mass * gyration**2)) @ vectors.T
    return from_pseudo_inertia(shift @ central @ shift.T)


def frame_change(rotation: Array, translation: Array) -> Array:
    """Return the matrix (10, 10) that transforms a body's ten parameters to another frame.

    `frame_change(R, p) @ π_child == π_parent`, where `x_parent = R x_child + p`, by
    `S_parent = T S_child Tᵀ` with the homogeneous transform T.
    """
    transform = np.eye(4)
    transform[:3, :3] = rotation
    transform[:3, 3] = translation
    columns = pseudo_inertia(np.eye(PARAMETER_COUNT))
    return from_pseudo_inertia(transform @ columns @ transform.T).T


def sphere(mass: float, gyration: float) -> Array:
    """Return the ten parameters of a body of radius of gyration k [m]: m k² 1 about its origin."""
    return from_body(mass, np.zeros(3), mass * gyration**2 * np.eye(3))
