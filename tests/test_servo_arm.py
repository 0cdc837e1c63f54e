"""Arms of servos, simulated by MuJoCo with friction of another law: told from position and goal."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from benchmarks.servo_arms import (
    JOINTS,
    LINKS,
    ServoArm,
    teleoperated,
    urdf,
    write_dataset,
)

from heft.applications.servo import (
    ArmBench,
    Bench,
    Episode,
    IdentifiedArm,
    arm,
    hidden,
    identify_arm,
    open_episodes,
)
from heft.cli import main
from heft.errors import FitError, InputError, InvalidRecording, InvalidSetting, MissingSignal
from heft.models import Robot
from tests.browser import barriers

RATE = 50
RANGE = (1024, 3072)  # calibrated, in steps of the encoder: half a turn


def robot_of(joints: int) -> Robot:
    return Robot.from_text(urdf(joints).encode())


def episodes_of(truth: ServoArm, count: int, seconds: float, seed: int) -> list[Episode]:
    rng, made = np.random.default_rng(seed), []
    for k in range(count):
        goals = teleoperated(rng, seconds, RATE, truth.joints)
        time = np.arange(len(goals)) / RATE
        made.append(Episode(f"episode {k}", time, truth.moved(goals, RATE, rng), goals))
    return made


@pytest.fixture(scope="module")
def truth() -> ServoArm:
    return replace(ServoArm.drawn(np.random.default_rng(21), 3), jitter=0.0005)


@pytest.fixture(scope="module")
def episodes(truth: ServoArm) -> list[Episode]:
    return episodes_of(truth, 5, 12.0, 22)


@pytest.fixture(scope="module")
def free(episodes: list[Episode]) -> IdentifiedArm:
    return identify_arm(robot_of(3), ArmBench(), episodes)


@pytest.fixture(scope="module")
def loop() -> arm.Loop:
    return arm.Loop(arm.with_servos(robot_of(3)), damps=0.01, sums=0.3, reach=0.2)


@pytest.fixture(scope="module")
def numbers(loop: arm.Loop) -> np.ndarray:
    rng = np.random.default_rng(5)
    middle = [np.log([17.0, 0.6, 0.05, 0.03])]
    values = np.concatenate(
        [np.repeat(middle, 3), np.zeros(3), np.full(9, 0.002), np.full(3, 0.02), np.full(3, 0.3)]
    )
    values += 0.1 * rng.standard_normal(len(values))
    return np.concatenate([values, [0.013, 1.5, 0.03, 0.7, 0.2, -0.1]])


def test_derivatives_are_those_of_the_steps(
    loop: arm.Loop, numbers: np.ndarray, episodes: list[Episode]
) -> None:
    """With D, I, a limit of the duty and what drives lack; goals' corners tell a side alone."""
    one = replace(episodes[0], time=episodes[0].time[:120])
    one = replace(one, position=one.position[:120], goal=one.goal[:120])
    slopes = loop.followed(numbers, one)[1]
    for k, name in enumerate(loop.names):
        step = np.zeros(len(numbers))
        step[k] = 1e-5
        ahead, behind = (loop.followed(numbers + x, one, False)[0] for x in (step, -step))
        wanted = (ahead - behind) / 2e-5
        assert np.abs(slopes[:, :, k] - wanted).max() <= 3e-4 * np.abs(wanted).max() + 1e-7, name


def test_all_scaled_alike_moves_alike(
    loop: arm.Loop, numbers: np.ndarray, episodes: list[Episode]
) -> None:
    """What positions and goals cannot tell: the scale."""
    scaled = numbers.copy()
    scaled[: 4 * 3 + 3] += math.log(3.0)  # joints' numbers and masses
    one, other = (loop.followed(x, episodes[0], False)[0] for x in (numbers, scaled))
    assert np.ptp(one) > 1.0 and np.abs(one - other).max() < 1e-9


