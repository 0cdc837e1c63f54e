"""Benchmarks run to their end; stored tables are stale once what they come from has changed."""

from __future__ import annotations

import importlib
import json
import math
import os
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest
from benchmarks import __main__ as overview
from benchmarks import program, sources
from benchmarks.program import Benchmark, benchmark
from benchmarks.results_file import Row, at_most

PROGRAMS = {
    path.stem
    for path in sources.BENCHMARKS.glob("*.py")
    if 'if __name__ == "__main__":' in path.read_text(encoding="utf-8")
}
NOT_MEASURING = {"__main__", "house", "mutation_server", "readme"}
BENCHMARKS = sorted(PROGRAMS - NOT_MEASURING)
OF_FAULTS = {"doctor", "doctor_faults", "payload_faults"}  # whose rows the doctor makes
NUMBER = re.compile(r"[-−+]?\d[\d.,]*(e[-+]?\d+)?")


def main_of(name: str) -> Benchmark:
    found = importlib.import_module(f"benchmarks.{name}").main
    assert isinstance(found, Benchmark) and found.smokes, f"{name} has no smoke run"
    return found


def tables() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in program.RESULTS.glob("*.json")}


def titles(names: Iterable[str]) -> set[str]:
    """Return names of rows whatever numbers are in them."""
    return {NUMBER.sub("#", name) for name in names}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_runs_to_its_end_and_makes_its_table(
    name: str, request: pytest.FixtureRequest
) -> None:
    if name not in OF_FAULTS:
        request.getfixturevalue("without_doctor")
    main, before = main_of(name), tables()
    with warnings.catch_warnings():
        try:
            made = list(main.smoke())
        except SystemExit as refused:
            if "HEFT_DATA" in str(refused) and not os.environ.get("HEFT_DATA"):
                pytest.skip(f"NO MEASURED DATA: {refused}")
            raise
    assert tables() == before, "a smoke run stores nothing"
    for table, rows in made:
        assert rows, table
        for row in rows:
            assert math.isfinite(row.value) or row.against, row  # which says why it is no number
        path = program.RESULTS / f"{table}.json"
        if path.exists():
            stored = json.loads(path.read_text(encoding="utf-8"))["rows"]
            new = titles(r.name for r in rows) - titles(r["name"] for r in stored)
            assert not new, f"{table} is laid out otherwise than the stored table"


def test_every_stored_table_has_its_benchmark() -> None:
    for stored in overview.tables():
        assert overview.module_of(stored.name) in BENCHMARKS, stored.name


# --- the program that a function becomes


@benchmark({"count": 1, "SIZE": 2}, unstored=("part",), variants=("kind",))
def example(
    *, count: int = 3, part: tuple[str, ...] = ("a", "b"), kind: str = "", late: float | None = None
) -> Iterator[Row]:
    """Yield rows.

    Args:
        count: How many.
        part: Of all.
    """
    for k in range(count):
        yield at_most(f"row {k}", SIZE, "", 5.0)


SIZE = 7


def run(*words: str) -> None:
    example(words)


def test_what_is_asked_for_is_stored_with_what_it_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "RESULTS", tmp_path)
    monkeypatch.setattr(sources, "digest", lambda module: f"digest of {module}")
    run("--count", "2")
    assert not list(tmp_path.iterdir()), "nobody asked"
    run("--count", "2", "--kind", "other", "--late", "0.5", "--store")
    (path,) = tmp_path.iterdir()
    assert path.name == "test_benchmarks_other.json"
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert [r["value"] for r in stored["rows"]] == [7.0, 7.0]
    assert not any(r["holds"] for r in stored["rows"])
    assert stored["sources"] == "digest of test_benchmarks"
    assert stored["processor_s"] >= 0.0 and re.fullmatch(r"\d{4}-\d\d-\d\d", stored["date"])
    words = "--count 2 --kind other --late 0.5 --store"
    assert stored["command"] == f"python -m benchmarks.test_benchmarks {words}"


def test_a_part_is_not_stored_nor_what_changed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "RESULTS", tmp_path)
    digests = iter(["one", "other"])
    monkeypatch.setattr(sources, "digest", lambda module: next(digests))
    with pytest.raises(SystemExit):
        run("--part", "a", "--store")
    with pytest.raises(SystemExit, match="changed while"):
        run("--store")
    assert not list(tmp_path.iterdir())


