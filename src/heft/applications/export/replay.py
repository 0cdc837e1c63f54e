"""A log again, by what a simulator's file says: torque of its motion, and motion of its torque.

Beside it stand heft's own model, the model file as it came, and that file's masses with friction
and rotors fitted to the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from heft.applications.identification import Identified
from heft.applications.inputs import AnyLog, Inputs
from heft.arrays import Array
from heft.display import table
from heft.dynamics import LINEAR_SCALE, PRISMATIC
from heft.errors import InvalidRecording, InvalidSetting
from heft.files import file_hash
from heft.fit import filtered, model_effort, rigid_torques, with_gains
from heft.models import Fields, JointFields, Robot
from heft.plants import ElasticRobotPlant, Problem, plant_of
from heft.recordings import Recording
from heft.signals import GAP_STEPS, between_gaps, limited
from heft.simulation import (
    STANDSTILL,
    Actuation,
    ClosedLoop,
    MujocoReplay,
    OtherEngine,
    moved_by_heft,
)

SLIDING = 0.05 / STANDSTILL  # speed from which a drive slides, of its speed of standstill
CUT = 0.5  # at each end of a stretch, whose filter swings in [s]
LENGTH, STEP, MOST = 1.0, 1e-3, 60  # stretches simulated: seconds, step [s], how many at most
WRITTEN, MASSES = "file as it came", "its masses, fitted friction"
NAMES = {"armature": "rotor inertia", "viscous": "viscous friction", "dry": "dry friction"}
NAMES |= {"offset": "offset of friction"}  # of fields that a simulator may lack
KINDS = {  # what no simulator takes of full friction, by kind of term
    "load": "friction that grows with the load",
    "stop": "presliding",
    "stribeck": "friction that falls with speed",
    "sigmoid": "friction's bend over the speed",
}


# positions of a start and what moves it; see `MujocoReplay.moved`
Move = Callable[[Array, Actuation], Array | None]


@dataclass(frozen=True, eq=False)
class _Stretch:
    """A stretch of a log to be simulated."""

    start: Array  # positions and velocities, shape (2, n)
    actuation: Actuation
    wanted: Array  # positions at its steps, shape (N, n) [rad or m]


@dataclass(frozen=True, eq=False)
class Replay:
    """Torque and motion of a log by several models; N samples, S stretches, n joints."""

    path: str  # of the log
    joints: tuple[str, ...]
    units: tuple[str, ...]  # of their torque
    corner: float | None  # cutoff that both sides of errors passed [Hz]
    size: Array  # rms torque, shape (n,) [N·m or N]
    errors: Mapping[str, Array]  # ‖τ − τ̂‖/‖τ‖ by model, of each joint and then of all, (n + 1,)
    # rms torque that the file does not hold, by what it is, shape (n,) [N·m or N]
    lost: Mapping[str, Array]
    # median over stretches of the rms error of positions by model, shape (n,) [rad or m]
    moved: Mapping[str, Array]
    # likewise where the log's command and the controller move it; empty if they are not known
    followed: Mapping[str, Array]
    count: int  # S
    engine: str | None = None  # that ran the file; None if none did
    # what the engine's torque of a motion differs by from heft's: without dry friction, of the
    # rms torque, and dry friction of itself where the joint slides
    smooth: float = 0.0
    dry: float = 0.0
    notes: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield it as text: tables, and a line each for what the file does not hold."""
        rows = [
            [j, f"{s:.3g} {u}", *(f"{e[k]:.1%}" for e in self.errors.values())]
            for k, (j, s, u) in enumerate(zip(self.joints, self.size, self.units, strict=True))
        ]
        rows.append(["all", "", *(f"{e[-1]:.1%}" for e in self.errors.values())])
        band = "" if self.corner is None else f", below {self.corner:.3g} Hz"
        yield f"torque of the motion of {Path(self.path).name} that is missed{band}\n"
        yield table(("joint", "torque", *self.errors), rows)
        if self.engine is not None:
            yield (
                f"\n{self.engine} and heft differ by {self.smooth:.1g} of the torque of bodies, "
                f"rotors and viscous friction, and by {self.dry:.2%} of dry friction at most where "
                "joints slide"
            )
        for pushes, errors in (("torque", self.moved), ("command", self.followed)):
            if not self.count or not errors:
                continue
            moved = [
                [j, *(_moved(m[k]) for m in errors.values())] for k, j in enumerate(self.joints)
            ]
            yield (
                f"\nmotion of the log's {pushes} over {LENGTH:g} s: position error [mrad or mm], "
                f"median of {self.count} stretches\n"
            )
            yield table(("joint", *errors), moved)
        yield ""
        for what, rms in self.lost.items():
            costs = ", ".join(
                f"{j} {r:.2g} {u} ({r / s:.1%})"
                for j, r, s, u in zip(self.joints, rms, self.size, self.units, strict=True)
                if r > 5e-4 * s
            )
            yield f"not held: {what}: {costs or 'less than .05 % of the torque of any joint'}"
        yield from self.notes


