"""Python answers a guess: each natural call, typed as it stands in a folder of files."""

from __future__ import annotations

import pydoc
import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

import heft
from heft.applications.demo import FOLDER as DEMO
from heft.errors import HeftError, InvalidSetting

from . import experiments
from .natural_calls import CALLS, Call

ARM = DEMO / "arm.urdf"
pytestmark = pytest.mark.usefixtures("without_doctor")


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what calls see; the folder with their files is under `folder`."""
    folder = tmp_path_factory.mktemp("natural")
    # The demo's arm with its wrist held: with half the joints all is identified sooner.
    held = re.sub(r'(name="wrist_._joint" type=)"revolute"', r'\1"fixed"', ARM.read_text("utf-8"))
    (folder / "arm.urdf").write_text(held, encoding="utf-8")
    robot, rng = heft.Robot.from_file(folder / "arm.urdf"), np.random.default_rng(1)
    drives = {f"{j}.{t}": s for j in robot.joints for t, s in (("viscous", 8.0), ("coulomb", 9.0))}
    for name in ("run1", "run2"):
        recording = experiments.log(experiments.Truth(robot, drives), 6.0, 100.0, rng)
        (block,) = recording.blocks(recording.signals)
        columns = {"t": block.time, **dict(zip(recording.signals, block.values.T, strict=True))}
        pyarrow.csv.write_csv(pyarrow.table(columns), folder / f"{name}.csv")
    run1 = pyarrow.csv.read_csv(folder / "run1.csv")
    pyarrow.parquet.write_table(run1, folder / "run1.parquet")
    log = heft.Recording.open(folder / "run1.csv")
    result = heft.identify(robot, log)
    result.save(folder / "identified")
    columns = {n: run1[n].to_numpy() for n in run1.column_names}
    return {
        **{"heft": heft, "np": np, "Path": Path, "pydoc": pydoc, "folder": folder},
        **{"robot": robot, "log": log, "result": result},
        **{"columns": columns, "frame": run1},
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


def test_bodies_are_those_of_the_model_file_that_is_written(names: dict[str, Any]) -> None:
    """An XML reader of Python's own finds in it what `links` says, digit by digit."""
    result, path = names["result"], names["folder"] / "again.urdf"
    result.to_urdf(path)
    written = {k.get("name"): k.find("inertial") for k in ElementTree.parse(path).iter("link")}
    for name, body in result.links.items():
        inertial = written[name]
        assert inertial is not None
        mass, origin, six = (inertial.find(tag) for tag in ("mass", "origin", "inertia"))
        assert mass is not None and origin is not None and six is not None
        assert float(mass.get("value", "")) == pytest.approx(body.mass, rel=1e-9)
        centre = [float(x) for x in origin.get("xyz", "").split()]
        np.testing.assert_allclose(centre, body.com, rtol=1e-9, atol=1e-12)
        trace = sum(float(six.get(k, "")) for k in ("ixx", "iyy", "izz"))
        assert trace == pytest.approx(np.trace(body.inertia), rel=1e-9)  # whatever the axes
        assert np.array_equal(result.tens[name][:1], body.ten[:1])
        np.testing.assert_allclose(body.ten, result.tens[name], rtol=1e-9, atol=1e-12)


def test_covariance_is_what_small_changes_of_the_parameters_make(names: dict[str, Any]) -> None:
    """Numbers of the last link by differences of c = h/m and I − m(cᵀc 1 − c cᵀ)."""
    result = names["result"]
    first = 10 * (len(result.links) - 1)
    ten = result.solution.values[first : first + 10]

    def centre(x: Any) -> Any:
        return x[1:4] / x[0]

    steps = 1e-6 * np.abs(ten).max() * np.eye(10)
    slopes = np.array([(centre(ten + h) - centre(ten - h)) / (2.0 * h.max()) for h in steps]).T
    own = result.solution.covariance[first : first + 10, first : first + 10]
    expected = slopes @ own @ slopes.T
    got = result.cov()[first + 1 : first + 4, first + 1 : first + 4]
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-9 * np.abs(expected).max())


def test_results_that_are_read_again_answer_as_the_fresh_ones(names: dict[str, Any]) -> None:
    fresh, again, log = names["result"], heft.load(names["folder"] / "identified"), names["log"]
    assert again.summary() == fresh.summary() and again._repr_html_() == fresh._repr_html_()
    assert again.conf_int() == fresh.conf_int() and again.to_frame().equals(fresh.to_frame())
    for here, there in zip(fresh.predict(log), again.predict(log), strict=True):
        np.testing.assert_array_equal(here, there)
    parts = [part.effort for part in again.predictions(log)]
    np.testing.assert_array_equal(np.concatenate(parts), fresh.predict(log).torque)


def test_a_plot_without_its_library_says_what_to_install(
    names: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(InvalidSetting, match="pip install matplotlib"):
        names["result"].plot()
