"""Springs in a simulation: the torque that they ask of the drives, by the laws of pinocchio."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio as pin
import pyarrow
import pyarrow.parquet
import pytest

from heft.applications.demo import FOLDER as DEMO
from heft.applications.simulate import SimulationSettings, simulate_files
from heft.cli import app
from heft.errors import InvalidSetting
from heft.models import Options
from heft.simulation import Condition, Controller, Simulator, whole_robot
from tests.test_own_columns import SPRING
from tests.test_simulate import EXACT, FOLLOWING, SECONDS, SMOOTH_RUNNING, given_motion

ARM = DEMO / "arm.urdf"
CASCADE = Controller(integral=0.0)
SPRING_AND_CABLE = {"elbow.spring": 20.0, "cable": 3.0}
TOML = '[simulation.own_columns]\n"elbow.spring" = 20.0\ncable = 3.0\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a motion, a file of own columns and their parameters."""
    place = tmp_path_factory.mktemp("springs")
    arm = whole_robot(ARM)
    time = np.linspace(0.0, 1.5, 151)
    columns = {"t": time}
    for kind, values in zip("qva", given_motion(arm)(time), strict=True):
        columns |= {f"{kind}.{j}": values[:, k] for k, j in enumerate(arm.joints)}
    pyarrow.parquet.write_table(pyarrow.table(columns), place / "motion.parquet")
    (place / "springs.py").write_text(SPRING, encoding="utf-8")
    (place / "with.toml").write_text(TOML, encoding="utf-8")
    return place


def exact_columns(path: Path) -> dict[str, np.ndarray]:
    table = pyarrow.parquet.read_table(path)
    return {name: table[name].to_numpy() for name in table.column_names}


def springs_of(folder: Path, out: Path, settings: SimulationSettings) -> tuple[np.ndarray, ...]:
    """Return what drives supply beyond the rigid body, by pinocchio, and what springs ask."""
    found = simulate_files(
        ARM, folder / "motion.parquet", out, settings, own_columns=folder / "springs.py"
    )
    exact, joints = found.experiment.exact, found.experiment.arm.joints
    model = pin.buildModelFromUrdf(str(ARM))
    data = model.createData()
    assert list(model.names)[1:] == list(joints)
    rigid = [
        pin.rnea(model, data, q, v, a)
        for q, v, a in zip(exact.link, exact.link_velocity, exact.link_acceleration, strict=True)
    ]
    truth = exact_columns(out.with_suffix(".truth") / "exact.parquet")
    stated = np.stack([truth[f"own.{j}"] for j in joints], axis=1)
    elbow, lift = (exact.link[:, joints.index(j)] for j in ("elbow", "shoulder_lift"))
    asked = np.zeros_like(stated)
    asked[:, joints.index("elbow")] = 20.0 * (elbow - 0.4) + 3.0 * np.sin(3.0 * lift)
    assert np.allclose(stated, asked, atol=1e-12)
    return exact.passed - np.array(rigid), asked, np.array(rigid)


@pytest.mark.parametrize("gears", ["rigid", "elastic"])
def test_drives_supply_what_springs_ask_for(folder: Path, tmp_path: Path, gears: str) -> None:
    settings = replace(SimulationSettings().exact(), sensors=EXACT, own_columns=SPRING_AND_CABLE)
    if gears == "elastic":
        settings = replace(settings, drives=replace(settings.drives, resonance=(20.0, 30.0)))
    left, asked, rigid = springs_of(folder, tmp_path / "log.parquet", settings)
    assert np.abs(asked).max() > 5.0
    # What is logged of a speed is half a step off the one that the step was made with.
    assert np.abs(left - asked).max() <= 2e-4 * np.abs(rigid).max()


@pytest.mark.parametrize("controller", [FOLLOWING, CASCADE])
def test_a_controller_that_knows_the_spring_follows_closer(controller: Controller) -> None:
    arm = whole_robot(ARM)
    elbow = arm.joints.index("elbow")

    def passive(q: np.ndarray, v: np.ndarray) -> np.ndarray:
        torque = np.zeros_like(v)
        torque[elbow] = 20.0 * (q[elbow] - 0.4)
        return torque

    errors = []
    for known in (0.0, 1.0):
        condition = Condition(
            SMOOTH_RUNNING,
            EXACT,
            given_motion(arm),
            controller=replace(controller, known=known),
            duration=SECONDS,
            wrong=0.0,
            shift=0.0,
            passive=passive,
        )
        found = Simulator(arm, condition).run(0).exact
        wanted = given_motion(arm)(found.time)[0]
        errors.append(np.sqrt(np.mean((found.q - wanted)[:, elbow] ** 2)))
    assert errors[1] < 0.5 * errors[0]


def test_the_command_records_the_file_and_its_numbers(folder: Path, tmp_path: Path) -> None:
    files = [str(ARM), str(folder / "motion.parquet"), "--out", str(tmp_path / "log.parquet")]
    options = ["--with", str(folder / "with.toml"), "--columns", str(folder / "springs.py")]
    with pytest.raises(SystemExit) as done:
        app(["simulate", *files, *options, "--exact", "--quiet"])
    assert done.value.code == 0
    truth = json.loads((tmp_path / "log.truth" / "truth.json").read_text("utf-8"))
    digest = hashlib.sha256((folder / "springs.py").read_bytes()).hexdigest()
    assert truth["sha256"]["own_columns"] == digest
    assert truth["settings"]["own_columns"] == SPRING_AND_CABLE


ROTOR = """
from heft import RegressorColumn


def columns(q, v, a):
    return [RegressorColumn("rotor", "kg·m²", {"elbow": a["elbow"]})]
"""


@pytest.mark.parametrize(
    ("code", "values", "words"),
    [
        (None, {"cable": 1.0}, "not the file"),
        (SPRING, {"cable": 1.0}, "elbow.spring"),
        (SPRING, SPRING_AND_CABLE | {"elbow.sprin": 1.0}, "did you mean 'elbow.spring'"),
        (SPRING, SPRING_AND_CABLE | {"elbow.spring": -1.0}, "cannot be negative"),
        (ROTOR, {"rotor": 1.0}, "depend on acceleration"),
    ],
)
def test_what_cannot_be_simulated_is_refused(
    code: str | None, values: dict[str, float], words: str, folder: Path, tmp_path: Path
) -> None:
    own = tmp_path / "own.py"
    if code is not None:
        own.write_text(code, encoding="utf-8")
    settings = replace(SimulationSettings().exact(), own_columns=values)
    out = tmp_path / "log.parquet"
    with pytest.raises(InvalidSetting) as refused:
        simulate_files(
            ARM,
            folder / "motion.parquet",
            out,
            settings,
            own_columns=own if code is not None else None,
        )
    assert words in refused.value.explain() and not out.exists()


def test_a_floating_base_is_refused_with_what_to_do(folder: Path, tmp_path: Path) -> None:
    settings = SimulationSettings(options=Options(base="free"))
    with pytest.raises(InvalidSetting) as refused:
        simulate_files(ARM, folder / "motion.parquet", tmp_path / "log.parquet", settings)
    assert 'base = "fixed"' in refused.value.explain() and "balance" in str(refused.value)
