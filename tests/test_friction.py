"""Laws of friction's terms: what they are functions of, their memory, and that all is linear."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.optimize

from heft.applications.identification.results import schema
from heft.dynamics import drive_columns, presliding
from heft.dynamics.drive_columns import DriveState, Presliding
from heft.dynamics.drives import (
    FRICTION,
    LINEAR_SCALE,
    LOAD_SPEED,
    SIGMOID_SPEEDS,
    STANDSTILL_SPEED,
    STOP_WIDTHS,
    TERMS,
    DriveMotion,
    Term,
    friction_terms,
    make_term,
    term_named,
)
from heft.dynamics.tree import PRISMATIC
from heft.errors import InputError, InvalidSetting
from heft.models.friction_code import c_source, python_source
from heft.models.options import Coupling, JointOptions, Options
from heft.models.robot import Robot
from heft.plants import RobotPlant, random_drive_state, random_states, standard_rows
from heft.plants.problem import Problem
from heft.recordings.recording import Recording
from heft.signals.settings import Smoothing
from heft.signals.weak_form import Weak
from heft_methods import Dynamics
from tests import robots
from tests.robots import FloatArray, Oracle
from tests.test_friction_code import compiled

EPS = float(np.finfo(float).eps)
COUPLED = Coupling((), ("m1", "m2"), ((1.0, -0.5), (0.3, 1.0)))


@cache
def robot_of(name: str) -> Robot:
    if name == "planar":
        return robots.planar_arm(drives=True)
    if name == "simple":
        return robots.planar_arm(drives=True, friction="simple")
    if name == "coupled":
        options = Options(gravity=(0.0, -9.81, 0.0), coupling=COUPLED)
        return Robot.from_urdf_text(robots.PLANAR_ARM, options)
    return robots.load(name)


PANDA, UR10 = "panda_description/urdf/panda.urdf", "ur_description/urdf/ur10_robot.urdf"
NAMES = ("planar", "simple", "coupled", PANDA, UR10)  # one with slides that mimic one another
every_robot = pytest.mark.parametrize("name", NAMES)


def state_of(robot: Robot, count: int = 40, seed: int = 3) -> tuple[FloatArray, ...]:
    """Return q, v, a of random states, and their state."""
    rng = np.random.default_rng(seed)
    q, v, a = random_states(robot, count, rng)
    drawn = random_drive_state(robot, q, v, a, rng)
    return q, v, a, replace(drawn, velocity=v.T)  # type: ignore[return-value]


# ---- terms ----------------------------------------------------------------------------------


Law = Callable[[float, float, float, float, float, float], float]
# The table of laws: a scale, and the definition of one sample as a function of the scale, x, w,
# dw/dt, the load and z/b, whose width b is `WIDTHS` times the scale. All that the code says of a
# term is held against its row.
LAWS: dict[str, tuple[float | None, Law]] = {
    "armature": (None, lambda s, x, w, rate, load, slip: rate),
    "viscous": (None, lambda s, x, w, rate, load, slip: w),
    "coulomb": (None, lambda s, x, w, rate, load, slip: float(np.sign(w))),
    "sigmoid": (0.03, lambda s, x, w, rate, load, slip: math.tanh(w / s)),
    "stop": (0.01, lambda s, x, w, rate, load, slip: slip),
    "load": (0.02, lambda s, x, w, rate, load, slip: math.tanh(w / s) * abs(load)),
    "offset": (None, lambda s, x, w, rate, load, slip: 1.0),
    "stribeck": (0.05, lambda s, x, w, rate, load, slip: slip * math.exp(-(w * w) / (s * s))),
}
WIDTHS = {"stop": 1.0, "stribeck": 0.015}
COUNT = 400


def motion_for(term: Term) -> DriveMotion:
    """Return a motion that turns round, stands still and is loaded either way."""
    rng = np.random.default_rng(4)
    w = 0.1 * rng.normal(size=COUNT) * (rng.random(COUNT) > 0.2)
    load = rng.uniform(1.0, 30.0, COUNT) * rng.choice([-1.0, 1.0], COUNT)
    x = walk(COUNT)[0]
    width = width_of(term)
    stops = {term.width: remembered(x, width)} if width else {}
    return DriveMotion(x, w, rng.normal(size=COUNT), load, stops)


def width_of(term: Term) -> float:
    """Return the width of a term's stop operator, 0 where it has none."""
    return WIDTHS.get(term.kind, 0.0) * (term.scale or 0.0)


