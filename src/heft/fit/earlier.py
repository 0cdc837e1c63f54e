"""Earlier experiments with the same plant: their information, its noise, and what it is about.

Two experiments with one robot need not tell the same base parameters: sensors inside see bodies
that joint torques see the sum of, a limb that moves alone tells its own. Both are combinations of
the same standard columns, β₁ = K₁ π and β = K π. Where the rows of K₁ are among those of K, `β₁ =
L β` and information about β₁ is information about β; where they are not, K gets more rows first.
What one experiment does not see are columns of zeros in its rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.dynamics import Armature
from heft.errors import InvalidRecording, InvalidSetting, UnlikeLabels, did_you_mean
from heft.estimators import Noise
from heft.files import UNREADABLE, read_arrays
from heft.information import (
    PARAMETER_COUNT,
    BaseParameters,
    ChannelRows,
    Directions,
    Information,
    Labels,
    Triangle,
    triangle_of,
)
from heft.models import Robot
from heft.plants import GAIN, Plant, Problem, RobotPlant

from .conditions import MisfitMoments

P = TypeVar("P", bound="Plant[Any]")
EARLIER = "earlier results"  # channel of what is left where some of it may have changed
TINY = 1e-300
KINDS = ("noise", "common", "moments")  # of what is stored of each channel
FRICTION = "friction"  # names all terms of friction


@dataclass(frozen=True)
class Bodies:
    """Bodies of a robot: which links they are of, and where they hang."""

    names: tuple[str, ...]  # one a body
    links: tuple[str, ...]  # names of the links that each is made of, one a line
    parents: tuple[str, ...]  # name of what each hangs on; empty for the world
    # kind of joint, its rotation, translation, axis, multiplier and offset, shape (bodies, 18)
    places: Array

    @staticmethod
    def of(robot: Robot) -> Bodies:
        """Return the bodies of a robot."""
        tree = robot.tree
        count = len(tree.names)
        links = ["\n".join(sorted(k.name for k in robot.bodies_links if k.body == b))
                for b in range(count)]  # fmt: skip
        numbers = (tree.kind, tree.rotation, tree.translation, tree.axis)
        places = [np.asarray(x, dtype=float).reshape(count, -1) for x in numbers]
        places += [tree.multiplier[:, None], tree.offset[:, None]]
        return Bodies(
            tree.names,
            tuple(links),
            tuple(tree.names[p] if p >= 0 else "" for p in tree.parent),
            np.hstack(places),
        )

    def differing(self, other: Bodies, names: Collection[str]) -> list[str]:
        """Return the names of bodies that differ in another model.

        The first body of either may hang on something else: what holds it does not change it.
        """
        return [n for n in names if not self._alike(self.names.index(n), other, n)]

    def _alike(self, own: int, other: Bodies, name: str) -> bool:
        if name not in other.names:
            return False
        its = other.names.index(name)
        if self.links[own] != other.links[its]:
            return False
        one, two = self.places[own], other.places[its]
        parents = (self.parents[own], other.parents[its])
        if parents[0] == parents[1]:
            # [rad or m], which two readings of one file may differ by
            return bool(np.allclose(one, two, rtol=0.0, atol=1e-9))
        return "" in parents


def columns_called(
    names: Sequence[str], standard: Sequence[str], bodies: Bodies, drives: Sequence[str]
) -> list[int]:
    """Return the indices of the standard columns that a user's names mean, ascending.

    A link names the ten numbers of the body that it is a part of, a joint or motor all terms of its
    drive, `friction` those of all drives but rotor inertia; else a column is named itself, such as
    `elbow.viscous`.

    Args:
        standard: Names of the standard columns, ten a body first.

    Raises:
        InvalidSetting: If a name is none of these.
    """
    of_bodies = PARAMETER_COUNT * len(bodies.names)
    links_of = [set(links.split("\n")) for links in bodies.links]
    columns: set[int] = set()
    for name in names:
        meant = {k for k, column in enumerate(standard) if column == name}
        for b, links in enumerate(links_of):
            if name in links or name == bodies.names[b]:
                meant |= set(range(PARAMETER_COUNT * b, PARAMETER_COUNT * (b + 1)))
        moved = [d for d in drives if name in (d, FRICTION)]
        for k, column in enumerate(standard[of_bodies:], of_bodies):
            if any(column.startswith(f"{d}.") for d in moved):
                inertial = column.endswith(f".{Armature.kind}")
                meant |= set() if inertial and name == FRICTION else {k}
        if not meant:
            valid = (FRICTION, *drives, *sorted(set().union(*links_of)), *standard[of_bodies:])
            raise InvalidSetting(
                "no link, joint or parameter is called so",
                argument="--anew",
                got=name,
                valid=valid,
                cure=did_you_mean(name, valid) or "name a joint, a link, or 'friction' for all",
            )
        columns |= meant
    return sorted(columns)


@dataclass(frozen=True)
class Origin:
    """Standard parameters and noise behind an earlier experiment's base parameters."""

    names: tuple[str, ...]  # of the p standard columns
    matrix: Array  # K with β = K π, shape (b, p)
    bodies: Bodies  # of the robot
    drives: tuple[str, ...]  # names of its drives, in its order
    noise_names: tuple[str, ...]  # name of each channel's standard deviation
    sigma: Array  # that deviation, shape (channels,) [channel's unit]
    memory: Array  # integrated autocorrelation time of the residual, shape (channels,) [rows]
    # of each channel whether unknowns of each sample were eliminated by its deviation, which is
    # then to be kept
    settled: tuple[bool, ...]

    @staticmethod
    def load(data: Mapping[str, Any], channels: int, size: int) -> Origin | None:
        """Return the origin that `stored_origin` and the results wrote; None if the data hold none.

        Raises:
            ValueError: If the arrays are damaged.
            KeyError: If some of them are missing.
        """
        if "body_places" not in data:
            return None
        texts = (
            "standard_names",
            "body_names",
            "body_links",
            "body_parents",
            "drive_names",
            "noise_names",
        )
        names, bodies, links, parents, drives, noise = (tuple(map(str, data[t])) for t in texts)
        keys = ("base_matrix", "body_places", "sigma", "memory")
        matrix, places, sigma, memory = (np.asarray(data[k], dtype=float) for k in keys)
        shapes = (matrix.shape, places.shape, sigma.shape, memory.shape)
        if shapes != ((size, len(names)), (len(bodies), 18), (channels,), (channels,)):
            raise ValueError(f"base parameters, bodies and noise of shapes {shapes}")
        settled = tuple(map(bool, data["noise_settled"]))
        counts = (len(links), len(parents), len(noise), len(settled))
        if counts != (len(bodies), len(bodies), channels, channels):
            raise ValueError("bodies or channels without a name")
        if not all(np.isfinite(x).all() for x in (matrix, places, sigma, memory)):
            raise ValueError("numbers that are not finite")
        body = Bodies(bodies, links, parents, places)
        return Origin(names, matrix, body, drives, noise, sigma, memory, settled)

    def among(self, base: BaseParameters, robot: Robot) -> Array:
        """Return K on the standard columns of a robot, shape (b, its columns).

        Args:
            robot: Robot that was identified, or one that contains it.

        Raises:
            UnlikeLabels: If what is told has no column there, or bodies differ.
        """
        shown = np.flatnonzero(np.any(self.matrix != 0.0, axis=0))
        there = {name: k for k, name in enumerate(base.standard.names)}
        strange = [self.names[j] for j in shown if self.names[j] not in there]
        if any(name.endswith(f".{GAIN}") for name in strange):
            raise UnlikeLabels(
                "earlier results that found gains of drives beside contacts do not add",
                argument="--given",
                got=", ".join(strange[:6]),
                cure="state the gains that they found, leave gain_std out, and identify those logs "
                "anew",
            )
        if strange:
            raise UnlikeLabels(
                "the earlier results tell parameters that this model does not have",
                argument="--given",
                got=", ".join(strange[:6]),
                cure="say the same of friction and of [sensor.NAME] in the file of --with; a "
                "sensor whose wrench these logs do not hold is measured = false",
            )
        own = PARAMETER_COUNT * len(self.bodies.names)
        bodies = dict.fromkeys(self.bodies.names[j // PARAMETER_COUNT] for j in shown if j < own)
        other = self.bodies.differing(Bodies.of(robot), list(bodies))
        if other:
            raise UnlikeLabels(
                "the earlier results are of a robot whose bodies are others",
                argument="--given",
                got=", ".join(other[:6]),
                cure="take the same model file, and say the same of [sensor.NAME] in the file of "
                "--with; a sensor whose wrench these logs do not hold is measured = false",
            )
        matrix = np.zeros((len(self.matrix), len(there)))
        matrix[:, [there[self.names[j]] for j in shown]] = self.matrix[:, shown]
        return matrix


def stored_origin(
    robot: Robot, noise_names: tuple[str, ...], settled: tuple[bool, ...]
) -> dict[str, Any]:
    """Return the arrays that `Origin.load` reads beside those that results hold anyway."""
    bodies = Bodies.of(robot)
    return {
        "body_names": np.array(bodies.names),
        "body_links": np.array(bodies.links),
        "body_parents": np.array(bodies.parents),
        "body_places": bodies.places,
        "drive_names": np.array([d.name for d in robot.drives]),
        "noise_names": np.array(noise_names),
        "noise_settled": np.array(settled, dtype=bool),
    }


@dataclass(frozen=True)
class Earlier:
    """Information of earlier experiments, with what is known of the noise in it.

    Information adds; so does the covariance of its noise. Counted with the new experiment's rows
    alone, noise would be smaller than it is by the share of the rows that are earlier ones.
    """

    information: Information  # about the base parameters β
    # for each channel S with `SᵀS` the covariance of `Yᵀε`, shape (any, b)
    coloured: tuple[Array, ...]
    # for each channel the moments `Yᵀe` of errors that channels share, shape (errors, b)
    common: tuple[Array, ...]
    # for each channel the moments `Yᵀ(τ − Y β)` of blocks, shape (blocks, b)
    moments: tuple[Array, ...]
    misfit: MisfitMoments | None = None  # moments of like conditions; None if they are not known
    # what its base parameters are combinations of; None if that is not known
    origin: Origin | None = None

    @property
    def noise(self) -> Noise:
        """Noise of each channel; deviation and autocorrelation time are 1 where unknown."""
        rows = np.array([t.rows for t in self.information.triangles], dtype=float)
        sigma = memory = np.ones(len(rows))
        if self.origin is not None:
            sigma, memory = self.origin.sigma, self.origin.memory
        coloured, common = (tuple(map(ChannelRows.held, x)) for x in (self.coloured, self.common))
        return Noise(sigma, memory, rows, coloured, common)

    def noise_of(self, others: Collection[str]) -> tuple[tuple[str, ...], dict[str, float]]:
        """Return names of standard deviations of channels but `others`, and settled values."""
        names = self.information.channels
        if self.origin is None:
            return (), {}
        o = self.origin
        parts = zip(names, o.noise_names, o.sigma.tolist(), o.settled, strict=True)
        own = [part for part in parts if part[0] not in others]
        deviations = tuple(channel if settled else name for channel, name, _, settled in own)
        return deviations, {channel: sigma for channel, _, sigma, settled in own if settled}

    def seen_from(self, problem: Problem[P]) -> tuple[Problem[P], Earlier]:
        """Return both in common base parameters and channels, the problem's channels first.

        Returns:
            The problem with base parameters that tell also what these do, and these on them.

        Raises:
            UnlikeLabels: If the earlier results are of another robot, or of other terms.
        """
        extra = [c for c in self.information.channels if c not in problem.channels]
        channels, labels = (*problem.channels, *extra), self.information.labels
        robot = problem.plant.robot if isinstance(problem.plant, RobotPlant) else None
        if labels == problem.labels and not (extra and self.origin is None):
            return problem, self.on(None, channels, labels, robot)
        if self.origin is None or robot is None:
            return problem, self  # what does not add is refused when it is added
        matrix = self.origin.among(problem.base, robot)
        common = problem.telling(matrix)
        return common, self.on(matrix[:, common.base.kept], channels, common.labels, robot)

    def on(
        self,
        onto: Array | None,
        channels: tuple[str, ...],
        labels: Labels,
        robot: Robot | None,
    ) -> Earlier:
        """Return these results on other base parameters β, their own being L β, and more channels.

        Args:
            onto: L, shape (own, b); the identity if not given.
        """
        if channels == self.information.channels and onto is None:
            return self
        information, size = self.information, len(labels)
        place = {c: k for k, c in enumerate(information.channels)}

        def laid(parts: Sequence[Array]) -> tuple[Array, ...]:
            rows = max((len(p) for p in parts), default=0) if parts is not self.coloured else 0
            none = np.zeros((rows, size))
            made = [p if onto is None else p @ onto for p in parts]
            return tuple(made[place[c]] if c in place else none for c in channels)

        if onto is not None:
            information = information.transformed(onto, labels)
        origin = self.origin
        if origin is not None:
            names = tuple(origin.noise_names[place[c]] if c in place else c for c in channels)
            sigma, memory = (
                np.array([x[place[c]] if c in place else 1.0 for c in channels])
                for x in (origin.sigma, origin.memory)
            )
            settled = tuple(origin.settled[place[c]] if c in place else False for c in channels)
            origin = replace(origin, noise_names=names, sigma=sigma, memory=memory, settled=settled)
        misfit = self.misfit
        if misfit is not None:
            drives = [d.name for d in robot.drives] if robot is not None and origin else []
            own = origin.drives if origin is not None else ()
            misfit = misfit.on(onto, [place.get(c) for c in channels], own, drives)
        return Earlier(
            information.among(channels),
            laid(self.coloured),
            laid(self.common),
            laid(self.moments),
            misfit,
            origin,
        )

    def forgetting(self, names: Sequence[str]) -> Earlier:
        """Return what these results tell if the named parameters may have changed since.

        With D the base parameters that a unit of each changed one makes, rows become
        `R (β − D d) = z` of an unknown change d, which is eliminated: `P R β = P z`, P the
        projection that takes R D away. All channels become one, `EARLIER`.

        Raises:
            InvalidSetting: If a name is none of the robot's, or the results are of a version that
                did not write what they are of.
        """
        origin = self.origin
        if origin is None:
            raise InvalidSetting(
                "the earlier results do not say which parameters they are of",
                argument="--anew",
                cure="identify them again, from their logs",
            )
        changed = columns_called(names, origin.names, origin.bodies, origin.drives)
        labels, channels = self.information.labels, self.information.channels
        rows = np.array([t.rows for t in self.information.triangles], dtype=float)
        share = rows / max(float(rows.sum()), 1.0)
        sigma = float(np.exp(share @ np.log(np.maximum(origin.sigma, TINY))))
        weights = sigma / np.maximum(origin.sigma, TINY)
        total = self.information.combined(dict(zip(channels, weights.tolist(), strict=True)))
        rows_of = np.column_stack([total.R, total.z])
        remaining = _without(rows_of, total.R @ origin.matrix[:, changed], total.rows)
        rest = np.zeros((1, remaining.shape[1]))
        rest[0, -1] = total.factor[-1, -1]
        factor = triangle_of(np.vstack([remaining, rest]))
        triangle = Triangle(np.arange(len(labels)), factor, total.rows)
        # Scores Rᵀε of all rows become RᵀP ε, linear in them.
        seen = Directions.of(total.R, total.rows).inverse
        onto = seen @ (seen.T @ (total.R.T @ remaining[:, :-1]))

        def summed(parts: Sequence[Array], stacked: bool) -> tuple[Array]:
            own = [w**2 * p for w, p in zip(weights, parts, strict=True)]
            if stacked:
                return (np.vstack(own) @ onto,)
            return (np.asarray(np.sum(own, axis=0)) @ onto,)

        return Earlier(
            Information(labels, (EARLIER,), (triangle,)),
            summed(self.coloured, True),
            summed(self.common, False),
            summed(self.moments, False),
            None,
            replace(
                origin,
                noise_names=(EARLIER,),
                sigma=np.array([sigma]),
                memory=np.array([float(share @ origin.memory)]),
                settled=(True,),
            ),
        )

    def about(self, base: BaseParameters) -> Information:
        """Return information about other base parameters β, for a design: one weighted channel.

        The standard columns π are E β and what else makes the same β, the columns of N; what the
        earlier experiments tell of those, and of columns that β does not know, is eliminated.
        Rows are weighted by what they are worth, 1/(σ√τ). Of results that do not say what they are
        of the information is returned as it is.

        Args:
            base: Base parameters β; their standard columns are matched by name.
        """
        if self.origin is None:
            return self.information
        own = {name: k for k, name in enumerate(self.origin.names)}
        there = [k for k, name in enumerate(base.standard.names) if name in own]
        matrix = np.zeros((len(self.information.labels), len(base.standard)))
        matrix[:, there] = self.origin.matrix[:, [own[base.standard.names[k]] for k in there]]
        own_names = set(base.standard.names)
        strange = [k for name, k in own.items() if name not in own_names]
        kept = matrix[:, list(base.kept)]
        unseen = np.hstack([matrix - kept @ base.matrix, self.origin.matrix[:, strange]])
        # The rest is rounding.
        unseen = np.where(np.abs(unseen) > 1e-9 * np.abs(self.origin.matrix).max(), unseen, 0.0)
        worth = 1.0 / (self.noise.sigma * np.sqrt(self.noise.autocorrelation_time))
        names = self.information.channels
        total = self.information.combined(dict(zip(names, worth.tolist(), strict=True)))
        rows = np.column_stack([total.R @ kept, total.z])
        remaining = _without(rows, total.R @ unseen, total.rows)
        triangle = Triangle(np.arange(len(base.labels)), triangle_of(remaining), total.rows)
        return Information(base.labels, (EARLIER,), (triangle,))

    @staticmethod
    def like(information: Information, noise: Noise) -> Earlier:
        """Return information without known noise, assumed to have the noise of an estimate."""
        size = len(information.labels)
        none = tuple(np.zeros((0, size)) for _ in information.channels)
        spread = noise.sigma * np.sqrt(noise.autocorrelation_time)
        parts = zip(spread, information.triangles, strict=True)
        factors = (s * t.spread(size)[:-1, :-1] for s, t in parts)
        return Earlier(information, tuple(factors), none, none)

    @staticmethod
    def load(path: Path, instead: str = "") -> Earlier | Information:
        """Read `information.npz` of a folder; bare `Information` if the noise is not known.

        What begins with `instead` takes the place of what has the name without it.

        Raises:
            InvalidRecording: If it is missing, damaged or of another format.
        """
        information = Information.load(path, instead)
        try:
            data = read_arrays(path, instead=instead)
            count = len(information.channels)
            origin = Origin.load(data, count, len(information.labels))
            if "noise_0" not in data:
                if origin is None:
                    return information
                rows = np.array([t.rows for t in information.triangles], dtype=float)
                noise = Noise(origin.sigma, origin.memory, rows)
                return replace(Earlier.like(information, noise), origin=origin)
            size = len(information.labels)
            stored_parts = [
                tuple(_wide(data, f"{kind}_{c}", f"{kind}_columns_{c}", size) for c in range(count))
                for kind in KINDS
            ]
            widths = {part.shape[1:] for parts in stored_parts for part in parts}
            lengths = [{len(part) for part in parts} for parts in stored_parts[1:]]
            if len(widths) > 1 or any(len(n) > 1 for n in lengths):
                raise ValueError("the channels' noise is not of one shape")
            if not all(np.isfinite(part).all() for parts in stored_parts for part in parts):
                raise ValueError("noise that is not finite")
            misfit = MisfitMoments.load(data, count, len(information.labels))
        except UNREADABLE as problem:
            raise InvalidRecording(
                "this is not a file of information", argument=str(path), got=str(problem)[:200]
            ) from problem
        coloured, common, moments = stored_parts
        return Earlier(information, coloured, common, moments, misfit, origin)


def _wide(data: Mapping[str, Array], name: str, place: str, size: int) -> Array:
    """Return a channel's rows on all columns, shape (any, b), stored without columns of zeros.

    Args:
        place: Key of the positions of their columns; earlier versions stored rows on all columns.
    """
    rows = np.asarray(data[name], dtype=float)
    if place not in data:
        return rows
    columns = np.asarray(data[place]).astype(np.intp)
    if rows.ndim != 2 or columns.shape != rows.shape[1:]:
        raise ValueError(f"columns of shape {columns.shape} for noise of shape {rows.shape}")
    if len(columns) and (columns[0] < 0 or columns[-1] >= size or (np.diff(columns) <= 0).any()):
        raise ValueError(f"columns of noise out of range or order, of {size}")
    return ChannelRows(columns, rows).spread(size)


def _without(rows: Array, away: Array, count: int) -> Array:
    """Return rows, (m, n), right-hand side last, projected off unknowns' columns, (m, any)."""
    away = away[:, np.any(away != 0.0, axis=0)]
    if not away.size:
        return rows
    directions = Directions.of(away, count)
    basis = directions.left[:, : directions.rank]
    return np.asarray(rows - basis @ (basis.T @ rows))


def stored(noise: Noise, moments: Sequence[Array]) -> dict[str, NDArray[Any]]:
    """Return an experiment's noise as the arrays that `Earlier.load` reads.

    Args:
        moments: For each channel the moments of blocks, shape (blocks, b).

    Returns:
        Arrays by name: `noise_0`, `common_0`, `moments_0` and so on, a number a channel, and the
        positions of their columns, `noise_columns_0`; none where residuals are treated as white, or
        the estimator is another than least squares.
    """
    if noise.coloured is None or not moments:
        return {}
    size = moments[0].shape[1]
    common = noise.common_errors or (ChannelRows.nothing(0),) * len(noise.coloured)
    arrays: dict[str, NDArray[Any]] = {}
    for c, (factor, errors, own) in enumerate(zip(noise.coloured, common, moments, strict=True)):
        longer = len(factor.values) > size
        short = ChannelRows(factor.columns, triangle_of(factor.values)) if longer else factor
        # a limb's rows hold few columns
        parts = (short, errors, ChannelRows.held(own))
        for kind, part in zip(KINDS, parts, strict=True):
            arrays[f"{kind}_{c}"] = part.values
            arrays[f"{kind}_columns_{c}"] = part.columns
    return arrays
