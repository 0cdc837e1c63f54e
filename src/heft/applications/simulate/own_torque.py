"""The user's own columns in a simulation: the torque that springs and cables ask of the drives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidSetting
from heft.experiments import Passive
from heft.models import OwnColumns

PLACE = "[simulation.own_columns]"


def own_torque(
    path: Path | None, values: Mapping[str, float], joints: Sequence[str]
) -> Passive | None:
    """Return the torque of own columns by positions and velocities; None without a file.

    Args:
        path: Python file of the columns, which is run.
        values: Their parameters, by name.

    Returns:
        Takes positions [rad or m] and velocities, both of shape (joints, N), and returns the torque
        that the drives supply, of this shape [N·m or N].

    Raises:
        InputError: If the file is missing, cannot be run, or has no function of columns.
        InvalidSetting: If a parameter is not stated, is of no column, or has a sign that it cannot
            have; or if a column depends on acceleration.
    """
    if path is None:
        if values:
            raise InvalidSetting(
                "parameters of own columns are stated, but not the file that says what they do",
                argument=PLACE,
                got=", ".join(values),
                cure="name it on the command line: --columns springs.py",
            )
        return None
    own = OwnColumns.load(path, joints)
    parameters = own.parameters(values, PLACE)
    if own.accelerated:
        raise InvalidSetting(
            "own columns that depend on acceleration cannot be simulated: torque of acceleration "
            "is an inertia, which the step must solve for",
            argument=str(path),
            cure="put the inertia into the model file, or into armature of [simulation.joint]",
        )

    def torque(position: Array, velocity: Array) -> Array:
        rows = own.rows(position, velocity, np.zeros_like(velocity))
        return np.asarray(np.einsum("ckn,k->cn", rows, parameters))

    return torque
