"""A plant with the recordings of an experiment: what estimators receive.

A problem can be walked as often as a method needs, each time in bounded memory:

    problem.samples()      motion and what was measured, window by window
    problem.rows()         Y and τ of each window, on the base parameters
    problem.information()  the sum of all rows, fused where the plant can

Smoothing, delay, selection, decimation, gaps, open windows of the weak form and low-passes of rows
are done once for all plants, in `sampling` and `walk`. Problems know nothing of estimators.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Generic, Literal, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from heft import signals
from heft.arrays import Array
from heft.engine import in_order
from heft.errors import InvalidSetting, TooLittleData
from heft.information import BaseParameters, ChannelRows, Information, Labels, ParameterSpace
from heft.recordings import Recording
from heft.signals import Smoothing, Timeline, Weak

from .base import extended_base, structural_base
from .plant import Fused, Limbed, Plant, PointSensitive, Predicting, Samples
from .rows import Equations, Residuals
from .sampling import Counted, Survey, sliding_rows
from .walk import Walk, cuts

P = TypeVar("P", bound="Plant[Any]")


@dataclass(frozen=True)
class Problem(Generic[P]):
    """A plant and the logs of an experiment with it, ready to be walked.

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
        measured = self.purpose == "fit"
        return self.known_survey or Survey.of(self.plant, self.recordings, self.smoothing, measured)

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
        return self.survey.cutoff

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
        """Return the problem with base parameters that also determine combinations of columns.

        They are rows of the matrix, shape (k, p).
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

    # --- the same otherwise

    def with_settings(self, **changes: Any) -> Self:
        """Return a problem with the same recordings, which need not be looked at again."""
        smoothing = changes.pop("smoothing", self.resolved)
        inputs = self.survey.inputs
        if "plant" in changes:  # which may take signals otherwise, by other gains
            measured = self.purpose == "fit"
            inputs = tuple(changes["plant"].inputs(r, measured) for r in self.recordings)
        survey = replace(self.survey, inputs=inputs, smoothing=smoothing)
        made = replace(self, smoothing=smoothing, known_survey=survey, **changes)
        if smoothing == self.resolved and not changes.keys() & {
            "plant",
            "recordings",
            "decimation",
        }:
            made.walk.sharing(self.walk)
        return made

    def with_recordings(self, recordings: Sequence[Recording], **changes: Any) -> Self:
        """Return a problem with other recordings, at the cutoff chosen here."""
        changes = {"smoothing": self.resolved, "known_survey": None, "counted": None, **changes}
        return replace(self, recordings=tuple(recordings), **changes)

    def held_out(self, recording: Recording) -> Self:
        """Return a problem with one other recording, at the cutoff chosen here.

        The cutoff is lower if the recording's sampling rate does not allow it.
        """
        smoothing = signals.limited(self.resolved, recording)
        return self.with_recordings([recording], smoothing=smoothing)

    def with_noise(self, noise: Sequence[float]) -> Self:
        """Return the problem with unknowns eliminated by other noise of each channel [its unit]."""
        return self.with_settings(noise=tuple(float(s) for s in noise))

    def about(self, values: Array | None) -> Self:
        """Return the problem with rows taken about parameters x of `space`, (n,), if any."""
        if values is None:
            return self
        made = self.with_settings(plant=self.plant.about(self.plant.space.matrix @ values))
        made.walk.sharing(self.walk)
        if "_walked_rows" in vars(self) and not self.has_unknowns:
            about = set(self.plant.taken_about)
            places = [k for k, column in enumerate(self.base.kept) if column in about]
            anew = made.walk.equations([self.base.kept[k] for k in places])
            both = zip(self._walked_rows, anew, strict=True)
            vars(made)["_walked_rows"] = tuple(rows.exchanged(own, places) for rows, own in both)
        return made

    def delayed(self, delay: float) -> Self:
        """Return the problem with measurements delayed behind the motion by `delay` [s]."""
        return self.with_settings(smoothing=replace(self.resolved, delay=delay))

    def later(self, by: Sequence[float]) -> list[Self] | None:
        """Return the problem with measurements delayed further, its regressors unchanged.

        For looks at delays larger by `by` [s] that cost no motion: where they are of samples, they
        are summed up in one reduction, with this problem's own. It is as smooth as it was, and
        windows stay where they are in it. None where neither rows nor samples are kept, or mix
        samples otherwise than by windows alone.
        """
        looks = [self.delayed(self.delay + delay) for delay in by]
        if not self.keeps_rows and (self.has_explicit_rows or not self.keep_samples):
            return None
        for look, delay in zip(looks, by, strict=True):
            if self.keeps_rows:
                rows: tuple[Any, ...] | None = self.walk.later(self._kept_rows, delay)
                vars(look)["_kept_rows"] = rows  # in place of those of a walk
            else:
                rows = self.walk.samples_later(tuple(self.samples()), delay)
                vars(look.walk)["_kept_samples"] = rows  # likewise
            if rows is None:
                return None
        plant = self.plant
        if looks and not self.keeps_rows and isinstance(plant, Fused):
            every = [p for p in (self, *looks) if "_information" not in vars(p)]
            parts = zip(*(look.walk.parts(self.walk.shared_rows) for look in every), strict=True)
            sums = [Information.neutral(self.labels, self.channels)] * len(every)
            for made in in_order(lambda part: self._fused(plant, part), parts, self.threads):
                sums = [total + own for total, own in zip(sums, made, strict=True)]
            for look, total in zip(every, sums, strict=True):
                vars(look)["_information"] = total
        return looks

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
        length = self.weak.windows(self.corner, min(t.step for t in self.timelines)).length
        return self.with_settings(weak=replace(self.weak, length=length))

    def blurred(self, factor: float) -> Self:
        """Return the problem with instantaneous rows at the cutoff times a factor of at most 1.

        Residuals are compared in the band of that cutoff.
        """
        smoothing = replace(
            self.resolved,
            corner=factor * self.corner,
            corners=None,
            torque="raw",
            method="butterworth",
            period=None,
        )
        if (smoothing, self.weak, self.band_hz) == (self.resolved, None, None):
            return self
        return self.with_settings(smoothing=smoothing, weak=None, band_hz=None)

    def in_memory(self) -> Self:
        """Return the problem with small recordings held in memory.

        Each walk reads a recording anew otherwise.
        """
        kept = []
        for recording, inputs, line in zip(
            self.recordings, self.survey.inputs, self.timelines, strict=True
        ):
            small = 8 * line.rows * len(inputs.names) <= (64 << 20)  # bytes that stay in memory
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
        counted = sliding_rows(self.samples(), self.plant, speed, settle, gaps)
        made = replace(self, counted=counted)
        vars(made)["walk"] = self.walk  # and what it keeps
        return made

    def thinned(self) -> Self:
        """Return the problem with as few rows as the motion needs, where rows are costly.

        Rows that mix channels are dense, and made many times. Measurements averaged over a twelfth
        of a period of the cutoff lose 1 % there and nothing in the motion's band, a twentieth of
        it.
        """
        if not self.has_unknowns or self.weak is not None:
            return self
        return self.with_settings(decimation=max(self.decimation, self._averaged))

    @property
    def _averaged(self) -> int:
        """Odd number of samples in a share of a period of the cutoff, at least 1."""
        step = max(t.step for t in self.timelines)
        # A twelfth of a period of the cutoff is averaged.
        return 2 * int(0.5 / (12.0 * max(self.corner, self.band_corner) * step)) + 1

    @property
    def _quick_decimation(self) -> int:
        """Odd number of samples that a quick look averages into one row."""
        rows = len(self.channels) * sum(t.used for t in self.timelines)
        most = int(rows / (10.0 * max(len(self.labels), 1)))  # rows for each column
        return min(self._averaged, max(1, most - 1 + most % 2))

    def _share(self, rows: int) -> int:
        """Return how many samples of each recording a quick look at some takes."""
        # Of logs whose rows mix all channels fewer samples are taken: these rows are costly.
        return (min(rows, 6_000) if self.has_unknowns else rows) // len(self.recordings)

    def is_short(self, rows: int) -> bool:
        """Return whether `shortened` to this number of rows would leave all as they are."""
        # Windows of the weak form weigh every sample.
        alike = self.weak is not None or self._quick_decimation == self.decimation
        return self._is_entire(rows) and alike and self.counted is None

    def _is_entire(self, rows: int) -> bool:
        return all(t.rows <= self._share(rows) for t in self.timelines)

    def shortened(self, rows: int) -> Self:
        """Return the problem on the beginnings of the logs, some `rows` samples, for a quick look.

        Motion and friction hardly change within a twelfth of a period of the cutoff, nor do
        residuals in the band; see `thinned`. A window of the weak form weighs eighty at least.
        """
        if self.keep_samples and self.is_short(rows):
            return self
        decimation = self._quick_decimation
        if self.weak is not None:
            step = max(t.step for t in self.timelines)
            most = self.weak.windows(self.corner, step).length / (80.0 * step)
            decimation = 2 * int(0.5 * max(most - 1.0, 0.0)) + 1
        if self._is_entire(rows):  # what a survey showed of them is known
            made = self.in_memory().with_settings(decimation=decimation)
            return replace(made, keep_samples=True, counted=None)
        shorter = [
            recording.window(0, self._share(rows)).in_memory(inputs.names)
            for recording, inputs in zip(self.recordings, self.survey.inputs, strict=True)
        ]
        return self.with_recordings(shorter, keep_samples=True, decimation=decimation)

    # --- samples and rows

    @cached_property
    def walk(self) -> Walk:
        """Walk through the samples and rows of the recordings."""
        looked = self.plant, self.recordings, self.survey
        return Walk(
            *looked, self.decimation, self.threads, self.weak, self.keep_samples, self.noise
        )

    @property
    def has_explicit_rows(self) -> bool:
        """Whether rows combine many samples each and must be formed explicitly."""
        return self.walk.has_explicit_rows

    def samples(self) -> Iterator[Samples[Any]]:
        """Yield motion and what was measured, window by window, at the log's own times."""
        return self.walk.samples()

    def rows(self) -> Iterator[Equations]:
        """Yield the rows of each window, on the base parameters."""
        if self.keeps_rows:
            return iter(self._kept_rows)
        return self.walk.equations(self.base.kept)

    @property
    def window_count(self) -> float:
        """Approximate number of windows of the weak form; 0 for differentiated rows."""
        if self.weak is None:
            return 0.0
        made = ((t, self.weak.windows(self.corner, t.step)) for t in self.timelines)
        return sum(max(0.0, t.used * t.step - w.length) / w.stride for t, w in made)

    @cached_property
    def keeps_rows(self) -> bool:
        """Whether rows of the weak form are few enough to stay in memory."""
        if self.weak is None:
            return False
        plant, kept = self.plant, self.base.kept
        room = (256 << 20) / (8.0 * max(self.window_count, 1.0))  # columns, without known zeros
        if len(self.channels) * len(kept) <= room:
            return True
        if self.has_unknowns or not isinstance(plant, Limbed):
            return False
        one = plant.random_samples(1, np.random.default_rng(0))
        return sum(map(len, plant.channel_sides(one, kept).columns)) <= room

    @cached_property
    def _walked_rows(self) -> tuple[Equations, ...]:
        return tuple(self.walk.equations(self.base.kept))

    @cached_property
    def _kept_rows(self) -> tuple[Equations, ...]:
        return self._walked_rows

    def steady(self, friction: Array, spread: Array) -> Self | None:
        """Return the problem whose rows lack what changes steadily through each log.

        Of each channel the random effects `(t − t̄) Y F γ` are taken out of rows and measurements
        alike, t in lengths of the log. None where rows are not kept, or unknowns are eliminated.

        Args:
            friction: F, combinations of β, shape (b, effects).
            spread: Deviation of each channel's slow noise over that of γ, shape (channels,).
        """
        if not self.keeps_rows or self.has_unknowns or self.counted is not None:
            return None
        made = []
        for k in range(len(self.recordings)):
            pieces = [r for r in self._kept_rows if r.recording == k]
            if not pieces:
                continue
            one = Equations.joined(pieces)
            place = (one.time - one.time.mean()) / max(float(np.ptp(one.time)), 1e-300)
            by_channel, effort = [], one.effort.copy()
            for c, rows in enumerate(one.by_channel):
                changes = place[:, None] * (rows.values @ friction[rows.columns])
                inner = changes.T @ changes + spread[c] ** 2 * np.eye(changes.shape[1])
                gain = np.linalg.solve(inner, changes.T)
                left = rows.values - changes @ (gain @ rows.values)
                by_channel.append(ChannelRows(rows.columns, left))
                effort[:, c] -= changes @ (gain @ effort[:, c])
            made.append(replace(one, by_channel=tuple(by_channel), effort=effort))
        steady = self.with_settings()
        vars(steady)["_kept_rows"] = tuple(made)  # in place of those of a walk
        return steady

    # --- what rows say

    def information(self) -> Information:
        """Return the information about the base parameters β from all rows.

        Raises:
            TooLittleData: If no rows are left.
        """
        return self._information

    @cached_property
    def _information(self) -> Information:
        total = Information.neutral(self.labels, self.channels)
        for part in self._reduced(self.walk.shared_rows):
            total = total + part
        if total.rows == 0 and self.counted is None:
            raise self._no_rows()
        return total

    def information_blocks(self, count: int, rows: int) -> tuple[Information, ...]:
        """Return the information of contiguous blocks of the logs; their sum is `information()`.

        For the jackknife: leaving a block out needs no rows.

        Args:
            count: Number of blocks asked for; fewer are returned if there are too few rows.
            rows: Approximate number of samples of the logs; blocks are equal as far as it is right.

        Raises:
            TooLittleData: If no rows are left.
        """
        size = max(1, -(-rows // count))
        blocks: list[Information] = []
        room = 0  # samples that the last block may still take
        for part in self._reduced(min(self.walk.shared_rows, size), size):
            taken = part.triangles[0].rows
            if room <= 0:
                if len(blocks) < count:
                    blocks.append(Information.neutral(self.labels, self.channels))
                room = size
            blocks[-1] = blocks[-1] + part
            room -= taken
        if not blocks:
            raise self._no_rows()
        return tuple(blocks)

    def _no_rows(self) -> TooLittleData:
        lines = self.timelines
        return TooLittleData(
            "no rows are left of these logs",
            argument=", ".join(r.name for r in self.recordings),
            got=f"{sum(t.used for t in lines)} usable rows in {sum(t.segments for t in lines)} "
            f"pieces, {self.resolved.trim:g} s cut at each end of a piece",
            cure="give longer logs, or cut less (--trim)",
        )

    def _reduced(self, most: int, block: int | None = None) -> Iterator[Information]:
        """Yield information, of parts of at most `most` samples that end at multiples of `block`.

        They end anywhere if it is None, or if only some rows count.
        """
        plant, walk, counted = self.plant, self.walk, self.counted
        if isinstance(plant, Fused) and not walk.mixes and (counted or not walk.has_explicit_rows):
            parts = walk.parts(walk.shared_rows) if counted else walk.parts(most, block)
            made = in_order(lambda s: self._fused(plant, (s,)), parts, self.threads)
            yield from (own for (own,) in made)
        elif counted:
            parts = walk.parts(walk.dense_rows)
            yield from in_order(lambda s: self._of_counted(s, counted), parts, self.threads)
        else:
            done = 0
            for r in self.rows():
                for cut in cuts(len(r.time), most if block else len(r.time), block, done):
                    yield r.information(self.labels, self.channels, cut)
                done += len(r.time)

    def _fused(self, plant: Fused, looks: Sequence[Samples[Any]]) -> list[Information]:
        """Return the information of samples that differ in what is measured alone."""
        s, several = looks[0], len(looks) > 1
        rows = self.counted[s.recording][s.index] if self.counted else None
        if several:
            s = replace(s, measured=np.stack([look.measured for look in looks], axis=2))
        made = plant.reduce(s, self.base.kept, counted=rows)
        each = zip(*(t.of_each(len(looks)) for t in made), strict=True) if several else (made,)
        return [Information(self.labels, self.channels, tuple(own)) for own in each]

    def _of_counted(self, s: Samples[Any], counted: Counted) -> Information:
        triangles = []
        for c, rows in enumerate(counted[s.recording][s.index].T):
            made = self.walk.equations_of(s.part(np.flatnonzero(rows)), self.base.kept)
            one = made.regressor[:, [c]], made.effort[:, [c]]
            own = Information.from_rows(self.labels, (self.channels[c],), *one)
            triangles.append(own.triangles[0])
        return Information(self.labels, self.channels, tuple(triangles))

    def residuals(self, values: Array) -> Iterator[Residuals]:
        """Yield τ − Y β by pieces without gaps, with β the values, shape (b,)."""
        if self.has_explicit_rows:
            for r in self.rows():
                remaining = r.residuals(values)
                yield Residuals(remaining, r.at, r.recording, None, r.elimination, r.channels_at)
            return
        walk, kept = self.walk, self.base.kept

        def regressor(s: Samples[Any], piece: NDArray[np.intp], rows: NDArray[np.intp]) -> Array:
            return walk.equations_of(s.part(piece[rows]), kept).regressor

        def by_channel(
            s: Samples[Any], piece: NDArray[np.intp], rows: NDArray[np.intp]
        ) -> tuple[ChannelRows, ...]:
            return walk.channel_rows(s.part(piece[rows]), kept)

        for s, predicted in self.predictions(self.base.spread(values)):
            remaining, elimination = s.measured - predicted, walk.elimination(s)
            gaps = np.flatnonzero(np.diff(s.index) > 1) + 1
            for rows in np.split(np.arange(len(remaining)), gaps):
                part = None if elimination is None else elimination.part(rows)
                made, seen = partial(regressor, s, rows), partial(by_channel, s, rows)
                yield Residuals(remaining[rows], made, s.recording, s.index[rows], part, seen)

    def predictions(self, values: Array) -> Iterator[tuple[Samples[Any], Array]]:
        """Yield samples with what standard parameters (p,) predict of their measurements, (N, c).

        Where unknowns of each sample act, they are as the measurements have them.
        """
        plant = self.plant

        def work(s: Samples[Any]) -> tuple[Samples[Any], Array]:
            if isinstance(plant, Predicting):
                return s, self.completed(s, plant.predict(s, values))
            rows = cast("Plant[Any]", plant).rows(s, range(len(values))).regressor
            return s, self.completed(s, np.asarray(rows @ values))

        at_once = isinstance(plant, Predicting) and not self.has_unknowns
        parts = self.samples() if at_once else self.walk.parts(self.walk.dense_rows)
        return in_order(work, parts, self.threads)

    def completed(self, samples: Samples[Any], predicted: Array) -> Array:
        """Return `Y x` with the part that each sample's unknowns explain, shape (N, c)."""
        elimination = self.walk.elimination(samples)
        if elimination is None:
            return predicted
        return predicted + elimination.taken_up(samples.measured - predicted)

    def residual_energy(self, values: Array) -> Array:
        """Return the energy of τ − Y β in the motion's band, shape (c,), of β, shape (b,).

        Rows that do not count have no residual: what friction does there is not to be passed on by
        the filter.
        """
        total = np.zeros(len(self.channels))
        for piece in self.residuals(values):
            if self.has_explicit_rows:  # rows that hold nothing above the band
                total += np.sum(piece.values**2, axis=0)
            elif len(piece.values) > 32:  # shorter ones cannot be filtered
                step = self.decimation * self.timelines[piece.recording].step
                counts = self.counted[piece.recording][piece.index] if self.counted else True
                counting = np.where(counts, piece.values, 0.0)
                smooth = np.where(counts, signals.low_pass(counting, step, self.band_corner), 0.0)
                total += np.sum(smooth**2, axis=0)
        return total

    @property
    def sensed(self) -> NDArray[np.bool_]:
        """Which channels something is measured in, shape (c,)."""
        sensed = np.zeros(len(self.channels), dtype=bool)
        sensed[[m.channel for inputs in self.survey.inputs for m in inputs.measured]] = True
        return sensed

    @property
    def spacing(self) -> int:
        """Number of rows that one may stand for: motion hardly changes in an eighth of a period."""
        if self.has_explicit_rows:
            return 1
        return min(self.stride(k) for k in range(len(self.timelines)))

    def few(self, samples: Samples[Any]) -> Iterator[NDArray[np.intp]]:
        """Yield indices of samples that stand for all, as many at a time as take little memory."""
        every = self.stride(samples.recording)
        chosen = np.arange(every // 2, len(samples.time), every)
        yield from np.split(chosen, range(256, len(chosen), 256))

    def stride(self, recording: int) -> int:
        """Return the number of a recording's samples that one may stand for; see `spacing`."""
        return max(1, int(1.0 / (8.0 * self.corner * self.timelines[recording].step)))

    @property
    def repeats(self) -> float | None:
        """Period of the motion in rows; None if it has none or rows are not evenly spaced."""
        line = self.timelines[0]
        if self.has_explicit_rows or len(self.recordings) > 1 or line.segments > 1 or line.gaps:
            return None
        period = self.smoothing.period
        if period is None:
            try:
                names = self.survey.inputs[0].smoothed
                period = signals.period_of(self.recordings[0], names, line.step)
            except InvalidSetting:
                return None
        return period / line.step


def point_moments(problem: Problem[Any], values: Array, errors: Array) -> tuple[ChannelRows, ...]:
    """Return moments Yᵀe of rows with the prediction errors e that errors of the point cause.

    The point that rows are taken about is itself an estimate: of load-dependent friction, the
    rigid torque that presses on the gears.

    They are means of `Yᵀe` over rows, e being what each error does to what is predicted, a row
    each, for each channel; see `estimators.Noise`.

    Args:
        values: β, shape (b,).
        errors: Errors of the point, one standard deviation each, shape (p, errors).
    """
    plant, kept = problem.plant, problem.base.kept
    assert isinstance(plant, PointSensitive)
    standard = problem.base.spread(values)
    products: list[Any] = [np.zeros((0, 0))] * len(problem.channels)
    moved = seen = (ChannelRows.nothing(0),) * len(products)
    rows = 0
    for s in problem.samples():
        for chosen in problem.few(s):
            part = s.part(chosen)
            # On the same columns for all samples.
            moved, seen = plant.sensitivity(part, standard), problem.walk.channel_rows(part, kept)
            each = zip(products, moved, seen, strict=True)
            products = [m.values.T @ y.values + (p if rows else 0.0) for p, m, y in each]
            rows += len(chosen)
    return tuple(
        ChannelRows(y.columns, errors[m.columns].T @ p / max(rows, 1))
        for p, m, y in zip(products, moved, seen, strict=True)
    )
