"""Whether friction is the same in several runs: a random effect of each run on each joint.

Friction falls as gears warm up, by a third and more, and what else is identified pays for it where
all runs share one friction. Information adds, so each run's is known by itself: changes δ of its
friction enter beside the parameters β that all runs share, `Y β + Y F δ`, each as large as the
joint's friction. That they are nil is asked of all together, by the likelihood of their spread.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add
from typing import NamedTuple

import numpy as np

from heft.arrays import Array
from heft.dynamics import Offset
from heft.information import Check, Information, triangle_of
from heft.plants import Problem, RobotPlant

# Logarithm of the likelihood ratio beyond which friction of one kind has changed in all joints
# together. Of 15 triples of three arms' logs, of the same and of unlike motions, clean ones stayed
# below 3.2; of 15 whose viscous friction fell by 20 and 38 % the least was 25.
LIKELIER = 8.0
LIKELIER_APART = 20.0  # likewise in each joint by itself, which the model's own errors look like
CHANGED = 0.1  # relative change of a joint's friction beyond which a user is warned
# Deviations of a change that is told; runs that contradict one another make them large.
CLEAR = 2.0
MOST = 6  # changes that are told


class Change(NamedTuple):
    """What a change of friction is of."""

    run: str  # name of the run, if there are several
    joint: str  # name of the joint; empty of all joints
    kind: str  # of its friction

    def __str__(self) -> str:
        what = f"{self.joint}.{self.kind}" if self.joint else f"{self.kind} of all joints"
        return f"{self.run} {what}".strip()


def friction_columns(
    problem: Problem[RobotPlant], beta: Array
) -> tuple[tuple[Change, ...], Array, Array]:
    """Return what may change of the friction of β, (b,), between runs, coarsely and term by term.

    Returns:
        What the coarse columns are of. These, shape (b, c): of each joint its viscous
        friction, its dry friction in the proportions that it has, its load-dependent one, and a
        constant torque of the size of the dry one. A column for each term, shape (b, f), as large
        as the terms of its joint and unit are in the mean square.
    """
    names = problem.labels.names
    unit = np.eye(len(names))
    coarse: dict[Change, Array] = {}
    fine = []
    for drive in problem.plant.robot.drives:
        terms = {
            names.index(n): t for t in drive.friction if (n := f"{drive.name}.{t.name}") in names
        }
        for alike in dict.fromkeys(t.unit(drive.linear) for t in terms.values()):
            places = [k for k, t in terms.items() if t.unit(drive.linear) == alike]
            size = np.sqrt(np.mean(beta[places] ** 2))
            if size == 0.0:
                continue
            fine += list(size * unit[places])
            constant = [k for k in places if isinstance(terms[k], Offset)]
            rubs = [k for k in places if k not in constant]
            kind = terms[rubs[0]].name if len(rubs) == 1 else "dry"
            coarse[Change("", drive.name, kind)] = beta[rubs] @ unit[rubs]
            for k in constant:
                coarse[Change("", drive.name, terms[k].name)] = np.abs(beta[rubs]).sum() * unit[k]
    shape = (-1, len(names))
    return tuple(coarse), np.reshape([*coarse.values()], shape).T, np.reshape(fine, shape).T


def of_friction(whose: Sequence[Change], change: Array, covariance: Array) -> Check | None:
    """Return the check of what differs in friction between runs, None where nothing does.

    Changes of one kind are alike in all joints, which warm up together, or each joint's is its own.

    Args:
        whose: What each change is of.
        change: Posterior means, shape (c,), with priors of unit variance.
        covariance: Of them, shape (c, c).
    """
    precision = np.linalg.inv(covariance)
    information, score = precision - np.eye(len(whose)), precision @ change
    alike: dict[Change, list[int]] = {}  # places of what changes together, and the name of that
    for k, (run, _, kind) in enumerate(whose):
        alike.setdefault(Change(run, "", kind), []).append(k)
    together = np.zeros((len(whose), len(alike)))
    for column, places in enumerate(alike.values()):
        together[places, column] = 1.0
    likeliest = None
    for named, root, least in (
        (tuple(alike), together, LIKELIER),
        (tuple(whose), np.eye(len(whose)), LIKELIER_APART),
    ):
        seen, ways = np.linalg.eigh(root.T @ information @ root)
        seen, along = np.maximum(seen, 0.0), ways.T @ root.T @ score
        variance = np.geomspace(1e-3, 1.0, 40)[:, None] ** 2  # of relative changes, that are tried
        gain = along**2 * variance / (1.0 + seen * variance) - np.log1p(seen * variance)
        evidence, best = 0.5 * np.max(gain.sum(axis=1)), variance[np.argmax(gain.sum(axis=1)), 0]
        if evidence > max(least, likeliest[0] if likeliest else 0.0):
            spread = ways / (seen + 1.0 / best) @ ways.T
            likeliest = evidence, named, spread @ root.T @ score, np.sqrt(np.diag(spread))
    if likeliest is None:
        return None
    _, named, size, std = likeliest
    clear = np.where(np.abs(size) > CLEAR * std, size, 0.0)
    order = np.argsort(-np.abs(clear), kind="stable")
    changes = [
        f"{named[k]} {size[k]:+.0%} ± {std[k]:.0%}" for k in order if abs(clear[k]) > CHANGED
    ]
    message = "friction differs between the runs"
    if changes:
        more = f" and {len(changes) - MOST} more" if len(changes) > MOST else ""
        message += (
            f", from the first by: {', '.join(changes[:MOST])}{more} of its size. Record all in "
            "one thermal state, the robot warm, or identify them apart"
        )
    largest = float(np.max(np.abs(clear)))
    return Check.at_most("friction of all runs", largest, CHANGED, math.inf, message)


def between_logs(
    problem: Problem[RobotPlant],
    blocks: Sequence[Information],
    weights: Mapping[str, float],
    beta: Array,
) -> tuple[Check, ...]:
    """Return the check that friction is the same in all logs; none where it is, or of one log.

    Logs shorter than a block of the fit count with those beside them.

    Args:
        blocks: Information of contiguous blocks of the logs; none if there is none.
        weights: Weight of each channel's rows, by channel [1 / channel's unit].
        beta: Base parameters β, shape (b,), whose friction is the unit of changes.
    """
    logs = problem.recordings
    labels, coarse, _ = friction_columns(problem, beta)
    if len(logs) < 2 or not blocks or not labels:
        return ()
    used = np.cumsum([line.used for line in problem.timelines])
    rows = np.cumsum([b.triangles[0].rows for b in blocks])
    middle = (rows - np.diff(rows, prepend=0) / 2) / rows[-1]
    of_log = np.searchsorted(used / used[-1], middle)
    fitted = np.unique(of_log)
    if len(fitted) < 2:
        return ()
    size, count = len(beta), len(labels)
    changes = count * (len(fitted) - 1)  # against the first log
    parts = [np.eye(changes, size + changes + 1, size)]
    for k, log in enumerate(fitted, -1):
        of_one = [b for b, at in zip(blocks, of_log, strict=True) if at == log]
        factor = reduce(add, of_one).combined(weights).factor
        part = np.zeros((len(factor), parts[0].shape[1]))
        part[:, :size], part[:, -1] = factor[:, :-1], factor[:, -1]
        if k >= 0:
            part[:, size + k * count : size + (k + 1) * count] = factor[:, :-1] @ coarse
        parts.append(part)
    # Changes come last: their information, all else eliminated, is the triangle's lower corner.
    corner = triangle_of(np.vstack(parts))[size:-1, size:]
    inverse = np.linalg.inv(corner[:, :-1])
    whose = [j._replace(run=logs[log].name) for log in fitted[1:] for j in labels]
    check = of_friction(whose, inverse @ corner[:, -1], inverse @ inverse.T)
    return () if check is None else (check,)
