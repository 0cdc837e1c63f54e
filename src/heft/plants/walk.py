"""A walk through an experiment: samples, and the equations that a plant makes of them.

Rows are instantaneous, or made of many samples each: behind a low-pass that rows and measurements
pass alike, or integrated against the windows of the weak form.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft import signals
from heft.arrays import Array
from heft.engine import in_order
from heft.information import ChannelRows
from heft.recordings import BLOCK_ROWS
from heft.signals import Weak, WhiteWeak, weak_form

from .plant import (
    ChannelSides,
    Integrable,
    Limbed,
    Parted,
    Plant,
    Samples,
    Sides,
    WithUnknowns,
    split,
)
from .rows import Elimination, Equations
from .sampling import Sampler

SHARED_ROWS = 8_192  # rows that one thread reduces at a time, without spelling them out
SHARED_BYTES = 24 << 20  # of columns of drives beside them: more is asked of the system anew
DENSE_BYTES = 64 << 20  # of rows that are spelt out, for estimators that need them


def cuts(count: int, most: int, block: int | None, done: int) -> Iterator[slice]:
    """Yield slices of `count` rows, of `most` rows at most, which end at multiples of `block`.

    Args:
        block: Rows of a block; None if slices may end anywhere.
        done: Rows before these, from which multiples are counted.
    """
    first = 0
    while first < count:
        size = most if block is None else min(most, block - (done + first) % block)
        yield slice(first, min(first + size, count))
        first += size


@dataclass(frozen=True)
class Past:
    """Eliminations of the latest samples of a stream, for windows that reach back to them."""

    # of samples that may be a window's middle, shape (n,) [s]
    time: Array = field(default_factory=lambda: np.zeros(0))
    out: Elimination | None = None  # what eliminated unknowns there; None before the first
    # which unknowns acted last, shape (k,); None before the first
    acts: NDArray[np.bool_] | None = None

    def then(self, time: Array, out: Elimination, acts: NDArray[np.bool_], length: float) -> Past:
        """Return the eliminations to keep after further samples, for windows of a length [s]."""
        if self.out is not None:
            kept = self.time > time[0] - length
            time = np.append(self.time[kept], time)
            basis = np.concatenate([self.out.basis[kept], out.basis])
            out = Elimination(basis, out.noise)
        return Past(time, out, acts)

    def at(self, time: Array) -> Elimination | None:
        """Return the eliminations nearest to some times, shape (n,) [s]; None before the first."""
        if self.out is None:
            return None
        after = np.searchsorted(self.time, time).clip(1, max(len(self.time) - 1, 1))
        nearer = time - self.time[after - 1] < self.time[after.clip(max=len(self.time) - 1)] - time
        return self.out.part(np.where(nearer, after - 1, after).clip(max=len(self.time) - 1))


@dataclass(frozen=True)
class Walk(Sampler):
    """A walk through the samples of an experiment, as often as a method needs."""

    threads: int = 1  # how many share the work; the result does not depend on it
    weak: Weak | None = None  # windows of the weak form; rows are differentiated if not given
    keep_samples: bool = False  # whether samples stay in memory between one walk and the next
    # standard deviation of each channel by which unknowns of a sample are eliminated, one where
    # none is given
    noise: tuple[float, ...] | None = None

    def samples(self) -> Iterator[Samples[Any]]:
        """Yield motion and what was measured, window by window, at the log's own times."""
        return iter(self._kept_samples) if self.keep_samples else self._walked()

    @cached_property
    def _kept_samples(self) -> tuple[Samples[Any], ...]:
        return tuple(self._walked())

    def _walked(self) -> Iterator[Samples[Any]]:
        for s in self._anew() if self.keep_samples else self.all_samples():
            rows = np.flatnonzero(s.chosen)
            if 0 < len(rows) == rows[-1] + 1 - rows[0] < len(s.time):  # which needs no copy
                s = s.part(slice(int(rows[0]), int(rows[-1]) + 1))
            elif len(rows) < len(s.time):
                s = s.part(rows)
            if len(s.time):
                yield s

    def all_samples(self) -> Iterator[Samples[Any]]:
        """Yield all samples, including those that a selection excludes; of short logs made once."""
        rows = sum(line.rows for line in self.survey.timelines)
        size = 80 * rows * len(self.plant.channels)  # measured, of robots [bytes]
        return iter(self._in_memory) if size <= DENSE_BYTES else self._anew()

    @cached_property
    def _in_memory(self) -> tuple[Samples[Any], ...]:
        return tuple(self._anew())

    def sharing(self, samples: Walk) -> None:
        """Take over the samples that another walk has in memory, which must be the same."""
        if "_in_memory" in vars(samples):
            vars(self)["_in_memory"] = samples._in_memory

    def _anew(self) -> Iterator[Samples[Any]]:
        made = in_order(lambda item: self.sample(*item), self.windows(), self.threads)
        yield from self.remembered(made)

    def parts(self, rows: int, block: int | None = None) -> Iterator[Samples[Any]]:
        """Yield samples in parts of at most `rows`, which do not reach over multiples of `block`.

        Samples are counted over all recordings.
        """
        done = 0
        for s in self.samples():
            for cut in cuts(len(s.time), rows, block, done):
                yield s.part(cut)
            done += len(s.time)

    @property
    def shared_rows(self) -> int:
        """Number of samples that one thread reduces at a time, without storing their rows."""
        room = SHARED_BYTES // (8 * max(len(self.plant.labels), 1))
        return int(np.clip(room, 1024, SHARED_ROWS))

    @property
    def dense_rows(self) -> int:
        """Number of samples whose rows may be in memory at once."""
        size = 8 * max(len(self.plant.channels), 1) * max(len(self.plant.labels), 1)
        # More of rows that mix all channels: their triangles are full, and adding one to the
        # others costs as much as a thousand rows.
        room = (192 << 20) if self.mixes else DENSE_BYTES
        return int(np.clip(room // size, 256, BLOCK_ROWS // 2))

    @property
    def limbed_rows(self) -> int:
        """Number of samples that windows are given at a time, of rows without known zeros."""
        room = SHARED_BYTES // (16 * max(len(self.plant.labels), 1))
        return int(np.clip(room, 512, 2_048))

    @property
    def has_explicit_rows(self) -> bool:
        """Whether rows combine many samples each and must be formed explicitly."""
        return self.weak is not None or self.survey.smoothing.torque == "filtered"

    @property
    def mixes(self) -> bool:
        """Whether unknowns of each sample are eliminated, which mixes the channels."""
        return isinstance(self.plant, WithUnknowns) and self.plant.unknowns > 0

    def elimination(self, s: Samples[Any]) -> Elimination | None:
        """Return the projection that eliminates unknowns of samples; None if there are none."""
        plant = self.plant
        if not isinstance(plant, WithUnknowns) or not plant.unknowns:
            return None
        channels = len(self.plant.channels)
        noise = np.ones(channels) if self.noise is None else np.array(self.noise)
        return Elimination.of(plant.acting(s), noise)

    def equations_of(self, s: Samples[Any], columns: Sequence[int]) -> Equations:
        """Return instantaneous rows and measurements of samples, on some of the plant's columns."""
        regressor, effort = self.plant.rows(s, columns).regressor, s.measured
        elimination = self.elimination(s)
        if elimination is not None:
            regressor, effort = elimination(regressor), elimination(effort)
        return Equations.of(regressor, effort, s.time, s.recording, elimination)

    def channel_rows(self, s: Samples[Any], columns: Sequence[int]) -> tuple[ChannelRows, ...]:
        """Return rows of some of the plant's columns, channel by channel, without known zeros.

        Columns are ascending.
        """
        if isinstance(self.plant, Limbed) and not self.mixes:
            return self.plant.channel_rows(s, columns)
        return ChannelRows.of_each(self.equations_of(s, columns).regressor)

    def equations(self, columns: Sequence[int]) -> Iterator[Equations]:
        """Yield rows of some of the plant's columns, and what was measured."""
        if self.weak is not None:
            return self._integrated(columns)
        if self.survey.smoothing.torque == "filtered":
            return self._filtered(columns)
        parts = self.parts(self.dense_rows)
        return in_order(lambda s: self.equations_of(s, columns), parts, self.threads)

    def _filtered(self, columns: Sequence[int]) -> Iterator[Equations]:
        """Yield rows that have passed a low-pass, thinned out to what it leaves.

        Rows and what was measured pass the same filter: what it does to one side alone costs 4 to
        50 times the reachable accuracy. Unknowns are eliminated before: a low-pass does not commute
        with that, and what is left of either side is the same signal.
        """

        def work(s: Samples[Any]) -> Equations | None:
            if not s.chosen.any():
                return None
            survey, made = self.survey, self.equations_of(s, columns)
            step, order = survey.timelines[s.recording].step, survey.smoothing.order
            both = np.concatenate([made.regressor, made.effort[:, :, None]], axis=2)
            smooth = signals.low_pass(both, step, survey.cutoff, order)[s.chosen]
            rest = None if made.elimination is None else made.elimination.part(s.chosen)
            time = s.time[s.chosen]
            return Equations.of(smooth[:, :, :-1], smooth[:, :, -1], time, s.recording, rest)

        windows = self.windows(self.dense_rows, filtered=True)
        even = in_order(lambda item: self.even(*item), windows, self.threads)
        made = in_order(work, self.remembered(even), self.threads)
        yield from (r for r in made if r is not None)

    def _integrated(self, columns: Sequence[int]) -> Iterator[Equations]:
        """Yield rows of the weak form, one a window, consecutive windows together."""
        room = max(1, self.dense_rows)
        gathered: list[Equations] = []
        for begins, rows in self._windows(columns):
            full = sum(len(r.time) for r in gathered) + len(rows.time) > room
            if gathered and (begins or full or rows.elimination is not None):
                yield Equations.joined(gathered)
                gathered = []
            gathered.append(rows)
        if gathered:
            yield Equations.joined(gathered)

    def later(self, kept: Sequence[Equations], by: float) -> tuple[Equations, ...] | None:
        """Return rows of the weak form with measurements delayed further, regressors unchanged.

        Their windows weigh measurements where they stand in time, so that none is interpolated.
        None where unknowns are eliminated, rows are whitened or a clock goes back.

        Args:
            kept: All rows, as `equations` yields them.
            by: Increase of the delay [s].
        """
        weak = self.weak
        if weak is None or self.mixes or isinstance(weak, WhiteWeak):
            return None
        seen: dict[int, weak_form.Integrals] = {}
        for k, (time, effort, _) in self._streams.items():
            if (np.diff(time) <= 0.0).any():
                return None
            step = self.survey.timelines[k].step
            ends = np.array([-1.0, 1.0]) * (abs(by) + step)  # as at the first and last sample
            time = np.concatenate([time[:1] + ends[:1], time, time[-1:] + ends[1:]]) - by
            effort = np.concatenate([effort[:1], effort, effort[-1:]])
            none = np.zeros((len(time), 1, 0))
            windows = weak.windows(self.survey.cutoff, step)
            samples = weak_form.Samples(time, none, none, effort)
            seen[k] = weak_form.integrate(windows, samples)
        delayed = []
        for rows in kept:
            every = seen[rows.recording]
            place = np.searchsorted(every.time, rows.time).clip(max=len(every.time) - 1)
            delayed.append(replace(rows, effort=every.effort[place]))
        return tuple(delayed)

    def samples_later(
        self, kept: Sequence[Samples[Any]], by: float
    ) -> tuple[Samples[Any], ...] | None:
        """Return samples with measurements delayed further by interpolation, motion unchanged.

        None where something else of the samples depends on what is measured, or a clock goes back.

        Args:
            kept: All samples, as `samples` yields them.
            by: Increase of the delay [s].
        """
        signs = (m for inputs in self.survey.inputs for m in inputs.motion)
        if self.mixes or any(m.late or not m.derivatives for m in signs):
            return None
        seen: dict[int, Array] = {}
        for k, (time, effort, _) in self._streams.items():
            if (np.diff(time) <= 0.0).any():
                return None
            seen[k] = signals.linear(time, effort, time + by)
        delayed = []
        for s in kept:
            first = np.searchsorted(self._streams[s.recording][2], s.index * self.decimation)
            rows = seen[s.recording][first[:, None] + np.arange(self.decimation)]
            delayed.append(replace(s, measured=rows.mean(axis=1)))
        return tuple(delayed)

    @cached_property
    def _streams(self) -> dict[int, tuple[Array, Array, NDArray[np.int64]]]:
        """Time [s], measurements and index of all samples of each recording, chosen or not."""
        parts: dict[int, list[tuple[Array, Array, NDArray[np.int64]]]] = {}
        for k, w in self.windows():
            own = w.time[w.core], self.measured(k, w.values[w.core]), w.index[w.core]
            parts.setdefault(k, []).append(own)
        streams = {}
        for k, several in parts.items():
            time, effort, index = zip(*several, strict=True)
            streams[k] = np.concatenate(time), np.concatenate(effort), np.concatenate(index)
        return streams

    def _windows(self, columns: Sequence[int]) -> Iterator[tuple[bool, Equations]]:
        """Yield whether a run of windows begins, and rows of windows as the logs complete them."""
        assert self.weak is not None
        state: weak_form.Buffer | None = None
        white: weak_form.Whitening | None = None
        recording, last, begins = -1, -np.inf, True
        past = Past()
        made = in_order(lambda s: self._sides(s, columns), self._unbroken(), self.threads)
        for piece, seen, taken, out in made:
            step = self.survey.timelines[piece.recording].step
            if (
                piece.recording != recording
                or not 0.0 < piece.time[0] - last <= self._gap(piece.recording)
                or (past.acts is not None and (past.acts != self._acts(piece)[0]).any())
            ):
                state, white, past, begins = None, None, Past(), True
            recording = piece.recording
            last = float(piece.time[-1]) if taken is not None else -np.inf
            if taken is None:
                continue
            windows = self.weak.windows(self.survey.cutoff, step)
            if out is not None:
                past = past.then(piece.time, out, self._acts(piece)[-1], windows.length)
            state, integrals = weak_form.advance(windows, state, taken)
            if isinstance(self.weak, WhiteWeak) and self.weak.whitened:
                shared = weak_form.shared_noise(windows, step)
                integrals, white = weak_form.whitened(shared, integrals, white)
            if len(integrals.time):
                rows, time = split(seen, integrals.regressor[:, 0]), integrals.time
                effort, middle = integrals.effort, past.at(time)
                yield begins, Equations(rows, len(columns), effort, time, recording, middle)
                begins = False
            del taken  # before the next is made

    def _sides(
        self, s: Samples[Any], columns: Sequence[int]
    ) -> tuple[
        Samples[Any], Sequence[NDArray[np.intp]], weak_form.Piece | None, Elimination | None
    ]:
        """Return samples, each channel's columns, what windows take of them, and what eliminates.

        They take nothing of samples that are not chosen. Of a plant that does not part its sides
        nothing is integrated by parts: windows average its rows and what is measured alike.
        """
        plant, out, weak, measured = self.plant, None, self.weak, s.measured
        if weak is None or not s.chosen[0]:
            return s, (), None, None
        sides: Parted
        if isinstance(plant, Limbed) and not self.mixes:
            sides = plant.channel_sides(s, columns)
        else:
            both = _sides_of(plant, s, columns)
            if self.mixes:
                both, out = self._without_unknowns(s, both)
                measured = out(measured)
            sides = ChannelSides.of_each(both)
        windows = weak.windows(self.survey.cutoff, self.survey.timelines[s.recording].step)
        taken = weak_form.Piece.of(windows, _Made(s.time, sides, measured))
        return s, sides.columns, taken, out

    def _acts(self, s: Samples[Any]) -> NDArray[np.bool_]:
        """Return which unknowns act at each sample, shape (N, k)."""
        if not self.mixes:
            return np.zeros((len(s.time), 0), dtype=bool)
        assert isinstance(self.plant, WithUnknowns)
        return np.asarray((self.plant.acting(s) != 0.0).any(axis=1))

    def _without_unknowns(self, s: Samples[Any], sides: Sides) -> tuple[Sides, Elimination]:
        """Return both sides with unknowns eliminated, and by what.

        With the momentum p and the remainder r, `P (ṗ − r) = d/dt (P p) − (P r + Ṗ p)`: the weak
        form of the equations without unknowns, in which no acceleration is either.
        """
        plant, out = self.plant, self.elimination(s)
        assert isinstance(plant, WithUnknowns) and out is not None
        change = out.change(plant.acting(s), plant.acting_rate(s))
        change *= (out.redundancy > 0.0)[:, :, None]  # rows of zeros stay that
        remainder = out(sides.remainder) + change @ sides.momentum
        return Sides(out(sides.momentum), remainder), out

    def _gap(self, recording: int) -> float:
        """Return the time beyond which is a gap, which no window reaches across [s]."""
        steps = self.weak.gap_steps if isinstance(self.weak, WhiteWeak) else signals.GAP_STEPS
        return steps * self.decimation * self.survey.timelines[recording].step

    def _unbroken(self) -> Iterator[Samples[Any]]:
        """Yield pieces without gaps, all chosen or none, in which the same unknowns act."""
        most = self.dense_rows if self.mixes else self.limbed_rows
        for s in self.all_samples():
            gap = self._gap(s.recording)
            for first in range(0, len(s.time), most):
                part = s.part(slice(first, first + most))
                steps = np.diff(part.time)
                breaks = (steps <= 0.0) | (steps > gap) | np.diff(part.chosen)
                breaks |= np.diff(self._acts(part), axis=0).any(axis=1)
                cuts = (np.flatnonzero(breaks) + 1).tolist()
                for begin, end in zip([0, *cuts], [*cuts, len(part.time)], strict=True):
                    yield part.part(slice(begin, end)) if cuts else part


def _sides_of(plant: Plant[Any], samples: Samples[Any], columns: Sequence[int]) -> Sides:
    """Return both sides of a plant's equations; all remains of one that does not part them."""
    if isinstance(plant, Integrable):
        return plant.sides(samples, columns)
    regressor = plant.rows(samples, columns).regressor
    return Sides(np.zeros_like(regressor), -regressor)


@dataclass(frozen=True, eq=False)
class _Made:
    """Samples of which windows ask for some with both sides, and for integrals of the others."""

    time: Array  # shape (N,) [s]
    sides: Parted
    effort: Array  # measured, shape (N, c)

    def part(self, cut: slice) -> weak_form.Samples:
        """Return a slice of the samples, with both sides."""
        made = self.sides.part(cut)
        # One channel stands for all: windows weigh the columns alike.
        both = made.momentum[:, None], made.remainder[:, None]
        return weak_form.Samples(self.time[cut], *both, self.effort[cut])

    def integrated(self, cut: slice, phi: Array, rate: Array) -> tuple[Array, Array]:
        """Return regressor and effort of windows by a slice's weights."""
        return self.sides.integrated(cut, phi, rate)[:, None], phi @ self.effort[cut]
