"""What a servo is, from logs of its duty on a bench with a known mass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from heft import __version__
from heft.arrays import Array
from heft.display import rounded, table
from heft.errors import InvalidRecording, MissingSignal
from heft.files import json_text, new_folder, require_own
from heft.fit import NORMAL, PlantIdentification, Settings, identify_plant
from heft.plants import ServoPlant
from heft.recordings import Recording
from heft.signals import Smoothing

from .bench import GRAVITY, NAME, Bench, ServoLog, open_logs
from .firmware import Firmware

RESULTS = ("estimate.json", "bam.json", "servo.xml")
SLIDES = 0.1  # [rad/s], speed from which friction is that of sliding
AHEAD = 0.04  # [s], over which the speed is looked at, before and behind
SWITCHES = 0.02  # [s] about a switch of the torque, which is left out
CORNER = 10.0  # [Hz], of windows short enough for the stretches in which a servo slides
TRIM = 0.1  # [s] of a log's ends: logs of benches are short
RELEASED = 20  # rows that slide with the torque off, from which back-EMF is told from friction
WARMS = 3.0  # [K] between logs, from which the torque's fall with temperature is told
TINY = 1e-6  # [kg·m²], of a body's inertia, which may not be zero
UNLIKE = 1.1  # of the strengths of two logs, from which they are said to differ
QUANTITIES = {  # of the columns' names: what they are times A, and their unit
    "arm": ("A", "N·m/V"),
    "warmth": ("warmth", "1/K"),
    "back_emf": ("B", "N·m·s/rad"),
    "armature": ("armature", "kg·m²"),
    "viscous": ("viscous", "N·m·s/rad"),
    "coulomb": ("coulomb", "N·m"),
    "load": ("load", "1"),
    "offset": ("offset", "N·m"),
}


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
    fit: PlantIdentification[ServoPlant]
    firmware: Firmware | None
    temperature: float  # at which A is stated [°C]; NaN where it is not logged

    @cached_property
    def covariance(self) -> Array:
        """Covariance of `quantities`, shape (n, n).

        A = 1/x₀ and θ = x/x₀, so that ∂A/∂x₀ = −A², ∂θ/∂x = A, ∂θ/∂x₀ = −A θ.
        """
        found = self.fit.consistent.parameters
        assert found.covariance is not None
        A = 1.0 / found.values[0]
        slope = A * np.eye(len(found.values))
        slope[:, 0] = -(A**2) * np.append(1.0, found.values[1:])
        wide = found.std / np.sqrt(np.diag(found.covariance))  # by blocks left out
        return np.asarray(slope @ (found.covariance * np.outer(wide, wide)) @ slope.T)

    @cached_property
    def quantities(self) -> Mapping[str, Quantity]:
        """A, B, rotor inertia and friction by name; without torque-off rows viscous holds B."""
        found, std = self.fit.consistent.parameters, np.sqrt(np.diag(self.covariance)).tolist()
        values = [1.0, *found.values[1:].tolist()]
        named = (QUANTITIES[n] for n in found.labels.names)
        rows = zip(named, values, std, strict=True)
        return {n: Quantity(x / found.values[0], s, unit) for (n, unit), x, s in rows}

    @cached_property
    def strengths(self) -> Array:
        """Torque per volt of each log over that of all, shape (logs,).

        Of each the factor of arm, rotor and friction that fits its rows best, back-EMF held: a
        warm winding has more resistance, which scales these alone.
        """
        problem, x = self.fit.problem, self.fit.consistent.parameters.values
        spread = problem.base.matrix
        back = np.array([n == "back_emf" for n in problem.plant.labels.names])
        factors = []
        for recording in problem.recordings:
            one = problem.with_recordings([recording]).information()
            triangle = one.combined(dict.fromkeys(one.channels, 1.0))
            moved = triangle.R @ spread @ np.where(back, 0.0, x)
            rest = triangle.factor[:-1, -1] - triangle.R @ spread @ np.where(back, x, 0.0)
            factors.append(float(moved @ moved) / float(moved @ rest))
        return np.array(factors)

    def notes(self) -> list[str]:
        """Return what no motion of these logs tells, and what the logs say of themselves."""
        known = "k, R and k_e are told as A = k/R and B = k·k_e/R only"
        if not self.fit.problem.plant.released:
            known += "; B is within viscous: no log moves freely with the torque off"
        said = [known, f"the scale of all torque is that of the known mass, {self.bench.mass:g} kg"]
        weak, strong = int(np.argmin(self.strengths)), int(np.argmax(self.strengths))
        if self.strengths[strong] > UNLIKE * self.strengths[weak]:
            logs = [self.logs[k] for k in (strong, weak)]
            warm = " and ".join(
                f"{log.name} {self.strengths[k]:.2f}"
                + (f" at {log.temperature:.0f} °C" if np.isfinite(log.temperature) else "")
                for k, log in zip((strong, weak), logs, strict=True)
            )
            said.append(
                f"A differs between logs, as by a winding's warmth: times {warm}; fit logs alike "
                "together"
            )
        return said

    def text(self) -> str:
        """Return the summary for a terminal, at most 20 lines."""
        rows = [
            [name, rounded(q.value, q.std), rounded(NORMAL * q.std), q.unit]
            for name, q in self.quantities.items()
        ]
        error = self.fit.predicted_error.total
        return "\n".join(
            [
                table(("", "value", "± 95 %", "unit"), rows),
                "",
                f"torque = A·duty·V − B·w − friction, of {len(self.logs)} logs where they slide; "
                f"torque error to be expected {error:.0%}",
                *([self.firmware.text()] if self.firmware else []),
                *(f"note: {note}" for note in self.notes()),
            ]
        )

    def to_json(self) -> str:
        """Return `estimate.json`: quantities with intervals and covariance, firmware, inputs."""
        strengths = zip(self.logs, self.strengths.tolist(), strict=True)
        content: dict[str, Any] = {
            "heft": __version__,
            "law": "torque = A duty V - B w - armature dw/dt - viscous w - coulomb sign(w) "
            "- load sign(w) |torque of arm| - offset",
            "quantities": {
                n: {**vars(q), "interval": q.interval} for n, q in self.quantities.items()
            },
            "covariance": self.covariance,
            "temperature": self.temperature,
            "predicted_error": self.fit.predicted_error.total,
            "firmware": self.firmware,
            "bench": self.bench,
            "notes": self.notes(),
            "logs": [
                {
                    "path": log.name,
                    "sha256": log.file.sha256,
                    "temperature": log.temperature,
                    "strength": s,
                }
                for log, s in strengths
            ],
        }
        return json_text(content)

    def _of_drive(self) -> tuple[float, float, float]:
        """Return A, B and viscous friction; where their sum alone is told, it is B."""
        x = {n: q.value for n, q in self.quantities.items()}
        return (x["A"], x["B"], x["viscous"]) if "B" in x else (x["A"], x["viscous"], 0.0)

    def to_bam(self) -> str:
        """Return the numbers under the names of BAM's files, k = k_e, with intervals beside.

        Its friction in the load is of gravity alone, and its motor's share is none here.
        """
        x, (A, B, viscous) = self.quantities, self._of_drive()
        content = {
            "model": "m5",
            "kt": B / A,
            "R": B / A**2,
            "armature": x["armature"].value,
            "q_offset": -x["offset"].value / self.bench.moment,
            "friction_base": x["coulomb"].value,
            "friction_viscous": viscous,
            "load_friction_motor": 0.0,
            "load_friction_external": x["load"].value,
            "heft": {
                "assumed": "k = k_e, which motion does not tell",
                "intervals": {n: q.interval for n, q in x.items()},
            },
        }
        return json_text(content)

    def to_mujoco(self) -> str:
        """Return the bench as MJCF, its joint and actuator as found, intervals in a comment.

        A firmware's P is a spring between goal and position, back-EMF its damper. Friction in the
        load is counted at the mean torque of the arm in the logs.
        """
        x, (A, B, viscous) = self.quantities, self._of_drive()
        volts = A * float(np.mean(np.concatenate([log.supply for log in self.logs])))
        angles = np.concatenate([log.position for log in self.logs])
        arm = self.bench.moment * float(np.mean(np.abs(np.sin(angles))))
        friction = x["coulomb"].value + x["load"].value * arm
        gains = [log.gain for log in self.logs if np.isfinite(log.gain)]
        gain = 0.0 if self.firmware is None else self.firmware.gain
        if self.firmware is not None and self.firmware.per_unit:
            gain *= float(np.median(gains))
        told = "; ".join(f"{n} {q.interval[0]:.4g} ... {q.interval[1]:.4g}" for n, q in x.items())
        mass, length, inertia = self.bench.mass, self.bench.length, self.bench.inertia
        centre = self.bench.moment / GRAVITY / (mass + self.bench.arm_mass)
        about = inertia - (mass + self.bench.arm_mass) * centre**2
        return f"""<mujoco model="servo on a bench">
  <!-- 95 %: {told}
       kp is of a firmware's gain of {gain:.4g} duty/rad; 0: it was not told -->
  <worldbody>
    <body name="arm">
      <joint name="{NAME}" axis="0 -1 0" armature="{x["armature"].value:.5g}"
             damping="{viscous:.5g}" frictionloss="{friction:.5g}"/>
      <inertial pos="0 0 {-centre:.6g}" mass="{mass + self.bench.arm_mass:.6g}"
                diaginertia="{max(about, TINY):.6g} {max(about, TINY):.6g} {TINY:.6g}"/>
      <geom type="capsule" size="0.005" fromto="0 0 0 0 0 {-length:.6g}" contype="0"/>
    </body>
  </worldbody>
  <actuator>
    <position name="{NAME}" joint="{NAME}" kp="{volts * gain:.5g}" kv="{B:.5g}"
              forcerange="{-volts:.5g} {volts:.5g}"/>
  </actuator>
