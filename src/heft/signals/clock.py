"""Clock of a log: sampling step, gaps and segments, and windows of rows within segments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import InvalidRecording
from heft.information import continuous_quaternions
from heft.recordings import BLOCK_ROWS, Recording

GAP_STEPS = 10  # a longer silence ends a segment: nothing is interpolated across it
SHORTEST_STEP, LONGEST_STEP = 1e-6, 5.0  # [s] from row to row; else time has another unit
LARGEST_VALUE = 1e9  # of a signal, in SI units; what is larger no sensor measured
MOST_LOST = 0.2  # share of rows that may be unusable before a log is refused


@dataclass(frozen=True)
class Timeline:
    """Sampling step, gaps and unusable rows of a log."""

    step: float  # median time between rows [s]
    rows: int  # rows in the file
    used: int  # rows with finite numbers and strictly increasing time
    duration: float  # sum of the lengths of the segments [s]
    repeated: int  # rows whose time does not exceed that of the row before
    broken: int  # rows with a number that is not finite, or beyond `LARGEST_VALUE`
    gaps: int  # intervals longer than `GAP_STEPS` steps, or jumps of the clock
    segments: int  # number of stretches without a gap
    restarts: int = 0  # how often the clock goes back by more than `GAP_STEPS` steps
    constant: tuple[str, ...] = ()  # signals that never change, if any rows are used
    idle: int = 0  # rows in which every effort is exactly zero: nobody measured it

    @property
    def rate(self) -> float:
        """Sampling rate [Hz]."""
        return 1.0 / self.step


@dataclass(frozen=True)
class Piece:
    """Consecutive usable rows without a gap."""

    time: Array  # strictly increasing, shape (rows,) [s]
    values: Array  # shape (rows, signals), in the signals' units
    begins: bool  # whether a segment begins here
    index: NDArray[np.int64]  # rows' positions in the recording, shape (rows,)


@dataclass
class _Counts:  # what `Timeline` says by the same names, while a log is walked
    rows: int = 0
    used: int = 0
    duration: float = 0.0
    repeated: int = 0
    broken: int = 0
    gaps: int = 0
    segments: int = 0
    restarts: int = 0


def quaternions(names: Sequence[str]) -> list[slice]:
    """Return the slices of four signals that form a quaternion: `quat.FRAME.w`, then x, y, z."""
    fours = [tuple(f"{n.removesuffix('w')}{a}" for a in "wxyz") for n in names]
    return [
        slice(k, k + 4)
        for k, (name, four) in enumerate(zip(names, fours, strict=True))
        if name.startswith("quat.") and name.endswith(".w") and tuple(names[k : k + 4]) == four
    ]


def median_of_medians(medians: Sequence[tuple[float, int]]) -> float:
    """Return the median of blocks' medians, each weighted by the number of values it is of."""
    order = sorted(medians)
    numbers = np.cumsum([n for _, n in order])
    return order[int(np.searchsorted(numbers, numbers[-1] / 2.0))][0]


def follows(time: float, last: float, longest: float) -> bool:
    """Return whether a sample at `time` continues the segment: 0 < time − last ≤ longest [s]."""
    return 0.0 < time - last <= longest


def between_gaps(time: Array, longest: float) -> Iterator[slice]:
    """Yield the slices of a clock [s] between gaps: runs of strictly increasing time.

    Args:
        longest: Step beyond which an interval is a gap [s]; a step of zero or less is one too.
    """
    steps = np.diff(time)
    cuts = np.flatnonzero(~((steps > 0.0) & (steps <= longest))) + 1
    edges = [0, *cuts.tolist(), len(time)] if len(time) else []
    yield from map(slice, edges[:-1], edges[1:])


def _pieces(
    recording: Recording, names: Sequence[str], step: float, counts: _Counts
) -> Iterator[Piece]:
    last = -np.inf
    turns = quaternions(names)
    before = np.full(len(names), np.nan)
    for block in recording.blocks(names):
        position = counts.rows + np.arange(len(block.time))
        counts.rows += len(block.time)
        sound = np.abs(block.values) <= LARGEST_VALUE  # not for NaN
        finite = np.isfinite(block.time) & sound.all(axis=1)
        counts.broken += int(np.sum(~finite))
        # Rows are copied where some are left out, or values made continuous.
        usable = slice(None) if finite.all() and not turns else finite
        time, values, position = block.time[usable], block.values[usable], position[usable]
        for four in turns if len(values) else ():
            values[:, four] = continuous_quaternions(values[:, four], before[four])
            before[four] = values[-1, four]
        while len(time):
            latest = np.maximum.accumulate(np.concatenate([[last], time]))[:-1]
            jumps = np.flatnonzero(time - latest < -GAP_STEPS * step)
            back = int(jumps[0]) if len(jumps) else len(time)
            if back == 0 and not np.isinf(last):  # the clock was set back: begin anew
                last = -np.inf
                counts.restarts += 1
                continue
            head = slice(0, back)
            highest = np.maximum.accumulate(np.concatenate([[last], time[head]]))
            fresh = time[head] > highest[:-1]
            counts.repeated += int(np.sum(~fresh))
            new = slice(None) if fresh.all() else fresh
            kept, rows, at = time[head][new], values[head][new], position[head][new]
            for part in between_gaps(kept, GAP_STEPS * step):
                piece = kept[part]
                begins = not follows(float(piece[0]), last, GAP_STEPS * step)
                counts.segments += begins
                counts.gaps += begins and counts.segments > 1
                counts.used += len(piece)
                counts.duration += float(piece[-1] - piece[0])
                if not begins:
                    counts.duration += float(piece[0] - last)
                yield Piece(piece, rows[part], begins, at[part])
                last = float(piece[-1])
            time, values, position = time[back:], values[back:], position[back:]


