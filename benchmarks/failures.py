"""Whether a command stands failures of what it stands on: writes, reads, memory, clocks.

python -m benchmarks.failures --runs 1000 --store

A command is run again and again, each time with one call failing that it makes: the k-th write
(no space left, an error of the disk), opened file (no handles), read, array (no memory), or look
at a clock, which steps back by an hour. The failure comes once, or from then on. Whatever it is:
no traceback, no half file, and either the result is there or a refusal says why. SQLite is tested
like this (sqlite.org/testing.html, sections 3.1 to 3.3).
"""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.signal  # noqa: F401 (all that commands load is loaded before they are run)

import heft.applications.free_flyer
import heft.applications.payload  # noqa: F401
from benchmarks.interruptions import prepared
from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_least, at_most
from heft import cli
from heft.models import load_of, shipped_free_flyer
from heft.recordings import write_table

ARRAYS = ("array", "zeros", "ones", "empty", "full", "concatenate", "stack", "arange", "eye")
CLOCKS = ("monotonic", "time", "time_ns", "perf_counter")
BACK = 3600.0  # [s]
BODIES = Path(cli.__file__).parents[1] / "models" / "bodies"
ERRORS = {
    "write": (errno.ENOSPC, errno.EIO),
    "open": (errno.EMFILE, errno.EIO),
    "read": (errno.EIO,),
    "memory": (errno.ENOMEM,),
    "clock": (0,),
}
TRACEBACK = 99  # exit code of a command that ends in one
PATIENCE = 60.0  # [s], after which a command hangs


@dataclass
class Shim:
    """Calls that may fail, counted by kind; one of them fails.

    Attributes:
        kind: Of the call that fails.
        at: Which of its kind, counted from 0; -1 for none.
        error: Number of the error, for those that have one.
        lasting: Whether all later calls of its kind fail too.
        made: How many calls of each kind were made.
    """

    kind: str = ""
    at: int = -1
    error: int = 0
    lasting: bool = False
    made: Counter[str] = field(default_factory=Counter)

    def call(self, kind: str) -> bool:
        """Count a call; return whether it is to fail."""
        k = self.made[kind]
        self.made[kind] += 1
        return (
            kind == self.kind and self.at >= 0 and (k >= self.at if self.lasting else k == self.at)
        )

    def must(self, kind: str) -> None:
        """Count a call; raise where it is to fail."""
        if self.call(kind):
            if kind == "memory":
                raise MemoryError
            raise OSError(self.error, os.strerror(self.error))


@contextmanager
def failing(shim: Shim) -> Iterator[None]:
    """Let one call fail, as a shim says, until the end.

    Args:
        shim: Which.
    """
    before: list[tuple[Any, str, Any]] = []

    def put(where: Any, name: str, made: Any) -> None:
        before.append((where, name, getattr(where, name)))
        setattr(where, name, made)

    def before_it(kind: str, whole: Callable[..., Any]) -> Callable[..., Any]:
        def made(*given: Any, **more: Any) -> Any:
            shim.must(kind)
            return whole(*given, **more)

        return made

    def clock(whole: Callable[[], Any]) -> Callable[[], Any]:
        back = 0.0

        def made() -> Any:
            nonlocal back
            if shim.call("clock"):
                back += BACK
            now = whole()
            return now - round(back * 1e9) if isinstance(now, int) else now - back

        return made

    try:
        put(io, "open", _opened(shim))
        for name in ("fsync", "rename", "mkdir", "write"):
            put(os, name, before_it("write", getattr(os, name)))
        put(os, "open", before_it("open", os.open))
        for name in ARRAYS:
            put(np, name, before_it("memory", getattr(np, name)))
        for name in CLOCKS:
            put(time, name, clock(getattr(time, name)))
        yield
    finally:
        for where, name, whole in reversed(before):
            setattr(where, name, whole)


