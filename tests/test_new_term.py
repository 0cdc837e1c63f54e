"""A term of friction that heft does not know, entered in the registry, is known everywhere.

One class and one line: from there it is fitted, written, read again, exported, compared, simulated.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from heft.applications.identification import Identification, Identified, compare, schema, write
from heft.applications.identification.entries import friction_curve
from heft.applications.identification.identification import identify
from heft.arrays import Array
from heft.dynamics import drive_columns
from heft.dynamics.drives import FRICTION, TERMS, Coulomb, DriveMotion, Offset, Term, Viscous
from heft.errors import InvalidSetting
from heft.models.options import JointOptions, Options
from heft.models.robot import Robot
from heft_methods import Dynamics, Simulate
from tests.robots import PLANAR_ARM
from tests.test_friction import LAWS, Law, require_lawful


@dataclass(frozen=True)
class Cogging(Term):
    """Torque that swings with the position, as that of a motor's magnets."""

    kind = "cogging"
    law = "sin(x / scale)"
    python = "math.sin(x / scale)"
    c = "sin(x / scale)"
    scale_unit = "rad"
    nonnegative = False
    scale: float

    def column(self, motion: DriveMotion) -> Array:
        """Return sin(x/s)."""
        return np.asarray(np.sin(motion.position / self.scale))


@dataclass(frozen=True)
class OneSided(Term):
    """Viscous friction that differs forwards and backwards."""

    kind = "one_sided"
    law = "|w|"
    python = "abs(w)"
    c = "fabs(w)"
    nonnegative = False
    scale: None = None

    @classmethod
    def unit(cls, linear: bool) -> str:
        """Return the unit of viscous friction, squares in it, which no ASCII has."""
        return "N·s²/(m·s)" if linear else "N·m·s²/(rad·s)"

    def column(self, motion: DriveMotion) -> Array:
        """Return |w|."""
        return np.abs(motion.velocity)

    def steady(self, velocity: Array) -> Array:
        """Return |w|."""
        return np.abs(velocity)


NEW: dict[str, tuple[Term, Law]] = {
    "cogging": (Cogging(0.05), lambda s, x, w, rate, load, slip: math.sin(x / s)),
    "one_sided": (OneSided(), lambda s, x, w, rate, load, slip: abs(w)),
}
MODEL = "bumpy"
TRUTH = {
    "armature": 0.05,
    "viscous": 0.4,
    "coulomb": 0.3,
    "offset": 0.1,
    "cogging[0.05]": -0.25,
    "one_sided": -0.15,
}
NOISE = 0.02  # [N·m]
JOINTS = ("shoulder", "elbow")


@pytest.fixture(scope="module", autouse=True)
def known() -> Iterator[None]:
    """Let heft know the terms, and a friction model that holds them, while these tests run."""
    with pytest.MonkeyPatch.context() as patch:
        for term, _ in NEW.values():
            patch.setitem(TERMS, term.kind, type(term))
        patch.setitem(FRICTION, MODEL, (Viscous(), Coulomb(), Offset(), Cogging(0.05), OneSided()))
        yield


@dataclass(frozen=True)
class Found:
    """What was identified of a simulated log, and the folder that it left."""

    found: Identification
    folder: Path
    friction: dict[str, float]


def bumpy_arm() -> Robot:
    joints = {j: JointOptions(friction=MODEL) for j in JOINTS}
    options = Options.from_dict(Options(gravity=(0.0, -9.81, 0.0), joint=joints).to_dict(), "test")
    return Robot.from_urdf_text(PLANAR_ARM, options)


def identified(folder: Path, friction: dict[str, float], seed: int) -> Found:
    """Return what is identified of a simulated run: servos follow two sines a joint."""
    robot = bumpy_arm()
    pace = np.array([[1.3, 3.1], [1.9, 4.3]])
    size = np.array([[0.8, 0.35], [0.9, 0.3]])

    def servo(t: float, q: Array, v: Array) -> Array:
        wanted, rate = (size * np.sin(pace * t)).sum(1), (size * pace * np.cos(pace * t)).sum(1)
        return np.asarray(200.0 * (wanted - q) + 30.0 * (rate - v))

    names = {f"{j}.{name}": value for j in JOINTS for name, value in friction.items()}
    time = np.linspace(0.0, 12.0, 1201)
    ran = Simulate("RK45", relative=1e-6, absolute=1e-7).run(
        Dynamics.of(robot, names), time, servo, velocity=(size * pace).sum(1)
    )
    noise = np.random.default_rng(seed).normal(scale=NOISE, size=ran.effort.shape)
    q, tau = (dict(zip(JOINTS, x.T, strict=True)) for x in (ran.position, ran.effort + noise))
    recording = type(ran.recording()).from_arrays(time, f"run{seed}", q=q, tau=tau)
    found = identify(robot, [recording])
    write(found, folder)
    return Found(found, folder, friction)


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> Found:
    return identified(tmp_path_factory.mktemp("new") / "arm", TRUTH, 1)


