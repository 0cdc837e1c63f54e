"""`heft freeflyer identify`: body and load from a flight's log, as text, JSON and a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from heft import __version__
from heft.arrays import Array
from heft.display import (
    ASIDE,
    Plot,
    Series,
    Sticks,
    Table,
    render,
    rounded,
    seen_from,
    table,
    verdict,
)
from heft.files import json_text, new_folder, require_own
from heft.flight import BodyEstimate, FlightLog, FreeFlyerResult, IdentifyFreeFlyer, given
from heft.information import (
    Directions,
    Triangle,
    Verdict,
    inertia,
    matrix_of_quaternion,
    triangle_of,
)
from heft.information import verdict as overall
from heft.models import FreeFlyer
from heft.recordings import ColumnMap, Recording

from .flights import open_flyer

RESULTS = ("free-flyer.json", "report.html")
MOST_SPANS = 5  # of what is left out, that are named


@dataclass(frozen=True, eq=False)
class IdentifiedFlyer:
    """Result of an identification, with the body and the log that it came from."""

    flyer: FreeFlyer  # the body
    log: Recording  # its log
    flight: FlightLog  # the log as arrays
    result: FreeFlyerResult  # body and load

    def text(self) -> str:
        """Return the summary for the terminal."""
        result = self.result
        messages = verdict.not_passed(result.checks) or ["all checks passed"]
        lines = [f"{self.flyer.name}: {self.verdict}", *messages, ""]
        lines += ["No number of body and load is stated.", ""] * self.poor
        for title, body in () if self.poor else self._bodies:
            lines += [f"{title}:", table(["", "value", "±", ""], _numbers(body, self.given)), ""]
        lines += [self.late, *self.remarks]
        if result.published is not None and not self.poor:
            lines.append(
                f"By the published method, {result.published.harmonics} harmonics by the energy "
                f"balance: {result.published.values[0]:.4g} kg."
            )
        return "\n".join(lines)

    @property
    def verdict(self) -> Verdict:
        """Whether the numbers can be believed."""
        return overall(self.result.checks)

    @property
    def poor(self) -> bool:
        """Whether no number is stated."""
        return self.verdict == "poor"

    @property
    def _bodies(self) -> tuple[tuple[str, BodyEstimate], ...]:
        return ("What it grasped", self.result.load), ("Body and load", self.result.body)

    @property
    def given(self) -> str:
        """On what its masses rest, which no motion tells."""
        scale = self.result.scale
        over = "" if scale.value == 1.0 else f" {scale.value:.4f} times as commanded"
        return f"given thrust{over} within {100.0 * scale.std / scale.value:.2g} %"

    @property
    def remarks(self) -> list[str]:
        """What is other in the log than the body's TOML has it."""
        time, held, noise = self.flight.time, self.result.held, self.result.noise
        edges = np.flatnonzero(np.diff(held, prepend=False, append=False)).reshape(-1, 2)
        spans = [f"{time[a] - time[0]:.3g} to {time[b - 1] - time[0]:.3g} s" for a, b in edges]
        pose = self.flyer.pose
        lines = []
        if spans:
            lines.append(
                "Left out, since more than the actuators held or pushed it (ground, hand, wind): "
                f"{', '.join(spans[:MOST_SPANS])}{' …' if len(spans) > MOST_SPANS else ''}."
            )
        if (noise.position, noise.angle) != (pose.position, pose.angle):
            p, q = noise.colour
            lines.append(
                f"Noise of poses, by the log: {noise.position:.2g} m, of which {p:.2f} stays "
                f"to the next sample, and {noise.angle:.2g} rad, {q:.2f}; beside the actuators "
                f"{noise.force:.2g} N and {noise.moment:.2g} N·m push."
            )
        return lines

    @property
    def late(self) -> str:
        """How late commands act."""
        delay, stated = self.result.delay, self.flyer.actuators.lag
        text = f"Commands act {rounded(delay.value, delay.std)} ± {delay.std:.2g} s later than "
        if np.ptp(stated) > 0.0:
            return text + "the body's TOML says of each actuator."
        return text + f"the {stated[0]:g} s that the body's TOML says."


def _numbers(body: BodyEstimate, given: str) -> list[list[str]]:
    return [
        [
            _name(n),
            rounded(s.value, s.std),
            f"{s.std:.2g}",
            f"kg, {given}" if n == "mass" else _unit(n),
        ]
        for n, s in body.numbers.items()
    ]


def _name(name: str) -> str:
    return name.replace("com.", "centre of mass ").replace("inertia.", "inertia ")


def _unit(name: str) -> str:
    return "kg" if name == "mass" else "m" if name.startswith("com") else "kg·m²"


