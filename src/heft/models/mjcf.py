"""MJCF files: bodies, joints and inertials with MuJoCo's semantics, translated to a URDF.

MuJoCo is not needed, and no other file is opened: neither meshes nor includes. Elements that
would change the robot beyond the file's numbers (other files, generated bodies, a total mass) are
refused by name.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidModel, require_one_of
from heft.files import Element, numbers, walk
from heft.information import inertia, matrix_of_axis_angle

from . import urdf
from .mjcf_values import (
    ORIENTATIONS,
    Compiler,
    Defaults,
    Geom,
    compiler_of,
    defaults_of,
    inertial_parameters,
    number,
    orientation,
    placed,
    unit,
    vector,
)
from .options import joint_lines

WORLD = "world"
MASSLESS = ("plane", "hfield")
USUAL_GRAVITY = (9.7, 9.9)  # [m/s²], anywhere on Earth
INSIDE_A_BODY = (
    *("body", "frame", "inertial", "joint", "freejoint", "geom"),
    *("site", "camera", "light", "plugin"),
)


@dataclass(frozen=True)
class Joint:
    """A hinge (revolute) or slide (prismatic) joint."""

    name: str  # its name; generated where the file gives none
    element: Element  # its element in the file
    slides: bool  # whether it is a slide
    position: Array  # of its anchor in the body's frame, shape (3,) [m]
    axis: Array  # unit vector in the body's frame, shape (3,)
    reference: float  # its position in the file's configuration [rad or m]
    given: Mapping[str, str]  # its attributes, those of its class included


@dataclass(frozen=True)
class Body:
    """A body of the kinematic tree."""

    name: str  # its name; generated where the file gives none
    element: Element  # its element in the file
    inertial: Element | None  # its `<inertial>` element
    principal: Array  # axes that the `<inertial>` states its moments about, shape (3, 3)
    parent: str  # its parent's name, `world` at the top
    rotation: Array  # of its frame in its parent's, shape (3, 3)
    translation: Array  # of its frame in its parent's, shape (3,) [m]
    joints: tuple[Joint, ...]  # its joints, outermost first; none if it is fixed to its parent
    floats: bool  # whether it has a free joint
    # ten inertial parameters in its frame, shape (10,) [kg, kg·m, kg·m²]; None if the file does not
    # state them
    parameters: Array | None
    by_geoms: bool  # whether they are computed from its geoms
    of_meshes: bool  # whether they would depend on meshes, which are not opened
    geoms: tuple[Geom, ...] = ()


@dataclass(frozen=True)
class Model:
    """Content of an MJCF file."""

    name: str  # the model's name
    bodies: tuple[Body, ...]  # parents first, in the file's order
    # master, multiplier and offset of joints that follow others, by name
    mimics: Mapping[str, tuple[str, float, float]]
    gravity: tuple[float, float, float]  # vector [m/s²]
    notes: tuple[str, ...]  # messages to the user on the file
    scene: tuple[Geom, ...]  # geoms of the world
    compiler: Compiler  # what the file's numbers mean


@dataclass
class _Reader:
    path: str
    compiler: Compiler
    defaults: Defaults
    bodies: list[Body] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    springs: list[str] = field(default_factory=list)
    lifted: list[str] = field(default_factory=list)
    joints: int = 0

    def where(self, element: Element, name: str | None = None) -> str:
        called = name or element.attributes.get("name")
        return f"{self.path}, {element.tag}{f' {called!r}' if called else ''}, line {element.line}"

    def attributes(self, element: Element, inherited: str) -> dict[str, str]:
        """Return an element's attributes over its class's, which is `inherited` by default."""
        chosen = element.attributes.get("class", inherited)
        message = f"there is no class '{chosen}' of defaults"
        require_one_of(chosen, self.defaults, message, self.where(element), InvalidModel)
        given = dict(self.defaults[chosen].get(element.tag, {}))
        if any(k in element.attributes for k in (*ORIENTATIONS, "fromto")):
            given = {k: v for k, v in given.items() if k not in (*ORIENTATIONS, "fromto")}
        return given | element.attributes

    def children(
        self, element: Element, inherited: str, rotation: Array, translation: Array
    ) -> list[tuple[Element, str, Array, Array]]:
        """Return a body's children, each with its class and frame's pose, `<frame>`s resolved."""
        children = []
        for child in element.children:
            message, where = f"<{child.tag}> is not known inside a body", self.where(child)
            require_one_of(child.tag, INSIDE_A_BODY, message, where, InvalidModel)
            if child.tag == "frame":
                given = child.attributes
                frame = placed(given, self.compiler, where, rotation, translation)
                children += self.children(child, given.get("childclass", inherited), *frame)
            else:
                children.append((child, inherited, rotation, translation))
        return children

    def enter(
        self, element: Element, parent: str, inherited: str, rotation: Array, translation: Array
    ) -> None:
        name = element.attributes.get("name") or f"body_{len(self.bodies) + 1}"
        where = self.where(element, name)
        if name == WORLD or name in self.names:
            raise InvalidModel(
                f"two bodies are called '{name}'", argument=where, cure="give each its own name"
            )
        self.names.add(name)
        inherited = element.attributes.get("childclass", inherited)
        inside = self.children(element, inherited, np.eye(3), np.zeros(3))
        joints = tuple(self.joint(e, c, r, p, name) for e, c, r, p in inside if e.tag == "joint")
        floats = any(e.tag == "freejoint" for e, *_ in inside) or any(j is None for j in joints)
        if floats and (len(joints) > 1 or (joints and joints[0] is not None)):
            raise InvalidModel("a body has other joints beside a free one", argument=where)
        if floats and parent != WORLD:
            raise InvalidModel("a free joint is not at the top of the tree", argument=where)
        inertial = self.inertial(element, [e for e, *_ in inside if e.tag == "inertial"], where)
        parameters, meshes, principal = None, False, np.eye(3)
        if inertial is not None:
            principal = orientation(inertial.attributes, self.compiler, where)
            parameters = inertial_parameters(inertial, self.compiler, where)
        geoms = [(e, c, r, p) for e, c, r, p in inside if e.tag == "geom"]
        if inertial is None and self.compiler.from_geoms:
            solids = [self.solid(*geom) for geom in geoms]
            meshes = any(s is None for s in solids)
            massive = [s for s in solids if s is not None and s[0] > 0.0]
            parameters = None if meshes or not massive else np.sum(massive, axis=0)
        if number(element.attributes, "gravcomp", where, 0.0) != 0.0:
            self.lifted.append(name)
        pose = placed(element.attributes, self.compiler, where, rotation, translation)
        self.bodies.append(
            Body(
                name,
                element,
                inertial,
                principal,
                parent,
                *pose,
                tuple(j for j in joints if j is not None),
                floats,
                parameters,
                inertial is None and parameters is not None,
                meshes,
                tuple(self.geom(*geom) for geom in geoms),
            )
        )
        for child, within, r, p in inside:
            if child.tag == "body":
                self.enter(child, name, within, r, p)

    def inertial(self, body: Element, inertials: Sequence[Element], where: str) -> Element | None:
        if len(inertials) > 1:
            raise InvalidModel("a body has two <inertial> elements", argument=where)
        if inertials and inertials[0] not in body.children:
            raise InvalidModel(
                "an <inertial> stands in a <frame>",
                argument=where,
                cure="state it in the body's own frame, outside",
            )
        return inertials[0] if inertials else None

    def joint(
        self, element: Element, inherited: str, rotation: Array, translation: Array, body: str
    ) -> Joint | None:
        """Return a hinge or slide, None for a free joint."""
        given = self.attributes(element, inherited)
        self.joints += 1
        name = element.attributes.get("name") or f"joint_{self.joints}"
        where = self.where(element, name)
        kind = given.get("type", "hinge")
        if kind == "free":
            return None
        if kind not in ("hinge", "slide"):
            raise InvalidModel(
                f"joints of type '{kind}' cannot be identified",
                argument=where,
                valid=("hinge", "slide"),
                cure="put three hinges in its place" if kind == "ball" else None,
            )
        for key in ("armature", "frictionloss"):
            if number(given, key, where, 0.0) < 0.0:
                raise InvalidModel(f"{key} is negative", argument=where, got=given[key])
        for key in ("damping", "stiffness"):  # MuJoCo takes up to three coefficients
            parts = given.get(key, "0").split()
            values = numbers(given.get(key, "0"), max(1, min(len(parts), 3)), key, where)
            if key == "stiffness" and any(values):
                self.springs.append(name)
        reference = number(given, "ref", where, 0.0)
        return Joint(
            name,
            element,
            kind == "slide",
            translation + rotation @ vector(given, "pos", 3, where, (0.0, 0.0, 0.0)),
            rotation @ unit(vector(given, "axis", 3, where, (0.0, 0.0, 1.0)), "an axis", where),
            reference if kind == "slide" else self.compiler.angle(reference),
            given,
        )

    def solid(
        self, element: Element, inherited: str, rotation: Array, translation: Array
    ) -> Array | None:
        """Return a geom's ten parameters in its body's frame, None for a mesh or a shell."""
        geom = self.geom(element, inherited, rotation, translation)
        given, where, kind = geom.given, geom.where, geom.kind
        group = number(given, "group", where, 0.0)
        mass = number(given, "mass", where, math.nan)
        density = number(given, "density", where, 1000.0)  # [kg/m³], MuJoCo's
        low, high = self.compiler.groups
        if mass < 0.0 or density < 0.0:
            raise InvalidModel(
                "a geom's mass is negative", argument=where, got=mass if mass < 0.0 else density
            )
        weightless = mass == 0.0 or (math.isnan(mass) and density == 0.0)
        if kind in MASSLESS or weightless or not low <= group <= high:
            return np.zeros(10)
        if kind not in urdf.SIZES or "mesh" in given or given.get("shellinertia") == "true":
            return None
        shape, turn, move = geom.solid(self.compiler)
        if math.isnan(mass):
            mass = density * urdf.volume(kind, shape)
        if mass < 1e-15:  # [kg], below which MuJoCo leaves a geom out
            return np.zeros(10)
        change = inertia.frame_change(turn, move)
        return np.asarray(change @ urdf.uniform_solid(kind, shape, mass))

    def geom(self, element: Element, inherited: str, rotation: Array, translation: Array) -> Geom:
        given = self.attributes(element, inherited)
        return Geom(given, self.where(element), rotation, translation)


def _mimics(
    root: Element, joints: Mapping[str, Joint], path: str
) -> dict[str, tuple[str, float, float]]:
    """Return by joint its master, multiplier and offset, from active equality constraints."""
    followers: dict[str, tuple[str, float, float]] = {}
    for section in root.all("equality"):
        for element in section.children:
            given = element.attributes
            where = f"{path}, equality {element.tag} {given.get('name', '')}, line {element.line}"
            if given.get("active") == "false":
                continue
            if element.tag != "joint":
                raise InvalidModel(
                    f"an equality constraint '{element.tag}' closes a loop, or bends a body",
                    argument=where,
                    cure='cut the loop there: write active="false", if the robot is still what '
                    "was measured",
                )
            slave, master = given.get("joint1", ""), given.get("joint2")
            for name in (slave, slave if master is None else master):
                message = "an equality constraint names a joint that is not there"
                require_one_of(name, joints, message, where, InvalidModel, repr(name))
            terms = given.get("polycoef", "0 1 0 0 0")
            count = max(1, min(len(terms.split()), 5))
            constant, linear, *higher = [*numbers(terms, count, "polycoef", where), 0.0][:5]
            if count == 1:
                linear = 1.0
            if master is None or slave in followers or any(higher):
                raise InvalidModel(
                    "a joint is held by an equality constraint that no mimic can say",
                    argument=where,
                    got=f"polycoef {terms!r}" if master else f"joint '{slave}' locked",
                    expected="one joint following one other, linearly",
                    cure=None
                    if master
                    else 'write active="false" there, and in the file of --with:\n'
                    + joint_lines([slave], "fixed = true"),
                )
            offset = joints[slave].reference + constant - linear * joints[master].reference
            followers[slave] = (master, linear, offset)
    return followers


def read(root: Element, path: str) -> Model:
    """Return the content of an MJCF file.

    Raises:
        InvalidModel: Naming the element and its line.
    """
    urdf.refuse_xacro(root, path)
    for element in walk(root):
        # These make bodies that the file does not hold, or take them from other files.
        if element.tag in ("include", "attach", "replicate", "composite", "flexcomp"):
            included = f"give {element.attributes.get('file')} itself, or "
            flatten = (
                'python -c "import sys, mujoco; s = mujoco.MjSpec.from_file(sys.argv[1]); '
                f's.compile(); print(s.to_xml())" {shlex.quote(path)} > arm.xml'
            )
            raise InvalidModel(
                f"<{element.tag}> brings in what the file itself does not hold",
                argument=f"{path}, line {element.line}",
                cure=f"{included if element.tag == 'include' else ''}let MuJoCo write it out: "
                f"`{flatten}`",
            )
    compiler = compiler_of(root, path)
    reader = _Reader(path, compiler, defaults_of(root, path))
    scene: list[Geom] = []
    for world in root.all("worldbody"):
        inherited = world.attributes.get("childclass", "main")
        for child, within, rotation, translation in reader.children(
            world, inherited, np.eye(3), np.zeros(3)
        ):
            if child.tag == "body":
                reader.enter(child, WORLD, within, rotation, translation)
            elif child.tag == "geom":
                scene.append(reader.geom(child, within, rotation, translation))
            elif child.tag in ("joint", "freejoint", "inertial"):
                raise InvalidModel("the world does not move", argument=reader.where(child))
    if not reader.bodies:
        raise InvalidModel("the model has no bodies", argument=path)
    joints: dict[str, Joint] = {}
    for joint in (j for b in reader.bodies for j in b.joints):
        if joint.name in joints:
            raise InvalidModel(
                f"two joints are called '{joint.name}'",
                argument=f"{path}, lines {joints[joint.name].element.line} and "
                f"{joint.element.line}",
                cure="give each its own name",
            )
        joints[joint.name] = joint
    gravity = (0.0, 0.0, -9.81)
    for element in root.all("option"):
        x, y, z = vector(element.attributes, "gravity", 3, f"{path}, <option>", gravity)
        gravity = (float(x), float(y), float(z))
        if any(f.attributes.get("gravity") == "disable" for f in element.all("flag")):
            gravity = (0.0, 0.0, 0.0)
    model = Model(
        root.attributes.get("model") or "robot",
        tuple(reader.bodies),
        _mimics(root, joints, path),
        gravity,
        (),
        tuple(scene),
        compiler,
    )
    return replace(model, notes=tuple(_notes(model, reader)))


def _notes(model: Model, reader: _Reader) -> list[str]:
    notes = []
    shaped = [b.name for b in model.bodies if b.by_geoms]
    if shaped:
        notes.append(
            f"{', '.join(shaped)}: no <inertial>; what MuJoCo makes of the geoms is used as the "
            "prior"
        )
    meshes = [b.name for b in model.bodies if b.of_meshes]
    if meshes:
        notes.append(
            f"{', '.join(meshes)}: no <inertial>, and geoms that are meshes or shells: meshes are "
            "not opened, so what the file believes of its mass is not known"
        )
    if reader.springs:
        notes.append(
            f"{', '.join(reader.springs)}: the file gives these joints springs (stiffness), which "
            "heft does not model"
        )
    if reader.lifted:
        notes.append(
            f"{', '.join(reader.lifted)}: gravcomp is not modelled: all bodies have weight"
        )
    low = [
        b.name
        for b in model.bodies
        if b.parameters is not None
        and (
            b.parameters[0] < reader.compiler.least_mass
            or np.linalg.eigvalsh(inertia.to_body(b.parameters)[2])[0]
            < reader.compiler.least_moment
        )
    ]
    if low:
        notes.append(f"{', '.join(low)}: MuJoCo raises these to boundmass or boundinertia")
    size = float(np.linalg.norm(model.gravity))
    if not USUAL_GRAVITY[0] <= size <= USUAL_GRAVITY[1]:
        notes.append(
            f"the file's gravity is {size:.3g} m/s²: give gravity in the file of --with if the "
            "log was not taken so"
        )
    return notes


def _free_joint(body: Body) -> str:
    """Return the name of a floating body's free joint, the body's where it has none."""
    joints = (c for c in walk(body.element) if c.tag in ("freejoint", "joint"))
    return next((j.attributes["name"] for j in joints if "name" in j.attributes), body.name)


def translate(model: Model, free: bool, path: str, still: Collection[str] = ()) -> urdf.Translation:
    """Return the robot of an MJCF file as a URDF.

    A body whose joint is not at its origin, or that has several, gets auxiliary links in between,
    called `<body>@<joint>`. Free joints that are `still` do not move.

    Raises:
        InvalidModel: If the file's floating bodies do not agree with whether the base is `free`.
    """
    floating = [b for b in model.bodies if b.floats and _free_joint(b) not in still]
    bodies = model.bodies
    root = WORLD
    if free:
        top = floating or [b for b in bodies if b.parent == WORLD]
        if len(top) != 1 or top[0].joints:
            raise InvalidModel(
                "a floating base is one body at the top of the tree, without hinges",
                argument=path,
                got=f"{len(top)}: {', '.join(b.name for b in top[:8])}",
            )
        root = top[0].name
        inside = {root}
        for body in bodies:
            if body.parent in inside:
                inside.add(body.name)
        outside = [b.name for b in bodies if b.name not in inside and b.joints]
        if outside:
            raise InvalidModel(
                "joints move bodies that are not part of what floats", argument=path, valid=outside
            )
        bodies = tuple(b for b in bodies if b.name in inside)
    elif floating:
        raise InvalidModel(
            "a body floats freely",
            argument=f"{path}, body '{floating[0].name}', line {floating[0].element.line}",
            cure="if it stands still, say so in the file of --with:\n"
            + joint_lines([_free_joint(floating[0])], "fixed = true"),
        )
    links = [] if free else [urdf.link_text(WORLD)]
    joints: list[urdf.Joint] = []
    for body in bodies:
        links.append(urdf.link_text(body.name, body.parameters))
        if body.name != root:
            joints += _chain(body, model.mimics)
    aids = {j.child for j in joints} - {b.name for b in bodies}
    links += [urdf.link_text(name) for name in sorted(aids)]
    text = urdf.robot_text(model.name, links, joints)
    solid = frozenset(b.name for b in bodies if b.of_meshes)
    floaters = frozenset(_free_joint(b) for b in bodies if b.floats)
    return urdf.Translation(text, frozenset(aids), solid, model.gravity, model.notes, floaters)


def _chain(body: Body, mimics: Mapping[str, tuple[str, float, float]]) -> list[urdf.Joint]:
    """Return the URDF joints that lead from a body's parent to the body."""
    parent, rotation, translation = body.parent, body.rotation, body.translation
    here = np.zeros(3)  # of the last joint's frame in the body's frame
    joints = []
    for joint in body.joints:
        translation = translation + rotation @ (joint.position - here)
        here = joint.position
        if joint.slides:
            translation = translation - rotation @ joint.axis * joint.reference
        else:
            rotation = rotation @ matrix_of_axis_angle(joint.axis, -joint.reference)
        last = joint is body.joints[-1] and not here.any()
        child = body.name if last else f"{body.name}@{joint.name}"
        kind = "prismatic" if joint.slides else "continuous"
        mimic = mimics.get(joint.name)
        joints.append(
            urdf.Joint(joint.name, kind, parent, child, rotation, translation, joint.axis, mimic)
        )
        parent, rotation, translation = child, np.eye(3), np.zeros(3)
    if not body.joints or here.any():
        name = f"{body.name}@{parent}"
        joints.append(urdf.Joint(name, "fixed", parent, body.name, rotation, translation - here))
    return joints
