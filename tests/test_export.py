"""The written model says what was found, and every other byte is the file's.

Three witnesses, none of them heft's: pinocchio and ElementTree read the numbers back, and a
scanner of its own, `scanned`, takes out of the written file what may have been put in and
compares what is left with the original, byte for byte.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pinocchio as pin
import pytest

from heft.errors import FitError
from heft.files.xml import format_number
from heft.information import inertia
from heft.models.export import write_urdf
from heft.models.robot import Robot
from tests.robots import CHOSEN, IMMOBILE, FloatArray, load, loadable, planar_arm, written_inertias

MOMENTS = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
# What may be written, by the path of the element below <robot>.
WRITABLE: dict[tuple[str, ...], tuple[str, ...]] = {
    ("link", "inertial", "origin"): ("xyz", "rpy"),
    ("link", "inertial", "mass"): ("value",),
    ("link", "inertial", "inertia"): MOMENTS,
    ("joint", "dynamics"): ("damping", "friction"),
}
# Ten digits are written: a number is off by at most half a unit in the tenth.
ROUNDING = 5e-10
MARKUP = re.compile(
    rb"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>|</\s*(?P<end>[^\s>]+)\s*>"
    rb"""|<(?P<start>[^\s/>!?]+)(?:[^"'>]|"[^"]*"|'[^']*')*?>""",
    re.DOTALL,
)
ATTRIBUTE = re.compile(rb"""(\s+)([^\s=]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")


@dataclass
class Tag:
    """An element in a file's bytes: where its start tag stands, and where it ends."""

    name: str
    start: int
    opened: int
    ended: int = -1
    children: list[Tag] = field(default_factory=list)

    def child(self, name: str) -> Tag | None:
        return next((c for c in self.children if c.name == name), None)

    def attributes(self, data: bytes) -> dict[str, tuple[int, int, int]]:
        """Return of each attribute where it, its value, and the value's end stand."""
        found = {}
        for m in ATTRIBUTE.finditer(data, self.start, self.opened):
            group = 3 if m.group(3) is not None else 4
            found[m.group(2).decode()] = (m.start(), m.start(group), m.end(group))
        return found


def scanned(data: bytes) -> Tag:
    """Return the root element of a file by regular expressions, without an XML parser."""
    top = Tag("", 0, 0)
    stack = [top]
    for m in MARKUP.finditer(data):
        if m.group("end") is not None:
            tag = stack.pop()
            assert tag.name == m.group("end").decode()
            tag.ended = m.end()
        elif m.group("start") is not None:
            tag = Tag(m.group("start").decode(), m.start(), m.end())
            stack[-1].children.append(tag)
            if m.group().endswith(b"/>"):
                tag.ended = m.end()
            else:
                stack.append(tag)
    assert stack == [top]
    return top.children[0]


def restored(original: bytes, written: bytes, links: set[str], joints: set[str]) -> bytes:
    """Return the written bytes with all that may differ put back as in the original.

    That is values of `WRITABLE` attributes of these links and joints, such attributes where
    there were none, and whole elements where there were none: `<inertial>` and its `<origin>`,
    `<dynamics>`.
    """
    edits: list[tuple[int, int, bytes]] = []

    def attributes(before: Tag, after: Tag, names: tuple[str, ...]) -> None:
        old, new = before.attributes(original), after.attributes(written)
        for name in names:
            if name in old:
                edits.append((*new[name][1:], original[slice(*old[name][1:])]))
            elif name in new:
                begin, _, end = new[name]
                edits.append((begin, end + 1, b""))

    def inserted(before: Tag, after: Tag, name: str) -> None:
        child = after.child(name)
        assert child is not None, name
        if original[before.opened - 2 : before.opened] == b"/>":
            assert written[child.ended : after.ended].split() == [f"</{after.name}>".encode()]
            edits.append((after.opened - 1, after.ended, b"/>"))
        else:
            edits.append((after.opened, child.ended, b""))
        assert not written[after.opened : child.start].strip()

    roots = scanned(original), scanned(written)
    assert len(roots[0].children) == len(roots[1].children)
    for before, after in zip(roots[0].children, roots[1].children, strict=True):
        chosen = {"link": links, "joint": joints}.get(before.name, set())
        place = before.attributes(original).get("name")
        if place is None or original[slice(*place[1:])].decode() not in chosen:
            continue
        top = "inertial" if before.name == "link" else "dynamics"
        old, new = before.child(top), after.child(top)
        if old is None or new is None:
            inserted(before, after, top)
        elif top == "dynamics":
            attributes(old, new, WRITABLE["joint", top])
        else:
            for name in ("origin", "mass", "inertia"):
                inside, now = old.child(name), new.child(name)
                if inside is None or now is None:
                    inserted(old, new, name)
                else:
                    attributes(inside, now, WRITABLE["link", top, name])
    out, position = [], 0
    for begin, end, text in sorted(edits):
        assert begin >= position
        out += [written[position:begin], text]
        position = end
    return b"".join([*out, written[position:]])


def bodies(robot: Robot, rng: np.random.Generator) -> dict[str, FloatArray]:
    """Return random consistent parameters of each link that carries moving mass."""
    found = {}
    for link in robot.bodies_links:
        points = rng.normal(size=(3, 3)) * np.exp(rng.normal(-2.0, 1.0, size=3))
        moments = points @ points.T
        central = np.trace(moments) * np.eye(3) - moments
        mass = float(np.exp(rng.normal(0.0, 1.5)))
        found[link.name] = inertia.from_body(mass, rng.normal(0.0, 0.1, 3), mass * central)
    return found


def rubbing(robot: Robot, rng: np.random.Generator) -> dict[str, tuple[float, float]]:
    """Return random damping and friction of each joint."""
    return {j: tuple(rng.exponential(size=2).tolist()) for j in robot.joints}


def own(robot: Robot) -> dict[str, FloatArray]:
    """Return what the file says of its links itself, stand-ins where it is no rigid body."""
    found = {}
    for link in robot.bodies_links:
        mass, _, central = inertia.to_body(link.written)
        least, middle, largest = np.linalg.eigvalsh(central)
        solid = mass > 0.0 and least > 0.0 and least + middle - largest > 1e-6 * largest
        found[link.name] = link.written if solid else link.nominal
    return found


def close(got: FloatArray, wanted: FloatArray, tolerance: float) -> bool:
    return bool(np.linalg.norm(got - wanted) <= tolerance * np.linalg.norm(wanted))


@pytest.fixture(scope="module", params=loadable())
def robot(request: pytest.FixtureRequest) -> Robot:
    return load(request.param)


@dataclass(frozen=True)
class Written:
    """A file that was written, and what it is to say of links and joints."""

    links: dict[str, FloatArray]
    friction: dict[str, tuple[float, float]]
    data: bytes


@pytest.fixture(scope="module")
def written(robot: Robot) -> Written:
    rng = np.random.default_rng(1)
    links, friction = bodies(robot, rng), rubbing(robot, rng)
    return Written(links, friction, write_urdf(robot.source, links, friction))


@pytest.fixture(scope="module")
def itself(robot: Robot) -> Written:
    """Return the file written with what it says itself."""
    return Written(own(robot), {}, write_urdf(robot.source, own(robot), {}))


def test_pinocchio_reads_from_the_file_what_was_written(robot: Robot, written: Written) -> None:
    links, friction = written.links, written.friction
    model = pin.buildModelFromXML(written.data.decode(), False)
    before = written_inertias(robot.source)
    total = {j: np.zeros(10) for j in range(1, model.njoints)}
    for frame in model.frames:
        ten = links.get(frame.name, before.get(frame.name))
        if frame.type == pin.FrameType.BODY and frame.parentJoint > 0 and ten is not None:
            moved = inertia.frame_change(frame.placement.rotation, frame.placement.translation)
            total[frame.parentJoint] += moved @ ten
    for j, ten in total.items():
        assert close(model.inertias[j].toDynamicParameters(), ten, 1e-8), model.names[j]
    # Where joints mimic, only their masters' friction is written.
    for name, (damping, dry) in friction.items():
        at = model.joints[model.getJointId(name)].idx_v
        assert model.damping[at] == pytest.approx(damping, rel=ROUNDING)
        assert model.upperDryFrictionLimit[at] == pytest.approx(dry, rel=ROUNDING)


def test_each_links_own_numbers_are_those_given_and_nobody_elses_change(
    robot: Robot, written: Written
) -> None:
    links = written.links
    after = ET.fromstring(written.data)
    before = ET.fromstring(robot.source)
    for old, new in zip(before.findall("link"), after.findall("link"), strict=True):
        name = new.attrib["name"]
        inertial = new.find("inertial")
        if name not in links:
            assert ET.tostring(old) == ET.tostring(new)
            continue
        assert inertial is not None
        origin, mass, tensor = (inertial.find(t) for t in ("origin", "mass", "inertia"))
        assert origin is not None and mass is not None and tensor is not None
        wanted = pin.Inertia.FromDynamicParameters(links[name])
        assert [float(x) for x in origin.attrib["rpy"].split()] == [0.0, 0.0, 0.0]
        com = np.array([float(x) for x in origin.attrib["xyz"].split()])
        assert close(com, wanted.lever, 2 * ROUNDING)
        assert float(mass.attrib["value"]) == pytest.approx(wanted.mass, rel=ROUNDING)
        matrix = np.array([float(tensor.attrib[k]) for k in MOMENTS])
        expected = wanted.inertia[[0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]
        # Moving to the centre of mass cancels: a share of the inertia about the origin.
        slack = 1e-13 * np.linalg.norm(links[name][4:]) / np.linalg.norm(expected)
        assert close(matrix, expected, 2 * ROUNDING + slack)


def test_every_other_byte_is_the_files(robot: Robot, written: Written) -> None:
    links, friction = set(written.links), set(written.friction)
    assert written.data != robot.source
    assert restored(robot.source, written.data, links, friction) == robot.source


@pytest.mark.parametrize("file", IMMOBILE)
def test_every_other_byte_of_a_single_floating_body_is_the_files(file: str) -> None:
    robot = load(file, "free")
    links = bodies(robot, np.random.default_rng(3))
    data = write_urdf(robot.source, links, {})
    assert links and data != robot.source
    assert restored(robot.source, data, set(links), set()) == robot.source


def test_nothing_to_write_leaves_the_file_as_it_is(robot: Robot) -> None:
    assert write_urdf(robot.source, {}, {}) == robot.source


def test_the_same_written_again_is_the_same_file(written: Written) -> None:
    assert write_urdf(written.data, written.links, written.friction) == written.data


def test_a_written_robots_own_values_written_again_change_no_byte(itself: Written) -> None:
    again = Robot.from_urdf_text(itself.data)
    links = {k.name: k.written for k in again.bodies_links}
    assert write_urdf(itself.data, links, {}) == itself.data


def test_a_zero_moment_stays_a_plain_zero(itself: Written) -> None:
    """Not the rounding of one: who reads the file should see which products are zero."""
    said = itself.links
    for link in ET.fromstring(itself.data).findall("link"):
        name, tensor = link.attrib["name"], link.find("inertial/inertia")
        if name not in said:
            continue
        assert tensor is not None
        moments = np.abs([float(tensor.attrib[k]) for k in MOMENTS])
        dust = 1e-14 * np.abs(said[name][4:]).max()
        assert not ((moments > 0.0) & (moments < dust)).any(), name


def test_links_that_are_only_frames_or_never_move_are_left_alone(
    robot: Robot, written: Written
) -> None:
    carrying = {k.name for k in robot.bodies_links}
    data = written.data
    before, after = scanned(robot.source), scanned(data)
    for old, new in zip(before.children, after.children, strict=True):
        text = robot.source[old.start : old.ended]
        name = old.attributes(robot.source).get("name")
        if old.name != "link" or name is None:
            continue
        same = text == data[new.start : new.ended]
        assert same == (robot.source[slice(*name[1:])].decode() not in carrying)


def test_what_was_read_of_the_written_file_is_a_robot_of_the_same_structure(
    robot: Robot, written: Written
) -> None:
    again = Robot.from_urdf_text(written.data)
    assert again.structure_hash() == robot.structure_hash()
    assert {k.name for k in again.bodies_links} == set(written.links)
    assert [k.name for k in again.links] == [k.name for k in robot.links]


@pytest.mark.parametrize("file", CHOSEN)
def test_a_file_with_windows_line_endings_keeps_them(file: str) -> None:
    robot = load(file)
    rng = np.random.default_rng(7)
    links, friction = bodies(robot, rng), rubbing(robot, rng)
    unix = robot.source.replace(b"\r\n", b"\n")
    dos = unix.replace(b"\n", b"\r\n")
    data = write_urdf(dos, links, friction)
    assert re.search(rb"(?<!\r)\n", data) is None
    assert data == write_urdf(unix, links, friction).replace(b"\n", b"\r\n")
    assert restored(dos, data, set(links), set(friction)) == dos


# One link and one joint in as many ways as people and tools write them.
FRAME = """<?xml version='1.0' encoding="utf-8"?>
<!-- <link name="arm"><inertial><mass value="9"/></inertial></link> > " ' -->
<robot name="odd" xmlns:x="urn:x">
  <link name="base"/>
  {link}
  {joint}
  <gazebo reference="arm"><link name="arm"><inertial><mass value="3"/></inertial></link></gazebo>
  <transmission name="t"><joint name="pan"><dynamics damping="5"/></joint></transmission>
</robot>
<!-- the end: größer, 重 -->"""
PLAIN_LINK = """<link name="arm">
    <inertial>
      <origin xyz="0.1 0 0" rpy="0 0 0"/>
      <mass value="2"/>
      <inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/>
    </inertial>
  </link>"""
PLAIN_JOINT = """<joint name="pan" type="revolute">
    <parent link="base"/>
    <child link="arm"/>
    <axis xyz="0 0 1"/>
    <limit lower="-1" upper="1" effort="1" velocity="1"/>
    <dynamics damping="0.5" friction="0.25"/>
  </joint>"""
MASS_AND_MOMENTS = (
    '<mass value="2"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>'
)
LINKS: dict[str, str] = {
    "plain": PLAIN_LINK,
    "single quotes": PLAIN_LINK.replace('"', "'"),
    "quotes of both kinds": PLAIN_LINK.replace('value="2"', "value='2'"),
    "blanks around the equals sign": PLAIN_LINK.replace("=", "\n = \t"),
    "a newline before each attribute": re.sub(r" (?=\w+=)", "\n\t", PLAIN_LINK),
    "blanks before the closing bracket": PLAIN_LINK.replace("/>", " \n />"),
    "end tags instead of self-closing ones": re.sub(
        r"<(origin|mass|inertia) ([^>]*)/>", r"<\1 \2></\1 >", PLAIN_LINK
    ),
    "attributes in another order": PLAIN_LINK.replace(
        'ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"',
        'izz="1" iyz="0" ixx="1" iyy="1" ixz="0" ixy="0"',
    ).replace('xyz="0.1 0 0" rpy="0 0 0"', 'rpy="0 0 0" xyz="0.1 0 0"'),
    "elements in another order": '<link name="arm"><inertial><inertia ixx="1" ixy="0" ixz="0" '
    'iyy="1" iyz="0" izz="1"/><mass value="2"/><origin xyz="1 0 0"/></inertial></link>',
    "comments that look like elements": PLAIN_LINK.replace(
        "<mass", '<!-- <mass value="7"/> <origin xyz="1 1 1"/> --><mass'
    ).replace("<inertial>", "<inertial><!-- a > b -->"),
    "brackets inside values": PLAIN_LINK.replace(
        'name="arm"', """name="arm" note="a > b, mass value='8' />" """
    ),
    "names that end like others": PLAIN_LINK.replace("<mass ", '<mass x:value="4" my-value="5" '),
    "numbers written in other ways": PLAIN_LINK.replace('"2"', '" +2.0E0 "').replace(
        '"0.1 0 0"', '"  .1\t0.\n0e5 "'
    ),
    "turned axes": PLAIN_LINK.replace('rpy="0 0 0"', 'rpy="0.3 -0.2 1.1"'),
    "no rpy": PLAIN_LINK.replace(' rpy="0 0 0"', ""),
    "no xyz": PLAIN_LINK.replace('xyz="0.1 0 0" ', ""),
    "an empty origin": PLAIN_LINK.replace('<origin xyz="0.1 0 0" rpy="0 0 0"/>', "<origin/>"),
    "an empty origin with an end tag": PLAIN_LINK.replace(
        '<origin xyz="0.1 0 0" rpy="0 0 0"/>', "<origin ></origin>"
    ),
    "no origin": PLAIN_LINK.replace('<origin xyz="0.1 0 0" rpy="0 0 0"/>', ""),
    "no origin, one line": '<link name="arm"><inertial>' + MASS_AND_MOMENTS,
    "a visual before the inertial": PLAIN_LINK.replace(
        "<inertial>",
        '<visual><origin xyz="1 2 3"/><geometry><sphere radius="1"/></geometry></visual><inertial>',
    ),
    "no inertial but a comment": '<link name="arm"> <!-- to be weighed --> </link>',
    "no inertial but a visual": """<link name="arm">
      <visual>
        <origin xyz="1 2 3" rpy="0 0 0"/>
        <geometry><sphere radius="1"/></geometry>
      </visual>
  </link>""",
    "nothing": '<link name="arm"></link>',
    "nothing but a newline": '<link name="arm">\n  </link>',
    "nothing, self-closing": '<link name="arm"/>',
    "nothing, self-closing, single quotes": "<link name='arm' />",
    "nothing, self-closing on a new line": '<link\n    name="arm"\n  />',
    "nothing, beside something else": '<material name="m"/><link name="arm"/><material name="n"/>',
}
JOINTS: dict[str, str] = {
    "plain": PLAIN_JOINT,
    "single quotes": PLAIN_JOINT.replace('"', "'"),
    "friction before damping": PLAIN_JOINT.replace(
        'damping="0.5" friction="0.25"', "friction = '0.25'\n damping\t=\t'0.5'"
    ),
    "damping alone": PLAIN_JOINT.replace(' friction="0.25"', ""),
    "friction alone": PLAIN_JOINT.replace(' damping="0.5"', ""),
    "other attributes beside": PLAIN_JOINT.replace(
        "<dynamics ", '<dynamics spring_reference="1" xdamping="3" '
    ),
    "empty dynamics": PLAIN_JOINT.replace(' damping="0.5" friction="0.25"', ""),
    "an end tag": PLAIN_JOINT.replace('friction="0.25"/>', 'friction="0.25"></dynamics>'),
    "no dynamics": PLAIN_JOINT.replace('<dynamics damping="0.5" friction="0.25"/>', ""),
    "no dynamics, one line": re.sub(r"\s*\n\s*|<dynamics.*?/>", " ", PLAIN_JOINT),
    "dynamics in a comment": PLAIN_JOINT.replace("<dynamics", "<!-- <dynamics").replace(
        'friction="0.25"/>', 'friction="0.25"/> -->'
    ),
}
ENDINGS: dict[str, Callable[[str], bytes]] = {
    "unix": lambda text: text.encode(),
    "windows": lambda text: text.replace("\n", "\r\n").encode(),
    "byte order mark": lambda text: b"\xef\xbb\xbf" + text.encode(),
}
ODD = {
    **{f"link, {k}": FRAME.format(link=v, joint=PLAIN_JOINT) for k, v in LINKS.items()},
    **{f"joint, {k}": FRAME.format(link=PLAIN_LINK, joint=v) for k, v in JOINTS.items()},
}
FOUND = inertia.from_body(
    3.25,
    np.array([0.01, -0.02, 0.3]),
    np.array([[0.4, 0.01, -0.02], [0.01, 0.5, 0.03], [-0.02, 0.03, 0.3]]),
)
RUBS = (1.75, 0.625)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("case", ODD)
def test_odd_formatting_is_kept_and_the_numbers_arrive(case: str, ending: str) -> None:
    source = ENDINGS[ending](ODD[case])
    data = write_urdf(source, {"arm": FOUND}, {"pan": RUBS})
    assert restored(source, data, {"arm"}, {"pan"}) == source
    assert ending != "windows" or re.search(rb"(?<!\r)\n", data) is None
    assert close(written_inertias(data)["arm"], FOUND, 1e-8)
    model = pin.buildModelFromXML(data.decode("utf-8-sig"), False)
    assert close(model.inertias[1].toDynamicParameters(), FOUND, 1e-8)
    assert (model.damping[0], model.upperDryFrictionLimit[0]) == RUBS
    assert write_urdf(data, {"arm": FOUND}, {"pan": RUBS}) == data


@pytest.mark.parametrize("case", ODD)
def test_only_numbers_replaced_means_equal_bytes_between_them(case: str) -> None:
    """The same law by cutting both files at the replaced values, where nothing is inserted."""
    once = write_urdf(ODD[case].encode(), {"arm": FOUND}, {"pan": RUBS})
    twice = write_urdf(once, {"arm": 1.5 * FOUND}, {"pan": (3.5, 4.5)})
    root = scanned(once), scanned(twice)

    def between(data: bytes, top: Tag) -> list[bytes]:
        spans = []
        for element in top.children:
            name = element.attributes(data).get("name")
            if name is None or data[slice(*name[1:])] not in (b"arm", b"pan"):
                continue
            for path, keys in WRITABLE.items():
                tag: Tag | None = element if element.name == path[0] else None
                for step in path[1:]:
                    tag = None if tag is None else tag.child(step)
                if tag is not None:
                    spans += [tag.attributes(data)[k][1:] for k in keys]
        cuts = [0, *(x for span in sorted(spans) for x in span), len(data)]
        return [data[a:b] for a, b in zip(cuts[::2], cuts[1::2], strict=True)]

    assert between(once, root[0]) == between(twice, root[1])
    assert len(between(once, root[0])) == 1 + sum(map(len, WRITABLE.values()))


def test_an_inserted_inertial_stands_where_people_would_put_it() -> None:
    data = write_urdf(ODD["link, nothing, self-closing"].encode(), {"arm": FOUND}, {})
    found = re.search(r'  <link name="arm">\n.*?</link>\n', data.decode(), re.DOTALL)
    assert found is not None
    lines = found.group().splitlines()
    assert [len(k) - len(k.lstrip()) for k in lines] == [2, 4, 6, 6, 6, 4, 2]
    assert [k.split()[0].strip("<>") for k in lines] == [
        *("link", "inertial", "origin", "mass", "inertia", "/inertial", "/link")
    ]


def scales() -> Mapping[str, FloatArray]:
    """Return bodies from specks to ships, from round to all but flat, near and far."""
    rng = np.random.default_rng(8)
    found = {}
    for mass in (1e-4, 1.0, 1e5):
        for thin in (1.0, 1e-3, 1e-6):
            for away in (0.0, 1.0):
                axes = np.linalg.qr(rng.normal(size=(3, 3)))[0]
                moments = axes @ np.diag([1.0, 0.5, thin]) @ axes.T
                central = 0.01 * mass * (np.trace(moments) * np.eye(3) - moments)
                com = away * rng.normal(size=3)
                found[f"{mass:g} kg, {thin:g} thin, {away:g} m away"] = inertia.from_body(
                    mass, com, central
                )
    return found


@pytest.mark.parametrize("name", scales())
def test_rounded_numbers_are_still_those_of_a_rigid_body(name: str) -> None:
    data = write_urdf(planar_arm().source, {"upper": scales()[name]}, {})
    tensor = ET.fromstring(data).find("link[@name='upper']/inertial/inertia")
    assert tensor is not None
    xx, xy, xz, yy, yz, zz = (float(tensor.attrib[k]) for k in MOMENTS)
    moments = np.linalg.eigvalsh([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    assert moments[0] > 0.0
    assert moments[0] + moments[1] > moments[2]
    assert pin.buildModelFromXML(data.decode()).inertias[1].mass > 0.0


IMPOSSIBLE: dict[str, FloatArray] = {
    "a negative mass": inertia.from_body(-1.0, np.zeros(3), np.eye(3)),
    "no mass": np.zeros(10),
    "a negative moment": inertia.from_body(1.0, np.zeros(3), np.diag([-0.1, 1.0, 1.0])),
    "moments against the triangle": inertia.from_body(1.0, np.zeros(3), np.diag([1.0, 1.0, 2.1])),
    "a flat body": inertia.from_body(1.0, np.zeros(3), np.diag([1.0, 1.0, 2.0])),
    "a product too large": inertia.from_body(
        1.0, np.zeros(3), np.array([[1.0, 1.1, 0.0], [1.1, 1.0, 0.0], [0.0, 0.0, 1.0]])
    ),
    "not a number": np.full(10, np.nan),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_a_body_that_cannot_be_is_never_written(name: str) -> None:
    with pytest.raises(FitError):
        write_urdf(planar_arm().source, {"upper": IMPOSSIBLE[name]}, {})


@pytest.mark.parametrize(
    "value", [0.0, -0.0, 1.0, -1.5, 1e-300, 1e300, 1 / 3, -1e-5, 12345678901.0, 5e-324]
)
def test_a_number_is_read_back_to_ten_digits_and_written_again_the_same(value: float) -> None:
    text = format_number(value)
    assert float(text) == pytest.approx(value, rel=ROUNDING, abs=0.0)
    assert format_number(float(text)) == text
    assert not (value == 0.0 and text != "0")
