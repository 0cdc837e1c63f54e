"""What a servo is, from logs on a bench with a known mass: the result, its text and files."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from heft import __version__
from heft.arrays import Array
from heft.display import Curve, Table, rounded
from heft.errors import FitError, InvalidRecording
from heft.files import json_text, new_folder, read_toml, require_own, section
from heft.fit import NORMAL
from heft.models import JointFields, mjcf_joint, shown
from heft.simulation import moved_to_goals

from . import by_duty, hidden
from .bench import GRAVITY, NAME, QUANTITIES, Bench, ServoLog, open_logs
from .firmware import Firmware
from .report import one_after_another, page_of, text_of

RESULTS = ("estimate.json", "report.html", "bam.json", "servo.xml", "servo_isaaclab.py")
TINY = 1e-6  # [kg·m²], of a body's inertia, which may not be zero
TIMESTEP = 0.001  # of the MJCF file [s]


@dataclass(frozen=True)
class Quantity:
    """A number with its standard deviation."""

    value: float
    std: float
    unit: str

    @property
    def interval(self) -> tuple[float, float]:
        """Lower and upper end of the 95 % interval."""
        return self.value - NORMAL * self.std, self.value + NORMAL * self.std


@dataclass(frozen=True, eq=False)
class IdentifiedServo:
    """Result of `heft servo`."""

    bench: Bench
    logs: Sequence[ServoLog]
    # A, B, rotor inertia and friction; without rows with the torque off viscous friction holds B
    quantities: Mapping[str, Quantity]
    covariance: Array  # of them, shape (n, n)
    firmware: Firmware | None  # as the duty shows it; None where it is not logged
    said: str  # how it was found, and how far it is off
    curves: Sequence[Curve]  # what was measured, and what the numbers say of it
    # torque per volt of each log over that of all, shape (logs,); none where duty is hidden
    strengths: Sequence[float] = ()

    @property
    def temperature(self) -> float:
        """Mean of the logs' temperatures, at which A is stated [°C]; NaN if they are not logged."""
        return float(np.mean([log.temperature for log in self.logs]))

    @property
    def notes(self) -> list[str]:
        """What no motion of these logs tells, and what the logs say of themselves."""
        scale = "k, R and k_e are told as A = k/R and B = k·k_e/R only"
        if "B" not in self.quantities:
            scale += "; B is within viscous: no log moves freely with the torque off"
        said = [scale, f"the scale of all torque is that of the known mass, {self.bench.mass:g} kg"]
        if not self.strengths:
            return [
                *said,
                "and of the gain that the bench states; a delay is counted as none, and what the "
                "law itself misses is not in the intervals",
            ]
        told = [x for x in zip(self.strengths, self.logs, strict=True) if np.isfinite(x[0])]
        ends = sorted(told, key=lambda x: x[0])
        if ends[-1][0] > 1.1 * ends[0][0]:
            unlike = " and ".join(
                f"{log.name} {strength:.2f}"
                + (f" at {log.temperature:.0f} °C" if np.isfinite(log.temperature) else "")
                for strength, log in (ends[-1], ends[0])
            )
            said.append(
                f"A differs between logs, as by a winding's warmth: times {unlike}; fit logs alike "
                "together"
            )
        return said

    def text(self) -> str:
        """Return the summary for a terminal, at most 20 lines."""
        law = f"torque = A·duty·V − B·w − friction, {self.said}"
        sentences = [law, self.firmware.text()] if self.firmware else [law]
        return text_of([self._table], sentences, self.notes)

    @property
    def _table(self) -> Table:
        rows = [
            [QUANTITIES[name][0], rounded(q.value, q.std), f"{NORMAL * q.std:.2g}", q.unit]
            for name, q in self.quantities.items()
        ]
        return Table("", ("", "value", "± 95 %", "unit"), rows)

    def to_html(self) -> str:
        """Return the report as a self-contained HTML page."""
        return page_of(
            "A servo on a bench: what was identified",
            f"torque = A·duty·V − B·w − friction, {self.said}.",
            [self._table],
            "Voltage of the duty: fitted is where the arm slides, at rest friction holds"
            if self.strengths
            else "Positions, by the goal alone",
            self.curves,
            [*([self.firmware.text()] if self.firmware else []), *self.notes],
        )

    def to_json(self) -> str:
        """Return `estimate.json`: quantities with intervals and covariance, firmware, inputs."""
        strengths = [*self.strengths] or [np.nan] * len(self.logs)
        content: dict[str, Any] = {
            "heft": __version__,
            "law": "torque = A duty V - B w - armature dw/dt - viscous w - coulomb sign(w) "
            "- load sign(w) |torque of arm| - sag torque of arm |torque of arm| - offset; "
            "static: of friction, more at rest",
            "quantities": {
                n: {**vars(q), "interval": q.interval} for n, q in self.quantities.items()
            },
            "covariance": self.covariance,
            "temperature": self.temperature,
            "found": self.said,
            "firmware": self.firmware,
            "bench": self.bench,
            "notes": self.notes,
            "logs": [
                {
                    "path": log.name,
                    "sha256": log.file.sha256,
                    "temperature": log.temperature,
                    "strength": s,
                }
                for log, s in zip(self.logs, strengths, strict=True)
            ],
        }
        return json_text(content)

    @property
    def _load(self) -> float:
        """Mean torque of the arm in the logs, held still [N·m]."""
        angles = np.concatenate([log.position for log in self.logs])
        return self.bench.moment * float(np.mean(np.abs(np.sin(angles))))

    @property
    def _fields(self) -> dict[str, float]:
        """Numbers as simulators take them: `sag` at the mean load is a part of all.

        Where back-EMF and viscous friction are told as a sum alone, it is B.
        """
        x = {n: q.value for n, q in self.quantities.items()}
        part = 1.0 + x.pop("sag", 0.0) * self._load
        made = {n: value / (1.0 if n == "static" else part) for n, value in x.items()}
        return made if "B" in made else made | {"B": made["viscous"], "viscous": 0.0}

    @property
    def _bam(self) -> dict[str, Any]:
        """The numbers under BAM's names, k = k_e, which motion does not tell.

        Its friction in the load is of gravity alone, and its motor's share is none here; `sag`,
        which it has not, is counted at the mean load.
        """
        x = self._fields
        return {
            "model": "m5",
            "kt": x["B"] / x["A"],
            "R": x["B"] / x["A"] ** 2,
            "friction_base": x["coulomb"],
            "friction_viscous": x["viscous"],
            "load_friction_motor": 0.0,
            "load_friction_external": x["load"],
        }

    def to_bam(self) -> str:
        """Return the numbers as BAM's files have them, with intervals beside."""
        x = self._fields
        own = {"armature": x["armature"], "q_offset": -x["offset"] / self.bench.moment}
        intervals = {n: q.interval for n, q in self.quantities.items()}
        said = {"assumed": "k = k_e, which motion does not tell", "intervals": intervals}
        return json_text(self._bam | own | {"heft": said})

    def to_isaaclab(self) -> str:
        """Return the servo as a `BamActuatorCfg` of Isaac Lab; without a gain that is left out."""
        motor = {{"R": "resistance"}.get(n, n): x for n, x in self._bam.items()}
        firmware, gain = self.firmware, self._stated
        motor |= {"error_gain": self._gain or 1.0, "max_current": 0.0}  # no limit of the current
        fields = "".join(f"        {n}={x!r},\n" for n, x in motor.items())
        late = f"{firmware.late:.3g} s at most" if firmware else "not told"
        return f'''"""A servo of Isaac Lab (BamActuatorCfg; k = k_e is assumed), written by heft."""

from isaaclab.actuators.actuator_bam_cfg import BamActuatorCfg, BamMotorCfg

SERVO = BamActuatorCfg(
    joint_names_expr=["{NAME}"],
    motor=BamMotorCfg(
{fields}    ),
{f"    kp_fw={gain!r}," if self._gain else "    # kp_fw: no gain was told"}
    vin={self._supply!r},
    armature={self._fields["armature"]!r},
    # max_delay: {late}, over the simulation's step
)
'''

    def to_mujoco(self) -> str:
        """Return the bench as MJCF, its joint and its motor as found, intervals in a comment.

        The motor is a `dcmotor`: a firmware's P is a spring between goal and position, back-EMF its
        damper, and the voltage ends at the supply's. Without a gain it is given the voltage itself.
        Friction in the load and `sag` are counted at the mean torque of the arm in the logs.
        """
        x = self._fields
        A, B = x["A"], x["B"]
        supply, gain = self._supply, self._gain * self._stated
        motor = {"motorconst": f"{B / A!r} {B / A!r}", "resistance": repr(B / A**2)}
        if gain:
            controller = f"{A * supply * gain!r} 0 {B!r} 0 0 {supply!r}"
            motor |= {"input": "pos", "controller": controller}
        if self.firmware is not None and self.firmware.late > 0.0:
            late = self.firmware.late
            motor |= {"delay": repr(late), "nsample": str(math.ceil(late / TIMESTEP) + 1)}
        dry = x["coulomb"] + x["load"] * self._load
        fields = JointFields(x["armature"], x["viscous"], dry, x["offset"])
        intervals = "; ".join(
            f"{n} {q.interval[0]:.4g} ... {q.interval[1]:.4g}" for n, q in self.quantities.items()
        )
        mass, length, inertia = self.bench.mass, self.bench.length, self.bench.inertia
        centre = self.bench.moment / GRAVITY / (mass + self.bench.arm_mass)
        about = inertia - (mass + self.bench.arm_mass) * centre**2
        return f"""<mujoco model="servo on a bench">
  <!-- 95 %: {intervals}
       {f"of a firmware's gain of {gain:.4g} duty/rad" if gain else "no gain was told"} -->
  <option gravity="0 0 {-GRAVITY}" timestep="{TIMESTEP}" integrator="implicitfast"/>
  <worldbody>
    <body name="arm">
      <joint name="{NAME}" axis="0 -1 0"{shown(**mjcf_joint(fields))}/>
      <inertial pos="0 0 {-centre:.6g}" mass="{mass + self.bench.arm_mass:.6g}"
                diaginertia="{max(about, TINY):.6g} {max(about, TINY):.6g} {TINY:.6g}"/>
      <geom type="capsule" size="0.005" fromto="0 0 0 0 0 {-length:.6g}" contype="0"/>
    </body>
  </worldbody>
  <actuator>
    <dcmotor name="{NAME}" joint="{NAME}"{shown(**motor)}/>
  </actuator>
</mujoco>
"""

    @property
    def _supply(self) -> float:
        """Mean voltage of the logs [V]."""
        return float(np.mean(np.concatenate([log.supply for log in self.logs])))

    @property
    def _stated(self) -> float:
        """Gain that the logs state, 1 where they do not."""
        return float(np.median([g if (g := log.gain) > 0.0 else 1.0 for log in self.logs]))

    @property
    def _gain(self) -> float:
        """Duty per rad, per unit of the gain that logs state if they do; 0 if it is not told."""
        return self.firmware.gain if self.firmware else self.bench.gain or 0.0

    def replayed(self) -> str:
        """Return how far MuJoCo is off along the logs' goals, and heft's own law, as a sentence.

        Stretches of a second with the torque on, each from the log's own state, by the file of the
        log's own gain and supply.

        Raises:
            InputError: If MuJoCo is not installed, the gain is not known, or a log has no goal.
            FitError: If no stretch has the torque on.
        """
        full = {n: q.value for n, q in self.quantities.items()}
        bench, errors = replace(self.bench, gain=self._gain or None), list[list[Array]]()
        for log in self.logs:
            s = hidden.Stretches.of([log], bench, hidden.LENGTH, self.temperature)
            s, one = s.part(s.signals[2].min(axis=1) > 0.5), replace(self, logs=[log])
            flat = one._fields
            flat |= {"coulomb": flat["coulomb"] + flat["load"] * one._load, "load": 0.0}
            values = np.array([[x.get(n, 0.0) for n in hidden.NAMES] for x in (full, flat)])
            engine = moved_to_goals(one.to_mujoco(), s.begin, s.signals[1], hidden.STEP)
            moved = [engine, *hidden.followed(values, s, bench)[0].real]
            errors.append([np.sqrt(np.mean((x - s.signals[0]) ** 2, axis=1)) for x in moved])
        rms = np.degrees(np.concatenate(errors, axis=1))
        if not rms.size:
            raise FitError("no stretch has the torque on", got=_counted(self.logs))
        engine, law, flat = np.median(rms, axis=1)
        return (
            f"along the goal alone, {hidden.LENGTH:g} s at a time, MuJoCo misses the position by "
            f"{engine:.2f}°, heft's law by {law:.2f}°, and by {flat:.2f}° with friction of the mean"
            f" load, as MuJoCo has it (medians of {rms.shape[1]} stretches)"
        )


