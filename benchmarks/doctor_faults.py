"""Faults of logs, each a function on what a simulator knows of an experiment.

Nothing here asks heft whether a fault could be found. A fault counts if it changes the signals
that the simulator would have logged without noise by more than their noise: see `Faulty.counts`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.signal

from heft.arrays import Array
from heft.models import Robot
from heft.recordings import Recording
from heft.simulation.simulated_links import Links

if TYPE_CHECKING:
    from heft.applications.doctor.doctor import Diagnosis

Strings = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Experiment:
    """An experiment as the simulator knows it, without noise; N rows, n joints that are logged.

    Attributes:
        robot: Robot as it is believed to be: of a model file that is off.
        joints: Names of the joints that are logged.
        time: Shape (N,) [s].
        position, velocity: Shape (N, n) [rad, rad/s].
        torque: Of the drives, shape (N, n) [N·m].
        link: Torque behind the gears: neither rotors nor friction, shape (N, n) [N·m].
        gravity: Torque that gravity alone asks for, shape (N, n) [N·m].
        coulomb: Size of the friction that does not grow with speed, shape (n,) [N·m].
        quantum: Step of the encoders, shape (n,) [rad].
        noise: Standard deviation of the torque's noise, shape (n,) [N·m].
        torque_of: Torque of the links, neither rotors nor friction, in other positions at the
            same speeds, by the true numbers, or of other links: positions → shape (N, n) [N·m].
        oracle: What can be told of it: () → oracle.
    """

    robot: Robot
    joints: Strings
    time: Array
    position: Array
    velocity: Array
    torque: Array
    link: Array
    gravity: Array
    coulomb: Array
    quantum: Array
    noise: Array
    torque_of: Callable[..., Array]
    oracle: Callable[[], Oracle]

    @property
    def step(self) -> float:
        """Time between rows [s]."""
        return float(np.median(np.diff(self.time)))

    def logged(self, rng: np.random.Generator) -> Recording:
        """Return the log: encoders that count, torque with noise."""
        q = self.quantum * np.round(self.position / self.quantum)
        tau = self.torque + self.noise * rng.normal(size=self.torque.shape)
        return recorded(self.joints, self.time, q, tau)


def recorded(joints: Strings, time: Array, q: Array, tau: Array) -> Recording:
    """Return a recording of positions and torques."""
    return Recording.from_arrays(
        time,
        "log",
        q={j: q[:, k] for k, j in enumerate(joints)},
        tau={j: tau[:, k] for k, j in enumerate(joints)},
    )


@dataclass(frozen=True)
class Cause:
    """What a doctor must say of a fault.

    Attributes:
        names: Names of findings, each of which is the cause.
        about: Joints that it must name, all of them; empty if it concerns all or the log.
        value: Number that it must state; None if it need not.
        near: By how much that may be off.
        scales: Factors that all torques need, which the lines must state: each within `GAIN_NEAR`,
            or three deviations of an oracle, but for a common factor, which rests on the masses of
            a file that is off, within `COMMON_NEAR`; none if empty. A line may say that the
            motion hardly tells a factor of which the oracle's deviation is above `GAIN_NEAR`.
        deviations: Those of the oracle.
    """

    names: Strings
    about: Strings = ()
    value: float | None = None
    near: float = 0.0
    scales: tuple[float, ...] = ()
    deviations: tuple[float, ...] = ()

    def is_said(self, diagnosis: Diagnosis) -> bool:
        """Return whether a finding says it, alone or beside one other cause."""
        named = any(
            self.is_meant(f.name, f.about, f.evidence.get("value"))
            or any(self.is_meant(*o.partition(", ")[::2], None) for o in f.others[:1])
            for f in diagnosis.findings
        )
        if not (named and self.scales and diagnosis.correction is not None):
            return named
        off = np.log(np.abs(diagnosis.correction.tau_scale)) - np.log(self.scales)
        common = np.median(off)
        near = np.maximum(GAIN_NEAR, 3.0 * np.array(self.deviations))
        untold = [j for s in diagnosis.steps for j in getattr(s.step, "untold", ())]
        hard = np.isin(range(len(off)), untold) & (np.array(self.deviations) > GAIN_NEAR)
        return bool(np.all((np.abs(off - common) < near) | hard) and abs(common) < COMMON_NEAR)

    def is_meant(self, name: str, about: str, value: float | None) -> bool:
        """Return whether a finding's name, joints and number are this cause's."""
        named = name in self.names and all(j in about for j in self.about)
        if self.value is None or value is None:
            return named
        return named and abs(value - self.value) <= self.near


@dataclass(frozen=True, eq=False)
class Faulty:
    """A log with a fault.

    Attributes:
        recording: The log.
        causes: What must be said, all of them.
        counts: Whether the fault changes signals without noise by more than their noise.
    """

    recording: Recording
    causes: tuple[Cause, ...]
    counts: bool


Fault = Callable[[Experiment, np.random.Generator], Faulty]

TOLD = 4.0  # deviations of an oracle's test from which on a gain is told
GAIN_NEAR, COMMON_NEAR = 0.15, np.log(2.0)  # logarithms of factors of torques
FLIPS = ("flipped position", "flipped torque", "flipped position and torque")
SWAPS = ("swapped columns", "swapped positions", "swapped torques")


def _moved(e: Experiment, signal: str, changed: Array) -> bool:
    """Return whether a change of a signal without noise is larger than its noise, in any joint."""
    before = e.position if signal == "q" else e.torque
    noise = e.quantum / np.sqrt(12.0) if signal == "q" else e.noise
    return bool(np.any(np.sqrt(np.mean((changed - before) ** 2, axis=0)) > noise))


def _positions(e: Experiment, q: Array, causes: tuple[Cause, ...], rng: np.random.Generator,
               tau: Array | None = None) -> Faulty:  # fmt: skip
    """Return a log whose positions, and torques if given, are others than what was measured.

    Encoders count before their columns are changed: noise goes with the change of unit.
    """
    clean = e.quantum * np.round(e.position / e.quantum)
    noisy = np.asarray(q + (clean - e.position) * _slope(e.position, q))
    effort = e.torque if tau is None else tau
    effort = effort + e.noise * rng.normal(size=effort.shape)
    moved = _moved(e, "q", q) or (tau is not None and _moved(e, "tau", tau))
    return Faulty(recorded(e.joints, e.time, noisy, effort), causes, moved)


def _slope(before: Array, behind: Array) -> Array:
    return np.asarray(np.ptp(behind, axis=0) / np.maximum(np.ptp(before, axis=0), 1e-12))


def _lacking(e: Experiment, lacks: Array, cause: Cause, rng: np.random.Generator) -> Faulty:
    """Return a log with a torque that no model has, shape (N, n); it counts if it can be told."""
    made = _torques(e, e.torque + lacks, (cause,), rng)
    return replace(made, counts=e.oracle().tells(lacks))


def _torques(
    e: Experiment, tau: Array, causes: tuple[Cause, ...], rng: np.random.Generator
) -> Faulty:
    """Return a log whose torques are others; their noise grows with them."""
    size = np.maximum(np.std(tau, axis=0) / np.std(e.torque, axis=0), 1e-9)
    noisy = tau + np.minimum(size, 1e3) * e.noise * rng.normal(size=tau.shape)
    q = e.quantum * np.round(e.position / e.quantum)
    return Faulty(recorded(e.joints, e.time, q, noisy), causes, _moved(e, "tau", tau))


def _chosen(e: Experiment, rng: np.random.Generator, count: int) -> list[int]:
    return sorted(int(j) for j in rng.choice(len(e.joints), count, replace=False))


def degrees(e: Experiment, rng: np.random.Generator) -> Faulty:
    """Positions in degrees."""
    causes = (Cause(("degrees for radians",)),)
    return _positions(e, np.rad2deg(e.position), causes, rng)


def _exchanged(values: Array, i: int, j: int) -> Array:
    out = values.copy()
    out[:, [i, j]] = values[:, [j, i]]
    return out


def swap(e: Experiment, rng: np.random.Generator) -> Faulty:
    """Columns of two joints, positions and torques, change places."""
    i, j = _chosen(e, rng, 2)
    causes = (Cause(SWAPS[:1], (e.joints[i], e.joints[j])),)
    return _positions(e, _exchanged(e.position, i, j), causes, rng, _exchanged(e.torque, i, j))


def _flipped(e: Experiment, rng: np.random.Generator, joints: list[int]) -> Faulty:
    q, tau, causes = e.position.copy(), e.torque.copy(), []
    for j in joints:
        of = int(rng.integers(2))
        (q, tau)[of][:, j] *= -1.0
        causes.append(Cause((FLIPS[of],), (e.joints[j],)))
    return _positions(e, q, tuple(causes), rng, tau)


def flip(e: Experiment, rng: np.random.Generator) -> Faulty:
    """One joint's position or torque has the other sign."""
    return _flipped(e, rng, _chosen(e, rng, 1))


