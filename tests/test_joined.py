"""Earlier results that tell other base parameters, or were made of other channels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heft.applications.identification import Identification, Settings, identify, write
from heft.applications.identification.earlier import Earlier
from heft.errors import UnlikeLabels
from heft.models import JointOptions, Options, Robot, SensorOptions
from heft.recordings import Recording
from heft.signals import Smoothing
from tests import robots
from tests.plants import cut_wrenches

Array = np.ndarray[Any, np.dtype[np.float64]]
TIME = 0.01 * np.arange(1500)
SETTINGS = Settings(smoothing=Smoothing(corner=12.0, delay=0.0), threads=1)
NAMES = ("turn", "bend", "slide")
MIDDLE = SensorOptions("beyond", reports="on_sensor")
VISCOUS = np.array([1.5, 0.8, 2.0])


def sensed_log(seed: int, kinds: tuple[str, ...] = ("q", "tau", "force", "torque")) -> Recording:
    """Return a log of an arm with a wrench sensor inside and viscous friction, with noise."""
    rng = np.random.default_rng(seed)
    pace, phase = np.array([2.9, 4.1, 3.3]), np.arange(3.0) + seed
    size, angle = np.array([0.9, 1.0, 0.15]), pace * TIME[:, None] + phase
    slow = 0.37 * angle
    q = 0.2 + size * (np.sin(angle) + 0.8 * np.sin(slow))
    v = size * pace * (np.cos(angle) + 0.8 * 0.37 * np.cos(slow))
    a = -size * pace**2 * (np.sin(angle) + 0.8 * 0.37**2 * np.sin(slow))
    cut = cut_wrenches(q, v, a)
    wrench = -cut["bolts"] + np.array([5.0, -3.0, 2.0, 0.4, 0.3, -0.2])
    wrench += rng.normal(size=wrench.shape) * np.repeat([0.3, 0.02], 3)
    tau = np.stack([cut[f"{n}.effort"] for n in NAMES], 1) + v * VISCOUS
    tau += rng.normal(size=tau.shape) * 0.1
    signals = {
        "q": dict(zip(NAMES, q.T, strict=True)),
        "tau": dict(zip(NAMES, tau.T, strict=True)),
        "force": {f"middle.{x}": w for x, w in zip("xyz", wrench[:, :3].T, strict=True)},
        "torque": {f"middle.{x}": w for x, w in zip("xyz", wrench[:, 3:].T, strict=True)},
    }
    return Recording.from_arrays(TIME, f"log {seed}", **{k: signals[k] for k in kinds})


def sensed(measured: bool = True, **said: Any) -> Robot:
    """Return the arm with simple friction, its sensor in the logs or not."""
    simple = dict.fromkeys(NAMES, JointOptions(friction="simple", armature=False))
    sensor = {"middle": replace(MIDDLE, measured=measured)}
    options: dict[str, Any] = {"joint": simple, "sensor": sensor, **said}
    return Robot.from_urdf_text(robots.SENSED_ARM, Options(**options))


def kept(found: Identification, folder: Path) -> Earlier:
    """Return what a folder of results tells a later experiment."""
    write(found, folder)
    earlier = Earlier.load(folder / "information.npz")
    assert isinstance(earlier, Earlier)
    return earlier


def seen(found: Identification) -> tuple[Array, Array]:
    """Return what the data alone say of the robot's standard columns: Kᵀ RᵀR K and Kᵀ Rᵀz."""
    triangle = found.information.combined(found.estimate.weights(worth=False))
    rows = triangle.R @ found.problem.base.matrix
    return rows.T @ rows, rows.T @ triangle.z


