"""Sensors of a simulated arm: encoders, torque, and the clock by which they are logged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.files import Number, list_of, positive

from .simulated_drives import Size


@dataclass(frozen=True, eq=False)
class Calibration:
    """Constant calibration errors of the sensors, one of each kind a joint."""

    gain: Array  # torque that is logged per torque, shape (joints,)
    bias: Array  # added to the logged torque, shape (joints,) [N·m]
    zero: Array  # added to the logged positions, shape (joints,) [rad]
    phase: Array  # of the current's ripple, shape (joints,) [rad]


def _constants(value: object, where: str) -> tuple[float, ...]:
    """Return torque per current [N·m/A], of all joints or a joint each."""
    each = Number("a number above 0 is expected", above=0.0)
    return list_of(each)(value if isinstance(value, list) else [value], where)


Delay = Annotated[float, Number("a delay", least=0.0, most=1.0, unit="s")]
Rows = Annotated[float, Number("a share of the rows", least=0.0, most=0.9)]


@dataclass(frozen=True)
class Sensors:
    """Errors of the sensors between the motion and its log: noise, steps, delay, filter, clock.

    What the log holds of the torque is `gain · torque + bias`, late, filtered, with noise; or the
    current that is taken for it, `torque / gain`, where `constants` are given.
    """

    rate: Annotated[float, positive("a rate of rows", "Hz", 20_000.0)] = 250.0  # rows a second [Hz]
    # steps of an encoder a turn, as a power of two; 0 for no steps
    bits: Annotated[int, Number("bits of an encoder", least=0, most=40, whole=True)] = 19
    encoder_noise: Size = 2e-6  # before the steps, rms [rad]
    torque_noise: Size = 0.005  # rms, as a share of each joint's rms torque
    # of the torque noise from row to row, ρ of AR(1)
    correlation: Annotated[
        float, Number("a correlation is between -1 and 1", above=-1.0, below=1.0)
    ] = 0.0
    torque_step: Size = 0.0  # steps of the logged torque, as a share of each joint's rms torque
    delay: Delay = 0.0  # by how much the logged torque is behind the motion [s]
    low_pass: Size = 0.0  # corner of a first-order filter of the logged torque [Hz]; 0 for none
    # of the rows' stamps, rms, as a share of a row's time
    jitter: Annotated[float, Number("a share is from 0 to 1", least=0.0, most=1.0)] = 0.0
    # whether the logged encoders sit behind the gears; the controller's never do
    link_side: bool = False
    # by how much the clock of the torque runs fast against that of the positions
    drift: Annotated[float, Number("a clock's drift", least=-0.1, most=0.1)] = 0.0
    encoder_delay: Delay = 0.0  # by how much the logged positions are behind the motion [s]
    encoder_bias: Size = 0.0  # of the encoders' zeros, standard deviation [rad]
    # of the logged torque, standard deviation, as a share of each joint's rms torque
    bias: Size = 0.0
    # of the torque per current that is stated, standard deviation, relative
    gain_error: Size = 0.0
    # torque per current that is stated [N·m/A], a joint each, or one for all: currents are logged;
    # the torque if empty
    constants: Annotated[tuple[float, ...], _constants] = ()
    current_ripple: Size = 0.0  # of the current with the joint's angle, as a share of it
    ripple_cycles: Size = 42.0  # of that ripple, a turn of the joint
    lost: Rows = 0.0  # share of the rows that are not in the log
    # rows that are lost at a time, on average
    burst: Annotated[float, Number("rows lost at a time", least=1.0)] = 1.0
    # share of the rows that hold the values of the row before, under a new stamp
    repeated: Rows = 0.0

    @property
    def quantum(self) -> float:
        """Step of the encoders [rad], 0 for none."""
        return 2.0 * np.pi / 2**self.bits if self.bits else 0.0

    def stepped(self, position: Array) -> Array:
        """Return positions in whole steps of the encoders, of the same shape [rad]."""
        quantum = self.quantum
        return quantum * np.round(position / quantum) if quantum else position

    def stamps(self, time: Array, rng: np.random.Generator) -> Array:
        """Return the times as they are logged, shape (N,) [s]."""
        noise = np.clip(rng.normal(size=len(time)), -3.0, 3.0)
        return np.asarray(time + self.jitter / self.rate * noise)

    def seen_torque(self, time: Array, fine: Array, torque: Array) -> Array:
        """Return the sensed torque without noise: filtered, delayed, by a clock that drifts.

        Args:
            time: Of the rows, shape (N,) [s].
            fine: Of the simulation's steps, shape (steps,) [s].
            torque: At the simulation's steps, shape (steps, joints) [N·m].
        """
        if self.low_pass:
            torque = _low_passed(torque, 2.0 * np.pi * self.low_pass * (fine[1] - fine[0]))
        late = time * (1.0 + self.drift) - self.delay
        return np.stack([np.interp(late, fine, x) for x in torque.T], axis=1)

    def seen_position(
        self, rows: NDArray[np.int64], readings: Array, step: float, errors: Calibration
    ) -> Array:
        """Return the logged positions, delayed and with zero errors, shape (N, joints) [rad].

        Args:
            rows: Steps of the simulation at which the log has rows, shape (N,).
        """
        late = np.maximum(rows - round(self.encoder_delay / step), 0)
        return readings[late] + errors.zero if self.encoder_bias else readings[late]

    def calibration(self, size: Array, rng: np.random.Generator) -> Calibration:
        """Return calibration errors, drawn at random, of joints with an rms torque `size` [N·m]."""
        gain, bias, zero, phase = rng.normal(size=(4, len(size)))
        return Calibration(
            np.maximum(1.0 + self.gain_error * gain, 0.1),
            self.bias * size * bias,
            self.encoder_bias * zero,
            2.0 * np.pi * np.abs(phase),
        )

    @property
    def effort(self) -> str:
        """Kind of the logged effort: torque, or the current that is taken for it."""
        return "current" if self.constants else "tau"

    def calibrated(self, torque: Array, q: Array, errors: Calibration) -> Array:
        """Return the torque with calibration errors, shape (N, joints) [N·m]."""
        if self.gain_error:
            torque = errors.gain * torque
        if self.current_ripple:
            wave = np.sin(self.ripple_cycles * q + errors.phase)
            torque = torque * (1.0 + self.current_ripple * wave)
        return torque + errors.bias if self.bias else torque

    def kept(
        self, count: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows that the log keeps, and the row whose values each of them holds.

        Each of shape (kept,). The first row is kept, and holds its own.
        """
        chances = rng.uniform(size=(3, count))
        end = 1.0 / max(self.burst, 1.0)  # chance that a burst ends with a row
        begin = min(self.lost * end / max(1.0 - self.lost, 1e-9), 1.0)
        kept, source, gone = np.ones(count, dtype=bool), np.arange(count), False
        for k in range(1, count):
            gone = chances[1, k] >= end if gone else chances[0, k] < begin
            kept[k] = not gone
            if chances[2, k] < self.repeated:
                source[k] = source[k - 1]
        rows = np.flatnonzero(kept)
        return rows, source[rows]

    def torque(self, seen: Array, size: Array, rng: np.random.Generator) -> Array:
        """Return the logged torque [N·m], or current [A], shape (N, joints)."""
        noise = coloured(rng.normal(size=seen.shape), self.correlation)
        logged = seen + self.torque_noise * size * noise
        if self.torque_step:
            step = self.torque_step * size
            logged = step * np.round(logged / step)
        return logged / np.array(self.constants) if self.constants else logged


def coloured(white: Array, correlation: float) -> Array:
    """Return AR(1) noise of variance 1 from white noise, shape (N, channels).

    Args:
        correlation: ρ from row to row, −1 < ρ < 1.
    """
    out = np.array(white)
    fresh = np.sqrt(1.0 - correlation**2)
    if correlation:
        for k in range(1, len(out)):
            out[k] = correlation * out[k - 1] + fresh * white[k]
    return out


def _low_passed(signal: Array, gain: float) -> Array:
    out = np.array(signal)
    keep = 1.0 - np.exp(-gain)
    for k in range(1, len(out)):
        out[k] = out[k - 1] + keep * (signal[k] - out[k - 1])
    return out
