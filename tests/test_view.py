"""The viewer: what it finds in a model file and a log, and that a real browser shows it."""

from __future__ import annotations

import io
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from heft.applications.demo import FOLDER as DEMO
from heft.applications.viewer import Shape, _ranges, read_motion, shapes
from heft.cli import main
from heft.errors import InputError, InvalidModel
from heft.models import MeshSearch
from heft.models.robot import Robot
from tests.browser import THREE_DIMENSIONS, browser, opened

SOURCE = Path(__file__).parents[1] / "src"
trimesh = pytest.importorskip("trimesh", reason="NO TRIMESH: heft view stays untested")
VISUALS = """<robot name="r"><link name="base"/><link name="arm"><inertial><mass value="1"/>
<inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>{}</link>
<joint name="j" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 0 1"/>
<limit lower="-1" upper="1" effort="1" velocity="1"/></joint></robot>"""


def visual(geometry: str, origin: str = "") -> str:
    """Return a link's visual element."""
    return f"<visual>{origin}<geometry>{geometry}</geometry></visual>"


def test_meshes_are_found_beside_and_above_the_model_file(tmp_path: Path) -> None:
    folder = tmp_path / "arm_description"
    (folder / "urdf").mkdir(parents=True)
    (folder / "meshes").mkdir()
    mesh = folder / "meshes" / "link.stl"
    mesh.write_bytes(trimesh.creation.box().export(file_type="stl"))
    search = MeshSearch(folder / "urdf", ())
    for name in (
        "package://arm_description/meshes/link.stl",
        "../meshes/link.stl",
        f"file://{mesh}",
    ):
        assert search.file(name).samefile(mesh), name
    for name in ("package://other/meshes/link.stl", "http://example.org/link.stl", "../urdf"):
        with pytest.raises(InvalidModel, match="not found"):
            search.file(name)


def drawn(folder: Path, drawings: str) -> tuple[list[Shape], list[str]]:
    """Return what is shown of a link, and what is not."""
    model = folder / "r.urdf"
    model.write_text(VISUALS.format(drawings))
    return shapes(Robot.from_urdf(model), model)


def test_simple_shapes_have_their_size_and_place(tmp_path: Path) -> None:
    found, missing = drawn(
        tmp_path,
        visual('<box size="2 4 6"/>', '<origin xyz="1 0 0" rpy="0 0 1.5707963267948966"/>')
        + visual('<cylinder radius="0.5" length="3"/>')
        + visual('<sphere radius="2"/>'),
    )
    sizes = [np.ptp(s.vertices, axis=0) for s in found]
    np.testing.assert_allclose(sizes, [[4, 2, 6], [1, 1, 3], [4, 4, 4]], rtol=1e-2)
    np.testing.assert_allclose(found[0].vertices.mean(axis=0), [1, 0, 0], atol=1e-12)
    assert missing == []


@pytest.mark.parametrize(
    "geometry",
    [
        '<mesh filename="broken.stl"/>',
        '<mesh filename="package://nowhere/a.dae"/>',
        '<box size="wide"/>',
        "<mesh/>",
    ],
)
def test_what_cannot_be_shown_is_named_unless_its_collision_shape_can(
    tmp_path: Path, geometry: str
) -> None:
    (tmp_path / "broken.stl").write_bytes(b"solid nothing")
    found, missing = drawn(tmp_path, visual(geometry))
    assert found == [] and len(missing) == 1
    stand_in = visual('<sphere radius="1"/>').replace("visual", "collision")
    found, missing = drawn(tmp_path, visual(geometry) + stand_in)
    assert len(found) == 1 and missing == []


def test_a_motion_is_the_logs() -> None:
    robot = Robot.from_urdf(DEMO / "arm.urdf")
    motion = read_motion(robot, DEMO / "run1.parquet")
    assert np.diff(motion.time).min() > 0.9 / 60.0 and motion.time[0] == 0.0
    place = len(motion.time) // 2
    np.testing.assert_allclose(motion.at(motion.time[place]), motion.position[place])


def test_a_log_of_another_robot_is_refused(tmp_path: Path) -> None:
    model = tmp_path / "r.urdf"
    model.write_text(VISUALS.format(""))
    with pytest.raises(InputError, match="no position of any joint"):
        read_motion(Robot.from_urdf(model), DEMO / "run1.parquet")


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--port=0"], "--port"),
        (["--port=70000"], "--port"),
        (["--map=map.toml"], "--map"),
        ([], "heft-robotics[view]"),
    ],
)
def test_what_cannot_be_shown_is_refused_with_the_reason(
    flags: list[str],
    named: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "viser", None)  # as if it were not installed
    monkeypatch.setattr(sys, "argv", ["heft", "view", str(DEMO / "arm.urdf"), *flags])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2 and named in capsys.readouterr().err


def test_a_browser_shows_the_robot_and_ctrl_c_ends_it() -> None:
    pytest.importorskip("viser", reason="NO VISER: what the viewer shows stays untested")
    image = pytest.importorskip(
        "PIL.Image", reason="NO PILLOW: what the viewer shows stays untested"
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    call = [sys.executable, "-m", "heft", "view", str(DEMO / "arm.urdf")]
    call += [str(DEMO / "run1.parquet"), "--no-open", "--port", str(port)]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONUNBUFFERED": "1"}
    server = subprocess.Popen(call, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert server.stdout is not None
        address = re.search(r"http://127\.0\.0\.1:\d+", server.stdout.readline())
        assert address is not None
        with (
            browser(*THREE_DIMENSIONS) as running,
            opened(running, address.group(), 480, 320) as seen,
        ):
            seen.page.get_by_text("masses").wait_for()
            moment = (
                "Math.max(...[...document.querySelectorAll('input')].map((i) => +i.value || 0))"
            )
            seen.page.wait_for_function(f"{moment} > 1.5")  # it plays: faster than its speed, 1
            picture = seen.page.locator("canvas").first.screenshot()
            colours = image.open(io.BytesIO(picture)).convert("RGB").getcolors(1 << 20)
            assert colours is not None and len(colours) > 50
            assert seen.said == []
            local = ("http://127.0.0.1", "ws://127.0.0.1", "blob:", "data:")
            assert all(a.startswith(local) for a in seen.asked)
        server.send_signal(signal.SIGINT)
        assert server.wait(10.0) == 0
    finally:
        server.kill()
        server.wait()


def test_sliders_keep_the_model_file_s_own_limits() -> None:
    text = re.sub(r'velocity="[^"]*"', 'velocity="0"', (DEMO / "arm.urdf").read_text("utf-8"))
    robot = Robot.from_urdf_text(text.encode())
    ranges = _ranges(robot)
    stated = re.findall(r'<joint name="(\w+)" type="revolute">.*?<limit([^>]*)/>', text, re.DOTALL)
    assert set(ranges) == {name for name, _ in stated} == set(robot.joints)
    for name, limit in stated:
        low, high = (float(re.findall(rf'{end}="([^"]+)"', limit)[0]) for end in ("lower", "upper"))
        assert ranges[name] == (low, high)
    wrong = text.replace(
        'lower="-2.6"', 'lower="3.0"'
    )  # no room, which is no cause to show nothing
    assert _ranges(Robot.from_urdf_text(wrong.encode())) == {}
