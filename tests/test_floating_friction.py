"""Friction's dictionary of a robot whose base floats: gears are loaded by contacts, too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from heft.applications.identification import identify
from heft.fit import Settings
from heft.models import ContactOptions, JointOptions
from heft.plants import FloatingRobotPlant
from heft.recordings import Recording
from heft.signals import Smoothing
from tests import robots
from tests.plants import case
from tests.test_floating_robot import samples_of

Array = np.ndarray[Any, np.dtype[np.float64]]
FULL = dict.fromkeys(("hip", "knee"), JointOptions(friction="full", armature=False))
UNKNOWN = "floating robot, a contact unknown"
TIME = 0.01 * np.arange(1200)


def rubbing(name: str = UNKNOWN, **said: Any) -> FloatingRobotPlant:
    """Return the robot of a case with friction's dictionary."""
    plant = case(name).plant
    assert isinstance(plant, FloatingRobotPlant)
    robot = robots.walker(joint=FULL, contact=plant.contacts, **said)
    return FloatingRobotPlant(robot)


@pytest.mark.parametrize("ground", ["measured", "unknown"])
def test_what_loads_the_gears_is_pinocchios_torque_with_external_forces(ground: str) -> None:
    """Friction of the joints in what they measured makes no difference: the base tells wrenches."""
    name = UNKNOWN if ground == "unknown" else "floating robot by its pose"
    signals, exact = case(name).experiment(TIME[::40])
    plant = rubbing(name)
    samples = samples_of(plant, exact)
    measured = np.zeros_like(samples.measured)
    for m in plant.inputs(Recording.from_arrays(TIME[::40], **signals)).measured:
        for signal, factor in m.terms:
            kind, _, rest = signal.partition(".")
            measured[:, m.channel] += factor * signals[kind][rest]
    measured[:, 6:8] += np.random.default_rng(0).normal(size=(len(measured), 2))
    samples = replace(samples, measured=measured)
    truth = case(name).truth
    bodies = np.zeros(len(plant.labels))
    bodies[: len(truth)] = truth
    load = plant.gear_load(samples, plant.rigid(samples.motion, bodies))[6:]
    wanted = np.stack([signals["tau"][j] for j in ("hip", "knee")])
    assert np.abs(load - wanted).max() <= 1e-5 * np.abs(wanted).max()


def test_joints_tell_a_load_that_the_base_does_not() -> None:
    """Two feet that share the load: their torques say how, as good as these are."""
    contact = {n: ContactOptions(n) for n in ("foot", "thigh")}
    plant = FloatingRobotPlant(robots.walker(joint=FULL, contact=contact))
    samples = plant.random_samples(5, np.random.default_rng(1))
    m = samples.motion
    samples = replace(samples, motion=replace(m, closed=np.ones_like(m.closed)))
    rigid = plant.rigid(samples.motion, plant.robot.nominal())
    push = np.random.default_rng(2).normal(size=(5, 12))
    push[:, 6:] = np.linalg.solve(
        plant.held(samples.motion)[:, :6, 6:],
        (rigid[:6].T - np.einsum("nck,nk->nc", plant.held(samples.motion)[:, :6, :6], push[:, :6]))[
            :, :, None
        ],
    )[:, :, 0]
    torque = rigid.T - np.einsum("nck,nk->nc", plant.held(samples.motion), push)
    assert np.abs(torque[:, :6]).max() <= 1e-10 * np.abs(rigid).max()
    load = plant.gear_load(replace(samples, measured=torque), rigid)
    assert np.abs(load.T - torque).max() <= 1e-7 * np.abs(rigid).max()


def test_the_uncertainty_of_the_load_is_that_of_the_bodies() -> None:
    """`_load_rows` is the derivative of `gear_load` by the bodies."""
    plant = rubbing()
    samples = plant.random_samples(6, np.random.default_rng(3))
    m = samples.motion
    closed, rng = np.ones_like(m.closed), np.random.default_rng(4)
    samples = replace(samples, motion=replace(m, closed=closed),
                      measured=rng.normal(size=samples.measured.shape))  # fmt: skip
    columns = list(plant.point_columns)
    one, step = plant.robot.nominal(), np.zeros(len(plant.labels))
    step[columns] = rng.normal(size=len(columns))
    moved = [plant.gear_load(samples, plant.rigid(samples.motion, x)) for x in (one, one + step)]
    rows = plant._load_rows(samples, columns)
    wanted = np.stack([r.values @ step[columns[0] :][r.columns] for r in rows])
    assert np.abs(moved[1] - moved[0] - wanted).max() <= 1e-10 * np.abs(wanted).max()


def log_of(day: int) -> Recording:
    """Return a log whose gears rub by speed and load."""
    signals, _ = case(UNKNOWN).experiment(TIME + 30.0 * day)
    rng = np.random.default_rng(day)
    for joint in ("hip", "knee"):
        load = signals["tau"][joint]
        speed = np.gradient(signals["q"][joint], TIME)
        slides = np.tanh(speed / 0.02)
        rub = (0.8 + 0.15 * np.abs(load)) * slides + 0.5 * speed
        signals["tau"][joint] = load + rub + 0.02 * rng.normal(size=len(TIME))
    for kind in ("force", "torque"):
        for name, x in signals[kind].items():
            signals[kind][name] = x + 0.02 * rng.normal(size=len(TIME))
    return Recording.from_arrays(TIME, f"day {day}", **signals)


def test_friction_of_loaded_gears_is_found_beside_contacts() -> None:
    """A quarter of what simple friction leaves over is left on another log; and who asks, gets."""
    settings = Settings(smoothing=Smoothing(corner=20.0, delay=0.0), threads=1)
    left = {}
    for friction in (None, "full"):
        joints = dict.fromkeys(FULL, JointOptions(friction=friction, armature=False))
        contacts = rubbing().contacts
        robot = robots.walker(joint=joints, contact=contacts)
        found = identify(robot, [log_of(0)], [log_of(1)], settings)
        scores = {s.friction: s for s in found.validation if s.filter_hz}
        left[friction] = float(np.mean([scores["full"].per_joint[j] for j in FULL]))
        terms = {t for d in found.problem.plant.robot.drives for t in d.terms if t.loaded}
        assert bool(terms) == (friction == "full")
        if friction == "full":
            assert found.simple.values["hip.coulomb"] > 0.5
            assert np.isfinite(found.simple.std["knee.coulomb"])
    assert left["full"] < 0.25 * left[None], left
