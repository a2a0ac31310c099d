"""weft's local engine beside other durable engines: no-op tasks, each durable on SQLite in its own way.

    python -m bench.peers.main [--size N] [--only NAME] [--rounds N] [--cache FOLDER]

Each engine is installed, with pinned versions, in a virtual environment of its own outside the repository;
weft runs in the current one. A figure is from the start of a run to its end, without imports and set-up, in a
process of its own. Ratios compare equals: the same number of tasks, and weft set to wait for the disk at each
commit (`full`) or only at the checkpoints of SQLite's log (`normal`), as the other engine does.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.engine.graphs import SHAPES
from bench.measure import machine
from bench.peers.environment import default_cache, prepared, variables
from bench.peers.measured import Measured

ROOT = Path(__file__).parents[2]
TIMEOUT_SECONDS = 900.0


@dataclass(frozen=True)
class Peer:
    """An engine to compare with."""

    name: str
    size: int
    """How many tasks it is given unless the caller says."""
    synchronous: str
    """How it lets SQLite wait for the disk."""


PEERS = (
    Peer("langgraph", 1_000, "full"),
    Peer("dbos", 1_000, "full"),
    Peer("prefect", 200, "normal"),
    # 20, 50 and 100 tasks take it about 1, 6 and 40 s.
    Peer("apflow", 50, "normal"),
)
HEADER = """\
| engine | waits for disk | shape | tasks | seconds | tasks/s | ours/theirs |
|---|---|---|--:|--:|--:|--:|"""


class Table:
    """The runs of one sitting: measures, prints a line for each, and remembers weft's for the ratios."""

    def __init__(self, *, rounds: int, cache: Path) -> None:
        self._rounds = rounds
        self._cache = cache
        self._ours: dict[tuple[str, str, int], float] = {}
        self._notes: list[str] = []

    def weft(self, synchronous: str, size: int) -> None:
        """Measure weft on each shape."""
        for shape in SHAPES:
            version, best = self._best("weft", Path(sys.executable), shape, size, synchronous)
            self._ours[synchronous, shape, size] = best.seconds
            self._line(f"weft {version}", synchronous, shape, best, "")

    def peer(self, peer: Peer, size: int) -> None:
        """Measure another engine on each shape; one that fails is reported, and the rest goes on."""
        try:
            python = prepared(peer.name, self._cache)
            for shape in SHAPES:
                version, best = self._best(peer.name, python, shape, size, peer.synchronous)
                ratio = best.seconds / self._ours[peer.synchronous, shape, size]
                self._line(f"{peer.name} {version}", peer.synchronous, shape, best, f"{ratio:,.1f}")
                if best.recorded_seconds is not None:
                    self._notes.append(
                        f"{peer.name}, {shape}: ends after {best.seconds:.2f} s; all recorded after "
                        f"{best.recorded_seconds:.2f} s, {size / best.recorded_seconds:,.0f} tasks/s"
                    )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            print(f"| {peer.name} | {peer.synchronous} | left out: failed | | | | |", flush=True)
            self._notes.append(f"{peer.name} failed: {error}\n{error.stderr!s}")

    def print_notes(self) -> None:
        """Print what does not fit in the lines."""
        for note in self._notes:
            print(note)

    def _best(self, name: str, python: Path, shape: str, size: int, synchronous: str) -> tuple[str, Measured]:
        runs = [_run(name, python, shape, size, synchronous) for _ in range(self._rounds)]
        return min(runs, key=lambda run: run[1].seconds)

    def _line(self, engine: str, synchronous: str, shape: str, best: Measured, ratio: str) -> None:
        rate = best.tasks / best.seconds
        cells = (engine, synchronous, shape, f"{best.tasks:,}", f"{best.seconds:.2f}", f"{rate:,.0f}", ratio)
        print(f"| {' | '.join(cells)} |", flush=True)


def _run(name: str, python: Path, shape: str, size: int, synchronous: str) -> tuple[str, Measured]:
    """The version and figures of one run, in a process and a folder of its own."""
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


def main() -> None:
    """Measure weft and the others, and print a table."""
    parser = argparse.ArgumentParser(description="weft beside other durable engines")
    parser.add_argument("--size", type=int, help="tasks in each run, of every engine (at least 10)")
    parser.add_argument("--only", choices=[peer.name for peer in PEERS], help="the one engine beside weft")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each, of which the best counts")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="folder for the environments")
    wanted = parser.parse_args()
    peers = [peer for peer in PEERS if wanted.only in (None, peer.name)]
    sizes = {peer: wanted.size or peer.size for peer in peers}

    print(f"{machine()}; best of {wanted.rounds}\n\n{HEADER}")
    table = Table(rounds=wanted.rounds, cache=wanted.cache.resolve())
    for synchronous, size in sorted(
        {(peer.synchronous, sizes[peer]) for peer in peers} | {("normal", max(sizes.values()))}
    ):
        table.weft(synchronous, size)
    for peer in peers:
        table.peer(peer, sizes[peer])
    print()
    table.print_notes()


if __name__ == "__main__":
    main()
