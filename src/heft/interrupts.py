"""An end on a signal: at once for a command, in good order for what runs until told to stop."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

AGAIN = 0.2  # [s], from an interrupt that nothing answered to its repetition


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt at SIGINT, and again until something answers it.

    Python drops an exception that is raised while a library calls back, as compilers do: a
    single interrupt would be printed as "ignored" and the work would go on to its end. It is
    therefore repeated by a timer until the context is left, but passed over while an interrupt
    is being handled, so that clearing up is not cut short.

    Raises:
        KeyboardInterrupt: At SIGINT.
    """
    if not hasattr(signal, "setitimer"):  # Windows
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        signal.setitimer(signal.ITIMER_REAL, AGAIN, AGAIN)
        raise KeyboardInterrupt

    def repeat(number: int, frame: FrameType | None) -> None:
        if not _is_handled():
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt), signal.signal(signal.SIGALRM, repeat)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGALRM, before[1])


def _is_handled() -> bool:
    """Return whether a KeyboardInterrupt is being handled where the signal arrived."""
    problem = sys.exc_info()[1]
    while problem is not None and not isinstance(problem, KeyboardInterrupt):
        problem = problem.__context__
    return problem is not None


@contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """Yield an event that SIGINT or SIGTERM sets; a second one interrupts at once.

    Signal handlers are restored on exit.

    Raises:
        KeyboardInterrupt: At the second signal.
    """
    stop = threading.Event()

    def handler(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(n, handler) for n in numbers]
    try:
        yield stop
    finally:
        for number, former in zip(numbers, before, strict=True):
            signal.signal(number, former)
