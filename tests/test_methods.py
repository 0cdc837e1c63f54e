"""Methods of base parameters on a periodic log of an arm, from the log to the report's table."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import jsonschema
import pytest

from heft.applications.identification import Identification, Identified, identify, report
from heft.applications.identification.results import schema, write
from heft.errors import InvalidSetting, MissingSignal
from heft.estimators import ESTIMATORS, Limits, PhysicallyConsistent
from heft.fit import Settings
from heft.fit.earlier import Earlier
from heft.models import ControllerOptions, JointGains, JointOptions, Robot
from heft_methods import LogCholesky
from tests.test_identification import STILL, arm_log, noisy, off, planar

METHODS = {
    # what the estimate says of itself
    "maximum-likelihood": ("noise", "residuals"),
    "maximum-likelihood-periods": ("noise", "periods"),
    "bayesian": ("share", 0.1),
    "total-least-squares": ("column_noise", 1.0),
    "errors-in-variables": ("regressor_noise", "periods"),
    "effective-variance": ("regressor_noise", "periods"),
    "log-cholesky": ("weighting", "channel"),
}
TRUE = [n for n in METHODS if n not in ("bayesian", "total-least-squares")]


@cache
def identified(method: str) -> Identification:
    return identify(planar(), [arm_log(noisy())], settings=Settings(STILL, method=method))


@pytest.mark.parametrize("name", METHODS)
def test_each_is_reached_by_its_name_and_listed_beside_the_consistent_estimate(name: str) -> None:
    found = identified(name)
    key, value = METHODS[name]
    assert found.estimate.settings[key] == value
    listed = {a.name: a for a in found.alternatives}
    own = listed["least-squares" if name == "log-cholesky" else name]
    assert own.what == "base"
    assert 0.0 < own.error < 0.05
    assert ("consistent, log-cholesky" if name == "log-cholesky" else "consistent") in listed
    assert all(c.status != "fail" for c in found.checks), found.checks


@pytest.mark.parametrize("name", METHODS)
def test_its_folder_is_written_and_read_again(name: str, tmp_path: Path) -> None:
    write(identified(name), tmp_path / "out", report.html)
    content = json.loads((tmp_path / "out/estimate.json").read_text("utf-8"))
    jsonschema.validate(content, schema())
    assert content["settings"]["method"] == name
    rows = sum(k["rows"] for k in content["information"]["channels"])
    again = Earlier.load(tmp_path / "out/information.npz")
    kept = again.information if isinstance(again, Earlier) else again
    assert kept.rows == rows
    page = (tmp_path / "out/report.html").read_text("utf-8")
    assert all(a.name in page for a in identified(name).alternatives)
    assert Identified.load(tmp_path / "out").friction["full"]


@pytest.mark.parametrize("name", TRUE)
def test_those_that_take_the_regressor_for_what_it_is_find_the_arm(name: str) -> None:
    assert off(identified(name)) < 2.0


def test_log_cholesky_steps_find_the_robot_of_the_semidefinite_program() -> None:
    one, two = (identified(n).consistent.parameters for n in ("log-cholesky", "maximum-likelihood"))
    assert one.values == pytest.approx(two.values, rel=0.05, abs=0.02)
    assert identified("log-cholesky").settings.consistent.polish == LogCholesky()


def test_log_cholesky_has_no_limits_of_links() -> None:
    limits = PhysicallyConsistent(limits=Limits(mass={planar().bodies_links[0].name: (0.1, 9.0)}))
    settings = Settings(STILL, method="log-cholesky", consistent=limits)
    with pytest.raises(InvalidSetting, match="any other --method"):
        identify(planar(), [arm_log(noisy())], settings=settings)


@pytest.mark.parametrize("name", [n for n, m in ESTIMATORS.items() if m.require])
def test_those_that_move_the_robot_are_refused_at_once_where_friction_remembers(name: str) -> None:
    said: list[str] = []
    full = planar().with_joints({j: JointOptions() for j in planar().joints})
    with pytest.raises(InvalidSetting, match="friction that remembers"):
        identify(
            full, [arm_log(noisy())], settings=Settings(STILL, method=name), progress=said.append
        )
    assert said == []


@pytest.mark.parametrize("name", [n for n, m in ESTIMATORS.items() if m.simulates])
def test_those_that_simulate_are_refused_at_once_without_a_controller(name: str) -> None:
    said: list[str] = []
    settings = Settings(STILL, method=name)
    with pytest.raises(InvalidSetting, match="controller is not known"):
        identify(planar(), [arm_log(noisy())], settings=settings, progress=said.append)
    robot = planar()
    gains = dict.fromkeys(robot.joints, JointGains(100.0, 10.0))
    options = replace(robot.options, controller=ControllerOptions(gains))
    known = Robot.from_text(robot.source, options)
    with pytest.raises(MissingSignal, match="q_ref"):
        identify(known, [arm_log(noisy())], settings=settings, progress=said.append)
    assert said == []
