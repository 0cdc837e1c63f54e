"""HDF5 and MATLAB files, as other programs write them, are tables as NPZ files are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import scipy.io
from numpy.typing import NDArray

from heft.errors import InvalidRecording
from heft.recordings.columns import ColumnMap
from heft.recordings.formats.registry import read_table
from heft.recordings.recording import Recording

Array = NDArray[Any]
ROWS = 50
RNG = np.random.default_rng(0)
T, Q, TAU = 0.02 * np.arange(ROWS), RNG.normal(size=(ROWS, 3)), RNG.normal(size=(ROWS, 3))


def matlab_73(path: Path, arrays: dict[str, Array]) -> Path:
    """Write what MATLAB does with `-v7.3`: transposes, matrices only, a head of its own."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in arrays.items():
            written = np.atleast_2d(array) if array.ndim == 1 else array.T
            file.create_dataset(name, data=written).attrs["MATLAB_class"] = np.bytes_("double")
        file["#refs#/a"] = np.zeros(4)
    data = b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(126) + b"IM"
    with path.open("r+b") as raw:
        raw.write(data[:124] + b"\0\2IM")
    return path


def saved(path: Path, arrays: dict[str, Array], **options: Any) -> Path:
    scipy.io.savemat(path, arrays, **options)
    return path


MATLAB: dict[str, Callable[[Path], Path]] = {
    "plain": lambda p: saved(p, {"t": T, "q": Q, "tau": TAU}),
    "packed": lambda p: saved(p, {"t": T, "q": Q, "tau": TAU}, do_compression=True),
    "columns": lambda p: saved(p, {"t": T[:, None], "q": Q, "tau": TAU}, oned_as="column"),
    "samples in columns": lambda p: saved(p, {"t": T, "q": Q.T, "tau": TAU.T}),
    "integers": lambda p: saved(
        p, {"t": T.astype(np.float32), "q": np.int16(9 * Q), "tau": np.uint8(TAU > 0)}
    ),
    "version 7.3": lambda p: matlab_73(p, {"t": T, "q": Q, "tau": TAU}),
    "samples in columns, 7.3": lambda p: matlab_73(p, {"t": T, "q": Q.T, "tau": TAU.T}),
    "beside others": lambda p: saved(
        p, {"t": T, "q": Q, "tau": TAU, "note": "text", "cells": np.array(["a", 1.0], object)}
    ),
}


def everything(path: Path, names: list[str]) -> Array:
    return np.concatenate(list(read_table(path).read(names)))


@pytest.mark.parametrize("kind", MATLAB)
def test_matrices_of_matlab_are_columns(kind: str, tmp_path: Path) -> None:
    path = MATLAB[kind](tmp_path / "run.mat")
    names = ["t", *(f"{m}[{k}]" for m in ("q", "tau") for k in range(3))]
    assert sorted(read_table(path).columns) == sorted(names)
    values = {"integers": [T.astype(np.float32), np.int16(9 * Q), TAU > 0]}.get(kind, [T, Q, TAU])
    assert np.array_equal(everything(path, names), np.column_stack(values))


@pytest.mark.parametrize("write", [saved, matlab_73])
def test_a_structures_fields_are_named_behind_it(
    write: Callable[[Path, dict[str, Array]], Path], tmp_path: Path
) -> None:
    path = tmp_path / "run.mat"
    if write is saved:
        saved(path, {"log": {"t": T, "arm": {"q": Q}}})  # type: ignore[dict-item]
    else:
        matlab_73(path, {"log/t": T, "log/arm/q": Q})
    assert np.array_equal(
        everything(path, ["log.t", "log.arm.q[2]"]), np.column_stack([T, Q])[:, [0, 3]]
    )


def episode(path: Path, **options: Any) -> Path:
    """Write an episode of a teleoperated arm: no time, images beside numbers."""
    with h5py.File(path, "w") as file:
        seen = file.create_group("observations")
        seen.create_dataset("qpos", data=Q, **options)
        seen.create_dataset("effort", data=TAU.astype(np.float32), **options)
        seen.create_dataset("images/top", data=np.zeros((ROWS, 4, 4, 3), np.uint8))
        file.create_dataset("action", data=Q[:20])
        file.create_dataset("task", data="pick")
    return path


