"""A flight as a system with states: its first path, and its linearisation for the smoother."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.dynamics import rigid_body
from heft.estimators import LinearisedLog
from heft.information import PARAMETER_COUNT, angular_velocity, inertia
from heft.models import Actuators, FreeFlyer

from .flight_log import FlightLog, filled, hold_times, late_thrust, pose_regressor
from .flight_noise import FlightNoise

LATE = 0.1  # standard deviation of how late commands act beyond what is stated [s]
Wrenches = tuple[Array, ...]  # mean, and what they move further: shape (N, 6) each
# Of the search for the likeliest noise:
MOST = 1500  # samples by which noise is told


@dataclass(frozen=True)
class FirstPath:
    """A first path of states, by local cubic polynomials over a window of poses [Savitzky1964]."""

    half: int = 7  # half of the window [samples]
    # distance from where the neighbours lead to, in multiples of the median distance, from which on
    # a sample is bridged
    outlier: float = 15.0
    position: float = 1.0  # standard deviation of the first position about the path [m]
    angle: float = 1.0  # of the first attitude [rad]
    velocity: float = 3.0  # of the first velocity [m/s]
    rate: float = 3.0  # of the first angular velocity [rad/s]

    def states(self, flight: FlightLog) -> Array:
        """Return a path of states, shape (N, 13)."""
        pose = np.hstack(filled(flight, self.outlier))
        smooth, rates, _ = local_polynomial(pose, self.half, float(np.median(flight.steps)))
        w = angular_velocity(smooth[:, 3:], rates[:, 3:])
        unit = smooth[:, 3:] / np.linalg.norm(smooth[:, 3:], axis=1, keepdims=True)
        return np.hstack([smooth[:, :3], unit, rates[:, :3], w])

    def parameters(self, flight: FlightLog, flyer: FreeFlyer) -> Array:
        """Return ten parameters to start from, by least squares of differentiated poses, (10,).

        The window is twice as wide as for the path, since accelerations are noisier; the wrench is
        smoothed alike. The nominal body where what comes out is none that can exist.
        """
        half, (Y, wrench, _) = 2 * self.half, self._rows(flight, flyer)
        scale = np.sqrt(np.diag(flyer.actuators.wrench_noise))
        scale = np.where(scale > 0.0, scale, np.inf)
        inner = slice(half, len(Y) - half)
        rows = (Y / scale[:, None])[inner].reshape(-1, Y.shape[2])
        solution: Array = np.asarray(
            np.linalg.lstsq(rows, (wrench / scale)[inner].ravel(), rcond=None)[0], dtype=np.float64
        )
        return solution if inertia.consistency_margin(solution) > 0.0 else flyer.nominal

    def held(self, flight: FlightLog, flyer: FreeFlyer) -> NDArray[np.bool_]:
        """Return where something else than the actuators held or pushed a body, shape (N,).

        There forces fall short of what mass and centre of mass explain elsewhere, by more than
        noise and drag do. The fit is by least absolute deviations, begun without what stands still
        under less thrust than the bare body weighs, which is on the ground.
        """
        half, (Y, wrench, v) = 2 * self.half, self._rows(flight, flyer)
        Y, force = Y[:, :3, :4], wrench[:, :3]
        usual = float(np.sqrt(np.mean(np.sum(force**2, axis=1))))
        weight = float(flyer.nominal[0] * np.linalg.norm(flyer.gravity))
        pushed = np.linalg.norm(force, axis=1)
        still = np.linalg.norm(v[:, :3], axis=1) < 0.05  # [m/s]
        ground = still & (pushed < (0.9 - 3.0 * flyer.scale_std) * weight)
        shares = np.where(ground, 0.0, 1.0)
        for _ in range(20):
            root = np.sqrt(shares)[:, None]
            values = np.linalg.lstsq(
                (Y * root[:, :, None]).reshape(-1, 4), (force * root).ravel(), rcond=None
            )[0]
            off = np.linalg.norm(force - Y @ values, axis=1)
            shares = np.where(ground, 0.0, 1.0 / np.maximum(off, 1e-3 * usual))
        off[:half], off[-half:] = 0.0, 0.0  # polynomials know no better there
        # Medians, or a share of the usual force, below which drag acts and nothing else.
        limit = max(10.0 * float(np.median(off[~ground])), 0.35 * usual)
        wide = np.ones(2 * half + 1)
        return np.asarray(np.convolve(ground | (off > limit), wide, mode="same") > 0.5)

    def _rows(self, flight: FlightLog, flyer: FreeFlyer) -> tuple[Array, Array, Array]:
        """Return regressor, wrench and rates of poses over a window that is twice as wide."""
        step, half = float(np.median(flight.steps)), 2 * self.half
        x, v, a = local_polynomial(np.hstack(filled(flight, self.outlier)), half, step)
        midway = 0.5 * (flight.wrench + np.roll(flight.wrench, 1, axis=0))  # as at the samples
        wrench = local_polynomial(midway, half, step)[0]
        return pose_regressor(x, v, a, flyer.gravity), wrench, v

    @property
    def covariance(self) -> Array:
        """Covariance of the first state's error, shape (12, 12)."""
        spread = (self.position, self.angle, self.velocity, self.rate)
        return np.diag(np.repeat(np.square(spread), 3))


