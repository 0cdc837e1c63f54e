"""`heft freeflyer study`: errors by method over motions, criteria and loads, as [Ekal2018, VI].

Every run is one line of `runs.jsonl`, and is not run twice: a study that was stopped goes on.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from heft import __version__
from heft.arrays import Array
from heft.display import Plot, Series, Table, render, table
from heft.errors import InvalidRecording, InvalidSetting
from heft.excitation import DesignSettings
from heft.files import (
    UNREADABLE,
    Section,
    list_of,
    read_text,
    read_toml,
    require_writable,
    section,
    write_text,
)
from heft.flight import (
    Flight,
    FlightReference,
    FlightSettings,
    FreeFlyerResult,
    IdentifyFreeFlyer,
    design_flight,
    fly,
)
from heft.information import inertia
from heft.models import FlightBounds, FreeFlyer, Load, flight_bounds_from_toml

from .flights import open_flyer

RUNS, TABLE, REPORT = "runs.jsonl", "study.csv", "report.html"
METHODS = ("published", "harmonics", "smoother")
CRITERIA: tuple[Literal["J1", "J2"], ...] = ("J1", "J2")
SLOWEST, FASTEST = 0.5, 1.5  # factors on velocities and accelerations of the bounds
MEASURES = ("mass", "inertia", "offset")
UNITS = {"mass": "%", "inertia": "kg·m²", "offset": "m"}


@dataclass(frozen=True)
class StudySettings:
    """Settings of a study."""

    trajectories: int = 11  # motions by each criterion, from slow to fast
    cycles: int = 10  # how often each is flown
    seed: int = 0  # of motions and noise
    random: int = 60  # random motions that a design begins with

    def __post_init__(self) -> None:
        if not (1 <= self.trajectories <= 1000 and 1 <= self.cycles <= 10_000):
            raise InvalidSetting(
                "a study has one trajectory or more, of one cycle or more",
                argument="--trajectories, --cycles",
                got=f"{self.trajectories}, {self.cycles}",
            )


@dataclass(frozen=True)
class StudyRun:
    """Errors of one identified flight."""

    criterion: str  # J1 or J2
    scale: float  # factor on velocities and accelerations of the bounds
    load: int  # number of the load, from 0 on
    saturation: float  # share of samples with a command at its limit
    harmonics: int  # n* of the energy balance; 0 where it found none
    # by method: of the mass [%], of the inertia, root mean square of its six entries [kg·m²], of
    # the centre of mass [m]
    errors: Mapping[str, tuple[float, ...]]
    gap: tuple[float, ...]  # mean |P − Ṫ| by number of harmonics [W]

    @property
    def key(self) -> tuple[str, float, int]:
        """Criterion, scale and load, which identify the run."""
        return self.criterion, self.scale, self.load


@dataclass(frozen=True)
class Study:
    """All runs of a study."""

    body: str  # name of the body
    loads: tuple[Load, ...]  # what it grasped
    runs: tuple[StudyRun, ...]  # in order of saturation

    def of(self, criterion: str, load: int) -> list[StudyRun]:
        """Return the runs of a criterion with a load."""
        return [r for r in self.runs if (r.criterion, r.load) == (criterion, load)]

    def text(self) -> str:
        """Return the summary for the terminal: medians over motions."""
        rows = []
        for load, carried in enumerate(self.loads):
            for criterion in CRITERIA:
                for method in METHODS:
                    errors = [
                        r.errors[method] for r in self.of(criterion, load) if method in r.errors
                    ]
                    if errors:
                        medians = np.median(errors, axis=0)
                        rows.append([f"{carried.mass:g} kg", criterion, method, *_shown(medians)])
        head = ["load", "criterion", "method", "mass [%]", "inertia [kg·m²]", "centre [mm]"]
        return "Medians of the errors over the motions:\n" + table(head, rows)


def _shown(errors: Sequence[float] | Array) -> list[str]:
    mass, about, offset = errors
    return [f"{mass:.3g}", f"{about:.2e}", f"{1e3 * offset:.3g}"]


def loads_of(path: Path) -> tuple[Load, ...]:
    """Return the loads that a TOML file states in [[load]] tables.

    Raises:
        InvalidSetting: If it is malformed or states none.
    """
    loads = LOADS(read_toml(path), str(path))["load"]
    if not loads:
        raise InvalidSetting("no load is stated", argument=str(path), cure="[[load]] tables")
    return tuple(loads)


LOADS: Section[dict[str, Any]] = Section(
    dict, {"load": list_of(section(Load), of="[[load]] tables", entry=" ")}, required=("load",)
)


def study_files(
    body: str,
    loads: Path,
    out: Path,
    bounds: Path | None = None,
    settings: StudySettings = StudySettings(),
    progress: Callable[[str], None] = lambda line: None,
) -> Study:
    """Design, fly and identify motions by both criteria with each load, and write the study.

    Args:
        body: TOML of the body, or the name of one that comes with heft.
        loads: TOML of [[load]] tables.
        out: Folder for runs.jsonl, study.csv and report.html. Runs that are there are kept.

    Raises:
        InvalidSetting: If a file is malformed.
    """
    flyer, carried = open_flyer(body), loads_of(loads)
    room = flight_bounds_from_toml(bounds) if bounds is not None else FlightBounds()
    require_writable(out)
    out.mkdir(parents=True, exist_ok=True)
    plan: dict[str, Any] = {
        "heft": __version__,
        "body": body,
        "loads": [asdict(k) for k in carried],
    }
    plan |= {"settings": asdict(settings), "bounds": str(bounds)}
    done = {r.key: r for r in _stored(out / RUNS, plan)}
    total = 2 * settings.trajectories * len(carried)
    # What a run that was stopped had half written is left out.
    kept = [json.dumps(plan), *(json.dumps(asdict(r)) for r in done.values())]
    write_text(out / RUNS, "\n".join(kept) + "\n")
    with (out / RUNS).open("a", encoding="utf-8") as file:
        for run in _runs(flyer, carried, room, settings, set(done)):
            done[run.key] = run
            file.write(json.dumps(asdict(run)) + "\n")
            file.flush()
            what = f"{run.criterion} × {run.scale:.2g}, {carried[run.load].mass:g} kg"
            progress(f"{len(done)}/{total}: {what}, saturated {run.saturation:.0%}")
    study = Study(flyer.name, carried, tuple(sorted(done.values(), key=lambda r: r.saturation)))
    write_text(out / TABLE, _csv(study))
    write_text(out / REPORT, _page(study))
    return study


def _stored(path: Path, plan: Mapping[str, Any]) -> Iterator[StudyRun]:
    if not path.exists():
        return
    try:
        lines = read_text(path, "runs of a study", InvalidRecording).decode().splitlines()
        head, *runs = [json.loads(line) for line in lines if line.strip().endswith("}")]
        made = [_run(r) for r in runs]
    except (*UNREADABLE, TypeError) as problem:
        raise InvalidRecording(
            "these are no runs of a study",
            argument=str(path),
            got=f"{type(problem).__name__}: {problem}",
            cure="take another folder for --out",
        ) from problem
    if head != json.loads(json.dumps(plan)):
        raise InvalidSetting(
            "the folder holds another study",
            argument=str(path),
            cure="take another folder for --out, or the same body, loads and settings",
        )
    yield from made


def _run(stored: Mapping[str, Any]) -> StudyRun:
    errors = {method: tuple(values) for method, values in stored["errors"].items()}
    return StudyRun(**{**stored, "errors": errors, "gap": tuple(stored["gap"])})


def _runs(
    flyer: FreeFlyer,
    loads: Sequence[Load],
    bounds: FlightBounds,
    settings: StudySettings,
    done: set[tuple[str, float, int]],
) -> Iterator[StudyRun]:
    scales = [round(float(s), 6) for s in np.linspace(SLOWEST, FASTEST, settings.trajectories)]
    for criterion in CRITERIA:
        for scale in scales:
            remaining = [k for k in range(len(loads)) if (criterion, scale, k) not in done]
            if not remaining:
                continue
            chosen = DesignSettings(random=settings.random, starts=1, seed=settings.seed)
            made = design_flight(flyer, bounds.faster(scale), criterion, chosen)
            reference = FlightReference(made.trajectory, flyer.gravity)
            for k in remaining:
                flown = FlightSettings(settings.cycles, settings.seed)
                flight = fly(flyer, reference, [loads[k]], flown)
                result = IdentifyFreeFlyer(bounds.period).fit(flight.log, flyer)
                yield _scored(criterion, scale, k, flight, result)


def _scored(
    criterion: str, scale: float, load: int, flight: Flight, result: FreeFlyerResult
) -> StudyRun:
    truth, published, harmonic = flight.truth.parameters, result.published, result.harmonic
    errors = {"smoother": errors_of(result.values, truth)}
    if harmonic is not None:
        errors["harmonics"] = errors_of(harmonic.values, truth)
    if published is None:
        return StudyRun(criterion, scale, load, flight.saturation, 0, errors, ())
    errors["published"] = errors_of(published.values, truth)
    gap = tuple(published.gap.tolist())
    return StudyRun(criterion, scale, load, flight.saturation, published.harmonics, errors, gap)


def errors_of(values: Array, truth: Array) -> tuple[float, float, float]:
    """Return errors of mass [%], inertia (rms of six entries) [kg·m²] and centre of mass [m].

    Args:
        values: Ten parameters, shape (10,).
        truth: True ones, shape (10,).
    """
    (mass, com, about), (true_mass, true_com, true_about) = map(inertia.to_body, (values, truth))
    off = (about - true_about)[np.triu_indices(3)]
    return (
        100.0 * abs(mass / true_mass - 1.0),
        float(np.sqrt(np.mean(off**2))),
        float(np.linalg.norm(com - true_com)),
    )


def _csv(study: Study) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    head = ["criterion", "scale", "load_kg", "saturation", "harmonics", "method"]
    writer.writerow([*head, "mass_percent", "inertia_kgm2", "centre_m"])
    for run in study.runs:
        for method, errors in run.errors.items():
            mass = study.loads[run.load].mass
            start = [run.criterion, run.scale, mass, run.saturation, run.harmonics]
            writer.writerow([*start, method, *errors])
    return file.getvalue()


def _page(study: Study) -> str:
    rows = []
    for r in study.runs:
        errors = [" / ".join(_shown(r.errors[m])) if m in r.errors else "–" for m in METHODS]
        motion = f"{r.criterion} × {r.scale:.2f}"
        mass = f"{study.loads[r.load].mass:g}"
        rows.append([motion, mass, f"{r.saturation:.1%}", str(r.harmonics), *errors])
    head = ("motion", "load [kg]", "saturated", "n*", *(f"{m}: % / kg·m² / mm" for m in METHODS))
    return render(
        "applications/free_flyer/study.html.jinja",
        title=f"What {study.body} grasped: {len(study.runs)} flights",
        runs=Table("All flights in order of saturation", head, rows),
        plots=list(_plots(study)),
        gaps=list(_gaps(study)),
    )


def _plots(study: Study) -> Iterator[Plot]:
    roles = dict(zip(METHODS, ("residual", "predicted", "measured"), strict=True))
    for load, carried in enumerate(study.loads):
        for criterion in CRITERIA:
            runs = study.of(criterion, load)
            for k, measure in enumerate(MEASURES):
                series = tuple(
                    Series(method, roles[method], *_over(runs, method, k), kind="points")
                    for method in METHODS
                )
                title = f"{measure}, {criterion}, {carried.mass:g} kg"
                yield Plot(title, "flight in order of saturation", series, "order",
                           f"[{UNITS[measure]}]", log_y=True)  # fmt: skip


def _over(runs: Sequence[StudyRun], method: str, measure: int) -> tuple[Array, Array]:
    points = [(n, r.errors[method][measure]) for n, r in enumerate(runs, 1) if method in r.errors]
    pairs = np.array(points, dtype=float).reshape(-1, 2)
    return pairs[:, 0], np.asarray(np.maximum(pairs[:, 1], 1e-12))


def _gaps(study: Study) -> Iterator[Plot]:
    for run in study.runs:
        if run.load == 0 and run.gap:
            harmonics = np.asarray(3.0 + np.arange(len(run.gap)), dtype=float)
            curve = Series("mean |P − Ṫ|", "measured", harmonics, np.array(run.gap))
            yield Plot(f"{run.criterion} × {run.scale:.2f}, n* = {run.harmonics}", "harmonics",
                       (curve,), "harmonics", "[W]")  # fmt: skip
