"""`heft simulate`: a motion that is given, on any model, as a log with every fault one asks for."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio as pin
import pyarrow
import pyarrow.parquet
import pytest

from heft.applications.demo import FOLDER as DEMO
from heft.applications.simulate import Demanded, SimulationSettings, read_motion, simulate_files
from heft.arrays import Array
from heft.errors import HeftError, InputError, InvalidModel, SolverFailure
from heft.models import Robot
from heft.simulation import (
    Arm,
    Condition,
    Controller,
    Coulomb,
    DriveRanges,
    Knots,
    Sensors,
    SimulatedExperiment,
    Simulator,
    draw_motion,
    whole_robot,
)
from heft.simulation.simulated_links import Links
from tests import mjcfs, robots
from tests.test_cli import ENVIRONMENT, HEFT, heft, is_clean, tree

ARM = DEMO / "arm.urdf"
EXACT = Sensors(bits=0, encoder_noise=0.0, torque_noise=0.0)
FOLLOWING, SMOOTH_RUNNING = Controller.computed_torque(), DriveRanges(friction="none")
SECONDS = 1.5
TREES = (
    "baxter_description/urdf/baxter.urdf",  # two arms
    "g1_description/urdf/g1_29dof_rev_1_0.urdf",  # a humanoid
    "panda_description/urdf/panda.urdf",  # a finger mimics the other, both slide
    "tiago_pro_description/robots/tiago_pro.urdf",
    "double_pendulum_description/urdf/double_pendulum_continuous.urdf",
)


def given_motion(arm: Arm, seconds: float = SECONDS) -> Knots:
    """Return a motion through samples of sines."""
    drawn = draw_motion("sines", arm, np.random.default_rng(0), -2.0, seconds)
    time = np.linspace(0.0, seconds, round(100 * seconds) + 1)
    return Knots.through(time, *drawn(time), (arm.lower, arm.upper))


def run(
    sensors: Sensors = EXACT,
    controller: Controller = FOLLOWING,
    drives: DriveRanges = SMOOTH_RUNNING,
    seed: int = 0,
) -> SimulatedExperiment:
    arm = whole_robot(ARM)
    condition = Condition(
        drives,
        sensors,
        given_motion(arm),
        controller=controller,
        duration=SECONDS,
        wrong=0,
        shift=0,
    )
    return Simulator(arm, condition).run(seed)


def logged(found: SimulatedExperiment, kind: str) -> Array:
    names = [f"{kind}.{j}" for j in found.arm.joints]
    return np.concatenate([b.values for b in found.recording.blocks(names)])


# --- motions


@pytest.mark.parametrize("given", ["q", "qv", "qva"])
def test_a_motion_goes_through_what_is_given_and_is_its_own_derivative(given: str) -> None:
    rng = np.random.default_rng(1)
    time = np.cumsum(rng.uniform(0.05, 0.15, 40))
    states = [rng.normal(size=(40, 3)) for _ in given]
    motion = Knots.through(time, *states)
    for wanted, found in zip(states, motion(time), strict=False):
        assert np.allclose(found, wanted, atol=1e-9)
    fine = np.linspace(motion.time[0], motion.time[-1], 60_001)
    q, v, a = motion(fine)
    step = fine[1] - fine[0]
    assert np.abs(np.gradient(q, step, axis=0) - v)[2:-2].max() < 1e-4 * np.abs(v).max()
    assert np.abs(np.gradient(v, step, axis=0) - a)[2:-2].max() < 1e-2 * np.abs(a).max()
    assert not v[0].any() and not a[0].any() and np.abs(v[-1]).max() < 1e-9


def test_a_recorded_motion_is_passed_below_its_corner() -> None:
    time = np.arange(0.0, 20.0, 0.004)
    slow, fast = np.sin(2.0 * np.pi * 0.5 * time), np.sin(2.0 * np.pi * 5.0 * time)
    found = Demanded(Path("log"), time, {"slow": slow, "fast": fast}, {"slow": slow}, {}).smoothed(
        5.0
    )
    inside = (found.time > 1.0) & (found.time < 19.0)
    slow_left = found.q["slow"] - np.sin(2.0 * np.pi * 0.5 * found.time)
    assert np.abs(slow_left[inside]).max() < 0.01
    assert np.abs(found.q["fast"][inside]).max() == pytest.approx(2.0**-0.5, rel=0.01)
    assert not found.v and not found.a


def test_a_trajectory_of_ros_is_the_same_motion(tmp_path: Path) -> None:
    time, rng = np.linspace(0.0, 2.0, 21), np.random.default_rng(0)
    q, v, a = rng.normal(size=(3, 21, 2))
    points = [
        {
            "positions": list(q[k]),
            "velocities": list(v[k]),
            "accelerations": list(a[k]),
            "time_from_start": {"sec": int(t), "nanosec": round((t % 1.0) * 1e9)},
        }
        for k, t in enumerate(time)
    ]
    (tmp_path / "m.json").write_text(json.dumps({"joint_names": ["a", "b"], "points": points}))
    found = read_motion(tmp_path / "m.json")
    assert np.allclose(found.time, time, atol=1e-9)
    for wanted, read in ((q, found.q), (v, found.v), (a, found.a)):
        assert np.array_equal(wanted, np.stack([read["a"], read["b"]], 1))


# --- the robot, against other software


@pytest.mark.parametrize("file", TREES)
def test_a_tree_moves_as_pinocchio_says(file: str) -> None:
    chosen = whole_robot(robots.path_of(file))
    robot = robots.rigid(Robot.from_urdf(robots.path_of(file)))
    rng = np.random.default_rng(0)
    q, v, a = rng.uniform(-1.0, 1.0, (3, 4, len(chosen.joints)))
    order = [chosen.joints.index(j) for j in robot.joints]
    made = Links.of(chosen.urdf, chosen.joints).inverse_dynamics(q, v, a)[:, order]
    right = robots.Oracle.of(robot).inverse_dynamics(q[:, order], v[:, order], a[:, order])
    assert np.allclose(made, right, rtol=1e-6, atol=1e-6 * np.abs(right).max())


@pytest.mark.parametrize("file", [TREES[2], TREES[3]])
def test_the_equation_of_motion_of_followers_is_their_inverse_dynamics(file: str) -> None:
    chosen = whole_robot(robots.path_of(file))
    rng = np.random.default_rng(2)
    q, v, a = rng.uniform(-1.0, 1.0, (3, len(chosen.joints)))
    links = Links.of(chosen.urdf, chosen.joints)
    effort = links.inverse_dynamics(q[None], v[None], a[None])[0]
    place, speed = links.state(q)
    speed[:] = v
    links.armature = np.zeros(len(q))
    mass, bias = links.equation()
    assert np.array_equal(place, q)
    assert np.allclose(mass @ a + bias, effort, rtol=1e-9, atol=1e-9 * np.abs(effort).max())


def test_an_mjcf_moves_as_mujoco_itself_says(tmp_path: Path) -> None:
    (tmp_path / "arm.xml").write_text(mjcfs.ARM)
    chosen = whole_robot(tmp_path / "arm.xml")
    oracle = mjcfs.Oracle.of(mjcfs.ARM.encode(), chosen.joints, {})
    rng = np.random.default_rng(0)
    q, v, a = rng.uniform(-1.0, 1.0, (3, 5, len(chosen.joints)))
    made = Links.of(chosen.urdf, chosen.joints).inverse_dynamics(q, v, a)
    assert np.allclose(made, oracle.inverse_dynamics(q, v, a), rtol=1e-9, atol=1e-9)


def test_a_floating_mjcf_is_held_and_said_to_be(tmp_path: Path) -> None:
    text = mjcfs.ARM.replace(
        '<body name="base" pos="0 0 0.1" euler="10 20 30">', "<body name='base'><freejoint/>"
    )
    assert "freejoint" in text
    (tmp_path / "arm.xml").write_text(text)
    found = whole_robot(tmp_path / "arm.xml")
    assert any("base" in note and "held" in note for note in found.notes)
    (tmp_path / "fixed.xml").write_text(text.replace("<freejoint/>", ""))
    assert found.joints == whole_robot(tmp_path / "fixed.xml").joints


# --- controllers


def test_computed_torque_makes_all_joints_alike() -> None:
    """What is left is the lag T of the velocity's filter: q − q_w = T a / position gain, any M."""
    controller = replace(FOLLOWING, known=1.0)
    found = run(controller=controller)
    off = found.exact.q - given_motion(found.arm)(found.exact.time)[0]
    slope = np.sum(off * found.exact.a, axis=0) / np.sum(found.exact.a**2, axis=0)
    lag = 1.0 / (2.0 * np.pi * controller.corner)
    assert np.allclose(slope, lag / controller.position, rtol=0.3)
    left = off - slope * found.exact.a
    assert np.sqrt(np.mean(left**2)) < 0.6 * np.sqrt(np.mean(off**2))
    plain = run(controller=Controller.pd())
    loose = np.abs(plain.exact.q - given_motion(plain.arm)(plain.exact.time)[0])
    assert np.abs(off).max() < 0.25 * loose.max()


