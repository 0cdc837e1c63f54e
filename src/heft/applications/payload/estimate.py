"""What a wrench sensor tells of a payload: one least-squares solution, and findings about it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import InvalidRecording, TooLittleData
from heft.estimators import Estimate, PhysicallyConsistent
from heft.information import (
    AXES,
    PARAMETER_COUNT,
    Finding,
    Labels,
    inertia,
    rotation_vector_of_matrix,
)
from heft.plants import HeldBody, Point, Problem, Unknowns
from heft.signals import WhiteWeak

LONGEST = 2.0  # [m] from a sensor to a centre of mass
TURNED = math.radians(5.0)  # a mounting that is worth a finding
BETTER = 0.5  # of the residual's energy that must go for a mounting to count as turned
TEN = slice(PARAMETER_COUNT)


@dataclass(frozen=True, eq=False)
class Weighed:
    """Least-squares solution of a payload and its sensor, with p parameters in all."""

    problem: Problem[HeldBody]  # the problem solved, linearised about its plant's point
    # its estimate on the base columns (those that are structurally identifiable)
    estimate: Estimate
    findings: tuple[Finding, ...] = ()  # warnings and notices for the user

    @property
    def plant(self) -> HeldBody:
        """The plant, linearised about its point."""
        return self.problem.plant

    @property
    def labels(self) -> Labels:
        """Names and units of the values."""
        return self.plant.unknowns.labels

    @cached_property
    def solution(self) -> Array:
        """Least-squares values of all columns, shape (p,); of minimum norm where not unique."""
        return self.problem.base.spread(self.estimate.fitted)

    @cached_property
    def values(self) -> Array:
        """The parameters, shape (p,).

        The payload's ten inertial parameters about the sensor's origin [kg, kg·m, kg·m²], then the
        sensor's bias, drift and delay. The payload's are NaN where the data do not identify them;
        where they identify all, they are physically consistent.
        """
        values = self._consistent[0] if self.seen.all() else self.solution.copy()
        values[TEN][~self.seen] = np.nan
        return self.point.whole(self.plant.unknowns, values)

    @property
    def consistent(self) -> bool:
        """Whether the plain solution is a body, or not all of it is seen.

        If not, `values` is the nearest consistent one in the metric of the data.
        """
        return not self.seen.all() or self._consistent[1]

    @cached_property
    def _consistent(self) -> tuple[Array, bool]:
        ten = self.solution[TEN]
        if ten[0] > 0.0 and inertia.consistency_margin(ten) > 0.0:
            return self.solution.copy(), True
        mass = max(float(ten[0]), 1e-3)
        nominal = np.zeros(len(self.solution))
        nominal[TEN] = inertia.from_body(mass, ten[1:4] / mass, 0.05**2 * mass * np.eye(3))
        space = replace(self.plant.space, nominal=nominal)
        triangle = self.estimate.information.combined(self.estimate.weights())
        # a prior of consistency, and nothing else
        fit = PhysicallyConsistent(strength=1e-6, margin=1e-6)
        return np.array(fit.fit(triangle, space).parameters.values), False

    @cached_property
    def covariance(self) -> Array:
        """Covariance of all columns, shape (p, p); zero where a column is not identified."""
        kept = list(self.problem.base.kept)
        own = self.estimate.parameters.covariance
        assert own is not None
        covariance = np.zeros((len(self.solution),) * 2)
        covariance[np.ix_(kept, kept)] = np.where(np.isfinite(own), own, 0.0)
        return covariance

    @property
    def std(self) -> Array:
        """Standard deviations of all columns, shape (p,); zero where a column is not identified."""
        return np.sqrt(np.diag(self.covariance))

    @cached_property
    def identified(self) -> NDArray[np.bool_]:
        """Which columns have no component in an unidentifiable direction, shape (p,)."""
        identified = np.zeros(len(self.solution), dtype=bool)
        identified[list(self.problem.base.kept)] = np.isfinite(self.estimate.parameters.values)
        return identified

    @property
    def seen(self) -> NDArray[np.bool_]:
        """Which of the payload's ten parameters are identified, shape (10,)."""
        return self.identified[TEN]

    @property
    def noise(self) -> tuple[float, float]:
        """Standard deviation of one sample's force [N] and moment [N·m]."""
        sigma = self.estimate.noise.sigma
        return float(sigma[0]), float(sigma[len(self.plant.channels) - 1])

    @property
    def rows(self) -> int:
        """Number of windows, or of static poses."""
        return int(self.estimate.noise.rows[0])

    @property
    def criterion(self) -> float:
        """Bayesian information criterion, −2 log L + k log n, up to a constant [Schwarz1978].

        Each channel has its own noise variance: the first term sums n log(rss / n) over channels.
        Used to select the order of the bias drift; smaller is better.
        """
        values, total = self.estimate.fitted, 0.0
        for t in self.estimate.information.triangles[: len(self.plant.channels)]:
            total += t.rows * math.log(max(t.residual_energy(values) / t.rows, 1e-300))
        return total + len(values) * math.log(len(self.plant.channels) * self.rows)

    @cached_property
    def windows(self) -> tuple[Array, Array, Array]:
        """Regressor Y, shape (N, 6, p), wrench (N, 6) [N, N·m], time (N,) [s] of windows or poses.

        Neither is whitened, and further sensors are not combined into independent channels.
        """
        weak = self.problem.weak
        if isinstance(weak, WhiteWeak):
            weak = replace(weak, whitened=False)
        plant = replace(self.plant, others=())
        plain = self.problem.with_settings(plant=plant, weak=weak)
        rows = list(plain.rows())
        base = np.concatenate([r.regressor for r in rows])
        regressor = np.zeros((*base.shape[:2], len(self.solution)))
        regressor[:, :, list(plain.base.kept)] = base
        effort, time = (
            np.concatenate([r.effort for r in rows]),
            np.concatenate([r.time for r in rows]),
        )
        return regressor, effort, time

    @cached_property
    def residuals(self) -> Array:
        """Residual wrench w − Y θ of each window or pose, shape (N, 6) [N, N·m]."""
        regressor, wrench, _ = self.windows
        return np.asarray(wrench - regressor @ self.solution)

    @cached_property
    def left(self) -> tuple[float, float]:
        """Relative residuals of force and of moment: norm of the residual over that of the signal.

        The mean over windows or poses is subtracted from the signal.
        """
        wrench = self.windows[1]
        changes = wrench - wrench.mean(axis=0)
        sizes = [
            (np.linalg.norm(self.residuals[:, g]), np.linalg.norm(changes[:, g]))
            for g in (slice(3), slice(3, None))
        ]
        force, moment = (float(rest) / max(float(size), 1e-300) for rest, size in sizes)
        return force, moment

    @property
    def point(self) -> Point:
        """The plant's point moved to the solution."""
        return self.plant.point.moved(self.plant.unknowns, self.solution)

    @property
    def rotation(self) -> Array:
        """From the sensor's axes as logged to those of the motion, shape (3, 3)."""
        return self.point.rotation

    @property
    def gravity(self) -> Array | None:
        """Gravity in the world's frame, shape (3,) [m/s²]; None unless the tilt is an unknown."""
        return self.point.gravity if self.plant.unknowns.tilt else None

    @property
    def gravity_std(self) -> Array | None:
        """Standard deviations of `gravity`, shape (3,) [m/s²]; None where it is."""
        if not self.plant.unknowns.tilt:
            return None
        columns = self.plant.unknowns.columns("tilt")
        slope = np.cross(self.point.axes, self.point.gravity)
        return np.sqrt(np.diag(slope.T @ self.covariance[columns, columns] @ slope))

    def of_sensor(self, kind: str) -> tuple[Array, Array] | None:
        """Return the estimated parameters of one kind of the sensor, and their standard deviations.

        Args:
            kind: `bias` [N, N·m] (at the middle of the log, if it drifts; log after log, if each
                has its own), `tilt` [rad], `mounting` [rad], `gain` [1], `delay` [s].

        Returns:
            Two arrays of one shape (k,); None if that kind was not estimated.
        """
        names = self.labels.names
        places = [k for k, n in enumerate(names) if n.startswith(f"sensor.{kind}")]
        if not places:
            return None
        return self.values[places], self.std[places]

    @property
    def mass(self) -> float:
        """Mass m [kg]."""
        return float(self.values[0])

    @property
    def com(self) -> Array:
        """Centre of mass c in the sensor's frame, shape (3,) [m]."""
        return np.asarray(self.values[1:4] / self.values[0])

    @property
    def inertia(self) -> Array:
        """Inertia about the centre of mass, shape (3, 3) [kg·m²]; NaN where not identified."""
        return inertia.to_body(self.values[TEN])[2]

    @cached_property
    def body(self) -> Array:
        """Mass [kg], centre of mass [m] and inertia about it [kg·m²], shape (10,).

        The inertia is ordered Ixx, Ixy, Iyy, Ixz, Iyz, Izz.
        """
        return inertia.stated_body(self.values[TEN])[0]

    @cached_property
    def body_std(self) -> Array:
        """Standard deviations of `body` to first order, shape (10,); infinite where that is NaN."""
        here = np.where(np.isnan(self.values[TEN]), 0.0, self.values[TEN])
        std = inertia.stated_with_std(here, self.covariance[TEN, TEN])[1]
        return np.where(np.isnan(self.body), np.inf, std)

    @property
    def bias(self) -> Array | None:
        """Bias of the sensor in the last log, at its middle if it drifts, shape (6,) [N, N·m]."""
        estimate = self.of_sensor("bias")
        return estimate[0][-6:] if estimate else None

    @property
    def delay(self) -> float | None:
        """Delay of the wrench behind the motion [s]; None if it was not estimated."""
        estimate = self.of_sensor("delay")
        return float(estimate[0][0]) if estimate else None


