"""What a held body weighs, from a wrench sensor and its motion.

Rows of a body (`wrench`) are made of windows of the weak form, or of poses at rest; whitened by
the sensor's noise; summed into one triangle. What the sensor adds, bias, its drift, a delay, a
turned mounting, is estimated beside the body where the data can tell it, and reported. A body is
consistent; what this motion cannot show has no number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from . import inertia
from .consistency import PhysicallyConsistent
from .errors import InvalidRecording, TooLittleData
from .inertia import AXES, PARAMETER_COUNT, Array
from .information import Triangle, triangle_of
from .parameters import Labels
from .weak import Windows, integrate
from .wrench import (
    CHANNELS,
    GAP_STEPS,
    Held,
    Unknowns,
    at_rest,
    noise_covariance,
    sides,
    whitened,
)

Bias = Literal["none", "constant", "auto"]
STILL = 0.02  # [rad/s] below which nothing turns
FROZEN = 0.5  # [s] for which a noisy signal does not repeat itself
STUCK = 5  # samples in a row at a signal's extreme that make it a limit
LONGEST = 2.0  # [m] from a sensor to a centre of mass
TURNED = math.radians(5.0)  # a mounting that is worth a finding
REFUSED = math.radians(30.0)  # a mounting without which the answer is worth nothing
BETTER = 0.5  # of the residual's energy that must go for a mounting to count as turned
VISIBLE = 1e-5  # of the largest singular value: what is below is not seen
PRIOR = 1e-6  # effective samples: consistency, and nothing else
DRIFT_MOST = 5
SWEEPS = 6
LARGEST_SHIFT = 0.05  # [s]


@dataclass(frozen=True)
class Finding:
    """Something about the data that the user should know.

    Attributes:
        name: What.
        message: The evidence, and what to do.
    """

    name: str
    message: str


@dataclass(frozen=True, eq=False)
class Weighed:
    """A body as it was weighed.

    Attributes:
        labels: Of the values.
        values: The body's ten parameters about the sensor's origin, bias, drift, delay; the
            body's are NaN where nothing shows them.
        covariance: Of the values.
        seen: Which of the body's ten the data show, shape (10,).
        consistent: Whether the plain solution was a body; else it is the nearest in the
            data's own metric.
        noise: Standard deviation of force [N] and moment [N·m] of one sample.
        left: Residual over wrench, of force and moment.
        rows: Windows or poses.
        rotation: From the sensor's axes as logged to those of the motion, shape (3, 3).
        findings: What the user should know.
    """

    labels: Labels
    values: Array
    covariance: Array
    seen: NDArray[np.bool_]
    consistent: bool
    noise: tuple[float, float]
    left: tuple[float, float]
    rows: int
    rotation: Array
    findings: tuple[Finding, ...]

    @property
    def mass(self) -> float:
        """Mass [kg]."""
        return float(self.values[0])

    @property
    def com(self) -> Array:
        """Centre of mass in the sensor's frame, shape (3,) [m]."""
        return np.asarray(self.values[1:4] / self.values[0])

    @property
    def inertia(self) -> Array:
        """Inertia about the centre of mass, shape (3, 3) [kg·m²]; NaN where it is not seen."""
        return inertia.to_body(self.values[:PARAMETER_COUNT])[2]

    @cached_property
    def body(self) -> Array:
        """Mass, centre of mass, and Ixx, Ixy, Iyy, Ixz, Iyz, Izz about it, shape (10,)."""
        return _of_body(self.values[:PARAMETER_COUNT])

    @cached_property
    def body_std(self) -> Array:
        """Standard deviations of `body`, shape (10,); by the delta rule."""
        here = np.where(np.isnan(self.values[:PARAMETER_COUNT]), 0.0, self.values[:10])
        std = numbers(here, self.covariance[:10, :10])[1]
        return np.where(np.isnan(self.body), np.inf, std)

    @property
    def bias(self) -> Array | None:
        """Bias of the sensor, shape (6,) [N, N·m]: in the middle of the log, if it drifts."""
        names = self.labels.names
        if f"sensor.bias.{CHANNELS[0]}" not in names:
            return None
        first = names.index(f"sensor.bias.{CHANNELS[0]}")
        return self.values[first : first + 6]

    @property
    def delay(self) -> float | None:
        """By how much the wrench comes behind motion [s], if it was looked for."""
        return float(self.values[-1]) if self.labels.names[-1] == "sensor.delay" else None


