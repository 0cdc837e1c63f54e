"""Numerical kernels, compiled by numba ahead of their use and kept as whole files.

A `Kernels` is what Python calls of some compiled functions that call one another. Its machine code
is one file, named after all that it depends on: sources, constants, numba, Python and processor.
An installed heft brings these files along; where one is missing (a clone, another processor), it
is looked for in the user's cache, and made there by another process if it is not there, either.

Another process, with a processor named by level and numba's settings as they come, so that the
code is the same bytes wherever it was made and whoever uses it; the settings of the process that
uses it, and of the user's own compiled functions in it, stay what they are. Only entries are kept:
what they call is part of their code. A file appears whole or not at all, so processes need no lock.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import logging
import os
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
import numpy as np
from llvmlite import binding
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.registry import cpu_target
from numba.core.runtime.nrt import rtsys
from numba.core.serialize import dumps, loads
from numba.misc.appdirs import AppDirs
from numba.np import arrayobj

from .arrays import Array

Decorator = Callable[..., Callable[..., Any]]
Code = Mapping[str, bytes]  # machine code by the name of an entry and its arguments' types

PACKAGE = Path(__file__).parent
SHIPPED = PACKAGE / "kernels"  # in a wheel; a clone has none
# Levels of x86-64 [System V ABI, AMD64 supplement, table 3.1], and what distinguishes each.
LEVELS = {
    "x86-64-v3": ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"),
    "x86-64-v2": ("sse3", "ssse3", "sse4.1", "sse4.2", "popcnt"),
}
FORMAT = 4  # of these files, and of how the compiler is called
MOST_KEPT = 6  # files of one set of kernels in a user's cache
LOG = logging.getLogger("heft")


def kernel(*fastmath: str) -> Decorator:
    """Return a decorator that compiles a function without the GIL.

    References of arrays are not counted in it unless it is told that the function allocates some:
    counting takes as long as arithmetic on a block of samples, and cores wait for one another.

    Args:
        fastmath: LLVM's fast-math flags that are allowed. None of heft's kernels allows the
            compiler to assume that NaN or infinity do not occur.
    """
    njit: Any = numba.njit  # its types lack the last two

    def compiled(function: Any = None, *, allocates: bool = False) -> Callable[..., Any]:
        """Compile a function; see `kernel`."""
        made: Callable[..., Any] = njit(
            function,
            fastmath=set(fastmath) or False,
            nogil=True,
            error_model="numpy",
            boundscheck=False,
            no_cfunc_wrapper=True,
            _nrt=allocates,
        )
        return made

    return compiled


reassociated = kernel("reassoc", "contract", "nsz")  # sums in any order: vectorised dot products
contracted = kernel("contract")  # products and sums may be one operation; their order matters
exact = kernel()  # every operation rounds as it is written


@dataclass(frozen=True, eq=False)
class Kernels:
    """Compiled functions that Python calls, with all that they call.

    Their machine code is found at the first call of one of them.
    """

    entries: tuple[Any, ...]  # the functions that Python calls
    # calls each of them once, with the argument types in use. A function of the module that holds
    # these kernels, by which another process finds them
    warm_up: Callable[[], None]

    def __post_init__(self) -> None:
        for entry in self.entries:
            entry._cache = _Kept(self, entry.__name__)

    def name(self, processor: str) -> str:
        """Return the file name, without folder; it encodes all that the code depends on."""
        return f"{self._module}-{self.digest[:20]}.{processor}-{sys.platform}-{PYTHON}"

    @property
    def digest(self) -> str:
        """SHA-256 of sources, constants, options and version of numba, in hexadecimal."""
        made = hashlib.sha256(f"{FORMAT} {numba.__version__}".encode())
        for path in sorted(self.sources, key=lambda p: p.name):
            made.update(path.read_bytes())
        for value in self._used:
            compiled = hasattr(value, "py_func")
            said = sorted(value.targetoptions["fastmath"] or ()) if compiled else value
            made.update(repr(said).encode())
        return made.hexdigest()

    @property
    def sources(self) -> frozenset[Path]:
        """Source files of these functions and of all that they call."""
        called = (f for f in self._used if hasattr(f, "py_func"))
        return frozenset(Path(f.py_func.__code__.co_filename) for f in called)

    @cached_property
    def code(self) -> Code:
        """Machine code of the entries: from the installation, the user's cache or the compiler.

        What is missing of all kernels that this process has loaded is compiled side by side.
        Nothing is in it where another process can't be had: then this one compiles, for itself.
        """
        if code := self._stored():
            return code
        loaded = (vars(m).get("KERNELS") for m in tuple(sys.modules.values()) if m is not None)
        others = [k for k in loaded if isinstance(k, Kernels) and k is not self]
        missing = [self, *(k for k in others if "code" not in vars(k) and not k._stored())]
        LOG.warning(
            "heft: compiling numerical kernels (%s), once: up to a minute, then kept in %s",
            ", ".join(k._module.removeprefix("heft.") for k in missing),
            cache_folder(),
        )
        for kernels, code in zip(missing, _side_by_side(Kernels._made, missing), strict=True):
            vars(kernels)["code"] = code
        return vars(self)["code"]  # type: ignore[no-any-return]

    def _stored(self) -> Code:
        name = self.name(processor())
        return _read(SHIPPED / name) or _read(cache_folder() / name)

    def _made(self) -> Code:
        packed = self.compiled_elsewhere(processor())
        code = _code(packed)
        if code:
            with suppress(OSError):  # as good as before, only that the next run compiles again
                _write(packed, cache_folder() / self.name(processor()))
                _forget(cache_folder(), self._module)
        return code

    def compile(self) -> bytes:
        """Compile the entries in this process, and return their machine code, a ZIP file.

        What they call must not be called from Python afterwards: it gets no code for that.

        Raises:
            RuntimeError: If code depends on where things lie in the memory of this process.
        """
        for function in self._used:
            if hasattr(function, "py_func"):
                function.targetoptions["no_cpython_wrapper"] = True
        for entry in self.entries:
            entry._cache = NullCache()
            entry.targetoptions["no_cpython_wrapper"] = False
        self.warm_up()
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as file:
            for entry in self.entries:
                for result in entry.overloads.values():
                    if result.lifted or result.library.has_dynamic_globals:
                        raise RuntimeError(f"{entry.__name__} cannot be kept: it uses addresses")
                    name = f"{entry.__name__}{result.signature.args}"
                    file.writestr(zipfile.ZipInfo(name), _serialised(result))
        return packed.getvalue()

    @property
    def _module(self) -> str:
        return self.warm_up.__module__

    @cached_property
    def _used(self) -> tuple[Any, ...]:
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

    def compiled_elsewhere(self, processor: str) -> bytes:
        """Return the machine code compiled by another process; empty if that fails.

        It looks for modules where this one does, but never in the current folder.

        Args:
            processor: Level of x86-64, or another name that `processor` returns.
        """
        paths = [str(PACKAGE.parent), *(p for p in sys.path if os.path.isabs(p))]
        program = (
            "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "  # without a word
            f"sys.path[:] = {paths!r}; import {__name__} as c; c.emit()"
        )
        settings = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
        settings |= {"NUMBA_DISABLE_INTEL_SVML": "1"}
        if processor in LEVELS:
            settings |= {"NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": ""}
        command = [sys.executable, "-I", "-c", program, self._module]
        with suppress(OSError, ValueError, subprocess.CalledProcessError):
            return subprocess.run(command, env=settings, stdout=subprocess.PIPE, check=True).stdout
        return b""


class _Kept(NullCache):
    def __init__(self, kernels: Kernels, name: str) -> None:
        self._kernels, self._name = kernels, name

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled function for these types of arguments, None if it is not kept.

        Of kernels that are kept, all types in use are: to miss one is a defect, which costs its
        compilation in every process.
        """
        code = self._kernels.code
        data = code.get(f"{self._name}{sig}")
        if data is None:
            if code:
                what = f"heft compiles {self._name} for arguments that its warm-up lacks"
                warnings.warn(f"{what}, in this process alone: {sig}", RuntimeWarning, 2)
            return None
        # As numba's own, less all that only a compiler needs: its library of types and functions.
        rtsys.initialize(target_context)
        defined, *parts = loads(data)
        target_context.codegen()._engine._defined_symbols |= defined
        return CompileResult._rebuild(target_context, *parts)


