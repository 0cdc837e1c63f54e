"""Preparation of an experiment before its information is accumulated.

Averaging over the periods of the motion, cutoff frequency of the smoothing, delay of the torque,
and outliers. Each function takes a problem and returns one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from heft import signals
from heft.arrays import Array
from heft.certainty import DelayFound
from heft.estimators import robust, robust_methods
from heft.information import Information, Summed
from heft.plants import Plant, Problem
from heft.recordings import Recording
from heft.signals import periodic

from .earlier import Earlier
from .selection import Selection
from .settings import Settings

P = TypeVar("P", bound="Plant[Any]")
Progress = Callable[[str], None]
ROWS_PER_COLUMN = 2.0  # of windows, at least: the noise is told from what rows leave over


def silent(_: str) -> None:
    """Ignore a progress message."""


def noise_of(problem: Problem[Any]) -> tuple[tuple[str, ...], Mapping[str, float]]:
    """Return names of the channels' standard deviations, none if all are known, and those known."""
    known = problem.known_noise
    return () if known else problem.noise_names, known


def first_sum(
    problem: Problem[Any],
    information: Information,
    settings: Settings,
    stated: Earlier | None = None,
) -> Summed:
    """Return the weighted sum of the channels, for the first fit, which rows are linearised about.

    Args:
        stated: Stated gains, in a channel of their own; None if there are none.
    """
    names, known = noise_of(problem)
    if stated is not None:
        information = information.among(stated.information.channels) + stated.information
        names, known = (), {**known, **stated.noise_of(problem.channels)[1]}
    sigma = settings.least_squares.spread(information, names, known)
    return information.summed(dict(zip(information.channels, 1.0 / sigma, strict=True)))


def about_first_fit(
    problem: Problem[P], settings: Settings, stated: Earlier | None = None
) -> Problem[P]:
    """Return the problem linearised about a first fit, which gives the load of the gears.

    Args:
        problem: Returned as it is where no row depends on values of the parameters.
        settings: Of the first fit, which is a quick look: of some of the rows, differentiated.
        stated: Stated gains, in a channel of their own; None if there are none.
    """
    if not len(problem.plant.point_columns):
        return problem
    quick = problem.blurred(1.0).shortened(settings.delay_search.rows)
    total = first_sum(problem, quick.information(), settings, stated)
    return problem.about(settings.consistent.values(total, problem.space))


def sharpened_and_delayed(
    problem: Problem[P], settings: Settings, progress: Progress
) -> tuple[Problem[P], DelayFound]:
    """Return the problem at the cutoff frequency and torque delay that the residuals support.

    What the settings state is left as it is; only what they leave open is searched for.
    Noisy and oversmoothed motion both hide a delay, so that the cutoff is searched for first; once
    more if a delay was taken, which had spoilt the residuals at all cutoffs. Friction that grows
    with the load of a gear looks like a delay, another one in each joint, where no column has it:
    so the delay is sought with that friction, loaded as a first fit without a delay says.

    Args:
        problem: Problem with the cutoff frequency of the motion's band.
        settings: What they state of the smoothing, the searches for the rest, and the first fit.

    Returns:
        The problem at the chosen cutoff and delay, and the result of the delay search [s].
    """
    asked = settings.smoothing
    bandwidth, delay = settings.bandwidth_search, settings.delay_search
    searched = asked.corner is None and problem.resolved.method == "butterworth"
    # Rows of the weak form and filtered rows are others at each cutoff, so that their residuals do
    # not compare.
    told = problem.with_settings(plant=problem.plant.sensed_alone())
    plain, factor = told.blurred(1.0), 1.0
    if searched:
        progress("choosing the cutoff frequency")
        factor = bandwidth.fit(plain)
    found = DelayFound(problem.delay, problem.delay, 1.0, 0.0)
    if asked.delay is None:
        progress("estimating the delay of the torque")
        found = delay.fit(about_first_fit(plain, settings))
    problem = problem.delayed(found.delay)
    if searched and asked.delay is None and found.delay:
        known = (plain.sharpened(factor) or plain).delayed(found.delay)
        factor *= bandwidth.refine(known)
    problem = problem.sharpened(factor) or problem
    return problem, found


def with_enough_rows(problem: Problem[P]) -> Problem[P]:
    """Return the problem with differentiated rows where a log is too short for windows.

    Args:
        problem: At the cutoff that is chosen, which windows follow.
    """
    rows = problem.window_count * len(problem.channels)
    if problem.weak is not None and rows < ROWS_PER_COLUMN * len(problem.labels):
        return problem.with_settings(weak=None)
    return problem


def averaged(problem: Problem[P]) -> Problem[P]:
    """Return a problem whose logs are the mean over the periods of their motion.

    Use it for periodic excitation. Each mean period is repeated three times and only the middle one
    is fitted, so that the smoothing has no edge effects.

    Args:
        problem: Problem whose logs repeat one motion.

    Returns:
        The problem with one averaged recording for each log.

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
        found = periodic.average_periods(time, values, period)
        count = len(found.time)
        made: dict[str, dict[str, Array]] = {}
        for column, name in enumerate(names):
            kind, _, joint = name.partition(".")
            made.setdefault(kind, {})[joint] = np.tile(found.mean[:, column], 3)
        clock = found.time[0] + period / count * np.arange(3 * count)
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
        settings: Its `variance_components` are used.
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

    Args:
        problem: Problem of the whole logs.
        selection: What is kept; all if None.

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
    """Return the problem without the rows that a robust fit classifies as outliers.

    Args:
        method: Name of a robust estimator, or `none` to keep all rows.

    Returns:
        The problem with those rows deselected, and the number of rows removed by log.
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