def _moved(error: float) -> str:
    return f"{1e3 * error:.3g}" if np.isfinite(error) else "–"


@dataclass(frozen=True, eq=False)
class _Motion:
    """A log's motion with torque by several models, N samples of n joints."""

    time: Array
    q: Array
    v: Array
    a: Array
    measured: Array
    efforts: Mapping[str, Array]  # by model, and by kind of friction's terms
    step: float
    slow: Array  # speed s of each joint's dry friction F tanh(v/s), shape (n,) [rad/s or m/s]

    @property
    def stretches(self) -> list[slice]:
        """Return stretches without a gap."""
        return list(between_gaps(self.time, GAP_STEPS * self.step))


def replay_log(
    identified: Identified,
    run: MujocoReplay | OtherEngine | None,
    fields: Fields,
    log: AnyLog,
    columns: Path | None = None,
    before: Robot | None = None,
    fit: Recording | None = None,
) -> Replay:
    """Return a log replayed by what a simulator's file says.

    Args:
        run: The simulator with its file; None if it is not run.
        fields: What it says of joints.
        before: The robot of the model file as it came; if not given, nothing is compared with it.
        fit: Log that friction beside its masses is fitted to; the replayed one if not given.

    Raises:
        InvalidRecording: If the log is too short, or a joint's torque is not known.
    """
    robot = identified.robot
    inputs = Inputs(robot).with_columns(columns).with_logs(log=[log])
    recording = inputs.logs["log"][0]
    motion = _motion(identified, recording, before)
    inputs.refuse_changed()
    in_file = _table(fields, robot.joints)
    mine = in_file.effort(motion.v, motion.a, motion.slow)
    models = {"its fields": motion.efforts["rigid"] + mine}
    engine, differences = None, (0.0, 0.0)
    forward: dict[str, Move] = {}
    starts = _starts(motion)
    pushed = [_pushed(motion, *start) for start in starts]
    commanded: list[_Stretch] = []
    loop = ClosedLoop.of(_simple(robot))
    if loop is not None and {f"q_ref.{j}" for j in robot.joints} <= set(recording.sources):
        loop = replace(loop, believed=loop.believed if before is None else before)
        commanded = [_commanded(motion, *start, *loop.actuation(recording)) for start in starts]
    if run is not None:
        engine = run.name
        torque = run.inverse_dynamics(motion.q, motion.v, motion.a)
        smooth = run.inverse_dynamics(motion.q, motion.v, motion.a, dry=False)
        differences = _differences(motion, in_file, torque, smooth)
        # What stands still is held by as much as is needed: no engine can tell by the motion.
        rests = np.abs(motion.v) <= SLIDING * motion.slow
        at_rest = smooth + in_file.dry * np.tanh(motion.v / motion.slow)
        models = {engine: np.where(rests, at_rest, torque)}
        forward[engine] = run.moved
    models |= {k: v for k, v in motion.efforts.items() if k.startswith("heft")}
    notes = []
    parameters = {"heft, simple": (robot, _standard(robot, identified.friction["simple"]))}
    if before is None:
        notes.append(
            "the model file as it came is not where it was: name it by --model to compare with it"
        )
    else:
        rows = motion.efforts["bodies before"]
        damping, dry, rotor = before.written_drives
        written = JointFields(*np.array([rotor, damping, dry, 0.0 * dry]))
        own = _fitted(motion if fit is None else _motion(identified, fit, before))
        rubs = own.effort(motion.v, motion.a, motion.slow)
        models |= {WRITTEN: motion.efforts[WRITTEN], MASSES: rows + rubs}
        parameters[WRITTEN] = before, _standard(before, _named(written, robot.joints))
        parameters[MASSES] = before, _standard(before, _named(own, robot.joints))
    for name, (of, values) in parameters.items():
        forward[name] = partial(moved_by_heft, _simple(of), values)
    corner = (identified.estimate.get("torque_errors") or {}).get("filter_hz")
    errors, size = _errors(motion, models, corner)
    wanted = _table(fields_of(identified), robot.joints)
    return Replay(
        recording.name,
        robot.joints,
        tuple("N·m" if s == STANDSTILL else "N" for s in motion.slow),
        corner,
        size,
        errors,
        dict(_lost(motion, wanted, in_file)),
        {name: _position_errors(pushed, move) for name, move in forward.items() if starts},
        {name: _position_errors(commanded, move) for name, move in forward.items() if commanded},
        len(starts),
        engine,
        *differences,
        tuple(notes),
    )


