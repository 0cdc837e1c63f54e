"""Results of an identification, read from their folder again; predictions from them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from heft.applications.inputs import AnyLog, AnyPath, Inputs
from heft.arrays import Array
from heft.dynamics import make_term
from heft.errors import InputError, InvalidRecording
from heft.files import (
    LARGEST_NUMBER,
    UNREADABLE,
    OpenedFile,
    read_arrays,
    read_text,
    require_schema,
    visible_texts,
)
from heft.fit import Misfit, TorqueDeviation, model_effort, rigid_torques
from heft.information import Labels, Parameters
from heft.models import Options, Robot
from heft.plants import (
    ContactEfforts,
    FloatingRobotPlant,
    Problem,
    plant_of,
)
from heft.recordings import Recording
from heft.signals import Smoothing, limited

from .answers import Answers
from .contract import MODELS, Contract, packaged_schema

Friction: TypeAlias = Literal["full", "simple", "none"]
BEYOND = 1.2  # speed over that of the fitted logs, from which friction is extrapolated


class Prediction(NamedTuple):
    """Predicted effort at the times of a log."""

    time: Array  # shape (N,) [s]
    # shape (N, channels) [N·m or N]. Of a floating base: of its own six channels what neither
    # motion nor contacts explain; NaN of a joint whose torque depends on how contacts of unknown
    # wrench share the load
    effort: Array
    rigid: Array  # its rigid-body part, and that of contacts, likewise
    # standard deviation of the effort, likewise; NaN where it is not known, or friction is not the
    # full one
    std: Array
    speed: Array  # of each drive, shape (N, drives) [rad/s or m/s]

    @property
    def torque(self) -> Array:
        """The effort, of joints that turn a torque."""
        return self.effort

    def __repr__(self) -> str:
        rows, channels = self.effort.shape
        return f"<torque of {channels} channels at {rows} times, with its rigid part and std>"


@dataclass(frozen=True, repr=False)
class Identified(Answers):
    """Results of an identification, read from their folder."""

    folder: Path  # folder of the results
    robot: Robot  # identified model
    # the drives' parameters by name, under `full`, `simple` and `none`; the last holds rotor
    # inertias only
    friction: dict[str, dict[str, float]]
    smoothing: Smoothing  # smoothing of the motion that the fit used
    estimate: Mapping[str, Any]  # content of `estimate.json`
    # of predicted torques; None if the folder does not state it
    deviation: TorqueDeviation | None = None
    estimated: Parameters | None = None  # see `solution`; None if the folder does not state them
    # range of sliding velocity, backward and forward, of each drive with friction on the fitted
    # logs [rad/s or m/s]
    fastest: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def contract(self) -> Contract:
        """Content of `estimate.json`."""
        return self.estimate

    @property
    def solution(self) -> Parameters:
        """Estimated standard parameters with their covariance, ten of each link first.

        Raises:
            InputError: If the folder has none.
        """
        if self.estimated is None:
            raise InputError(
                "the results hold no parameters with their covariance",
                argument=str(self.folder / "information.npz"),
                cure="identify again",
            )
        return self.estimated

    @staticmethod
    def load(folder: AnyPath, own_columns: AnyPath | None = None) -> Identified:
        """Read a folder of results.

        Args:
            own_columns: The Python file that it was identified with, if it was; it is run.

        Raises:
            InputError: If it is no such folder, or a file in it is invalid, or the robot was
                identified with another file of own columns.
        """
        folder, own = Path(folder), None if own_columns is None else Path(own_columns)
        data, options, smoothing, drives = _read(folder)
        _refuse_other_columns(data, folder, own)
        robot = _model(folder, options).with_own_columns(own)
        path = folder / "information.npz"
        if not path.exists():
            return Identified(folder, robot, drives, smoothing, data)
        with _reading(path, "numbers"):
            arrays = read_arrays(path)
        with _reading(path, "deviations"):
            deviation = _torque_deviation(arrays, robot, data)
        with _reading(path, "parameters"):
            solution = _solution(arrays, robot)
        with _reading(path, "sliding velocities"):
            fastest = _fastest(arrays)
        return Identified(folder, robot, drives, smoothing, data, deviation, solution, fastest)

    def extrapolated(self, speed: Array) -> dict[str, float]:
        """Return by how many times a log is faster than those fitted, by drive, above `BEYOND`.

        Args:
            speed: Of each drive, shape (N, drives) [rad/s or m/s]; see `Prediction`.
        """
        factors: dict[str, float] = {}
        for drive, own in zip(self.robot.drives, np.asarray(speed).T, strict=True):
            low, high = self.fastest.get(drive.name, (-np.inf, np.inf))
            ends = ((float(own.max()), high), (float(own.min()), low))
            beyond = [now / seen for now, seen in ends if seen and now / seen > BEYOND]
            factors |= {drive.name: max(beyond)} if beyond else {}
        return factors

    def predict(self, log: AnyLog, friction: Friction = "full") -> Prediction:
        """Return the predicted effort and its deviation at the times of a log; see `predictions`.

        Args:
            log: A file, recording, table or dictionary of columns, with the joints' positions.

        Raises:
            InvalidRecording: If it is too short.
        """
        inputs = Inputs(self.robot).with_logs(log=log)
        predicted = [list(self.predictions(one, friction)) for one in inputs.logs["log"]]
        if not all(predicted) or not predicted:
            raise InvalidRecording(
                "the log is too short to predict anything",
                argument=inputs.logs["log"][0].name if predicted else "log",
                expected="at least ten rows without a gap",
            )
        return Prediction(*map(np.concatenate, zip(*chain(*predicted), strict=True)))

    def predictions(
        self, recording: Recording, friction: Friction = "full", threads: int = 2
    ) -> Iterator[Prediction]:
        """Yield the predicted effort and its deviation at the times of a log, in chunks.

        Measured efforts in the log are ignored. Wrenches of contacts are those that the log holds,
        or what the equations of a floating base tell of them; see `plants.ContactEfforts`.

        Args:
            recording: Log with positions, of a floating base also with its motion, and wrenches of
                contacts that are measured.
            friction: `full`, `simple`, or `none` for rigid bodies and rotor inertias only.

        Yields:
            Time, effort, its rigid-body part, its standard deviation with full friction, speeds.
        """
        drives = self.friction[friction]
        smoothing = replace(limited(self.smoothing, recording), trim=0.0, torque="raw")
        # A plant without measured torques, but with contact wrenches.
        equations: Literal["base", "all"] = "base" if self.robot.tree.free_base else "all"
        options = replace(self.robot.options, equations=equations, sensor=None)
        plant = plant_of(replace(self.robot, options=options), recording)
        floating = plant if isinstance(plant, FloatingRobotPlant) else None
        everything = self.robot.options.equations in (
            "all",
            "base",
        )  # that holds the base is stated
        # Of what is measured, wrenches at contacts are needed, which are behind the base's six.
        purpose: Literal["fit", "predict"] = "predict"
        if floating and plant.channels[6:]:
            purpose = "fit"
        problem = Problem(plant, (recording,), smoothing, threads, purpose)
        stated = self.deviation if friction == "full" else None
        reversal = None
        for s, rigid in rigid_torques(problem, self.robot.written_bodies()):
            state = plant.drive_state(s, plant.gear_load(s, rigid), drives)
            rest = model_effort(friction, self.robot, drives, state)
            contacts = ContactEfforts.of(floating, s, everything) if floating else None
            std = np.full(rigid.T.shape, np.nan)
            if stated is not None:
                through = None if contacts is None else contacts.through
                std, reversal = stated.std(plant, s, state.rigid, reversal, through)
            effort = (rigid + rest).T if contacts is None else contacts.left(rigid + rest)
            rigid = rigid.T if contacts is None else effort - rest.T
            speed = np.stack([drive.ratio @ state.motors[1] for drive in self.robot.drives], axis=1)
            yield Prediction(s.time, effort, rigid, std, speed)


def load(results: AnyPath) -> Identified:
    """Read the folder that `result.save()` or `heft identify` wrote; see `Identified`.

    Raises:
        InputError: If it is no such folder.
    """
    path = Path(results)
    if not path.is_dir():
        raise InputError(
            "results are loaded of a folder" if path.exists() else "there is no such folder",
            argument=str(path),
            expected="the folder that result.save() or heft identify wrote",
            cure="a model file is read by heft.Robot.from_file, a log by heft.Recording.open",
        )
    return Identified.load(path)


@contextmanager
def _reading(path: Path, what: str) -> Iterator[None]:
    """Turn errors of what results state into those that name their file.

    Raises:
        InputError: If what they state is none.
    """
    try:
        yield
    except UNREADABLE as problem:
        raise InputError(
            f"the {what} of these results cannot be read",
            argument=str(path),
            got=str(problem)[:200],
            cure="identify again",
        ) from problem


def _solution(arrays: Mapping[str, Any], robot: Robot) -> Parameters:
    """Return the parameters that results state with their covariance."""
    labels = plant_of(robot).space.labels
    units = dict(zip(labels.names, labels.units, strict=True))
    names = tuple(str(n) for n in arrays["parameter_names"])
    values, covariance = arrays["parameter_values"], arrays["parameter_covariance"]
    if covariance.shape != (len(names),) * 2 or not np.isfinite(values).all():
        raise ValueError(f"covariance of shape {covariance.shape} of {len(names)} parameters")
    return Parameters(Labels(names, tuple(units[n] for n in names)), values, covariance)


def _fastest(arrays: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Return the ranges of sliding velocity that results state."""
    joints, ends = arrays["sliding_joints"], arrays["sliding_velocities"].astype(float)
    if not np.isfinite(ends).all():
        raise ValueError("velocities that are not finite")
    return {str(j): (float(a), float(b)) for j, (a, b) in zip(joints, ends, strict=True)}


