"""A log format is one value and one line in the registry, whoever asks for it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import heft
from heft.errors import InvalidModel, InvalidRecording, InvalidSetting
from heft.models.robot import Robot
from heft.recordings import convert
from heft.recordings.formats import registry
from heft.recordings.formats.registry import Format, of_columns
from heft.recordings.formats.table import Damaged, Say, Table, Write, damaged_file
from heft.recordings.recording import Recording

Array = NDArray[np.float64]
KIND = "file of lines"


def read_lines(path: Path, damaged: Damaged) -> Table:
    """Return a file with an object of numbers a line, its names those of the first line."""
    with path.open() as file:
        columns = tuple(json.loads(file.readline()))

    def read(names: Sequence[str]) -> Iterator[Array]:
        rows = []
        for number, line in enumerate(path.read_text().splitlines(), 1):
            try:
                row = json.loads(line)
            except ValueError as problem:
                damaged(damaged_file(KIND, path, f"line {number}: {problem}"))
                continue
            rows.append([row[n] for n in names])
        yield np.array(rows)

    return Table(str(path), columns, None, read)


@contextmanager
def write_lines(path: Path, table: Table, say: Say) -> Iterator[Write]:
    with path.open("w") as file:

        def write(block: Array) -> None:
            for row in block.tolist():
                file.write(json.dumps(dict(zip(table.columns, row, strict=True))) + "\n")

        yield write


LINES = Format(KIND, (".lines", ".rows"), of_columns(read_lines), write_lines)
COLUMNS = {"t": np.arange(50) / 8.0, "q.a": np.sin(np.arange(50)), "tau.a": np.arange(50) / 3.0}


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the line to the registry that a new format takes."""
    monkeypatch.setattr(registry, "FORMATS", (*registry.FORMATS, LINES))


def everything(path: Path) -> Array:
    blocks = Recording.open(path).blocks(["q.a", "tau.a"])
    return np.concatenate([np.column_stack([b.time, b.values]) for b in blocks])


def saved(path: Path) -> Path:
    np.savez(path, **COLUMNS)  # type: ignore[arg-type]
    return path


@pytest.mark.usefixtures("known")
def test_a_format_of_one_line_is_read_and_written(tmp_path: Path) -> None:
    begin = saved(tmp_path / "run.npz")
    made = convert([begin], tmp_path / "run.lines")
    assert made.rows == 50 and not made.losses
    assert len((tmp_path / "run.lines").read_text().splitlines()) == 50
    convert([tmp_path / "run.lines"], tmp_path / "again.parquet")
    (tmp_path / "run.lines").rename(tmp_path / "run.ROWS")
    assert np.array_equal(everything(tmp_path / "run.ROWS"), np.stack([*COLUMNS.values()], 1))
    assert np.array_equal(everything(tmp_path / "again.parquet"), everything(begin))


@pytest.mark.usefixtures("known")
def test_damage_of_a_format_of_one_line_is_salvaged_like_any(tmp_path: Path) -> None:
    convert([saved(tmp_path / "run.npz")], tmp_path / "run.lines")
    lines = (tmp_path / "run.lines").read_text().splitlines()
    (tmp_path / "run.lines").write_text("\n".join([*lines[:20], lines[20][:10], *lines[21:]]))
    with pytest.raises(InvalidRecording, match=f"the {KIND} is damaged"):
        everything(tmp_path / "run.lines")
    made = convert([tmp_path / "run.lines"], tmp_path / "run.csv", recover=True)
    assert made.rows == 49 and "line 21" in made.damage[0]


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("ending", LINES.endings)
def test_a_log_of_a_new_format_is_no_model(ending: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidModel, match="a log is given in place of the model"):
        Robot.from_file(tmp_path / f"run{ending}")


def test_what_is_not_in_the_registry_is_not_known(tmp_path: Path) -> None:
    begin = saved(tmp_path / "run.npz")
    with pytest.raises(InvalidSetting, match=r"does not write files ending in '.lines'") as caught:
        convert([begin], tmp_path / "run.lines")
    assert caught.value.valid == (".csv", ".parquet", ".npz", ".mcap")
    (tmp_path / "run.lines").write_text("{}")
    with pytest.raises(InvalidRecording, match="not logs that heft reads") as refused:
        Recording.open(tmp_path / "run.lines")
    assert set(refused.value.valid) == set(registry.by_ending())
    assert refused.value.cure == "save the log as CSV, Parquet, NPZ or MCAP"


def test_no_two_formats_share_an_ending() -> None:
    endings = [e for f in registry.FORMATS for e in f.endings]
    assert len(set(endings)) == len(endings)
    assert all(e == e.lower() and e.startswith(".") for e in endings)
    assert all(set(f.shared) <= set(f.endings) for f in registry.FORMATS)
    assert all(f.endings or f.marker for f in registry.FORMATS)


@pytest.mark.parametrize("known_format", registry.FORMATS, ids=lambda f: f.name)
def test_the_page_about_logs_names_every_format(known_format: Format) -> None:
    page = (Path(heft.__file__).parents[2] / "docs" / "logs.md").read_text()
    assert all(f"`{ending}`" in page for ending in known_format.endings)
    assert known_format.marker is None or known_format.name in page
    folder_of_formats = Path(registry.__file__).parent
    for ending in known_format.endings:  # said once in the package
        files = [p for p in folder_of_formats.glob("*.py") if f'"{ending}"' in p.read_text()]
        assert len(files) == 1


def test_a_log_whose_name_is_no_text_is_read(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"gr\xf6sse.csv")
    try:
        path.write_text("t,q.elbow\n0,1\n1,2\n")
    except OSError:
        pytest.skip("names of files are text here")
    (block,) = Recording.open(path).blocks(["q.elbow"])
    assert block.values[:, 0].tolist() == [1.0, 2.0]
