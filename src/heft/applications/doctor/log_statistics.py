"""Statistics of a log's clock, rows and signals, in two passes of bounded memory.

The first pass measures the scale of each signal, the second counts anomalies against it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.recordings import Recording
from heft.signals import GAP_STEPS, median_of_medians, running_median

from .settings import TURN, SignalThresholds

SMALL = 1e-12  # relative to numbers, below which differences are rounding
TURNS = {"rad": TURN, "deg": 360.0}
EFFORTS = ("tau", "current")
FLAG = "contact"  # a signal that is 0 or 1
EXTREMES = ((0, "smallest"), (1, "largest"))


@dataclass
class Sizes:
    """Scales of signals from the first pass; arrays have one element per signal, in its unit."""

    rows: int
    step: float
    low: Array
    high: Array
    change: Array  # rms of differences between rows, wraps left out
    usual: Array  # median size of second differences
    quantum: Array  # smallest difference between rows that is one
    integer: NDArray[np.bool_]  # whether all its values are whole numbers


@dataclass
class Counts:
    """Counts of anomalies from the second pass; arrays have one element per signal."""

    broken: NDArray[np.int64]
    wraps: dict[str, NDArray[np.int64]]
    jumps: NDArray[np.int64]
    spikes: NDArray[np.int64]
    zeros: Array  # rows of 0 between other values
    falls: Array  # how often it falls to them
    plateau: Array
    frozen: Array
    speeds: Array
    broken_time: int = 0
    backwards: int = 0
    jumped_back: int = 0
    restarts: int = 0  # jumps back to about the log's first time
    first: float = np.nan  # time [s]
    same_time: int = 0
    gaps: int = 0
    longest_gap: float = 0.0
    missing: int = 0
    steps: int = 0
    repeated: int = 0
    moving: int = 0
    duration: float = 0.0
    active: float = 0.0
    jitter: list[float] = field(default_factory=list)
    stalls: list[tuple[int, int]] = field(default_factory=list)  # rows of what is frozen


def sizes_of(recording: Recording, names: Sequence[str]) -> Sizes:
    """Return the scales of a log's signals, by a first pass through it."""
    count = len(names)
    medians: list[tuple[float, int]] = []
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    squares, differences, quantum = np.zeros(count), np.zeros(count), np.full(count, np.inf)
    second: list[Array] = []
    integer, rows = np.full(count, True), 0
    for block in recording.blocks(names):
        rows += len(block.time)
        steps = np.diff(block.time[np.isfinite(block.time)])
        steps = steps[steps > 0.0]
        if len(steps):
            medians.append((float(np.median(steps)), len(steps)))
        values = np.where(np.isfinite(block.values), block.values, np.nan)
        if not len(values):
            continue
        with np.errstate(invalid="ignore", over="ignore"):
            low = np.fmin(low, np.fmin.reduce(values, axis=0))
            high = np.fmax(high, np.fmax.reduce(values, axis=0))
            integer &= ~np.any(np.abs(values - np.rint(values)) > 0.0, axis=0)
            change = np.diff(values, axis=0)
            if not len(change):
                continue
            # wraps and jumps are rare
            bound = 3.0 * np.nanquantile(_or_zero(np.abs(change)), 0.98, axis=0)
            least = SMALL * np.maximum(np.abs(low), np.abs(high))
            real = np.where(np.abs(change) > least, np.abs(change), np.inf)
            quantum = np.minimum(quantum, real.min(axis=0, initial=np.inf))
            usual = np.isfinite(change) & (np.abs(change) <= bound)
            squares += np.sum(np.where(usual, change, 0.0) ** 2, axis=0)
            differences += usual.sum(axis=0)
            if len(change) > 1:
                bends = _or_zero(np.abs(np.diff(change, axis=0)))
                second.append(np.nanmedian(bends, axis=0))
    bend = np.median(second, axis=0) if second else np.zeros(count)
    rms = np.sqrt(squares / np.maximum(differences, 1))
    step = median_of_medians(medians) if medians else 0.0
    return Sizes(rows, step, low, high, rms, bend, quantum, integer)


def _or_zero(sizes: Array) -> Array:
    """Return columns of which no number is finite as zero, of which statistics can be made."""
    return np.where(np.isfinite(sizes).any(axis=0), sizes, 0.0)


@dataclass(frozen=True)
class _Block:
    """Block of rows of a log, preceded by the last rows of the block before."""

    time: Array  # shape (rows,) [s]
    values: Array  # NaN where they are not finite, shape (rows, signals)
    first: int  # its first row's place in the log
    fresh: int  # how many rows were in the block before
    names: Sequence[str]  # of the signals
    sizes: Sizes  # of the signals

    @property
    def new(self) -> slice:
        """Slice of the row-to-row changes that the block before did not have."""
        return slice(max(self.fresh - 1, 0), None)


