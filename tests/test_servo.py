"""A servo on a bench: told from its duty as far as motion tells it, and refused where it is not."""

from __future__ import annotations

import json
import math
import os
import re
import runpy
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mujoco
import numpy as np
import pinocchio as pin
import pytest

from heft.applications.servo import (
    Bench,
    IdentifiedServo,
    ServoLog,
    hidden,
    identify_bench,
    identify_files,
    open_logs,
)
from heft.applications.servo.identified import Quantity
from heft.cli import main
from heft.errors import FitError, InputError, InvalidRecording, InvalidSetting, MissingSignal
from heft.plants import ServoPlant
from heft.plants.servo import ServoMotion
from heft.recordings import json_rows
from tests.browser import barriers

BENCH = Bench(0.5, 0.1, arm_mass=0.03, full_duty=885.0)
# Torque per volt [N·m/V], back-EMF, viscous friction [N·m·s/rad], rotor [kg·m²], Coulomb [N·m],
# share of friction in the load, how much more of the drive the load takes [1/(N·m)], offset [N·m].
TRUE = {"A": 0.11, "B": 0.045, "viscous": 0.006, "armature": 0.002}
TRUE |= {"coulomb": 0.01, "load": 0.2, "sag": 0.5, "offset": 0.004}
PER_UNIT = 0.002877  # duty per rad and unit of gain
STEP, EVERY = 0.0005, 10  # [s], steps between rows
MEASURED = Path(os.environ.get("HEFT_DATA", "/nowhere")).parent / "servo" / "xl330"


def simulated(pace: float, gain: float, released: bool = True, bench: Bench = BENCH) -> Any:
    """Return a document as benches write it, of a servo that swings and sticks.

    Dry friction holds whatever would move less than it takes: implicit in the speed.
    """
    q = v = a = 0.0
    rows = []
    for k in range(int(8.0 / STEP)):
        t = k * STEP
        goal = 1.3 * math.sin(pace * t) + 0.5 * math.sin(2.7 * pace * t)
        on = not (released and 5.0 < t < 7.0)
        volts = 7.4 - 0.3 * math.sin(0.9 * t)
        duty = max(-1.0, min(1.0, PER_UNIT * gain * (goal - q))) * on
        arm = bench.inertia * a + bench.moment * math.sin(q)
        rubs = TRUE["coulomb"] + TRUE["load"] * abs(arm)
        more = 1.0 + TRUE["sag"] * abs(arm)
        drive = TRUE["A"] * duty * volts - more * bench.moment * math.sin(q) - TRUE["offset"]
        total = more * bench.inertia + TRUE["armature"]
        damped = total + STEP * (TRUE["B"] * on + TRUE["viscous"])
        free = (total * v + STEP * drive) / damped
        after = math.copysign(max(abs(free) - STEP * rubs / damped, 0.0), free)
        if k % EVERY == 0:
            register = round(885 * duty)
            row = {
                "timestamp": t,
                "position": round(q * 4096 / (2 * math.pi)) * 2 * math.pi / 4096,
                "goal_position": goal,
                "load": register if register >= 0 else register + 65536,
                "input_volts": round(10 * volts) / 10,
                "torque_enable": on,
                "temp": 30,
            }
            rows.append(row)
        a, v = (after - v) / STEP, after
        q += STEP * v
    return {"mass": bench.mass, "length": bench.length, "kp": gain, "entries": rows}


def written(folder: Path, change: Callable[[Any], None] = lambda d: None, **how: Any) -> list[Path]:
    """Write three logs, each changed, and return their paths."""
    paths = []
    for k, (pace, gain) in enumerate(((1.3, 300.0), (2.1, 300.0), (3.3, 200.0))):
        document = simulated(pace, gain, **how)
        change(document)
        paths.append(folder / f"log{k}.json")
        paths[-1].write_text(json.dumps(document))
    return paths


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return written(tmp_path_factory.mktemp("bench"))