def model_file(identified: Identified, model: Path | None) -> Path | None:
    """Return the model file that the results began with; None if it is gone.

    Args:
        model: Where it is now, if it was moved.

    Raises:
        InvalidSetting: If that is another file.
    """
    entry = next((i for i in identified.estimate["inputs"] if i["role"] == "model"), None)
    if entry is None:
        return model
    path = model or Path(entry["path"])
    if not path.is_file() or file_hash(path) != entry["sha256"]:
        if model is None:
            return None
        raise InvalidSetting(
            "the model file is not the one that the results began with",
            argument=f"--model {model}",
            expected=f"{entry['path']} (sha256 {entry['sha256'][:12]}…)",
        )
    return path


def fields_of(identified: Identified) -> dict[str, JointFields]:
    """Return simple friction and rotor inertia of each joint's own drive."""
    drives = ((name, identified.joints[name]) for name in identified.robot.joints)
    values = ((n, (d.armature, d.viscous, d.coulomb, d.offset)) for n, d in drives)
    return {name: JointFields(*(x or 0.0 for x in row)) for name, row in values}


def _motion(identified: Identified, recording: Recording, before: Robot | None) -> _Motion:
    """Return a log's motion, measured torque and that of models."""
    robot = identified.robot
    plant = plant_of(replace(robot, options=replace(robot.options, sensor=None)), recording)
    smoothing = replace(limited(identified.smoothing, recording), trim=0.0, torque="raw")
    problem = Problem(plant, (recording,), smoothing, 2, "fit")
    entries = identified.estimate["joints"].items()
    stated = {j: robot.options.of(j).gain for j, _ in entries}
    fits = {j: float(e["gain"]) for j, e in entries if "gain" in e}
    problem = with_gains(problem, {j: s / fits[j] for j, s in stated.items() if s and j in fits})
    if len(robot.measured) != len(robot.joints) or isinstance(plant, ElasticRobotPlant):
        raise InvalidRecording(
            "a replay needs the torque of all joints, and gears that do not yield",
            argument=recording.name,
        )
    kinds = {
        kind: {k: v for k, v in identified.friction["full"].items() if f".{kind}[" in k}
        for kind in KINDS
    }
    parts: dict[str, list[Array]] = {}
    for s, rigid in rigid_torques(problem, robot.written_bodies()):
        state = plant.drive_state(s, plant.gear_load(s, rigid), identified.friction["none"])
        efforts = {"rigid": rigid}
        for name in ("simple", "full"):
            drives = identified.friction[name]
            efforts[f"heft, {name}"] = rigid + model_effort(name, robot, drives, state)
        for kind, terms in kinds.items():
            efforts[kind] = model_effort("full", robot, terms, state)
        if before is not None:
            bare = plant.rigid(s.motion, before.written_bodies())
            efforts["bodies before"] = bare
            efforts[WRITTEN] = bare + model_effort("written", before, {}, state)
        moved = dict(zip("qva", s.motion.of_channels, strict=True))
        measured = s.measured[:, : len(robot.joints)].T
        row = {"time": s.time[None], **moved, "measured": measured, **efforts}
        for name, values in row.items():
            parts.setdefault(name, []).append(values.T)
    if not parts:
        raise InvalidRecording("the log is too short to be replayed", argument=recording.name)
    joined = {k: np.concatenate(v) for k, v in parts.items()}
    q, v, a, measured = (joined.pop(k) for k in ("q", "v", "a", "measured"))
    time, step = joined.pop("time")[:, 0], problem.timelines[0].step
    slides = set(robot.tree.channel[robot.tree.kind == PRISMATIC].tolist())
    slow = STANDSTILL * np.array([LINEAR_SCALE if k in slides else 1.0 for k in range(q.shape[1])])
    return _Motion(time, q, v, a, measured, joined, step, slow)


