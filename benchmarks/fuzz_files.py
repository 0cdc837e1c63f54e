"""Whether files made to harm end in a result or a named error, soon and in little memory.

python -m benchmarks.fuzz_files --minutes 3.5 --store

Files are made at random by `fuzz.generators`, which know the formats; each is read whole as a log,
and again as one to be salvaged, or as a model. A process of its own reads them, one after another:
it may raise nothing but errors of heft, take no more than a second of the processor's time a
file, grow by no more than 200 MB, and not die. What breaks that is printed with its seed:

python -m benchmarks.fuzz_files --format mcap --seed 1234
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Timer
from typing import Any

from fuzz.generators import GENERATORS, Dice

from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_least, at_most
from heft.errors import HeftError
from heft.models.robot import Robot
from heft.recordings.recording import Recording

LONGEST, LARGEST = 1.0, 200.0  # [s] of the processor, [MB]
STUCK = 120.0  # [s] until a process that says nothing is ended
CASES = 5000  # of a process
BOUND = 8 << 30  # [bytes] of address space, so that a mistake does not take the machine


def read(path: Path) -> None:
    """Read all of a file: as it is, and to salvage it."""
    if path.suffix == ".urdf":
        Robot.from_urdf(path)
        return
    opened = Recording.open(path)
    for _ in opened.table.read(opened.table.columns):
        pass


def salvage(path: Path) -> None:
    """Read what can be read of a log."""
    opened = Recording.open(path, damaged=lambda problem: None)
    for _ in opened.table.read(opened.table.columns):
        pass


def memory(what: str) -> float:
    """Return a figure of this process's memory [MB]."""
    text = Path("/proc/self/status").read_text()
    return float(text.partition(f"{what}:")[2].split()[0]) / 1024.0


def measured(
    name: str, seed: int, lies: float | None = None, made: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """Return what one file does to its readers; `lies` is the share of its parts that are odd.

    `made` is called once there is the file.
    """
    found: dict[str, Any] = {"seed": seed, "accepted": False, "failed": None}
    found |= {"seconds": 0.0, "growth": 0.0}
    with tempfile.TemporaryDirectory(prefix="heft-fuzz-") as folder:
        path = GENERATORS[name](Dice(seed, lies), Path(folder))
        made()
        for use in (read,) if name == "urdf" else (read, salvage):
            Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
            before, start = memory("VmRSS"), time.process_time()
            try:
                use(path)
                found["accepted"] |= use is read
            except HeftError as problem:
                problem.explain()
            except BaseException:
                found["failed"] = traceback.format_exc()[-1500:]
            found["seconds"] = max(found["seconds"], time.process_time() - start)
            found["growth"] = max(found["growth"], memory("VmHWM") - before)
    return found


def work(name: str, first: int, count: int) -> None:
    """Read files one after another, and tell of each before and after."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (BOUND, BOUND))
    measured(name, 0, 0.0)  # imports and first uses are no file's fault
    for seed in range(first, first + count):
        begun = partial(print, json.dumps({"begun": seed}), flush=True)
        print(json.dumps(measured(name, seed, made=begun)), flush=True)


@contextmanager
def process(name: str, first: int, count: int) -> Iterator[subprocess.Popen[str]]:
    """Yield a process that reads files, and end it in any case."""
    program = f"from benchmarks.fuzz_files import work; work({name!r}, {first}, {count})"
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


@dataclass
class Tally:
    """What the files of a format did.

    Attributes:
        cases: Files read.
        accepted: Files that were read without an error.
        worst: Longest time [s] and largest growth [MB].
        broken: What broke a rule.
    """

    cases: int = 0
    accepted: int = 0
    worst: dict[str, float] = field(default_factory=lambda: {"seconds": 0.0, "growth": 0.0})
    broken: list[str] = field(default_factory=list)

    def add(self, name: str, case: dict[str, Any]) -> None:
        """Count one file."""
        self.cases += 1
        self.accepted += case["accepted"]
        for key in self.worst:
            self.worst[key] = max(self.worst[key], case[key])
        over = case["seconds"] > LONGEST or case["growth"] > LARGEST
        if case["failed"] or over:
            what = case["failed"] or f"{case['seconds']:.2f} s, {case['growth']:.0f} MB"
            self.broken.append(f"--format {name} --seed {case['seed']}: {what}")

    def run(self, name: str, first: int, seconds: float) -> tuple[int, float]:
        """Read some files in a process of their own.

        Returns:
            The first seed and the time [s] that are left; the process's start is not counted.
        """
        begun, until = first, math.inf
        with process(name, first, CASES) as running:
            assert running.stdout is not None
            guard = Timer(10.0 * STUCK, running.kill)  # the start is no file's
            guard.start()
            for line in running.stdout:
                guard.cancel()
                case = json.loads(line)
                begun = case.get("begun", begun)
                until = min(until, time.monotonic() + seconds)
                if "begun" not in case:
                    self.add(name, case)
                    if case["seed"] == first + CASES - 1 or time.monotonic() > until:
                        return begun + 1, until - time.monotonic()
                # How long a file takes its maker is no fault of the reader's.
                guard = Timer(STUCK if "begun" in case else 10.0 * STUCK, running.kill)
                guard.start()
            guard.cancel()
            self.cases += 1
            self.broken.append(f"--format {name} --seed {begun}: died or hung ({running.wait()})")
            return begun + 1, min(until - time.monotonic(), seconds)


def rows(minutes: float, formats: Sequence[str], seed: int) -> Iterator[Row]:
    """Yield the figures of all formats."""
    for name in formats:
        tally, first, left = Tally(), seed, 60.0 * minutes / len(formats)
        while left > 0.0:
            first, left = tally.run(name, first, left)
        for line in tally.broken:
            print(line, flush=True)
        yield at_least(f"{name}: files", tally.cases, "files", 100)
        yield at_least(f"{name}: accepted", tally.accepted, "files", 1)
        yield at_most(f"{name}: rules broken", len(tally.broken), "files", 0)
        yield at_most(f"{name}: longest", tally.worst["seconds"], "s", LONGEST)
        yield at_most(f"{name}: largest growth", tally.worst["growth"], "MB", LARGEST)


@benchmark({"minutes": 0.001, "format": ("urdf", "mcap")}, unstored=("format", "seed"))
def main(
    *,
    minutes: float = 3.5,
    format: tuple[str, ...] = tuple(GENERATORS),
    first: int = 1_000_000,
    seed: int | None = None,
) -> Iterator[Row]:
    """Yield the rows; of a seed say what its files do.

    Args:
        minutes: For all formats.
        format: Some of the formats.
        first: The first seed.
        seed: Of one file of each format, nothing else.
    """
    if seed is not None:
        print(json.dumps([measured(name, seed) for name in format], indent=1))
        return
    yield from rows(minutes, format, first)


if __name__ == "__main__":
    main()