@pytest.fixture(scope="module")
def found(paths: list[Path]) -> IdentifiedServo:
    return identify_bench(BENCH, open_logs(BENCH, paths))


def test_rows_are_those_of_an_independent_dynamics() -> None:
    model = pin.Model()
    joint = model.addJoint(0, pin.JointModelRY(), pin.SE3.Identity(), "servo")
    weight = pin.Inertia(0.5, np.array([0.0, 0.0, -0.1]), np.diag([1e-4, 2e-4, 1e-4]))
    model.appendBodyToJoint(joint, weight, pin.SE3.Identity())
    data = model.createData()
    q, v, a = np.random.default_rng(1).normal(size=(3, 20))
    arm = np.array(
        [pin.rnea(model, data, *(x[k : k + 1] for x in (q, v, a)))[0] for k in range(20)]
    )
    plant = ServoPlant(0.5 * 9.81 * 0.1, 0.5 * 0.1**2 + 2e-4, released=True, warms=True)
    on, warm = (np.arange(20) % 2).astype(float), np.linspace(-5.0, 5.0, 20)
    samples = plant.random_samples(20, np.random.default_rng(2))
    samples = replace(samples, motion=ServoMotion(q, v, a, on, warm))
    rows = plant.rows(samples, range(9)).regressor[:, 0]
    rubs = np.tanh(v / 0.02) * np.abs(arm)
    wanted = [arm, arm * warm, on * v, a, v, np.sign(v), rubs, arm * np.abs(arm), np.ones(20)]
    assert rows == pytest.approx(np.stack(wanted, axis=1), abs=1e-12)


def test_the_rate_of_momentum_less_the_remainder_is_the_row() -> None:
    plant = ServoPlant(0.5, 0.007, released=True, warms=True)
    h, t = 1e-4, 1.0 + 1e-4 * np.arange(-2, 3)
    motion = ServoMotion(
        np.sin(3 * t), 3 * np.cos(3 * t), -9 * np.sin(3 * t), np.ones(5), np.full(5, 2.0)
    )
    samples = replace(plant.random_samples(5, np.random.default_rng(0)), motion=motion)
    sides, row = plant.sides(samples, range(9)), plant.rows(samples, range(9)).regressor[2]
    rate = np.einsum("k,kmp->mp", [1.0, -8.0, 0.0, 8.0, -1.0], sides.momentum) / (12.0 * h)
    assert rate - sides.remainder[2] == pytest.approx(row, abs=1e-9)


def test_intervals_of_a_simulated_servo_hold_the_truth(found: IdentifiedServo) -> None:
    """Of eight numbers at 95 % one may be outside, none by another half."""
    apart = {n: abs(q.value - TRUE[n]) / q.std for n, q in found.quantities.items()}
    assert set(apart) == set(TRUE)
    assert sum(z > 1.96 for z in apart.values()) <= 1 and max(apart.values()) < 3.0, apart
    assert found.quantities["A"].std < 0.05 * TRUE["A"]
    assert found.quantities["B"].std < 0.15 * TRUE["B"]


def test_the_firmware_is_read_off(found: IdentifiedServo) -> None:
    firmware = found.firmware
    assert firmware is not None and firmware.per_unit
    assert firmware.gain == pytest.approx(PER_UNIT, rel=0.01)
    assert firmware.share > 0.999 and firmware.late <= 2 * STEP * EVERY


def test_without_torque_off_back_emf_is_within_viscous_friction(tmp_path: Path) -> None:
    found = identify_bench(BENCH, open_logs(BENCH, written(tmp_path, released=False)))
    assert "B" not in found.quantities
    both = found.quantities["viscous"]
    assert abs(both.value - TRUE["B"] - TRUE["viscous"]) < 3.0 * both.std < 0.02
    assert "no log moves freely" in found.text()


