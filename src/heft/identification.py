"""The whole way walked once: model file and logs in, a folder of results out, and back.

`identify` fits, `Identification.write` leaves the folder (whole or not at all), `Identified`
reads it again, and `predict` evaluates it on any log.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from . import __version__, checks, export, inertia, kernel
from .checks import Check, Score, Trace, Verdict
from .consistency import ConsistentEstimate, PhysicallyConsistent, body_statistics
from .errors import FitError, InputError, InvalidRecording, InvalidSetting
from .estimators import Estimate, LeastSquares
from .identifiability import channel_ranks
from .inertia import Array
from .information import Information
from .plants import Problem
from .recording import ColumnMap, Recording, file_hash
from .robot import Options, Robot
from .signals import Smoothing

SCHEMA = 1
SEEN = 0.5  # share of the prior's variance that data must take away to count as seen
FILES = ("robot.urdf", "estimate.json", "information.npz", "report.html")
Progress = Callable[[str], None]


def silent(_: str) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class Settings:
    """How a robot is identified. The defaults are meant to be right.

    Attributes:
        smoothing: How motion is made smooth.
        least_squares: The base parameters, and the weights of the channels.
        consistent: What goes into the model file.
        threads: How many threads share the work; the result does not depend on it.
    """

    smoothing: Smoothing = Smoothing()
    least_squares: LeastSquares = LeastSquares()
    consistent: PhysicallyConsistent = PhysicallyConsistent()
    threads: int = 2


@dataclass(frozen=True)
class Identification:
    """What was found.

    Attributes:
        problem: What was fitted.
        estimate: The base parameters.
        consistent: What goes into the model file.
        urdf: The model file with new numbers.
        fit: Scores on the logs fitted.
        validation: Scores on logs not fitted.
        checks: What was looked at.
        traces: Curves for the report.
        inputs: The files, with hashes.
        settings: How it was done.
    """

    problem: Problem
    estimate: Estimate
    consistent: ConsistentEstimate
    urdf: bytes
    fit: tuple[Score, ...]
    validation: tuple[Score, ...]
    checks: tuple[Check, ...]
    traces: tuple[Trace, ...]
    inputs: tuple[Mapping[str, Any], ...]
    settings: Settings = field(default_factory=Settings)

    @property
    def verdict(self) -> Verdict:
        """What the checks add up to."""
        return checks.verdict(self.checks)

    @property
    def links(self) -> dict[str, Array]:
        """Ten parameters of each link that carries moving mass, in its own frame."""
        values = self.consistent.parameters.values
        return {
            link.name: values[10 * k : 10 * k + 10]
            for k, link in enumerate(self.problem.robot.bodies_links)
        }

    @property
    def drives(self) -> dict[str, float]:
        """The drives' terms by name, such as `elbow.viscous`."""
        first = 10 * len(self.problem.believed.groups)
        names = self.consistent.parameters.labels.names[first:]
        return dict(zip(names, self.consistent.parameters.values[first:].tolist(), strict=True))

    def to_json(self) -> dict[str, Any]:
        """Return the contract that programs read (`estimate.schema.json`)."""
        problem, robot = self.problem, self.problem.robot
        return {
            "heft": __version__,
            "schema": SCHEMA,
            "inputs": [dict(i) for i in self.inputs],
            "settings": {
                "robot": {
                    "name": robot.name,
                    "structure": robot.structure_hash(),
                    "options": robot.options.to_dict(),
                },
                "smoothing": vars(problem.resolved)
                | {"chosen": self.settings.smoothing.corner is None},
                "least_squares": vars(self.settings.least_squares),
                "consistent": vars(self.settings.consistent),
            },
            "parameters": list(_parameter_entries(self)),
            "joints": _joint_entries(self),
            "motors": _motor_entries(self),
            "base_parameters": _base_entries(self),
            "information": {
                "condition": self.estimate.rank.condition,
                "rank": self.estimate.rank.rank,
                "columns": self.estimate.rank.columns,
                "tolerance": self.estimate.rank.tolerance,
                "weakest": list(self.estimate.rank.weakest),
                "channels": _channel_entries(self),
            },
            "fit": [vars(s) for s in self.fit],
            "validation": [vars(s) for s in self.validation],
            "notes": list(robot.notes),
            "checks": [vars(c) for c in self.checks],
            "verdict": self.verdict,
        }

    def write(self, out: Path, report: Callable[[Identification], str] | None = None) -> None:
        """Write the folder of results, whole or not at all.

        Args:
            out: The folder; replaced if it holds earlier results.
            report: Makes `report.html`, if given.

        Raises:
            InvalidSetting: If the folder holds other things.
        """
        refuse_foreign(out)
        out.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
        try:
            (temporary / "robot.urdf").write_bytes(self.urdf)
            text = json.dumps(_plain(self.to_json()), indent=1, ensure_ascii=False, allow_nan=False)
            (temporary / "estimate.json").write_text(text + "\n", encoding="utf-8")
            covariance = self.consistent.parameters.covariance
            assert covariance is not None
            self.estimate.information.save(
                temporary / "information.npz",
                base_matrix=self.problem.base.matrix,
                standard_names=np.array(self.problem.base.standard.names),
                sigma=self.estimate.noise.sigma,
                memory=self.estimate.noise.memory,
                parameter_names=np.array(self.consistent.parameters.labels.names),
                parameter_values=self.consistent.parameters.values,
                parameter_covariance=covariance,
            )
            if report is not None:
                (temporary / "report.html").write_text(report(self), encoding="utf-8")
            temporary.chmod(0o755)
            for file in temporary.iterdir():
                _flush(file)
            _swap(temporary, out)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def refuse_foreign(out: Path) -> None:
    """Raise `InvalidSetting` if a folder for results holds anything else."""
    if out.exists() and not out.is_dir():
        raise InvalidSetting("the place for results is a file", argument=f"--out {out}")
    others = sorted({p.name for p in out.iterdir()} - set(FILES)) if out.exists() else []
    if others:
        raise InvalidSetting(
            "the folder for results holds other files, which are not overwritten",
            argument=f"--out {out}",
            got=", ".join(others[:5]),
            cure="name an empty or new folder",
        )


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _swap(temporary: Path, out: Path) -> None:
    """Put the new folder in the old one's place; a reader sees one or the other."""
    if not out.exists():
        temporary.rename(out)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{out.name}.old.", dir=out.parent))
    out.rename(old / "results")
    try:
        temporary.rename(out)
    except OSError:
        (old / "results").rename(out)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: infinities and NaN become null."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value


