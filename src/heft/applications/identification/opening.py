"""A robot and its logs as a problem, and settings with what the options file states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from heft.errors import InvalidRecording, InvalidSetting
from heft.estimators import (
    ESTIMATORS,
    KnownMass,
    Limits,
    MirrorImages,
    robust,
    unknown_controller,
)
from heft.files import planes, solid_box
from heft.models import Options, Robot, joint_lines
from heft.plants import Plant, Problem, RobotPlant, effort_signals, plant_of
from heft.recordings import Recording
from heft.signals import Weak
from heft.simulation import ClosedLoop

from .preparation import Progress, averaged, silent
from .settings import Settings


def open_experiment(
    robot: Robot,
    logs: Sequence[Recording],
    settings: Settings,
    progress: Progress = silent,
    whole: bool = True,
) -> tuple[Problem[RobotPlant], Settings]:
    """Return robot and logs as a problem, with the settings completed from the options file.

    Args:
        settings: Settings; the limits of masses and centres of mass that the robot's options state
            are added to them, and the steps that the method goes on by.
        whole: Whether all of the logs is fitted, not only what a selection keeps.

    Returns:
        The problem before any search, averaged if asked for, and the completed settings.

    Raises:
        InvalidRecording: If no log is given, or a torque signal is constant in all logs.
        MissingSignal: If the method simulates, and a log lacks the controller's references.
        InvalidSetting: If no joint's torque is measured, the method simulates and the options state
            no controller, they limit an unknown link, or outliers are to be found in rows that are
            filtered or of the weak form.
    """
    if not logs:
        raise InvalidRecording("no log is given", cure="name at least one log after the model file")
    if not len(robot.measured) and not robot.options.sensor:
        raise InvalidSetting(
            "no joint is left whose torque is measured",
            argument="[joint.NAME] measured, position",
            cure="leave one joint measured, and not held still",
        )
    method = ESTIMATORS[settings.method]
    if method.simulates:
        _refuse_unknown_controller(robot, logs, settings.method)
    if method.require:
        method.require(robot)
    if method.polish is not None:
        settings = replace(settings, consistent=replace(settings.consistent, polish=method.polish))
    if robot.options.limits:
        limits = limits_of(robot.options)
        limits.require_known(tuple(k.name for k in robot.bodies_links))
        settings = replace(settings, consistent=replace(settings.consistent, limits=limits))
    if known := _known_of(robot.options):
        settings = replace(settings, consistent=replace(settings.consistent, known=known))
        for each in known:
            _ = each.rows(plant_of(robot).space)  # links that are not there are refused now
    if settings.robust != "none" and (
        settings.rows == "weak" or settings.smoothing.torque == "filtered"
    ):
        robust.refuse_made_rows()
    progress(f"reading {len(logs)} log{'s' if len(logs) > 1 else ''}")
    plant = plant_of(robot, logs[0])
    weak = windows_for(plant, settings, whole)
    problem = Problem(plant, tuple(logs), settings.smoothing, settings.threads, weak=weak)
    _refuse_dead(problem)
    if settings.average:
        problem = averaged(problem)
    return problem, settings


def windows_for(plant: Plant[Any], settings: Settings, whole: bool = True) -> Weak | None:
    """Return the windows of the weak form, or None for differentiated rows.

    Rows of the weak form are the better ones of robots that a controller moves (`heft bench`).
    Where settings leave it open, differentiated rows are taken of what windows are not made for, or
    would be cut to pieces by: a selection, rows that are left out, contacts that come and go, an
    average over periods, which leaves little noise.

    Args:
        whole: Whether all of the logs is fitted, not only what a selection keeps.
    """
    return None if why_differentiated(plant, settings, whole) else settings.windows


def why_differentiated(plant: Plant[Any], settings: Settings, whole: bool = True) -> str | None:
    """Return why rows are not of the weak form, as the end of a sentence; None where they are.

    Args:
        whole: Whether all of the logs is fitted, not only what a selection keeps.
    """
    if settings.rows != "auto":
        return None if settings.rows == "weak" else "as was asked for"
    if not isinstance(plant, RobotPlant):
        return "since this is no robot that a controller moves"
    own = plant.robot.own_columns
    cases = (
        (plant.robot.tree.free_base, "since the base floats"),
        (not whole, "since a selection would cut windows to pieces"),
        (settings.average, "since an average over periods has little noise"),
        (settings.robust != "none", "since rows may be left out"),
        (settings.smoothing.torque != "raw", "since torque is filtered"),
        (
            not ESTIMATORS[settings.method].windows,
            f"since windows do not suit the method '{settings.method}'",
        ),
        (own is not None and own.accelerated, "since own columns depend on acceleration"),
    )
    return next((why for holds, why in cases if holds), None)


def limits_of(options: Options) -> Limits:
    """Return the limits on masses [kg] and where they are [m] that the options file states.

    Raises:
        InvalidSetting: If an ellipsoid or a hull is to be that of shapes, which are not looked up
            here; see `models.with_shapes`.
    """
    entries = (options.limits or {}).items()
    extents = {n: entry.ellipsoid for n, entry in entries if entry.ellipsoid is not None}
    hulls = {n: entry.hull for n, entry in entries if entry.hull is not None}
    return Limits(
        {name: entry.mass for name, entry in entries if entry.mass is not None},
        {name: entry.com for name, entry in entries if entry.com is not None},
        {name: solid_box(e, f"[limits.{name}], ellipsoid") for name, e in extents.items()},
        {name: planes(h, f"[limits.{name}], hull") for name, h in hulls.items()},
    )


def _known_of(options: Options) -> tuple[KnownMass | MirrorImages, ...]:
    masses = (KnownMass(k.links, k.mass, k.std) for k in options.known)
    images = (MirrorImages(m.left, m.right, m.axis, m.strength) for m in options.mirror)
    return (*masses, *images)


def _refuse_unknown_controller(robot: Robot, logs: Sequence[Recording], method: str) -> None:
    loop = ClosedLoop.of(robot)
    if loop is None:
        raise unknown_controller(method)
    for recording in logs:
        loop.require_references(recording)


def _refuse_dead(problem: Problem[RobotPlant]) -> None:
    """Raise `InvalidRecording` for a torque that never changes in any of the logs."""
    channels = problem.plant.robot.channels
    dead = {
        signal: channels[channel]
        for signal, channel, _ in effort_signals(problem.plant.robot, problem.recordings[0])
        if all(signal in t.constant for t in problem.timelines)
    }
    if dead:
        names = ", ".join(f"'{signal}'" for signal in dead)
        many = "signals {} never change: their sensors are dead, or they were"
        one = "signal {} never changes: its sensor is dead, or it was"
        raise InvalidRecording(
            f"the log's {(one if len(dead) == 1 else many).format(names)} not recorded",
            argument=problem.recordings[0].name,
            cure="what is not measured, say in the file of --with:\n"
            + joint_lines(dead.values(), "measured = false"),
        )
