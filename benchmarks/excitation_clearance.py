"""What it costs to keep clear of oneself and the ground: designs with collisions in the problem.

    python -m benchmarks.excitation_clearance [--only UR10 Panda LWR4+ long] [--store]

Arms, limits and settings are those of `benchmarks.excitation`. Links are capsules about the shapes
of the model file (of `example-robot-data`, for the Panda with its hand; of the LWR4+ no shape is to
be had, and segments of 6 cm stand in). The ground is at the height of the base, links stay 1 cm
clear. Times are those of one core.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.arms import data_folder
from benchmarks.core import robots
from benchmarks.excitation import FEW, LONG, TEN_SECONDS, _information, core_time
from benchmarks.excitation_cases import Arm, executed, lwr4, panda, ur10
from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_least, at_most
from heft.applications.excite.planned import RoomClearance
from heft.arrays import Array
from heft.excitation import BoundedMotion, Clearance, bounded_motion, certify_clearance, design
from heft.models import Options, Robot, fit_capsules, motion_limits

REQUIRED = 0.01  # [m]
SEED = 11  # of what is scored; constants were chosen on others
REPEATS = 50  # of a gradient
FINE = 20_001
ROOM = {"motion": {"floor": 0.0, "clearance": REQUIRED}}
BOUND = 85.0  # of the long motion of the Panda [nats]


@dataclass(frozen=True, eq=False)
class Place:
    """An arm and what it must keep clear of.

    Attributes:
        arm: Its plant and limits.
        clearance: Of all channels of the model file with shapes.
        room: The same, of the joints that move.
    """

    arm: Arm
    clearance: Clearance
    room: RoomClearance

    @staticmethod
    def of(arm: Arm, model: Path, options: dict[str, Any]) -> Place:
        """Return an arm among the shapes of a model file.

        Args:
            arm: The arm.
            model: File with shapes; its joints that move are the arm's.
            options: Of `--with`, parsed.
        """
        robot = Robot.from_file(model, Options.from_dict(options))
        limits, joints = motion_limits(robot), arm.limits.joints
        moving = np.flatnonzero(~limits.held)
        lower, upper = limits.lower.copy(), limits.upper.copy()
        lower[moving], upper[moving] = joints.lower, joints.upper
        stated = replace(limits, lower=lower, upper=upper)
        clearance = Clearance.of(robot, fit_capsules(robot, model.parent), stated)
        posture = np.where(limits.held, limits.lower, 0.0)
        return Place(arm, clearance, RoomClearance(clearance, posture, moving))

    def motion(self, trajectory: Any) -> BoundedMotion:
        """Return a motion of the joints that move as one of all channels."""
        return bounded_motion(trajectory, self.room.posture, self.room.moving)

    def nearest(self, trajectory: Any) -> Array:
        """Return the least clearance at each of many times, shape (N,) [m]."""
        motion = self.motion(trajectory)
        q = motion.derivative(0, np.linspace(0.0, motion.duration, FINE))
        return np.asarray(self.clearance.values(q).min(axis=1))


def places(names: Sequence[str]) -> Iterator[Place]:
    """Yield the arms of some names; of the Panda in any case, which has the long motion."""
    folder, share = data_folder(), robots()
    if "UR10" in names:
        yield Place.of(ur10(), share / "ur_description/urdf/ur10_robot.urdf", ROOM)
    held = ROOM | {"joint": {"panda_finger_joint1": {"fixed": True}}}
    yield Place.of(panda(folder), share / "panda_description/urdf/panda.urdf", held)
    if "LWR4+" in names:
        yield Place.of(lwr4(folder), folder / "kuka_lwr4" / "kuka_lwr4.urdf", ROOM)


def arm_rows(place: Place) -> Iterator[Row]:
    """Yield what a design with collisions reaches, what it takes, and what collisions cost."""
    arm, name = place.arm, f"{place.arm.name}, 10 s, with collision"
    limits = replace(arm.limits, clearance=(place.room,))
    settings = replace(TEN_SECONDS, seed=SEED)
    q = np.random.default_rng(0).uniform(
        arm.limits.joints.lower, arm.limits.joints.upper, (64, len(arm.plant.coordinates))
    )
    seeds = np.ones((64, len(place.clearance.pairs)))
    spent, _ = core_time(lambda: (place.room.values(q), place.room.pull_back(q, seeds)), REPEATS)
    pairs = f"{len(place.clearance.pairs)} pairs at 64 postures"
    yield Row(f"{arm.name}, clearance with its gradient, {pairs}", 1e3 * spent, "ms")
    spent, found = core_time(lambda: design(arm.plant, limits, settings))
    starts = ", ".join(f"{s.value - found.random[0]:.1f}" for s in found.starts)
    note = f"starts: {starts}"
    yield at_least(
        f"{name}, above the best of {len(found.random)}", found.gain, "nats", arm.bound, note
    )
    each = spent / settings.starts
    yield at_most(f"{name}, time of a start, random motions included", each, "s", 40.0)
    blind = design(arm.plant, arm.limits, settings)
    cost = blind.log_determinant - found.log_determinant
    hit = 100.0 * float((place.nearest(blind.trajectory) < 0.0).mean())
    yield Row(f"{name}, what it costs", cost, "nats", against=f"blind: collides {hit:.0f} % of t")
    yield from _certificate(place, name, found.trajectory)


def _certificate(place: Place, name: str, trajectory: Any) -> Iterator[Row]:
    motion = place.motion(trajectory)
    spent, proofs = core_time(lambda: certify_clearance(motion, place.clearance))
    least = 1e3 * (min(p.bound for p in proofs) + 0.0)
    seen = 1e3 * float(place.nearest(trajectory).min())
    yield at_least(f"{name}, proven beyond what is required", least, "mm", 0.0, f"seen {seen:.2f}")
    yield Row(f"{name}, time of the proof", spent, "s")


def long_rows(place: Place) -> Iterator[Row]:
    """Yield the Panda's 21 s against the motion that was really run, with collision."""
    arm, name = place.arm, "Panda, 21 s, with collision"
    settings = replace(LONG, seed=SEED)
    limits = replace(arm.limits, clearance=(place.room,))
    found = design(arm.plant, limits, settings)
    blind = design(arm.plant, arm.limits, settings)
    ran = _information(found, executed(data_folder(), settings.grids.samples))
    gain = found.log_determinant - ran
    yield at_least(f"{name}, above the executed motion", gain, "nats", BOUND, "rest at both ends")
    cost = blind.log_determinant - found.log_determinant
    hit = 100.0 * float((place.nearest(blind.trajectory) < 0.0).mean())
    yield Row(f"{name}, what it costs", cost, "nats", against=f"blind: collides {hit:.0f} % of t")
    yield from _certificate(place, name, found.trajectory)


@benchmark(
    {
        **{"only": ("Panda", "long"), "REPEATS": 1, "FINE": 201},
        **{"TEN_SECONDS": replace(TEN_SECONDS, **FEW), "LONG": replace(LONG, **FEW)},
    },
    unstored=("only",),
)
def main(*, only: tuple[str, ...] = ("UR10", "Panda", "LWR4+", "long")) -> Iterator[Row]:
    """Yield the rows.

    Args:
        only: Some of the arms, and the Panda's long motion.
    """
    for place in places(only):
        if place.arm.name in only:
            yield from arm_rows(place)
        if place.arm.name == "Panda" and "long" in only:
            yield from long_rows(place)


if __name__ == "__main__":
    main()
