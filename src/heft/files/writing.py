"""Atomic writing of results: a file or folder appears complete or not at all.

It is written to a hidden folder beside its destination, flushed to the disk, and moved in one step.
A run that was killed leaves the hidden folder behind; the next run to that destination removes it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import tempfile
import zipfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from heft.errors import InvalidSetting

EXCHANGE, HERE = 2, -100  # Linux's RENAME_EXCHANGE and AT_FDCWD


def require_writable(out: Path, option: str = "--out") -> None:
    """Check that results can be written to a path; call it before any computation.

    Raises:
        InvalidSetting: If the path is inside a file, a device or pipe, a mount point, or not
            writable.
    """
    where = f"{option} {out}"
    try:
        out.resolve().exists()
    except (OSError, ValueError, RuntimeError) as problem:  # its name is too long, or no name
        raise InvalidSetting(
            "this is no place for results", argument=where, got=str(problem)
        ) from problem
    if not out.resolve().name or os.path.ismount(out):
        raise InvalidSetting(
            "a folder that others are mounted on cannot be replaced",
            argument=where,
            cure="name a folder inside it",
        )
    if out.exists() and not (out.is_file() or out.is_dir()):
        raise InvalidSetting(
            "a device or pipe is not replaced", argument=where, cure="name a file or folder"
        )
    above = next(p for p in out.absolute().parents if p.exists())
    if not above.is_dir():
        raise InvalidSetting("the place for results is inside a file", argument=where, got=above)
    if not os.access(above, os.W_OK | os.X_OK):
        raise InvalidSetting(
            "the folder cannot be written to",
            argument=where,
            got=above,
            cure="name another place, or ask for the right to write there",
        )


def require_own(out: Path, names: Collection[str]) -> None:
    """Check that a folder for results is writable and has no other files.

    Raises:
        InvalidSetting: If it has other files, is a file, or cannot be written.
    """
    require_writable(out)
    if out.exists() and not out.is_dir():
        raise InvalidSetting("the place for results is a file", argument=f"--out {out}")
    others = sorted({p.name for p in out.iterdir()} - set(names)) if out.exists() else []
    if others:
        raise InvalidSetting(
            "the folder for results holds other files, which are not overwritten",
            argument=f"--out {out}",
            got=", ".join(others[:5]),
            cure="name an empty or new folder",
        )


@contextmanager
def workshop(out: Path) -> Iterator[Path]:
    """Yield a new hidden folder beside a destination; it is removed on exit."""
    prefix = f".{out.name}.heft-"
    with ExitStack() as stack, _noting(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        with locked(out.parent, wait=True) as alone:  # none may take a new folder for a left one
            for stale in out.parent.iterdir() if alone else ():
                if stale.name.startswith(prefix):
                    with locked(stale) as abandoned:
                        if abandoned:
                            shutil.rmtree(stale, ignore_errors=True)
            folder = Path(tempfile.mkdtemp(prefix=prefix, dir=out.parent))
            stack.enter_context(locked(folder))
        stack.callback(_remove, folder)
        yield folder


@contextmanager
def _noting(out: Path) -> Iterator[None]:
    """Add the destination to an `OSError` as a note: the system may not name it."""
    try:
        yield
    except OSError as problem:
        problem.add_note(str(out))
        raise


def _remove(folder: Path) -> None:
    """Remove a folder; without a file handle to list it, remove it only if it is empty."""
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        folder.rmdir()


@contextmanager
def locked(folder: Path, wait: bool = False) -> Iterator[bool]:
    """Yield whether a folder could be locked; its lock ends with the process at the latest."""
    try:
        import fcntl
    except ImportError:  # not a POSIX system
        yield False
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # gone in the meantime
        yield False
        return
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError:  # held by another run, or no locks on this file system
            yield False
        else:
            yield True
    finally:
        os.close(handle)


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Yield an empty folder, which takes its destination's place if no error is raised."""
    with workshop(out) as shop:
        new = shop / out.name
        new.mkdir()
        yield new
        put(new, out)


def put(new: Path, out: Path) -> None:
    """Move a file or folder to its destination, in one step where the system can.

    Args:
        new: The file, or a folder of files. Afterwards it is gone, or has the previous contents of
            `out`.

    Raises:
        InvalidSetting: If a file would take the place of a folder, and of all in it.
    """
    if out.is_dir() and not new.is_dir():
        raise InvalidSetting(
            "a folder is not replaced by a file", argument=str(out), cure="name a file inside it"
        )
    for path in new.iterdir() if new.is_dir() else [new]:
        _flush(path)
    if not out.is_dir():
        new.rename(out)
    elif not _exchange(new, out):
        _swap(new, out)
    with suppress(OSError):  # it is in place: only the disk could say more
        _flush(out.parent)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _exchange(new: Path, out: Path) -> bool:
    """Exchange two folders in one step, as Linux can; return whether it was done."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(HERE, os.fsencode(new), HERE, os.fsencode(out), EXCHANGE) == 0:
        return True
    problem = ctypes.get_errno()
    if problem in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):  # not on this file system
        return False
    raise OSError(problem, os.strerror(problem), str(out))


def _swap(new: Path, out: Path) -> None:
    """Put a new folder in an old one's place, which is empty for a moment in between."""
    old = new.with_name("replaced")
    try:
        out.rename(old)
        new.rename(out)
    except BaseException:  # also an interrupt: the earlier results go back to their place
        if old.exists() and not out.exists():
            old.rename(out)
        raise


def write_text(path: Path, text: str | bytes | Iterator[str]) -> None:
    """Write a UTF-8 text file, or bytes, atomically; an existing file is replaced.

    Args:
        text: All of it, or one part after another.

    Raises:
        InvalidSetting: If it cannot be written there.
    """
    require_writable(path)
    path = path.resolve()
    with workshop(path) as folder:
        new = folder / path.name
        with new.open("wb") as file:
            parts = [text] if isinstance(text, str | bytes) else text
            file.writelines(p.encode() if isinstance(p, str) else p for p in parts)
        put(new, path)


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write an NPZ file, compressed where that saves space.

    Most of what is stored are zeros, which pack as well as anything, or covariances, which do not
    pack at all and would take most of the time.

    Args:
        arrays: By name; nothing is pickled.
    """
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, array in arrays.items():
            # Where more than half of the numbers are not zero, packing does not pay.
            full = array.dtype.kind == "f" and np.count_nonzero(array) > 0.5 * array.size
            archive.compression = zipfile.ZIP_STORED if full else zipfile.ZIP_DEFLATED
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                npy.write_array(file, np.asanyarray(array), allow_pickle=False)
