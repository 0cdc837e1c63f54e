"""The command line: what it prints, leaves behind and exits with.

As real processes where a process is the matter: signals, pipes, streams, what it imports. Else in
this one, where nothing is loaded anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import get_args, get_type_hints

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest

from heft import __version__
from heft.applications.demo import FOLDER as DEMO
from heft.applications.identification.results import FILES
from heft.cli import EstimationOptions, main
from heft.estimators import ESTIMATORS, robust_methods

SOURCE = Path(__file__).parents[1] / "src"
ARM, RUN1, RUN2 = DEMO / "arm.urdf", DEMO / "run1.parquet", DEMO / "run2.parquet"
HEFT = [sys.executable, "-m", "heft"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SOURCE), "COLUMNS": "100", "LC_ALL": "C.UTF-8"}
HEAVY = ("clarabel", "coal", "jinja2", "numba", "pinocchio", "pyarrow", "scipy")


@dataclass(frozen=True)
class Ended:
    """What a process left."""

    code: int
    said: str
    told: str


def heft(*arguments: str | Path, cwd: Path, timeout: float = 120.0) -> Ended:
    """Run the command line in a folder, to its end."""
    done = subprocess.run(
        [*HEFT, *map(str, arguments)],
        cwd=cwd,
        env=ENVIRONMENT,
        capture_output=True,
        timeout=timeout,
        check=False,
    )
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


def called(*arguments: str | Path, cwd: Path) -> Ended:
    """Run the command line in this process, to its end: a traceback is the test's own."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.MonkeyPatch.context() as patch,
        pytest.raises(SystemExit) as ended,
    ):
        patch.setenv("COLUMNS", "100")
        patch.setattr(sys, "argv", ["heft", *map(str, arguments)])
        main()
    return Ended(int(ended.value.code or 0), out.getvalue(), err.getvalue())


def tree(folder: Path) -> dict[str, bytes | None]:
    """Return all that is below a folder: bytes of files, None of folders."""
    return {
        str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None
        for p in folder.rglob("*")
    }


