"""ULog, the log of PX4 (docs.px4.io, ULog File Format), held whole in memory.

The file is walked message by message: what is no message is damage, types that would grow without
bound are refused, and samples must be as long as their type says. The format has no checksums.

PX4 counts in a world of north, east, down (NED), or of forward, right, down (FRD) with any heading,
and a body of forward, right, down. heft's worlds and bodies have z up, as REP 103 asks: here the
world is east, north, up (ENU), or forward, left, up (FLU), and the body forward, left, up:

    p_ENU = (p_E, p_N, −p_D),    v_FLU = (v_F, −v_R, −v_D),    R' = C R D

with C and D those two changes of axes (docs.px4.io, VehicleOdometry).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import InvalidRecording

from .table import (
    GAP,
    Damaged,
    Table,
    Topics,
    damaged_file,
    join,
    refuse_many,
    refuse_missing,
    unreadable,
)

NAME = "ULog file"
damage = partial(damaged_file, NAME)
MAGIC = b"ULog\x01\x12\x35"
HEAD = 16  # bytes of the file's head
KINDS = frozenset(b"BFIMPQARSOLCD")  # of messages
MOST_FIELDS = 200_000  # of all subscriptions together
# Types of numbers, as numpy spells them; a truth is one of 0 and 1.
TYPES = {f"{u}int{8 * n}_t": f"<{u or 'i'}{n}" for u in ("", "u") for n in (1, 2, 4, 8)}
TYPES |= {"float": "<f4", "double": "<f8", "bool": "<i1", "char": "<i1"}

FRAME = "vehicle"  # of the body, where the map gives it no other name
NED, FRD, BODY = 1, 2, 3  # `pose_frame` and `velocity_frame`
MOTORS = 12
AXES, TURN = "xyz", "wxyz"


def ulog_table(path: Path, topics: Topics, damaged: Damaged) -> Table:
    """Return the topics of a ULog that say how a vehicle moves and what drives it.

    Raises:
        InvalidRecording: If it is no ULog, is damaged, or holds no such topic.
        MissingSignal: If a chosen topic is not there.
    """
    data = path.read_bytes()
    if len(data) < HEAD or data[: len(MAGIC)] != MAGIC:
        raise InvalidRecording("this is not a ULog file", argument=str(path), got=repr(data[:8]))
    seen = _Walk(data)
    try:
        seen.walk()
    except ValueError as problem:
        damaged(damage(path, str(problem)))
    decoded = list(_decoded(path, seen, damaged))
    notes = []
    if seen.dropped:
        lost = f"{len(seen.dropped)} times, {1e-3 * sum(seen.dropped):.3g} s in all"
        notes.append(f"the logger could not write for a while {lost}")
    return topics_table(
        str(path), decoded, topics, notes, {name for name, _ in seen.names.values()}
    )


@dataclass
class _Walk:
    data: bytes  # the file
    # fields of each type: name, type, and count of those that have one
    formats: dict[str, list[tuple[str, str, int | None]]] = field(default_factory=dict)
    names: dict[int, tuple[str, int]] = field(default_factory=dict)  # topic of each subscription
    # name and type of each subscription's numbers
    columns: dict[int, list[tuple[str, str]]] = field(default_factory=dict)
    samples: dict[int, list[bytes]] = field(default_factory=dict)  # of each subscription
    fields: int = 0  # numbers of all subscriptions
    dropped: list[int] = field(default_factory=list)  # times for which nothing was logged [ms]

    def walk(self) -> None:
        for begin, limit in self._pieces():
            at = begin
            while at < limit:
                size, kind = struct.unpack_from("<HB", self.data[at : at + 3].ljust(3, b"\0"))
                if at + 3 <= limit and kind not in KINDS:
                    raise ValueError(f"no message begins at byte {at}")
                if at + 3 + size > limit:
                    if limit == len(self.data):
                        raise ValueError(f"it ends within a message, at byte {at}")
                    break  # what was appended begins within a message that was never finished
                self._take(kind, at + 3, at + 3 + size)
                at += 3 + size

    @property
    def _appended(self) -> bool:
        flagged = self.data[HEAD + 2 : HEAD + 3] == b"B" and len(self.data) >= HEAD + 43
        return flagged and bool(self.data[HEAD + 11] & 1)

    def _pieces(self) -> Iterator[tuple[int, int]]:
        """Yield begin and end [bytes] of each section of messages: one if none are appended."""
        ends = []
        if self._appended:
            stated = struct.unpack_from("<3Q", self.data, HEAD + 19)
            ends = [at for at in stated if at]
        places = [HEAD, *ends, len(self.data)]
        if any(b <= a for a, b in pairwise(places)):
            raise ValueError("data are said to be appended where the file has none")
        yield from pairwise(places)

    def _take(self, kind: int, begin: int, end: int) -> None:
        if kind == ord("D"):
            if end - begin < 2:
                raise ValueError(f"data of no topic at byte {begin}")
            (number,) = struct.unpack_from("<H", self.data, begin)
            if number not in self.names:
                raise ValueError(f"data of a topic that is none at byte {begin}")
            if self.names[number][0] in TOPICS:
                self.samples[number].append(self.data[begin + 2 : end])
        elif kind == ord("F"):
            self._define(self.data[begin:end].decode("utf-8", "ignore"), begin)
        elif kind == ord("A"):
            self._subscribe(begin, end)
        elif kind == ord("O") and end - begin == 2:
            self.dropped += struct.unpack_from("<H", self.data, begin)

    def _define(self, text: str, at: int) -> None:
        name, _, rest = text.partition(":")
        made = []
        for entry in filter(None, rest.split(";")):
            typed, _, field_name = entry.partition(" ")
            kind, _, count = typed.partition("[")
            number = count.removesuffix("]")
            if count and not (number.isdecimal() and number.isascii() and len(number) < 6):
                raise ValueError(f"a type has a count that is none, at byte {at}")
            made.append((field_name, kind, int(number) if count else None))
        self.formats.setdefault(name, made)

    def _subscribe(self, begin: int, end: int) -> None:
        if end - begin < 4:
            raise ValueError(f"a subscription names no topic, at byte {begin}")
        instance, number = struct.unpack_from("<BH", self.data, begin)
        name = self.data[begin + 3 : end].decode("utf-8", "ignore")
        if name not in self.formats or number in self.names:
            raise ValueError(f"a subscription to what is no topic, at byte {begin}")
        self.columns[number] = list(self._numbers(name, "", 0))
        self.names[number], self.samples[number] = (name, instance), []

    def _numbers(self, name: str, above: str, depth: int) -> Iterator[tuple[str, str]]:
        """Yield name and type of a type's numbers; raise ValueError above `MOST_FIELDS` in all."""
        if depth > 16:  # types inside one another
            raise ValueError("its types are inside one another")
        for field_name, kind, count in self.formats[name]:
            for k in range(1 if count is None else max(count, 1)):
                # a type without fields is walked all the same
                self.fields += 1
                if self.fields > MOST_FIELDS:
                    raise ValueError(f"its topics have more than {MOST_FIELDS} numbers")
                path = above + field_name + ("" if count is None else f"[{k}]")
                if kind in self.formats:
                    yield from self._numbers(kind, f"{path}.", depth + 1)
                else:
                    yield path, kind


