"""Findings about a payload identified at a wrench sensor, and the errors that refuse it."""

from __future__ import annotations

import math

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidRecording, TooLittleData
from heft.information import AXES, PARAMETER_COUNT, Finding, inertia, rotation_vector_of_matrix
from heft.plants import Unknowns

from .log_checks import LONGEST
from .wrench_fit import Found

TURNED = math.radians(5.0)  # a mounting that is worth a finding
REFUSED = math.radians(30.0)  # a mounting without which the answer is worth nothing
BETTER = 0.5  # of the residual's energy that must go for a mounting to count as turned

NO_BODY = Finding(
    "no body",
    "the plain solution is no body that can exist; the nearest one is given. Move more, in more "
    "directions",
)
SHARED_GAIN = Finding(
    "not seen",
    "the gain that all axes of force share: a heavier load looks the same, and the deviation of "
    "the mass says so. A load of known mass tells it (--known-mass)",
)


def angle(rotation: Array) -> float:
    """Return the angle of a rotation [rad]."""
    return float(np.linalg.norm(rotation_vector_of_matrix(rotation)))


def of_mounting(turned: Array, share: float) -> list[Finding]:
    """Return findings about a mounting rotation that the data show and nobody asked for.

    Args:
        turned: From the sensor's axes to the motion's, shape (3, 3).
        share: Ratio of residual energies, with that rotation over without it.

    Raises:
        InvalidRecording: If the rotation is too large for the estimate to be usable.
    """
    by = angle(turned)
    if share >= BETTER or by <= TURNED:
        return []
    less, said = f"{100.0 * (1.0 - share):.0f}% less", f"rotation = {_written(turned)}"
    if by > REFUSED:
        raise InvalidRecording(
            "the sensor's axes are turned against the motion's",
            argument="force",
            got=f"{math.degrees(by):.0f}°: so turned, {less} force is left over",
            cure=f"say {said} in the sensor's table, or --mounting",
        )
    return [
        Finding(
            "turned",
            f"the sensor's axes seem turned by {math.degrees(by):.1f}° against the motion's: so "
            f"turned, {less} force is left over. If it is so, say {said}, or --mounting",
        )
    ]


def _written(rotation: Array) -> str:
    return "[" + ", ".join("[" + ", ".join(f"{x:.4f}" for x in row) + "]" for row in rotation) + "]"


def not_shown(kind: str) -> Finding:
    """Return the finding that a `mounting` or `tilt` asked for is not identified."""
    what = {"mounting": "the sensor's mounting", "tilt": "the direction of gravity"}[kind]
    return Finding(
        "not seen",
        f"{what}: this motion does not show it, and it is taken as stated. Turn the "
        "sensor about all axes",
    )


def of_bias(unknowns: Unknowns, values: Array) -> list[Finding]:
    """Return findings about a bias that drifts, or differs from log to log.

    Args:
        values: The estimate x, in the order of the unknowns, shape (p,).
    """
    if not (unknowns.drift or unknowns.cuts):
        return []
    time = np.linspace(unknowns.begin, unknowns.end, 101 * (len(unknowns.cuts) + 1))
    powers = unknowns.powers(time)
    bias = values[PARAMETER_COUNT : PARAMETER_COUNT + 6 * powers.shape[1]].reshape(-1, 6)
    reach = np.ptp(powers @ bias, axis=0)  # of each channel [N, N·m]
    worst = int(np.argmax(reach[:3]))
    sizes = f"by {reach[worst]:.3g} N in {AXES[worst]}, moments by up to {reach[3:].max():.2g} N·m"
    if unknowns.drift:
        said = (
            f"the sensor's bias drifts: {sizes}; it is modelled by powers of time up to "
            f"{unknowns.drift}. Zero the sensor once it is warm"
        )
    else:
        said = f"the sensor's bias differs from log to log: {sizes}; each log has its own"
    return [Finding("drift", said)]


def of_mass(found: Found) -> list[Finding]:
    """Return findings about the mass and the centre of mass.

    Raises:
        TooLittleData: If the mass is not identified.
        InvalidRecording: If the mass is negative, or the centre of mass is implausibly far away.
    """
    mass, std = float(found.values[0]), float(found.std[0])
    if not found.seen[0]:
        raise TooLittleData(
            "the mass is not seen: the sensor was held in one direction only"
            if found.plant.resting
            else "the mass is not seen in this motion",
            got=f"{found.rows} rows",
            cure="turn the sensor against gravity, in three directions at least, or state "
            "that its bias is zero",
        )
    if mass < -5.0 * std:
        raise InvalidRecording(
            "the load weighs less than nothing",
            argument="force",
            got=f"{mass:.4g} ± {std:.2g} kg",
            cure='the sensor tells the force on itself: say reports = "on_sensor" (or '
            '"on_load" where that is said already); or the pose is turned: quat has w first, '
            "and takes the frame to the world",
        )
    reach = float(np.linalg.norm(found.values[1:4])) / max(abs(mass), 1e-9)
    if mass > 5.0 * std and reach > LONGEST:
        raise InvalidRecording(
            "the centre of mass would be farther away than anything that is held",
            argument="torque",
            got=f"{reach:.4g} m from the sensor",
            expected=f"within {LONGEST:g} m",
            cure="see that forces and moments are of one sensor and in N and N·m",
        )
    if mass >= 2.0 * std:
        return []
    return [Finding("no load", f"the mass is {mass:.4g} ± {std:.2g} kg: none, or too light")]


def of_unseen(found: Found) -> list[Finding]:
    """Return findings about the inertial parameters that are not identified, with the reason."""
    seen = found.seen[:PARAMETER_COUNT]
    names = ", ".join(n for n, s in zip(inertia.SYMBOLS, seen, strict=True) if not s)
    still = found.plant.resting
    why = "poses at rest show no inertia" if still else "this motion does not show them"
    return [Finding("not seen", f"{names}: {why}")] if names else []
