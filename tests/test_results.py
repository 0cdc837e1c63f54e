"""The folder of results: what it holds, that it is true, and that it is whole or not there.

The arm that comes with heft is identified once; the witnesses are pinocchio, jsonschema and the
truth that the arm was simulated with.
"""

from __future__ import annotations

import errno
import hashlib
import html
import itertools
import json
import math
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pinocchio as pin
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest
import scipy.linalg

from heft.applications.demo import FOLDER as DEMO
from heft.applications.identification import report
from heft.applications.identification.comparison import Side
from heft.applications.identification.entries import base_entries
from heft.applications.identification.identification import Identification
from heft.applications.identification.identified import Identified
from heft.applications.identification.inputs import identify
from heft.applications.identification.results import FILES, refuse_foreign, schema, to_json, write
from heft.applications.predict import predict_files
from heft.dynamics.drive_columns import steady
from heft.errors import InputError, InvalidSetting, UnlikeLabels
from heft.files import require_schema, writing
from heft.fit.judged import _armatures
from heft.fit.scores import filtered
from heft.fit.settings import Settings
from heft.information.square_root import Information
from heft.models.options import Coupling, JointOptions, LinkOptions, Options
from heft.models.robot import Robot
from heft.plants import RobotPlant
from heft.plants.problem import Problem
from heft.recordings.recording import Recording
from tests.robots import PLANAR_ARM, FloatArray, Oracle

SCHEMA = schema()
ARM, RUN1, RUN2 = DEMO / "arm.urdf", DEMO / "run1.parquet", DEMO / "run2.parquet"
TRUTH = json.loads((DEMO / "truth.json").read_text())
JOINTS = tuple(TRUTH["joints"])
AXES = "xyz"
MOMENTS = ("xx", "xy", "yy", "xz", "yz", "zz")


def contents(folder: Path) -> dict[str, bytes]:
    """Return the bytes of all files of a folder, by name."""
    return {p.name: p.read_bytes() for p in folder.iterdir()}


@dataclass(frozen=True)
class Run:
    """An identification and the folder that it left."""

    found: Identification
    folder: Path
    estimate: dict[str, Any]


