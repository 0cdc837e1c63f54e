"""Findings of the search for corrections, and logs and column maps with corrections applied."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from heft.certainty import DelayFound, DelaySearch
from heft.errors import HeftError
from heft.fit import Limits, Settings, first_fit, in_grams, of_the_unit, torque_over_file
from heft.information import DataRank, Finding
from heft.models import Robot
from heft.plants import Problem, RobotPlant
from heft.recordings import UNITS, Recording, SignalMap, quoted, toml_list
from heft.recordings import unwrapped as unwrapped_table
from heft.signals import Smoothing

from . import score_test
from .clock_and_signals import LogFacts
from .corrections import TORQUE_UNITS, Context, Correction, TorqueGain, unit_near
from .evidence import Evidence
from .hypotheses import (
    Explained,
    Fit,
    Hypotheses,
    StepEvidence,
    TimingFound,
    Timings,
    ToolFound,
    friction_shares,
    tool,
)
from .settings import DoctorSettings

CONDITION = Limits().condition  # of the motion, as an identification judges it
DESIGN = "heft excite MODEL designs such a motion, and says what it will tell"


@dataclass(frozen=True)
class Physics:
    """Findings about logs from the robot's equations of motion."""

    robot: Robot  # robot model
    recordings: Sequence[Recording]  # the logs
    evidence: Evidence  # data that were compared
    explained: Explained  # corrections that were found
    timing: TimingFound  # timings of the corrected log
    context: Context  # context of descriptions
    settings: DoctorSettings  # thresholds

    @property
    def is_explained(self) -> bool:
        """Whether the corrections explain most of what is wrong."""
        total, thresholds = self.explained.total, self.settings.physics
        before = self.explained.total_before
        return total < max(thresholds.doubted_share, thresholds.most_remaining * before)

    def findings(self) -> Iterator[Finding]:
        """Yield all findings."""
        if self.is_explained:
            for step in self.explained.steps:
                yield self._of_a_step(step)
            yield from self._of_the_timing()
            yield from self._of_the_model()
            yield from self._of_an_outlier()
        yield from self._of_the_scale()
        yield from self._of_scores
        explained = sum(f.evidence["share"] for f in self._of_scores)
        if not (explained > self.settings.physics.mostly_explained):
            yield from self._of_residuals()

    @cached_property
    def _of_scores(self) -> tuple[Finding, ...]:
        """What the residual shows that the model does not hold."""
        loads, scores, limits = self.settings.loads, self.settings.scores, self.settings.physics
        found = tuple(score_test.findings(*self._fit, loads, scores))
        if self.explained.total > limits.other_robot_share:  # of a robot that is another one
            return tuple(f for f in found if f.evidence["share"] > limits.mostly_explained)
        return found

    def _sure(self, evidence: float, others: Sequence[float]) -> float:
        """Return the probability of a cause, by its evidence and what is left unexplained."""
        thresholds = self.settings.physics
        odds = thresholds.tried_steps * math.exp(-min(evidence, 1000.0) / 2.0)
        odds += sum(math.exp(-max(excess, 0.0) / 2.0) for excess in others)
        return min(1.0 / (1.0 + odds), thresholds.most_sure) * (1.0 - min(self.explained.total, 1))

    def _of_a_step(self, proof: StepEvidence) -> Finding:
        log, step, unit = self.context, proof.step, self.explained.unit
        if isinstance(step, TorqueGain) and unit != 1.0:
            step = step.of_all(unit, len(log.joints))
        described = step.describe(log)
        rivals = [step.describe(log).what for step, _ in proof.others[:3]]
        like = f"; as well explained by: {', '.join(rivals)}" if rivals else ""
        number = {"value": step.number} if step.number else {}
        # A zero of the last joint, say, may be its link's centre of mass: torque hardly tells.
        shown = math.sqrt(max(proof.before**2 - proof.after**2, 0.0))
        spoils = proof.step.is_factor or shown >= self.settings.physics.least_shown
        return Finding(
            described.name,
            f"{described.what}: with that {proof.after:.1%} instead of {proof.before:.1%} of the "
            f"torque of '{proof.channel}' is not explained{like}",
            about=log.about(step.told if isinstance(step, TorqueGain) else step.joints),
            severity="spoils" if spoils else "warns",
            evidence={
                "twice_log_odds": proof.evidence,
                "unexplained_before": proof.before,
                "unexplained_after": proof.after,
                **number,
            },
            sure=self._sure(proof.evidence, [excess for _, excess in proof.others]),
            cure=described.cure,
            lines=described.lines,
            others=tuple(
                f"{step.describe(log).name}, {log.about(step.joints)}" for step, _ in proof.others
            ),
        )

    def _of_the_timing(self) -> Iterator[Finding]:
        timing, settings = self.timing, self.settings.search.timing
        if Timings(Hypotheses(self.evidence), settings).drifts(timing):
            drift = timing.drifting.correction.timing.drift
            gain = timing.late.objective - timing.drifting.objective
            side = "falls behind" if drift > 0.0 else "runs ahead of"
            yield Finding(
                "drifting clocks",
                f"torque {side} motion by {1e3 * abs(drift):.3g} ms a second",
                about="all joints",
                severity="spoils",
                evidence={"value": drift, "twice_log_odds": gain},
                sure=self._sure(gain, []),
                cure="stamp position and torque by one clock, or bring them in time before they "
                "are joined",
            )
            return
        lag = timing.filtered.correction.timing
        gain = timing.late.objective - timing.filtered.objective
        if lag.order and gain > settings.distinct and timing.falls(timing.filtered) < settings.gate:
            yield Finding(
                "low-passed torque",
                f"the torque went through a low-pass of about {lag.corner:.2g} Hz (order "
                f"{lag.order})",
                about="all joints",
                severity="spoils",
                evidence={"corner_hz": lag.corner, "order": lag.order, "twice_log_odds": gain},
                sure=self._sure(gain, []),
                cure="log the torque before the filter, or send the positions through the same",
            )
        elif timing.falls(timing.late) < settings.gate:
            delay = self._delay()
            if delay is not None and delay.delay:
                others = [-gain] if lag.order and gain > -settings.distinct else []
                yield self._of_a_delay(delay, others)

    def _delay(self) -> DelayFound | None:
        """Return the corrected log's delay as `heft identify` finds it; None if that fails."""
        correction = self.explained.correction
        options = replace(self.robot.options, gravity=correction.gravity)
        mended = tuple(corrected(r, self.robot, correction) for r in self.recordings)
        plant = RobotPlant(replace(self.robot, options=options))
        try:
            problem = Problem(plant, mended, Smoothing(), threads=1)
            return DelaySearch().fit(problem.about(first_fit(problem, Settings())))
        except HeftError:
            return None

    def _of_a_delay(self, estimate: DelayFound, others: Sequence[float]) -> Finding:
        side = "behind" if estimate.delay > 0.0 else "ahead of"
        like = "; a low-pass of the torque would explain as much" if others else ""
        gain = self.timing.still.objective - self.timing.late.objective
        return Finding(
            "delay",
            f"torque comes {1e3 * abs(estimate.delay):.3g} ms {side} motion, by the rule of heft "
            f"identify{like}",
            about="all joints",
            evidence={
                "value": estimate.delay,
                "std_s": estimate.std,
                "variance_ratio": estimate.ratio,
            },
            sure=self._sure(gain, others),
            cure="state the delay, if heft identify does not find it by itself",
            lines={"flag": f"--delay {estimate.delay:.4g}"},
            others=("low-passed torque, all joints",) if others else (),
        )

    def _of_the_model(self) -> Iterator[Finding]:
        thresholds = self.settings.loads
        hypotheses, fit = self._fit
        shares = friction_shares(hypotheses, fit)
        if np.max(shares) < thresholds.most_friction and (
            np.median(shares) < thresholds.usual_friction
        ):
            yield Finding(
                "torque without friction",
                f"friction and rotors are {np.max(shares):.1%} of a joint's torque at most: it was "
                "measured behind the gears, or nothing rubs",
                about="all joints",
                severity="tells",
                evidence={"share": float(np.max(shares))},
                cure="links can be identified from it, friction and rotors cannot: log the drives' "
                "torque or current for those",
            )
        load = self._tool
        if load is not None:
            yield Finding(
                "tool missing",
                f"the last link weighs {load.mass:.2g} kg more than the model file says, which is "
                f"{load.strain:.0f} times as far off as the other links",
                about=self.robot.tree.names[load.body],
                severity="warns",
                evidence={"mass_kg": load.mass, "twice_log_odds": load.evidence},
                sure=self._sure(load.evidence, []),
                cure="is there a tool or load that the file does not name? heft identifies it "
                "together with the last link",
            )

    def _of_the_scale(self) -> Iterator[Finding]:
        """Yield the finding on torques of another size than the file's masses, by `heft.fit`."""
        unit, log = self.explained.unit, self.context
        if unit != 1.0 and any(isinstance(s.step, TorqueGain) for s in self.explained.steps):
            return  # told with them
        (hypotheses, fit), limits = self._fit, Limits()
        # What a body carries that the file does not name says nothing of the unit.
        carrying = self._tool.body if self._tool else -1
        blocks = []
        for k, channel in enumerate(self.evidence.channels):
            weight = 1.0 / (abs(fit.correction.tau_scale[channel]) * fit.sigma[k])
            blocks.append([weight * x for x in hypotheses.file_torque(fit, k, carrying)])
        scale, share = torque_over_file(*zip(*blocks, strict=True))
        if not (share >= limits.scale_explained and scale > 0.0):
            return
        scale /= unit
        check = of_the_unit(scale, limits.unit_of_torque)
        if check.status != "pass":
            line = log.line(log.effort, "scale", unit_near(1.0 / scale), 1.0, ())
            others = log.are_integers or in_grams(scale, limits.unit_of_torque)
            yield Finding(
                check.name,
                check.message,
                about="all joints",
                severity="spoils" if check.status == "fail" else "warns",
                evidence={"scale": scale, "explained": share},
                # what is no unit of torque takes another cure
                lines={} if others else {"map": line},
            )

    def _of_an_outlier(self) -> Iterator[Finding]:
        """Yield the finding on a joint of far more torque than others, which should have less.

        Where friction is most of a joint's torque nothing else tells its unit.
        """
        evidence, correction, log = self.evidence, self.explained.correction, self.context
        if len(evidence.channels) < 2:
            return
        (hypotheses, fit), channels = self._fit, list(evidence.channels)
        file = [hypotheses.file_torque(fit, k)[0] for k in range(len(channels))]
        needed = np.array([np.sqrt(np.mean(x**2)) for x in file])
        sources = [correction.tau_source[c] for c in channels]
        size = evidence.effort_rms[sources] * np.abs(correction.tau_scale)[channels]
        first, others = int(np.argmax(size)), np.arange(len(size)) != int(np.argmax(size))
        ratio = float(size[first] / size[others].max())
        if ratio > self.settings.physics.outlier and needed[first] < needed[others].max():
            joint, gain = channels[first], TORQUE_UNITS["N·mm"]
            yield Finding(
                "wrong torque gain",
                f"its torque is {ratio:.3g} times that of any other joint, where the model file's "
                "masses need less of it than of others",
                about=log.joints[joint],
                severity="spoils",
                evidence={"value": gain, "ratio": ratio},
                cure="is it in N·mm? look at its unit",
                lines={"map": log.line(log.effort, "scale", gain, 1.0, (joint,))},
            )

    @cached_property
    def _tool(self) -> ToolFound | None:
        return tool(*self._fit, self.settings.loads) if self.is_explained else None

    @cached_property
    def _fit(self) -> tuple[Hypotheses, Fit]:
        """The fit with the best timing, or without one if evidence for it is weak."""
        settings, timing = self.settings.search.timing, self.timing
        gain = timing.still.objective - timing.best.objective
        best = timing.best if gain > settings.evidence else timing.still
        hypotheses = Hypotheses(self.evidence)
        return hypotheses, hypotheses.settle(best.correction, common=False)

    def _of_residuals(self) -> Iterator[Finding]:
        thresholds, explained = self.settings.physics, self.explained
        other_robot = explained.total > thresholds.other_robot_share
        names = [self.evidence.robot.joints[c] for c in self.evidence.channels]
        if explained.total > thresholds.doubted_share:
            tried = ""
            if not self.is_explained and explained.steps:
                first = explained.steps[0].step.describe(self.context)
                tried = f"; nearest comes that {first.what}, which does not explain most of it"
            yield Finding(
                "unexplained torque",
                f"{explained.total:.0%} of the torque is not explained, whatever is "
                f"corrected{tried}",
                about="all joints",
                severity="spoils" if other_robot else "warns",
                evidence={"share": explained.total},
                cure="is it this robot's model file, with its lengths and axes? look at units, "
                "order and signs of all joints",
            )
        if other_robot:
            return
        for name, share in zip(names, explained.unexplained.tolist(), strict=True):
            if share > thresholds.other_joint_share:
                yield Finding(
                    "unexplained torque",
                    f"{share:.0%} of its torque is not explained by this robot's motion",
                    about=name,
                    evidence={"share": share},
                    cure="look at what this joint's column holds",
                )


