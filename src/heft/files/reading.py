"""Reading of untrusted files: regular, readable, of bounded size, never unpickled.

A size that a file declares is compared with its actual size before memory is allocated.
"""

from __future__ import annotations

import lzma
import math
import stat
import struct
import tokenize
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from heft.errors import InputError, InvalidRecording, did_you_mean, visible

LARGEST_TEXT = 16 * 1024 * 1024  # [bytes], of a model, of settings, of results
# A file that unpacks to more than this, and to this many times its size, holds no measurements:
# noise packs ten times at best.
BOMB_BYTES, BOMB_RATIO = 256 * 1024 * 1024, 100
MOST_ARRAYS = 10_000  # of an NPZ file, each with a header to be parsed

# What zipfile and numpy raise at archives that are none, damaged, encrypted or made to harm.
UNREADABLE = (
    *(OSError, ValueError, EOFError, LookupError, TypeError, SyntaxError, ArithmeticError),
    *(MemoryError, RuntimeError, struct.error, tokenize.TokenError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError),
)


def require_regular(
    path: Path, what: str = "log", error: type[InputError] = InvalidRecording
) -> None:
    """Check that a path is a regular file that is readable and not empty.

    Raises:
        InputError: Of the given class, if the file is missing, empty, unreadable, a folder, or a
            pipe, socket or device.
    """
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError) as problem:
        reason = "a link to nothing" if path.is_symlink() else None
        cure = _neighbour(path)
        raise error(
            f"the {what} does not exist", argument=str(path), got=reason, cure=cure
        ) from problem
    except (OSError, ValueError) as problem:  # no right to, a circle of links, a NUL in its name
        raise _unreadable(path, what, error, problem) from problem
    if stat.S_ISDIR(status.st_mode):
        raise error(f"the {what} is a folder, not a file", argument=str(path))
    if not stat.S_ISREG(status.st_mode):
        raise error(
            f"the {what} is no regular file",
            argument=str(path),
            got="a pipe, socket or device",
            cure="write it to a file first: it is read more than once",
        )


def _neighbour(path: Path) -> str | None:
    """Return a suggestion of the most similar file name in the folder, None without any.

    It keeps the ending, or all but the ending: a note beside a missing TOML is none of its kind.
    """
    try:
        beside = (Path(other.name) for other in path.parent.iterdir())
        alike = (b for b in beside if b.stem == path.stem or path.suffix in ("", b.suffix))
        return did_you_mean(path.name, (b.name for b in alike if b.name != path.name))
    except OSError:
        return "look at the folder's name: that folder cannot be read"


def _unreadable(path: Path, what: str, error: type[InputError], problem: Exception) -> InputError:
    reason = getattr(problem, "strerror", None) or str(problem)
    return error(f"the {what} cannot be read", argument=str(path), got=reason)


def read_text(path: Path, what: str, error: type[InputError], largest: int = LARGEST_TEXT) -> bytes:
    """Return the bytes of a text file of bounded size, such as a model or settings.

    Args:
        largest: Largest size allowed [bytes].

    Raises:
        InputError: Of the given class, if the file cannot be read or is too large.
    """
    require_regular(path, what, error)
    try:
        with path.open("rb") as file:
            data = file.read(largest + 1)
    except OSError as problem:
        raise _unreadable(path, what, error, problem) from problem
    if len(data) > largest:
        raise error(
            f"the {what} is too large",
            argument=str(path),
            got=f"more than {largest} bytes",
            expected="a file that people wrote",
        )
    return data


def visible_texts(value: Any) -> Any:
    """Return values of TOML or JSON, their texts and keys spelt as by `errors.visible`.

    So a name out of a file is one line wherever it is told, and the same in all files.
    """
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, list):
        return [visible_texts(item) for item in value]
    if isinstance(value, dict):
        return {visible(name): visible_texts(item) for name, item in value.items()}
    return value


def is_bomb(packed: int, unpacked: int) -> bool:
    """Whether data of a size would unpack to an implausible one (decompression bomb).

    Args:
        packed: Size of the file [bytes].
        unpacked: Size that it declares [bytes].
    """
    return unpacked > max(BOMB_BYTES, BOMB_RATIO * packed)


def refuse_bomb(path: Path, unpacked: int) -> None:
    """Raise ValueError if a file declares an implausible unpacked size; see `is_bomb`.

    Args:
        unpacked: Size that it declares [bytes].
    """
    packed = path.stat().st_size
    if is_bomb(packed, unpacked):
        raise ValueError(f"{packed} bytes that claim to hold {unpacked}: this is no log")


def read_arrays(
    path: Path, lost: Callable[[str, Exception], None] | None = None, instead: str = ""
) -> dict[str, NDArray[Any]]:
    """Return the arrays of an NPZ file, read-only; nothing is unpickled.

    Args:
        instead: Beginning of the names of arrays that take the place of those without it.
        lost: Called with the name of each array that cannot be read, and the error; if None, the
            error is raised.

    Raises:
        ValueError: If it is no NPZ file, is damaged, or declares more data than it has; or another
            of `UNREADABLE`.
    """
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError("it is no zip archive of arrays")
        with zipfile.ZipFile(file) as archive:
            entries = [e for e in archive.infolist() if e.filename.endswith(".npy")]
            if not entries and archive.infolist():
                raise ValueError("it holds no arrays")
            names = [e.filename.removesuffix(".npy") for e in entries]
            twice = sorted(n for n, count in Counter(names).items() if count > 1)
            if twice:
                raise ValueError(f"two arrays are called '{twice[0]}'")
            if len(names) > MOST_ARRAYS:
                raise ValueError(f"it holds {len(names)} arrays, more than {MOST_ARRAYS}")
            refuse_bomb(path, sum(e.file_size for e in entries))
            arrays = {}
            for name, entry in zip(names, entries, strict=True):
                try:
                    arrays[name] = _array(archive, entry, name)
                except UNREADABLE as reason:
                    if lost is None:
                        raise
                    lost(name, reason)
            others = {n: arrays[n] for n in arrays if instead and n.startswith(instead)}
            return arrays | {n.removeprefix(instead): a for n, a in others.items()}


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, name: str) -> NDArray[Any]:
    with archive.open(entry) as file:
        version = npy.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"array '{name}' is of an unknown version")
        header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, by_columns, kind = header(file)
        if kind.hasobject:
            raise ValueError(
                f"array '{name}' holds pickled objects, which are never unpickled: save numbers"
            )
        data = bytearray()
        # To the end, where the checksum is looked at; pieces, for a look at interrupts.
        while piece := file.read(4 << 20):
            data += piece
    if min(shape, default=1) < 0 or math.prod(shape) * kind.itemsize != len(data):
        raise ValueError(f"array '{name}' claims shape {shape} and holds {len(data)} bytes")
    if not data and max(shape, default=0) > npy.BUFFER_SIZE:
        raise ValueError(f"array '{name}' claims shape {shape} and holds nothing")
    array = np.frombuffer(memoryview(data).toreadonly(), kind)
    return array.reshape(shape, order="F" if by_columns else "C")
