"""Proof that a designed motion keeps all limits at all times, made before it is written."""

from __future__ import annotations

import numpy as np

from heft.arrays import Array
from heft.errors import InfeasibleLimits
from heft.experiments import (
    BoundedMotion,
    Certificate,
    ExcitationTrajectory,
    Fourier,
    HarmonicMotion,
    Spline,
    SplineMotion,
    certify_clearance,
    certify_efforts,
    certify_joints,
)

from .planned import PlannedExperiment

SMALLER = 0.99  # share of a motion that is tried next where a proof fails
TRIES = 12


def bounded_motion(trajectory: ExcitationTrajectory, planned: PlannedExperiment) -> BoundedMotion:
    """Return a trajectory of the joints that move as one of all joints, with proven bounds.

    Args:
        trajectory: Of the joints that move.
    """
    basis, moving = trajectory.basis, planned.carrier.moving
    whole = np.outer(basis.constant, planned.posture)
    whole[:, moving] = trajectory.coefficients
    if isinstance(basis, Fourier):
        harmonic = np.arange(1, basis.harmonics + 1)[:, None]
        sine, cosine = whole[1::2] / harmonic, whole[2::2] / harmonic
        rate = 2.0 * np.pi * basis.lowest
        return HarmonicMotion(rate, whole[0], cosine, sine, basis.duration)
    assert isinstance(basis, Spline)
    return SplineMotion(basis.knots, whole, basis.degree)


def certificates(
    trajectory: ExcitationTrajectory, planned: PlannedExperiment
) -> tuple[Certificate, ...]:
    """Return the certificate of each limit of a motion, for all times.

    Args:
        trajectory: Of the joints that move.
    """
    motion = bounded_motion(trajectory, planned)
    found = certify_joints(motion, planned.stated)
    efforts = certify_efforts(motion, planned.loads(), planned.stated)
    clearance = planned.clearance
    if clearance is None or not len(clearance.pairs):
        return (*found, *efforts)
    return (*found, *efforts, *certify_clearance(motion, clearance))


def certified(
    trajectory: ExcitationTrajectory, planned: PlannedExperiment, about: Array
) -> tuple[ExcitationTrajectory, tuple[Certificate, ...]]:
    """Return a motion shrunk until all its limits are proven.

    Args:
        trajectory: Of the joints that move.
        about: Posture that the motion shrinks to, shape (d,) [rad or m].

    Returns:
        The motion and its certificates.

    Raises:
        InfeasibleLimits: If a limit cannot be proven, with which and when.
    """
    share = 1.0
    for _ in range(TRIES):
        kept = trajectory.shrunk(share, about)
        proofs = certificates(kept, planned)
        failed = [c for c in proofs if not c.holds]
        if not failed:
            return kept, proofs
        share *= SMALLER
    worst = min(failed, key=lambda c: c.margin)
    raise InfeasibleLimits(
        "no motion is written whose limits are not proven",
        argument=f"{worst.quantity} of {worst.of}",
        got=worst.text(),
        cure="give this limit more margin, [motion.margin] or clearance in [motion]",
    )
