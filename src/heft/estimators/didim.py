"""Direct and inverse dynamic identification: the torque of a simulation, fitted (DIDIM).

    argmin Σ w² ‖τ − τ_s(β)‖²

τ_s is the torque of the simulated experiment [Gautier2013b]. No measured position is used. The
method as it was published takes the regressor of the simulated motion for ∂τ_s/∂β, since under a
stiff controller the motion hardly depends on β. Here it is the derivative of the simulation, by its
variational equations: under a soft controller the regressor does not lead to the minimum.
"""

from __future__ import annotations

from dataclasses import dataclass

from heft.arrays import Array
from heft.files import check_fields

from .estimate import Estimate
from .least_squares import LeastSquares
from .robust import RowProblem
from .simulated_rows import CHECKS, Passes, SimulatedRows, Simulation, of_outputs


@dataclass(frozen=True)
class Didim:
    """Output error of the torque in closed loop, DIDIM.

    Raw torques are compared, without any filter. Use it where encoders are noisy and the
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
    passes: int = 40
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
            return of_outputs(problem, simulation.efforts(problem, values), values)

        turns = Passes(self.passes, self.tolerance, descending=True)
        return turns.settled(problem, self.simulate, rows, self.least_squares, "didim")
