"""Settings: TOML read by tables of readers, each key checked, unknown ones refused by the nearest.

A reader takes a value and its place, and returns what it means or raises `InvalidSetting` with
that place. Readers are put together; a `Section` has one for each key, and makes a frozen dataclass
of what they return. What is about several keys is checked where that is made.

    JOINT = Section(JointOptions, {"armature": truth, "gain": Number("a gain is …", above=0.0)})
    OPTIONS = Section(Options, {"joint": named(JOINT), "gravity": list_of(number, 3)})
    OPTIONS(read_toml(path), str(path))

Places are spelt as TOML spells them: `with.toml, [joint.elbow], gain`. The same readers check
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

from heft.errors import InvalidSetting, did_you_mean, shown

from .reading import read_text

Scalar = TypeVar("Scalar")
Made = TypeVar("Made", covariant=True)
Reader: TypeAlias = Callable[[object, str], Scalar]
Keys: TypeAlias = Mapping[str, Reader[Any]]
LARGEST_NUMBER = 1e12  # of any setting; what is larger only overflows
NOT_FINITE = "a finite number is expected"
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


@dataclass(frozen=True)
class Number:
    """Reader of a finite number within bounds.

    Attributes:
        says: What is wrong with any other.
        least, most: Bounds that belong to what is allowed.
        above, below: Bounds that do not.
        unit: Of number and bounds.
        whole: Whether it has to be an integer.
        holds: What else has to hold of it.
        cure: The next step, if it is another.
    """

    says: str = ""
    least: float = -LARGEST_NUMBER
    most: float = LARGEST_NUMBER
    above: float = -math.inf
    below: float = math.inf
    unit: str = ""
    whole: bool = False
    holds: Callable[[float], bool] = lambda _: True
    cure: str | None = None

    def __call__(self, value: object, where: str) -> float:
        """Return the number, or raise `InvalidSetting`."""
        real = isinstance(value, Real) and not isinstance(value, bool)
        try:
            found = float(value) if real else math.nan  # type: ignore[arg-type]
        except OverflowError:
            found = math.inf
        finite = abs(found) <= LARGEST_NUMBER
        within = self.least <= found <= self.most and self.above < found < self.below
        if finite and within and self.holds(found) and (not self.whole or type(value) is int):
            return int(found) if self.whole else found
        message = ": ".join(filter(None, (self.says, "" if finite else NOT_FINITE)))
        raise InvalidSetting(
            message, argument=where, got=shown(value), expected=self.expected, cure=self.cure
        )

    @property
    def expected(self) -> str:
        """The bounds in words."""
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


@dataclass(frozen=True)
class Text:
    """Reader of a text: any, one of some, or one of a shape.

    Attributes:
        says: What is wrong with any other.
        valid: The only ones, if not all.
        shape: What the whole text matches, if not any.
        expected: That shape in words.
        cure: The next step, if not to take the nearest that is valid.
    """

    says: str
    valid: Collection[str] = ()
    shape: re.Pattern[str] | None = None
    expected: str | None = None
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
    """Reader of a table `[name]`: a reader a key, unknown keys refused.

    Attributes:
        make: Makes the result of what was read, by key; what it raises of a key gets its place.
        keys: Reader of each key, or what chooses them by the table and its place.
        required: Keys that are read as None where they are not there: their reader says what
            is expected.
        says: What is wrong with what is no table.
    """

    make: Callable[..., Made]
    keys: Keys | Callable[[Mapping[str, Any], str], Keys]
    required: Collection[str] = ()
    says: str = "a table is expected"

    def __call__(self, value: object, where: str) -> Made:
        """Return what is made of the table, or raise `InvalidSetting`."""
        if not isinstance(value, Mapping):
            raise InvalidSetting(self.says, argument=where, got=shown(value))
        keys = self.keys if isinstance(self.keys, Mapping) else self.keys(value, where)
        for key in value:
            if key not in keys:
                raise InvalidSetting(
                    f"'{key}' is not known here",
                    argument=where,
                    valid=keys,
                    cure=did_you_mean(key, keys),
                )
        read = {
            key: reader(value.get(key), _place(where, key, isinstance(reader, Section)))
            for key, reader in keys.items()
            if key in value or key in self.required
        }
        with located(where):
            return self.make(**read)


def named(each: Reader[Scalar], says: str = "a table is expected") -> Section[dict[str, Scalar]]:
    """Return the reader of a table with names for keys, all of whose values are read by `each`."""
    return Section(dict, lambda table, _: dict.fromkeys(table, each), says=says)


def _place(where: str, key: str, table: bool) -> str:
    """Return the place of a key: `file, [joint.elbow]` of a table in `file, [joint]`."""
    if not table:
        return f"{where}, {key}"
    return f"{where[:-1]}.{key}]" if where.endswith("]") else f"{where}, [{key}]"


@contextmanager
def located(where: str) -> Iterator[None]:
    """Put the table's place before the key of any `InvalidSetting` that is raised within."""
    try:
        yield
    except InvalidSetting as problem:
        argument = where if problem.argument is None else f"{where}, {problem.argument}"
        raise problem.retold(InvalidSetting, argument) from None


def check_fields(settings: object, readers: Keys) -> None:
    """Raise `InvalidSetting` unless readers take a dataclass's fields; None may stay a default."""
    for name, reader in readers.items():
        value = getattr(settings, name)
        if value is not None or getattr(type(settings), name, ...) is not None:
            reader(value, name)


def truth(value: object, where: str) -> bool:
    """Return true or false, or raise `InvalidSetting`."""
    if not isinstance(value, bool):
        raise InvalidSetting("true or false is expected", argument=where, got=shown(value))
    return value


def name_list(value: object, where: str) -> tuple[str, ...]:
    """Return a list of different names, or raise `InvalidSetting`."""
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
    """Return the reader of a list, all of whose entries are read by `each`.

    Args:
        each: Reader of an entry.
        length: Of the list, if not any.
        of: What its entries are called.
        entry: What stands between the list's place and an entry's number, if it is to be told.
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
    """Return the reader of a rectangular matrix, all of whose entries are read by `each`."""

    def read(value: object, where: str) -> tuple[tuple[Scalar, ...], ...]:
        if not isinstance(value, list) or not value:
            raise InvalidSetting("a list of rows is expected", argument=where, got=shown(value))
        rows = list_of(list_of(each))(value, where)
        if len({len(row) for row in rows}) != 1:
            raise InvalidSetting("the rows differ in length", argument=where)
        return rows

    return read


def interval(value: object, where: str) -> tuple[float, float]:
    """Return a pair least ≤ most of finite numbers, or raise `InvalidSetting`."""
    least, most = list_of(number, 2)(value, where)
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
