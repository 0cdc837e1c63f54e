"""A robot and its logs as a problem, prepared before its information is accumulated.

Settings are completed by what the options file states. Logs are averaged over the periods of their
motion; cutoff frequency of the smoothing, delay of the torque and outliers are found. Each of these
functions takes a problem and returns one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft import signals
from heft.arrays import Array
from heft.certainty import DelayFound
from heft.errors import InvalidRecording, InvalidSetting
from heft.estimators import (
    ESTIMATORS,
    KnownMass,
    Limits,
    MirrorImages,
    robust,
    robust_methods,
    unknown_controller,
)
from heft.files import planes, solid_box
from heft.information import Information, Summed
from heft.models import Options, Robot, joint_lines
from heft.plants import Plant, Problem, RobotPlant, effort_signals, plant_of
from heft.recordings import Recording
from heft.signals import Weak, periodic
from heft.simulation import ClosedLoop

from .earlier import Earlier, P
from .selection import Selection
from .settings import Progress, Settings, silent


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
    if knowledge := _known_of(robot.options):
        settings = replace(settings, consistent=replace(settings.consistent, known=knowledge))
        for each in knowledge:
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


def with_told_friction(robot: Robot, given: Earlier | Information | None = None) -> Robot:
    """Return a robot whose friction is simple if its base floats, none if no torque is used.

    The dictionary has more columns than a humanoid's log can tell: where the base floats it is
    taken of joints of which it is asked for. Wrench sensors see nothing of drives, unless torques
    of earlier logs tell them.
    """
    options = {j: robot.options.of(j) for j in robot.joints}
    if robot.options.equations == "sensors" and not _tells_drives(given):
        none = {j: replace(o, friction="none", armature=False) for j, o in options.items()}
        return robot.with_joints(none)
    if not robot.tree.free_base:
        return robot
    open_to = {j: o for j, o in options.items() if o.friction is None}
    return robot.with_joints({j: replace(o, friction="simple") for j, o in open_to.items()})


def _tells_drives(given: Earlier | Information | None) -> bool:
    if not isinstance(given, Earlier) or given.origin is None:
        return False
    shown = np.any(given.origin.matrix != 0.0, axis=0)
    drives = given.origin.drives
    return any(
        seen and name.rpartition(".")[0] in drives
        for name, seen in zip(given.origin.names, shown, strict=True)
    )


def windows_for(plant: Plant[Any], settings: Settings, whole: bool = True) -> Weak | None:
    """Return the windows of the weak form, or None for differentiated rows.

    Rows of the weak form are the better ones of robots that a controller moves (`heft bench`).
    Where settings leave it open, differentiated rows are taken of what windows are not made for, or
    would be cut to pieces by: a selection, rows that are left out, contacts that come and go, an
    average over periods, which leaves little noise.
    """
    return None if why_differentiated(plant, settings, whole) else settings.windows


def why_differentiated(plant: Plant[Any], settings: Settings, whole: bool = True) -> str | None:
    """Return why rows are not of the weak form, as the end of a sentence; None where they are.

    Args:
        whole: Whether all of the logs is fitted, not only what a selection keeps.
    """
    if settings.rows != "auto":
        return None if settings.rows == "weak" else "as was asked for"
    robot = plant.robot if isinstance(plant, RobotPlant) else None
    own = None if robot is None else robot.own_columns
    cases = (
        (bool(plant.differentiated), plant.differentiated),
        (robot is not None and robot.tree.free_base, "since the base floats"),
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


def noise_of(problem: Problem[Any]) -> tuple[tuple[str, ...], Mapping[str, float]]:
    """Return names of the channels' standard deviations, none if all are known, and those known."""
    deviations = problem.known_noise
    return () if deviations else problem.noise_names, deviations


def first_sum(
    problem: Problem[Any],
    information: Information,
    settings: Settings,
    stated: Earlier | None = None,
) -> Summed:
    """Return the weighted sum of the channels, for the first fit."""
    names, deviations = noise_of(problem)
    if stated is not None:
        information = information.among(stated.information.channels) + stated.information
        names, deviations = (), {**deviations, **stated.noise_of(problem.channels)[1]}
    sigma = settings.least_squares.spread(information, names, deviations)
    return information.summed(dict(zip(information.channels, 1.0 / sigma, strict=True)))


def first_fit(
    problem: Problem[P], settings: Settings, stated: Earlier | None = None
) -> Array | None:
    """Return parameters x of a first fit, shape (n,), which gives the load of the gears.

    Args:
        problem: None is returned where no row of it depends on values of the parameters.
        settings: Of the fit, which is a quick look: of some of the rows, differentiated.
    """
    if not len(problem.plant.point_columns):
        return None
    quick = problem.blurred(1.0).shortened(settings.delay_search.rows)
    total = first_sum(problem, quick.information(), settings, stated)
    return settings.consistent.values(total, problem.space)


