"""Faults planted in good logs, and what the log doctor makes of them.

    HEFT_DATA=… python -m benchmarks.doctor [--logs 180] [--state FILE] [--show]

Each log is given one to three faults at random: of its columns, its mounting, its delay (which
only physics can tell), or of its rows and clock (which the log itself shows). Logs are of
simulated arms, whose model file is off by 30 %, and of measured robots.

A fault of physics counts as *detectable* if the information is there: with all other faults
undone, undoing this one too must raise twice the log-likelihood by more than `INFORMATION`, by
the doctor's model of errors but at the true answer, which no search had to find. Delays must
besides explain a share of the residual that friction cannot (`delay_variance_ratio` of
`StepAcceptance`). And no other corrections, as few, may explain the torque as well: on a planar
arm the zero of the first joint and the tilt of the base are the same, and of a fault of both
neither is told. Such faults are counted apart. Found is what is undone by the corrections found,
or named as explaining the torque as well. A false alarm is a finding that spoils an identification
in a log without a planted fault, or one beyond the planted ones.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from tests import experiments

from benchmarks.arms import ROBOTS, TX40_DELAY, data_folder
from benchmarks.results_file import Row, at_least, at_most, store, table
from benchmarks.simulated import experiment
from heft.applications.doctor import doctor
from heft.applications.doctor.clock_and_signals import look
from heft.applications.doctor.corrections import Correction, CorrectionStep
from heft.applications.doctor.evidence import Evidence
from heft.applications.doctor.hypotheses import Hypotheses
from heft.applications.doctor.mending import corrected, unwrapped
from heft.applications.doctor.settings import StepAcceptance
from heft.applications.doctor.steps import (
    Delay,
    Gravity,
    PositionOffset,
    PositionScale,
    PositionUnit,
    SignFlip,
    Swap,
    TorqueGain,
    TorqueUnit,
)
from heft.arrays import Array
from heft.models.robot import Robot
from heft.recordings.recording import Recording

INFORMATION = 100.0  # evidence that makes a fault detectable, 2 ln of the odds
SEED = 20_265
NEAR_ANGLE = np.deg2rad(4.0)  # by which an offset or a tilt found may be off [rad]
NEAR_FACTOR = 0.25  # logarithm of a factor
NEAR_DELAY = 0.004  # [s]
PHYSICS = (
    "q sign", "tau sign", "q swap", "tau swap", "swap", "q unit", "q scale", "q offset",
    "tau gain", "tau unit", "gravity", "delay",
)  # fmt: skip
LOG = (
    "gaps", "clock set back", "repeated times", "repeated rows", "not finite", "frozen",
    "saturated", "coarse", "never moves", "zero effort", "wrapped angle", "spikes", "slow clock",
)  # fmt: skip


@dataclass(frozen=True)
class Good:
    """A log without faults and the robot as it is believed to be."""

    name: str
    robot: Robot
    recording: Recording
    delay: float = 0.0


@lru_cache(maxsize=4)
def simulated(number: int) -> Good:
    """Return a simulated log: arms of the model zoo, and one with a controller."""
    rng = np.random.default_rng([SEED, 1, number])
    if number % 4 == 3:
        found = experiment(number, "free", duration=20.0, rate=250.0, delay=0.0, motion_seed=0)
        return Good("simulated Panda, in closed loop", found.robot, found.recording)
    name = ("two joints", "six joints", "seven joints")[number % 4]
    truth = experiments.true_robot(experiments.ARMS[name], rng)
    recording = experiments.log(truth, 20.0, 250.0, rng)
    robot = Robot.from_urdf_text(experiments.wrong_prior(truth.robot, rng))
    return Good(f"simulated, {name}", robot, recording)


@lru_cache(maxsize=1)
def measured() -> tuple[Good, ...]:
    """Return the measured logs."""
    folder = data_folder()
    found = []
    for name, cases in ROBOTS.items():
        case = next(iter(cases(folder)))
        recording = case.fit[0].selecting_all()
        found.append(Good(case.name, case.robot, recording, TX40_DELAY if name == "tx40" else 0.0))
    return tuple(found)


def loaded(recording: Recording) -> tuple[Array, dict[str, Array]]:
    """Return time and signals of a recording."""
    names = recording.signals
    blocks = list(recording.blocks(names))
    values = np.concatenate([b.values for b in blocks])
    return np.concatenate([b.time for b in blocks]), {
        n: values[:, k].copy() for k, n in enumerate(names)
    }


def recorded(name: str, time: Array, signals: dict[str, Array]) -> Recording:
    """Return a recording of arrays by canonical name."""
    kinds: dict[str, dict[str, Array]] = {}
    for n, values in signals.items():
        kind, _, joint = n.partition(".")
        kinds.setdefault(kind, {})[joint] = values
    return Recording.from_arrays(time, name, **kinds)


# --- faults that physics tells: what undoes each is a `CorrectionStep`


def planted(kind: str, good: Good, rng: np.random.Generator) -> CorrectionStep:
    """Return the step that undoes a fault of this kind, drawn at random."""
    joints = len(good.robot.joints)
    j = int(rng.integers(joints))
    pair = tuple(sorted(int(k) for k in rng.choice(joints, 2, replace=False)))
    sign = float(rng.choice((-1.0, 1.0)))
    if kind in ("q sign", "tau sign"):
        return SignFlip((j,), "q" if kind == "q sign" else "tau")
    if kind in ("q swap", "tau swap", "swap"):
        return Swap(pair, "q" if kind == "q swap" else "tau" if kind == "tau swap" else "both")
    if kind == "q unit":
        return PositionUnit((), np.pi / 180.0)
    if kind == "q scale":
        return PositionScale((j,), 1.0 / float(rng.uniform(40.0, 160.0)))
    if kind == "q offset":
        return PositionOffset((j,), sign * float(np.deg2rad(rng.uniform(5.0, 40.0))))
    if kind == "tau gain":
        return TorqueGain((j,), float(np.exp(sign * rng.uniform(np.log(2.0), np.log(8.0)))))
    if kind == "tau unit":
        return TorqueUnit((), 1e-3)
    if kind == "delay":
        return Delay((), float(rng.uniform(0.006, 0.03)))
    angle, way = np.deg2rad(rng.uniform(4.0, 60.0)), rng.uniform(0.0, 2.0 * np.pi)
    down = np.array([np.sin(angle) * np.cos(way), np.sin(angle) * np.sin(way), -np.cos(angle)])
    x, y, z = 9.81 * down
    return Gravity((), (float(x), float(y), float(z)))


def spoil(good: Good, steps: list[CorrectionStep]) -> tuple[Robot, Recording, Correction]:
    """Return robot and log with faults planted, and what undoes them all.

    The robot is told a gravity that is off, and the log's columns are changed.
    """
    time, signals = loaded(good.recording)
    robot = good.robot
    correction = Correction.none(robot)
    for step in steps:
        if isinstance(step, Gravity):  # the arm is where it was; its options are wrong
            turn = _rotation(np.array(step.vector), robot.gravity)
            x, y, z = turn @ robot.gravity
            options = replace(robot.options, gravity=(float(x), float(y), float(z)))
            robot = Robot.from_urdf_text(robot.source, options)
        elif isinstance(step, Delay):
            for name in signals:
                if name.partition(".")[0] in ("tau", "current"):
                    signals[name] = np.interp(time - step.value, time, signals[name])
        correction = step.apply(correction)
    correction = replace(correction, gravity=Correction.none(good.robot).gravity)
    clean = recorded(good.recording.name, time, signals)
    return robot, corrected(clean, robot, inverse(correction)), correction


def _rotation(a: Array, b: Array) -> Array:
    """Return the rotation that turns a's direction into b's."""
    a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
    v, c = np.cross(a, b), float(a @ b)
    k = np.array([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]])
    return np.asarray(np.eye(3) + k + k @ k / (1.0 + c))


def inverse(correction: Correction) -> Correction:
    """Return the correction of the columns that another one undoes."""
    count = len(correction.q_source)
    q, tau = np.argsort(correction.q_source), np.argsort(correction.tau_source)
    return replace(
        correction,
        q_source=tuple(int(k) for k in q),
        q_scale=tuple(1.0 / correction.q_scale[q[j]] for j in range(count)),
        q_offset=tuple(-correction.q_offset[q[j]] / correction.q_scale[q[j]] for j in range(count)),
        tau_source=tuple(int(k) for k in tau),
        tau_scale=tuple(1.0 / correction.tau_scale[tau[j]] for j in range(count)),
    )


def undone(step: CorrectionStep, truth: Correction, found: Correction) -> bool:
    """Return whether what a fault touches is right again."""
    joints = step.joints or range(len(truth.q_source))
    if step.kind == "delay":
        return abs(truth.delay - found.delay) < NEAR_DELAY
    if step.kind == "gravity":
        a, b = np.array(truth.gravity), np.array(found.gravity)
        cosine = a @ b / max(float(np.linalg.norm(a) * np.linalg.norm(b)), 1e-12)
        return float(np.arccos(np.clip(cosine, -1.0, 1.0))) < NEAR_ANGLE
    right = True
    if not step.kind.startswith("tau"):
        for j in joints:
            factor = truth.q_scale[j] / found.q_scale[j]
            apart = np.angle(np.exp(1j * (truth.q_offset[j] - found.q_offset[j])))
            right &= truth.q_source[j] == found.q_source[j]
            right &= factor > 0.0 and abs(np.log(abs(factor))) < NEAR_FACTOR
            if step.kind == "q offset":
                right &= abs(apart) < NEAR_ANGLE
    if not step.kind.startswith("q"):
        for j in joints:
            factor = truth.tau_scale[j] / found.tau_scale[j]
            right &= truth.tau_source[j] == found.tau_source[j]
            right &= factor > 0.0 and abs(np.log(abs(factor))) < 2.0 * NEAR_FACTOR
    return bool(right)


def detectable(
    step: CorrectionStep,
    steps: list[CorrectionStep],
    robot: Robot,
    truth: Correction,
    evidence: Evidence,
) -> bool:
    """Return whether the information is there that a fault was planted."""
    hypotheses = Hypotheses(evidence)
    best = hypotheses.settle(truth)
    rest = Correction.none(robot)
    for other in steps:
        if other is not step and other.kind != "gravity":
            rest = other.apply(rest)
    told = any(m.kind == "gravity" for m in steps) and step.kind == "gravity"
    rest = replace(rest, gravity=Correction.none(robot).gravity if told else truth.gravity)
    without = hypotheses.fit(rest, best.sigma)
    if step.kind == "delay" and np.mean((best.sigma / without.sigma) ** 2) > 0.8:
        return False
    return without.objective - best.objective > INFORMATION


def told_alike(evidence: Evidence, truth: Correction, found: Correction) -> bool:
    """Return whether what was found explains the torque as well as the truth."""
    hypotheses = Hypotheses(evidence)
    best = hypotheses.settle(truth)
    return (
        hypotheses.fit(found, best.sigma).objective
        < best.objective + StepAcceptance().indistinguishable
    )


# --- faults that the log itself shows


def damage(kind: str, good: Good, rng: np.random.Generator) -> tuple[Recording, str]:
    """Return a log with a fault of its rows or clock, and the name of the signal it is in."""
    time, signals = loaded(good.recording)
    names = list(signals)
    q = str(rng.choice([n for n in names if n.startswith("q.")]))
    tau = str(rng.choice([n for n in names if not n.startswith("q.")]))
    rows, step = len(time), float(np.median(np.diff(time)))
    at = int(rng.integers(rows // 4, rows // 2))
    keep = np.ones(rows, dtype=bool)
    about = "t"
    if kind == "gaps":
        keep[at : at + max(20, round(0.3 / step))] = False
    elif kind == "clock set back":
        time[at:] -= 1.0
    elif kind == "repeated times":
        chosen = rng.choice(np.arange(1, rows), max(3, rows // 200), replace=False)
        time[np.sort(chosen)] = time[np.sort(chosen) - 1]
    elif kind == "repeated rows":
        about = "rows"
        for k in range(0, rows - 1, 2):
            for n in names:
                signals[n][k + 1] = signals[n][k]
    elif kind == "not finite":
        about = tau
        signals[tau][rng.choice(rows, rows // 30, replace=False)] = np.nan
    elif kind == "frozen":
        about = tau
        length = max(60, round(1.0 / step))
        signals[tau][at : at + length] = signals[tau][at]
    elif kind == "saturated":
        about = tau
        low, high = np.quantile(signals[tau], (0.04, 0.96))
        signals[tau] = np.clip(signals[tau], low, high)
    elif kind == "coarse":
        about = tau
        quantum = np.ptp(signals[tau]) / 40.0
        signals[tau] = quantum * np.round(signals[tau] / quantum)
    elif kind == "never moves":
        about = q
        signals[q] = np.full(rows, signals[q][0])
    elif kind == "zero effort":
        about = tau
        signals[tau] = np.zeros(rows)
    elif kind == "wrapped angle":
        about = q
        middle = float(np.median(signals[q]))
        signals[q] = np.mod(signals[q] - middle, 2.0 * np.pi)
    elif kind == "spikes":
        about = q
        chosen = rng.choice(np.arange(5, rows - 5), 5, replace=False)
        signals[q][chosen] += rng.choice((-1.0, 1.0), 5)
    else:
        time = 1e3 * time
    return recorded(
        good.recording.name, time[keep], {n: v[keep] for n, v in signals.items()}
    ), about


# --- the study


@dataclass
class Tally:
    """What came of the faults of one log, or of all."""

    planted: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    logs: int = 0
    extra: int = 0
    cured: int = 0
    not_cured: int = 0
    alike: int = 0
    asked: int = 0
    seconds: float = 0.0
    clean: int = 0
    alarms: int = 0

    def add(self, other: Tally) -> None:
        """Add another log's."""
        for name in ("planted", "seen", "found"):
            getattr(self, name).update(getattr(other, name))
        for name in (
            "logs",
            "extra",
            "cured",
            "not_cured",
            "alike",
            "asked",
            "seconds",
            "clean",
            "alarms",
        ):
            setattr(self, name, getattr(self, name) + getattr(other, name))


