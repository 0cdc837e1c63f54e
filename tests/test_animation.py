"""A moving stick figure in a page: the right points, nothing loaded, and drawn by a browser."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from benchmarks.lessons import example

from heft.display import animation
from heft.errors import InvalidSetting
from heft.models.robot import Robot
from heft_methods import Dynamics, Simulate, Trajectory
from tests.browser import browser, opened


def fall(robot: Robot) -> Trajectory:
    return Simulate(relative=1e-6).run(Dynamics.of(robot), np.linspace(0.0, 0.5, 21))


def content(text: str) -> dict[str, list[object]]:
    found = re.search(r'\("motion-\w+", (\{.*\})\); \}</script>', text)
    assert found
    return json.loads(found[1])  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", ["two_link_homework", "three_link"])
def test_the_figure_is_where_the_links_are(name: str) -> None:
    robot = example(name)
    moved = fall(robot)
    shown = content(animation.figure(robot, moved))
    links = len(robot.joints)
    angle = np.cumsum(moved.position[-1])
    joints = 0.5 * np.cumsum(np.column_stack([np.cos(angle), np.sin(angle)]), axis=0)
    last = np.array(shown["points"][-1])
    assert last[2 : links + 2, :2] == pytest.approx(joints, abs=2e-4)
    assert shown["lines"][-links:] == [[k, k + 1] for k in range(1, links + 1)]
    starts = np.vstack([[0.0, 0.0], joints[:-1]])
    masses = starts + 0.2 * (joints - starts)
    assert last[links + 2 :, :2] == pytest.approx(masses, abs=2e-4)
    # Gravity points down in the picture, and the plane of motion is that of the picture.
    view = np.array(shown["view"])
    assert view == pytest.approx(np.eye(3))


def test_the_pictures_of_a_motion_are_as_frequent_as_a_films() -> None:
    robot = example("two_link_homework")
    time = np.array(content(animation.figure(robot, fall(robot)))["time"])
    assert time[0] == 0.0 and time[-1] == 0.5
    assert np.diff(time) == pytest.approx(1.0 / animation.FRAMES_PER_SECOND, rel=0.05)


def test_a_page_is_drawn_and_loads_nothing(tmp_path: Path) -> None:
    robot = example("two_link_homework")
    text = animation.page(robot, fall(robot), "Free fall <of two links>")
    assert "<of" not in text and not re.search(r'https?:|src=|href="(?!data:)', text)
    file = tmp_path / "fall.html"
    file.write_text(text, encoding="utf-8")
    inked = (
        "() => { const c = document.querySelector('canvas'); return c.getContext('2d')"
        ".getImageData(0, 0, c.width, c.height).data.filter((v, k) => k % 4 === 3 && v).length }"
    )
    with browser() as running:
        for scheme in ("light", "dark"):
            with opened(running, file.as_uri(), scheme=scheme) as seen:
                page = seen.page
                page.wait_for_function(f"() => ({inked})() > 500")
                assert page.inner_text("button") == "Play"  # this reader asks for less motion
                page.click("button")
                page.wait_for_function(
                    "() => parseFloat(document.querySelector('output').textContent) > 0.1"
                )
                assert not seen.said and seen.asked == [file.as_uri()]


def test_one_sample_is_no_motion() -> None:
    robot = example("one_link")
    moved = fall(robot)
    fields = vars(moved).items()
    one = Trajectory(**{k: v[:1] if isinstance(v, np.ndarray) else v for k, v in fields})
    with pytest.raises(InvalidSetting, match="one sample"):
        animation.figure(robot, one)
