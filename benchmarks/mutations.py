"""Which small changes of the code the tests notice.

    python -m benchmarks.mutations --reach                    # once: which tests reach which line
    python -m benchmarks.mutations [--count 300] [--seed 0] [--store]

Mutants are drawn by a seed, as many of a room as it has places to change, from lines that a test
reaches. Each is tried in a copy of the project against the tests that reach its line, the quickest
first, until one fails. No tracer sees the lines of compiled kernels, nor those of processes that
tests start: a kernel's mutants are tried against the tests that reach its callers, and survivors
against the tests of the command line as well.

What survives is either a hole in the tests or equivalent: the same program by other means. Those
that are argued to be equivalent stand in `mutations_equivalent.toml`, each with its reason.

Every mutant is one line in `benchmarks/.cache/mutations/results.jsonl`, and is not tried twice.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from benchmarks.mutants import Mutant, is_code, mutants
from benchmarks.results_file import ROOT, Row, at_least, at_most, store, table

SOURCE = Path("src/heft")
CACHE = ROOT / "benchmarks" / ".cache" / "mutations"
RESULTS = CACHE / "results.jsonl"
EQUIVALENT = ROOT / "benchmarks" / "mutations_equivalent.toml"
CORE = ("information", "dynamics", "plants", "estimators")
COMMANDS = ("tests/test_cli.py",)  # tests in processes of their own
MOST_SECONDS = 120.0  # of tests for one mutant, as long as they take without it
SLOWER, STARTING = 4.0, 40.0  # how much longer a mutant's tests may take, as a factor and by [s]
COPIED = ("src", "tests", "benchmarks", "docs", "examples", "fuzz", "README.md", "CHANGELOG.md")
COPIED += ("pyproject.toml", "constraints.txt", "mkdocs.yml", "Makefile", "LICENSE")


@dataclass(frozen=True)
class Reach:
    """Which tests reach which line, and how long they take.

    Attributes:
        tests: By file below the sources and line, names of tests.
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
        path = CACHE / "reach.json"
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
    def callers(self) -> Mapping[str, frozenset[str]]:
        """By name of a function, the tests that reach a line that names it."""
        found: dict[str, set[str]] = defaultdict(set)
        for path in sorted((ROOT / SOURCE).rglob("*.py")):
            file = path.relative_to(ROOT / SOURCE).as_posix()
            by_line = self.tests.get(file, {})
            for node in ast.walk(ast.parse(path.read_bytes())):
                name = getattr(node, "id", None) or getattr(node, "attr", None)
                if isinstance(node, ast.Name | ast.Attribute) and name:
                    found[str(name)].update(by_line.get(node.lineno, ()))
        return {name: frozenset(tests) for name, tests in found.items()}

    def of(self, mutant: Mutant) -> list[str]:
        """Return the tests that reach a mutant, the quickest first, of bounded time together."""
        tests = set(self.tests.get(mutant.path, {}).get(mutant.line, ()))
        if mutant.compiled:
            tests |= self.callers.get(mutant.where.split(".")[0], frozenset())
        chosen, spent = [], 0.0
        for test in sorted(tests, key=lambda t: (self.seconds.get(t, 1.0), t)):
            spent += self.seconds.get(test, 1.0)
            if chosen and spent > MOST_SECONDS:
                break
            chosen.append(test)
        return chosen


def find_reach() -> None:
    """Run all tests under a tracer and keep which lines each reaches."""
    import coverage

    CACHE.mkdir(parents=True, exist_ok=True)
    data, times = CACHE / "coverage", CACHE / "times.xml"
    environment = {**os.environ, "COVERAGE_FILE": str(data), "OPENBLAS_NUM_THREADS": "1"}
    options = ["-n", "2", f"--cov={SOURCE}", "--cov-context=test", "--cov-report="]
    call = [sys.executable, "-m", "pytest", *options, f"--junitxml={times}"]
    subprocess.run(call, cwd=ROOT, env=environment, check=False)
    measured = coverage.CoverageData(str(data))
    measured.read()
    names: dict[str, int] = {}
    lines: dict[str, dict[int, list[int]]] = {}
    for file in measured.measured_files():
        by_line = measured.contexts_by_lineno(file)
        found: dict[int, list[int]] = {}
        for line, contexts in by_line.items():
            tests = {c.partition("|")[0] for c in contexts} - {""}
            found[line] = sorted(names.setdefault(t, len(names)) for t in tests)
        lines[Path(file).relative_to(ROOT / SOURCE).as_posix()] = found
    seconds: dict[str, float] = {}
    for case in ElementTree.parse(times).iter("testcase"):
        file = case.attrib["classname"].replace(".", "/") + ".py"
        seconds[f"{file}::{case.attrib['name']}"] = float(case.attrib["time"])
    content = {"names": list(names), "lines": lines, "seconds": seconds}
    (CACHE / "reach.json").write_text(json.dumps(content))


