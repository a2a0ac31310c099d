"""How fast files are indexed and found, beside bare FTS5 inserts of the same text in the same run.

    python -m bench.memory [--files 12000] [--tree FOLDER]

Without --tree, one is made of copies of the Python files of this environment.
"""

import argparse
import json
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

from weft.memory import updating
from weft.memory.index import SqliteIndex
from weft.memory.matching import LexicalMatcher
from weft.memory.protocol import IndexReport, Query, QueryPart
from weft.memory.watching import watch_roots

QUERIES = (
    "parse the header of a request", "retry after a timeout", "HTTPConnection pool", "json decode error",
    "where is the cache invalidated", "async context manager", "schema validation",
    "read settings from a file",
    "close open sockets", "unicode normalisation", "format a date", "command line options", "token bucket",
    "walk a syntax tree", "render a table", "sqlite cursor", "compile a regular expression", "import hooks",
)  # fmt: skip


def make_tree(folder: Path, wanted: int) -> None:
    """Copies of the environment's Python files, as many as wanted."""
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
        self._wall, self._cpu = time.perf_counter(), _cpu_seconds()

    def taken(self) -> Taken:
        """So much until now."""
        return Taken(time.perf_counter() - self._wall, _cpu_seconds() - self._cpu)


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def bare_inserts(tree: Path, database: Path) -> Taken:
    """What it takes to read the files and put them whole into a plain FTS5 table, in one transaction."""
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
    """What an update takes."""
    watch = Stopwatch()
    report = index.update([tree])
    return watch.taken(), report


WRITER = """
import json, sqlite3, sys, threading, time
held, waits, is_over = [0.0], [], threading.Event()

def poll():
    connection = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
    free = time.perf_counter()
    while not is_over.is_set():
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("COMMIT")
        except sqlite3.OperationalError:
            held[0] = max(held[0], time.perf_counter() - free)
        else:
            free = time.perf_counter()
        time.sleep(0.001)
    connection.close()

def write():
    connection = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
    while not is_over.is_set():
        start = time.perf_counter()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("COMMIT")
        waits.append(time.perf_counter() - start)
        time.sleep(0.02)
    connection.close()

threads = [threading.Thread(target=act) for act in (poll, write)]
for thread in threads: thread.start()
sys.stdin.read()
is_over.set()
for thread in threads: thread.join()
print(json.dumps([held[0], sorted(waits)]))
"""


def held_up(path: Path, tree: Path) -> tuple[float, list[float]]:
    """How long another process finds the file taken while a first run writes.

    The longest time without a free moment (it looks every millisecond), and the waits of writes that leave
    the looking to SQLite, as a store's do.
    """
    index = SqliteIndex(path)
    command = [sys.executable, "-c", WRITER, str(path)]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    index.update([tree])
    printed, _ = other.communicate()
    index.close()
    held, waits = json.loads(printed)
    return held, waits


def query_milliseconds(index: SqliteIndex) -> list[float]:
    """How long each query takes, after one that warms up."""
    matcher = LexicalMatcher(index)
    matcher.match(Query(parts=(QueryPart("warm up"),)))
    taken = []
    for text in QUERIES * 3:
        start = time.perf_counter()
        matcher.match(Query(parts=(QueryPart(text),)))
        taken.append((time.perf_counter() - start) * 1000)
    return taken


def watch_seconds(index: SqliteIndex, tree: Path) -> float:
    """Seconds from a file's change until it is found."""
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


def main() -> None:
    """Measure, and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=12_000)
    parser.add_argument("--tree", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tree = arguments.tree or Path(folder) / "tree"
        if arguments.tree is None:
            make_tree(tree, arguments.files)
            time.sleep(updating.SETTLED_NS / 1e9)  # else the second run would read every file again
        measure(tree, Path(folder))


def measure(tree: Path, folder: Path) -> None:
    """Index the tree and ask it."""
    bare_inserts(tree, folder / "warm.db")  # so that nobody is the first to read the files from the disk
    bare = bare_inserts(tree, folder / "bare.db")
    index = SqliteIndex(folder / "index.db")
    first, report = timed_update(index, tree)
    again = bare_inserts(tree, folder / "bare2.db")
    second, _ = timed_update(index, tree)
    queries = query_milliseconds(index)
    print(f"{report.files:,} files, {report.text_bytes / 1e6:.1f} MB of text")
    wall, cpu = (bare.wall + again.wall) / 2, (bare.cpu + again.cpu) / 2
    print(f"bare FTS5 inserts   {bare} and {again}")
    print(f"first run           {first}")
    print(f"                    {first.wall / wall:6.2f} of bare inserts, {first.cpu / cpu:.2f} of their CPU")
    print(f"unchanged run       {second}")
    ratio = report.index_bytes / report.text_bytes
    print(f"index               {report.index_bytes / 1e6:6.1f} MB, {ratio:.2f} of the text")
    print(f"query               {statistics.median(queries):6.1f} ms median, {max(queries):.1f} ms longest")
    print(f"changed file seen   {watch_seconds(index, tree):6.2f} s in watch mode")
    index.close()
    held, waits = held_up(folder / "held.db", tree)
    print(f"another's writes    {held * 1000:6.0f} ms longest that the file is taken in a first run; waits")
    middle, late = waits[len(waits) // 2], waits[int(len(waits) * 0.99)]
    print(f"                    {middle * 1000:6.0f} ms median, {late * 1000:.0f} ms 99 of 100")


if __name__ == "__main__":
    main()
