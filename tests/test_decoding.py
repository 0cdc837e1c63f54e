"""Messages of live robots: what other libraries write is read, anything else is counted."""

from __future__ import annotations

import json
from typing import Any

import cbor2
import numpy as np
import pytest

from heft.errors import InvalidSetting
from heft.streams.messages import LARGEST, Piece, Reader, refuse_types, ros_kind
from tests.messages import JOINT_STATE, ROS2, Messages, made, turn, vector

WRENCH, IMU = "geometry_msgs/msg/WrenchStamped", "sensor_msgs/msg/Imu"
HASH = "RIHS01_" + 64 * "a"
STAMP = 1_700_000_000_123_456_789


def key_of(kind: str, topic: str = "ft/wrench") -> str:
    package, _, name = kind.split("/")
    return f"0/{topic}/{package}::msg::dds_::{name}_/{HASH}"


def cdr(
    kind: str, stamp: int = STAMP, frame: str = "", little: bool = True, **values: Any
) -> bytes:
    log = Messages()
    log.add("/x", kind, stamp, frame, **values)
    return bytes(ROS2.serialize_cdr(made(ROS2, log.messages[0]), kind, little_endian=little))


def wrench(k: int = 0, **options: Any) -> bytes:
    value = {"force": vector(1.0 + k, 2.0, 3.0), "torque": vector(4.0, 5.0, 6.0)}
    return cdr(
        WRENCH,
        STAMP + k,
        "tool0",
        wrench=("geometry_msgs/msg/Wrench", value),
        **options,
    )


def only(pieces: list[Piece]) -> Piece:
    assert len(pieces) == 1
    return pieces[0]


def test_wrenches_of_ros_are_read_from_their_keys() -> None:
    pieces, garbage = Reader().read([(key_of(WRENCH), wrench(k)) for k in range(3)])
    piece = only(pieces)
    assert garbage == 0
    assert piece.names == tuple(f"{k}.tool0.{a}" for k in ("force", "torque") for a in "xyz")
    assert piece.stamps.tolist() == [STAMP, STAMP + 1, STAMP + 2]
    np.testing.assert_array_equal(piece.values, [[1.0 + k, 2, 3, 4, 5, 6] for k in range(3)])


def test_inertial_sensors_of_ros_are_read() -> None:
    message = cdr(
        IMU,
        frame="imu",
        orientation=turn(1.0, 0.0, 0.0, 0.0),
        orientation_covariance=np.full(9, -1.0),
        angular_velocity=vector(1.0, 2.0, 3.0),
        angular_velocity_covariance=np.zeros(9),
        linear_acceleration=vector(4.0, 5.0, 6.0),
        linear_acceleration_covariance=np.zeros(9),
    )
    piece = only(Reader().read([(key_of(IMU), message)])[0])
    got = dict(zip(piece.names, piece.values[0], strict=True))
    want = {f"omega.imu.{a}": k + 1.0 for k, a in enumerate("xyz")}
    assert got == want | {f"acc.imu.{a}": k + 4.0 for k, a in enumerate("xyz")}


def test_joints_of_ros_are_read_behind_a_bridge() -> None:
    message = cdr(
        JOINT_STATE, name=["a", "b"], position=np.array([0.1, 0.2]), velocity=np.zeros(0),
        effort=np.array([3.0, 4.0]), little=False,
    )  # fmt: skip
    topics = refuse_types({"arm/joint_states": "sensor_msgs/JointState"}, "test")
    pieces, garbage = Reader(topics).read([("arm/joint_states", message)])
    piece = only(pieces)
    assert garbage == 0 and piece.stamps.tolist() == [STAMP]
    got = dict(zip(piece.names, piece.values[0], strict=True))
    assert got == {"q.a": 0.1, "q.b": 0.2, "tau.a": 3.0, "tau.b": 4.0}


