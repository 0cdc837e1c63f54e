"""`heft freeflyer identify`: body and load from a flight's log, as text, JSON and a page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from heft import __version__
from heft.arrays import Array
from heft.display import Plot, Series, Table, page, rounded, table, verdict
from heft.estimators import Stated
from heft.files import put, require_own, workshop
from heft.models import FreeFlyer
from heft.recordings import ColumnMap, Recording

from .flights import open_flyer
from .identify import FreeFlyerResult, IdentifyFreeFlyer
from .load import BodyEstimate

RESULTS = ("free-flyer.json", "report.html")
MOST_POINTS = 1000  # of a curve


@dataclass(frozen=True, eq=False)
class IdentifiedFlyer:
    """What a flight says, with what it was found by.

    Attributes:
        flyer: The body.
        log: Its log.
        result: Body and load.
    """

    flyer: FreeFlyer
    log: Recording
    result: FreeFlyerResult

    def text(self) -> str:
        """Return what the terminal shows."""
        found = self.result
        lines = [
            "What it grasped:",
            table(["", "value", "±", ""], _numbers(found.load)),
            "",
            "Body and load:",
            table(["", "value", "±", ""], _numbers(found.body)),
            "",
        ]
        if found.published is not None:
            lines.append(
                f"By the published method, {found.published.harmonics} harmonics by the energy "
                f"balance: {found.published.values[0]:.4g} kg."
            )
        lines += [
            f"{c.name}: {c.message} ({c.value:.3g})" for c in found.checks if c.status != "pass"
        ]
        return "\n".join(lines)


def _numbers(body: BodyEstimate) -> list[list[str]]:
    """Return mass, centre of mass and inertia about it as rows of a table."""
    return [[_name(n), *_rounded(s), _unit(n)] for n, s in body.numbers.items()]


def _name(name: str) -> str:
    return name.replace("com.", "centre of mass ").replace("inertia.", "inertia ")


def _unit(name: str) -> str:
    return "kg" if name == "mass" else "m" if name.startswith("com") else "kg·m²"


def _rounded(stated: Stated) -> tuple[str, str]:
    return rounded(stated.value, stated.std), f"{stated.std:.2g}"


def identify_files(
    body: str,
    log: Path,
    out: Path | None = None,
    period: float | None = None,
    columns: Path | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> IdentifiedFlyer:
    """Find what a free flyer grasped from poses and commands, and write it.

    Args:
        body: TOML of the body, or the name of one that comes with heft.
        log: Its log.
        out: Folder for the results, of `RESULTS`; nothing is written if None.
        period: Of the motion [s]; found in the log if None.
        columns: TOML that says what the log's columns mean.
        progress: Called with lines of progress.

    Raises:
        InvalidSetting: If the body's TOML is malformed.
        InvalidRecording: If the log cannot be read or is too short.
        MissingSignal: If it lacks a signal.
        TooLittleData: If the motion does not determine the parameters.
    """
    if out is not None:
        require_own(out, RESULTS)
    flyer = open_flyer(body)
    recording = Recording.open(log, ColumnMap.from_toml(columns) if columns is not None else None)
    progress(f"reading {log}")
    found = IdentifiedFlyer(flyer, recording, IdentifyFreeFlyer(period).fit(recording, flyer))
    if out is not None:
        with workshop(out) as folder:
            new = folder / out.name
            new.mkdir()
            content = json.dumps(to_json(found), indent=1, ensure_ascii=False)
            (new / RESULTS[0]).write_text(content + "\n", encoding="utf-8")
            (new / RESULTS[1]).write_text(page_of(found), encoding="utf-8")
            put(new, out)
    return found


def to_json(found: IdentifiedFlyer) -> dict[str, Any]:
    """Return the content of `free-flyer.json`."""
    result = found.result

    def of(body: BodyEstimate) -> dict[str, Any]:
        return {
            "numbers": {n: {"value": s.value, "std": s.std} for n, s in body.numbers.items()},
            "parameters": dict(
                zip(body.parameters.labels.names, body.parameters.values.tolist(), strict=True)
            ),
            "covariance": _listed(body.parameters.covariance),
            "possible": body.possible,
        }

    published = result.published
    return {
        "heft": __version__,
        "body": of(result.body),
        "load": of(result.load),
        "inflation": result.inflation,
        "published": None
        if published is None
        else {
            "harmonics": published.harmonics,
            "values": _listed(published.values),
            "tried": _listed(published.tried),
            "gap_W": _listed(published.gap),
        },
        "checks": [
            {"name": c.name, "status": c.status, "value": c.value, "limit": c.limit}
            for c in result.checks
        ],
    }


def _listed(values: Array | None) -> Any:
    return None if values is None else np.asarray(values).tolist()


def page_of(found: IdentifiedFlyer) -> str:
    """Return the report's page."""
    result = found.result
    head = ("", "value", "±", "unit")
    checks = list(result.checks)
    return page.page(
        "applications/free_flyer/report.html.jinja",
        title=f"What {found.flyer.name} grasped",
        load=Table("What it grasped, in the body's frame", head, _numbers(result.load)),
        body=Table("Body and load", head, _numbers(result.body)),
        methods=_methods(result),
        plots=list(_plots(found)),
        checks=[c for c in checks if c.status != "pass"],
        passed=[c for c in checks if c.status == "pass"],
        words=verdict.WORDS,
        colours=verdict.COLOURS,
        version=__version__,
    )


def _methods(result: FreeFlyerResult) -> Table:
    """Return mass, first moments and moments of inertia of body and load by each method."""
    by: Mapping[str, Array | None] = {
        "smoother": result.smoothed.values,
        "harmonics by their noise": None if result.harmonic is None else result.harmonic.values,
        "published": None if result.published is None else result.published.values,
    }
    names = [n.partition(".")[2] for n in result.body.parameters.labels.names]
    rows = [
        [who, *(f"{v:.4g}" for v in values)] for who, values in by.items() if values is not None
    ]
    return Table("Ten parameters of body and load about the frame, by method", ("", *names), rows)


def _plots(found: IdentifiedFlyer) -> Iterator[Plot]:
    published = found.result.published
    if published is not None:
        curve = Series("mean |P − Ṫ|", "measured", published.tried, published.gap)
        yield Plot("Energy balance", "harmonics", (curve,), "harmonics", "[W]")
    path = np.asarray(found.result.smoothed.path)
    every = max(len(path) // MOST_POINTS, 1)
    time = np.arange(len(path))[::every] / found.flyer.pose.rate
    for k, axis in enumerate("xyz"):
        curve = Series(axis, "measured", time, path[::every, k])
        yield Plot(f"Position {axis}, smoothed", "time [s]", (curve,), "time", "[m]")
