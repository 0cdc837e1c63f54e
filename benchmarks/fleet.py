"""A fleet: what a log costs, what a second night costs, the same bytes, and drift that is found.

    python -m benchmarks.fleet [--store]

Logs are simulated (LuGre, outside heft's dictionary): three types, 20 s at 250 Hz. Drift is looked
for in drawn daily estimates, an autoregression of first order with φ = .5 about 1, 90 days before
it begins, once a week; a robot has six joints, and one false alarm in 1000 of its weeks is allowed.
The detector that knows the law is told φ and σ; its threshold is that rate of false alarms, too.
Robots under a wrong type are looked for among types whose links or masses differ, and little else.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import shutil
import tempfile
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import scipy.linalg
from tests.fleets import SimulatedType, multiply, peak_memory, write_run

from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_least, at_most
from heft.applications.fleet import Catalog, FleetSettings, fold, identify
from heft.applications.fleet.fleet import warmth_and_scatter
from heft.applications.fleet.reading import KEPT, SEEN, answer_of, read
from heft.arrays import Array
from heft.certainty import ChangeSearch, DayToDay, Series
from heft.simulation import Drive

TYPES = ("ur5", "z1", "double")
SECONDS = 20.0
ROBOTS = 20
DAYS = 6
KILLS = 3
REPEATS = 3  # of what a difference of times tells
PHI, BEFORE, WEEKS = 0.5, 90, 12  # of drawn estimates: correlation, days before, weeks after
RATE = 1e-3 / 6.0  # of false alarms, a joint and week
ENDS = [BEFORE + 7 * k for k in range(1, WEEKS + 1)]  # days after which it is looked
NULL = 25_000  # joints without a drift: 50 000 weeks of robots
NULL_WARM = 25_000  # likewise, with warmth
NEAR = 3.2  # score of a series that is looked at closely; an alarm's is 4 and more
DRIFTS = 500  # joints with one, of each size
SLOPES = 2000  # likewise, whose intervals are looked at
MEMORY = (100, 1000)  # robots of fleets whose driver is looked at
OF_MEMORY = "ur5"  # their type
SHARED = 4  # robots, and days of each, whose kept logs they share
LEARNT = 300  # joints that the law is learnt from
# types that are told apart: length of the links, and masses, per those of the double pendulum
ALIKE = {"usual": (1.0, 1.0), "longer": (1.3, 1.0), "heavier": (1.0, 1.15)}
FLEETS = 30  # of these types
MEMBERS = 12  # robots of each type in a fleet, one of them filed under another, a log of 6 s each
SIZES = ((0.03, 0.05, 3.0), (0.03, 0.03, 4.0), (0.03, 0.01, 8.0), (0.005, 0.01, 3.0))


def digest(out: Path) -> str:
    """Return the hash of all result files."""
    files = [p for p in sorted(out.rglob("*")) if p.is_file() and p.name != SEEN]
    whole = hashlib.sha256()
    for path in files:
        whole.update(str(path.relative_to(out)).encode() + path.read_bytes())
    return whole.hexdigest()


def spent(of: int = 4) -> float:
    """Return the processor's time of this process, with its ended children if asked [s]."""
    return sum(os.times()[:of])


