"""Instrumental variables: least squares along rows that noise is not in (IDIM-IV).

    Σ Zᵀ (τ − Y β) = 0

with Y of measured and Z of simulated motion. What noise adds to Y is independent of Z, so that no
noise of positions biases β as it does in least squares [Janot2014]. What smoothing takes off the
motion itself is in Y and in Z alike, and stays. The simulation shows it, whose torque τ_s is exact:

    Σ Zᵀ ((τ − Y β) − (τ_s − Z β)) = 0
"""

from __future__ import annotations

from dataclasses import dataclass

from heft.arrays import Array

from .estimate import Estimate
from .least_squares import LeastSquares
from .problem import Problem
from .simulated_rows import Passes, SimulatedPiece, SimulatedRows, Simulation, paired


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
