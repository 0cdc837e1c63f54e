"""What a held body weighs, from a wrench sensor and its motion.

Rows of a body (`wrench`) are made of windows of the weak form, or of poses at rest; whitened by
the noise; summed into one triangle. What the sensor adds is estimated beside the body where
the data can tell it, and reported: bias, its drift, a delay; a turned mounting, a tilted base and
gains where they are asked for. A body is consistent; what this motion cannot show has no number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.engine import one_blas_thread
from heft.errors import InvalidRecording, InvalidSetting, TooLittleData
from heft.estimators import PhysicallyConsistent
from heft.information import (
    AXES,
    PARAMETER_COUNT,
    Finding,
    ParameterSpace,
    Triangle,
    inertia,
    triangle_of,
)
from heft.plants import Held, Point, Unknowns, linearised, noise_covariance, whitened
from heft.signals import Windows, integrate

from .estimate import Weighed
from .log_checks import (
    LONGEST,
    is_still,
    notice,
    pieces,
    require_alike,
    require_usable,
    together,
)

Bias = Literal["none", "constant", "auto"]
TURNED = math.radians(5.0)  # a mounting that is worth a finding
REFUSED = math.radians(30.0)  # a mounting without which the answer is worth nothing
BETTER = 0.5  # of the residual's energy that must go for a mounting to count as turned
VISIBLE = 1e-5  # of the largest singular value: what is below is not seen
PRIOR = 1e-6  # effective samples: consistency, and nothing else
DRIFT_MOST = 5
SWEEPS = 6
STEPS = 10
LARGEST_SHIFT = 0.05  # [s]
UNSURE = math.radians(5.0)  # standard deviation of a tilt or a mounting that says nothing
SETTLED = 0.02  # standard deviations by which an estimate still moves when it is found
WEIGHED = 1e-3  # relative, of a mass that is known


@dataclass(frozen=True)
class Weigh:
    """How a body is weighed.

    Attributes:
        noise: Standard deviation of a sample's force [N] and moment [N·m]; found if not given.
        others: Rotation and translation of further sensors, whose wrenches were added.
        turning_noise: Of ω [rad/s].
        bias: `none`, `constant`, or `auto` for what the data ask for: one of each log's own, and
            a drift by the lowest power of time.
        delay: Whether a delay of the wrench is looked for where motion can show it.
        mounting: Whether the sensor may be mounted turned against the motion's frame.
        tilt: Whether gravity may point elsewhere than stated.
        gain_std: Standard deviation of each channel's gain, whose nominal value is one; gains are
            exact if it is not given.
        known_mass: Mass of the body, where gains are to be found [kg].
        window: Length of the weak form's windows [s].
        overlap: Share of its length that a window has in common with the next.
    """

    noise: tuple[float, float] | None = None
    others: tuple[tuple[Array, Array], ...] = ()
    turning_noise: float = 0.0
    bias: Bias = "auto"
    delay: bool = True
    mounting: bool = False
    tilt: bool = False
    gain_std: float | None = None
    known_mass: float | None = None
    window: float = 0.1
    overlap: float = 0.75

    def __post_init__(self) -> None:
        if self.known_mass is not None and self.gain_std is None:
            raise InvalidSetting(
                "a load of known mass tells a wrench sensor's gains, and they are held for exact",
                argument="known mass",
                cure="say gain_std = 0.02 in the sensor's table, for 2 %",
            )
        if self.gain_std is not None and self.others:
            raise InvalidSetting(
                "the gains of several sensors that hold one load are not told apart",
                argument="gain_std",
                cure="find each sensor's gains with a load that it holds alone",
            )

    def fit(self, *logs: Held) -> Weighed:
        """Return what the body weighs.

        Args:
            logs: What sensor and motion show; several are of one body, and their information adds.

        Raises:
            InvalidRecording: If the signals cannot be what they are said to be.
            TooLittleData: If not even the mass is seen.
        """
        with one_blas_thread():
            return self._fit(logs)

    def _fit(self, logs: Sequence[Held]) -> Weighed:
        for log in logs:
            require_usable(log)
        require_alike(logs)
        held, starts = together(logs)
        if self.tilt and not held.world.shape[2]:
            raise InvalidSetting(
                "an inertial sensor feels gravity itself: no stated direction could be wrong",
                argument="tilt",
                cure="leave tilt out, or take the motion from poses or joints",
            )
        findings = [found for log in logs for found in notice(log)]
        unknowns = Unknowns(
            bias=self.bias != "none",
            begin=float(held.time[0]),
            end=_end(held.time),
            gains=self.gain_std is not None,
        )
        problem = _Problem(held, is_still(held), unknowns, Point.of(held.gravity))
        problem, solution = self._settled(problem)
        if self.mounting:
            problem = self._mounted(problem, solution)
        for kind in ("mounting", "tilt"):
            if getattr(self, kind):
                problem, solution = self._looked_for(problem, kind, findings)
        if not self.mounting:
            findings += self._seems_turned(problem, solution)
        if self.bias == "auto":
            problem, solution = self._drifting(problem, solution, starts)
        if self.delay and not problem.still:
            problem, solution = self._late(problem, solution)
        if problem.unknowns.drift:
            findings.append(_drift_finding(problem.unknowns, solution))
        elif problem.unknowns.cuts:
            findings.append(_apart_finding(problem.unknowns, solution))
        return self._weighed(problem, solution, findings)

    def _rows(self, problem: _Problem) -> tuple[Array, Array, float]:
        """Return Y, w, and the variance of a row over that of a sample."""
        held, unknowns, point = problem.held, problem.unknowns, problem.point
        if problem.still:
            resting = replace(held, angular_velocity=np.zeros_like(held.specific))
            samples = linearised(resting, unknowns, point)
            return -samples.remainder, samples.effort, 1.0
        if point.delay:
            held = replace(held, wrench=_shifted(held.time, held.wrench, point.delay))
        step = float(np.median(np.diff(held.time)))
        windows = Windows(self.window, (1.0 - self.overlap) * self.window, 1)
        made = []
        for piece in pieces(held, step):
            rows = integrate(windows, linearised(piece, unknowns, point, self.turning_noise))
            made.append((rows.regressor, rows.effort))
        regressor = np.concatenate([r for r, _ in made])
        wrench = np.concatenate([w for _, w in made])
        # Windows overlap: together they know no more than each sample once.
        return regressor, wrench, step / windows.stride

    def _told(self, unknowns: Unknowns, point: Point) -> Array:
        """Return rows of what is known beforehand: gains near one, and a mass."""
        rows = np.zeros((6 * unknowns.gains + (self.known_mass is not None), len(unknowns.labels)))
        known = np.zeros(len(rows))
        if self.gain_std is not None:
            rows[:6, unknowns.columns("gain")] = np.eye(6) / self.gain_std
            known[:6] = (1.0 - point.gains) / self.gain_std
        if self.known_mass is not None:
            rows[-1, 0], known[-1] = 1.0 / (WEIGHED * self.known_mass), 1.0 / WEIGHED
        return np.column_stack([rows, known])

    def _solve(self, problem: _Problem) -> _Solution:
        """Return least squares about a point."""
        unknowns = problem.unknowns
        regressor, wrench, share = self._rows(problem)
        if len(wrench) * 6 < len(unknowns.labels):
            kind = "poses" if problem.still else f"windows of {self.window:g} s"
            raise TooLittleData(
                "the log is too short to weigh anything",
                got=f"{len(wrench)} {kind}",
                expected=f"{len(unknowns.labels)} unknowns need more",
                cure="record longer",
            )
        told = self._told(unknowns, problem.point)
        noise = np.array(self.noise if self.noise is not None else (1.0, 1.0))
        independent = len(wrench) * (1.0 if problem.still else self.overlapping)

        def summed() -> Array:
            covariance = share * noise_covariance(float(noise[0]), float(noise[1]), self.others)
            return triangle_of(np.vstack([whitened(regressor, wrench, covariance), told]))

        for _ in range(1 if self.noise is not None else SWEEPS):
            factor = summed()
            values = _least(factor)
            left = wrench - regressor @ values
            if self.noise is None:
                # Parameters are shared by both groups; so is the freedom they take.
                freedom = max(1.0 - _rank(factor) / (6.0 * independent), 1e-3)
                found = [np.mean(left[:, :3] ** 2), np.mean(left[:, 3:] ** 2)]
                own = share * independent / len(wrench)  # of one row, whatever others it overlaps
                scale = np.sqrt(np.array(found, dtype=np.float64) / (own * freedom))
                least = 1e-9 * float(np.sqrt(np.mean(wrench**2, axis=0)).max())
                noise = np.maximum(scale, least)
        factor = summed()
        return _Solution(
            factor, _least(factor), (float(noise[0]), float(noise[1])), left, wrench, independent
        )

    def _settled(self, problem: _Problem) -> tuple[_Problem, _Solution]:
        """Return the solution where it stays what it is linearised about."""
        for _ in range(STEPS):
            solution = self._solve(problem)
            moved = problem.point.moved(problem.unknowns, solution.values)
            if problem.unknowns.linear:
                return replace(problem, point=moved), solution
            change = moved.whole(problem.unknowns, solution.values)
            change -= problem.point.whole(problem.unknowns, solution.values)
            change[:PARAMETER_COUNT] = moved.body - problem.point.body
            if np.all(np.abs(change) <= SETTLED * np.sqrt(np.diag(solution.covariance))):
                break
            problem = replace(problem, point=moved)
        return problem, solution

    @property
    def overlapping(self) -> float:
        """How many independent windows one of the overlapping windows is worth."""
        return min(1.0, 1.5 * (1.0 - self.overlap))

    def _drifting(
        self, problem: _Problem, solution: _Solution, starts: tuple[float, ...]
    ) -> tuple[_Problem, _Solution]:
        """Return the lowest power of time beyond which drift explains nothing more.

        Of several logs each has its own bias and drift, or all have one bias.
        """
        best, least = (problem, solution), solution.criterion
        misses = 0
        for drift in range(0 if starts else 1, DRIFT_MOST + 1):
            asked = replace(problem.unknowns, drift=drift, cuts=starts)
            tried = replace(problem, unknowns=asked)
            if len(tried.unknowns.labels) * 3 > 6 * solution.independent:
                break
            found = self._solve(tried)
            if found.criterion < least:
                best, least, misses = (tried, found), found.criterion, 0
            else:
                misses += 1
            if misses == 2:
                break
        problem, solution = best
        return best if problem.unknowns.linear else self._settled(problem)

    def _late(self, problem: _Problem, solution: _Solution) -> tuple[_Problem, _Solution]:
        """Return the solution with a delay, where the data tell one within half a sample."""
        step = float(np.median(np.diff(problem.held.time)))
        asked, found = self._settled(problem.asking(delay=True))
        delay = asked.point.delay + float(found.values[-1])
        std = float(np.sqrt(found.covariance[-1, -1]))
        if abs(delay) > LARGEST_SHIFT or not std < max(step, 2e-3):
            return problem, solution
        return asked, found

    def _looked_for(
        self, problem: _Problem, kind: str, findings: list[Finding]
    ) -> tuple[_Problem, _Solution]:
        """Return the solution with `mounting` or `tilt`, where the data tell it."""
        asked, found = self._settled(problem.asking(**{kind: True}))
        columns = asked.unknowns.columns(kind)
        std = np.sqrt(np.diag(found.covariance))[columns]
        if found.seen[columns].all() and found.seen[0] and std.max() < UNSURE:
            return asked, found
        what = {"mounting": "the sensor's mounting", "tilt": "the direction of gravity"}[kind]
        findings.append(
            Finding(
                "not seen",
                f"{what}: this motion does not show it, and it is taken as stated. Turn the "
                "sensor about all axes",
            )
        )
        return problem, self._solve(problem)

    def _mounted(self, problem: _Problem, solution: _Solution) -> _Problem:
        """Return the problem about the mounting that explains most, if one explains much."""
        turned, gain = self._turned(problem, solution)
        if gain < BETTER and _angle(turned) > TURNED:
            return replace(problem, point=replace(problem.point, rotation=turned))
        return problem

    def _seems_turned(self, problem: _Problem, solution: _Solution) -> list[Finding]:
        """Return what is to be said of a mounting that was not asked for, or refuse it."""
        turned, gain = self._turned(problem, solution)
        angle = _angle(turned)
        if gain >= BETTER or angle <= TURNED:
            return []
        if angle > REFUSED:
            raise InvalidRecording(
                "the sensor's axes are turned against the motion's",
                argument="force",
                got=f"{math.degrees(angle):.0f}°: so turned, {100.0 * (1.0 - gain):.0f}% less "
                "force is left over",
                cure=f"say rotation = {_written(turned)} in the sensor's table, or --mounting",
            )
        return [_mounting_finding(turned, angle, gain)]

    def _turned(self, problem: _Problem, solution: _Solution) -> tuple[Array, float]:
        """Return the mounting that explains most, and what energy it leaves of the residual's.

        Force is mass times specific force, so the rotation between the two is that of
        Procrustes [Schönemann1966]; few poses in one direction show none.
        """
        regressor, wrench, _ = self._rows(problem)
        seen = regressor[:, :3, 0] - np.mean(regressor[:, :3, 0], axis=0)
        force = wrench[:, :3] - np.mean(wrench[:, :3], axis=0)
        U, sizes, Vt = np.linalg.svd(seen.T @ force)
        if sizes[1] < 0.05 * sizes[0]:
            return np.eye(3), 1.0
        turned = U @ np.diag([1.0, 1.0, float(np.sign(np.linalg.det(U @ Vt)))]) @ Vt
        other = self._solve(replace(problem, point=replace(problem.point, rotation=turned)))
        before, after = (float(np.sum(s.left[:, :3] ** 2)) for s in (solution, other))
        return turned, after / before if before > 0.0 else 1.0

    def _weighed(self, problem: _Problem, solution: _Solution, findings: list[Finding]) -> Weighed:
        unknowns, still = problem.unknowns, problem.still
        point = problem.point.moved(unknowns, solution.values)
        seen = solution.seen[:PARAMETER_COUNT]
        values, covariance = solution.values.copy(), solution.covariance
        if not seen[0]:
            raise TooLittleData(
                "the mass is not seen: the sensor was held in one direction only"
                if still
                else "the mass is not seen in this motion",
                got=f"{solution.left.shape[0]} rows",
                cure="turn the sensor against gravity, in three directions at least, or state "
                "that its bias is zero",
            )
        std = math.sqrt(covariance[0, 0])
        if values[0] < -5.0 * std:
            raise InvalidRecording(
                "the load weighs less than nothing",
                argument="force",
                got=f"{values[0]:.4g} ± {std:.2g} kg",
                cure='the sensor tells the force on itself: say reports = "on_sensor" (or '
                '"on_load" where that is said already); or the pose is turned: quat has w first, '
                "and takes the frame to the world",
            )
        if values[0] < 2.0 * std:
            findings.append(
                Finding(
                    "no load", f"the mass is {values[0]:.4g} ± {std:.2g} kg: none, or too light"
                )
            )
        reach = float(np.linalg.norm(values[1:4])) / max(abs(values[0]), 1e-9)
        if values[0] > 5.0 * std and reach > LONGEST:
            raise InvalidRecording(
                "the centre of mass would be farther away than anything that is held",
                argument="torque",
                got=f"{reach:.4g} m from the sensor",
                expected=f"within {LONGEST:g} m",
                cure="see that forces and moments are of one sensor and in N and N·m",
            )
        consistent = True
        if seen.all():
            values, consistent = self._consistent(unknowns, solution)
            if not consistent:
                findings.append(
                    Finding(
                        "no body",
                        "the plain solution is no body that can exist; the nearest one is given. "
                        "Move more, in more directions",
                    )
                )
        else:
            names = ", ".join(n for n, s in zip(inertia.SYMBOLS, seen, strict=True) if not s)
            why = "poses at rest show no inertia" if still else "this motion does not show them"
            findings.append(Finding("not seen", f"{names}: {why}"))
            values[:PARAMETER_COUNT][~seen] = np.nan
        if unknowns.gains and self.known_mass is None:
            findings.append(
                Finding(
                    "not seen",
                    "the gain that all axes of force share: a heavier load looks the same, and the "
                    "deviation of the mass says so. A load of known mass tells it (--known-mass)",
                )
            )
        wrench, left = solution.wrench, solution.left
        spread = wrench - wrench.mean(axis=0)
        shares = [
            float(np.linalg.norm(left[:, g])) / max(float(np.linalg.norm(spread[:, g])), 1e-300)
            for g in (slice(0, 3), slice(3, 6))
        ]
        gravity = point.gravity if unknowns.tilt else None
        gravity_std = None
        if unknowns.tilt:
            columns, slope = unknowns.columns("tilt"), np.cross(point.axes, point.gravity)
            spread = slope.T @ covariance[columns, columns] @ slope
            gravity_std = np.sqrt(np.diag(spread))
        return Weighed(
            unknowns.labels,
            point.whole(unknowns, values),
            covariance,
            seen,
            consistent,
            solution.noise,
            (shares[0], shares[1]),
            len(wrench),
            point.rotation,
            gravity,
            gravity_std,
            tuple(findings),
        )

    def _consistent(self, unknowns: Unknowns, solution: _Solution) -> tuple[Array, bool]:
        """Return the consistent values nearest in the data's metric, and if nothing moved."""
        ten = solution.values[:PARAMETER_COUNT]
        if ten[0] > 0.0 and inertia.consistency_margin(ten) > 0.0:
            return solution.values.copy(), True
        mass = max(float(ten[0]), 1e-3)
        guess = inertia.from_body(mass, ten[1:4] / mass, 0.05**2 * mass * np.eye(3))
        nominal = np.append(guess, np.zeros(len(unknowns.labels) - PARAMETER_COUNT))
        triangle = Triangle(np.arange(len(nominal)), solution.factor, len(solution.wrench))
        fit = PhysicallyConsistent(strength=PRIOR, margin=1e-6)
        found = fit.fit(triangle, ParameterSpace.of_one_body(unknowns.labels, nominal))
        return np.array(found.parameters.values), False