def survey(recording: Recording, names: Sequence[str] = ()) -> Timeline:
    """Return sampling step, gaps and unusable rows of a log; a streaming pass in bounded memory.

    Args:
        names: Signals whose rows must be finite.

    Raises:
        InvalidRecording: If time does not advance or is not in seconds, or if too many rows are
            unusable.
    """
    step = usual_step(recording)
    counts = _Counts()
    least, most = np.full(len(names), np.inf), np.full(len(names), -np.inf)
    efforts = [k for k, name in enumerate(names) if name.startswith(("tau.", "current."))]
    idle = 0
    for piece in _pieces(recording, names, step, counts):
        least = np.minimum(least, piece.values.min(axis=0))
        most = np.maximum(most, piece.values.max(axis=0))
        if efforts:
            idle += int(np.sum(~piece.values[:, efforts].any(axis=1)))
    if counts.rows - counts.used > MOST_LOST * counts.rows:
        raise InvalidRecording(
            "too many rows of the log are unusable",
            argument=recording.name,
            got=f"{counts.broken} rows with numbers that are not finite or beyond "
            f"{LARGEST_VALUE:g}, {counts.repeated} whose time is not behind the one before, "
            f"of {counts.rows}",
            expected=f"at most {MOST_LOST:.0%}",
            cure="look at how the log was written; cut out what is broken",
        )
    constant = tuple(n for n, a, b in zip(names, least, most, strict=True) if a == b)
    return Timeline(step, **vars(counts), constant=constant, idle=idle)


def usual_step(recording: Recording) -> float:
    """Return the median time step [s]: of blocks' medians, weighted by their rows.

    Raises:
        InvalidRecording: If time does not advance or is not in seconds.
    """
    medians = []
    for block in recording.blocks([]):
        steps = np.diff(block.time[np.isfinite(block.time)])
        steps = steps[steps > 0.0]
        if len(steps):
            medians.append((float(np.median(steps)), len(steps)))
    if not medians:
        raise InvalidRecording(
            "the log's time does not advance",
            argument=recording.name,
            expected="at least two rows with times in increasing order [s]",
            cure="look whether it has rows, from first to last, and which column is the time",
        )
    step = median_of_medians(medians)
    if not SHORTEST_STEP <= step <= LONGEST_STEP:
        raise InvalidRecording(
            "the log's time is not in seconds",
            argument=recording.name,
            got=f"{step:g} s from row to row",
            expected=f"{SHORTEST_STEP:g} s to {LONGEST_STEP:g} s",
            cure='say its unit in the column map (--map): [time] unit = "ms"',
        )
    return step


@dataclass(frozen=True)
class Window:
    """A core of consecutive rows of one segment, with margins on both sides.

    Filters run over the whole window; only results in the core are used.
    """

    time: Array  # shape (rows,) [s]
    values: Array  # shape (rows, signals), in the signals' units
    core: slice  # the rows that belong to this window alone
    # begin, end: when the segment begins and ends [s]; ∓inf where it continues
    begin: float
    end: float
    index: NDArray[np.int64]  # rows' positions in the recording, shape (rows,)


def windows(
    recording: Recording,
    names: Sequence[str],
    step: float,
    margin: float,
    core_rows: int = BLOCK_ROWS // 2,
) -> Iterator[Window]:
    """Yield a recording in overlapping windows, every usable row in the core of exactly one.

    Args:
        step: Median time step of the recording [s].
        margin: Time on each side of the core [s], where the segment continues.
        core_rows: Rows in a core; the last of a segment may have about twice as many.
    """
    time, index = np.empty(0), np.empty(0, dtype=np.int64)
    values = np.empty((0, len(names)))
    start, begin = 0, -np.inf

    def cut(stop: int, end: float) -> Window:
        low = int(np.searchsorted(time, time[start] - margin))
        high = int(np.searchsorted(time, time[stop - 1] + margin, side="right"))
        return Window(
            time[low:high],
            values[low:high],
            slice(start - low, stop - low),
            begin if low == 0 else -np.inf,
            end if high == len(time) else np.inf,
            index[low:high],
        )

    for piece in _pieces(recording, names, step, _Counts()):
        if piece.begins:
            if start < len(time):
                yield cut(len(time), float(time[-1]))
            time, values, index = piece.time, piece.values, piece.index
            start, begin = 0, float(time[0])
        else:
            time = np.concatenate([time, piece.time])
            values = np.concatenate([values, piece.values])
            index = np.concatenate([index, piece.index])
        while len(time) > start + 2 * core_rows and time[-1] > time[start + core_rows] + margin:
            yield cut(start + core_rows, np.inf)
            start += core_rows
            forget = int(np.searchsorted(time, time[start] - margin)) - 1
            if forget > 0:
                time, values, index = time[forget:], values[forget:], index[forget:]
                start -= forget
                begin = -np.inf
    if start < len(time):
        yield cut(len(time), float(time[-1]))
