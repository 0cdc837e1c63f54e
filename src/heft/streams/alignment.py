"""Alignment of devices by their stamps: each has times of its own, what comes out has common ones.

A device sends signals that belong together: a wrench sensor, an inertial sensor, a robot's joints,
another robot. The first device gives the times; the others are interpolated at them. What cannot
be used, because it is no number, too old, frozen, or without a partner, is counted and changes
nothing. Nothing here knows what the signals are for, how messages travel, or what time it is: a
step takes a state and messages, and returns the next state and what came of it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.information import continuous_quaternions

from .messages import Piece
from .repetition import Newest, Repetition

Stamps = NDArray[np.int64]

SECOND = 1_000_000_000  # [ns]
COUNTS = (
    "foreign",  # samples of signals that nobody asked for
    "implausible",  # samples with numbers that are none, or beyond all bounds
    "late",  # samples older than one before, by more than could be sorted in
    "repeated",  # samples with the stamp of the one before
    "frozen",  # samples of a sensor that repeats itself
    "alone",  # samples of the first device without those of the others at their time
    "clock set back",
    "clock set forward",
)


@dataclass(frozen=True)
class Device:
    """Source of signals that share their stamps."""

    name: str  # as it is reported
    names: tuple[str, ...]  # its signals
    noisy: bool = True  # whether two of its samples are never the same while it works
    delay: float = 0.0  # by how much its stamps are late [s]
    # half the step of the central differences by which its signals' derivatives are taken [s]; 0
    # where they are not needed
    half_step: float = 0.0

    @cached_property
    def largest(self) -> Array:
        """Bounds of the signals' magnitudes, shape (signals,), each in its signal's unit."""
        smaller = {"acc": 1e4, "omega": 1e3, "quat": 2.0}  # all others are errors above 1e5
        return np.array([smaller.get(n.partition(".")[0], 1e5) for n in self.names])

    @cached_property
    def kinds(self) -> tuple[tuple[int, ...], ...]:
        """Columns of the signals of each kind, such as forces and torques of a wrench sensor."""
        kinds = [n.partition(".")[0] for n in self.names]
        return tuple(
            tuple(k for k, own in enumerate(kinds) if own == kind) for kind in dict.fromkeys(kinds)
        )

    @cached_property
    def quaternion(self) -> list[int]:
        """Columns of a unit quaternion's components among the signals, or nothing."""
        return [k for k, n in enumerate(self.names) if n.startswith("quat.")]

    def plausible(self, values: Array) -> NDArray[np.bool_]:
        """Return which samples, shape (N, signals), a working device can have sent, shape (N,)."""
        good = (np.abs(values) <= self.largest).all(axis=1)  # no NaN either
        if self.quaternion:
            good &= (values[:, self.quaternion] ** 2).sum(axis=1) > 0.5**2
        return np.asarray(good)


@dataclass(frozen=True, eq=False)
class Buffer:
    """Newest samples of a device."""

    stamps: Stamps  # strictly increasing, shape (N,) [ns]
    values: Array  # shape (N, signals)
    taken: int = 0  # how many samples were taken since the start
    # when the last one came, on the listener's clock [s]; NaN before the first step
    arrival: float = math.nan
    # by how much its stamps were ahead of the listener's clock at most [s]
    ahead: float = -math.inf
    late_in_a_row: int = 0  # how many that came since the last taken are older than it
    newest: Newest | None = None  # newest sample that came, and since when it repeats itself
    silent: bool = False  # whether nothing came for so long that it was reported

    @property
    def confirmed(self) -> Stamps:
        """Stamps of the samples that can no longer turn out frozen."""
        if self.newest is None:
            return self.stamps
        return self.stamps[: int(np.searchsorted(self.stamps, self.newest.waits))]

    @property
    def rate(self) -> float:
        """Sampling rate [Hz], 0 if that is not known."""
        if len(self.stamps) < 2:
            return 0.0
        return float(SECOND / np.median(np.diff(self.stamps)))


