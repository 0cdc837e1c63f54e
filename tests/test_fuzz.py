"""The fuzzer's rule over its corpus: a reader returns or raises a `HeftError`, and stays small."""

from __future__ import annotations

import resource
from contextlib import nullcontext, suppress
from pathlib import Path

import numpy as np
import pytest
from fuzz.generators import GENERATORS, Dice
from fuzz.targets import CORPUS, TARGETS, log

from heft.errors import HeftError
from heft.models.robot import Robot

SEEDS = [(name, seed) for name in TARGETS for seed in sorted((CORPUS / name).iterdir())]
CHANGES = 20  # of each seed
MEGABYTES = 700  # more than before; a reader of a small file needs some ten


@pytest.fixture(autouse=True)
def _bounded() -> object:
    def peak() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

    before = peak()
    yield
    assert peak() - before < MEGABYTES


def test_every_reader_has_seeds_that_it_accepts_and_the_corpus_stays_small(tmp_path: Path) -> None:
    for name in TARGETS:
        (tmp_path / name).mkdir()  # what lies beside a file may be read with it
    accepted = {n for n, seed in SEEDS if TARGETS[n].run(seed.read_bytes(), tmp_path / n)}
    assert accepted == set(TARGETS)
    assert sum(seed.stat().st_size for _, seed in SEEDS) < 300_000


@pytest.mark.parametrize(
    ("name", "seed"),
    [pair for pair in SEEDS if pair[1].name.startswith("found-")],
    ids=lambda part: getattr(part, "name", part),
)
def test_what_the_fuzzer_found_is_refused(name: str, seed: Path, tmp_path: Path) -> None:
    assert not TARGETS[name].run(seed.read_bytes(), tmp_path)


def changed(data: bytes, rng: np.random.Generator) -> bytes:
    """Return bytes with a piece overwritten, cut out, or repeated."""
    first, last = sorted(rng.integers(0, len(data) + 1, 2).tolist())
    last = min(last, first + int(rng.integers(1, 40)))
    middle = (rng.bytes(last - first), b"", 3 * data[first:last])[rng.integers(3)]
    return data[:first] + middle + data[last:]


@pytest.mark.parametrize("name", TARGETS)
def test_changed_seeds_end_in_a_result_or_an_error_of_heft(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    results = [
        TARGETS[name].run(changed(seed.read_bytes(), rng), tmp_path)
        for _, seed in (pair for pair in SEEDS if pair[0] == name)
        for _ in range(CHANGES)
    ]
    assert False in results


@pytest.mark.filterwarnings("ignore:Duplicate name")  # of the generator, in an archive
@pytest.mark.parametrize("name", GENERATORS)
def test_files_of_a_generator_are_read_if_sound_and_else_end_by_the_rule(
    name: str, tmp_path: Path
) -> None:
    read = Robot.from_urdf if name == "urdf" else log
    for seed, lies in ((0, 0.0), (1, 0.02), (2, 0.05), (3, 0.05)):
        (tmp_path / str(seed)).mkdir()
        path = GENERATORS[name](Dice(seed, lies), tmp_path / str(seed))
        with nullcontext() if not lies else suppress(HeftError):
            read(path)
