"""What estimators need of a problem: its rows, their residuals, and what searches move."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeGuard, runtime_checkable

from numpy import bool_, int64, intp
from numpy.typing import NDArray

from heft.arrays import Array
from heft.information import ChannelRows, Information, Labels


class Rows(Protocol):
    """Rows of one contiguous piece of a recording; see `plants.Equations`."""

    @property
    def regressor(self) -> Array:
        """Y, shape (N, channels, b)."""

    @property
    def effort(self) -> Array:
        """τ, shape (N, channels) [N·m or N]."""

    @property
    def time(self) -> Array:
        """Time of each row, shape (N,) [s]."""

    @property
    def recording(self) -> int:
        """Position of the recording in the problem."""


class Residuals(Protocol):
    """Residuals of a contiguous piece of rows; see `plants.Residuals`."""

    @property
    def values(self) -> Array:
        """τ − Y β, shape (N, channels) [N·m or N]."""

    @property
    def noise(self) -> Array:
        """Residuals of the size of the channels' noise, also where unknowns were eliminated.

        Shape (N, channels) [N·m or N].
        """

    @property
    def regressor(self) -> Callable[[NDArray[intp]], Array]:
        """Function of n positions in the piece; returns Y there, shape (n, channels, b)."""

    @property
    def recording(self) -> int:
        """Position of the recording in the problem."""

    @property
    def index(self) -> NDArray[int64] | None:
        """Each row's sample index, shape (N,); None where a row combines many samples."""


@runtime_checkable
class LimbedResiduals(Protocol):
    """Residuals that know which columns each channel sees."""

    def channel_rows(self, at: NDArray[intp]) -> tuple[ChannelRows, ...]:
        """Return Y at n positions in the piece, channel by channel, without known zeros."""


@dataclass(frozen=True, eq=False)
class PlainResiduals:
    """Residuals of a piece from which no unknowns were eliminated; see `Residuals`."""

    values: Array
    regressor: Callable[[NDArray[intp]], Array]
    recording: int
    index: NDArray[int64] | None = None

    @property
    def noise(self) -> Array:
        """The residuals themselves."""
        return self.values


class Elimination(Protocol):
    """Elimination of unknowns of each sample from rows; see `plants.Elimination`."""

    @property
    def redundancy(self) -> Array:
        """M_cc of each sample and channel, shape (N, channels)."""

    def squares(self) -> Array:
        """Return Σ M_cd² over the samples, shape (channels, channels)."""


class MixedResiduals(Residuals, Protocol):
    """Residuals of rows whose unknowns have been eliminated."""

    @property
    def elimination(self) -> Elimination | None:
        """Elimination of the unknowns; None where there are none."""


class Problem(Protocol):
    """A problem about base parameters β; see `plants.Problem`."""

    @property
    def labels(self) -> Labels:
        """Labels of the base parameters β."""

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of the measured channels."""

    @property
    def noise_names(self) -> tuple[str, ...]:
        """Name of each channel's standard deviation; channels of one name share it."""

    @property
    def spacing(self) -> int:
        """Number of rows in a block when rows are decimated; see `noise.thinned`."""

    @property
    def repeats(self) -> float | None:
        """Period of the motion [rows]; None if it is not periodic."""

    def information(self) -> Information:
        """Return the information about β from all rows."""

    def rows(self) -> Iterator[Rows]:
        """Yield all rows, in the order of `residuals`."""

    def residuals(self, values: Array) -> Iterator[Residuals]:
        """Yield the residuals of β, shape (b,), of each contiguous piece."""

    def residual_energy(self, values: Array) -> Array:
        """Return the energy Σ (τ − Y β)² within the motion's band, of β, shape (b,).

        Shape (channels,) [(N·m)² or N²].
        """


class MixedProblem(Problem, Protocol):
    """A problem whose rows may hold unknowns of each sample; see `plants.Problem`."""

    @property
    def has_unknowns(self) -> bool:
        """Whether rows hold unknowns of each sample."""

    @property
    def known_noise(self) -> dict[str, float]:
        """Standard deviation of each channel, by which unknowns are eliminated."""

    def residuals(self, values: Array) -> Iterator[MixedResiduals]:
        """Yield the residuals of β, shape (b,), of each contiguous piece."""

    def with_noise(self, noise: Sequence[float]) -> Self:
        """Return the problem with unknowns eliminated by other standard deviations."""


def mixes_channels(problem: Problem) -> TypeGuard[MixedProblem]:
    """Return whether rows hold unknowns of each sample, whose elimination mixes the channels."""
    return bool(getattr(problem, "has_unknowns", False))


class MovableProblem(Problem, Protocol):
    """A problem whose delay, cutoff and rows the searches for a setting change."""

    @property
    def sensed(self) -> NDArray[bool_]:
        """Which channels something is measured in, shape (c,)."""

    @property
    def delay(self) -> float:
        """Delay of the torque behind the motion [s]."""

    @property
    def corner(self) -> float:
        """Cutoff of the low-pass [Hz]."""

    @property
    def threads(self) -> int:
        """Number of threads that share the work."""

    def delayed(self, delay: float) -> MovableProblem:
        """Return the same problem with the torque later than the motion by `delay` [s]."""

    def later(self, by: Sequence[float]) -> Sequence[MovableProblem] | None:
        """Return the problem with what is measured taken later by each of `by` [s], rows unchanged.

        None where rows are not in memory.
        """

    def shortened(self, rows: int) -> MovableProblem:
        """Return the same problem shortened to about `rows` rows at most."""

    def sharpened(self, factor: float) -> MovableProblem | None:
        """Return the same problem with the low-pass cutoff times `factor`; None if too high."""

    def blurred(self, factor: float) -> MovableProblem:
        """Return the problem with instantaneous rows and residuals at the cutoff times `factor`."""

    def sliding(self, speed: float, settle: float) -> MovableProblem:
        """Return the problem with only the rows in which friction is sliding friction.

        Args:
            speed: Above which a hinge slides [rad/s].
            settle: How long before and after a row it must slide the same way [s].
        """
