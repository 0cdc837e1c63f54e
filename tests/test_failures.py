"""Failures of writes, handles, reads, memory and clocks, one after another: a sample of each."""

from __future__ import annotations

import errno
import io
import os
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from benchmarks.failures import BACK, Ended, Shim, apart, breaches, failing
from benchmarks.failures import Command as Disturbed


def test_what_is_to_fail_does_once_or_from_then_on(tmp_path: Path) -> None:
    def fails() -> list[bool]:
        found = []
        for k in range(4):
            try:
                with io.open(tmp_path / str(k), "wb", 0) as file:  # noqa: UP020 (the shim's)
                    file.write(b"x")
                found.append(False)
            except OSError as problem:
                assert problem.errno == errno.ENOSPC
                found.append(True)
        return found

    with failing(Shim("write", 1, errno.ENOSPC)):
        assert fails() == [False, True, False, False]
    with failing(Shim("write", 1, errno.ENOSPC, lasting=True)):
        assert fails() == [False, True, True, True]
    with failing(Shim()):
        assert fails() == [False] * 4
    assert fails() == [False] * 4


def test_memory_handles_reads_and_clocks_fail_too(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    with failing(Shim("memory", 0)), pytest.raises(MemoryError):
        np.zeros(3)
    with failing(Shim("open", 0, errno.EMFILE)), pytest.raises(OSError, match="open files"):
        os.open(tmp_path / "file", os.O_RDONLY)
    with failing(Shim("read", 0, errno.EIO)), pytest.raises(OSError, match="Input/output"):
        (tmp_path / "file").read_bytes()
    with failing(Shim("clock", 1)):
        first, second = time.monotonic(), time.monotonic()
    assert second - first == pytest.approx(-BACK, abs=1.0)


COMMAND = Disturbed("x", [], frozenset({"estimate.json"}), "answer")
BROKEN = {
    "hangs": (Ended(None, "", "", {}), None),
    "tracebacks": (Ended(1, "", "heft: x\nTraceback (most recent call last)", {}), None),
    "neither result nor refusal": (Ended(0, "", "", {}), None),
    "refusals that say nothing": (Ended(2, "", "", {}), None),
    "half results": (Ended(0, "answer", "", {}), "out/other.json"),
    "half checkpoints": (Ended(0, "answer", "", {}), "kept"),
    "files left": (Ended(0, "answer", "", {}), "half"),
}


@pytest.mark.parametrize("law", BROKEN)
def test_a_broken_law_is_seen(law: str, tmp_path: Path) -> None:
    ended, left = BROKEN[law]
    assert breaches(COMMAND, tmp_path, set(), Ended(0, "answer", "", {})) == []
    if left is not None:
        (tmp_path / left).parent.mkdir(exist_ok=True)
        (tmp_path / left).write_text("half")
    assert breaches(COMMAND, tmp_path, set(), ended) == [law]


@pytest.mark.parametrize(("name", "runs"), [("live", 10), ("identify", 5), ("freeflyer", 5)])
def test_a_failure_costs_a_refusal_at_most(name: str, runs: int) -> None:
    rows = apart(name, runs, seed=7)
    assert [row.name for row in rows if row.holds is False] == []
    kinds = Counter(row.name.split(": ")[1].split(",")[0] for row in rows if row.holds is None)
    assert {"write", "open", "read", "memory"} <= set(kinds)
