"""What an estimate must pass, with stated limits, and the verdict that adds it up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from . import friction, signals
from .consistency import ConsistentEstimate
from .curves import Stretch, Trace, Tracer
from .estimators import Estimate
from .inertia import Array
from .plants import Problem

Status = Literal["pass", "warn", "fail"]
Verdict = Literal["good", "usable", "poor"]
PIECE_ROWS = 1_000_000
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


@dataclass(frozen=True)
class Check:
    """One thing looked at, and what came of it.

    Attributes:
        name: What.
        status: `pass`, `warn` or `fail`.
        value: What was found.
        limit: Up to where it passes.
        message: What it means and what to do.
    """

    name: str
    status: Status
    value: float
    limit: float
    message: str

    @staticmethod
    def at_most(name: str, value: float, warn: float, fail: float, message: str) -> Check:
        """Return a check that passes up to `warn` and fails beyond `fail`."""
        status: Status = "pass" if value <= warn else "warn" if value <= fail else "fail"
        return Check(name, status, float(value), warn, message)


@dataclass(frozen=True)
class Score:
    """How far predicted effort is from measured.

    Attributes:
        path: The log.
        friction: Whose friction was used, `full` or `simple`.
        filter_hz: Corner of the low-pass on both, None for raw.
        total: ‖τ − τ̂‖ / ‖τ‖ over all channels.
        mean: Mean of the channels' own ratios.
        per_joint: Each channel's own ratio.
    """

    path: str
    friction: str
    filter_hz: float | None
    total: float
    mean: float
    per_joint: dict[str, float]


@dataclass(frozen=True)
class Scores:
    """How far predictions are from what was measured, over all recordings.

    Attributes:
        list: Of each recording, raw and filtered, with each kind of friction.
        unexplained: ‖τ − τ̂‖ / ‖τ − mean τ‖ of the first kind, filtered: a constant explains
            nothing of a motion.
        span: Each channel's largest torque less its smallest, filtered, shape (channels,).
    """

    list: tuple[Score, ...]
    unexplained: float
    span: Array


Models = Mapping[str, Mapping[str, float]]  # drives' terms by name, for each kind of friction


def stretches(problem: Problem, bodies: Array, models: Models) -> Iterator[Stretch]:
    """Yield measured and predicted effort in stretches without gaps.

    Only measured channels; at most about `PIECE_ROWS` rows at a time.
    """
    robot, measured = problem.robot, problem.robot.measured
    rotors = {k: v for k, v in next(iter(models.values())).items() if k.endswith(".armature")}
    parts: list[Stretch] = []
    current, last = -1, -np.inf
    for s, rigid in problem.rigid(bodies):
        gap = signals.GAP_STEPS * problem.timelines[s.recording].step
        broken = s.recording != current or s.time[0] > last + gap or s.time[0] <= last
        if parts and (broken or sum(len(p.time) for p in parts) > PIECE_ROWS):
            yield _joined(parts)
            parts = []
        current, last = s.recording, float(s.time[-1])
        course = s.course(rigid)
        efforts = [
            (rigid + friction.effort(robot, drives, course))[measured].T
            for drives in (*models.values(), rotors)
        ]
        parts.append(
            Stretch(
                s.recording,
                s.time,
                s.index,
                s.position.T,
                s.motion.velocity.T,
                s.effort[measured].T,
                np.stack(efforts[:-1]),
                efforts[-1],
            )
        )
    if parts:
        yield _joined(parts)


def _joined(parts: Sequence[Stretch]) -> Stretch:
    return Stretch(
        parts[0].recording,
        np.concatenate([p.time for p in parts]),
        np.concatenate([p.index for p in parts]),
        np.concatenate([p.position for p in parts]),
        np.concatenate([p.velocity for p in parts]),
        np.concatenate([p.measured for p in parts]),
        np.concatenate([p.predicted for p in parts], axis=1),
        np.concatenate([p.without_friction for p in parts]),
    )


def filtered(time: Array, values: Array, step: float, corner: float) -> Array:
    """Return values at their own times through the zero-phase low-pass of scores."""
    grid = time[0] + step * np.arange(int((time[-1] - time[0]) / step + 1e-9) + 1)
    even = np.stack([np.interp(grid, time, column) for column in values.T], 1)
    smooth = signals.low_pass(even, step, corner)
    return np.stack([np.interp(time, grid, column) for column in smooth.T], 1)


def scores(
    problem: Problem,
    bodies: Array,
    models: Models,
    corner: float,
    traces: list[Trace] | None = None,
) -> Scores:
    """Return for each recording the score raw and filtered, with each kind of friction.

    Raw compares torque as logged with the prediction at the same rows. Filtered passes both
    through the same zero-phase fourth-order Butterworth low-pass. Half a second is cut at each
    end, by the problem's smoothing.

    Args:
        problem: Its recordings are scored; rows that they do not select only pass the filter.
        bodies: Ten parameters a body.
        models: The drives' terms by name, for each kind of friction, the best first.
        corner: Of the low-pass [Hz].
        traces: Where to leave curves of the first model for drawing.
    """
    channels = problem.channels
    count = len(problem.recordings)
    error = np.zeros((count, len(models), 2, len(channels)))
    size = np.zeros((count, 2, len(channels)))
    moments = np.zeros((2, len(channels)))  # sums of filtered torque and of its square
    ends = np.array([np.inf, -np.inf])[:, None] * np.ones(len(channels))
    rows = 0
    whole = problem.of([r.selecting_all() for r in problem.recordings], bodies=None)
    tracers = [_tracer(whole, k) for k in range(count)]
    for piece in stretches(whole, bodies, models):
        k, time, tau, estimates = piece.recording, piece.time, piece.measured, piece.predicted
        selection = problem.recordings[k].selection
        chosen = np.ones(len(time), dtype=bool) if selection is None else selection(piece.index)
        step = whole.timelines[k].step
        size[k, 0] += np.sum(tau[chosen] ** 2, axis=0)
        error[k, :, 0] += np.sum((tau - estimates)[:, chosen] ** 2, axis=1)
        if len(time) >= 32:
            # The filter is linear: what it leaves of the error is the error of what it leaves.
            smooth = filtered(time, tau, step, corner)[chosen]
            size[k, 1] += np.sum(smooth**2, axis=0)
            moments += np.stack([smooth.sum(axis=0), np.sum(smooth**2, axis=0)])
            rows += len(smooth)
            if len(smooth):
                ends[0] = np.minimum(ends[0], smooth.min(axis=0))
                ends[1] = np.maximum(ends[1], smooth.max(axis=0))
            for m, estimate in enumerate(estimates):
                left = filtered(time, tau - estimate, step, corner)[chosen]
                error[k, m, 1] += np.sum(left**2, axis=0)
        if traces is not None:
            tracers[k].add(piece)
    if traces is not None:
        traces += [t for tracer in tracers if (t := tracer.trace()) is not None]
    found = []
    for k, recording in enumerate(problem.recordings):
        for m, name in enumerate(models):
            for f, hz in enumerate((None, corner)):
                if not size[k, f].sum() > 0.0:
                    continue
                own = np.sqrt(error[k, m, f] / np.where(size[k, f] > 0.0, size[k, f], np.inf))
                total = float(np.sqrt(error[k, m, f].sum() / size[k, f].sum()))
                per_joint = dict(zip(channels, own.tolist(), strict=True))
                found.append(Score(recording.name, name, hz, total, float(own.mean()), per_joint))
    varying = float(np.sum(moments[1] - moments[0] ** 2 / max(rows, 1)))
    unexplained = float(error[:, 0, 1].sum())
    rest = float(np.sqrt(unexplained / varying)) if varying > 0.0 else 0.0
    return Scores(tuple(found), rest, np.where(np.isfinite(ends[0]), ends[1] - ends[0], 0.0))


def _tracer(problem: Problem, recording: int) -> Tracer:
    """Return what gathers the curves of a recording for drawing."""
    robot, timeline = problem.robot, problem.timelines[recording]
    places = {robot.channels[c]: (k, int(c)) for k, c in enumerate(robot.measured)}
    own = [(d.name, *places[d.name]) for d in robot.drives if d.name in places]
    name = problem.recordings[recording].name
    return Tracer(name, problem.channels, own, timeline.step, timeline.used)


def judge(
    problem: Problem,
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


def _of_the_motion(problem: Problem, estimate: Estimate, velocities: Array) -> Iterator[Check]:
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
        for j, v in zip(problem.robot.joints, velocities, strict=True)
        if v < STILL_VELOCITY and problem.robot.options.of(j).position is None
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


def _of_the_numbers(problem: Problem, consistent: ConsistentEstimate) -> Iterator[Check]:
    values, seen = consistent.parameters.values, consistent.seen
    shifts = {}
    for k, link in enumerate(problem.robot.bodies_links):
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
    links = problem.robot.bodies_links
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
    share = len(bodies) / max(len(problem.robot.bodies_links), 1)
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


def verdict(checks: Iterable[Check]) -> Verdict:
    """Return what checks add up to: poor if one fails, usable if one warns."""
    statuses = {c.status for c in checks}
    return "poor" if "fail" in statuses else "usable" if "warn" in statuses else "good"
