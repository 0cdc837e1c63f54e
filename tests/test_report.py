"""The report: what it says, and that a real browser draws it, offline, at any width."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from heft.applications.demo import FOLDER as DEMO
from heft.applications.identification import contract, load, next_motion, report
from heft.applications.identification.entries import base_entries, parameter_entries
from heft.applications.identification.identification import Identification
from heft.applications.identification.inputs import identify
from heft.applications.identification.results import content, schema, write
from heft.cli import app
from heft.display import rounded, split_sum
from heft.estimators import ESTIMATORS, Essential, FromInformation
from heft.fit.checks import JOINTS
from heft.fit.scores import filtered
from heft.fit.settings import Settings
from heft.recordings import Recording
from tests.browser import browser, opened


@pytest.fixture(scope="module")
def found() -> Identification:
    """Return the arm that comes with heft, identified."""
    return identify(DEMO / "arm.urdf", [DEMO / "run1.parquet"], [DEMO / "run2.parquet"])


@pytest.fixture(scope="module")
def written(found: Identification, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return its report as a file."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(report.html(found), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def out(found: Identification, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return its folder."""
    write(found, folder := tmp_path_factory.mktemp("found") / "out")
    return folder


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
    text = contract.vector([(v, 0.05 * scale) for v in values.tolist()])
    shown = text.split(", ")
    (decimals,) = {len(n.partition(".")[2]) for n in shown}
    assert np.abs(np.array([float(n) for n in shown]) - values).max() <= 0.5 * 10.0**-decimals
    assert not [n for n in shown if n.startswith("-") and float(n) == 0.0]


@pytest.mark.parametrize(
    ("value", "std", "text"),
    [
        (1.29571, 0.0031, "1.2957"),
        (11.056, 0.12, "11.06"),
        (4e-6, 0.03, "0.000"),  # told from nothing by nobody
        (-1e-9, 0.3, "0.00"),  # and of no sign
        (0.0123, 0.01, "0.0123"),
        (np.inf, 1.0, "–"),
    ],
)
def test_digits_follow_the_deviation(value: float, std: float, text: str) -> None:
    assert rounded(value, std) == text


def test_a_delay_is_said_with_its_side() -> None:
    assert report._behind(0.0032) == "Torque comes 3.2 ms behind motion."
    assert report._behind(-0.0037) == "Torque comes 3.7 ms ahead of motion."


def test_nothing_but_the_page_itself_is_referred_to(written: Path) -> None:
    text = written.read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    addresses = re.findall(r"""(?:src|href|action)\s*=\s*["']([^"']*)""", text)
    assert addresses and all(a.startswith(("#", "data:")) for a in addresses)
    assert not re.findall(r"@import|url\(|fetch\(|XMLHttpRequest|https?://", text)


def test_other_estimates_stand_beside_the_consistent_one_where_a_method_is_asked_for(
    found: Identification, tmp_path: Path
) -> None:
    files = (DEMO / "arm.urdf", [DEMO / "run1.parquet"], [DEMO / "run2.parquet"])
    other = identify(*files, settings=Settings(method="essential"))
    write(other, tmp_path / "out", report.html)
    jsonschema.validate(json.loads((tmp_path / "out/estimate.json").read_text("utf-8")), schema())
    by_name = {a.name: a for a in other.alternatives}
    consistent, essential = by_name["consistent"], by_name["essential"]
    assert set(by_name) == {
        *("consistent", "least-squares", "truncated regressor", "difference from the model"),
        *(n for n, make in ESTIMATORS.items() if isinstance(make(), Essential | FromInformation)),
    }
    assert consistent.physical and not essential.physical
    held_out = [s for s in other.validation if s.friction == "full" and s.filter_hz is not None]
    assert consistent.error == max(s.total for s in held_out)
    # The model file is that of least squares: another list of base parameters changes nothing.
    assert other.files == found.files and not found.alternatives
    assert (
        other.consistent.parameters.values.tobytes() == found.consistent.parameters.values.tobytes()
    )
    dropped = [e for e in base_entries(other) if e["value"] == e["std"] == 0.0]
    assert essential.parameters == np.count_nonzero(other.estimate.parameters.values)
    assert dropped and essential.parameters < by_name["least-squares"].parameters
    # Least squares of all is told alike by base parameters and by the truncated regressor.
    assert by_name["truncated regressor"].error == pytest.approx(by_name["least-squares"].error)
    for text in (report.text(other), (tmp_path / "out/report.html").read_text("utf-8")):
        assert all(name in text for name in by_name)
    assert "difference from the model" not in report.text(found)


