"""Live identification of a payload from the messages of its sensors.

Signals come from devices: wrench sensors, and a source of their motion (an inertial sensor, poses
or joints). `heft.streams` aligns them in time. Here the aligned samples are converted to the motion
of the payload, buffered until their rate and noise are estimated, and passed to the filter of
`online`. The module is independent of how messages are transported.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidSetting, visible
from heft.information import inertia
from heft.models import Robot
from heft.plants import GAP_STEPS, Held
from heft.signals import weak_form
from heft.streams import Alignment, AlignmentState, Device, Event, Piece

from .online import Online, OnlineState
from .sensors import Motion, Sensors, devices_of, estimated_noise, joined, motion_of, on_load

RATE_SAMPLES = 100  # steps whose median is the rate
# As health reports them; `heft.streams.alignment` explains those that are its own.
COUNTS = (
    "garbage",  # messages that cannot be decoded
    "unread",  # messages beyond what their senders may ask of a node, or for which no memory was
    "untold",  # updates that a page, subscriber or terminal could not be given
    "unsaved",  # checkpoints that could not be written
    "foreign",
    "implausible",
    "late",
    "repeated",
    "frozen",
    "alone",
    "slow",  # wrenches too far apart to be of use
    "lost",  # wrenches that are missing between those that came, in holes that are no outage
    "gaps",  # times without samples across which nothing was taken to continue
    "clock set back",
    "clock set forward",
)


@dataclass(frozen=True, eq=False)
class NodeState:
    """State of a live node between steps."""

    alignment: AlignmentState  # state of the alignment of the devices
    # number of occurrences of each condition in `COUNTS`
    counts: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    foreign: tuple[str, ...] = ()  # names of received signals that no device uses, 16 at most
    waiting: Held | None = None  # aligned samples that do not fill a step of the filter yet
    # times of the newest aligned samples, shape (RATE_SAMPLES + 1,) or less [s]
    newest: Array = field(default_factory=lambda: np.zeros(0))
    # standard deviation of force [N] and moment [N·m]; None before it is estimated
    noise: tuple[float, float] | None = None
    rate_known: bool = False  # whether the sampling rate is known; samples are buffered until it is
    # settings of the identification at the present rate, or at the last one
    online: Online | None = None
    # state of the identification; None before the first rate is known
    load: OnlineState | None = None

    def counted(self, more: Mapping[str, int]) -> NodeState:
        """Return the state with its counts increased; names that are none of them are ignored."""
        if not any(more.values()):
            return self
        return replace(self, counts={k: n + int(more.get(k, 0)) for k, n in self.counts.items()})

    def stamp(self, time: float) -> float | None:
        """Convert a time of the node to the stamps' clock [s]; None before the first sample."""
        return None if self.alignment.epoch is None else self.alignment.stamp(time)

    @property
    def time(self) -> float:
        """Time of the newest sample that the filter has processed [s]; 0 before the first."""
        time = 0.0 if self.load is None else self.load.time
        return time if math.isfinite(time) else 0.0