def identify_bench(
    bench: Bench, logs: Sequence[ServoLog], progress: Callable[[str], None] = lambda line: None
) -> IdentifiedServo:
    """Return what a servo is, by its duty where all logs hold it, else by position and goal.

    Raises:
        InputError: If no log is given, if the bench states another gain than the logs show, or none
            where it is needed.
        FitError: If the logs do not tell.
    """
    if not logs:
        raise InvalidRecording("no log is given", cure="give at least one log of the bench")
    released = by_duty.is_released(logs)
    if all(log.duty is not None for log in logs):
        firmware = Firmware.read_off(logs, bench.gain)
        fit = by_duty.fitted(logs, bench, released, progress)
        values, covariance = by_duty.divided(fit)
        names = [{"arm": "A", "back_emf": "B"}.get(n, n) for n in fit.problem.plant.labels.names]
        strengths = by_duty.strengths(fit).tolist()
        curves = [replace(c, name=f"{t.path} [V]") for t in fit.traces for c in t.curves]
        said = (
            f"where the arm slides in {_counted(logs)}; torque error to be expected "
            f"{fit.predicted_error.total:.0%}"
        )
    else:
        progress("simulating the loop, whose duty is not logged")
        firmware, strengths = None, []
        values, covariance, free, off = hidden.fitted(logs, bench, released)
        warm = float(np.mean([log.temperature for log in logs]))
        curves = [
            _positions(
                values, hidden.Stretches.of([log], bench, hidden.LENGTH, warm), bench, log.name
            )
            for log in logs
        ]
        names, values = np.array(hidden.NAMES)[free].tolist(), values[free]
        covariance = covariance[np.ix_(free, free)]
        said = (
            f"by position and goal of {_counted(logs)}; positions missed by "
            f"{np.degrees(off):.2f}° in stretches of {hidden.LENGTH:g} s"
        )
    rows = zip(names, values.tolist(), np.sqrt(np.diag(covariance)).tolist(), strict=True)
    quantities = {n: Quantity(x, s, QUANTITIES[n][1]) for n, x, s in rows}
    A = quantities["A"]
    if not A.std < 0.5 * A.value:
        raise FitError(
            "the logs do not tell the torque per volt, of which all else is a multiple",
            argument=", ".join(log.name for log in logs[:3]),
            got=f"A = {A.value:.3g} ± {A.std:.3g} {A.unit}",
            cure="add logs in which the arm swings both ways, far and fast, lifts and lowers",
        )
    return IdentifiedServo(bench, logs, quantities, covariance, firmware, said, curves, strengths)


