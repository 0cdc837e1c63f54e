"""The user's own columns of a robot's regressor: springs, counterbalances, cable forces.

They are a function in a Python file that the user names. Its torque is linear in parameters of its
own, which are then estimated with all others.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from heft.arrays import Array
from heft.dynamics import DriveState
from heft.errors import InputError, InvalidSetting, require_one_of
from heft.files import require_regular
from heft.information import Labels

FUNCTION = "columns"  # its name in the file
PROBED = 16  # random states from which names, units and signs are read
STEP = 1e-5  # of the differences that stand for derivatives [rad or m, and per s, s²]


@dataclass(frozen=True)
class RegressorColumn:
    """A column of the regressor: efforts that drives supply per unit of its parameter."""

    name: str  # of the parameter, such as `elbow.spring`
    unit: str  # of the parameter
    # by joint, at N samples, [N·m or N per unit]; a number stands for all samples. Joints that are
    # not named are not acted on
    effort: Mapping[str, ArrayLike]
    nonnegative: bool = False  # whether the parameter cannot be negative


JointValues = Mapping[str, Array]
ColumnFunction = Callable[[JointValues, JointValues, JointValues], Sequence[RegressorColumn]]


@dataclass(frozen=True, eq=False)
class OwnColumns:
    """A user's function of motion, whose columns are added to those of a robot."""

    # takes positions [rad or m], velocities and accelerations by joint, each of shape (N,), and
    # returns the columns: always the same ones, in the same order
    function: ColumnFunction
    joints: tuple[str, ...]  # names of the robot's channels
    source: str = "columns"  # where it comes from, for messages
    # the columns at random states, whose names, units and signs are taken
    columns: tuple[RegressorColumn, ...] = field(init=False, repr=False)
    # channel and column of each joint that one acts on, shape (actions, 2)
    acts: NDArray[np.int64] = field(init=False, repr=False)
    accelerated: bool = field(init=False, repr=False)  # whether acceleration matters to them

    def __post_init__(self) -> None:
        rng = np.random.default_rng(PROBED)
        q, v, a, other = rng.normal(size=(4, len(self.joints), PROBED))
        columns = self._called(q, v, a)
        for k, column in enumerate(columns):
            taken = [c.name for c in columns[:k]]
            if not column.name or not column.name.isprintable() or column.name in taken:
                got = repr(column.name)
                raise InvalidSetting(
                    "own columns need names of their own", argument=self.source, got=got
                )
        object.__setattr__(self, "columns", columns)
        acts = [(self._channel(c, j), k) for k, c in enumerate(columns) for j in c.effort]
        object.__setattr__(self, "acts", np.array(acts, dtype=np.int64).reshape(-1, 2))
        moved = self.rows(q, v, other) - self.rows(q, v, a)
        object.__setattr__(self, "accelerated", bool(np.any(moved != 0.0)))

    @staticmethod
    def load(path: Path, joints: Sequence[str]) -> OwnColumns:
        """Return the function `columns(q, v, a)` of a Python file, which is run.

        Raises:
            InputError: If it is missing, cannot be run, or has no such function.
            InvalidSetting: If what the function returns are no columns of this robot.
        """
        require_regular(path, "file of own columns", InputError)
        try:
            defined = runpy.run_path(str(path))
        except (Exception, SystemExit) as problem:  # whatever the user's code raises
            raise _failed(str(path), "cannot be run", problem) from problem
        function = defined.get(FUNCTION)
        if not callable(function):
            raise InputError(
                f"the file of own columns has no function `{FUNCTION}`",
                argument=str(path),
                got=", ".join(k for k, f in defined.items() if k[0] != "_" and callable(f)),
                expected=f"def {FUNCTION}(q, v, a): return [RegressorColumn(…), …]",
            )
        return OwnColumns(function, tuple(joints), str(path))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return tuple(c.name for c in self.columns)

    @property
    def nonnegative(self) -> tuple[bool, ...]:
        """Which parameters cannot be negative."""
        return tuple(c.nonnegative for c in self.columns)

    def beside(self, labels: Labels) -> Labels:
        """Return a robot's labels, followed by those of these parameters.

        Raises:
            InvalidSetting: If one has the name of another.
        """
        taken = [n for n in self.names if n in labels.names]
        if taken:
            raise InvalidSetting(
                "an own column has the name of a parameter of the robot",
                argument=self.source,
                got=taken[0],
                cure=f"call it otherwise, such as '{taken[0]}.own'",
            )
        units = (c.unit for c in self.columns)
        return Labels((*labels.names, *self.names), (*labels.units, *units), labels.frame)

    def rows(self, position: Array, velocity: Array, acceleration: Array) -> Array:
        """Return the columns at N samples, shape (channels, columns, N) [N·m or N per unit].

        Args:
            position: Of the channels, shape (channels, N) [rad or m].
            velocity: Likewise [rad/s or m/s].
            acceleration: Likewise [rad/s² or m/s²].

        Raises:
            InvalidSetting: If the function returns other columns than before, or no finite numbers.
        """
        columns = self._called(position, velocity, acceleration)
        if [_signature(c) for c in columns] != [_signature(c) for c in self.columns]:
            raise InvalidSetting(
                "a function of own columns returns other ones at another motion",
                argument=self.source,
                got=", ".join(c.name for c in columns),
                expected=", ".join(self.names),
            )
        size = position.shape[1]
        rows = np.zeros((len(self.joints), len(columns), size))
        for k, column in enumerate(columns):
            for joint, effort in column.effort.items():
                rows[self._channel(column, joint), k] = self._values(column, joint, effort, size)
        return rows

    def pull_back(
        self, position: Array, velocity: Array, acceleration: Array, seeds: Array
    ) -> tuple[Array, Array, Array]:
        """Return the gradients of Σ S·rows by q, v and a, each of shape (channels, N).

        Derivatives are central differences: a function need not know its own. Seeds S are of the
        shape (channels, columns, N).
        """
        state = [np.array(x) for x in (position, velocity, acceleration)]
        gradients = [np.zeros_like(x) for x in state]
        matter = 3 if self.accelerated else 2
        for k, c, change in _central_differences(partial(self.rows, *state), state[:matter]):
            gradients[k][c] = np.einsum("ckn,ckn->n", seeds, change)
        q, v, a = gradients
        return q, v, a

    def effort(self, position: Array, velocity: Array, parameters: Array) -> Array:
        """Return the columns' effort at zero acceleration, shape (channels, N) [N·m or N].

        Position and velocity are as of `rows`, parameters of the shape (columns,).
        """
        rows = self.rows(position, velocity, np.zeros_like(position))
        return np.asarray(np.einsum("ckn,k->cn", rows, parameters))

    def slopes(self, position: Array, velocity: Array, parameters: Array) -> tuple[Array, Array]:
        """Return ∂effort/∂q and ∂effort/∂v of `effort`, each of shape (N, channels, channels).

        Derivatives are central differences; arguments as of `effort`.
        """
        state = [np.array(position), np.array(velocity)]
        count, size = state[0].shape
        slopes = np.zeros((2, size, count, count))
        now = partial(self.effort, state[0], state[1], parameters)
        for k, c, change in _central_differences(now, state):
            slopes[k, :, :, c] = change.T
        return slopes[0], slopes[1]

    def parameters(self, values: Mapping[str, float], place: str) -> Array:
        """Return parameters that a user states in a place, in the columns' order, shape (columns,).

        Raises:
            InvalidSetting: If one is missing, unknown, or has a sign that it cannot have.
        """
        for name in values:
            require_one_of(name, self.names, "no own column is called so", place, got=name)
        absent = [n for n in self.names if n not in values]
        if absent:
            raise InvalidSetting(
                "the parameter of every own column is needed",
                argument=place,
                got=f"none of {', '.join(absent)}",
                cure=f"state it in the file of --with: {place}, '{absent[0]}' = …, such as the "
                "value under own_columns in estimate.json",
            )
        for column in self.columns:
            if column.nonnegative and values[column.name] < 0.0:
                raise InvalidSetting(
                    "this parameter cannot be negative",
                    argument=f"{place}, {column.name}",
                    got=values[column.name],
                )
        return np.array([values[n] for n in self.names])

    def _called(self, q: Array, v: Array, a: Array) -> tuple[RegressorColumn, ...]:
        by_joint = [dict(zip(self.joints, x, strict=True)) for x in (q, v, a)]
        try:
            columns = tuple(self.function(*by_joint))
        except Exception as problem:  # whatever the user's code raises
            raise _failed(self.source, "fails", problem) from problem
        odd: list[Any] = [c for c in columns if not isinstance(c, RegressorColumn)]
        if odd or not columns:
            raise InvalidSetting(
                "a function of own columns returns a list of heft.RegressorColumn",
                argument=self.source,
                got=f"{type(odd[0]).__name__}" if odd else "an empty list",
            )
        return columns

    def _channel(self, column: RegressorColumn, joint: str) -> int:
        message = f"own column '{column.name}' acts on a joint that the robot does not have"
        require_one_of(joint, self.joints, message, self.source, got=joint)
        return self.joints.index(joint)

    def _values(self, column: RegressorColumn, joint: str, effort: ArrayLike, size: int) -> Array:
        try:
            values = np.broadcast_to(np.asarray(effort, dtype=float), (size,))
        except (TypeError, ValueError) as problem:
            raise InvalidSetting(
                f"own column '{column.name}' has no number for each sample",
                argument=f"{self.source}, effort of {joint}",
                got=str(problem)[:120],
                expected=f"a number, or {size} of them",
            ) from problem
        if not np.isfinite(values).all():
            raise InvalidSetting(
                f"own column '{column.name}' is not finite at some positions",
                argument=f"{self.source}, effort of {joint}",
                cure="define it at any position: base parameters are found at random ones",
            )
        return values


