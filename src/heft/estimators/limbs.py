"""Limbs: parts of a robot of which no row tells anything together, each a problem of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from heft.information import ParameterSpace, Triangle, connected, triangle_of


@dataclass(frozen=True)
class Limb:
    """Information about some parameters that no row and no body connects with the others."""

    parameters: NDArray[np.intp]  # positions of its parameters x among all, ascending, shape (n,)
    triangle: Triangle  # information about its own β
    space: ParameterSpace  # its parameters and their map to these β


def limbs(triangle: Triangle, space: ParameterSpace) -> tuple[Limb, ...]:
    """Return the connected components of information and parameters; one if all is connected.

    A misfit is the sum of the limbs' misfits, and consistency is of each body by itself, so that
    what bounds or minimises it is found limb by limb.

    Args:
        triangle: Information about β in independent rows of unit variance.
    """
    count = len(triangle.columns)
    held = [np.flatnonzero(row) for row in triangle.R]
    mapped = [np.append(b, count + np.flatnonzero(row)) for b, row in enumerate(space.matrix)]
    bodies = [count + np.arange(first, first + 10) for first in space.groups]
    parts = connected([*held, *mapped, *bodies], count + space.size)
    if len(parts) == 1:
        return (Limb(np.arange(space.size), triangle, space),)
    found = []
    for part in parts:
        beta, x = part.columns[part.columns < count], part.columns[part.columns >= count] - count
        if not len(x):
            continue
        rows = part.rows[part.rows < len(held)]
        factor = triangle_of(triangle.factor[np.ix_(rows, np.append(beta, -1))])
        own = Triangle(np.arange(len(beta)), factor, triangle.rows)
        found.append(Limb(x, own, part_of(space, x, beta)))
    return tuple(found)


def part_of(
    space: ParameterSpace, x: NDArray[np.intp], columns: NDArray[np.intp]
) -> ParameterSpace:
    """Return some of the parameters, with whole bodies, and their map to some of the columns.

    Args:
        x: Positions of those asked for, ascending.
        columns: Positions of the columns asked for, ascending.
    """
    place = {k: i for i, k in enumerate(x.tolist())}
    return replace(
        space,
        labels=space.labels.select(x),
        matrix=space.matrix[np.ix_(columns, x)],
        nominal=space.nominal[x],
        groups=tuple(place[k] for k in space.groups if k in place),
        nonnegative=tuple(place[k] for k in space.nonnegative if k in place),
    )
