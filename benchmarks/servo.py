"""One servo on a bench with its duty logged: is it the same servo at every gain of its firmware?

    HEFT_DATA=… python -m benchmarks.servo [--store]

Twelve public logs of a Dynamixel XL330 with a known mass on an arm (`servo/xl330` beside the folder
of HEFT_DATA), at three gains of its firmware. Each gain's logs are fitted alone, and what must not
depend on the gain compared, as are the halves of its logs. Then each gain is predicted by the fit
of the other two: by `heft servo` and by the terms of BAM's richest model (m6 of
github.com/Rhoban/bam: friction in the load that tells motor from arm, Stribeck, quadratic), fitted
to the same logs by nonlinear least squares.
Errors are what the law misses where the arm slides, over what the drive gave, both as root mean
squares; the same unit for both, since each has its own torque per volt.

Then the duty is hidden, and the same logs fitted by position and goal with the firmware's gain
stated: the duty, which that fit has not seen, is the judge of its numbers, and logs of gains that
it was not fitted to are simulated whole, from their first sample on.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares
from scipy.signal import savgol_filter

from benchmarks.arms import data_folder
from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_least, at_most
from heft.applications.servo import (
    Bench,
    IdentifiedServo,
    ServoLog,
    hidden,
    identify_bench,
    open_logs,
)

BENCH = Bench(0.49, 0.1, full_duty=885.0, gain=4096 / (2 * np.pi) / (256 * 885))
GAINS = (100, 200, 800)
LOGS = 4  # of each gain that are taken
TOGETHER = (1, 2)  # gains whose logs are fitted without their duty
STEP, WINDOW = 0.005, 21  # [s], samples: of signals smoothed for the comparison
SLIDES = 0.15  # [rad/s]
ASKED = 3.0  # standard deviations between gains
MISSED_DUTY, MISSED_POSITION = 15.0, 1.6  # [%], [°], asked of logs that a fit has not seen
# Of m6: A, B, rotor, base, its Stribeck part, motor's and arm's share of load friction, theirs by
# Stribeck, speed of Stribeck, quadratic parts, viscous, offset; start and bounds as BAM has them.
START = (0.12, 0.04, 0.002, 0.002, 0.001, 0.2, 0.2, 0.01, 0.1, 0.15, 0.0, 0.0, 0.01, 0.0)
LEAST = (0.01, 0.0, 1e-4, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.1, 0.0, 0.0, 0.0, -0.1)
MOST = (1.0, 1.0, 0.05, 0.2, 0.2, 0.5, 0.5, 1.0, 1.0, 1.0, 0.01, 0.01, 1.0, 0.1)

Sliding = Mapping[str, np.ndarray]


def sliding(logs: Sequence[ServoLog]) -> Sliding:
    """Return smooth signals of logs where they slide with the torque on, one after another."""
    parts = []
    for log in logs:
        t = np.arange(log.time[0], log.time[-1], STEP)
        given = np.interp(t, log.time, np.where(log.on, log.duty * log.supply, 0.0))  # type: ignore[operator]
        on = np.interp(t, log.time, log.on.astype(float)) > 0.5
        q, v, a = (
            savgol_filter(np.interp(t, log.time, log.position), WINDOW, 3, deriv=k, delta=STEP)
            for k in range(3)
        )
        kept = on & (np.abs(v) > SLIDES)
        kept[: 2 * WINDOW] = kept[-2 * WINDOW :] = False
        parts.append((q, v, a, savgol_filter(given, WINDOW, 3), np.full(len(t), log.temperature)))
        parts[-1] = tuple(x[kept] for x in parts[-1])
    names = ("q", "v", "a", "volts", "temperature")
    return dict(zip(names, map(np.concatenate, zip(*parts, strict=True)), strict=True))


def missed(found: IdentifiedServo, s: Sliding) -> np.ndarray:
    """Return what heft's law misses of the torque [N·m]."""
    x = {name: q.value for name, q in found.quantities.items()}
    arm = BENCH.moment * np.sin(s["q"]) + BENCH.inertia * s["a"]
    warm = 1.0 + x.get("warmth", 0.0) * (s["temperature"] - found.temperature)
    rubs = x["coulomb"] + x["load"] * np.abs(arm)
    carried = (warm + x["sag"] * np.abs(arm)) * arm + x["armature"] * s["a"]
    taken = carried + np.sign(s["v"]) * rubs + x["offset"]
    return np.asarray(x["A"] * s["volts"] - taken - (x.get("B", 0.0) + x["viscous"]) * s["v"])


