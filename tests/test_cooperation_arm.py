"""Laws of contacts whose twist and wrench arms' joints tell; the truth is pinocchio's."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio
import pyarrow
import pyarrow.parquet
import pytest
from scipy.spatial.transform import Rotation

from heft.applications.cooperation import (
    ArmContact,
    ArmStream,
    ContactSignals,
    CooperativeMethod,
    CooperativeNode,
    TeamFile,
    TeamRobot,
    identify_team_files,
    results_of,
)
from heft.applications.cooperation.results import identify_team
from heft.applications.cooperation.signals import BESIDE
from heft.applications.cooperation.team_streams import ContactReader, arm_sensors
from heft.applications.cooperation.window_stream import windows_of
from heft.applications.cooperation.windows import SPECIFIC, Windows
from heft.errors import InvalidSetting, MissingSignal
from heft.information import Graph, inertia
from heft.models import Robot
from heft.streams import AlignedSamples
from tests.team_bags import MASS, Pair, urdf

Array = np.ndarray[Any, np.dtype[np.float64]]
AXES = ("0 0 1", "0 1 0", "0 1 0", "1 0 0", "0 1 0", "1 0 0")
PLACES = ("0 0 0.2", "0 0.1 0.1", "0 0 0.45", "0.1 0 0.05", "0.3 0 0", "0.08 0 0")
MIDDLE = np.array([0.2, 0.4, 0.7, 0.3, 0.8, -0.2])
LOAD = (3.0, np.array([0.1, -0.05, 0.2]), np.diag([0.06, 0.09, 0.07]))


def arm(rotation: Array, origin: Array) -> str:
    """Return a URDF of six joints, with a tool's frame somewhere on the last link."""
    links = '<link name="base"/>'
    for k, (axis, place) in enumerate(zip(AXES, PLACES, strict=True)):
        above = "base" if k == 0 else f"link{k - 1}"
        links += (
            f'<link name="link{k}"><inertial><origin xyz="0.02 0.01 {0.1 - 0.01 * k}"/>'
            f'<mass value="{4.0 - 0.6 * k}"/><inertia ixx="0.03" iyy="0.04" izz="0.02" ixy="0" '
            f'ixz="0.001" iyz="0"/></inertial></link><joint name="j{k}" type="revolute">'
            f'<parent link="{above}"/><child link="link{k}"/><origin xyz="{place}"/>'
            f'<axis xyz="{axis}"/><limit lower="-3" upper="3" effort="200" velocity="9"/></joint>'
        )
    rpy = " ".join(map(repr, map(float, Rotation.from_matrix(rotation).as_euler("xyz"))))
    at = " ".join(repr(float(x)) for x in origin)
    return (
        f'<robot name="arm">{links}<link name="tool"/><joint name="hand" type="fixed">'
        f'<parent link="link5"/><child link="tool"/><origin xyz="{at}" rpy="{rpy}"/></joint>'
        "</robot>"
    )


@dataclass(frozen=True, eq=False)
class Arms:
    """Arms that move alike and hold one load at frames of their own, and what joints measure."""

    texts: tuple[str, ...]
    time: Array
    q: Array
    v: Array
    tau: Array
    accelerations: Array
    wrenches: Array
    poses: tuple[tuple[Array, Array], ...]

    def signals(self, noise: float = 0.0, seed: int = 0, **known: bool) -> list[ContactSignals]:
        rng = np.random.default_rng(seed)
        found = []
        for k, text in enumerate(self.texts):
            contact = ArmContact(Robot.from_text(text.encode()), "tool")
            v = self.v + noise * 0.01 * rng.standard_normal(self.v.shape)
            tau = self.tau[k] + noise * 0.2 * rng.standard_normal(self.tau[k].shape)
            measured: dict[str, Array] = {}
            if known.get("accelerometer"):
                exact = self.accelerations[k]
                measured["acceleration"] = exact + noise * 0.1 * rng.standard_normal(exact.shape)
            found.append(contact.signals(self.time, self.q, v, tau, measured))
        return found


