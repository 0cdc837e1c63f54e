"""What the robots of a fleet tell together: types, drifts, robots that are odd, and their files."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

import heft
from heft.arrays import Array
from heft.certainty import Change, ChangeSearch, DayToDay, Series, discoveries
from heft.display import Table, parts, rounded, table
from heft.engine import one_blas_thread
from heft.errors import InvalidSetting
from heft.estimators import TypeLaw
from heft.files import json_text, locked, new_folder, require_own, write_text
from heft.fit import Progress, silent

from .catalog import TYPES, Catalog
from .filing import Foreign, Misfiled, enough, foreign_days, law_of, misfiled
from .folding import Prepared, Quantity
from .objects import in_store
from .reading import (
    KEPT,
    SEEN,
    FleetSettings,
    Read,
    Refused,
    RobotAnswer,
    RobotLogs,
    Shelf,
    answer_of,
    read,
    worked,
)

if TYPE_CHECKING:
    import pyarrow

ANSWER, HISTORY, PAGE, METRICS = "fleet.json", "history", "fleet.html", "fleet.prom"
NAMES = (ANSWER, HISTORY, PAGE, METRICS, TYPES, KEPT, SEEN)
# of the history: the day's temperature, and friction at the type's reference with its interval
COLD = ("temperature", "at_reference", "at_reference_low", "at_reference_high")
# of a robot's day: serial, number of logs, whether they are summed; values, deviations and `COLD`
# of the type's quantities, shape (6, q)
_RobotDay: TypeAlias = tuple[str, int, bool, Array]
GROUP = 100  # robots of a day that are written together, a row group
JUDGED = round(ChangeSearch.before + ChangeSearch.after)  # days from which on drift is judged
NORMAL = 1.959963984540054  # deviations of a 95 % interval
# what is said where no temperature is logged, or too few robots tell what it does
WARMTH_UNKNOWN = "not parted from drift; warming moves viscous friction by 17 to 20 % on a UR arm"


@dataclass(frozen=True, slots=True)
class Drift:
    """A change of a joint's friction."""

    joint: str
    change: Change
    stands: bool  # whether it is among those that are told, by the rate of false ones


@dataclass(frozen=True)
class Due:
    """How long a robot has been heard of, and not."""

    days: int  # from its first log to its last, since it went into service [d]
    silent: int  # from its last log to the fleet's last [d]
    # days between logs, of it or its type, that one of twenty is above; None if not known [d]
    usual: float | None

    @property
    def overdue(self) -> bool:
        """Whether no log came for longer than is usual."""
        return self.usual is not None and self.silent > 2.0 * self.usual

    @property
    def reasons(self) -> list[str]:
        """It in words."""
        reasons = []
        if self.overdue:
            reasons.append(f"no log for {self.silent} days, where {self.usual:.0f} are usual")
        if self.days < JUDGED:
            reasons.append(f"not yet judged: {self.days} of {JUDGED} days")
        return reasons


@dataclass(frozen=True, eq=False)
class TypeFindings:
    """What robots of a type have in common."""

    its: Prepared
    law: TypeLaw | None  # None of fewer robots than tell their scatter
    scatter: Mapping[str, DayToDay]  # from day to day, by kind of friction
    warmth: Mapping[str, TypeLaw]  # rise a kelvin, as a share, by quantity; none if not told


@dataclass(frozen=True, eq=False, slots=True)
class RobotFindings:
    """What is known of one robot."""

    type: str
    robot: str
    answers: Shelf[RobotAnswer]
    place: int  # of its answer among them
    values: Array  # of the type's quantities, the type being the prior, shape (q,)
    std: Array  # their standard deviations, shape (q,)
    drifts: tuple[Drift, ...]
    foreign: tuple[Foreign, ...]
    due: Due

    @property
    def answer(self) -> RobotAnswer:
        """What its logs tell, read anew; its whole leaves out what is foreign."""
        return self.answers.at(self.place)

    @property
    def attention(self) -> float:
        """Sorts robots: what needs attention first."""
        drifting = [-math.log10(max(d.change.probability, 1e-99)) for d in self.drifts if d.stands]
        return 100.0 * len(self.foreign) + sum(drifting)


