"""What an answer must pass, what is found in data, and the verdict that follows from checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

Status = Literal["pass", "warn", "fail"]
Verdict = Literal["good", "usable", "poor"]
Severity = Literal["spoils", "warns", "tells"]
SEVERITIES: tuple[Severity, ...] = ("spoils", "warns", "tells")  # the worst first


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


@dataclass(frozen=True)
class Finding:
    """One thing found in data, with its evidence and its cure.

    Attributes:
        name: What, in two or three words; the same for the same thing.
        message: What was seen, in one sentence.
        about: The signal, joint or log that it is about.
        severity: `spoils`: an identification would be wrong. `warns`: it would be worse than it
            need be. `tells`: good to know.
        evidence: The numbers behind it, units in their names.
        sure: Probability that it is so, between 0 and 1; None where it was simply counted. Of a
            finding by physics it is that of the correction against none, under the doctor's own
            model of errors.
        cure: What to do.
        lines: Lines that do it, by where they go: `map` (the column map), `options` (the TOML of
            `--with`) or `flag` (the command line).
    """

    name: str
    message: str
    about: str = "log"
    severity: Severity = "warns"
    evidence: Mapping[str, float] = field(default_factory=dict)
    sure: float | None = None
    cure: str = ""
    lines: Mapping[str, str] = field(default_factory=dict)


def verdict(checks: Iterable[Check]) -> Verdict:
    """Return what checks add up to: poor if one fails, usable if one warns."""
    statuses = {c.status for c in checks}
    return "poor" if "fail" in statuses else "usable" if "warn" in statuses else "good"
