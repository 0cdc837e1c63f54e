"""Up to where the checks of an identification pass, and from where they fail."""

from __future__ import annotations

import math
from dataclasses import dataclass

from heft.errors import InvalidSetting, shown


@dataclass(frozen=True)
class Limit:
    """Up to where a check passes, and beyond what it fails; between the two it warns.

    Attributes:
        passes: Largest value that passes.
        fails: Largest value that only warns; infinite for what never fails.
    """

    passes: float
    fails: float = math.inf

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
    """Limits of the checks of an identification, named as these; `docs/verdict.md` lists them.

    Attributes:
        condition: Condition number of the scaled base columns.
        time_step: Time between rows of a log [s].
        lost_rows: Share of rows that are not finite or out of order.
        worst_joint: Share of a joint's own torque that is left over, filtered.
        mean_of_joints: Mean of these shares over all joints.
        held_out_error: Share of all torque left over, filtered, on logs that the fit did not see;
            of the error on the logs fitted, too, if there are no others.
        generalisation: Error on logs that the fit did not see, over that on those it saw.
        residual_size: Deviation of what is left over, as a share of a joint's range of torque.
        residual_whiteness: Parameters a row that adds something new.
        shift_of_masses: Median times by which masses that the data see are off the model file's.
        masses_not_seen: Share of the masses that only the model file holds.
        links_on_the_boundary: Share of links whose numbers are only just those of a body.
        unexplained: Share of the torque's variation left over beyond which a fit is refused.
        still: Root mean square velocity below which a joint counts as still [rad/s or m/s].
        seen: Share of a mass's doubt that the data take away, from which it counts as seen.
    """

    condition: Limit = Limit(100.0, 1000.0)
    time_step: Limit = Limit(0.1, 1.0)
    lost_rows: Limit = Limit(0.01, 0.1)
    worst_joint: Limit = Limit(0.5, 0.9)
    mean_of_joints: Limit = Limit(0.35, 0.7)
    held_out_error: Limit = Limit(0.15, 0.3)
    generalisation: Limit = Limit(2.0, 10.0)
    residual_size: Limit = Limit(0.1, 0.3)
    residual_whiteness: Limit = Limit(0.5, 5.0)
    shift_of_masses: Limit = Limit(5.0, 50.0)
    masses_not_seen: Limit = Limit(0.5)
    links_on_the_boundary: Limit = Limit(0.75)
    unexplained: float = 0.9
    still: float = 1e-3
    seen: float = 0.5
