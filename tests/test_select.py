"""Selection of segments: laws on small problems by brute force, and the command on logs."""

from __future__ import annotations

import json
import math
import shutil
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from heft.applications.demo import FOLDER as DEMO
from heft.applications.inputs import Inputs
from heft.applications.select import Select, parsed, select_files
from heft.arrays import Array
from heft.errors import InvalidSetting, TooLittleData
from heft.estimators import LeastSquares
from heft.fit import Selection
from heft.fit.selection import _kept
from heft.information import SegmentSelection
from heft.models import Robot
from heft.plants import Problem, RobotPlant, Segments
from heft.recordings import Recording
from tests.test_cli import called, is_clean

ARM, RUN1, RUN2 = DEMO / "arm.urdf", DEMO / "run1.parquet", DEMO / "run2.parquet"
PLAIN = SegmentSelection(trace=1e-3)


def problem_of(seed: int, segments: int = 9, rows: int = 2, size: int = 3) -> Array:
    """Return segments of unlike size and direction, some of which repeat others."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(segments, rows, size)) * np.exp(rng.normal(size=(segments, 1, size)))
    factors[-1] = factors[0]
    return np.asarray(factors)


def value(factors: Array, chosen: tuple[int, ...], trace: float) -> float:
    """log det(trace · A + Σ A_k) − log det((1 + trace) A), from the definition."""
    grams = np.einsum("kri,krj->kij", factors, factors)
    whole = grams.sum(axis=0)
    part = trace * whole + grams[list(chosen)].sum(axis=0)
    return float(np.linalg.slogdet(part)[1] - np.linalg.slogdet((1.0 + trace) * whole)[1])


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("count", [1, 3, 5])
def test_choice_bound_and_greedy_keep_their_promises(seed: int, count: int) -> None:
    factors = problem_of(seed)
    found = PLAIN.choose(factors, count)
    all_values = [value(factors, c, PLAIN.trace) for c in combinations(range(9), count)]
    best, nothing = max(all_values), value(factors, (), PLAIN.trace)
    assert found.value == pytest.approx(value(factors, tuple(found.chosen), PLAIN.trace), abs=1e-9)
    assert found.greedy - nothing >= (1.0 - 1.0 / math.e) * (best - nothing) - 1e-9
    assert found.value >= found.greedy - 1e-9, "exchanges never lower"
    assert best - 0.05 * abs(best) <= found.value <= best + 1e-9
    assert found.bound >= best - 1e-9, "no choice is above the bound"
    assert len(set(found.chosen)) == count


@pytest.mark.parametrize("seed", range(4))
def test_lazy_greedy_is_greedy(seed: int) -> None:
    factors, taken = problem_of(seed, 12), []
    for _ in range(5):
        left = [k for k in range(12) if k not in taken]
        taken.append(max(left, key=lambda k: value(factors, (*taken, k), PLAIN.trace)))
    lazy = SegmentSelection(trace=PLAIN.trace, batch=1, most_exchanges=0.0)
    assert lazy.choose(factors, 5).greedy == pytest.approx(
        value(factors, tuple(taken), PLAIN.trace)
    )


def test_the_choice_does_not_depend_on_units_or_on_the_run() -> None:
    factors = problem_of(3, 30, 3, 5)
    one, two = (PLAIN.choose(factors, 6) for _ in range(2))
    scaled = PLAIN.choose(factors * np.array([1e-6, 1.0, 1e5, 3.0, 1e-2]), 6)
    assert np.array_equal(one.chosen, two.chosen) and np.array_equal(one.chosen, scaled.chosen)
    assert one.value == two.value and one.bound == two.bound
    assert scaled.value == pytest.approx(one.value, abs=1e-6)


def test_more_segments_say_more_and_what_is_known_is_not_chosen_again() -> None:
    factors = np.zeros((4, 1, 2))
    factors[:, 0] = [[1.0, 0.0], [0.9, 0.0], [0.0, 0.5], [0.0, 0.4]]
    assert set(PLAIN.choose(factors, 2).chosen) == {0, 2}
    assert set(PLAIN.choose(factors, 2, known=np.array([[100.0, 0.0]])).chosen) == {2, 3}
    values = [PLAIN.choose(problem_of(1), k).value for k in range(1, 10)]
    assert values == sorted(values) and values[-1] == pytest.approx(0.0, abs=1e-9)


def test_directions_that_nothing_tells_are_left_out() -> None:
    factors = problem_of(5)
    blind = np.concatenate([factors, np.zeros((9, 2, 1)), factors[:, :, :1]], axis=2)
    found = PLAIN.choose(blind, 3)
    assert found.rank == 3
    assert np.array_equal(found.chosen, PLAIN.choose(factors, 3).chosen)
    with pytest.raises(TooLittleData, match="no segment"):
        PLAIN.choose(np.zeros((3, 2, 4)), 1)
    with pytest.raises(InvalidSetting, match="cannot be chosen"):
        PLAIN.choose(factors, 10)


# --- segments of logs


def demo_problem(*logs: Path) -> Problem[RobotPlant]:
    robot = Robot.from_file(ARM)
    return Problem(RobotPlant(robot), tuple(Recording.open(p) for p in logs))


def test_information_of_segments_is_that_of_the_logs() -> None:
    problem = demo_problem(RUN1, RUN2)
    information = problem.information()
    weights = LeastSquares(coloured=False).solve(information).weights()
    segments = Segments.of(problem, weights, 0.5)
    size = segments.factors.shape[2]
    stacked = np.linalg.qr(segments.factors.reshape(-1, size), mode="r")
    assert segments.left + segments.counts.sum() == information.triangles[0].rows
    # No column can be longer than all rows make it; what is left out is some hundredths.
    whole = np.linalg.norm(information.combined(weights).R, axis=0)
    share = np.linalg.norm(stacked, axis=0)[whole > 0.0] / whole[whole > 0.0]
    assert share.max() <= 1.0 + 1e-9 and np.median(share) > 0.95
    assert (np.diff(segments.rows, axis=1) > 0).all()
    same = segments.recording[1:] == segments.recording[:-1]
    assert (segments.rows[1:, 0] >= segments.rows[:-1, 1])[same].all()
    assert (np.diff(segments.times, axis=1) <= 0.5 + 1e-6).all()


def test_threads_do_not_matter() -> None:
    problem = demo_problem(RUN2)
    weights = dict.fromkeys(problem.channels, 1.0)
    made = [
        Segments.of(problem.with_settings(threads=n), weights, 0.2).factors.tobytes()
        for n in (1, 2)
    ]
    assert made[0] == made[1]


@pytest.mark.parametrize(
    ("text", "whole", "kept"),
    [("60s", 100.0, 60.0), ("60", 100.0, 60.0), ("2min", 999.0, 120.0), ("10 %", 50.0, 5.0)],
)
def test_how_much_is_kept_is_a_time_or_a_share(text: str, whole: float, kept: float) -> None:
    assert parsed(text)(whole) == pytest.approx(kept)


# --- the command


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the demonstration's logs, a selection of them, and bad ones."""
    place = tmp_path_factory.mktemp("select")
    for file in (ARM, RUN1, RUN2):
        shutil.copy(file, place / file.name)
    done = called("select", "arm.urdf", "run1.parquet", "run2.parquet", "--keep", "6s", cwd=place)
    assert done.code == 0, done.told
    (place / "said").write_text(done.said)
    (place / "text.json").write_text("{}")
    content = json.loads((place / "selection.json").read_text())
    content["logs"][0]["rows"] = [[10, 5]]
    (place / "backwards.json").write_text(json.dumps(content))
    for log in content["logs"]:
        log["rows"] = log["seconds"] = []
    (place / "nothing.json").write_text(json.dumps(content))
    return place