@dataclass(frozen=True, eq=False)
class _Problem:
    """What is solved.

    Attributes:
        held: What sensor and motion show.
        still: Whether that is poses at rest.
        unknowns: What is looked for.
        point: Where it is linearised.
    """

    held: Held
    still: bool
    unknowns: Unknowns
    point: Point

    def asking(self, **kinds: Any) -> _Problem:
        """Return the problem with more, or fewer, unknowns."""
        return replace(self, unknowns=replace(self.unknowns, **kinds))


@dataclass(frozen=True, eq=False)
class _Solution:
    """Least squares, and what it left."""

    factor: Array
    values: Array
    noise: tuple[float, float]
    left: Array
    wrench: Array
    independent: float

    @cached_property
    def _decomposed(self) -> tuple[Array, Array, Array]:
        return _scaled(self.factor)

    @cached_property
    def seen(self) -> NDArray[np.bool_]:
        """Which parameters no unseen direction holds a part of."""
        _, values, Vt = self._decomposed
        unseen = Vt[values <= VISIBLE * values[0]]
        return np.asarray(np.all(np.abs(unseen) < 1e-3, axis=0))

    @cached_property
    def covariance(self) -> Array:
        """Of the values; of what is not seen, its seen part alone."""
        scale, values, Vt = self._decomposed
        kept = values > VISIBLE * values[0]
        root = (Vt[kept].T / values[kept]) / scale[:, None]
        return np.asarray(root @ root.T)

    @property
    def criterion(self) -> float:
        """Twice the negative logarithm of the likelihood, and the price of the parameters.

        Of each channel its own noise, n log rss, and log n a parameter [Schwarz1978].
        """
        energy = np.maximum(np.mean(self.left**2, axis=0), 1e-300)
        count = self.independent
        return float(count * np.sum(np.log(energy)) + len(self.values) * math.log(6.0 * count))


