"""`heft select`: of recordings of ordinary work, the stretches that tell most about a robot.

Segments of motion instead of a motion that is designed, judged by link and joint [Venture2009].
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from heft.applications.inputs import Inputs
from heft.arrays import Array
from heft.display import table
from heft.engine import one_blas_thread
from heft.errors import InvalidRecording, InvalidSetting
from heft.estimators import LeastSquares, VarianceComponents
from heft.files import require_writable, write_text
from heft.fit import Kept, Selection, with_told_friction
from heft.information import Directions, SegmentSelection, Selected, triangle_of
from heft.models import Robot
from heft.plants import Problem, RobotPlant, Segments, plant_of
from heft.recordings import Recording

KEEP = re.compile(r"\s*(\d*\.?\d+)\s*(s|min|h|%)?\s*")
BLOCK = 256  # segments whose triangles are stacked at a time


@dataclass(frozen=True)
class Select:
    """Settings of a selection."""

    # what of friction is to be told: `simple` is viscous and Coulomb's with an offset; `full` is as
    # the robot has it, the dictionary's columns among them, whose many directions need rows at all
    # speeds
    friction: Literal["simple", "full"] = "simple"
    selection: SegmentSelection = SegmentSelection()  # how segments are chosen
    # standard deviation per that of as long a general motion, from which a parameter counts as
    # hardly excited
    hardly: float = 10.0
    never: float = 1000.0  # likewise, as never excited

    def run(
        self,
        robot: Robot,
        recordings: Sequence[Recording],
        keep: Callable[[float], float],
        segment: float | None = None,
        progress: Callable[[str], None] = lambda line: None,
    ) -> SelectedStretches:
        """Return the stretches of recordings that tell most about a robot's base parameters.

        Rows are weighted by each joint's noise, as a first fit leaves it.

        Args:
            keep: Map from the whole time of the logs to the time that is kept [s].
            segment: Length of a segment [s]; if None a tenth, or longer to fit memory.

        Raises:
            InvalidRecording: If no log is given, or one cannot be used.
            InvalidSetting: If more is to be kept than there is, or less than a segment.
            TooLittleData: If the logs do not suffice for a first fit.
        """
        if not recordings:
            raise InvalidRecording("no log is given", cure="name at least one log after the model")
        robot = with_simple_friction(robot) if self.friction == "simple" else robot
        robot = with_told_friction(robot)
        problem: Problem[RobotPlant] = Problem(plant_of(robot, recordings[0]), tuple(recordings))
        progress(f"reading {len(recordings)} logs, fitting once for the joints' noise")
        weights, problem = _weights(problem)
        size = len(problem.labels)
        total = sum(t.used * t.step for t in problem.timelines)
        most = 1.2e9 / (8.0 * 3 * size**2)  # bytes, three copies at once
        length = segment or max(0.1, total / most)
        if total / length > most:
            raise InvalidSetting(
                "there would be too many segments for the memory",
                argument="--segment",
                got=f"{total / length:.0f} of {length:g} s",
                expected=f"at most {most:.0f}, of {total / most:.2g} s",
            )
        progress(f"cutting {total:.4g} s into segments of {length:.3g} s")
        segments = Segments.of(problem, weights, length)
        count = _count(keep(length * len(segments.factors)), length, len(segments.factors))
        chosen = self.selection.choose(segments.factors, count, watch=progress)
        rng = np.random.default_rng(0)
        draws = [rng.permutation(len(segments.factors))[:count] for _ in range(20)]
        random = float(np.median(self.selection.values(segments.factors, draws)))
        progress("looking what was excited")
        excited = self._excitation(problem, weights, segments, chosen.chosen)
        return SelectedStretches(
            self, problem, segments, length, chosen, random, excited, _ranges(problem)
        )

    def _excitation(
        self,
        problem: Problem[RobotPlant],
        weights: Mapping[str, float],
        segments: Segments,
        chosen: NDArray[np.intp],
    ) -> Excitation:
        kept = problem.base.kept
        general_count = 4000  # samples of motion in general position, to compare with
        samples = problem.plant.random_samples(general_count, np.random.default_rng(0))
        weight = np.array([weights[c] for c in problem.channels])
        general = problem.walk.equations_of(samples, kept).regressor * weight[:, None]
        reference = Directions.of(triangle_of(general.reshape(-1, len(kept))), len(kept)).deviations
        rows = float(segments.counts.sum())
        scale = np.sqrt(general_count / rows)
        every = Directions.of(stacked(segments.factors), len(kept)).deviations
        part = Directions.of(stacked(segments.factors[chosen]), len(kept)).deviations
        return Excitation(problem.labels.names, every / (scale * reference), part / every)


@dataclass(frozen=True, eq=False)
class Excitation:
    """How well recordings excite each of b base parameters."""

    names: tuple[str, ...]  # of the parameters
    # standard deviation over that by as long a motion in general position, shape (b,); infinite
    # where nothing is told
    ratio: Array
    growth: Array  # standard deviation by what is kept, over that by all, shape (b,)

    def of(self, owner: str) -> NDArray[np.intp]:
        """Return positions of the parameters of a link or drive."""
        mine = [k for k, n in enumerate(self.names) if n.startswith(f"{owner}.")]
        return np.array(mine, dtype=np.intp)


@dataclass(frozen=True, eq=False)
class SelectedStretches:
    """Stretches of recordings that tell most, and what of the robot they and all others excite."""

    settings: Select  # of the selection
    problem: Problem[RobotPlant]  # robot and recordings
    segments: Segments  # all segments
    length: float  # of a segment [s]
    chosen: Selected  # which are kept, and how good any choice of as many could be
    random: float  # what a random choice of as many is worth, the median [nats], as `chosen.value`
    excitation: Excitation  # of the base parameters
    ranges: Array  # least and largest position and largest speed of each joint, shape (3, joints)

    @property
    def selection(self) -> Selection:
        """The selection as a file holds it."""
        logs: dict[str, Kept] = {}
        for k, recording in enumerate(self.problem.recordings):
            mine = self.chosen.chosen[self.segments.recording[self.chosen.chosen] == k]
            rows, times = self.segments.rows[mine], self.segments.times[mine]
            separate = rows[1:, 0] > rows[:-1, 1]
            first = np.concatenate([[True], separate])[: len(mine)]
            last = np.concatenate([separate, [True]])[-len(mine) :] if len(mine) else first
            logs[recording.sha256] = Kept(
                str(recording.files[0].path),
                np.stack([rows[first, 0], rows[last, 1]], 1),
                np.stack([times[first, 0], times[last, 1]], 1),
            )
        about = {
            "segment_s": self.length,
            "kept_s": self.length * len(self.chosen.chosen),
            "whole_s": self.length * len(self.segments.factors),
            "information_per_parameter": self.chosen.share,
            "nats_below_the_best_at_most": self.chosen.gap,
        }
        return Selection(logs, about)

    def text(self) -> str:
        """Return the report for a terminal."""
        chosen, count = self.chosen, len(self.segments.factors)
        random = float(np.exp(self.random / chosen.rank))
        lines = [
            f"{self.length * len(chosen.chosen):.4g} s of {self.length * count:.4g} s are kept, "
            f"{len(chosen.chosen)} segments of {self.length:.3g} s: {chosen.share:.1%} of the "
            f"information per parameter ({random:.1%} at random).",
            f"The best choice of as many is at most {chosen.gap:.2f} nats better "
            f"({np.exp(chosen.bound / chosen.rank):.1%}).",
            "",
            *self._links(),
            "",
            *self._joints(),
            "",
            "Hardly excited: a standard deviation is above "
            f"{self.settings.hardly:g} times that by as long a motion in general",
            f"position; never: above {self.settings.never:g} times. ± grows by what is left out.",
        ]
        return "\n".join(lines + self._named())

    def _links(self) -> list[str]:
        rows = []
        for body in self.problem.plant.robot.tree.names:
            mine = self.excitation.of(body)
            if len(mine):
                rows.append([body, *self._counted(mine)])
        return table(("link", *COUNTED), rows).split("\n")

    def _joints(self) -> list[str]:
        robot = self.problem.plant.robot
        drives = {d.name for d in robot.drives}
        rows = []
        for k, joint in enumerate(robot.joints):
            low, high, speed = self.ranges[:, k]
            mine = self.excitation.of(joint) if joint in drives else np.zeros(0, dtype=np.intp)
            rows.append([joint, f"{low:.2f} to {high:.2f}", f"{speed:.2f}", *self._counted(mine)])
        head = ("joint", "moved [rad or m]", "fastest [1/s]", *COUNTED)
        return table(head, rows).split("\n")

    def _counted(self, mine: NDArray[np.intp]) -> list[str]:
        if not len(mine):
            return ["–"] * len(COUNTED)
        growth = self.excitation.growth[mine]
        hardly, never = (mask[mine] for mask in self._unexcited)
        finite = growth[np.isfinite(growth)]
        mean = f"×{np.exp(np.mean(np.log(finite))):.2f}" if len(finite) else "–"
        counts = (len(mine) - int(never.sum()) - int(hardly.sum()), hardly.sum(), never.sum())
        return [*(str(int(k)) for k in counts), mean]

    @property
    def _unexcited(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which parameters were hardly excited, and which never, shape (b,) each."""
        never = ~(self.excitation.ratio < self.settings.never)
        return (self.excitation.ratio >= self.settings.hardly) & ~never, never

    def _named(self) -> list[str]:
        hardly, never = self._unexcited
        lines = []
        for word, chosen in (("never excited", never), ("hardly excited", hardly)):
            names = [n for n, c in zip(self.excitation.names, chosen, strict=True) if c]
            if names:
                lines.append(f"{word}: {', '.join(names)}")
        return lines


