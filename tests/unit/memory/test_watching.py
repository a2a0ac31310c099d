"""Watching: what changes is in the index soon, whatever the change."""

import queue
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.unit.memory.test_index import found
from weft.memory import watching
from weft.memory.index import SqliteIndex
from weft.memory.protocol import IndexReport
from weft.memory.watching import place_of, watch_roots

WAIT_SECONDS = 30.0


class Watched:
    """A root that is watched in a thread."""

    def __init__(self, index: SqliteIndex, root: Path) -> None:
        self.index, self.root = index, root
        self._reports: queue.Queue[IndexReport] = queue.Queue()
        self._stop = threading.Event()
        ready = threading.Event()
        self._thread = threading.Thread(
            target=watch_roots, args=(index, [root], self._reports.put, self._stop, ready.set)
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


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "a.txt").write_text("first\n")
    index = SqliteIndex(tmp_path / "index.db")
    started = Watched(index, root)
    yield started
    started.stop()
    index.close()


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
    monkeypatch.setattr(watching, "AGAIN_SECONDS", 0.0)
    failed = threading.Event()
    monkeypatch.setattr(watching.log, "warning", lambda *_, **__: failed.set())
    watched.index._writer.execute("PRAGMA busy_timeout = 0")
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
    monkeypatch.setattr(watching.log, "warning", lambda *_, **__: gone.set())
    shutil.rmtree(watched.root)
    assert gone.wait(WAIT_SECONDS)
    watched.root.mkdir()
    watched.until(lambda: found(watched.index, "first") == [])
    (watched.root / "c.txt").write_text("third\n")

    watched.until(lambda: found(watched.index, "third") == ["c.txt"])


def test_a_path_belongs_to_the_innermost_root() -> None:
    roots = [Path("/a"), Path("/a/b")]

    assert place_of(roots, "/a/b/c/d") == (Path("/a/b"), "c/d")
    assert place_of(roots, "/a/x") == (Path("/a"), "x")
    assert place_of(roots, "/ab") is None
