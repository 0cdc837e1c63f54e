"""What pushes a free-flying body, and what wrenches it can reach.

    [F; M] = A u,        column i of A:  [n_i;  r_i × n_i + κ_i n_i]

with the actuators' positions r, directions n and signed drag ratios κ (torque of reaction per
thrust), about the origin of the body's frame and in its axes [Ekal2018, eq. 1]. The drag of a
rotor that turns against its direction of thrust is negative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array, read_only
from heft.errors import InvalidSetting

RANK = 1e-9  # share of the largest singular value below which a direction cannot be pushed


@dataclass(frozen=True, eq=False)
class Actuators:
    """What pushes a body: n actuators, whose commands u add up to a wrench A u.

    Raises:
        InvalidSetting: If shapes disagree or a range of commands is empty.
    """

    names: tuple[str, ...]  # as in the log's `u.<name>`
    mixing: Array  # A, shape (6, n) [N and N·m, per unit of u]
    lower: Array  # least command, shape (n,) [unit of u: N]
    upper: Array  # largest command, shape (n,)
    lag: Array  # time constant of the first-order lag from command to thrust, shape (n,) [s]
    noise: Array  # standard deviation of thrust about it, white from sample to sample, shape (n,)
    position: Array | None = None  # r, shape (n, 3) [m]; None where a mixing matrix is given
    direction: Array | None = None  # unit vectors n, shape (n, 3); None likewise

    def __post_init__(self) -> None:
        count = len(self.names)
        if self.mixing.shape != (6, count):
            raise InvalidSetting(
                "a mixing matrix has six rows (force, moment) and a column an actuator",
                argument="mixing",
                got=f"{' x '.join(map(str, self.mixing.shape))} for {count} actuators",
            )
        for name in ("lower", "upper", "lag", "noise"):
            if getattr(self, name).shape != (count,):
                raise InvalidSetting(f"{name} has one number an actuator", argument=name)
        if not np.all(self.lower < self.upper):
            empty = [
                n for n, a, b in zip(self.names, self.lower, self.upper, strict=True) if a >= b
            ]
            raise InvalidSetting("a range of commands is empty", argument="limit", got=empty)

    @staticmethod
    def of_geometry(
        names: Sequence[str],
        position: Array,
        direction: Array,
        drag_ratio: Array,
        limits: Array,
        lag: Array | float = 0.0,
        noise: Array | float = 0.0,
    ) -> Actuators:
        """Return actuators of given positions and directions; see the module's equation.

        Args:
            position: r, shape (n, 3) [m].
            direction: n, of any length but zero, shape (n, 3).
            drag_ratio: κ, signed, shape (n,) [m].
            limits: Least and largest thrust, shape (n, 2) [N].
            lag: Time constant of each actuator, or of all [s].
            noise: Standard deviation of the thrust of each actuator, or of all [N].

        Raises:
            InvalidSetting: If a direction is zero.
        """
        r, n = np.asarray(position, dtype=float), np.asarray(direction, dtype=float)
        length = np.linalg.norm(n, axis=1, keepdims=True)
        if not np.all(length > 0.0):
            zero = [name for name, size in zip(names, length[:, 0], strict=True) if size == 0.0]
            raise InvalidSetting("an actuator has no direction", argument="direction", got=zero)
        n = n / length
        moment = np.cross(r, n) + np.asarray(drag_ratio, dtype=float)[:, None] * n
        lower, upper = np.asarray(limits, dtype=float).T
        every = np.ones(len(names))
        return Actuators(
            tuple(names),
            read_only(np.hstack((n, moment)).T),
            read_only(lower),
            read_only(upper),
            read_only(every * lag),
            read_only(every * noise),
            read_only(r),
            read_only(n),
        )

    def __len__(self) -> int:
        return len(self.names)

    @property
    def signals(self) -> tuple[str, ...]:
        """Names of the commands in a log, `u.<name>`."""
        return tuple(f"u.{name}" for name in self.names)

    @property
    def wrench_noise(self) -> Array:
        """Covariance A S Aᵀ of the wrench from the actuators' noise, shape (6, 6) [N², N²·m …]."""
        return np.asarray(self.mixing * self.noise**2 @ self.mixing.T)

    @property
    def pushes_all_ways(self) -> bool:
        """Whether force and moment can be chosen independently: A has rank 6."""
        return int(np.linalg.matrix_rank(self.mixing)) == 6

    def wrench(self, commands: Array) -> Array:
        """Return the wrench A u about the frame's origin, (N, 6) [N, N·m], of commands (N, n)."""
        return np.asarray(commands @ self.mixing.T)

    def saturated(self, commands: Array) -> NDArray[np.bool_]:
        """Return which samples' wrenches are at the boundary of what is attainable, shape (N,).

        Of independent actuators that is where one command or more is at its limit; of nozzles that
        only push, and rest where their counterparts push, it is not.
        """
        # The end of what can be done counts as reached within this share of it.
        return np.asarray(self.effort(commands) >= 1.0 - 2e-3)

    def effort(self, commands: Array) -> Array:
        """Return the share of its attainable range that the wrench uses, (N,); 1 at its end."""
        can = self.attainable
        away = np.abs(self.wrench(commands) @ can.normals.T - can.middle)
        return np.asarray((away / can.reach).max(axis=1))

    def saturation(self, commands: Array) -> float:
        """Return the share of samples that are `saturated`."""
        return float(np.mean(self.saturated(commands)))

    @cached_property
    def attainable(self) -> Attainable:
        """The wrenches `{A u : lower ≤ u ≤ upper}`, by their facets."""
        return _zonotope(self.mixing, self.lower, self.upper)

    def guaranteed_force(self) -> float:
        """Return the largest force attainable in every direction without a moment [N].

        It is the radius of the largest ball about zero among attainable wrenches without a moment,
        by their facets. Zero where some direction cannot be pushed at all.
        """
        can, forces = self.attainable, np.eye(6)[:, :3]
        missed = forces - self.mixing @ np.linalg.lstsq(self.mixing, forces, rcond=RANK)[0]
        if np.abs(missed).max() > 1e-6:
            return 0.0
        room, across = can.reach - np.abs(can.middle), np.linalg.norm(can.normals[:, :3], axis=1)
        lies = across > 1e-7  # else the facet is along all forces
        inside = (room[~lies] >= 0.0).all()
        return max(0.0, float((room[lies] / across[lies]).min())) if inside else 0.0


