"""A load weighed live: whatever comes, aligned by its stamps, followed, and told.

Signals come from devices: wrench sensors, and what tells their motion. Each device's signals come
together in a message. The first wrench sensor gives the times; the others are interpolated at
them. What cannot be used, because it is no number, too old, frozen, without a partner, is counted
and changes nothing. Nothing here knows how messages travel.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import InvalidSetting
from heft.information import continuous_quaternions
from heft.models import Robot
from heft.plants import GAP_STEPS, Held
from heft.streams import Piece

from .estimate import numbers
from .online import Event, Follow, Following
from .sensors import Motion, Sensors, motion_of, on_load, wrench_names

Stamps = NDArray[np.int64]

# Largest values that are no errors, by kind of signal, in its unit.
PLAUSIBLE = {"force": 1e5, "torque": 1e5, "acc": 1e4, "omega": 1e3, "pos": 1e5, "quat": 2.0}
PLAUSIBLE_JOINT = 1e5  # [rad or m]
SHORTEST_QUATERNION = 0.5
FROZEN = 0.05  # [s] for which a working sensor does not repeat all its values
BRIDGE = 0.05  # [s] between samples across which may be interpolated
HALF_STEP = 0.01  # [s] to either side, by which slopes are taken
HOLD = 1_000_000_000  # [ns] for which samples wait for their partners
STALL = 1.0  # [s] without a sample after which a device is told to be silent
ANEW = 100  # samples in a row that are older than one before them: the clock was set back
CALM = 1.0  # [s] by which rate and noise are known
SLOWEST = 50.0  # [Hz]
LIKE = 0.2  # share by which the rate may change
PACE = 100  # samples by which a change of the rate is seen
MOST_FOREIGN = 16  # names
COUNTS = (
    "garbage",  # messages that cannot be decoded
    "foreign",  # samples of signals that nobody asked for
    "implausible",  # samples with numbers that are none, or beyond all bounds
    "late",  # samples older than one before
    "repeated",  # samples with the stamp of the one before
    "frozen",  # samples of a sensor that repeats itself
    "alone",  # wrenches without motion at their time, or without the other sensors'
    "slow",  # wrenches too far apart to be of use
    "lost",  # wrenches that are missing between those that came
    "gaps",  # times without samples across which nothing was taken to continue
    "clock set back",
)
SECOND = 1_000_000_000  # [ns]


@dataclass(frozen=True)
class Device:
    """What sends signals that belong together.

    Attributes:
        name: As it is reported.
        names: Its signals.
        noisy: Whether it never says the same twice while it works.
        delay: By how much its stamps are late [s].
        ahead: To either side of a time what is needed to interpolate it [s].
    """

    name: str
    names: tuple[str, ...]
    noisy: bool = True
    delay: float = 0.0
    ahead: float = 0.0

    @cached_property
    def largest(self) -> Array:
        """Bounds of the signals, shape (signals,)."""
        kinds = [n.partition(".")[0] for n in self.names]
        return np.array([PLAUSIBLE.get(k, PLAUSIBLE_JOINT) for k in kinds])

    @cached_property
    def turn(self) -> list[int]:
        """Places of a quaternion's components among the signals, or nothing."""
        return [k for k, n in enumerate(self.names) if n.startswith("quat.")]


@dataclass(frozen=True, eq=False)
class Buffer:
    """Newest samples of a device.

    Attributes:
        stamps: Strictly increasing, shape (N,) [ns].
        values: Shape (N, signals).
        taken: How many samples were taken since the start.
        heard: When the last one came, on the listener's clock [s].
        behind: How many since the last taken are older than it.
        same: Since which stamp the values were the same [ns].
        silent: Whether it was told that nothing comes.
    """

    stamps: Stamps
    values: Array
    taken: int = 0
    heard: float = math.nan
    behind: int = 0
    same: int = 0
    silent: bool = False

    @property
    def rate(self) -> float:
        """Samples a second [Hz], 0 if that is not known."""
        if len(self.stamps) < 2:
            return 0.0
        return float(SECOND / np.median(np.diff(self.stamps)))


