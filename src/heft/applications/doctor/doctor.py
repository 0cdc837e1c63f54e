"""Log doctor: diagnosis of logs before a robot is identified from them.

Without a robot model it checks clock, rows and signals (`clock_and_signals`). With one it searches
for corrections of the columns under which the model explains the torque (`search`), and determines
which base parameters the motion excites. Every finding states its evidence and its cure.
"""

from __future__ import annotations

import threading
import tomllib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from heft import __version__
from heft.applications.inputs import AnyLogs, AnyPath, AnyRobot, Inputs, each
from heft.engine import one_blas_thread
from heft.errors import FitError, InvalidRecording, InvalidSetting
from heft.files import json_text, write_text
from heft.fit import UNIT_OF_TORQUE, Progress, silent, with_told_friction
from heft.information import SEVERITIES, Check, DataRank, Finding
from heft.models import JointOptions, Robot, joint_lines
from heft.recordings import JOINT_KINDS, ColumnMap, Recording, draft_map, read_table

from .clock_and_signals import INTEGERS, ZEROS, LogFacts, look
from .corrections import Context, Correction
from .evidence import Evidence
from .findings import Physics, effort_kind, mended_map, of_the_motion, readable, unwrapped
from .hypotheses import Explained, Pace, StepEvidence, TimingFound
from .score_test import UNSAID
from .search import at_best_bandwidth, explain
from .settings import DEFAULTS, CorrectionSearch, DoctorSettings
from .wrenches import Wrenches, has_wrenches

MARKS = {"spoils": "✗", "warns": "!", "tells": "·"}
# findings of which `heft identify` has a check of its own
JUDGED = frozenset(
    {"never moves", "little motion", "not finite", "slow clock", "no effort", "no rows"}
    | {"motion shows too little", "motion shows little", "unexplained torque", "physics not asked"}
)


@dataclass(frozen=True)
class Diagnosis:
    """Result of the log doctor."""

    logs: tuple[tuple[str, LogFacts], ...]  # name and facts of each log
    findings: tuple[Finding, ...]  # findings, the most severe first
    # rank of the base parameters that the motion excites; None without a robot
    motion: DataRank | None = None
    # relative torque residual after all corrections, by joint
    unexplained: tuple[tuple[str, float], ...] = ()
    correction: Correction | None = None  # all corrections combined, or None
    # their elementary steps, with evidence and indistinguishable alternatives
    steps: tuple[StepEvidence, ...] = ()
    settings: DoctorSettings = DEFAULTS  # thresholds used
    notes: tuple[str, ...] = ()  # on the model file and the logs
    recordings: tuple[Recording, ...] = field(default=(), compare=False, repr=False)  # the logs
    robot: Robot | None = field(default=None, compare=False, repr=False)  # whose logs they are

    @property
    def spoilt(self) -> bool:
        """Whether an identification from these logs would give wrong parameters."""
        return any(f.severity == "spoils" for f in self.findings)

    def summary(self) -> str:
        """Return the diagnosis as text: a line of verdict, then the findings."""
        return text(self)

    def __repr__(self) -> str:
        line = text(self).partition("\n")[0]
        return f"<{line[:180]}{'…' if len(line) > 180 else ''}>"

    def _repr_html_(self) -> str:
        """Return the diagnosis for a notebook."""
        return f"<pre>{escape(text(self))}</pre>"