def _table(fields: Fields, joints: tuple[str, ...]) -> JointFields:
    """Return the fields of all joints as one, whose numbers have shape (n,)."""
    return JointFields(*np.array([astuple(fields[j]) for j in joints]).T)


def _differences(
    motion: _Motion, in_file: JointFields, torque: Array, smooth: Array
) -> tuple[float, float]:
    """Return what an engine's torque differs by: smooth, of the rms torque; dry, of itself."""
    plain = replace(in_file, dry=0.0).effort(motion.v, motion.a, motion.slow)
    wanted = motion.efforts["rigid"] + plain
    off = np.abs(smooth - wanted).max(axis=0) / _rms(wanted)
    slides = (np.abs(motion.v) > SLIDING * motion.slow) & (in_file.dry > 0.0)
    ratio = np.abs(torque - smooth)[slides] / (in_file.dry + 0.0 * motion.v)[slides]
    return float(off.max()), float(np.abs(ratio - 1.0).max(initial=0.0))


def _rms(values: Array) -> Array:
    return np.asarray(np.sqrt(np.mean(values**2, axis=0)))


def _fitted(motion: _Motion) -> JointFields:
    """Return the fields of all joints that fit a log best beside the file's bodies."""
    fits = []
    rest = motion.measured - motion.efforts["bodies before"]
    for v, a, slow, effort in zip(motion.v.T, motion.a.T, motion.slow, rest.T, strict=True):
        one = np.ones_like(v)
        rows = np.column_stack([a, v, np.tanh(v / slow), one, -one])
        rotor, viscous, dry, up, down = nnls(rows, effort)[0]
        fits.append((rotor, viscous, dry, up - down))
    return JointFields(*np.array(fits).T)


def _named(fields: JointFields, joints: tuple[str, ...]) -> dict[str, float]:
    """Return the fields of all joints as parameters of drives by name."""
    names = ("armature", "viscous", "coulomb", "offset")
    rows = zip(names, astuple(fields), strict=True)
    return {f"{j}.{n}": float(x) for n, row in rows for j, x in zip(joints, row, strict=True)}


def _lost(
    motion: _Motion, wanted: JointFields, in_file: JointFields
) -> Iterator[tuple[str, Array]]:
    """Yield what the file does not hold of heft's full model, and its rms torque.

    Of a kind of friction that no simulator has it is what viscous and dry friction and an offset
    cannot take its place in.
    """
    for name, what in NAMES.items():
        missing = JointFields(**{name: getattr(wanted, name) - getattr(in_file, name)})
        part = missing.effort(motion.v, motion.a, motion.slow)
        if part.any():
            yield what, _rms(part)
    for kind, what in KINDS.items():
        part = motion.efforts[kind].copy()
        if not part.any():
            continue
        for k, v in enumerate(motion.v.T):
            rows = np.column_stack([v, np.tanh(v / motion.slow[k]), np.ones_like(v)])
            part[:, k] -= rows @ np.linalg.lstsq(rows, part[:, k], rcond=None)[0]
        yield what, _rms(part)
    mine = in_file.effort(motion.v, motion.a, motion.slow)
    yield "all of it together", _rms(motion.efforts["heft, full"] - motion.efforts["rigid"] - mine)


