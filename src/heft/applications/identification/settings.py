"""How a robot is identified: the settings."""

from __future__ import annotations

from dataclasses import dataclass

from heft.estimators import (
    ESTIMATORS,
    BandwidthSearch,
    DelaySearch,
    Estimator,
    LeastSquares,
    PhysicallyConsistent,
    robust_methods,
)
from heft.files import Keys, Number, Text, check_fields
from heft.signals import Smoothing, Weak

from .limits import Limits

MOST_THREADS = 1024
CHECKS: Keys = {
    "threads": Number("threads are not a whole number", 1, MOST_THREADS, whole=True),
}


@dataclass(frozen=True)
class Settings:
    """How a robot is identified. The defaults are meant to be right.

    Attributes:
        smoothing: How motion is made smooth.
        delay_search: How a delay of torque behind motion is looked for, if the smoothing
            states none.
        bandwidth_search: How much sharper motion may be than its band, if no corner is stated.
        least_squares: The base parameters, and the weights of the channels.
        consistent: What goes into the model file.
        weak: Windows of the weak form; rows are differentiated if not given.
        method: The estimator of base parameters, by its name in `heft.estimators.ESTIMATORS`;
            `least-squares` is the one above.
        robust: What finds rows that are no part of the experiment (pushes, collisions, spikes),
            which are then left out; `none` takes all.
        average: Whether logs of motion that repeats are averaged over its periods first.
        threads: How many threads share the work; the result does not depend on it.
        limits: Up to where the checks pass, which make the verdict.
    """

    smoothing: Smoothing = Smoothing()
    delay_search: DelaySearch = DelaySearch()
    bandwidth_search: BandwidthSearch = BandwidthSearch()
    least_squares: LeastSquares = LeastSquares()
    consistent: PhysicallyConsistent = PhysicallyConsistent()
    weak: Weak | None = None
    method: str = "least-squares"
    robust: str = "none"
    average: bool = False
    threads: int = 2
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        # Estimators may be registered at any time, so names are looked up when they are needed.
        names: Keys = {
            "method": Text("there is no such estimator", tuple(ESTIMATORS)),
            "robust": Text(
                "there is no such way of finding rows that do not belong",
                ("none", *robust_methods()),
            ),
        }
        check_fields(self, {**names, **CHECKS})

    @property
    def estimator(self) -> Estimator:
        """The estimator of base parameters that is asked for."""
        return self.least_squares if self.method == "least-squares" else ESTIMATORS[self.method]()