def local_polynomial(values: Array, half: int, step: float) -> tuple[Array, Array, Array]:
    """Return signals and two derivatives by cubic polynomials over a window, shape (N, any).

    Args:
        half: Half of the window [samples].
    """
    reach = np.arange(-half, half + 1)
    basis = (reach[:, None] / half) ** np.arange(4)
    kernels = np.linalg.pinv(basis)[:3] * np.array([1.0, 1.0, 2.0])[:, None]
    kernels /= (half * step) ** np.arange(3)[:, None]
    count = len(values)
    # Beyond the ends the log goes on with its last slope, not with its last value.
    beyond = np.arange(1, half + 1)[:, None]
    before = values[0] + (values[0] - values[1]) * beyond[::-1]
    after = values[-1] + (values[-1] - values[-2]) * beyond
    long = np.vstack([before, values, after])
    out = np.zeros((3, *values.shape))
    for k, shift in enumerate(range(2 * half + 1)):
        out += kernels[:, k, None, None] * long[shift : shift + count]
    return out[0], out[1], out[2]


@dataclass(frozen=True, eq=False)
class FlightSteps:
    """A linearised log but for its noise; see `LinearisedLog`."""

    by_error: Array  # shape (N − 1, 12, 12)
    by_parameters: Array  # shape (N − 1, 12, p)
    defect: Array  # shape (N − 1, 12)
    by_wrench: Array  # shape (N − 1, 12, 6)
    unsure: Array  # covariance of wrenches beyond their noise, shape (N − 1, 6, 6)
    residual: Array  # shape (N, 6)
    prior: Array  # shape (any, p + 1)