def assert_alike(one: Identification, two: Identification, share: float = 1e-9) -> None:
    """Assert that two identifications, perhaps on other base parameters, say the same."""
    names = two.problem.base.standard.names
    places = [one.problem.base.standard.names.index(n) for n in names]
    for a, b in zip(seen(one), seen(two), strict=True):
        a = a[np.ix_(places, places)] if a.ndim == 2 else a[places]
        scale = np.sqrt(np.diag(seen(two)[0])) + 1e-12 * np.abs(seen(two)[0]).max()
        whole = np.outer(scale, scale) if a.ndim == 2 else scale * np.abs(b / scale).max()
        assert np.abs((a - b) / whole).max() <= share
    noise = dict(zip(one.information.channels, one.estimate.noise.sigma, strict=True))
    for channel, sigma in zip(two.information.channels, two.estimate.noise.sigma, strict=True):
        assert noise[channel] == pytest.approx(sigma, rel=share)
    x, y = one.estimate.parameters, two.estimate.parameters
    if x.labels.names == y.labels.names:
        assert np.abs(x.values - y.values).max() <= share * np.abs(y.values).max()


def test_a_sensors_run_given_to_one_of_torques_is_both_at_once(tmp_path: Path) -> None:
    """In either order, although sensors alone tell other base parameters than torques do."""
    sensors, torques = sensed(equations="sensors"), sensed(measured=False)
    of_sensors, of_torques = sensed_log(1, ("q", "force", "torque")), sensed_log(1, ("q", "tau"))
    both = identify(sensed(), [sensed_log(1)], settings=SETTINGS)
    first = kept(identify(sensors, [of_sensors], settings=SETTINGS), tmp_path / "first")
    assert first.information.labels != both.information.labels
    later = identify(torques, [of_torques], settings=SETTINGS, given=first)
    assert len(later.problem.channels) == 3 and len(later.information.channels) == 9
    assert_alike(later, both)
    alone = identify(torques, [of_torques], settings=SETTINGS)
    assert len(alone.problem.base.kept) < len(later.problem.base.kept)
    other = kept(alone, tmp_path / "other")
    assert_alike(identify(sensors, [of_sensors], settings=SETTINGS, given=other), both)
    for after, at_once in zip(later.estimate.parameters.std, both.estimate.parameters.std,
                              strict=True):  # fmt: skip
        assert after == pytest.approx(at_once, rel=0.6)


def test_results_of_results_add_further(tmp_path: Path) -> None:
    """What was joined is joined again, with another log of both."""
    first = kept(
        identify(sensed(equations="sensors"), [sensed_log(1)], settings=SETTINGS), tmp_path / "one"
    )
    second = kept(
        identify(sensed(measured=False), [sensed_log(1)], settings=SETTINGS, given=first),
        tmp_path / "two",
    )
    third = identify(sensed(), [sensed_log(2)], settings=SETTINGS, given=second)
    assert_alike(third, identify(sensed(), [sensed_log(1), sensed_log(2)], settings=SETTINGS))


def test_bodies_that_a_sensor_parts_are_not_added_to_those_that_are_one(tmp_path: Path) -> None:
    plain = Robot.from_urdf_text(robots.SENSED_ARM, Options(joint=sensed().options.joint))
    first = kept(
        identify(sensed(equations="sensors"), [sensed_log(1)], settings=SETTINGS), tmp_path / "a"
    )
    with pytest.raises(UnlikeLabels, match="measured = false"):
        identify(plain, [sensed_log(1)], settings=SETTINGS, given=first)
    whole = kept(identify(plain, [sensed_log(1)], settings=SETTINGS), tmp_path / "b")
    with pytest.raises(UnlikeLabels, match="upper"):
        identify(sensed(), [sensed_log(1)], settings=SETTINGS, given=whole)


def test_another_robot_is_refused(tmp_path: Path) -> None:
    first = kept(
        identify(sensed(equations="sensors"), [sensed_log(1)], settings=SETTINGS), tmp_path / "a"
    )
    source = robots.SENSED_ARM.replace(b'xyz="0.25 0 0"', b'xyz="0.26 0 0"')
    robot = Robot.from_urdf_text(source, sensed(measured=False).options)
    with pytest.raises(UnlikeLabels, match="hand"):
        identify(robot, [sensed_log(1)], settings=SETTINGS, given=first)