@dataclass(frozen=True, eq=False)
class AlignmentState:
    """State of an alignment between steps."""

    buffers: Mapping[str, Buffer]  # samples that may still be needed, by device
    # stamp at which aligned time is 0 [ns], or None before the first aligned sample
    epoch: int | None = None
    # stamp up to which the first device's samples are aligned [ns], or None
    aligned_until: int | None = None
    # stamp of its last sample that had its partners, or since when one is waited for [ns]
    last_match: int | None = None
    # whether it was reported since that the devices' stamps never meet
    clocks_reported: bool = False

    def stamp(self, time: float) -> float:
        """Return aligned time [s] on the stamps' clock [s]."""
        return time + (self.epoch or 0) / SECOND


@dataclass(frozen=True, eq=False)
class AlignedSamples:
    """Samples of all devices at common times."""

    time: Array  # since the epoch, shape (N,) [s]; strictly increasing unless a clock is set back
    # by device, each of shape (N, signals). The sign of a quaternion never jumps within a step;
    # from one to the next it may
    values: tuple[Array, ...]
    # derivatives, by device, each of shape (N, signals) [signal's unit / s]; shape (N, 0) where
    # they are not needed
    slopes: tuple[Array, ...]


@dataclass(frozen=True)
class Notice:
    """Event of a device that is reported, such as a stall."""

    name: str  # `stalled`, `resumed`, `clocks apart`, `clock set back` or `clock set forward`
    message: str  # in words


@dataclass(frozen=True, eq=False)
class Aligned:
    """Result of a step: aligned samples, counts and notices."""

    samples: AlignedSamples | None  # newly aligned ones, or None
    counts: Mapping[str, int]  # how often what happened; see `COUNTS`
    foreign: tuple[str, ...]  # names of signals that nobody asked for
    notices: tuple[Notice, ...]  # what happened to devices


