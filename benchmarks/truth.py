"""How true results are where the truth is not made of heft's own model.

    python -m benchmarks.truth --development [--seeds 2] [--arm NAME ...] [--condition NAME ...]
    python -m benchmarks.truth [--seeds 10] [--jobs 2] [--before LABEL] [--name NAME] [--store]

Arms in MuJoCo with friction, gears, sensors and motions that heft's models were not made for (see
`heft.simulation.simulator`), each fitted as a user would. What is compared with the truth is in
`benchmarks.truth_scores`. Constants of heft are chosen with `--development`: its arms and seeds
are never scored, and those that are scored are refused there.

Every fit is one line in `benchmarks/.cache/truth.jsonl`, under a label (the commit, if none is
given), and is not made twice: a run that was interrupted goes on, and rows are made anew from it.
"""

from __future__ import annotations

import contextlib
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the jobs share the cores
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import scipy.stats
from tests.experiments import ROBOTS

from benchmarks.arms import with_friction
from benchmarks.program import benchmark, cache_path, commit, spread
from benchmarks.results_file import Row, at_least, at_most
from benchmarks.scoring import Left
from benchmarks.truth_scores import NORMAL, SLOW_MOTIONS, held_out, record
from heft.applications.identification.identification import identify
from heft.errors import FitError, SolverFailure
from heft.fit.settings import Settings
from heft.models import Robot
from heft.signals import Smoothing
from heft.simulation import (
    Arm,
    Condition,
    Controller,
    DriveRanges,
    Sensors,
    SimulatedExperiment,
    Simulator,
)

LATE = (0.003, 0.0015, 0.008, 0.02)  # delays, seed by seed [s]


@dataclass(frozen=True)
class File:
    """Where an arm's numbers are.

    Attributes:
        path: In the folder of example-robot-data.
        last: Joint behind which the arm is cut off.
        fastest: Bound on its speeds [rad/s].
        first: Joint that stands on the base; the file's first if not given.
    """

    path: str
    last: str | None = None
    fastest: float = 2.5
    first: str | None = None


# Constants are chosen on the first; figures are of the others, from seeds that nobody looked at.
DEVELOPMENT: Mapping[str, File] = {
    "panda": File("panda_description/urdf/panda.urdf"),
    "ur5": File("ur_description/urdf/ur5_robot.urdf"),
    "so101": File("so_arm_description/urdf/so101.urdf", "wrist_roll", 6.0),
    "double": File("double_pendulum_description/urdf/double_pendulum.urdf", None, 8.0),
}
SCORED: Mapping[str, File] = {
    "xarm7": File("xarm_description/urdf/xarm7.urdf"),
    "z1": File("z1_description/urdf/z1.urdf", "joint6"),
    "kinova": File("kinova_description/robots/kinova.urdf"),
    "tiago": File("tiago_description/robots/tiago_no_hand.urdf", "arm_7_joint", 2.5, "arm_1_joint"),
    "finger": File("finger_edu_description/robots/finger_edu.urdf", None, 8.0),
}
LIGHTLY = "light direct drive"
LIGHT = ("double", "finger")  # the arms of `light direct drive`, and of nothing else
FIRST_SCORED = 1000  # seed; 0 to 99 are for development

