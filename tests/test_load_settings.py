"""What robots read from the pasted lines is the load that was found."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from heft.errors import InvalidSetting
from heft.information import inertia
from heft.information.rotation import matrix_of_rpy
from heft.models.load_settings import Load, franka_desk, libfranka, urscript

COM = np.array([0.01, -0.02, 0.065])
# No two entries alike, so that no order can be mistaken for another.
TENSOR = np.array([[0.011, 0.001, -0.002], [0.001, 0.013, 0.003], [-0.002, 0.003, 0.017]])
LOAD = Load(1.75, COM, TENSOR)


def numbers(text: str) -> list[float]:
    return [float(x) for x in re.findall(r"-?\d[\d.]*(?:e-?\d+)?", text)]


def test_urscript_reads_mass_centre_and_diagonal_first() -> None:
    line = urscript(LOAD)
    assert line.startswith("set_target_payload(1.75, [0.01, -0.02, 0.065], [")
    xx, yy, zz, xy, xz, yz = numbers(line)[4:]
    assert np.array_equal([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]], TENSOR)


def test_libfranka_reads_three_arguments_and_columns() -> None:
    line = libfranka(LOAD, "arm")
    found = re.fullmatch(r"arm\.setLoad\(([^,]+), \{([^}]*)\}, \{([^}]*)\}\);", line)
    assert found is not None
    assert float(found[1]) == 1.75
    assert np.array_equal(numbers(found[2]), COM)
    assert np.array_equal(np.reshape(numbers(found[3]), (3, 3)).T, TENSOR)


def test_desk_reads_json_with_columns() -> None:
    place = np.eye(4)
    place[:3, :3] = matrix_of_rpy(0.0, 0.0, -np.pi / 4)
    place[:3, 3] = [0.0, 0.01, 0.1034]
    said = json.loads(franka_desk(LOAD, place))
    assert set(said) == {"mass", "centerOfMass", "inertia", "transformation"}
    assert (said["mass"], said["centerOfMass"]) == (1.75, COM.tolist())
    assert np.array_equal(np.reshape(said["inertia"], (3, 3)).T, TENSOR)
    assert said["transformation"][12:] == [0.0, 0.01, 0.1034, 1.0]
    assert np.allclose(np.reshape(said["transformation"], (4, 4)).T, place, atol=1e-9)
    assert json.loads(franka_desk(LOAD))["transformation"] == np.eye(4).ravel().tolist()


def test_ten_parameters_make_the_same_load() -> None:
    same = Load.from_parameters(inertia.from_body(1.75, COM, TENSOR))
    assert urscript(same) == urscript(LOAD)


def test_a_point_and_a_rod_are_loads() -> None:
    for tensor in (np.zeros((3, 3)), np.diag([0.1, 0.1, 0.0])):
        assert "set_target_payload(1" in urscript(Load(1.0, COM, tensor))


BAD = {
    "no mass": (0.0, COM, TENSOR, "no mass"),
    "a negative mass": (-1.0, COM, TENSOR, "no mass"),
    "nan": (1.0, COM * np.nan, TENSOR, "not finite"),
    "two coordinates": (1.0, COM[:2], TENSOR, "wrong shape"),
    "not symmetric": (1.0, COM, TENSOR + np.triu(TENSOR, 1), "not symmetric"),
    "a negative moment": (1.0, COM, np.diag([-0.1, 1.0, 1.0]), "no rigid body"),
    "moments against the triangle": (1.0, COM, np.diag([1.0, 1.0, 2.1]), "no rigid body"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_load_that_cannot_be_is_refused(name: str) -> None:
    mass, com, tensor, says = BAD[name]
    with pytest.raises(InvalidSetting, match=says):
        Load(mass, com, tensor)


def test_what_the_robot_would_refuse_is_refused_before() -> None:
    with pytest.raises(InvalidSetting, match="so large"):
        urscript(Load(500.0, COM, 200.0 * np.eye(3)))
    with pytest.raises(InvalidSetting, match="no rigid transformation"):
        franka_desk(LOAD, 2.0 * np.eye(4))
