"""Whether results stay whole through kills, full disks and failing disks.

python -m benchmarks.interruptions --kills 1000 --store

A small identification is started again and again and killed (SIGKILL) at a random moment, with
and without earlier results in its place. Whatever stands there afterwards must be the earlier
results, the new ones, or nothing where nothing was; and the next run must leave the same bytes
as one that was never disturbed, and nothing else. The same is asked after writes and flushes
that fail, and on a disk that is full (a small tmpfs, where the user may mount one).
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_least, at_most
from heft.applications.identification import report
from heft.applications.identification.identification import Identification
from heft.applications.identification.inputs import identify
from heft.applications.identification.results import write
from heft.fit.settings import Settings
from heft.signals.settings import Smoothing

MODEL = """<robot name="pendulum"> <link name="base"/>
  <link name="bob"> <inertial> <origin xyz="0 0 -0.2"/> <mass value="1.5"/>
    <inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.02"/> </inertial> </link>
  <joint name="elbow" type="continuous">
    <parent link="base"/> <child link="bob"/> <axis xyz="0 1 0"/> </joint> </robot>"""
EARLIER, NEW = Smoothing(trim=0.6), Smoothing()  # settings whose results differ
POINTS = 40  # failing writes of each kind, at most about
Contents = dict[str, bytes]


def contents(folder: Path) -> Contents:
    """Return what a folder holds, nothing if it is not there."""
    return {p.name: p.read_bytes() for p in folder.iterdir()} if folder.exists() else {}


@dataclass(frozen=True)
class Work:
    """A small identification, and what it leaves when nobody disturbs it.

    Attributes:
        inputs: Folder of the model and the log.
        found: What the two settings find.
        earlier: Results that may stand in the place before.
        whole: Results that shall stand there.
        seconds: How long it takes, to the end of writing.
    """

    inputs: Path
    found: dict[Smoothing, Identification]
    earlier: Contents
    whole: Contents
    seconds: float

    def place(self, out: Path, earlier: bool) -> Contents:
        """Put earlier results in a place, or empty it; return what it holds then."""
        shutil.rmtree(out, ignore_errors=True)
        for name, data in self.earlier.items() if earlier else ():
            out.mkdir(exist_ok=True)
            (out / name).write_bytes(data)
        return self.earlier if earlier else {}


def identified(inputs: Path, smoothing: Smoothing) -> Identification:
    """Identify the pendulum."""
    return identify(
        inputs / "pendulum.urdf",
        [inputs / "log.csv"],
        settings=Settings(smoothing, threads=1),
    )


def prepared(folder: Path) -> Work:
    """Make the inputs of the identification and run it undisturbed."""
    inputs = folder / "inputs"
    inputs.mkdir()
    (inputs / "pendulum.urdf").write_text(MODEL)
    t = np.arange(0.0, 4.0, 0.005)
    w, phase = np.array([2.1, 5.3]), np.array([0.0, 1.0])
    size, angle = np.array([0.9, 0.4]), np.outer(t, w) + phase
    q, v, a = np.sin(angle) @ size, np.cos(angle) @ (size * w), -np.sin(angle) @ (size * w**2)
    noise = 0.01 * np.random.default_rng(1).standard_normal(len(t))
    tau = 0.3 * a + 4.9 * np.sin(q) + 0.2 * v + 0.1 * np.sign(v) + noise
    lines = [",".join(map(repr, row)) for row in np.column_stack([t, q, tau]).tolist()]
    (inputs / "log.csv").write_text("\n".join(["t,q.elbow,tau.elbow", *lines]) + "\n")
    left: dict[Smoothing, Contents] = {}
    found: dict[Smoothing, Identification] = {}
    start = 0.0
    for smoothing in (EARLIER, NEW):
        start = time.perf_counter()
        found[smoothing] = identified(inputs, smoothing)
        write(found[smoothing], folder / "undisturbed", report.html)
        left[smoothing] = contents(folder / "undisturbed")
    seconds = time.perf_counter() - start
    shutil.rmtree(folder / "undisturbed")
    return Work(inputs, found, left[EARLIER], left[NEW], seconds)


def started(work: Work, out: Path) -> int:
    """Start the identification in a process of its own, all modules loaded; return its id."""
    process = os.fork()
    if process == 0:
        status = 1
        with contextlib.suppress(BaseException):
            write(identified(work.inputs, NEW), out, report.html)
            status = 0
        os._exit(status)
    return process


@dataclass
class Tally:
    """What was seen after disturbances."""

    runs: int = 0
    half: int = 0
    differ: int = 0
    stray: int = 0
    seen: Counter[str] = field(default_factory=Counter)

    def look(self, work: Work, out: Path, before: Contents, again: Callable[[], object]) -> None:
        """Look at a place after a disturbance, and after the work was done once more."""
        self.runs += 1
        now = contents(out)
        self.half += now not in (before, work.whole)
        hidden = len(list(out.parent.iterdir())) > out.exists()
        state = "new results" if now == work.whole else "as before"
        self.seen[state + (", a hidden folder beside them" if hidden else "")] += 1
        again()
        self.differ += contents(out) != work.whole
        self.stray += [p.name for p in out.parent.iterdir()] != [out.name]

    def rows(self, name: str, wanted: int) -> Iterator[Row]:
        """Yield what was seen as rows of a benchmark."""
        yield at_least(f"{name}: runs", self.runs, "", wanted)
        yield at_most(f"{name}: places with half of the results", self.half, "", 0)
        yield at_most(f"{name}: runs afterwards whose bytes differ", self.differ, "", 0)
        yield at_most(f"{name}: hidden folders left after those", self.stray, "", 0)
        for state, count in sorted(self.seen.items()):
            yield Row(f"{name}: {state}", count, "")


def kills(work: Work, folder: Path, count: int, seed: int = 0) -> Tally:
    """Kill the identification at random moments."""
    rng, tally = np.random.default_rng(seed), Tally()
    out = folder / "kills" / "found"
    out.parent.mkdir()

    def again() -> None:
        os.waitpid(started(work, out), 0)

    for k in range(count):
        before = work.place(out, earlier=bool(k % 2))
        process = started(work, out)
        time.sleep(rng.uniform(0.0, work.seconds))
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        tally.look(work, out, before, again)
    return tally


class Counted(io.FileIO):
    """A file that fails at one write of all."""

    done, fails_at, error = 0, -1, errno.EIO

    def write(self, data: Any) -> int:
        """Write, or fail when it is the turn."""
        Counted.done += 1
        if Counted.done - 1 == Counted.fails_at:
            raise OSError(Counted.error, os.strerror(Counted.error))
        return super().write(data)


@contextlib.contextmanager
def failing(at: int, error: int) -> Iterator[None]:
    """Let one write to a file, or one flush behind all writes, fail.

    Args:
        at: Which write, counted from 0; negative numbers count flushes from -1.
        error: `errno.EIO` or `errno.ENOSPC`.
    """
    opens, flushes, flush = io.open, 0, os.fsync
    Counted.done, Counted.fails_at, Counted.error = 0, at, error

    def opened(file: Any, mode: str = "r", buffering: int = -1, *text: Any, **more: Any) -> Any:
        if "w" not in mode:
            return opens(file, mode, buffering, *text, **more)
        buffered = io.BufferedWriter(Counted(file, "w"))
        return buffered if "b" in mode else io.TextIOWrapper(buffered, *text, **more)

    def flushed(handle: int) -> None:
        nonlocal flushes
        flushes += 1
        if flushes == -at:
            raise OSError(error, os.strerror(error))
        flush(handle)

    io.open, os.fsync = opened, flushed
    try:
        yield
    finally:
        io.open, os.fsync = opens, flush


def failures(work: Work, folder: Path, most: int, page: Any = report.html) -> Tally:
    """Let writes and flushes fail, one a run, at most so many of each kind of error."""
    tally = Tally()
    out = folder / "failures" / "found"
    out.parent.mkdir()
    new = work.found[NEW]
    with failing(10**9, errno.EIO):
        write(new, out, page)
    points = [*range(Counted.done), *range(-len(contents(out)), 0)]
    for error in (errno.EIO, errno.ENOSPC):
        for k, at in enumerate(points[:: max(1, len(points) // most)]):
            before = work.place(out, earlier=bool(k % 2))
            with contextlib.suppress(OSError), failing(at, error):
                write(new, out, page)
                raise AssertionError(f"write {at} did not fail")
            tally.look(work, out, before, lambda: write(new, out, page))
    return tally


def full_disks(work: Work, folder: Path, count: int) -> Tally | None:
    """Write to a disk with too little room; None where no tmpfs can be mounted."""
    tally = Tally()
    place = folder / "disk"
    place.mkdir()
    out = place / "found"
    size = sum(map(len, work.whole.values()))
    for k in range(count):
        room = size * (k % 2) + 4096 * (8 + 8 * (k % 2)) + size * k // (count + 1)
        call = ["mount", "-t", "tmpfs", "-o", f"size={room}", "tmpfs", str(place)]
        if subprocess.run(call, capture_output=True, check=False).returncode:
            return None
        try:
            before = work.place(out, earlier=bool(k % 2))
            process = started(work, out)
            tally.seen["refused"] += os.waitpid(process, 0)[1] != 0
            more = ["mount", "-o", f"remount,size={4 * size + (1 << 20)}", str(place)]
            subprocess.run(more, check=True)
            tally.look(work, out, before, lambda: os.waitpid(started(work, out), 0))
        finally:
            subprocess.run(["umount", str(place)], check=True)
    return tally


def measure(count: int, points: int) -> list[Row]:
    """Return the rows of the benchmark.

    Args:
        count: How many kills.
        points: How many failing writes of each kind, at most about.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        work = prepared(folder)
        rows = [*kills(work, folder, count).rows("SIGKILL", count)]
        rows += failures(work, folder, points).rows("a write or flush that fails", points)
        full = full_disks(work, folder, points)
        if full is not None:
            rows += full.rows("a full disk", points)
        return rows


@benchmark({"kills": 2, "POINTS": 2})
def main(*, kills: int = 100) -> Iterator[Row]:
    """Yield the rows.

    Args:
        kills: How many.
    """
    yield from measure(kills, POINTS)


if __name__ == "__main__":
    main()
