"""Put the stored figures into the README, between its markers; the site's pages have them, too.

python -m benchmarks.readme
"""

from __future__ import annotations

import json
import math
import os
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
NOT_YET = ["*Not measured yet: no figures are stored.*"]
INSIDE = ", truths within intervals"
COVERED = ("base", "friction", "torque", "whole torque", "curve", "mass", "com")


def rows(name: str) -> dict[str, dict]:
    """Return the stored rows of a benchmark by name."""
    path = RESULTS / f"{name}.json"
    return {r["name"]: r for r in json.loads(path.read_text(encoding="utf-8"))["rows"]}


def real_data(score: str = "total") -> list[str]:
    """Return the table of measured robots.

    Args:
        score: `total`, over all joints, or `mean of joints`.
    """
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
    mark = f": {columns[0]}, {score}"
    cases = [n.removesuffix(mark) for n in stored if "filtered" in n and n.endswith(mark)]
    for case in cases:
        cells = []
        for column in columns:
            row = stored.get(f"{case}: {column}, {score}")
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


def coverage() -> list[str]:
    """Return the shares of truths within 95 % intervals, by condition."""
    if not (RESULTS / "coverage.json").exists():
        return NOT_YET
    stored = rows("coverage")
    conditions = dict.fromkeys(n.partition(":")[0] for n in stored if n.endswith(INSIDE))
    lines = [
        f"| condition | {' | '.join(COVERED)} | worst |",
        "|---" * (len(COVERED) + 2) + "|",
    ]
    for condition in conditions:
        shares = [stored.get(f"{condition}: {kind}{INSIDE}") for kind in COVERED]
        worst = [
            row["value"]
            for kind in ("base", "friction", "torque")
            if (row := stored.get(f"{condition}: {kind}, the same of the worst number"))
        ]
        cells = [f"{row['value']:.3f}" if row else "–" for row in shares]
        cells.append(f"{min(worst):.3f}" if worst else "–")
        lines.append(f"| {condition} | {' | '.join(cells)} |")
    return lines


def intervals() -> list[str]:
    """Return the shares of truths that intervals under consistency hold, by method and case."""
    if not (RESULTS / "intervals.json").exists():
        return NOT_YET
    stored = rows("intervals")
    kinds = ("base", "friction", "torque", "mass", "com")
    lines = [
        f"| intervals | case | {' | '.join(kinds)} | all | worst | experiments | time [s] |",
        "|---" * (len(kinds) + 6) + "|",
    ]
    for name in [n.partition(":")[0] for n in stored if n.endswith(": truths held")]:
        case, _, method = name.rpartition(", ")
        found = {n.partition(": ")[2]: row for n, row in stored.items() if n.startswith(f"{name}:")}
        cells = [found[f"{kind}, truths held"] for kind in kinds]
        cells += [found["truths held"], found["truths held, worst of 120"]]
        shares = " | ".join(f"{row['value']:.3f}" for row in cells)
        count, time = (found[n]["value"] for n in ("experiments", "processor time, median"))
        lines.append(f"| {method} | {case} | {shares} | {count:.0f} | {time:.2g} |")
    return lines


def panda_published() -> list[str]:
    """Return what of other people's parameters of the Panda lies within heft's intervals."""
    lines = ["| | measured | asked for |", "|---|---|---|"]
    for name, row in rows("real_data").items():
        if name.startswith("Panda, ") and name.endswith("share"):
            name = name.removeprefix("Panda, ").removesuffix(", share")
            bound = "" if row["bound"] is None else f"≥ {row['bound']:g}"
            missed = " (missed)" if row["holds"] is False else ""
            lines.append(f"| {name} | {row['value']:.2f} | {bound}{missed} |")
    return lines


def simulators() -> list[str]:
    """Return what MuJoCo makes of the files that are exported, an arm a line."""
    if not (RESULTS / "simulators.json").exists():
        return NOT_YET
    stored = rows("simulators")
    kinds = {
        "difference of bodies, rotors, viscous friction, offsets": "{:.0e}",
        "difference of dry friction": "{:.2%}",
        "torque missed by MuJoCo": "{:.1%}",
        "torque missed by heft's simple friction": "{:.1%}",
        "torque missed by heft's full friction": "{:.1%}",
        "torque missed by the file's masses": "{:.1%}",
        "position error over heft's own": "{:.2f}",
        "position error over the file's masses'": "{:.2f}",
    }
    lines = [f"| arm | {' | '.join(kinds)} |", "|---" * (len(kinds) + 1) + "|"]
    for arm in dict.fromkeys(name.partition(":")[0] for name in stored):
        cells = [shown.format(stored[f"{arm}: {kind}"]["value"]) for kind, shown in kinds.items()]
        lines.append(f"| {arm} | {' | '.join(cells)} |")
    return lines


