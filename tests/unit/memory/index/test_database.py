"""The file of the index: whose it is, and what goes wrong with it."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.unit.memory.index.test_index import counts, found, is_sound
from weft.memory.errors import IndexDamaged, IndexFileFailed, IndexReplaced, NotAnIndex
from weft.memory.index import database
from weft.memory.index.database import clear_errors, has_index, transaction
from weft.memory.index.index import SqliteIndex
from weft.memory.protocol import Query, QueryPart
from weft.memory.search.matcher import LexicalMatcher

MARK = 0x77656674


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
    for number in range(30):
        (folder / f"{number}.txt").write_text(" ".join(f"word{number}{place}" for place in range(500)))
    return folder


@pytest.mark.parametrize(
    "statements",
    [
        ("CREATE TABLE notes (text)",),
        ("CREATE TABLE memory_meta (key, value)",),
        ("PRAGMA application_id = 7", "PRAGMA user_version = 1"),
    ],
)
def test_a_file_of_another_program_is_refused_and_stays_as_it_was(
    tmp_path: Path, statements: tuple[str, ...]
) -> None:
    path = database_of(tmp_path / "index.db", *statements)
    before = path.read_bytes()

    with pytest.raises(NotAnIndex, match="not one of weft's"):
        has_index(path, MARK)
    with pytest.raises(NotAnIndex, match="not one of weft's"):
        SqliteIndex(path, application_id=MARK)

    assert path.read_bytes() == before


def test_a_text_that_is_too_short_for_a_database_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_text("mine\n")

    with pytest.raises(NotAnIndex, match="not a SQLite database"):
        SqliteIndex(path, application_id=MARK)

    assert path.read_text() == "mine\n"


@pytest.mark.parametrize("name", ["index.db", "weft.db"])
def test_a_new_file_is_marked_whatever_its_name(tmp_path: Path, name: str) -> None:
    SqliteIndex(tmp_path / name, application_id=MARK).close()

    with closing(sqlite3.connect(tmp_path / name)) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (MARK,)


def test_to_look_for_an_index_makes_none(tmp_path: Path) -> None:
    store = database_of(tmp_path / "weft.db", f"PRAGMA application_id = {MARK}", "CREATE TABLE tasks (id)")
    before = store.read_bytes()

    assert not has_index(store, MARK)
    assert not has_index(tmp_path / "none.db", MARK)
    assert store.read_bytes() == before
    assert not (tmp_path / "none.db").exists()
    SqliteIndex(store, application_id=MARK).close()
    assert has_index(store, MARK)


def test_a_full_disk_is_said_and_what_was_written_before_stays(tmp_path: Path, root: Path) -> None:
    index = SqliteIndex(tmp_path / "index.db")
    pages = index._writer.execute("PRAGMA page_count").fetchone()[0]
    index._writer.execute(f"PRAGMA max_page_count = {pages + 10}")

    with pytest.raises(IndexFileFailed, match="the disk is full"):
        index.update([root])

    assert not index._writer.in_transaction
    index._writer.execute("PRAGMA max_page_count = 1000000")
    assert counts(index.update([root]))[0] == 30
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


def test_a_damaged_file_is_said_and_a_mistake_of_ours_is_not_hidden(tmp_path: Path) -> None:
    (tmp_path / "index.db").write_text("no database " * 100)
    damaged, sound = sqlite3.connect(tmp_path / "index.db"), sqlite3.connect(":memory:")

    with pytest.raises(IndexDamaged, match="not a database"), clear_errors(tmp_path):
        damaged.execute("SELECT * FROM sqlite_master")
    with pytest.raises(sqlite3.OperationalError, match="syntax"), clear_errors(tmp_path):
        sound.execute("no SQL")

    damaged.close()
    sound.close()


def test_a_commit_that_fails_leaves_no_transaction_open(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("CREATE TABLE one (id INTEGER PRIMARY KEY)")
        connection.execute("CREATE TABLE two (one REFERENCES one DEFERRABLE INITIALLY DEFERRED)")

        with pytest.raises(sqlite3.IntegrityError), transaction(connection):
            connection.execute("INSERT INTO two VALUES (1)")  # told by COMMIT only

        assert not connection.in_transaction


def test_a_process_that_runs_on_leaves_the_tables_of_another_version_alone(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "index.db"
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
            running.drop,
            lambda: matcher.match(Query(parts=(QueryPart("word10"),))),
        ):
            with pytest.raises(IndexReplaced, match="another version of weft"):
                act()

        assert counts_of_tables(running) == (30, 1)
        assert found(running, "zebra") == []


def counts_of_tables(index: SqliteIndex) -> tuple[int, int]:
    """How many files and roots there are."""
    statement = "SELECT (SELECT count(*) FROM memory_files), (SELECT count(*) FROM memory_roots)"
    files, roots = index.reader.execute(statement).fetchone()
    return files, roots


def test_the_file_is_small_again_when_everything_is_dropped(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = database_of(tmp_path / "store.db", f"PRAGMA application_id = {MARK}", "CREATE TABLE notes (text)")
    with closing(SqliteIndex(path, application_id=MARK)) as index:
        index._writer.execute("INSERT INTO notes VALUES ('kept')")
        index._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        empty = path.stat().st_size

        for is_quick in (False, True):
            index.update([root])
            index._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            full = path.stat().st_size
            with monkeypatch.context() as patched:
                if not is_quick:
                    patched.setattr(database, "QUICK_PAGES", 0)
                index.drop()
            assert path.stat().st_size == (empty if is_quick else full)

        assert empty < full
        assert index._writer.execute("SELECT text FROM notes").fetchall() == [("kept",)]
        assert counts(index.update([root]))[0] == 30