def diagnose(
    recordings: Sequence[Recording],
    robot: Robot | None = None,
    progress: Progress = silent,
    settings: DoctorSettings = DEFAULTS,
    stop: threading.Event | None = None,
) -> Diagnosis:
    """Diagnose logs of one robot.

    Args:
        robot: Without it only clock, rows and signals are checked.
        stop: Event that ends the search early, with what was found so far.

    Raises:
        InvalidRecording: If a log cannot be read.
        MissingSignal: If the robot needs signals that a log does not hold.
    """
    logs, findings, pieces = [], [], []
    notes = [] if robot is None else [*robot.notes]
    matching = None if robot is None else _Matching.of(robot, recordings)
    for recording in recordings:
        progress(f"looking at {recording.name}")
        facts, of_log = look(recording, settings)
        pieces += readable(recording, facts, of_log)
        logs.append((recording.name, facts))
        of_log = tuple(f for f in of_log if matching is None or matching.concerns(f))
        prefix = f"{Path(recording.name).name}: " if len(recordings) > 1 else ""
        findings += [replace(f, about=prefix + f.about) for f in of_log]
        notes += [prefix + remark for remark in recording.remarks]
    findings += matching.findings() if matching is not None else ()
    seen = Diagnosis(
        tuple(logs),
        _sorted(findings),
        settings=settings,
        notes=tuple(notes),
        recordings=tuple(recordings),
        robot=robot,
    )
    if matching is None:
        return seen
    progress("asking the robot's physics")
    with one_blas_thread():
        if not matching.robot.tree.free_base and len(matching.robot.measured):
            pace = Pace(settings.search.longest_s, progress=progress, stop=stop)
            seen = _by_physics(seen, matching.robot, pieces, effort_kind(recordings[0]), pace)
        return _by_wrenches(seen, matching.robot, pieces) if has_wrenches(matching.robot) else seen


def faults(
    recordings: Sequence[Recording],
    robot: Robot,
    gains_are_sought: bool = False,
    judged: Collection[str] = (),
) -> tuple[Check, ...]:
    """Return a check for each finding that makes an identification from logs wrong.

    What the residual shows that the model does not hold makes it worse, and warns.
    What an identification judges by a check of its own is left out, and wrong gains where they are
    sought. Of a long log the first 100 000 rows are looked at; little motion tells no cause.

    Args:
        judged: Names of checks that the identification could make.
    """
    sought = ("wrong torque gain", UNIT_OF_TORQUE) if gains_are_sought else ()
    passed_over = {*JUDGED, *sought, *judged}
    diagnosis = diagnose([r.window(0, 100_000) for r in recordings], robot)
    brief = sum(f.active for _, f in diagnosis.logs) < diagnosis.settings.clock.shortest_motion_s
    return tuple(
        Check.of(f)
        for f in diagnosis.findings
        if (f.severity == "spoils" or f.name in {*UNSAID, INTEGERS})
        and f.name not in passed_over
        and not (brief and (f.sure is not None or f.name in UNSAID))
    )


@dataclass(frozen=True)
class _Matching:
    """Joints that logs or a model have more than the other: named, and passed over."""

    robot: Robot  # the robot whose joints the logs hold: others stand still, or are not measured
    beyond: tuple[str, ...]  # joints of the logs that the model does not have
    absent: tuple[str, ...]  # joints of the model whose position the logs lack
    # joints of the model that move in the logs, and whose torque the logs lack
    unmeasured: tuple[str, ...]

    @staticmethod
    def of(robot: Robot, recordings: Sequence[Recording]) -> _Matching:
        """Match a model's joints with those that all logs have, by name.

        Where they share no joint that can be identified, nothing is passed over.
        """
        logged = [frozenset(r.sources) for r in recordings]
        every = frozenset.intersection(*logged)
        named = {
            signal.partition(".")[2]: None
            for r in recordings
            for signal in r.sources
            if signal.partition(".")[0] in JOINT_KINDS
        }
        beyond = tuple(j for j in named if j not in robot.joints)
        moving = [j for j in robot.joints if j not in robot.options.still]
        absent = tuple(j for j in moving if f"q.{j}" not in every)
        torques = robot.options.equations in ("all", "joints")
        unmeasured = tuple(
            j
            for j in moving
            if torques
            and j not in absent
            and robot.options.of(j).measured
            and not every & {f"tau.{j}", f"current.{j}"}
        )
        changed: dict[str, JointOptions] = {}
        for joint in absent:
            changed[joint] = replace(robot.options.of(joint), position=0.0)
        for joint in unmeasured:
            changed[joint] = replace(robot.options.of(joint), measured=False)
        matched = robot.with_joints(changed) if changed else robot
        if not len(matched.measured):
            return _Matching(robot, beyond, (), ())
        return _Matching(matched, beyond, absent, unmeasured)

    def concerns(self, finding: Finding) -> bool:
        """Return whether a finding is about no signal, or about one that the robot uses."""
        kind, _, joint = finding.about.partition(".")
        if kind not in JOINT_KINDS:
            return True
        option = self.robot.options.of(joint)
        if joint in self.beyond or option.position is not None:
            return False
        return option.measured or kind not in ("tau", "current")

    def findings(self) -> Iterator[Finding]:
        """Yield findings on ignored joints and torques, with options for heft identify."""
        if self.beyond:
            yield Finding(
                "joints not in the model",
                "the log has joints that the model lacks, or that follow others: passed over",
                about=", ".join(self.beyond),
                severity="tells",
            )
        if self.absent:
            yield Finding(
                "joints not in the log",
                "the model has joints whose position the log lacks: here they stand still at zero",
                about=", ".join(self.absent),
                severity="tells",
                cure="heft identify wants to be told so, and where (position = …), if not at zero",
                lines={"options": joint_lines(self.absent, "fixed = true")},
            )
        if self.unmeasured:
            yield Finding(
                "torques not in the log",
                "the model has joints whose torque the log lacks: passed over",
                about=", ".join(self.unmeasured),
                severity="tells",
                cure="heft identify wants to be told so",
                lines={"options": joint_lines(self.unmeasured, "measured = false")},
            )


