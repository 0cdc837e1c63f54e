"""Cramér and Rao's bound of what two UR5e and their bags tell of the box that they hold.

It shares no code with the estimator. Unknown are mass, centre and inertia of the box, the one grasp
against the other, the second arm's base (where it stands and its yaw: both know what is down), its
clock, the wrench sensors' offsets with the prior that they are given within 5 N and .2 N·m, their
delays where there are any, and the box's motion, a spline with a knot every .2 s of all six.
What is measured is linear in small changes ξ of a pose, T exp(ξ); of wrenches by differences.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.interpolate import BSpline
from scipy.spatial.transform import Rotation
from tests.team_bags import (
    CENTRE,
    GRAVITY,
    INERTIA,
    MASS,
    SENSOR,
    Pair,
    Record,
    jacobian,
    transforms,
)

Array = NDArray[np.float64]
KNOTS = 0.2  # between knots of the motion [s]
EVERY = 4  # sample that is taken, with as many times its weight
NOISE = (2e-5, 2e-3, 0.2, 0.01)  # of angles, rates, forces and moments [rad, rad/s, N, N·m]
OFFSETS = np.repeat([5.0, 0.2], 3)  # deviations of the prior, force first as in all wrenches here
STEP = 1e-3  # of differences in time [s]
# columns of what is constant
BODY, GRASP, BASE, CLOCK = slice(0, 10), slice(10, 16), slice(16, 20), 20
OFFSET, DELAY, FIXED = slice(21, 33), slice(33, 35), 35
UPPER = ([0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2])  # of an inertia, in the order of heft's numbers


def _skew(v: Array) -> Array:
    """Return [v×], shape (..., 3, 3)."""
    return np.asarray(np.cross(np.asarray(v)[..., None, :], np.eye(3)).swapaxes(-1, -2))


def _blocks(a: Array, b: Array, c: Array, d: Array) -> Array:
    """Return the 6 × 6 matrices of four blocks each."""
    return np.concatenate([np.concatenate([a, b], -1), np.concatenate([c, d], -1)], -2)


def _to_frame(pose: Array) -> Array:
    """Return the map of a twist (linear, angular) of one frame to another's that has that pose."""
    R, p = pose[..., :3, :3].swapaxes(-1, -2), pose[..., :3, 3]
    return _blocks(R, -R @ _skew(p), 0.0 * R, R)


def _bracket(twist: Array) -> Array:
    """Return ad of twists, linear first, shape (N, 6, 6)."""
    v, w = _skew(twist[..., :3]), _skew(twist[..., 3:])
    return _blocks(w, v, 0.0 * w, w)


def _held(motion: Array, body: Array) -> Array:
    """Return force and moment that a body takes, shape (N, 6).

    Args:
        motion: Twist, its rate, and gravity in its frame, shape (N, 15).
        body: Mass, centre and inertia about it, in that frame, shape (10,).
    """
    v, w, a, alpha, down = np.split(motion, 5, axis=1)
    about = np.zeros((3, 3))
    about[UPPER] = about[UPPER[::-1]] = body[4:]
    centre = body[1:4]
    there = a + np.cross(w, v) + np.cross(alpha, centre) + np.cross(w, np.cross(w, centre))
    force = body[0] * (there - down)
    spin = alpha @ about + np.cross(w, w @ about)
    return np.hstack([force, spin + np.cross(centre, force)])


def _twist(pair: Pair, grip: Array, time: Array) -> Array:
    """Return the twists of a frame on the box in its axes, linear first, shape (N, 6)."""
    before, now, after = (pair.box(time + s) @ grip for s in (-STEP, 0.0, STEP))
    moved = (now[:, :3, :3].swapaxes(1, 2) @ (after - before)[:, :3, 3:])[..., 0]
    turned = before[:, :3, :3].swapaxes(1, 2) @ after[:, :3, :3]
    return np.hstack([moved, Rotation.from_matrix(turned).as_rotvec()]) / (2.0 * STEP)


def _placed(how: Record) -> Array:
    """Return the pose of the wrench's frame on the tool."""
    place = np.eye(4)
    if how.frame == "ft_sensor":
        place[:3, :3], place[:3, 3] = SENSOR
    return place


def _contact(pair: Pair, how: Record, k: int, time: Array) -> tuple[Array, ...]:
    """Return a contact's poses in its base, twists, their rates, Jacobians, and wrenches."""
    place = _placed(how)
    before, twist, after = (
        _twist(pair, pair.grips[k] @ place, time + s) for s in (-STEP, 0.0, STEP)
    )
    frames = transforms(pair.arms(time, k)[0])
    turn = frames[:, 6, :3, :3].swapaxes(1, 2)
    own = np.asarray(_blocks(turn, 0.0 * turn, 0.0 * turn, turn) @ jacobian(frames))
    wrench = pair.wrenches(time)[k] @ _to_frame(np.asarray(np.linalg.inv(place)))
    rate = (after - before) / (2.0 * STEP)
    return frames[:, 6] @ place, twist, rate, _to_frame(place) @ own, wrench


