"""Logs in object stores: listed once, each fetched to a file while it is read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from itertools import takewhile
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, TypeAlias

from heft.errors import InvalidRecording, InvalidSetting, optional_library

ADDRESS = re.compile(r"(s3://[\w.-]+)(?:/(.*))?")  # holds neither user nor password
STATUS = re.compile(r"status code: (\d{3}(?: [A-Z][A-Za-z]+)*)")  # in what obstore says
SILENT = "the store does not answer"
PATIENCE = timedelta(minutes=1)  # after which a request that failed is not tried again


@dataclass(frozen=True)
class Stored:
    """An object as it was listed, or a folder of objects."""

    bucket: str  # such as s3://fleet
    key: PurePosixPath  # of the object or folder in it
    parts: tuple[tuple[str, int, str], ...]  # of each object: key, size [bytes], ETag

    @property
    def name(self) -> str:
        """Last part of its key."""
        return self.key.name

    @contextmanager
    def fetched(self) -> Iterator[Path]:
        """Fetch it to a file or folder of its name, which is removed at the end.

        Raises:
            InvalidRecording: If it has changed since it was listed, or the store does not give it.
        """
        with TemporaryDirectory(prefix="heft-") as folder:
            for key, size, tag in self.parts:
                path = Path(folder, self.name, PurePosixPath(key).relative_to(self.key))
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("wb") as file, _answers(f"{self.bucket}/{key}"):
                    got = _obstore().get(_store(self.bucket), key, options={"if_match": tag})
                    file.writelines(got)
                    if file.tell() != size:
                        raise InvalidRecording("a part of it is missing", argument=key)
            yield Path(folder, self.name)


Place: TypeAlias = Path | Stored  # of a log


def at_hand(place: Place) -> AbstractContextManager[Path]:
    """Return a context in which a log is a file or folder."""
    return nullcontext(place) if isinstance(place, Path) else place.fetched()


def in_store(text: str) -> bool:
    """Return whether an address is of an object store, such as `s3://bucket/prefix`."""
    return "://" in text


def listed(address: str, levels: int) -> list[tuple[tuple[str, ...], Stored]]:
    """Return what is below an address, by the parts of its name from there on.

    Names that begin with a dot are left out.

    Args:
        levels: Most parts of a name; what is deeper is a folder's.

    Raises:
        InvalidSetting: If it is no address, or obstore is not there.
        InvalidRecording: If the store does not list it.
    """
    bucket, start = _split(address)
    store, found = _store(bucket), dict[PurePosixPath, list[tuple[str, int, str]]]()
    with _answers(address):
        for several in _obstore().list(store, prefix=str(start) if start.parts else None):
            for each in several:
                names = PurePosixPath(each["path"]).relative_to(start).parts
                if names and not any(name.startswith(".") for name in names):
                    one = (each["path"], each["size"], each["e_tag"])
                    found.setdefault(start.joinpath(*names[:levels]), []).append(one)
    return [
        (key.relative_to(start).parts, Stored(bucket, key, tuple(sorted(parts))))
        for key, several in sorted(found.items())
        # some tools leave an empty object for a folder
        if (parts := [p for p in several if len(several) == 1 or p[0] != str(key)])
    ]


def matching(address: str) -> list[Stored]:
    """Return objects and folders by a pattern, whose `*` stands for what is in one name.

    Raises:
        InvalidSetting: If it is no address, or obstore is not there.
        InvalidRecording: If the store does not list it.
    """
    bucket, pattern = _split(address)
    fixed = PurePosixPath(*takewhile(lambda part: not set(part) & set("*?["), pattern.parts[:-1]))
    rest = pattern.relative_to(fixed)
    levels = max(len(rest.parts), 1)
    return [
        stored
        for parts, stored in listed(f"{bucket}/{fixed}", levels)
        if len(parts) == levels and PurePosixPath(*parts).match(str(rest))
    ]


def _split(address: str) -> tuple[str, PurePosixPath]:
    if not (match := ADDRESS.fullmatch(address)):
        raise InvalidSetting(
            "this is no address of an object store",
            expected="s3://BUCKET/PREFIX; keys of access are told by the environment only",
        )
    return match[1], PurePosixPath(match[2] or "")


def _obstore() -> ModuleType:
    return optional_library("obstore", "logs in object stores need obstore", "fleet-s3")


@cache
def _store(bucket: str) -> Any:
    """Return the store of a bucket, whose connections are kept; access is by the environment."""
    with _answers(bucket):
        return _obstore().store.from_url(bucket, retry_config={"retry_timeout": PATIENCE})


@contextmanager
def _answers(address: str) -> Iterator[None]:
    """Raise `InvalidRecording` where obstore fails, without its words: they hold hosts."""
    try:
        yield
    except FileNotFoundError as problem:
        raise InvalidRecording("the object is not there any more", argument=address) from problem
    except _obstore().exceptions.BaseError as problem:
        status = STATUS.search(str(problem))
        said = status[1] if status else ""
        if said.startswith("412"):
            raise InvalidRecording("it was changed while it was read", argument=address) from None
        raise InvalidRecording(
            "the store refuses" if said.startswith("4") else SILENT,
            argument=address,
            got=said or None,
            cure="the environment tells region, endpoint and access (AWS_REGION, AWS_ENDPOINT_URL, "
            "AWS_ACCESS_KEY_ID, …), as obstore takes them",
        ) from None
