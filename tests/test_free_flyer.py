"""Free-flying bodies: what their actuators can do, by linear programs; and their files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog

from heft.errors import InvalidSetting
from heft.information import inertia
from heft.models import (
    SHIPPED,
    Actuators,
    flight_bounds_from_toml,
    free_flyer_from_toml,
    load_of,
    shipped_free_flyer,
)

BODY = "[body]\nmass = 2.0\ninertia = [0.02, 0.02, 0.03]\n"
ROTOR = "[actuator.one]\nposition = [0.1, 0, 0]\ndirection = [0, 0, 2]\nlimit = [-1, 3]\n"
every_body = pytest.mark.parametrize("name", SHIPPED)


def furthest(actuators: Actuators, direction: np.ndarray) -> float:
    """Return the largest force along a direction without a moment, by a linear program."""
    n = len(actuators)
    along = np.concatenate((direction, np.zeros(3)))
    found = linprog(
        np.append(np.zeros(n), -1.0),
        A_eq=np.column_stack((actuators.mixing, -along)),
        b_eq=np.zeros(6),
        bounds=[*zip(actuators.lower, actuators.upper, strict=True), (0.0, None)],
    )
    assert found.success
    return float(found.x[-1])


def test_the_space_cobot_has_the_published_force_in_every_direction() -> None:
    assert shipped_free_flyer("space_cobot").guaranteed_force() == pytest.approx(11.4, abs=0.05)


@pytest.mark.parametrize("name", ["space_cobot", "astrobee"])
def test_the_guaranteed_force_is_the_least_of_the_largest(name: str) -> None:
    actuators = shipped_free_flyer(name).actuators
    least = actuators.guaranteed_force()
    drawn = np.random.default_rng(0).normal(size=(40, 3))
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    reached = np.array([furthest(actuators, d) for d in drawn])
    assert np.all(reached >= least * (1.0 - 1e-9))
    at = drawn[np.argmin(reached)]  # downhill from there the bound is met
    for size in (0.3, 0.1, 0.03, 0.01, 0.003, 0.001):
        for step in np.random.default_rng(1).normal(size=(40, 3)) * size:
            tried = (at + step) / np.linalg.norm(at + step)
            if furthest(actuators, tried) < furthest(actuators, at):
                at = tried
    assert furthest(actuators, at) == pytest.approx(least, rel=1e-3)


def test_a_direction_that_nothing_pushes_has_no_guaranteed_force() -> None:
    assert shipped_free_flyer("quadrotor").guaranteed_force() == 0.0


def test_a_push_is_its_force_its_lever_and_its_drag() -> None:
    made = Actuators.of_geometry(
        ["a"], np.array([[0.1, 0.0, 0.0]]), np.array([[0.0, 0.0, 2.0]]), np.array([0.02]), [[0, 1]]
    )
    assert made.mixing[:, 0].tolist() == pytest.approx([0.0, 0.0, 1.0, 0.0, -0.1, 0.02])


@every_body
def test_what_can_be_done_holds_all_commands_and_no_more(name: str) -> None:
    actuators = shipped_free_flyer(name).actuators
    can = actuators.attainable
    rng = np.random.default_rng(2)
    u = rng.uniform(actuators.lower, actuators.upper, size=(200, len(actuators)))
    away = np.abs(actuators.wrench(u) @ can.normals.T - can.middle)
    assert np.all(away <= can.reach * (1.0 + 1e-9))
    # Pushed along a normal as hard as they can, actuators reach that facet.
    gain = can.normals @ actuators.mixing
    ends = np.where(gain > 0.0, actuators.upper, actuators.lower)
    reached = np.sum(gain * ends, axis=1) - can.middle
    assert reached == pytest.approx(can.reach, rel=1e-9)
    assert actuators.saturated(ends).all()
    assert not actuators.saturated(0.5 * (actuators.lower + actuators.upper)[None]).any()


@every_body
def test_bodies_that_come_along_can_exist(name: str) -> None:
    flyer = shipped_free_flyer(name)
    assert inertia.consistency_margin(flyer.nominal) > 0.0
    assert flyer.actuators.pushes_all_ways == (name != "quadrotor")


def test_a_load_adds_its_parameters_about_the_frame() -> None:
    flyer, load = shipped_free_flyer("space_cobot"), load_of("1.2kg@0.20,0.06,-0.10")
    mass, com, central = inertia.to_body(flyer.with_load(load))
    assert mass == pytest.approx(7.247)
    assert com == pytest.approx(1.2 / 7.247 * np.array([0.2, 0.06, -0.1]))
    own = inertia.to_body(load.parameters)[2]
    assert own == pytest.approx(1.2 * 0.01 / 6.0 * np.eye(3))  # a cube of ten centimetres
    assert np.linalg.eigvalsh(central).min() > 0.0


@pytest.mark.parametrize(
    "text", ["1.2@0,0,0", "kg@0,0,0", "-1kg@0,0,0", "1kg@0,0", "1kg@a,0,0", ""]
)
def test_a_load_that_is_none_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidSetting, match="MASSkg@X,Y,Z"):
        load_of(text)


WRONG: Mapping[str, tuple[str, str]] = {
    "no actuators": (BODY, "either"),
    "both ways": (
        BODY + ROTOR + '[mixing]\nactuators=["a"]\nmatrix=[[1],[0],[0],[0],[0],[0]]\n'
        "limit=[[0,1]]\n",
        "either",
    ),
    "no body": (ROTOR, "body"),
    "no such inertia": (BODY.replace("0.03", "0.3") + ROTOR, "no body has this inertia"),
    "no direction": (BODY + ROTOR.replace("[0, 0, 2]", "[0, 0, 0]"), "no direction"),
    "empty range": (BODY + ROTOR.replace("[-1, 3]", "[3, 3]"), "range of commands"),
    "misspelt": (BODY + ROTOR.replace("direction", "directoin"), "did you mean 'direction'"),
    "five rows": (
        BODY + '[mixing]\nactuators=["a"]\nmatrix=[[1],[0],[0],[0],[0]]\nlimit=[[0,1]]\n',
        "six rows",
    ),
    "limits": (
        BODY + '[mixing]\nactuators=["a"]\nmatrix=[[1],[0],[0],[0],[0],[0]]\nlimit=[]\n',
        "one \\[least, largest\\] an actuator",
    ),
    "mass": (BODY.replace("2.0", "-2.0") + ROTOR, "mass"),
    "name": ('name = "a b"\n' + BODY + ROTOR, "letters"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_file_that_is_wrong_is_refused_with_the_reason(case: str, tmp_path: Path) -> None:
    text, reason = WRONG[case]
    (tmp_path / "body.toml").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidSetting, match=reason):
        free_flyer_from_toml(tmp_path / "body.toml")


def test_a_matrix_says_the_same_as_positions_and_directions(tmp_path: Path) -> None:
    drawn = shipped_free_flyer("space_cobot")
    a = drawn.actuators
    rows = ", ".join(str([float(x) for x in row]) for row in a.mixing)
    text = (
        f"{BODY}[mixing]\nactuators = {list(a.names)!r}\nmatrix = [{rows}]\n"
        f"limit = {[[-5.7, 5.7]] * 6}\nnoise = 0.06\n"
    )
    (tmp_path / "body.toml").write_text(text, encoding="utf-8")
    read = free_flyer_from_toml(tmp_path / "body.toml")
    assert np.array_equal(read.mixing, a.mixing)
    assert read.guaranteed_force() == a.guaranteed_force()


def test_bounds_take_one_number_or_three(tmp_path: Path) -> None:
    text = "[motion]\nposition = 0.5\nvelocity = [1, 2, 3]\n[payload]\nmass = 1\n"
    path = tmp_path / "bounds.toml"
    path.write_text(text + "position = [[0, 0.1], [0, 0], [-0.1, 0.1]]\n", encoding="utf-8")
    bounds = flight_bounds_from_toml(path)
    assert bounds.position == (0.5, 0.5, 0.5) and bounds.velocity == (1.0, 2.0, 3.0)
    assert bounds.payload is not None and len(bounds.payload.vertices) == 4
    assert bounds.faster(2.0).velocity == (2.0, 4.0, 6.0)
    assert bounds.faster(2.0).position == bounds.position
    path.write_text("[motion]\nvelocity = 0\n", encoding="utf-8")
    with pytest.raises(InvalidSetting, match="positive"):
        flight_bounds_from_toml(path)
