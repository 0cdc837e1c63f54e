"""What an estimate must pass, with stated limits, and the verdict that adds it up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from heft.arrays import Array
from heft.estimators import ConsistentEstimate, Estimate
from heft.information import Check
from heft.plants import Problem, RobotPlant

from .scores import Score

CONDITION_WARN, CONDITION_FAIL = 100.0, 1000.0
HELD_OUT_WARN, HELD_OUT_FAIL = 0.15, 0.3
GENERALISES_WARN, GENERALISES_FAIL = 2.0, 10.0
STILL_VELOCITY = 1e-3  # rms [rad/s or m/s] below which a joint counts as still
JOINT_WARN, JOINT_FAIL = 0.5, 0.9  # of a joint's own torque left over, filtered
SHIFT_WARN, SHIFT_FAIL = 5.0, 50.0  # times that a mass the data see is off the model file's
MEAN_WARN, MEAN_FAIL = 0.35, 0.7  # mean of the joints' own errors, filtered
SIZE_WARN, SIZE_FAIL = 0.1, 0.3  # of a joint's range of torque, as residual's deviation
CROWDED_WARN, CROWDED_FAIL = 0.5, 5.0  # parameters a row that adds something new
UNSEEN_WARN = 0.5  # of the masses that only the prior holds
SLOWEST_STEP = 0.1  # [s] between rows, beyond which a log is suspect
CURE = "check units, gains, signs, the order of the joints, and the delay between motion and torque"
EXPLAINS_NOTHING = 0.9  # of the torque left over: such a fit cannot stand


def judge(
    problem: Problem[RobotPlant],
    estimate: Estimate,
    fit: Iterable[Score],
    held_out: Iterable[Score],
    velocities: Array,
    consistent: ConsistentEstimate,
    margin: float,
    span: Array,
) -> list[Check]:
    """Return the checks of an estimate.

    Args:
        problem: What was fitted.
        estimate: Its base parameters.
        fit: Scores on the logs fitted.
        held_out: Scores on logs not fitted.
        velocities: Each joint's rms velocity in the logs, shape (joints,).
        consistent: The numbers for the model file.
        margin: Smallest eigenvalue of the links' pseudo-inertias, as written.
        span: Range of each channel's torque, shape (channels,).
    """
    found = [*_of_the_motion(problem, estimate, velocities)]
    best = [s for s in fit if s.filter_hz is not None and s.friction == "full"]
    held = [s for s in held_out if s.filter_hz is not None and s.friction == "full"]
    found += _of_the_torque(best, held)
    found += _of_the_residual(estimate, span)
    found += _of_the_numbers(problem, consistent)
    active = [n for n in consistent.active if "[" not in n]  # terms that are not needed are none
    boundary = f"; on the boundary: {', '.join(active)}" if active else ""
    found.append(
        Check(
            "consistency",
            "pass" if margin > 0.0 else "fail",
            margin,
            0.0,
            "smallest eigenvalue of the written pseudo-inertias" + boundary,
        )
    )
    return found


def _of_the_motion(
    problem: Problem[RobotPlant], estimate: Estimate, velocities: Array
) -> Iterator[Check]:
    rank = estimate.rank
    complete = rank.rank == rank.columns
    least = f"; least of all {', '.join(rank.weakest)}"
    yield Check(
        "rank",
        "pass" if complete else "fail",
        rank.rank,
        rank.columns,
        f"the motion shows {rank.rank} of {rank.columns} base parameters"
        + ("" if complete else least),
    )
    weakest = f" (weakest: {', '.join(rank.weakest)})" if rank.condition > CONDITION_WARN else ""
    yield Check.at_most(
        "condition",
        rank.condition,
        CONDITION_WARN,
        CONDITION_FAIL,
        "condition number of the scaled base columns"
        + (
            "; check the units of the positions; else lower it with a motion that moves all "
            f"joints at once, faster and farther{weakest}"
            if weakest
            else ""
        ),
    )
    still = [
        j
        for j, v in zip(problem.plant.robot.joints, velocities, strict=True)
        if v < STILL_VELOCITY and problem.plant.robot.options.of(j).position is None
    ]
    yield Check(
        "motion",
        "fail" if still else "pass",
        float(len(still)),
        0.0,
        f"joints that never move: {', '.join(still)}; nothing is learnt of their friction"
        if still
        else "every joint moves",
    )
    step = max(t.step for t in problem.timelines)
    yield Check.at_most(
        "time step",
        step,
        SLOWEST_STEP,
        10.0 * SLOWEST_STEP,
        f"seconds between rows of the logs, {sum(t.duration for t in problem.timelines):.4g} s long"
        + ("; is the time in milliseconds?" if step > SLOWEST_STEP else ""),
    )
    rows = sum(t.rows for t in problem.timelines)
    lost = rows - sum(t.used for t in problem.timelines)
    yield Check.at_most(
        "lost rows",
        lost / max(rows, 1),
        0.01,
        0.1,
        f"{lost} rows of the logs are not finite or out of order and were left out",
    )


def _of_the_residual(estimate: Estimate, span: Array) -> Iterator[Check]:
    noise, channels = estimate.noise, estimate.information.channels
    sizes = noise.sigma / np.where(span > 0.0, span, np.inf)
    worst = int(np.argmax(sizes))
    yield Check.at_most(
        "residual size",
        float(sizes[worst]),
        SIZE_WARN,
        SIZE_FAIL,
        f"deviation of what is left over in '{channels[worst]}', as a share of its range of torque"
        + (
            "; friction or noise rules this joint: move it faster, or through more gravity"
            if sizes[worst] > SIZE_WARN
            else ""
        ),
    )
    # A residual that is not white repeats itself: the rows add less than their number.
    crowded = np.array([len(t.columns) for t in estimate.information.triangles]) / noise.effective
    worst = int(np.argmax(crowded))
    times = noise.memory[worst]
    yield Check.at_most(
        "residual whiteness",
        float(crowded[worst]),
        CROWDED_WARN,
        CROWDED_FAIL,
        f"parameters a row that adds something new; in '{channels[worst]}' one of {times:.3g} does"
        + ("; record longer, or other motions" if crowded[worst] > CROWDED_WARN else ""),
    )


def _of_the_numbers(
    problem: Problem[RobotPlant], consistent: ConsistentEstimate
) -> Iterator[Check]:
    values, seen = consistent.parameters.values, consistent.seen
    shifts = {}
    for k, link in enumerate(problem.plant.robot.bodies_links):
        if link.given and seen[10 * k] >= 0.5:
            ratio = values[10 * k] / link.nominal[0]
            shifts[link.name] = float(max(ratio, 1.0 / max(ratio, 1e-12)))
    far = [f"{name} {shift:.3g}" for name, shift in shifts.items() if shift > SHIFT_WARN]
    # A light wrist may well be off by that; most of the links may not.
    value = float(np.median(list(shifts.values()))) if shifts else 1.0
    yield Check.at_most(
        "shift of masses",
        value,
        SHIFT_WARN,
        SHIFT_FAIL,
        "median times by which masses that the data see are off the model file's"
        + (f" ({', '.join(far)}): {CURE}" if value > SHIFT_WARN else ""),
    )
    links = problem.plant.robot.bodies_links
    held = [link.name for k, link in enumerate(links) if seen[10 * k] < 0.5]
    value = len(held) / max(len(links), 1)
    yield Check.at_most(
        "masses not seen",
        value,
        UNSEEN_WARN,
        1.0,
        "share of masses that only the model file holds"
        + (f" ({', '.join(held)})" if held else "")
        + ("; move the joints before them, and faster" if value > UNSEEN_WARN else ""),
    )
    bodies = {n for n in consistent.active if "." not in n}
    share = len(bodies) / max(len(problem.plant.robot.bodies_links), 1)
    yield Check.at_most(
        "links on the boundary",
        share,
        0.75,
        1.0,
        "share of links whose numbers are only just those of a body"
        + (f": no body fits these torques well; {CURE}" if share > 0.75 else ""),
    )


def _of_the_torque(fit: list[Score], held_out: list[Score]) -> Iterator[Check]:
    inside = max((s.total for s in fit), default=np.nan)
    scored = held_out or fit
    joints = scored[0].per_joint if scored else {}
    worst = {j: max(s.per_joint[j] for s in scored) for j in joints}
    bad = [f"{j} {e:.0%}" for j, e in worst.items() if e > JOINT_WARN]
    yield Check.at_most(
        "worst joint",
        max(worst.values(), default=np.nan),
        JOINT_WARN,
        JOINT_FAIL,
        f"a joint's own torque left over, filtered; {', '.join(bad)}: {CURE}"
        if bad
        else "a joint's own torque left over, filtered",
    )
    mean = max((s.mean for s in scored), default=np.nan)
    yield Check.at_most(
        "mean of joints",
        mean,
        MEAN_WARN,
        MEAN_FAIL,
        "mean of the joints' own torque left over, filtered"
        + ("; weak joints hide behind a strong one" if mean > MEAN_WARN else ""),
    )
    if not held_out:
        yield Check.at_most(
            "fit error",
            inside,
            HELD_OUT_WARN,
            HELD_OUT_FAIL,
            "torque on the logs fitted, relative, filtered; give --validate to see more"
            + (f"; {CURE}" if inside > HELD_OUT_WARN else ""),
        )
        return
    outside = max(s.total for s in held_out)
    yield Check.at_most(
        "held-out error",
        outside,
        HELD_OUT_WARN,
        HELD_OUT_FAIL,
        "torque on logs that the fit did not see, relative, filtered"
        + (f"; {CURE}" if outside > HELD_OUT_WARN else ""),
    )
    yield Check.at_most(
        "generalisation",
        outside / max(inside, 1e-300),
        GENERALISES_WARN,
        GENERALISES_FAIL,
        "held-out error over fit error"
        + (
            "; much above 1 means that the fit leans on its own motion: give logs of other motions"
            if outside > GENERALISES_WARN * inside
            else ""
        ),
    )