def test_pd_at_rest_gives_way_by_torque_over_stiffness() -> None:
    arm = whole_robot(ARM)
    q = 0.5 * (arm.lower + arm.upper) + 0.3
    motion = Knots.through(np.linspace(0.0, 4.0, 9), np.tile(q, (9, 1)))
    controller = Controller.pd(frequency=3.0)
    condition = Condition(
        DriveRanges(friction="none"),
        EXACT,
        motion,
        controller=controller,
        duration=4.0,
        wrong=0,
        shift=0,
    )
    simulator = Simulator(arm, condition)
    found = simulator.run(0)
    rotors = np.array([d.armature for d in found.drives])
    stiffness = (2.0 * np.pi * 3.0) ** 2 * (simulator.typical[1] + rotors)
    assert np.abs(found.exact.v[-1]).max() < 1e-3
    assert np.allclose(
        found.exact.tau[-1], stiffness * (q - found.exact.q[-1]), rtol=2e-2, atol=1e-3
    )


def test_torque_ends_at_the_limits() -> None:
    arm = replace(whole_robot(ARM), effort=np.full(6, 20.0))
    controller = replace(Controller.pd(), saturating=True)
    condition = Condition(
        DriveRanges(), EXACT, given_motion(arm), controller=controller, duration=SECONDS
    )
    assert np.abs(Simulator(arm, condition).run(0).exact.tau).max() == 20.0


