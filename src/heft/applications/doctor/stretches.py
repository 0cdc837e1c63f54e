"""Segments of logs without gaps: smoothed motion, and torque low-passed to the motion's band."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft import signals
from heft.arrays import Array
from heft.fit import filtered
from heft.models import Robot
from heft.plants import Problem, RobotPlant
from heft.recordings import Recording
from heft.signals import Smoothing

from .settings import EvidenceSettings


@dataclass(frozen=True)
class Stretch:
    """Segment of a log without gaps."""

    time: Array  # shape (N,) [s]
    # position, velocity, acceleration: shape (N, joints) [rad or m, and per s, s²]
    position: Array
    velocity: Array
    acceleration: Array
    effort: Array  # shape (N, joints) [N·m or N]; zero where it is not measured
    chosen: NDArray[np.intp]  # indices of the instants that are compared, shape (n,)

    @property
    def duration(self) -> float:
        """Duration [s]."""
        return float(self.time[-1] - self.time[0])

    def blurred(self, corner: float, torque: bool = True) -> Stretch:
        """Return the segment low-passed at a cutoff frequency [Hz], its torque too or as it is."""
        step = float(np.median(np.diff(self.time)))
        names = ("position", "velocity", "acceleration", *(["effort"] if torque else ()))
        made: dict[str, Any] = {
            n: _low_passed(self.time, getattr(self, n), step, corner) for n in names
        }
        return replace(self, **made)


def stretches_of(
    bare: Robot, recordings: Sequence[Recording], settings: EvidenceSettings
) -> tuple[tuple[Stretch, ...], float]:
    """Return the segments of logs to compare a frictionless robot on, and their cutoff [Hz].

    Raises:
        HeftError: If the logs lack signals, or nothing moves in them.
    """
    share = settings.rows // len(recordings)
    chosen = [w for r in recordings for w in _windows(r, share, settings.windows)]
    problem = Problem(RobotPlant(bare), tuple(chosen), Smoothing(), threads=1)
    problem = problem.with_settings(smoothing=replace(problem.resolved, delay=0.0))
    parts = list(_joined(problem, 2.5 * settings.longest_delay_s))
    duration = sum(s.duration for s in parts)
    made = []
    for s in parts:
        count = max(2, round(settings.instants * s.duration / max(duration, 1e-9)))
        delay = settings.longest_delay_s
        inner = (s.time >= s.time[0] + delay) & (s.time <= s.time[-1] - delay)
        rows = np.flatnonzero(inner)
        if len(rows) >= 2:
            pick = np.unique(np.linspace(0, len(rows) - 1, count).round().astype(np.intp))
            made.append(replace(s, chosen=rows[pick]))
    return tuple(made), problem.corner


def _windows(recording: Recording, rows: int, windows: int) -> Iterator[Recording]:
    """Yield windows all over a recording, of about `rows` rows together at most."""
    total = recording.table.rows
    if total is None:
        total = sum(len(b.time) for b in recording.blocks([]))
    if total <= rows:
        yield recording
        return
    share = rows // windows
    for k in range(windows):
        first = (total - share) * k // (windows - 1)
        yield recording.window(first, first + share)


def _joined(problem: Problem[RobotPlant], shortest: float) -> Iterator[Stretch]:
    """Yield the problem's pieces without gaps that are longer than `shortest` [s]."""
    parts: list[tuple[Array, ...]] = []
    recording, last, step = -1, -np.inf, 0.0
    for s in problem.samples():
        new = s.recording != recording
        gap = signals.GAP_STEPS * problem.timelines[s.recording].step
        effort = np.zeros_like(s.motion.position)  # zero where it is not measured
        effort[problem.plant.robot.measured] = s.measured.T
        signs = (s.motion.position, s.motion.velocity, s.motion.bodies.acceleration, effort)
        for rows in signals.between_gaps(s.time, gap):
            if new or not signals.follows(float(s.time[rows.start]), last, gap):
                yield from _made(parts, step, problem.corner, shortest)
                parts, new = [], False
                recording, step = s.recording, problem.timelines[s.recording].step
            parts.append((s.time[rows], *(x.T[rows] for x in signs)))
            last = float(s.time[rows.stop - 1])
    yield from _made(parts, step, problem.corner, shortest)


def _made(
    parts: Sequence[tuple[Array, ...]], step: float, corner: float, shortest: float
) -> Iterator[Stretch]:
    if not parts:
        return
    time, q, v, a, tau = (np.concatenate([h[k] for h in parts]) for k in range(5))
    if len(time) < 64 or time[-1] - time[0] <= shortest:  # too few rows
        return
    tau = _low_passed(time, tau, step, corner)
    yield Stretch(time, q, v, a, tau, np.empty(0, dtype=np.intp))


def _low_passed(time: Array, values: Array, step: float, corner: float) -> Array:
    """Return signals through the motion's low-pass, shape (N, joints)."""
    return filtered(time, values, step, min(corner, signals.LARGEST_CORNER / step))