def counts_of(
    recording: Recording, names: Sequence[str], sizes: Sizes, thresholds: SignalThresholds
) -> Counts:
    """Return the anomalies of a log against the scales of its signals, by a second pass."""
    count = len(names)
    broken, jumps, spikes, *turns = np.zeros((3 + len(TURNS), count), dtype=np.int64)
    zeros, falls, frozen, *plateau = np.zeros((5, count))
    wraps, speeds = dict(zip(TURNS, turns, strict=True)), np.zeros((count, 3))
    tally = Counts(broken, wraps, jumps, spikes, zeros, falls, np.array(plateau), frozen, speeds)
    tail_time, tail, rows = np.empty(0), np.empty((0, count)), 0
    for read in recording.blocks(names):
        time = np.concatenate([tail_time, read.time])
        finite = np.where(np.isfinite(read.values), read.values, np.nan)
        values = np.concatenate([tail, finite])
        tally.broken += (~np.isfinite(read.values)).sum(axis=0)
        tally.broken_time += int((~np.isfinite(read.time)).sum())
        if len(time) > 1 and count:
            block = _Block(time, values, rows - len(tail), len(tail), names, sizes)
            _walk_clock(tally, time[block.new], sizes.step)
            _walk_rows(tally, block)
            _walk_signals(tally, block, thresholds)
            _walk_velocities(tally, block)
        rows += len(read.time)
        keep = min(len(time), 3)  # rows that a block hands on to the next
        tail_time, tail = time[-keep:], values[-keep:]
    return tally


def _walk_clock(tally: Counts, time: Array, step: float) -> None:
    steps = np.diff(time[np.isfinite(time)])
    if not len(steps) or not step:
        return
    tally.first = time[np.isfinite(time)][0] if np.isnan(tally.first) else tally.first
    tally.steps += len(steps)
    tally.same_time += int(np.sum(steps == 0.0))
    tally.backwards += int(np.sum(steps < 0.0))
    back = steps < -GAP_STEPS * step
    tally.jumped_back += int(np.sum(back))
    since = time[np.isfinite(time)] - tally.first
    # a clock that restarts is back within a tenth of the time since the first row
    tally.restarts += int(np.sum(back & (since[1:] < 0.1 * since[:-1])))
    gaps = steps > GAP_STEPS * step
    tally.gaps += int(gaps.sum())
    tally.longest_gap = max(tally.longest_gap, float(steps.max(initial=0.0)))
    between = (steps > 1.5 * step) & ~gaps
    tally.missing += int(between.sum())
    usual = steps[(steps > 0.0) & ~gaps & ~between]
    tally.duration += float(steps[(steps > 0.0) & ~gaps].sum())
    if len(usual):
        low, high = np.quantile(usual, (0.16, 0.84))
        tally.jitter.append(float(high - low) / 2.0 / step)


def _walk_rows(tally: Counts, block: _Block) -> None:
    positions = np.array([n.partition(".")[0] == "q" for n in block.names], dtype=bool)
    change = np.diff(block.values[block.new], axis=0)
    if not positions.any() or not len(change):
        return
    with np.errstate(invalid="ignore"):
        same = np.all(change == 0.0, axis=1)
        # A row that repeats its neighbour, while positions changed shortly before or behind.
        moved = np.abs(change[:, positions]) > 0.2 * block.sizes.change[positions]
    near = np.convolve(moved.any(axis=1), np.ones(5), mode="same") > 0.0
    tally.repeated += int(np.sum(same & near))
    tally.moving += int(np.sum(near))
    tally.active += float(np.sum(near)) * block.sizes.step


def _walk_signals(tally: Counts, block: _Block, thresholds: SignalThresholds) -> None:
    values, sizes = block.values, block.sizes
    change = np.diff(values, axis=0)
    with np.errstate(invalid="ignore"):  # across a silence nobody knows how it moved
        change[np.abs(np.diff(block.time)) > GAP_STEPS * sizes.step] = np.nan
        some_move = (np.abs(change) > 0.2 * sizes.change).mean(axis=1) > 0.3
        alone = np.abs(values - running_median(values, 3))[1:-1]
    alone[~(np.isfinite(change[:-1]) & np.isfinite(change[1:]))] = np.nan
    for k, name in enumerate(block.names):
        kind, x, d, size = name.partition(".")[0], values[:, k], change[:, k], sizes.change[k]
        if kind == FLAG or not sizes.high[k] - sizes.low[k] > 0.0:
            continue
        if kind == "q":
            _count_jumps(tally, k, np.abs(d[block.new]), size, thresholds)
        # A spike leaves and comes back: its median of three is the nearer neighbour.
        bound = thresholds.spike_ratio * max(sizes.usual[k], SMALL) + 3.0 * size
        with np.errstate(invalid="ignore"):
            tally.spikes[k] += int(np.sum(alone[max(block.fresh - 2, 0) :, k] > bound))
        if kind in EFFORTS:
            _count_zeros(tally, k, x[block.new], thresholds)
        inside = (x[:-1] > sizes.low[k]) & (x[:-1] < sizes.high[k])  # else it is saturated
        inside |= x[:-1] == 0.0  # at which no drive saturates
        slope = max(0.2 * size, 3.0 * sizes.quantum[k])
        for side, _ in EXTREMES:
            level = sizes.high[k] if side else sizes.low[k]
            if kind in EFFORTS and level == 0.0:
                continue
            steps = 1 if kind in EFFORTS else 2  # an effort is too noisy for more
            tally.plateau[side, k] += _plateau(x, d, level, slope, thresholds.plateau_rows, steps)
        moves = _own_motion(block, kind, name, change, some_move)
        if kind in EFFORTS:
            moves &= inside
        if kind in ("force", "torque"):
            moves &= x[:-1] != 0.0  # of a contact that is open
        least = max(thresholds.frozen_rows, thresholds.frozen_s / max(sizes.step, SMALL))
        is_effort = kind in EFFORTS
        for begin, end in _frozen_runs(d, moves, max(size, sizes.quantum[k]), is_effort, least):
            tally.frozen[k] = max(tally.frozen[k], (end - begin) * sizes.step)
            tally.stalls.append((block.first + begin, block.first + end + 1))


