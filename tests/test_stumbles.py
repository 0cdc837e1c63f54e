"""What a user types when something is missing or too much, and what heft's own cures then do.

Each situation runs the command, takes the lines that it prints, puts them into the file of
`--with`, and runs it again: that must succeed.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from heft import cli
from heft.applications.doctor import doctor
from heft.applications.doctor.hypotheses import Pace
from heft.applications.viewer import _resting, read_robot
from heft.information import inertia
from heft.models.robot import Robot
from tests import experiments

Columns = dict[str, np.ndarray]
LIMIT = '<limit lower="-3" upper="3" effort="100" velocity="5"/>'


def link(name: str, mass: float, x: float) -> str:
    return (
        f'<link name="{name}"><inertial><origin xyz="{x} 0.02 0.01"/><mass value="{mass}"/>'
        '<inertia ixx="0.03" iyy="0.05" izz="0.04" ixy="0" ixz="0" iyz="0"/></inertial></link>'
    )


def joint(
    name: str, kind: str, parent: str, child: str, more: str = "", axis: str = "0 1 0"
) -> str:
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="0.4 0 0"/><axis xyz="{axis}"/>{LIMIT}{more}</joint>'
    )


ARM = (
    '<link name="base"/>'
    + link("upper", 4.0, 0.2)
    + link("lower", 3.0, 0.15)
    + joint("shoulder", "revolute", "base", "upper")
    + joint("elbow", "revolute", "upper", "lower")
)
HAND = (
    ARM
    + link("palm", 0.5, 0.05)
    + link("finger", 0.1, 0.02)
    + joint("gripper", "prismatic", "lower", "palm", axis="1 0 0")
    + joint("second finger", "prismatic", "palm", "finger", '<mimic joint="gripper"/>', "1 0 0")
)
TAGGED = ARM + link("tag", 0.2, 0.0) + joint("free tag", "floating", "lower", "tag")
FREE = """<mujoco><worldbody><body name="plate" pos="0 0 0.3"><freejoint name="loose"/>
  <inertial pos="0 0 0" mass="2" diaginertia="0.1 0.1 0.1"/>
  <body name="upper"><joint name="shoulder" axis="0 1 0"/>
    <inertial pos="0.2 0.02 0.01" mass="4" diaginertia="0.03 0.2 0.2"/>
  <body name="lower" pos="0.4 0 0"><joint name="elbow" axis="0 1 0"/>
    <inertial pos="0.15 0.02 0.01" mass="3" diaginertia="0.03 0.1 0.1"/>
  </body></body></body></worldbody></mujoco>"""


def urdf(content: str) -> str:
    return f'<robot name="arm">{content}</robot>'


@cache
def measured() -> Columns:
    """Return a log of the arm, simulated from its file."""
    rng = np.random.default_rng(3)
    robot = Robot.from_urdf_text(urdf(ARM).encode())
    drives = {f"{j}.{t}": s for j in robot.joints for t, s in (("viscous", 0.8), ("coulomb", 0.5))}
    log = experiments.log(experiments.Truth(robot, drives), 15.0, 100.0, rng)
    names = [f"{kind}.{j}" for kind in ("q", "tau") for j in robot.joints]
    blocks = list(log.blocks(names))
    values = np.concatenate([b.values for b in blocks])
    time = np.concatenate([b.time for b in blocks])
    return {"t": time, **{n: values[:, k] for k, n in enumerate(names)}}


@dataclass
class User:
    """Somebody at a terminal, in a folder with a model and a log."""

    folder: Path
    capsys: pytest.CaptureFixture[str]
    patch: pytest.MonkeyPatch

    def has(self, model: str, columns: Columns, name: str = "arm.urdf") -> None:
        (self.folder / name).write_text(model)
        np.savez(self.folder / "run.npz", **columns)

    def types(self, line: str) -> tuple[int, str]:
        """Return exit code and all that is printed."""
        self.patch.chdir(self.folder)
        self.patch.setattr("sys.argv", line.split())
        try:
            cli.main()
            code = 0
        except SystemExit as ended:
            code = int(ended.code or 0)
        told = self.capsys.readouterr()
        return code, told.out + told.err

    def takes(self, printed: str) -> str:
        """Put the lines that were printed for `--with` into its file."""
        said = re.sub(r"^ *--with: ", "", printed, flags=re.M)
        pattern = r"\[joint\.[^\n]+\]\n *\w+ = [\w.+-]+"
        blocks = re.findall(pattern, said)
        text = "\n".join(re.sub(r"\n *", "\n", block) for block in blocks)
        tomllib.loads(text)
        (self.folder / "options.toml").write_text(text + "\n")
        return text


@pytest.fixture
def user(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> User:
    return User(tmp_path, capsys, monkeypatch)


def without(*names: str) -> Callable[[Columns], Columns]:
    return lambda columns: {k: v for k, v in columns.items() if k not in names}


def dead(columns: Columns) -> Columns:
    return {**columns, "tau.elbow": np.zeros(len(columns["t"]))}


def currents(columns: Columns) -> Columns:
    return {k.replace("tau.", "current."): v / (10.6 if "tau" in k else 1.0)
            for k, v in columns.items()}  # fmt: skip


def held(columns: Columns) -> Columns:
    return {**columns, "q.elbow": np.full(len(columns["t"]), 0.3)}


def same(columns: Columns) -> Columns:
    return columns


CURED = {
    "a gripper that is not in the log": (urdf(HAND), same, "[joint.gripper]\nfixed = true"),
    "a torque that is not in the log": (
        urdf(ARM),
        without("tau.elbow"),
        "[joint.elbow]\nmeasured = false",
    ),
    "a dead torque": (urdf(ARM), dead, "[joint.elbow]\nmeasured = false"),
    "currents": (urdf(ARM), currents, "[joint.shoulder]\ngain = 10.6\n[joint.elbow]\ngain = 10.6"),
    "a free joint of a URDF": (urdf(TAGGED), same, '[joint."free tag"]\nfixed = true'),
    "a free joint of an MJCF file": (FREE, same, "[joint.loose]\nfixed = true"),
}


@pytest.mark.parametrize("case", CURED)
def test_a_cure_of_an_error_works_when_typed(case: str, user: User) -> None:
    model, change, lines = CURED[case]
    name = "arm.xml" if model.startswith("<mujoco") else "arm.urdf"
    user.has(model, change(measured()), name)
    code, printed = user.types(f"heft identify {name} run.npz --quiet")
    assert code == 2
    assert "rename" not in printed  # another joint's signal is none misspelt
    assert user.takes(printed) == lines
    code, printed = user.types(f"heft identify {name} run.npz --with options.toml --quiet")
    assert code == 0, printed


CHECKED = {
    "a gripper that is not in the log": (urdf(HAND), same, "joints not in the log"),
    "a torque that is not in the log": (urdf(ARM), without("tau.elbow"), "torques not in the log"),
    "a dead torque": (urdf(ARM), dead, "zero effort"),
    "a joint that is held": (urdf(ARM), held, "never moves"),
}


@pytest.mark.parametrize("case", CHECKED)
def test_a_cure_of_a_finding_works_when_typed(case: str, user: User) -> None:
    model, change, name = CHECKED[case]
    user.has(model, change(measured()))
    command = "heft check run.npz --robot arm.urdf --quiet"
    code, printed = user.types(command)
    assert name in printed
    assert code == (0 if "not in the log" in name else 1)
    user.takes(printed)
    code, printed = user.types(f"{command} --with options.toml")
    assert (code, name in printed) == (0, False), printed


def flipped(columns: Columns) -> Columns:
    return {**columns, "q.elbow": -columns["q.elbow"]}


def test_the_mended_map_works_when_asked_for(user: User) -> None:
    user.has(urdf(HAND), flipped(measured()))
    command = "heft check run.npz --robot arm.urdf --quiet"
    code, printed = user.types(command)
    assert code == 1 and "flipped position, elbow" in printed and "--mended map.toml" in printed
    assert user.types(f"{command} --mended map.toml")[0] == 1
    code, printed = user.types(f"{command} --map map.toml")
    assert code == 0 and "flipped" not in printed


def test_joints_that_only_the_log_has_are_named_together_and_passed_over(user: User) -> None:
    columns = measured()
    still = np.zeros(len(columns["t"]))
    more = {"q.gripper": still, "tau.gripper": still, "q.thumb": still, "v.wheel": still}
    user.has(urdf(ARM), {**columns, **more})
    code, printed = user.types("heft check run.npz --robot arm.urdf --quiet")
    assert code == 0 and "will spoil" not in printed, printed
    assert "joints not in the model, gripper, thumb, wheel" in printed
    assert user.types("heft identify arm.urdf run.npz --quiet")[0] == 0


def test_all_missing_joints_are_named_at_once(user: User) -> None:
    more = "".join(link(f"l{k}", 0.1, 0.0) + joint(f"f{k}", "revolute", "lower", f"l{k}")
                   for k in range(12))  # fmt: skip
    user.has(urdf(ARM + more), measured())
    code, printed = user.types("heft identify arm.urdf run.npz --quiet")
    assert code == 2
    assert all(f"[joint.f{k}]\nfixed = true" in user.takes(printed) for k in range(12))
    assert user.types("heft identify arm.urdf run.npz --with options.toml --quiet")[0] == 0


def test_options_of_a_joint_that_follows_another_name_the_one_it_follows(user: User) -> None:
    user.has(urdf(HAND), measured())
    (user.folder / "options.toml").write_text('[joint."second finger"]\nfixed = true\n')
    code, printed = user.types("heft identify arm.urdf run.npz --with options.toml --quiet")
    assert code == 2 and "[joint.gripper]" in printed


def test_half_of_the_torques_unmeasured_is_no_reason_for_poor(user: User) -> None:
    columns = measured()
    user.has(urdf(ARM), {**columns, "tau.shoulder": np.zeros(len(columns["t"]))})
    (user.folder / "options.toml").write_text("[joint.shoulder]\nmeasured = false\n")
    code, printed = user.types("heft identify arm.urdf run.npz --with options.toml --quiet")
    assert code == 0 and not printed.startswith("arm: poor"), printed
    assert "masses not seen" not in printed
    code, printed = user.types("heft check run.npz --robot arm.urdf --with options.toml --quiet")
    assert code == 0 and "tau.shoulder" not in printed, printed


GANTRY = (
    '<link name="base"/>'
    + link("bridge", 40.0, 0.0)
    + link("carriage", 15.0, 0.0)
    + joint("x", "prismatic", "base", "bridge", axis="1 0 0")
    + joint("y", "prismatic", "bridge", "carriage", axis="0 1 0")
)


@cache
def of_a_gantry() -> Columns:
    rng = np.random.default_rng(4)
    time = np.arange(2000) / 100.0
    q, v, a = experiments.fourier(2, time, rng)
    tau = a * [58.0, 17.0] + 6.0 * v + 3.0 * np.sign(v) + 0.3 * rng.normal(size=a.shape)
    names = ("q.x", "q.y"), ("tau.x", "tau.y")
    return {"t": time, **dict(zip(names[0], q.T, strict=True)),
            **dict(zip(names[1], tau.T, strict=True))}  # fmt: skip


def test_a_gantry_is_told_the_sum_of_what_it_moves(user: User) -> None:
    user.has(urdf(GANTRY), of_a_gantry())
    code, printed = user.types("heft identify arm.urdf run.npz --quiet")
    assert code == 0
    assert "masses not seen" not in printed and "move the joints before them" not in printed


def test_a_draft_takes_units_for_signals_and_says_what_else_is_needed(user: User) -> None:
    columns = of_a_gantry()
    renamed = {"t": columns["t"], "x_mm": 1e3 * columns["q.x"], "x_Nm": columns["tau.x"]}
    user.has(urdf(GANTRY), renamed)
    assert user.types("heft check run.npz --draft map.toml --robot arm.urdf")[0] == 0
    drafted = (user.folder / "map.toml").read_text()
    said = tomllib.loads(drafted)
    assert said["q"]["columns"] == ["x_mm"] and said["q"]["unit"] == "mm"
    assert "# [joint.y]\n# fixed = true\n" in drafted


def test_the_draft_that_an_error_proposes_is_typed_as_it_stands(user: User) -> None:
    columns = of_a_gantry()
    user.has(urdf(GANTRY), {"t": columns["t"], "x_mm": columns["q.x"], "x_Nm": columns["tau.x"]})
    code, printed = user.types("heft identify arm.urdf run.npz --quiet")
    (proposed,) = re.findall(r"heft check .*\.urdf", printed)
    assert code == 2 and user.types(proposed)[0] == 0
    assert (user.folder / "map.toml").is_file()


def test_a_search_is_bounded_and_says_so(user: User) -> None:
    user.has(urdf(ARM), measured())
    code, printed = user.types("heft check run.npz --robot arm.urdf --longest 1e-6")
    assert code == 0 and "search cut short" in printed and "--longest" in printed
    code, printed = user.types("heft check run.npz --robot arm.urdf --longest 100 --quiet")
    assert code == 0 and "search cut short" not in printed
    assert user.types("heft check run.npz --robot arm.urdf --longest -1")[0] == 2


def test_a_search_that_is_stopped_prints_what_was_found_so_far() -> None:
    columns = measured()
    kinds = {k: {j: columns[f"{k}.{j}"] for j in ("shoulder", "elbow")} for k in ("q", "tau")}
    log = experiments.Recording.from_arrays(columns["t"], "log", **kinds)
    said: list[str] = []

    class Impatient(doctor.threading.Event):
        def is_set(self) -> bool:
            return len(said) > 1  # once physics is asked

    robot = Robot.from_urdf_text(urdf(ARM).encode())
    found = doctor.diagnose([log], robot, said.append, stop=Impatient())
    assert [f.name for f in found.findings] == ["search cut short"]
    assert "stopped" in found.findings[0].message and found.motion is not None


def test_a_search_says_how_far_it_is() -> None:
    said: list[str] = []
    pace = Pace(100.0, every_s=0.0, progress=said.append)
    for k in range(3):
        pace.count(k + 1, 3, "corrections")
    assert said[-1].startswith("3 of 3 corrections tried") and not pace.is_over()


def test_the_viewer_takes_options(user: User) -> None:
    user.has(urdf(HAND), measured())
    options = user.folder / "options.toml"
    options.write_text("[joint.gripper]\nposition = 0.02\n")
    robot, _ = read_robot(user.folder / "arm.urdf", options)
    assert _resting(robot).tolist() == [0.0, 0.0, 0.02]
    assert "--with" in user.types("heft view --help")[1]


def test_a_link_without_inertial_is_as_its_shape() -> None:
    box = '<visual><origin xyz="0.5 0 0"/><geometry><box size="1 0.2 0.1"/></geometry></visual>'
    plain = urdf(ARM).replace("</robot>", f'<link name="beam">{box}</link>') + ""
    robot = Robot.from_urdf_text(
        (plain + joint("wrist", "revolute", "lower", "beam") + "</robot>").encode()
    )
    mass, com, tensor = inertia.to_body(robot.link("beam").nominal)
    assert mass == pytest.approx(3.5) and np.allclose(com, [0.5, 0.0, 0.0])
    assert np.allclose(np.diag(tensor), mass / 12.0 * np.array([0.05, 1.01, 1.04]))
    assert any("its own shape of 3.5 kg" in note for note in robot.notes)


def test_help_has_no_option_that_empties_an_option(user: User) -> None:
    for command in ("payload", "identify"):
        assert "-empty" not in user.types(f"heft {command} --help")[1].replace("--empty ", "")
