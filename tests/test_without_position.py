"""A load at a wrench sensor with an orientation and no position; zeroed, warming, compensated."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from heft.applications.payload import weighed
from heft.applications.payload.estimate import Weighed
from heft.applications.payload.from_files import of_sensor
from heft.applications.payload.logs import jumps
from heft.applications.payload.sensors import Sensors
from heft.errors import InvalidRecording, InvalidSetting, TooLittleData
from heft.information import inertia
from heft.recordings.recording import Recording
from tests.robots import FloatArray
from tests.test_payload import quaternions
from tests.wrists import BIAS, BODY, GRAVITY, moving

SENSORS = {"sensor": {"wrist": {"kind": "wrench", "frame": "ft"}}}
MASS, COM = float(BODY[0]), BODY[1:4] / BODY[0]
RATE = 200.0


def grasped(seconds: float = 30.0, seed: int = 0, travel: float = 0.3) -> dict[str, FloatArray]:
    """Return time, quaternions, positions and a noisy wrench with a bias, at 200 Hz."""
    t, R, _, a, w, alpha = moving(round(RATE * seconds), RATE)
    rng = np.random.default_rng(seed)
    # Travel of its own, which the rotation does not tell.
    speeds, phases = rng.uniform(0.7, 3.0, 3), rng.uniform(0.0, 6.0, 3)
    place = travel * np.sin(speeds * t[:, None] + phases)
    a = -(speeds**2) * place
    specific = np.einsum("nji,nj->ni", R, a - GRAVITY)
    wrench = inertia.wrench_regressor(specific, w, alpha) @ BODY + BIAS
    wrench += rng.normal(size=wrench.shape) * np.repeat([0.1, 0.005], 3)
    return {"t": t, "quat": quaternions(R), "pos": place, "wrench": wrench}


def logged(made: dict[str, FloatArray], placed: bool = False) -> Recording:
    force, torque = np.split(made["wrench"], 2, axis=1)
    kinds = [("force", force, "xyz"), ("torque", torque, "xyz"), ("quat", made["quat"], "wxyz")]
    kinds += [("pos", made["pos"], "xyz")] if placed else []
    signals = {k: {f"ft.{p}": v[:, i] for i, p in enumerate(parts)} for k, v, parts in kinds}
    return Recording.from_arrays(made["t"], "log", **signals)


def weigh(*made: dict[str, FloatArray], placed: bool = False, **table: object) -> Weighed:
    stated = Sensors.from_dict(SENSORS | table)
    return weighed([logged(m, placed) for m in made], stated)


def names(found: Weighed) -> list[str]:
    return [f.name for f in found.findings]


def errors(found: Weighed) -> FloatArray:
    """Return the errors of mass, centre of mass and inertia in standard deviations."""
    return (found.body - inertia.stated_body(BODY)[0]) / found.body_std


@pytest.mark.parametrize("seed", range(3))
def test_a_moving_hand_without_positions_is_weighed(seed: int) -> None:
    found = weigh(grasped(seed=seed))
    assert np.all(np.abs(errors(found)) < 4.0)
    assert found.body_std[0] < 0.02 * MASS
    assert np.all(found.body_std[1:4] < 2e-4)
    assert (
        names(found) == [] and of_sensor(found, Sensors.from_dict(SENSORS).first).verdict == "good"
    )
    bias, std = found.of_sensor("bias") or (BIAS, BIAS)
    assert np.all(np.abs(bias - BIAS) < 4.0 * std)


def test_deviations_are_those_of_errors() -> None:
    found = np.array([errors(weigh(grasped(20.0, seed))) for seed in range(12)])
    assert 0.6 < np.sqrt(np.mean(found**2)) < 1.4


def test_the_centre_is_as_sure_as_the_noise_of_the_force_allows() -> None:
    made = grasped()
    without, placed = weigh(made), weigh(made, placed=True)
    ratio = without.body_std[1:4] / placed.body_std[1:4]
    lever = np.linalg.norm(COM) * 0.1 / 0.005  # c × the force's noise over the moment's
    assert np.all(ratio < 1.1 * np.hypot(1.0, lever))


def test_a_force_that_is_noisy_does_not_shorten_the_lever() -> None:
    made = grasped()
    rng = np.random.default_rng(1)
    made["wrench"][:, :3] += 2.0 * rng.normal(size=(len(made["t"]), 3))
    assert np.all(np.abs(errors(weigh(made)))[1:4] < 4.0)


def test_a_noisy_orientation_does_not_bias_the_inertia() -> None:
    made = grasped()
    noise = 5e-4 * np.random.default_rng(1).normal(size=made["quat"].shape)
    made["quat"] = made["quat"] + noise
    for placed in (False, True):
        assert np.all(np.abs(errors(weigh(made, placed=placed)))[1:] < 5.0)


def test_logs_without_positions_add() -> None:
    one, both = weigh(grasped()), weigh(grasped(), grasped(seed=1))
    assert np.all(both.body_std < one.body_std) and np.all(np.abs(errors(both)) < 4.0)


def test_what_needs_an_acceleration_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="without positions"):
        weigh(grasped(), tilt=True)
    with pytest.raises(TooLittleData, match="too short to tell a mass"):
        weigh(grasped(3.0))


def test_faults_are_named_without_positions_too() -> None:
    made = grasped()
    with pytest.raises(InvalidRecording, match="less than nothing"):
        weigh(made | {"wrench": -made["wrench"]})
    turned = made["wrench"][:, [1, 0, 2, 4, 3, 5]] * [-1, 1, 1, -1, 1, 1]
    with pytest.raises(InvalidRecording, match="axes are turned"):
        weigh(made | {"wrench": turned})


@pytest.mark.parametrize("placed", [False, True])
@pytest.mark.parametrize("at", [1100, 5700, 5900])
def test_a_sensor_zeroed_under_load_is_found(at: int, placed: bool) -> None:
    made = grasped()
    level = made["wrench"][at].copy()
    made["wrench"][at:] -= level
    found = weigh(made, placed=placed)
    assert names(found) == ["zeroed"]
    assert f"at {made['t'][at - 1]:.3f} s" in found.findings[0].message
    assert np.all(np.abs(errors(found)) < 4.0)
    bias = found.bias  # of the sensor as it is now
    assert bias is not None and np.all(np.abs(bias - BIAS + level) < np.repeat([1.0, 0.05], 3))


def _warming(made: dict[str, FloatArray]) -> Sequence[str]:
    rise = 1.0 - np.exp(-made["t"] / 8.0)
    made["wrench"] += np.outer(rise, [4.0, -3.0, 3.0, 0.1, 0.05, -0.05])
    return ("drift",)


def _touched(made: dict[str, FloatArray]) -> Sequence[str]:
    made["wrench"][3000:3080] += [10.0, 5.0, -8.0, 0.5, 0.2, 0.1]
    return ("no body",)


def _dropped(made: dict[str, FloatArray]) -> Sequence[str]:
    made["wrench"] -= BIAS
    rng = np.random.default_rng(2)
    made["wrench"][3000:] = rng.normal(size=(3000, 6)) * np.repeat([0.1, 0.005], 3)
    return ("load changed",)


def _halved(made: dict[str, FloatArray]) -> Sequence[str]:
    made["wrench"][3000:] = 0.5 * (made["wrench"][3000:] - BIAS) + BIAS
    return ("load changed",)


@pytest.mark.parametrize("change", [_warming, _touched, _dropped, _halved])
@pytest.mark.parametrize("placed", [False, True])
def test_what_is_no_zeroing_is_not_called_so(change: object, placed: bool) -> None:
    made = grasped()
    expected = change(made)  # type: ignore[operator]
    found = weigh(made, placed=placed)
    assert "zeroed" not in names(found) and set(expected) <= set(names(found)), names(found)
    told = of_sensor(found, Sensors.from_dict(SENSORS).first).verdict
    assert told == ("usable" if expected == ("drift",) else "poor")


def test_a_jump_is_placed_between_its_samples() -> None:
    made = grasped(5.0)
    made["wrench"][400:] -= made["wrench"][400]
    (jump,) = jumps(made["t"], made["wrench"])
    assert jump.time == made["t"][399] and jump.to_zero
    assert jumps(made["t"][:8], made["wrench"][:8]) == []


@pytest.mark.parametrize("placed", [False, True])
def test_a_weight_that_the_driver_takes_away_is_no_load(placed: bool) -> None:
    made = grasped()
    body = inertia.from_body(0.985 * MASS, COM, np.zeros((3, 3)))
    _, R, *_ = moving(len(made["t"]), RATE)
    still = np.zeros((len(R), 3))
    weight = inertia.wrench_regressor(-np.einsum("nji,j->ni", R, GRAVITY), still, still) @ body
    made["wrench"] -= weight + BIAS
    # Held almost still, so that what is left is noise, inertia and a few grams.
    calm = grasped(travel=0.0)["wrench"] - weight - BIAS if placed else made["wrench"]
    found = weigh(made | {"wrench": calm}, placed=placed)
    assert "no load" in names(found) and "driver" in str(found.findings)
    assert of_sensor(found, Sensors.from_dict(SENSORS).first).verdict == "poor"


def test_a_constant_position_is_a_position(tmp_path: Path) -> None:
    made = grasped(travel=0.0)
    placed = weigh(made, placed=True)
    assert placed.body_std[0] < 0.3 * weigh(made).body_std[0]
    assert np.all(np.abs(errors(placed)) < 4.5)
