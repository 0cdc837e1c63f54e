"""The command line: typed functions as commands.

Bad input prints what is wrong and how to mend it and exits with 2; a fit that cannot stand
exits with 1; a log salvaged in part exits with 3; never a traceback.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, CycloptsError, Group, Parameter

from heft import __version__
from heft.errors import HeftError

if TYPE_CHECKING:
    from heft.applications.payload import Payload

SALVAGED = 3  # exit code

app = App(
    name="heft",
    help="What a robot weighs, how much friction it has, and how sure that is, from its logs.",
    version=__version__,
    version_flags=["--version"],
    suppress_keyboard_interrupt=False,
)
app.register_install_completion_command(help="Install completion for bash, zsh or fish.")


def say(text: str) -> None:
    """Write a line of results."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def require_page(out: Path) -> None:
    """Raise `InvalidSetting` unless a file to write is called like a page."""
    from heft.errors import InvalidSetting

    if out.suffix.lower() not in (".html", ".htm"):
        raise InvalidSetting(
            "the output is not called like a page", argument=f"--out {out}", valid=(".html",)
        )


def tell(text: str) -> None:
    """Write a line of progress."""
    sys.stderr.write(f"heft: {text}\n")
    sys.stderr.flush()


@app.command
def identify(
    model: Path,
    *logs: Path,
    out: Path = Path("identified"),
    validate: Annotated[list[Path] | None, Parameter(consume_multiple=True)] = None,
    columns: Annotated[Path | None, Parameter(name="--map")] = None,
    options: Annotated[Path | None, Parameter(name="--with")] = None,
    given: Path | None = None,
    corner: float | None = None,
    torque: Literal["raw", "filtered"] = "raw",
    rows: Literal["differentiated", "weak"] = "differentiated",
    smoother: Literal["butterworth", "spline", "fourier"] = "butterworth",
    delay: float | None = None,
    robust: Literal["none", "huber", "hampel", "blocks", "ransac"] = "none",
    average: bool = False,
    trim: float = 0.5,
    strength: float = 10.0,
    prior: Literal["quadratic", "logdet"] = "quadratic",
    threads: int = 2,
    quiet: bool = False,
) -> None:
    """Identify a robot from its logs: masses, inertias, friction, rotor inertia.

    Leaves a folder with the model file, numbers replaced (robot.urdf, robot.xml or robot.toml),
    every number with its uncertainty (estimate.json), what was learnt (information.npz) and a
    report (report.html).

    Parameters
    ----------
    model
        The model file, a guess: URDF, MJCF, or a TOML with Denavit-Hartenberg rows. Its numbers
        serve as a weak prior.
    logs
        CSV, Parquet, NPZ, MCAP, ROS bags or an experiment's TOML, with t, `q.<joint>` and
        `tau.<joint>` or `current.<joint>`.
    out
        Folder for the results.
    validate
        Logs that the fit must not see, to score it on.
    columns
        TOML that says what the logs' columns mean, if they have other names or units.
    options
        TOML that says what a model file cannot: gains, coupling, gravity, friction.
    given
        Folder of earlier results about the same robot, whose information is added.
    corner
        Corner of the low-pass on positions [Hz]; chosen from the data if not given.
    torque
        Raw, or filtered together with the rows.
    rows
        Differentiated, or weak: integrals over short windows, which need no acceleration.
    smoother
        Of positions: a low-pass, a penalised spline, or a Fourier series if the motion repeats.
    delay
        By how much torque comes behind motion [s]; looked for if not given.
    robust
        What finds pushes, collisions and spikes, whose rows are then left out.
    average
        Average logs over the periods of their motion first.
    trim
        Time cut off at each end of a log, and at gaps [s].
    strength
        Of the prior from the model file, in effective samples.
    prior
        Quadratic around the model file, or the log-determinant divergence from it.
    threads
        How many threads share the work; the result does not depend on it.
    quiet
        Say nothing while working.
    """
    from heft.applications.identification import (
        Settings,
        identify_files,
        refuse_foreign,
        report,
        silent,
        write,
    )
    from heft.errors import InvalidSetting
    from heft.estimators import PhysicallyConsistent
    from heft.signals import Smoothing, Weak

    if not logs:
        raise InvalidSetting(
            "no log is given (--validate takes all files behind it)",
            argument="LOGS",
            cure="heft identify arm.urdf run1.csv --out found/",
        )
    if not (math.isfinite(strength) and strength > 0.0) or threads < 1:
        raise InvalidSetting(
            "strength and threads must be positive", got=f"strength {strength:g}, threads {threads}"
        )
    refuse_foreign(out)
    settings = Settings(
        Smoothing(corner=corner, trim=trim, torque=torque, delay=delay, method=smoother),
        consistent=PhysicallyConsistent(strength=strength, prior=prior),
        weak=Weak() if rows == "weak" else None,
        robust=robust,
        average=average,
        threads=threads,
    )
    found = identify_files(
        model, logs, validate or (), options, columns, given, settings, silent if quiet else tell
    )
    if not quiet:
        tell("writing the report")
    write(found, out, report.html)
    say(report.text(found))
    left = (*found.files, "estimate.json", "report.html")
    say("\n" + "   ".join(str(out / name) for name in left))


