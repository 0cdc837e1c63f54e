"""Figures of an identification's report: friction, torque over time and frequency, the robot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from heft.display import Body, Plot, Scene, Series, Trace, bones, over_time, placed
from heft.dynamics import FRICTION, body_poses
from heft.estimators import stated_numbers
from heft.fit import NORMAL

from .entries import friction_curve
from .identification import Identification

DRAWN_LOGS = 4
DRAWN_POINTS = 300_000  # over all curves of a page; sixteen bytes each


def logs(result: Identification) -> list[dict[str, object]]:
    """Return the plots of each log that is drawn, those that the fit did not see first."""
    fitted = _fitted(result)
    traces = sorted(result.traces[:DRAWN_LOGS], key=lambda trace: trace.path in fitted)
    return [
        {
            "name": Path(trace.path).name,
            "role": "fitted" if trace.path in fitted else "held out",
            "torque": _plots_of_torque(result, number, trace),
            "spectra": spectra(
                trace, {c.name: _unit(result, c.name) for c in trace.curves}, f"frequency {number}"
            ),
        }
        for number, trace in enumerate(traces)
    ]


def plots_of_friction(result: Identification) -> Iterator[Plot]:
    """Yield friction over velocity of each drive: data, full model with 95 % band, simple model."""
    simple = result.friction["simple"]
    fitted = _fitted(result)
    for drive in result.problem.plant.robot.drives:
        if not drive.friction:
            continue
        data = [
            s for t in result.traces if t.path in fitted for s in t.sliding if s.name == drive.name
        ]
        top = max((abs(end) for s in data for end in s.fastest), default=None)
        curve = friction_curve(result, drive, top)
        velocity, effort, std = (np.array(curve[n]) for n in ("velocity", "effort", "std"))
        plain = sum(
            (
                simple.get(f"{drive.name}.{t.name}", 0.0) * t.steady(velocity)
                for t in FRICTION["simple"]
            ),
            np.zeros(len(velocity)),
        )
        reach = NORMAL * std
        series = [
            Series("data", "data", s.velocity, s.effort, "points")  # under everything else
            for s in data
        ]
        series += [
            Series("95 %", "predicted", velocity, effort + reach, "band", low=effort - reach),
            Series("simple", "simple", velocity, plain, "dashed"),
            Series("full", "predicted", velocity, effort),
        ]
        speed, unit = ("m/s", "N") if drive.linear else ("rad/s", "N·m")
        yield Plot(
            drive.name,
            f"speed [{speed}]",
            tuple(series),
            f"friction {drive.name}",
            f"friction [{unit}]",
        )


def _plots_of_torque(result: Identification, number: int, trace: Trace) -> Iterator[Plot]:
    drawn = min(len(result.traces), DRAWN_LOGS) * len(trace.curves)
    for c, curve in enumerate(trace.curves):
        unit = _unit(result, curve.name)
        title = f"{curve.name}: rms error {_rms_error(trace, c, unit)}"
        label = f"{'force' if unit == 'N' else 'torque'} [{unit}]"
        shown, start = curve.thinned(DRAWN_POINTS // drawn), float(trace.curves[0].time[0])
        yield over_time(shown, start, title, f"time {number}", label)


def _rms_error(trace: Trace, channel: int, unit: str) -> str:
    residual, measured = float(trace.rms_residual[channel]), float(trace.rms_measured[channel])
    share = f" ({residual / measured:.1%})" if measured > 0.0 else ""
    return f"{residual:.3g} {unit}{share}"


def spectra(trace: Trace, units: Mapping[str, str], group: str, prefix: str = "") -> Iterator[Plot]:
    """Yield the spectra of what was measured and left over, by channel.

    Args:
        units: Of the channels, by name.
    """
    for c, curve in enumerate(trace.curves):
        series = (
            Series("measured", "measured", trace.frequency, trace.measured[:, c]),
            Series("residual", "residual", trace.frequency, trace.residual[:, c]),
        )
        title = f"{prefix}{curve.name} [({units[curve.name]})²/Hz]"
        yield Plot(title, "frequency [Hz]", series, group, log_x=True, log_y=True)


def scene(result: Identification) -> Scene:
    """Return the robot as a log found it, with the links' inertia before and after."""
    robot = result.problem.plant.robot
    pose = result.traces[0].pose if result.traces else np.zeros(len(robot.channels))
    poses = body_poses(robot.tree, pose)
    bodies = []
    for k, link in enumerate(robot.bodies_links):
        seen = stated_numbers(result.consistent, 10 * k)["mass"].share
        for role, ten in (("before", link.written), ("after", result.tens[link.name])):
            if role == "before" and not link.given:
                continue
            shape = placed(link, poses, ten)
            if shape is not None:
                bodies.append(Body(link.name, role, *shape, seen))  # type: ignore[arg-type]
    return Scene(f"{robot.name}, masses before and after", bones(robot, pose), tuple(bodies))


def _unit(result: Identification, channel: str) -> str:
    linear = {d.name for d in result.problem.plant.robot.drives if d.linear}
    return "N" if channel in linear else "N·m"


def _fitted(result: Identification) -> set[str]:
    return {r.name for r in result.problem.recordings}