def arms(count: int = 3, rate: float = 100.0, duration: float = 8.0) -> Arms:
    """Return arms whose load obeys Newton and Euler, by pinocchio's kinematics and dynamics."""
    rng = np.random.default_rng(5)
    time = np.arange(round(duration * rate)) / rate
    rates = 2.0 * np.pi * rng.uniform(0.15, 0.6, (3, 6))
    phases = rng.uniform(0.0, 6.0, (3, 6))
    at = time[:, None, None] * rates + phases
    q = MIDDLE + np.sum(0.18 * np.sin(at), axis=1)
    v = np.sum(0.18 * rates * np.cos(at), axis=1)
    a = np.sum(-0.18 * rates**2 * np.sin(at), axis=1)
    frames = [
        (Rotation.random(random_state=k).as_matrix(), 0.2 * rng.uniform(-1.0, 1.0, 3))
        for k in range(count)
    ]
    texts = tuple(arm(*frame) for frame in frames)
    R0, p0 = frames[0]
    poses = tuple((R.T @ R0, R.T @ (p0 - p)) for R, p in frames)
    tau, accelerations, wrenches = [], [], []
    squeeze = rng.normal(size=(count, 6, 3))
    for k, text in enumerate(texts):
        model = pinocchio.buildModelFromXML(text)
        data, tool = model.createData(), model.getFrameId("tool")
        first = pinocchio.buildModelFromXML(texts[0])
        of_first, grasp = first.createData(), first.getFrameId("tool")
        rows = []
        for n in range(len(time)):
            pinocchio.forwardKinematics(first, of_first, q[n], v[n], a[n])
            pinocchio.updateFramePlacements(first, of_first)
            local = pinocchio.LOCAL
            seen = pinocchio.getFrameVelocity(first, of_first, grasp, local)
            rate_of = pinocchio.getFrameClassicalAcceleration(first, of_first, grasp, local)
            gravity = of_first.oMf[grasp].rotation.T @ np.array([0.0, 0.0, -9.81])
            mass, com, about = LOAD
            w, alpha = seen.angular, rate_of.angular
            s = rate_of.linear - gravity
            force = mass * (s + np.cross(alpha, com) + np.cross(w, np.cross(w, com)))
            moment = about @ alpha + np.cross(w, about @ w) + np.cross(com, force)
            R, t = poses[k]
            inner = 3.0 * np.sin(squeeze[:, 0] * time[n] + squeeze[:, 1]) * squeeze[:, 2]
            inner = inner - inner.mean(axis=0)
            own = R @ (force / count + inner[k])
            lever = sum(
                np.cross(poses[j][0].T @ -poses[j][1], force / count + inner[j])
                for j in range(count)
            )
            turning = R @ ((moment - lever) / count)
            at_k = s + np.cross(alpha, -R.T @ t) + np.cross(w, np.cross(w, -R.T @ t))
            J = pinocchio.computeFrameJacobian(model, data, q[n], tool, local)
            wrench = np.concatenate([own, turning])
            own_torque = pinocchio.rnea(model, data, q[n], v[n], a[n])
            rows.append((own_torque + J.T @ wrench, R @ at_k, wrench))
        for kept, values in zip(
            (tau, accelerations, wrenches), zip(*rows, strict=True), strict=True
        ):
            kept.append(np.array(values))
    return Arms(
        texts, time, q, v, np.array(tau), np.array(accelerations), np.array(wrenches), poses
    )


@pytest.fixture(scope="module")
def held() -> Arms:
    return arms()


TRUTH = inertia.from_body(*LOAD)


def test_joints_tell_what_sensors_at_the_contact_read(held: Arms) -> None:
    for k, found in enumerate(held.signals()):
        inner = slice(3, -3)
        wrench = np.hstack([found.force, found.torque])
        assert np.abs(wrench - held.wrenches[k])[inner].max() < 1e-6
        assert np.abs(found.acceleration - held.accelerations[k])[inner].max() < 1e-7
    exact = held.signals(accelerometer=True)[1]
    assert np.array_equal(exact.acceleration, held.accelerations[1])
    assert exact.derived.keys() == {"force", "torque"}


@pytest.mark.parametrize("accelerometer", [False, True])
def test_arms_alone_tell_the_load_they_hold(accelerometer: bool) -> None:
    """Without noise nothing is off, though nothing but joints is measured."""
    exact = arms(duration=6.0)
    read = exact.signals(0.0, accelerometer=accelerometer)
    known = CooperativeMethod(every=1000).identify(read, Graph.ring(3)).known[-1]
    assert known.values is not None and np.abs(known.values - TRUTH).max() < 1e-8


