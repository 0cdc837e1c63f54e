"""`heft coop check`: what would spoil a team's identification, of each log and of all together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from heft.applications.doctor import doctor
from heft.errors import HeftError
from heft.information import SEVERITIES, Finding

from .results import TEAM_FILE, identify_team
from .robot_log import RobotLog, from_one_epoch, opened
from .team_file import TeamFile


def check_team_files(
    run: Path, columns: Path | None = None, progress: Callable[[str], None] = lambda line: None
) -> doctor.Diagnosis:
    """Diagnose a team's logs: each one's clock and signals as `heft check` does, then physics.

    Physics is that of the identification itself: what it would remark on its answer, or why it
    would refuse one, and which signs of wrenches would make one.

    Args:
        run: `team.toml` with a log of each robot, or the folder that holds it.
        columns: TOML that says what the logs' columns mean.

    Raises:
        InvalidSetting: If the TOML is malformed.
    """
    path = run / TEAM_FILE if run.is_dir() else run
    stated = TeamFile.from_toml(path)
    logs: list[RobotLog] = []
    findings: list[Finding] = []
    seen = doctor.Diagnosis((), ())
    for robot in stated.robots:
        try:
            (log,) = opened(replace(stated, robots=(robot,)), path, columns, progress)
            logs.append(log)
            seen_alone = doctor.diagnose([log.recording])
        except HeftError as problem:
            findings.append(refused(problem, robot.name))
            continue
        findings += [replace(f, about=f"{robot.name}, {f.about}") for f in seen_alone.findings]
        notes = tuple(f"{robot.name}: {note}" for note in seen_alone.notes)
        seen = replace(seen, logs=(*seen.logs, *seen_alone.logs), notes=(*seen.notes, *notes))
    if len(logs) == len(stated.robots):
        progress("asking the load's physics")
        try:
            findings += identify_team(stated, from_one_epoch(logs)).findings()
        except HeftError as problem:
            findings.append(refused(problem, "all robots"))
    findings.sort(key=lambda f: SEVERITIES.index(f.severity))
    return replace(seen, findings=tuple(findings))


def refused(problem: HeftError, about: str) -> Finding:
    """Return what refuses an identification as a finding that spoils it."""
    evidence = (str(e) for e in (problem.argument, problem.got) if e is not None)
    return Finding(
        "refused",
        f"{problem.message} ({'; '.join(evidence)})",
        about=about,
        severity="spoils",
        cure=problem.cure or "",
    )
