"""What an answer must pass: checks and the verdict that follows from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Status = Literal["pass", "warn", "fail"]
Verdict = Literal["good", "usable", "poor"]


@dataclass(frozen=True)
class Check:
    """One thing looked at, and what came of it.

    Attributes:
        name: What.
        status: `pass`, `warn` or `fail`.
        value: What was found.
        limit: Up to where it passes.
        message: What it means and what to do.
    """

    name: str
    status: Status
    value: float
    limit: float
    message: str

    @staticmethod
    def at_most(name: str, value: float, warn: float, fail: float, message: str) -> Check:
        """Return a check that passes up to `warn` and fails beyond `fail`."""
        status: Status = "pass" if value <= warn else "warn" if value <= fail else "fail"
        return Check(name, status, float(value), warn, message)


def verdict(checks: Iterable[Check]) -> Verdict:
    """Return what checks add up to: poor if one fails, usable if one warns."""
    statuses = {c.status for c in checks}
    return "poor" if "fail" in statuses else "usable" if "warn" in statuses else "good"