def run(folder: Path, threads: int = 2, given: Path | None = None) -> Run:
    settings = Settings(threads=threads)
    found = identify(ARM, [RUN1], [RUN2], given=given, settings=settings)
    write(found, folder, report.html)
    return Run(found, folder, json.loads((folder / "estimate.json").read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return the arm that comes with heft, identified. Nobody writes to its folder."""
    return run(tmp_path_factory.mktemp("arm") / "found")


@pytest.fixture(scope="module")
def second(arm: Run) -> Identification:
    """Return the arm identified from its second log alone."""
    return identify(ARM, [RUN2])


@pytest.fixture(scope="module")
def both(arm: Run) -> Identification:
    """Return the arm identified from its second log and what the first one told."""
    return identify(ARM, [RUN2], given=arm.folder)


DOWN = (0.0, -9.81, 0.0)
RIGID = JointOptions(friction="none", armature=False)
# Options of the planar arm, and which of its joints never move.
CASES: dict[str, tuple[Options, tuple[str, ...]]] = {
    "two joints": (Options(gravity=DOWN), ()),
    "a joint that never moves": (Options(gravity=DOWN), ("elbow",)),
    "no friction": (Options(gravity=DOWN, joint={"shoulder": RIGID, "elbow": RIGID}), ()),
    "a gear": (Options(gravity=DOWN, joint={"elbow": JointOptions(gain=2.0, reduction=50.0)}), ()),
    "torque that is not measured": (
        Options(gravity=DOWN, joint={"elbow": JointOptions(measured=False)}),
        (),
    ),
    "a joint held still": (
        Options(gravity=DOWN, joint={"elbow": JointOptions(position=0.5)}),
        (),
    ),
    "limits of a link": (
        Options(
            gravity=DOWN,
            limits={"lower": LinkOptions((0.1, 20.0), ((-1.0, 1.0), (-1.0, 1.0), (0.0, 0.0)))},
        ),
        (),
    ),
    "coupled motors": (
        Options(gravity=DOWN, coupling=Coupling((), ("m1", "m2"), ((1.0, -1.0), (0.0, 1.0)))),
        (),
    ),
}


def planar(name: str, folder: Path) -> dict[str, Any]:
    """Return the estimate of one of `CASES`, as the file has it, of a log made by pinocchio."""
    options, still = CASES[name]
    robot = Robot.from_urdf_text(PLANAR_ARM, options)
    oracle = Oracle.of(robot)
    t = np.arange(0.0, 12.0, 0.005)
    q, v, a = (np.zeros((len(t), 2)) for _ in range(3))
    for k, joint in enumerate(robot.joints):
        held = options.of(joint).position
        q[:, k] = held or 0.0
        for w, size in ((1.7 + k, 0.7), (3.1 - 0.3 * k, 0.4), (5.3 + 0.7 * k, 0.2)):
            if joint in still or held is not None:
                break
            phase = w * t + k + w
            q[:, k] += size * np.sin(phase)
            v[:, k] += size * w * np.cos(phase)
            a[:, k] -= size * w**2 * np.sin(phase)
    tau = oracle.inverse_dynamics(q, v, a) + 0.3 * v + 0.1 * np.sign(v) + 0.05 * a
    tau += 0.02 * np.random.default_rng(1).standard_normal(tau.shape)
    signals = {k: dict(zip(robot.joints, x.T, strict=True)) for k, x in (("q", q), ("tau", tau))}
    log = Recording.from_arrays(t, "planar", q=signals["q"], tau=signals["tau"])
    write(identify(robot, [log]), folder)
    return strict((folder / "estimate.json").read_text(encoding="utf-8"))


def problems(estimate: object) -> list[str]:
    """Return what is wrong with an estimate by the schema that heft ships."""
    validator = jsonschema.Draft202012Validator(SCHEMA)
    return [f"{list(e.absolute_path)}: {e.message}" for e in validator.iter_errors(estimate)]


def strict(text: str) -> Any:
    """Return parsed JSON, NaN and infinities refused."""

    def refuse(name: str) -> None:
        raise AssertionError(name)

    return json.loads(text, parse_constant=refuse)


# What the files say


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_the_estimate_is_what_its_schema_promises(arm: Run) -> None:
    text = (arm.folder / "estimate.json").read_text(encoding="utf-8")
    assert problems(strict(text)) == []


@pytest.mark.parametrize("name", CASES)
def test_any_robots_estimate_is_what_the_schema_promises(name: str, tmp_path: Path) -> None:
    assert problems(planar(name, tmp_path / "found")) == []


def test_what_is_not_known_is_null_and_not_a_number(tmp_path: Path) -> None:
    estimate = planar("a joint that never moves", tmp_path / "found")
    assert estimate["verdict"] == "poor"
    assert estimate["information"]["condition"] is None
    assert estimate["information"]["rank"] < estimate["information"]["columns"]
    blind = [e for e in estimate["base_parameters"] if e["value"] is None]
    assert blind
    assert all(e["std"] is None and e["relative_std"] is None for e in blind)


SPOILT: dict[str, Callable[[dict[str, Any]], object]] = {
    "an unknown key": lambda e: e.update(more=1),
    "no verdict": lambda e: e.pop("verdict"),
    "another verdict": lambda e: e.update(verdict="fine"),
    "another version": lambda e: e.update(schema=2),
    "a status in capitals": lambda e: e["checks"][0].update(status="PASS"),
    "another word for seen": lambda e: e["parameters"][0].update(seen="yes"),
    "a number as text": lambda e: e["parameters"][0].update(value="1.0"),
    "a parameter without a value": lambda e: e["parameters"][0].update(value=None),
    "a mass in metres": lambda e: e["parameters"][0].update(unit="m"),
    "a negative mass": lambda e: e["parameters"][0].update(value=-1.0),
    "a negative deviation": lambda e: e["parameters"][0].update(std=-1.0),
    "a share above one": lambda e: e["parameters"][0].update(share=1.5),
    "a negative viscosity": lambda e: e["joints"]["elbow"]["simple"].update(viscous=-1.0),
    "a term of no model": lambda e: e["joints"]["elbow"]["full"][0].update(term="magic"),
    "a hash cut off": lambda e: e["inputs"][0].update(sha256="abc"),
    "a log without its rows": lambda e: e["inputs"][1].pop("samples"),
    "a model with rows": lambda e: e["inputs"][0].update(samples=3),
    "a setting gone": lambda e: e["settings"]["smoothing"].pop("corner"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_the_schema_refuses(name: str, arm: Run) -> None:
    spoilt = json.loads(json.dumps(arm.estimate))
    SPOILT[name](spoilt)
    assert problems(spoilt)


def test_units_and_numbers_of_the_estimate_are_those_of_the_model_file(arm: Run) -> None:
    model = pin.buildModelFromUrdf(str(arm.folder / "robot.urdf"))
    names = ("mass", *(f"com.{x}" for x in AXES), *(f"inertia.{k}" for k in MOMENTS))
    by_name = {p["name"]: p["value"] for p in arm.estimate["parameters"]}
    assert len(by_name) == 10 * len(TRUTH["links"]) == len(arm.estimate["parameters"])
    for link in TRUTH["links"]:
        own = model.inertias[model.frames[model.getFrameId(link)].parentJoint]
        i = own.inertia
        wanted = [own.mass, *own.lever, i[0, 0], i[0, 1], i[1, 1], i[0, 2], i[1, 2], i[2, 2]]
        got = [by_name[f"{link}.{n}"] for n in names]
        assert got[:4] == pytest.approx(wanted[:4], rel=1e-9)
        assert np.allclose(got[4:], wanted[4:], rtol=0.0, atol=1e-9 * np.abs(wanted[4:]).max())


def test_an_interval_contains_its_number_and_is_two_deviations_wide_where_nothing_bounds_it(
    arm: Run,
) -> None:
    for p in arm.estimate["parameters"]:
        low, high = (
            x if x is not None else s * np.inf for s, x in zip((-1, 1), p["interval"], strict=True)
        )
        assert low <= p["value"] <= high
        if p["name"].endswith((".inertia.xy", ".inertia.xz", ".inertia.yz")):
            assert high - p["value"] == pytest.approx(p["value"] - low, rel=1e-9)
            assert high - low == pytest.approx(2.0 * 1.96 * p["std"], rel=1e-3)


def test_a_number_stands_alone_where_all_that_it_needs_can_be_seen(arm: Run) -> None:
    """By pinocchio's regressor: what lies in the space of its rows can be seen."""
    model = pin.buildModelFromUrdf(str(arm.folder / "robot.urdf"))
    data, rng = model.createData(), np.random.default_rng(0)
    states = rng.uniform(-2.0, 2.0, (60, 3, model.nv))
    rows = np.vstack([pin.computeJointTorqueRegressor(model, data, *s).copy() for s in states])
    _, sizes, right = np.linalg.svd(rows)
    hidden = right[(sizes > 1e-9 * sizes[0]).sum() :]
    order = ("xx", "xy", "yy", "xz", "yz", "zz")
    needs = {"mass": [0], **{f"com.{x}": [0, 1 + k] for k, x in enumerate(AXES)}}
    needs |= {f"inertia.{x}": [0, 1, 2, 3, 4 + k] for k, x in enumerate(order)}
    seen = {p["name"]: p["seen"] for p in arm.estimate["parameters"]}
    for link in TRUTH["links"]:
        body = model.frames[model.getFrameId(link)].parentJoint - 1
        for name, needed in needs.items():
            alone = np.abs(hidden[:, [10 * body + k for k in needed]]).max() < 1e-9
            assert (seen[f"{link}.{name}"] == "alone") == alone, name


def test_friction_of_the_estimate_is_that_of_the_model_file(arm: Run) -> None:
    model = pin.buildModelFromUrdf(str(arm.folder / "robot.urdf"))
    for joint, entry in arm.estimate["joints"].items():
        at = model.joints[model.getJointId(joint)].idx_v
        assert model.damping[at] == pytest.approx(entry["simple"]["viscous"], rel=1e-9)
        dry = model.upperDryFrictionLimit[at]
        assert dry == pytest.approx(entry["simple"]["coulomb"], rel=1e-9)


def test_deviations_of_the_estimate_are_those_of_the_numbers_beside_them(arm: Run) -> None:
    found = arm.found
    consistent = found.consistent.parameters
    stds = dict(zip(consistent.labels.names, consistent.std.tolist(), strict=True))
    for joint, entry in arm.estimate["joints"].items():
        assert entry["std"].keys() == {"armature", *entry["simple"]}
        assert entry["std"]["armature"] == stds[f"{joint}.armature"]
        for kind, value in entry["simple"].items():
            assert value == found.simple.values[f"{joint}.{kind}"]
            assert entry["std"][kind] == found.simple.std[f"{joint}.{kind}"]


def records(estimate: dict[str, Any]) -> dict[str, list[tuple[float, float]]]:
    """Return the numbers and deviations of each row's name, link, joint or expression."""
    found: dict[str, list[tuple[float, float]]] = {}
    for entry in estimate["parameters"]:
        if entry["name"].endswith(".mass"):
            link = entry["name"].removesuffix(".mass")
            found.setdefault(link, []).append((entry["value"], entry["std"]))
    for name, entry in {**estimate["joints"], **estimate["motors"]}.items():
        numbers = {"armature": entry["armature"], **entry["simple"]}
        found.setdefault(name, []).extend((v, entry["std"][k]) for k, v in numbers.items())
    for entry in estimate["base_parameters"]:
        found[entry["expression"]] = [(entry["value"], entry["std"])]
    return found


def pairs(cells: list[str]) -> Iterator[tuple[str, str]]:
    """Yield value and deviation of each ± in a row, in one cell or in two."""
    for before, cell in itertools.pairwise(cells):
        if said := re.fullmatch(r"(.*?)\s*±\s*([\d.]+(e[+-]\d+)?)", cell):
            yield said[1] or before, said[2]


def rows_of_text(text: str) -> Iterator[list[str]]:
    for line in text.splitlines():
        yield re.split(r"\s{2,}", line.strip())


def rows_of_page(page: str) -> Iterator[list[str]]:
    for row in re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL):
        cells = re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL)
        # A folded sum is opened: its first terms, the count of the others, then these.
        cells = [
            re.sub(r" <span class=\"soft\">… \d+ more</span></summary>", " ", c) for c in cells
        ]
        texts = [html.unescape(re.sub(r"<[^>]*>", "", c)) for c in cells]
        yield [" ".join(t.split()) for t in texts]


