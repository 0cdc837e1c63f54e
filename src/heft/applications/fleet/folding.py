"""From a log to what it tells, one pure function: `fold(path, prepared) -> Folded`.

How a type's logs are looked at (cutoff, delay, point of gears' loads, noise) is chosen once, from a
few logs of some of its robots, and then fixed: so all of a type's triangles add, and a log's bytes
and that choice alone say what its own are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property, reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg

from heft.applications.inputs import Inputs
from heft.arrays import Array
from heft.dynamics import steady
from heft.engine import one_blas_thread
from heft.errors import FitError, HeftError, InvalidRecording, InvalidSetting
from heft.files import UNREADABLE, file_hash, json_text, read_arrays, write_arrays
from heft.fit import Settings, fit_experiment, open_experiment, with_told_friction
from heft.information import Information, Triangle, triangle_of
from heft.models import Robot
from heft.plants import Problem, RobotPlant, plant_of, structural_base
from heft.recordings import Recording
from heft.signals import Smoothing, Weak, limited

from .catalog import RobotType, day_of
from .objects import Place

VERSION = "heft-fleet-2"  # of what is stored of a log
BLOCKS = 12  # contiguous parts of a log, whose scatter its intervals are judged by
FRICTION = ("viscous", "coulomb", "friction", "offset")  # that is told of each joint


@dataclass(frozen=True)
class Preparation:
    """What all logs of a type share, chosen from a few of them."""

    corner: float  # cutoff of the low-pass [Hz]
    delay: float  # of torque behind motion [s]
    window: float | None  # length of the weak form's windows [s]; None for differentiated rows
    sigma: tuple[float, ...]  # standard deviation of each channel's residual [its unit]
    memory: tuple[float, ...]  # integrated autocorrelation time of each channel's residual [rows]
    # standard parameters whose torque loads the gears, (p,); none where friction knows no load
    point: tuple[float, ...]
    middle: tuple[float, ...]  # base parameters that logs which do not tell them are left at, (b,)
    lengths: tuple[float, ...]  # lengths of the weighted columns of one log, (b,)
    # speeds at which each drive's friction is told [rad/s or m/s], one tuple a drive
    speeds: tuple[tuple[float, ...], ...]
    # temperature that friction is told at [°C]; None if the logs that it was chosen from tell none
    reference: float | None
    logs: tuple[str, ...]  # SHA-256 of the logs that it was chosen from

    @staticmethod
    def of(
        kind: RobotType,
        samples: Sequence[Sequence[Place]],
        count: int,
        opened: Callable[[Place], Path],
    ) -> Preparation:
        """Return what suits most of some robots, the median of what suits each.

        Args:
            samples: Logs of one robot each; samples of which one cannot be used are passed over.
            count: Samples that are asked for.
            opened: Returns where a log is read.

        Raises:
            HeftError: If no sample can be used, or a file of the type.
        """
        inputs = Inputs.open(kind.model, kind.options, kind.columns)
        robot = _robot(inputs)
        fits, digests, warmth = [], [], []
        drives = [d.name for d in robot.drives]
        problems_of: list[HeftError] = []
        with one_blas_thread():
            for places in samples:
                try:
                    logs = inputs.with_logs(fit=[opened(p) for p in places]).logs["fit"]
                    problem, settings = open_experiment(robot, logs, Settings(threads=1))
                    fits.append(fit_experiment(problem, settings))
                    digests += [log.sha256 for log in logs]
                    warmth += [t for log in logs for t in _temperature(log, drives)]
                except HeftError as why:
                    problems_of.append(why)
                if len(fits) == count:
                    break
        if not fits:
            if not problems_of:
                raise FitError(f"no log of {kind.name} can be read: processes that do so die")
            raise problems_of[0]
        problems, estimates = [f.problem for f in fits], [f.estimate for f in fits]
        first = problems[0]
        corner = float(np.median([p.corner for p in problems]))
        weak = first.weak and first.weak.windows(corner, first.timelines[0].step)
        sigma, memory = (
            np.median([getattr(e.noise, name) for e in estimates], axis=0)
            for name in ("sigma", "autocorrelation_time")
        )
        weights = dict(zip(first.channels, 1.0 / (sigma * np.sqrt(memory)), strict=True))
        lengths = [
            np.linalg.norm(f.information.combined(weights).R, axis=0) / np.sqrt(len(p.recordings))
            for f, p in zip(fits, problems, strict=True)
        ]
        middle = np.median([e.fitted for e in estimates], axis=0)
        return Preparation(
            corner,
            float(np.median([p.delay for p in problems])),
            weak.length if weak else None,
            tuple(sigma.tolist()),
            tuple(memory.tolist()),
            () if first.plant.point is None else tuple(first.plant.point.tolist()),
            tuple(middle.tolist()),
            tuple(np.median(lengths, axis=0).tolist()),
            _speeds(first),
            float(np.round(np.nanmedian(warmth))) if np.isfinite(warmth).any() else None,
            tuple(digests),
        )

    @staticmethod
    def from_dict(given: dict[str, Any]) -> Preparation:
        """Return what `json_text` wrote.

        Raises:
            InvalidSetting: If it is another version's, or damaged.
        """
        try:
            speeds = tuple(tuple(map(float, s)) for s in given.pop("speeds"))
            lists = {k: tuple(v) for k, v in given.items() if isinstance(v, list)}
            return Preparation(**{**given, **lists, "speeds": speeds})
        except (TypeError, KeyError, ValueError) as problem:
            raise InvalidSetting(
                "this is not how heft fleet prepares a type's logs",
                got=str(problem)[:200],
                cure="remove the folder `types`, and it is chosen anew",
            ) from problem


def _speeds(problem: Problem[RobotPlant]) -> tuple[tuple[float, ...], ...]:
    velocity = np.concatenate([s.motion.velocity for s in problem.samples()], axis=1)
    quantiles, speeds = (0.2, 0.35, 0.5, 0.65, 0.8, 0.95), []
    for drive in problem.plant.robot.drives:
        speed = np.abs(drive.ratio @ velocity)
        moving = speed[speed > 0.02 * speed.max()]
        speeds.append(tuple(np.quantile(moving, quantiles).tolist()) if len(moving) else ())
    return tuple(speeds)


def _robot(inputs: Inputs) -> Robot:
    assert inputs.robot is not None
    if inputs.robot.tree.free_base:
        raise InvalidSetting(
            "robots of a fleet stand on a fixed base", argument='base = "free"', got="a free one"
        )
    return with_told_friction(inputs.robot)


@dataclass(frozen=True)
class Quantity:
    """A number that is told of each robot of a type."""

    name: str  # such as `elbow.viscous`, or that of a base parameter
    unit: str
    joint: str | None  # whose friction it is of; None of bodies and rotors
    kind: str  # one of `FRICTION`, or `base`
    meaning: str  # in words, or as a sum of standard parameters


@dataclass(frozen=True)
class Prepared:
    """A type with its preparation: what `fold` needs, made once a process."""

    kind: RobotType
    preparation: Preparation

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how another process makes it: once, however many pieces of work name it."""
        return prepared, (self.kind, self.preparation)

    @cached_property
    def inputs(self) -> Inputs:
        """Model file, options and column map, opened."""
        return Inputs.open(self.kind.model, self.kind.options, self.kind.columns)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all that a log's triangles depend on but the log."""
        files = (self.kind.model, self.kind.options, self.kind.columns)
        hashes = [file_hash(f) if f else "" for f in files]
        text = json_text([VERSION, *hashes, asdict(self.preparation)])
        return hashlib.sha256(text.encode()).hexdigest()

    def key(self, log: str) -> bytes:
        """Return what names that which is stored of a log of this SHA-256."""
        return hashlib.sha256(f"{self.digest} {log}".encode()).digest()

    @cached_property
    def problem(self) -> Problem[RobotPlant]:
        """The type's plant, gears loaded as the preparation says, without a log."""
        p = self.preparation
        plant = plant_of(_robot(self.inputs))
        plant = plant.about(np.array(p.point)) if p.point else plant
        smoothing = Smoothing(corner=p.corner, delay=p.delay)
        weak = None if p.window is None else Weak(p.window)
        return Problem(plant, (), smoothing, 1, weak=weak, known_base=structural_base(plant))

    @cached_property
    def weights(self) -> dict[str, float]:
        """Weight of each channel's rows, so that they count as independent ones of variance 1."""
        scale = np.array(self.preparation.sigma) * np.sqrt(self.preparation.memory)
        return dict(zip(self.problem.channels, (1.0 / scale).tolist(), strict=True))

    @cached_property
    def ridge(self) -> Array:
        """Rows that hold what a log does not show where the type is, right-hand side last."""
        # of a column's length, which is none where no log of the sample holds it
        firm = 1e-3 * np.maximum(self.preparation.lengths, 1e-12)
        return np.column_stack([np.diag(firm), firm * self.preparation.middle])

    @cached_property
    def told(self) -> tuple[tuple[Quantity, ...], Array]:
        """What is told of each robot, and its map from the base parameters, shape (q, b)."""
        base, drives = self.problem.base, self.problem.plant.robot.drives
        names, units = base.labels.names, base.labels.units
        unit = np.eye(len(names))
        quantities: list[Quantity] = []
        rows: list[Array] = []
        rubbing: set[str] = set()
        for drive, speeds in zip(drives, self.preparation.speeds, strict=True):
            own = {f"{drive.name}.{t.name}": t for t in drive.friction}
            rubbing |= own.keys()
            places = [names.index(n) for n in own if n in names]
            terms = [t for n, t in own.items() if n in names]
            if not terms or not speeds:
                continue
            v = np.array(speeds)
            curve = (steady(terms, v) - steady(terms, -v)).T / 2.0 @ unit[places]
            dry, viscous = np.linalg.pinv(np.column_stack([np.ones(len(v)), v])) @ curve
            middle = len(v) // 2
            offset = (steady(terms, v) + steady(terms, -v)).T[middle] / 2.0 @ unit[places]
            effort, rate = ("N", "m/s") if drive.linear else ("N·m", "rad/s")
            between = f"between {v[0]:.3g} and {v[-1]:.3g} {rate}"
            meant = (
                (viscous, "N·s/m" if drive.linear else "N·m·s/rad", f"slope {between}"),
                (dry, effort, f"what the line {between} has at standstill"),
                (curve[middle], effort, f"at {v[middle]:.3g} {rate}"),
                (offset, effort, "constant torque"),
            )
            for kind, (row, dimension, meaning) in zip(FRICTION, meant, strict=True):
                name = f"{drive.name}.{kind}"
                quantities.append(Quantity(name, dimension, drive.name, kind, meaning))
                rows.append(row)
        for k, name in enumerate(names):
            if name not in rubbing:
                quantities.append(Quantity(name, units[k], None, "base", base.expression(k)))
                rows.append(unit[k])
        return tuple(quantities), np.array(rows)

    @property
    def compared(self) -> list[int]:
        """Positions of the quantities by which robots of the type are told apart."""
        return [k for k, q in enumerate(self.told[0]) if q.kind in ("viscous", "coulomb")]


