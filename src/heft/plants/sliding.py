"""Rows of what slides: which they are, and the information of them alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.engine import in_order
from heft.information import Information, Labels, Triangle

from .plant import Fused, Plant, Samples
from .walk import Walk

Counted = tuple[NDArray[np.bool_], ...]


def sliding_rows(
    samples: Iterable[Samples[Any]],
    plant: Plant[Any],
    speed: float,
    settle: float,
    gaps: Sequence[float],
) -> Counted:
    """Return which rows of each channel lie within sustained sliding in one direction.

    Near standstill friction is not what simple terms say; use this to leave such rows out.

    Args:
        samples: Of all recordings, in order.
        speed: Speed above which a revolute drive slides [rad/s]; see `Plant.sliding`.
        settle: How long before and after a row it must slide the same way [s].
        gaps: Longest time between samples that is no gap, for each recording [s].

    Returns:
        For each recording, by index of the sample, shape (samples, c).
    """
    found: list[list[tuple[Samples[Any], NDArray[np.int64]]]] = [[] for _ in gaps]
    for s in samples:
        found[s.recording].append((s, plant.sliding(s, speed)))
    counted = []
    for parts, gap in zip(found, gaps, strict=True):
        index = np.concatenate([s.index for s, _ in parts] or [np.empty(0, dtype=np.int64)])
        rows = np.zeros((int(index.max(initial=-1)) + 1, len(plant.channels)), dtype=bool)
        if len(index):
            time = np.concatenate([s.time for s, _ in parts])
            ways = np.concatenate([way for _, way in parts])
            for c, way in enumerate(ways.T):
                rows[index, c] = _lasting(time, way, settle, gap)
        counted.append(rows)
    return tuple(counted)


def _lasting(time: Array, way: NDArray[np.int64], settle: float, gap: float) -> NDArray[np.bool_]:
    """Return samples whose `way` is not 0 and stays the same for `settle` to either side [s]."""
    cuts = (np.flatnonzero((np.diff(way) != 0) | (np.diff(time) > gap)) + 1).tolist()
    lasting = np.zeros(len(time), dtype=bool)
    for begin, end in zip([0, *cuts], [*cuts, len(time)], strict=True):
        if way[begin] == 0:
            continue
        # A recording's ends are no reversals.
        since = time[begin] + settle if begin else -np.inf
        until = time[end - 1] - settle if end < len(time) else np.inf
        lasting[begin:end] = (time[begin:end] >= since) & (time[begin:end] <= until)
    return lasting


def information_of(
    walk: Walk, labels: Labels, channels: Sequence[str], columns: Sequence[int], counted: Counted
) -> Iterator[Information]:
    """Yield the information of the instantaneous rows that count, part by part.

    Args:
        counted: Which rows count, for each recording by index of the sample, shape (samples, c).
    """
    plant = walk.plant

    def work(s: Samples[Any]) -> Information:
        rows = counted[s.recording][s.index]
        if isinstance(plant, Fused) and not walk.mixes:
            return Information(labels, tuple(channels), plant.reduce(s, columns, counted=rows))
        triangles = (one(s.part(np.flatnonzero(r)), c) for c, r in enumerate(rows.T))
        return Information(labels, tuple(channels), tuple(triangles))

    def one(s: Samples[Any], channel: int) -> Triangle:
        made = walk.equations_of(s, columns)
        regressor, effort = made.regressor[:, [channel]], made.effort[:, [channel]]
        return Information.from_rows(labels, (channels[channel],), regressor, effort).triangles[0]

    fused = isinstance(plant, Fused) and not walk.mixes
    most = walk.shared_rows if fused else walk.dense_rows
    yield from in_order(work, walk.parts(most), walk.threads)
