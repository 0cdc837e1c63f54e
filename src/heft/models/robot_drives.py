"""Drives of a robot: each joint's own, and those of motors that move several joints."""

from __future__ import annotations

import numpy as np

from heft.arrays import read_only
from heft.dynamics import FRICTION, PRISMATIC, Armature, Drive, Drives, Tree, friction_terms
from heft.errors import InvalidSetting

from .options import Options

DEFAULT_FRICTION = "full"  # of a joint of which nothing is said


def drives_of(joints: tuple[str, ...], tree: Tree, options: Options, first: int) -> Drives:
    """Return the drives of joints, then those of motors that move several of them.

    Args:
        first: Channel of the first joint.

    Raises:
        InvalidSetting: If the coupling is not one of these joints.
    """
    unit = np.eye(tree.channels)
    linear = {int(c) for c, k in zip(tree.channel, tree.kind, strict=True) if k == PRISMATIC}
    drives = []
    for i, name in enumerate(joints):
        option = options.of(name)
        held = option.position is not None  # a joint held still shows nothing of its drive
        slides = first + i in linear
        friction = "none" if held else option.friction or DEFAULT_FRICTION
        terms = friction_terms(friction, slides)
        if option.armature and not held:
            terms = (Armature(), *terms)
        drives.append(Drive(name, read_only(unit[first + i]), terms, slides))
    coupling = options.coupling
    if coupling is None:
        return Drives(tuple(drives))
    rows = coupling.joints or joints
    unknown = [j for j in rows if j not in joints]
    if unknown or len(rows) != len(coupling.matrix):
        raise InvalidSetting(
            "the rows of the coupling matrix are not joints of the robot",
            argument="[coupling], joints",
            got=", ".join(unknown) or f"{len(coupling.matrix)} rows",
            valid=joints,
        )
    matrix = np.array(coupling.matrix)
    for k, motor in enumerate(coupling.motors):
        column = matrix[:, k]
        if np.count_nonzero(column) < 2:
            continue  # moves one joint alone: the joint's own drive says it all
        ratio = np.zeros(tree.channels)
        for row, joint in enumerate(rows):
            ratio[first + joints.index(joint)] = column[row]
        # Stated at the joint that has the motor's place, so that numbers compare with a joint's.
        ratio /= column[k] if column[k] != 0.0 else column[np.flatnonzero(column)[0]]
        name = motor if motor not in joints else f"{motor}_motor"
        moved = [
            options.of(j).friction or DEFAULT_FRICTION
            for j, r in zip(rows, column, strict=True)
            if r
        ]
        friction = max(moved, key=tuple(FRICTION).index)
        # An offset is the joints' own, and so is load-dependent gear friction.
        own = tuple(t for t in friction_terms(friction) if not t.joints_only)
        drives.append(Drive(name, read_only(ratio), (Armature(), *own), False))
    return Drives(tuple(drives))
