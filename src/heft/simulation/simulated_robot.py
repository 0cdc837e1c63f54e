"""A robot as it is simulated: its parameters for the compiled steps, and its derivatives.

Coulomb friction is F tanh(w/s), which a drive at rest creeps by.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from heft.arrays import Array
from heft.dynamics import (
    LINEAR_SCALE,
    Armature,
    Coulomb,
    DriveState,
    Offset,
    Sigmoid,
    Viscous,
    adjoint,
    drive_columns,
    held_steps,
    kernels,
)
from heft.errors import InvalidModel, InvalidSetting
from heft.information import PARAMETER_COUNT
from heft.models import Robot

SIMULATED = (Armature, Viscous, Coulomb, Sigmoid, Offset)


@dataclass(frozen=True, eq=False)
class Actuation:
    """What moves a robot of n joints over N steps: held efforts, and a controller's beside."""

    wanted: Array  # q, v and effort ahead of any error of them, shape (N, 3, n)
    gains: Array  # of errors of position and speed, and of the integral of the former, shape (3, n)
    keep: float  # share of the differentiated position that the filter takes; < 0: speed itself
    step: float  # [s]

    @staticmethod
    def of_efforts(effort: Array, step: float) -> Actuation:
        """Return efforts alone, shape (N, n) [N·m or N]."""
        wanted = np.zeros((len(effort), 3, effort.shape[1]))
        wanted[:, 2] = effort
        return Actuation(wanted, np.zeros_like(wanted[0]), -1.0, step)


@dataclass(frozen=True, eq=False)
class Numbers:
    """Parameters of a robot as the compiled steps take them (`dynamics.held_steps`)."""

    bodies: Array  # ten a body, shape (10 bodies,)
    rotors: Array  # inertia of the rotors, shape (channels, channels)
    # ratios; viscous coefficients, offsets, amplitudes and speeds of sigmoids
    drives: tuple[Array, ...]


