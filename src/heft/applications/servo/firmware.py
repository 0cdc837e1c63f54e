"""The firmware's position controller, read off a log of its duty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from heft.errors import InvalidSetting

from .bench import ServoLog

LATEST = 6  # samples by which duty may follow position and goal
SATURATED = 0.98  # of the largest duty, from which it is taken for clipped


@dataclass(frozen=True)
class Firmware:
    """`duty = clip(gain · (goal − position), ± limit)`, `late` behind, as logs show it."""

    gain: float  # duty per rad; where logs state a gain, per its unit
    spread: float  # of the logs' gains, largest less smallest, relative
    share: float  # of the duty's variation that it explains, the least of all logs
    limit: float  # largest duty in the logs
    # of duty behind position and goal, the largest of all logs [s]; below a sample's time it cannot
    # be told
    late: float
    per_unit: bool  # whether the gain is per unit of the gain that logs state

    @staticmethod
    def read_off(logs: Sequence[ServoLog], stated: float | None) -> Firmware | None:
        """Return the controller; None if logs lack duty or goal, or it is no proportional one.

        Args:
            stated: Its gain as the bench states it.

        Raises:
            InvalidSetting: If that is another one.
        """
        per_unit = all(np.isfinite(log.gain) for log in logs)
        controllers = [f for log in logs if (f := _of_log(log, log.gain if per_unit else 1.0))]
        if not controllers:
            return None
        gains, shares, late = np.array(controllers).T
        middle = float(np.median(gains))
        most = max(float(np.abs(log.duty).max()) for log in logs if log.duty is not None)
        if stated is not None and abs(middle / stated - 1.0) > 0.1:
            raise InvalidSetting(
                "the firmware's gain is not the stated one",
                argument="gain",
                got=f"{stated:.4g}",
                expected=f"{middle:.4g} duty per rad{' and unit of kp' if per_unit else ''}, as "
                f"the logs' duty shows (R² {shares.min():.4f})",
                cure="leave gain out of the bench's TOML: it is read off",
            )
        if shares.min() < 0.95:  # of the duty's variation
            return None
        spread = float(np.ptp(gains)) / middle
        return Firmware(middle, spread, float(shares.min()), most, float(late.max()), per_unit)

    def text(self) -> str:
        """Return the controller as a sentence."""
        unit = "duty/rad a unit of kp" if self.per_unit else "duty/rad"
        return (
            f"firmware, read off: P = {self.gain:.4g} {unit} (logs within {self.spread:.1%}, "
            f"R² {self.share:.4f}), limit {self.limit:.0%}, delay {1e3 * self.late:.0f} ms at most"
        )


def _of_log(log: ServoLog, unit: float) -> tuple[float, float, float] | None:
    """Return gain, share and delay of one log; None if it lacks duty or goal, or hardly moves."""
    if log.duty is None or log.goal is None:
        return None
    limit = SATURATED * max(float(np.abs(log.duty).max()), SATURATED)
    best = None
    for late in range(LATEST):
        rows = slice(LATEST - late, len(log.time) - late)
        error = (log.goal - log.position)[rows] * unit
        duty = log.duty[LATEST:]
        free = log.on[LATEST:] & (np.abs(duty) < limit)
        if np.count_nonzero(free) < 2 * LATEST or not error[free].any():
            return None
        gain = float(error[free] @ duty[free] / (error[free] @ error[free]))
        remainder = duty[free] - gain * error[free]
        share = 1.0 - float(remainder @ remainder) / max(float(duty[free] @ duty[free]), 1e-30)
        if best is None or share > best[1]:
            best = gain, share, late * float(np.median(np.diff(log.time)))
    return best
