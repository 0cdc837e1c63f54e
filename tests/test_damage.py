"""A damaged log is refused by name; what is salvaged is part of what was there."""

from __future__ import annotations

import gc
import io
import shlex
import sqlite3
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import zstandard
from mcap.writer import CompressionType
from numpy.typing import NDArray

from heft.errors import HeftError, InvalidRecording
from heft.recordings.formats.mcap import _unpacked
from heft.recordings.recording import Recording
from tests.messages import Messages, joint_states, save_bag, save_db3, save_mcap

Array = NDArray[np.float64]
ROWS = 120
START = 1_700_000_000_000_000_000


def numbers() -> dict[str, Array]:
    rng = np.random.default_rng(0)
    return {n: rng.normal(size=ROWS) for n in ("q.a", "q.b", "tau.a", "tau.b")}


def stamps() -> list[int]:
    return [START + 1_000_000 * k for k in range(ROWS)]


def save_parquet(path: Path) -> None:
    columns = {"t": 1e-3 * np.arange(ROWS), **numbers()}
    pyarrow.parquet.write_table(
        pyarrow.table(columns), path, write_page_checksum=True, row_group_size=10
    )


def save_csv(path: Path) -> None:
    columns = {"t": 1e-3 * np.arange(ROWS), **numbers()}
    rows = "".join(
        ",".join(map(repr, r)) + "\n" for r in np.stack(list(columns.values()), 1).tolist()
    )
    path.write_text(",".join(columns) + "\n" + rows)


def save_npz(path: Path) -> None:
    np.savez(path, **{"t": 1e-3 * np.arange(ROWS), **numbers()})


SAVE: dict[str, Callable[[Path], object]] = {
    "run.mcap": lambda p: save_mcap(p, joint_states(numbers(), stamps()), chunk_size=2000),
    "plain.mcap": lambda p: save_mcap(
        p,
        joint_states(numbers(), stamps()),
        chunk_size=2000,
        compression=CompressionType.NONE,
        enable_data_crcs=True,
    ),
    "run.bag": lambda p: save_bag(p, joint_states(numbers(), stamps())),
    "bz2.bag": lambda p: save_bag(p, joint_states(numbers(), stamps()), "BZ2"),
    "run.db3": lambda p: save_db3(p, joint_states(numbers(), stamps())),
    "run.db3.zstd": lambda p: save_db3(p, joint_states(numbers(), stamps()), "FILE"),
    "messages.db3": lambda p: save_db3(p, joint_states(numbers(), stamps()), "MESSAGE"),
    "run.parquet": save_parquet,
    "run.npz": save_npz,
    "run.csv": save_csv,
}
# Every number under a checksum; Parquet's heads of pages are under none.
CHECKED = ("run.mcap", "plain.mcap", "run.npz")


def rows(path: Path, damage: list[str] | None = None) -> Array:
    """Return a log's rows; damage is noted if a list is given for it, else raised."""

    def note(problem: InvalidRecording) -> None:
        assert damage is not None
        damage.append(str(problem))

    recording = Recording.open(path) if damage is None else Recording.open(path, damaged=note)
    names = [n for n in numbers() if n in recording.signals]
    blocks = list(recording.blocks(names))
    found = [np.column_stack([b.time, b.values]) for b in blocks]
    return np.concatenate(found) if found else np.empty((0, 1 + len(names)))


def places(size: int, count: int) -> list[int]:
    return sorted({int(k) for k in np.linspace(0, size - 1, count)})


@pytest.mark.parametrize("name", [n for n in SAVE if not n.endswith(".csv")])
def test_a_log_cut_off_anywhere_is_refused_by_name(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    SAVE[name](path)
    data = path.read_bytes()
    for length in places(len(data), 60):
        path.write_bytes(data[:length])
        with pytest.raises(HeftError) as caught:
            rows(path)
        assert name in str(caught.value)


def test_a_csv_cut_off_loses_at_most_its_last_row(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    save_csv(path)
    data, whole = path.read_bytes(), rows(path)
    for length in range(len(data) - 300, len(data)):
        path.write_bytes(data[:length])
        damage: list[str] = []
        found = rows(path, damage)
        assert np.array_equal(found, whole[: len(found)])
        complete = data[:length].count(b"\n") - 1
        assert len(found) == complete
        assert bool(damage) == (data[length - 1 : length] != b"\n")


@pytest.mark.parametrize("name", SAVE)
def test_a_flipped_byte_never_ends_in_anything_but_numbers_or_a_named_error(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    SAVE[name](path)
    data, whole = path.read_bytes(), rows(path)
    refused = 0
    for place in places(len(data), 150):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x41]) + data[place + 1 :])
        try:
            found = rows(path)
        except HeftError as problem:
            refused += 1
            assert name in str(problem)
            continue
        if name in CHECKED:  # what does not raise has changed no number
            assert found.shape[1] < whole.shape[1] or np.array_equal(found, whole)
    assert refused > 0


def many() -> dict[str, Array]:
    rng = np.random.default_rng(0)
    return {n: rng.normal(size=MANY) for n in numbers()}


