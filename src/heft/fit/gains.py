"""Gains of drives: how unsure they are stated to be, and how they are found beside contacts.

With the base held a gain scales all that a channel measures, and the triangles of rows are scaled
once they are summed (`estimators.DriveGains`). Where unknown wrenches of contacts are eliminated,
rows are of all channels, and gains are columns of them (`plants.UnsureGainsPlant`). These are taken
about what drives gave by an earlier fit, so the rows are made some times: Gauss-Newton again, a
pass over the rows a step. What is stated of gains is information of a channel of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidSetting
from heft.estimators import ConsistentFit, Estimate, LeastSquares, Noise, inverse_root
from heft.information import Information
from heft.plants import (
    FloatingRobotPlant,
    Problem,
    RobotPlant,
    UnsureGains,
    UnsureGainsPlant,
    effort_signals,
    without_gains,
)

from .earlier import Bodies, Earlier, Origin, P
from .settings import Progress, Settings

STATED = "gains as stated"  # channel of what the options file says of gains


def gain_spread(problem: Problem[Any]) -> dict[str, Array]:
    """Return of each drive gain that is stated to be unsure a row of F; see `DriveGains.fit`."""
    plant = problem.plant
    if not isinstance(plant, RobotPlant):
        return {}
    robot = plant.robot
    deviations = {}
    for signal, channel, gain in effort_signals(robot, problem.recordings[0]):
        if signal.startswith("current."):
            stated = robot.options.of(robot.channels[channel]).gain_std
            if stated is not None:
                deviations[robot.channels[channel]] = stated / abs(gain)
    std, correlation = np.array(list(deviations.values())), np.eye(len(deviations))
    day, together = np.zeros(len(std)), robot.options.gains
    if together is not None:
        own = [k for k, j in enumerate(deviations) if j in together.joints]
        at = [together.joints.index(j) for j in deviations if j in together.joints]
        correlation[np.ix_(own, own)] = np.array(together.correlation)[np.ix_(at, at)]
        day[own] = together.other_day
    unsure = np.flatnonzero(std)  # what is known exactly is so on any day
    covariance = np.outer(std, std) * correlation + np.outer(day, day)
    rows = np.zeros_like(correlation)
    rows[np.ix_(unsure, unsure)] = np.linalg.cholesky(covariance[np.ix_(unsure, unsure)])
    return dict(zip(deviations, rows, strict=True))


def said_of_gains(problem: Problem[Any]) -> Iterator[str]:
    """Yield what is counted for the day on which gains were found, where there are such."""
    plant = problem.plant
    stated = plant.robot.options.gains if isinstance(plant, RobotPlant) else None
    if stated is not None and stated.other_day and gain_spread(problem):
        yield (
            f"gains were found on another day, and a factor of 1 ± {stated.other_day:g} common to "
            "all is counted for that; for logs of the same day say other_day = 0 in [gains]"
        )


def unsure_beside_contacts(problem: Problem[Any]) -> dict[str, Array]:
    """Return those of `gain_spread` that are columns, since contacts' wrenches are eliminated."""
    if not isinstance(problem.plant, FloatingRobotPlant) or not problem.has_unknowns:
        return {}
    return {joint: spread for joint, spread in gain_spread(problem).items() if spread.any()}


def gain_columns(problem: Problem[Any]) -> tuple[str, ...]:
    """Return the names of the columns of gains; none where gains are no columns."""
    plant = problem.plant
    return plant.gains.names if isinstance(plant, UnsureGainsPlant) else ()


def refuse_unlike_gains(
    problem: Problem[Any], settings: Settings, given: Earlier | Information | None
) -> None:
    """Raise `InvalidSetting` if gains are columns and the settings do not support such columns."""
    unsure = unsure_beside_contacts(problem)
    if not unsure:
        return
    if not isinstance(settings.estimator, LeastSquares) or settings.method == "ordinary":
        what, argument, got = "weighted least squares", "method", settings.method
    elif settings.robust != "none":
        what, argument, got = "fits of all rows", "robust", settings.robust
    elif given is not None:
        what, argument, got = "logs without earlier results", "--given", "earlier results"
    else:
        return
    raise InvalidSetting(
        f"beside contacts of unknown wrench gains of drives are found by {what} only: "
        + ", ".join(unsure),
        argument=argument,
        got=got,
        cure="leave that out, or find the gains first, state them and leave gain_std out",
    )


def refuse_gains_of_any_plant(problem: Problem[Any]) -> None:
    """Raise `InvalidSetting` if gains would be columns, which only `identify` can estimate."""
    if unsure := unsure_beside_contacts(problem):
        raise InvalidSetting(
            "beside contacts of unknown wrench gains of drives are found of robots: "
            + ", ".join(unsure),
            argument="[joint.NAME] gain_std",
            cure="take heft.identify, or leave gain_std out",
        )


def with_unsure_gains(
    problem: Problem[P], settings: Settings, progress: Progress
) -> tuple[Problem[P], Earlier | None]:
    """Return the problem with columns of gains beside contacts, and the stated gains.

    Noise is found anew once gains are near: what wrong ones left over was taken for noise.

    Args:
        problem: At the cutoff and delay that are chosen; returned as it is if no gain is a column.
    """
    spread = unsure_beside_contacts(problem)
    if not spread:
        return problem, None
    progress("finding gains of drives beside contacts")
    first = settings.least_squares.solve(problem.information(), (), problem.known_noise)
    unsure = _about(problem, dict.fromkeys(spread, 1.0), problem.base.spread(first.fitted))
    unsure = _settled(unsure, spread, settings)
    unsure = settings.variance_components.settled(unsure)
    memory = _memory(unsure, spread, settings)
    unsure = _settled(unsure, spread, settings, memory)
    return unsure, stated_gains(unsure, spread, memory)