def _decoded(path: Path, seen: _Walk, damaged: Damaged) -> Iterator[Topic]:
    """Yield the topics that heft knows; instances behind the first have `[1]`, … in their names.

    Raises:
        InvalidRecording: If a type's fields have no names of their own, or no type.
    """
    for number, (name, instance) in seen.names.items():
        if name not in TOPICS:
            continue
        columns, samples = seen.columns[number], seen.samples[number]
        try:
            most = np.dtype([(n, TYPES[kind]) for n, kind in columns]).itemsize
            while columns and columns[-1][0].startswith("_padding"):  # which is not written
                columns.pop()
            kind_of = np.dtype([(n, TYPES[kind]) for n, kind in columns])
        except (KeyError, ValueError) as problem:
            raise unreadable(NAME, path, problem) from problem
        size = kind_of.itemsize
        sound = [s[:size] for s in samples if size <= len(s) <= most]
        if len(sound) < len(samples):
            what = f"{len(sound)} of {len(samples)} samples of '{name}' can be decoded"
            damaged(damage(path, what))
        rows = np.frombuffer(b"".join(sound), kind_of) if size else np.empty(0, kind_of)
        fields = {n: rows[n] for n, _ in columns}
        if len(rows) and "timestamp" in fields:
            topic = name + (f"[{instance}]" if instance else "")
            yield Topic(topic, _time(name, fields), fields)


