"""Run a command on an open store, and export its telemetry spans."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

import click
from msgspec import Struct

from weft.app.app import App
from weft.cli.invoke import echo_status
from weft.cli.options import TaskReference, json_option
from weft.config.settings import Settings, load_settings
from weft.gc_tuning import tune_collector
from weft.ids import TaskId

T = TypeVar("T")


class StoreOptions(Struct, frozen=True):
    """The options of commands that use a store."""

    db: str | None
    user: str | None
    is_json: bool

    def run(self, act: Callable[[App], Awaitable[T]], *, must_exist: bool = True, **options: Any) -> T:
        """Open the store, return the result of `act`, and close the store; see `App.open` for the options.

        A missing store is created unless `must_exist`; then StoreNotFound is raised.
        """

        async def run() -> T:
            async with await App.open(self.db, user_id=self.user, must_exist=must_exist, **options) as app:
                return await act(app)

        return run_async(run())

    def settings(self) -> Settings:
        """Return the settings for this store."""
        return load_settings(db=self.db, user_id=self.user)


def store_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --db, --user and --json; the command gets them as `store`."""

    @wraps(command)
    def call(*arguments: Any, db: str | None, user: str | None, is_json: bool, **options: Any) -> Any:
        store = StoreOptions(db, user, is_json)
        return command(*arguments, store=store, **_with_whole_ids(store, options))

    with_user = click.option(
        "--user",
        metavar="USER",
        help="Owner of new tasks; only this owner's tasks are visible. Environment variable: WEFT_USER. "
        "Default: no owner, all tasks visible.",
    )(json_option(call))
    return click.option(
        "--db",
        metavar="FILE|URL",
        help="Store to use: a SQLite file, postgresql://... or :memory: . Environment variable: WEFT_DB.",
    )(with_user)


def _with_whole_ids(store: StoreOptions, options: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a command with ids for the references among them."""
    given = [one for value in options.values() for one in (value if isinstance(value, tuple) else (value,))]
    references = list(dict.fromkeys(one for one in given if isinstance(one, TaskReference)))
    if not references:
        return options

    async def find(app: App) -> dict[str, TaskId]:
        return {reference: await app.find_id(reference) for reference in references}

    found = store.run(find)

    def whole(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(whole, value))
        return found[value] if isinstance(value, TaskReference) else value

    return {name: whole(value) for name, value in options.items()}


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that uses a store."""

    async def run() -> T:
        asyncio.get_running_loop().set_exception_handler(_ignore_cancelled_connections)
        tune_collector()
        return await work

    return asyncio.run(run())


def _ignore_cancelled_connections(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Hide errors of connections that Ctrl-C cancelled while they were made.

    asyncio raises InvalidStateError in a race; asyncpg leaves a ConnectionError in a future that nobody
    awaits any more, which Python reports when it deletes the future.
    """
    if not isinstance(context.get("exception"), asyncio.InvalidStateError | ConnectionError):
        loop.default_exception_handler(context)


@contextmanager
def tracing() -> Iterator[None]:
    """Export the telemetry spans of the block if an `OTEL_*` variable is set."""
    if not any(name.startswith("OTEL_") for name in os.environ):
        yield
        return
    # Imported here: slow to import.
    from weft.telemetry.exporting import set_up, shut_down

    problem = set_up()
    if problem is not None:
        echo_status(problem)
    try:
        yield
    finally:
        shut_down()