@cache
def prepared(kind: RobotType, preparation: Preparation) -> Prepared:
    """Return a type with its preparation, the same each time in one process."""
    return Prepared(kind, preparation)


@dataclass(frozen=True, eq=False)
class Answer:
    """What rows tell of a type's quantities, without any prior but where the type is."""

    values: Array  # shape (q,)
    covariance: Array  # shape (q, q)
    beta: Array  # base parameters, shape (b,)
    misfit: Array  # rms residual of each channel, per the type's, shape (channels,)

    @property
    def std(self) -> Array:
        """Standard deviations of the values, shape (q,)."""
        return np.sqrt(np.diag(self.covariance))


@dataclass(frozen=True, eq=False)
class Folded:
    """What is kept of a log."""

    information: Information  # about the base parameters
    # weighted moments `Σ w² Yᵀ(τ − Y β)` of its blocks, about its own β, shape (blocks, b)
    moments: Array
    answer: Answer  # what it tells by itself
    day: str | None  # by its clock
    seconds: float  # its length [s]
    temperature: Array  # mean of each drive's, shape (drives,) [°C]; NaN where it is not logged


def fold(path: Path, its: Prepared) -> tuple[str, Folded]:
    """Return the SHA-256 of a log and what it tells: the same of the same bytes.

    Raises:
        InputError: If it cannot be read, or lacks a signal, or changes meanwhile.
        FitError: If no rows are left of it.
    """
    with one_blas_thread():
        log = its.inputs.with_logs(fit=path).logs["fit"][0]
        digest, inputs = log.sha256, its.problem.plant.inputs(log)
        temperature = _temperature(log, [d.name for d in its.problem.plant.robot.drives])
        log = log.in_memory(inputs.names)
        smoothing = limited(its.problem.smoothing, log)
        problem = replace(its.problem, recordings=(log,), smoothing=smoothing)
        line = problem.timelines[0]
        rows = problem.window_count if problem.weak else line.used
        parts = problem.information_blocks(BLOCKS, max(int(rows), BLOCKS))
        information = reduce(add, parts)
        _, beta = _solved(information, its)
        moments = np.array([_moment(part, beta, its) for part in parts])
        answer = answered(information, moments, its)
        log.refuse_changed()
        day, seconds = day_of(log.epoch), line.duration
        return digest, Folded(information, moments, answer, day, seconds, temperature)


