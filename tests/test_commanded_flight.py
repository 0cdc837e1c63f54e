"""Motions as autopilots take them: read by another library, against rotations and differences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mcap.reader import make_reader
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from scipy.spatial.transform import Rotation

from heft.applications.free_flyer import commanded_flight
from heft.excitation import ExcitationTrajectory, Fourier
from heft.flight import FlightReference
from heft.models import shipped_free_flyer
from heft.recordings import CommandedFlight, Recording, Table, write_table

NED = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])
FRD = np.diag([1.0, -1.0, -1.0])
SIX, FOUR = ("x", "y", "z", "roll", "pitch", "yaw"), ("x", "y", "z", "yaw")


def flight(body: str) -> CommandedFlight:
    """Return a motion of a body that comes with heft, at random."""
    flyer = shipped_free_flyer(body)
    names = SIX if flyer.actuators.pushes_all_ways else FOUR
    rng = np.random.default_rng(4)
    basis = Fourier(10.0, 3)
    drawn = 0.25 * rng.normal(size=(basis.size, len(names)))
    motion = ExcitationTrajectory(basis, drawn, names, ("m",) * len(names))
    return commanded_flight(FlightReference(motion, flyer.gravity), flyer)


def read(path: Path) -> tuple[str, list[Any]]:
    """Return topic and messages, by the definitions in the file."""
    store = get_typestore(Stores.ROS2_HUMBLE)
    found = []
    with path.open("rb") as file:
        for schema, channel, message in make_reader(file, validate_crcs=True).iter_messages():
            assert schema is not None
            text = schema.data.decode()
            store.register(
                {
                    k: v
                    for k, v in get_types_from_msg(text, schema.name).items()
                    if k not in store.fielddefs
                }
            )
            made = store.deserialize_cdr(message.data, schema.name)
            found.append((message.log_time, made))
            topic = channel.topic
    return topic, found


def rates(values: np.ndarray, time: np.ndarray) -> np.ndarray:
    return np.gradient(values, time, axis=0)[2:-2]


def test_a_body_that_turns_freely_is_told_pose_and_twist_in_px4s_axes(tmp_path: Path) -> None:
    made = flight("space_cobot")
    made.write_px4(tmp_path / "px4.mcap")
    topic, messages = read(tmp_path / "px4.mcap")
    assert topic == "/fmu/in/trajectory_setpoint6dof" and len(messages) == len(made.time)
    told = [m for _, m in messages]
    assert [stamp // 1000 for stamp, _ in messages] == [m.timestamp for m in told]
    assert np.allclose([1e-6 * m.timestamp for m in told], made.time)
    place = np.array([m.position for m in told])
    assert np.allclose(place, made.position @ NED, atol=1e-6)
    assert np.allclose(
        rates(place, made.time), [m.velocity for m in told[2:-2]], atol=0.02
    )  # its own derivative
    q = np.roll([m.quaternion for m in told], -1, axis=1)
    own = Rotation.from_quat(np.roll(made.quaternion, -1, axis=1)).as_matrix()
    assert np.allclose(Rotation.from_quat(q).as_matrix(), NED @ own @ FRD, atol=1e-6)
    step = made.time[1]
    turned = (Rotation.from_quat(q[:-1]).inv() * Rotation.from_quat(q[1:])).as_rotvec() / step
    middle = np.array([m.angular_velocity for m in told])
    assert np.allclose(turned, 0.5 * (middle[1:] + middle[:-1]), atol=0.02)
    assert np.isnan([m.jerk for m in told]).all()


def test_a_body_that_must_tilt_is_told_position_and_heading(tmp_path: Path) -> None:
    made = flight("quadrotor")
    made.write_px4(tmp_path / "px4.mcap")
    topic, messages = read(tmp_path / "px4.mcap")
    told = [m for _, m in messages]
    assert topic == "/fmu/in/trajectory_setpoint"
    yaw = np.unwrap([m.yaw for m in told])
    assert np.allclose(rates(yaw, made.time), [m.yawspeed for m in told[2:-2]], atol=0.02)
    # The attitude that an autopilot makes of thrust and heading is the motion's own.
    thrust = np.array([m.acceleration for m in told]) - [0.0, 0.0, 9.81]
    down = -thrust / np.linalg.norm(thrust, axis=1, keepdims=True)
    side = np.stack([-np.sin(yaw), np.cos(yaw), 0.0 * yaw], 1)
    front = np.cross(side, down)
    front /= np.linalg.norm(front, axis=1, keepdims=True)
    axes = np.stack([front, np.cross(down, front), down], 2)
    own = Rotation.from_quat(np.roll(made.quaternion, -1, axis=1)).as_matrix()
    assert np.allclose(axes, NED @ own @ FRD, atol=1e-5)


def test_astrobee_is_told_states_with_their_derivatives(tmp_path: Path) -> None:
    made = flight("astrobee")
    made.write_astrobee(tmp_path / "astrobee.mcap")
    topic, ((_, message),) = read(tmp_path / "astrobee.mcap")
    states = message.segment
    time = np.array([s.when.sec + 1e-9 * s.when.nanosec for s in states])
    assert topic == "/gnc/ctl/segment" and np.allclose(time, made.time, atol=1e-9)

    def of(part: str, field: str, letters: str = "xyz") -> np.ndarray:
        return np.array(
            [[getattr(getattr(getattr(s, part), field), a) for a in letters] for s in states]
        )

    place, speed = of("pose", "position"), of("twist", "linear")
    assert np.array_equal(place, made.position)
    assert np.allclose(rates(place, time), speed[2:-2], atol=0.02)
    assert np.allclose(rates(speed, time), of("accel", "linear")[2:-2], atol=0.05)
    turned = Rotation.from_quat(of("pose", "orientation", "xyzw"))
    rate = of("twist", "angular")
    between = (turned[:-1].inv() * turned[1:]).as_rotvec() / time[1]
    assert np.allclose(between, 0.5 * (rate[1:] + rate[:-1]), atol=0.02)
    assert np.allclose(rates(rate, time), of("accel", "angular")[2:-2], atol=0.1)


@pytest.mark.parametrize("name", ["motion.mcap", "motion.csv"])
def test_a_motion_is_a_log_with_its_twist_in_the_body(name: str, tmp_path: Path) -> None:
    made = flight("space_cobot")
    write_table(Table.of_columns(made.columns(), name), tmp_path / name)
    log = Recording.open(tmp_path / name)
    vel = log.whole([f"vel.cobot.{a}" for a in "xyz"])
    turned = Rotation.from_quat(np.roll(made.quaternion, -1, axis=1))
    assert np.allclose(turned.apply(vel.values), made.velocity)
    assert np.allclose(vel.time, made.time)
