"""The weak form beside contacts: unknown wrenches are eliminated before rows are integrated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest

from heft.applications.identification import identify
from heft.fit import Settings
from heft.plants import Elimination, FloatingRobotPlant, Problem, Samples
from heft.recordings import Recording
from heft.signals import Smoothing, Weak
from tests.plants import case
from tests.test_floating_robot import samples_of

Array = np.ndarray[Any, np.dtype[np.float64]]
UNKNOWN = "floating robot, a contact unknown"
NOISE = np.array([1.0, 2.0, 0.5, 0.2, 0.3, 0.1, 0.4, 0.7, *[0.6] * 6])


def around(step: float) -> tuple[FloatingRobotPlant, list[Samples[Any]]]:
    """Return samples of exact motion at three times that far apart [s], the contact closed."""
    plant = case(UNKNOWN).plant
    assert isinstance(plant, FloatingRobotPlant)
    made = []
    for k in (-1, 0, 1):
        _, exact = case(UNKNOWN).experiment(4.0 + step * np.arange(-1, 2))
        cut = slice(k + 1, k + 2)
        parts = (exact.position[cut], exact.velocity[cut], exact.acceleration[cut])
        samples = samples_of(plant, replace(exact, **dict(zip(
            ("position", "velocity", "acceleration"), parts, strict=True))))  # fmt: skip
        m = samples.motion
        made.append(replace(samples, motion=replace(m, closed=np.ones_like(m.closed))))
    return plant, made


def test_the_projectors_rate_is_its_difference() -> None:
    step = 1e-4
    plant, (before, now, after) = around(step)
    outs = [Elimination.of(plant.acting(s), NOISE) for s in (before, now, after)]
    P = [out(np.eye(len(NOISE))[None]) for out in outs]
    found = outs[1].change(plant.acting(now), plant.acting_rate(now))
    wanted = (P[2] - P[0]) / (2.0 * step)
    assert np.abs(wanted).max() > 0.1
    assert np.abs(found - wanted).max() <= 1e-6 * np.abs(wanted).max()
    exact = (plant.acting(after) - plant.acting(before)) / (2.0 * step)
    assert np.abs(plant.acting_rate(now) - exact).max() <= 1e-6 * np.abs(exact).max()


def test_both_sides_without_unknowns_make_the_rows_without_them() -> None:
    """d/dt (P p) − (P r + Ṗ p) = P Y, in which no acceleration is."""
    step = 1e-4
    plant, samples = around(step)
    columns = range(len(plant.labels))
    log = case(UNKNOWN).recording(0.01 * np.arange(200))
    walk = Problem(plant, (log,), Smoothing(corner=15.0, delay=0.0), noise=tuple(NOISE)).walk
    sides = [walk._without_unknowns(s, plant.sides(s, columns))[0] for s in samples]
    made = (sides[2].momentum - sides[0].momentum) / (2.0 * step) - sides[1].remainder
    wanted = walk.equations_of(samples[1], columns).regressor
    assert np.abs(made - wanted).max() <= 1e-6 * np.abs(wanted).max()


TIME = 0.005 * np.arange(3000)


def problem_of(push: float = 0.0) -> Problem[Any]:
    """Return a problem of a noise-free log whose contact is pushed by a further wrench."""
    c = case(UNKNOWN)
    signals, _ = c.experiment(TIME)
    plant = c.plant
    assert isinstance(plant, FloatingRobotPlant)
    log = Recording.from_arrays(TIME, "exact", **signals)
    smoothing = Smoothing(corner=25.0, delay=0.0)
    plain = Problem(plant, (log,), smoothing, noise=tuple(NOISE), weak=Weak())
    if not push:
        return plain
    q = np.stack([signals["q"][j] for j in plant.robot.joints])
    m = plant.random_samples(len(TIME), np.random.default_rng(0)).motion
    motion = replace(m, position=np.vstack([np.zeros((6, len(TIME))), q]),
                     closed=np.ones_like(m.closed))  # fmt: skip
    flag = signals["contact"]["ground"] > 0.5
    wrench = push * flag[:, None] * np.sin(np.outer(TIME, [1.3, 2.1, 0.7]))
    # What another push does to the joints is measured there, and what the hook must hold.
    extra = np.einsum("nck,nk->nc", plant.held(motion)[:, :, 6:9], wrench)
    for k, joint in enumerate(plant.robot.joints):
        signals["tau"][joint] = signals["tau"][joint] - extra[:, 6 + k]
    for k, axis in enumerate("xyz"):
        signals["force"][f"hook.{axis}"] = signals["force"][f"hook.{axis}"] - extra[:, k]
        signals["torque"][f"hook.{axis}"] = signals["torque"][f"hook.{axis}"] - extra[:, 3 + k]
    other = Recording.from_arrays(TIME, "pushed", **signals)
    return plain.with_recordings([other])


def test_weak_rows_do_not_know_an_unknown_wrench() -> None:
    """A push of another 50 N changes what was measured, and rows by what smoothing leaves."""
    sums = []
    for push in (0.0, 50.0):
        problem = problem_of(push)
        effort = np.concatenate([r.effort for r in problem.rows()])
        sums.append(effort)
        assert len(effort) > 50
    scale = np.abs(sums[0]).max(axis=0)
    assert (np.abs(sums[1] - sums[0]).max(axis=0) <= 2e-3 * scale.max()).all()


def test_windows_that_a_contact_closes_in_are_left_out() -> None:
    problem = problem_of()
    flags = np.concatenate([s.motion.closed[1] for s in problem.walk.all_samples()])
    time = np.concatenate([s.time for s in problem.walk.all_samples()])
    switches = time[1:][np.diff(flags)]
    length = problem.weak.windows(problem.corner, 0.005).length  # type: ignore[union-attr]
    middles = np.concatenate([r.time for r in problem.rows()])
    assert len(switches) > 3
    assert np.abs(middles[:, None] - switches).min() >= 0.5 * length - 0.006


Rows = Literal["weak", "differentiated"]


@pytest.mark.parametrize("rows", ["differentiated", "weak"])
def test_a_floating_robot_is_identified_by_either_form(
    rows: Literal["weak", "differentiated"],
) -> None:
    c = case(UNKNOWN)
    signals, _ = c.experiment(TIME)
    rng = np.random.default_rng(1)
    for kind, size in (("tau", 0.05), ("force", 0.2), ("torque", 0.05), ("q", 2e-4)):
        for name, x in signals[kind].items():
            signals[kind][name] = x + size * rng.normal(size=len(TIME))
    log = Recording.from_arrays(TIME, "noisy", **signals)
    settings = Settings(
        smoothing=Smoothing(corner=15.0, delay=0.0),
        rows=rows,
        threads=1,
    )
    found = identify(c.plant.robot, [log], settings=settings)  # type: ignore[attr-defined]
    off = found.estimate.parameters.values - found.problem.base.matrix @ c.truth
    ratio = off / found.estimate.parameters.std
    assert np.sqrt(np.mean(ratio**2)) < 2.0, ratio
    mass = sum(v.mass for v in found.links.values())
    assert mass == pytest.approx(8.0, rel=5e-3)