def of_the_motion(motion: DataRank) -> Iterator[Finding]:
    """Yield findings about the base parameters that a motion excites."""
    weakest = ", ".join(motion.weakest)
    if motion.rank < motion.columns:
        yield Finding(
            "motion shows too little",
            f"it excites {motion.rank} of the bodies' {motion.columns} base parameters",
            severity="spoils",
            evidence={"rank": motion.rank, "columns": motion.columns},
            cure=f"move all joints at once; least excited: {weakest}; {DESIGN}",
        )
    elif motion.condition > CONDITION.passes:
        spoils = motion.condition > CONDITION.fails
        yield Finding(
            "motion shows little",
            f"condition number {motion.condition:.0f} of the bodies' base parameters",
            severity="spoils" if spoils else "warns",
            evidence={"condition": motion.condition},
            cure=f"move all joints at once, faster and farther; least excited: {weakest}; {DESIGN}",
        )


def readable(recording: Recording, facts: LogFacts, findings: Sequence[Finding]) -> list[Recording]:
    """Return the log's pieces for physical checks: in seconds, unwrapped, without stalls."""
    unit = next((f.evidence["unit_s"] for f in findings if "unit_s" in f.evidence), 1.0)
    made = unwrapped(replace(recording, time_scale=unit * recording.time_scale), findings)
    if not facts.stalls:
        return [made]
    pieces, first = [], 0
    for begin, end in (*facts.stalls, (facts.rows, facts.rows)):
        if begin - first > 250:  # fewer rows between two stalls are not looked at
            pieces.append(made.window(first, begin))
        first = max(first, end)
    return pieces or [made]


