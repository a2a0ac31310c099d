"""Commands that need a store say that there is none, and make none."""

import json
from pathlib import Path

import pytest

from tests.command_line import weft

ID = "00000000-0000-4000-8000-000000000000"

NEEDS_ONE = [
    ("tasks", "list"),
    ("tasks", "show", ID),
    ("tasks", "tree", ID),
    ("tasks", "events"),
    ("tasks", "events", ID),
    ("tasks", "export", ID),
    ("tasks", "watch", ID),
    ("tasks", "cancel", ID),
    ("tasks", "retry", ID),
    ("tasks", "copy", ID),
    ("tasks", "link", ID),
    ("tasks", "archive", ID),
    ("tasks", "update", ID, "name=x"),
    ("tasks", "delete", ID),
    ("schedule", "list"),
    ("schedule", "next", ID),
    ("schedule", "enable", ID),
    ("schedule", "disable", ID),
    ("flow", "run", ID),
]


@pytest.mark.parametrize("arguments", NEEDS_ONE, ids=" ".join)
def test_a_command_that_needs_a_store_makes_none(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    db = tmp_path / ".weft" / "weft.db"

    ran = weft(*arguments, db=str(db))

    assert ran.code == 3, ran.err
    assert ran.err == f"error: store-not-found: no store at {db}; `weft run` and `weft flow run` create one\n"
    assert list(tmp_path.iterdir()) == []


def test_doctor_finds_nothing_wrong_with_there_being_none_yet(store_url: str) -> None:
    for _ in range(2):  # the first has not made it
        ran = weft("doctor", db=store_url)

        assert ran.code == 0, ran.out
        assert "no store at " in ran.out


def test_reading_makes_no_tables_in_a_database(store_url: str) -> None:
    for _ in range(2):
        assert weft("tasks", "list", db=store_url).code == 3

    assert weft("flow", "submit", "-", db=store_url, stdin=json.dumps([{"name": "a"}])).code == 0
    assert weft("tasks", "list", "--json", db=store_url).json["total"] == 1


def test_an_empty_file_is_no_store_yet(tmp_path: Path) -> None:
    (tmp_path / "weft.db").touch()

    assert weft("tasks", "list", db=str(tmp_path / "weft.db")).code == 3
    assert (tmp_path / "weft.db").stat().st_size == 0
    assert list(tmp_path.iterdir()) == [tmp_path / "weft.db"]
