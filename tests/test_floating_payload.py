"""A load at a robot whose base floats: by its joints' torques, by the base's equations alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heft.applications.inputs import Inputs
from heft.applications.payload import WeighCarried, carry_files
from heft.cli import app
from heft.errors import InvalidSetting
from heft.information import inertia
from heft.models import ContactOptions, JointOptions
from tests import robots
from tests.plants import _floating_robot
from tests.test_floating_robot import OPTIONS, TIME

LOAD = b"""
  <link name="load"><inertial><origin xyz="0.02 0.01 -0.05"/><mass value="1.5"/>
    <inertia ixx="0.006" iyy="0.005" izz="0.004" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="grasp" type="fixed"><parent link="foot"/><child link="load"/>
    <origin xyz="0 0 -0.1"/></joint>
</robot>"""
MASS, COM = 1.5, np.array([0.02, 0.01, -0.15])  # in the foot's frame
NOISE = {"tau": 0.05, "force": 0.2, "torque": 0.05}


def write_log(path: Path, day: int, without: tuple[str, ...] = ()) -> None:
    """Write a log of the robot that `robots.WALKER` says, some kinds of signals left out."""
    signals, _ = _floating_robot("pose", "unknown").experiment(TIME + 30.0 * day)
    rng = np.random.default_rng(day)
    columns: dict[str, Any] = {"t": TIME}
    for kind, values in signals.items():
        for signal, x in values.items():
            if kind not in without:
                columns[f"{kind}.{signal}"] = x + NOISE.get(kind, 0.0) * rng.normal(size=len(TIME))
    np.savez(path, **columns)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the model, options, and logs without a load and with it."""
    place = tmp_path_factory.mktemp("walker")
    (place / "walker.urdf").write_bytes(robots.WALKER)
    (place / "all.toml").write_text(OPTIONS)
    (place / "base.toml").write_text('equations = "base"\n' + OPTIONS)
    write_log(place / "empty.npz", 0)
    write_log(place / "empty_bare.npz", 0, ("tau",))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(robots, "WALKER", robots.WALKER.replace(b"</robot>", LOAD))
        write_log(place / "loaded.npz", 1)
        write_log(place / "loaded_bare.npz", 1, ("tau",))
    return place


@pytest.mark.parametrize(
    ("options", "logs"),
    [("all.toml", ("empty", "loaded")), ("base.toml", ("empty_bare", "loaded_bare"))],
)
def test_a_load_at_the_foot_is_weighed(folder: Path, options: str, logs: tuple[str, str]) -> None:
    empty, loaded = (folder / f"{name}.npz" for name in logs)
    inputs = Inputs.open(folder / "walker.urdf", folder / options, None)
    inputs = inputs.with_logs(empty=[empty], loaded=[loaded])
    found = carry_files(inputs, WeighCarried(frame="foot"))
    mass, com = found.body[0], found.body[1:4]
    assert abs(mass - MASS) <= 0.03 * MASS and abs(mass - MASS) <= 4.0 * found.std[0]
    assert np.abs(com - COM).max() <= 0.01
    assert np.all(np.abs(com - COM) <= 4.0 * found.std[1:4])
    assert inertia.consistency_margin(found.ten) > 0.0 and found.frame == "foot"


def test_the_command_weighs_it(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as done:
        logs = [str(folder / "empty.npz"), str(folder / "loaded.npz")]
        model = ["--robot", str(folder / "walker.urdf"), "--with", str(folder / "all.toml")]
        out = ["--out", str(tmp_path / "out"), "--quiet"]
        app(["payload", *logs, *model, "--frame", "foot", *out])
    assert done.value.code == 0
    assert "mass" in capsys.readouterr().out
    contract = json.loads((tmp_path / "out" / "estimate.json").read_text("utf-8"))
    assert contract["parameters"][0]["value"] == pytest.approx(MASS, rel=0.03)


def test_gains_are_of_a_fixed_base() -> None:
    robot = robots.walker(contact={"ground": ContactOptions("foot")})
    with pytest.raises(InvalidSetting, match="gains are found on a fixed base only"):
        WeighCarried(known_mass=MASS).fit(robot, (), ())
    unsure = robot.with_joints(dict.fromkeys(robot.joints, JointOptions(gain=2.0, gain_std=0.1)))
    with pytest.raises(InvalidSetting, match="gains are found on a fixed base only") as told:
        WeighCarried().fit(unsure, (), ())
    assert told.value.argument == "[joint.NAME] gain_std"
