"""Which small changes of the code the tests notice.

    python -m benchmarks.mutations --reach        # first of all which tests reach which line
    python -m benchmarks.mutations [--count 300] [--seed 0] [--again] [--store]

Mutants are drawn by a seed, as many of a room as it has places to change, from lines that a test
reaches. Each is tried in a copy of the project against the tests that reach its line, those of the
files that reach least first, until one fails. `--again` tries what survived against tests that are
newer than `--reach`, against more of the others, and against those of the command line. No tracer
sees the lines of compiled kernels, nor those of processes that tests start: a kernel's mutants are
tried against the tests that reach its callers.

What survives is either a hole in the tests or equivalent: the same program by other means. Those
that are argued to be equivalent stand in `mutations_equivalent.toml`, each with its reason.

Every mutant is one line in `benchmarks/.cache/mutations/results.jsonl`, and is not tried twice.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import queue
import shutil
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from benchmarks.mutants import Mutant, is_code, mutants
from benchmarks.program import benchmark, cache_path
from benchmarks.results_file import Row, at_least, at_most
from benchmarks.sources import ROOT, git
from heft import compiled

SOURCE = Path("src/heft")
WORKERS = 2  # processes that run them
TESTS = ("tests",)  # by which it is found which reach which line
FILES = "*.py"  # names of files that mutants are of
RESULTS = "results.jsonl"
EQUIVALENT = ROOT / "benchmarks" / "mutations_equivalent.toml"
CORE = ("information", "dynamics", "plants", "estimators", "certainty")
CLOSE = 6  # files of tests that are tried before others
COMMANDS = ("tests/test_cli.py",)  # tests in processes of their own
MOST_SECONDS = 20.0  # of tests for one mutant, as long as they take without it
MORE_SECONDS = 120.0  # for one that survived
UNKNOWN = 10.0  # taken for a test that is newer than `--reach` [s]
SLOWER, STARTING = 4.0, 40.0  # how much longer a mutant's tests may take, as a factor and by [s]
SHIP = "from heft import compiled as c; c.ship(c.cache_folder(), [c.processor()])"
COMPILING = 300.0  # at most, of the kernels of one mutant, before its tests begin [s]


def kept(name: str) -> Path:
    """Return where something is kept from run to run."""
    return cache_path("mutations") / name


@dataclass(frozen=True)
class Reach:
    """Which tests reach which line, and how long they take.

    Attributes:
        tests: By file below the sources and line, names of tests, and of files all of whose tests
            may share what reaches it.
        seconds: By test.
    """

    tests: Mapping[str, Mapping[int, tuple[str, ...]]]
    seconds: Mapping[str, float]

    @staticmethod
    def load() -> Reach:
        """Return what `--reach` found.

        Raises:
            SystemExit: If that was not done.
        """
        path = kept("reach.json")
        if not path.exists():
            raise SystemExit("first: python -m benchmarks.mutations --reach")
        content = json.loads(path.read_text())
        names = content["names"]
        lines = {
            file: {int(line): tuple(names[k] for k in found) for line, found in by_line.items()}
            for file, by_line in content["lines"].items()
        }
        return Reach(lines, content["seconds"])

    @cached_property
    def named(self) -> Mapping[str, tuple[tuple[str, str, frozenset[str]], ...]]:
        """By name: files and functions that name it, and the tests that reach such a line."""
        found: dict[str, list[tuple[str, str, frozenset[str]]]] = defaultdict(list)
        for path in sorted((ROOT / SOURCE).rglob("*.py")):
            file = path.relative_to(ROOT / SOURCE).as_posix()
            by_line = self.tests.get(file, {})
            for function in ast.walk(ast.parse(path.read_bytes())):
                if not isinstance(function, ast.FunctionDef):
                    continue
                for node in (n for part in function.body for n in ast.walk(part)):
                    name = getattr(node, "id", None) or getattr(node, "attr", None)
                    if isinstance(node, ast.Name | ast.Attribute) and name:
                        tests = frozenset(by_line.get(node.lineno, ()))
                        found[str(name)].append((file, function.name, tests))
        return {name: tuple(places) for name, places in found.items()}

    def callers(self, file: str, name: str) -> set[str]:
        """Return the tests that reach a call of a compiled function, through others if need be.

        Names that begin with a line are called in their own file, others where its module is named.
        """
        found: set[str] = set()
        known, waiting = {(file, name)}, [(file, name)]
        while waiting:
            of, called = waiting.pop()
            module = Path(of).stem
            for at, function, tests in self.named.get(called, ()):
                own = at == of
                if not own and (called.startswith("_") or module not in self._texts[at]):
                    continue
                found |= tests
                if not tests and (at, function) not in known:
                    known.add((at, function))
                    waiting.append((at, function))
        return found

    @cached_property
    def _texts(self) -> Mapping[str, str]:
        root = ROOT / SOURCE
        return {p.relative_to(root).as_posix(): p.read_text() for p in root.rglob("*.py")}

    @cached_property
    def by_file(self) -> Mapping[str, tuple[str, ...]]:
        """Tests of each file."""
        found: dict[str, list[str]] = defaultdict(list)
        for test in self.seconds:
            found[test.partition("::")[0]].append(test)
        return {file: tuple(tests) for file, tests in found.items()}

    @cached_property
    def breadth(self) -> Mapping[str, int]:
        """By file of tests, how many lines they reach: the fewer, the closer they look."""
        found: Counter[str] = Counter()
        for by_line in self.tests.values():
            for tests in by_line.values():
                found.update({t.partition("::")[0] for t in tests})
        return found

    def of(self, mutant: Mutant, most: float = MOST_SECONDS) -> list[str]:
        """Return the tests that reach a mutant, of bounded time together [s].

        Quick ones first of the file that bears its file's name and of those that reach least, for
        the others by their time.
        """
        if mutant.compiled:
            tests = self.callers(mutant.path, mutant.where.split(".")[0])
        else:
            tests = set(self.tests.get(mutant.path, {}).get(mutant.line, ()))
        own = f"tests/test_{Path(mutant.path).stem}.py"
        shared = {t for t in tests if "::" not in t}
        shared |= {t.partition("::")[0] for t in tests if t.startswith(own)}  # also by caches
        tests = tests - shared | {t for file in shared for t in self.by_file.get(file, ())}
        files = sorted(
            {t.partition("::")[0] for t in tests}, key=lambda f: (f != own, self.breadth[f], f)
        )
        close = set(files[:CLOSE])

        def order(test: str) -> tuple[bool, float, str]:
            return test.partition("::")[0] not in close, self.seconds.get(test, 1.0), test

        chosen, spent = [], 0.0
        for test in sorted(tests, key=order):
            seconds = self.seconds.get(test, 1.0)
            if not chosen or spent + seconds <= most:
                chosen.append(test)
                spent += seconds
        return chosen


class Copy:
    """A copy of the project in which one mutant after another is tried."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        fresh_copy(folder)
        # Kernels of mutants would drive a user's own out of the cache, where only so many are kept.
        self.kernels = folder / "cache" / "heft" / "kernels"
        compiled.ship(self.kernels, [compiled.processor()])
        self.environment = {
            **os.environ,
            "PYTHONPATH": f"{folder / 'src'}:{folder}",
            "XDG_CACHE_HOME": str(folder / "cache"),
        }
        call = [sys.executable, "-m", "benchmarks.mutation_server"]
        self.server = subprocess.Popen(
            call,
            cwd=folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, reach: Reach, tests: Sequence[str]) -> tuple[str, str]:
        """Return "passed", "failed" or "too slow", and the test that failed."""
        assert self.server.stdin is not None and self.server.stdout is not None
        most = STARTING + SLOWER * sum(reach.seconds.get(t, UNKNOWN) for t in tests)
        self.server.stdin.write(json.dumps({"tests": list(tests), "most": most}) + "\n")
        self.server.stdin.flush()
        answer = self.server.stdout.readline()
        if not answer:
            raise SystemExit("the process that runs tests has ended")
        outcome, _, test = answer.strip().partition("\t")
        return outcome, test

    @cached_property
    def tests(self) -> tuple[str, ...]:
        """All tests of the copy, those among them that are newer than what is known of reach."""
        call = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider"]
        listed = subprocess.run(
            call, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        return tuple(line for line in listed.stdout.splitlines() if "::" in line)

    @contextmanager
    def changed(self, mutant: Mutant) -> Iterator[None]:
        """Change the copy; afterwards it is as before, its compiled kernels with it.

        Those that the change touches are compiled here: no test has the time for it.
        """
        path = self.folder / SOURCE / mutant.path
        source, stat, kernels = path.read_bytes(), path.stat(), set(self.kernels.iterdir())
        try:
            path.write_bytes(mutant.of(source))
            if mutant.path in kernel_sources():
                call = [sys.executable, "-c", SHIP]
                with suppress(subprocess.TimeoutExpired):
                    subprocess.run(
                        call, env=self.environment, stderr=subprocess.DEVNULL, timeout=COMPILING
                    )
            yield
        finally:
            path.write_bytes(source)
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
            for made in set(self.kernels.iterdir()) - kernels:
                made.unlink()

    def tried(self, reach: Reach, mutant: Mutant, again: bool) -> dict[str, object]:
        """Return what became of a mutant.

        Args:
            reach: Of tests.
            mutant: One of them.
            again: Whether it survived before: more tests are tried, and the command line's.
        """
        tests = reach.of(mutant, MORE_SECONDS if again else MOST_SECONDS)
        if again:
            more = [t for t in reach.seconds if t.startswith(COMMANDS) and t not in tests]
            tests = [*(t for t in self.tests if t not in reach.seconds), *tests, *more]
        with self.changed(mutant):
            outcome, test = self.run(reach, tests)
        if test and self.run(reach, [test])[0] != "passed":
            outcome = "its test fails without it"
        return {"key": mutant.key, "line": mutant.line, "outcome": outcome, "by": test}


@cache
def kernel_sources() -> frozenset[str]:
    """Return the files of compiled functions, relative to the sources."""
    paths = frozenset().union(*(kernels.sources for kernels in compiled.every_kernels()))
    return frozenset(path.relative_to(compiled.PACKAGE).as_posix() for path in paths)


def find_reach() -> None:
    """Run all tests under a tracer and keep which lines each reaches."""
    import coverage

    kept("").mkdir(parents=True, exist_ok=True)
    data, times = kept("coverage"), kept("times.xml")
    environment = {**os.environ, "COVERAGE_FILE": str(data), "OPENBLAS_NUM_THREADS": "1"}
    options = ["-n", str(WORKERS), f"--cov={SOURCE}", "--cov-context=test", "--cov-report="]
    call = [sys.executable, "-m", "pytest", *options, f"--junitxml={times}", *TESTS]
    subprocess.run(call, cwd=ROOT, env=environment, check=False)
    measured = coverage.CoverageData(str(data))
    measured.read()
    names: dict[str, int] = {}
    lines: dict[str, dict[int, list[int]]] = {}
    for file in measured.measured_files():
        by_line = measured.contexts_by_lineno(file)
        found: dict[int, list[int]] = {}
        for line, contexts in by_line.items():
            tests = {_reached(c) for c in contexts if c}
            found[line] = sorted(names.setdefault(t, len(names)) for t in tests)
        lines[Path(file).relative_to(ROOT / SOURCE).as_posix()] = found
    seconds: dict[str, float] = {}
    for case in ElementTree.parse(times).iter("testcase"):
        file = case.attrib["classname"].replace(".", "/") + ".py"
        seconds[f"{file}::{case.attrib['name']}"] = float(case.attrib["time"])
    content = {"names": list(names), "lines": lines, "seconds": seconds}
    (kept("reach.json")).write_text(json.dumps(content))


def _reached(context: str) -> str:
    """Return a test; of a fixture that it was the first to ask for, its file."""
    test, _, phase = context.partition("|")
    return test.partition("::")[0] if phase == "setup" else test


def drawn(reach: Reach, count: int, seed: int) -> list[Mutant]:
    """Return mutants drawn by a seed from the lines that tests reach.

    Each has a place of its own in the order, so that a change of the code leaves most of them.
    """
    root, every = ROOT / SOURCE, []
    for path in sorted(root.rglob(FILES)):
        every += [m for m in mutants(root, path) if reach.of(m)]
    every.sort(key=lambda m: hashlib.sha256(f"{seed} {m.key}".encode()).digest())
    chosen: list[Mutant] = []
    keys: set[str] = set()
    for mutant in every:
        if len(chosen) == count:
            break
        if mutant.key not in keys and is_code(mutant, (root / mutant.path).read_bytes()):
            chosen.append(mutant)
            keys.add(mutant.key)
    return chosen


def fresh_copy(folder: Path) -> None:
    """Copy what belongs to the project, so that nothing is changed in place."""
    for name in sorted({path.partition("/")[0] for path in git("ls-files") or ()}):
        source, target = ROOT / name, folder / name
        if source.is_dir():
            ignored = shutil.ignore_patterns(".cache", "node_modules")
            shutil.copytree(source, target, dirs_exist_ok=True, ignore=ignored)
        elif source.exists():
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


def tried(
    reach: Reach, todo: Sequence[Mutant], again: bool, jobs: int
) -> Iterator[dict[str, object]]:
    """Yield what becomes of mutants, several at a time, each kept as soon as it is known."""
    free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    for number in range(min(jobs, len(todo))):
        free.put(Copy(kept(f"copy{number}")))

    def one(mutant: Mutant) -> dict[str, object]:
        copy = free.get()
        try:
            return copy.tried(reach, mutant, again)
        finally:
            free.put(copy)

    with kept(RESULTS).open("a", encoding="utf-8") as file, ThreadPoolExecutor(jobs) as pool:
        for result in pool.map(one, todo):
            file.write(json.dumps(result) + "\n")
            file.flush()
            yield result
    while not free.empty():
        free.get().server.terminate()


def known() -> dict[str, dict[str, object]]:
    """Return what was tried before, by key."""
    if not kept(RESULTS).exists():
        return {}
    lines = map(json.loads, kept(RESULTS).read_text(encoding="utf-8").splitlines())
    return {line["key"]: line for line in lines}


def equivalent() -> dict[str, str]:
    """Return the reasons why mutants are equivalent, by key."""
    if not EQUIVALENT.exists():
        return {}
    entries = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))["mutant"]
    return {entry["key"]: entry["reason"] for entry in entries}


