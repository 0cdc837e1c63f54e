"""Page of a load: its mass, where its centre is, what it explains, and the lines to paste."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from heft.arrays import Array
from heft.display import (
    Body,
    Curve,
    Plot,
    Series,
    Sticks,
    Table,
    Trace,
    bones,
    ellipsoid,
    over_time,
    placed,
    render,
    rounded,
    solids,
    verdict,
)
from heft.dynamics import body_poses
from heft.fit import plant_scores, with_gains
from heft.models import Robot
from heft.plants import CHANNEL_UNITS, CHANNELS

from .by_torques import Carried
from .estimate import Weighed
from .payload import NAMES, UNITS, Payload, settings, withheld

DRAWN_POINTS = 100_000  # over all curves of a page


def html(payload: Payload) -> str:
    """Return the page, which loads nothing from elsewhere."""
    source, why = payload.source, withheld(payload)
    picture, plots, sentence = None, list[Plot](), ""
    if isinstance(source, Carried):
        picture, plots, sentence = _of_joints(source)
    elif source is not None:
        picture, plots, sentence = _of_sensor(payload, source)
    numbers = [
        [name.removeprefix("payload."), rounded(value, std), f"{std:.2g}", unit]
        for name, value, std, unit in zip(NAMES, payload.body, payload.std, UNITS, strict=True)
        if np.isfinite(value)
    ]
    numbers += [
        [f"gain of {j}", rounded(*g), f"{g[1]:.2g}", "N·m/A"] for j, g in payload.gains.items()
    ]
    return render(
        "applications/payload/report.html.jinja",
        title=f"Load in {payload.frame}",
        mass=rounded(payload.mass, payload.mass_std),
        mass_std=f"{payload.mass_std:.2g}",
        centre=f"({', '.join(map(rounded, payload.com, payload.com_std))}) m",
        sentence=sentence,
        verdict=payload.verdict,
        **verdict.for_page(payload.checks),
        withheld=_withheld(payload, why),
        numbers=Table(
            f"In frame {payload.frame}, inertia about the centre of mass",
            ("", "value", "±", "unit"),
            numbers,
        ),
        picture=picture,
        frame=payload.frame,
        settings=() if why else tuple(settings(payload)),
        why=why,
        notes=[f"{n.name}: {n.message}" for n in payload.notes],
        plots=plots,
        beside=[("before", "robot without the load (dashed)")] * isinstance(source, Carried),
        files=Table(
            "Files",
            ("role", "file", "SHA-256"),
            [[str(i["role"]), str(i["path"]), str(i["sha256"])] for i in payload.inputs],
        ),
        kind=payload.settings.get("kind", "live weighing"),
    )


def _withheld(payload: Payload, why: str | None) -> list[str]:
    """Return what is not stated, and why, as sentences."""
    failed = ", ".join(c.name for c in payload.checks if c.status == "fail")
    sentences = (
        [f"the lines to paste, since {why}{f' ({failed})' if failed else ''}."] if why else []
    )
    unseen = [
        n.removeprefix("payload.") for n, x in zip(NAMES, payload.body, strict=True) if x != x
    ]
    if unseen:
        sentences.append(f"{', '.join(unseen)}: this motion does not show them.")
    if unseen and not why:
        sentences.append("In the lines to paste the load is a point.")
    return sentences


def _of_joints(carried: Carried) -> tuple[Sticks, list[Plot], str]:
    """Return the robot with its load, torques with and without it, and what it explains."""
    problem = with_gains(carried.loaded.problem, carried.calibrated.gains)
    robot, base = problem.plant.robot, problem.base
    with_load, without = list[Trace](), list[Trace]()
    errors = [
        plant_scores(problem, base.spread(values), problem.corner, traces).list
        for values, traces in ((carried.alone, without), (carried.loaded_base, with_load))
    ]
    before, after = ([s for s in scores if s.counts] for scores in errors)
    worst = max(range(len(after)), key=lambda k: after[k].total)
    sentence = (
        f"On {Path(after[worst].path).name} the robot without a load misses "
        f"{100.0 * before[worst].total:.2g} % of the torque, with this one "
        f"{100.0 * after[worst].total:.2g} %."
    )
    channels = problem.plant.channels
    points = DRAWN_POINTS // max(sum(len(t.curves) for t in with_load), 1)
    plots = [
        _beside(loaded.thinned(points), alone.thinned(points), channels[c].unit, trace.path)
        for trace, other in zip(with_load, without, strict=True)
        for c, (loaded, alone) in enumerate(zip(trace.curves, other.curves, strict=True))
    ]
    first = next(iter(problem.samples()))
    return _holding(robot, first.motion.position[:, 0], carried), plots, sentence


def _beside(loaded: Curve, alone: Curve, unit: str, log: str) -> Plot:
    time = alone.time - alone.time[0]
    other = Series("without the load", "before", time, alone.predicted, "dashed")
    return over_time(loaded, loaded.name, f"time {log}", unit, other)


def _holding(robot: Robot, pose: Array, carried: Carried) -> Sticks:
    """Return the robot as a log found it, with the model file's links and the load."""
    poses = body_poses(robot.tree, pose)
    carriers = [link for link in robot.links if link.name == carried.frame]
    loads = [b for link in carriers for b in placed(link, poses, carried.ten, "after", "load")]
    given = [link for link in robot.links if link.given and link.body >= 0]
    bodies = [b for link in given for b in placed(link, poses, link.written, "before")]
    lines = [*bones(robot, poses)]
    for link, load in zip(carriers, loads, strict=False):
        # seen where there is next to no inertia, too
        begin = poses[link.body] @ [*link.translation, 1.0]
        lines.append(np.concatenate([begin[:3], load.centre]))
    return solids(f"The load at {carried.frame}", np.array(lines), [*bodies, *loads])


def _of_sensor(payload: Payload, load: Weighed) -> tuple[Sticks | None, list[Plot], str]:
    """Return the load at its sensor, wrenches measured and predicted, and what is left over."""
    _, wrench, time = load.windows
    predicted = wrench - load.residuals
    force, moment = (f"{100.0 * share:.2g} %" for share in load.left)
    sentence = f"Of the force's variation {force} is not explained, of the moment's {moment}."
    plots = [
        over_time(
            Curve(name, time, wrench[:, k], predicted[:, k]).thinned(DRAWN_POINTS // len(CHANNELS)),
            name,
            "time",
            CHANNEL_UNITS[k],
        )
        for k, name in enumerate(CHANNELS)
    ]
    shape = ellipsoid(payload.ten) if payload.whole else None
    if not np.isfinite(payload.com).all():
        return None, plots, sentence
    lines = [[*np.zeros(3), *payload.com]]
    bodies = () if shape is None else (Body("load", "after", *shape),)
    return (
        solids(f"The centre of mass from {payload.frame}", np.array(lines), bodies),
        plots,
        sentence,
    )
