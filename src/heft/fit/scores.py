"""Relative errors of predicted against measured torque, and the curves for the report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from heft import signals
from heft.arrays import Array
from heft.display import Stretch, Trace, Tracer, moments
from heft.dynamics import DriveState, drive_columns
from heft.engine import in_order
from heft.models import Robot, own_effort
from heft.plants import Plant, Problem, RobotMotion, RobotPlant, Samples
from heft.recordings import Recording

from .conditions import since_reversal
from .misfit import MisfitGatherer, TorqueDeviation, noise_in_band

PIECE_ROWS = 1_000_000


@dataclass(frozen=True)
class Score:
    """Relative prediction error of effort on one log."""

    path: str  # log
    # what predicts: `full` or `simple` friction of the fit, `written` the model file as it came,
    # `drives` its bodies with drives that are fitted to them
    friction: str
    # cutoff frequency of the low-pass on both signals [Hz]; None for raw signals
    filter_hz: float | None
    total: float  # ‖τ − τ̂‖ / ‖τ‖ over all channels [1]
    mean: float  # mean of the channels' relative errors [1]
    per_joint: dict[str, float]  # relative error of each channel, by name [1]

    @property
    def counts(self) -> bool:
        """Whether checks look at it: it is low-pass filtered, with full friction."""
        return self.filter_hz is not None and self.friction == "full"


@dataclass(frozen=True)
class Scores:
    """Relative prediction errors over all recordings of a problem."""

    list: tuple[Score, ...]  # errors of each recording, raw and filtered, with each friction model
    # ‖τ − τ̂‖ / ‖τ − mean τ‖ with the first friction model, filtered [1]; a constant torque
    # explains nothing by this measure
    unexplained: float
    # range (largest less smallest) of each channel's filtered effort, shape (channels,) [N·m or N]
    span: Array


@dataclass(frozen=True)
class PredictedError:
    """Predicted relative error of torque on other motion, ‖error‖ / ‖τ‖."""

    total: float  # over all channels [1]
    # of each measured channel, by name [1]; infinite where the torque is zero
    per_joint: Mapping[str, float]
    # relative difference of torque between full and simple friction over all channels [1]; None
    # where only one is fitted
    simple: float | None = None

    @staticmethod
    def of(
        variance: Array,
        energy: Array,
        channels: Sequence[str],
        fit: Sequence[Score],
        simple: float | None = None,
    ) -> PredictedError:
        """Return the error, at least that of the fit.

        Args:
            variance: Sum of squared deviations of each channel, shape (channels,).
            energy: Sum of squared torques, likewise.
            simple: As of the attribute.
        """
        if fit:  # whose channels are those that measure something
            kept = [k for k, c in enumerate(channels) if c in fit[0].per_joint]
            channels = [channels[k] for k in kept]
            variance, energy = variance[kept], energy[kept]
        own = np.sqrt(variance / np.maximum(energy, 1e-300))
        least = {c: max((s.per_joint[c] for s in fit), default=0.0) for c in channels}
        total = float(np.sqrt(variance.sum() / max(float(energy.sum()), 1e-300)))
        return PredictedError(
            max(total, max((s.total for s in fit), default=0.0)),
            {c: max(float(e), least[c]) for c, e in zip(channels, own, strict=True)},
            simple,
        )


@dataclass(frozen=True)
class TorqueErrors:
    """What the model file missed of a log's torque, and what is missed now, filtered."""

    written: Score  # by the model file as it came
    drives: Score  # by its bodies, with friction, rotors and offsets fitted to them
    identified: Score  # by the identified bodies and full friction
    held_out: bool  # whether the fit did not see the log

    @staticmethod
    def of(scores: Sequence[Score], held_out: bool) -> TorqueErrors | None:
        """Return the errors on the log of which most is missed now; None if none was filtered."""
        shown = {(s.path, s.friction): s for s in scores if s.filter_hz is not None}
        now = max((s for s in shown.values() if s.counts), key=lambda s: s.total, default=None)
        if now is None:
            return None
        written, drives = (shown[now.path, name] for name in BASELINES)
        return TorqueErrors(written, drives, now, held_out)


class Model(NamedTuple):
    """What predicts effort."""

    bodies: Array  # ten inertial parameters of each body, shape (10 bodies,)
    drives: Mapping[str, float]  # the drives' parameters by name, and those of own columns


P = TypeVar("P", bound="Plant[Any]")
Models = Mapping[str, Model]  # by what `Score.friction` calls them
BASELINES = ("written", "drives")  # what predicts without the fit's bodies


