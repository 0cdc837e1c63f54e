"""A servo told by position and goal alone: its loop is closed in simulation, and fitted.

What the firmware gives is not logged, so it is simulated: `duty = clip(P (goal − q), ±1)`, D and I
of the error as the bench states them (a sum begins with a stretch, and while torque is on). The
arm follows from short stretches' first states, each a start of its own. Sensitivities are those of
the very steps, by complex steps of 1e-20 in each number, which difference nothing [Squire1998].
Dry friction is `F (1 + static exp(−(w/w_s)²))`, and holds what moves slower than it slows down in
a step: where a servo sticks decides where it stays. The arm's torque takes
`τ (1 + warmth ΔT + sag |τ|)` of the drive's, of the |τ| of the step before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import FitError, InvalidRecording, InvalidSetting, MissingSignal

from .bench import QUANTITIES, Bench, ServoLog

STEP = 0.004  # [s]
LENGTH = 1.0  # [s] of a stretch
EVERY = 5  # steps between positions that are compared
IMAGINARY = 1e-20
FASTEST = 500.0  # [rad/s²], of arms that a friction of their own acceleration would let swing
NAMES = tuple(QUANTITIES)
SIGNED = np.array([name in ("offset", "delay") for name in NAMES])


@dataclass(frozen=True, eq=False)
class Stretches:
    """Stretches of logs, side by side, at steps of `STEP`."""

    # position and goal [rad], 1 where the torque is on, supply [V], shape (4, stretches, N)
    signals: Array
    gain: Array  # duty per rad, shape (stretches,)
    begin: Array  # position and speed at the begin, shape (2, stretches) [rad, rad/s]
    warmer: Array  # than `warmth` is counted from, shape (stretches,) [K]

    @staticmethod
    def of(
        logs: Sequence[ServoLog], bench: Bench, length: float, temperature: float = np.nan
    ) -> Stretches:
        """Cut logs into stretches of a length [s]; what is left over at a log's end is left out.

        Args:
            temperature: From which `warmth` is counted [°C]; NaN where none is.

        Raises:
            InvalidSetting: If the bench does not state the firmware's gain.
            MissingSignal: If a log has no goal.
            InvalidRecording: If no log is so long.
        """
        names = ", ".join(log.name for log in logs[:3])
        if bench.gain is None:
            raise InvalidSetting(
                "where the duty is not logged the firmware's gain must be stated: position and "
                "goal tell A times the gain",
                argument=names,
                cure="write gain = … into the bench's TOML: duty per rad of error, per unit of the "
                "logs' kp if they state it, 0.002877 of a Dynamixel XL330; or log the duty",
            )
        signals, gains, begins, warmer = [], [], [], []
        for log in logs:
            if log.goal is None:
                raise MissingSignal("of logs without duty all must hold the goal", argument=names)
            t = log.time
            # [s], over which a first state is looked at
            near = max(0.06, 2.5 * float(np.median(np.diff(t))))
            rows = np.stack([log.position, log.goal, log.on, log.supply])
            for begin in np.arange(t[0], t[-1] - length + STEP, length):
                grid, own = begin + STEP * np.arange(int(length / STEP)), np.abs(t - begin) <= near
                signals.append([np.interp(grid, t, x) for x in rows])
                gains.append(bench.gain * (1.0 if np.isnan(log.gain) else log.gain))
                warmer.append(np.nan_to_num(log.temperature - temperature))
                begins.append(np.polyfit(t[own] - begin, log.position[own], 2)[:0:-1])
        if not gains:
            raise InvalidRecording(
                f"no log is as long as {length:g} s", argument=names, cure="give longer logs"
            )
        made = np.moveaxis(np.array(signals), 0, 1)
        return Stretches(made, np.array(gains), np.array(begins).T, np.array(warmer))

    def part(self, chosen: slice | NDArray[np.bool_]) -> Stretches:
        """Return some of the stretches."""
        own = self.gain[chosen], self.begin[:, chosen], self.warmer[chosen]
        return Stretches(self.signals[:, chosen], *own)


def followed(values: Array, s: Stretches, bench: Bench) -> tuple[Array, Array]:
    """Return positions [rad] and duties of simulated stretches, (sets, stretches, N) each.

    Args:
        values: Sets of the numbers `NAMES`, shape (sets, 11), may be complex.
    """
    A, B, viscous, armature, coulomb, load, static, sag, offset, warmth, delay = values.T[
        :, :, None
    ]
    q, v = (np.broadcast_to(x, (len(values), len(s.gain))).astype(complex) for x in s.begin)
    a = np.zeros_like(q)
    _, goal, on, supply = s.signals
    places, duties = np.empty((2, *q.shape, goal.shape[1]), dtype=complex)
    total, rate = np.zeros_like(q), np.gradient(goal, STEP, axis=1)
    for k in range(goal.shape[1]):
        error = goal[:, k] - delay * rate[:, k] - q
        total = (total + STEP * error) * on[:, k]
        duty = s.gain * error + bench.d_gain * (rate[:, k] - v) + bench.i_gain * total
        duty = np.where(np.abs(duty.real) > 1.0, np.sign(duty.real), duty) * on[:, k]
        places[:, :, k], duties[:, :, k] = q, duty
        pull = bench.moment * np.sin(q)
        arm = bench.inertia * a + pull
        size = arm * np.sign(arm.real)
        dry, more = coulomb + load * size, 1.0 + warmth * s.warmer * on[:, k] + sag * size
        share = STEP / (bench.inertia * more + armature)
        drive = A * supply[:, k] * duty - offset - pull * more
        damping = B * on[:, k] + viscous
        # What friction may take of a step's speed, it takes at most all of: then the servo sticks.
        rubs = share * dry * (1.0 + static * np.exp(-((v / 0.15) ** 2)))  # w_s
        free = v + share * drive
        slides = np.abs(free.real) > rubs.real
        w = slides * (free - rubs * np.sign(free.real)) / (1.0 + share * damping)
        a = (w - v) / STEP
        a = np.where(np.abs(a.real) > FASTEST, FASTEST * np.sign(a.real), a)
        q, v = q + STEP * w, w
    return places, duties


def fitted(
    logs: Sequence[ServoLog], bench: Bench, released: bool
) -> tuple[Array, Array, NDArray[np.bool_], float]:
    """Return the numbers `NAMES`, their covariance, which are fitted, and the mean error [rad].

    The covariance is that of stretches' scores, with half the difference of the fits of either half
    of the stretches added. Without torque-off rows viscous friction holds B, which then is zero, as
    warmth is of logs alike.

    Raises:
        InputError: If the bench states no gain, or logs are too short.
        FitError: If the stretches are fewer than the numbers.
    """
    warm = np.array([log.temperature for log in logs])
    stretches = Stretches.of(logs, bench, LENGTH, float(np.mean(warm)))
    count, fixed = len(stretches.gain), set() if released else {"B"}
    fixed |= set() if np.ptp(warm) > 3.0 else {"warmth"}  # [K]
    free = np.array([name not in fixed for name in NAMES])
    if count < 2 * np.count_nonzero(free):
        raise FitError(
            "position and goal tell too little",
            got=f"{count} stretches of {LENGTH:g} s",
            expected=f"{2 * np.count_nonzero(free)}, twice as many as numbers",
            cure="record longer, or log the duty",
        )
    position, goal, on, supply = stretches.signals
    given = np.clip(stretches.gain[:, None] * (goal - position), -1.0, 1.0) * on * supply
    A = float(np.sum(bench.moment * np.sin(position) * given) / np.sum(given**2))
    rubs, slows = 0.02 * bench.moment, 0.4 * A
    viscous = 0.1 * slows if released else slows
    bends = 0.1 / bench.moment
    sizes = [A, slows, viscous, 0.3 * bench.inertia, rubs, 0.2, 0.2, bends, rubs, 0.01, 0.005]
    scale = np.array(sizes) * free
    first = np.where(SIGNED, 0.0, scale)
    values = _descended(first, free, scale, stretches, bench)
    halves = [
        _descended(values, free, scale, stretches.part(half), bench)
        for half in (slice(None, count // 2), slice(count // 2, None))
    ]
    slope, error = _linearised(values, scale, stretches, bench)
    scores = np.einsum("snp,sn->sp", slope, error)
    bread = np.linalg.pinv(np.einsum("snp,snq->pq", slope, slope))
    spread = bread @ (scores.T @ scores) @ bread * count / (count - np.count_nonzero(free))
    half_difference = (halves[0] - halves[1]) / 2.0
    covariance = spread * np.outer(scale, scale) + np.outer(half_difference, half_difference)
    return values, covariance, free, float(np.mean(np.abs(error)))


def _linearised(values: Array, scale: Array, s: Stretches, bench: Bench) -> tuple[Array, Array]:
    """Return ∂q/∂(values/scale), shape (stretches, n, 11), and errors of positions, (…, n)."""
    sets = np.vstack([values, values + 1j * IMAGINARY * np.diag(scale)])
    places = followed(sets, s, bench)[0][:, :, ::EVERY]
    error = s.signals[0, :, ::EVERY] - places[0].real
    return np.moveaxis(places[1:].imag / IMAGINARY, 0, -1), error


def _descended(
    values: Array, free: NDArray[np.bool_], scale: Array, s: Stretches, bench: Bench
) -> Array:
    """Return the numbers of least squares from given ones on, none but the offset negative."""
    from scipy.optimize import least_squares

    def full(x: Array) -> Array:
        made = np.zeros(len(values))
        made[free] = x * scale[free]
        return made

    def errors(x: Array) -> Array:
        return np.asarray(-_linearised(full(x), scale, s, bench)[1].ravel())

    def slopes(x: Array) -> Array:
        return _linearised(full(x), scale, s, bench)[0].reshape(-1, len(values))[:, free]

    lower = np.where(SIGNED, -np.inf, 0.0)[free]
    begin = values[free] / scale[free]
    solution = least_squares(errors, begin, slopes, (lower, np.inf), ftol=1e-5)
    return full(solution.x)
