"""Identification of a free flyer that grasped something: body, load, and how sure they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import scipy.special
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import FitError, InvalidSetting, TooLittleData
from heft.estimators import (
    ConsistentEstimate,
    HarmonicEstimate,
    IteratedSmoother,
    PhysicallyConsistent,
    SmoothedLog,
    Stated,
    noise,
    stated_numbers,
)
from heft.files import Keys, Number, check_fields
from heft.information import (
    PARAMETER_COUNT,
    SYMBOLS,
    UNITS,
    Check,
    Directions,
    Labels,
    Parameters,
    ParameterSpace,
    Triangle,
    inertia,
    triangle_of,
)
from heft.models import FreeFlyer
from heft.recordings import Recording

from .cycles import Cycles, IdentifyFromCycles
from .energy_balance import EnergyBalance, EnergyBalanceEstimate
from .flight_log import FlightLog
from .flight_noise import FlightNoise
from .path import FirstPath, FlightSystem, likely_noise

CHECKS: Keys = {
    "blocks": Number("the number of blocks is no whole number", 4, 10_000, whole=True),
    "mistake": Number("a probability is between 0 and 1", 0.0, 1.0),
    "coloured": Number("the autocorrelation time is no number above 1", 1.0),
}


@dataclass(frozen=True, eq=False)
class BodyEstimate:
    """Ten parameters of a body with their uncertainty, unconstrained and physically consistent."""

    parameters: Parameters  # by least squares alone, with their covariance; may be no possible body
    # the nearest body that can exist, in the metric of the information
    consistent: ConsistentEstimate

    @property
    def numbers(self) -> Mapping[str, Stated]:
        """Mass [kg], centre [m] and inertia [kg·m²] of the physically consistent body, by name."""
        return stated_numbers(self.consistent, 0)

    @property
    def possible(self) -> bool:
        """Whether the measured parameters are of a body that can exist."""
        return inertia.consistency_margin(self.parameters.values) > 0.0


def body_estimate(name: str, triangle: Triangle, nominal: Array) -> BodyEstimate:
    """Return a body from the information about its ten parameters.

    Args:
        triangle: Independent rows of unit variance, over the ten.
        nominal: Physically consistent body that sets scales and is no prior, shape (10,).

    Raises:
        SolverFailure: If the solver of the cone ends without a solution.
    """
    labels = Labels(tuple(f"{name}.{s}" for s in SYMBOLS), UNITS, name)
    seen = Directions.of(triangle.R, triangle.rows)
    values = seen.shortest(triangle.z)
    parameters = Parameters(labels, values, seen.inverse @ seen.inverse.T)
    space = ParameterSpace.of_one_body(labels, nominal)
    consistent = PhysicallyConsistent(unknown=(name,)).fit(triangle, space)
    return BodyEstimate(parameters, consistent)


def load_estimate(triangle: Triangle, nominal: Array, doubt: Array | None = None) -> BodyEstimate:
    """Return the load: the identified parameters less the nominal body's.

    Args:
        triangle: Information about body and load together.
        nominal: Parameters of the body alone, shape (10,).
        doubt: Covariance of the nominal parameters, shape (10, 10); zero if None.

    Raises:
        SolverFailure: If the solver of the cone ends without a solution.
    """
    moved = triangle.factor.copy()
    moved[:-1, -1] -= triangle.R @ nominal
    if doubt is not None:
        # Rows R (load) = z − R (nominal): noise of unit variance, and what the nominal ones lack.
        spread = np.eye(len(nominal)) + triangle.R @ doubt @ triangle.R.T
        white = np.linalg.solve(np.linalg.cholesky(spread), moved[:-1])
        moved = triangle_of(np.vstack([white, moved[-1:]]))
    about = Triangle(triangle.columns, moved, triangle.rows)
    mass = max(Directions.of(moved[:-1, :-1], triangle.rows).shortest(moved[:-1, -1])[0], 0.0)
    mass = max(mass, 1e-3 * nominal[0])  # a load of which nothing is seen
    body = inertia.to_body(nominal)
    radius = float(np.sqrt(np.trace(body[2]) / (2.0 * body[0])))
    return body_estimate("load", about, inertia.sphere(mass, radius))


@dataclass(frozen=True)
class Known:
    """A number that is found with a body."""

    value: float
    std: float  # its standard deviation


@dataclass(frozen=True, eq=False)
class FreeFlyerResult:
    """Parameters of a free flyer and its load, identified from a flight."""

    body: BodyEstimate  # body and load together
    load: BodyEstimate  # the load: the body less the nominal one
    # states and parameters by the smoother, with the noise as finally taken; the response of the
    # actuators behind the ten, see `FlightSystem`
    smoothed: SmoothedLog
    delay: Known  # how much later than stated commands act, in the mean of all actuators [s]
    # what actuators exert over what commands say: as found by a flight of known mass, or as stated
    scale: Known
    # by lines of the periodic motion; None where it is not periodic
    harmonic: HarmonicEstimate | None
    # by the published method; None where not periodic, or under gravity
    published: EnergyBalanceEstimate | None
    # whether something else held or pushed the body, as ground or hand: such samples tell nothing,
    # shape (N,)
    held: NDArray[np.bool_]
    noise: FlightNoise  # as stated, or as the log has it where it is not as stated
    # autocorrelation times of the residuals of position and attitude under white noise [samples]
    colour: tuple[float, float]
    inflation: float  # factor on the covariance, 1 where the noise is as stated
    checks: tuple[Check, ...]  # of noise, outliers, convergence and consistency

    @property
    def values(self) -> Array:
        """Ten parameters of body and load by the smoother, shape (10,)."""
        return np.asarray(self.smoothed.values[:PARAMETER_COUNT])


@dataclass(frozen=True)
class IdentifyFreeFlyer:
    """A free flyer's ten parameters and its load, from pose and commands.

    Lines of the periodic motion start an iterated Kalman smoother, whose innovations are the
    information that is reported; a motion that does not repeat starts it from differentiated poses.

    Raises:
        InvalidSetting: If a setting is out of range.
    """

    period: float | None = None  # of the motion [s]; found in the log if not given
    cycles: IdentifyFromCycles = IdentifyFromCycles()  # the frequency-domain estimate
    smoother: IteratedSmoother = IteratedSmoother()  # the smoother
    first: FirstPath = FirstPath()  # its first path
    published: EnergyBalance | None = EnergyBalance()  # the published method; None leaves it out
    blocks: int = 20  # into which the log is cut to see slow noise
    mistake: float = 1e-3  # probability with which noise as stated is taken for other noise
    # autocorrelation time of residuals from which on pose noise counts as coloured and weighs less
    # by it [samples]
    coloured: float = 1.5

    def __post_init__(self) -> None:
        check_fields(self, CHECKS)

    def fit(
        self,
        log: Recording | FlightLog,
        flyer: FreeFlyer,
        bare: Recording | FlightLog | None = None,
    ) -> FreeFlyerResult:
        """Return body and load with their uncertainty.

        Args:
            bare: A flight without a load, whose known mass tells what thrust is.

        Raises:
            MissingSignal: If a signal is not there.
            InvalidRecording: If the log is too short or has gaps in the commands.
            TooLittleData: If the motion does not determine the parameters.
        """
        flight = log if isinstance(log, FlightLog) else FlightLog.of(log, flyer)
        harmonic, published = self._by_cycles(flight, flyer)
        flight = replace(flight, held=self.first.held(flight, flyer))
        system = FlightSystem.of(flight, flyer, self.first.covariance)
        with np.errstate(all="ignore"):  # a path that diverges is refused
            smoothed, colour, noise = self._smoothed(flight, flyer, system, harmonic)
        score = smoothed.score_chi_square(self.blocks)
        limits = self._limits(smoothed.freedom, len(smoothed.values))
        inflation = max(
            1.0,
            smoothed.chi_square if smoothed.chi_square > limits[0] else 1.0,
            score if score > limits[1] else 1.0,
        )
        delay = np.sqrt(inflation * smoothed.covariance[PARAMETER_COUNT, PARAMETER_COUNT])
        scale = self._scale(bare, flyer)
        ten = given(smoothed.triangle, inflation, scale)
        body = body_estimate(flyer.name, ten, flyer.nominal)
        load = load_estimate(ten, flyer.nominal)
        checks = _checks(smoothed, body, colour, self.coloured, score, limits)
        return FreeFlyerResult(
            body, load, smoothed, Known(float(smoothed.values[PARAMETER_COUNT]), float(delay)),
            scale, harmonic, published, flight.held, noise, colour, inflation, checks,
        )  # fmt: skip

    def _scale(self, bare: Recording | FlightLog | None, flyer: FreeFlyer) -> Known:
        """Return what acts over what commands say: as stated, and by a flight of known mass."""
        stated = flyer.scale_std
        if bare is None or stated == 0.0:
            return Known(1.0, stated)
        # Mass over thrust: what is left of either flight when the other's scale is known.
        bare_mass = self.fit(bare, replace(flyer, scale_std=0.0)).body.numbers["mass"]
        value = flyer.nominal[0] / bare_mass.value
        std = value * bare_mass.std / bare_mass.value
        weight = stated**2 / (stated**2 + std**2)
        return Known(float(1.0 + weight * (value - 1.0)), float(np.sqrt(weight) * std))

    def _by_cycles(
        self, flight: FlightLog, flyer: FreeFlyer
    ) -> tuple[HarmonicEstimate | None, EnergyBalanceEstimate | None]:
        try:
            cycles = Cycles.of(flight, self.period)
            harmonic = self.cycles.fit(cycles, flyer)
        except (InvalidSetting, TooLittleData):
            if self.period is not None:
                raise
            return None, None
        if self.published is None or np.any(flyer.gravity != 0.0):
            return harmonic, None
        try:
            return harmonic, self.published.fit(cycles)
        except (FitError, InvalidSetting):
            return harmonic, None

    def _smoothed(
        self,
        flight: FlightLog,
        flyer: FreeFlyer,
        system: FlightSystem,
        harmonic: HarmonicEstimate | None,
    ) -> tuple[SmoothedLog, tuple[float, float], FlightNoise]:
        """Return the smoothed log, its white fit's autocorrelation times [samples], its noise."""
        path = self.first.states(flight)
        values = self.first.parameters(flight, flyer) if harmonic is None else harmonic.values
        values, variance = np.append(values, np.zeros(2)), system.variance
        colour, outliers = (1.0, 1.0), 0
        smoothed: SmoothedLog | None = None
        try:
            smoothed = self.smoother.fit(system, path, values, variance)
            colour, outliers = self._colour(system, smoothed), smoothed.left_out
            if self._as_stated(smoothed, colour):
                return smoothed, colour, system.noise
            if outliers > 0.05 * np.sum(np.isfinite(variance)) / 3.0:  # of all poses
                raise TooLittleData("most is no outlier")
            path, values, mask, far = smoothed.path, smoothed.values, smoothed.variance, 0
        except TooLittleData:  # the noise is other than stated by far: only what is gross is not it
            off = np.abs(system.residual(path)).reshape(-1, 2, 3).max(axis=2)
            stated = np.array([flyer.pose.position, flyer.pose.angle])
            usual = np.nanmedian(off, axis=0) + stated
            sound = (off < 30.0 * usual).all(axis=1)
            outliers = int(2 * np.sum(np.isfinite(off).all(axis=1) & ~sound))
            mask, far = np.where(sound[:, None], variance, np.inf), 4  # single steps of both
        mask = np.where(np.isfinite(mask), 0.0, np.inf)
        again = replace(self.smoother, outlier=0.0)  # what is left out, is
        # Noise far from stated is first taken for white: poses then hold a path that is not good.
        single = (replace(again, passes=1), False)
        # of noise by the log, and of a path under it
        rounds = (single,) * far + ((again, False),) * (far > 0) + ((again, True),) * 2
        for smoother, hangs in rounds:
            noisy = replace(system, noise=likely_noise(system, path, values, mask, hangs))
            try:
                smoothed = smoother.fit(noisy, path, values, mask + noisy.noise.measured)
            except TooLittleData:
                if smoothed is None:
                    raise
                break  # what was found until then stays
            system, values = noisy, smoothed.values
            # A first path lies by the poses, whatever the parameters are.
            path = path if smoother.passes == 1 else smoothed.path
        assert smoothed is not None
        return replace(smoothed, left_out=outliers), colour, system.noise

    def _as_stated(self, smoothed: SmoothedLog, colour: tuple[float, float]) -> bool:
        """Return whether the noise of a log is what is stated of it."""
        limits = self._limits(smoothed.freedom, len(smoothed.values))
        return (
            max(colour) <= self.coloured
            and 2.0 - limits[0] <= smoothed.chi_square <= limits[0]
            and smoothed.score_chi_square(self.blocks) <= limits[1]
        )

    def _colour(self, system: FlightSystem, smoothed: SmoothedLog) -> tuple[float, float]:
        """Return autocorrelation times of the residuals of position and attitude [samples]."""
        rest = system.residual(smoothed.path)
        samples = []
        for cut in (slice(0, 3), slice(3, 6)):
            seen = np.isfinite(smoothed.variance[:, cut]).all(axis=1)
            if not seen.any():
                samples.append(1.0)
                continue
            axes = noise.autocovariance([rest[seen][:, cut]])
            every = np.mean(axes, axis=1, keepdims=True)
            samples.append(float(noise.autocorrelation_time(every)[0]))
        return samples[0], samples[1]

    def _limits(self, freedom: int, parameters: int) -> tuple[float, float]:
        """Return upper limits of the reduced chi-squares of residuals and of scores."""
        scores = parameters * (self.blocks - 1)
        return (
            float(scipy.special.chdtri(freedom, self.mistake)) / freedom,
            float(scipy.special.chdtri(scores, self.mistake)) / scores,
        )


