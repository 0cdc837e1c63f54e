"""Commands that take a robot whose base floats: prediction, selection, the log doctor."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pytest

from heft.applications.identification import Identified
from heft.cli import main
from heft.models import ContactOptions
from heft.plants import ContactEfforts, FloatingRobotPlant
from heft.recordings import Recording
from tests import robots
from tests.plants import case
from tests.test_floating_robot import OPTIONS, TIME, samples_of

Array = np.ndarray[Any, np.dtype[np.float64]]
UNKNOWN = "floating robot, a contact unknown"


def run(monkeypatch: pytest.MonkeyPatch, line: str) -> int:
    monkeypatch.setattr(sys, "argv", ["heft", *line.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def log_of(day: int, kinds: tuple[str, ...] = ()) -> dict[str, Array]:
    """Return the columns of a log with noise, of some kinds of signals alone."""
    signals, _ = case(UNKNOWN).experiment(TIME + 30.0 * day)
    rng = np.random.default_rng(day)
    columns = {"t": TIME}
    for kind, values in signals.items():
        size = {"tau": 0.05, "force": 0.2, "torque": 0.05}.get(kind, 0.0)
        for signal, x in values.items():
            noisy = x + size * rng.normal(size=len(TIME))
            if not kinds or kind in kinds:
                columns[f"{kind}.{signal}"] = noisy
    return columns


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with model, options and logs, and what was identified of them."""
    where = tmp_path_factory.mktemp("floating")
    (where / "walker.urdf").write_bytes(robots.WALKER)
    (where / "with.toml").write_text(OPTIONS)
    np.savez(where / "monday.npz", **log_of(0))
    np.savez(where / "tuesday.npz", **log_of(1, ("q", "pos", "quat", "force", "torque", "contact")))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(where)
        line = "identify walker.urdf monday.npz --with with.toml --quiet --corner 15 --delay 0"
        assert run(patch, f"{line} --out out") == 0
    return where


# ---- prediction


def efforts(plant: FloatingRobotPlant, samples: Any, values: Array) -> Array:
    """Return Y π of all of the robot's channels, shape (channels, N)."""
    return plant.rigid(samples.motion, values)


def test_torques_are_pinocchios_with_a_wrench_measured_and_one_told_by_the_base() -> None:
    c = case(UNKNOWN)
    signals, exact = c.experiment(TIME[::40])
    plant = c.plant
    assert isinstance(plant, FloatingRobotPlant)
    samples = samples_of(plant, exact)
    hook = [signals[k][f"hook.{x}"] for k in ("force", "torque") for x in "xyz"]
    measured = np.zeros_like(samples.measured)
    measured[:, -6:] = np.stack(hook, 1)
    samples = replace(samples, measured=measured)
    left = ContactEfforts.of(plant, samples).left(efforts(plant, samples, c.truth))
    wanted = np.stack([signals["tau"][j] for j in plant.robot.joints], 1)
    assert np.abs(left[:, 6:] - wanted).max() <= 1e-10 * np.abs(wanted).max()
    assert np.abs(left[:, :6]).max() <= 1e-10 * np.abs(hook).max()


@pytest.mark.parametrize(("links", "known"), [(("foot",), True), (("foot", "trunk"), False)])
def test_how_contacts_share_the_load_is_not_made_up(links: tuple[str, ...], known: bool) -> None:
    contact = {name: ContactOptions(name) for name in links}
    plant = FloatingRobotPlant(robots.walker(contact=contact))
    samples = plant.random_samples(5, np.random.default_rng(0))
    closed = np.ones_like(samples.motion.closed)
    samples = replace(samples, motion=replace(samples.motion, closed=closed))
    effort = efforts(plant, samples, plant.robot.nominal())
    left = ContactEfforts.of(plant, samples).left(effort)
    assert np.isfinite(left[:, 6:]).all() == known and np.isnan(left[:, 6:]).any() != known
    assert np.abs(left[:, :6]).max() <= 1e-10 * np.abs(effort).max()
    loose = ContactEfforts.of(plant, samples, held=False).left(effort)
    assert np.isnan(loose[:, 6:]).all()