def of_physics(good: Good, rng: np.random.Generator, count: int, tally: Tally, show: bool) -> None:
    """Plant faults of physics in a log and count what is found."""
    kinds = [str(k) for k in rng.choice(PHYSICS, count, replace=False)]
    steps: list[CorrectionStep] = []
    for kind in kinds:
        step = planted(kind, good, rng)
        # Two faults of one joint may undo each other: both signs together turn its axis round.
        if not {j for m in steps for j in m.joints} & set(step.joints):
            steps.append(step)
    robot, recording, truth = spoil(good, steps)
    truth = replace(truth, delay=truth.delay + good.delay)
    begin = time.perf_counter()
    found = doctor.diagnose([recording], robot)
    tally.seconds += time.perf_counter() - begin
    tally.logs += 1
    tally.asked += 1
    correction = found.correction or Correction.none(robot)
    evidence = Evidence.of(robot, [unwrapped(recording, look(recording)[1])])
    alike = len(found.steps) <= len(steps) and told_alike(evidence, truth, correction)
    right = 0
    for step in steps:
        tally.planted[step.kind] += 1
        can = detectable(step, steps, robot, truth, evidence)
        named = {other for proved in found.steps for other, _ in proved.others}
        done = undone(step, truth, correction) or step in named
        tally.found[step.kind] += int(can and done)
        if can and not done and alike:
            can = False
            tally.alike += 1
        tally.seen[step.kind] += int(can)
        right += done
        if show and can and not done:
            print("   MISSED", good.name, step, [m.kind for m in steps])
    proofs = [f for f in found.findings if f.sure is not None]
    known = right + bool(good.delay and not any(m.kind == "delay" for m in steps))
    if len(proofs) > max(known, len(steps)):
        tally.extra += 1
        if show:
            print("   EXTRA", good.name, steps, [f.message for f in proofs])
    if found.correction is None:
        return
    options = replace(robot.options, gravity=correction.gravity)
    again = Robot.from_urdf_text(robot.source, options)
    cured = corrected(recording, robot, correction)
    if correction.delay:
        at, signals = loaded(cured)
        for name in signals:
            if not name.startswith("q."):
                signals[name] = np.interp(at + correction.delay, at, signals[name])
        cured = recorded(cured.name, at, signals)
    left = [f for f in doctor.diagnose([cured], again).findings if f.sure is not None]
    tally.cured += not left
    tally.not_cured += bool(left)
    if show and left:
        print("   NOT CURED", good.name, steps, [f.message for f in left])