def of_logs(place: Path, scratch: Path) -> Iterator[Row]:
    """Yield what logs and robots cost, and whether engines agree."""
    robots = [f"SN{k:03d}" for k in range(-(-ROBOTS // len(TYPES)))]
    days = [f"2026-03-{k + 1:02d}" for k in range(DAYS)]
    for name in TYPES:
        SimulatedType(name, SECONDS).write(place, robots, days)
    logs = len(TYPES) * len(robots) * len(days)
    identify(place, scratch / "threads", FleetSettings("threads", 1))
    first = digest(scratch / "threads")
    found = read(
        Catalog.open(place, scratch / "threads"),
        scratch / "threads",
        FleetSettings("threads", 1),
        lambda line: None,
    )
    begin, clock = spent(2), time.monotonic()
    for name, its in found.types.items():
        for path in sorted((place / name).glob("SN*/*")):
            fold(path, its)
    alone, by_one = (spent(2) - begin) / logs, (time.monotonic() - clock) / logs
    again = scratch / "processes"
    shutil.copytree(scratch / "threads" / "types", again / "types")
    begin = spent()
    identify(place, again, FleetSettings("processes", 2))
    whole = (spent() - begin) / logs
    yield Row("a log alone in a warm process", alone, "s of processor")
    yield Row("a log of this small fleet, starts and answers included", whole / alone, "of alone")
    shares = {"whole": place, "half": half(place, scratch / "half")}
    costs, clocks, drivers = (np.zeros((REPEATS, 2)) for _ in range(3))
    for k, (column, (name, share)) in product(range(REPEATS), enumerate(shares.items())):
        out = scratch / f"map {name} {k}"
        shutil.copytree(scratch / "threads" / "types", out / "types")
        begin, own, clock = spent(), spent(2), time.monotonic()
        read(Catalog.open(share, out), out, FleetSettings("processes", 2))
        costs[k, column] = spent() - begin
        drivers[k, column] = spent(2) - own
        clocks[k, column] = time.monotonic() - clock
    # Starts go out of the difference; what else the machine did, mostly, out of the median.
    more, by_two = (float(np.median(2.0 * (c[:, 0] - c[:, 1]) / logs)) for c in (costs, clocks))
    yield at_most("one more log's map by processes", more / alone, "of alone", 1.3)
    share_of_two = by_one / (2.0 * by_two)
    yield at_least("logs a second by two processes", share_of_two, "of twice one's", 0.9)
    share_of_driver = float(np.median(drivers[:, 0] / costs[:, 0]))
    yield Row("the driver's share of the map, starts included", share_of_driver, "of the processor")
    begin = spent(2)
    for robot in found.robots:
        answer_of(robot)
    yield at_most("a robot's own answer", (spent(2) - begin) / len(found.robots), "s", 0.2)
    begin = spent(2)
    read(
        Catalog.open(place, scratch / "threads"),
        scratch / "threads",
        FleetSettings("threads", 1),
        lambda line: None,
    )
    known = (spent(2) - begin) / logs
    night = (29.0 * known + alone) / (30.0 * alone)
    yield at_most("a 30th night's map, by a known log's cost", night, "of 30 nights'", 1.0 / 25.0)
    sizes = [p.stat().st_size for p in (again / KEPT).glob("*/*.npz")]
    yield at_most("kept of a log", max(sizes) / 1e3, "kB", 150.0)
    yield at_least("processes leave the bytes of threads", digest(again) == first, "", 1.0)
    killed = scratch / "killed"
    shutil.copytree(scratch / "threads" / "types", killed / "types")
    ended = threading.Event()
    reaper = threading.Thread(target=kill_some, args=(ended,))
    reaper.start()
    identify(place, killed, FleetSettings("processes", 2))
    ended.set()
    reaper.join()
    yield at_least("the same where workers are killed", digest(killed) == first, "", 1.0)


def of_memory(scratch: Path) -> Iterator[Row]:
    """Yield what the driver holds of few and of many robots, all of whose logs are kept."""
    place, out = scratch / "six joints", scratch / "six joints told"
    days = [f"2026-03-{k + 1:02d}" for k in range(SHARED)]
    SimulatedType(OF_MEMORY, SECONDS).write(place, [f"SN{k}" for k in range(SHARED)], days)
    identify(place, out, FleetSettings("threads", 1))
    few, many = (peak_memory(*multiply(place, out, count, 30), jobs=2) for count in MEMORY)
    name = f"driver of {MEMORY[1]} robots × 30 days"
    yield at_most(f"{name}: memory", many, "MB", 400.0)
    yield at_most(f"{name}: per that of {MEMORY[0]} robots", many / few, "", 1.1)


def half(place: Path, out: Path) -> Path:
    """Return a copy of a fleet with half of each robot's logs."""
    for folder in sorted(place.glob("*/SN*")):
        files = sorted(folder.iterdir())
        (out / folder.relative_to(place)).mkdir(parents=True)
        for file in files[: len(files) // 2]:
            shutil.copy(file, out / file.relative_to(place))
    for file in place.glob("*/arm.urdf"):
        shutil.copy(file, out / file.relative_to(place))
    return out


def kill_some(ended: threading.Event) -> None:
    """Kill a worker now and then, some times."""
    rng, count = np.random.default_rng(0), 0
    while count < KILLS and not ended.wait(float(rng.uniform(2.0, 5.0))):
        if workers := multiprocessing.active_children():
            workers[int(rng.integers(len(workers)))].kill()
            count += 1


def drawn(days: int, count: int, deviation: float, rng: np.random.Generator) -> Array:
    """Return daily estimates about 1, shape (count, days)."""
    noise = rng.normal(size=(count, days))
    scatter = noise.copy()
    for t in range(1, days):
        scatter[:, t] = PHI * scatter[:, t - 1] + np.sqrt(1.0 - PHI**2) * noise[:, t]
    return np.asarray(1.0 + deviation * scatter)


def series(values: Array) -> Series:
    """Return estimates as heft takes them."""
    return Series(np.arange(float(len(values))), values / np.median(values), np.zeros(len(values)))


def scores(values: Array, usual: DayToDay) -> tuple[Array, Array]:
    """Return of each series the largest score of a ramp of the last 84 days, and of a step.

    It is that of one who knows the law.

    Args:
        values: Shape (count, days).
    """
    days = np.arange(float(values.shape[1]))
    factor = np.linalg.cholesky(usual.covariance(Series(days, days, np.zeros(len(days)))))
    onsets = days[(days >= days[-1] - 84.0) & (days < days[-1] - 0.5)]
    shapes = np.maximum(days[:, None] - onsets, 0.0), (days[:, None] >= onsets) * 1.0
    columns = np.column_stack([np.ones(len(days)), *shapes])
    white, own = (scipy.linalg.solve_triangular(factor, x, lower=True) for x in (columns, values.T))
    mean = white[:, 0] / np.linalg.norm(white[:, 0])
    rest = white[:, 1:] - np.outer(mean, mean @ white[:, 1:])
    told = np.abs((rest / np.linalg.norm(rest, axis=0)).T @ own)
    ramps, steps = np.split(told, 2)
    return ramps.max(axis=0), steps.max(axis=0)


def alarming(values: Array, usual: DayToDay, true: DayToDay) -> tuple[list[bool], float]:
    """Return the alarms over each series' weeks, and the rate's threshold of one who knows the law.

    Only series that come near an alarm are given to heft, whose score is about that of one who
    knows the law.

    Args:
        values: Without a drift, shape (count, days).
    """
    alarms: list[bool] = []
    ramps = []
    for end in ENDS:
        ramp, step = scores(values[:, :end], true)
        near = np.flatnonzero(np.maximum(ramp, step) > NEAR)
        found = [ChangeSearch().of(series(values[k, :end]), usual) for k in near]
        alarms += [c is not None and c.probability < RATE for c in found]
        alarms += [False] * (len(values) - len(near))
        ramps.append(ramp)
    return alarms, float(np.quantile(ramps, 1.0 - RATE))


def weeks_to(told: Array) -> float:
    """Return after how many weeks nine in ten are told, shape (count, weeks).

    Between two weeks the share that is told is taken to rise in a line.
    """
    shares = np.logical_or.accumulate(told, axis=1).mean(axis=0)
    return float(np.interp(0.9, [0.0, *shares, 1.0], np.arange(WEEKS + 2.0)))


def knowing(values: Array, true: DayToDay, threshold: float) -> float:
    """Return after how many weeks one who knows the law tells nine in ten."""
    told = [scores(values[:, :end], true)[0] > threshold for end in ENDS]
    return weeks_to(np.array(told).T)


def warm(count: int, days: int, size: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return estimates that drift from `BEFORE` on, and the same moved by warmth, as series are."""
    values, t = drawn(days, count, 0.03, rng), np.arange(float(days))
    values[:, BEFORE:] += size / 7.0 * np.arange(1, days - BEFORE + 1)
    seasons = rng.uniform(60.0, 365.0, (count, 1)), rng.uniform(size=(count, 1))
    above = 10.0 * np.sin(2.0 * np.pi * (t / seasons[0] + seasons[1]))  # a swing of 20 %
    above += 3.0 * rng.normal(size=values.shape)
    return values, np.stack([values + rng.normal(-0.01, 1e-3, (count, 1)) * above, above], axis=1)


def of_warmth() -> Iterator[Row]:
    """Yield the same where warmth moves friction, too, and its temperature is logged."""
    rng, days = np.random.default_rng(8), BEFORE + 7 * WEEKS

    def told(v: Array) -> Series:
        return replace(series(v[0]), warm=v[1])

    usual, laws = warmth_and_scatter({"": [told(v) for v in warm(LEARNT, BEFORE, 0.0, rng)[1]]})
    assert usual is not None
    law = laws[""]
    rise = float(law.mean[0]), float(np.hypot(law.scatter[0], law.mean_std[0]))

    def alarms(v: Array, ends: Iterable[int] = ENDS) -> list[bool]:
        found = [ChangeSearch().of(told(v[:, :n]).at_reference(*rise), usual) for n in ends]
        return [c is not None and c.probability < RATE for c in found]

    true = DayToDay(0.03, PHI)
    warmed = warm(NULL_WARM, days, 0.0, rng)[1]
    cold = warmed[:, 0] - rise[0] * warmed[:, 1]
    near = [np.maximum(*scores(cold[:, :end], true)) > NEAR for end in ENDS]
    false = sum(
        sum(alarms(v, [end for end, so in zip(ENDS, close, strict=True) if so]))
        for v, close in zip(warmed, np.transpose(near), strict=True)
    )
    name = "3 % from day to day and 20 % of warmth that is logged"
    weeks = len(warmed) * WEEKS / 6
    against = f"of {weeks:.0f} weeks"
    yield at_most(f"{name}: false alarms of a robot's week", false / weeks, "", 2e-3, against)
    unlogged = [series(v) for v, _ in warmed[:: max(NULL_WARM // 600, 1)]]
    blind = DayToDay.of([series(v[:BEFORE]) for v, _ in warmed[:LEARNT]])
    assert blind is not None
    found = [ChangeSearch().of(s, blind) for s in unlogged]
    slopes = [c for c in found if c and c.kind == "slope" and c.probability < RATE]
    name = "the same, not logged"
    share = 100.0 * len(slopes) / len(unlogged)
    yield Row(f"{name}: joints that seem to drift", share, "%", against=f"of {len(unlogged)}")
    if slopes:
        size = 100.0 * float(np.median([abs(c.size) for c in slopes]))
        yield Row(f"{name}: by, in the median", size, "% a week")
    name = "3 % from day to day and 20 % of warmth that is logged"
    _, threshold = alarming(drawn(days, NULL, 0.03, rng), true, true)
    for size in (0.05, 0.03, 0.01):
        values, warmed = warm(DRIFTS, days, size, rng)
        ours = weeks_to(np.array([alarms(v) for v in warmed]))
        theirs = knowing(values, true, threshold)
        said = f"{name}, {100.0 * size:g} % a week: weeks to 90 %"
        yield at_most(said, ours, "weeks", 1.3 * theirs, f"{theirs:.2g} known, without warmth")


def of_drift() -> Iterator[Row]:
    """Yield how often there is a false alarm, and after how many weeks a drift is found."""
    rng = np.random.default_rng(7)
    for deviation in dict.fromkeys(s for s, _, _ in SIZES):
        usual = DayToDay.of([series(v) for v in drawn(BEFORE, LEARNT, deviation, rng)])
        assert usual is not None
        true = DayToDay(deviation, PHI)
        null = drawn(BEFORE + 7 * WEEKS, NULL, deviation, rng)
        alarms, threshold = alarming(null, usual, true)
        name = f"{100.0 * deviation:g} % from day to day"
        yield at_most(
            f"{name}: false alarms of a robot's week",
            6.0 * float(np.mean(alarms)),
            "",
            2e-3,
            f"of {len(alarms) // 6} weeks",
        )
        for own, size, _ in [s for s in SIZES if s[0] == deviation]:
            values = drawn(BEFORE + 7 * WEEKS, DRIFTS, own, rng)
            values[:, BEFORE:] += size / 7.0 * np.arange(1, 7 * WEEKS + 1)
            found = [[ChangeSearch().of(series(v[:n]), usual) for n in ENDS] for v in values]
            told = [[c is not None and c.probability < RATE for c in of] for of in found]
            more = drawn(BEFORE + 7 * WEEKS, SLOPES, own, rng)
            more[:, BEFORE:] += size / 7.0 * np.arange(1, 7 * WEEKS + 1)
            last = [(ChangeSearch().of(series(v), usual), np.median(v)) for v in more]
            inside = [
                c.low <= size / middle <= c.high for c, middle in last if c and c.kind == "slope"
            ]
            ours, theirs = weeks_to(np.array(told)), knowing(values, true, threshold)
            said = f"{name}, {100.0 * size:g} % a week"
            yield at_most(
                f"{said}: weeks to 90 %", ours, "weeks", 1.3 * theirs, f"{theirs:.2g} known"
            )
            share = 100.0 * float(np.mean(inside)) if inside else 0.0
            against = f"{share:.2f} % of {len(inside)} drifts"
            off = abs(share - 95.0)
            yield at_most(f"{said}: slopes' 95 % intervals hold, off 95 %", off, "%", 2.0, against)


def weighed(urdf: bytes, factor: float, rng: np.random.Generator) -> bytes:
    """Return a model whose masses are a factor times the file's, give or take 1 %."""
    root = ET.fromstring(urdf)
    for inertial in root.iter("inertial"):
        own = factor * (1.0 + 0.01 * rng.normal())
        for element in (inertial.find("mass"), inertial.find("inertia")):
            assert element is not None
            for key, value in element.attrib.items():
                element.set(key, repr(own * float(value)))
    return ET.tostring(root)


def rubbed(drive: Drive, rng: np.random.Generator) -> Drive:
    """Return a drive of the same type: friction differs by 20 %, the rotor by 1 %."""
    factor = max(1.0 + 0.2 * rng.normal(), 0.3)
    laws = []
    for law in drive.laws:
        size = "coefficient" if hasattr(law, "coefficient") else "effort"
        laws.append(replace(law, **{size: factor * getattr(law, size)}))
    armature = drive.armature * (1.0 + 0.01 * rng.normal())
    return replace(drive, armature=armature, laws=tuple(laws))


def misfiled(place: Path, seed: int) -> dict[tuple[str, str], str]:
    """Write a fleet, and return the types of its robots by what they are filed under and serial."""
    rng, names, truth = np.random.default_rng(seed), list(ALIKE), {}
    for number, (name, (reach, weight)) in enumerate(ALIKE.items()):
        made = SimulatedType("double", 6.0, reach=reach).simulator
        arm = replace(made.arm, name=f"{name} {seed}", urdf=weighed(made.arm.urdf, weight, rng))
        made = replace(made, arm=arm)
        drives = made.drives_of(0)
        (place / name).mkdir(parents=True, exist_ok=True)
        (place / name / "arm.urdf").write_bytes(made.believed(0))
        for k in range(MEMBERS):
            own = {j: rubbed(d, rng) for j, d in zip(arm.joints, drives, strict=True)}
            robot = replace(
                made,
                arm=replace(arm, urdf=weighed(arm.urdf, 1.0, rng)),
                condition=replace(made.condition, fixed_drives=own),
            )
            filed = name if k else names[(number + 1 + seed % 2) % len(names)]
            truth[filed, f"{name}{k}"] = name
            folder = place / filed / f"{name}{k}"
            folder.mkdir(parents=True)
            write_run(robot.run(k, number=k).recording, folder / "2026-03-01.parquet")
    return truth


def of_types(place: Path) -> Iterator[Row]:
    """Yield how many robots under a wrong type are found, and how many are wrongly accused."""
    wrong, right = [], []
    for seed in range(FLEETS):
        truth = misfiled(place / f"{seed}", seed)
        out = place / f"{seed} found"
        told = identify(place / f"{seed}", out, FleetSettings("threads", 1)).misfiled
        found = {(m.type, m.robot): m.like for m in told}
        for (kind, robot), true in truth.items():
            if kind == true:
                right.append((kind, robot) in found)
            else:
                wrong.append(found.get((kind, robot)) == true)
    share = float(np.mean(wrong))
    yield at_least("robots under a wrong type: found", share, "", 0.95, f"of {len(wrong)}")
    share = float(np.mean(right))
    yield at_most("robots under their own: accused", share, "", 1e-3, f"of {len(right)}")


@benchmark(
    {"TYPES": ("double",), "SECONDS": 6.0, "ROBOTS": 2, "DAYS": 2, "NULL": 60, "NULL_WARM": 2,
     "DRIFTS": 2, "SLOPES": 4, "MEMORY": (3, 6), "OF_MEMORY": "double", "SHARED": 2, "LEARNT": 4,
     "SIZES": SIZES[:1], "KILLS": 0, "FLEETS": 1, "MEMBERS": 5, "REPEATS": 1}
)  # fmt: skip
def main() -> Iterator[Row]:
    """Yield the rows."""
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        yield from of_logs(Path(folder) / "robots", Path(folder))
        yield Row("all of it", time.monotonic() - begin, "s")
        yield from of_memory(Path(folder))
        yield from of_types(Path(folder) / "types")
    yield from of_drift()
    yield from of_warmth()


if __name__ == "__main__":
    main()
