"""The log doctor: what is wrong with a log, before anyone identifies a robot from it.

Without a robot it looks at clock, rows and signals (`doctor_log`); with one it asks which
corrections of the log the robot's physics calls for (`doctor_physics`) and what the motion can
show. Every finding has its evidence and its cure.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from heft import __version__
from heft.applications.identification import Inputs, Limits, Progress, silent
from heft.arrays import Array
from heft.errors import FitError, InvalidRecording, InvalidSetting
from heft.files import put, require_writable, workshop
from heft.information import DataRank
from heft.models import Robot
from heft.recordings import UNITS, Recording, SignalMap, draft_map, read_table

from .clock_and_signals import LogFacts, look
from .corrections import Explained, Move, Proof, explain
from .evidence import Correction, Evidence
from .finding import SEVERITIES, Finding

CONDITION = Limits().condition  # of the motion, as an identification judges it
TRIED = 250.0  # corrections that a search looks at, one of which may fit by chance
UNEXPLAINED = 0.5  # share of all torque left over, beyond which the robot is another one
UNEXPLAINED_MUCH = 0.15  # the same, beyond which the model file is doubted: measured arms leave 9 %
UNEXPLAINED_JOINT = 0.9  # the same of one joint
TORQUE_UNITS = {("tau", 1e-3): "mNm", ("tau", 1e3): "kNm", ("current", 1e-3): "mA"}
MARKS = {"spoils": "✗", "warns": "!", "tells": "·"}


@dataclass(frozen=True)
class Diagnosis:
    """What the doctor found.

    Attributes:
        logs: Name of each log and what it is.
        findings: The worst first.
        motion: What the motion shows of the bodies; None without a robot.
        unexplained: Share of the torque that is left over after every correction, by joint.
        correction: All corrections by physics together, or None.
        proofs: The same one by one, with what explains the torque as well.
    """

    logs: tuple[tuple[str, LogFacts], ...]
    findings: tuple[Finding, ...]
    motion: DataRank | None = None
    unexplained: tuple[tuple[str, float], ...] = ()
    correction: Correction | None = None
    proofs: tuple[Proof, ...] = ()

    @property
    def spoilt(self) -> bool:
        """Whether an identification from these logs would be wrong."""
        return any(f.severity == "spoils" for f in self.findings)


def diagnose(
    recordings: Sequence[Recording], robot: Robot | None = None, progress: Progress = silent
) -> Diagnosis:
    """Return what is wrong with logs of one robot.

    Args:
        recordings: The logs.
        robot: What moved in them; without it only the logs themselves are looked at.
        progress: Told what is being done.

    Raises:
        InvalidRecording: If a log cannot be read.
        MissingSignal: If the robot asks for signals that a log does not hold.
    """
    logs, findings, readable = [], [], []
    for recording in recordings:
        progress(f"looking at {recording.name}")
        facts, found = look(recording)
        readable.append(unwrapped(recording, found))
        logs.append((recording.name, facts))
        prefix = f"{Path(recording.name).name}: " if len(recordings) > 1 else ""
        findings += [replace(f, about=prefix + f.about) for f in found]
    if robot is None:
        return Diagnosis(tuple(logs), _sorted(findings))
    progress("asking the robot's physics")
    try:
        evidence = Evidence.of(robot, readable)
        if not evidence.stretches or not evidence.channels:
            raise InvalidRecording("no piece of the logs is long enough, or holds no torque")
        explained = explain(evidence)
    except (InvalidRecording, FitError) as problem:
        findings.append(
            Finding(
                "physics not asked",
                "log",
                "warns",
                problem.message,
                cure="cure the other findings first",
            )
        )
        return Diagnosis(tuple(logs), _sorted(findings))
    findings += [_finding(p, robot, recordings[0]) for p in explained.proofs]
    findings += _of_what_is_left(explained, evidence)
    motion = evidence.shown(explained.correction)
    findings += _of_the_motion(motion, explained, robot)
    names = [robot.joints[c] for c in evidence.channels]
    return Diagnosis(
        tuple(logs),
        _sorted(findings),
        motion,
        tuple(zip(names, explained.unexplained.tolist(), strict=True)),
        explained.correction,
        explained.proofs,
    )


def diagnose_files(
    logs: Sequence[Path],
    robot: Path | None = None,
    options: Path | None = None,
    columns: Path | None = None,
    progress: Progress = silent,
) -> Diagnosis:
    """Return what is wrong with log files; see `diagnose`.

    Args:
        logs: Files of one robot.
        robot: Its model file.
        options: TOML that says what the model file cannot.
        columns: TOML that says what the logs' columns mean.
        progress: Told what is being done.
    """
    if not logs:
        raise InvalidSetting("no log is given", argument="LOGS")
    inputs = Inputs.open(robot, options, columns).with_logs(log=logs)
    found = diagnose(inputs.logs["log"], inputs.robot, progress)
    inputs.refuse_changed()
    return found


def unwrapped(recording: Recording, findings: Sequence[Finding]) -> Recording:
    """Return a recording without the jumps by full turns that were found in its angles."""
    turns: dict[str, float] = {}
    for finding in findings:
        if finding.name != "wrapped angle":
            continue
        source, place = recording.sources[finding.about]
        row = source.matrix[place]
        if np.count_nonzero(row) != 1:
            continue  # of several motors: which one jumps is not known
        column = int(np.flatnonzero(row)[0])
        scale = abs(row[column]) * UNITS[source.kind][source.unit]
        turns[source.columns[column]] = finding.evidence["turn"] / scale
    if not turns:
        return recording
    table = recording.table

    def read(names: Sequence[str]) -> Iterator[Array]:
        last: dict[int, float] = {}
        for block in table.read(names):
            out = np.array(block)
            for k, name in enumerate(names):
                if name in turns and len(out):
                    before = [last[k]] if k in last else []
                    path = np.unwrap(np.concatenate([before, out[:, k]]), period=turns[name])
                    out[:, k] = path[len(before) :]
                    last[k] = float(out[-1, k])
            yield out

    return replace(recording, table=replace(table, read=read))


def corrected(recording: Recording, robot: Robot, correction: Correction) -> Recording:
    """Return a recording with the corrections of its columns applied.

    Gravity and delay are no columns: they go to the options and to `--delay`.
    """
    sources = dict(recording.sources)
    for kind, source, scale, offset in _kinds(recording, correction):
        for j, joint in enumerate(robot.joints):
            name, old = f"{kind}.{joint}", f"{kind}.{robot.joints[source[j]]}"
            if old in recording.sources:
                given, place = recording.sources[old]
                sources[name] = (
                    SignalMap(
                        kind,
                        given.columns,
                        (joint,),
                        given.unit,
                        scale[j] * given.matrix[place : place + 1],
                        scale[j] * given.offset[place : place + 1] + offset[j],
                    ),
                    0,
                )
    return replace(recording, sources=sources)


def mended_map(recording: Recording, robot: Robot, correction: Correction) -> str:
    """Return the text of a column map with the corrections in it, for `--map`."""
    mended = corrected(recording, robot, correction)
    if mended.time is None:
        lines = ["[time]", f"step = {mended.step!r}"]
    else:
        unit = next(u for u, s in UNITS["t"].items() if s == mended.time_scale)
        lines = ["[time]", f"column = {_quoted(mended.time)}", f"unit = {_quoted(unit)}"]
    for kind in ("q", "v", "a", "tau", "current"):
        named = [n for n in mended.sources if n.partition(".")[0] == kind]
        if not named:
            continue
        columns = list(dict.fromkeys(c for n in named for c in mended.sources[n][0].columns))
        unit = mended.sources[named[0]][0].unit
        matrix, offset = np.zeros((len(named), len(columns))), np.zeros(len(named))
        for k, name in enumerate(named):
            source, place = mended.sources[name]
            factor = UNITS[kind][source.unit] / UNITS[kind][unit]
            at = [columns.index(c) for c in source.columns]
            matrix[k, at] += factor * source.matrix[place]
            offset[k] = source.offset[place]
        lines += ["", f"[{kind}]"]
        single = (np.count_nonzero(matrix, axis=1) == 1).all()
        if single:
            chosen = [int(np.flatnonzero(row)[0]) for row in matrix]
            lines.append(f"columns = {_list(columns[c] for c in chosen)}")
        else:
            lines.append(f"columns = {_list(columns)}")
        lines.append(f"joints = {_list(n.partition('.')[2] for n in named)}")
        lines.append(f"unit = {_quoted(unit)}")
        if not single:
            lines.append(f"matrix = {[[float(x) for x in row] for row in matrix]}")
        elif not np.all(matrix[range(len(named)), chosen] == 1.0):
            lines.append(
                f"scale = {[float(row[c]) for row, c in zip(matrix, chosen, strict=True)]}"
            )
        if offset.any():
            lines.append(f"offset = {[float(x) for x in offset]}")
    return "\n".join(lines) + "\n"


def _kinds(
    recording: Recording, correction: Correction
) -> Iterator[tuple[str, tuple[int, ...], tuple[float, ...], tuple[float, ...]]]:
    zero = (0.0,) * len(correction.q_source)
    yield "q", correction.q_source, correction.q_scale, correction.q_offset
    yield _effort_kind(recording), correction.tau_source, correction.tau_scale, zero


def _effort_kind(recording: Recording) -> str:
    return "tau" if any(n.startswith("tau.") for n in recording.sources) else "current"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _list(names: Any) -> str:
    return "[" + ", ".join(_quoted(n) for n in names) + "]"


def _sorted(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda f: SEVERITIES.index(f.severity)))


def _finding(proof: Proof, robot: Robot, recording: Recording) -> Finding:
    """Return the finding of one correction that physics asks for."""
    name, what, cure, lines = _said(proof.move, robot, recording)
    rivals = [m for m, _ in proof.others]
    odds = TRIED * math.exp(-min(proof.evidence, 1000.0) / 2.0)
    odds += sum(math.exp(-max(apart, 0.0) / 2.0) for _, apart in proof.others)
    like = (
        "; as well explained by: " + ", ".join(_said(m, robot, recording)[1] for m in rivals[:3])
        if rivals
        else ""
    )
    about = ", ".join(robot.joints[j] for j in proof.move.joints) or "all joints"
    return Finding(
        name,
        about,
        "spoils",
        f"{what}: with that {proof.after:.1%} instead of {proof.before:.1%} of the torque of "
        f"'{proof.channel}' is not explained{like}",
        {
            "evidence": proof.evidence,
            "unexplained_before": proof.before,
            "unexplained_after": proof.after,
            **({"value": proof.move.value} if proof.move.value else {}),
        },
        1.0 / (1.0 + odds),
        cure,
        lines,
    )


def _said(move: Move, robot: Robot, recording: Recording) -> tuple[str, str, str, dict[str, str]]:
    """Return a step's name, what it says, its cure and the lines that do it."""
    joints, count = robot.joints, len(robot.joints)
    effort = _effort_kind(recording)
    named = " and ".join(f"'{joints[j]}'" for j in move.joints) or "all joints"
    about = set(move.joints or range(count))

    def line(kind: str, key: str, value: float, rest: float) -> str:
        numbers = [float(f"{value:.8g}") if j in about else rest for j in range(count)]
        return f"[{kind}]\n{key} = {numbers}  # {', '.join(joints)}"

    if move.kind in ("q sign", "tau sign", "axis"):
        kinds = {"q sign": ("q",), "tau sign": (effort,), "axis": ("q", effort)}[move.kind]
        signs = {"q sign": "position", "tau sign": "torque", "axis": "position and torque"}
        text = "\n".join(line(k, "sign", -1, 1).replace(".0", "") for k in kinds)
        what = f"the {signs[move.kind]} of {named} has the other sign"
        return f"flipped {signs[move.kind]}", what, "flip it in the column map", {"map": text}
    if move.kind in ("q swap", "tau swap", "swap"):
        kinds = {"q swap": ("q",), "tau swap": (effort,), "swap": ("q", effort)}[move.kind]
        words = {"q swap": "positions", "tau swap": "torques", "swap": "columns"}[move.kind]
        order = list(joints)
        for j, k in zip(move.joints, reversed(move.joints), strict=True):
            order[j] = joints[k]
        columns = {k: _list(f"{k}.{j}" for j in joints) for k in kinds}
        text = "\n".join(
            f"[{k}]\njoints = {_list(order)}  # of columns {columns[k]}" for k in kinds
        )
        what = f"the {words} of {named} are swapped"
        return f"swapped {words}", what, "name them in the other order", {"map": text}
    if move.kind == "q unit":
        unit = {np.pi / 180.0: "deg", 2.0 * np.pi: "turn"}.get(move.value)
        name = {"deg": "degrees for radians", "turn": "turns for radians"}.get(str(unit))
        text = f'[q]\nunit = "{unit}"' if unit else line("q", "scale", move.value, 1.0)
        what = (
            f"positions are in {'degrees' if unit == 'deg' else 'turns'}"
            if unit
            else ("positions were turned from degrees to radians twice")
        )
        return name or "radians for degrees", what, "state the unit", {"map": text}
    if move.kind == "q scale":
        name = "wrong gear or unit of position"
        if abs(move.value - np.pi / 180.0) < 1e-3 * np.pi:
            name = "degrees for radians"
        what = f"the position of {named} is {1.0 / move.value:.4g} times too large"
        cure = "scale it; if it is a motor's, give the exact ratio"
        return name, what, cure, {"map": line("q", "scale", move.value, 1.0)}
    if move.kind == "q offset":
        shift = float(np.angle(np.exp(1j * move.value)))
        what = f"the zero of {named} is off by {np.rad2deg(-shift):.3g}°"
        return "encoder offset", what, "shift it", {"map": line("q", "offset", shift, 0.0)}
    if move.kind == "tau gain":
        what = f"the torque of {named} is {1.0 / move.value:.4g} times too large"
        cure = "look at its gear ratio, gain and unit"
        text = line(effort, "scale", move.value, 1.0)
        return "wrong torque gain", what, cure, {"map": text}
    if move.kind == "tau unit":
        unit = TORQUE_UNITS.get((effort, move.value))
        text = f'[{effort}]\nunit = "{unit}"' if unit else line(effort, "scale", move.value, 1.0)
        what = f"torques are {1.0 / move.value:.4g} times too large"
        return "unit of torque", what, "state the unit", {"map": text}
    if move.kind == "gravity":
        assert move.gravity is not None
        if not any(move.gravity):
            what = "the torque holds nothing of gravity"
            cure = "log the motors' torque before gravity is taken out, or say that there is none"
            return "no gravity", what, cure, {"options": "gravity = [0.0, 0.0, 0.0]"}
        a, b = np.array(move.gravity), robot.gravity
        size = max(float(np.linalg.norm(a) * np.linalg.norm(b)), 1e-12)
        tilt = float(np.rad2deg(np.arccos(np.clip(a @ b / size, -1.0, 1.0))))
        numbers = [round(x, 4) + 0.0 for x in move.gravity]
        what = f"the base is mounted {tilt:.3g}° off what gravity says"
        return "tilted mounting", what, "state gravity", {"options": f"gravity = {numbers}"}
    side = "behind" if move.value > 0.0 else "ahead of"
    what = f"torque comes {1e3 * abs(move.value):.3g} ms {side} motion"
    cure = "state the delay, if heft identify does not find it by itself"
    return "delay", what, cure, {"flag": f"--delay {move.value:.4g}"}