def stated_gains(
    problem: Problem[Any], spread: Mapping[str, Array], memory: float = 1.0
) -> Earlier:
    """Return the stated gains as information about β, in a channel of its own.

    Least squares weigh rows by their deviation alone, as if each told something new. So that what
    is stated once counts as much against them as it is worth, it is given as long a memory.

    Args:
        spread: Rows of each gain as stated, by joint, as of `gain_spread` [1].
        memory: Integrated autocorrelation time of the logs' residuals [rows].
    """
    plant, labels, channels = problem.plant, problem.labels, problem.channels
    assert isinstance(plant, UnsureGainsPlant)
    rows = np.zeros((len(spread), len(labels) + 1))
    root = inverse_root([spread[joint] for joint in plant.gains.factors])
    rows[:, [labels.names.index(name) for name in plant.gains.names]] = root
    rows[:, -1] = root @ [1.0 - factor for factor in plant.gains.factors.values()]
    none = (np.zeros((0, len(labels))),) * len(channels)
    count = len(channels) + 1
    origin = Origin(
        problem.base.standard.names,
        problem.base.matrix,
        Bodies.of(plant.robot),
        tuple(d.name for d in plant.robot.drives),
        (*channels, STATED),
        np.append(np.ones(count - 1), 1.0 / np.sqrt(memory)),
        np.append(np.ones(count - 1), memory),
        (True,) * count,
    )
    return Earlier(
        Information.neutral(labels, channels).beside(STATED, rows),
        (*none, rows[:, :-1]),
        (*none, none[0]),
        (*none, none[0]),
        origin=origin,
    )


def with_found_gains(fit: ConsistentFit, problem: Problem[Any]) -> ConsistentFit:
    """Return a consistent fit with the gains that were estimated as columns."""
    plant = problem.plant
    if not isinstance(plant, UnsureGainsPlant):
        return fit
    parameters, gains, stds = fit.consistent.parameters, {}, {}
    for (joint, factor), name in zip(plant.gains.factors.items(), plant.gains.names, strict=True):
        k = parameters.labels.names.index(name)
        gains[joint] = factor + float(parameters.values[k])
        stds[joint] = float(parameters.std[k])
    ones, zeros = (dict.fromkeys(problem.channels, x) for x in (1.0, 0.0))
    return replace(fit, gains=ones | gains, std=zeros | stds)


def of_rows(estimate: Estimate) -> Estimate:
    """Return an estimate without the channel of stated gains: of the logs' rows alone."""
    information, noise = estimate.information, estimate.noise
    kept = [k for k, channel in enumerate(information.channels) if channel != STATED]
    if len(kept) == len(information.channels):
        return estimate

    def some(parts: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(parts[k] for k in kept)

    return replace(
        estimate,
        information=replace(
            information, channels=some(information.channels), triangles=some(information.triangles)
        ),
        noise=Noise(
            noise.sigma[kept],
            noise.autocorrelation_time[kept],
            noise.rows[kept],
            noise.coloured and some(noise.coloured),
            noise.common_errors and some(noise.common_errors),
        ),
    )


def plain_problem(problem: Problem[P]) -> Problem[P]:
    """Return the problem with gains as stated, without columns for them."""
    plant = problem.plant
    if not isinstance(plant, UnsureGainsPlant):
        return problem
    return problem.with_settings(plant=without_gains(plant))


def _about(problem: Problem[P], factors: Mapping[str, float], point: Array) -> Problem[P]:
    """Return the problem with columns of gains, linearised about factors and parameters π, (p,)."""
    plant = problem.plant
    assert isinstance(plant, FloatingRobotPlant)
    noise = problem.noise or (1.0,) * len(problem.channels)
    gains = UnsureGains(factors, point, noise)
    return problem.with_settings(plant=UnsureGainsPlant.of(plant, gains))


def _solved(problem: Problem[Any], stated: Earlier, settings: Settings) -> Estimate:
    """Return the least squares of rows and stated gains, with white noise."""
    information = problem.information().among(stated.information.channels)
    deviations = {**problem.known_noise, **stated.noise_of(problem.channels)[1]}
    return settings.least_squares.solve(information + stated.information, (), deviations)


def _memory(problem: Problem[Any], spread: Mapping[str, Array], settings: Settings) -> float:
    """Return the integrated autocorrelation time of residuals [rows], at least 1."""
    if not settings.least_squares.coloured:
        return 1.0
    stated = stated_gains(problem, spread)
    solution = _solved(problem, stated, settings)
    coloured = settings.least_squares.colour(problem, solution, None, stated.noise)
    return float(coloured.noise.autocorrelation_time[0])


def _settled(
    problem: Problem[P], spread: Mapping[str, Array], settings: Settings, memory: float = 1.0
) -> Problem[P]:
    """Return the problem linearised about gains that a further fit does not move."""
    for _ in range(8):  # further rows at most
        plant = problem.plant
        assert isinstance(plant, UnsureGainsPlant)
        solution = _solved(problem, stated_gains(problem, spread, memory), settings)
        values = problem.base.spread(solution.fitted)
        steps = dict(zip(plant.gains.factors, values[plant.plain :].tolist(), strict=True))
        factors = {joint: c + steps[joint] for joint, c in plant.gains.factors.items()}
        problem = _about(problem, factors, values[: plant.plain])
        # Up to that share of its stated deviation a gain may still move.
        if all(abs(step) < 1e-3 * np.linalg.norm(spread[j]) for j, step in steps.items()):
            break
    return problem
