"""`heft freeflyer`: what is designed is flown, what is flown identified, what stopped goes on."""

from __future__ import annotations

import csv
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from heft import cli
from heft.applications.free_flyer import (
    StudySettings,
    design_files,
    identify_files,
    study_files,
    track_files,
)
from heft.applications.free_flyer.flights import MESSAGES, MOTION
from heft.applications.free_flyer.results import convergence
from heft.errors import InvalidRecording, InvalidSetting
from heft.excitation import DesignSettings, SolverSettings
from heft.flight import FreeFlyerResult, IdentifyFreeFlyer
from heft.information import inertia
from heft.models import Load, load_of
from tests.browser import barriers, browser, opened

INKED = (
    "() => { const c = document.querySelector('figure[id] canvas'); return c.getContext('2d')"
    ".getImageData(0, 0, c.width, c.height).data.filter((v, k) => k % 4 === 3 && v).length }"
)
BOUNDS = "[motion]\nperiod = 8.0\ncycles = 3\nvelocity = 0.8\n"
LOAD = Load(1.2, (0.2, 0.06, -0.1))
QUICK = DesignSettings(
    random=12, starts=1, workers=1, solver=SolverSettings(rounds=5, iterations=20, more=10)
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("freeflyer")
    (made / "bounds.toml").write_text(BOUNDS)
    design_files("space_cobot", made / "motion", made / "bounds.toml", settings=QUICK)
    track_files("space_cobot", made / "motion", made / "log.parquet", (LOAD,))
    return made


def test_a_designed_flight_keeps_its_bounds_and_begins_at_rest(folder: Path) -> None:
    with (folder / "motion" / "motion.csv").open() as file:
        rows = list(csv.DictReader(file))
    place = np.array([[float(r[f"pos.cobot.{a}"]) for a in "xyz"] for r in rows])
    own = np.array([[float(r[f"vel.cobot.{a}"]) for a in "xyz"] for r in rows])
    turned = np.array([[float(r[f"quat.cobot.{a}"]) for a in "xyzw"] for r in rows])
    speed = Rotation.from_quat(turned).apply(own)
    time = np.array([float(r["t"]) for r in rows])
    assert np.abs(place).max() <= 0.8 and np.abs(speed).max() <= 0.8
    assert np.abs(speed[[0, -1]]).max() < 1e-6 and np.abs(place[-1] - place[0]).max() < 1e-6
    made = np.gradient(place, time, axis=0)
    assert np.abs(made - speed)[1:-1].max() < 1e-2
    assert {p.name for p in (folder / "motion").iterdir()} == {*MOTION, *MESSAGES}


def test_what_was_grasped_is_found_as_sure_as_it_is_said(folder: Path, tmp_path: Path) -> None:
    found = identify_files("space_cobot", folder / "log.parquet", tmp_path / "result")
    truth = json.loads((folder / "log.truth" / "truth.json").read_text())
    values = found.result.body.parameters
    off = values.values - np.array(truth["parameters_with_load"])
    assert off @ np.linalg.solve(values.covariance, off) < 30.0  # χ² of ten: 1 in 1000
    mass = found.result.load.numbers["mass"]
    whole = found.result.body.numbers["mass"].value
    assert abs(mass.value - LOAD.mass) < 0.1 < mass.std == pytest.approx(0.02 * whole, rel=0.01)
    assert "given thrust within 2 %" in found.text()
    stored = json.loads((tmp_path / "result" / "free-flyer.json").read_text())
    assert stored["load"]["numbers"]["mass"]["value"] == mass.value
    assert stored["published"]["harmonics"] >= 3 and stored["verdict"] == "good"
    page = (tmp_path / "result" / "report.html").read_text()
    assert "What it grasped" in page and "Energy balance" in page
    assert "kg" in found.text()


def test_a_poor_flight_states_no_number_and_exits_with_1(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failed(method: IdentifyFreeFlyer, *given: Any) -> FreeFlyerResult:
        result = fit(method, *given)
        check, *others = result.checks
        return replace(result, checks=(replace(check, status="fail"), *others))

    fit, out = IdentifyFreeFlyer.fit, tmp_path / "out"
    monkeypatch.setattr(IdentifyFreeFlyer, "fit", failed)
    found = identify_files("space_cobot", folder / "log.parquet", out)
    assert found.text().startswith("cobot: poor") and "No number of body" in found.text()
    assert "kg" not in found.text() and "What it grasped" not in found.text()
    stored = json.loads((out / "free-flyer.json").read_text())
    assert stored["verdict"] == "poor" and stored["load"] is stored["body"] is None
    page = (out / "report.html").read_text()
    assert "no number of body and load" in page and "What it grasped" not in page
    call = ["heft", "freeflyer", "identify", "space_cobot", str(folder / "log.parquet")]
    monkeypatch.setattr(sys, "argv", call)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1


def test_what_is_known_grows_to_what_is_reported(folder: Path) -> None:
    found = identify_files("space_cobot", folder / "log.parquet")
    time, values, std = convergence(found.result, found.flight, found.flyer)
    load = inertia.stated_body(found.result.load.parameters.values)[0]
    assert np.allclose(values[-1], load[:4], rtol=1e-6)
    assert np.all(np.diff(std[:, 0]) < 1e-3 * std[1:, 0])  # what is left is the scale's
    assert time[0] < 0.5 * time[-1] == 0.5 * (found.flight.time[-1] - found.flight.time[0])
    off = np.abs(values - load[:4]) / std
    assert np.mean(off < 2.0) > 0.8  # the deviation until then says how far the end is


def test_the_page_draws_the_flight_and_asks_nobody(folder: Path, tmp_path: Path) -> None:
    found = identify_files("space_cobot", folder / "log.parquet", tmp_path / "result")
    page = tmp_path / "result" / "report.html"
    text = page.read_text()
    assert "how sure the mass" in text and "n* =" in text
    saturated = found.flyer.actuators.saturated(found.flight.commands)
    effort = found.flyer.actuators.effort(found.flight.commands)
    assert np.array_equal(saturated, effort >= 0.998) and saturated.any()
    numbers = re.search(r'<script type="application/json" id="numbers">(.*)</script>', text)[1]
    shown = json.loads(numbers)["drawings"][0]
    path = np.array(shown["path"])
    marked = np.zeros(len(path), dtype=bool)
    for a, b in shown["marked"]:
        marked[a : b - 1] = True
    assert np.array_equal(marked, saturated[: len(path)])
    # Axes of the last frame are at right angles, and the load hangs where it was found.
    points = np.array(shown["points"][-1])
    axes = points[1:4] - points[0]
    assert np.allclose(axes @ axes.T, np.eye(3) * (axes[0] @ axes[0]), atol=1e-3)
    centre = [found.result.load.numbers[f"com.{a}"].value for a in "xyz"]
    assert np.linalg.norm(points[-1] - points[0]) == pytest.approx(np.linalg.norm(centre), abs=1e-3)
    with browser() as running, opened(running, page.as_uri()) as seen:
        seen.page.wait_for_function(f"() => ({INKED})() > 500")
        assert not seen.said and seen.asked == [page.as_uri()]


def test_the_same_seed_flies_the_same_flight(folder: Path, tmp_path: Path) -> None:
    track_files("space_cobot", folder / "motion", tmp_path / "log.parquet", (LOAD,))
    assert (tmp_path / "log.parquet").read_bytes() == (folder / "log.parquet").read_bytes()


def test_a_study_that_was_stopped_goes_on(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "loads.toml").write_text("[[load]]\nmass = 0.5\nposition = [0.1, 0.0, 0.0]\n")
    settings = StudySettings(trajectories=1, cycles=2, random=6)
    call = ("space_cobot", tmp_path / "loads.toml", tmp_path / "study", folder / "bounds.toml")
    whole = study_files(*call, settings)
    assert {r.criterion for r in whole.runs} == {"J1", "J2"}
    runs = tmp_path / "study" / "runs.jsonl"
    lines = runs.read_text().splitlines()
    runs.write_text("\n".join(lines[:-1]) + "\n" + lines[-1][:20])
    said: list[str] = []
    again = study_files(*call, settings, said.append)
    assert len(said) == 1 and again.runs == whole.runs
    errors = {m: np.median([r.errors[m] for r in again.runs], axis=0) for m in again.runs[0].errors}
    assert errors["smoother"][2] < 0.5 * errors["published"][2]
    assert barriers((tmp_path / "study" / "report.html").as_uri()) == []
    with pytest.raises(InvalidSetting, match="another study"):
        study_files(*call, StudySettings(trajectories=2, cycles=2, random=6))


def test_what_is_none_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="kg@"):
        load_of("1.2@0,0,0,0")
    with pytest.raises(InvalidSetting):
        design_files("space_cobt", tmp_path / "motion")
    with pytest.raises(InvalidRecording, match="does not exist"):
        track_files("space_cobot", tmp_path, tmp_path / "log.parquet")
    with pytest.raises(InvalidSetting, match="once or more"):
        track_files("space_cobot", folder / "motion", tmp_path / "log.parquet", cycles=0)
    with pytest.raises(InvalidSetting, match="fit in memory"):
        track_files("space_cobot", folder / "motion", tmp_path / "log.parquet", cycles=10**9)
    assert not list(tmp_path.iterdir())
    series = json.loads((folder / "motion" / "series.json").read_text())
    series["basis"]["duration"] = 1e300
    (tmp_path / "series.json").write_text(json.dumps(series))
    (tmp_path / "design.json").write_text('{"cycles": 1}')
    with pytest.raises(InvalidRecording, match="a cycle of 1e"):
        track_files("space_cobot", tmp_path, tmp_path / "log.parquet")