def _opened(shim: Shim) -> Callable[..., Any]:
    """Return `open` whose files fail as a shim says."""
    whole = io.open

    def made(file: Any, mode: str = "r", buffering: int = -1, *text: Any, **more: Any) -> Any:
        if isinstance(file, int):
            return whole(file, mode, buffering, *text, **more)
        shim.must("open")
        raw = Counted(shim, os.fspath(file), "".join(c for c in mode if c not in "bt"))
        buffered: Any = raw
        if buffering != 0:
            buffered = io.BufferedWriter(raw) if raw.writable() else io.BufferedReader(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, *text, **more)

    return made


class Counted(io.FileIO):
    """A file whose reads and writes may fail."""

    def __init__(self, shim: Shim, file: Any, mode: str, closefd: bool = True) -> None:
        super().__init__(file, mode, closefd)
        self._shim = shim

    def write(self, data: Any) -> int:
        """Write, or fail."""
        self._shim.must("write")
        return super().write(data)

    def readinto(self, buffer: Any) -> int | None:
        """Read, or fail."""
        self._shim.must("read")
        return super().readinto(buffer)

    def readall(self) -> bytes:
        """Read all, or fail."""
        self._shim.must("read")
        return super().readall()


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes:
        code: Its exit code; None where it hung.
        said: What it wrote to the standard output.
        told: What it wrote to the standard error.
        made: How many calls of each kind it made.
    """

    code: int | None
    said: str
    told: str
    made: dict[str, int]


def run(folder: Path, words: list[str], shim: Shim) -> Ended:
    """Run a command in a process of its own, all modules loaded.

    Args:
        folder: Where.
        words: Of the command, behind `heft`.
        shim: What fails in it.
    """
    said, told, counts = (folder / f".{name}" for name in ("said", "told", "counts"))
    process = os.fork()
    if process == 0:
        os._exit(_child(folder, words, shim, said, told, counts))
    end = time.monotonic() + PATIENCE
    while not (waited := os.waitpid(process, os.WNOHANG))[0]:
        if time.monotonic() > end:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            break
        time.sleep(0.01)
    code = os.waitstatus_to_exitcode(waited[1]) if waited[0] else None
    made = json.loads(counts.read_text()) if counts.exists() else {}
    ended = Ended(code, said.read_text(), told.read_text(), made)
    for path in (said, told, counts):
        path.unlink(missing_ok=True)
    return ended


def _child(folder: Path, words: list[str], shim: Shim, said: Path, told: Path, counts: Path) -> int:
    os.chdir(folder)
    for number, path in ((1, said), (2, told)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    raw = Counted(shim, 1, "w", closefd=False)
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8")
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.argv = ["heft", *words]
    code = 0
    try:
        with failing(shim):
            cli.main()
    except SystemExit as ending:
        code = int(ending.code or 0)
    except BaseException:
        with suppress(BaseException):
            traceback.print_exc()
        code = TRACEBACK
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    sys.stderr.flush()
    counts.write_text(json.dumps(shim.made))
    return code


@dataclass(frozen=True)
class Command:
    """A command whose results are a folder `out`.

    Attributes:
        name: As it is told.
        words: Behind `heft`.
        files: Names of its results.
        answer: What its standard output holds.
    """

    name: str
    words: list[str]
    files: frozenset[str]
    answer: str


def breaches(command: Command, folder: Path, before: set[str], ended: Ended) -> list[str]:
    """Return which laws a run broke.

    Args:
        command: What was run.
        folder: Where.
        before: Names that the folder held before.
        ended: How it ended.
    """
    found = []
    if ended.code is None:
        found.append("hangs")
    elif ended.code == TRACEBACK or ended.code < 0 or "Traceback" in ended.told:
        found.append("tracebacks")
    out = folder / "out"
    held = {p.name for p in out.iterdir()} if out.exists() else set()
    if held and not (held == command.files and _whole(out)):
        found.append("half results")
    names = {p.name for p in folder.iterdir() if ".heft-" not in p.name}
    if names - before - {"out", "kept"}:
        found.append("files left")
    if (folder / "kept").exists() and not _kept(folder / "kept"):
        found.append("half checkpoints")
    if ended.code == 0 and not (held or command.answer in ended.said):
        found.append("neither result nor refusal")
    if ended.code not in (0, None) and "heft: " not in ended.told:
        found.append("refusals that say nothing")
    return found


def _whole(out: Path) -> bool:
    try:
        for path in out.glob("*.json"):
            json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return False
    return all(path.stat().st_size for path in out.iterdir())


def _kept(path: Path) -> bool:
    import hashlib

    digest, _, text = path.read_text().partition("\n")
    return hashlib.sha256(text.removesuffix("\n").encode()).hexdigest() == digest


def cleared(folder: Path) -> set[str]:
    """Remove what a run left; return what is there before the next."""
    import shutil

    shutil.rmtree(folder / "out", ignore_errors=True)
    (folder / "kept").unlink(missing_ok=True)
    for path in folder.glob(".*.heft-*"):
        shutil.rmtree(path, ignore_errors=True)
    return {p.name for p in folder.iterdir()}


@dataclass
class Tally:
    """What was seen in runs with failures."""

    runs: int = 0
    broken: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def rows(self, name: str, wanted: int) -> Iterator[Row]:
        """Yield what was seen as rows of a benchmark."""
        yield at_least(f"{name}: runs with a failure", self.runs, "", wanted)
        for law in LAWS:
            yield at_most(f"{name}: {law}", self.broken[law], "", 0)
        for code, count in sorted(self.codes.items()):
            yield Row(f"{name}: {code}", count, "")


LAWS = (
    "hangs",
    "tracebacks",
    "half results",
    "half checkpoints",
    "files left",
    "neither result nor refusal",
    "refusals that say nothing",
)


def disturbed(command: Command, folder: Path, count: int, seed: int = 0) -> Tally:
    """Run a command with failures, each at another call, kind by kind.

    Args:
        command: What is run.
        folder: Where, with its inputs.
        count: How many runs.
        seed: Of the choice of calls.
    """
    rng, tally = np.random.default_rng(seed), Tally()
    hidden: list[str] = []
    before = cleared(folder)
    undisturbed = run(folder, command.words, Shim())
    assert undisturbed.code == 0 and command.answer in undisturbed.said, undisturbed.told
    assert breaches(command, folder, before, undisturbed) == []
    kinds = [kind for kind in ERRORS if undisturbed.made.get(kind)]
    for k in range(count):
        kind = kinds[k % len(kinds)]
        at = int(rng.integers(undisturbed.made[kind]))
        error = ERRORS[kind][int(rng.integers(len(ERRORS[kind])))]
        shim = Shim(kind, at, error, lasting=bool(rng.integers(2)))
        before = cleared(folder)
        ended = run(folder, command.words, shim)
        tally.runs += 1
        tally.codes[f"{kind}, ended with {ended.code}"] += 1
        for law in breaches(command, folder, before, ended):
            tally.broken[law] += 1
            tally.examples.append(f"{law}: {shim}\n{ended.told[-1500:]}")
        hidden += [p.name for p in folder.iterdir() if ".heft-" in p.name][:1]
    for name in hidden:  # what the end of a process without handles may leave
        (folder / name).mkdir(exist_ok=True)
    run(folder, command.words, Shim())
    tally.broken["files left"] += any(".heft-" in p.name for p in folder.iterdir())
    tally.codes["hidden folders, until the next run"] = len(hidden)
    cleared(folder)
    return tally


def _identify(folder: Path) -> Command:
    prepared(folder)
    (folder / "inputs" / "pendulum.urdf").rename(folder / "pendulum.urdf")
    (folder / "inputs" / "log.csv").rename(folder / "log.csv")
    (folder / "inputs").rmdir()
    words = ["identify", "pendulum.urdf", "log.csv", "--out", "out", "--threads", "1"]
    files = frozenset({"robot.urdf", "estimate.json", "information.npz", "report.html"})
    files |= {"friction.c", "friction.py"}
    return Command("identify", words, files, "kg·m²")


def _live(folder: Path) -> Command:
    from tests.test_running import setup

    setup(folder, 1200)
    words = ["payload", "--live", "--sensor", "wrist.toml", "--replay", "grasp.npz"]
    words += ["--speed", "inf", "--out", "out", "--checkpoint", "kept", "--serve"]
    return Command(
        "live", words, frozenset({"estimate.json", "payload.txt", "report.html"}), "set_target"
    )


def _freeflyer(folder: Path) -> Command:
    from tests.free_flights import fly

    flyer = shipped_free_flyer("space_cobot")
    flown = fly(flyer, flyer.with_load(load_of("1.2kg@0.20,0.06,-0.10")), 0, periods=2)
    write_table(flown.recording.canonical(), folder / "log.csv")
    (folder / "body.toml").write_bytes((BODIES / "space_cobot.toml").read_bytes())
    words = ["freeflyer", "identify", "body.toml", "log.csv", "--out", "out"]
    return Command(
        "freeflyer", words, frozenset({"free-flyer.json", "report.html"}), "What it grasped"
    )


def _flight(folder: Path) -> Command:
    (folder / "body.toml").write_bytes((BODIES / "quadrotor.toml").read_bytes())
    (folder / "bounds.toml").write_text("[motion]\nperiod = 4.0\nharmonics = 2\n")
    words = ["freeflyer", "design", "body.toml", "--bounds", "bounds.toml", "--starts", "1"]
    files = {"motion.csv", "motion.mcap", "px4.mcap", "astrobee.mcap"}
    return Command(
        "flight", [*words, "--out", "out"], frozenset({*files, "series.json", "design.json"}),
        "Log-determinant",
    )  # fmt: skip


# Each writes its inputs to a folder and returns the command.
COMMANDS: dict[str, Callable[[Path], Command]] = {
    "live": _live,
    "identify": _identify,
    "freeflyer": _freeflyer,
    "flight": _flight,
}


def measure(name: str, count: int, seed: int = 0) -> list[Row]:
    """Return the rows of one command.

    Args:
        name: Of the command, in `COMMANDS`.
        count: How many runs.
        seed: Of the choice of calls.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        command = COMMANDS[name](folder)
        _load(command, folder)
        tally = disturbed(command, folder, count, seed)
    for example in tally.examples[:20]:
        sys.stderr.write(example + "\n")
    return list(tally.rows(name, count))


