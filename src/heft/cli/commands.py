"""The command line: typed functions as commands.

Bad input prints what is wrong and how to mend it and exits with 2; a fit that cannot stand
exits with 1, and so does a poor verdict on a load; a log salvaged, or weighed live, in part exits
with 3; never a traceback.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, CycloptsError, Group, Parameter

from heft import __version__
from heft.engine import keep_freed_memory
from heft.errors import HeftError, InvalidSetting, visible
from heft.interrupts import interruptible
from heft.loading import extensions

from .cooperation import coop, fleet
from .motions import excite, freeflyer, select, servo, simulate
from .options import (
    ESTIMATION,
    LIVE,
    LOAD,
    SMOOTHING,
    VIEW_PORT,
    Estimated,
    IdentifiedWith,
    Live,
    Load,
    Logs,
    Map,
    Names,
    Own,
    Quiet,
    Smoothed,
    With,
    weighed_by_robot,
    weighed_by_sensor,
    weighed_live,
)
from .terminal import (
    as_typed,
    leave_unread,
    message,
    not_done,
    open_streams,
    progress,
    progress_unless,
    shown,
)

TOPICS = {  # of the commands, in the order in which they are needed
    "From logs to a model": ("check", "identify", "payload", "servo", "freeflyer", "coop", "fleet"),
    "With a result": ("compare", "predict", "sample", "export"),
    "The next recording": ("excite", "select", "simulate"),
    "Besides": ("demo", "view", "convert", "derive", "bench"),
}
POOR, SALVAGED = 1, 3  # exit codes

app = App(
    name="heft",
    help="Inertial and friction parameters of robots from their logs, with uncertainty.",
    version=__version__,
    version_flags=["--version"],
    suppress_keyboard_interrupt=False,
    group_commands=Group("Help", sort_key=len(TOPICS)),
)
app.register_install_completion_command(help="Install completion for bash, zsh or fish.")


def require_page(out: Path) -> None:
    """Raise `InvalidSetting` unless a file to write is called like a page."""
    if out.suffix.lower() not in (".html", ".htm"):
        raise InvalidSetting(
            "the output is not called like a page", argument=f"--out {out}", valid=(".html",)
        )


@app.command
def identify(
    model: Path,
    *logs: Path,
    out: Path = Path("identified"),
    validate: Logs = None,
    columns: Map = None,
    options: With = None,
    given: Path | None = None,
    anew: Names = None,
    only: Path | None = None,
    own: Own = None,
    smoothing: Smoothed = SMOOTHING,
    estimation: Estimated = ESTIMATION,
    fail_on: Literal["poor", "usable"] | None = None,
    explain: bool = False,
    quiet: Quiet = False,
) -> None:
    """Identify a robot: masses, inertias, friction, rotor inertia.

    Leaves a folder with the model file, numbers replaced (robot.urdf, robot.xml or robot.toml),
    every number with its uncertainty (estimate.json), what was learnt (information.npz) and a
    report (report.html).

    Parameters
    ----------
    model
        The model file, a guess: URDF, MJCF, or a TOML with Denavit-Hartenberg rows. Its numbers
        serve as a weak prior.
    logs
        CSV, Parquet, NPZ, JSON lines, MCAP, ROS bags or an experiment's TOML, with t,
        `q.<joint>` and `tau.<joint>` or `current.<joint>`.
    out
        Folder for the results.
    validate
        Logs that the fit must not see, to score it on.
    options
        TOML that says what a model file cannot: gains, coupling, gravity, friction.
    given
        Folder of earlier results about the same robot, whose information is added.
    anew
        What may have changed since those results, which then tell all else: links, joints, friction
        for that of all joints, or parameters such as elbow.viscous.
    only
        What of the logs is fitted: a file that heft select wrote.
    own
        Python file whose function `columns(q, v, a)` returns further columns of the regressor:
        springs, counterbalances, cable forces. It is run.
    fail_on
        Exit with 1 if the verdict is this or worse; all is written nevertheless. If not given, no
        verdict is a failure.
    explain
        Say also what the columns mean, and every score, check and note.
    """
    from heft.applications.identification import identify as identified
    from heft.applications.identification import next_motion, refuse_foreign, report, write

    if not logs:
        raise InvalidSetting(
            "no log is given (--validate takes all files behind it)",
            argument="LOGS",
            cure="heft identify arm.urdf run1.csv --out found/",
        )
    refuse_foreign(out)
    settings, progress = estimation.settings(smoothing), progress_unless(quiet)
    result = identified(
        model,
        logs,
        validate or (),
        settings,
        given,
        progress=progress,
        only=only,
        anew=anew or (),
        options=options,
        columns=columns,
        own_columns=own,
    )
    progress("writing the report")
    write(result, out, report.html)
    message(report.text(result, explain))
    names = ", ".join(sorted(path.name for path in out.iterdir()))
    message(f"{shown(out)}: {names}{'' if explain else '. --explain: what columns mean'}")
    if advice := next_motion(result, out):
        message(advice)
    if result.verdict in {None: (), "poor": ("poor",), "usable": ("usable", "poor")}[fail_on]:
        sys.exit(POOR)


@app.command
def predict(
    results: Path,
    log: Path,
    *,
    out: Path,
    columns: Map = None,
    own: IdentifiedWith = None,
    friction: Literal["full", "simple", "none"] = "full",
) -> None:
    """Predict the joint torques of a log.

    Parameters
    ----------
    results
        Folder that heft identify left.
    log
        Any log with t and `q.<joint>`; torques are not looked at.
    out
        Parquet or CSV file to write: t, `tau.<joint>` and `tau_rigid.<joint>`, at the log's times.
    friction
        Full, simple (as the model file has it), or none for the rigid body and rotor inertia only.
    """
    from heft.applications.predict import predict_files

    rows = predict_files(results, log, out, columns, friction, own, progress)
    message(f"{shown(out)}: {rows} rows")


@app.command
def sample(
    results: Path,
    *,
    out: Path,
    n: int = 100,
    seed: int = 0,
    own: IdentifiedWith = None,
    quiet: Quiet = False,
) -> None:
    """Sample physically consistent model files from the uncertainty.

    Parameters
    ----------
    results
        Folder that heft identify left.
    out
        Folder to write: a model file a draw, and samples.json with their numbers.
    n
        Number of draws, each worth an independent one.
    seed
        Of the random numbers; the same seed gives the same files.
    """
    from heft.applications.sample import sample_files

    draws = sample_files(results, out, n, seed, progress_unless(quiet), own)
    message(
        f"{shown(out)}: {n} model files; the chains were worth {draws.effective:.0f} independent "
        f"draws and agree to {draws.disagreement:.3f} (split R-hat)"
    )


@app.command
def export(
    results: Path,
    *,
    target: Annotated[
        Literal["mujoco", "newton", "drake", "gazebo", "pinocchio", "isaaclab", "bam", "pace"],
        Parameter(name="--for"),
    ],
    out: Path | None = None,
    draws: Path | None = None,
    replay: Path | None = None,
    columns: Map = None,
    model: Path | None = None,
    own: IdentifiedWith = None,
    python: Path | None = None,
) -> None:
    """Export an identified robot to a simulator's own fields, verified on a log.

    Parameters
    ----------
    results
        Folder that heft identify left.
    target
        The simulator. Of MuJoCo, Drake and Newton the file is run in the replay.
    out
        Folder to write to: one file, its meshes, and replay.json.
    draws
        Folder that heft sample left: each draw is written, too, in the file's form where it holds
        links, else as draws.json with a loader.
    replay
        Log with torques, to be replayed: torque of its motion, motion of its torque, and what the
        simulator's file does not hold.
    model
        The model file as it came, to compare with, if it is no longer where it was.
    python
        The Python of the environment where Drake or Newton is installed, to be run in the replay.
    """
    from heft.applications.export import export_files

    made = export_files(results, target, out, draws, replay, columns, model, own, python)
    if made.replay is not None:
        message("\n".join(made.replay.lines()))
    for note in made.notes:
        message(note)
    if out is not None:
        names = [path.name for path in made.files if path.parent == out]
        for what in ("meshes", "draws"):
            if count := sum(path.parent == out / what for path in made.files):
                names.append(f"{count} {what}")
        message(f"{shown(out)}: {', '.join(names)}")


app.command(excite)
app.command(select)
app.command(servo)
app.command(simulate)


@app.command
def check(
    *logs: Path,
    robot: Path | None = None,
    columns: Map = None,
    options: With = None,
    own: Own = None,
    draft: Path | None = None,
    mended: Path | None = None,
    json: Path | None = None,
    out: Path | None = None,
    longest: float = 300.0,
    quiet: Quiet = False,
) -> None:
    """Check logs: clock, signals, units, signs, zeros, mounting.

    Exits with 0 if nothing spoils an identification, with 1 if something does. Ctrl-C prints what
    was found so far.

    Parameters
    ----------
    logs
        CSV, Parquet or NPZ files of one robot.
    robot
        Its model file; with it the robot's physics is asked too: units, signs, order of the
        joints, offsets, gravity, delay.
    options
        TOML that says what a model file cannot.
    own
        Python file of own columns of the robot's regressor, such as springs; it is run.
    draft
        Column map to write, guessed from the names of the log's columns and of the robot's joints;
        without a robot, those of a wrench sensor. Nothing else is done.
    mended
        Column map to write, with the cures that physics asks for in it.
    json
        File to write the findings to, for programs.
    out
        HTML file to write, with each finding's piece of signal and its cure; opens offline.
    longest
        Time for which corrections are searched with the robot's physics, at most [s].
    """
    from heft.applications.doctor import doctor, report
    from heft.files import require_writable, write_text
    from heft.interrupts import stopped_by_signals

    if out is not None:
        require_page(out)
    writes = {"--draft": draft, "--mended": mended, "--json": json, "--out": out}
    for option, path in writes.items():
        if path is not None:
            require_writable(path, option)  # before the work
    if draft is not None:
        if len(logs) != 1:
            raise InvalidSetting("a map is drafted for one log", argument="LOGS", got=len(logs))
        doctor.write_draft(draft, logs[0], robot)
        message(f"{shown(draft)}: look it through, then give it with --map")
        return
    report_progress = progress_unless(quiet)
    settings = doctor.settings(longest)
    with stopped_by_signals() as stop:
        files = (logs, robot, options, columns)
        result = doctor.diagnose_files(*files, report_progress, settings, stop, own)
    if mended is not None:
        if robot is None:
            raise InvalidSetting("a map is mended by physics only", cure="give --robot")
        doctor.write_mended(mended, result, columns)
    if json is not None:
        doctor.write_json(json, result)
    if out is not None:
        write_text(out, report.html(result))
    message(doctor.text(result))
    if result.spoilt:
        sys.exit(1)


@app.command
def compare(
    before: Path, after: Path, *, out: Path | None = None, own: IdentifiedWith = None
) -> None:
    """Compare two identifications: what changed, how surely.

    Parameters
    ----------
    before
        Folder that heft identify left, the earlier one.
    after
        Folder that heft identify left, the later one.
    out
        HTML file to write, with friction's curves and every number; opens offline.
    """
    from heft.applications.identification import compare as compared
    from heft.applications.identification import compare_report
    from heft.files import require_writable, write_text

    if out is not None:
        require_page(out)
        require_writable(out)
    result = compared(before, after, own)
    if out is not None:
        write_text(out, compare_report.html(result))
    message(compare_report.text(result))
    if out is not None:
        message(f"\n{shown(out)}")


@app.command
def view(
    robot: Path,
    log: Path | None = None,
    *,
    columns: Map = None,
    options: With = None,
    port: int = VIEW_PORT,
    open_browser: Annotated[bool, Parameter(name="--open")] = True,
    dark: bool = False,
) -> None:
    """Show a robot and a recording in the browser; Ctrl-C ends it.

    Needs the extra `view`: pip install 'heft-robotics[view]'. Only this machine can see it.

    Parameters
    ----------
    robot
        The model file, or a folder that heft identify left.
    log
        CSV, Parquet or NPZ with columns t and `q.<joint>`, to be played.
    options
        TOML that says what the model file cannot: joints that are fixed, and where.
    port
        Where to serve it on this machine; the next free one if taken.
    open_browser
        Whether to open the browser; --no-open only prints the address.
    dark
        Whether its controls are dark.
    """
    from heft.applications.viewer import serve

    serve(robot, log, columns, options, port, open_browser, message, dark)


@app.command
def convert(
    *logs: Path, out: Path, columns: Map = None, robot: Path | None = None, recover: bool = False
) -> None:
    """Convert a log to another file format, in SI units.

    Parameters
    ----------
    logs
        CSV, Parquet, NPZ, JSON lines, MCAP, ROS 1 bag, rosbag2 folder, or the TOML of an
        experiment. Several are joined by time: the first gives the times, the others are
        interpolated at them.
    out
        CSV, Parquet, NPZ or MCAP file to write.
    robot
        The model file (URDF, MJCF or TOML), for logs that only count their joints.
    recover
        Salvage what can be read of a damaged log, say what is lost, and exit with 3.
    """
    from heft.recordings import ColumnMap
    from heft.recordings import convert as convert_logs

    if not logs:
        raise InvalidSetting(
            "no log is given", argument="LOGS", cure="heft convert run.mcap --out run.parquet"
        )
    mapping = ColumnMap.from_toml(columns) if columns else None
    joints: tuple[str, ...] = ()
    if robot is not None:
        from heft.models import Robot

        joints = tuple(Robot.from_file(robot).joints)
    made = convert_logs(logs, out, mapping, joints, recover)
    for line in (*made.notes, *made.losses):
        progress(line)
    message(f"{shown(out)}: {made.rows} rows, {made.begin:.6g} s to {made.end:.6g} s")
    if made.damage:
        progress("salvaged what can be read; lost:")
        sys.stderr.write("".join(f"  {visible(line)}\n" for line in made.damage))
        sys.exit(SALVAGED)


@app.command
def payload(*logs: Path, load: Load = LOAD, live: Live = LIVE) -> None:
    """Identify a payload, by a wrist sensor or by joint torques.

    Exits with 1 if the verdict on logs is poor; then nothing is printed to be pasted. Exits with 3
    if --live was cut short by a source that failed; the result is of what came before.

    Parameters
    ----------
    logs
        With --sensor, logs with one load. With --robot alone, one log without the load and one
        with it, in this order.
    """
    from heft.applications.payload import payload as results
    from heft.applications.payload import report

    if load.out is not None:
        results.refuse_foreign(load.out)
    load.require_sound()
    live.refuse_unless_live()
    report_progress = progress_unless(load.quiet)
    if live.live:
        result = weighed_live(logs, load, live, message, report_progress)
    elif load.sensor is not None:
        result = weighed_by_sensor(logs, load, load.sensor, report_progress)
    else:
        result = weighed_by_robot(logs, load, report_progress)
    try:
        if load.out is not None:
            results.write(result, load.out, report.html)
    finally:  # what took days to weigh is said, even where a disk is full
        message(results.text(result))
    if load.out is not None:
        names = ", ".join(sorted(path.name for path in load.out.iterdir()))
        message(f"\n{shown(load.out)}: {names}")
    if result.cut_short:
        progress(result.cut_short)
        sys.exit(SALVAGED)
    if result.verdict == "poor" and not live.live:
        sys.exit(POOR)


@app.command
def derive(
    robot: Path,
    *,
    form: Annotated[Literal["text", "latex", "numpy"], Parameter(name="--format")] = "text",
    drives: bool = False,
    out: Path | None = None,
) -> None:
    """Derive a small robot's equations of motion in symbols.

    Needs the extra `symbolic`: pip install 'heft-robotics[symbolic]'.

    Parameters
    ----------
    robot
        TOML with Denavit-Hartenberg rows; any number may be an expression such as "m1*L1**2/3".
    form
        Text to read, LaTeX, or Python that needs NumPy alone.
    drives
        Add rotor inertia, Coulomb and viscous friction of each joint.
    out
        File to write; printed if not given.
    """
    from heft.applications.derive import derive_file, rendered
    from heft.files import require_writable, write_text

    if out is not None:
        require_writable(out)
    written = rendered(derive_file(robot, drives), form)
    if out is None:
        message(written)
        return
    write_text(out, written + "\n")
    message(shown(out))


@app.command
def demo(*, out: Path = Path("demo-out"), quiet: Quiet = False) -> None:
    """Identify the simulated arm that comes with heft.

    Parameters
    ----------
    out
        Folder for the results.
    """
    from heft.applications import demo

    message(demo.run(out, progress_unless(quiet)))


app.command(freeflyer)
app.command(coop)
app.command(fleet)


def without_methods(
    *arguments: Annotated[str, Parameter(allow_leading_hyphen=True, show=False)],
) -> None:
    """Compare estimators; a distribution of its own: pip install heft-robotics-methods."""
    raise InvalidSetting(
        "what compares estimators is a distribution of its own, which is not installed",
        argument="heft bench",
        cure="pip install heft-robotics-methods (from a clone: pip install ./methods)",
    )


added = {name: entry.load() for name, entry in extensions("heft.commands").items()}
for own_name, command in ({"bench": without_methods} | added).items():
    app.command(command, name=own_name)
for place, (topic, names) in enumerate(TOPICS.items()):
    group = Group(topic, sort_key=place)
    for order, own_name in enumerate(names):
        app[own_name].group, app[own_name].sort_key = group, order


def main() -> None:
    """Run the command line."""
    open_streams()
    keep_freed_memory()
    # Of some hundred thousand objects a few thousand are garbage; to look for them at every 700, as
    # Python does, takes a twentieth of the time, and once more at the end as much.
    gc.set_threshold(200_000)
    try:
        with interruptible():
            app(sys.argv[1:], exit_on_error=False, print_error=True)
    except HeftError as error:
        sys.stderr.write(f"heft: {as_typed(error.explain())}\n")
        sys.exit(error.exit_code)
    except CycloptsError:
        sys.exit(2)
    except KeyboardInterrupt:
        sys.stderr.write("heft: interrupted; nothing was written\n")
        sys.exit(130)
    except BrokenPipeError:
        leave_unread()
        sys.exit(141)  # as shells have it
    except MemoryError as error:
        sys.stderr.write(
            f"heft: {visible(str(error)) or 'there is no memory left'}; not finished\n"
        )
        sys.exit(2)
    except OSError as error:
        leave_unread()
        sys.stderr.write(f"heft: {not_done(error)}\n")
        sys.exit(2)
    finally:
        gc.freeze()
