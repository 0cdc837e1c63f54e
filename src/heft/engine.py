"""Parallel execution: ordered maps over threads, BLAS limited to one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


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
    if threads <= 1:
        yield from map(work, items)
        return
    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for item in items:
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
        work: Function of an item.
        items: All of them.
        threads: How many at most work at a time; the result does not depend on it.
    """
    return list(in_order(work, items, min(threads, len(items))))


def one_blas_thread() -> AbstractContextManager[object]:
    """Return a context in which BLAS uses one thread.

    heft's matrices are small. On a busy machine several BLAS threads would wait for one another
    up to thirty times longer than they compute, and rounding would depend on their number.
    """
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1, user_api="blas")  # type: ignore[no-any-return]
