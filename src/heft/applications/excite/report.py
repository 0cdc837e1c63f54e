"""What a designed motion is told to a user by: text for the terminal, and a page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from heft import __version__
from heft.display import Plot, Series, Table, page, table
from heft.excitation import Certificate
from heft.information import SYMBOLS

from .experiment_design import Excited, Prediction, is_information

WORST = 8  # base parameters that the terminal lists
DRAWN_RATE = 50.0  # of the curves [Hz]
CURVES = (("position", "rad or m"), ("velocity", "rad/s or m/s"))


def text_of(excited: Excited, out: str) -> str:
    """Return the summary for the terminal."""
    made = excited.design
    lines = [
        "Limits, proven to be kept at all times:",
        table(list(LIMIT_HEAD), [_row(c) for c in excited.tightest]),
        "",
    ]
    lines += [*_sentences(excited), ""]
    lines += [_predictions_head(excited), _predictions(_worst(excited.predictions)), ""]
    if excited.untold:
        lines += [
            f"No motion of these joints tells {by_link(excited.untold)}: nothing that is measured "
            "depends on them.",
            "",
        ]
    if made.interrupted:
        lines += ["Stopped early: the best motion found until then.", ""]
    lines.append(f"{out}/report.html   play it: heft view MODEL {out}/motion.parquet")
    return "\n".join(lines)


LIMIT_HEAD = ("limit", "closest", "proven", "limit", "margin", "unit")


def _row(proof: Certificate) -> list[str]:
    kind = proof.quantity.removeprefix("least ")
    near = kind == "clearance"
    margin = f"{1e3 * proof.margin:.1f} mm" if near else f"{proof.margin:.1%}"
    numbers = (f"{proof.bound:.4g}", f"{proof.limit:.4g}", margin)
    return [kind, proof.of, *numbers, proof.unit]


def _sentences(excited: Excited) -> Iterator[str]:
    made, planned = excited.design, excited.planned
    count = len(made.random)
    yield (
        f"It carries {made.gain:.0f} nats more information than the best of {count} random motions "
        f"within the same limits, as if that ran {excited.time_factor:.1f} times as long; "
        f"{made.gain_over_median:.0f} more than the usual one."
        if is_information(excited.settings)
        else f"Its criterion is {made.gain:.2f} above that of the best of {count} random motions, "
        f"{made.gain_over_median:.2f} above the usual one (natural logarithms)."
    )
    yield (
        f"Condition number of the base regressor: {made.conditions.scaled:.3g} with weighted "
        f"columns of one length, {made.conditions.raw:.3g} in SI units. It depends on units, and "
        "alone says little."
    )
    if excited.cost():
        yield excited.cost()
    source = "those of the results given" if planned.known is not None else "assumed"
    yield (
        f"Deviations below are for {planned.rate:.0f} independent rows a second with noise of "
        f"{', '.join(f'{s:.2g}' for s in planned.noise)} N·m or N ({source})."
    )


def by_link(names: Sequence[str]) -> str:
    """Return parameters as text, gathered by link: `base (all), forearm (m, I.xx)`."""
    gathered: dict[str, list[str]] = {}
    for name in names:
        symbol = next((s for s in SYMBOLS if name.endswith(f".{s}")), name.rpartition(".")[2])
        gathered.setdefault(name.removesuffix(f".{symbol}"), []).append(symbol)
    return ", ".join(
        f"{owner} ({'all' if set(symbols) >= set(SYMBOLS) else ', '.join(symbols)})"
        for owner, symbols in gathered.items()
    )


def _worst(predictions: Sequence[Prediction]) -> list[Prediction]:
    counted = [p for p in predictions if p.counts]
    return sorted(counted, key=lambda p: -p.falls_to)[:WORST]


def _predictions_head(excited: Excited) -> str:
    counted = sum(p.counts for p in excited.predictions)
    if excited.planned.known is None:
        return f"Predicted standard deviations, {min(WORST, counted)} of {counted}:"
    falls = [p.falls_to for p in excited.predictions if p.counts and math.isfinite(p.before)]
    middle = float(np.median(falls)) if falls else math.nan
    new = sum(not math.isfinite(p.before) for p in excited.predictions if p.counts)
    more = f", {new} become known" if new else ""
    return (
        f"Predicted standard deviations fall to {middle:.0%} of what they are (median of "
        f"{counted}){more}; those that fall least:"
    )


def _predictions(predictions: Sequence[Prediction]) -> str:
    rows = [[p.expression, *_cells(p), p.unit] for p in predictions]
    return table(["base parameter", "before", "after", ""], [_shortened(r) for r in rows])


def _cells(p: Prediction) -> tuple[str, str]:
    return ("–" if not math.isfinite(p.before) else f"±{p.before:.2g}", f"±{p.after:.2g}")


def _shortened(row: list[str]) -> list[str]:
    first, *rest = row
    return [first if len(first) <= 60 else f"{first[:57]}…", *rest]


def page_of(excited: Excited) -> str:
    """Return the report's page."""
    made = excited.design
    limits = Table(
        "What is proven, for all times",
        LIMIT_HEAD,
        [
            _row(c)
            for c in sorted(excited.certificates, key=lambda c: c.margin)
            if math.isfinite(c.limit)
        ],
    )
    predictions = Table(
        "Predicted standard deviations of the base parameters",
        ("base parameter", "before", "after", "unit"),
        [[p.expression, *_cells(p), p.unit] for p in excited.predictions],
        marked=[
            k for k, p in enumerate(excited.predictions) if p.counts and excited.settings.about
        ],
        sums=True,
    )
    return page.page(
        "applications/excite/report.html.jinja",
        title=f"Excitation of {excited.planned.robot.name}",
        sentences=list(_sentences(excited)),
        tightest=Table("", LIMIT_HEAD, [_row(c) for c in excited.tightest]),
        limits=limits,
        predictions=predictions,
        plots=list(_plots(excited)),
        untold=by_link(excited.untold),
        remarks=excited.planned.remarks,
        interrupted=made.interrupted,
        settings=_settings(excited),
        version=__version__,
    )


def _plots(excited: Excited) -> Iterator[Plot]:
    time = excited.trajectory.times(DRAWN_RATE)
    planned = excited.planned
    for order, (name, unit) in enumerate(CURVES):
        values = excited.trajectory.derivative(time, order)
        for k, channel in enumerate(planned.carrier.moving):
            limits = (
                (planned.stated.lower[channel], planned.stated.upper[channel])
                if order == 0
                else (-planned.stated.velocity[channel], planned.stated.velocity[channel])
            )
            edges = [
                Series("limit", "soft", time[[0, -1]], np.full(2, edge), "dashed")
                for edge in limits
            ]
            curve = Series(name, "measured", time, values[:, k])
            joint = planned.robot.joints[channel]
            yield Plot(f"{joint}, {name}", "time [s]", (*edges, curve), "time", f"[{unit}]")


def _settings(excited: Excited) -> str:
    asked = excited.settings.design
    basis = (
        f"Fourier series of {asked.harmonics} harmonics"
        if asked.basis == "fourier"
        else f"spline of {asked.intervals} intervals"
    )
    what = (
        f"a task's torque ({excited.settings.task})" if excited.settings.task else asked.criterion
    )
    counts = ", ".join(excited.settings.about) or "all"
    return (
        f"Criterion: {what}; parameters that count: {counts}; {basis}, {asked.duration:g} s, at "
        f"rest: {asked.rest}; best of {asked.starts} starts, seed {asked.seed}."
    )
