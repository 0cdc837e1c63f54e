"""The logs of a fleet, read by many workers, kept, and summed by robot and day.

What is kept of a log is kept under the hash of its bytes, its model and its type's preparation, and
appears whole. So a run that was stopped anywhere goes on where it was, tonight's reads today's logs
alone, and the results' bytes depend on neither engine, number of workers nor what was kept already.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext, suppress
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Generic, Literal, NoReturn, TypeAlias, TypeVar, cast

import numpy as np

from heft.arrays import Array
from heft.engine import by_processes, in_order
from heft.errors import FitError, HeftError, InvalidRecording, InvalidSetting
from heft.files import OpenedFile, file_hash, json_text, put, write_text
from heft.fit import Progress, silent

from .catalog import TYPES, Catalog, Log, RobotType
from .cluster import by_cluster, connected
from .folding import Answer, Preparation, Prepared, fold, load, prepared, save, together
from .objects import SILENT, Place, Stored, at_hand

# a type, and samples of so many of its robots that its preparation is chosen from by a worker
_Sample: TypeAlias = tuple[RobotType, list[list[Place]], int]
Engine: TypeAlias = Literal["processes", "threads", "ray"]
Item = TypeVar("Item")
Made = TypeVar("Made")
KEPT, SEEN = "triangles", "seen.json"  # what a later run goes on from
SAMPLE, TRIES, PAIR = 3, 12, 2  # robots that prepare a type, of so many tried, by two logs each
WORTH = 50  # pieces of work that are worth the start of one more process
STALLED = 10  # workers' deaths in a row without anything done between them
DEADLY = 3  # deaths of workers that did nothing but one piece of work, which is then left out


@dataclass(frozen=True)
class Refused:
    """A log that was not used, and why."""

    log: str  # `TYPE/ROBOT/NAME`
    reason: str


@dataclass(frozen=True)
class FleetSettings:
    """How the work is done, and when findings are told."""

    engine: Engine = "processes"
    jobs: int = field(default_factory=lambda: os.cpu_count() or 1)  # workers
    strict: bool = False  # whether a log that cannot be used ends the run
    address: str | None = None  # of a Ray cluster that runs; None begins one of this machine

    def __post_init__(self) -> None:
        """Refuse the address of a cluster for another engine."""
        if self.address and self.engine != "ray":
            raise InvalidSetting(
                "an address is that of a Ray cluster",
                argument=f"--address {self.address}",
                cure="--engine ray",
            )

    def started(self) -> AbstractContextManager[None]:
        """Return a context in which the engine does its work."""
        return connected(self.address, self.jobs) if self.engine == "ray" else nullcontext()


@dataclass(frozen=True, slots=True)
class Task:
    """One log to be folded by a worker."""

    log: Log
    its: Prepared
    kept: Path  # folder of what is kept


@dataclass(frozen=True, slots=True)
class _Read:
    """What a worker says of a log: its hash and day, or why it cannot be used."""

    name: str
    stamps: Sequence[Any] = ()  # by which it is known again
    digest: str = ""
    day: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class RobotLogs:
    """The logs of one robot that are summed, day by day, by the hash of what is kept of each."""

    its: Prepared
    robot: str
    days: tuple[tuple[str, tuple[bytes, ...]], ...]  # ascending, and each day's hashes
    kept: Path


@dataclass(frozen=True, eq=False)
class RobotAnswer:
    """What a robot's logs tell, each day and together."""

    type: str
    robot: str
    days: tuple[str, ...]  # such as 2026-03-01, shape (n,)
    logs: tuple[int, ...]  # number of logs of each day
    seconds: float  # length of all logs together [s]
    values: Array  # of the type's quantities by day, shape (n, q)
    std: Array  # standard deviations of the values, shape (n, q)
    friction: Array  # covariance of what `Prepared.compared` names, by day, shape (n, f, f)
    misfit: Array  # rms residual of each day and channel, per the type's, shape (n, channels)
    # of each drive, mean of the day's logs that tell it, shape (n, drives) [°C]; else NaN
    temperature: Array
    whole: Answer  # of all days that were not left out


@dataclass(frozen=True)
class Shelf(Generic[Made]):
    """A list whose items are in a nameless file: of many large ones, one is in memory at a time."""

    file: IO[bytes]
    places: Sequence[int]  # where the items begin
    rest: dict[int, Any] = field(default_factory=dict)  # of the items that is no array, by place

    @staticmethod
    def on(folder: Path) -> Shelf[Made]:
        """Return an empty one, whose file is on the disk of a folder and ends with its last use."""
        return Shelf(TemporaryFile(dir=folder), ())

    def put(self, item: Made) -> int:
        """Write an item, and return where it begins."""
        place = self.file.seek(0, os.SEEK_END)

        def apart(array: Array) -> None:
            np.save(self.file, array, allow_pickle=False)

        self.rest[place] = _with_arrays(item, np.ndarray, apart)
        return place

    def __iter__(self) -> Iterator[Made]:
        """Yield the items, read anew."""
        return map(self.at, self.places)

    def at(self, place: int) -> Made:
        """Return the item that begins there."""
        self.file.seek(place)
        return cast(Made, _with_arrays(self.rest[place], type(None), lambda _: np.load(self.file)))


