"""Laws of trajectories: derivatives, conditions at the ends, bounds between samples, files."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from heft.errors import InvalidRecording, InvalidSetting
from heft.excitation.trajectories import Basis, ExcitationTrajectory, Family, Fourier, Spline

Array = np.ndarray[Any, np.dtype[np.float64]]
BASES: dict[str, Basis] = {
    "one period": Fourier(10.0),
    "more than a period": Fourier(21.0, 5, 0.075),
    "less than a period": Fourier(8.0, 4, 0.1),
    "spline": Spline(6.0, 9),
    "cubic spline": Spline(6.0, 9, 3),
}
every_basis = pytest.mark.parametrize("basis", BASES.values(), ids=BASES)


def drawn(family: Family, seed: int = 0, joints: int = 3) -> ExcitationTrajectory:
    X = np.random.default_rng(seed).normal(size=(family.unknowns, joints))
    names = tuple(f"j{k}" for k in range(joints))
    return family.trajectory(X, names, ("rad",) * joints)


@every_basis
@pytest.mark.parametrize("order", range(4))
def test_each_derivative_is_that_of_the_one_before(basis: Basis, order: int) -> None:
    motion = drawn(Family(basis, "none"))
    # Between knots, where polynomials of the spline's degree have all derivatives.
    t = basis.duration * (np.arange(9) + 0.37) / 9.0
    h = 1e-4
    slope = (motion.derivative(t + h, order) - motion.derivative(t - h, order)) / (2.0 * h)
    exact = motion.derivative(t, order + 1)
    assert np.abs(slope - exact).max() <= 1e-5 * max(np.abs(exact).max(), 1.0)


@every_basis
@pytest.mark.parametrize("rest", ["both", "start", "none"])
def test_it_rests_where_it_is_to_exactly(basis: Basis, rest: Any) -> None:
    motion = drawn(Family(basis, rest))
    for at, rests in ((0.0, rest != "none"), (basis.duration, rest == "both")):
        _, v, a = motion(np.array([at]))
        if rests:
            assert max(np.abs(v).max(), np.abs(a).max()) <= 1e-12


@every_basis
@pytest.mark.parametrize("start", [None, (0.3, -0.2, 1.1)])
def test_unknowns_come_back_of_their_coefficients(basis: Basis, start: Any) -> None:
    family = Family(basis, "start", start=start)
    X = np.random.default_rng(1).normal(size=(family.unknowns, 3))
    assert np.abs(family.unknowns_of(family.coefficients(X)) - X).max() <= 1e-12


def test_conditions_that_repeat_one_another_cost_nothing() -> None:
    """The end of a period is its start: two conditions, not four."""
    assert Family(Fourier(10.0, 5), "both").unknowns == Family(Fourier(10.0, 5), "start").unknowns
    assert Family(Fourier(10.0, 5), "both").unknowns == 9
    assert Family(Fourier(21.0, 5, 0.075), "both").unknowns == 7


@every_basis
def test_it_starts_where_it_is_told(basis: Basis) -> None:
    family = Family(basis, "start", start=(0.3, -1.0, 2.0))
    q, v, _ = drawn(family)(np.array([0.0]))
    assert np.allclose(q, [[0.3, -1.0, 2.0]], atol=1e-12) and np.abs(v).max() <= 1e-12
    free = Family(basis, "start").unknowns
    assert family.unknowns == free - 1


def test_a_fourier_series_repeats_after_its_period() -> None:
    motion = drawn(Family(Fourier(21.0, 5, 0.075)))
    t = np.linspace(0.0, 1.0 / 0.075, 7)
    assert np.allclose(motion.derivative(t), motion.derivative(t + 1.0 / 0.075))


@pytest.mark.parametrize("order", range(4))
@pytest.mark.parametrize("count", [11, 24, 96])
def test_no_series_exceeds_its_grid_by_more_than_is_said(order: int, count: int) -> None:
    basis = Fourier(10.0, 5)
    coarse = np.linspace(0.0, basis.span, count, endpoint=False)
    dense = np.linspace(0.0, basis.span, 20_000)
    rng = np.random.default_rng(order)
    C = rng.normal(size=(basis.size, 400))
    on_grid = np.abs(basis.matrix(coarse, order) @ C).max(axis=0)
    anywhere = np.abs(basis.matrix(dense, order) @ C).max(axis=0)
    assert np.all(anywhere <= basis.overshoot(count) * on_grid * (1.0 + 1e-12))


def test_the_bound_between_samples_is_reached() -> None:
    """cos(5ωt), sampled midway between its extremes at a count that it divides."""
    basis, count = Fourier(10.0, 5), 20
    t = np.arange(count) * basis.span / count
    shift = np.pi / 4.0  # of a quarter of the distance of samples in phase
    seen = np.abs(np.cos(5.0 * 2.0 * np.pi * 0.1 * t + shift)).max()
    assert basis.overshoot(count) == pytest.approx(1.0 / seen)
    assert Fourier(10.0, 5).overshoot(10) == np.inf


@every_basis
def test_a_file_gives_back_the_motion(basis: Basis) -> None:
    motion = drawn(Family(basis))
    again = ExcitationTrajectory.from_dict(json.loads(json.dumps(motion.to_dict())))
    assert again.basis == basis and again.names == motion.names
    t = motion.times(7.0)
    assert t[-1] == basis.duration
    assert all(np.array_equal(a, b) for a, b in zip(motion(t), again(t), strict=True))


def broken(**changes: Any) -> dict[str, Any]:
    return drawn(Family(Fourier(10.0))).to_dict() | changes


@pytest.mark.parametrize(
    "table",
    [
        {},
        broken(format="heft-trajectory-0"),
        broken(coefficients=[[1.0]]),
        broken(coefficients="x"),
        broken(basis={"kind": "polynomial"}),
        broken(basis={"kind": "fourier", "duration": -1.0}),
        broken(basis=None),
        broken(units=["rad"]),
        broken(coefficients=[[float("nan")] * 3] * 11),
    ],
)
def test_what_is_no_trajectory_is_refused(table: dict[str, Any]) -> None:
    with pytest.raises(InvalidRecording, match="trajectory"):
        ExcitationTrajectory.from_dict(table)


def test_shrinking_keeps_the_posture_and_scales_all_else() -> None:
    motion, about = drawn(Family(Spline(6.0, 9))), np.array([0.5, 0.0, -0.2])
    t = motion.times(5.0)
    small = motion.shrunk(0.25, about)
    assert np.allclose(small.derivative(t) - about, 0.25 * (motion.derivative(t) - about))
    assert np.allclose(small.derivative(t, 2), 0.25 * motion.derivative(t, 2))


@every_basis
def test_rest_is_a_motion_of_every_family(basis: Basis) -> None:
    posture = np.array([0.5, 0.0, -0.2])
    family = Family(basis)
    motion = family.trajectory(family.still(posture), ("a", "b", "c"), ("rad",) * 3)
    q, v, a = motion(motion.times(3.0))
    assert np.allclose(q, posture, atol=1e-12)
    assert max(np.abs(v).max(), np.abs(a).max()) <= 1e-10


@pytest.mark.parametrize(
    "make",
    [
        lambda: Fourier(-1.0),
        lambda: Fourier(10.0, 0),
        lambda: Fourier(10.0, 5, 0.0),
        lambda: Spline(10.0, 0),
        lambda: Spline(10.0, 4, 2),
        lambda: Family(Fourier(8.0, 1, 0.1), "both").null_space,
    ],
)
def test_what_cannot_move_is_refused(make: Any) -> None:
    with pytest.raises(InvalidSetting):
        make()


@pytest.mark.parametrize("rate", [0.5, 7.0, 100.0])
def test_times_are_at_the_rate_from_the_beginning_to_the_end(rate: float) -> None:
    t = drawn(Family(Spline(6.0, 9))).times(rate)
    assert t[0] == 0.0 and t[-1] == 6.0
    assert np.allclose(np.diff(t), 1.0 / rate, rtol=1e-12)
