"""Shapes of links as surfaces, and the files of meshes that they are read from.

Collision shapes are meshes, boxes, cylinders, balls, capsules, ellipsoids.

A URDF's meshes are looked for where their URI says: `package://NAME/PATH` in the folders above the
model file, in those that `[motion]` names, and in `ROS_PACKAGE_PATH`. An MJCF file's are in its
`meshdir`. Tables of Denavit-Hartenberg rows have no shapes.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from heft.arrays import Array
from heft.errors import HeftError, InvalidModel
from heft.files import Element, numbers, require_regular, walk, xml
from heft.information import matrix_of_rpy

from . import mjcf, urdf
from .link_shapes import load_coal
from .mjcf import MASSLESS
from .mjcf_values import Compiler, Geom, placed, vector

ROUND = 48  # corners of the polygon about a circle, 0.2 % larger
STL = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])  # binary
MOST = 200_000  # triangles of a file that MuJoCo reads
FOLDER = "meshes"
DIRECTORIES = ("meshdir", "texturedir", "assetdir")  # of <compiler>

Plane = tuple[float, float, float, float]


@dataclass(frozen=True, eq=False)
class Surface:
    """Triangles and balls: what a shape's surface consists of."""

    triangles: Array  # corners, shape (n, 3, 3) [m]
    balls: Array  # centre and radius, shape (m, 4) [m]

    @staticmethod
    def around(points: Array) -> Surface:
        """Return the convex hull of points, shape (n, 3) [m]."""
        from scipy.spatial import ConvexHull

        return Surface(points[ConvexHull(points).simplices], np.zeros((0, 4)))

    @staticmethod
    def of_balls(centres: Array, radius: float) -> Surface:
        """Return balls of one radius [m] about points, shape (m, 3) [m]."""
        return Surface(
            np.zeros((0, 3, 3)), np.hstack([centres, np.full((len(centres), 1), radius)])
        )

    def placed(self, rotation: Array, translation: Array) -> Surface:
        """Return the surface with each point x moved to R x + t."""
        moved = self.balls.copy()
        moved[:, :3] = moved[:, :3] @ rotation.T + translation
        return Surface(self.triangles @ rotation.T + translation, moved)

    def with_that(self, other: Surface) -> Surface:
        """Return the union of the two surfaces."""
        return Surface(
            np.concatenate([self.triangles, other.triangles]),
            np.concatenate([self.balls, other.balls]),
        )

    def corners(self) -> tuple[Array, Array]:
        """Return centres (n, 3) and radii (n,) of balls that have the same convex hull [m]."""
        from scipy.spatial import ConvexHull, QhullError

        points = self.triangles.reshape(-1, 3)
        with suppress(QhullError, ValueError):  # flat, or none: all of them
            points = points[ConvexHull(points).vertices]
        radius = np.append(np.zeros(len(points)), self.balls[:, 3])
        return np.vstack([points, self.balls[:, :3]]), radius

    def some(self, count: int) -> Surface:
        """Return about `count` of the triangles, evenly chosen, and all balls."""
        step = max(1, len(self.triangles) // count)
        return Surface(self.triangles[::step], self.balls)

    def cut(self, normal: Array, offset: float) -> tuple[Surface, Surface]:
        """Return what is below and above the plane `normal · x = offset`, triangles cut in two.

        A ball goes where its centre is.
        """
        sides = self.triangles @ normal - offset  # (n, 3)
        above = self.balls[:, :3] @ normal > offset
        return (
            Surface(_clipped(self.triangles, -sides), self.balls[~above]),
            Surface(_clipped(self.triangles, sides), self.balls[above]),
        )


def _clipped(triangles: Array, sides: Array) -> Array:
    """Return the parts of triangles where `sides`, given at their corners, is not negative."""
    inside = sides >= 0.0
    count = inside.sum(axis=1)
    kept = [triangles[count == 3]]
    for n in (1, 2):
        chosen = np.flatnonzero(count == n)
        odd = np.argmax(inside[chosen] == (n == 1), axis=1)  # the corner that is alone
        order = (odd[:, None] + np.arange(3)) % 3
        rows = np.arange(len(chosen))[:, None]
        a, b, c = np.moveaxis(triangles[chosen][rows, order], 1, 0)
        u, v, w = sides[chosen][rows, order].T[..., None]
        ab, ac = a + (b - a) * (u / (u - v)), a + (c - a) * (u / (u - w))
        kept += [
            np.stack(t, axis=1) for t in ([(a, ab, ac)] if n == 1 else [(ab, b, c), (ab, c, ac)])
        ]
    return np.concatenate(kept)


def shapes_of(
    form: str, source: bytes, folder: Path | None, packages: Iterable[str]
) -> tuple[dict[str, list[Surface]], list[str]]:
    """Return the collision shapes of links by name, in the links' frames, and notes to the user.

    Form and source are those of a `Robot`, the folder that of its model file, to which folders of
    packages are relative; None is the working folder.
    """
    search = MeshSearch(folder, tuple(packages))
    if form == "mjcf":
        return mjcf_surfaces(source, search)
    if form != "urdf":
        return {}, []
    surfaces: dict[str, list[Surface]] = {}
    lost: list[str] = []
    for link in xml.parse(source, "URDF").all("link"):
        name = link.attributes["name"]
        for element in link.all("collision"):
            geometry = element.find("geometry")
            for shape in geometry.children if geometry is not None else ():
                try:
                    surface = _surface(shape, search)
                except (InvalidModel, KeyError, ValueError, RuntimeError, OSError):
                    lost.append(f"{name} ({shape.attributes.get('filename', shape.tag)})")
                    continue
                xyz, rpy = urdf.pose(element)
                placed = surface.placed(matrix_of_rpy(*rpy), np.array(xyz))
                surfaces.setdefault(name, []).append(placed)
    return surfaces, _lost(
        lost, '; say in [motion] of --with where packages lie: packages = ["FOLDER"]'
    )


def _lost(shapes: list[str], cure: str) -> list[str]:
    more = f" and {len(shapes) - 4} more" if len(shapes) > 4 else ""
    message = f"collision shapes are not found or not readable: {', '.join(shapes[:4])}{more}{cure}"
    return [message] if shapes else []


def mjcf_surfaces(source: bytes, search: MeshSearch) -> tuple[dict[str, list[Surface]], list[str]]:
    """Return the geoms of an MJCF file that can touch others, by body, and notes to the user."""
    root = xml.parse(source, "MJCF")
    model = mjcf.read(root, "MJCF")
    meshes = {
        m.attributes.get("name", Path(m.attributes.get("file", "")).stem): m.attributes
        for group in root.all("asset")
        for m in group.all("mesh")
    }
    surfaces: dict[str, list[Surface]] = {}
    lost, flat = [], []
    for name, geoms in ((mjcf.WORLD, model.scene), *((b.name, b.geoms) for b in model.bodies)):
        for geom in (g for g in geoms if g.collides):
            if geom.kind in MASSLESS:
                flat.append(name)
                continue
            try:
                surface = _of_geom(geom, model.compiler, meshes, search)
            except (InvalidModel, KeyError, ValueError, RuntimeError, OSError):
                lost.append(f"{name} ({geom.given.get('mesh', geom.kind)})")
                continue
            surfaces.setdefault(name, []).append(surface)
    notes = _lost(lost, "")
    if flat:
        notes.append(
            f"planes and height fields of {', '.join(dict.fromkeys(flat))} are not looked at: say "
            "floor or keep_out in [motion] of --with"
        )
    return surfaces, notes


def _of_geom(
    geom: Geom, compiler: Compiler, meshes: Mapping[str, Mapping[str, str]], search: MeshSearch
) -> Surface:
    """Return the surface of a geom in its body's frame.

    Raises:
        HeftError: If a number is none, or a mesh is not found.
        KeyError: If it is of no known kind, or its mesh is not named.
    """
    if geom.kind == "mesh":
        asset = meshes[geom.given["mesh"]]
        if {"refpos", "refquat", "vertex"} & set(asset):
            raise KeyError("refpos")
        scale = vector(asset, "scale", 3, geom.where, (1.0, 1.0, 1.0))
        surface = mesh_surface(search.file(str(Path(compiler.meshes) / asset["file"])), scale)
        pose = placed(geom.given, compiler, geom.where, geom.rotation, geom.translation)
        return surface.placed(*pose)
    size, rotation, translation = geom.solid(compiler)
    return _solid(geom.kind, np.array(size)).placed(rotation, translation)


def _solid(kind: str, size: Array) -> Surface:
    """Return the surface of a solid by radii and half lengths, as MJCF has them [m]."""
    if kind == "sphere":
        return Surface.of_balls(np.zeros((1, 3)), float(size[0]))
    if kind == "box":
        signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, -1).T
        return Surface.around(signs * size)
    if kind == "ellipsoid":
        angle, rise = np.meshgrid(
            2.0 * math.pi * np.arange(ROUND) / ROUND,
            math.pi * np.arange(ROUND // 2 + 1) / (ROUND // 2),
        )
        ball = np.array([np.sin(rise) * np.cos(angle), np.sin(rise) * np.sin(angle), np.cos(rise)])
        return Surface.around(ball.reshape(3, -1).T * size / math.cos(math.pi / ROUND) ** 2)
    ends = np.array([[0.0, 0.0, -size[1]], [0.0, 0.0, size[1]]])
    return Surface.of_balls(ends, float(size[0])) if kind == "capsule" else _cylinder(size[0], ends)


def _cylinder(radius: float, ends: Array) -> Surface:
    """Return the surface of a cylinder along z between two ends, shape (2, 3) [m]."""
    angle = 2.0 * math.pi * np.arange(ROUND) / ROUND
    rim = radius / math.cos(math.pi / ROUND) * np.array([np.cos(angle), np.sin(angle), 0.0 * angle])
    return Surface.around(np.vstack([rim.T + end for end in ends]))


def _surface(shape: Element, search: MeshSearch) -> Surface:
    """Return the surface of a shape in its own frame.

    Raises:
        HeftError: If a number is none, or a mesh is not found.
        KeyError: If the shape is of no known kind, or has no size.
    """
    if shape.tag == "mesh":
        given = shape.attributes
        scale = numbers(given.get("scale", "1 1 1"), 3, "scale", "mesh")
        return mesh_surface(search.file(given["filename"]), np.array(scale))
    size = urdf.size_of(shape)
    if size is None:
        raise KeyError(shape.tag)
    return _solid(shape.tag, np.array(size))


def mesh_surface(path: Path, scale: Array) -> Surface:
    """Return the triangles of a mesh; those of binary STL are read here, others by coal.

    Raises:
        InvalidSetting: If coal is not installed.
        ValueError: If it holds no triangles, or such that are nowhere.
    """
    raw = np.fromfile(path, np.uint8)
    if len(raw) >= 84 and len(raw) == 84 + STL.itemsize * int(raw[80:84].view("<u4")[0]):
        triangles = raw[84:].view(STL)["corners"] * scale
    else:
        mesh = load_coal(f"the mesh {path.name}").MeshLoader().load(str(path), scale)
        points = np.array(mesh.vertices()).reshape(-1, 3)
        index = [[t[0], t[1], t[2]] for t in map(mesh.tri_indices, range(mesh.num_tris))]
        triangles = points[np.array(index).reshape(-1, 3)]
    if not (len(triangles) and np.isfinite(triangles).all()):
        raise ValueError("a mesh is of no finite triangles")
    return Surface(triangles, np.zeros((0, 4)))


@dataclass(frozen=True)
class MeshSearch:
    """Where meshes are looked for: the model file's folder, and folders of packages."""

    folder: Path | None
    packages: tuple[str, ...]

    def file(self, uri: str) -> Path:
        """Return a mesh's path.

        Raises:
            InvalidModel: If it is not found.
        """
        kinds = (".stl", ".dae", ".obj", ".ply", ".glb", ".off")
        for path in self._candidates(uri):
            if path.suffix.lower() in kinds and path.is_file():
                require_regular(path, "mesh", InvalidModel)
                return path
        raise InvalidModel("a mesh is not found", argument=uri)

    def _candidates(self, uri: str) -> Iterable[Path]:
        home = (self.folder or Path()).resolve()
        scheme = next((s for s in ("package://", "model://") if uri.startswith(s)), None)
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


@dataclass(frozen=True, eq=False)
class MeshFiles:
    """Files that lie beside a written model, in `FOLDER`."""

    # by what the model file calls them: their paths from the file that is written
    names: Mapping[str, str] = field(default_factory=dict)
    contents: Mapping[str, bytes] = field(default_factory=dict)  # by path, from `FOLDER`'s own
    lost: tuple[str, ...] = ()  # what is not there or cannot be read, with the reason

    def from_below(self) -> MeshFiles:
        """Return them as a file calls them that is written one folder deeper."""
        return replace(self, names={k: f"../{name}" for k, name in self.names.items()})


def meshes_of(form: str, source: bytes, folder: Path | None) -> MeshFiles:
    """Return the files that shapes of a robot are read from; textures of an MJCF file, too.

    Args:
        form: That of the robot; one that is neither "urdf" nor "mjcf" has none.
        source: The model file.
        folder: Where it lies; None if that is not known.
    """
    names, contents, lost = dict[str, str](), dict[str, bytes](), list[str]()
    for called, places in dict(_called(form, source)).items():
        try:
            path = (
                MeshSearch(folder, ()).file(called)
                if form == "urdf"
                else _first(folder, places, called)
            )
            ending, content = _content(form, path)
        except (HeftError, ValueError, RuntimeError, OSError) as problem:
            lost.append(f"{called} ({str(problem).splitlines()[0]})")
            continue
        stem = re.sub(r"\W", "_", Path(called).stem).lower()
        other = (f"{FOLDER}/{stem}{f'_{k}' if k else ''}{ending}" for k in range(len(names) + 1))
        names[called] = next(n for n in other if contents.get(n, content) == content)
        contents[names[called]] = content
    return MeshFiles(names, contents, tuple(lost))


def _called(form: str, source: bytes) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield what a file calls its meshes, and the folders where an MJCF file has them."""
    root = xml.parse(b"<none/>" if form == "toml" else source, "the model file")
    if form == "urdf":
        shapes = (e for link in root.all("link") for e in walk(link) if e.tag == "mesh")
        yield from ((e.attributes.get("filename", ""), ()) for e in shapes)
    elif form == "mjcf":
        directories = [c.attributes.get(k, "") for c in root.all("compiler") for k in DIRECTORIES]
        for asset in (a for group in root.all("asset") for a in group.children):
            yield from ((v, ("", *directories)) for k, v in asset.attributes.items() if is_file(k))


def is_file(attribute: str) -> bool:
    """Whether an attribute of an asset names a file."""
    return attribute.startswith("file")


def _first(folder: Path | None, places: Iterable[str], called: str) -> Path:
    paths = [(folder or Path()) / place / called for place in places]
    path = next((p for p in paths if p.is_file()), None)
    if path is None:
        raise InvalidModel("a file is not found", argument=called)
    require_regular(path, "mesh", InvalidModel)
    return path


def _content(form: str, path: Path) -> tuple[str, bytes]:
    """Return the ending and content of a file as MuJoCo reads it.

    Raises:
        HeftError: If coal is needed to read it and is not installed.
        ValueError: If MuJoCo does not take it.
    """
    raw, ending = path.read_bytes(), path.suffix.lower()
    if form == "mjcf":
        return ending, raw
    triangles = mesh_surface(path, np.ones(3)).triangles
    if len(triangles) > MOST:
        raise ValueError(f"{len(triangles)} triangles, MuJoCo reads {MOST}")
    if ending == ".obj" or (ending == ".stl" and len(raw) == 84 + STL.itemsize * len(triangles)):
        return ending, raw
    rows = np.zeros(len(triangles), STL)
    rows["corners"] = triangles
    return ".stl", bytes(80) + np.uint32(len(rows)).tobytes() + rows.tobytes()


def bounding_extent(surface: Surface) -> tuple[tuple[float, float], ...]:
    """Return least and largest x, y and z of an ellipsoid that contains a surface [m].

    The box about it, as many times as wide as it takes: √3 for a box, √2 for an upright cylinder, 1
    for a ball.
    """
    points, radii = surface.corners()
    low, high = (points - radii[:, None]).min(axis=0), (points + radii[:, None]).max(axis=0)
    # What is flat gets half an axis of 1 mm.
    centre, half = 0.5 * (low + high), np.maximum(0.5 * (high - low), 1e-3)
    reach = np.linalg.norm((points - centre) / half, axis=1) + radii / half.min()
    half = half * reach.max()
    ends = zip((centre - half).tolist(), (centre + half).tolist(), strict=True)
    return tuple(ends)


def hull_planes(surface: Surface, most: int = 64) -> tuple[Plane, ...]:
    """Return planes `[x, y, z, most]` about a surface: `x, y, z` outward, `(x, y, z)·p ≤ most`.

    They are those of its convex hull where these are few, else a choice among them that is spread
    over all directions; round shapes get planes that touch them. So the body between them contains
    the hull: a centre of mass that is inside the shapes is never cut off. `most` is 6 or more, and
    few: conic problems take an unknown for each.
    """
    points, radii = surface.corners()
    normals = np.concatenate([np.eye(3), -np.eye(3), _facets(points)])
    if radii.any():
        normals = np.concatenate([normals, _everywhere(most)])
    chosen = _spread(normals, most)
    reach = (points @ chosen.T + radii[:, None]).max(axis=0)
    return tuple((*n, h) for n, h in zip(chosen.tolist(), reach.tolist(), strict=True))


def _facets(points: Array) -> Array:
    """Return the normals of the convex hull's planes, shape (n, 3); none if points are flat."""
    from scipy.spatial import ConvexHull, QhullError

    with suppress(QhullError, ValueError):
        return np.asarray(ConvexHull(points).equations[:, :3])
    return np.zeros((0, 3))


def _everywhere(count: int) -> Array:
    """Return directions spread evenly, shape (count, 3): Fibonacci's lattice on the sphere."""
    k = np.arange(count) + 0.5
    z, turn = 1.0 - 2.0 * k / count, np.pi * (1.0 + np.sqrt(5.0)) * k
    across = np.sqrt(1.0 - z**2)
    return np.column_stack([across * np.cos(turn), across * np.sin(turn), z])


def _spread(normals: Array, most: int) -> Array:
    """Return at most `most` normals by farthest-point sampling, the first six always kept."""
    chosen = list(range(6))
    nearest = (normals @ normals[:6].T).max(axis=1)
    while len(chosen) < min(most, len(normals)):
        k = int(np.argmin(nearest))
        # 1 − cos of the angle: below, two triangles are of one plane.
        if nearest[k] > 1.0 - 1e-9:
            break
        chosen.append(k)
        nearest = np.maximum(nearest, normals @ normals[k])
    return np.asarray(normals[chosen])
