"""What changed between two identifications: found where it did, and rarely where it did not."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from heft.applications.identification import compare_report, results
from heft.applications.identification.comparison import ALARM, Side, compare
from heft.applications.identification.contract import percent
from heft.applications.identification.identification import identify
from heft.cli import main
from heft.errors import InputError, InvalidSetting
from heft.files.opened import file_hash
from heft.models.export import write_urdf
from heft.models.options import Options
from heft.models.robot import Robot
from tests.browser import browser, opened
from tests.experiments import ARMS, Truth, log, simple_options, true_robot, wrong_prior

ARM = "two joints"
PAIRS = 5
MOTION = 3  # seed of a motion that is repeated, so that friction is compared


class Lab:
    """A two-joint robot, its logs before and after a change, and folders of results."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rng = np.random.default_rng(20)
        self.truth = true_robot(ARMS[ARM], self.rng, "simple")
        self.model = wrong_prior(self.truth.robot, self.rng)
        self.other_model = wrong_prior(self.truth.robot, self.rng)

    def run(
        self,
        name: str,
        truth: Truth | None = None,
        model: bytes | None = None,
        motion: int | None = None,
    ) -> Path:
        """Identify the robot, or a changed one, from a new log; return the folder."""
        robot = Robot.from_urdf_text(model or self.model, self.truth.robot.options)
        rng = np.random.default_rng([20, *name.encode()])  # whatever ran before
        recording = log(truth or self.truth, 10.0, 100.0, rng, motion=motion)
        results.write(identify(robot, [recording]), self.folder / name)
        return self.folder / name


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Return the robot and its logs."""
    return Lab(tmp_path_factory.mktemp("lab"))


@pytest.fixture(scope="module")
def before(lab: Lab) -> Path:
    """Return the robot identified."""
    return lab.run("before", motion=MOTION)


@pytest.fixture(scope="module")
def rubbing(lab: Lab) -> Path:
    """Return the robot identified again, with 10 % more Coulomb friction in its last joint."""
    return lab.run("rubbing", rubbing_more(lab.truth), motion=MOTION)


@pytest.fixture(scope="module")
def heavy(lab: Lab) -> Path:
    """Return the robot identified again, with a last link that is a tenth heavier."""
    return lab.run("heavier", heavier(lab.truth))


def rubbing_more(truth: Truth) -> Truth:
    """Return the robot with 10 % more Coulomb friction in its last joint."""
    joint = truth.robot.joints[-1]
    name = f"{joint}.coulomb"
    return replace(truth, drives={**truth.drives, name: 1.1 * truth.drives[name]})


def heavier(truth: Truth) -> Truth:
    """Return the robot with a last link that is a tenth heavier."""
    link = truth.robot.bodies_links[-1]
    source = write_urdf(truth.robot.source, {link.name: 1.1 * link.nominal}, {})
    return replace(truth, robot=Robot.from_urdf_text(source, truth.robot.options))


def test_more_friction_is_found_in_its_joint_and_nowhere_else(
    lab: Lab, before: Path, rubbing: Path
) -> None:
    found = compare(before, rubbing)
    joint = lab.truth.robot.joints[-1]
    (change,) = [c for c in found.changes if c.clear]
    assert (change.kind, change.name, change.quantity) == ("friction", joint, "coulomb")
    true = 0.1 * lab.truth.drives[f"{joint}.coulomb"]
    assert abs(change.difference[0] - true) < 4.0 * change.difference[1]
    assert found.suspects == ()


def test_another_zero_of_a_torque_sensor_is_no_change(lab: Lab, before: Path) -> None:
    shifted = {n: v + 0.5 for n, v in lab.truth.drives.items() if n.endswith(".offset")}
    assert shifted
    zeroed = replace(lab.truth, drives={**lab.truth.drives, **shifted})
    found = compare(before, lab.run("zeroed", zeroed, motion=MOTION))
    assert found.of("friction") and not [c for c in found.changes if c.clear]


def test_results_of_an_earlier_heft_say_what_they_lack(
    before: Path, rubbing: Path, tmp_path: Path
) -> None:
    shutil.copytree(before, tmp_path / "old")
    path = tmp_path / "old" / "information.npz"
    with np.load(path) as data:
        kept = {k: data[k] for k in data.files if "cell" not in k}
    np.savez(path, **kept)
    (note,) = [n for n in compare(before, tmp_path / "old").notes if "earlier heft" in n]
    assert note.startswith(str(tmp_path / "old"))
    assert not [n for n in compare(before, rubbing).notes if "earlier" in n]


def test_a_heavier_link_is_found_and_named(lab: Lab, before: Path, heavy: Path) -> None:
    found = compare(before, heavy)
    (change,) = [c for c in found.changes if c.clear]
    link = lab.truth.robot.bodies_links[-1]
    name, share = found.suspects[0]
    assert change.kind == "body" and name == link.name and share > 0.9
    assert name in compare_report.text(found)


@pytest.mark.usefixtures("without_doctor")
def test_where_nothing_changed_alarms_are_as_rare_as_the_rule_says(lab: Lab) -> None:
    folders = [lab.run(f"same{k}") for k in range(2 * PAIRS)]
    pairs = zip(folders[::2], folders[1::2], strict=True)
    alarms = sum(any(c.clear for c in compare(a, b).changes) for a, b in pairs)
    assert alarms <= scipy.stats.binom.ppf(0.9999, PAIRS, ALARM)


def test_another_prior_makes_no_change(lab: Lab, before: Path) -> None:
    found = compare(before, lab.run("prior", model=lab.other_model))
    assert not [c for c in found.changes if c.clear]


def test_a_folder_is_as_it_is(before: Path) -> None:
    found = compare(before, before)
    assert found.changes and not any(c.clear for c in found.changes)
    seen = [c.difference for c in found.changes if np.isfinite(c.difference[1])]
    assert seen and all(abs(value) < 1e-6 * std for value, std in seen)
    assert "no significant change" in compare_report.text(found)


def test_torque_errors_are_told_of_both_where_they_differ(before: Path, rubbing: Path) -> None:
    assert compare(before, before).errors == ()
    found = compare(before, rubbing)
    stated = [
        json.loads((folder / "estimate.json").read_text("utf-8"))["torque_errors"]
        for folder in (before, rubbing)
    ]
    for text in (compare_report.text(found), compare_report.html(found)):
        for entry, side in zip(stated, ("before", "after"), strict=True):
            assert f"{side}: torque error on {Path(entry['path']).name}" in text
            assert f"{percent(entry['fitted_drives']['total'])} with its masses" in text


def test_unlike_gains_are_told(before: Path, tmp_path: Path) -> None:
    folders = []
    for name, gain in (("a", 11.0), ("b", 11.0), ("c", 12.0)):
        shutil.copytree(before, tmp_path / name)
        path = tmp_path / name / "estimate.json"
        entry = json.loads(path.read_text("utf-8"))
        joint = next(iter(entry["joints"]))
        entry["joints"][joint]["gain"] = gain
        path.write_text(json.dumps(entry), encoding="utf-8")
        folders.append(tmp_path / name)
    first, same, other = folders
    assert "torque per current" not in compare_report.text(compare(first, same))
    told = compare_report.text(compare(first, other))
    assert f"[N·m/A]: {joint} 11 before and 12 after; friction" in told


def test_what_failed_is_told_by_its_name(before: Path, tmp_path: Path) -> None:
    for name, status in (("warned", "warn"), ("failed", "fail")):
        shutil.copytree(before, tmp_path / name)
        path = tmp_path / name / "estimate.json"
        estimate = json.loads(path.read_text("utf-8"))
        estimate["checks"].append({**estimate["checks"][0], "name": "a fault", "status": status})
        path.write_text(json.dumps(estimate), "utf-8")
    (note,) = [n for n in compare(before, tmp_path / "failed").notes if "verdict is poor" in n]
    assert note.startswith(f"{tmp_path / 'failed'}: its verdict is poor (a fault)")
    assert not [n for n in compare(before, tmp_path / "warned").notes if "verdict is poor" in n]


def test_forwards_and_backwards_are_the_same_change(before: Path, rubbing: Path) -> None:
    there, back = compare(before, rubbing).changes, compare(rubbing, before).changes
    for one, other in zip(there, back, strict=True):
        assert one.difference[0] == pytest.approx(-other.difference[0], nan_ok=True)
        assert one.probability == pytest.approx(other.probability)
        assert (one.before, one.after) == (other.after, other.before) != (None, None)


def test_the_least_change_that_is_found_is_told(before: Path, rubbing: Path) -> None:
    found = compare(before, rubbing)
    friction = found.of("friction")
    assert len({c.clear for c in friction}) == 2
    assert all((abs(c.difference[0]) > c.least) == c.clear for c in friction)
    assert all(c.least == np.inf for c in found.of("body"))
    (clear,) = (c for c in friction if c.clear)
    assert clear.before is not None
    assert f"{clear.least:.2g}, {percent(clear.least / clear.before)}" in compare_report.text(found)


def test_two_changes_are_found_one_by_one(lab: Lab, before: Path) -> None:
    found = compare(before, lab.run("both", heavier(rubbing_more(lab.truth)), motion=MOTION))
    clear = [c for c in found.changes if c.clear]
    assert {c.kind for c in clear} == {"friction", "body"}
    assert {c.name for c in clear if c.kind == "friction"} == {lab.truth.robot.joints[-1]}


def at_other_speeds(folder: Path, joints: Sequence[str]) -> Path:
    """Return a copy of results whose logs are said to have slid ten times as fast in joints."""
    copy = shutil.copytree(folder, folder.parent / f"{folder.name}-{'-'.join(joints)}-faster")
    data = json.loads((copy / "estimate.json").read_text())
    for joint in joints:
        sliding = data["joints"][joint]["misfit"]["sliding"]
        sliding["speed"] = [10.0 * v for v in sliding["speed"]]
    (copy / "estimate.json").write_text(json.dumps(data))
    return copy


def test_friction_is_claimed_only_of_like_speeds(lab: Lab, before: Path, rubbing: Path) -> None:
    assert compare(before, rubbing).withheld == ()
    found = compare(before, at_other_speeds(rubbing, lab.truth.robot.joints))
    assert found.withheld == lab.truth.robot.joints
    assert not found.of("friction") and not found.curves
    assert not [c for c in found.changes if c.clear]  # nor does a body take its place
    told = compare_report.text(found)
    for name in found.withheld:
        assert f"{name} {found.likeness[name]:.0%}" in told
    assert "friction not compared in joint1, joint2" in told.splitlines()[0]


def test_a_heavier_link_is_found_whatever_the_speeds(lab: Lab, before: Path, heavy: Path) -> None:
    (change,) = [
        c
        for c in compare(before, at_other_speeds(heavy, lab.truth.robot.joints)).changes
        if c.clear
    ]
    assert change.kind == "body"


def other_robot(lab: Lab) -> Path:
    path = ARMS["six joints"]
    rng = np.random.default_rng(0)
    truth = true_robot(path, rng, "simple")
    robot = Robot.from_urdf(path, simple_options(path))
    results.write(identify(robot, [log(truth, 6.0, 100.0, rng)]), lab.folder / "other")
    return lab.folder / "other"


def other_friction(lab: Lab) -> Path:
    robot = Robot.from_urdf_text(lab.model, Options())
    recording = log(lab.truth, 10.0, 200.0, lab.rng)
    results.write(identify(robot, [recording]), lab.folder / "dictionary")
    return lab.folder / "dictionary"


@pytest.mark.parametrize(
    ("make", "reason"),
    [(other_robot, "joints"), (other_friction, "friction and drives")],
)
def test_different_robots_are_refused_with_the_reason(
    lab: Lab, before: Path, make: Callable[[Lab], Path], reason: str
) -> None:
    with pytest.raises(InvalidSetting, match="different robots") as error:
        compare(before, make(lab))
    assert reason in str(error.value.got)


def test_results_that_stand_on_the_other_are_refused(
    lab: Lab, before: Path, tmp_path: Path
) -> None:
    after = shutil.copytree(before, tmp_path / "after")
    path = after / "estimate.json"
    data = json.loads(path.read_text())
    entry = {
        "path": "before/information.npz",
        "role": "given",
        "sha256": file_hash(before / "information.npz"),
    }
    path.write_text(json.dumps({**data, "inputs": [*data["inputs"], entry]}))
    with pytest.raises(InvalidSetting, match="other's information"):
        compare(before, after)


def spoilt(folder: Path, change: Callable[[Path], object]) -> Path:
    copy = shutil.copytree(folder, folder.parent / f"{folder.name}-spoilt", dirs_exist_ok=True)
    change(copy)
    return copy


def without_base(folder: Path) -> None:
    path = folder / "information.npz"
    with np.load(path) as data:
        kept = {k: data[k] for k in data.files if not k.startswith("base_matrix")}
    np.savez(path, **kept)


@pytest.mark.parametrize(
    "change",
    [
        without_base,
        lambda f: (f / "information.npz").unlink(),
        lambda f: (f / "information.npz").write_bytes(b"PK"),
        lambda f: (f / "estimate.json").write_text("{"),
    ],
)
def test_what_is_no_whole_folder_of_results_is_refused(
    before: Path, change: Callable[[Path], object]
) -> None:
    copy = spoilt(before, change)
    with pytest.raises(InputError) as error:
        Side.load(copy)
    assert copy.name in error.value.explain()
    shutil.rmtree(copy)


@pytest.fixture(scope="module")
def chromium() -> Iterator[object]:
    """Return a browser."""
    with browser() as running:
        yield running


@pytest.mark.parametrize("width", [1200, 360])
def test_a_browser_draws_the_comparison(
    before: Path,
    rubbing: Path,
    tmp_path: Path,
    chromium: object,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    width: int,
) -> None:
    out = tmp_path / "changes.html"
    call = ["heft", "compare", str(before), str(rubbing), "--out", str(out)]
    monkeypatch.setattr(sys, "argv", call)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert "friction changed in joint2" in capsys.readouterr().out
    with opened(chromium, out.as_uri(), width) as seen:
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
        assert seen.page.locator("figure canvas").count() == 4
        assert seen.page.locator("tr.changed").count() == 1
        assert seen.page.locator("tr.changed").is_visible()
        rows = seen.page.locator("tbody tr:not(figure tr)")
        assert [k for k in range(rows.count()) if rows.nth(k).is_visible()] == [0]
        seen.page.evaluate(
            "document.querySelectorAll('details').forEach((d) => { d.open = true; })"
        )
        assert rows.nth(1).is_visible()
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
        assert seen.page.evaluate("[...document.querySelectorAll('canvas')].every((c) => c.width)")
        assert seen.said + seen.warned == [] and seen.asked == [out.as_uri()]


def test_a_page_is_called_like_one(
    before: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["heft", "compare", str(before), str(before), "--out", "changes.pdf"]
    monkeypatch.setattr(sys, "argv", call)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2 and "changes.pdf" in capsys.readouterr().err
