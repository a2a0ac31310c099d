"""How soon `weft tasks list`, `show` and `tree` answer while another process runs a flow of 100,000 tasks.

python -m bench.engine.queries
"""

import os
import subprocess
import sys
import tempfile
import time

import msgspec

from bench.engine.graphs import layers
from bench.measure import machine

SIZE = 100_000


def main() -> None:
    """Start the flow, then ask until it has ended; print the median and the slowest answer of each."""
    tasks = [
        {
            "name": f"t{number}",
            "schemas": {"method": "noop"},
            "dependencies": [f"t{parent}" for parent in parents],
        }
        for number, parents in enumerate(layers(SIZE))
    ]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "WEFT_DB": f"{folder}/weft.db"}
        weft = [sys.executable, "-m", "weft"]
        submit = [*weft, "flow", "submit", "-", "--json"]
        document = msgspec.json.encode(tasks)
        stored = subprocess.run(submit, input=document, env=environment, capture_output=True, check=True)
        root = msgspec.json.decode(stored.stdout)["root_id"]
        running = subprocess.Popen(
            [*weft, "flow", "run", root],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        times: dict[str, list[float]] = {"list": [], "show": [], "tree": []}
        while running.poll() is None:
            for command, arguments in {"list": [], "show": [root], "tree": [root]}.items():
                began = time.perf_counter()
                subprocess.run(
                    [*weft, "tasks", command, *arguments], env=environment, capture_output=True, check=True
                )
                times[command].append(time.perf_counter() - began)
    print(machine())
    for command, seconds in times.items():
        middle, slowest = sorted(seconds)[len(seconds) // 2], max(seconds)
        print(f"{command}: {len(seconds)} answers, median {middle:.2f} s, slowest {slowest:.2f} s")


if __name__ == "__main__":
    main()
