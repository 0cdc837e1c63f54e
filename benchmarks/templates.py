"""Whether stated numbers hold the truth where a model file's inertials are a template's.

    python -m benchmarks.templates --development [--seeds 2] [--arm NAME ...]
    python -m benchmarks.templates [--seeds 10] [--jobs 2] [--store]

The arms, seeds and LuGre friction of `benchmarks.truth`, each log fitted with the model file as a
user has it and with files in which every link's inertial is overwritten. Judged are all masses,
centres of mass and rotor inertias for which `heft identify` states a standard deviation.
"""

from __future__ import annotations

import math
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the jobs share the cores
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np

from benchmarks.program import benchmark, spread
from benchmarks.results_file import Row, at_least, at_most
from benchmarks.truth import (
    DEVELOPMENT,
    FIRST_SCORED,
    LIGHT,
    SCORED,
    experiment,
    refuse_mixed,
)
from heft.applications.identification import results
from heft.applications.identification.identification import identify
from heft.errors import FitError
from heft.fit.settings import Settings
from heft.models import Robot

CONDITION = "lugre"
SURE = 3.0  # standard deviations
SEEN = 0.25  # share of the prior's variance that the data take away, from which on it is stated
LASTING: Mapping[str, object] = {}
Rewrite = Callable[[ET.Element, ET.Element], None]  # of a link's inertial, knowing the first link's


def moments(value: float) -> Rewrite:
    """Return a rewriting in which every link has the same moments [kg·m²]."""

    def rewrite(own: ET.Element, _: ET.Element) -> None:
        tensor = own.find("inertia")
        assert tensor is not None
        for name in ("ixx", "iyy", "izz"):
            tensor.set(name, str(value))
        for name in ("ixy", "ixz", "iyz"):
            tensor.set(name, "0")

    return rewrite


def copied(own: ET.Element, first: ET.Element) -> None:
    """Give a link the first one's moments."""
    mine, others = own.find("inertia"), first.find("inertia")
    assert mine is not None and others is not None
    mine.attrib.update(others.attrib)


def with_mass(mass: float, moment: float, own: ET.Element, first: ET.Element) -> None:
    """Give every link the same mass and moments."""
    weight = own.find("mass")
    assert weight is not None
    weight.set("value", str(mass))
    moments(moment)(own, first)


def at_origin(own: ET.Element, first: ET.Element) -> None:
    """Put the centre of mass at the link's origin, with moments of 1e-3 kg·m²."""
    origin = own.find("origin")
    if origin is not None:
        origin.set("xyz", "0 0 0")
    moments(1e-3)(own, first)


KINDS: Mapping[str, Rewrite | None] = {
    "file": None,
    "moments 1e-6": moments(1e-6),
    "moments 1e-3": moments(1e-3),
    "moments of the first link": copied,
    "masses .1, moments 1e-4": partial(with_mass, 0.1, 1e-4),
    "masses 1, moments 1": partial(with_mass, 1.0, 1.0),
    "centres 0, moments 1e-3": at_origin,
}


def rewritten(urdf: bytes, rewrite: Rewrite | None) -> bytes:
    """Return a model file with every link's inertial overwritten."""
    if rewrite is None:
        return urdf
    tree = ET.fromstring(urdf)
    own = [link.find("inertial") for link in tree.iter("link")]
    inertials = [element for element in own if element is not None]
    first = ET.fromstring(ET.tostring(inertials[0]))
    for element in inertials:
        rewrite(element, first)
    return ET.tostring(tree)


Key = tuple[str, str, int]  # arm, kind of file, seed
Record = dict[str, tuple[float, float]]  # error and standard deviation by name


def one(key: Key) -> Record:
    """Return what one fit states of masses, centres of mass and rotor inertias."""
    name, kind, seed = key
    truth = experiment(name, CONDITION, seed, **LASTING)
    robot = Robot.from_urdf_text(rewritten(truth.prior, KINDS[kind]))
    try:
        found = identify(robot, [truth.recording], settings=Settings(threads=1))
    except FitError:
        return {}
    content = results.to_json(found)
    stated = {e["name"]: e for e in content["parameters"] if e["share"] >= SEEN}
    true = {}
    for link, body in truth.arm.links.items():
        true[f"{link}.mass"] = body.mass
        true |= {f"{link}.com.{a}": c for a, c in zip("xyz", body.center, strict=True)}
    out = {n: (stated[n]["value"] - v, stated[n]["std"]) for n, v in true.items() if n in stated}
    for joint, drive in zip(truth.arm.joints, truth.drives, strict=True):
        entry = content["joints"][joint]
        out[joint] = (entry["armature"] - drive.armature, entry["std"]["armature"])
    return {n: pair for n, pair in out.items() if all(map(math.isfinite, pair))}


@benchmark(
    {
        **{"seeds": 1, "arm": ("finger",), "jobs": 1, "LASTING": {"duration": 2.0}},
        "KINDS": dict(list(KINDS.items())[:4:3]),
    }
)
def main(
    *, development: bool = False, seeds: int = 10, jobs: int = 2, arm: tuple[str, ...] = ()
) -> Iterator[Row]:
    """Yield the rows.

    Args:
        development: Arms and seeds to choose on.
        seeds: How many.
        jobs: Processes.
        arm: Some of the arms.
    """
    arms = arm or tuple(a for a in (DEVELOPMENT if development else SCORED) if a not in LIGHT)
    begin = 0 if development else FIRST_SCORED
    refuse_mixed(development, arms, range(begin, begin + seeds))
    keys = [(a, k, s) for s in range(begin, begin + seeds) for a in arms for k in KINDS]
    records: dict[Key, Record] = {}
    for key, made in spread(one, keys, jobs):
        records[key] = made.result()
    for kind in KINDS:
        own = {k: r for k, r in records.items() if k[1] == kind and r}
        pairs = np.array([pair for r in own.values() for pair in r.values()])
        z = np.abs(pairs[:, 0] / pairs[:, 1])
        count = f"{len(z)} numbers, the furthest {z.max():.1f}"
        share = float(np.mean(z < SURE))
        yield at_least(f"{kind}: within 3 deviations", share, "", 0.99, count)
        yield Row(f"{kind}: refused", float(len(records) // len(KINDS) - len(own)), "")
        wider = [
            std / records[(a, "file", s)][n][1]
            for (a, _, s), record in own.items()
            for n, (_, std) in record.items()
            if n in records[(a, "file", s)]
        ]
        text = f"ninth decile {np.quantile(wider, 0.9):.2f}"
        yield at_most(f"{kind}: deviations over the file's", float(np.median(wider)), "", 1.5, text)


if __name__ == "__main__":
    main()