def own_effort(own: OwnColumns | None, values: Mapping[str, float], state: DriveState) -> Array:
    """Return the effort of a robot's own columns, shape (channels, N) [N·m or N].

    Values are parameters by name; those of other names are not looked at.
    """
    if own is None:
        return np.zeros_like(state.velocity)
    parameters = np.array([values.get(n, 0.0) for n in own.names])
    rows = own.rows(state.position, state.velocity, state.acceleration)
    return np.asarray(np.einsum("ckn,k->cn", rows, parameters))


def _central_differences(
    value: Callable[[], Array], state: Sequence[Array]
) -> Iterator[tuple[int, int, Array]]:
    """Yield array, row, and the derivative of `value` by it, for each row of a state."""
    for k, values in enumerate(state):
        for c in range(len(values)):
            middle, ends = values[c].copy(), []
            for step in (STEP, -STEP):
                values[c] = middle + step
                ends.append(value())
            values[c] = middle
            yield k, c, (ends[0] - ends[1]) / (2.0 * STEP)


def _signature(column: RegressorColumn) -> tuple[object, ...]:
    return column.name, column.unit, column.nonnegative, tuple(column.effort)


def _failed(source: str, what: str, problem: BaseException) -> InputError:
    return InputError(
        f"the file of own columns {what}",
        argument=source,
        got=f"{type(problem).__name__}: {problem}"[:300],
    )