@pytest.mark.parametrize("speed", [np.inf, 1.5])
def test_the_loop_is_that_of_an_independent_simulator(
    loop: arm.Loop, truth: ServoArm, speed: float
) -> None:
    """MuJoCo's arm without dry friction, by the true numbers: within steps of the encoder."""
    smooth = replace(truth, coulomb=1e-9 * truth.coulomb, jitter=0.0, goal_speed=speed)
    (episode,) = episodes_of(smooth, 1, 8.0, 3)
    plain = replace(loop, damps=0.0, sums=0.0, reach=np.inf, speed=speed)
    joints = [smooth.stiffness, smooth.viscous, smooth.coulomb, smooth.armature]
    masses = smooth.masses / [link[3] for link in LINKS[:3]]
    values = np.concatenate(
        [np.log([*joints, masses]).ravel(), np.zeros(15), [smooth.delay], np.zeros(5)]
    )
    missed = plain.followed(values, episode, False)[0] - episode.position
    assert np.ptp(episode.position) > 1.0
    assert np.abs(missed[episode.time > 0.5]).max() < 0.003  # [rad]: two steps of 4096, as delays


def test_intervals_of_a_simulated_arm_hold_the_truth(truth: ServoArm, free: IdentifiedArm) -> None:
    """At the scale of one weighed link; of nine or so at 95 % two may be outside, none far."""
    true = truth.truth()
    bench = ArmBench(known={free.reference: true[f"{free.reference}.mass"]})
    found = replace(free, bench=bench)
    apart = {n: abs(q.value - true[n]) / q.std for n, q in found.quantities.items()}
    assert len(apart) >= 8 and sum(z > 1.96 for z in apart.values()) <= 2, apart
    assert max(apart.values()) < 3.5, apart
    assert not any(n.endswith("armature") for n in apart)  # 50 Hz
    assert "rotors and the delay are not told" in found.text()
    # Without a known mass ratios are the same.
    name = f"{JOINTS[1]}.stiffness"
    ratio = [
        x.quantities[name].value / x.all_quantities[f"{x.reference}.mass"].value
        for x in (free, found)
    ]
    assert ratio[0] == pytest.approx(ratio[1], rel=1e-3)
    assert "no mass is known" in free.text() and not found.lacks and found.misfit == []


def test_files_say_to_mujoco_what_was_found(free: IdentifiedArm) -> None:
    numbers = {n: q.value for n, q in free.all_quantities.items()}
    content, _, mjcf, lab, pace = free.files()
    model = mujoco.MjModel.from_xml_string(mjcf)
    for k, joint in enumerate(JOINTS[:3]):
        assert model.actuator(joint).gainprm[0] == pytest.approx(numbers[f"{joint}.stiffness"])
        assert model.joint(joint).armature[0] == pytest.approx(numbers[f"{joint}.armature"])
        assert model.body(LINKS[k][0]).mass[0] == pytest.approx(numbers[f"{LINKS[k][0]}.mass"])
    shifts = free.fit.loop.parts(free.fit.values)[2].reshape(-1, 3)
    assert np.abs(shifts).max() > 1e-5  # and the file has them
    for k, shift in enumerate(shifts):
        assert model.body(LINKS[k][0]).ipos == pytest.approx(
            np.array(LINKS[k][4]) + shift, abs=1e-7
        )
    assert json.loads(content)["reference"] == free.reference
    assert json.loads(pace)["joint_order"] == list(JOINTS[:3]) and "VISCOUS" in lab