def test_an_identified_floating_robot_predicts_a_log_without_torques(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert run(monkeypatch, "predict out tuesday.npz --out tau.csv") == 0
    made = pyarrow.csv.read_csv("tau.csv")
    truth, _ = case(UNKNOWN).experiment(TIME + 30.0)
    rows = np.isin(np.round(TIME, 6), np.round(made["t"].to_numpy(), 6))
    for joint in ("hip", "knee"):
        wanted = truth["tau"][joint][rows]
        off = made[f"tau.{joint}"].to_numpy() - wanted
        inside = slice(50, -50)  # smoothing has no motion beyond the ends
        assert np.sqrt(np.mean(off[inside] ** 2)) <= 0.05 * np.std(wanted)
    residual = made["tau.base.force.z"].to_numpy()[50:-50]
    assert np.abs(residual).mean() < 1.0  # [N], of some 80 that hold it


def test_a_prediction_needs_the_wrenches_that_were_said_to_be_measured(folder: Path) -> None:
    identified = Identified.load(folder / "out")
    kept = log_of(1, ("q", "pos", "quat", "contact"))
    np.savez(folder / "bare.npz", **kept)
    with pytest.raises(Exception, match=r"force\.hook\.x"):
        next(identified.predictions(Recording.open(folder / "bare.npz")))


# ---- selection


def test_the_stretches_that_tell_most_of_a_floating_robot_are_selected_and_fitted(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    asked = "select walker.urdf monday.npz --with with.toml --keep 3s --out chosen.json"
    assert run(monkeypatch, asked) == 0
    said = capsys.readouterr().out
    assert "trunk" in said and "never excited" not in said
    line = "identify walker.urdf monday.npz --with with.toml --quiet --corner 15 --delay 0"
    assert run(monkeypatch, f"{line} --only chosen.json --out part") == 0
    mass = sum(
        p["value"]
        for p in Identified.load(folder / "part").estimate["parameters"]
        if p["name"].endswith(".mass")
    )
    assert mass == pytest.approx(8.0, rel=5e-3)


# ---- the log doctor


def findings(monkeypatch: pytest.MonkeyPatch, line: str) -> tuple[int, dict[str, dict[str, Any]]]:
    code = run(monkeypatch, f"check {line} --quiet --json found.json")
    said = json.loads(Path("found.json").read_text())
    return code, {f"{f['name']}, {f['about']}": f for f in said["findings"]} | {"": said}


def test_a_good_log_of_a_floating_robot_is_found_good(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    code, found = findings(monkeypatch, "monday.npz --robot walker.urdf --with with.toml")
    assert code == 0
    assert found["contact, ground"]["evidence"]["closed_share"] == pytest.approx(0.5, abs=0.1)
    assert found[""]["motion"]["rank"] == found[""]["motion"]["columns"]
    assert found[""]["unexplained"]["hip"] < 0.2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda kind, x: -x if kind in ("force", "torque") else x, "opposite wrench, hook"),
        (lambda kind, x: 10.0 * x if kind == "force" else x, "wrench of another size, hook"),
        (lambda kind, x: 0.0 * x if kind == "contact" else x, "contact never closed, ground"),
    ],
)
def test_what_is_wrong_with_a_wrench_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch, change: Any, says: str
) -> None:
    monkeypatch.chdir(folder)
    columns = {n: change(n.partition(".")[0], x) for n, x in log_of(2).items()}
    np.savez("wrong.npz", **columns)
    code, found = findings(monkeypatch, "wrong.npz --robot walker.urdf --with with.toml")
    assert says in found and (code == 1 or says.startswith("contact"))


def test_a_robot_that_nothing_holds_and_does_not_fall_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    said = (
        OPTIONS.partition("[contact.hook]")[0]
        + "[contact.ground]"
        + OPTIONS.split("[contact.ground]")[1]
    )
    Path("less.toml").write_text(said)
    code, found = findings(monkeypatch, "monday.npz --robot walker.urdf --with less.toml")
    assert code == 1 and "nothing holds it, log" in found