def _parameter_entries(found: Identification) -> Iterator[dict[str, Any]]:
    """Yield each link's numbers with what is known of them."""
    problem = found.problem
    units = {"mass": "kg", "com": "m", "inertia": "kg·m²"}
    structure = np.abs(problem.believed.matrix).sum(axis=0)
    lonely = {problem.base.standard.names[i] for i in problem.base.alone()}
    bodies = problem.robot.tree.names
    crowded = [link.body for link in problem.robot.bodies_links]
    for k, link in enumerate(problem.robot.bodies_links):
        visible = structure[10 * k : 10 * k + 10] > 0.0
        for name, (value, std, share) in body_statistics(found.consistent, 10 * k).items():
            if not _visible(name, visible):
                seen = "not at all"
            elif share < SEEN:
                seen = "prior"
            elif crowded.count(link.body) == 1 and _alone(name, bodies[link.body], lonely):
                seen = "alone"
            else:
                seen = "in combination"
            yield {
                "name": f"{link.name}.{name}",
                "value": value,
                "std": std,
                "unit": units[name.partition(".")[0]],
                "seen": seen,
                "share": share,
            }


def _needed(name: str) -> list[int]:
    """Return which of a body's ten parameters a stated number is made of."""
    kind, _, axis = name.partition(".")
    if kind == "mass":
        return [0]
    if kind == "com":
        return [0, 1 + inertia.AXES.index(axis)]
    return [4 + inertia.SYMBOLS[4:].index(f"I.{axis}")]


def _visible(name: str, visible: Array) -> bool:
    return bool(visible[_needed(name)].any())


def _alone(name: str, body: str, lonely: set[str]) -> bool:
    return all(f"{body}.{inertia.SYMBOLS[k]}" in lonely for k in _needed(name))