def test_the_known_mass_is_the_scale_of_all_torque(
    paths: list[Path], found: IdentifiedServo
) -> None:
    """Twice the mass and twice all torque move alike."""
    twice = replace(BENCH, mass=2 * BENCH.mass, arm_mass=2 * BENCH.arm_mass)
    logs = open_logs(BENCH, paths)
    other = identify_bench(twice, logs).quantities
    for name, q in found.quantities.items():
        factor = {"load": 1.0, "sag": 0.5}.get(name, 2.0)
        assert other[name].value == pytest.approx(factor * q.value, rel=1e-3, abs=1e-6)


def test_a_log_that_never_slides_with_the_torque_on_has_no_strength(paths: list[Path]) -> None:
    logs = open_logs(BENCH, paths)
    names = ("time", "position", "goal", "duty", "supply", "on")
    free = replace(logs[0], **{n: getattr(logs[0], n)[~logs[0].on] for n in names})
    found = identify_bench(BENCH, [*logs, free])
    assert np.isfinite(found.strengths[:3]).all() and np.isnan(found.strengths[3])
    assert json.loads(found.to_json())["logs"][3]["strength"] is None and found.notes


def test_a_warm_winding_is_told_by_the_logs_temperatures(tmp_path: Path) -> None:
    """Resistance that rises by 1 % a kelvin: as much more duty for the same torque."""

    def at(temperature: float) -> Callable[[Any], None]:
        def warmed(document: Any) -> None:
            for row in document["entries"]:
                row["temp"], row["input_volts"] = temperature, 7.4

        return warmed

    logs = []
    for k, temperature in enumerate((30.0, 50.0)):
        (tmp_path / str(k)).mkdir()
        logs += open_logs(BENCH, written(tmp_path / str(k), at(temperature)))
    cooled = [replace(x, supply=x.supply * (1.2 if x.temperature > 40.0 else 1.0)) for x in logs]
    warmth = identify_bench(BENCH, cooled).quantities["warmth"]
    assert abs(warmth.value - 0.2 / 20.0 / 1.1) < 3.0 * warmth.std < 0.01


