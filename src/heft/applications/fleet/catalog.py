"""Which logs are of which robot, type and day: a folder `TYPE/ROBOT/*`, or a `fleet.toml`."""

from __future__ import annotations

import datetime
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from heft.errors import InvalidSetting, did_you_mean, shown
from heft.files import Reader, Section, Text, named, read_toml

from .objects import Place, Stored, in_store, listed, matching

MODELS = (".urdf", ".xml", ".mjcf")
OPTIONS, COLUMNS, TABLE = "with.toml", "map.toml", "model.toml"  # beside the model file of a type
TYPES = "types"  # folder of the results, of what is known of types
NAME = re.compile(r"[\w.+@ -]{1,100}")  # of a type or robot, which are parts of paths
DATE = re.compile(r"(?<!\d)(\d{4})[-_.]?(\d\d)[-_.]?(\d\d)(?!\d)")
# types, robots with the day that they went into service, and logs
_Found: TypeAlias = tuple[dict[str, "RobotType"], dict[tuple[str, str], str | None], list["Log"]]
# files of each type, and logs of each of its robots
_Folders: TypeAlias = dict[str, tuple[list[Place], dict[str, list[Place]]]]
FIRST_DAY = datetime.date(1980, 1, 1)  # what is earlier is a clock that was not set


@dataclass(frozen=True)
class RobotType:
    """A type of robot: files that all robots of it share."""

    name: str
    model: Path  # URDF, MJCF, or TOML of Denavit-Hartenberg rows
    options: Path | None = None  # as of `--with`
    columns: Path | None = None  # as of `--map`


@dataclass(frozen=True, slots=True)
class Log:
    """A log and what it is filed under; there are many, so each takes little memory."""

    place: str | Stored
    type: str  # name of the robot's type
    robot: str  # serial number, or what else the robot is called
    day: str | None  # that its path states, such as 2026-03-01; None if it states none

    @property
    def path(self) -> Place:
        """Where it is."""
        return Path(self.place) if isinstance(self.place, str) else self.place

    @property
    def name(self) -> str:
        """What it is called in results, which hold no paths."""
        return f"{self.type}/{self.robot}/{self.path.name}"


@dataclass(frozen=True)
class Catalog:
    """The robots of a fleet, by type, and their logs."""

    types: Mapping[str, RobotType]  # by name, in its order
    logs: tuple[Log, ...]  # by type, robot and path
    # day that each robot, by type and serial, went into service; None if not told
    robots: Mapping[tuple[str, str], str | None]
    fetched: Mapping[Path, Stored] = field(default_factory=dict)  # files of types, by where to

    @staticmethod
    def open(place: Path | str, out: Path) -> Catalog:
        """Return the fleet of a folder `TYPE/ROBOT/*`, or of a TOML with types and robots.

        A type's folder holds its model file, and `with.toml` and `map.toml` if it needs them. Files
        whose names begin with a dot are left alone.

        Args:
            place: Folder, file, or address of such a folder in an object store.
            out: Folder of the results, which may be inside.

        Raises:
            InvalidSetting: If it is neither, a name is none, a file is missing, or there is no log.
            InvalidRecording: If an object store does not list it.
        """
        stored, path = in_store(str(place)), Path(place)
        if not stored and not path.exists():
            raise InvalidSetting("the fleet is not there", argument=str(place))
        fetched: dict[Path, Stored] = {}
        if stored or path.is_dir():
            folders = _in_store(str(place)) if stored else _in_folder(path, out)
            types, robots, logs_found = _of_folders(folders, str(place), out / TYPES, fetched)
        else:
            types, robots, logs_found = _of_file(path)
        if not logs_found:
            raise InvalidSetting(
                "the fleet has no logs",
                argument=str(place),
                expected="a folder TYPE/ROBOT/LOG for each, or a TOML that names them",
            )
        for name in {*types, *(robot for _, robot in robots)}:
            if not NAME.fullmatch(name) or name.startswith("."):
                raise InvalidSetting(
                    "a type or robot cannot be called so",
                    argument=str(place),
                    got=name,
                    expected="letters, digits, space and _ . + @ -",
                )
        logs = tuple(sorted(logs_found, key=lambda k: k.name))
        return Catalog(dict(sorted(types.items())), logs, dict(sorted(robots.items())), fetched)


def _in_folder(place: Path, out: Path) -> _Folders:
    return {
        folder.name: (
            [*_inside(folder, Path.is_file)],
            {robot.name: [*_inside(robot, Path.exists)] for robot in _inside(folder, Path.is_dir)},
        )
        for folder in _inside(place, Path.is_dir)
        if not (out.exists() and folder.samefile(out))
    }