def is_clean(text: str) -> bool:
    """Return whether a text shows a user nothing of Python."""
    return not any(w in text for w in ("Traceback", "Exception ignored", 'File "'))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of good and bad inputs, and good results in `found`."""
    folder = tmp_path_factory.mktemp("inputs")
    for name, text in TEXTS.items():
        (folder / name).write_text(text)
    shutil.copy(ARM, folder / "arm.urdf")
    (folder / "cut.urdf").write_bytes(ARM.read_bytes()[:2000])
    table = pyarrow.parquet.read_table(RUN1)
    columns = {n: table[n].to_numpy() for n in table.column_names}

    def log(name: str, changed: dict[str, object], rows: int | None = None) -> None:
        chosen = {k: v[:rows] for k, v in {**columns, **changed}.items() if v is not None}  # type: ignore[index]
        pyarrow.parquet.write_table(pyarrow.table(chosen), folder / name)

    torques = [n for n in columns if n.startswith("tau.")]
    rng = np.random.default_rng(1)
    log("run.parquet", {})
    log("short.parquet", {}, rows=5)
    log("small.parquet", {}, rows=len(columns["t"]) // 2)
    log("no_torque.parquet", dict.fromkeys(torques))
    log("no_elbow.parquet", {"q.elbow": None})
    log("no_time.parquet", {"t": None})
    log("backwards.parquet", {"t": columns["t"][::-1]})
    log("all_nan.parquet", {"q.elbow": np.full(len(columns["t"]), np.nan)})
    # About zero, or the offsets would explain the mean.
    log("shuffled.parquet", {n: rng.permuted(columns[n]) - columns[n].mean() for n in torques})
    pyarrow.csv.write_csv(table, folder / "run.csv")
    (folder / "cut.parquet").write_bytes(RUN1.read_bytes()[:100_000])
    (folder / "foreign").mkdir()
    (folder / "foreign" / "thesis.tex").write_text("four years")
    done = called("identify", ARM, RUN1, "--validate", RUN2, "--out", "found", cwd=folder)
    assert done.code == 0, done.told
    (folder / "said").write_text(done.said)
    (folder / "told").write_text(done.told)
    for name in ("damaged", "headless"):
        shutil.copytree(folder / "found", folder / name)
    information = folder / "damaged" / "information.npz"
    information.write_bytes(information.read_bytes()[:5000])
    (folder / "headless" / "estimate.json").write_text("{}")
    return folder


TEXTS = {
    "broken.toml": "gravity = [0, 0",
    "unknown.toml": "gravitation = [0, 0, -9.81]",
    "unknown_joint.toml": "[joint.elbo]\narmature = false",
    "free.toml": 'base = "free"',
    "broken_map.toml": '[q]\njoints = ["elbow"]\ncolumns = ["a", "b"]',
    "other_map.toml": '[time]\ncolumn = "stamp"',
    "text.parquet": "this is no Parquet",
    "text.npz": "this is no archive",
    "empty.csv": "",
    "headless.csv": "0.0,1.0,2.0\n0.1,1.0,2.0\n",
    "words.csv": "t,q.elbow,tau.elbow\n0.0,much,little\n",
    "log.xlsx": "t,q.elbow",
    "empty.urdf": "",
    "robot.xacro": '<robot xmlns:xacro="x" name="r"><xacro:include filename="f"/></robot>',
}


# Happy paths


def test_help_names_the_commands(tmp_path: Path) -> None:
    for asked in (("--help",), ("-h",), ()):
        done = called(*asked, cwd=tmp_path)
        assert done.code == 0
        assert done.told == ""
        assert {"identify", "predict", "demo"} <= set(done.said.split())


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("identify", ("--out", "--validate", "--map", "--with", "--given", "--corner", "--quiet")),
        (
            "identify",
            ("--rows", "--smoother", "--delay", "--method", "--robust", "--average", "--prior"),
        ),
        ("predict", ("--out", "--map", "--friction")),
        ("demo", ("--out", "--quiet")),
    ],
)
def test_help_of_a_command_names_its_options(
    command: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    done = called(command, "--help", cwd=tmp_path)
    assert done.code == 0
    assert [w for w in words if w not in done.said] == []


def test_the_version_is_the_packages(tmp_path: Path) -> None:
    assert called("--version", cwd=tmp_path).said.strip() == __version__


def test_the_installed_command_is_the_module(tmp_path: Path) -> None:
    script = Path(sys.executable).with_name("heft")
    done = subprocess.run(
        [script, "--help"], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, check=True
    )
    assert done.stdout.decode() == heft("--help", cwd=tmp_path).said


def test_identify_leaves_its_folder_and_says_what_it_found(files: Path) -> None:
    assert sorted(p.name for p in (files / "found").iterdir()) == sorted(FILES)
    said, told = ((files / name).read_text() for name in ("said", "told"))
    assert "upper_arm" in said and "wrist_3_joint" in said
    assert f"found: {', '.join(sorted(FILES))}. --explain" in said
    assert len(said.splitlines()) <= 25
    assert told and all(line.startswith("heft: ") for line in told.splitlines())
    assert [p.name for p in files.iterdir() if p.name.startswith(".")] == []


def test_a_quiet_process_whose_first_line_alone_is_read_leaves_the_same_bytes(
    files: Path, tmp_path: Path
) -> None:
    call = shlex.join([*HEFT, "identify", *map(str, (ARM, RUN1, "--validate", RUN2)), "--quiet"])
    done = subprocess.run(
        f"{call} | head -1", shell=True, cwd=tmp_path, env=ENVIRONMENT, capture_output=True
    )
    assert done.stdout.decode().startswith("arm: ")
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr.decode() == ""
    assert tree(tmp_path / "identified") == tree(files / "found")


@pytest.fixture(scope="module")
def again(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of results that stand on earlier ones, in whose place they were put."""
    folder = tmp_path_factory.mktemp("again")
    shutil.copytree(files / "found", folder / "found")
    (folder / "options.toml").write_text("[joint.elbow]\nreduction = 100.0\n")
    done = called(
        *("identify", ARM, RUN2, "--given", "found", "--with", "options.toml", "--out", "found"),
        *("--corner", "15", "--trim", "1", "--threads", "1"),
        cwd=folder,
    )
    assert done.code == 0, done.told
    return folder


