"""A free-flying body by its actuators' commands, as a plant.

    Y(a − g, ω, α) π = A (u − ε)

Six equations, noise in n commands. A does not change from sample to sample, so the equations are
combined once such that their noise is independent (as those of `HeldBody`), and each combination
is a channel, whose triangle stays one of its own:

- n independent actuators: `A⁺` gives each actuator's command back;
- more actuators than they can do: the whitened wrench `(A S Aᵀ)^-½` in thrusts of usual noise;
- what no actuator can push at (a quadrotor's sideways force): nothing is measured there, and
  nothing acts. Its noise is what the model leaves out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from heft.arrays import Array
from heft.information import AXES
from heft.models import Actuators, FreeFlyer
from heft.recordings import Recording

from .attitude import FLAT_ORDERS, flat_attitude, flat_jacobian, times
from .free_body import BodyMotion, FreeBody
from .plant import Channel, Coordinate, Inputs, Measured, Rows, Samples, Sides

RANK = 1e-9  # share of the largest singular value of A below which nothing pushes


@dataclass(frozen=True, eq=False)
class Combinations:
    """Equations of a body under actuators, combined so that their noise is independent."""

    matrix: Array  # T, shape (6, 6): rows are `T Y`, and what is measured `T A u`
    measured: Array  # T A, shape (6, n), zero where nothing pushes
    channels: tuple[Channel, ...]  # six

    @staticmethod
    def of(actuators: Actuators) -> Combinations:
        """Return the combinations of actuators' equations."""
        A, count = actuators.mixing, len(actuators)
        directions, size, _ = np.linalg.svd(A)
        rank = int(np.sum(size > RANK * size[0]))
        still = directions[:, rank:].T
        if rank == count:
            pushed = np.linalg.pinv(A)
            channels = [Channel(name, "N") for name in actuators.names]
        else:
            noise = actuators.noise if actuators.noise.all() else np.ones(count)
            usual = float(np.exp(np.mean(np.log(noise))))
            values, vectors = np.linalg.eigh((A * (noise / usual) ** 2) @ A.T)
            own = values[-rank:], vectors[:, -rank:]
            pushed = (own[1] / np.sqrt(own[0])).T
            channels = [Channel(f"thrust {k + 1}", "N", "thrust") for k in range(rank)]
        channels += [Channel(f"unpushed {k + 1}", "N", "unpushed") for k in range(len(still))]
        matrix = np.vstack((pushed, still))
        measured = matrix @ A
        measured[rank:] = 0.0
        measured[np.abs(measured) < RANK * np.abs(measured).max()] = 0.0
        return Combinations(matrix, measured, tuple(channels))