def rows_of(found: Sequence[Mapping[str, object]]) -> Iterator[Row]:
    """Yield the shares of mutants that were noticed."""
    same = equivalent()
    live = [str(r["key"]) for r in found if r["outcome"] not in ("failed", "too slow")]
    argued = [k for k in live if k in same]
    yield at_least("mutants tried", len(found), "", 300)
    yield at_least("killed", 1.0 - len(live) / len(found), "", 0.85)
    yield at_most("argued to be equivalent", len(argued) / len(found), "", 0.05)
    rooms = Counter(_room(str(r["key"])) for r in found)
    left, excused = Counter(map(_room, live)), Counter(map(_room, argued))
    core, same_in_core = sum(rooms[r] for r in CORE), sum(excused[r] for r in CORE)
    if core > same_in_core:
        noticed = core - sum(left[r] for r in CORE)
        against = f"{noticed} of {core}, {same_in_core} of which are argued to be equivalent"
        name = "killed in the core, of those that are not equivalent"
        yield at_least(name, noticed / (core - same_in_core), "", 0.90, against)
    for room, count in sorted(rooms.items()):
        yield Row(f"[{room}]: killed", 1.0 - left[room] / count, "", against=f"of {count}")


def _room(key: str) -> str:
    """Return the room of a mutant, or its file where that has none."""
    return key.split(":")[0].split("/")[0]


