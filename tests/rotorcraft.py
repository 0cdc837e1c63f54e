"""A rotorcraft under the thrust of its rotors, whose speeds are measured, as a plant.

    Y(a − g, ω, α) π + inflow S v_z − lift (v_x² + v_y²) ẑ = wrench of the rotors at rest

A rotor that climbs along its axis meets more air and pushes less, in proportion to its speed Ω and
to the climb v_z [Mahony2012, eq. 5]; air that streams across it adds thrust, by the square of its
speed. S is the sum of rotor speeds. The wrench at rest, thrust constant · Ω², has a force along the
body's z alone; what acts across (rotor drag) is measured by nobody, so there are four channels:
that force, and three moments.

The thrust constant multiplies all that is measured. Without it, what is measured is taken with a
constant of one, and only ratios to it are known: they are named so, and are no body's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.information import (
    AXES,
    SYMBOLS,
    UNITS,
    Labels,
    ParameterSpace,
    inertia,
    matrix_of_quaternion,
)
from heft.plants import Channel, FreeBody, Inputs, Measured, MotionSignal, Plant, Rows, Samples
from heft.plants.free_body import NOMINAL, BodyMotion
from heft.plants.wrench_sensor import CHANNELS
from heft.recordings import Recording
from heft.signals import Smoothed

EQUATIONS = (2, 3, 4, 5)  # of the body's six: force along z, and moments
MEASURED = CHANNELS[2:]
PLACE = 3  # of the pose's signals, those of the position
CONSTANT = "thrust constant"
SPEED = "u.{frame}.speed"


@dataclass(frozen=True, eq=False)
class RotorMotion:
    """Motion of a rotorcraft, in its own frame."""

    body: BodyMotion  # motion of the body
    speed: Array  # sum of the rotors' speeds S, shape (N,) [rad/s]

    def part(self, rows: slice | NDArray[np.intp]) -> RotorMotion:
        """Return some of the samples."""
        return RotorMotion(self.body.part(rows), self.speed[rows])


@dataclass(frozen=True, eq=False)
class RotorBody(Plant[RotorMotion]):
    """A rotorcraft by its pose and its rotors' speeds; see the module.

    Signals: `pos.FRAME.x`, `quat.FRAME.w`, the sum of rotor speeds `u.FRAME.speed` [rad/s], and the
    wrench of the rotors at rest, `force.FRAME.z` and `torque.FRAME.x`; by an inertial sensor at
    the frame's origin also `acc.FRAME.x` and `omega.FRAME.x`.
    """

    frame: str = "body"  # its name in the signals
    # accelerations by the pose, or by an inertial sensor; the velocity through the air, which is
    # still, is that of the pose either way
    motion_from: Literal["pose", "imu"] = "pose"
    gravity: tuple[float, float, float] = (0.0, 0.0, -9.81)  # in the world, shape (3,) [m/s²]
    # ten parameters believed of it, shape (10,); a sphere of 1 kg if not given
    nominal: Array | None = None
    # of `inflow` and `lift`, which are parameters
    aerodynamics: tuple[str, ...] = ("inflow", "lift")
    # whether the wrench is one, [N, N·m]. Else it is of rotors with a thrust constant of one
    # [rad²/s², m·rad²/s²], and every parameter is a ratio to the constant
    thrust_known: bool = True

    @property
    def differentiated(self) -> str:
        """Why rows are differentiated where settings leave it open."""
        return "since nothing rubs"

    @cached_property
    def body(self) -> FreeBody:
        """The rigid body, by its pose."""
        return FreeBody(self.frame, "pose", self.gravity, self.nominal)

    @cached_property
    def labels(self) -> Labels:
        """Labels of the body's ten inertial parameters, and of the aerodynamic ones."""
        air = {"inflow": "N·s²/(m·rad)", "lift": "N·s²/m²"}
        names = (*(f"{self.frame}.{s}" for s in SYMBOLS), *self.aerodynamics)
        units = (*UNITS, *(air[name] for name in self.aerodynamics))
        if not self.thrust_known:
            names = tuple(f"{name}/{CONSTANT}" for name in names)
            units = tuple(f"{unit}/(N·s²)" for unit in units)
        return Labels(names, units, self.frame)

    @cached_property
    def space(self) -> ParameterSpace:
        """The ten physically consistent, the others unconstrained; ratios are all unconstrained."""
        if not self.thrust_known:
            size = len(self.labels)
            return ParameterSpace(self.labels, np.eye(size), np.zeros(size))
        nominal = inertia.sphere(*NOMINAL) if self.nominal is None else self.nominal
        still = np.zeros(len(self.aerodynamics))
        return ParameterSpace.of_one_body(self.labels, np.append(nominal, still))

    @property
    def channels(self) -> tuple[Channel, ...]:
        """Static force along z and static moments of the rotors."""
        force, moment = ("N", "N·m") if self.thrust_known else ("rad²/s²", "m·rad²/s²")
        moments = (Channel(name, moment) for name in CHANNELS[3:])
        return (Channel(CHANNELS[2], force), *moments)

    @property
    def order(self) -> Sequence[int]:
        """Order of the columns, which are independent of one another."""
        return range(len(self.labels))

    def inputs(self, recording: Recording, measured: bool = True) -> Inputs:
        """Return pose and rotor speed, and the rotors' static wrench.

        Raises:
            MissingSignal: If one is not there.
        """
        motion = self.body.inputs(recording, measured=False).motion
        if self.motion_from == "imu":
            sensor = replace(self.body, motion_from="imu").inputs(recording, measured=False)
            slow = [MotionSignal(m.name, 1 if k < PLACE else 0) for k, m in enumerate(motion)]
            motion = (*slow, *sensor.motion)
        speed = SPEED.format(frame=self.frame)
        recording.require(speed, f"says how fast the rotors of '{self.frame}' turn")
        found = []
        for k, channel in enumerate(MEASURED if measured else ()):
            kind, _, axis = channel.partition(".")
            name = f"{kind}.{self.frame}.{axis}"
            recording.require(name, f"is what the rotors of '{self.frame}' exert at rest")
            found.append(Measured(k, ((name, 1.0),)))
        return Inputs((*motion, MotionSignal(speed, 0)), tuple(found))

    def motion(self, smoothed: Smoothed) -> RotorMotion:
        """Return the motion in the body's frame."""
        speed = np.asarray(smoothed.position[:, -1])
        if self.motion_from == "pose":
            return RotorMotion(self.body.motion(smoothed), speed)
        back = np.swapaxes(matrix_of_quaternion(smoothed.position[:, 3:7]), 1, 2)
        v = np.einsum("nij,nj->ni", back, smoothed.velocity[:, :3])
        w, alpha = smoothed.position[:, 7:10], smoothed.velocity[:, 7:10]
        specific = smoothed.position[:, 10:13]
        return RotorMotion(BodyMotion(specific, w, alpha, v, specific), speed)

    def rows(self, samples: Samples[RotorMotion], columns: Sequence[int]) -> Rows:
        """Return rows of force along z and moments.

        Returns:
            Y, shape (N, 4, columns) [N or N·m, per unit of the
            column].
        """
        m = samples.motion
        b = m.body
        rigid = inertia.wrench_regressor(b.specific, b.angular_velocity, b.angular_acceleration)
        air = {
            "inflow": m.speed * b.velocity[:, 2],
            "lift": -np.sum(b.velocity[:, :2] ** 2, axis=1),
        }
        more = np.zeros((len(rigid), len(EQUATIONS), len(self.aerodynamics)))
        for k, name in enumerate(self.aerodynamics):
            more[:, 0, k] = air[name]
        whole = np.concatenate([rigid[:, EQUATIONS], more], axis=2)
        return Rows(whole[:, :, list(columns)])

    def random_samples(self, count: int, rng: np.random.Generator) -> Samples[RotorMotion]:
        """Return random accelerations, velocities, angular rates and rotor speeds."""
        body = self.body.random_samples(count, rng).motion
        motion = RotorMotion(body, 1.0 + rng.random(count))
        return Samples.of_motion(motion, count, len(self.channels))