def _scaled(factor: Array) -> tuple[Array, Array, Array]:
    R = factor[:-1, :-1]
    scale = np.linalg.norm(R, axis=0)
    scale = np.where(scale > 0.0, scale, 1.0)
    _, values, Vt = np.linalg.svd(R / scale)
    return scale, values, Vt


def _rank(factor: Array) -> int:
    _, values, _ = _scaled(factor)
    return int(np.sum(values > VISIBLE * values[0]))


def _least(factor: Array) -> Array:
    """Return the least-squares solution, the shortest where there are many."""
    scale, values, Vt = _scaled(factor)
    kept = values > VISIBLE * values[0]
    # R = U S Vt scale, so Uᵀz = S⁻¹ (R Vtᵀ)ᵀ z.
    coefficients = (Vt[kept] @ ((factor[:-1, :-1] / scale).T @ factor[:-1, -1])) / values[kept] ** 2
    return np.asarray((Vt[kept].T @ coefficients) / scale)


def _end(time: Array) -> float:
    return float(time[-1]) if time[-1] > time[0] else float(time[0]) + 1.0


def _angle(rotation: Array) -> float:
    return float(math.acos(np.clip(0.5 * (np.trace(rotation) - 1.0), -1.0, 1.0)))


def _shifted(time: Array, wrench: Array, delay: float) -> Array:
    """Return the wrench that belongs to each time, told so much later."""
    return np.stack([np.interp(time + delay, time, c) for c in wrench.T], axis=1)