NO_BODY = Finding(
    "no body",
    "the plain solution is no body that can exist; the nearest one is given. Move more, in more "
    "directions",
)
SHARED_GAIN = Finding(
    "not seen",
    "the gain that all axes of force share: a heavier load looks the same, and the deviation of "
    "the mass says so. A load of known mass tells it (--known-mass)",
)


def angle(rotation: Array) -> float:
    """Return the angle of a rotation [rad]."""
    return float(np.linalg.norm(rotation_vector_of_matrix(rotation)))


def of_mounting(turned: Array, share: float) -> list[Finding]:
    """Return findings about a mounting rotation that the data show and nobody asked for.

    Args:
        turned: From the sensor's axes to the motion's, shape (3, 3).
        share: Ratio of residual energies, with that rotation over without it.

    Raises:
        InvalidRecording: If the rotation is too large for the estimate to be usable.
    """
    by = angle(turned)
    if share >= BETTER or by <= TURNED:
        return []
    rows = ", ".join("[" + ", ".join(f"{x:.4f}" for x in row) + "]" for row in turned)
    less, setting = f"{100.0 * (1.0 - share):.0f}% less", f"rotation = [{rows}]"
    if by > math.radians(30.0):  # without it the answer is worth nothing
        raise InvalidRecording(
            "the sensor's axes are turned against the motion's",
            argument="force",
            got=f"{math.degrees(by):.0f}°: so turned, {less} force is left over",
            cure=f"say {setting} in the sensor's table, or --mounting",
        )
    return [
        Finding(
            "turned",
            f"the sensor's axes seem turned by {math.degrees(by):.1f}° against the motion's: so "
            f"turned, {less} force is left over. If it is so, say {setting}, or --mounting",
        )
    ]