@dataclass(frozen=True, eq=False)
class Known:
    """All that a node knows.

    Attributes:
        buffers: By device.
        counts: How often what happened; see `COUNTS`.
        foreign: Signals of messages that nobody asked for.
        epoch: Stamp at which time is 0 [ns], or None before the first sample.
        done: Stamp up to which wrenches are aligned [ns], or None.
        matched: Stamp of the last wrench that had its partners, or of the first one [ns].
        apart: Whether it was told since that wrenches have none.
        waiting: Aligned samples that make no whole step yet.
        newest: Times of the newest aligned samples, shape (PACE + 1,) or less [s].
        noise: Of force [N] and moment [N·m], when it is known.
        paced: Whether the samples' rate is known; until then they wait.
        follow: How the load is followed, or was at the last rate.
        following: What is known of the load; None before it is followed.
    """

    buffers: Mapping[str, Buffer]
    counts: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    foreign: tuple[str, ...] = ()
    epoch: int | None = None
    done: int | None = None
    matched: int | None = None
    apart: bool = False
    waiting: Held | None = None
    newest: Array = field(default_factory=lambda: np.zeros(0))
    noise: tuple[float, float] | None = None
    paced: bool = False
    follow: Follow | None = None
    following: Following | None = None

    def counted(self, **more: int) -> Known:
        """Return the same with some counts higher; `clock_set_back` for `clock set back`."""
        if not any(more.values()):
            return self
        counts = dict(self.counts)
        for name, by in more.items():
            counts[name.replace("_", " ")] += int(by)
        return replace(self, counts=counts)

    def stamp(self, time: float) -> float:
        """Return a time on the stamps' clock [s]."""
        return time + (self.epoch or 0) / SECOND


