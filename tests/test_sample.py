"""Draws of what an identification knows: of the right distribution, and each a possible robot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
import scipy.stats

from heft.applications.demo import FOLDER as DEMO
from heft.applications.identification import identify, write
from heft.applications.sample import sample_files
from heft.certainty import ConsistentSampler
from heft.certainty.consistent_samples import agreement
from heft.errors import InputError, InvalidSetting, SolverFailure
from heft.estimators import IDENTITY, Limits, PhysicallyConsistent, cone_metric
from heft.information import Labels, Parameters, ParameterSpace, Triangle, inertia, triangle_of

BODY = inertia.from_body(2.0, np.array([0.05, -0.02, 0.1]), np.diag([0.03, 0.04, 0.02]))
NAMES = ("m", "h.x", "h.y", "h.z", "I.xx", "I.xy", "I.yy", "I.xz", "I.yz", "I.zz")


def space_of(count: int, groups: tuple[int, ...], positive: tuple[int, ...]) -> ParameterSpace:
    names = tuple(f"load.{n}" for n in NAMES) if groups else tuple(f"x{k}" for k in range(count))
    labels = Labels(names, ("1",) * count)
    nominal = BODY if groups else np.ones(count)
    return ParameterSpace(labels, np.eye(count), nominal, groups, positive)


def test_without_constraints_it_is_the_normal_distribution() -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(4, 4)) @ np.diag([1e-3, 1.0, 10.0, 1e3])
    mean, covariance = np.arange(4.0), root.T @ root
    space = space_of(4, (), ())
    found = ConsistentSampler().draw(Parameters(space.labels, mean, covariance), space, 4000, 1)
    off = found.values - mean
    scale = np.sqrt(np.diag(covariance))
    assert np.abs(off.mean(axis=0) / scale).max() < 0.07
    assert np.allclose(
        off.T @ off / 4000 / np.outer(scale, scale), covariance / np.outer(scale, scale), atol=0.08
    )


def test_numbers_that_are_not_negative_are_truncated_normals() -> None:
    space = space_of(2, (), (0, 1))
    mean, std = np.array([0.5, 0.0]), np.array([1.0, 2.0])
    estimate = Parameters(space.labels, mean, np.diag(std**2))
    found = ConsistentSampler().draw(estimate, space, 3000, 2).values
    assert found.min() >= 0.0
    for k in range(2):
        exact = scipy.stats.truncnorm(-mean[k] / std[k], np.inf, mean[k], std[k])
        assert scipy.stats.kstest(found[::3, k], exact.cdf).pvalue > 1e-3


def test_bodies_are_those_that_rejection_leaves() -> None:
    """The oracle draws the normal distribution and keeps what is a body."""
    space, rng = space_of(10, (0,), ()), np.random.default_rng(3)
    std = np.array([0.8, 0.1, 0.1, 0.1, 0.02, 0.01, 0.02, 0.01, 0.01, 0.015])
    draws = BODY + std * rng.normal(size=(40_000, 10))
    kept = draws[[inertia.consistency_margin(d) > 0.0 for d in draws]]
    assert 0.05 < len(kept) / len(draws) < 0.8
    estimate = Parameters(space.labels, BODY, np.diag(std**2))
    found = ConsistentSampler().draw(estimate, space, 2000, 4)
    assert min(inertia.consistency_margin(d) for d in found.values) > 0.0
    assert found.effective >= 2000 and found.disagreement < 1.05
    for k in range(10):
        size = kept[:, k].std()
        assert abs(found.values[:, k].mean() - kept[:, k].mean()) < 0.12 * size
        assert found.values[:, k].std() == pytest.approx(size, rel=0.1)


def test_limits_hold_and_a_known_mass_stays() -> None:
    space = space_of(10, (0,), ())
    std = 0.1 * np.maximum(np.abs(BODY), 0.01)
    estimate = Parameters(space.labels, BODY, np.diag(std**2))
    known = Limits({"load": (2.0, 2.0)}, {"load": ((0.04, 0.06), (-0.03, 0.0), (0.0, 0.11))})
    found = ConsistentSampler().draw(estimate, space, 200, 5, known).values
    assert np.allclose(found[:, 0], 2.0, rtol=1e-9)
    com = found[:, 1:4] / found[:, :1]
    assert (com >= [0.04 - 1e-6, -0.03 - 1e-6, -1e-6]).all()
    assert (com <= [0.06 + 1e-6, 1e-6, 0.11 + 1e-6]).all()


def seen_through(rows: np.ndarray, right: np.ndarray) -> Triangle:
    factor = triangle_of(np.column_stack([rows, right]))
    return Triangle(np.arange(rows.shape[1]), factor, len(rows))


def normal(triangle: Triangle, space: ParameterSpace, strength: float) -> tuple[Any, Any]:
    """Mean and covariance of the posterior that nothing cuts, in information form."""
    metric = np.linalg.inv(cone_metric(space.nominal))
    information = triangle.R.T @ triangle.R + strength * metric.T @ metric
    right = triangle.R.T @ triangle.z + strength * metric.T @ metric @ space.nominal
    return np.linalg.solve(information, right), np.linalg.inv(information)


ROWS = np.eye(10)[[0, 3, 9]] / np.array([[0.2], [0.05], [0.005]])


@pytest.mark.parametrize("said", [[2.0, 0.2, 0.02], [0.5, 0.25, 0.005]])
def test_the_posterior_is_what_rejection_leaves(said: list[float]) -> None:
    """Also where least squares is no body: the oracle draws around it and keeps what is one."""
    space = space_of(10, (0,), ())
    triangle = seen_through(ROWS, ROWS @ np.eye(10)[[0, 3, 9]].T @ np.array(said))
    mean, covariance = normal(triangle, space, 4.0)
    draws = np.random.default_rng(1).multivariate_normal(mean, covariance, 400_000)
    kept = draws[np.linalg.eigvalsh(inertia.pseudo_inertia(draws))[:, 0] > 0.0]
    assert len(kept) > 1500
    assert (inertia.consistency_margin(mean) > 0.0) == (said[0] > 1.0)
    prior = PhysicallyConsistent(strength=4.0)
    found = ConsistentSampler().posterior(triangle, space, prior, 2000, 3)
    assert found.effective >= 2000 and found.disagreement < 1.01
    size = kept.std(axis=0)
    off = np.abs(found.values.mean(axis=0) - kept.mean(axis=0))
    assert (off < 4.0 * size * np.sqrt(1.0 / 2000 + 1.0 / len(kept))).all()
    assert np.allclose(found.values.std(axis=0), size, rtol=0.1)


def test_intervals_of_the_posterior_hold_draws_of_its_prior() -> None:
    """Bodies drawn from the prior, experiments with each: 95 of 100 within 95 % intervals."""
    space, rng, inside = space_of(10, (0,), ()), np.random.default_rng(8), []
    metric, sampler = cone_metric(space.nominal), ConsistentSampler(directions=300, every=10)
    while len(inside) < 60:
        truth = metric @ (IDENTITY + 0.5 * rng.normal(size=10))
        if inertia.consistency_margin(truth) <= 0.0:
            continue
        triangle = seen_through(ROWS, ROWS @ truth + rng.normal(size=3))
        draws = sampler.posterior(triangle, space, PhysicallyConsistent(4.0), 400, len(inside))
        low, high = np.quantile(draws.values, (0.025, 0.975), axis=0)
        inside.append((low <= truth) & (truth <= high))
    # Ten numbers of a body are no ten independent ones: taken for three.
    assert abs(np.mean(inside) - 0.95) < 3.0 * np.sqrt(0.95 * 0.05 / 180)


def test_the_posterior_keeps_limits_and_leaves_what_is_silent() -> None:
    """A mass that is known stays, friction is not negative, and a drive that nothing sees is 0."""
    body = space_of(10, (0,), ())
    labels = Labels((*body.labels.names, "a.viscous", "b.viscous"), ("1",) * 12)
    nominal = np.append(BODY, [0.0, 0.0])
    space = ParameterSpace(labels, np.eye(12), nominal, (0,), (10, 11))
    rows = np.zeros((2, 12))
    rows[0, [0, 3]], rows[1, 10] = [3.0, 20.0], 5.0
    limits = Limits({"load": (2.0, 2.0)}, {"load": ((0.0, 0.1), (-0.1, 0.1), (0.0, 0.2))})
    prior = PhysicallyConsistent(strength=4.0, limits=limits)
    found = (
        ConsistentSampler()
        .posterior(seen_through(rows, np.array([10.0, 0.5])), space, prior, 500, 6)
        .values
    )
    assert np.allclose(found[:, 0], 2.0, rtol=1e-9)
    com = found[:, 1:4] / found[:, :1]
    assert (com >= [-1e-6, -0.1 - 1e-6, -1e-6]).all() and (com <= [0.1001, 0.1001, 0.2001]).all()
    exact = scipy.stats.truncnorm(-0.5, np.inf, 0.1, 0.2)
    assert scipy.stats.kstest(found[:, 10], exact.cdf).pvalue > 1e-3
    assert not found[:, 11].any()
    with pytest.raises(InvalidSetting, match="normal prior"):
        ConsistentSampler().posterior(
            seen_through(rows, np.zeros(2)), space, PhysicallyConsistent(prior="logdet"), 10, 0
        )


def test_what_chains_are_worth_is_that_of_an_autoregression() -> None:
    """Draws with correlation ρ from one to the next are worth (1 − ρ)/(1 + ρ) of their number."""
    rng, rho = np.random.default_rng(6), 0.8
    chains = np.zeros((8, 4000, 1))
    noise = rng.normal(size=chains.shape)
    for k in range(1, 4000):
        chains[:, k] = rho * chains[:, k - 1] + np.sqrt(1.0 - rho**2) * noise[:, k]
    effective, disagreement = agreement(chains)
    assert effective == pytest.approx(8 * 4000 * (1 - rho) / (1 + rho), rel=0.15)
    assert disagreement < 1.01
    chains[0] += 3.0  # one that never came to where the others are
    effective, disagreement = agreement(chains)
    assert effective < 100 and disagreement > 1.2


def test_draws_that_do_not_converge_are_refused() -> None:
    space = space_of(10, (0,), ())
    estimate = Parameters(space.labels, BODY, np.diag(0.01 * BODY**2 + 1e-6))
    with pytest.raises(SolverFailure, match="converge"):
        ConsistentSampler(most=400).draw(estimate, space, 10**6, 0)


@pytest.fixture(scope="module")
def identified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample") / "identified"
    write(identify(DEMO / "arm.urdf", [DEMO / "run1.parquet"]), folder)
    return folder


def test_files_are_robots_and_spread_as_the_intervals_say(identified: Path, tmp_path: Path) -> None:
    sample_files(identified, tmp_path / "draws", 30, 7)
    files = sorted((tmp_path / "draws").glob("robot_*.urdf"))
    assert len(files) == 30
    models = [pin.buildModelFromUrdf(str(f)) for f in files]
    for model in models:
        for body in list(model.inertias)[1:]:
            assert inertia.consistency_margin(body.toDynamicParameters()) > 0.0
    stated = {p["name"]: p for p in _parameters(identified)}
    manifest = json.loads((tmp_path / "draws" / "samples.json").read_text())
    assert list(manifest["files"]) == [f.name for f in files]
    values = np.array(list(manifest["files"].values()))
    told = [n for n, p in stated.items() if n.endswith(".mass") and p["share"] > 0.9]
    for name in told:
        column = values[:, manifest["parameters"].index(name.replace(".mass", ".m"))]
        assert abs(column.mean() - stated[name]["value"]) < 1.5 * stated[name]["std"]
        assert 0.3 < column.std() / stated[name]["std"] < 1.6
    sample_files(identified, tmp_path / "again", 30, 7)
    for f in (*files, tmp_path / "draws" / "samples.json"):
        assert f.read_bytes() == (tmp_path / "again" / f.name).read_bytes()
    assert len({f.read_bytes() for f in files}) == 30


def _parameters(folder: Path) -> list[dict[str, Any]]:
    return list(json.loads((folder / "estimate.json").read_text())["parameters"])


def test_what_is_no_result_is_refused(identified: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="number of files"):
        sample_files(identified, tmp_path / "out", 0)
    with pytest.raises(InputError, match="folder of results"):
        sample_files(tmp_path, tmp_path / "out", 2)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years")
    with pytest.raises(InvalidSetting):
        sample_files(identified, tmp_path / "mine", 2)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "robot_1.urdf").write_text("not drawn")  # no samples.json beside it
    with pytest.raises(InvalidSetting):
        sample_files(identified, tmp_path / "theirs", 2)
    assert not (tmp_path / "out").exists() and (tmp_path / "mine" / "thesis.txt").exists()
