"""What trials yielded, a file each: what was killed goes on where it was.

`trials/` holds results, that follow from the settings alone; `times/` how long they took, which
differs from run to run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heft import __version__
from heft.errors import InvalidSetting
from heft.files import read_text, require_own, require_schema, write_text

from .experiments import NOISE, Case
from .trials import Outcome

RESULTS, TIMES = "trials", "times"
FILES = (RESULTS, TIMES, "bench.json", "report.html")

_NUMBERS = {"type": "array", "items": {"type": ["number", "null"]}}
_FAILED = {"properties": {"failed": {"type": "string"}}, "required": ["failed"]}
_ENDED = {
    "properties": {
        "values": _NUMBERS,
        "std": _NUMBERS,
        "error": {"type": "number"},
        "physical": {"type": "boolean"},
        "margin": {"type": ["number", "null"]},
    },
    "required": ["values", "std", "error", "physical"],
}
RESULT = {"type": "object", "if": {"required": ["failed"]}, "then": _FAILED, "else": _ENDED}
SCHEMAS: dict[str, dict[str, Any]] = {
    RESULTS: {"type": "object", "additionalProperties": RESULT},
    TIMES: {"type": "object", "additionalProperties": {"type": "number", "minimum": 0}},
}


@dataclass(frozen=True)
class Kept:
    """The trials of a benchmark's folder."""

    out: Path  # the folder

    def open(self) -> None:
        """Make the folder, if it is not there.

        Raises:
            InvalidSetting: If it holds files that are not a benchmark's, or cannot be written to.
        """
        require_own(self.out, FILES)
        for name in (RESULTS, TIMES):
            (self.out / name).mkdir(parents=True, exist_ok=True)

    def lacking(self, case: Case, number: int, names: Sequence[str]) -> tuple[str, ...]:
        """Return the candidates that a trial still lacks; errors as for `outcome`."""
        had = self.outcome(case, number).results
        return tuple(n for n in names if n not in had)

    def outcome(self, case: Case, number: int) -> Outcome:
        """Return the stored outcome of a trial, empty if it was not run.

        Raises:
            InvalidSetting: If a file is damaged.
        """
        return Outcome(*(_read(self._file(name, case, number), name) for name in (RESULTS, TIMES)))

    def add(self, case: Case, number: int, outcome: Outcome) -> None:
        """Store the outcome of a trial: times first, so that no result lacks them."""
        had = self.outcome(case, number)
        for name, whole in (
            (TIMES, {**had.seconds, **outcome.seconds}),
            (RESULTS, {**had.results, **outcome.results}),
        ):
            content = json.dumps(dict(sorted(whole.items())), ensure_ascii=False)
            write_text(self._file(name, case, number), content + "\n")

    def _file(self, name: str, case: Case, number: int) -> Path:
        """Return the file of a trial, its name with a hash of version, noise and robot."""
        recipe = f"{__version__} {NOISE[case.noise]!r}".encode()
        told = hashlib.sha256(case.arm.urdf + recipe).hexdigest()[:8]
        friction = case.friction.replace(" ", "_")
        drawn = f"{friction}-{case.noise}-{case.duration:g}s-{case.seed}-{number:05d}"
        return self.out / name / f"{case.arm.name}-{told}-{drawn}.json"


def _read(path: Path, name: str) -> dict[str, Any]:
    if not path.is_file():
        return {}
    data = read_text(path, "file of a trial", InvalidSetting)
    try:
        found = json.loads(data)
        require_schema(found, SCHEMAS[name])
        for one in found.values() if name == RESULTS else ():
            if "failed" not in one and len(one["values"]) != len(one["std"]):
                raise ValueError("values and std differ in length")
    except (ValueError, RecursionError) as problem:
        raise InvalidSetting(
            "the file of a trial is damaged",
            argument=str(path),
            got=str(problem),
            cure="remove it; the trial is made again",
        ) from problem
    return dict(found)
