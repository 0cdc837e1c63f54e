"""The user's own columns: from a file to parameters, results, predictions, or a plain refusal."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pyarrow.parquet
import pytest

from heft.applications.demo import FOLDER as DEMO
from heft.applications.identification import report
from heft.applications.identification.identification import Identification
from heft.applications.identification.identified import Identified
from heft.applications.identification.inputs import identify
from heft.applications.identification.results import schema, write
from heft.applications.predict import predict_files
from heft.cli import app
from heft.errors import HeftError, InputError, InvalidSetting
from heft.fit.settings import Settings
from heft.models.own_columns import OwnColumns, RegressorColumn
from heft.models.robot import Robot
from heft.recordings.recording import Recording
from heft.signals.settings import Smoothing
from heft.signals.weak_form import Weak
from tests import robots

STIFFNESS = 20.0  # N·m/rad
STATED = Settings(Smoothing(corner=15.0, delay=0.003))  # no searches
SPRING = """
import numpy as np

from heft import RegressorColumn


def columns(q, v, a):
    return [
        RegressorColumn("elbow.spring", "N·m/rad", {"elbow": q["elbow"] - 0.4}, nonnegative=True),
        RegressorColumn("cable", "N·m", {"elbow": np.sin(3.0 * q["shoulder_lift"])}),
    ]
