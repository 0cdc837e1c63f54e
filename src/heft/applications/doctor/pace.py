"""Bound on a search's time, its progress, and a user who has waited long enough."""

from __future__ import annotations

import threading
import time

from heft.fit import Progress, silent


class Pace:
    """Time budget and progress messages of a search.

    Attributes:
        longest_s: Time after which no more hypotheses are tried [s].
        tried: Number of hypotheses that were tried.
        was_cut: Whether a search asked for more time than there was.
    """

    def __init__(
        self,
        longest_s: float,
        every_s: float = 10.0,
        progress: Progress = silent,
        stop: threading.Event | None = None,
    ) -> None:
        """Start the clock.

        Args:
            longest_s: Time after which no more hypotheses are tried [s].
            every_s: Time between two lines of progress [s].
            stop: Event that ends the search early, with what was found so far.
        """
        self.longest_s, self.tried, self.was_cut = longest_s, 0, False
        self._every_s, self._progress = every_s, progress
        self._stop = stop or threading.Event()
        self._begin = self._said = time.monotonic()

    def is_over(self) -> bool:
        """Return whether no more hypotheses are to be tried, and note that the search was cut."""
        self.was_cut |= self.is_stopped or time.monotonic() - self._begin > self.longest_s
        return self.was_cut

    @property
    def is_stopped(self) -> bool:
        """Whether the user stopped the search."""
        return self._stop.is_set()

    def count(self, at: int, of: int, what: str) -> None:
        """Count a hypothesis that was tried, and report progress at intervals."""
        self.tried += 1
        now = time.monotonic()
        if now - self._said > self._every_s:
            self._said = now
            self._progress(f"{at} of {of} {what} tried, {now - self._begin:.0f} s")