def _of_what_is_left(explained: Explained, evidence: Evidence) -> Iterator[Finding]:
    names = [evidence.robot.joints[c] for c in evidence.channels]
    if explained.total > UNEXPLAINED_MUCH:
        yield Finding(
            "unexplained torque",
            "all joints",
            "spoils" if explained.total > UNEXPLAINED else "warns",
            f"{explained.total:.0%} of the torque is not explained, whatever single correction",
            {"share": explained.total},
            cure="is it this robot's model file, with its lengths and axes? look at units, order "
            "and signs of all joints",
        )
    if explained.total > UNEXPLAINED:
        return
    for name, share in zip(names, explained.unexplained.tolist(), strict=True):
        if share > UNEXPLAINED_JOINT:
            yield Finding(
                "unexplained torque",
                name,
                "warns",
                f"{share:.0%} of its torque is not explained by this robot's motion",
                {"share": share},
                cure="look at what this joint's column holds",
            )


def _of_the_motion(motion: DataRank, explained: Explained, robot: Robot) -> Iterator[Finding]:
    weakest = ", ".join(motion.weakest)
    if motion.rank < motion.columns:
        yield Finding(
            "motion shows too little",
            "log",
            "spoils",
            f"it shows {motion.rank} of the bodies' {motion.columns} base parameters",
            {"rank": motion.rank, "columns": motion.columns},
            cure=f"move all joints at once; least is seen of {weakest}",
        )
    elif motion.condition > CONDITION.passes:
        spoils = motion.condition > CONDITION.fails
        yield Finding(
            "motion shows little",
            "log",
            "spoils" if spoils else "warns",
            f"condition number {motion.condition:.0f} of the bodies' base parameters",
            {"condition": motion.condition},
            cure=f"move all joints at once, faster and farther; least is seen of {weakest}",
        )


