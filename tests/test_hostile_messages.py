"""Messages made to harm: refused, counted, within bounds of time and memory, shown as text."""

from __future__ import annotations

import gc
import json
import math
import time
import tracemalloc
from typing import Any

import cbor2
import numpy as np
import pytest

from heft.errors import visible
from heft.recordings.formats.layouts import MOST_KEPT, Decoder, Malformed
from heft.recordings.formats.message_log import Channel
from heft.recordings.formats.messages import read_group, types_of
from heft.streams import messages as messages_module
from heft.streams.messages import LONGEST_NAME, MOST_SIGNALS, Reader, cbor_map
from tests.messages import JOINT_STATE, vector
from tests.test_decoding import IMU, WRENCH, cdr, key_of, wrench
from tests.test_live import NODE

GOOD = b'{"t": 1.0, "force.tool0.x": 1.0}'


def colliding(count: int = 5000) -> list[int]:
    """Return integers of one hash, which make a set take time by the square of their count."""
    return [1 + k * (2**61 - 1) for k in range(count)]


REFUSED = {
    "half of a surrogate pair": b'{"t": 1.0, "force.\\ud800.x": 1.0}',
    "a name as long as a message": json.dumps({"t": 1.0, "a" * (LONGEST_NAME + 1): 1.0}).encode(),
    "a stamp at the end of all numbers": b'{"t": 9223372036854775807, "a": 1.0}',
    "a stamp that no difference holds": json.dumps({"t": 2**62 / 1e9, "a": 1.0}).encode(),
    "a set of equal hashes": cbor2.dumps({"t": 1.0, "a": set(colliding(300))}),
    "keys of equal hashes": cbor2.dumps({"t": 1.0} | dict.fromkeys(colliding(300), 1.0)),
    "a tag": cbor2.dumps({"t": 1.0, "a": cbor2.CBORTag(258, [1, 2])}),
    "a tagged time": cbor2.dumps({"t": cbor2.CBORTag(1, 1.0), "a": 1.0}),
    "a number beyond 64 bits": cbor2.dumps({"t": 1.0, "a": 2**70}),
    "a key of bytes": cbor2.dumps({b"t": 1.0, "a": 1.0}),
    "a key that is a number": cbor2.dumps({"t": 1.0, 5: 1.0}),
    "a key twice": b"\xa3\x61t\x01\x61a\x01\x61a\x02",
    "no text in a key": b"\xa2\x61t\x01\x62\xff\xfe\x01",
    "true": cbor2.dumps({"t": 1.0, "a": True}),
    "undefined": cbor2.dumps({"t": 1.0, "a": cbor2.undefined}),
    "a map in a map": cbor2.dumps({"t": 1.0, "a": {"b": 1.0}}),
    "more behind it": cbor2.dumps({"t": 1.0, "a": 1.0}) + b"\x00",
    "text in pieces": b"\xa2\x61t\x01\x7f\x61a\xff\x01",
    "endless, without an end": b"\xbf\x61t\x01\x61a\x01",
    "endless, too many": b"\xbf" + b"".join(
        cbor2.dumps(str(k)) + b"\x01" for k in range(MOST_SIGNALS + 5)
    ) + b"\xff",
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_made_to_harm_is_garbage(kind: str) -> None:
    pieces, garbage = Reader().read([("k", GOOD), ("k", REFUSED[kind]), ("k", GOOD)])
    assert garbage == 1
    assert [p.names for p in pieces for _ in p.stamps] == [("force.tool0.x",)] * 2


def test_cbor_is_read_as_another_library_writes_it() -> None:
    rng = np.random.default_rng(1)
    scales = 10.0 ** np.arange(-300, 300, 40)
    for _ in range(300):
        values: list[Any] = [
            *(float(np.float16(x)) for x in rng.normal(size=2)),
            *(float(np.float32(x)) for x in rng.normal(size=2)),
            *(float(rng.normal() * rng.choice(scales)) for _ in range(3)),
            *(int(rng.integers(-(2**k), 2**k)) for k in (3, 7, 15, 31, 62)),
            *(math.inf, -(2**64), 2**64 - 1),
        ]
        names = ["".join(rng.choice(list("aé漢𝒳."), rng.integers(0, 40))) for _ in values]
        wanted = dict(zip(names, values, strict=True))
        for canonical in (False, True):
            assert cbor_map(cbor2.dumps(wanted, canonical=canonical)) == wanted
        endless = b"".join(cbor2.dumps(k) + cbor2.dumps(v) for k, v in wanted.items())
        assert cbor_map(b"\xbf" + endless + b"\xff") == wanted


def test_a_map_of_equal_hashes_takes_no_time() -> None:
    hostile = cbor2.dumps({"t": 1.0, "a": set(colliding())})[: messages_module.LARGEST]
    begin = time.thread_time()  # others share the machine
    assert Reader().read([("k", hostile)] * 200)[1] == 200
    assert time.thread_time() - begin < 0.5  # a general decoder takes 40 s


@pytest.mark.parametrize("stamp", [2**63 - 1, -(2**63), 2**40, 1e300, "NaN", "null"])
def test_a_stamp_does_not_begin_again_at_the_far_end(stamp: Any) -> None:
    text = f'{{"header": {{"stamp": {{"sec": {stamp}, "nanosec": 5}}, "frame_id": "a"}}}}'
    channel = Channel("/a", WRENCH, "json")
    with pytest.raises(Malformed):
        for group in Decoder(WRENCH, {}, "json").groups([text.encode()]):
            read_group(channel, group, {})


def frames(count: int, size: int) -> list[bytes]:
    """Return wrenches of one size, each of another frame."""
    value = {"force": vector(1.0, 2.0, 3.0), "torque": vector(4.0, 5.0, 6.0)}
    whole = cdr(WRENCH, frame="#" * 8 + "a" * size, wrench=("geometry_msgs/msg/Wrench", value))
    return [whole.replace(b"#" * 8, b"%08d" % k) for k in range(count)]


@pytest.mark.parametrize("size", [20, 200, 2000, 60_000])
def test_layouts_are_kept_within_bounds(size: int) -> None:
    decoder = Decoder(WRENCH, types_of(Channel("/a", WRENCH, "cdr"), "/a"), "cdr")
    count = min(2500, 40_000_000 // size)
    messages = frames(count, size)
    tracemalloc.start()
    try:
        rows = 0
        for group in decoder.groups(messages):
            rows += len(group.rows)
            del group
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert rows == count
    assert decoder.memory < 1.1 * MOST_KEPT
    assert held < 2 * MOST_KEPT and peak < 10 * MOST_KEPT


def test_wrenches_of_endless_frames_are_garbage_and_leave_no_trace() -> None:
    reader = Reader()
    hostile = [(key_of(WRENCH), m) for m in frames(200, 60_000)]
    tracemalloc.start()
    try:
        for _ in range(3):
            assert reader.read(hostile) == ([], 200)
        assert tracemalloc.get_traced_memory()[0] < 2 * MOST_KEPT
    finally:
        tracemalloc.stop()
    pieces, garbage = reader.read([(key_of(WRENCH), wrench())])
    assert (len(pieces), garbage) == (1, 0)


def test_joints_without_end_are_garbage() -> None:
    names = [f"j{k}" for k in range(3000)]
    message = cdr(
        JOINT_STATE, name=names, position=np.zeros(3000), velocity=np.zeros(0), effort=np.zeros(0)
    )
    assert len(message) < messages_module.LARGEST
    assert Reader().read([(key_of(JOINT_STATE), message)]) == ([], 1)


SLOW = b'{"t": 1.0, "a": ' + b"[" * 60_000  # some hundred microseconds each


def test_a_sender_takes_its_share_of_time_and_others_are_read() -> None:
    reader = Reader()
    reader.read([("honest", GOOD)])
    hostile = [(f"many/{k % 100}", SLOW) for k in range(4000)]
    hostile += [(key_of(IMU, f"many/{k}"), b"\0\1\0\0" + bytes(300)) for k in range(1000)]
    gc.collect()
    gc.freeze()  # what other tests left in memory is not the reader's to look through
    try:
        begin = time.thread_time()  # others share the machine
        pieces, garbage = reader.read([*hostile, *[("honest", GOOD)] * 500], 0.1)
        assert time.thread_time() - begin < 0.5
    finally:
        gc.unfreeze()
    assert sum(len(p.stamps) for p in pieces) == 500
    assert reader.unread > 0 and garbage + reader.unread == len(hostile)


def test_one_key_is_read_up_to_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages_module, "MOST_BYTES", 10 * len(GOOD))
    reader = Reader()
    pieces, garbage = reader.read([("a", GOOD)] * 15 + [("b", GOOD)] * 10)
    assert (sum(len(p.stamps) for p in pieces), garbage, reader.unread) == (20, 0, 5)
    reader.read([("a", GOOD)])
    assert reader.unread == 0


def test_no_more_keys_are_remembered_than_some() -> None:
    reader = Reader()
    reader.read([(f"key/{k}", GOOD) for k in range(5000)])
    assert len(reader._heard) == messages_module.MOST_HEARD


HIDDEN = "\x1b[31m\u202e\u2066\x07\n\u200b\x9b\u2028"


def test_names_are_shown_and_not_obeyed() -> None:
    message = json.dumps({"t": 1.0, f"force.{HIDDEN}é漢.x": 1.0}).encode()
    pieces, _ = Reader().read([("k", message)])
    state, _ = NODE.step(NODE.start(), 0.0, pieces)
    (told,) = NODE.health(state)["foreign"]
    assert told.isprintable()
    assert told == f"force.{visible(HIDDEN)}é漢.x" and "\\x1b[31m\\u202e" in told
    assert visible("half \ud800") == "half \\ud800"
