"""`team.toml`: robots that hold a load, their logs, who talks to whom, how to simulate them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidSetting, did_you_mean
from heft.files import Number, Section, Text, list_of, name_list, read_toml, section, truth
from heft.information import Graph, matrix_of_rotation_vector, skew
from heft.simulation import Team, TeamMotion, TeamNoise
from heft.streams import ADDRESS

from .load import TeamBelief
from .windows import PoseBelief

# deviations of the offset of a wrench sensor that is not tared, of moment and force [N·m and N]
OFFSET_STD = (0.2, 0.2, 0.2, 5.0, 5.0, 5.0)
MOST_ROBOTS = 100  # that one machine simulates or identifies at once
TEXT = Text("a text is expected", shape=re.compile(".+", re.DOTALL))
AXIS = Text("an axis is expected", tuple(f"{sign}{axis}" for sign in ("", "-") for axis in "xyz"))
POSITIVE = Number("a positive number is expected", above=0.0)
Name = Annotated[str, TEXT]
Vector = Annotated[tuple[float, ...] | None, list_of(Number("three numbers are expected"), 3)]
Deviation = Annotated[float | None, POSITIVE]
Place = Annotated[str | None, TEXT]
Positives = Annotated[tuple[float, ...], list_of(POSITIVE)]
Positive = Annotated[float, POSITIVE]
NotNegative = Annotated[float, Number("a number of zero or more is expected", least=0.0)]


@dataclass(frozen=True)
class TeamRobot:
    """One robot of a team: `[[robot]]`."""

    name: Name  # its name
    log: Annotated[str | None, TEXT] = (
        None  # its log, as the file says it; none before it is simulated
    )
    frame: Name = "grasp"  # name of its contact's frame in the log's signals
    topics: Annotated[tuple[str, ...], name_list] = ()  # of its bag that are its own; all if none
    map: Place = None  # TOML that says what its log's columns or topics mean, as the file says it
    # where its node listens, `tcp/HOST:PORT` or `tls/HOST:PORT`; a port of this machine if None
    address: Annotated[str | None, ADDRESS] = None
    # whether the contact is a point, through which it applies forces and no torques
    point: bool = False
    # whether its wrench sensor was set to zero with nothing on it: else six offsets are unknown
    tared: bool = False
    # whether its wrench sensor reads what the load applies to it, and not what it applies to that
    reaction: bool = False
    # which axes of its wrench sensor, with signs, are along x, y and z of its contact
    axes: Annotated[tuple[str, ...], list_of(AXIS, 3, "axes")] = ("x", "y", "z")
    # of the arm that holds the contact, as the file says it: where joints are measured and not the
    # twist; None if sensors at the contact read all
    model: Place = None
    link: Place = None  # of the model, whose frame is the contact's
    # what is measured at an arm's contact beside its joints, of `wrench` and `accelerometer`, for
    # nodes; logs say it themselves
    sensors: Annotated[
        tuple[str, ...], list_of(Text("this sensor is not known", ("wrench", "accelerometer")))
    ] = ()
    # whether it holds the load from its own first sample on only, not from the beginning
    late: bool = False
    # of its contact's frame, as far as it is known, in a frame that all robots of whom it is stated
    # share, shape (3,) [m]
    position: Vector = None
    position_std: Deviation = None  # its deviation, each axis [m]
    # of its contact's frame there, a rotation vector, shape (3,) [rad]
    rotation: Vector = None
    rotation_std: Deviation = None  # its deviation, about each axis [rad]
    # the load's centre of mass in its contact's frame, as far as it is known [m]
    com: Vector = None
    com_std: Deviation = None  # its deviation, each axis [m]

    @property
    def pose(self) -> PoseBelief | None:
        """Prior of its contact's pose; None if none is stated."""
        if self.position is None and self.rotation is None:
            return None
        R = matrix_of_rotation_vector(np.array(self.rotation or (0.0, 0.0, 0.0))).T
        origin = np.array(self.position or (0.0, 0.0, 0.0))
        weights = [
            0.0 if std is None else 1.0 / std**2 for std in (self.rotation_std, self.position_std)
        ]
        information = np.diag(np.repeat(weights, 3))
        back = np.eye(6)
        back[3:, :3] = skew(-R @ origin)  # t = −R p turns with R
        return PoseBelief((R, -R @ origin), back.T @ information @ back)

    @property
    def turn(self) -> Array:
        """Matrix that takes what its wrench sensor reads to its contact's axes, shape (3, 3)."""
        signs = np.array([1 - 2 * axis.startswith("-") for axis in self.axes])
        axes = np.eye(3)[["xyz".index(axis[-1]) for axis in self.axes]]
        return np.asarray(signs[:, None] * axes * (1 - 2 * self.reaction))

    def turned(self, by: Array) -> str:
        """Return the setting, as TOML has it, by which its wrench is turned besides.

        Args:
            by: Matrix that permutes axes or changes their signs, shape (3, 3).
        """
        if np.array_equal(by, -np.eye(3)):
            return f"reaction = {str(not self.reaction).lower()}"
        rows = by @ self.turn * (1 - 2 * self.reaction)
        signs = ("-" if row.sum() < 0.0 else "" for row in rows)
        names = [f'"{s}{"xyz"[np.argmax(abs(r))]}"' for s, r in zip(signs, rows, strict=True)]
        return f"axes = [{', '.join(names)}]"

    def __post_init__(self) -> None:
        if {axis[-1] for axis in self.axes} != {*"xyz"}:
            raise InvalidSetting(
                "each of the sensor's axes is along one of the contact's",
                argument=f"[[robot]] {self.name}, axes",
                got=", ".join(self.axes),
                cure='axes = ["-y", "x", "z"], say',
            )
        if self.position is not None and self.rotation is None:
            raise InvalidSetting(
                "a position says where a frame is whose rotation is known, too",
                argument=f"[[robot]] {self.name}, position",
                cure="state rotation and rotation_std",
            )
        if self.topics and self.map is not None:
            raise InvalidSetting(
                "a map says which topics are read",
                argument=f"[[robot]] {self.name}, topics",
                cure="leave topics out, and name them in the map's [topic]",
            )
        if (self.model is None) != (self.link is None):
            raise InvalidSetting(
                "an arm is a model and the link that holds the load",
                argument=f"[[robot]] {self.name}, model",
                cure='model = "arm.urdf" and link = "tool"',
            )
        if self.sensors and self.model is None:
            raise InvalidSetting(
                "sensors are said of an arm: without one all are at the contact",
                argument=f"[[robot]] {self.name}, sensors",
                cure="state model and link, or leave sensors out",
            )
        for name in ("position", "rotation", "com"):
            std = f"{name}_std"
            if (getattr(self, name) is None) != (getattr(self, std) is None):
                raise InvalidSetting(
                    "what is known has a deviation",
                    argument=f"[[robot]] {self.name}, {name}",
                    cure=f"state {name} and {std}",
                )