def test_what_is_said_and_written_is_the_same_choice(folder: Path) -> None:
    said = (folder / "said").read_text()
    assert "6 s of" in said and "nats better" in said and "at random" in said
    for name in ("upper_arm", "wrist_3", "elbow", "never", "fastest"):
        assert name in said
    found = Selection.load(folder / "selection.json")
    assert len(found.logs) == 2
    seconds = sum(float(np.diff(k.seconds, axis=1).sum()) for k in found.logs.values())
    stretches = sum(len(k.rows) for k in found.logs.values())
    step = 1.0 / 250.0
    assert seconds + stretches * step == pytest.approx(6.0, abs=stretches * step)
    recording = Recording.open(folder / "run1.parquet")
    kept = found.logs[recording.sha256]
    (time,) = (np.concatenate([b.time for b in recording.blocks(["q.elbow"])]),)
    rows = np.arange(len(time))
    assert kept.holds(rows).sum() == np.diff(kept.rows, axis=1).sum()
    assert np.allclose(time[kept.rows[:, 0]], kept.seconds[:, 0], atol=1e-5)
    assert np.allclose(time[kept.rows[:, 1] - 1], kept.seconds[:, 1], atol=1e-5)


def test_a_selection_is_fitted_and_named_among_the_inputs(folder: Path) -> None:
    asked = ("identify", "arm.urdf", "run2.parquet", "--only", "selection.json", "--out", "found")
    asked = (*asked, "--explain")  # lists scores
    done = called(*asked, cwd=folder)
    assert done.code == 0, done.told
    assert "rows are selected" in done.told
    estimate = json.loads((folder / "found" / "estimate.json").read_text())
    assert "selection" in [i["role"] for i in estimate["inputs"]]
    kept = Selection.load(folder / "selection.json").logs[Recording.open(RUN2).sha256]
    told = done.told.split(" rows are selected")[0].split("heft: ")[-1].split(" of ")
    assert int(told[0]) == np.diff(kept.rows, axis=1).sum() < 0.5 * int(told[1])
    scored = done.said.split("run2.parquet   fit      full  ")
    assert len(scored) == 3, "raw and filtered, over the whole log"
    assert float(scored[2].split("%")[0].split()[-1]) < 3.0