def _temperature(log: Recording, drives: Sequence[str]) -> Array:
    means = []
    for name in (f"u.{drive}.temperature" for drive in drives):
        told = log.whole([name]).values if name in log.signals else np.empty(0)
        means.append(np.mean(told[np.isfinite(told)]) if np.isfinite(told).any() else np.nan)
    return np.array(means)


def _moment(information: Information, beta: Array, its: Prepared) -> Array:
    weights = np.array([its.weights[c] for c in information.channels])
    return np.asarray(weights**2 @ information.moments(beta))


def _solved(information: Information, its: Prepared) -> tuple[Array, Array]:
    """Return the triangle with the ridge, shape (b, b), and the solution β."""
    total = information.combined(its.weights).factor
    factor = triangle_of(np.vstack([total, its.ridge]))
    R = factor[:-1, :-1]
    return R, np.asarray(scipy.linalg.solve_triangular(R, factor[:-1, -1]))


def answered(information: Information, moments: Array, its: Prepared) -> Answer:
    """Return what information tells, with deviations of at least those of its parts.

    Args:
        moments: `Σ w² Yᵀ(τ − Y β)` of each part, shape (parts, b).
    """
    R, beta = _solved(information, its)
    _, matrix = its.told
    half = scipy.linalg.solve_triangular(R, matrix.T, trans="T")  # (b, q), of independent rows
    shifts = moments @ scipy.linalg.solve_triangular(R, half)
    count = len(moments)
    energy = np.array([t.residual_energy(beta) for t in information.triangles])
    rows = np.array([max(t.rows, 1) for t in information.triangles])
    misfit = np.sqrt(energy / rows) / its.preparation.sigma
    covariance = half.T @ half * max(1.0, float(np.mean(misfit**2)))
    jackknife = count / max(count - 1, 1) * np.sum((shifts - shifts.mean(axis=0)) ** 2, axis=0)
    more = np.sqrt(np.maximum(1.0, jackknife / np.diag(covariance)))
    covariance *= more[:, None] * more
    return Answer(matrix @ beta, (covariance + covariance.T) / 2.0, beta, misfit)


