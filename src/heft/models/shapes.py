"""Collision shapes of a URDF's links as corners: meshes, boxes, cylinders, balls, capsules.

Robots of other files have none that are read. Meshes are looked for where their URI says:
`package://NAME/PATH` in the folders above the model file, in those that `[motion]` names, and in
`ROS_PACKAGE_PATH`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from heft.arrays import Array
from heft.errors import HeftError, InvalidModel
from heft.files import Element, numbers, require_regular, xml
from heft.information import matrix_of_rpy

from .robot import Robot

ROUND = 48  # corners of the polygon about a circle, 0.2 % larger
MESHES = (".stl", ".dae", ".obj", ".ply")
SCHEMES = ("package://", "model://")


@dataclass(frozen=True, eq=False)
class Corners:
    """Balls about points, whose convex hull contains a shape.

    Attributes:
        points: Shape (n, 3) [m].
        radius: Of the balls, zero for corners, shape (n,) [m].
    """

    points: Array
    radius: Array

    @staticmethod
    def plain(points: Array) -> Corners:
        """Return corners of points."""
        return Corners(points, np.zeros(len(points)))

    def placed(self, rotation: Array, translation: Array) -> Corners:
        """Return them in another frame."""
        return Corners(self.points @ rotation.T + translation, self.radius)

    def with_those(self, others: Corners) -> Corners:
        """Return these and others."""
        return Corners(
            np.vstack([self.points, others.points]), np.append(self.radius, others.radius)
        )

    def hull(self) -> Corners:
        """Return those that the convex hull needs, all balls among them."""
        from scipy.spatial import ConvexHull, QhullError

        plain = self.radius == 0.0
        points = np.unique(self.points[plain], axis=0)
        if len(points) > 8:
            with suppress(QhullError):  # flat: all of them
                points = points[ConvexHull(points).vertices]
        radius = np.append(np.zeros(len(points)), self.radius[~plain])
        return Corners(np.vstack([points, self.points[~plain]]), radius)


def shapes_of(
    robot: Robot, folder: Path | None, packages: Iterable[str]
) -> tuple[dict[str, list[Corners]], list[str]]:
    """Return the collision shapes of links by name, in the links' frames, and notes to the user.

    Args:
        robot: Its model file.
        folder: That of the model file.
        packages: Folders to look for packages in, from there.
    """
    if robot.form != "urdf":
        return {}, []
    found: dict[str, list[Corners]] = {}
    lost: list[str] = []
    search = _Search(folder, tuple(packages))
    for link in xml.parse(robot.source, "URDF").all("link"):
        name = link.attributes["name"]
        for element in link.all("collision"):
            geometry = element.find("geometry")
            for shape in geometry.children if geometry is not None else ():
                try:
                    corners = _corners(shape, search)
                except (HeftError, KeyError, ValueError, RuntimeError, OSError):
                    lost.append(f"{name} ({shape.attributes.get('filename', shape.tag)})")
                    continue
                found.setdefault(name, []).append(corners.placed(*_origin(element)))
    if not lost:
        return found, []
    more = f" and {len(lost) - 4} more" if len(lost) > 4 else ""
    return found, [
        f"collision shapes are not found or not readable: {', '.join(lost[:4])}{more}; say in "
        '[motion] of --with where packages lie: packages = ["FOLDER"]'
    ]


def _origin(element: Element) -> tuple[Array, Array]:
    origin = element.find("origin")
    place = origin.attributes if origin is not None else {}
    xyz = numbers(place.get("xyz", "0 0 0"), 3, "origin xyz", "collision")
    rpy = numbers(place.get("rpy", "0 0 0"), 3, "origin rpy", "collision")
    return matrix_of_rpy(*rpy), np.array(xyz)


def _corners(shape: Element, search: _Search) -> Corners:
    """Return the corners of a shape in its own frame.

    Raises:
        HeftError: If a number is none, or a mesh is not found.
        KeyError: If the shape is of no known kind or lacks an attribute.
    """
    said = shape.attributes
    if shape.tag == "mesh":
        scale = numbers(said.get("scale", "1 1 1"), 3, "scale", "mesh")
        return Corners.plain(_vertices(search.file(said["filename"]), np.array(scale)))
    if shape.tag == "box":
        half = np.array(numbers(said["size"], 3, "size", "box")) / 2.0
        signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, -1).T
        return Corners.plain(signs * half)
    (radius,) = numbers(said["radius"], 1, "radius", shape.tag)
    if shape.tag == "sphere":
        return Corners(np.zeros((1, 3)), np.array([radius]))
    (length,) = numbers(said["length"], 1, "length", shape.tag)
    ends = np.array([[0.0, 0.0, -length / 2.0], [0.0, 0.0, length / 2.0]])
    if shape.tag == "capsule":
        return Corners(ends, np.full(2, radius))
    if shape.tag != "cylinder":
        raise KeyError(shape.tag)
    angle = 2.0 * math.pi * np.arange(ROUND) / ROUND
    rim = radius / math.cos(math.pi / ROUND) * np.array([np.cos(angle), np.sin(angle), 0.0 * angle])
    return Corners.plain(np.vstack([rim.T + end for end in ends]))


def _vertices(path: Path, scale: Array) -> Array:
    """Return the corners of a mesh, shape (n, 3) [m]."""
    import coal

    return np.array(coal.MeshLoader().load(str(path), scale).vertices()).reshape(-1, 3)


@dataclass(frozen=True)
class _Search:
    """Where meshes are looked for: the model file's folder, and folders of packages."""

    folder: Path | None
    packages: tuple[str, ...]

    def file(self, uri: str) -> Path:
        """Return the file of a mesh.

        Raises:
            InvalidModel: If it is not found, or no mesh.
        """
        for path in self._candidates(uri):
            if path.suffix.lower() in MESHES and path.is_file():
                require_regular(path, "mesh", InvalidModel)
                return path
        raise InvalidModel("a mesh is not found", argument=uri)

    def _candidates(self, uri: str) -> Iterable[Path]:
        home = (self.folder or Path()).resolve()
        scheme = next((s for s in SCHEMES if uri.startswith(s)), None)
        if scheme is None:
            yield home / uri.removeprefix("file://")
            return
        package, _, rest = uri.removeprefix(scheme).partition("/")
        named = [home / p for p in self.packages]
        paths = os.environ.get("ROS_PACKAGE_PATH", "").split(os.pathsep)
        named += [Path(place) for place in paths if place]
        for place in (*named, home, *home.parents):
            yield place / package / rest
            if place.name == package or place in named:
                yield place / rest
