"""Limits of the checks of an identification."""

from __future__ import annotations

import math
from dataclasses import dataclass

from heft.errors import InvalidSetting, shown


@dataclass(frozen=True)
class Limit:
    """Thresholds of a check: it passes up to one, warns up to the other, and fails beyond.

    Attributes:
        passes: Largest value that passes.
        fails: Largest value that only warns; infinite for a check that never fails.

    Raises:
        InvalidSetting: If not 0 ≤ `passes` ≤ `fails`.
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
    """Limits of the checks of an identification, by the names of the checks; see `docs/verdict.md`.

    Errors of torque are relative and of low-pass filtered torque.

    Attributes:
        condition: Condition number of the scaled columns of the base regressor.
        time_step: Sampling interval of a log [s].
        lost_rows: Share of rows that are not finite or out of order; the same of rows in which
            every torque is exactly 0.
        worst_joint: Largest relative torque error of a single joint.
        mean_of_joints: Mean of the joints' relative torque errors.
        predicted_error: Relative torque error over all joints that is to be expected on motion of
            another kind.
        held_out_error: Relative torque error over all joints, on held-out logs.
        generalisation: Error on held-out logs over error on fitted logs.
        residual_size: Standard deviation of the residual over the joint's range of torque.
        residual_whiteness: Number of parameters over the effective number of independent rows.
        shift_of_masses: Median ratio, either way, between identified masses and the model file's,
            over the masses that the data identify.
        masses_not_seen: Share of the masses that the prior determines and not the data.
        links_on_the_boundary: Share of links on the boundary of physical consistency.
        unexplained: Share of the torque's variation in the residual, above which a fit is refused.
        still: RMS velocity below which a joint counts as not moving [rad/s or m/s].
        seen: Reduction of a mass's prior variance by the data, from which the mass counts as
            identified [0 to 1].
    """

    condition: Limit = Limit(100.0, 1000.0)
    time_step: Limit = Limit(0.1, 1.0)
    lost_rows: Limit = Limit(0.01, 0.1)
    worst_joint: Limit = Limit(0.5, 0.9)
    mean_of_joints: Limit = Limit(0.35, 0.7)
    predicted_error: Limit = Limit(0.1, 0.3)
    held_out_error: Limit = Limit(0.1, 0.3)
    generalisation: Limit = Limit(2.0, 10.0)
    residual_size: Limit = Limit(0.1, 0.3)
    residual_whiteness: Limit = Limit(0.5)
    shift_of_masses: Limit = Limit(5.0, 50.0)
    masses_not_seen: Limit = Limit(0.5)
    links_on_the_boundary: Limit = Limit(0.75)
    unexplained: float = 0.9
    still: float = 1e-3
    seen: float = 0.5
