"""Settings of an identification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from heft.certainty import BandwidthSearch, DelaySearch, Jackknife
from heft.estimators import (
    ESTIMATORS,
    Estimator,
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
    """Settings of an identification. The defaults suit most robots."""

    smoothing: Smoothing = Smoothing()  # smoothing and differentiation of the motion
    # search for the delay of torque behind motion, used if `smoothing` states none
    delay_search: DelaySearch = DelaySearch()
    # search for a cutoff frequency other than that of the motion's band, used if `smoothing` states
    # none
    bandwidth_search: BandwidthSearch = BandwidthSearch()
    least_squares: LeastSquares = LeastSquares()  # weighted least squares for the base parameters
    # noise of channels that contacts' unknown wrenches mix
    variance_components: VarianceComponents = VarianceComponents()
    # physically consistent fit of the standard parameters
    consistent: PhysicallyConsistent = PhysicallyConsistent()
    jackknife: Jackknife = Jackknife()  # blocks of the logs that intervals are judged by
    sliding: SlidingFit = SlidingFit()  # fit of simple friction to what slides
    # weak, or differentiated; `auto` is weak wherever windows suit, see `windows_for`
    rows: RowKind = "auto"
    windows: Weak = Weak()  # of the weak form
    # estimator of the base parameters, by its name in `heft.estimators.ESTIMATORS`; `least-squares`
    # is the attribute above
    method: str = "least-squares"
    # robust estimator that finds outliers (pushes, collisions, spikes), which are then removed;
    # `none` keeps all rows
    robust: str = "none"
    average: bool = False  # whether logs of periodic motion are averaged over the periods first
    threads: int = 2  # number of threads; the result does not depend on it
    limits: Limits = Limits()  # limits of the checks

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
