"""What `--method` and `--robust` name, here and in other distributions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from heft.arrays import Array

from .estimate import Estimate
from .problem import Problem


class Estimator(Protocol):
    """An estimator of base parameters: frozen settings with one verb."""

    def fit(self, problem: Problem, /) -> Estimate:
        """Return base parameters β with their covariance, from a problem's rows."""
        ...


class Polish(Protocol):
    """Steps that go on from the consistent estimate of the semidefinite program."""

    def polish(self, rows: Any, start: Array, margin: float, /) -> Polished:
        """Return where steps from a consistent point end.

        Args:
            rows: Rows and prior on scaled unknowns; see `consistent.Scaled`.
            start: u with bodies in the cone, shape (n,).
            margin: ε ≥ 0 in `S(x) ⪰ ε S₀`.
        """
        ...


class Polished(Protocol):
    """Where steps ended."""

    @property
    def unknown(self) -> Array:
        """Scaled unknowns u, shape (n,)."""
        ...

    @property
    def steps(self) -> int:
        """Steps that were tried."""
        ...


@dataclass(frozen=True)
class Method:
    """An estimator with its default settings, as `heft identify --method` offers it."""

    make: Callable[[], Estimator]  # makes it
    summary: str  # what it does, for help
    robust: bool = False  # whether it finds rows that are no part of the experiment
    # what goes on from the physically consistent estimate that follows; see `PhysicallyConsistent`
    polish: Polish | None = None
    # whether it needs a simulation of the experiment, its field `simulate`, and hence the
    # controller that the experiment was made with
    simulates: bool = False
    # refuses a robot that it is not for, before logs are read
    require: Callable[[Any], object] | None = None
    # whether rows of the weak form suit it; others look at the noise of each sample, or make up for
    # what the motion's noise does
    windows: bool = False

    def __call__(self) -> Estimator:
        """Return the estimator."""
        return self.make()
