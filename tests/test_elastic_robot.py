"""Elastic gears by two encoders, on arms that MuJoCo moves; plants' laws are in `test_plants`."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from benchmarks.truth import CONDITIONS, arm

from heft.applications.identification import identify
from heft.applications.identification.entries import friction_curve
from heft.applications.identification.identification import Identification
from heft.applications.identification.identified import Identified
from heft.applications.identification.report import html, text
from heft.applications.identification.results import write
from heft.arrays import Array
from heft.errors import InvalidSetting, MissingSignal
from heft.models import Coupling, JointOptions, Options, Robot
from heft.plants import (
    GEAR,
    ElasticRobotPlant,
    FloatingRobotPlant,
    RobotPlant,
    plant_of,
    with_logged_gears,
)
from heft.recordings import Recording
from heft.simulation import SimulatedExperiment, Simulator, Spring
from tests import robots

pytestmark = pytest.mark.usefixtures("without_doctor")

LATE = 0.003  # of the links' encoders [s]


@cache
def experiment() -> SimulatedExperiment:
    condition = CONDITIONS["in class"]
    drives = replace(condition.drives, resonance=(10.0, 25.0))
    return Simulator(arm("ur5"), replace(condition, duration=10.0, drives=drives)).run(3)


def columns(found: SimulatedExperiment, values: Array) -> dict[str, Array]:
    return {j: values[:, k] for k, j in enumerate(found.arm.joints)}


def log(number: int = 0, late: float = 0.0) -> Recording:
    """Return a log of both encoders; `late` is what those of the links are behind by [s]."""
    found = experiment()
    exact = found.exact if number == 0 else found.other(number=number)
    rng = np.random.default_rng(number)
    noise = 1e-6 * rng.normal(size=(2, *exact.q.shape))
    torque = exact.tau + 0.005 * exact.tau.std(axis=0) * rng.normal(size=exact.tau.shape)
    return Recording.from_arrays(
        exact.time,
        f"run {number}",
        q=columns(found, exact.link - late * exact.link_velocity + noise[0]),
        q_motor=columns(found, exact.q + noise[1]),
        tau=columns(found, torque),
    )


@cache
def identified() -> Identification:
    return identify(robot(), [log()], [log(1)])


def robot(**options: bool) -> Robot:
    joint = {j: JointOptions(**options) for j in experiment().arm.joints}  # type: ignore[arg-type]
    return Robot.from_urdf_text(experiment().prior, Options(joint=joint))


def test_gears_and_rotors_come_back_within_their_intervals() -> None:
    """By an independent simulator: links by MuJoCo, drives by equations of their own."""
    parameters = identified().consistent.parameters
    std = dict(zip(parameters.labels.names, parameters.std, strict=True))
    found = dict(zip(parameters.labels.names, parameters.values, strict=True))
    off, close = [], []
    for joint, drive in zip(experiment().arm.joints, experiment().drives, strict=True):
        spring = next(k for k in drive.laws if isinstance(k, Spring))
        truth = {"armature": drive.armature, "preload": 0.0, "lag": 0.0}
        truth |= {"stiffness": spring.stiffness, "damping": spring.damping}
        assert set(truth) == {*GEAR, "armature"}
        for kind, value in truth.items():
            name = f"{joint}.{kind}"
            off.append((found[name] - value) / std[name])
            if kind in ("stiffness", "armature"):
                close.append(std[name] / value)
    # Thirty numbers: three deviations are beyond all of them 8 % of the times.
    assert np.abs(off).max() < 3.0
    assert np.median(close) < 0.01


def test_friction_of_motors_comes_back_within_its_band() -> None:
    speed = np.array([0.05, 0.2, 0.5, 1.0])
    drives = {d.name: d for d in identified().problem.plant.robot.drives}
    for joint, drive in zip(experiment().arm.joints, experiment().drives, strict=True):
        curve = friction_curve(identified(), drives[joint])
        effort, std = (np.interp(speed, curve["velocity"], curve[k]) for k in ("effort", "std"))
        truth = drive.steady(speed, 20.0)
        assert (np.abs(effort - truth) < 3.0 * std).all()
        assert np.abs(effort - truth).max() < 0.02 * np.abs(truth).max()


def test_torque_of_another_motion_is_that_of_the_motors() -> None:
    """With rigid gears, of either encoder, more is left over."""
    assert identified().validation
    elastic, *others = (
        max(s.total for s in found.validation if s.filter_hz is None and s.friction == "full")
        for found in (
            identified(),
            identify(robot(elastic=False), [log()], [log(1)]),
        )
    )
    assert elastic < 0.0075  # noise of the torque is .005
    assert min(others) > 1.5 * elastic


def test_an_encoder_that_comes_late_is_the_lag() -> None:
    found = identify(robot(), [log(late=LATE)]).consistent.parameters
    std = dict(zip(found.labels.names, found.std, strict=True))
    values = dict(zip(found.labels.names, found.values, strict=True))
    for joint, drive in zip(experiment().arm.joints[1:3], experiment().drives[1:3], strict=True):
        spring = next(k for k in drive.laws if isinstance(k, Spring))
        stiffness, lag = f"{joint}.stiffness", f"{joint}.lag"
        assert values[lag] / values[stiffness] == pytest.approx(LATE, rel=0.05)
        assert abs(values[stiffness] - spring.stiffness) < 4.0 * std[stiffness] + (
            0.02 * spring.stiffness
        )


def test_results_state_gears_and_predict_by_them(tmp_path: Path) -> None:
    found, out = identified(), tmp_path / "out"
    write(found, out)
    stated = json.loads((out / "estimate.json").read_text())
    parameters = found.consistent.parameters
    for joint in experiment().arm.joints:
        gear = stated["joints"][joint]["gear"]
        place = parameters.labels.names.index(f"{joint}.stiffness")
        assert gear["stiffness"] == pytest.approx(parameters.values[place])
        assert gear["std"]["stiffness"] == pytest.approx(parameters.std[place])
        assert all(f"{joint}.link" not in s["per_joint"] for s in stated["validation"])
    assert "elastic gear" in text(found) and "elastic gear" in html(found)
    again = Identified.load(out)
    made = np.concatenate([p.effort for p in again.predictions(log(1))])
    exact = experiment().other(number=1).tau
    inside = slice(125, -125)  # a smoother has nothing beyond a log's ends
    assert np.linalg.norm((made - exact)[inside]) < 0.01 * np.linalg.norm(exact[inside])
    with pytest.raises(MissingSignal, match="q_motor"):
        list(
            again.predictions(
                Recording.from_arrays(np.arange(9.0), q=columns(experiment(), exact[:9]))
            )
        )


# ---- which gears are elastic -----------------------------------------------------------------


def both(q_motor: tuple[str, ...]) -> Recording:
    still = np.zeros(9)
    names = ("shoulder", "elbow")
    q = dict.fromkeys(names, still)
    return Recording.from_arrays(
        np.arange(9.0),
        q=q,
        tau=q,
        **({"q_motor": dict.fromkeys(q_motor, still)} if q_motor else {}),
    )


def test_gears_are_elastic_where_all_logs_hold_both_encoders() -> None:
    arm = robots.planar_arm()
    logs = [both(("shoulder", "elbow")), both(("elbow",))]
    found = with_logged_gears(arm, logs)
    assert [found.options.of(j).elastic for j in arm.joints] == [None, True]
    assert isinstance(plant_of(found), ElasticRobotPlant)
    assert found.structure_hash() != arm.structure_hash()
    assert with_logged_gears(arm, [both(())]) is arm
    assert type(plant_of(arm)) is RobotPlant
    rigid = arm.with_joints({j: replace(arm.options.of(j), elastic=False) for j in arm.joints})
    assert with_logged_gears(rigid, logs) is rigid
    assert type(plant_of(rigid)) is RobotPlant


def test_gears_that_no_plant_knows_are_refused() -> None:
    elastic = JointOptions(friction="none", elastic=True)
    walker = robots.walker()
    name = walker.joints[0]
    with pytest.raises(InvalidSetting, match="base floats"):
        plant_of(walker.with_joints({name: elastic}))
    assert isinstance(plant_of(walker), FloatingRobotPlant)
    matrix = ((1.0, 0.5), (0.0, 1.0))
    coupling = Coupling(("shoulder", "elbow"), ("a", "b"), matrix)
    options = Options(joint={"elbow": elastic}, coupling=coupling)
    coupled = Robot.from_urdf_text(robots.PLANAR_ARM, options)
    with pytest.raises(InvalidSetting, match="coupled"):
        plant_of(coupled)
    unmeasured = replace(elastic, measured=False)
    with pytest.raises(InvalidSetting, match="torque is not measured"):
        plant_of(robots.planar_arm().with_joints({"elbow": unmeasured}))


def test_options_are_read_and_written_back() -> None:
    options = Options.from_dict({"joint": {"elbow": {"elastic": True}}})
    assert options.of("elbow").elastic is True
    assert Options.from_dict(options.to_dict()) == options