def _time(name: str, fields: Mapping[str, NDArray[Any]]) -> NDArray[np.int64]:
    """Return when samples were taken; of commands, when they were given [µs]."""
    sampled = fields.get("timestamp_sample")
    if name not in COMMANDS and sampled is not None and len(sampled) and np.all(sampled > 0):
        return np.asarray(sampled, dtype=np.int64)
    return np.asarray(fields["timestamp"], dtype=np.int64)


@dataclass(frozen=True)
class Topic:
    """Samples of one topic."""

    name: str  # of the topic
    time: NDArray[np.int64]  # of the samples since the vehicle's start, shape (N,) [µs]
    # numbers by the field's name, such as `position[0]`, shape (N,) each
    fields: Mapping[str, NDArray[np.generic]]

    def vector(self, field: str, count: int = 3) -> Array:
        """Return a field of several numbers, shape (N, count).

        Raises:
            InvalidRecording: If the topic has no such field.
        """
        return np.stack([self.number(f"{field}[{k}]") for k in range(count)], 1)

    def number(self, field: str) -> Array:
        """Return a field of one number, shape (N,); errors as of `vector`."""
        if field not in self.fields:
            raise InvalidRecording(
                f"the topic '{self.name}' lacks '{field}'",
                got=", ".join(list(self.fields)[:8]),
                expected="topics as PX4 1.14 and later have them",
            )
        return np.asarray(self.fields[field], dtype=np.float64)


Signals = dict[str, Array]  # by kind and component: `pos.x`, `u.motor1`


def _odometry(topic: Topic) -> Signals:
    topic = topic if "pose_frame" in topic.fields else _since_1_14(topic)
    world = topic.number("pose_frame")
    q = topic.vector("q", 4)
    turned = np.where((world == NED)[:, None], turned_to_ned(q), turned_to_frd(q))
    p = topic.vector("position")
    place = np.where((world == NED)[:, None], north_east_down(p), forward_right_down(p))
    unknown = (world != NED) & (world != FRD)
    turned[unknown], place[unknown] = np.nan, np.nan
    moved = _in_body(topic.vector("velocity"), q, topic.number("velocity_frame"), world)
    rate = forward_right_down(topic.vector("angular_velocity"))
    return {
        **_named("pos", AXES, place),
        **_named("quat", TURN, turned),
        **_named("vel", AXES, moved),
        **_named("omega", AXES, rate),
    }


def _since_1_14(topic: Topic) -> Topic:
    """Return odometry as PX4 1.14 and later have it."""
    vectors = {
        "position": ("x", "y", "z"),
        "velocity": ("vx", "vy", "vz"),
        "angular_velocity": ("rollspeed", "pitchspeed", "yawspeed"),
    }
    fields = {f"{v}[{k}]": topic.number(n) for v, ns in vectors.items() for k, n in enumerate(ns)}
    for name, before in (("pose_frame", "local_frame"), ("velocity_frame", "velocity_frame")):
        # Counted from 0, with 2 for none; before 1.11 all are NED.
        frame = np.asarray(topic.fields.get(before, np.zeros(len(topic.time))))
        fields[name] = np.where(frame == BODY, BODY, np.where(frame < FRD, frame + 1.0, 0.0))
    return Topic(topic.name, topic.time, {**topic.fields, **fields})


def _local_position(topic: Topic) -> Signals:
    place = north_east_down(np.stack([topic.number(a) for a in AXES], 1))
    place[topic.number("xy_valid") == 0.0, :2] = np.nan
    place[topic.number("z_valid") == 0.0, 2] = np.nan
    return _named("pos", AXES, place)


def _attitude(topic: Topic) -> Signals:
    return _named("quat", TURN, turned_to_ned(topic.vector("q", 4)))


def _angular_velocity(topic: Topic) -> Signals:
    return _named("omega", AXES, forward_right_down(topic.vector("xyz")))


def _inertial(topic: Topic) -> Signals:
    rate = forward_right_down(topic.vector("gyro_rad"))
    force = forward_right_down(topic.vector("accelerometer_m_s2"))
    return {**_named("acc", AXES, force), **_named("omega", AXES, rate)}


def _acceleration(topic: Topic) -> Signals:
    return _named("acc", AXES, forward_right_down(topic.vector("xyz")))


def _motors(topic: Topic) -> Signals:
    # NaN stops a motor; one that never had a number is none.
    controls = topic.vector("control", MOTORS)
    there = np.isfinite(controls).any(axis=0)
    return {f"u.motor{k + 1}": np.nan_to_num(controls[:, k]) for k in np.flatnonzero(there)}