@dataclass(frozen=True, eq=False)
class Fleet:
    """A fleet identified."""

    types: Mapping[str, TypeFindings]
    robots: tuple[RobotFindings, ...]  # what needs attention first
    refused: tuple[Refused, ...]
    misfiled: tuple[Misfiled, ...]
    unheard: tuple[tuple[str, str], ...]  # type and serial of robots without a log that can be used

    @property
    def logs(self) -> int:
        """Number of logs that were used or kept."""
        return sum(sum(r.answer.logs) for r in self.robots)

    @property
    def counts(self) -> dict[str, int]:
        """How many there are of what is told."""
        return {
            "robots": len(self.robots),
            "logs": self.logs,
            "refused": len(self.refused),
            "drifts": sum(d.stands for r in self.robots for d in r.drifts),
            "foreign": sum(len(r.foreign) for r in self.robots),
            "misfiled": len(self.misfiled),
            "overdue": sum(r.due.overdue for r in self.robots) + len(self.unheard),
            "not_yet_judged": sum(r.due.days < JUDGED for r in self.robots),
        }


def identify(
    place: Path | str, out: Path, settings: FleetSettings | None = None, progress: Progress = silent
) -> Fleet:
    """Identify the robots of a fleet, and write what they tell.

    Args:
        place: Folder `TYPE/ROBOT/*`, in an object store too, or a TOML of types and robots.
        out: Folder for the results, and for what is kept of each log.

    Raises:
        InputError: If the fleet, a type or, if `strict`, a log cannot be used; or another run
            writes to the folder.
        FitError: If a type's logs do not determine a fit, or workers die again and again.
    """
    settings = settings or FleetSettings()
    if settings.engine == "ray":  # whose workers have another working folder
        place, out = place if in_store(str(place)) else Path(place).absolute(), out.absolute()
    require_own(out, NAMES)
    catalog = Catalog.open(place, out)
    (out / KEPT).mkdir(parents=True, exist_ok=True)
    # `write_text` locks the folder that it writes to. Threads that each limited BLAS would lift one
    # another's limit, and rounding would differ.
    with locked(out / KEPT) as alone, one_blas_thread():
        if not alone:
            raise InvalidSetting(
                "another run writes to this folder",
                argument=f"--out {out}",
                cure="wait for it to end; what it has read need not be read again",
            )
        with settings.started():
            logs = read(catalog, out, settings, progress)
            progress(f"summing up {len(logs.robots)} robots")
            shelf: Shelf[RobotAnswer] = Shelf.on(out / KEPT)
            places = {r: shelf.put(made) for r, made in worked(answer_of, logs.robots, settings)}
            answers = replace(shelf, places=[places[r] for r in logs.robots])
            elsewhere = misfiled(catalog, logs, answers, settings)
        fleet = _found(catalog, logs, answers, elsewhere)
        progress("writing the results")
        write_history(fleet, out / HISTORY)
        write_text(out / ANSWER, answer_parts(fleet))
        write_text(out / METRICS, metrics(fleet))
        write_text(out / PAGE, page(fleet))
    return fleet


def _found(
    catalog: Catalog,
    read: Read,
    answers: Shelf[RobotAnswer],
    elsewhere: tuple[Misfiled, ...],
) -> Fleet:
    findings: dict[str, TypeFindings] = {}
    members: list[RobotFindings] = []
    filed = catalog.robots.keys() - {(m.type, m.robot) for m in elsewhere}
    robots = [
        (r, place)
        for r, place in zip(read.robots, answers.places, strict=True)
        if (r.its.kind.name, r.robot) in filed
    ]
    last = max((r.days[-1][0] for r, _ in robots), default="")
    for name, its in read.types.items():
        logs = [r for r, _ in robots if r.its is its]
        if not logs:
            continue
        own = replace(answers, places=[place for r, place in robots if r.its is its])
        gaps = np.concatenate([np.diff(_days(a)) for a in own])
        scatter, warmth = _scatter(its, enough(own))
        foreign = [*foreign_days(its, own, scatter)]
        kept = [_without(own, *one) for one in zip(logs, own.places, foreign, strict=True)]
        law = law_of(replace(own, places=kept))
        findings[name] = TypeFindings(its, law, scatter, warmth)
        for place, days in zip(kept, foreign, strict=True):
            answer = own.at(place)
            value, covariance = answer.whole.values, answer.whole.covariance
            if law is not None:
                value, covariance = law.given(value, covariance)
            std = np.sqrt(np.maximum(np.diag(covariance), 0.0))
            since = catalog.robots[name, answer.robot] or ""
            drifts = _drifts(findings[name], answer, days, since)
            due = _due(answer, since, last, gaps)
            members.append(
                RobotFindings(name, answer.robot, own, place, value, std, drifts, days, due)
            )
    chances = np.array([d.change.probability for f in members for d in f.drifts])
    # share of false ones among those that are told
    stands = iter(discoveries(chances, 0.05).tolist())
    judged = [
        replace(f, drifts=tuple(replace(d, stands=next(stands)) for d in f.drifts)) for f in members
    ]
    order = sorted(judged, key=lambda f: (-f.attention, f.type, f.robot))
    unheard = filed - {(f.type, f.robot) for f in order}
    return Fleet(findings, tuple(order), read.refused, elsewhere, tuple(sorted(unheard)))


