"""`heft coop check`: what would spoil a team's identification, of each log and of all together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from heft.applications.doctor import doctor
from heft.errors import HeftError
from heft.information import SEVERITIES, Finding

from .results import TEAM_FILE, TeamFound, identify_team
from .robot_log import RobotLog, from_one_epoch, opened
from .signals import ContactSignals
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
            findings += _of_physics(stated, from_one_epoch(logs))
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


def _of_physics(stated: TeamFile, team: Sequence[ContactSignals]) -> Iterator[Finding]:
    found = identify_team(stated, team)
    # A misfit stays where all signs are turned, a negative mass where some are
    negative = any(f.name == "opposite wrenches" for f in found.findings())
    every = tuple(range(len(team)))
    tried = [every] if negative else list(combinations(every, 1))
    signs = dict(_other_signs(stated, team, tried)) if found.verdict == "poor" else {}
    for robots, other in signs.items():
        mass = other.load(0)
        assert mass is not None
        needed = {stated.robots[k].name: not stated.robots[k].reaction for k in robots}
        yield Finding(
            "opposite wrench",
            "with the opposite wrench one rigid load explains the logs, of "
            f"{mass.mass:.4g} kg; as it stands none does",
            about=", ".join(needed),
            severity="spoils",
            cure="; ".join(
                f"in the [[robot]] of {name}: reaction = {str(so).lower()}"
                for name, so in needed.items()
            ),
        )
    # What another sign explains is not told twice
    yield from (f for f in found.findings() if not signs or f.severity != "spoils")


def _other_signs(
    stated: TeamFile, team: Sequence[ContactSignals], tried: Sequence[tuple[int, ...]]
) -> Iterator[tuple[tuple[int, ...], TeamFound]]:
    """Yield sets of robots whose opposite wrenches make an estimate that can be believed."""
    for some in tried:
        turned = [s.reversed() if k in some else s for k, s in enumerate(team)]
        found = identify_team(stated, turned)
        if found.verdict != "poor" and found.load(0) is not None:
            yield some, found