def test_a_topics_frame_can_be_named() -> None:
    reader = Reader(frames={"/ft/wrench": "left"})
    assert only(reader.read([(key_of(WRENCH), wrench())])[0]).names[0] == "force.left.x"


def test_bad_messages_among_good_ones_are_counted() -> None:
    good = [wrench(k) for k in range(4)]
    bad = [good[0][:40], b"", good[0][:4] + b"\xff" * 60, b"\x07" + good[0][1:]]
    messages = [(key_of(WRENCH), m) for pair in zip(good, bad, strict=True) for m in pair]
    pieces, garbage = Reader().read(messages)
    assert garbage == 4
    assert sorted(int(s) for p in pieces for s in p.stamps) == [STAMP + k for k in range(4)]


@pytest.mark.parametrize("write", [lambda m: json.dumps(m).encode(), cbor2.dumps])
def test_canonical_messages_are_read(write: Any) -> None:
    messages = [{"t": 12.5 + k, "force.tool0.x": 0.25, "acc.imu.z": 9.5 + k} for k in range(3)]
    piece = only(Reader().read([("any/key", write(m)) for m in messages])[0])
    assert piece.names == ("force.tool0.x", "acc.imu.z")
    assert piece.stamps.tolist() == [12_500_000_000 + k * 10**9 for k in range(3)]
    np.testing.assert_array_equal(piece.values, [[0.25, 9.5 + k] for k in range(3)])


GARBAGE = {
    "nothing": b"",
    "text": b"hello",
    "random": np.random.default_rng(0).bytes(300),
    "half a map": b'{"t": 1.0, "force.x"',
    "no time": b'{"force.tool0.x": 1.0}',
    "time that is none": b'{"t": NaN, "force.tool0.x": 1.0}',
    "time beyond all": b'{"t": 1e30, "force.tool0.x": 1.0}',
    "time of text": b'{"t": "1.0", "force.tool0.x": 1.0}',
    "text for a number": b'{"t": 1.0, "force.tool0.x": "1.0"}',
    "yes for a number": b'{"t": 1.0, "force.tool0.x": true}',
    "digits without end": b'{"t": 1.0, "force.tool0.x": ' + 5000 * b"1" + b"}",
    "nested without end": b'{"t": 1.0, "a": ' + 20_000 * b"[",
    "too long": b'{"t": 1.0, "a": 1.0' + LARGEST * b" " + b"}",
    "too many": json.dumps({"t": 1.0} | {str(k): 1.0 for k in range(1000)}).encode(),
    "half of CBOR": cbor2.dumps({"t": 1.0, "a": 2.0})[:-3],
    "CBOR that promises much": b"\xbb\xff\xff\xff\xff\xff\xff\xff\xff",
    "CBOR of text": cbor2.dumps({"t": 1.0, "a": "b"}),
    "CBOR of a list": cbor2.dumps([1.0, 2.0]),
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_is_counted_and_never_raised(kind: str) -> None:
    good = b'{"t": 1.0, "force.tool0.x": 1.0}'
    pieces, garbage = Reader().read([("k", good), ("k", GARBAGE[kind]), ("k", good)])
    assert garbage == 1
    assert sum(len(p.stamps) for p in pieces) == 2


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (key_of(WRENCH), ("/ft/wrench", WRENCH)),
        (key_of(IMU, "imu"), ("/imu", IMU)),
        ("ft/wrench", ("/ft/wrench", WRENCH)),
        ("heft/samples/wrist", None),
        ("0/x/geometry_msgs::msg::Wrench/hash", None),
        ("a", None),
    ],
)
def test_keys_tell_topic_and_type(key: str, kind: tuple[str, str] | None) -> None:
    assert ros_kind(key, {"/ft/wrench": WRENCH}) == kind


def test_types_that_are_not_read_are_refused() -> None:
    with pytest.raises(InvalidSetting, match="not read"):
        refuse_types({"/image": "sensor_msgs/Image"}, "test")