def test_the_files_are_those_that_simulators_read(
    tmp_path: Path,
    paths: list[Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "bench.toml").write_text(
        "mass = 0.5\nlength = 0.1\narm_mass = 0.03\nfull_duty = 885\n"
    )
    out = tmp_path / "servo"
    words = [
        "heft",
        "servo",
        str(tmp_path / "bench.toml"),
        *map(str, paths),
        "--out",
        str(out),
        "--quiet",
    ]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert 10 <= len(capsys.readouterr().out.strip().splitlines()) <= 20
    found = json.loads((out / "estimate.json").read_text())["quantities"]
    bam = json.loads((out / "bam.json").read_text())
    angles = np.concatenate([log.position for log in open_logs(BENCH, paths)])
    load = BENCH.moment * np.mean(np.abs(np.sin(angles)))  # at which simulators' fields are
    part = 1.0 + found["sag"]["value"] * load
    A, B = found["A"]["value"] / part, found["B"]["value"] / part
    assert bam["kt"] / bam["R"] == pytest.approx(A) and bam["kt"] ** 2 / bam["R"] == pytest.approx(
        B
    )
    with monkeypatch.context() as named:  # as Isaac Lab has it: keywords, and no others
        stands = SimpleNamespace(BamActuatorCfg=SimpleNamespace, BamMotorCfg=SimpleNamespace)
        for name in ("isaaclab", "isaaclab.actuators", "isaaclab.actuators.actuator_bam_cfg"):
            named.setitem(sys.modules, name, stands)
        isaac = runpy.run_path(str(out / "servo_isaaclab.py"))["SERVO"]
    stalled = 7.4 * isaac.motor.kt / isaac.motor.resistance
    assert stalled == pytest.approx(7.4 * A) and isaac.vin == pytest.approx(7.3, abs=0.2)
    assert isaac.motor.error_gain * isaac.kp_fw == pytest.approx(PER_UNIT * 300.0, rel=0.01)
    assert isaac.motor.load_friction_external == bam["load_friction_external"]
    model = mujoco.MjModel.from_xml_path(str(out / "servo.xml"))
    assert model.dof_armature[0] == pytest.approx(found["armature"]["value"] / part, rel=1e-4)
    page = out / "report.html"
    assert "torque per volt A" in page.read_text() and barriers(page.as_uri()) == []
    state = mujoco.MjData(model)
    for goal, duty in ((0.1, PER_UNIT * 300.0 * 0.1), (3.0, 1.0)):  # and beyond its limit
        model.actuator_delay[0], state.qvel[0], state.ctrl[0] = 0.0, 0.5, goal
        mujoco.mj_forward(model, state)
        assert state.actuator_force[0] == pytest.approx(7.4 * A * duty - 0.5 * B, rel=0.03)
    state = mujoco.MjData(model)
    state.qpos[0], state.qacc[0] = 0.7, 3.0
    model.dof_armature[0] = model.dof_damping[0] = model.dof_frictionloss[0] = 0.0
    mujoco.mj_inverse(model, state)
    arm = BENCH.moment * math.sin(0.7) + BENCH.inertia * 3.0
    assert state.qfrc_inverse[0] == pytest.approx(arm, rel=2e-3)


def test_mujoco_follows_the_goal_as_the_law_does(paths: list[Path]) -> None:
    """But for friction in the load, which has no field there."""
    found = identify_bench(BENCH, open_logs(BENCH, paths))
    engine, law, flat = map(float, re.findall(r"(\d+\.\d+)°", found.replayed()))
    assert law < 0.7 and law < flat and engine < 1.5 * flat
    free = found.quantities | dict.fromkeys(("load", "sag"), Quantity(0.0, 0.0, "1"))
    engine, law, flat = map(
        float, re.findall(r"(\d+\.\d+)°", replace(found, quantities=free).replayed())
    )
    assert law == flat and engine == pytest.approx(law, rel=0.1)


def test_a_rollout_is_the_same_with_all_masses_and_torques_scaled(paths: list[Path]) -> None:
    """What position and goal cannot tell: the scale."""
    bench = replace(BENCH, gain=PER_UNIT)
    stretches = hidden.Stretches.of(open_logs(bench, paths[:1]), bench, 1.0)
    one = np.array([[(TRUE | {"delay": 0.01}).get(name, 0.3) for name in hidden.NAMES]])
    less = {"load": 1.0, "static": 1.0, "sag": 1.0 / 3.0, "warmth": 1.0, "delay": 1.0}
    three = one * [less.get(n, 3.0) for n in hidden.NAMES]
    heavy = replace(bench, mass=3.0 * bench.mass, arm_mass=3.0 * bench.arm_mass)
    places, duties = hidden.followed(one, stretches, bench)
    assert np.ptp(places.real) > 1.0
    for moved, other in zip(
        (places, duties), hidden.followed(three, stretches, heavy), strict=True
    ):
        assert np.abs(moved - other).max() < 1e-9


def test_a_warm_winding_is_a_heavier_arm(paths: list[Path]) -> None:
    bench = replace(BENCH, gain=PER_UNIT)
    stretches = hidden.Stretches.of(open_logs(bench, paths[2:]), bench, 1.0)
    stretches = stretches.part(stretches.signals[2].min(axis=1) > 0.5)  # with the torque on
    values = np.array([(TRUE | {"delay": 0.01}).get(name, 0.3) for name in hidden.NAMES])
    values[hidden.NAMES.index("warmth")] = 0.01
    warm = replace(stretches, warmer=np.full_like(stretches.gain, 20.0))
    same = values / [{"load": 1.2, "sag": 1.2**2}.get(n, 1.0) for n in hidden.NAMES]
    heavy = replace(bench, mass=1.2 * bench.mass, arm_mass=1.2 * bench.arm_mass)
    moved, other, cold = (
        hidden.followed(x[None], s, b)[0].real
        for x, s, b in ((values, warm, bench), (same, stretches, heavy), (values, stretches, bench))
    )
    assert np.abs(moved - other).max() < 1e-9 and np.abs(moved - cold).max() > 0.01


def test_sensitivities_are_the_rollouts_own(paths: list[Path]) -> None:
    bench = replace(BENCH, gain=PER_UNIT)
    stretches = hidden.Stretches.of(open_logs(bench, paths[2:]), bench, 0.5).part(slice(0, 8))
    stretches = replace(stretches, warmer=np.linspace(-1.0, 1.0, 8))
    values = np.array([(TRUE | {"delay": 0.01}).get(name, 0.3) for name in hidden.NAMES])
    h = 1e-6 * np.diag(np.maximum(values, 1e-3))
    exact = hidden.followed(values + 1e-20j * h, stretches, bench)[0].imag / 1e-20
    ahead, behind = (hidden.followed(values + x, stretches, bench)[0].real for x in (h, -h))
    bound = 1e-3 * np.abs(exact).max(axis=(1, 2), keepdims=True)
    assert (np.abs(exact - (ahead - behind) / 2.0) < bound).mean() > 0.999


def test_position_and_goal_tell_what_the_duty_says(tmp_path: Path) -> None:
    """The simulated servo, its duty not logged; no interval misses the truth by another half."""
    bench = replace(BENCH, gain=PER_UNIT)
    logs = open_logs(bench, written(tmp_path, without("load")))
    found = identify_bench(bench, logs)
    asked = {n: q for n, q in found.quantities.items() if n in TRUE}
    apart = {n: abs(q.value - TRUE[n]) / q.std for n, q in asked.items()}
    assert set(asked) == set(TRUE) and max(apart.values()) < 3.0, apart
    assert sum(z > 1.96 for z in apart.values()) <= 1, apart
    assert found.quantities["A"].std < 0.1 * TRUE["A"]
    late = found.quantities["delay"]
    assert abs(late.value) < 3.0 * late.std < 0.03
    assert "by position and goal" in found.text() and len(found.text().splitlines()) <= 18
    told = {n: q.value for n, q in found.quantities.items()} | {"warmth": 0.0}  # none is logged
    values = np.array([[told[name] for name in hidden.NAMES]])
    whole = hidden.Stretches.of(logs[:1], bench, 7.9)
    duty = (
        np.clip(PER_UNIT * 300.0 * (whole.signals[1] - whole.signals[0]), -1, 1) * whole.signals[2]
    )
    missed = hidden.followed(values, whole, bench)[1][0].real - duty
    assert np.sqrt(np.mean(missed**2) / np.mean(duty**2)) < 0.15


def without(*names: str) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        for row in document["entries"]:
            for name in names:
                del row[name]

    return change


def scaled(name: str, factor: float) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        for row in document["entries"]:
            value = row[name] - 65536 if row[name] > 32768 else row[name]
            row[name] = factor * value

    return change


def lighter(document: Any) -> None:
    document["mass"] = 0.3


def shorter(document: Any) -> None:
    document["entries"] = document["entries"][:30]


def turned_back(document: Any) -> None:
    document["entries"][700]["timestamp"] -= 1.0


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        (without("goal_position", "load"), MissingSignal, "neither the servo's goal nor its duty"),
        (
            scaled("load", 0.0),
            InvalidSetting,
            "gain must be stated: position and goal tell A times",
        ),
        (scaled("load", 1.5), InvalidSetting, "another unit"),
        (scaled("load", 1 / 885), InvalidSetting, "another unit"),
        (
            scaled("position", 100 / math.pi),
            InvalidRecording,
            "no angles in rad.*(.|\n)*−100 … 100",
        ),
        (without("position"), InputError, "q.servo"),
        (without("input_volts", "torque_enable"), MissingSignal, "voltage"),
        (lighter, InvalidSetting, "another bench"),
        (shorter, InvalidRecording, "too short"),
        (turned_back, InvalidRecording, "time does not go on(.|\n)*1 steps back"),
    ],
)
def test_what_does_not_tell_is_refused(
    tmp_path: Path, change: Callable[[Any], None], error: type[InputError], says: str
) -> None:
    document = simulated(2.1, 300.0)
    change(document)
    (tmp_path / "log.json").write_text(json.dumps(document))
    with pytest.raises(error, match=says):
        identify_bench(BENCH, open_logs(BENCH, [tmp_path / "log.json"]))


