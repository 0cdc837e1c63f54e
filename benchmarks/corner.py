"""What the chosen cutoff of the motion's low-pass costs, against the best that could be set.

    HEFT_DATA=… python -m benchmarks.corner [--parts light short measured] [--store]

light     An arm without gears that swings almost freely, encoders of 3.8e-4 rad at 500 Hz.
short     17 s at about 30 Hz, simulated and measured: full friction against simple friction
          and against plain least squares, each at the cutoff that is chosen.
measured  Measured robots (`benchmarks.sweeps.corners`).

Simulated arms are scored on another motion, as it really was, so that only what was learnt differs.
Only a run of all three is stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from benchmarks import sweeps
from benchmarks.arms import ROBOTS, Case, data_folder, shortened, with_friction
from benchmarks.few_joints import wrist
from benchmarks.program import benchmark
from benchmarks.real_data import plain
from benchmarks.results_file import Row, at_most
from benchmarks.scoring import Left, Piece, error, pieces
from benchmarks.truth import CONDITIONS, FIRST_SCORED, LIGHT, SCORED, experiment
from heft.applications.identification.identification import Identification, identify
from heft.arrays import Array
from heft.fit.settings import Settings
from heft.models.robot import Robot
from heft.recordings.recording import Recording
from heft.signals.settings import Smoothing
from heft.simulation import SimulatedExperiment

Friction = Literal["full", "simple"]
LIGHT_SECONDS = CONDITIONS["light direct drive"].duration
LIGHT_SEEDS, SHORT_SEEDS = 4, 2  # of each simulated arm
OCTAVES = np.arange(-2.0, 2.25, 0.5)  # of the chosen cutoff
LIGHT_WORSE, SHORT_WORSE = 1.10, 1.02  # than the best, at most
SHORT, SLOW = 17.0, 31.25  # [s], [Hz]; a divisor of the simulator's rate
SHORT_ARMS = ("xarm7", "z1", "kinova")
EXPERIMENT = experiment  # of an arm's name, a condition and a seed
SHORT_ROBOTS = ("panda", "lwr4", "ur10e")
MEASURED = tuple(ROBOTS)
FACTORS = sweeps.FACTORS
ROWS = None  # of measured logs that are taken; all if None
FRICTION: str | None = None  # its kind where cutoffs are swept; the robots' own if None
LOW_PASS = 10.0  # [Hz], of what is scored


@dataclass(frozen=True)
class Trial:
    """A fit and the motion on which it is scored.

    Attributes:
        case: Robot and log of the fit.
        scored: Motion that is scored; read from `case.score` if not given.
    """

    case: Case
    scored: tuple[Piece, ...] = ()

    @staticmethod
    def of(name: str, simulated: SimulatedExperiment) -> Trial:
        """Return the trial of a simulated experiment."""
        robot = Robot.from_urdf_text(simulated.prior)
        log = (simulated.recording,)
        other = simulated.other()
        every = np.ones(len(other.time), dtype=bool)
        step = float(other.time[1] - other.time[0])
        piece = Piece(other.time, other.q, other.v, other.a, other.tau, every, step, every)
        return Trial(Case(name, robot, simulated.prior, log, (), LOW_PASS, 0.0), (piece,))

    def identified(self, corner: float | None = None, delay: float | None = None) -> Identification:
        """Return the fit at a cutoff [Hz] and delay [s]; those that are chosen if not given."""
        settings = Settings(Smoothing(corner=corner, delay=delay))
        return identify(self.case.robot, self.case.fit, settings=settings)

    def error(self, found: Identification, friction: Friction = "full") -> float:
        """Return the relative error of the torque."""
        whole = self.scored or tuple(pieces(found.problem, self.case.score))
        left = Left.by(found)
        predicted = [left.torque(p, friction)[p.inside] for p in whole]
        return error([p.cut() for p in whole], predicted, self.case.corner).total

    def plain(self, found: Identification) -> float:
        """Return the error of plain least squares with simple friction, at the same cutoff."""
        whole = self.scored or tuple(pieces(found.problem, self.case.score))
        cut = [p.cut() for p in whole]
        return error(cut, plain(self.case, found.problem, cut), self.case.corner).total


def light() -> Iterator[Row]:
    """Yield the errors of light arms over cutoffs."""
    for name in (n for n in LIGHT if n in SCORED):
        for seed in range(FIRST_SCORED, FIRST_SCORED + LIGHT_SEEDS):
            simulated = experiment(name, "light direct drive", seed, duration=LIGHT_SECONDS)
            trial = Trial.of(f"light arm, {name} {seed}", simulated)
            found = trial.identified()
            chosen = found.problem.corner
            errors = {0.0: trial.error(found)}
            highest = found.problem.highest_corner
            for k in OCTAVES[(OCTAVES != 0.0) & (chosen * 2.0**OCTAVES <= highest)].tolist():
                other = trial.identified(chosen * 2.0**k, found.problem.delay)
                errors[k] = trial.error(other)
            best = min(errors, key=lambda k: errors[k])
            worse = errors[0.0] / errors[best]
            yield Row(f"{trial.case.name}: cutoff chosen", chosen, "Hz")
            yield Row(f"{trial.case.name}: torque error there", errors[0.0], "")
            against = f"{errors[best]:.4f} at {chosen * 2.0**best:.3g} Hz"
            what = f"{trial.case.name}: error against the best swept"
            yield at_most(what, worse, "times", LIGHT_WORSE, against)


def thinned(log: Recording) -> Recording:
    """Return the first seconds of a log as a slow logger would have written them."""
    blocks = list(log.blocks(log.signals))
    time = np.concatenate([b.time for b in blocks])
    values = np.concatenate([b.values for b in blocks])
    wanted = np.arange(time[0], min(time[0] + SHORT, time[-1]), 1.0 / SLOW)
    rows = np.unique(np.searchsorted(time, wanted))
    signals: dict[str, dict[str, Array]] = {}
    for name, column in zip(log.signals, values.T, strict=True):
        kind, _, joint = name.partition(".")
        signals.setdefault(kind, {})[joint] = column[rows]
    return Recording.from_arrays(time[rows], log.name, **signals)


def slow_cases() -> Iterator[Trial]:
    """Yield short logs of few rows."""
    for name in SHORT_ARMS:
        for seed in range(FIRST_SCORED, FIRST_SCORED + SHORT_SEEDS):
            sensors = replace(CONDITIONS["lugre"].sensors, rate=SLOW)
            simulated = EXPERIMENT(name, "lugre", seed, sensors=sensors, duration=SHORT)
            yield Trial.of(f"{SHORT:g} s at {SLOW:g} Hz, {name} {seed}", simulated)
    folder = data_folder()
    for name in SHORT_ROBOTS:
        for case in (shortened(c, ROWS) for c in ROBOTS[name](folder)):
            name = f"{SHORT:g} s at {SLOW:g} Hz, {case.name}"
            yield Trial(replace(case, name=name, fit=(thinned(case.fit[0]),)))


def short() -> Iterator[Row]:
    """Yield the errors of full friction against simpler models on short logs."""
    for trial in slow_cases():
        found = trial.identified()
        full, simple = trial.error(found), trial.error(found, "simple")
        squares = trial.plain(found)
        name = trial.case.name
        yield Row(f"{name}: cutoff chosen", found.problem.corner, "Hz")
        yield Row(f"{name}: torque error with full friction", full, "")
        against = f"simple {simple:.4f}, plain least squares {squares:.4f}"
        what = f"{name}: error of full friction against simple and plain"
        yield at_most(what, full / min(simple, squares), "times", SHORT_WORSE, against)


def measured() -> Iterator[Row]:
    """Yield the errors of measured robots over cutoffs."""
    folder = data_folder()
    for name in MEASURED:
        for case in (shortened(c, ROWS) for c in ROBOTS[name](folder)):
            if FRICTION is not None:
                case = replace(case, robot=with_friction(case.robot, FRICTION))
            yield from sweeps.corners(case, identify(case.robot, case.fit), FACTORS)


PARTS = {"light": light, "short": short, "measured": measured}


@benchmark(
    {
        **{"LIGHT": ("finger",), "LIGHT_SEEDS": 1, "LIGHT_SECONDS": 4.0, "SHORT": 6.0},
        **{"OCTAVES": np.array([-1.0, 0.0]), "SHORT_SEEDS": 1, "SHORT_ARMS": ("z1",)},
        **{"SHORT_ROBOTS": ("panda",), "MEASURED": ("panda",), "ROWS": 600, "FACTORS": (1.0,)},
        **{"FRICTION": "simple", "ROBOTS": {"panda": wrist}},
        "EXPERIMENT": lambda name, *said, **more: experiment("finger", *said, **more),
    },
    unstored=("parts",),
)
def main(*, parts: tuple[str, ...] = tuple(PARTS)) -> Iterator[Row]:
    """Yield the rows.

    Args:
        parts: Some of light, short and measured.
    """
    for name in parts:
        yield from PARTS[name]()


if __name__ == "__main__":
    main()
