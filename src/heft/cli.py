"""The command line: typed functions as commands.

Bad input prints what is wrong and how to mend it and exits with 2; a fit that cannot stand
exits with 1; never a traceback.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, CycloptsError, Parameter

from . import __version__
from .errors import HeftError

app = App(
    name="heft",
    help="What a robot weighs, how much friction it has, and how sure that is, from its logs.",
    version=__version__,
    version_flags=["--version"],
    suppress_keyboard_interrupt=False,
)


def say(text: str) -> None:
    """Write a line of results."""
    sys.stdout.write(text + "\n")


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
        CSV, Parquet or NPZ with columns t, q.<joint> and tau.<joint> or current.<joint>.
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
    from . import report
    from .consistency import PhysicallyConsistent
    from .errors import InvalidSetting
    from .identification import Settings, identify_files
    from .preparation import silent
    from .results import refuse_foreign, write
    from .signals import Smoothing
    from .weak import Weak

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
        CSV, Parquet or NPZ with columns t and q.<joint>; torques are not looked at.
    out
        Parquet or CSV file to write: t, tau.<joint> and tau_rigid.<joint>, at the log's times.
    columns
        TOML that says what the log's columns mean.
    friction
        Full, simple (as the model file has it), or none for the rigid body and rotor inertia only.
    """
    from .results import predict_files

    rows = predict_files(results, log, out, columns, friction)
    say(f"{out}: {rows} rows")


@app.command
def check(
    *logs: Path,
    robot: Path | None = None,
    columns: Annotated[Path | None, Parameter(name="--map")] = None,
    options: Annotated[Path | None, Parameter(name="--with")] = None,
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
    mended
        Column map to write, with the cures that physics asks for in it.
    json
        File to write the findings to, for programs.
    quiet
        Say nothing while working.
    """
    from . import doctor
    from .errors import InvalidSetting

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
def demo(*, out: Path = Path("demo-out"), quiet: bool = False) -> None:
    """Identify the simulated arm that comes with heft, and compare with the truth.

    Parameters
    ----------
    out
        Folder for the results.
    quiet
        Say nothing while working.
    """
    from . import demo as shipped

    say(shipped.run(out, (lambda _: None) if quiet else tell))


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
