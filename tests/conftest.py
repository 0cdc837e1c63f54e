"""What every test runs with."""

from __future__ import annotations

import gc

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> object:
    """Collect thousands of tests, and what they import, as garbage that never becomes any."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
