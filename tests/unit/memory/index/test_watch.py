"""Watching: what changes is in the index soon, whatever the change."""

import queue
import shutil
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.unit.memory.index.test_index import found
from weft.limits import Backoff
from weft.memory.index import watch
from weft.memory.index.index import SqliteIndex
from weft.memory.index.watch import outputs_of, split_by_root, watch_roots
from weft.memory.protocol import IndexReport

WAIT_SECONDS = 30.0


class Watched:
    """A root that is watched in a thread."""

    def __init__(
        self,
        index: SqliteIndex,
        root: Path,
        *others: Path,
        outputs: frozenset[tuple[int, int]] = frozenset(),
    ) -> None:
        self.index, self.root = index, root
        self._reports: queue.Queue[IndexReport] = queue.Queue()
        self._stop = threading.Event()
        ready = threading.Event()
        self._thread = threading.Thread(
            target=watch_roots,
            args=(index, [root, *others], self._reports.put, self._stop, ready.set, outputs),
        )
        self._thread.start()
        assert ready.wait(WAIT_SECONDS)

    def until(self, is_so: Callable[[], bool]) -> None:
        """Take reports until it is so."""
        while not is_so():
            self._reports.get(timeout=WAIT_SECONDS)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(WAIT_SECONDS)


@contextmanager
def watching_of(
    index_file: Path, *roots: Path, outputs: frozenset[tuple[int, int]] = frozenset()
) -> Iterator[Watched]:
    with closing(SqliteIndex(index_file)) as index:
        started = Watched(index, *roots, outputs=outputs)
        try:
            yield started
        finally:
            started.stop()


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "a.txt").write_text("first\n")
    with watching_of(tmp_path / "index.db", root) as started:
        yield started


def test_what_is_there_is_indexed_at_the_start(watched: Watched) -> None:
    assert found(watched.index, "first") == ["sub/a.txt"]


def test_new_changed_and_removed_files_are_seen(watched: Watched) -> None:
    (watched.root / "b.txt").write_text("second\n")
    watched.until(lambda: found(watched.index, "second") == ["b.txt"])
    (watched.root / "b.txt").write_text("third\n")
    watched.until(lambda: found(watched.index, "third") == ["b.txt"])
    (watched.root / "b.txt").unlink()
    watched.until(lambda: found(watched.index, "third OR second") == [])


def test_a_renamed_folder_is_seen(watched: Watched) -> None:
    (watched.root / "sub").rename(watched.root / "other")

    watched.until(lambda: found(watched.index, "first") == ["other/a.txt"])


def test_a_burst_of_files_is_seen(watched: Watched) -> None:
    folder = watched.root / "burst"
    folder.mkdir()
    for number in range(300):
        (folder / f"{number}.txt").write_text("burst\n")

    watched.until(lambda: len(found(watched.index, "content: burst")) == 300)


def test_a_change_of_the_rules_counts_for_every_file(watched: Watched) -> None:
    (watched.root / ".gitignore").write_text("sub/\n")
    watched.until(lambda: found(watched.index, "first") == [])
    (watched.root / ".gitignore").unlink()
    watched.until(lambda: found(watched.index, "first") == ["sub/a.txt"])


def test_what_changed_while_the_file_was_taken_is_tried_again(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "UPDATE_BACKOFF", Backoff(delay=0.0, cap=0.0))
    failed = threading.Event()
    monkeypatch.setattr(watch.log, "warning", lambda *_, **__: failed.set())
    for connection in watched.index._connections.values():
        connection.execute("PRAGMA busy_timeout = 0")
    with closing(sqlite3.connect(watched.index.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        (watched.root / "b.txt").write_text("second\n")
        assert failed.wait(WAIT_SECONDS)
        other.execute("ROLLBACK")

    watched.until(lambda: found(watched.index, "second") == ["b.txt"])


def test_a_root_that_is_replaced_is_watched_again(watched: Watched) -> None:
    watched.root.rename(watched.root.with_name("old"))
    watched.root.mkdir()
    (watched.root / "b.txt").write_text("second\n")
    watched.until(lambda: found(watched.index, "first OR second") == ["b.txt"])
    (watched.root / "c.txt").write_text("third\n")

    watched.until(lambda: found(watched.index, "third") == ["c.txt"])


def test_a_root_that_comes_back_is_watched_again(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = threading.Event()
    monkeypatch.setattr(watch.log, "warning", lambda *_, **__: gone.set())
    shutil.rmtree(watched.root)
    assert gone.wait(WAIT_SECONDS)
    watched.root.mkdir()
    watched.until(lambda: found(watched.index, "first") == [])
    (watched.root / "c.txt").write_text("third\n")

    watched.until(lambda: found(watched.index, "third") == ["c.txt"])


def test_a_path_belongs_to_all_roots_that_it_lies_in() -> None:
    roots = [Path("/a"), Path("/a/b")]

    assert split_by_root(roots, "/a/b/c/d") == [(Path("/a"), "b/c/d"), (Path("/a/b"), "c/d")]
    assert split_by_root(roots, "/a/x") == [(Path("/a"), "x")]
    assert split_by_root(roots, "/ab") == []


def test_roots_that_lie_in_one_another_are_all_kept_up_to_date(tmp_path: Path) -> None:
    outer, inner = tmp_path / "root", tmp_path / "root" / "sub"
    inner.mkdir(parents=True)
    (inner / "a.txt").write_text("first\n")
    with watching_of(tmp_path / "index.db", outer, inner) as watched:
        (inner / "b.txt").write_text("second\n")
        watched.until(lambda: found(watched.index, "second") == ["b.txt", "sub/b.txt"])
        (inner / "a.txt").unlink()
        watched.until(lambda: found(watched.index, "first") == [])


def test_a_change_of_the_rules_above_a_root_counts(tmp_path: Path) -> None:
    root = tmp_path / "repository" / "src"
    root.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(root.parent)], check=True)
    (root / "a.txt").write_text("first\n")
    with watching_of(tmp_path / "index.db", root) as watched:
        for rules in (root.parent / ".gitignore", root.parent / ".git" / "info" / "exclude"):
            rules.parent.mkdir(exist_ok=True)
            rules.write_text("a.txt\n")
            watched.until(lambda: found(watched.index, "first") == [])
            rules.unlink()
            watched.until(lambda: found(watched.index, "first") == ["a.txt"])


def test_what_is_written_to_the_output_of_reports_makes_no_report(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    with (root / "watch.log").open("w") as output:
        outputs = outputs_of([output.fileno()])
        with watching_of(tmp_path / "index.db", root, outputs=outputs) as watched:
            output.write("reported\n")
            output.flush()
            (root / "b.txt").write_text("second\n")
            watched.until(lambda: found(watched.index, "second") == ["b.txt"])

            assert found(watched.index, "reported") == []
