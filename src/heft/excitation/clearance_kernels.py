"""Compiled distances of capsules on a tree of bodies, and their gradients.

Distances at a posture are one walk out along the tree; the gradient of a weighted sum of them is
one walk back: each weight is a force along the pair's normal, hence a wrench on its bodies, and
what a wrench does to a joint is its work. All in the world's frame, moments about its origin.

`tree` is parent, kind, channel, multiplier, offset, rotation, translation and axis of each body, as
in `Tree`; `capsules` their bodies, ends (n, 2, 3) and radii; `room` the planes (p, 4), the boxes
(b, 6) and the pairs (m, 3): what the second is, the first capsule, the second's index.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from heft.arrays import Array
from heft.compiled import Kernels, exact
from heft.dynamics import PRISMATIC

from .distances import segment_to_box, segment_to_half_space, segment_to_segment

CAPSULE, SPACE, BOX = 0, 1, 2  # what the second of a pair is


@exact
def distances(q: Array, tree: Any, capsules: Any, room: Any, out: Array) -> None:
    """Write the distances of all pairs at N postures, shape (N, m) [m].

    Args:
        q: Shape (N, channels) [rad or m].
        tree: As the module's docstring says, as the next two.
        capsules: Bodies, ends and radii.
        room: Planes, boxes and pairs.
    """
    pairs = room[2]
    rotation, place, axes = _space(len(tree[0]))
    ends, witness = np.empty((len(capsules[0]), 2, 3)), np.empty(9)
    for n in range(len(q)):
        _place_bodies(q[n], tree, rotation, place, axes)
        _place_capsules(capsules, rotation, place, ends)
        for m in range(len(pairs)):
            out[n, m] = _gap(pairs[m], ends, capsules[2], room, witness)


@exact
def gradient(q: Array, tree: Any, capsules: Any, room: Any, seeds: Array, out: Array) -> None:
    """Add the gradient of a weighted sum of the distances at N postures, shape (N, channels).

    Args:
        q: Shape (N, channels) [rad or m].
        tree: As the module's docstring says, as the next two.
        capsules: Bodies, ends and radii.
        room: Planes, boxes and pairs.
        seeds: Weights, shape (N, m).
    """
    home, pairs = capsules[0], room[2]
    rotation, place, axes = _space(len(tree[0]))
    ends, witness = np.empty((len(home), 2, 3)), np.empty(9)
    wrench = np.empty((len(tree[0]), 6))
    for n in range(len(q)):
        if not np.any(seeds[n]):
            continue
        _place_bodies(q[n], tree, rotation, place, axes)
        _place_capsules(capsules, rotation, place, ends)
        wrench[:] = 0.0
        for m in range(len(pairs)):
            weight = seeds[n, m]
            if weight != 0.0:
                _gap(pairs[m], ends, capsules[2], room, witness)
                _push(wrench, home[pairs[m, 1]], -weight, witness, 3)
                if pairs[m, 0] == CAPSULE:
                    _push(wrench, home[pairs[m, 2]], weight, witness, 6)
        _collect(tree, place, axes, wrench, out[n])


@exact
def _space(bodies: int) -> tuple[Array, Array, Array]:
    return np.empty((bodies, 3, 3)), np.empty((bodies, 3)), np.empty((bodies, 3))


@exact
def _place_bodies(q: Array, tree: Any, rotation: Array, place: Array, axes: Array) -> None:
    parent, kind, channel, multiplier, offset, turn, shift, axis = tree
    whole, frame, local = np.eye(3), np.empty((3, 3)), np.empty((3, 3))
    for b in range(len(parent)):
        moved = multiplier[b] * q[channel[b]] + offset[b]
        above = parent[b]
        carrier = rotation[above] if above >= 0 else whole
        _product(carrier, turn[b], frame)
        for i in range(3):
            place[b, i] = place[above, i] if above >= 0 else 0.0
            axes[b, i] = 0.0
            for k in range(3):
                place[b, i] += carrier[i, k] * shift[b, k]
                axes[b, i] += frame[i, k] * axis[b, k]
        if kind[b] == PRISMATIC:
            for i in range(3):
                place[b, i] += moved * axes[b, i]
            rotation[b] = frame
        else:
            _turn(axis[b], moved, local)
            _product(frame, local, rotation[b])


@exact
def _product(a: Array, b: Array, out: Array) -> None:
    for i in range(3):
        for j in range(3):
            out[i, j] = a[i, 0] * b[0, j] + a[i, 1] * b[1, j] + a[i, 2] * b[2, j]


@exact
def _turn(axis: Array, angle: float, out: Array) -> None:
    """Write the rotation about a unit axis (Rodrigues)."""
    s, c = math.sin(angle), math.cos(angle)
    x, y, z, v = axis[0], axis[1], axis[2], 1.0 - c
    out[0, 0], out[0, 1], out[0, 2] = c + x * x * v, x * y * v - z * s, x * z * v + y * s
    out[1, 0], out[1, 1], out[1, 2] = y * x * v + z * s, c + y * y * v, y * z * v - x * s
    out[2, 0], out[2, 1], out[2, 2] = z * x * v - y * s, z * y * v + x * s, c + z * z * v


@exact
def _place_capsules(capsules: Any, rotation: Array, place: Array, ends: Array) -> None:
    home, own, _ = capsules
    for n in range(len(home)):
        b = home[n]
        for e in range(2):
            for i in range(3):
                if b < 0:
                    ends[n, e, i] = own[n, e, i]
                else:
                    ends[n, e, i] = place[b, i]
                    for k in range(3):
                        ends[n, e, i] += rotation[b, i, k] * own[n, e, k]


@exact
def _gap(pair: Any, ends: Array, radius: Array, room: Any, witness: Array) -> float:
    """Return the distance of a pair [m], and write its witness."""
    first, second = pair[1], pair[2]
    a, b = ends[first, 0], ends[first, 1]
    if pair[0] == CAPSULE:
        gap = segment_to_segment(a, b, ends[second, 0], ends[second, 1], witness) - radius[second]
    elif pair[0] == SPACE:
        gap = segment_to_half_space(a, b, room[0][second], witness)
    else:
        gap = segment_to_box(a, b, room[1][second], witness)
    return float(gap - radius[first])


@exact
def _push(wrench: Array, body: int, weight: float, witness: Array, at: int) -> None:
    """Add a force along the normal at a point to a body's wrench about the world's origin."""
    if body < 0:
        return
    fx, fy, fz = weight * witness[0], weight * witness[1], weight * witness[2]
    x, y, z = witness[at], witness[at + 1], witness[at + 2]
    wrench[body, 0] += fx
    wrench[body, 1] += fy
    wrench[body, 2] += fz
    wrench[body, 3] += y * fz - z * fy
    wrench[body, 4] += z * fx - x * fz
    wrench[body, 5] += x * fy - y * fx


@exact
def _collect(tree: Any, place: Array, axes: Array, wrench: Array, out: Array) -> None:
    """Add the generalized forces of the bodies' wrenches to the channels, shape (channels,)."""
    parent, kind, channel, multiplier = tree[:4]
    for b in range(len(parent) - 1, -1, -1):
        fx, fy, fz = wrench[b, 0], wrench[b, 1], wrench[b, 2]
        if kind[b] == PRISMATIC:
            work = axes[b, 0] * fx + axes[b, 1] * fy + axes[b, 2] * fz
        else:
            x, y, z = place[b, 0], place[b, 1], place[b, 2]
            work = (
                axes[b, 0] * (wrench[b, 3] - (y * fz - z * fy))
                + axes[b, 1] * (wrench[b, 4] - (z * fx - x * fz))
                + axes[b, 2] * (wrench[b, 5] - (x * fy - y * fx))
            )
        out[channel[b]] += multiplier[b] * work
        if parent[b] >= 0:
            for i in range(6):
                wrench[parent[b], i] += wrench[b, i]


def warm_up() -> None:
    """Call each compiled entry point once, so that it is compiled and cached."""
    index, one = np.zeros(1, dtype=np.int64), np.ones(1)
    flat, three = np.eye(3)[None], np.ones((1, 3))
    tree = (index - 1, index, index, one, one, flat, three, three)
    capsules = (index, np.ones((1, 2, 3)), one)
    room = (np.zeros((0, 4)), np.zeros((0, 6)), np.zeros((0, 3), dtype=np.int64))
    distances(np.zeros((1, 1)), tree, capsules, room, np.zeros((1, 0)))
    gradient(np.zeros((1, 1)), tree, capsules, room, np.zeros((1, 0)), np.zeros((1, 1)))


KERNELS = Kernels((distances, gradient), warm_up)
