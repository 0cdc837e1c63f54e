"""Statistical comparison of two identifications of one robot.

What may have changed is a list of quantities: of each drive's friction what is viscous, what hardly
depends on the speed (Coulomb friction with all that bends near standstill, in the proportions that
were fitted), and any term of its own; of each body its ten inertial parameters; of each column of
the user's own its parameter. Each is estimated and tested as the one change of the base parameters,
with all that both sets of logs say (`difference`), without prior or constraints, so that the
nominal model can neither cause nor hide a change.

Many quantities are tested at once, and one change looks like others, only worse. So they are found
one by one: of those that stand by Holm's step-down procedure [Holm1979], which keeps the
family-wise error rate, the probability of one or more false alarms, at `ALARM`, the one that
explains most; then, of what this one leaves, the next, until none stands.

Motion of another kind shows another part of the friction's curve, and what no model takes of it is
then another bias on each side, more than what a fit leaves over of its own motion can tell. So
friction is compared only between logs that slide at like speeds, and is else free to have changed
by however much. Of motions of one kind blocks of the logs show what misfit does to a friction term,
so that there it counts only as far as the two are less alike than those (`_absorbed`). A body's ten
columns take what no friction term does, and few blocks do not show: there it counts in full. The
joints' offsets are always free: the zero of a torque sensor, and gravity under a base that is not
quite level, are a log's and a motion's own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from heft.arrays import Array
from heft.dynamics import Drive, Offset, Term, steady
from heft.errors import InputError, InvalidRecording, InvalidSetting
from heft.estimators import Noise
from heft.files import UNREADABLE, file_hash, read_arrays
from heft.fit import STEADY, Earlier, Misfit
from heft.information import PARAMETER_COUNT, Information
from heft.plants import extended_base, plant_of, structural_base

from .contract import errors_before_and_after
from .difference import ABSORBED, ChangeEstimate, Difference
from .identified import Identified

ALARM = 0.05  # chance of one or more false alarms in a comparison where nothing changed
LIKE = 0.56  # share of sliding at like speeds, in the mean of all drives, to compare friction from
# Likewise of two motions of one kind: at least .78 in 57 pairs of simulated logs of quick joints,
# where it is .51 to .66 of motions of two kinds.
ONE_KIND = 0.8
SHOWN_LESS = 0.1  # variance of misfit that blocks never show of friction, of what fits leave

Kind = Literal["friction", "body", "own"]


@dataclass(frozen=True)
class Side:
    """One of the two identifications to be compared."""

    identified: Identified  # results, read from their folder
    evidence: Earlier  # what the logs say of the base parameters β
    sigma: Array  # standard deviation of each channel's residual, shape (channels,)
    matrix: Array  # K with β = K π, shape (b, p) for p standard parameters
    # D of the consistent standard parameters, DᵀD their covariance, shape (any, p)
    deviations: Array

    @property
    def name(self) -> str:
        """The folder of the results, as text."""
        return str(self.identified.folder)

    @property
    def sigma_of(self) -> dict[str, float]:
        """Standard deviation of the residual, by channel."""
        return dict(zip(self.evidence.information.channels, self.sigma.tolist(), strict=True))

    @cached_property
    def places(self) -> dict[str, int]:
        """Places of the standard parameters by name."""
        return {n: k for k, n in enumerate(plant_of(self.identified.robot).labels.names)}

    def columns(self, *names: str) -> Array:
        """Return the columns of K of standard parameters, shape (b, names)."""
        return self.matrix[:, [self.places[n] for n in names]]

    @staticmethod
    def load(folder: Path, own_columns: Path | None = None) -> Side:
        """Read a folder of results.

        Args:
            own_columns: The Python file that it was identified with, if it was; it is run.

        Raises:
            InputError: If it is no such folder, lacks what a comparison needs, its base
                parameters do not match its robot, or it was identified with another file of own
                columns.
        """
        identified = Identified.load(folder, own_columns)
        try:
            path = folder / "information.npz"
            data = read_arrays(path)
            sigma, memory = (np.asarray(data[k], dtype=float) for k in ("sigma", "memory"))
            evidence = Earlier.load(path, STEADY)
            if isinstance(evidence, Information):
                rows = np.array([t.rows for t in evidence.triangles], dtype=float)
                evidence = Earlier.like(evidence, Noise(sigma, memory, rows))
            side = Side(
                identified,
                evidence,
                sigma,
                np.asarray(data["base_matrix"], dtype=float),
                _deviations(identified),
            )
            if not sigma.shape == memory.shape == (len(side.evidence.information.channels),):
                raise ValueError("noise of other channels")
            numbers = (sigma, memory, side.matrix, side.deviations)
            if not all(np.isfinite(part).all() for part in numbers):
                raise ValueError("numbers that are not finite")
        except (*UNREADABLE, InvalidRecording) as problem:
            raise InputError(
                "the folder does not hold what a comparison needs",
                argument=str(folder / "information.npz"),
                got=f"{type(problem).__name__}: {problem}",
                cure="identify again with this version of heft",
            ) from problem
        base = structural_base(plant_of(identified.robot))
        if side.evidence.origin is not None:  # which says what its base parameters are of
            same = side.matrix.shape == (len(side.evidence.information.labels), len(base.standard))
        else:
            same = side.matrix.shape == base.matrix.shape and np.allclose(side.matrix, base.matrix)
            same = same and len(side.evidence.information.labels) == len(base.labels)
        if not same:
            raise InputError(
                "the folder's base parameters are not those of its robot",
                argument=str(folder),
                cure="identify again with this version of heft; state gains of drives that were "
                "found beside contacts, and leave gain_std out",
            )
        return side


@dataclass(frozen=True)
class Change:
    """Difference of one quantity between two identifications, with its significance."""

    kind: Kind  # `friction`, `body`, or `own` of a column of the user's own
    name: str  # joint or motor, or body, or parameter of an own column
    # what of it: a term of friction, or the mass. A body's test is of all of its ten parameters,
    # whatever becomes of the mass
    quantity: str
    unit: str  # unit of the numbers
    # before, after: what the earlier and the later identification state, if anything
    before: float | None
    after: float | None
    # after less before, with its standard error, if this alone changed; NaN where the logs do not
    # show it
    difference: tuple[float, float]
    # p-value of the hypothesis of no change; in a `Comparison` adjusted by Holm's rule over all
    # changes
    probability: float
    # size that is found in nine of ten if this alone changed; infinite of a body's ten parameters,
    # and where the logs do not show it
    least: float

    @property
    def clear(self) -> bool:
        """Whether the change is significant: its p-value is at most `ALARM`."""
        return self.probability <= ALARM


@dataclass(frozen=True)
class Curves:
    """Steady-state friction curves of one joint without load, for both identifications."""

    name: str  # joint
    linear: bool  # whether the joint is prismatic
    velocity: Array  # velocities within the range of both logs, shape (n,) [rad/s or m/s]
    # before, after: friction, shape (n,) [N·m or N]
    before: Array
    after: Array
    # before_std, after_std: standard errors, shape (n,) [N·m or N]
    before_std: Array
    after_std: Array


@dataclass(frozen=True)
class Comparison:
    """Differences between two identifications of one robot."""

    robot: str  # name of the robot
    # before, after: the two folders
    before: str
    after: str
    changes: tuple[Change, ...]  # all quantities compared: friction, then bodies, then own columns
    curves: tuple[Curves, ...]  # friction curves of each joint that could be compared
    # if a body changed, each link with the share of the change of all bodies (of the weighted sum
    # of squares) that a change of this link alone explains, largest first
    suspects: tuple[tuple[str, float], ...]
    notes: tuple[str, ...]  # remarks on the validity of the comparison
    likeness: Mapping[str, float]  # by drive, the share of sliding at like speeds
    # drives whose friction is not compared, since the logs slide at unlike speeds
    withheld: tuple[str, ...]
    # torque errors of both as sentences; none where they are alike, or a folder states none
    errors: tuple[str, ...]

    def of(self, kind: Kind) -> list[Change]:
        """Return the changes of a kind."""
        return [c for c in self.changes if c.kind == kind]


def compare(before: Path, after: Path, own_columns: Path | None = None) -> Comparison:
    """Compare two identifications of one robot, from independent logs; p-values are Holm's.

    Args:
        own_columns: The Python file that both were identified with, if they were; it is run.

    Raises:
        InputError: If a folder holds no results, or lacks what a comparison needs.
        InvalidSetting: If the robots differ, or one result includes the other's information.
    """
    a, b = (Side.load(folder, own_columns) for folder in (before, after))
    _require_same_robot(a, b)
    _require_independent(a, b)
    a, b = _alike(a, b)
    robot = a.identified.robot
    notes = _notes(a, b)
    likeness = _likeness(a, b)
    # A kind of motion is the whole robot's, and the mean tells it with less scatter than a drive.
    unlike = bool(likeness) and np.mean(list(likeness.values())) < LIKE
    withheld = tuple(likeness) if unlike else ()
    if withheld:
        notes.append(_reason(likeness, withheld))
    friction = (q for q in _of_friction(a, b) if q.name not in withheld)
    asked = [*friction, *_of_bodies(a, b), *_of_own_columns(a, b)]
    weights = np.sqrt(2.0 / (a.sigma**2 + b.sigma**2))
    difference = Difference.of(a.evidence, b.evidence, weights)
    if withheld:
        difference = difference.beside(_all_friction(a, withheld))
    offsets = _offsets(a)
    if offsets.size:
        difference = difference.beside(offsets)
    estimates, shares = _stepwise(difference, asked, _absorbed(likeness))
    changes = tuple(
        q.changed(e, p, ALARM / len(asked)) for q, (e, p) in zip(asked, estimates, strict=True)
    )
    curves = []
    for drive in (d for d in robot.drives if d.friction and d.name not in withheld):
        drawn = _curves(drive, a, b)
        if drawn is None:
            notes.append(f"friction of {drive.name}: not seen in both directions by both")
        else:
            curves.append(drawn)
    of_links = [(k.name, shares[k.body]) for k in robot.bodies_links if k.body in shares]
    suspects = tuple(sorted(of_links, key=lambda item: -item[1]))
    sides = robot.name, a.name, b.name, changes, tuple(curves), suspects, tuple(notes)
    return Comparison(*sides, likeness, withheld, _errors(a, b))


def _errors(*sides: Side) -> tuple[str, ...]:
    stated = [s.identified.estimate.get("torque_errors") for s in sides]
    entries = [entry for entry in stated if entry]
    if len(entries) < len(sides) or entries[0] == entries[1]:
        return ()
    return tuple(errors_before_and_after(entry) for entry in entries)


def _alike(a: Side, b: Side) -> tuple[Side, Side]:
    """Return both sides in common base parameters and channels.

    One that was joined with a run of other sensors, or of a limb, tells more of them; of what one
    side alone tells no change shows.

    Raises:
        InvalidSetting: If they differ, and one does not say what its base parameters are of.
    """
    one, two = a.evidence, b.evidence
    alike = one.information.channels == two.information.channels
    if alike and a.matrix.shape == b.matrix.shape and np.allclose(a.matrix, b.matrix):
        return a, b
    unsaid = [s.name for s in (a, b) if s.evidence.origin is None]
    if unsaid:
        raise InvalidSetting(
            "the two tell other base parameters, and one does not say of which it is",
            argument=", ".join(unsaid),
            cure="identify again with this version of heft",
        )
    plant = plant_of(a.identified.robot)
    base = extended_base(plant, structural_base(plant), np.vstack([a.matrix, b.matrix]))
    more = (c for c in two.information.channels if c not in one.information.channels)
    channels = (*one.information.channels, *more)
    sides = []
    for side, other in ((a, b), (b, a)):
        onto = side.matrix[:, list(base.kept)]
        evidence = side.evidence.on(onto, channels, base.labels, plant.robot)
        sigmas = other.sigma_of | side.sigma_of
        sigma = np.array([sigmas[c] for c in channels])
        sides.append(replace(side, evidence=evidence, sigma=sigma, matrix=base.matrix))
    return sides[0], sides[1]


def _likeness(a: Side, b: Side) -> dict[str, float]:
    """Return the share of sliding at like speeds, by drive; see `Misfit.alike`."""
    first, second = (
        s.identified.deviation.misfits if s.identified.deviation is not None else {} for s in (a, b)
    )
    return {name: m.alike(second[name]) for name, m in first.items() if name in second}


def _absorbed(likeness: Mapping[str, float]) -> float:
    """Return the variance of misfit that blocks do not show of friction, of what fits leave.

    What misfit does to a difference goes with that of the conditions. A part of this is chance,
    from one sample of a kind of motion to the next, and so from block to block.
    """
    unlike = 1.0 - np.mean(list(likeness.values())) if likeness else 1.0
    by_chance = (1.0 - ONE_KIND) / max(unlike, 1.0 - ONE_KIND)
    return float(max(SHOWN_LESS, ABSORBED * (1.0 - by_chance**2)))


def _reason(likeness: Mapping[str, float], withheld: Sequence[str]) -> str:
    mean = np.mean(list(likeness.values()))
    shares = ", ".join(f"{name} {likeness[name]:.0%}" for name in withheld)
    return (
        "friction is not compared where the two sets of logs slide at unlike speeds, since what no "
        f"model of friction takes would pass for a change: alike is {shares} of the time, in the "
        f"mean {mean:.0%} ({LIKE:.0%} is asked). Log motion of the same kind"
    )


def _deviations(identified: Identified) -> Array:
    """Return D of the standard parameters, DᵀD their covariance, shape (any, p).

    Without a jackknife they are those of the stated covariance.
    """
    if identified.deviation is not None:
        return identified.deviation.deviations
    plant, solution = plant_of(identified.robot), identified.solution
    places = [solution.labels.names.index(n) for n in plant.space.labels.names]
    values, vectors = np.linalg.eigh(np.asarray(solution.covariance)[np.ix_(places, places)])
    factor = (vectors * np.sqrt(np.maximum(values, 0.0))).T
    return np.asarray(factor @ plant.space.matrix.T)


@dataclass(frozen=True)
class _Quantity:
    # kind, name, quantity, unit, before, after: as of `Change`
    kind: Kind
    name: str
    quantity: str
    unit: str
    before: float | None
    after: float | None
    # K, where the difference of the base parameters is K δ, shape (b, d); δ begins with the number
    # that is told
    columns: Array
    body: int | None = None  # of a body, its place; None of friction

    def changed(self, estimate: ChangeEstimate, probability: float, alarm: float) -> Change:
        difference = float(estimate.values[0]), float(estimate.std[0])
        about = self.kind, self.name, self.quantity, self.unit, self.before, self.after
        return Change(*about, difference, probability, estimate.least(alarm))


def _stepwise(
    difference: Difference, asked: Sequence[_Quantity], absorbed: float
) -> tuple[list[tuple[ChangeEstimate, float]], dict[int, float]]:
    """Return changes with p-values by Holm's procedure, and each body's share of the change.

    Args:
        absorbed: Of friction, see `_absorbed`.

    Returns:
        Each quantity's change beside those found before it, with its adjusted p-value; and if a
        body changed, the share that each explains of the change of all bodies, by its place.
    """
    tested: dict[int, tuple[ChangeEstimate, float]] = {}
    shares: dict[int, float] = {}
    least = 0.0
    while len(tested) < len(asked):
        others = {
            k: difference.change(q.columns, absorbed if q.kind == "friction" else ABSORBED)
            for k, q in enumerate(asked)
            if k not in tested
        }
        adjusted = {k: max(least, min(1.0, len(others) * c.probability)) for k, c in others.items()}
        clear = [k for k in others if adjusted[k] <= ALARM]
        if not clear:
            tested |= {k: (others[k], adjusted[k]) for k in others}
            break
        chosen = max(clear, key=lambda k: others[k].explained)
        tested[chosen], least = (others[chosen], adjusted[chosen]), adjusted[chosen]
        if asked[chosen].body is not None and not shares:
            bodies = [q for q in asked if q.body is not None]
            every = difference.change(np.hstack([q.columns for q in bodies])).explained
            shares = {
                q.body: difference.change(q.columns).explained / every
                for q in bodies
                if q.body is not None
            }
        difference = difference.beside(asked[chosen].columns)
    return [tested[k] for k in range(len(asked))], shares


def _of_friction(a: Side, b: Side) -> Iterator[_Quantity]:
    models = [side.identified.friction for side in (a, b)]
    stated = [{**model["full"], **model["simple"]} for model in models]
    for drive in a.identified.robot.drives:
        together = [t for t in drive.friction if t.dictionary and not t.loaded]
        for term in drive.friction:
            if term.dictionary or isinstance(term, Offset):
                continue
            column = a.columns(f"{drive.name}.{term.name}")
            before, after = (values.get(f"{drive.name}.{term.name}") for values in stated)
            unit = term.unit(drive.linear)
            yield _Quantity("friction", drive.name, term.name, unit, before, after, column)
        columns = a.columns(*(f"{drive.name}.{t.name}" for t in together))
        column = columns @ _proportions(drive, together, a, b)
        if column.any():
            before, after = (values.get(f"{drive.name}.coulomb") for values in stated)
            unit = "N" if drive.linear else "N·m"
            yield _Quantity("friction", drive.name, "coulomb", unit, before, after, column[:, None])


def _offsets(a: Side) -> Array:
    """Return the columns of the joints' offsets and the sensors' biases, shape (b, offsets)."""
    robot = a.identified.robot
    offsets = ((d, t) for d in robot.drives for t in d.friction if isinstance(t, Offset))
    return a.columns(*(f"{d.name}.{t.name}" for d, t in offsets), *robot.bias_names)


def _all_friction(a: Side, drives: Sequence[str]) -> Array:
    """Return the columns of all friction terms of drives, shape (b, terms)."""
    chosen = (d for d in a.identified.robot.drives if d.name in drives)
    return a.columns(*(f"{d.name}.{t.name}" for d in chosen for t in d.friction))


def _proportions(drive: Drive, terms: Sequence[Term], a: Side, b: Side) -> Array:
    """Return mean proportions of terms in both fits, for friction 1 in fast sliding, (terms,)."""
    names = [f"{drive.name}.{t.name}" for t in terms]
    values = np.array(
        [sum(s.identified.friction["full"].get(n, 0.0) for s in (a, b)) for n in names]
    )
    # at 1000 rad/s or m/s friction has all its Coulomb part and no Stribeck effect
    size = float((values @ steady(terms, np.array([1e3])))[0]) if len(terms) else 0.0
    return values / size if size > 0.0 else np.zeros(len(terms))


def _of_bodies(a: Side, b: Side) -> Iterator[_Quantity]:
    robot = a.identified.robot
    for k, name in enumerate(robot.tree.names):
        columns = a.matrix[:, PARAMETER_COUNT * k : PARAMETER_COUNT * (k + 1)]
        if columns.any():
            links = {f"{link.name}.mass" for link in robot.bodies_links if link.body == k}
            every = [side.identified.estimate["parameters"] for side in (a, b)]
            before, after = (
                sum(float(e["value"]) for e in entries if e["name"] in links) for entries in every
            )
            yield _Quantity("body", name, "mass", "kg", before, after, columns, k)


def _of_own_columns(a: Side, b: Side) -> Iterator[_Quantity]:
    own = a.identified.robot.own_columns
    for column in () if own is None else own.columns:
        change = a.columns(column.name)
        if change.any():
            before, after = (s.identified.friction["full"][column.name] for s in (a, b))
            yield _Quantity("own", column.name, "parameter", column.unit, before, after, change)


def _curves(drive: Drive, a: Side, b: Side) -> Curves | None:
    """Return a drive's friction curves; None if either side did not see both directions."""
    ends = [s.identified.fastest.get(drive.name) for s in (a, b)]
    if any(e is None for e in ends):
        return None
    top = min(min(-e[0], e[1]) for e in ends if e is not None)
    if not top > 0.0:
        return None
    curves = [_Friction.of(s, drive) for s in (a, b)]
    half = np.geomspace(1e-2 * top, top, 30)
    velocity = np.concatenate([-half[::-1], half])
    rows = steady(drive.friction, velocity)
    return Curves(
        drive.name,
        drive.linear,
        velocity,
        *(c.values @ rows for c in curves),
        *(c.std(rows, c.unseen(velocity)) for c in curves),
    )