def _by_wrenches(seen: Diagnosis, robot: Robot, recordings: Sequence[Recording]) -> Diagnosis:
    settings, findings = seen.settings, list(seen.findings)
    try:
        asked = Wrenches.of(
            with_told_friction(robot), recordings, settings.wrenches, settings.physics
        )
        of_wrenches, motion, shares = asked.look()
    except (InvalidRecording, FitError) as problem:
        cure = "cure the other findings first"
        findings.append(Finding("wrenches not asked", problem.message, cure=cure))
        return replace(seen, findings=_sorted(findings))
    # Of joints alone is passed over what both see.
    findings = [f for f in findings if not f.name.startswith("motion shows")]
    findings += [*of_wrenches, *of_the_motion(motion)]
    return replace(
        seen,
        findings=_sorted(findings),
        motion=motion,
        unexplained=(
            *seen.unexplained,
            *((n, s) for n, s in shares.items() if n not in robot.joints),
        )
        if seen.unexplained
        else tuple(shares.items()),
    )


def _by_physics(
    seen: Diagnosis, robot: Robot, recordings: Sequence[Recording], effort: str, pace: Pace
) -> Diagnosis:
    settings, findings = seen.settings, list(seen.findings)
    try:
        if any(f.name == ZEROS for f in findings):
            raise InvalidRecording("efforts of some rows are none")
        evidence = Evidence.of(robot, recordings, settings.evidence)
        if not evidence.stretches or not evidence.channels:
            raise InvalidRecording("no piece of the logs is long enough, or holds no torque")
        evidence, explained, timing = _explained(evidence, settings, pace)
    except (InvalidRecording, FitError, np.linalg.LinAlgError) as problem:
        cure, why = "cure the other findings first", getattr(problem, "message", str(problem))
        findings.append(Finding("physics not asked", why, cure=cure))
        return replace(seen, findings=_sorted(findings))
    are_integers = any(f.name == INTEGERS for f in findings)
    context = Context(robot.joints, effort, robot.gravity, are_integers)
    physics = Physics(robot, recordings, evidence, explained, timing, context, settings)
    findings += physics.findings()
    if pace.was_cut:
        why = "stopped" if pace.is_stopped else f"after {pace.longest_s:g} s"
        cut_short = Finding(
            "search cut short",
            f"{pace.tried} corrections were tried ({why}); what is said here is of these",
            severity="tells",
            evidence={"tried": pace.tried},
            cure="" if pace.is_stopped else "allow more time with --longest",
        )
        findings.append(cut_short)
    motion = evidence.shown(explained.correction)
    findings += of_the_motion(motion)
    names = [robot.joints[c] for c in evidence.channels]
    return replace(
        seen,
        findings=_sorted(findings),
        motion=motion,
        unexplained=tuple(zip(names, explained.unexplained.tolist(), strict=True)),
        correction=explained.correction,
        steps=explained.steps,
    )


