"""From a bare machine to the first answer: every Python at hand, from a clone and from a wheel.

    python -m benchmarks.install [--pythons 3.11 3.12] [--gate] [--store]

Each interpreter is asked for by its version, among those on the path and of pyenv. Installations
are bare environments in a scratch folder, by that Python's own pip. The first answer is `heft
identify` on the demo's logs with the installation mounted read-only and no home: the first start
and the second. All times are the processor's, so that a busy machine counts less.
"""

from __future__ import annotations

import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_most
from benchmarks.sources import ROOT
from heft.applications.demo import FOLDER as DEMO

ANSWER = "from heft.cli import main; main()"
LARGEST = 680.0  # [MB] of the core's installation without pip
LOGS = (DEMO / "run1.parquet", "--validate", DEMO / "run2.parquet")
HOSTILE = ("numba", "numpy", "scipy", "llvmlite", "pyarrow", "clarabel", "json", "pickle", "heft")
NOWHERE = {"HOME": "/dev/null", "XDG_CACHE_HOME": "/dev/null/cache"}
GATE_BEFORE, GATE_MOST = 21.5, 10.0  # [min] of commit 2810269 on this kind of machine; asked for
SYSTEM = ("wheel", "setuptools", "pip")  # what an environment holds before anything is installed


def interpreter(version: str) -> Path | None:
    """Return a Python of a version, None if there is none at hand."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    tried = [*sorted(pyenv.glob(f"{version}*/bin/python"), reverse=True)]
    found = shutil.which(f"python{version}")
    for path in [*tried, *([Path(found)] if found else [])]:
        asked = subprocess.run([path, "--version"], capture_output=True, text=True)
        if asked.stdout.startswith(f"Python {version}"):
            return path
    return None


def surrounded(more: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment without what is of this installation, and some more."""
    own = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "MAKEFLAGS")}
    return own | dict(more)


