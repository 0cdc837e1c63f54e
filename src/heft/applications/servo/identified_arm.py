"""What the servos of an arm are, and its links' masses: the result, its text and files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from heft import __version__
from heft.arrays import Array
from heft.display import Table, rounded
from heft.errors import FitError, InvalidSetting, require_one_of
from heft.files import json_text, new_folder, read_toml, require_own, section
from heft.fit import NORMAL
from heft.information import inertia
from heft.models import SIMULATORS, JointFields, Robot, export, shown
from heft.recordings import ColumnMap

from .arm import LACKS, NEAR, OF_JOINT, Loop, LoopFit, fitted, with_servos
from .episodes import ArmBench, Episode, open_episodes
from .identified import Quantity
from .report import one_after_another, page_of, text_of

ARM_RESULTS = ("estimate.json", "report.html", "robot.xml", "robot_isaaclab.py", "robot_pace.json")
TOLD = 0.2  # of a number, its largest standard deviation for which it is stated
# Of positions without what frames see late, root mean square, beyond which the law is another one.
MISSED = np.radians(0.1)
SLOW = 100.0  # frames a second below which a rotor looks like any other lag
OPEN = 0.6  # of what friction falls by with the speed, which no law of it tells beyond
WEIGHED = 0.005  # of a mass, its standard deviation where it was weighed
UNITS = {
    "stiffness": "N·m/rad",
    "viscous": "N·m·s/rad",
    "coulomb": "N·m",
    "armature": "kg·m²",
    "mass": "kg",
    "sag": "1/rad",
    "warmth": "1/s",
    "near goal": "1",
}


@dataclass(frozen=True, eq=False)
class IdentifiedArm:
    """Result of `heft servo` of an arm."""

    robot: Robot
    bench: ArmBench
    episodes: Sequence[Episode]
    fit: LoopFit

    @cached_property
    def _scaled(self) -> tuple[Array, Array, str]:
        """Logarithms of joints' and bodies' numbers, their covariance, and the link told best.

        All of them may be scaled alike: what is known of masses says by how much. Where none is,
        that of the link told best is taken for the file's.
        """
        fit, n, bodies = self.fit, len(self.robot.joints), self.robot.tree.names
        first = len(OF_JOINT) * n
        last = first + len(bodies)
        fall = fit.loop.parts(np.arange(len(fit.values)))[4]
        # Friction that is stated is that of sliding. How it goes on to fall is not told: a part of
        # what it fell by is left open.
        gone = np.clip(fit.values[fall], -0.5, 0.9)
        slope = np.eye(len(fit.values))
        slope[np.arange(2 * n, 3 * n), fall] = -1.0 / (1.0 - gone)
        values = fit.values[:last].copy()
        values[2 * n : 3 * n] += np.log(1.0 - gone)
        spread = (slope @ fit.covariance @ slope.T)[:last, :last]
        at = np.arange(2 * n, 3 * n)
        spread[at, at] += (OPEN * gone / (1.0 - gone)) ** 2
        apart = np.add.outer(np.diag(spread), np.diag(spread)) - 2.0 * spread
        best = bodies[int(np.argmin(np.median(apart[first:], axis=1)))]
        spread = spread + 1e3  # of the scale of all
        for name, mass in (self.bench.known or {best: self._file[bodies.index(best)]}).items():
            k = first + bodies.index(name)
            gain = spread[:, k] / (spread[k, k] + (WEIGHED**2 if self.bench.known else 0.0))
            values = values + gain * (np.log(mass / self._file[k - first]) - values[k])
            spread = spread - np.outer(gain, spread[k])
        return values, spread, best

    @cached_property
    def _file(self) -> Array:
        """Masses of the bodies in the model file [kg]."""
        return self.robot.written_bodies().reshape(-1, 10)[:, 0]

    @property
    def _names(self) -> list[str]:
        return list(self.fit.loop.names[: len(self._scaled[0])])

    @cached_property
    def rate(self) -> float:
        """Frames a second."""
        return float(np.median([1.0 / np.median(np.diff(e.time)) for e in self.episodes]))

    @cached_property
    def all_quantities(self) -> Mapping[str, Quantity]:
        """All numbers by `JOINT.kind` and `LINK.mass`, told or not, at the scale of the masses."""
        values, spread, _ = self._scaled
        sizes = np.exp(values)
        sizes[-len(self._file) :] *= self._file
        std = sizes * np.sqrt(np.maximum(np.diag(spread), 0.0))
        return {
            name: Quantity(x, s, UNITS[name.rpartition(".")[2]])
            for name, x, s in zip(self._names, sizes.tolist(), std.tolist(), strict=True)
        }

    @cached_property
    def quantities(self) -> Mapping[str, Quantity]:
        """The numbers that the episodes tell."""
        return {
            name: q
            for name, q in self.all_quantities.items()
            if q.std < TOLD * q.value and not (self.rate < SLOW and name.endswith(".armature"))
        }

    @property
    def reference(self) -> str:
        """The link whose mass tells most of the scale; the file's, where none was weighed."""
        return self._scaled[2]

    @property
    def misfit(self) -> list[str]:
        """What says that the law is not this arm's: nothing, or one sentence."""
        far = [(k, j) for k, j in enumerate(self.robot.joints) if self.fit.unexplained[k] > MISSED]
        held = []
        for k, joint in far:
            fast = [
                max(_fastest(e.time, x[:, k]) for e, x in zip(self.episodes, signals, strict=True))
                for signals in zip(*((e.goal, e.position) for e in self.episodes), strict=True)
            ]
            if fast[1] < 0.8 * fast[0]:
                held.append(f"{joint} {fast[1]:.2g} rad/s, its goal {fast[0]:.2g}")
        if not far:
            return []
        each = ", ".join(f"{j} {np.degrees(self.fit.unexplained[k]):.2f}°" for k, j in far)
        said = (
            f"positions are missed by more than friction of an unknown law does ({each}, besides "
            "what frames are late), and intervals are wider by that: look for play in the gears, a "
            "limit of the goal's speed or of the duty, joints that touch something"
        )
        slow = f"; moved at most: {'; '.join(held)} (goal_speed in the same TOML, or gain)"
        return [said + (slow if held else "")]

    @cached_property
    def lacks(self) -> Mapping[str, Quantity]:
        """What drives lack of a spring's torque, as far as tests asked for it, by `Loop.names`."""
        std = np.sqrt(np.diag(self.fit.covariance)).tolist()
        rows = zip(self.fit.loop.names, self.fit.values.tolist(), std, strict=True)
        kinds = [(n, n.rpartition(" ")[0], x, s) for n, x, s in rows]
        return {n: Quantity(x, s, UNITS[k]) for n, k, x, s in kinds if k in LACKS and s > 0.0}

    @property
    def _lacking(self) -> list[str]:
        """Sentences of `lacks`."""
        stiff, said = self.fit.values, list[str]()
        pulls, lasts = 0.0, 0.0
        for e in self.episodes:
            error, since = e.goal - e.position, e.time - e.time[0]
            pulls = max(pulls, float(self.fit.loop.lacks(stiff, error, since)[1][:, :, 0].max()))
            lasts = max(lasts, float(since[-1]))
        if (sag := self.lacks.get("sag 0")) is not None:
            said.append(f"{_share(sag, pulls)} where all joints pull most: the supply sags")
        if (warm := self.lacks.get("warmth 0")) is not None:
            said.append(f"{_share(warm, lasts)} after {lasts:.0f} s of an episode: windings warm")
        near = [q for n, q in self.lacks.items() if n.startswith("near")]
        if near:
            each = zip(np.degrees(NEAR), near, strict=False)
            at = ", ".join(f"{_share(q, 1.0)} at {x:.2f}°" for x, q in each)
            said.append(f"{at} off the goal: a dead zone, or a startup force where less than none")
        files = "in no file of a simulator" if said else ""
        return [f"drives lack of a spring's torque {x} ({files})" for x in said]

    @property
    def notes(self) -> list[str]:
        """What no such episodes tell, and what they say of the model."""
        said = [
            f"the scale of all numbers is that of {' and '.join(self.bench.known)}, as weighed"
            if self.bench.known
            else f"no mass is known: all numbers are as if {self.reference} had the file's "
            f"{self._file[self.robot.tree.names.index(self.reference)]:g} kg; only their ratios "
            "are told ([known] in the TOML of --bench)"
        ]
        missing = [
            name
            for name in self.all_quantities
            if name not in self.quantities and not name.endswith(".armature")
        ]
        if missing:
            said.append(f"not told to {TOLD:.0%}: {', '.join(missing)}")
        if self.rate < SLOW:
            said.append(
                f"rotors and the delay are not told at {self.rate:.0f} frames a second, whose true "
                "times nobody knows: both are lags; the files hold what fits"
            )
        said.append(
            f"centres of mass are the file's within {1e3 * self.bench.centres:g} mm, a standard "
            "deviation (centres in the same TOML); shapes are the file's"
        )
        _, _, shifts, zeros, *_ = self.fit.loop.parts(self.fit.values)
        sizes = np.linalg.norm(shifts.reshape(-1, 3), axis=1)
        far = [
            f"{b} {1e3 * size:.0f} mm"
            for b, size in zip(self.robot.tree.names, sizes, strict=True)
            if size > 3.0 * self.bench.centres
        ]
        if far:
            said.append(f"centres of mass fit best far off the file's: {', '.join(far)}")
        off = [
            f"{j} {np.degrees(z):+.1f}°"
            for j, z in zip(self.robot.joints, zeros, strict=True)
            if abs(z) > np.radians(2.0)
        ]
        said += [*self._lacking, *self.misfit]
        if off:
            said.append(f"zeros are off the model's: {', '.join(off)} (zero in the same TOML)")
        return said

    def text(self) -> str:
        """Return the summary for a terminal."""
        return text_of(self._tables, self._said, self.notes)

    @property
    def _said(self) -> tuple[str, str]:
        """The law, and how far positions are off by it."""
        missed = ", ".join(f"{x:.2f}" for x in np.degrees(self.fit.missed))
        count = len(self.episodes)
        return (
            "stiffness·(goal − position) = arm + viscous·w + coulomb·sign(w) + armature·dw/dt",
            f"± 95 %, by position and goal of {count} episode{'s' * (count != 1)}; positions "
            f"missed by {missed}°",
        )

    @property
    def _tables(self) -> tuple[Table, Table]:
        kinds = [k for k in OF_JOINT if any(n.endswith(f".{k}") for n in self.quantities)]
        rows = [[j, *(self._cell(f"{j}.{k}") for k in kinds)] for j in self.robot.joints]
        links = [
            [b, self._cell(f"{b}.mass"), f"{m:.4g}"]
            for b, m in zip(self.robot.tree.names, self._file, strict=True)
        ]
        return (
            Table("Joints", ("", *(f"{k} [{UNITS[k]}]" for k in kinds)), rows),
            Table("Links", ("", "mass [kg]", "file"), links),
        )

    def to_html(self) -> str:
        """Return the report as a self-contained HTML page."""
        fit = self.fit
        moved = [fit.loop.followed(fit.values, e, slopes=False)[0] for e in self.episodes]
        curves = [
            one_after_another(
                f"{joint} [°]",
                (
                    (e.time, np.degrees(e.position[:, k]), np.degrees(q[:, k]))
                    for e, q in zip(self.episodes, moved, strict=True)
                ),
            )
            for k, joint in enumerate(self.robot.joints)
        ]
        return page_of(
            f"{self.robot.name}: servos and masses",
            f"{'; '.join(self._said)}.",
            self._tables,
            "Positions, by the goals alone, each episode from its first state",
            curves,
            self.notes,
        )

    def _cell(self, name: str) -> str:
        q = self.quantities.get(name)
        return "–" if q is None else f"{rounded(q.value, q.std)} ± {NORMAL * q.std:.2g}"

    def to_json(self) -> str:
        """Return `estimate.json`."""
        files = {str(e.file.path): e.file for e in self.episodes if e.file is not None}
        return json_text(
            {
                "heft": __version__,
                "law": "stiffness (goal - position) = inverse dynamics + viscous w + coulomb "
                "sign(w) + armature dw/dt",
                "quantities": {
                    n: {**vars(q), "interval": q.interval} for n, q in self.quantities.items()
                },
                "lacks": self.lacks,
                "reference": "" if self.bench.known else self.reference,
                "covariance_of_logarithms": {"names": self._names, "matrix": self._scaled[1]},
                "missed": dict(zip(self.robot.joints, self.fit.missed.tolist(), strict=True)),
                "bench": self.bench,
                "notes": self.notes,
                "logs": [{"path": p, "sha256": f.sha256} for p, f in files.items()],
            }
        )

    def files(self) -> tuple[str, ...]:
        """Return the contents of `ARM_RESULTS`: numbers, and models for MuJoCo, Isaac Lab, PACE."""
        x = {name: q.value for name, q in self.all_quantities.items()}
        robot, joints = self.robot, self.robot.joints
        factors = {b: x[f"{b}.mass"] / m for b, m in zip(robot.tree.names, self._file, strict=True)}
        shifts = self.fit.loop.parts(self.fit.values)[2].reshape(-1, 3)
        links = {
            k.name: factors[robot.tree.names[k.body]]
            * (inertia.frame_change(np.eye(3), k.rotation.T @ shifts[k.body]) @ k.written)
            for k in robot.links
            if k.body >= 0 and k.written[0] > 0.0
        }
        made = next(iter(export.write(robot, links, {}, {}).values()))
        weighed = Robot.from_text(made, robot.options, f"robot.{robot.form}")
        fields = {
            j: JointFields(x[f"{j}.armature"], x[f"{j}.viscous"], x[f"{j}.coulomb"]) for j in joints
        }
        motors = "".join(
            f"    <position{shown(name=j, joint=j, kp=repr(x[f'{j}.stiffness']))}/>\n"
            for j in joints
        )
        mujoco = SIMULATORS["mujoco"].write(weighed, fields)
        end = mujoco.rindex("</mujoco>")
        mujoco = f"{mujoco[:end]}  <actuator>\n{motors}  </actuator>\n{mujoco[end:]}"
        others = [SIMULATORS[name].write(weighed, fields) for name in ("isaaclab", "pace")]
        return (self.to_json(), self.to_html(), mujoco, *others)


