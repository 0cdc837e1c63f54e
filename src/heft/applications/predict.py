"""Prediction of joint torques for a log, from the results of an identification."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from heft.applications.identification import Identified
from heft.applications.inputs import Inputs
from heft.arrays import Array
from heft.errors import InvalidRecording, InvalidSetting
from heft.files import put, require_writable, workshop
from heft.fit import Progress, silent
from heft.recordings import Table, write_table


def predict_files(
    folder: Path,
    log: Path,
    out: Path,
    columns: Path | None = None,
    friction: Literal["full", "simple", "none"] = "full",
    own_columns: Path | None = None,
    progress: Progress = silent,
) -> int:
    """Predict the joint torques of a log and write them to a file, whole or not at all.

    Args:
        out: Parquet or CSV file to write: `t` [s], `tau.<joint>`, its rigid-body part
            `tau_rigid.<joint>` and, with full friction, its standard deviation `tau_std.<joint>`
            [N·m or N].
        friction: Friction model: `full`, `simple`, or `none` for rigid bodies and rotors only.
        progress: Told of each drive whose friction is extrapolated beyond the fitted logs' speeds.

    Returns:
        Number of rows written.

    Raises:
        InvalidSetting: If the output is neither Parquet nor CSV, is a folder, cannot be written, or
            would overwrite the log.
        InvalidRecording: If the log is too short, or changes while it is read.
        InputError: If the folder of results or the log is invalid.
    """
    if out.suffix.lower() not in (".parquet", ".csv"):
        raise InvalidSetting(
            "the output is neither Parquet nor CSV",
            argument=f"--out {out}",
            valid=(".parquet", ".csv"),
        )
    require_writable(out)
    if out.is_dir():
        raise InvalidSetting("the output is a folder, not a file", argument=f"--out {out}")
    identified = Identified.load(folder, own_columns)
    inputs = Inputs(identified.robot).with_columns(columns).with_logs(log=[log])
    (recording,) = inputs.logs["log"]
    if out.exists() and out.samefile(log):
        raise InvalidSetting(
            "the output would overwrite the log", argument=f"--out {out}", cure="name another file"
        )
    pieces = identified.predictions(recording, friction)
    first = next(pieces, None)  # a log that cannot be used is refused before anything is made
    if first is None:
        raise InvalidRecording(
            "the log is too short to predict anything",
            argument=str(log),
            expected="at least ten rows without a gap",
        )
    channels = identified.robot.channels
    kinds = ["tau", "tau_rigid"]
    if friction == "full" and identified.deviation is not None:
        kinds.append("tau_std")
    names = ("t", *(f"{kind}.{c}" for kind in kinds for c in channels))
    faster = dict[str, float]()

    def read(_: Sequence[str]) -> Iterator[Array]:
        for piece in itertools.chain([first], pieces):
            time, *efforts = piece
            yield np.column_stack([time, *efforts[: len(kinds)]])
            for drive, factor in identified.extrapolated(piece.speed).items():
                faster[drive] = max(factor, faster.get(drive, 0.0))

    with workshop(out) as folder:
        rows, *_ = write_table(Table(str(log), names, None, read), folder / out.name)
        inputs.refuse_changed()
        put(folder / out.name, out)
    for drive, factor in faster.items() if friction != "none" else ():
        progress(
            f"note: {drive} moves {factor:.2g} times as fast as in the fitted logs: its friction "
            "there is extrapolated. Identify from a log of such speeds, too"
        )
    return rows
