"""Masses from a scale and mirror images: rows beside those of the data, of the strength stated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from heft.applications.demo import FOLDER as DEMO
from heft.applications.identification.inputs import identify
from heft.applications.identification.results import schema, write
from heft.errors import InvalidSetting
from heft.estimators import KnownMass, MirrorImages, PhysicallyConsistent, cone_metric
from heft.estimators.consistent import stated_numbers
from heft.estimators.feasible_set import mirror_signs
from heft.fit.settings import Settings
from heft.information import Labels, ParameterSpace, Triangle, inertia
from heft.models.options import Options
from heft.signals.settings import Smoothing

pytestmark = pytest.mark.usefixtures("without_doctor")

Array = np.ndarray[Any, np.dtype[np.float64]]
NAMES = ("left", "right", "trunk")


def body(mass: float, com: Array, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(3, 3))
    spread = mass * 0.02 * (half @ half.T + 0.3 * np.eye(3))
    return inertia.from_body(mass, com, np.trace(spread) * np.eye(3) - spread)


def space_of(nominal: list[Array]) -> ParameterSpace:
    labels = Labels(
        tuple(f"{n}.{s}" for n in NAMES for s in inertia.SYMBOLS),
        tuple(inertia.UNITS) * len(NAMES),
        "made",
    )
    return ParameterSpace(labels, np.eye(30), np.concatenate(nominal), (0, 10, 20))


def three() -> ParameterSpace:
    com = np.array([0.1, 0.05, -0.2])
    return space_of([body(2.0, com, 1), body(3.0, -com, 2), body(8.0, 0.0 * com, 3)])


def silent(space: ParameterSpace) -> Triangle:
    """Return the information of rows that say nothing."""
    return Triangle(np.arange(space.size), np.zeros((space.size + 1, space.size + 1)), 1)


def test_a_mirror_of_a_body_is_the_body_of_mirrored_points() -> None:
    rng = np.random.default_rng(5)
    points, masses = rng.normal(size=(20, 3)), rng.uniform(0.1, 1.0, 20)

    def ten(at: Array) -> Array:
        com = masses @ at / masses.sum()
        r = at - com
        spread = np.einsum("n,ni,nj->ij", masses, r, r)
        return inertia.from_body(masses.sum(), com, np.trace(spread) * np.eye(3) - spread)

    for axis in range(3):
        turned = points.copy()
        turned[:, axis] *= -1.0
        assert mirror_signs(axis) * ten(points) == pytest.approx(ten(turned), abs=1e-12)


@pytest.mark.parametrize("prior", ["quadratic", "logdet"])
def test_a_scale_surer_than_the_prior_is_what_the_masses_sum_to(prior: Any) -> None:
    space = three()
    for links, places in ((NAMES[:2], [0, 10]), ((), [0, 10, 20])):
        known = (KnownMass(links, 6.0, 1e-4),)
        (row,) = known[0].rows(space)
        assert row[places] == pytest.approx(1e4) and row[-1] == pytest.approx(6e4)
        found = PhysicallyConsistent(prior=prior, known=known).fit(silent(space), space)
        assert found.parameters.values[places].sum() == pytest.approx(6.0, abs=1e-3)
        covariance = found.parameters.covariance
        assert covariance is not None
        ones = np.isin(np.arange(30), places).astype(float)
        assert np.sqrt(ones @ covariance @ ones) == pytest.approx(1e-4, rel=0.05)
    plain = PhysicallyConsistent(prior=prior).fit(silent(space), space)
    assert plain.parameters.values == pytest.approx(space.nominal, rel=1e-6, abs=1e-9)


def test_an_unsure_scale_and_the_prior_meet_by_their_weights() -> None:
    """Of one body only the direction counts in which its mass grows fastest: by least squares."""
    space, strength = three(), 10.0
    known = KnownMass(("left",), 2.5, 0.3)
    found = PhysicallyConsistent(strength=strength, known=(known,)).fit(silent(space), space)
    reach = cone_metric(space.nominal[:10])[0]  # of the mass, by unknowns of unit prior
    variance = reach @ reach / strength
    gain = variance / (variance + 0.3**2)
    wanted = space.nominal[0] + gain * (2.5 - space.nominal[0])
    assert found.parameters.values[0] == pytest.approx(wanted, rel=1e-9)
    assert found.parameters.values[10:] == pytest.approx(space.nominal[10:], rel=1e-9, abs=1e-12)


def test_images_become_alike_the_stronger_the_belief() -> None:
    space = three()
    signs = mirror_signs(1)
    gaps = []
    for strength in (1e-3, 10.0, 1e6):
        known = (MirrorImages("left", "right", "y", strength),)
        x = PhysicallyConsistent(known=known).fit(silent(space), space).parameters.values
        gaps.append(np.abs(x[:10] - signs * x[10:20]).max())
        assert x[20:] == pytest.approx(space.nominal[20:], rel=1e-6, abs=1e-9)
    assert gaps[0] > gaps[1] > gaps[2] and gaps[2] <= 1e-3 * gaps[0]


def test_what_the_data_say_of_one_limb_is_told_of_its_image() -> None:
    com = np.array([0.1, 0.05, -0.2])
    left = body(2.0, com, 1)
    space = space_of([left, mirror_signs(1) * left, body(8.0, 0.0 * com, 3)])
    truth = space.nominal.copy()
    truth[:10] = body(2.6, com, 4)
    sure = np.zeros((31, 31))
    sure[:10, :10], sure[:10, 30] = 1e4 * np.eye(10), 1e4 * truth[:10]
    triangle = Triangle(np.arange(30), sure, 1000)
    known = (MirrorImages("left", "right", "y", 1e4),)
    alone, both = (
        PhysicallyConsistent(known=k).fit(triangle, space).parameters for k in ((), known)
    )
    assert alone.values[10] == pytest.approx(2.0) and both.values[10] == pytest.approx(
        2.6, rel=0.01
    )
    assert both.std[10] < 0.2 * alone.std[10]


@pytest.mark.parametrize(
    "made",
    [
        lambda: KnownMass(("left",), 0.0, 0.1),
        lambda: KnownMass(("left",), 1.0, 0.0),
        lambda: MirrorImages("left", "right", "w"),  # type: ignore[arg-type]
        lambda: MirrorImages("left", "right", "y", 0.0),
        lambda: KnownMass(("lefd",), 1.0, 0.1).rows(three()),
        lambda: MirrorImages("left", "rihgt").rows(three()),
        lambda: Options.from_dict({"known": [{"mass": 1.0}]}),
        lambda: Options.from_dict({"known": [{"mass": 1.0, "std": 0.1, "link": ["a"]}]}),
        lambda: Options.from_dict({"mirror": [{"left": "a"}]}),
        lambda: Options.from_dict({"mirror": {"left": "a", "right": "b"}}),
    ],
)
def test_what_cannot_be_known_is_refused(made: Any) -> None:
    with pytest.raises(InvalidSetting):
        made()


def test_options_come_back_from_their_table() -> None:
    table = {
        "known": [{"mass": 9.0, "std": 0.1, "links": ["a", "b"]}, {"mass": 30.0, "std": 0.5}],
        "mirror": [{"left": "a", "right": "b"}],
    }
    options = Options.from_dict(table)
    assert Options.from_dict(options.to_dict()) == options
    assert options.known[1].links == () and options.mirror[0].axis == "y"


def test_the_file_of_options_weighs_the_robot(tmp_path: Path) -> None:
    """The demo's base joint shows nothing of the shoulder's mass; a scale under all does."""
    truth = json.loads((DEMO / "truth.json").read_text("utf-8"))["links"]
    total = sum(link["mass"] for link in truth.values())
    options = tmp_path / "robot.toml"
    options.write_text(f"[[known]]\nmass = {total}\nstd = 0.01\n", encoding="utf-8")
    stated = Settings(Smoothing(corner=15.0, delay=0.003))
    found = identify(DEMO / "arm.urdf", [DEMO / "run1.parquet"], options=options, settings=stated)
    masses = [stated_numbers(found.consistent, k)["mass"] for k in found.problem.space.groups]
    assert sum(m.value for m in masses) == pytest.approx(total, abs=0.03)
    write(found, tmp_path / "out")
    jsonschema.validate(json.loads((tmp_path / "out/estimate.json").read_text("utf-8")), schema())
