"""The contract of a plant: whatever turns signals into linear equations for its parameters.

A plant turns samples of motion into rows of

    Y x = measured − ε

with the regressor Y, its parameters x, and the noise ε of its *channels*. It says Y. It never makes
the right-hand side and never weighs: `Problem` does, once for all plants.

A channel is a source of noise with a standard deviation of its own (a joint's torque sensor, an
axis of a wrench sensor), and gives each sample an equation; a column is a parameter. Contacts,
whose wrenches nobody measures, are unknowns of each sample: how they act is the matrix N of

    Y x = measured − ε + N λ

which a plant says if it is `WithUnknowns`, and `Problem` eliminates.

A plant inherits from `Plant` what it has nothing to add to: it then has no memory and is linear.
What it can do beyond (`Fused`, `Limbed`, `Integrable`, `Predicting`, `PointSensitive`, `Excitable`,
`WithUnknowns`) is a protocol of its own each, asked for by `isinstance`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import InvalidSetting
from heft.information import AXES, ChannelRows, Labels, ParameterSpace, Triangle
from heft.recordings import Recording
from heft.signals import Smoothed, weak_form

M = TypeVar("M", bound="Motion")


class Motion(Protocol):
    """Motion that a plant computes from smoothed signals; opaque to everything else."""

    def part(self, rows: slice | NDArray[np.intp]) -> Self:
        """Return some of the samples."""


@dataclass(frozen=True)
class Channel:
    """What one sensor measures: a source of noise, its standard deviation its own or shared."""

    name: str  # such as the joint's
    unit: str  # of what it measures: N·m, N, V
    noise: str = ""  # channels of one name share one standard deviation; its own if not given
    # whether it measures something; else it is an equation whose right-hand side is zero, which no
    # error is relative to
    sensed: bool = True

    @property
    def noise_name(self) -> str:
        """Name of the standard deviation that it has, or shares."""
        return self.noise or self.name


WRENCH = (("force", "N"), ("torque", "N·m"))  # kinds of its components, and their units


def wrench_channels(name: str = "", components: int = 6) -> tuple[Channel, ...]:
    """Return axes of a wrench; forces share one standard deviation, torques another."""
    kinds = [(f"{name}.{kind}" if name else kind, unit) for kind, unit in WRENCH]
    return tuple(Channel(f"{k}.{a}", unit, k) for k, unit in kinds for a in AXES)[:components]


def wrench_signals(frame: str, components: int = 6) -> tuple[str, ...]:
    """Return the names of the logged signals of a wrench, in the order of `wrench_channels`."""
    return tuple(f"{kind}.{frame}.{axis}" for kind, _ in WRENCH for axis in AXES)[:components]


@dataclass(frozen=True)
class MotionSignal:
    """A signal that motion is made of, and how many of its derivatives are needed."""

    name: str  # of the signal
    # 2 for a position, 1 for a velocity or gyroscope, 0 for what is taken as it is, such as an
    # accelerometer: it is not smoothed
    derivatives: Literal[0, 1, 2] = 2
    # whether it comes with what is measured, and as late as that; only of what is taken as it is
    late: bool = False


@dataclass(frozen=True)
class Measured:
    """What a channel measures: `Σ factor · signal`, in the channel's unit.

    Raises:
        InvalidSetting: If it is the sum of no signals.
    """

    channel: int  # position among the plant's channels
    terms: tuple[tuple[str, float], ...]  # signals and their factors

    def __post_init__(self) -> None:
        if not self.terms:
            raise InvalidSetting(
                "a channel's measurement is the sum of no signals",
                argument=f"measured, channel {self.channel}",
                expected="signals and their factors; leave out a channel that measures nothing",
            )


@dataclass(frozen=True)
class Inputs:
    """Which signals of a recording a plant takes."""

    motion: tuple[MotionSignal, ...]  # what motion is made of
    # what channels measure; empty where rows alone are asked for
    measured: tuple[Measured, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all signals, those of the motion first."""
        measured = (name for m in self.measured for name, _ in m.terms)
        return tuple(dict.fromkeys((*(s.name for s in self.motion), *measured)))

    @property
    def smoothed(self) -> tuple[str, ...]:
        """Names of the signals whose derivatives are needed."""
        return tuple(s.name for s in self.motion if s.derivatives)


