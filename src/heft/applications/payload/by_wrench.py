"""Inertial parameters of a payload from logs of a wrench sensor and its motion.

The payload at the sensor is a plant (`HeldBody`), and the logs form a problem on it: windows of
the weak form, or static poses, solved by Gauss-Newton. `Weigh` selects the sensor's own parameters
in a fixed order, as far as the data identify them: mounting and tilt where they are asked for, bias
and its drift, and a delay. The estimate is physically consistent; parameters that the motion does
not identify are NaN.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from typing import Any, Literal

import numpy as np

from heft.arrays import Array
from heft.engine import one_blas_thread
from heft.errors import InvalidSetting, TooLittleData
from heft.estimators import LeastSquares
from heft.information import PARAMETER_COUNT, Finding
from heft.plants import (
    GAP_STEPS,
    GraspingPoint,
    Held,
    HeldBody,
    Point,
    Problem,
    Unknowns,
    recording_of,
)
from heft.signals import Smoothing, WhiteWeak, weak_form

from .estimate import (
    BETTER,
    NO_BODY,
    SHARED_GAIN,
    TURNED,
    Weighed,
    angle,
    not_shown,
    of_bias,
    of_mass,
    of_mounting,
    of_unseen,
)
from .logs import (
    is_still,
    is_unplaced,
    jumps,
    notice,
    one_behind_another,
    require_alike,
    require_usable,
)
from .sensors import Bias, estimated_noise
from .without_position import unplaced

LARGEST_SHIFT = 0.05  # [s]
WEIGHED = 1e-3  # relative, of a mass that is known
CHANGED_LOAD = "load changed"  # the finding's name
SURE, CHANGED = 5.0, 0.3  # deviations and share of a mass by which it is another
STATED = "stated"  # the channel of prior rows
KINDS: tuple[Literal["mounting", "tilt"], ...] = ("mounting", "tilt")


def about(fit: Weighed) -> Problem[HeldBody]:
    """Return the problem relinearised about a solution: its plant's point, and its delay."""
    plant = fit.plant.about(fit.solution)
    delay = float(np.clip(plant.point.delay, -LARGEST_SHIFT, LARGEST_SHIFT))
    plant = replace(plant, point=replace(plant.point, delay=delay))
    smoothing = replace(fit.problem.resolved, delay=delay, trim=abs(delay))
    return fit.problem.with_settings(plant=plant, smoothing=smoothing)


def asking(fit: Weighed, **kinds: Any) -> Problem[HeldBody]:
    """Return the problem relinearised about a solution, with other fields of `Unknowns`."""
    problem = about(fit)
    unknowns = replace(fit.plant.unknowns, **kinds)
    return problem.with_settings(plant=replace(problem.plant, unknowns=unknowns))


def turned_to(problem: Problem[HeldBody], rotation: Array) -> Problem[HeldBody]:
    """Return the problem about another mounting, from the sensor's axes as logged, (3, 3)."""
    point = replace(problem.plant.point, rotation=rotation)
    return problem.with_settings(plant=replace(problem.plant, point=point))


