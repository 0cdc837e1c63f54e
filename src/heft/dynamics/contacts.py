"""Contacts of a tree of bodies with the world: what a wrench on a link does to each channel."""

from __future__ import annotations

import numpy as np

from heft.arrays import Array

from .kinematics import place_of
from .tree import FREE, PRISMATIC, Link, Tree


def contact_place(tree: Tree, link: Link, point: Array, position: Array) -> Array:
    """Return the position of a contact in the frame of the base, shape (N, 3) [m].

    Args:
        point: Of the contact, in the link's frame, shape (3,) [m].
        position: Of each channel, shape (N, channels) [rad or m].
    """
    R, place, _, _ = place_of(tree, link, position)
    return np.asarray(place + R @ point)


def contact_map(tree: Tree, link: Link, point: Array, position: Array) -> Array:
    """Return Jᵀ of a contact, which maps the wrench on a link to efforts, shape (N, channels, 6).

    The wrench is force, then moment about the contact's point, in the link's axes; J is the
    contact's Jacobian, so that `J v` is the velocity of the point and the angular velocity of the
    link, in its axes. Efforts of a free base are in the base's own axes, about its origin.

    Args:
        point: Of the contact, in the link's frame, shape (3,) [m].
        position: Of each channel, shape (N, channels) [rad or m]; that of a base is not read.
    """
    R, place, rotations, places = place_of(tree, link, position)
    place = place + R @ point
    out = np.zeros((len(position), tree.channels, 6))
    for b in rotations:
        first = int(tree.channel[b])
        if tree.kind[b] == FREE:
            out[:, first : first + 3, :3] = R
            out[:, first + 3 : first + 6, :3] = np.cross(
                place[:, None], np.swapaxes(R, 1, 2)
            ).swapaxes(1, 2)
            out[:, first + 3 : first + 6, 3:] = R
            continue
        axis = rotations[b] @ tree.axis[b]
        turns = tree.kind[b] != PRISMATIC
        moved = np.cross(axis, place - places[b]) if turns else axis
        out[:, first, :3] += tree.multiplier[b] * np.einsum("ni,nij->nj", moved, R)
        if turns:
            out[:, first, 3:] += tree.multiplier[b] * np.einsum("ni,nij->nj", axis, R)
    return out
