"""The report: what it says, and that a real browser draws it, offline, at any width."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from heft.applications.demo import FOLDER as DEMO
from heft.applications.identification import report
from heft.applications.identification.identification import Identification
from heft.applications.identification.identify import identify_files
from heft.applications.identification.results import base_entries
from tests.browser import browser, opened


@pytest.fixture(scope="module")
def found() -> Identification:
    """Return the arm that comes with heft, identified."""
    return identify_files(DEMO / "arm.urdf", [DEMO / "run1.parquet"], [DEMO / "run2.parquet"])


@pytest.fixture(scope="module")
def written(found: Identification, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return its report as a file."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(report.html(found), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def chromium() -> Iterator[object]:
    """Return a browser."""
    with browser() as running:
        yield running


def test_the_same_result_gives_the_same_bytes(found: Identification, written: Path) -> None:
    assert report.html(found) == written.read_text(encoding="utf-8")


@pytest.mark.parametrize("scale", [1e-3, 1.0, 40.0])
def test_a_vector_has_the_decimals_of_its_largest_number(scale: float) -> None:
    values = scale * np.array([-0.000725, 0.0166, -0.67049])
    text = report._vector([(v, 0.05 * scale) for v in values.tolist()])
    shown = text.split(", ")
    (decimals,) = {len(n.partition(".")[2]) for n in shown}
    assert np.abs(np.array([float(n) for n in shown]) - values).max() <= 0.5 * 10.0**-decimals
    assert not [n for n in shown if n.startswith("-") and float(n) == 0.0]


def test_a_delay_is_said_with_its_side() -> None:
    assert report._behind(0.0032) == "Torque comes 3.2 ms behind motion."
    assert report._behind(-0.0037) == "Torque comes 3.7 ms ahead of motion."


def test_nothing_but_the_page_itself_is_referred_to(written: Path) -> None:
    text = written.read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    addresses = re.findall(r"""(?:src|href|action)\s*=\s*["']([^"']*)""", text)
    assert addresses and all(a.startswith(("#", "data:")) for a in addresses)
    assert not re.findall(r"@import|url\(|fetch\(|XMLHttpRequest|https?://", text)


def test_every_base_parameter_is_there_with_its_interval(
    found: Identification, written: Path
) -> None:
    text = written.read_text(encoding="utf-8")
    for row, entry in zip(report._base_rows(found), base_entries(found), strict=True):
        assert f">{row[0]}</th>" in text and f"<td>{row[3]}</td>" in text
        low, high = (float(v) for v in row[3].split(" … "))
        assert low < entry["value"] < high


def test_the_command_makes_it_again(found: Identification) -> None:
    words = report.command(found)
    assert words == (
        f"heft identify {DEMO / 'arm.urdf'} {DEMO / 'run1.parquet'} "
        f"--validate {DEMO / 'run2.parquet'}"
    )


@pytest.mark.parametrize("width", [1200, 360])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_draws_every_plot(
    written: Path, chromium: object, scheme: str, width: int
) -> None:
    with opened(chromium, written.as_uri(), width, scheme=scheme) as seen:
        page = seen.page
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        page.wait_for_function("[...document.querySelectorAll('canvas')].every((c) => c.width)")
        page.wait_for_timeout(100)
        drawn = page.evaluate(PIXELS)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert seen.said + seen.warned == [] and seen.asked == [written.as_uri()]
    # A scene; torque and spectra of two logs and friction, each of six joints.
    assert len(drawn) == 1 + 5 * 6
    for title, colours in drawn.items():
        assert all(count > 50 for count in colours.values()), title


# Of each canvas, how many pixels have the colours that nothing else is drawn over.
PIXELS = """() => {
  const content = JSON.parse(document.getElementById("numbers").textContent);
  const probe = document.createElement("i"); document.body.append(probe);
  const result = {};
  for (const figure of document.querySelectorAll("figure[data-drawing]")) {
    const canvas = figure.querySelector("canvas"), number = figure.dataset.drawing;
    const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    const spec = content.drawings[number], counts = {};
    for (const role of spec.series ? [spec.series.at(-1).role] : ["before", "after"]) {
      probe.style.color = `var(--${role})`;
      const [r, g, b] = getComputedStyle(probe).color.match(/\\d+/g).map(Number);
      counts[role] = 0;
      for (let k = 0; k < data.length; k += 4) {
        const off = Math.abs(data[k] - r) + Math.abs(data[k + 1] - g) + Math.abs(data[k + 2] - b);
        if (data[k + 3] > 60 && off < 40) counts[role] += 1;
      }
    }
    result[`${number} ${canvas.getAttribute("aria-label")}`] = counts;
  }
  return result;
}"""


def test_the_reader_may_choose_light_or_dark(written: Path, chromium: object) -> None:
    with opened(chromium, written.as_uri(), scheme="dark") as seen:
        paper = "getComputedStyle(document.body).backgroundColor"
        dark = seen.page.evaluate(paper)
        seen.page.click("#theme")
        light = seen.page.evaluate(paper)
        seen.page.click("#theme")
        assert dark != light and seen.page.evaluate(paper) == dark
    with opened(chromium, written.as_uri(), scheme="light") as seen:
        assert seen.page.evaluate(paper) == light


def test_plots_of_one_log_share_their_time_axis_and_the_keyboard_moves_it(
    written: Path, chromium: object
) -> None:
    with opened(chromium, written.as_uri()) as seen:
        page = seen.page
        plots = page.locator("#torque ~ details .stack").first.locator("figure")
        plots.first.locator("canvas").focus()
        page.keyboard.press("+")
        page.keyboard.press("ArrowRight")
        said = [plots.nth(k).locator("output").inner_text() for k in range(6)]
        assert len({text.split(" · ")[0] for text in said}) == 1
        for text in said:
            value = {
                n: float(v.replace("−", "-")) for n, v in re.findall(r"(\w+) (−?[\d.e−]+)", text)
            }
            assert value["residual"] == pytest.approx(
                value["measured"] - value["predicted"], abs=2e-3 * (1 + abs(value["measured"]))
            )
        page.keyboard.press("Tab")  # on to the next plot
        focused = page.evaluate("document.activeElement.getAttribute('aria-label')")
        assert focused == plots.nth(1).locator("canvas").get_attribute("aria-label")


def test_headings_are_in_order_and_all_can_be_reached(written: Path, chromium: object) -> None:
    with opened(chromium, written.as_uri()) as seen:
        levels = seen.page.evaluate(
            "[...document.querySelectorAll('h1,h2,h3')].map((h) => Number(h.tagName[1]))"
        )
        assert levels.count(1) == 1 and levels[0] == 1
        assert all(b <= a + 1 for a, b in itertools.pairwise(levels))
        links = seen.page.evaluate(
            "[...document.querySelectorAll('nav a')].map((a) => document.querySelector("
            "a.getAttribute('href')) !== null)"
        )
        assert len(links) == levels.count(2) and all(links)
