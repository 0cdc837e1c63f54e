"""Settings: TOML files checked by composable readers; unknown keys are refused with a suggestion.

A reader takes a value and its place in the file, and returns the parsed value or raises
`InvalidSetting` with that place. Readers are composed: a `Section` has one for each key and
constructs a frozen dataclass of their results. Conditions on several keys together are checked
in the constructor of that dataclass.

    JOINT = Section(JointOptions, {"armature": truth, "gain": Number("a gain is …", above=0.0)})
    OPTIONS = Section(Options, {"joint": named(JOINT), "gravity": list_of(number, 3)})
    OPTIONS(read_toml(path), str(path))

Places are written as TOML writes them: `with.toml, [joint.elbow], gain`. The same readers check
the fields of settings that are made in Python (`check_fields`).
"""

from __future__ import annotations

import math
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from heft.errors import InvalidSetting, did_you_mean, require_one_of, shown

from .reading import read_text, visible_texts

Scalar = TypeVar("Scalar")
Made = TypeVar("Made", covariant=True)
Reader: TypeAlias = Callable[[object, str], Scalar]
Keys: TypeAlias = Mapping[str, Reader[Any]]
LARGEST_NUMBER = 1e12  # of any setting; what is larger only overflows


def read_toml(path: Path) -> dict[str, Any]:
    """Return the table of a TOML file.

    Raises:
        InvalidSetting: If the file cannot be read, is too large or is not valid TOML.
    """
    data = read_text(path, "file of settings", InvalidSetting, 1 << 20)
    # tomllib takes time by the square of the dots in a key.
    if max(piece.count(b".") for piece in re.split(rb"[=,\n\[\]{}#]", data)) > 200:
        raise InvalidSetting("keys are nested too deeply", argument=str(path))
    try:
        return dict(visible_texts(tomllib.loads(data.decode())))
    except (ValueError, RecursionError) as problem:  # also TOMLDecodeError, UnicodeDecodeError
        raise InvalidSetting(
            "this is not a TOML file", argument=str(path), got=str(problem)
        ) from problem


@dataclass(frozen=True)
class Number:
    """Reader of a finite number within bounds."""

    says: str = ""  # error message for any other value
    # least, most: inclusive bounds
    least: float = -LARGEST_NUMBER
    most: float = LARGEST_NUMBER
    # above, below: exclusive bounds
    above: float = -math.inf
    below: float = math.inf
    unit: str = ""  # unit of number and bounds
    whole: bool = False  # whether an integer is required
    holds: Callable[[float], bool] = lambda _: True  # further condition on the number
    cure: str | None = None  # the next step for the message, if not the default

    def __call__(self, value: object, where: str) -> float:
        """Return the number, or raise `InvalidSetting`."""
        real = isinstance(value, Real) and not isinstance(value, bool)
        try:
            size = float(value) if real else math.nan  # type: ignore[arg-type]
        except OverflowError:
            size = math.inf
        finite = abs(size) <= LARGEST_NUMBER
        within = self.least <= size <= self.most and self.above < size < self.below
        if finite and within and self.holds(size) and (not self.whole or type(value) is int):
            return int(size) if self.whole else size
        message = ": ".join(
            filter(None, (self.says, "" if finite else "a finite number is expected"))
        )
        raise InvalidSetting(
            message, argument=where, got=shown(value), expected=self.expected, cure=self.cure
        )

    @property
    def expected(self) -> str:
        """The bounds in words, for the error message."""
        lower, size = "", ""
        if self.above > -math.inf:
            lower = f"above {self.above:g} and "
        elif self.least == -self.most:
            size = " in size"
        else:
            lower = f"at least {self.least:g} and "
        kind = "a whole number, " if self.whole else ""
        upper = f"below {self.below:g}" if self.below < math.inf else f"at most {self.most:g}"
        return f"{kind}{lower}{upper} {self.unit}".rstrip() + size


number = Number()


def positive(what: str, unit: str, most: float = LARGEST_NUMBER) -> Number:
    """Return the reader of a positive number, such as that of `a rate` [Hz]."""
    return Number(f"{what} is positive", above=0.0, most=most, unit=unit)


