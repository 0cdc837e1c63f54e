"""Forward dynamics: motion from torque, with Coulomb friction that sticks and slips.

    M(q) a = τ − h(q, v) − Σ_d r_d (viscous w + offset + … + F sign w),     w = r_d · v

over the drives d, whose ratios r_d say how fast they turn with each channel; their rotors are
part of M, Coriolis forces and weight are h, and … are other terms of position and speed. Between
two switches every drive with Coulomb friction F either slips one way, and its sign is a constant,
or sticks, and is held: then w = 0
exactly, and what holds it follows from the motion of the others. A solver of smooth equations
sees smooth equations only, and nothing chatters. A drive that comes to rest sticks, or turns
round, by Gauss's principle of least constraint [Gauss1829; Moreau1966]: the friction f of all
drives at rest makes `‖τ − h − Σ r_d f_d‖` in the metric of M⁻¹ least, within |f_d| ≤ F_d.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.integrate

from heft.arrays import Array, read_only
from heft.errors import InvalidModel, InvalidSetting, SolverFailure, did_you_mean
from heft.recordings import Recording

from .equation_of_motion import Dynamics
from .stick_slip import Effort, Motion

METHODS = ("DOP853", "RK45", "Radau", "BDF", "LSODA")
ROUNDING = 1e-9  # of a holding time
MOST_AT_ONCE = 100  # switches that may follow one another in no time


@dataclass(frozen=True, eq=False)
class Trajectory:
    """A simulated motion: q, v and a with efforts and energies over time.

    Its `recording` is what an identification takes as a log.
    """

    joints: tuple[str, ...]  # names of the channels
    time: Array  # shape (N,) [s]
    position: Array  # q, shape (N, channels) [rad or m]
    velocity: Array  # v, shape (N, channels)
    acceleration: Array  # a, shape (N, channels)
    effort: Array  # τ of the actuators, shape (N, channels) [N·m or N]
    kinetic: Array  # energy of motion, shape (N,) [J]
    potential: Array  # energy of height, shape (N,) [J]
    actuated: Array  # work of the actuators since the start, shape (N,) [J]
    dissipated: Array  # work lost to friction since the start, shape (N,) [J]
    switches: Array  # when drives began to stick or to slip, shape (switches,) [s]
    held: bool = False  # whether each effort held until the next sample (zero-order hold)

    @property
    def drift(self) -> Array:
        """Violation of the energy balance since the start, the solver's error, shape (N,) [J]."""
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
    """Settings of forward dynamics: how motion is integrated from efforts.

    Use it for the motion of a robot whose drives stick and slip exactly; `Simulator` is for whole
    experiments with sensors and a controller.
    """

    # one of scipy's solvers, `METHODS`; Radau, BDF and LSODA for stiff motion
    method: Literal["DOP853", "RK45", "Radau", "BDF", "LSODA"] = "DOP853"
    relative: float = 1e-10  # error a step, relative to the motion
    absolute: float = 1e-12  # the same in rad or m, and per s
    # speed s of the law `F tanh(w/s)` in place of the sign [rad/s or m/s]: a drive at rest then
    # creeps. By events if not given
    smooth: float | None = None
    longest: float = math.inf  # step [s]
    # how long an effort is held, from the start on, as a digital controller does [s]; it follows
    # time and motion at every instant if not given
    hold: float | None = None

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise InvalidSetting(
                "this solver is not known",
                argument="method",
                got=self.method,
                valid=METHODS,
                cure=did_you_mean(self.method, METHODS),
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
            time: Times of the output, the start first, strictly increasing, shape (N,) [s].
            effort: Of the actuators on each channel, `(t, q, v) → τ`; none if not given.
            position: At the start, shape (channels,); zero if not given.
            velocity: At the start, shape (channels,); zero if not given.

        Raises:
            InvalidSetting: If times, start or efforts are not such.
            InvalidModel: If something that moves has no mass.
            SolverFailure: If the solver gives up.
        """
        time = _times(time)
        count = len(dynamics.robot.channels)
        start = [_start(x, count, n) for x, n in ((position, "position"), (velocity, "velocity"))]
        _require_mass(dynamics, *start)
        motion = Motion(dynamics, effort or (lambda t, q, v: np.zeros(count)), self.smooth)
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
            held=self.hold is not None,
        )

    def _walked(
        self, motion: Motion, time: Array, start: Array
    ) -> tuple[Array, Array, Array, list[float]]:
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
        self, motion: Motion, t: float, state: Array, end: float, modes: Array
    ) -> Iterator[_Span]:
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
        self, motion: Motion, t: float, state: Array, end: float, modes: Array
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
    end: float  # when [s]
    between: Callable[[float], Array]  # returns the state at a time of the piece
    modes: Array  # of the piece
    state: Array  # at the end
    following: Array  # modes behind the end
    switched: bool  # whether a drive began to stick or to slip at the end


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
