"""Report of a plant of any kind, as text and as a self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from heft.display import Plot, Table, Trace, over_time, render, rounded, table, verdict
from heft.fit import NORMAL, PlantIdentification

from .report import spectra


def text(result: PlantIdentification[Any]) -> str:
    """Return parameters, verdict and failed checks as text for a terminal."""
    head = ("", "value", "± 95 %", "unit", "seen")
    lines = [
        table(head, _rows(result)),
        "",
        f"verdict: {result.verdict}, predicted error {result.predicted_error.total:.1%}",
    ]
    lines += verdict.not_passed(result.checks)
    if result.problem.delay:
        lines.append(f"measurements come {1e3 * result.problem.delay:.3g} ms behind motion")
    lines += [f"note: {note}" for note in result.notes]
    return "\n".join(lines)


def _rows(result: PlantIdentification[Any]) -> list[list[str]]:
    return [
        [n.name, rounded(n.value, n.std), rounded(NORMAL * n.std), n.unit, f"{n.seen:.0%}"]
        for n in result.numbers
    ]


def html(result: PlantIdentification[Any]) -> str:
    """Return the report as a self-contained HTML page, which loads nothing from elsewhere."""
    plant = type(result.problem.plant).__name__
    base, settings = result.estimate.parameters, result.settings
    expressions = result.problem.base.expressions()
    described = zip(expressions, base.values, base.std, base.labels.units, strict=True)
    units = {c.name: c.unit for c in result.problem.plant.channels}
    return render(
        "applications/identification/plant_report.html.jinja",
        title=f"{plant}: what was identified",
        verdict=result.verdict,
        **verdict.for_page(result.checks),
        notes=(*result.problem.plant.notes, *result.notes),
        numbers=Table("Parameters", ("", "value", "± 95 %", "unit", "seen"), _rows(result)),
        scores=Table("Not explained", ("log", "filter", "total", "mean"), _scores(result)),
        base=Table(
            "Base parameters",
            ("combination", "value", "±", "unit"),
            [[e, rounded(float(v), float(s)), rounded(float(s)), u] for e, v, s, u in described],
        ),
        plots=[p for t in result.traces for p in _plots(t, units, len(result.traces))],
        spectra=[
            p
            for t in result.traces
            for p in spectra(t, units, f"frequency {t.path}", f"{t.path}: ")
        ],
        delay=result.problem.delay,
        cutoff=result.problem.corner,
        strength=settings.consistent.strength,
    )


def _scores(result: PlantIdentification[Any]) -> Iterator[list[str]]:
    for score in (*result.fit, *result.validation):
        hz = "raw" if score.filter_hz is None else f"{score.filter_hz:.3g} Hz"
        yield [score.path, hz, f"{score.total:.2%}", f"{score.mean:.2%}"]


def _plots(trace: Trace, units: Mapping[str, str], logs: int) -> Iterator[Plot]:
    for curve in trace.curves:
        shown = curve.thinned(20_000 // max(logs * len(trace.curves), 1))  # of all curves over time
        title = f"{trace.path}: {curve.name} [{units[curve.name]}]"
        yield over_time(shown, title, f"time {trace.path}")
