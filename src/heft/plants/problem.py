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
from heft.recordings import BLOCK_ROWS, Recording
from heft.signals import Smoothing, Timeline, Weak, weak_form

from .base import structural_base
from .plant import Fused, Integrable, Plant, PointSensitive, Predicting, Samples
from .rows import Equations, Residuals
from .sampling import Sampler, Survey, averaged, surveyed

DENSE_BYTES = 64 << 20  # of rows that are spelt out, for estimators that need them
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
        whitened: Whether rows of the weak form are combined so that noise of the samples that
            windows share counts once; see `weak_form.whitened`.
        gap_steps: Time steps between samples over which no window of the weak form reaches.
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
    whitened: bool = False
    gap_steps: float = signals.GAP_STEPS
    known_survey: Survey | None = field(default=None, repr=False, compare=False)

    # --- what is walked

    @cached_property
    def survey(self) -> Survey:
        """What one look at the recordings showed."""
        if self.known_survey is not None:
            return self.known_survey
        measured = self.purpose == "fit"
        return surveyed(self.plant, self.recordings, self.smoothing, measured)

    @property
    def timelines(self) -> tuple[Timeline, ...]:
        """What the clock of each recording shows."""
        return self.survey.timelines

    @property
    def resolved(self) -> Smoothing:
        """The smoothing with its cutoff chosen."""
        return self.survey.smoothing

    @property
    def delay(self) -> float:
        """By how much what is measured comes behind motion [s]."""
        return self.resolved.delay or 0.0

    @property
    def corner(self) -> float:
        """Cutoff of the low-pass [Hz]."""
        return self.sampler.cutoff

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
        """What is stated, and the map from it to the base parameters."""
        return self.plant.space.seen_through(self.base.matrix)

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of the channels."""
        return tuple(c.name for c in self.plant.channels)

    @property
    def noise_names(self) -> tuple[str, ...]:
        """Name of each channel's standard deviation; channels of one name share it."""
        return tuple(c.noise_name for c in self.plant.channels)

    @cached_property
    def gathered_labels(self) -> Labels:
        """Labels of the base parameters, then of the alternatives."""
        others, base = self.plant.alternatives, self.labels
        return Labels((*base.names, *others.names), (*base.units, *others.units), base.frame)

    @cached_property
    def _gathered(self) -> tuple[int, ...]:
        """Positions of the gathered columns among the plant's."""
        count = len(self.plant.labels)
        return (*self.base.kept, *range(count, count + len(self.plant.alternatives)))

    def standard(self, values: Array) -> Array:
        """Return values of the standard columns that leave what base parameters leave."""
        whole = np.zeros(len(self.plant.labels))
        whole[list(self.base.kept)] = values
        return whole

    # --- samples

    @cached_property
    def sampler(self) -> Sampler:
        """What makes samples of the recordings."""
        return Sampler(self.plant, self.recordings, self.survey)

    def samples(self) -> Iterator[Samples[Any]]:
        """Yield motion and what was measured, window by window, at the log's own times."""
        return iter(self._kept_samples) if self.keep_samples else self._walked()

    @cached_property
    def _kept_samples(self) -> tuple[Samples[Any], ...]:
        return tuple(self._walked())

    def _walked(self) -> Iterator[Samples[Any]]:
        for s in self._all_samples():
            rows = np.flatnonzero(s.chosen)
            if len(rows) < len(s.time):
                s = s.part(rows)
            if self.decimation > 1:
                s = averaged(s, self.decimation)
            if len(s.time):
                yield s

    def _all_samples(self) -> Iterator[Samples[Any]]:
        """Yield samples that are not chosen, too."""
        sampler = self.sampler
        windows = sampler.windows()
        made = in_order(lambda item: sampler.sample(*item), windows, self.threads)
        return sampler.remembered(made)

    def _parts(self, rows: int) -> Iterator[Samples[Any]]:
        """Yield samples, so many at a time at most."""
        for s in self.samples():
            for first in range(0, len(s.time), rows):
                yield s.part(slice(first, first + rows))

    # --- rows

    @property
    def _dense_rows(self) -> int:
        """How many samples' rows may be spelt out at once."""
        size = 8 * max(len(self.plant.channels), 1) * max(len(self.plant.labels), 1)
        return int(np.clip(DENSE_BYTES // size, 256, BLOCK_ROWS // 2))

    @property
    def has_explicit_rows(self) -> bool:
        """Whether rows are made of many samples each, and not reduced as they come."""
        return self.weak is not None or self.resolved.torque == "filtered"

    def rows(self) -> Iterator[Equations]:
        """Yield the rows of each window, on the base parameters."""
        return self._equations(self.base.kept)

    def _equations(self, columns: Sequence[int]) -> Iterator[Equations]:
        if self.weak is not None:
            return self._integrated(columns)
        if self.resolved.torque == "filtered":
            return self._filtered(columns)
        return self._instantaneous(columns)

    def _instantaneous(self, columns: Sequence[int]) -> Iterator[Equations]:
        """Yield rows of samples, each on its own."""

        def work(s: Samples[Any]) -> Equations:
            regressor = self.plant.rows(s, columns).regressor
            return Equations(regressor, s.measured, s.time, s.recording)

        return in_order(work, self._parts(self._dense_rows), self.threads)

    def _filtered(self, columns: Sequence[int]) -> Iterator[Equations]:
        """Yield rows that have passed a low-pass, thinned out to what it leaves.

        Rows and what was measured pass the same filter: what it does to one side alone costs 4 to
        50 times the reachable accuracy.
        """
        sampler = self.sampler

        def work(s: Samples[Any]) -> Equations | None:
            if not s.chosen.any():
                return None
            step = self.timelines[s.recording].step
            regressor = self.plant.rows(s, columns).regressor
            both = np.concatenate([regressor, s.measured[:, :, None]], axis=2)
            smooth = signals.low_pass(both, step, self.corner, self.resolved.order)[s.chosen]
            return Equations(smooth[:, :, :-1], smooth[:, :, -1], s.time[s.chosen], s.recording)

        windows = sampler.windows(self._dense_rows, filtered=True)
        even = in_order(lambda item: sampler.even(*item), windows, self.threads)
        made = in_order(work, sampler.remembered(even), self.threads)
        yield from (r for r in made if r is not None)

    def _integrated(self, columns: Sequence[int]) -> Iterator[Equations]:
        """Yield rows of the weak form, a window each."""
        plant = self.plant
        if not isinstance(plant, Integrable):
            raise InvalidSetting(
                f"a {type(plant).__name__} has no weak form",
                argument="rows",
                got="weak",
                cure="take differentiated rows",
            )
        assert self.weak is not None
        held: weak_form.Held | None = None
        white: weak_form.Whitening | None = None
        recording, last = -1, -np.inf
        for s, piece in self._unbroken():
            step = self.timelines[s.recording].step
            if s.recording != recording or not (
                0.0 < piece.time[0] - last <= self.gap_steps * step
            ):
                held = white = None
            recording = s.recording
            last = float(piece.time[-1]) if piece.chosen[0] else -np.inf
            if not piece.chosen[0]:
                continue
            sides = plant.sides(piece, columns)
            both = weak_form.Samples(piece.time, sides.momentum, sides.remainder, piece.measured)
            windows = self.weak.windows(self.corner, step)
            held, found = weak_form.advance(windows, held, both)
            if self.whitened:
                shared = weak_form.shared_noise(windows, step)
                found, white = weak_form.whitened(shared, found, white)
            if len(found.time):
                yield Equations(found.regressor, found.effort, found.time, s.recording)

    def _unbroken(self) -> Iterator[tuple[Samples[Any], Samples[Any]]]:
        """Yield samples, and pieces of them without a gap that are all chosen or all not."""
        for s in self._all_samples():
            gap = self.gap_steps * self.timelines[s.recording].step
            for first in range(0, len(s.time), self._dense_rows):
                part = s.part(slice(first, first + self._dense_rows))
                apart = np.diff(part.time)
                breaks = (apart <= 0.0) | (apart > gap) | np.diff(part.chosen)
                for run in np.split(np.arange(len(part.time)), np.flatnonzero(breaks) + 1):
                    yield s, part.part(run)

    # --- what rows say

    def information(self) -> Information:
        """Return what all rows say of the base parameters.

        Raises:
            TooLittleData: If no rows are left.
        """
        return self.gathered().only(range(len(self.labels)))

    def gathered(self) -> Information:
        """Return what all rows say of the base parameters and of the plant's alternatives.

        Alternatives (Coulomb friction in place of friction's dictionary) are columns beside the
        others, so that the simpler model is fitted without walking the rows once more.

        Raises:
            TooLittleData: If no rows are left.
        """
        total = Information.neutral(self.gathered_labels, self.channels)
        for part in self._reduced():
            total = total + part
        if total.rows == 0:
            raise TooLittleData(
                "no rows are left of these logs",
                argument=", ".join(r.name for r in self.recordings),
                got=f"{sum(t.used for t in self.timelines)} usable rows in "
                f"{sum(t.segments for t in self.timelines)} pieces, "
                f"{self.resolved.trim:g} s cut at each end of a piece",
                cure="give longer logs, or cut less (--trim)",
            )
        return total

    def _reduced(self) -> Iterator[Information]:
        """Yield information, part by part."""
        plant, labels, channels = self.plant, self.gathered_labels, self.channels
        if isinstance(plant, Fused) and not self.has_explicit_rows:
            columns = self._gathered
            reduce = plant.reduce
            yield from in_order(
                lambda s: Information(labels, channels, reduce(s, columns)),
                self._parts(SHARED_ROWS),
                self.threads,
            )
            return
        for r in self._equations(self._gathered):
            yield Information.from_rows(labels, channels, r.regressor, r.effort)

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

        for s, predicted in self.predictions(self.standard(values)):
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
        parts = self.samples() if whole else self._parts(self._dense_rows)
        return in_order(work, parts, self.threads)

    def residual_energy(self, values: Array) -> Array:
        """Return the energy of τ − Y β in the motion's band, shape (c,).

        Args:
            values: β, shape (b,).
        """
        total = np.zeros(len(self.channels))
        step = self.decimation * min(t.step for t in self.timelines)
        for piece in self.residuals(values):
            if self.has_explicit_rows:  # rows that hold nothing above the band
                total += np.sum(piece.values**2, axis=0)
            elif len(piece.values) > SHORTEST_FILTERED:
                smooth = signals.low_pass(piece.values, step, self.band_corner)
                total += np.sum(smooth**2, axis=0)
        return total

    def point_moments(self, values: Array, errors: Array) -> tuple[Array, ...]:
        """Return what errors of the point do to the estimate, by way of the rows.

        The point that rows are taken about is itself an estimate: of load-dependent friction, the
        rigid torque that presses on the gears.

        Args:
            values: β, shape (b,).
            errors: Of the point, one standard deviation each, shape (p, errors).

        Returns:
            For each channel the mean of `Yᵀe` over rows, e being what each error does to what is
            predicted; shape (errors, b). See `estimators.Noise`.
        """
        plant, kept = self.plant, self.base.kept
        assert isinstance(plant, PointSensitive)
        standard = self.standard(values)
        total = np.zeros((len(self.channels), errors.shape[1], len(kept)))
        rows = 0
        for s in self.samples():
            every = max(1, int(1.0 / (8.0 * self.corner * self.timelines[s.recording].step)))
            part = s.part(slice(every // 2, None, every))
            moved = plant.sensitivity(part, standard, errors)
            chosen = cast("Plant[Any]", plant).rows(part, kept).regressor
            for c in range(len(total)):
                total[c] += moved[:, c].T @ chosen[:, c]
            rows += len(part.time)
        return tuple(total / max(rows, 1))

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
        if self.smoothing.period is not None:
            return self.smoothing.period / line.step
        names = [s.name for s in self.survey.inputs[0].motion if s.derivatives]
        if not names:
            return None
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
        smoothing = self.resolved
        return replace(
            self, recordings=tuple(recordings), smoothing=smoothing, known_survey=None, **changes
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
        """Return the problem with a higher cutoff, None if the sampling leaves no room.

        Residuals are still compared in the band of the cutoff chosen before.
        """
        corner = factor * self.corner
        if corner > signals.LARGEST_CORNER / max(t.step for t in self.timelines):
            return None
        smoothing = replace(self.resolved, corner=corner)
        return self.with_settings(smoothing=smoothing, band_hz=self.band_corner)

    def shortened(self, rows: int) -> Problem[P]:
        """Return the problem from the logs' beginnings, for a quick look.

        Motion and friction hardly change within a thirtieth of a period of the cutoff.

        Args:
            rows: At most about how many samples.
        """
        share = rows // len(self.recordings)
        step = max(t.step for t in self.timelines)
        decimation = 2 * int(0.5 / (32.0 * self.corner * step)) + 1
        shorter = [r.window(0, share) for r in self.recordings]
        return self.with_recordings(shorter, keep_samples=True, decimation=decimation)