@dataclass(frozen=True)
class Text:
    """Reader of a string: any, one of a list, or one that matches a pattern."""

    says: str  # error message for any other value
    valid: Collection[str] = ()  # the accepted strings; any if empty
    shape: re.Pattern[str] | None = None  # pattern that the whole string must match; any if None
    expected: str | None = None  # that pattern in words
    # the next step for the message; by default the most similar valid string
    cure: str | None = None

    def __call__(self, value: object, where: str) -> str:
        """Return the text, or raise `InvalidSetting`."""
        if (
            isinstance(value, str)
            and (not self.valid or value in self.valid)
            and (self.shape is None or self.shape.fullmatch(value))
        ):
            return value
        raise InvalidSetting(
            self.says,
            argument=where,
            got=shown(value),
            expected=self.expected,
            valid=self.valid,
            cure=self.cure or did_you_mean(value, self.valid),
        )


@dataclass(frozen=True)
class Section(Generic[Made]):
    """Reader of a table `[name]`, with one reader a key; unknown keys are refused."""

    # constructs the result from the values by key; its `InvalidSetting` errors get the place of the
    # key
    make: Callable[..., Made]
    # reader of each key, or a function of the table and its place that returns them
    keys: Keys | Callable[[Mapping[str, Any], str], Keys]
    # keys that are read as None where they are missing: their reader's error states what is
    # expected
    required: Collection[str] = ()
    says: str = "a table is expected"  # error message for a value that is not a table

    def __call__(self, value: object, where: str) -> Made:
        """Return what is made of the table, or raise `InvalidSetting`."""
        if not isinstance(value, Mapping):
            raise InvalidSetting(self.says, argument=where, got=shown(value))
        keys = self.keys if isinstance(self.keys, Mapping) else self.keys(value, where)
        for key in value:
            require_one_of(key, keys, f"'{key}' is not known here", where)
        read = {
            key: reader(value.get(key), _place(where, key, isinstance(reader, Section)))
            for key, reader in keys.items()
            if key in value or key in self.required
        }
        with located(where):
            return self.make(**read)


def named(each: Reader[Scalar], says: str = "a table is expected") -> Section[dict[str, Scalar]]:
    """Return the reader of a table with arbitrary keys, whose values are all read by `each`."""
    return Section(dict, lambda table, _: dict.fromkeys(table, each), says=says)


def _place(where: str, key: str, table: bool) -> str:
    """Return the place of a key: `file, [joint.elbow]` of a table in `file, [joint]`."""
    if not table:
        return f"{where}, {key}"
    return f"{where[:-1]}.{key}]" if where.endswith("]") else f"{where}, [{key}]"


@contextmanager
def located(where: str) -> Iterator[None]:
    """Return a context that puts the table's place before the key of each `InvalidSetting`."""
    try:
        yield
    except InvalidSetting as problem:
        argument = where if problem.argument is None else f"{where}, {problem.argument}"
        raise problem.retold(InvalidSetting, argument) from None


def check_fields(settings: object, readers: Keys) -> None:
    """Check the fields of a settings dataclass by readers; None is accepted as a default.

    Raises:
        InvalidSetting: If a reader refuses a field.
    """
    for name, reader in readers.items():
        value = getattr(settings, name)
        if value is not None or getattr(type(settings), name, ...) is not None:
            reader(value, name)


def truth(value: object, where: str) -> bool:
    """Return a Boolean value, or raise `InvalidSetting`."""
    if not isinstance(value, bool):
        raise InvalidSetting("true or false is expected", argument=where, got=shown(value))
    return value


def name_list(value: object, where: str) -> tuple[str, ...]:
    """Return a list of unique, non-empty names, or raise `InvalidSetting`."""
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise InvalidSetting("a list of names is expected", argument=where, got=shown(value))
    if "" in value:
        raise InvalidSetting("a name is empty", argument=where, got=shown(value))
    twice = sorted(name for name, count in Counter(value).items() if count > 1)
    if twice:
        raise InvalidSetting("a name is there twice", argument=where, got=", ".join(twice))
    return tuple(value)


