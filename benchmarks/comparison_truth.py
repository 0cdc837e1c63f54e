"""What `heft compare` says of robots that are not made of heft's own model.

    python -m benchmarks.comparison_truth [--seeds 5] [--jobs 2] [--label LABEL] [--store]
    python -m benchmarks.comparison_truth --development [--arm NAME ...] [--condition NAME ...]

Each robot of a seed is identified from several logs, each of a motion of its own: as it was, with
15 % more viscous friction in one joint, and with 0.3 kg more at its tool. Of what spoils the first
log `heft identify` says so, and writes no model: the options that it asks for, gravity where the
base is tilted, are stated for all logs, as its user is to do. Folders of results stay
in `benchmarks/.cache/comparison`, and none is made twice: a run that was interrupted goes on.
"""

from __future__ import annotations

import sys
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path

import numpy as np
from scipy.stats import norm

from benchmarks import truth
from benchmarks.program import benchmark, cache_path, commit, spread
from benchmarks.results_file import Row, at_least, at_most
from benchmarks.scoring import unchecked
from heft.applications.doctor import diagnose
from heft.applications.identification.comparison import Comparison, compare
from heft.applications.identification.difference import POWER
from heft.applications.identification.identification import identify
from heft.applications.identification.results import write
from heft.arrays import Array
from heft.errors import FitError
from heft.fit.settings import Settings
from heft.models import Options, Robot
from heft.simulation import Arm, MotionKind, Simulator, Viscous
from heft.simulation.simulated_drives import Drive

RATE, SECONDS = 125.0, 25.0  # of the logs, at most [Hz], [s]
VISCOUS = 1.15  # times as much, in one joint
TOOL = 0.3  # more at the tool [kg]
SAME = 0.005  # of the share of a change that links explain: equal as it is told
ALARMS = 0.09  # share of comparisons with an alarm where nothing changed, at most
NAMED = 0.95  # share of changes that are named, at least
SHOWN = 5.0  # of its own scatter between motions, from which a change can be told
CONDITIONS = (
    "in class",
    "lugre",
    "lugre load drift late ar1 jitter",
    "elastic ripple quantised",
    "backlash",
    "lugre base tilted",
    "light direct drive",
)
Key = tuple[str, str, int]  # arm, condition, seed


@dataclass(frozen=True)
class Log:
    """Of what a log is.

    Attributes:
        motion: Kind of the motion; the condition's own if None.
        number: Of the motion.
        change: What has changed: `rubs`, `weighs`, or nothing.
    """

    motion: MotionKind | None
    number: int
    change: str = ""


LOGS: Mapping[str, Log] = {
    "first": Log(None, 0),
    "other motion": Log(None, 1),
    "other kind": Log("point to point", 2),
    "rubs, other motion": Log(None, 3, "rubs"),
    "weighs, other motion": Log(None, 5, "weighs"),
    "weighs, other kind": Log("point to point", 6, "weighs"),
}


@dataclass(frozen=True, eq=False)
class Changed(Simulator):
    """A simulator of a robot of which something has changed since.

    Attributes:
        before: Simulator of the robot as it was, whose drives and model file these are.
        rubbing: Joint that rubs more; none if None.
    """

    before: Simulator | None = None
    rubbing: int | None = None

    @cached_property
    def typical(self) -> tuple[Array, Array]:
        """Typical torques and inertias of the robot as it was."""
        assert self.before is not None
        return self.before.typical

    def believed(self, seed: int) -> bytes:
        """Return the model file, which knows of no change."""
        assert self.before is not None
        return self.before.believed(seed)

    def drives_of(self, seed: int) -> tuple[Drive, ...]:
        """Return the drives, one of which rubs more."""
        assert self.before is not None
        drives = list(self.before.drives_of(seed))
        if self.rubbing is not None:
            drives[self.rubbing] = replace(
                drives[self.rubbing],
                laws=tuple(
                    replace(k, coefficient=VISCOUS * k.coefficient) if isinstance(k, Viscous) else k
                    for k in drives[self.rubbing].laws
                ),
            )
        return tuple(drives)


def tool_of(arm: Arm) -> str:
    """Return the link behind the last joint."""
    root = ET.fromstring(arm.urdf)
    joint = next(j for j in root.findall("joint") if j.get("name") == arm.joints[-1])
    child = joint.find("child")
    assert child is not None
    return child.attrib["link"]