def many_stamps() -> list[int]:
    return [START + 1_000_000 * k for k in range(MANY)]


MANY = 4000  # rows of a chunk
OPEN: dict[str, Callable[[Path, Messages], Path]] = {
    "plain.bag": save_bag,
    "lz4.bag": lambda p, log: save_bag(p, log, "LZ4"),
    "plain.mcap": lambda p, log: save_mcap(
        p, log, compression=CompressionType.NONE, chunk_size=1 << 20
    ),
    "lz4.mcap": lambda p, log: save_mcap(
        p, log, compression=CompressionType.LZ4, chunk_size=1 << 20
    ),
    "zstd.mcap": lambda p, log: save_mcap(p, log, chunk_size=1 << 20),
}


@pytest.mark.parametrize("name", OPEN)
def test_salvage_reads_the_last_chunk_as_far_as_it_goes(name: str, tmp_path: Path) -> None:
    path = OPEN[name](tmp_path / name, joint_states(many(), many_stamps()))
    data, whole = path.read_bytes(), rows(path)
    path.write_bytes(data[: int(0.7 * len(data))])
    with pytest.raises(InvalidRecording, match="cut off"):
        rows(path)
    found = rows(path, [])
    assert np.array_equal(found, whole[: len(found)])
    assert 0.5 * MANY < len(found) < MANY


@pytest.mark.parametrize("name", [n for n in OPEN if n.endswith(".bag")])
def test_a_bag_that_is_still_recorded_is_salvaged(name: str, tmp_path: Path) -> None:
    """A recorder of ROS 1 states the sizes of a chunk when it closes it."""
    path = OPEN[name](tmp_path / name, joint_states(many(), many_stamps()))
    data, whole = bytearray(path.read_bytes()), rows(path)
    size = data.index(b"size=") + 5
    data[size : size + 8] = bytes(8)  # unpacked, and packed right behind
    path = tmp_path / f"{name}.active"
    path.write_bytes(data[: int(0.7 * len(data))])
    with pytest.raises(InvalidRecording, match=r"did not close|cut off"):
        rows(path)
    found = rows(path, [])
    assert np.array_equal(found, whole[: len(found)])
    assert 0.5 * MANY < len(found) < MANY


