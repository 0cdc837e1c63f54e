"""What the load tells of robots' wrenches: by how much they are late, and which axes they have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product

import numpy as np

from heft.arrays import Array
from heft.estimators import whitening

from .clocks import ClockOffset
from .window_stream import WindowSettings
from .windows import Pose, Space, Windows, inverse

# matrices that take a vector of one's axes to others': all permutations with all signs, (48, 3, 3)
SIGNED = np.array(
    [np.diag(s)[list(p)] for p in permutations(range(3)) for s in product((1.0, -1.0), repeat=3)]
)


@dataclass(frozen=True, eq=False)
class _Rows:
    """White rows of Newton's and Euler's equations in the first frame, where all are there."""

    good: Array  # which windows they are of, shape (K,)
    white: Array  # whitening of a window's wrench, shape (r, r)
    columns: Array  # of the load's parameters and of an offset, shape (n, r, p + r)
    moved: tuple[Windows, ...]  # each robot's windows in that frame

    @staticmethod
    def of(
        parts: Sequence[Windows], poses: Sequence[Pose], during: tuple[float, float], space: Space
    ) -> _Rows:
        moved = tuple(
            space.of(p.moved(inverse(pose))) for p, pose in zip(parts, poses, strict=True)
        )
        wrench, motion = (np.sum([getattr(m, n) for m in moved], 0) for n in ("wrench", "motion"))
        good = np.isfinite(motion).all(axis=1) & np.isfinite(wrench).all(axis=1)
        good &= (during[0] <= parts[0].time) & (parts[0].time <= during[1])
        noise = np.sum([m.wrench_spread for m in moved], axis=0)
        # of two points moments along one line are none
        noise += 1e-9 * np.trace(noise) * np.eye(len(noise))
        Y = np.einsum("nm,mwp->nwp", motion[good] / len(moved), space.load_tensor)
        offset = np.broadcast_to(np.eye(len(noise)), (*Y.shape[:2], len(noise)))
        columns = np.concatenate([Y, offset], axis=2)
        return _Rows(good, whitening(noise), columns, moved)


def wrench_delays(
    parts: Sequence[Windows],
    poses: Sequence[Pose],
    changes: Sequence[float],
    behind: Mapping[int, float],
    space: Space,
) -> dict[int, ClockOffset]:
    """Return by how much each robot's wrench is behind its motion, where it surely is.

    A wrench W of the past lacks τ Ẇ to first order: least squares of Σ D (W + τ Ẇ) = Y π + d, in
    τ of each robot, the load π and an offset d, over windows.

    Args:
        parts: Windows of each robot, those of one place of one time; not a number where absent.
        poses: R and t that take coordinates of the first robot's frame to each one's own.
        changes: Times at which the load was found to be another [s]; the longest time without one
            counts, since of a late wrench some may be found wrongly.
        behind: Delays that the windows' wrenches are set by, by robot [s].
    """
    # Two windows that overlap differ by noise; those that do not, by what the wrench changes
    stride, length = parts[0].time[1] - parts[0].time[0], WindowSettings().length
    lag = round(0.5 * length / stride)
    begin, end = parts[0].time[[0, -1]].tolist()
    edges = [begin, *(t for t in changes if begin < t < end), end]
    k = int(np.argmax(np.diff(edges)))
    rows = _Rows.of(parts, poses, (edges[k], edges[k + 1]), space)
    rates = np.full((len(parts), len(parts[0].time), len(space.wrench)), np.nan)
    for own, m in zip(rates, rows.moved, strict=True):
        own[lag:-lag] = (m.wrench[2 * lag :] - m.wrench[: -2 * lag]) / (2 * lag * stride)
    wrench = np.sum([m.wrench for m in rows.moved], axis=0)
    there = np.isfinite(rates).all(axis=(0, 2))[rows.good]
    late = -np.moveaxis(rates[:, rows.good], 0, 2)
    columns = np.concatenate([late, rows.columns], axis=2)[there]
    A = (rows.white @ columns).reshape(-1, columns.shape[2])
    b = (wrench[rows.good][there] @ rows.white.T).ravel()
    if len(b) < 17 * len(space.wrench) * len(parts):
        return {}
    size = np.linalg.norm(A, axis=0)
    size[size == 0.0] = 1.0
    values, *_ = np.linalg.lstsq(A / size, b)
    rest = b - A / size @ values
    spread = np.linalg.pinv(A.T @ A / np.outer(size, size)) * np.mean(rest**2) * parts[0].overlap
    offsets = {}
    for k in range(len(parts)):
        std = float(np.sqrt(spread[k, k]) / size[k])
        total = ClockOffset(behind.get(k, 0.0) + float(values[k] / size[k]), std)
        if total.is_sure:
            offsets[k] = replace(total, offset=float(np.clip(total.offset, -0.5, 0.5)))
    return offsets


def same_delays(
    one: Mapping[int, ClockOffset], other: Mapping[int, ClockOffset], share: float
) -> bool:
    """Return whether delays are of the same robots, and alike to a share of their deviations."""
    return one.keys() == other.keys() and all(
        abs(delay.offset - one[k].offset) < share * delay.std for k, delay in other.items()
    )


def likeliest_axes(
    parts: Sequence[Windows], poses: Sequence[Pose], space: Space
) -> list[tuple[tuple[int, ...], Array]]:
    """Return whose wrenches in which axes leave least of a load with a mass, the least first.

    Tried are all axes and signs, of each robot alone and of all robots alike. All windows count:
    the changes of a load that were found in other axes are none.

    Args:
        parts: Windows of each robot, those of one place of one time; not a number where absent.
        poses: R and t that take coordinates of the first robot's frame to each one's own.

    Returns:
        Robots, and the matrix that takes what their sensors read to their contacts' axes, (3, 3).
    """
    rows = _Rows.of(parts, poses, (-np.inf, np.inf), space)
    A = (rows.white @ rows.columns).reshape(-1, rows.columns.shape[2])
    size = np.linalg.norm(A, axis=0)
    U, S, V = np.linalg.svd(A / np.where(size > 0.0, size, 1.0), full_matrices=False)
    able = 1e-9 * S[0] < S
    U, to_mass = U[:, able], V[able, 0] / S[able]

    def right(own: Windows, pose: Pose, by: Array) -> Array:
        turned = replace(own, wrench=own.wrench @ np.kron(np.eye(2), by.T))
        in_first = space.of(turned.moved(inverse(pose))).wrench[rows.good]
        return np.asarray((in_first @ rows.white.T).ravel())

    tried, every = [], tuple(range(len(parts)))
    each = list(zip(parts, poses, strict=True))
    as_read = np.array([right(own, pose, np.eye(3)) for own, pose in each])
    for by in SIGNED[1:]:
        other = np.array([right(own, pose, by) for own, pose in each])
        alone = as_read.sum(axis=0) - as_read + other
        for robots, b in [*(((k,), alone[k]) for k in every), (every, other.sum(axis=0))]:
            seen = U.T @ b
            if to_mass @ seen > 0.0:
                tried.append((float(b @ b - seen @ seen), robots, by))
    return [(robots, by) for _, robots, by in sorted(tried, key=lambda t: t[0])]
