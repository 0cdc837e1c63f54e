"""Unknowns of a hypothesis about a log: bodies near the model file's, friction, own columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.dynamics import (
    LINEAR_SCALE,
    Armature,
    Drive,
    Drives,
    DriveState,
    Offset,
    Sigmoid,
    Stop,
    Term,
    Viscous,
    drive_columns,
)
from heft.estimators import IDENTITY, cone_metric
from heft.information import PARAMETER_COUNT, inertia
from heft.models import Robot

from .corrections import Correction
from .settings import DEGREE, EvidenceSettings
from .stretches import Stretch


@dataclass(frozen=True)
class Unknowns:
    """Unknowns u of a hypothesis: normalised pseudo-inertia of each body, then friction.

    Behind these stand the parameters of the user's own columns, of which nothing is believed.
    """

    robot: Robot  # robot model
    settings: EvidenceSettings  # friction model, and the relative deviation of the model file

    @cached_property
    def metric(self) -> tuple[Array, ...]:
        """Matrix of each body from unknowns to its ten inertial parameters, shape (10, 10)."""
        nominal = self.robot.nominal()
        found = []
        for b in range(len(self.robot.tree.names)):
            ten = nominal[PARAMETER_COUNT * b : PARAMETER_COUNT * (b + 1)]
            found.append(cone_metric(inertia.nearest_consistent(ten)))
        return tuple(found)

    @property
    def bodies(self) -> int:
        """Number of unknowns of the bodies."""
        return PARAMETER_COUNT * len(self.robot.tree.names)

    @cached_property
    def start(self) -> Array:
        """Unknowns at the model file's values, shape (p,)."""
        own = np.tile(IDENTITY, len(self.robot.tree.names))
        others = self.terms * len(self.robot.drives) + len(self.robot.own_names)
        return np.concatenate([own, np.zeros(others)])

    @property
    def own(self) -> slice:
        """Slice of the user's own columns."""
        first = self.bodies + self.terms * len(self.robot.drives)
        return slice(first, first + len(self.robot.own_names))

    def own_columns(self, q: Array, v: Array, a: Array) -> Array:
        """Return the user's own columns at the instants compared, shape (joints, columns, n).

        Args:
            q: Corrected positions at the instants, shape (n, joints) [rad or m].
            v: Velocities likewise.
            a: Accelerations likewise.
        """
        own = self.robot.own_columns
        if own is None:
            return np.zeros((len(self.robot.joints), 0, len(q)))
        return own.rows(q.T, v.T, a.T)

    @cached_property
    def rubbing(self) -> Drives:
        """Drives with few friction terms, enough to identify the sign of a joint.

        Load-dependent friction is left out: it needs the rigid-body torque, which is unknown here.
        """
        return Drives(tuple(self._rubbing(d) for d in self.robot.drives))

    def _rubbing(self, drive: Drive) -> Drive:
        unit = LINEAR_SCALE if drive.linear else 1.0
        terms = (
            Armature(),
            Viscous(),
            *(Sigmoid(unit * s) for s in self.settings.sigmoid_speeds_rad_s),
            *(Stop(unit * b) for b in self.settings.stop_widths_rad),
            Offset(),
        )
        return replace(drive, terms=terms)

    @property
    def terms(self) -> int:
        """Number of friction terms of each drive."""
        return 3 + len(self.settings.sigmoid_speeds_rad_s) + len(self.settings.stop_widths_rad)

    def nonnegative(self, driven: Sequence[int] = ()) -> NDArray[np.bool_]:
        """Return which unknowns are constrained to be nonnegative, shape (p,).

        Friction dissipates; only where a drive compensates it, what slides may push.

        Args:
            driven: Indices of the drives that may push.
        """
        own = [
            t.nonnegative and not (d in driven and isinstance(t, Sigmoid))
            for d, drive in enumerate(self.rubbing)
            for t in drive.terms
        ]
        columns = self.robot.own_columns
        own += columns.nonnegative if columns is not None else ()
        return np.concatenate([np.zeros(self.bodies, dtype=bool), np.array(own, dtype=bool)])

    def sliding(self, values: Array, speed: Array) -> Array:
        """Return each drive's friction torque of steady sliding, shape (drives,).

        Args:
            values: The unknowns, shape (p,).
            speed: Speed of each drive, shape (drives,) [rad/s or m/s].
        """
        own = values[self.bodies : self.own.start].reshape(-1, self.terms)
        return np.array(
            [
                sum(c * _steady(t, v) for c, t in zip(cs, d.terms, strict=True))
                for cs, d, v in zip(own, self.rubbing, speed, strict=True)
            ]
        )

    def parameters(self, values: Array) -> Array:
        """Return the inertial parameters of all bodies from unknowns, shape (10 bodies,)."""
        tens = values[: self.bodies].reshape(-1, PARAMETER_COUNT)
        return np.concatenate([g @ u for g, u in zip(self.metric, tens, strict=True)])

    def of_drive(self, drive: int) -> slice:
        """Return the slice of a drive's terms."""
        first = self.bodies + self.terms * drive
        return slice(first, first + self.terms)

    def drive_columns(
        self, correction: Correction, stretches: Sequence[Stretch], v: Array, a: Array
    ) -> Array:
        """Return each drive's friction columns at the instants compared, shape (drives, terms, n).

        Args:
            stretches: Segments of the logs, as logged.
            v: Corrected velocities at the instants, shape (n, joints) [rad/s or m/s].
            a: Corrected accelerations, shape (n, joints) [rad/s² or m/s²].
        """
        source, scale = list(correction.q_source), np.array(correction.q_scale)
        # The course of friction over speed is not known well enough to tell a scale.
        units = np.array([1.0, DEGREE])  # a motor's turns are nearer to the second
        apart = np.abs(np.log(np.abs(scale)) - np.log(units[:, None]))
        plain = np.abs(scale) / units[np.argmin(apart, axis=0)]
        stops = []
        for s in stretches:
            moved = (s.position[:, source] * (scale / plain)).T
            stops.append(drive_columns.presliding(self.rubbing, s.time, moved).values[:, s.chosen])
        velocity, acceleration = (v / plain).T, (a / plain).T
        no_load = np.zeros_like(velocity)
        slipped = np.concatenate(stops, axis=1)
        # Of these terms none is a function of the position alone.
        state = DriveState(no_load, velocity, acceleration, slipped, no_load)
        chosen = [(d, t) for d, drive in enumerate(self.rubbing) for t in drive.terms]
        made = drive_columns.columns(self.rubbing, chosen, state).values
        return made.reshape(len(self.rubbing), self.terms, -1)


def _steady(term: Term, speed: float) -> float:
    """Return a term's column at a steady speed; 0 of terms that are no friction."""
    if isinstance(term, Viscous):
        return speed
    if isinstance(term, Sigmoid):
        return float(np.tanh(speed / term.scale))
    return float(isinstance(term, Stop))
