"""Total least squares: every column of `[Y τ]` is taken to be off, all by as much.

Minimises `‖Y β − τ‖² / (1 + κ² Σ_j (β_j ℓ_j / ℓ_τ)²)`, ℓ the columns' lengths [VanHuffel1991]: of
noise that is white and in each column of Y the share κ of what it is in τ, both relative to the
column, this is the most likely β. It is listed because the field asks for it. Columns of a robot's
regressor are functions of the same few positions and their derivatives: their noise is neither
alike nor independent, and most of τ's residual is no noise of sensors. On simulated arms in closed
loop it was worse than weighted least squares wherever noise was not small.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heft.arrays import Array
from heft.errors import SolverFailure
from heft.estimators import Estimate, LeastSquares, Problem, estimate_at
from heft.files import Keys, Number, check_fields
from heft.information import Directions

# Of the least singular value's square: where less of it is left than rounding of its sum, there is
# no solution.
LEAST_LEFT = 1e-10
CHECKS: Keys = {"ratio": Number("noise of columns is no share of the torque's", 0.0)}


@dataclass(frozen=True)
class TotalLeastSquares:
    """Total least squares of rows weighted by their channel's noise, columns scaled to one length.

    Not to be recommended for robots; see above. Where noise of the motion matters, take the weak
    form (`--rows weak`) or a lower corner; where the motion repeats, average it.

    Raises:
        InvalidSetting: If the ratio is negative.
    """

    # κ, noise of a column of Y over that of τ, each relative to its own size; 0 for least squares,
    # 1 for total least squares
    ratio: float = 1.0

    def __post_init__(self) -> None:
        check_fields(self, CHECKS)

    def fit(self, problem: Problem) -> Estimate:
        """Return base parameters β.

        Raises:
            TooLittleData: If there are no more rows than parameters.
            SolverFailure: If the noise that is assumed leaves some direction without information.
        """
        rough = LeastSquares(coloured=False).fit(problem)
        values, change = self._solved(rough)
        settings: dict[str, object] = {"weighting": "channel", "column_noise": self.ratio}
        scale = rough.noise.sigma
        return estimate_at(problem, rough, values, change, scale, rough.passes, settings)

    def values(self, estimate: Estimate) -> Array:
        """Return β from the information of a least-squares estimate, shape (b,).

        Raises:
            SolverFailure: If the noise that is assumed leaves some direction without information.
        """
        return self._solved(estimate)[0]

    def _solved(self, rough: Estimate) -> tuple[Array, Array]:
        """Return β, and how it changes with the weighted score, shape (b, b)."""
        triangle = rough.information.combined(rough.fitted_with)
        seen = Directions.of(triangle.R, triangle.rows)
        rank, loud = seen.rank, float(np.linalg.norm(triangle.factor[:, -1]))
        singular, right = seen.singular[:rank], seen.left[:, :rank].T @ triangle.z
        # In coordinates in which the scaled columns are orthogonal the noise stays white.
        beside = np.zeros((rank + 1, rank + 1))
        beside[:rank, :rank] = np.diag(singular)
        left = np.linalg.norm(triangle.z - seen.left[:, :rank] @ right)
        beside[:rank, rank] = self.ratio * right / max(loud, 1e-300)
        beside[rank, rank] = (
            self.ratio * np.hypot(left, triangle.factor[-1, -1]) / max(loud, 1e-300)
        )
        noise = float(np.linalg.svd(beside, compute_uv=False)[-1]) ** 2
        kept = singular**2 - noise
        if (kept <= LEAST_LEFT * singular**2).any():
            raise SolverFailure(
                "total least squares has no solution: as much noise as is assumed in the columns "
                "leaves some direction without information",
                argument="method",
                got=f"a share of {noise / float(singular[-1] ** 2):.6f} in the weakest",
                cure="take least-squares",
            )
        lengths = np.where(seen.lengths > 0.0, seen.lengths, 1.0)
        axes = seen.right[:rank].T / lengths[:, None]
        values = axes @ (singular * right / kept)
        return values, (axes / kept) @ axes.T