def unwrapped(recording: Recording, findings: Sequence[Finding]) -> Recording:
    """Return a recording whose angles are unwrapped where findings report jumps by full turns."""
    turns: dict[str, float] = {}
    sources = dict(recording.sources)
    for finding in findings:
        name = finding.about.removeprefix(f"{Path(recording.name).name}: ")
        if finding.name != "wrapped angle" or name not in sources:
            continue
        source, place = sources[name]
        row = source.matrix[place]
        if np.count_nonzero(row) != 1:
            continue  # of several motors: which one jumps is not known
        column = int(np.flatnonzero(row)[0])
        scale = abs(row[column]) * UNITS[source.kind][source.unit]
        turns[source.columns[column]] = finding.evidence["turn"] / scale
        sources[name] = replace(source, wrapped=(source.columns[column],)), place
    table = unwrapped_table(recording.table, turns) if turns else recording.table
    return replace(recording, table=table, sources=sources)


def corrected(recording: Recording, robot: Robot, correction: Correction) -> Recording:
    """Return a recording with the corrections of its columns applied.

    Gravity and delay are no columns: they go to the options and to `--delay`.
    """
    sources = dict(recording.sources)
    effort, none = effort_kind(recording), (0.0,) * len(robot.joints)
    kinds = (
        ("q", correction.q_source, correction.q_scale, correction.q_offset),
        (effort, correction.tau_source, correction.tau_scale, none),
    )
    for kind, source, scale, offset in kinds:
        for j, joint in enumerate(robot.joints):
            name, old = f"{kind}.{joint}", f"{kind}.{robot.joints[source[j]]}"
            if old in recording.sources:
                given, place = recording.sources[old]
                own = slice(place, place + 1)
                matrix, zero = scale[j] * given.matrix[own], scale[j] * given.offset[own]
                moved = replace(given, joints=(joint,), matrix=matrix, offset=zero + offset[j])
                sources[name] = moved, 0
    return replace(recording, sources=sources)


