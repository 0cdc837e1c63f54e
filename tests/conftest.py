"""What every test runs with."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from itertools import chain, islice

import pytest

# Files with the longest tests.
LONG = ("documentation", "benchmarks", "screens", "carried", "fleet", "free_flyer_identification")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> object:
    """Collect tests without looking for garbage, then or later, among what stays to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin each worker's share with files of long tests, so that none of these is left at the end.

    Workers that are done take tests from the end of what others have.
    """
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    early = [[i for i in items if i.path.stem == f"test_{name}"] for name in LONG]
    others = iter([i for i in items if i.path.stem.removeprefix("test_") not in LONG])
    shares: list[Sequence[pytest.Item]] = []
    for k in range(workers):
        first = list(chain.from_iterable(early[k::workers]))
        size = (k + 1) * len(items) // workers - k * len(items) // workers
        shares.append([*first, *islice(others, max(size - len(first), 0))])
    items[:] = [*chain.from_iterable(shares), *others]


@pytest.fixture
def without_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what the doctor says of logs: half the time of an identification, no number of it.

    For tests of numbers alone; those of checks and verdicts ask it.
    """
    for room in ("identification.identification", "payload.by_torques"):
        monkeypatch.setattr(f"heft.applications.{room}.faults", lambda *_: ())
