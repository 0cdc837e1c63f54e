"""Under rmw_zenoh's default settings: every sample is heard, and every estimate."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
import zenoh
from rosbags.typesys import Stores, get_typestore

from heft.streams.network import Connection, Link, connected
from heft.streams.ros import INERTIA_HASH, INERTIA_TYPE, inertia_key
from tests.messages import ROS2
from tests.rmw_zenoh import FILES, free_port, router, session, settings

# What `ros2 topic info -v` shows in Jazzy and later, as published in tables of other programs that
# speak with rmw_zenoh (micro-ROS's kin on zenoh-pico, ROS 2 for Rust and Swift).
PUBLISHED = {
    "geometry_msgs/msg/InertiaStamped": (
        "RIHS01_766be45976252babf7f9d8ac4ae7c912a7ceccf71035622529f27518b695aa09"
    ),
    "geometry_msgs/msg/WrenchStamped": (
        "RIHS01_8dc3deaf06b2ab281f9f9a742a8961c328ca7cec16e3fd6586d3a5c83fa78f77"
    ),
    "geometry_msgs/msg/PoseStamped": (
        "RIHS01_10f3786d7d40fd2b54367835614bff85d4ad3b5dab62bf8bca0cc232d73b4cd8"
    ),
    "sensor_msgs/msg/Imu": (
        "RIHS01_7d9a00ff131080897a5ec7e26e315954b8eae3353c3f995c55faf71574000b5b"
    ),
    "sensor_msgs/msg/JointState": (
        "RIHS01_a13ee3a330e346c9d87b5aa18d24e11690752bd33a0350f11c5882bc9179260e"
    ),
    "nav_msgs/msg/Odometry": (
        "RIHS01_3cc97dc7fb7502f8714462c526d369e35b603cfc34d946e3f2eda2766dfec6e0"
    ),
}
INERTIA = "geometry_msgs/msg/InertiaStamped"
WRENCH = "geometry_msgs/msg/WrenchStamped"
WRENCH_KEY = f"0/ft/wrench/geometry_msgs::msg::dds_::WrenchStamped_/{PUBLISHED[WRENCH]}"
COUNT = 200


@pytest.mark.parametrize("store", [Stores.ROS2_JAZZY, Stores.ROS2_KILTED, Stores.LATEST])
def test_types_are_those_of_the_distributions_that_rmw_zenoh_serves(store: Stores) -> None:
    types = get_typestore(store)
    assert {kind: types.hash_rihs01(kind) for kind in PUBLISHED} == PUBLISHED


def test_the_inertias_key_is_theirs() -> None:
    assert PUBLISHED[INERTIA] == INERTIA_HASH
    package, _, name = INERTIA.split("/")
    assert f"{package}::msg::dds_::{name}_" == INERTIA_TYPE


@pytest.fixture(params=[False, True], ids=["settings", "files"])
def files(request: pytest.FixtureRequest) -> bool:
    if request.param and not all(path.exists() for path in FILES.values()):
        pytest.skip("HEFT_DATA has no rmw_zenoh: ITS OWN FILES OF SETTINGS ARE NOT TRIED")
    return bool(request.param)


def test_their_router_passes_nothing_on_to_a_peer_that_it_cannot_introduce(files: bool) -> None:
    """What a node has to be a client for, or gossip."""
    port = free_port()
    alone = settings("SESSION", port, files)
    alone.insert_json5("scouting/gossip/enabled", "false")
    alone.insert_json5("listen/endpoints", "[]")
    with router(port, files), session(port, files) as sensor, zenoh.open(alone) as peer:
        listener = peer.declare_subscriber("heft/**", zenoh.handlers.FifoChannel(COUNT))
        for _ in range(10):
            sensor.put("heft/samples/wrist", b"?")
            time.sleep(0.05)
        assert not taken(listener)


def wrench(k: int) -> bytes:
    vector, kinds = ROS2.types["geometry_msgs/msg/Vector3"], ROS2.types
    stamp = kinds["builtin_interfaces/msg/Time"](sec=1_700_000_000, nanosec=k)
    message = kinds[WRENCH](
        kinds["std_msgs/msg/Header"](stamp=stamp, frame_id="tool0"),
        kinds["geometry_msgs/msg/Wrench"](vector(1.0, 2.0, float(k)), vector(0.0, 0.0, 0.0)),
    )
    return bytes(ROS2.serialize_cdr(message, WRENCH))


def link_to(port: int, tmp_path: Path, **said: object) -> Link:
    table = {"connect": [f"tcp/127.0.0.1:{port}"], **said}
    return Link.from_dict(table, tmp_path / "link.toml")


def taken(subscriber: zenoh.Subscriber) -> list[zenoh.Sample]:
    made = []
    while (sample := subscriber.try_recv()) is not None:
        made.append(sample)
    return made


def met(connection: Connection, sensor: zenoh.Session, listener: zenoh.Subscriber) -> None:
    """Wait until both ways are open; discovery takes its time."""
    until = time.monotonic() + 10.0
    heard = told = False
    while not (heard and told):
        assert time.monotonic() < until
        sensor.put("heft/samples/first", b"?")
        connection.publish_inertia(0.0, "", np.zeros(10), np.zeros(10))
        time.sleep(0.05)
        heard |= bool(connection.receive())
        told |= bool(taken(listener))
    time.sleep(0.3)
    connection.receive()
    taken(listener)


@pytest.mark.parametrize("mode", [None, "peer"])
def test_every_wrench_is_heard_and_every_inertia(
    files: bool, mode: str | None, tmp_path: Path
) -> None:
    port = free_port()
    said = {} if mode is None else {"mode": mode}
    with (
        router(port, files),
        session(port, files) as sensor,
        session(port, files) as other,
        connected(link_to(port, tmp_path, **said)) as connection,
    ):
        assert connection.mode == (mode or "client")
        listener = other.declare_subscriber(
            inertia_key(0, "heft/payload"), zenoh.handlers.FifoChannel(10 * COUNT)
        )
        met(connection, sensor, listener)
        sent = [wrench(k) for k in range(COUNT)]
        body = np.arange(10.0)
        for k, message in enumerate(sent):
            sensor.put(WRENCH_KEY, message)
            connection.publish_inertia(float(k), "tool0", body, body)
            time.sleep(0.002)
        time.sleep(0.5)
        assert connection.receive() == [(WRENCH_KEY, message) for message in sent]
        heard = [ROS2.deserialize_cdr(bytes(s.payload), INERTIA) for s in taken(listener)]
        assert [m.header.stamp.sec for m in heard] == list(range(COUNT))
        assert {m.header.frame_id for m in heard} == {"tool0"}


def test_behind_a_router_that_was_killed_it_is_heard_again(tmp_path: Path) -> None:
    port = free_port()
    with (
        router(port) as first,
        session(port) as sensor,
        session(port) as other,
        connected(link_to(port, tmp_path)) as connection,
    ):
        listener = other.declare_subscriber(
            inertia_key(0, "heft/payload"), zenoh.handlers.FifoChannel(10 * COUNT)
        )
        met(connection, sensor, listener)
        first.kill()
        first.wait()
        time.sleep(0.5)
        with router(port):
            begin = time.monotonic()
            met(connection, sensor, listener)
            assert time.monotonic() - begin < 5.0 + 0.3