def identify_files(
    body: str,
    log: Path,
    out: Path | None = None,
    period: float | None = None,
    columns: Path | None = None,
    bare: Path | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> IdentifiedFlyer:
    """Identify a free flyer's load from poses and commands, and write the results.

    Args:
        body: TOML of the body, or the name of one that comes with heft.
        period: Period of the motion [s]; found in the log if None.
        bare: Log of a flight without a load, whose known mass tells what thrust is.

    Raises:
        InvalidSetting: If the body's TOML is malformed.
        InvalidRecording: If the log cannot be read or is too short.
        MissingSignal: If it lacks a signal.
        TooLittleData: If the motion does not determine the parameters.
    """
    if out is not None:
        require_own(out, RESULTS)
    flyer = open_flyer(body)
    named = ColumnMap.from_toml(columns) if columns is not None else None
    recording = Recording.open(log, named)
    progress(f"reading {log}")
    flight = FlightLog.of(recording, flyer)
    method = IdentifyFreeFlyer(period)
    empty = None if bare is None else Recording.open(bare, named)
    identified = IdentifiedFlyer(flyer, recording, flight, method.fit(flight, flyer, empty))
    if out is not None:
        with new_folder(out) as new:
            (new / RESULTS[0]).write_text(json_text(to_json(identified)), encoding="utf-8")
            (new / RESULTS[1]).write_text(page_of(identified), encoding="utf-8")
    return identified


def to_json(identified: IdentifiedFlyer) -> dict[str, Any]:
    """Return the content of `free-flyer.json`."""
    result = identified.result

    def of(body: BodyEstimate) -> dict[str, Any] | None:
        return (
            None
            if identified.poor
            else {
                "numbers": {n: {"value": s.value, "std": s.std} for n, s in body.numbers.items()},
                "parameters": dict(
                    zip(body.parameters.labels.names, body.parameters.values, strict=True)
                ),
                "covariance": body.parameters.covariance,
                "possible": body.possible,
            }
        )

    published = result.published
    return {
        "heft": __version__,
        "verdict": identified.verdict,
        "body": of(result.body),
        "load": of(result.load),
        "inflation": result.inflation,
        "delay": vars(result.delay),
        "scale": vars(result.scale),
        "noise": vars(result.noise),
        "left_out": int(result.held.sum()),
        "published": None
        if published is None or identified.poor
        else {
            "harmonics": published.harmonics,
            "values": published.values,
            "tried": published.tried,
            "gap_W": published.gap,
        },
        "checks": [
            {"name": c.name, "status": c.status, "value": c.value, "limit": c.limit}
            for c in result.checks
        ],
    }


def page_of(identified: IdentifiedFlyer) -> str:
    """Return the report's page."""
    result, poor = identified.result, identified.poor
    head = ("", "value", "±", "unit")
    load, body = (
        Table(title, head, [] if poor else _numbers(own, identified.given))
        for title, own in identified._bodies
    )
    return render(
        "applications/free_flyer/report.html.jinja",
        title=f"What {identified.flyer.name} grasped",
        mass=rounded(result.load.numbers["mass"].value, result.load.numbers["mass"].std),
        mass_std=f"{result.load.numbers['mass'].std:.2g}",
        poor=poor,
        load=load,
        body=body,
        methods=_methods(result),
        plots=list(_plots(identified)),
        convergence=[] if poor else list(_convergence(identified)),
        flight=_sticks(identified),
        saturated=f"{identified.flyer.actuators.saturation(identified.flight.commands):.1%}",
        **verdict.for_page(result.checks),
    )


def _methods(result: FreeFlyerResult) -> Table:
    by: Mapping[str, Array | None] = {
        "smoother": result.values,
        "harmonics by their noise": None if result.harmonic is None else result.harmonic.values,
        "published": None if result.published is None else result.published.values,
    }
    names = [n.partition(".")[2] for n in result.body.parameters.labels.names]
    rows = [
        [who, *(f"{v:.4g}" for v in values)] for who, values in by.items() if values is not None
    ]
    return Table("Ten parameters of body and load about the frame, by method", ("", *names), rows)


def _plots(identified: IdentifiedFlyer) -> Iterator[Plot]:
    published = identified.result.published
    if published is not None:
        curve = Series("mean |P − Ṫ|", "measured", published.tried, published.gap)
        ends = np.array([published.gap.min(), published.gap.max()])
        best = Series("n*", "residual", np.full(2, published.harmonics), ends, kind="dashed")
        title = f"Energy balance, mean |P − Ṫ|, least at n* = {published.harmonics}"
        yield Plot(title, "harmonics n", (curve, best), "harmonics", "[W]")
    time = identified.flight.time - identified.flight.time[0]
    effort = identified.flyer.actuators.effort(identified.flight.commands)
    step = max(len(time) // 1000, 1)  # of a curve
    # Of each stretch its largest: no saturation is lost.
    most = np.maximum.reduceat(effort, np.arange(0, len(effort), step))
    curves = (
        Series("share", "measured", time[::step], 100.0 * most),
        Series("limit", "residual", time[[0, -1]], np.full(2, 100.0), kind="dashed"),
    )
    yield Plot("Commands, of what the actuators can do", "time [s]", curves, "time", "[%]")
    path = np.asarray(identified.result.smoothed.path)
    for k, axis in enumerate("xyz"):
        curve = Series(axis, "measured", time[::step], path[::step, k])
        yield Plot(f"Position {axis}, smoothed", "time [s]", (curve,), "time", "[m]")


def convergence(
    result: FreeFlyerResult, flight: FlightLog, flyer: FreeFlyer
) -> tuple[Array, Array, Array]:
    """Return the load by the log up to each of K times, from when its mass is determined on.

    The innovations of a Kalman filter about the smoothed path: those until a time are the
    information until then, with the covariance widened as that of the result.

    Returns:
        Times since the first sample, shape (K,) [s]; mass [kg] and centre of mass [m], shape
        (K, 4); their standard deviations, shape (K, 4).
    """
    smoothed, estimates = result.smoothed, []
    # Innovations are what was measured less what the parameters explain of it.
    right = smoothed.white + smoothed.rows @ smoothed.values
    rows = np.concatenate([smoothed.rows, right[:, :, None]], axis=2)
    factor = np.empty((0, rows.shape[2])) if smoothed.prior is None else smoothed.prior
    # at which the estimate is looked at
    cuts = np.linspace(0, len(rows), min(120, len(rows)) + 1).astype(int)
    for begin, end in pairwise(cuts):
        flat = rows[begin:end].reshape(-1, rows.shape[2])
        factor = triangle_of(np.vstack([factor, flat]))
        so_far = Triangle(np.arange(len(factor) - 1), factor, 6 * end)
        ten = given(so_far, result.inflation, result.scale)
        seen = Directions.of(ten.R, ten.rows)
        if seen.rank < len(flyer.nominal):
            continue
        numbers, jacobian = inertia.stated_body(seen.shortest(ten.z) - flyer.nominal)
        spread = np.linalg.norm(jacobian[:4] @ seen.inverse, axis=1)
        if spread[0] <= 0.25 * numbers[0]:  # else there is nothing to show
            estimates.append([flight.time[end - 1] - flight.time[0], *numbers[:4], *spread])
    made = np.reshape(estimates, (-1, 9))
    return made[:, 0], made[:, 1:5], made[:, 5:]


def _convergence(identified: IdentifiedFlyer) -> Iterator[Plot]:
    time, values, std = convergence(identified.result, identified.flight, identified.flyer)
    if len(time) < 2:  # nothing is known well enough to be shown
        return
    for k, name in enumerate(("mass", "com.x", "com.y", "com.z")):
        final = identified.result.load.numbers[name].value
        curves = (
            Series("± 2 σ", "predicted", time, values[:, k], "band", reach=2.0 * std[:, k]),
            Series("estimate", "predicted", time, values[:, k]),
            Series("in the end", "measured", time[[0, -1]], np.full(2, final), kind="dashed"),
        )
        yield Plot(f"Load: {_name(name)}", "time [s]", curves, "time", f"[{_unit(name)}]")
    shares = (("mass", "kg", slice(0, 1)), ("centre of mass, all axes", "m", slice(1, 4)))
    for what, unit, own in shares:
        off = np.linalg.norm(values[:, own] - values[-1, own], axis=1)[:-1]
        both = (
            Series("off the last estimate", "measured", time[:-1], np.maximum(off, 1e-6)),
            Series("σ", "predicted", time, np.linalg.norm(std[:, own], axis=1)),
        )
        title = f"Load: how sure the {what}"
        yield Plot(title, "time [s]", both, "time", f"[{unit}]", log_y=True)


def _sticks(identified: IdentifiedFlyer) -> Sticks:
    """Return the flight as an animation, its path marked where commands are saturated."""
    flyer, flight = identified.flyer, identified.flight
    time = flight.time - flight.time[0]
    end = min(time[-1], 20.0)  # [s]
    states = np.asarray(identified.result.smoothed.path)
    frames = np.linspace(0.0, end, round(20.0 * end) + 1)
    at = np.clip(np.searchsorted(time, frames), 0, len(time) - 1)
    tips = 0.75 * max(flyer.size) * np.eye(3)
    arms = np.empty((0, 3)) if flyer.actuators.position is None else flyer.actuators.position
    numbers = identified.result.load.numbers
    load = np.array([[numbers[f"com.{a}"].value for a in "xyz"]])
    own = np.vstack([np.zeros((1, 3)), tips, arms, load])
    turned = matrix_of_quaternion(states[at, 3:7])
    points = states[at, None, :3] + np.einsum("fij,nj->fni", turned, own)
    lines: list[tuple[int | str, ...]] = [(0, 4 + k, "thin") for k in range(len(arms))]
    lines += [(0, 1 + k, colour) for k, colour in enumerate(("#e5484d", "#30a46c", "#3b82f6"))]
    shown = slice(0, int(np.searchsorted(time, end, side="right")))
    full = flyer.actuators.saturated(flight.commands[shown])
    edges = np.flatnonzero(np.diff(full, prepend=False, append=False))
    marked = [(int(a), int(b) + 1) for a, b in zip(edges[::2], edges[1::2], strict=True)]
    return Sticks(
        flyer.name, frames, points, lines, [(len(own) - 1, 1.0)],
        seen_from(ASIDE, flyer.gravity), 0, states[shown, :3], marked,
    )  # fmt: skip