def two_flips(e: Experiment, rng: np.random.Generator) -> Faulty:
    """Two joints' positions or torques have the other sign."""
    return _flipped(e, rng, _chosen(e, rng, 2))


def swap_and_flip(e: Experiment, rng: np.random.Generator) -> Faulty:
    """Columns of two joints change places, and one joint's torque has the other sign."""
    i, j = _chosen(e, rng, 2)
    k = int(rng.integers(len(e.joints)))
    tau = _exchanged(e.torque, i, j)
    tau[:, k] *= -1.0
    holder = j if k == i else i if k == j else k  # joint whose torque stands in the flipped column
    causes = (
        Cause(SWAPS[:1], (e.joints[i], e.joints[j])),
        Cause((FLIPS[1],), (e.joints[holder],)),
    )
    return _positions(e, _exchanged(e.position, i, j), causes, rng, tau)


def gear(e: Experiment, rng: np.random.Generator) -> Faulty:
    """One joint's position is logged in front of a gear of 2, and so is its torque."""
    (j,) = _chosen(e, rng, 1)
    q = e.position.copy()
    q[:, j] *= 2.0
    cause = Cause(("wrong gear or unit of position",), (e.joints[j],), 0.5, 0.1)
    return _positions(e, q, (cause,), rng)


def ratio(e: Experiment, rng: np.random.Generator) -> Faulty:
    """One joint's gear ratio is 8 % off: of its position, and of its torque."""
    (j,) = _chosen(e, rng, 1)
    q, tau = e.position.copy(), e.torque.copy()
    q[:, j] *= 1.08
    tau[:, j] /= 1.08
    cause = Cause(("wrong gear or unit of position",), (e.joints[j],), 1.0 / 1.08, 0.03)
    lacks = e.torque_of(q) - e.torque_of(e.position)
    made = _positions(e, q, (cause,), rng, tau)
    return replace(made, counts=e.oracle().tells(lacks))


