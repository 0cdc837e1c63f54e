"""Teams as real sensors read them: untared wrists, slow motion, wrenches that lag.

    python -m benchmarks.teams [--seeds 20] [--development] [--store]

Sensors are MuJoCo's, with offsets, delays and noise of a manufacturer's sheet. Each group's
intervals of 95 % count, and deviations over the bound of Cramér and Rao with the same unknowns:
load, offsets with their prior, poses, and motion as splines with a knot every .2 s, which know
nothing of one another. What nodes find of windows as they come is compared with what is found of
the logs. Seeds from 1000 on are scored; constants were chosen on seeds below 100.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import BSpline, CubicSpline
from tests.network import SimulatedNetwork

from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_least, at_most
from heft.applications.cooperation import (
    ContactSignals,
    CooperativeMethod,
    CooperativeNode,
    TeamBelief,
    TeamFile,
    TeamRobot,
    results_of,
)
from heft.applications.cooperation.results import TOO_MUCH, identify_team
from heft.information import Graph, inertia, matrix_of_rotation_vector, skew
from heft.simulation import SimulatedTeam, Team, TeamMotion, TeamNoise

Array = NDArray[np.float64]
FIRST = 1000  # seed that is scored
NOISE = TeamNoise(0.02, 0.02, 0.1, 0.2, 0.02)
OFFSETS = (0.2, 5.0)  # of moment and force, the largest of each axis and the prior's deviation
KNOTS = 0.2  # between knots of the motion [s]
EVERY = 4  # sample that the bound takes, with as many times its weight
LASTS = 20.0  # a log [s]
SIZES = (2, 3, 5)  # robots of teams
MANY = 8  # robots of the largest whose nodes are compared with its logs
AS_LATE = (
    0.02,
    0.0,
    0.012,
    0.005,
)  # by which wrenches are of the past, one robot after another [s]
GROUPS = {"mass": slice(0, 1), "centre": slice(1, 4), "inertia": slice(4, 10)}


@dataclass(frozen=True)
class Scored:
    """One team's error and deviations."""

    error: Array  # of mass, centre and inertia in the first robot's frame, shape (10,)
    std: Array  # as stated
    bound: Array | None  # of Cramér and Rao, where it was computed


def signals_of(team: SimulatedTeam) -> list[ContactSignals]:
    """Return what each robot's sensors read."""
    return [ContactSignals.of_columns(team.columns(k), "grasp") for k in range(team.count)]


def truth_of(team: SimulatedTeam) -> Array:
    """Return mass, centre and inertia about it in the first robot's frame, shape (10,)."""
    mass, com, about = team.bodies[0].seen_from(team.rotations[0], team.origins[0])
    return np.array([mass, *com, *about[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]])


def untared(read: Sequence[ContactSignals], seed: int) -> list[ContactSignals]:
    """Return signals whose wrenches have an offset each."""
    rng, (moment, force) = np.random.default_rng(seed), OFFSETS
    return [
        replace(
            own,
            force=own.force + rng.uniform(-force, force, 3),
            torque=own.torque + rng.uniform(-moment, moment, 3),
        )
        for own in read
    ]


def scored(
    team: SimulatedTeam, read: Sequence[ContactSignals], bounded: bool = True
) -> Scored | None:
    """Return the error of a team's load; None where it is not told or called poor."""
    offsets = {k: np.repeat(OFFSETS, 3) for k in range(team.count)}
    method = CooperativeMethod(every=1000, belief=TeamBelief(offsets=offsets))
    known = method.identify(read, Graph.ring(team.count)).known[-1]
    load = known.load(0)
    if load is None or load.std is None or np.sqrt(known.misfit) > TOO_MUCH:
        return None
    error = load.numbers - truth_of(team)
    return Scored(error, load.std, bound(team) if bounded else None)


