"""A robot with springs of its own in the other commands: compared, loaded, sampled, selected."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from heft.applications.demo import FOLDER as DEMO
from heft.applications.doctor import doctor
from heft.applications.excite import open_experiment
from heft.applications.identification import compare, compare_report, report
from heft.applications.identification.inputs import identify
from heft.applications.identification.results import write
from heft.applications.inputs import Inputs
from heft.applications.payload import WeighCarried, carry_files
from heft.applications.sample import sample_files
from heft.applications.select import select_files
from heft.applications.viewer import read_robot
from heft.cli import app
from heft.dynamics import kernels
from heft.errors import HeftError, InputError
from heft.information import inertia
from heft.models import Robot
from heft.plants import carrying
from tests.test_own_columns import SPRING, STATED, STIFFNESS

STIFFER = 26.0  # N·m/rad
MASS = 2.0  # of a load [kg]


def log(name: str, stiffness: float, folder: Path, load: bool = False) -> Path:
    """Write a log of heft's arm at 125 Hz: a spring at its elbow, a load in its hand."""
    table = pyarrow.parquet.read_table(DEMO / f"{name}.parquet")
    table = table.take(np.arange(0, len(table), 2))
    robot = Robot.from_urdf(DEMO / "arm.urdf")
    extra = np.zeros((len(table), len(robot.joints)))
    extra[:, robot.joints.index("elbow")] = stiffness * (np.asarray(table["q.elbow"]) - 0.4)
    if load:
        extra += carried(robot, table)
    for k, joint in enumerate(robot.joints):
        place = table.column_names.index(f"tau.{joint}")
        torque = np.asarray(table[f"tau.{joint}"]) + extra[:, k]
        table = table.set_column(place, f"tau.{joint}", [torque])
    path = folder / f"{name}-{stiffness:g}{'-load' * load}.parquet"
    pyarrow.parquet.write_table(table, path)
    return path


def carried(robot: Robot, table: pyarrow.Table) -> np.ndarray:
    """Return the torque that a load at the last link takes, at a smoothed motion."""
    time = np.asarray(table["t"])
    q = np.stack([np.asarray(table[f"q.{j}"]) for j in robot.joints], axis=1)
    v = np.gradient(q, time, axis=0)
    body, stated = carrying(robot, robot.links[-1].name)
    ten = np.zeros(10 * len(robot.tree.names))
    ten[body] = stated @ inertia.sphere(MASS, 0.05)
    motion = kernels.motion_of(robot.tree, robot.gravity, q, v, np.gradient(v, time, axis=0))
    return np.asarray(kernels.inverse_dynamics(robot.tree, motion, ten).T)


@pytest.fixture(scope="module")
def springs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of own columns."""
    path = tmp_path_factory.mktemp("own") / "springs.py"
    path.write_text(SPRING, encoding="utf-8")
    return path


def identified(name: str, stiffness: float, springs: Path) -> Path:
    """Return the folder of an identification beside the file of own columns."""
    out = springs.parent / f"{name}-{stiffness:g}"
    made = identify(
        DEMO / "arm.urdf",
        [log(name, stiffness, springs.parent)],
        settings=STATED,
        own_columns=springs,
    )
    write(made, out, report.html)
    return out


@pytest.fixture(scope="module")
def soft(springs: Path) -> Path:
    return identified("run1", STIFFNESS, springs)


@pytest.fixture(scope="module")
def stiff(springs: Path) -> Path:
    return identified("run2", STIFFER, springs)


def test_a_spring_that_grew_stiffer_is_what_changed(soft: Path, stiff: Path, springs: Path) -> None:
    found = compare(soft, stiff, springs)
    (clear,) = [c for c in found.changes if c.clear]
    assert (clear.kind, clear.name, clear.unit) == ("own", "elbow.spring", "N·m/rad")
    change, std = clear.difference
    assert abs(change - (STIFFER - STIFFNESS)) <= 4.0 * std and std <= 1.0
    for text in (compare_report.text(found), compare_report.html(found)):
        assert "own columns changed: elbow.spring" in text


def test_results_are_not_read_without_their_file_or_with_another(
    soft: Path, stiff: Path, springs: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.py"
    other.write_text(springs.read_text("utf-8") + "\n# changed\n", encoding="utf-8")
    out = ["--out", str(tmp_path / "out")]
    for command in (["compare", str(soft), str(stiff)], ["sample", str(soft), *out]):
        for arguments, words in (
            ([], "identified with own columns"),
            (["--columns", str(other)], "other own columns"),
        ):
            with pytest.raises(InputError, match=words) as refused:
                app([*command, *arguments])
            assert "springs.py" in refused.value.explain() and "sha256" in refused.value.explain()
    assert not (tmp_path / "out").exists()


def test_a_robot_is_shown_without_its_springs(soft: Path) -> None:
    robot, _ = read_robot(soft)
    assert robot.joints == Robot.from_urdf(DEMO / "arm.urdf").joints


def test_draws_hold_the_spring_beside_the_model_files(
    soft: Path, springs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "drawn"
    sample_files(soft, out, 40, own_columns=springs)
    said = json.loads((out / "samples.json").read_text("utf-8"))
    assert said["own_columns"]["parameters"] == ["elbow.spring", "cable"]
    contract = json.loads((soft / "estimate.json").read_text("utf-8"))
    (known,) = [i for i in contract["inputs"] if i["role"] == "own_columns"]
    assert said["own_columns"]["sha256"] == known["sha256"]
    place = said["parameters"].index("elbow.spring")
    drawn = np.array([v[place] for v in said["files"].values()])
    spring = contract["own_columns"][0]
    assert said["units"][place] == spring["unit"] and np.all(drawn > 0.0)
    assert abs(drawn.mean() - spring["value"]) <= spring["std"]
    assert drawn.std() == pytest.approx(spring["std"], rel=0.4)


def test_a_load_is_told_from_a_spring(springs: Path, tmp_path: Path) -> None:
    """Without the own columns the spring's torque spoils the run."""
    empty = log("run1", STIFFNESS, tmp_path)
    loaded = log("run2", STIFFNESS, tmp_path, load=True)
    inputs = Inputs.open(DEMO / "arm.urdf", None, None, springs)
    inputs = inputs.with_logs(empty=[empty], loaded=[loaded])
    found = carry_files(inputs, WeighCarried(settings=STATED))
    assert abs(found.body[0] - MASS) <= 0.02 * MASS
    assert [i["role"] for i in found.inputs].count("own_columns") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--sensor", "wrist.toml"], "does not feel"),
        (["--sensor", "wrist.toml", "--live"], "does not feel"),
    ],
)
def test_columns_that_mean_nothing_are_refused(
    arguments: list[str], words: str, springs: Path
) -> None:
    logs = [str(DEMO / "run1.parquet"), str(DEMO / "run2.parquet")]
    given = [] if "--live" in arguments else logs
    with pytest.raises(HeftError) as refused:
        app(["payload", *given, *arguments, "--columns", str(springs)])
    assert words in refused.value.explain()