def gain(e: Experiment, rng: np.random.Generator) -> Faulty:
    """One joint's torque is 1.6 times too large."""
    (j,) = _chosen(e, rng, 1)
    tau = e.torque.copy()
    tau[:, j] *= 1.6
    cause = Cause(("wrong torque gain",), (e.joints[j],), 1.0 / 1.6, 0.15)
    return _torques(e, tau, (cause,), rng)


def milliamperes(e: Experiment, rng: np.random.Generator) -> Faulty:
    """All torques are a thousand times too large."""
    return _torques(e, 1e3 * e.torque, (Cause(("unit of torque",)),), rng)


def _scaled(
    e: Experiment, scale: Array, rng: np.random.Generator, names: Strings, step: float = 0.0
) -> Faulty:
    """Return a log whose torques are scaled, shape (n,), and rounded to multiples of a step."""
    noisy = scale * (e.torque + e.noise * rng.normal(size=e.torque.shape))
    if step:
        noisy = step * np.round(noisy / step)
    q = e.quantum * np.round(e.position / e.quantum)
    off, deviations = np.abs(np.log(scale / np.median(scale))), e.oracle().gain_deviation(e.link)
    scales, std = (tuple(float(x) for x in y) for y in (1.0 / scale, deviations))
    counts = np.ptp(scale) == 0.0 or np.any(off > np.maximum(TOLD * deviations, np.log(1.15)))
    made = recorded(e.joints, e.time, q, noisy)
    return Faulty(made, (Cause(names, (), None, 0.0, scales, std),), bool(counts))


