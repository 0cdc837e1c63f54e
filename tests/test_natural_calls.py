"""Python answers a guess: each natural call, typed as it stands in a folder of files."""

from __future__ import annotations

import pydoc
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

import heft
from heft.applications.demo import FOLDER as DEMO
from heft.errors import HeftError

from .natural_calls import CALLS, Call


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what calls see; the folder with their files is under `folder`."""
    folder = tmp_path_factory.mktemp("natural")
    shutil.copy(DEMO / "arm.urdf", folder)
    table = pyarrow.parquet.read_table(DEMO / "run1.parquet")
    half = len(table) // 2
    for name, rows in (("run1", table[:half]), ("run2", table[half:])):
        pyarrow.csv.write_csv(rows, folder / f"{name}.csv")
    pyarrow.parquet.write_table(table[:half], folder / "run1.parquet")
    robot = heft.Robot.from_file(folder / "arm.urdf")
    log = heft.Recording.open(folder / "run1.csv")
    result = heft.identify(robot, log)
    result.save(folder / "identified")
    columns = {n: table[n][:half].to_numpy() for n in table.column_names}
    return {
        **{"heft": heft, "np": np, "Path": Path, "pydoc": pydoc, "folder": folder},
        **{"robot": robot, "log": log, "result": result},
        **{"columns": columns, "frame": table[:half]},
    }


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.typed)
def test_a_natural_call_does_what_it_says(
    call: Call, names: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(names["folder"])
    monkeypatch.setenv("MPLBACKEND", "agg")
    if call.says:
        with pytest.raises((HeftError, AttributeError)) as caught:
            eval(call.typed, names)  # the list is this folder's own
        said = str(caught.value).lower()
        assert not [word for word in call.says if word.lower() not in said], said
    else:
        it = eval(call.typed, names)
        assert eval(call.holds, {**names, "it": it}), it
