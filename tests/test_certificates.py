"""Laws of certificates: never below the truth between samples, nearly as low, and found out.

Motions built to break a limit where nobody looks must not be certified.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heft.arrays import Array
from heft.dynamics import kernels
from heft.errors import InvalidSetting
from heft.excitation import (
    BoundedMotion,
    Certificate,
    Clearance,
    Fourier,
    Loads,
    Proof,
    Spline,
    certify_clearance,
    certify_efforts,
    certify_joints,
)
from heft.excitation.effort_proofs import effort_rate
from heft.models import MotionLimits, Options, Robot, fit_capsules, motion_limits

from .robots import load, path_of

UR10 = "ur_description/urdf/ur10_robot.urdf"
FILES = (
    UR10,
    "panda_description/urdf/panda.urdf",  # prismatic fingers, one of which mimics
    "kinova_description/robots/kinova.urdf",
    "pr2_description/urdf/pr2.urdf",
)


def series(base: float, constant: Array, cosine: Array, sine: Array, duration: float):
    """Return c + Σ aₖ cos(k ω t) + bₖ sin(k ω t)."""
    count, joints = cosine.shape
    harmonic = np.arange(1, count + 1)[:, None]
    coefficients = np.zeros((2 * count + 1, joints))
    coefficients[0], coefficients[1::2] = constant, harmonic * sine
    coefficients[2::2] = harmonic * cosine
    return BoundedMotion(Fourier(duration, count, base / (2.0 * math.pi)), coefficients)


def harmonic(rng: np.random.Generator, joints: int, degree: int = 5, size: float = 0.3):
    cosine, sine = size * rng.normal(size=(2, degree, joints))
    return series(0.9, rng.normal(size=joints), cosine, sine, 2.0 * math.pi / 0.9)


def spline(rng: np.random.Generator, joints: int, degree: int = 5) -> BoundedMotion:
    basis = Spline(6.0, 13, degree)
    return BoundedMotion(basis, rng.normal(size=(basis.size, joints)))


def fine(motion: BoundedMotion, count: int = 20_001) -> Array:
    return np.linspace(0.0, motion.duration, count)


def motions(seed: int) -> list[BoundedMotion]:
    rng = np.random.default_rng(seed)
    coarse = replace(harmonic(rng, 3), looks=3)
    return [harmonic(rng, 3), coarse, harmonic(rng, 3, degree=1), spline(rng, 3), spline(rng, 3, 3)]


@given(st.integers(0, 2**31))
@settings(max_examples=20, deadline=None)
def test_extremes_are_never_exceeded(seed: int) -> None:
    for motion in motions(seed):
        for order in range(5):
            values = motion.derivative(order, fine(motion, 4001))
            least, most = motion.extremes(order)
            room = 1e-12 * np.abs(values).max()
            assert (values >= least - room).all() and (values <= most + room).all()


def test_extremes_are_close() -> None:
    rng = np.random.default_rng(3)
    for motion, share in ((harmonic(rng, 4), 1e-3), (spline(rng, 4), 0.05)):
        for order in range(3):
            values = motion.derivative(order, fine(motion))
            size = np.ptp(values, axis=0)
            least, most = motion.extremes(order)
            assert (most - values.max(axis=0) <= share * size).all()
            assert (values.min(axis=0) - least <= share * size).all()


@given(st.integers(0, 2**31))
@settings(max_examples=10, deadline=None)
def test_sizes_on_intervals_are_never_exceeded(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for motion in motions(seed):
        edges = np.sort(rng.uniform(0.0, motion.duration, 30))
        for order in range(5):
            bound = motion.largest(order, edges[:-1], edges[1:])
            for k in range(len(edges) - 1):
                time = np.linspace(edges[k], edges[k + 1], 50)
                values = np.abs(motion.derivative(order, time)).max(axis=0)
                assert (values <= bound[k] * (1.0 + 1e-9) + 1e-12).all()


def test_a_peak_between_samples_is_found() -> None:
    """A harmonic that is zero at every sample of a grid is as large as it is."""
    zero, one = np.zeros((10, 1)), np.zeros((10, 1))
    one[-1] = 1.5
    motion = series(2.0 * math.pi, np.zeros(1), zero, one, 1.0)
    assert np.abs(motion.derivative(0, np.arange(20) / 20.0)).max() < 1e-12
    for looks in (3, 256):
        least, most = replace(motion, looks=looks).extremes(0)
        assert most[0] >= 1.5 and least[0] <= -1.5


def free(joints: tuple[str, ...]) -> MotionLimits:
    wide = np.full(len(joints), 1e9)
    still = np.zeros(len(joints), dtype=bool)
    return MotionLimits(joints, -wide, wide, wide, wide, wide, wide, wide, math.inf, still)


def test_limits_of_joints_hold_or_are_told() -> None:
    motion = harmonic(np.random.default_rng(0), 2)
    worst = [np.abs(motion.derivative(k, fine(motion))).max(axis=0) for k in range(4)]
    for change, holds in ((1.001, True), (0.999, False)):
        limits = replace(
            free(("a", "b")),
            **{k: change * worst[n] for n, k in enumerate(("acceleration", "jerk"), 2)},
            upper=motion.extremes(0)[1] + 1e-9,
        )
        found = certify_joints(motion, limits)
        assert {c.quantity for c in found} == {
            *("least position", "position", "velocity", "acceleration", "jerk")
        }
        for c in found:
            touched = c.quantity in ("acceleration", "jerk")
            assert c.holds == (holds or not touched)
            assert c.broken == (touched and not holds)
            order = ("position", "velocity", "acceleration", "jerk").index(c.quantity.split()[-1])
            value = motion.derivative(order, np.array([c.time]))[0, int(c.of == "b")]
            assert abs(value) == pytest.approx(abs(c.seen))
            assert ("beyond" in c.text()) == c.broken


# ---- torque -----------------------------------------------------------------------------------


def torque(robot: Robot, motion: BoundedMotion, time: Array) -> Array:
    q, v, a = (motion.derivative(k, time) for k in range(3))
    samples = kernels.motion_of(robot.tree, robot.gravity, q, v, a)
    return kernels.inverse_dynamics(robot.tree, samples, bodies(robot)).T


def bodies(robot: Robot) -> Array:
    return robot.nominal()[: 10 * len(robot.tree.names)]


@pytest.mark.parametrize("file", FILES)
def test_torques_change_no_faster_than_their_bound(file: str) -> None:
    """At each time, with the motion's own derivatives there, against central differences."""
    robot = load(file)
    rng = np.random.default_rng(1)
    motion = harmonic(rng, len(robot.joints), size=0.1)
    time, step = rng.uniform(0.0, motion.duration, 50), 1e-4
    rates = [np.abs(motion.derivative(k, time)) for k in range(5)]
    before, now, after = (torque(robot, motion, time + s) for s in (-step, 0.0, step))
    slope, curve = (after - before) / (2.0 * step), (after + before - 2.0 * now) / step**2
    for order, seen in ((1, slope), (2, curve)):
        bound = effort_rate(robot.tree, robot.gravity, bodies(robot), rates, order)
        rounding = 1e-6 * np.abs(now).max() * (1.0 if order == 1 else 10.0)
        assert (np.abs(seen) <= bound + rounding).all()