GAINS = ("unit of torque", "wrong torque gain")


def currents(e: Experiment, rng: np.random.Generator) -> Faulty:
    """Currents of drives that give 8 to 12 N·m an ampere, one each."""
    return _scaled(e, 1.0 / rng.uniform(8.0, 12.0, len(e.joints)), rng, GAINS)


def per_mille(e: Experiment, rng: np.random.Generator) -> Faulty:
    """Whole per mille of each drive's rated torque, of which the largest in the log is .4 to .8."""
    rated = np.abs(e.torque).max(axis=0) / rng.uniform(0.4, 0.8, len(e.joints))
    return _scaled(e, 1e3 / rated, rng, GAINS, 1.0)


def mild_gains(e: Experiment, rng: np.random.Generator) -> Faulty:
    """All drives' gains are off, by .75 to 1.3, two of them by the whole of that."""
    gains = rng.uniform(0.75, 1.3, len(e.joints))
    gains[_chosen(e, rng, 2)] = 0.75, 1.3
    return _scaled(e, gains, rng, GAINS[1:])


def third(e: Experiment, rng: np.random.Generator) -> Faulty:
    """All torques are .3 of what they are."""
    return _scaled(e, np.full(len(e.joints), 0.3), rng, GAINS[:1])


def hundred(e: Experiment, rng: np.random.Generator) -> Faulty:
    """All torques are in N·cm."""
    return _scaled(e, np.full(len(e.joints), 100.0), rng, GAINS[:1])


def wrist_in_millinewton(e: Experiment, rng: np.random.Generator) -> Faulty:
    """The last joint's torque is in N·mm, the others' in N·m."""
    scale = np.ones(len(e.joints))
    scale[-1] = 1e3
    made = _scaled(e, scale, rng, GAINS[1:])
    cause = replace(made.causes[0], about=e.joints[-1:], value=1e-3, near=1e-9, scales=())
    return replace(made, causes=(cause,), counts=True)


def all_signs(e: Experiment, rng: np.random.Generator) -> Faulty:
    """All torques have the other sign."""
    return _torques(e, -e.torque, (Cause((FLIPS[1],)),), rng)


def swapped_torques(e: Experiment, rng: np.random.Generator) -> Faulty:
    """Torques of two joints change places, positions do not."""
    i, j = _chosen(e, rng, 2)
    cause = Cause(("swapped torques",), (e.joints[i], e.joints[j]))
    return _torques(e, _exchanged(e.torque, i, j), (cause,), rng)


def zeros_between(e: Experiment, rng: np.random.Generator) -> Faulty:
    """Every other row is a second publisher's, which knows no torque."""
    noisy = e.torque + e.noise * rng.normal(size=e.torque.shape)
    noisy[1::2] = 0.0
    q = e.quantum * np.round(e.position / e.quantum)
    causes = tuple(Cause(("zeros between values",), (f"tau.{j}",)) for j in e.joints)
    return Faulty(recorded(e.joints, e.time, q, noisy), causes, True)


def zeros_at_times(e: Experiment, rng: np.random.Generator) -> Faulty:
    """Three of ten rows of one joint, at random, hold no torque."""
    (j,) = _chosen(e, rng, 1)
    noisy = e.torque + e.noise * rng.normal(size=e.torque.shape)
    noisy[rng.random(len(noisy)) < 0.3, j] = 0.0
    q = e.quantum * np.round(e.position / e.quantum)
    cause = Cause(("zeros between values",), (f"tau.{e.joints[j]}",))
    return Faulty(recorded(e.joints, e.time, q, noisy), (cause,), True)


