"""How work is executed: maps over threads and processes, BLAS limited to one, memory kept."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from contextlib import AbstractContextManager, contextmanager
from itertools import chain, islice
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# Of glibc's `mallopt`: sizes from which memory is given back to the system once it is free, and how
# many heaps threads share.
TRIM_THRESHOLD, MMAP_THRESHOLD, MOST_HEAPS = -1, -3, -8
KEPT_BYTES = 2**31 - 1  # the most that it takes
AHEAD = 2  # pieces of work a processor that are handed over, so that none waits


def keep_freed_memory() -> None:
    """Let the process keep memory that is freed for what is allocated next, on Linux with glibc.

    Arrays of some megabytes come from the system otherwise, zeroed page by page, and go back at
    once: a tenth of the time of an identification. Threads share one heap: each would keep memory
    of its own otherwise, a third of the peak.
    """
    if sys.platform != "linux":
        return
    adjust = getattr(ctypes.CDLL(None), "mallopt", None)
    if adjust is not None:
        adjust(TRIM_THRESHOLD, KEPT_BYTES)
        adjust(MMAP_THRESHOLD, KEPT_BYTES)
        adjust(MOST_HEAPS, 1)


def in_order(
    work: Callable[[Item], Result], items: Iterable[Item], threads: int
) -> Iterator[Result]:
    """Yield work(item) in the order of the items, computed by several threads.

    Items are drawn as they are needed, so that a stream of any length takes bounded memory.

    Args:
        work: Function of one item; must not change state that other items use.
        items: May be generated while others are processed.
        threads: Largest number of threads; with one, all is done in the caller's thread.
    """
    items = iter(items)
    first = [] if threads <= 1 else [*islice(items, 2)]
    if len(first) <= 1:  # one alone needs no other thread
        yield from map(work, chain(first, items))
        return
    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for item in chain(first, items):
            pending.append(pool.submit(work, item))
            if len(pending) > threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def side_by_side(
    work: Callable[[Item], Result], items: Sequence[Item], threads: int
) -> list[Result]:
    """Return the list of work(item), in the order of the items; see `in_order`.

    Args:
        threads: Largest number of threads; the result does not depend on it.
    """
    return list(in_order(work, items, min(threads, len(items))))


def by_processes(
    work: Callable[[Item], Result], items: Sequence[Item], jobs: int, apart: bool = False
) -> Generator[tuple[Item, Result], None, None]:
    """Yield each item with work(item), as they are done.

    Whoever leaves early closes the generator (`contextlib.closing`): its processes end at once,
    whatever they are at, and nothing that they were at is kept.

    Args:
        work: Function of an item, at the top of a module; items and results can be pickled.
        jobs: Processes; with one, all is done in the caller's own.
        apart: Whether one is another process, too, whose death the caller survives.

    Raises:
        concurrent.futures.process.BrokenProcessPool: If a process dies.
    """
    if jobs <= 1 and not apart:
        for item in items:
            yield item, work(item)
        return
    others = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")  # threads of this process are not copied
    with _safe_path():  # another process keeps account of their locks
        pool = ProcessPoolExecutor(jobs, context, initializer=_deaf)
    try:
        remaining, waiting = iter(items), dict[Future[Result], Item]()
        while True:
            with _safe_path():  # processes start as there is work for them
                for item in islice(remaining, AHEAD * jobs - len(waiting)):
                    waiting[pool.submit(work, item)] = item
            if not waiting:
                break
            done, _ = wait(waiting, return_when=FIRST_COMPLETED)
            while done:  # results are not kept beyond their use
                future = done.pop()
                yield waiting.pop(future), future.result()
                del future
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - others:
            process.kill()
        raise
    pool.shutdown()


@contextmanager
def _safe_path() -> Iterator[None]:
    """Keep processes that start meanwhile from importing modules of the current folder.

    They start by `python -c`, which looks there first, whatever Python this process is.
    """
    name, before = "PYTHONSAFEPATH", os.environ.get("PYTHONSAFEPATH")
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _deaf() -> None:
    """Ignore keyboard interrupts: they are left to the parent process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def one_blas_thread() -> AbstractContextManager[object]:
    """Return a context in which BLAS uses one thread.

    heft's matrices are small. On a busy machine several BLAS threads would wait for one another
    up to thirty times longer than they compute, and rounding would depend on their number.
    """
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1, user_api="blas")  # type: ignore[no-any-return]
