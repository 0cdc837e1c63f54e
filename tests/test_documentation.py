"""Documentation is executed: the site's and README's code, commands, links and figures.

Building the site runs the code of its pages (`docs/hooks.py`); here it is run page by page, and the
site built of what that wrote, and looked at.
"""

from __future__ import annotations

import fcntl
import importlib
import json
import math
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from benchmarks import intervals, readme, template_links

from heft.applications import demo
from heft.applications.cooperation.team_file import TEAM
from heft.applications.derive.from_table import derive
from heft.applications.free_flyer.study import LOADS
from heft.applications.payload.sensors import Sensors
from heft.cli import app, main
from heft.dynamics import FRICTION, TERMS
from heft.errors import DISTRIBUTION, install
from heft.fit.settings import Limit, Limits
from heft.models.free_flyer import BOUNDS, FILE
from heft.models.options import Options
from heft.models.robot import Robot
from heft.recordings.columns import KINDS, ColumnMap
from heft.streams.network import Link
from tests.browser import browser, faults, opened

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted((ROOT / "docs").glob("*.md"))
NOTEBOOKS = sorted((ROOT / "docs" / "learn").glob("*.ipynb"))

IN_STYLES = re.compile(r"(?:url\(|@import)\s*[\"']?([^\"')\s]+)")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


