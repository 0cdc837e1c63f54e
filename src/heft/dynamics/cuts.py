"""A tree of bodies cut at a wrench sensor: what is beyond it, moved by the wrench there.

All that hangs on a sensor is a tree of its own whose base floats: its base moves as the sensor
does, and the efforts of that base's six channels are the wrench that moves the tree, in the
sensor's axes about its origin. So the kernels that know a floating base know a sensor, and its rows
have the columns of the bodies beyond it and no others [Ivaldi2011].
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.information import PARAMETER_COUNT, matrix_of_axis_angle

from . import kernels
from .contacts import contact_map
from .kinematics import path_to
from .tree import FREE, PRISMATIC, REVOLUTE, Link, Tree

AXES = 6  # of a wrench


@dataclass(frozen=True, eq=False)
class Cut:
    """What is beyond a wrench sensor, as a tree whose base is the sensor."""

    whole: Tree  # the tree that is cut
    # what is beyond: a base without columns, then the bodies; the whole tree's channels follow the
    # base's six
    tree: Tree
    bodies: tuple[int, ...]  # which of the whole tree's bodies these are, ascending
    rotation: Array  # from the sensor's axes to those of the first of them, shape (3, 3)
    place: Array  # origin of the sensor in the first body's frame, shape (3,) [m]

    @staticmethod
    def before(tree: Tree, link: Link, rotation: Array, position: Array) -> Cut:
        """Return the cut at the joint of the body that a link is part of.

        Args:
            link: A link of the first body beyond.
            rotation: From the sensor's axes to the link's, shape (3, 3).
            position: Origin of the sensor's frame in the link's, shape (3,) [m].
        """
        first = link.body
        bodies = [first]
        for b in range(first + 1, len(tree.names)):  # depth first: what follows hangs on these
            if int(tree.parent[b]) in bodies:
                bodies.append(b)
        turn = link.rotation @ rotation
        place = link.translation + link.rotation @ position
        others = np.array(bodies[1:], dtype=np.intp)
        index = {b: k for k, b in enumerate(bodies, 1)}
        beyond = Tree(
            names=("sensor", *(tree.names[b] for b in bodies)),
            parent=np.array([-1, 0, *(index[int(tree.parent[b])] for b in others)], dtype=np.int64),
            kind=np.array([FREE, REVOLUTE, *tree.kind[others]], dtype=np.int64),
            rotation=np.concatenate([[np.eye(3), turn.T], tree.rotation[others]]),
            translation=np.concatenate([[np.zeros(3), -turn.T @ place], tree.translation[others]]),
            axis=np.concatenate([[np.zeros(3), [0.0, 0.0, 1.0]], tree.axis[others]]),
            # The first body is fixed to the sensor: a joint that follows another by nothing.
            channel=np.array([0, 0, *(tree.channel[others] + AXES)], dtype=np.int64),
            multiplier=np.array([1.0, 0.0, *tree.multiplier[others]]),
            offset=np.array([0.0, 0.0, *tree.offset[others]]),
        )
        return Cut(tree, beyond, tuple(bodies), turn, place)

    @cached_property
    def columns(self) -> NDArray[np.intp]:
        """Columns of the whole tree that are those of the bodies beyond, ascending."""
        ten = np.arange(PARAMETER_COUNT)
        return np.concatenate([PARAMETER_COUNT * b + ten for b in self.bodies]).astype(np.intp)

    def motion(self, motion: kernels.Motion) -> kernels.Motion:
        """Return the motion of what is beyond, its base being the sensor.

        Args:
            motion: Of the whole tree, N samples.
        """
        V, A, gravity = body_motion(self.whole, self.bodies[0], motion)
        others, count = list(self.bodies[1:]), motion.sin.shape[1]
        still = np.zeros((2, count))
        return kernels.Motion(
            np.vstack([still, motion.sin[others]]),
            np.vstack([np.ones((2, count)), motion.cos[others]]),
            np.vstack([self._at_sensor(V).T, motion.velocity]),
            np.vstack([self._at_sensor(A).T, motion.acceleration]),
            np.ascontiguousarray((gravity @ self.rotation).T),
        )

    def _at_sensor(self, spatial: Array) -> Array:
        """Return a motion vector of the first body, shape (N, 6), in the sensor's frame."""
        linear = spatial[:, :3] + np.cross(spatial[:, 3:], self.place)
        return np.hstack([linear @ self.rotation, spatial[:, 3:] @ self.rotation])

    def contact_map(self, link: Link, point: Array, position: Array) -> Array:
        """Return the map from a wrench on a link beyond to the sensor's wrench, shape (N, 6, 6).

        Args:
            link: Beyond the sensor; see `holds`.
            point: Of the contact, in the link's frame, shape (3,) [m].
            position: Of each channel of the whole tree, shape (N, channels) [rad or m].
        """
        inside = replace(link, body=1 + self.bodies.index(link.body))
        shifted = np.hstack([np.zeros((len(position), AXES)), position])
        return contact_map(self.tree, inside, point, shifted)[:, :AXES]

    def holds(self, link: Link) -> bool:
        """Whether a link is beyond the sensor."""
        return link.body in self.bodies


