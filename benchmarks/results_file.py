"""One stored file a benchmark: rows with value, bound and whether it holds."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Row:
    """One measured figure.

    Attributes:
        name: What was measured.
        value: The figure.
        unit: Its unit.
        bound: What was asked for, or None.
        holds: Whether it is met, or None where nothing was asked.
        against: What it is compared with.
    """

    name: str
    value: float
    unit: str
    bound: float | None = None
    holds: bool | None = None
    against: str | None = None


def at_least(name: str, value: float, unit: str, bound: float, against: str | None = None) -> Row:
    """Return a row that holds from a bound up."""
    return Row(name, float(value), unit, bound, bool(value >= bound), against)


def at_most(
    name: str, value: float, unit: str, bound: float | None, against: str | None = None
) -> Row:
    """Return a row that holds up to a bound."""
    holds = None if bound is None else bool(value <= bound)
    return Row(name, float(value), unit, bound, holds, against)


def machine() -> dict[str, object]:
    """Return what the figures were measured on."""
    model = ""
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((k.partition(":")[2].strip() for k in lines if "model name" in k), "")
    packages = ("numpy", "scipy", "numba", "pin", "clarabel", "pyarrow")
    return {
        "processor": model or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "packages": {p: version(p) for p in packages},
    }


def commit() -> str:
    """Return the commit measured, with a mark if files were changed since."""

    def git(*arguments: str) -> str:
        call = ["git", "-C", str(ROOT), *arguments]
        return subprocess.run(call, capture_output=True, text=True, check=False).stdout.strip()

    changed = git("status", "--porcelain", "--", "src", "benchmarks/*.py")
    return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")


def table(rows: list[Row]) -> str:
    """Return the rows as text."""
    cells = [["", "value", "bound", "", "against"]]
    for r in rows:
        mark = {True: "holds", False: "DOES NOT HOLD", None: ""}[r.holds]
        bound = "" if r.bound is None else f"{r.bound:.4g}"
        cells.append([r.name, f"{r.value:.4g} {r.unit}", bound, mark, r.against or ""])
    widths = [max(len(c[k]) for c in cells) for k in range(5)]
    return "\n".join("  ".join(c[k].ljust(widths[k]) for k in range(5)).rstrip() for c in cells)


def store(name: str, rows: list[Row], part: str | None = None) -> Path:
    """Write `benchmarks/results/NAME.json`.

    Args:
        name: Of the benchmark.
        rows: Its rows.
        part: What was measured anew, in words, if all else of the file stays: rows take the places
            of those of their names, and the commit says so.
    """
    path = ROOT / "benchmarks" / "results" / f"{name}.json"
    content: dict[str, Any] = {
        "machine": machine(),
        "commit": commit(),
        "rows": [asdict(r) for r in rows],
    }
    if part is not None:
        before = json.loads(path.read_text(encoding="utf-8"))
        new = {r["name"]: r for r in content["rows"]}
        content["rows"] = [new.pop(r["name"], r) for r in before["rows"]] + list(new.values())
        content["commit"] = f"{before['commit']}; {part}: {content['commit']}"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path
