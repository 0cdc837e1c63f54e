"""The log doctor finds what was planted, says the cure, and is silent about good logs."""

from __future__ import annotations

import html
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from heft.applications import demo
from heft.applications.doctor import doctor, report
from heft.applications.doctor.clock_and_signals import look
from heft.applications.doctor.corrections import (
    CompensatedFriction,
    Correction,
    CorrectionStep,
    Gravity,
    PositionOffset,
    PositionScale,
    PositionUnit,
    SignFlip,
    Swap,
    TorqueGain,
    combined,
    steps_between,
)
from heft.applications.doctor.evidence import Evidence
from heft.applications.doctor.findings import corrected
from heft.applications.doctor.hypotheses import Hypotheses
from heft.applications.doctor.reweighted_fit import Prior, fitted
from heft.applications.doctor.score_test import Residual, candidates
from heft.applications.doctor.search import Proposals, Search, explain, unit_of
from heft.applications.doctor.settings import (
    ClockThresholds,
    CorrectionSearch,
    DoctorSettings,
    StepAcceptance,
    StepProposals,
)
from heft.cli import main
from heft.information.checks import Finding
from heft.models.options import Options
from heft.models.robot import Robot
from heft.recordings.columns import ColumnMap
from heft.recordings.recording import Recording
from tests import experiments

Arrays = dict[str, np.ndarray]
ROWS = 4000
JOINTS = ("shoulder", "elbow")


def good_log() -> Arrays:
    """Two joints for 16 s at 250 Hz, as a log without a robot's physics."""
    rng = np.random.default_rng(1)
    t = np.arange(ROWS) / 250.0
    q, v, _ = experiments.fourier(2, t, rng)
    arrays = {"t": t}
    for k, joint in enumerate(JOINTS):
        arrays[f"q.{joint}"] = q[:, k] + 1e-5 * rng.normal(size=ROWS)
        arrays[f"v.{joint}"] = v[:, k] + 1e-3 * rng.normal(size=ROWS)
        arrays[f"tau.{joint}"] = 5.0 * v[:, k] + 9.0 * np.sin(q[:, k]) + 0.1 * rng.normal(size=ROWS)
    return arrays


def recorded(arrays: Arrays) -> Recording:
    kinds: dict[str, dict[str, np.ndarray]] = {}
    for name, values in arrays.items():
        kind, _, joint = name.partition(".")
        if joint:
            kinds.setdefault(kind, {})[joint] = values
    return Recording.from_arrays(arrays["t"], "log", **kinds)


def found(arrays: Arrays) -> tuple[Finding, ...]:
    return look(recorded(arrays))[1]


def test_a_good_log_is_clean() -> None:
    facts, findings = look(recorded(good_log()))
    assert findings == ()
    assert (facts.rows, facts.step) == (ROWS, pytest.approx(0.004))
    assert facts.duration == pytest.approx(15.996)


def without(rows: slice) -> Callable[[Arrays], None]:
    def plant(a: Arrays) -> None:
        for name in a:
            a[name] = np.delete(a[name], np.arange(ROWS)[rows])

    return plant


def changed(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Arrays], None]:
    def plant(a: Arrays) -> None:
        a[name] = change(a[name].copy())

    return plant


def put(rows: slice | list[int], values: float) -> Callable[[np.ndarray], np.ndarray]:
    def change(x: np.ndarray) -> np.ndarray:
        x[rows] = values
        return x

    return change


def held_every_second(a: Arrays) -> None:
    for name in a:
        if name != "t":
            a[name][1::2] = a[name][::2]


def swapped_rows(x: np.ndarray) -> np.ndarray:
    x[[1000, 1001]] = x[[1001, 1000]]
    return x


def frozen(x: np.ndarray) -> np.ndarray:
    x[1500:1800] = x[1500]
    return x


