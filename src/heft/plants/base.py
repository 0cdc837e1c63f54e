"""Structural base parameters of a plant: those that a sufficiently exciting motion identifies."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from heft.arrays import Array
from heft.information import BaseParameters, ChannelRows, Information, base_parameters

from .plant import Limbed, Plant

_bases: WeakKeyDictionary[Any, BaseParameters] = WeakKeyDictionary()


def structural_base(plant: Plant[Any]) -> BaseParameters:
    """Return the base parameters of a plant: identifiable combinations of its columns.

    Computed from rows of samples in general position, about a point in general position: at a
    point of zero some columns vanish that do not vanish elsewhere, and labels must not depend on
    the point. The same plant always gives the same base parameters [Gautier1991]. Columns that only
    the rounding of the description's angles tells apart are dependent: `Plant.rounding`.
    """
    structure = plant.structure
    try:
        base = _bases.get(structure)
    except TypeError:  # a plant of arrays, which has no hash
        return _base(plant)
    if base is None:
        base = _bases[structure] = _base(plant)
    return base


def _base(plant: Plant[Any]) -> BaseParameters:
    labels, channels = plant.labels, plant.channels
    count = max(32, -(-4 * len(labels) // max(len(channels), 1)))
    rng = np.random.default_rng(20_260)  # any: the base parameters do not depend on the draw
    samples = plant.random_samples(count, rng)
    if len(plant.point_columns):
        plant = plant.about(rng.normal(size=len(labels)))
    everything = range(len(labels))
    if isinstance(plant, Limbed):  # channel by channel, of which each sees few columns
        rows = plant.channel_rows(samples, everything)
        names = tuple(c.name for c in channels)
        nothing = np.zeros((count, len(channels)))
        every = Information.from_channel_rows(labels, names, rows, nothing)
        return _of_information(plant, every)
    return _of_rows(plant, plant.rows(samples, everything).regressor.reshape(-1, len(labels)))


def extended_base(plant: Plant[Any], base: BaseParameters, matrix: Array) -> BaseParameters:
    """Return base parameters of a plant together with combinations that other data tell.

    Args:
        base: Base parameters of the plant.
        matrix: Combinations of standard columns, a row each, shape (k, p).

    Returns:
        Base parameters of which all rows of the plant and all combinations are functions; those
        these where they are that already.
    """
    if spans(base, matrix, plant.rounding):
        return base
    return _of_rows(plant, np.vstack([base.matrix, matrix]))


def spans(base: BaseParameters, matrix: Array, rounding: float = 0.0) -> bool:
    """Return whether combinations of standard columns are functions of base parameters.

    Args:
        base: Base parameters β = K π.
        matrix: Combinations, a row each, shape (k, p).
        rounding: Relative size that rounding of the description leaves; see `Plant.rounding`.
    """
    rest = np.abs(matrix - matrix[:, base.kept] @ base.matrix)
    size = np.abs(matrix).max(axis=1, keepdims=True, initial=0.0)
    return bool((rest <= max(1e-8, 10.0 * rounding) * size).all())


def _of_rows(plant: Plant[Any], rows: Array) -> BaseParameters:
    every = ChannelRows(np.arange(len(plant.labels)), rows)
    nothing = np.zeros((len(rows), 1))
    return _of_information(
        plant, Information.from_channel_rows(plant.labels, ("all",), (every,), nothing)
    )


def _of_information(plant: Plant[Any], every: Information) -> BaseParameters:
    labels = plant.labels
    # Columns that nearly depend on one another, but are parameters of their own whatever rounding
    # says, are kept apart; those of a tree of bodies never depend on them.
    independent = list(plant.independent)
    plain = sorted(set(range(len(labels))) - set(independent))
    rows = every.only(plain).combined().R
    base = base_parameters(rows, labels.select(plain), plant.order, plant.rounding)
    shown = set(np.concatenate([t.columns for t in every.triangles]).tolist())
    seen = [k for k in independent if k in shown]
    kept = sorted([plain[k] for k in base.kept] + seen)
    matrix = np.zeros((len(kept), len(labels)))
    for row, position in zip(base.matrix, base.kept, strict=True):
        matrix[kept.index(plain[position]), plain] = row
    for position in seen:
        matrix[kept.index(position), position] = 1.0
    unseen = sorted([plain[k] for k in base.unseen] + [k for k in independent if k not in seen])
    return BaseParameters(labels, tuple(kept), matrix, tuple(unseen), base.gap)
