"""Motion that follows from torque: forward dynamics, with friction that sticks and slips.

    M(q) a = τ − h(q, v) − Σ_d r_d (viscous w + offset + F sign w),     w = r_d · v

over the drives d, whose ratios r_d say how fast they turn with each channel; their rotors are
part of M, Coriolis forces and weight are h. Between two switches every drive with Coulomb
friction F either slips one way, and its sign is a constant, or sticks, and is held: then w = 0
exactly, and what holds it follows from the motion of the others. A solver of smooth equations
sees smooth equations only, and nothing chatters. A drive that comes to rest sticks, or turns
round, by Gauss's principle of least constraint [Gauss1829; Moreau1966]: the friction f of all
drives at rest makes `‖τ − h − Σ r_d f_d‖` in the metric of M⁻¹ least, within |f_d| ≤ F_d.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
import scipy.integrate
import scipy.linalg
import scipy.optimize
from numpy.typing import NDArray

from heft.arrays import Array, read_only
from heft.dynamics import body_poses, kernels
from heft.errors import InvalidModel, InvalidSetting, SolverFailure, nearest
from heft.information import PARAMETER_COUNT
from heft.models import Robot
from heft.recordings import Recording

Effort = Callable[[float, Array, Array], Array]  # of time, positions, velocities
KINDS = ("armature", "viscous", "coulomb", "offset")
METHODS = ("DOP853", "RK45", "Radau", "BDF", "LSODA")
LOOKS = 8  # times a step at which switches are looked for
STILL = 1e-10  # [rad/s or m/s] against its direction at which a slipping drive has stopped
LOOSE = 1.0 + 1e-10  # of Coulomb friction: more than that does not hold
ROUNDING = 1e-9  # of a holding time
MOST_AT_ONCE = 100  # switches that may follow one another in no time


@dataclass(frozen=True, eq=False)
class Dynamics:
    """A robot all of whose parameters are known.

    Attributes:
        robot: With a fixed base.
        bodies: Ten parameters a body, shape (10 bodies,), as `Robot.written_bodies` returns.
        drives: By name, such as `elbow.coulomb`; of `KINDS`, what is missing counts as zero.

    Raises:
        InvalidModel: If the base floats, or a body's numbers are missing.
        InvalidSetting: If a drive's parameter is unknown, negative or not finite.
    """

    robot: Robot
    bodies: Array
    drives: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.robot.tree.free_base:
            raise InvalidModel("a floating base is not simulated", argument='base = "free"')
        bodies = read_only(self.bodies)
        if bodies.shape != (PARAMETER_COUNT * len(self.robot.tree.names),):
            raise InvalidModel(
                "ten parameters a body are expected",
                argument="bodies",
                got=f"shape {bodies.shape}",
                expected=f"({PARAMETER_COUNT * len(self.robot.tree.names)},)",
            )
        object.__setattr__(self, "bodies", bodies)
        valid = [f"{d.name}.{kind}" for d in self.robot.drives for kind in KINDS]
        for name, value in self.drives.items():
            if name not in valid:
                near = nearest(name, valid)
                raise InvalidSetting(
                    f"the robot has no '{name}' that could be simulated",
                    argument="drives",
                    valid=valid,
                    cure=f"did you mean '{near}'?" if near else None,
                )
            if not math.isfinite(value) or (value < 0.0 and not name.endswith(".offset")):
                raise InvalidSetting(
                    "a number of a drive cannot be", argument=name, got=value, expected="0 or more"
                )

    @staticmethod
    def of(robot: Robot, drives: Mapping[str, float] | None = None) -> Dynamics:
        """Return the dynamics of a robot as its model file has it, with these drives."""
        return Dynamics(robot, robot.written_bodies(), drives or {})

    @cached_property
    def ratios(self) -> Array:
        """Speed of each drive per speed of each channel, shape (drives, channels)."""
        return np.array([d.ratio for d in self.robot.drives])

    def of_drives(self, kind: str) -> Array:
        """Return a parameter of each drive, shape (drives,)."""
        return np.array([self.drives.get(f"{d.name}.{kind}", 0.0) for d in self.robot.drives])

    @cached_property
    def coulomb(self) -> Array:
        """F of each drive, shape (drives,) [N·m or N]."""
        return self.of_drives("coulomb")

    @cached_property
    def _smooth(self) -> tuple[Array, Array]:
        return self.of_drives("viscous"), self.of_drives("offset")

    @cached_property
    def _rotors(self) -> Array:
        return np.asarray((self.ratios.T * self.of_drives("armature")) @ self.ratios)

    def equation(self, position: Array, velocity: Array) -> tuple[Array, Array]:
        """Return M, shape (channels, channels), and h = C v + g, shape (channels,).

        `M @ a + h == inverse_dynamics(q, v, a)`, rotors included, without friction.
        """
        count = len(position)
        q, v = (np.tile(x, (count + 1, 1)) for x in (position, velocity))
        a = np.vstack([np.zeros(count), np.eye(count)])
        motion = kernels.motion_of(self.robot.tree, self.robot.gravity, q, v, a)
        efforts = kernels.inverse_dynamics(self.robot.tree, motion, self.bodies)
        return efforts[:, 1:] - efforts[:, :1] + self._rotors, efforts[:, 0]

    def friction(self, speed: Array, signs: Array) -> Array:
        """Return what friction takes of drives that slip, shape (drives,) [N·m or N].

        Args:
            speed: w, shape (drives,).
            signs: Of the speeds, or what stands for them, shape (drives,).
        """
        viscous, offset = self._smooth
        return np.asarray(viscous * speed + offset + self.coulomb * signs)

    def energies(self, position: Array, velocity: Array) -> tuple[Array, Array]:
        """Return kinetic and potential energy, each of shape (N,) [J].

        Args:
            position: Shape (N, channels).
            velocity: Shape (N, channels).
        """
        tree, gravity, still = self.robot.tree, self.robot.gravity, np.zeros_like(velocity)

        def efforts(a: Array) -> Array:
            motion = kernels.motion_of(tree, gravity, position, still, a)
            return kernels.inverse_dynamics(tree, motion, self.bodies)

        momentum = (efforts(velocity) - efforts(still)).T + velocity @ self._rotors
        tens = self.bodies.reshape(-1, PARAMETER_COUNT)
        places = body_poses(tree, position)[:, :, :3]
        moments = np.einsum("nbij,bj->ni", places, np.column_stack([tens[:, 1:4], tens[:, 0]]))
        return 0.5 * np.sum(velocity * momentum, axis=1), -moments @ gravity


@dataclass(frozen=True, eq=False)
class Trajectory:
    """A simulated motion.

    Attributes:
        joints: Names of the channels.
        time: Shape (N,) [s].
        position: q, shape (N, channels) [rad or m].
        velocity: v, shape (N, channels).
        acceleration: a, shape (N, channels).
        effort: τ of the actuators, shape (N, channels) [N·m or N].
        kinetic: Energy of motion, shape (N,) [J].
        potential: Energy of height, shape (N,) [J].
        actuated: Work of the actuators since the start, shape (N,) [J].
        dissipated: Work lost to friction since the start, shape (N,) [J].
        switches: When drives began to stick or to slip, shape (switches,) [s].
    """

    joints: tuple[str, ...]
    time: Array
    position: Array
    velocity: Array
    acceleration: Array
    effort: Array
    kinetic: Array
    potential: Array
    actuated: Array
    dissipated: Array
    switches: Array

    @property
    def drift(self) -> Array:
        """Energy that came from nowhere since the start, shape (N,) [J]: the solver's error."""
        held = self.kinetic + self.potential + self.dissipated - self.actuated
        return np.asarray(held - held[0])

    def log(self) -> dict[str, Array]:
        """Return the canonical log: `t`, `q.<joint>`, `tau.<joint>`; `numpy.savez` writes it."""
        signals = (("q", self.position), ("tau", self.effort))
        columns = {f"{k}.{j}": x[:, n] for k, x in signals for n, j in enumerate(self.joints)}
        return {"t": self.time, **columns}

    def recording(self, name: str = "simulation") -> Recording:
        """Return positions and efforts as a recording."""
        q, tau = (dict(zip(self.joints, x.T, strict=True)) for x in (self.position, self.effort))
        return Recording.from_arrays(self.time, name, q=q, tau=tau)