def m6(x: np.ndarray, s: Sliding) -> np.ndarray:
    """Return what m6 misses of the torque [N·m]."""
    A, B, rotor, base, base_s, cm, ce, cm_s, ce_s, speed, quad_m, quad_e, viscous, offset = x
    motor = A * s["volts"] - B * s["v"]
    gravity = BENCH.moment * np.sin(s["q"])
    slow = np.exp(-np.abs(s["v"]) / speed)
    rubs = base + slow * base_s + np.abs(ce * gravity + cm * motor)
    rubs = rubs + slow * np.abs(ce_s * gravity + cm_s * motor)
    driving = np.abs(gravity) < np.abs(motor)
    square = np.where(driving, quad_e * gravity**2, quad_m * motor**2)
    rubs = rubs + slow * square * (np.sign(gravity) == np.sign(motor))
    arm = gravity + BENCH.inertia * s["a"] + rotor * s["a"]
    return np.asarray(motor - arm - np.sign(s["v"]) * rubs - viscous * s["v"] - offset)


def share(error: np.ndarray, A: float, s: Sliding) -> float:
    """Return an error of torque over what the drive gave, as root mean squares [%]."""
    return float(100.0 * np.sqrt(np.mean(error**2) / np.mean((A * s["volts"]) ** 2)))


def apart(one: IdentifiedServo, other: IdentifiedServo) -> dict[str, float]:
    """Return how many standard deviations numbers that both have are apart."""
    pairs = {
        n: (x, other.quantities[n]) for n, x in one.quantities.items() if n in other.quantities
    }
    return {n: abs(x.value - y.value) / np.hypot(x.std, y.std) for n, (x, y) in pairs.items()}


def half(log: ServoLog, which: int) -> ServoLog:
    """Return the first half of a log, or the second one."""
    rows = np.array_split(np.arange(len(log.time)), 2)[which]
    names = ("time", "position", "goal", "duty", "supply", "on")
    return replace(log, **{name: getattr(log, name)[rows] for name in names})


def by_position(logs: Mapping[int, Sequence[ServoLog]], told: Mapping[int, Any]) -> Iterator[Row]:
    """Yield what position and goal alone tell, against what the duty told."""
    unseen = {g: [replace(log, duty=None) for log in own] for g, own in logs.items()}
    sets = [gains for count in TOGETHER for gains in combinations(GAINS, count)]
    for fitted in sets:
        one = identify_bench(BENCH, [log for g in fitted for log in unseen[g]])
        found, warm = one.quantities, one.temperature
        words = "position and goal at gain " + " and ".join(map(str, fitted))
        if len(fitted) == 1:
            for name, q in found.items():
                if name in told[fitted[0]].quantities:
                    duty = told[fitted[0]].quantities[name].value
                    z = abs(q.value - duty) / q.std
                    yield at_most(f"{words}: {name}, off what the duty says by", z, "σ", 1.96)
        values = np.array([[found[n].value if n in found else 0.0 for n in hidden.NAMES]])
        for g in (g for g in GAINS if g not in fitted):
            off, missed, whole = [], 0.0, 0.0
            for log in logs[g]:
                length = log.time[-1] - log.time[0] - hidden.STEP
                s = hidden.Stretches.of([log], BENCH, length, warm)
                places, duties = (x[0, 0].real for x in hidden.followed(values, s, BENCH))
                clock = log.time[0] + hidden.STEP * np.arange(len(places))
                duty = np.interp(clock, log.time, np.where(log.on, log.duty, 0.0))  # type: ignore[arg-type]
                off.append(np.degrees(np.mean(np.abs(places - s.signals[0, 0]))))
                missed, whole = missed + np.sum((duties - duty) ** 2), whole + np.sum(duty**2)
            share = 100.0 * np.sqrt(missed / whole)
            yield at_most(f"{words}: duty missed at gain {g}", share, "%", MISSED_DUTY)
            mean = float(np.mean(off))
            yield at_most(f"{words}: position missed at gain {g}", mean, "°", MISSED_POSITION)


