"""Viewer of a robot and a recording in the browser: `heft view`.

Shows the visual meshes of the model file as far as they are found, the joints, and the inertia of
each link as its equivalent solid ellipsoid. It is served on the local machine only.
"""

from __future__ import annotations

import contextlib
import io
import math
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from heft.applications.identification import identified_model
from heft.applications.inputs import Inputs
from heft.arrays import Array
from heft.display import ellipsoid, ends
from heft.dynamics import PRISMATIC, Link, body_poses
from heft.errors import InputError, InvalidRecording, InvalidSetting, optional_library
from heft.files import Element, numbers, xml
from heft.information import frame_change, matrix_of_rpy, quaternion_of_matrix
from heft.interrupts import stopped_by_signals
from heft.models import MeshSearch, Options, Robot, motion_limits, urdf

HOST = "127.0.0.1"
FRAMES_PER_SECOND = 30.0
MESHES = (".stl", ".obj", ".ply", ".glb", ".off")
SHAPE, MASS, BONE = (150, 160, 172), (31, 111, 235), (110, 118, 129)


@dataclass(frozen=True, eq=False)
class Motion:
    """Positions over time, reduced to the frame rate of the viewer."""

    time: Array  # times from the first row, shape (n,) [s]
    position: Array  # positions, shape (n, channels) [rad or m]

    def at(self, moment: float) -> Array:
        """Return the positions interpolated at a time [s], shape (channels,) [rad or m]."""
        return np.array([np.interp(moment, self.time, column) for column in self.position.T])


@dataclass(frozen=True, eq=False)
class Shape:
    """Mesh of a link's visual geometry."""

    link: int  # index of the link
    vertices: Array  # vertices in the link's frame, shape (n, 3) [m]
    faces: Any  # vertex indices of each triangle, shape (m, 3)


def read_motion(robot: Robot, log: Path, columns: Path | None = None) -> Motion:
    """Return the joint positions of a log; other joints stay where they are held, or at zero.

    Returns:
        The positions, thinned to at most twice the viewer's frame rate.

    Raises:
        InputError: If the log cannot be read, is too short, or has no joint position.
    """
    (recording,) = Inputs(robot).with_columns(columns).with_logs(log=[log]).logs["log"]
    moving = [j for j in robot.joints if j not in robot.options.still]
    there = [j for j in moving if f"q.{j}" in recording.signals]
    if not there:
        raise InvalidRecording(
            "the log holds no position of any joint of the robot",
            argument=str(log),
            got=", ".join(recording.signals) or "no signal at all",
            expected=", ".join(f"q.{j}" for j in robot.joints),
            cure="describe its columns in a map and give it with --map",
        )
    places = [robot.channels.index(j) for j in there]
    moments, rows, last = [], [], -math.inf
    for block in recording.blocks([f"q.{j}" for j in there]):
        for moment, values in zip(block.time, block.values, strict=True):
            if np.isfinite(values).all() and moment >= last + 0.5 / FRAMES_PER_SECOND:
                moments.append(moment)
                rows.append(values)
                last = moment
    if len(moments) < 2:
        raise InvalidRecording("the log is too short to be played", argument=str(log))
    position = np.tile(_resting(robot), (len(rows), 1))
    position[:, places] = rows
    return Motion(np.array(moments) - moments[0], position)


def _resting(robot: Robot) -> Array:
    """Return the position of each channel where nothing moves, shape (channels,) [rad or m]."""
    position = np.zeros(len(robot.channels))
    for joint in robot.joints:
        position[robot.channels.index(joint)] = robot.options.of(joint).position or 0.0
    return position


def read_robot(path: Path, options: Path | None = None) -> tuple[Robot, Path]:
    """Return the robot of a model file or folder of results, and the path of its model.

    Raises:
        InputError: If it is neither.
        InvalidSetting: If options are given for a folder.
    """
    stated = Options.from_toml(options) if options else None
    if path.is_dir():
        if stated is not None:
            raise InvalidSetting(
                "a folder of results holds its own options",
                argument=f"--with {options}",
                cure="leave it out",
            )
        return identified_model(path), path / "model"
    return Robot.from_file(path, stated), path


def shapes(robot: Robot, model: Path) -> tuple[list[Shape], list[str]]:
    """Return the visual meshes of the links, and the names of geometries that cannot be shown.

    Collision geometry replaces visual geometry where none of the latter can be shown.

    Args:
        robot: Robot of a URDF; for other formats nothing is returned.
        model: Model file, from which meshes are searched; see `models.MeshSearch`.
    """
    if robot.form != "urdf":
        return [], []
    root = xml.parse(robot.source, str(model))
    elements = {e.attributes.get("name"): e for e in root.all("link")}
    search = MeshSearch(model.parent, robot.options.motion.packages)
    drawn: list[Shape] = []
    missing: list[str] = []
    for k, link in enumerate(robot.links):
        seen, lost = _drawn(elements[link.name].all("visual"), k, search)
        if lost and not seen:
            seen = _drawn(elements[link.name].all("collision"), k, search)[0]
        drawn += seen
        missing += lost if not seen else []
    return drawn, missing


