"""What every benchmark shares: its figures, its options, and the machine it ran on.

A module that measures something has a `BENCHMARK`: `python -m bench` finds it by that, and so does the test
that runs each of them at its smallest size.
"""

import argparse
import asyncio
import importlib
import multiprocessing
import os
import pkgutil
import platform
import resource
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import ParamSpec, TypeVar

import msgspec

import bench

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")

NOW = datetime(2025, 1, 15, 12, tzinfo=UTC)
SCRIPTS = "bench.peers.scripts"
"""Other engines' scripts, which can be imported only in those engines' environments."""


class Figure(msgspec.Struct, frozen=True, omit_defaults=True):
    """One measured number, what it is compared to, and its goal."""

    what: str
    value: float
    unit: str
    compared_to: str = ""
    at_most: float | None = None
    at_least: float | None = None
    details: str = ""

    @property
    def reached(self) -> str:
        return f"{_number(self.value)}{_unit(self.unit)}"

    @property
    def goal(self) -> str:
        bounds = (("at most", self.at_most), ("at least", self.at_least))
        return ", ".join(f"{word} {_number(b)}{_unit(self.unit)}" for word, b in bounds if b is not None)

    @property
    def is_missed(self) -> bool:
        too_much = self.at_most is not None and self.value > self.at_most
        return too_much or (self.at_least is not None and self.value < self.at_least)

    def __str__(self) -> str:
        parts = [f"{self.what}: {self.reached}"]
        parts += [f"compared to {self.compared_to}"] if self.compared_to else []
        parts += [self.details] if self.details else []
        parts += [f"goal: {self.goal}{' (missed)' if self.is_missed else ''}"] if self.goal else []
        return "; ".join(parts)


class LeftOut(msgspec.Struct, frozen=True):
    """Figures that could not be measured here: all those whose `what` begins so, and why."""

    what: str
    why: str

    def __str__(self) -> str:
        return f"left out: {self.what + ': ' if self.what else ''}{self.why}"


Measured = Figure | LeftOut


@dataclass(frozen=True)
class Benchmark:
    """What a module measures, and at which sizes."""

    title: str
    counted: str
    """What the size counts."""
    smallest: int
    """Enough to run every line; the figures mean nothing."""
    full: int
    measure: Callable[[argparse.Namespace], Iterable[Measured]]
    """Yields the figures for options that have at least `size` and `rounds`."""
    rounds: int = 3
    add_options: Callable[[argparse.ArgumentParser], None] = lambda parser: None
    workload: Callable[[int], None] | None = None
    """Weft's own part of the work and nothing else, for `bench.compare`."""

    def options(self, arguments: Sequence[str] | None = None) -> argparse.Namespace:
        """Return the options of a command line."""
        parser = argparse.ArgumentParser(description=self.title)
        parser.add_argument("--size", type=int, default=self.full, help=f"{self.counted}, {self.full:,}")
        parser.add_argument("--smallest", action="store_true", help=f"--size {self.smallest} --rounds 1")
        parser.add_argument("--rounds", type=int, default=self.rounds, help=f"of each, {self.rounds}")
        parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
        self.add_options(parser)
        options = parser.parse_args(arguments)
        if options.smallest:
            options.size, options.rounds = self.smallest, 1
        if options.size < self.smallest:
            parser.error(f"--size: at least {self.smallest}")
        return options

    def run(self, arguments: Sequence[str] | None = None) -> list[Measured]:
        """Measure as the command line says, and print and return the figures."""
        options = self.options(arguments)
        print(machine(), flush=True)
        found = []
        for each in self.measure(options):
            print(each, flush=True)
            found.append(each)
        if options.json is not None:
            options.json.write_bytes(msgspec.json.encode(as_data(found)))
        return found


def as_data(found: Iterable[Measured]) -> dict[str, list[Measured]]:
    """Return the figures and what was left out, apart."""
    apart: dict[str, list[Measured]] = {"figures": [], "left_out": []}
    for each in found:
        apart["figures" if isinstance(each, Figure) else "left_out"].append(each)
    return apart


def module_names() -> list[str]:
    """Return the names of all modules of this package."""
    walk = pkgutil.walk_packages(bench.__path__, f"{bench.__name__}.")
    return sorted(found.name for found in walk)


def benchmarks() -> dict[str, Benchmark]:
    """Return the benchmark of every module that has one, by the module's name."""
    found = {}
    for name in module_names():
        if not name.startswith(f"{SCRIPTS}.") and name != "bench.__main__":
            benchmark = getattr(importlib.import_module(name), "BENCHMARK", None)
            if isinstance(benchmark, Benchmark):
                found[name] = benchmark
    return found


def machine() -> str:
    """Return one line on what the figures were measured on."""
    return (
        f"{os.cpu_count()} cores ({_processor()}), {platform.machine()}, "
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), "unknown")


def cpu_seconds() -> float:
    """Return the CPU time of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def in_own_process(function: Callable[P, R], *arguments: P.args, **keywords: P.kwargs) -> R:
    """Return what the function returns in a new process: its memory and its imports are its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments, **keywords).result()


async def with_callers(act: Callable[[T], Awaitable[R]], items: Sequence[T], *, callers: int) -> list[R]:
    """Return the result of the act on each item, with this many callers that each do one at a time."""
    results: dict[int, R] = {}
    numbers: Iterator[int] = iter(range(len(items)))

    async def caller() -> None:
        for number in numbers:
            results[number] = await act(items[number])

    await asyncio.gather(*(caller() for _ in range(callers)))
    return [results[number] for number in range(len(items))]


def seconds_of(act: Callable[[], object]) -> float:
    """Return how long a call takes."""
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _unit(unit: str) -> str:
    return unit if unit in ("", "x", "%") else f" {unit}"