def together(logs: Sequence[Folded], its: Prepared) -> Answer:
    """Return what several logs of one robot tell, whose order fixes the order of the sum."""
    if len(logs) == 1:
        return logs[0].answer
    with one_blas_thread():
        information = reduce(add, (log.information for log in logs))
        _, beta = _solved(information, its)
        of_logs = [_moment(log.information, beta, its) for log in logs]
        if len(logs) < 4:  # from which on intervals are judged by the scatter of logs
            parts = [
                log.moments + total / len(log.moments)
                for log, total in zip(logs, of_logs, strict=True)
            ]
            return answered(information, np.vstack(parts), its)
        return answered(information, np.array(of_logs), its)


def save(path: Path, digest: str, folded: Folded) -> None:
    """Write what is kept of a log as an NPZ file without what its type shares."""
    triangles, answer = folded.information.triangles, folded.answer
    packed = [t.factor[np.triu_indices(len(t.factor))] for t in triangles]
    upper = np.triu_indices(len(answer.values))
    write_arrays(
        path,
        {
            "format": np.array(VERSION),
            "log": np.array(digest),
            "columns": np.concatenate([t.columns for t in triangles]).astype(np.uint16),
            "counts": np.array([len(t.columns) for t in triangles]),
            "rows": np.array([t.rows for t in triangles]),
            "factors": np.concatenate(packed),
            "moments": folded.moments,
            "values": answer.values,
            "covariance": answer.covariance[upper],
            "beta": answer.beta,
            "misfit": answer.misfit,
            "day": np.array(folded.day or ""),
            "seconds": np.array(folded.seconds),
            "temperature": folded.temperature,
        },
    )


def load(path: Path, its: Prepared) -> Folded:
    """Return what `save` wrote.

    Raises:
        InvalidRecording: If it is damaged.
    """
    try:
        data = read_arrays(path)
        if str(data["format"]) != VERSION:
            raise ValueError(f"format {data['format']}")
        triangles, first, start = [], 0, 0
        for count, rows in zip(data["counts"].tolist(), data["rows"].tolist(), strict=True):
            factor = np.zeros((count + 1, count + 1))
            size = (count + 1) * (count + 2) // 2
            factor[np.triu_indices(count + 1)] = data["factors"][start : start + size]
            columns = data["columns"][first : first + count].astype(np.intp)
            triangles.append(Triangle(columns, factor, rows))
            first, start = first + count, start + size
        values = data["values"]
        covariance = np.zeros((len(values), len(values)))
        covariance[np.triu_indices(len(values))] = data["covariance"]
        covariance += np.triu(covariance, 1).T
        return Folded(
            Information(its.problem.labels, its.problem.channels, tuple(triangles)),
            data["moments"],
            Answer(values, covariance, data["beta"], data["misfit"]),
            str(data["day"]) or None,
            float(data["seconds"]),
            data["temperature"],
        )
    except UNREADABLE as problem:
        raise InvalidRecording(
            "what was kept of a log is damaged",
            argument=path.name,
            got=str(problem)[:200],
            cure="remove it, and the log is read anew",
        ) from problem
