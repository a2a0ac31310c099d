"""Migrations: the n-th file of a dialect brings a store to version n, for every store that was ever made."""

from importlib.resources import files

import pytest


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_migrations_are_numbered_without_gaps_and_repetitions(dialect: str) -> None:
    names = sorted(file.name for file in files(f"weft.store.{dialect}").joinpath("migrations").iterdir())

    assert [int(name.partition("_")[0]) for name in names] == list(range(1, len(names) + 1))