def bound(team: SimulatedTeam) -> Array:
    """Return Cramér and Rao's bound of mass, centre and inertia, shape (10,)."""
    time, count = team.time[::EVERY], team.count
    knots = np.arange(-3, round((time[-1] - time[0]) / KNOTS) + 5) * KNOTS + time[0]
    basis = BSpline.design_matrix(time, knots, 3).toarray()
    slope = BSpline(knots, np.eye(basis.shape[1]), 3).derivative()(time)
    omega, specific = (team.exact[k][0][::EVERY] for k in ("omega", "acc"))
    velocity = team.exact["vel"][0][::EVERY]
    alpha = np.gradient(team.exact["omega"][0], team.time, axis=0)[::EVERY]
    wrenches = [np.hstack([team.exact[k][j][::EVERY] for k in ("torque", "force")])
                for j in range(count)]  # fmt: skip
    mass, com, about = team.bodies[0].seen_from(team.rotations[0], team.origins[0])
    values = inertia.from_body(mass, com, about)
    order = [3, 4, 5, 0, 1, 2]  # regressors are of force, then moment

    def regressor(s: Array, w: Array, a: Array) -> Array:
        return inertia.wrench_regressor(s, w, a)[:, order]

    def total(changes: Array) -> Array:
        """Return the total wrench at changed poses, shape (N, 6)."""
        found = np.zeros((len(time), 6))
        for j, (wrench, change) in enumerate(zip(wrenches, changes, strict=True)):
            R, t = team.pose(0, j)
            turned = R @ matrix_of_rotation_vector(change[:3])
            force = wrench[:, 3:] @ turned.T
            moment = wrench[:, :3] @ turned.T + np.cross(t + change[3:], force)
            found += np.hstack([moment, force])
        return found

    poses, small = 6 * (count - 1), 1e-6
    first = 16 + poses  # parameter of the motion: ω, v, s by axis
    size, wide = basis.shape[1], first + 9 * basis.shape[1]
    information = np.zeros((wide, wide))

    def add(rows: Array, covariance: Array) -> None:
        """Add rows, shape (N, k, wide), with noise of that covariance."""
        white = np.linalg.inv(np.linalg.cholesky(covariance)) @ rows
        flat = white.reshape(-1, wide)
        information[:] += EVERY * flat.T @ flat

    def moved(by: Array, of: int, shape: Array) -> Array:
        """Return columns of ω, v or s (0, 1, 2) that a matrix takes to rows, (N, k, wide)."""
        found = np.zeros((len(time), by.shape[-2], wide))
        for axis in range(3):
            at = first + (3 * of + axis) * size
            found[:, :, at : at + size] = by[..., axis, None] * shape[:, None, :]
        return found

    spread, prior = np.zeros((6, 6)), np.zeros((6, 6))
    for j in range(count):
        R, t = team.pose(0, j)
        lever = np.block([[R, skew(t) @ R], [np.zeros((3, 3)), R]])
        spread += lever @ np.diag(np.repeat([NOISE.torque, NOISE.force], 3) ** 2) @ lever.T
        prior += lever @ np.diag(np.repeat(OFFSETS, 3) ** 2) @ lever.T
        # what the sensors at contact j read, turned to the first frame: ω, v + ω × t and so on
        across, spin = skew(t), skew(omega)
        squares = np.array([(spin @ np.cross(e, t)[:, None])[..., 0] + np.cross(e, spin @ t)
                            for e in np.eye(3)])  # fmt: skip
        rows = [moved(np.eye(3), 0, basis),
                moved(np.eye(3), 1, basis) + moved(-across, 0, basis),
                moved(np.eye(3), 2, basis) + moved(-across, 0, slope)
                + moved(np.moveaxis(squares, 0, 2), 0, basis)]  # fmt: skip
        if j > 0:
            at = 16 + 6 * (j - 1)
            there = [omega, velocity + np.cross(omega, t),
                     specific + np.cross(alpha, t) + spin @ spin @ t]  # fmt: skip
            for row, read in zip(rows, there, strict=True):
                row[:, :, at : at + 3] = skew(read) @ R  # read turned back by R (1 + θ×)
            rows[1][:, :, at + 3 : at + 6] = spin
            rows[2][:, :, at + 3 : at + 6] = skew(alpha) + spin @ spin
        noises = (NOISE.angular_velocity, NOISE.velocity, NOISE.acceleration)
        for row, noise in zip(rows, noises, strict=True):
            add(row, noise**2 * np.eye(3))
    none, axes = np.zeros_like(omega), np.eye(3)[:, None] + np.zeros_like(omega)
    parts = [
        [regressor(none, omega + e, none) - regressor(none, omega, none) - regressor(none, e, none)
         for e in axes],
        [regressor(e, none, none) for e in axes],
        [regressor(none, none, e) for e in axes],
    ]  # fmt: skip
    by_omega, by_specific, by_alpha = (np.einsum("knip,p->nik", part, values) for part in parts)
    rows = moved(by_omega, 0, basis) + moved(by_specific, 2, basis) + moved(by_alpha, 0, slope)
    rows[:, :, :10] = regressor(specific, omega, alpha)
    rows[:, :, 10:16] = np.eye(6)
    for k in range(poses):
        change = np.zeros((2, count, 6))
        change[0].flat[6 + k], change[1].flat[6 + k] = small, -small
        rows[:, :, 16 + k] = -(total(change[0]) - total(change[1])) / (2.0 * small)
    add(rows, spread)
    information[10:16, 10:16] += np.linalg.inv(prior)
    used = np.flatnonzero(np.diag(information))  # splines within the log
    information = information[np.ix_(used, used)]
    scale = 1.0 / np.sqrt(np.diag(information))
    whole = np.linalg.inv(scale[:, None] * information * scale)
    whole = (scale[:, None] * whole * scale)[:10, :10]
    _, J = inertia.stated_body(values)
    return np.asarray(np.sqrt(np.diag(J @ whole @ J.T)))