# --- the site


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pytest.MonkeyPatch]:
    """Make each part of the site once, whichever of the tests' processes does."""
    folder = tmp_path_factory.getbasetemp()
    folder = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "site-parts"
    folder.mkdir(exist_ok=True)
    before = TERMS.copy(), FRICTION.copy()  # a page adds terms of its own
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "docs")
        patch.setenv(importlib.import_module("once").FOLDER, str(folder))
        yield patch
    for registry, built_in in zip((TERMS, FRICTION), before, strict=True):
        registry.clear()
        registry.update(built_in)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_runs_from_top_to_bottom(
    path: Path, builder: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done = importlib.import_module("notebooks").executed(path, tmp_path)
    cells = [cell for cell in done.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(2, len(cells) + 2))
    assert any(cell.outputs for cell in cells)


@pytest.mark.parametrize(
    "page",
    [p for p in PAGES if re.search("```(python|console)", p.read_text("utf-8"))],
    ids=lambda p: p.stem,
)
def test_the_code_of_a_page_does_what_the_page_says(
    page: Path, builder: pytest.MonkeyPatch
) -> None:
    text = readme.filled(page.read_text(encoding="utf-8"))
    done = importlib.import_module("hooks").executed(text, page.name)
    assert "heft-docs-" not in done, "the folder in which code was run"


# Tags and their attributes: a parser of HTML takes seven times as long for the site's 15 MB.
TAG = re.compile(r"""<([a-z]\w*)((?:[^<>"']|"[^"]*"|'[^']*')+)>""")
NAMED = ("id", "name", "href", "src", "srcset", "data", "poster", "action")
ATTRIBUTE = re.compile(rf"""\s({"|".join(NAMED)})=(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")


class Links:
    """What a page loads, where it leads, and the places in it that can be led to."""

    def __init__(self, page: Path) -> None:
        self.loads: list[str] = []
        self.leads: list[str] = []
        self.places: set[str] = {""}
        for tag, rest in TAG.findall(page.read_text(encoding="utf-8")):
            for name, *values in ATTRIBUTE.findall(rest):
                value = unescape("".join(values))
                if name in ("id", "name"):
                    self.places.add(value)
                elif name == "href" and tag == "a":
                    self.leads.append(value)
                else:
                    self.loads.append(value)


@pytest.fixture(scope="module")
def site(builder: pytest.MonkeyPatch) -> Path:
    """Return the site, built without a warning by the first of the tests' processes."""
    parts = Path(os.environ[importlib.import_module("once").FOLDER])
    site, made = parts.with_name("site"), parts.with_name("site-in-the-making")
    call = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(made)]
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    around = {**os.environ, "PYTHONPATH": paths, "LC_ALL": "C.UTF-8"}
    with parts.with_name("site.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if not site.exists():
            built = subprocess.run(call, cwd=ROOT, env=around, capture_output=True, text=True)
            assert built.returncode == 0, built.stderr
            made.rename(site)
    return site


def test_the_search_works_from_a_disk(site: Path) -> None:
    with browser() as running, opened(running, (site / "index.html").as_uri(), 1000, 800) as seen:
        field = seen.page.locator("[data-md-component=search-query]")
        field.click()
        field.press_sequentially("stribeck friction")
        first = seen.page.locator(".md-search-result__link").first
        first.wait_for()
        assert seen.said == [] and "friction.html" in first.get_attribute("href")
        assert all(a.startswith("file:") for a in seen.asked)


# A first page, a guide, pictures, formulas, a module.
SHOWN = ("index", "weigh", "robots", "learn/free_fall", "reference/display")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_of_the_site_has_no_barrier(site: Path, scheme: str) -> None:
    with browser() as running:
        for kind in SHOWN:
            with opened(running, (site / f"{kind}.html").as_uri(), 1000, 800, scheme) as seen:
                assert faults(seen.page) == [] == seen.said + seen.warned, kind
                if kind == "robots":
                    pictures = seen.page.locator("article img:visible").all()
                    assert len(pictures) == 5
                    assert all(scheme in p.get_attribute("src") for p in pictures)


def test_a_first_result_of_ones_own_is_three_clicks_from_the_first_page(site: Path) -> None:
    """A click on the robot's page, one that copies its command: there are no others."""
    with browser() as running, opened(running, (site / "index.html").as_uri(), 1000, 800) as seen:
        seen.page.locator(".md-content").get_by_text("Your URDF and your log").click()
        seen.page.locator(".md-code__button").first.click()
        command = seen.page.locator("pre code").first.inner_text().splitlines()[0]
        assert command.startswith("heft identify") and seen.page.url.endswith("weigh.html")


def test_a_robot_of_the_gallery_has_its_picture_and_the_stored_errors() -> None:
    text = readme.filled((ROOT / "docs" / "robots.md").read_text(encoding="utf-8"))
    stored = readme.rows("real_data")
    sections = text.split("\n## ")[1:]
    assert len(sections) == 5
    for section in sections:
        (picture,) = re.findall(r"\]\((pictures/robot-\w+\.png)\)", section)
        for shown in (picture, picture.replace(".png", "-dark.png")):
            assert (ROOT / "docs" / shown).stat().st_size > 5_000
        name = section.partition("\n")[0]
        told = re.findall(r"\| heft, full friction \|(.*)\|\n", section)[0].split(" | ")
        own = [
            f"{100 * row['value']:.3g} %"
            for key, row in stored.items()
            if key.partition(",")[0] in name and key.endswith(": heft, full friction, total")
            if "filtered" in key
        ]
        assert own and [cell.strip() for cell in told] == own


def test_the_site_has_no_dead_link_and_asks_no_network(site: Path) -> None:
    pages = {page.resolve(): Links(page) for page in site.rglob("*.html") if page.stem != "404"}
    for page, links in pages.items():
        for target in links.loads:
            assert not re.match(r"\w+:|//", target), f"{page.name} asks for {target}"
            assert (page.parent / re.split("[?#]", unquote(target))[0]).exists(), target
        for target in links.leads:
            file, _, place = unquote(target).partition("#")
            if not re.match(r"\w+:|//", target):
                to = (page.parent / file).resolve() if file else page
                assert to.exists(), f"{page.name}: {target}"
                assert to not in pages or place in pages[to].places, f"{page.name}: {target}"
        text = page.read_text(encoding="utf-8")
        assert 'name="viewport"' in text
        assert "heft-docs-" not in text, "the folder in which code was run"
    for style in site.rglob("*.css"):
        for target in IN_STYLES.findall(style.read_text(encoding="utf-8")):
            assert target.startswith("data:") or not re.match(r"\w+:|//", target), target

    listed = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    assert "heft identify [OPTIONS]" in listed
    for command in app:
        assert command in listed or command in ("--help", "-h", "--version")
    for module in (ROOT / "src" / "heft").glob("[a-z]*.py"):
        assert (site / "reference" / f"{module.stem}.html").exists()

    house = (site / "how-it-works.html").read_text(encoding="utf-8")
    (drawn,) = re.findall(r'<div class="house"><svg.*?</svg></div>', house, re.DOTALL)
    boxes = re.findall(r'href="reference/(\w+)\.html"', drawn)
    rooms = {p.parent.name for p in (ROOT / "src" / "heft").glob("*/__init__.py")}
    files = {p.stem for p in (ROOT / "src" / "heft").glob("[a-z]*.py")}
    assert sorted(boxes) == sorted(rooms | files)
    assert drawn.count('class="arrow"') >= len(boxes) - 1


def test_the_links_of_templates_are_those_that_the_page_counts() -> None:
    lines = (ROOT / "docs" / "models.md").read_text(encoding="utf-8").splitlines()
    found = list(template_links.counts())
    assert len(found) > 30
    assert not {count.line() for count in found} - set(lines)


def test_what_is_to_be_installed_is_spelt_as_the_project_and_its_extras_are() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == DISTRIBUTION and install("view").endswith(f"'{DISTRIBUTION}[view]'")
    places = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "src").rglob("*.py")]
    texts = "\n".join(path.read_text(encoding="utf-8") for path in places)
    asked = re.findall(r"\b(heft[\w-]*)\[([a-z0-9,]+)\]", texts)
    asked += [(DISTRIBUTION, extra) for extra in re.findall(r"""\binstall\(["'](\w+)""", texts)]
    assert len(asked) > 15
    for name, extras in asked:
        assert name == DISTRIBUTION
        assert set(extras.split(",")) <= set(project["optional-dependencies"]), extras