@pytest.mark.parametrize("where", ["terminal", "page"])
def test_a_deviation_that_is_printed_is_that_of_the_number_beside_it(arm: Run, where: str) -> None:
    """Each printed pair is found in the one record of its row."""
    page = (arm.folder / "report.html").read_text(encoding="utf-8")
    rows = rows_of_text(report.text(arm.found)) if where == "terminal" else rows_of_page(page)
    known, looked = records(arm.estimate), 0
    for cells in rows:
        for value, std in pairs(cells):
            assert cells[0] in known, cells
            assert any(
                float(f"{v:.{len(value.partition('.')[2])}f}") == float(value)
                and float(std) in (float(f"{s:.1g}"), float(f"{s:.2g}"))
                for v, s in known[cells[0]]
            ), cells
            looked += 1
    assert looked >= len(TRUTH["links"]) + 3 * len(JOINTS)


def test_inputs_are_named_with_their_hashes(arm: Run) -> None:
    named = {(i["path"], i["role"]): i["sha256"] for i in arm.estimate["inputs"]}
    files = {(ARM, "model"), (RUN1, "fit"), (RUN2, "validation")}
    assert named == {
        (str(p), role): hashlib.sha256(p.read_bytes()).hexdigest() for p, role in files
    }


@pytest.mark.parametrize("friction", ["full", "simple"])
def test_the_fit_explains_torque_that_it_did_not_see(arm: Run, friction: str) -> None:
    """Raw, recomputed with pinocchio from the folder alone."""
    measured = pyarrow.parquet.read_table(RUN2)
    time = measured["t"].to_numpy()
    tau = np.stack([measured[f"tau.{j}"].to_numpy() for j in JOINTS], 1)
    robot, q, v, a = motion(arm.folder, Recording.open(RUN2))
    predicted = oracle_effort(arm.folder, robot, q, v, a, friction)
    inside = (time >= time[0] + 0.5) & (time <= time[-1] - 0.5)
    left = np.linalg.norm((tau - predicted)[inside]) / np.linalg.norm(tau[inside])
    (stated,) = (
        s
        for s in arm.estimate["validation"]
        if s["filter_hz"] is None and s["friction"] == friction
    )
    assert stated["total"] == pytest.approx(left, rel=1e-6)
    assert left < 0.05


# What the model predicts


def motion(folder: Path, recording: Recording) -> tuple[Robot, FloatArray, FloatArray, FloatArray]:
    """Return the robot of results, and q, v, a of a log as heft smooths it, (rows, joints)."""
    identified = Identified.load(folder)
    smoothing = replace(identified.smoothing, trim=0.0, torque="raw")
    problem = Problem(RobotPlant(identified.robot), (recording,), smoothing, 1, "predict")
    parts = list(problem.samples())
    angle = np.concatenate([s.motion.position.T for s in parts])
    v = np.concatenate([s.motion.velocity.T for s in parts])
    a = np.concatenate([s.motion.bodies.acceleration.T for s in parts])
    return identified.robot, angle, v, a