def by_law(term: Term, law: Law, m: DriveMotion) -> FloatArray:
    """Return a term's column by its definition."""
    scale = np.nan if term.scale is None else term.scale
    slips = m.stops.get(term.width, np.zeros(COUNT))
    samples = zip(m.position, m.velocity, m.acceleration, m.rigid, slips, strict=True)
    return np.array([law(scale, *map(float, row)) for row in samples])


def require_lawful(term: Term, law: Law, folder: Path) -> None:
    """Hold columns, slope, steady curve, exported code and simulation against a definition."""
    motion = motion_for(term)
    wanted = by_law(term, law, motion)
    bound = 16.0 * EPS * np.maximum(np.abs(wanted), 1.0)  # two libraries' functions, a few ulp each
    assert (np.abs(term.column(motion) - wanted) <= bound).all()
    written = np.full(COUNT, np.nan)
    term.write(motion, written)
    np.testing.assert_array_equal(written, term.column(motion))
    assert term_named(term.name) == term

    h = 0.5  # less than any load: what is piecewise linear has exact differences
    ends = [by_law(term, law, replace(motion, rigid=motion.rigid + d)) for d in (-h, h)]
    slope = (ends[1] - ends[0]) / (2.0 * h)
    assert np.abs(term.slope(motion) - slope).max() <= 64.0 * EPS * np.abs(motion.rigid).max()
    assert term.loaded == bool(np.any(slope))

    v = motion.velocity
    still = np.zeros(COUNT)
    slipped = {width: np.sign(v) for width in motion.stops}
    sliding = term.column(DriveMotion(still, v, still, still, slipped))
    assert np.array_equal(term.steady(v), sliding)

    require_simulated(term, motion, wanted, bound)
    full = [{"term": term.kind, "scale": term.scale, "value": 1.0}]
    if term.inertial:
        with pytest.raises(InputError):
            python_source("arm", {"joint": {"full": full}}, {})
        return
    rows = np.column_stack([motion.position, v, motion.rigid])
    names: dict[str, Any] = {}
    exec(python_source("arm", {"joint": {"full": full}}, {}), names)
    model = names["Friction"]()
    written = np.array([model.torque(*row[:, None].tolist())[0] for row in rows])
    assert (np.abs(written - wanted) <= bound).all()
    (folder / "friction.c").write_text(c_source("arm", {"joint": {"full": full}}, {}))
    answer = compiled("C", folder)
    assert answer.returncode == 0, answer.stderr
    ran = subprocess.run([folder / "main"], input=rows.tobytes(), capture_output=True, check=True)
    assert (np.abs(np.frombuffer(ran.stdout) - wanted) <= bound).all()


def require_simulated(term: Term, m: DriveMotion, wanted: FloatArray, bound: FloatArray) -> None:
    """Hold forward dynamics against a term's column, or see that it refuses the term."""
    robot, named = robot_of("planar"), {f"shoulder.{term.name}": 1.0}
    if term.loaded or term.remembers:
        with pytest.raises(InvalidSetting, match="simulated"):
            Dynamics.of(robot, named)
        return
    dynamics, bare = Dynamics.of(robot, named), Dynamics.of(robot)
    q, v = np.array([0.3, -0.2]), np.array([0.5, 0.1])
    heavier = dynamics.equation(q, v)[0] - bare.equation(q, v)[0]
    assert np.array_equal(np.round(heavier, 12), np.diag([float(term.inertial), 0.0]))
    if not term.inertial:
        samples = zip(m.position, m.velocity, strict=True)
        pairs = (np.array([[x, 0.0], [w, 0.0]]) for x, w in samples)
        found = np.array([dynamics.friction(x, w, np.sign(w)) for x, w in pairs])
        assert (np.abs(found[:, 0] - wanted) <= bound).all()
        assert not found[:, 1].any()


def test_each_term_has_its_law() -> None:
    assert set(LAWS) == set(TERMS)
    assert all(TERMS[t.kind] is type(t) for terms in FRICTION.values() for t in terms)


@pytest.mark.parametrize("kind", LAWS)
def test_a_term_is_its_law_wherever_it_is_said(kind: str, tmp_path: Path) -> None:
    scale, law = LAWS[kind]
    require_lawful(make_term(kind, scale), law, tmp_path)