def _due(answer: RobotAnswer, since: str, last: str, of_type: Array) -> Due:
    own, end = np.diff(_days(answer)), _ordinal(answer.days[-1])
    first = next((_ordinal(day) for day in answer.days if day >= since), end + 1)
    gaps = own if len(own) >= JUDGED else of_type
    usual = float(np.quantile(gaps, 0.95)) if len(gaps) else None
    return Due(end - first + 1, _ordinal(last) - end, usual)


def _days(answer: RobotAnswer) -> Array:
    return np.array([_ordinal(d) for d in answer.days], dtype=float)


def _ordinal(day: str) -> int:
    return datetime.date.fromisoformat(day).toordinal()


def _series(
    its: Prepared, answer: RobotAnswer, k: int, warmth: TypeLaw | None = None
) -> Series | None:
    """Return a quantity day by day, as shares of its median; None if that is nearly nothing.

    Where temperatures are told, days without are left out.

    Args:
        warmth: What the type's robots have in common of its rise with temperature; where it is
            given, values are those at the reference temperature.
    """
    usual = float(np.median(answer.values[:, k]))
    if not abs(usual) > NORMAL * float(np.median(answer.std[:, k])):
        return None
    size, warm = abs(usual), _warm(its, answer, k)
    series = Series(_days(answer), answer.values[:, k] / size, answer.std[:, k] / size, warm)
    unknown = np.isnan(warm)
    if unknown.all():
        return replace(series, warm=None)
    series = series.without(series.days[unknown])
    return series if warmth is None else series.at_reference(*_rise(warmth))


def _warm(its: Prepared, answer: RobotAnswer, k: int) -> Array:
    """Return the temperature of a quantity's joint above the reference, shape (n,) [K]."""
    names = [d.name for d in its.problem.plant.robot.drives]
    joint, reference = its.told[0][k].joint, its.preparation.reference
    if joint is None or reference is None:
        return np.full(len(answer.days), np.nan)
    return answer.temperature[:, names.index(joint)] - reference


def _rise(warmth: TypeLaw) -> tuple[float, float]:
    """Return a type's rise a kelvin, and the deviation of a robot's from it."""
    return float(warmth.mean[0]), float(np.hypot(warmth.scatter[0], warmth.mean_std[0]))


def _scatter(
    its: Prepared, answers: Iterable[RobotAnswer]
) -> tuple[dict[str, DayToDay], dict[str, TypeLaw]]:
    """Return how friction of each kind scatters from day to day, and rises with temperature.

    Each is learnt from what the other leaves, in turn: the scatter over all robots and joints, what
    warmth does over the robots, joint by joint.
    """
    scatter: dict[str, DayToDay] = {}
    warmth: dict[str, TypeLaw] = {}
    quantities = its.told[0]
    for kind in ("viscous", "coulomb", "friction"):
        places = {q.name: k for k, q in enumerate(quantities) if q.kind == kind}
        series: dict[str, list[Series]] = {name: [] for name in places}
        for answer in answers:
            for name, k in places.items():
                if (own := _series(its, answer, k)) is not None:
                    series[name].append(own)
        usual, laws = warmth_and_scatter(series)
        warmth |= laws
        if usual is not None:
            scatter[kind] = usual
    return scatter, warmth


