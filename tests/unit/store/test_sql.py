"""Named statements: translated into each dialect, with the same parameters in both."""

import re
from importlib.resources import files

import pytest

from weft.store.sql import load_queries


def heads(dialect: str) -> dict[str, str]:
    """Return the parameters of a dialect's own statements by name."""
    folder = files(f"weft.store.{dialect}").joinpath("queries")
    texts = (file.read_text("utf-8") for file in folder.iterdir())
    return dict(
        found for text in texts for found in re.findall(r"^-- name: (\w+)\((.*)\)", text, re.MULTILINE)
    )


def test_a_statement_with_its_own_text_in_each_dialect_has_the_same_parameters() -> None:
    sqlite, postgresql = heads("sqlite"), heads("postgresql")
    # Each database executes these itself.
    shared = (sqlite.keys() & postgresql.keys()) - {"renew_worker", "release_dependents"}

    assert len(shared) > 10
    assert {name: sqlite[name] for name in shared} == {name: postgresql[name] for name in shared}


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        ("sqlite", "id IN (SELECT value FROM json_each(?1)) AND (?2 OR user_id IS ?3)"),
        ("postgresql", "id = ANY ($1::uuid[]) AND ($2::boolean OR user_id IS NOT DISTINCT FROM $3)"),
    ],
)
def test_a_statement_of_both_databases_is_translated(dialect: str, expected: str) -> None:
    assert expected in load_queries(dialect)["get_tasks"]


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_nothing_of_the_common_notation_is_left(dialect: str) -> None:
    for name, text in load_queries(dialect).items():
        assert not re.search(r"\{|(?<!:):[a-z]", text), name