IN_CLASS = DriveRanges()
LUGRE = DriveRanges(friction="lugre", bend=(0.5, 2.0))
FAST = Sensors(rate=500.0)
CONDITIONS: Mapping[str, Condition] = {
    "in class": Condition(drives=IN_CLASS),
    "in class, hard": Condition(drives=replace(IN_CLASS, friction="hard"), sensors=FAST),
    "lugre": Condition(drives=LUGRE, sensors=FAST),
    "lugre late": Condition(drives=LUGRE, sensors=replace(FAST, delay=LATE[0])),
    "lugre load drift late ar1 jitter": Condition(
        drives=replace(LUGRE, load=0.04, warming=0.2),
        sensors=Sensors(
            bits=18,
            torque_noise=0.01,
            correlation=0.9,
            jitter=0.03,
            delay=LATE[0],
            torque_step=0.001,
        ),
    ),
    "dahl": Condition(
        drives=replace(LUGRE, friction="dahl"), sensors=replace(FAST, bits=17, torque_noise=0.01)
    ),
    "elastic ripple quantised": Condition(
        drives=replace(LUGRE, resonance=(12.0, 25.0), ripple=0.08),
        sensors=replace(FAST, bits=16, torque_step=0.01),
    ),
    "backlash": Condition(
        drives=replace(LUGRE, resonance=(40.0, 60.0), gap=(3e-4, 1e-3)),
        sensors=replace(FAST, bits=18),
    ),
    "lugre base tilted": Condition(drives=LUGRE, sensors=FAST, tilt=np.radians(1.5)),
    "slow": Condition(drives=LUGRE, motion="slow"),
    "ordinary work": Condition(drives=LUGRE, motion="ordinary work"),
    LIGHTLY: Condition(
        drives=replace(
            LUGRE,
            coulomb=(0.02, 0.06),
            least=0.004,
            viscous=(0.1, 0.4),
            armature=(0.03, 0.15),
            least_armature=0.005,
        ),
        sensors=replace(FAST, bits=14, torque_noise=0.01),
        # Loosely held, so that it swings almost freely: torque is a small difference.
        controller=Controller(position=3.0, velocity=2.0, integral=0.0, ahead=0.0),
    ),
}


@cache
def arm(name: str) -> Arm:
    """Return an arm by its short name."""
    file = {**DEVELOPMENT, **SCORED}[name]
    return Arm.of(ROBOTS / file.path, name, file.first, file.last, file.fastest)


def experiment(name: str, condition: str, seed: int, **changes: object) -> SimulatedExperiment:
    """Return the experiment of an arm, a condition and a seed."""
    chosen = replace(CONDITIONS[condition], **changes)  # type: ignore[arg-type]
    if chosen.sensors.delay == LATE[0]:
        late = replace(chosen.sensors, delay=LATE[seed % len(LATE)])
        chosen = replace(chosen, sensors=late)
    return Simulator(arm(name), chosen).run(seed)


# --- fits


KEPT = "truth.jsonl"
Key = tuple[str, str, int]  # arm, condition, seed
Record = dict[str, Any]


def refuse_mixed(development: bool, arms: Sequence[str], seeds: Sequence[int]) -> None:
    """Refuse to score what constants were chosen on, and to choose on what is scored.

    Raises:
        SystemExit: If an arm or a seed is of the other kind.
    """
    allowed = DEVELOPMENT if development else SCORED
    wrong = [a for a in arms if a not in allowed]
    wrong += [f"seed {s}" for s in seeds if (s >= FIRST_SCORED) is development]
    if wrong:
        kind = "development" if development else "scoring"
        raise SystemExit(f"not for {kind}: {', '.join(wrong)}; arms: {', '.join(allowed)}")


def planned(arms: Sequence[str], conditions: Sequence[str], seeds: Sequence[int]) -> list[Key]:
    """Return what is to be fitted, all arms and conditions of a seed before the next seed."""
    return [(a, c, s) for s in seeds for c in conditions for a in arms if fits_arm(a, c)]


def fits_arm(name: str, condition: str) -> bool:
    """Return whether an arm is looked at under a condition."""
    return (name in LIGHT) is (condition == LIGHTLY)


def one(key: Key) -> Record:
    """Return the record of one fit."""
    try:
        truth = experiment(*key, **LASTING)
    except (np.linalg.LinAlgError, SolverFailure):  # the controlled arm itself is unstable
        return {"diverged": True}
    begin = time.process_time()
    try:
        found = identify(prior(truth), [truth.recording], settings=Settings(threads=1))
    except FitError as error:
        return {"failed": error.message}
    seconds = time.process_time() - begin
    swept = at_corners(truth) if key[1] == LIGHTLY else {}
    return {"seconds": seconds, "swept": swept, **record(found, truth, SLOW_MOTIONS)}


def prior(truth: SimulatedExperiment) -> Robot:
    """Return the robot that is fitted."""
    robot = Robot.from_urdf_text(truth.prior)
    return robot if FRICTION is None else with_friction(robot, FRICTION)


def at_corners(truth: SimulatedExperiment) -> dict[str, float]:
    """Return the held-out error on a motion alike by corners that are given [Hz]."""
    robot, motion, errors = prior(truth), truth.other(), {}
    for corner in SWEPT:
        settings = Settings(threads=1, smoothing=Smoothing(corner=corner))
        with contextlib.suppress(FitError):
            found = identify(robot, [truth.recording], settings=settings)
            errors[f"{corner:g}"] = held_out(Left.by(found), motion)["full"]
    return errors


