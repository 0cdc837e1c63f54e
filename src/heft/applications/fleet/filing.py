"""What is filed wrongly: days under another's serial, robots under another type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from scipy import special

from heft.arrays import Array
from heft.certainty import DayToDay
from heft.estimators import TypeLaw

from .catalog import Catalog, Log
from .folding import Answer, Prepared, load, prepared, together
from .reading import FleetSettings, Read, RobotAnswer, Shelf, Task, deadly, folded, kept_of, worked

NEIGHBOURS = 5  # days before and after, that a day is compared with
FEWEST = 3  # of these, at least; and robots that a type's law is judged by
FLAT = 0.01  # share of a number, that its scatter from day to day is taken for at least
TRIED = 3  # logs of a robot by which it is compared with other types
LESS = 1.5  # times smaller residuals of another type's model, which it is named from on
UNLIKELY, LIKELY = 1e-3, 1e-2  # chances of a robot by the law of a type
# mean square of deviations from the type, and residuals per its, from which on a robot is compared
ODD, STRANGE = 6.0, 1.5


@dataclass(frozen=True)
class Foreign:
    """A day that does not look like its robot."""

    day: str
    like: str | None  # the robot that it looks like; None if it looks like none
    reason: str


def foreign_days(
    its: Prepared, answers: Shelf[RobotAnswer], scatter: Mapping[str, DayToDay]
) -> Iterator[tuple[Foreign, ...]]:
    """Yield for each robot the days that do not look like it.

    A day is compared with those about it. What is left is weighed by the day's own covariance and
    by what is usual from day to day.
    """
    compared = its.compared
    kinds = [its.told[0][k].kind for k in compared]
    share = np.array([max(scatter[k].deviation, FLAT) if k in scatter else FLAT for k in kinds])
    names, days, usual = [], [], []
    for answer in answers:
        names.append(answer.robot)
        days.append(len(answer.days))
        usual.append(np.median(answer.values[:, compared], axis=0))
    for i, answer in enumerate(answers):
        own = answer.values[:, compared]
        theirs: list[Foreign] = []
        count = len(answer.days)
        for t in range(count):
            if np.mean(answer.misfit[t]) > 3.0:  # times the type's
                reason = f"its residuals are {np.mean(answer.misfit[t]):.1f} times its type's"
                theirs.append(Foreign(answer.days[t], None, reason))
                continue
            near = [s for s in range(max(t - NEIGHBOURS, 0), t + NEIGHBOURS + 1) if s != t]
            near = [s for s in near if s < count]
            if len(near) < FEWEST:
                continue
            value = own[t]
            V = answer.friction[t] * (1.0 + 1.0 / len(near))
            V = V + np.diag(2.0 * (share * usual[i]) ** 2)
            chance = float(_chances(np.median(own[near], axis=0), value, V))
            if chance >= 1e-5:  # it may be of its robot
                continue
            chances = _chances(np.array(usual), value, V)
            others = [j for j, of in enumerate(days) if j != i and of >= FEWEST]
            like = max(others, key=lambda j: chances[j], default=None)
            if like is not None and chances[like] > 1e-3:  # which it may be
                name = names[like]
                theirs.append(Foreign(answer.days[t], name, f"it looks like {name}"))
            elif chance < 1e-7:  # it is surely not of its robot
                theirs.append(Foreign(answer.days[t], None, "it contradicts the days about it"))
        # What goes on is a change of the robot, which its history tells, not a wrong log.
        yield tuple(theirs) if 2 * len(theirs) < count else ()


def _chances(centres: Array, value: Array, V: Array) -> Array:
    """Return how often a value of covariance V is as far from each centre, shape (..., n)."""
    away = centres - value
    return np.asarray(special.chdtrc(len(value), np.sum(away * np.linalg.solve(V, away.T).T, -1)))


@dataclass(frozen=True)
class Misfiled:
    """A robot that another type explains; its logs are not summed."""

    type: str  # that it is filed under
    robot: str
    like: str  # type that it is of
    logs: int
    reason: str

    @property
    def sentence(self) -> str:
        """It in words."""
        return f"looks like type {self.like}: {self.reason}; its {self.logs} logs are not summed"


def misfiled(
    catalog: Catalog, read: Read, answers: Shelf[RobotAnswer], settings: FleetSettings
) -> tuple[Misfiled, ...]:
    """Return the robots that are filed under a wrong type, by likelihood.

    Robots that are odd among their type's, or none of whose logs can be used, are compared with
    other types of as many drives: some of their logs are folded by those types' models.

    Args:
        answers: Of the robots whose logs can be used.
    """
    if len(read.types) < 2:
        return ()
    summed = {(a.type, a.robot): k for a, k in zip(answers, answers.places, strict=True)}
    logs: dict[tuple[str, str], list[Log]] = {}
    for log in catalog.logs:
        if log in read.digests or (log.type, log.robot) not in summed:
            logs.setdefault((log.type, log.robot), []).append(log)
    ordinary: dict[str, list[int]] = {}
    suspects = logs.keys() - summed.keys()
    for name in read.types:
        own = {robot: place for (kind, robot), place in summed.items() if kind == name}
        odd = _odd(replace(answers, places=[*own.values()]))
        suspects |= {(name, robot) for robot, so in zip(own, odd, strict=True) if so}
        ordinary[name] = [p for p, so in zip(own.values(), odd, strict=True) if not so]
    tried = dict(_tried({key: logs[key] for key in sorted(suspects)}, read, settings))
    laws = {
        name: law_of(replace(answers, places=own))
        for name, own in (ordinary.items() if tried else ())
    }
    likely: dict[tuple[str, str], list[tuple[float, float, Misfiled]]] = {}
    for (kind, robot, other), (theirs, by_own) in tried.items():
        if np.mean(theirs.misfit) > 3.0:  # residuals per its type's: this model does not explain it
            continue
        residual = _residual(theirs, read.types[other])
        chance = _chance(laws.get(other), theirs)
        if by_own is None:
            reason = "only that type's model can read its logs"
        else:
            less = _residual(by_own, read.types[kind]) / residual
            reason = f"that type's model leaves residuals {less:.1f} times smaller"
            if less < LESS:
                mine = summed.get((kind, robot))
                if (
                    mine is None
                    or chance < LIKELY
                    or _chance(laws.get(kind), answers.at(mine).whole) > UNLIKELY
                ):
                    continue
                reason = "its parameters are those of that type"
        one = Misfiled(kind, robot, other, len(logs[kind, robot]), reason)
        likely.setdefault((kind, robot), []).append((residual, chance, one))
    return tuple(map(_likeliest, likely.values()))


def _likeliest(likely: Sequence[tuple[float, float, Misfiled]]) -> Misfiled:
    """Return that of the largest chance, of those whose residuals are about the least."""
    least = min(residual for residual, _, _ in likely)
    return max((f for f in likely if f[0] < LESS * least), key=lambda f: f[1])[2]


def _residual(answer: Answer, its: Prepared) -> float:
    """Return the geometric mean of the channels' rms residuals."""
    return float(np.exp(np.mean(np.log(answer.misfit * its.preparation.sigma))))


