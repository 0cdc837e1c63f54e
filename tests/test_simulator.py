"""The independent simulator: its physics by other means, its sensors by what they state.

pinocchio is the oracle of the links; friction is looked up from each law's own equation.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from benchmarks.truth import CONDITIONS, DEVELOPMENT, SCORED, arm, refuse_mixed
from benchmarks.truth_scores import line_of

from heft.arrays import Array
from heft.simulation import (
    Arm,
    Condition,
    Coulomb,
    Drive,
    DriveRanges,
    ExactMotion,
    LuGre,
    Offset,
    Sensors,
    SimulatedExperiment,
    Simulator,
    Spring,
    Viscous,
)
from heft.simulation.motions import KINDS, Moves, draw_motion
from heft.simulation.simulated_drives import table
from heft.simulation.simulated_links import Links
from heft.simulation.simulation_step import coulomb_at

SHORT = 4.0  # duration of the logs here [s]
KINDS_OF_FRICTION = ("in class", "in class, hard", "lugre", "dahl", "elastic ripple quantised")


def short(condition: str, **changes: object) -> Condition:
    return replace(CONDITIONS[condition], duration=SHORT, other_duration=SHORT, **changes)


@cache
def run(condition: str, name: str = "ur5", seed: int = 3) -> SimulatedExperiment:
    return Simulator(arm(name), short(condition)).run(seed)


def rigid(experiment: SimulatedExperiment, motion: ExactMotion) -> Array:
    """Return pinocchio's torque of the links, on their own side of the gears."""
    model = pin.buildModelFromXML(experiment.arm.urdf.decode())
    data = model.createData()
    rows = zip(motion.link, motion.link_velocity, motion.link_acceleration, strict=True)
    return np.array([pin.rnea(model, data, *row) for row in rows])


def columns(experiment: SimulatedExperiment, kind: str) -> Array:
    recording = experiment.recording
    names = [f"{kind}.{j}" for j in experiment.arm.joints]
    return np.concatenate([b.values for b in recording.blocks(names)])


@pytest.mark.parametrize("condition", [*KINDS_OF_FRICTION, "backlash"])
def test_torque_is_that_of_links_rotors_and_friction(condition: str) -> None:
    found = run(condition)
    rotor = np.array([d.armature for d in found.drives])
    size = np.abs(found.exact.tau).max(axis=0)
    links = rigid(found, found.exact)
    made = links + rotor * found.exact.a + found.exact.friction
    assert np.max(np.abs(made - found.exact.tau) / size) < 2e-3
    assert np.max(np.abs(links - found.exact.passed) / size) < 2e-3


@pytest.mark.parametrize("condition", KINDS_OF_FRICTION)
def test_motion_is_its_own_derivative(condition: str) -> None:
    chosen = replace(CONDITIONS[condition], duration=1.0)
    every_step = replace(chosen, sensors=replace(chosen.sensors, rate=1.0 / chosen.step))
    motion = Simulator(arm("ur5"), every_step).run(3).exact
    step = motion.time[1] - motion.time[0]
    for low, high, tolerance in ((motion.q, motion.v, 1e-3), (motion.v, motion.a, 1e-9)):
        moved = np.diff(low, axis=0)
        made = step * (high[1:] + high[:-1]) / 2.0
        assert np.abs(moved - made).max() < tolerance * np.abs(moved).max()


def test_work_of_motors_is_energy_and_what_friction_takes() -> None:
    found = run("in class")
    motion, rotor = found.exact, np.array([d.armature for d in found.drives])
    model = pin.buildModelFromXML(found.arm.urdf.decode())
    data = model.createData()
    energy = np.array(
        [
            pin.computeKineticEnergy(model, data, q, v) + pin.computePotentialEnergy(model, data, q)
            for q, v in zip(motion.q, motion.v, strict=True)
        ]
    ) + 0.5 * np.sum(rotor * motion.v**2, axis=1)
    power = np.sum((motion.tau - motion.friction) * motion.v, axis=1)
    work = np.append(0.0, np.cumsum((power[1:] + power[:-1]) / 2.0 * np.diff(motion.time)))
    assert np.ptp(energy - work) < 2e-3 * np.ptp(energy)