def test_results_are_taken_for_earlier_information_and_replaced_by_new_ones(
    files: Path, again: Path
) -> None:
    assert sorted(p.name for p in again.iterdir()) == ["found", "options.toml"]
    estimate = json.loads((again / "found" / "estimate.json").read_text())
    before = json.loads((files / "found" / "estimate.json").read_text())
    rows = [k["rows"] for k in estimate["information"]["channels"]]
    already = [k["rows"] for k in before["information"]["channels"]]
    assert all(now > 1.3 * then for now, then in zip(rows, already, strict=True))
    elbow = estimate["joints"]["elbow"]
    assert elbow["rotor"] == pytest.approx(elbow["armature"] / 1e4)
    assert estimate["settings"]["smoothing"]["corner"] == 15.0
    fitted = [i["path"] for i in estimate["inputs"] if i["role"] == "fit"]
    assert [Path(p).name for p in fitted] == ["run2.parquet"]


def test_earlier_information_is_named_among_the_inputs(files: Path, again: Path) -> None:
    inputs = json.loads((again / "found" / "estimate.json").read_text())["inputs"]
    digest = hashlib.sha256((files / "found" / "information.npz").read_bytes()).hexdigest()
    assert ("given", digest) in [(i["role"], i["sha256"]) for i in inputs]


FLAGS: dict[str, dict[tuple[str, ...], object]] = {
    # what is asked, and where the estimate says so
    "--rows weak --prior logdet --delay 0": {
        ("settings", "weak", "power"): 2,
        ("settings", "consistent", "prior"): "logdet",
        ("settings", "smoothing", "delay"): 0.0,
    },
    "--smoother spline --robust hampel --delay 0.003": {
        ("settings", "smoothing", "method"): "spline",
        ("settings", "robust"): "hampel",
        ("delay", "delay"): 0.003,
    },
    "--method huber --delay 0": {("settings", "method"): "huber", ("settings", "robust"): "none"},
}


def test_the_command_offers_the_estimators_that_are_registered() -> None:
    offered = get_type_hints(EstimationOptions)
    assert get_args(offered["method"]) == tuple(ESTIMATORS)
    assert get_args(offered["robust"]) == ("none", *robust_methods())


@pytest.mark.parametrize("asked", FLAGS)
def test_flags_do_what_they_say(asked: str, files: Path, tmp_path: Path) -> None:
    log = files / "small.parquet"
    done = called("identify", ARM, log, "--out", "found", "--quiet", *asked.split(), cwd=tmp_path)
    assert done.code == 0, done.told
    estimate = json.loads((tmp_path / "found" / "estimate.json").read_text())
    # In windows of half a log the weak form leaves much of the friction's course open, and says so.
    failed = {c["name"] for c in estimate["checks"] if c["status"] == "fail"}
    assert failed <= ({"predicted error"} if "weak" in asked else set())
    (entry,) = (k for k in estimate["inputs"] if k["role"] == "fit")
    assert entry["samples"] == pyarrow.parquet.read_metadata(log).num_rows
    for place, value in FLAGS[asked].items():
        said = estimate
        for key in place:
            said = said[key]
        assert said == value, place


