"""What robots read from the pasted lines is the load that was found."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from ruamel.yaml import YAML

from heft.errors import InvalidSetting
from heft.information import inertia
from heft.information.rotation import matrix_of_rpy
from heft.models.load_settings import (
    Load,
    franka_desk,
    libfranka,
    universal_robots_ros,
    urscript,
)
from tests.messages import ROS2

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
    same = Load(*inertia.to_body(inertia.from_body(1.75, COM, TENSOR)))
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
    "a small moment that the others miss": (1.0, COM, np.diag([0.1, 1.0, 1.5]), "no rigid body"),
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


# Fields of ur_msgs/srv/SetPayload, by docs.ros.org of Jazzy, and by the driver's notes on Makoa.
FLAT = {"mass", "center_of_gravity", "ixx", "iyy", "izz", "ixy", "ixz", "iyz", "transition_time"}
NESTED = {"payload", "transition_time"}
SIX = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")


@pytest.mark.parametrize("nested", [False, True])
def test_the_ros_driver_reads_what_urscript_does(nested: bool) -> None:
    words = shlex.split(universal_robots_ros(LOAD, nested))
    assert words[:-1] == [
        *("ros2", "service", "call"),
        *("/io_and_status_controller/set_payload", "ur_msgs/srv/SetPayload"),
    ]
    request = YAML(typ="safe", pure=True).load(words[-1])
    assert set(request) <= (NESTED if nested else FLAT)
    body = request["payload"] if nested else request
    mass, centre = ("m", "com") if nested else ("mass", "center_of_gravity")
    assert body[mass] == 1.75 and list(body[centre].values()) == COM.tolist()
    xx, xy, xz, yy, yz, zz = (body[name] for name in SIX)
    assert np.array_equal([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]], TENSOR)


@pytest.fixture(scope="module")
def example() -> ModuleType:
    path = Path(__file__).parents[1] / "examples" / "universal_robots_payload.py"
    spec = importlib.util.spec_from_file_location("universal_robots_payload", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def told(mass: float, moment: float = 0.01) -> SimpleNamespace:
    """Return a geometry_msgs/Inertia; its fields are those of ROS."""
    inertia, vector = (ROS2.types[f"geometry_msgs/msg/{k}"] for k in ("Inertia", "Vector3"))
    made = inertia(mass, vector(0.01, -0.02, 0.065), *[moment] * 6)
    return SimpleNamespace(**{k: getattr(made, k) for k in ("m", "com", *SIX)})


@pytest.mark.parametrize("fields", [FLAT, NESTED])
def test_the_examples_request_holds_the_load(example: ModuleType, fields: set[str]) -> None:
    request = SimpleNamespace(**dict.fromkeys(fields))
    request.transition_time = SimpleNamespace(sec=0, nanosec=0)
    example.filled(request, told(1.5, np.nan))
    body = request.payload if "payload" in fields else request
    assert [getattr(body, k) for k in SIX] == [0.0] * 6  # not seen: a point
    assert (body.m if "payload" in fields else body.mass) == 1.5
    assert set(vars(request)) == fields


def test_the_example_tells_what_is_known_and_another(example: ModuleType) -> None:
    assert example.known(told(1.5, np.nan)) and not example.known(told(np.nan))
    assert example.another(told(1.5), None) and example.another(told(0.0), told(1.5))
    assert not example.another(told(1.51), told(1.5))
    moved = told(1.5)
    moved.com.z += 0.01
    assert example.another(moved, told(1.5))
