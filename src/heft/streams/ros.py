"""A node and its topics as rmw_zenoh, ROS 2's middleware over Zenoh, writes them.

Keys, type hashes, attachments and liveliness tokens are those of the distributions that it serves,
Jazzy (from 0.2.4 on), Kilted and Rolling; see docs/design.md and rmw_zenoh_cpp/src/detail of
ros2/rmw_zenoh.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np

from heft.arrays import Array

# Hash of geometry_msgs/InertiaStamped by REP 2011, as `ros2 topic info -v` shows it.
INERTIA_HASH = "RIHS01_766be45976252babf7f9d8ac4ae7c912a7ceccf71035622529f27518b695aa09"
INERTIA_TYPE = "geometry_msgs::msg::dds_::InertiaStamped_"
TRANSFORMS = (  # type and hash
    "tf2_msgs::msg::dds_::TFMessage_/"
    "RIHS01_e369d0f05a23ae52508854b66f6aa0437f3449d652e8cbf22d5abe85d020f087"
)
GID = 16  # bytes


def inertia_key(domain: int, topic: str) -> str:
    """Return rmw_zenoh's key of a topic of inertias, which is named without a leading slash."""
    return f"{domain}/{topic}/{INERTIA_TYPE}/{INERTIA_HASH}"


def transforms_key(domain: int, topic: str) -> str:
    """Return rmw_zenoh's key of a topic of transforms, which is named without a leading slash."""
    return f"{domain}/{topic}/{TRANSFORMS}"


def liveliness(
    domain: int, session: str, topics: tuple[str, ...], transforms: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Return the liveliness tokens by which ROS 2 discovers a node and its topics.

    `@ros2_lv/<domain>/<session>/<node>/<entity>/<kind>/<enclave>/<namespace>/<name>`, and of a
    publisher `/<topic>/<type>/<hash>/<quality of service>` behind it. A stroke within a name is
    `%`, and so are enclave and namespace that are none; see `Graph Cache` in docs/design.md of
    ros2/rmw_zenoh.

    Args:
        session: Zenoh's identity of the session, as it prints it.
        topics: Of inertias, without a leading slash.
        transforms: Of transforms, likewise.
    """
    ours = f"@ros2_lv/{domain}/{session}/0"
    node = "%/%/heft"  # as `ros2 node list` shows it
    inertia = f"{INERTIA_TYPE}/{INERTIA_HASH}"
    kinds = [*((t, inertia) for t in topics), *((t, TRANSFORMS) for t in transforms)]
    # rmw_zenoh's defaults of quality (reliable, volatile, the last ones kept), depth 10.
    publishers = (
        f"{ours}/{k}/MP/{node}/%{topic.replace('/', '%')}/{kind}/::,10:,:,:,,"
        for k, (topic, kind) in enumerate(kinds, start=1)
    )
    return (f"{ours}/0/NN/{node}", *publishers)


def attachment(sequence: int, stamp: int, gid: bytes) -> bytes:
    """Return the attachment that rmw_zenoh's subscribers expect with a message.

    Sequence number and source stamp [ns] as little-endian int64, the length 16 of the publisher's
    identity and that identity: zenoh-ext's serialization, see `AttachmentData` in
    rmw_zenoh_cpp/src/detail/attachment_helpers.cpp of ros2/rmw_zenoh.

    Args:
        stamp: When it was sent [ns].
        gid: Identity of the publisher, 16 bytes.
    """
    return struct.pack("<qqB", sequence, stamp, GID) + gid


def inertia_stamped(stamp: int, frame: str, body: Array) -> bytes:
    """Return a `geometry_msgs/InertiaStamped` in CDR.

    Args:
        stamp: [ns].
        body: Mass, centre of mass, Ixx, Ixy, Iyy, Ixz, Iyz, Izz about it, shape (10,) [kg, m,
            kg·m²].
    """
    name = frame.encode() + b"\0"
    head = struct.pack("<iII", stamp // 10**9, stamp % 10**9, len(name)) + name
    head += bytes(-len(head) % 8)
    mass, x, y, z, xx, xy, yy, xz, yz, zz = np.asarray(body, dtype=float)
    return b"\0\1\0\0" + head + struct.pack("<10d", mass, x, y, z, xx, xy, xz, yy, yz, zz)


def transforms(stamp: int, frame: str, children: Mapping[str, tuple[Array, Array]]) -> bytes:
    """Return a `tf2_msgs/TFMessage` in CDR.

    Args:
        stamp: [ns].
        children: By frame, its attitude as a unit quaternion w, x, y, z and its origin [m] in the
            axes of `frame`, shapes (4,) and (3,).
    """
    data = bytearray(struct.pack("<I", len(children)))
    for child, (quaternion, origin) in children.items():
        data += bytes(-len(data) % 4)
        data += struct.pack("<iI", stamp // 10**9, stamp % 10**9)
        for name in (frame, child):
            data += bytes(-len(data) % 4)
            text = name.encode() + b"\0"
            data += struct.pack("<I", len(text)) + text
        data += bytes(-len(data) % 8)
        w, x, y, z = np.asarray(quaternion, dtype=float)
        data += struct.pack("<7d", *np.asarray(origin, dtype=float), x, y, z, w)
    return b"\0\1\0\0" + bytes(data)
