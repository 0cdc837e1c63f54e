"""How a robot is identified: the settings."""

from __future__ import annotations

from dataclasses import dataclass

from heft.errors import InvalidSetting, shown
from heft.estimators import Delay, LeastSquares, PhysicallyConsistent, Sharpness
from heft.signals import Smoothing, Weak

from .limits import Limits
from .preparation import ROBUST, Robust

MOST_THREADS = 1024


@dataclass(frozen=True)
class Settings:
    """How a robot is identified. The defaults are meant to be right.

    Attributes:
        smoothing: How motion is made smooth.
        delay: How a delay of torque behind motion is looked for, if the smoothing states none.
        sharpness: How much sharper motion may be than its band, if no corner is stated.
        least_squares: The base parameters, and the weights of the channels.
        consistent: What goes into the model file.
        weak: Windows of the weak form; rows are differentiated if not given.
        robust: What finds rows that are no part of the experiment (pushes, collisions, spikes),
            which are then left out; `none` takes all.
        average: Whether logs of motion that repeats are averaged over its periods first.
        threads: How many threads share the work; the result does not depend on it.
        limits: Up to where the checks pass, which make the verdict.
    """

    smoothing: Smoothing = Smoothing()
    delay: Delay = Delay()
    sharpness: Sharpness = Sharpness()
    least_squares: LeastSquares = LeastSquares()
    consistent: PhysicallyConsistent = PhysicallyConsistent()
    weak: Weak | None = None
    robust: Robust = "none"
    average: bool = False
    threads: int = 2
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        if self.robust not in ("none", *ROBUST):
            raise InvalidSetting(
                "there is no such way of finding rows that do not belong",
                argument="robust",
                got=shown(self.robust),
                valid=("none", *ROBUST),
            )
        if type(self.threads) is not int or not 1 <= self.threads <= MOST_THREADS:
            raise InvalidSetting(
                "threads are not a whole number",
                argument="threads",
                got=shown(self.threads),
                expected=f"1 to {MOST_THREADS}",
            )
