"""A motion as a moving stick figure: one text for a page or a notebook, which loads nothing.

Lines take the page's own colour of text, and so follow its light or dark, whatever decides it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from heft.arrays import Array
from heft.dynamics import PRISMATIC, body_poses
from heft.errors import InvalidSetting
from heft.information import PARAMETER_COUNT
from heft.models import Robot

from .scene import Body, ends
from .templates import JSON, render

FRAMES_PER_SECOND = 40.0
SMALLEST = 0.05  # half of what a canvas shows at least [m]
DIGITS = 4  # behind the point, of places in m
EYE = np.array([0.62, -0.78, 0.0]) / np.hypot(0.62, 0.78)  # where the reader of a scene is
STILL = np.zeros(1)  # times of one frame [s]
ASIDE = np.array([1.0, 0.7, 0.5])  # where the reader is, if nothing says better


class Played(Protocol):
    """A motion: arrays at times of shape (N,)."""

    @property
    def time(self) -> Array:
        """Strictly increasing [s]."""

    @property
    def position(self) -> Array:
        """Of each channel, shape (N, channels) [rad or m]."""


def figure(robot: Robot, motion: Played, title: str = "") -> str:
    """Return a motion as a piece of HTML, for a notebook or a page: `IPython.display.HTML(…)`.

    It plays by itself, again and again, unless the reader's system asks for less motion; a slider
    goes to any time, dragging turns the view. Blue points are centres of mass, and the blue line is
    where the last point was within the last second.

    Args:
        motion: Two samples at least; positions of every channel.
        title: Above it; the robot's name heads a page without one.

    Raises:
        InvalidSetting: If there is nothing to play.
    """
    return render("display/animation_figure.html.jinja", **sticks(robot, motion).shown(title))


def page(robot: Robot, motion: Played, title: str = "") -> str:
    """Return a motion as a whole page, which opens offline; arguments and errors as of `figure`."""
    return render("display/animation_page.html.jinja", **sticks(robot, motion).shown(title))


@dataclass(frozen=True, eq=False)
class Sticks:
    """A figure of lines between points that move: F frames of n points."""

    title: str  # above it
    time: Array  # from zero on, increasing, shape (F,) [s]; of one frame nothing moves
    points: Array  # shape (F, n, 3) [m]
    # first and last point of each; those of an axis with their colour, or `thin`
    lines: Sequence[tuple[int | str, ...]]
    # points that are drawn as masses, with their size from 0 to 1
    masses: Sequence[tuple[int, float]]
    view: Array  # axes of the picture as rows: right, up, towards the reader, shape (3, 3)
    trace: int | None  # the point whose last second is drawn
    # drawn throughout, shape (m, 3) [m]
    path: Array = field(default_factory=lambda: np.empty((0, 3)))
    # stretches of the path, first place and that behind the last
    marked: Sequence[tuple[int, int]] = ()
    # drawn as ellipsoids: the last points are each one's centre and its three semi-axes' ends
    bodies: Sequence[Body] = ()
    pitch: float = 0.0  # from how far above it is seen [rad]
    plays: bool = True  # by itself, unless the reader's system asks for less motion
    # of each joint, by name, and of each colour's role: drawn as bars, shape (F, joints) [1]
    torques: tuple[Sequence[str], Mapping[str, Array]] | None = None

    @property
    def content(self) -> dict[str, object]:
        """What the script draws."""
        places, path = np.round(self.points, DIGITS), np.round(self.path, DIGITS)
        first = places.shape[1] - 4 * len(self.bodies)
        solid = places[:, first:].reshape(len(places), -1, 4, 3)
        after = [k for k, body in enumerate(self.bodies) if body.role == "after"]
        axes = solid[:, after, 1:] - solid[:, after, :1]  # of what is found, to both sides
        tips = [solid[:, after, :1] + axes, solid[:, after, :1] - axes]
        parts = [places[:, :first], solid[:, :, 0], *tips, path]
        every = np.vstack([part.reshape(-1, 3) for part in parts])
        middle = 0.5 * (every.min(axis=0) + every.max(axis=0))
        across, y, z = self.view @ (every - middle).T
        up = np.cos(self.pitch) * y - np.sin(self.pitch) * z
        bars = None
        if self.torques is not None:
            names, kinds = self.torques
            listed = [[role, np.round(values, 3).tolist()] for role, values in kinds.items()]
            bars = {"names": names, "kinds": listed}
        return {
            "time": np.round(self.time, 4).tolist(),
            "points": places.tolist(),
            "lines": list(self.lines),
            "masses": [[k, round(share, 3)] for k, share in self.masses],
            "view": np.round(self.view, 6).tolist(),
            "middle": np.round(middle, DIGITS).tolist(),
            # how far it ever reaches from its middle, to the sides and up, as it is first seen
            "reach": [max(float(np.abs(v).max()), SMALLEST) for v in (across, up)],
            "pitch": self.pitch,
            "plays": self.plays,
            "torques": bars,
            "trace": self.trace,
            "path": path.tolist(),
            "marked": list(self.marked),
            "bodies": [
                {"first": first + 4 * k, "name": b.name, "role": b.role, "seen": round(b.seen, 3)}
                for k, b in enumerate(self.bodies)
            ],
        }

    def shown(self, title: str = "") -> dict[str, object]:
        """Return what the templates show: `name`, `caption`, `title`, `end` and `motion`."""
        content = self.content
        # Of what it shows, so that several figures in one notebook do not share a name.
        text = json.dumps(content, **JSON) + title
        return {
            "name": "motion-" + hashlib.sha256(text.encode()).hexdigest()[:12],
            "caption": title,
            "title": title or self.title,
            "end": f"{self.time[-1]:.3f}",
            "motion": content,
        }


def solids(
    title: str,
    bones: Array,
    bodies: Sequence[Body],
    time: Array = STILL,
    torques: tuple[Sequence[str], Mapping[str, Array]] | None = None,
) -> Sticks:
    """Return lines and ellipsoids in three dimensions, which move only if the reader plays them.

    Args:
        bones: Shape (n, 6) or (F, n, 6) [m].
        time: As of `Sticks`, as `torques` is.
    """
    frames, count = len(time), bones.shape[-2]
    points = [np.broadcast_to(bones, (frames, count, 6)).reshape(frames, 2 * count, 3)]
    for body in bodies:
        centre = np.broadcast_to(body.centre, (frames, 3))[:, None]
        points.append(np.concatenate([centre, centre + body.axes], axis=1))
    lines = [(2 * k, 2 * k + 1) for k in range(count)]
    view = np.array([[*EYE[1::-1] * [-1.0, 1.0], 0.0], [0.0, 0.0, 1.0], EYE])
    return Sticks(
        title, time, np.concatenate(points, axis=1), lines, [], view, None,
        bodies=bodies, pitch=0.35, plays=False, torques=torques,
    )  # fmt: skip


def sticks(robot: Robot, motion: Played) -> Sticks:
    """Return a motion as lines between joints and masses at their links, to be played by a page.

    Raises:
        InvalidSetting: If there is nothing to play.
    """
    if len(motion.time) < 2:
        raise InvalidSetting(
            "a motion of one sample cannot be played", argument="motion", got=len(motion.time)
        )
    time = motion.time - motion.time[0]
    frames = np.linspace(0.0, time[-1], max(round(FRAMES_PER_SECOND * time[-1]), 1) + 1)
    shown = np.stack([np.interp(frames, time, x) for x in motion.position.T], axis=1)
    tree = robot.tree
    tens = robot.written_bodies().reshape(-1, PARAMETER_COUNT)
    heavy = np.flatnonzero(tens[:, 0] > 0.0)
    centres = np.column_stack([tens[heavy, 1:4] / tens[heavy, :1], np.ones(len(heavy))])
    last = ends(robot)
    points = []
    for position in shown:
        poses = body_poses(tree, position)
        tips = [(poses[b] @ [*place, 1.0])[:3] for b, place in last]
        masses = np.einsum("bij,bj->bi", poses[heavy], centres)[:, :3]
        points.append(np.vstack([np.zeros(3), poses[:, :3, 3], *tips, masses]))
    count = len(tree.names)
    lines = [(int(tree.parent[b]) + 1, b + 1) for b in range(count)]
    lines += [(b + 1, 1 + count + k) for k, (b, _) in enumerate(last)]
    share = np.cbrt(tens[heavy, 0] / tens[heavy, 0].max(initial=1e-300))
    first = 1 + count + len(last)
    masses = [(first + k, float(s)) for k, s in enumerate(share)]
    return Sticks(
        robot.name, frames, np.array(points), lines, masses, _view(robot), trace=first - 1
    )


def _view(robot: Robot) -> Array:
    """Return the picture's axes as rows: right, up, towards the reader.

    A motion in a plane is looked at from its side, with gravity downwards.
    """
    tree = robot.tree
    poses = body_poses(tree, np.zeros(len(robot.channels)))
    axes = np.einsum("bij,bj->bi", poses[:, :3, :3], tree.axis)[tree.kind != PRISMATIC]
    weight = np.linalg.norm(robot.gravity)
    up = -robot.gravity / weight if weight > 0.0 else np.array([0.0, 0.0, 1.0])
    planar = len(axes) > 0 and np.abs(np.cross(axes, axes[0])).max() < 1e-6
    return seen_from(axes[0] if planar and abs(axes[0] @ up) < 0.99 else ASIDE, up)


def seen_from(towards: Array, up: Array) -> Array:
    """Return the picture's axes as rows: right, up, towards the reader, shape (3, 3).

    Args:
        towards: Direction to the reader, shape (3,); its component along `up` is taken off.
        up: Unit vector, shape (3,).
    """
    towards = towards - (towards @ up) * up
    if np.linalg.norm(towards) < 1e-6:
        towards = np.cross(up, [0.0, 1.0, 0.0])
    towards = towards / np.linalg.norm(towards)
    return np.array([np.cross(up, towards), up, towards])