def _drawn(drawings: list[Element], link: int, search: MeshSearch) -> tuple[list[Shape], list[str]]:
    drawn: list[Shape] = []
    lost: list[str] = []
    for drawing in drawings:
        geometry = drawing.find("geometry")
        for shape in geometry.children if geometry is not None else []:
            try:
                xyz, rpy = urdf.pose(drawing)
                vertices, faces = _mesh(shape, search)
                drawn.append(Shape(link, vertices @ matrix_of_rpy(*rpy).T + xyz, faces))
            except Exception:  # whatever a mesh's reader raises, the robot can be shown without it
                lost.append(shape.attributes.get("filename", shape.tag))
    return drawn, lost


def _mesh(shape: Element, search: MeshSearch) -> tuple[Array, Any]:
    import trimesh
    from trimesh import creation

    mesh: Any
    if shape.tag == "mesh":
        mesh = trimesh.load(search.file(shape.attributes["filename"]), force="mesh")
        scale = numbers(shape.attributes.get("scale", "1 1 1"), 3, "scale", "mesh")
    else:
        solids: dict[str, Callable[..., Any]] = {
            "box": lambda *half: creation.box(extents=2.0 * np.array(half)),
            "cylinder": lambda radius, half: creation.cylinder(radius, 2.0 * half),
            "sphere": lambda radius: creation.icosphere(3, radius),
        }
        mesh, scale = solids[shape.tag](*(urdf.size_of(shape) or ())), [1.0] * 3
    vertices, faces = np.asarray(mesh.vertices * np.array(scale)), np.asarray(mesh.faces)
    if not (len(faces) and np.isfinite(vertices).all()):
        raise ValueError("a mesh is of no finite triangles")
    return vertices, faces


def require_viewer() -> Any:
    """Return the library of the viewer.

    Raises:
        InputError: If it is not installed.
    """
    return optional_library("viser", "the viewer is not installed", "view", "heft view", InputError)


def serve(
    robot: Path,
    log: Path | None,
    columns: Path | None,
    options: Path | None,
    port: int,
    open_browser: bool,
    say: Callable[[str], None],
    dark: bool = False,
) -> None:
    """Show a robot, and optionally play a recording, until interrupted.

    Args:
        log: Log to be played; None for sliders of the joints.
        port: Port to serve on; if taken, the next free one.
        dark: Whether the controls are dark: the viewer cannot ask the browser.

    Raises:
        InputError: If the robot or the log cannot be read, or the viewer is not installed.
        InvalidSetting: If the port is out of range, or a map is given without a log.
    """
    if not 0 < port < 65536:
        raise InvalidSetting("there is no such port", argument="--port", got=str(port))
    if columns is not None and log is None:
        raise InvalidSetting(
            "a map is given, but no log that it could describe",
            argument=f"--map {columns}",
            cure="name the log after the robot",
        )
    viser = require_viewer()
    shown, model = read_robot(robot, options)
    motion = read_motion(shown, log, columns) if log is not None else None
    with contextlib.redirect_stdout(io.StringIO()):  # the address is said below, and once
        server = viser.ViserServer(host=HOST, port=port, label=f"heft: {shown.name}", verbose=False)
    try:
        stage = Stage(server, shown, model, dark)
        address = f"http://{HOST}:{server.get_port()}"
        say(f"{shown.name}: {address}   (Ctrl-C ends it)")
        if stage.missing:
            say(
                f"not shown: {len(stage.missing)} shapes that are not here, or are of a kind "
                f"other than {', '.join(MESHES)}"
            )
        if open_browser:
            webbrowser.open(address)
        with stopped_by_signals() as stop:
            if motion is None:
                stage.pose_by_hand()
                stop.wait()
            else:
                stage.play(motion, stop)
        say("ended")
    finally:
        server.stop()


def _ranges(robot: Robot) -> dict[str, tuple[float, float]]:
    """Return the least and the largest position of joints; a turn where the file says none."""
    motion = robot.options.motion  # whose speeds nobody asks for here
    any_speed = {j: replace(motion.of(j), velocity=1.0) for j in robot.joints}
    try:
        limits = motion_limits(robot, replace(motion, joint=any_speed))
    except InputError:  # limits that are none, in which the robot can be looked at nevertheless
        return {}
    ends = zip(limits.joints, limits.lower.tolist(), limits.upper.tolist(), strict=True)
    return {joint: (low, high) for joint, low, high in ends if low < high}


