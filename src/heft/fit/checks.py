"""Checks of an estimate against stated limits.

Each check has a sentence that describes its value, and a remedy that is added beyond the limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from heft.arrays import Array
from heft.estimators import ConsistentEstimate, Estimate
from heft.information import Check, components, inertia
from heft.plants import Problem, RobotPlant

from .scores import PredictedError, Score, Scores
from .settings import Limit, Limits

MOST_NAMES = 8  # in a sentence
UNIT_OF_TORQUE, SIMPLE_FRICTION = "unit of torque", "simple friction"  # names of checks
GRAMS = 1000.0  # in a kilogram
CURE = "check units, gains, signs, the order of the joints, and the delay between motion and torque"


@dataclass(frozen=True)
class Words:
    """Terms for measured channels in messages."""

    channel: str  # singular
    channels: str  # plural
    measured: str  # measured quantity
    cure: str  # remedy for a poor fit
    faint: str  # remedy for a channel with a low signal-to-noise ratio
    elsewhere: str  # motion of another kind
    slower: str  # remedy for a large predicted error
    guess: str  # source of the prior masses


JOINTS = Words(
    "joint",
    "joints",
    "torque",
    CURE,
    "friction or noise dominates this joint: move it faster, or through more gravity",
    "slow motion from point to point",
    "log slow motion with reversals, too, or look for what is wrong with the logs: heft check",
    "the model file",
)
CHANNELS = Words(
    "channel",
    "channels",
    "measurement",
    "check units, signs, frames, and the delay between motion and measurement",
    "noise dominates this channel: move faster and farther",
    "motion alike",
    "log more, and see what is left over",
    "what was believed",
)


@dataclass(frozen=True)
class Judge:
    """An estimate with all that its checks look at."""

    problem: Problem[Any]
    estimate: Estimate  # of the logs' rows
    fitted: Scores  # of the fitted logs
    validation: Sequence[Score]  # of the held-out logs
    # of a robot on motion of another kind, else on motion like that of the logs
    predicted: PredictedError
    consistent: ConsistentEstimate  # physically consistent parameters
    limits: Limits
    words: Words

    def of_robot(self) -> tuple[Check, ...]:
        """Return the checks of a robot's estimate, in the order of the report."""
        links = self.problem.plant.robot.bodies_links
        guesses = {k.name: float(k.nominal[0]) if k.given else None for k in links}
        return (
            *self._of_the_rank(),
            *self._of_the_drives(),
            *self._of_the_logs(),
            *self._of_idle_rows(),
            *self._of_the_scores(),
            *self._of_the_residual(),
            *self._of_the_unit(),
            *self._of_the_masses(guesses, _rigid_groups(self.problem, self.consistent)),
            *self._of_the_bodies(len(guesses)),
        )

    def of_plant(self) -> tuple[Check, ...]:
        """Return the checks of the estimate of a plant of any kind, in the order of the report."""
        space = self.problem.space
        checks = (
            *self._of_the_rank(),
            *self._of_the_logs(),
            *self._of_the_scores(),
            *self._of_the_residual(),
        )
        if not space.bodies:
            return checks
        guesses = {
            n: float(space.nominal[k]) for n, k in zip(space.bodies, space.groups, strict=True)
        }
        alone = [([k], "") for k in range(len(guesses))]
        return (*checks, *self._of_the_masses(guesses, alone), *self._of_the_bodies(len(guesses)))

    def _of_the_rank(self) -> Iterator[Check]:
        rank = self.estimate.rank
        weakest = ", ".join(rank.weakest)
        shows = f"the motion excites {rank.rank} of {rank.columns} base parameters"
        if rank.rank == rank.columns:
            yield Check("rank", "pass", rank.rank, rank.columns, shows)
        else:
            message = f"{shows}; least excited: {weakest}"
            yield Check("rank", "fail", rank.rank, rank.columns, message)
        yield _at_most(
            "condition",
            rank.condition,
            self.limits.condition,
            "condition number of the scaled base columns",
            "check the units of the positions; else lower it with a motion that moves all joints "
            f"at once, faster and farther, which heft excite designs (weakest: {weakest})",
        )

    def _of_the_drives(self) -> Iterator[Check]:
        robot = self.problem.plant.robot
        options = robot.options
        if options.equations == "sensors":  # which see no drive
            return
        still = [
            j
            for j, v in zip(robot.joints, _speeds(self.problem), strict=True)
            if v < self.limits.still and options.of(j).position is None
        ]
        if still:
            message = (
                f"joints that never move: {', '.join(still)}; their friction is not identifiable; "
                f"if they are held, say so in the file of --with: [joint.{still[0]}] fixed = true"
            )
            yield Check("motion", "fail", float(len(still)), 0.0, message)
        else:
            yield Check("motion", "pass", 0.0, 0.0, "every joint moves")

    def _of_the_logs(self) -> Iterator[Check]:
        duration = sum(t.duration for t in self.problem.timelines)
        yield _at_most(
            "time step",
            max(t.step for t in self.problem.timelines),
            self.limits.time_step,
            f"seconds between rows of the logs, {duration:.4g} s long",
            "is the time in milliseconds?",
        )
        rows = sum(t.rows for t in self.problem.timelines)
        lost = rows - sum(t.used for t in self.problem.timelines)
        yield _at_most(
            "lost rows",
            lost / max(rows, 1),
            self.limits.lost_rows,
            f"{lost} rows of the logs are not finite or out of order and were left out",
        )

    def _of_idle_rows(self) -> Iterator[Check]:
        idle, rows = (
            sum(t) for t in zip(*((t.idle, t.rows) for t in self.problem.timelines), strict=True)
        )
        yield _at_most(
            "rows without torque",
            idle / max(rows, 1),
            self.limits.lost_rows,
            f"{idle} rows of the logs have a torque of exactly 0 in every joint",
            "a second publisher's rows, or the drives were off: cut them out",
        )

    def _of_the_scores(self) -> Iterator[Check]:
        fit = [s for s in self.fitted.list if s.counts]
        held_out = [s for s in self.validation if s.counts]
        scored, words = held_out or fit, self.words
        joints = scored[0].per_joint if scored else {}
        worst = {j: max(s.per_joint[j] for s in scored) for j in joints}
        bad = [f"{j} {e:.0%}" for j, e in worst.items() if e > self.limits.worst_joint.passes]
        yield _at_most(
            f"worst {words.channel}",
            max(worst.values(), default=np.nan),
            self.limits.worst_joint,
            f"largest relative {words.measured} error of a {words.channel}, low-passed",
            f"{', '.join(bad)}: {words.cure}",
        )
        yield _at_most(
            f"mean of {words.channels}",
            max((s.mean for s in scored), default=np.nan),
            self.limits.mean_of_joints,
            f"mean of the {words.channels}' relative {words.measured} errors, low-passed",
            f"the total hides {words.channels} of little {words.measured}: look at each",
        )
        predicted = self.predicted
        most = max(predicted.per_joint, key=lambda c: predicted.per_joint[c], default="none")
        yield _at_most(
            "predicted error",
            predicted.total,
            self.limits.predicted_error,
            f"relative {words.measured} error expected in {words.elsewhere}"
            + (f"; largest of '{most}'" if predicted.per_joint else ""),
            words.slower,
        )
        if predicted.simple is not None:
            yield _at_most(
                SIMPLE_FRICTION,
                predicted.simple,
                self.limits.simple_friction,
                "relative difference of torque between the written damping and friction and full "
                f"friction, in {words.elsewhere} or on the logs",
                "simulate with the full friction, which friction.py and friction.c are",
            )
        if not held_out:
            return
        inside = max((s.total for s in fit), default=np.nan)
        outside = max(s.total for s in held_out)
        yield _at_most(
            "held-out error",
            outside,
            self.limits.held_out_error,
            f"relative {words.measured} error on held-out logs, low-passed",
            words.cure,
        )
        yield _at_most(
            "generalisation",
            outside / max(inside, 1e-300),
            self.limits.generalisation,
            "held-out error over fit error",
            "much above 1 is overfitting: give logs of other motions",
        )

    def _of_the_residual(self) -> Iterator[Check]:
        noise, channels = self.estimate.noise, self.estimate.information.channels
        span = self.fitted.span
        # Channels of earlier logs alone, behind those of these logs, have no span here.
        sizes = noise.sigma[: len(span)] / np.where(span > 0.0, span, np.inf)
        worst = int(np.argmax(sizes))
        yield _at_most(
            "residual size",
            float(sizes[worst]),
            self.limits.residual_size,
            f"standard deviation of the residual of '{channels[worst]}' over its range of "
            f"{self.words.measured}",
            self.words.faint,
        )
        # A residual that is not white repeats itself: the rows add less than their number.
        columns = [len(t.columns) for t in self.estimate.information.triangles]
        crowded = np.array(columns) / noise.effective
        worst = int(np.argmax(crowded))
        once = f"'{channels[worst]}' has one in {noise.autocorrelation_time[worst]:.3g} rows"
        yield _at_most(
            "residual whiteness",
            float(crowded[worst]),
            self.limits.residual_whiteness,
            f"parameters per effective sample, as residuals are autocorrelated; {once}",
            "record longer, or other motions",
        )

    def _of_the_unit(self) -> Iterator[Check]:
        space, information = self.problem.space, self.estimate.information
        if len(space.matrix) < len(information.labels):  # gains are sought
            return
        R, z = information.summed(self.estimate.weights()).rows_of_all()
        first = inertia.PARAMETER_COUNT * len(space.groups)
        file = R @ (space.matrix[:, :first] @ space.nominal[:first])
        drives = R @ space.sparse_matrix[:, first:]
        scale, share = torque_over_file([file], [z], [drives])
        if share >= self.limits.scale_explained and scale > 0.0:
            yield of_the_unit(scale, self.limits.unit_of_torque)

    def _of_the_masses(
        self, guesses: Mapping[str, float | None], groups: Sequence[tuple[Sequence[int], str]]
    ) -> Iterator[Check]:
        """Yield checks of masses against their prior values; None for a link without prior mass.

        Args:
            groups: Places of links that are rigidly one body in the logs, and the base parameter
                that holds their mass and is known well; empty if there is none.
        """
        words = self.words
        masses, seen = self.consistent.parameters.values[::10], self.consistent.seen[::10]
        shifts = {}
        for (name, guess), mass, share in zip(guesses.items(), masses, seen, strict=False):
            if guess is not None and share >= self.limits.seen:
                ratio = mass / guess
                shifts[name] = float(max(ratio, 1.0 / max(ratio, 1e-12)))
        limit = self.limits.shift_of_masses
        far = [f"{name} {shift:.3g}" for name, shift in shifts.items() if shift > limit.passes]
        yield _at_most(
            "shift of masses",
            # A light wrist may well be off by that; most of the links may not.
            float(np.median(list(shifts.values()))) if shifts else 1.0,
            limit,
            f"median factor between the masses that the data determine and those of {words.guess}",
            f"{', '.join(far)}: {CURE}",
        )
        listed = list(guesses)
        unseen, summed = [], []
        for places, total in groups:
            if max(seen[k] for k in places) >= self.limits.seen:
                continue
            named = " with ".join(listed[k] for k in places)
            if total:
                summed.append(f"{named} ({total})")
            else:
                unseen.append(named)
        names = f" ({_folded(unseen)})" if unseen else ""
        sums = f"; known in a sum only: {_folded(summed)}" if summed else ""
        yield _at_most(
            "masses not seen",
            len(unseen) / max(len(groups), 1),
            self.limits.masses_not_seen,
            f"share of masses that the data do not determine, but {words.guess}{names}{sums}",
            "move the joints before them, and faster",
        )

    def _of_the_bodies(self, count: int) -> Iterator[Check]:
        values, active = self.consistent.parameters.values, self.consistent.active
        tens = (values[k : k + inertia.PARAMETER_COUNT] for k in self.problem.space.groups)
        margin = min((inertia.consistency_margin(ten) for ten in tens), default=1.0)
        bodies = {n for n in active if "." not in n}
        yield _at_most(
            "links on the boundary",
            len(bodies) / max(count, 1),
            self.limits.links_on_the_boundary,
            "share of links on the boundary of physical consistency",
            f"no physically consistent body fits these torques well: {CURE}",
        )
        smallest = "smallest eigenvalue of the written pseudo-inertias"
        named = [n for n in active if "[" not in n]  # terms that are not needed are none
        boundary = f"; on the boundary: {', '.join(named)}" if named else ""
        positive = margin > 0.0
        yield Check("consistency", "pass" if positive else "fail", margin, 0.0, smallest + boundary)