def _drive_entry(found: Identification, name: str) -> dict[str, Any]:
    drives = found.drives
    parameters = found.consistent.parameters
    std = dict(zip(parameters.labels.names, parameters.std.tolist(), strict=True))

    def get(term: str) -> float | None:
        return drives.get(f"{name}.{term}")

    simple = {t: get(t) for t in ("viscous", "coulomb", "offset")}
    return {
        "armature": get("armature"),
        "simple": {k: v for k, v in simple.items() if v is not None},
        "full": [
            {"term": k, "scale": None, "value": v} for k, v in simple.items() if v is not None
        ],
        "std": {t: std[f"{name}.{t}"] for t in ("armature", *simple) if f"{name}.{t}" in drives},
    }


def _joint_entries(found: Identification) -> dict[str, Any]:
    robot = found.problem.robot
    entries = {}
    for joint in robot.joints:
        entry = _drive_entry(found, joint)
        option = robot.options.of(joint)
        if option.gain is not None:
            entry["gain"] = option.gain
        if option.reduction is not None and entry["armature"] is not None:
            entry["rotor"] = entry["armature"] / option.reduction**2
        entries[joint] = entry
    return entries


def _motor_entries(found: Identification) -> dict[str, Any]:
    robot = found.problem.robot
    first = len(robot.channels) - len(robot.joints)
    return {
        d.name: _drive_entry(found, d.name)
        | {
            "speed": {
                j: float(d.ratio[first + k])
                for k, j in enumerate(robot.joints)
                if d.ratio[first + k]
            }
        }
        for d in robot.drives
        if d.name not in robot.joints
    }


def _base_entries(found: Identification) -> list[dict[str, Any]]:
    parameters = found.estimate.parameters
    return [
        {
            "expression": expression,
            "value": float(value),
            "std": float(std),
            "unit": unit,
            "relative_std": float(abs(std / value)) if value else None,
        }
        for expression, value, std, unit in zip(
            found.problem.base.expressions(),
            parameters.values,
            parameters.std,
            parameters.labels.units,
            strict=True,
        )
    ]


def _channel_entries(found: Identification) -> list[dict[str, Any]]:
    noise, information = found.estimate.noise, found.estimate.information
    ranks = channel_ranks(information)
    return [
        {
            "name": name,
            "rows": int(noise.rows[c]),
            "independent_rows": float(noise.effective[c]),
            "residual_std": float(noise.sigma[c]),
            "rank": ranks[name],
            "columns": len(information.triangles[c].columns),
        }
        for c, name in enumerate(information.channels)
    ]


def identify(
    robot: Robot,
    logs: Sequence[Recording],
    validate: Sequence[Recording] = (),
    settings: Settings = Settings(),
    given: Information | None = None,
    inputs: Sequence[Mapping[str, Any]] = (),
    progress: Progress = silent,
) -> Identification:
    """Identify a robot from logs.

    Args:
        robot: The model, a guess.
        logs: One experiment's logs, in any order.
        validate: Logs that the fit must not see.
        settings: How.
        given: Earlier information about the same robot, to be added.
        inputs: Files to be named in the results.
        progress: Told what is being done.

    Raises:
        InputError: If a log or setting cannot be used.
        FitError: If no answer could stand.
    """
    if not logs:
        raise InvalidRecording("no log is given", cure="name at least one log after the model file")
    problem = Problem(robot, tuple(logs), settings.smoothing, settings.threads)
    progress(f"reading {len(logs)} log{'s' if len(logs) > 1 else ''}")
    corner = problem.corner
    held_out = problem.of(validate) if validate else None
    if held_out is not None:
        _ = held_out.resolved, held_out.timelines  # refuse a bad log before the work begins
    if not kernel.is_compiled():
        progress("compiling the kernels for this machine, once: about 20 s")
    progress(f"smoothing at {corner:.3g} Hz, summing up rows")
    estimate = _base_estimate(problem, settings.least_squares, given)
    progress("solving for physically consistent parameters")
    triangle = estimate.information.combined(estimate.weights())
    consistent = settings.consistent.fit(triangle, problem.believed)
    found = Identification(
        problem, estimate, consistent, b"", (), (), (), (), tuple(inputs), settings
    )
    urdf = export.write_urdf(robot.source, found.links, _urdf_friction(found))
    # What is scored is what the file says, rounded as it is.
    bodies = Robot.from_urdf_text(urdf, robot.options).written_bodies()
    progress("scoring")
    traces: list[Trace] = []
    fit = checks.scores(problem, bodies, found.drives, corner, traces)
    worst = min((s.total for s in fit), default=0.0)
    if worst > checks.EXPLAINS_NOTHING:
        raise FitError(
            "no parameters explain these torques",
            got=f"{worst:.0%} of the torque is left over on the logs fitted themselves",
            cure="check units, signs, the order of the joints and the delay between motion and "
            "torque",
        )
    held = checks.scores(held_out, bodies, found.drives, corner, traces) if held_out else []
    margin = min((inertia.consistency_margin(v) for v in found.links.values()), default=1.0)
    judged = checks.judge(problem, estimate, fit, held, _speeds(problem), consistent.active, margin)
    return replace(
        found,
        urdf=urdf,
        fit=tuple(fit),
        validation=tuple(held),
        checks=tuple(judged),
        traces=tuple(traces),
    )


