"""Coulomb friction by events: between two of them each drive sticks, or slips one way.

Equations are smooth between events; when one comes, and what sticks behind it, is found here. See
`forward_dynamics` for the law.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
import scipy.linalg
import scipy.optimize
from numpy.typing import NDArray

from heft.arrays import Array, read_only
from heft.errors import InvalidSetting

from .equation_of_motion import Dynamics

Effort = Callable[[float, Array, Array], Array]  # of time, positions, velocities
LOOKS = 8  # times a step at which switches are looked for
STILL = 1e-10  # [rad/s or m/s] against its direction at which a slipping drive has stopped
LOOSE = 1.0 + 1e-10  # share of the Coulomb friction above which a stuck drive breaks away


@dataclass(frozen=True, eq=False)
class Motion:
    """Motion of a robot whose drives stick and slip.

    A state vector, shape (3 channels + 2,), contains q, v, the work of actuators and of friction
    [J], and ∫τ dt: where all drives stick the solver's step size must still follow the effort.
    Modes, shape (drives,), are +1 or −1 where a drive slips forwards or backwards, 0 where it
    sticks or has no Coulomb friction. Times are in s.
    """

    dynamics: Dynamics  # robot with known parameters
    effort: Effort  # of the actuators on each channel, `(t, q, v) → τ`
    smooth: float | None  # speed s of the law `F tanh(w/s)` in place of the sign; by events if None

    @cached_property
    def rubbing(self) -> NDArray[np.bool_]:
        """Drives with Coulomb friction by events, shape (drives,).

        Raises:
            InvalidSetting: If the ratios of these drives are linearly dependent.
        """
        if self.smooth is not None:
            return np.zeros(len(self.dynamics.ratios), dtype=bool)
        rubbing = self.dynamics.coulomb > 0.0
        if np.linalg.matrix_rank(self.dynamics.ratios[rubbing]) < np.count_nonzero(rubbing):
            raise InvalidSetting(
                "more drives have Coulomb friction than can move by themselves",
                argument="drives",
                cure="give it to the joints or to the motors, or take a smooth law (smooth)",
            )
        return rubbing

    def parts(self, state: Array) -> tuple[Array, Array]:
        """Return q and v of a state, each of shape (channels,)."""
        count = self.dynamics.ratios.shape[1]
        return state[:count], state[count : 2 * count]

    def directions(self, state: Array) -> Array:
        """Return the sign of each drive's speed, 0 at rest, shape (drives,)."""
        speed = self.dynamics.ratios @ self.parts(state)[1]
        return np.where(self.rubbing, np.sign(speed), 0.0)

    def free(self, modes: Array) -> Array:
        """Return a basis Z of the velocities v = Z u with stuck drives at rest.

        Shape (channels, free).
        """
        return _allowed(self.dynamics.ratios[self.rubbing & (modes == 0)])

    def solved(self, t: float, state: Array, modes: Array) -> tuple[Array, Array, Array, Array]:
        """Return acceleration, effort, friction of slipping drives and the force on stuck ones.

        Returns:
            a, τ, the friction by drive, shape (drives,), and `τ − h − friction − M a` that the
            stuck drives balance, the others each of shape (channels,) [N·m or N].
        """
        q, v = self.parts(state)
        tau = np.asarray(self.effort(t, q, v), dtype=float)
        mass, bias = self.dynamics.equation(q, v)
        speed = self.dynamics.ratios @ v
        signs = modes if self.smooth is None else np.tanh(speed / self.smooth)
        friction = self.dynamics.friction(self.dynamics.ratios @ q, speed, signs)
        force = tau - bias - friction @ self.dynamics.ratios
        Z = self.free(modes)
        a = Z @ np.linalg.solve(Z.T @ mass @ Z, Z.T @ force)
        return a, tau, friction, force - mass @ a

    def rate(self, t: float, state: Array, modes: Array) -> Array:
        """Return the time derivative of a state, of the same shape."""
        v = self.parts(state)[1]
        a, tau, friction, _ = self.solved(t, state, modes)
        return np.concatenate([v, a, [tau @ v, friction @ self.dynamics.ratios @ v], tau])

    def held(self, t: float, state: Array) -> Motion:
        """Return the motion with the effort held constant at its value of this instant."""
        tau = np.array(self.effort(t, *self.parts(state)), dtype=float)
        return replace(self, effort=lambda t, q, v: tau)

    def margins(self, t: float, state: Array, modes: Array) -> Array:
        """Return how far each drive is from a switch, negative beyond it, shape (drives,)."""
        margins = np.where(
            self.rubbing, modes * (self.dynamics.ratios @ self.parts(state)[1]) + STILL, np.inf
        )
        stuck = self.rubbing & (modes == 0)
        if stuck.any():
            left = self.solved(t, state, modes)[3]
            holding = np.linalg.lstsq(self.dynamics.ratios[stuck].T, left, rcond=None)[0]
            margins[stuck] = LOOSE * self.dynamics.coulomb[stuck] - np.abs(holding)
        return margins

    def switch(
        self, begin: float, end: float, between: Callable[[float], Array], modes: Array
    ) -> float | None:
        """Return when the first drive stops or breaks away within a step [s]; None if none does.

        Args:
            between: State at a time within the step.
        """
        if not self.rubbing.any():
            return None
        last = begin
        for t in np.linspace(begin, end, LOOKS + 1)[1:]:
            beyond = np.flatnonzero(self.margins(t, between(t), modes) < 0.0)
            if len(beyond):
                return min(self._root(d, last, t, between, modes) for d in beyond)
            last = t
        return None

    def _root(
        self,
        drive: np.intp,
        begin: float,
        end: float,
        between: Callable[[float], Array],
        modes: Array,
    ) -> float:
        def margin(t: float) -> float:
            return float(self.margins(t, between(t), modes)[drive])

        if margin(begin) <= 0.0:
            return begin
        return float(scipy.optimize.brentq(margin, begin, end, xtol=1e-15, rtol=1e-15))

    def switched(self, t: float, state: Array, modes: Array) -> tuple[Array, Array]:
        """Return state and modes after a switch: what stopped is still, to the last bit."""
        speed = self.dynamics.ratios @ self.parts(state)[1]
        at_rest = self.rubbing & (modes * speed <= 0.0)
        still = np.where(at_rest, 0, modes)
        Z = self.free(still)
        state = state.copy()
        v = self.parts(state)[1]
        v[:] = Z @ (Z.T @ v)
        return state, self.decide(t, state, still)

    def decide(self, t: float, state: Array, modes: Array) -> Array:
        """Return the modes with which drives at rest go on, by least constraint."""
        at_rest = self.rubbing & (modes == 0)
        if not at_rest.any():
            return modes
        q, v = self.parts(state)
        mass, bias = self.dynamics.equation(q, v)
        ratios = self.dynamics.ratios
        friction = self.dynamics.friction(ratios @ q, ratios @ v, modes)
        force = self.effort(t, q, v) - bias - friction @ self.dynamics.ratios
        L = np.linalg.cholesky(mass)
        columns = np.column_stack([self.dynamics.ratios[at_rest].T, force])
        scaled = scipy.linalg.solve_triangular(L, columns, lower=True)
        most = self.dynamics.coulomb[at_rest]
        found = scipy.optimize.lsq_linear(scaled[:, :-1], scaled[:, -1], (-most, most), "bvls")
        modes = modes.copy()
        modes[at_rest] = found.active_mask
        return modes


@lru_cache(maxsize=64)
def _basis(rows: tuple[tuple[float, ...], ...], count: int) -> Array:
    A = np.array(rows).reshape(-1, count)
    moved = np.flatnonzero(np.any(A != 0.0, axis=0))
    unit = np.eye(count)
    if len(moved) == len(A):  # joints of their own: what is held is exactly still
        return read_only(np.delete(unit, moved, axis=1))
    return read_only(scipy.linalg.null_space(A))


def _allowed(held: Array) -> Array:
    """Return an orthonormal basis of the velocities with `held @ v == 0`, shape (channels, any)."""
    return _basis(tuple(map(tuple, held.tolist())), held.shape[1])
