"""Commands of motions: designed, selected, simulated."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

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
from .terminal import message, progress_unless


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
    """Design the motion that tells most about a robot, proven to keep all limits.

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
    settings = excitation.settings(columns)
    with stopped_by_signals() as stop:
        told = progress_unless(quiet)
        found = excite_files(model, out, settings, options, given, told, stop, own)
    message(text_of(found, str(out)))
    if view and not found.design.interrupted:
        serve(model, out / "motion.parquet", None, options, VIEW_PORT, True, message)


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
    """Select the stretches of recordings that tell most, and say what was never excited.

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
    from heft.applications.identification import Inputs
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
    """Simulate what the log of a motion would look like, in MuJoCo, with the truth beside it.

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
    found = simulate_files(model, motion, out, settings, columns, progress, own)
    for loss in found.losses:
        progress(loss)
    message(found.text())
    message(f"\n{out}   {out.with_suffix('.truth')}")
