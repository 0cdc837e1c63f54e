"""ULog files by the published layout of their bytes (docs.px4.io, ULog File Format)."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

CODES = {
    "uint64_t": "Q", "float": "f", "uint8_t": "B", "uint16_t": "H", "int32_t": "i", "bool": "?",
    "uint32_t": "I",
}  # fmt: skip
MESSAGES = {
    "vehicle_odometry": "uint64_t timestamp;uint64_t timestamp_sample;float[3] position;float[4] q;"
    "float[3] velocity;float[3] angular_velocity;uint8_t pose_frame;uint8_t velocity_frame;"
    "uint8_t[6] _padding0;",
    "vehicle_attitude": "uint64_t timestamp;uint64_t timestamp_sample;float[4] q;",
    "vehicle_angular_velocity": "uint64_t timestamp;uint64_t timestamp_sample;float[3] xyz;"
    "float[3] xyz_derivative;",
    "sensor_combined": "uint64_t timestamp;float[3] gyro_rad;float[3] accelerometer_m_s2;",
    "actuator_motors": "uint64_t timestamp;uint64_t timestamp_sample;float[12] control;"
    "uint16_t reversible_flags;uint8_t[6] _padding0;",
    "esc_report": "uint64_t timestamp;int32_t esc_rpm;uint8_t actuator_function;"
    "uint8_t[3] _padding0;",
    "esc_status": "uint64_t timestamp;esc_report[2] esc;uint8_t esc_count;",
    "vehicle_local_position": "uint64_t timestamp;uint64_t timestamp_sample;float x;float y;"
    "float z;bool xy_valid;bool z_valid;uint8_t xy_reset_counter;uint8_t z_reset_counter;",
    "vehicle_acceleration": "uint64_t timestamp;uint64_t timestamp_sample;float[3] xyz;",
    "actuator_outputs": "uint64_t timestamp;uint32_t noutputs;float[16] output;",
    "gimbal_controls": "uint64_t timestamp;float[3] control;",
}
MESSAGES["vehicle_mocap_odometry"] = MESSAGES["vehicle_odometry"]
for _name in ("angular_velocity", "attitude", "local_position"):
    MESSAGES[f"vehicle_{_name}_groundtruth"] = MESSAGES[f"vehicle_{_name}"]
# Odometry of PX4 1.11 to 1.13.
OLD_ODOMETRY = (
    "uint64_t timestamp;uint64_t timestamp_sample;float x;float y;float z;float[4] q;float vx;"
    "float vy;float vz;float rollspeed;float pitchspeed;float yawspeed;uint8_t local_frame;"
    "uint8_t velocity_frame;"
)


def message(kind: str, body: bytes) -> bytes:
    """Return a message: its length, its kind, its content."""
    return struct.pack("<HB", len(body), ord(kind)) + body


def packed(topic: str, values: Mapping[str, object]) -> bytes:
    """Return a sample of a topic; fields that are not given are zero, types as `MESSAGES` say."""
    out = b""
    for entry in filter(None, MESSAGES[topic].split(";")):
        kind, name = entry.split(" ")
        kind, _, count = kind.partition("[")
        number = int(count.rstrip("]") or 1)
        if kind in MESSAGES:
            given = values.get(name, [{}] * number)
            assert isinstance(given, Sequence)
            out += b"".join(packed(kind, given[k]) for k in range(number))
        else:
            out += struct.pack(
                f"<{number}{CODES[kind]}",
                *np.broadcast_to(np.asarray(values.get(name, 0)), number).tolist(),
            )
    return out


def sample(number: int, topic: str, values: Mapping[str, object]) -> bytes:
    """Return a message of data without the padding at its end, as PX4 writes them."""
    body = packed(topic, values)
    padding = MESSAGES[topic].rsplit(";", 2)[-2]
    cut = int(padding.split("[")[1].split("]")[0]) if "_padding" in padding else 0
    return message("D", struct.pack("<H", number) + body[: len(body) - cut])


def ulog(samples: Sequence[tuple[str, Mapping[str, object]]], begun: int = 0) -> bytes:
    """Return the bytes of a file of samples, in their order; `topic[1]` is a second instance.

    Args:
        begun: How many samples stand before a message that was never finished; all others are
            appended. None are if 0.
    """
    topics = list(dict.fromkeys(topic for topic, _ in samples))
    data = b"ULog\x01\x12\x35\x01" + struct.pack("<Q", 5_000_000)
    data += message("B", bytes(40))
    for name, fields in MESSAGES.items():
        data += message("F", f"{name}:{fields}".encode())
    text = b"\x0cchar[3] name" + b"abc"
    data += message("I", text)
    for k, topic in enumerate(topics):
        name, _, instance = topic.partition("[")
        data += message("A", struct.pack("<BH", int(instance.rstrip("]") or 0), k) + name.encode())
    data += message("S", bytes.fromhex("2f731320250cbb12"))
    parts = [sample(topics.index(n), n.partition("[")[0], v) for n, v in samples]
    if begun:
        data += b"".join(parts[:begun]) + parts[begun][:9]
        data = data[:27] + b"\1" + data[28:35] + struct.pack("<Q", len(data)) + data[43:]
    return data + b"".join(parts[begun:])


def write_ulog(path: Path, samples: Sequence[tuple[str, Mapping[str, object]]]) -> Path:
    """Write a file of samples."""
    path.write_bytes(ulog(samples))
    return path