def _outputs(topic: Topic) -> Signals:
    # In their own units: pulse widths [µs], or a driver's counts. One that is always 0 is none.
    instance = topic.name.partition("[")[1:]
    outputs = {k: topic.number(f"output[{k}]") for k in range(16)}
    return {f"u.output{k + 1}" + "".join(instance): x for k, x in outputs.items() if x.any()}


def _escs(topic: Topic) -> Signals:
    speeds = {}
    for k in range(sum(f"esc[{k}].esc_rpm" in topic.fields for k in range(MOTORS))):
        speed = 2.0 * np.pi / 60.0 * topic.number(f"esc[{k}].esc_rpm")
        if not speed.any():
            continue
        function = topic.fields.get(f"esc[{k}].actuator_function")
        number = k + 1 if function is None else int(function[0]) - 100  # 101 is motor 1
        number = number if 1 <= number <= MOTORS else k + 1
        speeds[f"u.motor{number}.speed"] = speed
    return speeds


# Read if the map names them.
ASKED: dict[str, Callable[[Topic], Signals]] = {
    "vehicle_mocap_odometry": _odometry,
    "vehicle_visual_odometry": _odometry,
    "vehicle_angular_velocity_groundtruth": _angular_velocity,
    "vehicle_local_position_groundtruth": _local_position,
    "vehicle_attitude_groundtruth": _attitude,
    "actuator_outputs": _outputs,
}
# In the order in which one is preferred that says the same as another.
TOPICS: dict[str, Callable[[Topic], Signals]] = {
    "vehicle_angular_velocity": _angular_velocity,
    "sensor_combined": _inertial,
    "vehicle_acceleration": _acceleration,
    "vehicle_odometry": _odometry,
    "vehicle_local_position": _local_position,
    "vehicle_attitude": _attitude,
    "actuator_motors": _motors,
    "esc_status": _escs,
    **ASKED,
}
COMMANDS = ("actuator_motors", "actuator_outputs")


def _named(kind: str, letters: str, values: Array) -> Signals:
    return {f"{kind}.{a}": values[:, k] for k, a in enumerate(letters)}


def north_east_down(v: Array) -> Array:
    """Return ENU vectors in NED axes, or NED vectors in ENU axes, shape (N, 3)."""
    return np.stack([v[:, 1], v[:, 0], -v[:, 2]], 1)


def forward_right_down(v: Array) -> Array:
    """Return FLU vectors in FRD axes, or FRD vectors in FLU axes, shape (N, 3)."""
    return np.asarray(v * np.array([1.0, -1.0, -1.0]))


def turned_to_ned(q: Array) -> Array:
    """Return attitudes FRD to NED from attitudes FLU to ENU, or the reverse, shape (N, 4)."""
    w, x, y, z = q.T
    return np.asarray(np.sqrt(0.5) * np.stack([w + z, x + y, x - y, w - z], 1))


def turned_to_frd(q: Array) -> Array:
    """Return attitudes FRD to FRD world from attitudes FLU to FLU world, or the reverse, (N, 4)."""
    return np.asarray(q * np.array([1.0, 1.0, -1.0, -1.0]))


def _in_body(v: Array, q: Array, frame: Array, world: Array) -> Array:
    """Return velocities in FLU body axes; NaN where their frame is neither body nor pose frame."""
    axis, w = q[:, 1:], q[:, :1]
    # R(q)ᵀ v of a unit quaternion.
    turned = v - 2.0 * w * np.cross(axis, v) + 2.0 * np.cross(axis, np.cross(axis, v))
    own = np.where((frame == BODY)[:, None], v, turned)
    own[(frame != BODY) & (frame != world)] = np.nan
    return forward_right_down(own)


