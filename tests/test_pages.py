"""Pages from templates: names from outside stay text on every page, and nothing foreign runs."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import heft
from heft.applications.doctor import doctor
from heft.applications.doctor import report as doctor_report
from heft.applications.identification import compare_report, report, results
from heft.applications.identification.comparison import compare
from heft.applications.identification.identification import Identification
from heft.applications.identification.inputs import identify
from heft.applications.payload.live import PAGE
from heft.display import animation
from heft.display.page import Plot, Series
from heft.display.templates import Drawings, policy_of, render
from heft.models.robot import Robot
from heft.streams.page import served
from heft_methods import Dynamics, Simulate
from tests.browser import browser, opened
from tests.experiments import ARMS, log, true_robot

TEMPLATES = sorted(Path(heft.__file__).parent.rglob("*.jinja"))
ROBOT = "]]><b onclick='alert(0)'>&amp;"
JOINT = "<script>alert(1)</script>"
LINK = "</script><img src=x onerror=\"alert('2')\">"
LOG = "a \"log\" 'of' ]]> <svg onload=alert(3)>"
FILE = LOG + ".npz"
HOSTILE = (ROBOT, JOINT, LINK, FILE)


class Read(HTMLParser):
    """A page as a browser takes it: elements with their attributes, and texts by element."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self._inside = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))
        self._inside = tag
        if tag in ("script", "style"):
            self.texts.append((tag, ""))

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside in ("script", "style"):
            data = self.texts.pop()[1] + data
        self.texts.append((self._inside, data))

    @property
    def shown(self) -> str:
        """What a reader sees, and hears of pictures."""
        names = [str(a.get("aria-label", "")) for _, a in self.elements]
        return " ".join([*names, *(t for inside, t in self.texts if inside != "script")])

    @property
    def policy(self) -> str:
        """Its Content-Security-Policy."""
        (said,) = [a["content"] for t, a in self.elements if t == "meta" and "http-equiv" in a]
        assert said is not None
        return said


def named_badly(urdf: bytes) -> bytes:
    """Return a URDF with hostile names of robot, first joint, and first link that moves."""
    root = ET.fromstring(urdf)
    root.set("name", ROBOT)
    joint = next(j for j in root.iter("joint") if j.get("type") in ("revolute", "continuous"))
    joint.set("name", JOINT)
    child = joint.find("child")
    assert child is not None
    link = child.get("link")
    for place in root.iter():
        for name in ("name", "link"):
            if place.tag in ("link", "parent", "child") and place.get(name) == link:
                place.set(name, LINK)
    return ET.tostring(root)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Identification:
    """Return an identification of a robot and a log with hostile names."""
    rng = np.random.default_rng(4)
    truth = true_robot(ARMS["two joints"], rng, "simple")
    joint = truth.robot.joints[0]
    drives = {n.replace(joint, JOINT): v for n, v in truth.drives.items()}
    robot = Robot.from_urdf_text(named_badly(truth.robot.source))
    assert robot.joints[0] == JOINT and robot.bodies_links[0].name == LINK
    folder = tmp_path_factory.mktemp("pages")
    model, path = folder / "arm.urdf", folder / FILE
    model.write_bytes(robot.source)
    recorded = log(replace(truth, robot=robot, drives=drives), 10.0, 200.0, rng)
    table = recorded.canonical()
    values = np.vstack(list(table.read(table.columns)))
    np.savez(path, **dict(zip(table.columns, values.T, strict=True)))
    return identify(model, [path], [])