def oracle_effort(
    folder: Path, robot: Robot, q: FloatArray, v: FloatArray, a: FloatArray, friction: str = "full"
) -> FloatArray:
    """Return the torque that a user would compute from robot.urdf, and from friction.py.

    Simple friction and rotor inertia are computed from estimate.json by their formula.
    """
    model = pin.buildModelFromUrdf(str(folder / "robot.urdf"))
    data = model.createData()
    joints = json.loads((folder / "estimate.json").read_text(encoding="utf-8"))["joints"]
    order = [model.joints[model.getJointId(j)].idx_v for j in robot.joints]
    back = np.argsort(order)
    rigid_part = np.array(
        [pin.rnea(model, data, x[back], y[back], z[back]) for x, y, z in zip(q, v, a, strict=True)]
    )[:, order]
    say = [joints[j] for j in robot.joints]
    rigid = rigid_part
    driven = rigid + np.array([k["armature"] for k in say]) * a
    if friction == "full":
        names: dict[str, Any] = {}
        exec((folder / "friction.py").read_text(encoding="utf-8"), names)
        model_ = names["Friction"]()
        into = [robot.joints.index(j) for j in names["JOINTS"]]
        order_back = np.argsort(into)
        rows = [
            model_.torque(*(x[into].tolist() for x in row)) for row in zip(q, v, rigid, strict=True)
        ]
        return driven + np.array(rows)[:, order_back]
    viscous, coulomb, offset = (
        np.array([k["simple"][t] for k in say]) for t in ("viscous", "coulomb", "offset")
    )
    return driven + viscous * v + coulomb * np.tanh(v / 0.018) + offset


def predicted(
    folder: Path, recording: Recording, **how: Any
) -> tuple[FloatArray, FloatArray, FloatArray]:
    parts = list(Identified.load(folder).predictions(recording, **how))
    time, effort, rigid = (np.concatenate([p[k] for p in parts]) for k in range(3))
    return time, effort, rigid


@pytest.mark.parametrize("friction", ["full", "simple"])
@pytest.mark.parametrize("log", [RUN1, RUN2], ids=lambda p: p.stem)
def test_the_prediction_is_what_pinocchio_computes_from_the_written_files(
    arm: Run, log: Path, friction: str
) -> None:
    recording = Recording.open(log)
    robot, q, v, a = motion(arm.folder, recording)
    wanted = oracle_effort(arm.folder, robot, q, v, a, friction)
    effort = predicted(arm.folder, recording, friction=friction)[1]
    assert np.abs(effort - wanted).max() <= 1e-9 * np.abs(wanted).max()


def test_without_friction_only_rotor_inertia_is_added_to_the_rigid_part(arm: Run) -> None:
    recording = Recording.open(RUN2)
    robot, _, _, a = motion(arm.folder, recording)
    _, effort, rigid = predicted(arm.folder, recording, friction="none")
    armature = np.array([arm.estimate["joints"][j]["armature"] for j in robot.joints])
    assert np.abs(effort - rigid - armature * a).max() <= 1e-9 * np.abs(effort).max()


def test_the_prediction_is_at_the_logs_own_times(arm: Run) -> None:
    time, effort, _ = predicted(arm.folder, Recording.open(RUN2))
    assert np.array_equal(time, pyarrow.parquet.read_table(RUN2)["t"].to_numpy())
    assert np.isfinite(effort).all()


def without_torque(folder: Path) -> Path:
    """Return the second log without its torques."""
    table = pyarrow.parquet.read_table(RUN2)
    kept = [n for n in table.column_names if not n.startswith("tau.")]
    path = folder / "motion.parquet"
    pyarrow.parquet.write_table(table.select(kept), path)
    return path


def test_torques_of_the_log_are_not_looked_at(arm: Run, tmp_path: Path) -> None:
    bare = predicted(arm.folder, Recording.open(without_torque(tmp_path)))
    whole = predicted(arm.folder, Recording.open(RUN2))
    assert all(np.array_equal(x, y) for x, y in zip(bare, whole, strict=True))


@pytest.mark.parametrize("threads", [1, 3])
def test_the_prediction_does_not_depend_on_how_many_threads_work(arm: Run, threads: int) -> None:
    wanted = predicted(arm.folder, Recording.open(RUN2))
    got = predicted(arm.folder, Recording.open(RUN2), threads=threads)
    assert all(np.array_equal(x, y) for x, y in zip(got, wanted, strict=True))


def test_csv_and_parquet_hold_the_same_prediction(arm: Run, tmp_path: Path) -> None:
    log = without_torque(tmp_path)
    rows = {
        predict_files(arm.folder, log, tmp_path / "new" / f"tau.{kind}")
        for kind in ("csv", "parquet")
    }
    text = pyarrow.csv.read_csv(tmp_path / "new" / "tau.csv")
    table = pyarrow.parquet.read_table(tmp_path / "new" / "tau.parquet")
    heads = ["t", *(f"tau.{j}" for j in JOINTS), *(f"tau_rigid.{j}" for j in JOINTS)]
    heads += [f"tau_std.{j}" for j in JOINTS]
    assert sorted(table.column_names) == sorted(text.column_names) == sorted(heads)
    assert rows == {table.num_rows} == {text.num_rows} == {pyarrow.parquet.read_table(log).num_rows}
    for name in heads:
        assert np.array_equal(table[name].to_numpy(), text[name].to_numpy()), name
    _, effort, rigid = predicted(arm.folder, Recording.open(RUN2))
    order = Identified.load(arm.folder).robot.joints
    for k, joint in enumerate(order):
        assert np.array_equal(table[f"tau.{joint}"].to_numpy(), effort[:, k])
        assert np.array_equal(table[f"tau_rigid.{joint}"].to_numpy(), rigid[:, k])


