"""Whether a robot can have given base parameters: by hand where it can be, by laws elsewhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from heft.estimators import nearest_robot
from heft.estimators.feasible_set import scaled_metric, unstack
from heft.information import SYMBOLS, UNITS, Labels, ParameterSpace, inertia
from heft.plants import plant_of, structural_base
from tests import robots

TEN = Labels(tuple(f"rod.{s}" for s in SYMBOLS), UNITS, "rod")
INERTIA, FIRST_X = SYMBOLS.index("I.zz"), SYMBOLS.index("h.x")


def rod(*told: int) -> ParameterSpace:
    """Return the space of one body of which some parameters are base parameters."""
    space = ParameterSpace.of_one_body(TEN, inertia.sphere(2.0, 0.1))
    return replace(space, matrix=np.eye(10)[list(told)])


@pytest.mark.parametrize("share", [-3.0, -0.1, 0.2, 0.999, 1.0, 5.0])
def test_of_an_inertia_alone_the_margin_is_its_share_of_the_models(share: float) -> None:
    """⟨A, u⟩ = share ⟨A, 1⟩ with A ⪰ 0 and u = t·1 + P, P ⪰ 0, allows t = share at most."""
    space = rod(INERTIA)
    value = share * space.nominal[INERTIA]
    found = nearest_robot(np.array([value]), space)
    assert found.margin == pytest.approx(min(share, 1.0), abs=1e-6)
    assert found.values[INERTIA] == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize(("inertia_", "exists"), [(1e-3, True), (-1e-3, False)])
def test_a_pendulum_exists_where_its_inertia_is_positive(inertia_: float, exists: bool) -> None:
    """A mass large enough lets any first moment be one of a positive inertia."""
    found = nearest_robot(np.array([inertia_, 0.5]), rod(INERTIA, FIRST_X))
    assert (found.margin > 0.0) == exists
    assert (inertia.consistency_margin(found.values) > 0.0) == exists
    if exists:
        assert found.values[0] > 0.5**2 / inertia_


def arm() -> ParameterSpace:
    """Return the standard parameters of the planar arm, with the map to its base parameters."""
    plant = plant_of(robots.planar_arm(drives=True))
    space = plant.space
    matrix = structural_base(plant).matrix @ space.matrix
    return replace(space, matrix=matrix, gyration=())


@pytest.mark.parametrize("seed", range(5))
def test_what_a_robot_has_is_possible_whatever_the_shortest_says(seed: int) -> None:
    space, rng = arm(), np.random.default_rng(seed)
    truth = np.abs(rng.normal(size=len(space.labels)))
    for k in space.groups:
        factor = rng.normal(size=(4, 4)) * np.array([0.1, 0.1, 0.1, 1.5])[:, None]
        truth[k : k + 10] = inertia.from_pseudo_inertia(factor @ factor.T)
    base = space.matrix @ truth
    found = nearest_robot(base, space)
    scaled = np.linalg.solve(scaled_metric(space), truth)
    own = [np.linalg.eigvalsh(unstack(scaled[k : k + 10]))[0] for k in space.groups]
    assert found.margin >= min(*own, 1.0) - 1e-6 and found.margin > 0.0
    assert np.allclose(space.matrix @ found.values, base, atol=1e-9 * np.abs(base).max())


def test_what_no_robot_has_is_told_by_how_much() -> None:
    """The last link's inertia about its own joint is a base parameter by itself."""
    space = arm()
    base = space.matrix @ space.nominal
    assert nearest_robot(base, space).margin == pytest.approx(1.0, abs=1e-6)
    (place,) = np.flatnonzero(
        [r[space.groups[-1] + INERTIA] == 1.0 and np.count_nonzero(r) == 1 for r in space.matrix]
    )
    margins = []
    for share in (0.0, -0.5, -1.0):
        wrong = base.copy()
        wrong[place] = share * base[place]
        margins.append(nearest_robot(wrong, space).margin)
        others = [k for k in range(len(base)) if k != place]
        assert nearest_robot(wrong, space, others).margin > 0.0
    assert 1e-6 >= margins[0] > margins[1] > margins[2]


def test_a_rotor_that_only_a_sum_tells_is_not_negative() -> None:
    """Rotor and body are told as one inertia, larger than zero; alone the rotor would be less."""
    labels = Labels((*TEN.names, "rotor"), (*TEN.units, "kg·m²"), "rod")
    nominal = np.append(inertia.sphere(2.0, 0.1), 0.0)
    matrix = np.zeros((1, 11))
    matrix[0, [INERTIA, 10]] = 1.0
    space = ParameterSpace(labels, matrix, nominal, (0,), (10,))
    found = nearest_robot(np.array([0.3 * nominal[INERTIA]]), space)
    assert found.margin == pytest.approx(0.3, abs=1e-6) and found.values[10] >= -1e-9
    told = replace(space, matrix=np.eye(11)[[INERTIA, 10]])
    negative = nearest_robot(np.array([nominal[INERTIA], -1.0]), told)
    assert negative.margin == pytest.approx(1.0, abs=1e-6)
