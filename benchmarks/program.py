"""A benchmark is a program, and its options are the arguments of a function that yields rows.

    @benchmark({"seeds": 1, "SAMPLES": 100})
    def main(*, seeds: int = 20) -> Iterator[Row]:
        …

`python -m benchmarks.NAME` measures and prints, `--store` keeps the table. `--smoke` runs the same
to its end with little of everything, in seconds, and keeps nothing: options, and constants of the
module (in capitals), that the decorator states. What a long run need not make twice lies in
`cache_path()`; a smoke run has one of its own.
"""

from __future__ import annotations

import argparse
import datetime
import inspect
import json
import multiprocessing
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args
from unittest.mock import patch

from benchmarks import sources
from benchmarks.results_file import Row, machine, table

Item, Made = TypeVar("Item"), TypeVar("Made")
RESULTS = sources.BENCHMARKS / "results"
CACHE = "HEFT_BENCHMARKS_CACHE"  # environment variable, so that processes have it, too


def cache_path(name: str) -> Path:
    """Return where a benchmark keeps what it need not make twice."""
    return Path(os.environ.get(CACHE, sources.BENCHMARKS / ".cache")) / name


def commit() -> str:
    """Return the commit measured, with a mark if files were changed since."""
    changed = sources.git("status", "--porcelain", "--", "src", "benchmarks/*.py")
    return "".join(sources.git("rev-parse", "--short", "HEAD") or []) + ("+" if changed else "")


def processor() -> float:
    """Return the processor's time of this process and of those that it waited for [s]."""
    return sum(os.times()[:4])


def spread(
    work: Callable[[Item], Made], items: Iterable[Item], jobs: int
) -> Iterator[tuple[Item, Future[Made]]]:
    """Yield items with what was made of them, or the error, as they end.

    Args:
        work: What is done.
        items: With what.
        jobs: Processes; with one it is done in this process.
    """
    if jobs == 1:
        for item in items:
            here: Future[Made] = Future()
            try:
                here.set_result(work(item))
            except Exception as error:
                here.set_exception(error)
            yield item, here
        return
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        futures = {pool.submit(work, item): item for item in items}
        for future in as_completed(futures):
            yield futures[future], future


@dataclass(frozen=True)
class Benchmark:
    """A function that measures, as a program.

    Attributes:
        measure: Yields rows; its arguments have defaults, and lines of their own in `Args`.
        smokes: Arguments and constants of smoke runs, each.
        unstored: Arguments with which nothing is stored: a part, or what is not scored.
        variants: Arguments that name a table of their own, behind the module's name.
    """

    measure: Callable[..., Iterable[Row]]
    smokes: tuple[Mapping[str, Any], ...]
    unstored: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        """Name of the module, whoever runs it."""
        return Path(inspect.getfile(self.measure)).stem

    @property
    def defaults(self) -> dict[str, Any]:
        """Arguments of a whole run."""
        return {n: p.default for n, p in inspect.signature(self.measure).parameters.items()}

    def table(self, options: Mapping[str, Any]) -> str:
        """Return the name of the table that a run makes."""
        given = [n if options[n] is True else options[n] for n in self.variants if options[n]]
        return "_".join([self.module, *map(str, given)])

    def run(self, options: Mapping[str, Any]) -> list[Row]:
        """Return the rows of a run, each printed as it comes."""
        rows = []
        for row in self.measure(**options):
            rows.append(row)
            print(table([row]).splitlines()[1], flush=True)
        print("\n" + table(rows))
        return rows

    def smoke(self) -> Iterator[tuple[str, list[Row]]]:
        """Yield the rows of each smoke run, with the name of the table that they would make."""
        for small in self.smokes:
            options = self.defaults | {n: small[n] for n in small if not n.isupper()}
            constants = {n: small[n] for n in small if n.isupper()}
            module = self.measure.__globals__
            assert options.keys() == self.defaults.keys() and constants.keys() <= module.keys()
            with (
                tempfile.TemporaryDirectory() as scratch,
                patch.dict(module, constants),
                patch.dict(os.environ, {CACHE: scratch}),
            ):
                rows = self.run(options)
            json.dumps([asdict(r) for r in rows])  # can be stored
            yield self.table(options), rows

    def content(self, rows: Sequence[Row], spent: float, words: Sequence[str]) -> dict[str, Any]:
        """Return what is stored of a run.

        Args:
            rows: Its rows.
            spent: The processor's time of it, what was made earlier not counted [s].
            words: How it was called.
        """
        return {
            "machine": machine(),
            "commit": commit(),
            "sources": sources.digest(self.module),
            "date": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}",
            "processor_s": round(spent, 1),
            "command": " ".join([f"python -m benchmarks.{self.module}", *words]),
            "rows": [asdict(r) for r in rows],
        }

    def parser(self) -> argparse.ArgumentParser:
        """Return the options, made of the arguments, their defaults and what is said of them."""
        form = argparse.RawDescriptionHelpFormatter
        title = inspect.getdoc(inspect.getmodule(self.measure))
        parser = argparse.ArgumentParser(self.module, description=title, formatter_class=form)
        helps = dict(re.findall(r"^ +(\w+): (.*)$", self.measure.__doc__ or "", re.MULTILINE))
        for name, p in inspect.signature(self.measure, eval_str=True).parameters.items():
            given: dict[str, Any] = {"default": p.default, "help": helps.get(name)}
            if p.default is False:
                given["action"] = "store_true"
            else:
                several = isinstance(p.default, tuple)
                first = (p.default or ("",))[0] if several else p.default
                kinds = [k for k in get_args(p.annotation) if isinstance(k, type)]
                given["type"] = kinds[0] if first is None else type(first)
                given |= {"nargs": "+"} if several else {}
            parser.add_argument(f"--{name.replace('_', '-')}", **given)
        parser.add_argument("--smoke", action="store_true", help="little of everything, unstored")
        parser.add_argument("--store", action="store_true", help="keep the table")
        return parser

    def __call__(self, words: Sequence[str] | None = None) -> None:
        """Measure as the words of a command say, those of this process if None."""
        parser = self.parser()
        options = vars(parser.parse_args(words))
        smoke, keep = options.pop("smoke"), options.pop("store")
        if smoke:
            list(self.smoke())
            return
        for name in self.unstored if keep else ():
            if options[name] != self.defaults[name]:
                parser.error(f"with --{name} nothing is stored; leave one of both away")
        begin, before = processor(), sources.digest(self.module)
        rows = self.run(options)
        if keep:
            told = tuple(said(options, self.defaults))
            content = self.content(rows, processor() - begin, told)
            if content["sources"] != before:
                raise SystemExit("files were changed while it was measured; nothing is stored")
            path = RESULTS / f"{self.table(options)}.json"
            path.parent.mkdir(exist_ok=True)
            text = json.dumps(content, indent=1, ensure_ascii=False)
            path.write_text(text + "\n", encoding="utf-8")
            print(path)


def said(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> Iterator[str]:
    """Yield the words that say these options."""
    for name, value in options.items():
        if value != defaults[name]:
            yield f"--{name.replace('_', '-')}"
            yield from () if value is True else map(str, value if type(value) is list else [value])
    yield "--store"


def benchmark(
    *smokes: Mapping[str, Any], unstored: Sequence[str] = (), variants: Sequence[str] = ()
) -> Callable[[Callable[..., Iterable[Row]]], Benchmark]:
    """Return what makes a program of a function that yields rows: see `Benchmark`."""
    return lambda measure: Benchmark(measure, smokes, tuple(unstored), tuple(variants))
