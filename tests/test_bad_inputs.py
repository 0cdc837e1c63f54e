"""Every bad input has a named error that says what is wrong and where, and nothing worse.

One table, `CASES`: what is given, the class of the error, words of its message, and what its
`argument` must name. Most cases are a good file with one thing changed; that the good files are
accepted is a test of its own, or the table would say nothing.
"""

from __future__ import annotations

import errno
import gzip
import io
import math
import os
import pickle
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from numpy.lib import format as npy

from heft import cli
from heft.applications.identification.identified import Identified
from heft.applications.identification.inputs import identify
from heft.applications.identification.results import refuse_foreign
from heft.applications.predict import predict_files
from heft.cli import SmoothingOptions
from heft.errors import (
    FitError,
    HeftError,
    InputError,
    InvalidModel,
    InvalidRecording,
    InvalidSetting,
    MissingSignal,
    TooLittleData,
)
from heft.estimators.consistent import PhysicallyConsistent
from heft.files import read_text
from heft.fit.settings import Settings
from heft.information.square_root import Information
from heft.models.options import Options
from heft.models.robot import Robot
from heft.plants import RobotPlant
from heft.plants.problem import Problem
from heft.recordings.columns import ColumnMap
from heft.recordings.recording import Recording
from heft.signals.clock import survey
from heft.signals.settings import Smoothing

UPPER = """<link name="upper">
    <inertial>
      <origin xyz="0 0 0.25" rpy="0 0 0.1"/>
      <mass value="2.5"/>
      <inertia ixx="0.1" ixy="0" ixz="0" iyy="0.11" iyz="0" izz="0.05"/>
    </inertial>
  </link>"""
URDF = f"""<?xml version="1.0"?>
<robot name="arm">
  <link name="base"/>
  {UPPER}
  <link name="forearm">
    <inertial>
      <mass value="1.25"/>
      <inertia ixx="0.02" ixy="0" ixz="0" iyy="0.02" iyz="0" izz="0.01"/>
    </inertial>
  </link>
  <link name="finger"/>
  <link name="thumb"/>
  <joint name="shoulder" type="revolute">
    <parent link="base"/> <child link="upper"/> <axis xyz="0 1 0"/>
    <limit lower="-2" upper="2" effort="10" velocity="3"/>
  </joint>
  <joint name="elbow" type="continuous">
    <parent link="upper"/> <child link="forearm"/> <origin xyz="0 0 0.5"/> <axis xyz="1 0 0"/>
  </joint>
  <joint name="grip" type="prismatic">
    <parent link="forearm"/> <child link="finger"/> <axis xyz="0 0 1"/>
    <limit lower="0" upper="1" effort="10" velocity="3"/>
  </joint>
  <joint name="follow" type="prismatic">
    <parent link="forearm"/> <child link="thumb"/> <axis xyz="0 0 -1"/>
    <limit lower="0" upper="1" effort="10" velocity="3"/>
    <mimic joint="grip" multiplier="1"/>
  </joint>
</robot>
"""
MASS, INERTIA = 'value="2.5"', 'ixx="0.1"'
INERTIA_LINE = '<inertia ixx="0.1" ixy="0" ixz="0" iyy="0.11" iyz="0" izz="0.05"/>'
ELBOW = 'name="elbow" type="continuous"'
BOMB = (
    '<!DOCTYPE r [<!ENTITY a "ha">'
    + "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in pairwise("abcdefghi"))
    + "]>"
)
PENDULUM = b"""<robot name="pendulum"> <link name="base"/> <link name="bob"/>
  <joint name="elbow" type="continuous">
    <parent link="base"/> <child link="bob"/> <axis xyz="0 1 0"/>
  </joint> </robot>"""

ROWS, STEP = 400, 0.01
TIME = STEP * np.arange(ROWS)
LOG = {"t": TIME, "q.elbow": np.sin(3.0 * TIME), "tau.elbow": np.cos(TIME)}
HEAD = ",".join(LOG)
LINES = [HEAD, *(",".join(repr(float(x)) for x in row) for row in zip(*LOG.values(), strict=True))]
MAP = '[q]\njoints = ["shoulder", "elbow"]\n'
TWO = MAP + 'columns = ["x", "y"]\n'
PAIR = '[coupling]\njoints = ["shoulder", "elbow"]\nmotors = ["m1", "m2"]\n'


@dataclass(frozen=True)
class Case:
    """A bad input and what must be said of it."""

    name: str
    error: type[HeftError]
    says: str
    where: tuple[str, ...]
    use: Callable[[Path], object]


def written(folder: Path, name: str, data: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def changed(*changes: tuple[str, str]) -> str:
    text = URDF
    for old, new in changes:
        assert text.count(old) == 1, f"{old} is not once in the good URDF"
        text = text.replace(old, new)
    return text


def at(text: str) -> str:
    """Return in which line of the good URDF a text begins."""
    return f"line {URDF[: URDF.index(text)].count(chr(10)) + 1}"


def urdf(name: str, data: str | bytes | tuple[str, str], says: str, *where: str) -> Case:
    content = changed(data) if isinstance(data, tuple) else data
    return Case(
        f"URDF: {name}",
        InvalidModel,
        says,
        ("arm.urdf", *where),
        lambda folder: Robot.from_urdf(written(folder, "arm.urdf", content)),
    )


def mass(value: str) -> Case:
    return urdf(
        f"mass {value!r}",
        (MASS, f'value="{value}"'),
        "mass value is not a finite number",
        "link 'upper'",
    )


def options(name: str, toml: str | bytes, says: str, *where: str) -> Case:
    def use(folder: Path) -> Robot:
        read = Options.from_toml(written(folder, "with.toml", toml))
        return Robot.from_urdf_text(URDF.encode(), read)

    return Case(f"options: {name}", InvalidSetting, says, where or ("with.toml",), use)


def column_map(name: str, toml: str, says: str, *where: str) -> Case:
    return Case(
        f"map: {name}",
        InvalidSetting,
        says,
        ("map.toml", *where),
        lambda folder: ColumnMap.from_toml(written(folder, "map.toml", toml)),
    )


def walk(recording: Recording, smoothing: Smoothing, settings: Options | None = None) -> object:
    """Do with a log what an identification does, up to its information."""
    problem = Problem(RobotPlant(Robot.from_urdf_text(PENDULUM, settings)), (recording,), smoothing)
    return problem.timelines, problem.resolved, problem.information()


def log(
    name: str,
    file: str,
    data: str | bytes | Callable[[Path], object],
    says: str,
    error: type[HeftError] = InvalidRecording,
    corner: float | None = 10.0,
    columns: dict[str, Any] | None = None,
    where: tuple[str, ...] = (),
) -> Case:
    def use(folder: Path) -> object:
        path = folder / file
        if callable(data):
            data(path)
        else:
            written(folder, file, data)
        chosen = ColumnMap.from_dict(columns) if columns is not None else None
        return walk(Recording.open(path, chosen), Smoothing(corner))

    return Case(f"log: {name}", error, says, (file, *where), use)


def csv(name: str, lines: list[str], says: str, **more: Any) -> Case:
    return log(f"CSV, {name}", "run.csv", "\n".join(lines) + "\n", says, **more)


def fifth(row: str) -> list[str]:
    return [*LINES[:5], row, *LINES[6:]]


def renamed(**names: str) -> list[str]:
    head = HEAD
    for old, new in names.items():
        head = head.replace(f"{old}.elbow" if old != "t" else "t,", new, 1)
    return [head, *LINES[1:]]


def npz(name: str, says: str, error: type[HeftError] = InvalidRecording, **arrays: Any) -> Case:
    content = {**LOG, **{k.replace("_", "."): v for k, v in arrays.items()}}
    return log(f"NPZ, {name}", "run.npz", lambda path: np.savez(path, **content), says, error=error)


def parquet(
    name: str, says: str, error: type[HeftError] = InvalidRecording, **columns: Any
) -> Case:
    table = pyarrow.table({**LOG, **{k.replace("_", "."): v for k, v in columns.items()}})
    return log(
        f"Parquet, {name}",
        "run.parquet",
        lambda path: pyarrow.parquet.write_table(table, path),
        says,
        error=error,
    )


def zipped(**entries: bytes) -> bytes:
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as file:
        for name, data in entries.items():
            file.writestr(name.replace("_", "."), data)
    return memory.getvalue()


def lying_shape() -> bytes:
    """Return an array file that claims 7 TiB and holds eight bytes."""
    memory = io.BytesIO()
    npy.write_array_header_1_0(memory, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)})
    return memory.getvalue() + bytes(8)


def single_array() -> bytes:
    memory = io.BytesIO()
    np.save(memory, TIME)
    return memory.getvalue()


def parquet_bytes() -> bytes:
    memory = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(LOG), memory)
    return memory.getvalue()


def twice_named(path: Path) -> None:
    table = pyarrow.table([*LOG.values(), LOG["q.elbow"]], names=[*LOG, "q.elbow"])
    pyarrow.parquet.write_table(table, path)


def arrays(time: Any = TIME, **signals: Any) -> Recording:
    return Recording.from_arrays(time, "arrays", **signals)


