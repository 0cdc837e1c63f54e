"""The plant of a robot: base fixed or floating, gears rigid or elastic, sensors inside or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from heft.models import Robot
from heft.recordings import Recording

from .elastic_robot import ElasticRobotPlant, refuse_elastic
from .floating_robot import FloatingRobotPlant
from .robot import RobotPlant, SensedRobotPlant


def plant_of(robot: Robot, recording: Recording | None = None) -> RobotPlant:
    """Return a robot as a plant, by its base, its gears and its wrench sensors.

    Args:
        recording: Log whose signals decide whether a floating base moves by pose or by inertial
            sensor; by pose if not given.

    Raises:
        InvalidSetting: If gears are elastic of a robot whose base floats or that has wrench sensors
            inside, of coupled joints, or of joints whose torque is not measured.
    """
    refuse_elastic(robot)
    if not robot.tree.free_base:
        elastic = any(robot.options.of(j).elastic for j in robot.joints)
        if elastic:
            return ElasticRobotPlant(robot)
        return SensedRobotPlant(robot) if robot.options.sensor else RobotPlant(robot)
    frame = robot.tree.names[0]
    sources = recording.sources if recording is not None else ()
    inertial = f"acc.{frame}.x" in sources and f"quat.{frame}.w" not in sources
    return FloatingRobotPlant(robot, motion_from="imu" if inertial else "pose")


def with_logged_gears(robot: Robot, recordings: Sequence[Recording]) -> Robot:
    """Return a robot whose gears are elastic where logs hold motors' positions beside links'.

    What the options state stays: `elastic = false` takes a gear for rigid, whatever is logged. So
    are those of coupled and of unmeasured joints, and of robots whose base floats or that have
    wrench sensors inside.

    Args:
        recordings: Logs, all of which must hold them.
    """
    coupling = robot.options.coupling
    coupled = () if coupling is None else coupling.joints or robot.joints
    options = {j: robot.options.of(j) for j in robot.joints if j not in coupled}
    if robot.tree.free_base or robot.options.sensor or not recordings:
        return robot
    open_to = [j for j, o in options.items() if o.elastic is None and o.position is None]
    logged = [
        j
        for j in open_to
        if options[j].measured and all(f"q_motor.{j}" in r.sources for r in recordings)
    ]
    if not logged:
        return robot
    return robot.with_joints({j: replace(options[j], elastic=True) for j in logged})