def _share(of: Quantity, times: float) -> str:
    """Return a share, of so many times a number."""
    return f"{100.0 * times * of.value:.0f} ± {100.0 * times * NORMAL * of.std:.0f} %"


def _fastest(time: Array, angle: Array) -> float:
    """Return the largest mean speed of a tenth of a second [rad/s]."""
    return float(np.abs(np.interp(time + 0.1, time, angle) - angle).max()) / 0.1


def identify_arm(
    robot: Robot,
    bench: ArmBench,
    episodes: Sequence[Episode],
    progress: Callable[[str], None] = lambda line: None,
) -> IdentifiedArm:
    """Return what an arm's servos are, by positions and goals alone.

    Raises:
        InputError: If the model or the bench does not suit.
        FitError: If the episodes do not tell, or the simulated arm does not stay finite.
    """
    for name in bench.known or {}:
        require_one_of(name, robot.tree.names, f"no link '{name}' moves", "[known]")
    massless = [
        b
        for b, row in zip(robot.tree.names, robot.written_bodies().reshape(-1, 10), strict=True)
        if not row[0] > 0.0
    ]
    if massless:
        raise InvalidSetting(
            "a link has no mass in the model file, which a factor would be of",
            argument=", ".join(massless),
            cure="state a mass, centre and inertia for each link that moves, however rough",
        )
    gain = bench.gain or 1.0
    reach = np.inf if bench.gain is None else 1.0 / bench.gain
    ratios = bench.d_gain / gain, bench.i_gain / gain
    loop = Loop(with_servos(robot), *ratios, reach, bench.goal_speed, bench.centres)
    progress(f"simulating the loop of {len(episodes)} episodes")
    found = IdentifiedArm(robot, bench, episodes, fitted(loop, episodes))
    if not any(name.endswith(".stiffness") for name in found.quantities):
        off = float(np.degrees(found.fit.missed).max())
        raise FitError(
            "the episodes do not tell how stiff the servos are beside the known mass",
            got=f"none to {TOLD:.0%}; positions missed by up to {off:.2g}°",
            cure="; ".join([*found.misfit, ""])
            + f"weigh {found.reference}, which they tell best; add episodes in which joints "
            "lift, hold and lower, far and with rests; see whether signs and zeros are the model's",
        )
    return found


def identify_arm_files(
    model: Path,
    paths: Sequence[Path],
    out: Path,
    bench: Path | None = None,
    calibration: Path | None = None,
    columns: Path | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> IdentifiedArm:
    """Identify an arm of servos from files, and write `ARM_RESULTS` into a folder.

    Args:
        bench: TOML of `ArmBench`.
        calibration: JSON of the arm that recorded a dataset of LeRobot.
        columns: TOML that says what other logs' columns mean.

    Raises:
        InputError: If a file cannot be used, or the folder holds other files.
        FitError: If the episodes do not tell.
    """
    require_own(out, ARM_RESULTS)
    stated = ArmBench() if bench is None else section(ArmBench)(read_toml(bench), str(bench))
    robot = Robot.from_file(model)
    own = None if columns is None else ColumnMap.from_toml(columns)
    episodes = open_episodes(paths, robot, stated, calibration, own)
    found = identify_arm(robot, stated, episodes, progress)
    with new_folder(out) as new:
        for name, content in zip(ARM_RESULTS, found.files(), strict=True):
            (new / name).write_text(content, encoding="utf-8")
    return found