@dataclass(frozen=True)
class Alignment:
    """Alignment of devices: its settings and its step."""

    devices: tuple[Device, ...]  # whose signals are taken; the first gives the times
    # longest time between two samples of a device across which is interpolated [s]
    bridge: float = 0.05
    hold: float = 1.0  # time for which the first device's samples wait for their partners [s]
    # time for which a device may repeat all values of a kind; what repeats itself for longer is
    # frozen, from its first sample on, or stands still [s]
    frozen: float = 0.05
    # time by which samples that come after a newer one may be older than it [s]: they are sorted
    # in. Samples wait for them
    reorder: float = 0.005
    stall: float = 1.0  # time without a sample after which a device counts as silent [s]

    def start(self) -> AlignmentState:
        """Return the initial state, without samples."""
        empty = np.zeros(0, dtype=np.int64)
        return AlignmentState(
            {d.name: Buffer(empty, np.zeros((0, len(d.names)))) for d in self.devices}
        )

    def step(
        self, state: AlignmentState, now: float, pieces: Iterable[Piece]
    ) -> tuple[AlignmentState, Aligned]:
        """Return the state after further messages, and the newly aligned samples and notices.

        Args:
            now: Time on the listener's clock, which need not be that of the stamps [s].
            pieces: New messages, in the order of arrival; may be empty.
        """
        counts: Counter[str] = Counter()
        foreign: dict[str, None] = {}
        jumps: list[Notice] = []
        for piece in pieces:
            state, more, jumped = self._taken(state, piece, now)
            counts.update(more)
            jumps += jumped
            if "foreign" in more:
                foreign.update(dict.fromkeys(piece.names))
        state, notices = self._heard(state, now)
        state, samples, alone = self._aligned(state)
        counts["alone"] += alone
        state, more_notices = self._compared(state, now)
        names = tuple(foreign)[:16]
        return state, Aligned(samples, counts, names, (*jumps, *notices, *more_notices))

    def _taken(
        self, state: AlignmentState, piece: Piece, now: float
    ) -> tuple[AlignmentState, Counter[str], list[Notice]]:
        places = {n: k for k, n in enumerate(piece.names)}
        ours = [d for d in self.devices if all(n in places for n in d.names)]
        if not ours:
            return state, Counter(foreign=len(piece.stamps)), []
        counts: Counter[str] = Counter()
        jumps: list[Notice] = []
        for device in ours:
            values = piece.values[:, [places[n] for n in device.names]]
            plausible = device.plausible(values)
            counts["implausible"] += int((~plausible).sum())
            stamps = piece.stamps[plausible] - round(device.delay * SECOND)
            if not len(stamps):
                continue
            old = state.buffers[device.name]
            buffer, more, jumped = self._buffered(
                device, old, stamps, values[plausible], now, state.aligned_until
            )
            counts.update(more)
            jumps += jumped
            state = replace(state, buffers={**state.buffers, device.name: buffer})
            if device is self.devices[0] and more["clock set back"]:
                state = replace(state, aligned_until=None)
        return state, counts, jumps

    def _buffered(
        self,
        device: Device,
        buffer: Buffer,
        stamps: Stamps,
        values: Array,
        now: float,
        done: int | None,
    ) -> tuple[Buffer, Counter[str], list[Notice]]:
        last = int(buffer.stamps[-1]) if len(buffer.stamps) else int(stamps[0]) - 1
        newest = np.maximum.accumulate(np.concatenate([[last], stamps]))[:-1]
        later = stamps > newest
        sorted_in = ~later & (stamps >= newest - round(self.reorder * SECOND))
        if done is not None:  # what was aligned already is not taken back
            sorted_in &= stamps > done
        counts = Counter(late=int((~later & ~sorted_in & (stamps < newest)).sum()))
        counts["repeated"] = int((~later & ~sorted_in).sum()) - counts["late"]
        used = later | sorted_in
        late_in_a_row = buffer.late_in_a_row + len(stamps)
        if used.any():
            late_in_a_row = len(stamps) - 1 - int(np.flatnonzero(used)[-1])
        if late_in_a_row >= 100 and counts["late"]:
            counts["clock set back"] = 1
            by = (int(newest[-1]) - int(stamps[-1])) / SECOND
            message = f"the stamps of '{device.name}' are {by:.3f} s behind those before: followed"
            empty = Buffer(buffer.stamps[:0], buffer.values[:0], buffer.taken, now)
            return empty, counts, [Notice("clock set back", message)]
        jumps = self._set_forward(device, buffer, newest[later], stamps[later], now)
        counts["clock set forward"] = len(jumps)
        made, more = self._merged(device, buffer, stamps[used], values[used])
        counts.update(more)
        ahead = max(buffer.ahead, int(stamps.max()) / SECOND - now)
        made = replace(made, late_in_a_row=late_in_a_row, ahead=ahead)
        if made.taken > buffer.taken:
            made = replace(made, arrival=now)
        return made, counts, jumps

    def _set_forward(
        self, device: Device, buffer: Buffer, before: Stamps, stamps: Stamps, now: float
    ) -> list[Notice]:
        """Report stamps that advance by more than the time elapsed: a set clock, no outage."""
        if not len(stamps) or not len(buffer.stamps) or not buffer.taken:
            return []
        leap = float((stamps - before).max()) / SECOND - (now - buffer.arrival)
        # Messages that were held up, and lost in part, catch up: they come no earlier than before.
        if min(leap, int(stamps[-1]) / SECOND - now - buffer.ahead) <= 0.5:  # [s]
            return []
        message = f"the stamps of '{device.name}' go on by {leap:.3f} s more than time has passed"
        return [Notice("clock set forward", message)]

    def _merged(
        self, device: Device, buffer: Buffer, stamps: Stamps, values: Array
    ) -> tuple[Buffer, Counter[str]]:
        counts: Counter[str] = Counter()
        if not len(stamps):
            return buffer, counts
        order = np.argsort(stamps, kind="stable")
        stamps, values = stamps[order], values[order]
        before = len(buffer.stamps)
        buffer, good = self._unfrozen(device, buffer, stamps, values)
        counts["frozen"] = int((~good).sum()) + before - len(buffer.stamps)
        stamps, values = stamps[good], values[good]
        every = np.concatenate([buffer.stamps, stamps])
        both, first = np.unique(every, return_index=True)
        counts["repeated"] = len(every) - len(both)
        # Where the others are silent, a device's samples wait no longer than they could be used.
        oldest = int(both[-1]) - 2 * round(self.hold * SECOND) if len(both) else 0
        keep = slice(int(np.searchsorted(both, oldest)), None)
        made = replace(
            buffer,
            stamps=both[keep],
            values=np.concatenate([buffer.values, values])[first][keep],
            taken=buffer.taken + len(stamps) - counts["repeated"],
        )
        return made, counts

    def _unfrozen(
        self, device: Device, buffer: Buffer, stamps: Stamps, values: Array
    ) -> tuple[Buffer, NDArray[np.bool_]]:
        """Return the buffer without samples now found frozen, and which new ones are not frozen."""
        if device.quaternion:  # its sign says nothing, and would be a jump
            last = [] if buffer.newest is None else [buffer.newest.values[None]]
            values = _continuous(np.concatenate([*last, values]), device.quaternion)[len(last) :]
        repetition = Repetition(self.frozen * SECOND, not device.noisy)
        bad, since, newest = repetition.step(stamps, values, device.kinds, buffer.newest)
        # Samples that repeat themselves have waited, see `Buffer.confirmed`.
        keep = int(np.searchsorted(buffer.stamps, since))
        if len(buffer.stamps) and stamps[-1] < buffer.stamps[-1]:
            newest = buffer.newest or newest  # all were late: another came last
        kept = replace(
            buffer,
            stamps=buffer.stamps[:keep],
            values=buffer.values[:keep],
            taken=buffer.taken - (len(buffer.stamps) - keep),
            newest=newest,
        )
        return kept, ~bad

    def _heard(self, state: AlignmentState, now: float) -> tuple[AlignmentState, list[Notice]]:
        notices, buffers = [], dict(state.buffers)
        for name, buffer in state.buffers.items():
            if math.isnan(buffer.arrival):  # never heard: waited for since the first step
                buffers[name] = replace(buffer, arrival=now)
                continue
            silent = bool(now - buffer.arrival > self.stall)
            if silent and not buffer.silent:
                notices.append(Notice("stalled", f"nothing new comes from '{name}'"))
            elif buffer.silent and not silent:
                notices.append(Notice("resumed", f"'{name}' is back"))
                state = replace(state, last_match=None)  # partners are waited for anew
            buffers[name] = replace(buffer, silent=silent)
        return replace(state, buffers=buffers), notices

    def _settled(self, device: Device, state: AlignmentState) -> Stamps:
        """Return stamps of samples that are not frozen and before which none can be sorted in."""
        buffer = state.buffers[device.name]
        if not len(buffer.stamps):
            return buffer.stamps
        newest = int(buffer.stamps[-1]) - round(self.reorder * SECOND)
        stamps = buffer.confirmed
        return stamps[: int(np.searchsorted(stamps, newest, "right"))]

    def _ready(self, state: AlignmentState) -> Stamps:
        """Return the first device's stamps to align now: partners came, or their time is over."""
        stamps = self._settled(self.devices[0], state)
        done = state.aligned_until
        begin = 0 if done is None else int(np.searchsorted(stamps, done, "right"))
        if begin >= len(stamps):
            return stamps[:0]
        newest, hold = int(stamps[-1]), round(self.hold * SECOND)
        ends = [newest]
        for device in self.devices[1:]:
            other = self._settled(device, state)
            ahead = round(device.half_step * SECOND)
            ends.append(int(other[-1]) - ahead if len(other) else newest - hold)
        stop = int(np.searchsorted(stamps, max(min(ends), newest - hold), "right"))
        return stamps[begin:stop]

    def _aligned(self, state: AlignmentState) -> tuple[AlignmentState, AlignedSamples | None, int]:
        """Return the next state, the aligned samples, and how many samples lack partners."""
        at = self._ready(state)
        if not len(at):
            return state, None, 0
        clock, *others = self.devices
        first = state.buffers[clock.name]
        begin = int(np.searchsorted(first.stamps, at[0]))
        good = np.ones(len(at), bool)
        values = [first.values[begin : begin + len(at)]]
        slopes = [np.zeros((len(at), 0))]
        for device in others:
            buffer = state.buffers[device.name]
            good &= bridged(buffer.stamps, at, round(device.half_step * SECOND), self.bridge)
            continuous = _continuous(buffer.values, device.quaternion)
            values.append(interpolated(buffer.stamps, continuous, at))
            slopes.append(_slopes(buffer.stamps, continuous, at, device.half_step))
        buffers = {}
        for device in self.devices:  # what may still be needed is kept
            buffer = state.buffers[device.name]
            oldest = int(at[-1]) - round((self.bridge + device.half_step) * SECOND)
            keep = slice(max(int(np.searchsorted(buffer.stamps, oldest)) - 1, 0), None)
            stamps, old = buffer.stamps[keep], buffer.values[keep]
            buffers[device.name] = replace(buffer, stamps=stamps, values=old)
        state = replace(state, buffers=buffers, aligned_until=int(at[-1]))
        alone = int((~good).sum())
        if state.last_match is None or good.any():
            match = int(at[good][-1]) if good.any() else int(at[-1])
            state = replace(state, last_match=match, clocks_reported=False)
        if not good.any():
            return state, None, alone
        epoch = int(at[0]) if state.epoch is None else state.epoch
        samples = AlignedSamples(
            (at[good] - epoch) / SECOND,
            tuple(v[good] for v in values),
            tuple(s[good] for s in slopes),
        )
        return replace(state, epoch=epoch), samples, alone

    def _compared(self, state: AlignmentState, now: float) -> tuple[AlignmentState, list[Notice]]:
        """Report clocks that are apart: all devices are heard, and their stamps never meet."""
        buffers, done, match = state.buffers, state.aligned_until, state.last_match
        if done is None or match is None or state.clocks_reported:
            return state, []
        if done - match < round(self.hold * SECOND):
            return state, []
        heard = (len(b.stamps) and now - b.arrival <= 0.5 * self.stall for b in buffers.values())
        if not all(heard):  # one that is frozen or falls silent says nothing of its clock
            return state, []
        newest = {name: int(b.stamps[-1]) for name, b in buffers.items()}
        ahead, behind = max(newest, key=lambda n: newest[n]), min(newest, key=lambda n: newest[n])
        by = (newest[ahead] - newest[behind]) / SECOND
        message = f"the clocks of '{behind}' and '{ahead}' are {by:.3f} s apart"
        return replace(state, clocks_reported=True), [Notice("clocks apart", message)]


