"""What every test runs with."""

from __future__ import annotations

import gc

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> object:
    """Collect tests without looking for garbage, then or later, among what stays to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture
def without_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what the doctor says of logs: half the time of an identification, no number of it.

    For tests of numbers alone; those of checks and verdicts ask it.
    """
    for room in ("identification.identification", "payload.by_torques"):
        monkeypatch.setattr(f"heft.applications.{room}.faults", lambda *_: ())
