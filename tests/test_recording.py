"""A recording is the same numbers whatever file they came in, in whatever order and pieces."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from heft.errors import InvalidRecording, MissingSignal
from heft.files.opened import file_hash
from heft.recordings.columns import FRAME_KINDS, OWNERS, UNITS, ColumnMap
from heft.recordings.formats import table as table_module
from heft.recordings.formats.registry import read_table
from heft.recordings.formats.table import BLOCK_ROWS, Table, refuse
from heft.recordings.recording import Recording

Array = NDArray[np.float64]
ROWS = 1_000
EPS = float(np.finfo(float).eps)


def numbers(seed: int = 0) -> dict[str, Array]:
    """Return columns of numbers that no shorter decimal stands for, of all magnitudes."""
    rng = np.random.default_rng(seed)
    names = ("q.shoulder", "q.elbow", "tau.shoulder", "tau.elbow", "current.elbow")
    columns = {n: rng.normal(size=ROWS) * 10.0 ** rng.integers(-12, 12, ROWS) for n in names}
    columns["q.elbow"][:4] = [0.1, 1 / 3, 5e-324, 1.7e308]
    return {"t": np.cumsum(rng.uniform(0.5e-3, 1.5e-3, ROWS)), **columns}


def save_csv(path: Path, columns: dict[str, Array], separator: str = ",", start: str = "") -> Path:
    rows = zip(*(c.tolist() for c in columns.values()), strict=True)
    lines = [separator.join(columns), *(separator.join(map(repr, row)) for row in rows)]
    path.write_text(start + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def save_parquet(path: Path, columns: dict[str, Array]) -> Path:
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def save_npz(path: Path, columns: dict[str, Array]) -> Path:
    np.savez(path, **columns)
    return path


SAVE: dict[str, Callable[[Path, dict[str, Array]], Path]] = {
    "csv": save_csv,
    "parquet": save_parquet,
    "npz": save_npz,
    "pq": save_parquet,
    "tsv": lambda path, columns: save_csv(path, columns, "\t"),
    "txt": lambda path, columns: save_csv(path, columns, ";"),
}


def everything(recording: Recording, names: tuple[str, ...] | None = None) -> dict[str, Array]:
    names = recording.signals if names is None else names
    blocks = list(recording.blocks(names))
    whole = np.concatenate([np.column_stack([b.time, b.values]) for b in blocks])
    return dict(zip(("t", *names), whole.T, strict=True))


def bits(columns: dict[str, Array]) -> dict[str, bytes]:
    return {name: np.ascontiguousarray(column).tobytes() for name, column in columns.items()}


def of_columns(columns: dict[str, Array], table: dict[str, Any]) -> dict[str, Array]:
    """Return what a map makes of columns in memory."""
    count = len(next(iter(columns.values())))

    def read(names: Any) -> Any:
        yield np.stack([columns[n] for n in names], 1)

    recording = Recording.of_table(
        Table("memory", tuple(columns), count, read), ColumnMap.from_dict(table)
    )
    return everything(recording)


@pytest.mark.parametrize("kind", SAVE)
def test_every_format_gives_the_same_numbers_to_the_bit(kind: str, tmp_path: Path) -> None:
    columns = numbers()
    recording = Recording.open(SAVE[kind](tmp_path / f"run.{kind}", columns))
    assert bits(everything(recording)) == bits(columns)


def test_arrays_in_memory_are_the_same_recording_as_a_file(tmp_path: Path) -> None:
    columns = numbers()
    memory = Recording.from_arrays(
        columns["t"],
        q={"shoulder": columns["q.shoulder"], "elbow": columns["q.elbow"]},
        tau={"shoulder": columns["tau.shoulder"], "elbow": columns["tau.elbow"]},
        current={"elbow": columns["current.elbow"]},
    )
    file = Recording.open(save_npz(tmp_path / "run.npz", columns))
    assert bits(everything(memory)) == bits(everything(file))


@pytest.mark.parametrize("kind", SAVE)
@pytest.mark.parametrize("size", [1, 7, ROWS - 1, ROWS, ROWS + 1])
def test_blocks_of_any_size_add_up_to_the_same_recording(
    kind: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = numbers()
    recording = Recording.open(SAVE[kind](tmp_path / f"run.{kind}", columns))
    monkeypatch.setattr(table_module, "BLOCK_ROWS", size)
    assert bits(everything(recording)) == bits(columns)
    if kind in ("parquet", "npz"):  # the reader of text blocks by bytes
        assert {len(b.time) for b in recording.blocks(["q.elbow"])} <= {
            min(size, ROWS),
            ROWS % size or size,
        }


@pytest.mark.parametrize("kind", ["csv", "parquet", "npz"])
def test_a_log_of_many_blocks_is_read_whole_and_in_order(kind: str, tmp_path: Path) -> None:
    count = 2 * BLOCK_ROWS + 17
    columns = {"t": np.arange(count) / 1024.0, "q.elbow": np.arange(1, count + 1) * -0.5}
    recording = Recording.open(SAVE[kind](tmp_path / f"run.{kind}", columns))
    assert bits(everything(recording)) == bits(columns)
    if kind != "csv":
        assert recording.table.rows == count
        assert len(list(recording.blocks(["q.elbow"]))) == 3


@pytest.mark.parametrize("kind", SAVE)
def test_a_recording_can_be_read_again_and_again(kind: str, tmp_path: Path) -> None:
    recording = Recording.open(SAVE[kind](tmp_path / f"run.{kind}", numbers()))
    first = recording.blocks(["q.elbow"])
    next(first)  # one reading begun and not ended does not disturb another
    assert bits(everything(recording)) == bits(everything(recording)) == bits(numbers())


@given(order=st.permutations(sorted(numbers())))
@settings(max_examples=20, deadline=None)
def test_signals_are_found_by_name_and_never_by_position(order: list[str]) -> None:
    columns = numbers()
    shuffled = {name: columns[name] for name in order}

    def read(names: Any) -> Any:
        yield np.stack([shuffled[n] for n in names], 1)

    recording = Recording.of_table(Table("memory", tuple(shuffled), ROWS, read))
    assert set(recording.signals) == set(columns) - {"t"}
    assert bits(everything(recording)) == bits(columns)


@pytest.mark.parametrize("kind", SAVE)
def test_columns_of_a_file_in_another_order_are_the_same_recording(
    kind: str, tmp_path: Path
) -> None:
    columns = numbers()
    turned = dict(reversed(columns.items()))
    recording = Recording.open(SAVE[kind](tmp_path / f"run.{kind}", turned))
    assert bits(everything(recording)) == bits(columns)


def test_signals_come_in_the_order_asked_for(tmp_path: Path) -> None:
    columns = numbers()
    recording = Recording.open(save_parquet(tmp_path / "run.parquet", columns))
    for names in (("tau.elbow", "q.shoulder"), ("q.shoulder", "tau.elbow")):
        (block,) = recording.blocks(names)
        assert np.array_equal(block.values, np.stack([columns[n] for n in names], 1))


def test_no_signals_are_still_times(tmp_path: Path) -> None:
    columns = numbers()
    (block,) = Recording.open(save_npz(tmp_path / "run.npz", columns)).blocks([])
    assert np.array_equal(block.time, columns["t"])
    assert block.values.shape == (ROWS, 0)


def test_columns_that_mean_nothing_are_left_out(tmp_path: Path) -> None:
    columns = {
        **numbers(),
        "temperature": np.zeros(ROWS),
        "q.": np.ones(ROWS),
        "x.elbow": np.ones(ROWS),
    }
    recording = Recording.open(save_npz(tmp_path / "run.npz", columns))
    assert set(recording.signals) == set(numbers()) - {"t"}


def test_text_in_columns_that_nobody_asks_for_is_no_matter(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text("t,note,q.elbow\n0,begin,1\n1,,2\n2,end,3\n")
    assert everything(Recording.open(path))["q.elbow"].tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_separators_line_ends_and_marks_of_text_make_no_difference(
    separator: str, start: str, end: str, tmp_path: Path
) -> None:
    columns = numbers()
    path = save_csv(tmp_path / "run.csv", columns, separator, start)
    path.write_bytes(path.read_bytes().replace(b"\n", end.encode()))
    assert bits(everything(Recording.open(path))) == bits(columns)


@pytest.mark.parametrize("separator", [",", ";"])
def test_other_columns_may_hold_text_of_any_encoding(separator: str, tmp_path: Path) -> None:
    head, row = ("t;q.elbow;note", "1;2.5;ok")
    lines = [head, *[row] * 5000, "2;3.5;Störung"]
    path = tmp_path / "run.csv"
    path.write_bytes("\n".join([*lines, ""]).replace(";", separator).encode("latin-1"))
    assert everything(Recording.open(path))["q.elbow"][-1] == 3.5


@pytest.mark.parametrize("salvaging", [False, True])
@pytest.mark.parametrize("separator", [";", "\t", " "])
def test_decimal_commas_and_the_line_of_spreadsheets_make_no_difference(
    separator: str, salvaging: bool, tmp_path: Path
) -> None:
    columns = numbers()
    path = save_csv(tmp_path / "run.csv", columns, separator)
    names, *rows = path.read_text().splitlines()
    rows = [line.replace(".", ",") for line in rows]
    path.write_text("\n".join([f"sep={separator}", names, *rows, ""]))
    damage: list[str] = []
    said = (lambda d: damage.append(str(d))) if salvaging else refuse
    recording = Recording.open(path, damaged=said)
    assert bits(everything(recording)) == bits(columns)
    assert not damage
    assert "decimal commas are read for points" in recording.notes


@pytest.mark.parametrize("text", ["", "nan", "NaN", "null", "None", "NA"])
def test_a_missing_number_is_nan_and_leaves_the_others_alone(text: str, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text(f"t,q.elbow\n0,1\n1,{text}\n2,3\n")
    values = everything(Recording.open(path))["q.elbow"]
    assert values[[0, 2]].tolist() == [1.0, 3.0]
    assert math.isnan(values[1])


@pytest.mark.parametrize("kind", [np.float32, np.int64, np.uint16, np.int8])
@pytest.mark.parametrize("file", ["npz", "parquet"])
def test_whole_and_short_numbers_are_widened_without_loss(
    file: str, kind: type, tmp_path: Path
) -> None:
    values = np.arange(100).astype(kind)
    path = SAVE[file](tmp_path / f"run.{file}", {"t": np.arange(100.0), "q.elbow": values})
    assert np.array_equal(everything(Recording.open(path))["q.elbow"], np.arange(100.0))


# What a unit is worth, from its definition, in exact numbers times a power of π.
WORTH = {
    "s": (1, 0),
    "ms": (Fraction(1, 1000), 0),
    "us": (Fraction(1, 10**6), 0),
    "µs": (Fraction(1, 10**6), 0),
    "ns": (Fraction(1, 10**9), 0),
    "rad": (1, 0),
    "deg": (Fraction(1, 180), 1),
    "turn": (2, 1),
    "m": (1, 0),
    "mm": (Fraction(1, 1000), 0),
    "rad/s": (1, 0),
    "deg/s": (Fraction(1, 180), 1),
    "rpm": (Fraction(2, 60), 1),
    "m/s": (1, 0),
    "mm/s": (Fraction(1, 1000), 0),
    "rad/s^2": (1, 0),
    "deg/s^2": (Fraction(1, 180), 1),
    "m/s^2": (1, 0),
    "mm/s^2": (Fraction(1, 1000), 0),
    "N·m": (1, 0),
    "Nm": (1, 0),
    "N*m": (1, 0),
    "mNm": (Fraction(1, 1000), 0),
    "kNm": (1000, 0),
    "N": (1, 0),
    "A": (1, 0),
    "mA": (Fraction(1, 1000), 0),
    "kN": (1000, 0),
    "mN": (Fraction(1, 1000), 0),
    "g": (Fraction(980665, 100000), 0),
    "1": (1, 0),
}


@pytest.mark.parametrize(("kind", "unit"), [(k, u) for k, units in UNITS.items() for u in units])
def test_units_are_worth_what_their_definition_says(kind: str, unit: str) -> None:
    factor, power = WORTH[unit]
    raw = np.array([-3.0, 0.0, 1.0, 180.0, 1e6])
    columns = {"clock": np.arange(5.0), "x": raw}
    table: dict[str, Any] = {"time": {"column": "clock"}}
    if kind == "t":
        columns, table = {"clock": raw}, {"time": {"column": "clock", "unit": unit}}
    else:
        letters = FRAME_KINDS.get(kind, "")
        of: dict[str, Any] = {"frame": "tool"} if letters else {"joints": ["elbow"]}
        of = {OWNERS[kind]: ["elbow"]} if kind in OWNERS else of
        columns |= {f"x{k}": raw for k in range(len(letters) or 1)}
        table[kind] = {"columns": [n for n in columns if n[1:].isdigit()], "unit": unit, **of}
        name = f"{kind}.tool.{letters[-1]}" if letters else f"{kind}.elbow"
    made = of_columns(columns, table)["t" if kind == "t" else name]
    # One rounding of the factor, one of π, one of the product.
    assert made == pytest.approx(raw * float(factor) * math.pi**power, rel=3 * EPS, abs=0.0)


COUNT = 5
small = st.floats(-1e3, 1e3, allow_subnormal=False)


def maps(kind: str, joints: int) -> st.SearchStrategy[dict[str, Any]]:
    """Return maps of a kind with everything set, but for matrices."""
    factor = st.floats(0.01, 200.0).flatmap(lambda x: st.sampled_from([x, -x]))
    return st.fixed_dictionaries(
        {
            "unit": st.sampled_from(sorted(UNITS[kind])),
            "sign": st.lists(st.sampled_from([1, -1]), min_size=joints, max_size=joints),
            "ratio": st.lists(factor, min_size=joints, max_size=joints),
            "scale": st.lists(factor, min_size=joints, max_size=joints),
            "offset": st.lists(small, min_size=joints, max_size=joints),
            "matrix": st.lists(
                st.lists(st.floats(-10, 10), min_size=joints, max_size=joints),
                min_size=joints,
                max_size=joints,
            ),
        }
    )


@pytest.mark.parametrize("kind", ["q", "v", "a", "tau", "current"])
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_a_map_is_offset_plus_unit_times_matrix_times_sign_scale_and_ratio(
    kind: str, data: st.DataObject
) -> None:
    joints = data.draw(st.integers(1, 3))
    entry = data.draw(maps(kind, joints))
    raw = np.random.default_rng(data.draw(st.integers(0, 99))).normal(size=(COUNT, joints))
    names = [f"x{k}" for k in range(joints)]
    table = {
        "time": {"step": 0.5},
        kind: {**entry, "columns": names, "joints": [f"j{k}" for k in range(joints)]},
    }
    made = of_columns({n: raw[:, k] for k, n in enumerate(names)}, table)
    for i in range(joints):
        terms = np.zeros((COUNT, joints))
        for k in range(joints):
            # A gear slows the joint and strengthens it.
            gear = entry["ratio"][k] if kind in ("tau", "current") else 1.0 / entry["ratio"][k]
            gain = entry["sign"][k] * entry["scale"][k] * gear
            terms[:, k] = UNITS[kind][entry["unit"]] * entry["matrix"][i][k] * gain * raw[:, k]
        expected = entry["offset"][i] + terms.sum(axis=1)
        # Six products and as many sums as joints and the offset, each rounded once.
        bound = 12 * EPS * (abs(entry["offset"][i]) + np.abs(terms).sum(axis=1)) + 1e-300
        assert np.all(np.abs(made[f"{kind}.j{i}"] - expected) <= bound)


@given(
    angles=st.lists(small, min_size=COUNT, max_size=COUNT),
    matrix=st.tuples(*[st.floats(-2, 2)] * 4).filter(
        lambda m: abs(m[0] * m[3] - m[1] * m[2]) > 0.1
    ),
)
@settings(max_examples=60, deadline=None)
def test_an_inverse_undoes_the_matrix_by_which_the_columns_were_made(
    angles: list[float], matrix: tuple[float, float, float, float]
) -> None:
    mixing = np.array(matrix).reshape(2, 2)
    joints = np.stack([angles, np.arange(COUNT)], 1)
    columns = joints @ mixing.T
    entry = {"columns": ["x", "y"], "joints": ["a", "b"], "inverse": mixing.tolist()}
    made = of_columns({"x": columns[:, 0], "y": columns[:, 1]}, {"time": {"step": 1.0}, "q": entry})
    got = np.stack([made["q.a"], made["q.b"]], 1)
    # Forward error of a solved system: a small multiple of its condition.
    bound = 16 * EPS * np.linalg.cond(mixing) * np.abs(joints).max(initial=1.0)
    assert np.abs(got - joints).max() <= bound


def test_matrix_and_inverse_of_one_another_are_the_same_map() -> None:
    rng = np.random.default_rng(3)
    columns = {"x": rng.normal(size=COUNT), "y": rng.normal(size=COUNT)}
    matrix = np.array([[1.0, 0.5], [0.0, 2.0]])
    both = [
        of_columns(
            columns,
            {
                "time": {"step": 1.0},
                "q": {
                    "columns": ["x", "y"],
                    "joints": ["a", "b"],
                    key: value.tolist(),
                    "sign": [1, -1],
                },
            },
        )
        for key, value in (("matrix", matrix), ("inverse", np.linalg.inv(matrix)))
    ]
    assert bits(both[0]) == bits(both[1])  # halves and quarters: nothing is rounded


def test_joints_of_a_map_may_come_in_any_order() -> None:
    rng = np.random.default_rng(4)
    columns = {"x": rng.normal(size=COUNT), "y": rng.normal(size=COUNT)}
    there = {"columns": ["x", "y"], "joints": ["a", "b"], "ratio": [100, -50], "offset": [1, 2]}
    back = {key: value[::-1] for key, value in there.items()}
    made = [of_columns(columns, {"time": {"step": 1.0}, "tau": e}) for e in (there, back)]
    assert bits(made[0]) == bits(made[1] | {"t": made[0]["t"]})


def test_a_map_without_conversions_leaves_every_bit() -> None:
    columns = {"x": np.array([0.1, 1 / 3, -0.0, 5e-324, -1.7e308])}
    made = of_columns(columns, {"time": {"step": 1.0}, "q": {"columns": ["x"], "joints": ["a"]}})
    assert made["q.a"].tobytes() == columns["x"].tobytes()


def test_an_array_of_two_dimensions_is_its_columns(tmp_path: Path) -> None:
    columns = numbers()
    positions = np.stack([columns["q.shoulder"], columns["q.elbow"]], 1)
    path = tmp_path / "run.npz"
    for order in "CF":
        np.savez(path, stamp=columns["t"], pos=np.asarray(positions, order=order))
        table = {
            "time": {"column": "stamp"},
            "q": {"array": "pos", "joints": ["shoulder", "elbow"]},
        }
        made = everything(Recording.open(path, ColumnMap.from_dict(table)))
        assert np.array_equal(np.stack([made["q.shoulder"], made["q.elbow"]], 1), positions)


def test_a_map_read_from_toml_is_the_map_of_its_table(tmp_path: Path) -> None:
    path = tmp_path / "map.toml"
    path.write_text(
        '[time]\ncolumn = "stamp"\nunit = "ms"\n[q]\ncolumns = ["x"]\n'
        'joints = ["elbow"]\nunit = "deg"\nsign = [-1]\n'
    )
    table = {
        "time": {"column": "stamp", "unit": "ms"},
        "q": {"columns": ["x"], "joints": ["elbow"], "unit": "deg", "sign": [-1]},
    }
    columns = {"stamp": np.arange(3.0), "x": np.array([0.0, 90.0, 180.0])}
    log = save_csv(tmp_path / "run.csv", columns)
    read = everything(Recording.open(log, ColumnMap.from_toml(path)))
    assert bits(read) == bits(of_columns(columns, table))


def test_a_constant_step_counts_rows_from_the_start_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save_npz(tmp_path / "run.npz", {"x": np.arange(50.0)})
    table = {"time": {"step": 0.002}, "q": {"columns": ["x"], "joints": ["elbow"]}}
    monkeypatch.setattr(table_module, "BLOCK_ROWS", 7)
    recording = Recording.open(path, ColumnMap.from_dict(table))
    assert np.array_equal(everything(recording)["t"], 0.002 * np.arange(50))
    assert np.array_equal(everything(recording.window(11, 30))["t"], 0.002 * np.arange(11, 30))


@given(
    start=st.integers(0, 60),
    length=st.integers(1, 60),
    inner=st.integers(0, 60),
    size=st.integers(1, 60),
)
@settings(max_examples=60, deadline=None)
def test_a_window_is_a_slice_and_a_window_of_a_window_a_slice_of_a_slice(
    start: int, length: int, inner: int, size: int
) -> None:
    time = np.arange(50.0)

    def read(_: Any) -> Any:
        for first in range(0, 50, size):
            yield np.stack([time[first : first + size], -time[first : first + size]], 1)

    recording = Recording.of_table(Table("memory", ("t", "q.elbow"), 50, read))

    def rows(of: Recording) -> list[float]:
        return [x for block in of.blocks(["q.elbow"]) for x in (-block.values[:, 0]).tolist()]

    once = recording.window(start, start + length)
    assert rows(once) == time[start : start + length].tolist()
    twice = once.window(inner, inner + 5)
    assert rows(twice) == time[start : start + length][inner : inner + 5].tolist()
    assert rows(once.window(inner, None)) == time[start : start + length][inner:].tolist()


def test_a_selection_marks_rows_and_reads_all_of_them() -> None:
    recording = Recording.from_arrays(np.arange(10.0), q={"elbow": np.arange(10.0)})
    chosen = recording.selecting(lambda rows: rows % 2 == 0)
    assert chosen.selection is not None
    assert chosen.selection(np.arange(4)).tolist() == [True, False, True, False]
    assert bits(everything(chosen)) == bits(everything(recording))


def test_provenance_names_the_columns_and_the_unit_of_every_signal() -> None:
    table = {
        "time": {"column": "t"},
        "q": {
            "columns": ["x", "y"],
            "joints": ["a", "b"],
            "unit": "deg",
            "matrix": [[1, 1], [0, 1]],
        },
    }
    columns = ColumnMap.from_dict(table)
    recording = Recording.of_table(Table("memory", ("t", "x", "y"), 0, lambda _: iter(())), columns)
    assert set(recording.provenance) == {"q.a", "q.b"}
    assert all(
        all(part in text for part in ("x", "y", "deg")) for text in recording.provenance.values()
    )


def test_a_needed_signal_that_is_not_there_is_named_with_the_nearest() -> None:
    recording = Recording.from_arrays(np.arange(3.0), "run7", q={"elbow_joint": np.zeros(3)})
    recording.require("q.elbow_joint", "is there")
    with pytest.raises(MissingSignal, match="says where joint 'elbow' is") as caught:
        recording.require("q.elbow", "says where joint 'elbow' is")
    assert caught.value.argument == "run7"
    assert "q.elbow_joint" in (caught.value.cure or "")


def test_the_hash_of_a_file_tells_files_apart_and_nothing_else(tmp_path: Path) -> None:
    data = [b"", b"a", b"a", b"b"]
    for k, content in enumerate(data):
        (tmp_path / str(k)).write_bytes(content)
    hashes = [file_hash(tmp_path / str(k)) for k in range(4)]
    assert json.loads(json.dumps(hashes)) == hashes
    assert hashes[0] == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert len(set(hashes)) == 3
    assert hashes[1] == hashes[2]


KINDS_OF_LISTS = {
    "lists": pyarrow.list_(pyarrow.float32()),
    "lists of a stated length": pyarrow.list_(pyarrow.float32(), 3),
    "large lists": pyarrow.large_list(pyarrow.float64()),
}


@pytest.mark.parametrize("kind", KINDS_OF_LISTS)
def test_lists_of_a_parquet_file_are_matrices(kind: str, tmp_path: Path) -> None:
    path, q = tmp_path / "episode.parquet", np.arange(90, dtype=np.float32).reshape(30, 3)
    columns = {
        "observation.state": pyarrow.array(q.tolist(), type=KINDS_OF_LISTS[kind]),
        "observation": pyarrow.array(range(30)),
        "words": pyarrow.array([["a"]] * 30),
        "timestamp": pyarrow.array(0.1 * np.arange(30)),
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), path, row_group_size=7)
    table = read_table(path)
    state = [f"observation.state[{k}]" for k in range(3)]
    assert table.columns == (*state, "observation", "timestamp") and table.others == ("words",)
    found = np.concatenate(list(table.read(["timestamp", *state[::-1]])))
    assert np.array_equal(found, np.column_stack([0.1 * np.arange(30), q[:, ::-1]]))


@pytest.mark.parametrize("odd", [[1.0], None, [1.0, 2.0, 3.0]])
def test_lists_of_unlike_lengths_are_refused_and_left_out_by_salvage(
    odd: list[float] | None, tmp_path: Path
) -> None:
    path = tmp_path / "episode.parquet"
    lists = [*([[0.0, 1.0]] * 20), odd, *([[0.0, 1.0]] * 9)]
    pyarrow.parquet.write_table(pyarrow.table({"q": lists}), path, row_group_size=10)
    with pytest.raises(InvalidRecording, match="differ in length"):
        list(read_table(path).read(["q[1]"]))
    damage: list[object] = []
    salvaged = list(read_table(path, damaged=damage.append).read(["q[1]"]))
    assert sum(map(len, salvaged)) == 20 and len(damage) == 1
