"""Run every benchmark on the commit that is checked out, and write `bench/RESULTS.md`.

    python -m bench [--smallest] [--only MODULE ...] [--output FOLDER]

Each benchmark runs in a process of its own, one after the other. Nothing is fetched: what needs something
that is not installed is left out, and its figures are carried over from the results before.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.measure import Figure, LeftOut, Measured, benchmarks
from bench.results import FOLDER, PAGE, load, merge, save, this_run


class _Found(msgspec.Struct):
    figures: list[Figure]
    left_out: list[LeftOut]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks and write the results; return 1 when one of them failed."""
    known = benchmarks()
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--smallest", action="store_true", help="only to see that everything runs")
    parser.add_argument("--only", nargs="+", choices=list(known), default=list(known), metavar="MODULE")
    parser.add_argument("--output", type=Path, default=FOLDER, help="folder of the results")
    options = parser.parse_args(arguments)
    if options.smallest and options.output == FOLDER:
        parser.error("--smallest measures nothing worth keeping: give another --output")
    run, old = this_run(), load(options.output)
    found, failed = {}, []
    for module in options.only:
        print(f"\n{module}", flush=True)
        try:
            found[module] = measure(module, is_smallest=options.smallest)
        except subprocess.CalledProcessError as error:
            failed.append(module)
            found[module] = [LeftOut("", f"failed with exit code {error.returncode}")]
    save(merge(old, run, found, known), options.output)
    print(f"\nwrote {options.output / PAGE}")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def measure(module: str, *, is_smallest: bool) -> list[Measured]:
    """Run a benchmark in a process of its own; raise CalledProcessError when it fails."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figures.json"
        size = ["--smallest"] if is_smallest else []
        command = [sys.executable, "-m", module, "--json", str(path), *size]
        subprocess.run(command, check=True, cwd=FOLDER.parent)
        found = msgspec.json.decode(path.read_bytes(), type=_Found)
    return [*found.figures, *found.left_out]


if __name__ == "__main__":
    sys.exit(main())
