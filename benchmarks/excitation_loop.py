"""Whether the loop closes: a motion is designed, run in the simulator, and identified.

    python -m benchmarks.excitation_loop --development [--seeds 4] [--arm NAME ...]
    python -m benchmarks.excitation_loop [--seeds 30] [--arm NAME ...] [--store]

All as a user would: `heft excite` with a model file that is wrong, its default settings but one
start, and its own assumption of the noise; MuJoCo runs the motion under a controller that knows the
wrong model only; `heft identify` with its default settings. What makes it the experiment that was
designed: the torque sensors have white noise of the deviation and at the rate that the design
assumed (1 % of each joint's effort limit, 100 rows a second), and friction is of heft's own class:
viscous, Coulomb `F tanh(w / 0.031 rad/s)`, a constant. Encoders have 19 bits and noise; their and
the controller's errors are not predicted, nor are the rows that are cut off at a log's ends. A seed
draws drives, the wrong model and all noise.

It is closed twice: designed for and fitted with just that friction, so that every number is
predicted and found; and with the default dictionary, whose terms with memory no design sees. What
identification states is the larger of two deviations, the rows' noise and a jackknife over twelve
blocks, and so lies above either.

With the dictionary, three random motions within the same limits, as long, are run and identified
likewise. What the exported model predicts is compared with exact torque, on another random motion
of each seed's own, and on ordinary work from point to point.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.program import benchmark, cache_path, commit
from benchmarks.results_file import Row, at_most
from benchmarks.scoring import Left
from benchmarks.truth import ROBOTS
from benchmarks.truth import SCORED as FILES
from benchmarks.truth import arm as arm_of
from benchmarks.truth_scores import held_out
from heft.applications.excite import (
    Excited,
    ExciteSettings,
    PlannedExperiment,
    excite,
    open_experiment,
)
from heft.applications.identification.identification import Identification, identify
from heft.arrays import Array
from heft.dynamics import FRICTION, Sigmoid
from heft.dynamics import Offset as OffsetTerm
from heft.dynamics import Viscous as ViscousTerm
from heft.excitation import DesignSettings, SolverSettings
from heft.fit.settings import Settings
from heft.information import BaseParameters
from heft.models import JointOptions, Options, Robot
from heft.plants.excitable_robot import COULOMB_SPEED
from heft.simulation import (
    Arm,
    Condition,
    Coulomb,
    Drive,
    Knots,
    Offset,
    Sensors,
    SimulatedExperiment,
    Simulator,
    Viscous,
)

DEVELOPMENT = ("ur5", "panda")
SCORED = ("z1", "xarm7")  # of 6 and of 7 joints
FIRST_SCORED = 2000  # seed; 0 to 99 are for development
DESIGN = DesignSettings(duration=20.0, starts=1, workers=1)
RANDOM = (101, 102, 103)  # seeds of the random motions
ARM = arm_of  # of a name; that of a smoke run is cut off behind a joint
RUN = 100.0  # rows of a commanded motion a second
WITHIN = 0.25
ALONE = "viscous and Coulomb"
FRICTION[ALONE] = (ViscousTerm(), Sigmoid(COULOMB_SPEED), OffsetTerm())
MODELS = {ALONE: "its friction fitted", "full": "the dictionary fitted"}
OTHERS = ("random motion", "ordinary work")  # that nobody fits
Record = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Loop:
    """An arm, the experiment that is planned with it, and motions to be run.

    Attributes:
        name: Of the arm.
        friction: That is designed for and fitted, one of `MODELS`.
        planned: With a wrong model file.
        settings: Of the design.
        motions: The designed one, then random ones.
    """

    name: str
    friction: str
    planned: PlannedExperiment
    settings: DesignSettings
    motions: tuple[Excited, ...]

    @staticmethod
    def of(
        name: str, friction: str, settings: DesignSettings = DESIGN, random: Sequence[int] = ()
    ) -> Loop:
        """Return the loop of an arm, its motion designed.

        Args:
            name: Of an arm of `benchmarks.truth`.
            friction: One of `MODELS`.
            settings: Of the design.
            random: Seeds of random motions.
        """
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "arm.urdf"
            path.write_bytes(Simulator(ARM(name)).believed(0))
            planned = open_experiment(path, collisions=False)  # there are no shapes in it
        planned = replace(planned, robot=robot_of(planned.robot.source, friction))
        designed = excite(planned, ExciteSettings(design=settings, compared=False))
        loop = Loop(name, friction, planned, settings, (designed,))
        return replace(loop, motions=(designed, *(loop.random(k) for k in random)))

    def random(self, seed: int) -> Excited:
        """Return a random motion within the limits, none of which the solver has improved."""
        plain = replace(self.settings, random=1, seed=seed, solver=SolverSettings(rounds=0))
        return excite(self.planned, ExciteSettings(design=plain, compared=False))

    def simulator(self, seed: int, motion: Knots) -> Simulator:
        """Return the simulator of a seed, with friction of the dictionary's class."""
        body, duration = ARM(self.name), self.settings.duration
        sensors = Sensors(rate=self.planned.rate, torque_noise=0.0)
        condition = Condition(
            sensors=sensors, motion=motion, duration=duration, other_duration=duration
        )
        drawn = Simulator(body, condition).drives_of(seed)
        fixed = {j: in_class(d) for j, d in zip(body.joints, drawn, strict=True)}
        return Simulator(body, replace(condition, fixed_drives=fixed))

    def run(self, seed: int, number: int) -> SimulatedExperiment:
        """Return the experiment of a seed and a motion, noise as the design assumed it."""
        rng = np.random.default_rng([seed, number])
        noise = self.planned.noise
        return self.simulator(seed, commanded(self.motions[number])).run(
            seed, lambda exact: exact.tau + noise * rng.normal(size=exact.tau.shape), number
        )

    def fitted(self, seed: int, number: int) -> tuple[SimulatedExperiment, Identification]:
        """Return the experiment of a seed and a motion, and what is identified of it."""
        truth = self.run(seed, number)
        robot = robot_of(truth.prior, self.friction)
        return truth, identify(robot, [truth.recording], settings=Settings(threads=1))

    def record(self, seed: int) -> Record:
        """Return what became of all motions of a seed."""
        truth, fit = self.fitted(seed, 0)
        found = compared(self.motions[0], fit, truth)
        if len(self.motions) == 1:
            return found
        own = commanded(self.random(seed))
        where = self.simulator(seed, own)
        number = len(self.motions)
        others = (where.other(seed, own, number), where.other(seed, OTHERS[1], number))
        found["held out"] = []
        for k in range(number):
            left = Left.by(fit if k == 0 else self.fitted(seed, k)[1])
            found["held out"].append([held_out(left, other)["full"] for other in others])
        return found