@pytest.mark.parametrize("with_rotors", [False, True], ids=["rigid", "with rotor inertia"])
def test_the_mass_matrix_is_positive_definite_in_ten_thousand_poses(
    arm: Run, with_rotors: bool
) -> None:
    model = pin.buildModelFromUrdf(str(arm.folder / "robot.urdf"))
    data = model.createData()
    pin.seed(1)
    rotors = np.zeros(model.nv)
    for joint, entry in arm.estimate["joints"].items():
        rotors[model.joints[model.getJointId(joint)].idx_v] = entry["armature"] * with_rotors
    matrices = np.empty((10_000, model.nv, model.nv))
    for k in range(len(matrices)):
        upper = np.triu(pin.crba(model, data, pin.randomConfiguration(model)))
        matrices[k] = upper + np.triu(upper, 1).T + np.diag(rotors)
    factors = np.linalg.cholesky(matrices)  # raises where one is not
    assert np.diagonal(factors, axis1=1, axis2=2).min() > 1e-3


# What was found is true


def test_masses_and_centres_that_were_seen_lie_within_three_deviations(arm: Run) -> None:
    far = {}
    looked = 0
    for entry in arm.estimate["parameters"]:
        link, _, what = entry["name"].partition(".")
        kind, _, axis = what.partition(".")
        if kind == "inertia" or entry["seen"] not in ("alone", "in combination"):
            continue
        looked += 1
        true = TRUTH["links"][link]
        true = true["mass"] if kind == "mass" else true["com"][AXES.index(axis)]
        away = (entry["value"] - true) / entry["std"]
        if not abs(away) <= 3.0:
            far[entry["name"]] = round(away, 2)
    assert looked >= 15
    assert far == {}


@pytest.mark.parametrize("joint", JOINTS)
def test_friction_and_rotor_inertia_are_found_within_a_fifth(arm: Run, joint: str) -> None:
    true, entry = TRUTH["joints"][joint], arm.estimate["joints"][joint]
    for term in ("viscous", "coulomb"):
        assert entry["simple"][term] == pytest.approx(true[term], rel=0.2)
    assert entry["armature"] == pytest.approx(true["armature"], rel=0.2)
    size = true["coulomb"]  # an offset is small beside what it comes with
    assert entry["simple"]["offset"] == pytest.approx(true["offset"], abs=0.2 * size)


def test_what_was_not_seen_is_what_the_model_file_says(arm: Run) -> None:
    given = {k.name: k for k in Robot.from_urdf(ARM).links}
    unseen = [p for p in arm.estimate["parameters"] if p["seen"] == "not at all"]
    assert {p["name"].partition(".")[0] for p in unseen} == {"shoulder"}
    for entry in unseen:
        assert entry["share"] < 1e-6
        if entry["name"] == "shoulder.mass":
            # Where friction binds, the conic solver stops at a gap of 1e-8, and a quadratic is
            # flat at its least: √1e-8.
            assert entry["value"] == pytest.approx(given["shoulder"].written[0], rel=1e-4)


# Information


def test_information_comes_back_with_its_labels(arm: Run) -> None:
    loaded = Information.load(arm.folder / "information.npz")
    kept = arm.found.information
    assert loaded.labels == kept.labels
    assert loaded.channels == kept.channels == JOINTS
    base = arm.found.estimate.information.labels
    assert loaded.labels == base
    # Friction's dictionary is stated by its curves, not term by term.
    listed = [n for n in base.names if "[" not in n and not n.endswith(".viscous")]
    assert len(listed) == len(arm.estimate["base_parameters"])
    # In the rank one column of a joint's dictionary stands for all: they hardly differ.
    shown = [n for n in loaded.labels.names if "[" not in n]
    assert len(shown) + len(JOINTS) == arm.estimate["information"]["columns"]
    assert loaded.rows == sum(c["rows"] for c in arm.estimate["information"]["channels"])
    for a, b in zip(loaded.triangles, kept.triangles, strict=True):
        assert np.array_equal(a.columns, b.columns)
        assert np.array_equal(a.factor, b.factor)


def test_information_opens_without_heft_and_without_unpickling(arm: Run) -> None:
    with np.load(arm.folder / "information.npz", allow_pickle=False) as data:
        arrays = {k: data[k] for k in data.files}
    assert tuple(arrays["channels"]) == JOINTS
    assert len(arrays["names"]) == len(arrays["units"])
    assert len(arrays["names"]) == len(arrays["base_matrix"])
    assert arrays["base_matrix"].shape[1] == len(arrays["standard_names"])
    size = len(arrays["parameter_names"])
    assert arrays["parameter_values"].shape == (size,)
    assert arrays["parameter_covariance"].shape == (size, size)
    assert (
        np.linalg.eigvalsh(arrays["parameter_covariance"])[0]
        >= -1e-9 * np.abs(arrays["parameter_covariance"]).max()
    )
    base = len(arrays["base_matrix"])
    assert arrays["base_values"].shape == (base,)
    assert arrays["base_covariance"].shape == (base, base)
    assert tuple(arrays["sliding_joints"]) == JOINTS
    low, high = arrays["sliding_velocities"].T
    assert (low < 0.0).all() and (high > 0.0).all()
    by_name = dict(zip(arrays["parameter_names"], arrays["parameter_values"], strict=True))
    masses = {p["name"]: p["value"] for p in arm.estimate["parameters"] if "mass" in p["name"]}
    assert {n: by_name[n.replace(".mass", ".m")] for n in masses} == masses


def test_given_information_adds_to_that_of_the_logs(
    arm: Run, second: Identification, both: Identification
) -> None:
    before = Information.load(arm.folder / "information.npz")
    alone = second.information
    pairs = zip(before.triangles, alone.triangles, strict=True)
    wanted = [a.rows + b.rows for a, b in pairs]
    assert [t.rows for t in both.information.triangles] == wanted
    one, other, total = (x.combined() for x in (before, alone, both.information))
    gram = one.factor.T @ one.factor + other.factor.T @ other.factor
    assert np.allclose(total.factor.T @ total.factor, gram, rtol=0.0, atol=1e-9 * gram.max())


