"""`heft freeflyer design` and `track`: a motion, and its flight in closed loop, as files."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from heft import __version__
from heft.errors import InvalidRecording, InvalidSetting, install
from heft.excitation import Design, DesignSettings, ExcitationTrajectory
from heft.files import UNREADABLE, json_text, new_folder, put, read_text, require_own, workshop
from heft.flight import Flight, FlightFaults, FlightReference, FlightSettings, design_flight, fly
from heft.models import (
    SHIPPED,
    FlightBounds,
    FreeFlyer,
    Load,
    flight_bounds_from_toml,
    free_flyer_from_toml,
    shipped_free_flyer,
)
from heft.recordings import (
    CommandedFlight,
    Table,
    messages_can_be_written,
    require_log,
    write_table,
)

MOTION = ("motion.csv", "series.json", "design.json")
MESSAGES = ("motion.mcap", "px4.mcap", "astrobee.mcap")  # of ROS
TRUTH = ("truth.json",)
NO_FAULTS = FlightFaults()
RATE = 50.0  # of the written motion [Hz]
LONGEST = 1e5  # flight that is made [s]: a day, some millions of samples


def open_flyer(body: str) -> FreeFlyer:
    """Return a body by the path of its TOML, or by the name of one that comes with heft.

    Raises:
        InvalidSetting: If it is neither.
    """
    named = body in SHIPPED or not (Path(body).suffix or Path(body).exists())
    return shipped_free_flyer(body) if named else free_flyer_from_toml(Path(body))


@dataclass(frozen=True, eq=False)
class DesignedFlight:
    """A designed motion of a free flyer."""

    flyer: FreeFlyer  # the body
    bounds: FlightBounds  # of its room, speed and time
    criterion: str  # J1 or J2
    design: Design  # the solver's result

    def text(self) -> str:
        """Return the summary for the terminal."""
        made = self.design
        lines = [
            f"{made.gain:.3g} {'nats ' if self.criterion == 'J2' else ''}better than the best of "
            f"{len(made.random)} random motions within the same bounds.",
            f"Condition number of the regressor: {made.conditions.raw:.3g} in SI units, "
            f"{made.conditions.scaled:.3g} with columns of one length.",
            f"Log-determinant of the information of {self.bounds.cycles} cycles: "
            f"{made.log_determinant:.1f}.",
            f"Largest force in every direction without a moment: "
            f"{self.flyer.guaranteed_force():.2f} N.",
        ]
        if self.bounds.payload is None:
            lines.append(
                "Commands are not limited by the design: with a load the actuators may saturate. "
                "State what may have been grasped in [payload] of the bounds."
            )
        if not messages_can_be_written():
            lines.append(f"Messages for autopilots are left out: {install('ros')}.")
        return "\n".join(lines)


def design_files(
    body: str,
    out: Path,
    bounds: Path | None = None,
    criterion: Literal["J1", "J2"] = "J2",
    settings: DesignSettings = DesignSettings(random=100, starts=2),
    stop: threading.Event | None = None,
) -> DesignedFlight:
    """Design the flight that is most informative about a body's load, and write it.

    Args:
        body: TOML of the body, or the name of one that comes with heft.
        criterion: `J2`, the log-determinant of the information, or `J1`, the condition number.

    Raises:
        InvalidSetting: If a file is malformed.
        InfeasibleLimits: If no motion keeps all limits.
    """
    require_own(out, (*MOTION, *MESSAGES))
    flyer = open_flyer(body)
    room = flight_bounds_from_toml(bounds) if bounds is not None else FlightBounds()
    made = DesignedFlight(
        flyer, room, criterion, design_flight(flyer, room, criterion, settings, stop)
    )
    reference = FlightReference(made.design.trajectory, flyer.gravity)
    with new_folder(out) as new:
        flight, messages = commanded_flight(reference, flyer), messages_can_be_written()
        for name in (MOTION[0], MESSAGES[0]) if messages else (MOTION[0],):
            write_table(Table.of_columns(flight.columns(), new / name), new / name)
        if messages:
            flight.write_px4(new / MESSAGES[1])
            flight.write_astrobee(new / MESSAGES[2])
        series = json_text(made.design.trajectory.to_dict())
        (new / MOTION[1]).write_text(series, encoding="utf-8")
        (new / MOTION[2]).write_text(json_text(_designed(made)), encoding="utf-8")
    return made


def commanded_flight(reference: FlightReference, flyer: FreeFlyer) -> CommandedFlight:
    """Return the commands of one cycle of a motion, its end included."""
    time = np.arange(round(reference.duration * RATE) + 1) / RATE
    within = np.minimum(time, reference.duration * (1.0 - 1e-12))
    states, _ = reference.states(within)
    p, q, v, turning = np.split(states, (3, 7, 10), axis=1)
    a, alpha = reference.accelerations(within)
    free = len(reference.trajectory.names) == 6
    return CommandedFlight(flyer.name, time, p, q, v, a, turning, alpha, free)


def _designed(made: DesignedFlight) -> dict[str, Any]:
    design = made.design
    return {
        "heft": __version__,
        "body": made.flyer.name,
        "criterion": made.criterion,
        "cycles": made.bounds.cycles,
        "period_s": made.bounds.period,
        "log_determinant": design.log_determinant,
        "condition_raw": design.conditions.raw,
        "condition_scaled": design.conditions.scaled,
        "std": dict(zip(design.base.labels.names, design.std, strict=True)),
        "interrupted": design.interrupted,
    }


def read_motion(folder: Path) -> tuple[ExcitationTrajectory, int]:
    """Return a designed motion and the number of cycles to fly.

    Raises:
        InvalidRecording: If it is none.
    """
    try:
        series = json.loads(read_text(folder / MOTION[1], "motion", InvalidRecording))
        stated = json.loads(read_text(folder / MOTION[2], "motion", InvalidRecording))
        trajectory = ExcitationTrajectory.from_dict(series)
        if trajectory.duration > LONGEST:
            raise ValueError(f"a cycle of {trajectory.duration:g} s")
        return trajectory, int(stated["cycles"])
    except (*UNREADABLE, AttributeError) as problem:
        raise InvalidRecording(
            "this is no folder with a designed flight",
            argument=str(folder),
            got=f"{type(problem).__name__}: {problem}",
            expected="the folder that `heft freeflyer design --out` wrote",
        ) from problem


@dataclass(frozen=True, eq=False)
class TrackedFlight:
    """A simulated flight along a designed motion."""

    flyer: FreeFlyer  # the body
    loads: tuple[Load, ...] = field(default=())  # what it grasped
    flight: Flight = field(kw_only=True)  # log and truth

    def text(self) -> str:
        """Return the summary for the terminal."""
        truth = self.flight.truth
        lines = [
            f"{truth.time[-1]:.4g} s, {len(truth.time)} samples; off its path by "
            f"{1e3 * truth.tracking_error:.3g} mm (rms)",
            f"A command is at its limit in {self.flight.saturation:.1%} of the samples.",
        ]
        if self.flight.unsolved:
            lines.append(f"{self.flight.unsolved} of the controller's problems had no solution.")
        return "\n".join(lines)


def track_files(
    body: str,
    motion: Path,
    out: Path,
    loads: tuple[Load, ...] = (),
    cycles: int | None = None,
    seed: int = 0,
    faults: FlightFaults = NO_FAULTS,
) -> TrackedFlight:
    """Fly a designed motion in MuJoCo under predictive tracking, and write log and truth.

    Args:
        body: TOML of the body, or the name of one that comes with heft.
        out: Log to write: MCAP, Parquet, NPZ or CSV; the truth lies beside it, in a folder of the
            same name with the ending `.truth`.
        loads: What the body has grasped, which the controller does not know.
        cycles: Number of cycles; as designed if None.

    Raises:
        InvalidSetting: If the body or a setting is none, or MuJoCo is not installed.
        InvalidRecording: If the folder holds no design.
    """
    require_log(out)
    beside = out.with_suffix(".truth")
    require_own(beside, TRUTH)
    flyer = open_flyer(body)
    trajectory, designed = read_motion(motion)
    count = designed if cycles is None else cycles
    if count < 1:
        raise InvalidSetting("a motion is flown once or more", argument="--cycles", got=count)
    if count * trajectory.duration > LONGEST:
        raise InvalidSetting(
            "the flight would not fit in memory",
            argument="--cycles",
            got=f"{count} of {trajectory.duration:g} s",
            expected=f"up to {LONGEST:g} s",
        )
    reference = FlightReference(trajectory, flyer.gravity)
    flight = fly(flyer, reference, loads, FlightSettings(count, seed, faults=faults))
    tracked = TrackedFlight(flyer, tuple(loads), flight=flight)
    with workshop(out) as folder:
        write_table(flight.log.canonical(), folder / out.name)
        with new_folder(beside) as new:
            (new / TRUTH[0]).write_text(json_text(_truth(tracked)), encoding="utf-8")
        put(folder / out.name, out)
    return tracked


def _truth(tracked: TrackedFlight) -> dict[str, Any]:
    truth = tracked.flight.truth
    return {
        "heft": __version__,
        "body": tracked.flyer.name,
        "parameters_with_load": truth.parameters,
        "loads": [
            {"mass_kg": k.mass, "position_m": k.position, "size_m": k.size} for k in tracked.loads
        ],
        "saturation": tracked.flight.saturation,
        "time": truth.time,
        "position": truth.position,
        "quaternion": truth.quaternion,
        "velocity": truth.velocity,
        "omega": truth.turning,
    }
