"""The part of logs that physics looks at, as regressor rows under any correction of its columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dgeqrf

from heft.arrays import Array
from heft.dynamics import REVOLUTE, Drives, Tree, kernels
from heft.information import PARAMETER_COUNT, DataRank, data_rank, triangle_of
from heft.models import Robot
from heft.plants import RobotPlant, structural_base
from heft.recordings import Recording

from .corrections import Correction
from .settings import EvidenceSettings
from .stretches import Stretch, stretches_of
from .unknowns import Unknowns

BLOCK = 64  # columns that LAPACK may reflect at once


@dataclass(frozen=True)
class Rows:
    """Triangles over the instants compared, from which any torque part of a correction is judged.

    Attributes:
        columns: For each channel, which unknowns its torque depends on, k of them.
        triangles: For each channel, the triangle of `[Y τ₁ … τ_joints]`, every joint's torque as
            logged, shape (k + joints, k + joints).
        regressors: For each channel, Yᵀ, shape (k, n).
        ridge: Prior's precision of the unknowns, shape (p,).
    """

    columns: tuple[NDArray[np.intp], ...]
    triangles: tuple[Array, ...]
    regressors: tuple[Array, ...]
    ridge: Array

    def side(self, channel: int, joint: int, factor: float) -> tuple[Array, Array, float]:
        """Return R, z and the energy that no unknowns explain, for a joint's torque times a factor.

        Args:
            channel: Position among the measured channels.
            joint: Whose column of torque.
            factor: Of that torque.
        """
        count = len(self.columns[channel])
        triangle = self.triangles[channel]
        z = factor * triangle[:, count + joint]
        return triangle[:count, :count], z[:count], float(np.sum(z[count:] ** 2))


@dataclass(frozen=True)
class Evidence:
    """The part of logs that physics looks at, and the robot that is to explain it.

    Attributes:
        robot: The robot.
        stretches: Pieces of the logs.
        corner: Of the low-pass on motion and torque [Hz].
        settings: How much of the logs, and by which model hypotheses are compared.
    """

    robot: Robot
    stretches: tuple[Stretch, ...]
    corner: float
    settings: EvidenceSettings

    @staticmethod
    def of(
        robot: Robot,
        recordings: Sequence[Recording],
        settings: EvidenceSettings | None = None,
    ) -> Evidence:
        """Return the evidence of logs, read in bounded memory.

        Args:
            robot: The robot.
            recordings: The logs.
            settings: How much of the logs, and by which model hypotheses are compared.

        Raises:
            HeftError: If the logs lack signals, or nothing moves in them.
        """
        settings = settings or EvidenceSettings()
        stretches, corner = stretches_of(_without_drives(robot), recordings, settings)
        return Evidence(robot, stretches, corner, settings)

    @property
    def count(self) -> int:
        """How many instants are compared."""
        return sum(len(s.chosen) for s in self.stretches)

    @cached_property
    def channels(self) -> tuple[int, ...]:
        """Positions of the joints whose torque is measured, and says something."""
        least = self.settings.dead_share * float(self.effort_size.max(initial=0.0))
        return tuple(int(k) for k in self.robot.measured if self.effort_size[k] > least)

    @cached_property
    def effort_size(self) -> Array:
        """Deviation of each joint's torque from its mean, as logged, shape (joints,)."""
        return np.asarray(self.effort().std(axis=0))

    @cached_property
    def effort_rms(self) -> Array:
        """Root mean square of each joint's torque as logged, shape (joints,)."""
        return np.asarray(np.sqrt(np.mean(self.effort() ** 2, axis=0)))

    @cached_property
    def unknowns(self) -> Unknowns:
        """What a hypothesis leaves free."""
        return Unknowns(self.robot, self.settings)

    def motion(self, correction: Correction) -> tuple[Array, Array, Array]:
        """Return corrected positions, velocities, accelerations compared, each (n, joints)."""
        source, scale = list(correction.q_source), np.array(correction.q_scale)
        q, v, a = (
            np.concatenate([getattr(s, k)[s.chosen] for s in self.stretches])[:, source] * scale
            for k in ("position", "velocity", "acceleration")
        )
        return q + np.array(correction.q_offset), v, a

    def effort(self, delay: float = 0.0) -> Array:
        """Return torque as logged, that much later than the motion [s], shape (n, joints)."""
        if delay == 0.0:
            return np.concatenate([s.effort[s.chosen] for s in self.stretches])
        parts = []
        for s in self.stretches:
            at = s.time[s.chosen] + delay
            parts.append(np.stack([np.interp(at, s.time, x) for x in s.effort.T], 1))
        return np.concatenate(parts)

    def energies(self, delay: float) -> Array:
        """Return the energy of each joint's torque as logged, shape (joints,)."""
        return np.asarray(np.sum(self.effort(delay) ** 2, axis=0))

    def rows(self, correction: Correction) -> Rows:
        """Return the rows of a correction's motion and delay."""
        q, v, a = self.motion(correction)
        motion = kernels.motion_of(self.robot.tree, np.array(correction.gravity), q, v, a)
        bodies = _regressor(self.robot.tree, motion)
        drives = self.unknowns.drive_columns(correction, self.stretches, v, a)
        effort = self.effort(correction.delay)
        made = [self._channel(c, bodies, drives) for c in self.channels]
        regressors = tuple(y for _, y in made)
        return Rows(
            tuple(at for at, _ in made),
            tuple(triangulated(np.vstack([y, effort.T]).T) for y in regressors),
            regressors,
            self._ridge(drives),
        )

    def _channel(
        self, channel: int, bodies: Array, drives: Array
    ) -> tuple[NDArray[np.intp], Array]:
        """Return which unknowns a channel's torque depends on, and its regressor."""
        parts, places = [], []
        for b in np.flatnonzero(self.robot.tree.ancestry()[channel]):
            ten = slice(PARAMETER_COUNT * b, PARAMETER_COUNT * (b + 1))
            parts.append(self.unknowns.metric[b].T @ bodies[channel, ten])
            places.append(np.arange(ten.start, ten.stop))
        for d, drive in enumerate(self.robot.drives):
            if drive.ratio[channel] != 0.0:
                own = self.unknowns.of_drive(d)
                parts.append(drive.ratio[channel] * drives[d])
                places.append(np.arange(own.start, own.stop))
        return np.concatenate(places), np.concatenate(parts)

    def _ridge(self, drives: Array) -> Array:
        """Return the prior's precision of the unknowns, shape (p,)."""
        ridge = np.full(len(self.unknowns.start), 1.0 / self.settings.body_deviation**2)
        for d, drive in enumerate(self.robot.drives):
            strong = np.max(np.abs(drive.ratio) * self.effort_rms, initial=0.0)
            size = np.abs(drive.ratio).max() * np.sqrt(np.mean(drives[d] ** 2, axis=1))
            # A term that never acts keeps its prior; one that does is worth the torque at most.
            ridge[self.unknowns.of_drive(d)] = (size / max(strong, 1e-9) + 1e-9) ** 2
        return ridge

    def torque_size(self, correction: Correction) -> float:
        """Return by how much the corrected torque is larger than holding the model file's masses.

        At rest, since a wrong scale of positions makes any speed; moving, where nothing falls.
        """
        q, v, a = self.motion(correction)
        tree, gravity = self.robot.tree, np.array(correction.gravity)
        rest = 0.0 if gravity.any() else 1.0
        motion = kernels.motion_of(tree, gravity, q, rest * v, rest * a)
        believed = kernels.inverse_dynamics(
            tree, motion, self.unknowns.parameters(self.unknowns.start)
        )
        source, scale = self.channels, np.array(correction.tau_scale)
        tau = scale * self.effort(correction.delay)[:, list(correction.tau_source)]
        held = np.sum(believed[list(source)] ** 2)
        return float(np.sqrt(np.sum(tau[:, list(source)] ** 2) / max(float(held), 1e-12)))

    def shown(self, correction: Correction) -> DataRank:
        """Return what the motion shows of the bodies' base parameters."""
        q, v, a = self.motion(correction)
        base = structural_base(RobotPlant(_without_drives(self.robot)))
        tree = self.robot.tree
        motion = kernels.motion_of(tree, np.array(correction.gravity), q, v, a)
        made = _regressor(tree, motion)[list(self.channels)]
        chosen = np.moveaxis(made, 2, 0)[:, :, list(base.kept)].reshape(-1, len(base.kept))
        return data_rank(triangle_of(chosen), base.labels, len(chosen))

    def revolute_joints(self) -> tuple[list[int], list[int]]:
        """Return the joints that are not held still, and which of them turn."""
        robot, tree = self.robot, self.robot.tree
        moving = [k for k, j in enumerate(robot.joints) if robot.options.of(j).position is None]
        body = {k: int(np.flatnonzero(tree.channel == k)[0]) for k in moving}
        return moving, [k for k in moving if tree.kind[body[k]] == REVOLUTE]


def triangulated(rows: Array) -> Array:
    """Return the square upper triangle R with `RᵀR = rowsᵀ rows`, its diagonal of any sign.

    As `information.triangle_of`, at half its time: nothing is copied. A search makes thousands.

    Args:
        rows: Shape (m, n), in Fortran's order; destroyed.
    """
    factor, _, _, _ = dgeqrf(rows, lwork=BLOCK * rows.shape[1], overwrite_a=True)
    count = rows.shape[1]
    if len(factor) < count:
        factor = np.vstack([factor, np.zeros((count - len(factor), count))])
    return np.asarray(np.triu(factor[:count]))


def _without_drives(robot: Robot) -> Robot:
    """Return a robot of which nothing rubs and no rotor turns."""
    bare = tuple(replace(d, terms=(), simple_terms=()) for d in robot.drives)
    return replace(robot, drives=Drives(bare))


def _regressor(tree: Tree, motion: kernels.Motion) -> Array:
    """Return the bodies' rows, shape (channels, 10 bodies, n)."""
    out = np.zeros((tree.channels, PARAMETER_COUNT * len(tree.names), motion.sin.shape[1]))
    kernels.regressor(tree, motion, out)
    return out