def torque_over_file(
    file: Sequence[Array], torque: Sequence[Array], drives: Sequence[Array]
) -> tuple[float, float]:
    """Return the scale of the file's bodies that best explains torques beside any friction.

    With it comes the share of the sum of squares that friction leaves which it explains.

    Args:
        file: Torques of the file's bodies, of each block of rows, shape (rows,).
        torque: Torques as measured, likewise.
        drives: Columns of friction, likewise, shape (rows, any).
    """
    parts = []
    for own, measured, columns in zip(file, torque, drives, strict=True):
        rest, seen = np.column_stack([own, measured]), components(columns)
        each = [np.linalg.svd(part.of(columns), full_matrices=False)[:2] for part in seen]
        largest = max(singular.max(initial=0.0) for _, singular in each)
        for part, (U, singular) in zip(seen, each, strict=True):
            U = U[:, singular > 1e-9 * largest]
            rest[part.rows] -= U @ (U.T @ rest[part.rows])
        parts.append(rest)
    own, measured = np.concatenate(parts).T
    shared, size = float(own @ measured), float(own @ own) or 1.0
    return shared / size, shared**2 / (size * float(measured @ measured) or 1.0)


def of_the_unit(scale: float, limit: Limit) -> Check:
    """Return the check that torques are of the size of the model file's masses."""
    message = f"torques are {scale:.3g} times what the model file's masses need"
    if not 1.0 / limit.passes <= scale <= limit.passes:
        message += (
            ": the scale of all masses rests on the torque's unit, and nothing else in a log tells "
            "it. State the unit or scale in the column map (--map), or drive gains (--with) where "
            "it is a current; or mend the file's masses, if these are in another unit or another "
            "robot's"
        )
    if in_grams(scale, limit):
        message += (
            ". Are they grams, and inertias g m²? Then divide all masses and inertias of the "
            f"model file by {GRAMS:g}, and leave the torque as it is"
        )
    off = max(scale, 1.0 / scale)
    return Check.at_most(UNIT_OF_TORQUE, off, limit.passes, limit.fails, message)