def given(t: Triangle, inflation: float, scale: Known) -> Triangle:
    """Return the information about the ten parameters, given what else is known.

    Args:
        t: Information about ten parameters and more, which are marginalised out.
        inflation: Factor on the covariance.
        scale: What acted over what the commands say.
    """
    columns = [*range(PARAMETER_COUNT, len(t.R)), *range(PARAMETER_COUNT), -1]
    made = triangle_of(t.factor[:, columns])[len(t.R) - PARAMETER_COUNT :, -PARAMETER_COUNT - 1 :]
    ten = Triangle(np.arange(PARAMETER_COUNT), made / np.sqrt(inflation), t.rows)
    return _scaled(ten, scale)


def _scaled(triangle: Triangle, scale: Known) -> Triangle:
    """Return the information about a body, from that under thrusts taken as the commands say.

    Ten parameters θ that explain wrenches w are s θ if what acted was s w: no motion tells s. So
    its deviation, of the wrenches as of all ten parameters, goes into theirs.
    """
    R, size = triangle.R / scale.value, len(triangle.R)
    values = Directions.of(triangle.R, triangle.rows).shortest(triangle.z)
    rows = np.zeros((size + 2, size + 2))  # of s − 1 in its deviations, then of the ten
    rows[0, 0] = 1.0
    rows[1:, 1:] = triangle.factor
    rows[1:-1, 1:-1] = R
    rows[1:-1, 0] = -(triangle.R @ values) * scale.std / scale.value
    return Triangle(triangle.columns, triangle_of(rows)[1:, 1:], triangle.rows)


