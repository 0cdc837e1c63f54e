"""Findings about a log that need no robot model: clock, rows and signals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from heft.information import Finding
from heft.recordings import Recording
from heft.signals import GAP_STEPS

from .log_statistics import EXTREMES, FLAG, TURNS, Counts, Sizes, counts_of, sizes_of
from .settings import DEFAULTS, ClockThresholds, DoctorSettings, SignalThresholds

TIME_UNITS = {"ms": 1e-3, "us": 1e-6, "ns": 1e-9}


ZEROS = "zeros between values"  # name of a finding
INTEGERS = "whole numbers"  # likewise


@dataclass(frozen=True)
class LogFacts:
    """Size and content of a log."""

    rows: int  # number of rows
    step: float  # median time between rows [s]
    duration: float  # total duration of the segments between gaps [s]
    active: float  # total time during which a joint moves [s]
    signals: tuple[str, ...]  # canonical names of its signals
    # first rows, and those behind the last, in which a signal is frozen
    stalls: tuple[tuple[int, int], ...] = ()


NO_ROWS = Finding(
    "no rows",
    "the log names its columns and holds nothing else",
    about="rows",
    severity="spoils",
    evidence={"rows": 0},
    cure="see that it was recorded to its end, and saved",
)


def look(
    recording: Recording, settings: DoctorSettings = DEFAULTS
) -> tuple[LogFacts, tuple[Finding, ...]]:
    """Return the facts of a log and the findings that need no robot model.

    Raises:
        InvalidRecording: If it cannot be read.
    """
    clock, signals = settings.clock, settings.signals
    names = recording.signals
    sizes = sizes_of(recording, names)
    if not sizes.rows:
        return LogFacts(0, 0.0, 0.0, 0.0, names), (NO_ROWS,)
    counts = counts_of(recording, names, sizes, signals)
    stalls = tuple(sorted(set(counts.stalls)))
    facts = LogFacts(sizes.rows, sizes.step, counts.duration, counts.active, names, stalls)
    findings = [*_of_the_clock(facts, counts, clock), *_of_the_rows(facts, counts, clock)]
    for k, name in enumerate(names):
        findings += _Signal(k, name, sizes.rows, sizes, counts, signals).findings()
    findings += _of_integers(names, sizes, signals)
    findings += _of_the_velocities(names, counts, signals)
    return facts, tuple(findings)


def _of_the_clock(facts: LogFacts, counts: Counts, clock: ClockThresholds) -> Iterator[Finding]:
    bad = counts.backwards + counts.same_time + counts.broken_time
    is_lossy = bad / facts.rows > clock.lost_share
    step = facts.step
    if step > clock.slow_step_s:
        likely = [
            # rows of usual logs are no nearer than 0.1 ms
            u
            for u, s in TIME_UNITS.items()
            if 1e-4 <= s * step <= clock.slow_step_s
        ]
        unit = likely[0] if likely else None
        yield Finding(
            "slow clock",
            f"rows are {step:.4g} s apart",
            about="t",
            severity="spoils",
            evidence={"step_s": step, **({"unit_s": TIME_UNITS[unit]} if unit else {})},
            cure=f"the time is likely in {unit}" if unit else "record faster than 10 rows a second",
            lines={"map": f'[time]\nunit = "{unit}"'} if unit else {},
        )
    elif 0.0 < step < clock.fast_step_s:
        yield Finding(
            "fast clock",
            f"rows are {step:.3g} s apart",
            about="t",
            severity="spoils",
            evidence={"step_s": step},
            cure="look at the unit of the time: [time] unit in the column map",
        )
    runs = counts.restarts + 1
    if 1 < runs == counts.backwards + 1 and facts.rows >= clock.run_rows * runs:
        yield Finding(
            "clock restarts",
            f"time begins anew {_times(counts.restarts)}: taken for {runs} runs, one after another",
            about="t",
            severity="tells",
            evidence={"times": counts.restarts, "runs": runs},
            cure="give runs of other loads or set-ups as logs of their own",
        )
    elif counts.backwards:
        spoils = is_lossy or counts.jumped_back
        yield Finding(
            "clock set back",
            f"time goes back {_times(counts.backwards)}, {_times(counts.jumped_back)} of them by "
            f"more than {GAP_STEPS} steps",
            about="t",
            severity="spoils" if spoils else "warns",
            evidence={"times": counts.backwards, "far": counts.jumped_back},
            cure="rows out of order: sort the log by its time; a clock that was set: log a steady "
            "clock, or cut the log there",
        )
    if counts.same_time:
        yield Finding(
            "repeated times",
            f"{_many(counts.same_time, 'row')} with the time of the row before",
            about="t",
            severity="spoils" if is_lossy else "warns",
            evidence={"rows": counts.same_time, "share": counts.same_time / facts.rows},
            cure="log each message once; heft leaves such rows out",
        )
    if counts.broken_time:
        yield Finding(
            "time not finite",
            f"{_many(counts.broken_time, 'row')} without a time",
            about="t",
            evidence={"rows": counts.broken_time},
            cure="heft leaves such rows out",
        )
    if counts.gaps:
        yield Finding(
            "gaps",
            f"{_many(counts.gaps, 'silence')} longer than {GAP_STEPS} steps, the longest "
            f"{counts.longest_gap:.3g} s",
            about="t",
            evidence={"gaps": counts.gaps, "longest_s": counts.longest_gap},
            cure="nothing is interpolated across them, and half a second is cut at each side; "
            "record without pauses",
        )
    share = counts.missing / max(counts.steps, 1)
    if share > clock.missing_share:
        yield Finding(
            "missing rows",
            f"{share:.1%} of the steps are longer than usual",
            about="t",
            evidence={"share": share},
            cure="log to memory or at a lower rate",
        )
    jitter = float(np.median(counts.jitter)) if counts.jitter else 0.0
    if jitter > clock.jitter_steps:
        yield Finding(
            "jitter",
            f"time between rows varies by {jitter:.0%} of a step",
            about="t",
            severity="tells",
            evidence={"jitter_s": jitter * facts.step},
            cure="stamp rows where they are measured, not where they are written",
        )


def _of_the_rows(facts: LogFacts, counts: Counts, clock: ClockThresholds) -> Iterator[Finding]:
    share = counts.repeated / max(counts.moving, 1)
    if share > clock.repeated_share:
        yield Finding(
            "repeated rows",
            f"{share:.1%} of the rows repeat the one before while the robot moves",
            about="rows",
            severity="spoils" if share > clock.repeated_share_spoils else "warns",
            evidence={"share": share},
            cure="the source is slower than the log, or holds its last message: log at its rate",
        )
    kinds = {n.partition(".")[0] for n in facts.signals}
    # one of these says what drove it
    if "q" in kinds and not kinds & {"tau", "current", "force", "u"}:
        yield Finding(
            "no effort",
            "there are positions, and neither torques nor currents nor forces",
            about="log",
            severity="spoils",
            cure="record tau.<joint>, or current.<joint> and give gains (of a Universal Robot, "
            "actual_current); heft predict needs none",
        )
    if "q" in kinds and counts.active < clock.shortest_motion_s:
        yield Finding(
            "little motion",
            f"something moves for {counts.active:.3g} s only",
            about="rows",
            severity="spoils" if counts.active < clock.spoiling_motion_s else "warns",
            evidence={"moving_s": counts.active},
            cure="record 20 s or more of all joints moving",
        )


@dataclass(frozen=True)
class _Signal:
    k: int  # its place
    name: str  # its canonical name
    rows: int  # of the log
    # sizes, counts: of all signals
    sizes: Sizes
    counts: Counts
    thresholds: SignalThresholds  # from when on what it does is worth a finding

    @property
    def kind(self) -> str:
        return self.name.partition(".")[0]

    @property
    def low(self) -> float:
        return float(self.sizes.low[self.k])

    @property
    def high(self) -> float:
        return float(self.sizes.high[self.k])

    @property
    def span(self) -> float:
        return self.high - self.low

    def findings(self) -> Iterator[Finding]:
        """Yield its findings; a constant signal yields that one alone."""
        lost = int(self.counts.broken[self.k])
        if lost:
            share = lost / self.rows
            yield Finding(
                "not finite",
                f"{_many(lost, 'row')} ({share:.2%}) without a finite number",
                about=self.name,
                severity="spoils" if lost > self.thresholds.lost_share * self.rows else "warns",
                evidence={"rows": lost, "share": share},
                cure="heft leaves such rows out; look at why they are written",
            )
        if lost < self.rows:
            dead = [*self._dead()]
            yield from dead
            if not dead and self.kind != FLAG:
                zeros = [*self._zeros()]
                yield from (*self._frozen(), *self._jumps(), *(zeros or self._spikes()))
                yield from (*self._saturated(), *self._coarse())

    def _dead(self) -> Iterator[Finding]:
        """Yield the finding on a joint that never moves, or an effort that never changes."""
        joint = self.name.partition(".")[2]
        if self.kind == "q" and self.span < self.thresholds.still_range:
            yield Finding(
                "never moves",
                f"the joint moves by {self.span:.2g} only",
                about=self.name,
                severity="spoils",
                evidence={"range": self.span},
                cure="move it; or, if it is held still, say where, and leave its column out",
                lines={"options": f"[joint.{joint}]\nposition = {self.low:.6g}"},
            )
        if self.kind in ("tau", "current") and self.span < self.thresholds.constant_range:
            yield Finding(
                f"{'zero' if self.high == 0.0 else 'constant'} effort",
                f"it is {self.high:.4g} throughout",
                about=self.name,
                severity="spoils",
                evidence={"value": self.high},
                cure="log what this joint's drive measures; without, do not use it",
                lines={"options": f"[joint.{joint}]\nmeasured = false"},
            )

    def _frozen(self) -> Iterator[Finding]:
        longest = float(self.counts.frozen[self.k])
        if longest > 0.0:
            yield Finding(
                "frozen",
                f"it does not change for {longest:.3g} s while the others do",
                about=self.name,
                severity="spoils",
                evidence={"longest_s": longest},
                cure="the sensor or its message stalled: cut these rows out",
            )

    def _jumps(self) -> Iterator[Finding]:
        jumps = int(self.counts.jumps[self.k])
        wraps = {unit: int(n[self.k]) for unit, n in self.counts.wraps.items()}
        unit = max(wraps, key=lambda unit: wraps[unit])
        if self.kind == "q" and wraps[unit]:
            yield Finding(
                "wrapped angle",
                f"it jumps {_times(wraps[unit])} by a full turn ({TURNS[unit]:.4g})",
                about=self.name,
                severity="spoils",
                evidence={"jumps": wraps[unit], "turn": TURNS[unit]},
                cure="say so in the column map, and it goes on from turn to turn",
                lines={"map": "[q]\n" + 'unit = "deg"\n' * (unit == "deg") + "unwrap = true"},
            )
        # spikes and frozen stretches are reported by themselves
        elif (
            self.kind == "q"
            and jumps
            and not (self.counts.spikes[self.k] or self.counts.frozen[self.k])
        ):
            yield Finding(
                "jumps",
                f"it jumps {_times(jumps)}, by far more than it moves between rows",
                about=self.name,
                severity="spoils",
                evidence={"jumps": jumps},
                cure="an encoder was reset, or rows are missing or out of order: cut the log there",
            )

    def _zeros(self) -> Iterator[Finding]:
        zeros, falls = float(self.counts.zeros[self.k]), int(self.counts.falls[self.k])
        share, thresholds = zeros / self.rows, self.thresholds
        if falls >= thresholds.zeros_falls and share > thresholds.zeros_share:
            yield Finding(
                ZEROS,
                f"{share:.1%} of the rows are exactly 0 between others that are not",
                about=self.name,
                severity="spoils",
                evidence={"share": share, "falls": falls},
                cure="a second publisher, or a driver that writes 0 for what it lacks: log one "
                "topic, or leave those rows out",
            )

    def _spikes(self) -> Iterator[Finding]:
        spikes, kind = int(self.counts.spikes[self.k]), self.kind
        if spikes:
            yield Finding(
                "spikes",
                f"{_many(spikes, 'single row')} far off the neighbours",
                about=self.name,
                severity="spoils" if kind == "q" else "tells" if kind == "v" else "warns",
                evidence={"rows": spikes},
                cure="find the source; heft identify can leave such rows out"
                if kind != "v"
                else "heft makes velocities from positions, and does not use this column",
                lines={"flag": "--robust hampel"} if kind != "v" else {},
            )

    def _saturated(self) -> Iterator[Finding]:
        least = self.thresholds.saturated_share
        for (side, word), level in zip(EXTREMES, (self.low, self.high), strict=True):
            share = float(self.counts.plateau[side, self.k]) / self.rows
            if share > least and not self.counts.frozen[self.k] and self.kind != "v":
                spoils = share > self.thresholds.saturated_share_spoils
                yield Finding(
                    "saturated",
                    f"{share:.1%} of the rows lie on its {word} value, {level:.5g}",
                    about=self.name,
                    severity="spoils" if spoils else "warns",
                    evidence={"share": share, "level": level},
                    cure="move slower or raise the limit; cut these rows out",
                )

    def _coarse(self) -> Iterator[Finding]:
        quantum = float(self.sizes.quantum[self.k])
        # What never repeats in so few rows has no levels that could be counted.
        most = min(self.thresholds.levels(self.kind), self.rows / self.thresholds.rows_per_level)
        if np.isfinite(quantum) and self.span / quantum < most:
            yield Finding(
                "coarse",
                f"it has {self.span / quantum:.0f} levels only, {quantum:.3g} apart",
                about=self.name,
                evidence={"levels": self.span / quantum, "quantum": quantum},
                cure="log more digits, or the raw counts of the sensor",
            )


def _of_integers(
    names: Sequence[str], sizes: Sizes, thresholds: SignalThresholds
) -> Iterator[Finding]:
    """Yield the finding on torques that are all whole numbers, as drives send shares of ratings."""
    moving = (sizes.high - sizes.low) >= thresholds.constant_range
    at = [k for k, name in enumerate(names) if name.startswith("tau.") and moving[k]]
    if at and np.all(sizes.integer[at]):
        largest = float(max(sizes.high[at].max(), -sizes.low[at].min()))
        yield Finding(
            INTEGERS,
            f"all torques are whole numbers, up to {largest:.0f}: drives send them so where they "
            "are no N·m but per mille of the rated torque (CANopen, CiA 402, object 0x6077)",
            about="all joints",
            evidence={"largest": largest},
            cure="look at what the drives send. If it is per mille, the scale of a joint in the "
            "column map (--map) is its rated torque [N·m] / 1000, seen at the joint",
        )


def _of_the_velocities(
    names: Sequence[str], counts: Counts, thresholds: SignalThresholds
) -> Iterator[Finding]:
    for k, name in enumerate(names):
        own, both, stated = counts.speeds[k]
        if not name.startswith("v.") or own <= 0.0 or stated <= 0.0:
            continue
        slope, correlation = both / own, both / np.sqrt(own * stated)
        least = thresholds.velocity_correlation
        if abs(correlation) > least and abs(slope - 1.0) < thresholds.velocity_slope:
            continue
        if abs(correlation) < least:
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
            message,
            about=name,
            evidence={"slope": float(slope), "correlation": float(correlation)},
            cure=cure,
        )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _near(value: float, others: Sequence[float]) -> bool:
    return any(abs(value / o - 1.0) < 0.1 for o in others)
