"""What simulators take of a robot's drives: a table of them, and how each one's file is written.

A simulator is a row of `SIMULATORS` with a function that writes its file and one that reads it.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import resources
from itertools import chain
from pathlib import Path
from string import Template
from xml.sax.saxutils import quoteattr

import numpy as np

from heft.arrays import Array
from heft.files import Edit, Element, apply, insert_child, json_text, set_attributes, xml
from heft.information import inertia, matrix_of_rpy, quaternion_of_matrix

from . import denavit_hartenberg, mjcf, mjcf_values, urdf
from .robot import Robot
from .shapes import DIRECTORIES, MeshFiles, is_file

NO_MESHES = MeshFiles()
MUTE = {"contype": "0", "conaffinity": "0", "group": "2"}  # of a geom that touches nothing
FAINT = 1e-6  # N·m/rad or N/m: a softer spring is such an offset
DEGREE = math.pi / 180.0


@dataclass(frozen=True)
class JointFields:
    """What simulators take of a joint and its drive, zero where they do not."""

    armature: float = 0.0  # rotor inertia as the joint feels it [kg·m² or kg]
    viscous: float = 0.0  # [N·m·s/rad or N·s/m]
    dry: float = 0.0  # Coulomb friction [N·m or N]
    offset: float = 0.0  # half of what friction of both directions differs by [N·m or N]

    def effort(self, velocity: Array, acceleration: Array, standstill: float | Array) -> Array:
        """Return the effort that they take, dry friction as tanh(v/standstill) [N·m or N]."""
        smooth = self.armature * acceleration + self.viscous * velocity + self.offset
        return np.asarray(smooth + self.dry * np.tanh(velocity / standstill))

    def only(self, names: frozenset[str]) -> JointFields:
        """Return them with zero for all but some."""
        return JointFields(**{k: v for k, v in asdict(self).items() if k in names})


Fields = Mapping[str, JointFields]  # by joint


@dataclass(frozen=True)
class Simulator:
    """A simulator, and the file that says to it what was identified."""

    file: str  # name of its file
    holds: frozenset[str]  # fields of a joint that it takes
    # makes its text of robot and fields, and of the meshes that lie beside it, if any do
    writer: Callable[..., str]
    read: Callable[[str], Fields]
    has_links: bool = True  # whether its file holds the links, too
    note: str = ""  # what a user is to know of it
    has_meshes: bool = False  # whether meshes lie beside its file

    def write(self, robot: Robot, fields: Fields, meshes: MeshFiles = NO_MESHES) -> str:
        """Return the text of its file for a robot."""
        return self.writer(robot, fields, *([meshes] if self.has_meshes else []))

    def taken(self, robot: Robot, fields: Fields) -> dict[str, JointFields]:
        """Return the fields that its file takes, zero for the others.

        A joint of an MJCF file with a spring of its own has no room for an offset.
        """
        sprung: set[str] = set()
        if robot.form == "mjcf":
            bodies = mjcf.read(xml.parse(robot.source, robot.name), robot.name).bodies
            joints = (joint for body in bodies for joint in body.joints)
            sprung = {joint.name for joint in joints if _stiffness(joint.given) > FAINT}
        return {
            j: f.only(self.holds - ({"offset"} if j in sprung else set()))
            for j, f in fields.items()
        }


def urdf_of(robot: Robot) -> bytes:
    """Return a robot's model file as a URDF, shapes of links left out where it is translated."""
    if robot.form == "toml":
        table = denavit_hartenberg.read(robot.source, "the model file")
        return table.translate(False, "the model file").text
    if robot.form == "mjcf":
        model = mjcf.read(xml.parse(robot.source, "the model file"), "the model file")
        return mjcf.translate(model, False, "the model file", robot.options.still).text
    return urdf.with_joints_fixed(robot.source, "the model file", robot.options.still)


def _row(values: object) -> str:
    return " ".join(repr(float(x) + 0.0) for x in np.ravel(np.asarray(values)))


def shown(**attributes: object) -> str:
    """Return the attributes of an element of XML, as text."""
    return "".join(f" {k}={quoteattr(str(v))}" for k, v in attributes.items())


# --- MuJoCo, Newton