def test_logs_that_tell_nothing_are_refused(tmp_path: Path) -> None:
    """One way, slowly: what lifts cannot be told from what rubs."""
    document = simulated(0.15, 300.0, released=False)
    document["entries"] = document["entries"][:800]
    (tmp_path / "log.json").write_text(json.dumps(document))
    with pytest.raises(FitError, match=r"do not tell the torque per volt(.|\n)*both ways"):
        identify_bench(BENCH, open_logs(BENCH, [tmp_path / "log.json"]))


def test_another_gain_than_the_logs_show_is_refused(paths: list[Path]) -> None:
    bench = replace(BENCH, gain=1.3 * PER_UNIT)
    with pytest.raises(InvalidSetting, match="gain is not the stated one"):
        identify_bench(bench, open_logs(bench, paths))


def test_a_unit_of_duty_is_not_guessed(paths: list[Path]) -> None:
    with pytest.raises(InvalidSetting, match="what 100 % of duty is"):
        open_logs(replace(BENCH, full_duty=None), paths)


def test_a_log_of_any_format_is_that_of_its_columns(paths: list[Path], tmp_path: Path) -> None:
    bench = replace(BENCH, full_duty=1.0)
    log = ServoLog.open(paths[0], BENCH)
    names = ("t", "q.servo", "q_ref.servo", "u.servo", "u.servo.volts", "u.servo.on")
    columns = (log.time, log.position, log.goal, log.duty, log.supply, log.on.astype(float))
    np.savez(tmp_path / "log.npz", **dict(zip(names, columns, strict=True)))  # type: ignore[arg-type]
    (other,) = open_logs(bench, [tmp_path / "log.npz"])
    for one, two in ((log.duty, other.duty), (log.goal, other.goal), (log.on, other.on)):
        assert np.array_equal(one, two)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[1, 2]", "holds no rows"),
        ('{"entries": []}', "holds no rows"),
        ('{"entries": [{"t": 1}, 2]}', "holds no rows"),
        ("{", "no JSON"),
    ],
)
def test_documents_without_rows_are_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "log.json").write_text(text)
    with pytest.raises(InvalidRecording, match=says):
        json_rows(tmp_path / "log.json")


@pytest.mark.skipif(not MEASURED.is_dir(), reason=f"NO LOGS OF A SERVO in {MEASURED}")
def test_a_measured_servo_is_the_same_at_two_gains(tmp_path: Path) -> None:
    bench = tmp_path / "bench.toml"
    bench.write_text("mass = 0.49\nlength = 0.1\nfull_duty = 885\n")
    by_gain = {}
    for gain in (100, 200):
        logs = sorted(MEASURED.glob(f"*_kp{gain}_*.json"))
        by_gain[gain] = identify_files(bench, logs, tmp_path / str(gain))
        firmware = by_gain[gain].firmware
        assert firmware is not None and firmware.share > 0.9995
        assert firmware.gain == pytest.approx(4096 / (2 * math.pi) / (256 * 885), rel=0.01)
    one, two = (found.quantities for found in by_gain.values())
    for name in one:
        assert abs(one[name].value - two[name].value) < 3.0 * math.hypot(
            one[name].std, two[name].std
        )
    assert two["A"].std < 0.05 * two["A"].value
