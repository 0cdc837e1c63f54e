"""A servo's bench and its logs: what is hung on it, and what each log says of the drive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import InvalidRecording, InvalidSetting, MissingSignal
from heft.files import Number, OpenedFile
from heft.recordings import ColumnMap, Recording, json_rows

GRAVITY = 9.80665  # [m/s²]
NAME = "servo"
DUTY, SUPPLY, ENABLED, WARMTH = (f"u.{NAME}{x}" for x in ("", ".volts", ".on", ".temperature"))
# Columns of benches' JSON files, and the signals that they are.
COLUMNS = {
    "timestamp": "t",
    "position": f"q.{NAME}",
    "goal_position": f"q_ref.{NAME}",
    "load": DUTY,
    "input_volts": SUPPLY,
    "torque_enable": ENABLED,
    "temp": WARMTH,
}
QUANTITIES = {  # on the terminal, and their units
    "A": ("torque per volt A", "N·m/V"),
    "B": ("back-EMF B", "N·m·s/rad"),
    "viscous": ("viscous friction", "N·m·s/rad"),
    "armature": ("rotor inertia", "kg·m²"),
    "coulomb": ("Coulomb friction", "N·m"),
    "load": ("friction per load", "1"),
    "static": ("friction at rest over it", "1"),
    "sag": ("fall of A with the arm's torque", "1/(N·m)"),
    "offset": ("offset", "N·m"),
    "warmth": ("fall of A with temperature", "1/K"),
    "delay": ("delay of the goal", "s"),
}
SAME = 0.01  # by how much a log's mass or length may differ from the bench's, relative
WRAP = 2**16  # of registers of 16 bits


@dataclass(frozen=True)
class Bench:
    """The TOML of a bench: a mass on an arm that turns about a horizontal axis.

    Raises:
        InvalidSetting: If a value is out of range.
    """

    mass: Annotated[float, Number("a mass is positive", above=0.0, unit="kg")]
    length: Annotated[float, Number("a length is positive", above=0.0, unit="m")]  # axis to mass
    # of the arm, uniform from the axis to the mass
    arm_mass: Annotated[float, Number("a mass is not negative", 0.0, unit="kg")] = 0.0
    # of the supply, where logs do not hold it
    voltage: Annotated[float | None, Number("a voltage is positive", above=0.0, unit="V")] = None
    # what 100 % of duty is in the logs: 885 of Dynamixel's X series, 1000 of Feetech's, 100 or 1
    full_duty: Annotated[float | None, Number("a full duty is positive", above=0.0)] = None
    # the firmware's: duty per rad of position error; times the log's `kp` where that is logged
    gain: Annotated[float | None, Number("a gain is positive", above=0.0)] = None
    # beside it, not times `kp`: duty per rad/s of the error's rate, and per rad·s of its sum
    d_gain: Annotated[float, Number("a gain is not negative", 0.0)] = 0.0
    i_gain: Annotated[float, Number("a gain is not negative", 0.0)] = 0.0

    @property
    def moment(self) -> float:
        """Moment of gravity with the arm level [N·m]."""
        return (self.mass + 0.5 * self.arm_mass) * GRAVITY * self.length

    @property
    def inertia(self) -> float:
        """Moment of inertia about the axis [kg·m²]."""
        return (self.mass + self.arm_mass / 3.0) * self.length**2


@dataclass(frozen=True, eq=False)
class ServoLog:
    """A log of a servo on its bench, in SI units."""

    name: str
    time: Array  # shape (N,) [s]
    position: Array  # 0 where the arm hangs down, shape (N,) [rad]
    goal: Array | None  # likewise
    duty: Array | None  # from −1 to 1, shape (N,)
    supply: Array  # shape (N,) [V]
    on: NDArray[np.bool_]  # whether the torque is on, shape (N,)
    temperature: float  # mean [°C]; NaN where it is not logged
    gain: float  # the firmware's, as the log states it; NaN where it does not
    file: OpenedFile

    @staticmethod
    def open(path: Path, bench: Bench, columns: ColumnMap | None = None) -> ServoLog:
        """Open a log: a bench's JSON file, or any format with canonical or mapped columns.

        Args:
            columns: What the columns mean; of a JSON file those of `COLUMNS` by default.

        Raises:
            InputError: If the log cannot be read, is of another bench, holds neither goal nor
                duty, or angles or duty are in another unit.
        """
        file = OpenedFile.at(path)
        header: Mapping[str, float] = {}
        if path.suffix.lower() == ".json":
            header, rows = json_rows(path)
            named = {COLUMNS.get(n, n) if columns is None else n: x for n, x in rows.items()}
            recording = Recording.of_columns(named, columns)
        else:
            recording = Recording.open(path, columns)
        recording.require([f"q.{NAME}"], "says how the servo turns")
        names = [n for n in (f"q.{NAME}", *list(COLUMNS.values())[2:]) if n in recording.sources]
        block = recording.whole(names)
        complete = np.isfinite(block.values).all(axis=1) & np.isfinite(block.time)
        signals = dict(zip(names, block.values[complete].T, strict=True))
        _refuse_other_bench(path, header, bench)
        goal, duty = signals.get(f"q_ref.{NAME}"), signals.get(DUTY)
        if duty is not None and not duty.any():
            duty = None  # a register that was not read
        if goal is None and duty is None:
            raise MissingSignal(
                "the log holds neither the servo's goal nor its duty: nothing says what drove it",
                argument=str(path),
                expected=f"columns q_ref.{NAME} (goal_position) or {DUTY} (load)",
                cure="log the register Present PWM or Present Load, or the goal that was sent",
            )
        position, time = signals[f"q.{NAME}"], block.time[complete]
        require_motion(str(path), time, [x for x in (position, goal) if x is not None])
        if SUPPLY not in signals and bench.voltage is None:
            raise MissingSignal(
                "neither the log nor the bench says the supply's voltage",
                argument=str(path),
                cure="write voltage = 7.4 (what the supply shows, in V) into the bench's TOML",
            )
        return ServoLog(
            path.name,
            time,
            position,
            goal,
            None if duty is None else _of_unit(path, duty, bench.full_duty),
            signals.get(SUPPLY, np.full(len(time), bench.voltage or 0.0)),
            signals.get(ENABLED, np.ones(len(time))) > 0.5,
            float(np.mean(signals.get(WARMTH, np.nan))),
            header.get("kp", np.nan),
            file,
        )


def open_logs(bench: Bench, paths: Sequence[Path], map: Path | None = None) -> list[ServoLog]:
    """Return the logs of a bench, whose columns a TOML says; see `ServoLog.open`."""
    columns = None if map is None else ColumnMap.from_toml(map)
    return [ServoLog.open(path, bench, columns) for path in paths]


def _refuse_other_bench(path: Path, header: Mapping[str, float], bench: Bench) -> None:
    for name, own in (("mass", bench.mass), ("length", bench.length), ("arm_mass", bench.arm_mass)):
        stated = header.get(name, own)
        if abs(stated - own) > SAME * max(own, SAME):
            raise InvalidSetting(
                f"the log is of another bench: its {name} is not the one stated",
                argument=str(path),
                got=f"{name} {stated:g}",
                expected=f"{own:g}, as the bench's TOML says",
                cure="identify logs of one bench at a time, each with its TOML",
            )


def require_motion(name: str, time: Array, angles: Sequence[Array]) -> None:
    """Require that a log is long enough, its time goes on, and its angles are a servo's in rad.

    Args:
        time: Shape (N,) [s].
        angles: Positions and goals, shape (N, ...) each [rad].

    Raises:
        InvalidRecording: If not.
    """
    if len(time) < 50 or not (np.diff(time) > 0.0).all():
        raise InvalidRecording(
            "the log is too short, or its time does not go on",
            argument=name,
            got=f"{len(time)} whole rows, {np.count_nonzero(np.diff(time) <= 0.0)} steps back",
            cure="record at least some seconds, and leave out rows whose time is not later",
        )
    if np.abs(angles).max() > 4.0 * np.pi:
        raise InvalidRecording(
            "positions and goals are no angles in rad",
            argument=name,
            got=f"values from {np.min(angles):.3g} to {np.max(angles):.3g}",
            cure='degrees are said in a map (--map: unit = "deg"); −100 … 100 of a calibrated '
            "range needs the calibration: a dataset's, or unit, ratio and offset of the range in "
            "the map; or log the register in steps",
        )


def _of_unit(path: Path, duty: Array, full: float | None) -> Array:
    """Return duty from −1 to 1; registers of 16 bits are unwrapped."""
    duty = np.where(duty > WRAP // 2, duty - WRAP, duty)
    most = float(np.abs(duty).max())
    # Any motion takes a hundredth, and registers are rounded.
    if full is None or not 0.01 * full <= most <= 1.001 * full:
        raise InvalidSetting(
            "what 100 % of duty is in the log is not stated"
            if full is None
            else "the log's duty is in another unit than stated",
            argument=str(path),
            got=f"values up to {most:g}" + ("" if full is None else f", of {full:g} for 100 %"),
            cure="write full_duty = 885 (Dynamixel's Present PWM), 1000 (Feetech's Present Load), "
            "100 (per cent) or 1 into the bench's TOML",
        )
    return duty / full