@pytest.mark.parametrize(("jitter", "step"), [(1e-3, 0.0), (0.0, 1.0)])
def test_windows_of_an_arm_are_as_noisy_as_they_say(jitter: float, step: float) -> None:
    """Of stamps that jitter, and of a wrench that is quantised by five times its noise."""
    pair, contact = Pair.of(3), ArmContact(Robot.from_text(urdf().encode()), "tool0")

    def seen(time: Array, noise: float, step: float) -> Windows:
        rng = np.random.default_rng(4)
        q, v = pair.arms(time, 0)
        wrench = pair.wrenches(time)[0] + noise * rng.standard_normal((len(time), 6)) * 0.2
        force = step * np.round(wrench[:, :3] / step) if step else wrench[:, :3]
        v = v + noise * 2e-3 * rng.standard_normal(v.shape)
        wrenches = {"force": force, "torque": wrench[:, 3:]}
        return windows_of([contact.signals(time, q, v, None, wrenches)])[0]

    even = np.arange(0.0, 20.0, 0.008)
    moved = np.sort(even + jitter * np.random.default_rng(5).uniform(-1.0, 1.0, len(even)))
    exact, found = seen(even, 0.0, 0.0), seen(moved, 1.0, step)
    rows = slice(3, -3)
    first = round((found.time[0] - exact.time[0]) / 0.06)
    places = slice(3 + first, first - 3 + len(found.time))
    motion = (found.motion[rows] - exact.motion[places]) / np.sqrt(np.diag(found.spread))
    wrench = (found.wrench[rows] - exact.wrench[places]) / np.sqrt(np.diag(found.wrench_spread))
    for off in (motion[:, SPECIFIC], wrench[:, :3], wrench[:, 3:]):
        assert 0.6 < np.nanmean(off**2) < 1.6


@pytest.mark.parametrize("late", [(0.0, 0.0), (0.03, 0.012)])
def test_a_wrench_that_is_behind_its_arms_motion_is_set(
    late: tuple[float, float], tmp_path: Path
) -> None:
    contact = ArmContact(Robot.from_text(urdf().encode()), "tool0")
    stated = TeamFile((TeamRobot("left", tared=True), TeamRobot("right")), Graph.ring(2))
    pair, rng, team = Pair.of(0), np.random.default_rng(0), []
    for k in range(2):
        time = 0.002 * k + np.arange(0.0, 14.0, 0.008)
        q, v = pair.arms(time, k)
        noise = rng.standard_normal((len(time), 12)) * ([2e-3] * 6 + [0.2] * 3 + [0.01] * 3)
        wrench = pair.wrenches(time - late[k])[k] + noise[:, 6:]
        read = {"force": wrench[:, :3], "torque": wrench[:, 3:]}
        team.append(contact.signals(time, q, v + noise[:, :6], None, read))
    found = identify_team(stated, team)
    load, (centre, _, _) = found.load(0), pair.truth("tool0")
    assert load is not None and load.std is not None and found.verdict == "good"
    assert set(found.delays) == {k for k, delay in enumerate(late) if delay}
    for k, delay in found.delays.items():
        assert abs(delay.offset - late[k]) < 4.0 * delay.std < 3e-3
    off = (np.append(load.mass, load.com) - [MASS, *centre]) / load.std[:4]
    assert np.abs(off).max() < 3.0
    found.write(tmp_path / "out")
    told = json.loads((tmp_path / "out" / "team.json").read_text())
    stds = {("left", "right")[k]: delay.std for k, delay in found.delays.items()}
    assert told["wrench_delays_std_s"] == pytest.approx(stds)
    nodes = [CooperativeNode(stated, k, 1) for k in range(2)]
    for node, own in zip(nodes, team, strict=True):
        node.add_samples(own)
    for _ in range(3):
        one, other = (node.message(1 - node.own) for node in nodes)
        nodes[0].receive(1, other)
        nodes[1].receive(0, one)
    nodes[0].solve()
    of_node = results_of(nodes[0])
    assert set(of_node.delays) == set(found.delays)
    assert ("late wrench" in [e.name for e in nodes[0].events]) == bool(found.delays)
    there = of_node.load(0)
    assert there is not None
    assert np.abs((there.numbers - load.numbers) / load.std).max() < 0.1


