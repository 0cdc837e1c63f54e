"""Simulate, identify, compare with the truth: the whole way, with a wrong model file."""

from __future__ import annotations

import numpy as np
import pytest

from heft.applications.identification.identification import identify
from heft.applications.identification.results import to_json
from heft.information import inertia
from heft.models.robot import Robot
from tests.experiments import ARMS, log, true_robot, wrong_prior

pytestmark = pytest.mark.usefixtures("without_doctor")
SEEDS = range(2)
WELL = 0.5  # share of the prior's doubt that the data took away


def errors(arm: str, seed: int) -> list[tuple[str, float, float, float]]:
    """Return name, share seen, error and std of masses and centres of mass."""
    rng = np.random.default_rng(seed)
    truth = true_robot(ARMS[arm], rng)
    guess = Robot.from_urdf_text(wrong_prior(truth.robot, rng))
    found = identify(guess, [log(truth, 20.0, 100.0, rng)])
    entries = {p["name"]: p for p in to_json(found)["parameters"]}
    rows = []
    for link in truth.robot.bodies_links:
        mass, com, _ = inertia.to_body(link.nominal)
        true = {"mass": mass} | {f"com.{x}": com[i] for i, x in enumerate("xyz")}
        for name, value in true.items():
            entry = entries[f"{link.name}.{name}"]
            rows.append((name, entry["share"], abs(entry["value"] - value), entry["std"]))
    return rows


@pytest.mark.parametrize("arm", ["six joints", "seven joints"])
def test_masses_and_centres_of_well_excited_links_lie_in_their_intervals(arm: str) -> None:
    """With a model file that is 30 % wrong; 95 % intervals that bound the prior's bias."""
    rows = [r for seed in SEEDS for r in errors(arm, seed) if r[1] >= WELL]
    inside = [error <= 1.96 * std for _, _, error, std in rows]
    assert len(rows) >= 20
    # A binomial of 95 % over the links of two robots, three numbers of a link dependent.
    assert np.mean(inside) >= 0.95 - 2.0 * np.sqrt(0.95 * 0.05 / (len(rows) / 3.0))


def test_what_the_data_cannot_tell_stays_with_the_model_file() -> None:
    rng = np.random.default_rng(3)
    truth = true_robot(ARMS["six joints"], rng)
    guess = Robot.from_urdf_text(wrong_prior(truth.robot, rng))
    found = identify(guess, [log(truth, 20.0, 100.0, rng)])
    entries = {p["name"]: p for p in to_json(found)["parameters"]}
    first = guess.bodies_links[0]  # turns about the vertical: its mass never shows
    mass = entries[f"{first.name}.mass"]
    assert mass["seen"] == "not at all"
    assert mass["value"] == pytest.approx(first.nominal[0], rel=1e-3)
    assert mass["std"] >= 0.5 * mass["value"]


def test_friction_and_rotor_inertia_are_found() -> None:
    rng = np.random.default_rng(1)
    truth = true_robot(ARMS["six joints"], rng)
    guess = Robot.from_urdf_text(wrong_prior(truth.robot, rng))
    found = identify(guess, [log(truth, 30.0, 100.0, rng)])
    simple = found.simple
    for name, value in truth.drives.items():
        if name.endswith(("viscous", "coulomb")):
            assert simple.values[name] == pytest.approx(
                value, abs=max(4.0 * simple.std[name], 0.02)
            )


def test_a_longer_log_leaves_less_to_the_prior() -> None:
    rng = np.random.default_rng(2)
    truth = true_robot(ARMS["six joints"], rng)
    guess = Robot.from_urdf_text(wrong_prior(truth.robot, rng))
    scores = []
    held = log(truth, 20.0, 100.0, np.random.default_rng(9), noise=0.0, name="held out")
    for duration in (5.0, 40.0):
        found = identify(guess, [log(truth, duration, 100.0, np.random.default_rng(4))], [held])
        scores.append(next(s.total for s in found.validation if s.filter_hz is not None))
    assert scores[1] < scores[0]
    assert scores[1] < 0.01  # noise of 2 % averaged away; what is left is the filter's
