"""One stored file a benchmark: rows with value, bound and whether it holds."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path


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


def table(rows: list[Row]) -> str:
    """Return the rows as text."""
    cells = [["", "value", "bound", "", "against"]]
    for r in rows:
        mark = {True: "holds", False: "DOES NOT HOLD", None: ""}[r.holds]
        bound = "" if r.bound is None else f"{r.bound:.4g}"
        cells.append([r.name, f"{r.value:.4g} {r.unit}", bound, mark, r.against or ""])
    widths = [max(len(c[k]) for c in cells) for k in range(5)]
    return "\n".join("  ".join(c[k].ljust(widths[k]) for k in range(5)).rstrip() for c in cells)
