"""`heft payload` from files to files: sensors, poses, robots, what is written and refused."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heft import cli
from heft.applications.inputs import Inputs
from heft.applications.payload import payload, report, weigh_files
from heft.applications.payload.by_wrench import Weigh
from heft.applications.payload.logs import read
from heft.applications.payload.sensors import Sensors
from heft.errors import HeftError, InvalidSetting, MissingSignal
from heft.information.rotation import matrix_of_rpy
from heft.models.options import Options
from heft.plants.wrench_sensor import Held, at_first
from heft.recordings.recording import Recording
from tests.robots import FloatArray, load
from tests.wrists import BIAS, BODY, GRAVITY, moving, posed, poses, sensed, truth

WRIST = '[sensor.wrist]\nkind = "wrench"\nframe = "tool0"\n'
IMU = '[sensor.imu]\nkind = "imu"\nframe = "imu"\n'


def weighed_files(
    logs: list[Path], sensors: Path, model: Path | None = None, **more: Any
) -> payload.Payload:
    return weigh_files(Inputs.open(model, None, None, sensors=sensors), logs, **more)


def columns(kind: str, frame: str, values: FloatArray, parts: str = "xyz") -> dict[str, FloatArray]:
    return {f"{kind}.{frame}.{p}": values[:, k] for k, p in enumerate(parts)}


def wrench_columns(frame: str, wrench: FloatArray) -> dict[str, FloatArray]:
    return columns("force", frame, wrench[:, :3]) | columns("torque", frame, wrench[:, 3:])


def save(path: Path, time: FloatArray, signals: Mapping[str, FloatArray]) -> Path:
    np.savez(path, t=time, **signals)  # type: ignore[arg-type]
    return path


def with_imu(path: Path, held: Held) -> Path:
    signals = wrench_columns("tool0", held.wrench)
    signals |= columns("acc", "imu", held.specific) | columns("omega", "imu", held.angular_velocity)
    return save(path, held.time, signals)


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def quaternions(rotations: FloatArray) -> FloatArray:
    import pinocchio

    found = np.array([pinocchio.Quaternion(R).coeffs() for R in rotations])  # x, y, z, w
    return found[:, [3, 0, 1, 2]]


def test_a_load_is_weighed_from_a_log_and_a_sensor(tmp_path: Path) -> None:
    log = with_imu(tmp_path / "grasp.npz", sensed(5000))
    found = weighed_files([log], written(tmp_path / "wrist.toml", WRIST + IMU))
    np.testing.assert_array_less(np.abs(found.ten - BODY)[:4], [0.02, 0.002, 0.002, 0.002])
    assert found.verdict == "good" and found.whole and found.frame == "tool0"
    bias = [v["value"] for v in found.sensor["bias"].values()]
    np.testing.assert_allclose(bias, BIAS, atol=0.15)


def test_a_mounting_is_told_as_the_file_takes_it(tmp_path: Path) -> None:
    held, R = sensed(3000), matrix_of_rpy(0.3, -0.2, 1.0)
    axes = (held.wrench.reshape(-1, 2, 3) @ R).reshape(-1, 6)
    log = with_imu(tmp_path / "turned.npz", Held(**(vars(held) | {"wrench": axes})))
    about = matrix_of_rpy(0.0, 0.0, 0.9)  # what the file says already, not quite right
    asking = f"{WRIST}rotation = {about.round(12).tolist()}\n{IMU}"
    found = weighed_files([log], written(tmp_path / "s.toml", asking), weigh=Weigh(mounting=True))
    np.testing.assert_allclose(found.sensor["rotation"], R, atol=0.01)
    said = [k for k in payload.text(found).splitlines() if k.startswith("rotation = ")]
    knowing = written(tmp_path / "k.toml", f"{WRIST}{said[0]}\n{IMU}")
    again = weighed_files([log], knowing)
    np.testing.assert_allclose(again.ten[:4], found.ten[:4], rtol=0, atol=1e-3)


def test_several_logs_are_one_weighing(tmp_path: Path) -> None:
    logs = [with_imu(tmp_path / f"{k}.npz", sensed(3000, k)) for k in range(2)]
    sensor = written(tmp_path / "wrist.toml", WRIST + IMU)
    one, both = weighed_files(logs[:1], sensor), weighed_files(logs, sensor)
    assert both.std[0] < 0.8 * one.std[0]
    assert [i["role"] for i in both.inputs] == ["fit", "fit", "sensors"]


def test_of_biases_that_differ_the_last_is_told(tmp_path: Path) -> None:
    more = np.array([1.0, 0.0, -2.0, 0.1, 0.0, 0.0])
    held = sensed(3000, 1)
    logs = [
        with_imu(tmp_path / "a.npz", sensed(3000, 0)),
        with_imu(tmp_path / "b.npz", Held(**(vars(held) | {"wrench": held.wrench + more}))),
    ]
    found = weighed_files(logs, written(tmp_path / "wrist.toml", WRIST + IMU))
    told = [found.sensor["bias"][c] for c in found.sensor["bias"]]
    values, std = (np.array([t[k] for t in told]) for k in ("value", "std"))
    assert np.all(np.abs(values - BIAS - more) < 5.0 * std) and std[0] > 2.0 * std[3]


def of_poses(folder: Path) -> payload.Payload:
    """Return a load weighed at rest, its log's poses told by quaternions."""
    held = poses(40)
    rng = np.random.default_rng(0)
    turned = np.array([matrix_of_rpy(*rng.uniform(-np.pi, np.pi, 3)) for _ in range(40)])
    np.testing.assert_allclose(np.einsum("nji,j->ni", turned, GRAVITY), -held.specific, atol=1e-12)
    signals = wrench_columns("ft", held.wrench)
    signals |= columns("quat", "ft", quaternions(turned), "wxyz")
    log = save(folder / "poses.npz", held.time, signals)
    return weighed_files([log], written(folder / "s.toml", '[sensor.ft]\nkind="wrench"\n'))


