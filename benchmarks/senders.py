"""What runs in processes beside those that are measured; it loads nothing of heft."""

from __future__ import annotations

import json
import pickle
import resource
import socket
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import zenoh
from tests.rmw_zenoh import FILES, session

HEAD = 4  # bytes before a header's stamp in CDR


def moments(seconds: float, rate: float) -> Iterator[tuple[int, float]]:
    """Yield number and time of each sample when it is due [s].

    Args:
        seconds: How long samples are sent.
        rate: Of samples [Hz].
    """
    begin = time.time() + 0.5
    for k in range(round(seconds * rate)):
        due = begin + k / rate
        while (ahead := due - time.time()) > 0.0:
            time.sleep(ahead)
        yield k, due


def feed(port: int, cycle: Path, seconds: float, rate: float, after: float) -> None:
    """Send samples at their time over plain Zenoh.

    Args:
        port: That the sender listens at.
        cycle: JSON file of samples, which come again and again.
        seconds: How long they are sent.
        rate: Of samples [Hz].
        after: How long it stays behind the last [s].
    """
    config = zenoh.Config()
    config.insert_json5("mode", '"peer"')
    config.insert_json5("listen/endpoints", f'["tcp/127.0.0.1:{port}"]')
    config.insert_json5("scouting/multicast/enabled", "false")
    samples = json.loads(cycle.read_text())
    with zenoh.open(config) as opened:
        blocking = zenoh.CongestionControl.BLOCK
        publisher = opened.declare_publisher("heft/samples/x", congestion_control=blocking)
        while not publisher.matching_status.matching:
            time.sleep(0.01)
        for k, due in moments(seconds, rate):
            publisher.put(json.dumps({"t": due, **samples[k % len(samples)]}))
        time.sleep(after)


def feed_ros(port: int, cycle: Path, seconds: float, rate: float, after: float) -> None:
    """Send ROS 2 messages at their time, stamped; behind a share of the time, others.

    Args:
        port: Of the router.
        cycle: Pickled: keys of topics, messages of each, which come again and again, the share
            of the time behind which the last of them take the first's place.
        seconds: How long they are sent.
        rate: Of messages [Hz].
        after: How long it stays behind the last [s].
    """
    keys, (first, *others, last), share = pickle.loads(cycle.read_bytes())
    with session(port, files()) as opened:
        sides = [opened.declare_publisher(key) for key in keys]
        while not all(side.matching_status.matching for side in sides):
            time.sleep(0.01)
        for k, due in moments(seconds, rate):
            stamp = round(due * 1e9)
            for side, some in zip(
                sides, (first if k < share * seconds * rate else last, *others), strict=True
            ):
                message = some[k % len(some)]
                struct.pack_into("<iI", message, HEAD, stamp // 10**9, stamp % 10**9)
                side.put(bytes(message))
        time.sleep(after)


def listen(port: int, key: str, out: Path) -> None:
    """Keep what is published until the standard input ends: pickled times, attachments, payloads.

    Args:
        port: Of the router.
        key: Of the topic.
        out: File.
    """
    told = []

    def take(sample: Any) -> None:
        told.append((time.time(), bytes(sample.attachment), bytes(sample.payload)))

    with session(port, files()) as opened:
        subscriber = opened.declare_subscriber(key, take)
        sys.stdin.read()
        subscriber.undeclare()
    out.write_bytes(pickle.dumps(told))


def files() -> bool:
    """Return whether rmw_zenoh's own files of settings are there."""
    return all(path.exists() for path in FILES.values())


def stay_idle(port: int, seconds: float, count: int) -> None:
    """Hold connections open that ask for nothing; say how many were made."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * count + 64, 2 * count + 64))
    held: list[socket.socket] = []
    made, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        kept = []
        for one in held:
            try:
                closed = one.recv(1024) == b""
            except BlockingIOError:
                closed = False
            except OSError:
                closed = True
            if closed:
                one.close()
            else:
                kept.append(one)
        held = kept
        for _ in range(count - len(held)):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
            held.append(one)
            made += 1
        time.sleep(min(1.0, max(end - time.monotonic(), 0.0)))
    print(made)
