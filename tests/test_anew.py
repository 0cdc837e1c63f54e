"""Earlier results of a robot of which a part may have changed since."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heft.applications.identification import Identification, identify, report, write
from heft.applications.identification.results import to_json
from heft.errors import InvalidSetting
from heft.estimators import Noise
from heft.fit import Settings
from heft.fit.earlier import EARLIER, Earlier
from heft.information import Information
from tests.test_identification import FRICTION, STILL, arm_log, noisy, planar

pytestmark = pytest.mark.usefixtures("without_doctor")

Array = np.ndarray[Any, np.dtype[np.float64]]
SETTINGS = Settings(STILL, threads=1)
MORE = np.array([0.0, 0.5])  # offset by which the elbow has changed [N·m]
TASK = slice(1000, 2600)


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Earlier:
    folder = tmp_path_factory.mktemp("earlier") / "found"
    write(identify(planar(), [arm_log(noisy())], settings=SETTINGS), folder)
    found = Earlier.load(folder / "information.npz")
    assert isinstance(found, Earlier)
    return found


@cache
def task(seed: int = 3) -> Any:
    """Return a short log of the arm whose elbow has changed."""
    return arm_log(noisy(MORE, seed)).window(TASK.start, TASK.stop)


def errors(found: Identification, changed: bool) -> Array:
    """Return the errors of the base parameters in their stated deviations, shape (b,)."""
    problem = found.problem
    robot = problem.plant.robot
    drives = []
    for d, t in robot.drive_columns:
        name = robot.drives[d].name
        drives.append(FRICTION[t.kind] + (0.5 * changed * (t.kind == "offset" and name == "elbow")))
    true = problem.base.matrix @ np.concatenate([robot.written_bodies(), drives])
    parameters = found.estimate.parameters
    return np.asarray((parameters.values - true) / parameters.std)


def test_what_has_changed_is_found_and_all_else_is_known_from_before(earlier: Earlier) -> None:
    biased = identify(planar(), [task()], settings=SETTINGS, given=earlier)
    alone = identify(planar(), [task()], settings=SETTINGS)
    found = identify(planar(), [task()], settings=SETTINGS, given=earlier, anew=["elbow"])
    offset = biased.estimate.parameters["elbow.offset"]
    assert abs(offset - FRICTION["offset"] - MORE[1]) > 0.2
    assert np.sqrt(np.mean(errors(found, True) ** 2)) < 2.0
    names = found.estimate.parameters.labels.names
    std = dict(zip(names, (found.estimate.parameters.std / alone.estimate.parameters.std).tolist(),
                   strict=True))  # fmt: skip
    assert std["shoulder.offset"] < 0.7


def test_anew_of_everything_is_without_what_was_given(earlier: Earlier) -> None:
    every = ["shoulder", "elbow", "upper", "lower"]
    none = earlier.forgetting(every).information.triangles[0]
    assert np.abs(none.R).max() <= 1e-9 * max(np.abs(t.R).max() for t in
                                              earlier.information.triangles)  # fmt: skip
    found = identify(planar(), [task()], settings=SETTINGS, given=earlier, anew=every)
    alone = identify(planar(), [task()], settings=SETTINGS)
    gap = (found.estimate.fitted - alone.estimate.fitted) / alone.estimate.parameters.std
    assert np.abs(gap).max() < 0.05


def test_a_change_is_one_more_unknown_of_the_earlier_rows(earlier: Earlier) -> None:
    """What is left is the triangle of rows from which the changed columns were projected."""
    assert earlier.origin is not None
    labels = earlier.information.labels
    b = len(labels)
    rng = np.random.default_rng(5)
    Y, effort = rng.normal(size=(400, 2, b)), rng.normal(size=(400, 2))
    channels, sigma = earlier.information.channels, earlier.origin.sigma
    information = Information.from_rows(labels, channels, Y, effort)
    white = Earlier.like(information, Noise(sigma, np.ones(2), np.full(2, 400.0)))
    given = Earlier(information, white.coloured, white.common, white.moments, None, earlier.origin)
    found = given.forgetting(["elbow.viscous", "lower"])
    assert found.origin is not None and found.information.channels == (EARLIER,)
    rows = (Y / sigma[:, None]).reshape(-1, b)
    names = earlier.origin.names
    columns = [k for k, n in enumerate(names) if n.startswith("lower.") or n == "elbow.viscous"]
    assert len(columns) == 11
    U, s, _ = np.linalg.svd(rows @ earlier.origin.matrix[:, columns], full_matrices=False)
    U = U[:, s > 1e-9 * s[0]]
    left = rows - U @ (U.T @ rows)
    R = found.information.triangles[0].R / found.origin.sigma[0]
    assert np.abs(R.T @ R - left.T @ left).max() <= 1e-9 * np.abs(rows.T @ rows).max()
    tau = (effort / sigma).ravel()
    right = R.T @ found.information.triangles[0].z / found.origin.sigma[0]
    assert np.abs(right - left.T @ tau).max() <= 1e-9 * np.abs(rows.T @ tau).max()
    # White noise stays white, of the deviation that is kept.
    S = found.coloured[0] / found.origin.sigma[0] ** 2
    assert np.abs(S.T @ S - left.T @ left).max() <= 1e-9 * np.abs(rows.T @ rows).max()


def test_friction_is_that_of_all_joints_but_rotor_inertia(earlier: Earlier) -> None:
    left = earlier.forgetting(["friction"]).information.triangles[0].R
    names = earlier.information.labels.names
    told = np.linalg.norm(left, axis=0) / max(np.linalg.norm(left, axis=0))
    for name, length in zip(names, told.tolist(), strict=True):
        friction = name.rpartition(".")[2] in ("viscous", "coulomb", "offset")
        assert (length < 1e-9) == friction, name


def test_reports_say_what_is_anew_and_later_runs_take_it_up(
    earlier: Earlier, tmp_path: Path
) -> None:
    found = identify(planar(), [task()], settings=SETTINGS, given=earlier, anew=["elbow"])
    anew = {e["expression"] for e in to_json(found)["base_parameters"] if e["anew"]}
    assert {"elbow.viscous", "elbow.offset"} <= anew and "shoulder.offset" not in anew
    assert to_json(found)["settings"]["anew"] == ["elbow"]
    assert "Estimated anew, whatever the results given say: elbow" in report.text(found)
    assert ", anew" in report.html(found)
    write(found, tmp_path / "task")
    joined = Earlier.load(tmp_path / "task" / "information.npz")
    assert isinstance(joined, Earlier) and joined.information.channels[-1] == EARLIER
    later = identify(planar(), [task(4)], settings=SETTINGS, given=joined)
    assert np.sqrt(np.mean(errors(later, True) ** 2)) < 2.0


@pytest.mark.parametrize(
    ("anew", "given", "message"),
    [(["elbw"], True, "elbow"), (["elbow"], False, "--given")],
)
def test_what_cannot_be_anew_is_refused(
    anew: list[str], given: bool, message: str, earlier: Earlier
) -> None:
    with pytest.raises(InvalidSetting, match=message):
        identify(planar(), [task()], settings=SETTINGS, given=earlier if given else None, anew=anew)
