"""The closed loop simulated anew: its equations, its order, and its sensitivities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from heft.errors import InvalidSetting, MissingSignal, SolverFailure
from heft.fit import Settings, fit_experiment, open_experiment
from heft.models import (
    ControllerOptions,
    JointGains,
    JointOptions,
    Options,
    OwnColumns,
    RegressorColumn,
    Robot,
)
from heft.plants import Problem, RobotPlant, standard_rows
from heft.recordings import Recording
from heft.signals import Smoothing
from heft.simulation import ClosedLoop
from tests import robots

Array = np.ndarray[Any, np.dtype[np.float64]]
Values = Mapping[str, Array]
STRONG = ControllerOptions(
    {"shoulder": JointGains(400.0, 40.0), "elbow": JointGains(100.0, 10.0, 50.0)},
    rate=500.0,
    filter=40.0,
    feedforward="inverse-dynamics",
)


def springs(q: Values, v: Values, a: Values) -> list[RegressorColumn]:
    """Return a spring between both joints, a stiffening one, and drag."""
    turned = np.sin(q["shoulder"] + q["elbow"])
    return [
        RegressorColumn("belt", "N·m", {"shoulder": turned, "elbow": turned}),
        RegressorColumn("elbow.spring", "N·m/rad", {"elbow": q["elbow"] + 0.3 * q["elbow"] ** 3}),
        RegressorColumn("drag", "N·m·s²", {"shoulder": np.abs(v["shoulder"]) * v["shoulder"]}),
    ]


def sprung(controller: ControllerOptions | None = STRONG) -> Robot:
    """Return the arm with own columns."""
    robot = arm(controller)
    return replace(robot, own_columns=OwnColumns(springs, robot.channels))


def arm(controller: ControllerOptions | None = STRONG) -> Robot:
    """Return the planar arm with simple friction under a controller."""
    joint = JointOptions(friction="simple")
    options = Options(
        gravity=(0.0, -9.81, 0.0),
        joint={"shoulder": joint, "elbow": joint},
        controller=controller,
    )
    return Robot.from_urdf_text(robots.PLANAR_ARM, options)


both = pytest.mark.parametrize("robot", [arm(), sprung()], ids=["plain", "own columns"])


def loop(robot: Robot) -> ClosedLoop:
    found = ClosedLoop.of(robot)
    assert found is not None
    return found


def truth(robot: Robot) -> Array:
    """Return the model file's bodies with drives of their own."""
    sizes = {"armature": 0.05, "viscous": 0.4, "coulomb": 0.8, "offset": 0.1}
    drives = [sizes[t.kind] * (1.0 + 0.5 * d) for d, t in robot.drive_columns]
    own = (6.0, 9.0, 0.5) if robot.own_columns is not None else ()
    return np.concatenate([robot.written_bodies(), drives, own])


def reference(duration: float = 4.0, rate: float = 500.0) -> Recording:
    t = np.arange(0.0, duration, 1.0 / rate)
    q = np.stack([0.8 * np.sin(2.1 * t) + 0.2 * np.sin(7.0 * t), 0.9 * np.cos(3.3 * t)])
    named = dict(zip(("shoulder", "elbow"), q, strict=True))
    return Recording.from_arrays(t, "reference", q=named, q_ref=named, tau=named)


@both
def test_rows_hold_in_the_middle_of_every_step(robot: Robot) -> None:
    x = truth(robot)
    motion = loop(robot).followed(reference(), x)
    q, v, a = motion.middle
    Y = standard_rows(robot, q, v, a)
    for k, (d, term) in enumerate(robot.drive_columns, 10 * len(robot.tree.names)):
        if term.kind == "coulomb":  # which is simulated as a steep slope
            Y[:, d, k] = np.tanh(v[:, d] / 0.018)
    left = Y @ x - motion.effort
    assert np.abs(left).max() <= 1e-9 * np.abs(motion.effort).max()


