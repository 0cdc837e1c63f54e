"""Work on a Ray cluster: of this machine, begun and ended here, or one that runs already."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, TypeVar

from heft.engine import AHEAD
from heft.errors import FitError, optional_library

Item = TypeVar("Item")
Made = TypeVar("Made")
HERE = "127.0.0.1"  # where a cluster of this machine listens, and from nowhere else


def _ray() -> ModuleType:
    return optional_library("ray", "work on a Ray cluster needs Ray", "fleet-ray", "--engine ray")


@contextmanager
def connected(address: str | None, jobs: int) -> Iterator[None]:
    """Connect with a cluster, or begin one of this machine whose files are in a temporary folder.

    Args:
        address: Such as `auto` or `ray://HOST:10001`; None for one of this machine.
        jobs: Workers of that.

    Raises:
        InvalidSetting: If Ray is not installed.
        FitError: If the cluster cannot be reached.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # else Ray reports to its makers
    if not address:  # else Ray writes a token into the user's home
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    ray = _ray()
    if ray.is_initialized():  # by the caller
        yield
        return
    with TemporaryDirectory(prefix="heft-", ignore_cleanup_errors=True) as folder:
        own = {"num_cpus": jobs, "_temp_dir": folder, "_node_ip_address": HERE}
        own |= {"include_dashboard": False}
        try:
            ray.init(
                address, **({} if address else own), log_to_driver=False, logging_level="error"
            )
        except (ConnectionError, RuntimeError, ValueError, OSError) as problem:
            raise FitError(
                "the Ray cluster cannot be reached",
                argument=f"--address {address}" if address else "--engine ray",
                got=str(problem)[:200],
            ) from problem
        try:
            yield
        finally:
            ray.shutdown()


def by_cluster(
    work: Callable[[Item], Made], items: Sequence[Item], lost: Callable[[Item], Made], tries: int
) -> Generator[tuple[Item, Made], None, None]:
    """Yield each item with work(item), as they are done; some are handed over at a time.

    Workers that die are replaced by Ray, and what they were at is done again.

    Args:
        work: Function of an item, at the top of a module that workers can import.
        lost: What is made of an item that workers die of.
        tries: Deaths of workers at an item, from which on it is lost.
    """
    ray = _ray()
    task = ray.remote(max_retries=tries - 1)(work)
    ahead = AHEAD * max(int(ray.cluster_resources().get("CPU", 1)), 1)
    remaining, running = iter(items), dict[Any, Item]()
    try:
        while True:
            for item in islice(remaining, ahead - len(running)):
                running[task.remote(item)] = item
            if not running:
                return
            (done, *_), _ = ray.wait(list(running))
            item = running.pop(done)
            try:
                made = ray.get(done)
            except ray.exceptions.RayTaskError as problem:
                raise problem.cause from problem
            except (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError):
                made = lost(item)
            yield item, made
    finally:
        for left in running:
            ray.cancel(left, force=True)
