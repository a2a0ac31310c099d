"""weft's local engine beside other durable engines: no-op tasks, each durable on SQLite in its own way.

Each engine is installed, with pinned versions, in a virtual environment of its own outside the repository
(`--install`); weft runs in the current one. A figure is from the start of a run to its end, without imports
and set-up, in a process of its own; the best counts, and the engine's database is asked whether every task is
done. Ratios compare equals: the same number of tasks, and weft set to wait for the disk at each commit
(`full`) or only at the checkpoints of SQLite's log (`normal`), as the other engine does.

    python -m bench.peers.main [--install] [--size N] [--only NAME ...] [--cache FOLDER]
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.engine.graphs import SHAPES
from bench.measure import Benchmark, Figure, LeftOut
from bench.measure import Measured as Found
from bench.peers.environment import default_cache, python_of, variables
from bench.peers.measured import Measured

ROOT = Path(__file__).parents[2]
TIMEOUT_SECONDS = 900.0


@dataclass(frozen=True)
class Peer:
    """An engine to compare with."""

    name: str
    size: int
    """The most tasks that it is given."""
    synchronous: str
    """How it lets SQLite wait for the disk."""


PEERS = (
    Peer("langgraph", 1_000, "full"),
    Peer("dbos", 1_000, "full"),
    Peer("prefect", 200, "normal"),
    # 20, 50 and 100 tasks take it about 1, 6 and 40 s.
    Peer("apflow", 50, "normal"),
)


def measure(options: argparse.Namespace) -> Iterator[Found]:
    """Yield weft's rate against that of each engine that is installed, for each shape."""
    for peer in PEERS:
        if peer.name in options.only:
            yield from beside(peer, options)


def beside(peer: Peer, options: argparse.Namespace) -> Iterator[Found]:
    """Yield the figures of one engine; one that fails is left out."""
    try:
        python = python_of(peer.name, options.cache.resolve(), is_install=options.install)
        if python is None:
            yield LeftOut(peer.name, "not installed; python -m bench.peers.main --install installs it")
            return
        size = min(options.size, peer.size)
        for shape in SHAPES:
            version, theirs = best_of(options.rounds, peer.name, python, shape, size, peer.synchronous)
            _, ours = best_of(options.rounds, "weft", Path(sys.executable), shape, size, peer.synchronous)
            yield _figure(f"{peer.name} {version}, {shape} of {size:,} tasks", peer, ours, theirs)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        print(error.stderr, file=sys.stderr)
        yield LeftOut(peer.name, f"{type(error).__name__}; its messages are in the output of the run")


def _figure(what: str, peer: Peer, ours: Measured, theirs: Measured) -> Figure:
    details = f"{ours.tasks / ours.seconds:,.0f} to {theirs.tasks / theirs.seconds:,.0f} tasks/s"
    if theirs.recorded_seconds is not None:
        details += f"; all recorded only after {theirs.recorded_seconds:.1f} s"
    against = f"its rate; the disk: {peer.synchronous}"
    return Figure(what, theirs.seconds / ours.seconds, "x", against, details=details)


def best_of(
    rounds: int, name: str, python: Path, shape: str, size: int, synchronous: str
) -> tuple[str, Measured]:
    """Return an engine's version and its fastest run."""
    runs = [_run(name, python, shape, size, synchronous) for _ in range(rounds)]
    return min(runs, key=lambda run: run[1].seconds)


def _run(name: str, python: Path, shape: str, size: int, synchronous: str) -> tuple[str, Measured]:
    """Run a shape once, in a process and a folder of its own."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        environment = variables(ROOT, Path(scratch)) | {"WEFT_SQLITE_SYNCHRONOUS": synchronous}
        command = [str(python), "-m", f"bench.peers.scripts.{name}", shape, str(size)]
        done = subprocess.run(
            command,
            cwd=scratch,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=TIMEOUT_SECONDS,
        )
    figures = json.loads(done.stdout.splitlines()[-1])
    return figures.pop("version"), Measured(**figures)


def add_options(parser: argparse.ArgumentParser) -> None:
    names = [peer.name for peer in PEERS]
    parser.add_argument("--install", action="store_true", help="install engines that are not there")
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="engines beside weft")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="folder for the environments")


BENCHMARK = Benchmark(
    "Other engines side by side",
    "most tasks of a run (fewer for slow engines)",
    smallest=10,
    full=1_000,
    measure=measure,
    add_options=add_options,
)

if __name__ == "__main__":
    BENCHMARK.run()