def test_selections_are_repeated_byte_for_byte(folder: Path, tmp_path: Path) -> None:
    inputs, out = Inputs.open(folder / "arm.urdf", None, None), tmp_path / "again.json"
    select_files(inputs, [folder / "run1.parquet", folder / "run2.parquet"], "6s", out)
    first = json.loads((folder / "selection.json").read_text())
    again = json.loads(out.read_text())
    for log in (*first["logs"], *again["logs"]):
        log["path"] = Path(log["path"]).name
    assert first == again


def test_a_joint_that_never_moved_is_named(tmp_path: Path) -> None:
    table = pyarrow.parquet.read_table(RUN2)
    columns = {n: table[n].to_numpy() for n in table.column_names}
    still = {
        n: np.full(len(columns["t"]), x[0]) for n, x in columns.items() if n == "q.wrist_3_joint"
    }
    still["q.wrist_3_joint"] = still["q.wrist_3_joint"] + 1e-6 * np.sin(columns["t"])
    gone = {n for n in columns if n.startswith("v.")}
    kept = {n: x for n, x in {**columns, **still}.items() if n not in gone}
    pyarrow.parquet.write_table(pyarrow.table(kept), tmp_path / "still.parquet")
    found = select_files(
        Inputs.open(ARM, None, None), [tmp_path / "still.parquet"], "3s", tmp_path / "s.json"
    )
    mine = found.excitation.of("wrist_3_joint")
    ratio = dict(
        zip(np.array(found.excitation.names)[mine], found.excitation.ratio[mine], strict=True)
    )
    assert ratio["wrist_3_joint.viscous"] > Select().never
    assert "wrist_3_joint.viscous" in found.text().split("never excited:")[1].split("\n")[0]
    assert found.excitation.ratio[found.excitation.of("elbow")].max() < Select().hardly


@pytest.mark.parametrize(
    "rows", [[[-1, 5]], [[5, 5]], [[5, 4]], [[0, 5], [4, 8]], [[0, 2**62]]], ids=str
)
def test_rows_that_cannot_be_kept_are_refused(rows: list[list[int]]) -> None:
    _kept({"path": "run.csv", "rows": [[0, 5], [5, 8]]})
    with pytest.raises(ValueError, match="follow one another"):
        _kept({"path": "run.csv", "rows": rows})


BAD: dict[str, tuple[str, tuple[str, ...]]] = {
    "no log": ("select arm.urdf --keep 3s", ("no log is given",)),
    "keep": ("select arm.urdf run2.parquet --keep lots", ("--keep", "60s, 2min or 10%")),
    "share": ("select arm.urdf run2.parquet --keep 120%", ("--keep",)),
    "all": (
        "select arm.urdf run2.parquet --keep 1h",
        ("nothing is to be selected", "all there is"),
    ),
    "little": ("select arm.urdf run2.parquet --keep 0.01s", ("less than a segment",)),
    "twice": ("select arm.urdf run2.parquet run2.parquet --keep 3s", ("twice", "run2.parquet")),
    "segment": ("select arm.urdf run2.parquet --keep 3s --segment 0", ("--segment",)),
    "out": ("select arm.urdf run2.parquet --keep 3s --out s.csv", (".json",)),
    "no selection": (
        "identify arm.urdf run2.parquet --only text.json",
        ("no selection", "heft select"),
    ),
    "damaged": ("identify arm.urdf run2.parquet --only backwards.json", ("no selection", "rows")),
    "nothing kept": ("identify arm.urdf run2.parquet --only nothing.json", ("keeps nothing",)),
    "missing": ("identify arm.urdf run2.parquet --only selectio.json", ("did you mean",)),
    "other log": (
        "identify arm.urdf other.parquet --only selection.json",
        ("other logs", "SHA-256"),
    ),
    "averaged": (
        "identify arm.urdf run2.parquet --only selection.json --average",
        ("--average", "--only"),
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named_with_its_cure_and_leaves_nothing(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from heft.cli import main

    command, words = BAD[name]
    monkeypatch.chdir(folder)
    table = pyarrow.parquet.read_table(RUN2)
    pyarrow.parquet.write_table(table.slice(0, 1000), folder / "other.parquet")
    before = {p.name for p in folder.iterdir()}
    monkeypatch.setattr(sys, "argv", ["heft", *command.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr().err
    assert ended.value.code == 2, told
    assert [w for w in words if w not in told] == [], told
    assert is_clean(told)
    assert {p.name for p in folder.iterdir()} == before