def stored(label: str) -> dict[Key, Record]:
    """Return the records of a label."""
    if not cache_path(KEPT).exists():
        return {}
    lines = map(json.loads, cache_path(KEPT).read_text(encoding="utf-8").splitlines())
    return {
        (k["arm"], k["condition"], k["seed"]): k["record"] for k in lines if k["label"] == label
    }


def fitted(keys: Sequence[Key], label: str, jobs: int) -> dict[Key, Record]:
    """Return the records of some fits, those made that are not stored yet."""
    done = {k: r for k, r in stored(label).items() if k in set(keys)}
    missing = [k for k in keys if k not in done]
    cache_path(KEPT).parent.mkdir(exist_ok=True)
    with cache_path(KEPT).open("a", encoding="utf-8") as file:
        for number, (key, future) in enumerate(spread(one, missing, jobs), 1):
            crash = future.exception()
            done[key] = {"failed": repr(crash)} if crash else future.result()
            entry = dict(zip(("arm", "condition", "seed"), key, strict=True))
            line = {"label": label, **entry, "record": done[key]}
            file.write(json.dumps(line) + "\n")
            file.flush()
            print(f"{number}/{len(missing)} {key}: {said(done[key])}", file=sys.stderr, flush=True)
    return done


def said(found: Record) -> str:
    """Return a line about a record."""
    if "failed" in found or "diverged" in found:
        return str(found.get("failed", "diverged"))
    shares = ", ".join(f"{k} {inside(found[k]):.2f}" for k in COVERED if found[k]["error"])
    errors = f"{found['alike']['full']:.3f}/{found['other']['full']:.3f}"
    late = f"{1e3 * found['delay']:.1f} for {1e3 * found['true delay']:.1f} ms"
    return f"{shares}; held out {errors}; {late}; {found['verdict']}; {found['seconds']:.0f} s"


# --- rows


COVERED: Mapping[str, tuple[float, float]] = {  # what share of truths intervals are to hold
    "base": (0.92, 0.99),
    "rotor": (0.92, 0.99),
    "curve": (0.90, 1.0),
    "torque alike": (0.90, 1.0),
    "torque other": (0.85, 1.0),
}
VERDICTS = ("good", "usable", "poor")
LASTING: Mapping[str, Any] = {}  # durations [s] in place of those of a condition
FRICTION: str | None = None  # its kind; the default if None
SWEPT = (2.1, 3.0, 4.2, 6.0, 8.5, 12.0, 17.0, 24.0)  # corners [Hz]
WIDEST = 2.5  # median half width over the 95th percentile of the error
GOOD = 0.10  # error on another motion above which no verdict may be good
SAME_DELAY = (0.15, 3e-4)  # share and time [s] within which a delay is found
BETTER = 0.6  # held-out error on another motion over that of before


def inside(quantity: Mapping[str, Any]) -> float:
    """Return the share of truths within intervals, of one fit."""
    error, half = (np.array(quantity[k]) for k in ("error", "half"))
    return float(np.mean(np.abs(error) <= half))