@pytest.mark.parametrize("make", [harmonic, spline])
@pytest.mark.parametrize("proof", [Proof(4.0, 0), Proof(4.0, 3), Proof()])
def test_torque_and_power_are_never_above_their_certificates(make, proof: Proof) -> None:
    robot = load(UR10)
    motion = make(np.random.default_rng(7), len(robot.joints))
    inertia, viscous, coulomb = np.full(6, 0.5), np.full(6, 3.0), np.full(6, 5.0)

    def friction(slow: Array, fast: Array) -> tuple[Array, Array]:
        return viscous * slow + coulomb * np.sign(slow), viscous * fast + coulomb * np.sign(fast)

    loads = Loads(robot.tree, robot.gravity, bodies(robot), np.diag(inertia), friction)
    time = fine(motion)
    v, a = motion.derivative(1, time), motion.derivative(2, time)
    truth = torque(robot, motion, time) + inertia * a + friction(v, v)[0]
    worst = np.concatenate([np.abs(truth).max(axis=0), (truth * v).max(axis=0)])
    limits = replace(free(robot.joints), effort=1.05 * worst[:6], power=1.05 * worst[6:])
    found = certify_efforts(motion, loads, limits, proof)
    assert [c.quantity for c in found] == ["effort"] * 6 + ["power"] * 6
    for c, true in zip(found, worst, strict=True):
        assert true * (1.0 - 1e-9) <= c.bound
        assert c.seen <= c.bound
        assert not c.broken
    if proof.rounds == 10:
        assert all(c.holds for c in found)
        tight = replace(limits, effort=0.99 * worst[:6])
        broken = [c for c in certify_efforts(motion, loads, tight, proof) if c.broken]
        assert len(broken) == 6 and not any(c.holds for c in broken)