def test_every_base_parameter_is_there_with_its_interval(
    found: Identification, written: Path
) -> None:
    text = written.read_text(encoding="utf-8")
    for row, entry in zip(contract.base(content(found)).rows, base_entries(found), strict=True):
        assert all(part in text for part in split_sum(row[0], 48)[:2])
        assert f"<td>{row[3]}</td>" in text
        low, high = (float(v) for v in row[3].split(" … "))
        assert low < entry["value"] < high
        assert row[5] == f"{entry['correlation']:+.2f} {entry['closest']}" and row[5] in text


def test_the_closest_base_parameter_leaves_least_to_its_own_line(found: Identification) -> None:
    """A share 1 − ρ² of a variance is left where the other is known; no other leaves less."""
    told, expressions = found.estimate.parameters, list(found.problem.base.expressions())
    entries, C = base_entries(found), told.covariance
    assert C is not None
    shown = [expressions.index(e["expression"]) for e in entries]
    for k, entry in zip(shown, entries, strict=True):
        left = {j: (C[k, k] - C[k, j] ** 2 / C[j, j]) / C[k, k] for j in shown if j != k}
        partner = told.labels.names.index(entry["closest"])
        assert partner == min(left, key=left.__getitem__)
        assert left[partner] == pytest.approx(1.0 - entry["correlation"] ** 2, abs=1e-9)
        assert np.sign(C[k, partner]) == np.sign(entry["correlation"])


def test_the_command_makes_it_again(found: Identification) -> None:
    words = report.command(found)
    assert words == (
        f"heft identify {DEMO / 'arm.urdf'} {DEMO / 'run1.parquet'} "
        f"--validate {DEMO / 'run2.parquet'}"
    )


def test_the_next_motion_is_a_command_that_can_be_typed(
    found: Identification, tmp_path: Path
) -> None:
    line = next_motion(found, tmp_path / "with blanks")
    command, bound, *_ = app.parse_args(shlex.split(line.partition("heft ")[2]))
    assert command.__name__ == "excite"
    asked = bound.arguments
    assert asked["model"] == DEMO / "arm.urdf" and asked["given"] == tmp_path / "with blanks"
    left = {e["name"] for e in parameter_entries(found) if e["seen"] == "prior"}
    assert asked["excitation"].about
    for link in asked["excitation"].about:
        assert any(n.startswith(f"{link}.") for n in left)


def test_the_headline_comes_first_and_names_the_worst_joint(
    found: Identification, written: Path
) -> None:
    errors, expected = found.torque_errors, found.predicted_error.per_joint
    assert errors is not None
    worst = max(expected, key=lambda j: expected[j])
    kinds = (errors.written, errors.drives, errors.identified)
    before, drives, now = (f"{100.0 * s.total:.2g}" for s in kinds)
    said = " ".join(report.text(found).splitlines()[:3])
    page = " ".join(written.read_text(encoding="utf-8").split())
    first, second = re.findall(r"</button>.*?<p>(.*?)</p> <p>(.*?)</p>", page)[0]
    for text in (said, first):
        shown = [float(n) for n in re.findall(r"([\d.]+)%", text)[:3]]
        assert shown == pytest.approx([float(before), float(drives), float(now)], rel=0.05)
        assert "run2.parquet (held out)" in text
    for text in (said, second):
        assert worst in text and f"{expected[worst]:.1%}" in text


def test_the_terminal_says_what_columns_mean_once_and_only_if_asked(
    found: Identification,
) -> None:
    """Seven joints have two lines more; two stand behind these: 25 at most."""
    short, explained = report.text(found), " ".join(report.text(found, explain=True).split())
    assert len(short.splitlines()) <= 25 - 2 - 2
    assert "one standard deviation" not in short
    assert explained.count("± is one standard deviation") == 1
    checks = tuple(replace(c, status="warn") for c in found.checks)
    many = replace(found, checks=checks)
    assert len(report.text(many).splitlines()) <= 25 - 2
    assert all(c.name in report.text(many) for c in checks)
    assert all(c.message in report.text(many, explain=True) for c in checks[:-1])


def test_a_check_that_asks_for_heft_check_says_how_to_type_it(found: Identification) -> None:
    (check,) = [c for c in found.checks if c.name == "predicted error"]
    other = replace(found, checks=(replace(check, status="warn", message=JOINTS.slower),))
    line = next(x for x in report.text(other).splitlines() if "predicted error" in x)
    command, bound, *_ = app.parse_args(shlex.split(line.rpartition("heft ")[2]))
    assert command.__name__ == "check"
    assert bound.args == (DEMO / "run1.parquet",)
    assert bound.arguments["robot"] == DEMO / "arm.urdf"


