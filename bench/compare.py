"""Compare the CPU time of two checkouts: "loses at most 5 %" is the median of 11 pairs, at most 1.05.

The benchmarks of this checkout drive the `src` of both, so those of an old one need not run. Where modules
have moved since, `--old-bench` names a checkout whose benchmarks import them by their old names. The two
alternate, and so does which of them is first. CPU time is that of the process and its children while the
workload runs, without imports. A checkout is a folder, or a commit of this repository.

    python -m bench.compare OLD [NEW] [--old-bench CHECKOUT] [--benchmark MODULE ...] [--size N] [--pairs 11]
"""

import argparse
import importlib
import io
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.measure import Benchmark, cpu_seconds, machine

ROOT = Path(__file__).parents[1]
SIZES = {"bench.engine.local": 4_000, "bench.runs": 3_000}
"""Some 3 s of CPU time each: 11 pairs of both take a few minutes."""
CHILD = "import sys; from bench.compare import run_workload; print(run_workload(*sys.argv[1:]))"


class Failed(Exception):
    """A workload does not run on a checkout."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare; return 1 when a benchmark is over the limit, 2 when one does not run."""
    options = _options(arguments)
    print(machine())
    print(f"old {options.old}, new {options.new}; {options.pairs} pairs")
    try:
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder)
            trees = copy_checkout(options.old, work / "old"), copy_checkout(options.new, work / "new")
            copy_checkout(options.old_bench, work / "old", "bench")
            copy_checkout(str(ROOT), work / "new", "bench")
            medians = [compare(module, trees, options) for module in options.benchmark]
    except Failed as error:
        print(error, file=sys.stderr)
        return 2
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > cores:
        print(f"a load of {load:.1f} on {cores} cores: CPU time varies by a tenth or more, repeat when idle")
    return 1 if max(medians) > options.limit else 0


def copy_checkout(name: str, folder: Path, part: str = "src") -> Path:
    """Copy a folder of a checkout or of a commit: it may be edited meanwhile. Return the folder."""
    source = Path(name) / part
    if source.is_dir():
        shutil.copytree(source, folder / part)  # with compiled files, and the times that keep them valid
        return folder
    command = ["git", "-C", str(ROOT), "archive", name, part]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{name} is neither a checkout nor a commit: {done.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def compare(module: str, trees: tuple[Path, Path], options: argparse.Namespace) -> float:
    """Print the ratio of each pair and their spread; return the median."""
    size = options.size or SIZES[module]
    for tree in trees:
        cpu_of(module, size, tree)  # not counted: it compiles, and reads the files from the disk
    ratios = []
    for number in range(options.pairs):
        order = trees if number % 2 == 0 else trees[::-1]
        taken = {tree: cpu_of(module, size, tree) for tree in order}
        old, new = (taken[tree] for tree in trees)
        ratios.append(new / old)
        print(f"{module} {size:,}: old {old:.2f} s, new {new:.2f} s, ratio {new / old:.3f}", flush=True)
    median = statistics.median(ratios)
    low, _, high = statistics.quantiles(ratios) if len(ratios) > 1 else ratios * 3
    verdict = "within the limit" if median <= options.limit else "OVER THE LIMIT"
    print(
        f"{module} {size:,}: median ratio {median:.3f} (middle half {low:.3f} to {high:.3f}, "
        f"all {min(ratios):.3f} to {max(ratios):.3f}); limit {options.limit:g}: {verdict}"
    )
    return median


def cpu_of(module: str, size: int, tree: Path) -> float:
    """Return the CPU seconds of a workload on a checkout, in a process of its own."""
    command = [sys.executable, "-c", CHILD, module, str(size), str(tree)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tree / "src"), str(tree)))}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else one of the two may be compiled in every run
    done = subprocess.run(command, env=environment, cwd=tree, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise Failed(f"{module} does not run on the {tree.name} checkout: {last[0]}")
    return float(done.stdout.splitlines()[-1])


def run_workload(module: str, size: str, tree: str) -> float:
    """Run a workload in this process; return its CPU seconds."""
    import weft  # of the checkout that is measured, not needed for anything else here

    assert Path(weft.__file__).is_relative_to(Path(tree) / "src"), f"{weft.__file__} is not of {tree}"
    benchmark: Benchmark = importlib.import_module(module).BENCHMARK
    assert benchmark.workload is not None, f"{module} has no workload"
    benchmark.workload(benchmark.smallest)  # what is imported late is no part of the time
    before = cpu_seconds()
    benchmark.workload(int(size))
    return cpu_seconds() - before


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__)
    parser.add_argument("old")
    parser.add_argument("new", nargs="?", default=str(ROOT))
    parser.add_argument(
        "--old-bench", default=str(ROOT), metavar="CHECKOUT", help="whose benchmarks drive OLD"
    )
    parser.add_argument("--benchmark", nargs="+", choices=list(SIZES), default=list(SIZES), metavar="MODULE")
    parser.add_argument("--size", type=int, help="of each workload")
    parser.add_argument("--pairs", type=int, default=11)
    parser.add_argument("--limit", type=float, default=1.05)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