@dataclass(frozen=True)
class KnownLoad:
    """Prior of the load that is held first: `[known]`."""

    mass: Positive  # [kg]
    mass_std: Positive  # its deviation [kg]


@dataclass(frozen=True)
class SimulatedTeamSettings:
    """What `heft coop simulate` simulates: `[simulation]`."""

    radius: Positive = 0.25  # of the ring on which robots hold the body [m]
    rate: Positive = 100.0  # of samples [Hz]
    duration: Positive = 50.0  # [s]
    masses: Positives = (2.0, 1.2)  # of the bodies held, one after another [kg]
    changes: Positives = (35.0,)  # times at which the next is held [s]
    speed: NotNegative = 0.7  # root mean square of the body's velocity [m/s]
    turning: NotNegative = 1.8  # root mean square of its angular velocity, each axis [rad/s]
    squeeze: NotNegative = 5.0  # rms of the forces that cancel one another, each axis [N]
    # σ of every sensor's white noise, in SI units: gyroscope, velocity, accelerometer, force,
    # torque
    noise: Annotated[tuple[float, ...], list_of(Number("noise is not negative", least=0.0), 5)] = (
        0.02,
        0.02,
        0.1,
        0.2,
        0.02,
    )
    # whether contacts are points, through which robots apply forces and no torques
    points: bool = False

    def team(self, robots: int, planar: bool = False) -> Team:
        """Return the simulation of a team, whose load slides on a level floor if planar."""
        return Team(
            robots,
            self.radius,
            self.rate,
            self.duration,
            self.changes,
            TeamMotion(self.speed, self.turning, self.squeeze),
            TeamNoise(*self.noise),
            masses=self.masses,
            points=self.points,
            planar=planar,
        )


