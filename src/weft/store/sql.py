"""Named SQL statements, and their translation into the dialect of a database.

Each `.sql` file holds statements that begin with `-- name: some_name(first, second)`. Those in `queries` are
written once for both databases: with named parameters, and with PostgreSQL's casts and comparisons. A dialect
has its own statements in its `queries`, with the same parameters in the same order. There, the head
`-- name: some_name(...) set` marks a statement of PostgreSQL that takes an array for each parameter.
"""

import re
from functools import cache
from pathlib import Path

from weft.store.errors import SchemaTooNew, StoreNotFound
from weft.tasks.record import FIELD_NAMES

_HEAD = re.compile(r"^-- name: (\w+)\(([^)]*)\)( set)?\s*$", re.MULTILINE)
_NAMED_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")
_COLUMNS = ", ".join(FIELD_NAMES)

_WORDS = {
    "sqlite": {"true": "1", "false": "0", "fold": "casefold", "position": "instr"},
    "postgresql": {"true": "true", "false": "false", "fold": "lower", "position": "strpos"},
}
"""What words in braces stand for. SQLite compares with 1 and 0, as the conditions of its indexes do."""

_SQLITE_FORMS = (
    (re.compile(r"= ANY \(([^)]*?)(::\w+\[\])?\)"), r"IN (SELECT value FROM json_each(\1))"),
    (re.compile(r"::\w+(\[\])?"), ""),
    (re.compile(r"IS NOT DISTINCT FROM"), "IS"),
    (re.compile(r"IS DISTINCT FROM"), "IS NOT"),
    (re.compile(r' COLLATE "C"'), ""),
)
"""What SQLite writes differently. Its lists are JSON texts."""


@cache
def load_queries(dialect: str) -> dict[str, str]:
    """Return the statements of a dialect by name: those of both databases, and its own."""
    return {name: text for name, text, _ in _statements(dialect)}


@cache
def set_names(dialect: str) -> frozenset[str]:
    """Return the names of the statements that take an array for each parameter."""
    return frozenset(name for name, _, is_set in _statements(dialect) if is_set)


@cache
def _statements(dialect: str) -> list[tuple[str, str, bool]]:
    """Return the name and text of each statement, and whether it is marked as a set."""
    found = []
    for folder in ("queries", f"{dialect}/queries"):
        for file in _files(folder):
            _, *parts = _HEAD.split(file.read_text("utf-8"))
            for name, parameters, mark, text in zip(*(iter(parts),) * 4, strict=True):
                found.append((name, _translated(text, parameters, dialect), bool(mark)))
    return found


def _translated(text: str, parameters: str, dialect: str) -> str:
    """Return the text with numbered parameters, in the words of the dialect."""
    text = text.strip().rstrip(";").replace("{columns}", _COLUMNS)
    text = text.replace("{values}", ", ".join(f":{name}" for name in FIELD_NAMES))
    for word, meaning in _WORDS[dialect].items():
        text = text.replace(f"{{{word}}}", meaning)
    numbers = {
        name: number
        for number, name in enumerate(re.findall(r"\w+", parameters.replace("{columns}", _COLUMNS)), 1)
    }
    sign = "?" if dialect == "sqlite" else "$"
    text = _NAMED_PARAMETER.sub(lambda found: f"{sign}{numbers[found[1]]}", text)
    if dialect == "sqlite":
        for form, instead in _SQLITE_FORMS:
            text = form.sub(instead, text)
    return text


def is_current(dialect: str, version: int, location: str, *, must_exist: bool) -> bool:
    """Return whether a store needs no migration. Raise if it is newer, or is missing and must exist."""
    known = len(load_migrations(dialect))
    if version > known:
        raise SchemaTooNew(location=location, found=version, known=known)
    if version == 0 and must_exist:
        raise StoreNotFound(location=location)
    return version == known


@cache
def load_migrations(dialect: str) -> tuple[str, ...]:
    """Return the migrations of a dialect in order; the n-th brings the schema to version n."""
    return tuple(file.read_text("utf-8") for file in _files(f"{dialect}/migrations"))


def _files(folder: str) -> list[Path]:
    return sorted((Path(__file__).parent / folder).glob("*.sql"))
