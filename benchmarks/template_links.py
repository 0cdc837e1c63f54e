"""Whether the links that heft names as a template's are those that were labelled so by hand.

    python -m benchmarks.template_links

Labels of public model files, link by link, are in `template_links.toml`. A file that is not there
is passed over: those of other distributions than `example-robot-data` come with
`pip install hello-robot-stretch-urdf fourier-robot-descriptions`, some are measured robots' own.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from benchmarks import sources
from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_most
from heft.models import Robot
from heft.models.options import Options
from heft.models.robot_parts import is_mended

LABELS = sources.BENCHMARKS / "template_links.toml"
FOLDERS = {
    "example-robot-data": "cmeel.prefix/share/example-robot-data/robots",
    "hello-robot-stretch-urdf": "stretch_urdf",
    "fourier-robot-descriptions": "fourier_robot_descriptions/assets/urdf",
}


@dataclass(frozen=True)
class Count:
    """Moving links of one robot.

    Attributes:
        name: Of the robot.
        links: That the file gives a mass.
        templates: Of these, by hand.
        named: Templates that heft names, as a template's or as no body's.
        missed: Templates that it does not name.
        false: Sound ones that it names as a template's.
        flat: Sound ones whose moments are those of a flat body or of none, which it says of them.
    """

    name: str
    links: int
    templates: int
    named: int
    missed: int
    false: int
    flat: int

    def line(self) -> str:
        """Return the line of the documentation's table."""
        return f"| {' | '.join(map(str, astuple(self)))} |"


def path_of(entry: dict[str, Any]) -> Path | None:
    """Return where a labelled file is, or None if it is not there."""
    source = entry.get("source", "example-robot-data")
    if source == "HEFT_DATA":
        path = Path(os.environ.get(source, ""), entry["file"])
    else:
        try:
            path = Path(str(distribution(source).locate_file(FOLDERS[source])), entry["file"])
        except PackageNotFoundError:
            return None
    return path if path.exists() else None


def counts() -> Iterator[Count]:
    """Yield the counts of each labelled robot whose file is there.

    Raises:
        ValueError: If a file's moving links are others than those labelled.
    """
    for entry in tomllib.loads(LABELS.read_text(encoding="utf-8"))["robot"]:
        path = path_of(entry)
        if path is None:
            continue
        robot = Robot.from_file(path, Options(base="free" if entry.get("free") else "fixed"))
        links = {k.name: k for k in robot.bodies_links if k.given}
        templates = {n for names in entry.get("templates", {}).values() for n in names.split()}
        sound = {n for kind in ("sound", "twins") for n in entry.get(kind, "").split()}
        if templates | sound != set(links) or templates & sound:
            raise ValueError(f"{path}: its moving links are not those labelled")
        replaced = {n for n, k in links.items() if k.resized is not None}
        flat = {n for n in sound if is_mended(links[n])}
        yield Count(
            entry["name"],
            len(links),
            len(templates),
            len(templates & replaced),
            len(templates - replaced),
            len(sound & replaced - flat),
            len(flat),
        )


@benchmark({})
def main() -> Iterator[Row]:
    """Yield the rows."""
    found = list(counts())
    for c in found:
        text = f"{c.links} links, {c.templates} templates, {c.named} named, {c.missed} missed"
        yield Row(f"{c.name}: sound links named", c.false, "", against=f"{text}, {c.flat} flat")
    templates = sum(c.templates for c in found)
    sound = sum(c.links for c in found) - templates
    false, missed = sum(c.false for c in found), sum(c.missed for c in found)
    text = f"{false} of {sound}, and {sum(c.flat for c in found)} said to be flat"
    yield at_most("share of sound links named", false / sound, "", 0.01, text)
    yield Row("share of templates missed", missed / templates, "", against=f"of {templates}")


if __name__ == "__main__":
    main()