def warmth_and_scatter(
    series: Mapping[str, Sequence[Series]],
) -> tuple[DayToDay | None, dict[str, TypeLaw]]:
    """Return how numbers of one kind scatter, and what warmth does to each of them.

    Args:
        series: Of all robots of a type, by the number's name.
    """
    laws: dict[str, TypeLaw] = {}
    usual: DayToDay | None = None
    for _ in range(3):  # passes, of which the third changes less than is told
        cold = [
            s.at_reference(*_rise(laws[name])) if name in laws else s
            for name, own in series.items()
            for s in own
        ]
        usual = DayToDay.of(cold)
        if usual is None or not any(s.warm is not None for s in cold):
            break
        for name, own in series.items():
            slopes = [slope for s in own if (slope := s.slope(usual)) is not None]
            values, variances = np.array(slopes).reshape(-1, 2).T
            law = TypeLaw.of([*values[:, None]], [*variances[:, None, None]])
            if law is not None:
                laws[name] = law
    return usual, laws


def _drifts(
    findings: TypeFindings, answer: RobotAnswer, excluded: Sequence[Foreign], since: str
) -> tuple[Drift, ...]:
    its, usual = findings.its, findings.scatter.get("friction")
    if usual is None:
        return ()
    drifts = []
    early = np.array(answer.days) < since  # of another place, or of running in
    out = _days(answer)[early | np.isin(answer.days, [f.day for f in excluded])]
    for k, q in enumerate(its.told[0]):
        if q.kind != "friction":
            continue
        series = _series(its, answer, k, findings.warmth.get(q.name))
        change = None if series is None else ChangeSearch().of(series.without(out), usual)
        if change is not None:
            drifts.append(Drift(str(q.joint), change, False))
    return tuple(drifts)


def _without(
    answers: Shelf[RobotAnswer], logs: RobotLogs, place: int, excluded: Sequence[Foreign]
) -> int:
    """Return the place of a robot's answer whose whole leaves some days out."""
    out = {f.day for f in excluded}
    if not out:
        return place
    kept = tuple((day, keys) for day, keys in logs.days if day not in out)
    whole = answer_of(replace(logs, days=kept)).whole
    return answers.put(replace(answers.at(place), whole=whole))


# --- what is written


def answer_parts(fleet: Fleet) -> Iterator[str]:
    """Yield the text of `fleet.json`, robot after robot; `docs/fleet.md` describes it."""
    mark = '"robots": []'
    before, _, after = json_text(_summary(fleet)).partition(mark)
    yield before + mark[:-1]
    for k, findings in enumerate(fleet.robots):
        text = json_text(_robot_dict(fleet, findings)).rstrip()
        yield f"{',' if k else ''}\n{indent(text, '  ')}"
    yield ("\n ]" if fleet.robots else "]") + after


def _summary(fleet: Fleet) -> dict[str, Any]:
    return {
        "format": "heft-fleet-1",
        "heft": heft.__version__,
        "counts": fleet.counts,
        "types": {name: _type_dict(t) for name, t in fleet.types.items()},
        "robots": [],
        "misfiled": fleet.misfiled,
        "unheard": [{"type": kind, "robot": robot} for kind, robot in fleet.unheard],
        "refused": fleet.refused,
    }


def _type_dict(findings: TypeFindings) -> dict[str, Any]:
    quantities, law, p = findings.its.told[0], findings.law, findings.its.preparation
    return {
        "corner_hz": p.corner,
        "delay_s": p.delay,
        "window_s": p.window,
        "chosen_from": list(p.logs),
        "reference_temperature": p.reference,
        "temperature": "removed" if findings.warmth else WARMTH_UNKNOWN,
        "day_to_day": findings.scatter,
        "quantities": [
            {"name": q.name, "unit": q.unit, "meaning": q.meaning}
            | (
                {}
                if law is None
                else {"mean": law.mean[k], "mean_std": law.mean_std[k], "scatter": law.scatter[k]}
            )
            | (_rise_dict(findings.warmth[q.name]) if q.name in findings.warmth else {})
            for k, q in enumerate(quantities)
        ],
    }


def _rise_dict(warmth: TypeLaw) -> dict[str, Any]:
    rise = _number(float(warmth.mean[0]), float(warmth.mean_std[0]))
    return {"per_kelvin": rise | {"scatter": float(warmth.scatter[0])}}


def _number(value: float, std: float) -> dict[str, float]:
    return {"value": value, "low": value - NORMAL * std, "high": value + NORMAL * std}