def robot_of(urdf: bytes, friction: str) -> Robot:
    """Return a robot with a model of friction in all joints."""
    joints = Robot.from_urdf_text(urdf).joints
    options = Options(joint={j: JointOptions(friction=friction) for j in joints})
    return Robot.from_urdf_text(urdf, options)


def in_class(drive: Drive) -> Drive:
    """Return a drive whose Coulomb friction is a term of heft's dictionary."""
    laws = drive.laws
    return replace(
        drive,
        laws=tuple(replace(k, scale=COULOMB_SPEED) if isinstance(k, Coulomb) else k for k in laws),
    )


def commanded(found: Excited) -> Knots:
    """Return a motion as a controller takes it."""
    motion = found.joint_trajectory(RUN)
    return Knots.through(motion.time, motion.position, motion.velocity, motion.acceleration)


def compared(motion: Excited, fit: Identification, truth: SimulatedExperiment) -> Record:
    """Return each base parameter's error and stated deviation over the predicted one.

    The terms of friction's dictionary are left out: nobody is told them.
    """
    base, design = fit.problem.base, motion.design
    place = {n: k for k, n in enumerate(base.labels.names)}
    names = [design.base.labels.names[k] for k in motion.listed]
    at = [place[n] for n in names]
    predicted = design.std[list(motion.listed)]
    parameters = fit.estimate.parameters
    assert parameters.covariance is not None
    error = (parameters.values - true_values(base, truth))[at]
    stated = np.sqrt(np.diag(parameters.covariance))[at]
    return {
        "names": names,
        "error": (error / predicted).tolist(),
        "stated": (stated / predicted).tolist(),
    }


def true_values(base: BaseParameters, truth: SimulatedExperiment) -> Array:
    """Return the true base parameters; 0 of friction that does not act."""
    bodies = Robot.from_urdf_text(truth.arm.urdf).written_bodies()
    standard = np.zeros(len(base.standard))
    standard[: len(bodies)] = bodies
    known = {}
    for joint, drive in zip(truth.arm.joints, truth.drives, strict=True):
        laws = {type(k): k for k in drive.laws}
        known[f"{joint}.armature"] = drive.armature
        known[f"{joint}.viscous"] = laws[Viscous].coefficient
        known[f"{joint}.sigmoid[{COULOMB_SPEED:g}]"] = laws[Coulomb].effort
        known[f"{joint}.offset"] = laws[Offset].effort
    for k, name in enumerate(base.standard.names):
        standard[k] = known.get(name, standard[k])
    return np.asarray(base.matrix @ standard)


# ---- records and rows ------------------------------------------------------------------------


def cut_off(name: str) -> Arm:
    """Return the first three joints of the Z1."""
    return Arm.of(ROBOTS / FILES["z1"].path, name, None, "joint3")


@cache
def loop_of(name: str, friction: str) -> Loop:
    """Return the loop of an arm and a model of friction."""
    return Loop.of(name, friction, DESIGN, RANDOM if friction == "full" else ())


