"""Every page on a phone, a laptop and a wide screen, light and dark, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from heft.applications.cooperation import identify_team_files, simulate_team_files
from heft.applications.demo import FOLDER as DEMO
from heft.applications.doctor import doctor
from heft.applications.doctor import report as doctor_report
from heft.applications.excite import excite_files
from heft.applications.free_flyer import design_files, identify_files, track_files
from heft.applications.identification import compare, compare_report, identify, report, results
from heft.applications.payload import report as payload_report
from heft.applications.payload.from_files import of_joints
from heft.display import render
from heft.information import Check
from heft.recordings import Recording
from tests import test_carried, test_excite, test_free_flyer_files, test_payload
from tests.browser import browser, faults, opened
from tests.wrists import sensed

FLIGHT = test_free_flyer_files
WIDTHS = (390, 1000, 1600)
HEIGHT = 800
KINDS = (
    *("identify", "compare", "check", "clean", "payload", "sensed", "poor"),
    *("excite", "freeflyer", "coop", "watch", "live"),
)
LIVE = ("watch", "live")  # which say nothing before their node does
# Numbers in the first screen, and how much of the largest picture is in it.
FIRST = """() => {
  const inside = (r) => r.width && r.top < innerHeight && r.bottom > 0;
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let said = "";
  while (walk.nextNode()) {
    const range = document.createRange(); range.selectNodeContents(walk.currentNode);
    const place = range.getBoundingClientRect();
    if (inside(place) && place.bottom <= innerHeight) said += " " + walk.currentNode.data;
  }
  const seen = [...document.querySelectorAll("canvas")].map((c) => c.getBoundingClientRect())
    .map((r) => inside(r) ? Math.min(r.bottom, innerHeight) - r.top : 0);
  return [(said.match(/[0-9][0-9.]*/g) || []).length, Math.max(0, ...seen),
    document.documentElement.scrollWidth];
}"""
ROW = """(id) => {
  const row = document.createElement("tr");
  for (let k = 0; k < document.querySelectorAll("th").length && k < 8; k++) {
    const cell = document.createElement("td"); cell.textContent = "123.4, 567.8"; row.append(cell);
  }
  row.firstChild.className = "poor"; document.querySelector("tbody").append(row);
}"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return every page as a file."""
    return written(tmp_path_factory.mktemp("screens"))


def written(place: Path) -> dict[str, Path]:
    """Write every page into a folder; return the files by kind."""
    found = identify(DEMO / "arm.urdf", [DEMO / "run1.parquet"], [DEMO / "run2.parquet"])
    for name in ("before", "after"):
        results.write(found, place / name)
    log = Recording.open(DEMO / "run1.parquet")
    torque = next(n for n in log.sources if n.startswith("tau."))
    held = log.in_memory(list(log.sources))
    spoilt = {n: held.whole([n]).values[:, 0].copy() for n in held.sources}
    spoilt[torque][400:700] = spoilt[torque][400]
    kinds: dict[str, dict[str, np.ndarray]] = {}
    for name, values in spoilt.items():
        kind, _, joint = name.partition(".")
        kinds.setdefault(kind, {})[joint] = values
    bad = Recording.from_arrays(held.whole([]).time, "bad.npz", **kinds)
    carried = of_joints(test_carried.weighed(0))
    failed = Check("no body", "fail", 1.0, 0.2, "the load is none that can exist")
    sensor = place / "wrist.toml"
    sensor.write_text(test_payload.WRIST + test_payload.IMU)
    grasp = test_payload.with_imu(place / "grasp.npz", sensed(3000))
    (place / "limits.toml").write_text(test_excite.LIMITS)
    excite_files(test_excite.ARM, place / "excite", test_excite.QUICK, place / "limits.toml")
    (place / "bounds.toml").write_text(FLIGHT.BOUNDS)
    design_files("space_cobot", place / "motion", place / "bounds.toml", settings=FLIGHT.QUICK)
    track_files("space_cobot", place / "motion", place / "log.parquet", (FLIGHT.LOAD,))
    identify_files("space_cobot", place / "log.parquet", place / "freeflyer")
    team = "robots = 3\n[simulation]\nduration = 8.0\nmasses = [2.0]\nchanges = []\n"
    (place / "team.toml").write_text(team)
    simulate_team_files(place / "team.toml", place / "run", 3)
    identify_team_files(place / "run", place / "coop")
    texts = {
        "identify": report.html(found),
        "compare": compare_report.html(compare(place / "before", place / "after")),
        "check": doctor_report.html(doctor.diagnose([bad])),
        "clean": doctor_report.html(doctor.diagnose([log])),
        "payload": payload_report.html(carried),
        "sensed": payload_report.html(test_payload.weighed_files([grasp], sensor)),
        "poor": payload_report.html(replace(carried, checks=(*carried.checks, failed))),
        "watch": render("applications/cooperation/watch_page.html.jinja"),
        "live": render("applications/payload/live_page.html.jinja"),
    }
    for name, text in texts.items():
        (place / f"{name}.html").write_text(text, encoding="utf-8")
    folders = {n: place / n / "report.html" for n in ("excite", "freeflyer", "coop")}
    return {name: place / f"{name}.html" for name in texts} | folders


@pytest.fixture(scope="module")
def chromium() -> Iterator[object]:
    """Return a browser."""
    with browser() as running:
        yield running


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_page_fits_its_screen_and_opens_with_the_answer(
    pages: dict[str, Path], chromium: object, kind: str, scheme: str, tmp_path: Path
) -> None:
    for width in WIDTHS:
        with opened(chromium, pages[kind].as_uri(), width, HEIGHT, scheme) as seen:
            page = seen.page
            if kind in LIVE:
                page.evaluate(ROW)
            page.wait_for_timeout(300)
            page.screenshot(path=tmp_path / f"{kind}-{width}-{scheme}.png")
            numbers, picture, wide = page.evaluate(FIRST)
            assert wide <= width, (kind, width)
            if kind not in LIVE:  # the node's address is not there, which the browser says
                assert numbers >= 5 and seen.said + seen.warned == []
                assert picture > (60 if width == 390 else 120), (kind, width, picture)
                assert pages[kind].stat().st_size < 3_000_000
            page.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            if width == 1000:  # everything unfolded
                assert faults(page) == []
