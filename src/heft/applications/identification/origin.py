"""What the information of an earlier experiment is about, so that another one's can be added.

Two experiments with one robot need not tell the same base parameters: sensors inside see bodies
that joint torques see the sum of, a limb that moves alone tells its own. Both are combinations of
the same standard columns, β₁ = K₁ π and β = K π. Where the rows of K₁ are among those of K, `β₁ =
L β` and information about β₁ is information about β; where they are not, K gets more rows first.
What one experiment does not see are columns of zeros in its rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from heft.arrays import Array
from heft.dynamics import Armature
from heft.errors import InvalidSetting, UnlikeLabels, did_you_mean
from heft.information import PARAMETER_COUNT, BaseParameters
from heft.models import Robot
from heft.plants import GAIN

PLACE_TOLERANCE = 1e-9  # [rad or m] between two readings of one model file
NUMBERS = 18  # of a body's place


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
        held = ["\n".join(sorted(k.name for k in robot.bodies_links if k.body == b))
                for b in range(count)]  # fmt: skip
        numbers = (tree.kind, tree.rotation, tree.translation, tree.axis)
        places = [np.asarray(x, dtype=float).reshape(count, -1) for x in numbers]
        places += [tree.multiplier[:, None], tree.offset[:, None]]
        return Bodies(
            tree.names,
            tuple(held),
            tuple(tree.names[p] if p >= 0 else "" for p in tree.parent),
            np.hstack(places),
        )

    def differing(self, other: Bodies, names: Collection[str]) -> list[str]:
        """Return the names of bodies that differ in another model.

        The first body of either may hang on something else: what holds it does not change it.

        Args:
            names: Names of own bodies to be compared.
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
            return bool(np.allclose(one, two, rtol=0.0, atol=PLACE_TOLERANCE))
        return "" in parents


FRICTION = "friction"  # names all terms of friction


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
    held = [set(links.split("\n")) for links in bodies.links]
    found: set[int] = set()
    for name in names:
        meant = {k for k, column in enumerate(standard) if column == name}
        for b, links in enumerate(held):
            if name in links or name == bodies.names[b]:
                meant |= set(range(PARAMETER_COUNT * b, PARAMETER_COUNT * (b + 1)))
        moved = [d for d in drives if name in (d, FRICTION)]
        for k, column in enumerate(standard[of_bodies:], of_bodies):
            if any(column.startswith(f"{d}.") for d in moved):
                inertial = column.endswith(f".{Armature.kind}")
                meant |= set() if inertial and name == FRICTION else {k}
        if not meant:
            valid = (FRICTION, *drives, *sorted(set().union(*held)), *standard[of_bodies:])
            raise InvalidSetting(
                "no link, joint or parameter is called so",
                argument="--anew",
                got=name,
                valid=valid,
                cure=did_you_mean(name, valid) or "name a joint, a link, or 'friction' for all",
            )
        found |= meant
    return sorted(found)


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

        Args:
            data: Arrays of `information.npz`.
            size: Number b of base parameters.

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
        if shapes != ((size, len(names)), (len(bodies), NUMBERS), (channels,), (channels,)):
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
        told = np.flatnonzero(np.any(self.matrix != 0.0, axis=0))
        there = {name: k for k, name in enumerate(base.standard.names)}
        strange = [self.names[j] for j in told if self.names[j] not in there]
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
        bodies = dict.fromkeys(self.bodies.names[j // PARAMETER_COUNT] for j in told if j < own)
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
        matrix[:, [there[self.names[j]] for j in told]] = self.matrix[:, told]
        return matrix


def stored_origin(
    robot: Robot, noise_names: tuple[str, ...], settled: tuple[bool, ...]
) -> dict[str, Any]:
    """Return the arrays that `Origin.load` reads beside those that results hold anyway.

    Args:
        noise_names: Name of each channel's standard deviation.
        settled: Of each channel whether unknowns were eliminated by its deviation.
    """
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