def numbers(ten: Array, covariance: Array) -> tuple[Array, Array]:
    """Return mass, centre of mass and inertia about it, and their deviations by the delta rule.

    Args:
        ten: Parameters of a body about its frame's origin, shape (10,).
        covariance: Of them, shape (10, 10).

    Returns:
        Two arrays of shape (10,), ordered as `Weighed.body`.
    """
    step = 1e-7 * np.maximum(np.abs(ten), 1e-3)
    slope = np.stack(
        [
            (_of_body(ten + d) - _of_body(ten - d)) / (2.0 * d[k])
            for k, d in enumerate(np.diag(step))
        ],
        axis=1,
    )
    return _of_body(ten), np.sqrt(np.diag(slope @ covariance @ slope.T))


def _of_body(ten: Array) -> Array:
    mass, com, about = inertia.to_body(ten)
    return np.array([mass, *com, *(about[i, j] for i, j in inertia.INERTIA_INDEX)])


@dataclass(frozen=True)
class _OneBody:
    """A body and what a sensor adds, as the consistent estimate wants it."""

    labels: Labels
    nominal: Array

    @property
    def matrix(self) -> Array:
        return np.eye(len(self.labels))

    groups: tuple[int, ...] = (0,)
    nonnegative: tuple[int, ...] = ()


