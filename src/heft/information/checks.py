"""Checks of a result, findings in data, and the verdict that follows from the checks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

Status = Literal["pass", "warn", "fail"]
Verdict = Literal["good", "usable", "poor"]
Severity = Literal["spoils", "warns", "tells"]
# where the lines of a cure go: the column map, the TOML of options, the command line
TAKEN_BY = {"map": "--map", "options": "--with", "flag": "flag"}
SEVERITIES: tuple[Severity, ...] = ("spoils", "warns", "tells")  # the worst first


@dataclass(frozen=True)
class Check:
    """One acceptance test of a result: a value compared with its limit."""

    name: str  # name of the tested quantity
    status: Status  # `pass`, `warn` or `fail`
    value: float  # the quantity as computed; NaN of a finding, which has no number
    limit: float  # largest value that passes, in the unit of `value`
    message: str  # what the result means and what to do

    @staticmethod
    def at_most(name: str, value: float, warn: float, fail: float, message: str) -> Check:
        """Return a check that passes up to `warn`, warns up to `fail` and fails beyond it.

        Args:
            warn: Largest value that passes, in the unit of `value`.
            fail: Largest value that does not fail, in the unit of `value`.
        """
        status: Status = "pass" if value <= warn else "warn" if value <= fail else "fail"
        return Check(name, status, float(value), warn, message)

    @property
    def is_fault(self) -> bool:
        """Whether it is a finding on the data, which has no number."""
        return math.isnan(self.value) and self.limit == 0.0

    @staticmethod
    def of(finding: Finding) -> Check:
        """Return a check without a number, failed by a finding that spoils an identification.

        Others warn.
        """
        message = "\n".join([f"{finding.about}: {finding.message}", *finding.remedy])
        status: Status = "fail" if finding.severity == "spoils" else "warn"
        return Check(finding.name, status, math.nan, 0.0, message)


@dataclass(frozen=True)
class Finding:
    """One diagnosis of a recording, with its evidence and its remedy."""

    name: str  # the fault in two or three words; always the same words for the same fault
    message: str  # the observation in one sentence
    about: str = "log"  # the signal, joint or log concerned
    # `spoils`: an identification would be wrong. `warns`: it would be less accurate than it could
    # be. `tells`: for information only
    severity: Severity = "warns"
    # the numbers that support it, with units in their names
    evidence: Mapping[str, float] = field(default_factory=dict)
    # probability that the diagnosis is right, in [0, 1]; None where it follows from a plain count.
    # For a diagnosis by physics it is the probability of the corrected model against the
    # uncorrected one, under the doctor's model of errors
    sure: float | None = None
    cure: str = ""  # what to do
    # settings that apply the remedy, by where they go: `map` (the column map), `options` (the TOML
    # of `--with`) or `flag` (the command line)
    lines: Mapping[str, str] = field(default_factory=dict)
    others: tuple[str, ...] = ()  # other causes that explain the same as well, as `name, about`

    @property
    def remedy(self) -> list[str]:
        """What to do, in indented lines for a terminal."""
        sentences = [f"    {self.cure}"] if self.cure else []
        for place, content in self.lines.items():
            where = f"    {TAKEN_BY[place]}:  "
            sentences.append(where + content.replace("\n", "\n" + " " * len(where)))
        return sentences


def verdict(checks: Iterable[Check]) -> Verdict:
    """Return the overall verdict of checks: poor if any fails, usable if any warns, else good."""
    statuses = {c.status for c in checks}
    return "poor" if "fail" in statuses else "usable" if "warn" in statuses else "good"
