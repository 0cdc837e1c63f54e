"""Laws of `heft excite`: motions keep their limits, say what they tell, and are repeatable."""

from __future__ import annotations

import itertools
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio
import pyarrow.parquet
import pytest

import heft
from heft.applications.excite import (
    CarriedLoad,
    Excited,
    ExciteSettings,
    excite,
    excite_files,
    open_experiment,
    text_of,
)
from heft.applications.excite.experiment_design import certified, counting
from heft.applications.excite.report import _plots, by_link
from heft.dynamics.drives import SIGMOID_SPEEDS
from heft.errors import InfeasibleLimits, InvalidSetting
from heft.excitation import DesignSettings, SolverSettings, bounded_motion
from heft.excitation.effort_proofs import certify_efforts
from heft.information import SYMBOLS
from heft.models import JointOptions, Options, Robot
from heft.plants import structural_base

ARM = Path(heft.__file__).parent / "applications" / "demo" / "arm.urdf"
QUICK = ExciteSettings(
    DesignSettings(
        duration=6.0,
        harmonics=3,
        random=6,
        starts=1,
        workers=1,
        solver=SolverSettings(rounds=2, iterations=8),
    ),
    compared=False,
)
LIMITS = """
[motion]
floor = -0.4
clearance = 0.02
[motion.margin]
effort = 0.1
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Excited, Path]:
    folder = tmp_path_factory.mktemp("excite")
    (folder / "limits.toml").write_text(LIMITS)
    out = folder / "out"
    return excite_files(ARM, out, QUICK, folder / "limits.toml"), out


def test_what_is_written_keeps_all_limits_by_another_library(
    written: tuple[Excited, Path],
) -> None:
    found, out = written
    model = pinocchio.buildModelFromUrdf(str(ARM))
    table = pyarrow.parquet.read_table(out / "motion.parquet").to_pydict()
    joints = found.planned.robot.joints
    assert [model.names[k + 1] for k in range(model.nq)] == list(joints)
    q, v, a = (np.array([table[f"{k}.{j}"] for j in joints]).T for k in "qva")
    stated = found.planned.stated
    assert np.all((q >= model.lowerPositionLimit) & (q <= model.upperPositionLimit))
    assert np.all(np.abs(v) <= model.velocityLimit)
    assert np.all(np.abs(a) <= stated.acceleration)
    data = model.createData()
    torque = np.array([pinocchio.rnea(model, data, *row) for row in zip(q, v, a, strict=True)])
    assert np.all(np.abs(torque) <= 0.9 * model.effortLimit)
    # The motion is what its velocity says, and begins and ends at rest.
    step = np.diff(table["t"])[:, None]
    assert np.abs(np.diff(q, axis=0) / step - (v[1:] + v[:-1]) / 2.0).max() < 1e-2
    assert np.abs(np.stack([v[0], v[-1], a[0], a[-1]])).max() < 1e-9


def test_every_limit_is_proven_and_the_proof_is_stored(written: tuple[Excited, Path]) -> None:
    found, out = written
    stored = json.loads((out / "design.json").read_text())
    kinds = {c["quantity"] for c in stored["certificates"]}
    assert {"position", "velocity", "acceleration", "jerk", "effort", "clearance"} <= kinds
    assert all(c.holds for c in found.certificates)
    assert stored["information"]["nats_over_best_random"] > 0.0
    margins: dict[str, list[float]] = {}
    for c in found.certificates:
        if np.isfinite(c.limit):
            margins.setdefault(c.quantity.removeprefix("least "), []).append(c.margin)
    tightest = {c.quantity.removeprefix("least "): c.margin for c in found.tightest}
    assert tightest == {kind: min(some) for kind, some in margins.items()} != {}
    shown = text_of(found, Path("arm one.urdf"), Path("out"))
    assert "proven" in shown and "times as long (log det" in shown
    assert "heft view 'arm one.urdf' out/motion.parquet" in shown


def test_curves_of_the_report_stay_between_their_limits(written: tuple[Excited, Path]) -> None:
    planned = written[0].planned
    plots = {p.title: p for p in _plots(written[0])}
    for channel, joint in enumerate(planned.robot.joints):
        for name, low, high in (
            ("position", planned.stated.lower[channel], planned.stated.upper[channel]),
            ("velocity", -planned.stated.velocity[channel], planned.stated.velocity[channel]),
        ):
            lower, upper, curve = plots[f"{joint}, {name}"].series
            assert set(lower.y) == {low} and set(upper.y) == {high}
            assert low <= curve.y.min() and curve.y.max() <= high


@pytest.fixture(scope="module")
def again(
    written: tuple[Excited, Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[str]]:
    """Return the same once more, without the libraries of ROS, and what was said."""
    out, said = tmp_path_factory.mktemp("again") / "out", list[str]()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("rosbags", "rosbags.typesys", "mcap", "mcap.writer"):
            patch.setitem(sys.modules, name, None)
        excite_files(ARM, out, QUICK, written[1].parent / "limits.toml", progress=said.append)
    return out, said


def test_the_same_seed_writes_the_same_bytes(
    written: tuple[Excited, Path], again: tuple[Path, list[str]]
) -> None:
    for name in ("motion.parquet", "trajectory.json", "series.json", "design.json", "report.html"):
        assert (written[1] / name).read_bytes() == (again[0] / name).read_bytes(), name


def test_torque_is_proven_for_every_vertex_of_what_bodies_may_be(
    written: tuple[Excited, Path],
) -> None:
    found, _ = written
    planned = found.planned
    loads = planned.loads()
    assert loads.deviations is not None
    some = replace(loads, deviations=loads.deviations[-2:], rotor_deviation=None)
    motion = bounded_motion(found.trajectory, planned.posture, planned.carrier.moving)
    proven = [c for c in certify_efforts(motion, some, planned.stated) if c.quantity == "effort"]
    time = np.linspace(0.0, motion.duration, 4001)
    worst = np.zeros(len(proven))
    for signs in itertools.product((-1.0, 1.0), repeat=2):
        vertex = some.parameters + np.array(signs) @ some.deviations
        one = replace(some, parameters=vertex, deviations=None)
        seen = [c for c in certify_efforts(motion, one, planned.stated) if c.quantity == "effort"]
        worst = np.maximum(worst, [c.seen for c in seen])
    bounds = np.array([c.bound for c in proven])
    assert len(time) and np.all(bounds >= worst)
    assert np.all(bounds <= worst + 0.03 * planned.stated.effort)


def test_a_motion_that_is_repeated_goes_on_where_it_ended(written: tuple[Excited, Path]) -> None:
    found, _ = written
    twice = replace(found, settings=replace(QUICK, periods=2)).joint_trajectory(100.0)
    once = found.joint_trajectory(100.0)
    count = len(once.time)
    assert len(twice.time) == 2 * count - 1
    assert np.allclose(twice.position[count - 1 :], once.position, atol=1e-12)
    assert np.all(np.diff(twice.time) > 0.0)


def test_a_smaller_motion_is_worth_what_it_is(written: tuple[Excited, Path]) -> None:
    found, _ = written
    made = found.design
    posture = made.trajectory.basis.constant @ made.trajectory.coefficients
    posture = posture / float(np.sum(made.trajectory.basis.constant))
    assert made.with_trajectory(made.trajectory).value == pytest.approx(made.value, abs=1e-6)
    smaller = made.with_trajectory(made.trajectory.shrunk(0.9, posture))
    assert smaller.value < made.value
    lost = made.log_determinant - smaller.log_determinant
    assert made.value - smaller.value == pytest.approx(lost, rel=1e-3)


def test_what_was_told_before_is_not_known_where_it_was_not(written: tuple[Excited, Path]) -> None:
    found, _ = written
    count = found.base.rank
    # Of all but the last, and of the first two their sum alone.
    factor = np.eye(count)[1:-1]
    factor[0, 0] = factor[0, 1] = 2.0
    before = replace(found.design, known=factor).known_std
    assert np.isinf(before[[0, 1, -1]]).all()
    assert before[2:-1] == pytest.approx(np.ones(count - 3))


def test_without_the_libraries_of_ros_their_file_is_left_out(
    written: tuple[Excited, Path], again: tuple[Path, list[str]]
) -> None:
    out, said = again
    assert (written[1] / "trajectory.mcap").exists()
    assert not (out / "trajectory.mcap").exists()
    assert (out / "trajectory.json").exists()
    assert any("heft-robotics[ros]" in line for line in said)


def test_a_limit_that_cannot_be_proven_is_named(written: tuple[Excited, Path]) -> None:
    found, _ = written
    slow = replace(found.planned.stated, velocity=0.1 * found.planned.stated.velocity)
    with pytest.raises(InfeasibleLimits, match="proven") as caught:
        certified(
            found.trajectory,
            replace(found.planned, stated=slow),
            found.trajectory.coefficients[0],
        )
    assert "velocity" in str(caught.value)


def test_what_counts_is_what_the_link_is_part_of(written: tuple[Excited, Path]) -> None:
    planned = written[0].planned
    base = structural_base(planned.plant)
    last = planned.robot.bodies_links[-1].name
    names, untold = counting(base, [last])
    assert names and all(n.startswith(f"{last}.") for n in names)
    seen = [k for k, n in enumerate(base.standard.names) if n.startswith(f"{last}.")]
    assert set(untold) == {base.standard.names[k] for k in seen if not np.any(base.matrix[:, k])}
    with pytest.raises(InvalidSetting, match="called so"):
        counting(base, ["forarm"])


def test_what_is_not_told_is_gathered_by_link() -> None:
    whole = [f"base.{s}" for s in SYMBOLS]
    assert by_link(whole) == "base (all)"
    assert by_link(["arm.left.m", *whole, "arm.left.I.xx"]) == "arm.left (m, I.xx), base (all)"


def test_friction_is_told_as_it_will_be_fitted(written: tuple[Excited, Path]) -> None:
    planned = written[0].planned
    speeds = [t.scale for t in planned.plant.robot.drives[0].friction if t.kind == "sigmoid"]
    assert sorted(speeds) == sorted(SIGMOID_SPEEDS)
    # No single term of the dictionary is told: their sum is.
    names = [written[0].base.labels.names[k] for k in written[0].listed]
    assert names and not any("sigmoid" in n for n in names)
    joints = {j: JointOptions(friction="simple") for j in planned.robot.joints}
    simple = Robot.from_file(ARM, Options(joint=joints))
    alone = replace(planned, robot=simple)
    assert alone.plant.labels == alone.carrier.labels


def test_designing_for_a_link_tells_more_of_it(written: tuple[Excited, Path]) -> None:
    planned = replace(written[0].planned, clearance=None)
    last = planned.robot.bodies_links[-1].name
    every = excite(planned, QUICK)
    alone = excite(planned, replace(QUICK, about=(last,)))
    counts = [k for k, p in enumerate(alone.predictions) if p.counts]
    assert 0 < len(counts) < len(alone.predictions)
    its = alone.design.log_determinant_of
    assert its(alone.trajectory) > its(every.trajectory)


def test_a_load_is_told_by_the_robot_that_carries_it() -> None:
    frame = open_experiment(ARM, collisions=False).robot.bodies_links[-1].name
    planned = open_experiment(ARM, collisions=False, load=CarriedLoad(frame, heaviest=1.0))
    found = excite(planned, QUICK)
    assert len(found.predictions) == 10
    mass = next(p for p in found.predictions if p.expression == "payload.m")
    assert mass.after < 0.1
    # Its weight counts where torque is proven.
    without = open_experiment(ARM, collisions=False)
    heavy, light = (
        max(c.bound for c in certify_efforts(motion, p.loads(), p.stated) if c.quantity == "effort")
        for p in (planned, without)
        for motion in [bounded_motion(found.trajectory, planned.posture, planned.carrier.moving)]
    )
    assert heavy > light