@dataclass(frozen=True)
class Node:
    """Live identification of a payload from messages of its sensors, as a pure function of state.

    Raises:
        InvalidSetting: If the sensors' table asks for gravity's direction or channel gains, which
            are identified from logs only, or holds several wrench sensors without their noise.
    """

    sensors: Sensors  # wrench sensors and the source of motion
    robot: Robot | None = None  # model whose joints give the motion; None with an inertial sensor

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
        if len(self.sensors.wrenches) > 1 and self.sensors.unstated:
            raise InvalidSetting(
                "several wrench sensors are weighed by their noise, each by its own",
                argument=f"[sensor.{self.sensors.unstated[0]}], noise",
                cure="noise = {force = 0.2, torque = 0.01}",
            )

    @cached_property
    def motion(self) -> Motion:
        """Conversion of the motion source's signals to the motion of the payload."""
        return motion_of(self.sensors, self.robot)

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """Devices listened to: the first gives the sample times, the last the motion."""
        # central differences over 10 ms to either side give velocities
        return devices_of(self.sensors, self.motion, 0.01)

    @cached_property
    def alignment(self) -> Alignment:
        """Temporal alignment of the devices' signals."""
        return Alignment(self.devices)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of all signals listened to, device by device."""
        return tuple(n for d in self.devices for n in d.names)

    def start(self) -> NodeState:
        """Return the state before the first message."""
        return NodeState(self.alignment.start(), noise=self.sensors.noise)

    def step(
        self, state: NodeState, now: float, pieces: Iterable[Piece], garbage: int = 0
    ) -> tuple[NodeState, tuple[Event, ...]]:
        """Process further messages; return the new state and the events that they caused.

        Args:
            now: Time on the listener's clock, which need not be that of the stamps [s].
            pieces: Messages in order of arrival; may be empty.
            garbage: Number of messages that could not be decoded.
        """
        alignment, aligned = self.alignment.step(state.alignment, now, pieces)
        events = [Event(state.time, n.name, n.message) for n in aligned.notices]
        foreign = tuple(dict.fromkeys((*state.foreign, *aligned.foreign)))[:16]
        state = replace(state, alignment=alignment, foreign=foreign)
        state = state.counted({**aligned.counts, "garbage": garbage})
        if (samples := aligned.samples) is not None:
            *wrenches, motion = samples.values
            wrench = on_load(self.sensors, np.concatenate(wrenches, axis=1))
            held = self.motion.make(samples.time, wrench, motion, samples.slopes[-1])
            state, more = self._gathered(state, held)
            events += more
            state, more = _weighed(state)
            events += more
        return state, tuple(events)

    def _gathered(self, state: NodeState, samples: Held) -> tuple[NodeState, list[Event]]:
        waiting, newest = state.waiting, state.newest
        back = len(newest) > 0 and samples.time[0] <= newest[-1]  # the clock was set back
        if waiting is None or (back and not state.rate_known):
            waiting = samples
        else:
            waiting = joined(waiting, samples)
        newest = samples.time if back else np.concatenate([newest, samples.time])
        newest = newest[-RATE_SAMPLES - 1 :]
        state = replace(state, waiting=waiting, newest=newest)
        if not state.rate_known or state.online is None:
            return self._calibrated(state, waiting), []
        if len(newest) <= RATE_SAMPLES:
            return state, []
        rate, measured = state.online.rate, 1.0 / float(np.median(np.diff(newest)))
        if abs(measured / rate - 1.0) <= 0.2:
            return state, []
        message = f"{measured:.3g} Hz instead of {rate:.3g}"
        event = Event(float(samples.time[-1]), "rate changed", message)
        return replace(state, waiting=samples, newest=newest[-1:], rate_known=False), [event]

    def _calibrated(self, state: NodeState, waiting: Held) -> NodeState:
        if waiting.time[-1] - waiting.time[0] < 1.0:  # rate and noise are estimated of a second
            return state
        step = float(np.median(np.diff(waiting.time)))
        if step > 0.02:  # below 50 Hz wrenches are too far apart
            return replace(state, waiting=None).counted({"slow": len(waiting.time)})
        noise = state.noise or estimated_noise(waiting.wrench)
        online = self.online(noise, 1.0 / step)
        load = replace(state.load or online.start(), open_windows=None)
        return replace(state, noise=noise, rate_known=True, online=online, load=load)

    def online(self, noise: tuple[float, float], rate: float) -> Online:
        """Return the filter's settings at a noise of force [N] and moment [N·m] and a rate [Hz]."""
        return Online(
            noise,
            rate,
            window=max(Online.window, (weak_form.SHORTEST + 0.5) / rate),
            turning_noise=self.sensors.turning_noise,
            others=self.sensors.others(),
            bias=self.sensors.bias,
        )

    def health(self, state: NodeState) -> dict[str, Any]:
        """Return diagnostics of devices and signals as JSON values.

        Rates are in Hz, the noise in N and N·m; counts are those of `COUNTS`.
        """
        load = state.load
        devices = state.alignment.buffers.items()
        return {
            "devices": {
                name: {"rate": round(b.rate, 1), "samples": b.taken, "silent": b.silent}
                for name, b in devices
            },
            "counts": dict(state.counts),
            "foreign": [visible(name) for name in state.foreign],
            "spikes": load.spikes if load else 0,
            "windows": load.windows if load else 0,
            "noise": list(state.noise) if state.noise else None,
        }


@dataclass(frozen=True, eq=False)
class LoadEstimate:
    """Inertial parameters of a load at a time, for publication."""

    stamp: float  # time of the newest sample on the stamps' clock [s]; NaN before the first window
    held: bool | None  # whether something is held; None while that is not known
    # physically consistent inertial parameters about the sensor's origin, NaN where not identified,
    # shape (10,) [kg, kg·m, kg·m²]
    ten: Array
    # mass [kg], centre of mass [m] and inertia about it [kg·m²], ordered as `Weighed.body`; NaN
    # where not identified, shape (10,)
    body: Array
    std: Array  # standard deviations of `body`, infinite where not identified, shape (10,)

    @property
    def published(self) -> tuple[Array, Array]:
        """Body and standard deviations as subscribers are to compute with them, shape (10,).

        Of an empty hand all is zero, which no subscriber can take for the load before; what is not
        known is NaN, and its deviation infinite.
        """
        if self.held is not False:
            return self.body, self.std
        return np.zeros(10), np.concatenate([self.std[:1], np.zeros(9)])


def load_estimate(state: NodeState) -> LoadEstimate:
    """Return the present estimate of the load; parameters that are not identified are NaN."""
    online, load = state.online, state.load
    if online is None or load is None or not load.windows:
        nothing = np.full(10, np.nan)
        return LoadEstimate(math.nan, None, nothing, nothing, np.full(10, np.inf))
    ten = load.body.copy()
    body, std = inertia.stated_with_std(ten, load.covariance)
    unknown = online.unknown(load)
    # By the data's own mass: the consistent parameters next to noise about zero may be heavier.
    held = None if "mass" in unknown else bool(load.ten[0] >= online.light)
    if not held:  # unloaded: a centre of mass is not defined
        ten[0] = body[0] = max(float(load.ten[0]), 0.0)
        unknown = (*unknown, "com", "inertia")
    places = {"mass": slice(0, 1), "com": slice(1, 4), "inertia": slice(4, 10)}
    for name in unknown:
        ten[places[name]] = body[places[name]] = np.nan
        std[places[name]] = np.inf
    return LoadEstimate(state.alignment.stamp(load.time), held, ten, body, std)


def _weighed(state: NodeState) -> tuple[NodeState, list[Event]]:
    """Pass the buffered samples to the filter in pieces of one window stride without gaps."""
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
                lost += _missing(np.array([away]), step)
            lost += _missing(np.diff(piece.time), step)
            load, more = online.step(load, piece)
            events += more
            begin += len(piece.time)
    rest = waiting.part(slice(begin, None)) if begin < len(waiting.time) else None
    state = replace(state, load=load, waiting=rest)
    return state.counted({"gaps": gaps, "lost": lost}), events


def _missing(steps: Array, step: float) -> int:
    """Return the number of samples missing in holes shorter than an outage."""
    # longer than 50 ms none were there to be lost
    return int(np.maximum(np.round(steps[steps <= 0.05] / step) - 1, 0).sum())