@pytest.mark.parametrize("friction", ["full", "simple", "none"])
def test_predict_writes_torques_at_the_logs_times(
    friction: str, files: Path, tmp_path: Path
) -> None:
    arguments = (files / "found", files / "run.csv", "--out", "tau.parquet", "--friction", friction)
    done = called("predict", *arguments, cwd=tmp_path)
    assert (done.code, done.told) == (0, "")
    table = pyarrow.parquet.read_table(tmp_path / "tau.parquet")
    log = pyarrow.parquet.read_table(RUN1)
    assert np.array_equal(table["t"].to_numpy(), log["t"].to_numpy())
    assert str(log.num_rows) in done.said
    measured, said = log["tau.elbow"].to_numpy(), table["tau.elbow"].to_numpy()
    left = np.linalg.norm(said - measured) / np.linalg.norm(measured)
    assert left > 0.1 if friction == "none" else left < 0.1


def test_a_slow_log_is_scored_and_predicted_at_its_own_corner(files: Path, tmp_path: Path) -> None:
    table = pyarrow.parquet.read_table(RUN2)
    columns = {n: table[n].to_numpy() for n in table.column_names}
    for name, rate in (("slow10Hz.csv", 10.0), ("slow33Hz.csv", 33.0)):
        time = np.arange(columns["t"][0], columns["t"][-1], 1.0 / rate)
        slow = {n: np.interp(time, columns["t"], x) for n, x in columns.items()}
        pyarrow.csv.write_csv(pyarrow.table(slow | {"t": time}), tmp_path / name)
    logs = [tmp_path / "slow10Hz.csv", RUN2, tmp_path / "slow33Hz.csv"]
    done = called("identify", ARM, RUN1, "--validate", *logs, "--out", "found", cwd=tmp_path)
    assert done.code == 0, done.told
    found = json.loads((tmp_path / "found" / "estimate.json").read_text())
    before = json.loads((files / "found" / "estimate.json").read_text())
    assert found["parameters"] == before["parameters"]
    fast = [s for s in found["validation"] if s["path"] == str(RUN2)]
    assert fast == before["validation"]
    usual = max(s["filter_hz"] or 0.0 for s in before["validation"])
    own = {s["filter_hz"] for s in found["validation"] if "slow10Hz" in s["path"]}
    assert max(hz for hz in own if hz) == pytest.approx(4.0, rel=1e-3)
    assert usual > 4.0
    for note, rate in zip(found["notes"], (10, 33), strict=True):
        assert f"slow{rate}Hz.csv is sampled at {rate} Hz" in note
        assert note in done.said.replace("\n", " ")
    assert "slow10Hz.csv is sampled at 10 Hz" in (tmp_path / "found" / "report.html").read_text()
    done = called("predict", "found", logs[0], "--out", "tau.parquet", cwd=tmp_path)
    assert done.code == 0, done.told


def test_demo_compares_with_the_truth(tmp_path: Path) -> None:
    done = called("demo", cwd=tmp_path)
    assert done.code == 0
    assert sorted(p.name for p in (tmp_path / "demo-out").iterdir()) == sorted(FILES)
    assert "truth" in done.said


# Bad inputs

