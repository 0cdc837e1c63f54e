"""Earlier results that tell other base parameters, or were made of other channels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heft.applications.identification import Identification, compare, identify, write
from heft.errors import InvalidRecording, UnlikeLabels
from heft.estimators import LeastSquares, VarianceComponents
from heft.fit import Settings
from heft.fit.earlier import Earlier
from heft.fit.steady import STEADY
from heft.models import JointOptions, Options, Robot, SensorOptions
from heft.plants import FloatingRobotPlant, Problem, plant_of, structural_base
from heft.recordings import Recording
from heft.signals import Smoothing
from tests import robots
from tests.plants import case, cut_wrenches

pytestmark = pytest.mark.usefixtures("without_doctor")

Array = np.ndarray[Any, np.dtype[np.float64]]
TIME = 0.01 * np.arange(1500)
SETTINGS = Settings(smoothing=Smoothing(corner=12.0, delay=0.0), threads=1)
NAMES = ("turn", "bend", "slide")
MIDDLE = SensorOptions("beyond", reports="on_sensor")
VISCOUS = np.array([1.5, 0.8, 2.0])


def sensed_log(
    seed: int,
    kinds: tuple[str, ...] = ("q", "tau", "force", "torque"),
    viscous: Array = VISCOUS,
) -> Recording:
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
    tau = np.stack([cut[f"{n}.effort"] for n in NAMES], 1) + v * viscous
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


def wide(arrays: dict[str, Any], size: int) -> dict[str, Any]:
    """Return a file's arrays as earlier versions wrote them: noise on all columns."""
    made = {name: a for name, a in arrays.items() if "_columns_" not in name}
    for name, columns in arrays.items():
        if "_columns_" in name:
            own = name.replace("_columns_", "_")
            made[own] = np.zeros((len(arrays[own]), size))
            made[own][:, columns] = arrays[own]
    return made


def test_noise_is_read_as_earlier_versions_wrote_it(tmp_path: Path) -> None:
    found = identify(sensed(measured=False), [sensed_log(4)], settings=SETTINGS)
    earlier, size = kept(found, tmp_path / "new"), len(found.information.labels)
    with np.load(tmp_path / "new" / "information.npz") as data:
        arrays = {n: a for n, a in data.items() if not n.startswith(STEADY)}  # of later ones
    assert any(0 < a.shape[1] < size for n, a in arrays.items() if n.startswith("noise_")
               and "columns" not in n)  # fmt: skip
    np.savez(tmp_path / "old.npz", **wide(arrays, size))
    old = Earlier.load(tmp_path / "old.npz")
    assert isinstance(old, Earlier)
    for kind in ("coloured", "common", "moments"):
        for one, two in zip(getattr(old, kind), getattr(earlier, kind), strict=True):
            assert np.array_equal(one, two)
            assert one.shape[1] == size


@pytest.mark.parametrize("spoilt", ["beyond", "twice", "fewer", "below"])
def test_columns_of_noise_that_cannot_be_are_refused(spoilt: str, tmp_path: Path) -> None:
    found = identify(sensed(measured=False), [sensed_log(4)], settings=SETTINGS)
    kept(found, tmp_path / "found")
    with np.load(tmp_path / "found" / "information.npz") as data:
        arrays = dict(data)
    columns = arrays["noise_columns_0"].copy()
    if spoilt == "fewer":
        columns = columns[:-1]
    else:
        columns[-1 if spoilt == "beyond" else 0] = {
            "beyond": len(found.information.labels), "twice": columns[1], "below": -1
        }[spoilt]  # fmt: skip
    np.savez(tmp_path / "bad.npz", **{**arrays, "noise_columns_0": columns})
    with pytest.raises(InvalidRecording, match="not a file of information"):
        Earlier.load(tmp_path / "bad.npz")


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


def test_what_joined_results_tell_of_fewer_base_parameters(tmp_path: Path) -> None:
    """For a design: all that these do not hold is eliminated, however the rest is parametrised."""
    first = kept(
        identify(sensed(equations="sensors"), [sensed_log(1)], settings=SETTINGS), tmp_path / "one"
    )
    torques = sensed(measured=False)
    found = identify(torques, [sensed_log(1)], settings=SETTINGS, given=first)
    joined = kept(found, tmp_path / "two")
    base = structural_base(plant_of(torques))
    assert joined.origin is not None and base.rank < len(joined.information.labels)
    assert joined.origin.names == base.standard.names
    got = joined.about(base)
    assert got.labels == base.labels
    noise = joined.noise
    worth = 1.0 / (noise.sigma * np.sqrt(noise.autocorrelation_time))
    whole = joined.information.combined(dict(zip(joined.information.channels, worth, strict=True)))
    rows = whole.R @ joined.origin.matrix
    none = np.linalg.svd(base.matrix)[2][base.rank :].T
    A, B = rows @ np.linalg.pinv(base.matrix), rows @ none
    U, s, _ = np.linalg.svd(B, full_matrices=False)
    U = U[:, s > 1e-9 * s[0]]
    assert U.shape[1] == len(joined.information.labels) - base.rank
    left = A - U @ (U.T @ A)
    R = got.triangles[0].R
    assert np.abs(R.T @ R - left.T @ left).max() <= 1e-9 * np.abs(left.T @ left).max()
    alone = identify(torques, [sensed_log(1)], settings=SETTINGS)
    spread = [np.linalg.inv(x.T @ x).diagonal() for x in (R, alone.information.combined(
        alone.estimate.weights()).R)]  # fmt: skip
    assert np.median(spread[0] / spread[1]) < 0.7