def test_poses_of_a_log_are_turned_by_their_quaternions(tmp_path: Path) -> None:
    found = of_poses(tmp_path)
    assert found.body[0] == pytest.approx(BODY[0], rel=0.01)
    assert not found.whole
    assert "not seen" in payload.text(found)
    assert "the load is a point" in payload.settings_text(found)


def test_a_tilt_and_gains_are_told_as_the_files_take_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    turned = np.array([matrix_of_rpy(*rng.uniform(-np.pi, np.pi, 3)) for _ in range(60)])
    gravity, gain = matrix_of_rpy(0.1, 0.05, 0.0) @ GRAVITY, np.array([1.02, 0.97, 1.0, 1, 1, 1])
    held = posed(turned, gravity)
    signals = wrench_columns("tool0", gain * held.wrench)
    signals |= columns("quat", "tool0", quaternions(turned), "wxyz")
    log = save(tmp_path / "poses.npz", held.time, signals)
    asking = written(tmp_path / "asking.toml", "tilt = true\n" + WRIST + "gain_std = 0.03\n")
    found = weighed_files([log], asking, known_mass=float(BODY[0]))
    told = payload.text(found)
    assert "tilt" in found.sensor and "off what was stated" in told
    lines = [line.partition("  #")[0] for line in told.splitlines()]
    said, gains = (next(k for k in lines if k.startswith(w)) for w in ("gravity = ", "gain = "))
    knowing = written(tmp_path / "knowing.toml", f"{said}\n{WRIST}{gains}\n")
    again = weighed_files([log], knowing)
    assert again.body[0] == pytest.approx(BODY[0], rel=2e-3)
    assert again.sensor["left_over"]["force"] == pytest.approx(
        found.sensor["left_over"]["force"], rel=0.1
    )


def test_a_pose_of_another_frame_is_named(tmp_path: Path) -> None:
    held = poses(10)
    signals = wrench_columns("ft", held.wrench) | columns(
        "quat", "flange", np.ones((10, 4)), "wxyz"
    )
    log = save(tmp_path / "poses.npz", held.time, signals)
    with pytest.raises(MissingSignal, match="the pose is that of flange"):
        weighed_files([log], written(tmp_path / "s.toml", '[sensor.ft]\nkind="wrench"\n'))


def test_of_a_poor_answer_nothing_is_to_be_pasted(tmp_path: Path) -> None:
    log = with_imu(tmp_path / "grasp.npz", sensed(2000))
    found = weighed_files([log], written(tmp_path / "wrist.toml", WRIST + IMU))
    poor = replace(found, checks=(replace(found.checks[0], status="fail"), *found.checks[1:]))
    told, kept = payload.text(poor), payload.text(found)
    for line in ("set_target_payload(", "setLoad(", "<inertial", "bias = ["):
        assert line in kept and line not in told
    assert "nothing to set" in told and "payload.mass".partition(".")[2] in told
    gains = replace(poor, gains={"elbow": (10.0, 0.1)})
    payload.write(gains, tmp_path / "out")
    assert not (tmp_path / "out" / "robot.toml").exists()
    payload.write(replace(gains, checks=found.checks), tmp_path / "out")
    assert (tmp_path / "out" / "robot.toml").exists()


