"""What a log shows without a robot: its clock, its rows, its signals.

A log is walked twice in blocks of bounded memory: once for the sizes of things, once to count
what is odd against them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.recordings import Recording
from heft.signals import GAP_STEPS

from .finding import Finding

JITTER = 0.2  # of a step: robust deviation between rows, beyond which it is worth saying
MISSING = 0.01  # share of steps that are multiples of the usual one
LOST = 0.01  # share of rows lost that spoils an identification
REPEATED = 0.02  # share of rows that repeat the one before while the robot moves
STILL = 1e-3  # range of a position below which its joint never moves [rad or m]
SATURATED = 0.005  # share of rows at the very largest or smallest value
PLATEAU = 5  # rows that a plateau lasts at least
FROZEN = 0.25  # [s] for which a signal must not change at all to be frozen
FROZEN_ROWS = 25  # and at least so many rows
LEVELS = {"q": 2000.0, "tau": 100.0, "current": 100.0}  # of a quantised signal, to be fine enough
ROWS_PER_LEVEL = 2.0  # that a log has, at least, where its levels are counted
EFFORTS = {"tau", "current", "force", "u"}  # kinds of signals, one of which says what drove it
WRAP = 0.25  # by which a jump may differ from a full turn, as a share of it
SPIKE = 30.0  # times the usual second difference of its neighbours
SPEED_UNLIKE = 0.1  # by which a stated velocity's slope may be off
SPEED_TOLD = 0.7  # correlation with the positions' own velocity that makes it one
SLOW_STEP = 0.1  # [s] between rows, beyond which the time may be in another unit
SHORTEST = 5.0  # [s] of motion, below which little can be learnt
SMALL = 1e-12
TURNS = {"rad": 2.0 * np.pi, "deg": 360.0}
EXTREMES = ((0, "smallest"), (1, "largest"))


@dataclass
class _Sizes:
    """Of signals, from the first walk."""

    rows: int
    step: float
    low: Array
    high: Array
    change: Array  # rms of differences between rows, wraps left out
    usual: Array  # median size of second differences
    quantum: Array  # smallest difference between rows that is one


@dataclass
class _Counts:
    """Of what is odd, from the second walk; arrays have a place a signal."""

    broken: NDArray[np.int64]
    broken_time: int = 0
    backwards: int = 0
    jumped_back: int = 0
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
    wraps: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    jumps: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    spikes: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    plateau: Array = field(default_factory=lambda: np.zeros((2, 0)))
    frozen: Array = field(default_factory=lambda: np.zeros(0))
    speeds: Array = field(default_factory=lambda: np.zeros((0, 3)))


@dataclass(frozen=True)
class LogFacts:
    """What a log is, besides what is wrong with it.

    Attributes:
        rows: How many.
        step: Median time between them [s].
        duration: Of the segments together [s].
        active: Time for which something moves [s].
        signals: Canonical names.
    """

    rows: int
    step: float
    duration: float
    active: float
    signals: tuple[str, ...]


_NO_ROWS = Finding(
    "no rows",
    "rows",
    "spoils",
    "the log names its columns and holds nothing else",
    {"rows": 0},
    cure="see that it was recorded to its end, and saved",
)


def look(recording: Recording) -> tuple[LogFacts, tuple[Finding, ...]]:
    """Return what a log is, and what is found in it without a robot.

    Raises:
        InvalidRecording: If it cannot be read.
    """
    names = recording.signals
    sizes = _sizes(recording, names)
    if not sizes.rows:
        return LogFacts(0, 0.0, 0.0, 0.0, names), (_NO_ROWS,)
    counts = _counts(recording, names, sizes)
    facts = LogFacts(sizes.rows, sizes.step, counts.duration, counts.active, names)
    found = [*_of_the_clock(facts, counts), *_of_the_rows(facts, counts)]
    for k, name in enumerate(names):
        found += _of_a_signal(k, name, facts, sizes, counts)
    found += _of_the_velocities(names, counts)
    return facts, tuple(found)


def _sizes(recording: Recording, names: Sequence[str]) -> _Sizes:
    count = len(names)
    medians: list[tuple[float, int]] = []
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    squares, differences, quantum = np.zeros(count), np.zeros(count), np.full(count, np.inf)
    second: list[Array] = []
    rows = 0
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
            change = np.diff(values, axis=0)
            if not len(change):
                continue
            bound = 3.0 * np.nanquantile(np.abs(change), 0.98, axis=0)  # wraps and jumps are rare
            least = SMALL * np.maximum(np.abs(low), np.abs(high))
            real = np.where(np.abs(change) > least, np.abs(change), np.inf)
            quantum = np.minimum(quantum, real.min(axis=0, initial=np.inf))
            usual = np.isfinite(change) & (np.abs(change) <= bound)
            squares += np.sum(np.where(usual, change, 0.0) ** 2, axis=0)
            differences += usual.sum(axis=0)
            if len(change) > 1:
                second.append(np.nanmedian(np.abs(np.diff(change, axis=0)), axis=0))
    medians.sort()
    half = sum(n for _, n in medians) / 2.0
    at = int(np.searchsorted(np.cumsum([n for _, n in medians]), half)) if medians else 0
    step = medians[min(at, len(medians) - 1)][0] if medians else 0.0
    bend = np.median(second, axis=0) if second else np.zeros(count)
    rms = np.sqrt(squares / np.maximum(differences, 1))
    return _Sizes(rows, step, low, high, rms, bend, quantum)


def _counts(recording: Recording, names: Sequence[str], sizes: _Sizes) -> _Counts:
    count = len(names)
    kinds = [n.partition(".")[0] for n in names]
    positions = np.array([k == "q" for k in kinds], dtype=bool)
    tally = _Counts(np.zeros(count, dtype=np.int64))
    tally.jumps, tally.spikes = (np.zeros(count, dtype=np.int64) for _ in range(2))
    tally.wraps = {unit: np.zeros(count, dtype=np.int64) for unit in TURNS}
    tally.plateau, tally.frozen = np.zeros((2, count)), np.zeros(count)
    tally.speeds = np.zeros((count, 3))
    tail_time, tail = np.empty(0), np.empty((0, count))
    for block in recording.blocks(names):
        time = np.concatenate([tail_time, block.time])
        finite = np.where(np.isfinite(block.values), block.values, np.nan)
        values = np.concatenate([tail, finite])
        fresh = len(tail_time)
        tally.broken += (~np.isfinite(block.values)).sum(axis=0)
        tally.broken_time += int((~np.isfinite(block.time)).sum())
        if len(time) > 1:
            _walk_clock(tally, time[max(fresh - 1, 0) :], sizes.step)
            _walk_rows(tally, time, values, fresh, sizes, positions)
            _walk_signals(tally, time, values, names, fresh, sizes)
        keep = min(len(time), 3)
        tail_time, tail = time[-keep:], values[-keep:]
    return tally


def _walk_clock(tally: _Counts, time: Array, step: float) -> None:
    steps = np.diff(time[np.isfinite(time)])
    if not len(steps) or not step:
        return
    tally.steps += len(steps)
    tally.same_time += int(np.sum(steps == 0.0))
    tally.backwards += int(np.sum(steps < 0.0))
    tally.jumped_back += int(np.sum(steps < -GAP_STEPS * step))
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


def _walk_rows(
    tally: _Counts,
    time: Array,
    values: Array,
    fresh: int,
    sizes: _Sizes,
    positions: NDArray[np.bool_],
) -> None:
    change = np.diff(values[max(fresh - 1, 0) :], axis=0)
    if not positions.any() or not len(change):
        return
    with np.errstate(invalid="ignore"):
        same = np.all(change == 0.0, axis=1)
        # A row that repeats its neighbour, while positions changed shortly before or behind.
        moved = np.abs(change[:, positions]) > 0.2 * sizes.change[positions]
    near = np.convolve(moved.any(axis=1), np.ones(5), mode="same") > 0.0
    tally.repeated += int(np.sum(same & near))
    tally.moving += int(np.sum(near))
    tally.active += float(np.sum(near)) * sizes.step


def _walk_signals(
    tally: _Counts,
    time: Array,
    values: Array,
    names: Sequence[str],
    fresh: int,
    sizes: _Sizes,
) -> None:
    change = np.diff(values, axis=0)
    with np.errstate(invalid="ignore"):  # across a silence nobody knows how it moved
        change[np.diff(time) > GAP_STEPS * sizes.step] = np.nan
    new = slice(max(fresh - 1, 0), None)
    with np.errstate(invalid="ignore"):
        some_move = (np.abs(change) > 0.2 * sizes.change).mean(axis=1) > 0.3
    for k, name in enumerate(names):
        kind, x, d = name.partition(".")[0], values[:, k], change[:, k]
        size = sizes.change[k]
        if not sizes.high[k] - sizes.low[k] > 0.0:
            continue
        apart = np.abs(d[new])
        apart = apart[np.isfinite(apart)]
        if kind == "q":
            jumps = apart > max(30.0 * size, 1e-3)
            for unit, turn in TURNS.items():
                whole = np.abs(apart - turn) < WRAP * turn
                tally.wraps[unit][k] += int(np.sum(jumps & whole))
            tally.jumps[k] += int(np.sum(jumps))
        # A spike leaves and comes back: two large differences of opposite sign.
        first, second = d[:-1], d[1:]
        with np.errstate(invalid="ignore"):
            bound = SPIKE * max(sizes.usual[k], SMALL) + 3.0 * size
            spikes = (np.minimum(np.abs(first), np.abs(second)) > bound) & (first * second < 0.0)
        tally.spikes[k] += int(np.sum(spikes[max(fresh - 2, 0) :]))
        inside = (x[:-1] > sizes.low[k]) & (x[:-1] < sizes.high[k])  # else it is saturated
        slope = max(0.2 * size, 3.0 * sizes.quantum[k])
        for side, _ in EXTREMES:
            tally.plateau[side, k] += _plateau(x, d, sizes.high[k] if side else sizes.low[k], slope)
        _freeze(tally, k, d, some_move & inside, size, kind, sizes.step)
    places = {n: k for k, n in enumerate(names)}
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


def _runs(mask: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return where runs begin and where they end (behind the last)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return edges[::2], edges[1::2]


def _plateau(x: Array, d: Array, level: float, slope: float) -> int:
    """Return how many rows lie on flat tops that are entered with a slope."""
    begins, ends = _runs(x == level)
    rows = 0
    for begin, end in zip(begins, ends, strict=True):
        entered = abs(d[begin - 1]) if begin > 0 else 0.0
        left = abs(d[end - 1]) if end - 1 < len(d) else 0.0
        if end - begin >= PLATEAU and max(entered, left) > slope:
            rows += int(end - begin)
    return rows


def _freeze(
    tally: _Counts,
    k: int,
    d: Array,
    some_move: NDArray[np.bool_],
    size: float,
    kind: str,
    step: float,
) -> None:
    begins, ends = _runs(d == 0.0)
    least = max(FROZEN_ROWS, FROZEN / max(step, SMALL))
    for begin, end in zip(begins, ends, strict=True):
        if end - begin < least or not some_move[begin:end].mean() > 0.5:
            continue
        behind = abs(d[end]) if end < len(d) else 0.0
        before = abs(d[begin - 1]) if begin > 0 else 0.0
        # A joint may stand still while others move; it then leaves as softly as it came.
        sudden = behind > 10.0 * size or before > 0.5 * size
        if kind in ("tau", "current") or sudden:
            tally.frozen[k] = max(tally.frozen[k], (end - begin) * step)


def _of_the_clock(facts: LogFacts, counts: _Counts) -> Iterator[Finding]:
    step, rows = facts.step, max(facts.rows, 1)
    if step > SLOW_STEP:
        units = {"ms": 1e-3, "us": 1e-6, "ns": 1e-9}
        likely = [u for u, s in units.items() if 1e-4 <= s * step <= SLOW_STEP]
        unit = likely[0] if likely else None
        yield Finding(
            "slow clock",
            "t",
            "spoils",
            f"rows are {step:.4g} s apart",
            {"step_s": step},
            cure=f"the time is likely in {unit}" if unit else "record faster than 10 rows a second",
            lines={"map": f'[time]\nunit = "{unit}"'} if unit else {},
        )
    elif 0.0 < step < 1e-5:
        yield Finding(
            "fast clock",
            "t",
            "spoils",
            f"rows are {step:.3g} s apart",
            {"step_s": step},
            cure="look at the unit of the time: [time] unit in the column map",
        )
    bad = (counts.backwards + counts.same_time + counts.broken_time) / rows
    if counts.backwards:
        yield Finding(
            "clock set back",
            "t",
            "spoils" if bad > LOST or counts.jumped_back else "warns",
            f"time goes back {_times(counts.backwards)}, {_times(counts.jumped_back)} of them by "
            f"more than {GAP_STEPS} steps",
            {"times": counts.backwards, "far": counts.jumped_back},
            cure="rows out of order: sort the log by its time; a clock that was set: log a steady "
            "clock, or cut the log there",
        )
    if counts.same_time:
        yield Finding(
            "repeated times",
            "t",
            "spoils" if bad > LOST else "warns",
            f"{_many(counts.same_time, 'row')} with the time of the row before",
            {"rows": counts.same_time, "share": counts.same_time / rows},
            cure="log each message once; heft leaves such rows out",
        )
    if counts.broken_time:
        yield Finding(
            "time not finite",
            "t",
            "warns",
            f"{_many(counts.broken_time, 'row')} without a time",
            {"rows": counts.broken_time},
            cure="heft leaves such rows out",
        )
    if counts.gaps:
        yield Finding(
            "gaps",
            "t",
            "warns",
            f"{_many(counts.gaps, 'silence')} longer than {GAP_STEPS} steps, the longest "
            f"{counts.longest_gap:.3g} s",
            {"gaps": counts.gaps, "longest_s": counts.longest_gap},
            cure="nothing is interpolated across them, and half a second is cut at each side; "
            "record without pauses",
        )
    share = counts.missing / max(counts.steps, 1)
    if share > MISSING:
        yield Finding(
            "missing rows",
            "t",
            "warns",
            f"{share:.1%} of the steps are longer than usual",
            {"share": share},
            cure="log to memory or at a lower rate",
        )
    jitter = float(np.median(counts.jitter)) if counts.jitter else 0.0
    if jitter > JITTER:
        yield Finding(
            "jitter",
            "t",
            "tells",
            f"time between rows varies by {jitter:.0%} of a step",
            {"jitter_s": jitter * step},
            cure="stamp rows where they are measured, not where they are written",
        )


def _of_the_rows(facts: LogFacts, counts: _Counts) -> Iterator[Finding]:
    share = counts.repeated / max(counts.moving, 1)
    if share > REPEATED:
        yield Finding(
            "repeated rows",
            "rows",
            "spoils" if share > 0.3 else "warns",
            f"{share:.1%} of the rows repeat the one before while the robot moves",
            {"share": share},
            cure="the source is slower than the log, or holds its last message: log at its rate",
        )
    kinds = {n.partition(".")[0] for n in facts.signals}
    if "q" in kinds and not kinds & EFFORTS:
        yield Finding(
            "no effort",
            "log",
            "spoils",
            "there are positions, and neither torques nor currents nor forces",
            {},
            cure="record tau.<joint>, or current.<joint> and give gains (of a Universal Robot, "
            "actual_current); heft predict needs none",
        )
    if "q" in kinds and counts.active < SHORTEST:
        yield Finding(
            "little motion",
            "rows",
            "spoils" if counts.active < 0.2 * SHORTEST else "warns",
            f"something moves for {counts.active:.3g} s only",
            {"moving_s": counts.active},
            cure="record 20 s or more of all joints moving",
        )


def _of_a_signal(
    k: int, name: str, facts: LogFacts, sizes: _Sizes, counts: _Counts
) -> Iterator[Finding]:
    rows, lost = max(facts.rows, 1), int(counts.broken[k])
    if lost:
        yield Finding(
            "not finite",
            name,
            "spoils" if lost > LOST * rows else "warns",
            f"{_many(lost, 'row')} ({lost / rows:.2%}) without a finite number",
            {"rows": lost, "share": lost / rows},
            cure="heft leaves such rows out; look at why they are written",
        )
    if lost < rows:
        dead = list(_dead(k, name, sizes))
        yield from dead
        if not dead:
            yield from _leaps(k, name, counts)
            yield from _levels(k, name, rows, sizes, counts)


def _dead(k: int, name: str, sizes: _Sizes) -> Iterator[Finding]:
    """Yield what a signal shows that never changes."""
    kind, span = name.partition(".")[0], float(sizes.high[k] - sizes.low[k])
    if kind == "q" and span < STILL:
        yield Finding(
            "never moves",
            name,
            "spoils",
            f"the joint moves by {span:.2g} only",
            {"range": span},
            cure="move it; or, if it is held still, say where, and leave its column out",
            lines={"options": f"[joint.{name[2:]}]\nposition = {float(sizes.low[k]):.6g}"},
        )
    elif kind in ("tau", "current") and span < 1e-9:
        what = "zero" if sizes.high[k] == 0.0 else "constant"
        yield Finding(
            f"{what} effort",
            name,
            "spoils",
            f"it is {float(sizes.high[k]):.4g} throughout",
            {"value": float(sizes.high[k])},
            cure="log what this joint's drive measures; without, do not use it",
            lines={"options": f"[joint.{name.partition('.')[2]}]\nmeasured = false"},
        )


def _leaps(k: int, name: str, counts: _Counts) -> Iterator[Finding]:
    """Yield what a signal shows from row to row: stalls, jumps, spikes."""
    kind = name.partition(".")[0]
    if counts.frozen[k] > 0.0:
        yield Finding(
            "frozen",
            name,
            "spoils",
            f"it does not change for {counts.frozen[k]:.3g} s while the others do",
            {"longest_s": float(counts.frozen[k])},
            cure="the sensor or its message stalled: cut these rows out",
        )
    wraps = {unit: int(n[k]) for unit, n in counts.wraps.items()}
    wrapped = max(wraps, key=lambda unit: wraps[unit])
    if kind == "q" and wraps[wrapped]:
        yield Finding(
            "wrapped angle",
            name,
            "spoils",
            f"it jumps {_times(wraps[wrapped])} by a full turn ({TURNS[wrapped]:.4g})",
            {"jumps": wraps[wrapped], "turn": TURNS[wrapped]},
            cure=f"unwrap it: numpy.unwrap(q, period={TURNS[wrapped]:.9g})",
        )
    elif kind == "q" and counts.jumps[k] and not counts.spikes[k]:
        yield Finding(
            "jumps",
            name,
            "spoils",
            f"it jumps {_times(int(counts.jumps[k]))}, by far more than it moves between rows",
            {"jumps": int(counts.jumps[k])},
            cure="an encoder was reset, or rows are missing or out of order: cut the log there",
        )
    if counts.spikes[k]:
        yield Finding(
            "spikes",
            name,
            "spoils" if kind == "q" else "tells" if kind == "v" else "warns",
            f"{_many(int(counts.spikes[k]), 'single row')} far off the neighbours",
            {"rows": int(counts.spikes[k])},
            cure="find the source; heft identify can leave such rows out"
            if kind != "v"
            else "heft makes velocities from positions, and does not use this column",
            lines={"flag": "--robust hampel"} if kind != "v" else {},
        )


def _levels(k: int, name: str, rows: int, sizes: _Sizes, counts: _Counts) -> Iterator[Finding]:
    """Yield what a signal's values show: limits that it lies on, steps that it is made of."""
    kind, span = name.partition(".")[0], float(sizes.high[k] - sizes.low[k])
    for side, word in EXTREMES:
        share = float(counts.plateau[side, k]) / rows
        if share > SATURATED and not counts.frozen[k] and kind != "v":
            level = float(sizes.high[k] if side else sizes.low[k])
            yield Finding(
                "saturated",
                name,
                "spoils" if share > 0.02 else "warns",
                f"{share:.1%} of the rows lie on its {word} value, {level:.5g}",
                {"share": share, "level": level},
                cure="move slower or raise the limit; cut these rows out",
            )
    quantum = float(sizes.quantum[k])
    # What never repeats in so few rows has no levels that could be counted.
    most = min(LEVELS.get(kind, 0.0), rows / ROWS_PER_LEVEL)
    if np.isfinite(quantum) and span / quantum < most:
        yield Finding(
            "coarse",
            name,
            "warns",
            f"it has {span / quantum:.0f} levels only, {quantum:.3g} apart",
            {"levels": span / quantum, "quantum": quantum},
            cure="log more digits, or the raw counts of the sensor",
        )


