"""Options of the controller that an experiment was made with: `[controller]` of `--with`.

Estimators that simulate the experiment need it, with the references `q_ref.<joint>` of the log.
Unknown keys are refused with the nearest known one; so are values of the wrong type or range.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from heft.files import Number, Section, Text, named

FEEDFORWARD = ("none", "gravity", "inverse-dynamics")


@dataclass(frozen=True)
class JointGains:
    """Gains of a joint's controller, and what it knows of the drive: `[controller.joint.NAME]`."""

    position: float  # torque per error of position [N·m/rad or N/m]
    velocity: float  # torque per error of velocity [N·m·s/rad or N·s/m]
    integral: float = 0.0  # torque per integral of the error of position [N·m/(rad·s) or N/(m·s)]
    # rotor inertia in the feed-forward, where that is `inverse-dynamics` [kg·m² or kg]
    armature: float = 0.0
    viscous: float = 0.0  # viscous friction likewise [N·m·s/rad or N·s/m]


@dataclass(frozen=True)
class ControllerOptions:
    """PD or PID control of each joint, with a model's feedforward torque: `[controller]`.

    τ = τ_model(q_ref, v_ref, a_ref) + K_p (q_ref − q) + K_d (v_ref − v) + K_i ∫(q_ref − q) dt
    """

    # gains of every joint that moves, by name
    joint: Mapping[str, JointGains] = field(default_factory=dict)
    rate: float = 1000.0  # how often it acts [Hz]; its torque is held between
    # corner of the first-order low-pass of the differentiated position [Hz]; the velocity itself if
    # not given
    filter: float | None = None
    # torque ahead of any error: `none`, that of `gravity`, or `inverse-dynamics`, computed torque
    # along the reference
    feedforward: Literal["none", "gravity", "inverse-dynamics"] = "none"
    model: str | None = None  # model file that the feed-forward takes; the robot's own if not given

    def to_dict(self) -> dict[str, Any]:
        """Return the table from which `CONTROLLER` makes equal options."""
        table = {k: v for k, v in vars(self).items() if v is not None}
        return {**table, "joint": {name: dict(vars(g)) for name, g in self.joint.items()}}


def _gain(says: str) -> Number:
    return Number(f"a gain is a number that is not negative: {says}", least=0.0)


CONTROLLER = Section(
    ControllerOptions,
    {
        "joint": named(
            Section(
                JointGains,
                {
                    "position": _gain("N·m/rad or N/m"),
                    "velocity": _gain("N·m·s/rad or N·s/m"),
                    "integral": _gain("N·m/(rad·s) or N/(m·s)"),
                    "armature": _gain("kg·m² or kg"),
                    "viscous": _gain("N·m·s/rad or N·s/m"),
                },
                required=("position", "velocity"),
            ),
            "[controller.joint.NAME] tables are expected",
        ),
        "rate": Number("a rate is a positive number", above=0.0, most=1e5, unit="Hz"),
        "filter": Number("a corner is a positive number", above=0.0, unit="Hz"),
        "feedforward": Text("this feed-forward is not known", FEEDFORWARD),
        "model": Text("the name of a model file is expected"),
    },
    required=("joint",),
)
