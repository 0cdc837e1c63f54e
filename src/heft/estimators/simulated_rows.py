"""Rows of a simulated experiment, in place of those that measured motion makes.

Noise of a measured position is in the regressor, too, and biases least squares. A simulation of
the same experiment with the parameters found so far has none. Estimators that simulate repeat

    β ← argmin Σ_c w_c² ‖Z_c (β' − β) − e_c(β)‖²

with Z of the simulation and e what it leaves unexplained: each pass is least squares of a problem
whose rows are Z and e + Z β, so that weights, rank, noise and covariance are those of any other.
They differ in e.

Instrumental variables (IDIM-IV) are least squares along rows that noise is not in,

    Σ Zᵀ (τ − Y β) = 0

with Y of measured and Z of simulated motion. What noise adds to Y is independent of Z, so that no
noise of positions biases β as it does in least squares [Janot2014]. What smoothing takes off the
motion itself is in Y and in Z alike, and stays. The simulation shows it, whose torque τ_s is exact:

    Σ Zᵀ ((τ − Y β) − (τ_s − Z β)) = 0

Output error in closed loop is what a simulation of the experiment puts out, fitted:

    argmin Σ w² ‖y − y_s(β)‖²

y is the torque (DIDIM [Gautier2013b]: direct and inverse dynamic identification) or the position
(CLOE [Gautier2013b, section II; Landau1997]: closed-loop output error), y_s that of the simulation
under its controller. DIDIM as it was published takes the regressor of the simulated motion for
∂τ_s/∂β, since under a stiff controller the motion hardly depends on β. Here ∂y_s/∂β is the
derivative of the simulation, by its variational equations: under a soft controller the regressor
does not lead to the minimum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np

from heft.arrays import Array
from heft.errors import FitError, InvalidSetting, SolverFailure
from heft.files import Keys, Number, Text, check_fields
from heft.information import Information, Labels

from .estimate import Estimate
from .least_squares import LeastSquares
from .problem import PlainResiduals, Problem, Rows


class Simulation(Protocol):
    """The experiment of a problem, simulated with other parameters: robot and controller.

    `simulation.ClosedLoop` is one.
    """

    def starts(self, problem: Any, values: Array, /) -> Sequence[Array]:
        """Return β to begin with, the best first, (b,) each, from β by least squares, (b,)."""
        ...

    def simulated(self, problem: Any, values: Array, /) -> Problem:
        """Return the problem with the logs that the experiment makes with parameters β.

        Raises:
            SolverFailure: If it cannot be simulated.
        """
        ...

    def positions(self, problem: Any, values: Array, /) -> Iterator[SimulatedPiece]:
        """Yield ∂q/∂β, and measured less simulated positions [rad or m]; see `simulated`."""
        ...

    def efforts(self, problem: Any, values: Array, /) -> Iterator[SimulatedPiece]:
        """Yield ∂τ/∂β, and measured less simulated efforts [N·m or N]; see `simulated`."""
        ...


@dataclass(frozen=True, eq=False)
class SimulatedPiece:
    """Rows of a contiguous piece, of a simulation with parameters β."""

    regressor: Array  # Z, shape (N, channels, b)
    # what Z is to explain, shape (N, channels): e as a simulation yields it, e + Z β as rows of a
    # problem
    effort: Array
    time: Array  # shape (N,) [s]
    recording: int  # position of the recording in the problem


@dataclass(frozen=True, eq=False)
class SimulatedRows:
    """A problem of rows that were simulated, for `LeastSquares`."""

    # labels, channels, noise_names, spacing, repeats: of the problem that was measured
    labels: Labels
    channels: tuple[str, ...]
    noise_names: tuple[str, ...]
    spacing: int
    repeats: float | None
    pieces: tuple[SimulatedPiece, ...]  # its rows

    @staticmethod
    def of(problem: Problem, pieces: Sequence[SimulatedPiece]) -> SimulatedRows:
        """Return the rows as a problem with the labels and channels of another."""
        names = (problem.labels, problem.channels, problem.noise_names)
        return SimulatedRows(*names, problem.spacing, problem.repeats, tuple(pieces))

    def rows(self) -> Iterator[SimulatedPiece]:
        """Yield the rows by pieces."""
        return iter(self.pieces)

    def information(self) -> Information:
        """Return the information of all rows."""
        total = Information.neutral(self.labels, self.channels)
        for p in self.pieces:
            total = total + Information.from_rows(self.labels, self.channels, p.regressor, p.effort)
        return total

    def residuals(self, values: Array) -> Iterator[PlainResiduals]:
        """Yield the residuals of β, piece by piece."""
        for p in self.pieces:
            rows = p.regressor
            yield PlainResiduals(p.effort - rows @ values, rows.__getitem__, p.recording)

    def residual_energy(self, values: Array) -> Array:
        """Return the residual energy of β, shape (channels,)."""
        energy = [np.sum(r.values**2, axis=0) for r in self.residuals(values)]
        return np.asarray(np.sum(energy, axis=0))


def unknown_controller(name: str) -> InvalidSetting:
    """Return the error of an estimator that simulates, where the controller is not known."""
    return InvalidSetting(
        "this estimator simulates the experiment, whose controller is not known",
        argument=f"--method {name}",
        cure="state the gains in [controller] of --with, and log q_ref.<joint>",
    )


@dataclass(frozen=True)
class Passes:
    """Settings of the iteration between simulation and least squares.

    Raises:
        InvalidSetting: If a setting is out of range.
    """

    passes: int = 20  # simulations at most
    # change at which they end [standard deviations, the mean over parameters]
    tolerance: float = 0.05
    halvings: int = 12  # of a step, at most, whose parameters cannot be simulated
    descending: bool = False  # whether a step is halved, too, that explains less than it began with

    def __post_init__(self) -> None:
        checks: Keys = {
            "passes": Number("the number of passes is no whole number", 1, 1000, whole=True),
            "tolerance": Number("the tolerance is no positive number", above=0.0),
            "halvings": Number("the number of halvings is no whole number", 0, 60, whole=True),
        }
        check_fields(self, checks)

    def settled(
        self,
        problem: Problem,
        simulation: Simulation | None,
        rows: Callable[[Simulation, Array], SimulatedRows],
        solver: LeastSquares,
        name: str,
    ) -> Estimate:
        """Return the estimate at which simulation and least squares agree.

        Args:
            rows: Returns the rows Z and e + Z β of a simulation with β.
            solver: Least squares, by which covariance and weights are found.

        Raises:
            InvalidSetting: If there is no simulation: the controller is not known.
            FitError: If it does not settle.
            SolverFailure: If no step can be simulated.
        """
        if simulation is None:
            raise unknown_controller(name)
        plain = replace(solver, coloured=False)
        starts = simulation.starts(problem, plain.fit(problem).fitted)
        values, made = _first(starts, lambda start: rows(simulation, start))
        change = np.inf
        for used in range(1, self.passes + 1):
            estimate = plain.fit(made)
            moved, size = estimate.fitted - values, estimate.parameters.std
            finite = np.isfinite(size) & (size > 0.0)
            change = (
                float(np.sqrt(np.mean((moved[finite] / size[finite]) ** 2))) if any(finite) else 0
            )
            if change <= self.tolerance or np.abs(moved).max() <= 1e-12 * np.abs(values).max():
                settled = solver.fit(made)
                settings = {**settled.settings, "simulated": name, "simulations": used}
                return replace(settled, passes=used, settings=settings)
            halves = [values + 0.5**k * moved for k in range(self.halvings + 1)]
            most = self._left(made, values, estimate.noise.sigma) if self.descending else np.inf
            values, made = self._lower(halves, simulation, rows, most, estimate.noise.sigma)
        raise FitError(
            "simulation and least squares do not settle",
            argument=name,
            got=f"parameters still moved by {change:.3g} standard deviations after "
            f"{self.passes} simulations",
            cure="check the controller's gains and references against the log",
        )

    def _left(self, made: SimulatedRows, values: Array, sigma: Array) -> float:
        return float(np.sum(made.residual_energy(values) / sigma**2))

    def _lower(
        self,
        halves: Sequence[Array],
        simulation: Simulation,
        rows: Callable[[Simulation, Array], SimulatedRows],
        most: float,
        sigma: Array,
    ) -> tuple[Array, SimulatedRows]:
        """Return the farthest half of a step with residual energy at most `most`, and its rows."""
        for k in range(len(halves)):
            values, made = _first(halves[k:], lambda tried: rows(simulation, tried))
            if self._left(made, values, sigma) <= most:
                break
        return values, made


def _first(
    candidates: Sequence[Array], rows: Callable[[Array], SimulatedRows]
) -> tuple[Array, SimulatedRows]:
    for k, values in enumerate(candidates):
        try:
            return values, rows(values)
        except SolverFailure:
            if k == len(candidates) - 1:
                raise
    raise AssertionError("nothing to begin with")


def about(errors: SimulatedPiece, values: Array) -> SimulatedPiece:
    """Return rows of the parameters from a simulation's ∂y/∂β, errors of y and β, shape (b,)."""
    return replace(errors, effort=errors.effort + errors.regressor @ values)