def _of_the_velocities(names: Sequence[str], counts: _Counts) -> Iterator[Finding]:
    for k, name in enumerate(names):
        own, both, stated = counts.speeds[k]
        if not name.startswith("v.") or own <= 0.0 or stated <= 0.0:
            continue
        slope, correlation = both / own, both / np.sqrt(own * stated)
        if abs(correlation) > SPEED_TOLD and abs(slope - 1.0) < SPEED_UNLIKE:
            continue
        if abs(correlation) < SPEED_TOLD:
            message = f"it is no derivative of the position (correlation {correlation:.2f})"
            cure = "look which columns are which joint's"
        else:
            likely = "; one of the two is in degrees" if _near(slope, (57.3, 1 / 57.3)) else ""
            likely = "; the signs of the two differ" if _near(slope, (-1.0,)) else likely
            likely = "; one is the motor's" if abs(slope) > 5.0 and not likely else likely
            message = f"it is {slope:.4g} times the derivative of the position{likely}"
            cure = "heft makes velocities from positions: be sure of those"
        yield Finding(
            "velocity unlike position",
            name,
            "warns",
            message,
            {"slope": float(slope), "correlation": float(correlation)},
            cure=cure,
        )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _near(value: float, others: Sequence[float]) -> bool:
    return any(abs(value / o - 1.0) < 0.1 for o in others)