@pytest.mark.parametrize("name", [n for n in SAVE if n.endswith((".mcap", ".bag"))])
def test_salvage_gives_the_beginning_of_what_was_there_and_says_what_is_lost(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    SAVE[name](path)
    data, whole = path.read_bytes(), rows(path)
    most = 0
    for length in places(len(data), 40)[5:]:
        path.write_bytes(data[:length])
        damage: list[str] = []
        try:
            found = rows(path, damage)
        except InvalidRecording:  # not even its first messages are there
            assert damage
            continue
        assert np.array_equal(found, whole[: len(found)])
        assert damage
        most = max(most, len(found))
    assert most > ROWS // 2


@pytest.mark.parametrize("name", ["run.mcap", "run.parquet"])
def test_salvage_leaves_out_the_piece_whose_checksum_is_wrong(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    SAVE[name](path)
    data, whole = bytearray(path.read_bytes()), rows(path)
    data[len(data) // 2] ^= 0x41
    path.write_bytes(data)
    damage: list[str] = []
    found = rows(path, damage)
    assert damage
    assert ROWS // 2 < len(found) < ROWS
    there = {tuple(row) for row in whole.tolist()}
    assert all(tuple(row) in there for row in found.tolist())


def test_salvage_of_arrays_leaves_out_the_damaged_ones(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    save_npz(path)
    with zipfile.ZipFile(path) as archive:
        place = archive.getinfo("tau.a.npy").header_offset + 500
    data = bytearray(path.read_bytes())
    data[place] ^= 0x41
    path.write_bytes(data)
    damage: list[str] = []
    rows(path, damage)
    assert len(damage) == 1
    assert "tau.a" in damage[0]


def test_salvage_of_arrays_unpacks_no_bomb(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    save_npz(path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("q.c.npy", b"")
        archive.getinfo("q.c.npy").file_size = 2**33
    with pytest.raises(InvalidRecording, match="claim to hold"):
        rows(path, [])


def test_salvage_of_arrays_never_unpickles(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    save_npz(path)
    with zipfile.ZipFile(path, "a") as archive:
        memory = io.BytesIO()
        np.save(memory, np.array([{}]))
        archive.writestr("meta.npy", memory.getvalue())
    damage: list[str] = []
    np.testing.assert_array_equal(rows(path, damage)[:, 1:], np.stack(list(numbers().values()), 1))
    assert len(damage) == 1
    assert "pickled objects" in damage[0]


def test_an_archive_without_its_end_is_not_salvaged_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    save_npz(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InvalidRecording, match="nor salvaged"):
        rows(path, [])


def test_the_command_that_salvages_can_be_pasted(tmp_path: Path) -> None:
    path = tmp_path / "first run.csv"
    path.write_text("t,q.a\n0,1\n1,2,3\n")
    with pytest.raises(InvalidRecording) as caught:
        rows(path)
    cure = str(caught.value.cure)
    assert shlex.split(cure[cure.index("heft ") :])[:3] == ["heft", "convert", str(path)]


def test_salvage_of_text_leaves_out_the_lines_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text("t,q.a\n0,1\n1,oops\n2,3,4\n3,\n4,1_000\n5,6\n")
    damage: list[str] = []
    found = rows(path, damage)
    assert found[:, 0].tolist() == [0.0, 3.0, 5.0]
    assert np.isnan(found[1, 1])
    assert "1 lines with another number of columns and 2" in damage[0]


@pytest.mark.parametrize(
    ("compression", "size"), [(b"zstd", 2**62), (b"lz4", 2**62), (b"", 2**40), (b"gzip", 100)]
)
def test_a_chunk_that_lies_about_its_size_takes_no_memory(
    compression: bytes, size: int, tmp_path: Path
) -> None:
    path = tmp_path / "run.mcap"
    SAVE["plain.mcap"](path)
    data = path.read_bytes()
    begin = data.index(b"\x06", 8 + 9 + data[9])  # the first chunk's record
    head = data[begin + 9 :][:28]
    lie = head[:16] + size.to_bytes(8, "little") + bytes(4)
    lie += (
        len(compression).to_bytes(4, "little") + compression + (8).to_bytes(8, "little") + bytes(8)
    )
    record = b"\x06" + len(lie).to_bytes(8, "little") + lie
    path.write_bytes(data[:begin] + record)
    damage: list[str] = []
    with pytest.raises(InvalidRecording):
        rows(path, damage)
    assert any("unpack" in d or "packed" in d for d in damage)


def test_a_chunk_may_be_empty_but_not_shorter_than_its_head() -> None:
    head = bytes(40)  # stamps, size, checksum, name of the compression and length: all nothing
    assert _unpacked(head, Path("run.mcap")) == b""
    with pytest.raises(InvalidRecording, match="without its head"):
        _unpacked(head[:-1], Path("run.mcap"))


def test_a_packed_log_is_unpacked_while_it_is_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, place = tmp_path / "run.db3.zstd", tmp_path / "temporary"
    save_db3(path, joint_states(numbers(), stamps()), "FILE")
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    recording = Recording.open(path)
    assert len(list(place.rglob("*.db3"))) == 1
    assert str(place) not in recording.name
    del recording
    gc.collect()
    assert not list(place.iterdir())
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InvalidRecording, match="cut off"):
        Recording.open(path)
    gc.collect()
    assert not list(place.iterdir())


@pytest.mark.parametrize("name", ["run.db3.zstd", "run.csv.zst"])
def test_a_packed_file_that_is_no_log_or_grows_without_measure_is_refused(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(zstandard.compress(bytes(300 << 20)))
    with pytest.raises(InvalidRecording, match=r"zstd -d|hold more than"):
        Recording.open(path)


def test_messages_that_unpack_without_measure_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.db3"
    save_db3(path, joint_states(numbers(), stamps()))
    with closing(sqlite3.connect(path)) as base:
        base.execute("UPDATE messages SET data = ?", [zstandard.compress(bytes(4 << 20))])
        base.commit()
    with pytest.raises(InvalidRecording, match="unpack"):
        rows(path)


def test_a_bag_does_not_reach_out_of_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "bag"
    folder.mkdir()
    (tmp_path / "secret.db3").write_bytes(b"secret")
    (folder / "metadata.yaml").write_text(
        "rosbag2_bagfile_information:\n  storage_identifier: sqlite3\n"
        "  relative_file_paths: ['../secret.db3']\n"
    )
    with pytest.raises(InvalidRecording, match="missing") as caught:
        Recording.open(folder)
    assert str(folder / "secret.db3") in str(caught.value)


TABLE = "rosbag2_bagfile_information:\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "without metadata.yaml"),
        ("", "cannot be read"),
        ("rosbag2_bagfile_information: 3", "cannot be read"),
        ("a: [", "cannot be read"),
        ("a: !!python/object/apply:os.system ['true']", "cannot be read"),
        (f"{TABLE}  storage_identifier: other", "storage is 'other'"),
        (f"{TABLE}  storage_identifier: mcap", "names no files"),
        (f"{TABLE}  storage_identifier: mcap\n  compression_format: lz4", "packed by 'lz4'"),
        (
            f"{TABLE}  storage_identifier: mcap\n  relative_file_paths: [a.mcap, b.mcap, x/a.mcap]",
            "names a file twice",
        ),
    ],
)
def test_a_folder_that_is_no_bag_is_refused(text: str | None, says: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "metadata.yaml").write_text(text)
    with pytest.raises(InvalidRecording, match=says):
        Recording.open(tmp_path)


def test_a_recorder_that_did_not_end_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.db3"
    SAVE["run.db3"](path)
    (tmp_path / "run.db3-wal").write_bytes(b"waiting")
    with pytest.raises(InvalidRecording, match="did not close"):
        Recording.open(path)
