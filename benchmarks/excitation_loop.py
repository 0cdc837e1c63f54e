"""Whether the loop closes: a motion is designed, run in the simulator, and identified.

    python -m benchmarks.excitation_loop --development [--seeds 4] [--arm NAME ...]
    python -m benchmarks.excitation_loop [--seeds 30] [--store]
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results_file import ROOT, Row, at_least, at_most, store, table
from benchmarks.scoring import Left
from benchmarks.truth import arm
from benchmarks.truth_scores import held_out
from heft.applications.excite import Excited, ExciteSettings, excite, open_experiment
from heft.applications.identification.identification import Identification
from heft.applications.identification.identify import identify
from heft.applications.identification.settings import Settings
from heft.arrays import Array
from heft.dynamics import FRICTION
from heft.dynamics.drives import Offset, Sigmoid, Viscous
from heft.experiments import (
    Arm,
    Condition,
    Coulomb,
    DesignSettings,
    Drive,
    Knots,
    Sensors,
    SimulatedExperiment,
    Simulator,
    SolverSettings,
)
from heft.experiments import Offset as Constant
from heft.experiments import Viscous as Damping
from heft.models import JointOptions, Options, Robot
from heft.plants.excitable_robot import COULOMB_SPEED

DURATION = 20.0
NOISE = 0.01
RATE = 100.0
SENSORS = Sensors(rate=RATE, torque_noise=0.0)
RANDOM = 3
FRICTION["smooth"] = (Viscous(), Sigmoid(COULOMB_SPEED), Offset())


@cache
def noise_of(name):
    return planned_for(name).noise


def planned_for(name, seed=0):
    body = arm(name)
    believed = Simulator(body).believed(seed)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "arm.urdf"
        path.write_bytes(believed)
        planned = open_experiment(path, collisions=False)
    return planned


def motions(name, starts=1):
    planned = planned_for(name)
    base = DesignSettings(duration=DURATION, starts=starts, workers=1)
    t0 = time.perf_counter()
    import pickle
    best = excite(planned, ExciteSettings(design=base, compared=False))
    print(name, "designed", round(best.design.gain, 1), "nats", round(time.perf_counter() - t0, 1), "s", best.planned.remarks[:2])
    still = replace(base, random=1, starts=1, solver=SolverSettings(rounds=0))
    others = [
        excite(planned, ExciteSettings(design=replace(still, seed=100 + k), compared=False))
        for k in range(RANDOM)
    ]
    return [best, *others]


def knots(found: Excited) -> Knots:
    m = found.joint_trajectory(RATE)
    return Knots.through(m.time, m.position, m.velocity, m.acceleration)


def own_friction(drive: Drive, scale) -> Drive:
    laws = tuple(replace(k, scale=scale) if isinstance(k, Coulomb) else k for k in drive.laws)
    return replace(drive, laws=laws)


def simulated(name, motion, seed, number, scale=COULOMB_SPEED, sensors=SENSORS):
    condition = Condition(motion=motion, duration=DURATION, sensors=sensors)
    body = arm(name)
    drawn = Simulator(body, condition).drives_of(seed)
    fixed = {j: own_friction(d, scale) for j, d in zip(body.joints, drawn)}
    simulator = Simulator(body, replace(condition, fixed_drives=fixed))
    rng = np.random.default_rng([seed, number])
    sigma = noise_of(name)

    def sensed(exact):
        return exact.tau + sigma * rng.normal(size=exact.tau.shape)

    return simulator.run(seed, sensed, number)


def true_base(base, truth):
    true = Robot.from_urdf_text(truth.arm.urdf)
    bodies, names = true.written_bodies(), base.standard.names
    standard = np.zeros(len(names))
    standard[: len(bodies)] = bodies
    for j, d in zip(truth.arm.joints, truth.drives, strict=True):
        known = {"armature": d.armature, "viscous": d.coefficient(Damping)}
        law = {type(k): k for k in d.laws}
        known["offset"] = law[Constant].effort
        for k, n in enumerate(names):
            owner, _, what = n.rpartition(".")
            if n.startswith(f"{j}.sigmoid") or n == f"{j}.coulomb":
                standard[k] = law[Coulomb].effort
            elif owner == j and what in known:
                standard[k] = known[what]
    return base.matrix @ standard


def one(name, plans, seed, friction="smooth", which=(0, 1, 2, 3), scale=COULOMB_SPEED, settings=None, sensors=SENSORS):
    out = {"held": []}
    for number in which:
        t0 = time.perf_counter()
        truth = simulated(name, knots(plans[number]), seed, number, scale, sensors)
        t1 = time.perf_counter()
        bare = Robot.from_urdf_text(truth.prior)
        options = Options(joint={j: JointOptions(friction=friction) for j in bare.joints})
        robot = Robot.from_urdf_text(truth.prior, options)
        found = identify(robot, [truth.recording], settings=settings or Settings(threads=1))
        t2 = time.perf_counter()
        other = truth.other("sines", 9)
        out["held"].append(held_out(Left.by(found), other)["full"])
        t3 = time.perf_counter()
        base = found.problem.base
        want = plans[number].design
        names = {n: k for k, n in enumerate(base.labels.names)}
        both = [(names[n], k) for k, n in enumerate(want.base.labels.names) if n in names]
        mine, its = map(list, zip(*both))
        parameters = found.estimate.parameters
        error = (parameters.values - true_base(base, truth))[mine]
        std = np.sqrt(np.diag(parameters.covariance))[mine]
        predicted = want.std[its]
        out[number] = dict(error=error, std=std, predicted=predicted, names=[want.base.labels.names[k] for k in its],
            corner=found.problem.corner, delay=found.problem.delay, sigma=found.estimate.noise.sigma / noise_of(name), tau=found.estimate.noise.autocorrelation_time,
            times=(t1-t0, t2-t1, t3-t2), rank=(base.rank, want.base.rank))
    return out


if __name__ == "__main__":
    name = sys.argv[1]
    plans = motions(name)
    for p in plans:
        print("logdet", p.design.log_determinant, "rms v", np.sqrt(np.mean(p.joint_trajectory(50).velocity**2)))
    for friction in sys.argv[3].split(","):
      for seed in range(int(sys.argv[2])):
        r = one(name, plans, seed, friction, which=(0,1,2,3) if "held" in sys.argv else (0,))
        d = r[0]
        z, s = d["error"] / d["predicted"], d["std"] / d["predicted"]
        print(friction, seed, "rms z %.3f  rms std ratio %.3f median %.3f" % (np.sqrt(np.mean(z**2)), np.sqrt(np.mean(s**2)), np.median(s)), "held", np.round(r["held"], 4),
            "corner %.2f delay %.4f" % (d["corner"], d["delay"]), "sigma", np.round(d["sigma"], 2), "tau", np.round(d["tau"], 2), "t", np.round(d["times"], 1), d["rank"], flush=True)
        inert = np.array([not any(w in n for w in ("viscous","sigmoid","offset")) for n in d["names"]])
        print("   inertial: rms z %.3f rms s %.3f median %.3f; friction rms z %.3f s %.3f" % (np.sqrt(np.mean(z[inert]**2)), np.sqrt(np.mean(s[inert]**2)), np.median(s[inert]), np.sqrt(np.mean(z[~inert]**2)), np.sqrt(np.mean(s[~inert]**2))))
        worst = np.argsort(-np.abs(z))[:4]
        print("   worst", [(d["names"][k], round(float(z[k]), 2), round(float(s[k]), 2)) for k in worst])