def text(found: Diagnosis) -> str:
    """Return what a terminal shows: a line of verdict, then the findings, the worst first."""
    worst = sum(f.severity == "spoils" for f in found.findings)
    rest = len(found.findings) - worst
    verdict = "clean" if not found.findings else "usable"
    if worst:
        verdict = f"{worst} {'thing' if worst == 1 else 'things'} will spoil an identification"
    if rest:
        verdict += f", {rest} to know"
    rows = sum(f.rows for _, f in found.logs)
    duration = sum(f.duration for _, f in found.logs)
    step = max((f.step for _, f in found.logs), default=0.0)
    rate = f" at {1.0 / step:.4g} Hz" if step else ""
    names = ", ".join(Path(n).name for n, _ in found.logs)
    lines = [f"{names}: {verdict} ({rows} rows, {duration:.4g} s{rate})"]
    if found.motion is not None:
        lines[0] += (
            f"; motion shows {found.motion.rank} of {found.motion.columns} base parameters, "
            f"condition {found.motion.condition:.3g}"
        )
    for f in found.findings:
        sure = "" if f.sure is None else f" [{_percent(f.sure)} sure]"
        lines.append(f"{MARKS[f.severity]} {f.name}, {f.about}: {f.message}{sure}")
        if f.cure:
            lines.append(f"    {f.cure}")
        for place, content in f.lines.items():
            where = {"map": "--map", "options": "--with", "flag": "flag"}[place]
            lines += [f"    {where}:  " + content.replace("\n", f"\n    {' ' * len(where)}   ")]
    return "\n".join(lines)


