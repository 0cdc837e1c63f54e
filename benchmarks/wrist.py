"""A box at a simulated wrist sensor: MuJoCo's own force, torque, gyro and accelerometer sensors.

The wrist is driven along a prescribed smooth motion; sensors are evaluated by MuJoCo's inverse
dynamics at each sample, then noise, bias and delay are added here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from heft.information import inertia
from heft.plants.wrench_sensor import Held

Array = NDArray[np.float64]

RATE = 1000.0  # [Hz]
FORCE, TORQUE, GYRO, ACCELEROMETER = 0.2, 0.01, 0.002, 0.02  # [N, N·m, rad/s, m/s²]
MASS, COM = 1.5, np.array([0.04, 0.0, 0.05])
SIZE = np.array([0.10, 0.08, 0.12])  # of the box [m]
BODY = inertia.from_body(MASS, COM, MASS / 12.0 * np.diag(np.sum(SIZE**2) - SIZE**2))
FASTEST = 1.48  # [rad/s]
QUICKEST = 3.0  # [m/s²]

MODEL = """
<mujoco>
  <option gravity="0 0 -9.81" timestep="0.001"/>
  <worldbody>
    <body name="wrist">
      <joint name="x" type="slide" axis="1 0 0"/>
      <joint name="y" type="slide" axis="0 1 0"/>
      <joint name="z" type="slide" axis="0 0 1"/>
      <joint name="yaw" type="hinge" axis="0 0 1"/>
      <joint name="pitch" type="hinge" axis="0 1 0"/>
      <joint name="roll" type="hinge" axis="1 0 0"/>
      <inertial pos="0 0 0" mass="1" diaginertia=".01 .01 .01"/>
      <body name="load">
        <inertial pos="{com}" mass="{mass}" diaginertia="{inertia}"/>
        <site name="sensor"/>
      </body>
    </body>
  </worldbody>
  <sensor>
    <force site="sensor"/><torque site="sensor"/>
    <gyro site="sensor"/><accelerometer site="sensor"/>
  </sensor>
</mujoco>
"""


def _fourier(rng: np.random.Generator, time: Array, largest: float) -> tuple[Array, ...]:
    """Return three smooth signals with their first and second derivatives, shape (N, 3) each."""
    frequency = 2.0 * np.pi * (0.1 + 0.13 * np.arange(1, 7) + 0.04 * rng.random(6))
    size = rng.normal(size=(6, 3)) / np.arange(1, 7)[:, None]
    phase = rng.uniform(0.0, 2.0 * np.pi, (6, 3))
    angle = frequency[:, None, None] * time[:, None] + phase[:, None, :]
    w = frequency[:, None, None]
    parts = (np.sin(angle), w * np.cos(angle), -(w**2) * np.sin(angle))
    value, first, second = (np.einsum("kc,knc->nc", size, p) for p in parts)
    scale = largest / np.abs(second).max()
    return scale * value, scale * first, scale * second


@dataclass(frozen=True, eq=False)
class Clean:
    """Sensors without noise, of the load that `MODEL` has.

    Attributes:
        time: Shape (N,) [s].
        wrench: On the load, shape (N, 6).
        acceleration: Specific force at the sensor, shape (N, 3).
        angular_velocity: Shape (N, 3).
    """

    time: Array
    wrench: Array
    acceleration: Array
    angular_velocity: Array


@lru_cache(maxsize=64)
def clean(seed: int, duration: float, speed: float = 1.0) -> Clean:
    """Return what perfect sensors show of one random motion.

    Args:
        seed: Of the motion.
        duration: [s].
        speed: Factor on its speeds.
    """
    import mujoco

    rng = np.random.default_rng(seed)
    time = np.arange(round(duration * RATE)) / RATE
    place = _fourier(rng, time, QUICKEST * speed)
    turn = _fourier(rng, time, 1.0)
    model = mujoco.MjModel.from_xml_string(
        MODEL.format(
            com=" ".join(map(str, COM)),
            mass=MASS,
            inertia=" ".join(map(str, np.diag(inertia.to_body(BODY)[2]))),
        )
    )
    data = mujoco.MjData(model)
    # Rates of the angles are not ω: scaled until ω's largest component is as asked.
    fastest, scale = 0.0, FASTEST * speed / np.abs(turn[1]).max()
    sensed = np.empty((len(time), 12))
    for _ in range(2):
        for k in range(len(time)):
            data.qpos[:] = [*place[0][k], *(scale * turn[0][k])]
            data.qvel[:] = [*place[1][k], *(scale * turn[1][k])]
            data.qacc[:] = [*place[2][k], *(scale * turn[2][k])]
            mujoco.mj_inverse(model, data)
            sensed[k] = data.sensordata
        fastest = np.abs(sensed[:, 6:9]).max()
        if fastest <= 1.5 * speed:
            break
        scale *= FASTEST * speed / fastest
    return Clean(time, sensed[:, :6], sensed[:, 9:], sensed[:, 6:9])


def noisy(
    perfect: Clean,
    seed: int,
    *,
    bias: bool = True,
    delay: float = 0.0,
    load: Array | None = None,
    drift: Array | None = None,
) -> Held:
    """Return what real sensors show.

    Args:
        perfect: Without noise.
        seed: Of the noise.
        bias: Whether the wrench sensor has one.
        delay: Of the wrench [s].
        load: Factor on the wrench by time, shape (N,): a load that changes.
        drift: Added to the wrench, shape (N, 6).
    """
    rng = np.random.default_rng(10_000 + seed)
    wrench = perfect.wrench if load is None else load[:, None] * perfect.wrench
    if delay:
        wrench = np.stack([np.interp(perfect.time - delay, perfect.time, c) for c in wrench.T], 1)
    offset = rng.normal(size=6) * np.repeat([2.0, 0.1], 3) if bias else np.zeros(6)
    wrench = wrench + offset + (0.0 if drift is None else drift)
    shape = perfect.acceleration.shape
    return Held.with_accelerometer(
        perfect.time,
        wrench + rng.normal(size=wrench.shape) * np.repeat([FORCE, TORQUE], 3),
        perfect.acceleration + ACCELEROMETER * rng.normal(size=shape),
        perfect.angular_velocity + GYRO * rng.normal(size=shape),
    )


def bound(perfect: Clean, rows: int, bias: bool) -> Array:
    """Return the Cramér-Rao bound on the ten parameters' covariance, shape (10, 10).

    Motion known, noise of the wrench white, all samples used.

    Args:
        perfect: The motion.
        rows: How many samples from the beginning.
        bias: Whether it is unknown.
    """
    w = perfect.angular_velocity
    rate = np.gradient(w, 1.0 / RATE, axis=0, edge_order=2)[:rows]
    Y = inertia.wrench_regressor(perfect.acceleration[:rows], w[:rows], rate)
    if bias:
        Y = np.concatenate([Y, np.broadcast_to(np.eye(6), (rows, 6, 6))], axis=2)
    Y = Y / np.repeat([FORCE, TORQUE], 3)[None, :, None]
    factor = np.linalg.qr(Y.reshape(-1, Y.shape[2]), mode="r")
    inverse = np.linalg.inv(factor)
    return np.asarray((inverse @ inverse.T)[:10, :10])
