"""Settings of a simulated experiment: the table `[simulation]` of the TOML of `--with`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from heft.errors import InvalidSetting
from heft.files import (
    Number,
    Section,
    Text,
    interval,
    list_of,
    named,
    number,
    positive,
    read_toml,
    section,
    truth,
)
from heft.models import Options
from heft.simulation import (
    Controller,
    Coulomb,
    Dahl,
    Drive,
    DriveRanges,
    LuGre,
    Offset,
    Sensors,
    Viscous,
)

ControllerName = Literal["pd", "computed-torque", "cascade"]
FRICTION = ("none", "smooth", "hard", "stribeck", "lugre", "dahl")


SEED = Number("a seed is a whole number", least=0, most=2**31, whole=True)
RATE = positive("a rate of rows", "Hz", 20_000.0)
CORNER = positive("a corner", "Hz", 1000.0)


def _drive(
    armature: float = 0.0,
    viscous: float = 0.0,
    coulomb: float = 0.0,
    offset: float = 0.0,
    friction: str = "smooth",
    ratio: float = 1.3,
    stribeck: float = 0.08,
    presliding: float = 1e-3,
) -> Drive:
    laws: dict[str, tuple[Any, ...]] = {
        "none": (),
        "smooth": (Coulomb(coulomb),),
        "hard": (Coulomb(coulomb, 0.0),),
        "stribeck": (Coulomb(coulomb, 0.02, ratio, stribeck),),
        "lugre": (LuGre.on_rotor(coulomb, ratio, stribeck, presliding, armature),),
        "dahl": (Dahl(coulomb, presliding),),
    }
    slides = laws[friction] if coulomb else ()
    return Drive(armature, (Viscous(viscous), Offset(offset), *slides))


def _range(value: object, where: str) -> tuple[float, float]:
    bounds = interval(value, where)
    if bounds[0] < 0.0:
        raise InvalidSetting("a range begins at 0 or above", argument=where, got=list(bounds))
    return bounds


ABOVE = Number("a number above 0 is expected", above=0.0)
SIZE = Number("0 or more is expected", least=0.0)
FRICTION_LAW = Text("this law of friction is not known", FRICTION)
DRIVES = Section(
    DriveRanges,
    {
        "friction": FRICTION_LAW,
        **dict.fromkeys(("coulomb", "viscous", "armature", "bend", "ratio", "stribeck"), _range),
        **dict.fromkeys(("presliding", "resonance", "gap"), _range),
        **dict.fromkeys(("least", "offset", "least_armature"), SIZE),
        **dict.fromkeys(("load", "warming", "ripple"), SIZE),
    },
)


def _constants(value: object, where: str) -> tuple[float, ...]:
    """Return torque per current [N·m/A], of all joints or a joint each."""
    return list_of(ABOVE)(value if isinstance(value, list) else [value], where)


SENSORS = Section(
    Sensors,
    {
        "rate": RATE,
        "bits": Number("bits of an encoder", least=0, most=40, whole=True),
        **dict.fromkeys(("encoder_noise", "torque_noise", "torque_step", "low_pass"), SIZE),
        "correlation": Number("a correlation is between -1 and 1", above=-1.0, below=1.0),
        "delay": Number("a delay", least=0.0, most=1.0, unit="s"),
        "encoder_delay": Number("a delay", least=0.0, most=1.0, unit="s"),
        "jitter": Number("a share is from 0 to 1", least=0.0, most=1.0),
        "link_side": truth,
        "drift": Number("a clock's drift", least=-0.1, most=0.1),
        **dict.fromkeys(("encoder_bias", "bias", "gain_error", "current_ripple"), SIZE),
        "constants": _constants,
        "ripple_cycles": SIZE,
        "lost": Number("a share of the rows", least=0.0, most=0.9),
        "burst": Number("rows lost at a time", least=1.0),
        "repeated": Number("a share of the rows", least=0.0, most=0.9),
    },
)
JOINT = Section(
    _drive,
    {
        **dict.fromkeys(("armature", "viscous", "coulomb"), SIZE),
        "offset": number,
        "friction": FRICTION_LAW,
        "ratio": Number("friction at rest per friction that slides", least=1.0),
        "stribeck": ABOVE,
        "presliding": ABOVE,
    },
)


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
    drives: Annotated[DriveRanges, DRIVES] = field(default_factory=DriveRanges)
    # errors between motion and log
    sensors: Annotated[Sensors, SENSORS] = field(default_factory=Sensors)
    # rotor and friction of some joints, by name, in place of those drawn
    joint: Annotated[
        Mapping[str, Drive], named(JOINT, "[simulation.joint.NAME] tables are expected")
    ] = field(default_factory=dict)
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