def _stiffness(given: Mapping[str, str]) -> float:
    return float(given.get("stiffness", "0").split()[0])


def mjcf_joint(fields: JointFields, turn: float = 1.0) -> dict[str, str]:
    """Return a joint's MJCF attributes; `turn` is the file's unit of angles in rad, or 1."""
    values = {
        "armature": _row(fields.armature),
        "damping": _row(fields.viscous),
        "frictionloss": _row(fields.dry),
        # It is a soft constraint of MuJoCo. As stiff as this it is all there from 1e-3 rad/s on.
        "solreffriction": "0.0002 1",
        "solimpfriction": "0.9999 0.9999 0.001 0.5 2",
    }
    if fields.offset:
        # A constant torque is a spring without end: this soft in N·m/rad for each N·m, as far away.
        stiffness = 1e-12 * abs(fields.offset)
        far = -fields.offset / stiffness
        values |= {"stiffness": _row(stiffness), "springref": _row(far / turn)}
    return values


def write_mjcf(robot: Robot, fields: Fields, meshes: MeshFiles) -> str:
    """Return an MJCF file with joints' fields: an MJCF file's own, or one made of a URDF."""
    if robot.form != "mjcf":
        return _made_mjcf(urdf_of(robot), robot, fields, meshes)
    root = xml.parse(robot.source, "the model file")
    degrees = mjcf_values.compiler_of(root, "the model file").degrees
    model, edits = mjcf.read(root, "the model file"), list[Edit]()
    if not np.array_equal(model.gravity, robot.gravity):
        option, gravity = root.find("option"), {"gravity": _row(robot.gravity)}
        if option is not None:
            edits += set_attributes(robot.source, option, gravity, exact=True)
        else:
            edits += insert_child(robot.source, root, "mujoco", [f"<option{shown(**gravity)}/>"])
    for asset in (a for group in root.all("asset") for a in group.children):
        own = asset.attributes
        moved = {k: meshes.names[v] for k, v in own.items() if is_file(k) and v in meshes.names}
        if moved:
            named = {"name": own.get("name", Path(own.get("file", "")).stem)}
            edits += set_attributes(robot.source, asset, named | moved)
    for compiler in root.all("compiler") if meshes.names else ():
        gone = {k: "" for k in DIRECTORIES if k in compiler.attributes}
        edits += set_attributes(robot.source, compiler, gone)
    for body in model.bodies:
        for joint in body.joints:
            if joint.name in fields:
                turn = DEGREE if degrees and not joint.slides else 1.0
                values = mjcf_joint(fields[joint.name], turn)
                if 0.0 < _stiffness(joint.given) <= FAINT:  # of an earlier export
                    values = {"stiffness": "0", "springref": "0", **values}
                edits += set_attributes(robot.source, joint.element, values, exact=True)
    return apply(robot.source, edits).decode()


def read_mjcf(text: str) -> dict[str, JointFields]:
    """Return the fields of the joints of an MJCF file."""
    root, fields = xml.parse(text.encode(), "the written file"), {}
    degrees = mjcf_values.compiler_of(root, "the written file").degrees
    for body in mjcf.read(root, "the written file").bodies:
        for joint in body.joints:
            given = {
                k: [float(x) for x in joint.given.get(k, "0").split()]
                for k in ("armature", "damping", "frictionloss", "stiffness", "springref")
            }
            turn = DEGREE if degrees and not joint.slides else 1.0
            stiffness = given["stiffness"][0]
            offset = -stiffness * given["springref"][0] * turn if stiffness <= FAINT else 0.0
            rotor, viscous, dry = (given[k][0] for k in ("armature", "damping", "frictionloss"))
            fields[joint.name] = JointFields(rotor, viscous, dry, offset + 0.0)
    return fields