def test_given_information_makes_surer(second: Identification, both: Identification) -> None:
    surer, alone = ([e["std"] for e in base_entries(f)] for f in (both, second))
    # Sizes of friction's terms are the data's own: more of them may tell that one is larger.
    assert (np.array(surer) <= 1.05 * np.array(alone)).all()
    assert both.estimate.parameters.std.sum() < 0.8 * second.estimate.parameters.std.sum()


def test_a_log_faster_than_those_fitted_is_said_to_extrapolate_friction(
    arm: Run, tmp_path: Path
) -> None:
    table = pyarrow.parquet.read_table(RUN2)
    names = table.column_names
    faster = table.set_column(names.index("t"), "t", [np.asarray(table["t"]) / 2.0])
    pyarrow.parquet.write_table(faster, tmp_path / "fast.parquet")
    said: list[str] = []
    for log in (RUN2, tmp_path / "fast.parquet"):
        predict_files(arm.folder, log, tmp_path / "tau.csv", progress=said.append)
    told = [line.split()[1] for line in said]
    assert set(told) == set(JOINTS) and len(told) == len(JOINTS), said
    assert all(1.5 < float(line.split()[3]) < 2.6 for line in said)
    said.clear()
    predict_files(
        arm.folder,
        tmp_path / "fast.parquet",
        tmp_path / "t.csv",
        friction="none",
        progress=said.append,
    )
    assert not said


def test_a_predicted_torque_states_its_deviation(arm: Run) -> None:
    """On the log that was held out, in the motion's band; another motion than the fit's."""
    parts = list(Identified.load(arm.folder).predictions(Recording.open(RUN2)))
    time, effort, _, std, _ = (np.concatenate(p) for p in zip(*parts, strict=True))
    table = pyarrow.parquet.read_table(RUN2)
    measured = np.stack([np.interp(time, table["t"], table[f"tau.{j}"]) for j in JOINTS], axis=1)
    left = filtered(time, measured - effort, 0.004, arm.found.fit[1].filter_hz or 0.0)
    inside = (time > time[0] + 0.5) & (time < time[-1] - 0.5)
    assert (std > 0.0).all()
    # Presliding's state at the log's begin is not known, nor is the sensor's noise the model's.
    assert np.mean(np.abs(left[inside]) <= 1.96 * std[inside]) >= 0.85
    assert np.median(std[inside] / left[inside].std(axis=0)) <= 3.0
    for simple in ("simple", "none"):
        part = next(Identified.load(arm.folder).predictions(Recording.open(RUN2), friction=simple))
        assert np.isnan(part.std).all()


def test_a_mass_is_stated_with_its_deviation_where_the_logs_say_something(arm: Run) -> None:
    shown = report.text(arm.found)
    rows = {r.split()[0]: r for r in shown.splitlines() if r and r.split()[0] in arm.found.links}
    for entry in arm.estimate["parameters"]:
        link, _, what = entry["name"].partition(".")
        if what == "mass":
            told = 1.0 - np.sqrt(1.0 - min(entry["share"], 1.0)) >= 0.25
            assert (re.split(r"\s{2,}", rows[link])[3] != "prior") == told
            assert ("±" in rows[link]) == told
            assert ("open" in rows[link]) == (entry["interval"][1] is None)
    explained = report.text(arm.found, explain=True)
    assert "Strict ranges of the masses" in " ".join(explained.split())


def test_information_of_another_robot_does_not_add(tmp_path: Path) -> None:
    planar("two joints", tmp_path / "found")
    with pytest.raises(UnlikeLabels):
        identify(ARM, [RUN2], given=tmp_path / "found")


# Written whole or not at all


def test_the_folder_holds_its_files_and_nothing_else(arm: Run) -> None:
    assert sorted(contents(arm.folder)) == sorted(FILES)
    assert [p.name for p in arm.folder.parent.iterdir()] == [arm.folder.name]


@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_input_gives_the_same_bytes(arm: Run, threads: int, tmp_path: Path) -> None:
    again = contents(run(tmp_path / "found", threads).folder)
    first = contents(arm.folder)
    assert {n for n in FILES if again[n] != first[n]} == set()


def test_earlier_results_are_replaced(arm: Run, tmp_path: Path) -> None:
    out = tmp_path / "found"
    shutil.copytree(arm.folder, out)
    (out / "estimate.json").write_text("{}")
    write(arm.found, out)
    assert sorted(contents(out)) == sorted(set(FILES) - {"report.html"})
    assert contents(out)["estimate.json"] == contents(arm.folder)["estimate.json"]
    assert [p.name for p in tmp_path.iterdir()] == ["found"]