def heavier(arm: Arm) -> Arm:
    """Return the arm with a point of `TOOL` more in its last link's centre of mass."""
    root = ET.fromstring(arm.urdf)
    link = next(k for k in root.findall("link") if k.get("name") == tool_of(arm))
    mass = link.find("inertial/mass")
    assert mass is not None
    mass.set("value", repr(float(mass.attrib["value"]) + TOOL))
    return replace(arm, urdf=ET.tostring(root))


def rubbing_joint(arm: Arm, seed: int) -> int:
    """Return the joint that rubs more: another one each seed."""
    return seed % len(arm.joints)


def simulator(key: Key, log: Log) -> Simulator:
    """Return the simulator of a log."""
    name, condition, seed = key
    chosen = truth.CONDITIONS[condition]
    sensors = replace(chosen.sensors, rate=min(RATE, chosen.sensors.rate))
    before = Simulator(truth.arm(name), replace(chosen, sensors=sensors, duration=SECONDS))
    after = replace(before.condition, motion=log.motion or chosen.motion)
    if not log.change:
        return replace(before, condition=after)
    arm = heavier(before.arm) if log.change == "weighs" else before.arm
    rubbing = rubbing_joint(before.arm, seed) if log.change == "rubs" else None
    return Changed(arm, after, before, rubbing)


@cache
def asked_options(key: Key) -> Options:
    """Return the options that heft asks for where something spoils a robot's first log."""
    first = simulator(key, LOGS["first"]).run(key[2], number=LOGS["first"].number)
    found = diagnose([first.recording], Robot.from_urdf_text(first.prior)).findings
    lines = [f.lines["options"] for f in found if f.severity == "spoils" and "options" in f.lines]
    return Options.from_dict(tomllib.loads("\n".join(lines)))


def folder(label: str, key: Key, log: str) -> Path:
    """Return where results are kept."""
    name, condition, seed = key
    return cache_path("comparison") / label / name / condition / str(seed) / log


def one(label: str, log: tuple[Key, str], settings: Settings = Settings(threads=1)) -> str:
    """Identify a robot from a log, and keep the results; return what is to be told."""
    key, name = log
    place = folder(label, key, name)
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        experiment = simulator(key, LOGS[name]).run(key[2], number=LOGS[name].number)
        robot = Robot.from_urdf_text(experiment.prior, asked_options(key))
        found = identify(robot, [experiment.recording], settings=settings)
    except FitError as error:  # or a simulation that diverged
        return error.message
    write(unchecked(found), place)
    return found.verdict


def fitted(label: str, keys: Sequence[Key], jobs: int) -> None:
    """Identify what is not kept yet."""
    work = [(k, n) for k in keys for n in LOGS if not folder(label, k, n).exists()]
    for number, (log, future) in enumerate(spread(partial(one, label), work, jobs), 1):
        print(f"{number}/{len(work)} {log}: {future.result()}", file=sys.stderr, flush=True)


def alarms(found: Comparison, key: Key) -> bool:
    """Return whether anything is marked."""
    return any(c.clear for c in found.changes)


def names_joint(found: Comparison, key: Key) -> bool:
    """Return whether the joint that rubs more is marked, before any other."""
    arm = truth.arm(key[0])
    marked = sorted((c for c in found.of("friction") if c.clear), key=lambda c: c.probability)
    return bool(marked) and marked[0].name == arm.joints[rubbing_joint(arm, key[2])]


def names_tool(found: Comparison, key: Key) -> bool:
    """Return whether the tool explains the change of the bodies as well as any link."""
    shares = dict(found.suspects)
    return bool(shares) and shares[tool_of(truth.arm(key[0]))] > max(shares.values()) - SAME


ASKED: Mapping[str, tuple[str, Callable[[Comparison, Key], bool]]] = {
    "other motion": ("nothing changed, other motion: false alarms", alarms),
    "other kind": ("nothing changed, motion of another kind: false alarms", alarms),
    "rubs, other motion": ("15 % more viscous friction named, other motion", names_joint),
    "weighs, other motion": (f"{TOOL} kg more at the tool named, other motion", names_tool),
    "weighs, other kind": (f"{TOOL} kg more at the tool named, motion of another kind", names_tool),
}


def rise_of(key: Key) -> dict[str, float]:
    """Return `VISCOUS`'s rise of each joint that has viscous friction [N·m·s/rad]."""
    drives = simulator(key, LOGS["first"]).drives_of(key[2])
    return {
        joint: (VISCOUS - 1.0) * law.coefficient
        for joint, drive in zip(truth.arm(key[0]).joints, drives, strict=True)
        for law in drive.laws
        if isinstance(law, Viscous)
    }


