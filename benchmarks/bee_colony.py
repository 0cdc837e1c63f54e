"""An artificial bee colony [Karaboga2005] on the design of excitation, for the record.

Sources are motions; employed bees try a neighbour of each, onlookers those of good ones, and a
source that has not improved for long is given up for a random one. Limits are a penalty on the
largest violation.
"""

from __future__ import annotations

import numpy as np

from heft.arrays import Array
from heft.excitation import Excitation

PENALTY = 1e4  # nats per share of a limit


def worth(problem: Excitation, X: Array) -> float:
    """Return the criterion less the penalty."""
    at = problem.at(X)
    return at.value - PENALTY * max(float(at.constraints.max()), 0.0)


def bee_colony(
    problem: Excitation, sources: list[Array], evaluations: int, limit: int, seed: int = 0
) -> tuple[Array, float]:
    """Return the best motion found, and its worth.

    Args:
        problem: Limits and criterion.
        sources: Random motions to begin with; also what scouts go to, scaled anew.
        evaluations: How many are spent.
        limit: Trials without success after which a source is given up.
        seed: Of the random numbers.
    """
    rng = np.random.default_rng(seed)
    spare = [X.copy() for X in sources]
    values = np.array([worth(problem, X) for X in sources])
    failed = np.zeros(len(sources), dtype=int)
    spent = len(sources)
    best, most = sources[int(values.argmax())].copy(), float(values.max())

    def visit(k: int) -> None:
        other = sources[int(rng.integers(len(sources)))]
        trial = sources[k].copy()
        place = tuple(rng.integers(trial.shape))
        trial[place] += rng.uniform(-1.0, 1.0) * (trial[place] - other[place])
        value = worth(problem, trial)
        if value > values[k]:
            sources[k], values[k], failed[k] = trial, value, 0
        else:
            failed[k] += 1

    while spent < evaluations:
        for k in range(len(sources)):
            visit(k)
        rank = np.argsort(np.argsort(values)) + 1.0
        for k in rng.choice(len(sources), len(sources), p=rank / rank.sum()):
            visit(int(k))
        spent += 2 * len(sources)
        if values.max() > most:
            best, most = sources[int(values.argmax())].copy(), float(values.max())
        worst = int(failed.argmax())
        if failed[worst] > limit:
            scout = spare[int(rng.integers(len(spare)))] * rng.uniform(0.6, 1.0)
            sources[worst], values[worst] = scout, worth(problem, scout)
            failed[worst] = 0
            spent += 1
    return best, most
