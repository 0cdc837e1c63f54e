"""Output error in closed loop: what a simulation of the experiment puts out, fitted.

    argmin Σ w² ‖y − y_s(β)‖²

y is the torque (DIDIM [Gautier2013b]: direct and inverse dynamic identification) or the position
(CLOE [Gautier2013b, section II; Landau1997]: closed-loop output error), y_s that of the simulation
under its controller. DIDIM as it was published takes the regressor of the simulated motion for
∂τ_s/∂β, since under a stiff controller the motion hardly depends on β. Here ∂y_s/∂β is the
derivative of the simulation, by its variational equations: under a soft controller the regressor
does not lead to the minimum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from heft.arrays import Array
from heft.files import Keys, Text, check_fields

from .estimate import Estimate
from .least_squares import LeastSquares
from .problem import Problem
from .simulated_rows import Passes, SimulatedRows, Simulation, about

NAMES = {"torque": "didim", "position": "output-error"}
CHECKS: Keys = {"output": Text("there is no such output", tuple(NAMES))}


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
        check_fields(self, CHECKS)

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