def _robot_dict(fleet: Fleet, findings: RobotFindings) -> dict[str, Any]:
    answer, quantities = findings.answer, fleet.types[findings.answer.type].its.told[0]
    own_std = answer.whole.std
    return {
        "type": answer.type,
        "robot": answer.robot,
        "days": [answer.days[0], answer.days[-1]],
        "logs": sum(answer.logs),
        "seconds": answer.seconds,
        "quantities": {
            q.name: _number(float(answer.whole.values[k]), float(own_std[k]))
            | {"with_type": _number(float(findings.values[k]), float(findings.std[k]))}
            for k, q in enumerate(quantities)
        },
        "drifts": [
            {"joint": d.joint, "kind": d.change.kind, "since": _date(d.change.onset)}
            | {n: getattr(d.change, n) for n in ("size", "low", "high", "probability")}
            | {"stands": d.stands}
            for d in findings.drifts
        ],
        "foreign": [vars(f) for f in findings.foreign],
        "due": vars(findings.due) | {"overdue": findings.due.overdue},
    }


def _date(ordinal: float) -> str:
    return datetime.date.fromordinal(int(ordinal)).isoformat()


def write_history(fleet: Fleet, out: Path) -> None:
    """Write each robot's numbers of each day as Parquet, `type=TYPE/day=DAY/part.parquet`.

    They are brought from robots to days in a file, of which `GROUP` robots are in memory at a time.
    """
    import pyarrow.parquet

    with new_folder(out) as new:
        for kind, of_type in fleet.types.items():
            shelf: Shelf[_RobotDay] = Shelf.on(new)
            days: dict[str, list[int]] = {}
            for findings in sorted(fleet.robots, key=lambda f: f.robot):
                for day, part in _by_day(of_type, findings) if findings.type == kind else ():
                    days.setdefault(day, []).append(shelf.put(part))
            for day, places in days.items():
                folder = new / f"type={kind}" / f"day={day}"
                folder.mkdir(parents=True)
                parts = (
                    _rows(of_type.its.told[0], [*replace(shelf, places=places[k : k + GROUP])])
                    for k in range(0, len(places), GROUP)
                )
                first = next(parts)
                with pyarrow.parquet.ParquetWriter(
                    folder / "part.parquet", first.schema, compression="zstd"
                ) as file:
                    for part in chain([first], parts):
                        file.write_table(part)


def _by_day(of_type: TypeFindings, findings: RobotFindings) -> Iterator[tuple[str, _RobotDay]]:
    """Yield what the history says of a robot's days."""
    answer, foreign = findings.answer, {f.day for f in findings.foreign}
    cold = _at_reference(of_type, answer)
    for t, day in enumerate(answer.days):
        numbers = np.vstack([answer.values[t], answer.std[t], cold[:, :, t].T])
        yield day, (answer.robot, answer.logs[t], day not in foreign, numbers)


def _rows(quantities: Sequence[Quantity], robots: Sequence[_RobotDay]) -> pyarrow.Table:
    """Return a day's rows, one for each quantity of each robot."""
    import pyarrow

    value, std, *cold = np.hstack([numbers for *_, numbers in robots])
    names = {
        column: pyarrow.array(
            [getattr(q, name) for q in quantities] * len(robots), pyarrow.string()
        )
        for column, name in (("quantity", "name"), ("joint",) * 2, ("kind",) * 2, ("unit",) * 2)
    }
    robot, logs, used = (
        pyarrow.array([r[k] for r in robots for _ in quantities]) for k in range(3)
    )
    low, high = value - NORMAL * std, value + NORMAL * std
    columns = {"robot": robot, **names, "std": std, "value": value, "low": low, "high": high}
    told = {n: pyarrow.array(v, mask=~np.isfinite(v)) for n, v in zip(COLD, cold, strict=True)}
    return pyarrow.table({**columns, "logs": logs, "used": used, **told})


def _at_reference(findings: TypeFindings, answer: RobotAnswer) -> Array:
    """Return each quantity's temperature and value at the reference, with its ends, by day.

    Of shape (q, 4, n); NaN where it is not told.
    """
    its, (n, q) = findings.its, answer.values.shape
    if its.preparation.reference is None:  # takes no memory, however many robots there are
        return np.broadcast_to(np.nan, (q, len(COLD), n))
    told = np.full((q, len(COLD), n), np.nan)
    for k in range(q):
        value, std = answer.values[:, k], answer.std[:, k]
        warm, series = _warm(its, answer, k), _series(its, answer, k)
        warmth = findings.warmth.get(its.told[0][k].name)
        told[k, 0] = warm + its.preparation.reference
        if series is None or warmth is None:
            continue
        rise, spread = _rise(warmth)
        own = series.slope(findings.scatter[its.told[0][k].kind])
        if own is not None:  # the type is the prior of a robot's own
            given, covariance = warmth.given(np.array(own[:1]), np.array([own[1:]]))
            rise, spread = float(given[0]), float(np.sqrt(covariance[0, 0]))
        size = abs(float(np.median(value)))
        cold, room = value - size * rise * warm, NORMAL * np.hypot(std, size * spread * warm)
        told[k, 1:] = cold, cold - room, cold + room
    return told