def rows_of(name: str, found: Sequence[Scored | None], most: float | None) -> Iterator[Row]:
    """Yield coverage and deviations over the bound of teams, group by group."""
    told = [f for f in found if f is not None]
    against = f"{len(told)} of {len(found)} teams told"
    for group, own in GROUPS.items():
        inside = np.mean([np.abs(f.error[own]) < 1.96 * f.std[own] for f in told])
        yield at_least(f"{name}: coverage of {group}", float(inside), "", 0.9, against)
    for group, own in GROUPS.items():
        ratios = [f.std[own] / f.bound[own] for f in told if f.bound is not None]
        if ratios:
            ratio = float(np.sqrt(np.mean(np.square(ratios))))
            yield at_most(f"{name}: deviation of {group} over the bound", ratio, "", most)
            errors = [f.error[own] / f.bound[own] for f in told if f.bound is not None]
            yield Row(f"{name}: error of {group} over the bound",
                      float(np.sqrt(np.mean(np.square(errors)))), "")  # fmt: skip


def offsets(seeds: Sequence[int]) -> Iterator[Row]:
    """Yield what untared wrists leave of intervals and deviations, by size of teams."""
    for size in SIZES:
        found = []
        for seed in seeds:
            team = Team(size, duration=LASTS, changes=(), masses=(2.0,), noise=NOISE).run(seed)
            found.append(scored(team, untared(signals_of(team), seed)))
        yield from rows_of(f"{size} robots, offsets to 5 N and .2 N·m", found, 1.5)


def slow(seeds: Sequence[int]) -> Iterator[Row]:
    """Yield how many slow teams are answered, and how many surely wrong and not called poor."""
    motion, found, wrong = TeamMotion(0.15, 0.2, 5.0), [], 0
    for seed in seeds:
        size = SIZES[seed % len(SIZES)]
        team = Team(size, duration=LASTS, changes=(), masses=(2.0,), motion=motion, noise=NOISE)
        run = team.run(seed)
        score = scored(run, untared(signals_of(run), seed), bounded=False)
        found.append(score)
        wrong += score is not None and bool(np.abs(score.error / score.std).max() > 5.0)
    name = "slow teams (.15 m/s, .2 rad/s)"
    answered = float(np.mean([f is not None for f in found]))
    yield at_least(f"{name}: answered", answered, "", 0.9, f"{len(found)} teams of {SIZES} robots")
    yield at_most(f"{name}: more than 5 deviations wrong, not called poor", wrong, "", 0)
    yield from rows_of(name, found, None)


def late(team: SimulatedTeam, read: Sequence[ContactSignals]) -> list[ContactSignals]:
    """Return signals whose wrenches are of the past, with the noise that they had."""
    made = []
    for k, own in enumerate(read):
        past = np.maximum(team.time - AS_LATE[k % len(AS_LATE)], team.time[0])
        force, torque = (
            getattr(own, n) + CubicSpline(team.time, team.exact[n][k])(past) - team.exact[n][k]
            for n in ("force", "torque")
        )
        made.append(replace(own, force=force, torque=torque))
    return made


def at_a_node(stated: TeamFile, read: Sequence[ContactSignals]) -> Array:
    """Return mass, centre and inertia that the first robot's node finds in the end, shape (10,)."""
    nodes = [CooperativeNode(stated, k, 1) for k in range(len(read))]
    rounds = len(read[0].time) // 10 + 2 * len(read)  # of .1 s, and to the last neighbour

    def each(now: int) -> None:
        for node, own in zip(nodes, read, strict=True):
            part = own.part(slice(10 * now, 10 * now + 10))
            if len(part.time):
                node.add_samples(part)
        nodes[0].solve()

    SimulatedNetwork(stated.graph.neighbours).run(nodes, rounds, each)
    load = results_of(nodes[0]).load(0)
    return np.full(10, np.nan) if load is None else load.numbers


def nodes_against_logs(seeds: Sequence[int]) -> Iterator[Row]:
    """Yield by how much a node's answer differs from that of all logs, in its deviations."""
    for size in (*SIZES, MANY):
        stated = TeamFile(tuple(TeamRobot(f"{k}") for k in range(size)), Graph.ring(size))
        apart: dict[str, list[float]] = {"in time": [], "wrenches late": []}
        for seed in seeds:
            team = Team(size, duration=LASTS, changes=(), masses=(2.0,), noise=NOISE).run(seed)
            read = untared(signals_of(team), seed)
            for name, own in zip(apart, (read, late(team, read)), strict=True):
                load = identify_team(stated, own).load(0)
                assert load is not None and load.std is not None
                off = np.abs(at_a_node(stated, own) - load.numbers) / load.std
                apart[name].append(float(off.max()))
        for name, each in apart.items():
            what = f"{size} robots, {name}: a node's answer off that of the logs"
            text = f"most of ten numbers and {len(seeds)} teams"
            yield at_most(what, float(np.max(each)), "deviations", 0.1, text)


@benchmark({"seeds": 1, "SIZES": (2,), "MANY": 3, "LASTS": 5.0}, unstored=("development",))
def main(*, seeds: int = 20, development: bool = False) -> Iterator[Row]:
    """Yield the rows.

    Args:
        seeds: How many.
        development: Seeds that are not scored.
    """
    first = 0 if development else FIRST
    yield from offsets(range(first, first + seeds))
    yield from slow(range(first, first + 2 * seeds))
    yield from nodes_against_logs(range(first, first + max(seeds // 4, 1)))


if __name__ == "__main__":
    main()