def sharpened_and_delayed(
    problem: Problem[P], settings: Settings, progress: Progress
) -> tuple[Problem[P], DelayFound, Array | None]:
    """Return the problem at the cutoff and delay that residuals support, and the delay's search.

    Last comes `first_fit` of the problem, if the search made it.

    What the settings state is left as it is; only what they leave open is searched for.
    Noisy and oversmoothed motion both hide a delay, so that the cutoff is searched for first; once
    more if a delay was taken, which had spoilt the residuals at all cutoffs. Friction that grows
    with the load of a gear looks like a delay, another one in each joint, where no column has it:
    so the delay is sought with that friction, loaded as a first fit without a delay says.
    """
    asked = settings.smoothing
    bandwidth, delay = settings.bandwidth_search, settings.delay_search
    searched = asked.corner is None and problem.resolved.method == "butterworth"
    # Rows of the weak form and filtered rows are others at each cutoff, so that their residuals do
    # not compare.
    measured = problem.with_settings(plant=problem.plant.sensed_alone())
    lag = DelayFound(problem.delay, problem.delay, 1.0, 0.0)
    if not searched and asked.delay is not None:
        return problem.sharpened(1.0) or problem, lag, None
    plain, factor, point = measured.blurred(1.0).shortened(delay.rows), 1.0, None
    if searched:
        progress("choosing the cutoff frequency")
        factor = bandwidth.fit(plain)
    if asked.delay is None:
        progress("estimating the delay of the torque")
        point = first_fit(measured.sharpened(factor) or measured, settings)
        lag = delay.fit(plain.about(point))
    problem = problem.delayed(lag.delay)
    if searched and asked.delay is None and lag.delay:
        delayed = (plain.sharpened(factor) or plain).delayed(lag.delay)
        factor *= bandwidth.refine(delayed)
    if lag.delay or measured.plant is not problem.plant:
        point = None
    return problem.sharpened(factor) or problem, lag, point


def with_enough_rows(problem: Problem[P]) -> Problem[P]:
    """Return the problem with differentiated rows where a log is too short for windows."""
    rows = problem.window_count * len(problem.channels)
    # Fewer rows leave nothing over from which noise could be seen.
    if problem.weak is not None and rows < 2.0 * len(problem.labels):
        return problem.with_settings(weak=None)
    return problem


def averaged(problem: Problem[P]) -> Problem[P]:
    """Return a problem of which each log is the mean over the periods of its motion.

    Use it for periodic excitation. Each mean period is repeated three times and only the middle one
    is fitted, so that the smoothing has no edge effects.

    Raises:
        InvalidSetting: If a motion is not periodic.
    """
    recordings = []
    for recording, timeline in zip(problem.recordings, problem.timelines, strict=True):
        inputs = problem.plant.inputs(recording)
        names = inputs.names
        parts = list(signals.windows(recording, names, timeline.step, 0.0))
        time = np.concatenate([w.time for w in parts])
        values = np.concatenate([w.values for w in parts])
        moving = len(inputs.motion)
        period = problem.smoothing.period or periodic.find_period(time, values[:, :moving])
        average = periodic.average_periods(time, values, period)
        count = len(average.time)
        made: dict[str, dict[str, Array]] = {}
        for column, name in enumerate(names):
            kind, _, joint = name.partition(".")
            made.setdefault(kind, {})[joint] = np.tile(average.mean[:, column], 3)
        clock = average.time[0] + period / count * np.arange(3 * count)
        tiled = Recording.from_arrays(clock, recording.name, **made)
        recordings.append(
            tiled.selecting(lambda rows, n=count: (rows >= n) & (rows < 2 * n))  # type: ignore[misc]
        )
    smoothing = replace(problem.resolved, trim=0.0)
    if problem.smoothing.corner is None:
        smoothing = replace(smoothing, corner=None)
    return Problem(problem.plant, tuple(recordings), smoothing, problem.threads, weak=problem.weak)


def weighed(problem: Problem[P], settings: Settings, progress: Progress) -> Problem[P]:
    """Return the problem with unknowns of each sample eliminated by the channels' estimated noise.

    Args:
        problem: At the cutoff and delay that are chosen; returned as it is without unknowns.
    """
    if not problem.has_unknowns:
        return problem
    progress("finding the noise of what is measured, whatever the contacts' wrenches")
    return settings.variance_components.settled(problem.thinned())


def only_selected(
    problem: Problem[P], selection: Selection | None, progress: Progress
) -> Problem[P]:
    """Return the problem with what a selection keeps of its logs.

    What is left out still smooths the motion, and has had its say about cutoff and delay.

    Raises:
        InvalidSetting: If the selection is of other logs.
    """
    if selection is None:
        return problem
    before = sum(t.used for t in problem.timelines)
    chosen = problem.with_settings(recordings=selection.of(problem.recordings))
    progress(f"{sum(len(s.time) for s in chosen.samples())} of {before} rows are selected")
    return chosen


def without_outliers(
    problem: Problem[P], method: str, progress: Progress
) -> tuple[Problem[P], dict[str, int]]:
    """Return the problem without the outliers of a robust fit, and their number by log.

    Args:
        method: Name of a robust estimator, or `none` to keep all rows.
    """
    if method == "none":
        return problem, {}
    progress(f"searching for outliers ({method})")
    estimate = robust_methods()[method]().fit(problem)
    values = estimate.fitted
    masks = [np.ones(t.rows, dtype=bool) for t in problem.timelines]
    # Smoothing smears a push over about a period of its corner.
    widen = round(0.5 / (problem.corner * min(t.step for t in problem.timelines)))
    for place, index, good in robust.good_rows(problem, values, widen=widen):
        masks[place][index] = good
    recordings = []
    for recording, mask in zip(problem.recordings, masks, strict=True):
        before = recording.selection

        def kept(
            rows: NDArray[np.int64],
            mask: NDArray[np.bool_] = mask,
            before: Callable[[NDArray[np.int64]], NDArray[np.bool_]] | None = before,
        ) -> NDArray[np.bool_]:
            return mask[rows] if before is None else mask[rows] & before(rows)

        recordings.append(recording.selecting(kept))
    counts = {r.name: int(np.sum(~m)) for r, m in zip(problem.recordings, masks, strict=True)}
    return problem.with_settings(recordings=tuple(recordings)), counts