def drawn(reach: Reach, count: int, seed: int) -> list[Mutant]:
    """Return mutants drawn by a seed from the lines that tests reach."""
    root, every = ROOT / SOURCE, []
    for path in sorted(root.rglob("*.py")):
        every += [m for m in mutants(root, path) if reach.of(m)]
    random.Random(seed).shuffle(every)
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
    """Copy the project, so that nothing is changed in place; compiled kernels are kept."""
    for name in COPIED:
        source, target = ROOT / name, folder / name
        if source.is_dir():
            ignored = shutil.ignore_patterns(".cache", "node_modules")
            shutil.copytree(source, target, dirs_exist_ok=True, ignore=ignored)
        elif source.exists():
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


def passes(folder: Path, tests: Sequence[str], most: float) -> str:
    """Return "passed", or why not: "failed" or "too slow"."""
    listed = folder / "tests-to-run.txt"
    listed.write_text("\n".join(tests))
    environment = {**os.environ, "PYTHONPATH": f"{folder / 'src'}:{folder}"}
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header"]
    call = [sys.executable, "-m", "pytest", *options, f"@{listed.name}"]
    process = subprocess.Popen(
        call,
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return "passed" if process.wait(most) == 0 else "failed"
    except subprocess.TimeoutExpired:
        return "too slow"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def tried(reach: Reach, mutant: Mutant, folder: Path) -> dict[str, object]:
    """Return what became of a mutant."""
    path = folder / SOURCE / mutant.path
    source = path.read_bytes()
    tests = reach.of(mutant)
    most = STARTING + SLOWER * sum(reach.seconds.get(t, 1.0) for t in tests)
    try:
        path.write_bytes(mutant.of(source))
        outcome = passes(folder, tests, most)
        if outcome == "passed":
            outcome = passes(folder, COMMANDS, STARTING + SLOWER * 120.0)
    finally:
        path.write_bytes(source)
    return {"key": mutant.key, "line": mutant.line, "tests": len(tests), "outcome": outcome}


def known() -> dict[str, dict[str, object]]:
    """Return what was tried before, by key."""
    if not RESULTS.exists():
        return {}
    lines = map(json.loads, RESULTS.read_text(encoding="utf-8").splitlines())
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
    live = [str(r["key"]) for r in found if r["outcome"] == "passed"]
    argued = [k for k in live if k in same]
    yield at_least("mutants tried", len(found), "", 300)
    yield at_least("killed", 1.0 - len(live) / len(found), "", 0.85)
    yield at_most("argued to be equivalent", len(argued) / len(found), "", 0.05)
    rooms = Counter(str(r["key"]).split("/")[0] for r in found)
    left = Counter(k.split("/")[0] for k in live)
    core = sum(rooms[r] for r in CORE)
    if core:
        killed = 1.0 - sum(left[r] for r in CORE) / core
        yield at_least("killed in " + ", ".join(CORE), killed, "", 0.90, f"of {core}")
    for room, count in sorted(rooms.items()):
        yield Row(f"[{room}]: killed", 1.0 - left[room] / count, "", against=f"of {count}")


def main() -> None:
    """Try mutants, print the rows and what survived; store the rows if asked."""
    parser = argparse.ArgumentParser(description="Which changes of the code the tests notice.")
    parser.add_argument("--reach", action="store_true", help="find which tests reach which line")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", action="store_true", help="try survivors once more")
    parser.add_argument("--store", action="store_true")
    chosen = parser.parse_args()
    if chosen.reach:
        find_reach()
        return
    reach, done = Reach.load(), known()
    plan = drawn(reach, chosen.count, chosen.seed)
    folder = CACHE / "copy"
    fresh_copy(folder)
    tests = sorted({test for mutant in plan for test in reach.of(mutant)})
    most = STARTING + SLOWER * sum(reach.seconds.get(t, 1.0) for t in tests)
    if any(m.key not in done for m in plan) and passes(folder, tests, most) != "passed":
        raise SystemExit(f"tests fail in {folder} without any change: nothing would survive")
    with RESULTS.open("a", encoding="utf-8") as file:
        for number, mutant in enumerate(plan, 1):
            before = done.get(mutant.key)
            if before is not None and not (chosen.again and before["outcome"] == "passed"):
                continue
            done[mutant.key] = result = tried(reach, mutant, folder)
            file.write(json.dumps(result) + "\n")
            file.flush()
            print(f"{number}/{len(plan)} {result['outcome']}: {mutant.key}", flush=True)
    found = [done[m.key] for m in plan]
    for result in found:
        if result["outcome"] == "passed" and result["key"] not in equivalent():
            print(f"survives: {result['key']} (line {result['line']})")
    rows = list(rows_of(found))
    print(table(rows))
    if chosen.store:
        print(store("mutations", rows))


if __name__ == "__main__":
    main()
