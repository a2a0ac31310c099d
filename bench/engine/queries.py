"""How soon `weft tasks list`, `show` and `tree` answer while another process runs a large flow.

python -m bench.engine.queries [--size TASKS]
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import msgspec

from bench.engine.graphs import layers
from bench.measure import Benchmark, Figure, seconds_of

WEFT = (sys.executable, "-m", "weft")


def answers(size: int) -> dict[str, list[float]]:
    """Start a flow, then ask until it has ended; return the seconds of each command."""
    tasks = [
        {
            "name": f"t{number}",
            "schemas": {"method": "noop"},
            "dependencies": [f"t{parent}" for parent in parents],
        }
        for number, parents in enumerate(layers(size))
    ]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "WEFT_DB": f"{folder}/weft.db"}

        def run(*arguments: str, text: bytes | None = None) -> bytes:
            command = [*WEFT, *arguments]
            return subprocess.run(
                command, input=text, env=environment, stdout=subprocess.PIPE, check=True
            ).stdout

        submitted = run("flow", "submit", "-", "--json", text=msgspec.json.encode(tasks))
        root = msgspec.json.decode(submitted)["root_id"]
        running = subprocess.Popen(
            [*WEFT, "flow", "run", root],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        commands = {"list": (), "show": (root,), "tree": (root,)}
        times: dict[str, list[float]] = {name: [] for name in commands}
        while not times["list"] or running.poll() is None:
            for name, arguments in commands.items():
                times[name].append(seconds_of(lambda name=name, more=arguments: run("tasks", name, *more)))  # type: ignore[misc]
        assert running.wait() == 0, running.returncode
    return times


def measure(options: argparse.Namespace) -> Iterator[Figure]:
    """Yield the median of each command."""
    for command, seconds in answers(options.size).items():
        yield Figure(
            f"`weft tasks {command}` while {options.size:,} tasks run, median",
            statistics.median(seconds),
            "s",
            at_most=1,
            details=f"{len(seconds)} answers, slowest {max(seconds):.2f} s",
        )


BENCHMARK = Benchmark(
    "Answers while a flow runs", "tasks", smallest=10, full=100_000, measure=measure, rounds=1
)

if __name__ == "__main__":
    BENCHMARK.run()
