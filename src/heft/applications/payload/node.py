"""A load weighed live: aligned samples of its sensors, gathered at their rate, stepped through.

Signals come from devices: wrench sensors, and what tells their motion. `heft.streams` aligns them;
here aligned samples become motion of the held body, wait until their rate and noise are known, and
go through the filter of `online`. Nothing here knows how messages travel.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidSetting
from heft.models import Robot
from heft.plants import GAP_STEPS, Held
from heft.streams import AlignedSamples, Alignment, AlignmentState, Device, Piece

from .estimate import numbers
from .motion import Motion, motion_of, on_load, wrench_names
from .online import Event, Online, OnlineState
from .sensors import Sensors

HALF_STEP = 0.01  # [s] of the central differences by which velocities are taken
CALIBRATION = 1.0  # [s] of samples from which rate and noise are estimated
SLOWEST = 50.0  # [Hz]
SAME_RATE = 0.2  # largest relative change of the rate that is none
RATE_SAMPLES = 100  # steps whose median is the rate
MOST_FOREIGN = 16  # names
# As health reports them; `heft.streams.alignment` explains those that are its own.
COUNTS = (
    "garbage",  # messages that cannot be decoded
    "foreign",
    "implausible",
    "late",
    "repeated",
    "frozen",
    "alone",
    "slow",  # wrenches too far apart to be of use
    "lost",  # wrenches that are missing between those that came
    "gaps",  # times without samples across which nothing was taken to continue
    "clock set back",
)


@dataclass(frozen=True, eq=False)
class NodeState:
    """What a node remembers from step to step.

    Attributes:
        alignment: Of the devices.
        counts: How often what happened; see `COUNTS`.
        foreign: Signals of messages that nobody asked for.
        waiting: Aligned samples that make no whole step of the filter yet.
        newest: Times of the newest aligned samples, shape (RATE_SAMPLES + 1,) or less [s].
        noise: Standard deviation of force [N] and moment [N·m], when it is known.
        rate_known: Whether the samples' rate is known; until then they wait.
        online: Settings by which the load is weighed, at the present rate or the last one.
        load: What is known of the load; None before the first rate is known.
    """

    alignment: AlignmentState
    counts: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    foreign: tuple[str, ...] = ()
    waiting: Held | None = None
    newest: Array = field(default_factory=lambda: np.zeros(0))
    noise: tuple[float, float] | None = None
    rate_known: bool = False
    online: Online | None = None
    load: OnlineState | None = None

    def counted(self, more: Mapping[str, int]) -> NodeState:
        """Return the same with some counts higher."""
        if not any(more.values()):
            return self
        return replace(self, counts={k: n + int(more.get(k, 0)) for k, n in self.counts.items()})

    def stamp(self, time: float) -> float:
        """Return a time on the stamps' clock [s]."""
        return self.alignment.stamp(time)

    @property
    def time(self) -> float:
        """Time up to which the load is weighed [s], 0 before."""
        time = 0.0 if self.load is None else self.load.time
        return time if math.isfinite(time) else 0.0


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
        """What is listened to; the first gives the times, the last the motion."""
        wrenches = [
            Device(s.name, wrench_names(s), delay=s.delay or 0.0) for s in self.sensors.wrenches
        ]
        half_step = HALF_STEP if self.motion.slopes else 0.0
        names, noisy = self.motion.names, self.motion.noisy
        return (*wrenches, Device(self.motion.device, names, noisy, half_step=half_step))

    @cached_property
    def alignment(self) -> Alignment:
        """How the devices are aligned."""
        return Alignment(self.devices)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All signals that are listened to."""
        return tuple(n for d in self.devices for n in d.names)

    def start(self) -> NodeState:
        """Return the state before anything came."""
        return NodeState(self.alignment.start(), noise=self.sensors.noise)

    def step(
        self, state: NodeState, now: float, pieces: Iterable[Piece], garbage: int = 0
    ) -> tuple[NodeState, tuple[Event, ...]]:
        """Return the state after some more messages, and what happened.

        Args:
            state: Before them.
            now: On the listener's clock, which need not be that of the stamps [s].
            pieces: What came, in its order; nothing is fine too.
            garbage: How many messages could not be decoded.
        """
        alignment, aligned = self.alignment.step(state.alignment, now, pieces)
        events = [Event(state.time, n.name, n.message) for n in aligned.notices]
        foreign = tuple(dict.fromkeys((*state.foreign, *aligned.foreign)))[:MOST_FOREIGN]
        state = replace(state, alignment=alignment, foreign=foreign)
        state = state.counted({**aligned.counts, "garbage": garbage})
        if aligned.samples is not None:
            state, more = self._gathered(state, self._sensed(aligned.samples))
            events += more
            state, more = _weighed(state)
            events += more
        return state, tuple(events)

    def _sensed(self, samples: AlignedSamples) -> Held:
        """Return wrench on the load and motion of the first sensor."""
        *wrenches, motion = samples.values
        summed = on_load(self.sensors, np.concatenate(wrenches, axis=1))
        return self.motion.make(samples.time, summed, motion, samples.slopes[-1])

    def _gathered(self, state: NodeState, held: Held) -> tuple[NodeState, list[Event]]:
        """Put aligned samples to those that wait; estimate rate and noise where they are needed."""
        waiting, newest = state.waiting, state.newest
        back = len(newest) > 0 and held.time[0] <= newest[-1]  # the clock was set back
        if waiting is None or (back and not state.rate_known):
            waiting = held
        else:
            waiting = _joined(waiting, held)
        newest = held.time if back else np.concatenate([newest, held.time])
        newest = newest[-RATE_SAMPLES - 1 :]
        state = replace(state, waiting=waiting, newest=newest)
        if not state.rate_known or state.online is None:
            return self._calibrated(state, waiting), []
        if len(newest) <= RATE_SAMPLES:
            return state, []
        rate, found = state.online.rate, 1.0 / float(np.median(np.diff(newest)))
        if abs(found / rate - 1.0) <= SAME_RATE:
            return state, []
        message = f"{found:.3g} Hz instead of {rate:.3g}"
        event = Event(float(held.time[-1]), "rate changed", message)
        return replace(state, waiting=held, newest=newest[-1:], rate_known=False), [event]

    def _calibrated(self, state: NodeState, waiting: Held) -> NodeState:
        """Estimate rate and noise once enough samples wait, and get ready to weigh with them."""
        if waiting.time[-1] - waiting.time[0] < CALIBRATION:
            return state
        step = float(np.median(np.diff(waiting.time)))
        if step > 1.0 / SLOWEST:
            return replace(state, waiting=None).counted({"slow": len(waiting.time)})
        noise = state.noise or estimated_noise(waiting.wrench)
        online = self.online(noise, 1.0 / step)
        load = online.start() if state.load is None else state.load
        load = replace(load, open_windows=None)
        return replace(state, noise=noise, rate_known=True, online=online, load=load)

    def online(self, noise: tuple[float, float], rate: float) -> Online:
        """Return how a load is weighed whose wrenches have this noise [N, N·m] and rate [Hz]."""
        return Online(
            noise,
            rate,
            turning_noise=self.sensors.turning_noise,
            others=tuple(self.sensors.others),
            bias=self.sensors.first.bias,
        )

    def health(self, state: NodeState) -> dict[str, Any]:
        """Return how well the devices can be heard, as JSON's values."""
        load = state.load
        return {
            "devices": {
                name: {
                    "rate": round(b.rate, 1),
                    "samples": b.taken,
                    "silent": b.silent,
                }
                for name, b in state.alignment.buffers.items()
            },
            "counts": dict(state.counts),
            "foreign": list(state.foreign),
            "spikes": load.spikes if load else 0,
            "windows": load.windows if load else 0,
            "noise": list(state.noise) if state.noise else None,
        }