def _made_mjcf(data: bytes, robot: Robot, fields: Fields, meshes: MeshFiles) -> str:
    """Return a URDF as an MJCF file: bodies, joints, limits and shapes."""
    root = xml.parse(data, "the model file")
    links = {k.attributes["name"]: k for k in root.all("link")}
    joints: dict[str, list[Element]] = {}
    for joint in root.all("joint"):
        joints.setdefault(urdf.ends(joint)[0], []).append(joint)
    moved = {urdf.ends(j)[1] for j in root.all("joint")}
    colors = {k.attributes.get("name"): k.find("color") for k in root.all("material")}
    follow: list[str] = []
    assets: dict[str, str] = {}  # names of meshes by file and scale

    def body(name: str, place: str, joint: Element | None, indent: str) -> Iterator[str]:
        lines = list(inside(links[name], joint))
        if world := name == mjcf.WORLD:  # MuJoCo's own body, which has no inertial
            lines = [line for line in lines if "<inertial" not in line]
        else:
            yield f"{indent}<body{shown(name=name)}{place}>"
        yield from (f"{indent}  {line}" for line in lines)
        for child in joints.get(name, ()):
            xyz, rpy = urdf.pose(child)
            at = shown(pos=_row(xyz), quat=_row(quaternion_of_matrix(matrix_of_rpy(*rpy))))
            yield from body(urdf.ends(child)[1], at, child, indent + "  ")
        if not world:
            yield f"{indent}</body>"

    def inside(link: Element, joint: Element | None) -> Iterator[str]:
        stated = urdf.inertial(link)
        if stated is not None and stated.mass > 0.0:
            six = np.concatenate([np.zeros(4), stated.moments])
            turn = matrix_of_rpy(*stated.rpy)
            moments, axes = np.linalg.eigh(turn @ inertia.inertia_matrix(six) @ turn.T)
            axes[:, 2] *= np.sign(np.linalg.det(axes))
            quat = _row(quaternion_of_matrix(axes))
            values = shown(pos=_row(stated.xyz), quat=quat, mass=repr(stated.mass))
            yield f"<inertial{values}{shown(diaginertia=_row(moments))}/>"
        if joint is not None and joint.attributes["type"] != "fixed":
            yield _made_joint(joint, fields.get(joint.attributes["name"]), follow)
        for element in link.all("collision"):
            # What is seen stands for it; viewers hide the group until they are asked.
            group = {"group": "3"} if link.find("visual") is not None else {}
            yield from _made_geom(element, group, meshes, assets)
        for element in link.all("visual"):
            material, seen = element.find("material"), {**MUTE}
            if material is not None:
                color = material.find("color") or colors.get(material.attributes.get("name"))
                seen |= {} if color is None else {"rgba": color.attributes["rgba"]}
            yield from _made_geom(element, seen, meshes, assets)

    top = [name for name in links if name not in moved]
    lines = [line for name in top for line in body(name, "", None, "    ")]
    mesh_lines = [f"    <mesh{shown(name=name)}{key}/>" for key, name in assets.items()]
    equality = ["  <equality>", *follow, "  </equality>"] if follow else []
    made = [
        f"<mujoco{shown(model=robot.name)}>",
        '  <compiler angle="radian" autolimits="true" balanceinertia="false"/>',
        f"  <option{shown(gravity=_row(robot.gravity))}/>",
        *(("  <asset>", *mesh_lines, "  </asset>") if assets else ()),
        *("  <worldbody>", *lines, "  </worldbody>"),
        *(*equality, "</mujoco>", ""),
    ]
    return "\n".join(made)


def _made_joint(joint: Element, fields: JointFields | None, follow: list[str]) -> str:
    """Return a URDF's joint as MJCF; what follows another adds a line to `follow`."""
    name, kind = joint.attributes["name"], joint.attributes["type"]
    axis, limit, mimic = (joint.find(k) for k in ("axis", "limit", "mimic"))
    along = "1 0 0" if axis is None else axis.attributes.get("xyz", "1 0 0")
    values = {"name": name, "type": "slide" if kind == "prismatic" else "hinge", "axis": along}
    ends = {} if limit is None or kind == "continuous" else limit.attributes
    low, high = (ends.get(k, "0") for k in ("lower", "upper"))
    if float(low) < float(high):
        values["range"] = f"{low} {high}"
    if mimic is not None:
        given = mimic.attributes
        terms = f"{given.get('offset', '0')} {given.get('multiplier', '1')} 0 0 0"
        pair = shown(joint1=name, joint2=given["joint"], polycoef=terms)
        follow.append(f"    <joint{pair}/>")
    if fields is not None:
        values |= mjcf_joint(fields)
    return f"<joint{shown(**values)}/>"