def of_the_log(good: Good, rng: np.random.Generator, count: int, tally: Tally, show: bool) -> None:
    """Plant faults of rows and clock in a log, one after another, and count what is found."""
    for kind in rng.choice(LOG, count, replace=False):
        recording, about = damage(str(kind), good, rng)
        _, found = look(recording)
        if kind == "wrapped angle" and np.ptp(loaded(good.recording)[1][about]) < 0.1:
            continue
        tally.planted[str(kind)] += 1
        tally.seen[str(kind)] += 1
        named = any(f.name == kind and f.about == about for f in found)
        tally.found[str(kind)] += int(named)
        if show and not named:
            print("   MISSED", good.name, kind, about, [(f.name, f.about) for f in found])
    tally.logs += 1


def of_a_good_log(good: Good, tally: Tally, show: bool) -> None:
    """Count whether a log without planted faults gives an alarm."""
    found = doctor.diagnose([good.recording], good.robot)
    bad = [f for f in found.findings if f.severity == "spoils"]
    if good.delay:
        bad = [f for f in bad if f.name != "delay"]
    tally.clean += 1
    tally.alarms += bool(bad)
    if show:
        print(good.name, "clean:", [(f.name, f.about, f.message) for f in found.findings])


def look_at(number: int, show: bool) -> Tally:
    """Return what came of one log of the study; every fifth is left without faults."""
    tally = Tally()
    rng = np.random.default_rng([SEED, 2, number])
    if number % 5 == 4:
        which = number // 5
        every = measured()
        of_a_good_log(every[which] if which < len(every) else simulated(1000 + which), tally, show)
        return tally
    good = measured()[number // 3 % len(measured())] if number % 3 == 2 else simulated(number)
    study = of_the_log if number % 4 == 3 else of_physics
    study(good, rng, int(rng.integers(1, 4)), tally, show)
    return tally


def main() -> None:
    """Go on with the study where it was left, print and store the table."""
    parser = argparse.ArgumentParser(description="Faults planted in good logs.")
    parser.add_argument("--logs", type=int, default=180)
    parser.add_argument("--state", type=Path, help="file of what is done already")
    parser.add_argument("--show", action="store_true")
    arguments = parser.parse_args()
    done: dict[int, Tally] = {}
    if arguments.state and arguments.state.exists():
        for line in arguments.state.read_text().splitlines():
            entry = json.loads(line)
            number = entry.pop("number")
            counters = {k: Counter(entry.pop(k)) for k in ("planted", "seen", "found")}
            done[number] = Tally(**counters, **entry)
    for number in range(arguments.logs):
        if number in done:
            continue
        done[number] = look_at(number, arguments.show)
        if arguments.state:
            with arguments.state.open("a") as file:
                file.write(json.dumps({"number": number, **vars(done[number])}) + "\n")
        if arguments.show:
            print(number, sum(sum(t.planted.values()) for t in done.values()), "faults", flush=True)
    total = Tally()
    for tally in done.values():
        total.add(tally)
    rows = rows_of(total)
    print(table(rows))
    print(store("doctor", rows))


def rows_of(tally: Tally) -> list[Row]:
    """Return the table of a study."""
    planted, seen, found = (sum(c.values()) for c in (tally.planted, tally.seen, tally.found))
    rows = [
        at_least("faults planted", planted, "", 300),
        Row("of them detectable", seen, ""),
        Row("not detectable as other corrections explain the torque as well", tally.alike, ""),
        at_least("share of the detectable ones found", found / max(seen, 1), "", 0.95),
    ]
    for kinds, title in ((PHYSICS, "physics"), (LOG, "rows and clock")):
        can, did = (sum(c[k] for k in kinds) for c in (tally.seen, tally.found))
        rows.append(at_least(f"share found, by {title}", did / max(can, 1), "", 0.95))
    for kind in (*PHYSICS, *LOG):
        if tally.planted[kind]:
            rows.append(
                Row(
                    f"found: {kind}",
                    tally.found[kind],
                    "",
                    against=f"{tally.seen[kind]} detectable of {tally.planted[kind]}",
                )
            )
    total = max(tally.cured + tally.not_cured, 1)
    rows += [
        at_most(
            "clean logs with a false alarm", tally.alarms / max(tally.clean, 1), "", 0.01,
            f"{tally.alarms} of {tally.clean}",
        ),
        at_most(
            "logs with more findings by physics than faults", tally.extra / max(tally.asked, 1),
            "", 0.01, f"{tally.extra} of {tally.asked}",
        ),
        at_least(
            "logs clean once the cures were applied", tally.cured / total, "", 1.0,
            f"{tally.cured} of {total}",
        ),
        Row("time a log, physics", tally.seconds / max(tally.asked, 1), "s"),
    ]  # fmt: skip
    return rows


if __name__ == "__main__":
    main()
