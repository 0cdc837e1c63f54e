"""A plant with the recordings of an experiment: what estimators receive.

A problem can be walked as often as a method needs, each time in bounded memory:

    problem.samples()      motion and what was measured, window by window
    problem.rows()         Y and τ of each window, on the base parameters
    problem.information()  the sum of all rows, fused where the plant can

Smoothing, delay, selection, decimation, gaps, open windows of the weak form and low-passes of rows
are here, once for all plants. Problems know nothing of estimators.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Generic, Literal, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from heft import signals
from heft.arrays import Array
from heft.engine import in_order
from heft.errors import InvalidSetting, TooLittleData
from heft.information import BaseParameters, Information, Labels, ParameterSpace
from heft.recordings import Recording
from heft.signals import Smoothing, Timeline, Weak

from .base import structural_base
from .plant import Fused, Plant, PointSensitive, Predicting, Samples
from .rows import Equations, Residuals
from .sampling import Sampler, Survey, surveyed
from .sliding import Counted, information_of, sliding_rows
from .walk import Walk, cuts

SHARED_ROWS = 8_192  # rows that one thread reduces at a time
SHORTEST_FILTERED = 32  # rows of a piece that can be filtered

P = TypeVar("P", bound="Plant[Any]")


def _some(rows: Array, chosen: NDArray[np.intp]) -> Array:
    return rows[chosen]


@dataclass(frozen=True)
class Problem(Generic[P]):
    """A plant and the logs of an experiment with it, ready to be walked.

    Attributes:
        plant: What makes the rows.
        recordings: Logs that can be read again.
        smoothing: How motion is made smooth.
        threads: How many threads share the work; the result does not depend on it.
        purpose: `fit` needs what channels measure; `predict` does without.
        band_hz: Upper end of the motion's band [Hz], where it is not the cutoff.
        weak: Windows of the weak form, whose rows need no acceleration; rows are differentiated
            if not given.
        decimation: How many samples' measurements are averaged into one row, odd; motion is that
            of the middle one.
        keep_samples: Whether smooth motion stays in memory between one walk and the next, as that
            of short logs may.
        counted: Which instantaneous rows count, for each recording by index of the sample, shape
            (samples, channels); all if not given.
        known_survey: What is known of the recordings already; looked for if not given.
    """

    plant: P
    recordings: tuple[Recording, ...]
    smoothing: Smoothing = Smoothing()
    threads: int = 2
    purpose: Literal["fit", "predict"] = "fit"
    band_hz: float | None = None
    weak: Weak | None = None
    decimation: int = 1
    keep_samples: bool = False
    counted: Counted | None = field(default=None, repr=False, compare=False)
    known_survey: Survey | None = field(default=None, repr=False, compare=False)

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
        """The plant's base parameters."""
        return structural_base(self.plant)

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

    # --- samples and rows

    @cached_property
    def walk(self) -> Walk:
        """What walks through the recordings."""
        sampler = Sampler(self.plant, self.recordings, self.survey)
        return Walk(sampler, self.threads, self.weak, self.decimation, self.keep_samples)

    @property
    def has_explicit_rows(self) -> bool:
        """Whether rows combine many samples each and must be formed explicitly."""
        return self.walk.has_explicit_rows

    def samples(self) -> Iterator[Samples[Any]]:
        """Yield motion and what was measured, window by window, at the log's own times."""
        return self.walk.samples()

    def rows(self) -> Iterator[Equations]:
        """Yield the rows of each window, on the base parameters."""
        return self.walk.equations(self.base.kept)

    # --- what rows say

    def information(self) -> Information:
        """Return the information about the base parameters β from all rows.

        Raises:
            TooLittleData: If no rows are left.
        """
        total = Information.neutral(self.labels, self.channels)
        for part in self._reduced(SHARED_ROWS):
            total = total + part
        if total.rows == 0 and self.counted is None:
            raise _no_rows(self)
        return total

    def information_blocks(self, count: int, rows: int) -> tuple[Information, ...]:
        """Return the information of contiguous blocks of the logs; their sum is `information()`.

        For the jackknife: leaving a block out needs no rows.

        Args:
            count: Number of blocks asked for; fewer are returned if there are too few rows.
            rows: Number of samples of the logs, about; blocks are equal as far as it is right.

        Raises:
            TooLittleData: If no rows are left.
        """
        size = max(1, -(-rows // count))
        blocks: list[Information] = []
        room = 0  # samples that the last block may still take
        for part in self._reduced(min(SHARED_ROWS, size), size):
            taken = part.triangles[0].rows
            if room <= 0:
                if len(blocks) < count:
                    blocks.append(Information.neutral(self.labels, self.channels))
                room = size
            blocks[-1] = blocks[-1] + part
            room -= taken
        if not blocks:
            raise _no_rows(self)
        return tuple(blocks)

    def _reduced(self, most: int, block: int | None = None) -> Iterator[Information]:
        """Yield information, part by part.

        Args:
            most: Samples in a part at most.
            block: Number of samples at whose multiples parts end; None for wherever they do.
        """
        plant, labels, channels = self.plant, self.labels, self.channels
        if self.counted is not None:
            columns, counted = self.base.kept, self.counted
            yield from information_of(self.walk, labels, channels, columns, counted)
            return
        if isinstance(plant, Fused) and not self.has_explicit_rows:
            columns = self.base.kept
            reduce = plant.reduce
            yield from in_order(
                lambda s: Information(labels, channels, reduce(s, columns)),
                self.walk.parts(most, block),
                self.threads,
            )
            return
        done = 0
        for r in self.walk.equations(self.base.kept):
            for cut in cuts(len(r.time), most if block else len(r.time), block, done):
                yield Information.from_rows(labels, channels, r.regressor[cut], r.effort[cut])
            done += len(r.time)

    def residuals(self, values: Array) -> Iterator[Residuals]:
        """Yield τ − Y β by pieces without gaps.

        Args:
            values: β, shape (b,).
        """
        if self.has_explicit_rows:
            for r in self.rows():
                left = r.effort - r.regressor @ values
                yield Residuals(left, partial(_some, r.regressor), r.recording, None)
            return
        plant, kept = self.plant, self.base.kept

        def regressor(s: Samples[Any], piece: NDArray[np.intp], rows: NDArray[np.intp]) -> Array:
            return plant.rows(s.part(piece[rows]), kept).regressor

        for s, predicted in self.predictions(self.base.spread(values)):
            left = s.measured - predicted
            cuts = np.flatnonzero(np.diff(s.index) > 1) + 1
            for rows in np.split(np.arange(len(left)), cuts):
                made = partial(regressor, s, rows)
                yield Residuals(left[rows], made, s.recording, s.index[rows])

    def predictions(self, values: Array) -> Iterator[tuple[Samples[Any], Array]]:
        """Yield samples with what is predicted of their measurements, shape (N, c).

        Args:
            values: Of the standard columns, shape (p,).
        """
        plant = self.plant

        def work(s: Samples[Any]) -> tuple[Samples[Any], Array]:
            if isinstance(plant, Predicting):
                return s, plant.predict(s, values)
            columns = range(len(values))
            return s, np.asarray(cast("Plant[Any]", plant).rows(s, columns).regressor @ values)

        whole = isinstance(plant, Predicting)
        parts = self.samples() if whole else self.walk.parts(self.walk.dense_rows)
        return in_order(work, parts, self.threads)

    def residual_energy(self, values: Array) -> Array:
        """Return the energy of τ − Y β in the motion's band, shape (c,).

        Rows that do not count have no residual: what friction does there is not to be passed on by
        the filter.

        Args:
            values: β, shape (b,).
        """
        total, counted = np.zeros(len(self.channels)), self.counted
        for piece in self.residuals(values):
            if self.has_explicit_rows:  # rows that hold nothing above the band
                total += np.sum(piece.values**2, axis=0)
            elif len(piece.values) > SHORTEST_FILTERED:
                step = self.decimation * self.timelines[piece.recording].step
                counts = True if counted is None else counted[piece.recording][piece.index]
                left = np.where(counts, piece.values, 0.0)
                smooth = np.where(counts, signals.low_pass(left, step, self.band_corner), 0.0)
                total += np.sum(smooth**2, axis=0)
        return total

    @property
    def spacing(self) -> int:
        """How many rows may stand for one: motion hardly changes within an eighth of a period."""
        if self.has_explicit_rows:
            return 1
        return max(1, int(min(1.0 / (8.0 * self.corner * t.step) for t in self.timelines)))

    @property
    def repeats(self) -> float | None:
        """After how many rows the motion repeats, if it does and rows are evenly spaced."""
        line = self.timelines[0]
        if self.has_explicit_rows or len(self.recordings) > 1 or line.segments > 1 or line.gaps:
            return None
        period = self.smoothing.period
        if period is None:
            names = [s.name for s in self.survey.inputs[0].motion if s.derivatives]
            try:
                period = signals.period_of(self.recordings[0], names, line.step)
            except InvalidSetting:
                return None
        return period / line.step

    # --- the same problem otherwise

    def with_settings(self, **changes: Any) -> Problem[P]:
        """Return a problem with the same recordings, which need not be looked at again."""
        smoothing = changes.pop("smoothing", self.resolved)
        inputs = self.survey.inputs
        if "plant" in changes:  # which may take signals otherwise, by other gains
            measured = self.purpose == "fit"
            inputs = tuple(changes["plant"].inputs(r, measured) for r in self.recordings)
        survey = replace(self.survey, inputs=inputs, smoothing=smoothing)
        return replace(self, smoothing=smoothing, known_survey=survey, **changes)

    def with_recordings(self, recordings: Sequence[Recording], **changes: Any) -> Problem[P]:
        """Return a problem with other recordings, at the cutoff chosen here."""
        changes = {"smoothing": self.resolved, "known_survey": None, "counted": None, **changes}
        return replace(self, recordings=tuple(recordings), **changes)

    def held_out(self, recording: Recording) -> Problem[P]:
        """Return a problem with one other recording, at the cutoff chosen here.

        The cutoff is lower if the recording's sampling rate does not allow it.
        """
        return self.with_recordings(
            [recording], smoothing=signals.limited(self.resolved, recording)
        )

    def about(self, values: Array) -> Problem[P]:
        """Return the problem with rows taken about values.

        Args:
            values: Of what is stated, `space.labels`, shape (n,).
        """
        point = self.plant.space.matrix @ values
        return self.with_settings(plant=self.plant.about(point))

    def delayed(self, delay: float) -> Problem[P]:
        """Return the problem with what is measured that much behind motion [s]."""
        return self.with_settings(smoothing=replace(self.resolved, delay=delay))

    def sharpened(self, factor: float) -> Problem[P] | None:
        """Return the problem with the cutoff times a factor, None if the sampling leaves no room.

        Residuals are still compared in the band of the cutoff chosen before.
        """
        corner = factor * self.corner
        if corner > self.highest_corner:
            return None
        smoothing = replace(self.resolved, corner=corner)
        return self.with_settings(smoothing=smoothing, band_hz=self.band_corner)

    def holding_windows(self) -> Problem[P]:
        """Return the problem with the weak form's windows as they are, whatever the cutoff.

        What another cutoff does to the motion can then be told from what another window does to
        the noise.
        """
        if self.weak is None:
            return self
        step = self.decimation * min(t.step for t in self.timelines)
        length = self.weak.windows(self.corner, step).length
        return self.with_settings(weak=replace(self.weak, length=length))

    def blurred(self, factor: float) -> Problem[P]:
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

    def sliding(self, speed: float, settle: float) -> Problem[P]:
        """Return the problem of which only rows count in which what rubs slides.

        Which they are is found at the delay of this problem, and stays when that changes.

        Args:
            speed: Above which a hinge slides [rad/s]; see `Plant.sliding`.
            settle: How long before and after a row it must slide the same way [s].
        """
        gaps = [signals.GAP_STEPS * self.decimation * t.step for t in self.timelines]
        return replace(self, counted=sliding_rows(self.samples(), self.plant, speed, settle, gaps))

    def shortened(self, rows: int) -> Problem[P]:
        """Return the problem from the logs' beginnings, for a quick look.

        Motion and friction hardly change within a thirtieth of a period of the cutoff, nor do
        residuals in the band.

        Args:
            rows: At most about how many samples.
        """
        share = rows // len(self.recordings)
        step = max(t.step for t in self.timelines)
        decimation = 2 * int(0.5 / (32.0 * max(self.corner, self.band_corner) * step)) + 1
        shorter = [r.window(0, share) for r in self.recordings]
        return self.with_recordings(shorter, keep_samples=True, decimation=decimation)


def _no_rows(problem: Problem[Any]) -> TooLittleData:
    lines = problem.timelines
    return TooLittleData(
        "no rows are left of these logs",
        argument=", ".join(r.name for r in problem.recordings),
        got=f"{sum(t.used for t in lines)} usable rows in {sum(t.segments for t in lines)} "
        f"pieces, {problem.resolved.trim:g} s cut at each end of a piece",
        cure="give longer logs, or cut less (--trim)",
    )


def point_moments(problem: Problem[Any], values: Array, errors: Array) -> tuple[Array, ...]:
    """Return what errors of the point do to the estimate, by way of the rows.

    The point that rows are taken about is itself an estimate: of load-dependent friction, the
    rigid torque that presses on the gears.

    Args:
        problem: Whose rows.
        values: β, shape (b,).
        errors: Of the point, one standard deviation each, shape (p, errors).

    Returns:
        For each channel the mean of `Yᵀe` over rows, e being what each error does to what is
        predicted; shape (errors, b). See `estimators.Noise`.
    """
    plant, kept = problem.plant, problem.base.kept
    assert isinstance(plant, PointSensitive)
    standard = problem.base.spread(values)
    total = np.zeros((len(problem.channels), errors.shape[1], len(kept)))
    rows = 0
    for s in problem.samples():
        every = max(1, int(1.0 / (8.0 * problem.corner * problem.timelines[s.recording].step)))
        part = s.part(slice(every // 2, None, every))
        moved = plant.sensitivity(part, standard, errors)
        chosen = cast("Plant[Any]", plant).rows(part, kept).regressor
        for c in range(len(total)):
            total[c] += moved[:, c].T @ chosen[:, c]
        rows += len(part.time)
    return tuple(total / max(rows, 1))
