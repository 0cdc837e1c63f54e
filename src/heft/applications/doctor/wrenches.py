"""Wrenches that hold a robot, or that move what is beyond a sensor: signs, sizes, contacts.

Of a robot whose base floats, and of wrench sensors inside one, no corrections of columns are
searched for. What is asked is what would spoil its identification: a wrench that is the opposite of
what the model file's weight needs, a contact that never closes, moments when nothing holds the
robot, and what the motion shows once unknown wrenches are eliminated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.estimators import LeastSquares, VarianceComponents
from heft.information import DataRank, Finding, data_rank
from heft.models import Robot
from heft.plants import FloatingRobotPlant, Problem, RobotPlant, Samples, plant_of
from heft.recordings import Recording
from heft.signals import Smoothing

from .settings import PhysicsThresholds, WrenchThresholds

FORCES, SIX = 3, 6


def has_wrenches(robot: Robot) -> bool:
    """Return whether wrenches are part of a robot's equations."""
    return robot.tree.free_base or bool(robot.options.sensor)


@dataclass(frozen=True)
class Wrenches:
    """Checks of logs of a robot with a floating base or with wrench sensors."""

    # robot and logs, unknown wrenches eliminated by the noise that is found
    problem: Problem[RobotPlant]
    wrenches: WrenchThresholds  # thresholds of findings about wrenches
    physics: PhysicsThresholds  # thresholds of what is left over

    @staticmethod
    def of(
        robot: Robot,
        recordings: Sequence[Recording],
        wrenches: WrenchThresholds,
        physics: PhysicsThresholds,
    ) -> Wrenches:
        """Prepare the checks of logs.

        Raises:
            MissingSignal: If a log lacks a signal that the robot needs.
        """
        plant = plant_of(robot, recordings[0])
        problem: Problem[RobotPlant] = Problem(plant, tuple(recordings), Smoothing(), threads=1)
        if problem.has_unknowns:
            problem = VarianceComponents().settled(problem.thinned())
        return Wrenches(problem, wrenches, physics)

    def look(self) -> tuple[list[Finding], DataRank, dict[str, float]]:
        """Return findings, the rank of the motion, and each channel's relative residual by name."""
        motion, shares = self._fitted()
        seen = _Seen.of(self.problem, self.wrenches)
        findings = [*self._of_contacts(seen), *self._of_wrenches(seen), *self._of_residuals(shares)]
        return findings, motion, shares

    def _fitted(self) -> tuple[DataRank, dict[str, float]]:
        """Return the base parameters' rank, and each channel's relative residual by name."""
        problem = self.problem
        information = problem.information()
        estimate = LeastSquares().solve(information, known=problem.known_noise)
        standard, own = problem.plant.labels.names, problem.labels.names
        redundant = {standard[k] for k in problem.plant.redundant}
        kept = [k for k, name in enumerate(own) if name not in redundant]
        triangle = information.only(kept).combined(estimate.weights(worth=False))
        motion = data_rank(triangle.R, problem.labels.select(kept), triangle.rows)
        energy, rows = np.zeros((3, len(problem.channels))), 0
        for s in problem.samples():
            energy[1] += s.measured.sum(axis=0)
            energy[2] += np.sum(s.measured**2, axis=0)
            rows += len(s.time)
        for piece in problem.residuals(estimate.fitted):
            energy[0] += np.sum(piece.noise**2, axis=0)
        varying = energy[2] - energy[1] ** 2 / max(rows, 1)
        shares = np.sqrt(energy[0] / np.where(varying > 0.0, varying, np.inf))
        names = zip(problem.channels, shares.tolist(), varying > 0.0, strict=True)
        return motion, {name: share for name, share, varies in names if varies}

    def _of_contacts(self, seen: _Seen) -> Iterator[Finding]:
        for name, share in seen.closed.items():
            contact = (self.problem.plant.robot.options.contact or {})[name]
            evidence = {"closed_share": share}
            if share == 0.0:
                yield Finding(
                    "contact never closed",
                    "it is never closed: what it bears, if anything, is taken for the robot's",
                    about=name,
                    evidence=evidence,
                    cure=f"log contact.{name}, or look at its point, height and speed"
                    if contact.closed == "detected"
                    else f"contact.{name} of the log is never above one half",
                )
            else:
                yield Finding(
                    "contact",
                    f"its unknown wrench acts {share:.0%} of the time ({contact.closed})",
                    about=name,
                    severity="tells",
                    evidence=evidence,
                )
        used = self.problem.plant.robot.options.equations in ("all", "base")
        if used and seen.floats and seen.unheld > self.wrenches.unheld_share:
            yield Finding(
                "nothing holds it",
                f"{seen.unheld:.0%} of the time no contact is closed, and the robot does not fall",
                severity="spoils",
                evidence={"share": seen.unheld},
                cure="state what holds it as a [contact.NAME], closed when it does",
            )

    def _of_wrenches(self, seen: _Seen) -> Iterator[Finding]:
        for name, factor in seen.factors.items():
            inside = name in (self.problem.plant.robot.options.sensor or {})
            size, evidence = abs(factor), {"factor": factor}
            if not 1.0 / self.wrenches.other_size < size < self.wrenches.other_size:
                yield Finding(
                    "wrench of another size",
                    f"its forces are {factor:.2g} times those that the model file's masses need",
                    about=name,
                    severity="spoils",
                    evidence=evidence,
                    cure="look at its unit and axes in the column map, and at the link named",
                )
            elif factor < 0.0:
                yield self._opposite(name, inside, evidence)

    def _opposite(self, name: str, inside: bool, evidence: dict[str, float]) -> Finding:
        if not inside:
            return Finding(
                "opposite wrench",
                "it is what acts on the ground: on the robot acts the opposite",
                about=name,
                severity="spoils",
                evidence=evidence,
                cure=f"turn force.{name} and torque.{name} round in the column map, sign = [-1]",
            )
        stated = (self.problem.plant.robot.options.sensor or {})[name].reports
        other = "on_sensor" if stated == "on_load" else "on_load"
        return Finding(
            "opposite wrench",
            f"it is the opposite of what is beyond it needs, if it reports {stated}",
            about=name,
            severity="spoils",
            evidence=evidence,
            cure="say which of the two it reports",
            lines={"options": f'[sensor.{name}]\nreports = "{other}"'},
        )

    def _of_residuals(self, shares: dict[str, float]) -> Iterator[Finding]:
        for name, share in shares.items():
            if share > self.physics.other_joint_share:
                yield Finding(
                    "unexplained wrench" if name.count(".") >= 2 else "unexplained torque",
                    f"{share:.0%} of it is not explained by this robot's motion, whatever its "
                    "masses",
                    about=name,
                    evidence={"share": share},
                    cure="look at what this column holds: its unit, its sign, its place",
                )


