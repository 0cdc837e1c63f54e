"""Commands of a free-flying body that grasped something: `heft freeflyer`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from .options import Map, Quiet
from .terminal import message, progress_unless, shown

freeflyer = App(
    name="freeflyer", help="A free-flying body that grasped something: motion, flight, numbers."
)
BODY = "TOML of the body, or one that comes with heft: space_cobot, astrobee, quadrotor."
Body = Annotated[str, Parameter(help=BODY)]
Loads = Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")]


@freeflyer.command
def design(
    body: Body,
    *,
    out: Path,
    bounds: Path | None = None,
    criterion: Literal["J1", "J2"] = "J2",
    starts: int = 2,
    seed: int = 0,
) -> None:
    """Design the flight that tells most of what a body has grasped.

    Parameters
    ----------
    out
        Folder for motion.csv, series.json and design.json; with the extra `ros` also motion.mcap,
        and what autopilots take: px4.mcap, astrobee.mcap.
    bounds
        TOML of room, speed and time, and of what may have been grasped.
    criterion
        J2, the log-determinant of the information, or J1, the condition number of the regressor.
    starts
        How many of the best random motions are improved.
    seed
        Of the random motions.
    """
    from heft.applications.free_flyer import design_files
    from heft.errors import InvalidSetting
    from heft.excitation import DesignSettings

    if starts < 1 or seed < 0:
        raise InvalidSetting("one start or more, a seed from 0 on", argument="--starts, --seed")
    settings = DesignSettings(random=100, starts=starts, seed=seed)
    message(design_files(body, out, bounds, criterion, settings).text())
    message(f"\n{shown(out)}   fly it: heft freeflyer track {body} {shown(out)} --out log.parquet")


@freeflyer.command
def track(
    body: Body,
    motion: Path,
    *,
    out: Path,
    load: Loads = None,
    cycles: int | None = None,
    seed: int = 0,
    dropped: float = 0.0,
    repeated: float = 0.0,
    outliers: float = 0.0,
    colour: float = 0.0,
) -> None:
    """Fly a designed motion in closed loop, in MuJoCo, with a load that the controller ignores.

    Needs the extra `flight`: pip install 'heft-robotics[flight]'. The truth lies beside the log.

    Parameters
    ----------
    motion
        Folder of the design.
    out
        Log to write: MCAP, Parquet, NPZ or CSV.
    load
        What was grasped, such as 1.2kg@0.20,0.06,-0.10: mass, and where in the body's frame [m].
    cycles
        How often the motion is flown; as designed if not given.
    seed
        Of the noise.
    dropped
        Share of poses that are missing.
    repeated
        Share of poses that are those before once more.
    outliers
        Share of poses that are off by much.
    colour
        Factor of the poses' noise from one sample to the next; white at 0.
    """
    from heft.applications.free_flyer import track_files
    from heft.flight import FlightFaults
    from heft.models import load_of

    loads = tuple(load_of(text) for text in load or ())
    faults = FlightFaults(dropped, repeated, outliers, colour=colour)
    message(track_files(body, motion, out, loads, cycles, seed, faults).text())
    message(f"\n{shown(out)}   identify it: heft freeflyer identify {body} {shown(out)}")


@freeflyer.command
def identify(
    body: Body,
    log: Path,
    *,
    out: Path | None = None,
    period: float | None = None,
    columns: Map = None,
    lag: bool = False,
    quiet: Quiet = False,
) -> None:
    """Find what a body has grasped from poses and commands, and how sure that is.

    Parameters
    ----------
    log
        Log with its pose (pos.NAME.x, quat.NAME.w) and the actuators' commands (u.ACTUATOR).
    out
        Folder for the results: free-flyer.json and report.html.
    period
        Of the motion [s]; found in the log if not given.
    lag
        Find too by how much actuators lag behind what the body's TOML says, all alike.
    """
    from heft.applications.free_flyer import identify_files

    found = identify_files(body, log, out, period, columns, lag, progress_unless(quiet))
    message(found.text())
    if out is not None:
        message(f"\n{shown(out / 'report.html')}")


@freeflyer.command
def study(
    body: Body,
    *,
    loads: Path,
    out: Path,
    bounds: Path | None = None,
    trajectories: int = 11,
    cycles: int = 10,
    seed: int = 0,
    quiet: Quiet = False,
) -> None:
    """Design, fly and identify motions by both criteria with each load; what was run is kept.

    Needs the extra `flight`: pip install 'heft-robotics[flight]'.

    Parameters
    ----------
    loads
        TOML of [[load]] tables: mass [kg] and position in the body's frame [m].
    out
        Folder for runs.jsonl, study.csv and report.html; a study that was stopped goes on.
    bounds
        TOML of room, speed and time.
    trajectories
        Motions by each criterion, from slow to fast.
    cycles
        How often each is flown.
    seed
        Of motions and noise.
    """
    from heft.applications.free_flyer import StudySettings, study_files

    settings = StudySettings(trajectories, cycles, seed)
    message(study_files(body, loads, out, bounds, settings, progress_unless(quiet)).text())
    message(f"\n{shown(out / 'report.html')}")