@benchmark({"GAINS": (100, 200), "LOGS": 4, "TOGETHER": (1,)})
def main() -> Iterator[Row]:
    """Yield the rows."""
    folder = Path(data_folder()).parent / "servo" / "xl330"
    if not folder.is_dir():
        print(f"NO LOGS OF A SERVO in {folder}: nothing is measured", file=sys.stderr)
        yield Row("logs of a servo", 0.0, "", against=f"none in {folder}")
        return
    paths = {g: sorted(folder.glob(f"*_kp{g}_*.json"))[:LOGS] for g in GAINS}
    logs = {g: open_logs(BENCH, paths[g]) for g in GAINS}
    found = {g: identify_bench(BENCH, logs[g]) for g in GAINS}
    for g, one in found.items():
        assert one.firmware is not None
        least = one.firmware.share
        yield Row(f"gain {g}: duty per rad and unit of gain", one.firmware.gain, "", None, None)
        yield Row(f"gain {g}: its least R²", least, "")
        for name, q in one.quantities.items():
            yield Row(f"gain {g}: {name}", q.value, q.unit, against=f"± {q.std:.2g}")
    every = []
    for a, b in combinations(GAINS, 2):
        for name, z in apart(found[a], found[b]).items():
            every.append(z)
            yield at_most(f"{name} at gain {a} and {b}, apart by", z, "σ", ASKED)
    for own in logs.values():
        early, late = (identify_bench(BENCH, [half(log, k) for log in own]) for k in (0, 1))
        every += apart(early, late).values()
    share_of = float(np.mean(np.array(every) < 2.0))
    words = "numbers of gains and of halves of the logs, apart by less than 2 σ"
    yield at_least(words, share_of, "", 0.92, f"of {len(every)}")
    for g in GAINS:
        others = [log for k in GAINS if k != g for log in logs[k]]
        held, fitted = sliding(logs[g]), sliding(others)
        ours = identify_bench(BENCH, others)
        theirs = least_squares(m6, START, bounds=(LEAST, MOST), args=(fitted,), x_scale="jac").x
        least = share(m6(theirs, held), theirs[0], held)
        error = share(missed(ours, held), ours.quantities["A"].value, held)
        newtons = np.sqrt(np.mean(missed(ours, held) ** 2)), np.sqrt(np.mean(m6(theirs, held) ** 2))
        said = f"m6's; {newtons[0]:.3f} and {newtons[1]:.3f} N·m"
        yield at_most(f"gain {g} by the others, torque missed", error, "%", least, said)
        repeated = []
        for k in range(len(logs[g])):
            rest = [log for j, log in enumerate(logs[g]) if j != k]
            alone, one = identify_bench(BENCH, rest), sliding([logs[g][k]])
            repeated.append(share(missed(alone, one), alone.quantities["A"].value, one))
        middle = float(np.median(repeated))
        yield Row(f"gain {g}: a log by the others of its gain, torque missed", middle, "%")
        yield at_most(f"gain {g}: by other gains over by its own", error / middle, "", 1.5)
    yield from by_position(logs, found)


if __name__ == "__main__":
    main()
