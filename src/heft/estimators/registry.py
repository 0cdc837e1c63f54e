"""Every estimator of base parameters by name: what `--method` and `--robust` choose from.

A further estimator is a file of this room, a line here and a line in the table of laws
(`tests/test_estimator_laws.py`); the command line's choices are compared with this table by a test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from .estimate import Estimate
from .least_squares import LeastSquares
from .robust import Hampel, Huber, RowProblem
from .segments import BlockMedian, Ransac


class Estimator(Protocol):
    """An estimator of base parameters: frozen settings with one verb."""

    def fit(self, problem: RowProblem, /) -> Estimate:
        """Return base parameters β with their covariance, from a problem's rows."""
        ...


@dataclass(frozen=True)
class Method:
    """An estimator with its default settings, as `heft identify --method` offers it.

    Attributes:
        make: Makes it.
        summary: What it does, for help.
        robust: Whether it finds rows that are no part of the experiment.
    """

    make: Callable[[], Estimator]
    summary: str
    robust: bool = False

    def __call__(self) -> Estimator:
        """Return the estimator."""
        return self.make()


def ordinary() -> LeastSquares:
    """Return ordinary least squares, `argmin Σ_c ‖Y_c β − τ_c‖²`, with honest covariance."""
    return LeastSquares(weighting="none")


ESTIMATORS: dict[str, Method] = {
    "least-squares": Method(LeastSquares, "rows weighted by their channel's noise"),
    "ordinary": Method(ordinary, "all rows weigh the same"),
    "huber": Method(Huber, "rows weigh less the farther off they are", robust=True),
    "hampel": Method(Hampel, "rows that stand out from their neighbours are left out", robust=True),
    "blocks": Method(BlockMedian, "the median of what blocks of the log say", robust=True),
    "ransac": Method(Ransac, "the pieces of the log that agree with one another", robust=True),
}


def robust_methods() -> dict[str, Method]:
    """Return the estimators that find rows that are no part of the experiment, by name."""
    return {name: method for name, method in ESTIMATORS.items() if method.robust}
