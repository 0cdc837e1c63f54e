"""Inertial parameters of a payload from logs of a wrench sensor and its motion.

The payload at the sensor is a plant (`HeldBody`), and the logs form a problem on it: windows of
the weak form, or static poses. `Weigh` selects the sensor's own parameters in a fixed order, as
far as the data identify them: mounting and tilt where they are asked for, bias and its drift, and
a delay. The estimate is physically consistent; parameters that the motion does not identify are
NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from heft.arrays import Array
from heft.engine import one_blas_thread
from heft.errors import InvalidSetting
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

from . import findings as said
from .estimate import Weighed
from .log_checks import (
    is_still,
    notice,
    one_behind_another,
    require_alike,
    require_usable,
)
from .wrench_fit import LARGEST_SHIFT, Found, Known, asking, consistent, settled, solve, turned_to

Bias = Literal["none", "constant", "auto"]
DRIFT_MOST = 5
UNSURE = math.radians(5.0)  # standard deviation above which a tilt or mounting is not identified
FLAT = 0.05  # of the largest singular value: forces along one line do not identify a mounting
KINDS: tuple[Literal["mounting", "tilt"], ...] = ("mounting", "tilt")


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
    # length of the weak form's windows [s]; at least `weak_form.SHORTEST` samples
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

    @property
    def known(self) -> Known:
        """Prior knowledge: noise, standard deviation of gains, and mass."""
        return Known(self.noise, self.gain_std, self.known_mass)

    def fit(self, *logs: Held) -> Weighed:
        """Identify the payload's inertial parameters from one or several logs.

        Args:
            logs: All are of the same payload, and their information adds up.

        Returns:
            The estimate, with the sensor's parameters and findings.

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
            findings = [found for log in logs for found in notice(log)]
            problem = self.problem(*logs)
            found, more = self._mounted(problem)
            findings += more
            if self.bias == "auto":
                found = self._drifting(found)
            if self.delay and not found.plant.resting:
                found = self._late(found)
            findings += said.of_bias(found.plant.unknowns, found.values)
            return self._weighed(found, findings)

    def problem(self, *logs: Held) -> Problem[HeldBody]:
        """Return the identification problem of logs, linearised about a nominal payload."""
        logs = one_behind_another(logs)
        begin, end = float(logs[0].time[0]), float(logs[-1].time[-1])
        still, world = is_still(logs[0]), logs[0].world.shape[2] > 0
        gains = self.gain_std is not None
        unknowns = Unknowns(
            self.bias != "none", begin=begin, end=end if end > begin else begin + 1.0, gains=gains
        )
        point = Point.of(logs[0].gravity)
        noise = self.noise or (1.0, 1.0)
        turning = self.turning_noise
        plant = HeldBody(unknowns, point, still, world, turning, self.others, noise)
        step = max(float(np.median(np.diff(log.time))) for log in logs)
        length = max(self.window, weak_form.SHORTEST * step)
        weak = WhiteWeak(length, 1, self.overlap, GAP_STEPS)
        return Problem(
            plant,
            tuple(recording_of(log, f"log {k + 1}") for k, log in enumerate(logs)),
            Smoothing(trim=0.0, delay=0.0),
            threads=1,
            weak=None if still else weak,
        )

    def _mounted(self, problem: Problem[HeldBody]) -> tuple[Found, list[Finding]]:
        """Return the solution with the mounting and tilt asked for, where they are identified."""
        found, findings = settled(problem, self.known), []
        if self.mounting:
            turned, share = self._turned(found)
            if share < said.BETTER and said.angle(turned) > said.TURNED:
                found = settled(turned_to(problem, turned), self.known)
        for kind in KINDS:
            if not getattr(self, kind):
                continue
            asked = settled(asking(found, **{kind: True}), self.known)
            columns = asked.plant.unknowns.columns(kind)
            if asked.seen[columns].all() and asked.seen[0] and asked.std[columns].max() < UNSURE:
                found = asked
            else:
                findings.append(said.not_shown(kind))
        if not self.mounting:
            findings += said.of_mounting(*self._turned(found))
        return found, findings

    def _turned(self, found: Found) -> tuple[Array, float]:
        """Return the mounting rotation that fits best, and the ratio of residual energies with it.

        Force is mass times specific force, so the rotation between the two is a Procrustes problem
        [Schönemann1966]. Identity and 1 are returned where the forces vary in one direction only.
        """
        regressor, wrench = found.windows
        seen = regressor[:, :3, 0] - np.mean(regressor[:, :3, 0], axis=0)
        force = wrench[:, :3] - np.mean(wrench[:, :3], axis=0)
        U, sizes, Vt = np.linalg.svd(seen.T @ force)
        if sizes[1] < FLAT * sizes[0]:
            return np.eye(3), 1.0
        turned = U @ np.diag([1.0, 1.0, float(np.sign(np.linalg.det(U @ Vt)))]) @ Vt
        other = solve(turned_to(found.problem, turned), self.known)
        before, after = (float(np.sum(s.left[:, :3] ** 2)) for s in (found, other))
        return turned, after / before if before > 0.0 else 1.0

    def _drifting(self, found: Found) -> Found:
        """Return the fit with the order of the drift polynomial selected by the criterion.

        Several logs have a bias and drift each, or one bias in common.
        """
        starts = tuple(float(next(r.blocks([])).time[0]) for r in found.problem.recordings[1:])
        best, misses = found, 0
        for drift in range(0 if starts else 1, DRIFT_MOST + 1):
            problem = asking(found, drift=drift, cuts=starts)
            if 3 * len(problem.labels) > 6 * found.rows:
                break
            tried = solve(problem, self.known)
            better = tried.criterion < best.criterion
            best, misses = (tried, 0) if better else (best, misses + 1)
            if misses == 2:
                break
        return best if best is found else settled(best.problem, self.known)

    def _late(self, found: Found) -> Found:
        """Return the solution with a delay where it is identified, else without."""
        step = max(t.step for t in found.problem.timelines)
        asked = settled(asking(found, delay=True), self.known)
        delay = asked.plant.point.delay + float(asked.values[-1])
        small = abs(delay) <= LARGEST_SHIFT and asked.seen[-1]
        return asked if small and asked.std[-1] < max(step, 2e-3) else found

    def _weighed(self, found: Found, findings: Sequence[Finding]) -> Weighed:
        unknowns, seen = found.plant.unknowns, found.seen[:PARAMETER_COUNT]
        findings = [*findings, *said.of_mass(found)]
        values, plain = found.values.copy(), True
        if seen.all():
            values, plain = consistent(found)
            findings += [] if plain else [said.NO_BODY]
        else:
            findings += said.of_unseen(found)
            values[:PARAMETER_COUNT][~seen] = np.nan
        if unknowns.gains and self.known_mass is None:
            findings.append(said.SHARED_GAIN)
        return Weighed(
            unknowns.labels,
            found.point.whole(unknowns, values),
            found.covariance,
            seen,
            plain,
            found.noise,
            found.shares,
            found.rows,
            found.point.rotation,
            *found.gravity,
            tuple(findings),
        )