def enough(answers: Shelf[RobotAnswer]) -> Shelf[RobotAnswer]:
    """Return as many of a type's robots as its laws are learnt from."""
    every = max(-(-len(answers.places) // TypeLaw.most), 1)
    return replace(answers, places=answers.places[::every])


def law_of(answers: Shelf[RobotAnswer]) -> TypeLaw | None:
    """Return the law of a type's robots; None if they are too few."""
    chosen = [(a.whole.values, a.whole.covariance) for a in enough(answers)]
    return TypeLaw.of([value for value, _ in chosen], [covariance for _, covariance in chosen])


def _odd(answers: Shelf[RobotAnswer]) -> list[bool]:
    """Return which robots of a type differ from most, all if they are few."""
    if len(answers.places) < FEWEST:
        return [True] * len(answers.places)
    told = [(a.whole.values, a.whole.std, np.median(np.mean(a.misfit, axis=1))) for a in answers]
    values, std, misfit = (np.array(of) for of in zip(*told, strict=True))
    away = np.abs(values - np.median(values, axis=0))
    far = np.mean((away / (np.median(away, axis=0) / 0.6745 + std)) ** 2, axis=1)
    return [bool(odd) for odd in (far > ODD) | (misfit > STRANGE)]


def _tried(
    suspects: Mapping[tuple[str, str], Sequence[Log]], read: Read, settings: FleetSettings
) -> Iterator[tuple[tuple[str, str, str], tuple[Answer, Answer | None]]]:
    """Yield what some logs of robots tell by each other type, and by their own, cut off likewise.

    Types are left out that cannot read the logs; what the own cannot read is None.
    """
    drives = {name: len(its.problem.plant.robot.drives) for name, its in read.types.items()}
    tasks: dict[tuple[str, str, str], tuple[list[Task], list[Task]]] = {}
    for (kind, robot), logs in suspects.items():
        ordered = sorted(logs, key=lambda log: (log.day or "", log.name))
        chosen = [ordered[k] for k in sorted({*np.linspace(0, len(logs) - 1, TRIED).astype(int)})]
        own = read.types[kind]
        for other, its in read.types.items():
            if other == kind or drives[other] != drives[kind]:
                continue
            p = its.preparation
            likewise = replace(own.preparation, corner=p.corner, window=p.window)
            tasks[kind, robot, other] = (
                [Task(log, its, read.kept) for log in chosen],
                [Task(log, prepared(own.kind, likewise), read.kept) for log in chosen],
            )
    # once each: types that are prepared alike have the same work
    every = dict.fromkeys(chain.from_iterable(chain.from_iterable(tasks.values())))
    digests = {task: read.digests.get(task.log, "") for task in every}
    new = [t for t in every if not kept_of(t.kept, t.its, digests[t]).exists()]
    digests |= {task: made.digest for task, made in worked(folded, new, settings, deadly)}

    def answer(of: Sequence[Task]) -> Answer | None:
        its, hashes = of[0].its, sorted({d for task in of if (d := digests[task])})
        if 2 * len(hashes) <= len(of):
            return None
        return together([load(kept_of(read.kept, its, d), its) for d in hashes], its)

    for key, (theirs, own_tasks) in tasks.items():
        if (by_theirs := answer(theirs)) is not None:
            yield key, (by_theirs, answer(own_tasks))


def _chance(law: TypeLaw | None, answer: Answer) -> float:
    """Return how likely a robot of a type differs from it so much; undecided without a law."""
    if law is None:
        return float(np.sqrt(UNLIKELY * LIKELY))
    away, V = answer.values - law.mean, np.diag(law.scatter**2 + law.mean_std**2)
    far = away @ np.linalg.solve(V + answer.covariance, away) / len(away)
    return float(special.fdtrc(len(away), law.robots - 1, far))
