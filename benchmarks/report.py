"""How large reports are and how fast a browser draws them, and the pictures of the documentation.

    python -m benchmarks.report [--pictures] [--store]

A seven-joint arm is simulated at 1 kHz, for 20 s and for a million samples; each report is opened
in headless Chromium, from the file to the last plot drawn, with all plots unfolded. `--pictures`
also writes those of each page, light and dark, of `heft view` where viser is installed, and with
HEFT_DATA a picture of each measured robot, into `docs/pictures`.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from tests.browser import NAMES, THREE_DIMENSIONS, browser, opened
from tests.experiments import ARMS, log, true_robot, wrong_prior
from tests.test_screens import written

from benchmarks.arms import ROBOTS, data_folder
from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_most
from benchmarks.sources import ROOT
from heft.applications.demo import FOLDER as DEMO
from heft.applications.identification import compare_report, report
from heft.applications.identification.comparison import compare
from heft.applications.identification.identification import Identification
from heft.applications.identification.inputs import identify
from heft.applications.identification.results import write
from heft.models.options import JointOptions, Options
from heft.models.robot import Robot

ARM, RATE, NOISE = "seven joints", 1000.0, 0.02
SECONDS, MANY = 20.0, 1_000_000  # of the short log [s], samples of the long one
REPEATS = 5
SHOWN = ("compare", "check", "payload", "excite", "freeflyer", "coop")
PICTURES = ROOT / "docs" / "pictures"
DRAWN = """() => new Promise((done) => {
  document.querySelectorAll('details').forEach((d) => { d.open = true; });
  requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())));
})"""


def identified(seconds: float) -> Identification:
    """Return a simulated seven-joint arm, identified from one log at 1 kHz."""
    rng = np.random.default_rng(7)
    truth = true_robot(ARMS[ARM], rng)
    # Simple friction: the report does not depend on it, and a long log is fitted ten times faster.
    options = Options(joint=dict.fromkeys(truth.robot.joints, JointOptions(friction="simple")))
    robot = Robot.from_urdf_text(wrong_prior(truth.robot, rng), options)
    return identify(robot, [log(truth, seconds, RATE, rng, NOISE)])


def a_million(found: Identification) -> Identification:
    """Return the same result as of a log of a million samples, with traces as long as that."""
    from heft.display.curves import Stretch, Tracer, moments

    rng, rows, channels = np.random.default_rng(8), MANY, found.problem.channels
    step, size = 1.0 / RATE, len(found.problem.channels)
    tracer = Tracer(
        found.traces[0].path, channels, [(c, k, k) for k, c in enumerate(channels)], step, rows
    )
    for first in range(0, rows, MANY // 10):
        time_ = step * np.arange(first, first + MANY // 10)
        wave = np.sin(time_[:, None] * np.arange(1, size + 1))
        noise = rng.normal(size=wave.shape)
        measured = 20.0 * wave + noise
        index = np.arange(first, first + MANY // 10)
        efforts = (measured, 20.0 * wave[None], 18.0 * wave)
        none = (wave[:, :0], wave[moments(index, rows), :0])
        tracer.add(Stretch(time_, wave, wave, *none, 0, index, *efforts))
    trace = tracer.trace()
    assert trace is not None
    return replace(found, traces=(trace,))


def drawn(running: object, page: Path) -> float:
    """Return how long a browser takes from the file to the last plot, median [s]."""
    times = []
    for _ in range(REPEATS):
        with opened(running, page.as_uri()) as seen:
            times.append(float(seen.page.evaluate(DRAWN)) / 1000.0)
            assert seen.said == []
    return statistics.median(times)


def rows_of(
    found: Identification, what: str, limit: float, soon: float | None, folder: Path
) -> list[Row]:
    """Return size, time to make and time to draw of a report, with what was asked for."""
    path = folder / "report.html"
    start = time.perf_counter()
    path.write_text(report.html(found), encoding="utf-8")
    made = time.perf_counter() - start
    title = f"{what}: drawn by headless Chromium, median of {REPEATS}"
    seen = Row(title, float("nan"), "s", None, None, "no browser is installed")
    if any(map(shutil.which, NAMES)):
        with browser() as running:
            seen = at_most(title, drawn(running, path), "s", soon)
    size = at_most(f"{what}: size", path.stat().st_size / 1e6, "MB", limit)
    return [size, seen, at_most(f"{what}: made", made, "s", None)]


def write_pictures(folder: Path) -> None:
    """Write the pictures of the documentation: light, and dark as `NAME-dark.png`."""
    with contextlib.chdir(folder):  # the picture names the folders as they are given
        changed = compare(*changing())
    pages = written(folder)
    pages["compare"].write_text(compare_report.html(changed), encoding="utf-8")
    shown = {k: (pages[k].as_uri(), "") for k in SHOWN}
    shown["report"] = pages["identify"].as_uri(), ""
    shown["friction"] = pages["identify"].as_uri() + "#friction", ""
    if "HEFT_DATA" in os.environ:
        for name, cases_of in ROBOTS.items():
            case, page = next(iter(cases_of(data_folder()))), folder / f"{name}.html"
            page.write_text(report.html(identify(case.robot, case.fit)), encoding="utf-8")
            shown[f"robot-{name}"] = page.as_uri(), ".scene canvas"
    for name, (address, part) in shown.items():
        with browser() as running:
            picture(running, name, address, part)
    sensor, log_ = folder / "wrist.toml", folder / "grasp.npz"
    replay = ["payload", "--live", "--sensor", sensor, "--replay", log_, "--speed", "0.15"]
    with served([*replay, "--serve"]) as address, browser() as running:
        picture(running, "live", address, "", "#mass:has-text('±')")
    watch = ["coop", "watch", "--config"]
    with team(folder) as config, served([*watch, config]) as address, browser() as running:
        picture(running, "watch", address, "", "#mass:has-text('±')")
    shows = ["view", DEMO / "arm.urdf", DEMO / "run1.parquet", "--no-open"]
    try:
        for ending, more in (("", ()), ("-dark", ("--dark",))):
            with served([*shows, *more]) as address:
                view(address, f"view{ending}")
    except RuntimeError:  # no address was printed
        sys.stderr.write("viser is not installed: view.png stays as it is\n")


def picture(running: object, name: str, address: str, part: str, ready: str = "body") -> None:
    """Write a page's first screen, or a part of it, light and dark, in few colours."""
    from PIL import Image

    for scheme, ending in (("light", ""), ("dark", "-dark")):
        out = PICTURES / f"{name}{ending}.png"
        with opened(running, address, 752 if part else 1000, 720, scheme) as seen:
            seen.page.locator(ready).wait_for()
            seen.page.wait_for_timeout(3000 if ready != "body" else 500)
            (seen.page.locator(part) if part else seen.page).screenshot(path=out)
        Image.open(out).convert("RGB").quantize(128, kmeans=2).save(out, optimize=True)