def _made_geom(
    element: Element, more: Mapping[str, str], meshes: MeshFiles, assets: dict[str, str]
) -> Iterator[str]:
    """Yield a URDF's shape as MJCF; a mesh that is new adds a line to `assets`."""
    geometry = element.find("geometry")
    shape = geometry.children[0] if geometry is not None and geometry.children else None
    size = None if shape is None else urdf.size_of(shape)
    file = None if shape is None else meshes.names.get(shape.attributes.get("filename", ""))
    if shape is None or (size is None and file is None):
        return
    what = {"type": shape.tag}
    if size is not None:
        what["size"] = _row(size)
    elif file is not None:
        # Its mass counts for nothing; that of a shell is one even where it is not closed.
        key = shown(file=file, scale=shape.attributes.get("scale", "1 1 1"), inertia="shell")
        what["mesh"] = assets.setdefault(key, f"mesh_{len(assets)}")
    xyz, rpy = urdf.pose(element)
    quat = _row(quaternion_of_matrix(matrix_of_rpy(*rpy)))
    at = shown(**what, pos=_row(xyz), quat=quat, mass="0", **more)
    yield f"<geom{at}/>"


# --- Gazebo, Drake: URDF


def write_urdf(robot: Robot, fields: Fields) -> str:
    """Return a URDF with damping and dry friction of joints."""
    data = urdf_of(robot)
    edits: list[Edit] = []
    for joint in xml.parse(data, "the model file").all("joint"):
        own = fields.get(joint.attributes["name"])
        if own is not None:
            edits += urdf.set_dynamics(data, joint, repr(own.viscous), repr(own.dry), exact=True)
    return apply(data, edits).decode()


def read_urdf(text: str) -> dict[str, JointFields]:
    """Return the fields of the joints of a URDF, rotors of Drake's among them."""
    root, fields = xml.parse(text.encode(), "the written file"), {}
    for joint in root.all("joint"):
        dynamics = joint.find("dynamics")
        given = {} if dynamics is None else dynamics.attributes
        viscous, dry = (float(given.get(k, "0")) for k in ("damping", "friction"))
        if joint.attributes["type"] != "fixed":
            fields[joint.attributes["name"]] = JointFields(viscous=viscous, dry=dry)
    for transmission in root.all("transmission"):
        joint_of, actuator = transmission.find("joint"), transmission.find("actuator")
        rotor = None if actuator is None else actuator.find("drake:rotor_inertia")
        if joint_of is not None and rotor is not None:
            name = joint_of.attributes["name"]
            fields[name] = replace(fields[name], armature=float(rotor.attributes["value"]))
    return fields


def write_drake(robot: Robot, fields: Fields) -> str:
    """Return a URDF whose joints have transmissions with the rotors' inertia, of ratio 1."""
    data = write_urdf(robot, fields).encode()
    root = xml.parse(data, "the model file")
    edits, lines = list[Edit](), list[str]()
    for old in root.all("transmission"):  # two actuators of a joint would be two rotors
        joint = old.find("joint")
        if joint is not None and joint.attributes.get("name") in fields:
            edits.append(Edit(old.start, old.ended, ""))
    for name, own in fields.items():
        lines += [
            f"<transmission{shown(name=name + '_transmission')}>",
            "  <type>transmission_interface/SimpleTransmission</type>",
            f"  <joint{shown(name=name)}/>",
            f"  <actuator{shown(name=name + '_actuator')}>",
            f'    <drake:rotor_inertia value="{own.armature!r}"/>',
            '    <drake:gear_ratio value="1"/>',
            "  </actuator>",
            "</transmission>",
        ]
    edits += insert_child(data, root, "robot", lines)
    if "xmlns:drake" not in root.attributes:
        edits += set_attributes(data, root, {"xmlns:drake": "http://drake.mit.edu"})
    return apply(data, edits).decode()


# --- numbers alone: Python and JSON