@pytest.mark.parametrize("load", [0.0, 1.0])
def test_a_poor_verdict_is_a_failing_exit(
    tmp_path: Path, load: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = sensed(4000)
    clean = sensed(4000, noise=(0.0, 0.0)).wrench - BIAS
    log = with_imu(tmp_path / "g.npz", replace(held, wrench=held.wrench - (1.0 - load) * clean))
    sensor = written(tmp_path / "wrist.toml", WRIST + IMU)
    monkeypatch.setattr("sys.argv", ["heft", "payload", str(log), "--sensor", str(sensor)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == (0 if load else 1)


def test_a_moving_pose_is_differentiated(tmp_path: Path) -> None:
    count = 6000
    t, R, _, _, _, _ = moving(count)
    _, wrench, *_ = truth(count)
    place = np.array([0.3, 0.2, 0.25]) * np.sin(np.array([2.1, 1.3, 1.7]) * t[:, None])
    noise = np.random.default_rng(0).normal(size=wrench.shape) * np.repeat([0.1, 0.005], 3)
    signals = wrench_columns("ft", wrench + noise)
    signals |= columns("quat", "ft", quaternions(R), "wxyz") | columns("pos", "ft", place)
    log = save(tmp_path / "moving.npz", t, signals)
    found = weighed_files([log], written(tmp_path / "s.toml", '[sensor.ft]\nkind="wrench"\n'))
    assert found.body[0] == pytest.approx(BODY[0], rel=0.01)
    np.testing.assert_allclose(found.body[1:4], BODY[1:4] / BODY[0], atol=2e-3)


def test_the_sign_of_a_quaternion_says_nothing(tmp_path: Path) -> None:
    count = 3000
    t, R, *_ = moving(count)
    place = np.array([0.3, 0.2, 0.25]) * np.sin(np.array([2.1, 1.3, 1.7]) * t[:, None])
    said = written(tmp_path / "s.toml", '[sensor.ft]\nkind="wrench"\n')
    bodies = []
    for sign in (1.0, np.where(np.arange(count) // 500 % 2, -1.0, 1.0)[:, None]):
        signals = wrench_columns("ft", truth(count)[1])
        signals |= columns("quat", "ft", sign * quaternions(R), "wxyz")
        log = save(tmp_path / "run.npz", t, signals | columns("pos", "ft", place))
        bodies.append(weighed_files([log], said).body)
    # Jumps raise the corner that the band of the signals asks for, and nothing else.
    smoothing = abs(bodies[0][0] - BODY[0]) + 1e-9
    np.testing.assert_allclose(bodies[1][:4], bodies[0][:4], rtol=0, atol=10 * smoothing)


def test_joints_move_the_sensor_through_the_robot(tmp_path: Path) -> None:
    file = "ur_description/urdf/ur10_robot.urdf"
    robot = load(file)
    t = np.arange(0.0, 12.0, 0.002)
    speeds = np.linspace(0.7, 1.9, len(robot.joints))
    q = 0.5 * np.sin(speeds * t[:, None]) + 0.3
    signals = {f"q.{j}": q[:, k] for k, j in enumerate(robot.joints)}
    from heft.dynamics.kinematics import frame_motion
    from heft.information import inertia

    rate = 0.5 * speeds * np.cos(speeds * t[:, None])
    seen = frame_motion(robot.tree, robot.link("tool0"), q, rate)
    alpha = np.gradient(seen.angular_velocity, t, axis=0, edge_order=2)
    acceleration = np.gradient(seen.velocity, t, axis=0, edge_order=2)
    acceleration += np.cross(seen.angular_velocity, seen.velocity)
    specific = acceleration - np.einsum("nji,j->ni", seen.rotation, GRAVITY)
    wrench = inertia.wrench_regressor(specific, seen.angular_velocity, alpha) @ BODY
    noise = np.random.default_rng(0).normal(size=wrench.shape) * np.repeat([0.1, 0.005], 3)
    log = save(tmp_path / "arm.npz", t, signals | wrench_columns("tool0", wrench + noise))
    sensor = written(tmp_path / "wrist.toml", WRIST)
    model = written(tmp_path / "arm.urdf", robot.source.decode())
    found = weighed_files([log], sensor, model=model)
    assert found.body[0] == pytest.approx(BODY[0], rel=0.01)
    with pytest.raises(MissingSignal, match="nothing tells how the sensor moves"):
        weighed_files([log], sensor)


def test_two_grasping_points_hold_one_load(tmp_path: Path) -> None:
    held = sensed(5000)
    R, r = matrix_of_rpy(0.2, 0.5, -0.4), np.array([0.3, 0.1, 0.0])
    rng = np.random.default_rng(1)
    squeeze = 5.0 * np.sin(np.outer(held.time, rng.uniform(1.0, 3.0, 6)))
    first = held.wrench - at_first(squeeze, R, r)
    signals = wrench_columns("tool0", first) | wrench_columns("left", squeeze)
    signals |= columns("acc", "imu", held.specific) | columns("omega", "imu", held.angular_velocity)
    log = save(tmp_path / "both.npz", held.time, signals)
    left = f'[sensor.left]\nkind = "wrench"\nposition = {r.tolist()}\nrotation = {R.tolist()}\n'
    found = weighed_files([log], written(tmp_path / "s.toml", WRIST + left + IMU))
    assert found.body[0] == pytest.approx(BODY[0], rel=0.02)


def test_results_are_written_whole_and_say_what_they_are_of(tmp_path: Path) -> None:
    log = with_imu(tmp_path / "grasp.npz", sensed(4000))
    sensor = written(tmp_path / "wrist.toml", WRIST + IMU)
    found = weighed_files([log], sensor)
    out = tmp_path / "out"
    payload.write(found, out)
    data = json.loads((out / "estimate.json").read_text())
    assert [p["name"] for p in data["parameters"]] == list(payload.NAMES)
    assert {i["role"] for i in data["inputs"]} == {"fit", "sensors"}
    told = (out / "payload.txt").read_text()
    assert "set_target_payload(" in told and "setLoad(" in told and "<inertial>" in told
    (out / "mine.txt").write_text("keep")
    with pytest.raises(InvalidSetting, match="other files"):
        payload.write(found, out)
    assert (out / "mine.txt").read_text() == "keep"


def test_gains_are_written_as_every_command_takes_them(tmp_path: Path) -> None:
    gains = {"elbow": (11.5, 0.2), "wrist 1": (9.25, 0.1)}
    none = np.full(10, 1.0)
    covariance = np.array([[0.04, 0.0192], [0.0192, 0.01]])
    found = payload.Payload("tool0", none, none, none, (), gains=gains, gains_covariance=covariance)
    options = Options.from_toml(written(tmp_path / "robot.toml", payload.gains_toml(found)))
    assert {j: (options.of(j).gain, options.of(j).gain_std) for j in gains} == gains
    told = options.gains
    assert told is not None and told.joints == ("elbow", "wrist 1") and told.other_day == 0.01
    np.testing.assert_allclose(told.correlation, [[1.0, 0.96], [0.96, 1.0]], atol=2e-4)
    assert Options.from_dict(json.loads(json.dumps(options.to_dict()))) == options


def test_gains_that_are_as_good_as_one_are_written_so_that_they_can_be_read(tmp_path: Path) -> None:
    std = np.array([0.2, 0.1, 0.0, 0.3])  # the third is known exactly
    gains = {f"j{k}": (10.0, float(s)) for k, s in enumerate(std)}
    none = np.full(10, 1.0)
    covariance = np.outer(std, std)
    found = payload.Payload("tool0", none, none, none, (), gains=gains, gains_covariance=covariance)
    options = Options.from_toml(written(tmp_path / "robot.toml", payload.gains_toml(found)))
    assert options.gains is not None and options.gains.joints == ("j0", "j1", "j3")


def test_what_is_no_correlation_is_refused() -> None:
    for rows in ([[1.0]], [[1.0, 0.5], [0.4, 1.0]], [[2.0, 0.0], [0.0, 1.0]], [[1, 1.0], [1.0, 1]]):
        with pytest.raises(InvalidSetting, match="no correlation") as told:
            Options.from_dict({"gains": {"joints": ["a", "b"], "correlation": rows}})
        assert told.value.argument == "options, [gains], correlation"


BAD_SENSORS = {
    "no sensor": ("gravity = [0, 0, -9.81]", "a wrench sensor is needed"),
    "two imus": (WRIST + IMU + IMU.replace("sensor.imu", "sensor.other"), "one inertial sensor"),
    "unknown kind": ('[sensor.a]\nkind = "scale"', "this kind of sensor"),
    "unknown key": (WRIST + "frmae = 1", "did you mean 'frame'"),
    "no rotation": (WRIST + "rotation = [[1, 0, 0], [0, 1, 0], [0, 0, 2]]", "no rotation"),
    "left-handed": (WRIST + "rotation = [[1, 0, 0], [0, 1, 0], [0, 0, -1]]", "no rotation"),
    "noise": (WRIST + "noise = {force = 0.0, torque = 0.1}", "noise must be positive"),
    "reports": (WRIST + 'reports = "on_robot"', "none of the choices"),
    "bias": (WRIST + 'bias = "maybe"', "none of the choices"),
    "known bias": (WRIST + "bias = [1, 2, 3]", "list of 6 numbers"),
    "nan": (WRIST + "delay = nan", "finite number"),
    "frame": ('[sensor.a]\nkind = "wrench"\nframe = 3', "name of a frame"),
    "tilt": ("tilt = 1\n" + WRIST, "true or false"),
    "tilt beside an imu": ("tilt = true\n" + WRIST + IMU, "feels gravity itself"),
    "gain": (WRIST + "gain = [1, 1, 1, 1, 1, -1]", "a gain is positive"),
    "gain_std": (WRIST + "gain_std = 2.0", "says nothing of a gain"),
    "gains turned": (
        WRIST + "gain_std = 0.02\nrotation = [[0, 1, 0], [-1, 0, 0], [0, 0, 1]]",
        "own axes",
    ),
    "gravity": (WRIST + "[gravity]\nx = 1", "list of 3 numbers"),
}


@pytest.mark.parametrize("case", BAD_SENSORS)
def test_sensors_that_cannot_be_are_refused(tmp_path: Path, case: str) -> None:
    text, words = BAD_SENSORS[case]
    with pytest.raises(HeftError, match=words):
        Sensors.from_toml(written(tmp_path / "s.toml", text))


def test_a_bias_is_told_as_the_file_takes_it(tmp_path: Path) -> None:
    rotation = matrix_of_rpy(0.0, 0.0, 0.5 * np.pi)  # undone by the log's own axes
    held = sensed(3000)
    axes = (held.wrench.reshape(-1, 2, 3) @ rotation).reshape(-1, 6)
    log = with_imu(tmp_path / "grasp.npz", Held(**(vars(held) | {"wrench": -axes})))
    said = f'{WRIST}reports = "on_sensor"\nrotation = {rotation.round(12).tolist()}\n'
    found = weighed_files([log], written(tmp_path / "s.toml", said + IMU))
    bias = [v["value"] for v in found.sensor["bias"].values()]
    knowing = written(tmp_path / "k.toml", f"{said}bias = {bias}\n{IMU}")
    again = weighed_files([log], knowing)
    assert again.sensor["bias"] == {}
    np.testing.assert_allclose(again.ten, found.ten, rtol=0, atol=1e-3)


def test_a_sensor_that_reports_on_itself_is_turned_over(tmp_path: Path) -> None:
    held = sensed(100)
    log = Recording.open(with_imu(tmp_path / "g.npz", held))
    said = Sensors.from_toml(written(tmp_path / "s.toml", WRIST + 'reports = "on_sensor"\n' + IMU))
    np.testing.assert_array_equal(read(log, said).held.wrench, -held.wrench)


def test_a_page_holds_the_lines_to_paste_and_what_is_left_over(tmp_path: Path) -> None:
    log = with_imu(tmp_path / "grasp.npz", sensed(5000))
    found = weighed_files([log], written(tmp_path / "wrist.toml", WRIST + IMU))
    page = html.unescape(report.html(found))
    pasted = [line for line in payload.settings_text(found).splitlines() if line[0] != "#"]
    assert len(pasted) == 5 and all(line in page for line in pasted)
    assert "<strong>Withheld:</strong> nothing." in page
    left = found.sensor["left_over"]
    force, moment = (f"{100.0 * left[kind]:.2g} %" for kind in ("force", "torque"))
    assert f"variation {force} is not explained, of the moment's {moment}." in page
    assert not re.findall(r"@import|url\(|fetch\(|XMLHttpRequest|https?://", page)


def test_a_page_says_what_is_withheld_and_why(tmp_path: Path) -> None:
    still = of_poses(tmp_path)
    page = html.unescape(report.html(still))
    assert not still.whole and "In the lines to paste the load is a point." in page
    assert "inertia.xx, inertia.xy" in page and "<td>nan" not in page
    failed = replace(still.checks[0], name="planted", status="fail")
    page = html.unescape(report.html(replace(still, checks=(failed,))))
    assert "set_target_payload" not in page
    assert "mended (planted)." in page