def test_any_tree_moves_as_its_regressor_says() -> None:
    """Sliding and turning joints about oblique axes."""
    robot = robots.oblique_arm()
    gains = {j: JointGains(30.0, 2.0) for j in robot.joints}
    options = replace(robot.options, controller=ControllerOptions(gains, filter=None))
    robot = Robot.from_urdf_text(robot.source, options)
    t = np.arange(0.0, 0.5, 1e-3)
    q = {j: 0.1 * np.sin(2.0 * t + k) for k, j in enumerate(robot.joints)}
    x = robot.written_bodies()
    motion = loop(robot).followed(Recording.from_arrays(t, q_ref=q), x)
    left = standard_rows(robot, *motion.middle) @ x - motion.effort
    assert np.abs(left).max() <= 1e-9 * np.abs(motion.effort).max()
    M, *_ = loop(robot).simulated_robot.linearised(*(m[:3] for m in motion.middle), x, ())
    unit = np.tile(np.eye(len(robot.joints)), (3, 1))
    states = [np.repeat(m[:3], len(robot.joints), axis=0) for m in motion.middle[:2]]
    rise = standard_rows(robot, *states, unit) - standard_rows(robot, *states, 0.0 * unit)
    assert np.swapaxes((rise @ x).reshape(M.shape), 1, 2) == pytest.approx(M, rel=1e-9, abs=1e-12)


def test_a_differentiated_position_is_filtered_to_its_corner() -> None:
    """A low-pass of first order, sampled at the controller's rate, falls by e in 1/(2π f)."""
    steps = STRONG.rate / (2.0 * np.pi * 40.0)
    assert loop(arm())._keep == pytest.approx(1.0 - np.exp(-1.0 / steps))
    assert loop(arm(replace(STRONG, filter=None)))._keep < 0.0


def test_halving_the_step_leaves_a_quarter_of_the_error() -> None:
    """Of an arm that swings freely, with friction: no torque that is held has a part in it."""
    loose, found = dict.fromkeys(STRONG.joint, JointGains(0.0, 0.0)), []
    for rate in (250.0, 500.0, 4000.0):
        robot = arm(ControllerOptions(loose, rate=rate))
        x = truth(robot)
        x[[k for k, n in enumerate(robot.labels.names) if n.endswith("coulomb")]] = 0.0
        found.append(loop(robot).followed(reference(1.0), x).position_at(np.array([0.4, 0.8])))
    coarse, fine = (np.abs(f - found[2]).max() for f in found[:2])
    assert coarse / fine == pytest.approx(4.0, rel=0.1)


@both
def test_sensitivities_are_derivatives_of_the_simulation(robot: Robot) -> None:
    closed, x = loop(robot), truth(robot)
    problem = Problem(RobotPlant(robot), (reference(),), Smoothing(15.0, delay=0.0))
    beta = problem.base.matrix @ x
    kept = problem.base.kept
    log = reference(0.6)
    motion = closed.followed(log, problem.base.spread(beta))
    found = closed.sensitivities(motion, problem.base.spread(beta), kept)
    names = ("position", "effort")
    for k in range(len(beta)):
        size = 1e-5 * max(abs(beta[k]), 0.1)
        sides = []
        for sign in (1.0, -1.0):
            moved = beta.copy()
            moved[k] += sign * size
            sides.append(closed.followed(log, problem.base.spread(moved)))
        for name, own in zip(names, found, strict=True):
            slope = (getattr(sides[0], name) - getattr(sides[1], name)) / (2.0 * size)
            assert np.abs(own[:, :, k] - slope).max() <= 1e-4 * np.abs(slope).max()


@both
def test_a_log_of_the_loop_has_no_output_error(robot: Robot) -> None:
    closed = loop(robot)
    problem = Problem(RobotPlant(robot), (reference(),), Smoothing(15.0, delay=0.0))
    beta = problem.base.matrix @ truth(robot)
    made = closed.simulated(problem, beta)
    log = made.recordings[0]
    with_reference = Recording.from_arrays(
        reference().whole(["q.elbow"]).time,
        **{
            kind: {j: log.whole([f"{kind}.{j}"]).values[:, 0] for j in robot.joints}
            for kind in ("q", "tau")
        },
        q_ref={j: reference().whole([f"q_ref.{j}"]).values[:, 0] for j in robot.joints},
    )
    again = problem.with_recordings((with_reference,))
    for piece in (*closed.positions(again, beta), *closed.efforts(again, beta)):
        # Where it began is read off the first positions, by a parabola; what that errs dies out.
        size = np.abs(piece.effort).max(axis=1)
        assert size.max() <= 0.05
        assert size[piece.time > 3.0].max() <= 0.25 * size.max()