def own_scatter(nothing: Mapping[Key, Comparison]) -> dict[tuple[str, str], float]:
    """Return how much viscous friction seems to change between motions where it did not.

    It owes nothing to heft's own deviations: the median over all joints and seeds of an arm under a
    condition, made that of a normal distribution, relative to the change that is to be named.
    """
    found: dict[tuple[str, str], list[float]] = {}
    for key, said in nothing.items():
        true = rise_of(key)
        found.setdefault(key[:2], []).extend(
            abs(c.difference[0]) / true[c.name] for c in said.changes if c.quantity == "viscous"
        )
    return {k: float(np.nanmedian(v) / norm.ppf(0.75)) for k, v in found.items() if v}


def can_tell(said: Comparison, key: Key) -> bool:
    """Return whether it says that the joint's rise is large enough to be named."""
    joint = truth.arm(key[0]).joints[rubbing_joint(truth.arm(key[0]), key[2])]
    rise = rise_of(key)[joint]
    return any(
        c.name == joint and c.quantity == "viscous" and c.least <= rise for c in said.changes
    )


def rows_of(label: str, keys: Sequence[Key]) -> Iterator[Row]:
    """Yield the rows: all conditions together, then each."""
    found: dict[str, dict[Key, bool]] = {name: {} for name in ASKED}
    nothing: dict[Key, Comparison] = {}
    told_of: list[bool] = []
    for key in keys:
        first = folder(label, key, "first")
        for name, (_, right) in ASKED.items():
            after = folder(label, key, name)
            if first.exists() and after.exists():
                said = compare(first, after)
                found[name][key] = right(said, key)
                if name == "other motion":
                    nothing[key] = said
                if name == "rubs, other motion" and can_tell(said, key):
                    told_of.append(found[name][key])
    scatter = own_scatter(nothing)
    title, _ = ASKED["rubs, other motion"]
    shown = [
        v
        for k, v in found["rubs, other motion"].items()
        if scatter.get(k[:2], np.inf) * SHOWN <= 1.0
    ]
    if shown:
        own = f"{title}, where it exceeds {SHOWN:g} of its own scatter between motions"
        yield at_least(own, float(np.mean(shown)), f"share of {len(shown)}", NAMED)
    if told_of:
        own = f"{title}, where compare says that it can be told"
        yield at_least(own, float(np.mean(told_of)), f"share of {len(told_of)}", POWER)
    conditions = list(dict.fromkeys(c for _, c, _ in keys))
    for which in (None, *conditions):
        for name, (title, right) in ASKED.items():
            told = [v for k, v in found[name].items() if which in (None, k[1])]
            if not told:
                continue
            share, count = float(np.mean(told)), f"share of {len(told)}"
            if which is not None:
                yield Row(f"[{which}]: {title}", share, count)
            elif right is alarms:
                yield at_most(title, share, count, ALARMS)
            else:
                yield at_least(title, share, count, NAMED)


FEW = ("first", "other motion", "rubs, other motion")


@benchmark(
    {
        **{"arm": ("finger",), "condition": ("light direct drive",), "seeds": 1, "jobs": 1},
        **{"SECONDS": 3.0, "RATE": 50.0, "LOGS": {n: LOGS[n] for n in FEW}},
    },
    unstored=("development", "arm", "condition"),
)
def main(
    *,
    seeds: int = 5,
    first: int | None = None,
    development: bool = False,
    arm: tuple[str, ...] = (),
    condition: tuple[str, ...] = CONDITIONS,
    jobs: int = 2,
    label: str | None = None,
) -> Iterator[Row]:
    """Yield the rows; what is kept under the label is not made again.

    Args:
        seeds: How many.
        first: The first of them.
        development: Arms and seeds to choose on.
        arm: Some of the arms.
        condition: Some of the conditions.
        jobs: Processes.
        label: Under which fits are kept; the commit if not given.
    """
    arms = arm or tuple(truth.DEVELOPMENT if development else truth.SCORED)
    begin = first if first is not None else 0 if development else truth.FIRST_SCORED
    chosen = range(begin, begin + seeds)
    truth.refuse_mixed(development, arms, chosen)
    keys = truth.planned(arms, condition, chosen)
    fitted(label or commit(), keys, jobs)
    yield from rows_of(label or commit(), keys)


if __name__ == "__main__":
    main()
