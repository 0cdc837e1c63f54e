"""What a live node does beside weighing, each of which may fail without ending it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from heft.errors import visible

from .online import Event

LONGEST_REASON = 200  # letters
Made = TypeVar("Made")


@dataclass
class Guard:
    """Runs actions that may fail, counts their failures, and tells the first of each in a row.

    A disk can be full, a page's reader gone, a file's handle refused, for a second or for good.
    What is known of the load is a value that no failure touches.
    """

    time: float = 0.0  # of the newest sample [s], when what fails is told to have failed
    # number of failures since they were last taken, by name of the count
    counts: Counter[str] = field(default_factory=Counter)
    events: list[Event] = field(default_factory=list)  # what is to be told of them since then
    # why each action fails that failed when it was last run, by name
    failing: dict[str, str] = field(default_factory=dict)

    def run(self, name: str, count: str, action: Callable[[], Made], many: int = 1) -> Made | None:
        """Run an action and return what it returns, or None where it fails.

        Args:
            count: Name of the count that its failures add to.
            many: Number that one failure adds to it.
        """
        try:
            made = action()
        except Exception as problem:  # whatever it is: the next sample comes in a millisecond
            self.counts[count] += many
            if name not in self.failing:
                self.tell(name, problem)
            return None
        self.failing.pop(name, None)
        return made

    def tell(self, name: str, problem: Exception) -> None:
        """Record an event for a failure."""
        reason = getattr(problem, "message", None) or str(problem) or type(problem).__name__
        self.failing[name] = visible(reason)[:LONGEST_REASON]
        self.events.append(Event(self.time, f"{name} failed", self.failing[name]))

    def take(self) -> tuple[dict[str, int], tuple[Event, ...]]:
        """Return counts and events since the last call."""
        taken = dict(self.counts), tuple(self.events)
        self.counts.clear()
        self.events.clear()
        return taken
