"""Episodes of an arm's positions and goals: datasets of LeRobot, version 3, and logs of any format.

A dataset (github.com/huggingface/lerobot) has `observation.state` and `action` by frame, in degrees
or from −100 to 100 about the middle of the range that was calibrated (a gripper from 0 to 100), and
stamps that are frame number over rate, whatever the loop's true times were.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidRecording, InvalidSetting, MissingSignal, require_one_of
from heft.files import Number, OpenedFile, named, read_text, section
from heft.models import Robot
from heft.recordings import ColumnMap, Recording, is_log, read_table

from .bench import ServoLog, require_motion
from .firmware import Firmware

COUNTS = 4096  # of an encoder, a turn
STATE, ACTION = "observation.state", "action"


@dataclass(frozen=True)
class ArmBench:
    """The TOML of an arm of servos.

    Raises:
        InvalidSetting: If a value is out of range.
    """

    # masses of links that were weighed, the scale of all others [kg]
    known: Annotated[
        Mapping[str, float] | None, named(Number("a mass is positive", above=0.0, unit="kg"))
    ] = None
    # how far the file's centres of mass may be off, a standard deviation of each coordinate [m]
    centres: Annotated[float, Number("a length is positive", above=0.0, unit="m")] = 0.003
    # the firmware's P [duty per rad], D [duty per rad/s] and I [duty per rad·s]
    gain: Annotated[float | None, Number("a gain is positive", above=0.0)] = None
    d_gain: Annotated[float, Number("a gain is not negative", 0.0)] = 0.0
    i_gain: Annotated[float, Number("a gain is not negative", 0.0)] = 0.0
    # at which the firmware's own goal follows the one that is sent, at most [rad/s]
    goal_speed: Annotated[float, Number("a speed is positive", above=0.0, unit="rad/s")] = np.inf
    # of a dataset of LeRobot: degrees, or the range that was calibrated
    unit: Literal["deg", "range"] | None = None
    # the model's joints in the order of the dataset's names, where they are called otherwise
    joints: tuple[str, ...] | None = None
    turned: tuple[str, ...] = ()  # joints of the model that the log counts the other way round
    # where joints of the model are when the log says 0 [rad]
    zero: Annotated[Mapping[str, float] | None, named(Number("a zero", -7.0, 7.0, unit="rad"))] = (
        None
    )

    def __post_init__(self) -> None:
        if self.gain is None and (self.d_gain or self.i_gain):
            raise InvalidSetting(
                "D and I act beside P, which is not stated",
                argument="d_gain, i_gain",
                cure="write gain = …, duty per rad of error, too",
            )


@dataclass(frozen=True)
class Calibrated:
    """A joint in a calibration of LeRobot's: its range in steps of the encoder.

    Raises:
        InvalidSetting: If it is none.
    """

    range_min: float
    range_max: float
    drive_mode: float = 0.0  # 1 where the log counts it the other way round
    homing_offset: float = 0.0  # taken off by the servo itself
    id: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 < self.range_max - self.range_min <= COUNTS:
            raise InvalidSetting(
                "a joint's range is a part of a turn",
                argument="range_min, range_max",
                got=f"{self.range_min:g}, {self.range_max:g}",
                expected=f"at most {COUNTS} steps, the larger one last",
                cure="calibrate the arm anew",
            )

    @property
    def width(self) -> float:
        """The range [rad], negative where it is counted the other way round."""
        turned = -1.0 if self.drive_mode else 1.0
        return turned * (self.range_max - self.range_min) * 2.0 * np.pi / COUNTS


CALIBRATION = named(section(Calibrated))


@dataclass(frozen=True, eq=False)
class Episode:
    """Positions and goals of an arm's joints, in the model's order."""

    name: str
    time: Array  # shape (N,) [s]
    position: Array  # shape (N, joints) [rad]
    goal: Array  # likewise, as it was sent
    file: OpenedFile | None = None

    @cached_property
    def start(self) -> Array:
        """First position and speed, by a parabola through the first positions, (2, joints)."""
        count = max(4, int(np.searchsorted(self.time, self.time[0] + 0.1)))
        t = self.time[:count] - self.time[0]
        return np.asarray(np.polynomial.polynomial.polyfit(t, self.position[:count], 2)[:2])


def open_episodes(
    paths: Sequence[Path],
    robot: Robot,
    bench: ArmBench,
    calibration: Path | None = None,
    columns: ColumnMap | None = None,
) -> list[Episode]:
    """Return the episodes of datasets and logs.

    Args:
        paths: Folders of LeRobot's datasets; logs with `q.<joint>` and `q_ref.<joint>`, or folders
            of them.
        calibration: The dataset's JSON file of the arm.
        columns: What the columns of other logs mean.

    Raises:
        InputError: If something cannot be read, a goal is missing, or angles are in a unit that
            nothing says; if the firmware's gain is not the stated one, as duty shows it.
    """
    for what, stated in (("turned", bench.turned), ("zero", bench.zero or {})):
        for joint in stated:
            require_one_of(joint, robot.joints, f"the robot has no joint '{joint}'", what)
    found: list[Episode] = []
    for path in paths:
        if (path / "meta" / "info.json").is_file():
            found += _dataset(path, robot, bench, calibration)
        elif path.is_dir():
            found += [
                _log(p, robot, bench, columns)
                for p in sorted(path.iterdir())
                if is_log(p) and p.is_file()
            ]
        else:
            found.append(_log(path, robot, bench, columns))
    if not found:
        raise InvalidRecording(
            "no episode is given",
            argument=", ".join(map(str, paths)) or "LOGS",
            cure="name the folder of a LeRobot dataset (it holds meta/info.json), or logs",
        )
    sign = np.array([-1.0 if j in bench.turned else 1.0 for j in robot.joints])
    zero = np.array([(bench.zero or {}).get(j, 0.0) for j in robot.joints])
    made = []
    for e in found:
        whole = np.isfinite(np.column_stack([e.time, e.position, e.goal])).all(axis=1)
        time = e.time[whole]
        q, goal = (sign * x[whole] + zero for x in (e.position, e.goal))
        require_motion(e.name, time, [q, goal])
        made.append(Episode(e.name, time, q, goal, e.file))
    return made


def _log(path: Path, robot: Robot, bench: ArmBench, columns: ColumnMap | None) -> Episode:
    """Return a log of any format; duty that it holds is to be that of the stated gain."""
    recording = Recording.open(path, columns, robot.joints)
    names = [[f"{kind}.{j}" for j in robot.joints] for kind in ("q", "q_ref")]
    recording.require(names[0], "says where the arm is")
    _require_goal(path, [n for n in names[1] if n not in recording.sources])
    q, goal = (recording.whole(own).values for own in names)
    time, file = recording.whole(names[0]).time, OpenedFile.at(path)
    for k, joint in enumerate(robot.joints):
        if bench.gain is not None and f"u.{joint}" in recording.sources:
            duty, ones = recording.whole([f"u.{joint}"]).values[:, 0], np.ones(len(time))
            angles = (time, q[:, k], goal[:, k])
            log = ServoLog(path.name, *angles, duty, ones, ones > 0.0, np.nan, np.nan, file)
            Firmware.read_off([log], bench.gain)
    return Episode(path.name, time, q, goal, file)


def _require_goal(path: Path, missing: Sequence[str]) -> None:
    if missing:
        raise MissingSignal(
            "the log does not hold the goals: nothing says what drove the arm",
            argument=str(path),
            got=f"no {', '.join(missing[:3])}",
            expected=f"q_ref.<joint>, or {ACTION} in a dataset of LeRobot",
            cure="record the goal positions as they were sent",
        )


def _dataset(
    folder: Path, robot: Robot, bench: ArmBench, calibration: Path | None
) -> list[Episode]:
    """Return the episodes of a dataset of LeRobot."""
    info = _object(folder / "meta" / "info.json", "description of a dataset")
    features = info.get("features")
    features = features if isinstance(features, dict) else {}
    _require_goal(folder, [n for n in (ACTION,) if n not in features])
    names = _names(features.get(STATE), folder)
    joints = bench.joints or names
    if len(joints) != len(names) or not set(robot.joints) <= set(joints):
        raise InvalidSetting(
            "the model's joints are not those of the dataset",
            argument="joints",
            got=", ".join(joints),
            expected=", ".join(robot.joints),
            cure="write joints = […] into the TOML of --bench: the model's joints, in the order "
            f"{', '.join(names)}; leave joints that the dataset lacks out of the model (fixed)",
        )
    order = [list(joints).index(j) for j in robot.joints]
    columns = (
        "episode_index",
        "frame_index",
        *(f"{x}[{k}]" for x in (STATE, ACTION) for k in order),
    )
    files = sorted(folder.glob("data/**/*.parquet"))
    blocks = []
    for file in files:
        table = read_table(file)
        _require_goal(file, [c for c in columns if c not in table.columns])
        blocks += list(table.read(columns))
    rows = np.concatenate(blocks) if blocks else np.empty((0, len(columns)))
    rate, n = info.get("fps"), len(order)
    if not isinstance(rate, int | float) or not 1.0 <= rate <= 1e4:
        raise InvalidRecording(
            "the dataset does not say its frames a second", argument=str(folder), got=f"fps {rate}"
        )
    seen = rows[:, 2:]
    scale, middle = _units(folder, seen, [names[k] for k in order], bench.unit, calibration)
    angles = np.tile(scale, 2) * (seen - np.tile(middle, 2))
    opened = OpenedFile.at(folder)
    made = []
    for number in np.unique(rows[:, 0]):
        own = rows[:, 0] == number
        t, both = rows[own, 1] / rate, angles[own]
        name = f"{folder.name}, episode {number:.0f}"
        made.append(Episode(name, t, both[:, :n], both[:, n:], opened))
    return made


def _units(
    folder: Path,
    seen: Array,
    names: Sequence[str],
    unit: str | None,
    calibration: Path | None,
) -> tuple[Array, Array]:
    """Return rad per unit and the middle of each joint in a dataset's unit, shape (joints,) each.

    Raises:
        InvalidSetting: If the unit is not told, or needs a calibration that is not given.
    """
    gripper = np.array([n == "gripper" for n in names])
    body = seen[:, np.tile(~gripper, 2)]
    most = float(np.abs(body).max(initial=0.0))
    if unit is None and most > 101.0:
        unit = "deg"
    if unit is None or (unit == "range" and calibration is None):
        raise InvalidSetting(
            "−100 … 100 of a calibrated range are no angles without the calibration"
            if unit
            else "nothing says whether the dataset counts degrees or −100 … 100 of a range",
            argument=str(folder),
            got=f"values up to {most:.4g}",
            cure='write unit = "deg" or unit = "range" into the TOML of --bench'
            + ("" if calibration else "; the latter needs --calibration, the arm's JSON file"),
        )
    middle = np.where(gripper, 50.0, 0.0)
    turn = np.full(len(names), np.pi / 180.0)
    if calibration is None:
        if gripper.any():
            raise InvalidSetting(
                "a gripper counts from 0 to 100 of its calibrated range",
                argument="gripper",
                cure="give --calibration, the arm's JSON file, or a model whose gripper is fixed",
            )
        return turn, middle
    stated = CALIBRATION(_object(calibration, "calibration"), str(calibration))
    for k, name in enumerate(names):
        require_one_of(name, stated, f"joint '{name}' is not calibrated", str(calibration))
        if unit == "range" or gripper[k]:
            turn[k] = stated[name].width / (100.0 if gripper[k] else 200.0)
    return turn, middle


def _object(path: Path, what: str) -> dict[str, Any]:
    try:
        made = json.loads(read_text(path, what, InvalidSetting))
    except (ValueError, RecursionError) as problem:
        raise InvalidSetting(f"the {what} is no JSON", argument=str(path)) from problem
    if not isinstance(made, dict):
        raise InvalidSetting(f"the {what} is no JSON object", argument=str(path))
    return made


def _names(feature: Any, folder: Path) -> list[str]:
    """Return the joints that a feature names; older versions keep them under another key."""
    names = feature.get("names") if isinstance(feature, dict) else None
    if isinstance(names, dict):
        names = next(iter(names.values()), None)
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
        raise InvalidRecording(
            "the dataset does not name its joints",
            argument=str(folder / "meta" / "info.json"),
            got=f"{STATE}: {names}"[:200],
        )
    return [n.removesuffix(".pos").removeprefix("main_") for n in names]
