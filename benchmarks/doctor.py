"""Faults of logs of an independent simulator, and what the log doctor makes of them.

    python -m benchmarks.doctor [--arms development|scored] [--seeds 0:2] [--kinds KIND ...]
                                [--clean 2:6] [--friction CONDITION ...] [--cache FILE] [--jobs 2]
                                [--show] [--store]

Logs are of simulated arms in closed loop, with a model file that is 30 % and 3 cm off, once with
friction that is in the dictionary of the identification and once with friction that is not (LuGre
with Stribeck, load). Each log has one kind of fault (`doctor_faults`) or none. A fault counts if it
changes the simulator's signals by more than their noise; whether heft could tell is not asked. It
is found if every cause is said, alone or beside one other that explains the log as well, and
nothing else is claimed. A false finding is anything that is claimed of a log without a fault; logs
without a fault are looked at under further conditions too: elastic, with backlash, warming, with
coarse encoders (`CLEAN`).

Thresholds of the doctor were chosen on the development arms and seeds below 100, no others.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from tests.experiments import ROBOTS

from benchmarks.comparison_truth import Changed
from benchmarks.doctor_faults import FAULTS, Cause, Experiment, Faulty, Oracle
from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_least, at_most
from benchmarks.truth import CONDITIONS, DEVELOPMENT, IN_CLASS, LUGRE, SCORED, File
from heft.applications.doctor.doctor import Diagnosis, diagnose
from heft.arrays import Array
from heft.errors import SolverFailure
from heft.models.export import write_urdf
from heft.models.robot import Robot
from heft.recordings import Recording
from heft.simulation import Arm, Condition, Inertial, MotionKind, Simulator
from heft.simulation.simulated_links import Links

FURTHER = {"ur10": File("ur_description/urdf/ur10_robot.urdf")}
SETS = {"development": tuple(DEVELOPMENT), "scored": (*SCORED, *FURTHER)}
FRICTION = {
    "in class": Condition(drives=IN_CLASS),
    "out of class": Condition(drives=replace(LUGRE, load=0.03)),
}
# Of good logs only; the one whose torque is late is in time here.
CLEAN = {
    name: replace(CONDITIONS[name], sensors=replace(CONDITIONS[name].sensors, delay=0.0))
    for name in (
        "in class, hard",
        "lugre",
        "lugre load drift late ar1 jitter",
        "dahl",
        "elastic ripple quantised",
        "backlash",
    )
}
# What a doctor may say of these: it is there.
TRUE = {
    "lugre load drift late ar1 jitter": ("friction that changes",),
    "elastic ripple quantised": ("gear that gives way", "ripple"),
    "backlash": ("gear that gives way",),
}
MOTIONS: tuple[MotionKind, ...] = ("sines", "point to point", "ordinary work", "slow")
RE_SIMULATED = {"tilt 5°": 5.0, "tilt 1.5°": 1.5, "tool missing": 0.0, "tool dropped": 0.0}
KINDS = ("clean", *FAULTS, *RE_SIMULATED)
TOOL = 2.0  # mass of a tool [kg]
LIGHT = 0.25  # of the moving mass, that a tool has at most
DURATION = 20.0  # [s]
FACTS = (
    "motion shows little",
    "motion shows too little",
    "coarse",
    "whole numbers",
    "little motion",
    "physics not asked",
)


@dataclass(frozen=True)
class Log:
    """One log of the study.

    Attributes:
        arm: Name of the arm.
        friction: In or out of class, or the name of a further condition.
        seed: Of all random numbers.
        kind: Of the fault, or `clean`.
    """

    arm: str
    friction: str
    seed: int
    kind: str

    @property
    def key(self) -> str:
        """What names it in a cache."""
        return f"{self.arm} · {self.friction} · {self.seed} · {self.kind}"


@lru_cache(maxsize=8)
def arm_of(name: str) -> Arm:
    """Return an arm by its short name."""
    file = {**DEVELOPMENT, **SCORED, **FURTHER}[name]
    return Arm.of(ROBOTS / file.path, name, file.first, file.last, file.fastest)


@lru_cache(maxsize=2)
def clean(log: Log, duration: float = DURATION) -> tuple[Recording, Robot]:
    """Return a log without any fault and the model file, as a user would have them."""
    motion = MOTIONS[log.seed % len(MOTIONS)]
    condition = replace({**FRICTION, **CLEAN}[log.friction], motion=motion, duration=duration)
    made = Simulator(arm_of(log.arm), condition).run(log.seed)
    return made.recording, Robot.from_urdf_text(made.prior)


@lru_cache(maxsize=4)
def experiment(
    arm: str, friction: str, seed: int, tilt: float = 0.0, tool: bool = False,
    duration: float = DURATION,
) -> Experiment:  # fmt: skip
    """Return a simulated experiment, without noise."""
    plain = arm_of(arm)
    held = with_tool(plain, np.random.default_rng([seed, 7])) if tool else plain
    condition = replace(FRICTION[friction], tilt=float(np.deg2rad(tilt)), duration=duration)
    before = Simulator(plain, condition)
    made = Changed(held, condition, before=before).run(seed)
    exact, believed = made.exact, before.believed(seed)
    links = Links.of(held.urdf, held.joints)
    still = np.zeros_like(exact.q)
    noise = condition.sensors.torque_noise * np.sqrt(np.mean(exact.tau**2, axis=0))
    entries = [{k: v for law in d.laws for k, v in law.entries().items()} for d in made.drives]
    return Experiment(
        Robot.from_urdf_text(believed),
        plain.joints,
        exact.time,
        exact.q,
        exact.v,
        exact.tau,
        exact.passed,
        links.inverse_dynamics(exact.q, still, still),
        np.array([e.get("bristle", e.get("coulomb", 0.0)) for e in entries]),
        np.full(len(plain.joints), condition.sensors.quantum),
        noise,
        lambda q, links=links: links.inverse_dynamics(q, exact.v, exact.a),
        lambda: Oracle.of(links, noise, exact.q, exact.v, exact.a, exact.tau),
    )


def with_tool(arm: Arm, rng: np.random.Generator) -> Arm:
    """Return an arm that holds a tool, 5 to 12 cm before its last link's centre of mass."""
    name, link = list(arm.links.items())[-1]
    moving = sum(k.mass for k in list(arm.links.values())[1:])
    mass = min(TOOL, LIGHT * moving)
    size = min(1.0, (moving / 5.0) ** (1.0 / 3.0))
    way = rng.normal(size=3)
    at = link.center + size * rng.uniform(0.05, 0.12) * way / np.linalg.norm(way)
    both = link.mass + mass
    center = (link.mass * link.center + mass * at) / both
    apart = at - link.center
    spread = link.spread + mass * (0.03 * size) ** 2 * np.eye(3)
    spread = spread + link.mass * mass / both * np.outer(apart, apart)
    ten = Inertial(both, center, spread).parameters
    return replace(arm, urdf=write_urdf(arm.urdf, {name: ten}, {}))