def test_a_controller_that_drives_away_is_named_with_joint_and_time() -> None:
    wild = Controller(position=1e4, velocity=1e5)
    with pytest.raises(SolverFailure) as caught:
        run(controller=wild)
    text = caught.value.explain()
    assert "s after the start" in text and "gains" in text
    assert any(j in text for j in whole_robot(ARM).joints)


# --- faults of the log: each does what it says and nothing else


def test_without_faults_the_log_is_the_truth() -> None:
    found = run()
    assert np.array_equal(logged(found, "q"), found.exact.q)
    assert np.allclose(logged(found, "tau"), found.exact.tau, rtol=1e-12)
    model = pin.buildModelFromXML(ARM.read_text())
    data = model.createData()
    rotor = np.array([d.armature for d in found.drives])
    for k in range(0, len(found.exact.time), 50):
        links = pin.rnea(model, data, *(getattr(found.exact, n)[k] for n in "qva"))
        made = links + rotor * found.exact.a[k]
        assert np.abs(made - found.exact.tau[k]).max() < 2e-3 * np.abs(found.exact.tau).max()


def _delayed(found: SimulatedExperiment) -> None:
    late = round(0.02 * found.simulator.condition.sensors.rate)
    assert np.array_equal(logged(found, "q")[late:], found.exact.q[:-late])


def _zeros(found: SimulatedExperiment) -> None:
    shift = logged(found, "q") - found.exact.q
    assert np.allclose(shift, found.calibration.zero, atol=1e-12)
    assert 1e-4 < np.abs(found.calibration.zero).max() < 0.05


def _biased(found: SimulatedExperiment) -> None:
    shift = logged(found, "tau") - found.exact.tau
    assert np.allclose(shift, found.calibration.bias, atol=1e-9)
    assert np.abs(found.calibration.bias).min() > 0.0


def _wrong_gain(found: SimulatedExperiment) -> None:
    share = logged(found, "tau") / found.exact.tau
    assert np.allclose(share, found.calibration.gain, rtol=1e-9)
    assert 0.01 < np.std(found.calibration.gain) < 0.5


def _currents(found: SimulatedExperiment) -> None:
    assert found.recording.signals[-1].startswith("current.")
    assert np.allclose(logged(found, "current") * 12.5, found.exact.tau, rtol=1e-9)


def _rippled(found: SimulatedExperiment) -> None:
    wave = logged(found, "tau") / found.exact.tau - 1.0
    assert np.allclose(
        wave, 0.02 * np.sin(30.0 * found.exact.q + found.calibration.phase), atol=1e-9
    )


def _lost(found: SimulatedExperiment) -> None:
    rows = len(found.exact.time)
    share = 1.0 - len(found.kept) / rows
    assert 0.1 < share < 0.5
    gaps = np.diff(found.kept)
    assert 2.0 < np.mean(gaps[gaps > 1] - 1) < 10.0, "about 5 rows at a time"
    assert np.array_equal(logged(found, "q"), found.exact.q[found.kept])