def not_shown(kind: str) -> Finding:
    """Return the finding that a `mounting` or `tilt` asked for is not identified."""
    what = {"mounting": "the sensor's mounting", "tilt": "the direction of gravity"}[kind]
    return Finding(
        "not seen",
        f"{what}: this motion does not show it, and it is taken as stated. Turn the "
        "sensor about all axes",
    )


def of_bias(unknowns: Unknowns, values: Array) -> list[Finding]:
    """Return findings about a bias that drifts, or differs from log to log, in values (p,)."""
    if not (unknowns.drift or unknowns.cuts):
        return []
    time = np.linspace(unknowns.begin, unknowns.end, 101 * (len(unknowns.cuts) + 1))
    powers = unknowns.powers(time)
    bias = values[PARAMETER_COUNT : PARAMETER_COUNT + 6 * powers.shape[1]].reshape(-1, 6)
    reach = np.ptp(powers @ bias, axis=0)  # of each channel [N, N·m]
    worst = int(np.argmax(reach[:3]))
    sizes = f"by {reach[worst]:.3g} N in {AXES[worst]}, moments by up to {reach[3:].max():.2g} N·m"
    if unknowns.drift:
        message = (
            f"the sensor's bias drifts: {sizes}; it is modelled by powers of time up to "
            f"{unknowns.drift}. Zero the sensor once it is warm"
        )
    else:
        message = f"the sensor's bias differs from log to log: {sizes}; each log has its own"
    return [Finding("drift", message)]