def _in_store(address: str) -> _Folders:
    found: _Folders = {}
    for (kind, *names), stored in listed(address, 3):
        files, robots = found.setdefault(kind, ([], {})) if names else ([], {})
        (robots.setdefault(names[0], []) if len(names) == 2 else files).append(stored)
    return found


def _of_folders(
    folders: _Folders, place: str, types_at: Path, fetched: dict[Path, Stored]
) -> _Found:
    types: dict[str, RobotType] = {}
    robots: dict[tuple[str, str], str | None] = {}
    logs: list[Log] = []

    def local(kind: str, file: Place) -> Path:
        if isinstance(file, Path):
            return file
        path = types_at / kind / file.name
        fetched[path] = file
        return path

    for kind, (files, of_robots) in folders.items():
        named = {file.name: file for file in files}
        models = [n for n in named if Path(n).suffix.lower() in MODELS or n == TABLE]
        if len(models) != 1:
            raise InvalidSetting(
                "a type's folder holds its model file, and one only",
                argument=f"{place.rstrip('/')}/{kind}",
                got=", ".join(models) or "none",
                expected=f"a file {', '.join(MODELS)} or {TABLE}",
                cure="name types and robots in a fleet.toml where folders are not like this",
            )
        beside = [local(kind, named[n]) if n in named else None for n in (OPTIONS, COLUMNS)]
        types[kind] = RobotType(kind, local(kind, named[models[0]]), *beside)
        for robot, own in of_robots.items():
            robots[kind, robot] = None
            logs += [_log(file, kind, robot) for file in own]
    return types, robots, logs


def _inside(folder: Path, chosen: Callable[[Path], bool]) -> Iterator[Path]:
    return (p for p in sorted(folder.iterdir()) if not p.name.startswith(".") and chosen(p))


def _of_file(place: Path) -> _Found:
    def file(value: object, where: str) -> Path:
        path = place.parent / Text("the name of a file is expected")(value, where)
        if not path.exists():
            raise InvalidSetting("the file is not there", argument=where, got=str(path))
        return path

    def day(value: object, where: str) -> str:
        if type(value) is not datetime.date:
            raise InvalidSetting(
                "a day is expected",
                argument=where,
                got=shown(value),
                expected="2026-03-01, without quotes",
            )
        return value.isoformat()

    of_type: Section[dict[str, Any]] = Section(
        dict, {"model": file, "with": file, "map": file}, ("model",)
    )
    text: Reader[str] = Text("a text is expected")
    of_robot: Section[dict[str, str]] = Section(
        dict, {"type": text, "logs": text, "commissioned": day}, ("type",)
    )
    table: Section[dict[str, Any]] = Section(
        dict, {"type": named(of_type), "robot": named(of_robot)}, ("type", "robot")
    )
    read = table(read_toml(place), str(place))
    types = {
        name: RobotType(name, given["model"], given.get("with"), given.get("map"))
        for name, given in read["type"].items()
    }
    robots, logs = {}, []
    for robot, given in read["robot"].items():
        kind, pattern = given["type"], given.get("logs", f"{robot}/*")
        if kind not in types:
            raise InvalidSetting(
                "there is no such type",
                argument=f"{place}, [robot.{robot}], type",
                got=kind,
                valid=types,
                cure=did_you_mean(kind, types),
            )
        try:
            files: list[Place] = (
                [*matching(pattern)]
                if in_store(pattern)
                else [p for p in sorted(place.parent.glob(pattern)) if not p.name.startswith(".")]
            )
        except (ValueError, NotImplementedError) as problem:
            raise InvalidSetting(
                "a pattern of files is expected, from the folder of the TOML on",
                argument=f"{place}, [robot.{robot}], logs",
                got=pattern,
            ) from problem
        robots[kind, robot] = given.get("commissioned")
        logs += [_log(file, kind, robot) for file in files]
    return types, robots, logs


def _log(place: Place, kind: str, robot: str) -> Log:
    path = place if isinstance(place, Path) else place.key
    where = str(place) if isinstance(place, Path) else place
    return Log(where, kind, robot, day_in(path.name) or day_in(path.parent.name))


def day_in(name: str) -> str | None:
    """Return the day that a name states, such as `2026-03-01` of `run_20260301_1830.mcap`."""
    for parts in DATE.findall(name):
        try:
            day = datetime.date(*map(int, parts))
        except ValueError:
            continue
        if day >= FIRST_DAY:
            return sys.intern(day.isoformat())  # the same text for all logs of a day
    return None


def day_of(epoch: int | None) -> str | None:
    """Return the day (UTC) of a log's clock [ns since 1970]; None if it was not set."""
    if epoch is None:
        return None
    day = datetime.datetime.fromtimestamp(epoch / 1e9, datetime.UTC).date()
    return day.isoformat() if day >= FIRST_DAY else None