def test_a_plant_of_ones_own_takes_sixty_lines_and_finds_the_truth() -> None:
    page = (ROOT / "docs" / "plants.md").read_text(encoding="utf-8")
    own, *_ = blocks(page, "python")
    assert len(own.splitlines()) <= 60
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(own, "plants.md", "exec"), namespace)
    numbers = namespace["found"].numbers
    assert [n.name for n in numbers] == list(namespace["SpringMotor"].names)
    for number, truth in zip(numbers, namespace["truth"], strict=True):
        low, high = number.interval
        assert low <= truth <= high, number.name
        assert high - low < 0.05 * truth, "an interval that says something"


@pytest.mark.parametrize("path", NOTEBOOKS)
def test_a_notebook_is_kept_without_what_it_wrote_and_has_its_page(path: Path) -> None:
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        assert not cell.get("outputs") and cell.get("execution_count") is None
    assert f"learn/{path.stem}.md" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "page",
    [
        "```console\nrm -r identified\n```\n",
        "```console\nheft weigh arm.urdf\n```\n",
        "```console fails\nheft --version\n```\n",
        "```python\n1 / 0\n```\n",
        "```python careless\nprint(1)\n```\n",
    ],
)
def test_a_page_with_code_that_does_not_do_what_it_says_is_refused(
    page: str, builder: pytest.MonkeyPatch
) -> None:
    from mkdocs.exceptions import PluginError

    hooks = importlib.import_module("hooks")
    assert "42" in hooks.executed("```python\nprint(6 * 7)\n```\n", "good")
    with pytest.raises(PluginError):
        hooks.executed(page, "bad")


def test_what_limits_md_says_of_the_figures_is_what_they_show() -> None:
    stored = readme.rows("real_data")

    def error(case: str, tool: str, score: str = "total") -> float:
        name = next(n for n in stored if n.startswith(case) and "filtered" in n)
        return float(stored[f"{name.partition(': ')[0]}: {tool}, {score}"]["value"])

    full, simple, plain = (
        "heft, full friction",
        "heft, simple friction",
        "plain least squares (inconsistent)",
    )
    for case in ("Panda, first", "LWR4+, run 1", "LWR4+, run 2"):
        assert error(case, plain) < error(case, simple)
    for case in ("UR10e, 50 s", "UR10e, 30 s", "TX40, blocks"):
        assert error(case, full) < error(case, simple) < error(case, plain)
    for peer in (plain, "FIGAROH"):
        assert abs(error("LWR4+, run 1", peer) / error("LWR4+, run 1", full) - 1.0) < 0.03
        for case in ("LWR4+, run 1", "LWR4+, run 2"):
            assert error(case, peer, "mean of joints") < error(case, full, "mean of joints")
    assert error("TX40, first", simple) < error("TX40, first", full)
    assert min(error("TX40, first", tool) for tool in (full, simple, plain)) > 0.15
    assert abs(error("Rokae", full) - error("Rokae", "mujoco.sysid")) < 0.003


def test_the_limits_in_verdict_md_are_those_of_the_checks() -> None:
    page = (ROOT / "docs" / "verdict.md").read_text(encoding="utf-8")
    number = r"([\d.]+)( %)?[^|]*"
    stated = {}
    for name, *cells in re.findall(rf"^\| ([^|]+) \| {number}\| (?:{number}|–) \|", page, re.M):
        passes, fails = (
            float(n) / (100 if percent else 1) if n else math.inf
            for n, percent in (cells[:2], cells[2:])
        )
        field = re.sub(r"[ -]", "_", name.partition(",")[0])
        stated[field] = Limit(passes, fails)
    assert stated == {n: v for n, v in vars(Limits()).items() if isinstance(v, Limit)}
    assert f"rms velocity of {Limits().still:.0e} rad/s".replace("e-0", "e-") in page
    assert f"more than {Limits().unexplained:.0%} of".replace("%", " %") in page