@pytest.mark.parametrize("condition", KINDS_OF_FRICTION[:4])
def test_friction_takes_power_where_it_slides(condition: str) -> None:
    found = run(condition)
    offset = np.array(
        [sum(k.effort for k in d.laws if isinstance(k, Offset)) for d in found.drives]
    )
    power = (found.exact.friction - offset) * found.exact.v
    sliding = np.abs(found.exact.v) > 0.2
    assert sliding.mean() > 0.3
    assert (power[sliding] > 0.0).mean() > 0.99


class OneJoint:
    """A pendulum's drive, its joint moved by hand through the laws of bristles."""

    def __init__(self, law: LuGre) -> None:
        self.law, self.bristle = law, 0.0

    def force(self, speed: float, step: float) -> float:
        """Euler steps of the law's own equation, fine against its slip."""
        stiffness = self.law.effort / self.law.presliding
        fall = (self.law.ratio - 1.0) * np.exp(-((speed / self.law.stribeck) ** 2))
        level = self.law.effort * (1.0 + fall)
        rate = speed - stiffness * abs(speed) / level * self.bristle
        self.bristle += step * rate
        return stiffness * self.bristle + self.law.damping * rate


@pytest.mark.parametrize("speed", [-0.5, -0.04, 0.02, 0.08, 1.0])
def test_bristles_end_at_the_curve_of_steady_sliding(speed: float) -> None:
    law = LuGre(2.0, 1.5, 0.06, 1e-3, 3.0)
    joint = OneJoint(law)
    for _ in range(50_000):
        force = joint.force(speed, 2e-5)
    assert force == pytest.approx(float(law.steady(np.array(speed), 1.0)), rel=1e-6)


def test_simulated_bristles_follow_their_equation() -> None:
    found = run("lugre")
    laws = [next(k for k in d.laws if isinstance(k, LuGre)) for d in found.drives]
    settled = np.abs(found.exact.v) > 0.3
    curve = found.steady(found.exact.v)
    assert all(1.1 <= k.ratio <= 1.6 and 0.03 <= k.stribeck <= 0.15 for k in laws)
    miss = np.abs(found.exact.friction - curve)[settled]
    assert settled.mean() > 0.2
    assert np.quantile(miss, 0.9) < 0.05 * np.median([k.effort for k in laws])


def test_steady_sliding_falls_before_it_rises() -> None:
    drive = Drive(0.1, (LuGre(2.0, 1.5, 0.06, 1e-3, 3.0), Viscous(1.0)))
    curve = drive.steady(np.array([1e-6, 0.1, 1.0]), 25.0)
    assert curve == pytest.approx([3.0, 2.0 + np.exp(-((0.1 / 0.06) ** 2)) + 0.1, 3.0], abs=1e-5)


@pytest.mark.parametrize("free", [-2.0, -0.1, 0.0, 1e-6, 0.3])
@pytest.mark.parametrize("scale", [0.0, 1e-3, 0.02])
def test_implicit_coulomb_friction_solves_its_equation(free: float, scale: float) -> None:
    slope, effort = 0.1, 1.5
    f = coulomb_at(free, slope, effort, scale)
    speed = free - slope * f
    if scale:
        assert f == pytest.approx(effort * np.tanh(speed / scale), abs=1e-6)
    else:
        assert abs(f) <= effort
        assert speed == pytest.approx(0.0, abs=1e-12) or f == effort * np.sign(speed)


def test_hard_friction_sticks() -> None:
    condition = replace(short("in class, hard", motion="point to point"), duration=8.0)
    found = Simulator(arm("ur5"), condition).run(0)
    stuck = np.abs(found.exact.v) < 1e-12
    level = np.array(
        [next(k.effort for k in d.laws if isinstance(k, Coulomb)) for d in found.drives]
    )
    offset = np.array(
        [next(k.effort for k in d.laws if isinstance(k, Offset)) for d in found.drives]
    )
    assert stuck.mean() > 0.02
    assert (np.abs(found.exact.friction - offset) <= level * (1.0 + 1e-9))[stuck].all()
    moved = np.abs(np.diff(found.exact.q, axis=0))[stuck[1:] & stuck[:-1]]
    assert np.median(moved) == 0.0


@pytest.mark.parametrize("seed", [0, 5])
def test_the_same_seed_gives_the_same_bytes(seed: int) -> None:
    condition = short("lugre load drift late ar1 jitter")
    one, two = (Simulator(arm("so101"), condition).run(seed) for _ in range(2))
    assert one.prior == two.prior
    assert one.drives == two.drives
    for kind in ("q", "tau"):
        assert columns(one, kind).tobytes() == columns(two, kind).tobytes()
    assert one.other().tau.tobytes() == two.other().tau.tobytes()
    three = Simulator(arm("so101"), condition).run(seed + 1)
    assert three.prior != one.prior
    assert columns(three, "q").tobytes() != columns(one, "q").tobytes()


