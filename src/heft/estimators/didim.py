"""Direct and inverse dynamic identification: the torque of a simulation, fitted (DIDIM).

    argmin Σ w² ‖τ − τ_s(β)‖²

τ_s is the torque of the simulated experiment. Under a controller that makes the robot follow
whatever its parameters are, the simulated motion hardly depends on β, so ∂τ_s/∂β is the regressor
of the simulated motion [Gautier2013b]. No measured position is used.
"""

from __future__ import annotations

from dataclasses import dataclass

from heft.arrays import Array
from heft.files import check_fields

from .estimate import Estimate
from .least_squares import LeastSquares
from .robust import RowProblem
from .simulated_rows import CHECKS, Passes, Piece, SimulatedRows, Simulation, paired


@dataclass(frozen=True)
class Didim:
    """Output error of the torque in closed loop, DIDIM.

    Measured and simulated torque pass the same filters. Use it where encoders are noisy and the
    controller is known; friction that is not of the form that is simulated biases it.

    Attributes:
        simulate: Simulates the experiment; needed for a fit.
        passes: Simulations at most.
        tolerance: Change at which they end [standard deviations].
        least_squares: What weighs the channels.

    Raises:
        InvalidSetting: If a setting is out of range.
    """

    simulate: Simulation | None = None
    passes: int = 60
    tolerance: float = 0.05
    least_squares: LeastSquares = LeastSquares()

    def __post_init__(self) -> None:
        check_fields(self, {k: CHECKS[k] for k in ("passes", "tolerance")})

    def fit(self, problem: RowProblem) -> Estimate:
        """Return base parameters β; its `passes` count the simulations.

        Raises:
            InvalidSetting: If there is nothing to simulate with.
            FitError: If it does not settle.
            SolverFailure: If the experiment cannot be simulated.
        """

        def rows(simulation: Simulation, values: Array) -> SimulatedRows:
            pieces = [
                Piece(z.regressor, own.effort - z.effort + z.regressor @ values, time, recording)
                for own, z, time, recording in paired(
                    problem, simulation.simulated(problem, values)
                )
            ]
            return SimulatedRows.of(problem, pieces)

        turns = Passes(self.passes, self.tolerance, descending=True)
        return turns.settled(problem, self.simulate, rows, self.least_squares, "didim")
