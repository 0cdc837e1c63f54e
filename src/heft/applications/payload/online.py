"""Recursive identification of a payload from streamed samples, with detection of load changes.

The states are the payload's ten inertial parameters and the bias of the wrench sensor. Samples
are gathered in windows of the weak form; each complete window gives a block of six rows to a
square-root information filter (`estimators.Filter`). The innovation of the newest window is tested
against a lagged estimate that shares no samples with it. After a detected change the payload's
parameters are reset to their prior; the bias is kept, since it drifts slowly. The module is
independent of where the samples come from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidSetting
from heft.estimators import Filter, State
from heft.information import PARAMETER_COUNT, inertia
from heft.plants import GAP_STEPS, GraspingPoint, Held, Unknowns, noise_covariance, sides, whitened
from heft.signals import follows, replace_outliers, weak_form
from heft.streams import Event

SPIKE = 8.0  # standard deviations from its neighbours' median beyond which a sample is an outlier
CALM = 1.0  # [s] of a settled mass after which a change is taken for a real one
NO_BODY = (
    "what is felt is not one body's weight: look at the sensor's frame, its units [N, N·m] and "
    "noise, and at what else touches the load"
)


@dataclass(frozen=True, eq=False)
class OnlineState:
    """State of the recursive identification of a load."""

    filter: State  # square-root information of the payload's parameters and the sensor's bias
    open_windows: weak_form.Buffer | None = None  # samples of windows that are not complete yet
    time: float = -math.inf  # time of the newest sample [s]
    changed_at: float = -math.inf  # time of the last load change, or of the first sample [s]
    # mass reported by the last event [kg]; None before the first
    announced_mass: float | None = None
    settled: bool = False  # whether the mass has reached its precision since the last change
    settled_at: float = 0.0  # time at which it did so last [s]
    # number of consecutive changes with less than `CALM` seconds of a settled mass between them
    restless_changes: int = 0
    # whether `not enough motion` was announced since the last change; it is announced once
    motion_requested: bool = False
    windows: int = 0  # number of windows processed
    spikes: int = 0  # number of samples replaced as outliers

    @cached_property
    def ten(self) -> Array:
        """Estimated inertial parameters π about the sensor's origin, shape (10,).

        Mass [kg], first moments [kg·m] and inertia [kg·m²] as the data give them: they need not be
        physically consistent.
        """
        return self.filter.values[:PARAMETER_COUNT]

    @cached_property
    def covariance(self) -> Array:
        """Covariance of `ten`, shape (10, 10), in products of its units."""
        return self.filter.covariance[:PARAMETER_COUNT, :PARAMETER_COUNT]

    @cached_property
    def std(self) -> Array:
        """Standard deviations of `ten`, shape (10,) [kg, kg·m, kg·m²]."""
        return np.sqrt(np.diag(self.covariance))

    @cached_property
    def body(self) -> Array:
        """Physically consistent inertial parameters, shape (10,) [kg, kg·m, kg·m²].

        Equal to `ten` if that is consistent, else the consistent parameters nearest to it.
        """
        ten = self.ten
        if ten[0] > 0.0 and inertia.consistency_margin(ten) > 0.0:
            return ten
        mass = max(float(ten[0]), 1e-6)
        return inertia.nearest_consistent(np.concatenate([[mass], ten[1:]]))


@dataclass(frozen=True)
class Online:
    """Settings of the recursive identification of a load.

    Raises:
        InvalidSetting: If a window spans too few samples of the weak form.
    """

    # standard deviation of one sample's force [N] and moment [N·m]; of the first sensor
    noise: tuple[float, float]
    rate: float  # sampling rate [Hz]
    turning_noise: float = 0.0  # standard deviation of one sample of the angular velocity ω [rad/s]
    window: float = 0.1  # length of a window of the weak form [s]
    overlap: float = 0.75  # share of its length that a window has in common with the next
    # time constant of exponential forgetting [s], after which information has decayed to 1/e; None
    # for no forgetting. Forgetting tracks changes too small to be detected
    memory: float | None = 60.0
    # random-walk density of the bias [N/√s, N·m/√s]; used with `bias="auto"`
    bias_walk: tuple[float, float] = (0.05, 0.0025)
    alarm: float = 1e-9  # probability of a false alarm per window of the test for a load change
    light: float = 0.05  # mass below which the sensor counts as unloaded [kg]
    # relative standard deviation of the mass at which the load counts as weighed
    precise: float = 0.02
    # standard deviation of the centre of mass at which it counts as identified [m]
    placed: float = 0.01
    # radius r [m]: the inertia counts as identified when the standard deviations of the moments of
    # inertia are within m r²
    spread: float = 0.03
    # time since the last change after which insufficient motion is announced [s]
    patience: float = 10.0
    # further sensors that hold the load, each with a noise of its own
    others: tuple[GraspingPoint, ...] = ()
    # model of the sensor's bias: `none`, `constant`, or `auto` for a random walk
    bias: Literal["none", "constant", "auto"] = "auto"

    def __post_init__(self) -> None:
        if not (self.rate > 0.0 and self.window * self.rate >= weak_form.SHORTEST):
            raise InvalidSetting(
                "a window spans too few samples",
                argument="window",
                got=f"{self.window:g} s at {self.rate:g} Hz",
                expected=f"{weak_form.SHORTEST} samples at least",
            )

    @cached_property
    def windows(self) -> weak_form.Windows:
        """Windows of the weak form on the samples' clock [s]."""
        return weak_form.Weak(self.window, 1, self.overlap).windows(1.0, 1.0 / self.rate)

    @cached_property
    def unknowns(self) -> Unknowns:
        """Parameters estimated: the payload's, and the sensor's bias unless `bias` is `none`."""
        return Unknowns(bias=self.bias != "none")

    @cached_property
    def filter(self) -> Filter:
        """Square-root information filter over windows, with forgetting and a change test."""
        stride = self.windows.stride
        walk = math.sqrt(stride) * np.repeat(self.bias_walk, 3) * (self.bias == "auto")
        biases = 6 if self.unknowns.bias else 0
        return Filter(
            # ± 100 kg, 100 kg·m, 100 kg·m²; biases within ± 1000 N, 100 N·m
            floor=(1e-2,) * PARAMETER_COUNT + ((1e-3,) * 3 + (1e-2,) * 3)[:biases],
            forgetting=1.0 if self.memory is None else math.exp(-stride / self.memory),
            every=10,
            lag=math.ceil(self.windows.length / stride - 1e-9),
            alarm=self.alarm,
            confirm=2,
            renewed=(True,) * PARAMETER_COUNT + (False,) * biases,
            walk=(0.0,) * PARAMETER_COUNT + tuple(walk[:biases]),
        )

    @cached_property
    def _noise(self) -> Array:
        """Covariance of one sample's wrench, shape (6, 6) [N, N·m squared]."""
        return noise_covariance(*self.noise, self.others)

    def start(self) -> OnlineState:
        """Return the state before the first sample, with the prior's information only."""
        return OnlineState(self.filter.start())

    def step(self, state: OnlineState, samples: Held) -> tuple[OnlineState, tuple[Event, ...]]:
        """Process further samples; return the new state and the events that they caused.

        Args:
            samples: One or more samples, later than those processed. After a gap of more than
                `GAP_STEPS` steps all open windows are discarded.

        Returns:
            The state after them, and the events in order of time: `grasped`, `released`,
            `changed`, `weighed`, `not enough motion` (the motion does not excite all parameters)
            and `no body` (the wrench is not that of one rigid body).
        """
        begin, end = map(float, samples.time[[0, -1]])
        before = state.open_windows
        if before is not None and not follows(begin, state.time, GAP_STEPS / self.rate):
            before = None
        wrench, spikes = without_spikes(samples.wrench, np.sqrt(np.diag(self._noise)))
        pieces = sides(replace(samples, wrench=wrench), self.unknowns, self.turning_noise)
        kept, rows = weak_form.advance(self.windows, before, pieces)
        state = replace(
            state,
            open_windows=kept,
            time=end,
            changed_at=begin if state.changed_at == -math.inf else state.changed_at,
            spikes=state.spikes + spikes,
        )
        events: list[Event] = []
        # So scaled that overlapping windows count each sample once.
        covariance = self._noise / (self.rate * self.windows.stride)
        for regressor, effort, middle in zip(rows.regressor, rows.effort, rows.time, strict=True):
            block = whitened(regressor[None], effort[None], covariance)
            state, more = self._window(state, block, float(middle) + 0.5 * self.windows.length)
            events += more
        state, more = self._motion_requested(state, end)
        return state, (*events, *more)

    def _window(
        self, state: OnlineState, block: Array, now: float
    ) -> tuple[OnlineState, list[Event]]:
        filtered, test = self.filter.step(state.filter, block)
        state = replace(state, filter=filtered, windows=state.windows + 1)
        if not test.changed:
            return (state, []) if state.settled else self._settle(state, now)
        events = []
        if state.settled:
            message = (
                f"the load is another: {test.surprise:.0f} where {test.limit:.0f} is the limit"
            )
            events.append(Event(now, "changed", message))
        calm = state.settled and now - state.settled_at >= CALM
        restless = 0 if calm else state.restless_changes + 1
        if restless == 5:  # so many without calm: the wrench is no rigid load's
            events.append(Event(now, "no body", NO_BODY))
        state = replace(
            state, changed_at=now, settled=False, restless_changes=restless, motion_requested=False
        )
        return state, events

    def _motion_requested(self, state: OnlineState, now: float) -> tuple[OnlineState, list[Event]]:
        """Announce once, after `patience`, which parameters the motion has not identified."""
        if state.motion_requested or now - state.changed_at <= self.patience:
            return state, []
        state = replace(state, motion_requested=True)
        unknown = self.unknown(state)
        if not unknown:
            return state, []
        message = f"not known yet: {', '.join(unknown)}; turn the load about all axes"
        return state, [Event(now, "not enough motion", message)]

    def unknown(self, state: OnlineState) -> tuple[str, ...]:
        """Return which of `mass`, `com` and `inertia` are not identified to their precision.

        None if all are, or if the sensor is unloaded.
        """
        if not state.settled or state.ten[0] < -self.light:
            return ("mass", "com", "inertia")
        mass = abs(float(state.ten[0]))
        if mass < self.light:  # unloaded: a centre of mass is not defined
            return ()
        deviation = inertia.stated_with_std(state.ten, state.covariance)[1]
        off = deviation[1:4].max() > self.placed
        wide = deviation[[4, 6, 9]].max() > mass * self.spread**2
        return (*(["com"] if off else []), *(["inertia"] if wide else []))

    def _settle(self, state: OnlineState, now: float) -> tuple[OnlineState, list[Event]]:
        mass, std = float(state.ten[0]), float(state.std[0])
        if std > max(self.precise * abs(mass), 0.5 * self.light):
            return state, []
        empty, before = mass < self.light, state.announced_mass
        message = f"{mass:.3f} ± {std:.3f} kg"
        state = replace(state, settled=True, settled_at=now)
        if mass < -max(self.light, 5.0 * std):
            message = (
                f"a mass of {message}: the wrench may be that on the sensor, not that on the load"
            )
            return state, [Event(now, "no body", message)]
        if before is None:
            name = "weighed"
        elif empty:
            name = "released" if before >= self.light else "weighed"
        else:
            name = "grasped" if before < self.light else "weighed"
        return replace(state, announced_mass=mass), [Event(now, name, message)]


def without_spikes(wrench: Array, noise: Array) -> tuple[Array, int]:
    """Replace outliers of a wrench, (N, 6), noise (6,) [N, N·m], by a running median; count them.

    A single sample that deviates from the median of five neighbours by more than `SPIKE` standard
    deviations is taken for a transmission error and replaced by that median.
    """
    calm, far = replace_outliers(wrench, 5, SPIKE * noise)
    return calm, int(far.any(axis=1).sum())
