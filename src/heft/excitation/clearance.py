"""Clearance of a robot from itself, the floor, planes and boxes, with exact gradients.

Links are capsules (`heft.models.fit_capsules`). Compiled: one pass places the capsules and takes
the distances, and the gradient of any weighted sum of them is one pass back, by the force along
each pair's normal as a wrench on its bodies.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array, read_only
from heft.compiled import plain
from heft.dynamics import Tree
from heft.errors import InvalidSetting, did_you_mean
from heft.models import Capsules, MotionLimits, Robot, cannot_touch

from .clearance_kernels import BOX, CAPSULE, SPACE, distances, gradient


@dataclass(frozen=True, eq=False)
class Clearance:
    """Distances that a robot must keep, less what is required of them; made by `of`."""

    tree: Tree  # the bodies, with a fixed base
    capsules: Capsules  # the links
    spaces: Array  # unit normal towards the allowed side and offset [m] of each plane, shape (p, 4)
    boxes: Array  # centre and half lengths of each box to stay out of, shape (b, 6) [m]
    # what each distance is taken between, shape (m, 3): `CAPSULE`, `SPACE` or `BOX`, the index of a
    # capsule, and that of the other capsule, the plane or the box
    pairs: NDArray[np.int64]
    names: tuple[tuple[str, str], ...]  # what messages call the two of each pair
    required: Array  # least distance of each pair, shape (m,) [m]; 0 of links two joints apart
    # pairs that are too close at almost all postures, in all or in parts
    left_out: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()  # for the user: shapes that were not found, pairs that are left out

    @staticmethod
    def of(robot: Robot, capsules: Capsules, limits: MotionLimits) -> Clearance:
        """Return the clearance of a robot in the room that `[motion]` of its options states.

        Pairs are all but those of one body, of neighbours, of links that `ignore` names, of links
        that are proven never to touch, and those too close at almost all postures. How near links
        two joints apart come to one another is the robot's build: they are to keep from touching,
        all others to keep the distance that is required.

        Args:
            robot: With a fixed base.
            limits: Of its joints, for the random postures.

        Raises:
            InvalidSetting: If the base floats, or `ignore` names a link that has no shape.
        """
        if robot.tree.free_base:
            raise InvalidSetting("a free base is nowhere", argument='base = "free"')
        rng = np.random.default_rng(0)
        count = (2000, len(limits.joints))
        q = limits.lower + (limits.upper - limits.lower) * rng.uniform(size=count)
        full, enough = _every_pair(robot, capsules), 0.1  # postures at which links are too close
        often = full._close(q) >= enough
        separate = full._never_touching(often, limits)
        parted = full._kept(~separate)._parted(often[~separate])
        fine = parted._never_touching(parted._close(q) >= enough, limits)
        kept = parted._kept(~fine)
        return kept._without(kept._hopeless(q))

    def values(self, q: Array) -> Array:
        """Return the distances less what is required at positions q, (N, d): shape (N, m) [m]."""
        (q,) = plain(np.asarray(q))
        out = np.empty((len(q), len(self.pairs)))
        distances(q, *self._arrays, out)
        return out - self.required

    def pull_back(self, q: Array, seeds: Array) -> Array:
        """Return the gradient of `(seeds * values(q)).sum()`, shape (N, d) [m/rad or 1]."""
        q, seeds = plain(np.asarray(q), np.asarray(seeds))
        out = np.zeros_like(q)
        gradient(q, *self._arrays, seeds, out)
        return out

    def _close(self, q: Array) -> Array:
        """Return the share of postures, shape (N, d), at which each pair is too close, (m,)."""
        return np.asarray((self.values(q) < 0.0).mean(axis=0))

    def _hopeless(self, q: Array) -> NDArray[np.bool_]:
        """Return which pairs are left out since hardly any posture keeps them apart, shape (m,)."""
        close = self.values(q) < 0.0
        share = close.mean(axis=0)
        out = share >= 0.95  # of postures: they overlap where the links do not, or always
        own = self.pairs[:, 0] == CAPSULE
        while True:
            free = (~close[:, own & ~out].any(axis=1)).mean()
            candidates = np.where(own & ~out, share, 0.0)
            # where hardly any posture is free those too close most often are left out, one by one
            if free >= 0.02 or candidates.max(initial=0.0) < 0.5:
                return np.asarray(out)
            out[candidates.argmax()] = True

    def _never_touching(self, chosen: NDArray[np.bool_], limits: MotionLimits) -> NDArray[np.bool_]:
        """Return which chosen pairs are of links proven never to touch, unlike their capsules."""
        shapes = self.capsules.shapes
        return np.array(
            [
                cut
                and kind == CAPSULE
                and not (shapes[i].is_capsule and shapes[j].is_capsule)  # they do as these do
                and cannot_touch(self.tree, shapes[i], shapes[j], limits)
                for cut, (kind, i, j) in zip(chosen, self.pairs, strict=True)
            ],
            dtype=bool,
        )

    def _kept(self, chosen: NDArray[np.bool_ | np.intp]) -> Clearance:
        names = tuple(self.names[k] for k in np.arange(len(self.names))[chosen])
        return replace(self, pairs=self.pairs[chosen], names=names, required=self.required[chosen])

    def _parted(self, chosen: NDArray[np.bool_]) -> Clearance:
        """Return the clearance with chosen pairs of links replaced by all pairs of parts."""
        parts, origin = [], []
        for m, (pair, cut) in enumerate(zip(self.pairs, chosen, strict=True)):
            kind, i, j = (int(x) for x in pair)
            first = self.capsules.parts(i) if cut else [i]
            second = self.capsules.parts(j) if cut and kind == CAPSULE else [j]
            parts += [(kind, a, b) for a in first for b in second]
            origin += [m] * (len(first) * len(second))
        parted = self._kept(np.array(origin, dtype=np.intp))
        return replace(parted, pairs=np.array(parts, dtype=np.int64).reshape(-1, 3))

    def _without(self, close: NDArray[np.bool_]) -> Clearance:
        kept = self._kept(~close)
        out = tuple(sorted({n for n, k in zip(self.names, close, strict=True) if k}))
        listed = ", ".join(
            f"{a} and {b}{' in part' if (a, b) in kept.names else ''}" for a, b in out
        )
        note = f"not kept apart, since too close at most postures: {listed}"
        return replace(kept, left_out=out, notes=(*self.notes, note) if out else self.notes)

    @cached_property
    def _arrays(self) -> tuple[tuple[NDArray[Any], ...], ...]:
        tree, capsules = self.tree, self.capsules
        integers = (tree.parent, tree.kind, tree.channel)
        real = (tree.multiplier, tree.offset, tree.rotation, tree.translation, tree.axis)
        ends = np.stack([capsules.start, capsules.end], axis=1)
        return (
            (*(np.array(x, dtype=np.int64) for x in integers), *map(np.array, real)),
            (np.array(capsules.body, dtype=np.int64), ends, np.array(capsules.radius)),
            (np.array(self.spaces), np.array(self.boxes), np.array(self.pairs, dtype=np.int64)),
        )


def _every_pair(robot: Robot, capsules: Capsules) -> Clearance:
    """Return the clearance of all pairs but those of one body or of neighbours."""
    motion = robot.options.motion
    valid = {*capsules.links, *motion.half_space_names}
    for pair in motion.ignore:
        for name in pair:
            if name not in valid:
                raise InvalidSetting(
                    f"no link with a shape is called '{name}'",
                    argument="[motion], ignore",
                    valid=sorted(valid),
                    cure=did_you_mean(name, sorted(valid)),
                )
    ignored = {frozenset(pair) for pair in motion.ignore}
    between = _joints_between(robot, capsules)
    links, count = capsules.links, np.flatnonzero(capsules.whole).tolist()
    entries = [
        ((CAPSULE, i, j), (links[i], links[j]))
        for i in count
        for j in count
        if j > i and between[i, j] > 1
    ]
    others = [(SPACE, k, name) for k, name in enumerate(motion.half_space_names)]
    others += [(BOX, k, f"keep_out, box {k + 1}") for k in range(len(motion.keep_out))]
    moving = [i for i in count if capsules.body[i] >= 0]
    entries += [((kind, i, k), (links[i], name)) for kind, k, name in others for i in moving]
    entries = [(pair, names) for pair, names in entries if frozenset(names) not in ignored]
    boxes = np.array(motion.keep_out).reshape(-1, 3, 2)
    return Clearance(
        tree=robot.tree,
        capsules=capsules,
        spaces=read_only(
            np.array([[*s.normal, s.offset] for s in motion.half_spaces]).reshape(-1, 4)
        ),
        boxes=read_only(np.hstack([boxes.mean(axis=2), np.ptp(boxes, axis=2) / 2.0])),
        pairs=np.array([pair for pair, _ in entries], dtype=np.int64).reshape(-1, 3),
        names=tuple(names for _, names in entries),
        required=np.array(
            [
                0.0 if kind == CAPSULE and between[i, j] == 2 else motion.clearance
                for (kind, i, j), _ in entries
            ]
        ),
        notes=capsules.notes,
    )


def _joints_between(robot: Robot, capsules: Capsules) -> NDArray[np.int64]:
    """Return how many joints that move lie between the bodies of any two capsules, shape (n, n)."""
    tree = robot.tree
    still = [robot.options.of(robot.joints[int(c)]).position is not None for c in tree.channel]
    carried = np.zeros((len(capsules.body), len(tree.names)), dtype=np.int64)
    for k, body in enumerate(capsules.body):
        while body >= 0:
            carried[k, body] = not still[body]
            body = int(tree.parent[body])
    return np.asarray(np.abs(carried[:, None] - carried).sum(axis=2))
