"""Recordings cut into short segments, and the information of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.engine import in_order
from heft.errors import TooLittleData
from heft.information import triangle_of

from .plant import Samples
from .problem import Problem
from .walk import Walk


@dataclass(frozen=True, eq=False)
class Segments:
    """Segments of a problem's recordings, N of them, with their information about b parameters."""

    factors: Array  # triangle F with FᵀF = Yᵀ W Y of each, weighted, shape (N, b, b)
    recording: NDArray[np.intp]  # position of the recording, shape (N,)
    rows: NDArray[np.int64]  # first row and the row behind the last, shape (N, 2)
    times: Array  # of the first row, and of the last [s], shape (N, 2)
    counts: NDArray[np.int64]  # samples of each, shape (N,)
    left: int  # samples of the recordings that are in no segment, since theirs is not whole

    @staticmethod
    def of(problem: Problem[Any], weights: Mapping[str, float], length: float) -> Segments:
        """Return the segments of a problem's recordings, each on its own rows.

        Args:
            problem: Its rows are taken sample by sample, even if it has a weak form.
            weights: Factor of each channel's rows, by name: 1/σ, with σ in the channel's unit.
            length: Duration of a segment [s].

        Raises:
            TooLittleData: If no recording holds a whole segment.
        """
        made: list[_Piece] = []
        excluded = 0
        weight = np.array([weights[c] for c in problem.channels])
        for piece in _pieces(problem.walk, problem.base.kept, weight, length):
            full = length / problem.timelines[piece.recording].step
            if len(piece.time) >= max(0.75 * full, 1.0):  # others are at an end or a gap
                made.append(piece)
            else:
                excluded += len(piece.time)
        if not made:
            raise TooLittleData(
                "no segment is whole",
                got=f"{excluded} samples, none of them {length:g} s without a gap",
                cure="choose shorter segments (--segment)",
            )
        return Segments(
            np.stack([k.factor for k in made]),
            np.array([k.recording for k in made], dtype=np.intp),
            np.array([(k.samples[0], k.samples[-1] + 1) for k in made]),
            np.array([(k.time[0], k.time[-1]) for k in made]),
            np.array([len(k.time) for k in made]),
            excluded,
        )


class _Piece(NamedTuple):
    recording: int
    number: int
    time: Array
    samples: NDArray[np.int64]
    factor: Array


def _pieces(walk: Walk, kept: Sequence[int], weight: Array, length: float) -> Iterator[_Piece]:
    """Yield segments in order, joining those that windows of the walk cut in two."""
    begins: dict[int, float] = {}

    def work(item: tuple[Samples[Any], float]) -> list[_Piece]:
        s, begin = item
        number = np.floor((s.time - begin) / length + 1e-9).astype(int)
        regressor = walk.equations_of(s, kept).regressor * weight[:, None]
        return [
            _Piece(
                s.recording,
                int(number[rows[0]]),
                s.time[rows],
                s.index[rows],
                triangle_of(regressor[rows].reshape(-1, regressor.shape[2])),
            )
            for rows in np.split(np.arange(len(number)), np.flatnonzero(np.diff(number)) + 1)
        ]

    def items() -> Iterator[tuple[Samples[Any], float]]:
        for s in walk.parts(walk.dense_rows):
            yield s, begins.setdefault(s.recording, float(s.time[0]))

    last: _Piece | None = None
    for pieces in in_order(work, items(), walk.threads):
        for piece in pieces:
            if last is None:
                last = piece
            elif (last.recording, last.number) == (piece.recording, piece.number):
                time, index = (
                    np.concatenate(pair) for pair in zip(last[2:4], piece[2:4], strict=True)
                )
                factor = triangle_of(np.vstack([last.factor, piece.factor]))
                last = _Piece(piece.recording, piece.number, time, index, factor)
            else:
                yield last
                last = piece
    if last is not None:
        yield last