def metrics(fleet: Fleet) -> str:
    """Return what is told of friction and drift as a text file of Prometheus."""
    friction, drift, foreign = list[str](), list[str](), list[str]()
    for findings in sorted(fleet.robots, key=lambda f: (f.type, f.robot)):
        answer = findings.answer
        of = f'type="{answer.type}",robot="{answer.robot}"'
        for k, q in enumerate(fleet.types[answer.type].its.told[0]):
            if q.kind == "friction":
                friction.append(f'{{{of},joint="{q.joint}"}} {answer.whole.values[k]!r}')
        drift += [
            f'{{{of},joint="{d.joint}",kind="{d.change.kind}"}} {d.change.size!r}'
            for d in findings.drifts
            if d.stands
        ]
        foreign.append(f"{{{of}}} {len(findings.foreign)}")
    refused, misfiled = ([f" {len(of)}"] for of in (fleet.refused, fleet.misfiled))
    lines = []
    for name, meaning, gauges in (
        ("friction", "Friction of a joint at its typical speed [N·m or N].", friction),
        ("drift", "Change of a joint's friction, per usual: a week if a slope.", drift),
        ("foreign_days", "Days that do not look like their robot.", foreign),
        ("refused_logs", "Logs that could not be used.", refused),
        ("misfiled_robots", "Robots that are filed under a wrong type.", misfiled),
    ):
        lines += [f"# HELP heft_{name} {meaning}", f"# TYPE heft_{name} gauge"]
        lines += [f"heft_{name}{gauge}" for gauge in gauges]
    return "\n".join(lines) + "\n"


def text(fleet: Fleet, most: int = 20) -> str:
    """Return what a terminal shows: what needs attention first, and what was not used.

    Args:
        most: Robots and refused logs that are listed.
    """
    rows = []
    for findings in fleet.robots[:most]:
        answer, notes = findings.answer, _attention(findings)
        more = f"; {len(notes) - 2} more" if len(notes) > 2 else ""
        why = "; ".join(notes[:2]) + more or "-"
        rows.append((answer.type, answer.robot, _span(answer), f"{sum(answer.logs)}", why))
    lines = [f"{m.type}, {m.robot}: {m.sentence}" for m in fleet.misfiled]
    lines.append(table(("type", "robot", "days", "logs", "what needs attention"), rows))
    if len(fleet.robots) > most:
        lines.append(f"... and {len(fleet.robots) - most} more robots: {PAGE}")
    if fleet.refused:
        reasons = [f"  {r.log}: {r.reason}" for r in fleet.refused[:most]]
        if len(fleet.refused) > most:
            reasons.append(f"  ... and {len(fleet.refused) - most} more: {ANSWER}")
        lines.append("\n".join([f"\n{len(fleet.refused)} logs were not used:", *reasons]))
    if due := _overdue(fleet):
        lines.append("\n".join(["\ndue:", *(f"  {kind}, {robot}: {w}" for kind, robot, w in due)]))
    if young := [r.due.days for r in fleet.robots if r.due.days < JUDGED]:
        lines.append(
            f"\ndrift is judged from {JUDGED} days of a robot on; {len(young)} of "
            f"{len(fleet.robots)} robots have fewer, the longest of these {max(young)}"
        )
    return "\n".join(lines)


def _overdue(fleet: Fleet) -> list[tuple[str, str, str]]:
    """Return the type and serial of robots that a log is due of, and why."""
    late = [(r.type, r.robot, r.due.reasons[0]) for r in fleet.robots if r.due.overdue]
    return sorted(late) + [
        (kind, robot, "no log of it can be used") for kind, robot in fleet.unheard
    ]