class Stage:
    """Scene and controls in the browser."""

    def __init__(self, server: Any, robot: Robot, model: Path, dark: bool = False) -> None:
        """Add a robot to the scene, all joints at zero."""
        self._server, self._robot = server, robot
        if np.linalg.norm(robot.gravity) > 0.0:
            server.scene.set_up_direction(-robot.gravity)
        # Only this machine can see it.
        server.gui.configure_theme(show_share_button=False, dark_mode=dark)
        reach = max(float(np.linalg.norm(robot.tree.translation, axis=1).sum()), 0.2)
        server.initial_camera.position = 1.1 * reach * np.array([1.0, 1.0, 0.9])
        server.initial_camera.look_at = np.array([0.0, 0.0, 0.35 * reach])
        server.scene.add_grid("/ground", 2.0, 2.0, cell_size=0.1, section_size=0.5)
        self._frames = [
            server.scene.add_frame(f"/robot/{k}", show_axes=False)
            for k in range(len(robot.tree.names))
        ]
        drawn, self.missing = shapes(robot, model)
        self._groups = {
            "shapes": [self._shape(k, shape) for k, shape in enumerate(drawn)],
            "masses": [m for k in robot.bodies_links if (m := self._mass(k)) is not None],
            "joints": list(self._bones()),
            "names": [self._name(k) for k in robot.bodies_links],
        }
        for name, handles in self._groups.items():
            if handles:
                self._box(name, handles, initial=name != "names")
        self.pose(_resting(robot))

    def pose(self, position: Array) -> None:
        """Move the joints to given positions.

        Args:
            position: Position of each channel, shape (channels,) [rad or m].
        """
        poses = body_poses(self._robot.tree, position)
        with self._server.atomic():
            for frame, pose in zip(self._frames, poses, strict=True):
                frame.wxyz, frame.position = quaternion_of_matrix(pose[:3, :3]), pose[:3, 3]

    def pose_by_hand(self) -> None:
        """Add a slider for each joint."""
        robot = self._robot
        position, within = _resting(robot), _ranges(robot)
        for joint in robot.joints:
            if joint in robot.options.still:
                continue
            place = robot.channels.index(joint)
            slides = (robot.tree.kind[robot.tree.channel == place] == PRISMATIC).any()
            low, high = within.get(joint, (-1.0, 1.0) if slides else (-3.14, 3.14))
            position[place] = min(max(position[place], low), high)
            step = 10.0 ** math.floor(math.log10((high - low) / 300.0))
            slider = self._server.gui.add_slider(joint, low, high, step, position[place])

            def move(event: Any, place: int = place) -> None:
                position[place] = event.target.value
                self.pose(position)

            slider.on_update(move)
        self.pose(position)

    def play(self, motion: Motion, stop: threading.Event) -> None:
        """Play a recording in a loop, until told to stop."""
        gui, end = self._server.gui, float(motion.time[-1])
        playing = gui.add_checkbox("play", True)
        moment = gui.add_slider("time [s]", 0.0, round(end, 3), 1e-3, 0.0)
        speed = gui.add_slider("speed", 0.1, 4.0, 0.1, 1.0)  # times as fast
        last = time.monotonic()
        shown = -1.0
        while not stop.is_set():
            now = time.monotonic()
            if playing.value:
                moment.value = round((moment.value + speed.value * (now - last)) % end, 3)
            last = now
            if moment.value != shown:
                shown = moment.value
                self.pose(motion.at(shown))
            stop.wait(1.0 / FRAMES_PER_SECOND)

    def _under(self, link: Link) -> str:
        return f"/robot/{link.body}" if link.body >= 0 else "/world"

    def _shape(self, number: int, shape: Shape) -> Any:
        link = self._robot.links[shape.link]
        return self._server.scene.add_mesh_simple(
            f"{self._under(link)}/shape{number}",
            shape.vertices,
            shape.faces,
            color=SHAPE,
            opacity=0.45,
            side="double",
            wxyz=quaternion_of_matrix(link.rotation),
            position=link.translation,
        )

    def _mass(self, link: Link) -> Any:
        solid = ellipsoid(frame_change(link.rotation, link.translation) @ link.written)
        if solid is None:
            return None
        centre, axes = solid
        sizes = np.maximum(np.linalg.norm(axes, axis=1), 1e-3)
        turn = (axes / np.maximum(np.linalg.norm(axes, axis=1), 1e-300)[:, None]).T
        if np.linalg.det(turn) < 0.0:
            turn[:, 0] *= -1.0
        return self._server.scene.add_icosphere(
            f"{self._under(link)}/mass {link.name}",
            1.0,
            MASS,
            scale=tuple(sizes),
            opacity=0.5,
            wxyz=quaternion_of_matrix(turn),
            position=centre,
        )

    def _bones(self) -> Iterator[Any]:
        tree = self._robot.tree
        lines = [(int(tree.parent[b]), tree.translation[b]) for b in range(len(tree.names))]
        for k, (body, end) in enumerate([*lines, *ends(self._robot)]):
            above = f"/robot/{body}" if body >= 0 else "/world"
            yield self._server.scene.add_line_segments(
                f"{above}/bone{k}",
                np.array([[np.zeros(3), end]]),
                BONE,
                thickness=3.0,
                thickness_units="screen",
            )

    def _name(self, link: Link) -> Any:
        mass = link.written[0]
        return self._server.scene.add_label(
            f"{self._under(link)}/name {link.name}",
            f"{link.name}, {mass:.3g} kg",
            position=link.translation,
            visible=False,
        )

    def _box(self, name: str, handles: list[Any], initial: bool) -> None:
        box = self._server.gui.add_checkbox(name, initial)

        def change(_: Any) -> None:
            for handle in handles:
                handle.visible = box.value

        box.on_update(change)
