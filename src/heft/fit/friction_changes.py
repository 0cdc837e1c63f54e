"""Whether friction is the same in several runs: a random effect of each run on each joint.

Friction falls as gears warm up, by a third and more, and what else is identified pays for it where
all runs share one friction. Information adds, so each run's is known by itself: changes δ of its
friction enter beside the parameters β that all runs share, `Y β + Y F δ`, each as large as the
joint's friction. That they are nil is asked of all together, by the likelihood of their spread.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from operator import add

import numpy as np

from heft.arrays import Array
from heft.dynamics import Offset
from heft.information import Check, triangle_of
from heft.plants import Problem, RobotPlant

from .experiment import ExperimentFit

SPREADS = np.geomspace(1e-3, 1.0, 40)  # of relative changes of friction, that are tried
# Logarithm of the likelihood ratio beyond which friction has changed. Of 40 clean triples of three
# arms' logs of the same and of unlike motions all but one stayed below 5, the largest 5.1; of 40
# whose viscous friction fell by 20 and 38 % the least was 11.
LIKELIER = 8.0
CHANGED = 0.1  # relative change of a joint's friction beyond which a user is warned
# Deviations of a change that is told; runs that contradict one another make them large.
CLEAR = 2.0
MOST = 6  # changes that are told


def friction_columns(
    problem: Problem[RobotPlant], beta: Array
) -> tuple[tuple[str, ...], Array, Array]:
    """Return what may change of the friction between two runs, coarsely and term by term.

    Args:
        beta: Base parameters β, shape (b,), whose friction is the unit of changes.

    Returns:
        Names of the coarse columns. The coarse columns, shape (b, c): of each joint its viscous
        friction, its dry friction in the proportions that it has, its load-dependent one, and a
        constant torque of the size of the dry one. A column for each term, shape (b, f), as large
        as the terms of its joint and unit are in the mean square.
    """
    names = problem.labels.names
    unit = np.eye(len(names))
    coarse: dict[str, Array] = {}
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
            coarse[f"{drive.name}.{kind}"] = beta[rubs] @ unit[rubs]
            for k in constant:
                coarse[f"{drive.name}.{terms[k].name}"] = np.abs(beta[rubs]).sum() * unit[k]
    shape = (-1, len(names))
    return tuple(coarse), np.reshape([*coarse.values()], shape).T, np.reshape(fine, shape).T


def likely_together(labels: Sequence[str]) -> Array:
    """Return L with `δ = L u` for independent u, shape (c, c): joints warm up together.

    Half the variance of a change is common to the joints.

    Args:
        labels: Names of coarse columns.
    """
    kinds = np.array([name.rpartition(".")[2] for name in labels])
    return np.linalg.cholesky(np.eye(len(kinds)) + (kinds[:, None] == kinds))


def of_friction(whose: Sequence[str], root: Array, u: Array, covariance: Array) -> Check | None:
    """Return the check of what differs in friction between runs, None where nothing does.

    Args:
        whose: The name of each change.
        root: L with coarse changes `δ = L u`, shape (c, c).
        u: Posterior means, shape (c,), with priors of unit variance.
        covariance: Of them, shape (c, c).
    """
    if _evidence(u, covariance) <= LIKELIER:
        return None
    change, std = root @ u, np.sqrt(np.diag(root @ covariance @ root.T))
    clear = np.where(np.abs(change) > CLEAR * std, change, 0.0)
    order = np.argsort(-np.abs(clear))
    told = [f"{whose[k]} {change[k]:+.0%} ± {std[k]:.0%}" for k in order if abs(clear[k]) > CHANGED]
    message = "friction differs between the runs"
    if told:
        more = f" and {len(told) - MOST} more" if len(told) > MOST else ""
        message += (
            f", from the first by: {', '.join(told[:MOST])}{more} of its size. Record all in one "
            "thermal state, the robot warm, or identify them apart"
        )
    largest = float(np.max(np.abs(clear)))
    return Check.at_most("friction of all runs", largest, CHANGED, math.inf, message)


def _evidence(change: Array, covariance: Array) -> float:
    """Return the logarithm of how much likelier changes with a spread are than none.

    Changes are normal of one standard deviation, the likeliest: a random effect.
    """
    posterior = np.linalg.inv(covariance)
    told, ways = np.linalg.eigh(posterior - np.eye(len(change)))
    told = np.maximum(told, 0.0)
    variance = SPREADS[:, None] ** 2
    score = (ways.T @ posterior @ change) ** 2
    return float(np.max(np.sum(score / (told + 1 / variance) - np.log1p(told * variance), 1)) / 2)


def between_logs(run: ExperimentFit[RobotPlant], beta: Array) -> tuple[Check, ...]:
    """Return the check that friction is the same in all logs; none where it is, or of one log.

    Logs shorter than a block of the fit count with those beside them.

    Args:
        beta: Base parameters β, shape (b,), whose friction is the unit of changes.
    """
    logs = run.problem.recordings
    labels, coarse, _ = friction_columns(run.problem, beta)
    root = likely_together(labels)
    if len(logs) < 2 or not run.blocks or not labels:
        return ()
    used = np.cumsum([line.used for line in run.problem.timelines])
    rows = np.cumsum([b.triangles[0].rows for b in run.blocks])
    middle = (rows - np.diff(rows, prepend=0) / 2) / rows[-1]
    of_log = np.searchsorted(used / used[-1], middle)
    told = np.unique(of_log)
    if len(told) < 2:
        return ()
    weights, size, count = run.estimate.weights(), len(beta), len(labels)
    changes = count * (len(told) - 1)  # against the first log
    parts = [np.eye(changes, size + changes + 1, size)]
    for k, log in enumerate(told, -1):
        of_one = [b for b, at in zip(run.blocks, of_log, strict=True) if at == log]
        factor = reduce(add, of_one).combined(weights).factor
        part = np.zeros((len(factor), parts[0].shape[1]))
        part[:, :size], part[:, -1] = factor[:, :-1], factor[:, -1]
        if k >= 0:
            part[:, size + k * count : size + (k + 1) * count] = factor[:, :-1] @ coarse @ root
        parts.append(part)
    # Changes come last: their information, all else eliminated, is the triangle's lower corner.
    corner = triangle_of(np.vstack(parts))[size:-1, size:]
    inverse = np.linalg.inv(corner[:, :-1])
    whose = [f"{logs[log].name} {j}" for log in told[1:] for j in labels]
    all_runs = np.asarray(np.kron(np.eye(len(told) - 1), root), dtype=np.float64)
    found = of_friction(whose, all_runs, inverse @ corner[:, -1], inverse @ inverse.T)
    return () if found is None else (found,)
