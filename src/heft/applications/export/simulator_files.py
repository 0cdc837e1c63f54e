"""`heft export`: what was identified, in the file of a simulator; and draws of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from heft.applications.identification import Identified
from heft.errors import FitError, InputError, InvalidModel, InvalidSetting, did_you_mean
from heft.files import UNREADABLE, file_hash, json_text, read_text, require_writable, write_text
from heft.models import SIMULATORS, STANDARD_GRAVITY, Fields, MeshFiles, Robot, Simulator, meshes_of
from heft.simulation import MODULES, MujocoReplay, OtherEngine, other_engine, python_of

from .replay import Replay, fields_of, model_file, replay_log


@dataclass(frozen=True)
class Exported:
    """What was written, and what the user is to know of it."""

    files: tuple[Path, ...]
    notes: tuple[str, ...]
    replay: Replay | None = None


def export_files(
    results: Path,
    simulator: str,
    out: Path | None = None,
    draws: Path | None = None,
    replay: Path | None = None,
    columns: Path | None = None,
    model: Path | None = None,
    own_columns: Path | None = None,
    python: Path | None = None,
) -> Exported:
    """Write what was identified as the file of a simulator, and replay a log by it.

    Args:
        results: Folder that `heft identify` left.
        simulator: One of `SIMULATORS`.
        out: Folder to write to; nothing is written if not given.
        draws: Folder that `heft sample` left, whose draws are written, too.
        replay: Log to be replayed.
        columns: Column map of the log.
        model: The model file as it came; that of the results if it is still there.
        own_columns: Python file of the user's own columns, where the robot was identified with one.
        python: Interpreter of the environment that has Drake or Newton; heft's own if not given.

    Raises:
        InvalidSetting: If there is no such simulator, or nothing to be done, or a file would take
            the place of results.
        InvalidModel: If the base floats.
        FitError: If the file read back does not say the same.
        InputError: If the results, draws or the log are invalid.
    """
    if simulator not in SIMULATORS:
        cure = did_you_mean(simulator, SIMULATORS)
        raise InvalidSetting(
            f"no simulator is called '{simulator}'", argument="--for", valid=SIMULATORS, cure=cure
        )
    target = SIMULATORS[simulator]
    if out is None and replay is None:
        raise InvalidSetting(
            "there is nothing to be done", argument="--out", cure="give --out FOLDER, --replay LOG"
        )
    if draws is not None and out is None:
        raise InvalidSetting("draws are written", argument="--draws", cure="give --out FOLDER")
    if out is not None:
        require_writable(out / target.file)
        if (out / "estimate.json").exists():
            raise InvalidSetting(
                "the folder holds the results themselves, which are not overwritten",
                argument=f"--out {out}",
                cure="name another folder",
            )
    identified = Identified.load(results, own_columns)
    robot = identified.robot
    if robot.tree.free_base:
        raise InvalidModel(
            "a robot whose base floats is not exported for simulators",
            argument=str(results),
            cure="take the model file of the results, which states bodies, damping and friction",
        )
    fields, began = target.taken(robot, fields_of(identified)), model_file(identified, model)
    meshes = MeshFiles()
    if target.has_meshes:
        folder = identified.folder if began is None else began.parent
        meshes = meshes_of(robot.form, robot.source, folder)
    text = _written(target, robot, fields, meshes)
    made: dict[str, str | bytes] = {**meshes.contents, target.file: text}
    if draws is not None:
        made |= _drawn(target, identified, draws, meshes.from_below())
    replayed, notes = None, [*_notes(target, identified), *_lost(meshes)]
    if replay is not None:
        before = None if began is None else Robot.from_file(began, robot.options)
        with _running(simulator, python, text, robot) as run:
            replayed = replay_log(identified, run, fields, replay, columns, before)
        made["replay.json"] = json_text(replayed)
        if run is None and simulator in MODULES:
            notes.append(
                f"{simulator} is not installed here and was not run: pip install {simulator} into "
                "an environment of its own, and name its Python by --python"
            )
    files = []
    if out is not None:
        for name, content in made.items():
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            write_text(out / name, content)
            files.append(out / name)
    return Exported(tuple(files), tuple(notes), replayed)


@contextmanager
def _running(
    simulator: str, python: Path | None, text: str, robot: Robot
) -> Iterator[MujocoReplay | OtherEngine | None]:
    """Yield the simulator with its file, to be run; None if it is not installed, or never run."""
    own = python_of(simulator, python)
    if simulator == "mujoco":
        yield MujocoReplay.of(text, robot.joints)
    elif own is None:
        yield None
    else:
        with other_engine(simulator, own, text, robot) as engine:
            yield engine


def _lost(meshes: MeshFiles) -> Iterator[str]:
    lost = meshes.lost
    if lost:
        more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
        yield (
            f"not shown: meshes that cannot be taken along: {', '.join(lost[:3])}{more}; if "
            "the model file was moved, name it by --model"
        )


def _written(target: Simulator, robot: Robot, fields: Fields, meshes: MeshFiles) -> str:
    """Return the file's text, which says the same when it is read back."""
    text = target.write(robot, fields, meshes)
    back = target.read(text)
    for joint, wanted in fields.items():
        for name, value in vars(wanted).items():
            got = getattr(back[joint], name)
            if abs(got - value) > 1e-12 * abs(value):
                raise FitError(
                    "the file that was written says another number",
                    argument=f"{target.file}, {joint}, {name}",
                    got=got,
                    expected=repr(value),
                )
    return text


