"""Runs tests in forks of a process that has other people's libraries imported already.

A mutant's tests often take less than the imports before them. Nothing of the project is imported
here: each fork imports it anew, as it then is. A line of JSON in, `{"tests": […], "most": s}`, a
line out: "passed", "failed" or "too slow", and the test that failed.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

LIBRARIES = ("numpy", "scipy.optimize", "scipy.linalg", "scipy.spatial.transform", "numba")
LIBRARIES += ("pinocchio", "pytest", "hypothesis", "pyarrow.parquet", "cyclopts", "jinja2")
FAILED = Path("failed-test.txt").absolute()  # tests may change the folder
LOOK = 0.02  # from one look at a fork to the next [s]
OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header")


class FirstFailure:
    """Keeps the name of the test that failed in a file."""

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep it."""
        if report.failed:
            FAILED.write_text(report.nodeid)


def run(tests: list[str], most: float) -> str:
    """Return what became of tests in a fork.

    Args:
        tests: Their names.
        most: Time that they may take [s].
    """
    FAILED.write_text("")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setsid()
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nothing, stream)
            for name in [n for n in sys.modules if n.partition(".")[0] in ("benchmarks", "heft")]:
                del sys.modules[name]
            import pytest

            code = int(pytest.main([*OPTIONS, *tests], plugins=[FirstFailure()]))
        finally:
            os._exit(code)
    end = time.monotonic() + most
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return "passed" if os.waitstatus_to_exitcode(status) == 0 else "failed"
        time.sleep(LOOK)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "too slow"


def main() -> None:
    """Serve until the input ends, in a copy of the project."""
    for name in LIBRARIES:
        importlib.import_module(name)
    out = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        asked = json.loads(line)
        out.write(f"{run(asked['tests'], asked['most'])}\t{FAILED.read_text()}\n")
        out.flush()


if __name__ == "__main__":
    main()
