"""Settings of smoothing: filter, cutoff, delay, treatment of torque."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from heft.errors import InvalidSetting
from heft.files import Keys, Number, Text, check_fields, list_of

CHECKS: Keys = {
    "corner": Number(
        "the corner of the low-pass is no positive frequency",
        least=1e-3,  # of a lower one nothing is left between the margins of any log
        unit="Hz",
        cure="give none to choose it from the data",
    ),
    "order": Number("the order of the low-pass is none", least=1, most=8, whole=True),
    "trim": Number("the trim is negative", least=0.0, unit="s"),
    "torque": Text("torque is neither raw nor filtered", ("raw", "filtered")),
    "delay": Number("the delay is none", -0.05, 0.05, unit="s"),
    "method": Text("there is no such way of smoothing", ("butterworth", "spline", "fourier")),
    "corners": list_of(
        Number("the corner of a spline is no positive frequency", above=0.0, unit="Hz"),
        of="frequencies, one a joint,",
    ),
    "period": Number("the period is no positive time", above=0.0, unit="s"),
}


@dataclass(frozen=True)
class Smoothing:
    """Settings of smoothing and differentiating logged positions.

    Raises:
        InvalidSetting: If a setting is out of range, or does not fit the method.
    """

    # cutoff frequency of the low-pass [Hz], or None to choose it from the data: `20 · f99`, where
    # f99 is the frequency below which 99 % of the velocity's energy lies, the largest of all joints
    # (see `choose_corner`)
    corner: float | None = None
    order: int = 8  # order of the Butterworth filter, which runs forwards and backwards
    trim: float = 0.5  # time cut off at each end of a segment [s]
    # `raw`, or `filtered` to filter regressor and torque alike and decimate both
    torque: Literal["raw", "filtered"] = "raw"
    # delay of torque behind motion [s]; None to estimate it, and to apply it only on strong
    # evidence (see `certainty.DelaySearch`)
    delay: float | None = None
    # `butterworth`, a low-pass run both ways and central differences; `spline`, a penalised spline
    # of each joint with exact derivatives, for any times; `fourier`, one series for the whole log,
    # for periodic motion
    method: Literal["butterworth", "spline", "fourier"] = "butterworth"
    # corner of each joint's spline [Hz]; if not given, `corner` where that is, else chosen by
    # cross-validation between 2.5 · f99 and 20 · f99 (see `choose_corners`)
    corners: tuple[float, ...] | None = None
    # of the motion [s], for `fourier`; found from the data if not given
    period: float | None = None

    def __post_init__(self) -> None:
        if self.corners is not None:  # files know no tuples
            object.__setattr__(self, "corners", tuple(self.corners))
        check_fields(self, CHECKS)
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