def _with_arrays(item: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    """Return an item, its values of a kind changed: arrays to None, or None to arrays."""
    if isinstance(item, kind):
        return change(item)
    if type(item) is tuple and not all(type(v) in (str, int) for v in item):
        return tuple(_with_arrays(v, kind, change) for v in item)
    if is_dataclass(item) and not isinstance(item, type):
        own = {f.name: _with_arrays(getattr(item, f.name), kind, change) for f in fields(item)}
        return replace(item, **own)
    return item


def folded(task: Task) -> _Read:
    """Fold one log and keep what it tells; a worker's work."""
    its, name, stamps = task.its, task.log.name, _stamps(task.log.path)
    try:
        with at_hand(task.log.path) as log:
            digest, made = fold(log, its)
        path = kept_of(task.kept, its, digest)
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
        save(new, digest, made)
        put(new, path)
    except (HeftError, OSError, MemoryError, ArithmeticError, ValueError) as problem:
        return _Read(name, reason=_reason(problem))
    return _Read(name, stamps, digest, made.day)


def deadly(task: Task) -> _Read:
    """Return what is said of a log that processes died of."""
    return _Read(task.log.name, reason=f"{DEADLY} processes died reading it")


def _place(kept: Path, key: bytes) -> Path:
    return kept / key[:1].hex() / f"{key.hex()}.npz"


def kept_of(kept: Path, its: Prepared, digest: str) -> Path:
    """Return the file of what is kept of a log by a type's model."""
    return _place(kept, its.key(digest))


def _reason(problem: BaseException) -> str:
    """Return why a log cannot be used, in one line without places of files."""
    if isinstance(problem, HeftError):
        got = "" if problem.got is None or os.sep in str(problem.got) else f" ({problem.got})"
        return f"{problem.message}{got}"
    if isinstance(problem, OSError):
        return problem.strerror or type(problem).__name__
    return f"{type(problem).__name__}: {str(problem)[:120]}"


def answer_of(logs: RobotLogs) -> RobotAnswer:
    """Return what a robot's kept logs tell; sums are in the order of the logs' hashes.

    Raises:
        InvalidRecording: If what is kept of a log is damaged.
    """
    its = logs.its
    made = {key: load(_place(logs.kept, key), its) for _, keys in logs.days for key in keys}
    days = [together([made[k] for k in sorted(keys)], its) for _, keys in logs.days]
    return RobotAnswer(
        its.kind.name,
        logs.robot,
        tuple(day for day, _ in logs.days),
        tuple(len(keys) for _, keys in logs.days),
        sum(f.seconds for f in made.values()),
        np.array([d.values for d in days]),
        np.array([d.std for d in days]),
        np.array([d.covariance[np.ix_(its.compared, its.compared)] for d in days]),
        np.array([d.misfit for d in days]),
        np.array([_mean([made[k].temperature for k in keys]) for _, keys in logs.days]),
        together([made[k] for k in sorted(made)], its),
    )


def _mean(temperatures: Sequence[Array]) -> Array:
    told = np.isfinite(temperatures)
    with np.errstate(invalid="ignore"):  # of drives that no log tells
        return np.asarray(np.where(told, temperatures, 0.0).sum(axis=0) / told.sum(axis=0))


def worked(
    work: Callable[[Item], Made],
    items: Sequence[Item],
    settings: FleetSettings,
    lost: Callable[[Item], Made] | None = None,
) -> Generator[tuple[Item, Made], None, None]:
    """Yield items with work(item), as they are done, by the engine that the settings name.

    Processes that die are replaced, and what they were at is done again: one after another by one
    process, so that it is known which of them is deadly; it begins the next process.

    Args:
        lost: What is made of an item that `DEADLY` processes died of, none of them at anything
            else; the caller survives that. If None, small work is done by the caller.

    Raises:
        FitError: If processes cannot be started; or, without `lost`, die `STALLED` times and
            nothing is done between.
    """
    if settings.engine == "threads":
        yield from in_order(lambda item: (item, work(item)), items, settings.jobs)
        return
    if settings.engine == "ray":
        yield from by_cluster(work, items, lost or _not_to_be_done, DEADLY)
        return
    remaining, deaths = dict(enumerate(items)), 0
    places = {id(item): k for k, item in remaining.items()}
    suspects: list[int] = []
    while remaining:
        chosen = suspects or list(remaining)
        jobs = 1 if suspects else min(settings.jobs, -(-len(chosen) // WORTH))
        pieces = [remaining[k] for k in chosen]
        try:
            with closing(by_processes(work, pieces, jobs, apart=lost is not None)) as made:
                for item, result in made:
                    del remaining[places[id(item)]]
                    deaths = 0
                    yield item, result
        except BrokenProcessPool as problem:
            deaths += 1
            left = [k for k in chosen if k in remaining]
            if lost is None:
                if deaths == STALLED:
                    raise _stalled(len(remaining)) from problem
            elif not suspects and len(chosen) > 1:  # what they were at comes first of what is left
                suspects, deaths = left[: 2 * jobs], 0
            elif deaths >= DEADLY:
                _require_workers(len(remaining))
                deaths = 0
                deadly = remaining.pop(left[0])
                yield deadly, lost(deadly)
        suspects = [k for k in suspects if k in remaining]


def _require_workers(left: int) -> None:
    """Raise `FitError` unless a process that has nothing to do lives."""
    try:
        list(by_processes(abs, [0], 1, apart=True))
    except BrokenProcessPool as problem:
        raise _stalled(left) from problem


def _not_to_be_done(item: object) -> NoReturn:
    raise _stalled(1)


def _stalled(left: int) -> FitError:
    return FitError(
        "workers die again and again, and nothing is done",
        got=f"{left} pieces of work left",
        cure="fewer workers take less memory: --jobs 1; a script of one's own needs "
        'a line `if __name__ == "__main__":`',
    )


@dataclass(frozen=True, eq=False)
class Read:
    """The fleet's logs, read and kept."""

    types: Mapping[str, Prepared]
    robots: tuple[RobotLogs, ...]
    refused: tuple[Refused, ...]
    digests: Mapping[Log, str]  # SHA-256 of each log that is summed
    kept: Path


def read(catalog: Catalog, out: Path, settings: FleetSettings, progress: Progress = silent) -> Read:
    """Read the logs of a fleet that are new, and keep what they tell.

    Args:
        out: Folder of the results, locked by the caller.

    Raises:
        InputError: If a type cannot be used; or, if `strict`, any of its logs.
    """
    kept = out / KEPT
    kept.mkdir(parents=True, exist_ok=True)
    for path, stored in catalog.fetched.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        with stored.fetched() as file:
            write_text(path, file.read_bytes())
    types = {
        name: prepared(kind, _preparation(catalog, kind, out, settings, progress))
        for name, kind in catalog.types.items()
        if any(log.type == name for log in catalog.logs)
    }
    seen = _seen(out)
    reads: dict[str, _Read] = {}
    tasks = []
    for log in catalog.logs:
        its, (before, digest, day) = types[log.type], json.loads(seen.get(log.name, "[0, 0, 0]"))
        if before and before == _stamps(log.path) and kept_of(kept, its, digest).exists():
            reads[log.name] = _Read(log.name, (), digest, day)
        else:
            tasks.append(Task(log, its, kept))
            seen.pop(log.name, None)
    progress(f"{len(catalog.logs)} logs, {len(reads)} of them known")
    begun = reported = time.monotonic()
    count = 0
    try:
        for made in _folded(tasks, settings):
            count, reads[made.name] = count + 1, made
            if made.reason and settings.strict:
                raise InvalidRecording(made.reason, argument=made.name)
            if not made.reason:
                seen[made.name] = json.dumps([made.stamps, made.digest, made.day])
            now = time.monotonic()
            if now - reported > 2.0:  # [s] between lines of progress
                reported, rate = now, count / (now - begun)
                left = (len(tasks) - count) / rate
                rest = f"{left:.0f} s" if left < 120.0 else f"{left / 60.0:.0f} min"
                progress(f"{count} of {len(tasks)} new logs, {rate:.1f} a second, {rest} left")
    finally:  # also of a run that is interrupted
        for remaining in kept.glob("*/.*"):  # of a worker that was killed
            remaining.unlink()
        write_text(out / SEEN, _lines(seen))
        seen.clear()
    return _sorted(catalog, types, reads, kept, settings.strict)


def _lines(seen: Mapping[str, str]) -> Iterator[str]:
    """Yield an index as JSON, a log a line."""
    for k, name in enumerate(sorted(seen)):
        yield f"{',' if k else '{'}\n{json.dumps(name)}: {seen[name]}"
    yield "\n}\n" if seen else "{}\n"


def _folded(tasks: Sequence[Task], settings: FleetSettings) -> Iterator[_Read]:
    """Yield what is said of logs, as they are read.

    After `STALLED` in a row that no store answered for, those left in stores are not asked for.
    """
    left, silent = dict.fromkeys(tasks), 0
    with closing(worked(folded, tasks, settings, deadly)) as done:
        for task, made in done:
            del left[task]
            silent = silent + 1 if (made.reason or "").startswith(SILENT) else 0
            yield made
            if silent == STALLED:
                break
    for task in left:
        if isinstance(task.log.path, Stored):
            yield _Read(task.log.name, reason=f"{SILENT}, and was asked no more")
    here = [task for task in left if isinstance(task.log.path, Path)]
    yield from (made for _, made in worked(folded, here, settings, deadly))


def _stamps(place: Place) -> list[Any]:
    if isinstance(place, Stored):
        return [list(part) for part in place.parts]
    return [list(s) if s else None for s in OpenedFile.at(place).stamps]


def _seen(out: Path) -> dict[str, str]:
    """Return what `_lines` wrote: stamps, hash and day of each log as JSON, which is compact."""
    seen, decode = dict[str, str](), json.JSONDecoder().raw_decode
    with suppress(OSError, ValueError), (out / SEEN).open(encoding="utf-8") as file:
        for line in file:
            if line.endswith(("]\n", "],\n")):  # else logs are hashed anew
                name, end = decode(line)
                seen[name] = line[end + 2 :].rstrip(",\n")
    return seen


def _chosen(task: _Sample) -> Preparation | HeftError | None:
    with ExitStack() as files:
        try:
            return Preparation.of(*task, lambda log: files.enter_context(at_hand(log)))
        except HeftError as problem:
            return problem


def _no_choice(task: _Sample) -> None:
    return None


def _preparation(
    catalog: Catalog, kind: RobotType, out: Path, settings: FleetSettings, progress: Progress
) -> Preparation:
    """Return the preparation of a type: chosen once, and anew if its files change."""
    path = out / TYPES / f"{kind.name}.json"
    files = [file_hash(f) if f else None for f in (kind.model, kind.options, kind.columns)]
    if path.exists():
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            if stored["files"] == files:
                return Preparation.from_dict(stored["preparation"])
        except (OSError, ValueError, KeyError, TypeError, InvalidSetting):
            progress(f"{path.name} is damaged, and chosen anew")
    progress(f"choosing cutoff and delay for {kind.name}")
    robots: dict[str, list[Log]] = {}
    for log in catalog.logs:
        if log.type == kind.name:
            robots.setdefault(log.robot, []).append(log)
    ordered = [sorted(logs, key=lambda k: (k.day or "unknown", k.name)) for logs in robots.values()]
    longest = max(map(len, ordered))
    pairs = [
        [log.path for log in logs[k : k + PAIR]]
        for k in range(0, longest, PAIR)
        for logs in ordered
        if k < len(logs)
    ]
    pairs = pairs[:TRIES]
    [(_, made)] = worked(_chosen, [(kind, pairs, SAMPLE)], settings, _no_choice)
    if made is None:  # a log is deadly: those of robots that are not so by themselves are used
        ones = [(kind, [pair], 1) for pair in pairs]
        alive = [pair for (_, [pair], _), own in worked(_chosen, ones, settings, _no_choice) if own]
        [(_, made)] = worked(_chosen, [(kind, alive, SAMPLE)], settings, _no_choice)
    assert made is not None
    if isinstance(made, HeftError):
        raise made
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json_text({"files": files, "preparation": asdict(made)}))
    return made


def _sorted(
    catalog: Catalog,
    types: Mapping[str, Prepared],
    reads: dict[str, _Read],
    kept: Path,
    strict: bool,
) -> Read:
    """Return which logs are summed for which robot and day, and which are not."""
    refused: list[Refused] = []
    days: dict[tuple[str, str], dict[str, list[bytes]]] = {}
    owner: dict[bytes, Log] = {}
    digests: dict[Log, str] = {}
    for log in catalog.logs:
        made = reads.pop(log.name)
        day, reason = log.day or made.day, made.reason
        key = b"" if reason else types[log.type].key(made.digest)
        if not reason and key in owner:
            reason = f"the same log as {owner[key].name}"
        elif not reason and day is None:
            reason = "its day is told by neither its name nor its clock"
        if reason:
            refused.append(Refused(log.name, reason))
            continue
        assert day is not None
        owner[key], digests[log] = log, made.digest
        days.setdefault((log.type, log.robot), {}).setdefault(day, []).append(key)
    if strict and refused:
        raise InvalidRecording(refused[0].reason, argument=refused[0].log)
    robots = tuple(
        RobotLogs(
            types[kind],
            robot,
            tuple((day, tuple(sorted(keys))) for day, keys in sorted(of_days.items())),
            kept,
        )
        for (kind, robot), of_days in sorted(days.items())
    )
    return Read(types, robots, tuple(refused), digests, kept)
