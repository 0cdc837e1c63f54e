"""Commands of several robots: `heft coop`, that hold one load, and `heft fleet`, of a kind."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Literal

from cyclopts import App

from .options import Map, Quiet
from .terminal import message, progress, progress_unless, shown

coop = App(name="coop", help="Identify a load that several robots hold.")


@coop.command
def simulate(team: Path, *, out: Path, seed: int = 0, quiet: bool = False) -> None:
    """Simulate a team that holds a body, in MuJoCo: a log a robot, and the truth.

    Needs the extra `simulation`: pip install 'heft-robotics[simulation]'.

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
def init(
    *bags: Path,
    out: Path = Path("team.toml"),
    model: tuple[Path, ...] = (),
    name: tuple[str, ...] = (),
) -> None:
    """Write a first team.toml from bags; what is to be filled in says CHECK.

    Parameters
    ----------
    bags
        One bag of each robot, or one in which robots have namespaces of their own.
    out
        The file to write.
    model
        Model file of each robot's arm, in the order of the robots, or one for all.
    name
        Name of each robot; those of bags or namespaces if not given.
    """
    from heft.applications.cooperation import draft_team

    message(draft_team(bags, out, model, name))
    message(f"{shown(out)}   look it through: heft coop check {shown(out)}")


@coop.command
def check(run: Path, *, columns: Map = None, json: Path | None = None, quiet: bool = False) -> None:
    """Check a team's logs before it is identified: streams, clocks, holes, overlap, signs, misfit.

    Exits with 0 if nothing spoils an identification, with 1 if something does.

    Parameters
    ----------
    run
        team.toml with a log of each robot, or the folder that holds it.
    columns
        TOML that says what the logs' columns mean.
    json
        File to write the findings to, for programs.
    quiet
        Say nothing while working.
    """
    from heft.applications.cooperation import check_team_files
    from heft.applications.doctor import doctor
    from heft.files import require_writable

    if json is not None:
        require_writable(json, "--json")  # before the work
    result = check_team_files(run, columns, progress_unless(quiet))
    if json is not None:
        doctor.write_json(json, result)
    message(doctor.text(result))
    if result.spoilt:
        sys.exit(1)


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

    Exits with 1 if the numbers are not to be believed, and then states none.

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

    result = identify_team_files(run, out, method, columns, progress_unless(quiet))
    message(result.text())
    if out is not None:
        message(f"\n{shown(out / 'report.html')}")
    if result.verdict == "poor":
        sys.exit(1)


@coop.command
def node(
    *,
    id: str,
    config: Path,
    on: str | None = None,
    replay: Path | None = None,
    speed: float = 1.0,
    begin: float | None = None,
    columns: Map = None,
    insecure: bool = False,
    checkpoint: Path | None = None,
    lets_go: bool = False,
    out: Path | None = None,
    quiet: bool = False,
) -> None:
    """Run one robot's node: it reads its sensors, talks to its neighbours, and tells what it knows.

    Runs until Ctrl-C, or until its log has ended and its neighbours have all of it.

    Parameters
    ----------
    id
        Name of the robot, or its number from 0 on.
    config
        team.toml: the same file at all robots.
    on
        Where the robot's sensors speak, and where it tells what it knows: zenoh, or a TOML file.
    replay
        The robot's own log in place of its sensors.
    speed
        Of the replay; inf for as fast as possible.
    begin
        When the log's time is zero, in seconds since 1970; what is over is left out.
    columns
        TOML that says what the log's columns mean.
    insecure
        The sensors' connection may be open to others; that to neighbours never is.
    checkpoint
        File to go on from, and to write.
    lets_go
        The robot lets go of the load when the node is stopped, and says so.
    out
        Folder for the results: team.json and report.html.
    quiet
        Say nothing while working.
    """
    from heft.applications.cooperation import LiveNode
    from heft.interrupts import stopped_by_signals

    live = LiveNode(
        config, id, on, replay, speed, begin, columns, insecure, checkpoint, out, lets_go
    )
    with stopped_by_signals() as stop:
        result = live.run(stop, message, progress_unless(quiet))
        message(result.text())
        if out is not None:
            result.write(out)
            message(f"\n{shown(out / 'report.html')}")


@coop.command
def watch(*, config: Path, port: int = 0) -> None:
    """Show a team on a page for this machine's browsers: graph, estimates, agreement, events.

    Parameters
    ----------
    config
        team.toml, as the nodes have it.
    port
        Of the page; any that is free if 0.
    """
    from heft.applications.cooperation import watch_team
    from heft.interrupts import stopped_by_signals

    with stopped_by_signals() as stop:
        watch_team(config, port, stop, progress)


fleet = App(name="fleet", help="Monitor many robots, day by day: friction, drift, scatter.")


@fleet.command(name="identify")
def identify_fleet(
    robots: str,
    *,
    out: Path = Path("fleet"),
    engine: Literal["processes", "threads", "ray"] = "processes",
    address: str | None = None,
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
        Folder TYPE/ROBOT/LOG with a model file in each TYPE, which may be s3://BUCKET/PREFIX, or a
        TOML of types and robots.
    out
        Folder for the results; the next run goes on from it.
    engine
        What reads logs: processes, threads, or a Ray cluster; results are the same bytes.
    address
        Of a Ray cluster that runs, such as auto; else --engine ray begins one of this machine.
    jobs
        Workers; as many as there are processors if not given.
    strict
        End at the first log that cannot be used; else it is named and left out.
    fail_on
        Exit with 1 if friction drifts, or a day does not look like its robot or a robot like its
        type; all is written nevertheless.
    """
    try:
        from heft.applications.fleet import FleetSettings, text
        from heft.applications.fleet import identify as identified

        settings = FleetSettings(engine, jobs or os.cpu_count() or 1, strict, address)
        result = identified(robots, out, settings, progress_unless(quiet))
    except KeyboardInterrupt:
        sys.stderr.write("heft: interrupted; the next run goes on from the logs that are read\n")
        sys.exit(130)  # as shells have it
    message(text(result))
    message(f"\n{shown(out)}: fleet.html, fleet.json, fleet.prom, history/")
    if fail_on and (result.misfiled or any(robot.attention for robot in result.robots)):
        sys.exit(1)