def setting(name: str, says: str, argument: str, **settings: Any) -> Case:
    recording = arrays(q={"elbow": LOG["q.elbow"]}, tau={"elbow": LOG["tau.elbow"]})
    return Case(
        f"setting: {name}",
        InvalidSetting,
        says,
        (argument,),
        lambda _: walk(recording, Smoothing(**settings)),
    )


def place(
    what: str,
    file: str,
    read: Callable[[Path], object],
    error: type[HeftError],
    name: str,
    make: Callable[[Path], object],
    says: str,
) -> Case:
    """Return the case of a file that cannot be opened, or is none."""

    def use(folder: Path) -> object:
        make(folder / file)
        return read(folder / file)

    return Case(f"{what}: {name}", error, says, (file[:20],), use)


def forbidden(path: Path) -> None:
    """Make a file that nobody may read, not even who may read all."""
    path.write_text("secret")
    FORBIDDEN.add(str(path))


FORBIDDEN: set[str] = set()


@pytest.fixture(autouse=True)
def _rights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files of `forbidden` be closed to everyone, also to the superuser."""
    stat = Path.stat

    def refused(self: Path, **more: Any) -> os.stat_result:
        if str(self) in FORBIDDEN:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))
        return stat(self, **more)

    monkeypatch.setattr(Path, "stat", refused)


def circle(path: Path) -> Path:
    path.symlink_to(path)
    return path


def constant(step: float) -> dict[str, Any]:
    """Return a map of a log whose time step is known."""
    names = {kind: {"columns": [f"{kind}.elbow"], "joints": ["elbow"]} for kind in ("q", "tau")}
    return {"time": {"step": step}, **names}


def array_of(shape: object) -> bytes:
    """Return an NPZ file of one array whose header claims a shape."""
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return zipped(t_npy=b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)


def bomb(size: int) -> bytes:
    """Return a small NPZ file that claims to unpack to some size."""
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as file:
        file.writestr("t.npy", b"\0" * 100)
        file.filelist[0].file_size = size
    return memory.getvalue()


def doubled() -> bytes:
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as file, pytest.warns(UserWarning, match="Duplicate"):
        for _ in range(2):
            file.writestr("t.npy", single_array())
    return memory.getvalue()


def encrypted() -> bytes:
    """Return an NPZ file whose array says that it is encrypted."""
    data = bytearray(zipped(t_npy=single_array()))
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + flags] |= 1
    return bytes(data)


def identification(
    name: str,
    says: str,
    where: str,
    error: type[HeftError] = InvalidSetting,
    toml: str | None = None,
    columns: str | None = None,
    tau: Callable[[np.ndarray], np.ndarray] = np.cos,
    again: bool = False,
    validate: bool = False,
    none: bool = False,
) -> Case:
    """Return a case of the whole command, which is to leave nothing behind."""

    def use(folder: Path) -> None:
        data = np.column_stack([TIME, LOG["q.elbow"], tau(TIME)]).tolist()
        lines = [",".join(map(repr, row)) for row in data]
        run = written(folder, "run.csv", "\n".join([HEAD, *lines]))
        cli.identify(
            written(folder, "pendulum.urdf", PENDULUM),
            *([] if none else [run, run] if again else [run]),
            out=folder / "found",
            options=written(folder, "with.toml", toml) if toml else None,
            columns=written(folder, "map.toml", columns) if columns else None,
            validate=[run] if validate else None,
            smoothing=SmoothingOptions(corner=10.0),
            quiet=True,
        )

    return Case(f"identification: {name}", error, says, (where,), use)


CASES = (
    # Model files
    *(
        mass(value)
        for value in (
            "nan",
            "inf",
            "-inf",
            "1e309",
            "1,5",
            "heavy",
            "1.5kg",
            "1_5",
            "0x2",
            "",
            "1 2",
            "２.５",
        )
    ),
    urdf("a decimal comma, with the cure", (MASS, 'value="1,5"'), "decimal point, not a comma"),
    urdf("a mass without value", (f"<mass {MASS}/>", "<mass/>"), "mass value", "link 'upper'"),
    urdf("a negative mass", (MASS, 'value="-2.5"'), "mass is negative", "link 'upper'", at(UPPER)),
    urdf("no mass", (f"<mass {MASS}/>", ""), "<inertial> has no <mass>", "link 'upper'"),
    urdf("no inertia", (INERTIA_LINE, ""), "<inertial> has no <inertia>", "link 'upper'"),
    urdf("half an inertia", (INERTIA, ""), "inertia ixx is not a finite number", "link 'upper'"),
    urdf("inertia nan", (INERTIA, 'ixx="nan"'), "inertia ixx is not a finite number"),
    urdf(
        "two inertials",
        (UPPER, UPPER.replace("</link>", "<inertial/></link>")),
        "two <inertial> elements",
        "link 'upper'",
    ),
    urdf(
        "a centre of two numbers",
        ('xyz="0 0 0.25"', 'xyz="0 0.25"'),
        "origin xyz is not 3 finite numbers",
        "link 'upper'",
        at("<origin"),
    ),
    urdf("an origin turned by nan", ('rpy="0 0 0.1"', 'rpy="0 0 nan"'), "origin rpy"),
    urdf("a joint nowhere", ('xyz="0 0 0.5"', 'xyz="0 0 inf"'), "origin xyz", "joint 'elbow'"),
    urdf("a document type", ("<robot", "<!DOCTYPE robot>\n<robot"), "document type", "line 2"),
    urdf("entities that explode", ("<robot", BOMB + "<robot"), "entities", "line 2"),
    urdf(
        "an entity from elsewhere",
        ("<robot", '<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/hostname">]><robot'),
        "entities",
    ),
    urdf("a xacro element", ('<link name="base"/>', '<xacro:macro name="m"/>'), "expand it"),
    urdf("a xacro expression", (MASS, 'value="${m}"'), "ros2 run xacro xacro", at(MASS)),
    urdf("a xacro substitution", (MASS, 'value="$(arg m)"'), "this is a xacro file"),
    urdf("no limit", ('lower="-2" upper="2" effort="10" velocity="3"', ""), "limit effort is not"),
    urdf(
        "a revolute joint without limit",
        ('<limit lower="-2" upper="2" effort="10" velocity="3"/>', ""),
        "a revolute joint has no <limit>",
        "joint 'shoulder'",
    ),
    urdf("a limit in words", ('lower="-2"', 'lower="low"'), "limit lower is not a finite number"),
    urdf("a mass of a galaxy", (MASS, 'value="1e42"'), "beyond anything that moves"),
    urdf("an SDF", "<sdf version='1.6'><model name='m'/></sdf>", "sdf2mjcf"),
    urdf(
        "a cycle of all links",
        (
            "</robot>",
            '<joint name="back" type="fixed"><parent link="thumb"/>'
            '<child link="base"/></joint></robot>',
        ),
        "0 root links (a cycle)",
    ),
    urdf(
        "a cycle that cuts off the base",
        ('<parent link="base"/>', '<parent link="forearm"/>'),
        "cycle",
        "link 'upper'",
    ),
    urdf(
        "a cycle beside the tree",
        (
            '<link name="base"/>',
            '<link name="base"/><link name="x"/><link name="y"/>'
            '<joint name="xy" type="fixed"><parent link="x"/><child link="y"/></joint>'
            '<joint name="yx" type="fixed"><parent link="y"/><child link="x"/></joint>',
        ),
        "cycle",
        "link 'x'",
    ),
    urdf(
        "two roots",
        ('<link name="base"/>', '<link name="base"/><link name="lost"/>'),
        "2 root links: base, lost",
    ),
    urdf(
        "a closed loop",
        (
            "</robot>",
            '<joint name="bar" type="fixed"><parent link="base"/>'
            '<child link="thumb"/></joint></robot>',
        ),
        "closed loops",
        "link 'thumb'",
    ),
    urdf(
        "two links of one name",
        ('<link name="thumb"/>', '<link name="finger"/>'),
        "two links are called 'finger'",
        at('<link name="finger"')[5:],
        at('<link name="thumb"')[5:],
    ),
    urdf(
        "two joints of one name",
        ('name="grip" type', 'name="elbow" type'),
        "two joints are called 'elbow'",
        at('<joint name="elbow"')[5:],
        at('<joint name="grip"')[5:],
    ),
    urdf(
        "a link without name",
        ('<link name="thumb"/>', "<link/>"),
        "a link has no name",
        at('<link name="thumb"'),
    ),
    urdf(
        "a joint without name",
        (ELBOW, 'type="continuous"'),
        "a joint has no name",
        at('<joint name="elbow"'),
    ),
    urdf(
        "a parent that is not there",
        ('<parent link="base"/>', '<parent link="bse"/>'),
        "did you mean 'base'?",
        "joint 'shoulder'",
    ),
    urdf("no parent", ('<parent link="base"/>', ""), "the parent of a joint", "joint 'shoulder'"),
    urdf("no child", ('<child link="thumb"/>', ""), "the child of a joint", "joint 'follow'"),
    urdf("an axis of length zero", ('xyz="1 0 0"', 'xyz="0 0 0"'), "no direction", "joint 'elbow'"),
    urdf(
        "an axis nan",
        ('xyz="1 0 0"', 'xyz="nan 0 0"'),
        "axis xyz",
        "joint 'elbow'",
        at('<joint name="elbow"'),
    ),
    urdf("an axis beyond measure", ('xyz="1 0 0"', 'xyz="1e300 0 0"'), "axis", "joint 'elbow'"),
    urdf("an axis of two numbers", ('xyz="1 0 0"', 'xyz="1 0"'), "3 finite numbers"),
    urdf(
        "a floating joint",
        (ELBOW, 'name="elbow" type="floating"'),
        "fixed = true",
        "joint 'elbow'",
    ),
    urdf(
        "a planar joint",
        (ELBOW, 'name="elbow" type="planar"'),
        "'planar' cannot be identified",
        "joint 'elbow'",
    ),
    urdf(
        "a joint type misspelt",
        (ELBOW, 'name="elbow" type="continous"'),
        "did you mean 'continuous'?",
        "joint 'elbow'",
    ),
    urdf("a joint without type", (ELBOW, 'name="elbow"'), "cannot be identified", "joint 'elbow'"),
    urdf(
        "a joint that mimics itself",
        ('<mimic joint="grip"', '<mimic joint="follow"'),
        "mimics a joint that is not there",
        "joint 'follow'",
    ),
    urdf(
        "joints that mimic one another",
        ('<axis xyz="0 0 1"/>', '<axis xyz="0 0 1"/><mimic joint="follow"/>'),
        "mimic one another",
        "joint",
    ),
    urdf(
        "a joint that mimics nobody",
        ('<mimic joint="grip"', '<mimic joint="grab"'),
        "mimics a joint that is not there",
        "joint 'follow'",
    ),
    urdf(
        "a joint that mimics a fixed one",
        ('name="grip" type="prismatic"', 'name="grip" type="fixed"'),
        "mimics a joint that does not move",
        "joint 'follow'",
    ),
    urdf(
        "a mimic multiplied by nan",
        ('multiplier="1"', 'multiplier="nan"'),
        "mimic multiplier",
        "joint 'follow'",
    ),
    urdf("an empty file", "", "not well-formed"),
    urdf("a file cut off", URDF[: len(URDF) // 2], "not well-formed", "line"),
    urdf("a tag cut off", URDF[:-3], "not well-formed", "line"),
    urdf("UTF-16", URDF.encode("utf-16"), "not UTF-8"),
    urdf("USD", b"#usda 1.0\ndef Xform {}", "USD files are not read"),
    urdf("USD, binary", b"PXR-USDC\0\x08", "USD files are not read"),
    urdf("UTF-16 without mark", URDF.encode("utf-16-le"), "not UTF-8"),
    urdf(
        "Latin-1, declared",
        URDF.replace("?>", ' encoding="ISO-8859-1"?>').replace("arm", "ärm").encode("latin-1"),
        "not UTF-8",
    ),
    urdf("Latin-1, not declared", URDF.replace("arm", "ärm").encode("latin-1"), "not UTF-8"),
    urdf("an encoding that nobody knows", URDF.replace("?>", ' encoding="klingon"?>'), "klingon"),
    urdf("a picture", b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "not UTF-8"),
    urdf("a NUL byte", URDF.replace("arm", "a\0m"), "not well-formed"),
    urdf("200 000 elements nested", "<robot>" + "<a>" * 200_000, "nested too deeply"),
    urdf("a robot without a name", ('<robot name="arm">', "<robot>"), "no name", "line 2"),
    urdf("another version", ('name="arm"', 'name="arm" version="2.0"'), "1.0, 1.1, 1.2", "line 2"),
    urdf(
        "a pose by a quaternion",
        ('<origin xyz="0 0 0.5"/>', '<origin quat_xyzw="0 0 0 1"/>'),
        "as rpy",
        at('<origin xyz="0 0 0.5"'),
    ),
    urdf(
        "a name with a space before it",
        ('<link name="thumb"/>', '<link name=" thumb"/>'),
        "did you mean ' thumb'?",
        "joint 'follow'",
    ),
    urdf("a robot of nothing", "<robot name='r'/>", "no links"),
    urdf("a robot that cannot move", "<robot name='r'><link name='a'/></robot>", "no moving joint"),
    urdf(
        "an include",
        ('<link name="base"/>', '<link name="base"/><xi:include href="a.xml" xmlns:xi="x"/>'),
        "must not include others",
        at('<link name="base"'),
    ),
    urdf(
        "two masses",
        (f"<mass {MASS}/>", f"<mass {MASS}/><mass value='1'/>"),
        "two <mass>",
        "link 'upper'",
    ),
    urdf("two inertias", (INERTIA_LINE, 2 * INERTIA_LINE), "two <inertia>", "link 'upper'"),
    urdf(
        "two parents",
        ('<parent link="base"/>', '<parent link="base"/><parent link="finger"/>'),
        "two <parent>",
        "joint 'shoulder'",
    ),
    urdf("a mass as text", (f"<mass {MASS}/>", "<mass>2.5</mass>"), "mass value", "link 'upper'"),
    urdf("an attribute twice", (MASS, f"{MASS} {MASS}"), "not well-formed", at("<mass")),
    urdf("two robots", URDF + URDF.partition("?>")[2], "not well-formed", "line"),
    urdf("an axis without numbers", ('<axis xyz="1 0 0"/>', "<axis/>"), "axis", "joint 'elbow'"),
    *(
        urdf(f"{what} beyond measure", change, says, where)
        for what, change, says, where in (
            ("a mass", (MASS, 'value="1e300"'), "mass value", "link 'upper'"),
            ("an inertia", (INERTIA, 'ixx="1e300"'), "inertia ixx", "link 'upper'"),
            ("a centre", ('xyz="0 0 0.25"', 'xyz="0 0 1e300"'), "origin xyz", "link 'upper'"),
            ("a turn", ('rpy="0 0 0.1"', 'rpy="0 0 1e300"'), "origin rpy", "link 'upper'"),
            ("a joint", ('xyz="0 0 0.5"', 'xyz="0 0 1e300"'), "origin xyz", "joint 'elbow'"),
            ("a mimic", ('multiplier="1"', 'multiplier="1e300"'), "multiplier", "joint 'follow'"),
        )
    ),
    urdf(
        "no limits",
        ('<limit lower="-2" upper="2" effort="10" velocity="3"/>', ""),
        "revolute joint has no <limit>",
        "joint 'shoulder'",
    ),
    *(
        urdf(f"a limit {text!r}", ('lower="-2"', f'lower="{text}"'), "limit lower", "'shoulder'")
        for text in ("nan", "a", "1,5", "")
    ),
    urdf(
        "a limit without effort",
        ('upper="2" effort="10"', 'upper="2"'),
        "limit effort",
        "joint 'shoulder'",
    ),
    urdf(
        "a damping of text",
        ('<axis xyz="1 0 0"/>', '<axis xyz="1 0 0"/><dynamics damping="some"/>'),
        "dynamics damping",
        "joint 'elbow'",
    ),
    urdf(
        "2000 links",
        '<robot name="c"><link name="l0"/>'
        + "".join(
            f'<link name="l{k}"/><joint name="j{k}" type="continuous"><parent link="l{k - 1}"/>'
            f'<child link="l{k}"/></joint>'
            for k in range(1, 2000)
        )
        + "</robot>",
        "too many links",
    ),
    urdf("60 000 elements", "<robot>" + "<a/>" * 60_000 + "</robot>", "too many elements"),
    urdf("17 MB", URDF + " " * 17 * 2**20, "too large"),
    # Files that are none, whatever should be in them
    *(
        place(what, file, read, error, name, make, says)
        for what, file, read, error in (
            ("URDF", "arm.urdf", Robot.from_urdf, InvalidModel),
            ("options", "with.toml", Options.from_toml, InvalidSetting),
            ("map", "map.toml", ColumnMap.from_toml, InvalidSetting),
            ("CSV", "run.csv", Recording.open, InvalidRecording),
            ("NPZ", "run.npz", Recording.open, InvalidRecording),
            ("Parquet", "run.parquet", Recording.open, InvalidRecording),
            ("information", "information.npz", Information.load, InvalidRecording),
            ("results", "estimate.json", lambda path: Identified.load(path.parent), InputError),
        )
        for name, make, says in (
            ("missing", lambda path: None, "does not exist"),
            ("a folder", Path.mkdir, "a folder, not a file"),
            ("a pipe", os.mkfifo, "no regular file"),
            ("a device", lambda path: path.symlink_to("/dev/zero"), "no regular file"),
            ("a circle of links", lambda path: path.symlink_to(path), "symbolic links"),
            ("a link to nothing", lambda path: path.symlink_to("none"), "a link to nothing"),
            ("not ours to read", forbidden, "Permission denied"),
        )
    ),
    place(
        "URDF",
        "a" * 300 + ".urdf",
        Robot.from_urdf,
        InvalidModel,
        "named too long",
        lambda path: None,
        "too long",
    ),
    place(
        "URDF",
        "a\0.urdf",
        Robot.from_urdf,
        InvalidModel,
        "named with a NUL",
        lambda path: None,
        "null",
    ),
    # Results read again
    *(
        Case(
            f"results: {name}",
            InputError,
            "not a folder of results",
            (),
            lambda folder, text=text: [
                written(folder, "estimate.json", text),
                Identified.load(folder),
            ],
        )
        for name, text in (
            ("not JSON", "{"),
            ("nothing in them", "{}"),
            ("a list", "[]"),
            ("brackets without end", "[" * 100_000),
            ("a NaN", '{"settings": NaN}'),
            ("an infinity", '{"settings": Infinity}'),
            ("not UTF-8", b"\xff"),
        )
    ),
    # Places for results
    *(
        Case(
            f"place: {name}",
            InvalidSetting,
            says,
            ("--out",),
            lambda folder, out=out: refuse_foreign(out(folder)),
        )
        for name, says, out in (
            ("a file", "is a file", lambda folder: written(folder, "found", "mine")),
            ("inside a file", "inside a file", lambda folder: written(folder, "f", "") / "a" / "b"),
            ("other things in it", "other files", lambda folder: written(folder, "f", "").parent),
            ("the root", "cannot be replaced", lambda folder: Path("/")),
            ("a device", "a device or pipe is not replaced", lambda folder: Path("/dev/null")),
            ("a circle of links", "no place", lambda folder: circle(folder / "found")),
            ("named too long", "no place", lambda folder: folder / ("a" * 300)),
            ("named with a NUL", "no place", lambda folder: folder / "a\0"),
        )
    ),
    Case(
        "place: of torques, a folder",
        InvalidSetting,
        "a folder, not a file",
        ("--out",),
        lambda folder: [
            (folder / "tau.csv").mkdir(),
            predict_files(folder, folder / "run.csv", folder / "tau.csv"),
        ],
    ),
    Case(
        "place: of torques, of no kind",
        InvalidSetting,
        "neither Parquet nor CSV",
        ("--out",),
        lambda folder: predict_files(folder, folder / "run.csv", folder / "tau.txt"),
    ),
    # Options (--with)
    options("not TOML", "gravity = ", "not a TOML file"),
    options("not UTF-8", b"\xff\xfe", "not a TOML file"),
    options("brackets without end", "x = " + "[" * 100_000, "not a TOML file"),
    options("an integer of 5000 digits", f"[joint.elbow]\ngain = 1{'0' * 5000}", "TOML"),
    options("an unknown key", "graviti = [0, 0, -9.81]", "did you mean 'gravity'?"),
    options(
        "an unknown key of a joint",
        '[joint.elbow]\nfrction = "simple"',
        "did you mean 'friction'?",
        "with.toml",
        "[joint.elbow]",
    ),
    options(
        "an unknown key of the coupling",
        PAIR + "matrx = [[1, 0], [0, 1]]",
        "did you mean 'matrix'?",
        "with.toml",
        "[coupling]",
    ),
    options(
        "an unknown joint", "[joint.elbo]\narmature = true", "did you mean 'elbow'?", "[joint.elbo]"
    ),
    options(
        "a joint that is a number",
        "[joint]\nelbow = 3",
        "a table is expected",
        "with.toml",
        "[joint.elbow]",
    ),
    options("joints that are a number", "joint = 3", "tables are expected", "with.toml", "joint"),
    options("a base that flies", 'base = "flying"', "neither fixed nor free", "with.toml", "base"),
    options("a gravity of words", 'gravity = "down"', "3 numbers", "with.toml", "gravity"),
    options("a gravity of two", "gravity = [0, 0]", "3 numbers", "with.toml", "gravity"),
    options("a gravity of nan", "gravity = [0, 0, nan]", "finite number", "with.toml", "gravity"),
    options("a gravity of truth", "gravity = [0, 0, true]", "finite number", "gravity"),
    options(
        "an unknown friction",
        '[joint.elbow]\nfriction = "sticky"',
        "friction model",
        "with.toml",
        "[joint.elbow], friction",
    ),
    options("an armature of 1", "[joint.elbow]\narmature = 1", "true or false", "armature"),
    options("measured: no", '[joint.elbow]\nmeasured = "no"', "true or false", "measured"),
    *(
        options(
            f"{key} = {value:.9}",
            f"[joint.elbow]\n{key} = {value}",
            says,
            "with.toml",
            f"[joint.elbow], {key}",
        )
        for key, value, says in (
            ("gain", "nan", "a finite number"),
            ("gain", '"10"', "a finite number"),
            ("gain", "0", "positive number"),
            ("gain", "-1", "sign = [-1]"),
            ("gain", "1e300", "a finite number"),
            ("gain", "2020-01-01", "a finite number"),
            ("gain", "0x1" + "0" * 5000, "a finite number"),
            ("gain_std", "0.1", "how sure a gain is"),
            ("reduction", "-100", "positive number"),
            ("gain", "1" + "0" * 400, "a finite number"),
            ("reduction", "inf", "a finite number"),
            ("reduction", "0.0", "positive number"),
            ("position", "[1]", "a finite number"),
            ("position", "1e400", "a finite number"),
        )
    ),
    *(
        options(
            f"a coupling, {name}",
            PAIR + f"matrix = {matrix}",
            says,
            "with.toml",
            "[coupling], matrix",
        )
        for name, matrix, says in (
            ("singular", "[[1, 1], [1, 1]]", "singular"),
            ("of zeros", "[[0, 0], [0, 0]]", "singular"),
            ("not square", "[[1, 0]]", "not square"),
            ("of unlike rows", "[[1, 0], [1]]", "rows differ"),
            ("of nan", "[[1, nan], [0, 1]]", "a finite number"),
            ("that is a number", "1", "list of rows"),
            ("of nothing", "[]", "list of rows"),
        )
    ),
    *(
        options(
            f"a gain of 10 sure to {value}",
            f"[joint.elbow]\ngain = 10\ngain_std = {value}",
            says,
            "with.toml",
            "[joint.elbow], gain_std",
        )
        for value, says in (
            ("-0.1", "0 or more"),
            ("10", "less than it"),
            ("nan", "a finite number"),
            ('"5 %"', "a finite number"),
        )
    ),
    *(
        options(f"limits, {name}", f"[limits.upper]\n{toml}", says, "[limits.upper]", *where)
        for name, toml, says, *where in (
            ("the least above the most", "mass = [2, 1]", "least is above", "mass"),
            ("a mass below 0", "mass = [-2, -1]", "a mass is positive", "mass"),
            ("a mass of nan", "mass = [0, nan]", "finite number", "mass"),
            ("a mass alone", "mass = 2.5", "2 numbers", "mass"),
            ("a centre of two", "com = [[0, 1], [0, 1]]", "x, y and z", "com"),
            ("a centre turned round", "com = [[0, 1], [1, 0], [0, 1]]", "least", "com.y"),
            ("an unknown key", "mas = [1, 2]", "did you mean 'mass'?"),
        )
    ),
    options("limits that are a number", "limits = 3", "tables are expected", "limits"),
    options("limits of a number", "[limits]\nupper = 3", "a table is expected", "[limits.upper]"),
    *(
        options(f"a gravity of {g:g}", f"gravity = [0, 0, {g}]", "not in m/s²", "gravity")
        for g in (-981.0, -9810.0, 1e9)
    ),
    options("a base that is a list", 'base = ["fixed"]', "neither fixed nor free", "base"),
    options("a key twice", 'base = "fixed"\nbase = "free"', "not a TOML file"),
    options("a byte order mark", '\ufeffbase = "fixed"', "not a TOML file"),
    options("UTF-16", 'base = "fixed"'.encode("utf-16"), "not a TOML file"),
    options("a NUL", 'base = "fix\0ed"', "not a TOML file"),
    options("a key of 5000 parts", "gravity" + ".a" * 5000 + " = 1", "nested too deeply"),
    options("a header of 5000 parts", "[gravity" + ".a" * 5000 + "]", "nested too deeply"),
    options("a table for a number", "gravity" + ".a" * 150 + " = 1", "3 numbers", "gravity"),
    options("2 MB", "#" * 2**21, "too large"),
    options("a joint that mimics", "[joint.follow]\narmature = true", "mimics another", "follow"),
    options("a coupling without matrix", PAIR, "list of rows", "[coupling], matrix"),
    options("a coupling that is a number", "coupling = 3", "a table is expected", "[coupling]"),
    options(
        "motors that are one text",
        '[coupling]\nmotors = "ab"\nmatrix = [[1, 0], [0, 1]]\njoints = ["shoulder", "elbow"]',
        "list of names",
        "with.toml",
        "[coupling], motors",
    ),
    options(
        "motors that are a number",
        "[coupling]\nmotors = 1\nmatrix = [[1]]",
        "list of names",
        "with.toml",
        "[coupling], motors",
    ),
    options(
        "a motor named twice",
        PAIR.replace("m2", "m1") + "matrix = [[1, 1], [0, 1]]",
        "twice",
        "[coupling], motors",
    ),
    options(
        "a coupled joint named twice",
        PAIR.replace("shoulder", "elbow") + "matrix = [[1, 1], [0, 1]]",
        "twice",
        "[coupling], joints",
    ),
    options(
        "a coupling of an unknown joint",
        PAIR.replace("elbow", "elbo") + "matrix = [[1, 1], [0, 1]]",
        "not joints of the robot",
        "[coupling], joints",
    ),
    options(
        "a coupling of one joint by two motors",
        PAIR.replace('"shoulder", ', "") + "matrix = [[1, 1], [0, 1]]",
        "not joints of the robot",
        "[coupling], joints",
    ),
    # Column maps (--map)
    column_map("not TOML", "[q", "not a TOML file"),
    column_map("an unknown signal", "[taus]", "did you mean 'tau'?"),
    column_map("an unknown key", TWO + "sgn = [1, -1]", "did you mean 'sign'?", "[q]"),
    column_map("an unknown key of time", '[time]\ncolum = "t"', "did you mean 'column'?", "[time]"),
    column_map("a time that is a number", "time = 3", "a table is expected", "[time]"),
    column_map("a column and a step", '[time]\ncolumn = "t"\nstep = 0.1', "either", "[time]"),
    column_map("neither column nor step", '[time]\nunit = "s"', "either", "[time]"),
    column_map(
        "an unknown unit of time",
        '[time]\ncolumn = "t"\nunit = "sec"',
        "did you mean 's'?",
        "[time], unit",
    ),
    *(
        column_map(f"a step of {step}", f"[time]\nstep = {step}", says, "[time], step")
        for step, says in (
            ("0", "not positive"),
            ("-0.001", "not positive"),
            ("nan", "finite number"),
            ('"1 ms"', "finite number"),
        )
    ),
    column_map("a column that is a list", '[time]\ncolumn = ["t"]', "name", "[time], column"),
    column_map("a signal that is a number", "q = 3", "a table is expected", "[q]"),
    column_map("no joints", '[q]\ncolumns = ["x"]', "joints are not named", "[q], joints"),
    column_map(
        "joints that are one text",
        '[q]\ncolumns = ["x"]\njoints = "elbow"',
        "joints are not named",
        "[q], joints",
    ),
    column_map(
        "a joint named twice",
        '[q]\njoints = ["a", "a"]\ncolumns = ["x", "y"]',
        "twice",
        "[q], joints",
    ),
    column_map("no columns", MAP, "either columns or array", "[q]"),
    column_map("columns and an array", TWO + 'array = "z"', "either columns or array", "[q]"),
    column_map("a column too few", MAP + 'columns = ["x"]', "differ in number", "[q]"),
    column_map(
        "columns that are one text", MAP + 'columns = "xy"', "list of names", "[q], columns"
    ),
    column_map("columns that are a number", MAP + "columns = 3", "list of names", "[q], columns"),
    column_map("an unknown unit", TWO + 'unit = "degree"', "did you mean 'deg'?", "[q], unit"),
    column_map("a unit of another signal", TWO + 'unit = "rpm"', "no unit of this signal"),
    column_map(
        "a unit that is a list", TWO + 'unit = ["deg"]', "no unit of this signal", "[q], unit"
    ),
    *(
        column_map(f"{key} = {value}", TWO + f"{key} = {value}", says, f"[q], {key}")
        for key, value, says in (
            ("sign", "[1, 2]", "1 or -1"),
            ("sign", "-1", "2 numbers"),
            ("sign", "[1, true]", "finite number"),
            ("ratio", "[100, 0]", "must not be 0"),
            ("scale", '[1, "2"]', "finite number"),
            ("offset", "[0]", "2 numbers"),
            ("offset", "[0, inf]", "finite number"),
            ("matrix", "[[1, 0]]", "does not fit"),
            ("matrix", "[[1, 0], [0]]", "rows differ"),
            ("matrix", "[[1, 0], [0, nan]]", "finite"),
            ("matrix", "3", "list of rows"),
            ("inverse", "[[1, 1], [1, 1]]", "singular"),
        )
    ),
    *(
        column_map(name, toml, says, *where)
        for name, toml, says, *where in (
            ("an array that is a number", MAP + "array = 3", "name of an array", "[q], array"),
            ("a joint of no name", '[q]\ncolumns = ["x"]\njoints = [""]', "empty", "joints"),
            ("a joint that is a number", '[q]\ncolumns = ["x"]\njoints = [1]', "names", "joints"),
            ("a scale beyond measure", TWO + "scale = [1, 1e300]", "finite number", "scale"),
            (
                "one column for two signals",
                TWO + '[tau]\ncolumns = ["y", "z"]\njoints = ["shoulder", "elbow"]',
                "two signals",
            ),
            ("a time that is a table", "[time]\ncolumn = {a = 1}", "name of a column", "column"),
        )
    ),
    column_map(
        "a matrix and its inverse",
        TWO + "matrix = [[1, 0], [0, 1]]\ninverse = [[1, 0], [0, 1]]",
        "not both",
        "[q]",
    ),
    # Logs: what is no log at all
    log("an unknown kind of file", "run.xlsx", b"PK", "not logs that heft reads"),
    log("no kind of file", "run", b"t", "not logs that heft reads"),
    *(log(f"{name} of no bytes", name, b"", "empty") for name in ("run.csv", "run.npz", "run.pq")),
    # Logs: text
    csv("blank lines", ["", "", ""], "empty"),
    csv("a header only", [HEAD], "does not advance"),
    csv("one row", LINES[:2], "does not advance"),
    csv("no header", LINES[1:], "numbers, not column names"),
    csv("a header of commas", [",,", *LINES[1:]], "names no column"),
    csv("a header of 140 000 letters", ["t," + "a" * 140_000, "1,2"], "first line cannot be read"),
    csv("a header of 20 000 columns", [",".join(["t", *["x"] * 20_000])], "too many columns"),
    csv("a NUL in the header", ["t\0" + HEAD[1:], *LINES[1:]], "not UTF-8"),
    log("CSV, UTF-32", "run.csv", "\n".join(LINES).encode("utf-32"), "not UTF-8"),
    log("CSV, packed", "run.csv", gzip.compress("\n".join(LINES).encode()), "not UTF-8"),
    log("CSV, Parquet", "run.csv", parquet_bytes(), "not UTF-8"),
    log("packed", "run.csv.gz", gzip.compress(b"t"), "not logs that heft reads"),
    log("CSV, a line of 20 MB", "run.csv", HEAD + "\n0," + "1" * 20_000_000, "line that cannot"),
    csv("lines of another delimiter", [HEAD, *(k.replace(",", ";") for k in LINES[1:])], "Row #2"),
    csv("a column named twice", renamed(tau="q.elbow"), "repeat"),
    csv("a short row", fifth("0.04,1"), "Row #6"),
    csv("a long row", fifth("0.04,1,1,1"), "Row #6"),
    *(
        csv(f"{text} for a number", fifth(f"0.04,{text},1"), "Row #6")
        for text in ("abc", "0x10", "1_000", '"1,234.5"', "1\0", "1.5 rad", "-", "1..5")
    ),
    csv("a time of day", fifth("12:30:45,1,1"), "Row #6"),
    csv("a quote without end", fifth('0.04,"1,1'), "cannot be read"),
    csv(
        "decimal commas among points",
        [line.replace(",", ";") for line in fifth("0.04;1,5;1")],
        "Row #6",
    ),
    log("CSV, the last line cut off", "run.csv", "\n".join(LINES)[:-30], "Row #401"),
    log("CSV, Latin-1", "run.csv", "\n".join(fifth("0.04,1µ,1")).encode("latin-1"), "Row #6"),
    log("CSV, UTF-16 cut", "run.csv", "\n".join(LINES).encode("utf-16")[:-1], "within a letter"),
    csv("no time", renamed(t="time,"), "('time' may be the time)", error=MissingSignal),
    csv("no positions", renamed(q="x"), "'q.elbow'", error=MissingSignal),
    csv(
        "positions under another name",
        renamed(q="q.ellbow"),
        "rename 'q.ellbow'",
        error=MissingSignal,
    ),
    csv("no torques", renamed(tau="x"), "'tau.elbow'", error=MissingSignal),
    csv("a current without gain", renamed(tau="current.elbow"), "gain", error=MissingSignal),
    csv(
        "a map that names no column",
        LINES,
        "did you mean 'q.elbow'?",
        error=MissingSignal,
        columns={"q": {"columns": ["q.elbo"], "joints": ["elbow"]}},
    ),
    csv(
        "a map whose time is no column",
        LINES,
        "no column 'stamp'",
        error=MissingSignal,
        columns={"time": {"column": "stamp"}},
    ),
    # Logs: clocks and contents
    csv("time stands still", [HEAD, *["1,0,0"] * 50], "does not advance"),
    csv("time runs backwards", [HEAD, *LINES[:0:-1]], "does not advance"),
    *(
        csv(
            f"time in {unit}",
            [HEAD, *(f"{start + size * k},{math.sin(0.03 * k)},1" for k in range(400))],
            "time is not in seconds",
        )
        for unit, start, size in (
            ("ns", 0, 10_000_000),
            ("ns since 1970", 17 * 10**17, 10_000_000),
            ("µs", 0, 10_000),
            ("ms", 0, 10),
        )
    ),
    csv("time of 1e-300 s", [HEAD, *(f"{k}e-300,{k},1" for k in range(50))], "not in seconds"),
    csv("time beyond measure", [HEAD, *(f"{k}e300,{k},1" for k in range(50))], "not in seconds"),
    csv("a constant step of 1 ns", LINES, "not in seconds", columns=constant(1e-9)),
    *(
        csv(
            f"torques of {text}",
            [HEAD, *(f"{STEP * k},{math.sin(0.03 * k)},{text}" for k in range(400))],
            "400 rows with numbers that are not finite or beyond",
        )
        for text in ("1e999", "-inf", "1e300", "-1e10")
    ),
    csv(
        "a quarter of nan",
        [HEAD, *(f"{STEP * k},{k % 4 or 'nan'},0" for k in range(400))],
        "100 rows with numbers that are not finite",
    ),
    csv("two rows", LINES[:3], "no rows are left", error=TooLittleData),
    # What only shows when an identification begins
    *(
        identification(
            f"a torque of {text}",
            error=InvalidRecording,
            says="never changes",
            where="run.csv",
            tau=lambda t, text=text: np.full(len(t), text),
        )
        for text in (0.0, 1.0)
    ),
    identification(
        "nothing measured", "no joint is left", "measured", toml="[joint.elbow]\nmeasured = false"
    ),
    identification(
        "all held still", "no joint is left", "position", toml="[joint.elbow]\nposition = 0.1"
    ),
    identification(
        "limits of an unknown link",
        "did you mean 'bob'?",
        "limits",
        toml="[limits.bobb]\nmass = [1, 2]",
    ),
    identification(
        "a map of an unknown joint",
        "did you mean 'elbow'?",
        "[q]",
        columns='[q]\ncolumns = ["q.elbow"]\njoints = ["elbo"]',
    ),
    identification("one log twice", "given twice", "LOGS", again=True),
    identification(
        "one log for both", "for fitting and for validation", "--validate", validate=True
    ),
    identification("no log", "no log is given", "LOGS", none=True),
    csv("time is never a number", [HEAD, *["nan,0,0"] * 50], "does not advance"),
    csv(
        "positions are never numbers",
        [HEAD, *(f"{k},nan,0" for k in range(50))],
        "50 rows with numbers that are not finite",
    ),
    csv(
        "every other time repeats",
        [HEAD, *(f"{k // 2},{k},0" for k in range(50))],
        "25 whose time is not behind the one before",
    ),
    csv(
        "nothing moves",
        [HEAD, *(f"{STEP * k},1,0" for k in range(200))],
        "no joint moves",
        corner=None,
    ),
    csv("too short to see what moves", LINES[:21], "short", corner=None),
    csv("nothing left between the trims", LINES[:80], "--trim", error=TooLittleData),
    # Logs: NPZ
    npz("objects", "never unpickled", q_elbow=np.array([{}] * ROWS, dtype=object)),
    npz("objects that nobody asked for", "never unpickled", meta=np.array([{}], dtype=object)),
    npz("a signal shorter than time", "differ in length", q_elbow=TIME[:-1]),
    npz("a time shorter than its signals", "differ in length", t=TIME[:-1]),
    npz("positions that are text", "number", MissingSignal, q_elbow=TIME.astype(str)),
    npz("times that are dates", "number", MissingSignal, t=(TIME * 1e9).astype("datetime64[ns]")),
    log("NPZ, a pickle", "run.npz", pickle.dumps([1]), "not a readable NPZ file"),
    log("NPZ, text", "run.npz", "hello", "not a readable NPZ file"),
    log("NPZ, one array", "run.npz", single_array(), "not a readable NPZ file"),
    log("NPZ, a zip of text", "run.npz", zipped(t_txt=b"hello"), "not a readable NPZ file"),
    log(
        "NPZ, half a header",
        "run.npz",
        zipped(t_npy=b"\x93NUMPY\x01\x00"),
        "not a readable NPZ file",
    ),
    log(
        "NPZ, an array that lies of its size",
        "run.npz",
        zipped(t_npy=lying_shape()),
        "not a readable NPZ file",
    ),
    log(
        "NPZ, of nothing",
        "run.npz",
        lambda path: np.savez(path),
        "no column 't'",
        error=MissingSignal,
    ),
    npz("positions that are complex", "number", MissingSignal, q_elbow=TIME.astype(complex)),
    npz("positions that are true or false", "number", MissingSignal, q_elbow=TIME > 1.0),
    npz("positions of three axes", "number", MissingSignal, q_elbow=np.zeros((ROWS, 1, 1))),
    npz("positions of fields", "number", MissingSignal, q_elbow=np.zeros(ROWS, [("a", "f8")])),
    log("NPZ, Parquet", "run.npz", parquet_bytes(), "no zip archive"),
    log("NPZ, 1 GiB in a few bytes", "run.npz", bomb(2**30), "claim to hold 1073741824"),
    log("NPZ, no numbers in a wide shape", "run.npz", array_of((0, 10**12)), "holds nothing"),
    log("NPZ, a shape below 0", "run.npz", array_of((-1,)), "claims shape"),
    log("NPZ, a header not closed", "run.npz", array_of("(3"), "not a readable NPZ file"),
    log("NPZ, a header of brackets", "run.npz", array_of("(" * 9000), "not a readable NPZ file"),
    log("NPZ, two arrays of one name", "run.npz", doubled(), "two arrays are called 't'"),
    log("NPZ, encrypted", "run.npz", encrypted(), "not a readable NPZ file"),
    # Logs: Parquet
    log("Parquet, text", "run.parquet", "hello world", "not a readable Parquet file"),
    log(
        "Parquet, its footer lost",
        "run.parquet",
        parquet_bytes()[:-100],
        "not a readable Parquet file",
    ),
    log("Parquet, its beginning lost", "run.parquet", parquet_bytes()[100:], "Parquet file"),
    log("Parquet, a column twice", "run.parquet", twice_named, "repeat"),
    parquet(
        "nothing but gaps",
        "400 rows with numbers that are not finite",
        q_elbow=pyarrow.array([None] * ROWS, pyarrow.float64()),
    ),
    parquet("positions that are text", "number", MissingSignal, q_elbow=TIME.astype(str)),
    parquet(
        "times that are dates", "number", MissingSignal, t=(TIME * 1e9).astype("datetime64[ns]")
    ),
    *(
        parquet(f"positions that are {what}", "number", MissingSignal, q_elbow=column)
        for what, column in (
            ("decimals", pyarrow.array([Decimal("1.5")] * ROWS)),
            ("true or false", TIME > 1.0),
        )
    ),
    # columns q.elbow[0], which a map may name
    parquet(
        "positions that are lists",
        "no signal 'q.elbow'",
        MissingSignal,
        q_elbow=pyarrow.array([[1.0]] * ROWS),
    ),
    log("Parquet, CSV", "run.parquet", "\n".join(LINES), "not a readable Parquet file"),
    log(
        "Parquet, no rows",
        "run.parquet",
        lambda path: pyarrow.parquet.write_table(pyarrow.table(LOG).slice(0, 0), path),
        "does not advance",
    ),
    log(
        "Parquet, no columns",
        "run.parquet",
        lambda path: pyarrow.parquet.write_table(pyarrow.table({}), path),
        "no column 't'",
        error=MissingSignal,
    ),
    log(
        "Parquet, ten million rows in some kilobytes",
        "run.parquet",
        lambda path: pyarrow.parquet.write_table(pyarrow.table({"t": np.zeros(10**7)}), path),
        "claims 10000000 rows",
    ),
    # Arrays
    Case(
        "arrays: of unlike length",
        InvalidRecording,
        "differ in length",
        ("arrays",),
        lambda _: survey(arrays(q={"elbow": TIME[:-1]}), ["q.elbow"]),
    ),
    Case(
        "arrays: of an unknown kind",
        InvalidSetting,
        "'taus'",
        ("taus",),
        lambda _: arrays(taus={"elbow": TIME}),
    ),
    # Settings
    *(
        setting(f"a corner of {corner}", "no positive frequency", "corner", corner=corner)
        for corner in (0.0, -1.0, 1e-9, math.nan, math.inf)
    ),
    *(
        setting(
            f"a corner of {corner} at 100 Hz",
            "not below half the sampling rate",
            "corner",
            corner=corner,
        )
        for corner in (0.5 / STEP, 0.51 / STEP, 1e9)
    ),
    *(
        setting(f"{name} = {value!r}", "a finite number is expected", name, **{name: value})
        for name in ("corner", "trim", "delay", "period")
        for value in ("1", [1.0])
    ),
    *(
        setting(f"a delay of {delay}", "the delay is none", "delay", delay=delay)
        for delay in (math.nan, math.inf, -1.0, 0.06)
    ),
    setting("an unknown method", "no such way of smoothing", "method", method="median"),
    *(
        Case(
            f"setting: {argument} = {value}",
            InvalidSetting,
            argument,
            (argument,),
            lambda _, make=make, argument=argument, value=value: make(**{argument: value}),
        )
        for make, argument, values in (
            (Settings, "threads", (0, -2, 1.5, 10**6)),
            (Settings, "robust", ("median",)),
            (PhysicallyConsistent, "strength", (-1.0, math.nan, math.inf, 1e300)),
            (PhysicallyConsistent, "prior", ("cubic",)),
        )
        for value in values
    ),
    setting("a negative trim", "trim is negative", "trim", trim=-0.1),
    setting("a trim of nan", "trim", "trim", trim=math.nan),
    setting("an unknown torque mode", "neither raw nor filtered", "torque", torque="smooth"),
    *(
        setting(f"an order of {order}", "order", "order", corner=10.0, order=order)
        for order in (0, -1, 2.5)
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_bad_input_is_refused_by_name(case: Case, tmp_path: Path) -> None:
    with pytest.raises(HeftError) as caught:
        case.use(tmp_path)
    error = caught.value
    assert type(error) is case.error
    assert case.says in str(error)
    assert all(fragment in (error.argument or "") for fragment in case.where), error.argument
    assert error.exit_code == (1 if isinstance(error, FitError) else 2)
    assert isinstance(error, FitError | InputError)
    assert not (tmp_path / "found").is_dir() and not list(tmp_path.glob("**/.*"))
    # numpy's own text recommends to unpickle what is no array; nobody should be told so.
    assert "unsafely" not in str(error)


def test_every_case_is_there_once() -> None:
    names = [case.name for case in CASES]
    assert sorted(names) == sorted(set(names))


DOCTOR = "accepted: the data are sound as a file; what they show is for the checks of a log"
REPAIRED = "accepted: weak numbers of the model file become a prior, and a note says so"
HARMLESS = "accepted: it changes no result"
OTHER_FORMAT = "MJCF, MCAP and ROS bags have readers, bad inputs and tests of their own"
RESULTS = "tests/test_results.py, tests/test_interruptions.py"
ELSEWHERE = "live estimation, cooperation and fleets have tests of their own"
# The list of bad inputs that this table was made from: its items, and the cases of each, or where
# else they are or why nothing is refused.
LIST: dict[str, tuple[str, ...] | str] = {
    # Model files
    "1 empty": ("URDF: an empty file",),
    "2 truncated": ("URDF: a file cut off", "URDF: a tag cut off"),
    "3 wrong root": ("URDF: an SDF",),
    "4 UTF-16, byte order mark": ("URDF: UTF-16", "URDF: UTF-16 without mark"),
    "5 NUL": ("URDF: a NUL byte",),
    "6 document type": ("URDF: a document type",),
    "7 billion laughs": ("URDF: entities that explode",),
    "8 entity from elsewhere": ("URDF: an entity from elsewhere",),
    "9 XInclude": ("URDF: an include",),
    "10 nesting": ("URDF: 200 000 elements nested", "URDF: 60 000 elements"),
    "11 200 MB": ("URDF: 17 MB", "URDF: 2000 links"),
    "12 mesh paths": "never opened",
    "13 MJCF include": OTHER_FORMAT,
    "14 MJCF bombs": OTHER_FORMAT,
    "15 xacro": ("URDF: a xacro element", "URDF: a xacro expression"),
    "16 mass": (
        "URDF: mass 'nan'",
        "URDF: mass 'inf'",
        "URDF: mass '1e309'",
        "URDF: mass '1,5'",
        "URDF: mass 'heavy'",
        "URDF: mass '1.5kg'",
        "URDF: a negative mass",
        "URDF: no mass",
    ),
    "17 inertia of no body": REPAIRED,
    "18 inertia in mm²·g": REPAIRED,
    "19 axis": ("URDF: an axis of length zero", "URDF: an axis nan"),
    "20 duplicates": ("URDF: two links of one name", "URDF: two joints of one name"),
    "21 cycle": ("URDF: a cycle of all links", "URDF: a cycle beside the tree"),
    "22 two roots": ("URDF: two roots",),
    "23 missing ends": ("URDF: a parent that is not there", "URDF: no parent", "URDF: no child"),
    "24 limits": ("URDF: no limits", "URDF: a limit 'nan'"),  # a range turned round is not used
    "25 joint types": (
        "URDF: a joint type misspelt",
        "URDF: a floating joint",
        "URDF: a planar joint",
        "URDF: a joint that mimics itself",
    ),
    "26 no inertial": REPAIRED,
    "27 MJCF bounds": OTHER_FORMAT,
    "28 MJCF degrees": OTHER_FORMAT,
    "29 gravity": ("options: a gravity of nan", "options: a gravity of -9810"),
    "30 line ends": HARMLESS,
    # Logs as files
    "31 empty, header only": ("log: run.csv of no bytes", "log: CSV, a header only"),
    "32 no header": ("log: CSV, no header",),
    "33 column twice": ("log: CSV, a column named twice", "log: Parquet, a column twice"),
    "34 ragged": ("log: CSV, a short row", "log: CSV, a long row"),
    "35 last line cut": ("log: CSV, the last line cut off",),
    "36 decimal commas": ("log: CSV, decimal commas among points",),
    "37 text for numbers": (
        "log: CSV, abc for a number",
        "log: CSV, 0x10 for a number",
        "log: CSV, 1_000 for a number",
        'log: CSV, "1,234.5" for a number',
    ),
    "38 quotes, NUL": ("log: CSV, a quote without end", "log: CSV, a NUL in the header"),
    "39 ns as integers": ("log: CSV, time in ns since 1970",),  # with a map they are read to 256 ns
    "40 1e999": ("log: CSV, torques of 1e999",),
    "41 missing column": ("log: CSV, no positions", "log: CSV, no torques", "log: CSV, no time"),
    "42 extra joint": HARMLESS,
    "43 another order": HARMLESS,
    "44 another name": ("log: CSV, positions under another name",),
    "45 larger than memory": "read in blocks: tests/test_recording.py",
    "46 bombs": (
        "log: NPZ, 1 GiB in a few bytes",
        "log: Parquet, ten million rows in some kilobytes",
    ),
    "47 Parquet": (
        "log: Parquet, its footer lost",
        "log: Parquet, positions that are text",
        "log: Parquet, positions that are decimals",
        "log: Parquet, positions that are lists",
        "log: Parquet, nothing but gaps",
    ),
    "48 MCAP damaged": OTHER_FORMAT,
    "49 MCAP checksums": OTHER_FORMAT,
    "50 MCAP lengths": OTHER_FORMAT,
    "51 MCAP schemas": OTHER_FORMAT,
    "52 ROS bags": OTHER_FORMAT,
    "53 ROS messages": OTHER_FORMAT,
    "54 NPZ": (
        "log: NPZ, objects",
        "log: NPZ, a pickle",
        "log: NPZ, an array that lies of its size",
    ),
    "55 settings": (
        "options: a key twice",
        "options: an unknown key",
        "options: an integer of 5000 digits",
        "options: a key of 5000 parts",
    ),
    "56 no file": (
        "CSV: a folder",
        "CSV: a pipe",
        "CSV: a device",
        "CSV: not ours to read",
        "CSV: missing",
        "place: a file",
    ),
    "57 changes while read": "test_a_log_that_changes_while_it_is_read_is_refused",
    # What logs hold
    "58 NaN": ("log: CSV, a quarter of nan",),
    "59 time not in order": ("log: CSV, time runs backwards",),
    "60 time repeats": ("log: CSV, every other time repeats", "log: CSV, time stands still"),
    "61 gaps": "segments: tests/test_signals.py",
    "62 clock jumps": "segments: tests/test_signals.py",
    "63 jitter": DOCTOR,
    "64 time in ms, µs, ns": (
        "log: CSV, time in ms",
        "log: CSV, time in µs",
        "log: CSV, time in ns",
    ),
    "65 two clocks": OTHER_FORMAT,
    "66 delay": "looked for and taken out; " + DOCTOR,
    "67 two rates": OTHER_FORMAT,
    "68 too short": (
        "log: CSV, two rows",
        "log: CSV, too short to see what moves",
        "log: CSV, nothing left between the trims",
    ),
    "69 nothing moves": ("log: CSV, nothing moves",),
    "70 one joint moves": "accepted: the others are stated not to be seen",
    "71 dead sensor": (
        "identification: a torque of 0.0",
        "identification: a torque of 1.0",
        "identification: nothing measured",
    ),
    "72 saturation": DOCTOR,
    "73 stuck values": DOCTOR,
    "74 degrees": DOCTOR,
    "75 velocity is another": "velocities are not used",
    "76 signs": DOCTOR,
    "77 torque in another unit": DOCTOR,
    "78 joints swapped": DOCTOR,
    "79 gravity taken out": DOCTOR,
    "80 another robot": DOCTOR,
    "81 turns of encoders": DOCTOR,
    "82 spikes": DOCTOR,
    "83 contacts": DOCTOR,
    "84 mostly friction": DOCTOR,
    "85 collinear": "tests/test_information.py, tests/test_identifiability.py",
    "86 1e300": ("log: CSV, torques of 1e300", "URDF: a centre beyond measure"),
    "87 many rows": "read in blocks: tests/test_recording.py",
    "88 weights": ("setting: strength = nan", "setting: strength = -1.0"),
    "89 one log twice": ("identification: one log twice", "identification: one log for both"),
    # Live, cooperation, fleets
    **{str(k): ELSEWHERE for k in range(90, 109)},
    # Results
    "109 results are there": ("place: other things in it",),  # earlier results are replaced
    "110 disk full or failing": RESULTS,
    "111 killed": RESULTS,
    "112 two runs to one place": RESULTS,
    **{str(k): ELSEWHERE for k in range(113, 117)},
    "117 surroundings": RESULTS,
    "118 read by others": "tests/test_export.py",
}


def test_the_list_is_covered() -> None:
    assert [int(item.split()[0]) for item in LIST] == list(range(1, 119))
    named = {name for cases in LIST.values() if isinstance(cases, tuple) for name in cases}
    assert named <= {case.name for case in CASES}


def test_a_log_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    model = written(tmp_path, "pendulum.urdf", PENDULUM)
    weight = np.sin(LOG["q.elbow"])  # of what hangs on a massless bar
    lines = [f"{t},{q},{tau}" for t, q, tau in zip(TIME, LOG["q.elbow"], weight, strict=True)]
    run = written(tmp_path, "run.csv", "\n".join([HEAD, *lines]))

    def progress(_: str) -> None:
        with run.open("a") as file:
            file.write("\n")

    with pytest.raises(InvalidRecording, match="changed while it was read"):
        identify(model, [run], settings=Settings(Smoothing(10.0)), progress=progress)


def good_inputs() -> Iterator[tuple[str, Callable[[Path], object]]]:
    yield "URDF", lambda folder: Robot.from_urdf(written(folder, "arm.urdf", URDF))
    yield (
        "URDF with a byte order mark",
        lambda folder: Robot.from_urdf(
            written(folder, "arm.urdf", URDF.replace('<?xml version="1.0"?>\n', "\ufeff"))
        ),
    )
    yield (
        "URDF of other line ends",
        lambda folder: Robot.from_urdf(written(folder, "arm.urdf", URDF.replace("\n", "\r\n"))),
    )
    for name, change in (
        ("a mass of 0", (MASS, 'value="0"')),
        ("an inertia below 0", (INERTIA, 'ixx="-0.1"')),
        ("a range turned round", ('lower="-2" upper="2"', 'lower="2" upper="-2"')),
        (
            "limits of 1e16",
            (
                'effort="10" velocity="3"/>\n  </joint>\n  <joint name="elbow"',
                'effort="1e16" velocity="1e16"/>\n  </joint>\n  <joint name="elbow"',
            ),
        ),
    ):
        yield (
            f"URDF with {name}",
            lambda folder, change=change: Robot.from_urdf(
                written(folder, "arm.urdf", changed(change))
            ),
        )
    yield (
        "a constant step of time",
        lambda folder: walk(
            Recording.open(
                written(folder, "run.csv", "\n".join(LINES)),
                ColumnMap.from_dict(constant(STEP)),
            ),
            Smoothing(10.0),
        ),
    )
    yield (
        "options",
        lambda folder: Robot.from_urdf_text(
            URDF.encode(),
            Options.from_toml(
                written(
                    folder,
                    "with.toml",
                    'base = "fixed"\ngravity = [0, 0, -9.81]\n[joint.elbow]\n'
                    "gain = 10\nreduction = 100\nposition = 0.1\narmature = false\n"
                    + PAIR
                    + "matrix = [[1, 1], [0, 1]]",
                )
            ),
        ),
    )
    yield (
        "map",
        lambda folder: ColumnMap.from_toml(
            written(
                folder,
                "map.toml",
                (
                    '[time]\ncolumn = "t"\nunit = "ms"\n' + TWO + 'unit = "deg"\nsign = [1, -1]\n'
                    "ratio = [100, -80]\noffset = [0, 1]\nmatrix = [[1, 1], [0, 1]]"
                ),
            )
        ),
    )
    for name, data in (
        ("CSV", "\n".join(LINES)),
        ("CSV with line feeds at the end", "\n".join(LINES) + "\n\n"),
        ("CSV with CRLF", "\r\n".join(LINES)),
        ("CSV with a comma at the end of each line", "".join(f"{line},\n" for line in LINES)),
        ("CSV with a byte order mark", "\ufeff" + "\n".join(LINES)),
        ("CSV with line ends of both kinds", "\n".join(LINES[:9]) + "\r\n" + "\n".join(LINES[9:])),
        ("CSV with a joint more", "\n".join([f"q.wrist,{HEAD}", *(f"1,{k}" for k in LINES[1:])])),
        ("CSV with a number missing", "\n".join(fifth("0.04,,1"))),
        ("CSV with semicolons", "\n".join(LINES).replace(",", ";")),
        ("CSV with quoted names", "\n".join(['"t","q.elbow","tau.elbow"', *LINES[1:]])),
    ):
        yield (
            name,
            lambda folder, data=data: walk(
                Recording.open(written(folder, "run.csv", data)), Smoothing(10.0)
            ),
        )


@pytest.mark.parametrize("good", list(good_inputs()), ids=lambda good: good[0])
def test_the_good_inputs_that_the_table_spoils_are_accepted(
    good: tuple[str, Callable[[Path], object]], tmp_path: Path
) -> None:
    assert good[1](tmp_path) is not None


@pytest.mark.parametrize("spelling", ["2.5", "+2.5", "25e-1", ".25E1", " 2.5", "2.5 ", "\t2.5\n"])
def test_a_mass_that_is_accepted_is_read_as_written(spelling: str) -> None:
    robot = Robot.from_urdf_text(changed((MASS, f'value="{spelling}"')).encode())
    (upper,) = (link for link in robot.links if link.name == "upper")
    assert upper.given
    # The nearest consistent body to a consistent one is found to 1e-9 of its largest number.
    assert upper.nominal[0] == pytest.approx(2.5, rel=1e-8)


@pytest.mark.parametrize("space", [" ", "  ", "\t", "\n", "\r\n    "])
def test_any_white_space_of_xml_separates_numbers(space: str) -> None:
    text = changed(
        ('xyz="1 0 0"', f'xyz="{space.join("100")}"'),
        ('xyz="0 0 0.5"', f'xyz="{space}0{space}0{space}0.5{space}"'),
    )
    robot = Robot.from_urdf_text(text.encode())
    elbow = robot.joints.index("elbow")
    assert robot.tree.axis[elbow].tolist() == [1.0, 0.0, 0.0]
    assert robot.tree.translation[elbow].tolist() == [0.0, 0.0, 0.5]


def everything(path: Path) -> dict[str, np.ndarray]:
    """Return all signals of a log; a log of no rows as empty arrays."""
    recording = Recording.open(path)
    names = recording.signals
    blocks = [np.column_stack([b.time, b.values]) for b in recording.blocks(names)]
    table = np.concatenate([np.empty((0, 1 + len(names))), *blocks])
    return dict(zip(("t", *names), table.T, strict=True))


SMALL = {"t": TIME[:40], "q.elbow": np.random.default_rng(1).normal(size=40)}


def stored(path: Path) -> None:
    np.savez(path, **SMALL)


def compressed(path: Path) -> None:
    np.savez_compressed(path, **SMALL)


def checksummed(path: Path) -> None:
    pyarrow.parquet.write_table(
        pyarrow.table(SMALL),
        path,
        write_page_checksum=True,
        use_dictionary=False,
        compression="none",
    )


def plain(path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table(SMALL), path)


FORMATS = [(stored, ".npz"), (compressed, ".npz"), (checksummed, ".parquet"), (plain, ".parquet")]


@pytest.mark.parametrize(("save", "suffix"), FORMATS)
def test_a_log_cut_off_anywhere_is_refused(
    save: Callable[[Path], None], suffix: str, tmp_path: Path
) -> None:
    path = tmp_path / f"run{suffix}"
    save(path)
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(InvalidRecording, match=r"run\."):
            everything(path)


@pytest.mark.parametrize(("save", "suffix"), FORMATS)
def test_a_flipped_bit_never_ends_in_a_foreign_error(
    save: Callable[[Path], None], suffix: str, tmp_path: Path
) -> None:
    path = tmp_path / f"run{suffix}"
    save(path)
    data = path.read_bytes()
    foreign = set()
    for place in range(len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :])
        try:
            everything(path)
        except InputError:
            pass
        except Exception as error:
            foreign.add(type(error).__name__)
    assert not foreign


@pytest.mark.parametrize(("save", "suffix"), FORMATS[:3])
def test_a_flipped_bit_never_changes_a_number_that_a_checksum_guards(
    save: Callable[[Path], None], suffix: str, tmp_path: Path
) -> None:
    path = tmp_path / f"run{suffix}"
    save(path)
    data, good = path.read_bytes(), everything(path)
    places = list(range(len(data)))
    if suffix == ".parquet":  # only the pages are under a checksum: where the numbers stand
        starts = [data.index(values.tobytes()) for values in SMALL.values()]
        places = [start + k for start in starts for k in range(8 * len(TIME[:40]))]
    refused = 0
    for place in places:
        path.write_bytes(data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :])
        try:
            read = everything(path)
        except Exception:
            refused += 1
            continue
        assert all(np.array_equal(values, good[name]) for name, values in read.items()), place
    assert refused > len(places) // 4  # at least where numbers stand


def test_missing_file_names_the_most_similar_beside_it(tmp_path):
    (tmp_path / "run1.csv").write_text("t\n0\n")
    (tmp_path / "notes.md").write_text("")
    with pytest.raises(InvalidRecording) as refused:
        Recording.open(tmp_path / "run3.csv")
    assert refused.value.cure == "did you mean 'run1.csv'?"
    with pytest.raises(InvalidRecording) as refused:
        Recording.open(tmp_path / "nowhere" / "run1.csv")
    assert refused.value.cure == "look at the folder's name: that folder cannot be read"


@pytest.mark.parametrize(
    ("missing", "named"), [("team.toml", None), ("arm.urd", "arm.urdf"), ("armm.urdf", "arm.urdf")]
)
def test_a_similar_file_is_named_by_its_ending_or_all_but_its_ending(missing, named, tmp_path):
    for name in ("note.md", "term.md", "arm.urdf"):
        (tmp_path / name).write_text("")
    with pytest.raises(InvalidSetting) as refused:
        read_text(tmp_path / missing, "model file", InvalidSetting)
    assert refused.value.cure == (named and f"did you mean '{named}'?")
