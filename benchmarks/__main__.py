"""What is measured, and which tables are stale: `python -m benchmarks [--stale]`.

A table is fresh if the files that it comes from (`benchmarks.sources`) are those it was measured
on: by their digest, or, where it holds none, by its commit. All else is stale.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import sources
from benchmarks.program import RESULTS


def module_of(name: str) -> str:
    """Return the benchmark that makes a table: of its name, or with a variant behind it."""
    parts = name.split("_")
    tried = ["_".join(parts[:k]) for k in range(len(parts), 0, -1)]
    return next(m for m in tried if (sources.BENCHMARKS / f"{m}.py").exists())


@dataclass(frozen=True)
class Stored:
    """A stored table.

    Attributes:
        name: Of its file.
        content: All of it.
    """

    name: str
    content: dict[str, Any]

    @property
    def why_stale(self) -> str | None:
        """What has changed since it was measured, or None if nothing has."""
        files = {str(f.relative_to(sources.ROOT)) for f in sources.files_of(module_of(self.name))}
        commit = self.content["commit"]
        if self.content.get("sources") == sources.digest(module_of(self.name)):
            return None
        if not commit.isalnum():
            return f"measured on {commit}, which no commit holds"
        differ = sources.changed_since(commit)
        if differ is None:
            return f"measured on {commit}, which is not known here"
        changed = sorted(files & differ)
        if not changed:
            return "other files than now" if "sources" in self.content else None
        return f"{len(changed)} of {len(files)} files, {changed[0]}"

    @property
    def line(self) -> str:
        """Its date, its cost and what makes it anew."""
        spent = self.content.get("processor_s")
        cost = "unknown" if spent is None else f"{spent:g} s"
        module = module_of(self.name)
        usual = f"python -m benchmarks.{module} {'… ' if module != self.name else ''}--store"
        command = self.content.get("command", usual)
        date = self.content.get("date", "unknown")
        return f"{self.name:22} {date:10}  {cost:>9}  {self.why_stale or 'fresh'}\n    {command}"


def tables(folder: Path = RESULTS) -> list[Stored]:
    """Return the stored tables."""
    files = sorted(folder.glob("*.json"))
    return [Stored(f.stem, json.loads(f.read_text(encoding="utf-8"))) for f in files]


def main() -> None:
    """Print what is stored."""
    parser = argparse.ArgumentParser("benchmarks", description=__doc__)
    parser.add_argument("--stale", action="store_true", help="only those that are stale")
    asked = parser.parse_args()
    print("table                  measured    processor  changed since")
    for stored in tables():
        if not asked.stale or stored.why_stale:
            print(stored.line)


if __name__ == "__main__":
    main()