def spent(command: str, folder: Path, surroundings: Mapping[str, str] = {}) -> tuple[int, float]:
    """Run a command of the shell; return its exit status and the processor's time [s]."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    call, env = ["bash", "-c", command], surrounded(surroundings)
    done = subprocess.run(call, cwd=folder, env=env, capture_output=True, text=True)
    if done.returncode:
        print(done.stdout[-2000:], done.stderr[-2000:], file=sys.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.returncode, sum(after[:2]) - sum(before[:2])


def megabytes(site: Path) -> float:
    """Return the size of installed packages without what an empty environment holds [MB]."""
    own = [p for p in site.iterdir() if not p.name.startswith((*SYSTEM, "_distutils", "pkg_res"))]
    du = subprocess.run(
        ["du", "-sc", "--block-size=1000000", *own], capture_output=True, text=True, check=True
    )
    return float(du.stdout.splitlines()[-1].split()[0])


def answers(
    python: Path, installed: Path, scratch: Path, name: str, home: Mapping[str, str]
) -> Iterator[Row]:
    """Yield the first and the second answer of an installation that is mounted read-only.

    Args:
        python: Its interpreter.
        installed: Folder that is mounted.
        scratch: Folder for results.
        name: Of the installation.
        home: Environment variables that say where it may write.
    """
    work = scratch / "answers"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    for module in HOSTILE:
        (work / f"{module}.py").write_text("open('run', 'a')\n")
    words = [python, "-P", "-c", ANSWER, "identify", DEMO / "arm.urdf", *LOGS, "--out", "out"]
    heft = shlex.join(map(str, words))
    place = shlex.quote(str(installed))
    mounted = f"mount --bind {place} {place} && mount -o remount,bind,ro {place}"
    measured = f"{heft} >&2 && rm -r out"
    command = f"unshare --mount bash -c {shlex.quote(f'{mounted} && {measured}')}"
    status, cold = spent(command, work, home)
    # By a small process: the peak of a child is never below that of who starts it.
    asks = (
        "import resource, subprocess as s; "
        f"s.run(['bash', '-c', {command!r}], stdout=s.DEVNULL, stderr=s.DEVNULL); "
        "used = resource.getrusage(resource.RUSAGE_CHILDREN); "
        "print(used.ru_utime + used.ru_stime, used.ru_maxrss)"
    )
    again = [sys.executable, "-P", "-c", asks]
    asked = subprocess.run(again, cwd=work, env=surrounded(home), capture_output=True, text=True)
    warm, peak = map(float, asked.stdout.split())
    yield at_most(f"{name}: exit status", status, "", 0)
    yield Row(f"{name}: second answer", warm, "s")
    yield at_most(f"{name}: first answer, in second ones", cold / warm, "", 1.5)
    yield Row(f"{name}: peak of memory", peak / 1024, "MiB")
    run = len((work / "run").read_text()) if (work / "run").exists() else 0
    yield at_most(f"{name}: modules of a hostile folder that ran", run, "", 0)


def installations(version: str, python: Path, scratch: Path) -> Iterator[Row]:
    """Yield what it takes to install from a clone and from a wheel, and their first answers."""
    name = f"Python {version}"
    asked = [python, "-m", "pip", "--version"]
    pip = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()[1]
    clone, bare = scratch / f"clone-{version}", scratch / f"bare-{version}"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    status, seconds = spent(f"make .venv/.installed PYTHON={shlex.quote(str(python))}", clone)
    yield at_most(f"{name}, pip {pip}, clone: exit status of `make`", status, "", 0)
    yield Row(f"{name}, clone: all that the tests need", seconds, "s")
    status, seconds = spent("make wheel", clone, {"HEFT_KERNELS": "host"})
    yield at_most(f"{name}: exit status of `make wheel`", status, "", 0)
    yield Row(f"{name}: wheel with kernels for processors of one level", seconds, "s")
    (wheel,) = (clone / "dist").glob("*.whl")
    yield Row(f"{name}: size of that wheel", wheel.stat().st_size / 1e6, "MB")
    install = f"-m pip install --only-binary :all: -c {ROOT}/constraints.txt {wheel}"
    make = (
        f"{python} -m venv {bare} && {bare}/bin/python {install} && {bare}/bin/python -m pip check"
    )
    status, seconds = spent(make, scratch)
    yield at_most(f"{name}, pip {pip}, wheel: exit status", status, "", 0)
    yield Row(f"{name}, wheel: installation", seconds, "s")
    (site,) = bare.glob("lib/python*/site-packages")
    yield at_most(f"{name}, wheel: size without pip", megabytes(site), "MB", LARGEST)
    read_only = f"{name}, wheel mounted read-only, no home"
    yield from answers(bare / "bin" / "python", bare, scratch, read_only, NOWHERE)


@benchmark(
    {"pythons": (), "LOGS": (DEMO / "run2.parquet", "--corner", "10", "--delay", "0")},
    unstored=("pythons",),
)
def main(
    *, pythons: tuple[str, ...] = ("3.11", "3.12", "3.13"), gate: bool = False
) -> Iterator[Row]:
    """Yield rows.

    Args:
        pythons: Versions of Python.
        gate: Whether the tests are timed as well.
    """
    with tempfile.TemporaryDirectory() as scratch:
        for version in pythons:
            python = interpreter(version)
            if python is not None:
                yield from installations(version, python, Path(scratch))
        prefix = Path(sys.prefix)
        kept = "a clone whose kernels are in the user's cache"
        yield from answers(Path(sys.executable), prefix, Path(scratch), kept, {})
        if gate:
            clone = Path(scratch) / "gate"
            subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
            spent("make .venv/.installed", clone)
            command = "date +%s && make test && date +%s"
            timed = subprocess.run(
                ["bash", "-c", command], cwd=clone, capture_output=True, text=True
            )
            if timed.returncode:
                raise SystemExit(timed.stdout[-4000:] + timed.stderr[-4000:])
            begin, end = (int(t) for t in re.findall(r"^\d{10}$", timed.stdout, re.M))
            yield Row("tests before", GATE_BEFORE, "min", against="commit 2810269")
            yield at_most("tests", (end - begin) / 60.0, "min", GATE_MOST)


if __name__ == "__main__":
    main()