@pytest.mark.parametrize("options", [{}, {"compression": "gzip", "chunks": (7, 3)}])
def test_an_episode_is_read_with_a_map(options: dict[str, Any], tmp_path: Path) -> None:
    path = episode(tmp_path / "episode.hdf5", **options)
    (tmp_path / "map.toml").write_text(
        "[time]\nstep = 0.02\n"
        '[q]\ncolumns = ["observations/qpos[0]", "observations/qpos[2]"]\njoints = ["a", "c"]\n'
        '[tau]\ncolumns = ["observations/effort[2]"]\njoints = ["c"]\n'
    )
    recording = Recording.open(path, ColumnMap.from_toml(tmp_path / "map.toml"))
    found = recording.whole(["q.a", "q.c", "tau.c"])
    assert np.array_equal(found.values[:, :2], Q[:, [0, 2]])
    assert np.array_equal(found.values[:, 2], TAU[:, 2].astype(np.float32))
    assert np.allclose(found.time, T)
    assert set(recording.table.others) == {"observations/images/top", "task"}
    with pytest.raises(InvalidRecording, match="differ in length"):
        everything(path, ["action[0]", "observations/qpos[0]"])


def test_canonical_names_need_no_map(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "run.h5", "w") as file:
        file["t"], file["q.a"], file["tau.a"] = T, Q[:, 0], TAU[:, 0]
    assert np.array_equal(
        Recording.open(tmp_path / "run.h5").whole(["tau.a"]).values[:, 0], TAU[:, 0]
    )


def test_a_file_reaches_into_no_other(tmp_path: Path) -> None:
    episode(tmp_path / "other.hdf5")
    path = tmp_path / "run.hdf5"
    with h5py.File(path, "w") as file:
        file["own"] = T
        file["link"] = h5py.ExternalLink("other.hdf5", "/observations/qpos")
        layout = h5py.VirtualLayout(shape=(ROWS, 3), dtype=float)
        layout[:] = h5py.VirtualSource(tmp_path / "other.hdf5", "observations/qpos", (ROWS, 3))
        file.create_virtual_dataset("virtual", layout)
        outside = [(str(tmp_path / "other.hdf5"), 0, 8 * ROWS)]
        file.create_dataset("outside", (ROWS,), dtype="<f8", external=outside)
    assert read_table(path).columns == ("own",)


@pytest.mark.parametrize("name", ["run.hdf5", "run.mat", "packed.mat", "7.3.mat"])
def test_a_cut_file_is_refused_by_name(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    write = {"run.mat": MATLAB["plain"], "packed.mat": MATLAB["packed"], "run.hdf5": episode}
    write.get(name, MATLAB["version 7.3"])(path)
    data = path.read_bytes()
    for share in (0.01, 0.3, 0.9):
        path.write_bytes(data[: int(share * len(data))])
        with pytest.raises(InvalidRecording, match=name):
            read_table(path)


def test_arrays_that_claim_more_than_the_file_can_hold_are_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "run.hdf5", "w") as file:
        file.create_dataset("empty", (1 << 32,), dtype="<f8", chunks=(1024,))
    with pytest.raises(InvalidRecording, match="claim to hold"):
        read_table(tmp_path / "run.hdf5")
    saved(tmp_path / "run.mat", {"zeros": np.zeros(36 << 20)}, do_compression=True)
    with pytest.raises(InvalidRecording, match="hold more than"):
        read_table(tmp_path / "run.mat")


def test_a_damaged_dataset_is_left_out_by_salvage(tmp_path: Path) -> None:
    path = tmp_path / "run.hdf5"
    with h5py.File(path, "w") as file:
        file.create_dataset("t", data=T)
        file.create_dataset("q.a", data=Q[:, 0], chunks=(ROWS,), fletcher32=True)
    data = path.read_bytes()
    place = data.index(Q[:, 0].tobytes())
    path.write_bytes(data[:place] + bytes(8) + data[place + 8 :])
    with pytest.raises(InvalidRecording, match=r"q\.a"):
        read_table(path)
    damage: list[str] = []
    assert read_table(path, damaged=lambda p: damage.append(str(p))).columns == ("t",)
    assert len(damage) == 1


def test_the_missing_library_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = episode(tmp_path / "episode.hdf5")

    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr("heft.errors.import_module", missing)
    with pytest.raises(InvalidRecording, match=r"heft-robotics\[hdf5\]"):
        read_table(path)