def model_effort(model: str, robot: Robot, values: Mapping[str, float], state: DriveState) -> Array:
    """Return the effort beside the rigid body's, shape (channels, N) [N·m or N].

    Of drives with a friction model, and of the user's own columns.

    Args:
        model: As of `Score.friction`, or `none`.
        values: The drives' parameters by name, with this model, and those of own columns.
    """
    if model == "written":
        damping, dry, rotor = robot.written_drives[:, :, None]
        slides = damping * state.velocity + dry * np.sign(state.velocity)
        return np.asarray(slides + rotor * state.acceleration)
    predicted = drive_columns.simple_effort if model == "simple" else drive_columns.effort
    return predicted(robot.drives, values, state) + own_effort(robot.own_columns, values, state)


def stretches(
    problem: Problem[RobotPlant], models: Models, doubt: TorqueDeviation | None = None
) -> Iterator[Stretch]:
    """Yield measured and predicted effort in stretches without gaps.

    Args:
        models: What predicts, by name; see `Score.friction`. Effort without friction is that of the
            first.
        doubt: Of the first model, whose variance is told at the log's `moments`; None for none.

    Yields:
        Stretches of rows without gaps, of about `PIECE_ROWS` rows at most.
    """
    robot, plant = problem.plant.robot, problem.plant
    kept = {*robot.drives.names_where(lambda t: t.inertial), *robot.own_names}
    first = next(iter(models.values()))
    rotors = {k: v for k, v in first.drives.items() if k in kept}
    every = {**models, "none": Model(first.bodies, rotors)}

    def part(s: Samples[RobotMotion]) -> Stretch:
        rigids = {id(m.bodies): m.bodies for m in models.values()}
        rigids = {k: plant.rigid(s.motion, bodies) for k, bodies in rigids.items()}

        def state_of(model: Model) -> DriveState:
            own = {k: v for k, v in model.drives.items() if k in kept}
            return plant.drive_state(s, plant.gear_load(s, rigids[id(model.bodies)]), own)

        def predicted(name: str, model: Model) -> Array:
            rigid, state = rigids[id(model.bodies)], state_of(model)
            standard = np.zeros(len(robot.labels))
            standard[: len(model.bodies)] = model.bodies
            if robot.bias_names:
                biases = [model.drives.get(n, 0.0) for n in robot.bias_names]
                standard[-len(biases) :] = biases
            effort = rigid + model_effort(name, robot, model.drives, state)
            plain = plant.as_measured(effort) + plant.sensed(s.motion, standard)
            return problem.completed(s, plain)

        efforts = [predicted(name, model) for name, model in every.items()]
        some = moments(s.index, problem.timelines[s.recording].used)
        variance = np.zeros((len(some), 0))
        if doubt is not None:
            variance = doubt.of_parameters(plant, s.part(some), state_of(first).rigid[:, some]).T
        motion = s.time, s.motion.position.T, s.motion.velocity.T, np.zeros((len(s.time), 0))
        predictions = np.stack(efforts[:-1]), efforts[-1]
        return Stretch(*motion, variance, s.recording, s.index, s.measured, *predictions)

    ratios = robot.drives.ratios
    for piece in _unbroken(problem, in_order(part, problem.samples(), problem.threads)):
        distance, _ = since_reversal(piece.position @ ratios, piece.velocity @ ratios)
        yield replace(piece, distance=distance)


def _unbroken(problem: Problem[P], parts: Iterable[Stretch]) -> Iterator[Stretch]:
    """Yield consecutive stretches joined, of about `PIECE_ROWS` rows at most."""
    pending: list[Stretch] = []
    current, last = -1, -np.inf
    for part in parts:
        gap = signals.GAP_STEPS * problem.timelines[part.recording].step
        broken = part.recording != current or not signals.follows(float(part.time[0]), last, gap)
        if pending and (broken or sum(len(p.time) for p in pending) > PIECE_ROWS):
            yield _emptied(pending)
        current, last = part.recording, float(part.time[-1])
        pending.append(part)
    if pending:
        yield _emptied(pending)


def _emptied(parts: list[Stretch]) -> Stretch:
    """Return parts as one, without which nothing is left in the list: they take as much memory."""
    arrays: dict[str, Any] = {
        f.name: np.concatenate([getattr(p, f.name) for p in parts], int(f.name == "predicted"))
        for f in fields(Stretch)
        if f.name != "recording"
    }
    joined = replace(parts[0], **arrays)
    parts.clear()
    return joined


