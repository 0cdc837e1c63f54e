"""How motion is made smooth: the settings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Literal

from heft.errors import InvalidSetting, shown

LARGEST_DELAY = 0.05  # [s]
LOWEST_CORNER = 1e-3  # [Hz]; of a lower one nothing is left between the margins of any log
METHODS = ("butterworth", "spline", "fourier")


@dataclass(frozen=True)
class Smoothing:
    """How motion is made smooth.

    Attributes:
        corner: Corner of the low-pass [Hz], or None to choose it from the data: `20 · f99`,
            where f99 is the frequency below which 99 % of the velocity's energy lies, of the
            joint where it is highest (see `choose_corner`).
        order: Order of the Butterworth filter, which runs forwards and backwards.
        trim: Time cut off at each end of a segment [s].
        torque: `raw`, or `filtered` to filter rows and torque alike and thin both out.
        delay: By how much torque comes behind motion [s]; None to look for it, and to take it
            only on strong evidence (see `estimators.Delay`).
        method: `butterworth`, a low-pass run both ways and central differences; `spline`, a
            penalised spline of each joint with exact derivatives, for any times; `fourier`,
            one series for the whole log, for motion that repeats.
        corners: Corner of each joint's spline [Hz]; if not given, the corner where one is, else
            chosen by cross-validation between 2.5 · f99 and 20 · f99 (see `choose_corners`).
        period: Of the motion [s], for `fourier`; looked for in the data if not given.
    """

    corner: float | None = None
    order: int = 8
    trim: float = 0.5
    torque: Literal["raw", "filtered"] = "raw"
    delay: float | None = None
    method: Literal["butterworth", "spline", "fourier"] = "butterworth"
    corners: tuple[float, ...] | None = None
    period: float | None = None

    def __post_init__(self) -> None:
        if self.corners is not None:  # files know no tuples
            object.__setattr__(self, "corners", tuple(self.corners))
        if self.method not in METHODS:
            raise InvalidSetting(
                "there is no such way of smoothing",
                argument="method",
                got=self.method,
                valid=METHODS,
            )
        for name in ("corner", "trim", "delay", "period"):
            value = getattr(self, name)
            if (value is None and name != "trim") or isinstance(value, Real):
                continue
            raise InvalidSetting("a number is expected", argument=name, got=shown(value))
        if not all(math.isfinite(c) and c > 0.0 for c in self.corners or ()):
            raise InvalidSetting(
                "the corner of a spline is no positive frequency",
                argument="corners",
                got=self.corners,
                expected="Hz, one a joint",
            )
        if self.corners is not None and self.method != "spline":
            raise InvalidSetting(
                "only splines have a corner for each joint",
                argument="corners",
                got=f"method '{self.method}'",
                cure="take the method 'spline', or give one corner",
            )
        if self.period is not None and self.method != "fourier":
            raise InvalidSetting(
                "a period is given, but the method does not ask for one",
                argument="period",
                got=f"method '{self.method}'",
                cure="take the method 'fourier', or leave the period out",
            )
        if self.period is not None and not (math.isfinite(self.period) and self.period > 0.0):
            raise InvalidSetting(
                "the period is no positive time", argument="period", got=self.period, expected="s"
            )
        if self.corner is not None and not LOWEST_CORNER <= self.corner < math.inf:
            raise InvalidSetting(
                "the corner of the low-pass is no positive frequency",
                argument="corner",
                got=self.corner,
                expected=f"{LOWEST_CORNER:g} Hz or more, or none to choose it from the data",
            )
        if not (math.isfinite(self.trim) and self.trim >= 0.0):
            raise InvalidSetting("the trim is negative", argument="trim", got=self.trim)
        if type(self.order) is not int or not 1 <= self.order <= 8:
            raise InvalidSetting(
                "the order of the low-pass is none",
                argument="order",
                got=self.order,
                expected="1 to 8",
            )
        if self.delay is not None and not abs(self.delay) <= LARGEST_DELAY:
            raise InvalidSetting(
                "the delay is none",
                argument="delay",
                got=self.delay,
                expected=f"seconds, at most {LARGEST_DELAY:g}",
            )
        if self.torque not in ("raw", "filtered"):
            raise InvalidSetting(
                "torque is neither raw nor filtered",
                argument="torque",
                got=self.torque,
                valid=("raw", "filtered"),
            )
