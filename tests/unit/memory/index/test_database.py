"""The file of the index: a cache, which is replaced when it is damaged or of another version."""

import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.unit.memory.index.test_index import counts, found, is_sound
from weft.cli.index import drop, status
from weft.cli.invoke import run_command
from weft.effects.memory import index_file, open_index
from weft.evaluator.effects import ContextQuery
from weft.memory.errors import IndexBusy, IndexFileFailed
from weft.memory.index import database
from weft.memory.index.database import lock_updates, transaction
from weft.memory.index.index import SqliteIndex
from weft.memory.memory import Memory
from weft.memory.protocol import Query, QueryPart
from weft.memory.search.matcher import LexicalMatcher

FILES = 30


def database_of(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    for number in range(FILES):
        (folder / f"{number}.txt").write_text(" ".join(f"word{number}{place}" for place in range(500)))
    return folder


@pytest.fixture
def path(tmp_path: Path, root: Path) -> Path:
    """Return the file of an index of the root."""
    (tmp_path / ".weft").mkdir()
    with closing(SqliteIndex(tmp_path / ".weft" / "index.db")) as index:
        index.update([root])
    return tmp_path / ".weft" / "index.db"


def replacements(caplog: pytest.LogCaptureFixture) -> int:
    return sum(getattr(record, "action", "") == "index_replaced" for record in caplog.records)


def overwrite(path: Path, start: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(content)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "text": lambda path: path.write_text("no database " * 100),
    "short": lambda path: path.write_text("x"),
    "header": lambda path: overwrite(path, 0, b"\0" * 60),
    "pages": lambda path: overwrite(path, 4096, b"\xff" * (path.stat().st_size - 8192)),
    "truncated": lambda path: os.truncate(path, 8192),
    "packed texts": lambda path: database_of(path, "UPDATE memory_texts SET text = x'00112233'"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_replaced_by_a_search(
    path: Path, root: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    DAMAGES[damage](path)

    with closing(SqliteIndex(path)) as index:
        memory = Memory(index, LexicalMatcher(index), [root], on_close=lambda: None)
        found = memory.find(ContextQuery(query="word29499"))

        assert (found.warnings, [match.chunk.path for match in found.matches][:1]) == ((), ["29.txt"])
        assert is_sound(index)
    assert replacements(caplog) == 1


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_replaced_by_an_update(
    path: Path, root: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    DAMAGES[damage](path)
    (root / "1.txt").unlink()
    (root / "2.txt").write_text("other")

    with closing(SqliteIndex(path)) as index:
        assert counts(index.update([root])) == (FILES - 1, FILES - 1, 0, 0)
        assert is_sound(index)
    assert replacements(caplog) == 1


def test_a_process_that_has_the_damaged_file_open_uses_the_new_one(path: Path, root: Path) -> None:
    with closing(SqliteIndex(path)) as first, closing(SqliteIndex(path)) as second:
        assert found(first, "word29499") == ["29.txt"]
        database_of(path, "UPDATE memory_texts SET text = x'00112233'")
        (root / "29.txt").unlink()
        second.update([root])

        assert found(first, "word29499") == []
        assert counts(first.update([root])) == (FILES - 1, 0, 0, 0)
        assert is_sound(first)


def test_a_mistake_of_ours_is_not_hidden(path: Path) -> None:
    with (
        closing(SqliteIndex(path)) as index,
        pytest.raises(sqlite3.OperationalError, match="syntax"),
        database.clear_errors(path),
    ):
        index.connection.execute("no SQL")


@pytest.fixture
def old(path: Path) -> Path:
    """Return the file of an index of another version."""
    return database_of(
        path, f"PRAGMA user_version = {database.SCHEMA_VERSION - 1}", "DROP TABLE memory_texts"
    )


def test_an_index_of_another_version_is_replaced(
    old: Path, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for added in (FILES, 0):
        with closing(SqliteIndex(old)) as index:
            assert counts(index.update([root])) == (FILES, added, 0, 0)

    assert replacements(caplog) == 1


def test_status_and_drop_replace_an_index_of_another_version(
    old: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(old.parent.parent)
    for command in (status, drop):
        database_of(old, "PRAGMA user_version = 1")
        assert run_command(command, ["--db", str(old.with_name("weft.db"))]) == 0
    assert (
        capsys.readouterr().out == "no files are indexed; run: weft index\n0 folders dropped from the index\n"
    )


def test_a_process_that_runs_on_leaves_the_tables_of_another_version_alone(
    path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(SqliteIndex(path)) as running, closing(LexicalMatcher(running)) as matcher:
        running.update([root])
        with monkeypatch.context() as later:
            later.setattr(database, "SCHEMA_VERSION", database.SCHEMA_VERSION + 1)
            with closing(SqliteIndex(path)) as other:
                other.update([root])
        (root / "new.txt").write_text("zebra\n")

        for act in (
            lambda: running.update([root]),
            lambda: running.update_paths(root, ["new.txt"]),
            lambda: running.drop([root]),
            lambda: matcher.match(Query(parts=(QueryPart("word10"),))),
        ):
            with pytest.raises(IndexFileFailed, match="another version of weft"):
                act()

        assert running.connection.execute("SELECT count(*) FROM memory_files").fetchone() == (FILES,)


@pytest.mark.parametrize(
    "statements",
    [
        ("CREATE TABLE notes (text)",),
        ("CREATE TABLE memory_meta (key, value)",),
        ("CREATE TABLE memory_roots (x)", "CREATE TABLE memory_words (x)", "CREATE TABLE tasks (x)"),
        ("PRAGMA application_id = 7", "CREATE TABLE notes (text)"),
    ],
)
def test_a_database_of_another_application_is_refused_and_stays_as_it_was(
    tmp_path: Path, statements: tuple[str, ...]
) -> None:
    (tmp_path / ".weft").mkdir()
    path = database_of(tmp_path / ".weft" / "index.db", *statements)
    before = path.read_bytes()

    with pytest.raises(IndexFileFailed, match="a database of another application"):
        SqliteIndex(path)

    assert path.read_bytes() == before


@pytest.mark.parametrize("text", ["mine\n", "mine\n" * 1000])
def test_a_text_outside_of_our_folder_is_refused_and_stays_as_it_was(tmp_path: Path, text: str) -> None:
    path = tmp_path / "index.db"
    path.write_text(text)

    with pytest.raises(IndexFileFailed, match="not an index of weft"):
        SqliteIndex(path)

    assert path.read_text() == text


def test_an_index_in_the_file_of_the_store_goes_and_the_store_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = database_of(
        tmp_path / "weft.db",
        "CREATE TABLE tasks (id)",
        "CREATE TABLE memory_meta (key, value)",
        "CREATE VIRTUAL TABLE memory_words USING fts5 (content)",
    )
    monkeypatch.chdir(tmp_path)

    open_index(str(store)).close()

    with closing(sqlite3.connect(store)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("tasks",)]


@pytest.mark.parametrize(
    ("db", "index"),
    [
        ("a/.weft/weft.db", "a/.weft/index.db"),
        ("a/store.db", "a/store-index.db"),
        ("postgresql://host/x", "here/.weft/index.db"),
        (":memory:", "here/.weft/index.db"),
    ],
)
def test_the_index_is_beside_the_store_or_in_the_folder_of_the_project(db: str, index: str) -> None:
    assert index_file(db, Path("here")) == Path(index)


def test_a_full_disk_is_said_and_what_was_written_before_stays(tmp_path: Path, root: Path) -> None:
    index = SqliteIndex(tmp_path / "index.db")
    pages = index.connection.execute("PRAGMA page_count").fetchone()[0]
    index.connection.execute(f"PRAGMA max_page_count = {pages + 10}")

    with pytest.raises(IndexFileFailed, match="the disk is full"):
        index.update([root])

    assert not index.connection.in_transaction
    index.connection.execute("PRAGMA max_page_count = 1000000")
    assert counts(index.update([root]))[0] == FILES
    assert is_sound(index)
    index.close()


def test_a_file_that_another_program_holds_is_said(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_SECONDS", 0.0)
    index = SqliteIndex(tmp_path / "index.db")
    with closing(sqlite3.connect(index.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for work in (lambda: index.update([root]), lambda: index.update_paths(root, ["1.txt"]), index.drop):
            with pytest.raises(IndexFileFailed, match="another process has locked it"):
                work()
        other.execute("ROLLBACK")

    index.update([root])
    assert found(index, "word11") == ["1.txt"]
    index.close()


def test_a_commit_that_fails_leaves_no_transaction_open(path: Path) -> None:
    with closing(SqliteIndex(path)) as index:
        connection = index.connection
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("CREATE TABLE one (id INTEGER PRIMARY KEY)")
        connection.execute("CREATE TABLE two (one REFERENCES one DEFERRABLE INITIALLY DEFERRED)")

        with pytest.raises(sqlite3.IntegrityError), transaction(connection):
            connection.execute("INSERT INTO two VALUES (1)")  # told by COMMIT only

        assert not connection.in_transaction


def test_the_file_is_small_again_when_everything_is_dropped(path: Path, root: Path) -> None:
    full = path.stat().st_size
    with closing(SqliteIndex(path)) as index, closing(SqliteIndex(path)) as other:
        assert found(other, "word29499") == ["29.txt"]
        index.drop()

        assert path.stat().st_size < full / 2
        assert (found(other, "word29499"), other.status()["roots"]) == ([], [])
        assert counts(other.update([root]))[0] == FILES


@contextmanager
def updating(path: Path) -> Iterator[None]:
    """Hold the lock of updates, as another process does."""
    with lock_updates(path, 0, None, is_shared=False):
        yield


def test_one_at_a_time_updates_an_index_and_others_read(path: Path, root: Path) -> None:
    (root / "1.txt").unlink()
    with closing(SqliteIndex(path, wait_seconds=0)) as index:
        with updating(path):
            for work in (lambda: index.update([root]), lambda: index.drop([root]), index.drop):
                with pytest.raises(IndexBusy):
                    work()
            assert found(index, "word11") == ["1.txt"]

        assert counts(index.update([root])) == (FILES - 1, 0, 0, 1)


def test_a_wait_for_another_process_is_said_once(
    path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "SAY_SECONDS", 0.0)
    has_waited = threading.Event()
    said: list[str] = []

    def on_wait() -> None:
        said.append("waits")
        has_waited.set()

    index = SqliteIndex(path, on_wait=on_wait)
    thread = threading.Thread(target=index.update, args=([root],))
    with updating(path):
        thread.start()
        assert has_waited.wait(30)
    thread.join()
    index.close()

    assert said == ["waits"]


def test_replacing_is_quiet_for_a_new_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    SqliteIndex(tmp_path / "index.db").close()

    assert replacements(caplog) == 0
