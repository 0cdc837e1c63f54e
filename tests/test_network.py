"""Over the network: closed to strangers, and what goes out is what ROS 2 reads."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import zenoh
import zenoh.ext

from heft.errors import InvalidSetting, NoConnection
from heft.streams import network
from heft.streams.network import Link, connected, settings_of
from heft.streams.ros import (
    INERTIA_HASH,
    attachment,
    inertia_key,
    inertia_stamped,
    liveliness,
)
from tests.messages import ROS2
from tests.rmw_zenoh import free_port

INERTIA = "geometry_msgs/msg/InertiaStamped"


def link_of(tmp_path: Path, **table: Any) -> Link:
    return Link.from_dict(table, tmp_path / "link.toml")


@contextmanager
def robot(port: int) -> Iterator[zenoh.Session]:
    """Yield a session that listens there, a peer that is no router."""
    config = zenoh.Config()
    config.insert_json5("mode", '"peer"')
    config.insert_json5("listen/endpoints", f'["tcp/127.0.0.1:{port}"]')
    config.insert_json5("scouting/multicast/enabled", "false")
    session = zenoh.open(config)
    try:
        yield session
    finally:
        session.close()


@pytest.mark.parametrize(
    "address", ["tcp/0.0.0.0:7447", "tcp/[::]:7447", "tcp/192.168.1.7:7447", "tcp/robot:7447"]
)
@pytest.mark.parametrize("side", ["connect", "listen"])
def test_other_machines_need_certificates(tmp_path: Path, side: str, address: str) -> None:
    link = link_of(tmp_path, **{side: [address]})
    with pytest.raises(InvalidSetting, match="anybody on that network"), connected(link):
        pass
    link.refuse_open(insecure=True)


@pytest.mark.parametrize("address", ["tcp/127.0.0.1:7447", "tcp/[::1]:7447", "tcp/localhost:1"])
def test_this_machine_needs_none(tmp_path: Path, address: str) -> None:
    link_of(tmp_path, connect=[address]).refuse_open()


BAD_LINKS = {
    "options that undo": ({"connect": ["tls/robot:7447#verify_name_on_connect=0"]}, "no address"),
    "another protocol": ({"connect": ["udp/127.0.0.1:7447"]}, "no address"),
    "no port": ({"connect": ["tcp/127.0.0.1"]}, "no address"),
    "unknown key": ({"listn": []}, "not known here"),
    "huge key": ({"subscribe": ["k" * 70_000]}, "no key"),
    "empty step": ({"subscribe": ["a//b"]}, "no key"),
    "publish to all": ({"publish": "heft/**"}, "no key"),
    "no domain": ({"domain": -1}, "no ROS domain"),
    "unread type": ({"topics": {"/image": "sensor_msgs/Image"}}, "not read"),
    "no mode": ({"mode": "router"}, "no mode"),
    "client of two": (
        {"mode": "client", "connect": ["tcp/127.0.0.1:1", "tcp/127.0.0.1:2"]},
        "one router",
    ),
    "client that listens": ({"mode": "client", "listen": ["tcp/127.0.0.1:1"]}, "listens nowhere"),
    "one certificate": ({"tls": {"ca": "ca.pem"}}, "three files"),
}


@pytest.mark.parametrize("kind", BAD_LINKS)
def test_bad_links_are_refused_by_name(tmp_path: Path, kind: str) -> None:
    table, message = BAD_LINKS[kind]
    with pytest.raises(InvalidSetting, match=message):
        link_of(tmp_path, **table)


def test_tls_without_certificates_is_refused(tmp_path: Path) -> None:
    link = link_of(tmp_path, connect=["tls/robot:7447"])
    with pytest.raises(InvalidSetting, match="no certificates"):
        link.refuse_open(insecure=True)


def test_a_private_key_that_others_read_is_refused(tmp_path: Path) -> None:
    for name in ("ca.pem", "node.pem", "node.key"):
        (tmp_path / name).write_text("x")
    tls = {"ca": "ca.pem", "certificate": "node.pem", "key": "node.key"}
    link = link_of(tmp_path, connect=["tls/robot:7447"], tls=tls)
    os.chmod(tmp_path / "node.key", 0o640)
    with pytest.raises(InvalidSetting, match="others can read"):
        link.refuse_open(insecure=True)
    os.chmod(tmp_path / "node.key", 0o600)
    link.refuse_open()
    settings = settings_of(link, "peer")
    assert settings["transport/link/protocols"] == ["tls"]  # whoever gossip tells of
    assert settings["transport/link/tls/enable_mtls"] is True
    assert settings["transport/link/tls/verify_name_on_connect"] is True


@pytest.mark.parametrize("mode", ["client", "peer"])
def test_nothing_is_left_to_find_or_to_be_found_by(mode: str) -> None:
    settings = settings_of(Link(), mode)
    assert settings["listen/endpoints"] == []  # Zenoh's default is all interfaces
    for key in ("scouting/multicast/enabled", "scouting/gossip/multihop", "adminspace/enabled"):
        assert settings[key] is False
    assert settings["scouting/gossip/enabled"] is (mode == "peer")


@pytest.mark.parametrize(
    ("source", "target", "stays"),
    [
        ("tcp/127.0.0.1:5", "tcp/127.0.0.1:7447", True),
        ("tcp/[::1]:5", "tcp/[::1]:7447", True),
        ("tcp/192.168.1.7:5", "tcp/192.168.1.7:7447", True),  # this machine by its other name
        ("tcp/192.168.1.7:5", "tcp/192.168.1.8:7447", False),
        ("tcp/[fe80::1]:5", "tcp/[fe80::2]:7447", False),
        ("tls/192.168.1.7:5", "tls/192.168.1.8:7447", True),  # certified on both sides
    ],
)
def test_what_leads_to_another_machine_in_the_clear_is_known(
    source: str, target: str, stays: bool
) -> None:
    assert Link().stays_here(source, target) is stays


@pytest.mark.parametrize("insecure", [False, True])
def test_gossip_leads_nowhere_else_unless_that_was_asked_for(
    tmp_path: Path, insecure: bool
) -> None:
    away = SimpleNamespace(src="tcp/192.168.1.7:5", dst="tcp/192.168.1.8:7447")
    link = link_of(tmp_path, listen=[f"tcp/127.0.0.1:{free_port()}"])
    with connected(link, insecure) as connection:
        if insecure:
            connection.refuse_strangers([away])
        else:
            with pytest.raises(InvalidSetting, match="led to another machine"):
                connection.refuse_strangers([away])


def test_one_address_may_be_a_routers_and_more_are_peers(tmp_path: Path) -> None:
    assert Link().first_mode == "client"
    two = ["tcp/127.0.0.1:1", "tcp/127.0.0.1:2"]
    assert link_of(tmp_path, connect=two).first_mode == "peer"  # a client has one router
    assert link_of(tmp_path, listen=two[:1]).first_mode == "peer"
    assert link_of(tmp_path, mode="peer").first_mode == "peer"


def test_nobody_there_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "CONNECTING", 0.5)
    link = link_of(tmp_path, connect=[f"tcp/127.0.0.1:{free_port()}"])
    with pytest.raises(NoConnection, match="no connection"), connected(link):
        pass


@pytest.mark.parametrize(
    "key",
    [
        "heft/samples/wrist",
        f"0/ft/wrench/geometry_msgs::msg::dds_::WrenchStamped_/RIHS01_{64 * 'a'}",
        f"0/imu/sensor_msgs::msg::dds_::Imu_/RIHS01_{64 * 'b'}",
        "arm/joint_states",
    ],
)
def test_messages_come_and_go(tmp_path: Path, key: str) -> None:
    port = free_port()
    topics = {"/arm/joint_states": "sensor_msgs/JointState"}
    with robot(port) as session:
        told = session.declare_subscriber("heft/payload/**")
        inertias = session.declare_subscriber(inertia_key(0, "heft/payload"))
        stds = session.declare_subscriber(inertia_key(0, "heft/payload/std"))
        link = link_of(tmp_path, connect=[f"tcp/127.0.0.1:{port}"], topics=topics)
        with connected(link) as connection:
            got: list[tuple[str, bytes]] = []
            until = time.monotonic() + 20.0
            while not got and time.monotonic() < until:
                session.put("camera/image", b"not asked for")
                session.put(key, b"hello")
                time.sleep(0.05)
                got += connection.receive()
            assert set(got) == {(key, b"hello")}
            connection.publish("estimate", {"mass": 1.5})
            assert connection.mode == "peer"  # nobody routes here
            body, std = np.arange(10.0), np.r_[0.5, [np.inf] * 9]
            connection.publish_inertia(12.5, "tool0", body, std)
            sample = told.recv()
            assert (str(sample.key_expr), json.loads(bytes(sample.payload))) == (
                "heft/payload/estimate",
                {"mass": 1.5},
            )
            sample = inertias.recv()
            assert ROS2.deserialize_cdr(bytes(sample.payload), INERTIA).inertia.m == 0.0
            assert len(bytes(sample.attachment)) == 33
            other = stds.recv()
            assert ROS2.deserialize_cdr(bytes(other.payload), INERTIA).inertia.m == 0.5
            assert bytes(other.attachment)[17:] != bytes(sample.attachment)[17:]  # who speaks


@pytest.mark.parametrize("frame", ["", "tool0", "flange_7", "longer/name"])
def test_inertias_are_what_ros_reads(frame: str) -> None:
    body = np.array([1.5, 0.1, 0.2, 0.3, 1.0, 0.1, 2.0, 0.2, 0.3, 3.0])
    message = ROS2.deserialize_cdr(inertia_stamped(1_700_000_000_000_000_007, frame, body), INERTIA)
    assert (message.header.stamp.sec, message.header.stamp.nanosec) == (1_700_000_000, 7)
    assert message.header.frame_id == frame
    told = message.inertia
    assert [told.m, told.com.x, told.com.y, told.com.z] == body[:4].tolist()
    assert [told.ixx, told.ixy, told.iyy, told.ixz, told.iyz, told.izz] == body[4:].tolist()
    assert bytes(ROS2.serialize_cdr(message, INERTIA)) == inertia_stamped(
        1_700_000_000_000_000_007, frame, body
    )


def test_what_is_not_known_of_an_inertia_is_no_number() -> None:
    """Zero would be an estimate, and an empty hand's is."""
    body = np.array([1.5, 0.1, 0.2, 0.3, *[np.nan] * 6])
    told = ROS2.deserialize_cdr(inertia_stamped(0, "", body), INERTIA).inertia
    assert told.m == 1.5 and np.isnan([told.ixx, told.iyy, told.izz, told.ixy]).all()


