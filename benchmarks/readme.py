"""Put the stored figures into the README, between its markers.

python -m benchmarks.readme
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def rows(name: str) -> dict[str, dict]:
    """Return the stored rows of a benchmark by name."""
    path = ROOT / "benchmarks" / "results" / f"{name}.json"
    return {r["name"]: r for r in json.loads(path.read_text(encoding="utf-8"))["rows"]}


def real_data() -> list[str]:
    """Return the table of measured robots."""
    stored = rows("real_data")
    columns = (
        "heft, full friction",
        "heft, simple friction",
        "plain least squares (inconsistent)",
        "FIGAROH",
        "mujoco.sysid",
    )
    lines = [
        "| robot and split | heft | asked for at most | heft, simple friction | "
        "plain least squares | FIGAROH | mujoco.sysid |",
        "|---|---|---|---|---|---|---|",
    ]
    mark = f": {columns[0]}, total"
    cases = [n.removesuffix(mark) for n in stored if "filtered" in n and n.endswith(mark)]
    for case in cases:
        cells = []
        for column in columns:
            row = stored.get(f"{case}: {column}, total")
            value = row["value"] if row else None
            none = value is None or math.isnan(value)
            cells.append("–" if none else f"{value:.4f}".lstrip("0"))
        own = stored[f"{case}{mark}"]
        bound = "" if own["bound"] is None else f"{own['bound']:.4g}".lstrip("0")
        missed = "" if own["holds"] in (True, None) else " (missed)"
        lines.append(f"| {case} | {cells[0]} | {bound}{missed} | {' | '.join(cells[1:])} |")
    return lines


def core() -> list[str]:
    """Return the table of speed and memory."""
    lines = ["| | measured | asked for | against |", "|---|---|---|---|"]
    for name, row in rows("core").items():
        if row["bound"] is None:
            continue
        faster = row["unit"] == "times as fast"
        missed = "" if row["holds"] else " (missed)"
        sign = "≥" if faster else "≤"
        lines.append(
            f"| {name} | {row['value']:.3g} {row['unit']} | {sign} {row['bound']:g}{missed} | "
            f"{row['against'] or ''} |"
        )
    return lines


def filled(text: str) -> str:
    """Return a README with the stored figures between its markers."""
    for name, make in (("real_data", real_data), ("core", core)):
        marked = re.compile(rf"(<!-- figures: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        body = "\n".join(make()) + "\n"
        text = marked.sub(lambda m, body=body: m.group(1) + body + m.group(2), text)
    return text


if __name__ == "__main__":
    path = ROOT / "README.md"
    path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