@dataclass(frozen=True)
class Weigh:
    """How a body is weighed.

    Attributes:
        noise: Standard deviation of a sample's force [N] and moment [N·m]; found if not given.
        others: Rotation and translation of further sensors, whose wrenches were added.
        turning_noise: Of ω [rad/s].
        bias: `none`, `constant`, or `auto` for a drift by the lowest power of time that the
            data ask for.
        delay: Whether a delay of the wrench is looked for where motion can show it.
        mounting: Whether the sensor may be mounted turned against the motion's frame.
        window: Length of the weak form's windows [s].
        overlap: Share of its length that a window has in common with the next.
    """

    noise: tuple[float, float] | None = None
    others: tuple[tuple[Array, Array], ...] = ()
    turning_noise: float = 0.0
    bias: Bias = "auto"
    delay: bool = True
    mounting: bool = False
    window: float = 0.1
    overlap: float = 0.75

    def fit(self, held: Held) -> Weighed:
        """Return what the body weighs.

        Args:
            held: What sensor and motion show.

        Raises:
            InvalidRecording: If the signals cannot be what they are said to be.
            TooLittleData: If not even the mass is seen.
        """
        require_usable(held)
        findings = list(notice(held))
        rotation = np.eye(3)
        unknowns = Unknowns(
            bias=self.bias != "none", begin=float(held.time[0]), end=_end(held.time)
        )
        still = is_still(held)
        solution = self._solve(held, unknowns, still)
        turned, gain = self._turned(held, unknowns, still, solution)
        angle = _angle(turned)
        if gain < BETTER and angle > TURNED:
            if not self.mounting and angle > REFUSED:
                raise InvalidRecording(
                    "the sensor's axes are turned against the motion's",
                    argument="force",
                    got=f"{math.degrees(angle):.0f}°: so turned, {100.0 * (1.0 - gain):.0f}% less "
                    "force is left over",
                    cure=f"say rotation = {_written(turned)} in the sensor's table, or --mounting",
                )
            if self.mounting:
                rotation = turned
                held = replace(held, wrench=_rotated(held.wrench, rotation))
                solution = self._solve(held, unknowns, still)
            else:
                findings.append(_mounting_finding(turned, angle, gain))
        if self.bias == "auto":
            unknowns, solution = self._drifting(held, unknowns, still, solution)
        if self.delay and not still:
            unknowns, solution, held = self._late(held, unknowns, solution)
        if unknowns.drift:
            findings.append(_drift_finding(unknowns, solution))
        return self._weighed(unknowns, solution, rotation, still, findings)

    def _rows(self, held: Held, unknowns: Unknowns, still: bool) -> tuple[Array, Array, float]:
        """Return Y, w, and the variance of a row over that of a sample."""
        if still:
            regressor, wrench = at_rest(held, unknowns)
            return regressor, wrench, 1.0
        step = float(np.median(np.diff(held.time)))
        windows = Windows(self.window, (1.0 - self.overlap) * self.window, 1)
        made = []
        for piece in pieces(held, step):
            rows = integrate(windows, sides(piece, unknowns, self.turning_noise))
            made.append((rows.regressor, rows.effort))
        regressor = np.concatenate([r for r, _ in made])
        wrench = np.concatenate([w for _, w in made])
        # Windows overlap: together they know no more than each sample once.
        return regressor, wrench, step / windows.stride

    def _solve(self, held: Held, unknowns: Unknowns, still: bool) -> _Solution:
        regressor, wrench, share = self._rows(held, unknowns, still)
        if len(wrench) * 6 < len(unknowns.labels):
            raise TooLittleData(
                "the log is too short to weigh anything",
                got=f"{len(wrench)} {'poses' if still else f'windows of {self.window:g} s'}",
                expected=f"{len(unknowns.labels)} unknowns need more",
                cure="record longer",
            )
        noise = np.array(self.noise if self.noise is not None else (1.0, 1.0))
        independent = len(wrench) * (1.0 if still else self.overlapping)
        for _ in range(1 if self.noise is not None else SWEEPS):
            covariance = share * noise_covariance(float(noise[0]), float(noise[1]), self.others)
            factor = triangle_of(whitened(regressor, wrench, covariance))
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
        covariance = share * noise_covariance(float(noise[0]), float(noise[1]), self.others)
        factor = triangle_of(whitened(regressor, wrench, covariance))
        return _Solution(
            factor, _least(factor), (float(noise[0]), float(noise[1])), left, wrench, independent
        )

    @property
    def overlapping(self) -> float:
        """How many independent windows one of the overlapping windows is worth."""
        return min(1.0, 1.5 * (1.0 - self.overlap))

    def _drifting(
        self, held: Held, unknowns: Unknowns, still: bool, solution: _Solution
    ) -> tuple[Unknowns, _Solution]:
        """Return the lowest power of time beyond which drift explains nothing more."""
        best, least = (unknowns, solution), solution.criterion
        misses = 0
        for drift in range(1, DRIFT_MOST + 1):
            tried = replace(unknowns, drift=drift)
            if len(tried.labels) * 3 > 6 * solution.independent:
                break
            found = self._solve(held, tried, still)
            if found.criterion < least:
                best, least, misses = (tried, found), found.criterion, 0
            else:
                misses += 1
            if misses == 2:
                break
        return best

    def _late(
        self, held: Held, unknowns: Unknowns, solution: _Solution
    ) -> tuple[Unknowns, _Solution, Held]:
        """Return the solution with a delay, where the data tell one within half a sample."""
        step = float(np.median(np.diff(held.time)))
        asked, total, moved = replace(unknowns, delay=True), 0.0, held
        for _ in range(SWEEPS):
            found = self._solve(moved, asked, False)
            change = float(found.values[-1])
            if not math.isfinite(change) or abs(total + change) > LARGEST_SHIFT:
                return unknowns, solution, held
            total += change
            moved = replace(held, wrench=_shifted(held.time, held.wrench, total))
            if abs(change) < 1e-2 * step:
                break
        std = float(np.sqrt(found.covariance[-1, -1]))
        if not std < max(step, 2e-3):
            return unknowns, solution, held
        values = found.values.copy()
        values[-1] = total
        return asked, replace(found, values=values), moved

    def _turned(
        self, held: Held, unknowns: Unknowns, still: bool, solution: _Solution
    ) -> tuple[Array, float]:
        """Return the mounting that explains most, and what energy it leaves of the residual's.

        Force is mass times specific force, so the rotation between the two is that of
        Procrustes [Schönemann1966]; few poses in one direction show none.
        """
        regressor, wrench, _ = self._rows(held, unknowns, still)
        seen = regressor[:, :3, 0] - np.mean(regressor[:, :3, 0], axis=0)
        force = wrench[:, :3] - np.mean(wrench[:, :3], axis=0)
        U, sizes, Vt = np.linalg.svd(seen.T @ force)
        if sizes[1] < 0.05 * sizes[0] or unknowns.drift:
            return np.eye(3), 1.0
        turned = U @ np.diag([1.0, 1.0, float(np.sign(np.linalg.det(U @ Vt)))]) @ Vt
        other = self._solve(replace(held, wrench=_rotated(held.wrench, turned)), unknowns, still)
        before, after = (float(np.sum(s.left[:, :3] ** 2)) for s in (solution, other))
        return turned, after / before if before > 0.0 else 1.0

    def _weighed(
        self,
        unknowns: Unknowns,
        solution: _Solution,
        rotation: Array,
        still: bool,
        findings: list[Finding],
    ) -> Weighed:
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
                cure='the sensor tells the force on itself: say reports = "on_sensor"',
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
        wrench, left = solution.wrench, solution.left
        spread = wrench - wrench.mean(axis=0)
        shares = [
            float(np.linalg.norm(left[:, g])) / max(float(np.linalg.norm(spread[:, g])), 1e-300)
            for g in (slice(0, 3), slice(3, 6))
        ]
        return Weighed(
            unknowns.labels,
            values,
            covariance,
            seen,
            consistent,
            solution.noise,
            (shares[0], shares[1]),
            len(wrench),
            rotation,
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
        found = fit.fit(triangle, _OneBody(unknowns.labels, nominal))
        return np.array(found.parameters.values), False


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


def is_still(held: Held) -> bool:
    """Return whether samples are poses at rest: nothing turns, or they are seconds apart."""
    turning = float(np.sqrt(np.mean(held.angular_velocity**2)))
    return turning < STILL and float(np.median(np.abs(held.velocity))) < STILL


def pieces(held: Held, step: float) -> Iterator[Held]:
    """Yield a log's pieces without gaps."""
    cuts = np.flatnonzero(np.diff(held.time) > GAP_STEPS * step) + 1
    for rows in np.split(np.arange(len(held.time)), cuts):
        yield held.part(slice(int(rows[0]), int(rows[-1]) + 1))


def require_usable(held: Held) -> None:
    """Raise `InvalidRecording` for signals that no sensor could have told."""
    for name, values in vars(held).items():
        if not np.isfinite(values).all():
            raise InvalidRecording(
                "samples are not finite", argument=name, cure="leave those rows out"
            )
    if len(held.time) < 3:
        raise TooLittleData("the log is too short to weigh anything", got=f"{len(held.time)} rows")
    back = np.flatnonzero(np.diff(held.time) <= 0.0)
    if len(back):
        raise InvalidRecording(
            "the clock goes back or stands",
            argument="t",
            got=f"at row {back[0] + 1}, {held.time[back[0]]:.6g} s, then "
            f"{held.time[back[0] + 1]:.6g} s",
            cure="sort the rows, or cut the log there",
        )
    force, moment = (np.std(held.wrench[:, g], axis=0) for g in (slice(0, 3), slice(3, 6)))
    lever = float(np.linalg.norm(moment)) / max(float(np.linalg.norm(force)), 1e-300)
    if lever > LONGEST:
        raise InvalidRecording(
            "moments change as if forces acted farther away than anything that is held",
            argument="torque",
            got=f"{np.linalg.norm(moment):.4g} N·m beside {np.linalg.norm(force):.4g} N: a lever "
            f"of {lever:.4g} m",
            expected=f"within {LONGEST:g} m",
            cure="they may be in N·mm: give their unit in the column map",
        )
    if is_still(held):
        return
    step = float(np.median(np.diff(held.time)))
    for k, channel in enumerate(CHANNELS):
        values = held.wrench[:, k]
        longest, at = _longest_run(values)
        if longest * step > FROZEN and longest > STUCK:
            raise InvalidRecording(
                "the sensor is frozen",
                argument=channel,
                got=f"{values[at]:.6g} for {longest * step:.3g} s from {held.time[at]:.3f} s on",
                cure="leave that time out, or look at the sensor",
            )


def notice(held: Held) -> Iterator[Finding]:
    """Yield what is worth knowing of the signals by themselves."""
    if is_still(held):
        return
    for k, channel in enumerate(CHANNELS):
        values = held.wrench[:, k]
        for end in (values.max(), values.min()):
            longest, at = _longest_run(np.where(values == end, 1.0, np.nan))
            if longest >= STUCK:
                yield Finding(
                    "saturated",
                    f"{channel} stays at {end:.6g} for {longest} samples at {held.time[at]:.3f} s: "
                    "its limit? Such rows bias what is weighed",
                )
                break


def _longest_run(values: Array) -> tuple[int, int]:
    """Return the length and the start of the longest run of one value."""
    same = np.concatenate([[False], np.diff(values) == 0.0, [False]])
    edges = np.flatnonzero(np.diff(same.astype(int)))
    if not len(edges):
        return 1, 0
    lengths = edges[1::2] - edges[::2]
    longest = int(np.argmax(lengths))
    return int(lengths[longest]) + 1, int(edges[::2][longest])


def _end(time: Array) -> float:
    return float(time[-1]) if time[-1] > time[0] else float(time[0]) + 1.0


def _angle(rotation: Array) -> float:
    return float(math.acos(np.clip(0.5 * (np.trace(rotation) - 1.0), -1.0, 1.0)))


def _rotated(wrench: Array, rotation: Array) -> Array:
    return np.concatenate([wrench[:, :3] @ rotation.T, wrench[:, 3:] @ rotation.T], axis=1)


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


def _drift_finding(unknowns: Unknowns, solution: _Solution) -> Finding:
    places = unknowns.powers(np.linspace(unknowns.begin, unknowns.end, 101))
    bias = solution.values[10 : 10 + 6 * (unknowns.drift + 1)].reshape(-1, 6)
    range_ = np.ptp(places @ bias, axis=0)
    worst = int(np.argmax(range_[:3]))
    return Finding(
        "drift",
        f"the sensor's bias drifts: by {range_[worst]:.3g} N in {AXES[worst]}, moments by up to "
        f"{range_[3:].max():.2g} N·m; it is modelled by powers of time up to "
        f"{unknowns.drift}. Zero the sensor once it is warm",
    )