@dataclass(frozen=True)
class Node:
    """Weighs what sensors hold, as their signals come.

    Attributes:
        sensors: What they are.
        robot: Through whose joints the motion comes, if there is no inertial sensor.
    """

    sensors: Sensors
    robot: Robot | None = None

    def __post_init__(self) -> None:
        asked = {"tilt": self.sensors.tilt, "gain_std": self.sensors.first.gain_std}
        for name, value in asked.items():
            if value:
                raise InvalidSetting(
                    "the sensor itself is looked into in a log, not live",
                    argument=name,
                    cure="heft payload LOG --sensor … once, and put the gravity or gain that it "
                    "finds into the file instead",
                )
        if len(self.sensors.wrenches) > 1 and self.sensors.noise is None:
            raise InvalidSetting(
                "several wrench sensors are weighed by their noise",
                argument=f"[sensor.{self.sensors.first.name}], noise",
                cure="noise = {force = 0.2, torque = 0.01}",
            )

    @cached_property
    def motion(self) -> Motion:
        """How motion is made."""
        return motion_of(self.sensors, self.robot)

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """What is listened to; the first gives the times."""
        wrenches = [
            Device(s.name, wrench_names(s), delay=s.delay or 0.0) for s in self.sensors.wrenches
        ]
        ahead = HALF_STEP if self.motion.slopes else 0.0
        moves = Device(self.motion.device, self.motion.names, self.motion.noisy, ahead=ahead)
        return (*wrenches, moves)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All signals that are listened to."""
        return tuple(n for d in self.devices for n in d.names)

    def start(self) -> Known:
        """Return what is known before anything came."""
        empty = {
            d.name: Buffer(np.zeros(0, dtype=np.int64), np.zeros((0, len(d.names))))
            for d in self.devices
        }
        return Known(empty, noise=self.sensors.noise)

    def step(
        self, known: Known, now: float, pieces: Iterable[Piece], garbage: int = 0
    ) -> tuple[Known, tuple[Event, ...]]:
        """Return what is known after some more messages, and what happened.

        Args:
            known: Before them.
            now: On the listener's clock, which need not be that of the stamps [s].
            pieces: What came, in its order; nothing is fine too.
            garbage: How many messages could not be decoded.
        """
        known = known.counted(garbage=garbage)
        for piece in pieces:
            known = self._take(known, piece, now)
        known, events = self._listen(known, now)
        known, held = self._aligned(known)
        known, told = self._apart(known)
        events += told
        if held is not None:
            known, told = self._paced(known, held)
            events += told
            known, told = self._followed(known)
            events += told
        return known, tuple(events)

    def _take(self, known: Known, piece: Piece, now: float) -> Known:
        places = {n: k for k, n in enumerate(piece.names)}
        ours = False
        for device in self.devices:
            if all(n in places for n in device.names):
                ours = True
                columns = [places[n] for n in device.names]
                clock = device is self.devices[0]
                known = _taken(known, device, piece.stamps, piece.values[:, columns], now, clock)
        if not ours:
            names = tuple(dict.fromkeys((*known.foreign, *piece.names)))[:MOST_FOREIGN]
            known = replace(known, foreign=names).counted(foreign=len(piece.stamps))
        return known

    def _listen(self, known: Known, now: float) -> tuple[Known, list[Event]]:
        """Tell of devices that fell silent, or are back."""
        events, buffers = [], dict(known.buffers)
        time = _time(known)
        for name, buffer in known.buffers.items():
            if math.isnan(buffer.heard):  # never heard: waited for since the first step
                buffers[name] = replace(buffer, heard=now)
                continue
            silent = bool(now - buffer.heard > STALL)
            if silent and not buffer.silent:
                events.append(Event(time, "stalled", f"nothing new comes from '{name}'"))
            elif buffer.silent and not silent:
                events.append(Event(time, "resumed", f"'{name}' is back"))
            buffers[name] = replace(buffer, silent=silent)
        return replace(known, buffers=buffers), events

    def _aligned(self, known: Known) -> tuple[Known, Held | None]:
        """Take wrenches that have all their partners out of the buffers."""
        clock, others = self.devices[0], self.devices[1:]
        stamps = known.buffers[clock.name].stamps
        begin = 0 if known.done is None else int(np.searchsorted(stamps, known.done, "right"))
        if begin == len(stamps):
            return known, None
        newest = int(stamps[-1])
        ends = [
            int(b.stamps[-1]) - round(d.ahead * SECOND) if len(b.stamps) else newest - HOLD
            for d in others
            for b in [known.buffers[d.name]]
        ]
        end = max(min(newest, *ends), newest - HOLD)
        stop = int(np.searchsorted(stamps, end, "right"))
        if stop <= begin:
            return known, None
        at = stamps[begin:stop]
        wrenches, good = [known.buffers[clock.name].values[begin:stop]], np.ones(len(at), bool)
        slopes = np.zeros((len(at), 0))
        for device in others:
            buffer = known.buffers[device.name]
            good &= _bridged(buffer.stamps, at, round(device.ahead * SECOND))
            values = _continuous(buffer.values, device.turn)
            if device.ahead:
                half = round(device.ahead * SECOND)
                after = _between(buffer.stamps, values, at + half)
                before = _between(buffer.stamps, values, at - half)
                slopes = (after - before) / (2.0 * device.ahead)
            wrenches.append(_between(buffer.stamps, values, at))
        known = self._trimmed(replace(known, done=int(at[-1]))).counted(alone=int((~good).sum()))
        matched = at[good][-1:] if good.any() else at[:1]
        if known.matched is None or good.any():
            known = replace(known, matched=int(matched[0]), apart=False)
        if not good.any():
            return known, None
        epoch = int(at[0]) if known.epoch is None else known.epoch
        known = replace(known, epoch=epoch)
        *wrench, motion = (w[good] for w in wrenches)
        time = (at[good] - epoch) / SECOND
        summed = on_load(self.sensors, np.concatenate(wrench, axis=1))
        return known, self.motion.make(time, summed, motion, slopes[good])

    def _apart(self, known: Known) -> tuple[Known, list[Event]]:
        """Tell of devices that are heard, and whose stamps never meet."""
        buffers = known.buffers.values()
        if known.done is None or known.matched is None or known.apart:
            return known, []
        if known.done - known.matched < HOLD or any(b.silent or not b.taken for b in buffers):
            return known, []
        newest = {name: int(b.stamps[-1]) for name, b in known.buffers.items()}
        ahead, behind = max(newest, key=lambda n: newest[n]), min(newest, key=lambda n: newest[n])
        by = (newest[ahead] - newest[behind]) / SECOND
        told = f"the clocks of '{behind}' and '{ahead}' are {by:.3f} s apart"
        return replace(known, apart=True), [Event(_time(known), "clocks apart", told)]

    def _trimmed(self, known: Known) -> Known:
        """Let go of samples that nothing waits for any more."""
        assert known.done is not None
        buffers = {}
        for device in self.devices:
            buffer = known.buffers[device.name]
            oldest = known.done - round((BRIDGE + device.ahead) * SECOND)
            first = int(np.searchsorted(buffer.stamps, oldest)) - 1
            keep = slice(max(first, 0), None)
            buffers[device.name] = replace(
                buffer, stamps=buffer.stamps[keep], values=buffer.values[keep]
            )
        return replace(known, buffers=buffers)

    def _paced(self, known: Known, held: Held) -> tuple[Known, list[Event]]:
        """Gather aligned samples; find rate and noise when they are not known, or changed."""
        waiting, newest = known.waiting, known.newest
        back = len(newest) > 0 and held.time[0] <= newest[-1]  # the clock was set back
        waiting = held if waiting is None or (back and not known.paced) else _then(waiting, held)
        newest = held.time if back else np.concatenate([newest, held.time])
        newest = newest[-PACE - 1 :]
        known = replace(known, waiting=waiting, newest=newest)
        if known.paced and known.follow is not None:
            if len(newest) <= PACE:
                return known, []
            rate, seen = known.follow.rate, 1.0 / float(np.median(np.diff(newest)))
            if abs(seen / rate - 1.0) <= LIKE:
                return known, []
            event = Event(
                float(held.time[-1]), "rate changed", f"{seen:.3g} Hz instead of {rate:.3g}"
            )
            return replace(known, waiting=held, newest=newest[-1:], paced=False), [event]
        if waiting.time[-1] - waiting.time[0] < CALM:
            return known, []
        step = float(np.median(np.diff(waiting.time)))
        if step > 1.0 / SLOWEST:
            return replace(known, waiting=None).counted(slow=len(waiting.time)), []
        noise = known.noise or _noise(waiting.wrench)
        follow = self.follow(noise, 1.0 / step)
        following = follow.start() if known.following is None else known.following
        following = replace(following, held=None)
        return replace(known, noise=noise, paced=True, follow=follow, following=following), []

    def follow(self, noise: tuple[float, float], rate: float) -> Follow:
        """Return how a load is followed, whose wrenches have this noise [N, N·m] and rate [Hz]."""
        return Follow(
            noise,
            rate,
            turning_noise=self.sensors.turning_noise,
            others=tuple(self.sensors.others),
            bias=self.sensors.first.bias,
        )

    def _followed(self, known: Known) -> tuple[Known, list[Event]]:
        """Step through what waits, in pieces of one stride without gaps."""
        follow, following, waiting = known.follow, known.following, known.waiting
        if not known.paced or follow is None or following is None or waiting is None:
            return known, []
        events: list[Event] = []
        size = max(round(follow.windows.stride * follow.rate), 1)
        step, begin, gaps, lost = 1.0 / follow.rate, 0, 0, 0
        steps = np.diff(waiting.time)
        breaks = np.append(
            np.flatnonzero((steps > GAP_STEPS * step) | (steps <= 0.0)) + 1, len(steps) + 1
        )
        for stop in breaks:
            while stop - begin >= size or (stop <= len(steps) and stop > begin):
                piece = waiting.part(slice(begin, min(begin + size, int(stop))))
                time = following.time
                away = float(piece.time[0]) - time
                if away <= 0.0:  # the clock was set back
                    following = replace(following, since=float(piece.time[0]))
                elif math.isfinite(away):
                    gaps += away > GAP_STEPS * step
                    lost += max(round(away / step) - 1, 0)
                lost += int(np.maximum(np.round(np.diff(piece.time) / step) - 1, 0).sum())
                following, told = follow.step(following, piece)
                events += told
                begin += len(piece.time)
        rest = waiting.part(slice(begin, None)) if begin < len(waiting.time) else None
        known = replace(known, following=following, waiting=rest)
        return known.counted(gaps=gaps, lost=lost), events

    def health(self, known: Known) -> dict[str, Any]:
        """Return how well the devices can be heard, as JSON's values."""
        following = known.following
        return {
            "devices": {
                name: {
                    "rate": round(b.rate, 1),
                    "samples": b.taken,
                    "silent": b.silent,
                }
                for name, b in known.buffers.items()
            },
            "counts": dict(known.counts),
            "foreign": list(known.foreign),
            "spikes": following.spikes if following else 0,
            "windows": following.windows if following else 0,
            "noise": list(known.noise) if known.noise else None,
        }