def test_a_limit_of_the_goals_speed_is_named(truth: ServoArm) -> None:
    """And stated it is simulated: nothing is left to name."""
    slow = episodes_of(replace(truth, goal_speed=0.8), 4, 8.0, 5)
    try:
        said = identify_arm(robot_of(3), ArmBench(), slow).text()
    except FitError as error:
        said = str(error)
    assert "rad/s, its goal" in said and "(goal_speed" in said
    stated = identify_arm(robot_of(3), ArmBench(goal_speed=0.8), slow)
    assert stated.misfit == [] and np.degrees(stated.fit.missed.max()) < 0.5


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ({"dead_zone": 0.0061}, "off the goal: a dead zone"),
        ({"fade": 0.3}, "after 8 s of an episode: windings warm"),
        ({"play": math.radians(1.0)}, "look for play"),
    ],
)
def test_what_drives_lack_is_said(truth: ServoArm, fault: dict[str, float], says: str) -> None:
    """And no interval of what is told is far off."""
    other = replace(truth, **fault)
    made = episodes_of(other, 4, 8.0, 22)
    fit = arm.fitted(arm.Loop(arm.with_servos(robot_of(3))), made)
    found = IdentifiedArm(robot_of(3), ArmBench(), made, fit)
    assert says in found.text() and bool(found.lacks) == ("play" not in fault)
    true, link = other.truth(), f"{found.reference}.mass"
    scale = found.all_quantities[link].value / true[link]
    told = {n: q for n, q in found.quantities.items() if n != link}
    apart = {n: abs(q.value - scale * true[n]) / q.std for n, q in told.items()}
    assert max(apart.values(), default=0.0) < 3.5, apart
    assert sum(z > 1.96 for z in apart.values()) <= 1, apart


def dataset(
    folder: Path, episodes: list[Episode], unit: str = "deg", names: tuple[str, ...] = JOINTS[:3]
) -> Path:
    """Write episodes as a dataset in degrees, or −100 … 100 of `RANGE`."""
    turn = 180.0 / np.pi
    if unit == "range":
        turn = 200.0 * 4096 / (RANGE[1] - RANGE[0]) / (2.0 * np.pi)
    pairs = [(turn * e.position, turn * e.goal) for e in episodes]
    write_dataset(folder, pairs, RATE, names)
    return folder


def calibration(path: Path, **other: Any) -> Path:
    entry = {"id": 1, "drive_mode": 0, "homing_offset": 3, "range_min": RANGE[0]}
    entry |= {"range_max": RANGE[1]} | other
    path.write_text(json.dumps(dict.fromkeys(JOINTS, entry)))
    return path


@pytest.mark.parametrize("unit", ["deg", "range"])
def test_a_dataset_has_the_angles_of_its_unit(
    tmp_path: Path, episodes: list[Episode], unit: str
) -> None:
    folder = dataset(tmp_path / "set", episodes, unit)
    bench = ArmBench(unit=unit, turned=(JOINTS[1],), zero={JOINTS[0]: 0.25})  # type: ignore[arg-type]
    made = open_episodes([folder], robot_of(3), bench, calibration(tmp_path / "arm.json"))
    assert len(made) == len(episodes)
    wanted = episodes[1].position * [1.0, -1.0, 1.0] + [0.25, 0.0, 0.0]
    assert made[1].position == pytest.approx(wanted, abs=1e-5)
    assert made[1].time == pytest.approx(episodes[1].time)


def test_a_grippers_percents_are_its_range(tmp_path: Path, episodes: list[Episode]) -> None:
    names = (*JOINTS[:2], "gripper")
    folder = dataset(tmp_path / "set", episodes, "deg", names)
    bench = ArmBench(unit="deg", joints=JOINTS[:3])
    with pytest.raises(InvalidSetting, match="0 to 100"):
        open_episodes([folder], robot_of(3), bench)
    turned = calibration(tmp_path / "arm.json", drive_mode=1)
    (made, *_) = open_episodes([folder], robot_of(3), bench, turned)
    logged = np.degrees(episodes[0].position[:, 2])
    assert made.position[:, 2] == pytest.approx(-(logged - 50.0) / 100.0 * np.pi, abs=1e-5)


