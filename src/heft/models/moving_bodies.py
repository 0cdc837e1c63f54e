"""Moving bodies of a URDF, as pinocchio reads it."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from heft.arrays import read_only
from heft.dynamics import FREE, PRISMATIC, REVOLUTE, Tree
from heft.errors import InvalidModel


def read_by_pinocchio(urdf_text: bytes, free: bool, path: str) -> Any:
    """Return pinocchio's model of a URDF that `urdf.check` has passed.

    Raises:
        InvalidModel: If pinocchio cannot read it, or nothing in it moves.
    """
    import pinocchio as pin

    try:
        # To XML all white space in attributes is a space; to pinocchio it is not.
        text = urdf_text.decode().translate({9: " ", 10: " ", 13: " "})
        model = (
            pin.buildModelFromXML(text, pin.JointModelFreeFlyer())
            if free
            else pin.buildModelFromXML(text)
        )
    except (UnicodeDecodeError, ValueError, RuntimeError) as problem:
        raise InvalidModel(
            "pinocchio cannot read the model", argument=path, got=str(problem)[:300]
        ) from problem
    if model.njoints == 1:
        refuse_immobile(path)
    return model


def refuse_immobile(path: str) -> NoReturn:
    """Raise `InvalidModel`: no joint of the file moves."""
    raise InvalidModel(
        "the model has no moving joint",
        argument=path,
        cure="give at least one joint a type other than fixed",
    )


def tree_of(
    model: Any,
    joints: tuple[str, ...],
    followers: dict[str, tuple[str, float, float]],
    cuts: frozenset[str],
    free: bool,
    first: int,
) -> Tree:
    """Return the moving bodies; a body beyond a cut follows the one before it, by nothing."""
    import pinocchio as pin

    count = model.njoints - 1
    body_names = [""] * count
    for frame in model.frames:
        if frame.type == pin.FrameType.BODY and frame.parentJoint > 0:
            above = model.frames[frame.parentFrame]
            if above.type == pin.FrameType.JOINT or above.name == "root_joint":
                body_names[frame.parentJoint - 1] = frame.name
    kind = np.zeros(count, dtype=np.int64)
    axis = np.zeros((count, 3))
    channel = np.zeros(count, dtype=np.int64)
    multiplier, offset = np.ones(count), np.zeros(count)
    for b in range(count):
        joint = model.joints[b + 1]
        name = model.names[b + 1]
        if free and b == 0:
            kind[b] = FREE
            continue
        if name in cuts:
            above = model.parents[b + 1] - 1
            axis[b, 2], multiplier[b] = 1.0, 0.0
            channel[b] = channel[above] if above >= 0 else 0
            continue
        data = joint.createData()
        joint.calc(data, pin.neutral(model)[joint.idx_q : joint.idx_q + joint.nq])
        motion = np.asarray(data.S).reshape(6)
        kind[b] = REVOLUTE if np.any(motion[3:]) else PRISMATIC
        axis[b] = motion[3:] if kind[b] == REVOLUTE else motion[:3]
        master, multiplier[b], offset[b] = followers.get(name, (name, 1.0, 0.0))
        channel[b] = first + joints.index(master)
    placements = [model.jointPlacements[b + 1] for b in range(count)]
    return Tree(
        names=tuple(body_names),
        parent=np.array([model.parents[b + 1] - 1 for b in range(count)], dtype=np.int64),
        kind=kind,
        rotation=read_only(np.array([p.rotation for p in placements])),
        translation=read_only(np.array([p.translation for p in placements])),
        axis=read_only(axis),
        channel=channel,
        multiplier=read_only(multiplier),
        offset=read_only(offset),
    )
