"""Parts of one clock are one log: the others' values at the first one's times."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from heft.errors import HeftError, InvalidRecording, InvalidSetting
from heft.recordings.columns import ColumnMap
from heft.recordings.formats.table import Table, join
from heft.recordings.recording import Recording

Array = NDArray[np.float64]


def table(columns: dict[str, Array], size: int = 1000, epoch: int | None = None) -> Table:
    count = len(columns["t"])

    def read(names: Sequence[str]) -> Iterator[Array]:
        for first in range(0, count, size):
            yield np.stack([columns[n][first : first + size] for n in names], 1)

    return Table("+".join(columns), tuple(columns), count, read, epoch=epoch)


def whole(joined: Table, names: Sequence[str] = ()) -> dict[str, Array]:
    names = names or joined.columns
    return dict(zip(names, np.concatenate(list(joined.read(names))).T, strict=True))


def steady(count: int, step: float, start: float = 0.0) -> Array:
    return start + step * np.arange(count)


steps = st.lists(st.floats(1e-3, 9e-3), min_size=3, max_size=40)


@given(first=steps, second=steps, start=st.floats(-0.1, 0.1), size=st.integers(1, 50))
@settings(max_examples=100, deadline=None)
def test_a_joined_value_is_that_of_linear_interpolation_whatever_the_blocks(
    first: list[float], second: list[float], start: float, size: int
) -> None:
    clock, other = np.cumsum(first), start + np.cumsum(second)
    values = np.random.default_rng(0).normal(size=len(other))
    expected = np.interp(clock, other, values, left=np.nan, right=np.nan)
    parts = [table({"t": clock}, size), table({"t": other, "q.a": values}, 1 + size // 3)]
    try:
        made = whole(join(parts, "both"))["q.a"]
    except InvalidRecording:
        assert np.isnan(expected).all()
        return
    near = np.abs(clock[:, None] - other[None, :]).min(axis=1) <= 2e-9  # the same stamp
    np.testing.assert_allclose(made[~near], expected[~near], rtol=0, atol=1e-12)


def test_at_the_same_stamps_nothing_is_interpolated_and_every_bit_stays() -> None:
    clock = steady(500, 1e-3)
    values = np.random.default_rng(0).normal(size=500) * 10.0 ** np.arange(-250, 250)
    made = whole(join([table({"t": clock}, 77), table({"t": clock, "q.a": values}, 50)], "both"))
    assert made["q.a"].tobytes() == values.tobytes()


def test_stamps_of_unlike_beginnings_are_compared_as_whole_nanoseconds() -> None:
    epoch, later = 1_700_000_000_000_000_001, 1_700_000_000_250_000_001
    first = table({"t": steady(1000, 1e-3)}, epoch=epoch)
    second = table({"t": steady(500, 1e-3), "q.a": np.arange(500.0)}, epoch=later)
    made = whole(join([first, second], "both"))["q.a"]
    assert np.array_equal(made[250:750], np.arange(500.0))
    assert np.isnan(made[:250]).all() and np.isnan(made[750:]).all()


def test_nothing_is_interpolated_over_a_silence() -> None:
    other = steady(200, 1e-3)
    other[100:] += 0.5
    clock = steady(700, 1e-3, 0.2e-3)
    made = whole(join([table({"t": clock}), table({"t": other, "q.a": other})], "both"))["q.a"]
    silent = (clock > other[99]) & (clock < other[100])
    assert np.isnan(made[silent]).all()
    spoken = (clock < other[-1]) & ~silent
    assert made[spoken] == pytest.approx(clock[spoken], abs=1e-12)


def test_a_clock_that_jumps_back_gives_no_values_until_it_has_caught_up() -> None:
    clock = np.concatenate([steady(100, 1e-3), steady(200, 1e-3, 0.05)])
    other = steady(400, 1e-3)
    made = whole(join([table({"t": clock}, 30), table({"t": other, "q.a": other}, 30)], "both"))
    advancing = clock > np.concatenate([[-1.0], np.maximum.accumulate(clock)[:-1]])
    assert made["q.a"][advancing] == pytest.approx(clock[advancing], abs=1e-15)
    assert np.isnan(made["q.a"][~advancing]).all()


def test_a_turn_is_interpolated_the_short_way_and_stays_one() -> None:
    angle = np.linspace(0.0, 3.0, 50)
    other = steady(50, 1e-2)
    flips = np.where(np.arange(50) % 2, -1.0, 1.0)  # q and -q are one turn
    columns = {"quat.b.w": flips * np.cos(angle / 2), "quat.b.x": flips * np.sin(angle / 2)}
    columns |= {f"quat.b.{x}": np.zeros(50) for x in "yz"}
    clock = steady(480, 1e-3)
    made = whole(join([table({"t": clock}), table({"t": other, **columns})], "both"))
    turned = 2.0 * np.arctan2(made["quat.b.x"], made["quat.b.w"]) % (2.0 * np.pi)
    # A chord instead of an arc: third order in the step of angle.
    assert turned == pytest.approx(np.interp(clock, other, angle), abs=(3.0 / 49) ** 3)
    norm = np.sqrt(sum(made[f"quat.b.{x}"] ** 2 for x in "wxyz"))
    assert norm == pytest.approx(np.ones(480), abs=1e-15)


def test_clocks_without_a_common_time_are_refused_with_their_times() -> None:
    parts = [table({"t": steady(100, 0.01)}), table({"t": steady(9, 0.01, 1e9), "q.a": np.ones(9)})]
    with pytest.raises(InvalidRecording, match="clocks are not aligned") as caught:
        whole(join(parts, "both"))
    assert "offset" in str(caught.value)


def experiment(folder: Path, text: str) -> Path:
    rng = np.random.default_rng(1)
    time = steady(100, 1 / 512)
    np.savez(folder / "joints.npz", t=time, **{"q.a": rng.normal(size=100)})
    np.savez(folder / "efforts.npz", stamp=1000.0 * (time + 5.0), **{"x": rng.normal(size=100)})
    (folder / "efforts.toml").write_text(
        '[time]\ncolumn = "stamp"\nunit = "ms"\n[tau]\ncolumns = ["x"]\njoints = ["a"]\n'
    )
    (folder / "run.toml").write_text(text)
    return folder / "run.toml"


PARTS = '[[part]]\nfile = "joints.npz"\n[[part]]\nfile = "efforts.npz"\nmap = "efforts.toml"\n'


def test_files_of_one_experiment_are_one_recording(tmp_path: Path) -> None:
    recording = Recording.open(experiment(tmp_path, PARTS + "offset = -5.0\n"))
    (block,) = recording.blocks(["q.a", "tau.a"])
    with np.load(tmp_path / "joints.npz") as joints, np.load(tmp_path / "efforts.npz") as efforts:
        assert np.array_equal(block.time, joints["t"])
        assert np.array_equal(block.values, np.stack([joints["q.a"], efforts["x"]], 1))
    assert "efforts.npz" in recording.provenance["tau.a"]


def test_the_hash_of_an_experiment_is_that_of_all_its_files(tmp_path: Path) -> None:
    path = experiment(tmp_path, PARTS)
    before = Recording.open(path)
    assert Recording.open(path).sha256 == before.sha256
    names = ("run.toml", "joints.npz", "efforts.npz", "efforts.toml")
    hashes = [hashlib.sha256((tmp_path / n).read_bytes()).hexdigest() for n in names]
    whole = hashlib.sha256("".join(f"{h}\n" for h in hashes).encode()).hexdigest()
    assert before.sha256 == whole
    mapping = tmp_path / "efforts.toml"
    mapping.write_text(mapping.read_text() + "# the same map, other bytes\n")
    assert Recording.open(path).sha256 != before.sha256


def test_an_experiment_whose_part_was_changed_is_refused(tmp_path: Path) -> None:
    path = experiment(tmp_path, PARTS)
    recording = Recording.open(path)
    recording.refuse_changed()
    mapping = tmp_path / "efforts.toml"
    mapping.write_text(mapping.read_text() + "# more\n")
    with pytest.raises(InvalidRecording, match="changed while it was read") as caught:
        recording.refuse_changed()
    assert caught.value.argument == str(mapping)
    with pytest.raises(InvalidRecording, match="changed while it was read"):
        _ = recording.sha256


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (PARTS, "clocks are not aligned"),
        ("", "names its parts"),
        ("part = 3", "names its parts"),
        ("[[part]]\nfile = 3", "name of a file"),
        ('[[part]]\nfiles = "joints.npz"', "did you mean 'file'"),
        ('[[part]]\nfile = "joints.npz"\noffset = "x"', "number"),
        ('[[part]]\nfile = "joints.npz"\n[[part]]\nfile = "joints.npz"', "two parts hold 'q.a'"),
        ('[[part]]\nfile = "run.toml"', "not an experiment"),
        ('[[part]]\nfile = "other.npz"', "does not exist"),
    ],
)
def test_an_experiment_that_is_none_is_refused(text: str, says: str, tmp_path: Path) -> None:
    path = experiment(tmp_path, text)
    with pytest.raises(HeftError, match=says):
        list(Recording.open(path).blocks(["q.a", "tau.a"]))


def test_an_experiment_takes_no_map_besides_those_of_its_parts(tmp_path: Path) -> None:
    path = experiment(tmp_path, PARTS)
    with pytest.raises(InvalidSetting, match="map of each of its parts"):
        Recording.open(path, ColumnMap.from_dict({"time": {"step": 1.0}}))