def listed(benchmark: str) -> list[str]:
    """Return what was measured by a benchmark, row by row."""
    if not (RESULTS / f"{benchmark}.json").exists():
        return NOT_YET
    lines = ["| | measured | asked for |", "|---|---|---|"]
    for name, row in rows(benchmark).items():
        bound = "" if row["bound"] is None else row["against"] or f"{row['bound']:g}"
        missed = " (missed)" if row["holds"] is False else ""
        value = f"{row['value']:.3g} {row['unit'].removeprefix('1')}".strip()
        lines.append(f"| {name} | {value} | {bound}{missed} |")
    return lines


def missed() -> list[str]:
    """Return every stored row whose bound does not hold."""
    lines = ["| benchmark | what | measured | bound |", "|---|---|---|---|"]
    for path in sorted(RESULTS.glob("*.json")):
        for name, row in rows(path.stem).items():
            if row["holds"] is False:
                value = f"{row['value']:.3g} {row['unit']}".strip()
                what = name.replace("|", "&#124;")
                asked = row["against"] if row["bound"] is None else f"{row['bound']:.3g}"
                lines.append(f"| {path.stem} | {what} | {value} | {asked} |")
    return lines if len(lines) > 2 else ["None: all stored bounds hold."]


def gallery() -> list[str]:
    """Return a section for each measured robot: picture, errors before and after, command.

    Their reports are linked where the site is built with them (`make docs-with-reports`).
    """
    from benchmarks.arms import ROBOTS

    stored, lines = rows("real_data"), list[str]()
    for robot, cases_of in ROBOTS.items():
        title, _, measured = (cases_of.__doc__ or "").strip().partition(", ")
        mark = f": {PREDICTORS[1]}, total"
        cases = [n.removesuffix(mark) for n in stored if "filtered" in n and n.endswith(mark)]
        cases = [case for case in cases if case.partition(",")[0] in title]
        splits = [case.partition(", ")[2] for case in cases]
        lines += [
            f"## {title}",
            "",
            f"{measured[:1].upper()}{measured[1:]}",
            "",
            f"![{title}: masses of the model file (dashed) and found](pictures/robot-{robot}.png)",
            "",
            f"| torque missed, held out | {' | '.join(splits)} |",
            f"|---|{'---|' * len(cases)}",
        ]
        for predictor in PREDICTORS:
            found = [stored.get(f"{case}: {predictor}, total") for case in cases]
            cells = [f"{100.0 * r['value']:.3g} %" if r else "–" for r in found]
            lines.append(f"| {predictor} | {' | '.join(cells)} |")
        command = f"HEFT_DATA=data python -m benchmarks.real_data --robots {robot}"
        lines += ["", "```text", command, "```", ""]
        if "HEFT_REPORTS" in os.environ:
            lines += [f"[Report of the first split](reports/{robot}.html), one file.", ""]
    return lines


# the file before, heft after, and its peers
PREDICTORS = (
    "model file as it came",
    "heft, full friction",
    "heft, simple friction",
    "plain least squares (inconsistent)",
    "FIGAROH",
    "mujoco.sysid",
)
FIGURES = {
    "gallery": gallery,
    "real_data": real_data,
    "real_data_means": lambda: real_data("mean of joints"),
    "core": core,
    "coverage": coverage,
    "intervals": intervals,
    "panda_published": panda_published,
    "floating": lambda: listed("floating"),
    "chains": lambda: listed("chains"),
    "fleet": lambda: listed("fleet"),
    "simulators": simulators,
    "missed": missed,
}


def filled(text: str) -> str:
    """Return a page with the stored figures between its markers."""
    for name, make in FIGURES.items():
        marked = re.compile(rf"(<!-- figures: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not marked.search(text):
            continue
        body = "\n".join(make()) + "\n"
        text = marked.sub(lambda m, body=body: m.group(1) + body + m.group(2), text)
    return text


if __name__ == "__main__":
    path = ROOT / "README.md"
    path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