@pytest.mark.parametrize(
    ("kind", "scale"),
    [("dahl", None), ("viscous", 0.1), ("sigmoid", None), ("stop", 0.0), ("load", math.inf)],
)
def test_what_is_no_term_is_not_made(kind: str, scale: float | None) -> None:
    with pytest.raises(InvalidSetting):
        make_term(kind, scale)
    for name in ("", "viscous[", "sigmoid[fast]", "sigmoid", f"{kind}[{scale}]"):
        with pytest.raises(InvalidSetting):
            term_named(name)


def test_the_schema_enumerates_the_terms_of_friction() -> None:
    defined = schema()["$defs"]
    assert defined["term"]["enum"] == [k for k, t in TERMS.items() if not t.inertial]
    assert all(f"{k}: " in defined["term"]["description"] for k in defined["term"]["enum"])
    assert defined["model"]["enum"] == list(FRICTION)


@every_robot
def test_the_effort_is_the_sum_of_the_terms_by_virtual_work(name: str) -> None:
    robot = robot_of(name)
    _, _, _, state = state_of(robot)
    rng = np.random.default_rng(1)
    labels = robot.drive_labels(robot.drive_columns).names
    values = dict(zip(labels, rng.uniform(0.1, 1.0, len(labels)).tolist(), strict=True))
    stops = robot.drives.stops
    wanted = np.zeros_like(state.velocity)
    for k in range(wanted.shape[1]):
        for d, drive in enumerate(robot.drives):
            w, rate, load = (
                float(drive.ratio @ x[:, k])
                for x in (state.velocity, state.acceleration, state.rigid)
            )
            for term in drive.terms:
                slip = state.stops[stops.index((d, term.width)), k] if term.remembers else 0.0
                law, scale = LAWS[term.kind][1], term.scale or np.nan
                total = law(scale, np.nan, w, rate, load, slip)
                wanted[:, k] += drive.ratio * values[f"{drive.name}.{term.name}"] * total
    found = drive_columns.effort(robot.drives, values, state)
    assert np.abs(found - wanted).max() <= 64 * EPS * len(labels) * np.abs(wanted).max()


@every_robot
def test_the_effort_is_columns_times_values(name: str) -> None:
    robot = robot_of(name)
    _, _, _, state = state_of(robot)
    columns = robot.drive_columns
    values = np.random.default_rng(2).uniform(0.1, 1.0, len(columns))
    made = drive_columns.columns(robot.drives, columns, state)
    total = np.zeros_like(state.velocity)
    for (channel, column), weight in zip(made.acts, made.weights, strict=True):
        total[channel] += weight * values[column] * made.values[column]
    named = dict(zip(robot.drive_labels(columns).names, values.tolist(), strict=True))
    found = drive_columns.effort(robot.drives, named, state)
    assert np.abs(found - total).max() <= 8 * EPS * len(columns) * np.abs(total).max()


@every_robot
def test_simple_friction_is_predicted_by_its_formula(name: str) -> None:
    """`armature·ẇ + viscous·w + coulomb·tanh(w/scale) + offset`: no sign that chatters."""
    robot = robot_of(name)
    _, _, _, state = state_of(robot)
    drawn = np.random.default_rng(2)
    values: dict[str, float] = {}
    total = np.zeros_like(state.velocity)
    for drive in robot.drives:
        w, rate = drive.ratio @ state.velocity, drive.ratio @ state.acceleration
        scale = STANDSTILL_SPEED * (0.1 if drive.linear else 1.0)
        laws = {"armature": rate, "viscous": w, "coulomb": np.tanh(w / scale)}
        if drive.name in robot.joints:
            laws["offset"] = np.ones_like(w)
        for kind, law in laws.items():
            values[f"{drive.name}.{kind}"] = size = float(drawn.uniform(0.1, 1.0))
            total += drive.ratio[:, None] * size * law
    found = drive_columns.simple_effort(robot.drives, values, state)
    assert np.abs(found - total).max() <= 64 * EPS * np.abs(total).max()