def load_torque(arm: str, seed: int, bare: Experiment) -> Array:
    """Return the torque of a seed's tool on the motion of the arm without it, shape (N, joints)."""
    held = with_tool(arm_of(arm), np.random.default_rng([seed, 7]))
    both = bare.torque_of(bare.position, Links.of(held.urdf, held.joints))
    return np.asarray(both - bare.torque_of(bare.position))


def faulty(log: Log, duration: float = DURATION) -> Faulty:
    """Return a log of the study, of a duration [s]."""
    if log.kind == "clean":
        return Faulty(clean(log, duration)[0], (), True)
    rng = np.random.default_rng([log.seed, list(KINDS).index(log.kind)])
    good = experiment(log.arm, log.friction, log.seed, duration=duration)
    if log.kind in FAULTS:
        return FAULTS[log.kind](good, rng)
    tilt, tool = RE_SIMULATED[log.kind], log.kind.startswith("tool")
    made = experiment(log.arm, log.friction, log.seed, tilt=tilt, tool=tool, duration=duration)
    cause = Cause(("tool missing",)) if tool else Cause(("tilted mounting",))
    if log.kind == "tool dropped":  # halfway, on the same path
        holds = np.arange(len(made.time))[:, None] < rng.uniform(0.3, 0.7) * len(made.time)
        held = load_torque(log.arm, log.seed, good)
        made = replace(good, torque=good.torque + holds * held)
        cause = Cause(("load that changes",))
        return Faulty(made.logged(rng), (cause,), good.oracle().tells(holds * held))
    moved = np.sqrt(np.mean((made.torque - good.torque) ** 2, axis=0)) > good.noise
    return Faulty(made.logged(rng), (cause,), bool(np.any(moved)))


def robot_of(log: Log, duration: float = DURATION) -> Robot:
    """Return the robot of the model file that is believed beside a log."""
    if log.kind == "clean":
        return clean(log, duration)[1]
    return experiment(log.arm, log.friction, log.seed, duration=duration).robot


def examined(log: Log) -> dict[str, object]:
    """Return what the doctor says of a log, as a line of the cache."""
    try:
        made = faulty(log, DURATION)
    except SolverFailure:
        return {**asdict(log), "key": log.key, "diverged": True}
    robot = robot_of(log, DURATION)
    begin = time.perf_counter()
    found = diagnose([made.recording], robot)
    seconds = time.perf_counter() - begin
    said = [c.is_said(found) for c in made.causes]
    return {
        "key": log.key,
        "arm": log.arm,
        "friction": log.friction,
        "kind": log.kind,
        "counts": made.counts,
        "said": said,
        "extra": [x for x in extra(found, made.causes) if x not in TRUE.get(log.friction, ())],
        "causes": [[*c.names[:1], ", ".join(c.about)] for c in made.causes],
        "findings": [[f.name, f.about, f.sure, f.message] for f in found.findings],
        "seconds": seconds,
    }