@app.command
def predict(
    results: Path,
    log: Path,
    *,
    out: Path,
    columns: Annotated[Path | None, Parameter(name="--map")] = None,
    friction: Literal["full", "simple", "none"] = "full",
) -> None:
    """Predict the torques of a log from an identified robot.

    Parameters
    ----------
    results
        Folder that heft identify left.
    log
        Any log with t and `q.<joint>`; torques are not looked at.
    out
        Parquet or CSV file to write: t, `tau.<joint>` and `tau_rigid.<joint>`, at the log's times.
    columns
        TOML that says what the log's columns mean.
    friction
        Full, simple (as the model file has it), or none for the rigid body and rotor inertia only.
    """
    from heft.applications.predict import predict_files

    rows = predict_files(results, log, out, columns, friction)
    say(f"{out}: {rows} rows")


@app.command
def check(
    *logs: Path,
    robot: Path | None = None,
    columns: Annotated[Path | None, Parameter(name="--map")] = None,
    options: Annotated[Path | None, Parameter(name="--with")] = None,
    draft: Path | None = None,
    mended: Path | None = None,
    json: Path | None = None,
    quiet: bool = False,
) -> None:
    """Look whether logs are any good, before a robot is identified from them.

    Exits with 0 if nothing spoils an identification, with 1 if something does.

    Parameters
    ----------
    logs
        CSV, Parquet or NPZ files of one robot.
    robot
        Its model file; with it the robot's physics is asked too: units, signs, order of the
        joints, offsets, gravity, delay.
    columns
        TOML that says what the logs' columns mean.
    options
        TOML that says what a model file cannot.
    draft
        Column map to write, guessed from the names of the log's columns and of the robot's joints;
        without a robot, those of a wrench sensor. Nothing else is done.
    mended
        Column map to write, with the cures that physics asks for in it.
    json
        File to write the findings to, for programs.
    quiet
        Say nothing while working.
    """
    from heft.applications.doctor import doctor
    from heft.errors import InvalidSetting

    if draft is not None:
        if len(logs) != 1:
            raise InvalidSetting("a map is drafted for one log", argument="LOGS", got=len(logs))
        doctor.write_draft(draft, logs[0], robot)
        say(f"{draft}: look it through, then give it with --map")
        return
    found = doctor.diagnose_files(
        logs, robot, options, columns, (lambda _: None) if quiet else tell
    )
    if mended is not None:
        if robot is None:
            raise InvalidSetting("a map is mended by physics only", cure="give --robot")
        doctor.write_mended(mended, found, logs[0], robot, options, columns)
    if json is not None:
        doctor.write_json(json, found)
    say(doctor.text(found))
    if found.spoilt:
        sys.exit(1)