@benchmark(
    {
        **{"reach": True, "count": 1, "jobs": 1, "WORKERS": 0},
        **{"TESTS": ("tests/test_errors_in_variables.py",), "FILES": "errors_in_variables.py"},
    }
)
def main(
    *,
    reach: bool = False,
    count: int = 300,
    seed: int = 0,
    again: bool = False,
    jobs: int = os.cpu_count() or 1,
) -> Iterator[Row]:
    """Try mutants, say what survived, and yield the rows.

    Args:
        reach: Find anew which tests reach which line, first.
        count: Of mutants.
        seed: Of their choice.
        again: Try survivors once more.
        jobs: Processes.
    """
    if reach:
        find_reach()
    known_reach, done = Reach.load(), known()
    plan = drawn(known_reach, count, seed)
    survived = [m for m in plan if done.get(m.key, {}).get("outcome") == "passed"]
    survived = [m for m in survived if m.key not in equivalent()]
    todo = survived if again else [m for m in plan if m.key not in done]
    for result in tried(known_reach, todo, again, jobs):
        done[str(result["key"])] = result
        print(f"{result['outcome']}: {result['key']}", flush=True)
    found = [done[m.key] for m in plan]
    for result in found:
        if result["outcome"] == "passed" and result["key"] not in equivalent():
            print(f"survives: {result['key']} (line {result['line']})")
    yield from rows_of(found)


if __name__ == "__main__":
    main()
