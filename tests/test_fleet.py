"""Fleets: the same bytes whatever did the work, nothing read twice, and what is told is true."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from unittest.mock import ANY

import numpy as np
import pyarrow.parquet
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from heft.applications import fleet as fleets
from heft.applications.fleet import FleetSettings, identify, objects, reading
from heft.applications.fleet.catalog import Catalog, day_in, day_of
from heft.applications.fleet.fleet import warmth_and_scatter
from heft.applications.fleet.folding import Folded, Preparation, Prepared, fold, load, save
from heft.certainty import ChangeSearch, DayToDay, Series, discoveries
from heft.errors import FitError, InvalidRecording, InvalidSetting
from heft.estimators import TypeLaw
from heft.files import locked

from .browser import barriers, browser, opened
from .deadly import chosen_or_dead, folded_or_dead
from .fleets import SimulatedType, multiply, peak_memory, scaled_torque, write_table
from .object_store import Bucket, s3

DAYS = [f"2026-03-{day:02d}" for day in range(1, 6)]
ROBOTS = ("SN1", "SN2", "SN3", "SN4")
THREADS = FleetSettings("threads", 2)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a fleet of four double pendulums."""
    folder = tmp_path_factory.mktemp("robots")
    SimulatedType("double", 10.0, 100.0).write(folder, ROBOTS, DAYS)
    return folder


