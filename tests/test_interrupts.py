"""Interrupts: none is lost, none cuts short what clears up."""

import ctypes
import os
import signal
import sys
import time

import pytest

from heft.interrupts import AGAIN, interruptible

CALLBACK = ctypes.CFUNCTYPE(None)
TIMERS = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers on this system")


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def handlers() -> tuple[object, object]:
    return signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGALRM)


@TIMERS
def test_an_interrupt_that_a_library_drops_is_raised_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def called_back() -> None:
        interrupt()
        time.sleep(0.01)

    dropped = []
    monkeypatch.setattr(sys, "unraisablehook", lambda about: dropped.append(about.exc_type))
    before = handlers()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt), interruptible():
        CALLBACK(called_back)()
        time.sleep(20 * AGAIN)
    assert dropped == [KeyboardInterrupt]
    assert time.monotonic() - start < 10 * AGAIN
    assert handlers() == before


@TIMERS
def test_clearing_up_after_an_interrupt_is_not_cut_short() -> None:
    cleared = []
    with pytest.raises(KeyboardInterrupt), interruptible():
        try:
            interrupt()
            time.sleep(1.0)
        finally:
            try:
                raise OSError("another, while the interrupt is being handled")
            except OSError:
                time.sleep(3 * AGAIN)
            cleared.append(True)
    assert cleared
    time.sleep(2 * AGAIN)  # no interrupt is left behind


def test_nothing_changes_where_nobody_interrupts() -> None:
    before = handlers()
    with interruptible():
        pass
    assert handlers() == before
