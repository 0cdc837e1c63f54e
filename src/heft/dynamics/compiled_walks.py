"""The compiled walks over a tree, forward and reverse, as one unit; see `heft.compiled`."""

from __future__ import annotations

import numpy as np

from heft.compiled import Kernels

from .reverse_walk import pull
from .walk import efforts, momenta, reduce, regress, sine_cosine

# Called by this module's name, so that their code is looked for before it is compiled.
__all__ = ["KERNELS", "efforts", "momenta", "pull", "reduce", "regress", "sine_cosine", "warm_up"]


def warm_up() -> None:
    """Call each compiled entry point once, so that it is compiled and cached."""
    one = np.zeros((1, 1))
    index = np.zeros(1, dtype=np.int64)
    flat, three = np.zeros((1, 9)), np.zeros((1, 3))
    tree = (index - 1, index, index, index, np.ones(1), flat, flat, flat, three, three)
    motion = (one, one, one, one, np.zeros((3, 1)))
    slots = np.arange(10)[None, :]
    sine_cosine(np.zeros(1), np.zeros(1), np.zeros(1))
    regress(tree, motion, slots, np.zeros((10, 1)))
    efforts(tree, motion, np.zeros(10), one.copy())
    momenta(tree, motion, slots, (one, one), np.zeros((10, 1)), np.zeros((10, 1)))
    acts, chosen = np.zeros((1, 2), dtype=np.int64), np.array([[0, 0, 10]])
    tau, every = np.zeros((1, 1, 1)), np.zeros((1, 0), dtype=np.bool_)
    reduce(tree, motion, (slots, acts, chosen), (one, np.ones(1)), (tau, every), 1, np.zeros(121))
    pulled = (one.copy(), one.copy(), one.copy())
    pull(tree, motion, slots, np.zeros((1, 10, 1)), 1, pulled)


KERNELS = Kernels((sine_cosine, regress, efforts, momenta, reduce, pull), warm_up)
