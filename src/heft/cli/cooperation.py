"""Commands of several robots that hold one load: `heft coop`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from cyclopts import App

from .options import Map
from .terminal import message, progress_unless, shown

coop = App(name="coop", help="Several robots that hold one load: each learns it with the others.")


@coop.command
def simulate(team: Path, *, out: Path, seed: int = 0, quiet: bool = False) -> None:
    """Simulate a team that holds a body, in MuJoCo: a log a robot, and the truth.

    Needs the extra `simulation`: pip install 'heft[simulation]'.

    Parameters
    ----------
    team
        TOML of the team: `robots = 5`, or [[robot]] tables; who talks to whom; [simulation].
    out
        Folder to write: a log a robot, team.toml for `heft coop identify`, truth.json.
    seed
        Of all random numbers.
    quiet
        Say nothing while working.
    """
    from heft.applications.cooperation import simulate_team_files

    simulate_team_files(team, out, seed, progress_unless(quiet))
    message(f"{shown(out)}   identify it: heft coop identify {shown(out)}")


@coop.command
def identify(
    run: Path,
    *,
    out: Path | None = None,
    method: Literal["heft", "paper"] = "heft",
    columns: Map = None,
    quiet: bool = False,
) -> None:
    """Find what a team holds, and where each robot holds it, from the robots' own logs.

    Each log has `omega`, `vel`, `acc`, `force` and `torque` of the contact's frame, such as
    omega.grasp.x: gyroscope, velocity, accelerometer, and what the robot applies to the load.

    Parameters
    ----------
    run
        team.toml with a log of each robot, or the folder that holds it.
    out
        Folder for the results: team.json and report.html.
    method
        heft's own, or the recursive method of Fan, Weng and Murphey.
    columns
        TOML that says what the logs' columns mean.
    quiet
        Say nothing while working.
    """
    from heft.applications.cooperation import identify_team_files

    found = identify_team_files(run, out, method, columns, progress_unless(quiet))
    message(found.text())
    if out is not None:
        message(f"\n{shown(out / 'report.html')}")
