"""`heft coop init`, `check` and `identify`: from two arms' bags to numbers, as a user types it."""

from __future__ import annotations

import json
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from heft.applications.cooperation import (
    TeamFound,
    check_team_files,
    draft_team,
    identify_team_files,
)
from heft.applications.cooperation.clocks import lateness
from heft.cli import main
from heft.errors import InvalidRecording, InvalidSetting
from tests.team_bags import MASS, Pair, Record, record

PAIR = Pair.of(1)
SHORT = Record(duration=8.0)  # whose wrenches are too few to tell delays, too: far fewer fits


def drafted(folder: Path, how: Record, **model: str) -> Path:
    """Record the pair, and draft its team."""
    bags = record(PAIR, how, folder, 1)
    draft_team(bags, folder / "team.toml", [folder / "ur5e.urdf"])
    return folder / "team.toml"


def finds_the_load(found: TeamFound, frame: str = "tool0") -> None:
    load = found.load(0)
    centre, _, between = PAIR.truth(frame)
    assert found.verdict == "good" and load is not None and load.std is not None
    assert abs(load.mass - MASS) < 4.0 * load.std[0] < 0.05
    assert np.all(np.abs(load.com - centre) < 4.0 * load.std[1:4])
    assert abs(np.linalg.norm(found.poses()[1, 0][1]) - between) < 1e-3


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_one_bag_of_two_arms_is_two_robots_by_their_namespaces(
    storage: str, tmp_path: Path
) -> None:
    how = Record(duration=12.0, one_bag=True, storage=storage)
    table = tomllib.loads(drafted(tmp_path, how).read_text())
    assert [r["topics"] for r in table["robot"]] == [
        [f"/{name}/joint_states", f"/{name}/wrench"] for name in ("left", "right")
    ]
    assert check_team_files(tmp_path).spoilt is False
    finds_the_load(identify_team_files(tmp_path))


def test_bags_that_begin_apart_with_a_wrench_in_another_links_frame(tmp_path: Path) -> None:
    team = drafted(tmp_path, Record(duration=16.0, late=3.7, frame="ft_sensor"))
    text = team.read_text()
    assert text.count('link = "ft_sensor"\n') == 2 and "12.29 s together" in text
    assert "3.7013 to 19.6933 s" in text and "CHECK:" not in text
    finds_the_load(identify_team_files(team), "ft_sensor")


def test_a_wrench_that_begins_later_and_pauses_leaves_holes(tmp_path: Path) -> None:
    silent = ((0.0, 0.1), (5.0, 5.7), (11.8, 12.0))
    finds_the_load(identify_team_files(drafted(tmp_path, Record(12.0, silent=silent))))