def _notes(target: Simulator, identified: Identified) -> Iterator[str]:
    robot = identified.robot
    if target.note:
        yield target.note
    motors = ", ".join(d.name for d in robot.drives if d.name not in robot.joints)
    if motors:
        yield f"not held: drives that move several joints: {motors}"
    if robot.own_names:
        yield f"not held: parameters of own columns: {', '.join(robot.own_names)}"
    if target.file.endswith(".urdf") and robot.options.gravity != STANDARD_GRAVITY:
        yield f"a URDF says no gravity: that of the robot is {robot.gravity.tolist()} m/s²"
    if not target.has_links:
        yield "links are those of the model file in the folder of results"


def _template(name: str) -> str:
    return (resources.files(__package__) / f"{name}.template").read_text("utf-8")


def _drawn(
    target: Simulator, identified: Identified, folder: Path, meshes: MeshFiles
) -> dict[str, str]:
    """Return the files of draws that `heft sample` made, by name."""
    try:
        text = read_text(folder / "samples.json", "samples.json of a folder of draws", InputError)
        manifest: Mapping[str, Any] = json.loads(text)
        digest, names, files = (manifest[k] for k in ("information", "parameters", "files"))
        files = dict(files)
        options = identified.robot.options
        draws = [(Robot.from_file(folder / name, options), row) for name, row in files.items()]
        numbers = [dict(zip(names, map(float, row), strict=True)) for row in files.values()]
    except UNREADABLE as problem:
        raise InputError(
            "this is not a folder of draws",
            argument=str(folder),
            got=f"{type(problem).__name__}: {problem}",
            expected="the folder that `heft sample --out` wrote",
        ) from problem
    if digest != file_hash(identified.folder / "information.npz"):
        raise InputError(
            "the draws are of other results",
            argument=str(folder),
            cure=f"heft sample {identified.folder} --out {folder}",
        )
    made, neutral = {}, []
    for k, ((robot, values), drawn) in enumerate(zip(draws, numbers, strict=True)):
        stated = dict(zip(robot.joints, robot.written_drives.T.tolist(), strict=True))
        fields = {
            joint: replace(
                simple,
                viscous=stated[joint][0],
                dry=stated[joint][1],
                armature=drawn.get(f"{joint}.armature", simple.armature),
            )
            for joint, simple in fields_of(identified).items()
        }
        taken = target.taken(robot, fields)
        if target.has_links:
            stem, dot, ending = target.file.partition(".")
            made[f"draws/{stem}_{k:0{len(str(len(files) - 1))}d}{dot}{ending}"] = _written(
                target, robot, taken, meshes
            )
        else:
            by_name = {
                n: {j: getattr(f, n) for j, f in taken.items()} for n in sorted(target.holds)
            }
            links = {
                link.name: values[10 * i : 10 * i + 10] for i, link in enumerate(robot.bodies_links)
            }
            neutral.append({**by_name, "links": links})
    if neutral:
        made |= {"draws.json": json_text({"draws": neutral}), "draws.py": _template("draws.py")}
    if target.file == "robot.xml":
        made["randomize.py"] = _template("randomize.py")
    return made