def list_of(
    each: Reader[Scalar], length: int | None = None, of: str = "numbers", entry: str | None = None
) -> Reader[tuple[Scalar, ...]]:
    """Return the reader of a list whose entries are all read by `each`.

    It raises `InvalidSetting` for what is no list, or one of another length.

    Args:
        of: What the entries are called in messages.
        entry: Text between the list's place and an entry's number in messages; without it entries
            are not numbered.
    """

    def read(value: object, where: str) -> tuple[Scalar, ...]:
        if not isinstance(value, list | tuple) or length not in (None, len(value)):
            raise InvalidSetting(
                f"a list of {'' if length is None else f'{length} '}{of} is expected",
                argument=where,
                got=shown(value),
            )
        places = (where if entry is None else f"{where}{entry}{k + 1}" for k in range(len(value)))
        return tuple(each(v, place) for v, place in zip(value, places, strict=True))

    return read


def rows_of(each: Reader[Scalar]) -> Reader[tuple[tuple[Scalar, ...], ...]]:
    """Return the reader of a rectangular matrix whose entries are all read by `each`.

    It raises `InvalidSetting` for what is no list of rows, or rows that differ in length.
    """

    def read(value: object, where: str) -> tuple[tuple[Scalar, ...], ...]:
        if not isinstance(value, list) or not value:
            raise InvalidSetting("a list of rows is expected", argument=where, got=shown(value))
        rows = list_of(list_of(each))(value, where)
        if len({len(row) for row in rows}) != 1:
            raise InvalidSetting("the rows differ in length", argument=where)
        return rows

    return read


def rotation_rows(value: object, where: str) -> tuple[tuple[float, ...], ...]:
    """Return the three rows of a rotation matrix, or raise `InvalidSetting`."""
    rows = rows_of(number)(value, where)
    turn = np.array(rows)
    if turn.shape != (3, 3) or not (
        np.allclose(turn @ turn.T, np.eye(3), atol=1e-3) and np.linalg.det(turn) > 0.0
    ):
        raise InvalidSetting(
            "this is no rotation",
            argument=where,
            got=np.round(turn, 4).tolist(),
            expected="three rows of length one, at right angles, right-handed",
        )
    return rows


def interval(value: object, where: str) -> tuple[float, float]:
    """Return an interval [least, most] of finite numbers, or raise `InvalidSetting`."""
    least, most = list_of(number, 2)(value, where)
    if least > most:
        raise InvalidSetting("the least is above the most", argument=where, got=[least, most])
    return least, most


def box(value: object, where: str) -> tuple[tuple[float, float], ...]:
    """Return intervals [least, most] of x, y and z, or raise `InvalidSetting`."""
    if not isinstance(value, list | tuple) or len(value) != 3:
        raise InvalidSetting(
            "least and most of x, y and z are expected", argument=where, got=shown(value)
        )
    return tuple(interval(pair, f"{where}.{axis}") for axis, pair in zip("xyz", value, strict=True))


def solid_box(value: object, where: str) -> tuple[tuple[float, float], ...]:
    """Return intervals [least, most] of x, y and z, none of length zero; else `InvalidSetting`."""
    sides = box(value, where)
    for axis, (least, most) in zip("xyz", sides, strict=True):
        if least == most:
            raise InvalidSetting(
                "what has an extent is not flat", argument=f"{where}.{axis}", got=[least, most]
            )
    return sides


def planes(value: object, where: str) -> tuple[tuple[float, ...], ...]:
    """Return planes `[x, y, z, most]`, each with a normal; else `InvalidSetting`."""
    rows = list_of(list_of(number, 4))(value, where)
    if not rows:
        raise InvalidSetting("a plane at least is expected", argument=where)
    for k, (x, y, z, most) in enumerate(rows):
        if x == y == z == 0.0:
            raise InvalidSetting(
                "a plane has a normal", argument=f"{where}[{k}]", got=[x, y, z, most]
            )
    return rows