def paired(problem: Problem, simulated: Problem) -> Iterator[tuple[Rows, Rows, Array, int]]:
    """Yield rows of measured and of simulated motion that are of the same times.

    Yields:
        Measured rows, simulated rows, their times and their recording.

    Raises:
        FitError: If they are not of the same times.
    """
    for own, other in zip(problem.rows(), simulated.rows(), strict=True):
        if own.time.shape != other.time.shape or own.recording != other.recording:
            raise FitError(
                "measured and simulated rows are not of the same times",
                got=f"{len(own.time)} and {len(other.time)} rows from {own.time[0]:g} s on",
                cure="give a log whose clock and gaps are the same for positions and references",
            )
        yield own, other, own.time, own.recording


@dataclass(frozen=True)
class InstrumentalVariables:
    """Instrumental variables from a simulation of the experiment, IDIM-IV.

    Instruments pass the same filters as the rows, and are simulated again with what was found,
    until nothing moves. The covariance is that of rows Z.
    Use it where encoders are noisy; it needs the controller, but no more of the motion's noise.
    """

    simulate: Simulation | None = None  # simulates the experiment; needed for a fit
    # whether what the smoothing distorts is taken off, as the simulation shows it; the method as it
    # was published does not
    corrected: bool = True
    turns: Passes = Passes()  # how simulation and least squares take turns
    least_squares: LeastSquares = LeastSquares()  # what weighs the channels

    def fit(self, problem: Problem) -> Estimate:
        """Return base parameters β; its `passes` count the simulations.

        Raises:
            InvalidSetting: If there is nothing to simulate with.
            FitError: If it does not settle.
            SolverFailure: If the experiment cannot be simulated.
        """

        def rows(simulation: Simulation, values: Array) -> SimulatedRows:
            pieces = []
            made = simulation.simulated(problem, values)
            for own, other, time, recording in paired(problem, made):
                Z = other.regressor
                effort = own.effort - (own.regressor - Z) @ values
                if self.corrected:
                    effort = effort - (other.effort - Z @ values)
                pieces.append(SimulatedPiece(Z, effort, time, recording))
            return SimulatedRows.of(problem, pieces)

        name = "instrumental"
        return self.turns.settled(problem, self.simulate, rows, self.least_squares, name)