def _read(
    folder: Path,
) -> tuple[Contract, Options, Smoothing, dict[str, dict[str, float]]]:
    """Return `estimate.json`, options, smoothing, and the drives' parameters by friction model.

    Raises:
        InputError: If there is no usable one.
    """
    try:
        what = "estimate.json of a folder of results"
        text = read_text(folder / "estimate.json", what, InputError).decode()
        data = visible_texts(json.loads(text))
        require_schema(data, packaged_schema())
        return data, *stated_in(data)
    except UNREADABLE as problem:
        raise InputError(
            "this is not a folder of results",
            argument=str(folder),
            got=f"no usable estimate.json ({type(problem).__name__}: {problem})",
            expected="the folder that `heft identify --out` wrote",
        ) from problem


def stated_in(data: Mapping[str, Any]) -> tuple[Options, Smoothing, dict[str, dict[str, float]]]:
    """Return what `estimate.json` states: options, smoothing, terms of drives by friction model.

    Raises:
        ValueError: If a term is beyond anything that moves.
    """
    options = Options.from_dict(data["settings"]["robot"]["options"], "estimate.json")
    entry = dict(data["settings"]["smoothing"])
    del entry["chosen"]
    smoothing = Smoothing(**entry)
    drives: dict[str, dict[str, float]] = {"full": {}, "simple": {}, "none": {}}
    for name, joint in {**data["joints"], **data["motors"]}.items():
        drives["simple"] |= {f"{name}.{k}": float(v) for k, v in joint["simple"].items()}
        drives["full"] |= {
            f"{name}.{make_term(t['term'], t['scale']).name}": float(t["value"])
            for t in joint["full"]
        }
        if joint["armature"] is not None:
            for terms in drives.values():
                terms[f"{name}.armature"] = float(joint["armature"])
    for terms in drives.values():
        terms |= {e["name"]: float(e["value"]) for e in data.get("own_columns", ())}
    odd = [n for t in drives.values() for n, v in t.items() if abs(v) > LARGEST_NUMBER]
    if odd:
        raise ValueError(f"{odd[0]} is beyond anything that moves")
    return options, smoothing, drives


