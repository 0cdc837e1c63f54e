"""`heft bench`: trials shared among processes, kept one by one, and made into one table.

A trial is a file; one that is there is not made again, so that a run that was killed goes on where
it was, and leaves the same bytes. Times differ from run to run: they stand in files of their own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from heft import __version__
from heft.engine import by_processes
from heft.errors import InvalidSetting, did_you_mean
from heft.files import (
    Keys,
    Number,
    check_fields,
    read_text,
    require_own,
    require_schema,
    write_text,
)
from heft.fit import Progress, silent

from . import candidates
from .experiments import FRICTION, NOISE, Case
from .page import page, text
from .robots import arm_of
from .summary import Summary, summaries
from .trials import Outcome, RealLogs, simulated_trial, truth_of

CHECKS: Keys = {
    "guesses": Number("the number of guesses is no whole number", 1, 100_000, whole=True),
    "seed": Number("a seed is a whole number", 0, 2**31, whole=True),
    "jobs": Number("jobs are a whole number", 1, 1024, whole=True),
    "duration": Number("a log of a benchmark lasts some seconds", least=2.0, most=600.0, unit="s"),
}
RESULTS, TIMES = "trials", "times"
FILES = (RESULTS, TIMES, "bench.json", "report.html")

_NUMBERS = {"type": "array", "items": {"type": ["number", "null"]}}
_FAILED = {"properties": {"failed": {"type": "string"}}, "required": ["failed"]}
_ENDED = {
    "properties": {
        "values": _NUMBERS,
        "std": _NUMBERS,
        "error": {"type": "number"},
        "physical": {"type": "boolean"},
        "margin": {"type": ["number", "null"]},
    },
    "required": ["values", "std", "error", "physical"],
}
RESULT = {"type": "object", "if": {"required": ["failed"]}, "then": _FAILED, "else": _ENDED}
SCHEMAS: dict[str, dict[str, Any]] = {
    RESULTS: {"type": "object", "additionalProperties": RESULT},
    TIMES: {"type": "object", "additionalProperties": {"type": "number", "minimum": 0}},
}


@dataclass(frozen=True)
class BenchSettings:
    """Settings of a benchmark: robots, friction, noise and estimators.

    Raises:
        InvalidSetting: If a name is unknown, or a number out of range.
    """

    # of the benchmark (`tx40`, `lwr4`, `ur`), or URDF files of arms
    robots: tuple[str, ...] = ("lwr4",)
    noise: tuple[str, ...] = tuple(NOISE)  # levels: `low`, `standard`, `high`
    # `in class`, what heft's estimators assume, or `lugre`, what they do not
    friction: tuple[str, ...] = ("in class",)
    estimators: tuple[str, ...] = candidates.USUAL  # their names
    # trials of each robot, friction and level, with noise and model file of their own
    guesses: int = 25
    seed: int = 1000  # of robots' drives and motions; those below 100 are for development
    jobs: int = 1  # processes
    duration: float = 10.0  # of the logs [s]

    def __post_init__(self) -> None:
        check_fields(self, CHECKS)
        known = (("noise", NOISE), ("friction", FRICTION), ("estimators", candidates.names()))
        for field, valid in known:
            for name in getattr(self, field):
                if name not in valid:
                    raise InvalidSetting(
                        "there is no such choice",
                        argument=field,
                        got=name,
                        valid=tuple(valid),
                        cure=did_you_mean(name, valid),
                    )
        for robot in self.robots:
            arm_of(robot)

    @property
    def cases(self) -> tuple[Case, ...]:
        """All robots with all frictions and levels of noise."""
        return tuple(
            Case(robot, friction, noise, self.seed, self.duration)
            for robot in self.robots
            for friction in self.friction
            for noise in self.noise
        )

    @property
    def trials(self) -> tuple[tuple[Case, int], ...]:
        """All trials, the first of each case first."""
        cases = self.cases
        return tuple((case, k) for k in range(self.guesses) for case in cases)


@dataclass(frozen=True, eq=False)
class Bench:
    """Result of a benchmark."""

    settings: BenchSettings  # what was compared on what
    summaries: tuple[Summary, ...]  # a candidate on a case each
    real: Outcome | None = None  # outcome on real logs; None if none were given

    def text(self) -> str:
        """Return the tables for the terminal."""
        return text(self.summaries, self.real)


@dataclass(frozen=True)
class Kept:
    """The trials of a benchmark's folder: results, that follow from the settings, and times."""

    out: Path  # the folder

    def open(self) -> None:
        """Make the folder, if it is not there.

        Raises:
            InvalidSetting: If it holds files that are not a benchmark's, or cannot be written to.
        """
        require_own(self.out, FILES)
        for name in (RESULTS, TIMES):
            (self.out / name).mkdir(parents=True, exist_ok=True)

    def lacking(self, case: Case, number: int, names: Sequence[str]) -> tuple[str, ...]:
        """Return the candidates that a trial still lacks; errors as for `outcome`."""
        had = self.outcome(case, number).results
        return tuple(n for n in names if n not in had)

    def outcome(self, case: Case, number: int) -> Outcome:
        """Return the stored outcome of a trial, empty if it was not run.

        Raises:
            InvalidSetting: If a file is damaged.
        """
        return Outcome(*(_read(self._file(name, case, number), name) for name in (RESULTS, TIMES)))

    def add(self, case: Case, number: int, outcome: Outcome) -> None:
        """Store the outcome of a trial: times first, so that no result lacks them."""
        had = self.outcome(case, number)
        for name, whole in (
            (TIMES, {**had.seconds, **outcome.seconds}),
            (RESULTS, {**had.results, **outcome.results}),
        ):
            content = json.dumps(dict(sorted(whole.items())), ensure_ascii=False)
            write_text(self._file(name, case, number), content + "\n")

    def _file(self, name: str, case: Case, number: int) -> Path:
        """Return the file of a trial, its name with a hash of version, noise and robot."""
        recipe = f"{__version__} {NOISE[case.noise]!r}".encode()
        told = hashlib.sha256(case.arm.urdf + recipe).hexdigest()[:8]
        friction = case.friction.replace(" ", "_")
        drawn = f"{friction}-{case.noise}-{case.duration:g}s-{case.seed}-{number:05d}"
        return self.out / name / f"{case.arm.name}-{told}-{drawn}.json"


