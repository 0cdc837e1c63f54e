"""Output error of the positions in closed loop: the motion of a simulation, fitted (CLOE).

    argmin Σ w² ‖q − q_s(β)‖²

q_s is the position of the simulated experiment under its controller, and ∂q_s/∂β comes from its
variational equations [Gautier2013b, section II; Landau1997]. No torque is used but by way of
the controller, whose gains must be those of the robot, in newton metres.
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
class OutputError:
    """Output error of the position in closed loop, CLOE, by Gauss and Newton.

    Raw positions are compared, without any filter. Use it for comparison: it believes all of the
    simulation, gains and friction, and sees parameters only as far as the controller lets the
    robot err.

    Attributes:
        simulate: Simulates the experiment; needed for a fit.
        passes: Simulations at most.
        tolerance: Change at which they end [standard deviations].
        least_squares: What weighs the joints.

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
            return of_outputs(problem, simulation.positions(problem, values), values)

        turns = Passes(self.passes, self.tolerance, descending=True)
        return turns.settled(problem, self.simulate, rows, self.least_squares, "output-error")