def _percent(share: float) -> str:
    return "over 99.9 %" if share > 0.999 else f"{share:.1%}"


def to_json(found: Diagnosis) -> dict[str, Any]:
    """Return the diagnosis as JSON has it."""
    table = {
        "heft": __version__,
        "verdict": "spoilt" if found.spoilt else "usable" if found.findings else "clean",
        "logs": [{"path": name, **asdict(facts)} for name, facts in found.logs],
        "findings": [asdict(f) for f in found.findings],
        "motion": None if found.motion is None else asdict(found.motion),
        "unexplained": dict(found.unexplained),
        "correction": None if found.correction is None else asdict(found.correction),
    }
    return {k: _finite(v) for k, v in table.items()}


def write_json(path: Path, found: Diagnosis) -> None:
    """Write the diagnosis, whole or not at all."""
    _write(path, json.dumps(to_json(found), indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def write_mended(
    path: Path,
    found: Diagnosis,
    log: Path,
    robot: Path,
    options: Path | None,
    columns: Path | None,
) -> None:
    """Write a column map with the cures of physics in it, whole or not at all.

    Raises:
        InvalidSetting: If the map would be the one that was read.
    """
    if columns is not None and path.resolve() == columns.resolve():
        raise InvalidSetting(
            "the mended map would overwrite the one that was read",
            argument=f"--mended {path}",
            cure="name another file",
        )
    inputs = Inputs.open(robot, options, columns).with_logs(log=[log])
    (recording,), plant = inputs.logs["log"], inputs.robot
    assert plant is not None
    correction = found.correction or Correction.none(plant)
    _write(path, mended_map(recording, plant, correction))


def write_draft(path: Path, log: Path, robot: Path | None = None) -> None:
    """Write a first draft of the column map of a log, whole or not at all; see `drafting`."""
    joints = Robot.from_file(robot).joints if robot is not None else ()
    _write(path, draft_map(read_table(log), joints))


def _write(path: Path, content: str) -> None:
    require_writable(path)
    with workshop(path) as folder:
        new = folder / path.name
        new.write_text(content, encoding="utf-8")
        put(new, path)


def _finite(value: Any) -> Any:
    """Return a value as JSON has it: what is not finite becomes null."""
    if isinstance(value, Mapping):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
