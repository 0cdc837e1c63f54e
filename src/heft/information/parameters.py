"""Labelled parameters: names, units, values and covariance."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from heft.arrays import Array, read_only
from heft.errors import InvalidSetting, UnlikeLabels, did_you_mean


@dataclass(frozen=True)
class Labels:
    """Names and units of the entries of a parameter vector.

    Raises:
        InvalidSetting: If names and units differ in number, or a name repeats.
    """

    names: tuple[str, ...]  # one unique name an entry
    units: tuple[str, ...]  # one unit an entry, as text
    # what the parameters belong to: the plant's name and the hash of its structure. Information
    # about different frames cannot be added
    frame: str = ""

    def __post_init__(self) -> None:
        if len(self.names) != len(self.units):
            raise InvalidSetting(
                "names and units differ in number",
                argument="units",
                got=f"{len(self.units)} units",
                expected=f"{len(self.names)}, one a name",
            )
        if len(set(self.names)) != len(self.names):
            twice = sorted({n for n in self.names if self.names.count(n) > 1})
            raise InvalidSetting("parameter names repeat", argument="names", got=", ".join(twice))

    def __len__(self) -> int:
        return len(self.names)

    def index(self, name: str) -> int:
        """Return the position of a name.

        Raises:
            InvalidSetting: If there is no parameter of this name.
        """
        try:
            return self.names.index(name)
        except ValueError:
            raise InvalidSetting(
                f"there is no parameter '{name}'",
                argument="name",
                valid=self.names,
                cure=did_you_mean(name, self.names),
            ) from None

    def select(self, indices: Iterable[int]) -> Labels:
        """Return the labels at the given positions, in that order."""
        chosen = list(indices)
        return Labels(
            tuple(self.names[i] for i in chosen), tuple(self.units[i] for i in chosen), self.frame
        )

    def require_same(self, other: Labels) -> None:
        """Check that other labels are the same.

        Raises:
            UnlikeLabels: If names, order, units or frame differ.
        """
        if self == other:
            return
        differing = sorted(set(self.names) ^ set(other.names))
        evidence = f"not in both: {', '.join(differing[:6])}" if differing else None
        if evidence is None and self.frame != other.frame:
            evidence = f"frames '{self.frame}' and '{other.frame}'"
        raise UnlikeLabels(
            "information about different parameters cannot be added",
            got=evidence or "other order or units",
            cure="make both from the same model file and the same settings",
        )

    def digest(self) -> str:
        """Return a short hash of names, units and frame."""
        text = "\n".join((self.frame, *self.names, *self.units))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Parameters:
    """Parameter values with their labels and, where known, their covariance.

    Raises:
        InvalidSetting: If values and labels differ in number.
    """

    labels: Labels  # names and units of the n entries
    values: Array  # shape (n,), in the units of `labels`
    # shape (n, n), in products of these units, or None where unknown
    covariance: Array | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        values = read_only(self.values)
        if values.shape != (len(self.labels),):
            raise InvalidSetting(
                "values and labels differ in number",
                argument="values",
                got=f"shape {values.shape}",
                expected=f"({len(self.labels)},)",
            )
        object.__setattr__(self, "values", values)
        if self.covariance is not None:
            object.__setattr__(self, "covariance", read_only(self.covariance))

    def __getitem__(self, name: str) -> float:
        return float(self.values[self.labels.index(name)])

    @property
    def std(self) -> Array:
        """Standard deviations, shape (n,), in the labels' units; infinite without a covariance."""
        if self.covariance is None:
            return np.full(len(self.labels), np.inf)
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
