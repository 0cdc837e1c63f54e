"""Simulated motion: energy, MuJoCo, blocks on tables, and friction that holds what it may."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from benchmarks.learn import mujoco_fall
from benchmarks.lessons import example, rubbing
from hypothesis import given, settings
from hypothesis import strategies as st

from heft.dynamics.drive_columns import DriveState
from heft.errors import FitError, InputError, InvalidModel, InvalidSetting, SolverFailure
from heft.models.options import Coupling, JointOptions, Options
from heft.models.robot import Robot
from heft.plants import standard_rows
from heft.recordings.recording import Recording
from heft.simulation import Dynamics, Simulate, Trajectory
from tests.robots import FloatArray, Oracle, load

FALLING = ("two_link_homework", "three_link")
TIME = np.linspace(0.0, 5.0, 251)
BLOCK = b"""gravity = [0, -9.81, 0]
[link]
convention = "modified"
table = [[0, 0, 0, 0, "prismatic"]]
[inertial.link1]
mass = 2.0
com = [0, 0, 0]
inertia = [[0.1, 0, 0], [0, 0.1, 0], [0, 0, 0.1]]
"""
F = 3.0


def block(**drive: float) -> Dynamics:
    return rubbing(Robot.from_text(BLOCK, path="block.toml"), **drive)


@pytest.mark.parametrize("name", FALLING)
def test_free_fall_keeps_its_energy_and_is_that_of_mujoco(name: str) -> None:
    robot = example(name)
    fall = Simulate(relative=1e-11).run(Dynamics.of(robot), TIME)
    assert np.abs(fall.drift).max() < 1e-8 * fall.kinetic.max()
    assert np.abs(fall.position - mujoco_fall(robot, TIME)).max() < 1e-8


@pytest.mark.parametrize("method", ["DOP853", "Radau", "LSODA"])
def test_solvers_agree_and_more_accuracy_drifts_less(method: str) -> None:
    dynamics, time = Dynamics.of(example("two_link_homework")), np.linspace(0.0, 0.5, 11)
    falls = [
        Simulate(method, relative=r, absolute=0.1 * r).run(dynamics, time)  # type: ignore[arg-type]
        for r in (1e-5, 1e-8)
    ]
    coarse, fine = (np.abs(f.drift).max() for f in falls)
    assert fine < 0.03 * coarse
    exact = Simulate().run(dynamics, time).position
    assert falls[1].position == pytest.approx(exact, abs=1e-6)


def test_the_motion_solves_the_equation_whose_rows_are_fitted() -> None:
    robot = example("two_link_homework")
    dynamics = rubbing(robot)
    moved = Simulate().run(
        dynamics,
        np.linspace(0.0, 2.0, 201),
        lambda t, q, v: np.array([np.sin(9 * t), np.cos(7 * t)]),
    )
    own = 10 * len(robot.tree.names)
    drives = [dynamics.drives.get(n, 0.0) for n in robot.labels.names[own:]]
    values = np.concatenate([dynamics.bodies, drives])
    state = DriveState(
        *(x.T for x in (moved.position, moved.velocity, moved.acceleration)),
        np.zeros((0, 201)),
        np.zeros((2, 201)),
    )
    rows = standard_rows(robot, moved.position, moved.velocity, moved.acceleration, state)
    slips = np.all(moved.velocity != 0.0, axis=1)
    assert np.count_nonzero(slips) > 190
    assert (rows @ values)[slips] == pytest.approx(moved.effort[slips], abs=1e-10)
    assert np.abs(moved.drift).max() < 1e-8


@pytest.mark.parametrize(
    "file", ["panda_description/urdf/panda.urdf", "ur_description/urdf/ur10_robot.urdf"]
)
def test_the_equation_of_motion_is_pinocchios(file: str) -> None:
    robot = load(file, friction="simple")
    oracle, rng = Oracle.of(robot), np.random.default_rng(3)
    for q, v, a in rng.normal(size=(5, 3, len(robot.joints))):
        mass, bias = Dynamics.of(robot).equation(q, v)
        expected = oracle.inverse_dynamics(q[None], v[None], a[None])[0]
        assert mass @ a + bias == pytest.approx(expected, rel=1e-9, abs=1e-9)


# --- friction that sticks and slips


def test_a_sliding_block_stops_where_its_energy_is_spent_and_stays() -> None:
    time = np.linspace(0.0, 2.0, 101)
    slid = Simulate().run(block(coulomb=F), time, velocity=np.array([1.0]))
    stop = 2.0 * 1.0 / F
    assert slid.switches == pytest.approx([stop], abs=1e-9)
    assert slid.position[-1] == pytest.approx(stop / 2.0, abs=1e-9)
    assert not slid.velocity[time > stop].any() and not slid.acceleration[time > stop].any()
    assert slid.dissipated[-1] == pytest.approx(slid.kinetic[0], rel=1e-9)


def test_a_block_breaks_away_when_it_is_pulled_harder_than_friction_holds() -> None:
    time = np.linspace(0.0, 4.0, 201)
    pulled = Simulate().run(block(coulomb=F), time, lambda t, q, v: np.array([t]))
    assert pulled.switches == pytest.approx([F], rel=1e-8)
    assert not pulled.position[time <= F].any()
    # 2 a = t − 3 from then on
    assert pulled.position[-1] == pytest.approx([1.0 / 12.0], rel=1e-7)


def test_a_pull_that_reaches_friction_and_no_more_moves_nothing() -> None:
    time = np.linspace(0.0, 10.0, 11)
    pulled = Simulate(longest=0.05).run(
        block(coulomb=F), time, lambda t, q, v: np.array([F * np.sin(t)])
    )
    assert np.abs(pulled.position).max() < 1e-8


def test_a_pendulum_comes_to_rest_and_its_energy_went_into_friction() -> None:
    swung = Simulate().run(
        rubbing(example("one_link"), coulomb=0.1, armature=0.05),
        np.linspace(0.0, 10.0, 201),
        position=np.array([1.0]),
    )
    rest = swung.time > swung.switches[-1]
    assert np.count_nonzero(rest) > 50 and len(swung.switches) == 5
    assert not swung.velocity[rest].any() and np.ptp(swung.position[rest]) == 0.0
    assert abs(0.5 * 0.2 * 9.806 * np.sin(swung.position[-1, 0])) < 0.1  # is held
    lost = swung.potential[0] - swung.potential[-1]
    assert swung.dissipated[-1] == pytest.approx(lost, rel=1e-8)


def held_by_friction(dynamics: Dynamics, moved: Trajectory) -> FloatArray:
    """Return what Coulomb friction takes at each sample, from the other torques alone."""
    taken = []
    for k in range(len(moved.time)):
        mass, bias = dynamics.equation(moved.position[k], moved.velocity[k])
        taken.append(moved.effort[k] - mass @ moved.acceleration[k] - bias)
    return np.array(taken)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.05, 0.6))
def test_friction_opposes_motion_and_holds_no_more_than_it_may(seed: int, coulomb: float) -> None:
    rng = np.random.default_rng(seed)
    robot = example("two_link_homework")
    dynamics = rubbing(robot, coulomb=coulomb, armature=0.05)
    A, w = rng.uniform(0.0, 1.0, 2), rng.uniform(3.0, 12.0, 2)
    moved = Simulate(relative=1e-8).run(
        dynamics,
        np.linspace(0.0, 1.5, 61),
        lambda t, q, v: A * np.sin(w * t),
        rng.normal(size=2),
        rng.normal(size=2),
    )
    taken = held_by_friction(dynamics, moved)
    slips = moved.velocity != 0.0
    assert taken[slips] == pytest.approx(coulomb * np.sign(moved.velocity[slips]), abs=1e-8)
    assert np.abs(taken[~slips]).max(initial=0.0) <= coulomb * (1.0 + 1e-6)
    assert np.abs(moved.drift).max() < 1e-6
    assert (np.diff(moved.dissipated) >= -1e-9).all()


def test_a_motor_that_sticks_couples_its_joints() -> None:
    table = example("two_link_homework").source
    coupling = Coupling((), ("m1", "m2"), ((1.0, 1.0), (0.0, 1.0)))
    robot = Robot.from_text(table, Options(coupling=coupling), "two.toml")
    fall = Simulate().run(Dynamics.of(robot, {"m2.coulomb": 100.0}), np.linspace(0.0, 1.0, 21))
    assert np.abs(fall.velocity[-1]).min() > 0.1
    assert np.abs(fall.velocity @ [1.0, 1.0]).max() < 1e-12
    assert np.abs(fall.drift).max() < 1e-8


def test_a_smooth_law_comes_near_the_sign_as_it_gets_steeper() -> None:
    dynamics = rubbing(example("one_link"), coulomb=0.1)
    time, start = np.linspace(0.0, 2.0, 41), np.array([1.0])
    exact = Simulate().run(dynamics, time, position=start).position
    far = [
        np.abs(
            Simulate("Radau", relative=1e-7, smooth=s).run(dynamics, time, position=start).position
            - exact
        ).max()
        for s in (1e-1, 1e-2)
    ]
    assert far[1] < 0.2 * far[0] < 0.02


def test_an_effort_is_held_between_the_steps_of_a_controller() -> None:
    robot = example("one_link")
    time = 0.01 * np.arange(101)
    law: Callable[[float, FloatArray, FloatArray], FloatArray] = lambda t, q, v: np.cos(9 * t) - q  # noqa: E731
    held = Simulate(hold=0.01).run(Dynamics.of(robot), time, law)
    assert held.effort[:-1, 0] == pytest.approx(np.cos(9 * time[:-1]) - held.position[:-1, 0])
    between = Simulate(hold=0.01).run(Dynamics.of(robot), np.array([0.0, 0.302, 0.306, 1.0]), law)
    assert between.effort[1] == between.effort[2]
    assert between.position[-1] == pytest.approx(held.position[-1], abs=1e-9)


def test_a_simulated_motion_is_a_log(tmp_path: Path) -> None:
    moved = Simulate().run(Dynamics.of(example("one_link")), np.linspace(0.0, 1.0, 11))
    np.savez(tmp_path / "log.npz", **moved.log())  # type: ignore[arg-type]
    for recording in (Recording.open(tmp_path / "log.npz"), moved.recording()):
        (there,) = recording.blocks(["q.joint1", "tau.joint1"])
        assert there.time == pytest.approx(moved.time)
        assert there.values == pytest.approx(np.hstack([moved.position, moved.effort]))


# --- what cannot be


def _run(dynamics: Dynamics | None = None, **given: object) -> Trajectory:
    plain = Dynamics.of(example("one_link")) if dynamics is None else dynamics
    return Simulate().run(plain, **({"time": np.array([0.0, 1.0])} | given))  # type: ignore[arg-type]


def _massless() -> Trajectory:
    return _run(Dynamics(example("one_link"), np.zeros(10)))


def _floating() -> Dynamics:
    still = JointOptions(friction="none", armature=False)
    text = b'<robot name="r"><link name="a"/><link name="b"/><joint name="j" type="continuous">'
    text += b'<parent link="a"/><child link="b"/></joint></robot>'
    return Dynamics.of(Robot.from_text(text, Options(base="free", joint={"j": still})))


def _coupled() -> Trajectory:
    coupling = Coupling((), ("m1", "m2"), ((1.0, 1.0), (0.0, 1.0)))
    robot = Robot.from_text(
        example("two_link_homework").source, Options(coupling=coupling), "two.toml"
    )
    drives = dict.fromkeys(["joint1.coulomb", "joint2.coulomb", "m2.coulomb"], 0.1)
    return _run(Dynamics.of(robot, drives))


def _lost() -> Trajectory:
    return _run(effort=lambda t, q, v: np.array([np.nan if t > 0.5 else 0.0]))


BAD: dict[str, tuple[Callable[[], object], type[InputError] | type[FitError], str]] = {
    "unknown drive": (
        lambda: rubbing(example("one_link"), colomb=0.1), InvalidSetting, "joint1.coulomb",
    ),
    "negative friction": (
        lambda: rubbing(example("one_link"), viscous=-0.1), InvalidSetting, "0 or more",
    ),
    "too few bodies": (lambda: Dynamics(example("one_link"), np.zeros(9)), InvalidModel, "ten"),
    "free base": (_floating, InvalidModel, "floating"),
    "no mass": (_massless, InvalidModel, "no mass"),
    "times that stand": (lambda: _run(time=np.zeros(3)), InvalidSetting, "increase"),
    "start": (lambda: _run(position=[1.0, 2.0]), InvalidSetting, "one finite number"),
    "effort": (lambda: _run(effort=lambda t, q, v: 1.0), InvalidSetting, "effort"),
    "solver": (lambda: Simulate("DOP835"), InvalidSetting, "DOP853"),  # type: ignore[arg-type]
    "tolerance": (lambda: Simulate(relative=0.0), InvalidSetting, "positive"),
    "too much Coulomb": (_coupled, InvalidSetting, "more drives"),
    "no end": (_lost, SolverFailure, "cannot be followed"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_cannot_be_simulated_is_refused_by_name(case: str) -> None:
    call, error, evidence = BAD[case]
    with pytest.raises(error, match=evidence):
        call()