@dataclass(frozen=True)
class Samples(Generic[M]):
    """Motion and what was measured, at a recording's own times."""

    recording: int  # position of the recording in the problem
    time: Array  # shape (N,) [s]
    motion: M  # of the plant
    memory: Array  # what depends on the way here (presliding), shape (N, s); see `Plant.remember`
    measured: Array  # what the channels measured, shape (N, c) [channel's unit]
    index: NDArray[np.int64]  # positions in the recording, shape (N,)
    # which samples are asked for, shape (N,); the others only leave their mark on the memory and on
    # filters
    chosen: NDArray[np.bool_]

    @staticmethod
    def of_motion(motion: M, count: int, channels: int) -> Samples[M]:
        """Return samples of motion alone: without memory, with zeros for what is measured."""
        index = np.arange(count)
        nothing, zeros = np.empty((count, 0)), np.zeros((count, channels))
        every = np.ones(count, dtype=bool)
        return Samples(0, index.astype(float), motion, nothing, zeros, index, every)

    def part(self, rows: slice | NDArray[np.intp]) -> Samples[M]:
        """Return some of the samples."""
        memory = self.memory.T[:, rows].T  # laid out by its columns, which rows are made of
        time, measured = self.time[rows], self.measured[rows]
        index, chosen = self.index[rows], self.chosen[rows]
        motion = self.motion.part(rows)
        return Samples(self.recording, time, motion, memory, measured, index, chosen)


@dataclass(frozen=True)
class Rows:
    """Regressor Y of some columns, at N samples of c channels."""

    regressor: Array  # Y, shape (N, c, columns) [channel's unit / column's unit]


@dataclass(frozen=True)
class Sides:
    """Momentum and remainder of the equations of motion, for the weak form."""

    momentum: Array  # what is differentiated, shape (N, c, columns)
    remainder: Array  # what is not: `d/dt momentum − remainder = regressor`, same shape


@dataclass(frozen=True, eq=False)
class ChannelSides:
    """Momentum and remainder of the equations of motion without known zeros, for the weak form.

    Columns of all channels stand side by side, those of the first channel first.
    """

    # for each channel positions of its k columns, ascending, shape (k,)
    columns: tuple[NDArray[np.intp], ...]
    momentum: Array  # as of `Sides`, shape (N, Σ k)
    remainder: Array  # likewise

    @staticmethod
    def of_each(sides: Sides) -> ChannelSides:
        """Return both sides of each channel on all columns."""
        count, channels, size = sides.momentum.shape
        flat = (side.reshape(count, channels * size) for side in (sides.momentum, sides.remainder))
        return ChannelSides((np.arange(size),) * channels, *flat)

    @staticmethod
    def nothing(count: int, channels: int) -> ChannelSides:
        """Return both sides of channels that see no column, at N = `count` samples."""
        none = np.zeros((count, 0))
        return ChannelSides((np.empty(0, dtype=np.intp),) * channels, none, none)

    def beside(self, other: ChannelSides) -> ChannelSides:
        """Return these channels, then others at the same samples."""
        return ChannelSides(
            (*self.columns, *other.columns),
            np.concatenate([self.momentum, other.momentum], axis=1),
            np.concatenate([self.remainder, other.remainder], axis=1),
        )

    def part(self, cut: slice) -> ChannelSides:
        """Return both sides of a slice of the samples."""
        return ChannelSides(self.columns, self.momentum[cut], self.remainder[cut])

    def integrated(self, cut: slice, phi: Array, rate: Array) -> Array:
        """Return −∫ (φ̇ momentum + φ remainder) dt over a slice of the samples; see `Parted`."""
        return weak_form.integral(self.momentum[cut], self.remainder[cut], phi, rate)

    def spread(self, size: int) -> Sides:
        """Return both sides on all `size` columns, shape (N, channels, size) each."""
        sides = (
            np.stack([rows.spread(size) for rows in split(self.columns, side)], axis=1)
            for side in (self.momentum, self.remainder)
        )
        return Sides(*sides)


def split(columns: Sequence[NDArray[np.intp]], values: Array) -> tuple[ChannelRows, ...]:
    """Split values on channels' columns side by side, shape (n, Σ k), channel by channel."""
    ends = np.cumsum([0, *map(len, columns)])
    parts = zip(columns, ends[:-1], ends[1:], strict=True)
    return tuple(ChannelRows(own, values[:, first:end]) for own, first, end in parts)