@pytest.mark.parametrize("accelerometer", [False, True])
def test_a_load_that_arms_hold_is_as_sure_as_it_says(held: Arms, accelerometer: bool) -> None:
    squared = []
    for seed in range(5):
        read = held.signals(1.0, seed, accelerometer=accelerometer)
        known = CooperativeMethod(every=1000).identify(read, Graph.ring(3)).known[-1]
        assert known.values is not None and known.covariance is not None and not known.doubts
        off = known.values - TRUTH
        squared.append(off @ np.linalg.solve(known.covariance, off) / 10.0)
    assert 0.4 < np.mean(squared) < 1.8


def test_a_team_of_arms_goes_through_its_files(held: Arms, tmp_path: Path) -> None:
    text = ""
    for k, model in enumerate(held.texts):
        (tmp_path / f"arm{k}.urdf").write_text(model)
        columns = {"t": held.time}
        for j in range(6):
            rng = np.random.default_rng(10 * k + j)
            columns[f"q.j{j}"] = held.q[:, j]
            columns[f"v.j{j}"] = held.v[:, j] + 0.002 * rng.standard_normal(len(held.time))
            columns[f"tau.j{j}"] = held.tau[k][:, j] + 0.05 * rng.standard_normal(len(held.time))
        pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / f"arm{k}.parquet")
        text += f'[[robot]]\nname = "arm{k}"\nlog = "arm{k}.parquet"\nmodel = "arm{k}.urdf"\n'
        text += 'link = "tool"\n'
    (tmp_path / "team.toml").write_text(text)
    load = identify_team_files(tmp_path).load(0)
    assert load is not None and abs(load.mass - 3.0) < 0.05
    (tmp_path / "team.toml").write_text(text.replace('"tool"', '"hand"'))
    with pytest.raises(InvalidSetting, match="no link 'hand'"):
        identify_team_files(tmp_path)
    (tmp_path / "team.toml").write_text(text.replace('link = "tool"\n', "", 1))
    with pytest.raises(InvalidSetting, match="link that holds"):
        identify_team_files(tmp_path)
    (tmp_path / "team.toml").write_text(text)
    table = pyarrow.parquet.read_table(tmp_path / "arm1.parquet").drop(["tau.j3"])
    pyarrow.parquet.write_table(table, tmp_path / "arm1.parquet")
    with pytest.raises(MissingSignal, match=r"tau\.j3"):
        identify_team_files(tmp_path)


def test_where_an_arm_is_singular_its_torques_tell_no_wrench(held: Arms) -> None:
    contact = ArmContact(Robot.from_text(held.texts[0].encode()), "tool")
    q = held.q.copy()
    q[5, 4] = 0.0  # axes of the wrist in line
    with pytest.raises(InvalidSetting, match="singularity"):
        contact.signals(held.time, q, held.v, held.tau[0])
    assert replace(contact, link="link5").jacobian(q[:2]).shape == (2, 6, 6)


def read_by_pieces(held: Arms, k: int, cuts: tuple[int, ...]) -> ContactSignals:
    stream = ArmStream(ArmContact(Robot.from_text(held.texts[k].encode()), "tool"))
    rows = np.hstack([held.q, held.v, held.tau[k]])
    pieces = np.split(np.arange(len(held.time)), cuts)
    return ContactSignals.joined([stream.add(held.time[p], rows[p]) for p in pieces])


@pytest.mark.parametrize("cuts", [(400,), (1, 2, 3, 90), tuple(range(7, 800, 7))])
def test_joints_that_come_piece_by_piece_tell_what_the_log_does(
    held: Arms, cuts: tuple[int, ...]
) -> None:
    whole = held.signals()[1]
    came = read_by_pieces(held, 1, cuts)
    inner = slice(BESIDE, -BESIDE)
    assert np.array_equal(came.time, held.time[inner])
    assert came.derived.keys() == whole.derived.keys() == {"acceleration", "force", "torque"}
    pairs = [(values, getattr(whole, name)) for name, values in came.by_sensor.items()]
    pairs += [(values, whole.derived[name]) for name, values in came.derived.items()]
    for values, wanted in pairs:
        assert np.abs(values - wanted[inner]).max() < 1e-9 * np.abs(wanted).max()


