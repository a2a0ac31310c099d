"""`weft doctor`: check the installation, the store and the project."""

import asyncio
import os
import sqlite3
import sys
import zoneinfo
from collections.abc import Callable
from importlib.util import find_spec

import click

from weft.app.host import StoreNotFound
from weft.app.models import default_problem, embedded_availability, list_models
from weft.cli.display.output import plural, print_json, printable
from weft.cli.invoke import echo, styled
from weft.cli.store_access import StoreOptions, store_options
from weft.cli.tools import list_tools, missing_tool_paths
from weft.config.settings import load_settings
from weft.errors import EXIT_FAILED, WeftError
from weft.integrations.aider.install import SIZE, VERSION, find_aider
from weft.version import __version__

_OLDEST_SQLITE = (3, 37, 0)
"""First version with STRICT tables."""


@click.command()
@store_options
def doctor(store: StoreOptions) -> int:
    """Check the installation, the store, models and tools; exit 1 if a check fails.

    No model is called and no server is started.
    """
    checks: dict[str, Callable[[], tuple[bool, str]]] = {
        "weft": _python,
        "sqlite": _sqlite,
        "time zones": _time_zones,
        "postgresql": _postgresql_driver,
        "store": lambda: _store(store),
        "models": _models,
        "tools": _tools,
        "runtime": _runtime,
        "aider": _aider,
    }
    results = {name: _run_check(check) for name, check in checks.items()}
    if store.is_json:
        print_json(
            {
                "checks": [
                    {"name": name, "ok": is_ok, "found": found} for name, (is_ok, found) in results.items()
                ]
            }
        )
    else:
        for name, (is_ok, found) in results.items():
            mark = styled("ok  ", fg="green") if is_ok else styled("FAIL", fg="red")
            echo(mark, f"  {name:<12}  {printable(found)}")
    return 0 if all(is_ok for is_ok, _ in results.values()) else EXIT_FAILED


def _run_check(check: Callable[[], tuple[bool, str]]) -> tuple[bool, str]:
    try:
        return check()
    except WeftError as error:
        return False, f"{error.code}: {error.message}"


def _python() -> tuple[bool, str]:
    return sys.version_info >= (3, 11), f"weft {__version__}, Python {sys.version.split()[0]}"


def _sqlite() -> tuple[bool, str]:
    is_ok = sqlite3.sqlite_version_info >= _OLDEST_SQLITE
    needed = "" if is_ok else f", needs {'.'.join(map(str, _OLDEST_SQLITE))}"
    return is_ok, f"library {sqlite3.sqlite_version}{needed}"


def _time_zones() -> tuple[bool, str]:
    count = len(zoneinfo.available_timezones())
    return count > 0, plural(count, "zone") if count else "none found; install tzdata"


def _postgresql_driver() -> tuple[bool, str]:
    is_there = find_spec("asyncpg") is not None
    return True, "driver installed" if is_there else "not installed: pip install 'weft[postgresql]'"


def _store(options: StoreOptions) -> tuple[bool, str]:
    try:
        store = options.run(lambda app: app.describe())
    except StoreNotFound as error:
        return True, error.message
    what = f"{store.kind} {store.server_version}, schema {store.schema_version}"
    counts = f"{plural(store.tasks, 'task')}, {plural(store.events, 'event')}"
    problems = "".join(f"; {problem}" for problem in store.problems)
    return not store.problems, f"{store.location} ({what}; {counts}){problems}"


def _models() -> tuple[bool, str]:
    """Check that all configured models are usable; built-in providers need not be configured."""
    settings = load_settings().models
    found = list_models(settings)
    wanted = {*settings.providers, *settings.aliases}
    problems = [f"{one.name}: {one.why}" for one in found if one.name in wanted and not one.is_usable]
    if problem := default_problem(settings, found):
        problems.append(f"default: {problem}")
    usable = sum(one.is_usable and one.kind == "provider" for one in found)
    summary = f"default {settings.default or 'local:auto'}; {plural(usable, 'usable provider')}"
    return not problems, "; ".join([summary, *problems])


def _tools() -> tuple[bool, str]:
    problems = missing_tool_paths()
    tools = asyncio.run(list_tools(is_connecting=False))
    problems += [f"{one.name}: {one.error}" for one in tools if one.error]
    return not problems, "; ".join([f"{plural(len(tools), 'tool')}", *problems])


def _runtime() -> tuple[bool, str]:
    found = embedded_availability()
    usable = [one.name for one in found if one.is_usable]
    if usable:
        return True, f"embedded models: {', '.join(usable)}"
    return True, "; ".join(f"{one.name}: {one.why}" for one in found) or "no embedded models"


def _aider() -> tuple[bool, str]:
    """Return where aider is; a missing aider is not a failure, because it is installed on first use."""
    settings = load_settings().executors.aider
    found = find_aider(settings, os.environ)
    if found is not None:
        return True, found.place
    if not settings.install:
        return True, "not installed, and [executors.aider] install is off"
    return True, f"not installed; version {VERSION} ({SIZE}) is installed on first use"