def test_what_tells_of_a_spring_is_kept(springs: Path, tmp_path: Path) -> None:
    path = log("run1", STIFFNESS, tmp_path)
    with_it, without = (
        select_files(
            Inputs.open(DEMO / "arm.urdf", None, None, own), [path], "20%", tmp_path / f"{k}.json"
        ).excitation.names
        for k, own in enumerate((springs, None))
    )
    assert "elbow.spring" in with_it and "elbow.spring" not in without


def test_the_doctor_finds_a_swapped_sign_behind_a_spring(springs: Path, tmp_path: Path) -> None:
    """A strong spring looks like anything but a spring to who does not know it."""
    path = log("run1", 4.0 * STIFFNESS, tmp_path)
    table = pyarrow.parquet.read_table(path)
    place = table.column_names.index("tau.wrist_1_joint")
    turned = -np.asarray(table["tau.wrist_1_joint"])
    spoilt = tmp_path / "spoilt.parquet"
    pyarrow.parquet.write_table(table.set_column(place, "tau.wrist_1_joint", [turned]), spoilt)
    clean, found, unaware = (
        doctor.diagnose_files([file], DEMO / "arm.urdf", own_columns=own)
        for file, own in ((path, springs), (spoilt, springs), (path, None))
    )
    assert not clean.spoilt and max(share for _, share in clean.unexplained) < 0.1
    (wrong,) = [f for f in found.findings if f.severity == "spoils"]
    assert "wrist_1_joint" in wrong.about and "sign" in wrong.message
    worst = dict(unaware.unexplained)["elbow"]
    assert worst > 3.0 * dict(clean.unexplained)["elbow"]


def test_limits_of_torque_count_the_spring_that_was_identified(soft: Path, springs: Path) -> None:
    experiment = open_experiment(
        DEMO / "arm.urdf", given=soft, collisions=False, own_columns=springs
    )
    labels = experiment.plant.labels
    values = experiment.values(labels)
    place = labels.names.index("elbow.spring")
    contract = json.loads((soft / "estimate.json").read_text("utf-8"))
    assert values[place] == contract["own_columns"][0]["value"]
    deviations = experiment.deviations(values)
    (of_spring,) = [d for d in deviations.T if d[place] != 0.0]
    assert of_spring[place] == pytest.approx(experiment.doubt * values[place])
    known = experiment.known
    assert known is not None and "elbow.spring" in known.labels.names
    passive = experiment.loads().passive
    assert passive is not None
    q = np.random.default_rng(0).normal(size=(4, 6))
    torque, doubt = passive(q, 0.0 * q, 0.0 * q)
    elbow, lift = (experiment.robot.joints.index(j) for j in ("elbow", "shoulder_lift"))
    spring, cable = (e["value"] for e in contract["own_columns"])
    parts = np.stack([spring * (q[:, elbow] - 0.4), cable * np.sin(3.0 * q[:, lift])])
    assert np.allclose(torque[:, elbow], parts.sum(axis=0))
    assert np.allclose(doubt[:, elbow], experiment.doubt * np.abs(parts).sum(axis=0))
    with pytest.raises(InputError, match="identified with own columns"):
        open_experiment(DEMO / "arm.urdf", given=soft, collisions=False)