def _slopes(of: Callable[[Array], Array], count: int) -> Array:
    """Return the derivatives of a function by as many numbers, where they are zero, last."""
    steps = 1e-6 * np.eye(count)
    return np.stack([(of(e) - of(-e)) / 2e-6 for e in steps], axis=-1)


def deviations(pair: Pair, how: Record) -> Array:
    """Return the least deviations of mass, centre and inertia in the first frame, shape (10,)."""
    time = np.arange(0.0, how.duration - how.late, EVERY / how.rate)
    contacts = [_contact(pair, how, k, time) for k in range(2)]
    pose, V, A, _, _ = contacts[0]
    down = pose[:, :3, :3].swapaxes(1, 2) @ GRAVITY  # bases stand upright
    grips = [g @ _placed(how) for g in pair.grips]
    X = np.asarray(np.linalg.inv(grips[0]) @ grips[1])
    R, p = grips[0][:3, :3], grips[0][:3, 3]
    body = np.array([MASS, *(R.T @ (CENTRE - p)), *(R.T @ INERTIA @ R)[UPPER]])
    D = _to_frame(X).T  # takes the second frame's wrenches to the first
    noise = [np.hypot(n, s / np.sqrt(12.0)) for n, s in zip(NOISE, how.steps, strict=True)]

    count = round(time[-1] / KNOTS) + 4
    spline = BSpline(KNOTS * (np.arange(count + 4) - 3), np.eye(count), 3)
    bases = [sparse.csr_array(spline.derivative(k)(time) if k else spline(time)) for k in range(3)]
    information = np.zeros((6 * count + FIXED,) * 2)

    def add(motion: list[Array], fixed: Array, covariance: Array) -> None:
        """Add rows, slopes by ξ and its derivatives (N, 6, 6) and by what is constant."""
        white = np.sqrt(EVERY) * np.linalg.inv(np.linalg.cholesky(covariance))
        by = [white @ m for m in motion]
        for i, rows in enumerate(np.moveaxis(white @ fixed, 1, 0)):
            splines = [
                sum(b.multiply(m[:, i, axis, None]) for b, m in zip(bases, by, strict=False))
                for axis in range(6)
            ]
            J = sparse.hstack([*splines, sparse.csr_array(rows)]).tocsr()
            information[:] += (J.T @ J).toarray()

    same = np.broadcast_to(np.eye(6), (len(time), 6, 6))
    for k, (pose, twist, rate, J, _) in enumerate(contacts):
        M, spread = (_to_frame(X) if k else np.eye(6)), J @ J.swapaxes(1, 2)
        there, turning = np.zeros((2, len(time), 6, FIXED))
        if k:
            there[:, :, GRASP], turning[:, :, GRASP] = same, _bracket(twist)
            there[:, :, BASE] = -_to_frame(pose)[:, :, [0, 1, 2, 5]]
            there[:, :, CLOCK], turning[:, :, CLOCK] = twist, rate
        add([M @ same], there, noise[0] ** 2 * spread)
        add([M @ _bracket(V), M @ same], turning, noise[1] ** 2 * spread)
    motion = np.hstack([V, A, down])
    by_motion = _slopes(lambda e: _held(motion + e, body), 15)
    still = np.zeros((len(time), 3, 6))
    tilt = np.concatenate([still[:, :, :3], _skew(down)], 2)
    rates = [np.gradient(wrench, time, axis=0) for *_, wrench in contacts]
    fixed = np.zeros((len(time), 6, FIXED))
    fixed[:, :, BODY] = _slopes(lambda e: _held(motion, body + e), 10)
    force, moment = (_skew(part) for part in np.hsplit(contacts[1][-1], 2))
    fixed[:, :, GRASP] = D @ _blocks(0.0 * force, force, force, moment)
    fixed[:, :, OFFSET] = np.concatenate([same, D * same], 2)
    fixed[:, :, CLOCK] = -rates[1] @ D.T
    fixed[:, :, DELAY] = np.stack([rates[0], rates[1] @ D.T], 2) * bool(how.behind)
    of_motion = [
        np.concatenate([_bracket(V), _bracket(A), tilt], 1),
        np.concatenate([same, _bracket(V), still], 1),
        np.concatenate([0.0 * same, same, still], 1),
    ]
    of_wrench = np.repeat(noise[2:], 3) ** 2
    add([by_motion @ m for m in of_motion], fixed, np.diag(of_wrench) + (D * of_wrench) @ D.T)
    own = np.einsum("ii->i", information)[6 * count :]  # a view of the diagonal
    own[OFFSET] += 1.0 / np.tile(OFFSETS, 2) ** 2
    used = np.flatnonzero(np.diag(information))  # splines within the log, and delays if any
    scale = 1.0 / np.sqrt(np.diag(information)[used])
    covariance = np.linalg.inv(scale[:, None] * information[np.ix_(used, used)] * scale)
    body_at = np.searchsorted(used, 6 * count + np.arange(10))
    return np.asarray((np.sqrt(np.diag(covariance)) * scale)[body_at])