@pytest.mark.parametrize("sign", ["both", "right"])
def test_opposite_wrenches_are_told_by_physics_with_what_cures_them(
    sign: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    team = drafted(tmp_path, replace(SHORT, sign=-1.0 if sign == "both" else 1.0))
    first, right = team.read_text().split('name = "right"')
    if sign == "right":  # its sensor is taken for one that reads the opposite
        team.write_text(f'{first}name = "right"\nreaction = true{right}')
    call = ["heft", "coop", "check", str(team), "--json", str(tmp_path / "found.json")]
    monkeypatch.setattr(sys, "argv", call)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    (told,) = (
        f
        for f in json.loads((tmp_path / "found.json").read_text())["findings"]
        if f["severity"] == "spoils"
    )
    names = ("left", "right") if sign == "both" else ("right",)
    cure = "true" if sign == "both" else "false"
    assert told["name"] == "opposite wrench" and told["about"] == ", ".join(names)
    assert told["cure"].count(f"reaction = {cure}") == len(names)
    assert "✗ opposite wrench" in capsys.readouterr().out
    if sign == "both":
        team.write_text(team.read_text().replace("# reaction", "reaction"))
    else:
        team.write_text(first + 'name = "right"' + right)
    finds_the_load(identify_team_files(team))


@pytest.mark.parametrize("axes", ['"-y", "x", "z"', '"y", "x", "-z"', '"z", "y", "x"'])
def test_a_wrench_sensor_in_other_axes_is_named_with_the_line_that_cures_it(
    axes: str, tmp_path: Path
) -> None:
    """Turned, upside down, and left-handed: motion tells poses, and one load tells the axes."""
    team = drafted(tmp_path, SHORT)
    text = team.read_text()
    team.write_text(text.replace('name = "right"', f'name = "right"\naxes = [{axes}]'))
    found = identify_team_files(team, tmp_path / "out")
    (told,) = (f for f in found.findings() if f.severity == "spoils")
    assert told.name == "other axes" and told.about == "right" and "of 3.0" in told.message
    assert told.cure == 'in the [[robot]] of right: axes = ["x", "y", "z"]'
    assert found.verdict == "poor" and found.stated_load(0) is None and not found.changes


@pytest.mark.parametrize(
    ("how", "late"),
    [
        (Record(12.0, jitter=1e-3), None),
        (Record(12.0, reception=5e-3), 0.283 * 5e-3),  # the deviation of a uniform variable's cube
        # bursts longer than a step
        (Record(8.0, 250.0, reception=5e-3), 0.283 * 5e-3),
        (Record(6.0, 500.0, reception=5e-3), 0.283 * 5e-3),
    ],
)
def test_stamps_of_reception_are_told_from_true_ones_that_jitter_and_numbers_hold(
    how: Record, late: float | None, tmp_path: Path
) -> None:
    found = identify_team_files(drafted(tmp_path, how))
    told = [f for f in found.findings() if f.name == "stamps of reception"]
    assert [f.about for f in told] == (["left", "right"] if late else [])
    for finding in told:
        assert finding.evidence["late_s"] == pytest.approx(late, rel=0.15)
        assert finding.evidence["noise_N"] == pytest.approx(0.2, rel=0.1)
        assert "N of noise" in finding.message and finding.severity == "tells"
    finds_the_load(found)


@pytest.mark.parametrize("kept", [1.0, 0.998, 0.95, 0.5])
def test_samples_that_are_lost_are_not_late(kept: float) -> None:
    rng = np.random.default_rng(2)
    time = np.flatnonzero(rng.uniform(size=7500) < kept) / 125.0
    assert lateness(time) == 0.0
    if kept > 0.99:
        waits = np.maximum.accumulate(time + rng.exponential(1e-3, len(time)))
        assert lateness(waits) == pytest.approx(1e-3, rel=0.15)


def test_axes_that_are_none_are_refused(tmp_path: Path) -> None:
    team = drafted(tmp_path, Record(duration=0.2))
    for axes, says in ('"x", "-x", "z"', "along one of"), ('"x", "y", "w"', "an axis"):
        team.write_text(f'[[robot]]\nname = "a"\naxes = [{axes}]')
        with pytest.raises(InvalidSetting, match=says):
            check_team_files(team)


def test_what_a_team_is_refused_for_is_found_before_all_of_it(tmp_path: Path) -> None:
    bags = record(PAIR, Record(duration=4.0, late=30.0), tmp_path, 1)
    team = tmp_path / "team.toml"
    draft_team(bags, team)
    assert "no time in common" in team.read_text()
    found = check_team_files(team)
    assert [f.about for f in found.findings if f.name == "refused"] == ["left", "right"]
    assert all("FILL-IN.urdf" in f.message for f in found.findings[:2])
    team.write_text(team.read_text().replace("FILL-IN", "ur5e"))
    (told,) = (f for f in check_team_files(team).findings if f.severity == "spoils")
    assert "hardly any time in common" in told.message and told.cure


def test_a_frozen_wrench_an_untared_one_and_a_hole_are_told(tmp_path: Path) -> None:
    offsets = (np.array([2.0, -1.0, 2.0, 0.05, 0.0, 0.0]), np.zeros(6))
    team = drafted(tmp_path, Record(duration=16.0, offsets=offsets, holes=((8.0, 9.5),)))
    found = {f.name: f for f in check_team_files(team).findings}
    assert found["offsets of wrenches"].severity == "warns"
    assert (
        found["gaps"].about == "right, t" and abs(found["gaps"].evidence["longest_s"] - 1.5) < 0.1
    )
    finds_the_load(identify_team_files(team))


def test_a_draft_is_refused_where_it_could_not_be_filled_in(tmp_path: Path) -> None:
    left, right = record(PAIR, Record(duration=0.2), tmp_path, 1)
    out, model = tmp_path / "team.toml", tmp_path / "ur5e.urdf"
    with pytest.raises(InvalidSetting, match="two robots at least"):
        draft_team([left], out)
    with pytest.raises(InvalidSetting, match="as many robots"):
        draft_team([left, right], out, [model] * 3)
    with pytest.raises(InvalidRecording, match="no log of messages") as refused:
        draft_team([left, model], out)
    assert "write the file yourself" in (refused.value.cure or "")
    assert not out.exists()
    draft_team([left, right], out, names=("a", "b"))
    assert 'name = "a"' in out.read_text()
    with pytest.raises(InvalidSetting, match="already"):
        draft_team([left, right], out)
