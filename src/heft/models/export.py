"""Model files with identified parameters: numbers are replaced, every other byte is preserved."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, MutableMapping
from dataclasses import replace

import numpy as np

from heft.arrays import Array
from heft.errors import FitError
from heft.files import Edit, Element, apply, format_number, insert_child, set_attributes, xml
from heft.information import inertia, quaternion_of_matrix

from . import denavit_hartenberg, mjcf, urdf, urdf_check
from .mjcf_values import FULL_INDEX, ORIENTATIONS
from .robot import Robot


def write(
    robot: Robot,
    links: Mapping[str, Array],
    friction: Mapping[str, tuple[float, float]],
    armature: Mapping[str, float],
) -> dict[str, bytes]:
    """Return the robot's model file with identified parameters, by file name.

    A table of Denavit-Hartenberg rows, which cannot state friction, gets a URDF beside it.

    Args:
        links: Ten inertial parameters of each link to change, in its own frame, shape (10,)
            [kg, kg·m, kg·m²].
        friction: Damping [N·m·s/rad or N·s/m] and Coulomb friction [N·m or N] of each joint to
            change.
        armature: Rotor inertia of each joint to change, where the format has it [kg·m² or kg].

    Raises:
        FitError: If the numbers as written are not physically consistent.
    """
    if robot.form == "mjcf":
        return {"robot.xml": write_mjcf(robot.source, links, friction, armature)}
    if robot.form == "toml":
        table = denavit_hartenberg.read(robot.source, "the model file")
        others = {k: v for k, v in table.nominal.items() if k not in links}
        text = replace(table, nominal=others).translate(False, "the model file").text
        return {
            "robot.toml": write_toml(robot.source, links),
            "robot.urdf": write_urdf(text, links, friction),
        }
    return {"robot.urdf": write_urdf(robot.source, links, friction)}


def _body(parameters: Array) -> tuple[float, Array, Array]:
    """Return mass [kg], centre of mass [m] and inertia about it [kg·m²], rounding noise removed."""
    mass, com, tensor = inertia.to_body(parameters)
    largest = float(np.abs(parameters[4:]).max())
    if largest > 0.0:  # moving to the centre of mass leaves rounding of this size, not numbers
        tensor = np.round(tensor, 13 - math.floor(math.log10(largest)))
    return mass, com, tensor


def _require_bodies(links: Mapping[str, Array]) -> None:
    for name, parameters in links.items():
        if not (np.isfinite(parameters).all() and inertia.consistency_margin(parameters) > 0.0):
            raise FitError(
                "the numbers for a link are those of no rigid body",
                argument=name,
                got=np.asarray(parameters).tolist(),
            )


def _require_written(name: str, mass: float, tensor: Array) -> None:
    """Raise `FitError` if a link's inertial, as rounded and written, is physically inconsistent."""
    margin = inertia.consistency_margin(inertia.from_body(mass, np.zeros(3), tensor))
    if margin <= 0.0:
        raise FitError(
            "the numbers written for a link are those of no rigid body",
            argument=name,
            got=margin,
            cure="raise the estimator's margin",
        )


def _urdf_inertial(data: bytes, link: Element, parameters: Array) -> list[Edit]:
    mass, com, tensor = _body(parameters)
    place = {"xyz": " ".join(map(format_number, com)), "rpy": "0 0 0"}
    moments = {
        k: format_number(tensor[i, j])
        for k, (i, j) in zip(urdf.MOMENTS, inertia.INERTIA_INDEX, strict=True)
    }
    inertial = link.find("inertial")
    if inertial is None:
        written = " ".join(f'{k}="{v}"' for k, v in moments.items())
        return insert_child(
            data,
            link,
            "link",
            [
                "<inertial>",
                f'  <origin xyz="{place["xyz"]}" rpy="{place["rpy"]}"/>',
                f'  <mass value="{format_number(mass)}"/>',
                f"  <inertia {written}/>",
                "</inertial>",
            ],
        )
    edits: list[Edit] = []
    origin = inertial.find("origin")
    if origin is None:
        line = f'<origin xyz="{place["xyz"]}" rpy="{place["rpy"]}"/>'
        edits += insert_child(data, inertial, "inertial", [line])
    else:
        edits += set_attributes(data, origin, place)
    for tag, values in (("mass", {"value": format_number(mass)}), ("inertia", moments)):
        element = inertial.find(tag)
        assert element is not None  # urdf_check has seen to it
        edits += set_attributes(data, element, values)
    return edits


def write_urdf(
    data: bytes, links: Mapping[str, Array], friction: Mapping[str, tuple[float, float]]
) -> bytes:
    """Return a URDF with new inertials and joint friction, all other bytes unchanged.

    Arguments are as of `write`.

    Raises:
        FitError: If the numbers as written are not physically consistent.
    """
    root = xml.parse(data, "the model file")
    _require_bodies(links)
    edits: list[Edit] = []
    for element in root.all("link"):
        name = element.attributes["name"]
        if name in links:
            edits += _urdf_inertial(data, element, links[name])
    for element in root.all("joint"):
        name = element.attributes["name"]
        if name in friction:
            damping, dry = map(format_number, friction[name])
            edits += urdf.set_dynamics(data, element, damping, dry)
    written = apply(data, edits)
    again = xml.parse(urdf.with_joints_fixed(written, "the written model"), "the written model")
    urdf_check.check(again, "the written model")
    inertials = {e.attributes["name"]: urdf.inertial(e) for e in again.all("link")}
    for name in links:
        inertial = inertials[name]
        assert inertial is not None
        tensor = inertia.inertia_matrix(np.array([0.0, 0.0, 0.0, 0.0, *inertial.moments]))
        _require_written(name, inertial.mass, tensor)
    return written