@dataclass(frozen=True, eq=False)
class Attainable:
    """A polytope of wrenches w: `|n · w − middle| ≤ reach` for each of its pairs of facets."""

    normals: Array  # n, shape (m, 6), in the span of what can be pushed at
    middle: Array  # shape (m,)
    reach: Array  # shape (m,)
    # whether `n · w` is the command of an actuator each, as where they are independent
    commands: bool


def _zonotope(mixing: Array, lower: Array, upper: Array) -> Attainable:
    """Return the facets of {A u}, each of whose normals is orthogonal to rank − 1 columns of A."""
    basis, size, _ = np.linalg.svd(mixing)
    rank = int(np.sum(size > RANK * size[0]))
    inside = basis[:, :rank].T @ mixing
    count = mixing.shape[1]
    if count == rank:
        normals = np.linalg.inv(inside)
    else:
        chosen = np.array(list(combinations(range(count), rank - 1)))
        planes = np.moveaxis(inside[:, chosen], 0, 1)  # rank × (rank - 1) each
        across, sizes, _ = np.linalg.svd(planes)
        flat = sizes[:, -1] > RANK * size[0]
        normals = across[flat, :, -1]
        along = np.argmax(np.abs(normals) > 1e-6, axis=1)
        normals *= np.sign(np.take_along_axis(normals, along[:, None], axis=1))
        normals = np.unique(np.round(normals, 9), axis=0)
    pushed = normals @ inside
    half, middle = 0.5 * (upper - lower), 0.5 * (upper + lower)
    return Attainable(
        normals @ basis[:, :rank].T, pushed @ middle, np.abs(pushed) @ half, count == rank
    )