NAMES = {"torque": "didim", "position": "output-error"}


@dataclass(frozen=True)
class OutputError:
    """Output error in closed loop, by Gauss and Newton.

    Raw logs are compared, without any filter. That of the torque serves where encoders are noisy
    and the controller is known; friction that is not of the form that is simulated biases it.
    That of the position is for comparison: torque acts by way of the controller only, whose gains
    must be those of the robot, and it sees parameters only as far as the robot may err.

    Raises:
        InvalidSetting: If a setting is unknown.
    """

    simulate: Simulation | None = None  # simulates the experiment; needed for a fit
    # what is compared, `torque` (DIDIM) or `position` (CLOE)
    output: Literal["torque", "position"] = "torque"
    turns: Passes = Passes(40, descending=True)  # how simulation and least squares take turns
    least_squares: LeastSquares = LeastSquares()  # what weighs the channels

    def __post_init__(self) -> None:
        checks: Keys = {"output": Text("there is no such output", tuple(NAMES))}
        check_fields(self, checks)

    def fit(self, problem: Problem) -> Estimate:
        """Return base parameters β; its `passes` count the simulations.

        Raises:
            InvalidSetting: If there is nothing to simulate with.
            FitError: If it does not settle.
            SolverFailure: If the experiment cannot be simulated.
        """

        def rows(simulation: Simulation, values: Array) -> SimulatedRows:
            of_torque = self.output == "torque"
            outputs = simulation.efforts if of_torque else simulation.positions
            errors = outputs(problem, values)
            return SimulatedRows.of(problem, tuple(about(piece, values) for piece in errors))

        name = NAMES[self.output]
        return self.turns.settled(problem, self.simulate, rows, self.least_squares, name)
