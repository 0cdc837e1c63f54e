"""The commands of fleets: `heft fleet identify`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Literal

from cyclopts import App

from .options import Quiet
from .terminal import message, progress_unless, shown

INTERRUPTED = 130  # exit code, as shells have it
fleet = App(name="fleet", help="Many robots, day by day: friction, drift, what a type is like.")


@fleet.command
def identify(
    robots: Path,
    *,
    out: Path = Path("fleet"),
    engine: Literal["processes", "threads"] = "processes",
    jobs: int | None = None,
    strict: bool = False,
    fail_on: Literal["drift"] | None = None,
    quiet: Quiet = False,
) -> None:
    """Identify a fleet from logs of many days; a later run reads new logs only.

    Leaves a folder with what is told of each robot (fleet.json), its numbers day by day
    (history/, Parquet), a page (fleet.html), a text file for Prometheus (fleet.prom), and what is
    kept of each log.

    Parameters
    ----------
    robots
        Folder TYPE/ROBOT/LOG with a model file in each TYPE, or a TOML of types and robots.
    out
        Folder for the results; the next run goes on from it.
    engine
        Whether logs are read by processes or by threads; results are the same bytes.
    jobs
        Workers; as many as there are processors if not given.
    strict
        End at the first log that cannot be used; else it is named and left out.
    fail_on
        Exit with 1 if friction drifts or a day does not look like its robot; all is written
        nevertheless.
    """
    from heft.applications.fleet import FleetSettings, text
    from heft.applications.fleet import identify as identified

    settings = FleetSettings(engine, jobs or os.cpu_count() or 1, strict)
    try:
        found = identified(robots, out, settings, progress_unless(quiet))
    except KeyboardInterrupt:
        sys.stderr.write("heft: interrupted; the next run goes on from the logs that are read\n")
        sys.exit(INTERRUPTED)
    message(text(found))
    message(f"\n{shown(out)}: fleet.html, fleet.json, fleet.prom, history/")
    if fail_on and any(robot.attention for robot in found.robots):
        sys.exit(1)
