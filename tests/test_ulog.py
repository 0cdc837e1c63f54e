"""Logs of PX4: axes by rotation matrices, commands by their integrals, damage by its place."""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from heft.errors import InvalidRecording, MissingSignal
from heft.flight import FlightLog, IdentifyFreeFlyer
from heft.models import load_of, shipped_free_flyer
from heft.recordings import ColumnMap, Recording, convert
from heft.recordings.formats.ulog import means_of_steps
from tests.free_flights import fly
from tests.ulog_files import MESSAGES, OLD_ODOMETRY, message, sample, ulog, write_ulog

Array = np.ndarray
NED = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])  # of ENU
FRD = np.diag([1.0, -1.0, -1.0])  # of FLU
START = 7_000_000  # µs


def motion(count: int = 40, frame: int = 1) -> list[tuple[str, dict[str, object]]]:
    """Return samples of a vehicle every 20 ms, its motors twice as often."""
    rng = np.random.default_rng(1)
    made: list[tuple[str, dict[str, object]]] = []
    for k in range(count):
        stamp = START + 20_000 * k
        q = np.roll(Rotation.from_rotvec([0.3, 0.02 * k, -0.4]).as_quat(), 1)
        moved = {
            "timestamp": stamp + 900,
            "timestamp_sample": stamp,
            "pose_frame": frame,
            "velocity_frame": frame,
            "position": rng.normal(size=3),
            "q": q,
            "velocity": rng.normal(size=3),
            "angular_velocity": rng.normal(size=3),
        }
        made.append(("vehicle_odometry", moved))
        for half in range(2):
            command = np.full(12, np.nan)
            command[:4] = (0.25 * (k % 3), half, 0.5, np.nan)
            at = stamp + 10_000 * half
            pushed = {"timestamp": at, "timestamp_sample": at - 5000, "control": command}
            made.append(("actuator_motors", pushed))
    return made


def columns(recording: Recording, *names: str) -> Array:
    return np.concatenate([b.values for b in recording.blocks(names)])


def body(recording: Recording, kind: str, letters: str = "xyz") -> Array:
    return columns(recording, *(f"{kind}.vehicle.{a}" for a in letters))


@pytest.mark.parametrize("frame", [1, 2])
def test_worlds_and_bodies_have_z_up(frame: int, tmp_path: Path) -> None:
    samples = motion(frame=frame)
    found = Recording.open(write_ulog(tmp_path / "a.ulg", samples))
    stated = [v for n, v in samples if n == "vehicle_odometry"]
    world = NED if frame == 1 else FRD  # takes PX4's to heft's, and back
    turned = Rotation.from_quat(np.roll(body(found, "quat", "wxyz"), -1, axis=1)).as_matrix()
    told = Rotation.from_quat(np.roll([v["q"] for v in stated], -1, axis=1)).as_matrix()
    assert np.allclose(turned, world @ told @ FRD, atol=1e-6)
    assert np.allclose(body(found, "pos"), [world @ v["position"] for v in stated], atol=1e-6)
    rate = [FRD @ v["angular_velocity"] for v in stated]
    assert np.allclose(body(found, "omega"), rate, atol=1e-6)
    across = np.einsum("nij,nj->ni", turned, body(found, "vel"))
    assert np.allclose(across, [world @ v["velocity"] for v in stated], atol=1e-5)


def test_facing_north_and_level_is_a_quarter_turn_from_east(tmp_path: Path) -> None:
    level = {"timestamp": START, "timestamp_sample": START, "q": [1.0, 0.0, 0.0, 0.0]}
    rows = [("vehicle_attitude", {**level, "timestamp_sample": START + k}) for k in range(3)]
    found = Recording.open(write_ulog(tmp_path / "a.ulg", rows))
    q = np.roll(body(found, "quat", "wxyz")[0], -1)
    assert np.allclose(Rotation.from_quat(q).apply([1.0, 0.0, 0.0]), [0.0, 1.0, 0.0], atol=1e-6)


