"""What works without the extra `collisions`, and what says that it needs it, before it begins."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import coal
import numpy as np
import pyarrow.parquet
import pytest

from heft.applications.demo import FOLDER as DEMO
from heft.cli import main
from heft.errors import InvalidSetting, install
from heft.excitation import Clearance
from heft.models import Options, Robot, fit_capsules, motion_limits, with_shapes
from heft.models.shapes import mesh_surface

from .robots import ROOT, path_of

SOURCE = Path(__file__).parents[1] / "src"
ARM = DEMO / "arm.urdf"
BLOCKED = """import sys
sys.modules.update(dict.fromkeys(("coal", "hppfcl", "pinocchio", "eigenpy")))
from heft.cli import main
main()
"""
CURE = re.escape(install("collisions"))
MESHED = b"""<robot name="meshed"><link name="base"/>
<link name="rod"><collision><geometry><mesh filename="solid.obj"/></geometry></collision></link>
<joint name="turn" type="continuous"><parent link="base"/><child link="rod"/></joint></robot>"""
OBJ = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"


def heft(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command line where neither coal nor pinocchio can be imported."""
    return subprocess.run(
        [sys.executable, "-c", BLOCKED, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the halves of a log of the demo's, and what was identified from one."""
    found = tmp_path_factory.mktemp("light")
    table = pyarrow.parquet.read_table(DEMO / "run1.parquet")
    pyarrow.parquet.write_table(table[: len(table) // 2], found / "run.parquet")
    pyarrow.parquet.write_table(table[len(table) // 2 :], found / "part.parquet")
    (found / "meshed.urdf").write_bytes(MESHED)
    (found / "solid.obj").write_text(OBJ)
    (found / "inside.toml").write_text("com_in_hull = true")
    done = heft("identify", ARM, "run.parquet", "--out", "found", cwd=found)
    assert done.returncode == 0, done.stderr
    return found


@pytest.fixture
def without_coal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("coal", "hppfcl", "pinocchio", "eigenpy"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.usefixtures("without_coal")
@pytest.mark.parametrize(
    ("arguments", "says", "code"),
    [
        (("check", "part.parquet"), "part.parquet", 0),
        (("predict", "found", "part.parquet", "--out", "tau.parquet"), "tau.parquet", 0),
        # Nothing is carried: the verdict is poor.
        (("payload", "part.parquet", "run.parquet", "--robot", str(ARM)), "record longer", 1),
        (("sample", "found", "--n", "2", "--out", "draws"), "draws", 0),
        (("compare", "found", "found"), "no significant change", 0),
    ],
    ids=["check", "predict", "payload", "sample", "compare"],
)
def test_a_command_needs_no_shapes(
    arguments: tuple[str, ...],
    says: str,
    code: int,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["heft", *arguments])
    ended = 0
    try:
        main()
    except SystemExit as done:
        ended = int(done.code or 0)
    said, told = capsys.readouterr()
    assert ended == code, told
    assert says in said


def test_a_command_that_needs_a_mesh_says_so_before_it_begins(folder: Path) -> None:
    asked = ("identify", "meshed.urdf", "run.parquet", "--with", "inside.toml", "--out", "none")
    done = heft(*asked, cwd=folder)
    assert done.returncode == 2
    assert re.search(rf"the mesh solid\.obj takes the library 'coal'(.|\n)*{CURE}", done.stderr)
    assert "Traceback" not in done.stderr and not (folder / "none").exists()


@pytest.mark.usefixtures("without_coal")
@pytest.mark.parametrize("key", ["ellipsoid", "hull"])
def test_limits_by_a_mesh_need_it(key: str, folder: Path) -> None:
    options = Options.from_dict({"limits": {"rod": {key: "shape"}}})
    with pytest.raises(InvalidSetting, match=CURE):
        with_shapes(Robot.from_urdf_text(MESHED, options), folder)
    box = MESHED.replace(b'<mesh filename="solid.obj"/>', b'<box size="1 2 3"/>')
    limits = with_shapes(Robot.from_urdf_text(box, options), folder).options.limits
    assert limits is not None and getattr(limits["rod"], key) != "shape"


@pytest.mark.usefixtures("without_coal")
def test_the_mesh_of_an_mjcf_file_needs_it(folder: Path) -> None:
    (folder / "meshed.xml").write_text(
        '<mujoco><asset><mesh name="m" file="solid.obj"/></asset><worldbody><body name="rod">'
        '<joint name="turn"/><geom type="mesh" mesh="m"/></body></worldbody></mujoco>'
    )
    with pytest.raises(InvalidSetting, match=CURE):
        fit_capsules(Robot.from_file(folder / "meshed.xml"), folder)


@pytest.mark.usefixtures("without_coal")
def test_clearance_needs_it_where_what_is_in_overlapping_capsules_may_be_apart() -> None:
    robot = Robot.from_file(ARM)  # of which no shape is known but capsules
    limits = motion_limits(robot)
    assert Clearance.of(robot, fit_capsules(robot, ARM.parent), limits).pairs.size
    path = path_of("ur_description/urdf/ur10_robot.urdf")
    robot = Robot.from_file(path)
    capsules = fit_capsules(robot, path.parent)  # its meshes are binary STL
    assert not any("not found" in note for note in capsules.notes)
    with pytest.raises(InvalidSetting, match=CURE):
        Clearance.of(robot, capsules, motion_limits(robot))


def test_binary_stl_is_read_as_coal_reads_it() -> None:
    scale = np.array([1.0, 0.5, 2.0])
    for path in sorted((ROOT / "robots/ur_description/meshes/ur10/collision").glob("*.stl")):
        mesh = coal.MeshLoader().load(str(path), scale)
        corners = np.array(mesh.vertices()).reshape(-1, 3)
        index = [[t[0], t[1], t[2]] for t in map(mesh.tri_indices, range(mesh.num_tris))]
        found, wanted = mesh_surface(path, scale).triangles, corners[index]
        assert sorted(map(bytes, found)) == sorted(map(bytes, wanted)), path


@pytest.mark.parametrize("what", ["nan", "none"])
def test_stl_of_no_triangles_or_such_that_are_nowhere_is_told(what: str, folder: Path) -> None:
    body = b"" if what == "none" else np.full(12, np.nan, "<f4").tobytes() + bytes(2)
    count = np.array([len(body) // 50], "<u4").tobytes()
    (folder / "solid.stl").write_bytes(bytes(80) + count + body)
    robot = Robot.from_urdf_text(MESHED.replace(b"solid.obj", b"solid.stl"))
    assert any("solid.stl" in note for note in fit_capsules(robot, folder).notes)
