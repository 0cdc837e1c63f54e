"""The benchmark's page, and its tables for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from heft.display import Plot, Series, Table, render, table
from heft.display import page as display_page

from . import candidates
from .experiments import NOISE
from .summary import Summary
from .trials import Outcome

HEAD = (
    "estimator",
    "noise",
    "bias / bound",
    "± ",
    "rms error / bound",
    "torque error [%]",
    "coverage",
    "exists",
    "ended",
    "time [s]",
)
ROLES = ("measured", "predicted", "residual", "before", "after")


def _number(value: float, scale: float = 1.0) -> str:
    return f"{scale * value:.3g}" if np.isfinite(value) else "–"


def _pair(values: tuple[float, float], scale: float = 1.0) -> str:
    return f"{_number(values[0], scale)} / {_number(values[1], scale)}"


def _cells(s: Summary) -> tuple[str, ...]:
    if not s.ended:
        return (s.name, s.case.noise, s.why or "–", *["–"] * (len(HEAD) - 4), _number(s.seconds))
    return (
        s.name,
        s.case.noise,
        _pair(s.bias),
        _number(s.bias_known_to),
        _pair(s.rmse),
        _pair(s.torque, 100.0),
        _number(s.coverage),
        _number(s.consistent),
        f"{s.ended}/{s.trials}",
        _number(s.seconds),
    )


def _by_robot(found: Sequence[Summary]) -> dict[str, list[Summary]]:
    groups: dict[str, list[Summary]] = {}
    for s in found:
        groups.setdefault(f"{s.case.robot}, friction {s.case.friction}", []).append(s)
    return groups


def _real_table(real: Outcome) -> tuple[Sequence[str], list[tuple[str, ...]]]:
    rows: list[tuple[str, ...]] = []
    for name, result in real.results.items():
        seconds = _number(real.seconds.get(name, float("nan")))
        if "failed" in result:
            rows.append((name, result["failed"], "–", seconds))
        else:
            exists = "yes" if result["physical"] else "no"
            if result.get("margin") is not None:
                exists += f", {result['margin']:.2g}"
            rows.append((name, _number(result["error"], 100.0), exists, seconds))
    return ("estimator", "torque error [%]", "exists", "time [s]"), rows


def text(found: Sequence[Summary], real: Outcome | None) -> str:
    """Return the tables as text; pairs are the median and the 90th percentile."""
    parts = [
        f"{name}\n{table(HEAD, [_cells(s) for s in group])}"
        for name, group in _by_robot(found).items()
    ]
    if real is not None:
        parts.append("real logs\n" + table(*_real_table(real)))
    return "\n\n".join(parts)


def page(names: Sequence[str], guesses: int, found: Sequence[Summary], real: Outcome | None) -> str:
    """Return the page: a table and figures of each robot."""
    return render(
        "heft_methods:bench/report.html.jinja",
        title="Estimators on the same data",
        robots=[
            (
                name,
                Table("Median / 90th percentile", HEAD, [_cells(s) for s in group]),
                _legend(group),
                list(_plots(name, group)),
            )
            for name, group in _by_robot(found).items()
        ],
        real=None if real is None else Table("Real logs", *_real_table(real)),
        estimators=[(n, candidates.summary(n)) for n in names],
        noise=[(n, f"{level.encoder:g}", f"{level.torque:.1%}") for n, level in NOISE.items()],
        guesses=guesses,
    )


def _names(group: Sequence[Summary]) -> list[str]:
    return list(dict.fromkeys(s.name for s in group))


def _legend(group: Sequence[Summary]) -> list[tuple[str, str]]:
    return [
        (ROLES[k % len(ROLES)], name if k < len(ROLES) else f"{name}, dashed")
        for k, name in enumerate(_names(group))
    ]


def _plots(name: str, group: Sequence[Summary]) -> Iterator[Plot]:
    measures: tuple[tuple[str, Callable[[Summary], float]], ...] = (
        ("Bias over the bound, median", lambda s: s.bias[0]),
        ("Bias over the bound, 90th percentile", lambda s: s.bias[1]),
        ("Error over the bound, median", lambda s: s.rmse[0]),
        ("Torque error of another motion, median [%]", lambda s: 100.0 * s.torque[0]),
    )
    names = _names(group)
    if len({s.case.noise for s in group}) < 2:
        return  # the table says it: there is no line to draw
    for title, measure in measures:
        series = []
        for k, candidate in enumerate(names):
            own = sorted(
                (NOISE[s.case.noise].encoder, measure(s))
                for s in group
                if s.name == candidate and s.ended
            )
            if own:
                x, y = np.array(own).T
                kind: display_page.Kind = "line" if k < len(ROLES) else "dashed"
                series.append(Series(candidate, ROLES[k % len(ROLES)], x, y, kind))
        if series:
            label = "noise of the encoders [rad]"
            yield Plot(title, label, tuple(series), name, log_x=True, log_y=True)