@dataclass(frozen=True, eq=False)
class FlightSystem:
    """A flight as a system for the smoother: twelve errors of states, ten parameters.

    Two more say how the actuators, all alike, respond beyond what is stated of them: how much later
    in the mean [s], and by how much more the square of the response's width [s²]. So a delay, a lag
    and what lies between need not be told apart. Their priors are wide: `LATE`, and of the square
    of the width from a pure delay's, 0, to a pure lag's, the square of its mean, which are common:
    either is one deviation away.
    """

    flight: FlightLog  # the log
    actuators: Actuators  # what pushes
    gravity: Array  # in the world, shape (3,) [m/s²]
    start: Array  # covariance of the first state's error, shape (12, 12)
    noise: FlightNoise  # of poses, and of what pushes beside the actuators

    @staticmethod
    def of(flight: FlightLog, flyer: FreeFlyer, start: Array) -> FlightSystem:
        """Return the system of a flyer's log, its noise as stated."""
        stated = FlightNoise(flyer.pose.position, flyer.pose.angle)
        return FlightSystem(flight, flyer.actuators, flyer.gravity, start, stated)

    @property
    def variance(self) -> Array:
        """Variance of measured poses, infinite where they are missing, shape (N, 6)."""
        parts = (self.flight.position, self.flight.quaternion)
        # The sum of what is not finite is not finite.
        measured = np.repeat(np.stack([part.sum(axis=1) for part in parts], axis=1), 3, axis=1)
        return np.where(np.isfinite(measured), self.noise.measured, np.inf)

    def linearised(self, path: Array, values: Array, variance: Array) -> LinearisedLog:
        """Return the log linearised about a path and parameters; see `estimators.System`."""
        return self.with_noise(self.steps_about(path, values), variance)

    def steps_about(self, path: Array, values: Array) -> FlightSteps:
        """Return the log linearised about a path and parameters, but for its noise."""
        steps, wrench = self.flight.steps, self.flight.wrench
        body, more = values[:PARAMETER_COUNT], values[PARAMETER_COUNT:]
        unsure = self.flight.unsure
        if len(more):
            (wrench, further), slopes = self._late(more)
            unsure = self._followed(unsure, *more)[0]
        t = rigid_body.transitions(path[:-1], wrench[:-1], steps, body, self.gravity)
        by_parameters, after, prior = t.by_parameters, t.after, np.empty((0, len(values) + 1))
        if len(more):
            # What moves a body without speed does so as its rate would, by the step's length.
            by_moved = np.zeros(t.by_wrench.shape)
            by_moved[:, :6] = t.by_wrench[:, 6:] / steps[:, None, None]
            after = self.moved(after, np.einsum("nij,nj->ni", by_moved, further[:-1]))
            by_more = [
                np.einsum("nij,nj->ni", t.by_wrench, by_mean[:-1])
                + np.einsum("nij,nj->ni", by_moved, by_further[:-1])
                for by_mean, by_further in slopes
            ]
            by_parameters = np.concatenate([by_parameters, np.stack(by_more, axis=2)], axis=2)
            prior = self._prior(more)
        mixing = self.actuators.mixing
        more_noise = np.einsum("ik,nk,jk->nij", mixing, np.maximum(unsure[:-1], 0.0), mixing)
        held = np.flatnonzero(self.flight.held[:-1] | self.flight.held[1:])
        more_noise[held] += np.diag(self.flight.most**2)
        parts = (t.by_error, by_parameters, rigid_body.difference(after, path[1:]))
        return FlightSteps(*parts, t.by_wrench, more_noise, self.residual(path), prior)

    def with_noise(self, steps: FlightSteps, variance: Array) -> LinearisedLog:
        """Return a linearised log with the noise of poses and wrenches."""
        own = self.actuators.wrench_noise + np.diag(
            np.repeat(np.square([self.noise.force, self.noise.moment]), 3)
        )
        # A body that is not pushed in some direction has no noise there.
        own = own + 1e-12 * np.trace(own) * np.eye(6) + steps.unsure
        process = steps.by_wrench @ own @ np.swapaxes(steps.by_wrench, 1, 2)
        log = LinearisedLog(
            steps.by_error, steps.by_parameters, steps.defect, process, steps.residual, variance,
            self.start, steps.prior,
        )  # fmt: skip
        return self.noise.of_state(log, self.flight.steps)

    def _followed(self, commands: Array, later: float, wider: float) -> Wrenches:
        """Return what actuators make of commands: the mean, and what it moves further."""
        width = np.sqrt(np.maximum(self.actuators.lag**2 + wider, 0.0))
        late = self.actuators.lag + later - width
        return late_thrust(commands, hold_times(self.flight.time), width, late)

    def _late(self, more: Array) -> tuple[Wrenches, list[Wrenches]]:
        """Return wrenches and what they move further, of a response, and derivatives by it."""
        # differenced over a fifth
        lag, step = self.actuators.lag, 0.2 * float(np.median(self.flight.steps))

        def at(later: float, wider: float) -> Wrenches:
            made = self._followed(self.flight.commands, later, wider)
            return self.actuators.wrench(made[0]), self.actuators.wrench(made[1])

        # Narrower than no width at all, it goes on along its slope there.
        least = np.maximum(more, [-np.inf, -(np.min(lag) ** 2)])
        here = at(*least)
        # Commands that act at samples act later or earlier along other slopes: those of both sides.
        ends = ((0.5 * step, 0.0), (-0.5 * step, 0.0)), ((0.0, step**2), (0.0, 0.0))
        slopes = [
            tuple(
                (a - b) / sum(np.subtract(*d))
                for a, b in zip(*(at(*(least + e)) for e in d), strict=True)
            )
            for d in ends
        ]
        beyond = (more - least)[1]
        return tuple(a + beyond * s for a, s in zip(here, slopes[1], strict=True)), slopes

    def _prior(self, more: Array) -> Array:
        """Return rows [A b] of the response's prior about its present values, shape (2, 13)."""
        lag = self.actuators.lag
        square = float(np.mean(lag + more[0])) ** 2
        least = float(np.median(self.flight.steps)) ** 2 / 12.0  # of a command's own width
        middle = np.array([0.0, 0.5 * square - np.mean(lag**2)])
        spread = np.array([LATE, (square + least) / 2.0])
        rows = np.zeros((2, PARAMETER_COUNT + 3))
        rows[:, PARAMETER_COUNT:-1] = np.diag(1.0 / spread)
        rows[:, -1] = (middle - more) / spread
        return rows

    def residual(self, path: Array) -> Array:
        """Return measured poses less a path's, as pose errors, shape (N, 6) [m, rad]."""
        turned = rigid_body.turned(path[:, rigid_body.TURN], self.flight.quaternion)
        return np.hstack([self.flight.position - path[:, :3], turned])

    def moved(self, path: Array, errors: Array) -> Array:
        """Return a path with errors added to its states, shape (N, 13)."""
        states = errors[:, :12].copy()
        if errors.shape[1] > 12:  # coloured noise, which leads with the pose
            states[:, :6] -= errors[:, 12:]
        return rigid_body.retract(path, states)

    def allowed(self, values: Array, step: Array) -> Array:
        """Return a step after which no direction has lost most of its inertia."""
        now = rigid_body.mass_matrix(values[:PARAMETER_COUNT])
        for _ in range(10):
            then = rigid_body.mass_matrix((values + step)[:PARAMETER_COUNT])
            if np.linalg.eigvals(np.linalg.solve(now, then)).real.min() > 0.3:
                break
            step = 0.5 * step
        return step


