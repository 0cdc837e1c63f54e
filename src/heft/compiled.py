"""Compilation of numerical kernels by numba, with a cache on disk that detects changed sources.

numba's own cache looks at one file only: a function is recompiled where the file that it stands
in has changed, not where a function that it calls has. So `Kernels` finds all functions that its
entries call and stores a digest of their sources and constants beside numba's files. Where the
digest differs, those files are deleted and another process compiles.

Another process, because a process that compiles rounds differently from one that loads compiled
code (calls are optimised away): so the first run gives the same bytes as the second. All functions
in that one process, for the same reason: none is compiled against loaded code of another. One
process at a time, since two that write numba's files at once can leave an index that names the
other's code, which gives wrong numbers without an error.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
import numpy as np

from .arrays import Array

Decorator = Callable[[Callable[..., Any]], Any]


def kernel(*fastmath: str) -> Decorator:
    """Return a decorator that compiles a function without the GIL and caches it on disk.

    Where numba finds no folder that it may write to, each process compiles for itself.

    Args:
        fastmath: LLVM's fast-math flags that are allowed. None of heft's kernels allows the
            compiler to assume that NaN or infinity do not occur.
    """
    options: dict[str, Any] = {
        "fastmath": set(fastmath) or False,
        "nogil": True,
        "error_model": "numpy",
        "boundscheck": False,
    }

    def decorate(function: Callable[..., Any]) -> Any:
        """Return the compiled function; see `kernel`."""
        try:
            return numba.njit(cache=True, **options)(function)
        except RuntimeError:  # no locator available
            return numba.njit(**options)(function)

    return decorate


reassociated = kernel("reassoc", "contract", "nsz")  # sums in any order: vectorised dot products
contracted = kernel("contract")  # products and sums may be one operation; their order matters
exact = kernel()  # every operation rounds as it is written


@dataclass(frozen=True, eq=False)
class Kernels:
    """Compiled functions that Python calls, with all that they call.

    No two instances share a function.

    Attributes:
        entries: The functions that Python calls.
        warm_up: Calls each of them once, with the argument types in use. A function at module
            level, so that another process can import it by name.
    """

    entries: tuple[Any, ...]
    warm_up: Callable[[], None]

    @cached_property
    def functions(self) -> tuple[Any, ...]:
        """All compiled functions, including those that the entries call."""
        return tuple(v for v in self._used if hasattr(v, "py_func"))

    @property
    def sources(self) -> frozenset[Path]:
        """Source files of these functions."""
        return frozenset(Path(f.py_func.__code__.co_filename) for f in self.functions)

    @property
    def digest(self) -> str:
        """SHA-256 of all that the compiled code depends on except the processor, in hexadecimal."""
        made = hashlib.sha256(numba.__version__.encode())
        for path in sorted({Path(__file__), *self.sources}, key=lambda p: p.name):
            made.update(path.read_bytes())
        made.update(repr([v for v in self._used if not hasattr(v, "py_func")]).encode())
        return made.hexdigest()

    def is_compiled(self) -> bool:
        """Return whether the cache holds these functions, from these sources, for this CPU."""
        stamp = self._stamp()
        return stamp is not None and _text(stamp) == self.digest and any(self._kept())

    def prepare(self) -> None:
        """Load the compiled functions, compiled first where necessary; once a process."""
        _prepare(self)

    @cached_property
    def _used(self) -> tuple[Any, ...]:
        """Compiled functions and constants that the entries use, whatever their module."""
        found, waiting = list(self.entries), list(self.entries)
        while waiting:
            function = waiting.pop().py_func
            names, globals_ = function.__code__.co_names, function.__globals__
            values = [globals_[n] for n in names if n in globals_]
            modules = [m for m in values if isinstance(m, ModuleType) and m is not np]
            values += [getattr(m, n) for m in modules for n in names if hasattr(m, n)]
            for value in values:
                called = hasattr(value, "py_func")
                if called and not any(value is f for f in found):
                    waiting.append(value)
                    found.append(value)
                elif isinstance(value, (int, float, tuple)):
                    found.append(value)
        return tuple(found)

    def _stamp(self) -> Path | None:
        """Return the file that holds the digest of what is compiled for this processor."""
        first = self.entries[0]
        if first.stats.cache_path is None:
            return None
        processor = repr(first.targetctx.codegen().magic_tuple()).encode()
        short = hashlib.sha256(processor).hexdigest()[:12]
        return Path(first.stats.cache_path) / f"{_name(first)}.{PYTHON}.{short}.digest"

    def _kept(self) -> Iterator[Path]:
        """Yield numba's files of these functions."""
        for function in self.functions:
            if function.stats.cache_path is not None:
                pattern = f"{_name(function)}-*.{PYTHON}*.nb[ic]"
                yield from Path(function.stats.cache_path).glob(pattern)

    def _renew(self) -> None:
        """Have another process compile, from nothing where what there is has other sources."""
        stamp = self._stamp()
        if stamp is None:
            return  # nothing is kept, so nothing that another process compiles would be found
        stamps = list(stamp.parent.glob(f"{_name(self.entries[0])}.{PYTHON}.*.digest"))
        if self.digest not in map(_text, stamps):  # else it is only for another processor
            for path in (*stamps, *self._kept()):
                with suppress(OSError):
                    path.unlink()
        module, verb = self.warm_up.__module__, self.warm_up.__qualname__
        paths = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
        subprocess.run(
            [sys.executable, "-c", f"from {module} import {verb}; {verb}()"],
            env=os.environ | {"PYTHONPATH": paths},
            check=False,  # whatever keeps it from compiling, this process still can
        )


PYTHON = "py{}{}".format(*sys.version_info)  # as numba's files have it in their names


def _name(function: Any) -> str:
    """Return how the names of numba's files of a function begin."""
    code = function.py_func.__code__
    return f"{Path(code.co_filename).stem}.{code.co_name}"


@cache
def _prepare(kernels: Kernels) -> None:
    with _turn():
        fresh = kernels.is_compiled()
        if not fresh:
            kernels._renew()
        kernels.warm_up()
        stamp = None if fresh else kernels._stamp()
        if stamp is not None:
            with suppress(OSError):  # as good as before, only that the next run compiles again
                stamp.write_text(kernels.digest)


def _text(path: Path) -> str | None:
    """Return what a file says, None if it cannot be read."""
    try:
        return path.read_text()
    except (OSError, UnicodeError):
        return None


@contextmanager
def _turn() -> Iterator[None]:
    """Hold a lock that all processes of this user share, where the system has such locks."""
    try:
        import fcntl
    except ImportError:  # not a POSIX system
        yield
        return
    path = Path(tempfile.gettempdir()) / f"heft-kernels-{os.getuid()}.lock"
    try:
        handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    except OSError:  # no place to lock: as safe as numba alone
        yield
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def plain(*arrays: Array) -> tuple[Array, ...]:
    """Return arrays as contiguous, writable doubles, of the same shapes and units.

    Any other layout or type would make numba compile the kernels again.
    """
    return tuple(
        a
        if a.flags.c_contiguous and a.flags.writeable and a.dtype == np.float64
        else np.array(a, dtype=np.float64, order="C")
        for a in arrays
    )
