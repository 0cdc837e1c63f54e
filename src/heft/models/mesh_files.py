"""Files that a model's shapes are read from, as MuJoCo takes them: OBJ and binary STL."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from heft.errors import HeftError, InvalidModel
from heft.files import require_regular, walk, xml

from .shapes import STL, Search, mesh_surface

MOST = 200_000  # triangles of a file that MuJoCo reads
FOLDER = "meshes"
DIRECTORIES = ("meshdir", "texturedir", "assetdir")  # of <compiler>


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
                Search(folder, ()).file(called)
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
        said = [c.attributes.get(k, "") for c in root.all("compiler") for k in DIRECTORIES]
        for asset in (a for group in root.all("asset") for a in group.children):
            yield from ((v, ("", *said)) for k, v in asset.attributes.items() if is_file(k))


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