@dataclass(frozen=True, eq=False)
class LoadEstimate:
    """Inertial parameters of a load at a time.

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


def load_estimate(state: NodeState) -> LoadEstimate:
    """Return what is known of the load by now."""
    online, load = state.online, state.load
    if online is None or load is None or not load.windows:
        nothing = np.full(10, np.nan)
        return LoadEstimate(math.nan, nothing, nothing, np.full(10, np.inf))
    ten = load.body.copy()
    body, std = numbers(ten, load.covariance)
    unknown = online.unknown(load)
    if body[0] < online.light:  # nothing is held: there is no centre of it
        unknown = (*unknown, "com", "inertia")
    places = {"mass": slice(0, 1), "com": slice(1, 4), "inertia": slice(4, 10)}
    for name in unknown:
        ten[places[name]] = body[places[name]] = np.nan
        std[places[name]] = np.inf
    return LoadEstimate(state.stamp(load.time), ten, body, std)


def estimated_noise(wrench: Array) -> tuple[float, float]:
    """Return the standard deviation of force [N] and moment [N·m] of one sample.

    By second differences, which motion does not have at the rate of samples, and their median
    absolute deviation, which single errors do not move.

    Args:
        wrench: Shape (N, 6) [N, N·m].
    """
    bend = np.diff(wrench, 2, axis=0) / math.sqrt(6.0)
    deviation = 1.4826 * np.median(np.abs(bend - np.median(bend, axis=0)), axis=0)
    force, moment = np.sqrt((deviation.reshape(2, 3) ** 2).mean(axis=1))
    return max(float(force), 1e-4), max(float(moment), 1e-6)


def _weighed(state: NodeState) -> tuple[NodeState, list[Event]]:
    """Step through what waits, in pieces of one stride without gaps."""
    online, load, waiting = state.online, state.load, state.waiting
    if not state.rate_known or online is None or load is None or waiting is None:
        return state, []
    events: list[Event] = []
    size = max(round(online.windows.stride * online.rate), 1)
    step, begin, gaps, lost = 1.0 / online.rate, 0, 0, 0
    steps = np.diff(waiting.time)
    breaks = np.append(
        np.flatnonzero((steps > GAP_STEPS * step) | (steps <= 0.0)) + 1, len(steps) + 1
    )
    for stop in breaks:
        while stop - begin >= size or (stop <= len(steps) and stop > begin):
            piece = waiting.part(slice(begin, min(begin + size, int(stop))))
            away = float(piece.time[0]) - load.time
            if away <= 0.0:  # the clock was set back
                load = replace(load, changed_at=float(piece.time[0]))
            elif math.isfinite(away):
                gaps += away > GAP_STEPS * step
                lost += max(round(away / step) - 1, 0)
            lost += int(np.maximum(np.round(np.diff(piece.time) / step) - 1, 0).sum())
            load, more = online.step(load, piece)
            events += more
            begin += len(piece.time)
    rest = waiting.part(slice(begin, None)) if begin < len(waiting.time) else None
    state = replace(state, load=load, waiting=rest)
    return state.counted({"gaps": gaps, "lost": lost}), events


def _joined(first: Held, other: Held) -> Held:
    both = zip(vars(first).values(), vars(other).values(), strict=True)
    return Held(*(np.concatenate(pair) for pair in both))