COUNTED = ("excited", "hardly", "never", "± grows")


def select_files(
    inputs: Inputs,
    logs: Sequence[Path],
    keep: str,
    out: Path,
    segment: float | None = None,
    settings: Select = Select(),
    progress: Callable[[str], None] = lambda line: None,
) -> SelectedStretches:
    """Select stretches of logs and write which they are, for `heft identify --only`.

    Args:
        keep: How much is kept: a time (`60s`, `2min`) or a share (`10%`).
        segment: Length of a segment [s]; if None that of the settings, or longer to fit memory.

    Raises:
        InputError: If a file or setting is invalid.
        TooLittleData: If the logs do not suffice for a first fit.
    """
    kept = parsed(keep)
    require_writable(out)
    if out.suffix.lower() != ".json":
        raise InvalidSetting(
            "a selection is a JSON file", argument=f"--out {out}", valid=(".json",)
        )
    if segment is not None and not 1e-3 <= segment <= 3600.0:
        raise InvalidSetting(
            "a segment is from a millisecond to an hour long", argument="--segment", got=segment
        )
    inputs = inputs.with_logs(fit=logs)
    recordings = inputs.logs["fit"]
    digests = [r.sha256 for r in recordings]
    twice = [r.name for r in recordings if digests.count(r.sha256) > 1]
    if twice:
        raise InvalidSetting("a log is given twice", argument="LOGS", got=", ".join(twice))
    assert inputs.robot is not None
    with one_blas_thread():
        stretches = settings.run(inputs.robot, recordings, kept, segment, progress)
    inputs.refuse_changed()
    write_text(out, stretches.selection.to_json())
    return stretches


