"""Named SQL statements: each `.sql` file holds statements that begin with `-- name: some_name`."""

import re
from functools import cache
from importlib.resources import files

from weft.tasks.record import FIELD_NAMES

_HEAD = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)
_COLUMNS = ", ".join(FIELD_NAMES)


@cache
def load_queries(dialect: str) -> dict[str, str]:
    """Return the statements of a dialect by name, with `{columns}` replaced by the fields of the record."""
    queries: dict[str, str] = {}
    for file in sorted(
        files(f"weft.store.{dialect}").joinpath("queries").iterdir(), key=lambda file: file.name
    ):
        _, *parts = _HEAD.split(file.read_text("utf-8"))
        for name, text in zip(parts[::2], parts[1::2], strict=True):
            queries[name] = text.strip().rstrip(";").replace("{columns}", _COLUMNS)
    return queries


@cache
def load_migrations(dialect: str) -> tuple[str, ...]:
    """Return the migrations of a dialect in order; the n-th brings the schema to version n."""
    folder = files(f"weft.store.{dialect}").joinpath("migrations")
    return tuple(file.read_text("utf-8") for file in sorted(folder.iterdir(), key=lambda file: file.name))