GOOD = "identify {arm} {run}"
BAD: dict[str, tuple[str, str]] = {
    # name: the command line, and a word that must be said
    "an unknown command": ("identfy {arm} {run}", "identfy"),
    "an unknown option": (f"{GOOD} --wait 3", "--wait"),
    "nothing to identify": ("identify", "model"),
    "no log": ("identify {arm}", "no log"),
    "an option without its value": (f"{GOOD} --corner", "--corner"),
    "a corner in words": (f"{GOOD} --corner low", "--corner"),
    "a negative corner": (f"{GOOD} --corner=-3", "corner"),
    "a corner that is not a number": (f"{GOOD} --corner nan", "corner"),
    "a corner above what was sampled": (f"{GOOD} --corner 1000", "corner"),
    "a negative trim": (f"{GOOD} --trim=-1", "trim"),
    "a trim that is not a number": (f"{GOOD} --trim nan", "trim"),
    "no strength": (f"{GOOD} --strength 0", "strength"),
    "a strength that is not a number": (f"{GOOD} --strength nan", "strength"),
    "a strength without end": (f"{GOOD} --strength inf", "strength"),
    "a delay that is not a number": (f"{GOOD} --delay nan", "delay"),
    "a delay without end": (f"{GOOD} --delay inf", "delay"),
    "a delay in words": (f"{GOOD} --delay long", "--delay"),
    "another kind of rows": (f"{GOOD} --rows strong", "--rows"),
    "another smoother": (f"{GOOD} --smoother sandpaper", "--smoother"),
    "another estimator": (f"{GOOD} --method hubber", "huber"),
    "another robust method": (f"{GOOD} --robust very", "--robust"),
    "another prior": (f"{GOOD} --prior flat", "--prior"),
    "outliers among weak rows": (f"{GOOD} --rows weak --robust huber", "robust"),
    "an average of what does not repeat": (f"{GOOD} --average", "repeat"),
    "a series of what does not repeat": (f"{GOOD} --smoother fourier", "repeat"),
    "no threads": (f"{GOOD} --threads 0", "threads"),
    "another kind of torque": (f"{GOOD} --torque smooth", "torque"),
    "a model that is not there": ("identify {files}/no.urdf {run}", "no.urdf"),
    "a model cut off": ("identify {files}/cut.urdf {run}", "well-formed"),
    "an empty model": ("identify {files}/empty.urdf {run}", "well-formed"),
    "a xacro file": ("identify {files}/robot.xacro {run}", "xacro"),
    "a log for a model": ("identify {run} {arm}", "name the model file first"),
    "a log that is not there": ("identify {arm} {files}/no.csv", "no.csv"),
    "a log that is a folder": ("identify {arm} {files}", "folder"),
    "a log of unknown kind": ("identify {arm} {files}/log.xlsx", "xlsx"),
    "a log that is empty": ("identify {arm} {files}/empty.csv", "empty"),
    "a log without column names": ("identify {arm} {files}/headless.csv", "column"),
    "a log of words": ("identify {arm} {files}/words.csv", "words.csv"),
    "a log that is no Parquet": ("identify {arm} {files}/text.parquet", "Parquet"),
    "a log that is no archive": ("identify {arm} {files}/text.npz", "NPZ"),
    "a log cut off": ("identify {arm} {files}/cut.parquet", "cut.parquet"),
    "a log of five rows": ("identify {arm} {files}/short.parquet", "short.parquet"),
    "a log without torques": ("identify {arm} {files}/no_torque.parquet", "tau.shoulder_pan"),
    "a log without a joint": ("identify {arm} {files}/no_elbow.parquet", "q.elbow"),
    "a log without time": ("identify {arm} {files}/no_time.parquet", "'t'"),
    "a log that runs backwards": ("identify {arm} {files}/backwards.parquet", "backwards.parquet"),
    "a log of nothing": ("identify {arm} {files}/all_nan.parquet", "all_nan.parquet"),
    "a bad second log": ("identify {arm} {run} {files}/no_torque.parquet", "no_torque.parquet"),
    "a bad log to validate": (f"{GOOD} --validate {{files}}/no_elbow.parquet", "q.elbow"),
    "a missing log to validate": (f"{GOOD} --validate {{files}}/no.csv", "no.csv"),
    "one log for both": (f"{GOOD} --validate {{run}}", "--validate"),
    "one log for both by another path": (f"{GOOD} --validate {{around}}", "--validate"),
    "a broken file of options": (f"{GOOD} --with {{files}}/broken.toml", "broken.toml"),
    "an unknown option in a file": (f"{GOOD} --with {{files}}/unknown.toml", "gravitation"),
    "options of an unknown joint": (f"{GOOD} --with {{files}}/unknown_joint.toml", "elbow"),
    "options that are not there": (f"{GOOD} --with {{files}}/no.toml", "no.toml"),
    "a floating base without its pose": (f"{GOOD} --with {{files}}/free.toml", "pos.base.x"),
    "a broken map": (f"{GOOD} --map {{files}}/broken_map.toml", "broken_map.toml"),
    "a map of another log": (f"{GOOD} --map {{files}}/other_map.toml", "stamp"),
    "nothing earlier": (f"{GOOD} --given {{files}}/no", "no"),
    "damaged earlier information": (f"{GOOD} --given {{files}}/damaged", "information"),
    "results among other files": (f"{GOOD} --out {{files}}/foreign", "thesis.tex"),
    "results in the place of a file": (f"{GOOD} --out {{files}}/arm.urdf", "arm.urdf"),
    "results below a file": (f"{GOOD} --out {{files}}/arm.urdf/found", "arm.urdf"),
    "prediction without a place": ("predict {files}/found {run}", "--out"),
    "prediction from nothing": ("predict {files}/no {run} --out tau.csv", "folder of results"),
    "prediction from other files": (
        "predict {files}/foreign {run} --out tau.csv",
        "folder of results",
    ),
    "prediction from a damaged estimate": (
        "predict {files}/headless {run} --out tau.csv",
        "folder of results",
    ),
    "prediction of a missing log": ("predict {files}/found {files}/no.csv --out t.csv", "no.csv"),
    "prediction without a joint": (
        "predict {files}/found {files}/no_elbow.parquet --out new/tau.csv",
        "q.elbow",
    ),
    "prediction of five rows": (
        "predict {files}/found {files}/short.parquet --out new/tau.csv",
        "short.parquet",
    ),
    "prediction of an unknown kind": ("predict {files}/found {run} --out tau.xlsx", ".parquet"),
    "prediction over the log itself": (
        "predict {files}/found mine.parquet --out mine.parquet",
        "mine",
    ),
    "prediction over the log by another path": (
        "predict {files}/found mine.parquet --out ../{here}/mine.parquet",
        "mine.parquet",
    ),
    "prediction with unknown friction": (
        "predict {files}/found {run} --out t.csv --friction much",
        "friction",
    ),
    "a demonstration among other files": ("demo --out {files}/foreign", "thesis.tex"),
}