def bridged(stamps: Stamps, at: Stamps, ahead: int, bridge: float) -> NDArray[np.bool_]:
    """Return which times lie between samples that are close enough to interpolate, shape (M,).

    Args:
        stamps: Stamps of the samples, shape (N,) [ns].
        at: The times, shape (M,) [ns].
        ahead: Time on either side of each time that samples must cover [ns].
        bridge: Longest interval between the samples around a time, less 2 `ahead` [s].
    """
    if not len(stamps):
        return np.zeros(len(at), bool)
    before = np.searchsorted(stamps, at - ahead, "right") - 1
    after = np.searchsorted(stamps, at + ahead)
    inside = (before >= 0) & (after < len(stamps))
    widest = np.zeros(len(at), dtype=np.int64)
    first, last = np.maximum(before, 0), np.minimum(after, len(stamps) - 1)
    widest[inside] = (stamps[last] - stamps[first])[inside]
    return np.asarray(inside & (widest <= bridge * SECOND + 2 * ahead))


def interpolated(stamps: Stamps, values: Array, at: Stamps) -> Array:
    """Return values interpolated linearly at M stamps; zeros where there are no samples."""
    if not len(stamps):
        return np.zeros((len(at), values.shape[1]))
    seconds, wanted = (stamps - stamps[0]) / SECOND, (at - stamps[0]) / SECOND
    return np.stack([np.interp(wanted, seconds, column) for column in values.T], axis=1)


def _slopes(stamps: Stamps, values: Array, at: Stamps, half_step: float) -> Array:
    """Return central differences, shape (M, signals), or (M, 0) where the step is 0."""
    if not half_step:
        return np.zeros((len(at), 0))
    half = round(half_step * SECOND)
    after, before = (interpolated(stamps, values, at + k) for k in (half, -half))
    return (after - before) / (2.0 * half_step)


def _continuous(values: Array, quaternion: Sequence[int]) -> Array:
    """Return values with a quaternion whose sign never jumps: q and -q are one rotation."""
    if not quaternion or len(values) < 2:
        return values
    made = values.copy()
    made[:, quaternion] = continuous_quaternions(values[:, quaternion])
    return made
