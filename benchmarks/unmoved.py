"""Whether a change of the code's structure left the answers as they were.

    HEFT_DATA=... python -m benchmarks.unmoved [--revision HEAD] [--store]

Identifies the demo and three measured robots by the command of an earlier revision and by the
command of the working tree, on the same files, and compares what they leave behind: whether
`robot.urdf`, `estimate.json` and `information.npz` are the same bytes, and if not, by how much the
numbers differ. Only commands and files are used, so that any revision can be asked.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import tomlkit

from benchmarks.arms import Case, data_folder, panda, shortened, tx40, ur10e, with_friction
from benchmarks.few_joints import wrist
from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_most
from benchmarks.sources import ROOT
from heft.recordings import Recording

CASES = ("demo", "Panda", "UR10e", "TX40")
MEASURED = {"Panda": (panda, 0), "UR10e": (ur10e, 0), "TX40": (tx40, 1)}  # and which case
ROWS = None  # of measured logs that are taken; all if None
FRICTION: str | None = None  # its kind; the robots' own if None
FILES = ("robot.urdf", "estimate.json", "information.npz")
TOLERANCE = 1e-9  # relative to the largest number of its kind


def write_case(case: Case, folder: Path) -> list[str]:
    """Write a case's model, options and log as a user would have them; return the arguments."""
    folder.mkdir(parents=True)
    (folder / "model.urdf").write_bytes(case.urdf)
    log = case.fit[0]
    np.savez(folder / "log.npz", **columns(log))  # type: ignore[arg-type]
    arguments = ["model.urdf", "log.npz"]
    options = case.robot.options.to_dict()
    options.pop("gravity", None)
    if options:
        (folder / "options.toml").write_text(tomlkit.dumps(options))
        arguments += ["--with", "options.toml"]
    return arguments


def columns(log: Recording) -> dict[str, np.ndarray]:
    """Return a recording's canonical columns."""
    names = [n for n in log.signals if n != "t"]
    blocks = list(log.blocks(names))
    found = {"t": np.concatenate([b.time for b in blocks])}
    values = np.concatenate([b.values for b in blocks])
    return found | {n: values[:, k] for k, n in enumerate(names)}


def cases(folder: Path) -> Iterator[tuple[str, Path, list[str]]]:
    """Yield name, folder and the command's words of each case."""
    for name in CASES:
        place = folder / name
        if name == "demo":
            place.mkdir()
            yield name, place, ["demo"]
        else:
            make, number = MEASURED[name]
            case = shortened(list(make(data_folder()))[number], ROWS)
            if FRICTION is not None:
                case = replace(case, robot=with_friction(case.robot, FRICTION))
            yield name, place, ["identify", *write_case(case, place)]


def exported(revision: str, folder: Path) -> Path:
    """Write the sources of a revision, and return where they are."""
    call = ["git", "archive", revision, "src"]
    packed = subprocess.run(call, cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as files:
        files.extractall(folder, filter="data")
    return folder / "src"


def run(source: Path, folder: Path, words: list[str], out: str) -> Path:
    """Run a command of the package in `source`, in `folder`; return what it left."""
    call = [sys.executable, "-c", "from heft.cli import main; main()", *words, "--out", out]
    environment = os.environ | {"PYTHONPATH": str(source)}
    done = subprocess.run(call, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(call)}: {done.stderr}")
    return folder / out


def without_version(data: bytes) -> bytes:
    """Return estimate.json without heft's own version, and where the demo's files lie in it."""
    table = json.loads(data)
    table.pop("heft", None)
    for entry in table["inputs"]:
        entry["path"] = Path(entry["path"]).name
    return json.dumps(table).encode()


def numbers(path: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the numbers of a result by the group that they are measured against."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as data:
            for key in data.files:
                if data[key].dtype.kind == "f":
                    yield key, np.abs(data[key]) if key.startswith("R") else data[key]
        return
    if path.suffix == ".urdf":
        text = path.read_text()
        for name in ("mass value", "ixx", "ixy", "ixz", "iyy", "iyz", "izz", "xyz", "damping"):
            for found in re.findall(rf'\b{name}="([^"]*)"', text):
                yield name, np.array([float(x) for x in found.split()])
        return
    table = json.loads(path.read_text())
    for entry in table["parameters"]:
        yield entry["unit"] + ".value", np.array([entry["value"] or 0.0])
        yield entry["unit"] + ".std", np.array([entry["std"] or 0.0])


def largest_difference(first: Path, second: Path) -> float:
    """Return the largest difference of two results, relative to the largest of its kind."""
    groups: dict[str, tuple[list[np.ndarray], list[np.ndarray]]] = {}
    for (name, a), (_, b) in zip(numbers(first), numbers(second), strict=True):
        pair = groups.setdefault(name, ([], []))
        pair[0].append(a.ravel())
        pair[1].append(b.ravel())
    worst = 0.0
    for left, right in groups.values():
        a, b = np.concatenate(left), np.concatenate(right)
        good = np.isfinite(a) & np.isfinite(b)
        if good.any() and (scale := np.abs(a[good]).max()) > 0.0:
            worst = max(worst, float(np.abs(a - b)[good].max() / scale))
    return worst


def compare(before: Path, after: Path, name: str) -> Iterator[Row]:
    """Yield a row for each file of a result."""
    for file in FILES:
        old, new = (before / file).read_bytes(), (after / file).read_bytes()
        if file == "estimate.json":
            old, new = without_version(old), without_version(new)
        same = old == new
        difference = 0.0 if same else np.nan
        if not same:
            difference = largest_difference(before / file, after / file)
        label = "same bytes" if same else "other bytes"
        yield at_most(f"{name}: {file}", difference, "relative", TOLERANCE, label)


@benchmark(
    {
        **{"revision": "", "CASES": ("UR10e",), "MEASURED": {"UR10e": (wrist, 0)}},
        **{"ROWS": 2000, "FRICTION": "simple"},
    }
)
def main(*, revision: str = "HEAD") -> Iterator[Row]:
    """Compare the working tree with a revision.

    Args:
        revision: Which; none is the working tree itself, once more.
    """
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        sources = exported(revision, folder / "old") if revision else ROOT / "src"
        for name, place, words in cases(folder):
            before = run(sources, place, words, "before")
            after = run(ROOT / "src", place, words, "after")
            yield from compare(before, after, name)


if __name__ == "__main__":
    main()
