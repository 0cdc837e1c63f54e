"""The textbook's small robots: simulated, fitted by its own recursion, and with noise.

python -m benchmarks.learn [--seeds 100] [--store]
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.lessons import LESSONS, STEP, Array, Lesson, example, noisy
from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_least, at_most
from heft.applications import textbook
from heft.applications.textbook import Differenced, Growing, followed, least_squares
from heft.estimators.least_squares import LeastSquares
from heft.estimators.recursive import CovarianceRecursion
from heft.models import denavit_hartenberg
from heft.models.robot import Robot
from heft.plants import RobotPlant
from heft.plants.problem import Problem
from heft.recordings.recording import Recording
from heft.signals.settings import Smoothing
from heft.signals.weak_form import Integrals, Weak
from heft.simulation import Dynamics, Simulate

FALLING, FOLLOWED = 5.0, 5.0  # of free falls, and of what the recursion follows [s]
SECONDS = 10.0  # of a noisy log
WEAK = Weak(length=0.5)
CORNER = 100.0  # [Hz], of the low-pass that windows come behind: it need not smooth much
CORNERS = (10.0, 20.0, 40.0)  # [Hz], of which differentiation is given the best
LIMIT = 1.959964  # deviations of an interval of 95 %
THETA = {
    "one link": ("I + I_m", "m r", "F_s", "F_v"),
    "two links": (
        *("I_1 + m_2 l_1² + I_m1", "I_2", "m_2 r_2 l_1", "m_1 r_1 + m_2 l_1", "m_2 r_2", "I_m2"),
        *("F_s1", "F_s2", "F_v1", "F_v2"),
    ),
}


def falls() -> Iterator[Row]:
    """Free fall: energy, and MuJoCo's angles where it is installed."""
    time = np.linspace(0.0, FALLING, round(100 * FALLING) + 1)
    for name, links in (("two_link_homework", "two"), ("three_link", "three")):
        robot = example(name)
        fall = Simulate().run(Dynamics.of(robot), time)
        drift = np.abs(fall.drift).max() / fall.kinetic.max()
        label = f"free fall of {links} links, {FALLING:g} s"
        yield at_most(f"{label}: energy's drift over the largest kinetic energy", drift, "", 1e-8)
        off = np.abs(fall.position - mujoco_fall(robot, time)).max()
        yield at_most(f"{label}: joint angles beside MuJoCo's", off, "rad", 1e-5)


def mujoco_fall(robot: Robot, time: Array) -> Array:
    """Return MuJoCo's angles, by Runge and Kutta's fourth order at 0.1 ms."""
    import mujoco

    table = denavit_hartenberg.read(robot.source, robot.name)
    model = mujoco.MjModel.from_xml_string(table.translate(False, robot.name).text.decode())
    model.opt.gravity[:] = robot.gravity
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_RK4
    model.opt.timestep = 1e-4
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    data = mujoco.MjData(model)
    angles = [data.qpos.copy()]
    for step in np.diff(time):
        mujoco.mj_step(model, data, round(step / model.opt.timestep))
        angles.append(data.qpos.copy())
    return np.array(angles)


def recovered(name: str, lesson: Lesson) -> Iterator[Row]:
    """The slides' recursion, and exact integrals without a prior."""
    limit = {"one link": 2.0, "two links": 5.0}[name]
    held, smooth = lesson.moved(STEP, FOLLOWED), lesson.moved(seconds=FOLLOWED)
    rectangles = lesson.columns(lambda robot: Growing("rectangles").rows(robot, held))
    found = followed(CovarianceRecursion(), rectangles)[-1]
    free = least_squares(rectangles).values
    label = f"{name}, {FOLLOWED:g} s"
    for part, value, without, truth in zip(THETA[name], found, free, lesson.truth, strict=True):
        yield at_most(
            f"{label}: {part} by the slides' recursion, error",
            100.0 * abs(value / truth - 1.0),
            "%",
            limit,
            f"{100.0 * abs(without / truth - 1.0):.2g} % without the prior P = I",
        )
    for what, growing, moved in (
        ("exact integrals", Growing(), smooth),
        ("exact integrals, torque held", Growing(held=True), held),
    ):
        rows = lesson.columns(lambda robot, g=growing, m=moved: g.rows(robot, m))  # type: ignore[misc]
        error = np.abs(least_squares(rows).values / lesson.truth - 1.0).max()
        yield at_most(f"{label}: {what}, no prior, worst relative error", error, "", 1e-4)