def test_another_number_is_another_log_of_the_same_robot() -> None:
    simulator = Simulator(arm("so101"), replace(CONDITIONS["lugre"], duration=SHORT))
    one, other = simulator.run(3), simulator.run(3, number=1)
    assert one.prior == other.prior and one.drives == other.drives
    assert np.abs(one.exact.q - other.exact.q).max() > 0.1
    same = simulator.run(3, number=1)
    assert np.array_equal(other.exact.tau, same.exact.tau)


@pytest.mark.parametrize("bits", [12, 14])
def test_encoders_have_whole_steps(bits: int) -> None:
    found = Simulator(arm("so101"), short("in class", sensors=Sensors(bits=bits))).run(0)
    steps = columns(found, "q") / (2.0 * np.pi / 2**bits)
    assert np.abs(steps - np.round(steps)).max() < 1e-6
    assert np.abs(columns(found, "q") - found.exact.q).max() < 0.51 * 2.0 * np.pi / 2**bits


@pytest.mark.parametrize("delay", [0.0, 0.0015, 0.02])
def test_logged_torque_comes_late(delay: float) -> None:
    sensors = Sensors(torque_noise=0.0, delay=delay, rate=500.0)
    found = Simulator(arm("so101"), short("in class", sensors=sensors)).run(0)
    time, tau = found.exact.time, columns(found, "tau")
    late = np.stack([np.interp(time - delay, time, x) for x in found.exact.tau.T], axis=1)
    inside = time > 0.05
    size = np.abs(tau).max(axis=0)
    assert np.max(np.abs(tau - late)[inside] / size) < 0.02
    if delay:
        assert np.max(np.abs(tau - found.exact.tau)[inside] / size) > 5.0 * delay


def test_noise_jitter_and_steps_are_of_the_size_that_is_stated() -> None:
    sensors = Sensors(torque_noise=0.01, correlation=0.9, jitter=0.1, torque_step=0.05)
    found = Simulator(arm("so101"), short("in class", sensors=sensors)).run(0)
    size = np.sqrt(np.mean(found.exact.tau**2, axis=0))
    steps = columns(found, "tau") / (0.05 * size)
    assert np.abs(steps - np.round(steps)).max() < 1e-6
    stamps = np.concatenate([b.time for b in found.recording.blocks([f"q.{found.arm.joints[0]}"])])
    assert np.std(stamps - found.exact.time) == pytest.approx(0.1 / 250.0, rel=0.1)
    smooth = replace(sensors, torque_step=0.0)
    found = Simulator(arm("so101"), short("in class", sensors=smooth)).run(0)
    noise = (columns(found, "tau") - found.exact.tau) / size
    assert np.std(noise) == pytest.approx(0.01, rel=0.2)
    next_to = np.mean(noise[1:] * noise[:-1]) / np.mean(noise**2)
    assert next_to == pytest.approx(0.9, abs=0.05)


def test_actuators_push_beside_what_they_are_told_and_log() -> None:
    none = DriveRanges(friction="none")
    quiet, pushed = (
        Simulator(arm("so101"), short("in class", drives=none, actuator_noise=share))
        for share in (0.0, 0.01)
    )
    one, other, again = quiet.run(0), pushed.run(0), pushed.run(0)
    assert not one.exact.friction.any()
    push = -other.exact.friction / quiet.typical[0]
    assert np.std(push, axis=0) == pytest.approx(0.01, rel=0.15)
    assert np.abs(np.mean(push[1:] * push[:-1]) / np.mean(push**2)) < 0.1
    assert columns(other, "tau").tobytes() == columns(again, "tau").tobytes()
    # The encoders' noise is the same, and links move as the sum of both torques says.
    links = rigid(other, other.exact)
    rotor = np.array([d.armature for d in other.drives])
    moved = links + rotor * other.exact.a - push * quiet.typical[0]
    assert np.abs(moved - other.exact.tau).max() < 2e-3 * np.abs(other.exact.tau).max()