def parsed(keep: str) -> Callable[[float], float]:
    """Return the map from whole to kept time [s] that `60s`, `2min` or `10%` states.

    Raises:
        InvalidSetting: If it says neither a time nor a share.
    """
    parts = KEEP.fullmatch(keep)
    number = float(parts[1]) if parts else 0.0
    share = parts is not None and parts[2] == "%"
    if parts is None or not number > 0.0 or (share and number > 100.0):
        raise InvalidSetting(
            "how much is kept is a time or a share",
            argument="--keep",
            got=keep,
            expected="such as 60s, 2min or 10%",
        )
    if share:
        return lambda total: total * number / 100.0
    seconds = number * {"s": 1.0, "min": 60.0, "h": 3600.0}[parts[2] or "s"]
    return lambda total: seconds


def _count(seconds: float, length: float, segments: int) -> int:
    count = int(seconds / length + 1e-6)
    if not 1 <= count < segments:
        raise InvalidSetting(
            "nothing is to be selected" if count else "less than a segment is to be kept",
            argument="--keep",
            got=f"{seconds:.4g} s",
            expected=f"{length:.3g} s to less than {segments * length:.4g} s, all there is",
        )
    return count


def with_simple_friction(robot: Robot) -> Robot:
    """Return the robot with viscous and Coulomb friction in place of friction's dictionary."""
    joints = {j: robot.options.of(j) for j in robot.joints}
    full = {
        j: replace(k, friction="simple") for j, k in joints.items() if k.friction in (None, "full")
    }
    return robot.with_joints(full) if full else robot


def stacked(factors: Array) -> Array:
    """Return the triangular factor of stacked triangular factors, shape (b, b).

    Args:
        factors: Shape (N, b, b).
    """
    size = factors.shape[2]
    total = np.zeros((0, size))
    for first in range(0, len(factors), BLOCK):
        total = triangle_of(np.vstack([total, factors[first : first + BLOCK].reshape(-1, size)]))
    return total


def _weights(problem: Problem[RobotPlant]) -> tuple[dict[str, float], Problem[RobotPlant]]:
    """Return the weight of each channel's rows, 1/σ, and the problem whose rows these are.

    Contacts' wrenches are eliminated by the channels' noise, which is found first, of
    averaged rows; segments are then of all rows.
    """
    if not problem.has_unknowns:
        first = LeastSquares().solve(problem.information(), problem.noise_names)
        return first.weights(), problem
    settled = VarianceComponents().settled(problem.thinned())
    noise = settled.known_noise
    return {c: 1.0 / s for c, s in noise.items()}, problem.with_noise(list(noise.values()))


def _ranges(problem: Problem[RobotPlant]) -> Array:
    """Return least and largest position and largest speed of each joint, shape (3, joints)."""
    robot = problem.plant.robot
    first = len(robot.channels) - len(robot.joints)
    low, high = np.full((2, len(robot.joints)), np.nan)
    speed = np.zeros(len(robot.joints))
    for s in problem.samples():
        position, velocity = s.motion.position[first:], s.motion.velocity[first:]
        low, high = np.fmin(low, position.min(axis=1)), np.fmax(high, position.max(axis=1))
        speed = np.fmax(speed, np.abs(velocity).max(axis=1))
    return np.stack([low, high, speed])
