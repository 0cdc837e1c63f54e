"""Logs of ROS messages are the same numbers whatever they were stored in."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mcap.writer import Writer
from numpy.typing import NDArray

from heft.errors import InvalidRecording, MissingSignal
from heft.recordings.columns import ColumnMap
from heft.recordings.formats import mcap, message_log
from heft.recordings.formats import table as table_module
from heft.recordings.formats.layouts import Group, Malformed
from heft.recordings.formats.message_log import Channel
from heft.recordings.formats.messages import read_group
from heft.recordings.formats.registry import read_table
from heft.recordings.formats.table import refuse
from heft.recordings.recording import Recording
from tests.messages import (
    JOINT_STATE,
    SAVE,
    START,
    Messages,
    joint_states,
    protobuf_files,
    save_mcap,
    turn,
    vector,
)

Array = NDArray[np.float64]
ROWS = 300


def columns(seed: int = 0, joints: tuple[str, ...] = ("shoulder", "elbow")) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    names = [f"{kind}.{j}" for kind in ("q", "v", "tau") for j in joints]
    return {n: rng.normal(size=ROWS) * 10.0 ** rng.integers(-12, 12, ROWS) for n in names}


def stamps(seed: int = 0) -> list[int]:
    """Return stamps [ns] of today, which no double holds to the nanosecond."""
    steps = np.random.default_rng(seed).integers(500_000, 1_500_000, ROWS)
    return [START + int(s) for s in np.cumsum(steps)]


def everything(recording: Recording) -> dict[str, Array]:
    names = recording.signals
    whole = np.concatenate([np.column_stack([b.time, b.values]) for b in recording.blocks(names)])
    return dict(zip(("t", *names), whole.T, strict=True))


def bits(made: dict[str, Array]) -> dict[str, bytes]:
    return {n: np.ascontiguousarray(c).tobytes() for n, c in made.items()}


def seconds(times: list[int]) -> Array:
    return np.array([(s - times[0]) / 10**9 for s in times])


@pytest.mark.parametrize("kind", SAVE)
def test_every_storage_and_encoding_gives_the_same_numbers_to_the_bit(
    kind: str, tmp_path: Path
) -> None:
    values, times = columns(), stamps()
    values["v.elbow"][50:60] = 0.0  # which some encodings leave out
    recording = Recording.open(SAVE[kind](tmp_path / kind, joint_states(values, times)))
    assert bits(everything(recording)) == bits({"t": seconds(times), **values})
    assert recording.table.epoch == times[0]


@pytest.mark.parametrize("kind", ["zstd.mcap", "unchunked.mcap", "file.db3", "bz2.bag"])
def test_blocks_of_any_size_add_up_to_the_same_recording(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = Recording.open(SAVE[kind](tmp_path / kind, joint_states(columns(), stamps())))
    whole = bits(everything(recording))
    monkeypatch.setattr(table_module, "BLOCK_ROWS", 7)
    assert bits(everything(recording)) == whole


def everything_else(times: list[int]) -> tuple[Messages, dict[str, Array]]:
    """Return messages of all other types, and what they say under canonical names."""
    rng = np.random.default_rng(5)
    log = Messages()
    names = [f"{k}.tool.{x}" for k in ("force", "torque") for x in "xyz"]
    names += [f"{k}.imu.{x}" for k in ("omega", "acc") for x in "xyz"]
    names += [f"quat.imu.{x}" for x in "wxyz"]
    names += [f"{k}.body.{x}" for k in ("pos", "vel", "omega") for x in "xyz"]
    names += [f"quat.body.{x}" for x in "wxyz"]
    names += [f"pos.marker.{x}" for x in "xyz"] + [f"quat.marker.{x}" for x in "wxyz"]
    said = {n: rng.normal(size=len(times)) for n in names}
    nine, many = np.zeros(9), np.zeros(36)

    def three(kind: str, frame: str, k: int, of: str = "Vector3") -> tuple[str, dict[str, float]]:
        return vector(*(said[f"{kind}.{frame}.{x}"][k] for x in "xyz"), of)

    def four(frame: str, k: int) -> tuple[str, dict[str, float]]:
        return turn(*(said[f"quat.{frame}.{x}"][k] for x in "wxyz"))

    geometry = "geometry_msgs/msg/"
    for k, stamp in enumerate(times):
        wrench = {"force": three("force", "tool", k), "torque": three("torque", "tool", k)}
        log.add(
            "/wrench",
            f"{geometry}WrenchStamped",
            stamp,
            "tool",
            wrench=(f"{geometry}Wrench", wrench),
        )
        log.add(
            "/imu",
            "sensor_msgs/msg/Imu",
            stamp,
            "imu",
            orientation=four("imu", k),
            orientation_covariance=nine,
            angular_velocity=three("omega", "imu", k),
            angular_velocity_covariance=nine,
            linear_acceleration=three("acc", "imu", k),
            linear_acceleration_covariance=nine,
        )
        pose = {"position": three("pos", "body", k, "Point"), "orientation": four("body", k)}
        twist = {"linear": three("vel", "body", k), "angular": three("omega", "body", k)}
        log.add(
            "/odom",
            "nav_msgs/msg/Odometry",
            stamp,
            "world",
            child_frame_id="body",
            pose=(
                f"{geometry}PoseWithCovariance",
                {"pose": (f"{geometry}Pose", pose), "covariance": many},
            ),
            twist=(
                f"{geometry}TwistWithCovariance",
                {"twist": (f"{geometry}Twist", twist), "covariance": many},
            ),
        )
        pose = {"position": three("pos", "marker", k, "Point"), "orientation": four("marker", k)}
        log.add("/pose", f"{geometry}PoseStamped", stamp, "world", pose=(f"{geometry}Pose", pose))
    return log, said


@pytest.mark.parametrize("kind", ["zstd.mcap", "ros1.mcap", "json.mcap", "file.db3", "plain.bag"])
def test_wrenches_imus_odometry_and_poses_have_canonical_names(kind: str, tmp_path: Path) -> None:
    times = stamps()[:50]
    log, said = everything_else(times)
    mapping = ColumnMap.from_dict({"topic": {"frames": {"/pose": "marker"}}})
    made = everything(Recording.open(SAVE[kind](tmp_path / kind, log), mapping))
    assert bits(made) == bits({"t": seconds(times), **{n: said[n] for n in made if n != "t"}})
    assert set(made) == {"t", *said}


def test_a_pose_is_called_by_its_header_and_says_so(tmp_path: Path) -> None:
    log, _ = everything_else(stamps()[:5])
    log.messages = [m for m in log.messages if m.topic == "/pose"]
    recording = Recording.open(save_mcap(tmp_path / "run.mcap", log))
    assert "pos.world.x" in recording.signals
    assert any("frames" in note and "/pose" in note for note in recording.notes)


def test_joints_are_found_by_name_in_every_single_message(tmp_path: Path) -> None:
    values, times = columns(), stamps()
    log = joint_states(values, times)
    for k, message in enumerate(log.messages):
        if k % 3 == 1:
            for name, entry in message.values.items():
                turned = entry[::-1]
                message.values[name] = turned if name == "name" else turned.copy()
    made = everything(Recording.open(save_mcap(tmp_path / "run.mcap", log)))
    assert bits(made) == bits({"t": seconds(times), **values})


def test_arm_and_gripper_that_share_a_topic_are_one_log(tmp_path: Path) -> None:
    times = stamps()
    arm, gripper = columns(), columns(1, ("finger",))
    log = joint_states(arm, times)
    log.messages += joint_states(gripper, times).messages
    log.messages.sort(key=lambda m: m.logged)
    made = everything(Recording.open(save_mcap(tmp_path / "run.mcap", log)))
    assert bits(made) == bits({"t": seconds(times), **arm, **gripper})


@pytest.mark.parametrize(
    "kind", ["zstd.mcap", "json.mcap", "foxglove_protobuf.mcap", "file.db3", "plain.bag"]
)
def test_joints_that_are_named_twice_are_taken_once_where_they_agree(
    kind: str, tmp_path: Path
) -> None:
    values, times = columns(), stamps()
    values["tau.elbow"][250:] = np.nan if kind != "json.mcap" else 0.0
    log = joint_states(values, times)
    for message in log.messages[220:]:
        message.values["name"] = ["elbow", *message.values["name"]]
        for field in ("position", "velocity", "effort"):
            numbers = message.values[field]
            message.values[field] = np.concatenate([numbers[1:], numbers])
    recording = Recording.open(SAVE[kind](tmp_path / kind, log))
    assert not recording.table.remarks()
    assert bits(everything(recording)) == bits({"t": seconds(times), **values})
    (note,) = recording.table.remarks()
    assert "twice" in note and f"{(times[220] - times[0]) / 1e9:.1f} s" in note
    log.messages[260].values["velocity"][0] += 1e-9
    recording = Recording.open(SAVE[kind](tmp_path / f"unlike_{kind}", log))
    with pytest.raises(InvalidRecording, match="named twice"):
        everything(recording)


def test_publishers_of_one_topic_are_one_stream(tmp_path: Path) -> None:
    values, times = columns(), stamps()
    log = joint_states(values, times)
    path = tmp_path / "run.mcap"
    save_mcap(path, log, publishers=3)
    assert bits(everything(Recording.open(path))) == bits({"t": seconds(times), **values})


def test_stamps_far_from_the_time_of_logging_are_used_and_said(tmp_path: Path) -> None:
    log = joint_states(columns(), stamps())
    log.messages = [replace(m, logged=m.logged + 3_600_000_000_000) for m in log.messages]
    recording = Recording.open(save_mcap(tmp_path / "run.mcap", log))
    assert np.array_equal(everything(recording)["t"], seconds(stamps()))
    assert any("3600" in note for note in recording.notes)


def test_a_missing_library_is_named_with_the_command_that_gets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save_mcap(tmp_path / "run.mcap", joint_states(columns(), stamps()))
    monkeypatch.setitem(sys.modules, "mcap", None)
    with pytest.raises(InvalidRecording, match="'mcap', which is not installed") as caught:
        Recording.open(path)
    assert "pip install 'heft-robotics[ros]'" in str(caught.value)


@pytest.mark.parametrize(
    ("definition", "message", "says"),
    [
        (b"\xff" * 40, b"", "definition"),
        (b"", b"", "definition"),
        (protobuf_files().file[1].SerializeToString(), b"", "definition"),
        (protobuf_files().SerializeToString(), b"\x12\xff", "it is none"),
        (protobuf_files().SerializeToString(), b"\x12\0" * 600_000, "bytes long"),
    ],
)
def test_protocol_buffers_that_are_none_are_refused(
    definition: bytes, message: bytes, says: str, tmp_path: Path
) -> None:
    path = tmp_path / "run.mcap"
    with path.open("wb") as file:
        writer = Writer(file)
        writer.start()
        schema = writer.register_schema("foxglove.JointStates", "protobuf", definition)
        channel = writer.register_channel("/joints", "protobuf", schema)
        writer.add_message(channel, START, message, START)
        writer.finish()
    with pytest.raises(InvalidRecording, match=says):
        Recording.open(path)


def test_topics_that_say_the_same_are_refused_until_the_map_chooses(tmp_path: Path) -> None:
    times = stamps()
    log = joint_states(columns(), times)
    log.messages += joint_states(columns(1), times, "/wanted").messages
    path = save_mcap(tmp_path / "run.mcap", log)
    with pytest.raises(InvalidRecording, match="two streams") as caught:
        Recording.open(path)
    assert "/wanted" in str(caught.value)
    assert "[topic] names" in str(caught.value)
    for topic, seed in (("/joint_states", 0), ("/wanted", 1)):
        mapping = ColumnMap.from_dict({"topic": {"names": [topic]}})
        made = everything(Recording.open(path, mapping))
        assert bits(made) == bits({"t": seconds(times), **columns(seed)})
    with pytest.raises(MissingSignal, match="no topic '/other'"):
        Recording.open(path, ColumnMap.from_dict({"topic": {"names": ["/other"]}}))


def test_a_map_says_that_effort_is_a_current(tmp_path: Path) -> None:
    path = save_mcap(tmp_path / "run.mcap", joint_states(columns(), stamps()))
    table = {
        "q": {"columns": ["q.elbow"], "joints": ["elbow"]},
        "current": {"columns": ["tau.elbow"], "joints": ["elbow"]},
    }
    recording = Recording.open(path, ColumnMap.from_dict(table))
    assert recording.signals == ("q.elbow", "current.elbow")
    assert np.array_equal(everything(recording)["current.elbow"], columns()["tau.elbow"])


def test_without_stamps_the_time_of_logging_is_used_and_said(tmp_path: Path) -> None:
    times = stamps()
    log = joint_states(columns(), [0] * ROWS)
    log.messages = [replace(m, logged=times[k]) for k, m in enumerate(log.messages)]
    recording = Recording.open(save_mcap(tmp_path / "run.mcap", log))
    assert np.array_equal(everything(recording)["t"], seconds(times))
    assert any("time of logging" in note for note in recording.notes)


def test_what_a_driver_does_not_measure_is_not_a_signal(tmp_path: Path) -> None:
    values = {**columns(), "tau.elbow": np.full(ROWS, np.nan)}
    recording = Recording.open(save_mcap(tmp_path / "run.mcap", joint_states(values, stamps())))
    assert set(recording.signals) == set(columns()) - {"tau.elbow"}


def test_streams_of_unlike_rates_are_joined_at_the_times_of_the_joints(tmp_path: Path) -> None:
    times = stamps()
    log = joint_states(columns(), times)
    forces = np.sin(np.arange(ROWS))
    late = [t + 300_000 for t in times]
    for stamp, force in zip(late, forces, strict=True):
        wrench = {"force": vector(force, 0.0, 0.0), "torque": vector(0.0, 0.0, 0.0)}
        kind = "geometry_msgs/msg/Wrench"
        log.add("/wrench", f"{kind}Stamped", stamp, "tool", wrench=(kind, wrench))
    made = everything(Recording.open(save_mcap(tmp_path / "run.mcap", log)))
    at, there = seconds(times), (np.array(late) - times[0]) / 1e9
    expected = np.interp(at, there, forces, left=np.nan, right=np.nan)
    assert np.isnan(made["force.tool.x"][0])
    assert made["force.tool.x"][1:] == pytest.approx(expected[1:], abs=1e-12)


def test_messages_that_are_none_are_refused_with_their_topic(tmp_path: Path) -> None:
    log = joint_states(columns(), stamps())
    log.messages[200].values["position"] = np.zeros(1)  # two joints, one position
    with pytest.raises(InvalidRecording, match="damaged") as caught:
        everything(Recording.open(save_mcap(tmp_path / "run.mcap", log)))
    assert "/joint_states" in str(caught.value)


def test_a_log_without_anything_to_read_names_what_is_there(tmp_path: Path) -> None:
    log = Messages()
    log.add("/chat", "std_msgs/msg/Header", START)
    path = tmp_path / "run.mcap"
    log.messages = []
    with pytest.raises(InvalidRecording, match="no messages that heft reads"):
        Recording.open(save_mcap(path, log))


def test_joints_that_change_in_mid_log_are_refused(tmp_path: Path) -> None:
    log = joint_states(columns(), stamps())
    for message in log.messages[250:]:
        message.values["name"] = ["shoulder", "wrist"]
    with pytest.raises(InvalidRecording, match="change what they speak of"):
        everything(Recording.open(save_mcap(tmp_path / "run.mcap", log)))
    assert log.topics == {"/joint_states": JOINT_STATE}


# Several topics of a log: one walk for all, in bounded memory.


WRENCH = "geometry_msgs/msg/WrenchStamped"


def several(path: Path, count: int = 400) -> Path:
    """Write joint states and wrenches of three sensors, one after another."""
    log = joint_states(
        {"q.a": np.sin(0.01 * np.arange(count))}, [10**18 + k * 10**7 for k in range(count)]
    )
    for topic, begin in (("/w0", 0), ("/w1", 5), ("/w2", count // 2)):
        for k in range(begin, count):
            both = {"force": vector(k, 2.0, 3.0), "torque": vector(0.1, k, 0.3)}
            wrench = ("geometry_msgs/msg/Wrench", both)
            log.add(topic, WRENCH, 10**18 + k * 10**7 + 3, frame=topic[1:], wrench=wrench)
    return save_mcap(path, log)


@pytest.mark.parametrize("most", [0, 2_000, 40_000])
def test_topics_that_wait_for_each_other_are_read_alike(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever waits for its reader, or is walked to again."""
    path = several(tmp_path / "run.mcap")
    expected = everything(Recording.open(path))
    monkeypatch.setattr(message_log, "MOST_WAITING", most)
    found = everything(Recording.open(path))
    assert found.keys() == expected.keys() and len(found) == 20
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)
    np.testing.assert_allclose(expected["force.w0.x"][1:], np.arange(1, 400), atol=1e-3)


