"""Page of a diagnosis: the verdict, then each finding with its evidence, signal and cure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.display import Curve, Plot, Series, Table, render, rounded
from heft.information import Finding
from heft.recordings import Recording

from .doctor import MARKS, Diagnosis, of_the_logs, percent, stated_together, verdict_of
from .log_statistics import runs

DRAWN_POINTS = 2000  # of a signal
FEWEST, MOST = 40, 2000  # rows to either side
COLOURS = {"spoils": "poor", "warns": "usable", "tells": ""}
TAKEN_BY = {
    "map": "Into the column map, which --map takes:",
    "options": "Into the options, which --with takes:",
    "flag": "On the command line of heft identify:",
}
ROLES = ("measured", "predicted", "residual", "simple", "before", "data")


def _level(x: Array) -> NDArray[np.bool_]:
    return (x == np.nanmax(x)) | (x == np.nanmin(x)) if np.isfinite(x).any() else np.isnan(x)


# of which rows a fault is, by its name: the longest run of them is shown
RUNS: dict[str, Callable[[Array], NDArray[np.bool_]]] = {
    "frozen": lambda x: np.diff(x, prepend=np.nan) == 0.0,
    "repeated times": lambda x: x == 0.0,
    "zeros between values": lambda x: x == 0.0,
    "not finite": lambda x: ~np.isfinite(x),
    "saturated": _level,
}
# whose largest step is shown
STEPS = ("jumps", "spikes", "wrapped angle", "gaps", "missing rows", "jitter", "clock set back")


def html(diagnosis: Diagnosis) -> str:
    """Return the page, which loads nothing from elsewhere."""
    worst = diagnosis.findings[0].severity if diagnosis.findings else None
    head = ("log", "rows", "duration [s]", "rate [Hz]", "moving [s]")
    facts = [
        [
            Path(name).name,
            f"{f.rows}",
            rounded(f.duration),
            rounded(1.0 / f.step if f.step else None),
            rounded(f.active),
        ]
        for name, f in diagnosis.logs
    ]
    picture = _positions(diagnosis.recordings[0]) if diagnosis.recordings else None
    return render(
        "applications/doctor/report.html.jinja",
        title="Is this log any good?",
        verdict=verdict_of(diagnosis),
        colour="good" if worst is None else COLOURS[worst],
        facts=of_the_logs(diagnosis),
        picture=picture,
        drawn_as=[(s.role, s.name) for s in picture.series] if picture else [],
        findings=[_shown(diagnosis, finding) for finding in stated_together(diagnosis.findings)],
        marks=MARKS,
        colours=COLOURS,
        unexplained=Table(
            "Not explained after all cures",
            ("joint", "share of its torque"),
            [[joint, f"{share:.1%}"] for joint, share in diagnosis.unexplained],
        ),
        logs=Table("", head, facts),
        notes=diagnosis.notes,
    )


def _shown(diagnosis: Diagnosis, finding: Finding) -> dict[str, Any]:
    """Return a finding by the names that the template uses."""
    return {
        **asdict(finding),
        "message": finding.message[:1].upper() + finding.message[1:],
        "sure": "" if finding.sure is None else percent(finding.sure),
        "evidence": [_number(name, value) for name, value in finding.evidence.items()],
        "cure": finding.cure.rstrip("."),
        "lines": [(TAKEN_BY[place], lines) for place, lines in finding.lines.items()],
        "shown": next(_signals(diagnosis, finding), None),
    }


def _number(name: str, value: float) -> tuple[str, str]:
    """Return the name and the value of a number of evidence, its unit behind it."""
    unit = next((u for u in ("s", "hz", "kg") if name.endswith(f"_{u}")), "")
    number = f"{rounded(value)} {unit.replace('hz', 'Hz')}".rstrip()
    return name.removesuffix(f"_{unit}").replace("_", " "), number


def _signals(diagnosis: Diagnosis, finding: Finding) -> Iterator[Plot]:
    """Yield the piece of each log that a finding is about, of its first signal."""
    kinds = ("q",) if finding.lines.get("map", "").startswith("[q]") else ("tau", "current", "q")
    for recording in diagnosis.recordings:
        about = finding.about.removeprefix(f"{Path(recording.name).name}: ").split(", ")[0]
        if len(diagnosis.recordings) > 1 and about == finding.about and about == "t":
            continue
        names = [about, *(f"{kind}.{about}" for kind in kinds)]
        signal = next((n for n in names if n in recording.sources), "t" if about == "t" else None)
        if signal is not None:
            yield _piece(recording, signal, finding.name)


def _values(recording: Recording, signal: str) -> Iterator[tuple[Array, Array]]:
    """Yield time and values of a signal by blocks; of the clock, row numbers and steps."""
    first = 0
    for block in recording.blocks([] if signal == "t" else [signal]):
        if signal == "t":
            yield first + np.arange(len(block.time) - 1.0), np.diff(block.time)
        else:
            yield block.time, block.values[:, 0]
        first += len(block.time)


def _piece(recording: Recording, signal: str, fault: str) -> Plot:
    """Return a signal around the worst place of a fault; whole where it has none."""
    parts, best, place, first, step = [], 0.0, slice(0), 0, 1.0
    for x, y in _values(recording, signal):
        parts.append(_thin(x, y))
        step = max(float(np.median(np.diff(x))), 1e-9) if len(x) > 1 else step
        size, run = _worst(fault, y)
        if size > best:
            best, place = size, slice(first + run.start, first + run.stop)
        first += len(y)
    own, where = [Series(signal, "measured", *_joined(parts))], "the whole log"
    if best:
        # a second to either side is shown
        beside = int(np.clip(1.0 / step, FEWEST, MOST)) if signal != "t" else FEWEST
        begin, end = max(place.start - beside, 0), min(place.stop, place.start + MOST) + beside
        time, values = _joined([*_values(recording.window(begin, end + 1), signal)])
        time = time + begin if signal == "t" else time
        marked = slice(max(place.start - begin - 1, 0), place.stop - begin + 1)
        own = [
            Series(signal, "measured", time, values),
            Series("here", "residual", time[marked], values[marked], "broad"),
        ]
        at = rounded(float(time[place.start - begin]))
        where = f"around row {at}" if signal == "t" else f"around {at} s"
    label, title = ("row", "time between rows") if signal == "t" else ("time [s]", signal)
    return Plot(f"{title}, {where}", label, tuple(own), f"{signal} {fault} {recording.name}")


def _worst(fault: str, x: Array) -> tuple[float, slice]:
    """Return how bad a fault is in some rows, and where it is worst."""
    if fault in RUNS:
        spans = runs(RUNS[fault](x))
        begin, end = max(spans, key=lambda span: span[1] - span[0], default=(0, 0))
        return float(end - begin), slice(int(begin), int(end))
    if fault not in STEPS or len(x) < 2:
        return 0.0, slice(0)
    steps = np.abs(np.diff(x))
    at = int(np.argmax(np.nan_to_num(steps)))
    return float(np.nan_to_num(steps[at])), slice(at, at + 2)


def _positions(recording: Recording) -> Plot | None:
    """Return all positions of a log over time, or what else it holds."""
    names = [n for n in recording.sources if n.startswith("q.")] or [*recording.sources][:6]
    blocks = [b for b in recording.blocks(names) if len(b.time)] if names else []
    if not blocks:
        return None
    points = max(DRAWN_POINTS // len(blocks), 8)
    series = [
        Series(
            name,
            ROLES[k % len(ROLES)],
            *_joined([_thin(b.time, b.values[:, k], points) for b in blocks]),
        )
        for k, name in enumerate(names)
    ]
    return Plot(Path(recording.name).name, "time [s]", tuple(series), "positions")


def _thin(time: Array, values: Array, points: int = DRAWN_POINTS) -> tuple[Array, Array]:
    """Return a signal with about so many points, its peaks among them."""
    kept = Curve("", time, values, np.zeros(len(time))).thinned(points)
    return kept.time, kept.measured


def _joined(parts: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    time, values = zip(*parts, strict=True)
    return np.concatenate(time), np.concatenate(values)
