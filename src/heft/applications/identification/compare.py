"""Statistical comparison of two identifications of one robot.

Base parameters are compared as estimated by least squares without prior or constraints, so that
the nominal model can neither cause nor hide a change; friction as the curve of non-negative terms,
which has no prior either and differs far less from one motion to another than terms that all but
depend on each other. The two sets of logs are independent, so the covariance of a difference is the
sum of the two. Deviations are the jackknife's over blocks of the logs, since what no model takes
differs from block to block as it differs from log to log; they are known from so few blocks that
tests are Student's, with a degree of freedom less than there are blocks. Many numbers are tested at
once: Holm's step-down procedure [Holm1979] over all of them keeps the family-wise error rate, the
probability of one or more false alarms, at `ALARM`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import scipy.special

from heft.arrays import Array
from heft.dynamics import Drive, Term, steady
from heft.errors import InputError, InvalidSetting
from heft.files import UNREADABLE, file_hash, read_arrays
from heft.information import PARAMETER_COUNT, Directions, frame_change
from heft.models import Robot
from heft.plants import RobotPlant, structural_base

from .misfit import Misfit
from .results import SEEN, Identified

ALARM = 0.05  # chance of one or more false alarms in a comparison where nothing changed
SPEEDS = (0.3, 0.6, 1.0)  # of the top speed that both saw, where friction is compared
UNSEEN = 0.1  # share of what is unknown of speeds hardly seen that another motion shows
CURVE_POINTS = 60
DEPENDENT = 1e-8  # relative eigenvalue below which friction at two speeds is one number
GROUPED = 1e-9  # of a link's ten, what the coefficients of base parameters leave of a zero

Kind = Literal["friction", "base", "mass"]


@dataclass(frozen=True)
class Side:
    """One of the two identifications to be compared.

    Attributes:
        identified: Results, read from their folder.
        values: Base parameters β by least squares, shape (b,); NaN where not identifiable.
        covariance: Covariance of β, shape (b, b).
        matrix: K with β = K π, shape (b, p) for p standard parameters.
        deviations: D of the consistent standard parameters, DᵀD their covariance, shape (any, p).
        freedom: Degrees of freedom of deviations.
        fastest: Range of sliding velocity, backward and forward, of each drive with friction
            [rad/s or m/s].
    """

    identified: Identified
    values: Array
    covariance: Array
    matrix: Array
    deviations: Array
    freedom: float
    fastest: Mapping[str, tuple[float, float]]

    @property
    def name(self) -> str:
        """The folder of the results, as text."""
        return str(self.identified.folder)

    @staticmethod
    def load(folder: Path) -> Side:
        """Read a folder of results.

        Args:
            folder: Folder that `heft identify` wrote.

        Returns:
            The side of a comparison.

        Raises:
            InputError: If it is no such folder, lacks what a comparison needs, or its base
                parameters do not match its robot.
        """
        identified = Identified.load(folder)
        try:
            data = read_arrays(folder / "information.npz")
            joints, ends = data["sliding_joints"], data["sliding_velocities"]
            deviations, freedom = _deviations(identified, data)
            side = Side(
                identified,
                np.asarray(data["base_values"], dtype=float),
                np.asarray(data["base_covariance"], dtype=float),
                np.asarray(data["base_matrix"], dtype=float),
                deviations,
                freedom,
                {str(j): (float(a), float(b)) for j, (a, b) in zip(joints, ends, strict=True)},
            )
            numbers = (side.values, side.covariance, deviations, np.asarray(ends, dtype=float))
            if not all(np.isfinite(part).all() for part in numbers):
                raise ValueError("numbers that are not finite")
        except UNREADABLE as problem:
            raise InputError(
                "the folder does not hold what a comparison needs",
                argument=str(folder / "information.npz"),
                got=f"{type(problem).__name__}: {problem}",
                cure="identify again with this version of heft",
            ) from problem
        base = structural_base(RobotPlant(identified.robot))
        size = len(base.labels)
        same = side.matrix.shape == base.matrix.shape and np.allclose(side.matrix, base.matrix)
        if not same or side.values.shape != (size,) or side.covariance.shape != (size, size):
            raise InputError(
                "the folder's base parameters are not those of its robot",
                argument=str(folder),
                cure="identify again with this version of heft",
            )
        return side


@dataclass(frozen=True)
class Change:
    """Difference of one quantity between two identifications, with its significance.

    Attributes:
        kind: `friction`, `base` or `mass`.
        name: Joint, base parameter or link.
        unit: Unit of the numbers.
        before, after: Value and standard error of each side. Friction is given at the velocity
            where the difference is largest in standard errors.
        difference: After less before, with its standard error.
        probability: p-value of the hypothesis of no change; in a `Comparison` adjusted by Holm's
            rule over all changes.
        speed: Velocity at which friction is given [rad/s or m/s]; None for other kinds, and for an
            offset.
    """

    kind: Kind
    name: str
    unit: str
    before: tuple[float, float]
    after: tuple[float, float]
    difference: tuple[float, float]
    probability: float
    speed: float | None = None

    @property
    def clear(self) -> bool:
        """Whether the change is significant: its p-value is at most `ALARM`."""
        return self.probability <= ALARM


@dataclass(frozen=True)
class Curves:
    """Steady-state friction curves of one joint without load, for both identifications.

    Attributes:
        name: Joint.
        linear: Whether the joint is prismatic.
        velocity: Velocities within the range of both logs, shape (n,) [rad/s or m/s].
        before, after: Friction, shape (n,) [N·m or N].
        before_std, after_std: Standard errors, shape (n,) [N·m or N].
    """

    name: str
    linear: bool
    velocity: Array
    before: Array
    after: Array
    before_std: Array
    after_std: Array


@dataclass(frozen=True)
class Comparison:
    """Differences between two identifications of one robot.

    Attributes:
        robot: Name of the robot.
        before, after: The two folders.
        changes: All quantities compared: friction, then base parameters, then masses.
        curves: Friction curves of each joint that could be compared.
        suspects: If base parameters or masses changed, each link with the share of the change (of
            the weighted sum of squares) that a change of this link alone explains, largest first.
        notes: Remarks on the validity of the comparison.
    """

    robot: str
    before: str
    after: str
    changes: tuple[Change, ...]
    curves: tuple[Curves, ...]
    suspects: tuple[tuple[str, float], ...]
    notes: tuple[str, ...]

    def of(self, kind: Kind) -> list[Change]:
        """Return the changes of a kind."""
        return [c for c in self.changes if c.kind == kind]


def compare(before: Path, after: Path) -> Comparison:
    """Compare two identifications of one robot, from independent logs.

    Args:
        before: Folder of the earlier results.
        after: Folder of the later results.

    Returns:
        The differences, with p-values by Holm's rule.

    Raises:
        InputError: If a folder holds no results, or lacks what a comparison needs.
        InvalidSetting: If the robots differ, or one result includes the other's information.
    """
    a, b = Side.load(before), Side.load(after)
    _require_same_robot(a, b)
    _require_independent(a, b)
    robot = a.identified.robot
    friction, curves, notes = [], [], _notes(a, b)
    for drive in robot.drives:
        if not drive.friction:
            continue
        found = _friction(robot, drive, a, b)
        if found is None:
            notes.append(f"friction of {drive.name}: not seen in both directions by both")
        else:
            friction.append(found[0])
            curves.append(found[1])
    base, rows = _base(robot, a, b)
    changes = by_holm([*friction, *base, *_masses(a, b)])
    changed = any(c.clear and c.kind != "friction" for c in changes)
    suspects = _suspects(robot, a, b, rows) if changed else ()
    return Comparison(robot.name, a.name, b.name, changes, tuple(curves), suspects, tuple(notes))


def _deviations(identified: Identified, data: Mapping[str, Array]) -> tuple[Array, float]:
    """Return deviations of the standard parameters, and their degrees of freedom.

    Without a jackknife they are those of the stated covariance.
    """
    if identified.deviation is not None:
        found = identified.deviation.deviations
        return found, len(found) - 1.0
    plant = RobotPlant(identified.robot)
    names = [str(n) for n in data["parameter_names"]]
    places = [names.index(n) for n in plant.space.labels.names]
    covariance = np.asarray(data["parameter_covariance"], dtype=float)[np.ix_(places, places)]
    values, vectors = np.linalg.eigh(covariance)
    factor = (vectors * np.sqrt(np.maximum(values, 0.0))).T
    return factor @ plant.space.matrix.T, np.inf


def by_holm(changes: Sequence[Change]) -> tuple[Change, ...]:
    """Return the changes with p-values adjusted by Holm's step-down procedure [Holm1979].

    The k-th smallest of m p-values is multiplied by m − k + 1, at most 1, and is at least the one
    before it.
    """
    order = np.argsort([c.probability for c in changes], kind="stable")
    adjusted = np.ones(len(changes))
    least = 0.0
    for k, place in enumerate(order):
        least = max(least, min(1.0, (len(changes) - k) * changes[place].probability))
        adjusted[place] = least
    return tuple(replace(c, probability=float(p)) for c, p in zip(changes, adjusted, strict=True))


def _drive_places(robot: Robot, drive: Drive) -> tuple[list[Term], list[int]]:
    """Return a drive's friction terms that are base parameters, and their places."""
    names = structural_base(RobotPlant(robot)).labels.names
    terms = [t for t in drive.friction if f"{drive.name}.{t.name}" in names]
    return terms, [names.index(f"{drive.name}.{t.name}") for t in terms]


