"""What can go wrong, said so that it can be mended.

One root, two branches: `InputError` when what the caller gave cannot be used, and
`FitError` when the data allow no answer that could stand. Each carries its evidence:
the argument, what was got, what was expected, the valid names and the next step.
"""

from __future__ import annotations

import difflib
import reprlib
import shlex
from collections.abc import Iterable
from typing import TypeVar

Kind = TypeVar("Kind", bound="HeftError")
SHORT = reprlib.Repr()
SHORT.maxstring = SHORT.maxother = 80  # letters of a value in a message


class HeftError(Exception):
    """Root of all errors that heft raises on purpose.

    Attributes:
        message: What is wrong, in one sentence.
        argument: The argument, file or column that is at fault, as the caller wrote it.
        got: What was found there.
        expected: What could have been used.
        valid: The names that would have been accepted, if names are the matter.
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
        """Return the whole text: what is wrong, the evidence and the cure."""
        lines = [self.message]
        if self.argument is not None:
            lines.append(f"  where:    {self.argument}")
        if self.got is not None:
            lines.append(f"  got:      {self.got}")
        if self.expected is not None:
            lines.append(f"  expected: {self.expected}")
        if self.valid:
            shown = ", ".join(self.valid[:24])
            more = f", … ({len(self.valid)} in all)" if len(self.valid) > 24 else ""
            lines.append(f"  valid:    {shown}{more}")
        if self.cure is not None:
            lines.append(f"  next:     {self.cure}")
        return "\n".join(lines)

    def retold(self, kind: type[Kind], argument: str | None) -> Kind:
        """Return the same message, evidence and cure as another kind of error, of `argument`."""
        return kind(**(vars(self) | {"argument": argument}))


class InputError(HeftError):
    """Something given to heft cannot be used. The command line exits with 2."""

    exit_code = 2


class InvalidModel(InputError):
    """A model file is malformed or describes no possible robot."""


class InvalidRecording(InputError):
    """A log is malformed, or holds too little to work with."""


class MissingSignal(InputError):
    """A recording does not hold a signal that is needed."""


class InvalidSetting(InputError):
    """A setting is unknown, of the wrong kind, or out of range."""


class NoConnection(InputError):
    """Nobody answers where messages should come from."""


class UnlikeLabels(InputError):
    """Two pieces of information speak of different parameters and cannot be added."""


class FitError(HeftError):
    """The data allow no answer that could stand. The command line exits with 1."""


class TooLittleData(FitError):
    """There are fewer usable rows than parameters."""


class SolverFailure(FitError):
    """A numerical solver ended without a solution."""


def shown(value: object) -> str:
    """Return a value as a message shows it: short, whatever it is."""
    try:
        return SHORT.repr(value)
    except ValueError:  # an integer of thousands of digits
        return f"a value of type {type(value).__name__}"


def spelt(path: object) -> str:
    """Return a path as a command line takes it, quoted where it has to be."""
    return shlex.quote(str(path))


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """Return the valid name most like `name`, or None where none is close."""
    found = difflib.get_close_matches(name, list(valid), n=1, cutoff=0.5)
    return found[0] if found else None


def did_you_mean(name: object, valid: Iterable[str]) -> str | None:
    """Return the cure of a misspelt name, or None where no valid one is near."""
    near = nearest(name, valid) if isinstance(name, str) else None
    return f"did you mean '{near}'?" if near else None