@dataclass(frozen=True, eq=False)
class FreeFlyerPlant(FreeBody):
    """A free-flying body whose actuators' commands are logged; see the module.

    `FreeFlyerPlant.of(flyer)` makes one. A logged command holds until the next sample: its middle
    is half a sample later than its time, so the delay of what is measured is minus that.
    """

    actuators: Actuators | None = None  # what pushes it

    @staticmethod
    def of(flyer: FreeFlyer, motion_from: Literal["pose", "imu"] = "pose") -> FreeFlyerPlant:
        """Return the plant of a body."""
        x, y, z = (float(g) for g in flyer.gravity)
        name, ten = flyer.name, flyer.nominal
        if flyer.actuators.pushes_all_ways:
            return FreeFlyerPlant(name, motion_from, (x, y, z), ten, flyer.actuators)
        return FlatFlyerPlant(name, motion_from, (x, y, z), ten, flyer.actuators)

    @cached_property
    def combinations(self) -> Combinations:
        """Combinations of the equations whose noise is independent."""
        assert self.actuators is not None
        return Combinations.of(self.actuators)

    @property
    def channels(self) -> tuple[Channel, ...]:
        """Actuators, or combinations of theirs."""
        return self.combinations.channels

    def inputs(self, recording: Recording, measured: bool = True) -> Inputs:
        """Return pose or inertial signals, and the commands."""
        motion = FreeBody.inputs(self, recording, measured=False).motion
        assert self.actuators is not None
        if not measured:
            return Inputs(motion)
        for name in self.actuators.signals:
            recording.require(name, f"is a command to what pushes '{self.frame}'")
        commands = []
        for k, factors in enumerate(self.combinations.measured):
            terms = zip(self.actuators.signals, factors.tolist(), strict=True)
            kept = tuple((name, factor) for name, factor in terms if factor != 0.0)
            commands.append(Measured(k, kept or ((self.actuators.signals[0], 0.0),)))
        return Inputs(motion, tuple(commands))

    def rows(self, samples: Samples[BodyMotion], columns: Sequence[int]) -> Rows:
        """Return rows `T Y`, shape (N, 6, columns) [N per unit of the column]."""
        return Rows(self.combinations.matrix @ FreeBody.rows(self, samples, columns).regressor)

    def sides(self, samples: Samples[BodyMotion], columns: Sequence[int]) -> Sides:
        """Return momentum and remainder of the combined equations, (N, 6, columns) each."""
        made, T = FreeBody.sides(self, samples, columns), self.combinations.matrix
        return Sides(T @ made.momentum, T @ made.remainder)

    def pull_back(
        self, samples: Samples[Any], columns: Sequence[int], seeds: Array
    ) -> tuple[Array, Array, Array]:
        """Return the gradients of Σ S·Y by q, v and a, each of shape (N, 6); see `Excitable`."""
        return FreeBody.pull_back(self, samples, columns, self.combinations.matrix.T @ seeds)


@dataclass(frozen=True, eq=False)
class FlatMotion(BodyMotion):
    """Motion of a body by position and yaw."""

    flat: Array  # x, y, z, ψ and their first four derivatives, shape (N, 5, 4)


@dataclass(frozen=True, eq=False)
class FlatFlyerPlant(FreeFlyerPlant):
    """A body that pushes along its own z only: it is designed in position and yaw.

    Its attitude follows from how it accelerates; see `flat_attitude`.
    """

    @property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """Position of the origin in the world, then yaw."""
        return (*(Coordinate(a, "m") for a in AXES), Coordinate("yaw", "rad"))

    @property
    def derivatives(self) -> int:
        """Four: ω follows from the position's third derivative, α from the fourth."""
        return FLAT_ORDERS - 1

    def samples_at(self, q: Array, v: Array, a: Array, *more: Array) -> Samples[BodyMotion]:
        """Return samples of a motion; see `Excitable`.

        Args:
            q: Position and yaw, shape (N, 4) [m, rad].
            more: Their third and fourth derivatives, shape (N, 4) each.
        """
        flat, g = (q, v, a, *more), np.asarray(self.gravity)
        R, w, alpha = flat_attitude(flat, g)
        back = np.swapaxes(R, 1, 2)
        inside, specific = times(back, v[:, :3]), times(back, a[:, :3] - g)
        rest = np.cross(w, inside) + specific - times(back, a[:, :3])
        motion = FlatMotion(specific, w, alpha, inside, rest, np.stack(flat, axis=1))
        return Samples.of_motion(motion, len(q), len(self.channels))

    def pull_back(  # type: ignore[override]
        self, samples: Samples[FlatMotion], columns: Sequence[int], seeds: Array
    ) -> tuple[Array, ...]:
        """Return the gradients of Σ S·Y by q and its derivatives, each of shape (N, 4)."""
        m = samples.motion
        mixed = self.combinations.matrix.T @ seeds
        by = self.pulled_to_motion(m, columns, mixed)
        flat = [m.flat[:, k] for k in range(FLAT_ORDERS)]
        slopes = flat_jacobian(flat, np.asarray(self.gravity))
        made = sum(
            np.einsum("oknj,nj->onk", slope, each) for slope, each in zip(slopes, by, strict=True)
        )
        return tuple(np.asarray(made))