@dataclass(frozen=True)
class _Seen:
    """Statistics of contacts and wrenches over some samples, by the model file's masses."""

    floats: bool  # whether the base does
    # share of samples with which each contact of unknown wrench is closed, by name
    closed: dict[str, float]
    unheld: float  # share of samples at which no contact is closed, and the robot does not fall
    # what is measured over what the masses need, of each wrench's force, by name
    factors: dict[str, float]

    @staticmethod
    def of(problem: Problem[RobotPlant], thresholds: WrenchThresholds) -> _Seen:
        plant = problem.plant
        rows = sum(t.used for t in problem.timelines) // problem.decimation
        every = 1 + rows // thresholds.samples
        parts = [s.part(slice(None, None, every)) for s in problem.samples()]
        nominal = plant.robot.nominal()
        floating = plant if isinstance(plant, FloatingRobotPlant) else None
        closed, unheld = {}, 0.0
        factors: dict[str, float] = {}
        if floating is not None:
            flags = np.concatenate([s.motion.closed for s in parts], axis=1)
            unknown = [c.wrench == "unknown" for c in floating.contacts.values()]
            closed = {
                n: float(flags[k].mean()) for k, n in enumerate(floating.contacts) if unknown[k]
            }
            needed = np.concatenate([plant.rigid(s.motion, nominal)[:FORCES].T for s in parts])
            mass = float(nominal[: 10 * len(plant.robot.tree.names) : 10].sum())
            weight = mass * float(np.linalg.norm(plant.robot.gravity))
            falls = np.linalg.norm(needed, axis=1) < 0.5 * weight
            unheld = float(np.mean(~flags.any(axis=0) & ~falls))
            alone = ~flags[np.array(unknown, dtype=bool)].any(axis=0)
            factors |= _of_contacts(floating, parts, needed, alone, thresholds.bearing_share)
        for k, sensor in enumerate(plant.sensors):
            first = len(plant.robot.measured) + SIX * k
            measured = np.concatenate([s.measured[:, first : first + FORCES] for s in parts])
            need = np.concatenate(
                [sensor.wrench(s.motion.bodies, nominal)[:, :FORCES] for s in parts]
            )
            alike, factor = _compared(measured - measured.mean(0), need - need.mean(0))
            # Contacts beyond it bear, too; what hardly turns or moves is ruled by noise.
            if (floating is None or not floating.contacts) and alike > thresholds.alike:
                factors[sensor.name] = factor
        return _Seen(floating is not None, closed, unheld, factors)


def _of_contacts(
    plant: FloatingRobotPlant,
    parts: Sequence[Samples[Any]],
    needed: Array,
    alone: NDArray[np.bool_],
    least: float,
) -> dict[str, float]:
    """Return measured over needed force by name, of each measured contact that bears a share.

    Args:
        parts: Samples, N in all.
        needed: Force that the base needs with the model file's masses, shape (N, 3) [N].
        alone: Mask of samples on which no contact of unknown wrench acts, shape (N,).
        least: Least share of the needed force's energy that counts as bearing.
    """
    of_measured = plant.told
    names = [n for n, c in plant.contacts.items() if c.wrench == "measured"]
    if not names or alone.sum() < SIX * len(names):
        return {}
    first = len(plant.channels) - int(of_measured.sum())
    made = [
        (plant.held(s.motion)[:, :FORCES, of_measured] * s.measured[:, None, first:]) for s in parts
    ]
    each = np.concatenate(made)[alone]  # of each component of each contact
    sizes = [c.components for c, _ in plant.components if c.wrench == "measured"]
    ends = np.cumsum([0, *sizes])
    columns = [each[:, :, a:b].sum(axis=2).ravel() for a, b in pairwise(ends)]
    forces = needed[alone].ravel()
    bears = [k for k, c in enumerate(columns) if c @ c > least * (forces @ forces)]
    if not bears:
        return {}
    inverse, *_ = np.linalg.lstsq(np.stack([columns[k] for k in bears], 1), forces)
    return {names[k]: float(1.0 / x) for k, x in zip(bears, inverse, strict=True) if x}


def _compared(measured: Array, need: Array) -> tuple[float, float]:
    """Return the absolute correlation, and the factor c of the least squares `told = c need`."""
    both, own, other = (
        float(np.sum(x)) for x in (measured * need, need * need, measured * measured)
    )
    if not (own > 0.0 and other > 0.0):
        return 0.0, 0.0
    return abs(both) / float(np.sqrt(own * other)), both / own
