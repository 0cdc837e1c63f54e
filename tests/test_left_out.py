"""Logs in which a sensor is frozen, tells zeros or nothing; sensors whose noise differs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.grasping_points import DEVELOPMENT, FORCE, TORQUE, Grasp, Outcome, live, offline

from heft.applications.payload import weighed
from heft.applications.payload.logs import left_out, read, usable
from heft.applications.payload.node import Node
from heft.applications.payload.sensors import Sensors
from heft.errors import InvalidRecording, InvalidSetting
from heft.recordings.recording import Recording
from heft.streams import Device
from tests.robots import FloatArray
from tests.test_payload import quaternions
from tests.wrists import BODY, moving, sensed, truth

ROWS = slice(2000, 3000)
IMU = Sensors.from_dict({"sensor": {"ft": {"kind": "wrench"}, "imu": {"kind": "imu"}}})
WRIST = Device("ft", ("force.ft.x", "force.ft.y", "force.ft.z"))
ARM = Device("arm", ("q.a", "q.b"), noisy=False)


def signals() -> dict[str, FloatArray]:
    held, rng = sensed(6000), np.random.default_rng(1)
    return {
        "force.ft": held.wrench[:, :3],
        "torque.ft": held.wrench[:, 3:],
        "acc.imu": held.specific + 1e-3 * rng.normal(size=(6000, 3)),
        "omega.imu": held.angular_velocity + 1e-4 * rng.normal(size=(6000, 3)),
    }


def log(told: dict[str, FloatArray], rows: slice | FloatArray = slice(None)) -> Recording:
    made: dict[str, dict[str, FloatArray]] = {}
    for name, values in told.items():
        kind, _, frame = name.partition(".")
        for letter, column in zip("wxyz"[-values.shape[1] :], values.T, strict=True):
            made.setdefault(kind, {})[f"{frame}.{letter}"] = column[rows]
    return Recording.from_arrays((np.arange(6000) / 1000.0)[rows], "log", **made)


@pytest.mark.parametrize("kind", ["frozen", "zero", "NaN"])
@pytest.mark.parametrize(
    "names", [("force.ft", "torque.ft"), ("torque.ft",), ("acc.imu",), ("omega.imu",)]
)
def test_what_is_no_measurement_is_left_out_andleft_out(names: tuple[str, ...], kind: str) -> None:
    told = signals()
    for name in names:
        told[name] = told[name].copy()
        told[name][ROWS] = {"frozen": told[name][2000], "zero": 0.0, "NaN": np.nan}[kind]
    found = read(log(told), IMU)
    rest = read(log(signals(), np.r_[0:2000, 3000:6000]), IMU)
    for one, other in zip(vars(found.held).values(), vars(rest.held).values(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert [f.name for f in found.findings] == ["no numbers" if kind == "NaN" else "frozen"]
    message = found.findings[0].message
    assert "from 2.000 s on for 0.999 s" in message and "17 % of the log" in message
    assert "'ft'" in message if names[0].endswith("ft") else "'imu'" in message
    weigh = weighed([log(told)], IMU)
    assert abs(weigh.mass - BODY[0]) < 4.0 * weigh.body_std[0]
    assert weigh.findings[0] == found.findings[0] and not rest.findings


def test_an_axis_that_is_dead_for_a_while_is_left_out() -> None:
    told = signals()
    told["force.ft"] = told["force.ft"].copy()
    told["force.ft"][ROWS, 1] = -7.25
    (finding,) = read(log(told), IMU).findings
    assert "force.ft.y at -7.25 N" in finding.message and "1000 rows" in finding.message


def test_of_several_times_the_longest_is_told() -> None:
    bad = np.zeros(100, dtype=bool)
    for begin, end in ((5, 8), (20, 40), (60, 62), (99, 100)):
        bad[begin:end] = True
    message = left_out("frozen", "it rests", 0.1 * np.arange(100), bad).message
    assert "from 2.000 s on for 1.9 s, the longest of 4 times: 26 rows" in message


def test_a_sensor_that_tells_nothing_at_all_is_refused() -> None:
    for value, words in ((3.0, "frozen"), (np.nan, "not finite")):
        told = signals()
        told["torque.ft"] = np.full((6000, 3), value)
        with pytest.raises(InvalidRecording, match=words):
            read(log(told), IMU)


@pytest.mark.parametrize("kind", ["coarse", "oversampled", "short"])
def test_what_repeats_itself_as_usual_is_no_fault(kind: str) -> None:
    time = np.arange(6000) / 1000.0
    values = np.random.default_rng(0).normal(size=(6000, 3)) + 20.0 * np.sin(time)[:, None]
    if kind == "coarse":
        values = 5.0 * np.round(np.sin(time)[:, None] * [1.0, 3.0, 2.0])
    elif kind == "oversampled":  # measured at 10 Hz, logged at 1 kHz
        values = values[::100].repeat(100, axis=0)
    else:
        values[2000:2050] = values[2000]
    good, findings = usable(WRIST, time, values)
    assert good.all() and not findings


@pytest.mark.parametrize("frozen", [False, True])
def test_joints_may_stand_still_and_are_frozen_if_they_jump(frozen: bool) -> None:
    time = np.arange(6000) / 1000.0
    moved = np.where(time < 2.0, 0.0, np.where(time < 3.0, time - 2.0, 1.0))
    angle = np.stack([np.sin(2.0 * moved), np.cos(3.0 * moved)], axis=1)
    if frozen:
        angle[2400:2600] = angle[2400]
    good, findings = usable(ARM, time, angle)
    assert np.array_equal(np.flatnonzero(~good), np.arange(2400, 2600) if frozen else [])
    assert [f.name for f in findings] == ["frozen"] * frozen


def test_a_tracker_that_holds_its_last_pose_is_left_out() -> None:
    time, rotation, *_ = moving(6000)
    _, wrench, *_ = truth(6000)
    rng = np.random.default_rng(0)
    place = np.array([0.3, 0.2, 0.25]) * np.sin(np.array([2.1, 1.3, 1.7]) * time[:, None])
    told = {
        "force.ft": wrench[:, :3] + 0.1 * rng.normal(size=(6000, 3)),
        "torque.ft": wrench[:, 3:] + 0.005 * rng.normal(size=(6000, 3)),
        "quat.ft": quaternions(rotation) * np.where(rng.random(6000) < 0.5, -1.0, 1.0)[:, None],
        "pos.ft": place,
    }
    sensors = Sensors.from_dict({"sensor": {"ft": {"kind": "wrench"}}})
    plain = weighed([log(told)], sensors)
    assert not [f for f in plain.findings if f.name == "frozen"]
    for name in ("quat.ft", "pos.ft"):
        told[name] = told[name].copy()
        told[name][ROWS] = told[name][2000]
    found = weighed([log(told)], sensors)
    assert found.findings[0].name == "frozen" and "'pose of ft'" in found.findings[0].message
    assert abs(found.mass - BODY[0]) < 4.0 * found.body_std[0]


@pytest.mark.parametrize("way", [offline, live])
def test_each_sensors_noise_is_its_own(way: object) -> None:
    """NEES of 6 grasps is χ²(60)/60: 1 ± 0.18; three of these. |z| of 60 beyond 4: 0.4 %."""
    found: list[Outcome] = [way(Grasp(DEVELOPMENT + k)) for k in range(6)]  # type: ignore[operator]
    assert 0.45 < np.mean([f.nees for f in found]) < 1.55
    assert np.abs([f.z for f in found]).max() < 4.0
    assert not any(f.said or f.false for f in found)


def test_noise_that_is_not_stated_is_each_sensors_own() -> None:
    grasp, stated = Grasp(DEVELOPMENT + 7, stated=False), Grasp(DEVELOPMENT + 7)
    sensors = grasp.sensors
    made: dict[str, dict[str, FloatArray]] = {}
    for name, values in grasp.columns().items():
        made.setdefault(name.partition(".")[0], {})[name.partition(".")[2]] = values
    recording = Recording.from_arrays(grasp.signals[0], "grasp", **made)
    noise = np.array(read(recording, sensors).noise)
    np.testing.assert_allclose(noise, np.stack([FORCE, TORQUE], axis=1), rtol=0.06)
    found = weighed([recording], sensors)
    error = found.values[:10] - grasp.ten
    assert 0.1 < error @ np.linalg.solve(found.covariance[:10, :10], error) / 10.0 < 3.0
    partly = replace(sensors, wrenches=(*stated.sensors.wrenches[:2], sensors.wrenches[2]))
    assert partly.noise is None and partly.unstated == ("third",)
    with pytest.raises(InvalidSetting, match="each by its own"):
        Node(partly)


def test_the_sum_has_the_bias_of_which_least_is_known() -> None:
    def summed(*models: object) -> str:
        wrenches = {f"s{k}": {"kind": "wrench", "bias": b} for k, b in enumerate(models)}
        return Sensors.from_dict({"sensor": wrenches}).bias

    assert summed("none", "constant") == "constant" and summed("constant", "auto") == "auto"
    assert summed([1.0] * 6, "none") == "none"