@dataclass(frozen=True, eq=False)
class Seen:
    """What is known of a load at a time.

    Attributes:
        stamp: Of the newest sample [s].
        ten: A body that can exist, about the sensor's origin, NaN where not seen, shape (10,).
        body: Mass, centre of mass, inertia about it, shape (10,); NaN where not seen.
        std: Deviations of `body`, infinite where not seen, shape (10,).
    """

    stamp: float
    ten: Array
    body: Array
    std: Array


def seen(known: Known) -> Seen:
    """Return what is known of the load by now."""
    follow, following = known.follow, known.following
    if follow is None or following is None or not following.windows:
        nothing = np.full(10, np.nan)
        return Seen(math.nan, nothing, nothing, np.full(10, np.inf))
    ten = following.body.copy()
    body, std = numbers(ten, following.covariance)
    unknown = follow.unknown(following)
    if body[0] < follow.light:  # nothing is held: there is no centre of it
        unknown = (*unknown, "com", "inertia")
    places = {"mass": slice(0, 1), "com": slice(1, 4), "inertia": slice(4, 10)}
    for name in unknown:
        ten[places[name]] = body[places[name]] = np.nan
        std[places[name]] = np.inf
    return Seen(known.stamp(following.time), ten, body, std)


def _time(known: Known) -> float:
    """Return the time up to which a load was followed [s], 0 before."""
    time = 0.0 if known.following is None else known.following.time
    return time if math.isfinite(time) else 0.0