def test_the_key_of_inertias_is_that_of_rmw_zenoh() -> None:
    assert (
        inertia_key(7, "load") == f"7/load/geometry_msgs::msg::dds_::InertiaStamped_/{INERTIA_HASH}"
    )


def test_attachments_are_as_zenoh_serializes_them() -> None:
    gid = bytes(range(16))
    parts = (zenoh.ext.Int64(3), zenoh.ext.Int64(1_700_000_000_000_000_007), gid)
    assert attachment(3, 1_700_000_000_000_000_007, gid) == bytes(zenoh.ext.z_serialize(parts))


def signed(folder: Path, name: str, authority: str | None) -> None:
    """Write a key and its certificate, signed by an authority or itself."""
    subject = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    names = ["-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem"]
    extra = ["-addext", "basicConstraints=critical,CA:TRUE"]
    if authority is not None:
        extra = ["-CA", f"{authority}.pem", "-CAkey", f"{authority}.key", "-addext",
                 "subjectAltName=IP:127.0.0.1,DNS:localhost", "-addext",
                 "basicConstraints=critical,CA:FALSE"]  # fmt: skip
    call = ["openssl", "req", "-x509", *subject, *names, *extra]
    subprocess.run(call, cwd=folder, check=True, capture_output=True)
    (folder / f"{name}.key").chmod(0o600)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_certificates_of_one_authority_open_and_of_another_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "CONNECTING", 1.0)
    for name, authority in (("ca", None), ("other", None), ("one", "ca"), ("two", "ca")):
        signed(tmp_path, name, authority)
    signed(tmp_path, "three", "other")
    port = free_port()

    def link(name: str, authority: str = "ca", **table: Any) -> Link:
        tls = {"ca": f"{authority}.pem", "certificate": f"{name}.pem", "key": f"{name}.key"}
        return link_of(tmp_path, tls=tls, **table)

    address = [f"tls/127.0.0.1:{port}"]
    with connected(link("one", listen=address)):
        with connected(link("two", connect=address)):
            pass
        with pytest.raises(NoConnection), connected(link("three", connect=address)):
            pass


