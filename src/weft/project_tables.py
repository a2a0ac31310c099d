"""Tables of `weft.toml`: read into settings, or refused with the name of what is wrong."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from weft.errors import RequestError

T = TypeVar("T", bound=Struct)


class InvalidSetting(RequestError):
    """A setting has a value that weft does not know."""

    code = "invalid-setting"


def tables_of(document: dict[str, Any], name: str, path: Path) -> dict[str, Any]:
    """The table of tables that has this name; empty when it is not there."""
    tables = document.get(name, {})
    if not isinstance(tables, dict):
        raise InvalidSetting(f"{path}: {name} must be a table")
    return tables


def table(kind: type[T], tables: dict[str, Any], name: str, *, where: str) -> T:
    """The settings of one table; the defaults when it is not there."""
    values = tables.get(name, {})
    if not isinstance(values, dict):
        raise InvalidSetting(f"{where} must be a table")
    check_names(values, kind.__struct_fields__, where=where, what="setting")
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        # Imported here: only a mistake needs it.
        from weft.project_values import mistake

        raise InvalidSetting(f"{where}: {mistake(kind, values, meant) or error}") from error


def check_names(names: Iterable[str], known: Iterable[str], *, where: str, what: str) -> None:
    """Refuse a name that is not known, with the one that may be meant."""
    known = list(known)
    for name in names:
        if name not in known:
            raise InvalidSetting(f"{where}: unknown {what} '{name}'{meant(name, known)}")


def meant(name: str, known: Iterable[str]) -> str:
    """What may be meant by a name that is not known, as the end of a message."""
    # Imported here: only a mistake needs it, and it is slow to import.
    from difflib import get_close_matches

    known = list(known)
    close = get_close_matches(name, known, n=1)
    return f"; did you mean '{close[0]}'?" if close else f" (known: {', '.join(known)})"


def module_name(module: str, *, where: str) -> None:
    """Refuse what is not the name of a module."""
    if not all(part.isidentifier() for part in module.split(".")):
        raise InvalidSetting(f"{where}: {module!r} is not the name of a module")