def _taken(
    known: Known, device: Device, stamps: Stamps, values: Array, now: float, clock: bool
) -> Known:
    """Take a device's samples that can be used, and count the others."""
    buffer = known.buffers[device.name]
    good = (np.abs(values) <= device.largest).all(axis=1)  # no NaN either
    if device.turn:
        good &= (values[:, device.turn] ** 2).sum(axis=1) > SHORTEST_QUATERNION**2
    implausible = int((~good).sum())
    stamps, values = stamps[good] - round(device.delay * SECOND), values[good]
    if not len(stamps):
        return known.counted(implausible=implausible)
    last = int(buffer.stamps[-1]) if len(buffer.stamps) else int(stamps[0]) - 1
    newest = np.maximum.accumulate(np.concatenate([[last], stamps]))[:-1]
    later = stamps > newest
    repeated = int((stamps == newest).sum())
    late = len(stamps) - int(later.sum()) - repeated
    if later.any():
        behind = len(stamps) - 1 - int(np.flatnonzero(later)[-1])
    else:
        behind = buffer.behind + len(stamps)
    known = known.counted(implausible=implausible, repeated=repeated, late=late)
    if behind >= ANEW and late:
        fresh = Buffer(buffer.stamps[:0], buffer.values[:0], buffer.taken, now)
        done = None if clock else known.done
        known = replace(known, buffers={**known.buffers, device.name: fresh}, done=done)
        return known.counted(clock_set_back=1)
    stamps, values = stamps[later], values[later]
    same, frozen = buffer.same, 0
    if device.noisy and len(stamps):
        stamps, values, same, frozen = _thawed(buffer, stamps, values)
    all_stamps = np.concatenate([buffer.stamps, stamps])
    # Where the others are silent, a device's samples wait no longer than they could be used.
    oldest = int(all_stamps[-1]) - 2 * HOLD if len(all_stamps) else 0
    keep = slice(int(np.searchsorted(all_stamps, oldest)), None)
    made = replace(
        buffer,
        stamps=all_stamps[keep],
        values=np.concatenate([buffer.values, values])[keep],
        taken=buffer.taken + len(stamps),
        heard=now if len(stamps) else buffer.heard,
        behind=behind,
        same=same,
    )
    return replace(known, buffers={**known.buffers, device.name: made}).counted(frozen=frozen)