@pytest.mark.parametrize("name", [*NAMES, *robots.CHOSEN])
def test_rows_times_parameters_is_the_rigid_torque_and_friction(name: str) -> None:
    robot = robot_of(name)
    q, v, a, state = state_of(robot, 20)
    bodies = Oracle.of(robot).parameters()
    drives = np.random.default_rng(2).uniform(0.1, 1.0, len(robot.drive_columns))
    rows = standard_rows(robot, q, v, a, state)  # type: ignore[arg-type]
    rigid = Oracle.of(robot).inverse_dynamics(q, v, a).T
    names = robot.labels.names[len(bodies) :]
    named = dict(zip(names, drives.tolist(), strict=True))
    wanted = rigid + drive_columns.effort(robot.drives, named, state)  # type: ignore[arg-type]
    parameters = np.concatenate([bodies, drives])
    # Rounding of all columns, and of pinocchio's chain of joints.
    size = np.abs(rows) @ np.abs(parameters)
    bound = (32.0 * len(robot.tree.names) + len(parameters)) * EPS * size.max()
    assert np.abs(rows @ parameters - wanted.T).max() <= bound


def test_the_load_is_the_rigid_torque_of_the_bodies_given() -> None:
    robot = robot_of(UR10)
    problem = Problem(RobotPlant(robot), (swing(robot, 600),), Smoothing(corner=20.0, delay=0.0), 1)
    bodies = Oracle.of(robot).parameters()
    loaded = problem.with_settings(plant=RobotPlant(robot, bodies))
    first = 10 * len(robot.tree.names)
    loads = [first + k for k, (_, t) in enumerate(robot.drive_columns) if t.kind == "load"]
    kept = list(problem.base.kept)
    places = [kept.index(k) for k in loads]
    assert len(places) == 6
    for unloaded in problem.rows():
        assert not unloaded.regressor[:, :, places].any()
    (s,), (rows,) = loaded.samples(), loaded.rows()
    motion = s.motion.bodies
    q, v, a = s.motion.position.T, motion.velocity.T, motion.acceleration.T
    rigid = Oracle.of(robot).inverse_dynamics(q, v, a)
    scale = LOAD_SPEED
    wanted = np.tanh(v / scale) * np.abs(rigid)
    found = np.einsum("ncc->nc", rows.regressor[:, :, places])
    assert np.abs(found - wanted).max() <= 1e-12 * np.abs(rigid).max()
    off = rows.regressor[:, :, places] * (1.0 - np.eye(6))
    assert not off.any()


@every_robot
def test_no_coefficient_but_an_offset_may_be_negative(name: str) -> None:
    robot = robot_of(name)
    believed = Problem(RobotPlant(robot), ()).space
    first = 10 * len(believed.groups)
    free = {n for k, n in enumerate(believed.labels.names) if k not in believed.nonnegative}
    drives = set(believed.labels.names[first:])
    assert free & drives == {n for n in drives if n.endswith(".offset")}
    assert len(free & drives) == len(robot.joints)


def test_every_drive_with_friction_has_simple_friction_and_only_joints_an_offset() -> None:
    for name in ("planar", "simple", "coupled", UR10):
        robot = robot_of(name)
        terms = {(robot.drives[d].name, t.kind) for d, t in robot.drives.simple_columns}
        kinds = {d.name: ("viscous", "coulomb", "offset") for d in robot.drives}
        kinds |= {
            d.name: ("viscous", "coulomb") for d in robot.drives if d.name not in robot.joints
        }
        assert terms == {(name, kind) for name, own in kinds.items() for kind in own}
    assert not robots.planar_arm().drives.simple_columns


def test_rank_counts_each_dictionary_once_by_its_steepest_term() -> None:
    for name in ("planar", "coupled", UR10):
        plant = RobotPlant(robot_of(name))
        kept = [plant.labels.names[k] for k in set(plant.independent) - set(plant.redundant)]
        drives = plant.robot.drives
        unit = {d.name: 0.1 if d.linear else 1.0 for d in drives}
        wanted = [f"{n}.sigmoid[{SIGMOID_SPEEDS[0] * u:g}]" for n, u in unit.items()]
        assert sorted(kept) == sorted(wanted)
    assert RobotPlant(robot_of("simple")).redundant == ()


@pytest.mark.parametrize("linear", [False, True])
def test_friction_of_any_fit_takes_power_in_steady_sliding(linear: bool) -> None:
    v = np.geomspace(1e-5, 10.0, 200)
    v = np.concatenate([-v, v])
    for model in FRICTION:
        for term in friction_terms(model, linear):
            if term.nonnegative:
                assert (term.steady(v) * v >= 0.0).all()