@pytest.mark.parametrize("kind", NEW)
def test_a_new_term_is_its_law_wherever_it_is_said(kind: str, tmp_path: Path) -> None:
    require_lawful(*NEW[kind], tmp_path)


def test_a_new_terms_columns_come_last_and_others_stay() -> None:
    names = bumpy_arm().labels.names[20:]
    kinds = [*LAWS, *NEW]
    order = [kinds.index(n.partition(".")[2].partition("[")[0]) for n in names]
    assert order == sorted(order)
    assert names[-4:] == tuple(f"{j}.{n}" for n in ("cogging[0.05]", "one_sided") for j in JOINTS)


def test_new_terms_are_identified_from_a_simulated_log(arm: Found) -> None:
    parameters = arm.found.consistent.parameters
    values = dict(zip(parameters.labels.names, parameters.values, strict=True))
    stds = dict(zip(parameters.labels.names, parameters.std, strict=True))
    for joint in JOINTS:
        for name in ("cogging[0.05]", "one_sided", "coulomb", "viscous"):
            full = f"{joint}.{name}"
            error = abs(values[full] - TRUTH[name])
            # The log tells them, and they are right as far as it does; smoothing takes a little.
            assert stds[full] < 0.1 * abs(TRUTH[name])
            assert error <= 5.0 * stds[full] + 0.01 * abs(TRUTH[name]), full


def test_they_are_in_the_results_and_read_again(arm: Found) -> None:
    estimate = json.loads((arm.folder / "estimate.json").read_text())
    jsonschema.validate(estimate, schema())
    terms = estimate["joints"]["elbow"]["full"]
    assert [(t["term"], t["scale"]) for t in terms][-2:] == [("cogging", 0.05), ("one_sided", None)]
    assert Identified.load(arm.folder).friction["full"] == arm.found.friction["full"]
    # Simple friction is fitted beside, without them.
    assert set(estimate["joints"]["elbow"]["simple"]) == {"viscous", "coulomb", "offset"}


def test_the_exported_code_is_what_was_fitted(arm: Found) -> None:
    names: dict[str, Any] = {}
    exec((arm.folder / "friction.py").read_text(), names)
    model = names["Friction"]()
    rng = np.random.default_rng(2)
    q, v = rng.normal(size=(2, 2, 50))
    zeros = np.zeros((2, 50))
    drives = arm.found.problem.plant.robot.drives
    friction = {n: x for n, x in arm.found.friction["full"].items() if "armature" not in n}
    fitted = drive_columns.effort(
        drives, friction, drive_columns.DriveState(q, v, zeros, zeros[:0], zeros)
    )
    written = np.array([model.torque(a, b, [0.0, 0.0]) for a, b in zip(q.T, v.T, strict=True)]).T
    assert np.abs(written - fitted).max() <= 1e-13 * np.abs(fitted).max()


def test_the_steady_curve_is_one_sided(arm: Found) -> None:
    drive = arm.found.problem.plant.robot.drives[1]
    curve = friction_curve(arm.found, drive)
    v, effort = np.array(curve["velocity"]), np.array(curve["effort"])
    even = 0.5 * (effort + effort[::-1])
    full = arm.found.friction["full"]
    wanted = full["elbow.offset"] + full["elbow.one_sided"] * np.abs(v)
    assert np.abs(even - wanted).max() <= 1e-12 * np.abs(effort).max()


@pytest.mark.parametrize("name", ["cogging[0.05]", "one_sided"])
def test_a_change_of_a_new_term_is_told(arm: Found, name: str, tmp_path: Path) -> None:
    worn = identified(tmp_path / "worn", {**TRUTH, name: 0.5 * TRUTH[name]}, 2)
    clear = [c for c in compare(arm.folder, worn.folder).changes if c.clear]
    assert {c.name for c in clear if c.kind == "friction"} == set(JOINTS)
    assert not [c for c in clear if c.kind != "friction"]


def test_results_with_a_term_that_nobody_knows_are_refused(
    arm: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(TERMS, "cogging")
    with pytest.raises(InvalidSetting, match="cogging"):
        Identified.load(arm.folder)