@dataclass(frozen=True, eq=False)
class SimulatedRobot:
    """A robot whose friction is a function of the speed, for simulations of any parameters.

    Raises:
        InvalidModel: If the base floats.
        InvalidSetting: If friction has a memory or takes the load, or own columns depend on
            acceleration.
    """

    robot: Robot  # with a fixed base, and friction that remembers nothing
    # speed s of Coulomb friction F tanh(w/s) [rad/s]; `LINEAR_SCALE` times that where a joint
    # slides
    standstill: float

    def __post_init__(self) -> None:
        robot = self.robot
        if robot.tree.free_base:
            raise InvalidModel(
                "a floating base is not simulated: contacts that are not modelled hold it up",
                argument='base = "free"',
                cure="take an estimator that needs no simulation, such as least-squares",
            )
        wild = [robot.drives.name(c) for c in robot.drive_columns if type(c[1]) not in SIMULATED]
        if wild:
            raise InvalidSetting(
                "friction that remembers or takes the load is not simulated",
                argument="[joint.NAME] friction",
                got=", ".join(wild[:3]),
                cure='say friction = "simple" for methods that simulate',
            )
        if robot.own_columns is not None and robot.own_columns.accelerated:
            raise InvalidSetting(
                "own columns that depend on acceleration are not simulated",
                argument=robot.own_columns.source,
                cure="take an estimator that needs no simulation, such as least-squares",
            )

    def linearised(
        self, q: Array, v: Array, a: Array, standard: Array, columns: tuple[int, ...]
    ) -> tuple[Array, Array, Array, Array]:
        """Return the derivatives of the inverse dynamics, friction and rotors included.

        Args:
            q: Positions, N states, shape (N, joints) [rad or m].
            standard: Parameters, shape (p,).
            columns: Positions of the parameters by which τ is differentiated.

        Returns:
            ∂τ/∂a, ∂τ/∂q and ∂τ/∂v, each of shape (N, joints, joints), and ∂τ/∂parameters, shape
            (N, joints, columns).
        """
        robot, numbers = self.robot, self.numbers(standard)
        tree, n = robot.tree, len(robot.joints)
        moving = kernels.motion_of(tree, robot.gravity, q, v, a)
        slots = kernels.full_slots(tree)
        M, K, D = (np.empty((len(q), n, n)) for _ in range(3))
        for c in range(n):
            seeds = np.zeros((n, slots.shape[1], len(q)))
            seeds[c] = np.where(slots[c] >= 0, numbers.bodies, 0.0)[:, None]
            by_q, by_v, by_a = adjoint.pull_back(tree, moving, np.moveaxis(seeds, 2, 0))
            K[:, c], D[:, c], M[:, c] = by_q.T, by_v.T, by_a.T
        ratios, viscous, _, amplitude, scale = numbers.drives
        w = v @ ratios.T
        fading = 1.0 - np.tanh(w[:, :, None] / scale) ** 2
        fall = viscous + np.sum(amplitude / scale * fading, axis=2)
        D += np.einsum("nd,dc,dk->nck", fall, ratios, ratios)
        if robot.own_columns is not None:
            by_place, by_speed = robot.own_columns.slopes(q.T, v.T, standard[self._first_own :])
            K, D = K + by_place, D + by_speed
        return M + numbers.rotors, K, D, self._rows(moving, q, v, a, columns)

    def _rows(
        self, moving: kernels.Motion, q: Array, v: Array, a: Array, columns: tuple[int, ...]
    ) -> Array:
        """Return the regressor of some columns, Coulomb friction smoothed as in simulation."""
        robot = self.robot
        slots = kernels.slots_of(robot.tree, columns)
        out = np.zeros((len(robot.joints), len(columns), len(q)))
        kernels.regressor(robot.tree, moving, out, slots)
        own = PARAMETER_COUNT * len(robot.tree.names)
        state = DriveState(q.T, v.T, a.T, np.zeros((0, len(q))), np.zeros(q.T.shape))
        end = self._first_own
        chosen = [robot.drive_columns[c - own] for c in columns if own <= c < end]
        shown = [(d, Sigmoid(self._speed(d)) if isinstance(t, Coulomb) else t) for d, t in chosen]
        made = drive_columns.columns(robot.drives, shown, state)
        first = sum(c < own for c in columns)
        for (channel, column), weight in zip(made.acts, made.weights, strict=True):
            out[channel, first + column] += weight * made.values[column]
        users = [c - end for c in columns if c >= end]
        if users and robot.own_columns is not None:
            rows = robot.own_columns.rows(q.T, v.T, a.T)
            out[:, first + len(chosen) :] += rows[:, users]
        return np.moveaxis(out, 2, 0)

    @property
    def _first_own(self) -> int:
        return PARAMETER_COUNT * len(self.robot.tree.names) + len(self.robot.drive_columns)

    def own_effort(self, q: Array, v: Array, standard: Array) -> Array:
        """Return the effort of the user's own columns, shape (N, joints) [N·m or N].

        Args:
            standard: Shape (p,), or (N, p) of unlike robots, each at its own state.
        """
        own = self.robot.own_columns
        if own is None:
            return np.zeros_like(q)
        rows = np.moveaxis(own.rows(q.T, v.T, np.zeros_like(q.T)), 2, 0)
        return np.asarray(np.sum(rows * standard[..., None, self._first_own :], axis=-1))

    def _speed(self, drive: int) -> float:
        """Return the speed s of a drive's smoothed Coulomb friction F tanh(w/s) [rad/s or m/s]."""
        return self.standstill * (LINEAR_SCALE if self.robot.drives[drive].linear else 1.0)

    def numbers(self, standard: Array) -> Numbers:
        """Return standard parameters as the compiled steps take them.

        Args:
            standard: Shape (p,), in the order and units of `robot.labels`; or (robots, p) of many
                robots, which then are the first axis of all but ratios and speeds of sigmoids.
        """
        robot, many = self.robot, standard.shape[:-1]
        own = PARAMETER_COUNT * len(robot.tree.names)
        ratios = np.array([d.ratio for d in robot.drives])
        viscous, offset, rotor = np.zeros((3, *many, len(ratios)))
        scales = self._scales
        amplitude = np.zeros((*many, *scales.shape))
        for k, (d, term) in enumerate(robot.drive_columns, own):
            value = standard[..., k]
            if isinstance(term, Armature):
                rotor[..., d] = value
            elif isinstance(term, Viscous):
                viscous[..., d] = value
            elif isinstance(term, Offset):
                offset[..., d] = value
            else:
                speed = self._speed(d) if isinstance(term, Coulomb) else term.scale
                amplitude[..., d, np.flatnonzero(scales[d] == speed)[0]] += value
        rotors = np.einsum("dc,...d,dk->...ck", ratios, rotor, ratios)
        drives = (ratios, viscous, offset, amplitude, scales)
        return Numbers(np.array(standard[..., :own], dtype=float), rotors, drives)

    def driven(
        self, numbers: Numbers, gains: Array, start: Array, wanted: Array, step: float, keep: float
    ) -> tuple[Array, int]:
        """Return q, v, a and efforts, (4, N, joints), and how many steps were taken.

        Arguments are as of `dynamics.held_steps.follow`.
        """
        tree = self.robot.tree
        log = np.zeros((4, len(wanted), len(self.robot.joints)))
        offset, gravity = np.array(tree.offset, dtype=float), np.array(self.robot.gravity)
        own = (numbers.bodies, numbers.rotors, numbers.drives)
        model = (kernels.compile_tree(tree), offset, *own, gravity)
        with np.errstate(all="ignore"):
            try:
                done = held_steps.follow(model, (gains, keep), start, wanted, step, log)
            except np.linalg.LinAlgError:
                done = 0
        return log, int(done)

    @cached_property
    def _scales(self) -> Array:
        """Speeds of each drive's sigmoids, Coulomb friction's first, shape (drives, most)."""
        speeds: list[list[float]] = [[self._speed(d)] for d in range(len(self.robot.drives))]
        for d, term in self.robot.drive_columns:
            if isinstance(term, Sigmoid) and term.scale not in speeds[d]:
                speeds[d].append(term.scale)
        most = max(map(len, speeds))
        return np.array([(*s, *[1.0] * (most - len(s))) for s in speeds])
