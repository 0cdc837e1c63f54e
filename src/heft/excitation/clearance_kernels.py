"""Compiled distances of capsules on a tree of bodies, and their gradients.

Distances at a posture are one walk out along the tree; the gradient of a weighted sum of them is
one walk back: each weight is a force along the pair's normal, hence a wrench on its bodies, and
what a wrench does to a joint is its work. All in the world's frame, moments about its origin.

The distance of a segment to a segment, a half space or a box comes with a witness of nine numbers:
the unit normal from the first to the second, then the points of the first and of the second between
which it is taken. Its derivative with regard to any motion is normal · (velocity of the second's
point − that of the first's) (the envelope theorem), since the points are where the distance is
stationary. A half space's distance is signed, and so has a direction however deep a segment lies.
Two segments that cross are at distance zero, with the common normal. A box that a segment enters is
judged by the axis of least overlap [Ericson2005], which is the way out, also for a plate that the
segment pierces.

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

CAPSULE, SPACE, BOX = 0, 1, 2  # what the second of a pair is
TINY = 1e-14  # [m] or [m²]; what is smaller has no direction


@exact(allocates=True)
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


@exact(allocates=True)
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
                _add_force(wrench, home[pairs[m, 1]], -weight, witness, 3)
                if pairs[m, 0] == CAPSULE:
                    _add_force(wrench, home[pairs[m, 2]], weight, witness, 6)
        _collect(tree, place, axes, wrench, out[n])


@exact(allocates=True)
def _space(bodies: int) -> tuple[Array, Array, Array]:
    return np.empty((bodies, 3, 3)), np.empty((bodies, 3)), np.empty((bodies, 3))


@exact(allocates=True)
def _place_bodies(q: Array, tree: Any, rotation: Array, place: Array, axes: Array) -> None:
    parent, kind, channel, multiplier, offset, turn, shift, axis = tree
    unit, frame, local = np.eye(3), np.empty((3, 3)), np.empty((3, 3))
    for b in range(len(parent)):
        moved = multiplier[b] * q[channel[b]] + offset[b]
        above = parent[b]
        carrier = rotation[above] if above >= 0 else unit
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
def segment_to_segment(a: Array, b: Array, c: Array, d: Array, witness: Array) -> float:
    """Return the distance of two segments [m].

    The closest points are those of [Ericson2005], §5.1.9.

    Args:
        a: End of the first, shape (3,) [m].
        b: Its other end.
        c: End of the second, shape (3,) [m].
        d: Its other end.
        witness: Is written, shape (9,).
    """
    ux, uy, uz = b[0] - a[0], b[1] - a[1], b[2] - a[2]
    vx, vy, vz = d[0] - c[0], d[1] - c[1], d[2] - c[2]
    wx, wy, wz = a[0] - c[0], a[1] - c[1], a[2] - c[2]
    uu = ux * ux + uy * uy + uz * uz
    vv = vx * vx + vy * vy + vz * vz
    uv = ux * vx + uy * vy + uz * vz
    uw = ux * wx + uy * wy + uz * wz
    vw = vx * wx + vy * wy + vz * wz
    s = t = 0.0
    if uu <= TINY:
        if vv > TINY:
            t = min(max(vw / vv, 0.0), 1.0)
    elif vv <= TINY:
        s = min(max(-uw / uu, 0.0), 1.0)
    else:
        across = uu * vv - uv * uv
        slant = across > 1e-12 * uu * vv  # else they are parallel
        s = min(max((uv * vw - uw * vv) / across, 0.0), 1.0) if slant else 0.5
        t = (uv * s + vw) / vv
        if t < 0.0:
            t = 0.0
            s = min(max(-uw / uu, 0.0), 1.0)
        elif t > 1.0:
            t = 1.0
            s = min(max((uv - uw) / uu, 0.0), 1.0)
        elif not slant:  # any of the common stretch
            s = min(max((uv * t - uw) / uu, 0.0), 1.0)
            t = min(max((uv * s + vw) / vv, 0.0), 1.0)
    witness[3], witness[4], witness[5] = a[0] + s * ux, a[1] + s * uy, a[2] + s * uz
    witness[6], witness[7], witness[8] = c[0] + t * vx, c[1] + t * vy, c[2] + t * vz
    nx, ny, nz = witness[6] - witness[3], witness[7] - witness[4], witness[8] - witness[5]
    distance = math.sqrt(nx * nx + ny * ny + nz * nz)
    size = distance
    if size <= TINY:  # they cross: the common normal
        nx, ny, nz = uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx
        size = math.sqrt(nx * nx + ny * ny + nz * nz)
        if size <= TINY:
            nx, ny, nz, size = 0.0, 0.0, 1.0, 1.0
    witness[0], witness[1], witness[2] = nx / size, ny / size, nz / size
    return distance


@exact
def segment_to_half_space(a: Array, b: Array, space: Array, witness: Array) -> float:
    """Return the signed distance of a segment above a plane [m].

    Args:
        a: Its end, shape (3,) [m].
        b: Its other end.
        space: Unit normal towards the allowed side, and offset [m], shape (4,).
        witness: Is written, shape (9,); the second is the half space below the plane.
    """
    high = a[0] * space[0] + a[1] * space[1] + a[2] * space[2] - space[3]
    low = b[0] * space[0] + b[1] * space[1] + b[2] * space[2] - space[3]
    point = a if high <= low else b
    distance = min(high, low)
    for i in range(3):
        witness[i] = -space[i]
        witness[3 + i] = point[i]
        witness[6 + i] = point[i] - distance * space[i]
    return float(distance)


@exact
def segment_to_box(a: Array, b: Array, box: Array, witness: Array) -> float:
    """Return the signed distance of a segment to a box, −depth where it enters it [m].

    Args:
        a: Its end, shape (3,) [m].
        b: Its other end.
        box: Centre and half lengths, along the axes, shape (6,) [m].
        witness: Is written, shape (9,); the second is the box.
    """
    best = -math.inf
    for i in range(3):
        for sign in (-1.0, 1.0):
            p, q = sign * (a[i] - box[i]), sign * (b[i] - box[i])
            if min(p, q) - box[3 + i] > best:
                best = min(p, q) - box[3 + i]
                point = a if p <= q else b
                for j in range(3):
                    witness[j] = 0.0
                    witness[3 + j] = witness[6 + j] = point[j]
                witness[i] = -sign
                witness[6 + i] = box[i] + sign * box[3 + i]
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        # The normal of the box's edges along i and the segment.
        y, z = -(b[k] - a[k]), b[j] - a[j]
        size = math.sqrt(y * y + z * z)
        if size <= TINY:
            continue
        y, z = y / size, z / size
        side = y * (a[j] - box[j]) + z * (a[k] - box[k])
        if side < 0.0:
            y, z, side = -y, -z, -side
        depth = side - box[3 + j] * abs(y) - box[3 + k] * abs(z)
        if depth <= best:
            continue
        best = depth
        # The edge's place across, and where the segment passes it.
        ej = box[j] + math.copysign(box[3 + j], y)
        ek = box[k] + math.copysign(box[3 + k], z)
        dj, dk = b[j] - a[j], b[k] - a[k]
        t = ((ej - a[j]) * dj + (ek - a[k]) * dk) / (dj * dj + dk * dk)
        t = min(max(t, 0.0), 1.0)
        for m in range(3):
            witness[3 + m] = witness[6 + m] = a[m] + t * (b[m] - a[m])
        witness[i], witness[j], witness[k] = 0.0, -y, -z
        witness[6 + j] -= depth * y
        witness[6 + k] -= depth * z
    if best > 0.0:
        best = float(_outside(a, b, box, witness))
    return best


@exact
def _outside(a: Array, b: Array, box: Array, witness: Array) -> float:
    low, high = 0.0, 1.0
    t = 0.5
    if _slope(a, b, box, 0.0) >= 0.0:
        t = high = 0.0
    elif _slope(a, b, box, 1.0) <= 0.0:
        t = low = 1.0
    for _ in range(60):  # ends within 7 but for rounding
        if high - low <= 1e-15:
            break
        slope = _slope(a, b, box, t)
        if slope > 0.0:
            high = t
        elif slope < 0.0:
            low = t
        else:
            break
        step = t - slope / _curvature(a, b, box, t)
        if not low < step < high:
            step = 0.5 * (low + high)
        if step == t:
            break
        t = step
    square = 0.0
    for i in range(3):
        witness[3 + i] = a[i] + t * (b[i] - a[i])
        half = box[3 + i]
        witness[6 + i] = min(max(witness[3 + i], box[i] - half), box[i] + half)
        square += (witness[6 + i] - witness[3 + i]) ** 2
    distance = math.sqrt(square)
    if distance > TINY:
        for i in range(3):
            witness[i] = (witness[6 + i] - witness[3 + i]) / distance
    return distance


@exact
def _slope(a: Array, b: Array, box: Array, t: float) -> float:
    """Return half the derivative of the squared distance to a box along a segment [m²]."""
    total = 0.0
    for i in range(3):
        way = b[i] - a[i]
        x = a[i] + t * way - box[i]
        total += way * (max(x - box[3 + i], 0.0) + min(x + box[3 + i], 0.0))
    return total


@exact
def _curvature(a: Array, b: Array, box: Array, t: float) -> float:
    """Return the derivative of `_slope` [m²]."""
    total = 0.0
    for i in range(3):
        way = b[i] - a[i]
        x = a[i] + t * way - box[i]
        if abs(x) > box[3 + i]:
            total += way * way
    return total


@exact
def _add_force(wrench: Array, body: int, weight: float, witness: Array, at: int) -> None:
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