def arguments(name: str, files: Path, here: Path) -> list[str]:
    """Return a bad command line, with copies of a good log in the folder it runs in."""
    run = files / "run.parquet"
    (here / "log.parquet").symlink_to(run)
    shutil.copy(run, here / "mine.parquet")
    places = {
        "arm": files / "arm.urdf",
        "run": run,
        "files": files,
        "around": "log.parquet",
        "here": here.name,
    }
    return [part.format(**places) for part in BAD[name][0].split()]


@pytest.mark.parametrize("name", BAD)
def test_bad_input_exits_with_2_says_why_and_writes_nothing(
    name: str,
    files: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """In this process, which is quicker: what would be a traceback fails the test by itself."""
    asked = arguments(name, files, tmp_path)
    before = tree(files), tree(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["heft", *asked])
    with pytest.raises(SystemExit) as ended:
        main()
    said, told = capfd.readouterr()
    assert ended.value.code == 2, told[-600:]
    assert said == ""
    assert BAD[name][1] in told
    after = tree(files), tree(tmp_path)
    assert [sorted(k) for k in after] == [sorted(k) for k in before]
    assert after == before


@pytest.mark.parametrize("name", ["an unknown option", "a log cut off"])
def test_bad_input_ends_a_real_process_the_same_way(name: str, files: Path, tmp_path: Path) -> None:
    asked = arguments(name, files, tmp_path)
    before = tree(files), tree(tmp_path)
    done = heft(*asked, cwd=tmp_path)
    assert (done.code, done.said) == (2, "")
    assert BAD[name][1] in done.told
    assert is_clean(done.told)
    assert (tree(files), tree(tmp_path)) == before


def test_torques_that_nothing_explains_exit_with_1_and_write_nothing(
    files: Path, tmp_path: Path
) -> None:
    done = called("identify", ARM, files / "shuffled.parquet", "--out", "found", cwd=tmp_path)
    assert done.code == 1, done.said
    assert "no parameters explain these torques" in done.told
    assert f"heft check {files / 'shuffled.parquet'} --robot {ARM}" in done.told
    assert done.said == ""
    assert tree(tmp_path) == {}


def test_a_log_too_short_for_its_trim_exits_with_1_and_writes_nothing(tmp_path: Path) -> None:
    done = called("identify", ARM, RUN1, "--trim", "100", cwd=tmp_path)
    assert done.code == 1
    assert "no rows are left" in done.told
    assert tree(tmp_path) == {}


# Signals and pipes


@pytest.mark.parametrize(
    ("phase", "earlier"), [("reading", False), ("summing up rows", False), ("scoring", True)]
)
def test_an_interrupt_exits_with_130_and_writes_nothing(
    phase: str, earlier: bool, files: Path, tmp_path: Path
) -> None:
    if earlier:
        shutil.copytree(files / "found", tmp_path / "found")
    before = tree(tmp_path)
    process = subprocess.Popen(
        [*HEFT, "identify", ARM, files / "small.parquet", "--out", "found"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if phase in line:
            process.send_signal(signal.SIGINT)
            break
    said, told = process.communicate(timeout=60)
    # Python ends by the signal itself, 130 to a shell, where the interrupt fell into an `exec`.
    assert process.returncode in (130, -signal.SIGINT)
    assert said == ""
    assert told.endswith("heft: interrupted; nothing was written\n")
    assert is_clean(told)
    assert tree(tmp_path) == before


def test_a_reader_that_has_gone_away_is_no_disaster(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as nobody:
        done = subprocess.run(
            [*HEFT, "identify", "--help"],
            cwd=tmp_path,
            env=ENVIRONMENT,
            stdout=nobody,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert is_clean(done.stderr.decode()), done.stderr.decode()[-600:]


# Light imports


def test_what_is_light_imports_nothing_heavy(tmp_path: Path) -> None:
    """The package, its command line, and help on it and on a command, one after another."""
    probe = """
import sys
import heft, heft.cli, heft.errors
for words in (["--help"], ["identify", "--help"]):
    sys.argv = ["heft", *words]
    try: heft.cli.main()
    except SystemExit as done: assert not done.code
print(*sorted({m.partition('.')[0] for m in sys.modules}))
"""
    done = subprocess.run(
        [sys.executable, "-c", probe],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = done.stdout.splitlines()[-1].split()
    assert "heft" in loaded
    assert [m for m in HEAVY if m in loaded] == []


@pytest.mark.parametrize("verdict", ["good", "usable", "poor"])
@pytest.mark.parametrize("fail_on", [None, "usable", "poor"])
def test_a_verdict_fails_only_where_it_is_asked_to(
    verdict: str, fail_on: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = "heft.applications.identification"
    found = SimpleNamespace(verdict=verdict)
    monkeypatch.setattr(f"{room}.identify", lambda *_, **__: found)
    monkeypatch.setattr(f"{room}.write", lambda _, out, __: out.mkdir())
    monkeypatch.setattr(f"{room}.report.text", lambda *_: "")
    monkeypatch.setattr(f"{room}.next_motion", lambda *_: "")
    call = ["heft", "identify", "arm.urdf", "run.csv", "--out", str(tmp_path / "out")]
    monkeypatch.setattr("sys.argv", [*call, *(["--fail-on", fail_on] if fail_on else [])])
    with pytest.raises(SystemExit) as ended:
        main()
    worse = {"usable": ("usable", "poor"), "poor": ("poor",), None: ()}[fail_on]
    assert bool(ended.value.code) is (verdict in worse)
    assert (tmp_path / "out").exists()
