"""A plant with the recordings of an experiment: what estimators receive.

A problem can be walked as often as a method needs, each time in bounded memory:

    problem.samples()      motion and what was measured, window by window
    problem.rows()         Y and τ of each window, on the base parameters
    problem.information()  the sum of all rows, fused where the plant can

Smoothing, delay, selection, decimation, gaps, open windows of the weak form and low-passes of rows
are here, once for all plants. Problems know nothing of estimators.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from heft import signals
from heft.arrays import Array
from heft.engine import in_order
from heft.errors import InvalidSetting, TooLittleData
from heft.information import ChannelRows, Information

from .plant import Fused, LimbedIntegrable, Plant, PointSensitive, Predicting, Samples
from .rows import Equations, Residuals
from .setup import Setup
from .sliding import information_of
from .walk import cuts

SHORTEST_FILTERED = 32  # rows of a piece that can be filtered
KEPT_BYTES = 256 << 20  # of the weak form's rows, without known zeros

P = TypeVar("P", bound="Plant[Any]")


def _some(equations: Equations, chosen: NDArray[np.intp]) -> Array:
    return equations.regressor[chosen]


def _some_each(equations: Equations, chosen: NDArray[np.intp]) -> tuple[ChannelRows, ...]:
    return tuple(ChannelRows(r.columns, r.values[chosen]) for r in equations.by_channel)


@dataclass(frozen=True)
class Problem(Setup[P]):
    """A plant and the logs of an experiment with it, ready to be walked.

    Its attributes are those of `Setup`.
    """

    def rows(self) -> Iterator[Equations]:
        """Yield the rows of each window, on the base parameters."""
        if self._keeps_rows:
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
    def _keeps_rows(self) -> bool:
        """Whether rows of the weak form are few enough to stay in memory."""
        if self.weak is None:
            return False
        plant, kept = self.plant, self.base.kept
        room = KEPT_BYTES / (8.0 * max(self.window_count, 1.0))
        if len(self.channels) * len(kept) <= room:
            return True
        if self.has_unknowns or not isinstance(plant, LimbedIntegrable):
            return False
        one = plant.random_samples(1, np.random.default_rng(0))
        return plant.channel_sides(one, kept).momentum.shape[1] <= room

    @cached_property
    def _kept_rows(self) -> tuple[Equations, ...]:
        return tuple(self.walk.equations(self.base.kept))

    def later(self, by: float) -> Self | None:
        """Return the problem with measurements delayed further, its regressors unchanged.

        For a look at another delay that costs no rows. Motion is as smooth as it was, and windows
        stay where they are in it.

        Args:
            by: Increase of the delay [s].

        Returns:
            None where rows are not kept, or mix samples otherwise than by windows alone.
        """
        rows = self.walk.later(self._kept_rows, by) if self._keeps_rows else None
        if rows is None:
            return None
        found = self.delayed(self.delay + by)
        vars(found)["_kept_rows"] = rows  # in place of those of a walk
        return found

    # --- what rows say

    def information(self) -> Information:
        """Return the information about the base parameters β from all rows.

        Raises:
            TooLittleData: If no rows are left.
        """
        total = Information.neutral(self.labels, self.channels)
        for part in self._reduced(self.walk.shared_rows):
            total = total + part
        if total.rows == 0 and self.counted is None:
            raise _no_rows(self)
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
            raise _no_rows(self)
        return tuple(blocks)

    def _reduced(self, most: int, block: int | None = None) -> Iterator[Information]:
        """Yield information, part by part.

        Args:
            most: Samples in a part at most.
            block: Parts end at multiples of this number of samples; anywhere if None.
        """
        plant, labels, channels = self.plant, self.labels, self.channels
        if self.counted is not None:
            columns, counted = self.base.kept, self.counted
            yield from information_of(self.walk, labels, channels, columns, counted)
            return
        if isinstance(plant, Fused) and not self.has_explicit_rows and not self.has_unknowns:
            columns = self.base.kept
            reduce = plant.reduce
            yield from in_order(
                lambda s: Information(labels, channels, reduce(s, columns)),
                self.walk.parts(most, block),
                self.threads,
            )
            return
        done = 0
        for r in self.rows():
            for cut in cuts(len(r.time), most if block else len(r.time), block, done):
                yield r.information(labels, channels, cut)
            done += len(r.time)

    def residuals(self, values: Array) -> Iterator[Residuals]:
        """Yield τ − Y β by pieces without gaps.

        Args:
            values: β, shape (b,).
        """
        if self.has_explicit_rows:
            for r in self.rows():
                left, made, seen = r.residuals(values), partial(_some, r), partial(_some_each, r)
                yield Residuals(left, made, r.recording, None, r.elimination, seen)
            return
        walk, kept = self.walk, self.base.kept

        def regressor(s: Samples[Any], piece: NDArray[np.intp], rows: NDArray[np.intp]) -> Array:
            return walk.equations_of(s.part(piece[rows]), kept).regressor

        def by_channel(
            s: Samples[Any], piece: NDArray[np.intp], rows: NDArray[np.intp]
        ) -> tuple[ChannelRows, ...]:
            return walk.channel_rows(s.part(piece[rows]), kept)

        for s, predicted in self.predictions(self.base.spread(values)):
            left, elimination = s.measured - predicted, walk.elimination(s)
            cuts = np.flatnonzero(np.diff(s.index) > 1) + 1
            for rows in np.split(np.arange(len(left)), cuts):
                part = None if elimination is None else elimination.part(rows)
                made, seen = partial(regressor, s, rows), partial(by_channel, s, rows)
                yield Residuals(left[rows], made, s.recording, s.index[rows], part, seen)

    def predictions(self, values: Array) -> Iterator[tuple[Samples[Any], Array]]:
        """Yield samples with what is predicted of their measurements, shape (N, c).

        Where unknowns of each sample act, they are as the measurements have them.

        Args:
            values: Standard parameters, shape (p,).
        """
        plant = self.plant

        def work(s: Samples[Any]) -> tuple[Samples[Any], Array]:
            if isinstance(plant, Predicting):
                return s, self.completed(s, plant.predict(s, values))
            columns = range(len(values))
            rows = cast("Plant[Any]", plant).rows(s, columns).regressor
            return s, self.completed(s, np.asarray(rows @ values))

        whole = isinstance(plant, Predicting) and not self.has_unknowns
        parts = self.samples() if whole else self.walk.parts(self.walk.dense_rows)
        return in_order(work, parts, self.threads)

    def completed(self, samples: Samples[Any], predicted: Array) -> Array:
        """Return predictions with the part that each sample's unknowns explain, shape (N, c).

        Args:
            predicted: `Y x`, shape (N, c) [channel's unit].
        """
        elimination = self.walk.elimination(samples)
        if elimination is None:
            return predicted
        return predicted + elimination.taken_up(samples.measured - predicted)

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
        """Number of rows that one may stand for: motion hardly changes in an eighth of a period."""
        if self.has_explicit_rows:
            return 1
        return max(1, int(min(1.0 / (8.0 * self.corner * t.step) for t in self.timelines)))

    @property
    def repeats(self) -> float | None:
        """Period of the motion in rows; None if it has none or rows are not evenly spaced."""
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


def _no_rows(problem: Problem[Any]) -> TooLittleData:
    lines = problem.timelines
    return TooLittleData(
        "no rows are left of these logs",
        argument=", ".join(r.name for r in problem.recordings),
        got=f"{sum(t.used for t in lines)} usable rows in {sum(t.segments for t in lines)} "
        f"pieces, {problem.resolved.trim:g} s cut at each end of a piece",
        cure="give longer logs, or cut less (--trim)",
    )


def point_moments(problem: Problem[Any], values: Array, errors: Array) -> tuple[ChannelRows, ...]:
    """Return moments Yᵀe of rows with the prediction errors e that errors of the point cause.

    The point that rows are taken about is itself an estimate: of load-dependent friction, the
    rigid torque that presses on the gears.

    Args:
        values: β, shape (b,).
        errors: Errors of the point, one standard deviation each, shape (p, errors).

    Returns:
        For each channel the mean of `Yᵀe` over rows, e being what each error does to what is
        predicted, a row each. See `estimators.Noise`.
    """
    plant, kept = problem.plant, problem.base.kept
    assert isinstance(plant, PointSensitive)
    standard = problem.base.spread(values)
    found: list[list[ChannelRows]] = [[] for _ in problem.channels]
    rows = 0
    for s in problem.samples():
        every = max(1, int(1.0 / (8.0 * problem.corner * problem.timelines[s.recording].step)))
        part = s.part(slice(every // 2, None, every))
        moved = plant.sensitivity(part, standard)
        for c, seen in enumerate(problem.walk.channel_rows(part, kept)):
            own = moved[c].values.T @ seen.values
            found[c].append(ChannelRows(seen.columns, errors[moved[c].columns].T @ own))
        rows += len(part.time)
    nothing = ChannelRows.nothing(errors.shape[1])
    totals = (ChannelRows.total([nothing, *parts]) for parts in found)
    return tuple(ChannelRows(t.columns, t.values / max(rows, 1)) for t in totals)