class Parted(Protocol):
    """Both sides of the equations of N samples, made where they are asked for."""

    @property
    def columns(self) -> tuple[NDArray[np.intp], ...]:
        """Positions of the k columns of each channel, ascending."""

    def part(self, cut: slice) -> ChannelSides:
        """Return both sides of a slice of the samples."""

    def integrated(self, cut: slice, phi: Array, rate: Array) -> Array:
        """Return −∫ (φ̇ momentum + φ remainder) dt over a slice of the samples.

        Args:
            phi: Weights φ of the slice's samples in windows, shape (windows, n).
            rate: Those of φ̇, same shape [1/s].

        Returns:
            Shape (windows, Σ k).
        """


class Plant(Protocol[M]):
    """Anything that turns signals into linear equations for its parameters.

    Laws that every plant obeys are in `tests/test_plants.py`.
    """

    @property
    def labels(self) -> Labels:
        """Labels of the p standard columns."""

    @property
    def space(self) -> ParameterSpace:
        """Parameters that are stated, x, and the map from them to the p standard columns."""

    @property
    def channels(self) -> tuple[Channel, ...]:
        """The c channels, each a source of noise."""

    def inputs(self, recording: Recording, measured: bool = True) -> Inputs:
        """Return the signals that are taken of a recording.

        Args:
            measured: Whether what the channels measure is needed, or motion alone.

        Raises:
            MissingSignal: If one is not there, with the cure.
        """

    def motion(self, smoothed: Smoothed) -> M:
        """Return what rows need of the motion.

        Args:
            smoothed: Signals of `inputs(...).motion` in their order, with their derivatives.
        """

    def rows(self, samples: Samples[M], columns: Sequence[int]) -> Rows:
        """Return rows of some columns of `labels`, about the plant's point.

        Measurements are used only where they determine a sample's unknowns.
        """

    def sliding(self, samples: Samples[M], speed: float) -> NDArray[np.int64]:
        """Return a code of each channel's sliding direction, shape (N, c), 0 if it may stick.

        The number stays the same as long as all that rubs on a channel slides the same way; it is
        1 for all samples where nothing rubs.

        Args:
            speed: Speed above which a revolute drive slides [rad/s]; limits of other drives follow
                from it.
        """
        del speed
        return np.ones((len(samples.time), len(self.channels)), dtype=np.int64)

    def random_samples(self, count: int, rng: np.random.Generator) -> Samples[M]:
        """Return samples in general position, whose rows show all that any motion can."""

    @property
    def independent(self) -> tuple[int, ...]:
        """Columns that are base parameters by themselves, however collinear with others."""
        return ()

    @property
    def redundant(self) -> tuple[int, ...]:
        """Columns of `independent` nearly spanned by others, left out of rank and condition."""
        return self.independent

    @property
    def functions(self) -> tuple[tuple[int, ...], ...]:
        """Groups of columns whose coefficients have a meaning only in their sum, a function."""
        return ()

    @property
    def order(self) -> Sequence[int]:
        """Order in which the other columns are taken into a set of base parameters."""
        return range(len(self.labels) - len(self.independent))

    @property
    def rounding(self) -> float:
        """Size that rounding of the model leaves of dependent columns, relative to the longest."""
        return 0.0

    @property
    def structure(self) -> object:
        """Key of the base parameters, compared by identity; it does not depend on the point."""
        return self

    @property
    def derivatives(self) -> int:
        """Highest derivative of the designed coordinates that rows depend on; see `Excitable`."""
        return 2

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know of the plant's description."""
        return ()

    @property
    def differentiated(self) -> str:
        """Why rows are differentiated where settings leave it open; empty if windows are taken.

        A motion whose friction changes sign between two rows is blurred by the low-pass that makes
        its acceleration; windows blur the friction's column as they blur what is measured.
        """
        return ""

    @property
    def point_columns(self) -> Sequence[int]:
        """Standard columns that rows are taken about; none where rows are linear."""
        return ()

    @property
    def taken_about(self) -> Sequence[int]:
        """Standard columns of which rows depend on that point; all, unless a plant knows better."""
        return range(len(self.labels) if self.point_columns else 0)

    def sensed_alone(self) -> Plant[M]:
        """Return the plant without equations in which nothing is measured; see `Channel.sensed`.

        Cutoff and delay are told by what is measured alone.
        """
        return self

    def about(self, values: Array) -> Plant[M]:
        """Return the plant with rows taken about values of the standard columns, shape (p,).

        Its samples, motion and memory, are the same.
        """
        del values
        return self

    def remember(self, samples: Samples[M], state: Any) -> tuple[Samples[M], Any]:
        """Return samples with their memory, such as presliding, and the state for the next.

        Args:
            samples: Consecutive samples of a recording.
            state: As returned for the samples before; None at a recording's beginning.
        """
        del state
        return samples, None