def _errors(
    motion: _Motion, models: Mapping[str, Array], corner: float | None
) -> tuple[dict[str, Array], Array]:
    """Return relative errors of models, of joints and then of all, and the joints' rms torque."""
    sums = {name: np.zeros(motion.q.shape[1]) for name in models}
    size, count = np.zeros(motion.q.shape[1]), 0
    for part in motion.stretches:
        time = motion.time[part]
        inside = (time >= time[0] + CUT) & (time <= time[-1] - CUT)
        if not inside.any():
            continue

        def seen(values: Array, part: slice = part, time: Array = time) -> Array:
            cut = values[part]
            return cut if corner is None else filtered(time, cut, motion.step, corner)

        measured = seen(motion.measured)[inside]
        size, count = size + np.sum(measured**2, axis=0), count + len(measured)
        for name, values in models.items():
            sums[name] += np.sum((seen(values)[inside] - measured) ** 2, axis=0)
    if not count:
        raise InvalidRecording("no stretch of the log is long enough", expected="more than 1 s")
    ratios = {n: np.sqrt(np.append(s / size, s.sum() / size.sum())) for n, s in sums.items()}
    return ratios, np.sqrt(size / count)


def _starts(motion: _Motion) -> list[tuple[int, slice]]:
    """Return where stretches to simulate begin, and the gapless stretch that each is in."""
    fits = []
    for part in motion.stretches:
        time = motion.time[part]
        begins = np.arange(time[0] + CUT, time[-1] - CUT - LENGTH, LENGTH)
        fits += [(part.start + int(np.searchsorted(time, t)), part) for t in begins]
    chosen = np.unique(np.linspace(0, len(fits) - 1, min(len(fits), MOST)).round().astype(int))
    return [fits[k] for k in chosen] if fits else []


def _pushed(motion: _Motion, row: int, part: slice) -> _Stretch:
    """Return a stretch that the log's torque moves."""
    clock = motion.time[row] + STEP * np.arange(round(LENGTH / STEP))
    time, start = motion.time[part], np.stack([motion.q[row], motion.v[row]])
    effort = _at(clock + STEP / 2, time, motion.measured[part])
    return _Stretch(start, Actuation.of_efforts(effort, STEP), _at(clock, time, motion.q[part]))


def _commanded(
    motion: _Motion, row: int, part: slice, clock: Array, actuation: Actuation
) -> _Stretch:
    """Return a stretch that the log's command moves; an integral begins with the log's torque."""
    first = int(np.searchsorted(clock, motion.time[row]))
    rows = slice(first, first + round(LENGTH / actuation.step))
    time, clock, wanted = motion.time[part], clock[rows], actuation.wanted[rows].copy()
    q = _at(clock, time, motion.q[part])
    start = np.stack([q[0], _at(clock[:1], time, motion.v[part])[0]])
    error, given = wanted[0, :2] - start, _at(clock[:1], time, motion.measured[part])[0]
    summed = given - wanted[0, 2] - (actuation.gains[:2] * error).sum(axis=0)
    wanted[:, 2] += np.where(actuation.gains[2] > 0.0, summed, 0.0)
    return _Stretch(start, replace(actuation, wanted=wanted), q)


def _at(clock: Array, time: Array, values: Array) -> Array:
    return np.stack([np.interp(clock, time, x) for x in values.T], axis=1)


def _position_errors(stretches: list[_Stretch], move: Move) -> Array:
    """Return the median over stretches of the rms error of positions, shape (n,)."""
    errors = []
    for s in stretches:
        places = move(s.start, s.actuation)
        lost = np.full(s.wanted.shape[1], np.inf)
        off = lost if places is None else np.sqrt(np.mean((places - s.wanted) ** 2, axis=0))
        errors.append(off)
    return np.asarray(np.median(errors, axis=0))


def _simple(robot: Robot) -> Robot:
    """Return the robot with simple friction, without own columns."""
    options = {j: replace(robot.options.of(j), friction="simple") for j in robot.joints}
    return replace(robot.with_joints(options), own_columns=None)


def _standard(robot: Robot, drives: Mapping[str, float]) -> Array:
    """Return the file's bodies with drives' parameters by name, as a simple robot orders them."""
    simple = _simple(robot)
    bodies = simple.written_bodies()
    names = simple.labels.names[len(bodies) :]
    return np.concatenate([bodies, [drives.get(n, 0.0) for n in names]])
