"""Selections of recordings' rows: the file that `heft select` writes and `heft identify` takes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft.errors import InvalidSetting
from heft.files import read_text
from heft.recordings import Recording

FORMAT = "heft-selection-1"


@dataclass(frozen=True, eq=False)
class Kept:
    """Rows of a log that are kept."""

    path: str  # the log, as it was named
    # first row and the row behind the last of each stretch, ascending, shape (n, 2)
    rows: NDArray[np.int64]
    seconds: NDArray[np.float64]  # times of the first and last row of each [s], shape (n, 2)

    def holds(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which rows are kept, shape (n,)."""
        stretch = np.searchsorted(self.rows[:, 0], rows, side="right") - 1
        inside = stretch >= 0
        inside[inside] = rows[inside] < self.rows[stretch[inside], 1]
        return inside


@dataclass(frozen=True, eq=False)
class Selection:
    """Stretches of logs that are to be fitted."""

    logs: Mapping[str, Kept]  # what is kept of each log, by the log's SHA-256
    about: Mapping[str, Any] = field(default_factory=dict)  # what else the file says, for people

    def of(self, recordings: Sequence[Recording]) -> tuple[Recording, ...]:
        """Return recordings restricted, for the fit, to the rows that are kept.

        Raises:
            InvalidSetting: If one of them is another log, or nothing is kept of any.
        """
        chosen, count = [], 0
        for recording in recordings:
            kept = self.logs.get(recording.sha256)
            if kept is None:
                raise InvalidSetting(
                    "the selection was made of other logs",
                    argument=recording.name,
                    got=f"SHA-256 {recording.sha256[:16]}…",
                    expected="; ".join(
                        f"{k.path}: {sha[:16]}…" for sha, k in list(self.logs.items())[:4]
                    ),
                    cure="give the logs that heft select was given, unchanged, or select again",
                )
            count += len(kept.rows)
            chosen.append(recording.selecting(kept.holds))
        if not count:
            raise InvalidSetting(
                "the selection keeps nothing of these logs",
                argument=", ".join(r.name for r in recordings),
                cure="give the other logs too that heft select was given",
            )
        return tuple(chosen)

    def to_json(self) -> str:
        """Return the file's text."""
        logs = [
            {
                "path": k.path,
                "sha256": sha,
                "rows": k.rows.tolist(),
                "seconds": np.round(k.seconds, 6).tolist(),
            }
            for sha, k in self.logs.items()
        ]
        content = {"format": FORMAT, **self.about, "logs": logs}
        return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    @staticmethod
    def load(path: Path) -> Selection:
        """Read a file that `heft select` wrote.

        Raises:
            InvalidSetting: If it is missing, damaged or no selection.
        """
        try:
            content = json.loads(read_text(path, "selection", InvalidSetting))
            if content["format"] != FORMAT:
                raise ValueError(f"format {content['format']}")
            logs = {str(entry["sha256"]): _kept(entry) for entry in content["logs"]}
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as problem:
            raise InvalidSetting(
                "this is no selection",
                argument=str(path),
                got=f"{type(problem).__name__}: {problem}"[:200],
                cure="heft select MODEL LOGS --keep 60s --out selection.json writes one",
            ) from problem
        return Selection(logs, {k: v for k, v in content.items() if k not in ("format", "logs")})


def _kept(entry: Mapping[str, Any]) -> Kept:
    rows = np.array(entry["rows"], dtype=np.int64).reshape(-1, 2)
    seconds = np.array(entry.get("seconds", []), dtype=float).reshape(-1, 2)
    if len(rows) and (
        rows.min() < 0
        or rows.max() > 10**12
        or (np.diff(rows, axis=1) <= 0).any()
        or (rows[1:, 0] < rows[:-1, 1]).any()
    ):
        raise ValueError("rows that do not follow one another")
    return Kept(str(entry["path"]), rows, seconds)