def together(records: Sequence[Record], name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return |error| and half width of all numbers of a kind."""
    error, half = (np.concatenate([r[name][k] for r in records]) for k in ("error", "half"))
    return np.abs(error), half


def of_intervals(label: str, records: Sequence[Record], judged: bool) -> Iterator[Row]:
    """Yield coverage and width of each kind of number."""
    count = f"{len(records)} fits"
    for name, (least, most) in COVERED.items():
        share = float(np.mean([inside(r[name]) for r in records if r[name]["error"]]))
        error, half = together(records, name)
        ratio = float(np.median(half) / np.quantile(error, 0.95))
        title = f"{label}: {name}, truths within intervals"
        wide = f"{label}: {name}, median half width over 95th percentile of the error"
        if judged:
            yield Row(title, share, "", least, least <= share <= most, count)
            yield at_most(wide, ratio, "", WIDEST)
        else:
            yield Row(title, share, "", against=count)
            yield Row(wide, ratio, "")


def of_simple(label: str, records: Sequence[Record]) -> Iterator[Row]:
    """Yield how right viscous and Coulomb friction are where they are the truth."""
    records = [r for r in records if r["simple"]["error"]]
    if not records:
        return
    error, half = together(records, "simple")
    within = float(np.mean(error <= half / NORMAL * 3.0))
    yield at_most(f"{label}: simple friction, relative error, median", np.median(error), "", 0.02)
    yield at_most(f"{label}: simple friction, relative error, worst", error.max(), "", 0.10)
    yield at_least(f"{label}: simple friction, share within 3 std", within, "", 0.97)


def of_delay(label: str, records: Sequence[Record]) -> Iterator[Row]:
    """Yield what delays are taken where there is none, and found where there is one."""
    found, true = (np.array([r[k] for r in records]) for k in ("delay", "true delay"))
    none = true == 0.0
    if none.any():
        taken = np.abs(found[none])
        share, count = float(np.mean(taken > 0.0)), f"{none.sum()} fits"
        yield Row(f"{label}: delay taken where there is none, share", share, "", against=count)
        largest = 1e3 * float(taken.max())
        yield at_most(f"{label}: delay taken where there is none, largest", largest, "ms", 0.5)
    if not none.all():
        right, truth = found[~none], true[~none]
        near = np.abs(right - truth) <= np.maximum(SAME_DELAY[0] * truth, SAME_DELAY[1])
        count = f"{len(truth)} fits"
        yield at_least(f"{label}: delay found, share", float(np.mean(near)), "", 0.9, count)


def of_errors(label: str, records: Sequence[Record], before: Sequence[Record]) -> Iterator[Row]:
    """Yield held-out errors, and what of them is left."""
    for motion in ("alike", "other"):
        for kind in ("full", "simple"):
            middle, was = (
                float(np.median([r[motion][kind] for r in x])) if x else None
                for x in (records, before)
            )
            title = f"{label}: held-out torque error, {motion} motion, {kind} friction"
            assert middle is not None
            yield Row(title, middle, "", against=None if was is None else f"{was:.4g} before")
            if was is not None and motion == "other" and kind == "full":
                yield at_most(f"{title}, over that of before", middle / was, "", BETTER)


def of_corner(label: str, records: Sequence[Record]) -> Iterator[Row]:
    """Yield the error with the corner that was chosen over that with the best one swept."""
    ratios = [r["alike"]["full"] / min(r["swept"].values()) for r in records if r["swept"]]
    if ratios:
        title = f"{label}: error on a motion alike over that with the best corner"
        yield at_most(f"{title}, median", float(np.median(ratios)), "", 1.1)
        yield Row(f"{title}, worst", float(max(ratios)), "")


def of_verdict(label: str, records: Sequence[Record]) -> Iterator[Row]:
    """Yield whether verdict, score and expected error tell the error on another motion.

    The true error is that in the band of the score, which is what the expected one speaks of:
    above it are the controller's answers to what encoders and gears do.
    """
    slow = np.array([r["slow"] for r in records])
    true = np.sqrt(np.mean(slow**2, axis=1))
    alike = float(scipy.stats.spearmanr(slow[:, 0], slow[:, 1]).statistic)
    title = "rank correlation of the true errors on two slow motions of one robot"
    yield Row(f"{label}: {title}", alike, "", against="what no prediction can exceed by much")
    score = scipy.stats.spearmanr(true, [r["score"] for r in records]).statistic
    yield Row(f"{label}: rank correlation of the fit score with the true error", float(score), "")
    verdicts = np.array([VERDICTS.index(r["verdict"]) for r in records])
    if len(set(verdicts.tolist())) > 1:
        rank = float(scipy.stats.spearmanr(true, verdicts).statistic)
        yield Row(f"{label}: rank correlation of the verdict with the true error", rank, "")
    expected = np.array([r["expected"] for r in records])
    rank = float(scipy.stats.spearmanr(true, expected).statistic)
    title = f"{label}: rank correlation of the expected error with the true one"
    yield at_least(title, rank, "", max(0.8, float(score)))
    ratio = float(np.median(expected / true))
    yield Row(f"{label}: expected error over the true one, median", ratio, "")
    whole = np.sqrt(np.mean(np.array([r["slow, all frequencies"] for r in records]) ** 2, axis=1))
    rank = float(scipy.stats.spearmanr(whole, expected).statistic)
    yield Row(f"{label}: the same with the true error at all frequencies", rank, "")
    wrong = int(np.sum(true[verdicts == 0] > GOOD))
    count = f"{int(np.sum(verdicts == 0))} good, {int(np.sum(verdicts == 1))} usable"
    yield at_most(f"{label}: good above {GOOD:.0%}", wrong, "fits", 0, count)
    wrong = int(np.sum(whole[verdicts == 0] > GOOD))
    yield Row(f"{label}: at all frequencies above {GOOD:.0%}, and good", wrong, "fits")


def of_masses(label: str, records: Sequence[Record]) -> Iterator[Row]:
    """Yield how often strict intervals of masses hold the truth, and how wide they are."""
    truth, low, high = (
        np.concatenate([r["masses"][k] for r in records]) for k in ("truth", "low", "high")
    )
    share = float(np.mean((low <= truth) & (truth <= high)))
    yield at_least(f"{label}: strict intervals of masses, truths within", share, "", 0.93)
    closed = np.isfinite(high)
    yield Row(f"{label}: strict intervals of masses, share with two ends", np.mean(closed), "")
    if closed.any():
        middle = float(np.median((high - low)[closed]))
        yield Row(f"{label}: strict intervals of masses, median width of these", middle, "kg")


def rows_of(records: Mapping[Key, Record], before: Mapping[Key, Record]) -> Iterator[Row]:
    """Yield the rows: in class, out of class, then each condition."""
    diverged = [k for k, r in records.items() if "diverged" in r]
    yield Row(
        "simulations that diverged, left out", len(diverged), "", against=f"of {len(records)}"
    )
    records = {k: r for k, r in records.items() if k not in diverged}
    failed = [k for k, r in records.items() if "failed" in r]
    yield at_most("fits that failed", len(failed), "", 0, f"of {len(records)}")
    groups: dict[str, Callable[[str], bool]] = {
        "in class": lambda c: c.startswith("in class"),
        "out of class": lambda c: not c.startswith("in class"),
    }
    names = sorted({c for _, c, _ in records}, key=list(CONDITIONS).index)
    groups |= {f"[{c}]": c.__eq__ for c in names}
    for label, belongs in groups.items():
        mine = {k: r for k, r in records.items() if belongs(k[1]) and "failed" not in r}
        if not mine:
            continue
        found, was = list(mine.values()), [before[k] for k in mine if k in before]
        yield from of_intervals(label, found, not label.startswith("["))
        yield from of_simple(label, found)
        yield from of_delay(label, found)
        yield from of_errors(label, found, was)
        yield from of_masses(label, found)
        yield from of_corner(label, found)
        if len(found) > 2 and not label.startswith("["):
            yield from of_verdict(label, found)


@benchmark(
    {
        **{"arm": ("finger",), "condition": (LIGHTLY,), "seeds": 2, "jobs": 1},
        **{"LASTING": {"duration": 2.5, "other_duration": 2.5}, "SWEPT": (4.2,)},
        **{"FRICTION": "simple", "SLOW_MOTIONS": SLOW_MOTIONS[:2]},
    },
    unstored=("development",),
    variants=("name",),
)
def main(
    *,
    development: bool = False,
    seeds: int = 10,
    first: int | None = None,
    jobs: int = 2,
    arm: tuple[str, ...] = (),
    condition: tuple[str, ...] = tuple(CONDITIONS),
    label: str | None = None,
    before: str | None = None,
    name: str = "",
) -> Iterator[Row]:
    """Fit what is not kept, and yield the rows.

    Args:
        development: Arms and seeds to choose on.
        seeds: How many.
        first: The first seed.
        jobs: Processes.
        arm: Some of the arms.
        condition: Some of the conditions.
        label: Under which fits are kept; the commit if not given.
        before: Label of fits with which held-out errors are compared.
        name: Of a table beside the usual one.
    """
    arms = arm or tuple(DEVELOPMENT if development else SCORED)
    begin = first if first is not None else 0 if development else FIRST_SCORED
    chosen = range(begin, begin + seeds)
    refuse_mixed(development, arms, chosen)
    records = fitted(planned(arms, condition, chosen), label or commit(), jobs)
    yield from rows_of(records, stored(before) if before else {})


if __name__ == "__main__":
    main()