@dataclass(frozen=True)
class _Friction:
    values: Array  # coefficients, shape (terms,)
    deviations: Array  # their deviations, shape (any, terms)
    # what the model leaves over of the drive's effort; None if it is not known
    misfit: Misfit | None

    @staticmethod
    def of(side: Side, drive: Drive) -> _Friction:
        identified, names = side.identified, [f"{drive.name}.{t.name}" for t in drive.friction]
        places = [side.places[n] for n in names]
        misfits = identified.deviation.misfits if identified.deviation is not None else {}
        values = np.array([identified.friction["full"].get(n, 0.0) for n in names])
        return _Friction(values, side.deviations[:, places], misfits.get(drive.name))

    def unseen(self, velocity: Array) -> Array:
        """Return the part of U that another motion may show, shape (N,) [N·m or N]."""
        return (
            np.zeros(len(velocity))
            if self.misfit is None
            # a tenth of what is unknown of speeds hardly seen is what another motion shows
            else 0.1 * self.misfit.unseen(velocity)
        )

    def std(self, looks: Array, unseen: Array) -> Array:
        """Return the standard deviation of combinations of the terms, shape (N,)."""
        return np.asarray(np.hypot(np.linalg.norm(self.deviations @ looks, axis=0), unseen))


def _require_same_robot(a: Side, b: Side) -> None:
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
    for taker, giver in ((a, b), (b, a)):
        given = _hashes(taker, "given")
        if given and file_hash(giver.identified.folder / "information.npz") in given:
            raise InvalidSetting(
                "one of the two was identified with the other's information, so that what "
                "changed is averaged away",
                argument=f"{a.name}, {b.name}",
                got=f"{taker.name} was given {giver.name}",
                cure="identify the later logs without --given",
            )