def _serialised(result: CompileResult) -> bytes:
    """Return what is needed to call a compiled function, not what is needed to compile with it.

    That is its machine code, without its bitcode; the names that are defined in it; and of the
    environments of functions that it calls those that hold constants.
    """
    (library, kind, (code, bitcode)), *rest, called = result._reduce()
    module = binding.parse_bitcode(bitcode)
    values = (*module.functions, *module.global_variables)
    defined = {v.name for v in values if not v.is_declaration}
    nothing = binding.parse_assembly("").as_bitcode()
    needed = tuple(environment for environment in called if environment.consts)
    return bytes(dumps((defined, (library, kind, (code, nothing)), *rest, needed)))


PYTHON = "py{}{}".format(*sys.version_info)


@cache
def processor() -> str:
    """Return the highest x86-64 level of this processor, or its own name if it has none."""
    features = binding.get_host_cpu_features()
    for level, needed in LEVELS.items():
        if all(features.get(f) for f in needed):
            return level
    exact = hashlib.sha256(features.flatten().encode()).hexdigest()[:8]
    return f"{binding.get_host_cpu_name()}-{exact}"


def every_kernels() -> Iterator[Kernels]:
    """Yield all kernels of heft: each is `KERNELS` of the module that it is defined in."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if "\nKERNELS = Kernels(" in path.read_text(encoding="utf-8"):
            module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
            yield importlib.import_module(module).KERNELS


def emit() -> None:
    """Write the machine code of the kernels of module `sys.argv[1]` to standard output."""
    output = os.dup(1)
    os.dup2(2, 1)  # whatever a library says goes elsewhere
    _shorten_errors()
    packed = importlib.import_module(sys.argv[1]).KERNELS.compile()
    with os.fdopen(output, "wb") as file:
        file.write(packed)


def _shorten_errors() -> None:
    """Let numba raise a slice's wrong shape by its general message, in this process.

    That with both shapes, which no caller of heft's kernels can cause, is a fifth of their machine
    code and of the time that compiling them takes.
    """
    types = cpu_target.typing_context
    types.refresh()
    general = staticmethod(arrayobj.ol_raise_with_shape_context_generic)
    for template in types.resolve_value_type(arrayobj.raise_with_shape_context).templates:
        template._overload_func = general


def ship(folder: Path, processors: Sequence[str]) -> None:
    """Write the files of all kernels that a folder lacks, by as many processes as there are cores.

    Those that the user's cache has are taken from there.

    Args:
        folder: Folder of the files; made if missing.
        processors: Levels of x86-64 that the code is for, one file of each.
    """

    def write(kernels: Kernels, processor: str) -> None:
        name = kernels.name(processor)
        if _read(folder / name):
            return
        cached = cache_folder() / name
        packed = cached.read_bytes() if _read(cached) else kernels.compiled_elsewhere(processor)
        if not _code(packed):
            raise RuntimeError(f"{name} cannot be compiled here")
        _write(packed, folder / name)

    wanted = [(kernels, p) for kernels in every_kernels() for p in processors]
    _side_by_side(lambda one: write(*one), wanted)


def _side_by_side(work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """Return what a function makes of each item; at once as many as there are cores."""
    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        return list(pool.map(work, items))
    finally:  # also at an interrupt, which ends the processes that threads wait for
        pool.shutdown(wait=False, cancel_futures=True)


def cache_folder() -> Path:
    """Return the folder of this user's compiled kernels, by the custom of the system."""
    folder = Path(AppDirs("heft", False).user_cache_dir)
    return (folder if folder.is_absolute() else Path.home() / ".cache" / "heft") / "kernels"


def _write(packed: bytes, path: Path) -> None:
    """Write a file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_bytes(packed)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _read(path: Path) -> Code:
    """Return the machine code in a file; empty if the file is missing or damaged."""
    with suppress(OSError):
        return _code(path.read_bytes())
    return {}


def _code(packed: bytes) -> Code:
    """Return the machine code in a ZIP file; empty if a checksum is wrong."""
    with suppress(zipfile.BadZipFile), zipfile.ZipFile(io.BytesIO(packed)) as file:
        return {name: file.read(name) for name in file.namelist()}
    return {}


def _forget(folder: Path, module: str) -> None:
    """Delete the oldest files of one set of kernels: a few versions of heft may share the cache."""
    kept = sorted(folder.glob(f"{module}-*"), key=lambda path: path.stat().st_mtime)
    for old in kept[:-MOST_KEPT]:
        old.unlink()


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
