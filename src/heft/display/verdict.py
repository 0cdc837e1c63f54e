"""Checks as a terminal and pages show them: those that failed first, each with its sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heft.information import Check

from .page import Table

MARKS = {"pass": "✓", "warn": "!", "fail": "✗"}
COLOURS = {"pass": "good", "warn": "usable", "fail": "poor"}


def finding(check: Check) -> str:
    """Return what a check found, with its value and limit."""
    number = "" if check.is_fault else f"{check.value:.3g} (limit {check.limit:.3g}), "
    return f"{check.name}: {number}{check.message}"


def judged(checks: Sequence[Check]) -> list[Check]:
    """Return checks, those that failed first."""
    return sorted(checks, key=lambda c: {"fail": 0, "warn": 1, "pass": 2}[c.status])


def not_passed(checks: Sequence[Check]) -> list[str]:
    """Return a line for each check that did not pass, those that failed first."""
    return [f"{MARKS[c.status]} {finding(c)}" for c in judged(checks) if c.status != "pass"]


def for_page(checks: Sequence[Check]) -> dict[str, Any]:
    """Return what a page needs to show checks, by the names that templates use."""
    ordered = judged(checks)
    wrong = [c for c in ordered if c.status != "pass"]
    return {
        "not_passed": _table(wrong),
        "passed": _table(ordered[len(wrong) :]),
        "first": wrong[0] if wrong else None,
        "colours": COLOURS,
    }


def _table(checks: Sequence[Check]) -> Table:
    rows = [
        [
            c.name,
            *("–" if c.is_fault else f"{v:.3g}" for v in (c.value, c.limit)),
            {"warn": "warning"}.get(c.status, c.status),
            c.message,
        ]
        for c in checks
    ]
    head = ("check", "value", "limit", "verdict", "meaning")
    return Table("", head, rows, colours={**COLOURS, "warning": COLOURS["warn"]})
