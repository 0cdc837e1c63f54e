"""Settings of a simulated experiment: the table `[simulation]` of the TOML of `--with`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

from heft.files import Number, positive, read_toml, section
from heft.models import Options
from heft.simulation import (
    Controller,
    Coulomb,
    Dahl,
    Drive,
    DriveRanges,
    FrictionKind,
    LuGre,
    Offset,
    Sensors,
    Size,
    Viscous,
)

ControllerName = Literal["pd", "computed-torque", "cascade"]

Above = Annotated[float, Number("a number above 0 is expected", above=0.0)]
SEED = Number("a seed is a whole number", least=0, most=2**31, whole=True)
RATE = positive("a rate of rows", "Hz", 20_000.0)
CORNER = positive("a corner", "Hz", 1000.0)


@dataclass(frozen=True)
class JointDrive:
    """Rotor and friction of a joint: `[simulation.joint.NAME]`."""

    armature: Size = 0.0  # inertia of the rotor [kg·m²]
    viscous: Size = 0.0  # friction per speed [N·m·s/rad]
    coulomb: Size = 0.0  # friction that slides [N·m]
    offset: float = 0.0  # constant torque [N·m]
    friction: Annotated[FrictionKind, "this law of friction is not known"] = "smooth"
    # friction at rest per friction that slides
    ratio: Annotated[float, Number("friction at rest per friction that slides", least=1.0)] = 1.3
    stribeck: Above = 0.08  # speed over which it falls [rad/s]
    presliding: Above = 1e-3  # way in which bristles bend [rad]

    @property
    def drive(self) -> Drive:
        """The simulator's drive."""
        dry, ratio, stribeck = self.coulomb, self.ratio, self.stribeck
        laws: dict[FrictionKind, tuple[Coulomb | LuGre | Dahl, ...]] = {
            "none": (),
            "smooth": (Coulomb(dry),),
            "hard": (Coulomb(dry, 0.0),),
            "stribeck": (Coulomb(dry, 0.02, ratio, stribeck),),
            "lugre": (LuGre.on_rotor(dry, ratio, stribeck, self.presliding, self.armature),),
            "dahl": (Dahl(dry, self.presliding),),
        }
        slides = laws[self.friction] if dry else ()
        return Drive(self.armature, (Viscous(self.viscous), Offset(self.offset), *slides))


@dataclass(frozen=True)
class ControllerSettings:
    """The joint controller: `[simulation.controller]`."""

    # `pd`, `computed-torque`, or a `cascade` with what a model says is needed ahead
    law: Annotated[ControllerName, "this controller is not known"] = "computed-torque"
    # natural frequency of PD and computed torque [Hz]
    frequency: Annotated[float, positive("a frequency", "Hz", 1000.0)] = 4.0
    damping: Annotated[float, positive("a damping ratio", "", 10.0)] = 1.0  # of both
    # standard deviation of ln(mass) of the links that the controller believes in
    wrong: Annotated[float, Number("a standard deviation is 0 or more", least=0.0, most=1.0)] = 0.0
    # rms error of their centres of mass [m]
    shift: Annotated[
        float, Number("a standard deviation is 0 or more", least=0.0, most=1.0, unit="m")
    ] = 0.0
    saturating: bool = True  # whether torque ends at the joints' limits

    def controller(self) -> Controller:
        """Return the simulator's controller."""
        made = {
            "pd": Controller.pd(self.frequency, self.damping),
            "computed-torque": Controller.computed_torque(self.frequency, self.damping),
            "cascade": Controller(),
        }[self.law]
        return replace(made, saturating=self.saturating)


@dataclass(frozen=True)
class SimulationSettings:
    """Settings of a simulated experiment: `[simulation]`, all of it optional."""

    seed: Annotated[int, SEED] = 0  # of all random numbers
    controller: ControllerSettings = field(default_factory=ControllerSettings)  # of the joints
    # from what rotors, friction and gears are drawn
    drives: DriveRanges = field(default_factory=DriveRanges)
    # errors between motion and log
    sensors: Sensors = field(default_factory=Sensors)
    # rotor and friction of some joints, by name, in place of those drawn
    joint: Annotated[Mapping[str, JointDrive], "[simulation.joint.NAME] tables are expected"] = (
        field(default_factory=dict)
    )
    # of the base, about a random level axis, which the model file does not say [rad]
    tilt: Annotated[float, Number("an angle", least=-3.2, most=3.2, unit="rad")] = 0.0
    run_in: Annotated[
        float, Number("the robot comes to the motion in a second", least=1.0, most=60.0, unit="s")
    ] = 2.0  # from rest to the motion's begin [s]
    # of the simulation [s]; the longest up to 0.5 ms that fits the rows if not given
    step: Annotated[float | None, Number("a step of time", least=1e-6, most=0.01, unit="s")] = None
    # of a low-pass of the motion, where it was recorded [Hz]; none if not given
    corner: Annotated[float | None, CORNER] = None
    limits: bool = True  # whether a motion beyond the joints' limits is refused
    # parameters of the user's own columns, by name, such as the stiffness of a spring; their
    # function is named on the command line
    own_columns: Annotated[
        Mapping[str, float], "numbers by the names of own columns are expected"
    ] = field(default_factory=dict)
    # what else the TOML says of the robot: gravity, joints that stand still
    options: Annotated[Options, None] = field(default_factory=Options)

    @staticmethod
    def from_toml(path: Path | None) -> SimulationSettings:
        """Read the settings from the TOML of `--with`; defaults where there is none.

        Raises:
            InvalidSetting: If it is malformed, or holds unknown keys.
        """
        if path is None:
            return SimulationSettings()
        table = read_toml(path)
        options = Options.from_dict(table, str(path))
        settings = section(SimulationSettings)(table.get("simulation", {}), f"{path}, [simulation]")
        return replace(settings, options=options)

    def exact(self) -> SimulationSettings:
        """Return the settings without friction, ripple, elasticity and sensor errors."""
        ideal = Sensors(self.sensors.rate, bits=0, encoder_noise=0.0, torque_noise=0.0)
        return replace(self, drives=DriveRanges(friction="none"), sensors=ideal, joint={}, tilt=0.0)

    def chosen_step(self) -> float:
        """Return the step of the simulation [s], a whole fraction of the log's unless stated."""
        if self.step is not None:
            return self.step
        row = 1.0 / self.sensors.rate
        return row / max(math.ceil(row / 5e-4 - 1e-9), 1)  # [s]
