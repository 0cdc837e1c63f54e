"""How estimators compare on the same data, simulated in closed loop by another simulator.

    python -m benchmarks.estimators --development [--guesses 5]
    python -m benchmarks.estimators [--guesses 25] [--jobs 2] [--only lwr4 ...] [--store]

Constants are chosen with `--development`, whose seed is below 100; figures are of seed 1000. Trials
are kept in `benchmarks/.cache/estimators-*`, and not made twice (`heft bench` is what makes them).

Estimators that simulate are asked to halve the bias that noise of the regressors makes, in class:
where friction is of another form than they are told, the bias is that form's, and no way of making
regressors takes it away. There the same ratio stands without a bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.program import benchmark, cache_path
from benchmarks.results_file import Row, at_least, at_most
from heft_methods.bench import BenchSettings, Summary, names, run_bench

# Know neither the controller nor the form of the simulator's friction.
BLIND = ("heft", "heft-filtered", "heft-differentiated", "dictionary", "simple")
LOOPED = ("least-squares", "weak-form", "instrumental", "didim")
TOLD = ("least-squares", "weak-form")  # know that it is F tanh(v/s), and s
OFTEN = "high"
FIRST_SCORED = 1000
USUAL = BenchSettings().estimators
DURATION = 10.0  # of the logs [s]


def rows(found: Sequence[Summary], often: Sequence[Summary]) -> Iterator[Row]:
    """Yield what was asked for, and what was found beside it.

    Args:
        found: Of all estimators.
        often: Of those that simulate, in more trials of some cases.
    """
    cases, repeated = _by_case(found), _by_case(often)
    for name, by in cases.items():
        if "high" in name and "least-squares" in by:
            yield from _biases(name, repeated.get(name, by), "in class" in name)
        blind = {n: by[n].torque[0] for n in BLIND if n in by and by[n].ended}
        if "heft" in blind:
            best = min(blind, key=lambda n: blind[n])
            ratio = blind["heft"] / blind[best]
            yield at_most(f"{name}: torque error, heft", ratio, "of the best", 1.2, best)
            for told in (n for n in TOLD if n in by and by[n].ended):
                ratio = blind["heft"] / by[told].torque[0]
                against = "which knows the form of friction"
                yield Row(f"{name}: torque error, heft", ratio, f"of {told}", against=against)
        for s in by.values():
            yield from _plain(name, s)


def _by_case(found: Sequence[Summary]) -> dict[str, dict[str, Summary]]:
    """Return summaries by case and estimator."""
    cases: dict[str, dict[str, Summary]] = {}
    for s in found:
        cases.setdefault(s.case.name, {})[s.name] = s
    return cases


def _biases(name: str, by: Mapping[str, Summary], of_noise: bool) -> Iterator[Row]:
    """Yield the bias of estimators that simulate, over that of least squares.

    Args:
        of_noise: Whether it is the noise's, since friction is of the form that they are told.
    """
    plain = by["least-squares"].bias
    half = 0.5 if of_noise else None
    for method, bound in (("instrumental", half), ("didim", half), ("weak-form", None)):
        if method in by and by[method].ended:
            for k, place in enumerate(("median", "90th percentile")):
                ratio = by[method].bias[k] / plain[k]
                against = f"least squares, {plain[k]:.3g} bounds, {by[method].trials} trials"
                yield at_most(f"{name}: bias, {place}, {method}", ratio, "", bound, against)


def _plain(name: str, s: Summary) -> Iterator[Row]:
    of = f"of {s.trials} trials"
    yield at_least(f"{name}: ended, {s.name}", s.ended / max(s.trials, 1), of, 1.0)
    if s.ended:
        yield Row(f"{name}: bias, median, {s.name}", s.bias[0], "bounds")
        yield Row(f"{name}: bias, 90th percentile, {s.name}", s.bias[1], "bounds")
        unknown = None if s.trials > 1 else "one trial tells none"
        yield Row(
            f"{name}: standard error of bias, {s.name}", s.bias_known_to, "bounds", against=unknown
        )
        yield Row(f"{name}: rms error, median, {s.name}", s.rmse[0], "bounds")
        yield Row(f"{name}: torque error, {s.name}", 100.0 * s.torque[0], "%")
        yield Row(f"{name}: coverage, {s.name}", s.coverage, "")
        yield Row(f"{name}: time, {s.name}", s.seconds, "s")


def plan(seed: int, guesses: int, few: int, jobs: int) -> Mapping[str, BenchSettings]:
    """Return what is run, by folder: ten estimators on one robot most often, the rest less."""
    same = {"seed": seed, "jobs": jobs, "duration": DURATION}
    both = ("in class", "lugre")
    rest = tuple(n for n in names() if n not in BenchSettings().estimators)
    return {
        "lwr4": BenchSettings(estimators=USUAL, guesses=guesses, **same),
        "lwr4-lugre": BenchSettings(friction=("lugre",), guesses=few, **same),
        "tx40": BenchSettings(("tx40",), friction=both, guesses=few, **same),
        "ur": BenchSettings(("ur",), friction=both, guesses=few, **same),
        # Of these the asked ratio is of a 90th percentile, which few trials do not tell.
        OFTEN: BenchSettings(("tx40", "ur"), ("high",), estimators=LOOPED, guesses=guesses, **same),
        "rest": BenchSettings(estimators=rest, guesses=few, **same),
    }


FEW = ("least-squares", "weak-form")


@benchmark(
    {
        **{"development": True, "only": ("lwr4", OFTEN), "guesses": 1, "few": 1, "jobs": 1},
        **{"DURATION": 2.0, "USUAL": FEW, "LOOPED": FEW},
    },
    unstored=("development", "only"),
)
def main(
    *,
    development: bool = False,
    only: tuple[str, ...] = (),
    guesses: int = 25,
    few: int = 5,
    jobs: int = 2,
) -> Iterator[Row]:
    """Run what is left, and yield the rows.

    Args:
        development: The seed to choose constants on.
        only: Folders of the plan; all if not given.
        guesses: Trials on lwr4, in class.
        few: Trials elsewhere.
        jobs: Processes.
    """
    summaries: dict[str, Sequence[Summary]] = {}
    for name, settings in plan(3 if development else FIRST_SCORED, guesses, few, jobs).items():
        if not only or name in only:
            out = cache_path(f"estimators-{name}")
            summaries[name] = run_bench(settings, out, progress=print).summaries
    often = summaries.pop(OFTEN, ())
    yield from rows([s for some in summaries.values() for s in some], often)


if __name__ == "__main__":
    main()