def _said(drift: Drift) -> str:
    c = drift.change
    size = f"{100.0 * c.size:+.1f} % ({100.0 * c.low:+.1f} to {100.0 * c.high:+.1f})"
    return f"{drift.joint} {size}{' a week' if c.kind == 'slope' else ''} since {_date(c.onset)}"


def page(fleet: Fleet) -> Iterator[str]:
    """Return the page of a fleet, part after part: types, robots, joints, what is urgent first."""
    laws = {
        name: [
            (q.name, rounded(mean, scatter), f"{scatter:.2g}", q.unit)
            for q, mean, scatter in zip(t.its.told[0], t.law.mean, t.law.scatter, strict=True)
        ]
        for name, t in fleet.types.items()
        if t.law is not None
    }
    head = ("quantity", "mean", "scatter between robots", "unit")
    return parts(
        "applications/fleet/page.html.jinja",
        title="Fleet",
        counts=fleet.counts,
        types={name: Table("", head, laws.get(name, [])) for name in fleet.types},
        robots=(_shown(fleet, findings) for findings in fleet.robots),
        wrong=(
            (
                "Robots under a wrong type",
                [f"{m.robot}, filed under {m.type}, {m.sentence}" for m in fleet.misfiled],
            ),
            ("Logs that are due", [f"{robot}, {kind}: {w}" for kind, robot, w in _overdue(fleet)]),
        ),
        refused=[f"{r.log}: {r.reason}" for r in fleet.refused],
        blind=[name for name, t in fleet.types.items() if not t.warmth],
        unknown=WARMTH_UNKNOWN,
    )


def _shown(fleet: Fleet, findings: RobotFindings) -> dict[str, Any]:
    """Return what the page shows of a robot."""
    answer = findings.answer
    quantities = fleet.types[answer.type].its.told[0]
    changed = {d.joint for d in findings.drifts if d.stands}
    units, rows, sparks = dict[str, dict[str, None]](), list[list[str]](), list[tuple[str, str]]()
    numbers = [*zip(answer.whole.values, NORMAL * answer.whole.std, strict=True)]
    names = dict.fromkeys(q.joint for q in quantities if q.joint)
    for name in sorted(names, key=lambda name: name not in changed):
        places = {q.kind: k for k, q in enumerate(quantities) if q.joint == name}
        k = places["friction"]
        sparks.append(_spark(_days(answer), answer.values[:, k], answer.std[:, k]))
        shown = {kind: numbers[k] for kind, k in places.items() if kind != "offset"}
        for kind in shown:
            units.setdefault(kind, {})[quantities[places[kind]].unit] = None
        with_type = float(findings.values[k]), NORMAL * float(findings.std[k])
        cells = (f"{rounded(v, w)} ± {w:.2g}" for v, w in (*shown.values(), with_type))
        rows.append([name, *cells])
    kinds = [f"{kind} [{' or '.join(own)}]" for kind, own in units.items()]
    head = ("joint", *kinds, "with its type", "day by day")
    return {
        "type": answer.type,
        "robot": answer.robot,
        "span": _span(answer),
        "logs": sum(answer.logs),
        "said": _attention(findings),
        "due": findings.due.reasons,
        "joints": Table(f"joints of {answer.robot}", head, rows, range(len(changed))),
        "sparks": sparks,
    }


def _spark(days: Array, values: Array, std: Array) -> tuple[str, str]:
    """Return the paths of a number day by day and of its intervals, 120 wide and 24 high."""
    low, high = values - NORMAL * std, values + NORMAL * std
    least, most = float(low.min()), float(high.max())
    x = 2.0 + 116.0 * (days - days[0]) / max(float(days[-1] - days[0]), 1.0)
    y = [22.0 - 20.0 * (v - least) / max(most - least, 1e-300) for v in (values, low, high)]
    line, lower, upper = ([f"{a:.1f} {b:.1f}" for a, b in zip(x, v, strict=True)] for v in y)
    return f"M{'L'.join(line)}", f"M{'L'.join([*upper, *reversed(lower)])}Z"


def _span(answer: RobotAnswer) -> str:
    first, last = answer.days[0], answer.days[-1]
    return first if first == last else f"{first} to {last}"


def _attention(findings: RobotFindings) -> list[str]:
    """Return why a robot needs attention, what is surest first."""
    drifts = sorted((d for d in findings.drifts if d.stands), key=lambda d: d.change.probability)
    return [*map(_said, drifts), *(f"{f.day}: {f.reason}" for f in findings.foreign)]