def body_motion(tree: Tree, body: int, motion: kernels.Motion) -> tuple[Array, Array, Array]:
    """Return spatial velocity and acceleration of a body, and gravity, all in its own axes.

    Returns:
        Velocity of the origin and angular velocity, shape (N, 6) [m/s, rad/s]; the spatial
        acceleration, without gravity, shape (N, 6) [m/s², rad/s²]; gravity, shape (N, 3) [m/s²].
    """
    count = motion.sin.shape[1]
    v, w, a, rise = np.zeros((4, count, 3))
    gravity = motion.gravity.T
    for b in path_to(tree, body):
        if tree.kind[b] == FREE:
            v, w = motion.velocity[:3].T, motion.velocity[3:6].T
            a, rise = motion.acceleration[:3].T, motion.acceleration[3:6].T
            continue
        R, place = _joint(tree, b, motion)
        v, w = _carried(R, place, v, w)
        a, rise = _carried(R, place, a, rise)
        gravity = np.einsum("nij,ni->nj", R, gravity)
        channel, share = int(tree.channel[b]), tree.multiplier[b]
        speed = share * motion.velocity[channel][:, None] * tree.axis[b]
        growth = share * motion.acceleration[channel][:, None] * tree.axis[b]
        if tree.kind[b] == PRISMATIC:
            a = a + growth + np.cross(w, speed)
            v = v + speed
        else:
            a = a + np.cross(v, speed)
            rise = rise + growth + np.cross(w, speed)
            w = w + speed
    return np.hstack([v, w]), np.hstack([a, rise]), gravity


def _joint(tree: Tree, b: int, motion: kernels.Motion) -> tuple[Array, Array]:
    """Return rotation, shape (N, 3, 3), and place, shape (N, 3) [m], of a body in its parent."""
    slides = tree.kind[b] == PRISMATIC
    moved = motion.sin[b] if slides else np.arctan2(motion.sin[b], motion.cos[b])
    place = np.broadcast_to(tree.translation[b], (len(moved), 3))
    if slides:
        along = tree.rotation[b] @ tree.axis[b]
        return np.broadcast_to(tree.rotation[b], (len(moved), 3, 3)), place + moved[:, None] * along
    return tree.rotation[b] @ matrix_of_axis_angle(tree.axis[b], moved), place


def _carried(R: Array, place: Array, linear: Array, angular: Array) -> tuple[Array, Array]:
    """Return a motion vector in a child's frame."""
    moved = linear + np.cross(angular, place)
    return np.einsum("nij,ni->nj", R, moved), np.einsum("nij,ni->nj", R, angular)