def test_a_clock_that_drifts_and_a_filter_change_only_the_torque() -> None:
    plain = Sensors(torque_noise=0.0)
    logs = [
        Simulator(arm("so101"), short("in class", sensors=s)).run(0)
        for s in (plain, replace(plain, drift=1e-2), replace(plain, low_pass=5.0))
    ]
    assert len({columns(e, "q").tobytes() for e in logs}) == 1
    time, tau = logs[0].exact.time, logs[0].exact.tau
    fast = np.stack([np.interp(1.01 * time, time, x) for x in tau.T], axis=1)
    inside = time < SHORT - 0.1
    size = np.abs(tau).max()
    assert np.abs(columns(logs[1], "tau") - fast)[inside].max() < 0.01 * size
    assert np.abs(columns(logs[1], "tau") - tau)[inside].max() > 0.02 * size
    assert np.abs(columns(logs[2], "tau") - tau).max() > 0.02 * size


def test_gears_yield_as_far_as_their_springs_say() -> None:
    found = run("elastic ripple quantised")
    springs = [next(k for k in d.laws if isinstance(k, Spring)) for d in found.drives]
    still = np.array([k.stiffness for k in springs]) * (found.exact.q - found.exact.link)
    size = np.abs(found.exact.passed).max(axis=0)
    assert np.median(np.abs(still - found.exact.passed) / size) < 0.02
    link_side = short("elastic ripple quantised")
    link_side = replace(link_side, sensors=replace(link_side.sensors, link_side=True))
    seen = Simulator(arm("ur5"), link_side).run(3)
    assert np.array_equal(seen.exact.q, found.exact.link)


def test_play_is_where_nothing_is_passed_on() -> None:
    found = run("backlash")
    gap = table(found.drives)[-1]
    hanging = np.abs(found.exact.q - found.exact.link) < 0.99 * gap
    assert hanging.any()
    assert np.abs(found.exact.passed[hanging]).max() == 0.0


@pytest.mark.parametrize("heading", [0.0, 0.7, 2.5])
def test_a_base_tilts_about_a_level_axis(heading: float) -> None:
    chosen = arm("ur5")
    links = Links.of(chosen.urdf, chosen.joints)
    links.tilt(0.2, heading)
    axis = np.array([np.cos(heading), np.sin(heading), 0.0])
    down = links.model.opt.gravity / np.linalg.norm(links.model.opt.gravity)
    assert abs(down @ axis) < 1e-12
    # The base turns one way about the axis, gravity in its frame the other.
    assert np.allclose(np.cross(axis, [0.0, 0.0, 1.0]) @ down, np.sin(0.2), atol=1e-12)
    assert down[2] == pytest.approx(-np.cos(0.2), rel=1e-12)


def test_a_tilted_base_is_not_in_the_model_file() -> None:
    level, tilted = run("lugre"), run("lugre base tilted")
    assert level.arm.urdf == tilted.arm.urdf
    lost = rigid(tilted, tilted.exact) - tilted.exact.passed
    assert np.abs(lost).max() > 5e-3 * np.abs(tilted.exact.tau).max()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["panda", "so101", "ur5"])
def test_motions_stay_within_limits_and_begin_at_rest(kind: str, name: str) -> None:
    chosen, rng = arm(name), np.random.default_rng(0)
    motion = draw_motion(kind, chosen, rng, -2.0, 25.0)
    time = np.linspace(-2.0, 25.0, 5401)
    q, v, a = motion(time)
    assert (q >= chosen.lower - 1e-9).all() and (q <= chosen.upper + 1e-9).all()
    assert (np.abs(v) <= chosen.speed + 1e-9).all()
    assert not v[0].any() and not a[0].any()
    step = time[1] - time[0]
    assert np.abs(np.gradient(q, step, axis=0) - v)[2:-2].max() < 0.02
    again = draw_motion(kind, chosen, rng, -2.0, 25.0)(time)[0]
    assert np.abs(again - q).max() > 0.1, "drawn anew"
    if isinstance(motion, Moves):
        assert (np.abs(v).max(axis=1) == 0.0).mean() > 0.05, "it dwells"


def test_what_is_believed_is_wrong_and_some_body() -> None:
    chosen = arm("panda")
    believed = replace(chosen, urdf=chosen.believed(np.random.default_rng(0)))
    shares = [believed.links[n].mass / k.mass for n, k in chosen.links.items()]
    assert 0.15 < np.std(np.log(shares)) < 0.6
    assert all(np.linalg.eigvalsh(k.spread).min() > 0.0 for k in believed.links.values())
    moved = [np.linalg.norm(believed.links[n].center - k.center) for n, k in chosen.links.items()]
    assert 0.005 < np.median(moved) < 0.06


