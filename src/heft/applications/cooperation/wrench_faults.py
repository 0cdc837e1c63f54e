"""Whose force/torque sensor is wrong, where what the load leaves over goes with one robot's own.

Only the sum of all wrenches enters the dynamics, so that a residual has no name of its own. But a
wrong gain makes one that goes with what that robot itself measured, and an offset of its force one
that acts at its own contact. Each robot's gains and each one's offset are tried beside the load; a
robot is named if one of its own explains what no other's does. An offset of a torque is the same
wherever it is, and has no name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from heft.arrays import Array
from heft.estimators import whitening

from .load import LoadInformation


@dataclass(frozen=True)
class WrenchDoubt:
    """Robot whose measured wrench explains the load's residual."""

    robot: int  # its place in the team
    offset: float | None  # of its force [N], if that explains it; None if its gains do

    def words(self, name: str) -> str:
        """Return the message for a user."""
        about = "gains" if self.offset is None else f"an offset of {self.offset:.2g} N in its force"
        return (
            f"What the load leaves over goes with the wrench that {name} measures: {about} "
            "would explain it, and nothing of another robot's"
        )


@dataclass(frozen=True)
class WrenchFaultSettings:
    """Settings of the test whether one robot's wrench is wrong."""

    # deviations by which what is left over exceeds noise, and by which one robot explains it better
    # than another
    sure: float = 5.0
    share: float = 0.25  # of what is left over beyond noise, that may stay unexplained


@dataclass(frozen=True, eq=False)
class OwnWrench:
    """Wrench that one robot measured, in windows or a factor of them."""

    wrench: Array  # moment and force in its own frame, shape (any, r)
    map: Array  # D that takes them to the load's frame, shape (r, r)


def wrench_doubt(
    load: LoadInformation,
    values: Array,
    own: Mapping[int, OwnWrench],
    ones: Array,
    settings: WrenchFaultSettings = WrenchFaultSettings(),
) -> WrenchDoubt | None:
    """Return the robot whose wrench explains the load's residual; None if no single one does.

    Args:
        values: Estimated π, shape (p,).
        ones: Column of ones, reduced as the rows of the load's factor are, shape (any,).
    """
    white = whitening(load.spread(values))
    Y = load.regressor(load.motion)
    rest = ((load.wrench - Y @ values) @ white.T).ravel()
    basis, _ = np.linalg.qr((white @ Y).reshape(len(rest), -1))
    rest = rest - basis @ (basis.T @ rest)
    rows = load.windows * len(load.space.wrench)
    noise = settings.sure * np.sqrt(2.0 * load.overlap / rows)

    def beyond(squares: float) -> float:
        return squares / rows - 1.0

    before = beyond(float(rest @ rest))
    if before <= noise:
        return None
    faults = list(_faults(load, own, ones))
    tried = []
    for robot, is_offset, columns in faults:
        H = (white @ columns).reshape(len(rest), -1)
        H = H - basis @ (basis.T @ H)
        found = np.linalg.lstsq(H, rest, rcond=1e-9)[0]
        left = rest - H @ found
        offset = float(np.linalg.norm(found)) if is_offset else None
        tried.append((float(left @ left), robot, offset))
    least, robot, offset = min(tried, key=lambda t: t[0])
    others = [squares for squares, k, _ in tried if k != robot]
    apart = (min(others, default=np.inf) - least) / load.overlap
    explained = beyond(least) <= max(settings.share * before, noise)
    if robot is None or not explained or apart <= settings.sure**2:
        return None
    return WrenchDoubt(robot, offset)


def _faults(
    load: LoadInformation, own: Mapping[int, OwnWrench], ones: Array
) -> Iterator[tuple[int | None, bool, Array]]:
    """Yield robot (None for a torque offset), whether an offset, and columns (any, r, k)."""
    numbers = load.space.wrench
    forces = [k for k, number in enumerate(numbers) if number >= 3]
    torques = [k for k, number in enumerate(numbers) if number < 3]
    constant = np.eye(len(numbers))[None] * ones[:, None, None]
    yield None, True, constant[:, :, torques]
    for robot, measured in own.items():
        yield robot, False, measured.map[None] * measured.wrench[:, None, :]
        yield robot, True, (measured.map @ constant)[:, :, forces]
