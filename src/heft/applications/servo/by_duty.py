"""A servo told by its logged duty: rows are linear, and those of what slides are fitted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import TooLittleData
from heft.fit import PlantIdentification, Settings, identify_plant
from heft.plants import ServoPlant
from heft.recordings import Recording
from heft.signals import Smoothing

from .bench import NAME, Bench, ServoLog

AHEAD = 0.04  # [s], over which the speed is looked at, before and behind
CORNER = 10.0  # [Hz], of windows short enough for the stretches in which a servo slides


def is_released(logs: Sequence[ServoLog]) -> bool:
    """Whether logs tell back-EMF from viscous friction: by moving with the torque off."""
    return sum(int(np.sum(_slides(log) & ~log.on)) for log in logs) >= 20


def fitted(
    logs: Sequence[ServoLog], bench: Bench, released: bool, progress: Callable[[str], None]
) -> PlantIdentification[ServoPlant]:
    """Return the fit of logs with duty: at standstill friction is whatever holds, and no equation.

    Raises:
        FitError: If the logs do not tell.
    """
    warm = np.array([log.temperature for log in logs])
    plant = ServoPlant(bench.moment, bench.inertia, released, bool(np.ptp(warm) > 3.0))  # [K]
    recordings = [
        _recording(log, plant, x) for log, x in zip(logs, warm - np.mean(warm), strict=True)
    ]
    step = max(float(np.median(np.diff(log.time))) for log in logs)
    quick = 20.0 * step < 1.5 / CORNER  # else windows would span too few samples
    smoothing = Smoothing(trim=0.1, corner=CORNER if quick else None)  # of logs that are short
    settings = Settings(smoothing=smoothing, rows="weak")
    return identify_plant(plant, recordings, settings=settings, progress=progress)


def divided(fit: PlantIdentification[ServoPlant]) -> tuple[Array, Array]:
    """Return A and all else over 1/A, in the order of the plant's columns, with their covariance.

    A = 1/x₀ and θ = x/x₀, so that ∂A/∂x₀ = −A², ∂θ/∂x = A, ∂θ/∂x₀ = −A θ.
    """
    estimate = fit.consistent.parameters
    assert estimate.covariance is not None
    A, x = 1.0 / estimate.values[0], np.append(1.0, estimate.values[1:])
    slope = A * np.eye(len(x))
    slope[:, 0] = -(A**2) * x
    wide = estimate.std / np.sqrt(
        np.maximum(np.diag(estimate.covariance), 1e-300)
    )  # by blocks left out
    return A * x, np.asarray(slope @ (estimate.covariance * np.outer(wide, wide)) @ slope.T)


def strengths(fit: PlantIdentification[ServoPlant]) -> Array:
    """Return the torque per volt of each log over that of all, shape (logs,).

    Of each it is the factor of arm, rotor and friction that fits its rows best, back-EMF held: a
    warm winding has more resistance, which scales these alone. NaN of a log that never slides with
    the torque on.
    """
    problem, x = fit.problem, fit.consistent.parameters.values
    back = np.array([n == "back_emf" for n in problem.plant.labels.names])
    factors = []
    for recording in problem.recordings:
        try:
            one = problem.with_recordings([recording]).information()
        except TooLittleData:
            factors.append(np.nan)
            continue
        triangle = one.combined(dict.fromkeys(one.channels, 1.0))
        R = triangle.R @ problem.base.matrix
        moved = R @ np.where(back, 0.0, x)
        rest = triangle.factor[:-1, -1] - R @ np.where(back, x, 0.0)
        given = float(moved @ rest)
        factors.append(float(moved @ moved) / given if given else np.nan)
    return np.array(factors)


def _slides(log: ServoLog) -> NDArray[np.bool_]:
    """Return where a log slides, away from switches of its torque, shape (N,)."""
    t, q = log.time, log.position
    speed = (np.interp(t + AHEAD, t, q) - np.interp(t - AHEAD, t, q)) / (2.0 * AHEAD)
    switches = t[1:][np.diff(log.on.astype(int)) != 0]
    near = np.abs(t[:, None] - switches).min(axis=1, initial=np.inf) < 0.02  # [s]
    return np.asarray((np.abs(speed) > 0.1) & ~near)  # [rad/s]


def _recording(log: ServoLog, plant: ServoPlant, warm: float) -> Recording:
    """Return a log as a recording of the plant, of which what slides is fitted."""
    assert log.duty is not None
    volts = np.where(log.on, log.duty * log.supply, 0.0)
    warmth = np.full(len(volts), warm if plant.warms else 0.0)
    signals = {NAME: volts, f"{NAME}.on": log.on.astype(float), f"{NAME}.warm": warmth}
    made = Recording.from_arrays(log.time, log.name, q={NAME: log.position}, u=signals)
    slides = _slides(log) & (log.on | plant.released)
    return made.selecting(lambda rows: slides[rows])