def _count_zeros(tally: Counts, k: int, x: Array, thresholds: SignalThresholds) -> None:
    """Count falls to exactly 0 from far more than a value changes by where there is one."""
    there = x != 0.0
    changes = np.abs(np.diff(x[there & np.isfinite(x)]))
    if not len(changes) or there.all():
        return
    falls = there[:-1] & ~there[1:]
    deep = np.abs(x[:-1]) > thresholds.jump_to_zero * np.median(changes)
    tally.falls[k] += int(np.sum(falls & deep))
    tally.zeros[k] += int(np.sum(~there)) if np.sum(falls & deep) > 0.5 * np.sum(falls) else 0


def _own_motion(
    block: _Block, kind: str, name: str, change: Array, some_move: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return when a signal should change: as others do, an effort only as its own joint does.

    The torque of a joint at rest may be constant: what sticks needs no other one.
    """
    own = f"q.{name.partition('.')[2]}"
    if kind not in EFFORTS or own not in block.names:
        return some_move
    k = list(block.names).index(own)
    with np.errstate(invalid="ignore"):
        moves = np.abs(change[:, k]) > 0.2 * block.sizes.change[k]
    return np.asarray(some_move & moves)


def _count_jumps(
    tally: Counts, k: int, changes: Array, size: float, thresholds: SignalThresholds
) -> None:
    changes = changes[np.isfinite(changes)]
    jumps = changes > max(thresholds.jump_ratio * size, thresholds.jump_least)
    for unit, turn in TURNS.items():
        turns = np.abs(changes - turn) < thresholds.wrap_share * turn
        tally.wraps[unit][k] += int(np.sum(jumps & turns))
    tally.jumps[k] += int(np.sum(jumps))


def _walk_velocities(tally: Counts, block: _Block) -> None:
    time, values, sizes = block.time, block.values, block.sizes
    places = {n: k for k, n in enumerate(block.names)}
    for name, k in places.items():
        kind, _, joint = name.partition(".")
        at = places.get(f"q.{joint}")
        if kind != "v" or at is None or len(time) < 3:
            continue
        with np.errstate(invalid="ignore", divide="ignore"):
            own = (values[2:, at] - values[:-2, at]) / (time[2:] - time[:-2])
        stated = values[1:-1, k]
        good = np.isfinite(own) & np.isfinite(stated) & (time[2:] > time[:-2])
        usual = good & (np.abs(own) <= 20.0 * sizes.change[at] / max(sizes.step, SMALL))
        own, stated = own[usual], stated[usual]
        tally.speeds[k] += (own @ own, own @ stated, stated @ stated)


def runs(mask: NDArray[np.bool_], least: float = 1.0) -> NDArray[np.intp]:
    """Return first index and index behind the last of runs of True at least so long, (runs, 2)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    spans = edges.reshape(-1, 2)
    return spans[spans[:, 1] - spans[:, 0] >= least]


def _plateau(x: Array, d: Array, level: float, slope: float, least: int, steps: int) -> int:
    """Return the rows on flat tops of at least `least` rows with a slope of `steps` rows beside.

    A motion that comes to rest ends in single steps of a coarse encoder, which are no slope.
    """
    rows = 0
    for begin, end in runs(x == level, least):
        beside = d[max(begin - steps, 0) : begin], d[end - 1 : end - 1 + steps]
        steep = any(len(e) == steps and max(e.min(), -e.max()) > slope for e in beside)
        if steep:
            rows += int(end - begin)
    return rows


def _frozen_runs(
    d: Array, moves: NDArray[np.bool_], size: float, is_effort: bool, least: float
) -> Iterator[tuple[int, int]]:
    """Yield runs of `least` rows or more that do not change while they should.

    A joint may stand still while others move, and leaves as softly as it came. An encoder that
    stood still is elsewhere when it counts again, or never does.
    """
    for begin, end in runs(d == 0.0, least):
        if not moves[begin:end].mean() > 0.5:
            continue
        behind = abs(d[end]) > 10.0 * size if end < len(d) else False
        stays = end == len(d) and begin > 0 and abs(d[begin - 1]) > 0.5 * size
        if is_effort or behind or stays:
            yield int(begin), int(end)
