"""A motion as a moving stick figure: one text for a page or a notebook, which loads nothing.

Lines take the page's own colour of text, and so follow its light or dark, whatever decides it.
"""

from __future__ import annotations

import hashlib
import json
from typing import Protocol

import numpy as np

from heft.arrays import Array
from heft.dynamics import PRISMATIC, body_poses
from heft.errors import InvalidSetting
from heft.information import PARAMETER_COUNT
from heft.models import Robot

from .scene import ASIDE, Sticks, ends, seen_from
from .templates import JSON, render

FRAMES_PER_SECOND = 40.0


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
    return render("display/animation_figure.html.jinja", **_shown(sticks(robot, motion), title))


def page(robot: Robot, motion: Played, title: str = "") -> str:
    """Return a motion as a whole page, which opens offline; arguments and errors as of `figure`."""
    return render("display/animation_page.html.jinja", **_shown(sticks(robot, motion), title))


def _shown(drawn: Sticks, title: str) -> dict[str, object]:
    """Return what the templates show: `name`, `caption`, `title`, `end` and `motion`."""
    content = drawn.content
    # Of what it shows, so that several figures in one notebook do not share a name.
    text = json.dumps(content, **JSON) + title
    return {
        "name": "motion-" + hashlib.sha256(text.encode()).hexdigest()[:12],
        "caption": title,
        "title": title or drawn.title,
        "end": f"{drawn.time[-1]:.3f}",
        "motion": content,
    }


def sticks(robot: Robot, motion: Played) -> Sticks:
    """Return a motion as lines between joints and masses at their links, to be played by a page.

    Raises:
        InvalidSetting: If there is nothing to play.
    """
    if len(motion.time) < 2:
        raise InvalidSetting(
            "a motion of one sample cannot be played", argument="motion", got=len(motion.time)
        )
    tree, time = robot.tree, motion.time - motion.time[0]
    frames = np.linspace(0.0, time[-1], max(round(FRAMES_PER_SECOND * time[-1]), 1) + 1)
    shown = np.stack([np.interp(frames, time, x) for x in motion.position.T], axis=1)
    poses = body_poses(tree, shown)
    tens = robot.written_bodies().reshape(-1, PARAMETER_COUNT)
    heavy = np.flatnonzero(tens[:, 0] > 0.0)
    # the origin and the joints, then the ends, then the masses
    joints = np.pad(poses[:, :, :3, 3], ((0, 0), (1, 0), (0, 0)))
    last = ends(robot)
    places = [*last, *((b, tens[b, 1:4] / tens[b, 0]) for b in heavy.tolist())]
    others = [poses[:, b, :3] @ [*place, 1.0] for b, place in places]
    lines = [(int(above) + 1, b) for b, above in enumerate(tree.parent, 1)]
    lines += [(b + 1, joints.shape[1] + k) for k, (b, _) in enumerate(last)]
    share = np.cbrt(tens[heavy, 0] / tens[heavy, 0].max(initial=1e-300))
    first = joints.shape[1] + len(last)
    masses = [(first + k, float(s)) for k, s in enumerate(share)]
    points = np.stack([*np.moveaxis(joints, 1, 0), *others], axis=1)
    return Sticks(robot.name, frames, points, lines, masses, _view(robot), trace=first - 1)


def _view(robot: Robot) -> Array:
    """Return the picture's axes as rows: right, up, towards the reader.

    A motion in a plane is looked at from its side, with gravity downwards.
    """
    tree = robot.tree
    poses = body_poses(tree, np.zeros(len(robot.channels)))
    axes = np.einsum("bij,bj->bi", poses[:, :3, :3], tree.axis)[tree.kind != PRISMATIC]
    planar = len(axes) > 0 and np.abs(np.cross(axes, axes[0])).max() < 1e-6
    return seen_from(axes[0] if planar else ASIDE, robot.gravity)