def _text(values: Array) -> str:
    return " ".join(map(format_number, values))


def _mjcf_inertial(data: bytes, body: mjcf.Body, parameters: Array) -> list[Edit]:
    mass, com, tensor = _body(parameters)
    full = _text(np.array([tensor[i, j] for i, j in FULL_INDEX]))
    values = {"pos": _text(com), "mass": format_number(mass)}
    inertial = body.inertial
    if inertial is None:
        line = f'<inertial pos="{values["pos"]}" mass="{values["mass"]}" fullinertia="{full}"/>'
        return insert_child(data, body.element, "body", [line])
    assert body.parameters is not None
    was, at, about = inertia.to_body(body.parameters)
    pairs = ((was, mass), (at, com), (about, tensor))
    if all(
        # Numbers no further apart than this share of their size are the same as written.
        float(np.linalg.norm(np.subtract(new, old))) <= 1e-9 * float(np.linalg.norm(new))
        for old, new in pairs
    ):  # as it is written already
        return []
    if "fullinertia" in inertial.attributes:
        return set_attributes(data, inertial, values | {"fullinertia": full})
    moments, axes = _principal(tensor, body.principal)
    values["diaginertia"] = _text(moments)
    quaternion = _text(quaternion_of_matrix(axes))
    stated = [k for k in ORIENTATIONS if k in inertial.attributes and k != "quat"]
    if not stated:
        if "quat" in inertial.attributes or quaternion != "1 0 0 0":
            values["quat"] = quaternion
        return set_attributes(data, inertial, values)
    # Other ways to say an orientation give way to a quaternion.
    place = Edit(*inertial.attribute_spans(data)[stated[0]], f'quat="{quaternion}"')
    return [place, *set_attributes(data, inertial, values)]


def _principal(tensor: Array, before: Array) -> tuple[Array, Array]:
    """Return principal moments and axes, ordered and signed to be nearest to `before`."""
    moments, axes = np.linalg.eigh(tensor)
    likeness = before.T @ axes
    order = max(
        itertools.permutations(range(3)),
        key=lambda p: sum(abs(likeness[k, p[k]]) for k in range(3)),
    )
    chosen = axes[:, list(order)]
    chosen = chosen * np.where(np.diag(before.T @ chosen) < 0.0, -1.0, 1.0)
    if np.linalg.det(chosen) < 0.0:
        chosen[:, 2] *= -1.0
    return moments[list(order)], chosen


def write_mjcf(
    data: bytes,
    links: Mapping[str, Array],
    friction: Mapping[str, tuple[float, float]],
    armature: Mapping[str, float],
) -> bytes:
    """Return an MJCF file with new inertials and joint attributes, other bytes unchanged.

    Joint attributes inherited from a class of defaults are written at the joint itself; where the
    file states principal axes in another form, they are written as a quaternion. Arguments are as
    of `write`, links being bodies, and friction their `damping` and `frictionloss`.

    Raises:
        FitError: If the numbers as written are not physically consistent.
    """
    _require_bodies(links)
    edits: list[Edit] = []
    for body in mjcf.read(xml.parse(data, "the model file"), "the model file").bodies:
        if body.name in links:
            edits += _mjcf_inertial(data, body, links[body.name])
        for joint in body.joints:
            values = {}
            if joint.name in friction:
                damping, dry = friction[joint.name]
                values = {"damping": format_number(damping), "frictionloss": format_number(dry)}
            if joint.name in armature:
                values["armature"] = format_number(armature[joint.name])
            edits += set_attributes(data, joint.element, values)
    written = apply(data, edits)
    again = mjcf.read(xml.parse(written, "the written model"), "the written model")
    for body in again.bodies:
        if body.name in links:
            assert body.parameters is not None
            mass, _, tensor = inertia.to_body(body.parameters)
            _require_written(body.name, mass, tensor)
    return written


def write_toml(data: bytes, links: Mapping[str, Array]) -> bytes:
    """Return a TOML of Denavit-Hartenberg rows with new inertials, all else as it was.

    Links are as of `write`.

    Raises:
        FitError: If the numbers as written are not physically consistent.
    """
    import tomlkit

    _require_bodies(links)
    text = data.decode()
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    document = tomlkit.parse(text.removeprefix(mark))
    if "inertial" not in document:
        document["inertial"] = tomlkit.table(is_super_table=True)
    inertials = document["inertial"]
    assert isinstance(inertials, MutableMapping)
    for name, parameters in links.items():
        mass, com, tensor = _body(parameters)
        if name not in inertials:
            inline = isinstance(inertials, tomlkit.items.InlineTable)
            inertials[name] = tomlkit.inline_table() if inline else tomlkit.table()
        entry = inertials[name]
        entry["mass"] = float(format_number(mass))
        entry["com"] = [float(format_number(x)) for x in com]
        entry["inertia"] = [[float(format_number(x)) for x in row] for row in tensor]
    dumped = mark + tomlkit.dumps(document)
    if "\r\n" in text:
        dumped = dumped.replace("\r\n", "\n").replace("\n", "\r\n")
    written = dumped.encode()
    again = denavit_hartenberg.read(written, "the written model")
    for name in links:
        mass, _, tensor = inertia.to_body(again.nominal[name])
        _require_written(name, mass, tensor)
    return written