def test_the_table_of_coverage_has_a_line_for_each_stored_condition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readme, "RESULTS", tmp_path)
    assert readme.coverage() == readme.NOT_YET
    shares = {"base": 0.94, "friction": 0.5, "mass": 1.0}
    rows = [
        {"name": f"{condition}: {kind}, truths within intervals", "value": share}
        for condition in ("white", "ar1")
        for kind, share in shares.items()
    ]
    rows.append({"name": "ar1: base, the same of the worst number", "value": 0.25})
    (tmp_path / "coverage.json").write_text(json.dumps({"rows": rows}))
    lines = readme.coverage()[2:]
    assert lines[0] == "| white | 0.940 | 0.500 | – | – | – | 1.000 | – | – |"
    assert lines[1].startswith("| ar1 | 0.940 |") and lines[1].endswith("| 0.250 |")


def test_the_table_of_intervals_has_a_line_for_each_method_and_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readme, "RESULTS", tmp_path)
    assert readme.intervals() == readme.NOT_YET
    records = [{"inside": "10" + "1" * 118, "width": [1.0] * 120, "seconds": 2.0}]
    rows = [
        vars(row)
        for name in ("inner", "edge, weak")
        for row in intervals.rows_of_cell(name, "strict bounds", records)
    ]
    (tmp_path / "intervals.json").write_text(json.dumps({"rows": rows}))
    lines = readme.intervals()[2:]
    shares = "0.980 | 1.000 | 1.000 | 1.000 | 1.000 | 0.992 | 0.000 | 1 | 2 |"
    assert lines == [f"| strict bounds | {name} | {shares}" for name in ("inner", "edge, weak")]


@pytest.mark.parametrize("page", [p for p in PAGES if "```toml" in p.read_text("utf-8")])
def test_the_toml_of_a_page_is_accepted(page: Path) -> None:
    for block in blocks(page.read_text(encoding="utf-8"), "toml"):
        table = tomllib.loads(block)
        if page.stem == "derive":
            assert derive(block.encode()).joints
        elif page.stem == "cooperation":
            assert TEAM(table, page.name).robots
        elif page.stem == "free-flyer":
            assert BOUNDS(table, page.name) if "motion" in table else LOADS(table, page.name)
        elif "link" in table:
            assert Robot.from_text(block.encode(), path="arm.toml").joints
        elif "base" in table:
            assert Options.from_dict(table, page.name).base
        elif {"time", "topic", *KINDS} & set(table):
            assert ColumnMap.from_dict(table, page.name) is not None
        elif "actuator" in table:
            assert FILE(table, page.name).flyer().actuators.names
        elif "sensor" in table:
            assert Sensors.from_dict(table, page.name).wrenches
        elif "part" in table:
            assert all(set(part) <= {"file", "map", "offset"} for part in table["part"])
        elif "connect" in table:
            del table["tls"]  # its files are read at once
            table["connect"] = ["tcp/127.0.0.1:7447"]
            assert Link.from_dict(table, page).connect
        else:
            assert Options.from_dict(table, page.name) is not None


# --- the README


@pytest.mark.parametrize("code", blocks(README, "python"))
def test_the_code_of_the_readme_runs(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {"__name__": "__main__"})
    assert (tmp_path / "identified" / "robot.urdf").exists()


def test_the_commands_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [k for b in blocks(README, "console") for k in b.splitlines() if k.startswith("heft ")]
    assert len(lines) == 2
    import pyarrow.csv
    import pyarrow.parquet

    # Short logs: that the commands run is the matter here, not what comes out.
    (tmp_path / "arm.urdf").write_bytes((demo.FOLDER / "arm.urdf").read_bytes())
    table = pyarrow.parquet.read_table(demo.FOLDER / "run2.parquet")
    for number, (start, rows) in enumerate([(0, 1200), (1200, 600), (1800, 600), (0, 600)], 1):
        part = table.slice(start, rows)
        if number in (1, 4):
            pyarrow.parquet.write_table(part, tmp_path / f"run{number}.parquet")
        else:
            pyarrow.csv.write_csv(part, tmp_path / f"run{number}.csv")
    monkeypatch.chdir(tmp_path)
    for line in lines:
        monkeypatch.setattr(sys, "argv", shlex.split(line))
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
    assert {p.name for p in (tmp_path / "identified").iterdir()} == {
        "robot.urdf",
        "estimate.json",
        "information.npz",
        "report.html",
        "friction.py",
        "friction.c",
    }
    assert (tmp_path / "tau.parquet").exists()


def test_the_figures_of_the_readme_are_the_stored_ones() -> None:
    assert readme.filled(README) == README, "run: python -m benchmarks.readme"


def test_links_of_the_readme_lead_somewhere() -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)", README):
        assert (ROOT / target).exists(), target


def test_the_changelog_has_a_place_for_what_is_new() -> None:
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