def off_at_first(e: Experiment, rng: np.random.Generator) -> Faulty:
    """Torque is logged from the fifth part of the log on, zero before."""
    noisy = e.torque + e.noise * rng.normal(size=e.torque.shape)
    noisy[: len(noisy) // 5] = 0.0
    q = e.quantum * np.round(e.position / e.quantum)
    return Faulty(recorded(e.joints, e.time, q, noisy), (Cause(("frozen",)),), True)


def warming(e: Experiment, rng: np.random.Generator) -> Faulty:
    """Sliding friction falls by 38 % through the log."""
    through = np.linspace(0.0, 1.0, len(e.time))[:, None]
    lacks = -0.38 * through * e.coulomb * np.tanh(e.velocity / 0.02)
    return _lacking(e, lacks, Cause(("friction that changes",)), rng)


def spring(e: Experiment, rng: np.random.Generator) -> Faulty:
    """A cable pulls at one joint, with a fifth of its torque."""
    (j,) = _chosen(e, rng, 1)
    lacks, angle = np.zeros_like(e.torque), e.position[:, j] - e.position[:, j].mean()
    lacks[:, j] = 0.2 * np.std(e.torque[:, j]) * angle / np.std(angle)
    return _lacking(e, lacks, Cause(("spring",), (e.joints[j],)), rng)


def ripple(e: Experiment, rng: np.random.Generator) -> Faulty:
    """A torque of a tenth of one joint's repeats 50 to 400 times a turn."""
    (j,) = _chosen(e, rng, 1)
    lacks, cycles = np.zeros_like(e.torque), int(rng.integers(50, 400)) / (2.0 * np.pi)
    lacks[:, j] = 0.1 * np.std(e.torque[:, j]) * np.sin(cycles * e.position[:, j])
    return _lacking(e, lacks, Cause(("ripple",), (e.joints[j],)), rng)


def milliseconds(e: Experiment, rng: np.random.Generator) -> Faulty:
    """Time is in milliseconds."""
    log = replace(e, time=1e3 * e.time).logged(rng)
    return Faulty(log, (Cause(("slow clock",)),), True)


def clipping(e: Experiment, rng: np.random.Generator) -> Faulty:
    """A drive's torque is limited: the largest 4 % of it."""
    (j,) = _chosen(e, rng, 1)
    noisy = e.torque + e.noise * rng.normal(size=e.torque.shape)
    most = np.quantile(np.abs(noisy[:, j]), 0.96)
    noisy[:, j] = np.clip(noisy[:, j], -most, most)
    q = e.quantum * np.round(e.position / e.quantum)
    cause = Cause(("saturated",), (f"tau.{e.joints[j]}",))
    return Faulty(recorded(e.joints, e.time, q, noisy), (cause,), True)


def gap(e: Experiment, rng: np.random.Generator) -> Faulty:
    """Fifty milliseconds, twelve rows at least, are missing."""
    at = int(rng.integers(len(e.time) // 4, 3 * len(e.time) // 4))
    keep = np.ones(len(e.time), dtype=bool)
    keep[at : at + max(12, round(0.05 / e.step))] = False
    log = replace(e, time=e.time[keep], position=e.position[keep], torque=e.torque[keep]).logged(
        rng
    )
    return Faulty(log, (Cause(("gaps",)),), True)


def stuck_encoder(e: Experiment, rng: np.random.Generator) -> Faulty:
    """A joint's encoder stands still for one to four seconds, or from some time on."""
    (j,) = _chosen(e, rng, 1)
    begin = int(rng.integers(len(e.time) // 4, len(e.time) // 2))
    rows = round(float(rng.uniform(1.0, 4.0)) / e.step)
    q = e.position.copy()
    q[begin : begin + rows, j] = q[begin, j]
    cause = Cause(("frozen",), (f"q.{e.joints[j]}",))
    at = e.quantum * np.round(q / e.quantum)
    tau = e.torque + e.noise * rng.normal(size=e.torque.shape)
    return Faulty(recorded(e.joints, e.time, at, tau), (cause,), _moved(e, "q", q))


def gravity_compensated(e: Experiment, rng: np.random.Generator) -> Faulty:
    """The controller's torque without what it adds against gravity."""
    return _torques(e, e.torque - e.gravity, (Cause(("no gravity",)),), rng)


def joint_zero(e: Experiment, rng: np.random.Generator) -> Faulty:
    """One joint's zero is off by 3°."""
    (j,) = _chosen(e, rng, 1)
    q, angle = e.position.copy(), float(np.deg2rad(3.0) * rng.choice((-1.0, 1.0)))
    q[:, j] += angle
    cause = Cause(("encoder offset",), (e.joints[j],), -angle, float(np.deg2rad(2.0)))
    # A position has no zero of its own: the fault is in what torque the positions ask for.
    change = e.torque_of(q) - e.torque_of(e.position)
    counts = bool(np.any(np.sqrt(np.mean(change**2, axis=0)) > e.noise))
    return replace(_positions(e, q, (cause,), rng), counts=counts)


def late(e: Experiment, rng: np.random.Generator) -> Faulty:
    """Torque comes 20 ms late."""
    tau = _at(e.time, e.torque, e.time - 0.02)
    return _torques(e, tau, (Cause(("delay",), (), 0.02, 0.005),), rng)


def _at(time: Array, values: Array, at: Array) -> Array:
    return np.stack([np.interp(at, time, x) for x in values.T], 1)


def low_passed(e: Experiment, rng: np.random.Generator) -> Faulty:
    """Torque behind a low-pass of 5 Hz, of first or second order."""
    order = int(rng.integers(1, 3))
    sos = scipy.signal.butter(order, 5.0, fs=1.0 / e.step, output="sos")
    start = scipy.signal.sosfilt_zi(sos)[:, :, None] * e.torque[0]
    tau, _ = scipy.signal.sosfilt(sos, e.torque, axis=0, zi=start)
    return _torques(e, tau, (Cause(("low-passed torque",)),), rng)


def drifting_clocks(e: Experiment, rng: np.random.Generator) -> Faulty:
    """The torque's clock runs slow or fast by a thousandth."""
    drift = 1e-3 * float(rng.choice((-1.0, 1.0)))
    tau = _at(e.time, e.torque, e.time[0] + (1.0 - drift) * (e.time - e.time[0]))
    return _torques(e, tau, (Cause(("drifting clocks",), (), drift, 5e-4),), rng)


def link_side(e: Experiment, rng: np.random.Generator) -> Faulty:
    """Torque measured behind the gears."""
    return _torques(e, e.link, (Cause(("torque without friction",)),), rng)


def compensated_friction(e: Experiment, rng: np.random.Generator) -> Faulty:
    """Drives add more against friction than there is, and log what is left: one drive, or all."""
    joints = range(len(e.joints)) if rng.integers(2) else _chosen(e, rng, 1)
    tau = e.torque.copy()
    for j in joints:
        tau[:, j] -= 1.6 * e.coulomb[j] * np.tanh(e.velocity[:, j] / 0.02)
    names = tuple(e.joints[j] for j in joints) if len(joints) == 1 else ()
    return _torques(e, tau, (Cause(("friction that drives",), names),), rng)


@dataclass(frozen=True, eq=False)
class Oracle:
    """What can be told beside unknown bodies and friction, by columns that MuJoCo's fields give.

    It knows the lengths and no mass, and lets each joint have five columns of friction and a rotor.
    What these leave of the torque is its noise, with the memory that it has.

    Attributes:
        rows: Those of the experiment that it looks at, shape (400,).
        sigma: Noise of each joint's torque, shape (n,) [N·m].
        nuisance: Weighted columns, shape (columns, n · 400).
    """

    rows: Array
    sigma: Array
    nuisance: Array

    @staticmethod
    def of(links: Links, noise: Array, q: Array, v: Array, a: Array, torque: Array) -> Oracle:
        """Return the oracle of an experiment."""
        rows = np.linspace(0, len(q) - 1, 400).astype(int)
        q, v, a, torque = (x[rows] for x in (q, v, a, torque))
        model, columns = links.model, []
        plain = links.inverse_dynamics(q, v, a)

        def column(field: Array, change: Array) -> None:
            kept = field.copy()
            field += change
            columns.append((links.inverse_dynamics(q, v, a) - plain).T)
            field[:] = kept

        for body in range(1, model.nbody):
            column(model.body_mass[body : body + 1], 0.01 * model.body_mass[body : body + 1])
            for k in np.eye(3):
                column(model.body_ipos[body], 1e-3 * k)
                column(model.body_inertia[body], 1e-2 * model.body_inertia[body].max() * k)
                column(model.body_iquat[body], np.concatenate([[0.0], 1e-3 * k]))
        bodies, parts, sigma = np.array(columns), [], np.zeros(torque.shape[1])
        for j in range(len(sigma)):
            own = np.stack([a[:, j], v[:, j], np.tanh(v[:, j] / 0.02), np.tanh(v[:, j] / 0.1),
                            np.tanh(v[:, j] / 0.5), np.ones(len(rows))])  # fmt: skip
            part = np.zeros((len(bodies) + 6 * len(sigma), len(rows)))
            part[: len(bodies)] = bodies[:, j]
            part[len(bodies) + 6 * j : len(bodies) + 6 * (j + 1)] = own
            left = torque[:, j] - _explained(part, torque[:, j])
            memory = np.corrcoef(left[1:], left[:-1])[0, 1].clip(0.0, 0.95)
            square = np.mean(left**2) * (1.0 + memory) / (1.0 - memory)
            sigma[j] = np.sqrt(square + noise[j] ** 2)
            parts.append(part / sigma[j])
        return Oracle(rows, sigma, np.concatenate(parts, axis=1))

    def information(self, effects: Sequence[Array]) -> Array:
        """Return the information on amplitudes of torques of shape (N, n), shape (m, m)."""
        weighted = [(e[self.rows] / self.sigma).T.ravel() for e in effects]
        alone = np.stack([w - _explained(self.nuisance, w) for w in weighted])
        return alone @ alone.T

    def tells(self, effect: Array) -> bool:
        """Return whether a torque, shape (N, n), is beyond five deviations of its amplitude."""
        return bool(self.information([effect])[0, 0] > 25.0)

    def gain_deviation(self, link: Array) -> Array:
        """Return the deviation of the logarithm of each joint's gain, shape (n,).

        Of a gain is known that it is within two e-folds; a common factor is none of a joint: they
        are against the joint that is told best.

        Args:
            link: Torque of the links, shape (N, n) [N·m].
        """
        count = link.shape[1]
        effects = [link * (np.arange(count) == j) for j in range(count)]
        information = self.information(effects) + 0.25 * np.eye(count)
        others = np.arange(count) != int(np.argmin(np.diag(np.linalg.inv(information))))
        deviations = np.zeros(count)
        deviations[others] = np.sqrt(np.diag(np.linalg.inv(information[others][:, others])))
        deviations[~others] = deviations[others].min(initial=1.0)
        return deviations


def _explained(columns: Array, values: Array) -> Array:
    size = np.linalg.norm(columns, axis=1)
    kept = columns[size > 0.0] / size[size > 0.0, None]
    return np.asarray(kept.T @ np.linalg.lstsq(kept.T, values, rcond=1e-9)[0])


FAULTS: dict[str, Fault] = {
    "degrees": degrees,
    "swap": swap,
    "flip": flip,
    "two flips": two_flips,
    "gear ×2": gear,
    "gain ×1.6": gain,
    "mA": milliamperes,
    "ms": milliseconds,
    "clipping": clipping,
    "gap": gap,
    "stuck encoder": stuck_encoder,
    "gravity compensated": gravity_compensated,
    "joint zero 3°": joint_zero,
    "delay 20 ms": late,
    "low-passed at 5 Hz": low_passed,
    "clocks drift 1e-3": drifting_clocks,
    "link-side torque": link_side,
    "compensated friction": compensated_friction,
    "swap and flip": swap_and_flip,
    "currents": currents,
    "per mille": per_mille,
    "gains .75-1.3": mild_gains,
    "all ×.3": third,
    "N·cm": hundred,
    "wrist in N·mm": wrist_in_millinewton,
    "all torques' signs": all_signs,
    "swapped torques": swapped_torques,
    "zeros of another publisher": zeros_between,
    "zeros at times": zeros_at_times,
    "torque off at first": off_at_first,
    "friction -38 %": warming,
    "spring": spring,
    "ripple": ripple,
    "ratio ×1.08": ratio,
}
