"""What the log doctor says: a finding with its evidence, how sure it is, and the cure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Severity = Literal["spoils", "warns", "tells"]
SEVERITIES: tuple[Severity, ...] = ("spoils", "warns", "tells")


@dataclass(frozen=True)
class Finding:
    """One thing found in a log.

    Attributes:
        name: What, in two or three words; the same for the same thing.
        about: The signal, joint or log that it is about.
        severity: `spoils`: an identification would be wrong. `warns`: it would be worse than it
            need be. `tells`: good to know.
        message: What was seen, in one sentence.
        evidence: The numbers behind it, units in their names.
        sure: Probability that it is so, between 0 and 1; None where it was simply counted. Of a
            finding by physics it is that of the correction against none, under the doctor's own
            model of errors.
        cure: What to do.
        lines: Lines that do it, by where they go: `map` (the column map), `options` (the TOML of
            `--with`) or `flag` (the command line).
    """

    name: str
    about: str
    severity: Severity
    message: str
    evidence: Mapping[str, float] = field(default_factory=dict)
    sure: float | None = None
    cure: str = ""
    lines: Mapping[str, str] = field(default_factory=dict)