def _friction(robot: Robot, drive: Drive, a: Side, b: Side) -> tuple[Change, Curves] | None:
    """Return the change of a drive's friction; None if either data set does not identify it."""
    terms = drive.friction
    ends = [s.fastest.get(drive.name) for s in (a, b)]
    if not terms or any(e is None for e in ends):
        return None
    top = min(min(-e[0], e[1]) for e in ends if e is not None)
    if not top > 0.0:
        return None
    speeds = top * np.array(SPEEDS)
    before, after = _looks(a, drive, speeds), _looks(b, drive, speeds)
    whole = np.hypot(before.std, after.std)
    difference = after.values - before.values
    single = _probabilities(difference, whole, min(a.freedom, b.freedom))
    clearest = int(np.argmin(single))
    change = Change(
        "friction",
        drive.name,
        "N" if drive.linear else "N·m",
        (float(before.values[clearest]), float(before.std[clearest])),
        (float(after.values[clearest]), float(after.std[clearest])),
        (float(difference[clearest]), float(whole[clearest])),
        # Of looks that depend on each other Bonferroni's bound is nearly what it is.
        min(1.0, float(np.count_nonzero(whole) * single[clearest])),
        float(speeds[clearest]) if clearest < len(speeds) else None,
    )
    curves = [_Friction.of(s, drive) for s in (a, b)]
    half = np.geomspace(1e-2 * top, top, CURVE_POINTS // 2)
    velocity = np.concatenate([-half[::-1], half])
    rows = steady(terms, velocity)
    return change, Curves(
        drive.name,
        drive.linear,
        velocity,
        *(c.values @ rows for c in curves),
        *(c.std(rows, c.unseen(velocity)) for c in curves),
    )


@dataclass(frozen=True)
class _Looks:
    """What is compared of a drive's friction, of one side.

    Attributes:
        values, std: Shape (looks,).
    """

    values: Array
    std: Array


def _looks(side: Side, drive: Drive, speeds: Array) -> _Looks:
    """Return how a drive resists at each speed, and what steady sliding both ways cancels.

    The latter, an offset and what the load adds, trades with gravity, of which the consistent
    bodies keep some: it is taken of the least-squares estimate, as base parameters are.
    """
    terms = drive.friction
    forwards, backwards = steady(terms, speeds), steady(terms, -speeds)
    odd = 0.5 * (forwards - backwards)
    curve = _Friction.of(side, drive)
    unseen = 0.5 * np.hypot(curve.unseen(speeds), curve.unseen(-speeds))
    names, places = _drive_places(side.identified.robot, drive)
    rest = np.array([not odd[terms.index(t)].any() for t in names], dtype=bool)
    at = np.array(places, dtype=np.intp)[rest]
    variance = np.diag(side.covariance)[at]
    known = np.isfinite(variance)
    return _Looks(
        np.append(curve.values @ odd, np.where(known, side.values[at], 0.0)),
        np.append(curve.std(odd, unseen), np.sqrt(np.where(known, variance, np.inf))),
    )


@dataclass(frozen=True)
class _Friction:
    """Friction terms of one drive as one side has them.

    Attributes:
        values: Coefficients, shape (terms,).
        deviations: Their deviations, shape (any, terms).
        misfit: What the model leaves over of the drive's effort; None if it is not known.
    """

    values: Array
    deviations: Array
    misfit: Misfit | None

    @staticmethod
    def of(side: Side, drive: Drive) -> _Friction:
        """Return the friction of a drive."""
        robot, found = side.identified.robot, side.identified
        names = [f"{drive.name}.{t.name}" for t in drive.friction]
        places = [RobotPlant(robot).labels.names.index(n) for n in names]
        misfits = found.deviation.misfits if found.deviation is not None else {}
        values = np.array([found.friction["full"].get(n, 0.0) for n in names])
        return _Friction(values, side.deviations[:, places], misfits.get(drive.name))

    def unseen(self, velocity: Array) -> Array:
        """Return what another motion may show at velocities that were hardly seen, shape (N,)."""
        return (
            np.zeros(len(velocity))
            if self.misfit is None
            else UNSEEN * self.misfit.unseen(velocity)
        )

    def std(self, looks: Array, unseen: Array) -> Array:
        """Return the deviation of linear combinations of the terms, shape (looks,)."""
        return np.asarray(np.hypot(np.linalg.norm(self.deviations @ looks, axis=0), unseen))


def _probabilities(difference: Array, std: Array, freedom: float) -> Array:
    """Return the two-sided p-value of Student's test of each difference, shape (n,)."""
    scale = np.where(std > 0.0, std, 1.0)  # infinite of what is not known
    tails = 2.0 * scipy.special.stdtr(freedom, -np.abs(difference) / scale)
    return np.asarray(np.where(std > 0.0, tails, np.where(difference == 0.0, 1.0, 0.0)))


def _whitening(spread: Array) -> Array:
    """Return W with `W spread Wᵀ = 1`, shape (rank, n)."""
    scale = np.sqrt(np.diag(spread))
    values, vectors = np.linalg.eigh(spread / np.outer(scale, scale))
    whole = values > DEPENDENT * values[-1]
    return np.asarray((vectors[:, whole] / np.sqrt(values[whole])).T / scale)


def _base(robot: Robot, a: Side, b: Side) -> tuple[list[Change], list[int]]:
    """Return the changes of the inertial base parameters, and their indices."""
    base = structural_base(RobotPlant(robot))
    rubbing = {k for d in robot.drives for k in _drive_places(robot, d)[1]}
    std = [np.sqrt(np.maximum(np.diag(s.covariance), 0.0)) for s in (a, b)]
    seen = np.isfinite(std[0]) & np.isfinite(std[1]) & np.isfinite(a.values + b.values)
    rows = [k for k in range(base.rank) if k not in rubbing and seen[k]]
    expressions = base.expressions()
    return [
        Change(
            "base",
            expressions[k],
            base.labels.units[k],
            (float(a.values[k]), float(std[0][k])),
            (float(b.values[k]), float(std[1][k])),
            *_alone(a, b, float(b.values[k] - a.values[k]), std[0][k], std[1][k]),
        )
        for k in rows
    ], rows


def _alone(
    a: Side, b: Side, difference: float, before: float, after: float
) -> tuple[tuple[float, float], float]:
    """Return a difference with its standard error, and the p-value of no change."""
    std = float(np.hypot(before, after))
    found = _probabilities(np.array([difference]), np.array([std]), min(a.freedom, b.freedom))
    return (difference, std), float(found[0])


def _masses(a: Side, b: Side) -> list[Change]:
    """Return the changes of the masses that both data sets identify.

    The standard errors include the prior error of each side, although both may share one model
    file: the test is conservative.
    """
    entries = [{e["name"]: e for e in s.identified.estimate["parameters"]} for s in (a, b)]
    changes = []
    for name, first in entries[0].items():
        second = entries[1].get(name)
        if not name.endswith(".mass") or second is None:
            continue
        if min(first["share"], second["share"]) < SEEN:
            continue
        std = [float(e["std"]) for e in (first, second)]
        changes.append(
            Change(
                "mass",
                name.removesuffix(".mass"),
                "kg",
                (first["value"], std[0]),
                (second["value"], std[1]),
                *_alone(a, b, second["value"] - first["value"], std[0], std[1]),
            )
        )
    return changes


def _suspects(robot: Robot, a: Side, b: Side, rows: list[int]) -> tuple[tuple[str, float], ...]:
    """Return each link with the share of the change that it alone explains, largest first.

    Weighted least squares of the changes of the base parameters on the ten parameters of a link;
    the share is of the weighted sum of squares. Links fixed to one another have equal shares.
    """
    place = np.ix_(rows, rows)
    whiten = _whitening(a.covariance[place] + b.covariance[place])
    target = whiten @ (b.values - a.values)[rows]
    shares: dict[str, float] = {}
    for link in robot.bodies_links:
        first = PARAMETER_COUNT * link.body
        columns = whiten @ a.matrix[rows, first : first + PARAMETER_COUNT]
        columns = columns @ frame_change(link.rotation, link.translation)
        answer = Directions.of(columns, len(target), GROUPED).shortest(target)
        left = np.sum((target - columns @ answer) ** 2) / np.sum(target**2)
        shares[link.name] = float(1.0 - left)
    return tuple(sorted(shares.items(), key=lambda item: -item[1]))


def _require_same_robot(a: Side, b: Side) -> None:
    """Raise `InvalidSetting` with the reason if the two are not of one robot."""
    one, other = a.identified.robot, b.identified.robot
    if one.structure_hash() == other.structure_hash():
        return
    pairs: dict[str, tuple[object, object]] = {
        "joints": (one.joints, other.joints),
        "bodies": (one.tree.names, other.tree.names),
        "gravity": (one.gravity.tolist(), other.gravity.tolist()),
        "friction and drives": (
            [(d.name, d.ratio.tolist(), [t.name for t in d.terms]) for d in one.drives],
            [(d.name, d.ratio.tolist(), [t.name for t in d.terms]) for d in other.drives],
        ),
    }
    differing = [name for name, (x, y) in pairs.items() if x != y] or ["the joints' frames"]
    raise InvalidSetting(
        "the two are results of different robots, whose parameters do not mean the same",
        argument=f"{a.name}, {b.name}",
        got=f"they differ in {', '.join(differing)}",
        expected="one structure and one set of options",
        cure="identify both with the same model file's joints and the same --with",
    )


def _require_independent(a: Side, b: Side) -> None:
    """Raise `InvalidSetting` if one of the two took the other's information."""
    for taker, giver in ((a, b), (b, a)):
        known = _hashes(taker, "given")
        if known and file_hash(giver.identified.folder / "information.npz") in known:
            raise InvalidSetting(
                "one of the two was identified with the other's information, so that what "
                "changed is averaged away",
                argument=f"{a.name}, {b.name}",
                got=f"{taker.name} was given {giver.name}",
                cure="identify the later logs without --given",
            )


def _hashes(side: Side, role: str) -> set[str]:
    return {i["sha256"] for i in side.identified.estimate["inputs"] if i["role"] == role}


def _notes(a: Side, b: Side) -> list[str]:
    """Return what a reader must know before the numbers."""
    notes = [
        f"{s.name}: its verdict is poor, so that its deviations may be too small"
        for s in (a, b)
        if s.identified.estimate["verdict"] == "poor"
    ]
    if _hashes(a, "fit") & _hashes(b, "fit"):
        notes.append("the two share logs: what changed is there in only a part of the data")
    if _hashes(a, "model") != _hashes(b, "model"):
        notes.append(
            "the two model files differ: masses that the data see little of may differ for that"
        )
    return notes
