"""What an experiment says of its robot beside friction that changes steadily through each log.

Friction falls as drives warm up, and a log's mean of it is another one where the robot moves
otherwise. So a comparison takes rows without what a drive's friction times the time in the log
makes, a random effect (`Problem.steady`); estimates are of all rows, in which it is small.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft.certainty import block_moments
from heft.dynamics import Offset
from heft.estimators import LeastSquares
from heft.plants import RobotPlant

from .conditions import MisfitMoments
from .earlier import stored
from .experiment import ExperimentFit
from .settings import Settings

CHANGE = 0.2  # of a drive's friction through a log, relative, a standard deviation
STEADY = "steady_"  # begins the names of arrays that take the place of those of all rows


def steady_evidence(
    run: ExperimentFit[RobotPlant], friction: Mapping[str, float], settings: Settings
) -> tuple[dict[str, NDArray[Any]], MisfitMoments | None]:
    """Return arrays of `information.npz`, and misfit moments, beside friction's steady change.

    There are none where rows are not kept.

    Args:
        friction: Parameters of the drives by name.
    """
    problem, noise, solver = run.problem, run.estimate.noise, settings.estimator
    if not isinstance(solver, LeastSquares) or not run.moments:
        return {}, None
    base, drives = problem.base, problem.plant.robot.drives
    terms = ((d, k.name, t) for d, k in enumerate(drives) for t in k.friction)
    rubs = {f"{name}.{t.name}": d for d, name, t in terms if not isinstance(t, Offset)}
    columns = np.zeros((len(base.labels), len(drives)))
    for k, name in enumerate(base.standard.names):
        if name in rubs:
            columns[:, rubs[name]] += friction.get(name, 0.0) * base.matrix[:, k]
    slow = noise.sigma * np.sqrt(noise.autocorrelation_time)
    steady = problem.steady(columns, slow / CHANGE)
    if steady is None:
        return {}, None
    rows = run.information.rows
    blocks = steady.information_blocks(settings.jackknife.blocks, rows // len(problem.channels))
    information, rank = reduce(add, blocks), run.estimate.rank
    sigma = solver.spread(information, run.noise_names)
    white = solver.conclude(information, sigma, None, 1, rank=rank)
    estimate = solver.colour(steady, white)
    parts = stored(estimate.noise, block_moments(blocks, estimate.fitted))
    arrays = {name: a for name, a in parts.items() if not name.startswith("common")}
    for c, triangle in enumerate(estimate.information.triangles):
        arrays |= {f"columns_{c}": triangle.columns, f"factor_{c}": triangle.factor}
    misfit = MisfitMoments.of(steady, estimate.fitted, rows)
    return {f"{STEADY}{name}": array for name, array in arrays.items()}, misfit
