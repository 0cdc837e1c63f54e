"""Sensors of a simulated arm: encoders, torque, and the clock by which they are logged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heft.arrays import Array


@dataclass(frozen=True)
class Sensors:
    """Errors of the sensors between the motion and its log: noise, steps, delay, filter, clock.

    Attributes:
        rate: Rows a second [Hz].
        bits: Steps of an encoder a turn, as a power of two; 0 for no steps.
        encoder_noise: Before the steps, rms [rad].
        torque_noise: Rms, as a share of each joint's rms torque.
        correlation: Of the torque noise from row to row, ρ of AR(1).
        torque_step: Steps of the logged torque, as a share of each joint's rms torque.
        delay: By how much the logged torque is behind the motion [s].
        low_pass: Corner of a first-order filter of the logged torque [Hz]; 0 for none.
        jitter: Of the rows' stamps, rms, as a share of a row's time.
        link_side: Whether the logged encoders sit behind the gears; the controller's never do.
        drift: By how much the clock of the torque runs fast against that of the positions.
    """

    rate: float = 250.0
    bits: int = 19
    encoder_noise: float = 2e-6
    torque_noise: float = 0.005
    correlation: float = 0.0
    torque_step: float = 0.0
    delay: float = 0.0
    low_pass: float = 0.0
    jitter: float = 0.0
    link_side: bool = False
    drift: float = 0.0

    @property
    def quantum(self) -> float:
        """Step of the encoders [rad], 0 for none."""
        return 2.0 * np.pi / 2**self.bits if self.bits else 0.0

    def stepped(self, position: Array) -> Array:
        """Return positions in whole steps of the encoders, of the same shape [rad]."""
        quantum = self.quantum
        return quantum * np.round(position / quantum) if quantum else position

    def stamps(self, time: Array, rng: np.random.Generator) -> Array:
        """Return the times as they are logged, shape (N,) [s].

        Args:
            time: Of the rows, shape (N,) [s].
            rng: Random numbers.
        """
        noise = np.clip(rng.normal(size=len(time)), -3.0, 3.0)
        return np.asarray(time + self.jitter / self.rate * noise)

    def seen_torque(self, time: Array, fine: Array, torque: Array) -> Array:
        """Return the torque that is behind, filtered and of a clock of its own, without noise.

        Args:
            time: Of the rows, shape (N,) [s].
            fine: Of the simulation's steps, shape (steps,) [s].
            torque: At these, shape (steps, joints) [N·m].
        """
        if self.low_pass:
            torque = _low_passed(torque, 2.0 * np.pi * self.low_pass * (fine[1] - fine[0]))
        late = time * (1.0 + self.drift) - self.delay
        return np.stack([np.interp(late, fine, x) for x in torque.T], axis=1)

    def torque(self, seen: Array, size: Array, rng: np.random.Generator) -> Array:
        """Return the logged torque, shape (N, joints) [N·m].

        Args:
            seen: Without noise, shape (N, joints).
            size: Rms torque of each joint, shape (joints,).
            rng: Random numbers.
        """
        noise = coloured(rng.normal(size=seen.shape), self.correlation)
        logged = seen + self.torque_noise * size * noise
        step = self.torque_step * size
        return logged if not self.torque_step else np.asarray(step * np.round(logged / step))


def coloured(white: Array, correlation: float) -> Array:
    """Return AR(1) noise of variance 1 from white noise, shape (N, channels).

    Args:
        white: Of variance 1, shape (N, channels).
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