def _read(path: Path, name: str) -> dict[str, Any]:
    if not path.is_file():
        return {}
    data = read_text(path, "file of a trial", InvalidSetting)
    try:
        found = json.loads(data)
        require_schema(found, SCHEMAS[name])
        for one in found.values() if name == RESULTS else ():
            if "failed" not in one and len(one["values"]) != len(one["std"]):
                raise ValueError("values and std differ in length")
    except (ValueError, RecursionError) as problem:
        raise InvalidSetting(
            "the file of a trial is damaged",
            argument=str(path),
            got=str(problem),
            cure="remove it; the trial is made again",
        ) from problem
    return dict(found)


def run_bench(
    settings: BenchSettings,
    out: Path,
    real: RealLogs | None = None,
    progress: Progress = silent,
) -> Bench:
    """Run the missing trials of a benchmark, and write its table and page.

    Args:
        out: Folder: `trials/`, a file each; `times/`; `bench.json`, and `report.html`.
        real: Logs of a real robot, on which the same estimators run too.

    Raises:
        InvalidSetting: If the folder holds other files, a damaged trial, or cannot be written to.
    """
    kept = Kept(out)
    kept.open()
    trials = settings.trials
    with closing(_run(settings, kept)) as made:
        for done, (case, number) in enumerate(made, 1):
            progress(f"{case.name}, trial {number}: {done} done of {len(trials)} at most")
    found = tuple(s for case in settings.cases for s in _summaries(settings, kept, case))
    outcome = None
    if real is not None:
        progress(f"{real.name}: real logs")
        outcome = real.trial(settings.estimators)
    bench = Bench(settings, found, outcome)
    asked = {k: v for k, v in asdict(settings).items() if k != "jobs"}
    content = {
        "settings": asked,
        "rows": [s.row for s in found],
        "real": None if outcome is None else {real.name if real else "": outcome.results},
    }
    write_text(out / "bench.json", json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    write_text(out / "report.html", page(settings.estimators, settings.guesses, found, outcome))
    return bench


def _summaries(settings: BenchSettings, kept: Kept, case: Case) -> tuple[Summary, ...]:
    outcomes = tuple(kept.outcome(case, k) for k in range(settings.guesses))
    return tuple(summaries(case, truth_of(case), settings.estimators, outcomes))


def _run(settings: BenchSettings, kept: Kept) -> Generator[tuple[Case, int], None, None]:
    missing = [
        (case, number, lacking)
        for case, number in settings.trials
        if (lacking := kept.lacking(case, number, settings.estimators))
    ]
    with closing(by_processes(_trial, missing, settings.jobs)) as made:
        for (case, number, _), outcome in made:
            kept.add(case, number, outcome)
            yield case, number


def _trial(missing: tuple[Case, int, tuple[str, ...]]) -> Outcome:
    return simulated_trial(*missing)