def _base_estimate(problem: Problem, solver: LeastSquares, given: Information | None) -> Estimate:
    estimate = solver.fit(problem)
    if given is None:
        return estimate
    # The logs' own noise weights the sum: the same robot, the same sensors.
    total = estimate.information + given
    again = solver.solve(total)
    noise = replace(again.noise, memory=estimate.noise.memory)
    return replace(again, noise=noise)


def _urdf_friction(found: Identification) -> dict[str, tuple[float, float]]:
    drives = found.drives
    return {
        joint: (drives[f"{joint}.viscous"], drives[f"{joint}.coulomb"])
        for joint in found.problem.robot.joints
        if f"{joint}.viscous" in drives
    }


def _speeds(problem: Problem) -> Array:
    """Return each joint's rms velocity, shape (joints,)."""
    first = len(problem.robot.channels) - len(problem.robot.joints)
    total, rows = np.zeros(len(problem.robot.joints)), 0
    for s in problem.samples():
        total += np.sum(s.motion.velocity[first:] ** 2, axis=1)
        rows += len(s.time)
    return np.asarray(np.sqrt(total / max(rows, 1)))


def describe(
    path: Path, role: str, recording: Recording | None = None, problem: Problem | None = None
) -> dict[str, Any]:
    """Return the entry of an input file in the results."""
    entry: dict[str, Any] = {"path": str(path), "role": role, "sha256": file_hash(path)}
    if recording is not None and problem is not None:
        timeline = problem.timelines[problem.recordings.index(recording)]
        entry |= {
            "samples": timeline.rows,
            "used": timeline.used,
            "duration_s": timeline.duration,
            "step_s": timeline.step,
            "gaps": timeline.gaps,
        }
    return entry


def identify_files(
    urdf: Path,
    logs: Sequence[Path],
    validate: Sequence[Path] = (),
    options: Path | None = None,
    columns: Path | None = None,
    given: Path | None = None,
    settings: Settings = Settings(),
    progress: Progress = silent,
) -> Identification:
    """Identify a robot from files; see `identify`.

    Args:
        urdf: The model file.
        logs: CSV, Parquet or NPZ.
        validate: Logs that the fit must not see.
        options: TOML that says what the model file cannot.
        columns: TOML that says what the logs' columns mean.
        given: Folder of earlier results about the same robot.
        settings: How.
        progress: Told what is being done.
    """
    robot = Robot.from_urdf(urdf, Options.from_toml(options) if options else None)
    mapping = ColumnMap.from_toml(columns) if columns else None
    same = sorted({str(p) for p in logs} & {str(p) for p in validate})
    if same:
        raise InvalidSetting(
            "a log is given for fitting and for validation",
            argument="--validate",
            got=", ".join(same),
            cure="validate on a log that the fit does not see",
        )
    fit = [Recording.open(p, mapping) for p in logs]
    held = [Recording.open(p, mapping) for p in validate]
    before = Information.load(given / "information.npz") if given else None
    found = identify(robot, fit, held, settings, before, (), progress)
    second = found.problem.of(held)
    inputs = [
        describe(urdf, "model"),
        *(describe(p, "options") for p in [options] if p),
        *(describe(p, "columns") for p in [columns] if p),
        *(describe(p, "fit", r, found.problem) for p, r in zip(logs, fit, strict=True)),
        *(describe(p, "validation", r, second) for p, r in zip(validate, held, strict=True)),
    ]
    return replace(found, inputs=tuple(inputs))