@pytest.mark.parametrize("speed", [0.025, 0.05, 0.09, 0.14])  # none is one of the dictionary's
@pytest.mark.parametrize("static", [1.1, 1.6])
def test_the_dictionary_holds_curves_that_fall(speed: float, static: float) -> None:
    """Exponents of the survey's Stribeck curve [ArmstrongHelouvry1994], over Coulomb friction."""
    v = np.geomspace(0.003, 2.0, 120)
    terms = [t for t in friction_terms("full") if not t.loaded and t.nonnegative]
    columns = drive_columns.steady(terms, v).T
    monotone = [k for k, t in enumerate(terms) if t.kind != "stribeck"]
    size = (static - 1.0) * math.sqrt(len(v))  # of the part that falls, whose share errors are
    for exponent, bound in ((2.0, 0.01), (1.0, 0.02), (0.5, 0.02)):
        curve = 1.0 + (static - 1.0) * np.exp(-((v / speed) ** exponent)) + 0.3 * v
        assert scipy.optimize.nnls(columns, curve)[1] <= bound * size
        assert scipy.optimize.nnls(columns[:, monotone], curve)[1] > 8.0 * bound * size


def test_slides_have_a_tenth_of_the_scales_of_hinges() -> None:
    robot = robot_of(PANDA)
    first = len(robot.channels) - len(robot.joints)
    sliding = set(robot.tree.channel[robot.tree.kind == PRISMATIC].tolist())
    for k, joint in enumerate(robot.joints):
        drive = next(d for d in robot.drives if d.name == joint)
        widths = [t.scale for t in drive.terms if t.kind == "stop"]
        assert drive.linear == (first + k in sliding)
        assert widths == [w * (LINEAR_SCALE if drive.linear else 1.0) for w in STOP_WIDTHS]
    assert {d.linear for d in robot.drives} == {True, False}


def test_steady_friction_is_what_is_left_when_stops_have_slipped() -> None:
    robot = robot_of("planar")
    terms = robot.drives[0].terms
    speed = np.array([-2.0, -0.02, 1e-4, 0.3])
    velocity = np.stack([speed, np.zeros(4)])
    stops = np.zeros((len(robot.drives.stops), 4))
    for k, (d, _) in enumerate(robot.drives.stops):
        stops[k] = np.sign(speed) if d == 0 else 0.0
    still = np.zeros_like(velocity)
    state = DriveState(still, velocity, still, stops, still)
    found = drive_columns.columns(robot.drives, [(0, t) for t in terms], state).values
    assert np.array_equal(found, drive_columns.steady(terms, speed))


# ---- memory ---------------------------------------------------------------------------------


def remembered(x: FloatArray, width: float, z: float = 0.0) -> FloatArray:
    """A stop operator in plain Python, over its width, from z at the first sample."""
    out = [z / width]
    for before, now in zip(x[:-1].tolist(), x[1:].tolist(), strict=True):
        z = min(max(z + (now - before), -width), width)
        out.append(z / width)
    return np.array(out)