def rotor_recording(
    recording: Recording,
    frame: str,
    speeds: Sequence[str],
    mixing: Array,
) -> Recording:
    """Return a log with the rotors' static wrench, computed from their speeds.

    Args:
        recording: Log with pose and rotor speeds [rad/s], and inertial signals if there are any.
        frame: Name of the body in the signals.
        speeds: Names of the speeds' signals, n of them.
        mixing: Static wrench by the squares of rotor speeds, shape (6, n) [N·s², N·m·s²].

    Raises:
        MissingSignal: If a signal is not there.
    """
    pose = [f"pos.{frame}.{a}" for a in AXES] + [f"quat.{frame}.{a}" for a in ("w", *AXES)]
    recording.require((*pose, *speeds), "says how the rotorcraft moves")
    inertial = [f"{kind}.{frame}.{a}" for kind in ("acc", "omega") for a in AXES]
    inertial = [name for name in inertial if name in recording.signals]
    whole = recording.whole([*pose, *speeds, *inertial])
    time, values = whole.time, whole.values
    turning = values[:, 7 : 7 + len(speeds)]
    wrench = turning**2 @ mixing.T
    sensed: dict[str, dict[str, Array]] = {}
    for name, column in zip(inertial, values[:, 7 + len(speeds) :].T, strict=True):
        kind, _, axis = name.partition(".")
        sensed.setdefault(kind, {})[axis] = column
    return Recording.from_arrays(
        time,
        recording.name,
        pos={f"{frame}.{a}": values[:, k] for k, a in enumerate(AXES)},
        quat={f"{frame}.{a}": values[:, 3 + k] for k, a in enumerate(("w", *AXES))},
        u={f"{frame}.speed": turning.sum(axis=1)},
        force={f"{frame}.{a}": wrench[:, k] for k, a in enumerate(AXES)},
        torque={f"{frame}.{a}": wrench[:, 3 + k] for k, a in enumerate(AXES)},
        **sensed,
    )