def _load(command: Command, folder: Path) -> None:
    """Run a command here, so that its modules are loaded and its kernels compiled."""
    before = sys.argv, Path.cwd(), sys.stdout
    sys.argv, sys.stdout = ["heft", *command.words], io.StringIO()
    os.chdir(folder)
    try:
        with suppress(SystemExit):
            cli.main()
    finally:
        sys.argv, sys.stdout = before[0], before[2]
        os.chdir(before[1])


def told(name: str, count: int, seed: int) -> None:
    """Print the rows of one command, as JSON."""
    print(json.dumps([asdict(row) for row in measure(name, count, seed)]))


def apart(name: str, count: int, seed: int = 0) -> list[Row]:
    """Return the rows of one command, measured in a process that has run no other.

    Args:
        name: Of the command, in `COMMANDS`.
        count: How many runs.
        seed: Of the choice of calls.
    """
    call = [
        sys.executable,
        "-c",
        f"from {__spec__.name} import told; told({name!r}, {count}, {seed})",
    ]
    done = subprocess.run(call, stdout=subprocess.PIPE, text=True, check=True)
    return [Row(**row) for row in json.loads(done.stdout.splitlines()[-1])]


@benchmark({"runs": 3, "COMMANDS": {"identify": _identify}})
def main(*, runs: int = 100, seed: int = 0) -> Iterator[Row]:
    """Yield the rows of all commands.

    Args:
        runs: Of all of them.
        seed: Of the choice of calls.
    """
    for name in COMMANDS:
        yield from apart(name, runs // len(COMMANDS), seed)


if __name__ == "__main__":
    main()