@dataclass(frozen=True)
class Identified:
    """A folder of results, read again.

    Attributes:
        folder: Where it is.
        robot: The identified model.
        drives: The drives' terms by name.
        smoothing: How motion was made smooth.
        estimate: What `estimate.json` holds.
    """

    folder: Path
    robot: Robot
    drives: dict[str, float]
    smoothing: Smoothing
    estimate: Mapping[str, Any]

    @staticmethod
    def load(folder: Path) -> Identified:
        """Read a folder that `heft identify` left.

        Raises:
            InputError: If it is not one.
        """
        try:
            data = json.loads((folder / "estimate.json").read_text(encoding="utf-8"))
            options = Options.from_dict(data["settings"]["robot"]["options"], "estimate.json")
            entry = dict(data["settings"]["smoothing"])
            entry.pop("chosen")
            smoothing = Smoothing(**entry)
            drives: dict[str, float] = {}
            for name, joint in {**data["joints"], **data["motors"]}.items():
                drives |= {f"{name}.{k}": float(v) for k, v in joint["simple"].items()}
                if joint["armature"] is not None:
                    drives[f"{name}.armature"] = float(joint["armature"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
            raise InputError(
                "this is not a folder of results",
                argument=str(folder),
                got=f"{type(problem).__name__}: {problem}",
                expected="the folder that `heft identify --out` wrote",
            ) from problem
        return Identified(
            folder, Robot.from_urdf(folder / "robot.urdf", options), drives, smoothing, data
        )

    def predict(
        self, recording: Recording, friction: Literal["simple", "none"] = "simple", threads: int = 2
    ) -> Iterator[tuple[Array, Array, Array]]:
        """Yield time, effort and its rigid part, at the log's own times, in pieces.

        The log's torques, if any, are not looked at.

        Args:
            recording: The log.
            friction: `simple`, or `none` for the rigid part and rotor inertia only.
            threads: How many threads share the work.
        """
        drives = self.drives
        if friction == "none":
            drives = {k: v for k, v in drives.items() if k.endswith(".armature")}
        smoothing = replace(self.smoothing, trim=0.0, torque="raw")
        problem = Problem(self.robot, (recording,), smoothing, threads, "predict")
        for s, effort, rigid in problem.predictions(self.robot.written_bodies(), drives):
            yield s.time, effort.T, rigid.T


def predict_files(
    folder: Path,
    log: Path,
    out: Path,
    columns: Path | None = None,
    friction: Literal["simple", "none"] = "simple",
) -> int:
    """Predict the torques of a log and write them, whole or not at all; return the rows.

    Args:
        folder: Results of `heft identify`.
        log: CSV, Parquet or NPZ with positions.
        out: Parquet or CSV file to write: `t`, `tau.<joint>` and `tau_rigid.<joint>`.
        columns: TOML that says what the log's columns mean.
        friction: `simple` or `none`.

    Raises:
        InvalidSetting: If the kind of the output is not known.
    """
    import pyarrow
    import pyarrow.csv
    import pyarrow.parquet

    if out.suffix.lower() not in (".parquet", ".csv"):
        raise InvalidSetting(
            "the output is neither Parquet nor CSV",
            argument=f"--out {out}",
            valid=(".parquet", ".csv"),
        )
    identified = Identified.load(folder)
    recording = Recording.open(log, ColumnMap.from_toml(columns) if columns else None)
    channels = identified.robot.channels
    names = ["t", *(f"tau.{c}" for c in channels), *(f"tau_rigid.{c}" for c in channels)]
    schema = pyarrow.schema([(n, pyarrow.float64()) for n in names])
    out.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{out.name}.", dir=out.parent)
    os.close(handle)
    rows = 0
    try:
        make = (
            pyarrow.csv.CSVWriter if out.suffix.lower() == ".csv" else pyarrow.parquet.ParquetWriter
        )
        with make(temporary, schema) as writer:
            for time, effort, rigid in identified.predict(recording, friction):
                columns_ = [time, *effort.T, *rigid.T]
                arrays = [pyarrow.array(np.ascontiguousarray(c)) for c in columns_]
                writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))
                rows += len(time)
        if rows == 0:
            raise InvalidRecording(
                "the log is too short to predict anything",
                argument=str(log),
                expected="at least ten rows without a gap",
            )
        _flush(Path(temporary))
        os.chmod(temporary, 0o644)
        os.replace(temporary, out)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return rows
