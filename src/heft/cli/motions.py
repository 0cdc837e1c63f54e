"""Commands of motions: an arm's, designed, selected, simulated; and `heft freeflyer`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from heft.errors import InvalidSetting

from .options import (
    EXCITATION,
    SIMULATION,
    VIEW_PORT,
    Excitation,
    Map,
    Own,
    Quiet,
    Simulation,
    With,
)
from .terminal import message, progress_unless, shown


def excite(
    model: Path,
    *,
    out: Path = Path("excite"),
    columns: Map = None,
    options: With = None,
    given: Path | None = None,
    own: Own = None,
    excitation: Excitation = EXCITATION,
    view: bool = False,
    quiet: Quiet = False,
) -> None:
    """Design the trajectory that excites most, within all limits.

    Leaves a folder: the motion as Parquet, CSV and a ROS JointTrajectory (MCAP and JSON), its
    coefficients (series.json), what is proven and what it will tell (design.json, report.html).
    Ctrl-C keeps the best motion so far.

    Parameters
    ----------
    model
        URDF, MJCF, or a TOML with Denavit-Hartenberg rows.
    out
        Folder for the results.
    options
        TOML whose table [motion] states limits and the room: acceleration, jerk, floor, boxes.
    given
        Folder of earlier results: what is known already, the joints' noise, better numbers.
    own
        Python file of own columns of the regressor, such as springs; it is run. What they take of
        the torque follows from --given, or from [motion.own_columns] of --with.
    view
        Play the motion in the browser then, as heft view does; Ctrl-C ends it.
    """
    from heft.applications.excite import excite_files, text_of
    from heft.applications.viewer import require_viewer, serve
    from heft.interrupts import stopped_by_signals

    if view:
        require_viewer()  # before the work
    settings = excitation.settings(columns, own)
    with stopped_by_signals() as stop:
        report_progress = progress_unless(quiet)
        result = excite_files(model, out, settings, options, given, report_progress, stop)
    message(text_of(result, model, out))
    if view and not result.design.interrupted:
        serve(model, out / "motion.parquet", None, options, VIEW_PORT, True, message)


def servo(
    model: Path,
    *logs: Path,
    out: Path = Path("servo"),
    columns: Map = None,
    calibration: Path | None = None,
    bench: Path | None = None,
    replay: bool = False,
    quiet: Quiet = False,
) -> None:
    """Identify a servo on a bench, or an arm of servos: torque, back-EMF, friction, rotors.

    Leaves a folder: a page (report.html), every number with its interval (estimate.json); of a
    bench the names of BAM's files (bam.json), MuJoCo's joint and motor (servo.xml) and Isaac Lab's
    actuator (servo_isaaclab.py), of an arm models for MuJoCo (robot.xml), Isaac Lab and PACE.

    Parameters
    ----------
    model
        TOML of the bench: mass [kg] and length [m] of the arm, full_duty (what 100 % is in the
        logs, 885 of Dynamixel's), voltage [V] if it is not logged. Of an arm its URDF or MJCF.
    logs
        JSON of position, goal_position, load, input_volts, torque_enable and timestamp by row, or
        any other log with q.servo, q_ref.servo and u.servo. Of an arm a dataset of LeRobot, or
        logs with q and q_ref of each joint, or a folder of them.
    out
        Folder for the results.
    calibration
        JSON with which the arm of a LeRobot dataset was calibrated.
    bench
        TOML of an arm: masses that are known ([known] LINK = kg), the firmware's gains, unit of the
        dataset, zeros.
    replay
        Run the logs' goals by MuJoCo from servo.xml, and say how far it is off; of a bench.
    """
    from heft.applications.servo import identify_arm_files, identify_files

    if model.suffix.lower() != ".toml":
        report = progress_unless(quiet)
        found = identify_arm_files(model, logs, out, bench, calibration, columns, report)
        message(f"{found.text()}\n\n{shown(out)}")
        return
    result = identify_files(model, logs, out, columns, progress_unless(quiet))
    message(f"{result.text()}\n\n{shown(out)}")
    if replay:
        message(result.replayed())


def select(
    model: Path,
    *logs: Path,
    keep: str,
    out: Path = Path("selection.json"),
    segment: float | None = None,
    friction: Literal["simple", "full"] = "simple",
    columns: Map = None,
    options: With = None,
    own: Own = None,
    quiet: Quiet = False,
) -> None:
    """Select the most informative stretches of recordings.

    heft identify takes what is written: heft identify MODEL LOGS --only selection.json

    Parameters
    ----------
    model
        The model file: URDF, MJCF, or a TOML with Denavit-Hartenberg rows.
    logs
        Logs of ordinary work, with t, `q.<joint>` and `tau.<joint>` or `current.<joint>`.
    keep
        How much is kept: a time such as 60s or 2min, or a share such as 10%.
    out
        JSON file to write: which rows of which log are kept.
    segment
        Length of a segment [s]; 0.1 if not given, longer for logs of hours.
    friction
        Simple (viscous, Coulomb, offset), or full: the dictionary's terms are to be told, too.
    options
        TOML that says what a model file cannot, such as drive gains.
    own
        Python file of own columns of the regressor, such as springs; it is run.
    """
    from heft.applications.inputs import Inputs
    from heft.applications.select import Select, select_files

    inputs, settings = Inputs.open(model, options, columns, own), Select(friction)
    stretches = select_files(inputs, logs, keep, out, segment, settings, progress_unless(quiet))
    message(stretches.text())
    message(f"\n{out}")


def simulate(
    model: Path,
    motion: Path,
    *,
    out: Path,
    columns: Map = None,
    options: With = None,
    own: Own = None,
    simulation: Simulation = SIMULATION,
    quiet: Quiet = False,
) -> None:
    """Simulate the log of a motion in MuJoCo, with its truth.

    Needs the extra `simulation`: pip install 'heft-robotics[simulation]'. Writes the log, and a
    folder beside it with the ending .truth: what was true of the motion, the drives and the
    sensors.

    Parameters
    ----------
    model
        URDF or MJCF on a fixed base, whose numbers are taken for the truth.
    motion
        A log with t and `q.<joint>`, with `v.` and `a.` if they are known; or a JointTrajectory as
        JSON, or in an MCAP file.
    out
        MCAP, Parquet, NPZ or CSV file to write.
    options
        TOML whose table [simulation] says what is simulated: friction, gears, sensors, controller.
    own
        Python file of own columns, such as springs; it is run. Their parameters stand in
        [simulation.own_columns].
    """
    from heft.applications.simulate import simulate_files

    settings, progress = simulation.settings(options), progress_unless(quiet)
    result = simulate_files(model, motion, out, settings, columns, progress, own)
    for loss in result.losses:
        progress(loss)
    message(result.text())
    message(f"\n{out}   {out.with_suffix('.truth')}")


freeflyer = App(name="freeflyer", help="Identify a free-flying robot and what it grasped.")
Body = Annotated[
    str,
    Parameter(
        help="TOML of the body, or one that comes with heft: space_cobot, astrobee, quadrotor."
    ),
]
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
    from heft.applications.free_flyer import open_flyer, track_files
    from heft.flight import FlightFaults
    from heft.models import load_of

    size = open_flyer(body).load_size
    loads = tuple(load_of(text, size) for text in load or ())
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
    bare: Path | None = None,
    quiet: Quiet = False,
) -> None:
    """Find what a body has grasped from poses and commands, and how sure that is.

    Exits with 1 if the verdict is poor; then no number is stated.

    Parameters
    ----------
    log
        Log with its pose (pos.NAME.x, quat.NAME.w) and the actuators' commands (u.ACTUATOR).
    out
        Folder for the results: free-flyer.json and report.html.
    period
        Of the motion [s]; found in the log if not given.
    bare
        Log of a flight without a load: its mass, which is known, tells what thrust is.
    """
    from heft.applications.free_flyer import identify_files

    result = identify_files(body, log, out, period, columns, bare, progress_unless(quiet))
    message(result.text())
    if out is not None:
        message(f"\n{shown(out / 'report.html')}")
    if result.poor:
        sys.exit(1)


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