def in_grams(scale: float, limit: Limit) -> bool:
    """Return whether a model file's masses seem grams, by the torque over what they need."""
    return 1.0 / limit.passes <= GRAMS * scale <= limit.passes


def _at_most(name: str, value: float, limit: Limit, sentence: str, cure: str = "") -> Check:
    message = f"{sentence}; {cure}" if cure and value > limit.passes else sentence
    return Check.at_most(name, value, limit.passes, limit.fails, message)


def _rigid_groups(
    problem: Problem[RobotPlant], consistent: ConsistentEstimate
) -> list[tuple[list[int], str]]:
    """Return groups of links whose mass a motion could show, and their known sum.

    Still joints join links to one. Links whose ten parameters are in no base parameter move no
    measured joint and are left out.
    """
    robot = problem.plant.robot
    still = [robot.options.of(j).position is not None for j in robot.joints]
    first = len(robot.channels) - len(robot.joints)
    lead = list(range(len(robot.tree.names)))  # the body that each is rigidly fixed to
    for b in lead:
        channel = int(robot.tree.channel[b]) - first
        parent = int(robot.tree.parent[b])
        if channel >= 0 and still[channel]:
            lead[b] = lead[parent] if parent >= 0 else -1
    effect = problem.space.matrix  # of a link's parameters on the base parameters
    members: dict[int, list[int]] = {}
    for k, link in enumerate(robot.bodies_links):
        ten = slice(inertia.PARAMETER_COUNT * k, inertia.PARAMETER_COUNT * (k + 1))
        if np.any(effect[:, ten]) and lead[link.body] >= 0:
            members.setdefault(lead[link.body], []).append(k)
    sums = _known_masses(problem, consistent)
    groups = []
    for links in members.values():
        columns = [inertia.PARAMETER_COUNT * k for k in links]
        known = [text for row, text in sums.items() if np.any(effect[row, columns])]
        groups.append((links, known[0] if known else ""))
    return groups