def test_logs_of_other_formats_are_the_same(tmp_path: Path, episodes: list[Episode]) -> None:
    """A folder of CSV files, by their canonical columns."""
    for k, e in enumerate(episodes[:2]):
        head = ",".join(["t", *(f"{c}.{j}" for c in ("q", "q_ref") for j in JOINTS[:3])])
        rows = np.column_stack([e.time, e.position, e.goal])
        np.savetxt(tmp_path / f"{k}.csv", rows, delimiter=",", header=head, comments="")
    made = open_episodes([tmp_path], robot_of(3), ArmBench())
    assert [len(e.time) for e in made] == [len(e.time) for e in episodes[:2]]
    assert np.allclose(made[1].goal, episodes[1].goal)


def test_another_gain_than_the_duty_shows_is_refused(
    tmp_path: Path, episodes: list[Episode]
) -> None:
    e, gain = episodes[0], 1.5
    kinds = {"q": e.position, "q_ref": e.goal, "u": np.clip(gain * (e.goal - e.position), -1, 1)}
    columns = {f"{c}.{j}": x[:, k] for c, x in kinds.items() for k, j in enumerate(JOINTS[:3])}
    np.savez(tmp_path / "log.npz", t=e.time, **columns)  # type: ignore[arg-type]
    assert open_episodes([tmp_path / "log.npz"], robot_of(3), ArmBench(gain=gain))
    with pytest.raises(InvalidSetting, match="gain is not the stated one"):
        open_episodes([tmp_path / "log.npz"], robot_of(3), ArmBench(gain=1.3 * gain))


def without_goals(folder: Path) -> None:
    info = json.loads((folder / "meta" / "info.json").read_text())
    del info["features"]["action"]
    (folder / "meta" / "info.json").write_text(json.dumps(info))


def without_names(folder: Path) -> None:
    info = json.loads((folder / "meta" / "info.json").read_text())
    info["features"]["observation.state"]["names"] = None
    (folder / "meta" / "info.json").write_text(json.dumps(info))


def without_rate(folder: Path) -> None:
    info = json.loads((folder / "meta" / "info.json").read_text())
    info["fps"] = "thirty"
    (folder / "meta" / "info.json").write_text(json.dumps(info))


def broken(folder: Path) -> None:
    (folder / "meta" / "info.json").write_text("{")


@pytest.mark.parametrize(
    ("change", "bench", "error", "says"),
    [
        (without_goals, {"unit": "deg"}, MissingSignal, "does not hold the goals"),
        (without_names, {"unit": "deg"}, InvalidRecording, "does not name its joints"),
        (without_rate, {"unit": "deg"}, InvalidRecording, "frames a second"),
        (broken, {"unit": "deg"}, InvalidSetting, "is no JSON"),
        (lambda _: None, {"unit": "range"}, InvalidSetting, "without the calibration"),
        (lambda _: None, {}, InvalidSetting, "whether the dataset counts degrees"),
        (lambda _: None, {"joints": ("a", "b", "c")}, InvalidSetting, "are not those of"),
        (lambda _: None, {"turned": ("elbow",)}, InvalidSetting, "no joint 'elbow'"),
    ],
)
def test_a_dataset_that_does_not_tell_is_refused(
    tmp_path: Path,
    episodes: list[Episode],
    change: Callable[[Path], None],
    bench: dict[str, Any],
    error: type[InputError],
    says: str,
) -> None:
    folder = dataset(tmp_path / "set", episodes[:1])
    change(folder)
    with pytest.raises(error, match=says):
        open_episodes([folder], robot_of(3), ArmBench(**bench))


def test_percents_in_a_log_are_no_angles(tmp_path: Path, episodes: list[Episode]) -> None:
    e = episodes[0]
    names = [f"{c}.{j}" for c in ("q", "q_ref") for j in JOINTS[:3]]
    columns = np.hstack([60.0 * e.position, 60.0 * e.goal]).T
    np.savez(tmp_path / "log.npz", t=e.time, **dict(zip(names, columns, strict=True)))  # type: ignore[arg-type]
    with pytest.raises(InvalidRecording, match=r"no angles in rad(.|\n)*calibration"):
        open_episodes([tmp_path / "log.npz"], robot_of(3), ArmBench())


