"""The command that compares estimators."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from heft.cli import Logs, Map, Names, With, message, progress, progress_unless

if TYPE_CHECKING:
    from .bench import RealLogs


def _real(
    model: Path | None,
    logs: list[Path] | None,
    validate: list[Path] | None,
    options: Path | None,
    columns: Path | None,
) -> RealLogs | None:
    from heft.errors import InvalidSetting

    from .bench import RealLogs

    if model is None and not logs and not validate:
        return None
    if model is None or not logs or not validate:
        raise InvalidSetting(
            "real logs are compared with others of the same robot",
            argument="--model, --logs, --validate",
            cure="give all three: a model file, logs to fit and logs to score",
        )
    return RealLogs(model, tuple(logs), tuple(validate), options, columns)


def bench(
    *,
    out: Path = Path("bench"),
    robot: Names = None,
    noise: Names = None,
    friction: Names = None,
    estimators: Names = None,
    all: bool = False,
    guesses: int = 25,
    seed: int = 1000,
    jobs: int = 2,
    model: Path | None = None,
    logs: Logs = None,
    validate: Logs = None,
    options: With = None,
    columns: Map = None,
    quiet: bool = False,
) -> None:
    """Compare estimators on the same data: simulated in closed loop, and real logs.

    Leaves a folder: report.html, bench.json, and a file a trial. A run that was killed goes on
    where it was. Simulated logs need the extra `simulation`: pip install
    'heft-robotics[simulation]'.

    Parameters
    ----------
    out
        Folder for the results.
    robot
        Simulated: tx40, lwr4, ur, or URDF files of arms. lwr4 if not given.
    noise
        Levels: low, standard, high. All if not given.
    friction
        "in class" is what estimators assume, lugre what they do not. The first if not given.
    estimators
        By name; those that need no hour if not given.
    all
        Every estimator that there is.
    guesses
        Trials of each robot and level, each with noise and a wrong model file of its own.
    seed
        Of drives and motions.
    jobs
        Processes.
    model
        Model file of a real robot, for --logs.
    logs
        Its logs, that are fitted.
    validate
        Other logs of it, that are scored.
    options
        TOML with what the model file cannot state, such as [controller].
    columns
        TOML that says what the logs' columns mean.
    quiet
        Say nothing while working.
    """
    from .bench import FRICTION, NOISE, USUAL, BenchSettings, names, run_bench

    settings = BenchSettings(
        tuple(robot or (() if model else ("lwr4",))),
        tuple(noise or NOISE),
        tuple(friction or tuple(FRICTION)[:1]),
        names() if all else tuple(estimators or USUAL),
        guesses,
        seed,
        jobs,
    )
    real = _real(model, logs, validate, options, columns)
    try:
        found = run_bench(settings, out, real, progress_unless(quiet))
    except KeyboardInterrupt:
        progress(f"interrupted; trials that ended are kept in {out}, the same command goes on")
        sys.exit(130)
    message(found.text())
    message(f"\n{out / 'report.html'}")