def _write_python(name: str, holds: frozenset[str], robot: Robot, fields: Fields) -> str:
    kept = {n.upper(): {j: getattr(f, n) for j, f in fields.items()} for n in sorted(holds)}
    numbers = "\n".join(f"{n} = {json.dumps(values, indent=4)}" for n, values in kept.items())
    template = resources.files(__package__) / f"{name}.py.template"
    title = robot.name.replace("\\", " ").replace('"', "'")
    return Template(template.read_text("utf-8")).substitute(robot=title, numbers=numbers)


def read_python(text: str) -> dict[str, JointFields]:
    """Return the fields that a generated Python file states, without running it."""
    kept: dict[str, dict[str, float]] = {}
    for line in ast.parse(text).body:
        if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
            kept[line.targets[0].id.lower()] = ast.literal_eval(line.value)
    joints = next(iter(kept.values()))
    return {j: JointFields(**{name: kept[name][j] for name in kept}) for j in joints}


BAM = {"armature": "armature", "friction_viscous": "viscous", "friction_base": "dry"}


def write_bam(_: Robot, fields: Fields) -> str:
    """Return parameters of BAM's model m1, an entry a joint."""
    rows = {j: {key: getattr(f, name) for key, name in BAM.items()} for j, f in fields.items()}
    return json_text(
        {joint: {"model": "m1", "q_offset": 0.0, **row} for joint, row in rows.items()}
    )


def read_bam(text: str) -> dict[str, JointFields]:
    """Return the fields that BAM's parameters state."""
    rows = json.loads(text).items()
    return {j: JointFields(**{name: row[key] for key, name in BAM.items()}) for j, row in rows}


def write_pace(_: Robot, fields: Fields) -> str:
    """Return PACE's vector: armature, viscous and dry friction, bias of each joint, and delay."""
    rows = fields.values()
    blocks = ([getattr(f, n) for f in rows] for n in ("armature", "viscous", "dry"))
    zeros = [0.0] * (len(fields) + 1)
    return json_text({"joint_order": list(fields), "params": [*chain(*blocks), *zeros]})


def read_pace(text: str) -> dict[str, JointFields]:
    """Return the fields that PACE's vector states."""
    joints, values = (json.loads(text)[k] for k in ("joint_order", "params"))
    n = len(joints)
    blocks = (values[k * n : (k + 1) * n] for k in range(3))
    return {j: JointFields(*row) for j, *row in zip(joints, *blocks, strict=True)}


PLAIN = frozenset(("armature", "viscous", "dry"))
ALL = frozenset(asdict(JointFields()))
SIMULATORS: Mapping[str, Simulator] = {
    "mujoco": Simulator("robot.xml", ALL, write_mjcf, read_mjcf, has_meshes=True),
    "newton": Simulator(
        "robot.newton.xml",
        PLAIN,
        write_mjcf,
        read_mjcf,
        note="friction acts in its MuJoCo solver alone, and its numbers are 32-bit",
        has_meshes=True,
    ),
    "drake": Simulator(
        "robot.drake.urdf",
        PLAIN - {"dry"},
        write_drake,
        read_urdf,
        note="Drake has no dry friction of joints",
    ),
    "gazebo": Simulator(
        "robot.gazebo.urdf",
        PLAIN - {"armature"},
        write_urdf,
        read_urdf,
        note="one of its physics engines reads damping and friction and ignores both",
    ),
    "pinocchio": Simulator(
        "robot_pinocchio.py",
        ALL,
        partial(_write_python, "pinocchio", ALL),
        read_python,
        False,
        "pinocchio.rnea takes the armature alone: add damping and dry friction to its torque",
    ),
    "isaaclab": Simulator(
        "robot_isaaclab.py",
        PLAIN,
        partial(_write_python, "isaaclab", PLAIN),
        read_python,
        False,
        "randomize_joint_parameters puts one range of friction on static, dynamic and viscous "
        'friction alike: take operation="scale", or draws',
    ),
    "bam": Simulator(
        "robot_bam.json",
        PLAIN,
        write_bam,
        read_bam,
        False,
        "an entry loads once it names a registered actuator, its kt and its R",
    ),
    "pace": Simulator(
        "robot_pace.json",
        PLAIN,
        write_pace,
        read_pace,
        False,
        "encoders' bias and the delay of commands, in steps of the simulation, are to be added",
    ),
}
