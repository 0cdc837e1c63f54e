"""Settings of an identification, limits of its checks, and who is told how far it is."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from heft.certainty import BandwidthSearch, DelaySearch, Jackknife
from heft.errors import InvalidSetting, shown
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

from .simple_friction import SlidingFit

# Which rows are asked for; the command line reads its choices here.
RowKind: TypeAlias = Literal["auto", "weak", "differentiated"]
Progress: TypeAlias = Callable[[str], None]


def silent(_: str) -> None:
    """Ignore a progress message."""


@dataclass(frozen=True)
class Limit:
    """Thresholds of a check: it passes up to one, warns up to the other, and fails beyond.

    Raises:
        InvalidSetting: If not 0 ≤ `passes` ≤ `fails`.
    """

    passes: float  # largest value that passes
    fails: float = math.inf  # largest value that only warns; infinite for a check that never fails

    def __post_init__(self) -> None:
        if not 0.0 <= self.passes <= self.fails:
            raise InvalidSetting(
                "a limit fails before it passes",
                argument="limits",
                got=shown((self.passes, self.fails)),
                expected="0 <= passes <= fails",
            )


@dataclass(frozen=True)
class Limits:
    """Limits of the checks of an identification, by the names of the checks; see `docs/verdict.md`.

    Errors of torque are relative and of low-pass filtered torque.
    """

    # condition number of the scaled columns of the base regressor
    condition: Limit = Limit(100.0, 1000.0)
    time_step: Limit = Limit(0.1, 1.0)  # sampling interval of a log [s]
    # share of rows that are not finite or out of order; the same of rows in which every torque is
    # exactly 0
    lost_rows: Limit = Limit(0.01, 0.1)
    worst_joint: Limit = Limit(0.5, 0.9)  # largest relative torque error of a single joint
    mean_of_joints: Limit = Limit(0.35, 0.7)  # mean of the joints' relative torque errors
    # relative torque error over all joints that is to be expected on motion of another kind
    predicted_error: Limit = Limit(0.1, 0.3)
    # relative difference of torque between full friction and the simple one, which is all that a
    # model file says. On simulated arms true errors with simple friction were two to three times as
    # large at most; those of .06 to .12 began at .041 and .047
    simple_friction: Limit = Limit(0.04)
    # relative torque error over all joints, on held-out logs
    held_out_error: Limit = Limit(0.1, 0.3)
    generalisation: Limit = Limit(2.0, 10.0)  # error on held-out logs over error on fitted logs
    # standard deviation of the residual over the joint's range of torque
    residual_size: Limit = Limit(0.1, 0.3)
    # number of parameters over the effective number of independent rows
    residual_whiteness: Limit = Limit(0.5)
    # median ratio, either way, between identified masses and the model file's, over the masses that
    # the data identify
    shift_of_masses: Limit = Limit(5.0, 50.0)
    # factor, either way, between the torque of bodies and that of the model file's masses, where
    # these explain at least the share `scale_explained` of it: files' masses 1.3 to 2.2 times off
    # explain 73 to 100 % and are 2.5 times off together at most; placeholders explain 3 to 25 %
    unit_of_torque: Limit = Limit(2.0, 5.0)
    scale_explained: float = 0.7
    # share of the masses that the prior determines and not the data
    masses_not_seen: Limit = Limit(0.5)
    # share of links on the boundary of physical consistency
    links_on_the_boundary: Limit = Limit(0.75)
    # share of the torque's variation in the residual, above which a fit is refused
    unexplained: float = 0.9
    # predicted error above which no model file and no friction code are written (a measured arm
    # with .15 held out has 1.6); the same of a mass's standard deviation, as a multiple of
    # the model file's mass
    predicted_nonsense: float = 10.0
    nonsense_deviation: float = 10.0
    still: float = 1e-3  # RMS velocity below which a joint counts as not moving [rad/s or m/s]
    # reduction of a mass's prior variance by the data, from which the mass counts as identified [0
    # to 1]
    seen: float = 0.5


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
        checks: Keys = {
            "threads": Number("threads are not a whole number", 1, 1024, whole=True),
            "method": Text("there is no such estimator", tuple(ESTIMATORS)),
            "rows": Text("there are no such rows", get_args(RowKind)),
            "robust": Text(
                "there is no such way of finding rows that do not belong",
                ("none", *robust_methods()),
            ),
        }
        check_fields(self, checks)

    @property
    def estimator(self) -> Estimator:
        """The estimator of base parameters that `method` names."""
        return self.least_squares if self.method == "least-squares" else ESTIMATORS[self.method]()