def test_a_velocity_of_the_body_stays_one(tmp_path: Path) -> None:
    samples = motion()
    for _, values in samples:
        values["velocity_frame"] = 3
    found = Recording.open(write_ulog(tmp_path / "a.ulg", samples))
    stated = [FRD @ v["velocity"] for n, v in samples if n == "vehicle_odometry"]
    assert np.allclose(body(found, "vel"), stated, atol=1e-6)
    for _, values in samples:
        values["velocity_frame"] = 2  # of a world that is not the pose's
    other = Recording.open(write_ulog(tmp_path / "b.ulg", samples))
    assert "vel.vehicle.x" not in other.signals and "pos.vehicle.x" in other.signals


def test_commands_are_their_means_between_poses_and_none_stops_a_motor(tmp_path: Path) -> None:
    found = Recording.open(write_ulog(tmp_path / "a.ulg", motion()))
    assert [n for n in found.signals if n.startswith("u.")] == ["u.motor1", "u.motor2", "u.motor3"]
    time = np.concatenate([b.time for b in found.blocks(["u.motor1"])])
    assert np.allclose(time, 0.02 * np.arange(40))  # when poses were measured, not when logged
    u = columns(found, "u.motor1", "u.motor2", "u.motor3")
    assert np.allclose(u, [[0.25 * (k % 3), 0.5, 0.5] for k in range(40)])
    stopped = motion()
    for name, values in stopped:
        if name == "actuator_motors" and values["timestamp"] < START + 100_000:
            values["control"] = np.full(12, np.nan)
    still = columns(Recording.open(write_ulog(tmp_path / "b.ulg", stopped)), "u.motor3")[:, 0]
    assert np.allclose(still[:5], 0.0) and np.allclose(still[5:], 0.5)


def test_means_are_integrals_of_what_is_held() -> None:
    rng = np.random.default_rng(2)
    time, values = np.sort(rng.uniform(0.0, 1.0, 60)), rng.normal(size=60)
    at = np.linspace(0.2, 0.8, 13)
    fine = np.linspace(0.2, 0.85, 650_001)
    held = values[np.searchsorted(time, fine, side="right") - 1]
    mean = [held[(fine >= a) & (fine < a + 0.05)].mean() for a in at]
    assert np.allclose(means_of_steps(time, {"u": values}, at)["u"], mean, atol=1e-3)
    early = means_of_steps(time, {"u": values}, np.array([time[0] - 1.0, 0.5, 0.6]))["u"]
    assert np.isnan(early[0]) and np.isfinite(early[1])


def test_the_first_of_topics_that_say_the_same_is_taken_and_that_is_said(tmp_path: Path) -> None:
    rows: list[tuple[str, dict[str, object]]] = motion()
    for k in range(80):
        stamp = START + 10_000 * k
        gyro = {"timestamp": stamp, "gyro_rad": [1, 2, 3], "accelerometer_m_s2": [0, 0, -9.8]}
        rows.append(("sensor_combined", gyro))
        rows.append(("vehicle_angular_velocity", {"timestamp": stamp, "xyz": [4, 5, 6]}))
        reports = [{"esc_rpm": 6000, "actuator_function": 102}, {"esc_rpm": 0}]
        rows.append(("esc_status", {"timestamp": stamp, "esc": reports}))
        if not k % 2:
            pose = {**rows[0][1], "timestamp_sample": stamp, "position": [k, 0, 0]}
            rows.append(("vehicle_mocap_odometry", pose))
    path = write_ulog(tmp_path / "a.ulg", rows)
    found = Recording.open(path)
    assert np.allclose(body(found, "omega")[1:-1], [4, -5, -6])
    assert np.allclose(body(found, "acc")[1:-1], [0, 0, 9.8])  # at rest it feels its weight, up
    assert np.allclose(columns(found, "u.motor2.speed")[1:-1], 200.0 * np.pi)
    assert "u.motor1.speed" not in found.signals
    assert any("vehicle_angular_velocity, not of sensor_combined" in n for n in found.notes)
    said = {"names": ["vehicle_mocap_odometry"], "frames": {"vehicle_mocap_odometry": "cobot"}}
    chosen = Recording.open(path, ColumnMap.from_dict({"topic": said}))
    assert set(chosen.signals) >= {"pos.cobot.x", "quat.cobot.w"}
    assert np.allclose(columns(chosen, "pos.cobot.y")[:, 0], np.arange(0, 80, 2))
    with pytest.raises(MissingSignal, match="no topic 'vehicle_odometri'"):
        Recording.open(path, ColumnMap.from_dict({"topic": {"names": ["vehicle_odometri"]}}))


