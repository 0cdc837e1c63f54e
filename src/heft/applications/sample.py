"""`heft sample`: robots that the data allow, as model files, for domain randomisation and the like.

Each file is one draw of what an identification knows: its bodies are physically consistent, and the
spread of the files is the uncertainty that `heft identify` states, the correlations between links
with it. What the data do not tell varies as widely as the model file is doubted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy

from heft import __version__
from heft.applications.identification import Identified
from heft.arrays import Array
from heft.certainty import ConsistentSampler, ConsistentSamples
from heft.errors import InputError, InvalidSetting
from heft.files import file_hash, json_text, new_folder, require_own
from heft.fit import limits_of
from heft.information import Labels, Parameters, ParameterSpace
from heft.models import Robot, export
from heft.plants import plant_of

MANIFEST = "samples.json"
MOST = 10_000  # files of a folder


def sample_files(
    results: Path,
    out: Path,
    count: int = 100,
    seed: int = 0,
    progress: Callable[[str], None] = lambda line: None,
    own_columns: Path | None = None,
) -> ConsistentSamples:
    """Write model files drawn from what an identification knows, whole or not at all.

    Args:
        out: Folder to write: a file a draw, and `samples.json`.
        own_columns: Python file of the user's own columns, where the robot was identified with one.
            No model file holds their parameters: they stand in `samples.json`.

    Returns:
        The draws of links' ten parameters, rotor inertias and parameters of own columns.

    Raises:
        InvalidSetting: If the count is no number of files, or the folder holds other files.
        InputError: If the results are not those of an identification of this version.
        SolverFailure: If the draws do not converge.
    """
    if not 1 <= count <= MOST:
        raise InvalidSetting(
            "that is no number of files", argument="--n", got=count, expected=f"1 to {MOST}"
        )
    identified = Identified.load(results, own_columns)
    model = Path(_file_name(identified.robot))
    names = [f"{model.stem}_{k:0{len(str(count - 1))}d}{model.suffix}" for k in range(count)]
    # A folder may hold earlier draws and their manifest, and nothing else.
    pattern = re.compile(rf"{model.stem}_\d+{re.escape(model.suffix)}")
    own = out.is_dir() and (out / MANIFEST).exists()
    earlier = [p.name for p in out.iterdir() if pattern.fullmatch(p.name)] if own else []
    require_own(out, {MANIFEST, *earlier})
    estimate, space = _drawn(identified)
    limits = limits_of(identified.robot.options)
    draws = ConsistentSampler().draw(estimate, space, count, seed, limits, progress)
    friction = _friction(identified, count, np.random.default_rng([seed, 1]))
    with new_folder(out) as new:
        for name, values, joints in zip(names, draws.values, friction, strict=True):
            (new / name).write_bytes(_model(identified.robot, estimate.labels, values, joints))
        columns = [
            {"sha256": i["sha256"], "parameters": list(identified.robot.own_names)}
            for i in identified.estimate["inputs"]
            if i["role"] == "own_columns"
        ]
        manifest = {
            "heft": __version__,
            "information": file_hash(results / "information.npz"),
            **({"own_columns": columns[0]} if columns else {}),
            "seed": seed,
            "effective_draws": draws.effective,
            "split_r_hat": draws.disagreement,
            "parameters": list(estimate.labels.names),
            "units": list(estimate.labels.units),
            "files": dict(zip(names, draws.values.tolist(), strict=True)),
        }
        (new / MANIFEST).write_text(json_text(manifest), encoding="utf-8")
    return draws


def _file_name(robot: Robot) -> str:
    return "robot.xml" if robot.form == "mjcf" else "robot.urdf"


def _drawn(identified: Identified) -> tuple[Parameters, ParameterSpace]:
    """Return the parameters to be drawn, with covariance, and their space.

    That is links, rotor inertias and parameters of own columns.

    Raises:
        InputError: If the folder does not hold them.
    """
    solution, space = identified.solution, plant_of(identified.robot).space
    bodies = 10 * len(space.groups)
    own = set(identified.robot.own_names)
    kept = [
        k
        for k, n in enumerate(space.labels.names)
        if k < bodies or n.endswith(".armature") or n in own
    ]
    covariance = np.asarray(solution.covariance)[np.ix_(kept, kept)]
    robots_own = solution.labels.names[: len(space.labels)] == space.labels.names
    if not (robots_own and np.isfinite(covariance).all()):
        raise InputError(
            "the folder does not hold what draws need",
            argument=str(identified.folder / "information.npz"),
            got="numbers that are not finite" if robots_own else "parameters of another robot",
            cure="identify again with this version of heft",
        )
    labels = space.labels.select(kept)
    positive = tuple(kept.index(k) for k in space.nonnegative if k in kept)
    part = replace(
        space,
        labels=labels,
        matrix=np.eye(len(kept)),
        nominal=space.nominal[kept],
        nonnegative=positive,
    )
    return Parameters(labels, solution.values[kept], covariance), part


def _friction(
    identified: Identified, count: int, rng: np.random.Generator
) -> Iterator[dict[str, tuple[float, float]]]:
    """Yield viscous and Coulomb friction by joint for each draw, from normals truncated at 0."""
    drawn = {}
    for joint, entry in identified.estimate["joints"].items():
        if "viscous" not in entry["simple"]:
            continue
        pair = []
        for name in ("viscous", "coulomb"):
            value, std = float(entry["simple"][name]), entry["std"].get(name) or 0.0
            if std > 0.0:
                cut = scipy.stats.truncnorm(-value / std, np.inf, value, std)
                pair.append(cut.rvs(count, random_state=rng))
            else:
                pair.append(np.full(count, value))
        drawn[joint] = np.array(pair)
    for k in range(count):
        yield {joint: (float(v[0, k]), float(v[1, k])) for joint, v in drawn.items()}


def _model(
    robot: Robot, labels: Labels, values: Array, friction: dict[str, tuple[float, float]]
) -> bytes:
    links = {link.name: values[10 * k : 10 * k + 10] for k, link in enumerate(robot.bodies_links)}
    own = set(robot.own_names)  # which no model file can hold
    armature = {
        name.removesuffix(".armature"): float(value)
        for name, value in zip(labels.names, values, strict=True)
        if name.endswith(".armature")
        and name not in own
        and name.removesuffix(".armature") in robot.joints
    }
    return export.write(robot, links, friction, armature)[_file_name(robot)]