def kept(label: str) -> dict[tuple[str, str, int], Record]:
    """Return the records of a label, by arm, friction and seed."""
    path = cache_path("excitation_loop.jsonl")
    if not path.exists():
        return {}
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    keys = ("arm", "friction", "seed")
    return {tuple(k[n] for n in keys): k["record"] for k in lines if k["label"] == label}


def recorded(name: str, friction: str, seeds: Sequence[int], label: str) -> list[Record]:
    """Return the records of an arm, those made that are not kept yet."""
    done = kept(label)
    path = cache_path("excitation_loop.jsonl")
    path.parent.mkdir(exist_ok=True)
    for seed in seeds:
        if (name, friction, seed) in done:
            continue
        record = done[name, friction, seed] = loop_of(name, friction).record(seed)
        line = {"label": label, "arm": name, "friction": friction, "seed": seed, "record": record}
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{name}, {friction}, {seed}: {told(record)}", file=sys.stderr, flush=True)
    return [done[name, friction, seed] for seed in seeds]


def told(record: Mapping[str, Any]) -> str:
    """Return a line about a record."""
    error, stated = (np.sqrt(np.mean(np.square(record[k]))) for k in ("error", "stated"))
    held = np.round(record.get("held out", []), 4).tolist()
    return f"error {error:.3f}, stated {stated:.3f}; {held}"


def deviation_rows(name: str, records: Sequence[Mapping[str, Any]], alone: bool) -> Iterator[Row]:
    """Yield how right predicted deviations are.

    Args:
        name: Of the arm and the model of friction.
        records: Of all seeds.
        alone: Whether friction that acts is all that is fitted, so that what identification states
            is judged, too.
    """
    error, stated = (np.array([r[k] for r in records]) for k in ("error", "stated"))
    count = f"{error.shape[1]} base parameters, {len(records)} seeds"
    for title, ratio in (("actual error", error), ("stated deviation", stated)):
        judged = alone or ratio is error
        size = float(np.sqrt(np.mean(ratio**2)))
        holds = abs(size - 1.0) <= WITHIN if judged else None
        whole = f"{name}: {title} over the predicted deviation"
        yield Row(f"{whole}, rms", size, "", 1.0 + WITHIN if judged else None, holds, count)
        each = np.sqrt(np.mean(ratio**2, axis=0))
        off = float(np.sqrt(np.mean((each - 1.0) ** 2)))
        bound = WITHIN if judged else None
        yield at_most(f"{whole}, of single parameters, rms off 1", off, "", bound, count)
        yield Row(f"{whole}, of the worst parameter", float(each.max()), "")


def torque_rows(name: str, records: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    """Yield what the exported models predict of motion that they were not fitted to."""
    held = np.array([r["held out"] for r in records])  # seeds, motions, others
    for k, kind in enumerate(OTHERS):
        sizes = np.sqrt(np.mean(held[:, :, k] ** 2, axis=0))
        title = f"{name}: held-out torque error, {kind}"
        yield Row(title, float(sizes[0]), "", against="rms over seeds")
        said = "random: " + ", ".join(f"{s:.4f}" for s in sizes[1:])
        ratio = float(sizes[0] / sizes[1:].min())
        yield at_most(f"{title}, over the best of three random motions", ratio, "", 1.0, said)
        below = held[:, :1, k] < held[:, 1:, k]
        yield Row(f"{title}, share of seeds below a random motion", float(below.mean()), "")
        yield Row(f"{title}, share below all three", float(below.all(axis=1).mean()), "")


@benchmark(
    {
        **{"seeds": 1, "arm": ("z1",), "RANDOM": (101,), "ARM": cut_off},
        "DESIGN": DesignSettings(
            duration=4.0, random=4, starts=1, workers=1, solver=SolverSettings(rounds=0)
        ),
    },
    unstored=("development", "arm"),
)
def main(
    *,
    development: bool = False,
    seeds: int = 30,
    arm: tuple[str, ...] = (),
    label: str | None = None,
) -> Iterator[Row]:
    """Run the loops, and yield the rows.

    Args:
        development: Arms and seeds to choose constants on.
        seeds: How many.
        arm: Some of the arms.
        label: Under which records are kept; the commit if not given.
    """
    allowed = DEVELOPMENT if development else SCORED
    if not set(arm) <= set(allowed):
        raise SystemExit(f"arms: {', '.join(allowed)}")
    first = 0 if development else FIRST_SCORED
    for name in arm or allowed:
        title = f"{name}, {len(ARM(name).joints)} joints"
        for friction, said in MODELS.items():
            chosen = range(first, first + seeds)
            records = recorded(name, friction, chosen, label or commit())
            yield from deviation_rows(f"{title}, {said}", records, friction == ALONE)
        yield from torque_rows(title, records)


if __name__ == "__main__":
    main()