def flown(count: int = 50) -> list[tuple[str, dict[str, object]]]:
    """Return samples as PX4 logs them by itself: positions and attitudes apart, no odometry."""
    rows: list[tuple[str, dict[str, object]]] = []
    for k in range(count):
        stamp = {"timestamp": START + 20_000 * k + 700, "timestamp_sample": START + 20_000 * k}
        place = {"x": 1.0 + k, "y": 2.0, "z": -0.5 * k, "xy_valid": k > 4, "z_valid": True}
        turned = np.roll(Rotation.from_rotvec([0.0, 0.0, 0.02 * k]).as_quat(), 1)
        rows.append(("vehicle_local_position", {**stamp, **place, "xy_reset_counter": k // 20}))
        rows.append(("vehicle_attitude", {**stamp, "q": turned}))
        rows.append(("vehicle_acceleration", {**stamp, "xyz": [1, 2, -9]}))
        pulses = np.array([1100.0 + k, 1900.0] + 14 * [0.0])
        rows.append(
            ("actuator_outputs", {"timestamp": stamp["timestamp_sample"], "output": pulses})
        )
        rows.append(("actuator_outputs[1]", {**stamp, "output": 2.0 * pulses}))
    return rows


def test_positions_and_attitudes_that_stand_apart_are_joined(tmp_path: Path) -> None:
    """The same numbers as those of a table."""
    found = Recording.open(write_ulog(tmp_path / "a.ulg", flown()))
    lines = ["t,pos.vehicle.x,pos.vehicle.y,pos.vehicle.z,quat.vehicle.w,quat.vehicle.x,"
             "quat.vehicle.y,quat.vehicle.z,acc.vehicle.x,acc.vehicle.y,acc.vehicle.z"]  # fmt: skip
    for k in range(50):
        turned = NED @ Rotation.from_rotvec([0.0, 0.0, 0.02 * k]).as_matrix() @ FRD
        q = np.roll(Rotation.from_matrix(turned).as_quat(), 1)
        place = ["", ""] if k <= 4 else [2.0, 1.0 + k]
        lines.append(",".join(map(str, [0.02 * k, *place, 0.5 * k, *q, 1.0, -2.0, 9.0])))
    (tmp_path / "a.csv").write_text("\n".join(lines))
    table = Recording.open(tmp_path / "a.csv")
    assert set(found.signals) == set(table.signals)
    ours, theirs = found.whole(table.signals), table.whole(table.signals)
    assert np.allclose(ours.time, theirs.time, atol=1e-9)
    turns = [k for k, n in enumerate(table.signals) if n.startswith("quat")]
    signs = np.sign(np.sum(ours.values[:, turns] * theirs.values[:, turns], axis=1))
    theirs.values[:, turns] *= signs[:, None]
    assert np.allclose(ours.values, theirs.values, atol=1e-6, equal_nan=True)
    said = [n for n in found.notes if "jumps" in n]
    assert said == ["vehicle_local_position jumps 2 times: the filter on board was set anew"]


def test_outputs_are_read_if_a_map_names_them_and_may_be_scaled(tmp_path: Path) -> None:
    path = write_ulog(tmp_path / "a.ulg", flown())
    assert not any(n.startswith("u.") for n in Recording.open(path).signals)
    names = ["vehicle_local_position", "actuator_outputs", "actuator_outputs[1]"]
    found = Recording.open(path, ColumnMap.from_dict({"topic": {"names": names}}))
    outputs = [n for n in found.signals if n.startswith("u.")]
    assert outputs == ["u.output1", "u.output2", "u.output1[1]", "u.output2[1]"]
    assert np.allclose(columns(found, "u.output1")[:, 0], 1100.0 + np.arange(50))
    share = {"actuators": ["motor1"], "columns": ["u.output1"], "scale": [1e-3], "offset": [-1.0]}
    mapped = ColumnMap.from_dict({"topic": {"names": names}, "u": share})
    share_of = columns(Recording.open(path, mapped), "u.motor1")[:, 0]
    assert np.allclose(share_of, 0.1 + 1e-3 * np.arange(50))


@pytest.mark.parametrize("frame", [0, 1])
def test_odometry_of_older_versions_is_read_as_that_of_later_ones(
    frame: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = motion(frame=frame + 1)
    later = Recording.open(write_ulog(tmp_path / "a.ulg", samples))
    monkeypatch.setitem(MESSAGES, "vehicle_odometry", OLD_ODOMETRY)
    for name, values in samples:
        if name == "vehicle_odometry":
            parts = {"position": "x y z", "velocity": "vx vy vz"}
            parts["angular_velocity"] = "rollspeed pitchspeed yawspeed"
            for vector, numbers in parts.items():
                values |= dict(zip(numbers.split(), values[vector], strict=True))  # type: ignore[call-overload]
            values |= {"local_frame": frame, "velocity_frame": frame}
    earlier = Recording.open(write_ulog(tmp_path / "b.ulg", samples))
    assert earlier.signals == later.signals
    names = later.signals
    assert np.array_equal(earlier.whole(names).values, later.whole(names).values)


def test_what_is_appended_and_what_was_true_are_read(tmp_path: Path) -> None:
    samples = motion()
    truth = [(f"{n}_groundtruth", v) for n, v in flown() if n in ("vehicle_local_position",
                                                                  "vehicle_attitude")]  # fmt: skip
    sound = Recording.open(write_ulog(tmp_path / "a.ulg", samples + truth))
    (tmp_path / "b.ulg").write_bytes(ulog(samples + truth, begun=31))
    appended = Recording.open(tmp_path / "b.ulg")
    assert appended.signals == sound.signals
    names = sound.signals
    assert np.array_equal(appended.whole(names).values, sound.whole(names).values)
    asked = ColumnMap.from_dict({"topic": {"names": list(dict(truth))}})
    known = Recording.open(tmp_path / "b.ulg", asked)
    assert np.allclose(columns(known, "pos.vehicle.z")[:, 0], 0.5 * np.arange(50))
    assert "quat.vehicle.w" in known.signals and "u.motor1" not in known.signals


def test_a_log_without_what_is_read_says_what_it_holds(tmp_path: Path) -> None:
    path = write_ulog(tmp_path / "a.ulg", [("gimbal_controls", {"timestamp": START})])
    with pytest.raises(InvalidRecording, match="no topics that heft reads") as caught:
        Recording.open(path)
    assert caught.value.got == "gimbal_controls"
    mocap = [("vehicle_mocap_odometry", v) for n, v in motion() if n == "vehicle_odometry"]
    with pytest.raises(InvalidRecording) as caught:
        Recording.open(write_ulog(tmp_path / "b.ulg", mocap))
    assert "[topic] names = ['vehicle_mocap_odometry']" in str(caught.value.cure)


def test_what_a_vehicle_grasped_is_found_in_its_ulog(tmp_path: Path) -> None:
    cobot = shipped_free_flyer("space_cobot")
    load = load_of("1.2kg@0.20,0.06,-0.10")
    flown = fly(cobot, cobot.with_load(load), 5, periods=2)
    log = FlightLog.of(flown.recording, cobot)
    own = Rotation.from_quat(np.roll(log.quaternion, -1, axis=1)).as_matrix()
    turned = np.roll(Rotation.from_matrix(NED @ own @ FRD).as_quat(), 1, axis=1)
    rows: list[tuple[str, dict[str, object]]] = []
    for time, p, q, u in zip(log.time, log.position @ NED, turned, log.commands, strict=True):
        stamp = START + round(1e6 * float(time))
        pose = {"timestamp": stamp, "timestamp_sample": stamp, "pose_frame": 1, "velocity_frame": 1}
        rows.append(("vehicle_odometry", {**pose, "position": p, "q": q}))
        share = np.concatenate([u / 5.7, np.full(6, np.nan)])
        rows.append(("actuator_motors", {"timestamp": stamp, "control": share}))
    path = write_ulog(tmp_path / "flight.ulg", rows)
    actuators = replace(
        cobot.actuators,
        names=tuple(f"motor{k}" for k in range(1, 7)),
        mixing=5.7 * cobot.actuators.mixing,
        lower=-np.ones(6),
        upper=np.ones(6),
        noise=cobot.actuators.noise / 5.7,
    )
    vehicle = replace(cobot, name="vehicle", actuators=actuators)
    found, as_logged = (
        IdentifyFreeFlyer(10.0, published=None).fit(log, flyer)
        for log, flyer in ((Recording.open(path), vehicle), (flown.recording, cobot))
    )
    # Numbers of single precision, and no other difference.
    covariance = as_logged.body.parameters.covariance
    assert covariance is not None
    assert np.all(np.abs(found.values - as_logged.values) < 0.05 * np.sqrt(np.diag(covariance)))
    mass = found.load.numbers["mass"]
    assert abs(mass.value - load.mass) < 4.0 * mass.std


def test_what_is_cut_or_changed_is_refused_and_what_is_before_it_salvaged(tmp_path: Path) -> None:
    sound = ulog(motion())
    path = tmp_path / "a.ulg"
    path.write_bytes(sound[:-11])
    with pytest.raises(InvalidRecording, match="ends within a message"):
        Recording.open(path)
    kept = convert([path], tmp_path / "kept.parquet", recover=True)
    assert kept.rows == 40 and "ends within" in kept.damage[0]
    third = sound.rindex(sample(0, *[m for m in motion() if m[0] == "vehicle_odometry"][30]))
    path.write_bytes(sound[:third] + b"\xff\xff\xff" + sound[third + 3 :])
    with pytest.raises(InvalidRecording, match=f"no message begins at byte {third}"):
        Recording.open(path)
    assert convert([path], tmp_path / "kept.csv", recover=True).rows == 30


LINE = 300 * "esc_report[999] a;"
HOSTILE = {
    "nothing": (b"", "empty"),
    "another file": (b"PAR1" * 9, "not a ULog"),
    "a topic that is none": (ulog([]) + message("D", b"\x09\0"), "of a topic that is none"),
    "no topic": (ulog([]) + message("A", b"\0\0\0x"), "what is no topic"),
    "types that grow": (
        ulog([]) + message("F", f"a:{LINE}".encode()) + message("A", b"\0\1\0a"),
        "more than",
    ),
    "a type inside itself": (
        ulog([]) + message("F", b"a:a b;a c;") + message("A", b"\0\1\0a"),
        "inside one another",
    ),
    "a count that is none": (ulog([]) + message("F", b"a:float[-9] b;"), "a count that is none"),
    "nothing that heft reads": (ulog([]), "no topics that heft reads"),
    "half a sample": (
        ulog(motion(3)) + message("D", struct.pack("<H", 0) + bytes(20)),
        "3 of 4 samples of 'vehicle_odometry'",
    ),
    "appended where nothing is": (
        (s := ulog(motion(3)))[:27] + b"\1" + s[28:35] + struct.pack("<3Q", 2**60, 0, 0) + s[59:],
        "said to be appended",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_file_that_is_none_is_refused(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, reason = HOSTILE[case]
    (tmp_path / "a.ulg").write_bytes(data)
    with pytest.raises(InvalidRecording, match=reason):
        Recording.open(tmp_path / "a.ulg")
    with suppress(InvalidRecording):  # nothing worse
        convert([tmp_path / "a.ulg"], tmp_path / "kept.csv", recover=True)
    assert not capsys.readouterr().out