def test_vertices_of_the_prior_count_and_coarse_splines_are_refused() -> None:
    robot = load(UR10)
    motion = harmonic(np.random.default_rng(2), 6)
    heavy = 1.3 * bodies(robot)
    both = Loads(robot.tree, robot.gravity, np.array([bodies(robot), heavy]))
    one = replace(both, parameters=heavy)
    for a, b in zip(
        certify_efforts(motion, both, free(robot.joints)),
        certify_efforts(motion, one, free(robot.joints)),
        strict=True,
    ):
        assert a.bound == pytest.approx(b.bound)
    with pytest.raises(InvalidSetting, match="continuous acceleration"):
        spline(np.random.default_rng(0), 6, degree=2)


# ---- clearance --------------------------------------------------------------------------------


def above_floor(height: float) -> tuple[Clearance, MotionLimits]:
    options = Options.from_dict({"motion": {"floor": height, "clearance": 0.0}})
    robot = Robot.from_file(path_of(UR10), options)
    limits = motion_limits(robot)
    return Clearance.of(robot, fit_capsules(robot, path_of(UR10).parent), limits), limits


@cache
def clear() -> Clearance:
    return above_floor(0.0)[0]


def worst(found: tuple[Certificate, ...]) -> Certificate:
    return min(found, key=lambda c: c.bound)


@pytest.mark.parametrize("make", [harmonic, spline])
def test_clearance_is_never_below_its_certificate(make) -> None:
    for seed in range(4):
        motion = make(np.random.default_rng(seed), 6)
        truth = clear().values(motion.derivative(0, fine(motion))).min(axis=0)
        for proof in (Proof(3.0, 0), Proof(3.0, 3), Proof()):
            found = certify_clearance(motion, clear(), proof)
            bounds = np.array([c.bound for c in found])
            assert (bounds <= truth + 1e-12).all()
        assert worst(found).seen - truth.min() < 0.05
        assert any(c.broken for c in found) == (truth.min() < 0.0)


def test_a_collision_shorter_than_a_step_is_found() -> None:
    """The arm dips below the floor between any two samples of a grid, and at none of them."""
    step = 0.02
    middle = np.array([0.0, -0.35, 0.0, 0.0, 0.0, 0.0])
    sway = np.zeros((1, 6))
    sway[0, 1] = 0.02
    motion = series(2.0 * math.pi / step, middle, sway, np.zeros((1, 6)), 50 * step)
    between = (np.arange(50) + 0.5) * step  # where the certificate looks first, too
    low = clear().values(motion.derivative(0, fine(motion))).min(axis=0)
    high = clear().values(motion.derivative(0, between)).min(axis=0)
    floor = np.array([names[1] == "floor" for names in clear().names])
    m = int(np.argmax(np.where(floor, high - low, 0.0)))
    high = high[m]
    assert high > low[m] + 0.01
    height = (high + low[m]) / 2.0
    dipping = replace(clear(), spaces=clear().spaces + np.array([0.0, 0.0, 0.0, height]))
    assert (dipping.values(motion.derivative(0, between)) > 0.0)[:, m].all()
    found = certify_clearance(motion, dipping)
    assert worst(found).broken and not worst(found).holds
    assert dipping.values(motion.derivative(0, np.array([worst(found).time]))).min() < 0.0
    safe = replace(
        clear(), spaces=clear().spaces + np.array([0.0, 0.0, 0.0, low[floor].min() - 1e-3])
    )
    assert all(c.holds for c in certify_clearance(motion, safe) if c.of.endswith("floor"))
    assert worst(certify_clearance(motion, safe)).bound == pytest.approx(1e-3, abs=3e-4)
    # What is said is the distance, and the limit is the distance that is required.
    asked = certify_clearance(motion, replace(safe, required=safe.required + 0.02))
    for one, other in zip(asked, certify_clearance(motion, safe), strict=True):
        assert one.limit == other.limit + 0.02 and one.seen == pytest.approx(other.seen, abs=1e-3)
        assert one.margin == pytest.approx(one.bound - one.limit, abs=1e-15)
    # A clearance smaller than what is good enough elsewhere is still proven, or found broken.
    for gap in (2e-5, -2e-5):
        shift = np.array([0.0, 0.0, 0.0, low[floor].min() - gap])
        near = replace(clear(), spaces=clear().spaces + shift)
        certificate = worst(certify_clearance(motion, near))
        assert certificate.holds == (gap > 0.0) and certificate.broken == (gap < 0.0)