def test_checks_that_passed_are_folded_and_the_others_are_a_table(
    found: Identification, chromium: object, tmp_path: Path
) -> None:
    checks = [replace(c, status=s) for c, s in zip(found.checks, ("fail", "warn"), strict=False)]
    path = tmp_path / "report.html"
    path.write_text(report.html(replace(found, checks=(*checks, *found.checks[2:]))), "utf-8")
    with opened(chromium, path.as_uri()) as seen:
        tables = seen.page.locator(".checks table")
        assert [tables.nth(k).is_visible() for k in range(2)] == [True, False]
        rows = [tables.nth(k).locator("tbody tr") for k in range(2)]
        assert [r.count() for r in rows] == [2, len(found.checks) - 2]
        for k, (check, verdict) in enumerate(zip(checks, ("fail", "warning"), strict=True)):
            cells = rows[0].nth(k).locator("th, td").all_inner_texts()
            assert cells[0] == check.name and cells[3:] == [verdict, check.message]
            assert float(cells[2]) == pytest.approx(check.limit, rel=5e-3)
        seen.page.click(".checks > details > summary")
        assert tables.nth(1).is_visible()


def test_measured_torque_is_drawn_over_predicted_and_both_are_seen(
    written: Path, chromium: object
) -> None:
    with opened(chromium, written.as_uri()) as seen:
        page = seen.page
        page.wait_for_function(f"({PALETTE})().measured > 0")  # drawn, on a busy machine later
        shown = page.evaluate(PALETTE)
    assert shown["roles"] == ["predicted", "after", "before", "residual", "predicted", "measured"]
    assert shown["kinds"] == ["band", "band", "dashed", "line", "broad", "line"]
    # The colour of the line on top is there unmixed, that of the broad one beside it.
    assert shown["measured"] > 300 and shown["bluish"] > 1000


# Of the first plot of torque: what is drawn in which order, and pixels of either line's colour.
PALETTE = """() => {
  const figure = document.querySelector("#torque ~ details[open] figure");
  const canvas = figure.querySelector("canvas");
  const content = JSON.parse(document.getElementById("numbers").textContent);
  const { series } = content.drawings[figure.dataset.drawing];
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const found = { roles: series.map((s) => s.role), kinds: series.map((s) => s.kind) };
  found.measured = found.bluish = 0;
  for (let k = 0; k < data.length; k += 4) {
    if (data[k + 3] < 100) continue;
    if (data[k] + data[k + 1] + data[k + 2] < 200) found.measured += 1;
    else if (data[k + 2] > data[k] + 60) found.bluish += 1;
  }
  return found;
}"""


def test_the_error_beside_a_joint_s_name_is_that_of_its_score(
    found: Identification, written: Path
) -> None:
    text = written.read_text(encoding="utf-8")
    scores = (*found.fit, *found.validation)
    full = {s.path: s for s in scores if s.filter_hz is None and s.friction == "full"}
    for trace in found.traces:
        for c, curve in enumerate(trace.curves):
            share = full[trace.path].per_joint[curve.name]
            assert trace.rms_residual[c] == pytest.approx(share * trace.rms_measured[c], rel=1e-6)
            said = f"{curve.name}: rms {trace.rms_residual[c]:.3g} N·m ({share:.1%})"
            assert f"<summary>{said}</summary>" in text


def test_what_the_model_file_predicts_is_the_curve_that_its_error_is_of(
    found: Identification,
) -> None:
    errors = found.torque_errors
    assert errors is not None and errors.written.filter_hz is not None
    (trace,) = [t for t in found.traces if t.path == errors.written.path]
    for curve in trace.curves:
        assert curve.before is not None
        both = np.stack([curve.measured, curve.measured - curve.before], axis=1)
        step = float(np.median(np.diff(curve.time)))
        smooth = filtered(curve.time, both, step, errors.written.filter_hz)
        size, error = np.linalg.norm(smooth, axis=0)
        assert error / size == pytest.approx(errors.written.per_joint[curve.name], rel=1e-3)


