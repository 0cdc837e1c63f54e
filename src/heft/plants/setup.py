"""A plant with the recordings of an experiment and its settings, and the same with others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, Literal, Self, TypeVar

from heft import signals
from heft.arrays import Array
from heft.information import BaseParameters, Labels, ParameterSpace
from heft.recordings import Recording
from heft.signals import Smoothing, Timeline, Weak

from .base import extended_base, structural_base
from .plant import Plant, Samples
from .sampling import Sampler, Survey, surveyed
from .sliding import Counted, sliding_rows
from .walk import Walk

P = TypeVar("P", bound="Plant[Any]")
ENOUGH_ROWS = 10.0  # that quick looks leave for each column
LOG_BYTES = 64 << 20  # of a recording's signals that stay in memory
DENSE_SAMPLES = 6_000  # that a quick look takes of logs whose rows mix all channels
AVERAGED_SHARE = 12.0  # of a period of the cutoff, over which quick looks average


@dataclass(frozen=True)
class Setup(Generic[P]):
    """A plant and the logs of an experiment with it: what estimators receive.

    Make one to use an estimator by itself; `identify` and `identify_plant` make their own.
    """

    plant: P  # what makes the rows
    recordings: tuple[Recording, ...]  # logs that can be read again
    smoothing: Smoothing = Smoothing()  # how motion is made smooth
    threads: int = 2  # how many threads share the work; the result does not depend on it
    # `fit` needs what channels measure; `predict` does without
    purpose: Literal["fit", "predict"] = "fit"
    band_hz: float | None = None  # upper end of the motion's band [Hz], where it is not the cutoff
    # windows of the weak form, whose rows need no acceleration; rows are differentiated if not
    # given
    weak: Weak | None = None
    # how many samples' measurements are averaged into one row, odd; motion is that of the middle
    # one
    decimation: int = 1
    # whether smooth motion stays in memory between one walk and the next, as that of short logs may
    keep_samples: bool = False
    # which instantaneous rows count, for each recording by index of the sample, shape (samples,
    # channels); all if not given
    counted: Counted | None = field(default=None, repr=False, compare=False)
    # what is known of the recordings already; looked for if not given
    known_survey: Survey | None = field(default=None, repr=False, compare=False)
    # standard deviation of each channel's noise [channel's unit], by which unknowns of each sample
    # (`WithUnknowns`) are eliminated; one if not given
    noise: tuple[float, ...] | None = None
    # base parameters where they are not those of the plant alone; see `telling`
    known_base: BaseParameters | None = field(default=None, repr=False, compare=False)

    # --- what is walked

    @cached_property
    def survey(self) -> Survey:
        """Signals, clocks and smoothing of the recordings."""
        if self.known_survey is not None:
            return self.known_survey
        measured = self.purpose == "fit"
        return surveyed(self.plant, self.recordings, self.smoothing, measured)

    @property
    def timelines(self) -> tuple[Timeline, ...]:
        """Timeline of each recording: its sampling rate and gaps."""
        return self.survey.timelines

    @property
    def resolved(self) -> Smoothing:
        """The smoothing with its cutoff chosen."""
        return self.survey.smoothing

    @property
    def delay(self) -> float:
        """Delay of the measurements behind the motion [s]."""
        return self.resolved.delay or 0.0

    @property
    def corner(self) -> float:
        """Cutoff of the low-pass [Hz]."""
        return self.walk.sampler.cutoff

    @property
    def highest_corner(self) -> float:
        """Highest cutoff that the sampling rates allow [Hz]."""
        return signals.LARGEST_CORNER / max(t.step for t in self.timelines)

    @property
    def band_corner(self) -> float:
        """Upper end of the motion's band [Hz]."""
        return self.band_hz or self.corner

    @cached_property
    def base(self) -> BaseParameters:
        """The plant's base parameters, extended by the combinations of `telling`."""
        return self.known_base or structural_base(self.plant)

    def telling(self, matrix: Array) -> Self:
        """Return the problem with base parameters that also determine these combinations.

        Args:
            matrix: Combinations of standard columns, a row each, shape (k, p).
        """
        return replace(self, known_base=extended_base(self.plant, self.base, matrix))

    @property
    def labels(self) -> Labels:
        """Labels of the base parameters."""
        return self.base.labels

    @cached_property
    def space(self) -> ParameterSpace:
        """Reported parameters x and their map to the base parameters β."""
        return self.plant.space.seen_through(self.base.matrix)

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of the channels."""
        return tuple(c.name for c in self.plant.channels)

    @property
    def noise_names(self) -> tuple[str, ...]:
        """Name of each channel's standard deviation; channels of one name share it."""
        return tuple(c.noise_name for c in self.plant.channels)

    def with_noise(self, noise: Sequence[float]) -> Self:
        """Return the problem with unknowns of each sample eliminated by other standard deviations.

        Args:
            noise: Standard deviation of each channel, shape (channels,) [channel's unit].
        """
        return self.with_settings(noise=tuple(float(s) for s in noise))

    # --- samples and rows

    @cached_property
    def walk(self) -> Walk:
        """Walk through the samples and rows of the recordings."""
        sampler = Sampler(self.plant, self.recordings, self.survey)
        return Walk(
            sampler, self.threads, self.weak, self.decimation, self.keep_samples, self.noise
        )

    @property
    def has_unknowns(self) -> bool:
        """Whether unmeasured actions, such as contact wrenches, are eliminated from each sample."""
        return self.walk.mixes

    @property
    def known_noise(self) -> dict[str, float]:
        """Standard deviation of each channel by its name, where unknowns are eliminated by it.

        Rows are then what is to be weighed by these and no others.
        """
        if not self.has_unknowns:
            return {}
        noise = self.noise or (1.0,) * len(self.channels)
        return dict(zip(self.channels, noise, strict=True))

    @property
    def has_explicit_rows(self) -> bool:
        """Whether rows combine many samples each and must be formed explicitly."""
        return self.walk.has_explicit_rows

    def samples(self) -> Iterator[Samples[Any]]:
        """Yield motion and what was measured, window by window, at the log's own times."""
        return self.walk.samples()

    # --- the same otherwise

    def with_settings(self, **changes: Any) -> Self:
        """Return a problem with the same recordings, which need not be looked at again."""
        smoothing = changes.pop("smoothing", self.resolved)
        inputs = self.survey.inputs
        if "plant" in changes:  # which may take signals otherwise, by other gains
            measured = self.purpose == "fit"
            inputs = tuple(changes["plant"].inputs(r, measured) for r in self.recordings)
        survey = replace(self.survey, inputs=inputs, smoothing=smoothing)
        return replace(self, smoothing=smoothing, known_survey=survey, **changes)

    def with_recordings(self, recordings: Sequence[Recording], **changes: Any) -> Self:
        """Return a problem with other recordings, at the cutoff chosen here."""
        changes = {"smoothing": self.resolved, "known_survey": None, "counted": None, **changes}
        return replace(self, recordings=tuple(recordings), **changes)

    def held_out(self, recording: Recording) -> Self:
        """Return a problem with one other recording, at the cutoff chosen here.

        The cutoff is lower if the recording's sampling rate does not allow it.
        """
        return self.with_recordings(
            [recording], smoothing=signals.limited(self.resolved, recording)
        )

    def about(self, values: Array) -> Self:
        """Return the problem with rows taken about values.

        Args:
            values: Stated parameters x of the plant's `space`, shape (n,).
        """
        point = self.plant.space.matrix @ values
        return self.with_settings(plant=self.plant.about(point))

    def delayed(self, delay: float) -> Self:
        """Return the problem with measurements delayed behind the motion by `delay` [s]."""
        return self.with_settings(smoothing=replace(self.resolved, delay=delay))

    def sharpened(self, factor: float) -> Self | None:
        """Return the problem with the cutoff times a factor, None if the sampling leaves no room.

        Residuals are still compared in the band of the cutoff chosen before.
        """
        corner = factor * self.corner
        if corner > self.highest_corner:
            return None
        smoothing = replace(self.resolved, corner=corner)
        return self.with_settings(smoothing=smoothing, band_hz=self.band_corner)

    def holding_windows(self) -> Self:
        """Return the problem with the weak form's windows as they are, whatever the cutoff.

        What another cutoff does to the motion can then be told from what another window does to
        the noise.
        """
        if self.weak is None:
            return self
        step = self.decimation * min(t.step for t in self.timelines)
        length = self.weak.windows(self.corner, step).length
        return self.with_settings(weak=replace(self.weak, length=length))

    def blurred(self, factor: float) -> Self:
        """Return the problem with instantaneous rows at the cutoff times a factor of at most 1.

        Residuals are compared in the band of that cutoff.
        """
        corner = factor * self.corner
        smoothing = replace(
            self.resolved,
            corner=corner,
            corners=None,
            torque="raw",
            method="butterworth",
            period=None,
        )
        return self.with_settings(smoothing=smoothing, weak=None, band_hz=None)

    def in_memory(self) -> Self:
        """Return the problem with small recordings held in memory.

        Each walk reads a recording anew otherwise.
        """
        kept = []
        for recording, inputs, line in zip(
            self.recordings, self.survey.inputs, self.timelines, strict=True
        ):
            small = 8 * line.rows * len(inputs.names) <= LOG_BYTES
            kept.append(recording.in_memory(inputs.names) if small else recording)
        return self.with_settings(recordings=tuple(kept))

    def sliding(self, speed: float, settle: float) -> Self:
        """Return the problem that counts only rows in which friction slides.

        Which they are is found at the delay of this problem, and stays when that changes.

        Args:
            speed: Speed above which a revolute drive slides [rad/s]; see `Plant.sliding`.
            settle: How long before and after a row it must slide the same way [s].
        """
        gaps = [signals.GAP_STEPS * self.decimation * t.step for t in self.timelines]
        return replace(self, counted=sliding_rows(self.samples(), self.plant, speed, settle, gaps))

    def thinned(self) -> Self:
        """Return the problem with as few rows as the motion needs, where rows are costly.

        Rows that mix channels are dense, and made many times. Measurements averaged over a twelfth
        of a period of the cutoff lose 1 % there and nothing in the motion's band, a twentieth of
        it.
        """
        if not self.has_unknowns:
            return self
        return self.with_settings(
            decimation=max(self.decimation, self._averaged_over(AVERAGED_SHARE))
        )

    def _averaged_over(self, share: float) -> int:
        """Return the odd number of samples in 1/share of a period of the cutoff, at least 1."""
        step = max(t.step for t in self.timelines)
        return 2 * int(0.5 / (share * max(self.corner, self.band_corner) * step)) + 1

    def is_short(self, rows: int) -> bool:
        """Return whether `shortened` would leave all rows as they are.

        Args:
            rows: Approximate limit on the number of samples.
        """
        rows = min(rows, DENSE_SAMPLES) if self.has_unknowns else rows
        whole = all(t.rows <= rows // len(self.recordings) for t in self.timelines)
        # Windows of the weak form weigh every sample.
        alike = self.weak is not None or self._quick_decimation == self.decimation
        return whole and alike and self.counted is None

    @property
    def _quick_decimation(self) -> int:
        """Odd number of samples that a quick look averages into one row."""
        rows = len(self.channels) * sum(t.used for t in self.timelines)
        most = int(rows / (ENOUGH_ROWS * max(len(self.labels), 1)))
        return min(self._averaged_over(AVERAGED_SHARE), max(1, most - 1 + most % 2))

    def shortened(self, rows: int) -> Self:
        """Return the problem on the beginnings of the logs, for a quick look.

        Motion and friction hardly change within a twelfth of a period of the cutoff, nor do
        residuals in the band; see `thinned`.

        Args:
            rows: Approximate limit on the number of samples.
        """
        decimation = self._quick_decimation
        if self.has_unknowns:
            rows = min(rows, DENSE_SAMPLES)
        share = rows // len(self.recordings)
        names = [inputs.names for inputs in self.survey.inputs]
        shorter = [
            r.window(0, share).in_memory(n) for r, n in zip(self.recordings, names, strict=True)
        ]
        return self.with_recordings(shorter, keep_samples=True, decimation=decimation)