def filtered(time: Array, values: Array, step: float, corner: float) -> Array:
    """Return signals low-passed as the scores are, zero-phase, at their own times, (N, channels).

    Args:
        time: Times, shape (N,) [s].
        values: Signals, shape (N, channels).
        step: Step of the uniform grid on which the filter runs [s].
        corner: Cutoff frequency [Hz].
    """
    grid = time[0] + step * np.arange(int((time[-1] - time[0]) / step + 1e-9) + 1)
    smooth = signals.low_pass(signals.linear(time, values, grid), step, corner)
    return signals.linear(grid, smooth, time)


def scores(
    problem: Problem[RobotPlant],
    models: Models,
    corner: float,
    traces: list[Trace] | None = None,
    gatherer: MisfitGatherer | None = None,
    doubt: TorqueDeviation | None = None,
) -> Scores:
    """Return the relative torque errors of a robot by each model; see `scored`.

    Args:
        models: What predicts, by name, the most accurate first.
        doubt: Of the first model, for its curves.
    """
    robot = problem.plant.robot
    places = {robot.channels[c]: (k, int(c)) for k, c in enumerate(robot.measured)}
    own = [(d.name, *places[d.name]) for d in robot.drives if d.name in places]
    return scored(
        problem,
        tuple(models),
        lambda p: stretches(p, models, doubt),
        corner,
        traces,
        own,
        gatherer,
    )


def held_out_scores(
    problem: Problem[P],
    recordings: Sequence[Recording],
    corner: float,
    score: Callable[[Problem[P], float], Scores],
) -> tuple[tuple[Score, ...], tuple[str, ...]]:
    """Return the scores of held-out logs, and what users are told of all logs.

    A log that is sampled too slowly for the fit's cutoff is scored at its own.

    Args:
        corner: Cutoff frequency of the scores of the fit [Hz].
        score: Scores of a problem at a cutoff frequency [Hz].
    """
    every: list[Score] = []
    notes = []
    for recording in recordings:
        other = problem.held_out(recording)
        filter_hz = min(corner, other.highest_corner)
        if filter_hz < corner or other.corner < problem.corner:
            notes.append(
                f"{Path(recording.name).name} is sampled at {other.timelines[0].rate:.3g} Hz, too "
                f"slowly for the low-pass of the other logs: its motion is smoothed at "
                f"{other.corner:.3g} Hz (for {problem.corner:.3g} Hz), its errors are filtered at "
                f"{filter_hz:.3g} Hz (for {corner:.3g} Hz)"
            )
        every += score(other, filter_hz).list
    notes += [f"{Path(r.name).name}: {note}" for r in recordings for note in r.remarks]
    return tuple(every), tuple(notes)


def remarks(problem: Problem[P]) -> Iterator[str]:
    """Yield what is to be known of each log that was fitted: how it was read, and its clock."""
    for recording, line in zip(problem.recordings, problem.timelines, strict=True):
        name = Path(recording.name).name
        yield from (f"{name}: {remark}" for remark in recording.remarks)
        if line.broken:
            yield f"{name}: {line.broken} of {line.rows} rows hold a number that is none: left out"
        if line.restarts:
            yield (
                f"{name}: time goes back {line.restarts} times, far: taken for "
                f"{line.restarts + 1} runs, one after another"
            )


def plant_scores(
    problem: Problem[P], values: Array, corner: float, traces: list[Trace] | None = None
) -> Scores:
    """Return the relative prediction errors of a plant's channels; see `scored`.

    Args:
        values: Standard parameters π, shape (p,).
    """

    def part(s: Samples[Any], guess: Array) -> Stretch:
        none = np.zeros((len(s.time), 0))
        some = none[moments(s.index, problem.timelines[s.recording].used)]
        efforts = (s.measured, guess[None], guess)
        return Stretch(s.time, none, none, none, some, s.recording, s.index, *efforts)

    def predicted(every: Problem[P]) -> Iterator[Stretch]:
        return _unbroken(every, (part(s, guess) for s, guess in every.predictions(values)))

    return scored(problem, ("full",), predicted, corner, traces)


