"""Every estimator on the same data: Monte Carlo in closed loop, and real logs."""

from .candidates import USUAL, names
from .experiments import FRICTION, NOISE, Case
from .trials import Outcome, RealLogs
from .summary import Summary
from .bench import Bench, BenchSettings, run_bench