@runtime_checkable
class Fused(Protocol):
    """A plant that reduces samples to information triangles without storing rows."""

    def reduce(
        self,
        samples: Any,
        columns: Sequence[int],
        channels: Sequence[int] | None = None,
        counted: NDArray[np.bool_] | None = None,
    ) -> tuple[Triangle, ...]:
        """Return one information triangle per channel, of these columns and the measurements.

        Measurements may be those of several looks, shape (N, c, looks): all are right-hand sides.

        Args:
            channels: Positions of the channels that are asked for; all if not given.
            counted: Which rows of each channel count, shape (N, c); all if not given.
        """


@runtime_checkable
class Limbed(Protocol):
    """A plant each of whose channels sees a few columns only, such as those of its own limb.

    Columns that are asked for are ascending.
    """

    def channel_rows(
        self, samples: Any, columns: Sequence[int], channels: Sequence[int] | None = None
    ) -> tuple[ChannelRows, ...]:
        """Return what `Plant.rows` returns, of some or all channels, without zero columns."""

    def channel_sides(self, samples: Any, columns: Sequence[int]) -> Parted:
        """Return both sides of the equations, without columns that a channel never sees."""


@runtime_checkable
class Integrable(Protocol):
    """A plant with a weak form, whose rows can do without acceleration."""

    def sides(self, samples: Any, columns: Sequence[int]) -> Sides:
        """Return momentum and remainder of the equations of motion, of these columns."""


@runtime_checkable
class Predicting(Protocol):
    """A plant that computes `Y x` without forming Y."""

    def predict(self, samples: Any, values: Array) -> Array:
        """Return `Y x` of the standard columns, shape (N, c) [channel's unit]."""


@runtime_checkable
class PointSensitive(Protocol):
    """A plant whose rows depend on the point that they are taken about."""

    def sensitivity(self, samples: Any, values: Array) -> tuple[ChannelRows, ...]:
        """Return d(Y x)/d point, rows of each channel on the standard columns, x in `values`."""


@runtime_checkable
class WithUnknowns(Protocol):
    """A plant with unmeasured actions λ, such as contact wrenches: `Y x = measured − ε + N λ`."""

    @property
    def unknowns(self) -> int:
        """Number k of unknowns λ of a sample."""

    def acting(self, samples: Any) -> Array:
        """Return N, shape (N, c, k), zero in the columns of what does not act at a sample."""

    def acting_rate(self, samples: Any) -> Array:
        """Return the time derivative of N along the motion, same shape, for the weak form."""


@dataclass(frozen=True)
class Coordinate:
    """A coordinate of motion that can be designed."""

    name: str  # such as the joint's
    unit: str  # of its position: rad or m


@runtime_checkable
class Excitable(Protocol):
    """A plant whose motion can be designed: rows at any motion, and gradients of functions of them.

    Its rows are differentiable functions of position, velocity and acceleration of d coordinates,
    without memory.
    """

    @property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """The d coordinates that are designed."""

    def samples_at(self, q: Array, v: Array, a: Array) -> Samples[Any]:
        """Return samples of a motion by q, v, a, shape (N, d) each; what they measured is zero.

        A plant whose `derivatives` are more than two takes these as further arguments, and
        `pull_back` returns a gradient by each.
        """

    def pull_back(
        self, samples: Any, columns: Sequence[int], seeds: Array
    ) -> tuple[Array, Array, Array]:
        """Return the gradients of Σ S·Y by q, v and a, shape (N, d); `seeds` is S, of Y's shape."""
