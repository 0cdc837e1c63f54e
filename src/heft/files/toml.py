"""Settings files: TOML read with care, each key checked, unknown ones refused with the nearest."""

from __future__ import annotations

import math
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidSetting, nearest, shown

from .reading import read_text

Scalar = TypeVar("Scalar")
LARGEST_NUMBER = 1e12  # of any setting; what is larger only overflows
LARGEST_SETTINGS = 1024 * 1024  # [bytes]
MOST_DOTS = 200  # in a key; tomllib takes time by the square of them


def read_toml(path: Path) -> dict[str, Any]:
    """Return a TOML file's table.

    Raises:
        InvalidSetting: If it cannot be read or is no TOML.
    """
    data = read_text(path, "file of settings", InvalidSetting, LARGEST_SETTINGS)
    if max(piece.count(b".") for piece in re.split(rb"[=,\n\[\]{}#]", data)) > MOST_DOTS:
        raise InvalidSetting("keys are nested too deeply", argument=str(path))
    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError) as problem:  # also TOMLDecodeError, UnicodeDecodeError
        raise InvalidSetting(
            "this is not a TOML file", argument=str(path), got=str(problem)
        ) from problem


def refuse_unknown(table: Mapping[str, Any], valid: tuple[str, ...], where: str) -> None:
    """Raise `InvalidSetting` for a key that means nothing, with the nearest that does."""
    for key in table:
        if key not in valid:
            near = nearest(key, valid)
            raise InvalidSetting(
                f"'{key}' is not known here",
                argument=where,
                valid=valid,
                cure=f"did you mean '{near}'?" if near else None,
            )


def number(value: object, where: str) -> float:
    """Return a finite number of a TOML file, or raise `InvalidSetting`."""
    try:
        result = float(value) if type(value) in (int, float) else math.nan  # type: ignore[arg-type]
    except OverflowError:
        result = math.inf
    if not abs(result) <= LARGEST_NUMBER:
        raise InvalidSetting(
            "a finite number is expected",
            argument=where,
            got=shown(value),
            expected=f"at most {LARGEST_NUMBER:g} in size",
        )
    return result


def name_list(value: object, where: str) -> tuple[str, ...]:
    """Return a list of different names of a TOML file, or raise `InvalidSetting`."""
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise InvalidSetting("a list of names is expected", argument=where, got=shown(value))
    if "" in value:
        raise InvalidSetting("a name is empty", argument=where, got=shown(value))
    twice = sorted(name for name, count in Counter(value).items() if count > 1)
    if twice:
        raise InvalidSetting("a name is there twice", argument=where, got=", ".join(twice))
    return tuple(value)


def vector(value: object, where: str, length: int | None = None) -> list[float]:
    """Return a list of finite numbers of a TOML file, or raise `InvalidSetting`."""
    return list_of(number, value, where, length)


def list_of(
    read: Callable[[object, str], Scalar], value: object, where: str, length: int | None = None
) -> list[Scalar]:
    """Return what `read` makes of each entry of a list of a TOML file, or raise its errors."""
    if not isinstance(value, list | tuple) or (length is not None and len(value) != length):
        raise InvalidSetting(
            f"a list of {'' if length is None else f'{length} '}numbers is expected",
            argument=where,
            got=shown(value),
        )
    return [read(v, where) for v in value]


def interval(value: object, where: str) -> tuple[float, float]:
    """Return a pair least ≤ most of finite numbers, or raise `InvalidSetting`."""
    least, most = vector(value, where, 2)
    if least > most:
        raise InvalidSetting("the least is above the most", argument=where, got=[least, most])
    return least, most


def box(value: object, where: str) -> tuple[tuple[float, float], ...]:
    """Return the least and most of x, y and z, or raise `InvalidSetting`."""
    if not isinstance(value, list | tuple) or len(value) != 3:
        raise InvalidSetting(
            "least and most of x, y and z are expected", argument=where, got=shown(value)
        )
    return tuple(interval(pair, f"{where}.{axis}") for axis, pair in zip("xyz", value, strict=True))


def matrix_rows(value: object, where: str) -> Array:
    """Return a rectangular matrix of a TOML file, or raise `InvalidSetting`."""
    return np.array(rows_of(number, value, where))


def rows_of(read: Callable[[object, str], Scalar], value: object, where: str) -> list[list[Scalar]]:
    """Return what `read` makes of each entry of a matrix of a TOML file, or raise its errors."""
    if not isinstance(value, list) or not value:
        raise InvalidSetting("a list of rows is expected", argument=where, got=shown(value))
    rows = [list_of(read, row, where) for row in value]
    if len({len(row) for row in rows}) != 1:
        raise InvalidSetting("the rows differ in length", argument=where)
    return rows
