"""HDF5 and MATLAB files: arrays by their path or their name, read whole into memory."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft.errors import InvalidRecording
from heft.files import is_bomb, refuse_bomb

from .npz import arrays_table
from .table import MOST_COLUMNS, Damaged, Table, damaged_file, library, refuse_many, unreadable

NUMBERS = "fiu"  # kinds of types
# Of MATLAB's files: bytes of the head, kinds of elements, classes of matrices, types of numbers.
HEAD, MATRIX, PACKED = 128, 14, 15
STRUCTURE, NUMERIC, COMPLEX, DEEPEST = 2, range(6, 16), 0x0800, 16
TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}


def hdf5_table(path: Path, damaged: Damaged) -> Table:
    """Return the datasets of an HDF5 file; the columns of a 2-D one `a/x` are `a/x[0]`, ….

    Links to other files are not followed.

    Raises:
        InvalidRecording: If it is no readable HDF5 file, or the datasets differ in length.
    """
    return arrays_table(*_datasets(path, damaged), path)


def _datasets(path: Path, damaged: Damaged) -> tuple[dict[str, NDArray[Any]], list[str]]:
    """Return the arrays of numbers of an HDF5 file by their path, and what else is in it."""
    h5py = library("h5py", path, "hdf5")
    datasets: dict[str, Any] = {}

    def visit(name: str, item: Any) -> bool | None:
        if isinstance(item, h5py.Dataset) and not name.startswith("#"):  # MATLAB's references
            datasets[name] = item
        return len(datasets) > MOST_COLUMNS or None

    arrays: dict[str, NDArray[Any]] = {}
    others = []
    try:
        with h5py.File(path, "r", locking=False) as file:
            file.visititems(visit)
            refuse_many(len(datasets), path)
            size = 0
            for name, item in datasets.items():
                own = not item.is_virtual and item.external is None
                if own and item.dtype.kind in NUMBERS and item.ndim in (1, 2):
                    size += item.nbytes
                    refuse_bomb(path, size)
                    try:
                        arrays[name] = item[()]
                    except OSError as problem:
                        why = f"dataset '{name}': {str(problem)[:80]}"
                        damaged(damaged_file("HDF5 file", path, why))
                else:
                    others.append(name)
    except InvalidRecording:
        raise
    except Exception as problem:  # what a file says: anything may be in there
        raise unreadable("HDF5 file", path, problem) from problem
    return arrays, others


def matlab_table(path: Path, damaged: Damaged) -> Table:
    """Return the matrices of a MATLAB file, a row a sample; those in a structure `s` are `s.x`.

    A matrix is turned where only so it is as long as a vector of the file.

    Raises:
        InvalidRecording: If it is no readable MATLAB file, or its matrices differ in length.
    """
    with path.open("rb") as file:
        version = file.read(10)
    if version == b"MATLAB 7.3":
        arrays, others = _datasets(path, damaged)  # each of which MATLAB turns
        arrays = {name.replace("/", "."): array.T for name, array in arrays.items()}
    elif version == b"MATLAB 5.0":
        matrices: list[tuple[str, NDArray[Any]]] = []
        try:
            for part in _parts(path):
                matrices += _matrices(part, "", 0)
        except (ValueError, TypeError, OverflowError, struct.error, zlib.error) as problem:
            if not matrices:
                raise unreadable("MATLAB file", path, problem) from problem
            why = f"behind '{matrices[-1][0]}': {problem}"
            damaged(damaged_file("MATLAB file", path, why))
        arrays = {name: array for name, array in matrices if array.dtype.kind in NUMBERS}
        others = [name for name, array in matrices if name not in arrays]
    else:
        raise InvalidRecording(
            "this is no MATLAB file of version 5 to 7.3",
            argument=str(path),
            got="other bytes at its beginning",
            cure="save it with -v7",
        )
    return arrays_table(_upright(arrays), others, path)


def _upright(arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return matrices as vectors where they are some, and else with a row a sample."""
    made = {n: a.ravel() if a.ndim == 2 and 1 in a.shape else a for n, a in arrays.items()}
    lengths = {len(a) for a in made.values() if a.ndim == 1}
    return {
        n: a.T if a.ndim == 2 and len(a) not in lengths and a.shape[1] in lengths else a
        for n, a in made.items()
    }


@dataclass(frozen=True)
class _Element:
    """An element of a MATLAB file (MathWorks, MAT-File Format, section 1, level 5)."""

    kind: int
    data: bytes
    order: str  # of bytes, as `struct` spells it

    def elements(self) -> Iterator[_Element]:
        """Yield the elements inside."""
        at = 0
        while at + 8 <= len(self.data):
            kind, length = struct.unpack_from(self.order + "II", self.data, at)
            begin = at + 8
            if kind >> 16:  # a short one, whose data stand in its head
                kind, length, begin = kind & 0xFFFF, kind >> 16, at + 4
            if begin + length > len(self.data):
                raise ValueError(f"{length} bytes where {len(self.data) - begin} are left")
            yield _Element(kind, self.data[begin : begin + length], self.order)
            at = begin + length + -(begin + length) % 8

    def numbers(self) -> NDArray[Any]:
        """Return the numbers of an element of such."""
        if self.kind not in TYPES:
            raise ValueError(f"numbers of kind {self.kind}")
        return np.frombuffer(self.data, self.order + TYPES[self.kind])


def _parts(path: Path) -> Iterator[_Element]:
    """Yield the matrices of a file, unpacked."""
    size, unpacked = path.stat().st_size, 0
    with path.open("rb") as file:
        order = {b"IM": "<", b"MI": ">"}.get(file.read(HEAD)[126:])
        if order is None:
            raise ValueError("its head is cut off, or names no order of bytes")
        while head := file.read(8):
            kind, length = struct.unpack(order + "II", head)
            data = file.read(length) if length <= size else b""
            if len(data) < length:
                raise ValueError(f"{length} bytes where {len(data)} are left")
            if kind != PACKED:
                yield _Element(kind, data, order)
                continue
            unpacker, content = zlib.decompressobj(), bytearray()
            while data and not unpacker.eof:
                content += unpacker.decompress(data, 1 << 20)
                data = unpacker.unconsumed_tail
                if is_bomb(size, unpacked + len(content)):
                    raise ValueError(f"{size} bytes that hold more than {unpacked}")
            unpacked += len(content)
            yield from _Element(0, bytes(content), order).elements()


def _matrices(part: _Element, name: str, depth: int) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the arrays in an element by name; those that hold no numbers are empty texts."""
    if part.kind != MATRIX or not part.data:
        return
    if depth > DEEPEST:
        raise ValueError("structures in structures without end")
    inside = part.elements()
    flags, shape, own = (next(inside, part) for _ in range(3))
    (flag,) = struct.unpack_from(part.order + "I", flags.data)
    dims = shape.numbers().tolist()
    name += own.data.decode("utf-8", "replace")
    if flag & 0xFF in NUMERIC and not flag & COMPLEX:
        numbers = next(inside, part).numbers()
        yield name, numbers.reshape(dims, order="F")
    elif flag & 0xFF == STRUCTURE and dims == [1, 1]:
        (longest,) = next(inside, part).numbers().tolist()
        names = next(inside, part).data
        fields = range(0, len(names), max(longest, 1))
        for begin, field in zip(fields, inside, strict=False):
            own_name = names[begin : begin + longest].split(b"\0")[0].decode("utf-8", "replace")
            yield from _matrices(field, f"{name}.{own_name}", depth + 1)
    else:
        yield name, np.empty(0, "U1")
