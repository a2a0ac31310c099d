"""`weft doctor`."""

import sqlite3
import sys
import zoneinfo
from importlib.util import find_spec

import click
from msgspec import Struct

from weft import __version__
from weft.cli.options import store_options
from weft.cli.output import print_json
from weft.cli.running import with_app
from weft.cli.saying import echo, styled
from weft.cli.text import plural, printable
from weft.errors import EXIT_FAILED, WeftError
from weft.store.errors import StoreNotFound

_OLDEST_SQLITE = (3, 37, 0)
"""The first with STRICT tables."""


class Check(Struct, frozen=True):
    """One thing that was looked at."""

    name: str
    is_ok: bool
    found: str


@click.command()
@store_options
def doctor(db: str | None, user: str | None, is_json: bool) -> int:
    """Check this installation, its store, models and tools; exit 1 when something is wrong."""
    # Imported here: `weft doctor --help` must not pay for it.
    from weft.cli.doctor_project import project_checks

    checks = [_python(), _sqlite(), _time_zones(), _postgresql_driver(), _store(db, user)]
    checks += [Check(*found) for found in project_checks()]
    if is_json:
        print_json(
            {"checks": [{"name": check.name, "ok": check.is_ok, "found": check.found} for check in checks]}
        )
    else:
        for check in checks:
            mark = styled("ok  ", fg="green") if check.is_ok else styled("FAIL", fg="red")
            echo(mark, f"  {check.name:<12}  {printable(check.found)}")
    return 0 if all(check.is_ok for check in checks) else EXIT_FAILED


def _python() -> Check:
    found = f"weft {__version__}, Python {sys.version.split()[0]}"
    return Check("weft", sys.version_info >= (3, 11), found)


def _sqlite() -> Check:
    is_ok = sqlite3.sqlite_version_info >= _OLDEST_SQLITE
    needed = "" if is_ok else f", needs {'.'.join(map(str, _OLDEST_SQLITE))}"
    return Check("sqlite", is_ok, f"library {sqlite3.sqlite_version}{needed}")


def _time_zones() -> Check:
    count = len(zoneinfo.available_timezones())
    return Check("time zones", count > 0, plural(count, "zone") if count else "none found; install tzdata")


def _postgresql_driver() -> Check:
    is_there = find_spec("asyncpg") is not None
    return Check(
        "postgresql",
        True,
        "driver installed" if is_there else "not installed: pip install 'weft[postgresql]'",
    )


def _store(db: str | None, user: str | None) -> Check:
    try:
        store = with_app(db, user, lambda app: app.describe())
    except StoreNotFound as error:
        return Check("store", True, error.message)
    except WeftError as error:
        return Check("store", False, f"{error.code}: {error.message}")
    what = f"{store.kind} {store.server_version}, schema {store.schema_version}"
    counts = f"{plural(store.tasks, 'task')}, {plural(store.events, 'event')}"
    problems = "".join(f"; {problem}" for problem in store.problems)
    return Check("store", not store.problems, f"{store.location} ({what}; {counts}){problems}")