@pytest.fixture(scope="module")
def pages(found: Identification, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return every page, of hostile names."""
    folder = tmp_path_factory.mktemp("results") / LOG
    results.write(found, folder)
    robot = found.problem.plant.robot
    moved = Simulate(relative=1e-6).run(Dynamics.of(robot), np.linspace(0.0, 0.2, 9))
    return {
        "report": report.html(found),
        "compare": compare_report.html(compare(folder, folder)),
        "animation": animation.page(robot, moved, LINK),
        "check": doctor_report.html(doctor.diagnose(found.problem.recordings, robot)),
        "live": render(PAGE),
    }


KINDS = ("report", "compare", "check", "animation", "live")


@pytest.mark.parametrize("kind", KINDS)
def test_names_from_outside_are_no_elements(pages: dict[str, str], kind: str) -> None:
    read = Read(pages[kind])
    own = {"report": 4, "compare": 4, "check": 4, "animation": 1, "live": 6}
    assert [t for t, _ in read.elements].count("script") == own[kind]
    assert not {"b", "img", "svg"} & {t for t, _ in read.elements}
    assert not [a for _, of in read.elements for a in of if a.startswith("on")]


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("report", HOSTILE),
        ("compare", (ROBOT, JOINT, LOG)),
        ("check", (JOINT, FILE)),
        ("animation", (LINK,)),
    ],
)
def test_names_from_outside_are_shown_as_they_are(
    pages: dict[str, str], kind: str, names: tuple[str, ...]
) -> None:
    shown = Read(pages[kind]).shown
    assert not [name for name in names if name not in shown]


def test_the_numbers_of_a_report_can_be_read_whatever_the_names(pages: dict[str, str]) -> None:
    numbers = next(t for inside, t in Read(pages["report"]).texts if inside == "script")
    assert "<" not in numbers
    drawings = json.loads(numbers)["drawings"]
    assert {f"friction {JOINT}"} < {d.get("group") for d in drawings}
    assert LINK in {b["name"] for d in drawings for b in d.get("bodies", ())}


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_page_s_own_style_and_script_are_allowed(pages: dict[str, str], kind: str) -> None:
    read = Read(pages[kind])
    assert read.policy.startswith("default-src 'none'; ") and "unsafe" not in read.policy
    assert "http" not in read.policy and "*" not in read.policy
    run = [(k, text) for k, text in read.texts if k in ("style", "script")]
    data = [a for t, a in read.elements if t == "script" and a.get("type") == "application/json"]
    held = {f"{k}-src": set() for k in ("style", "script")}
    for inside, text in run:
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        if f"'sha256-{digest}'" in read.policy:
            held[f"{inside}-src"].add(f"'sha256-{digest}'")
    assert len(held["style-src"]) + len(held["script-src"]) == len(run) - len(data)
    for part in read.policy.split("; "):
        name, *allowed = part.split()
        if name in held:
            assert set(allowed) == held[name]
    assert not [a for _, of in read.elements for a in of if a == "style"]


@pytest.mark.parametrize("kind", KINDS[:4])
def test_a_browser_runs_nothing_of_what_names_say(
    pages: dict[str, str], kind: str, tmp_path: Path
) -> None:
    path = tmp_path / f"{kind}.html"
    path.write_text(pages[kind], encoding="utf-8")
    with browser() as running, opened(running, path.as_uri()) as seen:
        seen.page.on("dialog", lambda dialog: seen.said.append(dialog.message))
        seen.page.wait_for_function("document.querySelector('canvas').width > 0")
        assert seen.said + seen.warned == [] and seen.asked == [path.as_uri()]


def test_a_browser_shows_what_the_live_node_tells_as_text() -> None:
    number = {"name": f"payload.{JOINT}", "value": 1.5, "std": 0.1, "unit": LINK}
    told = {
        "estimate": {"frame": ROBOT, "parameters": [number, {**number, "value": None}]},
        "events": [{"stamp": 1.0, "name": JOINT, "message": LINK}],
        "health": {
            "counts": {LINK: 2},
            "devices": {JOINT: {"rate": 100.0, "samples": 7, "silent": True}},
        },
    }
    with browser() as running, served(0, render(PAGE), policy_of(render(PAGE))) as page:
        page.show(told)
        with opened(running, page.address) as seen:
            seen.page.on("dialog", lambda dialog: seen.said.append(dialog.message))
            seen.page.locator("#state:has-text('live')").wait_for()
            text = seen.page.inner_text("body")
            assert seen.page.evaluate("document.querySelectorAll('b, img').length") == 0
            assert seen.said + seen.warned == []
            assert set(seen.asked) == {page.address, page.address + "told"}
    assert all(name in text for name in (ROBOT, JOINT, LINK)) and "1.50 ± 0.10 kg" in text


def weighed(mass: float | None, std: float | None) -> dict[str, object]:
    one = {"name": "payload.mass", "value": mass, "std": std, "unit": "kg"}
    estimate = {"frame": "tool0", "held": mass and mass > 0.1, "parameters": [one]}
    return {"estimate": estimate, "events": [], "health": {"counts": {}, "devices": {}}}


# What the pen wrote beside the axis when it drew last.
WRITES = """CanvasRenderingContext2D.prototype.fillText = function (text) {
  if (this.textAlign === "right") (this.canvas.said ||= []).unshift(parseFloat(text));
}"""
MASSES = "(plots[0].canvas.said = [], plots[0].draw(), plots[0].canvas.said.reverse())"
# Upper and lower edges of the band and of the line, None where they have a hole.
CURVES = """plots[0].every.map((s) => [...s.y].map((y, k) =>
  [y, s.low ? s.low[k] : y].map((v) => isNaN(v) ? null : v)))"""


@pytest.mark.parametrize("mass", [0.02, 2.3, 37.0])
def test_the_plot_of_a_steady_mass_has_an_axis_that_tells_it(mass: float) -> None:
    with browser() as running, served(0, render(PAGE), policy_of(render(PAGE))) as page:
        page.show(weighed(mass, 1e-6))
        with opened(running, page.address) as seen:
            seen.page.evaluate(WRITES)
            seen.page.locator("#state:has-text('live')").wait_for()
            assert len(seen.page.evaluate(MASSES)) > 1
            for value, std in ((mass, 1e-6), (None, None), (mass, 0.01 * mass)):
                page.show(weighed(value, std))
                seen.page.wait_for_timeout(100)
            labels = seen.page.evaluate(MASSES)
            # From a value to a larger one, none said twice, and the mass between them.
            assert labels == sorted(set(labels)) and labels[0] <= mass <= labels[-1]
            assert labels[-1] - labels[0] >= max(0.005 * mass, 0.009)
            for drawn, std in zip(seen.page.evaluate(CURVES), (0.01 * mass, 0.0), strict=True):
                high, low = drawn[-1]
                assert high == pytest.approx(mass + std, rel=1e-3)
                assert low == pytest.approx(mass - std, rel=1e-3)
                assert drawn[-2] == [None, None] and None not in drawn[-3]  # a hole
            assert seen.said + seen.warned == []


def test_an_empty_hand_is_shown_as_one() -> None:
    with browser() as running, served(0, render(PAGE), policy_of(render(PAGE))) as page:
        page.show(weighed(0.003, 0.002))
        with opened(running, page.address) as seen:
            seen.page.locator("#mass:has-text('nothing')").wait_for(timeout=5000)


def test_the_table_of_a_plot_has_what_its_curves_show() -> None:
    time = np.array([0.0, 1.0, np.nan, 3.0])
    curve = Series("c", "residual", time, np.array([5.0, 9.0, 70.0, 1.0]), minus=np.full(4, 2.0))
    middle, reach = np.array([2.0, 3.5, np.nan, 1.5]), np.array([2.0, 4.5, np.nan, 4.5])
    band = Series("95 %", "predicted", time, middle, "band", reach=reach)
    nothing = Series("none", "data", time, np.full(4, np.nan))
    shown = Plot("a", "time [s]", (curve, band, nothing), "d", "[N·m]").numbers
    assert shown.caption == "[N·m] over time [s]" and shown.rows == [
        ["c", "-1", "3", "7", "1", "3"],
        ["95 %", "-3", "3", "8", "1", "2.333"],
    ]


def test_each_array_is_held_once() -> None:
    time = np.linspace(0.0, 1.0, 50)
    plot = Plot("a", "b", (Series("c", "measured", time, np.sin(9.0 * time)),), "d")
    for times in (1, 2):
        drawings = Drawings()
        assert [drawings.add(plot.content) for _ in range(times)] == list(range(times))
        content = drawings.content
        assert (len(content["arrays"]), len(content["drawings"])) == (2, times)
        first = np.frombuffer(base64.b64decode(content["arrays"][0]), "<f4")
        assert first == pytest.approx(time, abs=2.0**-24)  # half a unit in the last place of 1


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda p: p.name)
def test_a_template_escapes_all_and_quotes_its_attributes(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.findall(r"\bsafe\b|\bautoescape\b|Markup", text)
    # An attribute without quotes ends at a blank of the name put into it.
    assert not re.findall(r"=\s*\{\{", text)
    assert not re.findall(r"\son\w+\s*=|\sstyle\s*=", text)


def test_a_value_that_a_template_misses_is_an_error() -> None:
    from jinja2 import UndefinedError

    with pytest.raises(UndefinedError, match="name"):
        render("display/animation_figure.html.jinja", caption="", title="", end="1", motion={})
