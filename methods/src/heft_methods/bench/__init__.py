"""Every estimator on the same data: Monte Carlo in closed loop, and real logs."""

from typing import TYPE_CHECKING

from heft.loading import lazy

if TYPE_CHECKING:
    from .candidates import USUAL, names
    from .experiments import FRICTION, NOISE, Case
    from .trials import Outcome, RealLogs
    from .summary import Summary
    from .bench import Bench, BenchSettings, run_bench
else:
    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
