"""The simulated experiments are what they claim to be: MuJoCo against pinocchio and formulas."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks import coverage
from benchmarks.simulated import experiment, identity

from heft.certainty import DelaySearch
from heft.fit import Settings, first_fit
from heft.plants import Problem, RobotPlant
from heft.signals import Smoothing

SHORT = 10.0  # [s]


@pytest.mark.parametrize("motion", ["periodic", "free"])
@pytest.mark.parametrize("friction", ["full", "simple", "viscous"])
def test_the_simulated_torque_is_the_equation_of_motion(motion: str, friction: str) -> None:
    found = identity(experiment(1, motion, duration=SHORT, friction=friction))  # type: ignore[arg-type]
    rounding = 7 * 100 * np.finfo(float).eps * 100.0  # joints × operations × eps × largest torque
    assert found["dynamics"] < rounding
    assert found["slip"] < 1e-12


def test_positions_velocities_and_accelerations_are_derivatives_of_each_other() -> None:
    coarse, fine = (
        identity(experiment(0, duration=SHORT, reuse=True, step=h, rate=1.0 / h))["kinematics"]
        for h in (1e-3, 5e-4)
    )
    assert coarse < 0.05  # of the torque sensors' noise
    assert fine < coarse / 3.0  # second order: a quarter


def test_an_experiment_is_the_same_each_time_and_another_with_another_seed() -> None:
    one, again, other = (experiment(s, duration=SHORT, rate=250.0) for s in (5, 5, 6))
    assert (one.exact.tau == again.exact.tau).all() and one.urdf_prior == again.urdf_prior
    assert one.urdf_true == other.urdf_true and one.urdf_prior != other.urdf_prior
    assert np.abs(one.exact.tau - other.exact.tau).max() > 0.0


def test_the_torque_is_late_by_the_delay_and_its_noise_is_as_stated() -> None:
    found = experiment(2, noise="ar1", rho=0.8, duration=30.0, delay=0.004)
    names = [f"tau.{j}" for j in found.robot.joints]
    logged = np.concatenate([b.values for b in found.recording.blocks(names)])
    noise = (logged[4:] - found.exact.tau[:-4]) / found.torque_noise_std
    # 30 000 rows at ρ = 0.8 are worth 6 600 for the variance.
    np.testing.assert_allclose(np.var(noise, axis=0), 1.0, atol=5.0 * np.sqrt(2.0 / 6600))
    lagged = np.mean(noise[1:] * noise[:-1], axis=0) / np.var(noise, axis=0)
    np.testing.assert_allclose(lagged, 0.8, atol=5.0 * 0.6 / np.sqrt(len(noise)))


def test_who_knows_the_exact_motion_is_off_by_the_bound() -> None:
    made = [experiment(s, duration=SHORT, rate=250.0, delay=0.0, reuse=True) for s in range(12)]
    ideal = coverage.ideal_covariance(made[0])
    fits = [coverage.reference_fit(e, ideal) for e in made]
    base = len(fits[0].value)  # behind the friction's coefficients
    factor = np.linalg.cholesky(ideal[-base:, -base:])
    count = len(fits) * base
    chi2 = sum(float(np.sum(np.linalg.solve(factor, f.value - f.truth) ** 2)) for f in fits)
    assert abs(chi2 - count) < 5.0 * np.sqrt(2.0 * count)


def test_a_delay_behind_loaded_gears_is_found_where_their_friction_is_known_of() -> None:
    """Without its columns each joint shows a delay of its own, and none is taken."""
    made = experiment(2, duration=20.0)  # whose torque is 2 ms late
    problem = Problem(RobotPlant(made.robot), (made.recording,), Smoothing(), 1).blurred(1.0)
    assert DelaySearch().fit(problem).agreement < DelaySearch().late
    found = DelaySearch().fit(problem.about(first_fit(problem, Settings(threads=1))))
    assert found.delay == pytest.approx(0.002, abs=0.0003)
    assert found.std < 0.0003