def test_the_band_is_the_deviation_that_predict_states(found: Identification, out: Path) -> None:
    predicted = load(out).predict(DEMO / "run2.parquet")
    trace = found.traces[1]
    some, start = trace.moments, trace.curves[0].time[0]
    assert np.isin(some.time, predicted.time).all() and len(some.time) > 400
    at = np.searchsorted(predicted.time, some.time)
    for k, plot in enumerate(report._plots_of_torque(found, 0, trace)):
        about, beside = plot.series[:2]
        assert np.array_equal(about.y, plot.series[-2].y) and not np.any(beside.y - beside.minus)
        stated = np.interp(about.x + start, some.time, 1.96 * predicted.std[at, k])
        # before its first reversal within the band's rows a drive has gone as far as nobody knows
        reversed_ = some.time[1:][np.diff(np.sign(some.velocity[:, k])) != 0.0][0] - start
        for band in (about, beside):
            known = band.x > reversed_
            assert known.sum() > 0.8 * len(known)
            assert band.reach[known] == pytest.approx(stated[known], rel=1e-5)


def test_the_robot_is_played_as_the_held_out_log_moved_it_beside_its_torques(
    found: Identification,
) -> None:
    pinocchio = pytest.importorskip("pinocchio")
    model = pinocchio.buildModelFromUrdf(str(DEMO / "arm.urdf"))
    log = Recording.open(DEMO / "run2.parquet")
    names = [f"{kind}.{j}" for kind in ("q", "tau") for j in model.names[1:]]
    whole = log.in_memory(names).whole(names)
    q, tau = np.split(whole.values, 2, axis=1)
    shown, first = report._scene(found), found.traces[1].moments.time[0]
    assert not shown.plays and len(shown.time) > 150 and np.diff(shown.time).max() < 0.06
    joints, kinds = shown.torques
    assert list(joints) == list(model.names[1:])
    for k in range(0, len(shown.time), 20):
        now = shown.time[k] + first
        at = np.array([np.interp(now, whole.time, x) for x in q.T])
        data = model.createData()
        pinocchio.forwardKinematics(model, data, at)
        places = np.array([data.oMi[j].translation for j in range(1, model.njoints)])
        far = np.linalg.norm(shown.points[k][:, None] - places, axis=2).min(axis=0)
        assert far.max() < 0.01  # [m], of half a metre: what the low-pass leaves out
        for c, curve in enumerate(found.traces[1].curves):
            most = np.abs(curve.measured).max()
            j = list(model.names[1:]).index(curve.name)
            measured = np.interp(now, whole.time, tau[:, j]) / most
            assert kinds["measured"][k, c] == pytest.approx(measured, abs=1e-6)
    off = [np.abs(kinds[name] - kinds["measured"]).mean() for name in ("before", "after")]
    assert off[1] < 0.2 * off[0]


def test_of_a_clock_that_was_set_back_the_first_run_is_played_without_a_band(
    found: Identification,
) -> None:
    trace = found.traces[1]
    half = len(trace.moments.time) // 2
    start, back = trace.moments.time[0], trace.moments.time[half]

    def reset(time: np.ndarray) -> np.ndarray:
        return np.where(time < back, time, time - back + start)

    moments = replace(trace.moments, time=reset(trace.moments.time))
    curves = tuple(replace(c, time=reset(c.time)) for c in trace.curves)
    again = replace(found, traces=(found.traces[0], replace(trace, moments=moments, curves=curves)))
    assert report._reach(found, trace) and not report._reach(again, again.traces[1])
    played, whole = report._scene(again), report._scene(found)
    assert played.time[-1] == pytest.approx(trace.moments.time[half - 1] - start)
    same = [np.interp(played.time, whole.time, v) for v in whole.torques[1]["measured"].T]
    off = played.torques[1]["measured"] - np.array(same).T
    assert np.sqrt(np.mean(off**2)) < 0.03  # frames are not the same, and torque is noisy


def test_the_played_robot_waits_for_the_reader_and_stops_when_asked(
    written: Path, chromium: object
) -> None:
    context = chromium.new_context(viewport={"width": 1000, "height": 800})  # motion is welcome
    page = context.new_page()
    page.goto(written.as_uri())
    button, said = page.locator(".player button"), page.locator(".player output")
    page.wait_for_timeout(300)
    assert (button.inner_text(), said.inner_text()) == ("Play", "0.00 s")
    button.focus()
    page.keyboard.press("Enter")
    page.wait_for_function(
        "() => parseFloat(document.querySelector('.player output').textContent) > 0.2"
    )
    assert button.inner_text() == "Pause"
    page.keyboard.press("Enter")
    page.wait_for_timeout(100)
    stopped = said.inner_text()
    page.wait_for_timeout(200)
    assert (button.inner_text(), said.inner_text()) == ("Play", stopped)
    page.locator(".player input").fill("3.5")
    assert said.inner_text() == "3.50 s"
    page.emulate_media(media="print")
    assert not button.is_visible() and page.locator("figure.scene canvas").is_visible()
    context.close()


