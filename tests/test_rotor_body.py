"""A rotorcraft by its rotors' speeds: a simulated climb, no thrust constant, real logs."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from heft import identify_plant
from heft.information import inertia
from heft.recordings import Recording
from tests.rotorcraft import RotorBody, rotor_recording

THRUST, LEVER, DRAG = 3.7e-8, 0.035, 7.7e-12  # [N·s²], [m], [N·m·s²]
MASS, INFLOW = 0.045, 3e-6  # [kg], [N·s²/(m·rad)]
AXES = ("w", "x", "y", "z")


def mixing(thrust: float) -> np.ndarray:
    out = np.zeros((6, 4))
    out[2] = thrust
    out[3] = thrust * LEVER * np.array([-1.0, -1.0, 1.0, 1.0])
    out[4] = thrust * LEVER * np.array([-1.0, 1.0, 1.0, -1.0])
    out[5] = DRAG / THRUST * thrust * np.array([1.0, -1.0, 1.0, -1.0])
    return out


def climb(seed: int) -> Recording:
    """Return a level rotorcraft that climbs and sinks: m (z̈ + g) = k Σ Ω² − inflow Σ Ω ż."""
    rng = np.random.default_rng(seed)
    t = np.arange(0.0, 20.0, 0.01)
    pace, size, phase = np.array([1.3, 2.9, 5.1]), np.array([0.5, 0.2, 0.05]), rng.random(3)
    wave = pace * t[:, None] + phase
    z, v, a = (f @ size for f in (np.sin(wave), np.cos(wave) * pace, -np.sin(wave) * pace**2))
    # k Σ Ω² − inflow Σ Ω ż = 4 k Ω² − 4 inflow ż Ω = m (a + g)
    b, c = INFLOW * v / THRUST, MASS * (a + 9.81) / (4.0 * THRUST)
    speed = 0.5 * (b + np.sqrt(b**2 + 4.0 * c))
    still = np.zeros_like(t)
    noise = 1e-4 * rng.normal(size=(7, len(t)))
    return Recording.from_arrays(
        t,
        pos={"drone.x": noise[0], "drone.y": noise[1], "drone.z": z + noise[2]},
        quat={f"drone.{n}": (1.0 if n == "w" else 0.0) + noise[3 + k] for k, n in enumerate(AXES)},
        u={f"r{k}": speed + 2.0 * rng.normal(size=len(t)) + still for k in range(4)},
    )


def log(seed: int, thrust: float) -> Recording:
    return rotor_recording(climb(seed), "drone", [f"u.r{k}" for k in range(4)], mixing(thrust))


def test_mass_and_inflow_of_a_climb() -> None:
    guess = inertia.from_body(0.03, np.zeros(3), 2e-5 * np.eye(3))
    plant = RotorBody("drone", nominal=guess, aerodynamics=("inflow",))
    found = {n.name: n for n in identify_plant(plant, [log(0, THRUST)]).numbers}
    assert abs(found["drone.mass"].value / MASS - 1.0) < 0.01
    assert abs(found["inflow"].value / INFLOW - 1.0) < 0.1


def test_without_the_thrust_constant_only_the_ratio_is_told() -> None:
    plant = RotorBody("drone", aerodynamics=("inflow",), thrust_known=False)
    found = {n.name: n for n in identify_plant(plant, [log(0, 1.0)]).numbers}
    assert "drone.mass" not in found
    ratio = found["drone.m/thrust constant"]
    assert ratio.unit == "kg/(N·s²)"
    assert abs(ratio.value * THRUST / MASS - 1.0) < 0.01


def test_mass_of_a_real_one_and_its_unseen_flight() -> None:
    data = os.environ.get("HEFT_DATA")
    if not data:
        pytest.skip("HEFT_DATA is not set: no real flights")
    from benchmarks import crazyflie

    folder = Path(data) / "crazyflie"
    stated = crazyflie.reference(folder)
    wrench = crazyflie.mixing(stated)
    one, two = (
        crazyflie.recording(folder / f"raw_random1_20251017_run{k}.parquet", wrench) for k in (1, 2)
    )
    guess = inertia.from_body(0.04, np.zeros(3), 2.4e-5 * np.eye(3))
    found = identify_plant(RotorBody(crazyflie.FRAME, "imu", nominal=guess), [one], validate=[two])
    numbers = {n.name: n for n in found.numbers}
    assert abs(numbers[f"{crazyflie.FRAME}.mass"].value / stated["mass_kg"] - 1.0) < 0.04
    raw = next(v for v in found.validation if v.filter_hz is None)
    assert raw.per_joint["force.z"] < 0.09
    # Hovering says little of the inertia, and the intervals say so.
    for axis in "xyz":
        spin = numbers[f"{crazyflie.FRAME}.inertia.{axis}{axis}"]
        assert spin.std > 0.2 * spin.value