def scored(
    problem: Problem[P],
    models: Sequence[str],
    predicted: Callable[[Problem[P]], Iterable[Stretch]],
    corner: float,
    traces: list[Trace] | None = None,
    own: Sequence[tuple[str, int, int]] = (),
    gatherer: MisfitGatherer | None = None,
) -> Scores:
    """Return the relative error of each recording and model, raw and low-pass filtered.

    Raw errors compare measured and predicted torque row by row. For filtered errors both pass
    through the same zero-phase fourth-order Butterworth low-pass. The problem's smoothing trims
    half a second at each end.

    Args:
        problem: Problem whose recordings are predicted; unselected rows pass the filter, but do
            not count.
        predicted: Function that yields stretches of measured and predicted values of each model.
        corner: Cutoff frequency of the low-pass [Hz].
        traces: List to which curves of the first model are appended; None for none.
        own: For each joint with friction of its own: name, measured channel, channel.
    """
    sensed = [k for k, c in enumerate(problem.plant.channels) if c.sensed]
    channels = tuple(problem.channels[k] for k in sensed)
    count = len(problem.recordings)
    error = np.zeros((count, len(models), 2, len(channels)))
    size = np.zeros((count, 2, len(channels)))
    moments = np.zeros((2, len(channels)))  # sums of filtered torque and of its square
    ends = np.array([np.inf, -np.inf])[:, None] * np.ones(len(channels))
    rows = 0
    entire = problem
    if problem.decimation > 1 or any(r.selection for r in problem.recordings):
        every = [r.selecting_all() for r in problem.recordings]
        entire = problem.with_recordings(every, decimation=1)
    before = models.index(BASELINES[0]) if BASELINES[0] in models else None
    tracers = [
        Tracer(r.name, channels, own, line.step, line.used, before)
        for r, line in zip(entire.recordings, entire.timelines, strict=True)
    ]
    for stretch in predicted(entire):
        piece = _of_channels(stretch, sensed)
        k, time, tau, estimates = piece.recording, piece.time, piece.measured, piece.predicted
        selection = problem.recordings[k].selection
        chosen = np.ones(len(time), dtype=bool) if selection is None else selection(piece.index)
        step = entire.timelines[k].step
        size[k, 0] += np.sum(tau[chosen] ** 2, axis=0)
        error[k, :, 0] += np.sum((tau - estimates)[:, chosen] ** 2, axis=1)
        if len(time) >= 32:
            # The filter is linear: what it leaves of the error is the error of what it leaves.
            smooth = filtered(time, tau, step, corner)[chosen]
            size[k, 1] += np.sum(smooth**2, axis=0)
            moments += np.stack([smooth.sum(axis=0), np.sum(smooth**2, axis=0)])
            rows += len(smooth)
            if len(smooth):
                ends[0] = np.minimum(ends[0], smooth.min(axis=0))
                ends[1] = np.maximum(ends[1], smooth.max(axis=0))
            for m, estimate in enumerate(estimates):
                residual = filtered(time, tau - estimate, step, corner)[chosen]
                error[k, m, 1] += np.sum(residual**2, axis=0)
                if gatherer is not None and m == 0:
                    noise = noise_in_band(tau - estimate, step, corner)
                    gatherer.add(piece, residual, chosen, step, noise)
        if traces is not None:
            tracers[k].add(piece)
    if traces is not None:
        traces += [t for tracer in tracers if (t := tracer.trace()) is not None]
    varying = float(np.sum(moments[1] - moments[0] ** 2 / max(rows, 1)))
    unexplained = float(error[:, 0, 1].sum())
    rest = float(np.sqrt(unexplained / varying)) if varying > 0.0 else 0.0
    listed = tuple(_relative(problem, channels, models, corner, error, size))
    span = np.zeros(len(problem.channels))
    span[sensed] = np.where(np.isfinite(ends[0]), ends[1] - ends[0], 0.0)
    return Scores(listed, rest, span)


def _of_channels(stretch: Stretch, channels: list[int]) -> Stretch:
    if len(channels) == stretch.measured.shape[1]:
        return stretch
    return replace(
        stretch,
        measured=stretch.measured[:, channels],
        predicted=stretch.predicted[:, :, channels],
        without_friction=stretch.without_friction[:, channels],
    )


def _relative(
    problem: Problem[P],
    channels: Sequence[str],
    models: Sequence[str],
    corner: float,
    error: Array,
    size: Array,
) -> Iterator[Score]:
    """Yield the relative errors of each recording and model, raw and filtered.

    Args:
        error: Σ (τ − τ̂)², shape (recordings, models, 2, channels), raw and filtered.
        size: Σ τ², shape (recordings, 2, channels).
    """
    for k, recording in enumerate(problem.recordings):
        for m, name in enumerate(models):
            for f, hz in enumerate((None, corner)):
                if not size[k, f].sum() > 0.0:
                    continue
                alone = np.sqrt(error[k, m, f] / np.where(size[k, f] > 0.0, size[k, f], np.inf))
                total = float(np.sqrt(error[k, m, f].sum() / size[k, f].sum()))
                per_joint = dict(zip(channels, alone.tolist(), strict=True))
                yield Score(recording.name, name, hz, total, float(alone.mean()), per_joint)