@dataclass(frozen=True)
class TeamFile:
    """A team, as `team.toml` states it."""

    robots: tuple[TeamRobot, ...]  # in the order of their numbers
    graph: Graph  # who talks to whom
    simulation: SimulatedTeamSettings = SimulatedTeamSettings()  # how it is simulated
    name: str = "team"  # of the team, in the keys of its messages
    # folder of certificates: `ca.pem`, and of each robot `NAME.pem` and `NAME.key`; None where
    # nodes talk in the clear
    keys: Path | None = None
    planar: bool = False  # whether the load moves in a plane, all contacts' z axes across it
    known: KnownLoad | None = None  # what is known of the load that is held first

    @property
    def belief(self) -> TeamBelief:
        """Prior of contact poses, load and offsets of wrench sensors."""
        centres = {
            k: (np.array(r.com), r.com_std)
            for k, r in enumerate(self.robots)
            if r.com is not None and r.com_std is not None
        }
        mass = None if self.known is None else (self.known.mass, self.known.mass_std)
        offsets = {k: np.array(OFFSET_STD) for k, r in enumerate(self.robots) if not r.tared}
        poses = {k: p for k, r in enumerate(self.robots) if (p := r.pose)}
        return TeamBelief(poses, mass, centres, offsets=offsets)

    @property
    def late(self) -> frozenset[int]:
        """Numbers of the robots that do not hold the load from the beginning."""
        return frozenset(k for k, robot in enumerate(self.robots) if robot.late)

    @staticmethod
    def from_toml(path: Path) -> TeamFile:
        """Read a team.

        Raises:
            InvalidSetting: If the file is malformed, two robots have one name, an edge names
                another robot, or the robots are not all connected.
        """
        team = TEAM(read_toml(path), str(path))
        return team if team.keys is None else replace(team, keys=path.parent / team.keys)

    def number(self, robot: str) -> int:
        """Return the number of a robot.

        Args:
            robot: Its name, or the number itself.

        Raises:
            InvalidSetting: If the team has no such robot.
        """
        names = [r.name for r in self.robots]
        if robot in names:
            return names.index(robot)
        if robot.isdecimal() and int(robot) < len(names):
            return int(robot)
        raise InvalidSetting(
            "the team has no such robot",
            argument=f"--id {robot}",
            valid=tuple(names),
            cure=did_you_mean(robot, tuple(names)),
        )

    def among(self, origins: Sequence[int]) -> TeamFile:
        """Return the team reduced to some of its robots.

        Args:
            origins: Their numbers, in their new order.
        """
        robots = tuple(self.robots[o] for o in origins)
        return replace(self, robots=robots, graph=self.graph.among(origins))

    def to_toml(self, logs: Sequence[str]) -> str:
        """Return the team as TOML, with the name of a log of each robot beside the file."""
        edges = ", ".join(
            f'["{self.robots[a].name}", "{self.robots[b].name}"]' for a, b in self.graph.edges
        )
        tables = [
            f'[[robot]]\nname = "{r.name}"\nlog = "{log}"\nframe = "{r.frame}"\n'
            for r, log in zip(self.robots, logs, strict=True)
        ]
        plane = "planar = true\n" if self.planar else ""
        return f"{plane}edges = [{edges}]\n\n" + "\n".join(tables)


def _team(
    robots: float | None = None,
    robot: Sequence[TeamRobot] = (),
    graph: str = "ring",
    edges: Sequence[tuple[str, ...]] | None = None,
    keys: str | None = None,
    **others: Any,
) -> TeamFile:
    if robots is not None and robot:
        raise InvalidSetting(
            "robots are counted or named, not both",
            argument="robots",
            got=f"{robots:g} and {len(robot)} [[robot]] tables",
        )
    if robots is not None:
        robot = [TeamRobot(f"robot{k}") for k in range(int(robots))]
    names = [r.name for r in robot]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice or not 1 <= len(names) <= MOST_ROBOTS:
        raise InvalidSetting(
            "a team is of robots with names of their own",
            argument="[[robot]]",
            got=", ".join(twice) or f"{len(names)} robots",
            expected=f"1 to {MOST_ROBOTS} [[robot]] tables, or robots = 5",
        )
    if edges is not None:
        talking = Graph(len(names), tuple(sorted({_edge(edge, names) for edge in edges})))
    elif graph == "complete":
        talking = Graph(len(names), tuple(combinations(range(len(names)), 2)))
    else:
        talking = Graph.ring(len(names))
    if all(r.late for r in robot):
        raise InvalidSetting(
            "somebody holds the load from the beginning", argument="late", got="all robots are late"
        )
    folder = None if keys is None else Path(keys)
    return TeamFile(tuple(robot), talking, keys=folder, **others)


def _edge(edge: Sequence[str], names: Sequence[str]) -> tuple[int, int]:
    unknown = [n for n in edge if n not in names]
    if len(edge) != 2 or unknown or edge[0] == edge[1]:
        raise InvalidSetting(
            "an edge is between two robots of the team",
            argument="edges",
            got=" – ".join(edge),
            valid=tuple(names),
            cure=did_you_mean(unknown[0], tuple(names)) if unknown else "",
        )
    a, b = sorted(names.index(n) for n in edge)
    return a, b


TEAM = Section(
    _team,
    {
        "robots": Number("a number of robots is expected", least=1.0, most=float(MOST_ROBOTS)),
        "robot": list_of(section(TeamRobot), of="[[robot]] tables", entry=" "),
        "graph": Text("this graph is not known", ("ring", "complete")),
        "edges": list_of(name_list),
        "simulation": section(SimulatedTeamSettings),
        "name": TEXT,
        "keys": TEXT,
        "planar": truth,
        "known": section(KnownLoad),
    },
)