def likely_noise(
    system: FlightSystem, path: Array, values: Array, variance: Array, coloured: bool
) -> FlightNoise:
    """Return the most likely noise of a log about a path and parameters.

    Args:
        variance: Infinite for measurements that do not count, shape (N, 6).
        coloured: Whether noise of poses may be other than white.
    """
    from scipy.optimize import minimize

    cut = slice(max((len(path) - MOST) // 2, 0), None)
    cut = slice(cut.start, cut.start + MOST)
    part = replace(system, flight=system.flight.part(cut))
    seen = np.where(np.isfinite(variance[cut]), 0.0, np.inf)
    steps = part.steps_about(path[cut], values)
    own = np.sqrt(np.diag(system.actuators.wrench_noise).reshape(2, 3).mean(axis=1)) + 1e-12
    size = np.array([system.noise.position, system.noise.angle, *own])

    def noise(x: Array) -> FlightNoise:
        position, angle, force, moment = size * np.exp(x[:4])
        colour = np.tanh(0.5 * x[4:])
        return FlightNoise(position, angle, (colour[0], colour[1]), force, moment)

    def unlikely(x: Array) -> float:
        trial = replace(part, noise=noise(x))
        innovations = trial.with_noise(steps, seen + trial.noise.measured).innovations()
        diagonal = np.diagonal(innovations.inverse, axis1=1, axis2=2)
        return float(0.5 * innovations.triangle.factor[-1, -1] ** 2 - np.sum(np.log(diagonal)))

    far = np.log(1e3)
    # 1e-2 is of what is stated; 8: noise that hangs together over some thousand samples.
    ends = [(np.log(1e-2), far)] * 4 + [(0.0, 8.0 * coloured)] * 2
    before = system.noise
    beside = np.log(np.maximum([before.force, before.moment], 0.1 * own) / own)
    colour = 2.0 * np.arctanh(before.colour) if any(before.colour) else np.full(2, float(coloured))
    start = np.array([0.0, 0.0, *beside, *colour])
    settings = {"maxiter": 15, "ftol": 1e-5, "eps": 1e-3}
    return noise(minimize(unlikely, start, method="L-BFGS-B", bounds=ends, options=settings).x)
