"""The lease of a root: kept while nothing is written, taken again when it was lost, waited for in words."""

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.unit.memory.index.test_index import counts, found
from weft.memory.errors import IndexBusy
from weft.memory.index import lease as leases
from weft.memory.index.index import SqliteIndex
from weft.memory.index.lease import Lease
from weft.memory.protocol import IndexProgress

WAIT_SECONDS = 30.0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    (folder / "a.txt").write_text("word\n")
    return folder


@pytest.fixture
def index(tmp_path: Path) -> Iterator[SqliteIndex]:
    opened = SqliteIndex(tmp_path / "index.db")
    yield opened
    opened.close()


def test_a_lease_is_kept_while_nothing_is_written(
    index: SqliteIndex, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "RENEW_SECONDS", 0.001)
    lease = Lease.take(index._writer, str(root))
    index._writer.execute("UPDATE memory_roots SET lease_until = 0")
    deadline = time.monotonic() + WAIT_SECONDS

    with lease.kept(index.path):
        while index.reader.execute("SELECT lease_until FROM memory_roots").fetchone() == (0,):
            assert time.monotonic() < deadline

    assert not [thread for thread in threading.enumerate() if thread.name == "weft-lease"]


def test_an_update_keeps_its_lease_until_it_ends(index: SqliteIndex, root: Path) -> None:
    names: list[str] = []

    def look(progress: IndexProgress) -> None:
        names.extend(thread.name for thread in threading.enumerate())

    index.update([root], look)

    assert "weft-lease" in names


def test_an_update_that_lost_its_lease_begins_again(index: SqliteIndex, root: Path) -> None:
    lost: list[IndexProgress] = []

    def lose(progress: IndexProgress) -> None:
        if not lost:
            lost.append(progress)
            with closing(sqlite3.connect(index.path)) as other, other:
                other.execute("UPDATE memory_roots SET lease_owner = 'other:1:x', lease_until = 1")

    assert counts(index.update([root], lose)) == (1, 1, 0, 0)
    assert (len(lost), found(index, "word")) == (1, ["a.txt"])


def test_everything_is_dropped_only_when_no_other_process_is_at_it(index: SqliteIndex, root: Path) -> None:
    index.update([root])
    other = SqliteIndex(index.path, wait_seconds=0)
    lease = Lease.take(index._writer, str(root))

    with pytest.raises(IndexBusy):
        other.drop()
    assert found(index, "word") == ["a.txt"]
    lease.release()
    other.drop()

    assert (found(index, "word"), index.status()["roots"]) == ([], [])
    other.close()


def test_a_wait_for_another_process_is_said_once(
    index: SqliteIndex, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "SAY_SECONDS", 0.0)
    lease = Lease.take(index._writer, str(root))
    said: list[str] = []

    def hear(text: str) -> None:
        said.append(text)
        lease.release()

    other = SqliteIndex(index.path, on_wait=hear)
    assert counts(other.update([root])) == (1, 1, 0, 0)
    other.close()

    assert said == [str(root)]