def test_ten_parameters_are_those_of_pinocchio() -> None:
    chosen = arm("ur5")
    root = ET.fromstring(chosen.urdf)
    tip = root.findall("joint")[0]
    assert tip is not None
    model = pin.buildModelFromXML(chosen.urdf.decode())
    total = sum(k.mass for k in chosen.links.values())
    moving = sum(i.mass for i in list(model.inertias)[1:])
    assert 0.0 < moving <= total
    upper = chosen.links["upper_arm_link"]
    body = pin.Inertia(upper.mass, upper.center, upper.inertia)
    assert np.allclose(upper.parameters, body.toDynamicParameters(), atol=1e-12)


def test_mujoco_and_pinocchio_agree_on_every_arm() -> None:
    for name in (*DEVELOPMENT, *SCORED):
        chosen, rng = arm(name), np.random.default_rng(1)
        q = rng.uniform(chosen.lower, chosen.upper, (5, len(chosen.joints)))
        v, a = rng.normal(size=(2, *q.shape))
        model = pin.buildModelFromXML(chosen.urdf.decode())
        data = model.createData()
        full = [_configuration(model, row) for row in q]
        right = [pin.rnea(model, data, *row) for row in zip(full, v, a, strict=True)]
        made = Links.of(chosen.urdf, chosen.joints).inverse_dynamics(q, v, a)
        assert np.allclose(made, right, rtol=1e-6, atol=1e-6 * np.abs(right).max()), name


def _configuration(model: pin.Model, q: Array) -> Array:
    """Return pinocchio's configuration, in which a joint without limits is a cosine and a sine."""
    parts = [
        [x] if joint.nq == 1 else [np.cos(x), np.sin(x)]
        for joint, x in zip(list(model.joints)[1:], q, strict=True)
    ]
    return np.array([x for part in parts for x in part])


def test_a_line_is_the_truth_only_where_it_is() -> None:
    rng = np.random.default_rng(0)
    for kind, is_line in (("smooth", True), ("hard", True), ("lugre", False), ("dahl", False)):
        (drive,) = DriveRanges(friction=kind).draw(np.ones(1), np.ones(1), rng)
        assert (line_of(drive, Viscous) is not None) is is_line
        assert (line_of(drive, Coulomb) is not None) is is_line


@pytest.mark.parametrize(
    ("development", "arms", "seeds"),
    [
        (True, ["xarm7"], [0]),
        (True, ["panda"], [1000]),
        (False, ["panda"], [1000]),
        (False, ["z1"], [5]),
    ],
)
def test_what_is_scored_is_not_what_was_chosen_on(
    development: bool, arms: list[str], seeds: list[int]
) -> None:
    with pytest.raises(SystemExit, match="not for"):
        refuse_mixed(development, arms, seeds)
    refuse_mixed(True, list(DEVELOPMENT), range(100))
    refuse_mixed(False, list(SCORED), range(1000, 1010))


@pytest.mark.parametrize(
    ("kind", "said", "reach"),
    [
        ("continuous", 'lower="0" upper="1" effort="3" velocity="2"', (-np.pi, np.pi)),
        ("revolute", 'lower="0" upper="1" effort="3" velocity="2"', (0.0, 1.0)),
        ("revolute", 'lower="0" upper="0" effort="3" velocity="2"', (-np.pi, np.pi)),
        ("revolute", 'lower="-9" upper="9" effort="3" velocity="2"', (-np.pi, np.pi)),
    ],
)
def test_a_joint_turns_once_around_where_its_limits_are_none(
    kind: str, said: str, reach: tuple[float, float], tmp_path: Path
) -> None:
    body = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>'
    path = tmp_path / "arm.urdf"
    path.write_text(
        f'<robot name="arm"><link name="base"/><link name="rod">{body}</inertial></link>'
        f'<joint name="hinge" type="{kind}"><parent link="base"/><child link="rod"/>'
        f'<axis xyz="0 0 1"/><limit {said}/></joint></robot>'
    )
    arm = Arm.of(path)
    assert (arm.lower[0], arm.upper[0]) == reach
    assert (arm.speed[0], arm.effort[0]) == (2.0, 3.0)