def _repeated(found: SimulatedExperiment) -> None:
    q = logged(found, "q")
    again = np.all(q[1:] == q[:-1], axis=1)
    assert 0.05 < again.mean() < 0.4
    assert np.array_equal(q, found.exact.q[found.source])
    assert len(q) == len(found.exact.time)


FAULTS: dict[str, tuple[dict[str, object], Callable[[SimulatedExperiment], None]]] = {
    "encoder delay": ({"encoder_delay": 0.02}, _delayed),
    "wrong zeros": ({"encoder_bias": 0.01}, _zeros),
    "bias": ({"bias": 0.1}, _biased),
    "wrong gain": ({"gain_error": 0.1}, _wrong_gain),
    "current": ({"constants": (12.5,)}, _currents),
    "current ripple": ({"current_ripple": 0.02, "ripple_cycles": 30.0}, _rippled),
    "lost rows": ({"lost": 0.25, "burst": 5.0}, _lost),
    "repeated rows": ({"repeated": 0.2}, _repeated),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_does_what_it_says_and_nothing_else(fault: str) -> None:
    changed, law = FAULTS[fault]
    plain, found = run(), run(replace(EXACT, **changed))  # type: ignore[arg-type]
    law(found)
    assert np.array_equal(plain.exact.q, found.exact.q), "the robot knows nothing of its log"
    for kind in {"q", "tau"} - {"encoder delay": {"q"}, "wrong zeros": {"q"}}.get(fault, {"tau"}):
        if fault not in ("lost rows", "repeated rows"):
            assert np.array_equal(logged(plain, kind), logged(found, kind))


def test_coulomb_friction_falls_with_the_speed_where_it_is_asked_to() -> None:
    found = run(drives=DriveRanges(friction="stribeck"))
    laws = [next(k for k in d.laws if isinstance(k, Coulomb)) for d in found.drives]
    assert all(k.ratio >= 1.1 for k in laws)
    curve = found.steady(found.exact.v)
    size = np.array([k.effort for k in laws])
    # The law is taken at the speed in the middle of a step, not at that of its row.
    assert np.quantile(np.abs(found.exact.friction - curve) / size, 0.99) < 0.05
    slow, fast = laws[0].steady(np.array([0.05, 1.0]), 1.0) / np.tanh([2.5, 50.0])
    assert slow > fast * (1.0 + 0.3 * (laws[0].ratio - 1.0))


# --- the command


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a motion of the demonstration's arm, good and bad."""
    place, arm = tmp_path_factory.mktemp("simulate"), whole_robot(ARM)
    motion = given_motion(arm)
    time = np.linspace(0.0, SECONDS, 151)
    q, v, a = motion(time)
    columns = {"t": time}
    for kind, values in (("q", q), ("v", v), ("a", a)):
        columns |= {f"{kind}.{j}": values[:, k] for k, j in enumerate(arm.joints)}

    def write(name: str, changed: dict[str, Array | None]) -> None:
        chosen = {k: x for k, x in {**columns, **changed}.items() if x is not None}
        pyarrow.parquet.write_table(pyarrow.table(chosen), place / name)

    write("motion.parquet", {})
    write("positions.parquet", {k: None for k in columns if k[0] in "va"})
    write(
        "far.parquet", {"q.elbow": 3.0 + 0.1 * time, "v.elbow": 0.1 + 0 * time, "a.elbow": 0 * time}
    )
    write("fast.parquet", {k: None for k in columns if k[0] in "va"} | {"t": time / 20.0})
    write("without.parquet", {"q.elbow": None, "v.elbow": None, "a.elbow": None})
    write("other.parquet", {"q.elbo": columns["q.elbow"]})
    write("unlike.parquet", {"v.elbow": -columns["v.elbow"] + 1.0})
    write("backwards.parquet", {"t": time[::-1]})
    write("nan.parquet", {"q.elbow": np.full(151, np.nan)})
    write("short.parquet", {})
    short = pyarrow.parquet.read_table(place / "motion.parquet").slice(0, 2)
    pyarrow.parquet.write_table(short, place / "short.parquet")
    (place / "points.json").write_text('{"joint_names": ["elbow"], "points": [{}]}')
    return place


def test_the_command_writes_log_and_truth_byte_for_byte(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "sim.toml").write_text(
        "[simulation]\nseed = 4\n[simulation.drives]\nfriction = 'lugre'\nripple = 0.05\n"
        "[simulation.sensors]\nlost = 0.02\nrepeated = 0.02\ndelay = 0.003\nbias = 0.02\n"
        "[joint.elbow]\narmature = false\n"
    )
    asked = ("--with", "sim.toml", "--out", "one/log.mcap")
    done = heft("simulate", ARM, folder / "motion.parquet", *asked, cwd=tmp_path)
    assert done.code == 0, done.told
    assert "times real time" in done.said and "elbow" in done.said
    settings = SimulationSettings.from_toml(tmp_path / "sim.toml")
    for out, seed in (("two", 4), ("other", 5)):
        chosen = replace(settings, seed=seed)
        simulate_files(ARM, folder / "motion.parquet", tmp_path / out / "log.mcap", chosen)
    one, two, other = (tree(tmp_path / out) for out in ("one", "two", "other"))
    assert one == two, "another process leaves the same bytes"
    assert set(one) == {"log.mcap", "log.truth", "log.truth/exact.parquet", "log.truth/truth.json"}
    assert all(one[name] != other[name] for name in one if name != "log.truth")


def test_the_truth_is_that_of_the_log(folder: Path, tmp_path: Path) -> None:
    settings = SimulationSettings(sensors=replace(EXACT, lost=0.1))
    simulate_files(ARM, folder / "motion.parquet", tmp_path / "log.parquet", settings)
    log = pyarrow.parquet.read_table(tmp_path / "log.parquet")
    exact = pyarrow.parquet.read_table(tmp_path / "log.truth" / "exact.parquet")
    truth = json.loads((tmp_path / "log.truth" / "truth.json").read_text())
    logged_rows = np.isfinite(exact["logged_row"].to_numpy())
    assert logged_rows.sum() == log.num_rows < exact.num_rows
    for joint in truth["joints"]:
        for kind in ("q", "tau"):
            name = f"{kind}.{joint}"
            assert np.allclose(
                exact[name].to_numpy()[logged_rows], log[name].to_numpy(), rtol=1e-12
            )
    drive = truth["drives"]["elbow"]
    speed = exact["v.elbow"].to_numpy()
    curve = drive["viscous"]["coefficient"] * speed + drive["offset"]["effort"]
    curve += drive["coulomb"]["effort"] * np.tanh(speed / drive["coulomb"]["scale"])
    miss = np.abs(curve - exact["friction.elbow"].to_numpy())
    assert np.quantile(miss, 0.99) < 0.05 * drive["coulomb"]["effort"]
    assert truth["links"]["forearm"]["mass"] > 0.0


def test_positions_alone_are_a_motion(folder: Path, tmp_path: Path) -> None:
    made = [
        simulate_files(ARM, folder / f, tmp_path / "log.csv", SimulationSettings(sensors=EXACT))
        for f in ("motion.parquet", "positions.parquet")
    ]
    one, two = (k.experiment.exact.q for k in made)
    inside = slice(20, -20)  # a spline knows its ends less well
    assert np.abs(one - two)[inside].max() < 2e-3


def test_drives_that_are_stated_are_the_truth(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "sim.toml").write_text(
        "[simulation.joint.elbow]\narmature = 1.5\ncoulomb = 7.0\nviscous = 3.0\n"
    )
    settings = SimulationSettings.from_toml(tmp_path / "sim.toml")
    simulate_files(ARM, folder / "motion.parquet", tmp_path / "log.parquet", settings)
    truth = json.loads((tmp_path / "log.truth" / "truth.json").read_text())
    elbow = truth["drives"]["elbow"]
    assert elbow["armature"] == 1.5
    assert elbow["coulomb"]["effort"] == 7.0 and elbow["viscous"]["coefficient"] == 3.0
    assert truth["drives"]["shoulder_pan"]["coulomb"]["effort"] != 7.0


BAD: dict[str, tuple[tuple[str, ...], str, tuple[str, ...]]] = {
    "far": (("far.parquet",), "", ("limits of position", "elbow", "limits = false")),
    "fast": (("fast.parquet",), "", ("limits of speed",)),
    "joint missing": (("without.parquet",), "", ("q.elbow", "[joint.elbow]", "position = 0.0")),
    "joint unknown": (("other.parquet",), "", ("elbo", "did you mean 'elbow'")),
    "velocities of another motion": (("unlike.parquet",), "", ("v.elbow", "leave the columns")),
    "backwards": (("backwards.parquet",), "", ("do not increase", "row 2")),
    "not finite": (("nan.parquet",), "", ("not finite", "q.elbow")),
    "short": (("short.parquet",), "", ("too short", "at least 4")),
    "no trajectory": (("points.json",), "", ("no JointTrajectory",)),
    "missing file": (("motio.parquet",), "", ("does not exist", "motion.parquet")),
    "unknown key": (("motion.parquet",), "[simulation.sensors]\nnoize = 1", ("noize",)),
    "nearest key": (
        ("motion.parquet",),
        "[simulation.sensors]\nencoder_nose = 1",
        ("encoder_noise",),
    ),
    "unknown law": (("motion.parquet",), "[simulation.drives]\nfriction = 'lugree'", ("'lugre'",)),
    "unknown table": (("motion.parquet",), "[simulatoin]\nseed = 1", ("simulatoin",)),
    "drive of no joint": (
        ("motion.parquet",),
        "[simulation.joint.elbo]\ncoulomb = 1",
        ("elbo", "did you mean 'elbow'"),
    ),
    "out of range": (("motion.parquet",), "[simulation.sensors]\nlost = 1.5", ("lost", "0.9")),
    "below zero": (("motion.parquet",), "[simulation.drives]\ncoulomb = [-1, 1]", ("coulomb",)),
    "constants": (
        ("motion.parquet", "--out", "log.csv"),
        "[simulation.sensors]\nconstants = [1, 2]",
        ("6: shoulder",),
    ),
    "currents": (
        ("motion.parquet",),
        "[simulation.sensors]\nconstants = 2",
        ("no place", "Parquet"),
    ),
    "rate": (("motion.parquet", "--rate", "0"), "", ("--rate",)),
    "corner": (("motion.parquet", "--corner", "0"), "", ("--corner",)),
    "seed": (("motion.parquet", "--seed", "-1"), "", ("--seed",)),
    "large seed": (("motion.parquet",), f"[simulation]\nseed = {2**31 + 1}", ("seed",)),
    "format": (("motion.parquet", "--out", "log.xlsx"), "", (".xlsx",)),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named_with_its_cure_and_leaves_nothing(
    name: str,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from heft.cli import main

    (motion, *rest), text, words = BAD[name]
    arguments = ["heft", "simulate", str(ARM), str(folder / motion), *rest]
    if "--out" not in rest:
        arguments += ["--out", "log.mcap"]
    monkeypatch.chdir(tmp_path)
    if text:
        (tmp_path / "sim.toml").write_text(text)
        arguments += ["--with", "sim.toml"]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr().err
    assert ended.value.code == 2, told
    assert [w for w in words if w not in told] == [], told
    assert is_clean(told)
    assert {p.name for p in tmp_path.iterdir()} <= {"sim.toml"}


def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    arm = whole_robot(ARM)
    motion = given_motion(arm, 200.0)
    time = np.linspace(0.0, 200.0, 20_001)
    q, _, _ = motion(time)
    columns = {"t": time} | {f"q.{j}": q[:, k] for k, j in enumerate(arm.joints)}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "motion.parquet")
    asked = ["simulate", str(ARM), "motion.parquet", "--out", "log.mcap"]
    running = subprocess.Popen(
        [*HEFT, *asked], cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True
    )
    assert running.stderr is not None
    assert "s simulated" in running.stderr.readline(), "it tells how far it is"
    running.send_signal(signal.SIGINT)
    told = running.communicate(timeout=60)[1]
    assert running.returncode == 130 and "nothing was written" in told and is_clean(told)
    assert [p.name for p in tmp_path.iterdir()] == ["motion.parquet"]


def test_a_folder_of_somebody_elses_is_not_replaced(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "log.truth").mkdir()
    (tmp_path / "log.truth" / "thesis.tex").write_text("four years")
    with pytest.raises(InputError, match="other files"):
        simulate_files(ARM, folder / "motion.parquet", tmp_path / "log.mcap", SimulationSettings())
    assert (tmp_path / "log.truth" / "thesis.tex").exists()


def test_what_needs_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text('<mujoco><include file="b.xml"/></mujoco>')
    (tmp_path / "b.xml").write_text(
        "<mujoco><asset><mesh name='m' file='m.stl'/></asset><worldbody><body name='b'>"
        "<joint name='j'/><geom type='mesh' mesh='m'/></body></worldbody></mujoco>"
    )
    with pytest.raises(HeftError, match="includes others"):
        whole_robot(tmp_path / "a.xml")
    with pytest.raises(InvalidModel, match="that of a mesh"):
        whole_robot(tmp_path / "b.xml")
