"""Logs of JSON lines are read as the same numbers in any other file, and refused by line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from heft.applications import demo
from heft.errors import InvalidRecording, InvalidSetting
from heft.recordings import convert
from heft.recordings.formats import BLOCK_ROWS, Topics, read_table
from heft.recordings.recording import Recording
from tests.test_cli import called

ARM, RUN = demo.FOLDER / "arm.urdf", demo.FOLDER / "run1.parquet"
GOOD = {"t": 0.25, "name": ["a", "b"], "position": [1, 2.5], "velocity": [], "effort": [3, None]}


def write(path: Path, *lines: object, end: str = "\n") -> Path:
    path.write_text("\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines) + end)
    return path


def values(path: Path, *names: str) -> list[list[float]]:
    return np.concatenate(list(read_table(path).read(names))).tolist()


def test_joint_states_are_columns_by_joint(tmp_path: Path) -> None:
    swapped = {"name": ["b", "a"], "position": [4, 3], "effort": [6, 5], "t": 0.5}
    path = write(tmp_path / "run.jsonl", GOOD, "", swapped, end="")
    assert set(read_table(path).columns) == {"t", "q.a", "q.b", "tau.a", "tau.b"}
    rows = values(path, "t", "q.b", "tau.a", "tau.b")
    assert rows[0][:3] == [0.25, 2.5, 3.0] and np.isnan(rows[0][3])
    assert rows[1] == [0.5, 4.0, 5.0, 6.0]


def test_numbers_by_name_need_no_joints_and_lines_may_lack_some(tmp_path: Path) -> None:
    path = write(tmp_path / "run.ndjson", {"t": 0, "q.a": 1, "note": "x"}, {"t": 1})
    assert read_table(path).columns == ("t", "q.a")
    assert np.array_equal(values(path, "q.a"), [[1.0], [np.nan]], equal_nan=True)


def test_lists_without_names_are_columns_by_position(tmp_path: Path) -> None:
    lines = ({"t": k, "pos": [k, 2.0], "torque": [3, None], "mode": ["a"]} for k in range(2))
    path = write(tmp_path / "run.jsonl", *lines)
    assert read_table(path).columns == ("t", "pos[0]", "pos[1]", "torque[0]", "torque[1]")
    assert values(path, "t", "pos[0]", "pos[1]", "torque[0]")[1] == [1.0, 1.0, 2.0, 3.0]


def test_a_log_is_identified_as_the_same_numbers_in_parquet(tmp_path: Path) -> None:
    table = read_table(RUN)
    joints = [n[2:] for n in table.columns if n.startswith("q.")]
    names = ["t", *(f"q.{j}" for j in joints), *(f"tau.{j}" for j in joints)]
    rows, k = np.concatenate(list(table.read(names))).tolist(), len(joints)
    lines = (
        {"t": r[0], "name": joints, "position": r[1 : k + 1], "effort": r[k + 1 :]} for r in rows
    )
    path = write(tmp_path / "run.jsonl", *lines)
    one, two = (
        np.concatenate([b.values for b in Recording.open(p).blocks(names[1:])]) for p in (RUN, path)
    )
    assert np.array_equal(one, two)
    assert called("check", path, "--robot", ARM, cwd=tmp_path).code == 0
    done = called("identify", ARM, path, "--out", "found", cwd=tmp_path)
    assert done.code == 0, done.told
    assert (tmp_path / "found" / "robot.urdf").exists()


def test_a_log_longer_than_a_block_is_read_in_blocks(tmp_path: Path) -> None:
    path = write(tmp_path / "run.jsonl", *({"t": k} for k in range(BLOCK_ROWS + 2)))
    blocks = list(read_table(path).read(["t"]))
    assert [len(b) for b in blocks] == [BLOCK_ROWS, 2]
    assert np.array_equal(np.concatenate(blocks)[:, 0], np.arange(BLOCK_ROWS + 2))


BAD = {
    '{"t": 1, "name": ["a", "b"], "posi': "line 2",
    "[1, 2]": "line 2: no object",
    '{"t": 1, "name": "a"}': "'name' is no list",
    '{"t": 1, "name": ["a", "a"], "position": [1, 1]}': "repeats",
    '{"t": 1, "name": ["a", "b"], "position": [1]}': "'position' is no list of 2 numbers",
    '{"t": 1, "name": ["a", "b"], "position": [1, true]}': "'position' of 'b' is no number",
    '{"t": 1, "name": ["c"], "position": [1]}': "'q.c', which is not in the first",
    "[" * 100_000: "line 2",
    '{"t": 1' + "0" * 400 + "}": "line 2",
    '{"t": "' + "x" * 2_000_000 + '"}': "line 2: longer than",
}


@pytest.mark.parametrize("line", BAD, ids=lambda s: s[:40])
def test_a_line_that_cannot_be_read_is_named_and_left_out(line: str, tmp_path: Path) -> None:
    path = write(tmp_path / "run.jsonl", GOOD, line, {**GOOD, "t": 0.5})
    with pytest.raises(InvalidRecording, match=BAD[line]) as refused:
        values(path, "t")
    assert refused.value.cure is not None and "--recover" in refused.value.cure
    made = convert([path], tmp_path / "run.csv", recover=True)
    assert made.rows == 2 and "lines left out: 1," in made.damage[0]


def test_what_holds_no_numbers_or_topics_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRecording, match="holds no numbers"):
        read_table(write(tmp_path / "run.jsonl", {"name": ["a"]}))
    with pytest.raises(InvalidRecording, match="line 1"):
        read_table(write(tmp_path / "run.jsonl", "{", GOOD))
    with pytest.raises(InvalidSetting, match="topics"):
        read_table(write(tmp_path / "run.jsonl", GOOD), Topics(("/joint_states",)))


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ('{"kp": 32, "entries": [{"position": 0.1, "load": 3}]}', r"jq -c '\.\[\"entries\"\]\[\]'"),
        ('[{"position": 0.1, "torque_enable": true}]', "no effort, torque or current"),
        ('{"a": [], "b": [1], "rows": [{"q": 1, "Torque": 2}]}', r"rows of q, Torque"),
        ('[{"t": 0, "effort": 1}, {"t": 1, "effort": 2}]', r"jq -c '\.\[\]'"),
        ('{"it\'s": [{"t": 0}]}', r"it'\"'\"'s"),
        ('{"name": "arm"}', "a line of JSON for each sample"),
        ('{"t": 0}\n{"t": 1}\n', "mv .*run.json .*run.jsonl"),
        ("[" * 100_000, "a line of JSON for each sample"),
        ("{", "a line of JSON for each sample"),
    ],
)
def test_a_json_document_is_told_how_its_rows_become_a_log(
    document: str, says: str, tmp_path: Path
) -> None:
    (tmp_path / "run.json").write_text(document)
    with pytest.raises(InvalidRecording, match=says) as refused:
        read_table(tmp_path / "run.json")
    if "Torque" in document or '"effort"' in document:
        assert "no effort" not in str(refused.value)