def test_a_held_out_part_of_a_fitted_file_is_shown_as_held_out(found: Identification) -> None:
    first, second = found.traces
    logs = report._logs(replace(found, traces=(first, replace(second, path=first.path))))
    assert [(log["name"], log["role"]) for log in logs] == [
        ("run1.parquet", "held out"),
        ("run1.parquet", "fitted"),
    ]


def test_a_page_folds_what_is_long_and_a_wide_table_says_that_it_scrolls(
    written: Path, chromium: object
) -> None:
    with opened(chromium, written.as_uri()) as seen:
        assert seen.page.evaluate(CLIPPED) == [0, 0]
    with opened(chromium, written.as_uri(), 1000, 800) as seen:
        assert seen.page.evaluate(SEVENTH) < 3 * 800
        pages = re.findall(rb"/Type\s*/Page\b", seen.page.pdf(format="A4"))
        assert 2 <= len(pages) <= 4
    with opened(chromium, written.as_uri(), 390) as seen:
        wide, hinted = seen.page.evaluate(CLIPPED)
        assert wide == hinted > 1
        seen.page.evaluate(
            "document.querySelectorAll('details').forEach((d) => { d.open = true; })"
        )
        opened_wide, opened_hinted = seen.page.evaluate(CLIPPED)
        assert opened_wide == opened_hinted > wide
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= 390


# Where the page begins to fold, if a seventh joint has its link, its row and its plots.
SEVENTH = """() => {
  for (const body of document.querySelectorAll("#masses + div tbody, #friction + div tbody"))
    body.append(body.lastElementChild.cloneNode(true));
  for (const grid of document.querySelectorAll(".grid"))
    if (grid.checkVisibility()) grid.append(grid.lastElementChild.cloneNode(true));
  return document.querySelector("#verdict").getBoundingClientRect().top;
}"""


# Tables in sight that are wider than their place, and those that say so.
CLIPPED = """() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
  const seen = [...document.querySelectorAll(".wide")].filter((one) => one.checkVisibility());
  const says = (one) => getComputedStyle(one, "::before").content.includes("scroll");
  done([seen.filter((one) => one.scrollWidth > one.clientWidth).length, seen.filter(says).length]);
})))"""


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
        page.wait_for_timeout(500)  # drawn; reading pixels twice would be warned of
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
        plots = page.locator("#torque ~ details[open] figure")
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
        assert not any("model file" in text for text in said)
        page.check("input[data-role=before]")
        assert all("model file" in plots.nth(k).locator("output").inner_text() for k in range(6))
        plots.first.locator("canvas").focus()
        page.keyboard.press("Tab")  # on to the next plot's table,
        page.keyboard.press("Tab")  # and to the plot
        focused = page.evaluate("document.activeElement.getAttribute('aria-label')")
        assert focused == plots.nth(1).locator("canvas").get_attribute("aria-label")


@pytest.mark.parametrize(("width", "rows"), [(1000, 6), (390, 0)])
def test_the_first_screen_holds_headline_robot_and_first_masses(
    width: int, rows: int, written: Path, chromium: object
) -> None:
    with opened(chromium, written.as_uri(), width=width, height=800) as seen:
        page = seen.page
        sentence = page.locator("p", has_text="with its masses and fitted friction").first
        headline = page.locator("p.answer")
        assert headline.bounding_box()["y"] < sentence.bounding_box()["y"] < 700
        scene, masses = page.locator("figure.scene canvas"), page.locator("table").first
        tops = [headline.bounding_box()["y"], scene.bounding_box()["y"]]
        assert 0 < tops[0] < tops[1] < 700
        if rows:
            last = masses.locator("tbody tr").nth(rows - 1).bounding_box()
            assert last["y"] + last["height"] < 800
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_headings_are_in_order(written: Path, chromium: object) -> None:
    with opened(chromium, written.as_uri()) as seen:
        levels = seen.page.evaluate(
            "[...document.querySelectorAll('h1,h2,h3')].map((h) => Number(h.tagName[1]))"
        )
        assert levels.count(1) == 1 and levels[0] == 1
        assert all(b <= a + 1 for a, b in itertools.pairwise(levels))