def _checks(
    smoothed: SmoothedLog, body: BodyEstimate, colour: tuple[float, float], coloured: float,
    score: float, limits: tuple[float, float],
) -> tuple[Check, ...]:  # fmt: skip
    groups = np.isfinite(smoothed.variance).any(axis=1).sum()
    share = smoothed.left_out / max(2 * int(groups), 1)
    return (
        Check.at_most(
            "noise", smoothed.chi_square, limits[0], 4.0,
            "chi-square of innovations by degree of freedom: above 1 the noise, or the model, is "
            "not as stated, and the covariance is inflated by it; below 1 less noise than stated",
        ),
        Check.at_most(
            "slow noise", score, limits[1], 10.0 * limits[1],
            "what the noise does to the parameters, against noise as stated: above 1 it changes "
            "from block to block, and the covariance is inflated by it",
        ),
        Check.at_most(
            "coloured poses", max(colour), coloured, 100.0,
            "samples over which errors of the pose hang together: they weigh the less for it",
        ),
        Check.at_most("outliers", share, 0.02, 0.2, "share of poses left out as outliers"),
        Check.at_most(
            "convergence", 0.0 if smoothed.settled else 1.0, 0.5, 2.0,
            f"the smoother settled in {smoothed.passes} passes, or did not",
        ),
        Check.at_most(
            "consistency", 0.0 if body.possible else 1.0, 0.5, 2.0,
            "whether least squares alone give a body that can exist; the reported one always can",
        ),
    )  # fmt: skip
