"""What every test runs with."""

from __future__ import annotations

import gc

import pytest

from heft.engine import keep_freed_memory

keep_freed_memory()  # as the command line does: a process of tests makes and drops many arrays

# Files that take longest.
LONG = (
    *("benchmarks", "documentation", "doctor_faults", "fleet", "plants", "real_data", "screens"),
    *("carried", "cooperation", "cooperation_trust", "free_flyer_identification", "recovery"),
)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> object:
    """Collect tests without looking for garbage, then or later, among what stays to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with files of long tests, so that none of these is left at the end."""
    long = {path: path.stem.removeprefix("test_") in LONG for path in {i.path for i in items}}
    items.sort(key=lambda item: not long[item.path])


@pytest.fixture
def without_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what the doctor says of logs: half the time of an identification, no number of it.

    For tests of numbers alone; those of checks and verdicts ask it.
    """
    for room in ("identification.identification", "payload.by_torques"):
        monkeypatch.setattr(f"heft.applications.{room}.faults", lambda *_: ())
