"""Checks of a result, findings in data, and the verdict that follows from the checks."""

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
    """One acceptance test of a result: a value compared with its limit.

    Attributes:
        name: Name of the tested quantity.
        status: `pass`, `warn` or `fail`.
        value: The quantity as computed.
        limit: Largest value that passes, in the unit of `value`.
        message: What the result means and what to do.
    """

    name: str
    status: Status
    value: float
    limit: float
    message: str

    @staticmethod
    def at_most(name: str, value: float, warn: float, fail: float, message: str) -> Check:
        """Return a check that passes up to `warn`, warns up to `fail` and fails beyond it.

        Args:
            name: Name of the tested quantity.
            value: The quantity as computed.
            warn: Largest value that passes, in the unit of `value`.
            fail: Largest value that does not fail, in the unit of `value`.
            message: What the result means and what to do.
        """
        status: Status = "pass" if value <= warn else "warn" if value <= fail else "fail"
        return Check(name, status, float(value), warn, message)


@dataclass(frozen=True)
class Finding:
    """One diagnosis of a recording, with its evidence and its remedy.

    Attributes:
        name: The fault in two or three words; always the same words for the same fault.
        message: The observation in one sentence.
        about: The signal, joint or log concerned.
        severity: `spoils`: an identification would be wrong. `warns`: it would be less accurate
            than it could be. `tells`: for information only.
        evidence: The numbers that support it, with units in their names.
        sure: Probability that the diagnosis is right, in [0, 1]; None where it follows from a
            plain count. For a diagnosis by physics it is the probability of the corrected model
            against the uncorrected one, under the doctor's model of errors.
        cure: What to do.
        lines: Settings that apply the remedy, by where they go: `map` (the column map), `options`
            (the TOML of `--with`) or `flag` (the command line).
        others: Other causes that explain the same as well, as `name, about`.
    """

    name: str
    message: str
    about: str = "log"
    severity: Severity = "warns"
    evidence: Mapping[str, float] = field(default_factory=dict)
    sure: float | None = None
    cure: str = ""
    lines: Mapping[str, str] = field(default_factory=dict)
    others: tuple[str, ...] = ()


def verdict(checks: Iterable[Check]) -> Verdict:
    """Return the overall verdict of checks: poor if any fails, usable if any warns, else good."""
    statuses = {c.status for c in checks}
    return "poor" if "fail" in statuses else "usable" if "warn" in statuses else "good"