def test_an_empty_folder_is_used_and_missing_ones_above_are_made(arm: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for out in (tmp_path / "empty", tmp_path / "a" / "b" / "found"):
        write(arm.found, out)
        assert contents(out)["robot.urdf"] == arm.found.files["robot.urdf"]


FOREIGN: dict[str, Callable[[Path], object]] = {
    "another file": lambda out: (out / "notes.txt").write_text("mine"),
    "a hidden file": lambda out: (out / ".gitignore").write_text("mine"),
    "another folder": lambda out: (out / "runs").mkdir(),
    "another file beside results": lambda out: [
        (out / n).write_text("mine") for n in ("estimate.json", "robot.urdf", "arm.urdf")
    ],
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_folder_that_holds_other_things_is_refused_and_kept(
    name: str, arm: Run, tmp_path: Path
) -> None:
    out = tmp_path / "mine"
    out.mkdir()
    FOREIGN[name](out)
    before = sorted(p.name for p in out.iterdir())
    for refuse in (lambda: refuse_foreign(out), lambda: write(arm.found, out)):
        with pytest.raises(InvalidSetting, match="holds other files"):
            refuse()
    assert sorted(p.name for p in out.iterdir()) == before
    assert all(p.read_text() == "mine" for p in out.iterdir() if p.is_file())


def test_a_file_in_the_place_of_the_folder_is_refused_and_kept(arm: Run, tmp_path: Path) -> None:
    (tmp_path / "found").write_text("mine")
    with pytest.raises(InvalidSetting, match="is a file"):
        write(arm.found, tmp_path / "found")
    assert (tmp_path / "found").read_text() == "mine"


class Failure(Exception):
    """What no one in heft expects."""


def failing(error: BaseException, after: int = 0) -> Callable[..., Any]:
    """Return a function that raises, the first few times returning nothing."""
    calls = iter(range(after))

    def fail(*_: object, **__: object) -> None:
        if next(calls, None) is None:
            raise error

    return fail


FULL = OSError(errno.ENOSPC, "No space left on device")
BREAKS: dict[str, Callable[[pytest.MonkeyPatch], object]] = {
    "the disk is full at the first file": lambda m: m.setattr(Path, "write_bytes", failing(FULL)),
    "the disk is full at the text": lambda m: m.setattr(Path, "write_text", failing(FULL)),
    "the disk is full at the triangles": lambda m: m.setattr(
        writing.npy, "write_array", failing(FULL)
    ),
    "the disk fails at the first flush": lambda m: m.setattr(os, "fsync", failing(FULL)),
    "the disk fails at the last flush": lambda m: m.setattr(os, "fsync", failing(FULL, 3)),
    "a number cannot be written": lambda m: m.setattr(json, "dumps", failing(ValueError("NaN"))),
    "the report breaks": lambda m: m.setattr(report, "html", failing(Failure())),
    "interrupted while writing": lambda m: m.setattr(os, "fsync", failing(KeyboardInterrupt(), 2)),
    "memory ends": lambda m: m.setattr(json, "dumps", failing(MemoryError())),
    "the folder cannot be moved": lambda m: moving(m, FULL),
    "interrupted while moving the folder": lambda m: moving(m, KeyboardInterrupt()),
}


def moving(patch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Let the new folder fail once to take its place, where folders cannot be exchanged."""
    real = Path.rename
    failures: Iterator[BaseException] = iter([error])

    def rename(self: Path, target: Path) -> Path:
        is_new = self.parent.name.startswith(f".{self.name}.heft-")
        broken = next(failures, None) if is_new else None
        if broken is not None:
            raise broken
        return real(self, target)

    patch.setattr(writing, "_exchange", lambda *_: False)
    patch.setattr(Path, "rename", rename)


@pytest.mark.parametrize("earlier", [False, True], ids=["new", "over earlier results"])
@pytest.mark.parametrize("name", BREAKS)
def test_what_fails_half_way_leaves_all_as_it_was(
    name: str, earlier: bool, arm: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "found"
    before = contents(arm.folder) if earlier else {}
    if earlier:
        shutil.copytree(arm.folder, out)
    with monkeypatch.context() as broken:
        BREAKS[name](broken)
        with pytest.raises((OSError, ValueError, Failure, MemoryError, KeyboardInterrupt)):
            write(arm.found, out, report.html)
    assert [p.name for p in tmp_path.iterdir()] == (["found"] if earlier else [])
    assert (contents(out) if earlier else {}) == before
    write(arm.found, out, report.html)
    assert contents(out) == contents(arm.folder)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_prediction_that_fails_half_way_leaves_the_earlier_one(
    kind: str, arm: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / f"tau.{kind}"
    out.write_text("earlier")
    monkeypatch.setattr(os, "fsync", failing(FULL))
    with pytest.raises(OSError, match="No space"):
        predict_files(arm.folder, RUN2, out)
    assert out.read_text() == "earlier"
    assert [p.name for p in tmp_path.iterdir()] == [out.name]


# Read again


def test_results_are_read_again_as_they_were_found(arm: Run) -> None:
    identified = Identified.load(arm.folder)
    assert identified.friction == {
        **arm.found.friction,
        "none": {n: v for n, v in arm.found.friction["full"].items() if n.endswith(".armature")},
    }
    assert identified.smoothing == arm.found.problem.resolved
    assert identified.robot.structure_hash() == arm.found.problem.plant.robot.structure_hash()
    assert identified.estimate["verdict"] == arm.found.verdict


def test_what_is_printed_as_json_is_what_was_found(arm: Run) -> None:
    assert json.loads(json.dumps(to_json(arm.found), default=float))["verdict"] == "good"
    assert math.isclose(arm.estimate["parameters"][0]["value"], arm.found.links["shoulder"].mass)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "nothing there": lambda out: shutil.rmtree(out),
    "an empty folder": lambda out: [p.unlink() for p in out.iterdir()],
    "no estimate": lambda out: (out / "estimate.json").unlink(),
    "no model": lambda out: (out / "robot.urdf").unlink(),
    "an estimate cut off": lambda out: (out / "estimate.json").write_bytes(
        (out / "estimate.json").read_bytes()[:1000]
    ),
    "an estimate that is a list": lambda out: (out / "estimate.json").write_text("[1, 2]"),
    "an estimate of nothing": lambda out: (out / "estimate.json").write_text("{}"),
    "an estimate in another encoding": lambda out: (out / "estimate.json").write_bytes(b"\xff\xfe"),
    "a model cut off": lambda out: (out / "robot.urdf").write_bytes(
        (out / "robot.urdf").read_bytes()[:500]
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_folder_that_is_no_results_is_refused_by_name(
    name: str, arm: Run, tmp_path: Path
) -> None:
    out = tmp_path / "found"
    shutil.copytree(arm.folder, out)
    DAMAGE[name](out)
    with pytest.raises(InputError) as caught:
        Identified.load(out)
    assert str(out) in str(caught.value)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the ways to all that a value of JSON holds."""
    inner = dict(enumerate(value)) if isinstance(value, list) else value
    for key, item in inner.items() if isinstance(inner, dict) else ():
        yield (*path, key)
        yield from places(item, (*path, key))


ODD = (None, "x", "", True, -1, 1e999, math.nan, 10**400, [], {}, [[1, 2]], {"a": 1}, "\ud800")


def test_an_estimate_otherwise_is_refused_or_used(arm: Run, tmp_path: Path) -> None:
    """Any entry replaced by anything: no other error than heft's, no number that is none."""
    rng = np.random.default_rng(5)
    out = shutil.copytree(arm.folder, tmp_path / "found")
    text = (arm.folder / "estimate.json").read_text()
    ways = [w for w in places(json.loads(text)) if w[0] in ("settings", "joints", "information")]
    refused = 0
    for way in (ways[k] for k in rng.choice(len(ways), 80, replace=False)):
        data = json.loads(text)
        target = data
        for key in way[:-1]:
            target = target[key]
        target[way[-1]] = ODD[rng.integers(len(ODD))]
        (out / "estimate.json").write_text(json.dumps(data))
        try:
            found = Identified.load(out)
        except InputError:
            refused += 1
            continue
        assert all(map(math.isfinite, found.friction["full"].values()))
    assert refused > 40


def otherwise(name: str, array: Any) -> Callable[[dict[str, Any]], None]:
    return lambda arrays: arrays.update({name: array})


@pytest.mark.parametrize(
    "change",
    [
        otherwise("deviations", np.zeros(12)),
        otherwise("deviations", np.zeros((12, 3))),
        otherwise("deviations", np.zeros((12, 3, 4))),
        otherwise("deviations", np.zeros((100_000, 1))),
        otherwise("deviations", np.array([["x"]])),
        otherwise("parameter_names", np.array(["a"])),
        lambda arrays: arrays["deviations"].__setitem__((0, 0), np.nan),
        lambda arrays: arrays["sigma"].__setitem__(0, np.inf),
        lambda arrays: arrays["memory"].__setitem__(0, np.nan),
        otherwise("sliding_velocities", np.zeros((3, 3))),
        otherwise("sliding_velocities", np.full((2, 2), np.nan)),
        otherwise("base_matrix", np.zeros((1, 1))),
        otherwise("sigma", np.ones(5)),
    ],
)
def test_arrays_of_results_that_are_otherwise_are_refused(
    change: Callable[[dict[str, Any]], None], arm: Run, tmp_path: Path
) -> None:
    out = shutil.copytree(arm.folder, tmp_path / "found")
    with np.load(out / "information.npz") as data:
        arrays = {name: data[name] for name in data.files}
    change(arrays)
    np.savez(out / "information.npz", **arrays)
    with pytest.raises(InputError):
        Side.load(out)


def test_numbers_of_a_file_of_results_agree_with_its_schema(arm: Run) -> None:
    text = (arm.folder / "estimate.json").read_text()
    require_schema(json.loads(text), schema())
    validator = jsonschema.Draft202012Validator(schema())
    rng = np.random.default_rng(6)
    ways = list(places(json.loads(text)))
    for way in (ways[k] for k in rng.choice(len(ways), 60, replace=False)):
        data = json.loads(text)
        target = data
        for key in way[:-1]:
            target = target[key]
        target[way[-1]] = (None, "x", True, -1, [], {}, 0.5)[rng.integers(7)]
        valid = validator.is_valid(data)
        try:
            require_schema(data, schema())
        except ValueError:
            assert not valid, way
        else:
            assert valid, way


def test_intervals_reach_to_both_sides_of_the_numbers_they_are_of(arm: Run) -> None:
    for entry in arm.estimate["parameters"]:
        low, high = entry["interval"]
        assert low is None or low <= entry["value"]
        assert high is None or entry["value"] <= high
        if entry["name"].endswith((".inertia.xy", ".inertia.xz", ".inertia.yz")):
            reach = [entry["value"] - low, high - entry["value"]]
            assert reach == pytest.approx([1.96 * entry["std"]] * 2, rel=1e-3, abs=1e-12)


def test_alone_is_what_base_parameters_tell_without_any_other(arm: Run) -> None:
    base = arm.found.problem.base
    rows, names = scipy.linalg.orth(base.matrix.T), base.standard.names
    told = {names[k] for k in np.flatnonzero(np.sum(rows**2, axis=1) > 1.0 - 1e-9)}
    seen = {p["name"]: p["seen"] for p in arm.estimate["parameters"]}
    alone = {n for n, s in seen.items() if s == "alone"}
    for name in (n for n, s in seen.items() if s in ("alone", "in combination")):
        link, kind, axis = (*name.split("."), "")[:3]
        needed = {
            "mass": {"m"},
            "com": {"m", f"h.{axis}"},
            "inertia": {"m", "h.x", "h.y", "h.z", f"I.{axis}"},  # about the centre of mass
        }[kind]
        assert (name in alone) == ({f"{link}.{n}" for n in needed} <= told)


def test_the_rotor_inertia_of_a_side_is_that_of_its_joints(arm: Run) -> None:
    found = arm.found.friction
    for joint, armature in _armatures(arm.found.problem.plant.robot, found).items():
        assert armature == found["full"][f"{joint}.armature"]
    assert set(_armatures(arm.found.problem.plant.robot, found)) == set(JOINTS)


def test_the_deviation_of_a_friction_curve_is_that_of_the_jackknife_and_the_misfit(
    arm: Run,
) -> None:
    found = arm.found
    assert len(found.deviations)  # of the blocks of the log
    parameters = found.consistent.parameters
    for joint, entry in arm.estimate["joints"].items():
        drive = next(d for d in found.problem.plant.robot.drives if d.name == joint)
        velocity = np.array(entry["curve"]["velocity"])
        rows = steady(drive.friction, velocity)
        places = [parameters.labels.names.index(f"{joint}.{t.name}") for t in drive.friction]
        own = np.linalg.norm(found.deviations[:, places] @ rows, axis=0)
        rest = found.misfits[joint].curve(velocity) if joint in found.misfits else 0.0
        assert np.allclose(entry["curve"]["std"], np.hypot(own, rest), rtol=1e-9)
