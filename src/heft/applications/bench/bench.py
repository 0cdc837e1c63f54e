"""`heft bench`: trials shared among processes, kept one by one, and made into one table.

A trial is a file; one that is there is not made again, so that a run that was killed goes on where
it was, and leaves the same bytes. Times differ from run to run: they stand in files of their own.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from heft.applications.identification import Progress, silent
from heft.errors import InvalidSetting, nearest
from heft.files import Keys, Number, check_fields, write_text

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


@dataclass(frozen=True)
class BenchSettings:
    """What is compared on what.

    Attributes:
        robots: Of the benchmark (`tx40`, `lwr4`, `ur`), or URDF files of arms.
        noise: Levels: `low`, `standard`, `high`.
        friction: `in class`, what heft's estimators assume, or `lugre`, what they do not.
        estimators: Their names.
        guesses: Trials of each robot, friction and level, with noise and model file of their own.
        seed: Of robots' drives and motions; those below 100 are for development.
        jobs: Processes.
        duration: Of the logs [s].

    Raises:
        InvalidSetting: If a name is unknown, or a number out of range.
    """

    robots: tuple[str, ...] = ("lwr4",)
    noise: tuple[str, ...] = tuple(NOISE)
    friction: tuple[str, ...] = ("in class",)
    estimators: tuple[str, ...] = candidates.USUAL
    guesses: int = 25
    seed: int = 1000
    jobs: int = 1
    duration: float = 10.0

    def __post_init__(self) -> None:
        check_fields(self, CHECKS)
        known = (("noise", NOISE), ("friction", FRICTION), ("estimators", candidates.names()))
        for field, valid in known:
            for name in getattr(self, field):
                if name not in valid:
                    near = nearest(name, valid)
                    raise InvalidSetting(
                        "there is no such choice",
                        argument=field,
                        got=name,
                        valid=tuple(valid),
                        cure=f"did you mean '{near}'?" if near else None,
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
        return tuple((case, k) for k in range(self.guesses) for case in self.cases)


@dataclass(frozen=True, eq=False)
class Bench:
    """Result of a benchmark.

    Attributes:
        settings: What was compared on what.
        summaries: A candidate on a case each.
        real: Outcome on real logs; None if none were given.
    """

    settings: BenchSettings
    summaries: tuple[Summary, ...]
    real: Outcome | None = None

    def text(self) -> str:
        """Return the tables for the terminal."""
        return text(self.summaries, self.real)


def run_bench(
    settings: BenchSettings,
    out: Path,
    real: RealLogs | None = None,
    progress: Progress = silent,
) -> Bench:
    """Run what is left of a benchmark, and write its table and page.

    Args:
        settings: What is compared on what.
        out: Folder: `trials/`, a file each; `times/`; `bench.json`, and `report.html`.
        real: Logs of a real robot, that the same estimators are run on.
        progress: Callback for progress messages.

    Raises:
        InvalidSetting: If the folder cannot be written to.
    """
    folder = out / "trials"
    folder.mkdir(parents=True, exist_ok=True)
    (out / "times").mkdir(exist_ok=True)
    trials = settings.trials
    for done, (case, number) in enumerate(_run(settings, out), 1):
        progress(f"{case.name}, trial {number}: {done} done of {len(trials)} at most")
    found = tuple(
        summary
        for case in settings.cases
        for summary in summaries(
            case, truth_of(case), settings.estimators, _outcomes(settings, out, case)
        )
    )
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


def _run(settings: BenchSettings, out: Path) -> Iterator[tuple[Case, int]]:
    """Yield the trials that were missing, as they are done."""
    missing = [
        (case, number, lacking)
        for case, number in settings.trials
        if (lacking := _lacking(settings, out, case, number))
    ]
    if settings.jobs == 1:
        for case, number, lacking in missing:
            _kept(out, case, number, simulated_trial(case, number, lacking))
            yield case, number
        return
    context = multiprocessing.get_context("spawn")  # threads of this process are not copied
    with ProcessPoolExecutor(settings.jobs, context) as pool:
        waiting = {
            pool.submit(simulated_trial, case, number, lacking): (case, number)
            for case, number, lacking in missing
        }
        for future in as_completed(waiting):
            case, number = waiting[future]
            _kept(out, case, number, future.result())
            yield case, number


def _lacking(settings: BenchSettings, out: Path, case: Case, number: int) -> tuple[str, ...]:
    """Return the candidates that a trial still lacks."""
    had = _read(_file(out / "trials", case, number))
    return tuple(n for n in settings.estimators if n not in had)


def _kept(out: Path, case: Case, number: int, outcome: Outcome) -> None:
    """Add what a trial yielded to its files: times first, so that no result is without."""
    for folder, found in (("times", outcome.seconds), ("trials", outcome.results)):
        path = _file(out / folder, case, number)
        whole: Mapping[str, Any] = {**_read(path), **found}
        content = dict(sorted(whole.items()))
        write_text(path, json.dumps(content, ensure_ascii=False) + "\n")


def _outcomes(settings: BenchSettings, out: Path, case: Case) -> tuple[Outcome, ...]:
    """Return the outcomes of a case's trials, as they were kept."""
    return tuple(
        Outcome(*(_read(_file(out / folder, case, k)) for folder in ("trials", "times")))
        for k in range(settings.guesses)
    )


def _file(folder: Path, case: Case, number: int) -> Path:
    """Return the file of a trial, named after all that it follows from."""
    told = hashlib.sha256(case.arm.urdf).hexdigest()[:8]
    friction = case.friction.replace(" ", "_")
    drawn = f"{friction}-{case.noise}-{case.duration:g}s-{case.seed}-{number:05d}"
    return folder / f"{case.arm.name}-{told}-{drawn}.json"


def _read(path: Path) -> dict[str, Any]:
    """Return what is kept in a file; nothing where there is none."""
    if not path.is_file():
        return {}
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found