def topics_table(
    path: str,
    decoded: Sequence[Topic],
    topics: Topics,
    notes: Sequence[str],
    logged: Collection[str],
) -> Table:
    """Return topics as one table, at the times of the pose.

    What several topics say is taken from the first of them, in the order of `TOPICS` or of the
    map. Others are joined as `join` says; a motor's command is its mean from a time until the next.

    Args:
        logged: Names of all topics of the log, for the error that none of them is read.

    Raises:
        InvalidRecording: If no topic says anything, or one is not as PX4 has it.
        MissingSignal: If a chosen topic is not there.
    """
    there = {t.name: t for t in decoded}
    refuse_missing(topics, there, path)
    order = topics.names or [n for n in TOPICS if n not in ASKED]
    parts: dict[str, Signals] = {}
    remarks: list[str] = []
    owner: dict[str, str] = {}
    for name in order:
        if name not in there or not len(there[name].time):
            continue
        signals = _signals(path, there[name], topics.frames.get(name, FRAME))
        twice = {n.partition(".")[0]: owner[n] for n in signals if n in owner}
        remarks += [f"'{kind}' is that of {first}, not of {name}" for kind, first in twice.items()]
        parts[name] = {n: x for n, x in signals.items() if n not in owner}
        owner |= dict.fromkeys(parts[name], name)
    parts = {n: signals for n, signals in parts.items() if signals}
    for name in parts:
        counters = [
            np.diff(there[name].fields[n])
            for n in ("reset_counter", "xy_reset_counter", "z_reset_counter", "quat_reset_counter")
            if n in there[name].fields
        ]
        if jumps := int(np.any(counters, axis=0).sum()) if counters else 0:
            remarks.append(f"{name} jumps {jumps} times: the filter on board was set anew")
    if not parts:
        raise InvalidRecording(
            "the log holds no topics that heft reads",
            argument=path,
            got=", ".join(sorted(logged)[:8]) + " …" * (len(logged) > 8) or "no topics",
            expected=", ".join(n for n in TOPICS if n not in ASKED),
            cure=f"name what is to be read in a map: [topic] names = {sorted(there)}"
            if there
            else None,
        )
    refuse_many(sum(map(len, parts.values())), path)
    return _joined(path, {n: there[n].time for n in parts}, parts, (*notes, *remarks))


def _signals(path: str, topic: Topic, frame: str) -> Signals:
    """Return a topic's signals by canonical name, without those that are never finite."""
    try:
        made = TOPICS[topic.name.partition("[")[0]](topic)
    except InvalidRecording as problem:
        raise InvalidRecording(
            problem.message, argument=path, got=problem.got, expected=problem.expected
        ) from problem
    return {
        name if name.startswith("u.") else name.replace(".", f".{frame}.", 1): values
        for name, values in made.items()
        if np.isfinite(values).any()
    }


def _joined(
    path: str,
    stamps: Mapping[str, NDArray[np.int64]],
    parts: Mapping[str, Signals],
    notes: Sequence[str],
) -> Table:
    def says(name: str) -> tuple[bool, int]:
        return any(n.startswith("pos.") for n in parts[name]), len(stamps[name])

    clock = max(parts, key=says)
    first = int(stamps[clock][0])
    time = {n: (x - first) / 1e6 for n, x in stamps.items()}
    commands = [n for n in parts if n.partition("[")[0] in COMMANDS and n != clock]
    own = dict(parts[clock])
    for name in commands:
        own |= means_of_steps(time[name], parts[name], time[clock])
    others = [n for n in parts if n != clock and n not in commands]
    tables = [(clock, own), *((n, parts[n]) for n in others)]
    return join([Table.of_columns({"t": time[n], **x}, path) for n, x in tables], path, notes)


def means_of_steps(time: Array, signals: Signals, at: Array) -> Signals:
    """Return means of zero-order-held signals from each time to the next; NaN where unknown.

    Args:
        time: From which on each value is held until the next, shape (N,) [s].
        signals: Values, shape (N,) each.
        at: Shape (M,) [s]; the last interval is as long as the one before.
    """
    ahead = np.flatnonzero(np.diff(np.maximum.accumulate(time), prepend=-np.inf) > 0.0)
    time = time[ahead]
    usual = float(np.median(np.diff(time))) if len(time) > 1 else 0.0
    begin = at
    end = np.append(at[1:], 2.0 * at[-1] - at[-2]) if len(at) > 1 else at + usual
    inside = (begin >= time[0]) & (end <= time[-1] + GAP * usual) & (end > begin)
    length = np.where(inside, end - begin, 1.0)
    beyond = time[-1] + GAP * usual
    out = {}
    for name, values in signals.items():
        steps = values[ahead]
        integral = np.concatenate([[0.0], np.cumsum(steps * np.diff(time, append=beyond))])
        upto = np.interp(np.stack([begin, end]), np.append(time, beyond), integral)
        out[name] = np.where(inside, (upto[1] - upto[0]) / length, np.nan)
    return out
