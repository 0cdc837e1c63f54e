"""Errors, each with its evidence and the next step.

One root, two branches: `InputError` if an input cannot be used, and `FitError` if the data do not
determine a valid result. Each carries the argument, the value found, what was expected, the
valid names and the next step.
"""

from __future__ import annotations

import difflib
import reprlib
import shlex
import unicodedata
from collections.abc import Iterable
from importlib import import_module
from types import ModuleType
from typing import TypeVar

DISTRIBUTION = "heft-robotics"  # on package indexes, where `heft` is another's
Kind = TypeVar("Kind", bound="HeftError")
SHORT = reprlib.Repr()
SHORT.maxstring = SHORT.maxother = 80  # letters of a value in a message


class HeftError(Exception):
    """Base class of all errors that heft raises on purpose.

    Catch it to show a user what is wrong and what to do next: its text says both.

    Attributes:
        message: What is wrong, in one sentence.
        argument: The argument, file or column at fault, as the caller wrote it.
        got: The value found there.
        expected: What would have been accepted.
        valid: Names that would have been accepted, if the error is about a name.
        cure: The next step to take.
    """

    exit_code = 1

    def __init__(
        self,
        message: str,
        *,
        argument: str | None = None,
        got: object = None,
        expected: str | None = None,
        valid: Iterable[str] = (),
        cure: str | None = None,
    ) -> None:
        self.message = message
        self.argument = argument
        self.got = got
        self.expected = expected
        self.valid = tuple(valid)
        self.cure = cure
        super().__init__(self.explain())

    def explain(self) -> str:
        """Return the full text: message, evidence and next step, one a line.

        What came from a file is shown, and steers no terminal; see `visible`.
        """
        lines = [visible(self.message)]
        evidence = (("where", self.argument), ("got", self.got), ("expected", self.expected))
        for name, value in evidence:
            if value is not None:
                lines.append(f"  {name + ':':<10}{visible(str(value))}")
        if self.valid:
            shown = ", ".join(map(visible, self.valid[:24]))
            more = f", … ({len(self.valid)} in all)" if len(self.valid) > 24 else ""
            lines.append(f"  valid:    {shown}{more}")
        if self.cure is not None:
            lines.append(f"  next:     {visible_lines(self.cure)}")
        return "\n".join(lines)

    def retold(self, kind: type[Kind], argument: str | None) -> Kind:
        """Return the same message, evidence and cure as an error of another class."""
        return kind(**(vars(self) | {"argument": argument}))


class InputError(HeftError):
    """An input cannot be used. The command line exits with 2."""

    exit_code = 2


class InvalidModel(InputError):
    """A model file is malformed or describes a physically impossible robot."""


class InvalidRecording(InputError):
    """A log is missing, malformed, damaged or too short."""


class MissingSignal(InputError):
    """A recording lacks a signal that is needed."""


class InvalidSetting(InputError):
    """A setting is unknown, of the wrong kind, or out of range."""


class InfeasibleLimits(InputError):
    """No motion keeps all limits; its evidence names those in conflict."""


class NoConnection(InputError):
    """No publisher or server answers at the address of a message stream."""


class UnlikeLabels(InputError):
    """Information about different parameters or channels cannot be added."""


class FitError(HeftError):
    """The data do not determine a valid result. The command line exits with 1."""


class TooLittleData(FitError):
    """The data do not determine all parameters: too few rows, or dependent columns."""


class SolverFailure(FitError):
    """A numerical solver ended without a solution."""


def install(extra: str) -> str:
    """Return the command that installs what an optional part needs."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def optional_library(
    name: str,
    message: str,
    extra: str,
    argument: str | None = None,
    kind: type[HeftError] = InvalidSetting,
) -> ModuleType:
    """Return a library that an extra installs.

    Raises:
        HeftError: Of the given kind and with this message, if it is not installed.
    """
    try:
        return import_module(name)
    except ImportError as problem:
        raise kind(message, argument=argument, got=str(problem), cure=install(extra)) from problem


def shown(value: object) -> str:
    """Return a short representation of any value, for an error message."""
    try:
        return SHORT.repr(value)
    except ValueError:  # an integer of thousands of digits
        return f"a value of type {type(value).__name__}"


def visible(text: str) -> str:
    """Return untrusted text with everything escaped that could control a terminal.

    Controls, marks that turn the direction of writing, line separators and halves of surrogate
    pairs are spelt as Python's escapes.
    """
    if text.isprintable():
        return text
    hidden = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return "".join(
        c.encode("unicode_escape").decode("ascii") if unicodedata.category(c) in hidden else c
        for c in text
    )


def visible_lines(text: str) -> str:
    """Return a text of several lines, escaped as by `visible`, with its line ends kept."""
    lines = text.split("\n")
    return "\n".join(line if line.isprintable() else visible(line) for line in lines)


def spelt(path: object) -> str:
    """Return a path quoted for a shell command line, on one line whatever it holds."""
    text = str(path)
    if text.isprintable():
        return shlex.quote(text)
    return "$'" + visible(text.replace("\\", "\\\\")).replace("'", "\\'") + "'"


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """Return the valid name most similar to `name`, or None where none is similar enough."""
    alike = difflib.get_close_matches(name, list(valid), n=1, cutoff=0.5)
    return alike[0] if alike else None


def require_one_of(
    name: str,
    valid: Iterable[str],
    message: str,
    argument: str,
    kind: type[HeftError] = InvalidSetting,
    got: object = None,
) -> None:
    """Raise an error of a kind, with a spelling suggestion, if a name is none of the valid ones."""
    names = tuple(valid)
    if name not in names:
        cure = did_you_mean(name, names)
        raise kind(message, argument=argument, got=got, valid=names, cure=cure)


def did_you_mean(name: object, valid: Iterable[str]) -> str | None:
    """Return a spelling suggestion for an unknown name, or None where no valid name is similar.

    Args:
        name: Name as given; for a value that is no text, None is returned.
    """
    near = nearest(name, valid) if isinstance(name, str) else None
    return f"did you mean '{visible(near)}'?" if near else None