FAULTS: dict[str, tuple[Callable[[Arrays], None], str, str]] = {
    "a silence": (without(slice(1000, 1100)), "gaps", "t"),
    "lost rows": (without(slice(100, None, 30)), "missing rows", "t"),
    "a clock set back": (changed("t", lambda t: np.where(t > 8.0, t - 1.0, t)), "clock set back",
                         "t"),
    "two rows out of order": (changed("t", swapped_rows), "clock set back", "t"),
    "rows logged twice": (changed("t", lambda t: np.repeat(t[::2], 2)), "repeated times", "t"),
    "a late clock": (
        changed("t", lambda t: t + 0.0015 * np.random.default_rng(2).uniform(-1, 1, ROWS)),
        "jitter", "t"),
    "time in milliseconds": (changed("t", lambda t: 1e3 * t), "slow clock", "t"),
    "a time that is none": (changed("t", put([5], np.nan)), "time not finite", "t"),
    "rows that repeat": (held_every_second, "repeated rows", "rows"),
    "a hole": (changed("tau.elbow", put([7, 8], np.inf)), "not finite", "tau.elbow"),
    "a stuck encoder": (changed("q.elbow", frozen), "frozen", "q.elbow"),
    "a stuck torque": (changed("tau.elbow", frozen), "frozen", "tau.elbow"),
    "a limited torque": (changed("tau.elbow", lambda x: np.clip(x, -6.0, 6.0)), "saturated",
                         "tau.elbow"),
    "few levels": (changed("tau.elbow", lambda x: np.round(x / 0.8) * 0.8), "coarse",
                   "tau.elbow"),
    "a joint at rest": (changed("q.elbow", lambda x: 0.0 * x + 0.3), "never moves", "q.elbow"),
    "a dead sensor": (changed("tau.elbow", lambda x: 0.0 * x), "zero effort", "tau.elbow"),
    "a constant sensor": (changed("tau.elbow", lambda x: 0.0 * x + 2.0), "constant effort",
                          "tau.elbow"),
    "an angle in a turn": (changed("q.elbow", lambda x: np.mod(x - np.median(x), 2 * np.pi)),
                           "wrapped angle", "q.elbow"),
    "an encoder set anew": (changed("q.elbow", lambda x: np.where(np.arange(ROWS) > 900, x + 1, x)),
                            "jumps", "q.elbow"),
    "a spike": (changed("q.elbow", put([900], 4.0)), "spikes", "q.elbow"),
    "velocity in degrees": (changed("v.elbow", np.rad2deg), "velocity unlike position", "v.elbow"),
    "velocity of the other sign": (changed("v.elbow", np.negative), "velocity unlike position",
                                   "v.elbow"),
    "another joint's velocity": (changed("v.elbow", lambda x: np.roll(x, 777)),
                                 "velocity unlike position", "v.elbow"),
    "a second of motion": (without(slice(300, None)), "little motion", "rows"),
}  # fmt: skip