def _hashes(side: Side, role: str) -> set[str]:
    return {i["sha256"] for i in side.identified.estimate["inputs"] if i["role"] == role}


def _failed(side: Side) -> str:
    return ", ".join(c["name"] for c in side.identified.estimate["checks"] if c["status"] == "fail")


def _notes(a: Side, b: Side) -> list[str]:
    notes = [
        f"{s.name}: its verdict is poor ({failed}), so that its deviations may be too small, and "
        "changes hide in what is wrong; mend that and identify both again"
        for s in (a, b)
        if (failed := _failed(s))
    ]
    notes += [
        f"{s.name}: an earlier heft wrote it, and what friction models miss is not counted; "
        "identify again for deviations that count it"
        for s in (a, b)
        if s.evidence.misfit is None
    ]
    if _hashes(a, "fit") & _hashes(b, "fit"):
        notes.append("the two share logs: what changed is there in only a part of the data")
    if _hashes(a, "model") != _hashes(b, "model"):
        notes.append(
            "the two model files differ: masses that the data see little of may differ for that"
        )
    gains = [
        {j: e["gain"] for j, e in s.identified.estimate["joints"].items() if e.get("gain")}
        for s in (a, b)
    ]
    unlike = [
        f"{j} {gains[0].get(j, math.nan):.4g} before and {gains[1].get(j, math.nan):.4g} after"
        for j in {**gains[0], **gains[1]}
        if not math.isclose(gains[0].get(j, math.nan), gains[1].get(j, math.nan), rel_tol=1e-6)
    ]
    if unlike:
        notes.append(
            f"torque per current differs [N·m/A]: {', '.join(unlike)}; friction and masses of what "
            "these drives move scale with it, and that is no change of the robot. State one set of "
            "gains (--with) and identify both again"
        )
    return notes