def test_tokens_are_as_rmw_zenoh_writes_them() -> None:
    # The form of the examples in docs/design.md of ros2/rmw_zenoh.
    session = "aac3178e146ba6f1fc6e6a4085e77f21"
    node, publisher, std = liveliness(0, session, ("heft/payload", "heft/payload/std"))
    assert node == "@ros2_lv/0/aac3178e146ba6f1fc6e6a4085e77f21/0/0/NN/%/%/heft"
    assert publisher == (
        "@ros2_lv/0/aac3178e146ba6f1fc6e6a4085e77f21/0/1/MP/%/%/heft/%heft%payload/"
        f"geometry_msgs::msg::dds_::InertiaStamped_/{INERTIA_HASH}/::,10:,:,:,,"
    )
    assert std == publisher.replace("/0/1/", "/0/2/").replace("%payload", "%payload%std")


def alive(session: zenoh.Session) -> list[list[str]]:
    replies = session.liveliness().get("@ros2_lv/5/**", timeout=2.0)
    return sorted(str(reply.ok.key_expr).split("/") for reply in replies if reply.ok)


def test_ros_knows_the_node_and_its_topic_while_it_lives(tmp_path: Path) -> None:
    port = free_port()
    link = link_of(tmp_path, connect=[f"tcp/127.0.0.1:{port}"], domain=5, publish="arm/load")
    with robot(port) as session:
        with connected(link):
            node, publisher, std = wait_for(lambda: alive(session), 3)
            assert node[2] == publisher[2] == std[2]
            assert std[9] == "%arm%load%std"
            assert node[5:] == ["NN", "%", "%", "heft"]
            assert publisher[5:10] == ["MP", "%", "%", "heft", "%arm%load"]
            told = "/".join(["5", publisher[9][1:].replace("%", "/"), *publisher[10:12]])
            assert told == inertia_key(5, "arm/load")
        assert wait_for(lambda: alive(session), 0) == []


def wait_for(look: Callable[[], list[list[str]]], count: int) -> list[list[str]]:
    """Return what is seen as soon as it is so many, or after 5 s."""
    end = time.monotonic() + 5.0
    while len(seen := look()) != count and time.monotonic() < end:
        time.sleep(0.05)
    return seen
