"""Motions for a robot with springs: their rows, gradients, and limits that count what they take."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio as pin
import pyarrow.parquet
import pytest

from heft.applications.demo import FOLDER as DEMO
from heft.applications.excite import Excited, excite_files, open_experiment
from heft.errors import InvalidSetting
from heft.models import Robot
from heft.models.own_columns import JointValues, OwnColumns, RegressorColumn
from heft.plants import ExcitableRobot, standard_rows
from tests import robots, test_excite
from tests.test_own_columns import SPRING

ARM = DEMO / "arm.urdf"
STIFFNESS = 90.0  # N·m/rad, of which the elbow's 200 N·m do not hold 3 rad
LIMITS = f'[motion]\n[motion.own_columns]\n"elbow.spring" = {STIFFNESS}\ncable = 0.5\n'
QUICK = replace(test_excite.QUICK, collisions=False)


def curved(q: JointValues, v: JointValues, a: JointValues) -> list[RegressorColumn]:
    """Columns of all kinds of motion, some on two joints."""
    both = np.sin(q["shoulder"] + 2.0 * q["elbow"])
    return [
        RegressorColumn("band", "N·m", {"shoulder": both, "elbow": 2.0 * both}),
        RegressorColumn("air", "N·m·s²/rad²", {"elbow": v["elbow"] * np.abs(v["shoulder"])}),
        RegressorColumn("rotor", "kg·m²", {"shoulder": a["elbow"] * np.cos(q["elbow"])}),
    ]


def plant() -> ExcitableRobot:
    robot = robots.planar_arm(drives=True)
    return ExcitableRobot.of(replace(robot, own_columns=OwnColumns(curved, robot.joints)))


def test_rows_are_those_of_the_robot() -> None:
    made, rng = plant(), np.random.default_rng(0)
    q, v, a = rng.normal(size=(3, 9, 2))
    columns = list(range(len(made.labels)))[::-2]
    whole = standard_rows(made.robot, q, v, a)
    rows = made.rows(made.samples_at(q, v, a), columns).regressor
    assert set(made.robot.own_names) & {made.labels.names[c] for c in columns}
    assert np.allclose(rows, whole[:, :, columns], atol=1e-12)


def test_gradients_are_those_of_the_rows() -> None:
    """Along a random direction, by the limit of two step lengths (Richardson)."""
    made, rng = plant(), np.random.default_rng(1)
    state, way = rng.normal(size=(2, 3, 5, 2))
    columns = list(range(len(made.labels) - 3, len(made.labels)))
    seeds = rng.normal(size=(5, 2, 3))

    def value(step: float) -> float:
        rows = made.rows(made.samples_at(*(state + step * way)), columns).regressor
        return float(np.sum(seeds * rows))

    coarse, fine = ((value(h) - value(-h)) / (2.0 * h) for h in (2e-3, 1e-3))
    found = made.pull_back(made.samples_at(*state), columns, seeds)
    slope = float(np.sum(np.array(found) * way))
    assert slope == pytest.approx((4.0 * fine - coarse) / 3.0, rel=1e-7)


@pytest.fixture(scope="module")
def excited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Excited, Path]:
    """Return a motion for the arm with a spring, and its folder."""
    place = tmp_path_factory.mktemp("excited")
    (place / "springs.py").write_text(SPRING, encoding="utf-8")
    (place / "limits.toml").write_text(LIMITS, encoding="utf-8")
    settings = replace(QUICK, own_columns=place / "springs.py")
    return excite_files(ARM, place / "out", settings, place / "limits.toml"), place


def spring_torque(q: np.ndarray, joints: tuple[str, ...]) -> np.ndarray:
    torque = np.zeros_like(q)
    elbow, lift = (q[:, joints.index(j)] for j in ("elbow", "shoulder_lift"))
    torque[:, joints.index("elbow")] = STIFFNESS * (elbow - 0.4) + 0.5 * np.sin(3.0 * lift)
    return torque


def test_torque_keeps_its_limits_with_the_spring(excited: tuple[Excited, Path]) -> None:
    """By pinocchio, for each spring and cable that the doubt allows."""
    found, folder = excited
    table = pyarrow.parquet.read_table(folder / "out" / "motion.parquet")
    joints = found.planned.robot.joints
    q, v, a = (np.stack([np.asarray(table[f"{k}.{j}"]) for j in joints], axis=1) for k in "qva")
    model = pin.buildModelFromUrdf(str(ARM))
    data = model.createData()
    rigid = np.array([pin.rnea(model, data, *state) for state in zip(q, v, a, strict=True)])
    own = spring_torque(q, joints)
    for share in (0.5, 1.0, 1.5):
        assert np.all(np.abs(rigid + share * own) <= found.planned.stated.effort)
    assert np.abs(own).max() >= 0.2 * found.planned.stated.effort[joints.index("elbow")]
    proofs = {c.of: c for c in found.certificates if c.quantity == "effort"}
    seen = np.abs(rigid + 1.5 * own).max(axis=0)
    assert all(proofs[j].holds and proofs[j].bound >= seen[k] for k, j in enumerate(joints))


def test_the_motion_tells_the_spring(excited: tuple[Excited, Path]) -> None:
    found, folder = excited
    told = {p.expression: p for p in found.predictions}
    (spring,) = [p for e, p in told.items() if e.startswith("elbow.spring")]
    assert spring.unit == "N·m/rad" and spring.after < 0.1 * STIFFNESS
    said = json.loads((folder / "out" / "design.json").read_text("utf-8"))
    assert len(said["inputs"]["own_columns"]) == 64
    assert any("no proof" in remark for remark in found.planned.remarks)


@pytest.mark.parametrize(
    ("limits", "own", "words"),
    [
        ("[motion]\n", SPRING, "every own column is needed"),
        (LIMITS, None, "not the file"),
        (LIMITS.replace("cable", "cabel"), SPRING, "did you mean 'cable'"),
    ],
)
def test_limits_are_not_proven_without_what_springs_take(
    limits: str, own: str | None, words: str, tmp_path: Path
) -> None:
    (tmp_path / "limits.toml").write_text(limits, encoding="utf-8")
    (tmp_path / "own.py").write_text(own or "", encoding="utf-8")
    with pytest.raises(InvalidSetting) as refused:
        open_experiment(
            ARM,
            tmp_path / "limits.toml",
            collisions=False,
            own_columns=tmp_path / "own.py" if own is not None else None,
        )
    assert words in refused.value.explain()


def test_a_floating_base_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "with.toml").write_text('base = "free"\n', encoding="utf-8")
    with pytest.raises(InvalidSetting) as refused:
        open_experiment(ARM, tmp_path / "with.toml")
    assert 'base = "fixed"' in refused.value.explain() and "one way" in str(refused.value)


def test_steps_of_a_gradient_are_small_beside_a_joint() -> None:
    robot = Robot.from_urdf(ARM)
    own = OwnColumns(
        lambda q, v, a: [RegressorColumn("s", "N·m", {"elbow": np.sin(q["elbow"])})], robot.joints
    )
    q, v, a = np.random.default_rng(0).normal(size=(3, len(robot.joints), 7))
    seeds = np.zeros((len(robot.joints), 1, 7))
    elbow = robot.joints.index("elbow")
    seeds[elbow] = 1.0
    by_q, by_v, by_a = own.pull_back(q, v, a, seeds)
    assert np.abs(by_q[elbow] - np.cos(q[elbow])).max() < 1e-9
    assert not by_v.any() and not by_a.any()