def _positions(values: Array, s: hidden.Stretches, bench: Bench, name: str) -> Curve:
    """Return positions of a log's stretches, measured and by the numbers `hidden.NAMES`."""
    moved = hidden.followed(values[None], s, bench)[0][0].real
    clock = hidden.STEP * np.arange(moved.shape[1])
    degrees = zip(np.degrees(s.signals[0]), np.degrees(moved), strict=True)
    title = f"{name}, {hidden.LENGTH:g} s at a time, each from the log's own state [°]"
    return one_after_another(title, ((clock, q, p) for q, p in degrees))


def _counted(logs: Sequence[ServoLog]) -> str:
    return "one log" if len(logs) == 1 else f"{len(logs)} logs"


def identify_files(
    bench: Path,
    logs: Sequence[Path],
    out: Path,
    columns: Path | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> IdentifiedServo:
    """Identify a servo from files, and write `RESULTS` into a folder.

    Args:
        columns: TOML that says what the logs' columns mean.

    Raises:
        InputError: If a file cannot be used, or the folder holds other files.
        FitError: If the logs do not tell.
    """
    require_own(out, RESULTS)
    stated = section(Bench)(read_toml(bench), str(bench))
    servo = identify_bench(stated, open_logs(stated, logs, columns), progress)
    texts = (servo.to_html(), servo.to_bam(), servo.to_mujoco(), servo.to_isaaclab())
    contents = (servo.to_json(), *texts)
    with new_folder(out) as new:
        for name, content in zip(RESULTS, contents, strict=True):
            (new / name).write_text(content, encoding="utf-8")
    return servo