</mujoco>
"""


def identify_bench(
    bench: Bench, logs: Sequence[ServoLog], progress: Callable[[str], None] = lambda line: None
) -> IdentifiedServo:
    """Return what a servo is, from logs of its duty.

    Rows are of what slides: at standstill friction is whatever holds, and no equation.

    Raises:
        InvalidRecording: If no log is given, or nothing slides.
        MissingSignal: If a log lacks the duty.
        InvalidSetting: If the bench states another gain than the logs show.
        FitError: If the logs do not tell.
    """
    if not logs:
        raise InvalidRecording("no log is given", cure="give at least one log of the bench")
    hidden = [log.name for log in logs if log.duty is None]
    if hidden:
        raise MissingSignal(
            "the log holds no duty",
            argument=", ".join(hidden[:3]),
            cure="log the register Present PWM (Dynamixel) or Present Load (Feetech) as load",
        )
    firmware = Firmware.read_off(logs, bench)
    warm = np.array([log.temperature for log in logs])
    released = sum(int(np.sum(_slides(log) & ~log.on)) for log in logs) >= RELEASED
    reference = float(np.mean(warm))
    plant = ServoPlant(bench.moment, bench.inertia, released, bool(np.ptp(warm) > WARMS))
    recordings = [_recording(log, plant, log.temperature - reference) for log in logs]
    step = max(float(np.median(np.diff(log.time))) for log in logs)
    quick = 20.0 * step < 1.5 / CORNER  # else windows would span too few samples
    smoothing = Smoothing(trim=TRIM, corner=CORNER if quick else None)
    settings = Settings(smoothing=smoothing, rows="weak")
    fit = identify_plant(plant, recordings, settings=settings, progress=progress)
    return IdentifiedServo(bench, logs, fit, firmware, reference)


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
    stated = Bench.load(bench)
    found = identify_bench(stated, open_logs(stated, logs, columns), progress)
    with new_folder(out) as new:
        for name, content in zip(
            RESULTS, (found.to_json(), found.to_bam(), found.to_mujoco()), strict=True
        ):
            (new / name).write_text(content, encoding="utf-8")
    return found


def _slides(log: ServoLog) -> Any:
    """Return where a log slides, away from switches of its torque, shape (N,)."""
    t, q = log.time, log.position
    speed = (np.interp(t + AHEAD, t, q) - np.interp(t - AHEAD, t, q)) / (2.0 * AHEAD)
    switches = t[1:][np.diff(log.on.astype(int)) != 0]
    near = np.abs(t[:, None] - switches).min(axis=1, initial=np.inf) < SWITCHES
    return (np.abs(speed) > SLIDES) & ~near


def _recording(log: ServoLog, plant: ServoPlant, warm: float) -> Recording:
    """Return a log as a recording of the plant, of which what slides is fitted."""
    assert log.duty is not None
    volts = np.where(log.on, log.duty * log.supply, 0.0)
    signals = {
        NAME: volts,
        f"{NAME}.on": log.on.astype(float),
        f"{NAME}.warm": np.full(len(volts), warm if plant.warms else 0.0),
    }
    made = Recording.from_arrays(log.time, log.name, q={NAME: log.position}, u=signals)
    slides = _slides(log) & (log.on | plant.released)
    return replace(made, selection=lambda rows: slides[rows])