def identified_model(folder: Path) -> Robot:
    """Return the robot of a folder of results without own columns, to be shown, not to predict.

    Raises:
        InputError: If it is no such folder.
    """
    _, options, _, _ = _read(folder)
    return _model(folder, options)


def _model(folder: Path, options: Options) -> Robot:
    name = next((n for n in MODELS if (folder / n).exists()), None)
    if name is None:
        raise InputError(
            "the results hold no model file",
            argument=str(folder),
            cure="none is written of logs in which something is wrong: see its report.html, mend "
            "that, and identify again",
        )
    return Robot.from_file(folder / name, options)


def _file(entry: Mapping[str, Any]) -> str:
    return f"{entry['path']} (sha256 {entry['sha256'][:12]}…)"


def _refuse_other_columns(data: Mapping[str, Any], folder: Path, path: Path | None) -> None:
    columns = [i for i in data["inputs"] if i["role"] == "own_columns"]
    names = ", ".join(e["name"] for e in data.get("own_columns", ()))
    if path is None:
        if names:
            raise InputError(
                "the robot was identified with own columns, without which it is another",
                argument=str(folder),
                got="no file",
                expected=_file(columns[0]) if columns else f"columns {names}",
                cure="give the file that heft identify was given: --columns FILE",
            )
        return
    if not names:
        raise InputError(
            "the robot was identified without own columns",
            argument=f"--columns {path}",
            got=f"a file, for {folder}",
            expected="none",
            cure="leave --columns out, or identify with it",
        )
    predicted = OpenedFile.at(path).sha256
    if columns and columns[0]["sha256"] != predicted:
        raise InputError(
            "the robot was identified with other own columns",
            argument=f"--columns {path}",
            got=f"sha256 {predicted[:12]}…",
            expected=f"{_file(columns[0])}, for {folder}",
            cure="name the file that heft identify was given, unchanged; results that are compared "
            "need one file for both",
        )


def _torque_deviation(
    arrays: Mapping[str, Any], robot: Robot, data: Contract
) -> TorqueDeviation | None:
    """Return the deviation of predicted torques; None if the results do not state it."""
    if "deviations" not in arrays or not len(arrays["deviations"]):
        return None
    plant = plant_of(robot)
    names = [str(n) for n in arrays["parameter_names"]]
    places = [names.index(n) for n in plant.space.labels.names]
    deviations = np.asarray(arrays["deviations"], dtype=float)
    # one a block that was left out
    if deviations.shape != (min(len(deviations), 1000), len(names)):
        raise ValueError(f"deviations of shape {deviations.shape} of {len(names)} parameters")
    deviations = deviations[:, places]
    if not np.isfinite(deviations).all():
        raise ValueError("deviations that are not finite")
    linear = {d.name: d.linear for d in robot.drives}
    misfits = {
        name: Misfit.from_json(entry["misfit"], linear[name])
        for name, entry in {**data["joints"], **data["motors"]}.items()
        if entry.get("misfit") is not None and name in linear
    }
    return TorqueDeviation(deviations @ plant.space.matrix.T, misfits)
