"""What is installed from the wheel, and nothing else: the core alone, and with each extra alone."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from packaging.requirements import Requirement

import heft
from heft.applications import demo
from heft.applications.free_flyer import design_files
from heft.errors import DISTRIBUTION, install
from heft.excitation import DesignSettings

from .ulog_files import write_ulog

ROOT = Path(__file__).parents[1]
ARM = demo.FOLDER / "arm.urdf"

# What each extra is for. In the folder are a log, a motion, flights and tables to derive from.
SCRIPT = "from heft.cli import main; main()"
IN_TURN = """
import json, sys
from heft.cli import main
for words in json.loads(sys.argv[1]):
    sys.argv = ["heft", *words]
    try:
        main()
    except SystemExit as ended:
        print(f"ENDED {ended.code}", flush=True)
"""
USES = {
    "collisions": ("identify", "meshed.urdf", "turn.parquet", "--with", "inside.toml"),
    "simulation": ("simulate", str(ARM), "brief.parquet", "--out", "simulated.parquet"),
    "flight": (
        "freeflyer",
        "track",
        "space_cobot",
        "motion",
        "--cycles",
        "1",
        "--out",
        "flown.parquet",
    ),
    "ros": ("convert", "brief.parquet", "--out", "brief.mcap"),
    "symbolic": ("derive", str(ROOT / "examples" / "two_link.toml"), "--out", "two.txt"),
    "view": ("view", str(ARM), "--no-open"),
    "live": ("payload", "--live", "--sensor", "wrist.toml", "--on", "link.toml"),
}
MESHED = b"""<robot name="meshed"><link name="base"/>
<link name="rod"><collision><geometry><mesh filename="solid.obj"/></geometry></collision></link>
<joint name="turn" type="continuous"><parent link="base"/><child link="rod"/></joint></robot>"""
OBJ = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
ENDLESS = {"view": "http://", "live": "listening at"}  # until it says so


def closure(extra: str | None) -> set[str]:
    """Return the distributions that the wheel's metadata asks for, and all that those ask for."""
    found: set[str] = set()
    waiting = [(DISTRIBUTION, extra or "")]
    while waiting:
        name, wanted = waiting.pop()
        for line in importlib.metadata.requires(name) or ():
            needed = Requirement(line)
            if needed.marker is not None and not needed.marker.evaluate({"extra": wanted}):
                continue
            key = needed.name.lower()
            if key not in found:
                found.add(key)
                waiting += [(needed.name, e) for e in ("", *needed.extras)]
    return found - {DISTRIBUTION}


