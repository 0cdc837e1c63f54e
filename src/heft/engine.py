"""How work is shared out: in order, on threads; and the linear algebra on one thread."""

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
    """Yield work(item) in the items' order, a few of them at a time in threads.

    Items are drawn as they are needed, so that a stream of any length takes bounded memory.

    Args:
        work: Must not change what other items see.
        items: May be made while others are worked on.
        threads: At most so many at a time; none are started for one.
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
    """Return work(item) of each of a few items, in their order; see `in_order`."""
    return list(in_order(work, items, min(threads, len(items))))


def one_blas_thread() -> AbstractContextManager[object]:
    """Keep the linear algebra to one thread while this is entered.

    Its matrices are small: threads would wait for one another thirty times longer than they
    work on a busy machine, and sums would depend on how many there are.
    """
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1, user_api="blas")  # type: ignore[no-any-return]
