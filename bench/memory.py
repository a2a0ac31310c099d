"""How fast files are indexed and found, beside bare FTS5 inserts of the same text in the same run.

    python -m bench.memory [--files 12000] [--tree FOLDER]

Without --tree, one is made of copies of the Python files of this environment.
"""

import argparse
import shutil
import sqlite3
import statistics
import sysconfig
import tempfile
import threading
import time
from pathlib import Path

from weft.memory import updating
from weft.memory.index import SqliteIndex
from weft.memory.matching import LexicalMatcher
from weft.memory.protocol import IndexReport, Query, QueryPart
from weft.memory.watching import watch_roots

QUERIES = (
    "parse the header of a request", "retry after a timeout", "HTTPConnection pool", "json decode error",
    "where is the cache invalidated", "async context manager", "schema validation", "read settings from a file",
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


def bare_inserts(tree: Path, database: Path) -> float:
    """Seconds to read the files and put them whole into a plain FTS5 table, in one transaction."""
    start = time.perf_counter()
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
    return time.perf_counter() - start


def timed_update(index: SqliteIndex, tree: Path) -> tuple[float, IndexReport]:
    """Seconds of an update."""
    start = time.perf_counter()
    report = index.update([tree])
    return time.perf_counter() - start, report


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
    (tree / "changed_now.py").write_text("def changed_now(): ...\n")
    seen.wait()
    taken = time.perf_counter() - start
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
    bare = bare_inserts(tree, folder / "bare.db")
    index = SqliteIndex(folder / "index.db")
    first, report = timed_update(index, tree)
    again = bare_inserts(tree, folder / "bare2.db")
    second, _ = timed_update(index, tree)
    queries = query_milliseconds(index)
    print(f"{report.files:,} files, {report.text_bytes / 1e6:.1f} MB of text")
    print(f"bare FTS5 inserts   {bare:6.2f} s and {again:.2f} s")
    print(f"first run           {first:6.2f} s, {first / ((bare + again) / 2):.2f} of bare inserts")
    print(f"unchanged run       {second:6.2f} s")
    print(
        f"index               {report.index_bytes / 1e6:6.1f} MB, {report.index_bytes / report.text_bytes:.2f} of the text"
    )
    print(f"query               {statistics.median(queries):6.1f} ms median, {max(queries):.1f} ms longest")
    print(f"changed file seen   {watch_seconds(index, tree):6.2f} s in watch mode")
    index.close()


if __name__ == "__main__":
    main()