def test_a_smoke_run_has_little_of_everything_and_leaves_the_rest_as_it_was(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ((table, rows),) = example.smoke()
    assert (table, [r.value for r in rows], SIZE) == ("test_benchmarks", [2.0], 7)
    run("--smoke")
    assert capsys.readouterr().out.count("row 0") == 4


# --- what a table comes from

FILES = {
    "src/heft/__init__.py": "if True:\n    from heft.a import one\n    from heft.b import two\n",
    "src/heft/a/__init__.py": "from .first import one as one\nfrom .second import other\n",
    "src/heft/a/first.py": "from heft.c import deep\none = 1\n",
    "src/heft/a/second.py": "other = 2\n",
    "src/heft/a/page.css": "",
    "src/heft/b/__init__.py": "from .two import two\n",
    "src/heft/b/two.py": "two = 2\n",
    "src/heft/c.py": "deep = 3\n",
    "src/heft/cli/__init__.py": "",
    "src/heft/__main__.py": "from heft.b import two\n",
    "tests/helper.py": "from heft.a.second import other\n",
    "benchmarks/data/x.txt": "",
    "benchmarks/by_name.py": "from heft import one\n",
    "benchmarks/late.py": "def f():\n    import heft.b.two\n",
    "benchmarks/text.py": "P = '''\\nimport sys\\nfrom heft.a import other\\n'''\n",
    "benchmarks/helped.py": "from tests import helper\n",
    "benchmarks/command.py": "CALL = ['heft', 'identify']\n",
    "benchmarks/folder.py": '"""Of heft.b.two."""\nX = "data"\n',
    "benchmarks/whole.py": "import heft.a\n",
}
BY_FILE = {  # which benchmarks are stale when it changes
    "src/heft/a/first.py": {"by_name", "text", "whole"},  # a text asks for all of a room
    "src/heft/a/second.py": {"text", "helped", "whole"},
    "src/heft/a/page.css": {"by_name", "text", "helped", "whole"},
    "src/heft/a/__init__.py": {"by_name", "text", "whole"},
    "src/heft/b/two.py": {"late", "command"},
    "src/heft/c.py": {"by_name", "text", "whole"},
    "tests/helper.py": {"helped"},
    "benchmarks/data/x.txt": {"folder"},
    "benchmarks/late.py": {"late"},
}


def forget() -> None:
    for function in vars(sources).values():
        getattr(function, "cache_clear", lambda: None)()


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    monkeypatch.setattr(sources, "BENCHMARKS", tmp_path / "benchmarks")
    places = {"heft": tmp_path / "src" / "heft"}
    places |= {name: tmp_path / name for name in ("benchmarks", "tests")}
    monkeypatch.setattr(sources, "PLACES", places)
    forget()
    yield tmp_path
    forget()


def test_touching_a_file_makes_exactly_the_tables_stale_that_import_it(small: Path) -> None:
    names = [Path(n).stem for n in FILES if n.startswith("benchmarks/") and n.endswith(".py")]

    def stored() -> dict[str, overview.Stored]:
        forget()
        return {
            name: overview.Stored(name, {"commit": "-", "sources": sources.digest(name)})
            for name in names
        }

    for file, wanted in BY_FILE.items():
        before = stored()
        assert {n for n, table in before.items() if table.why_stale} == set()
        with (small / file).open("a", encoding="utf-8") as changed:
            changed.write("\n")
        forget()
        assert {n for n, table in before.items() if table.why_stale} == wanted, file


def test_a_table_that_holds_no_digest_is_judged_by_its_commit(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed: Mapping[str, frozenset[str] | None] = {
        "aaa": frozenset({"src/heft/b/two.py"}),
        "bbb": frozenset({"src/heft/a/first.py"}),
        "ccc": None,
    }
    monkeypatch.setattr(sources, "changed_since", changed.__getitem__)

    def why(commit: str) -> str | None:
        return overview.Stored("by_name", {"commit": commit, "rows": []}).why_stale

    assert why("aaa") is None
    assert "first.py" in str(why("bbb"))
    assert "not known" in str(why("ccc"))
    assert "no commit" in str(why("aaa+")), "files were changed when it was measured"
    assert "unknown" in overview.Stored("by_name", {"commit": "aaa"}).line


@pytest.mark.parametrize("name", ["online", "derive"])
def test_code_that_runs_in_a_benchmark_is_among_what_its_table_comes_from(name: str) -> None:
    ran: set[str] = set()

    def called(frame: object, event: str, arg: object) -> None:
        ran.add(frame.f_code.co_filename)  # type: ignore[attr-defined]

    main = main_of(name)
    sys.setprofile(called)
    try:
        list(main.smoke())
    finally:
        sys.setprofile(None)
    own = {Path(f) for f in ran if f.startswith(str(sources.ROOT / "src"))}
    faces = {f for f in own if f.name == "__init__.py"}  # whose room is loaded, not used
    assert len(own) > 3
    assert own - faces <= set(sources.files_of(name))
