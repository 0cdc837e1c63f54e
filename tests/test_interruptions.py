"""Results are whole, whatever happens while they are made: kills, full and failing disks."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks import interruptions
from benchmarks.interruptions import NEW, Work, contents, failing, failures, prepared

from heft.applications.identification.results import write
from heft.files import writing
from heft.files.writing import put, workshop

KILLS = """
import json, sys, tempfile
from pathlib import Path
from benchmarks.interruptions import kills, prepared
with tempfile.TemporaryDirectory() as folder:
    tally = kills(prepared(Path(folder)), Path(folder), 3)
    print(json.dumps([tally.runs, tally.half, tally.differ, tally.stray]))
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Work:
    return prepared(tmp_path_factory.mktemp("pendulum"))


def page(_: object) -> str:
    """Return a report that is quickly made, and longer than a file's buffer."""
    return "<html></html>" * 10_000


def test_a_kill_leaves_whole_results_or_none_and_the_next_run_the_same_bytes() -> None:
    # In a process of its own, which has started no threads that a fork would lose.
    call = [sys.executable, "-c", KILLS]
    out = subprocess.run(call, capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[-1] == "[3, 0, 0, 0]"


def test_a_write_or_flush_that_fails_leaves_all_as_it_was(work: Work, tmp_path: Path) -> None:
    whole = {**work.whole, "report.html": page(None).encode()}
    quick = Work(work.inputs, work.found, work.earlier, whole, work.seconds)
    tally = failures(quick, tmp_path, 40, page)
    assert tally.runs >= 2 * 12  # each file's writes and flushes, with either error
    assert (tally.half, tally.differ, tally.stray) == (0, 0, 0)
    assert set(tally.seen) == {"as before"}


def test_writes_that_are_to_fail_do(tmp_path: Path) -> None:
    for at, error in ((0, errno.ENOSPC), (-1, errno.EIO)):
        with pytest.raises(OSError) as caught, failing(at, error):
            (tmp_path / "file").write_text("text")
            os.fsync(0)
        assert caught.value.errno == error


@pytest.fixture(params=[True, False], ids=["in one step", "in two steps"])
def exchanging(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Exchange folders in one step, and as on systems that cannot."""
    if not request.param:
        monkeypatch.setattr(writing, "_exchange", lambda *_: False)
    yield


@pytest.mark.usefixtures("exchanging")
@pytest.mark.parametrize("earlier", [False, True])
def test_a_folder_takes_its_place(earlier: bool, tmp_path: Path) -> None:
    out = tmp_path / "a folder" / "größe"
    if earlier:
        out.mkdir(parents=True)
        (out / "old").write_text("old")
    with workshop(out) as folder:
        (folder / "new").mkdir()
        (folder / "new" / "file").write_text("new")
        put(folder / "new", out)
    assert contents(out) == {"file": b"new"}
    assert [p.name for p in out.parent.iterdir()] == [out.name]


def test_a_file_takes_its_place(tmp_path: Path) -> None:
    out = tmp_path / "tau.csv"
    out.write_text("old")
    with workshop(out) as folder:
        (folder / "new").write_text("new")
        put(folder / "new", out)
    assert contents(tmp_path) == {"tau.csv": b"new"}


def test_what_a_killed_run_left_is_removed_and_what_a_running_one_needs_is_not(
    tmp_path: Path,
) -> None:
    out = tmp_path / "found"
    left, used, other = (
        tmp_path / n for n in (".found.heft-left", ".found.heft-used", ".fo.heft-left")
    )
    for folder in (left, used, other):
        folder.mkdir()
        (folder / "half").write_text("half a file")
    handle = os.open(used, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with workshop(out):
        assert not left.exists()
        assert used.exists() and other.exists()
    os.close(handle)
    with workshop(out):
        assert not used.exists()
    assert [p.name for p in tmp_path.iterdir()] == [other.name]


def test_a_link_in_the_place_stays_a_link(work: Work, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "found").symlink_to("disk")
    for _ in range(2):
        write(work.found[NEW], tmp_path / "found")
    assert (tmp_path / "found").is_symlink()
    assert contents(tmp_path / "disk")["robot.urdf"] == work.whole["robot.urdf"]


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o755), (0o077, 0o700)])
def test_who_may_read_results_is_as_the_user_set(
    mask: int, mode: int, work: Work, tmp_path: Path
) -> None:
    before = os.umask(mask)
    try:
        write(work.found[NEW], tmp_path / "found")
    finally:
        os.umask(before)
    assert (tmp_path / "found").stat().st_mode & 0o777 == mode
    assert (tmp_path / "found" / "estimate.json").stat().st_mode & 0o777 == mode & 0o666


AGAIN = """
import sys
from pathlib import Path
from benchmarks.interruptions import NEW, identified
from heft.applications.identification import report, write
write(identified(Path(sys.argv[1]), NEW), Path(sys.argv[2]), report.html)
"""


def test_the_surroundings_do_not_change_a_byte(work: Work, tmp_path: Path) -> None:
    folder = tmp_path / "wörk ing"
    folder.mkdir()
    root = str(Path(interruptions.__file__).parents[1])
    around = {
        **os.environ,
        "PYTHONHASHSEED": "7",
        "TZ": "Asia/Tokyo",
        "LC_ALL": "C",
        "PYTHONPATH": os.pathsep.join([root, *sys.path]),
    }
    call = [sys.executable, "-c", AGAIN, str(work.inputs), "found"]
    subprocess.run(call, check=True, cwd=folder, env=around)
    again = contents(folder / "found")
    assert {n for n in work.whole if again[n] != work.whole[n]} == set()