def test_nothing_is_differenced_across_a_hole_or_told_where_an_arm_is_singular(held: Arms) -> None:
    stream = ArmStream(ArmContact(Robot.from_text(held.texts[0].encode()), "tool"))
    rows = np.hstack([held.q, held.v, held.tau[0]])[:100]
    rows[60, 4] = 0.0  # axes of the wrist in line
    time = held.time[:100] + 3.0 * (np.arange(100) >= 30)
    found = stream.add(time, rows)
    pieces = ((0, 30), (30, 60), (61, 100))  # of each the ends have no neighbours on one side
    told = [k for first, last in pieces for k in range(first + BESIDE, last - BESIDE)]
    assert np.array_equal(found.time, time[told])
    assert stream.singular == 1


@pytest.mark.parametrize("sensors", [(), ("accelerometer",), ("wrench", "accelerometer")])
def test_a_node_of_an_arm_reads_its_joints_and_its_sensors(
    held: Arms, sensors: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "arm.urdf").write_text(held.texts[0])
    robot = TeamRobot("left", model="arm.urdf", link="tool", sensors=sensors)
    reader = ContactReader(robot, tmp_path)
    frames = {"acc": held.accelerations[0], "force": held.wrenches[0][:, :3]}
    frames["torque"] = held.wrenches[0][:, 3:]
    joints = {"q": held.q, "v": held.v, "tau": held.tau[0]}

    def column(name: str) -> Array:
        kind, _, place = name.partition(".")
        values = joints[kind] if kind in joints else frames[kind]
        return values[:, int(place[1:]) if kind in joints else "xyz".index(place[-1])]

    assert ("tau.j0" in reader.names) == ("wrench" not in sensors)
    devices = tuple(np.stack([column(n) for n in d.names], 1) for d in reader.devices)
    found = reader.read(AlignedSamples(held.time, devices, ()))
    inner = slice(BESIDE, -BESIDE)
    assert np.abs(found.force - held.wrenches[0][inner, :3]).max() < 1e-6
    exact = np.array_equal(found.acceleration, held.accelerations[0][inner])
    assert exact == ("accelerometer" in sensors) == ("acceleration" not in found.derived)
    assert ("wrench" in sensors) == ("force" not in found.derived)
    assert arm_sensors(robot, reader.names) == tuple(sorted(sensors, reverse=True))


def test_an_arm_of_five_joints_needs_a_sensor_of_its_wrench(held: Arms, tmp_path: Path) -> None:
    text = held.texts[0].replace('name="j0" type="revolute"', 'name="j0" type="fixed"')
    (tmp_path / "arm.urdf").write_text(text)
    robot = TeamRobot("left", model="arm.urdf", link="tool")
    with pytest.raises(InvalidSetting, match="six of them"):
        ContactReader(robot, tmp_path)
    reader = ContactReader(replace(robot, sensors=("wrench",)), tmp_path)
    assert "force.grasp.x" in reader.names


def test_nodes_of_arms_learn_their_load(held: Arms) -> None:
    """Through windows, whose spread is that of differenced velocities."""
    stated = TeamFile(tuple(TeamRobot(f"arm{k}") for k in range(3)), Graph.ring(3))
    nodes = [CooperativeNode(stated, k, 1) for k in range(3)]
    read = held.signals(1.0, 3)
    for first in range(0, len(held.time), 20):
        for node, signals in zip(nodes, read, strict=True):
            node.add_samples(signals.part(slice(first, first + 20)))
        for node in nodes:
            for j in node.neighbours:
                nodes[j].receive(node.own, node.message(j))
    for _ in range(5):
        for node in nodes:
            for j in node.neighbours:
                nodes[j].receive(node.own, node.message(j))
    for node in nodes:
        node.solve()
    load = nodes[1].load(0)
    assert load is not None and load.std is not None and not nodes[1].solver.changes
    assert abs(load.mass - LOAD[0]) < 4.0 * load.std[0] < 0.2
