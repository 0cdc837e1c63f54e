"""Settings of an identification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from heft.estimators import (
    ESTIMATORS,
    BandwidthSearch,
    DelaySearch,
    Estimator,
    Jackknife,
    LeastSquares,
    PhysicallyConsistent,
    VarianceComponents,
    robust_methods,
)
from heft.files import Keys, Number, Text, check_fields
from heft.signals import Smoothing, Weak

from .limits import Limits
from .simple_friction import SlidingFit

# Which rows are asked for; the command line reads its choices here.
RowKind: TypeAlias = Literal["auto", "weak", "differentiated"]
MOST_THREADS = 1024
CHECKS: Keys = {
    "threads": Number("threads are not a whole number", 1, MOST_THREADS, whole=True),
}


@dataclass(frozen=True)
class Settings:
    """Settings of an identification. The defaults suit most robots.

    Attributes:
        smoothing: Smoothing and differentiation of the motion.
        delay_search: Search for the delay of torque behind motion, used if `smoothing` states none.
        bandwidth_search: Search for a cutoff frequency other than that of the motion's band, used
            if `smoothing` states none.
        least_squares: Weighted least squares for the base parameters.
        variance_components: Noise of channels that contacts' unknown wrenches mix.
        consistent: Physically consistent fit of the standard parameters.
        jackknife: Blocks of the logs that intervals are judged by.
        sliding: Fit of simple friction to what slides.
        rows: Weak, or differentiated; `auto` is weak wherever windows suit, see
            `windows_for`.
        windows: Of the weak form.
        method: Estimator of the base parameters, by its name in `heft.estimators.ESTIMATORS`;
            `least-squares` is the attribute above.
        robust: Robust estimator that finds outliers (pushes, collisions, spikes), which are then
            removed; `none` keeps all rows.
        average: Whether logs of periodic motion are averaged over the periods first.
        threads: Number of threads; the result does not depend on it.
        limits: Limits of the checks.
    """

    smoothing: Smoothing = Smoothing()
    delay_search: DelaySearch = DelaySearch()
    bandwidth_search: BandwidthSearch = BandwidthSearch()
    least_squares: LeastSquares = LeastSquares()
    variance_components: VarianceComponents = VarianceComponents()
    consistent: PhysicallyConsistent = PhysicallyConsistent()
    jackknife: Jackknife = Jackknife()
    sliding: SlidingFit = SlidingFit()
    rows: RowKind = "auto"
    windows: Weak = Weak()
    method: str = "least-squares"
    robust: str = "none"
    average: bool = False
    threads: int = 2
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        # Estimators may be registered at any time, so names are looked up when they are needed.
        names: Keys = {
            "method": Text("there is no such estimator", tuple(ESTIMATORS)),
            "rows": Text("there are no such rows", get_args(RowKind)),
            "robust": Text(
                "there is no such way of finding rows that do not belong",
                ("none", *robust_methods()),
            ),
        }
        check_fields(self, {**names, **CHECKS})

    @property
    def estimator(self) -> Estimator:
        """The estimator of base parameters that `method` names."""
        return self.least_squares if self.method == "least-squares" else ESTIMATORS[self.method]()