def _mounting_finding(turned: Array, angle: float, gain: float) -> Finding:
    return Finding(
        "turned",
        f"the sensor's axes seem turned by {math.degrees(angle):.1f}° against the motion's: so "
        f"turned, {100.0 * (1.0 - gain):.0f}% less force is left over. If it is so, say "
        f"rotation = {_written(turned)}, or --mounting",
    )


def _written(rotation: Array) -> str:
    return "[" + ", ".join("[" + ", ".join(f"{x:.4f}" for x in row) + "]" for row in rotation) + "]"


def _range_of_bias(unknowns: Unknowns, solution: _Solution) -> Array:
    """Return how far each channel's bias goes, shape (6,) [N, N·m]."""
    time = np.linspace(unknowns.begin, unknowns.end, 101 * (len(unknowns.cuts) + 1))
    powers = unknowns.powers(time)
    bias = solution.values[PARAMETER_COUNT : PARAMETER_COUNT + 6 * powers.shape[1]]
    return np.asarray(np.ptp(powers @ bias.reshape(-1, 6), axis=0))


def _apart_finding(unknowns: Unknowns, solution: _Solution) -> Finding:
    range_ = _range_of_bias(unknowns, solution)
    worst = int(np.argmax(range_[:3]))
    return Finding(
        "drift",
        f"the sensor's bias differs from log to log: by {range_[worst]:.3g} N in {AXES[worst]}, "
        f"moments by up to {range_[3:].max():.2g} N·m; each log has its own",
    )


def _drift_finding(unknowns: Unknowns, solution: _Solution) -> Finding:
    range_ = _range_of_bias(unknowns, solution)
    worst = int(np.argmax(range_[:3]))
    return Finding(
        "drift",
        f"the sensor's bias drifts: by {range_[worst]:.3g} N in {AXES[worst]}, moments by up to "
        f"{range_[3:].max():.2g} N·m; it is modelled by powers of time up to "
        f"{unknowns.drift}. Zero the sensor once it is warm",
    )