def mended_map(recording: Recording, robot: Robot, correction: Correction) -> str:
    """Return the text of a column map with the corrections applied, for `--map`."""
    mended = corrected(recording, robot, correction)
    if mended.time is None:
        lines = ["[time]", f"step = {mended.step!r}"]
    else:
        unit = next(u for u, s in UNITS["t"].items() if s == mended.time_scale)
        lines = ["[time]", f"column = {quoted(mended.time)}", f"unit = {quoted(unit)}"]
    for kind in ("q", "v", "a", "tau", "current"):
        named = [n for n in mended.sources if n.partition(".")[0] == kind]
        if named:
            lines += ["", *_map_of(kind, {n: mended.sources[n] for n in named})]
    return "\n".join(lines) + "\n"


def _map_of(kind: str, sources: Mapping[str, tuple[SignalMap, int]]) -> Iterator[str]:
    columns = list(dict.fromkeys(c for source, _ in sources.values() for c in source.columns))
    unit = next(iter(sources.values()))[0].unit
    matrix, offset = np.zeros((len(sources), len(columns))), np.zeros(len(sources))
    for k, (source, place) in enumerate(sources.values()):
        factor = UNITS[kind][source.unit] / UNITS[kind][unit]
        at = [columns.index(c) for c in source.columns]
        matrix[k, at] += factor * source.matrix[place]
        offset[k] = source.offset[place]
    if unit == "rad" and np.allclose(np.abs(matrix[matrix != 0.0]), UNITS[kind]["deg"], 1e-3):
        unit, matrix = "deg", np.sign(matrix)  # an angle wraps at the turn of its unit
    yield f"[{kind}]"
    chosen = [int(np.flatnonzero(row)[0]) for row in matrix if np.count_nonzero(row) == 1]
    single = len(chosen) == len(matrix)
    yield f"columns = {toml_list((columns[c] for c in chosen) if single else columns)}"
    yield f"joints = {toml_list(n.partition('.')[2] for n in sources)}"
    yield f"unit = {quoted(unit)}"
    if all(source.held for source, _ in sources.values()):
        yield "held = true"
    wrapped = {c for source, _ in sources.values() for c in source.wrapped}
    if wrapped:
        of = [n.partition(".")[2] for n, (s, _) in sources.items() if wrapped & {*s.columns}]
        yield f"unwrap = {toml_list(of)}"
    if not single:
        yield f"matrix = {[[float(x) for x in row] for row in matrix]}"
    elif not np.all(matrix[range(len(matrix)), chosen] == 1.0):
        yield f"scale = {[float(row[c]) for row, c in zip(matrix, chosen, strict=True)]}"
    if offset.any():
        yield f"offset = {[float(x) for x in offset]}"


def effort_kind(recording: Recording) -> str:
    """Return the kind of a log's efforts: `tau` or `current`."""
    return "tau" if any(n.startswith("tau.") for n in recording.sources) else "current"