@dataclass(frozen=True)
class Weigh:
    """Identification of a payload's ten inertial parameters π from a wrench sensor that carries it.

    Use it where a wrench and the sensor's motion are logged; without a wrench sensor use
    `WeighCarried`.

    Raises:
        InvalidSetting: If a mass is given while gains are fixed, or gains of several sensors on one
            load are to be estimated.
    """

    # standard deviation of one sample's force [N] and moment [N·m], of the first sensor; raised to
    # that of the residual where that is larger, estimated from it if not given
    noise: tuple[float, float] | None = None
    # further sensors whose wrench was added, each with the ratio of its noise
    others: tuple[GraspingPoint, ...] = ()
    turning_noise: float = 0.0  # standard deviation of the angular velocity ω [rad/s]
    # model of the sensor's bias: `none`, `constant`, or `auto` for a bias of each log and a
    # polynomial drift of the order that the data select
    bias: Bias = "auto"
    delay: bool = True  # whether a delay of the wrench is estimated where the motion identifies it
    # whether the rotation between the sensor's frame and the motion's is estimated
    mounting: bool = False
    tilt: bool = False  # whether the direction of gravity is estimated
    # prior standard deviation of each channel's gain, whose nominal value is one; gains are fixed
    # at one if it is not given
    gain_std: float | None = None
    # mass of the payload [kg], to identify the gains with a reference load
    known_mass: float | None = None
    # length of the weak form's windows [s]; at least `weak_form.SHORTEST` samples, longer for poses
    window: float = 0.1
    overlap: float = 0.65  # share of its length that a window has in common with the next

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

    def fit(self, *logs: Held, zeroed: Sequence[Sequence[float]] = ()) -> Weighed:
        """Identify the inertial parameters from logs of one payload, whose information adds up.

        Args:
            zeroed: Times at which the bias begins anew [s], of each log by its own clock.

        Raises:
            InvalidRecording: If signals or the resulting mass, centre of mass or mounting are not
                plausible, or the logs cannot be combined.
            InvalidSetting: If `tilt` is asked for with an inertial sensor as the source of motion.
            TooLittleData: If the data do not identify even the mass.
        """
        with one_blas_thread():
            for log in logs:
                require_usable(log)
            require_alike(logs)
            if self.tilt and not logs[0].world.shape[2]:
                raise InvalidSetting(
                    "an inertial sensor feels gravity itself: no stated direction could be wrong",
                    argument="tilt",
                    cure="leave tilt out, or take the motion from poses or joints",
                )
            findings = [finding for log in logs for finding in notice(log)]
            without_position = any(is_unplaced(log) for log in logs)
            if without_position:
                logs = tuple(replace(log, velocity=np.zeros_like(log.specific)) for log in logs)
            problem = self.problem(*logs, zeroed=zeroed)
            fit, more = (
                self._unplaced(problem, logs) if without_position else self._mounted(problem)
            )
            findings += more
            if self.bias == "auto" and not without_position:
                fit = self._drifting(fit)
            if self.delay and not (fit.plant.resting or without_position):
                fit = self._late(fit)
            if fit.plant.unknowns.drift or fit.plant.unknowns.cuts != problem.plant.unknowns.cuts:
                findings += of_bias(fit.plant.unknowns, fit.solution)
            findings += self._changed(logs, zeroed)
            return self._concluded(fit, findings)

    def problem(self, *logs: Held, zeroed: Sequence[Sequence[float]] = ()) -> Problem[HeldBody]:
        """Return the identification problem of logs, linearised about a nominal payload."""
        own, logs = logs, one_behind_another(logs)
        begin, end = float(logs[0].time[0]), float(logs[-1].time[-1])
        moved = zip(zeroed, own, logs, strict=False)
        cuts = (t - raw.time[0] + log.time[0] for at, raw, log in moved for t in at)
        still, world = is_still(logs[0]), logs[0].world.shape[2] > 0
        gains = self.gain_std is not None
        unknowns = Unknowns(
            self.bias != "none",
            begin=begin,
            end=end if end > begin else begin + 1.0,
            cuts=tuple(float(t) for t in cuts if begin < t < end) if self.bias != "none" else (),
            gains=gains,
        )
        point = Point.of(logs[0].gravity)
        noise = self.noise or (1.0, 1.0)
        turning = self.turning_noise
        plant = HeldBody(unknowns, point, still, world, turning, self.others, noise)
        step = max(float(np.median(np.diff(log.time))) for log in logs)
        # Of poses and joints ω is differentiated: its noise, a regressor, falls with the length.
        # Half a second, and no less than 20 windows in a log.
        posed = min(0.5, (end - begin) / 20) if world else 0.0
        length = max(self.window, posed, weak_form.SHORTEST * step)
        weak = WhiteWeak(length, 1, self.overlap, GAP_STEPS)
        return Problem(
            plant,
            tuple(recording_of(log, f"log {k + 1}") for k, log in enumerate(logs)),
            Smoothing(trim=0.0, delay=0.0),
            threads=1,
            weak=None if still else weak,
        )

    def prior_rows(self, plant: HeldBody) -> Array:
        """Prior on gains and mass as rows `[Y w]` of unit variance, shape (r, p + 1).

        Six for gains, about the plant's point, if they are unknowns; one for a known mass.
        """
        unknowns = plant.unknowns
        rows = np.zeros((6 * unknowns.gains + (self.known_mass is not None), len(unknowns.labels)))
        right = np.zeros(len(rows))
        if self.gain_std is not None:
            rows[:6, unknowns.columns("gain")] = np.eye(6) / self.gain_std
            right[:6] = (1.0 - plant.point.gains) / self.gain_std
        if self.known_mass is not None:
            rows[-1, 0], right[-1] = 1.0 / (WEIGHED * self.known_mass), 1.0 / WEIGHED
        return np.column_stack([rows, right])

    def solve(self, problem: Problem[HeldBody]) -> Weighed:
        """Solve the least squares about the plant's point, channels weighted by their noise.

        Raises:
            TooLittleData: If there are not more rows than unknowns.
        """
        rows = self.prior_rows(problem.plant)
        sigma = dict(zip(("force", "torque"), self.noise, strict=True)) if self.noise else {}
        repeated = problem.plant.others and self.noise is None
        # thrice, by the ratio of noise by which several sensors' channels are made
        for _ in range(3 if repeated else 1):
            information, names = problem.information(), problem.noise_names
            if len(rows):
                columns = [*problem.base.kept, -1]
                information = information.beside(STATED, rows[:, columns])
                names = (*names, STATED)
            if information.rows <= len(information.labels):
                weak = problem.weak
                kind = "poses" if weak is None else f"windows of {weak.length:g} s"
                raise TooLittleData(
                    "the log is too short to weigh anything",
                    got=f"{information.triangles[0].rows} {kind}",
                    expected=f"{len(information.labels)} unknowns need more",
                    cure="record longer",
                )
            sigma = {name: sigma[name] for name in names if name in sigma}
            # Directions below 1e-5 of the largest singular value are not identified.
            estimator = LeastSquares(sweeps=5, visible=1e-5)
            estimate = estimator.solve(information, names, {STATED: 1.0})
            if sigma:
                # Noise of the motion, which nobody states, is left over beside the wrench's own.
                rest = dict(zip(names, estimate.noise.sigma, strict=True))
                noise = {name: max(stated, float(rest[name])) for name, stated in sigma.items()}
                estimate = estimator.solve(information, names, {**noise, STATED: 1.0})
            solution = Weighed(problem, estimate)
            if repeated:
                problem = problem.with_settings(plant=replace(problem.plant, noise=solution.noise))
        return solution

    def settled(self, problem: Problem[HeldBody]) -> Weighed:
        """Solve by Gauss-Newton: relinearise until the step is small against the deviations.

        Raises:
            TooLittleData: If there are not more rows than unknowns.
        """
        for _ in range(10):
            fit = self.solve(problem)
            unknowns, point = fit.plant.unknowns, fit.plant.point
            moved = point.moved(unknowns, fit.solution)
            change = moved.whole(unknowns, fit.solution) - point.whole(unknowns, fit.solution)
            change[:PARAMETER_COUNT] = moved.body - point.body
            if unknowns.linear or np.all(np.abs(change) <= 0.02 * fit.std):
                break
            problem = about(fit)
        return fit

    def _unplaced(
        self, problem: Problem[HeldBody], logs: Sequence[Held]
    ) -> tuple[Weighed, list[Finding]]:
        """Return the solution of logs without positions; see `without_position`."""
        if self.tilt or self.mounting or self.gain_std is not None:
            raise InvalidSetting(
                "tilt, mounting and gains are not told by a motion without positions",
                argument="tilt, mounting, gain_std",
                cure="log the position beside the orientation (pos.<frame>.x), or poses at rest",
            )
        findings = of_mounting(*self._turned(self.solve(problem)))
        logs = one_behind_another(logs)
        forces = (replace(log, specific=log.wrench[:, :3]) for log in logs)
        noise = tuple(np.mean([estimated_noise(log.wrench) for log in logs], axis=0).tolist())
        by_moments = problem.with_settings(
            plant=replace(problem.plant, by_force=True, noise=noise),
            recordings=tuple(recording_of(h, f"log {k + 1}") for k, h in enumerate(forces)),
        )
        moments = self.solve(about(self.solve(by_moments)))
        if self.bias == "auto":
            moments = self._drifting(moments)
        plant = replace(problem.plant, unknowns=moments.plant.unknowns)
        return unplaced(problem.with_settings(plant=plant), moments, logs), findings

    def _mounted(self, problem: Problem[HeldBody]) -> tuple[Weighed, list[Finding]]:
        """Return the solution with the mounting and tilt asked for, where they are identified."""
        fit, findings = self.settled(problem), []
        if self.mounting:
            turned, share = self._turned(fit)
            if share < BETTER and angle(turned) > TURNED:
                fit = self.settled(turned_to(problem, turned))
        for kind in KINDS:
            if not getattr(self, kind):
                continue
            asked = self.settled(asking(fit, **{kind: True}))
            columns, identified = asked.plant.unknowns.columns(kind), asked.identified
            # beyond 5° a tilt or mounting is not identified
            sure = asked.std[columns].max() < math.radians(5.0)
            if identified[columns].all() and identified[0] and sure:
                fit = asked
            else:
                findings.append(not_shown(kind))
        if not self.mounting:
            findings += of_mounting(*self._turned(fit))
        return fit, findings

    def _turned(self, fit: Weighed) -> tuple[Array, float]:
        """Return the mounting rotation that fits best, and the ratio of residual energies with it.

        Force is mass times specific force, so the rotation between the two is a Procrustes problem
        [Schönemann1966]. Identity and 1 are returned where the forces vary in one direction only.
        """
        regressor, wrench = fit.windows[:2]
        seen = regressor[:, :3, 0] - np.mean(regressor[:, :3, 0], axis=0)
        force = wrench[:, :3] - np.mean(wrench[:, :3], axis=0)
        U, sizes, Vt = np.linalg.svd(seen.T @ force)
        # forces along one line do not identify a mounting
        if sizes[1] < 0.05 * sizes[0]:
            return np.eye(3), 1.0
        turned = U @ np.diag([1.0, 1.0, float(np.sign(np.linalg.det(U @ Vt)))]) @ Vt
        other = self.solve(turned_to(fit.problem, turned))
        before, after = (float(np.sum(s.residuals[:, :3] ** 2)) for s in (fit, other))
        return turned, after / before if before > 0.0 else 1.0

    def _drifting(self, fit: Weighed) -> Weighed:
        """Return the fit with the order of the drift polynomial selected by the criterion.

        Several logs have a bias and drift each, or one bias in common.
        """
        before = fit.plant.unknowns.cuts
        logs = (float(next(r.blocks([])).time[0]) for r in fit.problem.recordings[1:])
        starts = tuple(sorted({*before, *logs}))
        best, misses = fit, 0
        for drift in range(0 if starts != before else 1, 6):  # powers of time up to the fifth
            problem = asking(fit, drift=drift, cuts=starts)
            if 3 * len(problem.labels) > 6 * fit.rows:
                break
            tried = self.solve(problem)
            better = tried.criterion < best.criterion
            best, misses = (tried, 0) if better else (best, misses + 1)
            if misses == 2:
                break
        return best if best is fit else self.settled(best.problem)

    def _late(self, fit: Weighed) -> Weighed:
        """Return the solution with a delay where it is identified, else without."""
        step = max(t.step for t in fit.problem.timelines)
        asked = self.settled(asking(fit, delay=True))
        delay = asked.plant.point.delay + float(asked.solution[-1])
        small = abs(delay) <= LARGEST_SHIFT and asked.identified[-1]
        return asked if small and asked.std[-1] < max(step, 2e-3) else fit

    def _changed(
        self, logs: Sequence[Held], zeroed: Sequence[Sequence[float]]
    ) -> Iterator[Finding]:
        """Yield findings about loads that are not the same before and after a jump."""
        for log, starts in zip_longest(logs, zeroed, fillvalue=()):
            assert isinstance(log, Held)
            largest = max(jumps(log.time, log.wrench), key=lambda j: j.likelihood, default=None)
            times = sorted({*starts, *([largest.time] if largest else [])})
            ends = np.searchsorted(log.time, times, side="right")
            parts = [log.part(slice(*map(int, p))) for p in pairwise([0, *ends, len(log.time)])]
            for at, before, after in zip(times, parts, parts[1:], strict=False):
                if min(len(before.time), len(after.time)) < 200:  # too few to be weighed alone
                    continue
                (m, s), (n, u) = (
                    (float(w.solution[0]), float(w.std[0]) if w.seen[0] else math.inf)
                    for w in (self.solve(self.problem(part)) for part in (before, after))
                )
                if abs(m - n) > max(SURE * math.hypot(s, u), CHANGED * max(m, n)):
                    yield Finding(
                        CHANGED_LOAD,
                        f"{m:.3g} ± {s:.1g} kg until {at:.3f} s, {n:.3g} ± {u:.1g} kg from there: "
                        "it was dropped, picked up or changed. Cut the log there",
                    )

    def _concluded(self, fit: Weighed, findings: Sequence[Finding]) -> Weighed:
        findings = [*findings, *of_mass(fit)]
        if fit.seen.all():
            findings += [] if fit.consistent else [NO_BODY]
        else:
            findings += of_unseen(fit)
        if fit.plant.unknowns.gains and self.known_mass is None:
            findings.append(SHARED_GAIN)
        return replace(fit, findings=tuple(findings))