def _explained(
    logged: Evidence, settings: DoctorSettings, pace: Pace
) -> tuple[Evidence, Explained, TimingFound]:
    """Return evidence at the bandwidth of the least residual, its corrections and its timings.

    A fault hides what bandwidth is best, so it is asked for again without those that are found.
    """
    timing = settings.search.timing
    evidence = at_best_bandwidth(logged, Correction.none(logged.robot), timing)
    explained, timings = explain(evidence, settings.search, pace, settings.loads)
    if explained.steps and not pace.is_over():
        better = at_best_bandwidth(logged, explained.correction, timing)
        if better.corner < evidence.corner:
            evidence = better
            explained, timings = explain(evidence, settings.search, pace, settings.loads)
    return evidence, explained, timings


def diagnose_files(
    logs: AnyLogs,
    robot: AnyRobot | None = None,
    options: AnyPath | None = None,
    columns: AnyPath | None = None,
    progress: Progress = silent,
    settings: DoctorSettings = DEFAULTS,
    stop: threading.Event | None = None,
    own_columns: AnyPath | None = None,
) -> Diagnosis:
    """Look whether logs of one robot are any good; see `diagnose`.

    >>> print(heft.check("run1.csv", "arm.urdf").summary())

    Args:
        logs: A log or several: files, recordings, tables or dictionaries of columns.
        robot: Its model file or a robot; without it only clock, rows and signals are checked.
        options: TOML file with what the model file cannot state.
        columns: TOML file that maps the logs' columns to signals.
        own_columns: Python file of the user's own columns of the regressor, which is run.

    Raises:
        InvalidSetting: If no log is given, or own columns without a robot.
    """
    if not each(logs):
        raise InvalidSetting("no log is given", argument="LOGS")
    if own_columns is not None and robot is None:
        raise InvalidSetting(
            "own columns are of a robot", argument=f"--columns {own_columns}", cure="give --robot"
        )
    inputs = Inputs.open(robot, options, columns, own_columns).with_logs(log=logs)
    diagnosis = diagnose(inputs.logs["log"], inputs.robot, progress, settings, stop)
    inputs.refuse_changed()
    return diagnosis


def settings(longest_s: float) -> DoctorSettings:
    """Return the default settings with a bound on the time of the search [s].

    Raises:
        InvalidSetting: If it is not positive.
    """
    if not longest_s > 0.0:
        raise InvalidSetting("a time is positive", argument="--longest", got=longest_s)
    return DoctorSettings(search=CorrectionSearch(longest_s=longest_s))


def _sorted(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda f: SEVERITIES.index(f.severity)))