def extra(found: Diagnosis, causes: Sequence[Cause]) -> list[str]:
    """Return the claims that no cause is behind."""
    return [
        f.name
        for f in found.findings
        if f.name not in FACTS and not any(c.is_said(Diagnosis((), (f,))) for c in causes)
    ]


def rows_of(lines: Sequence[dict[str, object]]) -> Iterator[Row]:
    """Yield the table of a study."""
    for friction in (*FRICTION, *CLEAN):
        mine = [x for x in lines if x["friction"] == friction]
        good = [x for x in mine if x["kind"] == "clean"]
        if good:
            false = sum(bool(x["extra"]) for x in good)
            yield at_most(
                f"{friction}: false findings, share of clean logs", false / len(good), "", 0.01,
                f"{false} of {len(good)}",
            )  # fmt: skip
        total, right = 0, 0
        for kind in KINDS[1:]:
            own = [x for x in mine if x["kind"] == kind and x["counts"]]
            if own:
                found = sum(all(x["said"]) and not x["extra"] for x in own)  # type: ignore[arg-type]
                named = sum(all(x["said"]) for x in own)  # type: ignore[arg-type]
                total, right = total + len(own), right + found
                yield at_least(
                    f"{friction}: {kind}", found / len(own), "", 0.9,
                    f"{found} of {len(own)}; {named} said, with whatever else",
                )  # fmt: skip
        if total:
            yield at_least(f"{friction}: all faults", right / total, "", 0.9, f"{right} of {total}")
    if lines:
        yield Row("time a log, median", float(np.median([x["seconds"] for x in lines])), "s")  # type: ignore[misc]


def study(
    logs: Sequence[Log], cache: Path | None, jobs: int, show: Callable[[dict[str, object]], None]
) -> list[dict[str, object]]:
    """Return a line for each log, those of the cache as they are."""
    known: dict[str, dict[str, object]] = {}
    if cache is not None and cache.exists():
        for text in cache.read_text().splitlines():
            line = json.loads(text)
            known[line["key"]] = line
    wanted = [log for log in logs if log.key not in known]

    def keep(line: dict[str, object]) -> None:
        known[str(line["key"])] = line
        if cache is not None:
            with cache.open("a") as file:
                file.write(json.dumps(line) + "\n")
        show(line)

    if jobs > 1:
        with ProcessPoolExecutor(jobs) as pool:
            for line in pool.map(examined, wanted):
                keep(line)
    else:
        for log in wanted:
            keep(examined(log))
    return [known[log.key] for log in logs]


def logs_of(
    seeds: str, arms: Sequence[str], frictions: Sequence[str], kinds: Sequence[str]
) -> list[Log]:
    """Return the logs of some seeds, first:behind the last; faults are of few conditions."""
    first, behind = (int(x) for x in seeds.split(":"))
    return [
        Log(arm, friction, seed, kind)
        for seed in range(first, behind)
        for arm in arms
        for friction in frictions
        for kind in kinds
        if kind == "clean" or friction in FRICTION
    ]


@benchmark(
    {
        **{"arms": "finger", "seeds": "1000:1001", "clean": "1001:1002", "friction": ("in class",)},
        **{"kinds": ("clean", "tilt 5°", "degrees"), "DURATION": 3.0},
    }
)
def main(
    *,
    arms: str = "scored",
    seeds: str = "1000:1001",
    clean: str | None = None,
    kinds: tuple[str, ...] = KINDS,
    friction: tuple[str, ...] = (*FRICTION, *CLEAN),
    cache: Path | None = None,
    jobs: int = 1,
    show: bool = False,
) -> Iterator[Row]:
    """Go on with the study where it was left, and yield the rows.

    Args:
        arms: Of development, scored, or names.
        seeds: The first:behind the last.
        clean: Further seeds of logs without a fault, likewise.
        kinds: Of faults.
        friction: Conditions of friction, and of good logs.
        cache: File of what is done already.
        jobs: Processes.
        show: What was not right.
    """
    named = SETS.get(arms, tuple(arms.split(",")))
    logs = logs_of(seeds, named, friction, kinds)
    logs += logs_of(clean, named, friction, ["clean"]) if clean else []

    def told(line: dict[str, object]) -> None:
        if "diverged" in line:
            return
        right = all(line["said"]) and not line["extra"]  # type: ignore[arg-type]
        if show and not (right and line["counts"]):
            mark = "FALSE" if not line["causes"] else "WRONG" if line["counts"] else "small"
            print(mark, line["key"], line["causes"], f"{line['seconds']:.1f} s", flush=True)
            for finding in line["findings"]:  # type: ignore[attr-defined]
                print("     ", *finding, flush=True)

    lines = study(logs, cache, jobs, told)
    left = [line for line in lines if "diverged" not in line]
    yield from rows_of(left)
    made = f"of {len(lines)}"
    yield Row("simulations that diverged, left out", len(lines) - len(left), "", against=made)


if __name__ == "__main__":
    main()