PLACES = {
    "a silence": 999,
    "a clock set back": 2000,
    "two rows out of order": 1000,
    "a hole": 7,
    "a stuck encoder": 1600,
    "a stuck torque": 1600,
    "an encoder set anew": 901,
    "a spike": 900,
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_page_shows_each_finding_where_it_is(case: str) -> None:
    plant, name, about = FAULTS[case]
    arrays = good_log()
    plant(arrays)
    diagnosis = doctor.diagnose([recorded(arrays)])
    page = html.unescape(report.html(diagnosis))
    (finding,) = (f for f in diagnosis.findings if (f.name, f.about) == (name, about))
    assert f"{name}, {about}</h3>" in page and finding.cure.rstrip(".") in page
    assert all(lines in page for lines in finding.lines.values())
    plots = list(report._signals(diagnosis, finding))
    assert len(plots) == (about != "rows")
    marked = [s for p in plots for s in p.series if s.name == "here"]
    if case in PLACES:
        (here,) = marked
        row = PLACES[case]
        at = row if about == "t" else arrays["t"][row]
        assert here.x[0] <= at <= here.x[-1]
        if about != "t":  # what is drawn is what was logged
            whole = plots[0].series[0]
            rows = np.searchsorted(arrays["t"], whole.x)
            np.testing.assert_array_equal(whole.y, arrays[about][rows])
            assert len(whole.x) < ROWS / 2


@pytest.mark.parametrize("case", FAULTS)
def test_what_a_log_itself_shows_is_found_and_named(case: str) -> None:
    plant, name, about = FAULTS[case]
    arrays = good_log()
    plant(arrays)
    findings = found(arrays)
    hit = [f for f in findings if (f.name, f.about) == (name, about)]
    assert hit, [(f.name, f.about) for f in findings]
    assert hit[0].cure and hit[0].evidence and hit[0].sure is None
    # Nothing is said of signals that are good; a clock's fault may show in all of them.
    if about not in ("t", "rows"):
        joint = about.partition(".")[2]
        assert {f.about.partition(".")[2] for f in findings} == {joint}


@pytest.mark.parametrize("size", [7.0, 0.07])
def test_torques_that_are_all_whole_numbers_may_be_per_mille(size: float) -> None:
    arrays = good_log()
    for joint in JOINTS:
        arrays[f"tau.{joint}"] = np.round(arrays[f"tau.{joint}"] / size)
    assert [f.about for f in found(arrays) if f.name == "whole numbers"] == ["all joints"]
    arrays["tau.elbow"] = arrays["tau.elbow"] + 0.5
    assert not [f for f in found(arrays) if f.name == "whole numbers"]


@pytest.mark.parametrize(
    ("size", "per_mille", "line"), [(30, False, 1), (30, True, 0), (1e-3, False, 0)]
)
def test_a_scale_is_proposed_where_the_torque_may_be_in_another_unit(
    size: float, per_mille: bool, line: int
) -> None:
    """Per mille of ratings are each drive's own, and masses in grams are the model file's."""
    robot, recording = arm()
    scaled = spoilt(robot, recording, [TorqueGain(tuple(range(6)), (1.0 / size,) * 6)])
    if per_mille:
        block = scaled.whole(scaled.signals)
        kinds: dict[str, dict[str, np.ndarray]] = {"q": {}, "tau": {}}
        for name, x in zip(scaled.signals, block.values.T, strict=True):
            kind, _, joint = name.partition(".")
            kinds[kind][joint] = np.round(x) if kind == "tau" else x
        scaled = Recording.from_arrays(block.time, **kinds)
    unit = [f for f in doctor.diagnose([scaled], robot).findings if f.name == "unit of torque"]
    assert [len(f.lines) for f in unit] == [line]


@pytest.mark.parametrize(("lost", "verdict"), [(0.05, "usable, 1 to know"), (0.2, "not finite:")])
def test_what_several_signals_miss_is_said_once(lost: float, verdict: str) -> None:
    arrays = good_log()
    for joint in JOINTS:
        arrays[f"tau.{joint}"][100 : 100 + round(lost * ROWS)] = np.nan
    diagnosis = doctor.diagnose([recorded(arrays)])
    assert len(diagnosis.findings) == len(JOINTS)
    first, finding, _cure = diagnosis.summary().splitlines()
    assert verdict in first and all(f"tau.{joint}" in finding for joint in JOINTS)


def test_motion_in_a_silence_is_no_jump() -> None:
    arrays = good_log()
    without(slice(1000, 1500))(arrays)
    assert np.abs(np.diff(arrays["q.elbow"])).max() > 0.1
    assert [(f.name, f.message) for f in found(arrays)] == [
        ("gaps", "1 silence longer than 10 steps, the longest 2 s")
    ]


def test_a_coarse_encoder_that_rests_at_its_end_is_not_saturated() -> None:
    """The last rows before a rest are single steps, of which some are seen as finer ones."""
    arrays = good_log()
    step = 4e-3
    x = np.round(arrays["q.elbow"] / step) * step
    x += 2e-5 * np.random.default_rng(4).integers(0, 2, ROWS)  # now and then a finer one
    x[np.isclose(x, x.max(), atol=3e-5)] = x.max()
    arrays["q.elbow"] = x
    assert "saturated" not in {f.name for f in found(arrays)}


def test_a_log_without_rows_is_that_and_nothing_else() -> None:
    assert [f.name for f in found({n: x[:0] for n, x in good_log().items()})] == ["no rows"]


def test_positions_without_any_effort_are_nothing_to_identify_from() -> None:
    arrays = {n: x for n, x in good_log().items() if not n.startswith("tau.")}
    assert [f.name for f in found(arrays)] == ["no effort"]
    assert found({"u.motor": arrays["q.elbow"], **arrays}) == ()


def test_a_short_log_has_no_levels_to_count() -> None:
    short = {n: x[400:500] for n, x in good_log().items()}
    short["q.elbow"] = np.linspace(0.0, 0.1, 100)
    assert "coarse" not in {f.name for f in found(short)}


def test_a_spike_of_a_column_that_is_not_used_is_only_told() -> None:
    arrays = good_log()
    arrays["v.elbow"][900] = 40.0
    (spike,) = [f for f in found(arrays) if f.name == "spikes"]
    assert (spike.name, spike.severity, spike.lines) == ("spikes", "tells", {})


def test_counting_does_not_depend_on_blocks() -> None:
    arrays = good_log()
    for plant, name, _ in FAULTS.values():
        if name in ("not finite", "spikes", "wrapped angle"):
            plant(arrays)
    whole = found(arrays)
    recording = recorded(arrays)
    table = recording.table

    def in_pieces(names):  # type: ignore[no-untyped-def]
        for block in table.read(names):
            yield from np.array_split(block, 7)

    split = replace(recording, table=replace(table, read=in_pieces))
    assert [(f.name, f.about, f.message) for f in look(split)[1]] == [
        (f.name, f.about, f.message) for f in whole
    ]


# --- physics


@lru_cache(maxsize=1)
def arm() -> tuple[Robot, Recording]:
    """Six joints with a model file that is 30 % off, and a log of theirs."""
    rng = np.random.default_rng(3)
    truth = experiments.true_robot(experiments.ARMS["six joints"], rng)
    recording = experiments.log(truth, 20.0, 125.0, rng)
    return Robot.from_urdf_text(experiments.wrong_prior(truth.robot, rng)), recording


def physics(diagnosis: doctor.Diagnosis) -> list[Finding]:
    return [f for f in diagnosis.findings if f.sure is not None]


def test_physics_finds_nothing_in_a_good_log() -> None:
    robot, recording = arm()
    diagnosis = doctor.diagnose([recording], robot)
    assert diagnosis.findings == ()
    assert diagnosis.motion is not None and diagnosis.motion.rank == diagnosis.motion.columns


PLANTED: dict[str, tuple[list[CorrectionStep], list[str]]] = {
    "degrees, and a torque of the other sign": (
        [PositionUnit((), np.pi / 180.0), SignFlip((2,), "tau")],
        ["degrees for radians", "flipped torque"],
    ),
    "swapped joints, and a gain": (
        [Swap((1, 2), "both"), TorqueGain((3,), (0.2,))],
        ["swapped columns", "wrong torque gain"],
    ),
    "a motor's turns, and a zero": (
        [PositionScale((2,), 0.01), PositionOffset((1,), 0.3)],
        ["wrong gear or unit of position", "encoder offset"],
    ),
}


@pytest.mark.parametrize("case", PLANTED)
def test_physics_finds_what_was_planted_and_its_map_mends_it(case: str, tmp_path: Path) -> None:
    steps, names = PLANTED[case]
    robot, recording = arm()
    wrong = spoilt(robot, recording, steps)
    diagnosis = doctor.diagnose([wrong], robot)
    assert sorted(f.name for f in physics(diagnosis)) == sorted(names)
    assert all(0.9 < f.sure < 1.0 and f.severity == "spoils" for f in physics(diagnosis))
    assert diagnosis.correction is not None
    path = tmp_path / "map.toml"
    path.write_text(doctor.mended_map(wrong, robot, diagnosis.correction), encoding="utf-8")
    mended = Recording.of_table(wrong.table, ColumnMap.from_toml(path))
    assert physics(doctor.diagnose([mended], robot)) == []


def spoilt(robot: Robot, recording: Recording, steps: list[CorrectionStep]) -> Recording:
    """Return a log that the steps would mend, in columns of canonical names."""
    correction = combined(Correction.none(robot), steps)
    block = next(recording.blocks(recording.signals))
    values = dict(zip(recording.signals, block.values.T, strict=True))
    made: dict[str, dict[str, np.ndarray]] = {"q": {}, "tau": {}}
    for j, joint in enumerate(robot.joints):
        q = (values[f"q.{joint}"] - correction.q_offset[j]) / correction.q_scale[j]
        made["q"][robot.joints[correction.q_source[j]]] = q
        tau = values[f"tau.{joint}"] / correction.tau_scale[j]
        made["tau"][robot.joints[correction.tau_source[j]]] = tau
    return Recording.from_arrays(block.time, "spoilt", **made)


def test_a_tilted_base_is_found_and_the_stated_gravity_mends_it() -> None:
    robot, recording = arm()
    turned = Options(gravity=(0.0, 9.81 * np.sin(0.4), -9.81 * np.cos(0.4)))
    tilted = Robot.from_urdf_text(robot.source, turned)
    (finding,) = physics(doctor.diagnose([recording], tilted))
    assert finding.name == "tilted mounting"
    numbers = finding.lines["options"].partition("=")[2].strip("[] ").split(",")
    np.testing.assert_allclose([float(x) for x in numbers], [0.0, 0.0, -9.81], atol=0.1)


def test_a_model_of_other_geometry_is_doubted() -> None:
    text = (demo.FOLDER / "arm.urdf").read_text()
    elbow = text.index('<joint name="elbow"')
    other = text[:elbow] + text[elbow:].replace('<axis xyz="0 1 0"/>', '<axis xyz="1 0 0"/>', 1)
    recording = Recording.open(demo.FOLDER / "run1.parquet")
    diagnosis = doctor.diagnose([recording], Robot.from_urdf_text(other.encode()))
    assert ("unexplained torque", "all joints") in {(f.name, f.about) for f in diagnosis.findings}


def test_a_dead_sensor_is_all_that_is_wrong() -> None:
    robot, recording = arm()
    block = next(recording.blocks(recording.signals))
    values = dict(zip(recording.signals, block.values.T.copy(), strict=True))
    dead = f"tau.{robot.joints[3]}"
    values[dead][:] = 0.0
    (finding,) = doctor.diagnose([recorded({"t": block.time, **values})], robot).findings
    assert (finding.name, finding.about) == ("zero effort", dead)


def test_wrapped_angles_are_unwrapped_before_physics_is_asked() -> None:
    robot, recording = arm()
    block = next(recording.blocks(recording.signals))
    values = dict(zip(recording.signals, block.values.T.copy(), strict=True))
    name = f"q.{robot.joints[1]}"
    values[name] = np.mod(values[name] - np.median(values[name]), 2.0 * np.pi)
    values[name] += np.median(block.values[:, recording.signals.index(name)])
    findings = doctor.diagnose([recorded({"t": block.time, **values})], robot).findings
    assert {f.name for f in findings} == {"wrapped angle"}


def test_a_delay_is_found_by_physics() -> None:
    rng = np.random.default_rng(3)
    truth = experiments.true_robot(experiments.ARMS["six joints"], rng)
    late = experiments.log(truth, 20.0, 125.0, rng, delay=0.02)
    (finding,) = physics(doctor.diagnose([late], arm()[0]))
    assert finding.name == "delay"
    assert finding.evidence["value"] == pytest.approx(0.02, abs=0.002)


def test_what_a_fit_leaves_is_what_its_unknowns_leave_of_every_row() -> None:
    """σ_j² is the mean square of τ − Y u, and the floor; sums say so without the rows."""
    robot, recording = arm()
    evidence = Evidence.of(robot, [recording])
    hypotheses = Hypotheses(evidence)
    for steps in ([], [SignFlip((1,), "tau")], [Swap((1, 2), "q"), TorqueGain((3,), (0.2,))]):
        fit = hypotheses.settle(combined(Correction.none(robot), steps))
        floor = evidence.settings.floor_share * evidence.effort_rms[list(fit.correction.tau_source)]
        wanted = np.mean(hypotheses.residuals(fit) ** 2, axis=0) + floor**2
        np.testing.assert_allclose(fit.sigma**2, wanted, rtol=1e-9)


def test_no_unknowns_explain_more_than_a_fits() -> None:
    """Where friction is free to drive, a fit is the minimum of its weighted squares."""
    robot, recording = arm()
    hypotheses = Hypotheses(Evidence.of(robot, [recording]))
    fit = hypotheses.settle(Correction.none(robot))
    rows, unknowns = hypotheses.rows(fit.correction), hypotheses.unknowns
    count, weights = len(rows.columns), fit.sigma**-2.0
    must = unknowns.nonnegative()
    prior = Prior(rows.ridge, unknowns.start, must, 4.0)
    effort = hypotheses.evidence.effort()
    right = rows.right(range(count), effort, None)
    channels = rows.channels(right, *np.ones((3, count)), np.zeros(count))
    held = ~must | (fit.values > 0.0)
    found, _, _ = fitted(channels, prior, rows.order, fit.sigma, held, rounds=1)
    assert (found[must] >= 0.0).all()
    pull = rows.ridge * (found - unknowns.start)
    size = np.abs(rows.ridge * unknowns.start)
    for k, (at, Y, weight) in enumerate(zip(rows.columns, rows.regressors, weights, strict=True)):
        pull[at] += weight * Y @ (found[at] @ Y - effort[:, k])
        size[at] += weight * np.abs(Y) @ np.abs(effort[:, k])
    inside = ~must | (found > 0.0)
    assert np.all(np.abs(pull[: unknowns.bodies]) <= 1e-9 * size[: unknowns.bodies])
    assert np.all(np.abs(pull[inside]) <= 1e-9 * size[inside])
    assert np.all(pull[~inside] >= -1e-9 * size[~inside])  # what is zero would have to push
    assert not inside.all()


@pytest.mark.parametrize(
    "step",
    [SignFlip((2,), "q"), Swap((1, 4), "q"), PositionOffset((5,), 0.3), Gravity((), (0, 0, 9))],
)
def test_a_fit_does_not_depend_on_the_motion_whose_rows_it_shares(step: CorrectionStep) -> None:
    robot, recording = arm()
    sharing, alone = (Hypotheses(Evidence.of(robot, [recording])) for _ in range(2))
    corrected = step.apply(Correction.none(robot))
    sharing.settle(Correction.none(robot))
    alone.memory = sharing.memory
    one, other = sharing.fit(corrected), alone.fit(corrected)
    assert one.objective == pytest.approx(other.objective, rel=1e-9)
    np.testing.assert_allclose(one.sigma, other.sigma, rtol=1e-7)
    np.testing.assert_allclose(sharing.residuals(one), alone.residuals(other), atol=1e-6)


def test_a_fit_does_not_depend_on_the_one_it_begins_at() -> None:
    robot, recording = arm()
    hypotheses = Hypotheses(Evidence.of(robot, [recording]))
    plain = Correction.none(robot)
    best = hypotheses.settle(plain)
    flipped = hypotheses.fit(SignFlip((1,), "tau").apply(plain), best)
    back = hypotheses.fit(plain, hypotheses.fit(plain, flipped))
    assert flipped.objective > best.objective + 100.0
    assert back.objective == pytest.approx(best.objective, abs=0.5)


def test_a_score_is_of_the_torque_that_the_columns_leave() -> None:
    robot, recording = arm()
    hypotheses = Hypotheses(Evidence.of(robot, [recording]))
    fit = hypotheses.settle(Correction.none(robot))
    settings = DoctorSettings()
    asked = [*candidates(hypotheses, fit, settings.loads, settings.scores)][::7]
    residual = Residual(hypotheses, fit, settings.scores.block_s)
    columns = np.zeros((len(residual.inverse), residual.error.size))
    for k, (at, y) in enumerate(residual.columns):
        columns[at, k * y.shape[1] : (k + 1) * y.shape[1]] = y
    scored = [*residual.scores(asked, 0.0)]
    assert len({s.candidate.kind for s in scored}) > 1
    for s in scored:
        effects = np.zeros((len(s.candidate.effects), *residual.error.shape))
        effects[:, s.candidate.channels] = (
            s.candidate.effects * residual.roots[s.candidate.channels]
        )
        D = effects.reshape(len(effects), -1)
        Z = D - (residual.inverse @ (columns @ D.T)).T @ columns
        S = Z @ residual.error.ravel()
        share = S @ np.linalg.solve(Z @ Z.T, S) / np.sum(residual.error**2)
        assert s.share == pytest.approx(share, rel=1e-3, abs=1e-9)


@pytest.mark.parametrize("settled", [True, False])
def test_a_number_is_polished_where_refining_it_settles(settled: bool) -> None:
    fit = SimpleNamespace(sigma=None, settled=settled)
    search: Any = SimpleNamespace(
        hypotheses=SimpleNamespace(settle=lambda c, common=True: fit, fit=lambda c, near: fit),
        refined=lambda step, base, fit: (step.moved(0.1), fit),
    )
    steps = (PositionOffset((1,), 0.3), PositionScale((2,), 0.5))
    found = Search._polished(search, Correction.none(arm()[0]), steps)
    assert found == (tuple(s.moved(0.1) for s in steps) if settled else steps)


def test_thresholds_are_settings_and_a_diagnosis_states_them() -> None:
    arrays = good_log()
    arrays["t"] = arrays["t"] + 0.0005 * np.random.default_rng(2).uniform(-1, 1, ROWS)
    strict = DoctorSettings(clock=ClockThresholds(jitter_steps=0.05))
    assert "jitter" not in {f.name for f in doctor.diagnose([recorded(arrays)]).findings}
    found = doctor.diagnose([recorded(arrays)], settings=strict)
    assert "jitter" in {f.name for f in found.findings}
    assert found.settings == strict


def test_evidence_that_is_asked_for_decides_what_is_claimed() -> None:
    robot, recording = arm()
    wrong = spoilt(robot, recording, [SignFlip((2,), "tau")])
    evidence = Evidence.of(robot, [wrong])
    (found,) = explain(evidence)[0].steps
    assert found.step == SignFlip((2,), "tau")
    more = StepAcceptance(evidence=1.01 * found.evidence)
    assert explain(evidence, CorrectionSearch(acceptance=more))[0].steps == ()


def test_what_no_motion_tells_is_not_claimed() -> None:
    """A vertical first axis: gravity says nothing of its zero, nor does anything else."""
    robot, recording = arm()
    turned = spoilt(robot, recording, [PositionOffset((0,), 0.7)])
    assert physics(doctor.diagnose([turned], robot)) == []


def test_the_angle_of_gravities_is_that_between_them() -> None:
    base = Correction.none(arm()[0])  # along z
    size = float(np.linalg.norm(base.gravity))
    for angle in (0.0, 0.3, 2.0):
        tilted = (size * np.sin(angle), 0.0, -size * np.cos(angle))
        assert Gravity((), tilted).angle(base) == pytest.approx(angle, abs=1e-7)
    nothing = Gravity((), (0.0, 0.0, 0.0))
    assert nothing.angle(base) == np.pi == Gravity((), (0.0, 0.0, -9.8)).angle(nothing.apply(base))


@pytest.mark.parametrize("turns", [0.5, 100.0])
def test_degrees_are_proposed_where_most_joints_turn_too_often(turns: float) -> None:
    q = np.linspace(0.0, turns * 2.0 * np.pi, 10)[:, None] * np.ones(2)
    evidence = SimpleNamespace(motion=lambda correction: (q, None, None))
    proposals = Proposals(SimpleNamespace(evidence=evidence), StepProposals())  # type: ignore[arg-type]
    best = SimpleNamespace(correction=None)
    found = list(proposals._of_positions(best, (0, 1)))  # type: ignore[arg-type]
    assert (PositionUnit((), np.pi / 180.0) in found) == (turns > 10.0)


@pytest.mark.parametrize("size", [1.0, 1000.0, 0.3])
def test_the_unit_of_torque_is_what_brings_it_to_the_files_masses(size: float) -> None:
    robot, recording = arm()
    scaled = spoilt(robot, recording, [TorqueGain(tuple(range(6)), (1.0 / size,) * 6)])
    search = Search(Evidence.of(robot, [scaled]), CorrectionSearch())
    found = unit_of(search, Correction.none(robot))
    assert (found == 1.0) == (size == 1.0)
    assert found * size == pytest.approx(1.0, rel=0.5)


def test_gains_of_all_joints_are_found_at_once() -> None:
    """Nearer than the masses of the model file are, by which they are begun."""
    robot, recording = arm()
    gains = (1.3, 0.8, 1.0, 1.0, 1.25, 0.75)
    wrong = spoilt(robot, recording, [TorqueGain(tuple(range(6)), gains)])
    diagnosis = doctor.diagnose([wrong], robot)
    assert [f.name for f in physics(diagnosis)] == ["wrong torque gain"]
    assert diagnosis.correction is not None
    assert "the torque 'shoulder_pan_joint'" in physics(diagnosis)[0].message
    found = np.array(diagnosis.correction.tau_scale)
    np.testing.assert_allclose(found / found[2], gains, rtol=0.1)


def test_gains_of_no_joint_are_not_to_be_unbound() -> None:
    """What a search leaves where no joint's torque is off the others' scale."""
    assert TorqueGain((), ()).unbound() is None
    assert TorqueGain((2,), (3.0,)).unbound() is not None


def test_what_is_mended_is_scaled_and_moved_behind_the_map_that_read_it() -> None:
    robot, recording = arm()
    joint = robot.joints[0]
    (given, place) = recording.sources[f"q.{joint}"]
    matrix = 3.0 * given.matrix
    mapped = replace(given, matrix=matrix, offset=given.offset + 0.5)
    recording = replace(recording, sources=recording.sources | {f"q.{joint}": (mapped, place)})
    steps = [PositionScale((0,), 0.25), PositionOffset((0,), 0.1)]
    mended = corrected(recording, robot, combined(Correction.none(robot), steps))
    found, row = mended.sources[f"q.{joint}"]
    assert found.matrix[row] == pytest.approx(0.25 * matrix[place])
    assert found.offset[row] == pytest.approx(0.25 * (given.offset[place] + 0.5) + 0.1)


@pytest.mark.parametrize("seed", range(20))
def test_steps_make_up_the_correction_that_they_are_read_from(seed: int) -> None:
    robot, _ = arm()
    start = Correction.none(robot)
    rng = np.random.default_rng(seed)
    correction = start
    for _ in range(3):
        pair = tuple(sorted(int(k) for k in rng.choice(6, 2, replace=False)))
        one = (int(rng.integers(6)),)
        for step in rng.choice(
            [Swap(pair, "both"), Swap(pair, "q"), SignFlip(one, "tau"), SignFlip(one, "both"),
             PositionScale(one, 0.3), TorqueGain(one, (7.0,)), PositionOffset(one, 0.2),
             CompensatedFriction(one)],
            2, replace=False,
        ):  # fmt: skip
            correction = step.apply(correction)
    again = combined(start, steps_between(start, correction))
    for key in ("q_source", "tau_source", "driven"):
        assert getattr(again, key) == getattr(correction, key)
    for key in ("q_scale", "q_offset", "tau_scale"):
        np.testing.assert_allclose(getattr(again, key), getattr(correction, key), rtol=1e-12)


def test_the_command_says_so_and_exits_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["heft", "check", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0)

    log, urdf = str(demo.FOLDER / "run1.parquet"), str(demo.FOLDER / "arm.urdf")
    out = tmp_path / "findings.json"
    call = [sys.executable, "-m", "heft", "check"]
    call += [log, "--robot", urdf, "--json", str(out), "--quiet"]
    answer = subprocess.run(call, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith("run1.parquet: clean") and not answer.stderr
    assert json.loads(out.read_text())["verdict"] == "clean"

    arrays = good_log()
    FAULTS["a dead sensor"][0](arrays)
    bad = tmp_path / "bad.npz"
    np.savez(bad, **arrays)
    assert run(str(bad), "--json", str(out), "--quiet") == 1
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert "zero effort: this will spoil" in first and "zero effort, tau.elbow" in second
    (finding,) = json.loads(out.read_text())["findings"]
    assert finding["lines"]["options"] == "[joint.elbow]\nmeasured = false"

    missing = tmp_path / "missing.csv"
    assert run(str(missing)) == 2
    assert run() == 2