def test_a_calibration_that_is_none_is_refused(tmp_path: Path, episodes: list[Episode]) -> None:
    folder, bench = dataset(tmp_path / "set", episodes[:1]), ArmBench(unit="range")
    wrong = calibration(tmp_path / "arm.json", range_max=RANGE[0])
    with pytest.raises(InvalidSetting, match="part of a turn"):
        open_episodes([folder], robot_of(3), bench, wrong)


def test_episodes_that_tell_nothing_are_refused(episodes: list[Episode]) -> None:
    short = [
        replace(e, time=e.time[:60], position=e.position[:60], goal=e.goal[:60]) for e in episodes
    ]
    with pytest.raises(FitError, match="too short"):
        identify_arm(robot_of(3), ArmBench(), short)
    with pytest.raises(InvalidSetting, match="no link 'tool' moves"):
        identify_arm(robot_of(3), ArmBench(known={"tool": 0.1}), episodes)
    with pytest.raises(InvalidSetting, match="beside P"):
        ArmBench(d_gain=0.1)


def test_the_command_leaves_a_folder(
    tmp_path: Path,
    episodes: list[Episode],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "arm.urdf").write_text(urdf(3))
    (tmp_path / "bench.toml").write_text(f'unit = "range"\n[known]\n{LINKS[2][0]} = 0.12\n')
    folder = dataset(tmp_path / "set", episodes, "range")
    calibrated = calibration(tmp_path / "arm.json")
    words = ["servo", tmp_path / "arm.urdf", folder, "--calibration", calibrated]
    words += ["--bench", tmp_path / "bench.toml", "--out", tmp_path / "out", "--quiet"]
    monkeypatch.setattr(sys, "argv", ["heft", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    said = capsys.readouterr().out
    assert re.search(r"lower_arm +0\.12", said) and "as weighed" in said
    assert json.loads((tmp_path / "out" / "estimate.json").read_text())["missed"]
    page = tmp_path / "out" / "report.html"
    assert "lower_arm" in page.read_text() and barriers(page.as_uri()) == []


def stretches(bench: Bench) -> hidden.Stretches:
    """Return two stretches in which a servo is to go to where it is not."""
    count = 200
    goal = np.array([[0.3], [-0.2]]) * np.ones(count)
    signals = np.stack([0.0 * goal, goal, np.ones_like(goal), np.full_like(goal, 7.0)])
    return hidden.Stretches(signals, np.array([0.9, 0.9]), np.zeros((2, 2)), np.zeros(2))


def test_a_firmwares_d_is_back_emf_while_the_goal_stands() -> None:
    values = dict.fromkeys(hidden.NAMES, 0.01) | {"A": 0.1, "B": 0.05, "offset": 0.0}
    one = np.array([[values[n] for n in hidden.NAMES]])
    more = np.array([[(values | {"B": 0.05 + 0.1 * 7.0 * 0.02})[n] for n in hidden.NAMES]])
    bench = Bench(0.4, 0.1)
    damped = replace(bench, d_gain=0.02)
    by_d = hidden.followed(one, stretches(damped), damped)[0].real
    by_b = hidden.followed(more, stretches(bench), bench)[0].real
    assert np.abs(by_d - hidden.followed(one, stretches(bench), bench)[0].real).max() > 1e-3
    assert np.abs(by_d - by_b).max() < 2e-3  # one of them is a step behind


def test_a_firmwares_i_takes_the_error_away() -> None:
    values = dict.fromkeys(hidden.NAMES, 0.0) | {"A": 0.1, "B": 0.3, "armature": 0.01}
    one, bench = np.array([[values[n] for n in hidden.NAMES]]), Bench(0.4, 0.1)
    summed = replace(bench, i_gain=3.0)
    left = [
        np.abs(np.array([0.3, -0.2]) - hidden.followed(one, stretches(b), b)[0][0, :, -1].real)
        for b in (bench, summed)
    ]
    assert (left[1] < 0.4 * left[0]).all()
