"""A held body weighed as the samples come, and what happens to it: grasped, changed, released.

Samples gather in windows of the weak form; each completed window is a block of six rows for the
square-root information filter (`recursive`). The newest window is tested against an estimate that
is older than the windows it overlaps. A change makes the body unknown again, not the sensor's
bias, which walks slowly. Nothing here knows where samples come from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidSetting
from heft.estimators import Filter, State
from heft.information import PARAMETER_COUNT, inertia
from heft.plants import GAP_STEPS, Held, Unknowns, noise_covariance, sides, whitened
from heft.signals import follows, replace_outliers, weak_form

from .by_wrench import Bias
from .estimate import numbers

SPIKE = 8.0  # deviations from its neighbours' median by which a sample is no part of the motion
NEIGHBOURS = 5
CALM = 1.0  # [s] after which a change follows on an honest weight
RESTLESS = 5  # changes without calm in between that no load makes
NO_BODY = (
    "what is felt is not one body's weight: look at the sensor's frame, its units [N, N·m] and "
    "noise, and at what else touches the load"
)
# What is known of anything before it is weighed: ± 100 kg, 100 kg·m, 100 kg·m².
IGNORANCE = 1e-2
BIAS_IGNORANCE = (1e-3,) * 3 + (1e-2,) * 3  # ± 1000 N, 100 N·m


@dataclass(frozen=True)
class Event:
    """Something that happened to the load, or while it is weighed.

    Attributes:
        time: When it was noticed [s].
        name: `grasped`, `released`, `changed`, `weighed`, `not enough motion`, or `no body` where
            what is felt cannot be a weight; of a node also `rate changed` and what its devices'
            alignment notices.
        message: In words.
    """

    time: float
    name: str
    message: str


@dataclass(frozen=True, eq=False)
class OnlineState:
    """What is known of a load so far.

    Attributes:
        filter: Square-root information of body and bias.
        open_windows: Samples of windows that are not over yet.
        time: Of the newest sample [s].
        changed_at: When the load changed last, or the start [s].
        announced_mass: Mass that the last event named [kg]; None before the first.
        settled: Whether the mass is known well enough since the last change.
        settled_at: When it was last [s].
        restless_changes: How many changes came in a row without calm between them.
        motion_requested: Whether `not enough motion` was announced since the last change; it is
            announced once.
        windows: How many were seen.
        spikes: How many samples were replaced.
    """

    filter: State
    open_windows: weak_form.Held | None = None
    time: float = -math.inf
    changed_at: float = -math.inf
    announced_mass: float | None = None
    settled: bool = False
    settled_at: float = 0.0
    restless_changes: int = 0
    motion_requested: bool = False
    windows: int = 0
    spikes: int = 0

    @cached_property
    def ten(self) -> Array:
        """The body's ten parameters about the sensor's origin, as the rows have it, shape (10,)."""
        return self.filter.values[:PARAMETER_COUNT]

    @cached_property
    def covariance(self) -> Array:
        """Of `ten`, shape (10, 10)."""
        return self.filter.covariance[:PARAMETER_COUNT, :PARAMETER_COUNT]

    @cached_property
    def std(self) -> Array:
        """Standard deviations of `ten`, shape (10,)."""
        return np.sqrt(np.diag(self.covariance))

    @cached_property
    def body(self) -> Array:
        """Ten parameters of a body that can exist, shape (10,): `ten`, or near it."""
        ten = self.ten
        if ten[0] > 0.0 and inertia.consistency_margin(ten) > 0.0:
            return ten
        mass = max(float(ten[0]), 1e-6)
        return inertia.nearest_consistent(np.concatenate([[mass], ten[1:]]))


@dataclass(frozen=True)
class Online:
    """How a load is weighed as its samples come.

    Attributes:
        noise: Standard deviation of a sample's force [N] and moment [N·m].
        rate: Samples a second [Hz].
        turning_noise: Standard deviation of ω [rad/s].
        window: Length of a window [s].
        overlap: Share of it that a window has in common with the next; one less than a whole
            number's share.
        memory: Time in which information fades to 1/e, or none [s]: what makes changes too small
            to be noticed come through.
        bias_walk: By how much the bias changes in a root second [N/√s, N·m/√s].
        alarm: Chance that a window without change is a surprise.
        light: Mass below which nothing is held [kg].
        precise: Standard deviation of the mass, as a share of it, at which it counts as weighed.
        placed: Standard deviation of the centre of mass at which it counts as known [m].
        spread: Radius at which the mass makes the standard deviation of a moment of inertia at
            which it counts as known [m].
        patience: Time after which it is announced that the motion does not suffice [s].
        others: Rotation and translation of each further sensor; see `wrench.at_first`.
        bias: What the sensor adds: `none`, `constant`, or `auto` for a bias that walks.
    """

    noise: tuple[float, float]
    rate: float
    turning_noise: float = 0.0
    window: float = 0.1
    overlap: float = 0.75
    memory: float | None = 60.0
    bias_walk: tuple[float, float] = (0.05, 0.0025)
    alarm: float = 1e-9
    light: float = 0.05
    precise: float = 0.02
    placed: float = 0.01
    spread: float = 0.03
    patience: float = 10.0
    others: tuple[tuple[Array, Array], ...] = ()
    bias: Bias = "auto"

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
        """The windows of the weak form, on the clock."""
        return weak_form.Weak(self.window, 1, self.overlap).windows(1.0, 1.0 / self.rate)

    @cached_property
    def unknowns(self) -> Unknowns:
        """The body, and the sensor's bias if it has one."""
        return Unknowns(bias=self.bias != "none")

    @cached_property
    def filter(self) -> Filter:
        """The filter over windows."""
        stride = self.windows.stride
        walk = math.sqrt(stride) * np.repeat(self.bias_walk, 3) * (self.bias == "auto")
        biases = 6 if self.unknowns.bias else 0
        return Filter(
            floor=(IGNORANCE,) * PARAMETER_COUNT + BIAS_IGNORANCE[:biases],
            forgetting=1.0 if self.memory is None else math.exp(-stride / self.memory),
            every=10,
            lag=math.ceil(self.windows.length / stride - 1e-9),
            alarm=self.alarm,
            confirm=2,
            renewed=(True,) * PARAMETER_COUNT + (False,) * biases,
            walk=(0.0,) * PARAMETER_COUNT + tuple(walk[:biases]),
        )

    @cached_property
    def _covariance(self) -> Array:
        """Of a window's row, shape (6, 6): together windows know no more than each sample once."""
        return self._noise / (self.rate * self.windows.stride)

    @cached_property
    def _noise(self) -> Array:
        """Covariance of a sample's wrench, shape (6, 6)."""
        return noise_covariance(*self.noise, self.others)

    def start(self) -> OnlineState:
        """Return the state before anything was seen."""
        return OnlineState(self.filter.start())

    def step(self, state: OnlineState, held: Held) -> tuple[OnlineState, tuple[Event, ...]]:
        """Return the state after some more samples, and what happened meanwhile.

        Args:
            state: Before them.
            held: Samples behind those before, one or more. Behind a gap windows begin anew.
        """
        begin, end = float(held.time[0]), float(held.time[-1])
        before = state.open_windows
        if before is not None and not follows(begin, state.time, GAP_STEPS / self.rate):
            before = None
        wrench, spikes = without_spikes(held.wrench, np.sqrt(np.diag(self._noise)))
        pieces = sides(replace(held, wrench=wrench), self.unknowns, self.turning_noise)
        kept, rows = weak_form.advance(self.windows, before, pieces)
        state = replace(
            state,
            open_windows=kept,
            time=end,
            changed_at=begin if state.changed_at == -math.inf else state.changed_at,
            spikes=state.spikes + spikes,
        )
        events: list[Event] = []
        for regressor, effort, middle in zip(rows.regressor, rows.effort, rows.time, strict=True):
            block = whitened(regressor[None], effort[None], self._covariance)
            state, more = self._window(state, block, float(middle) + 0.5 * self.windows.length)
            events += more
        state, more = self._motion_requested(state, end)
        return state, (*events, *more)

    def _window(
        self, state: OnlineState, block: Array, now: float
    ) -> tuple[OnlineState, list[Event]]:
        """Step the filter by a window that ends now; announce a change, or a mass once known."""
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
        if restless == RESTLESS:
            events.append(Event(now, "no body", NO_BODY))
        state = replace(
            state,
            changed_at=now,
            settled=False,
            restless_changes=restless,
            motion_requested=False,
        )
        return state, events

    def _motion_requested(self, state: OnlineState, now: float) -> tuple[OnlineState, list[Event]]:
        """Announce once, when patience ends, what the motion has not shown yet."""
        if state.motion_requested or now - state.changed_at <= self.patience:
            return state, []
        state = replace(state, motion_requested=True)
        unknown = self.unknown(state)
        if not unknown:
            return state, []
        message = f"not known yet: {', '.join(unknown)}; turn the load about all axes"
        return state, [Event(now, "not enough motion", message)]

    def unknown(self, state: OnlineState) -> tuple[str, ...]:
        """Return what is not known well enough: `mass`, `com`, `inertia`, or nothing."""
        if not state.settled or state.ten[0] < -self.light:
            return ("mass", "com", "inertia")
        mass, deviation = abs(float(state.ten[0])), numbers(state.ten, state.covariance)[1]
        if mass < self.light:  # nothing is held: there is no centre of it
            return ()
        off = deviation[1:4].max() > self.placed
        wide = deviation[[4, 6, 9]].max() > mass * self.spread**2
        return (*(["com"] if off else []), *(["inertia"] if wide else []))

    def _settle(self, state: OnlineState, now: float) -> tuple[OnlineState, list[Event]]:
        """Announce the mass as soon as it is known well enough."""
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
    """Return the wrench with samples that stand out from their neighbours replaced, and how many.

    A single sample far from the median of the five around it is an error of transmission, not of
    motion; it takes that median's value.

    Args:
        wrench: Shape (N, 6).
        noise: Standard deviation of each channel, shape (6,).
    """
    calm, far = replace_outliers(wrench, NEIGHBOURS, SPIKE * noise)
    return calm, int(far.any(axis=1).sum())