@dataclass(frozen=True)
class Simulate:
    """How motion is integrated.

    Attributes:
        method: One of scipy's solvers, `METHODS`; Radau, BDF and LSODA for stiff motion.
        relative: Error a step, relative to the motion.
        absolute: The same in rad or m, and per s.
        smooth: Speed s of the law `F tanh(w/s)` in place of the sign [rad/s or m/s]: a drive at
            rest then creeps. By events if not given.
        longest: Step [s].
        hold: How long an effort is held, from the start on, as a digital controller does [s]; it
            follows time and motion at every instant if not given.
    """

    method: Literal["DOP853", "RK45", "Radau", "BDF", "LSODA"] = "DOP853"
    relative: float = 1e-10
    absolute: float = 1e-12
    smooth: float | None = None
    longest: float = math.inf
    hold: float | None = None

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            near = nearest(self.method, METHODS)
            raise InvalidSetting(
                "this solver is not known",
                argument="method",
                got=self.method,
                valid=METHODS,
                cure=f"did you mean '{near}'?" if near else None,
            )
        for name in ("relative", "absolute", "smooth", "longest", "hold"):
            value = getattr(self, name)
            if value is not None and not value > 0.0:
                raise InvalidSetting("a positive number is expected", argument=name, got=value)

    def run(
        self,
        dynamics: Dynamics,
        time: Array,
        effort: Effort | None = None,
        position: Array | Sequence[float] | None = None,
        velocity: Array | Sequence[float] | None = None,
    ) -> Trajectory:
        """Return the motion at some times.

        Args:
            dynamics: What moves.
            time: When it is looked at, the start first, strictly increasing, shape (N,) [s].
            effort: Of the actuators on each channel, `(t, q, v) → τ`; none if not given.
            position: At the start, shape (channels,); zero if not given.
            velocity: Likewise.

        Raises:
            InvalidSetting: If times, start or efforts are not such.
            InvalidModel: If something that moves has no mass.
            SolverFailure: If the solver gives up.
        """
        time = _times(time)
        count = len(dynamics.robot.channels)
        start = [_start(x, count, n) for x, n in ((position, "position"), (velocity, "velocity"))]
        _require_mass(dynamics, *start)
        motion = _Motion(dynamics, effort or (lambda t, q, v: np.zeros(count)), self.smooth)
        _start(motion.effort(float(time[0]), *start), count, "effort")
        states, accelerations, efforts, switches = self._walked(motion, time, np.concatenate(start))
        q, v, works = np.split(states, [count, 2 * count], axis=1)
        kinetic, potential = dynamics.energies(q, v)
        return Trajectory(
            joints=dynamics.robot.channels,
            time=time,
            position=q,
            velocity=v,
            acceleration=accelerations,
            effort=efforts,
            kinetic=kinetic,
            potential=potential,
            actuated=works[:, 0],
            dissipated=works[:, 1],
            switches=np.array(switches),
        )

    def _walked(
        self, motion: _Motion, time: Array, start: Array
    ) -> tuple[Array, Array, Array, list[float]]:
        """Return states, accelerations and efforts at the times, and when drives switched."""
        t, end = float(time[0]), float(time[-1])
        state = np.append(start, np.zeros(2 + len(start) // 2))
        modes = motion.directions(state)
        looked: list[tuple[Array, Array, Array]] = []
        switches: list[float] = []
        edges, early = [end], 0.0
        if self.hold is not None:
            early = ROUNDING * self.hold  # an edge that is all but a time looked at is that time
            steps = math.ceil((end - t - early) / self.hold)
            edges = [*(t + self.hold * np.arange(1, steps)).tolist(), end]
        for edge in edges:
            piece = motion if self.hold is None else motion.held(t, state)
            modes = piece.decide(t, state, modes)
            for span in self._spans(piece, t, state, edge, modes):
                # What is looked at on an edge belongs to the effort that begins there.
                until = math.inf if span.end == end else min(span.end, edge - early)
                for at in time[len(looked) :][: np.searchsorted(time[len(looked) :], until)]:
                    there = span.between(at)
                    looked.append((there, *piece.solved(at, there, span.modes)[:2]))
                switches += [span.end] if span.switched else []
                t, state, modes = span.end, span.state, span.following
        states, accelerations, efforts = (np.array(x) for x in zip(*looked, strict=True))
        return states, accelerations, efforts, switches

    def _spans(
        self, motion: _Motion, t: float, state: Array, end: float, modes: Array
    ) -> Iterator[_Span]:
        """Yield the motion step by step; a step ends where a drive switches."""
        stood = 0
        while t < end:
            solver = self._solver(motion, t, state, end, modes)
            switch = None
            while switch is None and solver.status == "running":
                self._step(solver)
                between = solver.dense_output()
                switch = motion.switch(solver.t_old, solver.t, between, modes)
                if switch is None:
                    yield _Span(solver.t, between, modes, solver.y, modes, False)
            if switch is None:
                return
            stood = stood + 1 if switch == t else 0
            if stood > MOST_AT_ONCE:
                raise SolverFailure("friction switches without end", got=f"at {t:g} s")
            t, before = switch, modes
            state, modes = motion.switched(t, between(t), before)
            yield _Span(t, between, before, state, modes, True)

    def _solver(
        self, motion: _Motion, t: float, state: Array, end: float, modes: Array
    ) -> scipy.integrate.OdeSolver:
        return getattr(scipy.integrate, self.method)(
            lambda t, y: motion.rate(t, y, modes),
            t,
            state,
            end,
            rtol=self.relative,
            atol=self.absolute,
            max_step=self.longest,
            # A controller's step is as a rule one of the solver's; groping for that takes longer.
            first_step=None if self.hold is None else min(end - t, self.longest),
        )

    def _step(self, solver: scipy.integrate.OdeSolver) -> None:
        problem = solver.step()
        if solver.status == "failed":
            raise SolverFailure(
                "the motion cannot be followed further",
                argument=self.method,
                got=f"{problem} at {solver.t:g} s",
                cure="look at the efforts; for stiff friction take method='Radau'",
            )


@dataclass(frozen=True, eq=False)
class _Span:
    """A piece of motion, and what it ends with.

    Attributes:
        end: When [s].
        between: Returns the state at a time of the piece.
        modes: Of the piece.
        state: At the end.
        following: Modes behind the end.
        switched: Whether a drive began to stick or to slip at the end.
    """

    end: float
    between: Callable[[float], Array]
    modes: Array
    state: Array
    following: Array
    switched: bool


@dataclass(frozen=True, eq=False)
class _Motion:
    """The equations of motion.

    A state is q, v, the works of actuators and friction, and ∫τ dt: where all sticks it is the
    effort alone that a solver's steps must follow. Modes say of each drive whether it
    slips one way or the other, +1 or −1, or sticks or has no Coulomb friction, 0.
    """

    dynamics: Dynamics
    effort: Effort
    smooth: float | None

    @cached_property
    def rubbing(self) -> NDArray[np.bool_]:
        """Which drives stick and slip."""
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
        """Return q and v."""
        count = self.dynamics.ratios.shape[1]
        return state[:count], state[count : 2 * count]

    def directions(self, state: Array) -> Array:
        """Return which way drives slip that move, 0 for those at rest."""
        speed = self.dynamics.ratios @ self.parts(state)[1]
        return np.where(self.rubbing, np.sign(speed), 0.0)

    def free(self, modes: Array) -> Array:
        """Return Z with `v = Z u` for the velocities that stuck drives allow."""
        return _allowed(self.dynamics.ratios[self.rubbing & (modes == 0)])

    def solved(self, t: float, state: Array, modes: Array) -> tuple[Array, Array, Array, Array]:
        """Return a, τ, friction of slipping drives, and what is left to those that stick."""
        q, v = self.parts(state)
        tau = np.asarray(self.effort(t, q, v), dtype=float)
        mass, bias = self.dynamics.equation(q, v)
        speed = self.dynamics.ratios @ v
        signs = modes if self.smooth is None else np.tanh(speed / self.smooth)
        friction = self.dynamics.friction(speed, signs)
        force = tau - bias - friction @ self.dynamics.ratios
        Z = self.free(modes)
        a = Z @ np.linalg.solve(Z.T @ mass @ Z, Z.T @ force)
        return a, tau, friction, force - mass @ a

    def rate(self, t: float, state: Array, modes: Array) -> Array:
        """Return the derivative of a state."""
        v = self.parts(state)[1]
        a, tau, friction, _ = self.solved(t, state, modes)
        return np.concatenate([v, a, [tau @ v, friction @ self.dynamics.ratios @ v], tau])

    def held(self, t: float, state: Array) -> _Motion:
        """Return the same with the effort of this instant for good."""
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
        """Return when the first drive stops or breaks away within a step, if one does."""
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
        """Return state and modes behind a switch: what stopped is still, to the last bit."""
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
        friction = self.dynamics.friction(self.dynamics.ratios @ v, modes)
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


def _times(time: Array) -> Array:
    time = read_only(time)
    if time.ndim != 1 or len(time) < 2 or not (np.diff(time) > 0.0).all():
        raise InvalidSetting(
            "times are to increase",
            argument="time",
            got=f"shape {time.shape}",
            expected="2 or more",
        )
    return time


def _start(values: Array | Sequence[float] | None, count: int, name: str) -> Array:
    """Return one number a channel, zero if not given."""
    start = np.zeros(count) if values is None else np.array(values, dtype=float)
    if start.shape != (count,) or not np.isfinite(start).all():
        raise InvalidSetting(
            "one finite number a joint is expected",
            argument=name,
            got=f"shape {start.shape}",
            expected=f"({count},)",
        )
    return start


def _require_mass(dynamics: Dynamics, position: Array, velocity: Array) -> None:
    mass, _ = dynamics.equation(position, velocity)
    if not np.linalg.eigvalsh(mass)[0] > 0.0:
        raise InvalidModel(
            "something that moves has no mass",
            argument=dynamics.robot.name,
            cure="give every moving link an inertial, or its drive an armature",
        )