def walk(count: int, seed: int = 1) -> FloatArray:
    """Return two positions that turn round at strokes of every size, shape (2, count)."""
    rng = np.random.default_rng(seed)
    size = 10.0 ** rng.uniform(-4.0, -1.0, (2, count // 20 + 1)).repeat(20, axis=1)[:, :count]
    return np.cumsum(0.1 * size * rng.normal(size=(2, count)), axis=1)


@pytest.mark.parametrize("seed", range(4))
def test_a_stop_follows_and_slips_at_its_width(seed: int) -> None:
    x = walk(2000, seed)
    widths = np.array([0.003, 0.03])
    held = np.array([0.4, -1.0])
    found = presliding.stops(x, widths, x[:, 0], held)
    for k in range(2):
        wanted = remembered(x[k], widths[k], held[k] * widths[k])
        # Both add the same differences; a sum of 2000 of them is right to as many roundings.
        assert np.abs(found[k] - wanted).max() <= 2000 * EPS
        assert np.abs(found[k]).max() == 1.0  # it slips, and is stuck in between
        assert (np.abs(found[k]) < 1.0).any()


def pieces_of(robot: Robot, time: FloatArray, q: FloatArray, cuts: list[slice]) -> list[Presliding]:
    found: list[Presliding] = []
    for cut in cuts:
        before = found[-1] if found else None
        found.append(drive_columns.presliding(robot.drives, time[cut], q[:, cut], before))
    return found


CUTS = {
    "two": [slice(0, 300), slice(300, 1000)],
    "rows one by one": [slice(k, k + 1) for k in range(1000)],
    "stretches that reach into one another": [slice(0, 400), slice(350, 700), slice(650, 1000)],
    "an empty one first": [slice(0, 0), slice(0, 1000)],
}


@pytest.mark.parametrize("name", ["planar", "coupled"])
@pytest.mark.parametrize("cuts", CUTS)
def test_memory_in_stretches_is_memory_on_the_whole(name: str, cuts: str) -> None:
    robot, q = robot_of(name), walk(1000)
    time = 0.002 * np.arange(1000)
    time[500:] += 3.0  # what happens in a silence counts as one move
    whole = drive_columns.presliding(robot.drives, time, q).values
    for cut, part in zip(CUTS[cuts], pieces_of(robot, time, q, CUTS[cuts]), strict=True):
        # The last z/b is multiplied by b and divided again at each cut: two roundings each.
        assert np.abs(part.values - whole[:, cut]).max(initial=0.0) <= 2000 * EPS
    for k, (d, width) in enumerate(robot.drives.stops):
        position = robot.drives[d].ratio @ q
        assert np.abs(whole[k] - remembered(position, width)).max() <= 2000 * EPS


@pytest.mark.parametrize("name", ["planar", "coupled"])
def test_columns_of_all_drives_are_those_of_each_by_itself(name: str) -> None:
    robot, q = robot_of(name), walk(300)
    drives, (v, a, load) = robot.drives, np.random.default_rng(3).normal(size=(3, *q.shape))
    stops = drive_columns.presliding(drives, 0.002 * np.arange(q.shape[1]), q).values
    state = drive_columns.DriveState(q, v, a, stops, load)
    every, chosen = range(len(drives.columns)), [*range(1, len(drives.columns), 3)]
    for wanted in (None, chosen, []):
        values = drive_columns.columns(drives, drives.columns, state, wanted).values
        for k, (d, term) in enumerate(drives.columns):
            own = drive_columns.motion_of(drives, [d], state)
            asked = k in (every if wanted is None else wanted)
            wide = term.column(own) if asked else np.zeros(q.shape[1])
            np.testing.assert_allclose(values[k], wide, rtol=4 * EPS)


def test_a_clock_that_was_set_back_goes_on_from_the_end() -> None:
    robot, q = robot_of("planar"), walk(1000)
    time = 0.002 * np.arange(1000)
    reset = np.concatenate([time[:600], time[:400]])  # from zero once more
    whole = drive_columns.presliding(robot.drives, time, q).values
    parts = pieces_of(robot, reset, q, [slice(0, 600), slice(600, 1000)])
    assert np.abs(parts[1].values - whole[:, 600:]).max() <= 2000 * EPS


def swing(robot: Robot, count: int, gap: int | None = None) -> Recording:
    """Return a motion of three sines a joint, at 500 Hz, with a silence of two seconds."""
    rng = np.random.default_rng(5)
    time = 0.002 * np.arange(count)
    if gap is not None:
        time[gap:] += 2.0
    pace = 2.0 * np.pi * rng.uniform(0.1, 0.8, (3, 1, len(robot.joints)))
    q = (0.4 * np.sin(pace * time[:, None] + rng.uniform(0, 6.0, pace.shape))).sum(axis=0)
    tau = rng.normal(size=q.shape)
    return Recording.from_arrays(
        time,
        "swing",
        q=dict(zip(robot.joints, q.T, strict=True)),
        tau=dict(zip(robot.joints, tau.T, strict=True)),
    )


def test_memory_lasts_over_windows_and_silences_of_a_log() -> None:
    """80 000 rows are more than one window, the silence apart."""
    robot = robot_of("planar")
    log, short = swing(robot, 80_000, 10_000), swing(robot, 2000)
    smoothing = Smoothing(corner=20.0, trim=0.0, delay=0.0)
    parts = list(Problem(RobotPlant(robot), (log, short), smoothing, 2).samples())
    assert [s.recording for s in parts] == [0, 0, 0, 1]
    for recording, rows in enumerate((80_000, 2000)):  # and begins anew in each log
        mine = [s for s in parts if s.recording == recording]
        q = np.concatenate([s.motion.position for s in mine], axis=1)
        found = np.concatenate([s.memory.T for s in mine], axis=1)
        assert q.shape[1] == rows
        for k, (d, width) in enumerate(robot.drives.stops[::5]):
            wanted = remembered(robot.drives[d].ratio @ q, width)
            assert np.abs(found[5 * k] - wanted).max() <= 1e-9


@pytest.mark.parametrize("torque", ["raw", "filtered"])
def test_rows_that_are_not_asked_for_are_remembered_all_the_same(torque: str) -> None:
    robot = robot_of("planar")
    log = swing(robot, 4000, 1500)
    smoothing = Smoothing(corner=20.0, trim=0.5, delay=0.0, torque=torque)  # type: ignore[arg-type]
    some = log.selecting(lambda rows: (rows // 300) % 2 == 0)
    whole, half = (Problem(RobotPlant(robot), (k,), smoothing, 1) for k in (log, some))
    everything, chosen = (
        {float(t): y for r in p.rows() for t, y in zip(r.time, r.regressor, strict=True)}
        for p in (whole, half)
    )
    assert 0 < len(chosen) < len(everything)
    for time, row in chosen.items():
        assert np.array_equal(row, everything[time])


# ---- rows, residuals, information -----------------------------------------------------------

WAYS = {
    "raw": (Smoothing(corner=20.0, delay=0.0), None),
    "late": (Smoothing(corner=20.0, delay=0.005), None),
    "filtered": (Smoothing(corner=20.0, delay=0.0, torque="filtered"), None),
    "weak": (Smoothing(corner=20.0, delay=0.0), Weak()),
}


@pytest.mark.parametrize("name", ["planar", "coupled", "simple"])
@pytest.mark.parametrize("way", WAYS)
def test_residuals_and_information_are_those_of_the_rows(way: str, name: str) -> None:
    robot = robot_of(name)
    smoothing, weak = WAYS[way]
    logs = (swing(robot, 3000, 1200), swing(robot, 1500))
    plant = RobotPlant(robot, robot.nominal())
    problem = Problem(plant, logs, smoothing, 2, weak=weak)
    values = np.random.default_rng(1).normal(size=len(problem.labels))
    rows = list(problem.rows())
    Y = np.concatenate([r.regressor for r in rows])
    tau = np.concatenate([r.effort for r in rows])
    assert len(Y) > 20
    left = np.concatenate([r.values for r in problem.residuals(values)])
    size = np.abs(Y) @ np.abs(values) + np.abs(tau)
    assert left.shape == tau.shape
    assert (np.abs(left - (tau - Y @ values)) <= 200 * EPS * size.max()).all()
    first = 0
    for piece in problem.residuals(values):
        chosen = np.arange(0, len(piece.values), 7)
        same = Y[first + chosen]
        assert np.abs(piece.regressor(chosen) - same).max() <= 64 * EPS * np.abs(Y).max()
        first += len(piece.values)
    information = problem.information()
    for c, triangle in enumerate(information.triangles):
        block = np.column_stack([Y[:, c], tau[:, c]])
        wide, length = triangle.spread(len(values)), np.linalg.norm(block, axis=0)
        bound = 4.0 * (len(block) + len(values)) * EPS * np.outer(length, length)
        assert (np.abs(wide.T @ wide - block.T @ block) <= bound).all()
        assert triangle.rows == len(block)
    energy = [t.residual_energy(values) for t in information.triangles]
    assert energy == pytest.approx(np.sum(left**2, axis=0).tolist(), rel=1e-9)


@pytest.mark.parametrize("way", WAYS)
def test_information_does_not_depend_on_threads(way: str) -> None:
    robot = robot_of("coupled")
    smoothing, weak = WAYS[way]
    logs = tuple(swing(robot, n, n // 2) for n in (5000, 1500, 3000))
    one, two = (
        Problem(RobotPlant(robot), logs, smoothing, k, weak=weak).information() for k in (1, 3)
    )
    for a, b in zip(one.triangles, two.triangles, strict=True):
        assert np.array_equal(a.factor, b.factor) and a.rows == b.rows > 0


def test_friction_may_be_left_out_joint_by_joint() -> None:
    joint = {"shoulder": JointOptions(friction="none"), "elbow": JointOptions(friction="simple")}
    robot = Robot.from_urdf_text(robots.PLANAR_ARM, Options(joint=joint))
    names = robot.drive_labels(robot.drive_columns).names
    assert names == (
        "shoulder.armature",
        "elbow.armature",
        "elbow.viscous",
        "elbow.coulomb",
        "elbow.offset",
    )