@app.command
def compare(before: Path, after: Path, *, out: Path | None = None) -> None:
    """Compare two identifications of one robot: what changed, and how sure that is.

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
    from heft.files import put, require_writable, workshop

    if out is not None:
        require_page(out)
        require_writable(out)
    found = compared(before, after)
    if out is not None:
        with workshop(out) as folder:
            new = folder / out.name
            new.write_text(compare_report.html(found), encoding="utf-8")
            put(new, out)
    say(compare_report.text(found))
    if out is not None:
        say(f"\n{out}")


@app.command
def view(
    robot: Path,
    log: Path | None = None,
    *,
    columns: Annotated[Path | None, Parameter(name="--map")] = None,
    port: int = 8080,
    open_browser: Annotated[bool, Parameter(name="--open")] = True,
) -> None:
    """Show a robot and a recording in the browser; Ctrl-C ends it.

    Needs the extra `view`: pip install 'heft[view]'. Only this machine can see it.

    Parameters
    ----------
    robot
        The model file, or a folder that heft identify left.
    log
        CSV, Parquet or NPZ with columns t and `q.<joint>`, to be played.
    columns
        TOML that says what the log's columns mean.
    port
        Where to serve it on this machine; the next free one if taken.
    open_browser
        Whether to open the browser; --no-open only prints the address.
    """
    from heft.applications.viewer import serve

    serve(robot, log, columns, port, open_browser, say)


@app.command
def convert(
    *logs: Path,
    out: Path,
    columns: Annotated[Path | None, Parameter(name="--map")] = None,
    robot: Path | None = None,
    recover: bool = False,
) -> None:
    """Write a log as another kind of file, with canonical names and SI units.

    Parameters
    ----------
    logs
        CSV, Parquet, NPZ, MCAP, ROS 1 bag, rosbag2 folder, or the TOML of an experiment. Several
        are joined by time: the first gives the times, the others are interpolated at them.
    out
        CSV, Parquet, NPZ or MCAP file to write.
    columns
        TOML that says what the logs' columns mean.
    robot
        The model file (URDF, MJCF or TOML), for logs that only count their joints.
    recover
        Salvage what can be read of a damaged log, say what is lost, and exit with 3.
    """
    from heft.errors import InvalidSetting
    from heft.recordings import ColumnMap
    from heft.recordings import convert as convert_logs

    if not logs:
        raise InvalidSetting(
            "no log is given", argument="LOGS", cure="heft convert run.mcap --out run.parquet"
        )
    joints: tuple[str, ...] = ()
    if robot is not None:
        from heft.models import Robot

        joints = tuple(Robot.from_file(robot).joints)
    mapping = ColumnMap.from_toml(columns) if columns else None
    made = convert_logs(logs, out, mapping, joints, recover)
    for line in (*made.notes, *made.losses):
        tell(line)
    say(f"{out}: {made.rows} rows, {made.begin:.6g} s to {made.end:.6g} s")
    if made.damage:
        sys.stderr.write("heft: salvaged what can be read; lost:\n")
        for line in made.damage:
            sys.stderr.write(f"  {line}\n")
        sys.exit(SALVAGED)


@dataclass(frozen=True)
class Live:
    """Weighing as the samples come.

    Parameters
    ----------
    live
        Weigh what is held now, until stopped by Ctrl-C.
    on
        Where samples come from and estimates go: zenoh (this machine's router), or a TOML file.
    insecure
        Open to a network without certificates on both sides.
    replay
        A log to take in place of a network, in real time.
    speed
        By how much faster than it was recorded it is replayed; inf for as fast as can be.
    rate
        How often what is known is told [Hz].
    serve
        Show a page in this machine's browsers, at a port or any.
    checkpoint
        File in which what is known is kept, and from which it goes on.
    """

    live: bool = False
    on: str | None = None
    insecure: bool = False
    replay: Path | None = None
    speed: float = 1.0
    rate: float = 10.0
    serve: bool | int = False
    checkpoint: Path | None = None


@app.command
def payload(
    *logs: Path,
    sensor: Path | None = None,
    robot: Path | None = None,
    empty: Annotated[list[Path] | None, Parameter(consume_multiple=True)] = None,
    loaded: Annotated[list[Path] | None, Parameter(consume_multiple=True)] = None,
    frame: str | None = None,
    known_mass: float | None = None,
    matched: bool = False,
    mounting: bool = False,
    columns: Annotated[Path | None, Parameter(name="--map")] = None,
    options: Annotated[Path | None, Parameter(name="--with")] = None,
    out: Path | None = None,
    threads: int = 2,
    quiet: bool = False,
    now: Annotated[Live, Parameter(name="*", group=Group("Live", sort_key=1))] = Live(),
) -> None:
    """Weigh a load: by a wrench sensor that holds it, or by the robot that carries it.

    Parameters
    ----------
    logs
        With --sensor, logs with one load. With --robot alone, one log without the load and one
        with it, in this order.
    sensor
        TOML that describes the wrench sensor, and the inertial sensor if there is one.
    robot
        The robot's model file.
    empty
        Logs without the load, where there are several.
    loaded
        Logs with it.
    frame
        The link that the load is fixed to; the last one if not given.
    known_mass
        Mass of the load [kg]: the drives' gains are found instead, and written to robot.toml; or
        with --sensor the sensor's, where its file says gain_std.
    matched
        Whether logs with and without the load are of the same motions, in the same order: the
        difference is weighed, whatever the model file says of the robot's masses.
    mounting
        Whether the sensor may be mounted turned against the motion's frame.
    columns
        TOML that says what the logs' columns mean.
    options
        TOML that says what the model file cannot, such as drive gains.
    out
        Folder for estimate.json, payload.txt and robot.toml; nothing is written if not given.
    threads
        How many threads share the work.
    quiet
        Say nothing while working.
    """
    from heft.applications.identification import Settings, silent
    from heft.applications.payload import Weigh, WeighCarried, payload
    from heft.errors import InvalidSetting

    if out is not None:
        payload.refuse_foreign(out)
    progress = silent if quiet else tell
    if known_mass is not None and not (math.isfinite(known_mass) and known_mass > 0.0):
        raise InvalidSetting("a mass is above 0", argument="--known-mass", got=known_mass)
    if now.live:
        others = (logs, empty, loaded, known_mass, frame, matched, mounting)
        if sensor is None or any(others):
            raise InvalidSetting(
                "with --live, a wrench sensor is expected, and nothing about logs",
                argument="--live",
                cure="heft payload --live --sensor wrist.toml --on zenoh",
            )
        found = _attend(now, sensor, columns, robot, options, out, progress)
    elif now != Live():
        raise InvalidSetting(
            "this is said of live weighing only",
            argument=", ".join(f"--{k}" for k, v in vars(now).items() if v != getattr(Live(), k)),
            cure="add --live",
        )
    elif sensor is not None:
        if not logs or empty or loaded:
            raise InvalidSetting(
                "with --sensor, logs of one load are expected and nothing else",
                argument="LOGS",
                cure="heft payload grasp.csv --sensor wrist.toml",
            )
        found = payload.weigh_files(
            logs, sensor, columns, robot, options, Weigh(mounting=mounting), progress, known_mass
        )
    else:
        named = empty is not None or loaded is not None
        before, after = (empty, loaded) if named else (list(logs[:1]), list(logs[1:]))
        astray = bool(logs) if named else len(logs) > 2
        if robot is None or not before or not after or astray:
            raise InvalidSetting(
                "either a wrench sensor or a robot with logs without and with the load is needed",
                argument="LOGS",
                cure="heft payload grasp.csv --sensor wrist.toml, or "
                "heft payload empty.csv loaded.csv --robot arm.urdf",
            )
        if matched and known_mass is not None:
            raise InvalidSetting(
                "gains are found from the whole runs, not from a difference",
                argument="--matched",
                cure="leave --matched out",
            )
        if matched:
            found = payload.difference_files(robot, before, after, columns, options, frame)
        else:
            weigh = WeighCarried(frame, known_mass, settings=Settings(threads=threads))
            found = payload.carry_files(robot, before, after, columns, options, weigh, progress)
    if out is not None:
        payload.write(found, out)
    say(payload.text(found))
    if out is not None:
        say(f"\n{out / 'estimate.json'}   {out / 'payload.txt'}")


def _attend(
    now: Live,
    sensor: Path,
    columns: Path | None,
    robot: Path | None,
    options: Path | None,
    out: Path | None,
    progress: Callable[[str], None],
) -> Payload:
    """Weigh live until stopped."""
    from heft.applications.payload import LiveWeighing, stopped_by_signals

    live = LiveWeighing(
        sensor,
        now.on,
        now.insecure,
        now.replay,
        now.speed,
        columns,
        robot,
        options,
        now.rate,
        None if now.serve is False else 0 if now.serve is True else now.serve,
        now.checkpoint,
        out,
    )
    with stopped_by_signals() as stop:
        return live.run(stop, say, progress)


@app.command
def derive(
    robot: Path,
    *,
    form: Annotated[Literal["text", "latex", "numpy"], Parameter(name="--format")] = "text",
    drives: bool = False,
    out: Path | None = None,
) -> None:
    """Derive the dynamics of a small robot in symbols, as textbooks do.

    Needs the extra `symbolic`: pip install 'heft[symbolic]'.

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
    from heft.files import put, require_writable, workshop

    if out is not None:
        require_writable(out)
    written = rendered(derive_file(robot, drives), form)
    if out is None:
        say(written)
        return
    with workshop(out) as folder:
        new = folder / out.name
        new.write_text(written + "\n", encoding="utf-8")
        put(new, out)
    say(f"{out}")


@app.command
def demo(*, out: Path = Path("demo-out"), quiet: bool = False) -> None:
    """Identify the simulated arm that comes with heft, and compare with the truth.

    Parameters
    ----------
    out
        Folder for the results.
    quiet
        Say nothing while working.
    """
    from heft.applications import demo

    say(demo.run(out, (lambda _: None) if quiet else tell))


def main() -> None:
    """Run the command line."""
    try:
        app(sys.argv[1:], exit_on_error=False, print_error=True)
    except HeftError as error:
        sys.stderr.write(f"heft: {error.explain()}\n")
        sys.exit(error.exit_code)
    except CycloptsError:
        sys.exit(2)
    except KeyboardInterrupt:
        sys.stderr.write("heft: interrupted; nothing was written\n")
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)
    except (OSError, MemoryError) as error:
        sys.stderr.write(f"heft: {error}; nothing was written\n")
        sys.exit(2)


if __name__ == "__main__":
    main()