def of_mass(plain: Weighed) -> list[Finding]:
    """Return findings about the mass and the centre of mass.

    Raises:
        TooLittleData: If the mass is not identified.
        InvalidRecording: If the mass is negative, or the centre of mass is implausibly far away.
    """
    mass, std = float(plain.solution[0]), float(plain.std[0])
    if not plain.seen[0]:
        raise TooLittleData(
            "the mass is not seen: the sensor was held in one direction only"
            if plain.plant.resting
            else "the mass is not seen in this motion",
            got=f"{plain.rows} rows",
            cure="turn the sensor against gravity, in three directions at least, or state "
            "that its bias is zero",
        )
    if mass < -5.0 * std:
        raise InvalidRecording(
            "the load weighs less than nothing",
            argument="force",
            got=f"{mass:.4g} ± {std:.2g} kg",
            cure='the sensor tells the force on itself: say reports = "on_sensor" (or '
            '"on_load" where that is said already); or the pose is turned: quat has w first, '
            "and takes the frame to the world",
        )
    reach = float(np.linalg.norm(plain.solution[1:4])) / max(abs(mass), 1e-9)
    if mass > 5.0 * std and reach > LONGEST:
        raise InvalidRecording(
            "the centre of mass would be farther away than anything that is held",
            argument="torque",
            got=f"{reach:.4g} m from the sensor",
            expected=f"within {LONGEST:g} m",
            cure="see that forces and moments are of one sensor and in N and N·m",
        )
    seen, gyration = plain.seen.all(), 0.0
    if seen:
        gyration = math.sqrt(max(float(np.trace(plain.inertia)) / 2.0, 0.0) / max(mass, 1e-9))
    weight, noise = 9.81 * mass, plain.noise[0]  # [N/kg]
    # Within three times a sample's noise there is next to no weight; a radius of gyration of half
    # a metre is of inertia that has no weight to go with it.
    if mass >= 2.0 * std and weight > 3.0 * noise and gyration < 0.5:
        return []
    return [
        Finding(
            "no load",
            f"the mass is {mass:.4g} ± {std:.2g} kg, next to no weight ({weight:.2g} N beside a "
            f"noise of {noise:.2g} N): nothing is held, or the driver takes the weight of the "
            "payload set in it away. Set that to none there, and record again",
        )
    ]


def of_unseen(plain: Weighed) -> list[Finding]:
    """Return findings about the inertial parameters that are not identified, with the reason."""
    names = ", ".join(n for n, s in zip(inertia.SYMBOLS, plain.seen, strict=True) if not s)
    still = plain.plant.resting
    why = "poses at rest show no inertia" if still else "this motion does not show them"
    return [Finding("not seen", f"{names}: {why}")] if names else []