def problem(robot: Robot, seen: Differenced, corner: float, weak: Weak | None) -> Problem:
    """Return what heft makes of noisy positions and torques."""
    signals = {
        kind: dict(zip(robot.joints, values.T, strict=True))
        for kind, values in (("q", seen.position), ("tau", seen.effort))
    }
    recording = Recording.from_arrays(seen.time, "noisy", **signals)
    return Problem(RobotPlant(robot), (recording,), Smoothing(corner=corner), 1, weak=weak)


def whitened(made: Problem) -> Integrals:
    """Return a problem's rows over windows, whitened."""
    found = list(made.rows())
    time, regressor, effort = (
        np.concatenate([getattr(r, k) for r in found]) for k in ("time", "regressor", "effort")
    )
    rows = Integrals(time, regressor, effort)
    return textbook.whitened(rows, WEAK.windows(made.corner, STEP), STEP)


def noise(name: str, lesson: Lesson, seeds: int) -> Iterator[Row]:
    """Errors of the forms beside one another, and how often intervals hold the truth."""
    robot, moved = example(lesson.robot), lesson.moved(seconds=SECONDS)
    dynamics = lesson.dynamics()
    drives = [dynamics.drives.get(n, 0.0) for n in robot.labels.names[len(dynamics.bodies) :]]
    truth = np.concatenate([dynamics.bodies, drives])
    errors: dict[str, list[Array]] = {}
    inside: dict[str, list[Array]] = {}
    for seed in range(seeds):
        seen = noisy(moved, seed)
        made = problem(robot, seen, CORNER, WEAK)
        beta = made.base.matrix @ truth
        there = np.abs(beta) > 1e-9

        def add(what: str, values: Array, beta: Array = beta, there: Array = there) -> None:
            errors.setdefault(what, []).append((values[there] / beta[there]) - 1.0)

        white = least_squares(whitened(made))
        add("windows", white.values)
        inside.setdefault("whitened", []).append(np.abs(white.values - beta) < LIMIT * white.std)
        usual = LeastSquares().fit(made).parameters
        inside.setdefault("usual", []).append(np.abs(usual.values - beta) < LIMIT * usual.std)
        rows = textbook.chosen(textbook.differentiated(robot, seen), made.base.kept)
        add("central differences", least_squares(rows).values)
        for corner in CORNERS:
            smooth = LeastSquares().fit(problem(robot, seen, corner, None))
            add(f"low-pass of {corner:g} Hz", smooth.parameters.values)
    rms = {k: float(np.sqrt(np.mean(np.square(v)))) for k, v in errors.items()}
    label = f"{name}, {SECONDS:g} s, encoder 0.1 mrad, torque 1 %"
    yield Row(f"{label}: windows of 0.5 s, rms relative error", 100.0 * rms["windows"], "%")
    ratio = rms["central differences"] / rms["windows"]
    yield at_least(f"{label}: central differences, error over windows'", ratio, "", 5.0)
    best = min((k for k in rms if k.startswith("low-pass")), key=lambda k: rms[k])
    ratio = rms[best] / rms["windows"]
    yield at_least(f"{label}: differentiated behind the best low-pass", ratio, "", 5.0, best)
    share = float(np.mean(inside["whitened"]))
    spread = float(np.std([np.mean(i) for i in inside["whitened"]]) / np.sqrt(seeds))
    holds = 0.93 - 2 * spread <= share <= 0.97 + 2 * spread
    note = f"± {spread:.3f}, {seeds} seeds; 0.93 to 0.97"
    yield Row(f"{label}: intervals of 95 % from whitened windows", share, "", 0.95, holds, note)
    yield Row(f"{label}: intervals of 95 % as heft fits", float(np.mean(inside["usual"])), "")


@benchmark({"seeds": 1, "SECONDS": 2.5, "FALLING": 1.0, "FOLLOWED": 1.0})
def main(*, seeds: int = 100) -> Iterator[Row]:
    """Yield the rows.

    Args:
        seeds: Of noisy logs.
    """
    yield from falls()
    for name, lesson in LESSONS.items():
        yield from recovered(name, lesson)
        yield from noise(name, lesson, seeds)


if __name__ == "__main__":
    main()