def installed(folder: Path, wheel: Path, extra: str | None) -> Path:
    """Make an environment of the wheel and what it asks for, linked to here; return its Python."""
    venv.create(folder, symlinks=True, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(site)
    for name in closure(extra):
        distribution = importlib.metadata.distribution(name)
        for first in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            if not (site / first).exists():
                (site / first).symlink_to(Path(str(distribution.locate_file(first))).resolve())
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that would be published, for processors like this one."""
    folder = tmp_path_factory.mktemp("dist")
    made = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"HEFT_KERNELS": "host"},
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small inputs for every use."""
    found = tmp_path_factory.mktemp("inputs")
    table = pyarrow.parquet.read_table(demo.FOLDER / "run1.parquet")
    pyarrow.parquet.write_table(table[:1200], found / "run.parquet")
    motion = table.select([c for c in table.column_names if c == "t" or c.startswith("q.")])
    pyarrow.parquet.write_table(motion[:300], found / "brief.parquet")
    turn = table[:1200].select(["t", "q.shoulder_pan", "tau.shoulder_pan"])
    pyarrow.parquet.write_table(
        turn.rename_columns(["t", "q.turn", "tau.turn"]), found / "turn.parquet"
    )
    (found / "meshed.urdf").write_bytes(MESHED)
    (found / "solid.obj").write_text(OBJ)
    (found / "inside.toml").write_text("com_in_hull = true")
    poses = [
        ("vehicle_odometry", {"timestamp": k, "timestamp_sample": k, "q": np.eye(4)[0]})
        for k in range(0, 400000, 10000)
    ]
    write_ulog(found / "flight.ulg", poses)
    (found / "bounds.toml").write_text("[motion]\nperiod = 8.0\ncycles = 1\nvelocity = 0.8\n")
    quick = DesignSettings(random=12, starts=1, workers=1)
    design_files("space_cobot", found / "motion", found / "bounds.toml", settings=quick)
    (found / "wrist.toml").write_text('[sensor.wrist]\nkind = "wrench"\nreports = "on_sensor"\n')
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    (found / "link.toml").write_text(f'listen = ["tcp/127.0.0.1:{port}"]\n')
    return found


def run(python: Path, arguments: tuple[str, ...], folder: Path, until: str = "") -> tuple[int, str]:
    """Run a command to its end, or until it says something; return its status and what it said."""
    process = subprocess.Popen(
        [str(python), "-P", "-E", "-c", SCRIPT, *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    said = ""
    with process:
        for line in process.stdout:
            said += line
            if until and until in line:
                process.terminate()
                return 0, said
    return process.returncode, said


def test_a_wheel_brings_its_kernels_and_is_for_the_python_and_systems_of_its_numba(
    wheel: Path,
) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    kernels = [n for n in names if n.startswith("heft/kernels/")]
    assert len(kernels) == 13
    version = "cp{}{}".format(*sys.version_info)
    assert re.fullmatch(rf"[\w.]+-[\d.]+-{version}-{version}-manylinux[\w.]+\.whl", wheel.name)
    assert not [n for n in names if n.startswith(("tests", "benchmarks"))]


def test_every_cure_that_is_printed_or_written_is_answered_by_the_wheel(wheel: Path) -> None:
    """As they stand, but for where packages come from."""
    texts = [p.read_text(encoding="utf-8") for p in (ROOT / "src").rglob("*.py")]
    texts += [p.read_text(encoding="utf-8") for p in [ROOT / "README.md", *ROOT.glob("docs/*.md")]]
    named = r'(?:install\(|optional_library\("\w+", message, )"(\w+)"'
    cures = {install(extra) for text in texts for extra in re.findall(named, text)}
    cures |= {c for text in texts for c in re.findall(r"pip install '[\w-]+\[[\w,]+\]'", text)}
    assert {install(extra) for extra in USES} <= cures
    asked = [shlex.split(cure)[2] for cure in sorted(cures)]
    where = ["--no-index", "--find-links", str(wheel.parent), "--no-deps", "--ignore-installed"]
    typed = [sys.executable, "-m", "pip", "install", "--dry-run", *where, *asked]
    done = subprocess.run(typed, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"Would install {DISTRIBUTION}-{heft.__version__}" in done.stdout
    assert "does not provide the extra" not in done.stderr + done.stdout


@pytest.fixture(scope="module")
def core(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of an environment with the core alone."""
    return installed(tmp_path_factory.mktemp("core"), wheel, None)


def test_a_first_answer_compiles_nothing_where_nothing_can_be_written(
    core: Path, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "full").write_text("")
    nowhere = dict.fromkeys(("HOME", "XDG_CACHE_HOME"), str(tmp_path / "full"))
    command = ("identify", str(ARM), "run.parquet", "--out", str(tmp_path / "out"))
    process = subprocess.run(
        [str(core), "-P", "-E", "-c", SCRIPT, *command],
        cwd=folder,
        env=os.environ | nowhere,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    assert "compiling" not in process.stderr
    assert json.loads((tmp_path / "out" / "estimate.json").read_text())


def test_a_flight_controllers_log_needs_no_extra(core: Path, folder: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "flight.parquet")
    status, said = run(core, ("convert", "flight.ulg", "--out", out), folder)
    assert status == 0 and "40 rows" in said, said


def test_what_lacks_an_extra_names_it(core: Path, folder: Path) -> None:
    process = subprocess.run(
        [str(core), "-P", "-E", "-c", IN_TURN, json.dumps(list(USES.values()))],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120.0,
    )
    assert "Traceback" not in process.stdout
    *told, rest = re.split(r"ENDED (\w+)\n", process.stdout)
    assert not rest and len(told) == 2 * len(USES), process.stdout
    for extra, said, code in zip(USES, told[::2], told[1::2], strict=True):
        assert code not in ("0", "None") and install(extra) in said, said


@pytest.mark.parametrize("extra", sorted(USES))
def test_an_extra_alone_is_enough(extra: str, wheel: Path, folder: Path, tmp_path: Path) -> None:
    with_it = installed(tmp_path, wheel, extra)
    status, said = run(with_it, USES[extra], folder, ENDLESS.get(extra, ""))
    assert "pip install" not in said and "Traceback" not in said, said
    assert status == 0, said
