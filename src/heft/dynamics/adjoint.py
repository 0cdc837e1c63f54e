"""Adjoint of the rigid-body regressor: gradients of any function of its rows, in one pass.

Whatever is made of the rows Y(q, v, a), such as the determinant of their information, has a
derivative S = ∂φ/∂Y of the shape of Y. One reverse pass turns these *seeds* into ∂φ/∂(q, v, a), at
two to three times the cost of Y and whatever the number of unknowns that q, v and a are made of.
Seeds add: multipliers λ of torque limits enter the same pass as `λ πᵀ`, since τ = Y π.
"""

from __future__ import annotations

import numpy as np

from heft.arrays import Array
from heft.compiled import plain
from heft.errors import InvalidSetting

from . import compiled_walks
from .kernels import IntArray, Motion, compile_tree, full_slots
from .tree import Tree


def pull_back(
    tree: Tree, motion: Motion, seeds: Array, slots: IntArray | None = None
) -> tuple[Array, Array, Array]:
    """Return the gradients of Σ S·Y by position, velocity and acceleration of the channels.

    Args:
        tree: On a fixed base.
        seeds: S, shape (N, channels, columns), of the columns of `regressor`; fastest as a view of
            an array (channels, columns, N). Not read where a channel does not move a body.
        slots: Place of each body column among those of the seeds, as in `regressor`.

    Returns:
        Three arrays of shape (channels, N), in the unit of S·Y per [rad or m], [rad/s or m/s] and
        [rad/s² or m/s²].

    Raises:
        InvalidSetting: If the base floats.
    """
    if tree.free_base:
        raise InvalidSetting(
            "rows of a floating base cannot be differentiated by its pose",
            argument="base",
            got="free",
            expected="fixed",
        )
    if slots is None:
        slots = full_slots(tree)
    (laid,) = plain(np.moveaxis(seeds, 0, 2))
    q, v, a = np.zeros((3, tree.channels, motion.sin.shape[1]))
    deepest = int(tree.ancestry.sum(axis=0).max(initial=1))
    arrays = plain(*motion.tuple())
    compiled_walks.pull(compile_tree(tree), arrays, slots, laid, deepest, (q, v, a))
    return q, v, a
