"""How fast files are indexed and found, beside bare FTS5 inserts of the same text in the same run.

Without --tree, one is made of copies of the Python files of this environment.

    python -m bench.memory [--size FILES] [--tree FOLDER]
"""

import argparse
import shutil
import sqlite3
import statistics
import sysconfig
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.measure import Benchmark, Figure, cpu_seconds
from weft.memory.index import update
from weft.memory.index.index import SqliteIndex
from weft.memory.index.watch import watch_roots
from weft.memory.protocol import IndexReport, Query, QueryPart
from weft.memory.search.matcher import LexicalMatcher

QUERIES = (
    "parse the header of a request", "retry after a timeout", "HTTPConnection pool", "json decode error",
    "where is the cache invalidated", "async context manager", "schema validation",
    "read settings from a file",
    "close open sockets", "unicode normalisation", "format a date", "command line options", "token bucket",
    "walk a syntax tree", "render a table", "sqlite cursor", "compile a regular expression", "import hooks",
)  # fmt: skip


def make_tree(folder: Path, wanted: int) -> None:
    """Copy the environment's Python files, as many as wanted."""
    source = Path(sysconfig.get_path("purelib"))
    files = [file for file in sorted(source.rglob("*.py")) if file.stat().st_size < 900_000]
    for number in range(wanted):
        file = files[number % len(files)]
        target = folder / f"copy{number // len(files)}" / file.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


class Taken(NamedTuple):
    """Seconds on the clock, and of the processors: those tell more on a machine with other work."""

    wall: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.wall:6.2f} s ({self.cpu:.2f} s of CPU)"


class Stopwatch:
    """What passes from here on."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), cpu_seconds()

    def taken(self) -> Taken:
        """Return what has passed."""
        return Taken(time.perf_counter() - self._wall, cpu_seconds() - self._cpu)


def bare_inserts(tree: Path, database: Path) -> Taken:
    """Return what it takes to put the files whole into a plain FTS5 table, in one transaction."""
    watch = Stopwatch()
    connection = sqlite3.connect(database, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("CREATE VIRTUAL TABLE words USING fts5 (path, content)")
    connection.execute("BEGIN")
    for file in tree.rglob("*.py"):
        text = file.read_text("utf-8", "replace")
        connection.execute("INSERT INTO words VALUES (?, ?)", [str(file), text])
    connection.execute("COMMIT")
    connection.close()
    return watch.taken()


def timed_update(index: SqliteIndex, tree: Path) -> tuple[Taken, IndexReport]:
    """Return what an update takes, and its report."""
    watch = Stopwatch()
    report = index.update([tree])
    return watch.taken(), report


def query_milliseconds(index: SqliteIndex) -> list[float]:
    """Return how long each query takes, after one that warms up."""
    matcher = LexicalMatcher(index)
    matcher.match(Query(parts=(QueryPart("warm up"),)))
    taken = []
    for text in QUERIES * 3:
        start = time.perf_counter()
        matcher.match(Query(parts=(QueryPart(text),)))
        taken.append((time.perf_counter() - start) * 1000)
    return taken


def watch_seconds(index: SqliteIndex, tree: Path) -> float:
    """Return the seconds from a file's change until it is found."""
    stop, ready, seen = threading.Event(), threading.Event(), threading.Event()

    def tell(report: IndexReport) -> None:
        if ready.is_set() and (report.added or report.changed):
            seen.set()

    thread = threading.Thread(target=watch_roots, args=(index, [tree], tell, stop, ready.set))
    thread.start()
    ready.wait()
    start = time.perf_counter()
    changed = tree / "changed_now.py"
    changed.write_text("def changed_now(): ...\n")
    seen.wait()
    taken = time.perf_counter() - start
    changed.unlink()  # the next run would find it unchanged
    stop.set()
    thread.join()
    return taken


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tree", type=Path, help="files to index instead of copies")


def measure(options: argparse.Namespace) -> Iterator[Figure]:
    """Index a tree and query it."""
    with tempfile.TemporaryDirectory() as folder:
        tree = options.tree or Path(folder) / "tree"
        if options.tree is None:
            make_tree(tree, options.size)
        made = time.time_ns()
        # An update reads files again that were younger than this the last time.
        time.sleep(max(0, made + update.SETTLED_NS - time.time_ns()) / 1e9)
        yield from indexing(tree, Path(folder))


def indexing(tree: Path, folder: Path) -> Iterator[Figure]:
    """Yield figures of a first run, an unchanged one, queries and watching."""
    bare_inserts(tree, folder / "warm.db")  # so that neither is the first to read the files from the disk
    bare = bare_inserts(tree, folder / "bare.db")
    index = SqliteIndex(folder / "index.db")
    first, report = timed_update(index, tree)
    again = bare_inserts(tree, folder / "bare2.db")
    wall, cpu = (bare.wall + again.wall) / 2, (bare.cpu + again.cpu) / 2
    files = f"{report.files:,} files, {report.text_bytes / 1e6:.1f} MB"
    against = "bare FTS5 inserts of the same text, mean of one before and one after"
    details = f"{first.wall:.2f} s to {wall:.2f} s"
    yield Figure(f"first run, {files}", first.wall / wall, "x", against, at_most=2, details=details)
    yield Figure("first run, CPU of all processes", first.cpu / cpu, "x", against)
    yield Figure("unchanged second run", timed_update(index, tree)[0].wall, "s", at_most=1.5)
    queries = query_milliseconds(index)
    longest = f"{max(queries):.1f} ms longest"
    yield Figure("query, median", statistics.median(queries), "ms", at_most=20, details=longest)
    yield Figure("a changed file is seen in watch mode", watch_seconds(index, tree), "s", at_most=1)
    yield Figure("size of the index", report.index_bytes / report.text_bytes, "x", "the text", at_most=1)
    index.close()


BENCHMARK = Benchmark(
    "The index", "files", smallest=20, full=12_000, measure=measure, rounds=1, add_options=add_options
)

if __name__ == "__main__":
    BENCHMARK.run()