"""


def sprung(name: str, folder: Path) -> Path:
    """Write a log of the arm that comes with heft, with a spring at its elbow."""
    log = pyarrow.parquet.read_table(DEMO / f"{name}.parquet")
    turned = np.asarray(log["q.elbow"])
    torque = np.asarray(log["tau.elbow"]) + STIFFNESS * (turned - 0.4)
    place = log.column_names.index("tau.elbow")
    path = folder / f"{name}.parquet"
    pyarrow.parquet.write_table(log.set_column(place, "tau.elbow", [torque]), path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two logs and a file of own columns."""
    place = tmp_path_factory.mktemp("springs")
    for name in ("run1", "run2"):
        sprung(name, place)
    (place / "springs.py").write_text(SPRING, encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def found(folder: Path) -> Identification:
    """Return the arm with its spring, identified."""
    files = (DEMO / "arm.urdf", [folder / "run1.parquet"], [folder / "run2.parquet"])
    return identify(*files, settings=STATED, own_columns=folder / "springs.py")


def number(found: Identification, name: str) -> tuple[float, float]:
    parameters = found.consistent.parameters
    k = parameters.labels.names.index(name)
    return float(parameters.values[k]), float(parameters.std[k])


def test_a_spring_is_found_and_what_is_not_there_is_not(found: Identification) -> None:
    spring, spring_std = number(found, "elbow.spring")
    cable, cable_std = number(found, "cable")
    assert abs(spring - STIFFNESS) <= 4.0 * spring_std and spring_std <= 0.1 * STIFFNESS
    assert abs(cable) <= 4.0 * cable_std


def test_the_robot_is_the_one_without_the_spring(found: Identification) -> None:
    plain = identify(
        DEMO / "arm.urdf", [DEMO / "run1.parquet"], [DEMO / "run2.parquet"], settings=STATED
    )
    errors = [
        [s.total for s in f.validation if s.friction == "full" and s.filter_hz is not None]
        for f in (plain, found)
    ]
    assert errors[1] == pytest.approx(errors[0], rel=0.1)
    names = plain.consistent.parameters.labels.names
    masses = [k for k, name in enumerate(names) if name.endswith(".m")]
    one, other = (f.consistent.parameters for f in (plain, found))
    reach = 4.0 * np.hypot(one.std[masses], other.std[masses])
    assert np.all(np.abs(one.values[masses] - other.values[masses]) <= reach)


def test_results_hold_them_with_the_files_hash(
    found: Identification, folder: Path, tmp_path: Path
) -> None:
    write(found, tmp_path / "out", report.html)
    contract = json.loads((tmp_path / "out/estimate.json").read_text("utf-8"))
    jsonschema.validate(contract, schema())
    (own,) = [i for i in contract["inputs"] if i["role"] == "own_columns"]
    assert own["sha256"] == hashlib.sha256((folder / "springs.py").read_bytes()).hexdigest()
    spring, cable = contract["own_columns"]
    assert (spring["name"], spring["unit"]) == ("elbow.spring", "N·m/rad")
    assert (spring["value"], spring["std"]) == number(found, "elbow.spring")
    assert cable["name"] == "cable"
    for text in (report.text(found), (tmp_path / "out/report.html").read_text("utf-8")):
        assert "elbow.spring" in text and "--columns" in text


@pytest.mark.parametrize("friction", ["full", "simple", "none"])
def test_predictions_hold_the_spring(
    found: Identification, folder: Path, tmp_path: Path, friction: Any
) -> None:
    """A file that says zero in place of the spring takes its torque away, and nothing else."""
    write(found, tmp_path / "out")
    identified = Identified.load(tmp_path / "out", folder / "springs.py")
    log = Recording.open(folder / "run2.parquet")
    drives = {k: {**v, "elbow.spring": 0.0, "cable": 0.0} for k, v in identified.friction.items()}
    whole, without = (
        np.concatenate([p.effort for p in i.predictions(log, friction)])
        for i in (identified, replace(identified, friction=drives))
    )
    table = pyarrow.parquet.read_table(folder / "run2.parquet")
    q = {j: np.asarray(table[f"q.{j}"]) for j in identified.robot.joints}
    spring, cable = number(found, "elbow.spring")[0], number(found, "cable")[0]
    own = spring * (q["elbow"] - 0.4) + cable * np.sin(3.0 * q["shoulder_lift"])
    elbow = identified.robot.joints.index("elbow")
    assert np.abs(np.delete(whole - without, elbow, axis=1)).max() == 0.0
    # Positions are smoothed before they are used.
    assert np.abs((whole - without)[:, elbow] - own).max() <= 1e-2 * np.abs(own).max()


def test_the_command_takes_the_file_and_refuses_another(folder: Path, tmp_path: Path) -> None:
    own, log = str(folder / "springs.py"), str(folder / "run1.parquet")
    out, tau = str(tmp_path / "found"), str(tmp_path / "tau.csv")
    with pytest.raises(SystemExit) as done:
        arm, stated = str(DEMO / "arm.urdf"), ["--corner", "15", "--delay", "0.003", "--quiet"]
        app(["identify", arm, log, "--columns", own, "--out", out, *stated])
    assert done.value.code == 0
    assert f"--columns {own}" in (tmp_path / "found/report.html").read_text("utf-8")
    assert predict_files(Path(out), Path(log), Path(tau), own_columns=Path(own)) > 0
    for arguments, words in (
        ([], "identified with own columns"),
        (["--columns", str(changed(folder, tmp_path))], "other own columns"),
    ):
        with pytest.raises(InputError, match=words):
            app(["predict", out, log, "--out", tau, *arguments])


def changed(folder: Path, place: Path) -> Path:
    path = place / "other.py"
    path.write_text((folder / "springs.py").read_text("utf-8") + "\n# changed\n", encoding="utf-8")
    return path


def test_running_the_file_leaves_nothing_beside_it(folder: Path) -> None:
    Robot.from_urdf(DEMO / "arm.urdf").with_own_columns(folder / "springs.py")
    assert not (folder / "__pycache__").exists()


ONE = "from heft import RegressorColumn as C\n"
BAD = {
    "no function": ("x = 1", "no function `columns`"),
    "a syntax error": ("def columns(", "cannot be run"),
    "an exit": ("raise SystemExit(3)", "cannot be run"),
    "a failure": ("def columns(q, v, a):\n    return [q['wrist']]", "fails"),
    "nothing": ("def columns(q, v, a):\n    return []", "a list of heft.RegressorColumn"),
    "arrays": ("def columns(q, v, a):\n    return [q['elbow']]", "a list of heft.RegressorColumn"),
    "an unknown joint": (
        f"{ONE}def columns(q, v, a):\n    return [C('k', '1', {{'elbw': 1.0}})]",
        "did you mean 'elbow'",
    ),
    "a wrong length": (
        f"{ONE}def columns(q, v, a):\n    return [C('k', '1', {{'elbow': q['elbow'][:3]}})]",
        "no number for each sample",
    ),
    "infinity": (
        f"{ONE}def columns(q, v, a):\n    return [C('k', '1', {{'elbow': 1 / (0 * v['elbow'])}})]",
        "not finite",
    ),
    "one name twice": (
        f"{ONE}def columns(q, v, a):\n    return 2 * [C('k', '1', {{'elbow': 1.0}})]",
        "names of their own",
    ),
    "the robot's name": (
        f"{ONE}def columns(q, v, a):\n    return [C('elbow.viscous', '1', {{'elbow': 1.0}})]",
        "the name of a parameter of the robot",
    ),
}


@pytest.mark.parametrize("what", BAD)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_what_is_no_file_of_columns_is_refused(what: str, tmp_path: Path) -> None:
    code, words = BAD[what]
    path = tmp_path / "columns.py"
    path.write_text(code, encoding="utf-8")
    with pytest.raises(InputError, match=words.replace("(", r"\(")) as refused:
        Robot.from_urdf(DEMO / "arm.urdf").with_own_columns(path)
    assert str(path) in str(refused.value)


def test_a_file_that_is_not_there_is_named_with_the_one_that_is(tmp_path: Path) -> None:
    (tmp_path / "springs.py").write_text("def columns(q, v, a):\n    return []\n")
    with pytest.raises(InputError, match="does not exist") as refused:
        OwnColumns.load(tmp_path / "sprngs.py", ("elbow",))
    assert "springs.py" in str(refused.value.explain())


def test_other_columns_at_another_motion_are_refused() -> None:
    calls = []

    def columns(q: Any, v: Any, a: Any) -> list[RegressorColumn]:
        calls.append(1)
        return [RegressorColumn(f"k{len(calls) // 4}", "1", {"elbow": q["elbow"]})]

    own = OwnColumns(columns, ("shoulder", "elbow"))
    with pytest.raises(InvalidSetting, match="other ones at another motion"):
        for _ in range(5):
            own.rows(*np.zeros((3, 2, 7)))


def test_what_depends_on_acceleration_has_no_weak_form() -> None:
    def rotor(q: Any, v: Any, a: Any) -> list[RegressorColumn]:
        return [RegressorColumn("rotor", "kg·m²", {"elbow": a["elbow"]})]

    robot = robots.planar_arm()
    own = OwnColumns(rotor, robot.joints)
    assert own.accelerated
    from heft.plants import Problem, RobotPlant

    time = 0.01 * np.arange(400)
    angles = {j: np.sin((k + 1.3) * time) for k, j in enumerate(robot.joints)}
    log = Recording.from_arrays(time, "run", q=angles, tau=angles)
    plant = RobotPlant(replace(robot, own_columns=own))
    with pytest.raises(HeftError, match="no weak form"):
        Problem(plant, (log,), Smoothing(10.0, delay=0.0), 1, weak=Weak()).information()


def test_settings_of_robots_keep_them() -> None:
    robot = replace(
        robots.planar_arm(),
        own_columns=OwnColumns(
            lambda q, v, a: [RegressorColumn("k", "1", {"elbow": q["elbow"]})],
            ("shoulder", "elbow"),
        ),
    )
    other = robot.with_joints({"elbow": robot.options.of("elbow")})
    assert other.own_names == ("k",)
    assert other.structure_hash() != replace(other, own_columns=None).structure_hash()