@pytest.fixture(scope="module")
def out(place: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the results of that fleet, made by threads."""
    folder = tmp_path_factory.mktemp("results") / "fleet"
    identify(place, folder, THREADS)
    return folder


def prepared(out: Path, tmp_path: Path) -> Path:
    """Return a folder of results in which types are prepared already, by the logs of `out`."""
    shutil.copytree(out / "types", tmp_path / "fleet" / "types")
    return tmp_path / "fleet"


def digests(out: Path) -> dict[str, str]:
    """Return the hash of every file but the index of what was seen, which holds times."""
    files = [p for p in sorted(out.rglob("*")) if p.is_file() and p.name != reading.SEEN]
    return {str(p.relative_to(out)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


# --- which logs are whose


def test_a_day_is_told_by_a_name() -> None:
    assert day_in("run_20260301_1830.mcap") == "2026-03-01"
    assert day_in("2026-03-01.parquet") == "2026-03-01"
    assert day_in("20261301.csv") is None  # there is no such month
    assert day_in("SN120260301.csv") is None  # a longer number
    assert day_in("1970-01-01.csv") is None
    assert day_of(1_772_323_200_000_000_000) == "2026-03-01"
    assert day_of(3_600_000_000_000) is None  # a clock that was not set


def test_a_toml_says_the_same_as_folders(place: Path, tmp_path: Path) -> None:
    text = f'[type.double]\nmodel = "{place}/double/arm.urdf"\n'
    for robot in ROBOTS:
        text += f'[robot.{robot}]\ntype = "double"\nlogs = "double/{robot}/*.parquet"\n'
    file = place / "fleet.toml"
    file.write_text(text)
    try:
        named = Catalog.open(file, tmp_path / "none")
    finally:
        file.unlink()
    assert named == Catalog.open(place, tmp_path / "none")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[type.a]\nmodel = 3\n[robot.r]\ntype = 'a'\n", "name of a file"),
        ("[type.a]\nmodel = 'no.urdf'\n[robot.r]\ntype = 'a'\n", "not there"),
        ("[type.a]\nmodel = 'fleet.toml'\n[robot.r]\ntype = 'b'\n", "no such type"),
        ("[type.a]\nmodel = 'fleet.toml'\n[robot.r]\ntype = 'a'\nlogs = '/*'\n", "pattern"),
        ("[type.a]\nmodel = 'fleet.toml'\n[robot.r]\ntype = 'a'\n", "no logs"),
        ("[type.a]\nmodel = 'fleet.toml'\n[robot.'a/b']\ntype = 'a'\nlogs='*'", "called so"),
        ("[types.a]\n", "not known here"),
        ("[type.a]\nmodel='fleet.toml'\n[robot.r]\ntype='a'\ncommissioned='2026'", "a day is"),
    ],
)
def test_a_toml_that_is_wrong_is_refused_with_its_place(
    text: str, word: str, tmp_path: Path
) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text(text)
    with pytest.raises(InvalidSetting, match=word):
        Catalog.open(file, tmp_path / "none")


def test_a_folder_without_a_model_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "arm" / "SN1").mkdir(parents=True)
    with pytest.raises(InvalidSetting, match="model file"):
        identify(tmp_path, tmp_path / "none", THREADS)
    assert not (tmp_path / "none").exists()


# --- the same bytes


def test_what_is_kept_of_a_log_is_read_back_to_the_bit(place: Path, out: Path) -> None:
    found = reading.read(Catalog.open(place, out), out, THREADS)
    its = found.types["double"]
    path = place / "double" / "SN1" / f"{DAYS[0]}.parquet"
    digest, made = fold(path, its)
    save(out.parent / "one.npz", digest, made)
    again = load(out.parent / "one.npz", its)
    for a, b in zip(made.information.triangles, again.information.triangles, strict=True):
        assert np.array_equal(a.factor, b.factor) and np.array_equal(a.columns, b.columns)
    assert np.array_equal(made.answer.covariance, again.answer.covariance)
    kept = reading.kept_of(out / reading.KEPT, its, digest)
    assert kept.read_bytes() == (out.parent / "one.npz").read_bytes()
    assert kept.stat().st_size < 150e3


def test_processes_and_threads_leave_the_same_bytes(
    place: Path, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "WORTH", 5)  # pieces of work to start one more process for
    identify(place, tmp_path / "fleet", FleetSettings("processes", 2))
    assert digests(tmp_path / "fleet") == digests(out)


def test_a_cluster_leaves_the_same_bytes_and_names_a_deadly_log(
    place: Path, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray", reason="NO RAY: clusters stay untested")
    at_home = set(Path.home().iterdir())
    monkeypatch.setattr(reading, "DEADLY", 2)
    monkeypatch.setattr(reading, "folded", folded_or_dead)
    robots = tmp_path / "robots"
    shutil.copytree(place, robots)
    settings = FleetSettings("ray", 2)
    with settings.started():  # one that runs already, with which the first run connects
        address = ray.get_runtime_context().gcs_address
        command = [sys.executable, "-m", "heft", "fleet", "identify", "robots", "--engine", "ray"]
        subprocess.run([*command, "--address", address], cwd=tmp_path, check=True)
        assert digests(tmp_path / "fleet") == digests(out)
    (robots / "double" / "SN1" / "2026-03-09 deadly.txt").write_text("t,q\n")
    monkeypatch.chdir(tmp_path)
    found = identify(Path("robots"), Path("fleet"), settings)
    assert [(r.log, r.reason) for r in found.refused] == [
        ("double/SN1/2026-03-09 deadly.txt", "2 processes died reading it")
    ]
    assert found.logs == len(ROBOTS) * len(DAYS)
    assert set(Path.home().iterdir()) == at_home


def test_an_address_is_of_ray() -> None:
    with pytest.raises(InvalidSetting, match="--engine ray"):
        FleetSettings("processes", address="auto")


def test_a_run_that_is_killed_goes_on_to_the_same_bytes(
    place: Path, out: Path, tmp_path: Path
) -> None:
    again = prepared(out, tmp_path)
    command = [sys.executable, "-m", "heft", "fleet", "identify", str(place)]
    run = subprocess.Popen(
        [*command, "--out", str(again), "--jobs", "2"],
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120.0
    while not list(again.glob("triangles/*/*.npz")) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate()
    done = len(list(again.glob("triangles/*/*.npz")))
    assert done > 0
    assert not (again / "fleet.json").exists()
    identify(place, again, THREADS)
    assert digests(again) == digests(out)


def test_workers_that_die_are_replaced(
    place: Path, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = prepared(out, tmp_path)
    made = reading.by_processes
    deaths: list[int] = []

    def deadly(work, items, jobs, apart=False):  # type: ignore[no-untyped-def]
        if len(deaths) < 2 and len(items) > 8:
            deaths.append(len(items))
            steps = iter(made(work, items, jobs, apart))
            yield next(steps)
            import multiprocessing

            for process in multiprocessing.active_children():
                process.kill()
            yield from steps
        else:
            yield from made(work, items, jobs, apart)

    monkeypatch.setattr(reading, "WORTH", 5)
    monkeypatch.setattr(reading, "by_processes", deadly)
    identify(place, again, FleetSettings("processes", 2))
    assert deaths[0] == len(ROBOTS) * len(DAYS)
    assert digests(again) == digests(out)


def test_a_log_that_kills_whoever_reads_it_is_named_and_the_rest_goes_on(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    robots, own = tmp_path / "robots", tmp_path / "robots" / "double"
    shutil.copytree(place, robots, ignore=shutil.ignore_patterns(*(f"{d}.*" for d in DAYS[2:])))
    deadly = ["SN1/2026-03-01 deadly.txt"]
    for name in deadly:
        (own / name).write_text("t,q\n")
    monkeypatch.setattr(reading, "WORTH", 5)
    monkeypatch.setattr(reading, "DEADLY", 2)
    monkeypatch.setattr(reading, "folded", folded_or_dead)
    monkeypatch.setattr(reading, "_chosen", chosen_or_dead)
    found = identify(robots, tmp_path / "fleet", FleetSettings("processes", 2))
    assert [r.log for r in found.refused] == [f"double/{name}" for name in deadly]
    assert {r.reason for r in found.refused} == {"2 processes died reading it"}
    assert found.logs == len(ROBOTS) * 2
    stated = json.loads((tmp_path / "fleet" / "fleet.json").read_text())
    assert stated["counts"]["refused"] == 1
    # The pair of SN1 with a deadly log is no sample, so the type is looked at by other logs.
    assert len(stated["types"]["double"]["chosen_from"]) == 6
    with pytest.raises(FitError, match="no log of double can be read"):
        Preparation.of(Catalog.open(robots, tmp_path / "none").types["double"], [], 3, Path)


def test_workers_that_cannot_start_accuse_no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> Iterator[None]:
        yield from ()
        raise BrokenProcessPool

    monkeypatch.setattr(reading, "by_processes", lambda *_, **__: broken())
    with pytest.raises(FitError, match="nothing is done"):
        list(reading.worked(abs, [1, 2], FleetSettings("processes", 2), abs))


def test_bytes_do_not_depend_on_how_many_threads_blas_may_use(
    place: Path, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    after = []

    def folded(path: Path, its: Prepared) -> tuple[str, Folded]:
        made = fold(path, its)  # has limited BLAS, and lifted its limit
        after.append(max(p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"))
        return made

    monkeypatch.setattr(reading, "fold", folded)
    with threadpool_limits(2, user_api="blas"):
        identify(place, tmp_path / "fleet", THREADS)
    assert set(after) == {1}
    assert digests(tmp_path / "fleet") == digests(out)


def test_a_second_night_reads_the_new_logs_only(
    place: Path, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fewer = tmp_path / "robots"
    shutil.copytree(place, fewer)
    for robot in ROBOTS:
        (fewer / "double" / robot / f"{DAYS[-1]}.parquet").unlink()
    first = tmp_path / "fleet"
    identify(fewer, first, THREADS)
    for robot in ROBOTS:
        shutil.copy2(place / "double" / robot / f"{DAYS[-1]}.parquet", fewer / "double" / robot)
    folded = []
    monkeypatch.setattr(
        reading, "fold", lambda path, its: (folded.append(path), fold(path, its))[1]
    )
    identify(fewer, first, THREADS)
    assert sorted(p.name for p in folded) == [f"{DAYS[-1]}.parquet"] * len(ROBOTS)
    assert digests(first) == digests(out)


def test_a_second_run_on_one_folder_says_so(place: Path, tmp_path: Path) -> None:
    kept = tmp_path / "fleet" / "triangles"
    kept.mkdir(parents=True)
    with locked(kept) as alone:
        assert alone
        with pytest.raises(InvalidSetting, match="another run"):
            identify(place, tmp_path / "fleet", THREADS)


# --- bad input


def test_bad_logs_are_named_and_the_rest_goes_on(place: Path, out: Path, tmp_path: Path) -> None:
    robots = tmp_path / "robots"
    shutil.copytree(place, robots)
    own = robots / "double" / "SN1"
    whole = (own / f"{DAYS[0]}.parquet").read_bytes()
    (own / "2026-03-06.parquet").write_bytes(whole[:-1000])  # still being written
    (own / "2026-03-07.txt").write_text("no log at all\n")
    (own / "2026-03-08.parquet").write_bytes(whole)  # the same log a second time
    (own / "undated.parquet").write_bytes((own / f"{DAYS[1]}.parquet").read_bytes() + b"")
    write_table(own / "2026-03-09.parquet", {"t": np.arange(9.0), "q.other": np.zeros(9)})
    (robots / "double" / "SN2" / "2026-03-06.parquet").mkdir()
    found = identify(robots, prepared(out, tmp_path), THREADS)
    reasons = {r.log: r.reason for r in found.refused}
    assert len(reasons) == 6
    assert (
        "the same log as double/SN1/2026-03-01.parquet" in reasons["double/SN1/2026-03-08.parquet"]
    )
    assert all(str(tmp_path) not in reason for reason in reasons.values())
    assert found.logs == len(ROBOTS) * len(DAYS)
    stated = json.loads((tmp_path / "fleet" / "fleet.json").read_text())
    before = json.loads((out / "fleet.json").read_text())
    assert stated["robots"] == before["robots"]
    assert stated["counts"]["refused"] == 6
    with pytest.raises(InvalidRecording) as refused:
        identify(robots, tmp_path / "fleet", replace(THREADS, strict=True))
    assert "double/SN" in str(refused.value)


@pytest.mark.skipif(sys.platform != "linux", reason="NO /proc: memory stays unmeasured")
def test_many_robots_take_hardly_more_memory_than_few(place: Path, out: Path) -> None:
    few, many = (peak_memory(*multiply(place, out, count, 8), jobs=1) for count in (20, 200))
    assert few < 300.0
    assert many - few < 6.0  # [MB], of 180 robots more


def test_a_log_without_a_day_is_refused(place: Path, out: Path, tmp_path: Path) -> None:
    robots = tmp_path / "robots"
    shutil.copytree(place / "double" / "SN1", robots / "double" / "SN1")
    shutil.copy(place / "double" / "arm.urdf", robots / "double")
    log = robots / "double" / "SN1" / f"{DAYS[0]}.parquet"
    log.rename(log.with_name("undated.parquet"))
    found = identify(robots, prepared(out, tmp_path), THREADS)
    assert [(r.log, "its day" in r.reason) for r in found.refused] == [
        ("double/SN1/undated.parquet", True)
    ]


# --- what is told


def test_friction_is_that_of_the_simulated_drives(place: Path, out: Path) -> None:
    simulator = SimulatedType("double", 10.0).simulator
    stated = json.loads((out / "fleet.json").read_text())
    types = {q["name"]: q for q in stated["types"]["double"]["quantities"]}
    ratios = []
    for robot in stated["robots"]:
        seed = ROBOTS.index(robot["robot"])
        drives = simulator.drives_of(seed)
        for joint, drive in zip(simulator.arm.joints, drives, strict=True):
            speed = float(types[f"{joint}.friction"]["meaning"].split()[1])
            curve = drive.steady(np.array([speed, -speed]), 10.0)
            truth = float(curve[0] - curve[1]) / 2.0
            ratios.append(robot["quantities"][f"{joint}.friction"]["value"] / truth)
    assert min(ratios) > 0.95 and max(ratios) < 1.05  # LuGre is outside the dictionary
    assert max(ratios) < 1.02 * min(ratios)  # what it costs is the same of all robots


def test_what_warmth_does_to_friction_is_learnt_and_taken_away(place: Path, tmp_path: Path) -> None:
    robots, rise = tmp_path / "robots", 8e-4  # viscous friction a kelvin [N·m·s/rad/K]
    shutil.copytree(place, robots)
    joint = SimulatedType("double").simulator.arm.joints[0]
    for log in sorted(robots.glob("double/SN*/*.parquet")):
        above = (10.0, -8.0, 2.0, -5.0, 7.0)[DAYS.index(log.stem)]
        table = pyarrow.parquet.read_table(log)
        columns = {n: table[n].to_numpy() for n in table.column_names}
        speed = np.gradient(columns[f"q.{joint}"], columns["t"])
        columns[f"tau.{joint}"] = columns[f"tau.{joint}"] + rise * above * speed
        columns[f"u.{joint}.temperature"] = np.full(len(speed), 30.0 + above)
        write_table(log, columns)
    identify(robots, tmp_path / "fleet", THREADS)
    stated = json.loads((tmp_path / "fleet" / "fleet.json").read_text())
    own = stated["types"]["double"]
    assert own["temperature"] == "removed"
    viscous = next(q for q in own["quantities"] if q["name"] == f"{joint}.viscous")
    assert abs(viscous["per_kelvin"]["value"] * viscous["mean"] / rise - 1.0) < 0.15
    assert viscous["per_kelvin"]["low"] < rise / viscous["mean"] < viscous["per_kelvin"]["high"]
    others = [q for q in own["quantities"] if q["name"] != viscous["name"]]
    assert not any("per_kelvin" in q for q in others if not q["name"].startswith(joint))
    table = pyarrow.parquet.read_table(tmp_path / "fleet" / "history", partitioning="hive")
    rows = [r for r in table.to_pylist() if r["quantity"] == viscous["name"]]
    assert {r["temperature"] for r in rows} == {30.0 + a for a in (10.0, -8.0, 2.0, -5.0, 7.0)}
    for robot in ROBOTS:
        days = [r for r in rows if r["robot"] == robot]
        assert np.ptp([r["at_reference"] for r in days]) < 0.4 * np.ptp([r["value"] for r in days])
        assert all(r["at_reference_low"] < r["at_reference"] < r["at_reference_high"] for r in days)


def test_where_no_temperature_is_logged_the_page_says_what_that_costs(out: Path) -> None:
    stated = json.loads((out / "fleet.json").read_text())["types"]["double"]
    assert stated["reference_temperature"] is None
    assert "17 to 20 %" in stated["temperature"]
    assert f"double: warmth is {stated['temperature']}" in (out / "fleet.html").read_text()


def test_what_is_due_is_told(place: Path, out: Path, tmp_path: Path) -> None:
    robots = tmp_path / "robots"
    shutil.copytree(place, robots)
    days = [f"2026-03-{day:02d}" for day in (1, 3, 4, 20, 21)]
    for old, new in reversed(list(zip(DAYS, days, strict=True))):
        (robots / "double/SN1" / f"{old}.parquet").rename(robots / "double/SN1" / f"{new}.parquet")
    text = '[type.double]\nmodel = "double/arm.urdf"\n'
    since = dict(zip(ROBOTS, ("2026-03-02", None, "2026-03-04", "2026-04-01"), strict=True))
    for robot, day in {**since, "SN9": "2026-03-01"}.items():
        text += f'[robot.{robot}]\ntype = "double"\nlogs = "double/{robot}/*"\n'
        text += f"commissioned = {day}\n" if day else ""
    (robots / "fleet.toml").write_text(text)
    out = prepared(out, tmp_path)
    found = identify(robots / "fleet.toml", out, THREADS)
    stated = json.loads((out / "fleet.json").read_text())
    due = {r["robot"]: r["due"] for r in stated["robots"]}
    assert {name: d["days"] for name, d in due.items()} == {"SN1": 19, "SN2": 5, "SN3": 2, "SN4": 0}
    assert [due[name]["silent"] for name in ROBOTS] == [0, 16, 16, 16]
    gaps = [1.0] * 12 + [2.0, 1.0, 16.0, 1.0]
    assert {d["usual"] for d in due.values()} == {np.quantile(gaps, 0.95)}
    assert {name for name, d in due.items() if d["overdue"]} == {"SN2", "SN3", "SN4"}
    assert stated["unheard"] == [{"type": "double", "robot": "SN9"}]
    assert stated["counts"]["overdue"] == 4 and stated["counts"]["not_yet_judged"] == 3
    page = (out / "fleet.html").read_text()
    assert page.count("no log for 16 days, where 6 are usual") == 6  # at the top, and at its robot
    assert "not yet judged: 2 of 16 days" in page
    assert "SN9: no log of it can be used" in fleets.text(found)


def test_history_is_read_without_heft(out: Path) -> None:
    table = pyarrow.parquet.read_table(out / "history", partitioning="hive").to_pylist()
    stated = json.loads((out / "fleet.json").read_text())
    names = {q["name"] for q in stated["types"]["double"]["quantities"]}
    assert len(table) == len(ROBOTS) * len(DAYS) * len(names)
    assert {row["type"] for row in table} == {"double"}
    assert {str(row["day"]) for row in table} == set(DAYS)
    assert all(row["low"] < row["value"] < row["high"] for row in table)


def test_a_day_under_a_wrong_serial_is_found_and_left_out(
    place: Path, out: Path, tmp_path: Path
) -> None:
    robots = tmp_path / "robots"
    shutil.copytree(place, robots)
    wrong = robots / "double" / "SN2" / f"{DAYS[2]}.parquet"
    true = robots / "double" / "SN1" / f"{DAYS[2]}.parquet"
    true.rename(wrong)
    found = identify(robots, prepared(out, tmp_path), THREADS)
    foreign = {r.answer.robot: r.foreign for r in found.robots if r.foreign}
    assert [(f.day, f.like) for f in foreign.pop("SN2")] == [(DAYS[2], "SN1")]
    assert not foreign
    assert found.robots[0].answer.robot == "SN2"  # what needs attention comes first
    assert "it looks like SN1" in fleets.text(found)


def rewritten(place: Path, out: Path, old: str, new: str, factor: float) -> None:
    """Write a type like another, with another name of a joint, and torques times a factor."""
    shutil.copytree(place, out)
    file = out / "arm.urdf"
    file.write_text(file.read_text().replace(old, new))
    for log in out.glob("*/*.parquet"):
        table = pyarrow.parquet.read_table(log)
        columns = {n: table[n].to_numpy() for n in table.column_names}
        scale = {n: factor if n.startswith("tau.") else 1.0 for n in columns}
        write_table(log, {n.replace(old, new): scale[n] * v for n, v in columns.items()})


def test_robots_under_a_wrong_type_are_found_and_no_part_of_it(tmp_path: Path) -> None:
    robots, short = tmp_path / "robots", SimulatedType("double", 6.0, 100.0)
    long = replace(short, reach=1.5)
    short.write(robots, [f"A{k}" for k in range(6)], DAYS[:1])
    long.write(robots, [f"B{k}" for k in range(4)], DAYS[:1], 10)
    own, other = robots / short.title, robots / long.title
    rewritten(own, robots / "strong", "joint1", "joint1", 1.5)
    rewritten(own, robots / "named", "joint1", "shoulder", 1.0)
    (own / "A5").rename(other / "A5")  # of the same joints, and of links of another length
    (other / "B0").rename(own / "B0")
    (robots / "strong" / "A4").rename(own / "S4")  # that reads its logs as well as its own type
    (robots / "named" / "A3").rename(own / "N3")  # none of whose logs can be read here
    out = tmp_path / "fleet"
    found = identify(robots, out, THREADS)
    wrong = {"A5": "double", "B0": "double 1.5", "S4": "strong", "N3": "named"}
    assert {m.robot: m.like for m in found.misfiled} == wrong
    reasons = {m.robot: m.reason for m in found.misfiled}
    assert "times smaller" in reasons["A5"] and "times smaller" in reasons["B0"]
    assert "its parameters" in reasons["S4"] and "only that type" in reasons["N3"]
    filed = {(m.type, m.robot) for m in found.misfiled}
    assert not {(r.answer.type, r.answer.robot) for r in found.robots} & filed
    assert len(found.robots) == 6 + 4 + 6 + 6 - len(wrong) and not found.unheard
    stated = json.loads((out / "fleet.json").read_text())
    assert stated["counts"]["misfiled"] == len(wrong)
    assert {m["robot"]: m["type"] for m in stated["misfiled"]}["A5"] == "double 1.5"
    for shown in (fleets.text(found), (out / "fleet.html").read_text()):
        assert shown.count("looks like type strong: ") == 1
    assert identify(robots, out, THREADS).misfiled == found.misfiled


def test_a_log_that_contradicts_its_robot_is_left_out(
    place: Path, out: Path, tmp_path: Path
) -> None:
    robots = tmp_path / "robots"
    shutil.copytree(place, robots)
    log = robots / "double" / "SN2" / f"{DAYS[4]}.parquet"
    joint = SimulatedType("double").simulator.arm.joints[1]
    scaled_torque(log, joint, 1.5, log)
    found = identify(robots, prepared(out, tmp_path), THREADS)
    foreign = {r.answer.robot: [(f.day, f.like) for f in r.foreign] for r in found.robots}
    assert foreign == {"SN2": [(DAYS[4], None)], "SN1": [], "SN3": [], "SN4": []}


# --- object stores


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """Yield an empty bucket, and let what is fetched come into this test's folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with s3(f"fleet-{abs(hash(tmp_path))}", monkeypatch) as made:
        yield made


def test_a_fleet_in_a_bucket_leaves_the_bytes_of_files_and_is_fetched_once(
    place: Path, out: Path, tmp_path: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.upload(place, "line 3/robots")
    bucket.fails = lambda path: "503 Slow Down" if path not in bucket.asked[:-1] else None
    monkeypatch.setattr(reading, "WORTH", 10)
    address = f"{bucket.address}/line 3/robots"
    identify(address, tmp_path / "fleet", FleetSettings("processes", 2))
    made = digests(tmp_path / "fleet")
    assert made.pop("types/double/arm.urdf")
    assert made == digests(out)
    assert not list(tmp_path.glob("heft-*"))
    bucket.asked.clear()
    identify(address, tmp_path / "fleet", THREADS)
    assert [a for a in bucket.asked if a.endswith(".parquet")] == []
    assert digests(tmp_path / "fleet") == digests(out) | {"types/double/arm.urdf": ANY}
    text = f'[type.double]\nmodel = "{place}/double/arm.urdf"\n'
    for robot in ROBOTS:
        text += f'[robot.{robot}]\ntype = "double"\nlogs = "{address}/d*e/{robot}/2026-*.parquet"\n'
    (tmp_path / "fleet.toml").write_text(text)
    by_pattern = Catalog.open(tmp_path / "fleet.toml", tmp_path / "none")
    assert by_pattern.logs == Catalog.open(address, tmp_path / "none").logs
    assert len(by_pattern.logs) == len(ROBOTS) * len(DAYS)


def test_objects_that_cannot_be_had_are_named_and_the_rest_goes_on(
    place: Path, tmp_path: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.upload(place, "robots")
    monkeypatch.setenv("AWS_TIMEOUT", "1s")
    monkeypatch.setattr(objects, "PATIENCE", timedelta(seconds=1))
    fleet = Catalog.open(f"{bucket.address}/robots", tmp_path / "none")
    monkeypatch.setattr(Catalog, "open", staticmethod(lambda *_: fleet))  # from now on
    own = f"robots/double/{ROBOTS[0]}"
    bucket.store.put(f"{own}/{DAYS[0]}.parquet", b"another")
    bucket.store.delete(f"{own}/{DAYS[1]}.parquet")
    statuses = {DAYS[2]: "503 Slow Down", DAYS[3]: "silence", DAYS[4]: "403 Forbidden"}
    bucket.fails = lambda path: (
        statuses.get(path.rpartition("/")[2][:10]) if f"{own}/" in path else None
    )
    found = identify(bucket.address, tmp_path / "fleet", THREADS)
    assert [(r.log, r.reason) for r in found.refused] == [
        (f"double/{ROBOTS[0]}/{day}.parquet", reason)
        for day, reason in zip(
            DAYS,
            (
                "it was changed while it was read",
                "the object is not there any more",
                "the store does not answer (503 Service Unavailable)",
                "the store does not answer",
                "the store refuses (403 Forbidden)",
            ),
            strict=True,
        )
    ]
    assert found.logs == (len(ROBOTS) - 1) * len(DAYS)
    with pytest.raises(InvalidRecording, match=r"not there any more|was changed"):
        identify(bucket.address, tmp_path / "fleet", replace(THREADS, strict=True))


def test_a_store_that_answers_no_more_is_asked_no_more(
    place: Path, tmp_path: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.upload(place, "robots")
    monkeypatch.setattr(objects, "PATIENCE", timedelta(seconds=0.1))
    monkeypatch.setattr(reading, "STALLED", 3)
    identify(f"{bucket.address}/robots", tmp_path / "fleet", THREADS)
    shutil.rmtree(tmp_path / "fleet" / "triangles")
    text = f'[type.double]\nmodel = "{place}/double/arm.urdf"\n'
    for robot in ROBOTS:
        there = place if robot == ROBOTS[-1] else f"{bucket.address}/robots"
        text += f'[robot.{robot}]\ntype = "double"\nlogs = "{there}/double/{robot}/*"\n'
    (place / "fleet.toml").write_text(text.replace(f'"{place}', '".'))
    bucket.fails = lambda path: "503 Slow Down" if path.endswith(".parquet") else None
    bucket.asked.clear()
    found = identify(place / "fleet.toml", tmp_path / "fleet", THREADS)
    (place / "fleet.toml").unlink()
    assert [r.answer.robot for r in found.robots] == [ROBOTS[-1]]
    reasons = [r.reason for r in found.refused]
    assert len(reasons) == (len(ROBOTS) - 1) * len(DAYS)
    assert "the store does not answer, and was asked no more" in reasons
    assert len({a for a in bucket.asked if a.endswith(".parquet")}) < len(reasons)
    bucket.fails = lambda path: "503 Slow Down"
    with pytest.raises(InvalidRecording, match="does not answer") as told:
        identify(f"{bucket.address}/robots", tmp_path / "fleet", THREADS)
    assert "503 Service Unavailable" in str(told.value)
    assert not any(secret in str(told.value) for secret in ("someone", "hidden", "127.0.0.1"))


def test_what_is_no_address_of_a_store_is_refused_and_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for address in ("s3://key:secret@fleet/robots", "ftp://fleet", "S3://fleet", "s3://"):
        with pytest.raises(InvalidSetting, match="no address") as told:
            identify(address, tmp_path / "fleet", THREADS)
        assert "secret" not in str(told.value)
    monkeypatch.setitem(sys.modules, "obstore", None)  # not installed
    with pytest.raises(InvalidSetting, match=r"pip install 'heft-robotics\[fleet-s3\]'"):
        identify("s3://fleet-of-none", tmp_path / "fleet", THREADS)
    assert not (tmp_path / "fleet").exists()


# --- statistics


def drawn(days: int, count: int, phi: float, sigma: float, rng: np.random.Generator) -> np.ndarray:
    """Return series of 1 with a first-order autoregression, shape (count, days)."""
    noise = rng.normal(size=(count, days))
    scatter = noise.copy()
    for t in range(1, days):
        scatter[:, t] = phi * scatter[:, t - 1] + np.sqrt(1.0 - phi**2) * noise[:, t]
    return 1.0 + sigma * scatter


def series(values: np.ndarray) -> Series:
    return Series(np.arange(float(len(values))), values, np.zeros(len(values)))


def test_the_scatter_from_day_to_day_is_learnt_though_some_robots_drift() -> None:
    values = drawn(60, 60, 0.5, 0.03, np.random.default_rng(1))
    values[:6, 30:] += 0.05 / 7.0 * np.arange(30)
    found = DayToDay.of([series(v) for v in values])
    assert found is not None
    assert 0.026 < found.deviation < 0.035
    assert 0.35 < found.correlation < 0.65


def test_chance_is_as_often_as_it_is_stated_to_be() -> None:
    usual = DayToDay(0.03, 0.5)
    values = drawn(100, 600, 0.5, 0.03, np.random.default_rng(2))
    found = [ChangeSearch().of(series(v), usual) for v in values]
    chances = np.array([c.probability for c in found if c is not None])
    for level in (0.3, 0.1, 0.03):
        share = np.mean(chances < level)
        assert 0.2 * level < share < level + 2.0 * np.sqrt(level / len(values))


def test_a_warm_summer_is_no_drift_where_temperature_is_told() -> None:
    rng = np.random.default_rng(5)
    values = drawn(90, 80, 0.5, 0.03, rng)
    season = 10.0 * np.sin(np.arange(90) / 30.0 + rng.uniform(0.0, 6.0, (80, 1)))
    warm = season + 3.0 * rng.normal(size=values.shape)
    values += rng.normal(-0.01, 0.001, (80, 1)) * warm  # a robot's rise is its own
    own = [Series(np.arange(90.0), v, np.zeros(90), w) for v, w in zip(values, warm, strict=True)]
    usual, laws = warmth_and_scatter({"a": own})
    assert usual is not None and 0.027 < usual.deviation < 0.033
    rise, deviation = laws["a"].mean[0], laws["a"].scatter[0]
    assert abs(rise + 0.01) < 3.0 * laws["a"].mean_std[0] < 0.001
    assert 0.0006 < deviation < 0.0016
    raw, cold = (
        [ChangeSearch().of(s, usual) for s in series]
        for series in (own, [s.at_reference(rise, deviation) for s in own])
    )
    assert np.mean([c is not None and c.probability < 0.01 for c in raw]) > 0.5
    assert np.mean([c is not None and c.probability < 0.01 for c in cold]) < 0.03


def test_a_slope_is_found_with_its_onset_and_interval() -> None:
    usual, inside = DayToDay(0.03, 0.5), 0
    values = drawn(132, 200, 0.5, 0.03, np.random.default_rng(3))
    values[:, 90:] += 0.05 / 7.0 * np.arange(42)
    for v in values:
        found = ChangeSearch().of(series(v), usual)
        assert found is not None and found.probability < 1e-6
        assert found.kind == "slope" and abs(found.onset - 90.0) < 20.0
        inside += found.low < 0.05 < found.high
    assert 0.91 < inside / len(values) < 0.99


def test_a_slope_that_began_where_the_search_ends_is_not_pushed_to_one_side() -> None:
    usual, search = DayToDay(0.03, 0.5), ChangeSearch()
    after = int(search.recent)
    values = drawn(90 + after, 300, 0.5, 0.03, np.random.default_rng(6))
    values[:, 90:] += 0.01 / 7.0 * np.arange(1, after + 1)
    found = [c for v in values if (c := search.of(series(v), usual)) and c.kind == "slope"]
    assert len(found) > 270
    away = np.array([c.size for c in found]) - 0.01
    assert abs(away.mean()) < 3.0 * away.std() / np.sqrt(len(away))
    for outside in ([c.low > 0.01 for c in found], [c.high < 0.01 for c in found]):
        assert 0.0 < np.mean(outside) < 0.05


def test_a_short_series_has_no_change() -> None:
    assert ChangeSearch().of(series(np.ones(10)), DayToDay(0.03, 0.5)) is None


def test_discoveries_are_those_of_the_step_up_rule() -> None:
    chances = np.array([0.001, np.nan, 0.02, 0.041, 0.5, 0.011])
    assert discoveries(chances, 0.05).tolist() == [True, False, True, False, False, True]
    assert not discoveries(np.full(3, np.nan), 0.05).any()


def test_the_law_of_a_type_tells_a_robot_of_little_data() -> None:
    rng = np.random.default_rng(4)
    size, robots = 12, 40
    mean = rng.normal(size=size) * 10.0
    scatter = np.abs(mean) * rng.uniform(0.02, 0.2, size=size)
    errors, own, inside = [], [], []
    for _ in range(25):
        true = mean + scatter * rng.normal(size=(robots + 1, size))
        factors = rng.normal(size=(robots + 1, size, 3 * size)) / np.sqrt(3.0 * size)
        spread = scatter * rng.uniform(0.1, 0.6, size=(robots + 1, 1))
        spread[-1] = 1.5 * scatter
        factors = spread[:, :, None] * factors
        covariances = factors @ factors.transpose(0, 2, 1)
        noise = (factors @ rng.normal(size=(robots + 1, 3 * size, 1)))[:, :, 0]
        values = true + noise
        law = TypeLaw.of(values[:-1], covariances[:-1])
        assert law is not None
        assert 0.75 < np.median(law.scatter / scatter) < 1.25
        best, covariance = law.given(values[-1], covariances[-1])
        known = np.linalg.solve(covariances[-1] + np.diag(scatter**2), values[-1] - mean)
        own.append((values[-1] - covariances[-1] @ known - true[-1]) / scatter)
        errors.append((best - true[-1]) / scatter)
        inside.append(np.abs(best - true[-1]) < 1.96 * np.sqrt(np.diag(covariance)))
    assert np.std(errors) < 1.15 * np.std(own)  # of the estimate that knows the law
    assert 0.9 < np.mean(inside) < 0.98


def test_two_robots_tell_no_law() -> None:
    assert TypeLaw.of(np.zeros((2, 3)), np.ones((2, 1, 1)) * np.eye(3)) is None


# --- the page


def test_a_browser_shows_what_needs_attention_and_filters_by_the_address(
    out: Path, tmp_path: Path
) -> None:
    page = tmp_path / "fleet.html"
    shutil.copy(out / "fleet.html", page)
    assert barriers(page.as_uri()) == []
    with browser() as running:
        for width in (360, 800, 1400):
            with opened(running, f"{page.as_uri()}#robot=SN2", width) as seen:
                shown = seen.page.locator(".robot:visible")
                assert shown.count() == 1
                assert "SN2" in shown.inner_text()
                assert seen.page.locator("#shown").inner_text() == "1 of 4"
                shown.locator("summary").click()
                assert shown.locator("svg.spark:visible").count() == 2
                seen.page.fill("input[name=robot]", "sn")
                assert seen.page.locator(".robot:visible").count() == len(ROBOTS)
                seen.page.check("input[name=only]")
                assert seen.page.locator(".robot:visible").count() == 0
                assert seen.page.evaluate("location.hash") == "#robot=sn&only=1"
                overflow = "document.documentElement.scrollWidth - innerWidth"
                assert seen.page.evaluate(overflow) <= 0
                assert not seen.said and not seen.warned
                assert all(asked.startswith(("file:", "data:")) for asked in seen.asked)