def _known_masses(problem: Problem[RobotPlant], consistent: ConsistentEstimate) -> dict[int, str]:
    """Return the base parameters that are well-known masses, as text by their row in β."""
    covariance, base = consistent.parameters.covariance, problem.base
    assert covariance is not None
    masses = {}
    for row, unit in enumerate(base.labels.units):
        if unit != "kg":
            continue
        factors = problem.space.matrix[row]
        own = slice(len(factors))  # unsure gains stand behind
        value = float(factors @ consistent.parameters.values[own])
        std = float(np.sqrt(max(factors @ covariance[own, own] @ factors, 0.0)))
        if std < 0.1 * abs(value):  # else it is not known
            masses[row] = f"{base.expression(row)} = {value:.4g} ± {std:.2g} kg"
    return masses


def _folded(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _speeds(problem: Problem[RobotPlant]) -> Array:
    """Return each joint's RMS velocity, shape (joints,) [rad/s or m/s]."""
    first = len(problem.plant.robot.channels) - len(problem.plant.robot.joints)
    total, rows = np.zeros(len(problem.plant.robot.joints)), 0
    for s in problem.samples():
        total += np.sum(s.motion.velocity[first:] ** 2, axis=1)
        rows += len(s.time)
    return np.asarray(np.sqrt(total / max(rows, 1)))
