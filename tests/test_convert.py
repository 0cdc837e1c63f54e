"""Every format to every other and back is the same to the bit, or says what it could not hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from heft.errors import InvalidRecording, InvalidSetting
from heft.recordings import convert
from heft.recordings.columns import ColumnMap
from heft.recordings.formats import table as table_module
from heft.recordings.formats.registry import writable
from heft.recordings.recording import Recording
from tests.messages import joint_states, save_mcap
from tests.test_cli import called

Array = NDArray[np.float64]
ROWS = 400
WRITERS = tuple(writable())


def log(messages_only: bool = True) -> dict[str, Array]:
    """Return columns of all kinds at times that nanoseconds hold."""
    rng = np.random.default_rng(0)
    names = ["q.a", "v.a", "tau.a", "q.b", "v.b"]
    names += [f"{kind}.tool.{x}" for kind in ("force", "torque") for x in "xyz"]
    names += [f"{kind}.imu.{x}" for kind in ("omega", "acc") for x in "xyz"]
    names += [f"quat.imu.{x}" for x in "wxyz"]
    names += [f"{kind}.body.{x}" for kind in ("pos", "vel") for x in "xyz"]
    names += [f"acc.body.{x}" for x in "xyz"] + [f"quat.body.{x}" for x in "wxyz"]
    if not messages_only:
        names += ["a.a", "current.a", "u.rotor"]
    columns = {n: rng.normal(size=ROWS) * 10.0 ** rng.integers(-300, 300, ROWS) for n in names}
    columns["q.a"][:5] = [-0.0, 5e-324, 1.7e308, 0.1, np.nan]
    return {"t": rng.integers(0, 10**9, ROWS).cumsum() / 1e9, **columns}


def save(path: Path, columns: dict[str, Array]) -> Path:
    np.savez(path, **columns)
    return path


def everything(path: Path) -> dict[str, bytes]:
    recording = Recording.open(path)
    names = sorted(recording.signals)
    whole = np.concatenate([np.column_stack([b.time, b.values]) for b in recording.blocks(names)])
    columns = dict(zip(["t", *names], whole.T, strict=True))
    return {n: np.ascontiguousarray(c).tobytes() for n, c in columns.items()}


@pytest.mark.parametrize("first", WRITERS)
@pytest.mark.parametrize("second", WRITERS)
def test_every_format_to_every_other_and_back_keeps_every_bit(
    first: str, second: str, tmp_path: Path
) -> None:
    begin = save(tmp_path / "run.npz", log())
    one, two, three = (
        tmp_path / f"{n}{s}" for n, s in zip("abc", (first, second, first), strict=True)
    )
    made = [convert([begin], one), convert([one], two), convert([two], three)]
    assert everything(three) == everything(two) == everything(begin)
    assert not [loss for m in made for loss in m.losses]
    assert {m.rows for m in made} == {ROWS}
    (block,) = Recording.open(begin).blocks([])
    assert {(m.begin, m.end) for m in made} == {(block.time[0], block.time[-1])}


@pytest.mark.parametrize("kind", [s for s in WRITERS if s != ".mcap"])
def test_files_of_columns_hold_every_signal(kind: str, tmp_path: Path) -> None:
    begin = save(tmp_path / "run.npz", log(messages_only=False))
    made = convert([begin], tmp_path / f"out{kind}")
    assert everything(tmp_path / f"out{kind}") == everything(begin)
    assert not made.losses


def test_what_messages_cannot_hold_is_said(tmp_path: Path) -> None:
    columns = log(messages_only=False)
    columns["t"] = columns["t"] + 1e-10
    made = convert([save(tmp_path / "run.npz", columns)], tmp_path / "run.mcap")
    text = "\n".join(made.losses)
    assert all(name in text for name in ("a.a", "current.a", "u.rotor"))
    assert f"{ROWS} times are rounded" in text
    held = everything(tmp_path / "run.mcap")
    assert set(held) == set(log())
    assert np.frombuffer(held["t"]) == pytest.approx(columns["t"], abs=0.5e-9)


@pytest.mark.parametrize("start", [-5.0, 0.0, 1_700_000_000.25])
def test_times_of_any_beginning_survive_messages(start: float, tmp_path: Path) -> None:
    time = start + np.arange(100) / 512.0
    begin = save(tmp_path / "run.npz", {"t": time, "q.a": np.ones(100)})
    convert([begin], tmp_path / "run.mcap")
    assert everything(tmp_path / "run.mcap") == everything(begin)


def test_stamps_of_messages_survive_messages_and_are_said_to_be_lost_in_columns(
    tmp_path: Path,
) -> None:
    stamps = [1_700_000_000_123_456_789 + 1_000_001 * k for k in range(50)]
    begin = save_mcap(tmp_path / "run.mcap", joint_states({"q.a": np.arange(50.0)}, stamps))
    assert not convert([begin], tmp_path / "again.mcap").losses
    assert Recording.open(tmp_path / "again.mcap").table.epoch == stamps[0]
    (loss,) = convert([begin], tmp_path / "run.csv").losses
    assert str(stamps[0]) in loss


@pytest.mark.parametrize("kind", WRITERS)
def test_the_same_log_gives_the_same_bytes_in_blocks_of_any_size(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = save(tmp_path / "run.npz", log())
    out = tmp_path / f"out{kind}"
    convert([begin], out)
    first = everything(out)
    again = out.read_bytes()
    convert([begin], out)
    assert out.read_bytes() == again
    monkeypatch.setattr(table_module, "BLOCK_ROWS", 37)
    convert([begin], out)
    assert everything(out) == first


def test_units_and_names_of_a_map_become_si_and_canonical(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text("ms,x\n0,180\n1000,90\n")
    table = {
        "time": {"column": "ms", "unit": "ms"},
        "q": {"columns": ["x"], "joints": ["elbow"], "unit": "deg"},
    }
    convert([path], tmp_path / "run.parquet", ColumnMap.from_dict(table))
    (block,) = Recording.open(tmp_path / "run.parquet").blocks(["q.elbow"])
    assert block.time.tolist() == [0.0, 1.0]
    assert block.values[:, 0] == pytest.approx([np.pi, np.pi / 2])


def test_several_logs_are_joined_by_time(tmp_path: Path) -> None:
    time = np.arange(100) / 512.0
    one = save(tmp_path / "one.npz", {"t": time, "q.a": np.sin(time)})
    two = save(tmp_path / "two.npz", {"t": time, "tau.a": np.cos(time)})
    convert([one, two], tmp_path / "both.parquet")
    (block,) = Recording.open(tmp_path / "both.parquet").blocks(["q.a", "tau.a"])
    assert np.array_equal(block.values, np.stack([np.sin(time), np.cos(time)], 1))
    with pytest.raises(InvalidRecording, match="two logs hold"):
        convert([one, one], tmp_path / "both.parquet")


@pytest.mark.parametrize("kind", WRITERS)
def test_a_log_that_breaks_in_the_middle_leaves_the_old_output_whole(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.csv"
    path.write_text("t,q.a\n" + "".join(f"{k},1\n" for k in range(100)) + "100,oops\n")
    out = tmp_path / "out" / f"run{kind}"
    out.parent.mkdir()
    out.write_bytes(b"old")
    with pytest.raises(InvalidRecording, match="cannot be read"):
        convert([path], out)
    assert out.read_bytes() == b"old"
    assert list(out.parent.iterdir()) == [out]


def test_an_output_over_its_input_or_of_no_known_kind_is_refused(tmp_path: Path) -> None:
    begin = save(tmp_path / "run.npz", log())
    with pytest.raises(InvalidSetting, match="overwrite"):
        convert([begin], begin)
    with pytest.raises(InvalidSetting, match="does not write files"):
        convert([begin], tmp_path / "run.bag")


def test_a_log_without_known_signals_is_refused(tmp_path: Path) -> None:
    begin = save(tmp_path / "run.npz", {"t": np.arange(3.0), "temperature": np.ones(3)})
    with pytest.raises(InvalidRecording, match="no signals that heft knows"):
        convert([begin], tmp_path / "run.csv")
    assert not (tmp_path / "run.csv").exists()


def test_a_time_beyond_stamps_is_refused_with_a_hint(tmp_path: Path) -> None:
    begin = save(tmp_path / "run.npz", {"t": np.arange(3.0) * 1e12, "q.a": np.ones(3)})
    with pytest.raises(InvalidRecording, match="unit of the time column"):
        convert([begin], tmp_path / "run.mcap")


def test_the_command_salvages_says_what_is_lost_and_exits_with_3(tmp_path: Path) -> None:
    stamps = [1_700_000_000_000_000_000 + 1_000_000 * k for k in range(500)]
    path = save_mcap(tmp_path / "run.mcap", joint_states({"q.a": np.arange(500.0)}, stamps))
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    out = tmp_path / "run.parquet"
    refused = called("convert", path, "--out", out, cwd=tmp_path)
    assert refused.code == 2
    assert "--recover" in refused.told
    assert not out.exists()
    salvaged = called("convert", path, "--out", out, "--recover", cwd=tmp_path)
    assert salvaged.code == 3
    assert "cut off at byte" in salvaged.told
    (block,) = Recording.open(out).blocks(["q.a"])
    assert np.array_equal(block.values[:, 0], np.arange(500.0)[: len(block.time)])
    assert f"{len(block.time)} rows" in salvaged.said