def changing() -> tuple[Path, Path]:
    """Identify an arm before and after its elbow rubs more, here; return the two folders."""
    rng = np.random.default_rng(9)
    truth = true_robot(ARMS["six joints"], rng)
    robot = Robot.from_urdf_text(wrong_prior(truth.robot, rng))
    name = f"{robot.joints[2]}.coulomb"
    worn = replace(truth, drives={**truth.drives, name: 1.15 * truth.drives[name]})
    for folder, one in (("october", truth), ("november", worn)):
        write(identify(robot, [log(one, 20.0, 250.0, rng, NOISE)]), Path(folder))
    return Path("october"), Path("november")


@contextlib.contextmanager
def served(arguments: Sequence[str | Path]) -> Iterator[str]:
    """Yield the address that a command serves."""
    call = [sys.executable, "-m", "heft", *map(str, arguments)]
    server = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert server.stdout is not None
    said = (re.search(r"http://\S+", line) for line in server.stdout)
    yield next(found.group() for found in said if found)
    server.send_signal(signal.SIGINT)
    server.wait(10.0)


@contextlib.contextmanager
def team(folder: Path) -> Iterator[Path]:
    """Run the nodes of three robots that hold a load, on their simulated logs; yield their file."""
    config = folder / "nodes.toml"
    pairs = [["robot0", "robot1"], ["robot1", "robot2"], ["robot2", "robot0"]]
    robots = "".join(f'[[robot]]\nname = "robot{k}"\n' for k in range(3))
    config.write_text(f"edges = {pairs}\n{robots}", encoding="utf-8")
    call = [sys.executable, "-m", "heft", "coop", "node", "--config", str(config)]
    logs = {f"robot{k}": str(folder / "run" / f"robot{k}.parquet") for k in range(3)}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    nodes = [
        subprocess.Popen([*call, "--id", name, "--replay", path], **quiet)
        for name, path in logs.items()
    ]
    yield config
    for node in nodes:
        node.send_signal(signal.SIGINT)
        node.wait(10.0)


def view(address: str, name: str) -> None:
    """Write a picture of `heft view`."""
    with browser(*THREE_DIMENSIONS) as running, opened(running, address, 1000, 640) as seen:
        seen.page.get_by_text("masses").wait_for()
        seen.page.locator(".mantine-Notification-root button").first.click()  # no GPU here
        moment = "Math.max(...[...document.querySelectorAll('input')].map((i) => +i.value || 0))"
        seen.page.wait_for_function(f"{moment} > 3")
        seen.page.screenshot(path=PICTURES / f"{name}.png")


@benchmark({"ARM": "two joints", "SECONDS": 2.0, "MANY": 20_000, "REPEATS": 1})
def main(*, pictures: bool = False) -> Iterator[Row]:
    """Yield the rows.

    Args:
        pictures: Write those of the documentation, too.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        short = identified(SECONDS)
        yield from rows_of(short, f"seven joints, {SECONDS:g} s at 1 kHz", 6.0, 2.0, folder)
        what = "seven joints, a million samples"
        yield from rows_of(a_million(short), what, 10.0, None, folder)
        if pictures:
            write_pictures(folder)


if __name__ == "__main__":
    main()