def _thawed(buffer: Buffer, stamps: Stamps, values: Array) -> tuple[Stamps, Array, int, int]:
    """Return samples that do not say the same for too long, since when, and how many do."""
    before = buffer.values[-1:] if len(buffer.values) else values[:1] + 1.0
    changed = (np.diff(np.concatenate([before, values]), axis=0) != 0.0).any(axis=1)
    begun = np.where(changed, stamps, buffer.same)
    begun = np.maximum.accumulate(begun)
    good = stamps - begun <= FROZEN * SECOND
    return stamps[good], values[good], int(begun[-1]), int((~good).sum())


def _bridged(stamps: Stamps, at: Stamps, ahead: int) -> NDArray[np.bool_]:
    """Return which times lie between samples that are close enough."""
    if not len(stamps):
        return np.zeros(len(at), bool)
    before = np.searchsorted(stamps, at - ahead, "right") - 1
    after = np.searchsorted(stamps, at + ahead)
    inside = (before >= 0) & (after < len(stamps))
    widest = np.zeros(len(at), dtype=np.int64)
    first, last = np.maximum(before, 0), np.minimum(after, len(stamps) - 1)
    widest[inside] = (stamps[last] - stamps[first])[inside]
    return np.asarray(inside & (widest <= BRIDGE * SECOND + 2 * ahead))


def _between(stamps: Stamps, values: Array, at: Stamps) -> Array:
    """Return values interpolated at some times, shape (N, signals)."""
    if not len(stamps):
        return np.zeros((len(at), values.shape[1]))
    seconds, wanted = (stamps - stamps[0]) / SECOND, (at - stamps[0]) / SECOND
    return np.stack([np.interp(wanted, seconds, column) for column in values.T], axis=1)


def _continuous(values: Array, turn: Sequence[int]) -> Array:
    if not turn or len(values) < 2:
        return values
    made = values.copy()
    made[:, turn] = continuous_quaternions(values[:, turn])
    return made


def _then(first: Held, other: Held) -> Held:
    both = zip(vars(first).values(), vars(other).values(), strict=True)
    return Held(*(np.concatenate(pair) for pair in both))


def _noise(wrench: Array) -> tuple[float, float]:
    """Return the deviation of force and moment, by what no motion has: second differences."""
    bend = np.diff(wrench, 2, axis=0) / math.sqrt(6.0)
    deviation = 1.4826 * np.median(np.abs(bend - np.median(bend, axis=0)), axis=0)
    force, moment = np.sqrt((deviation.reshape(2, 3) ** 2).mean(axis=1))
    return max(float(force), 1e-4), max(float(moment), 1e-6)