def stated_together(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings with those that say the same of several signals as one about all of these."""
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for f in findings:
        groups.setdefault((f.severity, f.name, f.message, f.cure, *f.lines), []).append(f)
    return [
        replace(
            of[0],
            about=", ".join(f.about for f in of),
            lines={to: "\n".join(dict.fromkeys(f.lines[to] for f in of)) for to in of[0].lines},
        )
        for of in groups.values()
    ]


def verdict_of(d: Diagnosis) -> str:
    """Return in a few words whether the logs are any good."""
    findings = stated_together(d.findings)
    worst = [f.name for f in findings if f.severity == "spoils"]
    rest = len(findings) - len(worst)
    verdict = "clean" if not d.findings else "usable"
    if worst:
        verdict = f"{len(worst)} things will spoil an identification"
        if len(worst) == 1:
            verdict = f"{worst[0]}: this will spoil an identification"
    if rest:
        verdict += f", {rest} to know"
    return verdict


def of_the_logs(d: Diagnosis) -> str:
    """Return how much the logs hold, and what their motion shows."""
    rows = sum(f.rows for _, f in d.logs)
    duration = sum(f.duration for _, f in d.logs)
    step = max((f.step for _, f in d.logs), default=0.0)
    rate = f" at {1.0 / step:.4g} Hz" if step else ""
    summary = f"{rows} rows, {duration:.4g} s{rate}"
    if d.motion is not None:
        summary += (
            f"; the motion excites {d.motion.rank} of {d.motion.columns} base parameters, "
            f"condition {d.motion.condition:.3g}"
        )
    return summary


def text(d: Diagnosis) -> str:
    """Return the diagnosis as text: a line of verdict, then the findings, the most severe first."""
    names = ", ".join(Path(n).name for n, _ in d.logs)
    lines = [f"{names}: {verdict_of(d)} ({of_the_logs(d)})"]
    for f in stated_together(d.findings):
        sure = "" if f.sure is None else f" [{percent(f.sure)} sure]"
        lines.append(f"{MARKS[f.severity]} {f.name}, {f.about}: {f.message}{sure}")
        lines += f.remedy
    if d.motion is not None and any("map" in f.lines for f in d.findings):
        lines.append("the whole column map, with what is mended: add --mended map.toml")
    return "\n".join([*lines, *(f"note: {note}" for note in d.notes)])


def percent(share: float) -> str:
    """Return a probability as text."""
    return "over 99.9 %" if share > 0.999 else f"{share:.1%}"


def to_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return the diagnosis as `write_json` writes it."""
    return {
        "heft": __version__,
        "verdict": "spoilt" if diagnosis.spoilt else "usable" if diagnosis.findings else "clean",
        "logs": [{"path": name, **asdict(facts)} for name, facts in diagnosis.logs],
        "findings": [vars(f) for f in diagnosis.findings],
        "motion": None if diagnosis.motion is None else asdict(diagnosis.motion),
        "unexplained": dict(diagnosis.unexplained),
        "correction": None if diagnosis.correction is None else asdict(diagnosis.correction),
        "notes": list(diagnosis.notes),
    }


def write_json(path: Path, diagnosis: Diagnosis) -> None:
    """Write the diagnosis as JSON, atomically."""
    write_text(path, json_text(to_json(diagnosis)))


def write_mended(path: Path, diagnosis: Diagnosis, columns: Path | None) -> None:
    """Write a column map that contains the corrections, atomically.

    Args:
        diagnosis: By a robot's physics.
        columns: Map that the logs were read with.

    Raises:
        InvalidSetting: If it would overwrite the map that was read.
    """
    if columns is not None and path.resolve() == columns.resolve():
        raise InvalidSetting(
            "the mended map would overwrite the one that was read",
            argument=f"--mended {path}",
            cure="name another file",
        )
    robot = diagnosis.robot
    assert robot is not None
    recording = unwrapped(diagnosis.recordings[0], diagnosis.findings)
    write_text(path, mended_map(recording, robot, diagnosis.correction or Correction.none(robot)))


def write_draft(path: Path, log: Path, robot: Path | None = None) -> None:
    """Write a first draft of a log's column map, atomically; see `drafting`.

    What `--with` must say of joints that the map does not name stands there as comments.
    """
    joints = Robot.from_file(robot).joints if robot is not None else ()
    drafted = draft_map(read_table(log), joints)
    write_text(path, drafted + "".join(f"# {line}\n" for line in _of_others(drafted, joints)))


def _of_others(drafted: str, joints: Sequence[str]) -> Iterator[str]:
    """Yield option lines for joints of which a drafted map names no position or no torque."""
    columns = ColumnMap.from_dict(tomllib.loads(drafted))
    named = {name for signal in columns.signals for name in signal.names}
    absent = [j for j in joints if f"q.{j}" not in named]
    unmeasured = [j for j in joints if j not in absent and not named & {f"tau.{j}", f"current.{j}"}]
    for chosen, says, line in (
        (absent, "have no position here; where they stand still", "fixed = true"),
        (unmeasured, "have no torque here", "measured = false"),
    ):
        if chosen and len(chosen) < len(joints):
            yield f"CHECK: these joints {says}, say in the file of --with:"
            yield from joint_lines(chosen, line).splitlines()
