"""Compiled signed distances of a segment to a segment, a half space and a box, with witnesses.

Each writes a witness of nine numbers: the unit normal from the first to the second, then the points
of the first and of the second between which the distance is taken. The derivative of a distance
with regard to any motion is normal · (velocity of the second's point − that of the first's)
(the envelope theorem), since the points are where the distance is stationary.

A half space's distance is signed, and so has a direction however deep a segment lies. Two segments
that cross are at distance zero, with the common normal. A box that a segment enters is judged by
the axis of least overlap [Ericson2005], which is the way out, also for a plate that the
segment pierces.
"""

from __future__ import annotations

import math

from heft.arrays import Array
from heft.compiled import exact

TINY = 1e-14  # [m] or [m²]; what is smaller has no direction
PARALLEL = 1e-12  # squared sine of the angle of segments that are taken as parallel
ROUNDS = 60  # of the search for the point nearest to a box; ends within 7 but for rounding


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
        slant = across > PARALLEL * uu * vv
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
        if depth > best:
            best = depth
            _edge_witness(a, b, box, i, y, z, depth, witness)
    if best > 0.0:
        best = float(_outside(a, b, box, witness))
    return best


@exact
def _edge_witness(
    a: Array, b: Array, box: Array, i: int, y: float, z: float, depth: float, witness: Array
) -> None:
    """Write the witness of a segment that overlaps an edge along axis i, normal y, z across."""
    j, k = (i + 1) % 3, (i + 2) % 3
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


@exact
def _outside(a: Array, b: Array, box: Array, witness: Array) -> float:
    low, high = 0.0, 1.0
    t = 0.5
    if _slope(a, b, box, 0.0) >= 0.0:
        t = high = 0.0
    elif _slope(a, b, box, 1.0) <= 0.0:
        t = low = 1.0
    for _ in range(ROUNDS):
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