@pytest.mark.parametrize("later", ["joined", "torques alone"])
def test_joined_results_are_compared(later: str, tmp_path: Path) -> None:
    """With others that were joined alike, and with those of a plain run of the same options."""
    torques = sensed(measured=False)

    def run(name: str, seed: int, viscous: Array, joined: bool = True) -> Path:
        first = None
        if joined:
            alone = identify(sensed(equations="sensors"), [sensed_log(seed)], settings=SETTINGS)
            first = kept(alone, tmp_path / f"{name}-sensors")
        log = sensed_log(seed, ("q", "tau"), viscous)
        write(identify(torques, [log], settings=SETTINGS, given=first), tmp_path / name)
        return tmp_path / name

    rubbing = VISCOUS * [1.0, 1.1, 1.0]
    before, joined = run("before", 1, VISCOUS), later == "joined"
    same, other = run("same", 2, VISCOUS, joined), run("other", 2, rubbing, joined)
    assert not [c for c in compare(before, same).changes if c.clear]
    for found, sign in ((compare(before, other), 1.0), (compare(other, before), -1.0)):
        (change,) = (c for c in found.changes if c.clear)
        assert (change.name, change.quantity) == ("bend", "viscous")
        assert change.difference[0] == pytest.approx(sign * 0.08, abs=4.0 * change.difference[1])


# ---- a limb first

EQUAL = replace(
    SETTINGS,
    rows="differentiated",
    least_squares=LeastSquares(weighting="none", coloured=False),
    variance_components=VarianceComponents(rounds=0),
)
UNKNOWN = "floating robot, a contact unknown"


def walking(day: float) -> dict[str, dict[str, Array]]:
    """Return signals of a floating robot with a contact of unknown wrench, with noise."""
    signals, _ = case(UNKNOWN).experiment(TIME + day)
    rng = np.random.default_rng(round(10 * day))
    for kind, size in (("tau", 0.05), ("force", 0.2), ("torque", 0.05)):
        for name, x in signals[kind].items():
            signals[kind][name] = x + size * rng.normal(size=len(TIME))
    return signals


def rows_of(robot: Robot, log: Recording) -> tuple[Array, Array, tuple[str, ...]]:
    """Return rows on a robot's standard columns, their right-hand side, and the columns' names."""
    problem = Problem(plant_of(robot, log), (log,), SETTINGS.smoothing).thinned()
    made = list(problem.walk.equations(range(len(problem.plant.labels))))
    Y = np.concatenate([r.regressor.reshape(-1, r.regressor.shape[2]) for r in made])
    return Y, np.concatenate([r.effort.ravel() for r in made]), problem.plant.labels.names


def assert_both(found: Identification, parts: list[tuple[Array, Array, tuple[str, ...]]]) -> None:
    """Assert that what was found is least squares of all rows together, each weighted as one."""
    base = found.problem.base
    names = base.standard.names
    stacked, right = [], []
    for Y, tau, own in parts:
        wide = np.zeros((len(Y), len(names)))
        wide[:, [names.index(n) for n in own if n in names]] = Y[:, [n in names for n in own]]
        stacked.append(wide @ np.linalg.pinv(base.matrix))
        assert np.abs(stacked[-1] @ base.matrix - wide).max() <= 1e-9 * np.abs(wide).max()
        right.append(tau)
    wanted = np.linalg.lstsq(np.vstack(stacked), np.concatenate(right))[0]
    off = np.abs(found.estimate.fitted - wanted).max()
    assert off <= 1e-9 * np.abs(wanted).max()


@pytest.mark.parametrize("stage", ["held still", "without torque", "bolted to the floor"])
def test_a_limb_first_and_then_the_rest_is_both_at_once(stage: str, tmp_path: Path) -> None:
    """The limb alone tells fewer base parameters, of fewer channels, of the same bodies."""
    plant = case(UNKNOWN).plant
    assert isinstance(plant, FloatingRobotPlant)
    whole = plant.robot
    none = JointOptions(friction="none", armature=False)
    if stage == "bolted to the floor":
        q = 0.9 * np.sin(np.outer(TIME, [3.1, 2.3]) + np.array([0.3, 1.2]))
        tau = np.random.default_rng(0).normal(size=q.shape)  # whatever it is, it adds
        names = ("hip", "knee")
        signals = {k: dict(zip(names, x.T, strict=True)) for k, x in (("q", q), ("tau", tau))}
        limb = Robot.from_urdf_text(robots.WALKER, Options(joint=dict.fromkeys(names, none)))
    else:
        signals = walking(0.0)
        said = {"position": 0.4} if stage == "held still" else {"measured": False}
        limb = whole.with_joints({"knee": replace(none, **said), "hip": none})  # type: ignore[arg-type]
        if stage == "held still":  # so that the log fits nothing, and says something nevertheless
            del signals["q"]["knee"]
    del signals["tau"]["knee" if stage != "bolted to the floor" else "hip"]
    if stage == "bolted to the floor":
        limb = limb.with_joints({"hip": replace(none, measured=False), "knee": none})
    log, other = (Recording.from_arrays(TIME, n, **s)
                  for n, s in (("limb", signals), ("rest", walking(30.0))))  # fmt: skip
    loose = replace(EQUAL, limits=replace(EQUAL.limits, unexplained=10.0))
    first = kept(identify(limb, [log], settings=loose), tmp_path / "first")
    found = identify(whole, [other], settings=loose, given=first)
    assert len(first.information.channels) < len(found.problem.channels)
    if stage != "without torque":  # with which the base sees all that there is
        assert len(first.information.labels) < len(found.problem.base.kept)
    assert found.problem.base.kept == structural_base(found.problem.plant).kept
    assert_both(found, [rows_of(limb, log), rows_of(whole, other)])