def test_what_cannot_be_simulated_is_refused() -> None:
    assert ClosedLoop.of(arm(None)) is None
    with pytest.raises(InvalidSetting, match="every joint"):
        ClosedLoop.of(arm(replace(STRONG, joint={"elbow": JointGains(1.0, 1.0)})))
    full = Options(joint={"elbow": JointOptions(friction="full")}, controller=STRONG)
    with pytest.raises(InvalidSetting, match="remembers"):
        ClosedLoop.of(Robot.from_urdf_text(robots.PLANAR_ARM, full))
    robot = arm()
    log = Recording.from_arrays(np.arange(9.0), q={"elbow": np.zeros(9)})
    with pytest.raises(MissingSignal, match="q_ref"):
        loop(robot).followed(log, truth(robot))
    with pytest.raises(SolverFailure, match="finite"):
        loop(robot).followed(reference(), -truth(robot))


def noisy(robot: Robot, seed: int) -> Recording:
    """Return a log of the loop with encoders that err by a milliradian."""
    problem = Problem(RobotPlant(robot), (reference(6.0),), Smoothing(15.0, delay=0.0))
    beta = problem.base.matrix @ truth(robot)
    log = loop(robot).simulated(problem, beta).recordings[0]
    rng = np.random.default_rng(seed)
    q, tau = (log.whole([f"{k}.{j}" for j in robot.joints]) for k in ("q", "tau"))
    seen = q.values + 1e-3 * rng.normal(size=q.values.shape)
    felt = tau.values + 0.02 * tau.values.std(axis=0) * rng.normal(size=tau.values.shape)
    asked = reference(6.0).whole([f"q_ref.{j}" for j in robot.joints]).values
    columns = {"q": seen, "tau": felt, "q_ref": asked}
    named = {k: dict(zip(robot.joints, x.T, strict=True)) for k, x in columns.items()}
    return Recording.from_arrays(q.time, "noisy", **named)


@pytest.mark.parametrize("method", ["didim", "output-error"])
def test_springs_are_found_by_what_is_simulated(method: str) -> None:
    robot = sprung()
    settings = Settings(smoothing=Smoothing(40.0, delay=0.0), method=method, threads=1)
    problem, settings = open_experiment(robot, (noisy(robot, 0),), settings)
    fit = fit_experiment(problem, settings)
    names = fit.problem.labels.names
    found = fit.estimate.parameters
    for name, wanted in (("belt", 6.0), ("elbow.spring", 9.0), ("drag", 0.5)):
        k = names.index(name)
        assert abs(found.values[k] - wanted) <= min(4.0 * found.std[k], 0.05 * wanted), name


def test_own_columns_that_are_not_simulated_are_refused() -> None:
    robot = arm()

    def heavy(q: Values, v: Values, a: Values) -> list[RegressorColumn]:
        return [RegressorColumn("fly", "kg·m²", {"elbow": a["elbow"]})]

    with pytest.raises(InvalidSetting, match="acceleration"):
        loop(replace(robot, own_columns=OwnColumns(heavy, robot.channels)))
    stiff = truth(sprung()) * np.where(np.array(sprung().labels.names) == "elbow.spring", 1e3, 1.0)
    with pytest.raises(SolverFailure, match=r"settle|finite"):
        loop(sprung()).followed(reference(1.0), stiff)


@pytest.mark.parametrize("method", ["instrumental", "didim", "output-error"])
def test_noise_of_encoders_hardly_moves_what_is_simulated(method: str) -> None:
    """Rows of a sharp cutoff: their noise ruins least squares, and is in no simulated row."""
    robot = arm()
    smoothing = Smoothing(40.0, delay=0.0)
    errors: dict[str, list[Array]] = {method: [], "least-squares": []}
    for seed in range(3):
        for name, found in errors.items():
            settings = Settings(smoothing=smoothing, method=name, threads=1)
            problem, settings = open_experiment(robot, (noisy(robot, seed),), settings)
            fit = fit_experiment(problem, settings)
            wanted = fit.problem.base.matrix @ truth(robot)
            found.append((fit.estimate.fitted - wanted) / np.abs(wanted).max())
    bias, plain = (np.abs(np.mean(errors[m], axis=0)).max() for m in (method, "least-squares"))
    assert bias < 0.5 * plain