def test_topics_that_are_joined_are_walked_through_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, walks = several(tmp_path / "run.mcap"), 0
    unpacked = mcap._unpacked

    def counted(content: bytes, where: Path, complete: bool) -> bytes:
        nonlocal walks
        walks += 1
        return unpacked(content, where, complete)

    monkeypatch.setattr(mcap, "_unpacked", counted)
    opened = read_table(path)
    begun = walks
    once = sum(1 for _ in mcap.mcap_log(path, refuse).batches([0]))
    chunks, walks = walks - begun, 0
    assert once and sum(len(block) for block in opened.read(opened.columns)) == 400
    assert walks == chunks


def imu(**changed: Array) -> Group:
    """Return two messages of an inertial sensor by a definition of the file's own."""
    names = [f"{v}.{a}" for v in ("angular_velocity", "linear_acceleration") for a in "xyz"]
    names += [f"orientation.{a}" for a in "xyzw"]
    numbers = {n: np.ones((2, 1)) for n in (*names, "header.stamp.sec", "header.stamp.nanosec")}
    numbers["orientation_covariance"] = -np.ones((2, 9))
    strings = {"header.frame_id": ("tool",)}
    return Group(np.arange(2), numbers | changed, strings)


def test_fields_that_a_files_own_definition_leaves_empty_are_refused_or_none() -> None:
    channel = Channel("/imu", "sensor_msgs/msg/Imu", "cdr")
    _, found = read_group(channel, imu(), {})
    assert "acc.tool.x" in found and "quat.tool.x" not in found
    for name in ("header.stamp.sec", "header.stamp.nanosec", "angular_velocity.y"):
        with pytest.raises(Malformed, match=r"stamp is empty|lacks"):
            read_group(channel, imu(**{name: np.ones((2, 0))}), {})
    _, found = read_group(channel, imu(orientation_covariance=np.ones((2, 0))), {})
    assert "quat.tool.x" in found
